// What lowering relies on, of plans from anywhere.
#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>

#include "codegen/planner.h"

namespace aster::codegen {
namespace {

constexpr int64_t kMostPacked = int64_t{1} << 24;  // elements of a copy

class Check {
 public:
  Check(const Plan& plan, const Kernel& kernel, const Target& target)
      : plan_(plan), kernel_(kernel), target_(target) {}

  Status run() {
    if (plan_.segments.size() != kernel_.segments.size()) {
      return ASTER_FAIL(kARGUMENT, "plan: %zu segments, the kernel has %zu", plan_.segments.size(),
                        kernel_.segments.size());
    }
    for (size_t i = 0; i < plan_.segments.size(); ++i) {
      at_ = static_cast<int>(i);
      group_ = -1;
      ASTER_TRY(segment());
      for (size_t g = 0; g < plan_.at(at_).folds.size(); ++g) {
        group_ = static_cast<int>(g);
        ASTER_TRY(
            folds(kernel_.regions[static_cast<size_t>(own().folds[g])], plan_.at(at_).folds[g]));
      }
    }
    return kOk;
  }

 private:
  const Segment& own() const { return kernel_.segments[static_cast<size_t>(at_)]; }

  [[gnu::format(printf, 3, 4)]] Status wrong(const char* field, const char* format, ...) const {
    char said[160], line[24];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(said, sizeof(said), format, arguments);
    va_end(arguments);
    std::snprintf(line, sizeof(line), group_ < 0 ? "%d" : "%d.%d", at_, group_);
    return ASTER_FAIL(kARGUMENT, "plan %s: %s: %s", line, field, said);
  }

  Status segment() {
    const SegmentPlan& plan = plan_.at(at_);
    if (plan.folds.size() != own().folds.size()) {
      return wrong("folds", "%zu groups, the kernel has %zu", plan.folds.size(),
                   own().folds.size());
    }
    int around = -1;
    for (int s = own().parent; s >= 0; s = kernel_.segments[static_cast<size_t>(s)].parent)
      around = std::max(around, plan_.at(s).nest.vector);
    ASTER_TRY(vector(plan.nest, own().ranges.set(), around >= 0));
    if (plan.nest.vector >= 0) {
      ASTER_TRY(lanes(plan.nest, most_lanes(kernel_, target_, at_, plan.nest.vector)));
    }
    ASTER_TRY(tiles(plan.nest, own().ranges.set()));
    if (plan.nest.written != 0) return wrong("written", "ranges of folds alone");
    ASTER_TRY(order(plan.nest, own().ranges.set()));
    ASTER_TRY(blocks(plan.nest));
    ASTER_TRY(plan.shares_block() ? no_rests(plan.nest) : rests(plan.nest));
    ASTER_TRY(carries(plan));
    ASTER_TRY(tasks(plan));
    ASTER_TRY(streams(plan));
    ASTER_TRY(rolled(plan));
    if (plan.kept && (target_.language == Language::kOpencl ||
                      kept_value(kernel_, plan_, at_).folded == nullptr))
      return wrong("kept", "the folds around compute nothing that is stored here");
    ASTER_TRY(plan.shares_block() ? block(plan) : items(plan));
    return plan.shares_block() ? packed(plan) : panels(plan);
  }

  Status folds(const Region& region, const Nest& nest) {
    bool around = false;
    for (int s = at_; s >= 0; s = kernel_.segments[static_cast<size_t>(s)].parent)
      around |= plan_.at(s).nest.vector >= 0;
    ASTER_TRY(vector(nest, region.own.set(), around));
    if (nest.vector >= 0) ASTER_TRY(lanes(nest, most_lanes(kernel_, target_, region, nest.vector)));
    ASTER_TRY(tiles(nest, region.own.set()));
    for (int i = 0; i < nest.tile_count; ++i) {
      if (nest.tiles[i].range != nest.vector)
        return wrong("tile", "r%d is not what these folds are vectorised along",
                     nest.tiles[i].range);
      if (!std::has_single_bit(static_cast<unsigned>(nest.tiles[i].copies)))
        return wrong("tile", "%d copies are no power of two", nest.tiles[i].copies);
    }
    if ((nest.written & ~region.own.set()) != 0)
      return wrong("written", "a range that is none of these folds'");
    if (nest.vector >= 0 && has(nest.written, nest.vector))
      return wrong("written", "r%d is vectorised", nest.vector);
    int64_t length = 1;
    for (int range : region.own) {
      if (has(nest.written, range)) length *= std::min(kernel_.size(range), kMostWritten + 1);
      if (length > kMostWritten)
        return wrong("written", "more than %d iterations", static_cast<int>(kMostWritten));
    }
    ASTER_TRY(order(nest, region.own.set() & ~nest.written));
    if (plan_.at(at_).shares_block()) return block_folds(region, nest);
    ASTER_TRY(fold_rest(nest));
    return parts(nest);
  }

