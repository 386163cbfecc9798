#include "uop/expr.h"

#include <algorithm>
#include <array>

namespace aster::uop {

bool broadcast_shape(Dims* out, Words a, Words b) {
  const Words wide = a.size() >= b.size() ? a : b;
  const Words narrow = a.size() >= b.size() ? b : a;
  const size_t lead = wide.size() - narrow.size();
  out->count = 0;  // a whole Dims is 2 KiB to copy
  if (wide.size() > Dims::kMost) return false;
  for (Word dim : wide) out->push(dim);
  for (size_t i = 0; i < narrow.size(); ++i) {
    Word& dim = (*out)[lead + i];
    if (dim == 1) {
      dim = narrow[i];
    } else if (narrow[i] != 1 && narrow[i] != dim) {
      return false;
    }
  }
  return true;
}

Node broadcast_to(Graph& g, Node x, Words shape) {
  if (x == nullptr) return nullptr;
  if (shape.size() < x->ndim) {
    (void)ASTER_FAIL(kSHAPE, "%s does not broadcast to %s", brief(x).text, brief_shape(shape).text);
    return nullptr;
  }
  if (std::ranges::equal(shape, x->shape())) return x;
  Dims aligned(shape.size() - x->ndim, 1);
  for (Word dim : x->shape()) aligned.push(dim);
  return g.expand(g.reshape(x, aligned), shape);
}

Node drop_axes(Graph& g, Node x, Words axes) {
  if (x == nullptr || axes.empty()) return x;
  Dims shape;
  size_t next = 0;
  for (size_t i = 0; i < x->ndim; ++i) {
    if (next < axes.size() && axes[next] == static_cast<Word>(i)) {
      ++next;
    } else {
      shape.push(x->dim(i));
    }
  }
  return g.reshape(x, shape);
}

Expr alu(Op op, Expr a) { return {a.g, a.n == nullptr ? nullptr : a.g->alu(op, a.n)}; }

Expr alu(Op op, Expr a, Expr b) {
  if (a.n == nullptr || b.n == nullptr) return {a.g, nullptr};
  Dims shape;
  if (!broadcast_shape(&shape, a.shape(), b.shape())) {
    (void)ASTER_FAIL(kSHAPE, "%s and %s do not broadcast", brief(a.n).text, brief(b.n).text);
    return {a.g, nullptr};
  }
  return {a.g, a.g->alu(op, a.expand(shape).n, b.expand(shape).n)};
}

Expr alu(Op op, Expr a, Expr b, Expr c) {
  if (a.n == nullptr || b.n == nullptr || c.n == nullptr) return {a.g, nullptr};
  Dims two, shape;
  if (!broadcast_shape(&two, a.shape(), b.shape()) || !broadcast_shape(&shape, two, c.shape())) {
    (void)ASTER_FAIL(kSHAPE, "%s, %s and %s do not broadcast", brief(a.n).text, brief(b.n).text,
                     brief(c.n).text);
    return {a.g, nullptr};
  }
  return {a.g, a.g->alu(op, a.expand(shape).n, b.expand(shape).n, c.expand(shape).n)};
}

Expr reduce(Op op, Expr x, Words axes) {
  return {x.g, x.n == nullptr ? nullptr : x.g->reduce(op, x.n, axes)};
}

Expr sum(Expr x, Words axes) {
  if (x.n == nullptr) return x;
  return reduce(Op::kAdd, x.cast(dtype::sum_acc(x.dtype())), axes).cast(x.dtype());
}

Expr mean(Expr x, Words axes) {
  if (x.n == nullptr) return x;
  double count = 1;
  for (Word axis : axes) count *= static_cast<double>(x.n->dim(static_cast<size_t>(axis)));
  return (reduce(Op::kAdd, x.cast(dtype::sum_acc(x.dtype())), axes) / count).cast(x.dtype());
}

Expr iota(Graph& g, DType dtype, Words shape, size_t axis) {
  Dims to(shape.size(), 1);
  to[axis] = shape[axis];
  return {&g, g.reshape(g.iota(dtype, shape[axis]), to)};
}

}  // namespace aster::uop
