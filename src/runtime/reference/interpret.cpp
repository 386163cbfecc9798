#include "runtime/reference/interpret.h"

#include <algorithm>

#include "buffer/region.h"
#include "runtime/reference/indexed.h"
#include "runtime/reference/inline.h"
#include "runtime/reference/machine.h"

namespace aster::runtime::reference {
namespace {

using uop::Node;
using uop::Op;

class Interpreter {
 public:
  Interpreter(Memory& memory, std::span<const Binding> bindings, std::span<const Output> outputs)
      : memory_(memory),
        bindings_(bindings),
        outputs_(outputs),
        roots_(memory),
        values_(memory),
        machine_(memory),
        dying_(memory),
        writes_(memory) {}

  Status run(uop::Graph& graph, Interrupt* interrupt) {
    machine_.watch(interrupt);
    ASTER_TRY(inline_roots(graph));
    ASTER_TRY(values_.analyse({roots_.data(), roots_.size()}));
    ASTER_TRY(bind());
    ASTER_TRY(place_outputs());
    ASTER_TRY(compute());
    ASTER_TRY(plan_writes());
    machine_.watch(nullptr);  // what is written is written whole
    finish();
    return kOk;
  }

 private:
  struct Write {
    uint32_t assign;
    Plan plan;
  };
  Status inline_roots(uop::Graph& graph);
  Status bind();
  Status place_outputs();
  bool overlaps_others(size_t output) const;
  Status list_dying();
  Status compute();
  Status compute_value(uint32_t i);
  Status reduce_value(uint32_t i);
  Status index_value(uint32_t i);
  Status read_storage(uint32_t i);
  buffer::Region region(uint32_t base) const;
  Status list_assigns(Vec<uint32_t>* assigns, buffer::Region* all, uint32_t after);
  Status plan_writes();
  void finish();
  Value& root_value(size_t output) { return values_[values_[values_.find(roots_[output])].same]; }

  Memory& memory_;
  std::span<const Binding> bindings_;
  std::span<const Output> outputs_;
  Vec<Node> roots_;  // of outputs, calls inlined
  Values values_;
  Machine machine_;
  Vec<uint32_t> dying_;  // kept values by their last readers
  Vec<Write> writes_;
};

// Memory for the length of a block.
class Scratch {
 public:
  Scratch(Memory& memory, size_t bytes)
      : memory_(memory), bytes_(bytes), data_(memory.allocate(bytes, 64)) {}
  ~Scratch() { memory_.release(data_, bytes_, 64); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }
  Status status() const { return data_ != nullptr ? kOk : out_of_memory(bytes_); }

 private:
  Memory& memory_;
  size_t bytes_;
  void* data_;
};

Status Interpreter::inline_roots(uop::Graph& graph) {
  Vec<Node> given(memory_);
  for (const Output& output : outputs_) {
    if (output.node == nullptr) return last_failure();
    if (output.data == nullptr && output.node->count() != 0) {
      return ASTER_FAIL(kARGUMENT, "no memory for %s", uop::brief(output.node).text);
    }
    ASTER_TRY(given.push(output.node));
  }
  return inline_calls(&roots_, graph, {given.data(), given.size()});
}

Status Interpreter::bind() {
  for (const Binding& binding : bindings_) {
    const uint32_t at = binding.leaf != nullptr ? values_.find(binding.leaf) : kNowhere;
    if (at != kNowhere) values_[at].bound = binding.data;
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    const Value& value = values_[i];
    const Node node = value.node;
    if (node->op == Op::kAssign && value.base == kNowhere) {
      return ASTER_FAIL(kARGUMENT, "assign to %s, which views no storage", uop::brief(node).text);
    }
    const bool storage = node->op == Op::kBuffer || node->op == Op::kParam;
    if (storage && value.needed && value.bound == nullptr && node->count() != 0) {
      return ASTER_FAIL(kARGUMENT, "%s %s (%lld) is not bound", uop::info(node->op).name,
                        uop::brief(node).text, static_cast<long long>(node->arg(0)));
    }
  }
  return kOk;
}

bool Interpreter::overlaps_others(size_t output) const {
  const buffer::Region own =
      buffer::host_region(outputs_[output].data, value_bytes(outputs_[output].node));
  const auto overlaps = [&](const void* data, Node node) {
    return own.overlaps(buffer::host_region(data, value_bytes(node)));
  };
  for (const Binding& binding : bindings_) {
    if (binding.leaf != nullptr && overlaps(binding.data, binding.leaf)) return true;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (i != output && overlaps(outputs_[i].data, outputs_[i].node)) return true;
  }
  return false;
}

// A root's value is made where it is wanted, unless that memory holds something else meanwhile.
Status Interpreter::place_outputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Value& value = root_value(i);
    if (value.data == nullptr && !overlaps_others(i)) value.data = outputs_[i].data;
  }
  return kOk;
}

// dying_ becomes the kept values that are not wanted at the end, ordered by their last readers.
Status Interpreter::list_dying() {
  for (uint32_t i = 0; i < values_.size(); ++i) {
    if (values_[i].kept && values_[i].last_reader != kNowhere) ASTER_TRY(dying_.push(i));
  }
  std::sort(dying_.begin(), dying_.end(), [this](uint32_t a, uint32_t b) {
    return values_[a].last_reader < values_[b].last_reader;
  });
  return kOk;
}

Status Interpreter::compute() {
  ASTER_TRY(list_dying());
  size_t dead = 0;
  for (uint32_t i = 0; i < values_.size(); ++i) {
    if (!values_[i].kept || !values_[i].needed || values_[i].same != i) continue;
    ASTER_TRY(compute_value(i));
    if (machine_.stopped()) return Interrupt::stopped("a graph is interpreted");
    for (; dead < dying_.size() && values_[dying_[dead]].last_reader <= i; ++dead) {
      values_.release(values_[dying_[dead]]);
    }
  }
  return kOk;
}

