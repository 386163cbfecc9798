// What is materialised, and where everything else is computed.
#include <algorithm>

#include "engine/fusion.h"
#include "engine/library.h"
#include "uop/symbolic.h"

namespace aster::engine::fusion {
namespace {

namespace sym = uop::sym;

// Fusion limits; bench/bench_schedule.cpp compares them.
constexpr uint32_t kMostDemands = 8;   // places of one node before it is materialised
constexpr uint32_t kMostNodes = 400;   // nodes computed in one kernel
constexpr float kCheap = 48;           // operations worth repeating in another kernel
constexpr float kTranscendental = 12;  // from here on not to be repeated by a loop around it
constexpr double kMostRepeats =
    4;  // times an expensive operation may be repeated by a loop around it
constexpr int64_t kFewestRows = 16;     // rows worth a kernel that keeps each row to one task
constexpr int64_t kWideStrip = 16;      // elements in a row that share a loop across rows
constexpr int64_t kTallStrip = 256;     // and the longest such loop
constexpr int64_t kTinyKernel = 32768;  // elements below which parallelism does not matter
constexpr int64_t kTinyFold = 16;       // terms of a sum that may move into the sum over it

constexpr const char* kTooLarge = "its reader is large enough";

// Where a loop stands that goes through an axis from its end.
Node backwards(Graph& g, Node range, int64_t length) {
  return sym::add(g, g.index(length - 1), sym::mul(g, range, g.index(-1)));
}

// The axis along which a kernel goes from the end: that of a scan from there which it computes, the
// first one behind its result. As many as there are axes: none.
size_t backward_axis(const Analysis& nodes, Node node) {
  constexpr int kFarthest = 32;
  const Node result = node;
  uint64_t flipped = 0;
  for (int step = 0; step < kFarthest && node->nsrc > 0; ++step) {
    if (is_scan(node->op)) {
      const size_t axis = scanned_axis(node);
      return scans_back(node) != ((flipped >> axis & 1) != 0) ? axis : result->ndim;
    }
    const bool through = node == result || !nodes.of(node).held;
    const bool same_places = uop::is_alu(node->op) || node->op == Op::kCast ||
                             node->op == Op::kDetach || node->op == Op::kAssign ||
                             node->op == Op::kContiguous || node->op == Op::kFlip;
    if (!through || !same_places) break;
    for (size_t i = 0; i < node->narg && node->op == Op::kFlip; ++i)
      flipped ^= static_cast<uint64_t>(node->arg(i)) << i;
    // The operand that more is computed for.
    Node next = node->src(node->op == Op::kAssign ? 1 : 0);
    for (Node source : node->src()) {
      if (node->op != Op::kAssign && nodes.of(source).scans) next = source;
    }
    node = next;
  }
  return result->ndim;
}

class Choice {
 public:
  Choice(Fusion* out, Graph& graph, const Analysis& nodes)
      : f_(*out), g_(graph), nodes_(nodes), places_(graph, nodes, out) {}

  // From users to sources.
  Status run() {
    f_.uses.resize(nodes_.records.size());
    ASTER_TRY(f_.uses.arena().status());
    for (size_t at = nodes_.records.size(); at-- > 0;) ASTER_TRY(choose(static_cast<uint32_t>(at)));
    return kOk;
  }

 private:
  Status choose(uint32_t at);
  Status materialise(uint32_t at);
  uint32_t stored_anyway(uint32_t at) const;
  bool recompute(const Record& record, const Use& use);
  bool outgrows(const Record& record) const;
  bool rescales(Node node, const Use& use);
  double evaluations(const Demand& demand);
  bool repeats_elements(const Demand& demand, double count);
  bool folds_fit(const Record& record, const Use& use);
  bool fold_fits(const Record& record, const Demand& demand);
  bool scan_fits(const Record& record, const Use& use);
  bool keeps_neighbours(const Kernel& kernel, Node node, const Demand& demand);
  bool take_prefix(Kernel& kernel, uint64_t set);
  bool ranges_of(uint64_t* out, const Demand& demand);

  // Says why something is no part of the kernels that read it.
  bool no(const char* why) {
    why_ = why;
    return false;
  }

