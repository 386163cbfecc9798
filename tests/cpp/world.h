// What the tests of the C++ wrapper share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "aster_ml/aster_ml.hpp"

#define OK(condition) ASSERT_TRUE(condition) << aster_ml::error().message
#define EXPECT_OK(condition) EXPECT_TRUE(condition) << aster_ml::error().message

namespace cpp_test {

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;
using Shape = std::vector<int64_t>;

inline Floats floats(const aster_ml::Tensor& x) { return x.to_vector<float>(); }
inline Ints ints(const aster_ml::Tensor& x) { return x.to_vector<int32_t>(); }

// Numbers in [-1, 1), the same for the same seed.
inline Floats noise(size_t count, uint32_t seed) {
  Floats out(count);
  for (float& value : out) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return out;
}

inline aster_ml_context_options one_thread() {
  aster_ml_context_options options{};
  options.threads = 1;
  return options;
}

}  // namespace cpp_test
