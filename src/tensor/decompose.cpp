// QR by Householder reflections and singular values by Jacobi rotations, as graphs of primitives:
// the gradient of a complete QR, and tinygrad's own singular vectors under strict_parity.
//
// Steps differ in nothing but a number that they read from storage: equal kernels are compiled once
// for all of them.
#include <algorithm>
#include <array>

#include "device/device.h"
#include "tensor/api.h"
#include "tensor/linalg.h"
#include "tensor/matrices.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;
using uop::Op;

// Each column is a step of its own in the graph.
constexpr Word kMostColumns = 16384;

// 0, 1, ..., count - 1 in storage, each a leaf of its own, [1] int32.
Status step_numbers(Vec<Node>* out, engine::Engine& engine, Context& context, Word count) {
  buffer::Storage* storage;
  ASTER_TRY(buffer::storage_create(&storage, context, static_cast<size_t>(count) * sizeof(int32_t),
                                   device::kCpu));
  Status status;
  for (Word i = 0; i < count && status.ok(); ++i) {
    static_cast<int32_t*>(storage->data)[i] = static_cast<int32_t>(i);
    const Node leaf = engine::buffer_node_on(engine, storage, 0, i * Word{sizeof(int32_t)},
                                             DType::kInt32, Dims(1, 1));
    status = leaf == nullptr ? last_failure() : out->push(leaf);
  }
  buffer::storage_release(storage);
  return status;
}

// The sum over one axis, which stays.
Expr total(Expr x, size_t axis) { return uop::sum(x, std::array{static_cast<Word>(axis)}); }
Expr keep(Expr x) { return {x.g, x.g->contiguous(x.n)}; }
Expr matrix_product(Expr a, Expr b) { return {a.g, matmul(*a.g, a.n, b.n)}; }
Expr turned(Expr x) { return {x.g, tensor::turned(*x.g, x.n)}; }
Expr sign_or_one(Expr x) { return where(x < 0.0, x.like(-1), x.like(1)); }

// The unit matrix, for every matrix of the batch of like.
Expr identity(Expr like, Word size) {
  Dims shape(like.shape());
  shape[shape.size() - 1] = shape[shape.size() - 2] = size;
  const size_t n = shape.size();
  Graph& g = *like.g;
  return (iota(g, DType::kInt32, shape, n - 2) == iota(g, DType::kInt32, shape, n - 1))
      .expand(shape)
      .cast(like.dtype());
}

struct Qr {
  Expr q, r;
};

// The reflection that clears column `at` below its diagonal: q and r after it.
Qr reflect(Qr qr, Expr at, size_t n) {
  Graph& g = *qr.r.g;
  const Expr row = iota(g, DType::kInt32, qr.r.shape(), n - 2),
             column = iota(g, DType::kInt32, qr.r.shape(), n - 1);
  const Expr on_diagonal = row == at;
  const Expr x = keep(where(row >= at, total(where(column == at, qr.r, 0.0), n - 1), 0.0));
  const Expr norm = sqrt(total(x * x, n - 2)), x0 = total(where(on_diagonal, x, 0.0), n - 2);
  const Expr sign = sign_or_one(x0), active = norm != 0.0;
  const Expr u0 = x0 + sign * norm;
  const Expr v = keep(where(on_diagonal, u0, x) / where(active, u0, 1.0));
  const Expr w = where(active, sign * u0 / where(active, norm, 1.0), 0.0) * v;
  const Expr across = total(v * qr.r, n - 2);         // v^T r: [.., 1, n]
  const Expr along = total(qr.q * turned(v), n - 1);  // q v: [.., m, 1]
  return {keep(qr.q - along * turned(w)), keep(qr.r - w * across)};
}

// What steps are built in.
struct Steps {
  engine::Engine& engine;
  Context& context;
  Graph& g;
};

