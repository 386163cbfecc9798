// Functions of elements and along axes where careless ones break, by known mathematics.
#include <set>

#include "functions.h"

namespace aster::tensor::test {
namespace {

using namespace functions;  // NOLINT: the vocabulary of these tests

class FunctionCorners : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Runtimes, FunctionCorners, ::testing::Values(true, false),
                         [](const auto& runtime) {
                           return runtime.param ? "interpreted" : "compiled";
                         });

struct Corner {
  std::string op;
  std::vector<double> x, wanted, y = {};
};

void expect_same(const std::vector<double>& got, const std::vector<double>& wanted,
                 const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == wanted[i] ? std::signbit(got[i]) == std::signbit(wanted[i])
                                          : std::isnan(got[i]) && std::isnan(wanted[i]);
    EXPECT_TRUE(same) << what << ", element " << i << ": " << got[i] << " for " << wanted[i];
  }
}

// All of them in one schedule.
void expect_corners(const World& world, const std::vector<Corner>& corners) {
  std::vector<T> results;
  for (const Corner& c : corners) {
    const Shape shape{static_cast<int64_t>(c.x.size())};
    const T a = tensor_of(world, c.x, ASTER_ML_DTYPE_FLOAT32, shape);
    const T b = tensor_of(world, c.y.empty() ? c.x : c.y, ASTER_ML_DTYPE_FLOAT32, shape);
    T out;
    ASSERT_EQ(programs().at(c.op)(out, world, {&a, &b}), 0) << c.op << ": " << message();
    results.push_back(std::move(out));
  }
  realize(results);
  for (size_t i = 0; i < corners.size(); ++i)
    expect_same(read(results[i]), corners[i].wanted, corners[i].op);
}

TEST_P(FunctionCorners, InfinitiesNanAndZeros) {
  const World world(GetParam());
  const float half_pi = static_cast<float>(std::acos(0.0)),
              pi = static_cast<float>(std::acos(-1.0)), ln2 = std::log(2.0f);
  const std::vector<double> x{kInf, -kInf, kNan, 0.0, -0.0, 2, -2};
  const std::vector<double> limits{kInf, -kInf, kNan, 0.0, -0.0};
  expect_corners(
      world,
      {{"asin", x, {kNan, kNan, kNan, 0.0, -0.0, kNan, kNan}},
       {"acos", x, {kNan, kNan, kNan, half_pi, half_pi, kNan, kNan}},
       {"relu6", x, {6, 0, kNan, 0.0, 0.0, 2, 0}},
       {"hardsigmoid", x, {1, 0, kNan, 0.5, 0.5, 1, 0}},
       {"atan", limits, {half_pi, -half_pi, kNan, 0.0, -0.0}},
       {"sinh", limits, {kInf, -kInf, kNan, 0.0, -0.0}},
       {"cosh", limits, {kInf, kInf, kNan, 1, 1}},
       {"asinh", limits, {kInf, -kInf, kNan, 0.0, -0.0}},
       {"softplus", limits, {kInf, 0, kNan, ln2, ln2}},
       {"logsigmoid", limits, {-0.0, -kInf, kNan, -ln2, -ln2}},
       {"elu", limits, {kInf, -0.75, kNan, 0.0, 0.0}},
       {"isinf_up", limits, {1, 0, 0, 0, 0}},
       {"isinf_down", limits, {0, 1, 0, 0, 0}},
       {"atanh", {1, -1, 2, -2, kNan, -0.0}, {kInf, -kInf, kNan, kNan, kNan, -0.0}},
       {"acosh", {1, 0, -5, -1e6, kInf, -kInf, kNan}, {0, kNan, kNan, kNan, kInf, kNan, kNan}},
       {"asin", {1, -1}, {half_pi, -half_pi}},
       {"acos", {1, -1}, {0, pi}},
       {"copysign", {1, -2, 3, kInf}, {-1, 2, 3, -kInf}, {-0.0, 0.0, kNan, -kInf}},
       {"logaddexp",
        {kInf, -kInf, -kInf, kInf, kNan},
        {kInf, -kInf, 1, kInf, kNan},
        {kInf, -kInf, 1, -kInf, 1}},
       {"isclose", {kInf, kInf, kNan, 1, 1}, {1, 0, 0, 0, 1}, {kInf, -kInf, kNan, kInf, 1.4}}});
}

TEST_P(FunctionCorners, NanWinsInRunningExtrema) {
  const World world(GetParam());
  const std::vector<double> up{1, 3, 3, kNan, 5, kNan}, down{2, 2, 1, -kInf, kNan, 1};
  expect_corners(world, {{"cummax_0", up, {1, 3, 3, kNan, kNan, kNan}},
                         {"cummax_0_indices", up, {0, 1, 1, 3, 3, 3}},
                         {"cummin", down, {2, 2, 1, -kInf, kNan, kNan}},
                         {"cummin_indices", down, {0, 0, 2, 3, 4, 4}},
                         {"cumsum_0", {1, kNan, 2}, {1, kNan, kNan}},
                         {"cumprod", {2, 0, kInf}, {2, 0, kNan}}});
}

