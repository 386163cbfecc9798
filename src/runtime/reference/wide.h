// Wide floats by src/flt, on words in memory: elements are read wherever they lie, one word behind
// the other; results are row-major. The interpreter and native calls run the same.
#pragma once

#include <atomic>

#include "base/memory.h"
#include "uop/wide.h"

namespace aster::runtime::reference {

struct WidePlan {
  const int64_t* words = nullptr;        // of plan_wide
  int64_t tasks = 1;                     // that touch disjoint parts of the result
  double nanoseconds = 0;                // of all of them, about
  std::atomic<uint32_t>* ran = nullptr;  // gets 1 << flt::Algorithm of each matrix product
};

// Whether an argument is read through a view: offset, and a stride for every axis.
bool reads_wide(uop::Node node, size_t argument, std::span<const int64_t> view);
// words: the plan's own, empty. views: of every source in turn, with one more word behind each;
// none: all are row-major. Errors: MEMORY.
Status plan_wide(WidePlan* out, Vec<int64_t>* words, uop::Node node,
                 std::span<const int64_t> views);
// Tasks [begin, end). operands: those of the node, then its result. Memory that an exact sum cannot
// have is said to the run (base/faults.h).
void run_wide(const WidePlan& plan, void* const* operands, int64_t begin, int64_t end);

}  // namespace aster::runtime::reference
