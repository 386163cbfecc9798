// What tests of whole programs share: they are written with aster_ml.hpp, as a user's are, and a
// failure ends the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "aster_ml/aster_ml.hpp"

namespace programs {

using aster_ml::Context;
using aster_ml::Tensor;
using Shape = std::vector<int64_t>;
using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

inline std::string last_error() {
  const aster_ml_error error = aster_ml::error();
  return std::string(error.function) + ": " + error.message;
}
// Statuses of C, and what C++ says of itself.
inline bool good(int32_t status) { return status == ASTER_ML_OK; }
inline bool good(bool done) { return done; }
template <typename Object>
bool good(const Object& object) {
  return object.ok();
}
#define OK(call) ASSERT_TRUE(programs::good(call)) << programs::last_error()
#define EXPECT_OK(call) EXPECT_TRUE(programs::good(call)) << programs::last_error()

// A context of two threads if nothing else is said, on the device that ASTER_TEST_DEVICE names.
class Session : public Context {
 public:
  explicit Session(aster_ml_context_options options = {}) : Context(with_threads(options)) {
    EXPECT_OK(*this);
    if (const char* const name = std::getenv("ASTER_TEST_DEVICE")) {
      int32_t device = 0;
      EXPECT_OK(aster_ml_device_from_name(&device, name));
      EXPECT_OK(set_device(device));
    }
  }

 private:
  static aster_ml_context_options with_threads(aster_ml_context_options options) {
    if (options.threads == 0) options.threads = 2;
    if (options.compiler == nullptr) options.no_fallback = 1;  // code that no compiler takes shows
    return options;
  }
};

// What a function of C makes, in the current context.
template <typename Function, typename... Args>
Tensor make(Function function, Args... args) {
  aster_ml_lazy out{};
  EXPECT_OK(function(&out, args...));
  return Tensor(std::move(out), Context::current().root());
}

// Numbers of std::mt19937, in [-1, 1]. Its loops were half of the time of large tests where a
// sanitizer watches them; here none does.
#if defined(__clang__)
__attribute__((no_sanitize("address", "thread", "undefined")))
#endif
inline void
draw_noise(float* out, size_t count, uint32_t seed) {
  constexpr uint32_t kWords = 624, kMiddle = 397;
  uint32_t state[kWords];
  state[0] = seed;
  for (uint32_t i = 1; i < kWords; ++i)
    state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
  uint32_t at = 0;
  for (size_t n = 0; n < count; ++n) {
    const uint32_t next = at + 1 == kWords ? 0 : at + 1;
    const uint32_t middle = at + kMiddle < kWords ? at + kMiddle : at + kMiddle - kWords;
    const uint32_t both = (state[at] & 0x80000000u) | (state[next] & 0x7fffffffu);
    uint32_t bits = state[middle] ^ (both >> 1) ^ ((both & 1) != 0 ? 0x9908b0dfu : 0u);
    state[at] = bits;
    at = next;
    bits ^= bits >> 11;
    bits ^= (bits << 7) & 0x9d2c5680u;
    bits ^= (bits << 15) & 0xefc60000u;
    bits ^= bits >> 18;
    out[n] = static_cast<float>(bits % 2001) / 1000.0f - 1.0f;
  }
}
inline Floats noise(size_t count, uint32_t seed) {
  Floats out(count);
  draw_noise(out.data(), count, seed);
  return out;
}
// Realised data in [-1, 1].
inline Tensor data(const Shape& shape, uint32_t seed = 1) {
  size_t count = 1;
  for (int64_t dim : shape) count *= static_cast<size_t>(dim);
  return Tensor(noise(count, seed), shape);
}
inline Floats read(const Tensor& x) {
  const Floats out = x.to_vector<float>();
  EXPECT_EQ(out.size(), static_cast<size_t>(x.numel())) << last_error();
  return out;
}

}  // namespace programs
