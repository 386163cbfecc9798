#include "codegen/sizes.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace aster::codegen {

using namespace program;

namespace {

// Sizes are in [-kMostSize, kMostSize], so that sums of products of two do not overflow.
constexpr int64_t kMostSize = int64_t{1} << 30;
constexpr Word kMostBits = INT64_MAX - 1;
// Patterns kept of a skeleton, and words of all patterns, before they are forgotten.
constexpr size_t kMostPatterns = 16;
constexpr uint64_t kMostWords = uint64_t{1} << 20;
// Kernels that are remembered.
constexpr size_t kMostMet = 8192;

// A constant that is written where it is used.
bool is_number(const Instruction& in) {
  return in.op == Op::kConst && in.dtype != dtype::DType::kBool;
}
bool is_loop_from_zero(const Program& program, const Instruction& in) {
  return in.op == Op::kLoop && in.is(kImmediate) && in.is(kImmediateHigh) &&
         program.words(in)[0] == 0;
}
int64_t rounds(Words loop) { return loop[1] <= 0 ? 0 : (loop[1] - 1) / loop[2] + 1; }

// Vectors are divided by what is known alone: C makes multiplications of that.
bool divides_lanes(const Instruction& in) {
  return (in.op == Op::kQuo || in.op == Op::kRem) && in.lanes > 1;
}
// Which values divide lanes.
Status find_divisors(Vec<uint8_t>* out, const Program& program) {
  ASTER_TRY(out->resize(program.code().size(), uint8_t{0}));
  for (const Instruction& in : program.code()) {
    if (divides_lanes(in)) (*out)[program.operands(in)[1]] = 1;
  }
  return kOk;
}

bool is_index(NumberKind kind) { return kind <= NumberKind::kChunk; }
bool is_of_tasks(NumberKind kind) { return is_index(kind) && kind != NumberKind::kIndex; }

// What the numbers of an instruction are that reckons with the number of a task, else kIndex.
NumberKind task_kind(const Program& program, const Instruction& in) {
  const auto is_task = [&](Id id) {
    const Instruction& at = program.at(id);
    return at.op == Op::kLoop && at.kind == static_cast<uint8_t>(LoopKind::kTask);
  };
  if (in.operands != 2 || in.dtype == DType::kNone) return NumberKind::kIndex;
  const Id first = program.operands(in)[0];
  if (is_task(first)) return in.op == Op::kCmpEq ? NumberKind::kLast : NumberKind::kChunk;
  const Instruction& begin = program.at(first);
  const bool behind = in.op == Op::kAdd && begin.op == Op::kMul && begin.operands == 2 &&
                      is_task(program.operands(begin)[0]);
  return behind ? NumberKind::kChunk : NumberKind::kIndex;
}

NumberKind kind_of(DType dtype) {
  if (dtype == DType::kFloat32) return NumberKind::kFloat;
  if (dtype == DType::kFloat64) return NumberKind::kDouble;
  return dtype::is_float(dtype) ? NumberKind::kFixed : NumberKind::kIndex;
}

// Calls visit(kind, word) for every number of an instruction, in the order of numbers. divides:
// whether the instruction is a divisor, or divides.
template <typename Visit>
void each_number(const Program& program, const Instruction& in, bool divides, Visit visit) {
  const Words words = program.words(in);
  const NumberKind task = task_kind(program, in);
  const auto divisor = [&](const Instruction& user, Id id) {
    return (user.op == Op::kQuo || user.op == Op::kRem) && program.operands(user)[1] == id;
  };
  for (Id id : program.operands(in)) {
    const Instruction& operand = program.at(id);
    if (!is_number(operand)) continue;
    NumberKind kind = divides ? NumberKind::kFixed : kind_of(operand.dtype);
    if (kind == NumberKind::kIndex) kind = divisor(in, id) ? NumberKind::kStep : task;
    visit(kind, program.words(operand)[0]);
  }
  if (is_loop_from_zero(program, in)) {
    const bool tasks = in.kind == static_cast<uint8_t>(LoopKind::kTask) && words[2] == 1;
    visit(tasks ? NumberKind::kTasks : NumberKind::kIndex, words[1]);
    visit(NumberKind::kStep, words[2]);
    visit(NumberKind::kDerived, rounds(words));
  } else if (in.op == Op::kLoop) {
    if (in.is(kImmediate)) visit(NumberKind::kIndex, words[0]);
    if (in.is(kImmediateHigh)) visit(NumberKind::kIndex, words[1]);
  } else if (is_access(in.op)) {
    for (const Term& term : program.terms(in)) visit(NumberKind::kIndex, term.factor);
    visit(NumberKind::kIndex, in.constant);
  } else if (in.op == Op::kParam) {
    visit(NumberKind::kDerived, in.constant);
  }
}

// All of an instruction but its numbers. places: of values among those that are no numbers.
void mix_skeleton(Mixer* mix, const Program& program, const Instruction& in,
                  const Vec<uint32_t>& places) {
  const bool from_zero = is_loop_from_zero(program, in);
  mix->word(static_cast<uint64_t>(in.op) | static_cast<uint64_t>(in.with) << 8 |
            static_cast<uint64_t>(in.dtype) << 16 | static_cast<uint64_t>(in.lanes) << 24 |
            static_cast<uint64_t>(in.axis) << 32 | static_cast<uint64_t>(in.to) << 40 |
            static_cast<uint64_t>(in.kind) << 48 | static_cast<uint64_t>(from_zero) << 56);
  mix->word(static_cast<uint64_t>(in.axes) | static_cast<uint64_t>(in.flags) << 16);
  mix->word(in.operands | static_cast<uint64_t>(in.terms) << 32);
  for (Id id : program.operands(in)) {
    const Instruction& operand = program.at(id);
    const bool number = is_number(operand);
    mix->word(number ? uint64_t{1} << 32 | static_cast<uint64_t>(operand.dtype) : places[id]);
  }
  for (const Term& term : program.terms(in)) {
    mix->word((term.axis ? term.at : places[term.at]) | static_cast<uint64_t>(term.axis) << 32);
  }
  const Words words = program.words(in);
  if (in.op == Op::kLoop) {
    if (!from_zero) mix->word(static_cast<uint64_t>(words[2]));
  } else {
    for (Word word : words) mix->word(static_cast<uint64_t>(word));
  }
  if (in.op == Op::kArray) mix->word(static_cast<uint64_t>(in.constant));
}

}  // namespace

