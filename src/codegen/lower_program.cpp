// Loops, tasks and registers of folds.
#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/lower_values.h"
#include "codegen/lowering.h"

namespace aster::codegen {
namespace {

using program::Flag;
using program::Id;
using program::kNone;
using program::LoopKind;
using program::Word;

// Ranks of axes: what is written out goes around the copies of tiles, so that these share its loads
// while they are at hand; within them where windows overlap along the two, whose rows are then at
// hand for few copies at a time.
constexpr size_t kAxesOfTiles = 6;  // that what is written out leaves to tiles
constexpr int kWrittenRank = 1, kTileRank = 2, kInnerTileRank = 3, kFoldRank = 4, kWindowRank = 5;

class ProgramLowering : private ValueLowering {
 public:
  ProgramLowering(program::Module& module, const Kernel& kernel, const Plan& plan,
                  const Target& target, Memory& memory)
      : ValueLowering(module, kernel, target, memory),
        plan_(plan),
        ends_(memory),
        kept_(memory),
        registers_(memory),
        shared_(memory) {
    general_ = plan.general;
  }

  // making: of the copies that were made before, the one that the program is to make; -1: it is the
  // kernel's.
  Status run(const char* name, int making = -1) {
    ASTER_TRY(ends_.find(kernel_));
    ASTER_TRY(find_ready(&ready_, kernel_, plan_));
    making_ = making;
    for (int r = 0; r < kMaxRanges; ++r) bounds_[r] = {{kNone, 0}, {kNone, kernel_.size(r)}};
    declare_params();
    if (making_ >= 0) {
      loops(ready_[static_cast<size_t>(making_)].segment, 0);
    } else {
      for (size_t i = 0; i < kernel_.roots.size(); ++i) root(kernel_.roots[i]);
    }
    program::Program out(memory_);
    std::snprintf(out.name, sizeof(out.name), "%s", name);
    ASTER_TRY(b.finish(&out));
    return module_.programs.push(std::move(out));
  }

 private:
  struct Bounds {
    Number lo, hi;
    bool taken = false;  // the range's value is lo: a task is one step of its loop
  };
  const Segment& segment(int i) const { return kernel_.segments[static_cast<size_t>(i)]; }
  const Region& region(int i) const { return kernel_.regions[static_cast<size_t>(i)]; }

  // ---- Tasks ----

  // Rows by groups of items.
  void shared_root(int at) {
    const int r = plan_.at(at).nest.loops[0].range;
    items_ = parts_ = plan_.at(at).items;
    const Id row = open_loop({}, {kNone, kernel_.size(r)}, 1, LoopKind::kGroup0);
    bounds_[r] = {{row, 0}, plus({row, 0}, 1), true};
    for (int f : segment(at).folds) {
      for (Node fold : region(f).roots)
        b.fail(shared_.set(fold, local_array(register_type(fold), items_)));
    }
    item_ = part_ = open_loop({}, {kNone, items_}, 1, LoopKind::kLocal0);
    loops(at, 0);
    b.close();
    b.close();
    items_ = 0, parts_ = 1;
  }

  // Blocks by groups of items.
  void block_root(int at) {
    const SegmentPlan& plan = plan_.at(at);
    const Nest& nest = plan.nest;
    items_ = plan.items;
    block_ = true;
    steps_ = block_steps(kernel_, plan);
    parts_ = static_cast<int>(std::max<int64_t>(items_ / steps_, 1));
    const Id group = open_loop({}, {kNone, task_count(kernel_, plan)}, 1, LoopKind::kGroup0);
    declare_packed(kernel_, plan_, at);
    for (int f : segment(at).folds) {
      for (Node fold : region(f).roots) {
        if (parts_ == 1) break;
        const bool across = nest.vector >= 0 && has(kernel_.ranges(fold), nest.vector);
        b.fail(shared_.set(fold, local_array(register_type(fold),
                                             int64_t{1} * items_ * (across ? nest.lanes : 1))));
      }
    }
    item_ = open_loop({}, {kNone, items_}, 1, LoopKind::kLocal0);
    begin_blocks(plan, group);
    if (segment(at).folds.empty()) bring_all(region(segment(at).stores));
    step_ = part_ = item_;
    if (steps_ > items_) step_ = open_loop({item_, 0}, {kNone, steps_}, items_);
    if (steps_ < items_) {
      part_ = make(Op::kQuo, DType::kInt64, {item_, integer(steps_)});
      step_ = make(Op::kRem, DType::kInt64, {item_, integer(steps_)});
    }
    begin_steps(plan);
    body(at);
    for (int r : segment(at).ranges) untile(r), ranges_[r].index = kNone;
    for (int open = steps_ > items_ ? 3 : 2; open > 0; --open) b.close();
    vector_ = -1, lanes_ = 1, items_ = 0, parts_ = 1, block_ = false;
  }
  Id digit(Id number, int64_t below, int64_t count, bool last) {
    if (below > 1) number = make(Op::kQuo, DType::kInt64, {number, integer(below)});
    return last ? number : make(Op::kRem, DType::kInt64, {number, integer(count)});
  }
  Id times(Id value, int64_t factor) {
    return factor == 1 ? value : make(Op::kMul, DType::kInt64, {value, integer(factor)});
  }
  // Where the blocks of a group begin, and the values of ranges that it has one of.
  void begin_blocks(const SegmentPlan& plan, Id group) {
    int64_t below = 1;
    for (int i = plan.tasks.loops; i-- > 0;) {
      const Loop& loop = plan.nest.loops[i];
      const int64_t count = task_count(kernel_, plan, i);
      const Id at = times(digit(group, below, count, i == 0), plan.nest.loop_step(i));
      (loop.block != 0 ? begins_ : within_)[loop.range] = at;
      if (loop.block == 0) ranges_[loop.range].index = at;
      below *= count;
    }
  }
  // The values of the ranges that the items share.
  void begin_steps(const SegmentPlan& plan) {
    const Nest& nest = plan.nest;
    int64_t below = 1;
    for (int i = nest.loop_count; i-- > plan.tasks.loops;) {
      const int r = nest.loops[i].range;
      const int64_t step = nest.step(r), length = block_length(kernel_, plan, r);
      const Id at = times(digit(step_, below, length / step, i == plan.tasks.loops), step);
      within_[r] = at;
      tile(r, nest, kTileRank);
      ranges_[r].index = begins_[r] == kNone ? at : make(Op::kAdd, DType::kInt64, {begins_[r], at});
      if (kernel_.size(r) % length != 0) checked_ |= range_bit(r);
      if (ranges_[r].lanes > 1) vector_ = r, lanes_ = ranges_[r].lanes;
      below *= length / step;
    }
  }

