#include "codegen/planner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace aster::codegen {
namespace {

int floor_power_of_two(int64_t x) {  // from 1 to 64
  return 1 << std::min(6, static_cast<int>(std::bit_width(static_cast<uint64_t>(x | 1))) - 1);
}

// Elements of a range that is worth a vector with lanes left out: fewer leave too few lanes.
constexpr int64_t kFewestInPart = 5;

class Planner {
 public:
  Planner(Plan& plan, const Kernel& kernel, const Target& target)
      : plan_(plan), kernel_(kernel), target_(target), m_(target.machine) {}

  Status run(Memory& memory) {
    for (const Segment& s : kernel_.segments) {
      ASTER_TRY(plan_.segments.push(SegmentPlan(memory)));
      ASTER_TRY(plan_.segments.back().folds.resize(s.folds.size(), Nest{}));
    }
    for (int root : kernel_.roots) {
      pixels_ = -1;
      sharing_ = 0;
      overlap_ = !reads_what_it_writes(kernel_, root);
      choose_vector(root);
      bool shared = false;
      if (wants_items(root)) {
        plan(root).items = target_.group;
      } else {
        ASTER_TRY(share_block(&shared, &plan_, kernel_, target_, root));
      }
      if (shared) continue;
      ASTER_TRY(choose_loops(root));
      split(&plan(root).tasks, root);
    }
    for (size_t i = 0; i < kernel_.segments.size(); ++i) {
      if (rolls(static_cast<int>(i))) plan_.segments[i].rolled = m_.rolled;
      plan_.segments[i].kept =
          packs() && kept_value(kernel_, plan_, static_cast<int>(i)).operations >= m_.kept;
    }
    choose_rests(&plan_, kernel_);
    return choose_streams(&plan_, kernel_, target_);
  }

 private:
  const Segment& segment(int i) const { return kernel_.segments[static_cast<size_t>(i)]; }
  const Nest& nest(int i) const { return plan_.at(i).nest; }
  const Region& region(int i) const { return kernel_.regions[static_cast<size_t>(i)]; }
  SegmentPlan& plan(int i) { return plan_.segments[static_cast<size_t>(i)]; }
  Nest& nest(int i) { return plan(i).nest; }
  // Of group i of a segment's folds.
  Nest& fold_nest(int at, size_t i) { return plan(at).folds[i]; }

  template <typename Body>
  void each_region(int at, Body body) const {
    codegen::each_region(kernel_, at, body);
  }
  bool carried(int range) const { return has(kernel_.carried(), range); }
  // Elements that those of some ranges which are in a set have together.
  double elements(const RangeList& ranges, RangeSet set = ~RangeSet{0}) const {
    double count = 1;
    for (int range : ranges) {
      if (has(set, range)) count *= static_cast<double>(kernel_.size(range));
    }
    return count;
  }

  int lanes(const Region& r, int v) const { return most_lanes(kernel_, target_, r, v); }

  double access_cost(const Access& a, int v, int lanes) const {
    if (v < 0) return 1;
    if (has(a.opaque, v)) return (a.store ? m_.scatter : m_.opaque) * lanes;
    if (!has(a.ranges | a.gate, v)) return m_.uniform;
    const int64_t stride = kernel_.stride(a.node->src(1), v);
    if (stride == 1) return has(a.gate, v) ? m_.masked : 1;
    if (stride == 0) return has(a.gate, v) ? m_.gather * lanes : m_.uniform;
    if (stride == -1 && a.store && !kernel_.read(a.node->src(0))) return m_.shuffle;
    if (stride == 2 && a.store && between(a, v) >= 0) return m_.shuffle;
    if ((stride == -1 || stride == 2) && !a.store)
      return has(a.gate, v) && stride != 2 ? m_.gather * lanes : m_.shuffle;
    return (a.store ? m_.scatter : m_.gather) * lanes;
  }

  // The range of two elements that lie between those which a store has along v. -1: none.
  int between(const Access& a, int v) const {
    if (target_.group > 0 || has(a.opaque | a.gate, v) || kernel_.read(a.node->src(0))) return -1;
    if (kernel_.stride(a.node->src(1), v) != 2) return -1;
    for (int range = 0; range < kMaxRanges; ++range) {
      if (range != v && has(a.ranges & ~(a.opaque | a.gate), range) && kernel_.size(range) == 2 &&
          kernel_.stride(a.node->src(1), range) == 1)
        return range;
    }
    return -1;
  }

  // Loads and stores that an access is written as: one, or one a lane.
  double pieces(const Access& a, int v, int lanes) const {
    return access_cost(a, v, lanes) >= m_.gather * lanes ? lanes : 1;
  }

  // What the body of a region is written as, once.
  double body_text(const Region& r, int v, int lanes) const {
    double text = 0;
    for (Node node : r.nodes) text += weight(node);
    for (const Access& a : r.accesses) text += pieces(a, v, lanes);
    return text;
  }

  // What a running value costs besides its operation: along the lanes it takes steps of 1, 2, 4, ..
  // lanes, each a shuffle and the operation; else it waits for itself.
  double carry_cost(Node carry, int v, int lanes) const {
    if (carried_range(carry) != v || lanes < 2)
      return v >= 0 && has(kernel_.ranges(carry), v) ? 1 : m_.latency;
    return 2.0 * (carry->nsrc - 1) * std::bit_width(static_cast<unsigned>(lanes) / 2);
  }

  double body_cost(const Region& r, int v, int lanes) const {
    double cost = r.operations;
    if (kernel_.carried() != 0) {
      for (Node node : r.nodes) {
        if (node->op == Op::kCarry) cost += carry_cost(node, v, lanes);
      }
    }
    for (const Access& a : r.accesses) cost += access_cost(a, v, lanes);
    return cost;
  }

