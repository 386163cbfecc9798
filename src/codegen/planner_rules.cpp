// What the planner and the rules of plans ask of kernels.
#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/ends.h"
#include "codegen/planner.h"

namespace aster::codegen {

// Bytes that an access touches: windows overlap, but in what they are of.
static double bytes_of(const Kernel& kernel, const Access& a) {
  const DType dtype = a.store ? a.node->src(2)->dtype : a.node->dtype;
  double elements = 1;
  for (int range = 0; range < kMaxRanges; ++range) {
    if (has(a.ranges, range)) elements *= static_cast<double>(kernel.size(range));
  }
  return std::min(elements, static_cast<double>(a.node->src(0)->count())) *
         static_cast<double>(dtype::size(dtype));
}

void add_work(Work* out, const Kernel& kernel, const Region& region) {
  const size_t stores = region.folds ? 0 : region.roots.size();
  out->flops += region.iterations * (region.operations - static_cast<double>(stores));
  for (const Access& a : region.accesses) out->bytes += bytes_of(kernel, a);
}

bool reads_through(const Kernel& kernel, const Region& region, int range, const Machine& m,
                   int vector) {
  double most = 0, beside = 0, row = 0;
  for (const Access& a : region.accesses) {
    double bytes = bytes_of(kernel, a);
    const bool along = has(a.ranges, range) && (vector < 0 || has(a.ranges, vector));
    if (along && bytes > most) {
      std::swap(bytes, most);
      row = static_cast<double>(dtype::size(a.node->dtype));
      for (int own : region.own)
        row *= has(a.ranges, own) ? static_cast<double>(kernel.size(own)) : 1;
    }
    beside += bytes;
  }
  return most > m.far && row <= m.far_row && beside < m.beside;
}

const Access* read_once(const Kernel& kernel, int segment, int vector, const Machine& m) {
  constexpr int64_t kLine = 64;
  const Segment& own = kernel.segments[static_cast<size_t>(segment)];
  const RangeSet ranges = own.ranges.set();
  if (!own.folds.empty() || !own.children.empty() || own.parent >= 0 || own.stores < 0 ||
      vector < 0 || (ranges & kernel.carried()) != 0)
    return nullptr;
  const Access* found = nullptr;
  for (const Access& a : kernel.regions[static_cast<size_t>(own.stores)].accesses) {
    const Node value = a.store ? a.node->src(2) : a.node;
    const bool whole =
        a.ranges == ranges && a.opaque == 0 && a.gate == 0 &&
        kernel.stride(a.node->src(1), vector) == 1 &&
        kernel.size(vector) * static_cast<int64_t>(dtype::size(value->dtype)) >= kLine;
    if (a.store && !whole) return nullptr;
    if (a.store || a.ranges == 0) continue;
    if (!whole || found != nullptr) return nullptr;
    found = &a;
  }
  return found != nullptr && bytes_of(kernel, *found) > m.far ? found : nullptr;
}

Windows windows_of(const Kernel& kernel, const Region& region, int vector) {
  const RangeList& ranges = kernel.segments[static_cast<size_t>(region.segment)].ranges;
  for (const Access& a : region.accesses) {
    if (!has(a.ranges, vector)) continue;
    for (int range : ranges) {
      const int64_t step = kernel.stride(a.node->src(1), range);
      const auto overlaps = [&](int own) {
        const int64_t stride = kernel.stride(a.node->src(1), own);
        return stride > 0 && step % stride == 0 && step < stride * kernel.size(own);
      };
      if (range == vector || has(kernel.carried(), range) || kernel.size(range) < 2 || step <= 0)
        continue;
      const uint8_t* const own = std::ranges::find_if(region.own, overlaps);
      if (own != region.own.end()) return {range, *own};
    }
  }
  return {};
}

bool fits_int32(Node node) {
  const auto fits = [](Node x) { return x->vmin >= INT32_MIN && x->vmax <= INT32_MAX; };
  bool all = node->dtype != DType::kWeakInt || fits(node);
  for (Node source : node->src()) all &= source->dtype != DType::kWeakInt || fits(source);
  return all;
}

int lane_bytes(const Kernel&, Node node) {
  if (node->dtype == DType::kWeakInt ||
      (node->op != Op::kLoad && node->op != Op::kFold && node->nsrc > 0 &&
       node->src(0)->dtype == DType::kWeakInt)) {
    const int own = node->dtype == DType::kWeakInt || node->dtype == DType::kBool
                        ? 0
                        : static_cast<int>(dtype::size(node->dtype));
    return std::max(own, fits_int32(node) ? 4 : 8);
  }
  if (node->dtype == DType::kBool) return 1;
  if (node->dtype == DType::kWeakFloat) return 8;
  return dtype::is_narrow_float(node->dtype) ? 4 : static_cast<int>(dtype::size(node->dtype));
}

int64_t product_registers(const Target& target, const Region& region) {
  // Products that no instruction adds to a sum need one to be in.
  const bool apart = std::ranges::any_of(region.nodes, [&](Node node) {
    return node->op == Op::kPairDot || (node->op == Op::kQuadDot && !target.vnni);
  });
  return (target.vector_bytes == 64 ? 32 : 16) - (apart ? 1 : 0);
}

int most_lanes(const Kernel& kernel, const Target& target, const Region& region, int v) {
  int widest = 1;
  for (Node node : region.nodes) {
    if (has(kernel.ranges(node), v)) widest = std::max(widest, lane_bytes(kernel, node));
  }
  for (Node root : region.roots) {
    const DType dtype = region.folds ? root->dtype : root->src(2)->dtype;
    if (dtype != DType::kBool)
      widest = std::max(widest, lane_bytes(kernel, region.folds ? root : root->src(2)));
  }
  return std::min(target.max_lanes, target.register_bytes() / widest);
}

int most_lanes(const Kernel& kernel, const Target& target, int segment, int v) {
  int least = program::kMaxLanes;
  each_region(kernel, segment, [&](int r) {
    least = std::min(least, most_lanes(kernel, target, kernel.regions[static_cast<size_t>(r)], v));
  });
  return least;
}

bool may_leave_lanes_out(const Kernel& kernel, const Plan& plan, int segment) {
  const Nest& nest = plan.at(segment).nest;
  const int v = nest.vector;
  bool linear = v >= 0;
  each_region(kernel, segment, [&](int r) {
    for (const Access& a : kernel.regions[static_cast<size_t>(r)].accesses)
      linear &= !has(a.opaque, v);
  });
  return linear && !plan.general && nest.tile(v) == nullptr && nest.lanes > kernel.size(v) &&
         plan.at(segment).items == 0 && !has(kernel.carried(), v) &&
         kernel.segments[static_cast<size_t>(segment)].children.empty();
}

namespace {

// Bytes of an array that stays in the second-level cache beside what goes by.
constexpr int64_t kMostKept = int64_t{128} << 10;

// Two values that differ in a range alone, and how many operations they take; -1 if they differ
// otherwise.
class Alike {
 public:
  Alike(int from, int to) : from_(from), to_(to) {}
  double operations(Node a, Node b) {
    sum_ = 0, left_ = kMostNodes;
    return alike(a, b) ? sum_ : -1;
  }

