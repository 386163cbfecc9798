// Scaled dot-product attention: two matrix products with the scale, the mask and the softmax in one
// pass between them.
#include <algorithm>
#include <array>
#include <cmath>

#include "aster_ml/linalg.h"
#include "tensor/api.h"
#include "tensor/attention.h"
#include "tensor/linalg.h"
#include "tensor/random.h"
#include "tensor/registry.h"
#include "tensor/sized.h"
#include "uop/composite.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;

struct Asked : Attention {
  double dropout_p;
  bool training;
};

Status check(const Asked& a) {
  const Node q = a.query, k = a.key, v = a.value;
  const size_t least = a.grouped ? 3 : 2;
  bool fits = q->ndim >= least && k->ndim >= least && v->ndim >= least;
  fits = fits && q->dim(q->ndim - 1u) == k->dim(k->ndim - 1u) &&
         k->dim(k->ndim - 2u) == v->dim(v->ndim - 2u);
  for (Node x : {k, v}) {
    if (!fits || !a.grouped) break;
    const Word heads = x->dim(x->ndim - 3u);
    fits = heads > 0 && q->dim(q->ndim - 3u) % heads == 0;
  }
  if (!fits) {
    return ASTER_FAIL(kSHAPE, "attention of query %s, key %s, value %s%s", brief(q).text,
                      brief(k).text, brief(v).text, a.grouped ? ", heads in groups" : "");
  }
  if (a.mask == nullptr) return kOk;
  if (a.causal) return ASTER_FAIL(kARGUMENT, "attention with is_causal and attn_mask");
  if (a.mask->dtype != DType::kBool && !dtype::is_float(a.mask->dtype)) {
    return ASTER_FAIL(kDTYPE, "attention with attn_mask %s: bool or float is needed",
                      brief(a.mask).text);
  }
  return kOk;
}

// x [..., heads, n, m] as [..., heads / run, run, n, m].
Node split_heads(Graph& g, Node x, Word run) {
  if (x == nullptr) return nullptr;
  Dims shape(x->shape().first(x->ndim - 3u));
  shape.push(x->dim(x->ndim - 3u) / run);
  shape.push(run);
  shape.push(x->dim(x->ndim - 2u));
  shape.push(x->dim(x->ndim - 1u));
  return g.reshape(x, shape);
}
Node join_heads(Graph& g, Node x) {
  if (x == nullptr) return nullptr;
  Dims shape(x->shape().first(x->ndim - 4u));
  shape.push(x->dim(x->ndim - 4u) * x->dim(x->ndim - 3u));
  shape.push(x->dim(x->ndim - 2u));
  shape.push(x->dim(x->ndim - 1u));
  return g.reshape(x, shape);
}

Status attend(Node* out, Build& build, const Asked& a) {
  Graph& g = build.graph();
  Node weights = softmax(g, cast(g, attention_scores(g, a), g.strong(a.query->dtype)), -1);
  if (weights == nullptr) return last_failure();
  ASTER_TRY(dropout(&weights, build.engine(), weights, a.dropout_p, a.training));
  *out = attention_sum(g, weights, a);
  if (*out == nullptr) return last_failure();
  if (a.training && a.dropout_p != 0) return kOk;
  const std::array attributes{Word{a.causal}, Word{a.grouped}};
  const std::array operands{a.query, a.key, a.value, a.mask};
  const Nodes given = Nodes(operands).first(a.mask == nullptr ? 3 : 4);
  *out = build.strict() ? uop::choose(g, uop::Composite::kAttention, attributes, given, *out)
                        : registry::choose_preferred(build.engine(), uop::Composite::kAttention,
                                                     attributes, given, *out);
  return *out == nullptr ? last_failure() : kOk;
}

}  // namespace

DType score_dtype(Graph& g, const Attention& a) {
  const DType own = g.strong(a.query->dtype);
  return dtype::least_upper(dtype::least_upper(own, g.strong(a.key->dtype)), DType::kFloat32);
}

