#include "codegen/ends.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/planner.h"
#include "uop/composite.h"

namespace aster::codegen {
namespace {

using uop::Word;

// Conditions of a kernel that are looked at.
constexpr size_t kMostConditions = 8;
// Numbers of conditions are below this, so that sums of them do not overflow.
constexpr int64_t kMostNumber = int64_t{1} << 40;

bool is_integer(DType dtype) {
  return !dtype::is_float(dtype) && dtype != DType::kBool && dtype != DType::kUInt64 &&
         dtype != DType::kNone;
}

bool compares(Node node) {
  return (node->op == Op::kCmpLt || node->op == Op::kCmpLe) && is_integer(node->src(0)->dtype);
}

bool add(Room* room, const Kernel& kernel, Node node, int64_t factor) {
  if (factor == 0) return true;
  const int64_t most = node->op == Op::kRange
                           ? kMostNumber / kernel.size(static_cast<int>(node->arg(0)))
                           : kMostNumber;
  if (room->count == Room::kMax || factor > most || factor < -most) return false;
  room->terms[room->count++] = {node, factor};
  return true;
}

// One side of a comparison.
bool add_side(Room* room, const Kernel& kernel, Node node, int64_t sign) {
  const auto add_constant = [&](int64_t value) {
    room->constant += sign * value;
    return value <= kMostNumber && value >= -kMostNumber;
  };
  if (is_const(node)) return add_constant(uop::const_int(node));
  if (node->op == Op::kCast && node->src(0)->dtype == DType::kWeakInt &&
      node->src(0)->vmin >= dtype::min_int(node->dtype) &&
      node->src(0)->vmax <= static_cast<int64_t>(dtype::max_int(node->dtype))) {
    node = node->src(0);
  }
  if (node->dtype != DType::kWeakInt) return add(room, kernel, node, sign);
  if (is_const(node)) return add_constant(uop::const_int(node));
  const Form form = kernel.form(node);
  if (!add_constant(form.constant)) return false;
  return std::ranges::all_of(form.terms, [&](const uop::sym::Term& term) {
    return term.coefficient > -kMostNumber && add(room, kernel, term.node, sign * term.coefficient);
  });
}

// Whether some value besides ranges decides, and a range leaves less and less.
bool may_end(const Room& room) {
  bool read = false, falls = false;
  for (const Room::Term& term : std::span(room.terms, room.count)) {
    read |= term.node->op != Op::kRange;
    falls |= term.node->op == Op::kRange && term.factor < 0;
  }
  return read && falls;
}

// Whether an expression is that of a fold with other ranges in the place of the fold's own.
class Likeness {
 public:
  explicit Likeness(Node fold) : fold_(fold) {}
  bool same(Node a, Node b) {
    if (--budget_ < 0) return false;
    if (b->op == Op::kRange) return same_range(a, b);
    if (a->op != b->op || a->dtype != b->dtype || !std::ranges::equal(a->arg(), b->arg()))
      return false;
    if (b->dtype == DType::kWeakInt && uop::is_alu(b->op)) return same_sum(a, b);
    if (a->nsrc != b->nsrc) return false;
    for (uint32_t i = 0; i < a->nsrc; ++i) {
      if (!same(a->src(i), b->src(i))) return false;
    }
    return true;
  }

 private:
  bool same_range(Node a, Node b) {
    const auto own = fold_->src().subspan(1);
    const auto at = static_cast<size_t>(std::ranges::find(own, b) - own.begin());
    if (at == own.size()) return a == b;
    if (at >= std::size(for_) || a->op != Op::kRange || a->arg(1) != b->arg(1)) return false;
    if (for_[at] == nullptr) for_[at] = a;
    return for_[at] == a;
  }
  // Terms stand in the order of their ranges.
  bool same_sum(Node a, Node b) {
    const uop::sym::Linear x = uop::sym::linear_of(a), y = uop::sym::linear_of(b);
    if (x.constant != y.constant || x.size() != y.size()) return false;
    if (y.size() == 1 && y[0].node == b) {
      return x[0].node == a && a->nsrc == 2 && b->nsrc == 2 && same(a->src(0), b->src(0)) &&
             same(a->src(1), b->src(1));
    }
    return std::ranges::all_of(y.terms(), [&](const uop::sym::Term& term) {
      return std::ranges::any_of(x.terms(), [&](const uop::sym::Term& other) {
        return other.coefficient == term.coefficient && same(other.node, term.node);
      });
    });
  }

