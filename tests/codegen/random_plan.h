// Plans drawn at random from all that are legal for a kernel.
#pragma once

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <vector>

#include "codegen/planner.h"

namespace aster::codegen::tests {

class RandomPlan {
 public:
  RandomPlan(const Kernel& kernel, const Target& target, uint64_t seed)
      : kernel_(kernel), target_(target), random_(seed) {}

  // ready: copies of what is packed may be made before, which whoever runs the program has to.
  Plan make(bool ready = false) {
    ready_ = ready;
    Plan out(process_heap());
    out.general = chance(20);
    for (size_t i = 0; i < kernel_.segments.size(); ++i) {
      const Segment& s = kernel_.segments[i];
      const int at = static_cast<int>(i);
      SegmentPlan plan(process_heap());
      bool around = false;
      for (int p = s.parent; p >= 0; p = kernel_.segments[static_cast<size_t>(p)].parent)
        around |= out.at(p).nest.vector >= 0;
      left_ = 16;
      const std::vector<int> ranges(s.ranges.begin(), s.ranges.end());
      if (!around) vectorise(&plan.nest, ranges, at, nullptr);
      around |= plan.nest.vector >= 0;
      const bool part = plan.nest.vector >= 0 && plan.nest.lanes > kernel_.size(plan.nest.vector);
      tiles(&plan.nest, ranges, reads_what_it_writes(kernel_, at));
      if (part) plan.nest.vector_rest = Rest::kMask;
      order(&plan.nest, ranges, true);
      if (s.parent < 0) tasks(&plan);
      if (!out.general) last_steps(&plan);
      for (int f : s.folds) {
        const Region& region = kernel_.regions[static_cast<size_t>(f)];
        Nest nest;
        folds(&nest, region, at, around);
        EXPECT_TRUE(plan.folds.push(nest).ok());
      }
      stores(&plan, s);
      EXPECT_TRUE(out.segments.push(std::move(plan)).ok());
      // What cannot leave lanes out has whole vectors.
      Nest& nest = out.segments.back().nest;
      if (part && !may_leave_lanes_out(kernel_, out, at)) {
        nest.lanes /= 2;
        nest.vector_rest =
            nest.tile(nest.vector) != nullptr ? Rest::kEven
            : reads_what_it_writes(kernel_, at) || has(kernel_.carried(), nest.vector)
                ? Rest::kScalar
                : Rest::kOverlap;
        if (nest.lanes == 1) nest.vector = -1, nest.vector_rest = Rest::kEven;
      }
      packs(&out, at);
      out.segments.back().kept = chance(80) && target_.language == Language::kC &&
                                 kept_value(kernel_, out, at).folded != nullptr;
      parts(&out, at);
    }
    return out;
  }

  // One whose items share blocks; false where none was found.
  bool make_block(Plan* out) {
    if (kernel_.roots.size() != 1 || !may_share_block(kernel_, kernel_.roots[0])) return false;
    for (int attempt = 0; attempt < 30; ++attempt) {
      out->segments.clear();
      EXPECT_TRUE(out->segments.push(SegmentPlan(process_heap())).ok());
      block(out);
      if (check(*out, kernel_, target_).ok()) return true;
    }
    return false;
  }