Status Interpreter::compute_value(uint32_t i) {
  Value& value = values_[i];
  if (value.data == nullptr) ASTER_TRY(values_.allocate(value));
  if (value.node->count() == 0) return kOk;
  if (value.node->op == Op::kAfter) return read_storage(i);
  if (is_indexed(value.node)) return index_value(i);
  if (value.node->op == Op::kReduce) return reduce_value(i);
  Plan plan(memory_);
  ASTER_TRY(plan_value(&plan, values_, i));
  ASTER_TRY(machine_.prepare(plan, value.node->count()));
  machine_.map(plan, value.node, value.data);
  return kOk;
}

Status Interpreter::reduce_value(uint32_t i) {
  Value& value = values_[i];
  const Node source = value.node->src(0);
  Plan plan(memory_);
  if (source->count() != 0) {
    ASTER_TRY(plan_value(&plan, values_, i));
    ASTER_TRY(machine_.prepare(plan, source->count()));
    machine_.reduce(plan, value.node, value.data);
    return kOk;
  }
  // Nothing to reduce: the identity everywhere.
  Step fill{Step::Kind::kConst};
  fill.dtype = value.node->dtype;
  fill.word = fold_identity(static_cast<Op>(value.node->arg(0)), fill.dtype);
  ASTER_TRY(plan.steps.push(fill));
  plan.value_slots = 1;
  plan.result = 0;
  ASTER_TRY(machine_.prepare(plan, value.node->count()));
  machine_.map(plan, value.node, value.data);
  return kOk;
}

Status Interpreter::index_value(uint32_t i) {
  Vec<const void*> sources(memory_);
  for (size_t k = 0; k < values_[i].node->nsrc; ++k) {
    const Value& source = values_[values_.source_value(i, k)];
    ASTER_TRY(sources.push(source.data != nullptr ? source.data : source.bound));
  }
  return compute_indexed(memory_, values_[i].node, sources.data(), values_[i].data);
}

// Plans the write of an Assign's value into its base.
Status plan_write(Plan* plan, const Values& values, uint32_t assign, Machine& machine) {
  ASTER_TRY(plan_storage(plan, values, values.source(assign, 0), nullptr));
  return machine.prepare(*plan, values[assign].node->count());
}

buffer::Region Interpreter::region(uint32_t base) const {
  return buffer::host_region(values_[base].bound, value_bytes(values_[base].node));
}

// The Assigns below an After that write memory of its base, in order; *all is that memory, and what
// else they write.
Status Interpreter::list_assigns(Vec<uint32_t>* assigns, buffer::Region* all, uint32_t after) {
  Vec<Node> below(memory_);
  ASTER_TRY(uop::toposort(&below, std::array{values_[after].node}));
  const buffer::Region own = region(values_[after].base);
  *all = own;
  for (Node node : below) {
    if (node->op != Op::kAssign || node->count() == 0) continue;
    const uint32_t at = values_.find(node);
    const buffer::Region written = region(values_[at].base);
    if (!written.overlaps(own)) continue;
    all->begin = std::min(all->begin, written.begin);
    all->end = std::max(all->end, written.end);
    ASTER_TRY(assigns->push(at));
  }
  std::sort(assigns->begin(), assigns->end());
  return kOk;
}

// Storage as the assignments below an After leave it: they are applied to a copy.
Status Interpreter::read_storage(uint32_t i) {
  Value& value = values_[i];
  Vec<uint32_t> assigns(memory_);
  buffer::Region all;
  ASTER_TRY(list_assigns(&assigns, &all, i));
  Scratch state(memory_, all.end - all.begin);
  ASTER_TRY(state.status());
  if (all.begin != all.end)
    std::memcpy(state.data(), reinterpret_cast<const void*>(all.begin), all.end - all.begin);
  const auto copy_of = [&](uint32_t base) {
    return static_cast<char*>(state.data()) + (region(base).begin - all.begin);
  };
  for (uint32_t at : assigns) {
    Plan plan(memory_);
    ASTER_TRY(plan_write(&plan, values_, at, machine_));
    machine_.write(plan, values_[at].node, values_[values_[at].same].data,
                   copy_of(values_[at].base));
  }
  Plan plan(memory_);
  ASTER_TRY(plan_storage(&plan, values_, i, copy_of(value.base)));
  ASTER_TRY(machine_.prepare(plan, value.node->count()));
  machine_.map(plan, value.node, value.data);
  return kOk;
}

// All that may fail, before anything is written.
Status Interpreter::plan_writes() {
  for (uint32_t i = 0; i < values_.size(); ++i) {
    if (values_[i].node->op != Op::kAssign || values_[i].node->count() == 0) continue;
    ASTER_TRY(writes_.push(Write{i, Plan(memory_)}));
    ASTER_TRY(plan_write(&writes_.back().plan, values_, i, machine_));
  }
  return kOk;
}

void Interpreter::finish() {
  for (Write& write : writes_) {
    const Value& assign = values_[write.assign];
    machine_.write(write.plan, assign.node, values_[assign.same].data, values_[assign.base].bound);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Value& value = root_value(i);
    const size_t bytes = value_bytes(value.node);
    if (bytes != 0 && value.data != outputs_[i].data) {
      std::memcpy(outputs_[i].data, value.data, bytes);
    }
  }
}

}  // namespace

Status interpret(uop::Graph& graph, Memory& memory, std::span<const Binding> bindings,
                 std::span<const Output> outputs, Interrupt* interrupt) {
  Interpreter interpreter(memory, bindings, outputs);
  return interpreter.run(graph, interrupt);
}

}  // namespace aster::runtime::reference
