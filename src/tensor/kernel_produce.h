// Kernels of the Blaze interface that this library makes of programs.
#pragma once

#include <atomic>

#include "aster_ml/kernel.h"
#include "engine/program.h"
#include "tensor/api.h"

namespace aster::tensor {

using Prefix = aster_ml_kernel_data_prefix;

// A program, and workspaces for so many calls at one time; more calls wait. Any thread runs and
// ends it.
class Runner {
 public:
  static constexpr int32_t kMostCalls = 64;
  // Takes the program over and clears it, unless it fails. Errors: UNSUPPORTED (one that assigns).
  static Status create(Runner** out, aster_ml_program* program, int32_t calls);
  void release();

  // Of memory that is aligned as its elements are.
  void run(void* const* results, const void* const* inputs);
  size_t input_bytes(size_t i) const { return dtype::size(program_->inputs[i].dtype); }
  size_t result_bytes(size_t i) const { return dtype::size(program_->results[i].array.dtype); }
  DType result_dtype() const { return program_->results[0].array.dtype; }
  Context& context() const { return *program_->context; }

 private:
  friend ::aster::Memory;
  explicit Runner(Heap& heap) : dims_(heap), strides_(heap), given_(heap), workspaces_(heap) {}
  Status prepare(int32_t calls);
  Status describe(const engine::Array& array);
  void find_direct();

  engine::Program* program_ = nullptr;
  aster_ml_program handle_{};
  Vec<size_t> dims_;
  Vec<ptrdiff_t> strides_;
  Vec<aster_ml_tensor> given_;  // inputs, then results, without memory
  Vec<aster_ml_workspace> workspaces_;
  std::atomic<uint64_t> free_{0};        // a bit each
  std::atomic<uint32_t> given_back_{0};  // how often one became free
  // Of one launch that needs no workspace: what its operands are, inputs, then results.
  static constexpr size_t kMostDirect = 8;
  const engine::Launch* direct_ = nullptr;
  uint8_t operands_[kMostDirect] = {};
};

// What stands before a kernel in memory of a context: the runners that its destructor ends.
struct Produced {
  Prefix base;
  Runner *block, *single;
};
static_assert(sizeof(Produced) % alignof(void*) == 0);
// A kernel that holds runners, which it takes over also where it fails; single may be null.
Status produce(aster_ml_dynamic_kernel_instance* out, Context& context, void* function,
               Runner* block, Runner* single);
template <typename Function>
void* pointer_of(Function function) {
  void* pointer;
  static_assert(sizeof(pointer) == sizeof(function));
  std::memcpy(&pointer, &function, sizeof(pointer));
  return pointer;
}

}  // namespace aster::tensor
