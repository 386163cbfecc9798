#include "codegen/neighbours.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "codegen/planner.h"

namespace aster::codegen {
namespace {

// Registers that the tiles of a segment are worth trying for.
constexpr int64_t kMostCopies = 32;

class Neighbours {
 public:
  Neighbours(Vec<Plan>* out, const Plan& plan, const Kernel& kernel, const Target& target,
             Memory& memory)
      : out_(*out), plan_(plan), kernel_(kernel), target_(target), memory_(memory) {}

  Status run() {
    const SavedError before;
    for (const auto family : {&Neighbours::tiles, &Neighbours::vectors, &Neighbours::packs,
                              &Neighbours::orders, &Neighbours::folds, &Neighbours::rest}) {
      for (size_t i = 0; i < kernel_.segments.size(); ++i) {
        at_ = static_cast<int>(i);
        if (plan_.at(at_).items != 0) continue;
        (this->*family)();
        ASTER_TRY(status_);
      }
    }
    before.restore();
    return kOk;
  }

 private:
  const Segment& segment() const { return kernel_.segments[static_cast<size_t>(at_)]; }
  const Nest& nest() const { return plan_.at(at_).nest; }

  // The plan with a segment changed, if that is a legal one and new. change: whether it did.
  template <typename Change>
  void add(Change change) {
    if (!status_.ok()) return;
    Plan next(memory_);
    status_ = copy(&next, plan_);
    if (!status_.ok() || !change(next.segments[static_cast<size_t>(at_)])) return;
    settle(&next);
    const Status legal = check(next, kernel_, target_);
    if (legal.code == ASTER_ML_MEMORY) status_ = legal;
    if (!legal.ok() || next == plan_) return;
    for (const Plan& one : out_) {
      if (one == next) return;
    }
    status_ = out_.push(std::move(next));
  }

  template <typename Holds>
  static void keep(Vec<int>* slots, Holds holds) {
    const int* const end = std::remove_if(slots->begin(), slots->end(), std::not_fn(holds));
    slots->truncate(static_cast<size_t>(end - slots->begin()));
  }

  // What follows a choice: blocks and tasks are whole steps, copies are made where they may be.
  void settle(Plan* plan) const {
    const auto whole = [](int64_t elements, int64_t step) {
      return std::max<int64_t>((elements + step / 2) / step, 1) * step;
    };
    for (size_t i = 0; i < plan->segments.size(); ++i) {
      SegmentPlan& s = plan->segments[i];
      Nest& own = s.nest;
      for (int l = 0; l < own.loop_count; ++l) {
        Loop& loop = own.loops[l];
        if (loop.block != 0) loop.block = whole(loop.block, own.step(loop.range));
      }
      if (s.tasks.loops > 0) s.tasks.chunk = whole(s.tasks.chunk, own.loop_step(s.tasks.loops - 1));
      const auto holds = [](const Vec<int>& slots, int slot) {
        return std::ranges::find(slots, slot) != slots.end();
      };
      const int at = static_cast<int>(i);
      keep(&s.packed, [&](int slot) {
        return holds(s.ready, slot) ? may_be_ready(kernel_, *plan, at, slot)
                                    : may_pack(kernel_, *plan, at, slot);
      });
      keep(&s.ready, [&](int slot) { return holds(s.packed, slot); });
      keep(&s.fetched, [&](int slot) { return holds(s.ready, slot); });
      s.kept = s.kept && kept_value(kernel_, *plan, static_cast<int>(i)).folded != nullptr;
    }
    choose_rests(plan, kernel_);
  }

  static int64_t copies_of(const Nest& nest) {
    int64_t out = 1;
    for (int i = 0; i < nest.tile_count; ++i) out *= nest.tiles[i].copies;
    return out;
  }

  template <typename T>
  static void erase(T* list, int* count, int at) {
    std::copy(list + at + 1, list + *count, list + at);
    list[--*count] = T{};
  }
  static void drop_tile(Nest* nest, int range) {
    const Tile* const tile = nest->tile(range);
    if (tile != nullptr)
      erase(nest->tiles, &nest->tile_count, static_cast<int>(tile - nest->tiles));
  }