// Narrow floats: what each step would make infinite or lose is right.
TEST_P(FunctionCorners, NarrowFloatsAreComputedWide) {
  const World world(GetParam());
  const std::vector<double> x{-240, -96, -12, -1, 0, 1, 12, 96, 240};
  const auto sigmoid_of = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto softplus_of = [](double v) { return std::log1p(std::exp(v)); };
  const std::map<std::string, std::function<double(double)>> exact = {
      {"sigmoid", sigmoid_of},
      {"silu", [&](double v) { return v * sigmoid_of(v); }},
      {"quick_gelu", [&](double v) { return v * sigmoid_of(1.702 * v); }},
      {"softplus", softplus_of},
      {"mish", [&](double v) { return v * std::tanh(softplus_of(v)); }},
      {"tanh", [](double v) { return std::tanh(v); }}};
  std::vector<T> results;
  for (const int32_t dtype :
       {ASTER_ML_DTYPE_FLOAT16, ASTER_ML_DTYPE_BFLOAT16, ASTER_ML_DTYPE_FP8E4M3,
        ASTER_ML_DTYPE_FP8E5M2, ASTER_ML_DTYPE_FP8E4M3FNUZ, ASTER_ML_DTYPE_FP8E5M2FNUZ}) {
    const T in = tensor_of(world, x, dtype, {9});
    for (const auto& [name, f] : exact) {
      results.emplace_back();
      OK(programs().at(name)(results.back(), world, {&in}));
    }
  }
  realize(results);
  for (size_t i = 0; i < results.size();) {
    for (const auto& [name, f] : exact) {
      const std::vector<double> got = read(results[i]);
      for (size_t k = 0; k < x.size(); ++k) {
        const double wanted = f(x[k]);
        EXPECT_NEAR(got[k], wanted, 0.07 * std::abs(wanted) + 0.01)
            << name << " of " << aster_ml_dtype_name(results[i].dtype()) << " at " << x[k];
      }
      ++i;
    }
  }
}

// Prefixes far below the largest element keep their value.
TEST_P(FunctionCorners, LogCumSumExpOfFarApart) {
  const World world(GetParam());
  const std::vector<double> x{-kInf, -1e9, -2000, -2000, 0, 500, 1e9, 3};
  const T in = tensor_of(world, x, ASTER_ML_DTYPE_FLOAT32, {8});
  T out;
  OK(aster_ml_lazy_logcumsumexp(out, in, 0));
  const std::vector<double> got = read(out);
  const double wanted[] = {-kInf, -1e9, -2000, -2000 + std::log(2.0), 0, 500, 1e9, 1e9};
  for (size_t i = 0; i < x.size(); ++i) {
    if (got[i] == wanted[i]) continue;  // infinities
    EXPECT_NEAR(got[i], wanted[i], 1e-3) << i;
  }
}

TEST_P(FunctionCorners, EmptyAnd0d) {
  const World world(GetParam());
  const T nothing = from<float>(world, {}, {0, 3}), one = from<float>(world, {3}, {});
  for (const auto& [name, f] : programs()) {
    if (name.find("categorical") != name.npos || name.find("sparse") != name.npos ||
        name.starts_with("nll") || name.starts_with("batchnorm") || name == "threefry" ||
        name.starts_with("bitwise") || name.starts_with("sh")) {
      continue;
    }
    T out;
    ASSERT_EQ(f(out, world, {&nothing, &nothing}), 0) << name << ": " << message();
    (void)read(out);
  }
  for (const char* name : {"cumsum_0", "cumprod", "cummax_0", "cummin"}) {
    T out;
    ASSERT_EQ(programs().at(name)(out, world, {&one}), 0) << name << ": " << message();
    EXPECT_EQ(out.shape(), Shape{});
    EXPECT_EQ(read(out), std::vector<double>{3}) << name;
  }
  for (const char* name : {"cummax_0_indices", "cummin_indices"}) {
    T out;
    ASSERT_EQ(programs().at(name)(out, world, {&one}), 0) << name << ": " << message();
    EXPECT_EQ(read(out), std::vector<double>{0}) << name;
  }
  EXPECT_EQ(aster_ml_lazy_cumsum(T(), one, 1), ASTER_ML_RANGE);
}

// 0 * log 0 is 0 in a loss, and its gradient is finite.
TEST_P(FunctionCorners, LossesAtCertainty) {
  const World world(GetParam());
  const T p = from<float>(world, {0, 1, 0.5}, {3}), y = from<float>(world, {0, 1, 1}, {3});
  T each, total, slope;
  OK(aster_ml_lazy_binary_crossentropy(each, p, y, ASTER_ML_REDUCTION_NONE));
  OK(aster_ml_lazy_binary_crossentropy(total, p, y, ASTER_ML_REDUCTION_SUM));
  const aster_ml_lazy* const targets[] = {p};
  OK(aster_ml_gradient(slope, total, targets, 1, nullptr));
  const std::vector<double> got = read(each), slopes = read(slope);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(got[i], i == 2 ? std::log(2.0) : 0, 1e-6);
    EXPECT_NEAR(slopes[i], i == 0 ? 1 : i == 1 ? -1 : -2, 1e-5);
  }
}

