// Blocks that the items of a group share: what may be planned so, what is read through local
// memory, and when either is worth it.
#include <algorithm>
#include <bit>

#include "codegen/planner.h"

namespace aster::codegen {

DType register_type(Node fold) {
  if (fold->dtype == DType::kWeakInt) return DType::kInt64;
  if (dtype::is_narrow_float(fold->dtype)) return DType::kFloat32;
  return fold->dtype == DType::kWeakFloat ? DType::kFloat64 : fold->dtype;
}

bool may_share_block(const Kernel& kernel, int root) {
  const Segment& s = kernel.segments[static_cast<size_t>(root)];
  if (kernel.roots.size() != 1 || s.parent >= 0 || !s.children.empty() || s.stores < 0 ||
      s.ranges.count == 0 || kernel.carried() != 0 || reads_what_it_writes(kernel, root)) {
    return false;
  }
  const Vec<Node>& stores = kernel.regions[static_cast<size_t>(s.stores)].roots;
  return std::ranges::all_of(stores, [&](Node store) {
    return std::ranges::all_of(s.ranges,
                               [&](int range) { return has(kernel.ranges(store->src(1)), range); });
  });
}

int64_t packed_length(const Kernel& kernel, const Plan& plan, int root, const Region& region,
                      int range) {
  const SegmentPlan& own = plan.at(root);
  if (!has(region.own.set(), range)) return block_length(kernel, own, range);
  const Vec<int>& folds = kernel.segments[static_cast<size_t>(root)].folds;
  for (size_t i = 0; i < folds.size(); ++i) {
    if (&kernel.regions[static_cast<size_t>(folds[i])] != &region) continue;
    const Loop& first = own.folds[i].loops[0];
    if (own.folds[i].loop_count > 0 && first.range == range && first.block != 0) return first.block;
  }
  return kernel.size(range);
}

bool is_packed(const Kernel& kernel, const Plan& plan, int root, const Region& region,
               const Access& access) {
  const Vec<int>& slots = plan.at(root).packed;
  const Node load = access.node;
  if (access.store || load->nsrc > 2 || kernel.written(load->src(0)) ||
      std::ranges::find(slots, static_cast<int>(load->src(0)->arg(0))) == slots.end()) {
    return false;
  }
  bool shared = false;
  for (const uop::sym::Term& term : kernel.form(load->src(1)).terms) {
    if (term.node->op != Op::kRange) return false;
    const int range = static_cast<int>(term.node->arg(0));
    shared |= packed_length(kernel, plan, root, region, range) > 1;
  }
  return shared;
}

PackedBlock packed_block(const Kernel& kernel, const Plan& plan, int root, const Region& region,
                         Node load) {
  PackedBlock out;
  const auto stride = [&](int range) {
    const int64_t k = kernel.stride(load->src(1), range);
    return k < 0 ? -static_cast<uint64_t>(k) : static_cast<uint64_t>(k);
  };
  for (const uop::sym::Term& term : kernel.form(load->src(1)).terms) {
    const auto range = static_cast<uint8_t>(term.node->arg(0));
    if (packed_length(kernel, plan, root, region, range) > 1) out.ranges[out.count++] = range;
  }
  std::sort(out.ranges, out.ranges + out.count,
            [&](int a, int b) { return stride(a) != stride(b) ? stride(a) > stride(b) : a < b; });
  constexpr int64_t kMost = int64_t{1} << 30;
  for (int i = out.count; i-- > 0;) {
    out.length[i] = packed_length(kernel, plan, root, region, out.ranges[i]);
    out.stride[i] = out.elements;
    const bool rows = i + 1 == out.count && i > 0;  // of odd length, against conflicts of banks
    out.elements = std::min(kMost, out.elements * std::min(kMost, out.length[i] | (rows ? 1 : 0)));
    out.copied = std::min(kMost, out.copied * std::min(kMost, out.length[i]));
  }
  return out;
}

int64_t local_bytes(const Kernel& kernel, const Plan& plan, int root) {
  const SegmentPlan& own = plan.at(root);
  int64_t bytes = 0;
  each_packed(kernel, plan, root, [&](const Region& region, const Access& a) {
    bytes += packed_block(kernel, plan, root, region, a.node).elements *
             static_cast<int64_t>(dtype::size(a.node->dtype));
  });
  if (block_steps(kernel, own) >= own.items) return bytes;
  for (int r : kernel.segments[static_cast<size_t>(root)].folds) {
    for (Node fold : kernel.regions[static_cast<size_t>(r)].roots) {
      bytes += int64_t{1} * own.items * own.nest.lanes *
               static_cast<int64_t>(dtype::size(register_type(fold)));
    }
  }
  return bytes;
}

namespace {

constexpr int64_t kTransposed = 32;  // rows and columns of a block
constexpr int64_t kColumns = 16;     // steps of a block whose folds are split
constexpr int64_t kTerms = 32;       // of rows in local memory at one time
constexpr int64_t kProduct = 16;     // of contractions
constexpr int64_t kTile = 4;         // copies that an item has of either side
constexpr int64_t kMostItems = 256;  // of a group
constexpr int64_t kBusyGroups = 128;

class Sharing {
 public:
  Sharing(Plan& plan, const Kernel& kernel, const Target& target, int root)
      : plan_(plan),
        own_(plan.segments[static_cast<size_t>(root)]),
        kernel_(kernel),
        target_(target),
        root_(root),
        segment_(kernel.segments[static_cast<size_t>(root)]),
        most_(std::max(target.group, target.group_limit)) {}

