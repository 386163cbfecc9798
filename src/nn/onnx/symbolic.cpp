#include "nn/onnx/symbolic.h"

#include <algorithm>

#include "aster_ml/linalg.h"
#include "aster_ml/spatial.h"
#include "engine/engine.h"
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {

using tensor::is_bound;
using tensor::Sizes;
namespace sized = tensor::sized;
namespace sym = uop::sym;

bool is_symbolic(const Value& value) {
  if (value.kind != Kind::kTensor || value.element == kText) return false;
  return !value.sizes.empty() || value.cell.cell().sized != nullptr;
}

Status make_symbolic(Ref* out, engine::Engine& engine, DType dtype, int32_t element,
                     const Sizes& sizes) {
  const aster_ml_context context = engine.context.inner_handle();
  std::array<aster_ml_dim, Sizes::kMost> dims{};
  for (size_t i = 0; i < sizes.size(); ++i)
    dims[i].expression = reinterpret_cast<const aster_ml_uop*>(sizes[i]);
  aster_ml_lazy made{};
  ASTER_TRY(Status{aster_ml_lazy_empty_dims(&made, &context, static_cast<int32_t>(dtype),
                                            sizes.size(), dims.data())});
  Shared cell;
  ASTER_TRY(Shared::take(&cell, tensor::cell(&made), false));
  ASTER_TRY(make_value(out, engine.context.heap(), Kind::kTensor, element));
  (*out)->cell = std::move(cell);
  return kOk;
}

namespace {

void refuse(Op& op, const char* why) {
  op.fail(ASTER_FAIL(kUNSUPPORTED, "sizes that are variables: %s", why));
}

Sizes sizes_of(Op& op, size_t i) {
  Sizes out;
  const Ref given = op.value(i);
  if (op.ok()) op.fail(sized::sizes_of(&out, op.g, given->cell.cell()));
  if (!op.ok()) out.count = 0;
  return out;
}

// ---- Results ----

void take(Op& op, size_t i, aster_ml_lazy* made, int32_t element) {
  if (!op.ok()) return;
  Ref value;
  Shared cell;
  op.fail(Shared::take(&cell, tensor::cell(made), false));
  if (op.ok()) op.fail(make_value(&value, op.heap(), Kind::kTensor, element));
  if (!op.ok()) return;
  value->cell = std::move(cell);
  if (element == 0) value->element = element_of(value->node()->dtype);
  op.set(i, value);
}

// A whole tensor of which sizes are meant.
void give(Op& op, size_t i, Node whole, const Sizes& sizes, int32_t element) {
  if (!op.ok()) return;
  if (whole == nullptr) return op.fail(last_failure());
  if (!sized::any_bound(sizes)) return op.set(i, whole, element);
  const aster_ml_context context = op.engine().context.inner_handle();
  aster_ml_lazy made{};
  {
    tensor::Build build(&made, &context);
    op.fail(build.status());
    if (op.ok()) op.fail(build.finish(tensor::strong(op.g, whole), sizes));
  }
  take(op, i, &made, element);
}

// What a public function makes of a handle, one after another.
class Chain {
 public:
  Chain(Op& op, size_t operand) : op_(op), element_(op.element(operand)) {
    const Ref given = op.value(operand);
    if (op.ok()) now_ = given->cell.handle();
  }
  ~Chain() { drop(); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  const aster_ml_lazy* now() const { return &now_; }
  template <typename F>
  void apply(F f) {
    if (!op_.ok()) return;
    aster_ml_lazy next{};
    op_.fail(Status{f(&next, &now_)});
    drop();
    now_ = next;
    owned_ = true;
  }
  void finish(size_t i = 0) {
    if (!op_.ok()) return;
    if (!owned_) return op_.set(i, op_.value(0));
    owned_ = false;
    take(op_, i, &now_, element_);
  }

 private:
  void drop() {
    if (owned_) aster_ml_lazy_free(&now_);
    owned_ = false;
  }
  Op& op_;
  aster_ml_lazy now_{};
  bool owned_ = false;
  int32_t element_;
};

aster_ml_dim dim_of(Node size) { return {0, reinterpret_cast<const aster_ml_uop*>(size)}; }
std::array<aster_ml_dim, Sizes::kMost> dims_of(const Sizes& sizes) {
  std::array<aster_ml_dim, Sizes::kMost> out{};
  for (size_t i = 0; i < sizes.size(); ++i) {
    out[i] =
        is_bound(sizes[i]) ? dim_of(sizes[i]) : aster_ml_dim{uop::const_int(sizes[i]), nullptr};
  }
  return out;
}

// The first operand by a function that takes sizes.
template <typename Function>
void give_sized(Op& op, const Sizes& to, Function function) {
  const auto dims = dims_of(to);
  Chain x(op, 0);
  x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
    return function(out, in, to.size(), dims.data());
  });
  x.finish();
}

// ---- Integers that are made of sizes ----

using Elements = Vec<Node>;

// The elements of a list of integers, or of a single one.
Elements elements(Op& op, size_t i) {
  Elements out(op.heap());
  const Ref given = op.value(i);
  if (!op.ok()) return out;
  if (!given->sizes.empty()) {
    op.fail(out.append(given->sizes.data(), given->sizes.size()));
    return out;
  }
  if (!given->known) return refuse(op, "integers that are not known"), std::move(out);
  for (const Word word : op.ints(i)) op.fail(out.push(op.g.index(word)));
  return out;
}
Sizes listed(Op& op, size_t i) {
  const Elements all = elements(op, i);
  Sizes out;
  if (op.ok() && all.size() > Sizes::kMost) refuse(op, "too many axes");
  for (size_t k = 0; op.ok() && k < all.size(); ++k) out.push(all[k]);
  return out;
}
bool is_list(Op& op, size_t i) { return op.has(i) && !op.value(i)->sizes.empty(); }

void give_list(Op& op, const Elements& all, bool single, DType dtype = DType::kInt64) {
  Vec<Word> now(op.heap());
  for (const Node each : all) {
    int64_t value = 0;
    if (op.ok() && each == nullptr) op.fail(last_failure());
    if (op.ok()) op.fail(op.engine().symbols.value_of(&value, each));
    if (op.ok()) op.fail(now.push(value));
  }
  if (!op.ok()) return;
  const Word count = static_cast<Word>(all.size());
  Ref made;
  op.fail(make_integers(&made, op.engine(), {now.data(), now.size()},
                        single ? Words() : Words(&count, 1), dtype));
  if (op.ok() && std::ranges::any_of(all, is_bound))
    op.fail(made->sizes.append(all.data(), all.size()));
  op.set(made);
}

size_t rank_of(Op& op, size_t i) {
  const Node node = op.value(i)->node();
  return node == nullptr ? 0 : node->ndim;
}

void shape_rule(Op& op, const Row&) {
  if (is_list(op, 0)) {  // of a list that is a tensor like any
    const Word ndim = static_cast<Word>(rank_of(op, 0));
    Elements out(op.heap());
    if (ndim == 1) op.fail(out.push(op.g.index(static_cast<Word>(op.value(0)->sizes.size()))));
    return give_list(op, out, false);
  }
  const Sizes all = sizes_of(op, 0);
  const auto n = static_cast<int64_t>(all.size());
  const auto bound = [&](int64_t at) { return std::clamp(at < 0 ? at + n : at, int64_t{0}, n); };
  Elements out(op.heap());
  for (int64_t i = bound(op.integer("start", 0)); i < bound(op.integer("end", n)); ++i)
    op.fail(out.push(all[static_cast<size_t>(i)]));
  give_list(op, out, false);
}

void size_rule(Op& op, const Row&) {
  Node count = op.g.index(1);
  const Sizes all = sizes_of(op, 0);
  for (size_t i = 0; i < all.size(); ++i) count = sym::mul(op.g, count, all[i]);
  Elements out(op.heap());
  op.fail(out.push(count));
  give_list(op, out, true);
}

using Arithmetic = Node (*)(Graph& g, Node a, Node b);
bool arithmetic(Op& op, Arithmetic f) {
  const Elements a = elements(op, 0), b = elements(op, 1);
  if (!op.ok()) return true;
  const size_t count = std::max(a.size(), b.size());
  if ((a.size() != count && a.size() != 1) || (b.size() != count && b.size() != 1))
    return refuse(op, "lists of unequal lengths"), true;
  Elements out(op.heap());
  for (size_t i = 0; i < count; ++i)
    op.fail(out.push(f(op.g, a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i])));
  give_list(op, out, rank_of(op, 0) == 0 && rank_of(op, 1) == 0, op.value(0)->node()->dtype);
  return true;
}

