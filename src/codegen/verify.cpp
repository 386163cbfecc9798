// The rules of programs, in one walk along the instructions: blocks, axes, registers, tasks, and
// what is known of integers. docs/KERNEL_PROGRAM.md lists them.
#include "codegen/verify.h"

#include <algorithm>
#include <bit>

namespace aster::codegen::program {
namespace {

class Walk {
 public:
  Walk(const Module& module, const Program& program)
      : module_(module),
        program_(program),
        facts_(program.memory()),
        blocks_(program.memory()),
        loops_(program.memory()),
        values_(program.memory()),
        rules_(program, facts_) {}

  Status run(Verified* out) {
    const size_t count = program_.code().size();
    ASTER_TRY(facts_.resize(count, Fact{}));
    for (Id id = 0; id < count; ++id) {
      const char* fault = nullptr;
      ASTER_TRY(visit(id, &fault));
      if (fault == nullptr) continue;
      return ASTER_FAIL(kARGUMENT, "%s: instruction %u (%s) has not %s", program_.name, id + 1,
                        uop::info(program_.at(id).op).name, fault);
    }
    const char* whole = nullptr;
    ASTER_TRY(find_whole(&whole));
    if (whole != nullptr) return ASTER_FAIL(kARGUMENT, "%s has not %s", program_.name, whole);
    out->steps += steps_;
    out->unproved += rules_.unproved();
    return kOk;
  }

 private:
  struct Block {
    Id id;
    Op op;
    size_t values;  // that stood before it
    bool conditional;
    bool varies;  // whether items of a group may not all be inside
  };

  // What the program lacks as a whole.
  Status find_whole(const char** fault) {
    const std::span<const Instruction> code = program_.code();
    if (!blocks_.empty()) *fault = "an End for each block";
    if (program_.function && (code.empty() || code.back().op != Op::kResult)) *fault = "a Result";
    if (program_.function && !program_.axes().empty()) *fault = "a body without axes";
    return *fault == nullptr ? dense_slots(fault) : kOk;
  }

  Status visit(Id id, const char** fault) {
    const Instruction& in = program_.at(id);
    if ((*fault = find_fault(module_, program_, in)) != nullptr) return kOk;
    if (!operands_open(in)) return *fault = "operands in open blocks", kOk;
    if ((*fault = in_its_place(in)) != nullptr) return kOk;
    learn(id);
    count_steps(in);
    if (steps_ > kMaxSteps) return *fault = "a place among 4096 instructions, written out", kOk;
    if (in.op == Op::kEnd) return end(fault);
    if (has_value(in.op)) ASTER_TRY(values_.push(id));
    if (is_block(in.op)) return open(id);
    if (!is_access(in.op)) return kOk;
    return rules_.visit(id, surroundings(), fault);
  }

  bool operands_open(const Instruction& in) const {
    const auto open = [&](Id id) { return has_value(program_.at(id).op) && facts_[id].open; };
    return std::ranges::all_of(program_.operands(in), open) &&
           std::ranges::all_of(program_.terms(in),
                               [&](const Term& term) { return term.axis || open(term.at); });
  }

  AxisSet each_axes() const {
    AxisSet out = 0;
    for (const Block& block : blocks_) {
      if (block.op == Op::kEach) out |= axis_bit(program_.at(block.id).axis);
    }
    return out;
  }
  OpenLoop* innermost_parallel() {
    OpenLoop* out = nullptr;
    for (OpenLoop& loop : loops_) out = loop.parallel ? &loop : out;
    return out;
  }

