// Running values: a register that lives as long as the loop, and, where lanes stand along that
// loop, values combined across them.
#include <algorithm>
#include <array>
#include <bit>

#include "codegen/lower_values.h"
#include "uop/composite.h"

namespace aster::codegen {

using program::Flag;
using program::Word;

namespace {

Op operation(Node carry) { return static_cast<Op>(carry->arg(0)); }
bool is_before(Node carry) { return carry->arg(1) != 0; }
// Values besides the range.
uint32_t value_count(Node carry) { return carry->nsrc - 1; }

bool same_values(Node a, Node b) {
  return operation(a) == operation(b) && std::ranges::equal(a->src(), b->src());
}

// What changes no value, the sign of a zero included; of MulAcc what it begins with.
Word beginning(Op op, DType dtype) {
  if (op == Op::kMulAcc) return 0;
  if (op == Op::kAdd && dtype::is_float(dtype)) return std::bit_cast<Word>(-0.0);
  return uop::neutral_word(op, dtype);
}

}  // namespace

void ValueLowering::declare_carries(const Region& region, int range) {
  carries_.clear();
  windows_.clear();
  for (Node node : region.nodes) {
    if (node->op != Op::kCarry || carried_range(node) != range) continue;
    const bool before = is_before(node);
    Carried* const known = std::ranges::find_if(
        carries_, [&](const Carried& one) { return same_values(one.any(), node); });
    if (known != carries_.end()) {
      (before ? known->was : known->now) = node;
      continue;
    }
    program::AxisSet axes = 0;
    for (int tiled = 0; tiled < kMaxRanges; ++tiled) {
      if (copies_[tiled] != 0 && has(kernel_.ranges(node), tiled))
        axes |= program::axis_bit(static_cast<size_t>(ranges_[tiled].axis));
    }
    const Op op = operation(node);
    const int n = lanes_of(node);
    const auto declare = [&](Word word) {
      return b.act({.op = Op::kAcc,
                    .dtype = node->dtype,
                    .lanes = static_cast<uint8_t>(n),
                    .axes = axes,
                    .flags = Flag::kImmediate},
                   {}, std::array{word});
    };
    Carried one{before ? nullptr : node, before ? node : nullptr, kNone, windows_.size()};
    for (int by = 1; by < n && vector_ == range; by *= 2) {
      const bool linear = op == Op::kMulAcc;
      b.fail(windows_.push(declare(beginning(linear ? Op::kMul : op, node->dtype))));
      if (linear) b.fail(windows_.push(declare(0)));
    }
    one.acc = declare(beginning(op, node->dtype));
    b.fail(carries_.push(one));
  }
}

void ValueLowering::continue_carries() {
  for (Carried& one : carries_) {
    const Instruction in = b.at(one.acc);
    if (in.lanes == 1) continue;
    const Id value = b.pure({.op = Op::kLane, .dtype = in.dtype}, std::array{one.acc},
                            std::array{Word{in.lanes - 1}});
    one.acc = b.act({.op = Op::kAcc, .dtype = in.dtype, .axes = in.axes}, std::array{value});
  }
}

ValueLowering::Id ValueLowering::emit_carry(Node node) {
  const int range = carried_range(node);
  const DType dtype = node->dtype;
  const int n = lanes_of(node);
  Id values[2] = {kNone, kNone};
  for (uint32_t i = 0; i < value_count(node); ++i)
    values[i] = spread(cast(operand(node->src(i), node), dtype), n);
  if (!b.status().ok()) return kNone;
  const Op op = operation(node);
  if (kernel_.size(range) == 1) {  // no loop: what is there is the first one
    const Id start = spread(constant(dtype, beginning(op, dtype)), n);
    if (is_before(node)) return start;
    return op == Op::kMulAcc ? combined_carry(op, start, values[0], values[1]) : values[0];
  }
  Carried* const one = std::ranges::find_if(
      carries_, [&](const Carried& c) { return c.now == node || c.was == node; });
  if (one == carries_.end()) {
    b.fail(ASTER_FAIL(kINTERNAL, "a Carry outside of its loop"));
    return kNone;
  }
  const bool along = vector_ == range && n > 1;
  if (along) window(*one, values);
  const Id now = combined_carry(op, one->acc, values[0], values[1]);
  if (one->now != nullptr) remember(one->now, now);
  if (one->was != nullptr)
    remember(one->was, along ? moved_up(now, one->acc, 1) : make(Op::kCast, dtype, {one->acc}));
  (void)b.act({.op = Op::kSet}, std::array{one->acc, now});
  return value(node);
}

// The next value from the one before.
ValueLowering::Id ValueLowering::combined_carry(Op op, Id was, Id value, Id addend) {
  const DType dtype = b.at(value).dtype;
  if (op == Op::kMulAcc) return arithmetic(op, dtype, {value, was, addend});
  if (dtype == DType::kBool) return truth(op, std::array{was, value});
  return arithmetic(op, dtype, {was, value});
}

// What stood `by` lanes before, in this vector or the one before it.
ValueLowering::Id ValueLowering::moved_up(Id value, Id before, int by) {
  const Instruction in = b.at(value);
  const int n = in.lanes;
  Word words[program::kMaxLanes];
  for (int lane = 0; lane < n; ++lane) words[lane] = lane < by ? 2 * n + lane - by : lane - by;
  return b.pure({.op = Op::kShuffle, .dtype = in.dtype, .lanes = in.lanes},
                std::array{value, before}, {words, static_cast<size_t>(n)});
}

// Each lane's value combined with those before it, as many as there are lanes, in steps of 1, 2, 4,
// .. of them. With what was carried a vector before, in the same lane, that is all there is: only
// one operation waits from vector to vector. Of s * a + b: the products of a, and what they make of
// b.
void ValueLowering::window(const Carried& one, Id* values) {
  const Node node = one.any();
  const DType dtype = node->dtype;
  const Op op = operation(node);
  const bool linear = op == Op::kMulAcc;
  const size_t count = value_count(node);
  size_t at = one.window;
  for (int by = 1; by < b.at(values[0]).lanes; by *= 2, at += count) {
    Id before[2] = {kNone, kNone}, next[2] = {kNone, kNone};
    for (size_t i = 0; i < count; ++i) before[i] = moved_up(values[i], windows_[at + i], by);
    if (linear) {
      next[0] = arithmetic(Op::kMul, dtype, {before[0], values[0]});
      next[1] = arithmetic(op, dtype, {values[0], before[1], values[1]});
    } else {
      next[0] = combined_carry(op, before[0], values[0], kNone);
    }
    for (size_t i = 0; i < count; ++i) {
      (void)b.act({.op = Op::kSet}, std::array{windows_[at + i], values[i]});
      values[i] = next[i];
    }
  }
}

}  // namespace aster::codegen