  // Where the steps of a loop begin that items share, and how far they are apart.
  Number first_of_item(Number lo, int64_t step) {
    const Id own = make(Op::kMul, DType::kInt64, {item_, integer(step)});
    return lo.id == kNone ? plus({own, 0}, lo.word)
                          : Number{make(Op::kAdd, DType::kInt64, {lo.id, own}), 0};
  }
  // The values of all items combined, halves with halves.
  Id combined_items(Node fold, Id value) {
    const Id array = *shared_.find(fold);
    const DType dtype = b.at(array).dtype;
    const uint8_t n = b.at(value).lanes;
    const int64_t steps = items_ / parts_;
    const program::Term mine[] = {{n, item_, false}}, first[] = {{n, step_, false}};
    const std::array words{Word{1}, Word{n}};
    const auto load = [&](int64_t beyond, std::span<const program::Term> from) {
      Instruction in{.op = Op::kLoad, .dtype = dtype, .lanes = n};
      in.constant = beyond;
      return b.act(in, std::array{array}, words, from);
    };
    (void)b.act({.op = Op::kStore}, std::array{array, value}, words, {mine, 1});
    for (int64_t half = items_ / 2; half >= steps; half /= 2) {
      barrier();
      const Id taken = make(Op::kCmpLt, DType::kBool, {item_, integer(half)});
      (void)b.open({.op = Op::kIf}, std::array{taken});
      const Id both = arithmetic(operation(fold), dtype, {load(0, mine), load(half * n, mine)});
      (void)b.act({.op = Op::kStore}, std::array{array, both}, words, {mine, 1});
      b.close();
    }
    barrier();
    return steps > 1 ? load(0, first) : load(0, {});
  }

  void root(int at) {
    if (plan_.at(at).shares_block()) return block_root(at);
    if (plan_.at(at).items != 0) return shared_root(at);
    const Nest& nest = plan_.at(at).nest;
    const Tasks& tasks = plan_.at(at).tasks;
    int opened = 0;
    for (int i = 0; i < tasks.loops; ++i) {
      const int64_t count = task_count(kernel_, plan_.at(at), i);
      if (count == 1 && !plan_.general) continue;
      const Loop& loop = nest.loops[i];
      const int64_t chunk = i + 1 == tasks.loops ? tasks.chunk : nest.loop_step(i);
      open_task(loop.range, chunk, count, loop.block == 0 && chunk == nest.step(loop.range));
      ++opened;
    }
    // Tasks are counted by their loops.
    if (opened == 0 && kernel_.roots.size() > 1) {
      (void)open_loop({kNone, 0}, {kNone, 1}, 1, LoopKind::kTask);
      ++opened;
    }
    loops(at, 0);
    for (int i = 0; i < opened; ++i) b.close();
    for (int i = 0; i < tasks.loops; ++i) {
      const int r = nest.loops[i].range;
      bounds_[r] = {{kNone, 0}, {kNone, kernel_.size(r)}};
    }
  }

  // Task t covers `chunk` of the range, the last one the rest besides.
  void open_task(int r, int64_t chunk, int64_t count, bool one_step) {
    const int64_t size = kernel_.size(r);
    if (size == chunk * count && !plan_.general) {
      const Number lo{open_loop({kNone, 0}, {kNone, size}, chunk, LoopKind::kTask), 0};
      bounds_[r] = {lo, plus(lo, chunk), one_step};
      return;
    }
    const Id task = open_loop({kNone, 0}, {kNone, count}, 1, LoopKind::kTask);
    const Number lo{make(Op::kMul, DType::kInt64, {task, integer(chunk)}), 0};
    const Id last = make(Op::kCmpEq, DType::kBool, {task, integer(count - 1)});
    const Id hi = b.pure({.op = Op::kWhere, .dtype = DType::kInt64},
                         std::array{last, integer(size), plus(lo, chunk).id});
    bounds_[r] = {lo, {hi, 0}};
  }

  // ---- Loops of a segment ----

