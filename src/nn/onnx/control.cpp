// Operators that run graphs: conditions, loops, scans, maps over sequences.
#include <algorithm>

#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

// Iterations that one operator goes through at most.
constexpr int64_t kMostTurns = 1 << 24;
// Nodes that a turn counts as beside those of its body: its number and condition stay in memory.
constexpr uint64_t kTurn = 64;
// The same of a turn that is given parts of tensors, or items.
constexpr uint64_t kPart = 16;

bool truth(Op& op, const Ref& value) {
  if (!value) return true;
  const void* data = nullptr;
  op.read(&data, *value);
  if (op.ok() && (value->node()->dtype != DType::kBool || value->node()->count() != 1)) {
    op.fail(ASTER_FAIL(kDTYPE, "a condition that is %s", uop::brief(value->node()).text));
  }
  return op.ok() && *static_cast<const uint8_t*>(data) != 0;
}

Ref flag(Op& op, bool value) {
  Ref made;
  const Word word = value ? 1 : 0;
  op.fail(make_integers(&made, op.engine(), Words(&word, 1), Words(), DType::kBool));
  return made;
}

Ref whole(Op& op, int64_t value) {
  Ref made;
  op.fail(make_integers(&made, op.engine(), Words(&value, 1), Words(), DType::kInt64));
  return made;
}

const GraphProto* graph_of(Op& op, std::string_view key) {
  const Attribute* found = op.attribute(key);
  return found == nullptr ? nullptr : found->graph;
}

// Values of one output in the order of turns, one behind the other along a new axis. type: what the
// graph says where there are none.
Ref stacked(Op& op, const Vec<Ref>& values, int64_t axis, bool reverse, const ValueInfo& info) {
  Ref made;
  if (!op.ok()) return made;
  Graph::Hold hold(op.g);
  if (values.empty()) {
    Dims shape(1, 0);
    for (const Word dim : info.type.shape) shape.push(dim < 0 ? 0 : dim);
    const DType dtype = dtype_of(op, info.type.element);
    if (op.ok())
      op.fail(make_tensor(&made, op.engine(), op.g.constant(dtype, 0, shape), info.type.element,
                          false));
    return made;
  }
  Vec<Node> nodes(op.heap());
  for (const Ref& value : values) {
    if (value->kind != Kind::kTensor || value->element == kText) {
      op.fail(ASTER_FAIL(kUNSUPPORTED, "a scan of values that are no tensors of numbers"));
      return made;
    }
    op.fail(nodes.push(value->node()));
  }
  if (reverse) std::reverse(nodes.begin(), nodes.end());
  if (!op.ok()) return made;
  const Node y = tensor::stack(op.g, {nodes.data(), nodes.size()}, axis);
  bool known = true;
  for (const Ref& value : values) known = known && value->known;
  op.fail(make_tensor(&made, op.engine(), y, values[0]->element, known));
  return made;
}

// What each turn adds to the results that are scanned.
class Scanned {
 public:
  Scanned(Op& op, size_t count) : op_(op), lists_(op.heap()) {
    for (size_t i = 0; i < count; ++i) op_.fail(lists_.push(Vec<Ref>(op.heap())));
  }
  void add(size_t i, const Ref& value) { op_.fail(lists_[i].push(value)); }
  const Vec<Ref>& of(size_t i) const { return lists_[i]; }

 private:
  Op& op_;
  Vec<Vec<Ref>> lists_;
};

Words word_list(Op& op, std::string_view key, size_t count) {
  const Words given = op.integers(key);
  if (!given.empty() && given.size() != count) {
    op.fail(ASTER_FAIL(kSHAPE, "'%.*s' has %zu words, %zu are needed", static_cast<int>(key.size()),
                       key.data(), given.size(), count));
  }
  return given;
}

// A Scan of opset 9 on operands that begin at `first`; of one batch element in opset 8.
struct ScanPlan {
  size_t states, scans;
  Words in_axes, in_directions, out_axes, out_directions;
};

Ref selected(Op& op, const Ref& x, int64_t axis, int64_t at) {
  Ref made;
  Graph::Hold hold(op.g);
  const Node y = tensor::select(op.g, x->node(), axis, at);
  op.fail(make_tensor(&made, op.engine(), y, x->element, x->known));
  return made;
}

