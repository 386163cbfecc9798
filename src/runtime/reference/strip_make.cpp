// Writing the steps of a strip program.
#include <algorithm>
#include <cstring>

#include "codegen/walk.h"
#include "dtype/convert.h"
#include "runtime/reference/strip_program.h"

namespace aster::runtime::reference {

namespace program = codegen::program;
using dtype::DType;
using program::Instruction;
using uop::Op;
using uop::Word;

namespace {

// What the strips of a batch may take, so that they stay in the cache, and turns that it has at
// most.
constexpr size_t kBatchBytes = 24 << 10;
constexpr size_t kMostTurns = 64;
constexpr uint32_t kNowhere = UINT32_MAX;

size_t room_bytes(size_t elements, size_t bytes) {
  const size_t whole = (elements + kStripGroup - 1) / kStripGroup * kStripGroup;
  return (whole * bytes + 63) & ~size_t{63};
}

// A number as it lies in memory.
int64_t stored_word(DType d, Word word) {
  int64_t out = 0;
  if (dtype::is_float(d)) {
    dtype::store_double(d, &out, std::bit_cast<double>(word));
  } else {
    dtype::store_int(d, &out, word);
  }
  return out;
}

}  // namespace

class StripProgram::Maker {
 public:
  Maker(StripProgram& out, const program::Module& module, uint32_t code)
      : out_(out),
        module_(module),
        program_(module.programs[out.codes_[code].program]),
        code_(code),
        function_(program_.function),
        raws_(out.steps_.memory()),
        used_(out.steps_.memory()),
        words_(out.steps_.memory()),
        products_(out.steps_.memory()),
        values_(out.steps_.memory()),
        numbers_(out.steps_.memory()),
        open_(out.steps_.memory()),
        repeats_(out.steps_.memory()) {}

  Status run() {
    ASTER_TRY(program::Walker<Maker>(program_, *this).run());
    out_.codes_[code_].first = static_cast<uint32_t>(out_.steps_.size());
    ASTER_TRY(write(0, static_cast<uint32_t>(raws_.size())));
    out_.codes_[code_].last = static_cast<uint32_t>(out_.steps_.size());
    return kOk;
  }

  // The walker's: everything is noted first.
  Status step(const program::Step& from) { return note(from, RawKind::kStep); }
  Status open(const program::Step& from) {
    ASTER_TRY(open_.push(static_cast<uint32_t>(raws_.size())));
    return note(from, RawKind::kOpen);
  }
  Status close(const program::Step& from) {
    const uint32_t at = open_.back();
    open_.pop();
    raws_[at].match = static_cast<uint32_t>(raws_.size());
    ASTER_TRY(note(from, RawKind::kClose));
    raws_.back().match = at;
    return kOk;
  }

 private:
  enum class RawKind : uint8_t { kStep, kOpen, kClose };
  struct Raw {
    RawKind kind;
    Op op;
    const Instruction* in;
    uint32_t result;
    uint32_t used, useds;  // registers
    uint32_t word, words;
    uint32_t product, products;
    int64_t constant;
    uint16_t axis_value;
    uint32_t match = 0;
    uint32_t fold = kNowhere;  // the register that it changes turn by turn
    bool left = false;
    bool dropped = false;
  };
  // A register of the program, by its number.
  struct Known {
    DType dtype = DType::kNone;
    uint32_t lanes = 1;
    bool any = false;  // as many as the call has
    Value value;
    uint32_t spread_of = kNowhere;  // lanes that are one element, of that register
    uint32_t defined = 0;           // by that raw step
    Value repeated;                 // in the batch at hand
  };
  struct RawProduct {
    int64_t factor;
    uint32_t at;
  };

  static Status beyond(Op op) {
    return ASTER_FAIL(kUNSUPPORTED, "'%s' has no strips", uop::info(op).name);
  }

  // ---- Noting ----