  const char* in_its_place(const Instruction& in) {
    const AxisSet each = each_axes();
    if (in.op == Op::kParam && !blocks_.empty()) return "a place outside of blocks";
    if (in.op == Op::kArray || in.op == Op::kTable) {
      for (const Block& block : blocks_) {
        const Instruction& around = program_.at(block.id);
        const bool parallel = around.op == Op::kLoop && around.kind != 0;
        if (!parallel) return "a place outside of serial loops, If and Each";
      }
    }
    if (in.op == Op::kEach && has(each, in.axis)) return "an axis that is not gone along already";
    if (in.op == Op::kIf) {
      const AxisSet axes = program_.operand_axes(in);
      return (axes & ~each) == 0 ? nullptr : "Each for the axes of its condition";
    }
    if (in.op == Op::kLoop) return loop_place(in, each);
    if (in.op == Op::kBarrier) return barrier_place(each);
    if (in.op == Op::kTurn || in.op == Op::kZip || in.op == Op::kJoin) {
      if (has(each, in.axis)) return "all instances before it";
    }
    if (in.op != Op::kEnd && in.op != Op::kEach && (each & ~in.axes) != 0) {
      return "the axes of Each around it";
    }
    if (in.op == Op::kStore || in.op == Op::kAtomic) return effect_place();
    if (in.op == Op::kSet) return set_place(in);
    return nullptr;
  }
  // What is written stands in the innermost of nested parallel loops, or there are none.
  const char* effect_place() {
    OpenLoop* const inner = innermost_parallel();
    if (inner == nullptr ? parallel_met_ : inner->nests) return "a task that does it";
    (inner == nullptr ? effect_met_ : inner->effect) = true;
    return nullptr;
  }
  const char* set_place(const Instruction& in) {
    const OpenLoop* const inner = innermost_parallel();
    const bool outer = inner != nullptr && program_.operands(in)[0] < inner->id;
    return outer ? "a register of its own task" : nullptr;
  }
  const char* loop_place(const Instruction& in, AxisSet each) {
    if (each != 0) return "a place outside of Each";
    for (Id id : program_.operands(in)) {
      if (!canonical_past(in, id)) return "bounds with room for a step";
    }
    return in.kind == 0 ? nullptr : parallel_place(in);
  }
  // Whether the index stays in its dtype when it passes the end.
  bool canonical_past(const Instruction& in, Id end) const {
    const Interval bounds = facts_[end].bounds;
    int64_t past = 0;
    return uop::known(bounds) && checked_add(bounds.hi, program_.words(in)[2], &past) &&
           uop::convert_word(past, in.dtype, in.dtype) == past;
  }
  const char* parallel_place(const Instruction& in) {
    constexpr const char* kPlace = "its place among tasks, groups and items";
    const LoopKind kind = static_cast<LoopKind>(in.kind);
    const bool task = kind == LoopKind::kTask;
    for (const Block& block : blocks_) {
      const Instruction& around = program_.at(block.id);
      if (around.op != Op::kLoop || around.kind == 0) return "parallel loops alone around it";
      const LoopKind outer = static_cast<LoopKind>(around.kind);
      const bool again = outer == kind && !task;
      if (again || (is_local(outer) && !is_local(kind)) || task != (outer == LoopKind::kTask)) {
        return kPlace;
      }
    }
    OpenLoop* const inner = innermost_parallel();
    if (inner == nullptr) {
      if (effect_met_) return "nothing written outside of parallel loops";
      if (parallel_met_ && !(task && tasks_alone_)) return kPlace;
      tasks_alone_ = task;
    } else {
      if (inner->effect || inner->nests) return "the loop around it for itself";
      inner->nests = true;
    }
    for (Id id : program_.operands(in)) {
      if (facts_[id].parallel != 0) return "bounds that are the same for all tasks";
    }
    parallel_met_ = true;
    return nullptr;
  }
  const char* barrier_place(AxisSet each) const {
    if (each != 0) return "a place outside of Each";
    bool items = false;
    for (const Block& block : blocks_) {
      if (block.varies) return "all items of the group";
      const Instruction& around = program_.at(block.id);
      items |= around.op == Op::kLoop && is_local(static_cast<LoopKind>(around.kind));
    }
    return items ? nullptr : "a group of items";
  }

  // ---- Facts ----