Vec<Ref> scan_once(Op& op, const ScanPlan& plan, std::span<const Ref> operands,
                   const GraphProto& body) {
  Vec<Ref> results(op.heap()), state(op.heap());
  const size_t outputs = body.outputs.size() - plan.states;
  Scanned scanned(op, outputs);
  for (size_t i = 0; i < plan.states; ++i) op.fail(state.push(operands[i]));
  int64_t turns = -1;
  for (size_t i = 0; i < plan.scans && op.ok(); ++i) {
    const Node x = operands[plan.states + i]->node();
    if (x == nullptr) op.fail(ASTER_FAIL(kDTYPE, "a scan over what is no tensor"));
    if (!op.ok()) return results;
    const size_t axis = op.axis(plan.in_axes.empty() ? 0 : plan.in_axes[i], x->ndim);
    if (op.ok() && turns >= 0 && x->dim(axis) != turns)
      op.fail(ASTER_FAIL(kSHAPE, "scans of %lld and %lld turns", static_cast<long long>(turns),
                         static_cast<long long>(x->dim(axis))));
    if (op.ok()) turns = x->dim(axis);
  }
  for (int64_t turn = 0; turn < turns && op.ok(); ++turn) {
    op.fail(op.run.spend(kPart));
    Vec<Ref> given(op.heap());
    for (const Ref& one : state) op.fail(given.push(one));
    for (size_t i = 0; i < plan.scans && op.ok(); ++i) {
      const bool back = !plan.in_directions.empty() && plan.in_directions[i] != 0;
      op.fail(given.push(selected(op, operands[plan.states + i],
                                  plan.in_axes.empty() ? 0 : plan.in_axes[i],
                                  back ? turns - 1 - turn : turn)));
    }
    if (!op.ok()) return results;
    const Vec<Ref> out = op.body("body", {given.data(), given.size()});
    if (!op.ok()) return results;
    for (size_t i = 0; i < plan.states; ++i) state[i] = out[i];
    for (size_t i = 0; i < outputs; ++i) scanned.add(i, out[plan.states + i]);
  }
  for (const Ref& one : state) op.fail(results.push(one));
  for (size_t i = 0; i < outputs && op.ok(); ++i) {
    const bool back = !plan.out_directions.empty() && plan.out_directions[i] != 0;
    op.fail(results.push(stacked(op, scanned.of(i), plan.out_axes.empty() ? 0 : plan.out_axes[i],
                                 back, body.outputs[plan.states + i])));
  }
  return results;
}

// Opset 8: a batch axis before all, and lengths, which have to be those of the sequences.
void scan_batches(Op& op, ScanPlan plan, const GraphProto& body) {
  Vec<Vec<Ref>> all(op.heap());
  const size_t count = plan.states + plan.scans;
  const Node first = op.in(1);
  if (!op.ok() || first->ndim == 0)
    return op.fail(ASTER_FAIL(kSHAPE, "a scan without a batch axis"));
  const Word batches = first->dim(0);
  plan.in_directions = op.integers("directions");
  for (Word b = 0; b < batches && op.ok(); ++b) {
    op.fail(op.run.spend(kPart));
    Vec<Ref> operands(op.heap());
    for (size_t i = 0; i < count && op.ok(); ++i)
      op.fail(operands.push(selected(op, op.value(i + 1), 0, b)));
    if (!op.ok()) return;
    op.fail(all.push(scan_once(op, plan, {operands.data(), operands.size()}, body)));
  }
  for (size_t i = 0; i < op.results() && op.ok() && batches > 0; ++i) {
    Vec<Ref> of_output(op.heap());
    for (const Vec<Ref>& one : all) op.fail(of_output.push(one[i]));
    op.set(i, stacked(op, of_output, 0, false, body.outputs[i]));
  }
}

}  // namespace

