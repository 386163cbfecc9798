#include "engine/lower_wide.h"

#include <algorithm>
#include <bit>

#include "engine/rangeify.h"
#include "flt/apply.h"
#include "flt/convert.h"
#include "flt/mpfr.h"
#include "uop/composite.h"
#include "uop/expr.h"
#include "uop/foreign.h"
#include "uop/wide.h"

namespace aster::engine {
namespace {

using dtype::is_wide;
using uop::Dims;
using uop::DType;
using uop::Graph;
using uop::Node;
using uop::Nodes;
using uop::Op;
using uop::WideKind;
using uop::Word;
using uop::Words;

constexpr DType kWord = DType::kUInt64;

bool computes_wide(Node node) {
  if (is_wide(node->dtype)) return true;
  return std::ranges::any_of(node->src(), [](Node x) { return is_wide(x->dtype); });
}

Node refused(Node node) {
  (void)ASTER_FAIL(kUNSUPPORTED, "%s of %s", uop::info(node->op).name,
                   uop::brief(node->nsrc == 0 ? node : node->src(0)).text);
  return nullptr;
}

// One more axis.
Dims with_axis(Words words, Word size) {
  Dims out(words);
  out.push(size);
  return out;
}
Dims shape_of(Node node) { return with_axis(node->shape(), dtype::words(node->dtype)); }

// The words of a double, of a shape with their axis.
Node constant(Graph& g, DType dtype, double value, Words shape) {
  flt::Limb limbs[8];
  flt::from_number(limbs, dtype, value);
  const auto count = static_cast<size_t>(dtype::words(dtype));
  if (std::all_of(limbs, limbs + count, [](flt::Limb limb) { return limb == 0; }))
    return g.constant_word(kWord, 0, shape);
  const Dims one(shape.size(), 1);
  Node parts[8];
  for (size_t i = 0; i < count; ++i) {
    parts[i] = g.constant_word(kWord, static_cast<Word>(limbs[i]), one);
    if (parts[i] == nullptr) return nullptr;
  }
  return g.expand(g.cat({parts, count}, static_cast<Word>(shape.size() - 1)), shape);
}

// A condition or an index beside every word.
Node beside_words(Graph& g, Node x, Word words) {
  if (x == nullptr) return nullptr;
  return g.expand(g.reshape(x, with_axis(x->shape(), 1)), with_axis(x->shape(), words));
}

// A constant as few words that are read again and again.
Node in_memory(Graph& g, Node x) {
  if (x == nullptr || !is_const(x) || x->ndim == 0) return x;
  Dims one(x->ndim, 1);
  one[x->ndim - 1u] = x->dim(x->ndim - 1u);
  return g.expand(g.contiguous(g.constant_word(x->dtype, x->arg(0), one)), x->shape());
}

Node wide(Graph& g, DType dtype, Words shape, Nodes operands, std::initializer_list<Word> words) {
  Node read[3];
  for (size_t i = 0; i < operands.size(); ++i) {
    read[i] = in_memory(g, operands[i]);
    if (read[i] == nullptr) return nullptr;
  }
  Word all[uop::kWideRounding + 1] = {};
  std::ranges::copy(words, all);
  all[uop::kWideRounding] = g.rounding;
  const size_t count = g.rounding == 0 ? words.size() : std::size(all);
  return g.make(Op::kWide, dtype, {read, operands.size()}, {all, count}, shape);
}
constexpr Word word_of(WideKind kind) { return static_cast<Word>(kind); }
constexpr Word word_of(DType d) { return static_cast<Word>(d); }

Node apply(Graph& g, Node node, int32_t code, Nodes src) {
  if (code == 0) return refused(node);
  if (flt::operation_of(code)->mpfr && !flt::mpfr_ready().ok()) return nullptr;
  const DType d = node->src(node->nsrc - 1)->dtype;
  const bool tests = !is_wide(node->dtype);
  return wide(g, tests ? DType::kBool : kWord, tests ? Dims(node->shape()) : shape_of(node), src,
              {word_of(WideKind::kApply), code, word_of(d)});
}

Node cast(Graph& g, Node node, Nodes src) {
  Node x = src[0];
  DType from = node->src(0)->dtype;
  if (!is_wide(from) && dtype::is_weak(from)) {
    from = dtype::is_float(from) ? DType::kFloat64 : DType::kInt64;
    x = g.cast(x, from);
  }
  const bool to_words = is_wide(node->dtype);
  return wide(g, to_words ? kWord : node->dtype, to_words ? shape_of(node) : Dims(node->shape()),
              std::array{x}, {word_of(WideKind::kCast), word_of(from), word_of(node->dtype)});
}

// A conversion that the pass of sticky integers has made.
Node converted(Graph& g, Node node, Nodes src) {
  const bool to_words = is_wide(node->dtype);
  return wide(g, to_words ? kWord : node->dtype, to_words ? shape_of(node) : Dims(node->shape()),
              src, {node->arg(0), node->arg(1), node->arg(2)});
}

Node choose(Graph& g, Node node, Nodes src) {
  return g.alu(Op::kWhere, beside_words(g, src[0], dtype::words(node->dtype)), src[1], src[2]);
}

// ---- Movement: the axis of words stays where it is ----

Node permuted(Graph& g, Node node, Nodes src) {
  return g.permute(src[0], with_axis(node->arg(), node->ndim));
}

Node padded(Graph& g, Node node, Nodes src) {
  const size_t n = node->ndim;
  Dims before, after, interior;
  for (size_t i = 0; i < n; ++i) {
    before.push(node->arg(3 * i));
    after.push(node->arg(3 * i + 1));
    interior.push(node->arg(3 * i + 2));
  }
  const Word fill = node->arg(3 * n);
  Dims b = with_axis(before, 0), a = with_axis(after, 0), between = with_axis(interior, 0);
  const Node y = g.pad(src[0], b, a, between, 0);
  if (fill == 0) return y;
  const Node inside =
      g.pad(g.constant_int(DType::kBool, 1, node->src(0)->shape()), before, after, interior, 0);
  return g.alu(Op::kWhere, beside_words(g, inside, dtype::words(node->dtype)), y,
               constant(g, node->dtype, std::bit_cast<double>(fill), shape_of(node)));
}

Node sliced(Graph& g, Node node, Nodes src) {
  Dims start, step;
  for (size_t i = 0; i < node->ndim; ++i) {
    start.push(node->arg(2 * i));
    step.push(node->arg(2 * i + 1));
  }
  return g.slice(src[0], with_axis(start, 0), with_axis(step, 1), shape_of(node));
}

Node reshaped(Graph& g, Node node, Nodes src) { return g.reshape(src[0], shape_of(node)); }
Node expanded(Graph& g, Node node, Nodes src) { return g.expand(src[0], shape_of(node)); }
Node flipped(Graph& g, Node node, Nodes src) { return g.flip(src[0], with_axis(node->arg(), 0)); }
Node joined_end_to_end(Graph& g, Node node, Nodes src) { return g.cat(src, node->arg(0)); }
Node windows_of(Graph& g, Node node, Nodes src) {
  const Word axis = node->arg(0), size = node->dim(static_cast<size_t>(axis) + 1);
  return g.window(src[0], axis, size, node->arg(1), node->arg(2));
}
Node laid_back(Graph& g, Node node, Nodes src) {
  const Word axis = node->arg(0), size = node->dim(static_cast<size_t>(axis));
  return g.unwindow(src[0], axis, size, node->arg(1), node->arg(2));
}
Node unchanged(Graph& g, Node node, Nodes src) {
  return g.make(node->op, kWord, src, node->arg(), shape_of(node));
}

Node gathered(Graph& g, Node node, Nodes src) {
  Vec<Node> indices(g.memory());
  for (Node index : src.subspan(1)) {
    if (!indices.push(beside_words(g, index, dtype::words(node->dtype))).ok()) return nullptr;
  }
  return g.gather(src[0], {indices.data(), indices.size()}, with_axis(node->arg(), node->ndim),
                  shape_of(node));
}

Node scattered(Graph& g, Node node, Nodes src) {
  if (node->arg(0) >= 0) return refused(node);
  Vec<Node> indices(g.memory());
  for (Node index : src.subspan(2)) {
    if (!indices.push(beside_words(g, index, dtype::words(node->dtype))).ok()) return nullptr;
  }
  return g.scatter(Op::kSink, src[0], src[1], {indices.data(), indices.size()},
                   with_axis(node->arg().subspan(1), node->src(1)->ndim));
}

// ---- What combines elements ----

// x with some of its axes, ascending, joined to one, the last before that of words.
Node joined(Graph& g, Node x, Words axes) {
  if (x == nullptr) return nullptr;
  Dims order, shape;
  Word length = 1;
  for (Word i = 0; i + 1 < x->ndim; ++i) {
    if (std::ranges::find(axes, i) != axes.end()) continue;
    order.push(i);
    shape.push(x->dim(static_cast<size_t>(i)));
  }
  for (Word axis : axes) {
    order.push(axis);
    length *= x->dim(static_cast<size_t>(axis));
  }
  order.push(x->ndim - 1);
  shape.push(length);
  shape.push(x->dim(x->ndim - 1u));
  return g.reshape(g.permute(x, order), shape);
}

Dims rows_of(Node x) {  // without the axis that is combined
  Dims shape(x->shape().first(x->ndim - 2u));
  shape.push(x->dim(x->ndim - 1u));
  return shape;
}

Node reduced(Graph& g, Node node, Nodes src) {
  const Op op = static_cast<Op>(node->arg(0));
  if (node->src(0)->count() == 0) {
    const double nothing = std::bit_cast<double>(uop::neutral_word(op, node->dtype));
    return constant(g, node->dtype, nothing, shape_of(node));
  }
  const Node rows = joined(g, src[0], node->arg().subspan(1));
  if (rows == nullptr) return nullptr;
  const Node y =
      op == Op::kAdd
          ? wide(g, kWord, rows_of(rows), std::array{rows},
                 {word_of(WideKind::kSum), word_of(node->dtype)})
          : wide(g, kWord, rows_of(rows), std::array{rows},
                 {word_of(WideKind::kFold), word_of(node->dtype), uop::wide_operation(op)});
  return g.reshape(y, shape_of(node));
}

Node dotted(Graph& g, Node node, Nodes src) {
  if (node->src(0)->count() == 0) return constant(g, node->dtype, 0, shape_of(node));
  const Node x = joined(g, src[0], node->arg()), y = joined(g, src[1], node->arg());
  if (x == nullptr || y == nullptr) return nullptr;
  return g.reshape(wide(g, kWord, rows_of(x), std::array{x, y},
                        {word_of(WideKind::kProduct), word_of(node->dtype)}),
                   shape_of(node));
}

Node scanned(Graph& g, Node node, Nodes src) {
  const Word axis = node->arg(1), last = node->ndim - 1;
  if (static_cast<Op>(node->arg(0)) != Op::kAdd) return refused(node);
  Dims order;  // that axis and the last before words change places
  for (Word i = 0; i <= node->ndim; ++i) order.push(i == axis ? last : i == last ? axis : i);
  const Node turned = g.permute(src[0], order);
  if (turned == nullptr) return nullptr;
  return g.permute(wide(g, kWord, turned->shape(), std::array{turned},
                        {word_of(WideKind::kScan), word_of(node->dtype), node->arg(2)}),
                   order);
}

// A kernel on whole arrays, which are words for it too.
Node run_by_kernel(Graph& g, Node node, Nodes src) {
  const uop::Foreign& kernel = uop::foreign_of(node);
  if (kernel.form != uop::ForeignForm::kArrays) return refused(node);
  Vec<Node> read(g.memory());
  for (Node x : src) {
    const Node in = in_memory(g, x);
    if (in == nullptr || !read.push(in).ok()) return nullptr;
  }
  const bool to_words = is_wide(node->dtype);
  return g.foreign(kernel, to_words ? kWord : node->dtype,
                   to_words ? shape_of(node) : Dims(node->shape()), node->arg(2),
                   {read.data(), read.size()});
}

Node multiplied(Graph& g, Node call, Node a, Node b) {
  if (call->src(1)->count() == 0 || call->src(2)->count() == 0)
    return constant(g, call->dtype, 0, shape_of(call));
  return wide(g, kWord, shape_of(call), std::array{a, b},
              {word_of(WideKind::kMatmul), word_of(call->dtype)});
}

// ---- The pass ----

Node lower_leaf(Graph& g, Node node) {
  if (node->op == Op::kConst)
    return constant(g, node->dtype, std::bit_cast<double>(node->arg(0)), shape_of(node));
  if (node->op == Op::kParam) return g.param(node->arg(0), kWord, shape_of(node));
  if (node->op != Op::kIota) return refused(node);
  return wide(g, kWord, shape_of(node), std::array{g.iota(DType::kInt64, node->dim(0))},
              {word_of(WideKind::kCast), word_of(DType::kInt64), word_of(node->dtype)});
}

struct Row {
  Op op;
  Node (*lower)(Graph& g, Node node, Nodes src);
};
constexpr Row kRows[] = {
    {Op::kWhere, choose},
    {Op::kCast, cast},
    {Op::kReshape, reshaped},
    {Op::kExpand, expanded},
    {Op::kPermute, permuted},
    {Op::kFlip, flipped},
    {Op::kSlice, sliced},
    {Op::kPad, padded},
    {Op::kWindow, windows_of},
    {Op::kUnwindow, laid_back},
    {Op::kCat, joined_end_to_end},
    {Op::kReduce, reduced},
    {Op::kDot, dotted},
    {Op::kScan, scanned},
    {Op::kGather, gathered},
    {Op::kScatter, scattered},
    {Op::kContiguous, unchanged},
    {Op::kDetach, unchanged},
    {Op::kAssign, unchanged},
    {Op::kAfter, unchanged},
    {Op::kForeign, run_by_kernel},
};

Node lower_node(Graph& g, Node node, Nodes src) {
  if (src.empty()) return lower_leaf(g, node);
  for (const Row& row : kRows) {
    if (row.op == node->op) return row.lower(g, node, src);
  }
  if (uop::is_alu(node->op)) return apply(g, node, uop::wide_operation(node->op), src);
  if (node->op == Op::kWide && uop::wide_kind(node) == WideKind::kCast)
    return converted(g, node, src);
  if (node->op == Op::kWide) return apply(g, node, static_cast<int32_t>(node->arg(1)), src);
  return refused(node);
}

class Lowering {
 public:
  explicit Lowering(Graph& g) : g_(g) {}