  void learn(Id id) {
    const Instruction& in = program_.at(id);
    Fact& fact = facts_[id];
    const auto inherit = [&](Id from) {
      fact.varies |= facts_[from].varies;
      fact.parallel |= facts_[from].parallel;
    };
    for (Id from : program_.operands(in)) inherit(from);
    for (const Term& term : program_.terms(in)) {
      if (!term.axis) inherit(term.at);
    }
    if (in.op == Op::kAcc || in.op == Op::kLoad || in.op == Op::kSet) {
      // What a register or memory holds may come from anywhere above.
      fact.varies |= in.op == Op::kAcc || program_.at(program_.operands(in)[0]).op != Op::kParam ||
                     program_.at(program_.operands(in)[0]).is(kWrite);
      fact.parallel = ~uint64_t{0};
    }
    if (!has_value(in.op) || is_memory(in)) return;
    if (in.op == Op::kLoop) return learn_loop(id);
    const Words words = program_.words(in);
    const bool integral = !dtype::is_float(in.dtype);
    fact.bounds = uop::derive_bounds(Op::kConst, in.dtype, in.dtype, {});  // of the dtype
    if (in.op == Op::kConst && integral && (in.dtype != DType::kUInt64 || words[0] >= 0)) {
      fact.bounds = {words[0], words[0]};
      fact.exact = true;
    } else if (in.op == Op::kParam && in.is(kSize)) {
      fact.bounds = {words[1], words[2]};
    } else if (in.op == Op::kAxis) {
      fact.bounds = {0, program_.axes()[in.axis].size - 1};
      fact.exact = true;
    } else if (in.op == Op::kLanes && in.lanes != kAnyLanes) {
      fact.bounds = {0, in.lanes - 1};
    } else if (in.op == Op::kSpread || in.op == Op::kTurn || in.op == Op::kZip ||
               in.op == Op::kLane) {
      fact.bounds = facts_[program_.operands(in)[0]].bounds;
      if (in.op == Op::kTurn) fact.bounds = uop::kUnknown;  // lanes behind the instances are 0
    } else if (in.op == Op::kRem) {
      const Interval by = facts_[program_.operands(in)[1]].bounds;
      const bool positive = facts_[program_.operands(in)[0]].bounds.lo >= 0;
      if (by.lo > 0) fact.bounds = {positive ? 0 : 1 - by.hi, by.hi - 1};
    } else if (in.op == Op::kAnd && integral) {
      // Of any number with one that is not negative.
      for (Id from : program_.operands(in)) {
        const Interval mask = facts_[from].bounds;
        if (mask.lo >= 0) fact.bounds = {0, std::min(fact.bounds.hi, mask.hi)};
      }
    } else if (uop::is_alu(in.op) || in.op == Op::kCast || in.op == Op::kQuo || in.op == Op::kRem) {
      Interval sources[3] = {};
      for (size_t i = 0; i < in.operands; ++i) {
        sources[i] = facts_[program_.operands(in)[i]].bounds;
      }
      fact.bounds = uop::derive_bounds(in.op, program_.at(program_.operands(in)[0]).dtype, in.dtype,
                                       {sources, in.operands});
      if (in.op == Op::kMin && !uop::known(fact.bounds)) fact.bounds = clamped(in);
    }
  }
  // Of what is unknown between two numbers: the least of it, or the greater of it and another.
  Interval clamped(const Instruction& in) const {
    const auto operands = program_.operands(in);
    for (size_t i = 0; i < 2; ++i) {
      const Interval most = facts_[operands[i]].bounds;
      const Instruction& from = program_.at(operands[1 - i]);
      if (from.op != Op::kMax || !uop::known(most)) continue;
      for (Id least : program_.operands(from)) {
        const Interval lo = facts_[least].bounds;
        if (uop::known(lo)) return {std::min(lo.lo, most.lo), most.hi};
      }
    }
    return uop::kUnknown;
  }
  void learn_loop(Id id) {
    const Instruction& in = program_.at(id);
    const Words words = program_.words(in);
    Fact& fact = facts_[id];
    const auto operands = program_.operands(in);
    const Interval lo =
        in.is(kImmediate) ? Interval{words[0], words[0]} : facts_[operands[0]].bounds;
    const Interval hi =
        in.is(kImmediateHigh) ? Interval{words[1], words[1]} : facts_[operands.back()].bounds;
    if (uop::known(lo) && uop::known(hi) && lo.lo < hi.hi) {
      fact.bounds = {lo.lo, std::max(lo.lo, hi.hi - 1)};
      if (lo.lo == lo.hi) {
        const uint64_t reach = static_cast<uint64_t>(hi.hi - 1) - static_cast<uint64_t>(lo.lo);
        const uint64_t step = static_cast<uint64_t>(words[2]);
        fact.bounds.hi = static_cast<int64_t>(static_cast<uint64_t>(lo.lo) + reach / step * step);
        fact.exact = hi.lo == hi.hi;
      }
    } else if (uop::known(lo) && uop::known(hi)) {
      fact.bounds = {lo.lo, lo.lo};  // never runs
    }
    if (in.kind == 0) return;
    fact.varies |= is_local(static_cast<LoopKind>(in.kind));
    fact.parallel |= uint64_t{1} << std::min(parallel_loops_++, 63);
  }