Status take_apart(Numbers* out, const Program& program, Memory& memory) {
  Vec<uint32_t> places(memory);
  Vec<uint8_t> divisors(memory);
  ASTER_TRY(places.resize(program.code().size(), 0u));
  ASTER_TRY(find_divisors(&divisors, program));
  Mixer mix;
  mix.word(program.axes().size());
  for (const Axis& axis : program.axes()) mix.word(axis.size);
  uint32_t place = 0;
  for (size_t i = 0; i < program.code().size(); ++i) {
    const Instruction& in = program.code()[i];
    if (is_number(in)) continue;
    places[i] = place++;
    mix_skeleton(&mix, program, in, places);
    Status status;
    const bool divides = divisors[i] != 0 || divides_lanes(in);
    each_number(program, in, divides, [&](NumberKind kind, Word word) {
      if (kind == NumberKind::kFixed) mix.word(static_cast<uint64_t>(word));
      if (status.ok()) status = out->kinds.push(kind);
      if (status.ok()) status = out->words.push(word);
    });
    ASTER_TRY(status);
  }
  out->skeleton = mix.get();
  return kOk;
}

namespace {

// Writes the program of a pattern.
class Generaliser {
 public:
  Generaliser(Program* out, Pattern* pattern, const Program& from, const Numbers& numbers,
              Memory& memory)
      : out_(*out),
        from_(from),
        numbers_(numbers),
        pattern_(*pattern),
        ids_(memory),
        products_(memory),
        constants_(memory),
        groups_(memory),
        written_(memory) {}

