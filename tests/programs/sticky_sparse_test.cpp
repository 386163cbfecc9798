// Sparse matrices of sticky integers against exact sums over what is stored: ERR is an element that
// is stored as any other, and spoils what it is added to or multiplied with.
#include <algorithm>
#include <cstring>

#include "aster.h"

namespace programs {
namespace {

using aster_ml::Array;
using aster_ml::Sparse;
using aster_ml::SparseFormat;
__extension__ typedef __int128 Exact;
using Words = std::vector<int64_t>;

struct Width {
  int32_t code, sums;
  int bits, sum_bits;
  int64_t most() const { return INT64_MAX >> (64 - bits); }
  int64_t error() const { return -most() - 1; }
};
constexpr Width kWidths[] = {{ASTER_ML_DTYPE_TBB8, ASTER_ML_DTYPE_TBB32, 8, 32},
                             {ASTER_ML_DTYPE_TBB16, ASTER_ML_DTYPE_TBB64, 16, 64},
                             {ASTER_ML_DTYPE_TBB32, ASTER_ML_DTYPE_TBB64, 32, 64},
                             {ASTER_ML_DTYPE_TBB64, ASTER_ML_DTYPE_TBB64, 64, 64}};
constexpr SparseFormat kFormats[] = {SparseFormat::coo, SparseFormat::csr, SparseFormat::csc};

// A sum that is checked once.
struct Sum {
  Exact low = 0, high = 0;
  bool error = false, stored = false;
  void add(Exact x, bool bad) {
    low += static_cast<uint64_t>(x);
    high += x >> 64;
    error |= bad;
    stored = true;
  }
  int64_t value(int bits) const {
    const int64_t most = INT64_MAX >> (64 - bits);
    const Exact above = high + (low >> 64),
                all = above * (Exact{1} << 64) + static_cast<uint64_t>(low);
    const bool fits = (above == 0 || above == -1) && all <= most && all >= -Exact{most};
    return error || !fits ? -most - 1 : static_cast<int64_t>(all);
  }
};

// Elements of b bits as they lie in memory, and back.
std::vector<char> bytes_of(const Words& words, int bits) {
  const auto size = static_cast<size_t>(bits / 8);
  std::vector<char> out(words.size() * size + 8);
  for (size_t i = 0; i < words.size(); ++i) std::memcpy(out.data() + i * size, &words[i], size);
  return out;
}
Words words_of(const Array& x, int bits) {
  const auto size = static_cast<size_t>(bits / 8);
  const size_t count = aster_ml_tensor_count(x.get());
  std::vector<char> bytes(count * size + 8);
  EXPECT_EQ(aster_ml_tensor_copy_out(bytes.data(), x.get(), count), 0) << last_error();
  Words out(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * size, size);
    out[i] = static_cast<int64_t>(word << (64 - bits)) >> (64 - bits);
  }
  return out;
}

// What a matrix is made of: any order, some places twice.
struct Elements {
  int64_t rows, columns;
  Words row, column, value;
  std::vector<Sum> places(const Width& w) const {
    std::vector<Sum> out(static_cast<size_t>(rows * columns));
    for (size_t p = 0; p < value.size(); ++p) {
      out[static_cast<size_t>(row[p] * columns + column[p])].add(value[p], value[p] == w.error());
    }
    return out;
  }
  // The element of each place, 0 where none is.
  Words dense(const Width& w) const {
    Words out;
    for (const Sum& sum : places(w)) out.push_back(sum.value(w.bits));
    return out;
  }
};

class StickySparse : public testing::Test {
 protected:
  Array array(int32_t code, int bits, const Words& words, const Shape& shape) {
    const std::vector<char> bytes = bytes_of(words, bits);
    std::vector<size_t> sizes(shape.begin(), shape.end());
    aster_ml_tensor out{};
    EXPECT_EQ(aster_ml_tensor_from_data(&out, Context::current().root().get(), bytes.data(), code,
                                        sizes.size(), sizes.data()),
              0)
        << last_error();
    return Array(std::move(out), Context::current().root());
  }
  Sparse sparse(const Width& w, const Elements& e, bool wide) {
    const auto count = static_cast<int64_t>(e.value.size());
    const int32_t index = wide ? ASTER_ML_DTYPE_INT64 : ASTER_ML_DTYPE_INT32;
    const int bits = wide ? 64 : 32;
    Sparse out(SparseFormat::coo, e.rows, e.columns, array(index, bits, e.row, {count}),
               array(index, bits, e.column, {count}), array(w.code, w.bits, e.value, {count}));
    EXPECT_OK(out);
    return out;
  }
  Elements random_elements(const Width& w, int64_t rows, int64_t columns, size_t count, int bits) {
    Elements e{rows, columns, {}, {}, {}};
    for (size_t p = 0; p < count; ++p) {
      e.row.push_back(static_cast<int64_t>(random_() % static_cast<uint64_t>(rows)));
      e.column.push_back(static_cast<int64_t>(random_() % static_cast<uint64_t>(columns)));
      const int64_t value = static_cast<int64_t>(random_()) >> (64 - bits);
      e.value.push_back(random_() % 16 == 0 ? w.error() : value < -w.most() ? 0 : value);
    }
    return e;
  }
  Session session_;
  std::mt19937_64 random_{41};
};

TEST_F(StickySparse, DuplicatesAreSummedExactlyAndErrorsStayStored) {
  for (const Width& w : kWidths) {
    const int64_t most = w.most(), e = w.error();
    const Elements x{3,
                     3,
                     {0, 1, 0, 2, 0, 1, 2, 2, 1},
                     {0, 1, 0, 2, 0, 1, 0, 0, 2},
                     {most, 1, most, e, -most, most, 5, -5, 0}};
    for (const bool wide : {false, true}) {
      for (const SparseFormat format : kFormats) {
        const Sparse y = sparse(w, x, wide).compress(format);
        ASSERT_TRUE(y.ok()) << last_error();
        EXPECT_EQ(y.count(), 5);
        EXPECT_EQ(words_of(y.dense(), w.bits), (Words{most, 0, 0, 0, e, 0, 0, 0, e}));
        EXPECT_EQ(words_of(y.transpose().dense(), w.bits), (Words{most, 0, 0, 0, e, 0, 0, 0, e}));
        EXPECT_EQ(words_of(y.slice(1, 3).dense(), w.bits), (Words{0, e, 0, 0, 0, e}));
      }
    }
  }
}

TEST_F(StickySparse, ErrorsOfDenseMatricesAreStored) {
  for (const Width& w : kWidths) {
    const Words dense = {0, w.error(), 3, 0, 0, -w.most()};
    for (const SparseFormat format : kFormats) {
      const Sparse x = Sparse::from_dense(array(w.code, w.bits, dense, {2, 3}), format);
      ASSERT_TRUE(x.ok()) << last_error();
      EXPECT_EQ(x.count(), 3);
      EXPECT_EQ(words_of(x.dense(), w.bits), dense);
    }
  }
}

TEST_F(StickySparse, SumsAndProductsOfElements) {
  for (const Width& w : kWidths) {
    for (int turn = 0; turn < 4; ++turn) {
      const int bits = turn % 2 == 0 ? w.bits : w.bits / 2;
      const Elements a = random_elements(w, 7, 9, 30, bits), b = random_elements(w, 7, 9, 25, bits);
      const Sparse x = sparse(w, a, turn > 1), y = sparse(w, b, false);
      const Sparse results[] = {x + y, x - y, x * y};
      const std::vector<Sum> left = a.places(w), right = b.places(w);
      const Words l = a.dense(w), r = b.dense(w);
      int64_t stored[3] = {};
      for (int op = 0; op < 3; ++op) {
        ASSERT_TRUE(results[op].ok()) << last_error();
        ASSERT_EQ(static_cast<int32_t>(results[op].dtype()), w.code);
        const Words found = words_of(results[op].dense(), w.bits);
        for (size_t i = 0; i < found.size(); ++i) {
          Sum sum;
          const bool both = left[i].stored && right[i].stored;
          const bool bad = l[i] == w.error() || r[i] == w.error();
          if (op < 2) sum.add(op == 0 ? Exact{l[i]} + r[i] : Exact{l[i]} - r[i], bad);
          if (op == 2 && both) sum.add(Exact{l[i]} * r[i], bad);
          stored[op] += op == 2 ? both : left[i].stored || right[i].stored;
          ASSERT_EQ(found[i], sum.value(w.bits)) << "tbb" << w.bits << " " << op << " at " << i;
        }
        EXPECT_EQ(results[op].count(), stored[op]);
      }
    }
  }
}

// An ERR of x spoils the row, one of y a column of the rows that have an element for it.
TEST_F(StickySparse, ProductsOfMatrices) {
  for (const Width& w : kWidths) {
    for (const int bits : {w.bits, w.bits - 2, w.bits / 2}) {
      for (const int64_t columns : {1, 5, 37}) {
        const Elements a = random_elements(w, 11, 13, 40, bits);
        const Elements b = random_elements(w, 13, columns, static_cast<size_t>(4 * columns), bits);
        const Sparse x = sparse(w, a, false), y = sparse(w, b, columns == 5);
        const Words l = a.dense(w), r = b.dense(w);
        const std::vector<Sum> in_a = a.places(w), in_b = b.places(w);
        const Array dense = array(w.code, w.bits, r, {13, columns});
        const Array by_dense = x.matmul(dense);
        const Sparse by_sparse = x.matmul(y);
        ASSERT_TRUE(by_dense.ok() && by_sparse.ok()) << last_error();
        ASSERT_EQ(static_cast<int32_t>(by_dense.dtype()), w.sums);
        ASSERT_EQ(static_cast<int32_t>(by_sparse.dtype()), w.sums);
        const Words first = words_of(by_dense, w.sum_bits),
                    second = words_of(by_sparse.dense(), w.sum_bits);
        int64_t stored = 0;
        for (int64_t i = 0; i < 11; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            Sum all, both;
            for (int64_t k = 0; k < 13; ++k) {
              const auto p = static_cast<size_t>(i * 13 + k),
                         q = static_cast<size_t>(k * columns + j);
              if (!in_a[p].stored) continue;
              const bool bad = l[p] == w.error() || r[q] == w.error();
              all.add(Exact{l[p]} * r[q], bad);
              if (in_b[q].stored) both.add(Exact{l[p]} * r[q], bad);
            }
            stored += both.stored;
            const auto at = static_cast<size_t>(i * columns + j);
            ASSERT_EQ(first[at], all.value(w.sum_bits)) << "tbb" << w.bits << " " << i << " " << j;
            ASSERT_EQ(second[at], both.value(w.sum_bits))
                << "tbb" << w.bits << " " << i << " " << j;
          }
        }
        EXPECT_EQ(by_sparse.count(), stored);
      }
    }
  }
}