  Status number_of(uint32_t* out, program::Register at) {
    const uint64_t key = uint64_t{at.value} << 32 | at.instance;
    if (const uint32_t* found = numbers_.find(key)) return *out = *found, kOk;
    const Instruction& in = program_.at(at.value);
    Known known;
    known.dtype = in.dtype;
    known.any = in.lanes == program::kAnyLanes;
    known.lanes = known.any ? 1 : in.lanes;
    known.defined = static_cast<uint32_t>(raws_.size());
    *out = static_cast<uint32_t>(values_.size());
    ASTER_TRY(values_.push(known));
    return numbers_.set(key, *out);
  }
  Status note(const program::Step& from, RawKind kind) {
    Raw raw{kind, from.op, from.in, 0, 0, 0, 0, 0, 0, 0, from.constant, 0};
    raw.axis_value = from.values[from.in->axis];
    ASTER_TRY(number_of(&raw.result, from.result));
    raw.used = static_cast<uint32_t>(used_.size());
    raw.useds = static_cast<uint32_t>(from.operands.size());
    for (const program::Register& at : from.operands) {
      uint32_t number = 0;
      ASTER_TRY(number_of(&number, at));
      ASTER_TRY(used_.push(number));
    }
    raw.word = static_cast<uint32_t>(words_.size());
    raw.words = static_cast<uint32_t>(from.words.size());
    ASTER_TRY(words_.append(from.words.data(), from.words.size()));
    raw.product = static_cast<uint32_t>(products_.size());
    raw.products = static_cast<uint32_t>(from.products.size());
    for (const program::Product& product : from.products) {
      RawProduct own{product.factor, 0};
      ASTER_TRY(number_of(&own.at, product.at));
      ASTER_TRY(products_.push(own));
    }
    return raws_.push(raw);
  }

  uint32_t used(const Raw& raw, size_t i) const { return used_[raw.used + i]; }
  const Word* words(const Raw& raw) const { return words_.data() + raw.word; }
  size_t element(uint32_t number) const { return dtype::size(values_[number].dtype); }

  // ---- Where values lie ----

  Value take(uint32_t lanes, size_t bytes, bool strip, size_t turns) {
    Value out;
    out.at = static_cast<uint32_t>(out_.bytes_);
    out.lanes = lanes;
    out.bytes = static_cast<uint8_t>(bytes);
    out.strip = strip;
    out_.bytes_ += room_bytes(lanes * (strip ? turns : 1), bytes);
    return out;
  }
  // Values of the function's elements are strips of one lane.
  size_t room() const { return function_ ? out_.codes_[code_].room : batch_; }
  Value define(uint32_t number) {
    Known& known = values_[number];
    const bool strip = function_ ? known.any : batch_ != 0;
    return known.value = take(known.lanes, element(number), strip, room());
  }
  Status emit(const Step& step) { return out_.steps_.push(step); }

  // A value with all its lanes, for every turn where there are several.
  Status whole(Value* out, uint32_t number) {
    Known& known = values_[number];
    if (known.value.bytes == 0 && known.spread_of == kNowhere)
      return ASTER_FAIL(kINTERNAL, "a value of a program is used before it is there");
    const bool strips = batch_ != 0 && !function_;
    if (known.spread_of == kNowhere) {
      *out = known.value;
      return strips && !known.value.strip ? repeat(out, known, known.value) : kOk;
    }
    const Value& one = values_[known.spread_of].value;
    if (strips && !one.strip) return repeat(out, known, one);
    if (strips && known.repeated.bytes != 0) return *out = known.repeated, kOk;
    Step step;
    step.act = spread;
    step.a = one;
    step.y = *out = take(known.lanes, one.bytes, function_ ? known.any : strips, room());
    if (strips) known.repeated = *out;
    return emit(step);
  }
  // From outside of a batch: once for every turn, made when the batch begins.
  Status repeat(Value* out, Known& known, const Value& from) {
    if (known.repeated.bytes == 0) {
      known.repeated = take(known.lanes, from.bytes, true, batch_);
      ASTER_TRY(repeats_.push(from));
      ASTER_TRY(repeats_.push(known.repeated));
    }
    *out = known.repeated;
    return kOk;
  }
  // One element for all, outside of what goes by turns.
  bool is_scalar(uint32_t number, const Raw& raw) const {
    const Known& known = values_[number];
    if (known.spread_of != kNowhere) return !values_[known.spread_of].value.strip;
    return batch_ != 0 && !function_ && known.lanes == 1 && !known.value.strip &&
           raw.in->lanes == 1;
  }
  Value scalar(uint32_t number) const {
    const Known& known = values_[number];
    return known.spread_of != kNowhere ? values_[known.spread_of].value : known.value;
  }

