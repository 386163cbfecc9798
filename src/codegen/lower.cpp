#include "codegen/lower.h"

#include <algorithm>

namespace aster::codegen {
namespace {

// Operations behind the folds of a tile, in all copies together, from which on loops stand for
// them; and the least length of a fold beside which such loops cost nothing.
constexpr double kMuchText = 96;
constexpr double kLongFold = 64;
constexpr int kBeside =
    4;  // copies that such a loop has side by side, so that none waits for another

class Lowerer {
 public:
  Lowerer(const Kernel& kernel, const Plan& plan, const Target& target, Memory& memory)
      : kernel_(kernel),
        plan_(plan),
        target_(target),
        memory_(memory),
        e_(kernel, target, memory),
        accumulators_(memory) {
    for (int r = 0; r < kMaxRanges; ++r) reset_bounds(r);
  }

  Status run(Text& out, const char* name) {
    ASTER_TRY(e_.open_block());
    ASTER_TRY(e_.declare_params());
    ASTER_TRY(e_.open_block());
    e_.head() << "for (vi64x1 task = begin; task < end; ++task) {\n";
    int64_t first = 0;
    for (size_t i = 0; i < kernel_.roots.size(); ++i) {
      ASTER_TRY(root(kernel_.roots[i], plan_.tasks[i], first));
      first += plan_.tasks[i].total;
    }
    ASTER_TRY(e_.close_block());
    if (e_.streams()) write_stream(out);
    out << "void " << name
        << "(void *const *params, const vi64x1 *sizes, void *scratch, vi64x1 begin, "
           "vi64x1 end) {\n(void)sizes, (void)scratch;\n";
    out << e_.head().view() << e_.here().view();
    if (e_.streams()) out << "__builtin_ia32_sfence();\n";
    out << "}\n";
    ASTER_TRY(e_.here().status());
    return out.status();
  }

 private:
  // Stores that go past the caches: the compilers name them differently.
  void write_stream(Text& out) const {
    const int32_t bytes = target_.vector_bytes;
    const char* suffix = bytes == 64 ? "512" : bytes == 32 ? "256" : "";
    out << "#ifndef stream_" << bytes << "\n#ifdef __clang__\n#define stream_" << bytes
        << "(p, v) __builtin_nontemporal_store((float __attribute__((vector_size(" << bytes
        << "))))(v), (float __attribute__((vector_size(" << bytes
        << "))) *)(p))\n#else\n#define stream_" << bytes << "(p, v) __builtin_ia32_movntps"
        << suffix << "((float *)(p), (float __attribute__((vector_size(" << bytes
        << "))))(v))\n#endif\n#endif\n";
  }
  // Whether a result is so large that nothing of it stays in the cache until it is read.
  bool streams(Node store) const {
    double bytes = static_cast<double>(dtype::size(store->src(2)->dtype));
    for (int range = 0; range < kMaxRanges; ++range) {
      if (has(kernel_.ranges(store->src(1)), range))
        bytes *= static_cast<double>(kernel_.size(range));
    }
    return target_.streaming && bytes > static_cast<double>(target_.cache_bytes) &&
           !kernel_.read(store->src(0));
  }

  struct Bounds {
    char lo[24], hi[24];
  };
  const Segment& segment(int i) const { return kernel_.segments[static_cast<size_t>(i)]; }
  const Region& region(int i) const { return kernel_.regions[static_cast<size_t>(i)]; }

  void reset_bounds(int r) {
    set_text(bounds_[r].lo, "0");
    Digits digits(kernel_.size(r));
    set_text(bounds_[r].hi, digits.view());
  }
  struct Digits {
    explicit Digits(int64_t value) {
      length = std::snprintf(text, sizeof(text), "%lld", static_cast<long long>(value));
    }
    std::string_view view() const { return {text, static_cast<size_t>(length)}; }
    char text[24];
    int length;
  };
  static void set_text(char (&to)[24], std::string_view from) {
    const size_t n = std::min(from.size(), sizeof(to) - 1);
    std::memcpy(to, from.data(), n);
    to[n] = '\0';
  }

