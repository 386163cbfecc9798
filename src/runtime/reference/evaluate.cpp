#include "runtime/reference/evaluate.h"

#include <algorithm>
#include <cstring>

#include "base/hash_map.h"
#include "codegen/walk.h"
#include "dtype/convert.h"
#include "runtime/reference/strip_program.h"

namespace aster::runtime::reference {
namespace {

namespace program = codegen::program;
using dtype::DType;
using program::Instruction;
using uop::Op;
using uop::Word;

Word load_word(DType d, const void* at) {
  if (dtype::is_float(d)) return std::bit_cast<Word>(dtype::load_double(d, at));
  return dtype::load_int(d, at);
}
void store_word(DType d, void* at, Word word) {
  if (dtype::is_float(d)) return dtype::store_double(d, at, std::bit_cast<double>(word));
  dtype::store_int(d, at, word);
}

}  // namespace

struct Evaluated::Running {
  void* const* params;
  Word* places;
  int64_t begin, end;  // tasks
  int64_t task = 0;    // the next one
};

// ---- Writing out ----

// Takes the steps of one code.
class Evaluated::Writer {
 public:
  Writer(Evaluated& e, const program::Module& module, uint32_t code)
      : e_(e),
        program_(module.programs[e.codes_[code].program]),
        code_(code),
        places_(e.steps_.memory()),
        open_(e.steps_.memory()) {}

  Status run() {
    e_.codes_[code_].first = static_cast<uint32_t>(e_.steps_.size());
    ASTER_TRY(program::Walker<Writer>(program_, *this).run());
    e_.codes_[code_].last = static_cast<uint32_t>(e_.steps_.size());
    return kOk;
  }

  Status step(const program::Step& from) {
    Step step;
    ASTER_TRY(fill(&step, from));
    step.act = act_of(*from.in, from.op);
    if (step.act == nullptr)
      return ASTER_FAIL(kUNSUPPORTED, "'%s' is not interpreted", uop::info(from.op).name);
    Code& code = e_.codes_[code_];
    if (from.op == Op::kParam && from.in->is(program::kArgument)) {
      const size_t slot = static_cast<size_t>(from.words[0]);
      if (slot >= std::size(code.arguments))
        return ASTER_FAIL(kUNSUPPORTED, "a function of %zu arguments", slot + 1);
      code.arguments[slot] = step.result;
      code.argument_lanes[slot] = step.lanes;
    }
    if (from.op == Op::kResult) code.result = e_.operand(step, 0).place;
    if (from.op == Op::kCall) {
      ASTER_TRY(
          e_.code_of(&step.code, static_cast<uint32_t>(from.words[0]), lanes(from.in->lanes)));
    }
    if (program::is_access(from.op)) ASTER_TRY(limit(&step, *from.in));
    return e_.steps_.push(step);
  }
  Status open(const program::Step& from) {
    Step step;
    ASTER_TRY(fill(&step, from));
    const auto kind = static_cast<program::LoopKind>(from.in->kind);
    step.kind = from.op == Op::kIf ? Kind::kIf : Kind::kLoop;
    if (from.op == Op::kLoop && kind >= program::LoopKind::kGroup0)
      return ASTER_FAIL(kUNSUPPORTED, "groups and their items are not interpreted");
    if (from.op == Op::kLoop && kind == program::LoopKind::kTask && !holds_tasks(from.id))
      step.kind = Kind::kTaskLoop;
    ASTER_TRY(open_.push(static_cast<uint32_t>(e_.steps_.size())));
    return e_.steps_.push(step);
  }
  Status close(const program::Step&) {
    Step step;
    step.kind = Kind::kClose;
    step.match = open_.back();
    e_.steps_[open_.back()].match = static_cast<uint32_t>(e_.steps_.size());
    open_.pop();
    return e_.steps_.push(step);
  }