 private:
  static constexpr int kMostNodes = 256;  // of expressions that are compared
  bool alike(Node a, Node b) {
    if (a == b) return true;
    if (--left_ < 0 || a->op != b->op || a->dtype != b->dtype || a->nsrc != b->nsrc) return false;
    if (a->op == Op::kRange) return a->arg(0) == from_ && b->arg(0) == to_;
    if (a->op == Op::kFold || a->op == Op::kCarry || a->op == Op::kParam ||
        !std::ranges::equal(a->arg(), b->arg()))
      return false;
    sum_ += weight(a);
    for (size_t i = 0; i < a->nsrc; ++i) {
      if (!alike(a->src(i), b->src(i))) return false;
    }
    return true;
  }

  int from_, to_, left_ = 0;
  double sum_ = 0;
};

}  // namespace

KeptValue kept_value(const Kernel& kernel, const Plan& plan, int segment) {
  KeptValue out;
  const Segment& own = kernel.segments[static_cast<size_t>(segment)];
  if (own.parent < 0 || own.stores < 0 || own.ranges.count != 1 || plan.general ||
      kernel.carried() != 0)
    return out;
  for (int at = own.parent; at >= 0; at = kernel.segments[static_cast<size_t>(at)].parent) {
    const SegmentPlan& around = plan.at(at);
    if (around.nest.vector >= 0 || around.nest.tile_count != 0 || around.items != 0) return out;
  }
  const int to = own.ranges.at[0];
  const Segment& around = kernel.segments[static_cast<size_t>(own.parent)];
  for (size_t group = 0; group < around.folds.size(); ++group) {
    const Region& folds = kernel.regions[static_cast<size_t>(around.folds[group])];
    if (folds.own.count != 1) continue;
    const int from = folds.own.at[0];
    if (kernel.size(from) != kernel.size(to)) continue;
    Alike alike(from, to);
    for (Node folded : folds.nodes) {
      const bool real = folded->dtype == DType::kFloat32 || folded->dtype == DType::kFloat64;
      const int64_t bytes = kernel.size(from) * static_cast<int64_t>(dtype::size(folded->dtype));
      // A product may be part of a fused multiply-add.
      if (!real || !has(kernel.ranges(folded), from) || bytes > kMostKept ||
          folded->op == Op::kMul || folded->op == Op::kWhere || folded->op == Op::kLoad)
        continue;
      for (Node stored : kernel.regions[static_cast<size_t>(own.stores)].nodes) {
        const double operations =
            stored->op == folded->op && stored != folded ? alike.operations(folded, stored) : -1;
        if (operations > out.operations)
          out = {folded, stored, static_cast<int>(group), from, to, operations};
      }
    }
  }
  return out;
}

bool last_steps_fit(const Kernel& kernel, const SegmentPlan& plan, int range) {
  const Nest& nest = plan.nest;
  const Tile* const tile = nest.tile(range);
  const int64_t size = kernel.size(range);
  if (tile == nullptr || tile->fewer < 1 || tile->fewer >= tile->copies || plan.items != 0 ||
      has(kernel.carried(), range))
    return false;
  const int64_t first = first_steps(size, nest.step(range), nest.last_step(range));
  for (int i = 0; i < nest.loop_count; ++i) {
    const int64_t block = nest.loops[i].block, chunk = plan.tasks.chunk;
    if (nest.loops[i].range != range) continue;
    if (block != 0 && (size - 1) / block * block > first) return false;
    if (i + 1 < plan.tasks.loops && block == 0) return false;
    if (i + 1 == plan.tasks.loops && (size / chunk - 1) * chunk > first) return false;
  }
  return first > 0;
}

int64_t sum_block(const SegmentPlan& plan) {
  if (plan.items != 0 || plan.folds.size() != 1) return 0;
  const Nest& nest = plan.folds[0];
  const bool blocks = nest.loop_count > 1 && nest.loops[1].range == nest.loops[0].range;
  return blocks && nest.vector < 0 ? nest.loops[0].block : 0;
}

int sum_loop(const Kernel& kernel, const Plan& plan, int segment) {
  const SegmentPlan& s = plan.at(segment);
  const Segment& own = kernel.segments[static_cast<size_t>(segment)];
  const RangeSet summed = kernel.ranges(kernel.regions[static_cast<size_t>(own.folds[0])].roots[0]);
  RangeSet moved = 0;
  for (const bool once : {false, true})
    each_pack(kernel, plan, segment, once,
              [&](const Region&, const Access& a) { moved |= a.ranges; });
  int out = s.nest.loop_count - 1;
  if (moved != 0) out = std::min(out, read_again(kernel, s.nest, moved).first);
  out = std::max(out, s.tasks.loops - 1);
  for (int i = s.nest.loop_count; i-- > out;) {
    const Loop& loop = s.nest.loops[i];
    if (loop.block != 0 || loop.range == s.nest.vector || !has(summed, loop.range)) out = i + 1;
  }
  return out;
}

bool has_plain_sum(const Kernel& kernel, int segment) {
  const Segment& own = kernel.segments[static_cast<size_t>(segment)];
  if (own.parent >= 0 || !own.children.empty() || own.folds.size() != 1 || kernel.carried() != 0)
    return false;
  const Region& region = kernel.regions[static_cast<size_t>(own.folds[0])];
  return region.roots.size() == 1 &&
         std::ranges::none_of(region.accesses, [](const Access& a) { return a.gate != 0; });
}

bool may_sum_by_blocks(const Kernel& kernel, const Plan& plan, int segment) {
  const SegmentPlan& s = plan.at(segment);
  return !plan.general && s.items == 0 && s.nest.loop_count != 0 &&
         has_plain_sum(kernel, segment) && s.folds[0].vector < 0 && s.folds[0].written == 0 &&
         sum_loop(kernel, plan, segment) < s.nest.loop_count;
}

bool may_go_by_parts(const Kernel& kernel, const Plan& plan, int segment, size_t group) {
  const Segment& own = kernel.segments[static_cast<size_t>(segment)];
  for (int at = segment; at >= 0; at = kernel.segments[static_cast<size_t>(at)].parent) {
    const SegmentPlan& around = plan.at(at);
    if (around.nest.vector >= 0 || around.nest.tile_count != 0 || around.items != 0) return false;
  }
  if (plan.general || group + 1 >= own.folds.size()) return false;
  const auto only = [&](size_t i) -> Node {
    const Region& region = kernel.regions[static_cast<size_t>(own.folds[i])];
    const Nest& nest = plan.at(segment).folds[i];
    const bool simple = region.roots.size() == 1 && region.own.count == 1 && nest.written == 0;
    return simple && nest.vector == region.own.at[0] ? region.roots[0] : nullptr;
  };
  const Node most = only(group), place = only(group + 1);
  if (most == nullptr || place == nullptr || most->dtype == DType::kBool ||
      !is_first_place(kernel, place, most)) {
    return false;
  }
  // Of zeros the parts may find one of another sign.
  ptrdiff_t readers = 0;
  for (Node node : kernel.order()) readers += std::ranges::count(node->src(), most);
  return readers == 1;
}

bool reads_what_it_writes(const Kernel& kernel, int segment) {
  bool found = false;
  each_region(kernel, segment, [&](int r) {
    for (const Access& a : kernel.regions[static_cast<size_t>(r)].accesses)
      found |= a.store && kernel.read(a.node->src(0));
  });
  return found;
}

int shared_range(const Kernel& kernel, const Plan& plan, int segment) {
  const RangeList& ranges = kernel.segments[static_cast<size_t>(segment)].ranges;
  const int vector = plan.at(segment).nest.vector;
  return vector >= 0 || ranges.count == 0 ? vector : ranges.at[ranges.count - 1];
}

bool shares_items(const Kernel& kernel, const Plan& plan, int root) {
  const auto moves = [&](int stores, int range) {
    const Vec<Node>& all = kernel.regions[static_cast<size_t>(stores)].roots;
    return std::ranges::all_of(
        all, [&](Node store) { return has(kernel.ranges(store->src(1)), range); });
  };
  const Segment& s = kernel.segments[static_cast<size_t>(root)];
  if (kernel.roots.size() != 1 || s.ranges.count != 1 || s.folds.empty() || s.parent >= 0 ||
      plan.at(root).nest.vector >= 0 || kernel.carried() != 0 ||
      reads_what_it_writes(kernel, root) || (s.stores >= 0 && !moves(s.stores, s.ranges.at[0]))) {
    return false;
  }
  for (size_t i = 0; i < s.folds.size(); ++i) {
    if (plan.at(root).folds[i].vector < 0) return false;
    for (Node fold : kernel.regions[static_cast<size_t>(s.folds[i])].roots) {
      if (fold->dtype == DType::kBool) return false;
    }
  }
  return std::ranges::all_of(s.children, [&](int child) {
    const Segment& below = kernel.segments[static_cast<size_t>(child)];
    const int range = shared_range(kernel, plan, child);
    return range >= 0 && below.folds.empty() && below.children.empty() && below.stores >= 0 &&
           moves(below.stores, range) && moves(below.stores, s.ranges.at[0]);
  });
}

namespace {

// Whether an access strides along the vector of a nest and is contiguous along a tile of so many
// copies at least, and no more than the vector has lanes.
bool turns(const Kernel& kernel, const Nest& nest, const Access& a, int fewest) {
  if (nest.vector < 0 || !has(a.ranges, nest.vector) || has(a.opaque, nest.vector)) return false;
  const int64_t stride = kernel.stride(a.node->src(1), nest.vector);
  if (stride >= -4 && stride <= 4) return false;
  return std::ranges::any_of(
      std::span(nest.tiles, static_cast<size_t>(nest.tile_count)), [&](const Tile& tile) {
        return tile.range != nest.vector && tile.copies >= fewest && tile.copies <= nest.lanes &&
               kernel.stride(a.node->src(1), tile.range) == 1;
      });
}

}  // namespace

bool turns_a_square(const Kernel& kernel, const Nest& nest, const Region& stores) {
  return std::ranges::any_of(stores.accesses, [&](const Access& a) {
    return !a.store && a.node->nsrc <= 2 && !kernel.written(a.node->src(0)) &&
           turns(kernel, nest, a, nest.lanes);
  });
}

bool turns_results(const Kernel& kernel, const Nest& nest, const Region& stores) {
  return std::ranges::any_of(stores.accesses,
                             [&](const Access& a) { return a.store && turns(kernel, nest, a, 4); });
}

namespace {

// Blocks of the terms of one range that the steps of the innermost loop share, if these are many.
int64_t blocks_of_shared(const Kernel& kernel, const Plan& plan, int segment) {
  constexpr int64_t kFewestSteps = 16;
  const SegmentPlan& own = plan.at(segment);
  const int inner = own.nest.innermost(), range = own.folds[0].loops[0].range;
  const int group = kernel.segments[static_cast<size_t>(segment)].folds[0];
  int64_t bytes = 0;  // of a term
  for (const Access& a : kernel.regions[static_cast<size_t>(group)].accesses) {
    if (has(a.ranges, inner)) continue;
    int64_t one = static_cast<int64_t>(dtype::size(a.node->src(0)->dtype));
    for (int r = 0; r < kMaxRanges; ++r) {
      if (has(a.ranges, r)) one *= own.nest.step(r);
    }
    bytes += one;
  }
  if (own.folds[0].loop_count != 1 || kernel.size(inner) < kFewestSteps * own.nest.step(inner))
    return 1;
  return static_cast<int64_t>(std::ceil(static_cast<double>(kernel.size(range)) *
                                        static_cast<double>(bytes) / kSharedTerms));
}

// Of a plan whose folds have one loop a range.
void choose_sum_blocks(Plan* plan, const Kernel& kernel) {
  for (size_t i = 0; i < plan->segments.size(); ++i) {
    SegmentPlan& own = plan->segments[i];
    const int at = static_cast<int>(i);
    if (own.packed.empty() || own.folds.size() != 1 || own.folds[0].loop_count < 1 ||
        !may_sum_by_blocks(kernel, *plan, at))
      continue;
    Nest& nest = own.folds[0];
    const int64_t size = kernel.size(nest.loops[0].range);
    int64_t blocks = std::min(fetched_blocks(kernel, *plan, at), size);
    if (blocks < 2) blocks = blocks_of_shared(kernel, *plan, at);
    if (blocks < 2) continue;
    nest.split_first((size - 1) / blocks + 1);
  }
}

// Of a plan whose folds have one loop a range.
void choose_parts(Plan* plan, const Kernel& kernel) {
  // In vectors that are compared: what each part costs beside its own, and a vector of what is
  // looked at for the place.
  constexpr double kOfPart = 40, kOfPlace = 9;
  constexpr int64_t kFewestParts = 4;
  for (size_t i = 0; i < plan->segments.size(); ++i) {
    SegmentPlan& own = plan->segments[i];
    for (size_t group = 0; group + 1 < own.folds.size(); ++group) {
      Nest& nest = own.folds[group];
      if (nest.loop_count != 1 || !may_go_by_parts(kernel, *plan, static_cast<int>(i), group))
        continue;
      const int range = nest.loops[0].range;
      const Nest& next = own.folds[group + 1];
      const int64_t size = kernel.size(range), step = nest.step(range);
      int64_t best = 0;
      double least = kOfPlace * static_cast<double>(size / nest.lanes);
      for (int64_t part = step; part <= size / kFewestParts; part += step) {
        if (part % next.step(next.vector) != 0) continue;
        const double cost = kOfPart * static_cast<double>((size - 1) / part + 1) +
                            kOfPlace * static_cast<double>(part / nest.lanes);
        if (cost < least) best = part, least = cost;
      }
      if (best == 0) continue;
      nest.split_first(best);
    }
  }
}

}  // namespace

void choose_rests(Plan* plan, const Kernel& kernel) {
  const auto choose = [&](Nest* n, Rest rest, const SegmentPlan* segment) {
    const auto of = [&](int range) {
      const int64_t step = n->step(range);
      const bool even = kernel.size(range) % step == 0 && !plan->general;
      if (even || step == 1) return Rest::kEven;
      return has(kernel.carried(), range) ? Rest::kScalar : rest;
    };
    for (int i = 0; i < n->tile_count; ++i) {
      Tile& tile = n->tiles[i];
      if (segment == nullptr || plan->general || !last_steps_fit(kernel, *segment, tile.range))
        tile.fewer = 0;
      tile.rest = tile.fewer != 0 ? Rest::kThen : of(tile.range);
    }
    if (n->vector >= 0 && n->tile(n->vector) == nullptr) {
      const bool part = n->lanes > kernel.size(n->vector);
      n->vector_rest = part ? Rest::kMask : of(n->vector);
    }
  };
  for (size_t i = 0; i < plan->segments.size(); ++i) {
    const int parent = kernel.segments[i].parent;
    if (plan->segments[i].shares_block()) continue;
    const bool again = reads_what_it_writes(kernel, static_cast<int>(i)) ||
                       (parent >= 0 && plan->segments[static_cast<size_t>(parent)].items != 0);
    SegmentPlan& own = plan->segments[i];
    choose(&own.nest, again ? Rest::kScalar : Rest::kOverlap, &own);
    for (Nest& fold : own.folds) {
      if (fold.loop_count > 0 && fold.loops[0].block != 0)
        std::copy(fold.loops + 1, fold.loops + fold.loop_count--, fold.loops);
      choose(&fold, Rest::kMask, nullptr);
    }
  }
  choose_parts(plan, kernel);
  choose_sum_blocks(plan, kernel);
}

Status choose_fetched(Plan* plan, const Kernel& kernel, int segment, const Machine& machine) {
  SegmentPlan& own = plan->segments[static_cast<size_t>(segment)];
  const auto loops = std::span(own.nest.loops, static_cast<size_t>(own.nest.loop_count));
  // Rows that go by in blocks are so many that memory has time.
  if (std::ranges::any_of(loops, [](const Loop& loop) { return loop.block != 0; })) return kOk;
  Status status;
  each_pack(kernel, *plan, segment, true, [&](const Region&, const Access& a) {
    const auto slot = static_cast<int>(a.node->src(0)->arg(0));
    const bool large = bytes_of(kernel, a) >= machine.fetched;
    if (large && read_again(kernel, own.nest, a.ranges).steps > 1 && status.ok() &&
        std::ranges::find(own.fetched, slot) == own.fetched.end())
      status = own.fetched.push(slot);
  });
  std::ranges::sort(own.fetched);
  return status;
}

int64_t fetched_blocks(const Kernel& kernel, const Plan& plan, int segment) {
  // Of a pass: more does not stay beside the next one, half of which a block has at most.
  constexpr double kMostAtOnce = 384 << 10, kBlock = 160 << 10;
  const SegmentPlan& own = plan.at(segment);
  if (own.fetched.empty() || !has_plain_sum(kernel, segment) || plan.general) return 1;
  double bytes = 0;
  each_pack(kernel, plan, segment, true, [&](const Region& region, const Access& a) {
    auto one = static_cast<double>(dtype::size(a.node->src(0)->dtype));
    for (int r = 0; r < kMaxRanges; ++r) {
      if (has(a.ranges, r))
        one *= static_cast<double>(has(region.own.set(), r) ? kernel.size(r) : own.nest.step(r));
    }
    bytes += one;
  });
  return bytes <= kMostAtOnce ? 1 : static_cast<int64_t>(std::ceil(bytes / kBlock));
}

Status choose_streams(Plan* plan, const Kernel& kernel, const Target& target) {
  const auto cache = static_cast<double>(target.cache_bytes);
  const double all = work_of(kernel).bytes;
  for (size_t i = 0; target.streaming && i < plan->segments.size(); ++i) {
    Vec<int>& out = plan->segments[i].streams;
    if (kernel.segments[i].stores < 0) continue;
    for (Node store : kernel.regions[static_cast<size_t>(kernel.segments[i].stores)].roots) {
      const Node param = store->src(0);
      auto bytes = static_cast<double>(dtype::size(store->src(2)->dtype));
      for (int range = 0; range < kMaxRanges; ++range) {
        if (has(kernel.ranges(store->src(1)), range))
          bytes *= static_cast<double>(kernel.size(range));
      }
      const int slot = static_cast<int>(param->arg(0));
      if (bytes > cache / 2 && all > cache && !kernel.read(param) &&
          std::ranges::find(out, slot) == out.end())
        ASTER_TRY(out.push(slot));
    }
    std::ranges::sort(out);
  }
  return kOk;
}

void take_few_copies(Plan* plan, const Kernel& kernel) {
  for (SegmentPlan& segment : plan->segments) {
    // Vectors are whole ones.
    Nest& nest = segment.nest;
    if (nest.vector >= 0 && nest.lanes > kernel.size(nest.vector)) nest.lanes /= 2;
    for (int i = 0; i < segment.nest.tile_count; ++i) {
      Tile& tile = segment.nest.tiles[i];
      tile.copies = static_cast<int>(std::bit_floor(static_cast<unsigned>(tile.copies)));
    }
  }
}

Work work_of(const Kernel& kernel) {
  Work out;
  for (int root : kernel.roots) {
    each_region(kernel, root,
                [&](int r) { add_work(&out, kernel, kernel.regions[static_cast<size_t>(r)]); });
  }
  return out;
}

}  // namespace aster::codegen
