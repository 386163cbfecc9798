// The public functions of decompositions and solutions: checks, dtypes, and what is made of
// decompositions by the operations of graphs.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "aster_ml/linalg.h"
#include "flt/formats.h"
#include "flt/mpfr.h"
#include "tensor/linalg.h"
#include "tensor/matrices.h"
#include "tensor/movement.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;

using Outs = std::initializer_list<aster_ml_lazy*>;

// Clears what the call is to write; ARGUMENT where a place is missing, given twice or an input's.
Status clear_outs(Outs outs, std::initializer_list<Input> inputs) {
  Status status;
  for (auto out = outs.begin(); out != outs.end(); ++out) {
    if (*out == nullptr) {
      status = ASTER_FAIL(kARGUMENT, "an out is a null pointer");
    } else if (std::find(inputs.begin(), inputs.end(), *out) != inputs.end()) {
      status = ASTER_FAIL(kARGUMENT, "out is the handle of an input");
    } else if (std::find(outs.begin(), out, *out) != out) {
      status = ASTER_FAIL(kARGUMENT, "two results in one handle");
    }
  }
  for (aster_ml_lazy* out : outs) {
    if (out != nullptr && std::find(inputs.begin(), inputs.end(), out) == inputs.end())
      out->impl = nullptr;
  }
  return status;
}

Problem problem_of(What what, int32_t upper = 0) {
  Problem how{};
  how.what = what;
  how.upper = upper != 0;
  return how;
}

// One call: its inputs as float32 or float64, its results in the dtype that was given.
class Call {
 public:
  // sticky: integers of that kind may be given, and are computed with as what stores them, in the
  // dtype of their sums.
  Call(const char* name, Outs outs, std::initializer_list<Input> inputs, bool sticky = false)
      : name_(name), sticky_(sticky), status_(start(outs, inputs)) {}
  Status status() const { return status_; }
  Graph& graph() { return build_->graph(); }
  Context& context() { return build_->context(); }
  bool strict() const { return build_->strict(); }
  Node operand(size_t i) const { return nodes_[i]; }
  // Rows and columns of an operand.
  Word rows(size_t i = 0) const { return nodes_[i]->dim(nodes_[i]->ndim - 2u); }
  Word columns(size_t i = 0) const { return nodes_[i]->dim(nodes_[i]->ndim - 1u); }

  Decomposed decompose(What what) { return decompose(problem_of(what)); }
  Decomposed decompose(const Problem& how) {
    return tensor::decompose(context(), graph(), how, nodes_[0], nodes_[1]);
  }
  // A result that has elements of the matrix.
  Node own(Node result) { return dtype::is_sticky(own_) ? bitcast(graph(), result, own_) : result; }
  // Results in order, cast to the inputs' own dtype but for those of whole numbers.
  Status finish(std::initializer_list<Node> results) {
    return finish(Nodes{results.begin(), results.size()});
  }
  Status finish(Nodes results) {
    Node made[kMostResults] = {};
    size_t count = 0;
    for (Node result : results) {
      const bool whole = result != nullptr && !dtype::is_float(result->dtype);
      made[count++] = whole ? result : cast(graph(), result, own_);
    }
    aster_ml_lazy handles[kMostResults] = {};
    ASTER_TRY(make_handles_beside(handles, *build_, {made, count}));
    for (size_t i = 0; i < count; ++i) *outs_[i] = handles[i];
    return kOk;
  }