  const Node fold_;
  Node for_[4] = {};
  int budget_ = 256;
};

// x - m, where m is the greatest of the like of x.
bool less_its_greatest(Node node) {
  if (node->op != Op::kSub || !dtype::is_float(node->dtype)) return false;
  const Node most = node->src(1);
  return most->op == Op::kFold && static_cast<Op>(most->arg(0)) == Op::kMax &&
         Likeness(most).same(node->src(0), most->src(0));
}

// Whether an expression of few nodes has no fold in it; false of larger ones.
bool is_without_folds(Node node, int* budget) {
  if (--*budget < 0 || node->op == Op::kFold || node->op == Op::kCarry) return false;
  return std::ranges::all_of(node->src(),
                             [&](Node source) { return is_without_folds(source, budget); });
}

// What is known of a kernel's values where a condition is what it is beyond an end.
class Beyond {
 public:
  Beyond(const Kernel& kernel, const End& end, Memory& memory)
      : known_(memory), kernel_(kernel), end_(end), named_(kernel.ranges(end.compare)) {
    for (Node node : kernel.order()) {
      Word word = 0;
      if (status_.ok() && find(&word, node)) status_ = known_.set(node, word);
    }
  }
  Status status() const { return status_; }
  // Whether that is so only where something is before it.
  bool some() const { return some_; }
  const Word* of(Node node) const { return known_.find(node); }
  // Whether it changes nothing in a fold; the sign of a zero is none that sums have.
  bool neutral(Node fold) const {
    const Word* const word = of(fold->src(0));
    const Op op = static_cast<Op>(fold->arg(0));
    const DType dtype = fold->src(0)->dtype;
    if (word == nullptr) return false;
    if (op == Op::kAdd && dtype::is_float(dtype)) return std::bit_cast<double>(*word) == 0;
    return *word == uop::neutral_word(op, dtype);
  }
  // What is needed of a node's sources: calls visit for each of them.
  template <typename Visit>
  void each_needed(Node node, Visit visit) const {
    if (of(node) != nullptr) return;
    const Word* const condition = node->op == Op::kWhere ? of(node->src(0)) : nullptr;
    if (condition != nullptr) return visit(node->src(*condition != 0 ? 1 : 2));
    for (Node source : node->src()) visit(source);
  }