  // ---- Which loops go by several turns ----

  // Marks the step that changes a register from outside of the loop as nothing else does: a fold.
  bool mark_fold(uint32_t first, uint32_t last, uint32_t set) {
    const uint32_t target = used(raws_[set], 0), changed = used(raws_[set], 1);
    if (values_[changed].defined <= first || values_[changed].defined >= set) return false;
    Raw& change = raws_[values_[changed].defined];
    if (change.fold != kNowhere || change.kind != RawKind::kStep) return false;
    const bool fused = change.op == Op::kMulAcc;
    if (change.useds != (fused ? 3u : 2u)) return false;
    size_t reads = 0, uses = 0;
    for (uint32_t i = first + 1; i < last; ++i) {
      const Raw& raw = raws_[i];
      for (uint32_t k = 0; k < raw.useds; ++k) {
        const bool of_set = raw.op == Op::kSet && k == 0;
        if (used(raw, k) == target && (i != set || !of_set)) ++reads;
        if (used(raw, k) == changed) ++uses;
      }
      for (uint32_t k = 0; k < raw.products; ++k) {
        const uint32_t at = products_[raw.product + k].at;
        if (at == target || at == changed) return false;
      }
    }
    if (reads != 1 || uses != 1) return false;
    const size_t place = fused ? 2 : used(change, 0) == target ? 0 : 1;
    if (used(change, place) != target) return false;
    const Known& known = values_[target];
    if (strip_fold(change.op, known.dtype, place == 0, 0) == nullptr) return false;
    change.fold = target;
    change.left = place == 0;
    raws_[set].dropped = true;
    return true;
  }

  // Whether turns of an innermost loop may go together; marks its folds.
  bool goes_together(uint32_t first, uint32_t last) {
    for (uint32_t i = first + 1; i < last; ++i) {
      if (raws_[i].kind != RawKind::kStep) return false;
    }
    bool may = true;
    for (uint32_t i = first + 1; i < last && may; ++i) {
      const Raw& raw = raws_[i];
      if (raw.op == Op::kSet && values_[used(raw, 0)].defined < first)
        may = mark_fold(first, last, i);
      if (program::is_access(raw.op)) may = may && is_apart(first, last, raw);
      if (raw.op == Op::kCall) may = may && takes_strips(raw);
    }
    for (uint32_t i = first + 1; i < last && !may; ++i)
      raws_[i].fold = kNowhere, raws_[i].dropped = false;
    return may;
  }
  // Whether a store may come before loads of later turns, and behind those of its own.
  bool is_apart(uint32_t first, uint32_t last, const Raw& store) const {
    if (store.op != Op::kStore) return true;
    const uint32_t memory = used(store, 0);
    const bool array = program_.at(program_.access(*store.in).memory).op == Op::kArray;
    for (uint32_t i = first + 1; i < last; ++i) {
      const Raw& raw = raws_[i];
      if (raw.op != Op::kLoad || used(raw, 0) != memory) continue;
      if (array || raw.in->is(program::kIndexed) || store.in->is(program::kIndexed)) return false;
    }
    return true;
  }
  bool takes_strips(const Raw& call) const {
    const auto& callee = module_.programs[static_cast<size_t>(words(call)[0])];
    return std::ranges::none_of(callee.code(), [](const Instruction& in) {
      return in.op == Op::kParam && in.lanes != program::kAnyLanes;
    });
  }
  // Turns that strips of a batch have room for.
  size_t turns_of(uint32_t first, uint32_t last) const {
    size_t bytes = sizeof(int64_t);
    for (uint32_t i = first + 1; i < last; ++i) {
      const Raw& raw = raws_[i];
      const size_t lanes = raw.in->lanes;
      if (!program::has_value(raw.op)) continue;
      size_t values = 1;
      if (raw.op == Op::kCall)
        values += module_.programs[static_cast<size_t>(words(raw)[0])].code().size();
      bytes += values * lanes * element(raw.result);
    }
    size_t turns = std::min(kBatchBytes / bytes, kMostTurns);
    const Raw& loop = raws_[first];
    if (loop.in->is(program::kImmediate) && loop.in->is(program::kImmediateHigh)) {
      const Word all = (words(loop)[1] - words(loop)[0] + words(loop)[2] - 1) / words(loop)[2];
      turns = std::min(turns, static_cast<size_t>(std::max<Word>(all, 1)));
    }
    return turns;
  }

