// What the tests of this module share: contexts, handles that free themselves, the oracle's tables.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "aster_ml/eager.h"
#include "aster_ml/functions.h"
#include "aster_ml/gradient.h"
#include "aster_ml/random.h"
#include "aster_ml/tensor.h"

namespace aster::tensor::test {

using Shape = std::vector<int64_t>;

inline std::string message() {
  aster_ml_error error;
  aster_ml_error_last(&error);
  return std::string(error.function) + ": " + error.message;
}
#define OK(call) ASSERT_EQ(call, ASTER_ML_OK) << ::aster::tensor::test::message()

// A context that computes through the interpreter, or through compiled kernels.
class World {
 public:
  explicit World(bool interpreted = true, aster_ml_context_options options = {}) {
    options.struct_size = sizeof(options);
    options.threads = options.threads == 0 ? 1 : options.threads;
    if (interpreted) options.compiler = "none";
    options.no_fallback = interpreted ? 0 : 1;
    EXPECT_EQ(aster_ml_context_init(&context_, &options), 0) << message();
    aster_ml_error_clear();
  }
  ~World() { aster_ml_context_free(&context_); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  operator const aster_ml_context*() const { return &context_; }  // NOLINT: what functions take

 private:
  aster_ml_context context_{};
};

// A handle.
class T {
 public:
  T() = default;
  T(T&& other) noexcept : x(other.x) { other.x.impl = nullptr; }
  T& operator=(T&& other) noexcept {
    std::swap(x, other.x);
    return *this;
  }
  ~T() { aster_ml_lazy_free(&x); }
  operator aster_ml_lazy*() { return &x; }              // NOLINT: what functions take
  operator const aster_ml_lazy*() const { return &x; }  // NOLINT
  Shape shape() const {
    Shape s(aster_ml_lazy_ndim(&x));
    EXPECT_EQ(aster_ml_lazy_shape(s.data(), s.size(), &x), 0) << message();
    return s;
  }
  int32_t dtype() const { return aster_ml_lazy_dtype(&x); }
  template <typename V>
  std::vector<V> read() {
    std::vector<V> v(static_cast<size_t>(aster_ml_lazy_count(&x)));
    EXPECT_EQ(aster_ml_lazy_copy_out(v.data(), v.size() * sizeof(V), &x), 0) << message();
    return v;
  }
  std::vector<float> floats() { return read<float>(); }