  // Of all iterations of a region vectorised along v (-1: not at all) in so many lanes.
  double region_cost(const Region& r, int v, int n) const {
    if (v < 0) return r.iterations * body_cost(r, -1, 1);
    const double size = static_cast<double>(kernel_.size(v));
    const double vectors = static_cast<double>((kernel_.size(v) + n - 1) / n);
    double cost = r.iterations / size * vectors * body_cost(r, v, n);
    if (has(r.own.set(), v)) {
      double times = r.iterations;
      for (int range : r.own) times /= static_cast<double>(kernel_.size(range));
      cost += times * m_.horizontal * static_cast<double>(r.roots.size());
    }
    return cost;
  }

  int subtree_lanes(int at, int v) const { return most_lanes(kernel_, target_, at, v); }

  int lanes_within(int v, int most) const {
    return std::min(most, floor_power_of_two(kernel_.size(v)));
  }
  // Whether vectors of so many bytes are read under masks. Asked of the width alone: whatever the
  // language, folds are then in the same order.
  bool leaves_lanes_out(int64_t bytes, size_t element) const {
    if (bytes != 16 && bytes != 32 && bytes != 64) return false;
    return target_.vector_bytes >= 64 ||
           (target_.vector_bytes >= 32 && bytes <= 32 && element >= 4);
  }
  // Lanes of a segment's vectors along v. Of a range that is less than one vector some are left
  // out, where that costs nothing.
  int lanes_along(int at, int v) const {
    const int most = subtree_lanes(at, v), within = lanes_within(v, most);
    const int64_t size = kernel_.size(v);
    if (plan_.general || within == size || 2 * within > most || size < kFewestInPart ||
        target_.group > 0 || carried(v) || !segment(at).children.empty())
      return within;
    bool fits = true;
    each_region(at, [&](int r) {
      for (const Access& a : region(r).accesses) {
        const Node memory = a.node->src(0);
        if (!has(a.ranges | a.opaque, v)) continue;
        fits &= !has(a.opaque, v) && !(a.store && between(a, v) >= 0) &&
                leaves_lanes_out(2 * within * static_cast<int64_t>(dtype::size(memory->dtype)),
                                 dtype::size(memory->dtype));
      }
    });
    return fits ? 2 * within : within;
  }

  double subtree_cost(int at, int v) const {
    const int n = lanes_along(at, v);
    double cost = 0;
    each_region(at, [&](int r) { cost += region_cost(region(r), v, n); });
    return cost;
  }

  // The best of a region of folds along its own ranges.
  double own_cost(const Region& r, int* best) const {
    *best = -1;
    double least = region_cost(r, -1, 1);
    for (int v : r.own) {
      if (kernel_.size(v) < 2) continue;
      const double cost = region_cost(r, v, lanes_within(v, lanes(r, v)));
      if (cost < least) least = cost, *best = v;
    }
    return least;
  }

  // Cost of a segment and all below it with the best choices; *best is the segment's own vector
  // range.
  double best_cost(int at, int* best) const {
    *best = -1;
    double none = 0;
    int ignored;
    for (int r : segment(at).folds) none += own_cost(region(r), &ignored);
    if (segment(at).stores >= 0) none += region_cost(region(segment(at).stores), -1, 1);
    for (int child : segment(at).children) none += best_cost(child, &ignored);
    double least = none;
    for (int v : segment(at).ranges) {
      if (kernel_.size(v) < 2) continue;
      const double cost = subtree_cost(at, v);
      if (cost <= least) least = cost, *best = v;
    }
    return least;
  }

  void choose_vector(int at) {
    Nest& own = nest(at);
    (void)best_cost(at, &own.vector);
    // Rows of a few pixels have no vectors, but filters may have.
    const int pixels = shared_range(kernel_, plan_, at);
    if (const int filters = filters_of(at, pixels); filters >= 0) {
      pixels_ = pixels, own.vector = filters;
    } else if (own.vector < 0 || strides(at, own.vector)) {
      if (const int turned = turned_columns(at, &sharing_); turned >= 0) own.vector = turned;
    }
    if (own.vector >= 0) {
      own.lanes = lanes_along(at, own.vector);
      return;
    }
    for (size_t i = 0; i < segment(at).folds.size(); ++i) {
      const int r = segment(at).folds[i];
      Nest& fold = fold_nest(at, i);
      (void)own_cost(region(r), &fold.vector);
      if (fold.vector >= 0) {
        fold.lanes = lanes_within(fold.vector, lanes(region(r), fold.vector));
      }
    }
    for (int child : segment(at).children) choose_vector(child);
  }

  // The columns of a product whose second operand has each of them together: a copy turns it, where
  // rows enough share that. The last range, or that whose copy serves most, *sharing it; else -1.
  int turned_columns(int at, RangeSet* sharing) const {
    const Segment& own = segment(at);
    if (!packs() || own.parent >= 0 || own.folds.size() != 1 || !own.children.empty() ||
        own.ranges.count < 2 || carries(at))
      return -1;
    const int last = own.ranges.at[own.ranges.count - 1],
              rows = own.ranges.at[own.ranges.count - 2];
    const Region& body = region(own.folds[0]);
    const bool once = std::ranges::all_of(body.accesses, [&](const Access& a) {
      return !has(a.ranges, last) || kernel_.is_constant(static_cast<int>(a.node->src(0)->arg(0)));
    });
    const int64_t least = once ? m_.ready_rows : m_.pack_rows;
    if (kernel_.size(rows) >= least && has(sharing_columns(at, last), rows)) return last;
    // Of others the results are stored lane by lane, for which short sums leave no time.
    for (const Access& a : body.accesses) {
      if ((a.gate | a.opaque) != 0) return -1;
    }
    const double terms = elements(body.own);
    double most = 0;
    int out = -1;
    for (int v : own.ranges) {
      if (terms < m_.rolled_fold || kernel_.size(v) < subtree_lanes(at, v)) continue;
      const RangeSet sharers = sharing_columns(at, v);
      const double serves = elements(own.ranges, sharers);
      if (serves >= static_cast<double>(m_.pack_rows) && serves > most)
        most = serves, out = v, *sharing = sharers;
    }
    return out;
  }