Status qr_of(Qr* out, const Steps& in, Node x) {
  Graph& g = in.g;
  const size_t n = x->ndim;
  const Word m = x->dim(n - 2), steps = std::min(m, x->dim(n - 1));
  Qr qr{{}, {&g, x}};
  qr.q = identity(qr.r, m);
  if (steps > kMostColumns) {
    return ASTER_FAIL(kRANGE, "reflections of %s: rows or columns may be %lld", brief(x).text,
                      static_cast<long long>(kMostColumns));
  }
  Vec<Node> numbers(in.context.heap());
  if (x->count() != 0) ASTER_TRY(step_numbers(&numbers, in.engine, in.context, steps));
  for (Node number : numbers) {
    const Expr at = Expr{&g, number};
    qr = reflect(qr, at, n);
    if (qr.q.n == nullptr || qr.r.n == nullptr) return last_failure();
  }
  *out = qr;
  return qr.q.n == nullptr || qr.r.n == nullptr ? last_failure() : kOk;
}

// ---- Singular values ----

// Sweeps over all pairs of columns; convergence is quadratic towards the end.
int sweeps_of(DType dtype) { return dtype == DType::kFloat64 ? 8 : 6; }

// Columns [from, to) of the last axis.
Expr columns(Expr x, Word from, Word to) {
  if (x.n == nullptr) return x;
  Dims start(x.ndim(), 0), step(x.ndim(), 1), size(x.shape());
  start[x.ndim() - 1] = from;
  size[x.ndim() - 1] = to - from;
  return {x.g, x.g->slice(x.n, start, step, size)};
}
Expr rows(Expr x, Word from, Word to) { return turned(columns(turned(x), from, to)); }
Expr joined(std::initializer_list<Expr> parts, int64_t axis) {
  Node nodes[5];
  size_t count = 0;
  for (const Expr& part : parts) {
    if (part.n == nullptr) return part;
    if (part.n->count() != 0 || parts.size() == 1) nodes[count++] = part.n;
  }
  Graph& g = *parts.begin()->g;
  return {&g, g.cat({nodes, count}, axis)};
}
Expr reversed(Expr x) {
  if (x.n == nullptr) return x;
  Dims mask(x.ndim(), 0);
  mask[x.ndim() - 1] = 1;
  return {x.g, x.g->flip(x.n, mask)};
}

// Columns as a tournament places them: column k of the left half plays against column k of the
// right half; an odd one at the end rests. After each round all move on by one place, so that every
// round is the same computation.
struct Tournament {
  Expr left, right, resting;  // resting has no columns where their number is even
};
Tournament seat(Expr x, Word count) {
  const Word half = count / 2;
  const Expr right = reversed(columns(x, half, count));
  return {columns(x, 0, half), columns(right, 0, half), columns(right, half, count - half)};
}
Expr unseat(Expr x, Word count) {
  const Word half = count / 2;
  return joined({columns(x, 0, half), reversed(columns(x, half, count))},
                static_cast<int64_t>(x.ndim()) - 1);
}
Tournament halves(Expr x, Word count) {
  const Word half = count / 2;
  return {columns(x, 0, half), columns(x, half, 2 * half), columns(x, 2 * half, count)};
}
Expr move_on(const Tournament& t, Word count) {
  const Word half = count / 2;
  const int64_t last = static_cast<int64_t>(t.left.ndim()) - 1;
  if (count % 2 != 0) {
    return joined({columns(t.right, 0, 1), columns(t.left, 0, half - 1), columns(t.right, 1, half),
                   t.resting, columns(t.left, half - 1, half)},
                  last);
  }
  if (half == 1) return joined({t.left, t.right}, last);
  return joined({columns(t.left, 0, 1), columns(t.right, 0, 1), columns(t.left, 1, half - 1),
                 columns(t.right, 1, half), columns(t.left, half - 1, half)},
                last);
}

// One round: the first `count` rows of every pair of columns are made orthogonal, by rotations of
// whole columns.
Expr play(Expr x, Word count, size_t n) {
  const Tournament t = halves(x, count);
  const Expr a = rows(t.left, 0, count), b = rows(t.right, 0, count);
  const Expr alpha = total(a * a, n - 2), beta = total(b * b, n - 2), gamma = total(a * b, n - 2);
  const Expr turns = gamma != 0.0;
  const Expr tau = (beta - alpha) / (2.0 * where(turns, gamma, 1.0));
  const Expr slope = sign_or_one(tau) / (abs(tau) + sqrt(1.0 + tau * tau));
  const Expr tangent = where(turns, slope, 0.0);
  const Expr c = keep(recip(sqrt(1.0 + tangent * tangent))), s = keep(c * tangent);
  return keep(move_on({c * t.left - s * t.right, s * t.left + c * t.right, t.resting}, count));
}