  // Gives a range so many copies; one: none.
  bool set_copies(Nest* nest, int range, int64_t copies) const {
    if (copies < 1 || copies * (range == nest->vector ? nest->lanes : 1) > kernel_.size(range))
      return false;
    for (int i = 0; i < nest->tile_count; ++i) {
      if (nest->tiles[i].range != range) continue;
      if (copies > 1) {
        nest->tiles[i] = Tile{range, static_cast<int>(copies)};
      } else {
        erase(nest->tiles, &nest->tile_count, i);
      }
      return copies_of(*nest) <= kMostCopies;
    }
    if (copies < 2 || nest->tile_count == Nest::kMaxTiles) return false;
    nest->tiles[nest->tile_count++] = Tile{range, static_cast<int>(copies)};
    return copies_of(*nest) <= kMostCopies;
  }

  void tiles() {
    const Nest& own = nest();
    for (const int range : segment().ranges) {
      const int64_t now = own.copies(range);
      for (const int64_t copies : {now + 1, now - 1, 2 * now, now / 2, int64_t{4}, int64_t{6}})
        add([&](SegmentPlan& s) { return set_copies(&s.nest, range, copies); });
      if (now < 2) continue;
      for (const int other : segment().ranges) {
        const int64_t beside = own.copies(other);
        if (other == range) continue;
        const auto shift = [&](int64_t fewer, int64_t more) {
          add([&](SegmentPlan& s) {
            return set_copies(&s.nest, range, fewer) && set_copies(&s.nest, other, more);
          });
        };
        shift(now - 1, beside + 1);
        shift(now / 2, 2 * beside);
      }
      // Two kinds of steps, the last ones of fewer copies.
      for (int fewer = static_cast<int>(now) - 1; fewer >= (now + 1) / 2; --fewer) {
        add([&](SegmentPlan& s) {
          for (int i = 0; i < s.nest.tile_count; ++i) {
            if (s.nest.tiles[i].range == range) s.nest.tiles[i].fewer = fewer;
          }
          return true;
        });
      }
    }
  }

  bool vectorise(Nest* nest, int range, int64_t most) const {
    const auto lanes = static_cast<int>(
        std::bit_floor(static_cast<uint64_t>(std::min(most, kernel_.size(range)))));
    if (lanes < 2) return false;
    if (nest->vector >= 0) drop_tile(nest, nest->vector);
    drop_tile(nest, range);
    nest->vector = range;
    nest->lanes = lanes;
    return true;
  }
  static void no_vector(Nest* nest) {
    if (nest->vector >= 0) drop_tile(nest, nest->vector);
    nest->vector = -1;
    nest->lanes = 1;
    nest->vector_rest = Rest::kEven;
  }

  void vectors() {
    for (const int range : segment().ranges) {
      const int64_t most = most_lanes(kernel_, target_, at_, range);
      for (const int64_t lanes : {most, most / 2}) {
        add([&](SegmentPlan& s) {
          if (s.nest.vector == range && s.nest.lanes == lanes) return false;
          for (Nest& fold : s.folds) no_vector(&fold);
          return vectorise(&s.nest, range, lanes);
        });
      }
    }
    for (size_t i = 0; i < segment().folds.size(); ++i) {
      const Region& body = kernel_.regions[static_cast<size_t>(segment().folds[i])];
      for (const int range : body.own) {
        if (has(plan_.at(at_).folds[i].written, range)) continue;
        add([&](SegmentPlan& s) {
          no_vector(&s.nest);
          return vectorise(&s.folds[i], range, most_lanes(kernel_, target_, body, range));
        });
      }
    }
  }

  void packs() {
    for (const Node param : kernel_.params()) {
      const auto slot = static_cast<int>(param->arg(0));
      add([&](SegmentPlan& s) {
        const int* const found = std::ranges::find(s.packed, slot);
        if (found == s.packed.end()) {
          status_ = s.packed.push(slot);
          std::ranges::sort(s.packed);
        } else {
          std::copy(found + 1, static_cast<const int*>(s.packed.end()),
                    s.packed.begin() + (found - s.packed.begin()));
          s.packed.pop();
        }
        return status_.ok();
      });
    }
    if (!plan_.at(at_).fetched.empty()) add([](SegmentPlan& s) { return s.fetched.clear(), true; });
  }

