// Memory, and the scalar expressions that kernels compute.
#include <algorithm>
#include <array>

#include "engine/fusion.h"
#include "uop/symbolic.h"

namespace aster::engine::fusion {
namespace {

// Whether a scalar is 0 wherever the gate of its loads is false: a gated load, or a sum of such.
bool vanishes(Node x) {
  while (x != nullptr && x->op == Op::kFold && static_cast<Op>(x->arg(0)) == Op::kAdd)
    x = x->src(0);
  return x != nullptr && x->op == Op::kLoad && x->nsrc == 3;
}

class Build {
 public:
  Build(Fusion* fusion, Slots* slots, Graph& graph, const Analysis& nodes)
      : f_(*fusion), slots_(*slots), g_(graph), nodes_(nodes), memory_(fusion->kernels.arena()) {}

  // From sources to users.
  Status run(bool here) {
    ASTER_TRY(place_results());
    ASTER_TRY(name_results());
    slots_.around.resize(nodes_.records.size(), kNone);
    ASTER_TRY(slots_.around.arena().status());
    if (here) ASTER_TRY(keep_borders(&f_, &slots_, nodes_));
    for (uint32_t at = 0; at < nodes_.records.size(); ++at) {
      if (f_.materialised(at)) slots_.of_record[at] = slots_.of_record[f_.stored_as(at)];
    }
    for (uint32_t at = 0; at < nodes_.records.size(); ++at) {
      for (uint32_t d = f_.uses[at].first_demand; d != kNone; d = f_.demands[d].next) {
        Demand& demand = f_.demands[d];
        if (demand.dead) continue;
        if (is_load(nodes_, f_, demand)) {
          ASTER_TRY(load(&demand.expr, demand));
        } else {
          demand.expr = combine(demand);
        }
        ASTER_TRY(need(demand.expr));
      }
    }
    for (Kernel& kernel : f_.kernels) {
      if (kernel.library) {
        list_reads(kernel);
      } else {
        ASTER_TRY(list_outputs(kernel));
      }
    }
    return memory_.status();
  }

 private:
  Status place_results();
  Status name_results();
  bool lies_by_windows(uint32_t at) const;
  Node place_of(uint32_t at, std::span<const Node> index);
  Status load(Node* out, const Demand& demand);
  Node combine(const Demand& demand);
  Node choose(Node condition, Node yes, uop::Word fill);
  Node fold(const Demand& demand);
  Node carry(Op op, Node value, Node addend, Node range, bool before);
  Node scan(const Demand& demand);
  Node scan_logarithms(Node x, Node range);
  Node choose_part(const Demand& demand);
  Status resolve_indirect(Node* expr);
  Status list_outputs(Kernel& kernel);
  void list_reads(Kernel& kernel);
  Node source(const Demand& demand, size_t i) const {
    return f_.demands[f_.edges[demand.edge_at + i]].expr;
  }
  Node own(const Demand& demand, size_t i) const { return f_.owns[demand.edge_at + i]; }