 private:
  uint32_t lanes(uint8_t given) const {
    return given == program::kAnyLanes ? e_.codes_[code_].lanes : given;
  }
  // Whether tasks are loops inside of this one.
  bool holds_tasks(program::Id id) const {
    int depth = 0;
    do {
      const Instruction& in = program_.at(id++);
      if (in.op == Op::kLoop && depth > 0 &&
          static_cast<program::LoopKind>(in.kind) == program::LoopKind::kTask)
        return true;
      depth += program::is_block(in.op) ? 1 : in.op == Op::kEnd ? -1 : 0;
    } while (depth > 0);
    return false;
  }
  Status place(uint32_t* out, program::Register at) {
    const uint64_t key = uint64_t{at.value} << 32 | at.instance;
    if (const uint32_t* found = places_.find(key)) return *out = *found, kOk;
    const Instruction& in = program_.at(at.value);
    *out = static_cast<uint32_t>(e_.places_);
    e_.places_ += in.op == Op::kArray ? static_cast<size_t>(in.constant + program_.words(in)[0])
                                      : lanes(in.lanes);
    return places_.set(key, *out);
  }
  Status fill(Step* out, const program::Step& from) {
    out->op = from.op;
    out->with = from.in->with;
    out->dtype = from.in->dtype;
    out->lanes = lanes(from.in->lanes);
    out->flags = from.in->flags;
    out->constant = from.op == Op::kAxis ? from.values[from.in->axis] : from.constant;
    ASTER_TRY(place(&out->result, from.result));
    out->operand = static_cast<uint32_t>(e_.operands_.size());
    out->operands = static_cast<uint32_t>(from.operands.size());
    for (const program::Register& at : from.operands) {
      const Instruction& in = program_.at(at.value);
      Operand operand{0, lanes(in.lanes), in.dtype};
      ASTER_TRY(place(&operand.place, at));
      ASTER_TRY(e_.operands_.push(operand));
    }
    out->word = static_cast<uint32_t>(e_.words_.size());
    out->words = static_cast<uint32_t>(from.words.size());
    ASTER_TRY(e_.words_.append(from.words.data(), from.words.size()));
    out->product = static_cast<uint32_t>(e_.products_.size());
    out->products = static_cast<uint32_t>(from.products.size());
    for (const program::Product& product : from.products) {
      Product own{product.factor, 0};
      ASTER_TRY(place(&own.place, product.at));
      ASTER_TRY(e_.products_.push(own));
    }
    return kOk;
  }
  Status limit(Step* step, const Instruction& in) {
    const program::Access access = program_.access(in);
    const Instruction& memory = program_.at(access.memory);
    step->elements.what = memory.op;
    step->elements.dtype = memory.dtype;
    step->elements.at = e_.operand(*step, 0).place;
    if (memory.op == Op::kParam)
      step->elements.at = static_cast<uint32_t>(program_.words(memory)[0]);
    if (memory.op == Op::kTable) {
      step->elements.at = static_cast<uint32_t>(e_.words_.size());
      const program::Words words = program_.words(memory);
      ASTER_TRY(e_.words_.append(words.data(), words.size()));
    }
    uint32_t next = in.op == Op::kLoad ? 1 : 2;
    const auto take = [&](program::Id id) { return id == program::kNone ? kNowhere : next++; };
    step->index = take(access.index);
    step->gate = take(access.gate);
    step->mask = take(access.mask);
    step->stride = access.step;
    step->first = in.lanes == program::kAnyLanes ? step->lanes : access.first;
    return kOk;
  }