  // *made: whether there is such a plan; without one the vectors are as they were.
  Status run(bool* made) {
    const Nest nest = own_.nest;
    Vec<Nest> folds(plan_.segments.memory());
    ASTER_TRY(folds.append(own_.folds.data(), own_.folds.size()));
    using Kind = Status (Sharing::*)(bool*);
    static constexpr Kind kPlain[] = {&Sharing::transpose};
    static constexpr Kind kFolds[] = {&Sharing::product, &Sharing::rows, &Sharing::columns};
    const std::span<const Kind> kinds =
        segment_.folds.empty() ? std::span<const Kind>(kPlain) : std::span<const Kind>(kFolds);
    for (Kind kind : kinds) {
      ASTER_TRY((this->*kind)(made));
      *made = *made && local_bytes(kernel_, plan_, root_) <= target_.local_bytes &&
              own_.tasks.loops <= Tasks::kMostLoops;
      if (*made) return kOk;
      own_.nest = nest;
      std::copy(folds.begin(), folds.end(), own_.folds.begin());
      own_.tasks = {};
      own_.packed.clear();
      own_.items = 0;
    }
    return kOk;
  }

 private:
  const Region& region(int i) const { return kernel_.regions[static_cast<size_t>(i)]; }
  int64_t stride(const Access& a, int range) const {
    const int64_t k = has(a.opaque, range) ? 0 : kernel_.stride(a.node->src(1), range);
    return k < 0 ? -k : k;
  }
  // The range along which what is stored lies element after element.
  int stored_along() const {
    for (int range : segment_.ranges) {
      if (kernel_.stride(region(segment_.stores).roots[0]->src(1), range) == 1) return range;
    }
    return -1;
  }
  // Tasks along all ranges, in blocks along those named, which the items share.
  void order(std::initializer_list<std::pair<int, int64_t>> blocks) {
    Nest& nest = own_.nest;
    nest.loop_count = 0;
    const auto named = [&](int range) {
      return std::ranges::any_of(blocks, [&](const auto& one) { return one.first == range; });
    };
    for (int range : segment_.ranges) {
      if (!named(range)) nest.loops[nest.loop_count++] = Loop{range};
    }
    for (const auto& [range, block] : blocks) nest.loops[nest.loop_count++] = Loop{range, block};
    own_.tasks.loops = nest.loop_count;
    own_.tasks.chunk = nest.loop_step(nest.loop_count - 1);
    for (const auto& [range, block] : blocks) nest.loops[nest.loop_count++] = Loop{range};
  }
  // Folds one term after another; of the first range so many at one time, the longest one first.
  void order_folds(int64_t block) {
    for (size_t i = 0; i < own_.folds.size(); ++i) {
      Nest& nest = own_.folds[i] = Nest{};
      RangeList own = region(segment_.folds[i]).own;
      const auto longest = std::max_element(own.at, own.at + own.count, [&](int a, int b) {
        return kernel_.size(a) < kernel_.size(b);
      });
      if (longest != own.at + own.count) std::rotate(own.at, longest, longest + 1);
      if (block != 0 && own.count != 0 && kernel_.size(own.at[0]) > block)
        nest.loops[nest.loop_count++] = Loop{own.at[0], block};
      for (int range : own) nest.loops[nest.loop_count++] = Loop{range};
    }
  }
  template <typename Asks>
  Status pack(const Region& from, Asks asks) {
    for (const Access& a : from.accesses) {
      const int slot = static_cast<int>(a.node->src(0)->arg(0));
      const auto known = std::ranges::find(own_.packed, slot) != own_.packed.end();
      if (a.store || known || a.opaque != 0 || a.gate != 0 || !asks(a)) continue;
      ASTER_TRY(own_.packed.push(slot));
      if (!is_packed(kernel_, plan_, root_, from, a)) own_.packed.pop();
    }
    std::sort(own_.packed.begin(), own_.packed.end());
    return kOk;
  }
  int64_t length_of(const Region& r) const {
    int64_t out = 1;
    for (int range : r.own) out *= std::min(kernel_.size(range), int64_t{1} << 20);
    return out;
  }
  double results() const {
    double out = 1;
    for (int range : segment_.ranges) out *= static_cast<double>(kernel_.size(range));
    return out;
  }

