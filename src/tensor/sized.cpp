#include "tensor/sized.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "engine/engine.h"
#include "uop/composite.h"

namespace aster::tensor::sized {

using uop::Dims;
using uop::Op;

// ---- Sizes ----

Status sizes_of(Sizes* out, Graph& g, const engine::Lazy& x) {
  *out = Sizes();
  for (size_t i = 0; i < x.node->ndim; ++i) {
    const Node size = x.sized != nullptr ? x.sized->sizes[i] : g.index(x.node->dim(i));
    if (size == nullptr) return last_failure();
    out->push(size);
  }
  return kOk;
}

Status sizes_of(Sizes* out, Build& build, Input x) {
  return sizes_of(out, build.graph(), *cell(x));
}

Node whole(Input x) { return engine::whole_of(cell(x))->node; }

namespace {

// Whether x >= 0 by the bounds of its terms, where a quotient s // c is taken as (s - r) / c with
// 0 <= r < c.
bool never_negative(Graph& g, Node x) {
  constexpr int kQuotients = 4;
  for (int round = 0; x != nullptr && round <= kQuotients; ++round) {
    if (x->vmin >= 0) return true;
    Node next = nullptr;
    const sym::Linear sum = sym::linear_of(x);
    for (const sym::Term& term : sum.terms()) {
      const bool quotient = term.node->op == Op::kFloorDiv && uop::is_const(term.node->src(1)) &&
                            uop::const_int(term.node->src(1)) > 1;
      if (!quotient) continue;
      const int64_t by = uop::const_int(term.node->src(1));
      int64_t times = 0, slack = 0;
      if (!checked_mul(term.coefficient, by, &times) ||
          !checked_mul(term.coefficient > 0 ? -term.coefficient : 0, by - 1, &slack))
        return false;
      next = sym::sub(g, sym::mul(g, x, by), sym::mul(g, term.node, times));
      next = sym::add(g, next, sym::mul(g, term.node->src(0), term.coefficient));
      next = sym::add(g, next, slack);
      break;
    }
    x = next;
  }
  return false;
}

}  // namespace

bool holds_le(Build& build, Node a, Node b) {
  Graph& g = build.graph();
  const Node room = a == nullptr || b == nullptr ? nullptr : sym::sub(g, b, a);
  if (room == nullptr) return build.keep(last_failure()), false;
  if (never_negative(g, room)) return true;
  int64_t left = 0, right = 0;
  build.keep(build.symbols().value_of(&left, a));
  build.keep(build.symbols().value_of(&right, b));
  if (!build.status().ok() || left > right) return false;
  build.keep(engine::assume_le(build.engine(), a, b));
  return true;
}

Dims most_of(const Sizes& sizes) {
  Dims out;
  for (Node size : Nodes(sizes)) out.push(size->vmax);
  return out;
}

bool any_bound(const Sizes& sizes) { return std::ranges::any_of(Nodes(sizes), is_bound); }

bool never_empty(Build& build, Input x, int64_t axis) {
  size_t at = 0;
  if (!resolve_axis(&at, axis, node(x)->ndim).ok()) return false;
  Sizes sizes;
  return sizes_of(&sizes, build, x).ok() && holds_le(build, build.graph().index(1), sizes[at]);
}

Status dims_argument(Sizes* out, engine::Engine& engine, size_t ndim, const aster_ml_dim* dims) {
  if (ndim != 0 && dims == nullptr)
    return ASTER_FAIL(kARGUMENT, "a null pointer for %zu dimensions", ndim);
  if (ndim > Sizes::kMost)
    return ASTER_FAIL(kUNSUPPORTED, "%zu axes: at most %zu", ndim, Sizes::kMost);
  Graph& g = engine.graph;
  *out = Sizes();
  for (size_t i = 0; i < ndim; ++i) {
    Node size = reinterpret_cast<Node>(dims[i].expression);
    if (size == nullptr) {
      size = g.index(dims[i].value);
    } else {
      if (!g.owns(size)) return ASTER_FAIL(kARGUMENT, "a dimension of another context");
      int64_t now = 0;
      size = sym::simplify(g, size);
      if (size == nullptr) return last_failure();
      ASTER_TRY(engine.symbols.value_of(&now, size));
      if (now < 0)
        return ASTER_FAIL(kRANGE, "dimension %zu is %lld", i, static_cast<long long>(now));
      if (size->vmax == INT64_MAX)
        return ASTER_FAIL(kRANGE, "dimension %zu may be of any size: it has no upper bound", i);
      const Node zero = g.index(0);
      if (zero == nullptr) return last_failure();
      if (!never_negative(g, size)) ASTER_TRY(engine::assume_le(engine, zero, size));
    }
    if (size == nullptr) return last_failure();
    out->push(size);
  }
  return kOk;
}

Status position_argument(Node* out, int64_t* now, engine::Engine& engine, const aster_ml_dim& dim) {
  Graph& g = engine.graph;
  const Node given = reinterpret_cast<Node>(dim.expression);
  if (given != nullptr && !g.owns(given))
    return ASTER_FAIL(kARGUMENT, "a position of another context");
  if (given != nullptr && (given->dtype != DType::kWeakInt || given->ndim != 0))
    return ASTER_FAIL(kARGUMENT, "%s is no integer of variables", uop::brief(given).text);
  *out = given == nullptr ? g.index(dim.value) : sym::simplify(g, given);
  if (*out == nullptr) return last_failure();
  return engine.symbols.value_of(now, *out);
}

Status present(Dims* out, Build& build, const Sizes& sizes) {
  *out = Dims();
  for (Node size : Nodes(sizes)) {
    int64_t now = 0;
    ASTER_TRY(build.symbols().value_of(&now, size));
    ASTER_TRY(engine::look_at(build.engine(), size));
    out->push(now);
  }
  return kOk;
}

Sizes constants(Graph& g, Words words) {
  Sizes out;
  for (Word word : words) out.push(g.index(word));
  return out;
}

bool numbers(Dims* out, const Sizes& sizes) {
  *out = Dims();
  for (Node size : Nodes(sizes)) {
    if (is_bound(size)) return false;
    out->push(uop::const_int(size));
  }
  return true;
}

// ---- Masks ----

Status value_of(Expr* out, engine::Engine& engine, Node size) {
  out->g = &engine.graph;
  return engine.symbols.tensor_of(&out->n, size);
}

Dims all_axes(size_t ndim) {
  Dims out;
  for (size_t i = 0; i < ndim; ++i) out.push(static_cast<Word>(i));
  return out;
}

Expr places(Graph& g, Word count, size_t ndim, size_t axis) {
  Dims shape(ndim, 1);
  shape[axis] = count;
  return uop::iota(g, DType::kInt32, shape, axis);
}

Status inside(Expr* out, engine::Engine& engine, Words shape, const Sizes& sizes, Words axes) {
  Graph& g = engine.graph;
  *out = Expr{&g, nullptr};
  for (Word axis : axes) {
    const auto at = static_cast<size_t>(axis);
    if (!is_bound(sizes[at])) continue;
    Expr size;
    ASTER_TRY(value_of(&size, engine, sizes[at]));
    const Expr part = places(g, shape[at], shape.size(), at).cast(size.dtype()) < size;
    if (part.n == nullptr) return last_failure();
    *out = out->n == nullptr ? part : *out & part;
  }
  return kOk;
}

static Word word_of(Fill fill, DType dtype) {
  if (fill == Fill::kLowest) return uop::lowest_word(dtype);
  if (fill == Fill::kHighest) return uop::neutral_word(Op::kMin, dtype);
  if (fill == Fill::kNan) return std::bit_cast<Word>(std::numeric_limits<double>::quiet_NaN());
  const Word number = fill == Fill::kOne ? 1 : 0;
  return uop::convert_word(number, DType::kInt64, dtype);
}

Status masked(Node* out, Build& build, Node whole, const Sizes& sizes, Words axes, Fill fill) {
  Graph& g = build.graph();
  *out = whole;
  Expr in;
  ASTER_TRY(inside(&in, build.engine(), whole->shape(), sizes, axes));
  if (in.n == nullptr) return kOk;
  const Expr x{&g, strong(g, whole)};
  if (x.n == nullptr) return last_failure();
  *out = where(in, x, Expr{&g, g.constant_word(x.dtype(), word_of(fill, x.dtype()), x.shape())}).n;
  return *out == nullptr ? last_failure() : kOk;
}

Node cut(Graph& g, Node x, size_t axis, Word size) {
  if (x == nullptr || x->dim(axis) == size) return x;
  Dims begin(x->ndim, 0), end(x->shape());
  end[axis] = size;
  return tensor::shrink(g, x, begin, end);
}

Node take(Graph& g, Node x, size_t axis, Node positions) {
  if (x == nullptr || positions == nullptr) return nullptr;
  return keeping_weak(g, x, [&](Node y) {
    Dims shape(y->shape()), flat(y->ndim, 1), coordinates;
    shape[axis] = flat[axis] = positions->count();
    for (size_t i = 0; i < y->ndim; ++i) coordinates.push(i == axis ? -1 : static_cast<Word>(i));
    const Node index = broadcast_to(g, g.reshape(positions, flat), shape);
    return index == nullptr ? nullptr : g.gather(y, std::array{index}, coordinates, shape);
  });
}

bool align(Sizes* out, Node* wholes, Graph& g, std::span<const Sizes> sizes, size_t skip) {
  size_t axes = 0;
  for (const Sizes& each : sizes) axes = std::max(axes, each.size() - skip);
  Sizes found;
  for (size_t back = axes; back > 0; --back) {
    Node bound = nullptr, number = g.index(1);
    Word least = INT64_MAX;
    size_t others = 0;
    const auto at = [&](size_t k) { return sizes[k].size() - skip - back; };
    const auto has = [&](size_t k) { return sizes[k].size() - skip >= back; };
    for (size_t k = 0; k < sizes.size(); ++k) {
      if (!has(k)) continue;
      const Node size = sizes[k][at(k)];
      if (is_bound(size)) {
        if (bound != nullptr && size != bound) return false;
        bound = size;
        least = std::min(least, wholes[k]->dim(at(k)));
      } else if (uop::const_int(size) != 1) {
        number = size;
        ++others;
      }
    }
    if (bound != nullptr && others != 0) return false;
    for (size_t k = 0; bound != nullptr && k < sizes.size(); ++k) {
      if (has(k) && is_bound(sizes[k][at(k)])) wholes[k] = cut(g, wholes[k], at(k), least);
      if (wholes[k] == nullptr) return false;
    }
    found.push(bound != nullptr ? bound : number);
  }
  *out = found;
  return true;
}

// ---- Rules of functions that work element by element, or beside axes ----

Status show_wholes(Build& build, std::span<const Input> operands) {
  Graph& g = build.graph();
  Vec<Sizes> sizes(build.context().heap());
  Vec<Node> wholes(build.context().heap());
  for (Input x : operands) {
    if (x == nullptr) continue;
    Sizes each;
    ASTER_TRY(sizes_of(&each, build, x));
    ASTER_TRY(sizes.push(each));
    ASTER_TRY(wholes.push(whole(x)));
  }
  Sizes out;
  if (!align(&out, wholes.data(), g, {sizes.data(), sizes.size()}, 0)) return kOk;
  size_t k = 0;
  for (Input x : operands) {
    if (x != nullptr) build.show(x, wholes[k++]);
  }
  build.take_rule(out);
  return kOk;
}

Status beside(Build& build, Input x, Axes axes) {
  if (!build.sized_alone(x)) return kOk;
  Sizes sizes;
  Dims at;
  ASTER_TRY(resolve_axes(&at, axes, node(x)->ndim));
  ASTER_TRY(sizes_of(&sizes, build, x));
  for (Word axis : Words(at)) {
    if (is_bound(sizes[static_cast<size_t>(axis)])) return kOk;
  }
  build.show(x, whole(x));
  build.take_rule(sizes);
  return kOk;
}

Status beside_last(Build& build, Input x, size_t count) {
  if (!build.sized_alone(x) || count > node(x)->ndim) return kOk;
  Dims axes;
  for (size_t i = node(x)->ndim - count; i < node(x)->ndim; ++i) axes.push(static_cast<Word>(i));
  return beside(build, x, {axes.size(), axes.at});
}

Done assign(engine::Lazy& target, Input value) {
  if (target.sized == nullptr) return {};
  engine::Engine& engine = *target.engine;
  Graph& g = engine.graph;
  std::array<Sizes, 2> sizes;
  ASTER_TRY(sizes_of(&sizes[0], g, target));
  ASTER_TRY(sizes_of(&sizes[1], g, *cell(value)));
  engine::Lazy& all = *target.sized->whole;
  std::array<Node, 2> wholes{all.node, whole(value)};
  Sizes out;
  if (!align(&out, wholes.data(), g, sizes, 0) || wholes[0] != all.node ||
      out.size() != sizes[0].size() || !std::ranges::equal(Nodes(out), Nodes(sizes[0])))
    return {};
  Node from = nullptr;
  ASTER_TRY(assign_value(&from, g, "assign", all.node, wholes[1], all.node->shape()));
  if (writes_through(all.node)) {  // beyond the sizes stands what others see
    Expr in;
    ASTER_TRY(inside(&in, engine, from->shape(), sizes[0], all_axes(from->ndim)));
    const Node written = where(in, Expr{&g, from}, Expr{&g, all.node}).n;
    return written == nullptr ? last_failure() : engine::assign(engine, all, written);
  }
  Dims begin(all.node->ndim, 0), step(all.node->ndim, 1), size(target.node->shape());
  const Node present = g.slice(from, begin, step, size);
  if (present == nullptr) return last_failure();
  engine::set_node(all, from);
  engine::set_node(target, present);
  return kOk;
}

}  // namespace aster::tensor::sized
