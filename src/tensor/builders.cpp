// The public builders: each checks its handles and arguments, then asks ops.h for the node.
#include "aster_ml/functions.h"
#include "tensor/api.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

int32_t build_unary(aster_ml_lazy* out, Input x, const UnaryOp& op) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  return build.finish(unary(build.graph(), node(x), variant(op, build.strict())));
}

int32_t build_binary(aster_ml_lazy* out, Input a, Input b, const BinaryOp& op) {
  Build build(out, {a, b});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {a, b}));
  return build.finish(binary(build.graph(), node(a), node(b), variant(op, build.strict())));
}

// Builders that take a list of words, of which each has ndim.
using WordsBuilder = Node (*)(Graph& g, Node x, Words words);
using WordsRule = sized::Done (*)(Build& build, Input x, Words words);
int32_t build_words(aster_ml_lazy* out, Input x, size_t count, const int64_t* list, WordsBuilder f,
                    WordsRule rule) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words words;
  ASTER_TRY(shape_argument(&words, count, list));
  if (build.sized()) {
    if (const sized::Done done = rule(build, x, words)) return done->code;
  }
  return build.finish(f(build.graph(), node(x), words));
}

// Rules for the shapes that are numbers.
sized::Done reshape_rule(Build& build, Input x, Words shape) {
  return sized::reshape(build, x, sized::constants(build.graph(), shape));
}
sized::Done expand_rule(Build& build, Input x, Words shape) {
  return sized::expand(build, x, sized::constants(build.graph(), shape));
}

sized::Done softmax_rule(Build& build, Input x, int64_t axis) {
  return sized::softmax(build, x, axis, softmax);
}
sized::Done log_softmax_rule(Build& build, Input x, int64_t axis) {
  return sized::softmax(build, x, axis, log_softmax);
}
sized::Done one_hot_rule(Build& build, Input labels, int64_t classes) {
  Sizes sizes;
  ASTER_TRY(sized::sizes_of(&sizes, build, labels));
  sizes.push(build.graph().index(classes));
  return build.finish(one_hot(build.graph(), sized::whole(labels), classes), sizes);
}

using sized::Fill;
using Reduction = Node (*)(Graph& g, Node x, Axes axes, bool keepdim);
int32_t build_reduction(aster_ml_lazy* out, Input x, size_t count, const int64_t* axes,
                        int32_t keepdim, Fill beyond, Reduction f, Reduction strict = nullptr) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (count > uop::Dims::kMost) return ASTER_FAIL(kRANGE, "%zu axes", count);
  if (strict != nullptr && build.strict()) f = strict;
  if (f == mean) {
    if (const sized::Done done = sized::mean(build, x, {count, axes}, keepdim != 0))
      return done->code;
  } else {
    ASTER_TRY(sized::reduce(build, x, {count, axes}, keepdim != 0, beyond));
  }
  return build.finish(f(build.graph(), node(x), {count, axes}, keepdim != 0));
}

using AxisBuilder = Node (*)(Graph& g, Node x, int64_t axis);
using AxisRule = sized::Done (*)(Build& build, Input x, int64_t axis);
int32_t build_axis(aster_ml_lazy* out, Input x, int64_t axis, AxisBuilder f, AxisRule rule) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (build.sized()) {
    if (const sized::Done done = rule(build, x, axis)) return done->code;
  }
  return build.finish(f(build.graph(), node(x), axis));
}

using IndexBuilder = Node (*)(Graph& g, Node x, int64_t axis, bool keepdim);
int32_t build_index(aster_ml_lazy* out, Input x, int64_t axis, bool keepdim, Fill beyond,
                    IndexBuilder f) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  // An axis that may be empty is an error where it is.
  const bool certain = !build.sized() || sized::never_empty(build, x, axis);
  if (certain) ASTER_TRY(sized::reduce(build, x, {1, &axis}, keepdim, beyond));
  return build.finish(f(build.graph(), node(x), axis, keepdim)).code;
}

