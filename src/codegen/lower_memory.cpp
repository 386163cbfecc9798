// Loads and stores of a kernel's graph as instructions.
#include <algorithm>
#include <bit>

#include "codegen/lower_values.h"
#include "codegen/render_c.h"

namespace aster::codegen {

using program::Flag;
using program::Term;
using program::Word;

void ValueLowering::declare_params() {
  Word number = 0;
  const auto declare = [&](DType dtype, int64_t elements, uint16_t flags) {
    Instruction in{.op = Op::kParam, .dtype = dtype, .flags = flags};
    in.constant = elements;
    return b.act(in, {}, std::array{number++});
  };
  if (making_ >= 0) {
    const ReadyCopy& made = ready_[static_cast<size_t>(making_)];
    const Node source = made.access->node->src(0);
    const auto own = static_cast<size_t>(kernel_.params().back()->arg(0) + 1);
    b.fail(params_.resize(own + ready_.size(), kNone));
    if (!b.status().ok()) return;
    params_[static_cast<size_t>(source->arg(0))] = declare(source->dtype, source->count(), 0);
    params_[ready_slot(static_cast<size_t>(making_))] =
        declare(source->dtype, made.elements, Flag::kWrite);
    return;
  }
  for (Node param : kernel_.params()) {
    // Operands that a kernel has no use for.
    while (b.status().ok() && static_cast<Word>(params_.size()) < param->arg(0))
      b.fail(params_.push(declare(DType::kUInt8, 0, 0)));
    const uint16_t flags = kernel_.written(param) ? Flag::kWrite : 0;
    b.fail(params_.push(declare(param->dtype, param->count(), flags)));
  }
  for (const ReadyCopy& copy : ready_)
    b.fail(params_.push(declare(copy.access->node->src(0)->dtype, copy.elements, 0)));
}

ValueLowering::Id ValueLowering::memory_of(Node access) {
  const auto slot = static_cast<size_t>(access->src(0)->arg(0));
  return slot < params_.size() ? params_[slot] : kNone;
}

ValueLowering::Id ValueLowering::both(Id a, Id other) {
  if (a == kNone || a == other) return other;
  return make(Op::kAnd, DType::kBool, {a, other});
}

ValueLowering::Gate ValueLowering::split_gate(Node gate) {
  Gate out;
  Vec<Node> parts(memory_);
  b.fail(conjuncts(&parts, gate));
  for (Node node : parts) {
    if ((is_const(node) && node->arg(0) != 0) || assumed(node) == 1) continue;
    const Id part = value(node);
    Id& whole = b.at(part).lanes > 1 ? out.mask : out.uniform;
    whole = both(whole, part);
  }
  return out;
}

// Lanes from the element of a form on, `offset` further; so many of them are read.
ValueLowering::Id ValueLowering::load_at(Node access, const Form& form, int64_t offset, int lanes,
                                         int64_t step, Gate gate, int count_of_lanes) {
  Vec<Term> terms(memory_);
  b.fail(scalar_terms(&terms, form));
  Instruction in{
      .op = Op::kLoad, .dtype = access->src(0)->dtype, .lanes = static_cast<uint8_t>(lanes)};
  in.constant = form.constant + offset;
  Id operands[3] = {memory_of(access)};
  size_t count = 1;
  if (gate.uniform != kNone) operands[count++] = gate.uniform, in.flags |= Flag::kGated;
  if (gate.mask != kNone) operands[count++] = gate.mask, in.flags |= Flag::kMasked;
  const Word words[2] = {step, count_of_lanes > 0 ? count_of_lanes : elements_in(lanes)};
  const std::span<const Term> list(terms.data(), terms.size());
  // What the kernel writes is read in its place.
  return kernel_.written(access->src(0)) ? b.act(in, {operands, count}, words, list)
                                         : b.pure(in, {operands, count}, words, list);
}

// Of a mask of lanes at every second element: that of the elements which the first whole vector of
// these holds, or the second one, which ends at the last lane (where some lanes are left out:
// begins behind the first one).
ValueLowering::Id ValueLowering::half_mask(Id mask, bool second) {
  const int n = b.at(mask).lanes;
  Word words[program::kMaxLanes];
  for (int lane = 0; lane < n; ++lane) {
    const bool asked = (lane & 1) == (second && short_ == 0 ? 1 : 0);
    words[lane] = asked ? (lane + (second ? n : 0)) / 2 : n;
  }
  const Id none = spread(constant(DType::kBool, 0), n);
  return b.pure({.op = Op::kShuffle, .dtype = DType::kBool, .lanes = static_cast<uint8_t>(n)},
                std::array{mask, none}, {words, static_cast<size_t>(n)});
}

// Vectors of stride 2 or -1 as whole loads and a shuffle; no element outside the ones asked for is
// read.
ValueLowering::Id ValueLowering::shuffled(Node node, const Form& form, int64_t stride, Gate gate) {
  const int n = lanes_;
  Gate halves[2] = {gate, gate};
  if (gate.mask != kNone) {
    for (const bool second : {false, true}) halves[second].mask = half_mask(gate.mask, second);
  }
  // Stride 2: lanes 0, 2, .. from the first element on, then lanes 1, 3, .. of those that end at
  // the last one, or 0, 2, .. of those that follow.
  const int size = elements_in(n), odd = short_ > 0 ? 0 : 1, far = 2 * size - 1;
  const Id first = stride == 2 ? load_at(node, form, 0, n, 1, halves[0], n)
                               : load_at(node, form, 1 - size, n, 1, halves[0]);
  const Id last =
      stride == 2 ? load_at(node, form, n - odd, n, 1, halves[1], far - n + odd) : first;
  Word words[program::kMaxLanes];
  for (int lane = 0; lane < n; ++lane) {
    words[lane] = stride == 2   ? 2 * lane + (2 * lane < n ? 0 : odd)
                  : lane < size ? size - 1 - lane
                                : lane;
  }
  const Instruction in = b.at(first);
  return b.pure({.op = Op::kShuffle, .dtype = in.dtype, .lanes = in.lanes}, std::array{first, last},
                {words, static_cast<size_t>(n)});
}

// One element under a mask of lanes: read where any lane asks for it.
ValueLowering::Id ValueLowering::same_for_lanes(Node node, const Form& form, Gate gate) {
  if (short_ > 0) {
    const auto n = static_cast<uint8_t>(lanes_);
    const Id lanes = b.pure({.op = Op::kLanes, .dtype = DType::kInt32, .lanes = n});
    const Id end = spread(constant(DType::kInt32, short_), lanes_);
    gate.mask = both(gate.mask, make(Op::kCmpLt, DType::kBool, {lanes, end}));
  }
  if (gate.mask == kNone)  // it holds for all of them
    return spread(load_at(node, form, 0, 1, 1, gate), lanes_);
  const Id any =
      b.pure({.op = Op::kAcross, .with = Op::kOr, .dtype = DType::kBool}, std::array{gate.mask});
  const Id one = load_at(node, form, 0, 1, 1, {both(gate.uniform, any), kNone});
  const DType dtype = b.at(one).dtype;
  const Id zero = spread(constant(dtype, 0), lanes_);
  const Id all = spread(one, lanes_);
  if (dtype == DType::kBool) return both(gate.mask, all);
  return b.pure({.op = Op::kWhere, .dtype = dtype, .lanes = static_cast<uint8_t>(lanes_)},
                std::array{gate.mask, all, zero});
}

// Lanes at places that are no arithmetic of the loops: indices from memory, say. Where the gate is
// false the first element is read and dropped, so that there is no branch a lane.
ValueLowering::Id ValueLowering::indexed(Node node, Gate gate) {
  const DType wide =
      node->src(0)->count() <= INT32_MAX ? DType::kInt32 : DType::kInt64;  // wraps only outside
  const auto n = static_cast<uint8_t>(lanes_);
  Id index = index_value(node->src(1), wide);
  if (gate.mask != kNone)
    index = make(Op::kWhere, wide, {gate.mask, index, spread(constant(wide, 0), lanes_)});
  Instruction in{.op = Op::kLoad, .dtype = node->src(0)->dtype, .lanes = n};
  in.flags |= Flag::kIndexed;
  Id operands[3] = {memory_of(node), index};
  size_t count = 2;
  if (gate.uniform != kNone) operands[count++] = gate.uniform, in.flags |= Flag::kGated;
  const Word words[2] = {1, elements_in(n)};
  const Id all = kernel_.written(node->src(0)) ? b.act(in, {operands, count}, words)
                                               : b.pure(in, {operands, count}, words);
  if (gate.mask == kNone) return all;
  if (in.dtype == DType::kBool) return both(gate.mask, all);
  return b.pure({.op = Op::kWhere, .dtype = in.dtype, .lanes = n},
                std::array{gate.mask, all, spread(constant(in.dtype, 0), lanes_)});
}

// The tiled range along which what a form names is contiguous while it strides along the vectorised
// one, if a square of registers holds its copies. -1 if there is none.
int ValueLowering::turned_along(const Form& form, int fewest) const {
  int across = -1;
  for (const uop::sym::Term& term : form.terms) {
    if (term.node->op != Op::kRange) {
      if (varies(term.node)) return -1;
      continue;
    }
    const int r = static_cast<int>(term.node->arg(0));
    if (r == vector_) {
      if (term.coefficient >= -4 && term.coefficient <= 4) return -1;
    } else if (term.coefficient == 1 && copies_[r] >= fewest && copies_[r] <= lanes_) {
      across = r;
    }
  }
  return across;
}

int ValueLowering::turned_load(Node node) const {
  if (!varies(node) || node->nsrc > 2 || kernel_.written(node->src(0)) || checked_ != 0) return -1;
  // Inside of folds whole squares alone.
  return turned_along(kernel_.form(node->src(1)), from_panels_ ? lanes_ : kFewestTurned);
}

// The axis of the rows of a square.
uint8_t ValueLowering::turn_axis(int n) {
  int& axis = turn_axes_[n];
  if (axis < 0) axis = static_cast<int>(b.add_axis(n, kTurnRank));
  return static_cast<uint8_t>(axis);
}

// What Turn or Zip makes of the instances of an axis, as those of another.
ValueLowering::Id ValueLowering::turn(Op op, Id value, uint8_t from, uint8_t to) {
  const Instruction in = b.at(value);
  const auto kept = static_cast<program::AxisSet>(in.axes & ~program::axis_bit(from));
  return b.pure({.op = op,
                 .dtype = in.dtype,
                 .lanes = in.lanes,
                 .axis = from,
                 .to = to,
                 .axes = static_cast<program::AxisSet>(kept | program::axis_bit(to))},
                std::array{value});
}

// The rows as they lie in memory, and the square of them turned.
ValueLowering::Id ValueLowering::turned(Node node, int across) {
  const Form form = kernel_.form(node->src(1));
  const auto n = static_cast<uint8_t>(lanes_);
  const uint8_t rows = turn_axis(elements_in(n));
  Vec<Term> terms(memory_);
  b.fail(scalar_terms(&terms, form, across));
  b.fail(terms.push({kernel_.stride(node->src(1), vector_), rows, true}));
  Instruction in{.op = Op::kLoad, .dtype = node->src(0)->dtype, .lanes = n};
  in.constant = form.constant;
  const Word words[2] = {1, copies_[across]};
  const Id from = b.pure(in, std::array{memory_of(node)}, words, {terms.data(), terms.size()});
  return turn(Op::kTurn, from, rows, static_cast<uint8_t>(ranges_[across].axis));
}

ValueLowering::Panel ValueLowering::new_panel(Node load, const RangeList& own,
                                              int64_t* elements) const {
  const RangeSet ranges = kernel_.ranges(load->src(1));
  Panel panel{.load = load, .array = kNone, .own = own.set(), .stride = {}};
  *elements = lanes_of(load);
  for (int range = 0; range < kMaxRanges; ++range) {
    if (copies_[range] == 0 || !has(ranges, range)) continue;
    panel.stride[range] = *elements;
    *elements *= copies_[range];
  }
  for (int i = own.count; i-- > 0;) {
    if (!has(ranges, own.at[i])) continue;
    panel.stride[own.at[i]] = *elements;
    *elements *= kernel_.size(own.at[i]);
  }
  return panel;
}

void ValueLowering::pack(Node load, const RangeList& own) {
  for (const Panel& one : panels_) {
    if (one.load == load) return;
  }
  int64_t elements = 0;
  Panel panel = new_panel(load, own, &elements);
  Instruction array{.op = Op::kArray, .dtype = load->src(0)->dtype};
  array.kind = static_cast<uint8_t>(program::Space::kScratch);
  // Programs for many sizes share one of those that do for as many elements.
  array.constant =
      general_ ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(elements))) : elements;
  panel.array = b.declare(array, std::array{Word{0}});
  fill(panel, own);
  b.fail(panels_.push(panel));
}