  Status run() {
    pattern_.arguments.clear();
    for (const Axis& axis : from_.axes()) out_.add_axis(axis.name, axis.size);
    ASTER_TRY(groups_.resize(pattern_.first.size() + 1, kNone));
    ASTER_TRY(ids_.resize(numbers_.words.size(), kNone));
    ASTER_TRY(written_.resize(from_.code().size(), kNone));
    size_t at = 0;
    for (const Instruction& in : from_.code()) {
      if (!is_number(in)) ASTER_TRY(declare(in, &at));
    }
    for (Product& product : products_) {
      if (!product.axis) continue;
      const auto axis = static_cast<uint8_t>(product.at);
      const Id value = out_.add(
          {.op = Op::kAxis, .dtype = DType::kInt64, .axis = axis, .axes = axis_bit(product.at)});
      product.id = multiply(value, product.size);
    }
    at = 0;
    for (Id id = 0; id < from_.code().size(); ++id) {
      if (!is_number(from_.at(id))) ASTER_TRY(write(id, &at));
    }
    return out_.status();
  }

 private:
  // A value times a size.
  struct Product {
    uint32_t at;
    bool axis;
    Id size, id;
  };
  struct Constant {
    DType dtype;
    uint16_t group;
    Word word;
    Id id;
  };

  Id new_size(size_t number, NumberKind kind) {
    const bool small = is_index(kind) || kind == NumberKind::kStep;
    const Word most = small ? kMostSize : kMostBits;
    const Word least = kind == NumberKind::kStep ? 1 : -most;
    const auto slot = static_cast<Word>(pattern_.arguments.size());
    out_.fail(pattern_.arguments.push(static_cast<uint32_t>(number)));
    return out_.add({.op = Op::kParam, .dtype = DType::kInt64, .flags = kSize}, {},
                    std::array{slot, least, most, Word{1}});
  }
  // The size of a number, kNone where all have the same.
  Id size_of(size_t number) {
    const uint16_t group = pattern_.groups[number];
    if (group == 0) return kNone;
    Id& id = groups_[group];
    if (id == kNone) id = new_size(number, numbers_.kinds[number]);
    return id;
  }
  Id constant(size_t number, DType dtype) {
    const uint16_t group = pattern_.groups[number];
    const Word word = group == 0 ? numbers_.words[number] : 0;
    for (const Constant& one : constants_) {
      if (one.dtype == dtype && one.group == group && one.word == word) return one.id;
    }
    Id id = size_of(number);
    if (id == kNone) {
      id = out_.add({.op = Op::kConst, .dtype = dtype}, {}, std::array{word});
    } else if (dtype::is_float(dtype)) {
      if (dtype == DType::kFloat32)
        id = out_.add({.op = Op::kCast, .dtype = DType::kInt32}, std::array{id});
      id = out_.add({.op = Op::kBitcast, .dtype = dtype}, std::array{id});
    } else if (dtype != DType::kInt64) {
      id = out_.add({.op = Op::kCast, .dtype = dtype}, std::array{id});
    }
    out_.fail(constants_.push({dtype, group, word, id}));
    return id;
  }
  Id multiply(Id value, Id size) {
    const AxisSet axes = out_.at(value).axes;
    if (out_.at(value).dtype != DType::kInt64)
      value = out_.add({.op = Op::kCast, .dtype = DType::kInt64, .axes = axes}, std::array{value});
    return out_.add({.op = Op::kMul, .dtype = DType::kInt64, .axes = axes},
                    std::array{value, size});
  }

  // Sizes and constants of an instruction, which stand before all else.
  Status declare(const Instruction& in, size_t* at) {
    for (Id id : from_.operands(in)) {
      const Instruction& operand = from_.at(id);
      if (is_number(operand)) ids_[*at] = constant(*at, operand.dtype), ++*at;
    }
    if (is_access(in.op)) {
      for (const Term& term : from_.terms(in)) {
        const Id size = ids_[*at] = size_of(*at);
        ++*at;
        if (size != kNone && find(term, size) == nullptr)
          ASTER_TRY(products_.push({term.at, term.axis, size, kNone}));
      }
      ids_[*at] = size_of(*at);
      ++*at;
    } else if (is_loop_from_zero(from_, in)) {
      ids_[*at] = size_of(*at);
      const Id step = ids_[*at + 1] = size_of(*at + 1);
      if (step != kNone) ids_[*at + 2] = new_size(*at + 2, NumberKind::kIndex);
      *at += 3;
    } else if (in.op == Op::kLoop) {
      if (in.is(kImmediate)) ids_[*at] = size_of(*at), ++*at;
      if (in.is(kImmediateHigh)) ids_[*at] = size_of(*at), ++*at;
    } else if (in.op == Op::kParam) {
      ids_[*at] = new_size(*at, NumberKind::kDerived);
      ++*at;
    }
    return out_.status();
  }
  const Product* find(const Term& term, Id size) const {
    for (const Product& one : products_) {
      if (one.at == term.at && one.axis == term.axis && one.size == size) return &one;
    }
    return nullptr;
  }