namespace build {

void if_(Op& op) {
  const bool yes = truth(op, op.value(0));
  if (!op.ok()) return;
  const Vec<Ref> out = op.body(yes ? "then_branch" : "else_branch", {});
  if (op.ok() && out.size() < op.results())
    op.fail(ASTER_FAIL(kFORMAT, "a branch of %zu results", out.size()));
  for (size_t i = 0; i < op.results() && op.ok(); ++i) op.set(i, out[i]);
}

void loop(Op& op) {
  const GraphProto* body = graph_of(op, "body");
  const size_t states = op.count() < 2 ? 0 : op.count() - 2;
  if (body == nullptr || body->outputs.size() < states + 1 ||
      body->outputs.size() - 1 < op.results()) {
    return op.fail(ASTER_FAIL(kFORMAT, "a loop whose body does not fit"));
  }
  const int64_t most = op.scalar(0, INT64_MAX);
  bool on = truth(op, op.has(1) ? op.value(1) : Ref());
  const size_t scans = body->outputs.size() - 1 - states;
  Vec<Ref> given(op.heap());
  for (size_t i = 0; i < states + 2; ++i) op.fail(given.push(i < 2 ? Ref() : op.value(i)));
  Scanned scanned(op, scans);
  for (int64_t turn = 0; turn < most && on && op.ok(); ++turn) {
    if (turn == kMostTurns)
      return op.fail(
          ASTER_FAIL(kRANGE, "a loop of more than %lld turns", static_cast<long long>(kMostTurns)));
    op.fail(op.run.spend(kTurn));
    given[0] = whole(op, turn);
    given[1] = flag(op, on);
    if (!op.ok()) return;
    const Vec<Ref> out = op.body("body", {given.data(), given.size()});
    if (!op.ok()) return;
    on = truth(op, out[0]);
    for (size_t i = 0; i < states; ++i) given[2 + i] = out[1 + i];
    for (size_t i = 0; i < scans && op.ok(); ++i) scanned.add(i, out[1 + states + i]);
  }
  for (size_t i = 0; i < op.results() && op.ok(); ++i) {
    op.set(i, i < states ? given[2 + i]
                         : stacked(op, scanned.of(i - states), 0, false, body->outputs[1 + i]));
  }
}

void scan(Op& op) {
  const GraphProto* body = graph_of(op, "body");
  const bool old = op.version < 9;
  const size_t count = op.count() - (old && op.count() != 0 ? 1 : 0);
  const int64_t scans = op.integer("num_scan_inputs", 0);
  if (body == nullptr || scans < 1 || static_cast<size_t>(scans) > count)
    return op.fail(ASTER_FAIL(kFORMAT, "a scan of %lld operands", static_cast<long long>(scans)));
  ScanPlan plan{count - static_cast<size_t>(scans), static_cast<size_t>(scans), {}, {}, {}, {}};
  if (body->outputs.size() < plan.states || body->outputs.size() < op.results())
    return op.fail(ASTER_FAIL(kFORMAT, "a scan whose body does not fit"));
  if (old) return scan_batches(op, plan, *body);
  const size_t outputs = body->outputs.size() - plan.states;
  plan.in_axes = word_list(op, "scan_input_axes", plan.scans);
  plan.in_directions = word_list(op, "scan_input_directions", plan.scans);
  plan.out_axes = word_list(op, "scan_output_axes", outputs);
  plan.out_directions = word_list(op, "scan_output_directions", outputs);
  Vec<Ref> operands(op.heap());
  for (size_t i = 0; i < count; ++i) op.fail(operands.push(op.value(i)));
  if (!op.ok()) return;
  const Vec<Ref> out = scan_once(op, plan, {operands.data(), operands.size()}, *body);
  for (size_t i = 0; i < op.results() && op.ok(); ++i) op.set(i, out[i]);
}

void sequence_map(Op& op) {
  const GraphProto* body = graph_of(op, "body");
  const Ref sequence = op.value(0);
  if (!op.ok()) return;
  if (body == nullptr || sequence->kind != Kind::kSequence || body->outputs.size() < op.results())
    return op.fail(ASTER_FAIL(kFORMAT, "a map over what is no sequence"));
  Vec<Ref> results(op.heap());
  for (size_t i = 0; i < op.results(); ++i) {
    Ref list;
    op.fail(make_value(&list, op.heap(), Kind::kSequence));
    op.fail(results.push(list));
  }
  for (size_t turn = 0; turn < sequence->items.size() && op.ok(); ++turn) {
    op.fail(op.run.spend(kPart));
    Vec<Ref> given(op.heap());
    op.fail(given.push(sequence->items[turn]));
    for (size_t i = 1; i < op.count() && op.ok(); ++i) {
      const Ref other = op.value(i);
      if (!op.ok()) return;
      const bool list = other->kind == Kind::kSequence;
      if (list && turn >= other->items.size())
        return op.fail(ASTER_FAIL(kSHAPE, "sequences of %zu and %zu items", sequence->items.size(),
                                  other->items.size()));
      op.fail(given.push(list ? other->items[turn] : other));
    }
    if (!op.ok()) return;
    const Vec<Ref> out = op.body("body", {given.data(), given.size()});
    for (size_t i = 0; i < op.results() && op.ok(); ++i) op.fail(results[i]->items.push(out[i]));
  }
  for (size_t i = 0; i < op.results() && op.ok(); ++i) op.set(i, results[i]);
}

}  // namespace build
}  // namespace aster::nn::onnx