// Integers are divided towards zero in ONNX: the same where nothing is negative.
Node divide(Graph& g, Node a, Node b) {
  const bool positive = a != nullptr && b != nullptr && a->vmin >= 0 && b->vmin > 0;
  return positive ? sym::floordiv(g, a, b) : nullptr;
}

// Whether all of the first operands are lists, or numbers that may be elements of some.
bool all_lists(Op& op, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (is_list(op, i)) continue;
    if (!op.has(i) || !op.value(i)->known || op.value(i)->element == kText || rank_of(op, i) > 1 ||
        dtype::is_float(op.value(i)->node()->dtype))
      return false;
  }
  return true;
}

// The elements of a list as a tensor that is computed from the variables.
Node tensor_of_list(Op& op, const Value& list) {
  const DType dtype = list.node()->dtype;
  Elements parts(op.heap());
  const Word one = 1;
  for (const Node size : list.sizes) {
    Node part = nullptr;
    if (is_bound(size)) {
      op.fail(op.engine().symbols.tensor_of(&part, size));
    } else {
      part = op.g.constant_int(dtype, uop::const_int(size));
    }
    if (!op.ok()) return nullptr;
    op.fail(parts.push(op.g.reshape(op.g.cast(part, dtype), Words(&one, 1))));
  }
  if (!op.ok()) return nullptr;
  const Node all = parts.size() == 1 ? parts[0] : op.g.cat({parts.data(), parts.size()}, 0);
  return op.g.reshape(all, list.node()->shape());
}

// An operand that is a list as a tensor like any: what is computed of it differs from run to run.
void as_tensor(Op& op, size_t i) {
  if (!op.ok() || !is_list(op, i)) return;
  const Ref given = op.value(i);
  const Node node = tensor_of_list(op, *given);
  Ref made;
  if (op.ok()) op.fail(make_tensor(&made, op.engine(), node, given->element, false));
  if (op.ok()) op.replace(i, made);
}

bool arithmetic_of_lists(Op& op) {
  if ((!is_list(op, 0) && !is_list(op, 1)) || !all_lists(op, 2)) return false;
  const std::string_view name = op.proto.op;
  if (name == "Add") return arithmetic(op, sym::add);
  if (name == "Sub") return arithmetic(op, sym::sub);
  if (name == "Mul") return arithmetic(op, sym::mul);
  if (name == "Div") return arithmetic(op, divide);
  if (name == "Min" && op.count() == 2) return arithmetic(op, sym::min);
  if (name == "Max" && op.count() == 2) return arithmetic(op, sym::max);
  return false;
}