  Status write(Id id, size_t* at) {
    Instruction in = from_.at(id);
    Id operands[kMostOperands];
    size_t count = 0;
    for (Id operand : from_.operands(in)) {
      if (count == kMostOperands) return ASTER_FAIL(kRANGE, "an instruction of many operands");
      operands[count++] = is_number(from_.at(operand)) ? ids_[(*at)++] : written_[operand];
    }
    if (in.op == Op::kLoop) {
      write_loop(id, in, operands, count, at);
    } else {
      Vec<Term> terms(out_.memory());
      ASTER_TRY(write_terms(&terms, &in, at));
      written_[id] = out_.add(in, {operands, count}, from_.words(in), {terms.data(), terms.size()});
    }
    for (Product& product : products_) {
      if (!product.axis && product.at == id && out_.status().ok())
        product.id = multiply(written_[id], product.size);
    }
    return out_.status();
  }
  void write_loop(Id id, Instruction in, Id* operands, size_t count, size_t* at) {
    Word words[3] = {from_.words(in)[0], from_.words(in)[1], from_.words(in)[2]};
    const auto end = [&](bool high, Id size) {
      if (size == kNone) return;
      in.flags = static_cast<uint16_t>(in.flags & ~(high ? kImmediateHigh : kImmediate));
      words[high ? 1 : 0] = 0;
      if (!high && count == 1) operands[1] = operands[0];
      operands[high ? count : 0] = size;
      ++count;
    };
    Id step = kNone;
    if (is_loop_from_zero(from_, from_.at(id))) {
      step = ids_[*at + 1];
      if (step != kNone) words[2] = 1;
      end(true, step == kNone ? ids_[*at] : ids_[*at + 2]);
      *at += 3;
    } else {
      const bool low = in.is(kImmediate), high = in.is(kImmediateHigh);
      if (low) end(false, ids_[(*at)++]);
      if (high) end(true, ids_[(*at)++]);
    }
    const Id loop = written_[id] = out_.add(in, {operands, count}, words);
    if (step != kNone && loop != kNone) written_[id] = multiply(loop, step);
  }
  Status write_terms(Vec<Term>* out, Instruction* in, size_t* at) {
    if (in->op == Op::kParam) {
      in->constant = 0;
      return out->push({1, ids_[(*at)++], false});
    }
    if (!is_access(in->op)) return kOk;
    for (const Term& term : from_.terms(*in)) {
      const Id size = ids_[(*at)++];
      if (size != kNone) {
        ASTER_TRY(out->push({1, find(term, size)->id, false}));
      } else {
        ASTER_TRY(out->push({term.factor, term.axis ? term.at : written_[term.at], term.axis}));
      }
    }
    const Id size = ids_[(*at)++];
    if (size == kNone) return kOk;
    in->constant = 0;
    return out->push({1, size, false});
  }