  // ---- Writing ----

  Status write(uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last; ++i) {
      const Raw& raw = raws_[i];
      if (raw.kind == RawKind::kStep) {
        ASTER_TRY(write_step(raw));
      } else {
        ASTER_TRY(write_block(i));
        i = raw.match;
      }
    }
    return kOk;
  }

  Status fill_loop(Step* step, const Raw& raw) {
    const auto kind = static_cast<program::LoopKind>(raw.in->kind);
    if (kind >= program::LoopKind::kGroup0) return beyond(raw.op);
    step->has_low = raw.in->is(program::kImmediate);
    step->has_high = raw.in->is(program::kImmediateHigh);
    if (step->has_low) step->low = words(raw)[0];
    if (step->has_high) step->high = words(raw)[1];
    step->step = words(raw)[2];
    if (!step->has_low) ASTER_TRY(index_of(&step->a, used(raw, 0)));
    if (!step->has_high) ASTER_TRY(index_of(&step->b, used(raw, raw.useds - 1)));
    return values_[raw.result].dtype == DType::kInt64 ? kOk : beyond(raw.op);
  }
  Status index_of(Value* out, uint32_t number) {
    const DType d = values_[number].dtype;
    *out = values_[number].value;
    return d == DType::kInt64 || d == DType::kInt32 ? kOk : beyond(Op::kCast);
  }
  bool holds_tasks(uint32_t first, uint32_t last) const {
    for (uint32_t i = first + 1; i < last; ++i) {
      if (raws_[i].kind == RawKind::kOpen && is_task(raws_[i])) return true;
    }
    return false;
  }
  static bool is_task(const Raw& raw) {
    return raw.op == Op::kLoop &&
           static_cast<program::LoopKind>(raw.in->kind) == program::LoopKind::kTask;
  }

  Status write_block(uint32_t at) {
    const Raw raw = raws_[at];
    const auto begin = static_cast<uint32_t>(out_.steps_.size());
    Step step;
    if (raw.op == Op::kIf) {
      step.kind = Kind::kIf;
      step.a = values_[used(raw, 0)].value;
    } else {
      const size_t turns = function_ ? 0 : turns_of(at, raw.match);
      if (turns > 1 && goes_together(at, raw.match)) return write_batch(at, turns);
      step.kind = is_task(raw) && !holds_tasks(at, raw.match) ? Kind::kTaskLoop : Kind::kLoop;
      ASTER_TRY(fill_loop(&step, raw));
      step.y = values_[raw.result].value = take(1, sizeof(int64_t), false, 1);
    }
    ASTER_TRY(emit(step));
    ASTER_TRY(write(at + 1, raw.match));
    return close_block(begin);
  }
  Status close_block(uint32_t begin) {
    Step step;
    step.kind = Kind::kClose;
    step.match = begin;
    out_.steps_[begin].match = static_cast<uint32_t>(out_.steps_.size());
    return emit(step);
  }