 private:
  // Sums that go block by block, and folds whose next ones look into one part of them.
  void parts(Plan* out, int at) {
    Vec<Nest>& folds = out->segments.back().folds;
    if (may_sum_by_blocks(kernel_, *out, at) && target_.language != Language::kOpencl &&
        folds[0].loop_count > 0 && kernel_.size(folds[0].loops[0].range) > 1 && chance(50)) {
      folds[0].split_first(pick(1, kernel_.size(folds[0].loops[0].range) - 1));
    }
    for (size_t group = 0; group + 1 < folds.size(); ++group) {
      if (!may_go_by_parts(kernel_, *out, at, group) || !chance(80)) continue;
      Nest& nest = folds[group];
      const Nest& next = folds[group + 1];
      const int64_t step = std::lcm(nest.step(nest.vector), next.step(next.vector));
      const int64_t most = kernel_.size(nest.vector) / step;
      if (nest.loop_count != 1 || most == 0) continue;
      nest.split_first(step * pick(1, most));
    }
  }
  void block(Plan* out) {
    const Segment& s = kernel_.segments[0];
    SegmentPlan& plan = out->segments[0];
    Nest& nest = plan.nest;
    std::vector<int> ranges(s.ranges.begin(), s.ranges.end());
    std::shuffle(ranges.begin(), ranges.end(), random_);
    vectorise(&nest, ranges, 0, nullptr);
    for (int range : ranges) {
      if (chance(20) && nest.tile_count < 2)
        nest.tiles[nest.tile_count++] = Tile{range, static_cast<int>(pick(2, 3))};
    }
    std::vector<int> shared;
    for (int range : ranges) {
      const int64_t step = nest.step(range);
      const bool fixed = step == 1 && chance(30);
      if (!fixed) shared.push_back(range);
      if (fixed || chance(70))
        nest.loops[nest.loop_count++] = Loop{range, fixed ? 0 : step << pick(0, 2)};
    }
    plan.tasks.loops = nest.loop_count;
    if (nest.loop_count > 0) plan.tasks.chunk = nest.loop_step(nest.loop_count - 1);
    for (int range : shared) nest.loops[nest.loop_count++] = Loop{range};
    const int64_t steps = block_steps(kernel_, plan);
    plan.items =
        static_cast<int>(s.folds.empty() || chance(50) ? 1 << pick(1, 4) : steps << pick(0, 2));
    if (chance(80) && (s.folds.empty() || steps >= plan.items)) {
      for (Node param : kernel_.params()) {
        if (chance(30)) continue;
        EXPECT_TRUE(plan.packed.push(static_cast<int>(param->arg(0))).ok());
      }
    }
    for (int f : s.folds) {
      const Region& region = kernel_.regions[static_cast<size_t>(f)];
      std::vector<int> own(region.own.begin(), region.own.end());
      std::shuffle(own.begin(), own.end(), random_);
      Nest fold;
      if (!plan.packed.empty() && chance(60)) fold.loops[fold.loop_count++] = {own[0], pick(1, 4)};
      for (size_t i = 0; i < own.size(); ++i) {
        if (i > 0 && kernel_.size(own[i]) <= 4 && chance(50)) {
          fold.written |= range_bit(own[i]);
        } else {
          fold.loops[fold.loop_count++] = Loop{own[i]};
        }
      }
      EXPECT_TRUE(plan.folds.push(fold).ok());
    }
    // What cannot be packed is left out.
    std::vector<int> slots;
    each_packed(kernel_, *out, 0, [&](const Region&, const Access& a) {
      slots.push_back(static_cast<int>(a.node->src(0)->arg(0)));
    });
    std::ranges::sort(slots);
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    plan.packed.clear();
    for (int slot : slots) EXPECT_TRUE(plan.packed.push(slot).ok());
  }

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  int one_of(const std::vector<int>& from) {
    return from[static_cast<size_t>(pick(0, static_cast<int64_t>(from.size()) - 1))];
  }

  void vectorise(Nest* nest, const std::vector<int>& ranges, int at, const Region* region) {
    if (ranges.empty() || chance(30)) return;
    const int range = one_of(ranges);
    const int64_t most = region != nullptr ? most_lanes(kernel_, target_, *region, range)
                                           : most_lanes(kernel_, target_, at, range);
    const int64_t lanes = int64_t{1} << pick(1, 6), size = kernel_.size(range);
    const bool part = region == nullptr && lanes > size && lanes < 2 * size;
    if (lanes > most || (lanes > size && !part)) return;
    nest->vector = range;
    nest->lanes = static_cast<int>(lanes);
  }

  Rest rest(const Nest& nest, int range, bool again) {
    const int64_t step = nest.step(range), size = kernel_.size(range);
    if (size % step == 0 && chance(80)) return Rest::kEven;
    const bool carried = has(kernel_.carried(), range);
    if (again || carried || step > size || (chance(40) && scalars_ < 2))
      return ++scalars_, Rest::kScalar;
    return Rest::kOverlap;
  }

  void tiles(Nest* nest, const std::vector<int>& ranges, bool again) {
    scalars_ = 0;
    for (int64_t i = pick(0, 2); i > 0 && !ranges.empty(); --i) {
      const int range = one_of(ranges);
      // As many copies as lanes, now and then, for squares.
      const int64_t copies = chance(30) ? nest->lanes : pick(2, 5);
      if (nest->tile(range) != nullptr || copies < 2 || copies > left_ ||
          has(kernel_.carried(), range)) {
        continue;
      }
      left_ /= copies;
      nest->tiles[nest->tile_count++] = Tile{range, static_cast<int>(copies)};
    }
    for (int i = 0; i < nest->tile_count; ++i)
      nest->tiles[i].rest = rest(*nest, nest->tiles[i].range, again);
    if (nest->vector >= 0 && nest->tile(nest->vector) == nullptr)
      nest->vector_rest = rest(*nest, nest->vector, again);
  }

