#include "engine/rangeify.h"

#include <algorithm>

#include "engine/library.h"
#include "uop/symbolic.h"

namespace aster::engine {
namespace {

using uop::Graph;
using uop::Node;
using uop::Nodes;
using uop::Op;
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

bool is_effect(Op op) { return op == Op::kAssign || op == Op::kAfter; }

// Whether a node shows fewer elements than it has again and again: reading those is less than
// reading the node, however many do.
bool repeats(Node node) {
  const int64_t count = node->count();
  while (node->op == Op::kReshape || node->op == Op::kPermute || node->op == Op::kExpand)
    node = node->src(0);
  return node->count() < count;
}

uint64_t bit_of(Node range) {
  return range->arg(0) < 63 ? uint64_t{1} << range->arg(0)
                            : uint64_t{1} << 63;  // the rest shares one
}

}  // namespace

Status walk(Vec<Node>* out, Nodes roots) {
  struct Frame {
    Node node;
    uint32_t next;
  };
  Map<Node, uint8_t> seen(out->memory());
  Vec<Frame> stack(out->memory());
  const auto enter = [&](Node node) -> Status {
    if (seen.contains(node)) return kOk;
    ASTER_TRY(seen.set(node, 1));
    return stack.push(Frame{node, node->op == Op::kCall ? 1u : 0u});
  };
  for (Node root : roots) {
    ASTER_TRY(enter(root));
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.node->nsrc) {
        ASTER_TRY(out->push(frame.node));
        stack.pop();
      } else {
        ASTER_TRY(enter(frame.node->src(frame.next++)));
      }
    }
  }
  return kOk;
}

Status Rangeify::run(Node sink) {
  for (int attempt = 0; attempt < 16; ++attempt) {
    restart_ = false;
    records_.clear();
    position_.clear();
    demands_.clear();
    newest_.clear();
    edges_.clear();
    owns_.clear();
    index_.clear();
    kernels_.clear();
    indirect_.clear();
    in_place_.clear();
    storages_.clear();
    schedule_.slots.clear();
    schedule_.roots.clear();
    schedule_.items.clear();
    schedule_.operands.clear();
    schedule_.words.clear();
    ASTER_TRY(analyse(sink));
    ASTER_TRY(choose());
    if (restart_) continue;
    ASTER_TRY(build());
    ASTER_TRY(emit());
    if (!restart_) return kOk;
  }
  return ASTER_FAIL(kINTERNAL, "writes into storage that is read keep conflicting");
}

// What each node would cost to recompute, and which nodes are materialised whatever their users
// are.
Status Rangeify::analyse(Node sink) {
  Vec<Node> nodes(memory_);
  ASTER_TRY(walk(&nodes, std::array{sink}));
  for (Node node : nodes) {
    ASTER_TRY(position_.set(node, static_cast<uint32_t>(records_.size())));
    Record record;
    record.node = node;
    record.held = node->op == Op::kContiguous || node->op == Op::kAssign ||
                  library::computes(node) || forced_.contains(node);
    ASTER_TRY(records_.push(record));
  }
  for (Node root : sink->src()) record_of(root).held = true;
  ASTER_TRY(find_in_place({nodes.data(), nodes.size()}));
  for (Node node : nodes) {
    if (const Node call = library_call(node)) ASTER_TRY(analyse_library(call));
  }
  for (Record& record : records_) summarise(record);
  return kOk;
}

// Scattering into storage that is then assigned the result is one call on that storage, unless
// something else wants the result or an argument is the storage itself.
Status Rangeify::find_in_place(uop::Nodes nodes) {
  Map<Node, uint32_t> users(memory_);
  for (Node node : nodes) {
    for (Node source : node->src()) ASTER_TRY(users.set(source, users.get(source, 0) + 1));
  }
  for (Node node : nodes) {
    if (node->op != Op::kAssign || node->src(1)->op != Op::kScatter) continue;
    const Node target = node->src(0), call = node->src(1);
    Node storage = target;
    while (is_effect(storage->op)) storage = storage->src(0);
    if (storage->op != Op::kParam || call->src(0) != target || users.get(call, 0) != 1) continue;
    bool apart = true;
    for (size_t i = 1; i < call->nsrc; ++i) {
      Node base = nullptr;
      ASTER_TRY(library::view_base(&base, nullptr, g_, call, i));
      while (base != nullptr && is_effect(base->op)) base = base->src(0);
      apart &= base == nullptr || base->op != Op::kParam || !overlap(base, storage);
    }
    if (!apart) continue;
    ASTER_TRY(in_place_.set(node, call));
    record_of(call).held = false;
  }
  return kOk;
}

