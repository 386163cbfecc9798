// Items, in the order in which they run.
#include "engine/fusion.h"
#include "engine/library.h"

namespace aster::engine::fusion {
namespace {

class Emit {
 public:
  Emit(Slots* slots, Fusion* fusion, Graph& graph, const Analysis& nodes)
      : slots_(*slots),
        schedule_(slots->schedule),
        f_(*fusion),
        g_(graph),
        nodes_(nodes),
        memory_(fusion->kernels.arena()) {}

  Status run() {
    List<uint32_t> sequence(memory_);
    ASTER_TRY(find_sequence(&sequence, f_, slots_));
    for (uint32_t k : sequence) {
      Kernel& kernel = f_.kernels[k];
      if (nodes_.node(kernel.record)->count() == 0) continue;
      if (kernel.library ? kernel.unread : kernel.outputs.empty()) continue;
      ASTER_TRY(kernel.library ? emit_library(kernel) : emit_kernel(kernel));
    }
    return kOk;
  }

 private:
  void loop_order(List<Node>* out, const Kernel& kernel);
  Status emit_kernel(Kernel& kernel);
  Status emit_library(const Kernel& kernel);

  Slots& slots_;
  Schedule& schedule_;
  Fusion& f_;
  Graph& g_;
  const Analysis& nodes_;
  Arena& memory_;
};

// The loops of a kernel, those first that its prefixes say.
void Emit::loop_order(List<Node>* out, const Kernel& kernel) {
  uint64_t taken = 0;
  const auto take = [&](uint64_t set) {
    for (Node range : kernel.ranges) {
      if (range->op != Op::kRange) continue;
      const uint64_t bit = RangeSets::bit(range);
      if ((set & bit) == 0) continue;
      if (bit >> 63 == 0 && (taken & bit) != 0) continue;
      taken |= bit;
      out->push(range);
    }
  };
  for (uint64_t set : kernel.prefixes) take(set);
  take(~uint64_t{0});
}

Status Emit::emit_kernel(Kernel& kernel) {
  List<Node> src(memory_), stores(memory_), loops(memory_);
  loop_order(&loops, kernel);
  for (const Output& output : kernel.outputs) {
    if (kernel.border) {
      const Node param = param_operand(g_, schedule_, kernel, output.slot);
      ASTER_TRY(need(param));
      ASTER_TRY(store_border(&stores, g_, nodes_.node(kernel.record), param));
      continue;
    }
    src.clear();
    src.push(param_operand(g_, schedule_, kernel, output.slot));
    src.push(output.position);
    src.push(output.value);
    src.append(loops.all());
    ASTER_TRY(memory_.status());
    stores.push(g_.make(Op::kStore, DType::kNone, src.all()));
  }
  ASTER_TRY(memory_.status());
  const Node sink = g_.sink(stores.all());
  ASTER_TRY(need(sink));
  const auto first = static_cast<uint32_t>(schedule_.operands.size());
  const auto count = static_cast<uint32_t>(kernel.operands.size());
  ASTER_TRY(schedule_.operands.append(kernel.operands.data(), count));
  return schedule_.items.push(Item{ItemKind::kKernel, sink, first, count, 0, 0, kernel.cut});
}

Status Emit::emit_library(const Kernel& kernel) {
  const Node call = nodes_.library_call(nodes_.node(kernel.record));
  const auto first = static_cast<uint32_t>(schedule_.operands.size());
  const auto first_word = static_cast<uint32_t>(schedule_.words.size());
  for (const Argument& argument : nodes_.arguments_of(call)) {
    uint32_t slot = kNone;
    ASTER_TRY(
        schedule_.words.append(nodes_.words.data() + argument.first_word, argument.word_count));
    if (argument.base == kNone) {
      ASTER_TRY(slots_.add(&slot, SlotKind::kAbsent, 0, call->dtype, 0));
    } else if (f_.materialised(argument.base)) {
      slot = slots_.of_record[argument.base];
    } else {
      Node param = nodes_.node(argument.base);
      while (param->op != Op::kParam) param = param->src(0);
      ASTER_TRY(slots_.param(&slot, param));
    }
    ASTER_TRY(schedule_.operands.push(slot));
  }
  ASTER_TRY(schedule_.operands.push(slots_.of_record[kernel.record]));
  return schedule_.items.push(Item{
      ItemKind::kLibrary, call, first, static_cast<uint32_t>(schedule_.operands.size()) - first,
      first_word, static_cast<uint32_t>(schedule_.words.size()) - first_word, "a call of its own"});
}

}  // namespace

Status emit(Slots* slots, Fusion* fusion, Graph& graph, const Analysis& nodes) {
  return Emit(slots, fusion, graph, nodes).run();
}

}  // namespace aster::engine::fusion