  // Ranges that columns along v do not vary with, if they lie turned.
  RangeSet sharing_columns(int at, int v) const {
    if (subtree_lanes(at, v) < 4 || !fills(v, subtree_lanes(at, v))) return 0;
    const Region& body = region(segment(at).folds[0]);
    RangeSet columns = 0;
    for (const Access& a : body.accesses) {
      if (!has(a.ranges | a.opaque | a.gate, v)) continue;
      const auto contiguous = [&](int r) { return kernel_.stride(a.node->src(1), r) == 1; };
      if (has(a.opaque | a.gate, v) || contiguous(v) || std::ranges::none_of(body.own, contiguous))
        return 0;
      columns |= a.ranges | a.opaque | a.gate;
    }
    return columns == 0 ? 0 : segment(at).ranges.set() & ~columns;
  }

  // Of a correlation, whose windows shift along a range that would be vectorised, or of a product
  // whose rows are so short that lanes are lost: the range of its filters, so that pixels are read
  // one by one. -1 of anything else, or where too few windows would share the copy of the filters.
  int filters_of(int at, int v) const {
    const Segment& own = segment(at);
    if (!packs() || plan_.general || v < 0 || own.parent >= 0 || own.folds.size() != 1 ||
        own.stores < 0 || !own.children.empty() || carries(at))
      return -1;
    const Region& body = region(own.folds[0]);
    RangeSet image = 0, filters = 0;
    int64_t window = 0;  // elements that it shifts by
    for (const Access& a : body.accesses) {
      if ((a.gate | a.opaque) != 0) return -1;
      (has(a.ranges, v) ? image : filters) |= a.ranges;
      const int64_t apart = kernel_.stride(a.node->src(1), v);
      for (int range : body.own) {
        const int64_t stride = kernel_.stride(a.node->src(1), range);
        if (has(a.ranges, v) && stride > 0 && stride < kernel_.size(v) * apart &&
            stride * (kernel_.size(range) - 1) >= apart)
          window = std::max(window, kernel_.size(range));
      }
    }
    // Rows too short for vectors are of pixels, not of the taps of a gradient to filters.
    if (nest(at).vector < 0 && (window == 0 || window > kernel_.size(v))) return -1;
    const int64_t lanes = subtree_lanes(at, v);
    const bool lost = (kernel_.size(v) < 2 * lanes && kernel_.size(v) % lanes != 0) ||
                      filled(v, 2 * lanes) < m_.filled;
    if ((window == 0 && !lost) || body.roots.size() != 1) return -1;
    // Beside few terms the squares of results that are turned take the time.
    if (elements(body.own) < m_.filter_terms && filled(v, lanes) > m_.filled) return -1;
    int out = -1;
    for (int range : own.ranges) {
      const int64_t most = subtree_lanes(at, range);
      const bool fits = has(filters & ~image, range) && most >= 4 &&
                        lanes_along(at, range) == most &&
                        (kernel_.size(range) < most || fills(range, most));
      if (fits && (out < 0 || kernel_.size(range) > kernel_.size(out))) out = range;
    }
    if (out < 0) return -1;
    // One vector of filters leaves more loads to a tile than rows that fill their vectors.
    const int64_t one = subtree_lanes(at, out);
    if ((kernel_.size(out) < 2 * one && kernel_.size(v) >= 4 * lanes) ||
        filled(v, lanes) > 1.15 * filled(out, one))
      return -1;
    const double pixels = elements(own.ranges, image & ~filters);
    const bool once = std::ranges::all_of(body.accesses, [&](const Access& a) {
      return has(a.ranges, v) || kernel_.is_constant(static_cast<int>(a.node->src(0)->arg(0)));
    });
    const int64_t fewest =
        once ? m_.ready_rows : m_.pack_filters * std::min(lanes, kernel_.size(v));
    return pixels >= static_cast<double>(fewest) ? out : -1;
  }

  // Whether vectors along a range need no elements but their own, or may repeat some.
  bool fills(int range, int64_t lanes) const {
    return overlap_ || kernel_.size(range) % lanes == 0;
  }

  // The part of the lanes that a range fills.
  double filled(int range, int64_t lanes) const {
    const int64_t size = kernel_.size(range), vectors = (size + lanes - 1) / lanes;
    return static_cast<double>(size) / static_cast<double>(vectors * lanes);
  }

  // Vector range that is active in a segment: its own or that of a segment around it.
  int active_vector(int at) const {
    for (; at >= 0; at = segment(at).parent) {
      const int v = plan_.at(at).nest.vector;
      if (v >= 0) return v;
    }
    return -1;
  }

  // That of the range which is active in a segment.
  const Nest& nest_of_vector(int at) const {
    while (plan_.at(at).nest.vector < 0) at = segment(at).parent;
    return plan_.at(at).nest;
  }

  Status choose_loops(int at) {
    overlap_ = !reads_what_it_writes(kernel_, at);
    blocks_ = packs() && !plan_.general && has_plain_sum(kernel_, at) &&
              region(segment(at).folds[0]).own.count == 1;
    choose_tiles(at);
    order_loops(at);
    for (size_t i = 0; i < segment(at).folds.size(); ++i) choose_fold_loops(at, i);
    ASTER_TRY(choose_packs(at));
    for (int child : segment(at).children) ASTER_TRY(choose_loops(child));
    return kOk;
  }