void ValueLowering::pack_ready(const ReadyCopy& copy, const SegmentPlan& plan) {
  const auto number = static_cast<size_t>(&copy - ready_.data());
  int64_t elements = 0;
  const Node load = copy.access->node;
  Panel panel = new_panel(load, copy.region->own, &elements);
  panel.array = params_[ready_slot(number)];
  panel.ready = true;
  panel.first = first_ready(copy, plan.nest);
  const bool fetched = std::ranges::find(plan.fetched, load->src(0)->arg(0)) != plan.fetched.end();
  if (making_ == static_cast<int>(number)) {
    fill(panel, copy.region->own);
  } else if (fetched) {
    plan_fetches(&panel, copy, plan, elements);
  }
  b.fail(panels_.push(panel));
}

// All steps that read a pass's copy again, or the part of it that a block of terms reads, fetch
// what lies behind that, each as much of it as the others. Behind the last one is nothing to fetch:
// that is fetched again, which is at hand.
void ValueLowering::plan_fetches(Panel* panel, const ReadyCopy& copy, const SegmentPlan& plan,
                                 int64_t elements) const {
  const RangeSet moved = copy.access->ranges;
  const Again again = read_again(kernel_, plan.nest, moved);
  const int64_t block = sum_block(plan);
  int64_t steps = 1;  // of the fold
  for (int range : copy.region->own) steps *= has(moved, range) ? kernel_.size(range) : 1;
  const int64_t step = elements / steps;
  panel->all = copy.elements, panel->piece = elements;
  if (block != 0 && panel->stride[plan.folds[0].loops[0].range] != 0) {
    panel->blocked = plan.folds[0].loops[0].range;
    panel->piece = panel->stride[panel->blocked] * block;
  }
  if (panel->piece == panel->all) return;
  panel->fetched = (step - 1) / again.steps + 1;
  for (int range : copy.region->own)
    panel->got[range] = panel->stride[range] / step * panel->fetched;
  int64_t inside = panel->piece / step * panel->fetched;
  for (int i = plan.nest.loop_count; i-- > again.first;) {
    const int range = plan.nest.loops[i].range;
    panel->got[range] = inside / plan.nest.loop_step(i);
    inside *= (kernel_.size(range) - 1) / plan.nest.loop_step(i) + 1;
  }
}

