// The places at which nodes are read: from a kernel's results down to what it loads.
#include <algorithm>

#include "engine/rangeify.h"
#include "uop/symbolic.h"

namespace aster::engine {
namespace {

using uop::Node;
using uop::Op;
namespace sym = uop::sym;

// Numbers of the Params and Ranges that stand for indices in memory.
constexpr int64_t kFirstStandIn = int64_t{1} << 40;

}  // namespace

// The demand on node at this place by this kernel, shared by all users that read the same place.
Status Rangeify::demand(uint32_t* out, Node node, uint32_t kernel, std::span<const Node> index,
                        Node gate, double domain, Op under) {
  const uint32_t at = *position_.find(node);
  Record& record = records_[at];
  if (is_leaf(node->op) && node->op != Op::kParam) gate = nullptr;
  const uint64_t here = uint64_t{at} << 32 | kernel;
  const uint32_t newest = newest_.get(here, kNone);
  for (uint32_t d = newest; d != kNone; d = demands_[d].next_here) {
    Demand& other = demands_[d];
    if (other.gate != gate) continue;
    if (std::equal(index.begin(), index.end(), index_.data() + other.index_at)) {
      other.domain = std::max(other.domain, domain);
      if (other.under != under) other.under = Op::kSink;
      *out = d;
      return kOk;
    }
  }
  const uint32_t index_at = static_cast<uint32_t>(index_.size());
  ASTER_TRY(index_.append(index.data(), index.size()));
  *out = static_cast<uint32_t>(demands_.size());
  ASTER_TRY(demands_.push(Demand{at, kernel, index_at, kNone, record.first_demand, newest, gate,
                                 nullptr, domain, under, false}));
  ASTER_TRY(newest_.set(here, *out));
  record.first_demand = *out;
  ++record.demand_count;
  return kOk;
}

// Hands a demand on to the sources of its node.
Status Rangeify::propagate(uint32_t id) {
  const Demand d = demands_[id];
  const Node node = records_[d.record].node;
  Kernel& kernel = kernels_[d.kernel];
  ++kernel.size;
  if (is_leaf(node->op)) return kOk;
  const uint32_t edge_at = static_cast<uint32_t>(edges_.size());
  demands_[id].edge_at = edge_at;
  ASTER_TRY(edges_.resize(edge_at + node->nsrc, kNone));
  ASTER_TRY(owns_.resize(edge_at + node->nsrc, nullptr));
  Vec<Node> at(memory_);
  ASTER_TRY(at.append(index_.data() + d.index_at, node->ndim));
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
  Place place(memory_);
  Node own = nullptr;
  for (size_t s = node->op == Op::kAssign ? 1 : 0; s < node->nsrc; ++s) {
    ASTER_TRY(source_place(&place, &own, g_, node, s, {at.data(), at.size()}, d.gate));
    if (node->op == Op::kCat && never(own)) {
      owns_[edge_at + s] = own;
      continue;
    }
    uint32_t made = kNone;
    ASTER_TRY(demand(&made, node->src(s), d.kernel, {place.index.data(), place.index.size()},
                     place.gate, domain, under));
    edges_[edge_at + s] = made;
    owns_[edge_at + s] = own;
  }
  return kOk;
}

// The loops that an element of a demand depends on: those of its place below movement.
Status Rangeify::ranges_below(uint64_t* out, const Demand& demand) {
  Node node = records_[demand.record].node, own = nullptr;
  Node gate = demand.gate;
  Place place(memory_);
  Vec<Node> at(memory_);
  ASTER_TRY(at.append(index_.data() + demand.index_at, node->ndim));
  while (passes_through(node->op) && node->nsrc == 1) {
    ASTER_TRY(source_place(&place, &own, g_, node, 0, {at.data(), at.size()}, gate));
    gate = place.gate;
    at.clear();
    ASTER_TRY(at.append(place.index.data(), place.index.size()));
    node = node->src(0);
  }
  *out = 0;
  uint64_t set = 0;
  for (Node index : at) {
    ASTER_TRY(ranges_in(&set, index));
    *out |= set;
  }
  if (gate == nullptr) return kOk;
  ASTER_TRY(ranges_in(&set, gate));
  *out |= set;
  return kOk;
}

// The stand-ins of the index that a demand reads for an axis of this size.
Status Rangeify::indirect(const Indirect** out, uint32_t demand, int64_t size) {
  for (const Indirect& known : indirect_) {
    if (known.demand == demand && known.size == size) return *out = &known, kOk;
  }
  const int64_t number = kFirstStandIn + static_cast<int64_t>(indirect_.size());
  Indirect made{demand, size, g_.make(Op::kParam, DType::kWeakInt, {}, std::array{number}),
                g_.range(number, size)};
  ASTER_TRY(need(made.read));
  ASTER_TRY(need(made.inside));
  uint64_t mask = 0;
  ASTER_TRY(ranges_below(&mask, demands_[demand]));
  ASTER_TRY(masks_.set(made.read, mask));
  ASTER_TRY(masks_.set(made.inside, mask));
  ASTER_TRY(indirect_.push(made));
  *out = &indirect_.back();
  return kOk;
}

// Indices are read where the result is; the source is read where they say, if that is inside it.
Status Rangeify::propagate_gather(uint32_t id, uint32_t edge_at, double domain) {
  const Demand d = demands_[id];
  const Node node = records_[d.record].node;
  Vec<Node> at(memory_), index(memory_);
  ASTER_TRY(at.append(index_.data() + d.index_at, node->ndim));
  for (size_t s = 1; s < node->nsrc; ++s) {
    uint32_t made = kNone;
    ASTER_TRY(
        demand(&made, node->src(s), d.kernel, {at.data(), at.size()}, d.gate, domain, Op::kSink));
    edges_[edge_at + s] = made;
  }
  Node own = nullptr;
  for (size_t axis = 0; axis < node->narg; ++axis) {
    const uop::Word from = node->arg(axis);
    if (from >= 0) {
      ASTER_TRY(index.push(at[static_cast<size_t>(from)]));
      continue;
    }
    const int64_t size = node->src(0)->dim(axis);
    const Indirect* stand_in = nullptr;
    ASTER_TRY(indirect(&stand_in, edges_[edge_at + static_cast<size_t>(-from)], size));
    ASTER_TRY(index.push(stand_in->inside));
    Node fits = sym::and_(g_, sym::not_(g_, sym::lt(g_, stand_in->read, int64_t{0})),
                          sym::lt(g_, stand_in->read, size));
    own = own == nullptr ? fits : sym::and_(g_, own, fits);
    ASTER_TRY(need(own));
  }
  Node gate = own == nullptr ? d.gate : d.gate == nullptr ? own : sym::and_(g_, d.gate, own);
  uint32_t made = kNone;
  ASTER_TRY(
      demand(&made, node->src(0), d.kernel, {index.data(), index.size()}, gate, domain, Op::kSink));
  edges_[edge_at] = made;
  owns_[edge_at] = own;
  return kOk;
}

}  // namespace aster::engine