  // What is stored along one range and read along another goes through a block of both.
  Status transpose(bool* made) {
    const int along = stored_along();
    int across = -1;
    const auto crosses = [&](const Access& a, int range) {
      return range != along && stride(a, range) == 1 && stride(a, along) > 4 &&
             kernel_.size(range) >= kTransposed / 2;
    };
    if (along < 0 || kernel_.size(along) < kTransposed / 2) return kOk;
    for (const Access& a : region(segment_.stores).accesses) {
      for (int range : segment_.ranges) {
        if (!a.store && a.opaque == 0 && a.gate == 0 && across < 0 && crosses(a, range))
          across = range;
      }
    }
    if (across < 0) return kOk;
    own_.nest.vector = -1, own_.nest.lanes = 1;
    own_.items = target_.group;
    order({{across, kTransposed}, {along, kTransposed}});
    ASTER_TRY(pack(region(segment_.stores), [&](const Access& a) { return crosses(a, across); }));
    *made = !own_.packed.empty() && target_.group <= kTransposed * kTransposed;
    return kOk;
  }

  // Rows too short for a group: each item has its own, which all of them bring.
  Status rows(bool* made) {
    if (own_.nest.vector >= 0) return kOk;
    const int row = segment_.ranges.at[segment_.ranges.count - 1];
    if (kernel_.size(row) < target_.group) return kOk;
    for (int f : segment_.folds) {
      if (region(f).own.count != 1 && length_of(region(f)) > kTerms) return kOk;
    }
    own_.items = target_.group;
    order({{row, own_.items}});
    order_folds(kTerms);
    for (int f : segment_.folds) {
      const RangeList& own = region(f).own;
      ASTER_TRY(pack(region(f), [&](const Access& a) {
        return stride(a, row) > 1 &&
               std::ranges::any_of(own, [&](int range) { return stride(a, range) == 1; });
      }));
    }
    *made = !own_.packed.empty();
    return kOk;
  }