 private:
  Status start(Outs outs, std::initializer_list<Input> inputs) {
    ASTER_TRY(clear_outs(outs, inputs));
    std::copy(outs.begin(), outs.end(), outs_);
    build_.emplace(&unused_, inputs);
    ASTER_TRY(build_->status());
    const Input right = inputs.size() > 1 ? inputs.begin()[1] : nullptr;
    ASTER_TRY(sized::matrices(*build_, inputs.begin()[0], right));
    size_t i = 0;
    for (Input x : inputs) {
      const Node given = node(x);
      if (i == 0 && given->ndim < 2)
        return ASTER_FAIL(kSHAPE, "%s of %s: two axes are needed", name_, brief(given).text);
      if (!dtype::is_float(given->dtype) && !(sticky_ && dtype::is_sticky(given->dtype))) {
        return ASTER_FAIL(kDTYPE, "%s of %s: a float dtype is needed", name_, brief(given).text);
      }
      const DType strong = graph().strong(given->dtype);
      own_ = i == 0 ? strong : dtype::least_upper(own_, strong);
      if (own_ == DType::kNone)
        return ASTER_FAIL(kDTYPE, "%s of %s and %s: they have no dtype in common", name_,
                          brief(nodes_[0]).text, brief(given).text);
      nodes_[i++] = given;
    }
    // Narrow floats are computed in float32.
    const DType within = dtype::sum_acc(own_);
    const bool sticky = dtype::is_sticky(within);
    if (sticky) own_ = within;
    for (Node& n : nodes_) {
      if (n == nullptr) continue;
      n = cast(graph(), n, within);
      if (sticky) n = bitcast(graph(), n, dtype::stored_as(within));
      if (n == nullptr) return last_failure();
    }
    return kOk;
  }

  const char* name_;
  const bool sticky_;
  aster_ml_lazy* outs_[kMostResults] = {};
  aster_ml_lazy unused_{};
  std::optional<Build> build_;
  Node nodes_[2] = {};
  DType own_ = DType::kNone;
  Status status_;
};

// ---- What is made of decompositions ----

Expr elements(Expr x, Word from, Word to) {  // of the last axis
  if (x.n == nullptr) return x;
  Dims start(x.ndim(), 0), step(x.ndim(), 1), size(x.shape());
  start[x.ndim() - 1] = from;
  size[x.ndim() - 1] = to - from;
  return {x.g, x.g->slice(x.n, start, step, size)};
}
Expr without_last(Expr x) {
  if (x.n == nullptr) return x;
  return {x.g, drop_axes(*x.g, x.n, std::array{static_cast<Word>(x.ndim() - 1)})};
}
// [..., k] as a column of a matrix.
Expr as_column(Expr x) {
  if (x.n == nullptr) return x;
  Dims shape(x.shape());
  shape.push(1);
  return x.reshape(shape);
}

double epsilon_of(DType d) {
  if (dtype::is_wide(d)) {
    return flt::with_limbs(d,
                           [](auto n) { return std::ldexp(1.0, 1 - flt::Format<n>::kPrecision); });
  }
  return d == DType::kFloat32 ? std::numeric_limits<float>::epsilon()
                              : std::numeric_limits<double>::epsilon();
}

// Values that count: above rcond times the largest; where rcond is negative, above what rounding
// leaves of 0.
Expr counted(Expr s, Word m, Word n, double rcond) {
  if (s.n == nullptr) return s;
  const double epsilon = epsilon_of(s.dtype());
  const double limit = rcond < 0 ? epsilon * static_cast<double>(std::max(m, n)) : rcond;
  return s > elements(s, 0, 1) * limit;
}
Node count_of(Graph& g, Expr which) {
  const int64_t last[] = {-1};
  return sum(g, cast(g, which.n, DType::kInt32), {1, last}, false);
}

// The reduced decomposition of the first operand, with the values that count.
struct Ranked {
  Expr u, s, vt, counts;
};
Ranked ranked(Call& call, double rcond) {
  Problem how{};
  how.what = What::kSvd;
  how.reduced = true;
  Graph& g = call.graph();
  const Decomposed svd = tensor::decompose(call.context(), g, how, call.operand(0));
  const Expr s{&g, svd.of[1]};
  return {{&g, svd.of[0]}, s, {&g, svd.of[2]}, counted(s, call.rows(), call.columns(), rcond)};
}
// v diag(1 / s) u^T b over the values that count; b null: 1.
Node pseudo_solution(Graph& g, const Ranked& r, Node b) {
  if (r.s.n == nullptr) return nullptr;
  const Expr inverse = where(r.counts, recip(where(r.counts, r.s, 1.0)), 0.0);
  Node right = turned(g, r.u.n);
  if (b != nullptr) right = matmul(g, right, b);
  const Expr scaled = as_column(inverse) * Expr{&g, right};
  return matmul(g, turned(g, r.vt.n), scaled.n);
}