  static constexpr size_t kMostOperands = 16;
  Program& out_;
  const Program& from_;
  const Numbers& numbers_;
  Pattern& pattern_;
  Vec<Id> ids_;  // by number: its size or constant
  Vec<Product> products_;
  Vec<Constant> constants_;
  Vec<Id> groups_;   // by group: its size
  Vec<Id> written_;  // by instruction
};

// ---- Patterns ----

// Whether a program is one of a pattern.
bool fits(const Pattern& pattern, const Numbers& numbers) {
  for (size_t i = 0; i < numbers.words.size(); ++i) {
    if (numbers.kinds[i] == NumberKind::kDerived) continue;
    const uint16_t group = pattern.groups[i];
    const Word word = numbers.words[i];
    if (word != (group == 0 ? pattern.words[i] : numbers.words[pattern.first[group - 1u]]))
      return false;
    if (group != 0 && !may_vary(numbers.kinds[i], word)) return false;
  }
  return true;
}

// What a pattern and a program have in common; *possible: whether what differs may be a size.
Status merge(Pattern* out, bool* possible, const Pattern& pattern, const Numbers& numbers) {
  struct Key {
    NumberKind kind;
    uint16_t group;
    Word before, now;
    bool operator==(const Key&) const = default;
  };
  Vec<Key> keys(out->words.memory());
  ASTER_TRY(out->words.append(numbers.words.data(), numbers.words.size()));
  ASTER_TRY(out->groups.resize(numbers.words.size(), uint16_t{0}));
  *possible = true;
  for (size_t i = 0; i < numbers.words.size(); ++i) {
    const NumberKind kind = numbers.kinds[i];
    const uint16_t group = pattern.groups[i];
    const Word before = group == 0 ? pattern.words[i] : 0, now = numbers.words[i];
    const bool same = group == 0 && before == now && !is_of_tasks(kind);
    if (same || kind == NumberKind::kDerived) continue;
    *possible &= may_vary(kind, now) && (group != 0 || may_vary(kind, before));
    const Key key{kind, group, before, now};
    const size_t at = static_cast<size_t>(std::ranges::find(keys, key) - keys.begin());
    if (at == keys.size()) {
      ASTER_TRY(keys.push(key));
      ASTER_TRY(out->first.push(static_cast<uint32_t>(i)));
    }
    out->groups[i] = static_cast<uint16_t>(at + 1);
  }
  *possible &= keys.size() < UINT16_MAX;
  return kOk;
}

}  // namespace

bool may_vary(NumberKind kind, Word word) {
  if (kind == NumberKind::kFixed) return false;
  if (kind == NumberKind::kStep) return word >= 1 && word <= kMostSize;
  return !is_index(kind) || (word >= -kMostSize && word <= kMostSize);
}

Status generalise(Program* out, Pattern* pattern, const Program& program, const Numbers& numbers,
                  Memory& memory) {
  return Generaliser(out, pattern, program, numbers, memory).run();
}

Status append_sizes(Vec<int64_t>* out, const Numbers& numbers, const Pattern& pattern) {
  for (const uint32_t number : pattern.arguments) {
    const Word word = numbers.words[number];
    const bool real = numbers.kinds[number] == NumberKind::kFloat;
    ASTER_TRY(out->push(
        real ? std::bit_cast<int32_t>(static_cast<float>(std::bit_cast<double>(word))) : word));
  }
  return kOk;
}

Status SizeClasses::recall(Rendered* out, bool* met, const Digest& kernel) const {
  const Met* one = met_.find(kernel);
  *met = one != nullptr && is_at_hand(one->name);
  if (!*met) return kOk;
  std::memcpy(out->name, one->name, sizeof(out->name));
  std::memcpy(out->title, one->title, sizeof(out->title));
  out->tasks = one->tasks;
  out->task_flops = one->task_flops;
  out->task_bytes = one->task_bytes;
  out->code.scratch_bytes = one->scratch_bytes;
  out->at_hand = true;
  return out->sizes.append(met_sizes_.data() + one->first_size, one->size_count);
}

Status SizeClasses::remember(const Digest& kernel, const Rendered& one) {
  if (met_.size() == kMostMet) {
    met_.clear();
    met_sizes_.clear();
  }
  Met met{{}, {}, one.tasks, one.task_flops, one.task_bytes, one.code.scratch_bytes, 0, 0};
  std::memcpy(met.name, one.name, sizeof(met.name));
  std::memcpy(met.title, one.title, sizeof(met.title));
  met.first_size = static_cast<uint32_t>(met_sizes_.size());
  met.size_count = static_cast<uint32_t>(one.sizes.size());
  ASTER_TRY(met_sizes_.append(one.sizes.data(), one.sizes.size()));
  return met_.set(kernel, met);
}

Status SizeClasses::class_of(Class** out, const Numbers& numbers, const Module& module) {
  Mixer mix;
  mix.word(numbers.skeleton.low);
  mix.word(numbers.skeleton.high);
  for (const Program& one : module.programs) {
    if (one.function) mix.text(one.name);
  }
  const Digest key = mix.get();
  if (words_ > kMostWords) {
    numbers_.clear();
    classes_.clear();
    words_ = 0;
  }
  uint32_t number = numbers_.get(key, UINT32_MAX);
  if (number == UINT32_MAX) {
    number = static_cast<uint32_t>(classes_.size());
    ASTER_TRY(classes_.push(Class(memory_)));
    ASTER_TRY(numbers_.set(key, number));
  }
  *out = &classes_[number];
  return kOk;
}