// The call that computes a node, null for what kernels compute.
Node Rangeify::library_call(Node node) const {
  if (node->op == Op::kAssign) return in_place_.get(node, nullptr);
  return library::computes(node) ? node : nullptr;
}

// Arguments of a library call lie in memory: the node below the views of an argument is
// materialised if those are strides, the argument itself otherwise.
Status Rangeify::analyse_library(Node call) {
  for (size_t i = library::first_argument(call); i < call->nsrc; ++i) {
    Node base = nullptr;
    ASTER_TRY(library::view_base(&base, nullptr, g_, call, i));
    if (base == nullptr) continue;
    Record& record = record_of(base);
    if (!is_effect(base->op) && base->op != Op::kParam) record.held = true;
  }
  return kOk;
}

void Rangeify::summarise(Record& record) {
  Node node = record.node;
  uint32_t count = 0;
  const auto add_leaf = [&](uint32_t leaf) {
    for (uint32_t i = 0; i < count; ++i) {
      if (record.leaves[i] == leaf) return;
    }
    if (count < 4) record.leaves[count++] = leaf;
  };
  const bool library = library_call(node) != nullptr;
  if (node->op == Op::kReduce || library) record.reduces = true;
  record.weight =
      passes_through(node->op) || is_leaf(node->op) ? 0 : static_cast<float>(uop::cost(node));
  const bool adds_up = node->op != Op::kReduce;  // a reduction decides for itself
  const size_t first = node->op == Op::kCall || node->op == Op::kAssign ? 1 : 0;
  for (size_t i = first; i < node->nsrc; ++i) {
    const uint32_t at = *position_.find(node->src(i));
    const Record& source = records_[at];
    if (source.node->op == Op::kParam || source.held || is_effect(source.node->op)) {
      add_leaf(at);
      record.reduces |= library::computes(source.node) && !library && !passes_through(node->op);
      continue;
    }
    for (uint32_t leaf : source.leaves) {
      if (leaf != kNone) add_leaf(leaf);
    }
    record.reduces |= source.reduces;
    if (adds_up) record.weight = std::min(record.weight + source.weight, 1e6f);
  }
}

Status Rangeify::new_slot(uint32_t* out, SlotKind kind, uint32_t index, DType dtype,
                          int64_t count) {
  *out = static_cast<uint32_t>(schedule_.slots.size());
  return schedule_.slots.push(Slot{kind, dtype, index, count, 0, kNone, 0});
}

Status Rangeify::choose() {
  for (size_t at = records_.size(); at-- > 0;) ASTER_TRY(choose_node(static_cast<uint32_t>(at)));
  return kOk;
}

Status Rangeify::choose_node(uint32_t at) {
  Record& record = records_[at];
  const Op op = record.node->op;
  if (op == Op::kSink) return kOk;
  if (op == Op::kParam && !record.held) return check_hazards(record);
  if (op == Op::kAfter && !record.held) return check_hazards(record);
  bool materialise = record.held;
  if (!materialise && record.demand_count > 0 && !is_leaf(op)) {
    if (op == Op::kReduce) {
      materialise = !folds_fit(record);
    } else {
      materialise = !recompute(record);
    }
  }
  if (materialise) return realize(at);
  for (uint32_t d = record.first_demand; d != kNone; d = demands_[d].next) ASTER_TRY(propagate(d));
  return kOk;
}

bool Rangeify::recompute(const Record& record) {
  if (repeats(record.node)) return true;
  if (record.demand_count > kMostDemands) return false;
  if (passes_through(record.node->op)) return true;
  const auto count = static_cast<double>(record.node->count());
  bool same_kernel = true;
  double computed = 0;  // elements, each as often as it is
  const uint32_t kernel = demands_[record.first_demand].kernel;
  for (uint32_t d = record.first_demand; d != kNone; d = demands_[d].next) {
    const Demand& demand = demands_[d];
    same_kernel &= demand.kernel == kernel;
    if (kernels_[demand.kernel].size > kMostNodes) return false;
    if (record.weight < kTranscendental) continue;
    const double times = evaluations(demand);
    computed += times;
    if (times > kMostRepeats * count) return false;
  }
  const bool tiny = record.node->count() <= kTinyTensor;
  if (record.demand_count == 1) return true;
  if (same_kernel && computed <= (tiny ? kMostRepeats : 1) * count) return true;
  if (same_kernel || tiny) return record.weight <= kCheapInside;
  return !record.reduces && record.leaves[3] == kNone && record.weight <= kCheap;
}

