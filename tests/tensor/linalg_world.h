// Inputs and answers as oracle/make_linalg.py makes them.
#pragma once

#include "world.h"

namespace aster::tensor::test {

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream fields(text);
  for (std::string field; std::getline(fields, field, at);) parts.push_back(field);
  return parts;
}
inline Shape shape_of(const std::string& text) {
  Shape shape;
  if (text == "-") return shape;
  for (const std::string& dim : split(text, ',')) shape.push_back(std::stoll(dim));
  return shape;
}
inline size_t count_of(const Shape& shape) {
  size_t n = 1;
  for (int64_t dim : shape) n *= static_cast<size_t>(dim);
  return n;
}

// The script's values().
inline std::vector<double> whole_values(const Shape& shape, int salt, bool floats) {
  std::vector<double> out(count_of(shape));
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t k = (static_cast<int64_t>(i) * 7919 + salt * 104729) % 2003;
    k = k * k % 2003;
    out[i] = floats ? static_cast<double>(k) / 1001.0 - 1.0 : static_cast<double>(k % 21 - 10);
  }
  return out;
}
inline std::vector<float> matrix_values(const Shape& shape, int salt) {
  const std::vector<double> v = whole_values(shape, salt, true);
  return {v.begin(), v.end()};
}
inline T matrix(const World& world, const Shape& shape, int salt,
                const std::string& dtype = "float32") {
  const int32_t code = dtype_code(dtype);
  return tensor_of(world, whole_values(shape, salt, aster_ml_dtype_is_float(code) != 0), code,
                   shape);
}

// The elements of t against the bytes of an answer of the same dtype.
inline void expect_near(T& t, const std::string& hex, double tolerance, const std::string& what) {
  const std::vector<uint8_t> expected = unhex(hex);
  std::vector<uint8_t> got(expected.size());
  ASSERT_EQ(aster_ml_lazy_copy_out(got.data(), got.size(), t), 0) << what << ": " << message();
  const int32_t dtype = t.dtype();
  const size_t count = got.size() / aster_ml_dtype_size(dtype);
  std::vector<double> a(count), b(count);
  ASSERT_EQ(aster_ml_dtype_copy(a.data(), ASTER_ML_DTYPE_FLOAT64, got.data(), dtype, count), 0);
  ASSERT_EQ(aster_ml_dtype_copy(b.data(), ASTER_ML_DTYPE_FLOAT64, expected.data(), dtype, count),
            0);
  for (size_t i = 0; i < count; ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (same) continue;
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << what << " at " << i;
  }
}

}  // namespace aster::tensor::test