  // Few columns, of many rows: items beside each other take columns, those behind them other rows.
  Status columns(bool* made) {
    Nest& nest = own_.nest;
    if (nest.vector < 0) return kOk;
    const int v = nest.vector;
    if (kernel_.size(v) % nest.lanes != 0) nest.vector = -1, nest.lanes = 1;
    const int64_t steps = (kernel_.size(v) + nest.lanes - 1) / nest.lanes;
    int64_t rows = INT64_MAX;
    for (int f : segment_.folds) {
      int64_t longest = 0;
      for (int range : region(f).own) longest = std::max(longest, kernel_.size(range));
      rows = std::min(rows, longest);
      for (Node fold : region(f).roots) {
        if (fold->dtype == DType::kBool) return kOk;
      }
    }
    if (results() / nest.lanes >= static_cast<double>(target_.machine.items)) return kOk;
    const int64_t most = std::min<int64_t>(most_, kMostItems);
    const int64_t across = std::min<int64_t>(
        {kColumns, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(steps))), most / 2});
    int64_t parts = most / std::max<int64_t>(across, 1);
    while (parts > 1 && parts * 4 > rows) parts /= 2;
    if (across < 1 || parts < 2) return kOk;
    own_.items = static_cast<int>(across * parts);
    order({{v, across * nest.lanes}});
    order_folds(0);
    *made = true;
    return kOk;
  }

  // Sums of products: a group has a block of both operands, an item a tile of the block's results.
  Status product(bool* made) {
    if (segment_.folds.size() != 1 || region(segment_.folds[0]).own.count != 1) return kOk;
    const Region& body = region(segment_.folds[0]);
    const int term = body.own.at[0], column = stored_along();
    if (column < 0 || kernel_.size(term) < kProduct) return kOk;
    int row = -1;
    const auto reads = [&](const Access& a, int with, int without) {
      return !a.store && a.opaque == 0 && a.gate == 0 && has(a.ranges, term) &&
             has(a.ranges, with) && !has(a.ranges, without);
    };
    const auto any = [&](int with, int without) {
      return std::ranges::any_of(body.accesses,
                                 [&](const Access& a) { return reads(a, with, without); });
    };
    for (int range : segment_.ranges) {
      if (range != column && any(range, column) && any(column, range) &&
          (row < 0 || kernel_.size(range) > kernel_.size(row)))
        row = range;
    }
    const int64_t most = std::min<int64_t>(most_, kMostItems);
    int64_t side = 1;
    while (4 * side * side <= most) side *= 2;
    const auto groups = [&] {
      return results() / static_cast<double>(side * kTile * side * kTile);
    };
    while (side > 8 && groups() < kBusyGroups) side /= 2;
    if (row < 0 || side < 2 || kernel_.size(row) < 2 * side || kernel_.size(column) < 2 * side)
      return kOk;
    Nest& nest = own_.nest;
    nest.tile_count = 0;
    const int64_t lanes = std::min<int64_t>(kTile, most_lanes(kernel_, target_, root_, column));
    const bool vectors = lanes == kTile && kernel_.size(column) % kTile == 0;
    nest.vector = vectors ? column : -1;
    nest.lanes = vectors ? static_cast<int>(kTile) : 1;
    nest.tiles[nest.tile_count++] = Tile{row, kTile};
    if (!vectors) nest.tiles[nest.tile_count++] = Tile{column, kTile};
    own_.items = static_cast<int>(side * side);
    order({{row, side * kTile}, {column, side * kTile}});
    order_folds(kProduct);
    ASTER_TRY(pack(
        body, [&](const Access& a) { return reads(a, row, column) || reads(a, column, row); }));
    *made = !own_.packed.empty();
    return kOk;
  }

  Plan& plan_;
  SegmentPlan& own_;
  const Kernel& kernel_;
  const Target& target_;
  const int root_;
  const Segment& segment_;
  const int most_;
};

}  // namespace

Status share_block(bool* made, Plan* plan, const Kernel& kernel, const Target& target, int root) {
  *made = false;
  if (target.group < 2 || plan->general || !may_share_block(kernel, root)) return kOk;
  return Sharing(*plan, kernel, target, root).run(made);
}

}  // namespace aster::codegen