  // ---- Tasks ----

  Status root(int at, const Tasks& tasks, int64_t first) {
    ASTER_TRY(e_.open_block());
    Text& head = e_.head();
    if (kernel_.roots.size() > 1) {
      head << "if (task >= " << first << " && task < " << first + tasks.total << ") {\n";
    } else {
      head << "{\n";
    }
    const Nest& nest = plan_.segments[static_cast<size_t>(at)];
    int64_t inner = tasks.total;
    for (int i = 0; i < tasks.loops; ++i) {
      const int r = nest.loops[i].range;
      const int64_t chunk = i + 1 == tasks.loops ? tasks.chunk : nest.loops[i].step;
      inner /= tasks.counts[i];
      if (tasks.counts[i] == 1) continue;
      head << "const vi64x1 k" << r << " = (task - " << first << ") / " << inner << " % "
           << tasks.counts[i] << ";\n";
      head << "const vi64x1 lo" << r << " = k" << r << " * " << chunk << ";\n";
      head << "const vi64x1 hi" << r << " = k" << r << " == " << tasks.counts[i] - 1 << " ? "
           << kernel_.size(r) << " : lo" << r << " + " << chunk << ";\n";
      name_bounds(r, "lo", "hi");
    }
    ASTER_TRY(loops(at, 0));
    for (int i = 0; i < tasks.loops; ++i) reset_bounds(nest.loops[i].range);
    return e_.close_block();
  }

  void name_bounds(int r, const char* lo, const char* hi) {
    std::snprintf(bounds_[r].lo, sizeof(bounds_[r].lo), "%s%d", lo, r);
    std::snprintf(bounds_[r].hi, sizeof(bounds_[r].hi), "%s%d", hi, r);
  }

  // ---- Loops of a segment ----

  Status loops(int at, int i) {
    const Nest& nest = plan_.segments[static_cast<size_t>(at)];
    if (i == nest.loop_count) return body(at);
    const Loop& loop = nest.loops[i];
    const int r = loop.range;
    if (loop.block) return block_loop(at, i);
    RangeState& state = e_.range(r);
    state.copies = nest.copies(r);
    state.lanes = r == nest.vector ? nest.lanes : 1;
    if (state.lanes > 1) e_.set_vector(r, state.lanes);
    if (state.copies > 1) tiles_[tile_count_++] = r;
    const int64_t step = nest.step(r);
    const bool even = kernel_.size(r) % step == 0;
    ASTER_TRY(open_range(r));
    Text& head = e_.head();
    const Bounds& b = bounds_[r];
    if (step == 1 || even) {
      head << "for (vi64x1 i" << r << " = " << b.lo << "; i" << r << " < " << b.hi << "; i" << r
           << " += " << step << ") {\n";
    } else if (nest.overlap) {
      head << "for (vi64x1 j" << r << " = " << b.lo << "; j" << r << " < " << b.hi << "; j" << r
           << " += " << step << ") {\nconst vi64x1 i" << r << " = j" << r << " < " << b.hi << " - "
           << step << " ? j" << r << " : " << b.hi << " - " << step << ";\n";
    } else {
      head << "for (vi64x1 i" << r << " = " << b.lo << "; i" << r << " <= " << b.hi << " - " << step
           << "; i" << r << " += " << step << ") {\n";
    }
    ASTER_TRY(loops(at, i + 1));
    ASTER_TRY(e_.close_block());
    if (state.copies > 1) --tile_count_;
    if (state.lanes > 1) e_.set_vector(-1, 1);
    state.copies = state.lanes = 1;
    if (step > 1 && !even && !nest.overlap) {
      ASTER_TRY(open_range(r));
      e_.head() << "for (vi64x1 i" << r << " = " << b.hi << " - (" << b.hi << " - " << b.lo
                << ") % " << step << "; i" << r << " < " << b.hi << "; ++i" << r << ") {\n";
      ASTER_TRY(loops(at, i + 1));
      ASTER_TRY(e_.close_block());
    }
    return kOk;
  }