void ValueLowering::fetch(const Panel& panel) {
  constexpr int64_t kLine = 64;
  if (panel.fetched == 0) return;
  const auto size = static_cast<int64_t>(dtype::size(panel.load->src(0)->dtype));
  Vec<Term> terms(memory_);
  Id from = id_of({panel.first, 0});
  if (panel.blocked >= 0) {
    const Id block = id_of(sums_.lo);
    const Id place = make(Op::kMul, DType::kInt64, {block, integer(panel.stride[panel.blocked])});
    from = make(Op::kAdd, DType::kInt64, {from, place});
    b.fail(terms.push({-panel.got[panel.blocked], block, false}));
  }
  const Number next = least(plus({from, 0}, panel.piece), {kNone, panel.all - panel.piece});
  b.fail(terms.push({1, id_of(next), false}));
  for (int range = 0; range < kMaxRanges; ++range) {
    const Id index = ranges_[range].index;
    if (panel.got[range] != 0 && index != kNone)
      b.fail(terms.push({panel.got[range], index, false}));
  }
  for (int64_t at = 0; at < panel.fetched; at += std::max<int64_t>(kLine / size, 1)) {
    Instruction in{.op = Op::kPrefetch};
    in.constant = at;
    (void)b.act(in, std::array{panel.array}, {}, {terms.data(), terms.size()});
  }
}

