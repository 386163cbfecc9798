#include "codegen/kernel.h"

#include <algorithm>
#include <bit>

namespace aster::codegen {
namespace {

using uop::sym::Linear;
using uop::sym::Term;

int range_id(Node range) { return static_cast<int>(range->arg(0)); }

// Whether an index expression is linear: a term of forms is no such.
bool combines(Node node) {
  if (node->dtype != DType::kWeakInt || node->op == Op::kRange) return false;
  const Linear linear = uop::sym::linear_of(node);
  return linear.size() != 1 || linear[0].node != node;
}

}  // namespace

double weight(Node node) {
  const bool leaf = node->op == Op::kFold || node->op == Op::kLoad || node->op == Op::kRange ||
                    uop::is_const(node);
  return leaf ? 0 : std::max<double>(1, uop::cost(node));
}

Status conjuncts(Vec<Node>* out, Node gate) {
  const size_t first = out->size();
  ASTER_TRY(out->push(gate));
  for (size_t i = first; i < out->size();) {
    const Node node = (*out)[i];
    if (node->op == Op::kAnd) {
      (*out)[i] = node->src(0);
      ASTER_TRY(out->push(node->src(1)));
    } else {
      ++i;
    }
  }
  return kOk;
}

Status Kernel::collect_ranges(Node sink) {
  ASTER_TRY(toposort(&order_, std::array{sink}));
  for (Node node : order_) {
    RangeSet set = 0;
    for (Node source : node->src()) set |= ranges(source);
    if (node->op == Op::kRange) {
      if (node->arg(0) < 0 || node->arg(0) >= kMaxRanges) {
        return ASTER_FAIL(kUNSUPPORTED, "a kernel of more than %d ranges", kMaxRanges);
      }
      if (size_[range_id(node)] != 0 || node->arg(1) <= 0) {
        return ASTER_FAIL(kINTERNAL, "range %d has two sizes, or none", range_id(node));
      }
      size_[range_id(node)] = node->arg(1);
      if (node->arg(1) == 1) dropped_ |= range_bit(range_id(node));
      set = range_bit(range_id(node)) & ~dropped_;
    } else if (node->op == Op::kFold) {
      for (Node range : node->src().subspan(1)) set &= ~ranges(range);
    } else if (node->op == Op::kCarry) {
      carried_ |= range_bit(carried_range(node));
    } else if (node->op == Op::kParam) {
      ASTER_TRY(params_.push(node));
    }
    ASTER_TRY(ranges_of_.set(node, set));
  }
  std::sort(params_.begin(), params_.end(), [](Node a, Node b) { return a->arg(0) < b->arg(0); });
  return kOk;
}

Status Kernel::add_form(Node index) {
  if (index->dtype != DType::kWeakInt || forms_.contains(index)) return kOk;
  const Linear linear = uop::sym::linear_of(index);
  const StoredForm form{linear.constant, static_cast<uint32_t>(terms_.size()),
                        static_cast<uint32_t>(linear.size())};
  for (const Term& term : linear.terms()) ASTER_TRY(terms_.push(term));
  return forms_.set(index, form);
}

Status Kernel::collect_forms() {
  for (Node node : order_) {
    if (node->op == Op::kLoad || node->op == Op::kStore) {
      if (node->nsrc < 2 || node->src(0)->op != Op::kParam) {
        return ASTER_FAIL(kINTERNAL, "%s of no Param", info(node->op).name);
      }
      ASTER_TRY(add_form(node->src(1)));
    } else if (node->op != Op::kFold && node->op != Op::kSink && !combines(node)) {
      for (Node source : node->src()) ASTER_TRY(add_form(source));
    }
  }
  return kOk;
}

Form Kernel::form(Node index) const {
  const StoredForm* stored = forms_.find(index);
  if (stored == nullptr) return Form{};
  return Form{stored->constant, {terms_.data() + stored->first, stored->count}};
}

int64_t Kernel::stride(Node index, int range) const {
  for (const Term& term : form(index).terms) {
    if (term.node->op == Op::kRange && range_id(term.node) == range) return term.coefficient;
  }
  return 0;
}

bool Kernel::written(Node param) const {
  return std::any_of(order_.begin(), order_.end(),
                     [&](Node node) { return node->op == Op::kStore && node->src(0) == param; });
}

bool Kernel::read(Node param) const {
  return std::any_of(order_.begin(), order_.end(),
                     [&](Node node) { return node->op == Op::kLoad && node->src(0) == param; });
}

Status Kernel::store_ranges(RangeList* out, Node store) const {
  *out = RangeList{};
  for (Node range : store->src().subspan(3)) {
    if (range->op != Op::kRange) return ASTER_FAIL(kINTERNAL, "a Store's loops are no ranges");
    if (!has(dropped_, range_id(range))) out->push(range_id(range));
  }
  return kOk;
}

// How many loops of a store are open where a fold is computed.
int Kernel::fold_depth(Node fold, const RangeList& loops) const {
  const RangeSet free = ranges(fold);
  int depth = 0;
  for (int i = 0; i < loops.count; ++i) {
    if (has(free, loops.at[i])) depth = i + 1;
  }
  return depth;
}

Status Kernel::leaves(Vec<Node>* out, Node node) const {
  const auto add_index = [&](Node index) -> Status {
    for (const Term& term : form(index).terms) {
      if (term.node->op != Op::kRange) ASTER_TRY(out->push(term.node));
    }
    return kOk;
  };
  if (node->op == Op::kFold) return kOk;
  if (node->op == Op::kLoad) {
    ASTER_TRY(add_index(node->src(1)));
    return node->nsrc > 2 ? conjuncts(out, node->src(2)) : kOk;
  }
  for (Node source : node->src()) {
    if (source->dtype == DType::kWeakInt) {
      ASTER_TRY(add_index(source));
    } else {
      ASTER_TRY(out->push(source));
    }
  }
  return kOk;
}

Status Kernel::fill_region(Region& region) {
  struct Frame {
    Node node;
    bool done;
  };
  Vec<Frame> stack(memory_);
  Vec<Node> sources(memory_);
  Map<Node, uint8_t> seen(memory_);
  const auto visit = [&](Node root) -> Status {
    ASTER_TRY(stack.push(Frame{root, false}));
    while (!stack.empty()) {
      const Frame frame = stack.back();
      stack.pop();
      if (frame.done) {
        ASTER_TRY(region.nodes.push(frame.node));
        continue;
      }
      if (seen.contains(frame.node)) continue;
      ASTER_TRY(seen.set(frame.node, 1));
      ASTER_TRY(stack.push(Frame{frame.node, true}));
      sources.clear();
      ASTER_TRY(leaves(&sources, frame.node));
      for (size_t i = sources.size(); i-- > 0;) {
        if (!seen.contains(sources[i])) ASTER_TRY(stack.push(Frame{sources[i], false}));
      }
    }
    return kOk;
  };
  const auto access = [&](Node node, bool store) -> Status {
    Access out{node, ranges(node->src(1)), 0, 0, store};
    for (const Term& term : form(node->src(1)).terms) {
      if (term.node->op != Op::kRange) out.opaque |= ranges(term.node);
    }
    if (!store && node->nsrc > 2) out.gate = ranges(node->src(2));
    return region.accesses.push(out);
  };
  for (Node root : region.roots) {
    if (region.folds) {
      ASTER_TRY(visit(root->src(0)));
    } else {
      sources.clear();
      ASTER_TRY(sources.push(root->src(2)));
      for (const Term& term : form(root->src(1)).terms) {
        if (term.node->op != Op::kRange) ASTER_TRY(sources.push(term.node));
      }
      Vec<Node> first(memory_);
      ASTER_TRY(first.append(sources.data(), sources.size()));
      for (Node node : first) ASTER_TRY(visit(node));
      ASTER_TRY(access(root, true));
    }
    region.operations += 1;
  }
  for (Node node : region.nodes) {
    region.operations += weight(node);
    if (node->op == Op::kLoad) ASTER_TRY(access(node, false));
  }
  for (int at = region.segment; at >= 0; at = segments[static_cast<size_t>(at)].parent) {
    for (int range : segments[static_cast<size_t>(at)].ranges)
      region.iterations *= static_cast<double>(size_[range]);
  }
  for (int range : region.own) region.iterations *= static_cast<double>(size_[range]);
  return kOk;
}

// Folds of a segment in groups that share loops: a fold joins the first group over its ranges that
// comes after everything it reads.
Status Kernel::group_folds(int at) {
  for (size_t i = 0; i < segment(at).fold_nodes.size(); ++i) {
    const Node fold = segment(at).fold_nodes[i];
    Vec<int>& groups = segment(at).folds;
    RangeList own;
    for (Node range : fold->src().subspan(1)) {
      if (!has(dropped_, range_id(range))) own.push(range_id(range));
    }
    Vec<Node> below(memory_);
    ASTER_TRY(toposort(&below, std::array{fold->src(0)}));
    size_t at_group = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      for (Node root : regions[static_cast<size_t>(groups[g])].roots) {
        if (std::find(below.begin(), below.end(), root) != below.end()) at_group = g + 1;
      }
    }
    while (at_group < groups.size() &&
           regions[static_cast<size_t>(groups[at_group])].own.set() != own.set()) {
      ++at_group;
    }
    if (at_group == groups.size()) {
      ASTER_TRY(groups.push(static_cast<int>(regions.size())));
      ASTER_TRY(regions.push(Region(memory_)));
      regions.back().folds = true;
      regions.back().segment = at;
      regions.back().own = own;
    }
    ASTER_TRY(regions[static_cast<size_t>(groups[at_group])].roots.push(fold));
  }
  return kOk;
}

