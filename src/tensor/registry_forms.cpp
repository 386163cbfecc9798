// The library's own implementations beside the usual ones.
#include <algorithm>
#include <array>

#include "device/device.h"
#include "engine/engine.h"
#include "tensor/registry.h"
#include "tensor/registry_attention.h"
#include "tensor/registry_blas.h"
#include "tensor/registry_winograd.h"

namespace aster::tensor::registry {
namespace {

// The least size that halves of matrices have.
constexpr Word kLeastHalf = 64;

// ---- Matrix products ----

Word rows_of_product(Node a) { return a->dim(a->ndim - 2u); }
Word last_of(Node x) { return x->dim(x->ndim - 1u); }

void refuse_strassen(Refusal* why, Context&, const Call& call) {
  const Node a = call.operands[0], b = call.operands[1];
  const Word sizes[] = {rows_of_product(a), last_of(a), last_of(b)};
  if (dtype::is_narrow_float(a->dtype))
    return say(why, "sums of halves would be rounded to the narrow dtype");
  if (a->dtype == DType::kBool) return say(why, "bool has no differences");
  for (Word size : sizes) {
    if (size % 2 != 0 || size < 2 * kLeastHalf)
      return say(why, "sizes that are even and at least 128 are needed");
  }
}

// The quarter of a matrix at the row and column.
Node quarter(Graph& g, Node x, Word row, Word column) {
  if (x == nullptr) return nullptr;
  const Word rows = rows_of_product(x) / 2, columns = last_of(x) / 2;
  return part(g, part(g, x, 2, row * rows, rows), 1, column * columns, columns);
}

// Seven products of halves instead of eight (V. Strassen, Gaussian elimination is not optimal,
// 1969). Rounding is that of sums of products, not of each row by itself: relative to the norms of
// the matrices.
Node strassen(engine::Engine& engine, const Call&, Nodes operands) {
  Graph& g = engine.graph;
  const auto at = [&](size_t which, Word row, Word column) {
    return Expr{&g, quarter(g, operands[which], row, column)};
  };
  const auto times = [&](Expr x, Expr y) {
    if (x.n == nullptr || y.n == nullptr) return Expr{&g, nullptr};
    return Expr{&g, uop::build_matmul(g, g.contiguous(x.n), g.contiguous(y.n))};
  };
  const Expr a11 = at(0, 0, 0), a12 = at(0, 0, 1), a21 = at(0, 1, 0), a22 = at(0, 1, 1);
  const Expr b11 = at(1, 0, 0), b12 = at(1, 0, 1), b21 = at(1, 1, 0), b22 = at(1, 1, 1);
  const Expr m1 = times(a11 + a22, b11 + b22), m2 = times(a21 + a22, b11),
             m3 = times(a11, b12 - b22), m4 = times(a22, b21 - b11), m5 = times(a11 + a12, b22),
             m6 = times(a21 - a11, b11 + b12), m7 = times(a12 - a22, b21 + b22);
  const Node rows[] = {
      cat(g, std::array{(m1 + m4 - m5 + m7).n, (m3 + m5).n}, -1),
      cat(g, std::array{(m2 + m4).n, (m1 - m2 + m3 + m6).n}, -1),
  };
  return rows[0] == nullptr || rows[1] == nullptr ? nullptr : cat(g, rows, -2);
}

constexpr Form kForms[] = {
    {Composite::kAttention, "tiled",
     "rows tile by tile, memory linear in the length; scores in float32 or wider", refuse_tiled,
     tiled, false, tiled_gradient, prefer_tiled},
    {Composite::kAttention, "streaming",
     "keys block by block, sums scaled as maxima grow; scores in float32 or wider",
     refuse_streaming, streaming, false, tiled_gradient, nullptr},
    {Composite::kMatmul, "openblas", "gemm of the OpenBLAS that is found, float32 and float64",
     refuse_blas, blas_product, false, nullptr, nullptr, blas_is_fast},
    {Composite::kMatmul, "strassen", "seven products of halves; rounds relative to norms",
     refuse_strassen, strassen, true, nullptr, nullptr},
    {Composite::kConv2d, "winograd_2x2", "tiles of 2 x 2 results by 16 products instead of 36",
     refuse_winograd, winograd_2, true, nullptr, nullptr},
    {Composite::kConv2d, "winograd_4x4",
     "tiles of 4 x 4 results by 36 products instead of 144; rounds ten times as much",
     refuse_winograd, winograd_4, true, nullptr, nullptr, winograd_4_is_fast},
};

}  // namespace

// Elements first, first + 1, .. of an axis that is counted from the end; x itself where it has one.
Node part(Graph& g, Node x, size_t from_end, Word first, Word count) {
  if (x == nullptr || x->ndim < from_end || x->dim(x->ndim - from_end) == 1) return x;
  uop::Dims start(x->ndim, 0), size(x->shape());
  start[x->ndim - from_end] = first;
  size[x->ndim - from_end] = count;
  return g.slice(x, start, uop::Dims(x->ndim, 1), size);
}

void say(Refusal* why, const char* text) {
  std::snprintf(why->text, sizeof(why->text), "%s", text);
}

std::span<const Form> forms() { return kForms; }

}  // namespace aster::tensor::registry