using ListBuilder = Node (*)(Graph& g, Nodes xs, int64_t axis);
using ListRule = sized::Done (*)(Build& build, std::span<const Input> xs, int64_t axis);
int32_t build_list(aster_ml_lazy* out, const Input* tensors, size_t count, int64_t axis,
                   ListBuilder f, ListRule rule) {
  Build build(out, tensors, count);
  ASTER_TRY(build.status());
  if (const sized::Done done = rule(build, {tensors, count}, axis)) return done->code;
  Vec<Node> nodes(build.context().heap());
  for (size_t i = 0; i < count; ++i) ASTER_TRY(nodes.push(node(tensors[i])));
  return build.finish(f(build.graph(), {nodes.data(), nodes.size()}, axis));
}

Node squeeze(Graph& g, Node x, int64_t axis) {
  size_t at;
  if (!resolve_axis(&at, axis, x->ndim).ok()) return nullptr;
  return x->dim(at) == 1 ? select(g, x, axis, 0) : x;
}

Node flatten(Graph& g, Node x, int64_t first, int64_t last) {
  if (x->ndim == 0 && first == 0 && (last == 0 || last == -1))
    return reshape(g, x, uop::Dims(1, 1));
  size_t from, to;
  if (!resolve_axis(&from, first, x->ndim).ok() || !resolve_axis(&to, last, x->ndim).ok())
    return nullptr;
  if (to < from) {
    (void)ASTER_FAIL(kRANGE, "flatten of %s from axis %zu to %zu", uop::brief(x).text, from, to);
    return nullptr;
  }
  uop::Dims shape;
  Word joined = 1;
  for (size_t i = 0; i < x->ndim; ++i) {
    if (i < from || i > to) {
      shape.push(x->dim(i));
      continue;
    }
    joined *= x->dim(i);
    if (i == to) shape.push(joined);
  }
  return reshape(g, x, shape);
}

Node transpose(Graph& g, Node x, int64_t axis0, int64_t axis1) {
  size_t a, b;
  if (!resolve_axis(&a, axis0, x->ndim).ok() || !resolve_axis(&b, axis1, x->ndim).ok())
    return nullptr;
  uop::Dims axes;
  for (size_t i = 0; i < x->ndim; ++i) axes.push(static_cast<Word>(i == a ? b : i == b ? a : i));
  return permute(g, x, axes);
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

#define UNARY(name, domain, expression)                                      \
  int32_t aster_ml_lazy_##name(aster_ml_lazy* out, const aster_ml_lazy* x) { \
    ASTER_API();                                                             \
    return build_unary(out, x, ops::name);                                   \
  }
#define BINARY(name, domain, expression)                                   \
  int32_t aster_ml_lazy_##name(aster_ml_lazy* out, const aster_ml_lazy* a, \
                               const aster_ml_lazy* b) {                   \
    ASTER_API();                                                           \
    return build_binary(out, a, b, ops::name);                             \
  }
#include "tensor/elementwise.def"

#define REDUCTION(name, ...)                                                             \
  int32_t aster_ml_lazy_##name(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count, \
                               const int64_t* axes, int32_t keepdim) {                   \
    ASTER_API();                                                                         \
    return build_reduction(out, x, count, axes, keepdim, __VA_ARGS__);                   \
  }
REDUCTION(sum, Fill::kZero, sum)
REDUCTION(prod, Fill::kOne, prod)
REDUCTION(max, Fill::kLowest, max, strict_max)
REDUCTION(min, Fill::kHighest, min, strict_min)
REDUCTION(mean, Fill::kZero, mean)
REDUCTION(any, Fill::kZero, any)
REDUCTION(all, Fill::kOne, all)
REDUCTION(logsumexp, Fill::kLowest, logsumexp)
#undef REDUCTION

int32_t aster_ml_lazy_var(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                          const int64_t* axes, int32_t keepdim, int64_t correction) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (count > aster::uop::Dims::kMost) return ASTER_FAIL(kRANGE, "%zu axes", count);
  const sized::Done done = sized::var(build, x, {count, axes}, keepdim != 0, correction, false);
  if (done) return done->code;
  return build.finish(var(build.graph(), node(x), {count, axes}, keepdim != 0, correction));
}

int32_t aster_ml_lazy_argmax(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                             int32_t keepdim) {
  ASTER_API();
  return build_index(out, x, axis, keepdim != 0, Fill::kLowest, argmax);
}

int32_t aster_ml_lazy_argmin(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                             int32_t keepdim) {
  ASTER_API();
  return build_index(out, x, axis, keepdim != 0, Fill::kHighest, argmin);
}

