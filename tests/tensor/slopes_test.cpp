// Gradients of functions of elements against their derivatives by hand, far out and in all floats.
#include <functional>
#include <numbers>

#include "world.h"

namespace aster::tensor::test {
namespace {

using Slope = double (*)(double);
struct Row {
  const char* name;
  Slope slope;
  std::vector<double> x;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu_slope(double x) { return sigmoid(x) + x * sigmoid(x) * sigmoid(-x); }

const std::vector<double> kFar{-1e4, -200, -104, -90, -20, -3, -0.5, 0, 0.5, 3, 20, 90, 104, 1e4};
const std::vector<double> kInside{-0.96875, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 0.96875};
const std::vector<double> kBeyond{1.03125, 1.125, 1.25, 1.5, 2, 2.75, 4, 8, 100, 16384, 32768};
const std::vector<double> kBothSides{-1e4, -200, -8, -2, -0.5, -0.25, 0, 0.25, 0.5, 2, 8, 200, 1e4};
const std::vector<double> kNear{-8, -4, -2, -1.5, -0.5, -0.125, 0, 0.125, 0.5, 1.5, 2, 4, 8};

double mish_slope(double x) {
  const double t = std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))));
  return t + x * (1 - t * t) * sigmoid(x);
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"sigmoid", [](double x) { return sigmoid(x) * sigmoid(-x); }, kFar},
      {"silu", silu_slope, kFar},
      {"swish", silu_slope, kFar},
      {"quick_gelu", [](double x) { return silu_slope(1.702 * x); }, kFar},
      {"softplus", sigmoid, kFar},
      {"logsigmoid", [](double x) { return sigmoid(-x); }, kFar},
      {"mish", mish_slope, kFar},
      {"tanh", [](double x) { return 1 / std::cosh(x) / std::cosh(x); }, kFar},
      {"erf", [](double x) { return 2 * std::numbers::inv_sqrtpi * std::exp(-x * x); }, kFar},
      {"asin", [](double x) { return 1 / std::sqrt(1 - x * x); }, kInside},
      {"acos", [](double x) { return -1 / std::sqrt(1 - x * x); }, kInside},
      {"atanh", [](double x) { return 1 / (1 - x * x); }, kInside},
      {"acosh", [](double x) { return 1 / std::sqrt(x * x - 1); }, kBeyond},
      {"asinh", [](double x) { return 1 / std::hypot(x, 1); }, kBothSides},
      {"atan", [](double x) { return 1 / (x * x + 1); }, kBothSides},
      {"softsign", [](double x) { return 1 / (1 + std::abs(x)) / (1 + std::abs(x)); }, kBothSides},
      {"sinh", [](double x) { return std::cosh(x); }, kNear},
      {"cosh", [](double x) { return std::sinh(x); }, kNear},
  };
  return table;
}

std::vector<double> read(T& t) {
  T wide;
  EXPECT_EQ(aster_ml_lazy_cast(wide, t, ASTER_ML_DTYPE_FLOAT64), 0) << message();
  return wide.read<double>();
}

struct Precision {
  int32_t dtype;
  double relative, absolute;
};

void check_slopes(const World& world, const Precision& p) {
  for (const Row& row : rows()) {
    T x, y, sum;
    OK(aster_ml_lazy_cast(
        x, from(world, row.x, {static_cast<int64_t>(row.x.size())}, ASTER_ML_DTYPE_FLOAT64),
        p.dtype));
    const std::vector<double> at = read(x);
    OK(unaries().at(row.name)(y, x));
    OK(aster_ml_lazy_sum(sum, y, 0, nullptr, 0));
    const aster_ml_lazy* const targets[] = {x};
    T slope;
    OK(aster_ml_gradient(slope, sum, targets, 1, nullptr));
    const std::vector<double> got = read(slope);
    for (size_t i = 0; i < at.size(); ++i) {
      const double wanted = row.slope(at[i]);
      EXPECT_NEAR(got[i], wanted, p.absolute + p.relative * std::abs(wanted))
          << row.name << " of " << aster_ml_dtype_name(p.dtype) << " at " << at[i];
    }
  }
}

class Slopes : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Runtimes, Slopes, testing::Bool(), [](const auto& runtime) {
  return runtime.param ? "Interpreted" : "Compiled";
});

TEST_P(Slopes, AreTheDerivatives) {
  const World world(GetParam());
  for (const Precision& p : {Precision{ASTER_ML_DTYPE_FLOAT32, 2e-6, 3e-7},
                             {ASTER_ML_DTYPE_FLOAT64, 1e-13, 1e-15},
                             {ASTER_ML_DTYPE_FLOAT16, 2e-3, 1e-6},
                             {ASTER_ML_DTYPE_BFLOAT16, 1e-2, 1e-6}}) {
    check_slopes(world, p);
  }
}

// d/dx of bce with logits is sigmoid(x) - t.
TEST_P(Slopes, OfLogitsFarOut) {
  const World world(GetParam());
  const int64_t count = static_cast<int64_t>(kFar.size());
  for (const double target : {0.0, 0.25, 1.0}) {
    const T x = from(world, kFar, {count});
    const T t = from(world, std::vector<double>(kFar.size(), target), {count});
    T loss, slope;
    OK(aster_ml_lazy_binary_crossentropy_logits(loss, x, t, nullptr, ASTER_ML_REDUCTION_SUM));
    const aster_ml_lazy* const targets[] = {x};
    OK(aster_ml_gradient(slope, loss, targets, 1, nullptr));
    const std::vector<double> got = read(slope);
    for (size_t i = 0; i < kFar.size(); ++i)
      EXPECT_NEAR(got[i], sigmoid(kFar[i]) - target, 1e-12) << kFar[i];
  }
}

// The gradient of sigmoid's gradient: y (1 - y) (1 - 2 y).
TEST_P(Slopes, OfSlopesFarOut) {
  const World world(GetParam());
  const T x = from(world, kFar, {static_cast<int64_t>(kFar.size())});
  const aster_ml_lazy* const targets[] = {x};
  T y, sum, once, twice;
  OK(aster_ml_lazy_sigmoid(y, x));
  OK(aster_ml_lazy_sum(sum, y, 0, nullptr, 0));
  OK(aster_ml_gradient(once, sum, targets, 1, nullptr));
  T again;
  OK(aster_ml_lazy_sum(again, once, 0, nullptr, 0));
  OK(aster_ml_gradient(twice, again, targets, 1, nullptr));
  const std::vector<double> got = read(twice);
  for (size_t i = 0; i < kFar.size(); ++i) {
    const double s = sigmoid(kFar[i]), rest = sigmoid(-kFar[i]);
    EXPECT_NEAR(got[i], s * rest * (rest - s), 1e-12) << kFar[i];
  }
}

}  // namespace
}  // namespace aster::tensor::test
