// Kernels that are not ours, as nodes of a graph name them: a counted object with the functions
// that compute and differentiate it.
#pragma once

#include <atomic>

#include "base/text.h"
#include "uop/uop.h"

namespace aster::uop {

// How a kernel is called: on elements that lie strides apart, or on whole row-major arrays.
enum class ForeignForm : uint8_t { kElements, kArrays };

// What a device is given to compute a kernel by. Its operands there are the results, then those of
// the node.
struct ForeignCode {
  explicit ForeignCode(Memory& memory) : text(memory), places(memory), sizes(memory) {}
  Text text;            // in the form that the device takes
  char name[64] = {};   // of its function; another text, another name
  Vec<int64_t> places;  // of each result in the node's memory, in bytes
  Vec<int64_t> sizes;   // numbers that it is launched with
  int64_t tasks = 1;    // where groups are 0
  uint32_t groups[3] = {}, locals[3] = {};
  size_t local_bytes = 0, scratch_bytes = 0;
};

// One reference for its handle, one for every node of a graph that collects and every plan of a
// schedule. What it computes depends on its operands alone, so equal calls are one node.
struct Foreign {
  static constexpr size_t kMostOperands = 32;
  // count elements of every operand at once; strides in bytes, of any sign.
  using Elements = void (*)(const Foreign& self, char* dst, ptrdiff_t dst_stride,
                            const char* const* src, const ptrdiff_t* src_strides, size_t count);
  // Tasks [begin, end) of the whole. scratch: scratch_bytes of it, for this call alone. count: the
  // node's.
  using Arrays = void (*)(const Foreign& self, char* result, const char* const* operands,
                          void* scratch, int64_t count, int64_t begin, int64_t end);
  // The code for a device, where the node counts so much. Errors: UNSUPPORTED (it has none for it).
  using Code = Status (*)(const Foreign& self, ForeignCode* out, int32_t device, int64_t count);
  // Fills dx[i], the gradient of operand i of y, where needed[i].
  using Gradient = Status (*)(const Foreign& self, Graph& graph, Node y, Node dy,
                              std::span<const bool> needed, std::span<Node> dx);

  Foreign();
  void retain() const { references.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      destroy(const_cast<Foreign*>(this));
  }

  // Tasks of arrays.
  int64_t tasks_of(int64_t count) const { return tasks == 0 ? count : tasks; }
  // Whether there is a function that the host calls.
  bool on_host() const { return elements != nullptr || arrays != nullptr; }

  mutable std::atomic<uint32_t> references{1};
  const uint64_t serial;  // no two of a process are equal
  char name[64] = {};
  ForeignForm form = ForeignForm::kElements;
  int64_t tasks = 1;          // of arrays; 0: as many as the node counts
  int64_t scratch_bytes = 0;  // of arrays
  bool alone = false;         // all tasks in one call
  double nanoseconds = 1;     // of an element or a task, about
  Elements elements = nullptr;
  Arrays arrays = nullptr;
  Code device_code = nullptr;           // null: the host computes it for devices
  Gradient gradient = nullptr;          // null: there is none
  void (*destroy)(Foreign*) = nullptr;  // by whoever gives the last reference up
};

inline const Foreign& foreign_of(Node node) {
  return *reinterpret_cast<const Foreign*>(static_cast<uintptr_t>(node->arg(0)));
}

}  // namespace aster::uop