 private:
  bool find(Word* out, Node node) {
    if (node == end_.compare) return *out = end_.beyond ? 1 : 0, true;
    if (is_const(node)) return *out = node->arg(0), true;
    if (node->op == Op::kLoad && node->nsrc > 2) {
      const Word* const gate = of(node->src(2));
      return *out = 0, gate != nullptr && *gate == 0;
    }
    if (node->op == Op::kFold) return fold(out, node);
    if (node->dtype == DType::kWeakInt || (node->op != Op::kCast && !uop::is_alu(node->op)))
      return false;
    return arithmetic(out, node);
  }
  bool fold(Word* out, Node node) const {
    const Op op = static_cast<Op>(node->arg(0));
    const Word* const word = of(node->src(0));
    const bool again = op == Op::kMax || op == Op::kMin || op == Op::kAnd || op == Op::kOr;
    for (Node range : node->src().subspan(1)) {
      if ((kernel_.ranges(range) & named_) != 0) return false;  // some of its terms are not beyond
    }
    if (word == nullptr || !(again || neutral(node))) return false;
    // A sum begins with +0.
    *out = again ? *word : uop::neutral_word(op, node->dtype);
    return true;
  }
  // -inf and less of the greatest of the like: NaN only where what is not beyond is so too.
  bool shifted(Word* out, Node node) {
    const Word* const word = node->op == Op::kSub ? of(node->src(0)) : nullptr;
    if (word == nullptr || std::bit_cast<double>(*word) != -HUGE_VAL || !less_its_greatest(node))
      return false;
    some_ = true;
    return *out = *word, true;
  }
  bool arithmetic(Word* out, Node node) {
    if (shifted(out, node)) return true;

    Word words[3] = {};
    const Word* found[3] = {};
    bool all = true;
    for (uint32_t i = 0; i < node->nsrc; ++i) {
      found[i] = of(node->src(i));
      if (found[i] != nullptr) words[i] = *found[i];
      all &= found[i] != nullptr;
    }
    const DType dtype = node->src(node->nsrc - 1)->dtype;
    if (node->op == Op::kWhere && found[0] != nullptr) {
      const int picked = words[0] != 0 ? 1 : 2;
      return *out = words[picked], found[picked] != nullptr;
    }
    const bool zero = (found[0] != nullptr && words[0] == 0) ||
                      (node->nsrc > 1 && found[1] != nullptr && words[1] == 0);
    const bool absorbs = (node->op == Op::kAnd || node->op == Op::kMul) && !dtype::is_float(dtype);
    if (zero && absorbs) return *out = 0, true;
    if (node->op == Op::kOr && dtype == DType::kBool &&
        ((found[0] != nullptr && words[0] != 0) || (found[1] != nullptr && words[1] != 0))) {
      return *out = 1, true;
    }
    if (!all) return false;
    *out = uop::evaluate(node->op, dtype, node->dtype, words);
    // Functions of our own have other last bits, but not where they are 0 or 1.
    const double real = std::bit_cast<double>(*out);
    return !is_function(node->op) || real == 0 || real == 1;
  }
  static bool is_function(Op op) {
    return uop::info(op).rule == uop::DTypeRule::kFloating && op != Op::kRecip && op != Op::kSqrt &&
           op != Op::kDiv;
  }

