// The public functions of symbolic.h.
#include "aster_ml/symbolic.h"

#include <array>
#include <string_view>

#include "engine/engine.h"
#include "tensor/sized.h"
#include "uop/context_graph.h"

namespace aster::tensor {
namespace {

using uop::Dims;

Node node_of(const aster_ml_uop* uop) { return reinterpret_cast<Node>(uop); }

Status give(const aster_ml_uop** out, Graph& g, Node node) {
  if (node == nullptr) return last_failure();
  g.retain(node);
  *out = reinterpret_cast<const aster_ml_uop*>(node);
  return kOk;
}

// The engine of a context, for a function that gives out.
Status enter(engine::Engine** engine, const void* out, const aster_ml_context* context) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  return engine::engine_of(engine, *context_of(context));
}

Status expression_argument(Node* out, const Graph& g, const aster_ml_uop* expression) {
  *out = node_of(expression);
  if (*out == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for an expression");
  if (!g.owns(*out)) return ASTER_FAIL(kARGUMENT, "an expression of another context");
  return kOk;
}

Status operand(Node* out, Graph& g, const aster_ml_dim* dim) {
  if (dim == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for a dimension");
  if (dim->expression == nullptr) {
    *out = g.index(dim->value);
    return *out == nullptr ? last_failure() : kOk;
  }
  ASTER_TRY(expression_argument(out, g, dim->expression));
  if ((*out)->dtype == DType::kWeakInt && (*out)->ndim == 0) return kOk;
  return ASTER_FAIL(kARGUMENT, "%s is no integer of variables", uop::brief(*out).text);
}

struct Combination {
  const char* name;
  Node (*build)(Graph& g, Node a, Node b);
  bool divides;
};
namespace sym = uop::sym;
constexpr Combination kCombinations[] = {
    {"Add", sym::add, false},          {"Sub", sym::sub, false},          {"Mul", sym::mul, false},
    {"FloorDiv", sym::floordiv, true}, {"FloorMod", sym::floormod, true}, {"Min", sym::min, false},
    {"Max", sym::max, false},
};

using ShapeRule = sized::Done (*)(Build& build, Input x, const Sizes& wanted);
using ShapeBuilder = Node (*)(Graph& g, Node x, Words shape);
int32_t build_shape(aster_ml_lazy* out, Input x, size_t ndim, const aster_ml_dim* dims,
                    ShapeRule rule, ShapeBuilder f) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  Sizes wanted;
  ASTER_TRY(sized::dims_argument(&wanted, build.engine(), ndim, dims));
  if (const sized::Done done = rule(build, x, wanted)) return done->code;
  Dims shape;
  ASTER_TRY(sized::present(&shape, build, wanted));
  return build.finish(f(build.graph(), node(x), shape));
}

// Bytes of a tensor of the greatest sizes.
Status check_greatest(const Sizes& sizes, DType dtype) {
  const Dims most = sized::most_of(sizes);
  int64_t bytes = static_cast<int64_t>(dtype::size(dtype));
  for (Word size : Words(most)) {
    if (size < 0)
      return ASTER_FAIL(kRANGE, "a negative dimension in %s", uop::brief_shape(most).text);
    if (!checked_mul(bytes, size == 0 ? 1 : size, &bytes)) {
      return ASTER_FAIL(kRANGE, "%s%s is too large", dtype::name(dtype),
                        uop::brief_shape(most).text);
    }
  }
  return kOk;
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
namespace engine = aster::engine;
namespace buffer = aster::buffer;
using aster::kOk;
using aster::last_failure;
using aster::Status;

int32_t aster_ml_symbolic_init(const aster_ml_uop** out, const aster_ml_context* context,
                               const char* name, int64_t min, int64_t max) {
  if (out != nullptr) *out = nullptr;
  ASTER_ENTER(aster::context_of(context));
  engine::Engine* e = nullptr;
  ASTER_TRY(enter(&e, out, context));
  Node made = nullptr;
  ASTER_TRY(e->symbols.variable(&made, name, min, max));
  return give(out, e->graph, made);
}

int32_t aster_ml_symbolic_combine(const aster_ml_uop** out, const aster_ml_context* context,
                                  const char* op, const aster_ml_dim* a, const aster_ml_dim* b) {
  if (out != nullptr) *out = nullptr;
  ASTER_ENTER(aster::context_of(context));
  engine::Engine* e = nullptr;
  ASTER_TRY(enter(&e, out, context));
  if (op == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for an operation");
  Node left = nullptr, right = nullptr;
  ASTER_TRY(operand(&left, e->graph, a));
  ASTER_TRY(operand(&right, e->graph, b));
  for (const Combination& row : kCombinations) {
    if (std::string_view(op) != row.name) continue;
    if (row.divides && aster::uop::is_const(right) && aster::uop::const_int(right) == 0)
      return ASTER_FAIL(kRANGE, "division by zero");
    return give(out, e->graph, row.build(e->graph, left, right));
  }
  return ASTER_FAIL(kARGUMENT, "no combination of expressions is named %s", op);
}

int32_t aster_ml_symbolic_bind(const aster_ml_uop** out, const aster_ml_context* context,
                               const aster_ml_uop* expression, const char* name, int64_t value) {
  if (out != nullptr) *out = nullptr;
  ASTER_ENTER(aster::context_of(context));
  engine::Engine* e = nullptr;
  ASTER_TRY(enter(&e, out, context));
  Node from = nullptr, made = nullptr;
  ASTER_TRY(expression_argument(&from, e->graph, expression));
  ASTER_TRY(e->symbols.bind(&made, from, name, value));
  return give(out, e->graph, made);
}

int32_t aster_ml_symbolic_value(int64_t* out, const aster_ml_context* context,
                                const aster_ml_uop* expression) {
  if (out != nullptr) *out = 0;
  ASTER_ENTER(aster::context_of(context));
  engine::Engine* e = nullptr;
  ASTER_TRY(enter(&e, out, context));
  Node from = nullptr;
  ASTER_TRY(expression_argument(&from, e->graph, expression));
  ASTER_TRY(e->symbols.value_of(out, from));
  return engine::look_at(*e, from);
}

int32_t aster_ml_symbolic_get(const char** name, int64_t* min, int64_t* max, int64_t* value,
                              int32_t* bound, const aster_ml_context* context,
                              const aster_ml_uop* node) {
  if (name != nullptr) *name = nullptr;
  for (int64_t* out : {min, max, value}) {
    if (out != nullptr) *out = 0;
  }
  if (bound != nullptr) *bound = 0;
  ASTER_ENTER(aster::context_of(context));
  if (name == nullptr || min == nullptr || max == nullptr || value == nullptr || bound == nullptr)
    return ASTER_FAIL(kARGUMENT, "an out is a null pointer");
  engine::Engine* e = nullptr;
  ASTER_TRY(engine::engine_of(&e, *aster::context_of(context)));
  Node from = nullptr;
  ASTER_TRY(expression_argument(&from, e->graph, node));
  const uint32_t at = e->symbols.find(from);
  if (at == engine::Symbols::kNone)
    return ASTER_FAIL(kARGUMENT, "%s is no variable", aster::uop::brief(from).text);
  const engine::Symbol& symbol = e->symbols[at];
  auto& variable = const_cast<engine::Variable&>(e->symbols.of(symbol));
  *name = variable.name.c_str();
  if (*name == nullptr) return variable.name.status();
  *min = variable.least;
  *max = variable.most;
  *value = symbol.value;
  *bound = symbol.bound ? 1 : 0;
  return kOk;
}

int32_t aster_ml_lazy_is_symbolic(const aster_ml_lazy* x) {
  const engine::Lazy* lazy = x == nullptr ? nullptr : cell(x);
  return lazy != nullptr && lazy->sized != nullptr;
}

int32_t aster_ml_lazy_dims(aster_ml_dim* out, size_t ndim, const aster_ml_lazy* x) {
  ASTER_API();
  for (size_t i = 0; out != nullptr && i < ndim; ++i) out[i] = {};
  ASTER_TRY(check_handle(x));
  const engine::Lazy& lazy = *cell(x);
  const aster::ContextLock lock(lazy.context);
  ASTER_TRY(lock.status());
  if (out == nullptr && ndim != 0) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  if (lazy.node->ndim != ndim)
    return ASTER_FAIL(kSHAPE, "%zu dimensions asked of %s", ndim,
                      aster::uop::brief(lazy.node).text);
  for (size_t i = 0; i < ndim; ++i) {
    out[i].value = lazy.node->dim(i);
    if (lazy.sized == nullptr || !is_bound(lazy.sized->sizes[i])) continue;
    out[i].expression = reinterpret_cast<const aster_ml_uop*>(lazy.sized->sizes[i]);
  }
  return kOk;
}

int32_t aster_ml_lazy_from_dim(aster_ml_lazy* out, const aster_ml_context* context,
                               const aster_ml_dim* dim) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  Node expression = nullptr, made = nullptr;
  ASTER_TRY(operand(&expression, build.graph(), dim));
  ASTER_TRY(build.symbols().tensor_of(&made, expression));
  return build.finish(made);
}

int32_t aster_ml_lazy_whole(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  const Node all = sized::whole(x);
  return build.finish(all, sized::constants(build.graph(), all->shape()));
}

int32_t aster_ml_lazy_set_dims(aster_ml_lazy* x, size_t ndim, const aster_ml_dim* dims) {
  ASTER_API();
  ASTER_TRY(check_handle(x));
  if (cell(x)->sized == nullptr)
    return ASTER_FAIL(kARGUMENT, "no size of %s is a variable's", aster::uop::brief(node(x)).text);
  engine::Lazy& lazy = *cell(x);
  const aster::ContextLock lock(lazy.context);
  ASTER_TRY(lock.status());
  Sizes sizes;
  ASTER_TRY(sized::dims_argument(&sizes, *lazy.engine, ndim, dims));
  const Node all = lazy.sized->whole->node;
  if (ndim != all->ndim)
    return ASTER_FAIL(kSHAPE, "%zu dimensions for %s", ndim, aster::uop::brief(all).text);
  for (size_t i = 0; i < ndim; ++i) {
    int64_t now = 0;
    ASTER_TRY(lazy.engine->symbols.value_of(&now, sizes[i]));
    if (now > all->dim(i))
      return ASTER_FAIL(kRANGE, "dimension %zu of %s is %lld", i, aster::uop::brief(all).text,
                        static_cast<long long>(now));
  }
  return engine::change_sizes(lazy, sizes);
}

int32_t aster_ml_lazy_reshape_dims(aster_ml_lazy* out, const aster_ml_lazy* x, size_t ndim,
                                   const aster_ml_dim* dims) {
  ASTER_API();
  return build_shape(out, x, ndim, dims, sized::reshape, reshape);
}

int32_t aster_ml_lazy_expand_dims(aster_ml_lazy* out, const aster_ml_lazy* x, size_t ndim,
                                  const aster_ml_dim* dims) {
  ASTER_API();
  return build_shape(out, x, ndim, dims, sized::expand, expand);
}

int32_t aster_ml_lazy_shrink_dims(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                                  const aster_ml_dim* begin, const aster_ml_dim* end) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Sizes from, to;
  ASTER_TRY(sized::dims_argument(&from, build.engine(), count, begin));
  ASTER_TRY(sized::dims_argument(&to, build.engine(), count, end));
  if (const sized::Done done = sized::shrink(build, x, from, to)) return done->code;
  Dims first, last;
  ASTER_TRY(sized::present(&first, build, from));
  ASTER_TRY(sized::present(&last, build, to));
  return build.finish(shrink(build.graph(), node(x), first, last));
}

int32_t aster_ml_lazy_pad_dims(aster_ml_lazy* out, const aster_ml_lazy* x, size_t count,
                               const aster_ml_dim* before, const aster_ml_dim* after,
                               const aster_ml_scalar* fill) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Sizes lead, trail;
  ASTER_TRY(sized::dims_argument(&lead, build.engine(), count, before));
  ASTER_TRY(sized::dims_argument(&trail, build.engine(), count, after));
  Filling filling;
  if (fill != nullptr) ASTER_TRY(filling_argument(&filling, build, fill));
  if (const sized::Done done = sized::pad(build, x, lead, trail, filling)) return done->code;
  Dims first, last;
  ASTER_TRY(sized::present(&first, build, lead));
  ASTER_TRY(sized::present(&last, build, trail));
  return build.finish(pad(build.graph(), node(x), first, last, filling));
}

int32_t aster_ml_lazy_select_dims(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                                  const aster_ml_dim* index) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Node place = nullptr;
  ASTER_TRY(operand(&place, build.graph(), index));
  int64_t now = 0;
  ASTER_TRY(build.symbols().value_of(&now, place));
  if (const sized::Done done = sized::select(build, x, axis, place)) return done->code;
  ASTER_TRY(engine::look_at(build.engine(), place));
  return build.finish(select(build.graph(), node(x), axis, now));
}