  // Folds long enough for each item of a group to have a vector.
  bool wants_items(int root) {
    if (target_.group < 2 || plan_.general || !shares_items(kernel_, plan_, root)) return false;
    for (const Nest& fold : plan(root).folds) {
      if (kernel_.size(fold.vector) < int64_t{1} * fold.lanes * target_.group) return false;
    }
    return true;
  }

  void add_tile(Nest& n, int range, int64_t copies) const {
    if (copies > 1 && n.tile_count < Nest::kMaxTiles && !carried(range))
      n.tiles[n.tile_count++] = Tile{range, static_cast<int>(copies)};
  }

  // At most `most` copies of `unit` elements: as many as cover the range with the least overlap.
  // Where these are few (a prime number of rows), as many as cost least; tile: what a tile costs
  // beside its copies, in copies.
  int64_t even_copies(int range, int64_t unit, int64_t most, double tile = 0) const {
    const int64_t size = kernel_.size(range);
    if (plan_.general) return general_copies(size / unit, size, unit, most);
    most = std::min(most, size / unit);
    const auto cheapest = [&](double beside) {
      int64_t best = 1;
      double least = HUGE_VAL;
      for (int64_t copies = most; copies >= 1; --copies) {
        const int64_t tiles = (size + copies * unit - 1) / (copies * unit);
        const double cost = static_cast<double>(tiles) * (static_cast<double>(copies) + beside);
        if (cost < least) best = copies, least = cost;
      }
      return best;
    };
    const int64_t even = cheapest(0);
    return 2 * even < most ? cheapest(tile) : even;
  }

  // The same of few choices, so that many sizes have one plan: `most` and its halves.
  static int64_t general_copies(int64_t fit, int64_t size, int64_t unit, int64_t most) {
    constexpr int64_t kTileCost = 2;  // of a tile, in copies
    int64_t best = 1, least = INT64_MAX;
    for (int64_t copies = most; copies >= 1; copies /= 2) {
      const int64_t tiles = (size + copies * unit - 1) / (copies * unit);
      const int64_t cost = tiles * (copies + kTileCost);
      if (copies <= fit && cost < least) best = copies, least = cost;
    }
    return best;
  }

  // What a tile along range saves: accesses that all its copies share.
  double reuse(const Region& r, int range, int v, int lanes) const {
    double saved = 0;
    bool other = false;
    for (const Access& a : r.accesses) {
      if (has(a.ranges | a.gate, range)) {
        other = true;
      } else if ((a.ranges | a.gate) != 0) {  // else it is read once, whatever is tiled
        saved += access_cost(a, v, lanes);
      }
    }
    return other ? saved : 0;
  }

  void choose_tiles(int at) {
    Nest& own = nest(at);
    shared_ = -1, through_ = false;
    if (!segment(at).children.empty() || plan(at).items != 0) return;
    if (segment(at).folds.empty()) {
      // A square of rows read across is transposed in registers, if what is done to its elements is
      // little.
      if (target_.group > 0) return;
      if (const int range = zipped_range(at); range >= 0) return add_tile(own, range, 2);
      const int across = own.vector >= 0 && overlap_ ? crossing_range(at, own.vector) : -1;
      if (across >= 0 && own.lanes >= 4 && own.lanes <= 16 && kernel_.size(across) >= own.lanes &&
          region(segment(at).stores).operations <= m_.square) {
        add_tile(own, across, own.lanes);
        return;
      }
      const bool light = own.vector >= 0 && region(segment(at).stores).operations <= m_.heavy;
      if (carries(at)) {
        // Running values side by side, as many as wait for themselves.
        if (light) add_tile(own, own.vector, even_copies(own.vector, own.lanes, 8));
      } else if (light && overlap_) {
        add_tile(own, own.vector, even_copies(own.vector, own.lanes, 2));
      }
      return;
    }
    size_t heaviest = 0;
    int roots = 0;
    const Vec<int>& folds = segment(at).folds;
    for (size_t i = 0; i < folds.size(); ++i) {
      const int r = folds[i];
      if (region(r).iterations > region(folds[heaviest]).iterations) heaviest = i;
      roots = std::max(roots, static_cast<int>(region(r).roots.size()));
    }
    const Region& body = region(folds[heaviest]);
    const int64_t registers = target_.vector_bytes == 64 ? 16 : target_.vector_bytes == 32 ? 12 : 8;
    int64_t accumulators = std::max<int64_t>(registers / roots, 1);
    if (body.operations > m_.heavy) accumulators = std::min<int64_t>(accumulators, 2);
    const int v = own.vector >= 0 ? own.vector : fold_nest(at, heaviest).vector;
    const int n = own.vector >= 0 ? own.lanes : fold_nest(at, heaviest).lanes;
    if (own.vector < 0) {
      tile_dot(own, body, v, n, std::min<int64_t>(accumulators, 16));
      return;
    }
    if (pixels_ >= 0) {
      tile_product(own, body, pixels_, v, n, roots);
      return;
    }
    int other = -1;
    double most = 0;
    for (int range : segment(at).ranges) {
      double saved = range == v || carried(range) ? 0 : reuse(body, range, v, n);
      if (saved > 0 && reads_through(kernel_, body, range, m_, v)) saved = 0;
      const bool longer = saved == most && has(sharing_, range) && other >= 0 &&
                          kernel_.size(range) > kernel_.size(other);
      if ((saved > most || longer) && kernel_.size(range) > 1) most = saved, other = range;
    }
    if (const int range = most < 1 ? zipped_range(at) : -1; range >= 0)
      return add_tile(own, range, 2);
    const bool windows = most < 1 && !plan_.general && own.vector >= 0;
    if (const Windows found = windows ? windows_of(kernel_, body, v) : Windows{}; found.rows >= 0) {
      shared_ = found.shared;
      const bool far = reads_through(kernel_, body, found.rows, m_);
      const bool few = elements(body.own) <= m_.far_window;
      const int64_t rows = far && few ? m_.far_rows : m_.window_rows;
      return add_tile(own, found.rows, even_copies(found.rows, 1, rows, m_.tile));
    }
    const int64_t vectors = std::max<int64_t>(kernel_.size(v) / n, 1);
    if (other < 0) {
      // A body that reads lane by lane keeps the CPU busy as well; what is done with the results is
      // written once a copy.
      const int results = segment(at).stores;
      const double after = results < 0 ? 0 : body_text(region(results), v, n);
      const int64_t copies = body_text(body, v, n) > m_.heavy ? 2 : after > 2 * m_.heavy ? 4 : 8;
      add_tile(own, v, even_copies(v, n, std::min(accumulators, copies)));
      return;
    }
    if (!plan_.general && (kernel_.size(v) < n || fills(v, n)) &&
        kernel_.size(other) * kernel_.size(v) >= m_.product_tiles * accumulators * n) {
      tile_product(own, body, other, v, n, roots);
      return;
    }
    // Two vectors wide and the rest of the registers high, unless the range is too short for that.
    const int64_t wide = std::min<int64_t>(2, vectors);
    const int64_t high = even_copies(other, 1, std::max<int64_t>(accumulators / wide, 1), m_.tile);
    add_tile(own, other, high);
    add_tile(own, v,
             even_copies(v, n,
                         std::max<int64_t>(accumulators / high, 1) >= 2
                             ? std::max<int64_t>(2, accumulators / high / 2 * 2)
                             : 1));
  }

