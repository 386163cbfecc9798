// Functions of elements and along axes against the answers of oracle/functions.py.
#include "functions.h"

namespace aster::tensor::test {
namespace {

using namespace functions;  // NOLINT: the vocabulary of these tests

// oracle/functions.py's inputs().
std::vector<double> inputs(const std::string& name, int32_t dtype, size_t count, int salt) {
  std::vector<double> x = data(dtype, count, salt);
  const bool is_float = aster_ml_dtype_is_float(dtype) != 0;
  for (double& v : x) {
    if (is_float && (name == "asin" || name == "acos" || name == "atanh")) v /= 16;
    if (name == "acosh" && dtype != ASTER_ML_DTYPE_BOOL) v = std::abs(v) + 1;
  }
  return x;
}

// Where our dtype differs from tinygrad's on purpose; null where it does not.
const char* dtype_exception(const std::string& op, const std::string& a) {
  // What is whole stays as it is; there, a composition makes it weak.
  if (op == "relu6" && a == "bool") return "bool";
  // Functions with real results of bool are float32, as those of integers.
  if ((op == "atan" || op == "asinh" || op == "acosh") && a == "bool") return "float32";
  if (op == "normalize_p0" && !is_float_name(a)) return "float32";
  return nullptr;
}

TEST(FunctionsOracle, DTypes) {
  const World world;
  for (const auto& row : oracle("functions_dtypes.tsv")) {
    const std::string &op = row[0], &a = row[1], &b = row[2];
    ASSERT_TRUE(programs().contains(op)) << op;
    const bool two = b != "-";
    const Shape shape = two ? Shape{2} : Shape{1, 2};
    T x, y, out;
    OK(aster_ml_lazy_empty(x, world, dtype_code(a), shape.size(), shape.data()));
    OK(aster_ml_lazy_empty(y, world, dtype_code(two ? b : a), shape.size(), shape.data()));
    int32_t status;
    if (op.starts_with("binary_crossentropy")) {
      status = op == "binary_crossentropy"
                   ? aster_ml_lazy_binary_crossentropy(out, x, y, 0)
                   : aster_ml_lazy_binary_crossentropy_logits(out, x, y, nullptr, 0);
    } else {
      status = programs().at(op)(out, world, {&x, &y});
    }
    const char* other = dtype_exception(op, a);
    const std::string expected = other != nullptr ? other : row[3];
    ASSERT_EQ(status, 0) << op << " " << a << " " << b << ": " << message();
    if (expected == "none") continue;  // refused there
    EXPECT_STREQ(aster_ml_dtype_name(out.dtype()), expected.c_str()) << op << " " << a << " " << b;
  }
}

class Functions : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Runtimes, Functions, ::testing::Values(true, false),
                         [](const auto& runtime) {
                           return runtime.param ? "interpreted" : "compiled";
                         });

// tinygrad composes these from looser approximations.
double tolerance(const std::string& op, const std::string& result) {
  if (op == "asin" || op == "acos" || op == "atan") return 1e-6;
  if (op == "acosh" || op == "atanh") return 2e-6;
  if (op == "asinh") return 2e-5;  // the logarithm of a difference
  return result == "float64" ? 1e-7 : result == "float16" ? 1e-3 : 3e-6;
}

// Where tinygrad's values are accidents. The function of the same numbers in float64 stands in.
bool value_exception(const std::string& op, const std::string& dtype, const std::string& result) {
  // Of what stays whole, only these.
  if (!is_float_name(result) && op != "isclose" && op != "allclose" && op != "relu6") return false;
  const bool whole = !is_float_name(dtype), is_bool = dtype == "bool",
             is_unsigned = dtype == "uint8";
  // Squares of a variance of integers are cast to integers before they are added, and whole
  // sums are truncated by powers of bool.
  if (whole && (op.starts_with("std") || op.starts_with("var_mean_0"))) return true;
  if (is_bool && (op.starts_with("normalize") || op.starts_with("layernorm"))) return true;
  // Differences and negations that wrap or are logical.
  if (is_unsigned &&
      (op == "relu6" || op == "hardswish" || op == "acosh" || op == "logsigmoid" || op == "mish" ||
       op == "isclose" || op == "softmin" || op == "sinh" || op == "cosh" || op == "logcumsumexp" ||
       op == "logaddexp" || op.starts_with("log_softmax") || op.starts_with("softmax") ||
       op.starts_with("binary") || op.starts_with("batchnorm") || op == "allclose")) {
    return true;
  }
  return is_bool && !op.starts_with("cum") && !op.starts_with("usum") && !op.starts_with("uprod");
}

void widened(T* out, const std::string& op, const World& world, const T& x, const T& y) {
  T wide_x, wide_y;
  OK(aster_ml_lazy_cast(wide_x, x, ASTER_ML_DTYPE_FLOAT64));
  OK(aster_ml_lazy_cast(wide_y, y, ASTER_ML_DTYPE_FLOAT64));
  ASSERT_EQ(programs().at(op)(*out, world, {&wide_x, &wide_y}), 0) << op << message();
}

TEST_P(Functions, Values) {
  const World world(GetParam());
  const auto rows = oracle("functions_values.tsv");
  std::vector<T> results, witnesses(rows.size());
  size_t stood_in = 0;
  for (const auto& row : rows) {
    const std::string& op = row[0];
    ASSERT_TRUE(programs().contains(op)) << op;
    const int32_t dtype = dtype_code(row[1]);
    const size_t columns = op.ends_with("_long") ? 700 : 4, lines = op.ends_with("_long") ? 2 : 3;
    const Shape shape{static_cast<int64_t>(lines), static_cast<int64_t>(columns)};
    T x, y, out;
    if (op == "threefry") {
      std::vector<uint64_t> counters(12), keys(12);
      for (size_t i = 0; i < 12; ++i) counters[i] = i * 0x9E3779B97F4A7C15u;
      for (size_t i = 0; i < 12; ++i) keys[i] = counters[11 - i] ^ 7;
      const int64_t n = 12;
      OK(aster_ml_lazy_from(x, world, counters.data(), dtype, 1, &n));
      OK(aster_ml_lazy_from(y, world, keys.data(), dtype, 1, &n));
    } else {
      x = tensor_of(world, inputs(op, dtype, lines * columns, 1), dtype, shape);
      y = tensor_of(world, data(dtype, lines * columns, 2), dtype, shape);
    }
    ASSERT_EQ(programs().at(op)(out, world, {&x, &y}), 0) << op << " " << row[1] << message();
    if (value_exception(op, row[1], row[2])) {
      widened(&witnesses[results.size()], op, world, x, y);
      ++stood_in;
    }
    results.push_back(std::move(out));
  }
  EXPECT_LT(stood_in, 100u);
  realize(results);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string& op = rows[i][0];
    const int32_t dtype = dtype_code(rows[i][2]);
    if (op == "threefry") {
      std::vector<uint8_t> bytes(12 * 8);
      OK(aster_ml_lazy_copy_out(bytes.data(), bytes.size(), results[i]));
      EXPECT_EQ(bytes, unhex(rows[i][3]));
      continue;
    }
    const bool stands_in = witnesses[i].x.impl != nullptr;
    const std::vector<double> expected = stands_in ? read(witnesses[i])
                                                   : as_doubles(unhex(rows[i][3]), dtype),
                              got = read(results[i]);
    ASSERT_EQ(got.size(), expected.size()) << op;
    for (size_t k = 0; k < got.size(); ++k) {
      const double bound = tolerance(op, rows[i][2]) * std::max(1.0, std::abs(expected[k]));
      if (std::isnan(expected[k]) && std::isnan(got[k])) continue;
      if (got[k] == expected[k]) continue;  // infinities
      EXPECT_NEAR(got[k], expected[k], aster_ml_dtype_is_float(dtype) != 0 ? bound : 0)
          << op << " of " << rows[i][1] << ", element " << k;
    }
  }
}

