// Blocks that the items of a group share: copies of what they read in local memory, and the ends of
// ranges.
#include <algorithm>

#include "codegen/lower_values.h"
#include "codegen/planner.h"

namespace aster::codegen {

using program::Flag;
using program::Term;
using program::Word;

void ValueLowering::barrier() {
  (void)b.act({.op = Op::kBarrier, .kind = static_cast<uint8_t>(program::Space::kLocal)});
}

ValueLowering::Id ValueLowering::local_array(DType dtype, int64_t elements) {
  Instruction array{
      .op = Op::kArray, .dtype = dtype, .kind = static_cast<uint8_t>(program::Space::kLocal)};
  array.constant = elements;
  return b.act(array, {}, std::array{Word{0}});
}

// Whether what an index names is inside its ranges; kNone where it always is.
ValueLowering::Id ValueLowering::inside_ranges(Node index) {
  Id out = kNone;
  for (int r = 0; r < kMaxRanges; ++r) {
    if (!has(checked_ & kernel_.ranges(index), r)) continue;
    const RangeState& state = ranges_[r];
    Id at = state.index;
    if (state.axis >= 0) {
      Id copy = axis_value(state.axis);
      if (state.lanes > 1) copy = make(Op::kMul, DType::kInt64, {copy, integer(state.lanes)});
      at = make(Op::kAdd, DType::kInt64, {at, copy});
    }
    out = both(out, make(Op::kCmpLt, DType::kBool, {at, integer(kernel_.size(r))}));
  }
  return out;
}

void ValueLowering::declare_packed(const Kernel& kernel, const Plan& plan, int root) {
  each_packed(kernel, plan, root, [&](const Region& region, const Access& a) {
    const PackedBlock block = packed_block(kernel, plan, root, region, a.node);
    const Id array = local_array(a.node->src(0)->dtype, block.elements);
    b.fail(packed_.push(Packed{a.node, &region, array, block}));
  });
}

// All items of the group bring the elements of the block, those next to each other elements next to
// each other.
void ValueLowering::bring(const Packed& one) {
  RangeState saved[kMaxRanges];
  std::ranges::copy(ranges_, saved);
  const int vector = vector_, lanes = lanes_;
  vector_ = -1, lanes_ = 1;
  forget();
  for (int r = 0; r < kMaxRanges; ++r) {
    if (begins_[r] != kNone) ranges_[r] = RangeState{.index = begins_[r]};
  }
  const PackedBlock& block = one.block;
  const Instruction loop{.op = Op::kLoop, .dtype = DType::kInt64, .flags = Flag::kImmediateHigh};
  const Id element =
      b.open(loop, std::array{item_}, std::array{Word{0}, block.copied, Word{items_}});
  Gate gate;
  Vec<Term> place(memory_);
  int64_t below = 1;
  for (int i = block.count; i-- > 0;) {
    const int range = block.ranges[i];
    Id at = element;
    if (below > 1) at = make(Op::kQuo, DType::kInt64, {at, integer(below)});
    if (i > 0) at = make(Op::kRem, DType::kInt64, {at, integer(block.length[i])});
    b.fail(place.push({block.stride[i], at, false}));
    if (begins_[range] != kNone) at = make(Op::kAdd, DType::kInt64, {begins_[range], at});
    ranges_[range] = RangeState{.index = at};
    if (kernel_.size(range) % block.length[i] != 0) {
      const Id inside = make(Op::kCmpLt, DType::kBool, {at, integer(kernel_.size(range))});
      gate.uniform = both(gate.uniform, inside);
    }
    below *= block.length[i];
  }
  const Id value = load_at(one.load, kernel_.form(one.load->src(1)), 0, 1, 1, gate);
  (void)b.act({.op = Op::kStore}, std::array{one.array, value}, std::array{Word{1}, Word{1}},
              {place.data(), place.size()});
  b.close();
  std::ranges::copy(saved, ranges_);
  vector_ = vector, lanes_ = lanes;
  forget();
}

void ValueLowering::bring_all(const Region& region) {
  bool any = false;
  for (const Packed& one : packed_) {
    if (one.region == &region) bring(one), any = true;
  }
  if (any) barrier();
}

// What a region reads in a copy; kNone where it has none.
ValueLowering::Id ValueLowering::from_packed(Node load) {
  for (const Packed& one : packed_) {
    if (one.load != load || one.region != region_) continue;
    Vec<Term> terms(memory_);
    Word step = 1;
    for (int i = 0; i < one.block.count; ++i) {
      const int range = one.block.ranges[i];
      const RangeState& state = ranges_[range];
      const int64_t stride = one.block.stride[i];
      const Id within = within_[range] != kNone ? within_[range] : state.index;
      if (within != kNone) b.fail(terms.push({stride, within, false}));
      if (state.axis >= 0)
        b.fail(terms.push({stride * state.lanes, static_cast<uint32_t>(state.axis), true}));
      if (range == vector_) step = stride;
    }
    const int n = lanes_of(load);
    const Instruction in{
        .op = Op::kLoad, .dtype = load->src(0)->dtype, .lanes = static_cast<uint8_t>(n)};
    return b.act(in, std::array{one.array}, std::array{step, Word{n}},
                 {terms.data(), terms.size()});
  }
  return kNone;
}

}  // namespace aster::codegen