int32_t aster_ml_lazy_full_dims(aster_ml_lazy* out, const aster_ml_context* context,
                                const aster_ml_scalar* value, int32_t dtype, size_t ndim,
                                const aster_ml_dim* dims) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  DType to;
  Sizes sizes;
  Filling filling;
  ASTER_TRY(filling_argument(&filling, build, value));
  ASTER_TRY(dtype_argument(&to, dtype, filling.dtype));
  Graph& g = build.graph();
  to = g.strong(to);
  ASTER_TRY(sized::dims_argument(&sizes, build.engine(), ndim, dims));
  ASTER_TRY(check_greatest(sizes, to));
  return build.finish(filling.in(g, to, sized::most_of(sizes)), sizes);
}

int32_t aster_ml_lazy_empty_dims(aster_ml_lazy* out, const aster_ml_context* context, int32_t dtype,
                                 size_t ndim, const aster_ml_dim* dims) {
  ASTER_API();
  Sizes sizes;
  aster::uop::Dims most;
  {
    Build build(out, context);
    ASTER_TRY(build.status());
    ASTER_TRY(sized::dims_argument(&sizes, build.engine(), ndim, dims));
    most = sized::most_of(sizes);
    aster_ml_lazy memory{};
    ASTER_TRY(Status{aster_ml_lazy_empty(&memory, context, dtype, ndim, most.at)});
    const Status status = build.finish(node(&memory), sizes);
    (void)aster_ml_lazy_free(&memory);
    return status;
  }
}

int32_t aster_ml_lazy_arange_dims(aster_ml_lazy* out, const aster_ml_context* context,
                                  const aster_ml_dim* start, const aster_ml_dim* stop,
                                  int32_t dtype) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kWeakInt));
  to = g.strong(to);
  Node first = nullptr, last = nullptr;
  ASTER_TRY(operand(&first, g, start));
  ASTER_TRY(operand(&last, g, stop));
  Sizes sizes;
  const aster_ml_dim count{
      0, reinterpret_cast<const aster_ml_uop*>(aster::uop::sym::sub(g, last, first))};
  if (count.expression == nullptr) return last_failure();
  ASTER_TRY(sized::dims_argument(&sizes, build.engine(), 1, &count));
  ASTER_TRY(check_greatest(sizes, to));
  aster::tensor::Expr from;
  ASTER_TRY(sized::value_of(&from, build.engine(), first));
  const aster::tensor::Expr line = sized::places(g, sizes[0]->vmax, 1, 0).cast(from.dtype());
  return build.finish((line + from).cast(to).n, sizes);
}
