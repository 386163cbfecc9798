// The public C interface with just enough C++ around it that programs read like programs. Failures
// end the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "aster_ml/aster_ml.h"

namespace programs {

using Shape = std::vector<int64_t>;

inline std::string last_error() {
  aster_ml_error error{};
  aster_ml_error_last(&error);
  return std::string(error.function) + ": " + error.message;
}
#define OK(call) ASSERT_EQ((call), 0) << programs::last_error()
#define EXPECT_OK(call) EXPECT_EQ((call), 0) << programs::last_error()

// A context and a scope: every tensor made lives until the end.
class Session {
 public:
  explicit Session(aster_ml_context_options options = {}) {
    options.struct_size = sizeof(options);
    if (options.threads == 0) options.threads = 2;
    EXPECT_OK(aster_ml_context_init(&context, &options));
    EXPECT_OK(aster_ml_scope_begin(&scope_, &context));
  }
  ~Session() {
    EXPECT_OK(aster_ml_scope_end(&scope_));
    EXPECT_OK(aster_ml_context_free(&context));
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  aster_ml_engine_counters counters() const {
    aster_ml_engine_counters out{};
    out.struct_size = sizeof(out);
    EXPECT_OK(aster_ml_engine_count(&out, &context));
    return out;
  }
  std::string schedule() const {
    std::string text(1 << 16, '\0');
    if (aster_ml_engine_print_schedule(text.data(), text.size(), &context) != 0) return {};
    return text.c_str();
  }
  aster_ml_context context{};

 private:
  aster_ml_scope scope_{};
};

// A handle by value; the session's scope frees it.
struct T {
  aster_ml_lazy h{};
};

template <typename Function, typename... Args>
T make(Function function, Args... args) {
  T out;
  EXPECT_OK(function(&out.h, args...));
  return out;
}

inline T from(Session& s, const std::vector<float>& values, const Shape& shape) {
  return make(aster_ml_lazy_from, &s.context, values.data(), ASTER_ML_DTYPE_FLOAT32, shape.size(),
              shape.data());
}
inline T from(Session& s, const std::vector<int32_t>& values, const Shape& shape) {
  return make(aster_ml_lazy_from, &s.context, values.data(), ASTER_ML_DTYPE_INT32, shape.size(),
              shape.data());
}
inline std::vector<float> noise(size_t count, uint32_t seed) {
  std::mt19937 bits(seed);
  std::vector<float> out(count);
  for (float& value : out) value = static_cast<float>(bits() % 2001) / 1000.0f - 1.0f;
  return out;
}
// Realised data in [-1, 1].
inline T data(Session& s, const Shape& shape, uint32_t seed = 1) {
  size_t count = 1;
  for (int64_t dim : shape) count *= static_cast<size_t>(dim);
  return from(s, noise(count, seed), shape);
}
inline T number(Session& s, double value) { return make(aster_ml_lazy_number, &s.context, value); }

#define UNARY(name) \
  inline T name(T a) { return make(aster_ml_lazy_##name, &a.h); }
#define BINARY(name) \
  inline T name(T a, T b) { return make(aster_ml_lazy_##name, &a.h, &b.h); }
// clang-format off
UNARY(exp) UNARY(log) UNARY(neg) UNARY(sqrt) UNARY(relu) UNARY(tanh) UNARY(sigmoid) UNARY(square)
UNARY(contiguous)
BINARY(add) BINARY(sub) BINARY(mul) BINARY(div) BINARY(matmul) BINARY(maximum)
// clang-format on
#undef UNARY
#undef BINARY
        inline T
        operator+(T a, T b) {
  return add(a, b);
}
inline T operator-(T a, T b) { return sub(a, b); }
inline T operator*(T a, T b) { return mul(a, b); }
inline T operator/(T a, T b) { return div(a, b); }

inline T sum(T a, const Shape& axes = {}, bool keep = false) {
  return make(aster_ml_lazy_sum, &a.h, axes.size(), axes.data(), keep ? 1 : 0);
}
inline T mean(T a, const Shape& axes = {}, bool keep = false) {
  return make(aster_ml_lazy_mean, &a.h, axes.size(), axes.data(), keep ? 1 : 0);
}
inline T max(T a, const Shape& axes = {}, bool keep = false) {
  return make(aster_ml_lazy_max, &a.h, axes.size(), axes.data(), keep ? 1 : 0);
}
inline T reshape(T a, const Shape& shape) {
  return make(aster_ml_lazy_reshape, &a.h, shape.size(), shape.data());
}
inline T permute(T a, const Shape& axes) {
  return make(aster_ml_lazy_permute, &a.h, axes.size(), axes.data());
}
inline T softmax(T a, int64_t axis = -1) { return make(aster_ml_lazy_softmax, &a.h, axis); }

inline void realize(std::initializer_list<T*> tensors) {
  std::vector<aster_ml_lazy*> handles;
  for (T* t : tensors) handles.push_back(&t->h);
  EXPECT_OK(aster_ml_lazy_realize(handles.data(), handles.size()));
}
inline std::vector<float> read(T a) {
  std::vector<float> out(static_cast<size_t>(aster_ml_lazy_count(&a.h)));
  EXPECT_OK(aster_ml_lazy_copy_out(out.data(), out.size() * sizeof(float), &a.h));
  return out;
}

}  // namespace programs