// Comparisons that come out the same for all values of the variables.
void equal_lists(Op& op) {
  const Elements a = elements(op, 0), b = elements(op, 1);
  const size_t count = std::max(a.size(), b.size());
  Elements out(op.heap());
  for (size_t i = 0; op.ok() && i < count; ++i) {
    if (a.empty() || b.empty()) return refuse(op, "lists of unequal lengths");
    const Node x = a[a.size() == 1 ? 0 : std::min(i, a.size() - 1)],
               y = b[b.size() == 1 ? 0 : std::min(i, b.size() - 1)];
    const bool never = x->vmax < y->vmin || y->vmax < x->vmin;
    if (x != y && !never) return refuse(op, "whether they are equal depends on them");
    op.fail(out.push(op.g.index(x == y ? 1 : 0)));
  }
  give_list(op, out, rank_of(op, 0) == 0 && rank_of(op, 1) == 0, DType::kBool);
}

void where_lists(Op& op) {
  const Elements on = elements(op, 0), a = elements(op, 1), b = elements(op, 2);
  const size_t count = std::max({on.size(), a.size(), b.size()});
  const auto at = [](const Elements& all, size_t i) { return all[all.size() == 1 ? 0 : i]; };
  for (const Elements* each : {&on, &a, &b}) {
    if (op.ok() && each->size() != count && each->size() != 1)
      return refuse(op, "lists of unequal lengths");
  }
  Elements out(op.heap());
  for (size_t i = 0; op.ok() && i < count; ++i) {
    if (is_bound(at(on, i))) return refuse(op, "a condition that depends on them");
    op.fail(out.push(uop::const_int(at(on, i)) != 0 ? at(a, i) : at(b, i)));
  }
  const bool single = rank_of(op, 0) == 0 && rank_of(op, 1) == 0 && rank_of(op, 2) == 0;
  give_list(op, out, single, op.value(1)->node()->dtype);
}

// ---- Element by element, and beside axes ----

// Builds on the whole tensors by the operator's own builder, which looks along none of the axes
// that are variables'.
void on_wholes(Op& op, const Row& row) {
  if (arithmetic_of_lists(op)) return;
  std::array<Sizes, 8> sizes;
  std::array<Node, 8> wholes{};
  std::array<size_t, 8> places{};
  size_t count = 0;
  for (size_t i = 0; i < op.count() && op.ok(); ++i) {
    if (!op.has(i)) continue;
    as_tensor(op, i);
    if (!op.ok()) return;
    const Ref given = op.value(i);
    if (count == sizes.size()) return refuse(op, "too many operands");
    if (given->kind != Kind::kTensor || given->element == kText)
      return refuse(op, "operands that are no tensors");
    sizes[count] = sizes_of(op, i);
    wholes[count] = engine::whole_of(&given->cell.cell())->node;
    places[count++] = i;
  }
  Sizes out;
  if (!op.ok()) return;
  if (!sized::align(&out, wholes.data(), op.g, {sizes.data(), count}, 0))
    return refuse(op, "they do not go together");
  op.show({wholes.data(), count}, {places.data(), count});
  row.build(op);
  op.show({}, {});
  for (size_t i = 0; i < op.results() && op.ok(); ++i) {
    const Ref made = op.result(i);
    if (!made) continue;
    const Node y = made->node();
    const int32_t element = made->element;
    Sizes result;
    for (size_t k = 0; k < y->ndim; ++k) {
      const bool variable = k < out.size() && is_bound(out[k]) && y->dim(k) != 1;
      result.push(variable ? out[k] : op.g.index(y->dim(k)));
    }
    give(op, i, y, result, element);
  }
}

// Sums that go on from element to element; what lies beyond a size is behind all that is inside.
void cum_sum_rule(Op& op, const Row& row) {
  const Sizes sizes = sizes_of(op, 0);
  const size_t axis = op.axis(op.scalar(1, 0), sizes.size());
  if (!op.ok()) return;
  if (is_bound(sizes[axis]) && op.integer("reverse", 0) != 0)
    return refuse(op, "an axis that is summed from its end");
  on_wholes(op, row);
}

// The axes of operand 0 from first on.
bool numbers_from(Op& op, size_t first) {
  const Sizes sizes = sizes_of(op, 0);
  for (size_t i = first; i < sizes.size(); ++i) {
    if (is_bound(sizes[i])) return refuse(op, "an axis that is looked along"), false;
  }
  return op.ok();
}

void by_channel_rule(Op& op, const Row& row) {
  const Sizes sizes = sizes_of(op, 0);
  const bool normalises = op.proto.op == "BatchNormalization";
  if (op.integer("training_mode", 0) != 0 ||
      (normalises && op.version < 7 && op.integer("is_test", 0) == 0))
    return refuse(op, "training");
  if (normalises && op.version < 9 && op.integer("spatial", 1) == 0)
    return refuse(op, "statistics of elements");
  if (op.ok() && (sizes.size() < 2 || is_bound(sizes[1]))) return refuse(op, "channels");
  // Weights lie along axis 1, not the last.
  if (!op.ok()) return;
  const Ref x = op.value(0);
  Node whole = engine::whole_of(&x->cell.cell())->node;
  const size_t first = 0;
  op.show({&whole, 1}, {&first, 1});
  row.build(op);
  op.show({}, {});
  if (op.ok() && op.result(0)) give(op, 0, op.result(0)->node(), sizes, op.result(0)->element);
}