  Status open(Id id) {
    const Instruction& in = program_.at(id);
    Block block{id, in.op, values_.size(), !blocks_.empty() && blocks_.back().conditional,
                !blocks_.empty() && blocks_.back().varies};
    if (in.op == Op::kIf) {
      const Fact& fact = facts_[program_.operands(in)[0]];
      block.conditional = true;
      block.varies |= fact.varies;
    }
    if (in.op == Op::kLoop) {
      const bool parallel = in.kind != 0;
      block.conditional |= !facts_[id].exact;
      for (Id end : program_.operands(in)) block.varies |= facts_[end].varies;
      const uint64_t bit = parallel ? uint64_t{1} << std::min(parallel_loops_ - 1, 63) : 0;
      ASTER_TRY(loops_.push({id, parallel, bit}));
    }
    return blocks_.push(block);
  }
  Status end(const char** fault) {
    if (blocks_.empty()) return *fault = "a block to end", kOk;
    const Block block = blocks_.back();
    blocks_.pop();
    if (block.op == Op::kLoop) loops_.pop();
    if (block.op == Op::kEach) return kOk;  // its values stay
    while (values_.size() > block.values) {
      facts_[values_.back()].open = false;
      values_.pop();
    }
    if (block.op == Op::kLoop) facts_[block.id].open = false;
    return kOk;
  }
  Surroundings surroundings() const {
    Surroundings out;
    out.loops = {loops_.data(), loops_.size()};
    out.conditional = !blocks_.empty() && blocks_.back().conditional;
    return out;
  }

  void count_steps(const Instruction& in) {
    if (in.op == Op::kEach) return;
    size_t each = program_.instances(in.axes);
    if (in.op == Op::kTurn) each *= static_cast<size_t>(std::countr_zero(in.lanes));
    if (in.op == Op::kJoin) each *= program_.axes()[in.axis].size;
    if (in.op == Op::kIf || in.op == Op::kEnd || is_memory(in)) each = 1;
    steps_ += each;
  }

  // Memory and numbers of a launch are counted apart.
  Status dense_slots(const char** fault) {
    Vec<uint8_t> met(program_.memory());
    for (const bool sizes : {false, true}) {
      const auto counts = [&](const Instruction& in) {
        return in.op == Op::kParam && in.is(kSize) == sizes;
      };
      met.clear();
      ASTER_TRY(met.resize(static_cast<size_t>(std::ranges::count_if(program_.code(), counts)), 0));
      for (const Instruction& in : program_.code()) {
        if (!counts(in)) continue;
        const size_t slot = static_cast<size_t>(program_.words(in)[0]);
        if (slot >= met.size() || met[slot]++ != 0) *fault = "slots from 0 on, each once";
      }
    }
    return kOk;
  }

  const Module& module_;
  const Program& program_;
  Vec<Fact> facts_;
  Vec<Block> blocks_;
  Vec<OpenLoop> loops_;
  Vec<Id> values_;  // that are open, in order
  MemoryRules rules_;
  uint64_t steps_ = 0;
  int parallel_loops_ = 0;
  bool parallel_met_ = false;
  bool effect_met_ = false;
  bool tasks_alone_ = false;  // the parallel loops so far are tasks
};

}  // namespace

Status verify(const Module& module, const VerifyOptions& options, Verified* out) {
  Verified all;
  for (const Program& program : module.programs) {
    ASTER_TRY(Walk(module, program).run(&all));
    if (all.unproved != 0 && !options.vouched) {
      return ASTER_FAIL(kARGUMENT, "%s: nothing proves %llu of its accesses", program.name,
                        static_cast<unsigned long long>(all.unproved));
    }
  }
  if (out != nullptr) *out = all;
  return kOk;
}

}  // namespace aster::codegen::program