// y is not repeated in memory.
Node attention_product(Graph& g, Node x, Node y, DType dtype, bool grouped) {
  if (x == nullptr || y == nullptr) return nullptr;
  const Word run = grouped ? x->dim(x->ndim - 3u) / y->dim(y->ndim - 3u) : 1;
  if (run == 1) return dot(g, x, y, dtype);
  if (x->dim(x->ndim - 2u) == 1 && x->ndim == y->ndim) {  // the rows of a run are a matrix
    Dims rows(x->shape());
    rows[x->ndim - 2u] = run;
    rows[x->ndim - 3u] /= run;
    // In memory: what follows has heads one behind the other, and would read y again for each.
    const Node products = g.contiguous(dot(g, g.reshape(x, rows), y, dtype));
    if (products == nullptr) return nullptr;
    Dims heads(products->shape());
    heads[x->ndim - 2u] = 1;
    heads[x->ndim - 3u] *= run;
    return g.reshape(products, heads);
  }
  return join_heads(g, dot(g, split_heads(g, x, run), split_heads(g, y, 1), dtype));
}

Node attention_shown(Graph& g, Node x, const Attention& a, double hidden, Word first_row,
                     Word first_column) {
  if (x == nullptr) return nullptr;
  if (a.causal) {
    const size_t n = x->ndim;
    const Expr rows = iota(g, DType::kInt32, x->shape(), n - 2),
               columns = iota(g, DType::kInt32, x->shape(), n - 1);
    const auto ahead = static_cast<double>(first_row - first_column);
    const Expr shown = ahead == 0 ? columns <= rows : columns <= rows + ahead;
    return where(shown, Expr{&g, x}, hidden).n;
  }
  if (a.mask == nullptr || a.mask->dtype != DType::kBool) return x;
  return where(g, a.mask, x, g.constant(x->dtype, hidden));
}

Node attention_scores(Graph& g, const Attention& a, Word first_row, Word first_column) {
  if (a.query == nullptr || a.key == nullptr) return nullptr;
  const Node products =
      attention_product(g, a.query, turned(g, a.key), score_dtype(g, a), a.grouped);
  const Node scale = g.constant(DType::kWeakFloat,
                                std::sqrt(static_cast<double>(a.query->dim(a.query->ndim - 1u))));
  const Node scores = binary(g, products, scale, ops::div);
  if (a.mask != nullptr && a.mask->dtype != DType::kBool)
    return binary(g, scores, a.mask, ops::add);
  return attention_shown(g, scores, a, -INFINITY, first_row, first_column);
}

Node attention_sum(Graph& g, Node weights, const Attention& a, DType dtype) {
  return attention_product(g, weights, a.value, dtype, a.grouped);
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_lazy_scaled_dot_product_attention(aster_ml_lazy* out, const aster_ml_lazy* query,
                                                   const aster_ml_lazy* key,
                                                   const aster_ml_lazy* value,
                                                   const aster_ml_lazy* attn_mask, double dropout_p,
                                                   int32_t is_causal, int32_t enable_gqa,
                                                   int32_t training) {
  ASTER_API();
  Build build(out, {query, key, value}, {attn_mask});
  ASTER_TRY(build.status());
  const Asked attention{
      {node(query), node(key), node(value), node(attn_mask), is_causal != 0, enable_gqa != 0},
      dropout_p,
      training != 0};
  ASTER_TRY(check(attention));
  if (build.sized() && (training == 0 || dropout_p == 0)) {
    struct Call {
      Build& build;
      Asked attention;
    } call{build, attention};
    const auto on = [](void* self, Node q, Node k, Node v, Node mask, bool causal) {
      Call& of = *static_cast<Call*>(self);
      Asked a = of.attention;
      a.query = q, a.key = k, a.value = v, a.mask = mask, a.causal = causal;
      Node result = nullptr;
      return check(a).ok() && attend(&result, of.build, a).ok() ? result : nullptr;
    };
    const auto done = sized::attention(
        build, {query, key, value, attn_mask, is_causal != 0, enable_gqa != 0}, on, &call);
    if (done) return done->code;
  }
  Node result;
  ASTER_TRY(attend(&result, build, attention));
  return build.finish(result);
}
