// The model that chooses plans, and what it and the rules of plans ask of kernels.
#pragma once

#include "codegen/plan.h"

namespace aster::codegen {

// A plan whose `general` is set is one for many sizes.
Status make_plan(Plan* out, const Kernel& kernel, const Target& target, Memory& memory);

// What becomes of the ends of all ranges, by the steps of a plan, and which folds go part by part.
void choose_rests(Plan* plan, const Kernel& kernel);

// Which of the copies of a segment that were made before come from memory, and are read often
// enough for what is read next to come meanwhile.
Status choose_fetched(Plan* plan, const Kernel& kernel, int segment, const Machine& machine);
// Blocks of terms, so that what goes by of what is fetched, and the next of it, stay in the
// second-level cache; 1: no blocks, or nothing is fetched.
int64_t fetched_blocks(const Kernel& kernel, const Plan& plan, int segment);
// Results that go past the caches: those of which the first elements, with which whoever reads them
// begins, would be gone from the last level when all is done.
Status choose_streams(Plan* plan, const Kernel& kernel, const Target& target);

// Fewer copies side by side, of few choices, so that plans for many sizes are alike; what is folded
// stays in its order.
void take_few_copies(Plan* plan, const Kernel& kernel);

// Regions of a segment and those below it.
template <typename Body>
void each_region(const Kernel& kernel, int at, Body body) {
  const Segment& segment = kernel.segments[static_cast<size_t>(at)];
  for (int r : segment.folds) body(r);
  if (segment.stores >= 0) body(segment.stores);
  for (int child : segment.children) each_region(kernel, child, body);
}

// Operations and bytes of a kernel, all tasks together, and those of a region that are added.
struct Work {
  double flops = 0, bytes = 0;
};
void add_work(Work* out, const Kernel& kernel, const Region& region);

// Whether folds read an operand from memory that lies along a range, in short rows, and little
// beside it; along a vector too, if one is given, so that nothing of it is read twice.
bool reads_through(const Kernel& kernel, const Region& region, int range, const Machine& machine,
                   int vector = -1);
// Of windows over an image, side by side along a vectorised range: the range of their rows, which
// share what they read where they overlap, and the fold's range along which they do; -1 of anything
// else.
struct Windows {
  int rows = -1, shared = -1;
};
Windows windows_of(const Kernel& kernel, const Region& region, int vector);
// The one load of a segment without folds that reads all of its memory once, from beyond the
// caches, where rows along the vectorised range are whole lines: the loops around go in its order.
const Access* read_once(const Kernel& kernel, int segment, int vector, const Machine& machine);
Work work_of(const Kernel& kernel);

// Bytes of the register lane that holds a value of node: narrow floats are computed in float,
// conditions are as wide as what they compare.
int lane_bytes(const Kernel& kernel, Node node);
// Whether index arithmetic of node (its own value and what it takes) fits in 32 bits.
bool fits_int32(Node node);
// Lanes of the widest vectors along v that the target computes a region in.
int most_lanes(const Kernel& kernel, const Target& target, const Region& region, int v);
// The same for all regions of a segment and those below it.
int most_lanes(const Kernel& kernel, const Target& target, int segment, int v);
// Vector registers for the sums of a tile and what they read.
int64_t product_registers(const Target& target, const Region& region);
// Whether the vectorised range of a segment may be less than one vector, whose other lanes are left
// out.
bool may_leave_lanes_out(const Kernel& kernel, const Plan& plan, int segment);
// A value that a group of folds computes along a range of its own, and one of the segment below
// that is the same along that one's range: of several the one that takes the most operations. Null
// where there is none that an array of the worker could hand down.
struct KeptValue {
  Node folded = nullptr, stored = nullptr;
  int group = -1;  // of folds
  int from_range = -1, to_range = -1;
  double operations = 0;
};
KeptValue kept_value(const Kernel& kernel, const Plan& plan, int segment);
// Whether the last steps of a tiled range may have fewer copies: they cover exactly what the first
// leave, and neither the last task nor the last block begins behind these.
bool last_steps_fit(const Kernel& kernel, const SegmentPlan& plan, int range);
// Whether a group of folds may go part by part, because the next one alone asks for what it finds,
// and only for the first place where that is.
bool may_go_by_parts(const Kernel& kernel, const Plan& plan, int segment, size_t group);
// Of a segment whose one fold adds up its terms block by block, along its first range: the elements
// of a block; else 0.
int64_t sum_block(const SegmentPlan& plan);
// All steps of this loop, and of those inside, take one block before the next: the loops that read
// the segment's copies again, or the innermost one. The number of loops: none may.
int sum_loop(const Kernel& kernel, const Plan& plan, int segment);
// Bytes of the terms that these steps share, which stay in a second-level cache beside what goes
// by.
constexpr double kSharedTerms = 512 << 10;
// Whether the one fold of a root may, if the order of loops lets it: its terms have no conditions.
bool has_plain_sum(const Kernel& kernel, int segment);
// The same, and the order of loops does.
bool may_sum_by_blocks(const Kernel& kernel, const Plan& plan, int segment);
// Whether a segment, or one below it, writes what the kernel reads.
bool reads_what_it_writes(const Kernel& kernel, int segment);
// Whether a root's tasks may be groups whose items share its folds and what follows: rows, each
// with folds along ranges of their own.
bool shares_items(const Kernel& kernel, const Plan& plan, int root);
// Whether a root's tasks may be blocks that the items of a group share, one or more elements each.
bool may_share_block(const Kernel& kernel, int root);
// Plans a root for groups of items that share blocks, where that is worth it: transposes, products,
// rows that are short, columns that are few. *made: whether it is; else the plan is as it was, with
// the vectors that were chosen.
Status share_block(bool* made, Plan* plan, const Kernel& kernel, const Target& target, int root);
// Of a plan whose items share a block: elements of a range that they read together in a region.
int64_t packed_length(const Kernel& kernel, const Plan& plan, int root, const Region& region,
                      int range);
// Whether a load is of what the plan packs, and can be.
bool is_packed(const Kernel& kernel, const Plan& plan, int root, const Region& region,
               const Access& access);
// What local memory has of a load: its ranges as they lie in memory, the fastest one last, and how
// far their elements are apart.
struct PackedBlock {
  uint8_t ranges[kMaxRanges];
  int count = 0;
  int64_t length[kMaxRanges], stride[kMaxRanges];  // by place in `ranges`
  int64_t elements = 1;                            // with those between rows
  int64_t copied = 1;                              // without
};
PackedBlock packed_block(const Kernel& kernel, const Plan& plan, int root, const Region& region,
                         Node load);
// The loads of a root that are packed: of its folds, or of what it stores.
template <typename Body>
void each_packed(const Kernel& kernel, const Plan& plan, int root, Body body) {
  const Segment& segment = kernel.segments[static_cast<size_t>(root)];
  const auto region = [&](int r) {
    const Region& of = kernel.regions[static_cast<size_t>(r)];
    for (const Access& a : of.accesses) {
      if (is_packed(kernel, plan, root, of, a)) body(of, a);
    }
  };
  for (int r : segment.folds) region(r);
  if (segment.folds.empty() && segment.stores >= 0) region(segment.stores);
}
// Local memory of a root's groups.
int64_t local_bytes(const Kernel& kernel, const Plan& plan, int root);
// What a fold is kept in.
DType register_type(Node fold);
// Whether the stores of a segment have a load that is turned in registers: contiguous along a tile
// as long as the vector, and strided along that.
bool turns_a_square(const Kernel& kernel, const Nest& nest, const Region& stores);
// Whether they write what is turned there, by a tile of some copies.
bool turns_results(const Kernel& kernel, const Nest& nest, const Region& stores);

}  // namespace aster::codegen