// In the place of another where there are many.
Status SizeClasses::add(Class* of, Pattern&& pattern, Pattern* other) {
  pattern.call = call_;
  if (of->patterns.size() == kMostPatterns) {
    if (other != nullptr) *other = std::move(pattern);
    return kOk;
  }
  words_ += pattern.words.size();
  return of->patterns.push(std::move(pattern));
}

// The pattern of a program that none fits: with one of them, and as few sizes as can be.
Status SizeClasses::widen(Pattern* out, Pattern** with, Class* of, const Numbers& numbers) {
  for (Pattern& one : of->patterns) {
    if (one.first.empty() && one.call == call_) continue;
    Pattern wider(memory_);
    bool possible = false;
    ASTER_TRY(merge(&wider, &possible, one, numbers));
    if (!possible || (*with != nullptr && wider.first.size() > out->first.size())) continue;
    *out = std::move(wider);
    *with = &one;
  }
  return kOk;
}

Status SizeClasses::choose(Module* module, Rendered* out) {
  Memory& scratch = out->sizes.memory();
  Numbers numbers(scratch);
  ASTER_TRY(take_apart(&numbers, module->programs.back(), scratch));
  Class* of = nullptr;
  ASTER_TRY(class_of(&of, numbers, *module));
  Pattern* best = nullptr;
  for (Pattern& one : of->patterns) {
    if (fits(one, numbers) && (best == nullptr || one.first.size() < best->first.size()))
      best = &one;
  }
  Pattern wider(memory_);
  if (best != nullptr) {
    if (best->first.empty()) return kOk;
    return replace(module, out, numbers, best, nullptr);
  }
  ASTER_TRY(widen(&wider, &best, of, numbers));
  if (best == nullptr) {
    ASTER_TRY(wider.words.append(numbers.words.data(), numbers.words.size()));
    ASTER_TRY(wider.groups.resize(numbers.words.size(), uint16_t{0}));
    return add(of, std::move(wider), nullptr);
  }
  bool holds = false;
  ASTER_TRY(replace(module, out, numbers, &wider, &holds));
  return holds ? add(of, std::move(wider), best) : kOk;
}

namespace {

// Of all that a program computes.
void name_program(char (&name)[kMaxName], const Module& module) {
  Mixer mix;
  for (const Program& one : module.programs) {
    const Digest digest = one.digest();
    mix.word(digest.low);
    mix.word(digest.high);
  }
  const Digest digest = mix.get();
  std::snprintf(name, sizeof(name), "s_%016llx%016llx",
                static_cast<unsigned long long>(digest.high),
                static_cast<unsigned long long>(digest.low));
}

}  // namespace

// holds: null for a pattern that has a program, or to be told whether the verifier lets the new one
// pass; all stays as it is where not.
Status SizeClasses::replace(Module* module, Rendered* out, const Numbers& numbers, Pattern* pattern,
                            bool* holds) const {
  Memory& scratch = out->sizes.memory();
  Program& program = module->programs.back();
  out->at_hand = holds == nullptr && is_at_hand(pattern->name);
  if (!out->at_hand) {
    Program general(scratch);
    ASTER_TRY(generalise(&general, pattern, program, numbers, scratch));
    std::swap(program, general);
    if (holds != nullptr) {
      const SavedError before;
      const Status status = verify(*module, {.vouched = true});
      *holds = status.ok();
      if (!*holds) {
        if (status.code != static_cast<int32_t>(Code::kARGUMENT)) return status;
        before.restore();
        std::swap(program, general);
        return kOk;
      }
    }
    name_program(pattern->name, *module);
    std::memcpy(program.name, pattern->name, sizeof(program.name));
  }
  std::memcpy(out->name, pattern->name, sizeof(out->name));
  return append_sizes(&out->sizes, numbers, *pattern);
}

}  // namespace aster::codegen
