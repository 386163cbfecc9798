// Programs written out: every instance of every instruction, in the order in which they happen. All
// that computes or writes a program goes through here, so none of it unrolls anything itself.
//
// A register is a value and the number of its instance. Join, Turn and Zip are written out as what
// they mean, arithmetic and Shuffles; what those need in between are registers of the same value
// with numbers past its instances. The Const of a Turn is zero in all lanes.
#pragma once

#include <bit>

#include "codegen/program.h"

namespace aster::codegen::program {

struct Register {
  Id value = kNone;
  uint32_t instance = 0;
  bool operator==(const Register&) const = default;
};

// factor * register.
struct Product {
  int64_t factor;
  Register at;
};

// One instance of an instruction, or an instruction that Join, Turn or Zip is made of.
struct Step {
  Id id = kNone;
  const Instruction* in = nullptr;
  Op op = Op::kEnd;  // what it does: that of the instruction but for those
  Register result;
  std::span<const Register> operands;
  Words words;                        // those of the instruction, or the lanes of a Shuffle
  std::span<const Product> products;  // of the form; axes are in the constant
  int64_t constant = 0;
  uint16_t values[kMaxAxes] = {};  // of the axes at hand
};

// Calls visitor.step(step), visitor.open(step) and visitor.close(step) for blocks that stay (Loop,
// If); each returns a Status that ends the walk where it is not OK.
template <typename Visitor>
class Walker {
 public:
  Walker(const Program& program, Visitor& visitor)
      : program_(program),
        visitor_(visitor),
        operands_(program.memory()),
        products_(program.memory()),
        shuffle_(program.memory()) {}

  Status run() { return block(0, static_cast<Id>(program_.code().size())); }

 private:
  // The End of the block that begins at id.
  Id end_of(Id id) const {
    int depth = 0;
    for (; id < program_.code().size(); ++id) {
      const Op op = program_.at(id).op;
      depth += is_block(op) ? 1 : op == Op::kEnd ? -1 : 0;
      if (depth == 0) break;
    }
    return id;
  }

  Status block(Id from, Id to) {
    for (Id id = from; id < to; ++id) {
      const Instruction& in = program_.at(id);
      if (in.op == Op::kEach) {
        const Id end = end_of(id);
        const AxisSet outer = fixed_;
        fixed_ |= axis_bit(in.axis);
        for (uint16_t v = 0; v < program_.axes()[in.axis].size; ++v) {
          values_[in.axis] = v;
          ASTER_TRY(block(id + 1, end));
        }
        fixed_ = outer;
        id = end;
      } else if (is_block(in.op)) {
        const Id end = end_of(id);
        ASTER_TRY(at_hand(id, &Walker::opens));
        ASTER_TRY(block(id + 1, end));
        ASTER_TRY(at_hand(id, &Walker::closes));
        id = end;
      } else {
        ASTER_TRY(each_instance(id, in.axes & ~fixed_, 0));
      }
    }
    return kOk;
  }
  Status each_instance(Id id, int free, size_t axis) {
    while (axis < kMaxAxes && (free >> axis & 1) == 0) ++axis;
    if (axis == kMaxAxes) return instance(id);
    for (uint16_t v = 0; v < program_.axes()[axis].size; ++v) {
      values_[axis] = v;
      ASTER_TRY(each_instance(id, free, axis + 1));
    }
    return kOk;
  }

  uint32_t instance_of(AxisSet axes) const {
    uint32_t out = 0;
    for (size_t i = 0; i < program_.axes().size(); ++i) {
      if (has(axes, i)) out = out * program_.axes()[i].size + values_[i];
    }
    return out;
  }
  Register at(Id value) const { return {value, instance_of(program_.at(value).axes)}; }

  // The step of the instruction with its operands and form under the values at hand.
  Status make(Step* out, Id id) {
    const Instruction& in = program_.at(id);
    out->id = id;
    out->in = &in;
    out->op = in.op;
    out->result = at(id);
    operands_.clear();
    products_.clear();
    out->constant = in.constant;
    for (Id operand : program_.operands(in)) ASTER_TRY(operands_.push(at(operand)));
    for (const Term& term : program_.terms(in)) {
      if (term.axis) {
        out->constant += term.factor * values_[term.at];
      } else {
        ASTER_TRY(products_.push(Product{term.factor, at(term.at)}));
      }
    }
    out->operands = {operands_.data(), operands_.size()};
    out->products = {products_.data(), products_.size()};
    out->words = program_.words(in);
    for (size_t i = 0; i < kMaxAxes; ++i) out->values[i] = values_[i];
    return kOk;
  }
  Status opens(const Step& step) { return visitor_.open(step); }
  Status closes(const Step& step) { return visitor_.close(step); }
  Status at_hand(Id id, Status (Walker::*act)(const Step&)) {
    Step step;
    ASTER_TRY(make(&step, id));
    return (this->*act)(step);
  }
  Status instance(Id id) {
    const Instruction& in = program_.at(id);
    if (in.op == Op::kTurn) return values_[in.to] == 0 ? turn(id) : kOk;
    if (in.op == Op::kZip) return zip(id);
    if (in.op == Op::kJoin) return join(id);
    Step step;
    ASTER_TRY(make(&step, id));
    return visitor_.step(step);
  }