// Accurate values: the largest error in units of the last place.
double ulps(double got, double wanted, const std::string& dtype) {
  if (got == wanted) return 0;
  int exponent;
  std::frexp(wanted, &exponent);
  const int mantissa = dtype == "float32" ? 24 : 53, least = dtype == "float32" ? -149 : -1074;
  return std::abs(got - wanted) / std::ldexp(1.0, std::max(exponent - mantissa, least));
}

TEST_P(Functions, Accuracy) {
  const World world(GetParam());
  const auto rows = oracle("functions_exact.tsv");
  std::vector<T> results;
  for (const auto& row : rows) {
    const std::vector<double> x = as_doubles(unhex(row[2]), dtype_code(row[1]));
    const T in = tensor_of(world, x, dtype_code(row[1]), {static_cast<int64_t>(x.size())});
    T out;
    ASSERT_EQ(programs().at(row[0])(out, world, {&in, &in}), 0) << message();
    results.push_back(std::move(out));
  }
  realize(results);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<double> x = as_doubles(unhex(rows[i][2]), dtype_code(rows[i][1]));
    const std::vector<double> wanted = as_doubles(unhex(rows[i][3]), dtype_code(rows[i][1]));
    const std::vector<double> got = read(results[i]);
    double worst = 0, at = 0;
    for (size_t k = 0; k < got.size(); ++k) {
      const double error = ulps(got[k], wanted[k], rows[i][1]);
      if (!(error <= worst)) worst = error, at = x[k];
    }
    EXPECT_LE(worst, 4) << rows[i][0] << " of " << rows[i][1] << " at " << at;
    RecordProperty(rows[i][0] + "_" + rows[i][1], std::to_string(worst));
  }
}