  // Folds that go part by part, and those that look into one of them.
  Status parts(const Nest& nest) const {
    const Vec<Nest>& all = plan_.at(at_).folds;
    const auto group = static_cast<size_t>(group_);
    for (int i = 0; i < nest.loop_count; ++i) {
      const int64_t part = nest.loops[i].block;
      if (part == 0) continue;
      if (sum_block(plan_.at(at_)) != 0 && may_sum_by_blocks(kernel_, plan_, at_) &&
          target_.language != Language::kOpencl) {
        const Nest& around = plan_.at(at_).nest;
        RangeSet inside = 0;
        for (int j = sum_loop(kernel_, plan_, at_); j < around.loop_count; ++j)
          inside |= range_bit(around.loops[j].range);
        int64_t sums = 1;
        for (int range : own().ranges) {
          const int64_t elements = has(inside, range) ? kernel_.size(range) : 0;
          sums = std::min(sums * (elements + around.step(range)), kMostPacked + 1);
        }
        if (i != 0 || part >= kernel_.size(nest.loops[0].range) || sums > kMostPacked)
          return wrong("order", "a block of all terms of r%d, or too many sums",
                       nest.loops[0].range);
        continue;
      }
      if (i != 0 || nest.loop_count != 2 || !may_go_by_parts(kernel_, plan_, at_, group))
        return wrong("order", "blocks are of segments, and of what the next folds look for");
      const Nest& next = all[group + 1];
      if (kernel_.size(nest.vector) < part || part % nest.step(nest.vector) != 0 ||
          part % next.step(next.vector) != 0 || next.loop_count != 1) {
        return wrong("order", "parts of %lld are no whole steps within r%d",
                     static_cast<long long>(part), nest.vector);
      }
    }
    return kOk;
  }

  Status vector(const Nest& nest, RangeSet ranges, bool around) const {
    if (nest.vector < 0) return kOk;
    if (!has(ranges, nest.vector)) return wrong("vector", "r%d is none of its ranges", nest.vector);
    if (around) return wrong("vector", "a segment around is vectorised");
    return kOk;
  }

  Status lanes(const Nest& nest, int most) const {
    if (nest.lanes < 2 || !std::has_single_bit(static_cast<unsigned>(nest.lanes)))
      return wrong("vector", "%d lanes are no power of two", nest.lanes);
    if (nest.lanes > most)
      return wrong("vector", "%d lanes, the target computes this in %d", nest.lanes, most);
    const bool part = nest.vector_rest == Rest::kMask && nest.lanes < 2 * kernel_.size(nest.vector);
    if (nest.lanes > kernel_.size(nest.vector) && !part)
      return wrong("vector", "r%d has fewer than %d elements", nest.vector, nest.lanes);
    return kOk;
  }

  Status tiles(const Nest& nest, RangeSet ranges) const {
    int64_t copies = 1;
    for (int i = 0; i < nest.tile_count; ++i) {
      const Tile& tile = nest.tiles[i];
      if (!has(ranges, tile.range)) return wrong("tile", "r%d is none of its ranges", tile.range);
      if (nest.tile(tile.range) != &tile) return wrong("tile", "r%d is tiled twice", tile.range);
      if (tile.copies < 2) return wrong("tile", "r%d has no copies", tile.range);
      copies *= tile.copies;
      if (copies > static_cast<int64_t>(program::kMaxSteps))
        return wrong("tile", "more than %d copies", static_cast<int>(program::kMaxSteps));
    }
    return kOk;
  }

