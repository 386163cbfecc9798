// Which kernels wait for which: what touches the same storage runs as the graph's states of it say.
#include <algorithm>
#include <array>
#include <utility>

#include "engine/fusion.h"
#include "engine/rangeify.h"

namespace aster::engine::fusion {
namespace {

// The kernels that write storage, by group of overlapping leaves, and which state sees which write.
class Writers {
 public:
  Writers(const Fusion& fusion, const Analysis& nodes)
      : f_(fusion),
        nodes_(nodes),
        params_(fusion.kernels.arena()),
        sorted_(fusion.kernels.arena()),
        stamps_(fusion.kernels.arena()),
        below_(fusion.kernels.arena()) {}

  Status find() {
    for (uint32_t k = 0; k < f_.kernels.size(); ++k) {
      if (nodes_.node(record(k))->op == Op::kAssign) sorted_.push(k);
    }
    if (sorted_.empty()) return sorted_.arena().status();
    params_.resize(nodes_.records.size(), kNone);
    stamps_.resize(nodes_.records.size(), kNone);
    ASTER_TRY(params_.arena().status());
    for (uint32_t at = 0; at < params_.size(); ++at) {
      const Node node = nodes_.node(at);
      if (node->op == Op::kParam) params_[at] = static_cast<uint32_t>(node->arg(0));
      if (node->nsrc == 0) continue;
      const uint32_t* source = nodes_.position.find(node->src(0));  // none: the body of a call
      if (source != nullptr) params_[at] = params_[*source];
    }
    std::sort(sorted_.begin(), sorted_.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(group(a), record(a)) < std::pair(group(b), record(b));
    });
    return sorted_.arena().status();
  }

  // As they stand in the graph: those of a state's storage, whether they touch what it shows or
  // not.
  std::span<const uint32_t> of(uint32_t state) const {
    if (sorted_.empty()) return {};
    const uint32_t wanted = region(state).group;
    const auto less = [&](uint32_t k, uint32_t g) { return group(k) < g; };
    const auto more = [&](uint32_t g, uint32_t k) { return g < group(k); };
    const uint32_t* begin = std::lower_bound(sorted_.begin(), sorted_.end(), wanted, less);
    return {begin, std::upper_bound(begin, sorted_.end(), wanted, more)};
  }
  uint32_t record(uint32_t kernel) const { return f_.kernels[kernel].record; }
  // Of what a Param, After, Assign or a view of them shows.
  const LeafRegion& region(uint32_t at) const { return nodes_.regions[params_[at]]; }

  // Whether an Assign is done in the state of storage that a record shows: it is below it.
  Status sees(bool* out, uint32_t state, uint32_t assign) {
    const Node node = nodes_.node(state), write = nodes_.node(assign);
    *out = state == assign;
    if (*out || assign > state || node->op == Op::kParam) return kOk;
    *out = node->op == Op::kAfter && std::ranges::count(node->src().subspan(1), write) != 0;
    if (*out) return kOk;
    if (looked_below_ != state) {
      below_.clear();
      ASTER_TRY(walk(&below_, std::array{node}));
      for (Node other : below_) stamps_[nodes_.at(other)] = state;
      looked_below_ = state;
    }
    *out = stamps_[assign] == state;
    return kOk;
  }

 private:
  uint32_t group(uint32_t kernel) const { return region(record(kernel)).group; }

  const Fusion& f_;
  const Analysis& nodes_;
  List<uint32_t> params_;  // below each record
  List<uint32_t> sorted_;  // kernels: by group, then as they stand in the graph
  List<uint32_t> stamps_;  // of each record: the state that was looked below last and has it there
  List<Node> below_;
  uint32_t looked_below_ = kNone;
};

class Order {
 public:
  Order(Fusion* fusion, Graph& graph, const Analysis& nodes)
      : f_(*fusion), g_(graph), nodes_(nodes), circular_(fusion->kernels.arena()) {}

