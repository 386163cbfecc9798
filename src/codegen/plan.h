// How a kernel is made to run, as a value: the range along which it is vectorised, register tiles,
// the order of loops, tasks. The planner makes one (planner.h), or whoever writes its text; check()
// holds it to what lowering relies on. docs/KERNEL_PROGRAM.md has the grammar.
#pragma once

#include <algorithm>

#include "base/text.h"
#include "codegen/kernel.h"
#include "codegen/program.h"
#include "codegen/target.h"

namespace aster::codegen {

// What becomes of a range's end where whole steps leave something: nothing is left; the last step
// is moved back and computes some elements twice; lanes are left out (of folds those that were
// taken before, else those behind the end of a range that is less than one vector); what is left
// goes one by one; or the last steps, together exactly what is left, have fewer copies.
enum class Rest : uint8_t { kEven, kOverlap, kMask, kScalar, kThen };

// Copies of a loop body, side by side in registers: instance c of a tiled range stands for its
// index plus c (times the lanes where it is the vectorised one).
struct Tile {
  int range = 0;
  int copies = 1;
  Rest rest = Rest::kEven;
  int fewer = 0;  // copies of the last steps, where the rest is kThen
  bool operator==(const Tile&) const = default;
};

// Elements that steps of the first of two kinds cover, as many as let steps of the second one cover
// the others exactly; 0: there is no such number, or nothing is left for the second.
int64_t first_steps(int64_t size, int64_t step, int64_t last);

// One loop of a nest. One with a block binds no index: it narrows the interval of a later loop over
// the same range to so many elements.
struct Loop {
  int range = 0;
  int64_t block = 0;
  bool operator==(const Loop&) const = default;
};

// Loops of a segment, or of a group of folds.
struct Nest {
  static constexpr int kMaxTiles = 4;
  static constexpr int kMaxLoops = kMaxRanges + 2;
  Loop loops[kMaxLoops] = {};
  int loop_count = 0;
  Tile tiles[kMaxTiles] = {};
  int tile_count = 0;
  int vector = -1;  // range vectorised by this nest, if any
  int lanes = 1;
  Rest vector_rest = Rest::kEven;  // where the vectorised range is not tiled as well
  RangeSet written = 0;            // ranges without a loop: their whole length is written out

  const Tile* tile(int range) const {
    for (int i = 0; i < tile_count; ++i) {
      if (tiles[i].range == range) return &tiles[i];
    }
    return nullptr;
  }
  int innermost() const { return loop_count == 0 ? -1 : loops[loop_count - 1].range; }
  int copies(int range) const { return tile(range) == nullptr ? 1 : tile(range)->copies; }
  int64_t step(int range) const {
    return int64_t{1} * copies(range) * (range == vector ? lanes : 1);
  }
  // Of loop i: a block, or a step.
  int64_t loop_step(int i) const {
    return loops[i].block != 0 ? loops[i].block : step(loops[i].range);
  }
  // Of the last steps, where these have fewer copies.
  int64_t last_step(int range) const { return step(range) / copies(range) * tile(range)->fewer; }
  Rest rest(int range) const {
    if (tile(range) != nullptr) return tile(range)->rest;
    return range == vector ? vector_rest : Rest::kEven;
  }
  // The first loop goes by in blocks.
  void split_first(int64_t block) {
    for (int i = loop_count++; i > 0; --i) loops[i] = loops[i - 1];
    loops[0].block = block;
  }
  bool operator==(const Nest&) const = default;
};

// Tasks of a root segment: its first loops, collapsed. Task t of the last one covers `chunk` of its
// range, the last task the rest besides; of the others a task is a step.
struct Tasks {
  static constexpr int kMostLoops = 8;
  int loops = 0;
  int64_t chunk = 1;  // of the last collapsed loop, in elements of its range
  bool operator==(const Tasks&) const = default;
};

struct SegmentPlan {
  explicit SegmentPlan(Memory& memory)
      : folds(memory), packed(memory), ready(memory), fetched(memory), streams(memory) {}
  Nest nest;
  Vec<Nest> folds;  // its groups of folds, in the kernel's order
  Tasks tasks;      // of roots alone
  // Slots that are read through copies, by the folds or, in groups where there are none, by what is
  // stored: in memory that the items of a group share, or in that of a worker, made for each pass
  // of the innermost loop, which the copies do not depend on. Ascending.
  Vec<int> packed;
  // Of these, slots whose copies, of all passes, were made before, by programs of their own
  // (lower_ready): params behind the kernel's. Ascending.
  Vec<int> ready;
  // Of these, slots of whose copies the next pass's is fetched from memory while one goes by.
  // Ascending.
  Vec<int> fetched;
  Vec<int> streams;  // slots whose stores go past the caches, ascending
  // What follows the folds is a loop over the copies of the largest tile, with so many copies side
  // by side; 0: all copies are written out.
  int rolled = 0;
  // Of segments below a root: what folds of the segment around have computed along a range as long
  // as this one's is read from an array of the worker, not computed again (kept_value).
  bool kept = false;
  // Of roots: a task is a group of so many items; 0: one item's. They share the steps of the loops
  // behind those of tasks (a block); where these are fewer than items, the first loop of each fold
  // as well. Where there are no such loops, folds and what follows them share their vectorised
  // ranges (a row).
  int items = 0;