  void loops(int at, int i) {
    const Nest& nest = plan_.at(at).nest;
    if (sums_.pass == Pass::kWhole) {
      if (i == pack_loop(kernel_, plan_, at, true)) {
        find_packs(at);
        if (making_ >= 0) return;
      }
      if (making_ < 0 && i == pack_loop(kernel_, plan_, at, false)) make_packs(at);
      const int64_t block = making_ < 0 ? sum_block(plan_.at(at)) : 0;
      if (block != 0 && i == sum_loop(kernel_, plan_, at)) return sum_by_blocks(at, i, block);
    }
    if (i == nest.loop_count) return body(at);
    const Loop& loop = nest.loops[i];
    const int r = loop.range;
    if (making_ >= 0 && !has(ready_[static_cast<size_t>(making_)].access->ranges, r))
      return loops(at, i + 1);
    if (loop.block != 0) return block_loop(at, i);
    const int64_t step = nest.step(r);
    const Bounds bounds = bounds_[r];
    const Rest rest = nest.rest(r);
    tile(r, nest, is_inner(at, r) ? kInnerTileRank : kTileRank);
    if (ranges_[r].lanes > 1) vector_ = r, lanes_ = ranges_[r].lanes;
    const int stores = segment(at).stores;
    if (has(kernel_.carried(), r) && stores >= 0 && making_ < 0) declare_carries(region(stores), r);
    Number end;
    if (rest == Rest::kMask) {
      short_ = static_cast<int>(kernel_.size(r));
      ranges_[r].index = integer(0);
      loops(at, i + 1);
      short_ = 0;
    } else if (const End* const found = find_end(at, i, &end); found != nullptr) {
      b.fail(kept_.push(found->compare));
      inside(at, i, bounds.lo, end);
      kept_.pop();
      beyond_ = found;
      inside(at, i, next_step(bounds.lo, bounds.hi, end, step), bounds.hi);
      beyond_ = nullptr;
    } else if (bounds.taken) {
      sums_.step[r] = ranges_[r].index = bounds.lo.id;
      loops(at, i + 1);
    } else if (split_at_borders(at, i)) {
      // no step of most has conditions
    } else if (rest == Rest::kThen) {
      inside(at, i, bounds.lo, least(bounds.hi, {kNone, first_part(nest, r)}));
    } else {
      const bool scalar = step > 1 && rest == Rest::kScalar;
      inside(at, i, bounds.lo, scalar ? plus(bounds.hi, 1 - step) : bounds.hi);
    }
    if (ranges_[r].lanes > 1) vector_ = -1, lanes_ = 1;
    untile(r);
    if (rest == Rest::kScalar) rest_loop(at, i, step);
    if (rest == Rest::kThen) last_steps(at, i);
    ranges_[r].index = kNone;
  }

  // Vectors along a range at whose ends alone what is read has conditions: those between have none.
  // So have tiles of rows that tasks share: of all of them compilers find the few conditions that
  // may fail. Those at both ends are one loop, whose vectors are not split again.
  bool split_at_borders(int at, int i) {
    const SegmentPlan& plan = plan_.at(at);
    const Nest& nest = plan.nest;
    const int r = nest.loops[i].range;
    const Rest rest = nest.rest(r);
    const bool columns = i + 1 == nest.loop_count && r == nest.vector;
    const bool rows = i + 1 < nest.loop_count && r != nest.vector && nest.copies(r) > 1 &&
                      bounds_[r].lo.id != kNone;
    const bool may = (columns || rows) && !at_border_ && !plan_.general && plan.items == 0 &&
                     making_ < 0 && segment(at).children.empty() &&
                     (rest == Rest::kEven || rest == Rest::kOverlap) &&
                     target_.language != Language::kOpencl && !has(kernel_.carried(), r);
    int64_t lo = 0, hi = kernel_.size(r);
    Vec<End> met(memory_);
    if (!may || !find_within(&lo, &hi, &met, at, r, nest.step(r))) return false;
    const Bounds bounds = bounds_[r];
    const Number first = least(bounds.hi, {kNone, lo}), last = most(bounds.lo, {kNone, hi});
    const bool both = rows && lo > 0 && hi < kernel_.size(r);
    at_border_ = rows;
    if (both) {
      const Id end = open_loop({}, {kNone, 2}, 1);
      const Id second = make(Op::kCmpLt, DType::kBool, {integer(0), end});
      const auto of = [&](Number one, Number other) {
        return Number{b.pure({.op = Op::kWhere, .dtype = DType::kInt64},
                             std::array{second, id_of(other), id_of(one)}),
                      0};
      };
      const Number from = of(bounds.lo, last);
      inside(at, i, from, of(first, bounds.hi));
      b.close();
    } else if (lo > 0) {
      inside(at, i, bounds.lo, first);
    }
    at_border_ = false;
    const size_t before = assumed_.size();
    b.fail(assumed_.append(met.data(), met.size()));
    inside(at, i, most(bounds.lo, {kNone, lo}), least(bounds.hi, {kNone, hi}));
    assumed_.truncate(before);
    at_border_ = rows;
    if (!both && hi < kernel_.size(r)) inside(at, i, last, bounds.hi);
    at_border_ = false;
    return true;
  }

  // Elements of a range that the steps of more copies cover.
  int64_t first_part(const Nest& nest, int r) const {
    return first_steps(kernel_.size(r), nest.step(r), nest.last_step(r));
  }
  // The steps of fewer copies.
  void last_steps(int at, int i) {
    const Nest& nest = plan_.at(at).nest;
    const int r = nest.loops[i].range, fewer = nest.tile(r)->fewer;
    const Number first{kNone, first_part(nest, r)};
    const Bounds& bounds = bounds_[r];
    Number lo = first;
    if (bounds.lo.id != kNone)
      lo = {make(Op::kMax, DType::kInt64, {bounds.lo.id, id_of(first)}), 0};
    tile(r, nest, is_inner(at, r) ? kInnerTileRank : kTileRank, fewer);
    if (ranges_[r].lanes > 1) vector_ = r, lanes_ = ranges_[r].lanes;
    sums_.step[r] = ranges_[r].index = open_loop(lo, bounds.hi, nest.last_step(r));
    loops(at, i + 1);
    b.close();
    if (ranges_[r].lanes > 1) vector_ = -1, lanes_ = 1;
    untile(r);
  }

  // Loop i of a segment between two steps; the last one of a range may be moved back.
  void inside(int at, int i, Number lo, Number hi) {
    const Nest& nest = plan_.at(at).nest;
    const int r = nest.loops[i].range;
    const int64_t step = nest.step(r);
    const bool shares =
        items_ != 0 && segment(at).parent >= 0 && r == shared_range(kernel_, plan_, at);
    if (shares) lo = first_of_item(lo, step);
    const Id j = ranges_[r].index = open_loop(lo, hi, shares ? step * items_ : step);
    sums_.step[r] = j;
    if (step > 1 && nest.rest(r) == Rest::kOverlap)
      ranges_[r].index = id_of(least({j, 0}, plus(bounds_[r].hi, -step)));
    loops(at, i + 1);
    b.close();
  }

