// LU of sticky integers: every number that it gives is a minor of the matrix, which is computed
// here by its definition; pivots that are none are named.
#include <algorithm>
#include <numeric>

#include "aster.h"

namespace programs {
namespace {

__extension__ typedef __int128 Exact;
using Words = std::vector<int64_t>;

struct Width {
  int32_t code, stored, result, result_stored;
  int bits, result_bits;
  int64_t error() const { return INT64_MIN >> (64 - bits); }
  int64_t result_error() const { return INT64_MIN >> (64 - result_bits); }
};
constexpr Width kWidths[] = {
    {ASTER_ML_DTYPE_TBB8, ASTER_ML_DTYPE_INT8, ASTER_ML_DTYPE_TBB32, ASTER_ML_DTYPE_INT32, 8, 32},
    {ASTER_ML_DTYPE_TBB16, ASTER_ML_DTYPE_INT16, ASTER_ML_DTYPE_TBB64, ASTER_ML_DTYPE_INT64, 16,
     64},
    {ASTER_ML_DTYPE_TBB32, ASTER_ML_DTYPE_INT32, ASTER_ML_DTYPE_TBB64, ASTER_ML_DTYPE_INT64, 32,
     64},
    {ASTER_ML_DTYPE_TBB64, ASTER_ML_DTYPE_INT64, ASTER_ML_DTYPE_TBB64, ASTER_ML_DTYPE_INT64, 64,
     64}};

class StickyLu : public testing::TestWithParam<bool> {
 protected:
  StickyLu() {
    if (!GetParam()) return;
    int32_t device = 0;
    EXPECT_OK(aster_ml_device_from_name(&device, "REFERENCE"));
    EXPECT_OK(session_.set_device(device));
  }
  static Tensor tensor(const Width& w, const Words& words, const Shape& shape) {
    Tensor x =
        Tensor(words, shape).cast(aster_ml::Dtype{w.stored}).bitcast(aster_ml::Dtype{w.code});
    EXPECT_OK(x.realize());
    return x;
  }
  static Words patterns(const Width& w, const Tensor& x) {
    EXPECT_EQ(static_cast<int32_t>(x.dtype()), w.result);
    return x.bitcast(aster_ml::Dtype{w.result_stored}).to_vector<int64_t>();
  }
  // The status of computing the factors of x.
  static int32_t status_of(const Tensor& x) {
    auto [lu, rows] = x.lu_factor();
    EXPECT_OK(lu);
    return lu.realize() ? ASTER_ML_OK : aster_ml::error().code;
  }
  Session session_;
};
INSTANTIATE_TEST_SUITE_P(Runs, StickyLu, testing::Bool(),
                         [](const auto& run) { return run.param ? "interpreted" : "compiled"; });

// The sum over all permutations.
Exact determinant(const Words& x, int64_t columns, const Words& of_rows, const Words& of_columns) {
  Words order(of_rows.size());
  std::iota(order.begin(), order.end(), 0);
  Exact sum = 0;
  do {
    Exact product = 1;
    for (size_t i = 0; i < order.size(); ++i) {
      product *=
          x[static_cast<size_t>(of_rows[i] * columns + of_columns[static_cast<size_t>(order[i])])];
      for (size_t j = 0; j < i; ++j) product *= order[j] > order[i] ? -1 : 1;
    }
    sum += product;
  } while (std::ranges::next_permutation(order).found);
  return sum;
}

TEST_P(StickyLu, NumbersAreMinors) {
  std::mt19937_64 random(31);
  const struct { int64_t m, n; } shapes[] = {{1, 1}, {2, 2}, {3, 3}, {5, 5}, {4, 6}, {6, 3}};
  for (const Width& w : kWidths) {
    for (const auto& s : shapes) {
      for (const bool turned : {false, true}) {
        Words x(static_cast<size_t>(s.m * s.n)), given(x.size());
        for (int64_t i = 0; i < s.m; ++i) {
          for (int64_t j = 0; j < s.n; ++j) {
            const auto at = static_cast<size_t>(i * s.n + j);
            x[at] = static_cast<int64_t>(random() % 41) - 20;
            given[turned ? static_cast<size_t>(j * s.m + i) : at] = x[at];
          }
        }
        const Tensor t =
            turned ? tensor(w, given, {s.n, s.m}).transpose(0, 1) : tensor(w, given, {s.m, s.n});
        auto [packed, order] = t.lu_factor();
        const Words lu = patterns(w, packed), rows = order.to_vector<int64_t>();
        Words sorted = rows;
        std::ranges::sort(sorted);
        for (int64_t i = 0; i < s.m; ++i) ASSERT_EQ(sorted[static_cast<size_t>(i)], i);
        for (int64_t i = 0; i < s.m; ++i) {
          for (int64_t j = 0; j < s.n; ++j) {
            const int64_t step = std::min(i, j);
            Words of_rows(rows.begin(), rows.begin() + step), of_columns(of_rows.size());
            std::iota(of_columns.begin(), of_columns.end(), 0);
            of_rows.push_back(rows[static_cast<size_t>(i)]);
            of_columns.push_back(j);
            const int64_t found = lu[static_cast<size_t>(i * s.n + j)];
            ASSERT_EQ(found, static_cast<int64_t>(determinant(x, s.n, of_rows, of_columns)))
                << "tbb" << w.bits << " " << s.m << "x" << s.n << " at " << i << " " << j;
            if (j < i) {
              ASSERT_LE(std::abs(found), std::abs(lu[static_cast<size_t>(j * s.n + j)]));
            }
          }
        }
        // The same in three.
        auto [p, l, u] = t.lu();
        const Words first = patterns(w, p), left = patterns(w, l), right = patterns(w, u);
        const int64_t k = std::min(s.m, s.n);
        for (int64_t i = 0; i < s.m; ++i) {
          for (int64_t j = 0; j < s.m; ++j) {
            ASSERT_EQ(first[static_cast<size_t>(i * s.m + j)],
                      rows[static_cast<size_t>(j)] == i ? 1 : 0);
          }
          for (int64_t j = 0; j < k; ++j) {
            ASSERT_EQ(left[static_cast<size_t>(i * k + j)],
                      j <= i ? lu[static_cast<size_t>(i * s.n + j)] : 0);
          }
        }
        for (int64_t i = 0; i < k; ++i) {
          for (int64_t j = 0; j < s.n; ++j) {
            ASSERT_EQ(right[static_cast<size_t>(i * s.n + j)],
                      j >= i ? lu[static_cast<size_t>(i * s.n + j)] : 0);
          }
        }
      }
    }
  }
}

TEST_P(StickyLu, PivotsThatAreErrorsOrZeroAreNamed) {
  for (const Width& w : kWidths) {
    const int64_t e = w.error(), most = -(e + 1);
    const struct {
      Words x;
      const char* told;  // null: it has factors
    } cases[] = {
        {{1, 2, 3, 4, 5, 6, 7, 8, 9}, "pivot 3 is 0"},
        {{0, 1, 2, 0, 3, 4, 0, 5, 6}, "pivot 1 is 0"},
        {{2, 1, 1, 4, 2, 3, 6, 3, 8}, "pivot 2 is 0"},
        {{1, 2, 3, e, 5, 6, 7, 8, 10}, "pivot 1 is ERR"},
        {{1, e, 3, 4, 5, 6, 7, 8, 10}, "pivot 2 is ERR"},
        {{1, 2, 3, 4, 5, 6, 7, 8, e}, "pivot 3 is ERR"},
        {{1, 2, 3, 4, 5, 6, 7, 8, 10}, nullptr},
        {{0, 0, 1, 0, 1, 0, 1, 0, 0}, nullptr},
    };
    for (const auto& c : cases) {
      const Tensor x = tensor(w, c.x, {3, 3});
      if (c.told == nullptr) {
        EXPECT_EQ(status_of(x), ASTER_ML_OK) << last_error();
        continue;
      }
      EXPECT_EQ(status_of(x), ASTER_ML_NUMERIC) << c.told;
      EXPECT_NE(last_error().find(c.told), std::string::npos) << last_error();
    }
    // A minor that does not fit: of tbb8 and tbb16 it does, in the dtype of their sums.
    const Tensor large = tensor(w, {most, 1, -1, 1, most, 1, 1, -1, most}, {3, 3});
    EXPECT_EQ(status_of(large), w.bits <= 16 ? ASTER_ML_OK : ASTER_ML_NUMERIC) << w.bits;
    if (w.bits > 16) {
      EXPECT_NE(last_error().find("is ERR"), std::string::npos) << last_error();
    }
    // Of several the first.
    Words many;
    for (const size_t i : {6u, 2u, 6u, 0u})
      many.insert(many.end(), cases[i].x.begin(), cases[i].x.end());
    EXPECT_EQ(status_of(tensor(w, many, {2, 2, 3, 3})), ASTER_ML_NUMERIC);
    EXPECT_NE(last_error().find("number 1: it is singular: pivot 2"), std::string::npos)
        << last_error();
  }
}

// An ERR that no pivot meets spoils what it goes into.
TEST_P(StickyLu, ErrorsBehindTheLastPivotStay) {
  for (const Width& w : kWidths) {
    const int64_t bad = w.result_error();
    auto [lu, rows] = tensor(w, {2, 1, w.error(), 5, 1, 3, 4, 6}, {2, 4}).lu_factor();
    EXPECT_EQ(patterns(w, lu), (Words{2, 1, bad, 5, 1, 5, bad, 7}));
    EXPECT_EQ(rows.to_vector<int64_t>(), (Words{0, 1}));
  }
}

TEST(StickyLuRefuses, OtherDecompositions) {
  const Session session;
  const Tensor x = Tensor(Words{1, 2, 3, 4}, {2, 2}).cast(aster_ml::Dtype{ASTER_ML_DTYPE_TBB32});
  aster_ml_lazy a{}, b{}, c{};
  EXPECT_EQ(aster_ml_lazy_qr(&a, &b, x.get()), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_inv(&a, x.get()), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_solve(&a, x.get(), x.get()), ASTER_ML_DTYPE);
  const Tensor whole(Words{1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(aster_ml_lazy_lu(&a, &b, &c, whole.get()), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_lu_factor(&a, &b, whole.get()), ASTER_ML_DTYPE);
  const Tensor line = Tensor(Words{1, 2}, {2}).cast(aster_ml::Dtype{ASTER_ML_DTYPE_TBB32});
  EXPECT_EQ(aster_ml_lazy_lu(&a, &b, &c, line.get()), ASTER_ML_SHAPE);
}

}  // namespace
}  // namespace programs
