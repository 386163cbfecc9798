// Operations whose places depend on data, as compiled C++: no code is generated for them.
//
// An implementation is prepared once for a node and then run on memory, by any number of threads:
// its work is cut into tasks that touch disjoint parts of the result, so that neither the number of
// threads nor the order of the tasks shows in the bits.
#pragma once

#include "uop/uop.h"

namespace aster::runtime::cpu::native {

struct Plan {
  Vec<int64_t> words;         // the implementation's own
  int64_t tasks = 1;          // at least one
  double nanoseconds = 0;     // of all tasks on one thread, about
  int64_t scratch_bytes = 0;  // of each running part, aligned to 64
  explicit Plan(Memory& memory) : words(memory) {}
};

// How a source is read: row-major from its operand, and where negative from the end of the axis
// that it indexes, or not at all: elements are the view's positions themselves.
enum Read : int64_t { kPlain, kFromEnd, kLinear };

// operands: the memory of every source in order, then that of the result. Scatter: any source that
// is a Const may be null, and source 0 may be the result's memory. Scan: its source may.
struct Implementation {
  uop::Op op;
  const char* name;
  // Fills a fresh plan for a verified node. views: of every source where its first element lies, a
  // stride for every axis, and a Read; none: all are row-major. What is not Scatter, and its
  // source 0, is row-major; only indices are read otherwise than kPlain, kLinear if all are inside.
  // Errors: MEMORY.
  Status (*prepare)(Plan* out, uop::Node node, std::span<const int64_t> views);
  // Tasks [begin, end), one after another. Never fails; no two running parts share scratch.
  void (*run)(const Plan& plan, void* const* operands, void* scratch, int64_t begin, int64_t end);
};

// Scatter, the scans, Argsort, Sort; null for the rest.
const Implementation* find(uop::Op op);

Status prepare_scatter(Plan* out, uop::Node node, std::span<const int64_t> views);
void run_scatter(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                 int64_t end);
Status prepare_scan(Plan* out, uop::Node node, std::span<const int64_t> views);
void run_scan(const Plan& plan, void* const* operands, void* scratch, int64_t begin, int64_t end);
void run_scan_place(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                    int64_t end);
void run_log_scan(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                  int64_t end);
Status prepare_argsort(Plan* out, uop::Node node, std::span<const int64_t> views);
void run_argsort(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                 int64_t end);
Status prepare_sort(Plan* out, uop::Node node, std::span<const int64_t> views);
void run_sort(const Plan& plan, void* const* operands, void* scratch, int64_t begin, int64_t end);

}  // namespace aster::runtime::cpu::native