  // Of long sums: all steps of loop i and those inside read a panel of so many terms before they
  // read the next one, and the sums stand in an array meanwhile.
  void sum_by_blocks(int at, int i, int64_t block) {
    const Nest& nest = plan_.at(at).nest;
    for (int j = i; j < nest.loop_count; ++j) {
      const int range = nest.loops[j].range;
      int64_t elements = kernel_.size(range);
      for (const Loop& loop : std::span(nest.loops, static_cast<size_t>(i))) {
        if (loop.range == range) elements = std::min(elements, loop.block);
      }
      const int64_t step = nest.step(range);
      sums_.ranges |= range_bit(range);
      sums_.elements[range] = (elements - 1) / step * step + step;
      sums_.first[range] = bounds_[range].lo;
    }
    declare_sums(region(segment(at).folds[0]).roots[0]);
    const int64_t size = kernel_.size(plan_.at(at).folds[0].loops[0].range);
    const int64_t last = (size - 1) / block * block;
    sums_.pass = Pass::kClear;
    loops(at, i);
    const Id begin = open_loop({}, {kNone, last}, block);
    sums_.lo = {begin, 0}, sums_.hi = plus(sums_.lo, block), sums_.pass = Pass::kAdd;
    loops(at, i);
    b.close();
    sums_.lo = {kNone, last}, sums_.hi = {kNone, size}, sums_.pass = Pass::kLast;
    loops(at, i);
    sums_ = {};
  }

  // Copies of what the folds of a segment read, for the loops inside that do not move them.
  void find_packs(int at) {
    forget_panels(true);
    for (const ReadyCopy& copy : ready_) {
      const bool made = making_ < 0 || &copy - ready_.data() == making_;
      if (copy.segment == at && made) pack_ready(copy, plan_.at(at));
    }
  }
  void make_packs(int at) {
    forget_panels(false);
    each_pack(kernel_, plan_, at, false,
              [&](const Region& region, const Access& a) { pack(a.node, region.own); });
  }

  // What whole steps leave, one by one.
  void rest_loop(int at, int i, int64_t step) {
    const int r = plan_.at(at).nest.loops[i].range;
    const Bounds& bounds = bounds_[r];
    Number from;
    if (bounds.lo.id == kNone && bounds.hi.id == kNone) {
      from.word = bounds.hi.word - (bounds.hi.word - bounds.lo.word) % step;
    } else {
      const Id size = make(Op::kSub, DType::kInt64, {id_of(bounds.hi), id_of(bounds.lo)});
      const Id left = make(Op::kRem, DType::kInt64, {size, integer(step)});
      from.id = make(Op::kSub, DType::kInt64, {id_of(bounds.hi), left});
    }
    if (has(kernel_.carried(), r)) continue_carries();
    const bool shares = items_ != 0 && r == shared_range(kernel_, plan_, at);
    if (shares) from = first_of_item(from, 1);
    sums_.step[r] = ranges_[r].index = open_loop(from, bounds.hi, shares ? items_ : 1);
    loops(at, i + 1);
    b.close();
  }

  // ---- Ends ----

  // Whether some loop of a nest goes along a range that a condition names.
  static bool names_loop(const Nest& nest, const Room& room) {
    return std::ranges::any_of(std::span(nest.loops, static_cast<size_t>(nest.loop_count)),
                               [&](const Loop& loop) { return room.factor(loop.range) != 0; });
  }

  // From where on loop i of a segment, whose stores stand in it, writes constants alone; at a step
  // of the loop, or where the range ends. Null if there is no such.
  const End* find_end(int at, int i, Number* out) {
    const Segment& s = segment(at);
    const Nest& nest = plan_.at(at).nest;
    const int r = nest.loops[i].range;
    const Bounds& bounds = bounds_[r];
    const int64_t step = nest.step(r);
    if (beyond_ != nullptr || making_ >= 0 || (items_ != 0 && s.parent < 0) || s.stores < 0 ||
        !s.children.empty() ||
        (step > 1 && (nest.rest(r) == Rest::kScalar || nest.rest(r) == Rest::kThen))) {
      return nullptr;
    }
    const End* found = nullptr;
    ends_.each(s.stores, [&](const End& end) {
      Room room;
      if (found != nullptr || !room_of(&room, kernel_, end)) return;
      const int64_t k = -room.factor(r);
      if (k == 0 && (i > 0 || names_loop(nest, room))) return;
      const Id left = room_left(room, k > 0 ? r : -1);
      if (left == kNone) return;
      found = &end;
      *out = k > 0 ? end_of(left, k, bounds.lo, bounds.hi) : either(left, bounds.hi, bounds.lo);
      if (end.some) *out = k > 0 ? either(left, *out, bounds.hi) : bounds.hi;
    });
    if (found != nullptr && step > 1 && nest.rest(r) == Rest::kOverlap) {
      // The last step, which is moved back, is all beyond or goes with those before.
      const Id past = make(Op::kSub, DType::kInt64, {out->id, id_of(plus(bounds.hi, -step))});
      *out = either(past, bounds.hi, *out);
    }
    return found;
  }
  // What stands beyond an end.
  void constants(const Region& r) {
    forget();
    for (size_t i = 0; i < r.roots.size(); ++i) {
      const Node value = r.roots[i]->src(2);
      const Id id = constant(register_of(value), ends_.stored(*beyond_, i));
      b.fail(value->op == Op::kFold ? folds_.set(value, id) : values_.set(value, id));
    }
    for (Node node : r.roots) {
      const int slot = static_cast<int>(node->src(0)->arg(0));
      store(node, std::find(streams_->begin(), streams_->end(), slot) != streams_->end());
    }
  }
  // Where loop i of the folds of a region ends, at a step or at hi. before: an end that no step is
  // beyond which ends at *full or earlier; null if none is known.
  Number fold_end(const Region& r, const Nest& nest, int i, int64_t hi,
                  const End** before = nullptr, Number* full = nullptr) {
    const int range = nest.loops[i].range;
    Number out{kNone, hi};
    int count = 0;
    ends_.each(static_cast<int>(&r - kernel_.regions.data()), [&](const End& end) {
      Room room;
      const bool kept = std::ranges::find(kept_, end.compare) != kept_.end();
      if (kept || assumed(end.compare) >= 0 || !room_of(&room, kernel_, end)) return;
      const int64_t k = -room.factor(range);
      if (k == 0 && (i > 0 || names_loop(nest, room))) return;
      const Id left = room_left(room, k > 0 ? range : -1);
      if (left == kNone) return;
      ++count;
      if (k > 0) {
        const Number some = end_of(left, k, {}, out);
        out = end.some ? either(left, some, out) : some;
        if (before != nullptr && goes_along(room, range)) *before = &end, *full = some;
      } else if (!end.some) {
        out = either(left, out, {});
      }
    });
    if (before != nullptr && count != 1) *before = nullptr;
    return out;
  }
  // Whether a room is the same for all that is inside a loop, but for the loop's own steps.
  bool goes_along(const Room& room, int range) const {
    return std::ranges::all_of(std::span(room.terms, room.count), [&](const Room::Term& term) {
      if (term.node->op != Op::kRange) return true;
      const RangeState& state = ranges_[term.node->arg(0)];
      return term.node->arg(0) == range ||
             (state.index != kNone && state.copy == kNone && state.axis < 0 && state.lanes == 1);
    });
  }