void layer_norm_rule(Op& op, const Row& row) {
  const size_t axis = op.axis(op.integer("axis", -1), rank_of(op, 0));
  if (op.ok() && numbers_from(op, axis)) on_wholes(op, row);
}

void spatial_rule(Op& op, const Row& row) {  // instance normalisation, global pools
  if (numbers_from(op, 2)) by_channel_rule(op, row);
}

void global_pool_rule(Op& op, const Row& row) {
  if (!numbers_from(op, 2)) return;
  on_wholes(op, row);
}

// Builds on whole operands, of which one axis alone is a variable's: batch, of operand 0; of others
// that have one it is the same. What is computed along it knows nothing of its neighbours. at:
// which axis of each result it is.
void build_apart(Op& op, const Row& row, size_t batch, std::span<const size_t> at) {
  std::array<Node, 8> wholes{};
  std::array<size_t, 8> places{};
  size_t count = 0;
  Node size = nullptr;
  Word most = 0;
  for (size_t i = 0; i < op.count() && op.ok(); ++i) {
    if (!op.has(i)) continue;
    const Sizes sizes = sizes_of(op, i);
    if (!op.ok() || !sized::any_bound(sizes)) continue;
    const Node whole = engine::whole_of(&op.value(i)->cell.cell())->node;
    if (i == 0) size = sizes[batch], most = whole->dim(batch);
    for (size_t k = 0; k < sizes.size(); ++k) {
      const bool own = i != 0 || k == batch;
      if (is_bound(sizes[k]) && (!own || sizes[k] != size || whole->dim(k) != most))
        return refuse(op, "an axis that is looked along");
    }
    if (count == wholes.size()) return refuse(op, "too many operands");
    wholes[count] = whole;
    places[count++] = i;
  }
  if (size == nullptr || !is_bound(size)) return refuse(op, "an operand");
  if (!op.ok()) return;
  op.show({wholes.data(), count}, {places.data(), count});
  row.build(op);
  op.show({}, {});
  for (size_t i = 0; i < std::min(op.results(), at.size()) && op.ok(); ++i) {
    const Ref made = op.result(i);
    if (!made) continue;
    const Node y = made->node();
    Sizes result;
    for (size_t k = 0; k < y->ndim; ++k) result.push(k == at[i] ? size : op.g.index(y->dim(k)));
    give(op, i, y, result, made->element);
  }
}

void conv_transpose_rule(Op& op, const Row& row) {
  constexpr size_t kBatch[] = {0};
  if (numbers_from(op, 1)) build_apart(op, row, 0, kBatch);
}

void recurrent_rule(Op& op, const Row& row) {
  constexpr size_t kBatch[] = {2, 1, 1};
  if (op.integer("layout", 0) != 0) return refuse(op, "the batch before the steps");
  if (op.has(4)) return refuse(op, "lengths of sequences");
  build_apart(op, row, 1, kBatch);
}

void top_k_rule(Op& op, const Row& row) {
  const Sizes sizes = sizes_of(op, 0);
  if (!op.ok()) return;
  const size_t axis = op.axis(op.integer("axis", -1), sizes.size());
  if (op.ok() && is_bound(sizes[axis])) return refuse(op, "an axis that is looked along");
  on_wholes(op, row);
}

// The least and the greatest are those of 0 as well, which stands beyond the sizes.
void dynamic_quantize_rule(Op& op, const Row& row) {
  const Sizes sizes = sizes_of(op, 0);
  if (!op.ok()) return;
  Node whole = engine::whole_of(&op.value(0)->cell.cell())->node;
  const aster_ml_context context = op.engine().context.inner_handle();
  aster_ml_lazy unused{};
  {
    tensor::Build build(&unused, &context);
    op.fail(build.status());
    if (op.ok())
      op.fail(sized::masked(&whole, build, whole, sizes, sized::all_axes(sizes.size()),
                            sized::Fill::kZero));
  }
  if (!op.ok()) return;
  const size_t first = 0;
  op.show({&whole, 1}, {&first, 1});
  row.build(op);
  op.show({}, {});
  if (op.ok() && op.result(0)) give(op, 0, op.result(0)->node(), sizes, op.result(0)->element);
}

void softmax_rule(Op& op, const Row& row) {
  const Sizes sizes = sizes_of(op, 0);
  const bool old = op.version < 13;
  const size_t axis = op.axis(op.integer("axis", old ? 1 : -1), sizes.size());
  if (!op.ok()) return;
  if (old && axis + 1 != sizes.size()) return refuse(op, "several axes as one");
  Chain x(op, 0);
  const auto at = static_cast<int64_t>(axis);
  if (!is_bound(sizes[axis]) && !old) return on_wholes(op, row);
  const bool log = op.proto.op == "LogSoftmax";
  x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
    return log ? aster_ml_lazy_log_softmax(out, in, at) : aster_ml_lazy_softmax(out, in, at);
  });
  x.finish();
}

using Reduction = int32_t (*)(aster_ml_lazy*, const aster_ml_lazy*, size_t, const int64_t*,
                              int32_t);