int32_t aster_ml_lazy_leaky_relu(aster_ml_lazy* out, const aster_ml_lazy* x, double slope) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  Graph& g = build.graph();
  const Node zero = g.constant_int(DType::kWeakInt, 0), by = g.constant(DType::kWeakFloat, slope);
  return build.finish(
      where(g, binary(g, node(x), zero, ops::lt), binary(g, node(x), by, ops::mul), node(x)));
}

int32_t aster_ml_lazy_cast(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t dtype) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  DType to;
  ASTER_TRY(aster::dtype::from_any_code(&to, dtype));
  ASTER_TRY(sized::elementwise(build, {x}));
  return build.finish(cast(build.graph(), node(x), to));
}

int32_t aster_ml_lazy_bitcast(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t dtype) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  DType to;
  ASTER_TRY(aster::dtype::from_any_code(&to, dtype));
  constexpr int64_t kLast = -1;
  const bool same = aster::dtype::size(to) == aster::dtype::size(node(x)->dtype);
  ASTER_TRY(sized::beside(build, x, {same || node(x)->ndim == 0 ? 0u : 1u, &kLast}));
  Node bits = bitcast(build.graph(), node(x), to), view = nullptr;
  if (bits != nullptr) {
    ASTER_TRY(aster::engine::reinterpret(&view, build.engine(), node(x), to, bits->shape()));
  }
  return build.finish_beside(view != nullptr ? view : bits);
}

int32_t aster_ml_lazy_where(aster_ml_lazy* out, const aster_ml_lazy* condition,
                            const aster_ml_lazy* a, const aster_ml_lazy* b) {
  ASTER_API();
  Build build(out, {condition, a, b});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {condition, a, b}));
  return build.finish(where(build.graph(), node(condition), node(a), node(b)));
}

int32_t aster_ml_lazy_fma(aster_ml_lazy* out, const aster_ml_lazy* a, const aster_ml_lazy* b,
                          const aster_ml_lazy* c) {
  ASTER_API();
  Build build(out, {a, b, c});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {a, b, c}));
  return build.finish(fma(build.graph(), node(a), node(b), node(c)));
}

int32_t aster_ml_lazy_clamp(aster_ml_lazy* out, const aster_ml_lazy* x, const aster_ml_lazy* low,
                            const aster_ml_lazy* high) {
  ASTER_API();
  Build build(out, {x}, {low, high});
  ASTER_TRY(build.status());
  if (low == nullptr && high == nullptr) return ASTER_FAIL(kARGUMENT, "clamp without a bound");
  ASTER_TRY(sized::elementwise(build, {x, low, high}));
  return build.finish(
      clamp(build.graph(), node(x), node(low), node(high), low != nullptr, high != nullptr));
}

int32_t aster_ml_lazy_lerp(aster_ml_lazy* out, const aster_ml_lazy* start, const aster_ml_lazy* end,
                           const aster_ml_lazy* weight) {
  ASTER_API();
  Build build(out, {start, end, weight});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {start, end, weight}));
  Graph& g = build.graph();
  const Node way = binary(g, node(end), node(start), ops::sub);
  return build.finish(binary(g, node(start), binary(g, way, node(weight), ops::mul), ops::add));
}

int32_t aster_ml_lazy_reshape(aster_ml_lazy* out, const aster_ml_lazy* x, size_t ndim,
                              const int64_t* shape) {
  ASTER_API();
  return build_words(out, x, ndim, shape, reshape, reshape_rule);
}

int32_t aster_ml_lazy_expand(aster_ml_lazy* out, const aster_ml_lazy* x, size_t ndim,
                             const int64_t* shape) {
  ASTER_API();
  return build_words(out, x, ndim, shape, expand, expand_rule);
}

int32_t aster_ml_lazy_permute(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                              const int64_t* axes) {
  ASTER_API();
  return build_words(out, x, count, axes, permute, sized::permute);
}

int32_t aster_ml_lazy_flip(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                           const int64_t* axes) {
  ASTER_API();
  return build_words(out, x, count, axes, flip, sized::flip);
}

int32_t aster_ml_lazy_transpose(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis0,
                                int64_t axis1) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (const sized::Done done = sized::transpose(build, x, axis0, axis1)) return done->code;
  return build.finish(transpose(build.graph(), node(x), axis0, axis1));
}