void ValueLowering::forget_panels(bool ready) {
  const auto such = [&](const Panel& one) { return one.ready == ready; };
  const Panel* const end = std::remove_if(panels_.begin(), panels_.end(), such);
  panels_.truncate(static_cast<size_t>(end - panels_.begin()));
}

// Copies of one pass lie behind those of the passes before it: each takes as many elements as it
// has, of the last steps too.
ValueLowering::Id ValueLowering::first_ready(const ReadyCopy& copy, const Nest& nest) {
  const RangeSet ranges = copy.access->ranges & ~copy.region->own.set();
  int64_t inside = 1, open = 1;  // elements of all further ranges, of the tiles of those before
  for (int range = 0; range < kMaxRanges; ++range) {
    if (has(copy.region->own.set() & copy.access->ranges, range)) inside *= kernel_.size(range);
    if (has(ranges, range)) inside *= padded_length(kernel_, nest, range);
  }
  Id out = kNone;
  for (int range = 0; range < kMaxRanges; ++range) {
    if (!has(ranges, range)) continue;
    const RangeState& state = ranges_[range];
    const int64_t step = int64_t{1} * state.lanes * std::max(copies_[range], 1);
    inside /= padded_length(kernel_, nest, range);
    Id index = state.index;
    // Only the last step, which was moved back, is none of the whole ones.
    if (nest.rest(range) == Rest::kOverlap && kernel_.size(range) % step != 0) {
      index = make(Op::kAdd, DType::kInt64, {index, integer(step - 1)});
      index = make(Op::kQuo, DType::kInt64, {index, integer(step)});
      index = make(Op::kMul, DType::kInt64, {index, integer(step)});
    }
    if (inside * open != 1) index = make(Op::kMul, DType::kInt64, {index, integer(inside * open)});
    out = out == kNone ? index : make(Op::kAdd, DType::kInt64, {out, index});
    open *= step;
  }
  return out;
}

