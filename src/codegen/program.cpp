// The list itself: appending in canonical form, and its digest.
#include "codegen/program.h"

#include <algorithm>

#include "base/checked.h"

namespace aster::codegen::program {
namespace {

// Values as they stand in the program, outer loops first, then axes.
bool before(const Term& a, const Term& b) { return a.axis != b.axis ? b.axis : a.at < b.at; }

}  // namespace

size_t Program::add_axis(std::string_view axis_name, int64_t size) {
  Axis axis;
  const bool fits = size > 0 && size <= static_cast<int64_t>(kMaxSteps) && !axis_name.empty() &&
                    axis_name.size() < sizeof(axis.name);
  if (!fits || axes_.size() == kMaxAxes) {
    fail(ASTER_FAIL(kARGUMENT, "an axis \"%.*s\" of %lld, behind %zu others",
                    static_cast<int>(std::min<size_t>(axis_name.size(), 16)), axis_name.data(),
                    static_cast<long long>(size), axes_.size()));
    return 0;
  }
  std::ranges::copy(axis_name, axis.name);
  axis.size = static_cast<uint16_t>(size);
  fail(axes_.push(axis));
  return axes_.empty() ? 0 : axes_.size() - 1;
}

Status Program::append_terms(Instruction* in, Terms terms) {
  bool fits = in->constant != INT64_MIN;
  in->term = static_cast<uint32_t>(terms_.size());
  ASTER_TRY(terms_.append(terms.data(), terms.size()));
  Term* const first = terms_.data() + in->term;
  std::sort(first, first + terms.size(), before);
  size_t kept = in->term;
  for (size_t i = in->term; i < terms_.size(); ++i) {
    const Term term = terms_[i];
    Term* const last = kept > in->term ? &terms_[kept - 1] : nullptr;
    if (last != nullptr && last->axis == term.axis && last->at == term.at) {
      fits &= checked_add(last->factor, term.factor, &last->factor);
    } else {
      terms_[kept++] = term;
    }
    fits &= terms_[kept - 1].factor != INT64_MIN;
  }
  if (!fits) return ASTER_FAIL(kRANGE, "a number of a form overflows");
  const auto end = std::remove_if(terms_.begin() + in->term, terms_.begin() + kept,
                                  [](const Term& term) { return term.factor == 0; });
  terms_.truncate(static_cast<size_t>(end - terms_.begin()));
  in->terms = static_cast<uint32_t>(terms_.size()) - in->term;
  return kOk;
}

bool Program::knows(std::span<const Id> operands, Terms terms) const {
  return std::ranges::all_of(operands, [&](Id id) { return id < code_.size(); }) &&
         std::ranges::all_of(terms, [&](const Term& term) {
           return term.at < (term.axis ? axes_.size() : code_.size());
         });
}

Status Program::append(Instruction in, std::span<const Id> operands, Words words, Terms terms) {
  if (!knows(operands, terms)) return ASTER_FAIL(kARGUMENT, "an operand is not of this program");
  in.operand = static_cast<uint32_t>(operands_.size());
  in.operands = static_cast<uint32_t>(operands.size());
  in.word = static_cast<uint32_t>(words_.size());
  in.words = static_cast<uint32_t>(words.size());
  ASTER_TRY(operands_.append(operands.data(), operands.size()));
  ASTER_TRY(words_.append(words.data(), words.size()));
  ASTER_TRY(append_terms(&in, terms));
  const bool stores = in.op == Op::kStore || in.op == Op::kAtomic;
  if (stores && operands.size() > 1) in.lanes = at(operands[1]).lanes;
  if (is_access(in.op) && words.empty()) {
    const Word whole[2] = {1, in.lanes};
    ASTER_TRY(words_.append(whole, 2));
    in.words = 2;
  }
  if (in.op == Op::kSet) {
    for (Id id : operands) in.axes |= at(id).axes;
  }
  return code_.push(in);
}

Id Program::add(Instruction in, std::span<const Id> operands, Words words, Terms terms) {
  if (status_.ok() && code_.size() >= UINT16_MAX) {
    status_ = ASTER_FAIL(kRANGE, "a program of more than %d instructions", UINT16_MAX);
  }
  if (status_.ok()) status_ = append(in, operands, words, terms);
  return status_.ok() ? static_cast<Id>(code_.size() - 1) : kNone;
}

Access Program::access(const Instruction& in) const {
  Access out;
  const std::span<const Id> from = operands(in);
  size_t at = 0;
  out.memory = from[at++];
  if (in.op == Op::kStore || in.op == Op::kAtomic) out.value = from[at++];
  if (in.is(kIndexed)) out.index = from[at++];
  if (in.is(kGated)) out.gate = from[at++];
  if (in.is(kMasked)) out.mask = from[at++];
  if (in.words == 2) {
    out.step = words(in)[0];
    out.first = words(in)[1];
  }
  return out;
}

AxisSet Program::operand_axes(const Instruction& in) const {
  AxisSet out = 0;
  for (Id id : operands(in)) out |= at(id).axes;
  for (const Term& term : terms(in)) out |= term.axis ? axis_bit(term.at) : at(term.at).axes;
  return out;
}

size_t Program::instances(AxisSet set) const {
  size_t out = 1;
  for (size_t i = 0; i < axes_.size(); ++i) {
    // More than the limit is enough to know.
    if (program::has(set, i)) out = std::min<size_t>(out * axes_[i].size, kMaxSteps * kMaxSteps);
  }
  return out;
}

void Mixer::instruction(const Instruction& in, std::span<const Id> operands, Words words,
                        Terms terms) {
  word(static_cast<uint64_t>(in.op) | static_cast<uint64_t>(in.with) << 8 |
       static_cast<uint64_t>(in.dtype) << 16 | static_cast<uint64_t>(in.lanes) << 24 |
       static_cast<uint64_t>(in.axis) << 32 | static_cast<uint64_t>(in.to) << 40 |
       static_cast<uint64_t>(in.kind) << 48);
  word(static_cast<uint64_t>(in.axes) | static_cast<uint64_t>(in.flags) << 16);
  word(static_cast<uint64_t>(in.constant));
  word(operands.size() | static_cast<uint64_t>(terms.size()) << 32);
  word(words.size());
  for (Id id : operands) word(id);
  for (Word one : words) word(static_cast<uint64_t>(one));
  for (const Term& term : terms) {
    word(static_cast<uint64_t>(term.factor));
    word(term.at | static_cast<uint64_t>(term.axis) << 32);
  }
}

Digest Program::digest() const {
  Mixer mix;
  mix.word(function ? 1 : 0);
  mix.word(axes_.size());
  for (const Axis& axis : axes_) {
    for (const char c : axis.name) mix.word(static_cast<uint8_t>(c));
    mix.word(axis.size);
  }
  for (const Instruction& in : code_) mix.instruction(in, operands(in), words(in), terms(in));
  return mix.get();
}

bool is_block(Op op) { return op == Op::kLoop || op == Op::kEach || op == Op::kIf; }

bool sets_axes(Op op) {
  return op == Op::kAxis || op == Op::kJoin || op == Op::kTurn || op == Op::kZip;
}

Id inner_tasks(const Program& program, Id loop) {
  int depth = 0;
  for (Id i = loop + 1; i < program.code().size() && depth >= 0; ++i) {
    const Instruction& in = program.at(i);
    if (in.op == Op::kLoop && in.kind == static_cast<uint8_t>(LoopKind::kTask)) return i;
    depth += is_block(in.op) ? 1 : in.op == Op::kEnd ? -1 : 0;
  }
  return kNone;
}

bool is_memory(const Instruction& in) {
  return in.op == Op::kTable || in.op == Op::kArray ||
         (in.op == Op::kParam && !in.is(kSize) && !in.is(kArgument));
}

int64_t array_bytes(const Program& program, const Instruction& in) {
  const int64_t elements = in.constant + program.words(in)[0];
  return (elements * static_cast<int64_t>(dtype::size(in.dtype)) + 63) / 64 * 64;
}

int64_t scratch_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const Instruction& in : program.code()) {
    if (in.op == Op::kArray && static_cast<Space>(in.kind) == Space::kScratch)
      bytes += array_bytes(program, in);
  }
  return bytes;
}

bool is_access(Op op) {
  return op == Op::kLoad || op == Op::kStore || op == Op::kAtomic || op == Op::kPrefetch;
}

}  // namespace aster::codegen::program