  void block_loop(int at, int i) {
    const Loop& loop = plan_.at(at).nest.loops[i];
    const Bounds saved = bounds_[loop.range];
    const Id block = open_loop(saved.lo, saved.hi, loop.block);
    bounds_[loop.range] = {{block, 0}, least(plus({block, 0}, loop.block), saved.hi)};
    loops(at, i + 1);
    bounds_[loop.range] = saved;
    b.close();
  }

  // Beside folds the tile of fewer copies goes inside: what these read stays in registers, and what
  // the others read goes by.
  bool is_inner(int at, int r) const {
    const SegmentPlan& plan = plan_.at(at);
    const std::span tiles(plan.nest.tiles, static_cast<size_t>(plan.nest.tile_count));
    return !plan.folds.empty() && std::ranges::any_of(tiles, [&](const Tile& other) {
      return other.copies > plan.nest.copies(r);
    });
  }

  void tile(int r, const Nest& nest, int rank) { tile(r, nest, rank, nest.copies(r)); }
  void tile(int r, const Nest& nest, int rank, int copies) {
    RangeState& state = ranges_[r];
    state.lanes = r == nest.vector ? nest.lanes : 1;
    state.axis = copies > 1 ? static_cast<int>(b.add_axis(copies, rank)) : -1;
    copies_[r] = copies > 1 ? copies : 0;
  }
  void untile(int r) {
    if (ranges_[r].axis >= 0) b.release_axis(static_cast<size_t>(ranges_[r].axis));
    ranges_[r].axis = -1;
    ranges_[r].lanes = 1;
    copies_[r] = 0;
  }

  void body(int at) {
    const Segment& s = segment(at);
    if (beyond_ != nullptr) {
      streams_ = &plan_.at(at).streams;
      return constants(region(s.stores));
    }
    declare_kept(at);
    for (size_t i = 0; i < s.folds.size(); ++i) folds(s.folds[i], plan_.at(at).folds[i]);
    if (sums_.pass == Pass::kClear || sums_.pass == Pass::kAdd) return;
    if (s.stores >= 0) {
      streams_ = &plan_.at(at).streams;
      const int rolled = plan_.at(at).rolled == 0 ? -1 : largest_tile();
      const bool one = parts_ > 1 && s.parent < 0;  // of the items that share a fold
      if (one)
        (void)b.open({.op = Op::kIf},
                     std::array{make(Op::kCmpEq, DType::kBool, {part_, integer(0)})});
      if (rolled >= 0) {
        rolled_stores(region(s.stores), rolled, plan_.at(at).rolled);
      } else {
        stores(region(s.stores));
      }
      if (one) b.close();
    }
    for (int child : s.children) loops(child, 0);
    kept_values_.clear();
  }

  // Arrays for what the folds of a segment hand down to those below. Where loops end before their
  // ranges do, not all of it would be there.
  void declare_kept(int at) {
    for (int child : segment(at).children) {
      if (!plan_.at(child).kept) continue;
      const KeptValue found = kept_value(kernel_, plan_, child);
      bool ends = found.folded == nullptr;
      const auto seen = [&](const End&) { ends = true; };
      ends_.each(segment(child).stores, seen);
      if (!ends) ends_.each(segment(at).folds[static_cast<size_t>(found.group)], seen);
      if (ends) continue;
      Instruction array{.op = Op::kArray, .dtype = found.folded->dtype};
      array.kind = static_cast<uint8_t>(program::Space::kScratch);
      array.constant = kernel_.size(found.from_range);
      b.fail(kept_values_.push({found, b.declare(array, std::array{Word{0}})}));
    }
  }

  // Of those that are open.
  int largest_tile() const {
    int largest = -1;
    for (int range = 0; range < kMaxRanges; ++range) {
      if (copies_[range] > (largest < 0 ? 0 : copies_[largest])) largest = range;
    }
    return largest;
  }