// Copies what the load of a panel reads to where it has that.
void ValueLowering::fill(const Panel& panel, const RangeList& own) {
  const Node load = panel.load;
  const RangeSet ranges = kernel_.ranges(load->src(1));
  const auto n = static_cast<uint8_t>(lanes_of(load));
  // Squares are turned in registers where what strides along the lanes lies together in the fold.
  const bool apart = n > 1 && kernel_.stride(load->src(1), vector_) != 1;
  const Run run = apart ? own_run(panel, own) : Run{};
  const bool squares = run.last >= 0 && run.size >= n;
  int opened = 0;
  for (int range : own) {
    const bool along = squares && range == run.last;
    if (!has(ranges, range) || (squares && !along && has(run.ranges, range))) continue;
    const Instruction loop{
        .op = Op::kLoop, .dtype = DType::kInt64, .flags = Flag::kImmediate | Flag::kImmediateHigh};
    const int64_t size = along ? run.size : kernel_.size(range), step = along ? n : 1;
    Id index = b.open(loop, {}, std::array{Word{0}, size, step});
    if (step > 1 && (size % step != 0 || general_))
      index = make(Op::kMin, DType::kInt64, {index, integer(size - step)});
    ranges_[range].index = index;
    ++opened;
  }
  if (squares) {
    ranges_[run.last].axis = static_cast<int>(b.add_axis(n, kSquareRank));
    copies_[run.last] = n;
  }
  forget();
  const Id value = load_raw(load);
  const Vec<Term> terms = place_in(panel);
  (void)b.act({.op = Op::kStore}, std::array{panel.array, value}, std::array{Word{1}, Word{n}},
              {terms.data(), terms.size()});
  forget();
  if (squares) {
    b.release_axis(static_cast<size_t>(ranges_[run.last].axis));
    ranges_[run.last].axis = -1;
    copies_[run.last] = 0;
  }
  while (opened-- > 0) b.close();
  for (int range : own) ranges_[range].index = kNone;
}