int32_t aster_ml_lazy_pad(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                          const int64_t* before, const int64_t* after,
                          const aster_ml_scalar* fill) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words lead, trail;
  ASTER_TRY(shape_argument(&lead, count, before));
  ASTER_TRY(shape_argument(&trail, count, after));
  Filling filling;
  if (fill != nullptr) ASTER_TRY(filling_argument(&filling, build, fill));
  if (build.sized()) {
    Graph& g = build.graph();
    const sized::Done done =
        sized::pad(build, x, sized::constants(g, lead), sized::constants(g, trail), filling);
    if (done) return done->code;
  }
  return build.finish(pad(build.graph(), node(x), lead, trail, filling));
}

int32_t aster_ml_lazy_shrink(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                             const int64_t* begin, const int64_t* end) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Words from, to;
  ASTER_TRY(shape_argument(&from, count, begin));
  ASTER_TRY(shape_argument(&to, count, end));
  if (build.sized()) {
    Graph& g = build.graph();
    const sized::Done done =
        sized::shrink(build, x, sized::constants(g, from), sized::constants(g, to));
    if (done) return done->code;
  }
  return build.finish(shrink(build.graph(), node(x), from, to));
}

int32_t aster_ml_lazy_slice(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                            const int64_t* start, const int64_t* stop, const int64_t* step) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (const sized::Done done = sized::slice(build, x, count, start, stop, step)) return done->code;
  return build.finish(slice(build.graph(), node(x), count, start, stop, step));
}

int32_t aster_ml_lazy_select(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                             int64_t index) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (build.sized()) {
    const sized::Done done = sized::select(build, x, axis, build.graph().index(index));
    if (done) return done->code;
  }
  return build.finish(select(build.graph(), node(x), axis, index));
}

int32_t aster_ml_lazy_squeeze(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis) {
  ASTER_API();
  return build_axis(out, x, axis, squeeze, sized::squeeze);
}

int32_t aster_ml_lazy_unsqueeze(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis) {
  ASTER_API();
  return build_axis(out, x, axis, unsqueeze, sized::unsqueeze);
}

int32_t aster_ml_lazy_flatten(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t first,
                              int64_t last) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  if (const sized::Done done = sized::flatten(build, x, first, last)) return done->code;
  return build.finish(flatten(build.graph(), node(x), first, last));
}

int32_t aster_ml_lazy_cat(aster_ml_lazy* out, const aster_ml_lazy* const* tensors, size_t count,
                          int64_t axis) {
  ASTER_API();
  return build_list(out, tensors, count, axis, cat, sized::cat);
}

int32_t aster_ml_lazy_stack(aster_ml_lazy* out, const aster_ml_lazy* const* tensors, size_t count,
                            int64_t axis) {
  ASTER_API();
  return build_list(out, tensors, count, axis, stack, sized::stack);
}

int32_t aster_ml_lazy_one_hot(aster_ml_lazy* out, const aster_ml_lazy* labels, int64_t classes) {
  ASTER_API();
  return build_axis(out, labels, classes, one_hot, one_hot_rule);
}

int32_t aster_ml_lazy_softmax(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis) {
  ASTER_API();
  return build_axis(out, x, axis, softmax, softmax_rule);
}

int32_t aster_ml_lazy_log_softmax(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis) {
  ASTER_API();
  return build_axis(out, x, axis, log_softmax, log_softmax_rule);
}

int32_t aster_ml_lazy_matmul(aster_ml_lazy* out, const aster_ml_lazy* a, const aster_ml_lazy* b) {
  ASTER_API();
  Build build(out, {a, b});
  ASTER_TRY(build.status());
  if (const sized::Done done = sized::matmul(build, a, b)) return done->code;
  return build.finish(matmul(build.graph(), node(a), node(b)));
}

int32_t aster_ml_lazy_contiguous(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  Graph& g = build.graph();
  return build.finish(keeping_weak(g, node(x), [&](Node n) { return g.contiguous(n); }));
}

int32_t aster_ml_lazy_detach(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  Graph& g = build.graph();
  return build.finish(keeping_weak(g, node(x), [&](Node n) { return g.detach(n); }));
}

int32_t aster_ml_lazy_copy(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  return build.finish(node(x));
}