  // arguments: of Params, in the body of a Call; lowered.
  Status run(Node* root, Nodes arguments) {
    Vec<Node> nodes(g_.memory()), src(g_.memory());
    Map<Node, Node> done(g_.memory());
    ASTER_TRY(walk(&nodes, std::array{*root}));
    for (Node node : nodes) {
      src.clear();
      bool changed = false;
      for (size_t i = 0; i < node->nsrc; ++i) {
        const bool body = i == 0 && node->op == Op::kCall;
        const Node source = body ? node->src(0) : done.get(node->src(i), nullptr);
        changed |= source != node->src(i);
        ASTER_TRY(src.push(source));
      }
      Node made = node;
      ASTER_TRY(one(&made, node, {src.data(), src.size()}, changed, arguments));
      if (made == nullptr) return last_failure();
      ASTER_TRY(done.set(node, made));
    }
    *root = done.get(*root, nullptr);
    return kOk;
  }

 private:
  Status one(Node* out, Node node, Nodes src, bool changed, Nodes arguments) {
    if (node->op == Op::kParam && !arguments.empty()) {
      *out = arguments[static_cast<size_t>(node->arg(0))];
      return kOk;
    }
    if (node->op == Op::kCall && (computes_wide(node) || !arguments.empty()))
      return call(out, node, src);
    if (node->op == Op::kSink || (changed && !computes_wide(node))) {
      *out = g_.with_sources(node, src);
    } else if (computes_wide(node)) {
      *out = lower_node(g_, node, src);
    }
    return kOk;
  }
  Status call(Node* out, Node node, Nodes src) {
    if (uop::composite_of(node) == uop::Composite::kExactMatmul && is_wide(node->dtype)) {
      *out = multiplied(g_, node, src[1], src[2]);
      return kOk;
    }
    *out = node->src(0);
    return run(out, src.subspan(1));
  }

  Graph& g_;
};

// Whether anything below, bodies of calls included, is wide.
Status finds_wide(bool* out, Graph& g, Node sink) {
  Vec<Node> nodes(g.memory());
  ASTER_TRY(uop::toposort(&nodes, std::array{sink}));
  *out = std::ranges::any_of(nodes, computes_wide);
  return kOk;
}

}  // namespace

Status lower_wide(Node* sink, Graph& g) {
  bool any = false;
  ASTER_TRY(finds_wide(&any, g, *sink));
  return any ? Lowering(g).run(sink, {}) : kOk;
}

}  // namespace aster::engine