  void orders() {
    const Nest& own = nest();
    for (int i = 0; i + 1 < own.loop_count; ++i) {
      add([&](SegmentPlan& s) { return std::swap(s.nest.loops[i], s.nest.loops[i + 1]), true; });
      add([&](SegmentPlan& s) {
        Loop* const loops = s.nest.loops;
        return std::rotate(loops + i, loops + i + 1, loops + s.nest.loop_count), true;
      });
    }
    for (int i = 0; i < own.loop_count; ++i) {
      const Loop& loop = own.loops[i];
      if (loop.block == 0) {
        blocks(loop.range);
        continue;
      }
      add([&](SegmentPlan& s) {
        erase(s.nest.loops, &s.nest.loop_count, i);
        s.tasks.loops = std::min(s.tasks.loops, s.nest.loop_count);
        return true;
      });
      for (const int64_t block : {2 * loop.block, loop.block / 2}) {
        add([&](SegmentPlan& s) { return s.nest.loops[i].block = block, block > 0; });
      }
    }
  }
  // Of a long range, before all other loops.
  void blocks(int range) {
    constexpr int64_t kSteps = 16;
    const int64_t block = kSteps * nest().step(range);
    const auto has_block = [&](const Loop& loop) { return loop.range == range && loop.block != 0; };
    if (kernel_.size(range) < 2 * block || nest().loop_count == Nest::kMaxLoops ||
        std::any_of(nest().loops, nest().loops + nest().loop_count, has_block))
      return;
    add([&](SegmentPlan& s) {
      Loop* const loops = s.nest.loops;
      std::copy_backward(loops, loops + s.nest.loop_count, loops + s.nest.loop_count + 1);
      loops[0] = Loop{range, block};
      ++s.nest.loop_count;
      if (s.tasks.loops > 0) s.tasks = {1, block};
      return true;
    });
  }

  void folds() {
    for (size_t i = 0; i < segment().folds.size(); ++i) {
      const Nest& own = plan_.at(at_).folds[i];
      const Region& body = kernel_.regions[static_cast<size_t>(segment().folds[i])];
      if (own.vector >= 0) {
        const int now = own.copies(own.vector);
        for (const int copies : {2 * now, now / 2}) {
          add([&](SegmentPlan& s) { return set_copies(&s.folds[i], own.vector, copies); });
        }
      }
      for (const int range : body.own) {
        if (range == own.vector) continue;
        add([&](SegmentPlan& s) { return write_out(&s.folds[i], range); });
      }
      for (int l = 0; l + 1 < own.loop_count; ++l) {
        add([&](SegmentPlan& s) {
          return std::swap(s.folds[i].loops[l], s.folds[i].loops[l + 1]), true;
        });
      }
    }
  }
  // Writes a range out, or makes a loop of it.
  static bool write_out(Nest* fold, int range) {
    fold->written ^= range_bit(range);
    Loop* const begin = fold->loops;
    Loop* const end = begin + fold->loop_count;
    if (has(fold->written, range)) {
      erase(begin, &fold->loop_count, static_cast<int>(std::find(begin, end, Loop{range}) - begin));
    } else {
      std::copy_backward(begin, end, end + 1);
      *begin = Loop{range};
      ++fold->loop_count;
    }
    return true;
  }

  void rest() {
    const Segment& own = segment();
    if (own.stores < 0) return;
    for (const Node store : kernel_.regions[static_cast<size_t>(own.stores)].roots) {
      const auto slot = static_cast<int>(store->src(0)->arg(0));
      add([&](SegmentPlan& s) {
        const int* const found = std::ranges::find(s.streams, slot);
        if (found != s.streams.end()) return s.streams.clear(), true;
        status_ = s.streams.push(slot);
        std::ranges::sort(s.streams);
        return status_.ok();
      });
    }
    for (const int copies : {0, 1, 2, target_.machine.rolled}) {
      add([&](SegmentPlan& s) { return s.rolled = copies, true; });
    }
    add([&](SegmentPlan& s) { return s.kept = !s.kept, true; });
  }

  Vec<Plan>& out_;
  const Plan& plan_;
  const Kernel& kernel_;
  const Target& target_;
  Memory& memory_;
  int at_ = 0;
  Status status_;
};

}  // namespace

Status neighbours(Vec<Plan>* out, const Plan& plan, const Kernel& kernel, const Target& target,
                  Memory& memory) {
  return Neighbours(out, plan, kernel, target, memory).run();
}

}  // namespace aster::codegen