  // Rows and vectors of columns side by side: the tile by which all tiles take the least. The
  // values that the shorter side reads stay in registers beside the sums. An iteration takes as
  // long as its operations, its loads or what waits for the one before, and longer where several of
  // them do.
  void tile_product(Nest& own, const Region& body, int row, int v, int n, int roots) const {
    // Pixels are stored in squares of registers.
    const int64_t size = kernel_.size(row), columns = kernel_.size(v);
    const int64_t rows = std::min({size, row == pixels_ ? n : size, rows_apart(body, row, v)});
    const int64_t registers = product_registers(target_, body);
    int64_t high = 1, wide = 1, fewer = 0;
    double least = HUGE_VAL, vector = n;  // bytes of a vector of columns
    for (const Access& a : body.accesses) {
      if (has(a.ranges, v)) vector *= static_cast<double>(dtype::size(a.node->dtype));
    }
    vector *= elements(body.own);
    const int64_t fit = blocks_ ? INT64_MAX : std::max(1, static_cast<int>(m_.panel / vector));
    const int64_t vectors = std::max<int64_t>(columns / n, 1);
    // Panels of matrices that leave the first-level cache wait for their loads.
    const bool far = body.own.count == 1 && 2 * vector > m_.near_panel;
    const double loads = far ? m_.far_loads : m_.product_loads;
    const int64_t widest = far ? m_.far_vectors : m_.product_vectors;
    const auto cost_of = [&](int64_t h, int64_t w) {
      double cost = 0;
      for (double bound : {static_cast<double>(h * w * roots) / m_.product_rate,
                           static_cast<double>(h + w) / loads, m_.latency})
        cost += std::pow(bound, 8);
      return std::pow(cost, 0.125);
    };
    const bool long_folds = elements(body.own) >= m_.rolled_fold && !plan_.general;
    for (int64_t w = 1; w <= std::min({widest, vectors, fit}); ++w) {
      const auto across = static_cast<double>(steps(columns, w * n));
      for (int64_t h = 1; h * w * roots + std::min(h, w) < registers && h <= rows; ++h) {
        const double cost = static_cast<double>(steps(size, h)) * across * cost_of(h, w);
        if (cost <= least) least = cost, high = h, wide = w, fewer = 0;
        // Two kinds of steps that cover all rows exactly: code twice as long.
        for (int64_t last = h - 1; long_folds && size % h != 0 && last >= m_.product_last; --last) {
          const int64_t first = first_steps(size, h, last);
          if (first == 0) continue;
          const double both = (static_cast<double>(first / h) * cost_of(h, w) +
                               static_cast<double>((size - first) / last) * cost_of(last, w)) *
                              across * m_.product_twice;
          if (both < least) least = both, high = h, wide = w, fewer = last;
        }
      }
    }
    add_tile(own, row, high);
    if (fewer != 0 && own.tile_count > 0)
      own.tiles[own.tile_count - 1].fewer = static_cast<int>(fewer);
    add_tile(own, v, wide);
  }

  // Of a loop: what is left takes a step that overlaps, or one for each element.
  int64_t steps(int64_t size, int64_t step) const {
    return overlap_ ? (size + step - 1) / step : size / step + size % step;
  }

  // Rows that stay in the first-level cache beside each other: those whose distance is a multiple
  // of a way's size share the few lines of a set.
  int64_t rows_apart(const Region& body, int row, int v) const {
    int64_t most = INT64_MAX;
    for (const Access& a : body.accesses) {
      if (!has(a.ranges, row) || has(a.ranges | a.opaque, v) || has(a.opaque, row)) continue;
      const int64_t bytes =
          kernel_.stride(a.node->src(1), row) * static_cast<int64_t>(dtype::size(a.node->dtype));
      if (bytes != 0) most = std::min(most, m_.ways * (m_.way / std::gcd(bytes, m_.way)));
    }
    return most;
  }