  Evaluated& e_;
  const program::Program& program_;
  uint32_t code_;
  Map<uint64_t, uint32_t> places_;
  Vec<uint32_t> open_;
};

Status Evaluated::code_of(uint32_t* out, uint32_t program, uint32_t lanes) {
  for (*out = 0; *out < codes_.size(); ++*out) {
    if (codes_[*out].program == program && codes_[*out].lanes == lanes) return kOk;
  }
  Code code;
  code.program = program;
  code.lanes = lanes;
  return codes_.push(code);
}

Status Evaluated::make(Evaluated** out, const program::Module& module, Memory& memory) {
  Evaluated* made = *out = memory.create<Evaluated>(memory);
  if (made == nullptr) return out_of_memory(sizeof(Evaluated));
  uint32_t first = 0;
  Status status = made->code_of(&first, static_cast<uint32_t>(module.programs.size()) - 1, 1);
  // Calls append the codes that they run.
  for (uint32_t i = 0; status.ok() && i < made->codes_.size(); ++i)
    status = Writer(*made, module, i).run();
  if (!status.ok()) {
    memory.destroy(made);
    *out = nullptr;
  }
  return status;
}

Evaluated::Act Evaluated::act_of(const Instruction& in, Op op) {
  // The Const of a Turn is zero.
  if (op == Op::kConst) return in.op == Op::kTurn ? zero : constant;
  if (op == Op::kParam) return in.is(program::kSize) ? nullptr : nothing;
  constexpr struct {
    Op op;
    Act act;
  } kActs[] = {{Op::kBitcast, cast_bits},  {Op::kAxis, axis},        {Op::kLanes, lanes},
               {Op::kAcc, begin_register}, {Op::kSet, set_register}, {Op::kSpread, spread},
               {Op::kLane, lane},          {Op::kShuffle, shuffle},  {Op::kAcross, across},
               {Op::kCall, call},          {Op::kLoad, access},      {Op::kStore, access},
               {Op::kPrefetch, nothing},   {Op::kTable, nothing},    {Op::kArray, nothing},
               {Op::kResult, nothing},     {Op::kAtomic, nullptr},   {Op::kBarrier, nullptr}};
  for (const auto& row : kActs) {
    if (row.op == op) return row.act;
  }
  return compute;
}

// ---- Going through ----

void Evaluated::compute(const Evaluated& e, Running& r, const Step& s) {
  const Operand* const operands = e.operands_.data() + s.operand;
  const DType from = s.operands != 0 ? operands[s.operands - 1].dtype : s.dtype;
  for (uint32_t lane = 0; lane < s.lanes; ++lane) {
    Word words[3] = {};
    for (uint32_t i = 0; i < s.operands; ++i) words[i] = r.places[operands[i].place + lane];
    r.places[s.result + lane] = uop::evaluate(s.op, from, s.dtype, words);
  }
}
void Evaluated::cast_bits(const Evaluated& e, Running& r, const Step& s) {
  const Operand& from = e.operand(s, 0);
  for (uint32_t lane = 0; lane < s.lanes; ++lane) {
    char bits[sizeof(Word)] = {};
    store_word(from.dtype, bits, r.places[from.place + lane]);
    r.places[s.result + lane] = load_word(s.dtype, bits);
  }
}
void Evaluated::constant(const Evaluated& e, Running& r, const Step& s) {
  for (uint32_t lane = 0; lane < s.lanes; ++lane) r.places[s.result + lane] = e.words_of(s)[0];
}
void Evaluated::zero(const Evaluated&, Running& r, const Step& s) {
  for (uint32_t lane = 0; lane < s.lanes; ++lane) r.places[s.result + lane] = 0;
}
void Evaluated::axis(const Evaluated&, Running& r, const Step& s) {
  r.places[s.result] = s.constant;
}
void Evaluated::lanes(const Evaluated&, Running& r, const Step& s) {
  for (uint32_t lane = 0; lane < s.lanes; ++lane) r.places[s.result + lane] = lane;
}
void Evaluated::begin_register(const Evaluated& e, Running& r, const Step& s) {
  const bool given = (s.flags & program::kImmediate) != 0;
  for (uint32_t lane = 0; lane < s.lanes; ++lane) {
    r.places[s.result + lane] = given ? e.words_of(s)[0] : r.places[e.operand(s, 0).place + lane];
  }
}
void Evaluated::set_register(const Evaluated& e, Running& r, const Step& s) {
  const Operand& to = e.operand(s, 0);
  for (uint32_t lane = 0; lane < to.lanes; ++lane)
    r.places[to.place + lane] = r.places[e.operand(s, 1).place + lane];
}
void Evaluated::spread(const Evaluated& e, Running& r, const Step& s) {
  const Word value = r.places[e.operand(s, 0).place];
  for (uint32_t lane = 0; lane < s.lanes; ++lane) r.places[s.result + lane] = value;
}
void Evaluated::lane(const Evaluated& e, Running& r, const Step& s) {
  r.places[s.result] = r.places[e.operand(s, 0).place + static_cast<size_t>(e.words_of(s)[0])];
}
void Evaluated::shuffle(const Evaluated& e, Running& r, const Step& s) {
  const Operand &a = e.operand(s, 0), &b = e.operand(s, 1);
  for (uint32_t lane = 0; lane < s.lanes; ++lane) {
    const auto from = static_cast<uint32_t>(e.words_of(s)[lane]);
    r.places[s.result + lane] =
        r.places[from < a.lanes ? a.place + from : b.place + from - a.lanes];
  }
}
void Evaluated::across(const Evaluated& e, Running& r, const Step& s) {
  const Operand& from = e.operand(s, 0);
  Word lanes[program::kMaxLanes];
  std::memcpy(lanes, r.places + from.place, from.lanes * sizeof(Word));
  for (uint32_t half = from.lanes / 2; half != 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) {
      const Word both[3] = {lanes[i], lanes[i + half], 0};
      lanes[i] = uop::evaluate(s.with, s.dtype, s.dtype, both);
    }
  }
  r.places[s.result] = lanes[0];
}
void Evaluated::call(const Evaluated& e, Running& r, const Step& s) {
  const Code& code = e.codes_[s.code];
  for (uint32_t i = 0; i < s.operands; ++i) {
    std::memcpy(r.places + code.arguments[i], r.places + e.operand(s, i).place,
                code.argument_lanes[i] * sizeof(Word));
  }
  e.execute(r, code.first, code.last);
  std::memcpy(r.places + s.result, r.places + code.result, s.lanes * sizeof(Word));
}