  // Numbers come before it, and all else once for so many turns.
  Status write_batch(uint32_t at, size_t turns) {
    const uint32_t last = raws_[at].match;
    for (uint32_t i = at + 1; i < last; ++i) {
      if (is_number(raws_[i])) ASTER_TRY(write_step(raws_[i]));
    }
    const auto begin = static_cast<uint32_t>(out_.steps_.size());
    Step step;
    step.kind = Kind::kBatch;
    step.task = is_task(raws_[at]);
    step.word = static_cast<int64_t>(turns);
    ASTER_TRY(fill_loop(&step, raws_[at]));
    batch_ = turns;
    batch_index_ = raws_[at].result;
    batch_step_ = step.step;
    step.y = define(batch_index_);
    ASTER_TRY(emit(step));
    repeats_.clear();
    for (uint32_t i = at + 1; i < last; ++i) {
      if (!is_number(raws_[i]) && !raws_[i].dropped) ASTER_TRY(write_step(raws_[i]));
    }
    batch_ = 0;
    batch_index_ = kNowhere;
    for (Known& known : values_) known.repeated = Value{};
    out_.steps_[begin].list = static_cast<uint32_t>(out_.places_.size());
    out_.steps_[begin].count = static_cast<uint32_t>(repeats_.size());
    ASTER_TRY(out_.places_.append(repeats_.data(), repeats_.size()));
    return close_block(begin);
  }
  static bool is_number(const Raw& raw) { return raw.op == Op::kConst || raw.op == Op::kAxis; }

  Status write_step(const Raw& raw) {
    const Write writer = writer_of(raw.op);
    if (writer != nullptr) return (this->*writer)(raw);
    return program::is_arithmetic(raw.op) ? arithmetic(raw) : beyond(raw.op);
  }