ValueLowering::Run ValueLowering::own_run(const Panel& panel, const RangeList& own) const {
  Run out;
  for (bool found = true; found;) {
    found = false;
    for (int range : own) {
      const bool next = kernel_.stride(panel.load->src(1), range) == out.size &&
                        kernel_.size(range) > 1 && !has(out.ranges, range);
      if (!next || (out.last >= 0 && panel.stride[range] != panel.stride[out.last] * out.size))
        continue;
      if (out.last < 0) out.last = range;
      out.ranges |= range_bit(range);
      out.size *= kernel_.size(range);
      found = true;
    }
  }
  return out;
}

// Where a copy has what is read now. Tiles that are open have an axis, ranges of folds a loop or,
// where they are written out, an axis.
Vec<Term> ValueLowering::place_in(const Panel& panel) {
  Vec<Term> terms(memory_);
  if (panel.first != kNone) b.fail(terms.push({1, panel.first, false}));
  for (int range = 0; range < kMaxRanges; ++range) {
    const RangeState& state = ranges_[range];
    if (panel.stride[range] == 0) continue;
    if (has(panel.own, range) && state.index != kNone)
      b.fail(terms.push({panel.stride[range], state.index, false}));
    if (state.axis >= 0)
      b.fail(terms.push({panel.stride[range], static_cast<uint32_t>(state.axis), true}));
  }
  return terms;
}

ValueLowering::Id ValueLowering::from_panel(Node load) {
  for (const Panel& one : panels_) {
    if (one.load != load) continue;
    const auto n = static_cast<uint8_t>(lanes_of(load));
    const Vec<Term> terms = place_in(one);
    fetch(one);
    return b.act({.op = Op::kLoad, .dtype = load->src(0)->dtype, .lanes = n}, std::array{one.array},
                 std::array{Word{1}, Word{n}}, {terms.data(), terms.size()});
  }
  return kNone;
}

Vec<Term> ValueLowering::place_of_kept(int range) {
  const RangeState& state = ranges_[range];
  Vec<Term> terms(memory_);
  if (state.index != kNone) b.fail(terms.push({1, state.index, false}));
  if (state.axis >= 0) b.fail(terms.push({state.lanes, static_cast<uint32_t>(state.axis), true}));
  return terms;
}

void ValueLowering::keep_value(Node node) {
  for (const KeptArray& one : kept_values_) {
    if (one.value.folded != node) continue;
    const Vec<Term> terms = place_of_kept(one.value.from_range);
    const Id id = value(node);
    if (!b.status().ok()) return;
    const uint8_t n = b.at(id).lanes;
    (void)b.act({.op = Op::kStore}, std::array{one.array, id}, std::array{Word{1}, Word{n}},
                {terms.data(), terms.size()});
  }
}

ValueLowering::Id ValueLowering::from_kept(Node node) {
  for (const KeptArray& one : kept_values_) {
    if (one.value.stored != node) continue;
    const auto n = static_cast<uint8_t>(lanes_of(node));
    const Vec<Term> terms = place_of_kept(one.value.to_range);
    return b.act({.op = Op::kLoad, .dtype = node->dtype, .lanes = n}, std::array{one.array},
                 std::array{Word{1}, Word{elements_in(n)}}, {terms.data(), terms.size()});
  }
  return kNone;
}

