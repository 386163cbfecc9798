// What compiled C++ computes on a CPU instead of generated code: operations whose places depend on
// data.
//
// An implementation is prepared once for a node and then run on memory, by any number of threads:
// its work is cut into tasks that touch disjoint parts of the result, so that neither the number of
// threads nor the order of the tasks shows in the bits.
#pragma once

#include <atomic>

#include "base/code.h"
#include "uop/uop.h"

namespace aster::runtime::reference {
class Evaluated;
class StripProgram;
}  // namespace aster::runtime::reference

namespace aster::runtime {

// A compiled kernel: its parameters, sizes where it takes them, scratch memory of its own, and
// which of its tasks it is to do.
using KernelFunction = void (*)(void* const* params, const int64_t* sizes, void* scratch,
                                int64_t begin, int64_t end);

}  // namespace aster::runtime

namespace aster::runtime::cpu::native {

struct Implementation;

// How something is computed, for people, and whether results are exact until they are rounded or
// checked once.
struct How {
  const char* algorithm;
  bool exact;
};

// What a call needs of shapes and attributes, without the graph.
struct Plan {
  const Implementation* implementation = nullptr;
  Vec<int64_t> words;         // the implementation's own
  int64_t tasks = 1;          // independent parts, of shapes alone, as their bits are
  double nanoseconds = 0;     // of all tasks on one thread, about
  int64_t scratch_bytes = 0;  // of each running part, aligned to 64
  uop::DType dtype = uop::DType::kNone;
  const uop::Foreign* foreign = nullptr;      // what it calls; a reference
  reference::Evaluated* evaluated = nullptr;  // likewise; its own
  reference::StripProgram* strips = nullptr;  // likewise
  KernelFunction code = nullptr;              // machine code of our own, or null
  const std::atomic<void*>* later = nullptr;  // where the machine code will be that these stand for
  mutable std::atomic<uint32_t> ran{0};       // what tasks of a run note, for how
  explicit Plan(Memory& memory) : words(memory) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan();
  // Of what it does, for people.
  const char* name() const;
  // Where that depends on data, as of the last run.
  How how() const;
};

// How a source is read: row-major from its operand, and where negative from the end of the axis
// that it indexes, or not at all: elements are the view's positions themselves.
enum Read : int64_t { kPlain, kFromEnd, kLinear };

// A row of the registry: a way to compute an operation. Of those that accept a node the cheapest is
// taken, of equal ones the first.
// operands: the memory of every source in order, then that of the result.
// Scatter: any source that is a Const may be null, and source 0 may be the result's memory.
struct Implementation {
  uop::Op op;
  const char* name;
  // Whether it computes a node on this CPU. Null: always.
  bool (*accepts)(uop::Node node);
  // Nanoseconds on one thread, about; null: less than any other.
  double (*cost)(uop::Node node);
  // Whether it reads an argument through this view: where its first element lies, and a stride for
  // every axis.
  bool (*reads)(uop::Node node, size_t argument, std::span<const int64_t> view);
  // Fills a fresh plan for a verified node. views: of every source in turn, and behind each a Read;
  // none: all are row-major. Only indices are read otherwise than kPlain, kLinear if all are
  // inside. Errors: MEMORY.
  Status (*prepare)(Plan* out, uop::Node node, std::span<const int64_t> views);
  // Tasks [begin, end), one after another. Never fails; no two running parts share scratch.
  void (*run)(const Plan& plan, void* const* operands, void* scratch, int64_t begin, int64_t end);
  // Null: nothing to be said but the plan's name.
  How (*how)(const Plan& plan) = nullptr;
};

// The row that computes a node; one that does not accept it where none does, null where only
// generated code computes it.
const Implementation* find(uop::Node node);
// The same of other rows than the registry's.
const Implementation* cheapest(std::span<const Implementation> rows, uop::Node node);
// Fills a plan by a node's row.
Status prepare(Plan* out, uop::Node node, std::span<const int64_t> views);

Status prepare_scatter(Plan* out, uop::Node node, std::span<const int64_t> views);
void run_scatter(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                 int64_t end);
Status prepare_argsort(Plan* out, uop::Node node, std::span<const int64_t> views);
void run_argsort(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                 int64_t end);
Status prepare_sort(Plan* out, uop::Node node, std::span<const int64_t> views);
bool accepts_wide_sort(uop::Node node);
double cost_sort(uop::Node node);
double cost_wide_sort(uop::Node node);
Status prepare_wide_sort(Plan* out, uop::Node node, std::span<const int64_t> views);
void run_sort(const Plan& plan, void* const* operands, void* scratch, int64_t begin, int64_t end);
bool accepts_wide(uop::Node node);
bool reads_wide(uop::Node node, size_t argument, std::span<const int64_t> view);
Status prepare_wide(Plan* out, uop::Node node, std::span<const int64_t> views);
void run_wide(const Plan& plan, void* const* operands, void* scratch, int64_t begin, int64_t end);
How how_wide(const Plan& plan);
bool accepts_sticky_matmul(uop::Node node);
Status prepare_sticky_matmul(Plan* out, uop::Node node, std::span<const int64_t> views);
void run_sticky_matmul(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                       int64_t end);
How how_sticky_matmul(const Plan& plan);
bool reads_foreign(uop::Node node, size_t argument, std::span<const int64_t> view);
Status prepare_foreign(Plan* out, uop::Node node, std::span<const int64_t> views);
void run_foreign(const Plan& plan, void* const* operands, void* scratch, int64_t begin,
                 int64_t end);

}  // namespace aster::runtime::cpu::native
