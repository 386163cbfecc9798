// Forms of attention that hold no more scores than those of a part: rows tile by tile, or keys
// block by block.
#include "tensor/registry_attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/engine.h"
#include "gradient/gradient.h"
#include "tensor/attention.h"
#include "tensor/linalg.h"

namespace aster::tensor::registry {
namespace {

using uop::Dims;
using uop::Op;

Word rows_of(const Call& call) { return call.operands[0]->dim(call.operands[0]->ndim - 2u); }
Word columns_of(const Call& call) { return call.operands[1]->dim(call.operands[1]->ndim - 2u); }
// Matrices of scores for a result: one a head of the query and of what is beside it.
Word matrices_of(Node y) {
  const Word of_one = y->dim(y->ndim - 1u) * y->dim(y->ndim - 2u);
  return of_one == 0 ? 0 : y->count() / of_one;
}

Attention attention_of(const Call& call, Nodes operands) {
  return {operands[0],
          operands[1],
          operands[2],
          operands.size() > 3 ? operands[3] : nullptr,
          call.attributes[0] != 0,
          call.attributes[1] != 0};
}

// ---- Rows tile by tile ----

// Set by bench/attention.py. Rows and keys of a part are a multiple of kPart; parts have kRows of
// them or kScores scores in all, so that copies of the other operand pay; with a causal mask they
// are one of kTiles or kBlocks, for what it hides from all of a part is left out: more would take
// longer to compile than they save.
constexpr Word kPart = 64, kRows = 256, kScores = Word{1} << 24, kTiles = 8, kBlocks = 4;

Word whole_parts(Word size) { return (size + kPart - 1) / kPart * kPart; }

// Rows of a tile, or keys of a block, of `size`, against `others` of the other side.
Word part_of(Node y, bool causal, Word size, Word others, Word parts) {
  const Word scores = std::max<Word>(1, matrices_of(y) * others);
  const Word most = std::max(kRows, kScores / scores / kPart * kPart);
  return std::min(most, whole_parts(causal ? (size + parts - 1) / parts : size));
}
Word rows_of_tile(const Call& call) {
  return part_of(call.usual, call.attributes[0] != 0, rows_of(call), columns_of(call), kTiles);
}

// What scores and sums are computed in.
DType wide_of(Graph& g, const Attention& a) {
  return dtype::least_upper(score_dtype(g, a), g.strong(a.value->dtype));
}

// Rows first, first + 1, ..: their part of the result, the greatest score and the sum of weights
// of each.
struct Tile {
  Node out = nullptr, most = nullptr, total = nullptr;
};
Tile tile_of(Graph& g, const Attention& a, Word first, Word count, DType result) {
  const Word columns = a.key->dim(a.key->ndim - 2u);
  const Word seen = a.causal ? std::min(columns, first + count) : columns;
  Attention tile = a;
  tile.query = part(g, a.query, 2, first, count);
  tile.mask = part(g, a.mask, 2, first, count);
  if (seen < columns) {
    tile.key = part(g, a.key, 2, 0, seen);
    tile.value = part(g, a.value, 2, 0, seen);
  }
  const Expr scores{&g, attention_scores(g, tile, first)};
  if (scores.n == nullptr) return {};
  const std::array last{static_cast<Word>(scores.ndim() - 1)};
  const Expr most = reduce(Op::kMax, scores, last).detach();
  const Expr exponentials = exp(scores - most);
  const Expr total = reduce(Op::kAdd, exponentials, last);
  const Node out = attention_sum(g, (exponentials * recip(total)).n, tile, wide_of(g, a));
  return {g.contiguous(cast(g, out, result)), most.n, total.n};
}

// x summed to a shape that was broadcast to its own, heads in groups perhaps; the last two axes are
// equal.
Node sum_to(Graph& g, Node x, Words shape, bool grouped) {
  if (x == nullptr) return nullptr;
  const Word heads = grouped ? shape[shape.size() - 3] : 0;
  if (grouped && x->dim(x->ndim - 3u) != heads) {
    Dims apart(x->shape().first(x->ndim - 3u)), joined(x->shape());
    apart.push(heads);
    apart.push(x->dim(x->ndim - 3u) / heads);
    for (size_t i = 2; i > 0; --i) apart.push(shape[shape.size() - i]);
    joined[x->ndim - 3u] = heads;
    const std::array run{static_cast<Word>(x->ndim - 2u)};
    return sum_to(g, reduce(Op::kAdd, Expr{&g, x}.reshape(apart), run).reshape(joined).n, shape,
                  false);
  }
  Dims axes;
  const size_t more = x->ndim - shape.size();
  for (size_t i = 0; i < x->ndim; ++i) {
    if (i < more || (shape[i - more] == 1 && x->dim(i) != 1)) axes.push(static_cast<Word>(i));
  }
  return axes.size() == 0 ? x : reduce(Op::kAdd, Expr{&g, x}, axes).reshape(shape).n;
}

// The gradient of the tiled form, keys block by block: the weights of a block are computed anew
// from what each row's were divided by (T. Dao, FlashAttention-2, 2023), so no more of them are in
// memory than a block's.
class Blocks {
 public:
  Blocks(const Backward& of)
      : of_(of),
        g_(of.engine.graph),
        a_(attention_of(of.call, of.operands)),
        wide_(wide_of(g_, a_)),
        rows_(rows_of(of.call)),
        columns_(columns_of(of.call)) {}

