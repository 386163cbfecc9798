// The places at which nodes are read: from a kernel's results down to what it loads.
#include <algorithm>

#include "engine/fusion.h"
#include "uop/symbolic.h"

namespace aster::engine::fusion {
namespace {

namespace sym = uop::sym;

// Numbers of the Params and Ranges that stand for indices in memory.
constexpr int64_t kFirstStandIn = int64_t{1} << 40;

}  // namespace

// The demand on node at this place by this kernel, shared by all users that read the same place.
Status Places::demand(uint32_t* out, Node node, uint32_t kernel, std::span<const Node> index,
                      Node gate, double domain, Op under) {
  const uint32_t at = nodes_.at(node);
  Use& use = f_.uses[at];
  if (is_counted(node->op)) gate = nullptr;
  const uint64_t here = uint64_t{at} << 32 | kernel;
  const uint32_t newest = newest_.get(here, kNone);
  for (uint32_t d = newest; d != kNone; d = f_.demands[d].next_here) {
    Demand& other = f_.demands[d];
    if (other.gate != gate) continue;
    if (std::equal(index.begin(), index.end(), f_.index.data() + other.index_at)) {
      other.domain = std::max(other.domain, domain);
      if (other.under != under) other.under = Op::kSink;
      *out = d;
      return kOk;
    }
  }
  const uint32_t index_at = static_cast<uint32_t>(f_.index.size());
  f_.index.append(index);
  *out = static_cast<uint32_t>(f_.demands.size());
  f_.demands.push(Demand{at, kernel, index_at, kNone, use.first_demand, newest, gate, nullptr,
                         domain, under, false});
  newest_.set(here, *out);
  use.first_demand = *out;
  ++use.demand_count;
  return newest_.arena().status();
}

// Hands a demand on to the sources of its node.
Status Places::propagate(uint32_t id) {
  const Demand d = f_.demands[id];
  const Node node = nodes_.node(d.record);
  Kernel& kernel = f_.kernels[d.kernel];
  ++kernel.size;
  if (is_leaf(node->op) || is_state(node->op)) return kOk;
  const uint32_t edge_at = static_cast<uint32_t>(f_.edges.size());
  f_.demands[id].edge_at = edge_at;
  f_.edges.resize(edge_at + node->nsrc, kNone);
  f_.owns.resize(edge_at + node->nsrc, nullptr);
  List<Node> at(f_.index.arena());
  at.append(f_.index_of(d, node));
  ASTER_TRY(at.arena().status());
  double domain = d.domain;
  Op under = passes_through(node->op) ? d.under : Op::kSink;
  if (node->op == Op::kReduce) {
    under = static_cast<Op>(node->arg(0));
    if (d.under == Op::kSink)
      domain = static_cast<double>(node->count());  // each result is computed once: see fold_fits
    for (size_t i = 1; i < node->narg; ++i) {
      const size_t axis = static_cast<size_t>(node->arg(i));
      const int64_t size = node->src(0)->dim(axis);
      at[axis] = size == 1 ? g_.index(0) : g_.range(kernel.next_range++, size);
      ASTER_TRY(need(at[axis]));
      domain *= static_cast<double>(size);
    }
  }
  if (node->op == Op::kGather) return propagate_gather(id, edge_at, domain);
  Place place(g_.memory());
  Node own = nullptr;
  for (size_t s = node->op == Op::kAssign ? 1 : 0; s < node->nsrc; ++s) {
    ASTER_TRY(source_place(&place, &own, g_, node, s, at.all(), d.gate));
    if (node->op == Op::kCat && never(own)) {
      f_.owns[edge_at + s] = own;
      continue;
    }
    uint32_t made = kNone;
    ASTER_TRY(demand(&made, node->src(s), d.kernel, {place.index.data(), place.index.size()},
                     place.gate, domain, under));
    f_.edges[edge_at + s] = made;
    f_.owns[edge_at + s] = own;
  }
  return kOk;
}

// The loops that an element of a demand depends on: those of its place below movement.
Status Places::ranges_below(uint64_t* out, const Demand& demand) {
  Node node = nodes_.node(demand.record), own = nullptr;
  Node gate = demand.gate;
  Place place(g_.memory());
  List<Node> at(f_.index.arena());
  at.append(f_.index_of(demand, node));
  ASTER_TRY(at.arena().status());
  while (passes_through(node->op) && node->nsrc == 1) {
    ASTER_TRY(source_place(&place, &own, g_, node, 0, at.all(), gate));
    gate = place.gate;
    at.clear();
    at.append({place.index.data(), place.index.size()});
    ASTER_TRY(at.arena().status());
    node = node->src(0);
  }
  *out = 0;
  for (Node index : at) ASTER_TRY(f_.ranges.add(out, index));
  return gate == nullptr ? kOk : f_.ranges.add(out, gate);
}

// The stand-ins of the index that a demand reads for an axis of this size.
Status Places::indirect(const Indirect** out, uint32_t demand, int64_t size) {
  for (const Indirect& known : f_.indirect) {
    if (known.demand == demand && known.size == size) return *out = &known, kOk;
  }
  const int64_t number = kFirstStandIn + static_cast<int64_t>(f_.indirect.size());
  Indirect made{demand, size, g_.make(Op::kParam, DType::kWeakInt, {}, std::array{number}),
                g_.range(number, size)};
  ASTER_TRY(need(made.read));
  ASTER_TRY(need(made.inside));
  uint64_t mask = 0;
  ASTER_TRY(ranges_below(&mask, f_.demands[demand]));
  f_.ranges.set(made.read, mask);
  f_.ranges.set(made.inside, mask);
  f_.indirect.push(made);
  ASTER_TRY(f_.indirect.arena().status());
  *out = &f_.indirect.back();
  return kOk;
}

// Indices are read where the result is; the source is read where they say, if that is inside it.
Status Places::propagate_gather(uint32_t id, uint32_t edge_at, double domain) {
  const Demand d = f_.demands[id];
  const Node node = nodes_.node(d.record);
  List<Node> at(f_.index.arena()), index(f_.index.arena());
  at.append(f_.index_of(d, node));
  ASTER_TRY(at.arena().status());
  for (size_t s = 1; s < node->nsrc; ++s) {
    uint32_t made = kNone;
    ASTER_TRY(demand(&made, node->src(s), d.kernel, at.all(), d.gate, domain, Op::kSink));
    f_.edges[edge_at + s] = made;
  }
  Node own = nullptr;
  for (size_t axis = 0; axis < node->narg; ++axis) {
    const uop::Word from = node->arg(axis);
    if (from >= 0) {
      index.push(at[static_cast<size_t>(from)]);
      continue;
    }
    const int64_t size = node->src(0)->dim(axis);
    const Indirect* stand_in = nullptr;
    ASTER_TRY(indirect(&stand_in, f_.edges[edge_at + static_cast<size_t>(-from)], size));
    index.push(stand_in->inside);
    Node fits = sym::and_(g_, sym::not_(g_, sym::lt(g_, stand_in->read, int64_t{0})),
                          sym::lt(g_, stand_in->read, size));
    own = own == nullptr ? fits : sym::and_(g_, own, fits);
    ASTER_TRY(need(own));
  }
  Node gate = own == nullptr ? d.gate : d.gate == nullptr ? own : sym::and_(g_, d.gate, own);
  ASTER_TRY(index.arena().status());
  uint32_t made = kNone;
  ASTER_TRY(demand(&made, node->src(0), d.kernel, index.all(), gate, domain, Op::kSink));
  f_.edges[edge_at] = made;
  f_.owns[edge_at] = own;
  return kOk;
}

// The Param and row-major position that an element of a view of storage stands at.
Status storage_place(Node* param, Node* position, Graph& g, Node target, std::span<const Node> at) {
  Vec<Node> index(g.memory());
  Place place(g.memory());
  Node own = nullptr;
  ASTER_TRY(index.append(at.data(), at.size()));
  while (target->op != Op::kParam) {
    const bool view = uop::is_movement(target->op) && target->op != Op::kPad &&
                      target->op != Op::kUnwindow && target->op != Op::kCat;
    if (!view && !is_effect(target->op) && target->op != Op::kDetach &&
        target->op != Op::kContiguous) {
      return ASTER_FAIL(kARGUMENT, "assign to %s, which is no view of storage",
                        uop::info(target->op).name);
    }
    ASTER_TRY(source_place(&place, &own, g, target, 0, {index.data(), index.size()}, nullptr));
    std::swap(index, place.index);
    target = target->src(0);
  }
  *param = target;
  *position = linear_index(g, target->shape(), {index.data(), index.size()});
  return need(*position);
}

}  // namespace aster::engine::fusion