TEST_F(StickySparse, Reductions) {
  for (const Width& w : kWidths) {
    const Elements e = random_elements(w, 40, 30, 300, w.bits);
    const Words dense = e.dense(w);
    for (const SparseFormat format : kFormats) {
      const Sparse x = sparse(w, e, false).compress(format);
      for (const int64_t axis : {0, 1}) {
        const int64_t results = axis == 0 ? 30 : 40;
        const Array sums = x.sum(axis);
        ASSERT_EQ(static_cast<int32_t>(sums.dtype()), w.sums);
        const Words totals = words_of(sums, w.sum_bits), most = words_of(x.max(axis), w.bits),
                    least = words_of(x.min(axis), w.bits);
        for (int64_t i = 0; i < results; ++i) {
          Sum sum;
          int64_t up = INT64_MIN, down = INT64_MAX;
          for (int64_t k = 0; k < 70 - results; ++k) {
            const int64_t v = dense[static_cast<size_t>(axis == 0 ? k * 30 + i : i * 30 + k)];
            sum.add(v, v == w.error());
            up = std::max(up, v);
            down = std::min(down, v);
          }
          const auto at = static_cast<size_t>(i);
          ASSERT_EQ(totals[at], sum.value(w.sum_bits)) << "tbb" << w.bits;
          ASSERT_EQ(most[at], sum.error ? w.error() : up);
          ASSERT_EQ(least[at], down);
        }
      }
      EXPECT_EQ(words_of(x.sum(), w.sum_bits)[0], INT64_MIN >> (64 - w.sum_bits));
      EXPECT_EQ(words_of(x.max(), w.bits)[0], w.error());
    }
    const Elements large{1, 3, {0, 0, 0}, {0, 1, 2}, {w.most(), w.most(), -w.most()}};
    EXPECT_EQ(words_of(sparse(w, large, false).sum(), w.sum_bits), (Words{w.most()}));
  }
}