ValueLowering::Id ValueLowering::load_raw(Node node) {
  if (const Id* found = raw_.find(node); found != nullptr) return *found;
  const Form form = kernel_.form(node->src(1));
  const int n = lanes_of(node);
  Id out = from_panels_ ? from_panel(node) : kNone;
  if (out == kNone) out = from_packed(node);
  const int across = turned_load(node);
  if (out != kNone) {
    // it is at hand
  } else if (across >= 0 && n > 1) {
    out = turned(node, across);
  } else {
    Gate gate = node->nsrc > 2 ? split_gate(node->src(2)) : Gate{};
    if (const Id inside = inside_ranges(node->src(1)); inside != kNone)
      gate.uniform = both(gate.uniform, inside);
    const int64_t stride = n > 1 ? kernel_.stride(node->src(1), vector_) : 1;
    const bool masked = gate.mask != kNone;
    // Whole loads touch what lies between, which others may write in memory that is written.
    const bool whole = n >= 4 && !kernel_.written(node->src(0));
    const bool pairs =
        whole && stride == 2 &&
        ((!masked && short_ == 0) || program::loads_under_mask(target_, node->src(0)->dtype, n));
    const bool far = stride > INT32_MAX || stride < -INT32_MAX;  // no step of an instruction
    if (n > 1 && (far || !is_linear(form))) {
      out = indexed(node, gate);
    } else if (n > 1 && stride == 0) {
      out = same_for_lanes(node, form, gate);
    } else if (pairs || (whole && stride == -1 && !masked)) {
      out = shuffled(node, form, stride, gate);
    } else {
      out = load_at(node, form, 0, n, stride, gate);
    }
  }
  b.fail(raw_.set(node, out));
  return out;
}

ValueLowering::Id ValueLowering::load(Node node) {
  const Id raw = load_raw(node);
  return dtype::is_narrow_float(node->dtype) ? cast(raw, DType::kFloat32) : raw;
}

ValueLowering::Id ValueLowering::reversed(Id value) {
  const Instruction in = b.at(value);
  Word words[program::kMaxLanes];
  for (int lane = 0; lane < in.lanes; ++lane) words[lane] = in.lanes - 1 - lane;
  return b.pure({.op = Op::kShuffle, .dtype = in.dtype, .lanes = in.lanes},
                std::array{value, value}, {words, static_cast<size_t>(in.lanes)});
}

// What lies as rows across the lanes, row by row.
void ValueLowering::store_turned(Node node, Id value, int across) {
  const Form form = kernel_.form(node->src(1));
  const uint8_t rows = turn_axis(elements_in(lanes_));
  Vec<Term> terms(memory_);
  b.fail(scalar_terms(&terms, form, across));
  b.fail(terms.push({kernel_.stride(node->src(1), vector_), rows, true}));
  Instruction in{.op = Op::kStore};
  in.constant = form.constant;
  const Id turned = turn(Op::kTurn, value, static_cast<uint8_t>(ranges_[across].axis), rows);
  (void)b.act(in, std::array{memory_of(node), turned}, std::array{Word{1}, Word{copies_[across]}},
              {terms.data(), terms.size()});
}

// The tiled range of two copies whose elements lie between those along the vector: with them whole
// vectors are stored. -1 if there is none.
int ValueLowering::zipped_along(const Form& form) const {
  int between = -1;
  for (const uop::sym::Term& term : form.terms) {
    if (term.node->op != Op::kRange) continue;
    const int r = static_cast<int>(term.node->arg(0));
    if (r == vector_ && term.coefficient != 2) return -1;
    if (r != vector_ && term.coefficient == 1 && copies_[r] == 2) between = r;
  }
  return between;
}