  // Folds vectorised along their own range: rows and columns that share loads, 4 by 4 at most.
  void tile_dot(Nest& own, const Region& body, int v, int n, int64_t accumulators) {
    int64_t left = accumulators;
    for (int round = 0; round < 2 && left >= 4; ++round) {
      int best = -1;
      double most = 0;
      for (int range : kernel_.segments[static_cast<size_t>(body.segment)].ranges) {
        double saved = reuse(body, range, v, n);
        if (saved > 0 && reads_through(kernel_, body, range, m_)) saved = 0, through_ = true;
        if (saved > most && kernel_.size(range) > 1 && own.copies(range) == 1)
          most = saved, best = range;
      }
      if (best < 0) return;
      const int64_t copies = even_copies(best, 1, 4, m_.tile);
      add_tile(own, best, copies);
      left /= copies;
    }
  }

  // A range that some access of the stores reads contiguously while it strides along v: rows of the
  // block that is then worked on while it stays in the cache.
  int crossing_range(int at, int v) const {
    if (segment(at).stores < 0 || !segment(at).folds.empty() || !segment(at).children.empty() ||
        carries(at))
      return -1;
    for (const Access& a : region(segment(at).stores).accesses) {
      const int64_t stride = kernel_.stride(a.node->src(1), v);
      if (!has(a.ranges, v) || has(a.opaque, v) || (stride >= -4 && stride <= 4)) continue;
      for (int range : segment(at).ranges) {
        const int64_t across = kernel_.stride(a.node->src(1), range);
        if (range != v && (across == 1 || across == -1) && !has(a.opaque, range)) return range;
      }
    }
    return -1;
  }

  // The range between the elements that some store has along the vector, if it is to be tiled.
  int zipped_range(int at) const {
    const int v = nest(at).vector;
    if (v < 0 || segment(at).stores < 0 || carries(at)) return -1;
    for (const Access& a : region(segment(at).stores).accesses) {
      const int range = a.store ? between(a, v) : -1;
      if (range >= 0 && has(segment(at).ranges.set(), range)) return range;
    }
    return -1;
  }

  // Whether a value is carried along a range of a segment.
  bool carries(int at) const { return (segment(at).ranges.set() & kernel_.carried()) != 0; }

  void order_loops(int at) {
    Nest& own = nest(at);
    const int v = own.vector;
    const auto push = [&](int range, int64_t block = 0) {
      own.loops[own.loop_count++] = Loop{range, block};
    };
    if (pixels_ >= 0) {
      RangeSet image = ~RangeSet{0};
      for (const Access& a : region(segment(at).folds[0]).accesses) {
        if (!has(a.ranges, pixels_)) image &= ~a.ranges;
      }
      // As much of the image goes by a panel of filters as makes that worth it. What is outside
      // stays in the caches while all filters go by.
      const RangeList& ranges = segment(at).ranges;
      RangeSet inside = range_bit(pixels_);
      int64_t tiles = kernel_.size(pixels_) / own.step(pixels_);
      for (int i = ranges.count; i-- > 0 && tiles < m_.pack_inside;) {
        if (ranges.at[i] == pixels_ || !has(image, ranges.at[i])) continue;
        inside |= range_bit(ranges.at[i]);
        tiles = std::max<int64_t>(tiles, 1) * kernel_.size(ranges.at[i]);
      }
      for (int range : ranges) {
        if (range != v && !has(inside, range)) push(range);
      }
      push(v);
      for (int range : ranges) {
        if (range != pixels_ && has(inside, range)) push(range);
      }
      return push(pixels_);
    }
    if (sharing_ != 0) {
      // All that shares a panel goes by before the next one is made.
      int inner = -1;
      for (int range : segment(at).ranges) {
        if (!has(sharing_, range) && range != v) push(range);
        if (has(sharing_, range) && (inner < 0 || own.copies(range) > 1)) inner = range;
      }
      push(v);
      for (int range : segment(at).ranges) {
        if (has(sharing_, range) && range != inner) push(range);
      }
      return push(inner);
    }
    const int across = v >= 0 && overlap_ && target_.group == 0 ? crossing_range(at, v) : -1;
    const bool contracts = !segment(at).folds.empty() && v >= 0;
    int high = -1;  // the tiled range right before v: its loop goes inside that of v, whose panel
                    // stays in the cache
    const RangeList& ranges = segment(at).ranges;
    for (int i = 0; contracts && shared_ < 0 && i + 1 < ranges.count; ++i) {
      if (ranges.at[i + 1] == v && own.copies(ranges.at[i]) > 1 &&
          (blocks_ || panel_bytes(at, ranges.at[i]) <= m_.panel)) {
        high = ranges.at[i];
      }
    }
    for (int range : ranges) {
      if (range == v || range == across || range == high) continue;
      push(range);
    }
    const Access* const read = across < 0 ? read_once(kernel_, at, v, m_) : nullptr;
    const auto stride = [&](int i) {
      return std::abs(kernel_.stride(read->node->src(1), own.loops[i].range));
    };
    for (int i = 1; read != nullptr && i < own.loop_count; ++i) {
      for (int j = i; j > 0 && stride(j - 1) < stride(j); --j)
        std::swap(own.loops[j - 1], own.loops[j]);
    }
    if (across >= 0) push(across, m_.block);
    if (const int64_t block = high >= 0 ? rows_together(at, high) : 0; block != 0)
      push(high, block);
    if (v >= 0) {
      // Contractions keep v where it was among the ranges; everything else walks along it
      // innermost.
      int place = own.loop_count;
      if (contracts && high < 0) {
        place = 0;
        for (int range : ranges) {
          if (range == v) break;
          ++place;
        }
      }
      for (int i = own.loop_count; i > place; --i) own.loops[i] = own.loops[i - 1];
      own.loops[place] = Loop{v};
      ++own.loop_count;
    }
    if (across >= 0) push(across);
    if (high >= 0) push(high);
    for (int i = 0; i + 1 < own.loop_count; ++i) {
      if (carried(own.loops[i].range)) std::swap(own.loops[i], own.loops[i + 1]);
    }
  }