// Gradients where an unused branch of the composition is infinite, or a norm is 0.
TEST_P(FunctionCorners, GradientsStayFinite) {
  const World world(GetParam());
  const std::pair<const char*, std::vector<double>> cases[] = {
      {"asin", {0, 0.5, -0.5}},     {"acos", {0, 0.5, -0.5}},    {"atan", {0, 1e30, -1e30}},
      {"sinh", {0, 1, -1}},         {"cosh", {0, 1, -1}},        {"asinh", {0, 1e30, -1e30}},
      {"elu", {0, 1e5, -1e5}},      {"celu", {0, 1e5, -1e5}},    {"selu", {0, 1e5, -1e5}},
      {"softplus", {0, 1e5, -1e5}}, {"mish", {0, 80, -80}},      {"logsigmoid", {0, 1e5, -1e5}},
      {"normalize_p3", {0, 0, 0}},  {"normalize_p0", {0, 1, 0}},
  };
  const std::map<std::string, double> at_zero = {
      {"asin", 1},   {"acos", -1},      {"atan", 1}, {"sinh", 1},         {"cosh", 0},
      {"elu", 0.75}, {"softplus", 0.5}, {"celu", 1}, {"logsigmoid", 0.5}, {"asinh", 1}};
  std::vector<T> slopes;
  for (const auto& [name, values] : cases) {
    const T x = tensor_of(world, values, ASTER_ML_DTYPE_FLOAT32, {3});
    T y, total;
    OK(programs().at(name)(y, world, {&x}));
    OK(aster_ml_lazy_sum(total, y, 0, nullptr, 0));
    const aster_ml_lazy* const targets[] = {x};
    slopes.emplace_back();
    OK(aster_ml_gradient(slopes.back(), total, targets, 1, nullptr));
  }
  realize(slopes);
  size_t next = 0;
  for (const auto& [name, values] : cases) {
    const std::vector<double> got = read(slopes[next++]);
    for (const double v : got) EXPECT_TRUE(std::isfinite(v)) << name;
    if (!at_zero.contains(name)) continue;
    EXPECT_NEAR(got[0], at_zero.at(name), 1e-6) << name;
  }
}

// A context with strict_parity gives tinygrad's corners and dtypes.
TEST_P(FunctionCorners, StrictParity) {
  aster_ml_context_options options{};
  options.strict_parity = 1;
  const World world(GetParam(), options);
  std::vector<double> x{1, kNan, -2, kInf, -kInf, 0.0, -0.0, 3.5, 0.5, -0.75, kNan, 20};
  const auto rows = oracle("functions_strict.tsv");
  std::vector<T> results;
  for (const auto& row : rows) {
    const int32_t dtype = dtype_code(row[1]);
    std::vector<double> a = x;
    for (double& v : a) v = !is_float_name(row[1]) && !std::isfinite(v) ? 7 : v;
    std::vector<double> b(a.end() - 3, a.end());
    b.insert(b.end(), a.begin(), a.end() - 3);
    if (row[1] == "bool") {
      for (double& v : a) v = v != 0;
    }
    const T in = tensor_of(world, a, dtype, {3, 4}), other = tensor_of(world, b, dtype, {3, 4});
    T out;
    if (row[0] == "max" || row[0] == "min") {
      OK(reductions().at(row[0])(out, in, 1, kAxes + 1, 0));
    } else if (row[0] == "binary_crossentropy") {
      OK(aster_ml_lazy_binary_crossentropy(out, in, other, 2));
    } else {
      OK(programs().at(row[0])(out, world, {&in, &other}));
    }
    EXPECT_STREQ(aster_ml_dtype_name(out.dtype()), row[2].c_str()) << row[0] << " " << row[1];
    results.push_back(std::move(out));
  }
  realize(results);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string &seen = rows[i][2], as = seen == "weakfloat" ? "float32"
                                               : seen == "weakint" ? "int32"
                                                                   : seen;
    const std::vector<double> wanted = as_doubles(unhex(rows[i][3]), dtype_code(as));
    const std::vector<double> got = read(results[i]);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t k = 0; k < got.size(); ++k) {
      if (got[k] == wanted[k] || (std::isnan(got[k]) && std::isnan(wanted[k]))) continue;
      EXPECT_NEAR(got[k], wanted[k], 1e-6 * std::max(1.0, std::abs(wanted[k])))
          << rows[i][0] << " of " << rows[i][1] << ", element " << k;
    }
  }
}

}  // namespace
}  // namespace aster::tensor::test