void reduce_rule(Op& op, const Row&) {
  const std::string_view name = op.proto.op;
  const Reduction f = name == "ReduceSum"    ? aster_ml_lazy_sum
                      : name == "ReduceMean" ? aster_ml_lazy_mean
                      : name == "ReduceMax"  ? aster_ml_lazy_max
                                             : aster_ml_lazy_min;
  const Ref given = op.value(0);
  const size_t ndim = rank_of(op, 0);
  const Words listed = op.axes(1, name == "ReduceSum" ? 13 : 18);
  if (!op.ok()) return;
  if (!dtype::is_float(given->node()->dtype)) return refuse(op, "a reduction of integers");
  if (listed.empty() && op.integer("noop_with_empty_axes", 0) != 0) return op.set(given);
  const Dims axes = listed.empty() ? sized::all_axes(ndim) : op.resolved(listed, ndim);
  Chain x(op, 0);
  x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
    return f(out, in, axes.size(), axes.at, op.integer("keepdims", 1) != 0 ? 1 : 0);
  });
  x.finish();
}

// ---- Shapes ----

void identity_rule(Op& op, const Row&) { op.set(op.value(0)); }

void dropout_rule(Op& op, const Row&) {
  if (op.version < 7 || op.has(2) || op.wants(1)) return refuse(op, "training");
  op.set(op.value(0));
}

void cast_rule(Op& op, const Row& row) {
  if (!is_list(op, 0)) return on_wholes(op, row);
  const auto to = static_cast<int32_t>(op.integer("to", 0));
  if (to != kInt64 && to != kInt32) return on_wholes(op, row);
  give_list(op, elements(op, 0), rank_of(op, 0) == 0, to == kInt64 ? DType::kInt64 : DType::kInt32);
}

void reshape_rule(Op& op, const Row&) {
  if (is_list(op, 0)) {
    const Sizes to = listed(op, 1);
    const size_t count = op.value(0)->sizes.size();
    if (op.ok() && to.size() == 0 && count != 1) return refuse(op, "a list as one");
    if (to.size() < 2)
      return give_list(op, elements(op, 0), to.size() == 0, op.value(0)->node()->dtype);
    as_tensor(op, 0);
    if (!op.ok()) return;
  }
  const Sizes from = sizes_of(op, 0);
  Sizes to = listed(op, 1);
  const bool zero = op.integer("allowzero", 0) != 0;
  for (size_t i = 0; op.ok() && i < to.size(); ++i) {
    const bool same = !is_bound(to[i]) && uop::const_int(to[i]) == 0 && !zero;
    if (same && i >= from.size()) return refuse(op, "an axis that is not there");
    if (same) to[i] = from[i];
  }
  if (!op.ok()) return;
  give_sized(op, to, aster_ml_lazy_reshape_dims);
}

void flatten_rule(Op& op, const Row&) {
  const Sizes from = sizes_of(op, 0);
  int64_t axis = op.integer("axis", 1);
  if (axis < 0) axis += static_cast<int64_t>(from.size());
  if (!op.ok()) return;
  if (axis < 0 || axis > static_cast<int64_t>(from.size())) return refuse(op, "that axis");
  Sizes to;
  to.push(op.g.index(1));
  to.push(op.g.index(1));
  for (size_t i = 0; i < from.size(); ++i) {
    Node& part = to[static_cast<int64_t>(i) < axis ? 0 : 1];
    part = sym::mul(op.g, part, from[i]);
    if (part == nullptr) return op.fail(last_failure());
  }
  const auto dims = dims_of(to);
  Chain x(op, 0);
  x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
    return aster_ml_lazy_reshape_dims(out, in, 2, dims.data());
  });
  x.finish();
}

void transpose_rule(Op& op, const Row&) {
  Dims order(op.integers("perm"));
  if (!op.has("perm")) {
    for (size_t i = rank_of(op, 0); i-- > 0;) order.push(static_cast<Word>(i));
  }
  Chain x(op, 0);
  x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
    return aster_ml_lazy_permute(out, in, order.size(), order.at);
  });
  x.finish();
}

void unsqueeze_rule(Op& op, const Row&) {
  const Words given = op.axes(1, 13);
  if (is_list(op, 0) && rank_of(op, 0) == 0 && given.size() == 1)
    return give_list(op, elements(op, 0), false, op.value(0)->node()->dtype);
  as_tensor(op, 0);
  if (!op.ok()) return;
  const Dims axes = op.resolved(given, rank_of(op, 0) + given.size());
  Chain x(op, 0);
  for (const Word axis : words_of(axes)) {
    x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
      return aster_ml_lazy_unsqueeze(out, in, axis);
    });
  }
  x.finish();
}

void squeeze_rule(Op& op, const Row&) {
  const Words given = op.axes(1, 13);
  if (is_list(op, 0)) {
    if (op.value(0)->sizes.size() != 1) return refuse(op, "a list as one");
    return give_list(op, elements(op, 0), true, op.value(0)->node()->dtype);
  }
  const Sizes sizes = sizes_of(op, 0);
  if (op.ok() && given.empty()) return refuse(op, "axes that are not named");
  const Dims axes = op.resolved(given, sizes.size());
  Chain x(op, 0);
  for (size_t i = axes.size(); i-- > 0 && op.ok();) {
    const Node size = sizes[static_cast<size_t>(axes[i])];
    if (is_bound(size) || uop::const_int(size) != 1) return refuse(op, "an axis that goes");
    x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
      return aster_ml_lazy_squeeze(out, in, axes[i]);
    });
  }
  x.finish();
}

