// The public C interface with just enough C++ around it that benches read like programs. A failing
// call ends the program with the library's message.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "aster_ml/aster_ml.h"

namespace bench {

using Shape = std::vector<int64_t>;

inline void check(int32_t status) {
  if (status == ASTER_ML_OK) return;
  aster_ml_error error{};
  aster_ml_error_last(&error);
  std::fprintf(stderr, "%s: %s: %s\n", aster_ml_status_name(status), error.function, error.message);
  std::exit(1);
}

// Threads of every context: ASTER_THREADS, else one.
inline int32_t threads() {
  const char* text = std::getenv("ASTER_THREADS");
  const int n = text == nullptr ? 1 : std::atoi(text);
  return n > 0 ? n : 1;
}

// A context and a scope: every tensor made lives until the end.
class Session {
 public:
  explicit Session(aster_ml_context_options options = {}) {
    options.struct_size = sizeof(options);
    if (options.threads == 0) options.threads = threads();
    check(aster_ml_context_init(&context, &options));
    check(aster_ml_scope_begin(&scope_, &context));
  }
  ~Session() {
    check(aster_ml_scope_end(&scope_));
    check(aster_ml_context_free(&context));
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  aster_ml_engine_counters counters() const {
    aster_ml_engine_counters out{};
    out.struct_size = sizeof(out);
    check(aster_ml_engine_count(&out, &context));
    return out;
  }
  aster_ml_context context{};

 private:
  aster_ml_scope scope_{};
};

// Frees what is made while it lives.
class Scope {
 public:
  explicit Scope(const Session& s) { check(aster_ml_scope_begin(&scope_, &s.context)); }
  ~Scope() { check(aster_ml_scope_end(&scope_)); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  aster_ml_scope scope_{};
};

// A handle by value; the innermost scope frees it.
struct T {
  aster_ml_lazy h{};
};

template <typename Function, typename... Args>
T make(Function function, Args... args) {
  T out;
  check(function(&out.h, args...));
  return out;
}

// Numbers in [-scale, scale], the same for the same seed.
inline std::vector<float> noise(size_t count, uint32_t seed, float scale = 1) {
  std::vector<float> out(count);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (float& value : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = scale * (static_cast<float>(state >> 40) / 8388608.0f - 1.0f);
  }
  return out;
}
inline T data(const Session& s, const Shape& shape, uint32_t seed = 1, float scale = 1) {
  size_t count = 1;
  for (int64_t dim : shape) count *= static_cast<size_t>(dim);
  const std::vector<float> values = noise(count, seed, scale);
  return make(aster_ml_lazy_from, &s.context, values.data(), ASTER_ML_DTYPE_FLOAT32, shape.size(),
              shape.data());
}
inline T labels(const Session& s, int64_t count, int32_t classes) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int32_t>(i * 7 % static_cast<size_t>(classes));
  }
  return make(aster_ml_lazy_from, &s.context, values.data(), ASTER_ML_DTYPE_INT32, size_t{1},
              &count);
}
inline T number(const Session& s, double value) {
  return make(aster_ml_lazy_number, &s.context, value);
}

inline T operator+(T a, T b) { return make(aster_ml_lazy_add, &a.h, &b.h); }
inline T operator*(T a, T b) { return make(aster_ml_lazy_mul, &a.h, &b.h); }
inline T matmul(T a, T b) { return make(aster_ml_lazy_matmul, &a.h, &b.h); }
inline T relu(T a) { return make(aster_ml_lazy_relu, &a.h); }
inline T gelu(T a) { return make(aster_ml_lazy_gelu, &a.h); }
inline T softmax(T a) { return make(aster_ml_lazy_softmax, &a.h, int64_t{-1}); }
inline T contiguous(T a) { return make(aster_ml_lazy_contiguous, &a.h); }
inline T sum(T a) {
  return make(aster_ml_lazy_sum, &a.h, size_t{0}, static_cast<const int64_t*>(nullptr), 0);
}
inline T reshape(T a, const Shape& shape) {
  return make(aster_ml_lazy_reshape, &a.h, shape.size(), shape.data());
}
inline T permute(T a, const Shape& axes) {
  return make(aster_ml_lazy_permute, &a.h, axes.size(), axes.data());
}

inline void realize(std::initializer_list<T*> tensors) {
  std::vector<aster_ml_lazy*> handles;
  for (T* t : tensors) handles.push_back(&t->h);
  check(aster_ml_lazy_realize(handles.data(), handles.size()));
}
inline aster_ml_tensor view(T& t) {
  aster_ml_tensor out{};
  check(aster_ml_lazy_view(&out, &t.h));
  return out;
}
inline float* values(const aster_ml_tensor& t) {
  return reinterpret_cast<float*>(static_cast<char*>(t.storage.data) + t.byte_offset);
}

// A captured step with inputs and outputs bound: run() replays it and allocates nothing.
class Step {
 public:
  // body builds the step of its inputs and gives its outputs.
  template <typename Body>
  Step(Session& s, std::vector<T> inputs, Body body) {
    std::vector<aster_ml_lazy*> in, out;
    for (T& t : inputs) {
      inputs_.push_back(view(t));
      in.push_back(&t.h);
    }
    check(aster_ml_engine_capture_begin(&s.context, in.data(), in.size()));
    std::vector<T> results = body(inputs);
    for (T& t : results) out.push_back(&t.h);
    check(aster_ml_engine_capture_end(&program_, &s.context, out.data(), out.size()));
    outputs_.resize(out.size());
    for (size_t i = 0; i < out.size(); ++i) {
      const aster_ml_tensor like = view(results[i]);
      check(aster_ml_tensor_init(&outputs_[i], &s.context, like.dtype, like.device, like.ndim,
                                 like.shape));
    }
    run();
  }
  ~Step() {
    for (aster_ml_tensor& t : outputs_) check(aster_ml_tensor_free(&t));
    check(aster_ml_program_free(&program_));
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  void run() {
    check(aster_ml_program_run(&program_, nullptr, inputs_.data(), inputs_.size(), outputs_.data(),
                               outputs_.size()));
  }
  size_t kernels() const { return aster_ml_program_count_kernels(&program_); }
  float* input(size_t i) const { return values(inputs_[i]); }
  float* output(size_t i) const { return values(outputs_[i]); }

 private:
  aster_ml_program program_{};
  std::vector<aster_ml_tensor> inputs_, outputs_;
};

}  // namespace bench