// One segment for stores that share their first ranges, from loop `position` on, and its children.
Status Kernel::build(Nodes stores, int position, int parent) {
  Vec<RangeList> loops(memory_);
  Vec<Node> folds(memory_), below(memory_);
  Vec<int> depths(memory_);
  Map<Node, uint8_t> seen(memory_);
  for (Node store : stores) {
    RangeList list;
    ASTER_TRY(store_ranges(&list, store));
    ASTER_TRY(loops.push(list));
    below.clear();
    ASTER_TRY(toposort(&below, std::array{store->src(2)}));
    for (Node node : below) {
      if (node->op != Op::kFold || seen.contains(node)) continue;
      ASTER_TRY(seen.set(node, 1));
      ASTER_TRY(folds.push(node));
      ASTER_TRY(depths.push(fold_depth(node, list)));
    }
  }
  const auto stops = [&](int at) {
    for (const RangeList& list : loops) {
      if (list.count == at || list.at[at] != loops[0].at[at]) return true;
    }
    return std::find(depths.begin(), depths.end(), at) != depths.end() &&
           (at > position || parent < 0);
  };
  int end = position;
  int own = parent;
  while (!stops(end)) ++end;
  bool needed = end > position;
  for (size_t i = 0; i < stores.size(); ++i) needed |= loops[i].count == end && parent < 0;
  for (int depth : depths) needed |= depth == end && parent < 0;
  if (needed) {
    own = static_cast<int>(segments.size());
    ASTER_TRY(segments.push(Segment(memory_)));
    segment(own).parent = parent;
    for (int i = position; i < end; ++i) segment(own).ranges.push(loops[0].at[i]);
    if (parent < 0) {
      ASTER_TRY(roots.push(own));
    } else {
      ASTER_TRY(segment(parent).children.push(own));
    }
    for (size_t i = 0; i < folds.size(); ++i) {
      if (depths[i] == end) ASTER_TRY(segment(own).fold_nodes.push(folds[i]));
    }
  }
  Vec<Node> ending(memory_), group(memory_);
  Vec<uint8_t> taken(memory_);
  ASTER_TRY(taken.resize(stores.size(), 0));
  for (size_t i = 0; i < stores.size(); ++i) {
    if (loops[i].count == end) ASTER_TRY(ending.push(stores[i]));
  }
  if (!ending.empty()) {
    segment(own).stores = static_cast<int>(regions.size());
    ASTER_TRY(regions.push(Region(memory_)));
    regions.back().segment = own;
    ASTER_TRY(regions.back().roots.append(ending.data(), ending.size()));
  }
  for (size_t i = 0; i < stores.size(); ++i) {
    if (taken[i] != 0 || loops[i].count == end) continue;
    group.clear();
    for (size_t j = i; j < stores.size(); ++j) {
      if (loops[j].count == end || loops[j].at[end] != loops[i].at[end]) continue;
      taken[j] = 1;
      ASTER_TRY(group.push(stores[j]));
    }
    ASTER_TRY(build({group.data(), group.size()}, end, own));
  }
  return kOk;
}