void concat_rule(Op& op, const Row&) {
  bool lists = false;
  for (size_t i = 0; i < op.count(); ++i) lists = lists || is_list(op, i);
  if (lists && !all_lists(op, op.count())) {
    for (size_t i = 0; i < op.count(); ++i) as_tensor(op, i);
    if (!op.ok()) return;
  } else if (lists) {
    Elements out(op.heap());
    for (size_t i = 0; i < op.count() && op.ok(); ++i) {
      const Elements part = elements(op, i);
      op.fail(out.append(part.data(), part.size()));
    }
    return give_list(op, out, false, op.value(0)->node()->dtype);
  }
  constexpr size_t kMost = 64;
  std::array<aster_ml_lazy, kMost> handles{};
  std::array<const aster_ml_lazy*, kMost> all{};
  if (op.count() > kMost) return refuse(op, "many tensors joined");
  for (size_t i = 0; i < op.count(); ++i) {
    const Ref given = op.value(i);
    if (!op.ok()) return;
    handles[i] = given->cell.handle();
    all[i] = &handles[i];
  }
  Chain x(op, 0);
  x.apply([&](aster_ml_lazy* out, const aster_ml_lazy*) {
    return aster_ml_lazy_cat(out, all.data(), op.count(), op.integer("axis", 1));
  });
  x.finish();
}

// x from begin to end along an axis.
void cut(Op& op, size_t result, const Sizes& sizes, size_t axis, Node begin, Node end) {
  Sizes from, to(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) from.push(op.g.index(0));
  from[axis] = begin;
  to[axis] = end;
  const auto first = dims_of(from), last = dims_of(to);
  Chain x(op, 0);
  x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
    return aster_ml_lazy_shrink_dims(out, in, sizes.size(), first.data(), last.data());
  });
  x.finish(result);
}

void split_rule(Op& op, const Row&) {
  const Sizes sizes = sizes_of(op, 0);
  const size_t axis = op.axis(op.integer("axis", 0), sizes.size());
  const Words given = op.has(1) ? op.ints(1) : op.integers("split");
  if (!op.ok()) return;
  if (is_bound(sizes[axis])) return refuse(op, "an axis that is split");
  const Word whole = uop::const_int(sizes[axis]), count = static_cast<Word>(op.results()),
             each = count == 0 ? 0 : (whole + count - 1) / count;
  Word at = 0;
  for (Word i = 0; i < count && op.ok(); ++i) {
    const Word size = given.empty() ? std::clamp(whole - i * each, Word{0}, each)
                      : i < static_cast<Word>(given.size()) ? given[static_cast<size_t>(i)]
                                                            : 0;
    if (size < 0 || size > whole - at) return op.fail(ASTER_FAIL(kSHAPE, "parts of another sum"));
    cut(op, static_cast<size_t>(i), sizes, axis, op.g.index(at), op.g.index(at + size));
    at += size;
  }
  if (op.ok() && at != whole) op.fail(ASTER_FAIL(kSHAPE, "parts of another sum"));
}

// A position as Slice has it, beside an axis of some size: negative from the end, cut to the axis.
Node position(Op& op, Node at, Node size) {
  if (at == nullptr || size == nullptr) return nullptr;
  if (at == size) return size;
  if (is_bound(at)) return at->vmin < 0 ? nullptr : sym::min(op.g, at, size);
  const Word now = uop::const_int(at);
  if (now < 0) {
    if (now <= -(Word{1} << 40)) return op.g.index(0);
    return sym::max(op.g, sym::add(op.g, size, now), op.g.index(0));
  }
  if (now <= size->vmin) return at;
  return now >= size->vmax ? size : sym::min(op.g, at, size);
}

void slice_rule(Op& op, const Row&) {
  if (op.version < 10) return refuse(op, "opsets before 10");
  const Elements starts = elements(op, 1), ends = elements(op, 2);
  const Words given = op.has(3) ? op.ints(3) : Words();
  const Words steps = op.has(4) ? op.ints(4) : Words();
  if (!op.ok()) return;
  if (std::ranges::any_of(steps, [](Word step) { return step != 1; })) return refuse(op, "steps");
  if (starts.size() != ends.size() || (!given.empty() && given.size() != starts.size()))
    return refuse(op, "lists of unequal lengths");
  if (is_list(op, 0)) {
    const Elements all = elements(op, 0);
    if (starts.size() != 1 || is_bound(starts[0]) || is_bound(ends[0])) return refuse(op, "a part");
    const Node size = op.g.index(static_cast<Word>(all.size()));
    const Word from = uop::const_int(position(op, starts[0], size)),
               to = uop::const_int(position(op, ends[0], size));
    Elements out(op.heap());
    for (Word i = from; i < to; ++i) op.fail(out.push(all[static_cast<size_t>(i)]));
    return give_list(op, out, false, op.value(0)->node()->dtype);
  }
  const Sizes sizes = sizes_of(op, 0);
  Sizes from, to(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) from.push(op.g.index(0));
  for (size_t i = 0; i < starts.size() && op.ok(); ++i) {
    const size_t axis = op.axis(given.empty() ? static_cast<int64_t>(i) : given[i], sizes.size());
    if (!op.ok()) return;
    from[axis] = position(op, starts[i], sizes[axis]);
    to[axis] = position(op, ends[i], sizes[axis]);
    if (from[axis] == nullptr || to[axis] == nullptr) return refuse(op, "a part");
  }
  const auto first = dims_of(from), last = dims_of(to);
  Chain x(op, 0);
  x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
    return aster_ml_lazy_shrink_dims(out, in, sizes.size(), first.data(), last.data());
  });
  x.finish();
}

