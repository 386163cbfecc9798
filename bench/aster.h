// What the benches share: they are written with aster_ml.hpp, as a user's programs are. What fails
// ends the program with the library's message.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "aster_ml/aster_ml.hpp"

namespace bench {

using aster_ml::Tensor;
using Shape = std::vector<int64_t>;

inline void check(bool good) {
  if (good) return;
  const aster_ml_error error = aster_ml::error();
  std::fprintf(stderr, "%s: %s: %s\n", aster_ml_status_name(error.code), error.function,
               error.message);
  std::exit(1);
}

// A context of as many threads as ASTER_THREADS says, else one.
class Session : public aster_ml::Context {
 public:
  explicit Session(aster_ml_context_options options = {}) : Context(with_threads(options)) {
    check(ok());
  }

 private:
  static aster_ml_context_options with_threads(aster_ml_context_options options) {
    const char* text = std::getenv("ASTER_THREADS");
    const int n = text == nullptr ? 1 : std::atoi(text);
    if (options.threads == 0) options.threads = n > 0 ? n : 1;
    return options;
  }
};

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
inline Tensor data(const Shape& shape, uint32_t seed = 1, float scale = 1) {
  size_t count = 1;
  for (int64_t dim : shape) count *= static_cast<size_t>(dim);
  return Tensor(noise(count, seed, scale), shape);
}
inline Tensor labels(size_t count, size_t classes) {
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i * 7 % classes);
  return Tensor(values);
}

// A captured step with inputs and outputs bound: run() replays it and allocates nothing.
class Step {
 public:
  // body builds the step and gives its output.
  template <typename Body>
  Step(const std::vector<Tensor>& inputs, Body body) : program_(inputs, body) {
    check(program_.ok());
    for (const Tensor& x : inputs) inputs_.push_back(x.view());
    for (const Tensor& x : program_.outputs()) outputs_.push_back(x.view());
    run();
  }
  void run() {
    check(program_.run(inputs_.data(), inputs_.size(), outputs_.data(), outputs_.size()));
  }
  double kernels() const { return static_cast<double>(program_.kernels()); }
  float* input(size_t i) const { return values(inputs_[i]); }
  float* output() const { return values(outputs_[0]); }

 private:
  static float* values(const aster_ml_tensor& x) {
    return reinterpret_cast<float*>(static_cast<char*>(x.storage.data) + x.byte_offset);
  }
  aster_ml::Program program_;
  std::vector<aster_ml_tensor> inputs_, outputs_;
};

}  // namespace bench