enum class Norm { kFrobenius, kNuclear, kColumns, kRows, kSpectral };
struct NormRow {
  const char* name;
  Norm norm;
  bool least;
};
constexpr NormRow kNorms[] = {
    {"fro", Norm::kFrobenius, false}, {"nuc", Norm::kNuclear, false}, {"1", Norm::kColumns, false},
    {"-1", Norm::kColumns, true},     {"inf", Norm::kRows, false},    {"-inf", Norm::kRows, true},
    {"2", Norm::kSpectral, false},    {"-2", Norm::kSpectral, true},
};

Status norm_row(const NormRow** out, const char* order, Node x) {
  *out = nullptr;
  if (order == nullptr) return ASTER_FAIL(kARGUMENT, "the order of a norm is a null pointer");
  for (const NormRow& row : kNorms) {
    if (std::strcmp(row.name, order) == 0) *out = &row;
  }
  if (*out == nullptr) {
    return ASTER_FAIL(kNOT_FOUND, "no norm \"%.16s\": fro, nuc, 1, -1, 2, -2, inf and -inf are",
                      order);
  }
  if (x->dim(x->ndim - 1u) == 0 || x->dim(x->ndim - 2u) == 0)
    return ASTER_FAIL(kSHAPE, "a norm of %s: it has no elements", brief(x).text);
  return kOk;
}

Expr values_of(Context& context, Graph& g, Node x) {
  Problem how{};
  how.what = What::kSvdValues;
  return {&g, decompose_one(context, g, how, x)};
}

Node norm_of(Context& context, Graph& g, Node x, const NormRow& row) {
  const int64_t both[] = {-2, -1}, last[] = {-1}, across[] = {row.norm == Norm::kColumns ? -2 : -1};
  const auto extreme = [&](Node n) {
    return row.least ? min(g, n, {1, last}, false) : max(g, n, {1, last}, false);
  };
  if (row.norm == Norm::kFrobenius)
    return unary(g, sum(g, unary(g, x, ops::square), {2, both}, false), ops::sqrt);
  if (row.norm == Norm::kColumns || row.norm == Norm::kRows)
    return extreme(sum(g, unary(g, x, ops::abs), {1, across}, false));
  const Node values = values_of(context, g, x).n;
  return row.norm == Norm::kNuclear ? sum(g, values, {1, last}, false) : extreme(values);
}

// b as a matrix, and the result as b: one axis is one column.
Status solution(Call& call, const Problem& how) {
  Graph& g = call.graph();
  Node b = call.operand(1);
  const bool vector = b->ndim == 1;
  if (b->ndim == 0)
    return ASTER_FAIL(kSHAPE, "a solution for %s: an axis is needed", brief(b).text);
  if (vector) b = g.reshape(b, std::array{b->dim(0), Word{1}});
  const Expr x{&g, decompose_one(call.context(), g, how, call.operand(0), b)};
  return call.finish({vector ? without_last(x).n : x.n});
}