  Status run() {
    ASTER_TRY(link());
    ASTER_TRY(find_circular());
    if (circular_.empty()) return kOk;
    ASTER_TRY(copy_overwritten());
    ASTER_TRY(link());
    ASTER_TRY(find_circular());
    if (circular_.empty()) return kOk;
    // Tensors' own assignments come in an order; nodes that callers build may have none.
    return ASTER_FAIL(kUNSUPPORTED, "writes into storage that is read conflict");
  }

 private:
  void read(Kernel& kernel, uint32_t at);
  void find_reads();
  Status link();
  Status link_reader(Writers* writers, uint32_t reader, uint32_t state);
  Status find_circular();
  Status copy_overwritten();

  Fusion& f_;
  Graph& g_;
  const Analysis& nodes_;
  List<uint8_t> circular_;  // of each kernel: whether it waits for itself; none if none does
};

// What a kernel reads in memory: storage, or what others materialise.
void Order::read(Kernel& kernel, uint32_t at) {
  const uint32_t own = f_.uses[kernel.record].kernel;
  const Node node = nodes_.node(at);
  const bool copied = is_state(node->op) && f_.materialised(at) && at != kernel.record;
  if (!copied && (is_state(node->op) || node->op == Op::kAssign)) kernel.reads.push_once(at);
  if (f_.materialised(at) && f_.uses[at].kernel != own) kernel.after.push_once(f_.uses[at].kernel);
  if (node->op != Op::kAfter || copied) return;
  for (Node effect : node->src().subspan(1)) {
    const uint32_t writer = f_.uses[nodes_.at(effect)].kernel;
    if (writer != kNone && writer != own) kernel.after.push_once(writer);
  }
}

void Order::find_reads() {
  for (Kernel& kernel : f_.kernels) {
    kernel.reads.clear();
    kernel.after.clear();
  }
  for (uint32_t at = 0; at < nodes_.records.size(); ++at) {
    for (uint32_t d = f_.uses[at].first_demand; d != kNone; d = f_.demands[d].next) {
      const Demand& demand = f_.demands[d];
      if (!demand.dead && is_load(nodes_, f_, demand)) read(f_.kernels[demand.kernel], at);
    }
  }
  for (Kernel& kernel : f_.kernels) {
    if (!kernel.library) continue;
    const Node call = nodes_.library_call(nodes_.node(kernel.record));
    for (const Argument& argument : nodes_.arguments_of(call)) {
      if (argument.base != kNone) read(kernel, argument.base);
    }
  }
}

// A reader comes after the writes below the node that it reads through and before all others;
// writers come as they stand in the graph. What another one's order implies is left out: where a
// write covers a region, whatever overlaps that is ordered by it.
Status Order::link() {
  find_reads();
  Writers writers(f_, nodes_);
  ASTER_TRY(writers.find());
  for (uint32_t r = 0; r < f_.kernels.size(); ++r) {
    for (uint32_t state : f_.kernels[r].reads) ASTER_TRY(link_reader(&writers, r, state));
    const uint32_t own = f_.kernels[r].record;
    if (nodes_.node(own)->op != Op::kAssign) continue;
    const std::span<const uint32_t> all = writers.of(own);
    for (size_t i = all.size(); i-- > 0;) {
      const uint32_t earlier = writers.record(all[i]);
      const LeafRegion& other = writers.region(earlier);
      if (earlier >= own || !other.overlaps(writers.region(own))) continue;
      f_.kernels[r].after.push_once(all[i]);
      if (other.contains(writers.region(own))) break;
    }
  }
  return f_.kernels.arena().status();
}

Status Order::link_reader(Writers* writers, uint32_t reader, uint32_t state) {
  const std::span<const uint32_t> all = writers->of(state);
  if (all.empty()) return kOk;
  const LeafRegion& region = writers->region(state);
  bool covered = false;  // by a write that the state sees
  for (size_t i = all.size(); i-- > 0;) {
    const uint32_t w = all[i], write = writers->record(w);
    if (write > state || !writers->region(write).overlaps(region)) continue;
    bool seen = false;
    ASTER_TRY(writers->sees(&seen, state, write));
    if (w != reader && !seen) f_.kernels[w].after.push_once(reader);
    if (w != reader && seen && !covered) f_.kernels[reader].after.push_once(w);
    covered |= seen && writers->region(write).contains(region);
  }
  for (const uint32_t w : all) {
    const uint32_t write = writers->record(w);
    if (write <= state || !writers->region(write).overlaps(region)) continue;
    if (w != reader) f_.kernels[w].after.push_once(reader);
    if (writers->region(write).contains(region)) break;
  }
  return kOk;
}

// Kernels that wait for themselves by way of others, and those between such: what is left when
// kernels that wait for none of the others, and those that none waits for, are taken away.
Status Order::find_circular() {
  const size_t count = f_.kernels.size();
  circular_.clear();
  bool straight = true;  // all wait for kernels of nodes below theirs
  for (uint32_t k = 0; k < count; ++k) {
    for (uint32_t earlier : f_.kernels[k].after) straight &= earlier > k;
  }
  if (straight) return kOk;
  List<List<uint32_t>> users(circular_.arena());
  List<uint32_t> before(circular_.arena()), behind(circular_.arena()), stack(circular_.arena());
  for (size_t k = 0; k < count; ++k) users.push(List<uint32_t>(circular_.arena()));
  before.resize(count);
  behind.resize(count);
  circular_.resize(count, 1);
  ASTER_TRY(circular_.arena().status());
  for (uint32_t k = 0; k < count; ++k) {
    before[k] = static_cast<uint32_t>(f_.kernels[k].after.size());
    for (uint32_t earlier : f_.kernels[k].after) {
      users[earlier].push(k);
      ++behind[earlier];
    }
  }
  size_t left = count;
  const auto take = [&](uint32_t k) {
    if (circular_[k] == 0 || (before[k] != 0 && behind[k] != 0)) return;
    circular_[k] = 0;
    --left;
    stack.push(k);
  };
  for (uint32_t k = 0; k < count; ++k) {
    take(k);
    while (!stack.empty()) {
      const uint32_t done = stack.back();
      stack.pop();
      for (uint32_t user : users[done]) --before[user], take(user);
      for (uint32_t earlier : f_.kernels[done].after) --behind[earlier], take(earlier);
    }
  }
  if (left == 0) circular_.clear();
  return circular_.arena().status();
}

// Something reads one storage in two states: those that are overwritten meanwhile are copied first.
Status Order::copy_overwritten() {
  Writers writers(f_, nodes_);
  ASTER_TRY(writers.find());
  List<uint32_t> states(circular_.arena());
  for (uint32_t reader = 0; reader < circular_.size(); ++reader) {
    if (circular_[reader] == 0) continue;
    for (uint32_t state : f_.kernels[reader].reads) {
      if (!is_state(nodes_.node(state)->op)) continue;
      for (const uint32_t w : writers.of(state)) {
        const uint32_t write = writers.record(w);
        if (w == reader || circular_[w] == 0) continue;
        if (!writers.region(write).overlaps(writers.region(state))) continue;
        bool seen = false;
        ASTER_TRY(writers.sees(&seen, state, write));
        if (!seen) states.push_once(state);
      }
    }
  }
  uint32_t kernel = 0;
  for (uint32_t state : states) {
    ASTER_TRY(add_kernel(&kernel, g_, nodes_, &f_, state, 0, 1));
    f_.kernels[kernel].cut = "storage is read as it was before a write";
    f_.kernels[kernel].size = 1;
  }
  return renumber(&f_);
}

}  // namespace

Status find_order(Fusion* fusion, Graph& graph, const Analysis& nodes) {
  return Order(fusion, graph, nodes).run();
}

}  // namespace aster::engine::fusion