  Status nothing(const Raw&) { return kOk; }
  Status number(const Raw& raw) {
    Step step;
    step.act = constant;
    const size_t kept = std::exchange(batch_, size_t{0});
    // The Const of a Turn is zero.
    step.word = raw.op == Op::kAxis       ? stored_word(raw.in->dtype, raw.axis_value)
                : raw.in->op == Op::kTurn ? 0
                                          : stored_word(raw.in->dtype, words(raw)[0]);
    step.y = define(raw.result);
    batch_ = kept;
    return emit(step);
  }
  Status param(const Raw& raw) {
    if (raw.in->is(program::kSize)) {
      Step step;
      step.act = StripProgram::number;
      step.word = words(raw)[0];
      step.y = define(raw.result);
      return emit(step);
    }
    if (!raw.in->is(program::kArgument)) return kOk;
    Code& code = out_.codes_[code_];
    const auto slot = static_cast<size_t>(words(raw)[0]);
    if (slot >= std::size(code.arguments)) return beyond(raw.op);
    code.arguments[slot] = define(raw.result);
    return kOk;
  }
  Status array(const Raw& raw) {
    const auto elements = static_cast<size_t>(raw.in->constant + words(raw)[0]);
    values_[raw.result].value = take(1, element(raw.result), false, 1);
    out_.bytes_ += room_bytes(elements, element(raw.result));
    return kOk;
  }
  Status table(const Raw& raw) {
    Known& known = values_[raw.result];
    ASTER_TRY(out_.tables_.resize((out_.tables_.size() + 7) / 8 * 8));
    known.value.at = static_cast<uint32_t>(out_.tables_.size());
    known.value.bytes = static_cast<uint8_t>(element(raw.result));
    for (uint32_t i = 0; i < raw.words; ++i) {
      const int64_t word = stored_word(known.dtype, words(raw)[i]);
      ASTER_TRY(out_.tables_.append(reinterpret_cast<const char*>(&word), known.value.bytes));
    }
    return kOk;
  }
  Status lanes(const Raw& raw) {
    Step step;
    step.act = count;
    step.y = define(raw.result);
    return emit(step);
  }
  Status begin_register(const Raw& raw) {
    Step step;
    if (raw.in->is(program::kImmediate)) {
      step.act = constant;
      step.word = stored_word(raw.in->dtype, words(raw)[0]);
    } else {
      step.act = copy;
      ASTER_TRY(whole(&step.a, used(raw, 0)));
    }
    step.y = define(raw.result);
    return emit(step);
  }
  Status set_register(const Raw& raw) {
    Step step;
    step.act = copy;
    ASTER_TRY(whole(&step.a, used(raw, 1)));
    step.y = values_[used(raw, 0)].value;
    return emit(step);
  }
  Status spread_lanes(const Raw& raw) {
    values_[raw.result].spread_of = used(raw, 0);
    return kOk;
  }
  Status lane(const Raw& raw) {
    Step step;
    step.act = take_lane;
    step.word = words(raw)[0];
    ASTER_TRY(whole(&step.a, used(raw, 0)));
    step.y = define(raw.result);
    return emit(step);
  }
  Status shuffled(const Raw& raw) {
    Step step;
    step.act = shuffle;
    ASTER_TRY(whole(&step.a, used(raw, 0)));
    ASTER_TRY(whole(&step.b, used(raw, raw.useds - 1)));
    step.list = static_cast<uint32_t>(out_.lanes_.size());
    for (uint32_t i = 0; i < raw.words; ++i)
      ASTER_TRY(out_.lanes_.push(static_cast<uint32_t>(words(raw)[i])));
    step.y = define(raw.result);
    return emit(step);
  }
  Status across_lanes(const Raw& raw) {
    Step step;
    const Known& from = values_[used(raw, 0)];
    ASTER_TRY(whole(&step.a, used(raw, 0)));
    step.y = define(raw.result);
    if (from.any) {
      if (raw.in->with != Op::kAnd && raw.in->with != Op::kOr) return beyond(raw.op);
      step.act = across_all;
      step.word = raw.in->with == Op::kAnd;
      return emit(step);
    }
    step.act = across;
    step.loop = strip_loop(raw.in->with, from.dtype, 0);
    return step.loop != nullptr ? emit(step) : beyond(raw.in->with);
  }
  Status result(const Raw& raw) { return whole(&out_.codes_[code_].result, used(raw, 0)); }

  Status call_function(const Raw& raw) {
    Step step;
    step.act = call;
    step.count = raw.useds;
    Value given[std::size(Code{}.arguments)];
    if (raw.useds > std::size(given)) return beyond(raw.op);
    for (uint32_t i = 0; i < raw.useds; ++i) ASTER_TRY(whole(&given[i], used(raw, i)));
    step.list = static_cast<uint32_t>(out_.places_.size());
    ASTER_TRY(out_.places_.append(given, raw.useds));
    step.y = define(raw.result);
    const size_t turns = step.y.strip ? room() : 1;
    const auto size = static_cast<uint32_t>(step.y.lanes * turns);
    const auto called = static_cast<uint32_t>(words(raw)[0]);
    for (step.access = 0; step.access < out_.codes_.size(); ++step.access) {
      const Code& code = out_.codes_[step.access];
      if (code.program == called && code.room == size) return emit(step);
    }
    Code code;
    code.program = called;
    code.room = size;
    ASTER_TRY(out_.codes_.push(code));
    return emit(step);
  }