  Status open_range(int r) {
    ASTER_TRY(e_.open_block());
    e_.range(r).open = true;
    e_.range(r).depth = e_.depth();
    return kOk;
  }

  Status block_loop(int at, int i) {
    const Loop& loop = plan_.segments[static_cast<size_t>(at)].loops[i];
    const int r = loop.range;
    ASTER_TRY(e_.open_block());
    const Bounds saved = bounds_[r];
    Text& head = e_.head();
    head << "for (vi64x1 b" << r << " = " << saved.lo << "; b" << r << " < " << saved.hi << "; b"
         << r << " += " << loop.step << ") {\nconst vi64x1 e" << r << " = b" << r << " < "
         << saved.hi << " - " << loop.step << " ? b" << r << " + " << loop.step << " : " << saved.hi
         << ";\n";
    name_bounds(r, "b", "e");
    ASTER_TRY(loops(at, i + 1));
    bounds_[r] = saved;
    return e_.close_block();
  }

  Status body(int at) {
    for (int r : segment(at).folds) ASTER_TRY(folds(r));
    if (segment(at).stores >= 0) {
      const Region& r = region(segment(at).stores);
      ASTER_TRY(rolls(at, r) ? rolled_stores(r) : stores(r));
    }
    for (int child : segment(at).children) ASTER_TRY(loops(child, 0));
    return kOk;
  }

  // Runs body for every copy of the tiles that are open.
  template <typename Body>
  Status each_copy(Body body, int tile = 0) {
    if (tile == tile_count_) return body();
    RangeState& state = e_.range(tiles_[tile]);
    for (state.copy = 0; state.copy < state.copies; ++state.copy) {
      const Status status = each_copy(body, tile + 1);
      if (!status.ok()) return status;
    }
    state.copy = 0;
    return kOk;
  }

  // Whether no range outside `set` stands at another copy than its first.
  bool canonical(RangeSet set) {
    for (int i = 0; i < tile_count_; ++i) {
      if (!has(set, tiles_[i]) && e_.range(tiles_[i]).copy != 0) return false;
    }
    return true;
  }

  // Whether what follows the folds of a tile is written once, in loops over the copies: there it
  // costs little beside the folds, and the copies' text is what compiling takes its time for.
  bool rolls(int at, const Region& r) {
    const Segment& s = segment(at);
    if (tile_count_ == 0 || s.parent >= 0 || !s.children.empty() || s.folds.empty()) return false;
    int64_t copies = 1;
    RangeSet tiles = 0;
    for (int i = 0; i < tile_count_; ++i) {
      const int count = e_.range(tiles_[i]).copies;
      if (count > Emitter::kRolled / 2) return false;
      copies *= count;
      tiles |= range_bit(tiles_[i]);
    }
    for (Node store : r.roots) {
      if ((tiles & ~kernel_.ranges(store->src(1))) != 0) return false;
    }
    for (Node node : r.nodes) {
      if (node->op == Op::kLoad && e_.transposes(node) >= 0) return false;
    }
    double folded = 1;
    for (int f : s.folds) {
      double terms = 1;
      for (int range : region(f).own) terms *= static_cast<double>(kernel_.size(range));
      folded = std::max(folded, terms);
    }
    return r.operations * static_cast<double>(copies) >= kMuchText && folded >= kLongFold;
  }