  // Bytes that the folds of a segment read again for every step of `range` while the other loops
  // stand still.
  double panel_bytes(int at, int range) const {
    double bytes = 0;
    for (int r : segment(at).folds) {
      for (const Access& a : region(r).accesses) {
        if (has(a.ranges, range)) continue;
        const Nest& n = plan_.at(at).nest;
        bytes += elements(region(r).own, a.ranges) *
                 static_cast<double>(n.step(n.vector) *
                                     static_cast<int64_t>(dtype::size(a.node->dtype)));
      }
    }
    return bytes;
  }

  // Rows that all columns go by before the next ones, so that they stay in the last-level cache; 0:
  // all of them do.
  int64_t rows_together(int at, int range) const {
    if (plan_.general) return 0;
    double row = 0;
    for (int r : segment(at).folds) {
      for (const Access& a : region(r).accesses) {
        if (!has(a.ranges, range) || has(a.ranges, nest_of_vector(at).vector)) continue;
        row += elements(region(r).own, a.ranges) * static_cast<double>(dtype::size(a.node->dtype));
      }
    }
    if (blocks_)
      row = std::min(row, kSharedTerms / static_cast<double>(nest(at).step(nest(at).vector)));
    const auto fit = static_cast<int64_t>(m_.rows / std::max(row, 1.0));
    const int64_t step = nest_of_vector(at).step(range);
    const int64_t block = fit / step * step;
    return block < m_.pack_tiles * step || kernel_.size(range) < 2 * block ? 0 : block;
  }

  void choose_fold_loops(int at, size_t group) {
    Nest& fold = fold_nest(at, group);
    const Region& body = region(segment(at).folds[group]);
    const int v = fold.vector;
    if (v >= 0) {
      // Accumulators side by side hide the latency of the operation, as far as the tile has not
      // used them up.
      int64_t used = static_cast<int64_t>(body.roots.size());
      for (int i = 0; i < nest(at).tile_count; ++i) used *= nest(at).tiles[i].copies;
      const int64_t want = body.operations > m_.heavy ? 2 : through_ ? 4 : 8;
      const int64_t copies =
          std::min(std::max<int64_t>(want / used, 1), kernel_.size(v) / fold.lanes);
      add_tile(fold, v, floor_power_of_two(copies));
    }
    // Short ranges are written out: what depends on them alone, such as masks of a border, moves
    // outside the loops.
    double written = 0;
    const auto count = [&](double weight, RangeSet set) {
      for (const Nest* n : {&nest(at), &fold}) {
        for (int i = 0; i < n->tile_count; ++i)
          weight *= has(set, n->tiles[i].range) ? n->tiles[i].copies : 1;
      }
      written += weight;
    };
    const int across = v >= 0 ? v : active_vector(at);
    const int lanes = v >= 0 ? fold.lanes : across >= 0 ? nest_of_vector(at).lanes : 1;
    for (Node node : body.nodes) count(weight(node), kernel_.ranges(node));
    for (const Access& a : body.accesses) count(pieces(a, across, lanes), a.ranges | a.gate);
    for (Node root : body.roots) count(1, kernel_.ranges(root) | body.own.set());
    for (int i = body.own.count; i-- > 0;) {
      const int64_t size = kernel_.size(body.own.at[i]);
      // Of windows the rows alone, which the tile's copies share: their columns would take more
      // registers than there are.
      if (shared_ >= 0 && body.own.at[i] != shared_) continue;
      if (pixels_ >= 0 || body.own.at[i] == v || size > m_.written ||
          written * static_cast<double>(size) > m_.text)
        continue;
      fold.written |= range_bit(body.own.at[i]);
      written *= static_cast<double>(size);
    }
    for (int range : body.own) {
      if (range != v && !has(fold.written, range)) fold.loops[fold.loop_count++] = Loop{range};
    }
    if (v >= 0) fold.loops[fold.loop_count++] = Loop{v};
  }

  // Where the rows of a tile share a panel of columns that lies in many places, a copy of it is
  // read instead; of what does not change it is made once. Neither changes what is computed.
  Status choose_packs(int at) {
    const Nest& own = nest(at);
    if (!packs() || own.vector < 0 || own.loop_count == 0) return kOk;
    const int inner = own.innermost();
    const bool few =
        own.copies(inner) < 2 || kernel_.size(inner) < m_.pack_tiles * own.copies(inner);
    Vec<int>& out = plan(at).packed;
    for (Node param : kernel_.params()) {
      const auto slot = static_cast<int>(param->arg(0));
      const bool once = kernel_.is_constant(slot) && may_be_ready(kernel_, plan_, at, slot);
      if ((strides(at, own.vector, slot) || ((!few || once) && lies_apart(at, slot))) &&
          (once || may_pack(kernel_, plan_, at, slot))) {
        ASTER_TRY(out.push(slot));
        if (once) ASTER_TRY(plan(at).ready.push(slot));
      }
    }
    return choose_fetched(&plan_, kernel_, at, m_);
  }

  bool packs() const { return target_.language == Language::kC && !target_.portable; }

  // Whether folds read along a range, and not one element behind the other; of one param, or any.
  bool strides(int at, int v, int slot = -1) const {
    return std::ranges::any_of(segment(at).folds, [&](int f) {
      return std::ranges::any_of(region(f).accesses, [&](const Access& a) {
        return (slot < 0 || a.node->src(0)->arg(0) == slot) && has(a.ranges, v) &&
               kernel_.stride(a.node->src(1), v) != 1;
      });
    });
  }

