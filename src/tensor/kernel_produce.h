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
  DType input_dtype(size_t i) const { return program_->inputs[i].dtype; }
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
  static constexpr size_t kMostDirect = 12;
  const engine::Launch* direct_ = nullptr;
  uint8_t operands_[kMostDirect] = {};
};

// A kernel of the generator as others hold it: the runners that its destructor ends, and what its
// function has to know besides.
struct Produced {
  static constexpr size_t kMostRunners = 6;
  Prefix base;
  Runner* runners[kMostRunners];
  uint64_t words[2];
};
static_assert(sizeof(Produced) % alignof(void*) == 0);
// In memory of the context; it takes the runners over, also where it fails.
Status produce(aster_ml_dynamic_kernel_instance* out, Context& context, const Produced& kernel);
void release_all(const Produced& kernel);  // its runners

// What a caller asked for: the row of an operation, by its name, and a dtype. Errors: ARGUMENT,
// DTYPE, NOT_FOUND (no row: `what` is how they are called).
template <class Row>
Status find_operation(const Row** row, DType* d, std::span<const Row> rows, const char* what,
                      const char* operation, int32_t dtype) {
  if (operation == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer");
  ASTER_TRY(dtype::from_storage_code(d, dtype));
  for (const Row& one : rows) {
    if (std::string_view(one.name) == operation) return *row = &one, kOk;
  }
  return ASTER_FAIL(kNOT_FOUND, "no %s is named \"%s\"", what, operation);
}

// What a captured kernel reads: so many elements.
struct KernelInput {
  DType dtype;
  size_t count;
};
// A program of what build makes of its operands, no more than so many.
inline constexpr size_t kMostInputs = 9;
using KernelBuild = Node (*)(const void* self, Graph& g, const Node* operands);
Status capture_kernel(Runner** out, Context& context, std::span<const KernelInput> inputs,
                      KernelBuild build, const void* self);

// Elements for one call of a generated kernel, where it is called often for many.
inline constexpr size_t kKernelBlock = 512;
inline constexpr size_t kMostElementBytes = 8;
// Whether elements from `at` on can be operands where they are.
inline bool lies_well(const char* at, ptrdiff_t stride, size_t bytes) {
  return stride == static_cast<ptrdiff_t>(bytes) && reinterpret_cast<uintptr_t>(at) % bytes == 0;
}

}  // namespace aster::tensor