void ValueLowering::store_zipped(Node node, Id value, int between) {
  const Form form = kernel_.form(node->src(1));
  const auto axis = static_cast<uint8_t>(ranges_[between].axis);
  Vec<Term> terms(memory_);
  b.fail(scalar_terms(&terms, form, between));
  Instruction in{.op = Op::kStore};
  in.constant = form.constant;
  const Word words[2] = {1, lanes_};
  if ((b.at(value).axes & program::axis_bit(axis)) != 0) {
    const uint8_t halves = turn_axis(2);
    b.fail(terms.push({lanes_, halves, true}));
    value = turn(Op::kZip, value, axis, halves);
    (void)b.act(in, std::array{memory_of(node), value}, words, {terms.data(), terms.size()});
    return;
  }
  const Instruction type = b.at(value);  // the same for both copies
  for (const int half : {0, 1}) {
    Word from[program::kMaxLanes];
    for (int lane = 0; lane < lanes_; ++lane) from[lane] = (half * lanes_ + lane) / 2;
    const Id twice = b.pure({.op = Op::kShuffle, .dtype = type.dtype, .lanes = type.lanes},
                            std::array{value, value}, {from, static_cast<size_t>(lanes_)});
    in.constant = form.constant + half * lanes_;
    (void)b.act(in, std::array{memory_of(node), twice}, words, {terms.data(), terms.size()});
  }
}

void ValueLowering::store(Node node, bool stream) {
  const Node source = node->src(2);
  const DType dtype = node->src(0)->dtype;
  const Form form = kernel_.form(node->src(1));
  const bool across = vector_ >= 0 && has(kernel_.ranges(node->src(1)), vector_);
  const int n = across ? lanes_ : 1;
  // What is only moved keeps its bits, and is not converted to and fro.
  const bool moved = source->op == Op::kLoad && source->dtype == dtype;
  Id v = source->dtype == DType::kWeakInt ? index_value(source, DType::kInt64)
         : moved                          ? load_raw(source)
                                          : value(source);
  if (!b.status().ok()) return;
  v = spread(cast(v, dtype), n);
  const bool linear = is_linear(form);
  // What is read in its place is written in the same form.
  const bool whole = n > 1 && linear && checked_ == 0 && !kernel_.read(node->src(0));
  const int rows = whole && n <= kWidestTurned ? turned_along(form, kFewestTurned) : -1;
  if (rows >= 0 && (b.at(v).axes & program::axis_bit(static_cast<size_t>(ranges_[rows].axis))) != 0)
    return store_turned(node, v, rows);
  const int between = whole && short_ == 0 ? zipped_along(form) : -1;
  if (between >= 0) return store_zipped(node, v, between);
  int64_t step = n > 1 && linear ? kernel_.stride(node->src(1), vector_) : 1;
  // Backwards: turned round, from the last lane's element on.
  const bool back = step == -1 && short_ == 0 && !kernel_.read(node->src(0));
  if (back) v = reversed(v), step = 1;
  Vec<Term> terms(memory_);
  b.fail(scalar_terms(&terms, form));
  Instruction in{.op = Op::kStore};
  in.constant = form.constant + (back ? 1 - n : 0);
  Id operands[4] = {memory_of(node), v};
  size_t count = 2;
  const Word words[2] = {step, elements_in(n)};
  if (n > 1 && !linear) {
    const DType wide = node->src(0)->count() <= INT32_MAX ? DType::kInt32 : DType::kInt64;
    operands[count++] = vector_part(form, wide);
    in.flags |= Flag::kIndexed;
  }
  if (const Id inside = inside_ranges(node->src(1)); inside != kNone)
    operands[count++] = inside, in.flags |= Flag::kGated;
  // Whole vectors that all begin at multiples of their size, if the first one does.
  bool aligned =
      n > 1 && short_ == 0 && words[0] == 1 && in.constant % n == 0 && !in.is(Flag::kIndexed);
  for (const uop::sym::Term& term : form.terms) {
    aligned &= term.node->op == Op::kRange &&
               (static_cast<int>(term.node->arg(0)) == vector_ || term.coefficient % n == 0);
  }
  const size_t bytes = dtype::size(dtype) * static_cast<size_t>(n);
  if (stream && aligned && bytes == static_cast<size_t>(target_.vector_bytes))
    in.flags |= Flag::kStream;
  (void)b.act(in, {operands, count}, words, {terms.data(), terms.size()});
}

}  // namespace aster::codegen
