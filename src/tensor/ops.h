// The front end on nodes: promotion, broadcasting, defaults and errors of every operation; handles
// are api.h's.
//
// Weak dtypes: a node of the graph is weak only where it is a constant, or a cast of a strong node
// to the weak dtype that the user sees; operations look through that cast, compute strong, and put
// it back. Functions absorb nil nodes.
#pragma once

#include "engine/lazy.h"
#include "uop/expr.h"

namespace aster::tensor {

using dtype::DType;
using engine::strong;
using uop::Expr;
using uop::Graph;
using uop::Node;
using uop::Nodes;
using uop::Word;
using uop::Words;

// ---- Dtypes ----

// f on the strong node behind x, its result made weak again as x was. Constants stay weak
// throughout.
template <typename F>
Node keeping_weak(Graph& g, Node x, F f) {
  if (x == nullptr || !dtype::is_weak(x->dtype) || uop::is_const(x)) return f(x);
  return g.cast(f(strong(g, x)), x->dtype);
}
Node cast(Graph& g, Node x, DType dtype);
Node bitcast(Graph& g, Node x, DType dtype);

// ---- Elementwise ----

enum class Domain : uint8_t {
  kKeep,       // the dtype stays
  kFloat,      // integers and bool become the default float
  kWide,       // as kFloat; narrow floats are computed in float32 and rounded once
  kReal,       // as kWide, but integers and bool become the weak float dtype
  kWideSteps,  // as kWide, but each step of float16 rounds, as in tinygrad
  kSteps,      // as kReal, likewise
  kCount,      // bool becomes a weak integer
  kNumber,     // bool becomes the default float (two operands: before they are combined)
  kDivide,     // integers and bool become the default float, weak ones too
  kBits,       // integers and bool
  kShift,      // integers
  kWord,       // uint64
  kCompare,    // -> bool
  kLogical,    // operands become bool
};
struct UnaryOp {
  const char* name;
  Domain domain;
  Expr (*compute)(Expr x);
};
struct BinaryOp {
  const char* name;
  Domain domain;
  Expr (*compute)(Expr a, Expr b);
};
// A function of x and numbers: p of a row.
struct CurveOp {
  const char* name;
  Domain domain;
  Expr (*compute)(Expr x, const double* p);
};
// One row of elementwise.def each: ops::exp, ops::add, ...
namespace ops {
#define UNARY(name, domain, expression) extern const UnaryOp name;
#define BINARY(name, domain, expression) extern const BinaryOp name;
#define CURVE(name, domain, p, q, expression) extern const CurveOp name;
#include "tensor/elementwise.def"
}  // namespace ops
Node unary(Graph& g, Node x, const UnaryOp& op);
Node curve(Graph& g, Node x, const CurveOp& op, const double* p);
Node binary(Graph& g, Node a, Node b, const BinaryOp& op);
// The operation as a context computes it: itself, or tinygrad's composition of it under
// strict_parity.
UnaryOp variant(const UnaryOp& op, bool strict);
BinaryOp variant(const BinaryOp& op, bool strict);
CurveOp variant(const CurveOp& op, bool strict);
Node where(Graph& g, Node condition, Node a, Node b);
Node fma(Graph& g, Node a, Node b, Node c);
Node clamp(Graph& g, Node x, Node low, Node high, bool has_low, bool has_high);

// ---- Movement ----

Node reshape(Graph& g, Node x, Words shape);  // one -1 is inferred
Node expand(Graph& g, Node x, Words shape);   // -1 keeps
Node permute(Graph& g, Node x, Words axes);
Node flip(Graph& g, Node x, Words axes);
Node pad(Graph& g, Node x, Words before, Words after, Word fill, DType fill_dtype);
// What stands where a function has no element.
struct Filling {
  Word word = 0;  // a constant of dtype
  DType dtype = DType::kWeakInt;
  Node number = nullptr;  // instead of word a tensor of no axes: what no constant of a graph is
  // It everywhere in a shape.
  Node in(Graph& g, DType to, Words shape) const;
};
Node pad(Graph& g, Node x, Words before, Words after, const Filling& fill);
Node shrink(Graph& g, Node x, Words begin, Words end);
// One axis of Python's slice(start, stop, step).indices(size): elements start, start + step, ...
// count of them.
struct Span {
  int64_t start, count;
};
Span span_of(int64_t size, int64_t start, int64_t stop, int64_t step);
// Python's slice on the first axes; null spans mean everything, step 1.
Node slice(Graph& g, Node x, size_t count, const int64_t* start, const int64_t* stop,
           const int64_t* step);
Node select(Graph& g, Node x, int64_t axis, int64_t index);
Node cat(Graph& g, Nodes xs, int64_t axis);
Node stack(Graph& g, Nodes xs, int64_t axis);
Node one_hot(Graph& g, Node labels, int64_t classes);

// ---- Reductions ----

// axes null: all of them.
struct Axes {
  size_t count;
  const int64_t* at;
};
Node sum(Graph& g, Node x, Axes axes, bool keepdim);
Node prod(Graph& g, Node x, Axes axes, bool keepdim);
Node max(Graph& g, Node x, Axes axes, bool keepdim);
Node min(Graph& g, Node x, Axes axes, bool keepdim);
// As tinygrad computes them, under strict_parity.
Node strict_max(Graph& g, Node x, Axes axes, bool keepdim);
Node strict_min(Graph& g, Node x, Axes axes, bool keepdim);
// x with what never wins a maximum or minimum in place of NaN.
Expr without_nan(Expr x, uop::Op extremum);
Node mean(Graph& g, Node x, Axes axes, bool keepdim);
Node var(Graph& g, Node x, Axes axes, bool keepdim, int64_t correction);
Node any(Graph& g, Node x, Axes axes, bool keepdim);
Node all(Graph& g, Node x, Axes axes, bool keepdim);
Node argmax(Graph& g, Node x, int64_t axis, bool keepdim);
Node argmin(Graph& g, Node x, int64_t axis, bool keepdim);
Node logsumexp(Graph& g, Node x, Axes axes, bool keepdim);

// An axis counted from the front. RANGE.
Status resolve_axis(size_t* out, int64_t axis, size_t ndim);
// Axes ascending, none twice. RANGE.
Status resolve_axes(uop::Dims* out, Axes axes, size_t ndim);

// ---- Composites ----

Node matmul(Graph& g, Node a, Node b);
Node softmax(Graph& g, Node x, int64_t axis);
Node log_softmax(Graph& g, Node x, int64_t axis);

}  // namespace aster::tensor
