// Where loops begin and end, before their ranges do as well.
#include "codegen/lower_values.h"

namespace aster::codegen {

// What is read is taken as in [-kMostRead, kMostRead], which is more than ranges add up to.
constexpr int64_t kMostRead = int64_t{1} << 44;
constexpr int64_t kMostFactor = int64_t{1} << 16;
constexpr int kDeepest = 32;          // expression that is followed
constexpr int64_t kFewestWithin = 2;  // steps without conditions that are worth code of their own

ValueLowering::Number ValueLowering::plus(Number n, int64_t k) {
  if (n.id == kNone) return {kNone, n.word + k};
  return k == 0 ? n : Number{make(Op::kAdd, DType::kInt64, {n.id, integer(k)}), 0};
}

ValueLowering::Number ValueLowering::least(Number a, Number c) {
  if (a.id == kNone && c.id == kNone) return {kNone, std::min(a.word, c.word)};
  return {make(Op::kMin, DType::kInt64, {id_of(a), id_of(c)}), 0};
}

ValueLowering::Number ValueLowering::most(Number a, Number c) {
  if (a.id == kNone && c.id == kNone) return {kNone, std::max(a.word, c.word)};
  return {make(Op::kMax, DType::kInt64, {id_of(a), id_of(c)}), 0};
}

ValueLowering::Number ValueLowering::clamped(Id value, Number lo, Number hi) {
  return least({make(Op::kMax, DType::kInt64, {value, id_of(lo)}), 0}, hi);
}

ValueLowering::Number ValueLowering::either(Id left, Number some, Number none) {
  const Id any = make(Op::kCmpLt, DType::kBool, {integer(0), left});
  return {
      b.pure({.op = Op::kWhere, .dtype = DType::kInt64}, std::array{any, id_of(some), id_of(none)}),
      0};
}

ValueLowering::Number ValueLowering::end_of(Id left, int64_t k, Number lo, Number hi) {
  if (k > 1) left = make(Op::kQuo, DType::kInt64, {plus({left, 0}, k - 1).id, integer(k)});
  return clamped(left, lo, hi);
}

ValueLowering::Number ValueLowering::next_step(Number lo, Number hi, Number from, int64_t step) {
  if (step == 1) return from;
  const Id size = make(Op::kSub, DType::kInt64, {from.id, id_of(lo)});
  const Id steps = make(Op::kQuo, DType::kInt64, {plus({size, 0}, step - 1).id, integer(step)});
  const Id all = make(Op::kMul, DType::kInt64, {steps, integer(step)});
  return clamped(make(Op::kAdd, DType::kInt64, {id_of(lo), all}), lo, hi);
}

ValueLowering::Id ValueLowering::open_loop(Number lo, Number hi, int64_t step,
                                           program::LoopKind kind) {
  Instruction in{.op = Op::kLoop, .dtype = DType::kInt64, .kind = static_cast<uint8_t>(kind)};
  Id operands[2];
  size_t count = 0;
  if (lo.id == kNone) {
    in.flags |= program::Flag::kImmediate;
  } else {
    operands[count++] = lo.id;
  }
  if (hi.id == kNone) {
    in.flags |= program::Flag::kImmediateHigh;
  } else {
    operands[count++] = hi.id;
  }
  return b.open(in, {operands, count},
                std::array{lo.id == kNone ? lo.word : 0, hi.id == kNone ? hi.word : 0, step});
}

// The value of an expression that is the same for all lanes and copies, before the loops that it
// does not depend on; kNone if it is no such, or reads what the kernel writes.
ValueLowering::Id ValueLowering::steady(Node node, int depth) {
  if (node->op == Op::kFold) {
    const Id* const found = folds_.find(node);
    if (found == nullptr || b.at(*found).lanes != 1 || b.at(*found).axes != 0) return kNone;
    return *found;
  }
  for (int r = 0; r < kMaxRanges; ++r) {
    const RangeState& state = ranges_[r];
    const bool single = state.axis < 0 && state.lanes == 1 && state.index != kNone;
    if (has(kernel_.ranges(node), r) && !single) return kNone;
  }
  const bool load = node->op == Op::kLoad;
  const bool known = load || is_const(node) || node->op == Op::kCast || uop::is_alu(node->op);
  if (depth == kDeepest || !known || (load && (node->nsrc > 2 || kernel_.written(node->src(0)))))
    return kNone;
  for (Node source : node->src()) {
    if (source->op == Op::kParam) continue;
    if (source->dtype != DType::kWeakInt) {
      if (steady(source, depth + 1) == kNone) return kNone;
      continue;
    }
    for (const uop::sym::Term& term : kernel_.form(source).terms) {
      if (term.node->op != Op::kRange && steady(term.node, depth + 1) == kNone) return kNone;
    }
  }
  emit(node);
  return b.status().ok() ? value(node) : kNone;
}

ValueLowering::Id ValueLowering::room_left(const Room& room, int range) {
  forget();
  Id sum = integer(room.constant);
  const auto add = [&](Id part, int64_t factor) {
    if (factor != 1) part = make(Op::kMul, DType::kInt64, {part, integer(factor)});
    sum = make(Op::kAdd, DType::kInt64, {sum, part});
  };
  for (const Room::Term& term : std::span(room.terms, room.count)) {
    if (term.node->op != Op::kRange) {
      if (term.factor > kMostFactor || term.factor < -kMostFactor) return kNone;
      Id part = steady(term.node);
      if (part == kNone) return kNone;
      part = cast(part, DType::kInt64);
      if (term.node->vmin < -kMostRead || term.node->vmax > kMostRead) {
        part = make(Op::kMin, DType::kInt64, {part, integer(kMostRead)});
        part = make(Op::kMax, DType::kInt64, {part, integer(-kMostRead)});
      }
      add(part, term.factor);
      continue;
    }
    const int r = static_cast<int>(term.node->arg(0));
    if (r == range) continue;
    const RangeState& state = ranges_[r];
    if (term.factor > 0 && (state.axis >= 0 || state.lanes > 1)) return kNone;
    if (state.index != kNone) add(state.index, term.factor);
    if (state.copy != kNone) add(state.copy, term.factor * state.lanes);
  }
  return sum;
}

void ValueLowering::narrow(int64_t* lo, int64_t* hi, Vec<End>* met, const Region& region,
                           int range) {
  Vec<Node> parts(memory_);
  for (const Access& a : region.accesses) {
    if (!a.store && a.node->nsrc > 2) b.fail(conjuncts(&parts, a.node->src(2)));
  }
  for (Node part : parts) {
    End end{part, false, false};
    for (; end.compare->op == Op::kNot; end.compare = end.compare->src(0)) end.beyond = !end.beyond;
    Room room;
    const bool compares = end.compare->op == Op::kCmpLt || end.compare->op == Op::kCmpLe;
    if (!compares || assumed(part) >= 0 || !room_of(&room, kernel_, end)) continue;
    int64_t least = room.constant, factor = 0;  // of the room at element 0
    bool known = true;
    for (const Room::Term& term : std::span(room.terms, room.count)) {
      const bool counts = term.node->op == Op::kRange;
      const int at = counts ? static_cast<int>(term.node->arg(0)) : -1;
      if (at == range) {
        factor = term.factor;
      } else if (counts && region.folds && has(region.own.set(), at)) {
        least += std::min<int64_t>(0, term.factor * (kernel_.size(at) - 1));
      } else {
        known = false;
      }
    }
    if (!known || factor == 0) continue;
    if (factor > 0) {
      if (least <= 0) *lo = std::max(*lo, -least / factor + 1);
    } else {
      *hi = least <= 0 ? 0 : std::min(*hi, (least - 1) / -factor + 1);
    }
    b.fail(met->push(end));
  }
}

bool ValueLowering::find_within(int64_t* lo, int64_t* hi, Vec<End>* met, int segment, int range,
                                int64_t step) {
  const int64_t size = kernel_.size(range);
  *lo = 0, *hi = size;
  each_region(kernel_, segment, [&](int region) {
    narrow(lo, hi, met, kernel_.regions[static_cast<size_t>(region)], range);
  });
  *lo = (*lo + step - 1) / step * step;
  if (*hi != size) *hi = *hi / step * step;
  return (*lo > 0 || *hi < size) && *hi - *lo >= kFewestWithin * step;
}

int ValueLowering::assumed(Node condition) const {
  if (assumed_.empty() || condition->dtype != DType::kBool) return -1;
  for (const End& end : assumed_) {
    if (end.compare == condition) return end.beyond ? 0 : 1;
  }
  if (condition->op == Op::kNot) {
    const int inner = assumed(condition->src(0));
    return inner < 0 ? -1 : 1 - inner;
  }
  if (condition->op != Op::kAnd) return -1;
  const int a = assumed(condition->src(0)), c = assumed(condition->src(1));
  return a == 0 || c == 0 ? 0 : a == 1 && c == 1 ? 1 : -1;
}

Status ValueLowering::find_needed(Map<Node, uint8_t>* out, const Region& r) {
  Vec<Node> sources(memory_);
  for (Node root : r.roots) {
    if (r.folds) {
      ASTER_TRY(out->set(root->src(0), 1));
      continue;
    }
    sources.clear();
    ASTER_TRY(kernel_.leaves(&sources, root));
    for (Node source : sources) ASTER_TRY(out->set(source, 1));
  }
  for (size_t i = r.nodes.size(); i-- > 0;) {
    const Node node = r.nodes[i];
    const bool kept = std::ranges::any_of(
        kept_values_, [&](const KeptArray& one) { return one.value.stored == node; });
    if (!out->contains(node) || assumed(node) >= 0 || kept) continue;
    sources.clear();
    const int picked = node->op == Op::kWhere ? assumed(node->src(0)) : -1;
    if (picked >= 0) {
      ASTER_TRY(sources.push(node->src(picked == 1 ? 1 : 2)));
    } else {
      ASTER_TRY(kernel_.leaves(&sources, node));
    }
    for (Node source : sources) ASTER_TRY(out->set(source, 1));
  }
  return kOk;
}

}  // namespace aster::codegen