  void order(Nest* nest, std::vector<int> ranges, bool blocks) {
    std::shuffle(ranges.begin(), ranges.end(), random_);
    std::stable_partition(ranges.begin(), ranges.end(),
                          [&](int range) { return !has(kernel_.carried(), range); });
    for (int range : ranges) {
      if (!has(nest->written, range)) nest->loops[nest->loop_count++] = Loop{range};
    }
    if (!blocks || ranges.empty() || chance(70)) return;
    const int64_t at = pick(0, nest->loop_count - 1), before = pick(0, at);
    const int range = nest->loops[at].range;
    if (has(kernel_.carried(), range)) return;
    const int64_t step = nest->step(range), most = kernel_.size(range) / step;
    if (most < 1) return;
    for (int64_t i = nest->loop_count++; i > before; --i) nest->loops[i] = nest->loops[i - 1];
    nest->loops[before] = Loop{range, step * pick(1, most)};
  }

  void tasks(SegmentPlan* plan) {
    const Nest& nest = plan->nest;
    RangeSet seen = 0;
    for (int64_t i = pick(0, std::min(nest.loop_count, 3)); i > 0; --i) {
      const int next = plan->tasks.loops;
      if (has(seen | kernel_.carried(), nest.loops[next].range)) return;
      seen |= range_bit(nest.loops[next].range);
      plan->tasks.chunk = nest.loop_step(next);
      ++plan->tasks.loops;
    }
    if (plan->tasks.loops > 0) plan->tasks.chunk *= pick(1, 3);
  }

  // Fewer copies where steps leave a rest.
  void last_steps(SegmentPlan* plan) {
    for (int i = 0; i < plan->nest.tile_count; ++i) {
      Tile& tile = plan->nest.tiles[i];
      if (tile.rest == Rest::kEven || chance(40)) continue;
      tile.fewer = static_cast<int>(pick(1, tile.copies - 1));
      if (last_steps_fit(kernel_, *plan, tile.range)) {
        tile.rest = Rest::kThen;
      } else {
        tile.fewer = 0;
      }
    }
  }

  void folds(Nest* nest, const Region& region, int at, bool around) {
    const std::vector<int> ranges(region.own.begin(), region.own.end());
    if (!around) vectorise(nest, ranges, at, &region);
    if (nest->vector >= 0 && chance(60)) {
      nest->tiles[nest->tile_count++] = Tile{nest->vector, 1 << pick(1, 2)};
    }
    if (nest->vector >= 0 && kernel_.size(nest->vector) % nest->step(nest->vector) != 0) {
      (nest->tile_count > 0 ? nest->tiles[0].rest : nest->vector_rest) = Rest::kMask;
    }
    int64_t length = 1;
    for (int range : ranges) {
      if (range == nest->vector || kernel_.size(range) * length > 16 || chance(50)) continue;
      length *= kernel_.size(range);
      nest->written |= range_bit(range);
    }
    order(nest, ranges, false);
  }

  void packs(Plan* plan, int at) {
    for (Node param : kernel_.params()) {
      const auto slot = static_cast<int>(param->arg(0));
      const bool once = ready_ && chance(50) && may_be_ready(kernel_, *plan, at, slot);
      if (chance(60) && (once || may_pack(kernel_, *plan, at, slot))) {
        EXPECT_TRUE(plan->segments.back().packed.push(slot).ok());
        if (once) {
          EXPECT_TRUE(plan->segments.back().ready.push(slot).ok());
        }
        if (once && chance(50)) {
          EXPECT_TRUE(plan->segments.back().fetched.push(slot).ok());
        }
      }
    }
  }

  void stores(SegmentPlan* plan, const Segment& s) {
    if (s.stores < 0) return;
    const Region& region = kernel_.regions[static_cast<size_t>(s.stores)];
    bool moved = true;
    for (Node store : region.roots) {
      const int slot = static_cast<int>(store->src(0)->arg(0));
      const bool there =
          std::find(plan->streams.begin(), plan->streams.end(), slot) != plan->streams.end();
      if (chance(30) && !there && !kernel_.read(store->src(0))) {
        EXPECT_TRUE(plan->streams.push(slot).ok());
      }
      for (int i = 0; i < plan->nest.tile_count; ++i)
        moved &= has(kernel_.ranges(store->src(1)), plan->nest.tiles[i].range);
    }
    std::sort(plan->streams.begin(), plan->streams.end());
    if ((s.ranges.set() & kernel_.carried()) != 0) return;
    const bool root = s.parent < 0 && s.children.empty() && !s.folds.empty();
    if (root && moved && chance(60) && !turns_a_square(kernel_, plan->nest, region))
      plan->rolled = static_cast<int>(pick(1, 6));
  }

  const Kernel& kernel_;
  const Target& target_;
  std::mt19937_64 random_;
  int64_t left_ = 16;
  int scalars_ = 0;
  bool ready_ = false;
};

}  // namespace aster::codegen::tests
