#include "engine/indexing.h"

#include "uop/symbolic.h"

namespace aster::engine {
namespace {

using uop::Graph;
using uop::Node;
using uop::Op;
using uop::Words;
namespace sym = uop::sym;

// Splits a row-major position over the dims [first, last) of a shape.
Status unflatten(Vec<Node>* out, Graph& g, Node position, Words dims) {
  int64_t stride = 1;
  for (int64_t d : dims) stride *= d;
  for (size_t i = 0; i < dims.size(); ++i) {
    stride /= dims[i];
    Node at = stride == 1 ? position : sym::floordiv(g, position, g.index(stride));
    if (i != 0) at = sym::floormod(g, at, g.index(dims[i]));
    ASTER_TRY(need(at));
    ASTER_TRY(out->push(at));
  }
  return kOk;
}

// Dims of both shapes are matched in the smallest groups of equal product, so that what reshape
// leaves alone needs no division.
Status reshape_place(Vec<Node>* out, Graph& g, Words to, Words from, std::span<const Node> at) {
  size_t i = 0, j = 0;  // to is the shape of `at`; from that of the source
  while (i < to.size() || j < from.size()) {
    const size_t i0 = i, j0 = j;
    int64_t a = i < to.size() ? to[i++] : 1, b = j < from.size() ? from[j++] : 1;
    while (a != b) {
      if (a < b) {
        if (i == to.size()) return ASTER_FAIL(kINTERNAL, "reshape of unequal counts");
        a *= to[i++];
      } else {
        if (j == from.size()) return ASTER_FAIL(kINTERNAL, "reshape of unequal counts");
        b *= from[j++];
      }
    }
    Node position = linear_index(g, to.subspan(i0, i - i0), at.subspan(i0, i - i0));
    ASTER_TRY(need(position));
    ASTER_TRY(unflatten(out, g, position, from.subspan(j0, j - j0)));
  }
  return kOk;
}

// *out and condition, where null stands for what always holds. A nil condition is a failure.
Status also(Node* out, Graph& g, Node condition) {
  ASTER_TRY(need(condition));
  *out = *out == nullptr ? condition : sym::and_(g, *out, condition);
  return need(*out);
}

// Adds 0 <= x < size to a condition, unless it always holds.
Status inside(Node* own, Graph& g, Node x, int64_t size) {
  if (x->vmin < 0) ASTER_TRY(also(own, g, sym::not_(g, sym::lt(g, x, g.index(0)))));
  if (x->vmax >= size) ASTER_TRY(also(own, g, sym::lt(g, x, g.index(size))));
  return kOk;
}

// x / stride where that is exact, and the condition that it is and lies in [0, size).
Status strided(Node* out, Node* own, Graph& g, Node x, int64_t stride, int64_t size) {
  ASTER_TRY(need(x));
  if (stride > 1) {
    ASTER_TRY(also(own, g, sym::eq(g, sym::floormod(g, x, g.index(stride)), g.index(0))));
    if (x->vmin < 0) ASTER_TRY(also(own, g, sym::not_(g, sym::lt(g, x, g.index(0)))));
    x = sym::floordiv(g, x, g.index(stride));
    ASTER_TRY(need(x));
  }
  *out = x;
  return inside(own, g, x, size);
}

}  // namespace

Node linear_index(Graph& g, Words shape, std::span<const Node> index) {
  Node out = g.index(0);
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    out = sym::add(g, out, sym::mul(g, index[i], g.index(stride)));
    stride *= shape[i];
  }
  return out;
}