  // A loop over the copies of a tile; some stay side by side in it.
  void rolled_stores(const Region& r, int rolled, int beside) {
    RangeState& state = ranges_[rolled];
    const RangeState saved = state;
    const int copies = copies_[rolled];
    int others = 1, step = 1;
    for (int range = 0; range < kMaxRanges; ++range) {
      if (copies_[range] != 0 && range != rolled) others *= copies_[range];
    }
    while (step * others < beside && copies % (2 * step) == 0 && 2 * step < copies) step *= 2;
    Vec<Kept> kept(memory_);
    keep_folds(&kept, r, rolled);
    const Id copy = state.copy = open_loop({}, {kNone, copies}, step);
    state.axis = step > 1 ? static_cast<int>(b.add_axis(step, kTileRank)) : -1;
    copies_[rolled] = step > 1 ? step : 0;
    for (Kept& one : kept) {
      const Instruction in = b.at(one.value);
      Vec<program::Term> terms = place_of(one.fold, in.lanes, range_bit(rolled), &one.stride);
      b.fail(terms.push({one.stride, copy, false}));
      if (step > 1) b.fail(terms.push({one.stride, static_cast<uint32_t>(state.axis), true}));
      const Id value =
          b.act({.op = Op::kLoad, .dtype = in.dtype, .lanes = in.lanes}, std::array{one.array},
                std::array{Word{1}, Word{in.lanes}}, {terms.data(), terms.size()});
      b.fail(folds_.set(one.fold, value));
    }
    stores(r);
    b.close();
    for (const Kept& one : kept) b.fail(folds_.set(one.fold, one.value));
    state = saved;
    copies_[rolled] = copies;
  }

  void stores(const Region& r) {
    forget();
    region_ = &r;
    Map<Node, uint8_t> needed(memory_);
    if (!kept_values_.empty()) b.fail(find_needed(&needed, r));
    for (Node node : r.nodes) {
      if (kept_values_.empty() || needed.contains(node)) emit(node);
    }
    // Everything is read before anything is written: results may take the place of operands.
    for (Node node : r.roots) {
      const int slot = static_cast<int>(node->src(0)->arg(0));
      store(node, std::find(streams_->begin(), streams_->end(), slot) != streams_->end());
    }
  }

  // ---- Folds ----

  void folds(int at, const Nest& nest) {
    const Region& r = region(at);
    const bool own_vector = nest.vector >= 0;
    if (own_vector && nest.lanes > 1) vector_ = nest.vector, lanes_ = nest.lanes;
    looped_ = 0;
    for (int range : r.own) {
      tile(range, nest, kFoldRank);
      if (!has(nest.written, range)) continue;
      const int rank = overlaps(r, range) ? kWindowRank : kWrittenRank;
      const bool room = b.has_axes(kernel_.size(range), rank, kAxesOfTiles);
      if (room && all_vary(r, range)) {
        ranges_[range].axis = static_cast<int>(b.add_axis(kernel_.size(range), rank));
      } else {
        looped_ |= range_bit(range);
      }
    }
    if (sums_.pass != Pass::kWhole) {
      add_block(r, nest);
    } else if (!block_ && nest.loop_count > 0 && nest.loops[0].block != 0) {
      fold_parts(r, nest);
    } else {
      if (part_fold_ != nullptr && !is_first_place(kernel_, r.roots[0], part_fold_)) leave_part();
      fold_once(r, nest, 0);
      leave_part();
    }
    for (int range : r.own) untile(range), ranges_[range].index = kNone;
    if (own_vector) vector_ = -1, lanes_ = 1;
  }

  void fold_once(const Region& r, const Nest& nest, int i) {
    registers_.clear();
    for (Node fold : r.roots) declare(r, fold, nest);
    if (block_) {
      block_folds(r, nest);
    } else {
      fold_loops(r, nest, i);
    }
    for (size_t f = 0; f < registers_.size(); ++f) finish(r.roots[f], nest, registers_[f]);
  }

  void add_block(const Region& r, const Nest& nest) {
    registers_.clear();
    declare(r, r.roots[0], nest);
    const Id sum = registers_[0];
    if (sums_.pass == Pass::kClear) return store_sum(sum);
    (void)b.act({.op = Op::kSet}, std::array{sum, load_sum(b.at(sum))});
    ranges_[nest.loops[1].range].index = open_loop(sums_.lo, sums_.hi, 1);
    fold_loops(r, nest, 2);
    b.close();
    if (sums_.pass == Pass::kAdd) return store_sum(sum);
    finish(r.roots[0], nest, sum);
  }

  // What the next folds look for, part by part: of all, and in which part it is first. The last
  // part may begin in the one before: what is greatest is so twice, and is not found again.
  void fold_parts(const Region& r, const Nest& nest) {
    const Node fold = r.roots[0];
    const Op op = operation(fold);
    const int64_t all = kernel_.size(nest.vector), size = nest.loops[0].block;
    const int64_t count = (all - 1) / size + 1;
    const auto begin = [&](Id part) {
      const Number at{times(part, size), 0};
      return all % size == 0 ? at.id : least(at, {kNone, all - size}).id;
    };
    const Instruction number{.op = Op::kAcc, .dtype = DType::kInt64, .flags = Flag::kImmediate};
    const Instruction register_of{
        .op = Op::kAcc, .dtype = register_type(fold), .flags = Flag::kImmediate};
    const Id most = b.act(register_of, {}, std::array{identity(op, register_of.dtype)});
    const Id first = b.act(number, {}, std::array{Word{0}});
    const Id at = open_loop({}, {kNone, count}, 1);
    part_begin_ = begin(at), part_size_ = size;
    fold_once(r, nest, 1);
    const Id found = cast(value(fold), register_of.dtype);
    const bool rises = op == Op::kMax;
    Id better = make(Op::kCmpLt, DType::kBool, {rises ? most : found, rises ? found : most});
    if (dtype::is_float(register_of.dtype)) {
      const Id first_nan =
          truth(Op::kAnd, std::array{make(Op::kCmpNe, DType::kBool, {found, found}),
                                     make(Op::kCmpEq, DType::kBool, {most, most})});
      better = truth(Op::kOr, std::array{better, first_nan});
    }
    const Id part = make(Op::kWhere, DType::kInt64, {better, at, first});
    const Id next = arithmetic(op, register_of.dtype, {most, found});
    (void)b.act({.op = Op::kSet}, std::array{first, part});
    (void)b.act({.op = Op::kSet}, std::array{most, next});
    b.close();
    b.fail(folds_.set(fold, make(Op::kCast, register_of.dtype, {most})));
    part_begin_ = begin(clamped(first, {}, {kNone, count - 1}).id);
    part_fold_ = fold;
  }
  void leave_part() { part_begin_ = kNone, part_size_ = 0, part_fold_ = nullptr; }