void gather_rule(Op& op, const Row& row) {
  const size_t ndim = rank_of(op, 0);
  const size_t axis = op.axis(op.integer("axis", 0), ndim);
  if (!op.ok()) return;
  as_tensor(op, 1);
  if (op.ok() && !op.value(1)->known) as_tensor(op, 0);
  if (!op.ok()) return;
  if (is_list(op, 0)) {
    const Elements all = elements(op, 0);
    const Words at = op.ints(1);
    Elements out(op.heap());
    for (Word i : at) {
      if (i < 0) i += static_cast<Word>(all.size());
      if (i < 0 || i >= static_cast<Word>(all.size())) return refuse(op, "an element");
      op.fail(out.push(all[static_cast<size_t>(i)]));
    }
    return give_list(op, out, op.ok() && rank_of(op, 1) == 0, op.value(0)->node()->dtype);
  }
  const Sizes x = sizes_of(op, 0), at = sizes_of(op, 1);
  if (!op.ok()) return;
  const bool single = at.size() == 0 && op.value(1)->known;
  if (single) {
    const int64_t one = op.scalar(1, 0);
    Chain chain(op, 0);
    if (!is_bound(x[axis]) || one >= 0) {
      chain.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
        return aster_ml_lazy_select(out, in, static_cast<int64_t>(axis), one);
      });
    } else {  // from the end of an axis that is a variable's
      const aster_ml_dim place = dim_of(sym::add(op.g, x[axis], one));
      chain.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
        return aster_ml_lazy_select_dims(out, in, static_cast<int64_t>(axis), &place);
      });
    }
    return chain.finish();
  }
  if (is_bound(x[axis])) return refuse(op, "elements of an axis");
  Sizes out;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i != axis) out.push(x[i]);
    for (size_t k = 0; i == axis && k < at.size(); ++k) out.push(at[k]);
  }
  const std::array<size_t, 2> places{0, 1};
  const std::array<Node, 2> wholes{engine::whole_of(&op.value(0)->cell.cell())->node,
                                   engine::whole_of(&op.value(1)->cell.cell())->node};
  op.show(wholes, places);
  row.build(op);
  op.show({}, {});
  if (op.ok() && op.result(0)) give(op, 0, op.result(0)->node(), out, op.element(0));
}

void expand_rule(Op& op, const Row&) {
  as_tensor(op, 0);
  const Sizes from = sizes_of(op, 0), asked = listed(op, 1);
  if (!op.ok()) return;
  Sizes to;
  const size_t ndim = std::max(from.size(), asked.size());
  for (size_t i = 0; i < ndim; ++i) {
    const Node one = op.g.index(1);
    const Node a = i + from.size() < ndim ? one : from[i + from.size() - ndim],
               b = i + asked.size() < ndim ? one : asked[i + asked.size() - ndim];
    if (a != b && a != one && b != one) return refuse(op, "they do not go together");
    to.push(a == one ? b : a);
  }
  give_sized(op, to, aster_ml_lazy_expand_dims);
}

void constant_of_shape_rule(Op& op, const Row&) {
  const Sizes sizes = listed(op, 0);
  const Ref value = op.tensor("value");
  if (!op.ok()) return;
  Node one = value ? value->node() : op.g.constant(DType::kFloat32, 0);
  if (one == nullptr || one->count() != 1) return refuse(op, "a constant of more than one value");
  one = op.g.reshape(one, Words());
  give(op, 0, uop::broadcast_to(op.g, one, sized::most_of(sizes)), sizes,
       value ? value->element : static_cast<int32_t>(kFloat));
}

void range_rule(Op& op, const Row&) {
  const Sizes start = listed(op, 0), stop = listed(op, 1), step = listed(op, 2);
  if (!op.ok()) return;
  const bool plain =
      start.size() == 1 && stop.size() == 1 && step.size() == 1 && step[0] == op.g.index(1);
  if (!plain) return refuse(op, "a range of other steps than 1");
  Sizes count;
  count.push(sym::sub(op.g, stop[0], start[0]));
  if (count[0] == nullptr) return op.fail(last_failure());
  if (count[0]->vmin < 0) return refuse(op, "a range that may end before it begins");
  Node all = op.g.iota(DType::kInt64, count[0]->vmax), from = start[0];
  if (is_bound(from)) op.fail(op.engine().symbols.tensor_of(&from, from));
  if (!op.ok() || all == nullptr) return op.fail(last_failure());
  from = uop::broadcast_to(op.g, op.g.cast(from, DType::kInt64), all->shape());
  all = op.g.alu(uop::Op::kAdd, all, from);
  give(op, 0, all == nullptr ? all : op.g.cast(all, op.value(1)->node()->dtype), count,
       op.element(1));
  if (is_bound(start[0]) && op.ok() && op.result(0)) op.result(0)->known = false;
}

// ---- Products and windows ----

void matmul_rule(Op& op, const Row&) {
  const Ref b = op.value(1);
  if (!op.ok()) return;
  const aster_ml_lazy right = b->cell.handle();
  Chain x(op, 0);
  x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
    return aster_ml_lazy_matmul(out, in, &right);
  });
  x.finish();
}

void gemm_rule(Op& op, const Row&) {
  const Ref b = op.value(1);
  const bool simple = op.number("alpha", 1) == 1 && op.number("beta", 1) == 1;
  if (!op.ok()) return;
  if (!simple || op.integer("transA", 0) != 0)
    return refuse(op, "factors, or a first operand turned");
  const aster_ml_lazy given = b->cell.handle();
  aster_ml_lazy turned{};
  if (op.integer("transB", 0) != 0) op.fail(Status{aster_ml_lazy_transpose(&turned, &given, 0, 1)});
  {
    Chain x(op, 0);
    x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
      return aster_ml_lazy_matmul(out, in, turned.impl != nullptr ? &turned : &given);
    });
    if (op.has(2)) {
      const aster_ml_lazy more = op.value(2)->cell.handle();
      x.apply([&](aster_ml_lazy* out, const aster_ml_lazy* in) {
        return aster_ml_lazy_add(out, in, &more);
      });
    }
    x.finish();
  }
  aster_ml_lazy_free(&turned);
}