  Status casted(const Raw& raw) {
    Step step;
    const DType from = values_[used(raw, 0)].dtype;
    ASTER_TRY(whole(&step.a, used(raw, 0)));
    step.y = define(raw.result);
    if (raw.op == Op::kBitcast || from == raw.in->dtype) {
      step.act = copy;
      return emit(step);
    }
    step.act = compute;
    step.loop = strip_cast_loop(raw.op, from, raw.in->dtype);
    if (step.loop != nullptr) return emit(step);
    return ASTER_FAIL(kUNSUPPORTED, "a cast of %s to %s has no strips", program::type_name(from),
                      program::type_name(raw.in->dtype));
  }

  Status arithmetic(const Raw& raw) {
    if (raw.fold != kNowhere) return folded(raw);
    const DType operand = values_[used(raw, raw.useds - 1)].dtype;
    unsigned scalars = 0;
    for (uint32_t i = 0; i < raw.useds; ++i) {
      if (is_scalar(used(raw, i), raw)) scalars |= 1u << i;
    }
    // All that are one are lanes of one.
    if (scalars == (1u << raw.useds) - 1) scalars &= scalars - 1;
    Step step;
    step.act = compute;
    while ((step.loop = strip_loop(raw.op, operand, scalars)) == nullptr) {
      if (scalars == 0) return beyond(raw.op);
      scalars &= scalars - 1;
    }
    Value* const given[] = {&step.a, &step.b, &step.c};
    for (uint32_t i = 0; i < raw.useds; ++i) {
      if ((scalars >> i & 1) != 0) {
        *given[i] = scalar(used(raw, i));
      } else {
        ASTER_TRY(whole(given[i], used(raw, i)));
      }
    }
    step.y = define(raw.result);
    return emit(step);
  }

  Status folded(const Raw& raw) {
    const bool fused = raw.op == Op::kMulAcc;
    const uint32_t numbers[2] = {used(raw, fused || !raw.left ? 0 : 1), used(raw, 1)};
    Step step;
    step.act = combine;
    step.y = values_[raw.fold].value;
    Value* const given[2] = {&step.a, &step.b};
    unsigned scalars = 0;
    for (size_t i = 0; fused && i < 2; ++i) {
      if (values_[numbers[i]].spread_of != kNowhere && scalars == 0) scalars = 1u << i;
    }
    step.fold = strip_fold(raw.op, values_[raw.fold].dtype, raw.left, scalars);
    for (size_t i = 0; i < (fused ? 2u : 1u); ++i) {
      const Known& known = values_[numbers[i]];
      if ((scalars >> i & 1) != 0) {
        *given[i] = values_[known.spread_of].value;
      } else if (known.spread_of == kNowhere) {
        *given[i] = known.value;  // of every turn, or the same for all
      } else {
        ASTER_TRY(whole(given[i], numbers[i]));
      }
    }
    return step.fold != nullptr ? emit(step) : beyond(raw.op);
  }

  Status accessed(const Raw& raw) {
    const program::Access from = program_.access(*raw.in);
    const Instruction& memory = program_.at(from.memory);
    const bool loads = raw.op == Op::kLoad;
    Access access;
    access.what = memory.op;
    access.memory = memory.op == Op::kParam ? static_cast<uint32_t>(program_.words(memory)[0])
                                            : values_[used(raw, 0)].value.at;
    access.constant = raw.constant;
    access.stride = from.step;
    access.first = raw.in->lanes == program::kAnyLanes ? 1 : from.first;
    uint32_t next = loads ? 1 : 2;
    for (const auto& [id, to] : {std::pair{from.index, &access.index},
                                 {from.gate, &access.gate},
                                 {from.mask, &access.mask}}) {
      if (id == program::kNone) continue;
      const uint32_t number = used(raw, next++);
      const Known& known = values_[number];
      if (known.spread_of != kNowhere) {
        ASTER_TRY(whole(to, number));
      } else {
        *to = known.value;
      }
      if (to->bytes == 2 || (id == from.index && to->bytes < 4)) return beyond(raw.op);
    }
    access.product = static_cast<uint32_t>(out_.products_.size());
    access.products = raw.products;
    for (uint32_t i = 0; i < raw.products; ++i) {
      const RawProduct& product = products_[raw.product + i];
      Product own{product.factor, {}};
      ASTER_TRY(index_of(&own.value, product.at));
      if (product.at == batch_index_) {
        access.turn += product.factor * batch_step_;
      } else {
        access.moves |= own.value.strip;
      }
      ASTER_TRY(out_.products_.push(own));
    }
    // Where a value moves the address, the index does so as one.
    if (access.moves) access.turn = 0;
    Step step;
    step.act = StripProgram::access;
    step.access = static_cast<uint32_t>(out_.accesses_.size());
    ASTER_TRY(out_.accesses_.push(access));
    if (!loads) ASTER_TRY(whole(&step.a, used(raw, 1)));
    if (loads) step.y = define(raw.result);
    return emit(step);
  }