TEST_F(StickySparse, ConvertsAndRefuses) {
  const Width &w8 = kWidths[0], &w32 = kWidths[2];
  const Elements e{2, 2, {0, 1, 1}, {0, 0, 1}, {w8.error(), 100, -3}};
  const Sparse x = sparse(w8, e, false);
  EXPECT_EQ(words_of(x.cast(aster_ml::Dtype{w32.code}).dense(), 32),
            (Words{w32.error(), 0, 100, -3}));
  const Elements large{1, 2, {0, 0}, {0, 1}, {300, -127}};
  EXPECT_EQ(words_of(sparse(w32, large, false).cast(aster_ml::Dtype{w8.code}).dense(), 8),
            (Words{w8.error(), -127}));
  // By way of wide floats, where ERR is NaN.
  const Sparse wide = x.cast(aster_ml::Dtype{ASTER_ML_DTYPE_FLT512});
  ASSERT_TRUE(wide.ok()) << last_error();
  EXPECT_EQ(words_of(wide.cast(aster_ml::Dtype{w32.code}).dense(), 32),
            (Words{w32.error(), 0, 100, -3}));
  const Sparse other = sparse(w32, {2, 2, {0}, {0}, {1}}, false);
  EXPECT_FALSE((x + other).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_DTYPE);
  EXPECT_FALSE(x.matmul(other).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_DTYPE);
  const Array whole(std::vector<int32_t>{1, 2, 3, 4}, {2, 2});
  EXPECT_FALSE(x.matmul(whole).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_DTYPE);
  EXPECT_FALSE((x * Sparse::from_dense(whole)).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_DTYPE);
}

}  // namespace
}  // namespace programs