  Fusion& f_;
  Slots& slots_;
  Graph& g_;
  const Analysis& nodes_;
  Arena& memory_;
};

// Whether windows along the last axis but one, which the last one counts the elements of, lie
// behind each other first: so loops along them store vectors.
bool Build::lies_by_windows(uint32_t at) const {
  constexpr int64_t kLongest = 16;
  constexpr uint32_t kMostVisits = 32;
  const Record& record = nodes_.records[at];
  const Node node = record.node;
  if (record.held || !uop::is_alu(node->op) || node->ndim < 2) return false;
  const size_t last = node->ndim - 1u;
  if (node->dim(last) < 2 || node->dim(last) > kLongest || node->dim(last - 1) < kLongest)
    return false;
  std::array<Node, kMostVisits> next{node};
  for (uint32_t seen = 0, count = 1; seen < count; ++seen) {
    const Node one = next[seen];
    if (one->op == Op::kWindow && one->arg(0) + 1 == static_cast<int64_t>(last)) return true;
    if (!uop::is_alu(one->op) && one->op != Op::kCast) continue;
    for (Node source : one->src()) {
      if (source->ndim == node->ndim && count < kMostVisits) next[count++] = source;
    }
  }
  return false;
}

// Where an element of what is materialised lies.
Node Build::place_of(uint32_t at, std::span<const Node> index) {
  at = f_.stored_as(at);
  const Node node = nodes_.node(at);
  if (slots_.around[at] != kNone)
    return place_within(g_, nodes_.node(slots_.around[at]), node, index);
  if (!lies_by_windows(at)) return linear_index(g_, node->shape(), index);
  List<Node> turned(memory_);
  List<uop::Word> shape(memory_);
  turned.append(index);
  shape.append(node->shape());
  if (memory_.failed()) return nullptr;
  std::swap(turned[index.size() - 2], turned[index.size() - 1]);
  std::swap(shape[index.size() - 2], shape[index.size() - 1]);
  return linear_index(g_, {shape.data(), shape.size()}, turned.all());
}

// What is materialised lies in temporaries, but for what is assigned.
Status Build::place_results() {
  slots_.of_record.resize(nodes_.records.size(), kNone);
  ASTER_TRY(memory_.status());
  for (uint32_t at = 0; at < nodes_.records.size(); ++at) {
    if (!f_.materialised(at) || f_.stored_as(at) != at) continue;
    const Node node = nodes_.node(at);
    uint32_t* slot = &slots_.of_record[at];
    if (node->op == Op::kAssign) {
      Node param = node;
      while (param->op != Op::kParam) param = param->src(0);
      ASTER_TRY(slots_.param(slot, param));
    } else {
      ASTER_TRY(slots_.add(slot, SlotKind::kTemporary, 0, node->dtype, node->count()));
    }
  }
  return kOk;
}

// What roots are stored in is given to the schedule's caller.
Status Build::name_results() {
  const Node sink = nodes_.records.back().node;
  for (uint32_t i = 0; i < sink->nsrc; ++i) {
    const uint32_t at = nodes_.at(sink->src(i)), number = slots_.of_record[at];
    if (number == kNone) return ASTER_FAIL(kINTERNAL, "root %u was not materialised", i);
    Slot& slot = slots_.schedule.slots[number];
    if (slot.kind == SlotKind::kTemporary) {  // equal roots share the first one's memory
      slot.kind = SlotKind::kOutput;
      slot.index = i;
    }
    ASTER_TRY(slots_.schedule.roots.push(number));
  }
  return kOk;
}

// Reads an element that lies in memory: of a Param, or of a node that a kernel materialises.
Status Build::load(Node* out, const Demand& demand) {
  const Node node = nodes_.node(demand.record);
  if (never(demand.gate)) return *out = g_.constant_word(node->dtype, 0), need(*out);
  const std::span<const Node> index = f_.index_of(demand, node);
  uint32_t slot = slots_.of_record[demand.record];
  Node position = nullptr;
  if (node->op == Op::kAssign || (is_state(node->op) && !is_copied(nodes_, f_, demand))) {
    Node base = nullptr;
    ASTER_TRY(storage_place(&base, &position, g_, node, index));
    ASTER_TRY(slots_.param(&slot, base));
  } else {
    position = place_of(demand.record, index);
  }
  ASTER_TRY(need(position));
  const Node param = param_operand(g_, slots_.schedule, f_.kernels[demand.kernel], slot);
  ASTER_TRY(need(param));
  *out = demand.gate == nullptr
             ? g_.make(Op::kLoad, node->dtype, std::array{param, position})
             : g_.make(Op::kLoad, node->dtype, std::array{param, position, demand.gate});
  return kOk;
}

// yes where a condition holds, else the fill. A gated load gives 0 outside by itself.
Node Build::choose(Node condition, Node yes, uop::Word fill) {
  if (yes == nullptr || condition == nullptr || (fill == 0 && vanishes(yes))) return yes;
  if (fill == 0 && yes->op == Op::kFold && static_cast<Op>(yes->arg(0)) == Op::kAdd) {
    // Into the sum, so that a sum over this one can take its terms.
    List<Node> src(memory_);
    src.push(g_.alu(Op::kWhere, condition, yes->src(0), g_.constant_word(yes->dtype, 0)));
    src.append(yes->src().subspan(1));
    if (memory_.failed()) return nullptr;
    return g_.make(Op::kFold, yes->dtype, src.all(), yes->arg());
  }
  return g_.alu(Op::kWhere, condition, yes, g_.constant_word(yes->dtype, fill));
}

Node Build::choose_part(const Demand& demand) {
  const Node node = nodes_.node(demand.record);
  Node out = nullptr;
  for (size_t i = node->nsrc; i-- > 0;) {
    const Node inside = own(demand, i);
    if (never(inside)) continue;
    out = inside == nullptr || out == nullptr ? source(demand, i)
                                              : g_.alu(Op::kWhere, inside, source(demand, i), out);
  }
  // Outside of every part: in padding, which nobody looks behind.
  return out != nullptr ? out : g_.constant_word(node->dtype, 0);
}

Node Build::fold(const Demand& demand) {
  const Node node = nodes_.node(demand.record), terms = source(demand, 0);
  const Demand& inner = f_.demands[f_.edges[demand.edge_at]];
  const std::span<const Node> index = f_.index_of(inner, node->src(0));
  if (terms == nullptr) return nullptr;
  List<Node> src(memory_);
  // A reduction of the same kind right below hands its terms over.
  const bool nested = terms->op == Op::kFold && terms->arg(0) == node->arg(0);
  src.push(nested ? terms->src(0) : terms);
  if (nested) src.append(terms->src().subspan(1));
  for (size_t i = 1; i < node->narg; ++i) {
    const Node range = index[static_cast<size_t>(node->arg(i))];
    if (range->op == Op::kRange) src.push(range);
  }
  if (memory_.failed()) return nullptr;
  if (src.size() == 1) return src[0];
  return g_.make(Op::kFold, node->dtype, src.all(), std::array{node->arg(0)});
}

// A running value of a kernel, or what it was before.
Node Build::carry(Op op, Node value, Node addend, Node range, bool before) {
  if (value == nullptr) return nullptr;
  Node src[3] = {value, addend, range};
  if (addend == nullptr) src[1] = range;
  return g_.make(Op::kCarry, value->dtype, {src, size_t{addend == nullptr ? 2u : 3u}},
                 std::array{static_cast<uop::Word>(op), uop::Word{before}});
}

// ln of the sum of exponentials so far, as the greatest so far and the sum relative to it, which is
// kept in float64: a long sum of floats would lose what is added. Each element brings one
// exponential, of what is below the greater of the two. NaN goes to the sum, which keeps it.
Node Build::scan_logarithms(Node x, Node range) {
  const auto real = [&](double value) { return g_.constant(x->dtype, value); };
  const Node now = carry(Op::kMax, x, nullptr, range, false);
  const Node was = carry(Op::kMax, x, nullptr, range, true);
  const Node apart = g_.alu(Op::kAbs, g_.alu(Op::kSub, x, was));
  const Node less = g_.alu(Op::kWhere, g_.alu(Op::kCmpEq, x, was), real(1),  // infinities too
                           g_.alu(Op::kExp, g_.alu(Op::kNeg, apart)));
  const Node grows = g_.alu(Op::kCmpLt, was, x);
  const auto term = [&](bool old) {
    Node one = real(1), other = less;
    if (old) std::swap(one, other);
    return g_.cast(g_.alu(Op::kWhere, grows, one, other), DType::kFloat64);
  };
  const Node sum = carry(Op::kMulAcc, term(true), term(false), range, false);
  if (sum == nullptr) return nullptr;
  return g_.alu(Op::kAdd, now, g_.alu(Op::kLog, g_.cast(sum, x->dtype)));
}

// A scan where the kernel's loop walks along it. Narrow floats are combined in float32.
Node Build::scan(const Demand& demand) {
  const Node node = nodes_.node(demand.record);
  Node x = source(demand, 0);
  if (x == nullptr) return nullptr;
  const size_t axis = scanned_axis(node);
  const bool places = node->op == Op::kScanPlace;
  if (node->dim(axis) == 1) return places ? g_.constant_int(DType::kInt32, 0) : x;
  const Node range = f_.kernels[demand.kernel].carried;
  const DType kept = dtype::is_narrow_float(x->dtype) ? DType::kFloat32
                     : x->dtype == DType::kWeakFloat  ? DType::kFloat64
                     : x->dtype == DType::kWeakInt    ? DType::kInt64
                                                      : x->dtype;
  x = g_.cast(x, kept);
  if (node->op == Op::kLogScan) return g_.cast(scan_logarithms(x, range), node->dtype);
  const Op op = static_cast<Op>(node->arg(0));
  const Node now = carry(op, x, nullptr, range, false);
  if (!places) return g_.cast(now, node->dtype);
  // Where the value changed last; what is NaN stays NaN.
  const Node was = carry(op, x, nullptr, range, true);
  const Node changes = g_.alu(Op::kAnd, g_.alu(Op::kCmpNe, now, was), g_.alu(Op::kCmpEq, was, was));
  const Node at = g_.cast(f_.index_of(demand, node)[axis], DType::kInt32);
  const Node place = g_.alu(Op::kWhere, changes, at, g_.constant_int(DType::kInt32, 0));
  return carry(Op::kMax, place, nullptr, range, false);
}

// The scalar value of a node computed from those of its sources.
Node Build::combine(const Demand& demand) {
  const Node node = nodes_.node(demand.record);
  switch (node->op) {
    case Op::kConst:
      return g_.constant_word(node->dtype, node->arg(0));
    case Op::kIota:
      return g_.cast(f_.index_of(demand, node)[0], node->dtype);
    case Op::kCast:
      return g_.cast(source(demand, 0), node->dtype);
    case Op::kBitcast:
      return g_.bitcast(source(demand, 0), node->dtype);
    case Op::kPad:
      return choose(own(demand, 0), source(demand, 0), node->arg(node->narg - 1));
    case Op::kUnwindow:
    case Op::kGather:
      return choose(own(demand, 0), source(demand, 0), 0);
    case Op::kAssign:
      return source(demand, 1);
    case Op::kCat:
      return choose_part(demand);
    case Op::kReduce:
      return fold(demand);
    case Op::kScan:
    case Op::kScanPlace:
    case Op::kLogScan:
      return scan(demand);
    default:
      break;
  }
  if (!uop::is_alu(node->op)) return source(demand, 0);
  Node operands[3] = {};
  for (size_t i = 0; i < node->nsrc; ++i) operands[i] = source(demand, i);
  return g_.alu(node->op, {operands, node->nsrc});
}

// Puts what was built in the place of the stand-ins for indices in memory.
Status Build::resolve_indirect(Node* expr) {
  List<Node> nodes(memory_);
  for (bool found = !f_.indirect.empty(); found;) {
    found = false;
    nodes.clear();
    ASTER_TRY(uop::toposort(&nodes, std::array{*expr}));
    uop::sym::Rebuilder rebuild(g_);
    for (Node node : nodes) {
      for (const Indirect& indirect : f_.indirect) {
        if (node != indirect.read && node != indirect.inside) continue;
        Node index = uop::sym::to_index(g_, f_.demands[indirect.demand].expr);
        ASTER_TRY(need(index));
        ASTER_TRY(rebuild.replace(node, index));
        found = true;
      }
    }
    if (found) *expr = rebuild(*expr);
    ASTER_TRY(need(*expr));
  }
  return kOk;
}

// What a kernel stores, and where. Of a border, emit says it.
Status Build::list_outputs(Kernel& kernel) {
  if (kernel.border) {
    const Node zero = g_.constant_word(nodes_.node(kernel.record)->dtype, 0);
    kernel.outputs.push(Output{slots_.of_record[kernel.record], g_.index(0), zero});
    return need(zero);
  }
  for (uint32_t place : kernel.places) {
    const Node shape = nodes_.node(kernel.record);
    Node position = kernel.store_index;
    if (position == nullptr)
      position = place_of(kernel.record, f_.index_of(f_.demands[place], shape));
    Node value = f_.demands[place].expr;
    ASTER_TRY(need(position));
    ASTER_TRY(resolve_indirect(&value));
    kernel.outputs.push(Output{slots_.of_record[kernel.record], position, value});
  }
  return kOk;
}

// What merging has to know of a library call; emit lists its operands.
void Build::list_reads(Kernel& kernel) {
  const Node call = nodes_.library_call(nodes_.node(kernel.record));
  for (const Argument& argument : nodes_.arguments_of(call)) {
    if (argument.base != kNone && f_.materialised(argument.base))
      kernel.operands.push(slots_.of_record[argument.base]);
  }
}

}  // namespace

Status Slots::add(uint32_t* out, SlotKind kind, uint32_t index, DType dtype, int64_t count) {
  *out = static_cast<uint32_t>(schedule.slots.size());
  return schedule.slots.push(Slot{kind, dtype, index, count, 0, kNone, 0});
}

Status Slots::param(uint32_t* out, Node param) {
  const auto number = static_cast<uint32_t>(param->arg(0));
  if (const uint32_t* known = of_param.find(number)) {
    *out = *known;
    return kOk;
  }
  ASTER_TRY(add(out, SlotKind::kParam, number, param->dtype, param->count()));
  of_param.set(number, *out);
  return of_param.arena().status();
}

uint32_t operand(Kernel& kernel, uint32_t slot) {
  const uint32_t* at = std::find(kernel.operands.begin(), kernel.operands.end(), slot);
  const auto number = static_cast<uint32_t>(at - kernel.operands.begin());
  if (number == kernel.operands.size()) kernel.operands.push(slot);
  return number;
}

Node param_operand(Graph& graph, const Schedule& schedule, Kernel& kernel, uint32_t slot) {
  const uint32_t number = operand(kernel, slot);
  const Slot& memory = schedule.slots[slot];
  return graph.param(number, memory.dtype, std::array<int64_t, 1>{memory.count});
}

Status build(Fusion* fusion, Slots* slots, Graph& graph, const Analysis& nodes, bool here) {
  return Build(fusion, slots, graph, nodes).run(here);
}

}  // namespace aster::engine::fusion