  // Each of the ranges has one loop.
  Status order(const Nest& nest, RangeSet ranges) const {
    RangeSet seen = 0;
    for (int i = 0; i < nest.loop_count; ++i) {
      const Loop& loop = nest.loops[i];
      if (!has(ranges, loop.range)) return wrong("order", "r%d is none of its ranges", loop.range);
      if (has(seen, loop.range)) return wrong("order", "r%d is behind its own loop", loop.range);
      if (loop.block == 0) seen |= range_bit(loop.range);
    }
    if (const RangeSet left = ranges & ~seen; left != 0)
      return wrong("order", "r%d has no loop", std::countr_zero(left));
    return kOk;
  }

  Status blocks(const Nest& nest) const {
    for (int i = 0; i < nest.loop_count; ++i) {
      const Loop& loop = nest.loops[i];
      if (loop.block == 0) continue;
      int next = i + 1;
      while (nest.loops[next].range != loop.range) ++next;  // its loop stands behind it
      if (loop.block % nest.loop_step(next) != 0) {
        return wrong("order", "blocks of %lld are no whole steps of r%d",
                     static_cast<long long>(loop.block), loop.range);
      }
    }
    return kOk;
  }

  Status rests(const Nest& nest) const {
    const bool again = reads_what_it_writes(kernel_, at_);
    for (int range : own().ranges) {
      const int64_t step = nest.step(range), size = kernel_.size(range);
      const char* const field = nest.tile(range) != nullptr ? "tile" : "vector";
      const Rest rest = nest.rest(range);
      if (rest == Rest::kMask) {
        if (!may_leave_lanes_out(kernel_, plan_, at_))
          return wrong(field, "only folds and ranges of less than a vector leave lanes out");
        continue;
      }
      if (rest == Rest::kThen) {
        if (plan_.general || !last_steps_fit(kernel_, plan_.at(at_), range))
          return wrong(field, "steps of fewer copies do not cover what is left of r%d", range);
        continue;
      }
      if (rest == Rest::kEven && size % step != 0) {
        return wrong(field, "steps of %lld leave a rest of r%d", static_cast<long long>(step),
                     range);
      }
      if (rest == Rest::kOverlap && again)
        return wrong(field, "overlap of r%d, and the kernel reads what it writes", range);
      if (rest == Rest::kOverlap && step > size)
        return wrong(field, "overlap of r%d, which is shorter than a step", range);
    }
    return unused_rest(nest);
  }
  // What is carried goes along one loop, the innermost, one step after the other.
  Status carries(const SegmentPlan& plan) const {
    const Nest& nest = plan.nest;
    for (int i = 0; i < nest.loop_count; ++i) {
      const int range = nest.loops[i].range;
      if (!has(kernel_.carried() & own().ranges.set(), range)) continue;
      if (i + 1 < nest.loop_count) return wrong("order", "r%d is carried along", range);
      if (nest.tile(range) != nullptr) return wrong("tile", "r%d is carried along", range);
      if (plan.tasks.loops > i) return wrong("tasks", "r%d is carried along", range);
      if (nest.rest(range) == Rest::kOverlap) return wrong("vector", "r%d is carried along", range);
      if (plan.rolled != 0) return wrong("rolled", "r%d is carried along", range);
    }
    return kOk;
  }

  Status unused_rest(const Nest& nest) const {
    const bool tiled = nest.vector < 0 || nest.tile(nest.vector) != nullptr;
    if (tiled && nest.vector_rest != Rest::kEven)
      return wrong("vector", "the tile of r%d says what is left", nest.vector);
    return kOk;
  }

  Status fold_rest(const Nest& nest) const {
    if (nest.vector >= 0) {
      const Rest rest = nest.rest(nest.vector);
      const bool even = kernel_.size(nest.vector) % nest.step(nest.vector) == 0;
      if ((rest != Rest::kMask && rest != Rest::kEven) || nest.lanes > kernel_.size(nest.vector))
        return wrong("vector", "folds are even, or leave lanes out");
      if (rest == Rest::kEven && !even)
        return wrong("vector", "steps leave a rest of r%d", nest.vector);
    }
    return unused_rest(nest);
  }

