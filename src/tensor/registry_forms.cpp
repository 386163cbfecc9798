// The library's own implementations beside the usual ones.
#include <algorithm>
#include <array>
#include <cmath>

#include "device/device.h"
#include "engine/engine.h"
#include "tensor/attention.h"
#include "tensor/registry.h"
#include "tensor/registry_blas.h"

namespace aster::tensor::registry {
namespace {

using uop::Dims;

// Elements first, first + 1, .. of an axis that is counted from the end; x itself where it has one.
Node part(Graph& g, Node x, size_t from_end, Word first, Word count) {
  if (x == nullptr || x->ndim < from_end || x->dim(x->ndim - from_end) == 1) return x;
  Dims start(x->ndim, 0), size(x->shape());
  start[x->ndim - from_end] = first;
  size[x->ndim - from_end] = count;
  return g.slice(x, start, Dims(x->ndim, 1), size);
}

void say(Refusal* why, const char* text) {
  std::snprintf(why->text, sizeof(why->text), "%s", text);
}

// ---- Attention ----

// Parts that rows or columns are cut into at most, and elements of one at least.
constexpr Word kMostParts = 16, kFewestElements = 64;

Word part_of(Word size) { return std::max(kFewestElements, (size + kMostParts - 1) / kMostParts); }
Word rows_of(const Call& call) { return call.operands[0]->dim(call.operands[0]->ndim - 2u); }
Word columns_of(const Call& call) { return call.operands[1]->dim(call.operands[1]->ndim - 2u); }

Attention attention_of(const Call& call, Nodes operands) {
  return {operands[0],
          operands[1],
          operands[2],
          operands.size() > 3 ? operands[3] : nullptr,
          call.attributes[0] != 0,
          call.attributes[1] != 0};
}

void refuse_tiled(Refusal* why, Context&, const Call& call) {
  if (rows_of(call) < 2 * kFewestElements) say(why, "fewer than 128 rows are one tile");
}

// Rows tile by tile, so that the scores of one stay in the caches; what a causal mask hides from
// all rows of a tile is not computed.
Node tiled(engine::Engine& engine, const Call& call, Nodes operands) {
  Graph& g = engine.graph;
  const Attention a = attention_of(call, operands);
  const Word rows = rows_of(call), columns = columns_of(call), step = part_of(rows);
  Vec<Node> parts(engine.context.heap());
  for (Word first = 0; first < rows; first += step) {
    const Word count = std::min(step, rows - first);
    const Word seen = a.causal ? std::min(columns, first + count) : columns;
    Attention tile = a;
    tile.query = part(g, a.query, 2, first, count);
    tile.mask = part(g, a.mask, 2, first, count);
    if (seen < columns) {
      tile.key = part(g, a.key, 2, 0, seen);
      tile.value = part(g, a.value, 2, 0, seen);
    }
    const Node made = compose_attention(g, tile, first);
    if (made == nullptr || !parts.push(g.contiguous(made)).ok()) return nullptr;
  }
  return cat(g, {parts.data(), parts.size()}, -2);
}

void refuse_streaming(Refusal* why, Context&, const Call& call) {
  if (columns_of(call) < 2 * kFewestElements) say(why, "fewer than 128 keys are one block");
}

// Keys block by block: the sums so far are scaled down as a greater score comes. No more scores
// than those of a block are in memory.
Node streaming(engine::Engine& engine, const Call& call, Nodes operands) {
  Graph& g = engine.graph;
  const Attention a = attention_of(call, operands);
  const Word columns = columns_of(call), step = part_of(columns);
  Expr most{&g, nullptr}, total{&g, nullptr}, sums{&g, nullptr};
  for (Word first = 0; first < columns; first += step) {
    const Word count = std::min(step, columns - first);
    if (a.causal && first >= rows_of(call)) break;  // hidden from all
    Attention block = a;
    block.key = part(g, a.key, 2, first, count);
    block.value = part(g, a.value, 2, first, count);
    block.mask = part(g, a.mask, 1, first, count);
    const Expr scores{&g, attention_scores(g, block, 0, first)};
    if (scores.n == nullptr) return nullptr;
    const std::array last{static_cast<Word>(scores.ndim() - 1)};
    Expr now = reduce(uop::Op::kMax, scores, last).detach();
    if (most.n != nullptr) now = max(most, now);
    // Of a row that sees nothing so far all is 0.
    const Expr shift = where(now == -INFINITY, 0.0, now);
    const Expr weights = exp(scores - shift);
    const Expr sum_now = reduce(uop::Op::kAdd, weights, last);
    const Expr part_now{&g, attention_sum(g, weights.n, block, scores.dtype())};
    if (most.n == nullptr) {
      total = sum_now;
      sums = part_now;
    } else {
      const Expr scale = exp(most - shift);
      total = total * scale + sum_now;
      sums = sums * scale + part_now;
    }
    total = {&g, g.contiguous(total.n)};
    sums = {&g, g.contiguous(sums.n)};
    most = {&g, g.contiguous(now.n)};
    if (sums.n == nullptr || most.n == nullptr) return nullptr;
  }
  return cast(g, (sums / total).n, call.usual->dtype);
}

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
    if (size % 2 != 0 || size < 2 * kFewestElements)
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
    {Composite::kAttention, "tiled", "rows tile by tile, the scores of one in the caches",
     refuse_tiled, tiled, false},
    {Composite::kAttention, "streaming",
     "keys block by block, sums scaled as maxima grow; scores in float32 or wider",
     refuse_streaming, streaming, false},
    {Composite::kMatmul, "openblas", "gemm of the OpenBLAS that is found, float32 and float64",
     refuse_blas, blas_product, false},
    {Composite::kMatmul, "strassen", "seven products of halves; rounds relative to norms",
     refuse_strassen, strassen, true},
};

}  // namespace

std::span<const Form> forms() { return kForms; }

}  // namespace aster::tensor::registry