struct Svd {
  Expr u, s, v;  // of x with at least as many rows as columns: x = u diag(s) v^T
};

// Columns of x in the order of falling s.
Expr in_order(Expr x, Node order) {
  if (x.n == nullptr || order == nullptr) return {x.g, nullptr};
  const size_t n = x.ndim();
  Dims row(x.shape()), coordinates;
  row[n - 2] = 1;
  for (size_t i = 0; i + 1 < n; ++i) coordinates.push(static_cast<Word>(i));
  coordinates.push(-1);
  const Expr index = Expr{x.g, order}.reshape(row).expand(x.shape());
  return {x.g, x.g->gather(x.n, std::array{index.n}, coordinates, x.shape())};
}

Status svd_of(Svd* out, const Steps& in, Node x, bool full) {
  Graph& g = in.g;
  const size_t n = x->ndim;
  const Word most = x->dim(n - 2), count = x->dim(n - 1);
  Qr qr;
  ASTER_TRY(qr_of(&qr, in, x));
  const Expr square = rows(qr.r, 0, count);
  Expr both = joined({square, identity(square, count)}, static_cast<int64_t>(n) - 2);
  if (count > 1 && x->count() != 0) {
    const Tournament seats = seat(both, count);
    both = keep(joined({seats.left, seats.right, seats.resting}, static_cast<int64_t>(n) - 1));
    const Word rounds = sweeps_of(x->dtype) * (count - (count % 2 == 0 ? 1 : 0));
    for (Word i = 0; i < rounds && both.n != nullptr; ++i) both = play(both, count, n);
    both = unseat(both, count);
  }
  const Expr u = rows(both, 0, count);
  const Expr norms = sqrt(total(u * u, n - 2));  // [.., 1, count]
  if (norms.n == nullptr) return last_failure();
  const Expr flat{&g, drop_axes(g, norms.n, std::array{static_cast<Word>(n - 2)})};
  const Node order = g.argsort(flat.n, static_cast<int64_t>(n) - 2, true, count);
  const Expr sorted = in_order(both, order), s = in_order(norms, order);
  const Expr found = rows(sorted, 0, count) / where(s != 0.0, s, 1.0);
  if (found.n == nullptr) return last_failure();
  // Columns of a value 0 are no direction: reflections that clear the others leave the rest of an
  // orthonormal basis in their places.
  Qr basis;
  ASTER_TRY(qr_of(&basis, in, found.detach().n));
  const Expr left = where(s != 0.0, found, basis.q);
  const Expr first = matrix_product(columns(qr.q, 0, count), left);
  out->u = full ? joined({first, columns(qr.q, count, most)}, static_cast<int64_t>(n) - 1) : first;
  out->v = rows(sorted, count, 2 * count);
  out->s = {&g, drop_axes(g, s.n, std::array{static_cast<Word>(n - 2)})};
  return out->u.n == nullptr || out->v.n == nullptr || out->s.n == nullptr ? last_failure() : kOk;
}

}  // namespace

Status qr_graph(QrGraph* out, Context& context, Graph& g, Node x) {
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine::engine_of(&engine, context));
  Qr qr;
  ASTER_TRY(qr_of(&qr, {*engine, context, g}, x));
  *out = {qr.q.n, qr.r.n};
  return kOk;
}

Decomposed svd_graph(Context& context, Graph& g, Node x, bool full) {
  engine::Engine* engine = nullptr;
  const bool tall = x->dim(x->ndim - 2u) >= x->dim(x->ndim - 1u);
  Svd svd;
  if (!engine::engine_of(&engine, context).ok() ||
      !svd_of(&svd, {*engine, context, g}, tall ? x : tensor::turned(g, x), full).ok())
    return {};
  const Node left = svd.u.n, right = svd.v.n;
  return {{tall ? left : right, svd.s.n, tensor::turned(g, tall ? right : left)}};
}

}  // namespace aster::tensor
