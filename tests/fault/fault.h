// Runs a program of public calls again and again, each time with other allocations failing, and
// holds every run against what failing may mean: MEMORY from the function that was called, nothing
// lost, and a context that goes on as if nothing had happened.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "aster_ml/aster_ml.h"

namespace fault {

// The system's memory, counted, of which requests [first, first + length) fail.
class Allocator {
 public:
  Allocator();
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  void fail(int64_t first,
            int64_t length);  // counted from the next request, 0; a length of 0: none
  int64_t requests() const { return requests_; }
  int64_t failed() const { return failed_; }
  size_t live() const { return live_.size(); }
  bool sound() const { return sound_; }  // every release matched its request
  std::string describe_live() const;

  aster_ml_allocator table{};

 private:
  struct Request {
    size_t bytes, alignment;
    int64_t number;
    std::vector<void*> stack;
  };
  void* allocate(size_t bytes, size_t alignment);
  void release(void* pointer, size_t bytes, size_t alignment);
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  std::unordered_map<void*, Request> live_;
  int64_t requests_ = 0, failed_ = 0, first_ = -1, length_ = 0;
  bool sound_ = true;
};

using Shape = std::vector<int64_t>;

// One pass of a program through a context. Handles made by it are freed at the end, whatever
// happened.
class Pass {
 public:
  Pass(aster_ml_context& given, const Allocator& memory, bool go_on)
      : context(given), memory_(memory), go_on_(go_on) {}
  ~Pass();
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // Looks at what a function answered. True where the program goes on.
  bool check(const char* function, int32_t status);
  bool failed() const { return failed_; }
  bool stopped() const { return failed_ && !go_on_; }

  aster_ml_lazy* lazy() { return &lazies_.emplace_back(); }
  aster_ml_tensor* tensor() { return &tensors_.emplace_back(); }
  aster_ml_layer* layer() { return &layers_.emplace_back(); }
  aster_ml_state* state() { return &states_.emplace_back(); }
  aster_ml_optimizer* optimizer() { return &optimizers_.emplace_back(); }
  aster_ml_program* program() { return &programs_.emplace_back(); }
  aster_ml_workspace* workspace() { return &workspaces_.emplace_back(); }
  aster_ml_buffer* buffer() { return &buffers_.emplace_back(); }

  aster_ml_context& context;
  std::vector<float> values;  // what the program computed

 private:
  const Allocator& memory_;
  bool go_on_;
  bool failed_ = false;
  std::deque<aster_ml_lazy> lazies_;
  std::deque<aster_ml_tensor> tensors_;
  std::deque<aster_ml_layer> layers_;
  std::deque<aster_ml_state> states_;
  std::deque<aster_ml_optimizer> optimizers_;
  std::deque<aster_ml_program> programs_;
  std::deque<aster_ml_workspace> workspaces_;
  std::deque<aster_ml_buffer> buffers_;
};

// A call inside a program: void body(Pass& run).
#define CALL(function, ...)                                   \
  do {                                                        \
    if (!run.check(#function, function(__VA_ARGS__))) return; \
  } while (0)
// Declares a handle and makes it.
#define MAKE(name, function, ...)   \
  aster_ml_lazy* name = run.lazy(); \
  CALL(function, name __VA_OPT__(, ) __VA_ARGS__)

using Body = std::function<void(Pass&)>;

// Fails every request of a program (or as many as most, evenly spread; ASTER_ML_FAULT_FULL=1: all
// of them), alone and with those that follow. ASTER_ML_FAULT_AT=N tries one and says where it lies.
void sweep(const Body& body, const aster_ml_context_options& options = {}, int64_t most = 150);

}  // namespace fault