  Map<Node, Word> known_;
  const Kernel& kernel_;
  const End end_;
  const RangeSet named_;
  bool some_ = false;
  Status status_;
};

// Whether the stores of a kernel ask for a fold beyond an end.
Status find_asked(bool* out, const Kernel& kernel, const Beyond& beyond, Node fold,
                  Memory& memory) {
  Vec<Node> stack(memory);
  Map<Node, uint8_t> seen(memory);
  Status status;
  const auto visit = [&](Node node) {
    if (!status.ok() || seen.contains(node)) return;
    status = seen.set(node, 1);
    if (status.ok()) status = stack.push(node);
  };
  for (const Region& region : kernel.regions) {
    for (Node root : region.roots) {
      if (root->op == Op::kStore) visit(root->src(1)), visit(root->src(2));
    }
  }
  while (!stack.empty() && status.ok()) {
    const Node node = stack.back();
    stack.pop();
    beyond.each_needed(node, visit);
  }
  *out = seen.contains(fold);
  return status;
}

// Ranges that are open in the stores and folds of a segment.
RangeSet open_ranges(const Kernel& kernel, int at) {
  RangeSet out = 0;
  for (; at >= 0; at = kernel.segments[static_cast<size_t>(at)].parent)
    out |= kernel.segments[static_cast<size_t>(at)].ranges.set();
  return out;
}

// Whether the loops over some ranges, which are opened one by one, end by a room: other terms do
// not name them.
bool ends_loops(const Room& room, const Kernel& kernel, RangeSet own) {
  return std::ranges::all_of(std::span(room.terms, room.count), [&](const Room::Term& term) {
    const bool range = term.node->op == Op::kRange;
    return (kernel.ranges(term.node) & own) == 0 || (range && term.factor < 0);
  });
}

}  // namespace

int64_t Room::factor(int range) const {
  for (const Term& term : std::span(terms, count)) {
    if (term.node->op == Op::kRange && term.node->arg(0) == range) return term.factor;
  }
  return 0;
}

bool is_below_its_greatest(Node node) {
  int budget = 64;
  return less_its_greatest(node) && is_without_folds(node->src(0), &budget);
}

bool is_first_place(const Kernel& kernel, Node place, Node most) {
  const auto folds = [](Node fold, Op op) {
    return fold->op == Op::kFold && fold->nsrc == 2 && static_cast<Op>(fold->arg(0)) == op;
  };
  if (!folds(place, Op::kMax) || !(folds(most, Op::kMax) || folds(most, Op::kMin))) return false;
  const Node range = place->src(1), chosen = place->src(0);
  const int64_t size = kernel.size(static_cast<int>(range->arg(0)));
  if (kernel.size(static_cast<int>(most->src(1)->arg(0))) != size || chosen->op != Op::kWhere ||
      !is_integer(place->dtype) || !is_const(chosen->src(2))) {
    return false;
  }
  const Node number = chosen->src(1);
  const bool falls = number->op == Op::kSub && is_const(number->src(0)) &&
                     number->src(1)->op == Op::kCast && number->src(1)->src(0) == range;
  if (!falls || uop::const_int(number->src(0)) - (size - 1) < uop::const_int(chosen->src(2)))
    return false;

  const auto finds = [&](Node node, Node* found) {
    if (node->op != Op::kCmpEq) return false;
    const bool second = node->src(1) == most;
    *found = node->src(second ? 0 : 1);
    return (second || node->src(0) == most) && Likeness(most).same(*found, most->src(0));
  };
  const Node condition = chosen->src(0);
  Node found = nullptr;
  if (condition->op != Op::kOr) return finds(condition, &found);
  const bool first = finds(condition->src(0), &found);
  if (!first && !finds(condition->src(1), &found)) return false;
  const Node other = condition->src(first ? 1 : 0);
  return other->op == Op::kCmpNe && other->src(0) == found && other->src(1) == found;
}

bool room_of(Room* out, const Kernel& kernel, const End& end) {
  *out = Room{};
  const int64_t sign = end.beyond ? -1 : 1;
  out->constant = end.beyond ? 1 : 0;
  if (end.compare->op == Op::kCmpLe) out->constant += sign;
  return add_side(out, kernel, end.compare->src(1), sign) &&
         add_side(out, kernel, end.compare->src(0), -sign);
}

Status Ends::find(const Kernel& kernel) {
  size_t conditions = 0;
  for (Node node : kernel.order()) {
    if (!compares(node)) continue;
    for (const bool beyond : {false, true}) {
      Room room;
      const End end{node, beyond, false};
      if (!room_of(&room, kernel, end) || !may_end(room)) continue;
      if (++conditions > kMostConditions) return kOk;
      ASTER_TRY(find(kernel, end));
    }
  }
  return kOk;
}

Status Ends::find(const Kernel& kernel, End end) {
  Room room;
  (void)room_of(&room, kernel, end);
  const Beyond beyond(kernel, end, memory_);
  ASTER_TRY(beyond.status());
  end.some = beyond.some();
  const RangeSet named = kernel.ranges(end.compare);
  RangeSet folded = 0;
  for (const Region& region : kernel.regions) {
    if (region.folds) folded |= region.own.set();
  }
  for (size_t r = 0; r < kernel.regions.size(); ++r) {
    const Region& region = kernel.regions[r];
    const Segment& segment = kernel.segments[static_cast<size_t>(region.segment)];
    const RangeSet open = open_ranges(kernel, region.segment);
    const RangeSet own = region.folds ? region.own.set() : segment.ranges.set();
    if ((named & ~(open | own)) != 0 || !ends_loops(room, kernel, own)) continue;
    bool ends = true;
    end.first = static_cast<uint32_t>(words_.size());
    for (Node root : region.roots) {
      if (!region.folds) {
        const Word* const word = beyond.of(root->src(2));
        const bool plain = root->src(2)->op != Op::kLoad && root->src(2)->dtype != DType::kWeakInt;
        ends &= word != nullptr && plain && (named & folded) == 0;
        ASTER_TRY(words_.push(word != nullptr ? *word : 0));
        continue;
      }
      bool asked = !beyond.neutral(root);
      if (asked && (named & folded) == 0)
        ASTER_TRY(find_asked(&asked, kernel, beyond, root, memory_));
      ends &= !asked;
    }
    if (!region.folds) {
      ends &= !reads_what_it_writes(kernel, region.segment);
      ends &= (segment.ranges.set() & kernel.carried()) == 0;
    }
    if (ends) ASTER_TRY(found_.push({static_cast<int>(r), end}));
  }
  return kOk;
}

}  // namespace aster::codegen