  Status run() {
    ASTER_TRY(find_rows());
    const Word step = part_of(of_.y, a_.causal, columns_, rows_, kBlocks);
    Vec<Node> keys(g_.memory()), values(g_.memory());
    // From the last block on: with a causal mask the rows that see a block become more.
    for (Word first = (columns_ - 1) / step * step; first >= 0; first -= step) {
      ASTER_TRY(block(first, std::min(step, columns_ - first)));
      ASTER_TRY(keys.push(key_));
      ASTER_TRY(values.push(value_));
    }
    std::reverse(keys.begin(), keys.end());
    std::reverse(values.begin(), values.end());
    if (of_.needed[0]) ASTER_TRY(give(0, sum_to(g_, query_, of_.operands[0]->shape(), false)));
    if (of_.needed[1]) ASTER_TRY(give(1, cat(g_, {keys.data(), keys.size()}, -2)));
    if (of_.needed[2]) ASTER_TRY(give(2, cat(g_, {values.data(), values.size()}, -2)));
    return kOk;
  }

 private:
  Status give(size_t i, Node slope) {
    of_.dx[i] = cast(g_, slope, of_.operands[i]->dtype);
    return of_.dx[i] == nullptr ? last_failure() : kOk;
  }
  Node late(Node x) {
    for (Node before : {query_, key_, value_}) {
      if (before != nullptr) x = gradient::after(g_, x, before);
    }
    return x;
  }
  Status find_rows();
  Status block(Word first, Word count);