// Gradients: as tinygrad's.
double slope_tolerance(const std::string& op) {
  return op == "asin" || op == "acos" || op == "atan" ? 2e-5 : 5e-6;
}

TEST_P(Functions, Gradients) {
  const World world(GetParam());
  const auto rows = oracle("functions_gradients.tsv");
  std::vector<T> all;
  std::vector<size_t> first;
  for (const auto& row : rows) {
    const size_t count = row.size() - 1;
    const T x = tensor_of(world, inputs(row[0], ASTER_ML_DTYPE_FLOAT32, 12, 4),
                          ASTER_ML_DTYPE_FLOAT32, {3, 4});
    const T y =
        tensor_of(world, data(ASTER_ML_DTYPE_FLOAT32, 12, 5), ASTER_ML_DTYPE_FLOAT32, {3, 4});
    T z, wide, weighted, loss;
    ASSERT_EQ(programs().at(row[0])(z, world, {&x, &y}), 0) << row[0] << ": " << message();
    OK(aster_ml_lazy_cast(wide, z, ASTER_ML_DTYPE_FLOAT32));
    std::vector<double> w =
        data(ASTER_ML_DTYPE_FLOAT32, static_cast<size_t>(aster_ml_lazy_count(z)), 3);
    for (double& v : w) v *= 0.5;
    OK(aster_ml_lazy_mul(weighted, wide, tensor_of(world, w, ASTER_ML_DTYPE_FLOAT32, z.shape())));
    OK(aster_ml_lazy_sum(loss, weighted, 0, nullptr, 0));
    aster_ml_lazy handles[2] = {};
    const aster_ml_lazy* targets[] = {x, y};
    ASSERT_EQ(aster_ml_gradient(handles, loss, targets, count, nullptr), 0)
        << row[0] << ": " << message();
    first.push_back(all.size());
    for (size_t i = 0; i < count; ++i) {
      all.emplace_back();
      all.back().x = handles[i];
    }
  }
  realize(all);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i + 1 < rows[r].size(); ++i) {
      const std::vector<float> expected = numbers<float>(rows[r][i + 1]);
      const std::vector<double> got = read(all[first[r] + i]);
      ASSERT_EQ(got.size(), expected.size()) << rows[r][0];
      for (size_t k = 0; k < got.size(); ++k) {
        EXPECT_NEAR(got[k], expected[k],
                    slope_tolerance(rows[r][0]) * std::max(1.0f, std::abs(expected[k])))
            << rows[r][0] << ", operand " << i << ", element " << k;
      }
    }
  }
}

TEST(FunctionsEager, AsLazy) {
  const World world;
  const float values[] = {-0.5, 0, 0.25};
  const size_t shape[] = {3};
  aster_ml_tensor x{}, y{};
  OK(aster_ml_tensor_from_data(&x, world, values, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  OK(aster_ml_tensor_asin(&y, world, &x));
  const auto* got = static_cast<const float*>(y.storage.data);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], std::asin(values[i]), 1e-7);
  OK(aster_ml_tensor_free(&y));
  OK(aster_ml_tensor_copysign(&y, world, &x, &x));
  OK(aster_ml_tensor_free(&y));
  EXPECT_EQ(aster_ml_tensor_threefry(&y, world, &x, &x), ASTER_ML_DTYPE);
  OK(aster_ml_tensor_free(&x));
}

}  // namespace
}  // namespace aster::tensor::test
