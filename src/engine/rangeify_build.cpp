// The second walk: scalar expressions, and items from them.
#include <algorithm>

#include "engine/library.h"
#include "engine/rangeify.h"
#include "uop/symbolic.h"

namespace aster::engine {

using uop::Node;
using uop::Op;

namespace {

// Whether a scalar is 0 wherever the gate of its loads is false: a gated load, or a sum of such.
bool vanishes(Node x) {
  while (x != nullptr && x->op == Op::kFold && static_cast<Op>(x->arg(0)) == Op::kAdd)
    x = x->src(0);
  return x != nullptr && x->op == Op::kLoad && x->nsrc == 3;
}

}  // namespace

Status push_once(Vec<uint32_t>* out, uint32_t value) {
  for (uint32_t other : *out) {
    if (other == value) return kOk;
  }
  return out->push(value);
}

Status Rangeify::param_slot(uint32_t* out, Node param) {
  const uint32_t number = static_cast<uint32_t>(param->arg(0));
  if (const uint32_t* known = storages_.find(number)) {
    *out = *known;
    return kOk;
  }
  ASTER_TRY(new_slot(out, SlotKind::kParam, number, param->dtype, param->count()));
  return storages_.set(number, *out);
}

// The number of a slot among a kernel's operands.
Status Rangeify::operand(uint32_t* out, Kernel& kernel, uint32_t slot) {
  for (uint32_t i = 0; i < kernel.operands.size(); ++i) {
    if (kernel.operands[i] == slot) {
      *out = i;
      return kOk;
    }
  }
  *out = static_cast<uint32_t>(kernel.operands.size());
  return kernel.operands.push(slot);
}

Status Rangeify::param_operand(Node* out, Kernel& kernel, uint32_t slot) {
  uint32_t number = 0;
  ASTER_TRY(operand(&number, kernel, slot));
  const Slot& memory = schedule_.slots[slot];
  *out = g_.param(number, memory.dtype, std::array<int64_t, 1>{memory.count});
  return need(*out);
}

// Reads an element that lies in memory: of a Param, or of a node that a kernel materialises.
Status Rangeify::load(Node* out, const Record& record, const Demand& demand) {
  Kernel& kernel = kernels_[demand.kernel];
  uint32_t slot = record.slot;
  Node position = nullptr, param = nullptr;
  const bool storage = record.node->op == Op::kParam || record.node->op == Op::kAfter;
  const bool copied = storage && record.realized && !demand.own;
  if (!copied && (storage || record.node->op == Op::kAssign)) {
    uint32_t base = 0;
    ASTER_TRY(target_base(&base, &position, record.node, index_of(demand)));
    ASTER_TRY(param_slot(&slot, records_[base].node));
    ASTER_TRY(push_once(&kernel.reads, demand.record));
  } else {
    position = linear_index(g_, record.node->shape(), index_of(demand));
  }
  if (record.realized && record.kernel != demand.kernel)
    ASTER_TRY(push_once(&kernel.after, record.kernel));
  if (record.node->op == Op::kAfter && !copied) {
    for (Node effect : record.node->src().subspan(1)) {
      const uint32_t writer = record_of(effect).kernel;
      if (writer != kNone && writer != demand.kernel) ASTER_TRY(push_once(&kernel.after, writer));
    }
  }
  ASTER_TRY(need(position));
  ASTER_TRY(param_operand(&param, kernel, slot));
  *out = demand.gate == nullptr
             ? g_.make(Op::kLoad, record.node->dtype, std::array{param, position})
             : g_.make(Op::kLoad, record.node->dtype, std::array{param, position, demand.gate});
  return need(*out);
}

// The scalar value of a node computed from those of its sources.
Node Rangeify::combine(const Record& record, const Demand& demand) {
  const Node node = record.node;
  const auto source = [&](size_t i) { return demands_[edges_[demand.edge_at + i]].expr; };
  const auto own = [&](size_t i) { return owns_[demand.edge_at + i]; };
  const auto choose = [&](Node condition, Node yes, uop::Word fill) -> Node {
    // A gated load gives 0 outside by itself.
    if (condition == nullptr || (fill == 0 && vanishes(yes))) return yes;
    if (fill == 0 && yes != nullptr && yes->op == Op::kFold &&
        static_cast<Op>(yes->arg(0)) == Op::kAdd) {
      // Into the sum, so that a sum over this one can take its terms.
      Vec<Node> src(memory_);
      Node term = g_.alu(Op::kWhere, condition, yes->src(0), g_.constant_word(node->dtype, 0));
      if (!src.push(term).ok() || !src.append(yes->src().data() + 1, yes->nsrc - 1).ok())
        return nullptr;
      return g_.make(Op::kFold, yes->dtype, {src.data(), src.size()}, yes->arg());
    }
    return g_.alu(Op::kWhere, condition, yes, g_.constant_word(node->dtype, fill));
  };
  switch (node->op) {
    case Op::kConst:
      return g_.constant_word(node->dtype, node->arg(0));
    case Op::kIota:
      return g_.cast(index_of(demand)[0], node->dtype);
    case Op::kCast:
      return g_.cast(source(0), node->dtype);
    case Op::kBitcast:
      return g_.bitcast(source(0), node->dtype);
    case Op::kPad:
      return choose(own(0), source(0), node->arg(node->narg - 1));
    case Op::kUnwindow:
      return choose(own(0), source(0), 0);
    case Op::kAssign:
      return source(1);
    case Op::kGather:
      return choose(own(0), source(0), 0);
    case Op::kCat: {
      Node out = nullptr;
      for (size_t i = node->nsrc; i-- > 0;) {
        if (never(own(i))) continue;
        out = own(i) == nullptr || out == nullptr ? source(i)
                                                  : g_.alu(Op::kWhere, own(i), source(i), out);
      }
      // Outside of every part: in padding, which nobody looks behind.
      return out != nullptr ? out : g_.constant_word(node->dtype, 0);
    }
    case Op::kReduce: {
      Vec<Node> src(memory_);
      const Demand& inner = demands_[edges_[demand.edge_at]];
      // A reduction of the same kind right below hands its terms over.
      Node terms = source(0);
      const bool nested =
          terms != nullptr && terms->op == Op::kFold && terms->arg(0) == node->arg(0);
      if (!src.push(nested ? terms->src(0) : terms).ok()) return nullptr;
      if (nested && !src.append(terms->src().data() + 1, terms->nsrc - 1).ok()) return nullptr;
      for (size_t i = 1; i < node->narg; ++i) {
        Node range = index_of(inner)[static_cast<size_t>(node->arg(i))];
        if (range->op == Op::kRange && !src.push(range).ok()) return nullptr;
      }
      if (src.size() == 1) return src[0];
      return g_.make(Op::kFold, node->dtype, {src.data(), src.size()}, std::array{node->arg(0)});
    }
    default:
      break;
  }
  if (!uop::is_alu(node->op)) return source(0);
  Node operands[3] = {};
  for (size_t i = 0; i < node->nsrc; ++i) operands[i] = source(i);
  return g_.alu(node->op, {operands, node->nsrc});
}

Status Rangeify::build() {
  for (Record& record : records_) {
    if (!record.realized) continue;
    if (record.node->op == Op::kAssign) {
      uint32_t base = 0;
      Node position = nullptr;
      const Vec<Node>& ranges = kernels_[record.kernel].ranges;
      ASTER_TRY(target_base(&base, &position, record.node, {ranges.data(), ranges.size()}));
      ASTER_TRY(param_slot(&record.slot, records_[base].node));
    } else {
      ASTER_TRY(new_slot(&record.slot, SlotKind::kTemporary, 0, record.node->dtype,
                         record.node->count()));
    }
  }
  for (Record& record : records_) {
    const bool in_memory =
        record.realized || record.node->op == Op::kParam || record.node->op == Op::kAfter;
    for (uint32_t d = record.first_demand; d != kNone; d = demands_[d].next) {
      Demand& demand = demands_[d];
      Node expr = nullptr;
      if (in_memory &&
          (!demand.own || record.node->op == Op::kParam || record.node->op == Op::kAfter)) {
        ASTER_TRY(load(&expr, record, demand));
      } else {
        expr = combine(record, demand);
      }
      ASTER_TRY(need(expr));
      demands_[d].expr = expr;
    }
  }
  return kOk;
}

// Puts what the second walk built in the place of the stand-ins for indices in memory.
Status Rangeify::resolve_indirect(Node* expr) {
  Vec<Node> nodes(memory_);
  for (bool found = !indirect_.empty(); found;) {
    found = false;
    nodes.clear();
    ASTER_TRY(uop::toposort(&nodes, std::array{*expr}));
    uop::sym::Rebuilder rebuild(g_);
    for (Node node : nodes) {
      for (const Indirect& indirect : indirect_) {
        if (node != indirect.read && node != indirect.inside) continue;
        Node index = uop::sym::to_index(g_, demands_[indirect.demand].expr);
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

Status Rangeify::emit_library(Kernel& kernel) {
  const Record& record = records_[kernel.record];
  const Node call = library_call(record.node);
  const uint32_t first_word = static_cast<uint32_t>(schedule_.words.size());
  kernel.operands.clear();
  for (size_t i = library::first_argument(call); i < call->nsrc; ++i) {
    Node base = nullptr;
    ASTER_TRY(library::view_base(&base, &schedule_.words, g_, call, i));
    if (base == nullptr) {
      uint32_t slot = 0;
      ASTER_TRY(new_slot(&slot, SlotKind::kAbsent, 0, call->dtype, 0));
      ASTER_TRY(kernel.operands.push(slot));
      continue;
    }
    Record& source = record_of(base);
    uint32_t slot = source.slot;
    if (!source.realized) {
      Vec<Node> zeros(memory_);
      ASTER_TRY(zeros.resize(base->ndim, g_.index(0)));
      uint32_t param = 0;
      Node position = nullptr;
      ASTER_TRY(target_base(&param, &position, base, {zeros.data(), zeros.size()}));
      ASTER_TRY(param_slot(&slot, records_[param].node));
    }
    ASTER_TRY(kernel.operands.push(slot));
  }
  ASTER_TRY(kernel.operands.push(record.slot));
  const uint32_t first = static_cast<uint32_t>(schedule_.operands.size());
  ASTER_TRY(schedule_.operands.append(kernel.operands.data(), kernel.operands.size()));
  return schedule_.items.push(Item{ItemKind::kLibrary, call, first,
                                   static_cast<uint32_t>(kernel.operands.size()), first_word,
                                   static_cast<uint32_t>(schedule_.words.size()) - first_word});
}

Status Rangeify::emit_kernel(Kernel& kernel) {
  Vec<Node> src(memory_), stores(memory_), loops(memory_);
  ASTER_TRY(loop_order(&loops, kernel));
  for (const Output& output : kernel.outputs) {
    Node param = nullptr;
    ASTER_TRY(param_operand(&param, kernel, output.slot));
    src.clear();
    ASTER_TRY(src.push(param));
    ASTER_TRY(src.push(output.position));
    ASTER_TRY(src.push(output.value));
    ASTER_TRY(src.append(loops.data(), loops.size()));
    Node store = g_.make(Op::kStore, DType::kNone, {src.data(), src.size()});
    ASTER_TRY(need(store));
    ASTER_TRY(stores.push(store));
  }
  Node sink = g_.sink({stores.data(), stores.size()});
  ASTER_TRY(need(sink));
  const uint32_t first = static_cast<uint32_t>(schedule_.operands.size());
  ASTER_TRY(schedule_.operands.append(kernel.operands.data(), kernel.operands.size()));
  return schedule_.items.push(
      Item{ItemKind::kKernel, sink, first, static_cast<uint32_t>(kernel.operands.size()), 0, 0});
}

// The number of the Param that a node is a view of.
uint32_t Rangeify::param_below(Node node) const {
  while (node->op != Op::kParam) node = node->src(0);
  return static_cast<uint32_t>(node->arg(0));
}

bool Rangeify::overlap(uint32_t param, uint32_t other) const {
  return regions_[param].overlaps(regions_[other]);
}

Status Rangeify::emit() {
  const Node sink = records_[records_.size() - 1].node;
  for (uint32_t i = 0; i < sink->nsrc; ++i) {
    Record& record = record_of(sink->src(i));
    if (!record.realized) return ASTER_FAIL(kINTERNAL, "root %u was not materialised", i);
    Slot& slot = schedule_.slots[record.slot];
    if (slot.kind == SlotKind::kTemporary) {  // equal roots share the first one's memory
      slot.kind = SlotKind::kOutput;
      slot.index = i;
    }
    ASTER_TRY(schedule_.roots.push(record.slot));
  }
  Vec<uint32_t> sequence(memory_);
  for (Kernel& kernel : kernels_) {
    if (!kernel.library) continue;
    const Node call = library_call(records_[kernel.record].node);
    for (size_t i = library::first_argument(call); i < call->nsrc; ++i) {
      Node base = nullptr;
      ASTER_TRY(library::view_base(&base, nullptr, g_, call, i));
      if (base == nullptr) continue;
      Record& source = record_of(base);
      if (source.realized) {
        ASTER_TRY(push_once(&kernel.after, source.kernel));
        ASTER_TRY(
            kernel.operands.push(source.slot));  // told to merge(); emit_library lists them anew
      }
      const bool storage = base->op == Op::kParam || base->op == Op::kAfter;
      if ((storage && !source.realized) || base->op == Op::kAssign) {
        ASTER_TRY(push_once(&kernel.reads, *position_.find(base)));
      }
      if (base->op != Op::kAfter || source.realized) continue;
      for (Node effect : base->src().subspan(1)) {
        const uint32_t writer = record_of(effect).kernel;
        if (writer != kNone) ASTER_TRY(push_once(&kernel.after, writer));
      }
    }
  }
  for (Kernel& kernel : kernels_) {
    if (kernel.library) continue;
    const Record& record = records_[kernel.record];
    for (uint32_t own : kernel.places) {
      Node position = kernel.store_index != nullptr
                          ? kernel.store_index
                          : linear_index(g_, record.node->shape(), index_of(demands_[own]));
      ASTER_TRY(need(position));
      Node value = demands_[own].expr;
      ASTER_TRY(resolve_indirect(&value));
      ASTER_TRY(kernel.outputs.push(Output{kernel.record, record.slot, position, value}));
    }
  }
  ASTER_TRY(link());
  ASTER_TRY(merge());
  ASTER_TRY(order(&sequence));
  if (restart_) return kOk;
  for (uint32_t k : sequence) {
    Kernel& kernel = kernels_[k];
    if (records_[kernel.record].node->count() == 0) continue;
    if (!kernel.library && kernel.outputs.empty()) continue;  // nobody reads what it makes
    ASTER_TRY(kernel.library ? emit_library(kernel) : emit_kernel(kernel));
  }
  return kOk;
}

}  // namespace aster::engine