  // An instruction that Join, Turn or Zip is made of.
  Status part(Id id, Op op, Register result, const Register* operands, size_t count, Words words) {
    Step step;
    step.id = id;
    step.in = &program_.at(id);
    step.op = op;
    step.result = result;
    step.operands = {operands, count};
    step.words = words;
    return visitor_.step(step);
  }

  // Halves combined until one is left. Registers in between stand behind all instances.
  Status join(Id id) {
    const Instruction& in = program_.at(id);
    const uint16_t size = program_.axes()[in.axis].size;
    const Register result = at(id);
    const Id operand = program_.operands(in)[0];
    Register at_axis[kMaxSteps];
    const uint16_t kept = values_[in.axis];
    for (uint16_t v = 0; v < size; ++v) {
      values_[in.axis] = v;
      at_axis[v] = at(operand);
    }
    values_[in.axis] = kept;
    uint32_t next =
        static_cast<uint32_t>(program_.instances(in.axes)) + result.instance * (size - 1u);
    for (uint32_t half = size / 2u; half != 0; half /= 2) {
      for (uint32_t i = 0; i < half; ++i) {
        const Register to = half == 1 ? result : Register{id, next++};
        const Register both[2] = {at_axis[i], at_axis[i + half]};
        ASTER_TRY(part(id, in.with, to, both, 2, {}));
        at_axis[i] = to;
      }
    }
    // Of an axis of one value that is all: a Cast to the same dtype.
    return size == 1 ? part(id, Op::kCast, result, at_axis, 1, {}) : kOk;
  }

  // One half of the lanes of two instances in turn.
  Status zip(Id id) {
    const Instruction& in = program_.at(id);
    const Register result = at(id);
    const uint16_t kept = values_[in.to], kept_from = values_[in.axis];
    Register both[2];
    values_[in.to] = 0;
    for (uint16_t v = 0; v < 2; ++v) {
      values_[in.axis] = v;
      both[v] = at(program_.operands(in)[0]);
    }
    values_[in.axis] = kept_from;
    values_[in.to] = kept;
    const uint32_t n = in.lanes;
    ASTER_TRY(shuffle_.resize(n));
    for (uint32_t lane = 0; lane < n; ++lane) {
      const uint32_t from = kept * n + lane;
      shuffle_[lane] = from / 2 + (from % 2 == 0 ? 0 : n);
    }
    return part(id, Op::kShuffle, result, both, 2, {shuffle_.data(), n});
  }

  // A square in registers, turned by log2 n exchanges of blocks with their mirror: the bit d of a
  // row's number changes places with the bit d of the lane. Rows behind the instances are zero;
  // of the last level those are left out that are no instances.
  Status turn(Id id) {
    const Instruction& in = program_.at(id);
    const uint16_t kept_from = values_[in.axis], kept_to = values_[in.to];
    const uint32_t n = in.lanes, wanted = program_.axes()[in.to].size;
    Register rows[kMaxLanes], results[kMaxLanes];
    for (uint16_t v = 0; v < n; ++v) {
      values_[in.to] = v;
      if (v < wanted) results[v] = at(id);
      rows[v] = Register{};
      if (v >= program_.axes()[in.axis].size) continue;
      values_[in.to] = kept_to;
      values_[in.axis] = v;
      rows[v] = at(program_.operands(in)[0]);
    }
    values_[in.axis] = kept_from;
    values_[in.to] = kept_to;
    const uint32_t levels = static_cast<uint32_t>(std::countr_zero(n));
    const uint32_t instances = static_cast<uint32_t>(program_.instances(in.axes));
    // Numbers of its own for each square: one for zeros, then n a level.
    uint32_t next = instances + results[0].instance * (levels * n + 1);
    const Register zero{id, next++};
    bool zeroed = false;
    for (Register& row : rows) {
      if (&row >= rows + n || row.value != kNone) continue;
      row = zero;
      if (!zeroed) ASTER_TRY(part(id, Op::kConst, zero, nullptr, 0, {}));
      zeroed = true;
    }
    ASTER_TRY(shuffle_.resize(n));
    for (uint32_t d = n / 2; d != 0; d /= 2) {
      for (uint32_t i = 0; i < n; ++i) {
        if ((i & d) != 0) continue;
        const Register both[2] = {rows[i], rows[i + d]};
        for (const bool high : {false, true}) {
          if (d == 1 && (high ? i + 1 : i) >= wanted) continue;
          for (uint32_t lane = 0; lane < n; ++lane) {
            const uint32_t from = (lane & ~d) | (high ? d : 0);
            shuffle_[lane] = (lane & d) != 0 ? from + n : from;
          }
          Register& row = rows[high ? i + d : i];
          row = d == 1 ? results[high ? i + d : i] : Register{id, next++};
          ASTER_TRY(part(id, Op::kShuffle, row, both, 2, {shuffle_.data(), n}));
        }
      }
    }
    return kOk;
  }

  const Program& program_;
  Visitor& visitor_;
  uint16_t values_[kMaxAxes] = {};
  AxisSet fixed_ = 0;
  Vec<Register> operands_;
  Vec<Product> products_;
  Vec<Word> shuffle_;
};

}  // namespace aster::codegen::program