  const Backward& of_;
  Graph& g_;
  const Attention a_;
  const DType wide_;
  const Word rows_, columns_;
  // Of each row: the logarithm of the sum of exponentials, the sum of gradient times result, and
  // the gradient.
  Node sums_ = nullptr, dots_ = nullptr, dy_ = nullptr;
  // Gradients: the query's by all blocks so far, from row from_ on; those of the last block.
  Node query_ = nullptr, key_ = nullptr, value_ = nullptr;
  Word from_ = 0;
};

Status Blocks::find_rows() {
  const Word step = rows_of_tile(of_.call);
  Vec<Node> parts(g_.memory());
  for (Word first = 0; first < rows_; first += step) {
    const Tile tile = tile_of(g_, a_, first, std::min(step, rows_ - first), of_.y->dtype);
    const Expr sum = Expr{&g_, tile.most} + log(Expr{&g_, tile.total});
    // So that a tile is done before the next one begins.
    ASTER_TRY(parts.push(g_.contiguous(gradient::after(g_, sum.n, tile.out))));
  }
  sums_ = g_.contiguous(cat(g_, {parts.data(), parts.size()}, -2));
  dy_ = cast(g_, of_.dy, wide_);
  const Expr products = Expr{&g_, dy_} * Expr{&g_, cast(g_, of_.y, wide_)};
  if (sums_ == nullptr || products.n == nullptr) return last_failure();
  const std::array last{static_cast<Word>(products.ndim() - 1)};
  dots_ = g_.contiguous(reduce(Op::kAdd, products, last).n);
  return dots_ == nullptr ? last_failure() : kOk;
}

Status Blocks::block(Word first, Word count) {
  const Word from = a_.causal ? first : 0, rows = rows_ - from;
  const auto zeros = [&](Node x) {
    Dims shape(x->shape());
    shape[x->ndim - 2u] = count;
    return g_.constant(wide_, 0, shape);
  };
  if (rows <= 0) {  // hidden from all
    key_ = zeros(a_.key);
    value_ = zeros(a_.value);
    return key_ == nullptr || value_ == nullptr ? last_failure() : kOk;
  }
  Attention b = a_;
  b.query = part(g_, a_.query, 2, from, rows);
  b.key = part(g_, a_.key, 2, first, count);
  b.value = part(g_, a_.value, 2, first, count);
  b.mask = part(g_, part(g_, a_.mask, 2, from, rows), 1, first, count);
  const Node dy = part(g_, dy_, 2, from, rows), sums = late(part(g_, sums_, 2, from, rows));
  const Expr scores{&g_, attention_scores(g_, b, from, first)};
  const Expr shift{&g_, g_.contiguous(sums)}, dots{&g_, part(g_, dots_, 2, from, rows)};
  const Expr weights{&g_, g_.contiguous(exp(scores - shift).n)};
  if (weights.n == nullptr) return last_failure();
  const auto narrowed = [&](Node slope, Node x) {
    Dims shape(x->shape());
    shape[x->ndim - 2u] = count;
    return g_.contiguous(sum_to(g_, slope, shape, a_.grouped));
  };
  value_ = narrowed(dot(g_, turned(g_, weights.n), dy, wide_), a_.value);
  const Expr over{&g_, attention_product(g_, dy, turned(g_, b.value), wide_, a_.grouped)};
  const double scale = 1 / std::sqrt(static_cast<double>(a_.query->dim(a_.query->ndim - 1u)));
  const Node all = (weights.cast(wide_) * (over - dots) * scale).n;
  const Node slopes = g_.contiguous(attention_shown(g_, all, b, 0, from, first));
  key_ = narrowed(dot(g_, turned(g_, slopes), b.query, wide_), a_.key);
  Expr query{&g_, attention_product(g_, slopes, b.key, wide_, a_.grouped)};
  if (query_ != nullptr && query.n != nullptr) {
    Dims before(query.ndim(), 0), after(query.ndim(), 0);
    before[query.ndim() - 2] = from_ - from;
    query = query + Expr{&g_, g_.pad(query_, before, after, after, 0)};
  }
  query_ = g_.contiguous(query.n);
  from_ = from;
  return query_ == nullptr || key_ == nullptr || value_ == nullptr ? last_failure() : kOk;
}

}  // namespace

void refuse_tiled(Refusal* why, Context&, const Call& call) {
  if (rows_of(call) < 2 * kPart) return say(why, "fewer than 128 rows are one tile");
  if (columns_of(call) == 0 || call.usual->count() == 0) say(why, "there are no scores");
}

bool prefer_tiled(Words attributes, Nodes operands, Node usual) {
  const Node q = operands[0], k = operands[1];
  const Word rows = q->dim(q->ndim - 2u), columns = k->dim(k->ndim - 2u);
  const bool causal = attributes[0] != 0;
  return rows >= 2 * kPart && columns > 0 && usual->count() > 0 &&
         part_of(usual, causal, rows, columns, kTiles) < rows;
}

Node tiled(engine::Engine& engine, const Call& call, Nodes operands) {
  Graph& g = engine.graph;
  const Attention a = attention_of(call, operands);
  const Word rows = rows_of(call), step = rows_of_tile(call);
  Vec<Node> parts(engine.context.heap());
  for (Word first = 0; first < rows; first += step) {
    const Tile tile = tile_of(g, a, first, std::min(step, rows - first), call.usual->dtype);
    if (tile.out == nullptr || !parts.push(tile.out).ok()) return nullptr;
  }
  return cat(g, {parts.data(), parts.size()}, -2);
}

Status tiled_gradient(const Backward& of) { return Blocks(of).run(); }

// ---- Keys block by block ----

void refuse_streaming(Refusal* why, Context&, const Call& call) {
  if (columns_of(call) < 2 * kPart) return say(why, "fewer than 128 keys are one block");
  if (call.usual->count() == 0) say(why, "there are no scores");
}

// The sums so far are scaled down as a greater score comes. No more scores than those of a block
// are in memory.
Node streaming(engine::Engine& engine, const Call& call, Nodes operands) {
  Graph& g = engine.graph;
  const Attention a = attention_of(call, operands);
  const Word columns = columns_of(call);
  const Word step = part_of(call.usual, a.causal, columns, rows_of(call), kTiles);
  Expr most{&g, nullptr}, total{&g, nullptr}, sums{&g, nullptr};
  for (Word first = 0; first < columns; first += step) {
    const Word count = std::min(step, columns - first);
    if (a.causal && first >= rows_of(call)) break;  // hidden from all
    Attention block = a;
    block.key = part(g, a.key, 2, first, count);
    block.value = part(g, a.value, 2, first, count);
    block.mask = part(g, a.mask, 1, first, count);
    // So that a block is done before the next one begins.
    if (sums.n != nullptr) block.key = g.contiguous(gradient::after(g, block.key, sums.n));
    const Expr scores{&g, attention_scores(g, block, 0, first)};
    if (scores.n == nullptr) return nullptr;
    const std::array last{static_cast<Word>(scores.ndim() - 1)};
    Expr now = reduce(Op::kMax, scores, last).detach();
    if (most.n != nullptr) now = max(most, now);
    // Of a row that sees nothing so far all is 0.
    const Expr shift = where(now == -INFINITY, 0.0, now);
    const Expr weights = exp(scores - shift);
    const Expr sum_now = reduce(Op::kAdd, weights, last);
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

}  // namespace aster::tensor::registry