  Fusion& f_;
  Graph& g_;
  const Analysis& nodes_;
  Places places_;
  const char* why_ = "";
};

Status Choice::choose(uint32_t at) {
  const Record& record = nodes_.records[at];
  const Use& use = f_.uses[at];
  const Op op = record.node->op;
  if (op == Op::kSink || (is_state(op) && !record.held)) return kOk;
  bool kept = record.held;
  why_ = record.reason;
  if (!kept && use.demand_count > 0 && !is_leaf(op)) {
    kept = op == Op::kReduce          ? !folds_fit(record, use)
           : scans_along(record.node) ? !scan_fits(record, use)
                                      : !recompute(record, use);
  }
  if (kept) return materialise(at);
  for (uint32_t d = use.first_demand; d != kNone; d = f_.demands[d].next)
    ASTER_TRY(places_.propagate(d));
  return kOk;
}

// Memory whose axes are read in another order, which costs no index more.
bool is_turned_leaf(Node node) {
  while (node->op == Op::kPermute || node->op == Op::kDetach) node = node->src(0);
  return node->op == Op::kParam;
}

bool Choice::recompute(const Record& record, const Use& use) {
  if (repeats(record.node)) return true;
  if (is_turned_leaf(record.node)) return true;
  if (use.demand_count > kMostDemands) return no("read at more than 8 places");
  if (passes_through(record.node->op)) return true;
  const auto count = static_cast<double>(record.node->count());
  bool same_kernel = true;
  double computed = 0;  // elements, each as often as it is
  const uint32_t kernel = f_.demands[use.first_demand].kernel;
  for (uint32_t d = use.first_demand; d != kNone; d = f_.demands[d].next) {
    const Demand& demand = f_.demands[d];
    same_kernel &= demand.kernel == kernel;
    if (f_.kernels[demand.kernel].size > kMostNodes) return no(kTooLarge);
    if (record.follows && repeats_elements(demand, count))
      return no("a loop would repeat it, and the reduction before it");
    if (record.weight < kTranscendental) continue;
    const double times = evaluations(demand);
    computed += times;
    if (times > kMostRepeats * count) return no("a loop would compute it more than 4 times");
  }
  const bool tiny = record.node->count() <= kTinyTensor;
  if (use.demand_count == 1) return true;
  if (same_kernel && computed <= (tiny ? kMostRepeats : 1) * count) return true;
  if (same_kernel || tiny)
    return record.weight <= kCheapInside || no("too much work to be done at several places");
  return rescales(record.node, use) ||
         ((!record.reduces || outgrows(record)) && record.leaves[3] == kNone &&
          record.weight <= kCheap) ||
         no("several kernels read it");
}

// A mask, or numbers that it is cast to, over windows that overlap: what it is made of is less.
// What is reduced below it has several users then, and is stored in its place.
bool Choice::outgrows(const Record& record) const {
  Node mask = record.node;
  while (mask->op == Op::kCast) mask = mask->src(0);
  if (mask->dtype != DType::kBool) return false;
  return std::ranges::all_of(record.leaves, [&](uint32_t leaf) {
    return leaf == kNone || nodes_.node(leaf)->count() < record.node->count();
  });
}

// A few operations by numbers of whole rows or channels, those of a norm, on what lies in memory:
// done again, once by each reader, they read no more than what they were stored as.
bool Choice::rescales(Node node, const Use& use) {
  constexpr size_t kMostVisits = 16, kMostLeaves = 3;
  constexpr int64_t kRow = 4;
  Node open[kMostVisits] = {node}, leaves[kMostLeaves];
  size_t count = 1, found = 0;
  for (uint32_t d = use.first_demand; d != kNone; d = f_.demands[d].next) {
    if (evaluations(f_.demands[d]) > static_cast<double>(node->count())) return false;
  }
  for (size_t i = 0; i < count; ++i) {
    Node one = open[i];
    const bool spread = repeats(one);
    const int64_t elements = one->count();
    while (passes_through(one->op) && one->nsrc == 1 && one->op != Op::kPad && !nodes_.of(one).held)
      one = one->src(0);
    if (spread && one->count() * kRow > elements) return false;
    if (spread || one->op == Op::kParam || nodes_.of(one).held) {
      if (std::find(leaves, leaves + found, one) != leaves + found) continue;
      if (found == kMostLeaves) return false;
      leaves[found++] = one;
      continue;
    }
    if (is_counted(one->op)) continue;
    const bool cheap = uop::is_alu(one->op) && uop::cost(one) < kTranscendental;
    if ((!cheap && one->op != Op::kCast) || count + one->nsrc > kMostVisits) return false;
    for (Node source : one->src()) open[count++] = source;
  }
  return true;
}

// One user computes it inside; several do where it is tiny.
bool Choice::folds_fit(const Record& record, const Use& use) {
  if (use.demand_count > (record.node->src(0)->count() <= kTinyTensor ? kMostDemands : 1))
    return no("a reduction that is read at several places");
  for (uint32_t d = use.first_demand; d != kNone; d = f_.demands[d].next) {
    if (!fold_fits(record, f_.demands[d])) return false;
  }
  return true;
}

bool Choice::ranges_of(uint64_t* out, const Demand& demand) {
  *out = 0;
  for (Node index : f_.index_of(demand, nodes_.node(demand.record))) {
    if (!f_.ranges.add(out, index).ok()) return false;
  }
  return demand.gate == nullptr || f_.ranges.add(out, demand.gate).ok();
}

// How often a place is computed: what depends on outer loops alone stands outside the inner ones.
double Choice::evaluations(const Demand& demand) {
  uint64_t mask = 0, seen = 0;
  if (!ranges_of(&mask, demand)) return demand.domain;
  double turns = 1, count = 1;
  for (Node range : f_.kernels[demand.kernel].ranges) {
    if (range->op != Op::kRange) continue;
    turns *= static_cast<double>(range->arg(1));
    seen |= RangeSets::bit(range);
    if ((mask & RangeSets::bit(range)) != 0) count = turns;
  }
  return (mask & ~seen) != 0 ? demand.domain : count;
}

// Whether elements are computed more than once whatever the order of the kernel's loops.
bool Choice::repeats_elements(const Demand& demand, double count) {
  uint64_t mask = 0, all = 0;
  if (!ranges_of(&mask, demand)) return demand.domain > count;
  double inside = 1;
  for (Node range : f_.kernels[demand.kernel].ranges) {
    if (range->op != Op::kRange) continue;
    all |= RangeSets::bit(range);
    if ((mask & RangeSets::bit(range)) != 0) inside *= static_cast<double>(range->arg(1));
  }
  return ((mask & ~all) != 0 ? demand.domain : inside) > count;
}

// A reduction is computed inside its one user if no loop repeats it: the loops it depends on are
// all loops of the kernel, or come first there, so that it is computed once before the others
// start.
bool Choice::fold_fits(const Record& record, const Demand& demand) {
  Kernel& kernel = f_.kernels[demand.kernel];
  if (kernel.library || kernel.size > kMostNodes) return no(kTooLarge);
  no("a loop around the reduction would repeat it");
  uint64_t mask = 0, all = 0;
  if (!ranges_of(&mask, demand)) return false;
  const int64_t count = record.node->count(), read = record.node->src(0)->count();
  int64_t inside = 1, total = 1;
  // The loops it depends on come before the others as the result lies in memory; or the last is one
  // of them, so that vectors of neighbours are worked on together, and what they read stays cached.
  bool outermost = true, strips = false;
  for (Node range : kernel.ranges) {
    if (range->op != Op::kRange) continue;
    const uint64_t bit = RangeSets::bit(range);
    all |= bit;
    total *= range->arg(1);
    outermost &= (mask & bit) == 0 || (all & ~bit & ~mask) == 0;
    if ((mask & bit) != 0) inside *= range->arg(1);
    strips = (mask & bit) != 0 && range->arg(1) >= kWideStrip;
  }
  strips &= read / std::max<int64_t>(count, 1) <= kTallStrip;
  if (mask >> 63 != 0) return false;
  // In the loop of a scan it would have no neighbours to be vectorised with.
  if (kernel.carried != nullptr && (mask & RangeSets::bit(kernel.carried)) != 0) return false;
  kernel.folded |= mask;
  if ((mask & ~all) != 0) {
    // Under a reduction of the same kind, whose terms its own become.
    const double terms = static_cast<double>(read) / static_cast<double>(count);
    return demand.under == static_cast<Op>(record.node->arg(0)) && terms <= kTinyFold &&
           demand.domain <= 4 * static_cast<double>(count);
  }
  if (inside > count) return false;
  if (mask == all) return true;
  const bool tiny = std::max(total, read) <= kTinyKernel;
  if (!tiny && (inside < kFewestRows || !(outermost || strips)))
    return no("a reduction of few rows, which threads share better alone");
  return take_prefix(kernel, mask);
}

// Whether the last loop of a kernel goes along the last axis of a node, as its neighbours lie.
bool Choice::keeps_neighbours(const Kernel& kernel, Node node, const Demand& demand) {
  uint64_t last_loop = 0, last_index = 0;
  for (Node range : kernel.ranges) {
    if (range->op == Op::kRange) last_loop = RangeSets::bit(range);
  }
  for (size_t i = 0; i < node->ndim; ++i) {
    if (node->dim(i) > 1 && !f_.ranges.find(&last_index, f_.index_of(demand, node)[i]).ok())
      return false;
  }
  return (last_index & last_loop) != 0;
}

// A scan is computed inside its one user if that walks along its axis in the scan's direction, each
// element once.
bool Choice::scan_fits(const Record& record, const Use& use) {
  const Node scan = record.node;
  const Demand& demand = f_.demands[use.first_demand];
  Kernel& kernel = f_.kernels[demand.kernel];
  no("a scan that its reader does not walk along");
  if (use.demand_count != 1 || kernel.library || kernel.size > kMostNodes) return false;
  if (!keeps_neighbours(kernel, scan, demand)) return false;
  const size_t axis = scanned_axis(scan);
  const Node index = f_.index_of(demand, scan)[axis];
  const int64_t length = scan->dim(axis);
  for (Node range : kernel.ranges) {
    if (range->op != Op::kRange || (kernel.carried != nullptr && kernel.carried != range)) continue;
    const bool walks = scans_back(scan) ? index == backwards(g_, range, length) : index == range;
    if (!walks || range->arg(1) > length) continue;
    uint64_t mask = 0, all = 0, gated = 0;
    for (Node loop : kernel.ranges) {
      if (loop->op == Op::kRange) all |= RangeSets::bit(loop);
    }
    if (!ranges_of(&mask, demand) || mask != all || mask >> 63 != 0) return false;
    if (demand.gate != nullptr && !f_.ranges.add(&gated, demand.gate).ok()) return false;
    uint64_t apart = gated | kernel.folded;
    for (uint64_t prefix : kernel.prefixes) apart |= prefix;
    if ((apart & RangeSets::bit(range)) != 0) return false;
    kernel.carried = range;
    return true;
  }
  return false;
}

// Whether the loops in set can come first, given the sets that already must.
bool Choice::take_prefix(Kernel& kernel, uint64_t set) {
  size_t at = 0;
  for (; at < kernel.prefixes.size(); ++at) {
    const uint64_t other = kernel.prefixes[at];
    if (other == set) return true;
    if ((set & ~other) == 0) break;
    if ((other & ~set) != 0) return false;
  }
  kernel.prefixes.push(set);
  if (kernel.prefixes.arena().failed()) return false;
  std::rotate(kernel.prefixes.begin() + at, kernel.prefixes.end() - 1, kernel.prefixes.end());
  return true;
}

// The demand of a kernel that stores what a record is, unchanged. kNone: there is none.
uint32_t Choice::stored_anyway(uint32_t at) const {
  const Record& record = nodes_.records[at];
  if (record.root || is_state(record.node->op) || scans_along(record.node) ||
      nodes_.library_call(record.node) != nullptr)
    return kNone;
  for (uint32_t d = f_.uses[at].first_demand; d != kNone; d = f_.demands[d].next) {
    const Kernel& kernel = f_.kernels[f_.demands[d].kernel];
    if (kernel.library || kernel.places.size() != 1) continue;
    if (nodes_.node(kernel.record)->op != Op::kContiguous) continue;
    if (f_.edges[f_.demands[kernel.places[0]].edge_at] == d) return d;
  }
  return kNone;
}

Status Choice::materialise(uint32_t at) {
  const Node node = nodes_.node(at);
  if (const uint32_t d = stored_anyway(at); d != kNone) {
    f_.uses[at].kernel = f_.demands[d].kernel;
    f_.demands[d].own = true;
    return places_.propagate(d);
  }
  size_t axis = 0;
  int64_t parts = 1;
  const bool library = nodes_.library_call(node) != nullptr;
  if (!library) ASTER_TRY(find_parts(&axis, &parts, f_.kernels.arena(), nodes_, node));
  uint32_t id = 0;
  ASTER_TRY(add_kernel(&id, g_, nodes_, &f_, at, axis, parts));
  f_.kernels[id].cut = why_;
  if (scans_along(node)) f_.kernels[id].carried = f_.kernels[id].ranges[scanned_axis(node)];
  for (uint32_t own : f_.kernels[id].places) ASTER_TRY(places_.propagate(own));
  return kOk;
}

}  // namespace

Status choose(Fusion* out, Graph& graph, const Analysis& nodes) {
  return Choice(out, graph, nodes).run();
}

// The loops over what a record is, and where it is stored.
Status add_kernel(uint32_t* out, Graph& g, const Analysis& nodes, Fusion* fusion, uint32_t at,
                  size_t axis, int64_t parts) {
  Fusion& f = *fusion;
  const Node node = nodes.node(at);
  *out = static_cast<uint32_t>(f.kernels.size());
  Kernel kernel(f.kernels.arena());
  kernel.record = at;
  kernel.library = nodes.library_call(node) != nullptr;
  List<Node> at_first(f.kernels.arena());  // of the first part
  const size_t back = parts == 1 && !kernel.library ? backward_axis(nodes, node) : node->ndim;
  for (size_t i = 0; i < node->ndim; ++i) {
    const int64_t dim = i == axis ? node->dim(i) / parts : node->dim(i);
    Node range = dim == 1 ? g.index(0) : g.range(kernel.next_range++, dim);
    ASTER_TRY(need(range));
    kernel.ranges.push(range);
    at_first.push(i == back && dim > 1 ? backwards(g, range, dim) : range);
  }
  ASTER_TRY(kernel.ranges.arena().status());
  if (!kernel.library && node->op == Op::kAssign) {
    Node param = nullptr;
    ASTER_TRY(storage_place(&param, &kernel.store_index, g, node->src(0), at_first.all()));
  }
  Use& use = f.uses[at];
  use.kernel = *out;
  for (int64_t part = 0; part < parts && !kernel.library; ++part) {
    const auto index_at = static_cast<uint32_t>(f.index.size());
    for (size_t i = 0; i < node->ndim; ++i) {
      Node index = at_first[i];
      if (i == axis && part > 0) index = sym::add(g, index, part * (node->dim(i) / parts));
      ASTER_TRY(need(index));
      f.index.push(index);
    }
    const auto own = static_cast<uint32_t>(f.demands.size());
    f.demands.push(Demand{at, *out, index_at, kNone, use.first_demand, kNone, nullptr, nullptr,
                          static_cast<double>(node->count() / parts), Op::kSink, true});
    kernel.places.push(own);
    use.first_demand = own;
  }
  f.kernels.push(std::move(kernel));
  return f.kernels.arena().status();
}

Status RangeSets::find(uint64_t* out, Node expr) {
  *out = 0;
  return add(out, expr);
}

Status RangeSets::add(uint64_t* out, Node expr) {
  if (const uint64_t* known = known_.find(expr)) {
    *out |= *known;
    return kOk;
  }
  List<Node> nodes(known_.arena());
  ASTER_TRY(uop::toposort(&nodes, std::array{expr}));
  for (Node node : nodes) {
    if (known_.contains(node)) continue;
    uint64_t set = node->op == Op::kRange ? bit(node) : 0;
    for (Node source : node->src()) set |= known_.get(source, 0);
    known_.set(node, set);
  }
  *out |= known_.get(expr, 0);
  return known_.arena().status();
}

}  // namespace aster::engine::fusion