// Public functions that the builder calls have rules of their own; it looks at no size itself.
void windows_rule(Op& op, const Row& row) {
  const std::string_view automatic = op.text("auto_pad", "NOTSET");
  if (automatic != "NOTSET" && automatic != "VALID" && !numbers_from(op, 2)) return;
  for (size_t i = 1; i < op.results(); ++i) {
    if (op.wants(i)) return refuse(op, "positions");
  }
  if (op.ok()) row.build(op);
}

void where_rule(Op& op, const Row& row) {
  const bool any = is_list(op, 0) || is_list(op, 1) || is_list(op, 2);
  if (any && all_lists(op, 3)) return where_lists(op);
  on_wholes(op, row);
}

void equal_rule(Op& op, const Row& row) {
  if ((is_list(op, 0) || is_list(op, 1)) && all_lists(op, 2)) return equal_lists(op);
  on_wholes(op, row);
}

struct Rule {
  std::string_view name;
  void (*build)(Op& op, const Row& row);
};
// Rules that look at lists of sizes themselves, as one of their operands at least.
constexpr Rule kOfLists[] = {
    {"Shape", shape_rule},       {"Size", size_rule},
    {"Identity", identity_rule}, {"Cast", cast_rule},
    {"Reshape", reshape_rule},   {"Unsqueeze", unsqueeze_rule},
    {"Squeeze", squeeze_rule},   {"Concat", concat_rule},
    {"Slice", slice_rule},       {"Gather", gather_rule},
    {"Expand", expand_rule},     {"ConstantOfShape", constant_of_shape_rule},
    {"Range", range_rule},       {"CumSum", cum_sum_rule},
    {"Trilu", on_wholes},        {"Where", where_rule},
    {"Equal", equal_rule},
};
constexpr Rule kRules[] = {
    {"Dropout", dropout_rule},
    {"Flatten", flatten_rule},
    {"Transpose", transpose_rule},
    {"Split", split_rule},
    {"MatMul", matmul_rule},
    {"Gemm", gemm_rule},
    {"Conv", windows_rule},
    {"ConvTranspose", conv_transpose_rule},
    {"LSTM", recurrent_rule},
    {"GRU", recurrent_rule},
    {"RNN", recurrent_rule},
    {"TopK", top_k_rule},
    {"DynamicQuantizeLinear", dynamic_quantize_rule},
    {"MaxPool", windows_rule},
    {"AveragePool", windows_rule},
    {"GlobalAveragePool", global_pool_rule},
    {"GlobalMaxPool", global_pool_rule},
    {"BatchNormalization", by_channel_rule},
    {"InstanceNormalization", spatial_rule},
    {"LayerNormalization", layer_norm_rule},
    {"RMSNormalization", layer_norm_rule},
    {"Softmax", softmax_rule},
    {"LogSoftmax", softmax_rule},
    {"ReduceSum", reduce_rule},
    {"ReduceMean", reduce_rule},
    {"ReduceMax", reduce_rule},
    {"ReduceMin", reduce_rule},
};
constexpr std::string_view kElementwise[] = {
    "Abs",     "Acos",  "Asin",      "Atan",        "Ceil",      "Cos",
    "Erf",     "Exp",   "Floor",     "Log",         "Neg",       "Reciprocal",
    "Relu",    "Round", "Sigmoid",   "Sign",        "Sin",       "Softplus",
    "Sqrt",    "Tanh",  "Not",       "IsNaN",       "HardSwish", "Mish",
    "Add",     "Sub",   "Mul",       "Div",         "Pow",       "And",
    "Or",      "Xor",   "Less",      "LessOrEqual", "Greater",   "GreaterOrEqual",
    "Max",     "Min",   "Sum",       "Mean",        "Clip",      "Elu",
    "Selu",    "Celu",  "LeakyRelu", "HardSigmoid", "Gelu",      "ThresholdedRelu",
    "Softsign"};

bool one_scale(Op& op) {
  for (size_t i = 1; i < op.count(); ++i) {
    if (op.has(i) && op.value(i)->node() != nullptr && op.value(i)->node()->count() != 1)
      return false;
  }
  return true;
}

}  // namespace

void build_symbolic(Op& op, const Row& row) {
  if (!op.proto.domain.empty()) return refuse(op, "no rule for this operator");
  for (const Rule& rule : kOfLists) {
    if (rule.name == op.proto.op) return rule.build(op, row);
  }
  for (const Rule& rule : kRules) {
    if (rule.name != op.proto.op) continue;
    for (size_t i = 0; i < op.count(); ++i) as_tensor(op, i);
    return op.ok() ? rule.build(op, row) : void();
  }
  const bool quantises = op.proto.op == "QuantizeLinear" || op.proto.op == "DequantizeLinear";
  const bool old = op.version < 7 && op.integer("broadcast", 0) != 0;
  const auto* found = std::ranges::find(kElementwise, op.proto.op);
  if ((found != std::end(kElementwise) && !old) || (quantises && one_scale(op)))
    return on_wholes(op, row);
  refuse(op, "no rule for this operator");
}

}  // namespace aster::nn::onnx