// One user computes it inside; several do where it is tiny.
bool Rangeify::folds_fit(const Record& record) {
  if (record.demand_count > (record.node->src(0)->count() <= kTinyTensor ? kMostDemands : 1))
    return false;
  for (uint32_t d = record.first_demand; d != kNone; d = demands_[d].next) {
    if (!fold_fits(record, demands_[d])) return false;
  }
  return true;
}

Status Rangeify::ranges_in(uint64_t* out, Node expr) {
  if (const uint64_t* known = masks_.find(expr)) {
    *out = *known;
    return kOk;
  }
  Vec<Node> nodes(memory_);
  ASTER_TRY(uop::toposort(&nodes, std::array{expr}));
  for (Node node : nodes) {
    if (masks_.contains(node)) continue;
    uint64_t mask = 0;
    if (node->op == Op::kRange) mask = bit_of(node);
    for (Node source : node->src()) mask |= masks_.get(source, 0);
    ASTER_TRY(masks_.set(node, mask));
  }
  *out = masks_.get(expr, 0);
  return kOk;
}

bool Rangeify::ranges_of(uint64_t* out, const Demand& demand) {
  uint64_t set = 0;
  *out = 0;
  for (Node index : index_of(demand)) {
    if (!ranges_in(&set, index).ok()) return false;
    *out |= set;
  }
  if (demand.gate == nullptr) return true;
  if (!ranges_in(&set, demand.gate).ok()) return false;
  *out |= set;
  return true;
}

// How often a place is computed: what depends on outer loops alone stands outside the inner ones.
double Rangeify::evaluations(const Demand& demand) {
  uint64_t mask = 0, seen = 0;
  if (!ranges_of(&mask, demand)) return demand.domain;
  double turns = 1, count = 1;
  for (Node range : kernels_[demand.kernel].ranges) {
    if (range->op != Op::kRange) continue;
    turns *= static_cast<double>(range->arg(1));
    seen |= bit_of(range);
    if ((mask & bit_of(range)) != 0) count = turns;
  }
  return (mask & ~seen) != 0 ? demand.domain : count;
}

// A reduction is computed inside its one user if no loop repeats it: the loops it depends on are
// all loops of the kernel, or come first there, so that it is computed once before the others
// start.
bool Rangeify::fold_fits(const Record& record, const Demand& demand) {
  Kernel& kernel = kernels_[demand.kernel];
  if (kernel.library || kernel.size > kMostNodes) return false;
  uint64_t mask = 0, all = 0;
  if (!ranges_of(&mask, demand)) return false;
  int64_t inside = 1, total = 1;
  // The loops it depends on come before the others as the result lies in memory; or the last is one
  // of them, so that vectors of neighbours are worked on together, and what they read stays cached.
  bool outermost = true, strips = false;
  for (Node range : kernel.ranges) {
    if (range->op != Op::kRange) continue;
    const uint64_t bit = bit_of(range);
    all |= bit;
    total *= range->arg(1);
    outermost &= (mask & bit) == 0 || (all & ~bit & ~mask) == 0;
    if ((mask & bit) != 0) inside *= range->arg(1);
    strips = (mask & bit) != 0 && range->arg(1) >= kWideStrip;
  }
  strips &= record.node->src(0)->count() / std::max<int64_t>(record.node->count(), 1) <= kTallStrip;
  if (mask >> 63 != 0) return false;
  if ((mask & ~all) != 0) {
    // Under a reduction of the same kind, whose terms its own become.
    const double terms = static_cast<double>(record.node->src(0)->count()) /
                         static_cast<double>(record.node->count());
    return demand.under == static_cast<Op>(record.node->arg(0)) && terms <= kTinyFold &&
           demand.domain <= 4 * static_cast<double>(record.node->count());
  }
  if (inside > record.node->count()) return false;
  if (mask == all) return true;
  const bool tiny = std::max(total, record.node->src(0)->count()) <= kTinyKernel;
  if (!tiny && (inside < kFewestRows || !(outermost || strips))) return false;
  return take_prefix(kernel, mask);
}

// Whether the loops in set can come first, given the sets that already must.
bool Rangeify::take_prefix(Kernel& kernel, uint64_t set) {
  size_t at = 0;
  for (; at < kernel.prefixes.size(); ++at) {
    const uint64_t other = kernel.prefixes[at];
    if (other == set) return true;
    if ((set & ~other) == 0) break;
    if ((other & ~set) != 0) return false;
  }
  if (!kernel.prefixes.push(set).ok()) return false;
  for (size_t i = kernel.prefixes.size() - 1; i > at; --i)
    std::swap(kernel.prefixes[i], kernel.prefixes[i - 1]);
  return true;
}