  // A loop over the copies of the largest tile; some stay side by side in it.
  Status rolled_stores(const Region& r) {
    const int count = tile_count_;
    int outer[kMaxRanges];
    std::copy_n(tiles_, count, outer);
    for (int i = 1; i < count; ++i) {
      if (e_.range(tiles_[i]).copies > e_.range(tiles_[0]).copies) std::swap(tiles_[0], tiles_[i]);
    }
    const int rolled = tiles_[0];
    RangeState& state = e_.range(rolled);
    const int copies = state.copies, depth = state.depth;
    int others = 1, step = 1;
    for (int i = 1; i < count; ++i) others *= e_.range(tiles_[i]).copies;
    while (step * others < kBeside && copies % (2 * step) == 0 && 2 * step < copies) step *= 2;
    // The folds of all copies, where the loop finds them.
    struct Kept {
      Node fold;
      Value list, first;
    };
    Vec<Kept> kept(memory_);
    for (Node node : r.nodes) {
      if (node->op != Op::kFold || !has(kernel_.ranges(node), rolled)) continue;
      Kept one{node, {}, e_.value(node)};
      ASTER_TRY(e_.fresh(&one.list, one.first.dtype, one.first.truth, one.first.lanes, e_.depth()));
      Text& text = e_.here();
      text << "const ";
      e_.write_type(text, one.first.dtype, one.first.lanes);
      text << ' ' << one.list << "[] = {";
      ASTER_TRY(each_copy([&]() -> Status {
        text << e_.value(node) << ", ";
        return text.status();
      }));
      text << "};\n";
      ASTER_TRY(kept.push(one));
    }
    ASTER_TRY(open_range(rolled));
    e_.head() << "for (vi64x1 c" << rolled << " = 0, o" << rolled << " = i" << rolled << "; c"
              << rolled << " < " << copies << "; c" << rolled << " += " << step
              << ") {\nconst vi64x1 i" << rolled << " = o" << rolled << " + c" << rolled << " * "
              << state.unit() << ";\n";
    state.copies = step;
    state.rolled = true;
    if (step == 1) std::copy_n(tiles_ + 1, --tile_count_, tiles_);
    for (const Kept& one : kept) {
      int64_t at = 0;
      const auto take = [&]() -> Status {
        Value v = one.first;
        const int64_t here = at++;
        if (!canonical(kernel_.ranges(one.fold))) return kOk;
        ASTER_TRY(e_.fresh(&v, v.dtype, v.truth, v.lanes, e_.depth()));
        e_.define(v) << one.list << "[c" << rolled << " * " << others << " + " << here << "];\n";
        return e_.remember(one.fold, v);
      };
      ASTER_TRY(each_copy(take));
    }
    ASTER_TRY(stores(r));
    ASTER_TRY(e_.close_block());
    state.copies = copies;
    state.depth = depth;
    state.rolled = false;
    std::copy_n(outer, count, tiles_);
    tile_count_ = count;
    return kOk;
  }

  Status stores(const Region& r) {
    const auto values = [&]() -> Status {
      for (Node node : r.nodes) {
        if (node->op != Op::kFold) ASTER_TRY(e_.emit(node));
      }
      return kOk;
    };
    ASTER_TRY(each_copy(values));
    // Everything is read before anything is written: results may take the place of operands.
    return each_copy([&]() -> Status {
      for (Node store : r.roots) {
        if (canonical(kernel_.ranges(store->src(1)) | kernel_.ranges(store->src(2))))
          ASTER_TRY(e_.store(store, streams(store)));
      }
      return kOk;
    });
  }

  // ---- Folds ----

  // What the folds of one region share while their loops are written.
  struct FoldLoops {
    const Region* region;
    const Nest* nest;
    int tiles;      // open when the accumulators were declared
    int64_t total;  // accumulators of one fold
    bool own_vector;
  };

  static Op operation(Node fold) { return static_cast<Op>(fold->arg(0)); }

  Value& accumulator(const FoldLoops& f, size_t fold) {
    int64_t at = 0;
    for (int i = 0; i < f.tiles; ++i)
      at = at * accumulator_copies_[i] + e_.range(accumulator_tiles_[i]).copy;
    return accumulators_[static_cast<size_t>(static_cast<int64_t>(fold) * f.total + at)];
  }

  RangeSet fold_set(const FoldLoops& f, Node fold) const {
    return kernel_.ranges(fold) | f.region->own.set();
  }