  // The axes of the tiles that a fold's registers stand for; what is written out is none of them.
  program::AxisSet register_axes(const Region& r, Node fold, const Nest& nest) const {
    program::AxisSet out = 0;
    for (int range = 0; range < kMaxRanges; ++range) {
      if (copies_[range] == 0 || !has(kernel_.ranges(fold) | r.own.set(), range)) continue;
      if (!has(nest.written, range))
        out |= program::axis_bit(static_cast<size_t>(ranges_[range].axis));
    }
    return out;
  }

  void declare(const Region& r, Node fold, const Nest& nest) {
    const bool across = nest.vector >= 0 || varies(fold);
    const DType dtype = register_type(fold);
    const Instruction in{.op = Op::kAcc,
                         .dtype = dtype,
                         .lanes = static_cast<uint8_t>(across ? lanes_ : 1),
                         .axes = register_axes(r, fold, nest),
                         .flags = Flag::kImmediate};
    b.fail(registers_.push(b.act(in, {}, std::array{identity(operation(fold), dtype)})));
  }

  // Folds of a block: what they read is brought before them, or so many terms at one time.
  void block_folds(const Region& r, const Nest& nest) {
    const Loop& first = nest.loops[0];
    if (nest.loop_count == 0 || first.block == 0) {
      bring_all(r);
      return shared_folds(r, nest, 0);
    }
    begins_[first.range] = open_loop({}, {kNone, kernel_.size(first.range)}, first.block);
    bring_all(r);
    shared_folds(r, nest, 1);
    barrier();
    b.close();
    begins_[first.range] = within_[first.range] = kNone;
  }
  void shared_folds(const Region& r, const Nest& nest, int i) {
    if (i == nest.loop_count) return update(r, kNone, -1);
    const int range = nest.loops[i].range;
    const int64_t size = kernel_.size(range), block = nest.loops[0].block;
    const Id begin = begins_[range];
    Number lo, hi{kNone, begin == kNone ? size : block};
    if (begin != kNone && size % block != 0)
      hi = least(hi, {make(Op::kSub, DType::kInt64, {integer(size), begin}), 0});
    const bool shares = i == 0 && parts_ > 1;
    if (shares) lo = {part_, 0};
    const Id at = open_loop(lo, hi, shares ? parts_ : 1);
    within_[range] = at;
    ranges_[range].index = begin == kNone ? at : make(Op::kAdd, DType::kInt64, {begin, at});
    shared_folds(r, nest, i + 1);
    b.close();
    within_[range] = kNone;
  }

  // past, first_of: of update, in what is left of the vectorised range.
  void fold_loops(const Region& r, const Nest& nest, int i, Id past = kNone, int first_of = -1) {
    if (i == nest.loop_count) return update(r, past, first_of);
    const int range = nest.loops[i].range;
    const int64_t step = nest.step(range);
    const int64_t size = part_size_ != 0 ? part_size_ : kernel_.size(range);
    const int64_t whole = size / step * step;
    const bool general = plan_.general && step > 1;
    if (whole > 0 || general) {
      const bool shares = items_ != 0 && range == nest.vector;
      const auto along = [&](Number lo, Number hi) {
        const Id at =
            open_loop(shares ? first_of_item(lo, step) : lo, hi, shares ? step * items_ : step);
        ranges_[range].index =
            part_size_ != 0 ? make(Op::kAdd, DType::kInt64, {part_begin_, at}) : at;
        fold_loops(r, nest, i + 1, past, first_of);
        b.close();
      };
      const End* before = nullptr;
      Number from, full;
      const Number end =
          part_size_ != 0 ? Number{kNone, whole} : fold_end(r, nest, i, whole, &before, &full);
      if (before != nullptr) {  // whole steps need no condition
        if (step > 1) {
          const Id steps = make(Op::kQuo, DType::kInt64, {full.id, integer(step)});
          full.id = make(Op::kMul, DType::kInt64, {steps, integer(step)});
        }
        b.fail(assumed_.push(*before));
        along({}, full);
        assumed_.pop();
        from = full;
      }
      if (before == nullptr || step > 1 || before->some) along(from, end);
    }
    if (whole < size || general) fold_tail(r, nest, i, whole);
  }

  // What is left of the vectorised range, vector by vector; the last one ends with the range and
  // leaves out the lanes that were added before. All goes to the first copy's registers.
  void fold_tail(const Region& r, const Nest& nest, int i, int64_t from) {
    const int range = nest.loops[i].range;
    const int64_t n = nest.lanes, size = kernel_.size(range);
    RangeState& state = ranges_[range];
    const Number end = fold_end(r, nest, i, size);
    const int axis = state.axis;
    state.axis = -1;
    const Id j = open_loop({kNone, from}, end, n);
    state.index = id_of(least({j, 0}, {kNone, size - n}));
    const bool masked = (size - from) % n != 0 || (plan_.general && n > 1);
    tail_ = items_ != 0;
    fold_loops(r, nest, i + 1, masked ? make(Op::kSub, DType::kInt64, {j, state.index}) : kNone,
               axis);
    tail_ = false;
    b.close();
    state.axis = axis;
  }