void Evaluated::access(const Evaluated& e, Running& r, const Step& s) {
  const bool loads = s.op == Op::kLoad;
  const int64_t base = e.form(r, s);
  const uint32_t value = loads ? s.result : e.operand(s, 1).place;
  const auto read = [&](uint32_t limit, uint32_t lane) {
    return r.places[e.operand(s, limit).place + lane];
  };
  const bool open = s.gate == kNowhere || read(s.gate, 0) != 0;
  const size_t size = dtype::size(s.elements.dtype);
  for (uint32_t lane = 0; lane < s.lanes; ++lane) {
    Word* const word = &r.places[value + lane];
    if (!open || lane >= s.first || (s.mask != kNowhere && read(s.mask, lane) == 0)) {
      if (loads) *word = 0;
      continue;
    }
    const auto at = static_cast<size_t>(
        base + (s.index != kNowhere ? read(s.index, lane) : s.stride * int64_t{lane}));
    if (s.elements.what == Op::kParam) {
      char* const place = static_cast<char*>(r.params[s.elements.at]) + at * size;
      if (loads) {
        *word = load_word(s.elements.dtype, place);
      } else {
        store_word(s.elements.dtype, place, *word);
      }
    } else if (s.elements.what == Op::kTable) {
      *word = e.words_[s.elements.at + at];
    } else if (loads) {
      *word = r.places[s.elements.at + at];
    } else {
      r.places[s.elements.at + at] = *word;
    }
  }
}

Word Evaluated::bound(const Running& r, const Step& loop, bool high) const {
  if ((loop.flags & (high ? program::kImmediateHigh : program::kImmediate)) != 0)
    return words_of(loop)[high ? 1 : 0];
  return r.places[operand(loop, high ? loop.operands - 1 : 0).place];
}

