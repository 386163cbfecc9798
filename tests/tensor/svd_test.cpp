// Singular values of matrices that lack rank, and the gradients of those that do not.
#include "aster_ml/linalg.h"
#include "linalg_world.h"

namespace aster::tensor::test {
namespace {

using Values = std::vector<double>;

Values read(T& t) { return t.read<double>(); }

// sum over k of x[.., k, i] x[.., k, j] of one matrix, or over columns.
void expect_orthonormal(const Values& x, size_t rows, size_t columns, const std::string& what) {
  for (size_t i = 0; i < columns; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      double dot = 0;
      for (size_t k = 0; k < rows; ++k) dot += x[k * columns + i] * x[k * columns + j];
      EXPECT_NEAR(dot, i == j ? 1 : 0, 1e-12) << what << ", columns " << i << " and " << j;
    }
  }
}

Values transposed(const Values& x, size_t rows, size_t columns) {
  Values out(x.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) out[j * rows + i] = x[i * columns + j];
  }
  return out;
}

struct Lacking {
  const char* what;
  size_t m, n, rank;
  Values x;
};

TEST(Svd, LackingRankGivesWholeBases) {
  const World world;
  const std::vector<Lacking> cases = {
      {"zero", 3, 3, 0, Values(9, 0)},
      {"zero tall", 4, 2, 0, Values(8, 0)},
      {"one element", 3, 3, 1, {0, 0, 0, 0, 0, 7, 0, 0, 0}},
      {"a column of zeros", 3, 3, 2, {1, 0, 2, 3, 0, -1, 2, 0, 5}},
      {"a row of zeros, wide", 2, 4, 1, {0, 0, 0, 0, 1, 2, 3, 4}},
      {"tall", 4, 3, 2, {1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0}},
      {"one", 1, 1, 0, {0}},
  };
  for (const Lacking& c : cases) {
    for (const int32_t full : {0, 1}) {
      const std::string what = std::string(c.what) + (full != 0 ? ", full" : "");
      const size_t k = std::min(c.m, c.n), left = full != 0 ? c.m : k, right = full != 0 ? c.n : k;
      T u, s, vt;
      OK(aster_ml_lazy_svd(u, s, vt,
                           from(world, c.x, {static_cast<int64_t>(c.m), static_cast<int64_t>(c.n)}),
                           full));
      const Values us = read(u), ss = read(s), vs = read(vt);
      ASSERT_EQ(us.size(), c.m * left) << what;
      ASSERT_EQ(vs.size(), right * c.n) << what;
      expect_orthonormal(us, c.m, left, what + ": u");
      expect_orthonormal(transposed(vs, right, c.n), c.n, right, what + ": v");
      for (size_t i = 0; i < k; ++i) {
        if (i < c.rank) {
          EXPECT_GT(ss[i], 0.5) << what;
        } else {
          EXPECT_NEAR(ss[i], 0, 1e-13) << what;
        }
      }
      for (size_t i = 0; i < c.m; ++i) {
        for (size_t j = 0; j < c.n; ++j) {
          double sum = 0;
          for (size_t r = 0; r < k; ++r) sum += us[i * left + r] * ss[r] * vs[r * c.n + j];
          EXPECT_NEAR(sum, c.x[i * c.n + j], 1e-12) << what;
        }
      }
    }
  }
}

TEST(Svd, OneOfABatchLacksRank) {
  const World world(false);
  T u, s, vt;
  OK(aster_ml_lazy_svd(u, s, vt, from(world, Values{1, 2, 3, 4, 0, 0, 0, 5}, {2, 2, 2}), 1));
  const Values us = read(u);
  for (size_t i = 0; i < 2; ++i) {
    const auto at = us.begin() + static_cast<ptrdiff_t>(4 * i);
    expect_orthonormal(Values(at, at + 4), 2, 2, "u of " + std::to_string(i));
  }
}

// sum(weights * result) of a matrix, and its gradient on request.
double weighted(const World& world, const Values& x, const Shape& shape, size_t which,
                Values* slope) {
  const T in = from(world, x, shape);
  T parts[3], product, total;
  EXPECT_EQ(aster_ml_lazy_svd(parts[0], parts[1], parts[2], in, 0), 0) << message();
  const T w = matrix(world, parts[which].shape(), 9, "float64");
  EXPECT_EQ(aster_ml_lazy_mul(product, parts[which], w), 0) << message();
  EXPECT_EQ(aster_ml_lazy_sum(total, product, 0, nullptr, 0), 0) << message();
  if (slope != nullptr) {
    const aster_ml_lazy* const targets[] = {in};
    T g;
    EXPECT_EQ(aster_ml_gradient(g, total, targets, 1, nullptr), 0) << message();
    *slope = read(g);
  }
  return read(total)[0];
}

TEST(Svd, GradientsOfDistinctValuesAreDifferenceQuotients) {
  const World world;
  constexpr double kStep = 1e-5;
  for (const Shape& shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 3}}) {
    Values x = whole_values(shape, 3, true);
    for (size_t which = 0; which < 3; ++which) {
      Values slope;
      weighted(world, x, shape, which, &slope);
      ASSERT_EQ(slope.size(), x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const double at = x[i];
        x[i] = at + kStep;
        const double up = weighted(world, x, shape, which, nullptr);
        x[i] = at - kStep;
        const double down = weighted(world, x, shape, which, nullptr);
        x[i] = at;
        const double quotient = (up - down) / (2 * kStep);
        EXPECT_NEAR(slope[i], quotient, 1e-6 * std::max(1.0, std::abs(quotient)))
            << "result " << which << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace aster::tensor::test
