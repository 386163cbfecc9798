// Kernels that write storage which they read.
#include <algorithm>

#include "engine/fusion.h"

namespace aster::engine::fusion {
namespace {

// A kernel that writes a Param must read it only where it writes; otherwise its value is computed
// elsewhere first.
class Separation {
 public:
  Separation(Fusion* fusion, Graph& graph, const Analysis& nodes)
      : f_(*fusion), g_(graph), nodes_(nodes) {}

  Status run() {
    bool any = false;
    for (uint32_t at = 0; at < nodes_.records.size(); ++at) {
      const Op op = nodes_.node(at)->op;
      if (op == Op::kAssign || (is_state(op) && !f_.materialised(at)))
        ASTER_TRY(separate_readers(&any, at));
    }
    if (!any) return kOk;
    find_dead();
    return renumber(&f_);
  }

 private:
  // The kernels that read a state of storage and write it elsewhere.
  Status separate_readers(bool* any, uint32_t at) {
    for (uint32_t d = f_.uses[at].first_demand; d != kNone; d = f_.demands[d].next) {
      const Demand& demand = f_.demands[d];
      const Kernel& kernel = f_.kernels[demand.kernel];
      if (demand.own || kernel.store_index == nullptr) continue;
      const Node assign = nodes_.node(kernel.record);
      if (!nodes_.overlap(nodes_.node(at), assign)) continue;
      Node from = nullptr, to = assign, read = nullptr;
      while (to->op != Op::kParam) to = to->src(0);
      ASTER_TRY(
          storage_place(&from, &read, g_, nodes_.node(at), f_.index_of(demand, nodes_.node(at))));
      if (from == to && read == kernel.store_index && demand.gate == nullptr) continue;
      ASTER_TRY(separate(demand.kernel));
      *any = true;
    }
    return kOk;
  }

  // The kernel of an Assign materialises its value instead, and another one writes that.
  Status separate(uint32_t id) {
    const uint32_t own = f_.kernels[id].places[0], assign = f_.kernels[id].record;
    uint32_t& edge = f_.edges[f_.demands[own].edge_at + 1];
    const uint32_t inner = edge, value = f_.demands[inner].record;
    const auto writer = static_cast<uint32_t>(f_.kernels.size());
    Kernel made(f_.kernels.arena());
    made.record = assign;
    made.ranges.append(f_.kernels[id].ranges.all());
    made.places.push(own);
    made.size = 1;
    made.cut = "it is read elsewhere than it is written";
    for (Node range : made.ranges) made.next_range += range->op == Op::kRange;
    made.store_index = f_.kernels[id].store_index;
    f_.uses[assign].kernel = f_.demands[own].kernel = writer;
    Demand read = f_.demands[inner];
    read.kernel = writer;
    read.next = f_.uses[value].first_demand;
    edge = f_.uses[value].first_demand = static_cast<uint32_t>(f_.demands.size());
    f_.demands.push(read);
    f_.kernels.push(std::move(made));
    ASTER_TRY(f_.kernels.arena().status());
    // Where another write made a kernel of the value, this one's is without results.
    Kernel& kernel = f_.kernels[id];
    kernel.store_index = nullptr;
    kernel.record = value;
    kernel.size = std::max(kernel.size - 1, 1u);
    kernel.places.clear();
    if (f_.materialised(value)) return kOk;
    kernel.places.push(inner);
    f_.demands[inner].own = true;
    f_.uses[value].kernel = id;
    return kernel.places.arena().status();
  }

  // What only other places of materialised values were to be computed from.
  void find_dead() {
    for (Demand& demand : f_.demands) demand.dead = !demand.own;
    for (uint32_t at = static_cast<uint32_t>(nodes_.records.size()); at-- > 0;) {
      for (uint32_t d = f_.uses[at].first_demand; d != kNone; d = f_.demands[d].next) {
        const Demand& demand = f_.demands[d];
        if (demand.dead || is_load(nodes_, f_, demand)) continue;
        const Node node = nodes_.node(at);
        for (size_t s = 0; s < node->nsrc; ++s) {
          const uint32_t source = f_.edges[demand.edge_at + s];
          if (source != kNone) f_.demands[source].dead = false;
        }
      }
    }
  }

  Fusion& f_;
  Graph& g_;
  const Analysis& nodes_;
};

}  // namespace

bool is_load(const Analysis& nodes, const Fusion& fusion, const Demand& demand) {
  const Op op = nodes.node(demand.record)->op;
  if (is_state(op)) return true;
  return !is_counted(op) && fusion.materialised(demand.record) && !demand.own;
}

Status separate_writes(Fusion* fusion, Graph& graph, const Analysis& nodes) {
  return Separation(fusion, graph, nodes).run();
}

Status renumber(Fusion* fusion) {
  Arena& memory = fusion->kernels.arena();
  const auto count = static_cast<uint32_t>(fusion->kernels.size());
  List<uint32_t> order(memory), number(memory);
  List<Kernel> kernels(memory);
  for (uint32_t k = 0; k < count; ++k) {
    if (!fusion->kernels[k].places.empty() || fusion->kernels[k].library) order.push(k);
  }
  number.resize(count, kNone);
  ASTER_TRY(memory.status());
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    return fusion->kernels[a].record > fusion->kernels[b].record;
  });
  for (uint32_t k : order) {
    number[k] = static_cast<uint32_t>(kernels.size());
    kernels.push(std::move(fusion->kernels[k]));
  }
  ASTER_TRY(memory.status());
  fusion->kernels = std::move(kernels);
  for (Demand& demand : fusion->demands) demand.kernel = number[demand.kernel];
  for (Use& use : fusion->uses) {
    if (use.kernel != kNone) use.kernel = number[use.kernel];
  }
  return kOk;
}

}  // namespace aster::engine::fusion