  Status tasks(const SegmentPlan& plan) const {
    const Tasks& tasks = plan.tasks;
    if (tasks.loops == 0) return kOk;
    if (own().parent >= 0) return wrong("tasks", "the segment is in the loops of another");
    if (tasks.loops > plan.nest.loop_count || tasks.loops > Tasks::kMostLoops)
      return wrong("tasks", "more than its loops");
    RangeSet seen = 0;
    for (int i = 0; i < tasks.loops; ++i) {
      const int range = plan.nest.loops[i].range;
      if (has(seen, range)) return wrong("tasks", "r%d twice", range);
      seen |= range_bit(range);
    }
    const int last = tasks.loops - 1;
    if (tasks.chunk < 1 || tasks.chunk % plan.nest.loop_step(last) != 0) {
      return wrong("tasks", "%lld elements are no whole steps of r%d",
                   static_cast<long long>(tasks.chunk), plan.nest.loops[last].range);
    }
    return kOk;
  }

  Status panels(const SegmentPlan& plan) const {
    for (int slot : plan.packed) {
      if (plan.items != 0 || target_.language == Language::kOpencl)
        return wrong("pack", "no items that share a block");
      const bool once = std::ranges::find(plan.ready, slot) != plan.ready.end();
      if (!may_pack(kernel_, plan_, at_, slot, once))
        return wrong("pack", "no fold reads p%d in vectors that the innermost loop shares", slot);
    }
    for (int slot : plan.ready) {
      if (std::ranges::find(plan.packed, slot) == plan.packed.end())
        return wrong("ready", "p%d is not packed", slot);
      if (!may_be_ready(kernel_, plan_, at_, slot))
        return wrong("ready", "p%d is packed below a root, or for many sizes", slot);
    }
    for (int slot : plan.fetched) {
      if (std::ranges::find(plan.ready, slot) == plan.ready.end())
        return wrong("fetch", "p%d is not ready", slot);
    }
    return kOk;
  }

  Status streams(const SegmentPlan& plan) const {
    for (int slot : plan.streams) {
      const auto stores = [&](const Access& a) {
        return a.store && a.node->src(0)->arg(0) == slot;
      };
      const Region* region =
          own().stores < 0 ? nullptr : &kernel_.regions[static_cast<size_t>(own().stores)];
      const Access* found = region == nullptr ? nullptr
                                              : std::find_if(region->accesses.begin(),
                                                             region->accesses.end(), stores);
      if (region == nullptr || found == region->accesses.end())
        return wrong("stream", "the segment does not write p%d", slot);
      if (kernel_.read(found->node->src(0))) return wrong("stream", "the kernel reads p%d", slot);
      if (!target_.streaming) return wrong("stream", "the target has no such stores");
    }
    return kOk;
  }

  Status rolled(const SegmentPlan& plan) const {
    if (plan.rolled == 0) return kOk;
    const Segment& s = own();
    if (s.parent >= 0 || !s.children.empty() || s.folds.empty() || s.stores < 0)
      return wrong("rolled", "only a root whose stores follow its folds");
    const Region& region = kernel_.regions[static_cast<size_t>(s.stores)];
    for (int i = 0; i < plan.nest.tile_count; ++i) {
      for (Node store : region.roots) {
        if (!has(kernel_.ranges(store->src(1)), plan.nest.tiles[i].range))
          return wrong("rolled", "a store that r%d does not move", plan.nest.tiles[i].range);
      }
    }
    if (turns_a_square(kernel_, plan.nest, region))
      return wrong("rolled", "a square of registers is turned");
    return kOk;
  }

  Status items(const SegmentPlan& plan) const {
    if (plan.items == 0) return kOk;
    const int n = plan.items;
    if (n < 2 || n > target_.group || (n & (n - 1)) != 0)
      return wrong("items", "%d are no group of the target's", n);
    if (plan_.general || !shares_items(kernel_, plan_, at_))
      return wrong("items", "not a kernel of rows whose folds items can share");
    if (plan.nest.tile_count != 0 || plan.rolled != 0 || plan.tasks.loops != 1 ||
        plan.tasks.chunk != 1) {
      return wrong("items", "a task is one row");
    }
    for (int child : own().children) {
      const SegmentPlan& below = plan_.at(child);
      if (below.nest.rest(shared_range(kernel_, plan_, child)) == Rest::kOverlap)
        return wrong("items", "steps of segment %d overlap", child);
    }
    return kOk;
  }