  aster_ml_lazy x{};
};

template <typename V>
constexpr int32_t kDTypeOf = 0;
template <>
inline constexpr int32_t kDTypeOf<float> = ASTER_ML_DTYPE_FLOAT32;
template <>
inline constexpr int32_t kDTypeOf<double> = ASTER_ML_DTYPE_FLOAT64;
template <>
inline constexpr int32_t kDTypeOf<int32_t> = ASTER_ML_DTYPE_INT32;
template <>
inline constexpr int32_t kDTypeOf<int64_t> = ASTER_ML_DTYPE_INT64;
template <>
inline constexpr int32_t kDTypeOf<int8_t> = ASTER_ML_DTYPE_INT8;
template <>
inline constexpr int32_t kDTypeOf<uint8_t> = ASTER_ML_DTYPE_UINT8;

template <typename V>
T from(const World& world, const std::vector<V>& values, const Shape& shape,
       int32_t dtype = kDTypeOf<V>) {
  T t;
  EXPECT_EQ(aster_ml_lazy_from(t, world, values.data(), dtype, shape.size(), shape.data()), 0)
      << message();
  return t;
}
inline T number(const World& world, double value) {
  T t;
  EXPECT_EQ(aster_ml_lazy_number(t, world, value), 0) << message();
  return t;
}
inline T integer(const World& world, int64_t value) {
  T t;
  EXPECT_EQ(aster_ml_lazy_integer(t, world, value), 0) << message();
  return t;
}

// Public functions by name, from the same table that defines them.
using Unary = int32_t (*)(aster_ml_lazy*, const aster_ml_lazy*);
using Binary = int32_t (*)(aster_ml_lazy*, const aster_ml_lazy*, const aster_ml_lazy*);
using Reduction = int32_t (*)(aster_ml_lazy*, const aster_ml_lazy*, size_t, const int64_t*,
                              int32_t);
inline const std::map<std::string, Unary>& unaries() {
  static const std::map<std::string, Unary> table = {
#define UNARY(name, domain, expression) {#name, aster_ml_lazy_##name},
#include "tensor/elementwise.def"
  };
  return table;
}
inline const std::map<std::string, Binary>& binaries() {
  static const std::map<std::string, Binary> table = {
#define BINARY(name, domain, expression) {#name, aster_ml_lazy_##name},
#include "tensor/elementwise.def"
  };
  return table;
}
inline int32_t variance(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                        const int64_t* axes, int32_t keepdim) {
  return aster_ml_lazy_var(out, x, count, axes, keepdim, 1);
}
inline const std::map<std::string, Reduction>& reductions() {
  static const std::map<std::string, Reduction> table = {{"sum", aster_ml_lazy_sum},
                                                         {"prod", aster_ml_lazy_prod},
                                                         {"max", aster_ml_lazy_max},
                                                         {"min", aster_ml_lazy_min},
                                                         {"mean", aster_ml_lazy_mean},
                                                         {"var", variance},
                                                         {"any", aster_ml_lazy_any},
                                                         {"all", aster_ml_lazy_all},
                                                         {"logsumexp", aster_ml_lazy_logsumexp}};
  return table;
}

// Rows of a table of the oracle, split at tabs.
inline std::vector<std::vector<std::string>> oracle(const std::string& file) {
  const std::filesystem::path path =
      std::filesystem::path(__FILE__).parent_path() / "oracle" / file;
  const char* given = std::getenv("ASTER_ML_TEST_DATA");
  std::ifstream in(given != nullptr ? std::filesystem::path(given) / "tensor" / "oracle" / file
                                    : path);
  EXPECT_TRUE(in.good()) << file;
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> row;
    std::stringstream fields(line);
    for (std::string field; std::getline(fields, field, '\t');) row.push_back(field);
    rows.push_back(row);
  }
  EXPECT_FALSE(rows.empty()) << file;
  return rows;
}
inline std::vector<uint8_t> unhex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}
template <typename V>
std::vector<V> numbers(const std::string& hex) {
  const std::vector<uint8_t> bytes = unhex(hex);
  std::vector<V> values(bytes.size() / sizeof(V));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
inline int32_t dtype_code(const std::string& name) {
  int32_t code = 0;
  if (name == "none") return 0;
  EXPECT_EQ(aster_ml_dtype_from_name(&code, name.c_str()), 0) << name;
  return code;
}

// oracle/make.py's data(): values without zeros.
inline std::vector<double> data(int32_t dtype, size_t count, int salt) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) {
    int k = (static_cast<int>(i) * 7 + salt * 5) % 19 - 9;
    if (k == 0) k = 10;
    if (dtype == ASTER_ML_DTYPE_BOOL) {
      values.push_back(k > 0);
    } else if (aster_ml_dtype_is_unsigned(dtype) != 0) {
      values.push_back(std::abs(k));
    } else {
      values.push_back(aster_ml_dtype_is_int(dtype) != 0 ? k : k * 0.3125);
    }
  }
  return values;
}
// Numbers as a tensor of any dtype.
inline T tensor_of(const World& world, const std::vector<double>& values, int32_t dtype,
                   const Shape& shape) {
  std::vector<uint8_t> bytes(values.size() * aster_ml_dtype_size(dtype));
  EXPECT_EQ(aster_ml_dtype_copy(bytes.data(), dtype, values.data(), ASTER_ML_DTYPE_FLOAT64,
                                values.size()),
            0);
  T t;
  EXPECT_EQ(aster_ml_lazy_from(t, world, bytes.data(), dtype, shape.size(), shape.data()), 0)
      << message();
  return t;
}

}  // namespace aster::tensor::test