  // A product that only this sum reads is added with one rounding.
  bool fuses(const Region& r, Node fold) const {
    const Node product = fold->src(0);
    if (operation(fold) != Op::kAdd || product->op != Op::kMul) return false;
    if (product->dtype != DType::kFloat32 && product->dtype != DType::kFloat64) return false;
    for (Node node : r.nodes) {
      for (Node source : node->src()) {
        if (source == product) return false;
      }
    }
    for (Node other : r.roots) {
      if (other != fold && other->src(0) == product) return false;
    }
    return true;
  }

  Status folds(int at) {
    const Region& r = region(at);
    const Nest& nest = plan_.folds[static_cast<size_t>(at)];
    FoldLoops f{&r, &nest, 0, 1, nest.vector >= 0};
    if (f.own_vector && nest.lanes > 1) e_.set_vector(nest.vector, nest.lanes);
    int outer[kMaxRanges];
    const int outer_tiles = tile_count_;
    std::copy_n(tiles_, outer_tiles, outer);
    int unrolled[kMaxRanges];
    int unrolled_count = 0;
    for (int range : r.own) {
      RangeState& state = e_.range(range);
      state.unrolled = has(nest.unrolled, range);
      state.copies = state.unrolled ? static_cast<int>(kernel_.size(range)) : nest.copies(range);
      state.lanes = range == nest.vector ? nest.lanes : 1;
      state.copy = 0;
      if (state.unrolled) {
        state.depth = 0;
        unrolled[unrolled_count++] = range;
      } else if (state.copies > 1) {
        tiles_[tile_count_++] = range;
      }
    }
    f.tiles = tile_count_;
    for (int i = 0; i < f.tiles; ++i) {
      accumulator_tiles_[i] = tiles_[i];
      accumulator_copies_[i] = e_.range(tiles_[i]).copies;
      f.total *= accumulator_copies_[i];
    }
    accumulators_.clear();
    ASTER_TRY(accumulators_.resize(r.roots.size() * static_cast<size_t>(f.total), Value{}));
    ASTER_TRY(each_copy([&]() { return declare(f); }));
    // What is written out goes around the other copies, so that these share its loads while they
    // are at hand.
    std::copy_backward(tiles_, tiles_ + tile_count_, tiles_ + tile_count_ + unrolled_count);
    std::copy_n(unrolled, unrolled_count, tiles_);
    tile_count_ += unrolled_count;
    ASTER_TRY(fold_loops(f, 0));
    std::copy_n(outer, outer_tiles, tiles_);
    tile_count_ = outer_tiles;
    for (int range : r.own) {
      e_.range(range).copies = 1;
      e_.range(range).copy = 0;
      e_.range(range).unrolled = false;
    }
    ASTER_TRY(each_copy([&]() { return finish(f); }));
    for (int range : r.own) e_.range(range).lanes = 1;
    if (f.own_vector) e_.set_vector(-1, 1);
    return kOk;
  }

  Status declare(const FoldLoops& f) {
    for (size_t i = 0; i < f.region->roots.size(); ++i) {
      const Node fold = f.region->roots[i];
      if (!canonical(fold_set(f, fold))) continue;
      const bool truth = fold->dtype == DType::kBool;
      const int lanes = f.own_vector || e_.varies(fold) ? e_.lanes() : 1;
      DType dtype = dtype::is_narrow_float(fold->dtype) ? DType::kFloat32 : storage_of(fold->dtype);
      if (truth) {
        const int bytes = lanes > 1 ? std::clamp(target_.vector_bytes / lanes, 1, 8) : 4;
        dtype = bytes == 1   ? DType::kInt8
                : bytes == 2 ? DType::kInt16
                : bytes == 4 ? DType::kInt32
                             : DType::kInt64;
      }
      Value& v = accumulator(f, i);
      ASTER_TRY(e_.fresh(&v, dtype, truth, lanes, e_.depth()));
      Text& text = e_.define(v, false);
      e_.write_identity(text, operation(fold), dtype, truth, lanes);
      text << ";\n";
    }
    return kOk;
  }

