// Rules about memory: what is proved of an access from the bounds of its form.
#include <algorithm>

#include "base/checked.h"
#include "codegen/verify.h"

namespace aster::codegen::program {
namespace {

using uop::known;
using uop::kUnknown;

constexpr size_t kMostTerms = 32;   // of a form whose ends are sought
constexpr size_t kMostGroups = 64;  // of stores that are compared with each other

Interval shifted(Interval x, int64_t by) { return uop::sum(x, {by, by}); }
Interval hull(Interval a, Interval b) {
  return known(a) && known(b) ? Interval{std::min(a.lo, b.lo), std::max(a.hi, b.hi)} : kUnknown;
}
bool disjoint(Interval a, Interval b) {
  return known(a) && known(b) && (a.hi < b.lo || b.hi < a.lo);
}
uint64_t distance(Interval x) { return static_cast<uint64_t>(x.hi) - static_cast<uint64_t>(x.lo); }
uint64_t magnitude(int64_t x) { return static_cast<uint64_t>(x < 0 ? -x : x); }

// A form in the making: terms of values that loops are replaced in.
struct Sum {
  Term terms[kMostTerms];
  size_t count = 0;
  int64_t constant = 0;
  bool ok = true;

  void add(int64_t factor, uint32_t at) {
    for (size_t i = 0; i < count; ++i) {
      if (terms[i].at == at) {
        ok &= checked_add(terms[i].factor, factor, &terms[i].factor);
        return;
      }
    }
    ok &= count < kMostTerms;
    if (ok) terms[count++] = {factor, at, false};
  }
  void add(int64_t factor, Interval value, bool upper) {
    int64_t product = 0;
    ok &=
        known(value) && checked_mul(factor, (factor > 0) == upper ? value.hi : value.lo, &product);
    ok &= checked_add(constant, product, &constant);
  }
  // The term of the value that stands last, which may be in others.
  Term take_last() {
    size_t last = 0;
    for (size_t i = 1; i < count; ++i) last = terms[i].at > terms[last].at ? i : last;
    const Term out = terms[last];
    terms[last] = terms[--count];
    return out;
  }
};

}  // namespace

void MemoryRules::Dimensions::push(uint64_t stride, uint64_t values, bool keeps_apart) {
  if (values <= 1) return;
  known &= count < kMost;
  if (known) at[count++] = {stride, values, keeps_apart};
}

// Mixed radix: each number of values of what is kept apart is a digit of the address.
bool MemoryRules::Dimensions::separate() {
  if (!known) return false;
  std::sort(at, at + count, [](const Dimension& a, const Dimension& b) {
    return a.stride != b.stride ? a.stride < b.stride : a.apart < b.apart;
  });
  uint64_t span = 1;
  bool digits_below = false;
  for (size_t i = 0; i < count; ++i) {
    const Dimension& d = at[i];
    if (d.stride < span && (d.apart || digits_below)) return false;
    uint64_t reach = 0;
    if (!checked_mul(d.stride, d.count - 1, &reach) || !checked_add(span, reach, &span))
      return false;
    digits_below |= d.apart;
  }
  return true;
}

Interval MemoryRules::bounds_of(Terms terms, int64_t constant) const {
  Interval out{constant, constant};
  for (const Term& term : terms) {
    const Interval value =
        term.axis ? Interval{0, program_.axes()[term.at].size - 1} : facts_[term.at].bounds;
    if (!known(value)) return kUnknown;
    out = uop::sum(out, uop::scaled(value, term.factor));
    if (!known(out)) return kUnknown;
  }
  return out;
}

// Elements from the form's own to those of the lanes.
Interval MemoryRules::lanes_of(const Instruction& in, const Access& access) const {
  if (access.index != kNone) return facts_[access.index].bounds;
  if (in.op == Op::kPrefetch) return {0, 0};
  return hull({0, 0}, uop::scaled({access.first - 1, access.first - 1}, access.step));
}

// Whether the least or the greatest value of a form is inside [0, elements). Loops are replaced by
// the ends of their indices, inner ones first, so that a symbolic size meets itself.
bool MemoryRules::proved_end(Terms terms, int64_t constant, Terms elements, bool upper) const {
  Sum sum;
  sum.constant = constant;
  for (const Term& term : terms) {
    if (term.axis) {
      sum.add(term.factor, {0, program_.axes()[term.at].size - 1}, upper);
    } else {
      sum.add(term.factor, term.at);
    }
  }
  for (const Term& term : upper ? elements : Terms{}) sum.add(-term.factor, term.at);
  while (sum.ok && sum.count != 0) {
    const Term term = sum.take_last();
    const Instruction& in = program_.at(term.at);
    const bool high = (term.factor > 0) == upper;
    const Flag immediate = high ? kImmediateHigh : kImmediate;
    if (term.factor == 0) continue;
    if (in.op != Op::kLoop || in.is(immediate)) {
      sum.add(term.factor, facts_[term.at].bounds, upper);
      continue;
    }
    const Id end = high ? program_.operands(in).back() : program_.operands(in)[0];
    int64_t less = 0;
    sum.ok &= checked_mul(term.factor, high ? int64_t{-1} : int64_t{0}, &less);
    // Steps that divide the size, from a start that they divide, end a whole step before it.
    const Instruction& size = program_.at(end);
    const int64_t step = program_.words(in)[2];
    const bool divides = high && size.op == Op::kParam && size.is(kSize) && in.is(kImmediate) &&
                         program_.words(size)[3] % step == 0 && program_.words(in)[0] % step == 0;
    if (divides) sum.ok &= checked_mul(term.factor, -step, &less);
    sum.ok &= checked_add(sum.constant, less, &sum.constant);
    sum.add(term.factor, end);
  }
  return sum.ok && (upper ? sum.constant < 0 : sum.constant >= 0);
}

bool MemoryRules::proved(const Instruction& in, const Access& access,
                         const Instruction& memory) const {
  const Interval lanes = lanes_of(in, access);
  int64_t least = 0, most = 0, slack = 0;
  if (memory.op == Op::kArray && in.op == Op::kLoad) slack = program_.words(memory)[0];
  int64_t room = memory.op == Op::kTable ? static_cast<int64_t>(memory.words) : memory.constant;
  if (!known(lanes) || !checked_add(in.constant, lanes.lo, &least) ||
      !checked_add(in.constant, lanes.hi, &most) || !checked_add(room, slack, &room) ||
      !checked_sub(most, room, &most)) {
    return false;
  }
  const Terms terms = program_.terms(in);
  return proved_end(terms, least, {}, false) &&
         proved_end(terms, most, program_.terms(memory), true);
}

const char* MemoryRules::inside(const Instruction& in, const Access& access,
                                const Surroundings& around) {
  const Instruction& memory = program_.at(access.memory);
  if (in.op == Op::kPrefetch || proved(in, access, memory)) return nullptr;
  ++unproved_;
  const bool limited = around.conditional || access.gate != kNone || access.mask != kNone;
  const Interval elements = bounds_of(program_.terms(memory), memory.constant);
  const Interval all = uop::sum(bounds_of(program_.terms(in), in.constant), lanes_of(in, access));
  if (limited || !known(elements) || !known(all)) return nullptr;
  int64_t room = memory.op == Op::kTable ? static_cast<int64_t>(memory.words) : elements.hi;
  if (memory.op == Op::kArray && in.op == Op::kLoad &&
      !checked_add(room, program_.words(memory)[0], &room)) {
    return nullptr;
  }
  bool exact = access.index == kNone;
  for (const Term& term : program_.terms(in)) exact &= term.axis || facts_[term.at].exact;
  const bool never = all.hi < 0 || all.lo >= room;
  const bool sometimes = exact && (all.lo < 0 || all.hi >= room);
  return never || sometimes ? "its elements inside the memory" : nullptr;
}

// At most so many values of a loop's index.
uint64_t MemoryRules::loop_values(Id loop) const {
  const Interval bounds = facts_[loop].bounds;
  if (!known(bounds)) return UINT64_MAX;
  const uint64_t step = static_cast<uint64_t>(program_.words(program_.at(loop))[2]);
  return distance(bounds) / step + 1;
}

void MemoryRules::add_terms(Dimensions* out, Id id, std::span<const OpenLoop> loops,
                            bool axes_apart) const {
  for (const Term& term : program_.terms(program_.at(id))) {
    if (term.axis) {
      out->push(magnitude(term.factor), program_.axes()[term.at].size, axes_apart);
      continue;
    }
    const Instruction& value = program_.at(term.at);
    const bool apart = std::ranges::find(loops, term.at, &OpenLoop::id) != loops.end();
    if (value.op == Op::kLoop && value.is(kImmediate)) {
      uint64_t stride = magnitude(term.factor);
      out->known &= checked_mul(stride, static_cast<uint64_t>(program_.words(value)[2]), &stride);
      out->push(stride, loop_values(term.at), apart);
    } else {
      // Any value between its bounds; of one that tasks have different values of, nothing is known.
      const Interval range = uop::scaled(facts_[term.at].bounds, term.factor);
      out->known &=
          !apart && known(range) && (value.op == Op::kLoop || facts_[term.at].parallel == 0);
      out->push(1, distance(range) + 1, false);
    }
  }
}

// A parallel loop that no part of a store depends on lets all its iterations write one element.
const char* MemoryRules::between_tasks(const Instruction& in, const Access& access,
                                       const Surroundings& around) {
  if (around.conditional || access.gate != kNone || access.mask != kNone) return nullptr;
  uint64_t told = access.index != kNone ? facts_[access.index].parallel : 0;
  for (const Term& term : program_.terms(in)) told |= term.axis ? 0 : facts_[term.at].parallel;
  for (const OpenLoop& loop : around.loops) {
    const bool silent = loop.parallel && (told & loop.bit) == 0;
    if (silent && loop_values(loop.id) > 1) return "elements of its own for each task";
  }
  return nullptr;
}

// Whether a form has a loop's index as a term.
bool MemoryRules::names(Id id, Id loop) const {
  return std::ranges::any_of(program_.terms(program_.at(id)),
                             [&](const Term& term) { return !term.axis && term.at == loop; });
}

// Whether a value is a product with a loop's index.
bool MemoryRules::multiplies(Id id, Id loop) const {
  const Instruction& in = program_.at(id);
  return in.op == Op::kMul && std::ranges::any_of(program_.operands(in), [&](Id factor) {
           return factor == loop || multiplies(factor, loop);
         });
}

bool MemoryRules::same_form(Id a, Id b, bool constants) const {
  const Instruction &x = program_.at(a), &y = program_.at(b);
  return std::ranges::equal(program_.terms(x), program_.terms(y)) &&
         (!constants || x.constant == y.constant);
}

Status MemoryRules::stores_apart(Id id, const Surroundings& around, const char** fault) {
  const Instruction& in = program_.at(id);
  const Access access = program_.access(in);
  const bool any = std::ranges::any_of(around.loops, &OpenLoop::parallel);
  if (!any || in.op == Op::kAtomic) return kOk;
  if ((*fault = between_tasks(in, access, around)) != nullptr) return kOk;
  Group own{access.memory, id, shifted(lanes_of(in, access), in.constant), kUnknown, true};
  own.whole = uop::sum(own.rest, bounds_of(program_.terms(in), 0));
  Group* group = nullptr;
  bool proved = access.index == kNone && known(own.rest);
  size_t others = 0;
  for (Group& other : groups_) {
    if (other.memory != access.memory) continue;
    if (same_form(other.store, id, false)) {
      group = &other;
    } else {
      proved &= ++others < kMostGroups && disjoint(own.whole, other.whole);
    }
  }
  if (group == nullptr) {
    ASTER_TRY(groups_.push(own));
    group = &groups_.back();
  } else {
    group->rest = hull(group->rest, own.rest);
    group->whole = hull(group->whole, own.whole);
    group->single = false;
  }
  OpenLoop parallel[Dimensions::kMost];
  size_t count = 0;
  for (const OpenLoop& loop : around.loops) {
    if (!loop.parallel || loop_values(loop.id) <= 1) continue;
    proved &= count < Dimensions::kMost && names(id, loop.id);
    if (proved) parallel[count++] = loop;
  }
  Dimensions dimensions;
  add_terms(&dimensions, id, {parallel, count}, false);
  if (group->single) {
    dimensions.push(magnitude(access.step), static_cast<uint64_t>(access.first), false);
  } else if (known(group->rest)) {
    dimensions.push(1, distance(group->rest) + 1, false);
  }
  unproved_ += proved && known(group->rest) && dimensions.separate() ? 0u : 1u;
  return kOk;
}

Status MemoryRules::state_of(Id memory, MemoryState** out) {
  for (MemoryState& state : memories_) {
    if (state.memory == memory) return *out = &state, kOk;
  }
  ASTER_TRY(memories_.push(MemoryState{memory}));
  *out = &memories_.back();
  return kOk;
}

// A store to a Param that was read: at the form that was read, and each element once in the loops
// around both, so that nothing is read after it was written.
const char* MemoryRules::reads_before(Id id, const Surroundings& around) {
  const MemoryState& state =
      *std::ranges::find(memories_, program_.access(program_.at(id)).memory, &MemoryState::memory);
  if (state.load == kNone) return nullptr;
  const Access read = program_.access(program_.at(state.load)),
               written = program_.access(program_.at(id));
  const bool plain = !state.loads_differ && read.index == kNone && written.index == kNone &&
                     read.step == written.step;
  if (!plain || !same_form(state.load, id, true)) return "the form at which its memory is read";
  Dimensions dimensions;
  OpenLoop both[Dimensions::kMost];
  size_t count = 0;
  for (const OpenLoop& loop : around.loops) {
    if (loop.id > state.load || loop_values(loop.id) <= 1) continue;
    // Its stride may be a size, its values may bound a loop that the form names.
    const auto named = [&](Id loop_id) {
      return names(id, loop_id) ||
             std::ranges::any_of(program_.terms(program_.at(id)), [&](const Term& term) {
               return !term.axis && multiplies(term.at, loop_id);
             });
    };
    if (!names(id, loop.id)) {
      const bool by_bounds = std::ranges::any_of(around.loops, [&](const OpenLoop& inner) {
        return inner.id > loop.id && program_.at(inner.id).operands != 0 && named(inner.id);
      });
      if (!by_bounds && !named(loop.id)) return "an element that is written once, as it is read";
      return ++unproved_, nullptr;
    }
    if (count == Dimensions::kMost) break;
    both[count++] = loop;
  }
  add_terms(&dimensions, id, {both, count}, true);
  dimensions.push(magnitude(written.step),
                  static_cast<uint64_t>(std::max(read.first, written.first)), true);
  unproved_ += dimensions.separate() ? 0u : 1u;
  return nullptr;
}

Status MemoryRules::visit(Id id, const Surroundings& around, const char** fault) {
  const Instruction& in = program_.at(id);
  const Access access = program_.access(in);
  if ((*fault = inside(in, access, around)) != nullptr || in.op == Op::kPrefetch) return kOk;
  const Instruction& memory = program_.at(access.memory);
  if (memory.op != Op::kParam || !memory.is(kWrite)) return kOk;
  MemoryState* state = nullptr;
  ASTER_TRY(state_of(access.memory, &state));
  const Id innermost = around.loops.empty() ? kNone : around.loops.back().id;
  if (in.op == Op::kLoad) {
    if (state->stored && state->loop == innermost) {
      *fault = "memory that is not written before it";
      return kOk;
    }
    if (state->stored) {
      // Loops one after another may go through one memory, each its own part of it.
      ++unproved_;
      *state = MemoryState{state->memory};
    }
    if (state->load == kNone) {
      state->load = id;
    } else {
      const Access first = program_.access(program_.at(state->load));
      state->loads_differ |= !same_form(state->load, id, true) || first.step != access.step ||
                             first.index != access.index;
    }
    return kOk;
  }
  state->stored = true;
  state->loop = innermost;
  if ((*fault = reads_before(id, around)) != nullptr) return kOk;
  return stores_apart(id, around, fault);
}

}  // namespace aster::codegen::program