  // Elements past the end of a range are left out, by whole vectors.
  Status no_rests(const Nest& nest) const {
    for (int range : own().ranges) {
      if (nest.rest(range) != Rest::kEven)
        return wrong(nest.tile(range) != nullptr ? "tile" : "vector",
                     "blocks of groups leave no rest of r%d", range);
    }
    if (nest.vector >= 0 && kernel_.size(nest.vector) % nest.lanes != 0)
      return wrong("vector", "vectors of %d leave a rest of r%d", nest.lanes, nest.vector);
    return unused_rest(nest);
  }

  // A block that the items of a group share.
  Status block(const SegmentPlan& plan) const {
    if (!may_share_block(kernel_, at_))
      return wrong("items", "not a kernel whose loops items can share");
    const int n = plan.items, most = std::max(target_.group, target_.group_limit);
    if (plan_.general || n < 2 || n > most || !std::has_single_bit(static_cast<unsigned>(n)))
      return wrong("items", "%d are no group of the target's", n);
    for (int i = 0; i < plan.nest.loop_count; ++i) {
      const Loop& loop = plan.nest.loops[i];
      if (i >= plan.tasks.loops && loop.block != 0)
        return wrong("order", "a block of r%d behind the tasks", loop.range);
      if (i < plan.tasks.loops && loop.block == 0 && plan.nest.step(loop.range) != 1)
        return wrong("tasks", "r%d goes in steps of %lld", loop.range,
                     static_cast<long long>(plan.nest.step(loop.range)));
    }
    if (plan.tasks.loops > 0 && plan.tasks.chunk != plan.nest.loop_step(plan.tasks.loops - 1))
      return wrong("tasks", "a task of a group is one step");
    const int64_t steps = block_steps(kernel_, plan);
    const bool folds = !own().folds.empty();
    if (steps < n && (!folds || n % steps != 0 || plan.nest.tile_count != 0 ||
                      !plan.packed.empty() || folds_conditions())) {
      return wrong("items", "%d cannot share %lld steps", n, static_cast<long long>(steps));
    }
    if (steps > n && folds)
      return wrong("items", "%d for %lld steps with folds", n, static_cast<long long>(steps));
    return plan.rolled == 0 ? kOk : wrong("rolled", "copies of a group's items");
  }
  bool folds_conditions() const {
    return std::ranges::any_of(own().folds, [&](int f) {
      return std::ranges::any_of(kernel_.regions[static_cast<size_t>(f)].roots,
                                 [](Node fold) { return fold->dtype == DType::kBool; });
    });
  }
  Status block_folds(const Region& region, const Nest& nest) const {
    const SegmentPlan& plan = plan_.at(at_);
    if (nest.vector >= 0) return wrong("vector", "items share r%d", nest.vector);
    const bool split = block_steps(kernel_, plan) < plan.items;
    for (int i = 0; i < nest.loop_count; ++i) {
      if (nest.loops[i].block == 0) continue;
      if (i > 0 || !packs(region)) return wrong("order", "blocks are of what is packed");
    }
    return split && nest.loop_count == 0 ? wrong("order", "no loop that items can share") : kOk;
  }
  // Whether something that a region reads is packed.
  bool packs(const Region& region) const {
    return std::ranges::any_of(region.accesses, [&](const Access& a) {
      return is_packed(kernel_, plan_, at_, region, a);
    });
  }

  Status packed(const SegmentPlan& plan) const {
    for (int slot : plan.packed) {
      bool found = false;
      each_packed(kernel_, plan_, at_,
                  [&](const Region&, const Access& a) { found |= a.node->src(0)->arg(0) == slot; });
      if (!found) return wrong("pack", "no element of p%d that items share", slot);
    }
    const int64_t bytes = local_bytes(kernel_, plan_, at_);
    if (bytes > target_.local_bytes) {
      return wrong("pack", "%lld bytes of local memory, the target has %lld",
                   static_cast<long long>(bytes), static_cast<long long>(target_.local_bytes));
    }
    return kOk;
  }