  Status fold_loops(const FoldLoops& f, int i) {
    if (i == f.nest->loop_count) return each_copy([&]() { return update(f, {}); });
    const int r = f.nest->loops[i].range;
    const int64_t step = f.nest->step(r), size = kernel_.size(r);
    const int64_t whole = size / step * step;
    ASTER_TRY(open_range(r));
    e_.head() << "for (vi64x1 i" << r << " = 0; i" << r << " < " << whole << "; i" << r
              << " += " << step << ") {\n";
    ASTER_TRY(fold_loops(f, i + 1));
    ASTER_TRY(e_.close_block());
    return whole < size ? fold_tail(f, r, whole) : kOk;
  }

  // What is left of the vectorised range, vector by vector; the last one ends with the range and
  // leaves out the lanes that were added before.
  Status fold_tail(const FoldLoops& f, int r, int64_t from) {
    const int64_t n = f.nest->lanes, size = kernel_.size(r);
    RangeState& state = e_.range(r);
    const int copies = state.copies;
    if (copies > 1) --tile_count_;
    state.copies = 1;
    ASTER_TRY(open_range(r));
    const bool masked = (size - from) % n != 0;
    Text& head = e_.head();
    head << "for (vi64x1 j" << r << " = " << from << "; j" << r << " < " << size << "; j" << r
         << " += " << n << ") {\nconst vi64x1 i" << r << " = j" << r << " < " << size - n << " ? j"
         << r << " : " << size - n << ";\n";
    char past[32] = {};
    if (masked) std::snprintf(past, sizeof(past), "j%d - i%d", r, r);
    ASTER_TRY(each_copy([&]() { return update(f, past); }));
    ASTER_TRY(e_.close_block());
    state.copies = copies;
    if (copies > 1) ++tile_count_;
    return kOk;
  }

  // Takes in the values of one iteration. past: text of the number of first lanes to leave out, if
  // any.
  Status update(const FoldLoops& f, std::string_view past) {
    const Region& r = *f.region;
    for (Node node : r.nodes) {
      bool skip = node->op == Op::kFold;
      for (Node fold : r.roots) skip |= fold->src(0) == node && fuses(r, fold);
      if (!skip) ASTER_TRY(e_.emit(node));
    }
    for (size_t i = 0; i < r.roots.size(); ++i) {
      const Node fold = r.roots[i];
      if (!canonical(fold_set(f, fold))) continue;
      const Value acc = accumulator(f, i);
      Text combined(memory_);
      ASTER_TRY(write_update(combined, r, fold, acc));
      Text& text = e_.here();
      text << acc << " = ";
      if (past.empty()) {
        text << combined.view() << ";\n";
        continue;
      }
      // Lane numbers compared in integers of the accumulator's width.
      const DType mask = mask_of(acc.dtype);
      e_.write_call(text, MathFn::kSelect, acc.truth ? mask : acc.dtype, acc.lanes);
      text << "((";
      e_.write_type(text, mask, acc.lanes);
      text << ")((";
      e_.write_type(text, mask, acc.lanes);
      text << "){";
      for (int lane = 0; lane < acc.lanes; ++lane) text << (lane == 0 ? "" : ", ") << lane;
      text << "} >= (";
      e_.write_type(text, mask, 1);
      text << ")(" << past << ")), " << combined.view() << ", " << acc << ");\n";
    }
    return e_.here().status();
  }

