// Gradients of decompositions and solutions, as graphs of products, solutions and triangles: those
// of M. Giles (2008) and, of QR, S. Walter and L. Lehmann (2010). What a function does not look at,
// a triangle for example, has the gradient 0.
#include <array>

#include "gradient/gradient.h"
#include "tensor/linalg.h"
#include "tensor/matrices.h"
#include "tensor/movement.h"

namespace aster::tensor {
namespace {

using uop::Dims;

// A matrix, or a batch of them, of a problem's dtype.
struct Matrices {
  Context& context;
  Graph& g;
  Problem problem;

  Expr times(Expr a, Expr b) const { return {&g, matmul(g, a.n, b.n)}; }
  Expr t(Expr a) const { return {&g, turned(g, a.n)}; }
  Expr lower(Expr a, int64_t diagonal = 0) const { return {&g, tril(g, a.n, diagonal)}; }
  Expr upper(Expr a, int64_t diagonal = 0) const { return {&g, triu(g, a.n, diagonal)}; }
  Expr columns(Expr x, Word from, Word to) const { return part(x, x.ndim() - 1, from, to); }
  Expr rows(Expr x, Word from, Word to) const { return part(x, x.ndim() - 2, from, to); }
  Expr join(Expr a, Expr b, size_t axis_from_end) const {
    if (a.n == nullptr || b.n == nullptr) return {&g, nullptr};
    const Node both[] = {a.n, b.n};
    return {&g, g.cat(both, static_cast<int64_t>(a.ndim() - axis_from_end))};
  }
  // The triangular system of a, or of its transpose.
  Expr solve(Expr a, bool is_upper, bool turn, bool unit, Expr b) const {
    Problem p{};
    p.what = What::kTriangular;
    p.upper = is_upper;
    p.turned = turn;
    p.unit = unit;
    return {&g, decompose_one(context, g, p, a.n, b.n)};
  }
  Decomposed again(What what, Node a) const {
    Problem p = problem;
    p.what = what;
    return decompose(context, g, p, a);
  }
  // A vector as a row over the rows of a matrix, or as a column beside its columns.
  Expr as_row(Expr v) const { return with_axis(v, v.ndim() - 1); }
  Expr as_column(Expr v) const { return with_axis(v, v.ndim()); }
  // 1 on the diagonal of an n by n matrix, as a condition that broadcasts.
  Expr on_diagonal(Word n) const {
    const std::array shape{n, n};
    return iota(g, DType::kInt64, shape, 0) == iota(g, DType::kInt64, shape, 1);
  }
  Expr diagonal(Expr v) const {
    if (v.n == nullptr) return v;
    return where(on_diagonal(v.shape().back()), as_row(v), 0.0);
  }
  // What the triangle that a symmetric matrix is read from gets.
  Expr of_triangle(Expr x) const {
    if (x.n == nullptr) return x;
    const Expr both = x + t(x);
    const Expr half = where(on_diagonal(x.shape().back()), x, both);
    return problem.upper ? upper(half) : lower(half);
  }