  static constexpr int64_t kMostWritten = program::kMaxSteps;
  const Plan& plan_;
  const Kernel& kernel_;
  const Target& target_;
  int at_ = 0, group_ = -1;
};

}  // namespace

namespace {

// What a copy of one access would be.
bool may_pack(const Kernel& kernel, const Plan& plan, int segment, size_t group, const Access& a) {
  const Nest& nest = plan.at(segment).nest;
  if (a.opaque != 0 || a.node->nsrc > 2) return false;
  const auto around = [&](int at) { return kernel.segments[static_cast<size_t>(at)].parent; };
  for (int at = around(segment); at >= 0; at = around(at)) {
    const int v = plan.at(at).nest.vector;
    if (v >= 0 && has(a.ranges, v)) return false;
  }
  int64_t elements = nest.lanes;
  const auto times = [&](int64_t size) { return checked_mul(elements, size, &elements); };
  for (int i = 0; i < nest.tile_count; ++i) {
    if (has(a.ranges, nest.tiles[i].range) && !times(nest.tiles[i].copies)) return false;
  }
  const Segment& own = kernel.segments[static_cast<size_t>(segment)];
  for (int range : kernel.regions[static_cast<size_t>(own.folds[group])].own) {
    if (has(a.ranges, range) && !times(kernel.size(range))) return false;
  }
  return elements <= kMostPacked;
}

}  // namespace

bool may_pack(const Kernel& kernel, const Plan& plan, int segment, int slot, bool once) {
  const SegmentPlan& s = plan.at(segment);
  const Segment& own = kernel.segments[static_cast<size_t>(segment)];
  const int inner = s.nest.innermost();
  if (inner < 0 || has(kernel.carried(), inner)) return false;
  bool any = false;
  for (size_t group = 0; group < s.folds.size(); ++group) {
    for (const Access& a : kernel.regions[static_cast<size_t>(own.folds[group])].accesses) {
      const Node param = a.node->src(0);
      if (param->arg(0) != slot || (!once && has(a.ranges, inner))) continue;
      if (kernel.written(param) || s.folds[group].vector >= 0 ||
          !may_pack(kernel, plan, segment, group, a))
        return false;
      any = true;
    }
  }
  return any;
}

int pack_loop(const Kernel& kernel, const Plan& plan, int segment, bool once) {
  const Nest& nest = plan.at(segment).nest;
  RangeSet moved = 0;
  each_pack(kernel, plan, segment, once,
            [&](const Region&, const Access& a) { moved |= a.ranges; });
  return read_again(kernel, nest, moved).first;
}

Again read_again(const Kernel& kernel, const Nest& nest, RangeSet moved) {
  Again out{nest.loop_count, 1};
  while (out.first > 0 && !has(moved, nest.loops[out.first - 1].range)) {
    --out.first;
    out.steps *= (kernel.size(nest.loops[out.first].range) - 1) / nest.loop_step(out.first) + 1;
  }
  return out;
}

bool may_be_ready(const Kernel& kernel, const Plan& plan, int segment, int slot) {
  return !plan.general && plan.at(segment).items == 0 &&
         kernel.segments[static_cast<size_t>(segment)].parent < 0 &&
         may_pack(kernel, plan, segment, slot, true);
}

int64_t padded_length(const Kernel& kernel, const Nest& nest, int range) {
  const int64_t size = kernel.size(range), step = nest.step(range);
  const Rest rest = nest.rest(range);
  return rest == Rest::kOverlap || rest == Rest::kMask ? (size + step - 1) / step * step : size;
}

Status find_ready(Vec<ReadyCopy>* out, const Kernel& kernel, const Plan& plan) {
  for (size_t at = 0; at < plan.segments.size(); ++at) {
    const SegmentPlan& s = plan.segments[at];
    Status status;
    each_pack(kernel, plan, static_cast<int>(at), true, [&](const Region& region, const Access& a) {
      const bool known = std::ranges::any_of(
          *out, [&](const ReadyCopy& other) { return other.access->node == a.node; });
      if (known) return;
      int64_t elements = 1, own = 1;
      for (int range = 0; range < kMaxRanges; ++range) {
        if (!has(a.ranges, range)) continue;
        own *= kernel.size(range);
        elements *= has(region.own.set(), range) ? kernel.size(range)
                                                 : padded_length(kernel, s.nest, range);
      }
      const Status pushed =
          out->push(ReadyCopy{static_cast<int>(at), &region, &a, elements, elements != own});
      if (!pushed.ok()) status = pushed;
    });
    ASTER_TRY(status);
  }
  return kOk;
}

Status check(const Plan& plan, const Kernel& kernel, const Target& target) {
  return Check(plan, kernel, target).run();
}

}  // namespace aster::codegen
