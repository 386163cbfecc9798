// Sequences and optionals.
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

// Items that take as long to copy as a node to build.
constexpr size_t kItems = 4;
// Nodes that an item which is a part of a tensor counts as.
constexpr uint64_t kPart = 16;

Ref sequence_in(Op& op, size_t i) {
  const Ref given = op.value(i);
  if (given && given->kind != Kind::kSequence)
    op.fail(ASTER_FAIL(kDTYPE, "operand %zu is no sequence", i));
  return op.ok() ? given : Ref();
}

// A place in a sequence of n items, negative ones from its end.
size_t place(Op& op, int64_t at, size_t n) {
  const auto size = static_cast<int64_t>(n);
  const int64_t from_front = at < 0 ? at + size : at;
  if (op.ok() && (from_front < 0 || from_front >= size))
    op.fail(ASTER_FAIL(kRANGE, "item %lld of %zu", static_cast<long long>(at), n));
  return op.ok() ? static_cast<size_t>(from_front) : 0;
}

Ref part(Op& op, const Ref& x, size_t axis, Word from, Word to, bool keep) {
  Ref made;
  Node y = tensor::cut_axis(op.g, x->node(), axis, from, to);
  const Dims one(1, static_cast<Word>(axis));
  if (!keep && y != nullptr) y = uop::drop_axes(op.g, y, one);
  op.fail(make_tensor(&made, op.engine(), y, x->element, x->known));
  return made;
}

void set_flag(Op& op, bool value) {
  Ref made;
  const Word word = value ? 1 : 0;
  op.fail(make_integers(&made, op.engine(), Words(&word, 1), Words(), DType::kBool));
  op.set(made);
}

}  // namespace

namespace build {

void sequence_empty(Op& op) {
  Ref made;
  op.fail(make_value(&made, op.heap(), Kind::kSequence,
                     static_cast<int32_t>(op.integer("dtype", kFloat))));
  op.set(made);
}

void sequence_construct(Op& op) {
  Ref made;
  op.fail(make_value(&made, op.heap(), Kind::kSequence, op.element(0)));
  for (size_t i = 0; i < op.count() && op.ok(); ++i) op.fail(made->items.push(op.value(i)));
  if (op.ok()) op.set(made);
}

void sequence_insert(Op& op) {
  const Ref given = sequence_in(op, 0), item = op.value(1);
  if (!op.ok()) return;
  const size_t n = given->items.size();
  size_t at = n;
  if (op.has(2)) {
    const int64_t asked = op.scalar(2, 0);
    at = asked == static_cast<int64_t>(n) ? n : place(op, asked, n);
  }
  op.fail(op.run.spend(n / kItems));
  Ref made;
  op.fail(make_value(&made, op.heap(), Kind::kSequence, item->element));
  for (size_t i = 0; i <= n && op.ok(); ++i) {
    if (i == at) op.fail(made->items.push(item));
    if (i < n) op.fail(made->items.push(given->items[i]));
  }
  if (op.ok()) op.set(made);
}

void sequence_erase(Op& op) {
  const Ref given = sequence_in(op, 0);
  if (!op.ok()) return;
  const size_t at = place(op, op.scalar(1, -1), given->items.size());
  op.fail(op.run.spend(given->items.size() / kItems));
  Ref made;
  op.fail(make_value(&made, op.heap(), Kind::kSequence, given->element));
  for (size_t i = 0; i < given->items.size() && op.ok(); ++i) {
    if (i != at) op.fail(made->items.push(given->items[i]));
  }
  if (op.ok()) op.set(made);
}

void sequence_at(Op& op) {
  const Ref given = sequence_in(op, 0);
  if (!op.ok()) return;
  const size_t at = place(op, op.scalar(1, 0), given->items.size());
  if (op.ok()) op.set(given->items[at]);
}

void sequence_length(Op& op) {
  const Ref given = sequence_in(op, 0);
  if (!op.ok()) return;
  const auto n = static_cast<Word>(given->items.size());
  Ref made;
  op.fail(make_integers(&made, op.engine(), Words(&n, 1), Words(), DType::kInt64));
  op.set(made);
}

void split_to_sequence(Op& op) {
  const Ref x = op.value(0);
  const Node node = op.in(0);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", 0), node->ndim);
  if (!op.ok()) return;
  const Word whole = node->dim(axis);
  Words sizes = op.has(1) ? op.ints(1) : Words();
  if (!op.ok()) return;
  const bool scalar = op.has(1) && op.in(1)->ndim == 0,
             keep = op.has(1) || op.integer("keepdims", 1) != 0;
  Ref made;
  op.fail(make_value(&made, op.heap(), Kind::kSequence, x->element));
  const Word each = scalar ? sizes[0] : 1;
  if (each < 1) return op.fail(ASTER_FAIL(kRANGE, "parts of %lld", static_cast<long long>(each)));
  Word at = 0;
  for (size_t i = 0; op.ok() && (op.has(1) && !scalar ? i < sizes.size() : at < whole); ++i) {
    const Word size = op.has(1) && !scalar ? sizes[i] : std::min(each, whole - at);
    op.fail(op.run.spend(kPart));
    if (!op.ok()) return;
    if (size < 0 || size > whole - at)
      return op.fail(ASTER_FAIL(kSHAPE, "%s split beyond its end", uop::brief(node).text));
    op.fail(made->items.push(part(op, x, axis, at, at + size, keep)));
    at += size;
  }
  if (op.ok()) op.set(made);
}

void concat_from_sequence(Op& op) {
  const Ref given = sequence_in(op, 0);
  if (!op.ok()) return;
  Vec<Node> nodes(op.heap());
  for (const Ref& item : given->items) {
    if (item->kind != Kind::kTensor || item->element == kText)
      return op.fail(ASTER_FAIL(kDTYPE, "items that are no tensors of numbers"));
    op.fail(nodes.push(item->node()));
  }
  if (op.ok() && nodes.empty()) op.fail(ASTER_FAIL(kSHAPE, "a sequence without items"));
  if (!op.ok()) return;
  const int64_t axis = op.integer("axis", 0);
  const Nodes all{nodes.data(), nodes.size()};
  op.set(op.integer("new_axis", 0) != 0 ? tensor::stack(op.g, all, axis)
                                        : tensor::cat(op.g, all, axis),
         given->items[0]->element);
}

void optional(Op& op) {
  if (op.has(size_t{0})) return op.set(op.value(0));
  Ref made;
  op.fail(make_value(&made, op.heap(), Kind::kNone));
  op.set(made);
}

void optional_has_element(Op& op) {
  set_flag(op, op.has(size_t{0}) && op.value(0)->kind != Kind::kNone);
}

void optional_get_element(Op& op) {
  const Ref given = op.value(0);
  if (op.ok() && given->kind == Kind::kNone)
    op.fail(ASTER_FAIL(kARGUMENT, "an optional without a value"));
  if (op.ok()) op.set(given);
}

}  // namespace build
}  // namespace aster::nn::onnx
