// What the commands share: their arguments, their failures, the library's handles by RAII.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "aster_ml/aster_ml.h"

namespace cli {

// Ends the command with one line on standard error: status 2 for what the user asked, 1 else.
struct Failure {
  int status;
  std::string message;
};

// Arguments after the command's words.
struct Arguments {
  bool json = false;
  std::vector<std::string> words;             // that are no options
  std::map<std::string, std::string> values;  // by the option's name, without dashes

  bool has(const std::string& name) const { return values.count(name) != 0; }
  std::string get(const std::string& name, const std::string& fallback) const {
    return has(name) ? values.at(name) : fallback;
  }
  // Failure unless it is a number from least to most.
  int64_t number(const std::string& name, int64_t fallback, int64_t least, int64_t most) const;
};

// Turns a failed call into a Failure in the library's words.
void check(int32_t status);

template <typename Call>
std::string text_of(Call call) {
  size_t length = 0;
  check(call(nullptr, &length, size_t{0}));
  std::string out(length + 1, '\0');
  check(call(out.data(), &length, out.size()));
  out.resize(length);
  return out;
}

// A handle that is freed at the end.
template <typename T, int32_t (*Free)(T*)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, T{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() { Free(&handle_); }
  T* get() { return &handle_; }
  const T* get() const { return &handle_; }
  T* operator->() { return &handle_; }

 private:
  T handle_{};
};
using Context = Owned<aster_ml_context, aster_ml_context_free>;
using Lazy = Owned<aster_ml_lazy, aster_ml_lazy_free>;
using Tensor = Owned<aster_ml_tensor, aster_ml_tensor_free>;
using Layer = Owned<aster_ml_layer, aster_ml_layer_free>;
using State = Owned<aster_ml_state, aster_ml_state_free>;
using Optimizer = Owned<aster_ml_optimizer, aster_ml_optimizer_free>;
using Program = Owned<aster_ml_program, aster_ml_program_free>;
using Onnx = Owned<aster_ml_onnx, aster_ml_onnx_free>;
using OnnxValue = Owned<aster_ml_onnx_value, aster_ml_onnx_value_free>;
using Scope = Owned<aster_ml_scope, aster_ml_scope_end>;

// The commands; they print to standard output and give the exit status.
int info(const Arguments& arguments);
int cache_info(const Arguments& arguments);
int cache_clear(const Arguments& arguments);
int demo_digits(const Arguments& arguments);
int graph(const Arguments& arguments);
int profile(const Arguments& arguments);
int tune(const Arguments& arguments);
int run_model(const Arguments& arguments);
int convert(const Arguments& arguments);
int freeze(const Arguments& arguments);

// "12.3 MB"
std::string megabytes(uint64_t bytes);

}  // namespace cli