Status Rangeify::realize(uint32_t at) {
  const Node node = records_[at].node;
  Kernel kernel(memory_);
  kernel.record = at;
  kernel.library = library_call(node) != nullptr;
  size_t axis = 0;
  int64_t parts = 1;
  if (!kernel.library) ASTER_TRY(find_parts(&axis, &parts, node));
  for (size_t i = 0; i < node->ndim; ++i) {
    const int64_t dim = i == axis ? node->dim(i) / parts : node->dim(i);
    Node range = dim == 1 ? g_.index(0) : g_.range(kernel.next_range++, dim);
    ASTER_TRY(need(range));
    ASTER_TRY(kernel.ranges.push(range));
  }
  const uint32_t id = static_cast<uint32_t>(kernels_.size());
  ASTER_TRY(kernels_.push(std::move(kernel)));
  records_[at].realized = true;
  records_[at].kernel = id;
  ASTER_TRY(check_hazards(records_[at]));
  if (kernels_[id].library) return kOk;
  if (node->op == Op::kAssign) {
    const Vec<Node>& ranges = kernels_[id].ranges;
    uint32_t param = 0;
    Node position = nullptr;
    ASTER_TRY(target_base(&param, &position, node->src(0), {ranges.data(), ranges.size()}));
    kernels_[id].store_index = position;
  }
  for (int64_t part = 0; part < parts; ++part) {
    const uint32_t index_at = static_cast<uint32_t>(index_.size());
    for (size_t i = 0; i < node->ndim; ++i) {
      Node index = kernels_[id].ranges[i];
      if (i == axis && part > 0) index = sym::add(g_, index, part * (node->dim(i) / parts));
      ASTER_TRY(need(index));
      ASTER_TRY(index_.push(index));
    }
    const uint32_t own = static_cast<uint32_t>(demands_.size());
    Demand d{at,
             id,
             index_at,
             kNone,
             records_[at].first_demand,
             kNone,
             nullptr,
             nullptr,
             static_cast<double>(node->count() / parts),
             Op::kSink,
             true};
    ASTER_TRY(demands_.push(d));
    ASTER_TRY(kernels_[id].places.push(own));
    records_[at].first_demand = own;
    ASTER_TRY(propagate(own));
  }
  return kOk;
}

// The Param and row-major position that an element of a view of storage stands at.
Status Rangeify::target_base(uint32_t* param, Node* position, Node target,
                             std::span<const Node> at) {
  Vec<Node> index(memory_);
  Place place(memory_);
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
    ASTER_TRY(source_place(&place, &own, g_, target, 0, {index.data(), index.size()}, nullptr));
    index.clear();
    ASTER_TRY(index.append(place.index.data(), place.index.size()));
    target = target->src(0);
  }
  *param = *position_.find(target);
  *position = linear_index(g_, target->shape(), {index.data(), index.size()});
  return need(*position);
}

// A kernel that writes a Param must read it only where it writes; otherwise its value is computed
// elsewhere first.
Status Rangeify::check_hazards(const Record& record) {
  const Op op = record.node->op;
  if ((op != Op::kParam && !is_effect(op)) || (op != Op::kAssign && record.realized)) return kOk;
  for (uint32_t d = record.first_demand; d != kNone; d = demands_[d].next) {
    const Demand& demand = demands_[d];
    const Kernel& kernel = kernels_[demand.kernel];
    if (demand.own || kernel.store_index == nullptr) continue;
    const Node assign = records_[kernel.record].node;
    uint32_t from = 0, to = 0;
    Node read = nullptr, unused = nullptr;
    ASTER_TRY(target_base(&from, &read, record.node, index_of(demand)));
    ASTER_TRY(
        target_base(&to, &unused, assign->src(0), {kernel.ranges.data(), kernel.ranges.size()}));
    if (!overlap(records_[from].node, records_[to].node) ||
        (from == to && read == kernel.store_index && demand.gate == nullptr))
      continue;
    ASTER_TRY(forced_.set(assign->src(1), 1));
    restart_ = true;
  }
  return kOk;
}

Status Rangeify::loop_order(Vec<Node>* out, const Kernel& kernel) {
  uint64_t taken = 0;
  const auto take = [&](uint64_t set) -> Status {
    for (Node range : kernel.ranges) {
      if (range->op != Op::kRange) continue;
      const uint64_t bit = bit_of(range);
      if ((set & bit) == 0) continue;
      if (bit >> 63 == 0 && (taken & bit) != 0) continue;
      taken |= bit;
      ASTER_TRY(out->push(range));
    }
    return kOk;
  };
  for (uint64_t set : kernel.prefixes) ASTER_TRY(take(set));
  return take(~uint64_t{0});
}

}  // namespace aster::engine