  using Write = Status (Maker::*)(const Raw& raw);
  // Of what is no arithmetic; null: none.
  static Write writer_of(Op op);

  StripProgram& out_;
  const program::Module& module_;
  const program::Program& program_;
  uint32_t code_;
  bool function_;
  size_t batch_ = 0;  // turns of the batch at hand
  uint32_t batch_index_ = kNowhere;
  int64_t batch_step_ = 0;
  Vec<Raw> raws_;
  Vec<uint32_t> used_;
  Vec<Word> words_;
  Vec<RawProduct> products_;
  Vec<Known> values_;
  Map<uint64_t, uint32_t> numbers_;
  Vec<uint32_t> open_;
  Vec<Value> repeats_;
};

StripProgram::Maker::Write StripProgram::Maker::writer_of(Op op) {
  constexpr struct {
    Op op;
    Write write;
  } kWriters[] = {{Op::kConst, &Maker::number},        {Op::kAxis, &Maker::number},
                  {Op::kParam, &Maker::param},         {Op::kArray, &Maker::array},
                  {Op::kTable, &Maker::table},         {Op::kLanes, &Maker::lanes},
                  {Op::kAcc, &Maker::begin_register},  {Op::kSet, &Maker::set_register},
                  {Op::kSpread, &Maker::spread_lanes}, {Op::kLane, &Maker::lane},
                  {Op::kShuffle, &Maker::shuffled},    {Op::kAcross, &Maker::across_lanes},
                  {Op::kCall, &Maker::call_function},  {Op::kCast, &Maker::casted},
                  {Op::kBitcast, &Maker::casted},      {Op::kToInt, &Maker::casted},
                  {Op::kLoad, &Maker::accessed},       {Op::kStore, &Maker::accessed},
                  {Op::kPrefetch, &Maker::nothing},    {Op::kResult, &Maker::result}};
  for (const auto& row : kWriters) {
    if (row.op == op) return row.write;
  }
  return nullptr;
}

Status StripProgram::make(StripProgram** out, const program::Module& module, Memory& memory) {
  *out = nullptr;
  if (!runs_strip_loops()) return ASTER_FAIL(kUNSUPPORTED, "strips are for CPUs with AVX2");
  StripProgram* made = memory.create<StripProgram>(memory);
  if (made == nullptr) return out_of_memory(sizeof(StripProgram));
  Code first;
  first.program = static_cast<uint32_t>(module.programs.size()) - 1;
  Status status = made->codes_.push(first);
  // Calls append the codes that they run.
  for (uint32_t i = 0; status.ok() && i < made->codes_.size(); ++i)
    status = Maker(*made, module, i).run();
  // Loops may go on to the end of a group.
  made->bytes_ += 64 * sizeof(int64_t);
  if (status.ok() && made->bytes_ > UINT32_MAX / 2)
    status = ASTER_FAIL(kUNSUPPORTED, "strips of %zu bytes", made->bytes_);
  if (!status.ok()) {
    memory.destroy(made);
    return status;
  }
  *out = made;
  return kOk;
}

}  // namespace aster::runtime::reference