  // Takes in the values of one iteration. past: how many first lanes to leave out, if any;
  // first_of: the axis of which only the first copy is changed, if any.
  void update(const Region& r, Id past, int first_of) {
    for (int range : r.own) {
      if (has(looped_, range))
        ranges_[range].index = open_loop({}, {kNone, kernel_.size(range)}, 1);
    }
    update_once(r, past, first_of);
    for (int range : r.own) {
      if (has(looped_, range)) b.close();
    }
  }
  void update_once(const Region& r, Id past, int first_of) {
    forget();
    region_ = &r;
    Map<Node, uint8_t> needed(memory_);
    if (!assumed_.empty()) b.fail(find_needed(&needed, r));
    from_panels_ = true;
    for (Node node : r.nodes) {
      if (!assumed_.empty() && !needed.contains(node)) continue;
      const bool skip = std::ranges::any_of(r.roots, [&](Node fold) {
        return (fold->src(0) == node || product_of(fold) == node) && fuses(r, fold);
      });
      if (!skip) emit(node);
      if (!skip && !kept_values_.empty()) keep_value(node);
    }
    for (size_t i = 0; i < r.roots.size() && b.status().ok(); ++i) {
      const Id acc = registers_[i];
      const Instruction in = b.at(acc);
      Id next = combined(r, r.roots[i], acc);
      const auto only = [&](Id condition) {
        const Id lanes = spread(condition, in.lanes);
        next = in.dtype == DType::kBool
                   ? truth(Op::kWhere, std::array{lanes, next, acc})
                   : b.pure({.op = Op::kWhere, .dtype = in.dtype, .lanes = in.lanes},
                            std::array{lanes, next, acc});
      };
      if (past != kNone && in.lanes > 1) {
        const DType wide = dtype::size(in.dtype) == 8 ? DType::kInt64 : DType::kInt32;
        const Id lanes = b.pure({.op = Op::kLanes, .dtype = wide, .lanes = in.lanes});
        only(make(Op::kCmpLe, DType::kBool, {spread(cast(past, wide), in.lanes), lanes}));
      }
      if (tail_) only(make(Op::kCmpEq, DType::kBool, {item_, integer(0)}));
      if (first_of >= 0) only(make(Op::kCmpEq, DType::kBool, {axis_value(first_of), integer(0)}));
      (void)b.act({.op = Op::kSet}, std::array{acc, next});
    }
    from_panels_ = false;
  }

  Id combined(const Region& r, Node fold, Id acc) {
    const Instruction in = b.at(acc);
    if (fuses(r, fold)) {
      const Node product = product_of(fold);
      const Id a = spread(value(product->src(0)), in.lanes);
      const Id c = spread(value(product->src(1)), in.lanes);
      const Op by = product->op == Op::kMul ? Op::kMulAcc : product->op;
      const Id sum = arithmetic(by, in.dtype, {a, c, acc});
      if (product == fold->src(0) || assumed(fold->src(0)->src(0)) == 1) return sum;
      const Id condition = spread(value(fold->src(0)->src(0)), in.lanes);
      return b.pure({.op = Op::kWhere, .dtype = in.dtype, .lanes = in.lanes},
                    std::array{condition, sum, acc});
    }
    const Id v = spread(cast(operand(fold->src(0), fold), in.dtype), in.lanes);
    if (in.dtype == DType::kBool) return truth(operation(fold), std::array{acc, v});
    return arithmetic(operation(fold), in.dtype, {acc, v});
  }

  // The operation by which registers of conditions are combined.
  static Op joint(Op op, DType dtype) {
    if (dtype != DType::kBool) return op;
    if (op == Op::kXor) return op;
    return op == Op::kAnd || op == Op::kMul || op == Op::kMin ? Op::kAnd : Op::kOr;
  }

  // Copies of each fold combined, then the lanes, always in the same order.
  void finish(Node fold, const Nest& nest, Id acc) {
    const Instruction in = b.at(acc);
    const Op op = joint(operation(fold), in.dtype);
    Id out = acc;
    const int axis = nest.vector >= 0 ? ranges_[nest.vector].axis : -1;
    if (axis >= 0) {
      const auto without =
          static_cast<program::AxisSet>(in.axes & ~program::axis_bit(static_cast<size_t>(axis)));
      out = b.pure({.op = Op::kJoin,
                    .with = op,
                    .dtype = in.dtype,
                    .lanes = in.lanes,
                    .axis = static_cast<uint8_t>(axis),
                    .axes = without},
                   std::array{out});
    }
    if (nest.vector >= 0 && in.lanes > 1)
      out = b.pure({.op = Op::kAcross, .with = op, .dtype = in.dtype}, std::array{out});
    // The register's last value, that what is made of it may go where that is known.
    if (out == acc) out = make(Op::kCast, in.dtype, {acc});
    if (parts_ > 1) out = combined_items(fold, out);
    if (dtype::is_narrow_float(fold->dtype)) out = round_to(out, fold->dtype);
    b.fail(folds_.set(fold, out));
  }

  const Plan& plan_;
  Ends ends_;
  Vec<Node> kept_;                     // conditions whose ends are those of loops around
  const End* beyond_ = nullptr;        // where only constants are written
  bool at_border_ = false;             // of rows, of which those between have code of their own
  const Vec<int>* streams_ = nullptr;  // of the segment that is lowered
  Bounds bounds_[kMaxRanges];
  Vec<Id> registers_;  // of the folds of the region that is lowered
  // Ranges of these that the plan writes out and a loop goes through: nothing differs along them,
  // or no axis is left.
  RangeSet looped_ = 0;
  // Of groups: whether items share a block, its steps, how many share each of these, and which of
  // these the present one is; arrays of folds' values.
  bool block_ = false;
  int64_t steps_ = 1;
  int parts_ = 1;
  Id step_ = kNone, part_ = kNone;
  bool tail_ = false;  // what one item does alone
  // Of folds that go part by part: where the part begins, and its elements; what is found so.
  Id part_begin_ = kNone;
  int64_t part_size_ = 0;
  Node part_fold_ = nullptr;
  Map<Node, Id> shared_;
};

}  // namespace

Status lower_program(program::Module* out, const char* name, const Kernel& kernel, const Plan& plan,
                     const Target& target, Memory& memory) {
  return ProgramLowering(*out, kernel, plan, target, memory).run(name);
}

Status lower_ready(program::Module* out, const char* name, const Kernel& kernel, const Plan& plan,
                   int copy, const Target& target, Memory& memory) {
  return ProgramLowering(*out, kernel, plan, target, memory).run(name, copy);
}

}  // namespace aster::codegen