int64_t Evaluated::form(const Running& r, const Step& step) const {
  int64_t out = step.constant;
  for (const Product& product : std::span(products_.data() + step.product, step.products))
    out += product.factor * r.places[product.place];
  return out;
}

void Evaluated::execute(Running& r, uint32_t first, uint32_t last) const {
  // A loop goes on from its body until its index is past the end, or a task is to be run.
  const auto enters = [&](const Step& loop) {
    Word& index = r.places[loop.result];
    const Word end = bound(r, loop, true);
    for (; index < end; index += words_of(loop)[2]) {
      if (loop.kind != Kind::kTaskLoop) return true;
      const int64_t task = r.task++;
      if (task >= r.begin && task < r.end) return true;
    }
    return false;
  };
  for (uint32_t at = first; at < last; ++at) {
    const Step& step = steps_[at];
    if (step.kind == Kind::kStep) {
      step.act(*this, r, step);
    } else if (step.kind == Kind::kIf) {
      if (r.places[operand(step, 0).place] == 0) at = step.match;
    } else if (step.kind == Kind::kClose) {
      const Step& open = steps_[step.match];
      if (open.kind == Kind::kIf) continue;
      r.places[open.result] += words_of(open)[2];
      if (enters(open)) at = step.match;
    } else {
      r.places[step.result] = bound(r, step, false);
      if (!enters(step)) at = step.match;
    }
  }
}

void Evaluated::run(void* const* params, void* scratch, int64_t begin, int64_t end) const {
  Running running{params, static_cast<Word*>(scratch), begin, end};
  execute(running, codes_[0].first, codes_[0].last);
}

namespace {

// Of a step of a lane, about, where machine code takes a tenth of a nanosecond; and by strips.
constexpr double kSlower = 200, kStripsSlower = 10;

void run_evaluated(const cpu::native::Plan& plan, void* const* operands, void* scratch,
                   int64_t begin, int64_t end) {
  if (plan.strips != nullptr) return plan.strips->run(operands, nullptr, scratch, begin, end);
  plan.evaluated->run(operands, scratch, begin, end);
}

constexpr cpu::native::Implementation kInterpreted = {
    Op::kSink, "interpreted", nullptr, nullptr, nullptr, nullptr, run_evaluated};

}  // namespace

Status prepare_program(cpu::native::Plan* out, const program::Module& module) {
  Memory& memory = out->words.memory();
  const SavedError before;
  Status status = StripProgram::make(&out->strips, module, memory);
  if (status.code == ASTER_ML_UNSUPPORTED) {
    before.restore();
    status = Evaluated::make(&out->evaluated, module, memory);
  }
  ASTER_TRY(status);
  out->implementation = &kInterpreted;
  out->scratch_bytes = static_cast<int64_t>(
      out->strips != nullptr ? out->strips->scratch_bytes() : out->evaluated->scratch_bytes());
  return kOk;
}

Status prepare_kernel(cpu::native::Plan* out, uop::Graph& scratch, uop::Node kernel,
                      const codegen::Target& target) {
  codegen::Target text = target;
  text.language = codegen::Language::kProgram;
  codegen::Rendered rendered(scratch.memory());
  ASTER_TRY(codegen::render(rendered, scratch, kernel, text));
  program::Module module(scratch.memory());
  ASTER_TRY(program::read(&module, rendered.code.text.view()));
  ASTER_TRY(prepare_program(out, module));
  out->tasks = rendered.tasks;
  const bool strips = out->strips != nullptr;
  const double work = std::max(rendered.task_flops, rendered.task_bytes);
  out->nanoseconds =
      (strips ? kStripsSlower : kSlower) * work * static_cast<double>(rendered.tasks);
  return kOk;
}

}  // namespace aster::runtime::reference
