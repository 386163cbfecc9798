// Sparse matrices of wide floats against MPFR's exact sums over what is stored, rounded once
// as the context says.
#ifdef ASTER_TEST_MPFR
#include <algorithm>
#include <memory>

#include "aster.h"
#include "oracle.h"

namespace programs {
namespace {

using aster_ml::Array;
using aster_ml::Sparse;
using aster_ml::SparseFormat;
using flt_test::Format;
using flt_test::kFormats;
using flt_test::Operands;
using flt_test::Packed;
using flt_test::Real;
using Numbers = std::vector<Packed>;
using Places = std::vector<int32_t>;
constexpr SparseFormat kEach[] = {SparseFormat::coo, SparseFormat::csr, SparseFormat::csc};

std::vector<uint64_t> words_of(const Format& f, const Numbers& x) {
  std::vector<uint64_t> out;
  for (const Packed& p : x) out.insert(out.end(), p.w, p.w + f.words);
  return out;
}
Array array(const void* data, int32_t dtype, const Shape& shape) {
  const std::vector<size_t> sizes(shape.begin(), shape.end());
  aster_ml_tensor out{};
  EXPECT_OK(aster_ml_tensor_from_data(&out, Context::current().root().get(), data, dtype,
                                      sizes.size(), sizes.data()));
  return Array(std::move(out), Context::current().root());
}
Array array(const Format& f, const Numbers& x, const Shape& shape) {
  return array(words_of(f, x).data(), f.dtype, shape);
}
Numbers read(const Format& f, const Array& x) {
  EXPECT_EQ(x.get()->dtype, f.dtype);
  const size_t count = aster_ml_tensor_count(x.get()), words = static_cast<size_t>(f.words);
  std::vector<uint64_t> data(count * words + 1);
  EXPECT_OK(aster_ml_tensor_copy_out(data.data(), x.get(), count));
  Numbers out(count);
  for (size_t i = 0; i < count; ++i) std::copy_n(&data[i * words], words, out[i].w);
  return out;
}

// What a matrix is made of: any order, some places twice.
struct Elements {
  int64_t rows, columns;
  Places row, column;
  Numbers value;
  size_t count() const { return value.size(); }
  int64_t place(size_t p) const { return row[p] * columns + column[p]; }
  Sparse coo(const Format& f) const {
    const auto n = static_cast<int64_t>(count());
    Sparse out(SparseFormat::coo, rows, columns, array(row.data(), ASTER_ML_DTYPE_INT32, {n}),
               array(column.data(), ASTER_ML_DTYPE_INT32, {n}), array(f, value, {n}));
    EXPECT_OK(out);
    return out;
  }
};
Elements drawn(const Format& f, uint64_t seed, int64_t rows, int64_t columns, size_t count,
               bool special = false) {
  Operands operands(seed);
  Elements e{rows, columns, {}, {}, {}};
  for (size_t p = 0; p < count; ++p) {
    e.row.push_back(static_cast<int32_t>(operands.below(static_cast<uint64_t>(rows))));
    e.column.push_back(static_cast<int32_t>(operands.below(static_cast<uint64_t>(columns))));
    const bool any = special && operands.below(12) == 0;
    e.value.push_back(any                   ? operands.special(f)
                      : p > 0 && p % 3 == 0 ? operands.close(f, e.value.back())
                                            : operands.near(f, 40));
    if (special && flt_test::is_nan(f, e.value.back())) e.value.back() = operands.near(f, 2);
  }
  return e;
}

int the_mode = 0;  // of the test that runs

// The exact sum of terms, of products of two where there are as many in y; +0 of none.
Packed exact(const Format& f, const Numbers& x, const Numbers& y = {}) {
  if (x.empty()) return {};
  std::vector<std::unique_ptr<Real>> terms;
  std::vector<mpfr_ptr> at;
  for (size_t i = 0; i < x.size(); ++i) {
    terms.push_back(std::make_unique<Real>(2 * f.precision()));
    Real a(f, x[i]);
    if (y.empty()) {
      mpfr_set(*terms.back(), a, MPFR_RNDN);
    } else {
      Real b(f, y[i]);
      mpfr_mul(*terms.back(), a, b, MPFR_RNDN);
    }
    at.push_back(*terms.back());
  }
  return flt_test::expected(f, the_mode, [&](mpfr_ptr out, mpfr_rnd_t mode) {
    const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
    mpfr_set_emin(mpfr_get_emin_min());
    mpfr_set_emax(mpfr_get_emax_max());
    const int inexact = mpfr_sum(out, at.data(), at.size(), mode);
    mpfr_set_emin(emin);
    mpfr_set_emax(emax);
    return mpfr_check_range(out, inexact, mode);
  });
}
// The element of each place: what stands there once is itself.
Numbers dense(const Format& f, const Elements& e) {
  std::vector<Numbers> terms(static_cast<size_t>(e.rows * e.columns));
  for (size_t p = 0; p < e.count(); ++p)
    terms[static_cast<size_t>(e.place(p))].push_back(e.value[p]);
  Numbers out;
  for (const Numbers& t : terms) out.push_back(t.size() == 1 ? t[0] : exact(f, t));
  return out;
}
std::vector<bool> stored(const Elements& e) {
  std::vector<bool> out(static_cast<size_t>(e.rows * e.columns));
  for (size_t p = 0; p < e.count(); ++p) out[static_cast<size_t>(e.place(p))] = true;
  return out;
}
Numbers turned(const Numbers& x, size_t rows, size_t columns) {
  Numbers out(x.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) out[j * rows + i] = x[i * columns + j];
  return out;
}

// In a context of each rounding mode.
aster_ml_context_options rounded(int mode) {
  aster_ml_context_options options = {};
  options.flt_rounding = mode;
  return options;
}
class WideSparse : public testing::TestWithParam<int> {
 protected:
  WideSparse() : session_(rounded(GetParam())) { the_mode = GetParam(); }
  Session session_;
};
INSTANTIATE_TEST_SUITE_P(Modes, WideSparse, testing::Range(0, 4));

TEST_P(WideSparse, FormatsAndDuplicates) {
  for (const Format& f : kFormats) {
    const Elements e = drawn(f, 61, 9, 12, 80, true);
    const Numbers want = dense(f, e);
    const std::vector<bool> in = stored(e);
    const auto places = std::count(in.begin(), in.end(), true);
    const Sparse coo = e.coo(f);
    EXPECT_EQ(read(f, coo.dense()), want);
    for (const SparseFormat one : kEach) {
      const Sparse a = coo.compress(one);
      ASSERT_TRUE(a.ok()) << last_error();
      EXPECT_EQ(a.count(), places);
      for (const SparseFormat two : kEach) EXPECT_EQ(read(f, a.compress(two).dense()), want);
      EXPECT_EQ(read(f, a.transpose().dense()), turned(want, 9, 12));
      EXPECT_EQ(read(f, a.slice(2, 7).dense()), Numbers(want.begin() + 24, want.begin() + 84));
    }
    // What is 0 is not stored, of either sign.
    Numbers full = want, back;
    full[5] = {};
    full[6] = {};
    full[6].w[f.words - 1] = uint64_t{1} << 63;
    int64_t others = 0;
    for (const Packed& p : full) {
      const bool zero = mpfr_zero_p(static_cast<mpfr_ptr>(Real(f, p))) != 0;
      back.push_back(zero ? Packed{} : p);
      others += !zero;
    }
    for (const SparseFormat one : kEach) {
      const Sparse a = Sparse::from_dense(array(f, full, {9, 12}), one);
      ASSERT_TRUE(a.ok()) << last_error();
      EXPECT_EQ(a.count(), others);
      EXPECT_EQ(read(f, a.dense()), back);
    }
  }
}

TEST_P(WideSparse, ProductsWithDense) {
  for (const Format& f : kFormats) {
    const Elements e = drawn(f, 62, 17, 13, 90);
    const Numbers a = dense(f, e);
    const std::vector<bool> in = stored(e);
    for (const size_t columns : {size_t{1}, size_t{3}, size_t{20}}) {
      Operands operands(63);
      Numbers b;
      for (size_t i = 0; i < 13 * columns; ++i)
        b.push_back(i % 4 == 3 ? operands.close(f, b.back()) : operands.near(f, 30));
      Numbers want;
      for (size_t i = 0; i < 17; ++i) {
        for (size_t j = 0; j < columns; ++j) {
          Numbers x, y;
          for (size_t k = 0; k < 13; ++k) {
            if (!in[i * 13 + k]) continue;
            x.push_back(a[i * 13 + k]);
            y.push_back(b[k * columns + j]);
          }
          want.push_back(exact(f, x, y));
        }
      }
      const auto n = static_cast<int64_t>(columns);
      const Array given = array(f, b, {13, n}), line = array(f, b, {13});
      for (const SparseFormat format : kEach) {
        const Sparse x = e.coo(f).compress(format);
        EXPECT_EQ(read(f, x.matmul(given)), want) << columns;
        // Rows that lie as columns.
        const Array other = array(f, turned(b, 13, columns), {n, 13});
        aster_ml_tensor view = *other.get();
        size_t shape[] = {13, columns};
        ptrdiff_t strides[] = {1, 13};
        view.shape = shape;
        view.strides = strides;
        aster_ml_tensor out{};
        OK(aster_ml_sparse_matmul_dense(&out, x.get(), &view));
        EXPECT_EQ(read(f, Array(std::move(out), Context::current().root())), want);
        if (columns == 1) {
          const Array y = x.matmul(line);
          EXPECT_EQ(y.get()->ndim, 1u);
          EXPECT_EQ(read(f, y), want);
        }
      }
    }
  }
}

TEST_P(WideSparse, ProductsWithSparse) {
  for (const Format& f : kFormats) {
    const Elements e = drawn(f, 64, 11, 13, 60), g = drawn(f, 65, 13, 9, 50);
    const Numbers a = dense(f, e), b = dense(f, g);
    const std::vector<bool> in_a = stored(e), in_b = stored(g);
    const Sparse product = e.coo(f).matmul(g.coo(f));
    ASSERT_TRUE(product.ok()) << last_error();
    EXPECT_TRUE(product.is_canonical());
    const Numbers found = read(f, product.dense());
    int64_t count = 0;
    for (size_t i = 0; i < 11; ++i) {
      for (size_t j = 0; j < 9; ++j) {
        Numbers x, y;
        for (size_t k = 0; k < 13; ++k) {
          if (!in_a[i * 13 + k] || !in_b[k * 9 + j]) continue;
          x.push_back(a[i * 13 + k]);
          y.push_back(b[k * 9 + j]);
        }
        count += !x.empty();
        EXPECT_EQ(found[i * 9 + j], exact(f, x, y)) << i << " " << j;
      }
    }
    EXPECT_EQ(product.count(), count);
  }
}

TEST_P(WideSparse, SumsAndProductsOfElements) {
  for (const Format& f : kFormats) {
    const Elements e = drawn(f, 66, 8, 10, 40), g = drawn(f, 67, 8, 10, 35);
    const Numbers a = dense(f, e), b = dense(f, g);
    const std::vector<bool> in_a = stored(e), in_b = stored(g);
    const Sparse x = e.coo(f), y = g.coo(f);
    const Numbers sum = read(f, (x + y).dense()), difference = read(f, (x - y).dense()),
                  product = read(f, (x * y).dense());
    for (size_t i = 0; i < a.size(); ++i) {
      Packed minus = b[i];
      minus.w[f.words - 1] ^= uint64_t{1} << 63;
      const bool either = in_a[i] || in_b[i], both = in_a[i] && in_b[i];
      EXPECT_EQ(sum[i], either ? exact(f, {a[i], b[i]}) : Packed{});
      EXPECT_EQ(difference[i], either ? exact(f, {a[i], minus}) : Packed{});
      EXPECT_EQ(product[i], both ? exact(f, {a[i]}, {b[i]}) : Packed{});
    }
  }
}

TEST_P(WideSparse, Reductions) {
  for (const Format& f : kFormats) {
    const Elements e = drawn(f, 68, 12, 9, 70);
    const Numbers a = dense(f, e);
    const std::vector<bool> in = stored(e);
    const auto less = [&](const Packed& p, const Packed& q) {
      Real x(f, p), y(f, q);
      return mpfr_less_p(x, y) != 0;
    };
    for (const SparseFormat format : kEach) {
      const Sparse x = e.coo(f).compress(format);
      for (const int64_t axis : {0, 1}) {
        const size_t results = axis == 0 ? 9 : 12;
        const Numbers sums = read(f, x.sum(axis)), most = read(f, x.max(axis)),
                      least = read(f, x.min(axis));
        ASSERT_EQ(sums.size(), results);
        for (size_t r = 0; r < results; ++r) {
          Numbers terms, all;
          for (size_t k = 0; k < 21 - results; ++k) {
            const size_t at = axis == 0 ? k * 9 + r : r * 9 + k;
            all.push_back(a[at]);
            if (in[at]) terms.push_back(a[at]);
          }
          EXPECT_EQ(sums[r], exact(f, terms));
          EXPECT_EQ(most[r], *std::max_element(all.begin(), all.end(), less));
          EXPECT_EQ(least[r], *std::min_element(all.begin(), all.end(), less));
        }
      }
      Numbers terms;
      for (size_t i = 0; i < a.size(); ++i)
        if (in[i]) terms.push_back(a[i]);
      EXPECT_EQ(read(f, x.sum()), Numbers{exact(f, terms)});
      EXPECT_EQ(read(f, x.max()), Numbers{*std::max_element(a.begin(), a.end(), less)});
      EXPECT_EQ(read(f, x.min()), Numbers{*std::min_element(a.begin(), a.end(), less)});
    }
  }
}

TEST_P(WideSparse, ThreadsChangeNothing) {
  for (const Format& f : kFormats) {
    const Elements e = drawn(f, 69, 300, 200, 4000);
    Numbers b;
    Operands operands(70);
    for (size_t i = 0; i < 200 * 5; ++i) b.push_back(operands.near(f, 30));
    Numbers product, square, sums;
    for (const int32_t threads : {1, 3}) {
      aster_ml_context_options options = rounded(GetParam());
      options.threads = threads;
      const Session session(options);
      const Sparse x = e.coo(f).compress();
      const Numbers one = read(f, x.matmul(array(f, b, {200, 5}))),
                    two = read(f, x.matmul(x.transpose()).dense()), three = read(f, x.sum(1));
      if (threads == 1) product = one, square = two, sums = three;
      EXPECT_EQ(one, product);
      EXPECT_EQ(two, square);
      EXPECT_EQ(three, sums);
    }
  }
}

TEST_P(WideSparse, ConvertsAndRefuses) {
  for (const Format& f : kFormats) {
    const Elements e = drawn(f, 71, 4, 5, 9);
    const Sparse x = e.coo(f).compress();
    const Format& other = kFormats[f.words == 4 ? 1 : 0];
    const Numbers values = read(f, std::get<2>(x.arrays()));
    for (const int32_t to :
         {other.dtype, int32_t{ASTER_ML_DTYPE_FLOAT64}, int32_t{ASTER_ML_DTYPE_INT16},
          int32_t{ASTER_ML_DTYPE_FLOAT16}, int32_t{ASTER_ML_DTYPE_TBB32}}) {
      const Sparse y = x.cast(aster_ml::Dtype{to});
      ASSERT_TRUE(y.ok()) << last_error();
      const size_t size = aster_ml_dtype_size(to);
      const Array found = std::get<2>(y.arrays());
      std::vector<uint64_t> want(8);
      for (size_t i = 0; i < values.size(); ++i) {
        OK(aster_ml_flt_copy(want.data(), nullptr, to, values[i].w, f.dtype, GetParam(), nullptr,
                             1));
        EXPECT_EQ(std::memcmp(want.data(),
                              static_cast<const char*>(found.get()->storage.data) +
                                  found.get()->byte_offset + i * size,
                              size),
                  0);
      }
    }
    // Within the family they promote.
    const Sparse wide = kFormats[1].words == f.words
                            ? drawn(kFormats[0], 72, 4, 5, 9).coo(kFormats[0])
                            : drawn(kFormats[1], 72, 4, 5, 9).coo(kFormats[1]);
    EXPECT_EQ(static_cast<int32_t>((x + wide).dtype()), ASTER_ML_DTYPE_FLT512);
    const Sparse narrow = Sparse::from_dense(Array(std::vector<double>(20, 1.0), {4, 5}));
    for (const Sparse& bad : {x + narrow, x * narrow, x.matmul(narrow.transpose())}) {
      EXPECT_FALSE(bad.ok());
    }
    EXPECT_EQ(aster_ml::error().code, ASTER_ML_DTYPE);
    EXPECT_FALSE(x.matmul(Array(std::vector<double>(5, 1.0), {5})).ok());
    EXPECT_EQ(aster_ml::error().code, ASTER_ML_DTYPE);
    // Words are aligned to 8 bytes, and to no more.
    alignas(64) char memory[200] = {};
    const size_t one = 1;
    const ptrdiff_t step = 1;
    aster_ml_tensor values_at{};
    values_at.storage = {memory + 8, 64, f.dtype, ASTER_ML_DEVICE_CPU};
    values_at.ndim = 1;
    values_at.shape = const_cast<size_t*>(&one);
    values_at.strides = const_cast<ptrdiff_t*>(&step);
    values_at.dtype = f.dtype;
    values_at.device = ASTER_ML_DEVICE_CPU;
    const Array zero = Array(std::vector<int32_t>{0}, {1});
    aster_ml_sparse made{};
    const aster_ml_context* const context = session_.get();
    OK(aster_ml_sparse_init(&made, context, ASTER_ML_SPARSE_COO, 1, 1, zero.get(), zero.get(),
                            &values_at));
    OK(aster_ml_sparse_free(&made));
    values_at.storage.data = memory + 4;
    EXPECT_EQ(aster_ml_sparse_init(&made, context, ASTER_ML_SPARSE_COO, 1, 1, zero.get(),
                                   zero.get(), &values_at),
              ASTER_ML_ARGUMENT);
  }
}

}  // namespace
}  // namespace programs
#endif