  bool shares_block() const { return items != 0 && tasks.loops < nest.loop_count; }
};

struct Plan {
  explicit Plan(Memory& memory) : segments(memory) {}
  Vec<SegmentPlan> segments;  // by segment of the kernel
  // The loops are those of other sizes too: every tile may pass the end of its range, every fold
  // may have a rest. What is computed has the same bits.
  bool general = false;

  const SegmentPlan& at(int segment) const { return segments[static_cast<size_t>(segment)]; }
};

bool operator==(const Plan& a, const Plan& b);
Status copy(Plan* out, const Plan& plan);
// Whether tasks are groups of items, which are launched as such and have sizes of their own.
bool has_items(const Plan& plan);
// Whether two plans of a kernel combine terms, of its folds and of what it carries, in the same
// order.
bool folds_alike(const Plan& a, const Plan& b);
program::Digest digest(const Plan& plan);

Status print(Text& out, const Plan& plan);
// Errors: FORMAT, with the line; MEMORY.
Status read(Plan* out, std::string_view text);

// Of a root whose items share a block: elements of a range in the block, steps of the block.
int64_t block_length(const Kernel& kernel, const SegmentPlan& plan, int range);
int64_t block_steps(const Kernel& kernel, const SegmentPlan& plan);

// The range of a segment below a root that the items of a group share.
int shared_range(const Kernel& kernel, const Plan& plan, int segment);

// Every rule that lowering relies on. Errors: ARGUMENT, naming the line of the plan and the field.
Status check(const Plan& plan, const Kernel& kernel, const Target& target);

// Whether the folds of a segment read a param, and may do so through a copy. once: one that was
// made before, which the innermost loop may move.
bool may_pack(const Kernel& kernel, const Plan& plan, int segment, int slot, bool once = false);
// What is copied of the params that a segment packs, before or by itself: loads of folds, of its
// own copies those that its innermost loop does not move.
template <typename Body>
void each_pack(const Kernel& kernel, const Plan& plan, int segment, bool once, Body body) {
  const SegmentPlan& s = plan.at(segment);
  if (s.packed.empty()) return;
  for (int f : kernel.segments[static_cast<size_t>(segment)].folds) {
    const Region& region = kernel.regions[static_cast<size_t>(f)];
    for (const Access& a : region.accesses) {
      const auto slot = static_cast<int>(a.node->src(0)->arg(0));
      const bool ready = std::ranges::find(s.ready, slot) != s.ready.end();
      const bool copied = std::ranges::find(s.packed, slot) != s.packed.end();
      if (copied && ready == once && (once || !has(a.ranges, s.nest.innermost()))) body(region, a);
    }
  }
}
// The loop of a segment before which its copies are made, or those that were made before are found:
// it and those inside move none of them.
int pack_loop(const Kernel& kernel, const Plan& plan, int segment, bool once);
// Whether the copies of a slot that a segment packs may be made before.
bool may_be_ready(const Kernel& kernel, const Plan& plan, int segment, int slot);
// The loops that read again what a segment's copies have for one pass of those outside: from which
// on, and how many steps all of them have.
struct Again {
  int first = 0;
  int64_t steps = 1;
};
Again read_again(const Kernel& kernel, const Nest& nest, RangeSet moved);
// Copies that were made before: what they are of, and how many elements they have.
struct ReadyCopy {
  int segment;
  const Region* region;
  const Access* access;
  int64_t elements;
  bool padded;  // some are no elements of it
};
// In the order of the params that they are.
Status find_ready(Vec<ReadyCopy>* out, const Kernel& kernel, const Plan& plan);
// Elements that the copies have along a range: with those of the last step that are no elements.
int64_t padded_length(const Kernel& kernel, const Nest& nest, int range);

// Tasks along loop i of those that are collapsed, and all of a plan.
int64_t task_count(const Kernel& kernel, const SegmentPlan& plan, int i);
int64_t task_count(const Kernel& kernel, const SegmentPlan& plan);

}  // namespace aster::codegen