Status source_place(Place* out, Node* own, Graph& g, Node node, size_t source,
                    std::span<const Node> at, Node gate) {
  out->index.clear();
  *own = nullptr;
  const Node x = node->src(source);
  const auto arg = [&](size_t i) { return node->arg(i); };
  const auto put = [&](Node index) {
    ASTER_TRY(need(index));
    return out->index.push(index);
  };
  switch (node->op) {
    case Op::kReshape:
      ASTER_TRY(reshape_place(&out->index, g, node->shape(), x->shape(), at));
      break;
    case Op::kPermute:
      ASTER_TRY(out->index.resize(x->ndim, nullptr));
      for (size_t i = 0; i < x->ndim; ++i) out->index[static_cast<size_t>(arg(i))] = at[i];
      break;
    case Op::kExpand:
      for (size_t i = 0; i < x->ndim; ++i) {
        ASTER_TRY(put(x->dim(i) == 1 && node->dim(i) != 1 ? g.index(0) : at[i]));
      }
      break;
    case Op::kFlip:
      for (size_t i = 0; i < x->ndim; ++i) {
        ASTER_TRY(put(arg(i) == 0
                          ? at[i]
                          : sym::add(g, g.index(x->dim(i) - 1), sym::mul(g, at[i], g.index(-1)))));
      }
      break;
    case Op::kSlice:
      for (size_t i = 0; i < x->ndim; ++i) {
        ASTER_TRY(
            put(sym::add(g, sym::mul(g, at[i], g.index(arg(2 * i + 1))), g.index(arg(2 * i)))));
      }
      break;
    case Op::kPad:
      for (size_t i = 0; i < x->ndim; ++i) {
        Node moved = sym::add(g, at[i], g.index(-arg(3 * i)));
        ASTER_TRY(strided(&moved, own, g, moved, arg(3 * i + 2) + 1, x->dim(i)));
        ASTER_TRY(put(moved));
      }
      break;
    case Op::kWindow:
    case Op::kUnwindow: {
      const size_t axis = static_cast<size_t>(arg(0));
      const Node stride = g.index(arg(1)), dilation = g.index(arg(2));
      for (size_t i = 0; i < node->ndim; ++i) {
        if (i != axis) {
          if (node->op == Op::kWindow && i == axis + 1) continue;
          ASTER_TRY(put(at[i]));
        } else if (node->op == Op::kWindow) {
          ASTER_TRY(put(sym::add(g, sym::mul(g, at[i], stride), sym::mul(g, at[i + 1], dilation))));
        } else {
          Node moved =
              sym::add(g, at[i], sym::mul(g, at[i + 1], sym::mul(g, dilation, g.index(-1))));
          ASTER_TRY(strided(&moved, own, g, moved, arg(1), x->dim(axis)));
          ASTER_TRY(put(moved));
        }
      }
      break;
    }
    case Op::kCat: {
      const size_t axis = static_cast<size_t>(arg(0));
      int64_t offset = 0;
      for (size_t s = 0; s < source; ++s) offset += node->src(s)->dim(axis);
      for (size_t i = 0; i < node->ndim; ++i) {
        Node moved = i == axis ? sym::add(g, at[i], g.index(-offset)) : at[i];
        ASTER_TRY(put(moved));
        if (i == axis) ASTER_TRY(inside(own, g, moved, x->dim(axis)));
      }
      break;
    }
    default:  // the same index: elementwise and structural nodes
      for (Node index : at) ASTER_TRY(put(index));
      break;
  }
  out->gate = gate;
  return *own != nullptr ? also(&out->gate, g, *own) : kOk;
}

Status step_down(Vec<Node>* index, Graph& g, Node node) {
  Place place(g.memory());
  Node own = nullptr;
  ASTER_TRY(source_place(&place, &own, g, node, 0, {index->data(), index->size()}, nullptr));
  index->clear();
  return index->append(place.index.data(), place.index.size());
}

Status ranges_of(Vec<Node>* out, Graph& g, Node node) {
  for (size_t axis = 0; axis < node->ndim; ++axis) {
    const int64_t dim = node->dim(axis);
    Node range = dim == 1 ? g.index(0) : g.range(static_cast<int64_t>(axis), dim);
    if (range == nullptr) return last_failure();
    ASTER_TRY(out->push(range));
  }
  return kOk;
}

bool linear_in(Vec<int64_t>* words, Node x, std::span<const Node> ranges) {
  sym::Linear linear;
  if (x == nullptr || !linear.add(x, 1)) return false;
  if (!words->push(linear.constant).ok()) return false;
  size_t matched = 0;
  for (Node range : ranges) {
    int64_t factor = 0;
    for (const sym::Term& term : linear.terms()) {
      if (term.node == range) factor = term.coefficient, ++matched;
    }
    if (!words->push(factor).ok()) return false;
  }
  return matched == linear.size();
}

}  // namespace aster::engine