 private:
  Expr part(Expr x, size_t axis, Word from, Word to) const {
    if (x.n == nullptr) return x;
    Dims start(x.ndim(), 0), step(x.ndim(), 1), size(x.shape());
    start[axis] = from;
    size[axis] = to - from;
    return {&g, g.slice(x.n, start, step, size)};
  }
  Expr with_axis(Expr v, size_t at) const {
    if (v.n == nullptr) return v;
    Dims shape;
    for (size_t i = 0; i < v.ndim(); ++i) {
      if (i == at) shape.push(1);
      shape.push(v.shape()[i]);
    }
    if (at == v.ndim()) shape.push(1);
    return v.reshape(shape);
  }
};

// p l^-T (tril(l^T dl, -1) + triu(du u^T)) u^-T
Expr lu_gradient(const Matrices& m, Expr p, Expr l, Expr u, Expr dl, Expr du) {
  const Expr middle = m.lower(m.times(m.t(l), dl), -1) + m.upper(m.times(du, m.t(u)));
  const Expr left = m.solve(l, false, true, true, middle);
  return m.times(p, m.t(m.solve(u, true, false, false, m.t(left))));
}

Expr of_lu(const Matrices& m, const Decomposed& y, const Decomposed& dy) {
  Graph& g = m.g;
  if (m.problem.what == What::kLu)
    return lu_gradient(m, {&g, y.of[0]}, {&g, y.of[1]}, {&g, y.of[2]}, {&g, dy.of[1]},
                       {&g, dy.of[2]});
  const Expr both{&g, y.of[0]}, d{&g, dy.of[0]};
  const Word n = m.problem.n;
  const std::array shape{n, n};
  const Expr p =
      (iota(g, DType::kInt64, shape, 0) == m.as_row(Expr{&g, y.of[1]}.cast(DType::kInt64)))
          .cast(both.dtype());
  const Expr l = where(m.on_diagonal(n), 1.0, m.lower(both));
  return lu_gradient(m, p, l, m.upper(both), m.lower(d, -1), m.upper(d));
}

// l^-T phi(l^T dl) l^-1, phi taking the lower triangle and half the diagonal.
Expr of_cholesky(const Matrices& m, Expr y, Expr dy) {
  if (y.n == nullptr) return y;
  const Expr l = m.problem.upper ? m.t(y) : y, dl = m.problem.upper ? m.t(dy) : dy;
  const Expr product = m.lower(m.times(m.t(l), dl));
  const Expr phi = where(m.on_diagonal(m.problem.n), product * 0.5, product);
  const Expr left = m.solve(l, false, true, false, phi);
  const Expr s = m.solve(l, false, true, false, m.t(left));  // of the transpose
  return m.of_triangle((s + m.t(s)) * 0.5);
}

// (dq + q sym(r dr^T - dq^T q)) r^-T, sym taking the lower triangle to both.
Expr tall_qr(const Matrices& m, Expr q, Expr r, Expr dq, Expr dr) {
  const Expr middle = m.times(r, m.t(dr)) - m.times(m.t(dq), q);
  const Expr sym = m.lower(middle) + m.t(m.lower(middle, -1));
  const Expr right = dq + m.times(q, sym);
  return m.t(m.solve(r, true, false, false, m.t(right)));
}

// A wide matrix is a square one and what q^T makes of the rest.
Expr wide_qr(const Matrices& m, Node x, Expr q, Expr r, Expr dq, Expr dr) {
  const Word rows = m.problem.m, all = m.problem.n;
  const Expr rest = m.columns({&m.g, x}, rows, all), drest = m.columns(dr, rows, all);
  const Expr all_dq = dq + m.times(rest, m.t(drest));
  const Expr square = tall_qr(m, q, m.columns(r, 0, rows), all_dq, m.columns(dr, 0, rows));
  return m.join(square, m.times(q, drest), 1);
}

// q has columns that x does not determine: the gradient is that of the reflections themselves.
Status of_complete_qr(Expr* out, const Matrices& m, Node x, const Decomposed& dy) {
  QrGraph steps;
  ASTER_TRY(qr_graph(&steps, m.context, m.g, x));
  Node from_q = nullptr, from_r = nullptr;
  ASTER_TRY(gradient::gradient(m.g, steps.q, dy.of[0], {&x, 1}, {&from_q, 1}));
  ASTER_TRY(gradient::gradient(m.g, steps.r, dy.of[1], {&x, 1}, {&from_r, 1}));
  *out = Expr{&m.g, from_q} + Expr{&m.g, from_r};
  return kOk;
}

// Of the first k columns of u and rows of vt: what stands beyond them is any basis of the rest.
Expr of_svd(const Matrices& m, const Decomposed& y, const Decomposed& dy) {
  Graph& g = m.g;
  const Word k = std::min(m.problem.m, m.problem.n);
  const Expr u = m.columns({&g, y.of[0]}, 0, k), du = m.columns({&g, dy.of[0]}, 0, k);
  const Expr s{&g, y.of[1]}, ds{&g, dy.of[1]};
  const Expr vt = m.rows({&g, y.of[2]}, 0, k), dvt = m.rows({&g, dy.of[2]}, 0, k);
  if (s.n == nullptr) return s;
  const Expr same = m.on_diagonal(k);
  const Expr squares = m.as_row(s * s) - m.as_column(s * s);
  const Expr f = where(same, 0.0, recip(where(same, 1.0, squares)));
  const Expr skew_u = m.times(m.t(u), du), skew_v = m.times(vt, m.t(dvt));
  const Expr from_u = (skew_u - m.t(skew_u)) * f * m.as_row(s);
  const Expr from_v = m.as_column(s) * (skew_v - m.t(skew_v)) * f;
  Expr out = m.times(m.times(u, from_u + from_v + m.diagonal(ds)), vt);
  const Expr inverse = recip(s);
  if (m.problem.m > k) {
    const Expr rest = du - m.times(u, skew_u);
    out = out + m.times(rest * m.as_row(inverse), vt);
  }
  if (m.problem.n > k) {
    const Expr rest = dvt - m.times(m.t(skew_v), vt);
    out = out + m.times(u * m.as_row(inverse), rest);
  }
  return out;
}

// v (diag(dw) + v^T dv / (w_j - w_i)) v^T
Expr of_eigh(const Matrices& m, const Decomposed& y, const Decomposed& dy) {
  Graph& g = m.g;
  const Expr w{&g, y.of[0]}, dw{&g, dy.of[0]}, v{&g, y.of[1]}, dv{&g, dy.of[1]};
  if (w.n == nullptr) return w;
  const Expr same = m.on_diagonal(m.problem.n);
  const Expr apart = m.as_row(w) - m.as_column(w);
  const Expr f = where(same, 0.0, recip(where(same, 1.0, apart)));
  const Expr inner = m.times(m.t(v), dv) * f + m.diagonal(dw);
  const Expr full = m.times(m.times(v, inner), m.t(v));
  return m.of_triangle((full + m.t(full)) * 0.5);
}

Expr of_values(const Matrices& m, Node x, Expr dy) {
  Graph& g = m.g;
  if (m.problem.what == What::kEighValues) {
    const Expr v{&g, m.again(What::kEigh, x).of[1]};
    const Expr full = m.times(v * m.as_row(dy), m.t(v));
    return m.of_triangle(full);
  }
  Matrices reduced = m;
  reduced.problem.reduced = true;
  const Decomposed svd = reduced.again(What::kSvd, x);
  return m.times(Expr{&g, svd.of[0]} * m.as_row(dy), {&g, svd.of[2]});
}

// The block matrix of a^T, dy and a^T again has the gradient in its exponential's corner.
Expr of_expm(const Matrices& m, Node x, Expr dy) {
  const Word n = m.problem.n;
  const Expr a = m.t({&m.g, x});
  const Expr block = m.join(m.join(a, dy, 1), m.join(a.like(0), a, 1), 2);
  if (block.n == nullptr) return block;
  Problem p{};
  p.what = What::kExpm;
  const Expr y{&m.g, decompose_one(m.context, m.g, p, block.n)};
  return m.columns(m.rows(y, 0, n), n, 2 * n);
}

Expr of_determinant(const Matrices& m, Node x, const Decomposed& y, const Decomposed& dy) {
  Graph& g = m.g;
  const Expr value{&g, y.of[0]}, dvalue{&g, dy.of[0]}, dlog{&g, dy.of[2]};
  const Expr factor = dvalue * value + dlog;
  const Expr inverse{&g, m.again(What::kInverse, x).of[0]};
  if (factor.n == nullptr) return factor;
  Dims shape(factor.shape());
  shape.push(1);
  shape.push(1);
  return factor.reshape(shape) * m.t(inverse);
}

// a x = b: db is the solution of the transposed system, da = -db x^T, or its transpose.
void of_solution(const Matrices& m, Node y, Node dy, std::span<const bool> needed,
                 std::span<Node> dx) {
  Graph& g = m.g;
  const Problem& p = m.problem;
  const Node a = y->src(0);
  Problem back = p;
  back.turned = !p.turned;
  const Expr db{&g, decompose_one(m.context, g, back, a, dy)};
  if (needed[1]) dx[1] = db.n;
  if (!needed[0]) return;
  const Expr x{&g, y};
  Expr da = -(p.turned ? m.times(x, m.t(db)) : m.times(db, m.t(x)));
  if (p.what == What::kTriangular)
    da = p.upper ? m.upper(da, p.unit ? 1 : 0) : m.lower(da, p.unit ? -1 : 0);
  dx[0] = da.n;
}

Status of_one(Expr* out, const Matrices& m, Node x, Node y, Node dy) {
  Graph& g = m.g;
  const Words batch = x->shape().first(x->ndim - 2u);
  const Decomposed ys = parts_of(g, m.problem, batch, y), ds = parts_of(g, m.problem, batch, dy);
  const Expr first{&g, ys.of[0]}, dfirst{&g, ds.of[0]};
  const Expr second{&g, ys.of[1]}, dsecond{&g, ds.of[1]};
  switch (m.problem.what) {
    case What::kLu:
    case What::kLuFactor:
      *out = of_lu(m, ys, ds);
      break;
    case What::kCholesky:
      *out = of_cholesky(m, first, dfirst);
      break;
    case What::kQr:
      if (m.problem.m < m.problem.n) {
        *out = wide_qr(m, x, first, second, dfirst, dsecond);
      } else if (m.problem.m == m.problem.n || m.problem.reduced) {
        *out = tall_qr(m, first, second, dfirst, dsecond);
      } else {
        return of_complete_qr(out, m, x, ds);
      }
      break;
    case What::kSvd:
      *out = of_svd(m, ys, ds);
      break;
    case What::kSvdValues:
    case What::kEighValues:
      *out = of_values(m, x, dfirst);
      break;
    case What::kEigh:
      *out = of_eigh(m, ys, ds);
      break;
    case What::kInverse:
      *out = -m.times(m.times(m.t(first), dfirst), m.t(first));
      break;
    case What::kDeterminant:
      *out = of_determinant(m, x, ys, ds);
      break;
    case What::kExpm:
      *out = of_expm(m, x, dfirst);
      break;
    case What::kEig:
    case What::kEigValues:
    case What::kSolve:
    case What::kTriangular:
      break;
  }
  return kOk;
}

}  // namespace

bool has_gradient(const Problem& p) {
  if (!dtype::is_float(p.dtype)) return false;
  if (p.what == What::kLu || p.what == What::kLuFactor) return p.m == p.n;
  return p.what != What::kEig && p.what != What::kEigValues;
}

Status decomposed_gradient(Context& context, const Problem& problem, Graph& g, Node y, Node dy,
                           std::span<const bool> needed, std::span<Node> dx) {
  const Matrices m{context, g, problem};
  if (problem.what == What::kSolve || problem.what == What::kTriangular) {
    of_solution(m, y, dy, needed, dx);
  } else if (needed[0]) {
    const bool lies_turned = problem.turned;
    const Node x = lies_turned ? turned(g, y->src(0)) : y->src(0);
    if (x == nullptr) return last_failure();
    Expr out;
    ASTER_TRY(of_one(&out, m, x, y, dy));
    dx[0] = lies_turned ? turned(g, out.n) : out.n;
  }
  for (size_t i = 0; i < y->nsrc; ++i) {
    if (needed[i] && dx[i] == nullptr) return last_failure();
  }
  return kOk;
}

}  // namespace aster::tensor