// Whether outer * size(inner) + inner is all that any index has of the two.
bool Kernel::may_merge(int outer, int inner) const {
  for (const auto& [index, stored] : forms_) {
    int64_t a = 0, b = 0, product;
    for (const Term& term : form(index).terms) {
      if (term.node->op != Op::kRange) continue;
      if (range_id(term.node) == outer) a = term.coefficient;
      if (range_id(term.node) == inner) b = term.coefficient;
    }
    if (!checked_mul(b, size_[inner], &product) || product != a) return false;
  }
  return true;
}

// Merges ranges of one loop list into one longer range where every index stays linear.
Status Kernel::merge() {
  // Where a range occurs: bit per segment or fold. Only ranges that occur in the same places can be
  // one.
  Vec<RangeSet> places(memory_);
  for (const Segment& s : segments) ASTER_TRY(places.push(s.ranges.set()));
  for (const Region& r : regions) {
    if (r.folds) ASTER_TRY(places.push(r.own.set()));
  }
  for (int r = 0; r < kMaxRanges; ++r) {
    if (has(carried(), r)) ASTER_TRY(places.push(range_bit(r)));
  }
  const auto together = [&](int a, int b) {
    bool any = false;
    for (RangeSet set : places) {
      if (has(set, a) != has(set, b)) return false;
      any |= has(set, a);
    }
    return any;
  };
  for (int inner = 0; inner < kMaxRanges; ++inner) {
    for (int outer = 0; outer < kMaxRanges; ++outer) {
      if (outer == inner || size_[outer] <= 1 || size_[inner] <= 1 || has(dropped_, outer) ||
          has(dropped_, inner) || !together(outer, inner) || !may_merge(outer, inner)) {
        continue;
      }
      size_[inner] *= size_[outer];
      dropped_ |= range_bit(outer);
      outer = -1;  // the longer range may take in others
    }
  }
  const auto drop = [&](RangeList& list) {
    RangeList kept;
    for (int range : list) {
      if (!has(dropped_, range)) kept.push(range);
    }
    list = kept;
  };
  for (Segment& s : segments) drop(s.ranges);
  for (Region& r : regions) drop(r.own);
  return kOk;
}