// What one decomposition gives, as it is.
Status decomposed(const char* name, Outs outs, Input x, const Problem& how) {
  Call call(name, outs, {x});
  ASTER_TRY(call.status());
  const Decomposed d = call.decompose(how);
  return call.finish(Nodes{d.of, outs.size()});
}
Status decomposed(const char* name, Outs outs, Input x, What what) {
  return decomposed(name, outs, x, problem_of(what));
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;

int32_t aster_ml_lazy_lu(aster_ml_lazy* out_p, aster_ml_lazy* out_l, aster_ml_lazy* out_u,
                         const aster_ml_lazy* x) {
  ASTER_API();
  Call call("lu", {out_p, out_l, out_u}, {x}, true);
  ASTER_TRY(call.status());
  const Decomposed d = call.decompose(What::kLu);
  return call.finish({call.own(d.of[0]), call.own(d.of[1]), call.own(d.of[2])});
}

int32_t aster_ml_lazy_lu_factor(aster_ml_lazy* out_lu, aster_ml_lazy* out_rows,
                                const aster_ml_lazy* x) {
  ASTER_API();
  Call call("lu_factor", {out_lu, out_rows}, {x}, true);
  ASTER_TRY(call.status());
  const Decomposed d = call.decompose(What::kLuFactor);
  return call.finish({call.own(d.of[0]), cast(call.graph(), d.of[1], DType::kInt32)});
}

int32_t aster_ml_lazy_cholesky(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t upper) {
  ASTER_API();
  return decomposed("cholesky", {out}, x, problem_of(What::kCholesky, upper));
}

int32_t aster_ml_lazy_qr(aster_ml_lazy* out_q, aster_ml_lazy* out_r, const aster_ml_lazy* x) {
  ASTER_API();
  return decomposed("qr", {out_q, out_r}, x, What::kQr);
}

int32_t aster_ml_lazy_qr_reduced(aster_ml_lazy* out_q, aster_ml_lazy* out_r,
                                 const aster_ml_lazy* x) {
  ASTER_API();
  Call call("qr", {out_q, out_r}, {x});
  ASTER_TRY(call.status());
  Problem how = problem_of(What::kQr);
  how.reduced = call.rows() > call.columns();
  const Decomposed d = call.decompose(how);
  return call.finish({d.of[0], d.of[1]});
}

int32_t aster_ml_lazy_svd(aster_ml_lazy* out_u, aster_ml_lazy* out_s, aster_ml_lazy* out_vt,
                          const aster_ml_lazy* x, int32_t full_matrices) {
  ASTER_API();
  Call call("svd", {out_u, out_s, out_vt}, {x});
  ASTER_TRY(call.status());
  Problem how = problem_of(What::kSvd);
  how.reduced = full_matrices == 0 && call.rows() != call.columns();
  const Decomposed d =
      call.strict() ? svd_graph(call.context(), call.graph(), call.operand(0), full_matrices != 0)
                    : call.decompose(how);
  return call.finish({d.of[0], d.of[1], d.of[2]});
}

int32_t aster_ml_lazy_svdvals(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  return decomposed("svdvals", {out}, x, What::kSvdValues);
}

int32_t aster_ml_lazy_eigh(aster_ml_lazy* out_w, aster_ml_lazy* out_v, const aster_ml_lazy* x,
                           int32_t upper) {
  ASTER_API();
  return decomposed("eigh", {out_w, out_v}, x, problem_of(What::kEigh, upper));
}

int32_t aster_ml_lazy_eigvalsh(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t upper) {
  ASTER_API();
  return decomposed("eigvalsh", {out}, x, problem_of(What::kEighValues, upper));
}

int32_t aster_ml_lazy_eig(aster_ml_lazy* out_re, aster_ml_lazy* out_im, aster_ml_lazy* out_v,
                          const aster_ml_lazy* x) {
  ASTER_API();
  return decomposed("eig", {out_re, out_im, out_v}, x, What::kEig);
}

int32_t aster_ml_lazy_eigvals(aster_ml_lazy* out_re, aster_ml_lazy* out_im,
                              const aster_ml_lazy* x) {
  ASTER_API();
  return decomposed("eigvals", {out_re, out_im}, x, What::kEigValues);
}

int32_t aster_ml_lazy_solve(aster_ml_lazy* out, const aster_ml_lazy* a, const aster_ml_lazy* b) {
  ASTER_API();
  Call call("solve", {out}, {a, b});
  ASTER_TRY(call.status());
  return solution(call, problem_of(What::kSolve));
}

int32_t aster_ml_lazy_solve_triangular(aster_ml_lazy* out, const aster_ml_lazy* a,
                                       const aster_ml_lazy* b, int32_t upper, int32_t transposed,
                                       int32_t unit_diagonal) {
  ASTER_API();
  Call call("solve_triangular", {out}, {a, b});
  ASTER_TRY(call.status());
  Problem how = problem_of(What::kTriangular, upper);
  how.turned = transposed != 0;
  how.unit = unit_diagonal != 0;
  return solution(call, how);
}

int32_t aster_ml_lazy_inv(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  return decomposed("inv", {out}, x, What::kInverse);
}

int32_t aster_ml_lazy_det(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  return decomposed("det", {out}, x, What::kDeterminant);
}

int32_t aster_ml_lazy_slogdet(aster_ml_lazy* out_sign, aster_ml_lazy* out_logabs,
                              const aster_ml_lazy* x) {
  ASTER_API();
  Call call("slogdet", {out_sign, out_logabs}, {x});
  ASTER_TRY(call.status());
  if (aster::dtype::is_wide(call.operand(0)->dtype)) ASTER_TRY(aster::flt::mpfr_ready());
  const Decomposed d = call.decompose(What::kDeterminant);
  return call.finish({d.of[1], d.of[2]});
}

int32_t aster_ml_lazy_expm(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  return decomposed("expm", {out}, x, What::kExpm);
}

int32_t aster_ml_lazy_lstsq(aster_ml_lazy* out_x, aster_ml_lazy* out_rank, aster_ml_lazy* out_s,
                            const aster_ml_lazy* a, const aster_ml_lazy* b, double rcond) {
  ASTER_API();
  Call call("lstsq", {out_x, out_rank, out_s}, {a, b});
  ASTER_TRY(call.status());
  Graph& g = call.graph();
  Node right = call.operand(1);
  const bool vector = right->ndim == 1;
  if (vector) right = g.reshape(right, std::array{right->dim(0), Word{1}});
  if (right == nullptr || right->ndim < 2 || right->dim(right->ndim - 2u) != call.rows()) {
    return ASTER_FAIL(kSHAPE, "lstsq of %s and %s: as many rows are needed",
                      brief(call.operand(0)).text, brief(call.operand(1)).text);
  }
  if (call.rows() == 0 || call.columns() == 0)
    return ASTER_FAIL(kSHAPE, "lstsq of %s: it has no elements", brief(call.operand(0)).text);
  const Ranked r = ranked(call, rcond);
  const Expr x{&g, pseudo_solution(g, r, right)};
  return call.finish({vector ? without_last(x).n : x.n, count_of(g, r.counts), r.s.n});
}

int32_t aster_ml_lazy_pinv(aster_ml_lazy* out, const aster_ml_lazy* x, double rcond) {
  ASTER_API();
  Call call("pinv", {out}, {x});
  ASTER_TRY(call.status());
  Graph& g = call.graph();
  if (call.rows() == 0 || call.columns() == 0) return call.finish({turned(g, call.operand(0))});
  return call.finish({pseudo_solution(g, ranked(call, rcond), nullptr)});
}

int32_t aster_ml_lazy_matrix_rank(aster_ml_lazy* out, const aster_ml_lazy* x, double rcond) {
  ASTER_API();
  Call call("matrix_rank", {out}, {x});
  ASTER_TRY(call.status());
  Graph& g = call.graph();
  const Expr s = values_of(call.context(), g, call.operand(0));
  if (call.rows() == 0 || call.columns() == 0) return call.finish({count_of(g, s != s)});
  return call.finish({count_of(g, counted(s, call.rows(), call.columns(), rcond))});
}

int32_t aster_ml_lazy_matrix_norm(aster_ml_lazy* out, const aster_ml_lazy* x, const char* order) {
  ASTER_API();
  Call call("matrix_norm", {out}, {x});
  ASTER_TRY(call.status());
  const NormRow* row = nullptr;
  ASTER_TRY(norm_row(&row, order, call.operand(0)));
  return call.finish({norm_of(call.context(), call.graph(), call.operand(0), *row)});
}

int32_t aster_ml_lazy_cond(aster_ml_lazy* out, const aster_ml_lazy* x, const char* order) {
  ASTER_API();
  Call call("cond", {out}, {x});
  ASTER_TRY(call.status());
  const NormRow* row = nullptr;
  ASTER_TRY(norm_row(&row, order, call.operand(0)));
  Graph& g = call.graph();
  if (row->norm == Norm::kSpectral) {
    const Expr s = values_of(call.context(), g, call.operand(0));
    const Word k = std::min(call.rows(), call.columns());
    const Expr most = elements(s, 0, 1), least = elements(s, k - 1, k);
    return call.finish({without_last(row->least ? least / most : most / least).n});
  }
  const Expr own{&g, norm_of(call.context(), g, call.operand(0), *row)};
  const Node inverse = call.decompose(What::kInverse).of[0];
  if (inverse == nullptr) return aster::last_failure();
  return call.finish({(own * Expr{&g, norm_of(call.context(), g, inverse, *row)}).n});
}