  // Whether what the folds read of a param along the vectorised range is far from one iteration to
  // another.
  bool lies_apart(int at, int slot) const {
    for (int f : segment(at).folds) {
      for (const Access& a : region(f).accesses) {
        if (a.node->src(0)->arg(0) != slot || !has(a.ranges, nest(at).vector)) continue;
        const double span =
            elements(region(f).own, a.ranges) * static_cast<double>(dtype::size(a.node->dtype));
        int64_t apart = 0;
        for (int range : region(f).own) {
          if (has(a.ranges, range))
            apart = std::max(apart, std::abs(kernel_.stride(a.node->src(1), range)));
        }
        if (span * static_cast<double>(apart) >= m_.pack_bytes) return true;
      }
    }
    return false;
  }

  // Whether the range of a loop has one over its blocks before it: a task of both would do the rows
  // of all blocks.
  static bool blocked(const Nest& nest, int loop) {
    for (int i = 0; i < loop; ++i) {
      if (nest.loops[i].range == nest.loops[loop].range) return true;
    }
    return false;
  }

  // Cuts the first loops of a root into tasks.
  void split(Tasks* out, int root) {
    double cost = 0;
    Work work;
    each_region(root, [&](int r) {
      const Region& body = region(r);
      int v = active_vector(body.segment), n = 1;
      for (int s = body.segment; s >= 0; s = segment(s).parent) n = std::max(n, nest(s).lanes);
      if (body.folds && v < 0) {
        const Vec<int>& folds = segment(body.segment).folds;
        const Nest& own = fold_nest(
            body.segment,
            static_cast<size_t>(std::find(folds.begin(), folds.end(), r) - folds.begin()));
        v = own.vector, n = own.lanes;
      }
      cost += region_cost(body, v, v < 0 ? 1 : n);
      add_work(&work, kernel_, body);
    });
    cost = std::max(cost, work.bytes / 16);
    const Nest& own = nest(root);
    double left = cost;  // of one step of the loops collapsed so far
    int64_t total = 1;
    const int most = target_.group > 0 ? Tasks::kMostLoops : 4;
    const bool copies = plan(root).packed.size() > plan(root).ready.size();
    int packs = copies ? pack_loop(kernel_, plan_, root, false) : own.loop_count;
    // What goes by in blocks of terms is read again within a task.
    if (fetched_blocks(kernel_, plan_, root) > 1)
      packs = std::min(packs, pack_loop(kernel_, plan_, root, true));
    const auto steps_of = [&](int i) {
      return std::max<int64_t>(kernel_.size(own.loops[i].range) / own.loop_step(i), 1);
    };
    for (int i = 0; i < own.loop_count && i < most; ++i) {
      const Loop& loop = own.loops[i];
      if (carried(loop.range) || blocked(own, i)) break;
      const int64_t step = own.loop_step(i);
      const int64_t steps = steps_of(i);
      if (i > 0 && (left <= m_.task * 2 || total >= m_.tasks)) break;
      const bool shares = i >= packs;
      if (shares && total >= m_.pack_tasks) break;
      out->loops = i + 1;
      const double step_cost = left / static_cast<double>(steps);
      int64_t chunk =
          step_cost >= m_.task ? 1 : static_cast<int64_t>(m_.task / std::max(step_cost, 1e-3)) + 1;
      // Every task makes its own copies.
      if (shares) {
        int64_t inside = 1;
        for (int j = i + 1; j < own.loop_count; ++j) inside *= steps_of(j);
        const int64_t enough = std::min(m_.pack_share, steps * inside * total / m_.pack_tasks);
        chunk = std::max(chunk, (std::max(enough, m_.pack_tiles) + inside - 1) / inside);
      }
      out->chunk = std::min(chunk, steps) * step;
      total *= task_count(kernel_, plan(root), i);
      left = step_cost;
      const bool rows = loop.block != 0 && !segment(root).folds.empty();
      if (chunk > 1 || (loop.block != 0 && !rows)) break;  // deeper loops stay whole
    }
  }

  // Whether what follows the folds of a tile is to be written once, in a loop over its copies:
  // beside long folds that costs little, and the copies' text is what compiling takes its time for.
  bool rolls(int at) {
    const Segment& s = segment(at);
    const Nest& own = nest(at);
    if (s.parent >= 0 || !s.children.empty() || s.folds.empty() || s.stores < 0 || carries(at) ||
        plan(at).items != 0) {
      return false;
    }
    const Region& stores = region(s.stores);
    int64_t copies = 1;
    for (int i = 0; i < own.tile_count; ++i) {
      copies *= own.tiles[i].copies;
      for (Node store : stores.roots) {
        if (!has(kernel_.ranges(store->src(1)), own.tiles[i].range)) return false;
      }
    }
    double folded = 1;
    for (int f : s.folds) folded = std::max(folded, elements(region(f).own));
    return copies > 1 && stores.operations * static_cast<double>(copies) >= m_.rolled_text &&
           folded >= m_.rolled_fold && !turns_a_square(kernel_, own, stores) &&
           !turns_results(kernel_, own, stores);
  }

  Plan& plan_;
  const Kernel& kernel_;
  const Target& target_;
  const Machine& m_;
  int pixels_ = -1;  // of a root vectorised along its filters: what it would be vectorised along
  RangeSet sharing_ = 0;  // of a root with turned columns: what a panel of them serves
  int shared_ = -1;       // of a segment with a tile of windows: what these overlap along
  bool through_ = false;  // whether its folds read an operand from memory, row behind row
  bool overlap_ = true;   // whether steps of the segment at hand may be moved back
  bool blocks_ = false;   // whether its sums may go block by block
};

}  // namespace

Status make_plan(Plan* out, const Kernel& kernel, const Target& target, Memory& memory) {
  out->segments.clear();
  return Planner(*out, kernel, target).run(memory);
}

}  // namespace aster::codegen
