// Kernels under the checker (ASTER_ML_CHECK_KERNELS): operands and results are copies between
// guards, on one thread; what is written outside the results is told to whoever runs them.
#include <algorithm>
#include <cstring>

#include "base/faults.h"
#include "tensor/kernel.h"

namespace aster::tensor {
namespace {

using uop::Foreign;

constexpr size_t kGuard = 4096;
constexpr unsigned char kFill = 0xA5;

// A copy of memory between guards.
class Guarded {
 public:
  Guarded() = default;
  ~Guarded() {
    if (block_ != nullptr) heap_->release(block_, whole(), 64);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  // Of bytes at from; null: they are the kernel's to write. False without memory.
  bool make(Heap& heap, const char* from, size_t bytes) {
    heap_ = &heap;
    bytes_ = bytes;
    block_ = static_cast<unsigned char*>(heap.allocate(whole(), 64));
    if (block_ == nullptr) return false;
    std::memset(block_, kFill, whole());
    if (from != nullptr) std::memcpy(data(), from, bytes);
    return true;
  }
  char* data() { return reinterpret_cast<char*>(block_ + kGuard); }
  // The byte outside that was written, from the first of the memory on; false: none was.
  bool written_outside(int64_t* at) const {
    for (size_t i = 0; i < whole(); ++i) {
      if (i == kGuard) i += bytes_;
      if (i < whole() && block_[i] != kFill) {
        *at = static_cast<int64_t>(i) - static_cast<int64_t>(kGuard);
        return true;
      }
    }
    return false;
  }

 private:
  size_t whole() const { return bytes_ + 2 * kGuard; }
  Heap* heap_ = nullptr;
  unsigned char* block_ = nullptr;
  size_t bytes_ = 0;
};

void tell(const KernelObject& kernel, const char* what, size_t i, int64_t at, size_t bytes) {
  const bool behind = at >= static_cast<int64_t>(bytes);
  Faults::say("kernel \"%s\" wrote outside %s %zu: byte %lld %s it", kernel.name, what, i,
              static_cast<long long>(behind ? at - static_cast<int64_t>(bytes) : -at),
              behind ? "behind" : "before");
}

void checked_arrays(const Foreign& self, char* result, const char* const* operands, void* scratch,
                    int64_t count, int64_t begin, int64_t end) {
  const KernelObject& kernel = object_of_foreign(self);
  const Signature& s = kernel.signature;
  const size_t results = s.results();
  const char* sources[Foreign::kMostOperands];
  Guarded memory[2 * Foreign::kMostOperands];
  Heap& heap = kernel.context.heap();
  bool room = true;
  for (size_t i = 0; i < s.operands && room; ++i) {
    room = memory[i].make(heap, operands[i], s.bytes(i, count));
    sources[i] = memory[i].data();
  }
  char* targets[Foreign::kMostOperands];
  for (size_t i = 0; i < results && room; ++i) {
    room = memory[s.operands + i].make(heap, nullptr, s.bytes(s.operands + i, count));
    targets[i] = memory[s.operands + i].data();
  }
  if (!room) {
    Faults::say("kernel \"%s\": no memory to check it with", kernel.name);
    return;
  }
  kernel.run(kernel, targets, sources, scratch, begin, end);
  const auto size = static_cast<int64_t>(dtype::size(s.result(0).dtype));
  for (size_t i = 0; i < s.values.size(); ++i) {
    const bool operand = i < s.operands;
    const size_t bytes = s.bytes(i, count);
    const size_t number = operand ? i : i - s.operands;
    int64_t at = 0;
    if (memory[i].written_outside(&at))
      tell(kernel, operand ? "operand" : "result", number, at, bytes);
    if (operand && std::memcmp(sources[i], operands[i], bytes) != 0)
      Faults::say("kernel \"%s\" wrote to its operand %zu", kernel.name, i);
    if (!operand && bytes != 0)
      std::memcpy(result + s.place(number, count) * size, targets[number], bytes);
  }
}

// Elements of the result, as many as a call has, next to each other.
void checked_elements(const Foreign& self, char* dst, ptrdiff_t dst_stride, const char* const* src,
                      const ptrdiff_t* strides, size_t count) {
  const KernelObject& kernel = object_of_foreign(self);
  const size_t size = dtype::size(kernel.signature.result(0).dtype);
  Guarded memory;
  if (!memory.make(kernel.context.heap(), nullptr, count * size)) {
    Faults::say("kernel \"%s\": no memory to check it with", kernel.name);
    return;
  }
  kernel.run_elements(self, memory.data(), static_cast<ptrdiff_t>(size), src, strides, count);
  int64_t at = 0;
  if (memory.written_outside(&at)) tell(kernel, "result", 0, at, count * size);
  for (size_t i = 0; i < count; ++i)
    std::memcpy(dst + static_cast<ptrdiff_t>(i) * dst_stride, memory.data() + i * size, size);
}

}  // namespace

void run_arrays(const Foreign& self, char* result, const char* const* operands, void* scratch,
                int64_t count, int64_t begin, int64_t end) {
  const KernelObject& kernel = object_of_foreign(self);
  const Signature& s = kernel.signature;
  const auto size = static_cast<int64_t>(dtype::size(s.result(0).dtype));
  char* targets[Foreign::kMostOperands];
  for (size_t i = 0; i < s.results(); ++i) targets[i] = result + s.place(i, count) * size;
  kernel.run(kernel, targets, operands, scratch, begin, end);
}

void check_kernel(KernelObject* object) {
  if (!object->checked) return;
  object->alone = true;
  object->run_elements = object->elements;
  if (object->form == uop::ForeignForm::kArrays) {
    object->arrays = checked_arrays;
  } else {
    object->elements = checked_elements;
  }
}

}  // namespace aster::tensor