Status Kernel::check(Node sink) const {
  if (sink->op != Op::kSink || sink->nsrc == 0)
    return ASTER_FAIL(kINTERNAL, "a kernel is a Sink of Stores");
  for (Node store : sink->src()) {
    if (store->op != Op::kStore || store->nsrc < 3) {
      return ASTER_FAIL(kINTERNAL, "a kernel of %s", info(store->op).name);
    }
    RangeList list;
    ASTER_TRY(store_ranges(&list, store));
    const RangeSet free = ranges(store->src(2)) | ranges(store->src(1));
    if ((free & ~list.set()) != 0)
      return ASTER_FAIL(kINTERNAL, "a Store reads ranges that are not its loops");
  }
  for (Node node : order_) {
    if (node->op != Op::kFold) continue;
    Vec<Node> below(memory_);
    ASTER_TRY(toposort(&below, std::array{node->src(0)}));
    for (Node inner : below) {
      const RangeSet own = ranges(node->src(0)) & ~ranges(node);
      if (inner->op == Op::kFold && (ranges(inner) & own) != 0) {
        return ASTER_FAIL(kINTERNAL, "a Fold in the loop of another");
      }
      if (inner->op == Op::kCarry) return ASTER_FAIL(kINTERNAL, "a Carry in a Fold");
    }
  }
  return kOk;
}

// What is carried starts anew in every turn of the loops around, which all others have to be: there
// is one such loop, and nothing is folded between the loops around a store and it.
Status Kernel::check_carries() const {
  for (const Region& region : regions) {
    RangeSet along = 0;
    for (Node node : region.nodes) {
      if (node->op == Op::kCarry) along |= range_bit(carried_range(node)) & ~dropped_;
    }
    if (along == 0) continue;
    const RangeSet last = segments[static_cast<size_t>(region.segment)].ranges.set();
    if (!std::has_single_bit(along) || (along & ~last) != 0)
      return ASTER_FAIL(kINTERNAL, "a Carry whose loop is not the innermost");
  }
  return kOk;
}

Status Kernel::analyse(Node sink) {
  ASTER_TRY(collect_ranges(sink));
  ASTER_TRY(check(sink));
  ASTER_TRY(collect_forms());
  ASTER_TRY(build(sink->src(), 0, -1));
  for (size_t i = 0; i < segments.size(); ++i) ASTER_TRY(group_folds(static_cast<int>(i)));
  ASTER_TRY(merge());
  if (dropped_ != 0) {
    // Forms without the ranges that are gone: a unit range is 0, a merged one is part of another.
    size_t kept = 0;
    for (auto& [index, stored] : forms_) {
      const size_t first = kept;
      for (uint32_t i = stored.first; i < stored.first + stored.count; ++i) {
        const Node node = terms_[i].node;
        if (node->op != Op::kRange || !has(dropped_, range_id(node))) terms_[kept++] = terms_[i];
      }
      stored.first = static_cast<uint32_t>(first);
      stored.count = static_cast<uint32_t>(kept - first);
    }
    for (auto& [node, set] : ranges_of_) set &= ~dropped_;
  }
  for (Region& region : regions) ASTER_TRY(fill_region(region));
  return check_carries();
}

}  // namespace aster::codegen