  Status write_update(Text& out, const Region& r, Node fold, const Value& acc) {
    const auto lanes_of = [&](Value* v, Node node) -> Status {
      *v = e_.value(node);
      if (v->id == 0) return ASTER_FAIL(kINTERNAL, "a Fold's %s has no value", info(node->op).name);
      if (acc.lanes > 1 && v->truth) return e_.mask_as(v, *v, acc.dtype);
      return acc.lanes > 1 && v->lanes == 1 ? e_.spread(v, *v) : kOk;
    };
    Text name(memory_), other(memory_);
    name << acc;
    if (fuses(r, fold)) {
      Value a, b;
      ASTER_TRY(lanes_of(&a, fold->src(0)->src(0)));
      ASTER_TRY(lanes_of(&b, fold->src(0)->src(1)));
      e_.write_call(out, MathFn::kFma, acc.dtype, acc.lanes);
      out << '(' << a << ", " << b << ", " << acc << ')';
      return out.status();
    }
    Value v;
    ASTER_TRY(lanes_of(&v, fold->src(0)));
    other << v;
    return e_.write_combine(out, operation(fold), acc.dtype, acc.truth, acc.lanes, name.view(),
                            other.view());
  }

  // Adds up the accumulators of each fold, then the lanes, always in the same order.
  Status finish(const FoldLoops& f) {
    const int own = f.nest->vector;
    const int copies = own >= 0 ? f.nest->copies(own) : 1;
    for (size_t i = 0; i < f.region->roots.size(); ++i) {
      const Node fold = f.region->roots[i];
      if (!canonical(kernel_.ranges(fold))) continue;
      Text a(memory_), b(memory_), combined(memory_);
      for (int half = copies / 2; half >= 1; half /= 2) {
        for (int copy = 0; copy < half; ++copy) {
          RangeState& state = e_.range(own);
          state.copy = copy;
          const Value to = accumulator(f, i);
          state.copy = copy + half;
          const Value from = accumulator(f, i);
          state.copy = 0;
          a.clear(), b.clear(), combined.clear();
          a << to;
          b << from;
          ASTER_TRY(e_.write_combine(combined, operation(fold), to.dtype, to.truth, to.lanes,
                                     a.view(), b.view()));
          e_.here() << to << " = " << combined.view() << ";\n";
        }
      }
      Value out = accumulator(f, i);
      if (f.own_vector && out.lanes > 1) ASTER_TRY(across_lanes(&out, operation(fold)));
      if (dtype::is_narrow_float(fold->dtype)) ASTER_TRY(e_.round_to(&out, out, fold->dtype));
      ASTER_TRY(e_.remember(fold, out));
    }
    return kOk;
  }

  Status across_lanes(Value* v, Op op) {
    Value out;
    ASTER_TRY(e_.fresh(&out, v->truth ? DType::kInt32 : v->dtype, v->truth, 1, e_.depth()));
    Text& text = e_.define(out);
    const bool function = !v->truth && op != Op::kAnd && op != Op::kOr;
    if (function) {
      const MathFn fn = op == Op::kAdd   ? MathFn::kHorizontalSum
                        : op == Op::kMul ? MathFn::kHorizontalProd
                        : op == Op::kMax ? MathFn::kHorizontalMax
                                         : MathFn::kHorizontalMin;
      e_.write_call(text, fn, v->dtype, v->lanes);
      text << '(' << *v << ");\n";
    } else {
      const bool all = op == Op::kAnd || (v->truth && (op == Op::kMul || op == Op::kMin));
      text << '(';
      for (int lane = 0; lane < v->lanes; ++lane) {
        if (lane != 0) text << (all ? " & " : " | ");
        text << *v << '[' << lane << ']';
      }
      text << (v->truth ? ") != 0;\n" : ");\n");
    }
    *v = out;
    return text.status();
  }

  const Kernel& kernel_;
  const Plan& plan_;
  const Target& target_;
  Memory& memory_;
  Emitter e_;
  Bounds bounds_[kMaxRanges];
  int tiles_[kMaxRanges] = {};  // tiled ranges that are open
  int tile_count_ = 0;
  Vec<Value> accumulators_;
  int accumulator_tiles_[kMaxRanges] = {};
  int accumulator_copies_[kMaxRanges] = {};
};

}  // namespace

Status lower(Text& out, const char* name, const Kernel& kernel, const Plan& plan,
             const Target& target, Memory& memory) {
  return Lowerer(kernel, plan, target, memory).run(out, name);
}

}  // namespace aster::codegen
