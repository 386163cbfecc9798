#include "gradient/rules.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

#include "aster_ml/flt.h"
#include "uop/composite.h"
#include "uop/expr.h"
#include "uop/foreign.h"

namespace aster::gradient {
namespace {

using uop::Composite;
using uop::Dims;
using uop::Expr;
using uop::Op;
using uop::Word;
using uop::Words;

// ---- Elementwise: the gradient column of ops.def, spelled with these ----

constexpr double kLn2 = std::numbers::ln2;
constexpr double kTwoOverSqrtPi = 2 * std::numbers::inv_sqrtpi;
constexpr Expr none;
constexpr double num(double value) { return value; }

template <typename... E>
std::array<Expr, 3> list(E... each) {
  return {Expr(each)...};
}

// Numbers that no double is, of wide floats computed in them.
Expr ln2(Expr a) { return dtype::is_wide(a.dtype()) ? log(a.like(2)) : a.like(kLn2); }
Expr two_over_sqrt_pi(Expr a) {
  if (!dtype::is_wide(a.dtype())) return a.like(kTwoOverSqrtPi);
  return recip(sqrt(wide_function(ASTER_ML_FLT_ATAN, a.like(1))));
}

Expr sign(Expr a) { return where(a == 0.0, 0.0, where(a < 0.0, a.like(-1), 1.0)); }
// What a gets of the gradient of max(a, b): a tie is shared evenly.
Expr share(Expr a, Expr b) { return where(a > b, a.like(1), where(a == b, a.like(0.5), 0.0)); }
Expr pick(Expr condition, Expr g) { return where(condition, g, 0.0); }
Expr pick_else(Expr condition, Expr g) { return where(condition, 0.0, g); }
// d a^b / da, 0 where b is 0 even if a is 0.
Expr pow_base(Expr a, Expr b) { return where(b == 0.0, b, b * pow(a, b - 1.0)); }
// d y / db of y = a^b; at a = 0 the limit: 0, or -inf where y is inf.
Expr pow_exponent(Expr a, Expr y) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return where(a == 0.0, where(y == kInf, a.like(-kInf), 0.0), y * log(a));
}

Expr source_expr(const Flow& flow, size_t i) {
  return {&flow.graph, i < flow.y->nsrc ? flow.source(i) : nullptr};
}

#define NONE ()
#define OP(name, sources, level, meaning)
#define ALU(name, arity, rule, traits, cost, value, gradient, meaning)              \
  void flow_##name(Flow& flow) {                                                    \
    [[maybe_unused]] const Expr g{&flow.graph, flow.dy}, y{&flow.graph, flow.y};    \
    [[maybe_unused]] const Expr a = source_expr(flow, 0), b = source_expr(flow, 1); \
    [[maybe_unused]] const Expr c = source_expr(flow, 2);                           \
    const std::array<Expr, 3> each = list gradient;                                 \
    for (size_t i = 0; i < arity; ++i) {                                            \
      if (flow.needed[i] && each[i].g != nullptr) flow.set(i, each[i].n);           \
    }                                                                               \
  }
#include "uop/ops.def"
#undef NONE

// ---- Movement and structure ----

void flow_same(Flow& flow) { flow.set(0, flow.dy); }
// Of what moved to another device, back on the one that it left.
void flow_move(Flow& flow) {
  const Words arg = flow.y->arg();
  const bool moved = !arg.empty() && arg[1] != 0;
  flow.set(0, moved ? flow.graph.transfer(flow.dy, arg[1], arg[0]) : flow.dy);
}
void flow_second(Flow& flow) { flow.set(1, flow.dy); }
void flow_cast(Flow& flow) { flow.set(0, flow.graph.cast(flow.dy, flow.source(0)->dtype)); }
void flow_reshape(Flow& flow) { flow.set(0, flow.graph.reshape(flow.dy, flow.source(0)->shape())); }
void flow_flip(Flow& flow) { flow.set(0, flow.graph.flip(flow.dy, flow.y->arg())); }

void flow_expand(Flow& flow) {
  Dims axes;
  for (size_t i = 0; i < flow.y->ndim; ++i) {
    if (flow.y->dim(i) != flow.source(0)->dim(i)) axes.push(static_cast<Word>(i));
  }
  flow.set(0, sum(Expr{&flow.graph, flow.dy}, axes).n);
}

void flow_permute(Flow& flow) {
  Dims inverse(flow.y->ndim, 0);
  for (size_t i = 0; i < flow.y->ndim; ++i)
    inverse[static_cast<size_t>(flow.y->arg(i))] = static_cast<Word>(i);
  flow.set(0, flow.graph.permute(flow.dy, inverse));
}

void flow_slice(Flow& flow) {
  const Node x = flow.source(0);
  Dims before, after, interior;
  for (size_t i = 0; i < x->ndim; ++i) {
    const Word start = flow.y->arg(2 * i), step = flow.y->arg(2 * i + 1), size = flow.y->dim(i);
    before.push(start);
    interior.push(step - 1);
    after.push(x->dim(i) - (size > 0 ? start + (size - 1) * step + 1 : start));
  }
  flow.set(0, flow.graph.pad(flow.dy, before, after, interior, 0));
}

void flow_pad(Flow& flow) {
  const Node x = flow.source(0);
  Dims start, step;
  for (size_t i = 0; i < x->ndim; ++i) {
    start.push(flow.y->arg(3 * i));
    step.push(flow.y->arg(3 * i + 2) + 1);
  }
  flow.set(0, flow.graph.slice(flow.dy, start, step, x->shape()));
}

// Windows that do not overlap lie side by side in x: gaps between them, and what the last leaves,
// get nothing.
Node side_by_side(Flow& flow) {
  Graph& g = flow.graph;
  const Node x = flow.source(0);
  const size_t at = static_cast<size_t>(flow.y->arg(0));
  const Word stride = flow.y->arg(1), count = flow.y->dim(at), size = x->dim(at);
  Dims before(flow.y->ndim, 0), after(flow.y->ndim, 0);
  after[at + 1] = stride - flow.y->dim(at + 1);
  Node wide = g.pad(flow.dy, before, after, before, 0);
  Dims shape(x->shape());
  shape[at] = count * stride;
  wide = g.reshape(wide, shape);
  Dims start(x->ndim, 0), step(x->ndim, 1), nothing(x->ndim, 0), rest(x->ndim, 0);
  if (shape[at] >= size) return g.slice(wide, start, step, x->shape());
  rest[at] = size - shape[at];
  return g.pad(wide, nothing, rest, nothing, 0);
}

void flow_window(Flow& flow) {
  const Word axis = flow.y->arg(0);
  const Node x = flow.source(0);
  const bool apart_already = flow.y->arg(2) == 1 || flow.y->dim(static_cast<size_t>(axis) + 1) == 1;
  if (apart_already && flow.y->dim(static_cast<size_t>(axis) + 1) <= flow.y->arg(1)) {
    return flow.set(0, side_by_side(flow));
  }
  const Node apart = flow.graph.unwindow(flow.dy, axis, x->dim(static_cast<size_t>(axis)),
                                         flow.y->arg(1), flow.y->arg(2));
  const std::array taps{axis + 1};
  flow.set(0, drop_axes(flow.graph, sum(Expr{&flow.graph, apart}, taps).n, taps));
}

// dx[o, k] = dy[o * stride + k * dilation, k]: of the windows of dy, tap k of column k.
void flow_unwindow(Flow& flow) {
  const Node x = flow.source(0);
  const Word axis = flow.y->arg(0);
  const size_t at = static_cast<size_t>(axis);
  Node cut = flow.graph.window(flow.dy, axis, x->dim(at + 1), flow.y->arg(1), flow.y->arg(2));
  if (cut == nullptr) return flow.set(0, nullptr);
  Dims start(cut->ndim, 0), step(cut->ndim, 1), size(cut->shape());
  size[at] = x->dim(at);
  cut = flow.graph.slice(cut, start, step, size);
  const Expr diagonal = iota(flow.graph, dtype::DType::kInt32, size, at + 1) ==
                        iota(flow.graph, dtype::DType::kInt32, size, at + 2);
  const std::array taps{axis + 1};
  const Expr kept = where(diagonal, Expr{&flow.graph, cut}, 0.0);
  flow.set(0, drop_axes(flow.graph, reduce(Op::kAdd, kept, taps).n, taps));
}

void flow_cat(Flow& flow) {
  const size_t axis = static_cast<size_t>(flow.y->arg(0));
  Dims start(flow.y->ndim, 0), step(flow.y->ndim, 1);
  for (size_t i = 0; i < flow.y->nsrc; ++i) {
    const Node x = flow.source(i);
    if (flow.needed[i]) flow.set(i, flow.graph.slice(flow.dy, start, step, x->shape()));
    start[axis] += x->dim(axis);
  }
}

// ---- Reductions ----

void flow_sum(Flow& flow) { flow.set(0, flow.graph.expand(flow.dy, flow.source(0)->shape())); }

void flow_extremum(Flow& flow) {
  const Expr x = source_expr(flow, 0), y{&flow.graph, flow.y}, g{&flow.graph, flow.dy};
  const Expr mask = (x == y).cast(g.dtype());
  flow.set(0, (mask / sum(mask, flow.y->arg().subspan(1)) * g).n);
}

// y / x where x is not 0; where x is the only 0, the product of the others.
void flow_product(Flow& flow) {
  const Expr x = source_expr(flow, 0), y{&flow.graph, flow.y}, g{&flow.graph, flow.dy};
  const Words axes = flow.y->arg().subspan(1);
  const Expr zero = x == 0.0;
  const Expr safe = where(zero, 1.0, x);
  const Expr zeros = reduce(Op::kAdd, zero.cast(dtype::DType::kInt32), axes);
  const Expr others = where(zeros == 1.0, reduce(Op::kMul, safe, axes), 0.0);
  flow.set(0, (g * where(zero, others, y / safe)).n);
}

struct ReduceRule {
  Op op;
  Rule rule;
};
constexpr ReduceRule kReduceRules[] = {{Op::kAdd, flow_sum},
                                       {Op::kMax, flow_extremum},
                                       {Op::kMin, flow_extremum},
                                       {Op::kMul, flow_product}};

void flow_reduce(Flow& flow) {
  for (const ReduceRule& row : kReduceRules) {
    if (static_cast<Word>(row.op) == flow.y->arg(0)) return row.rule(flow);
  }
}

// ---- Composites whose gradient is shorter than that of their body. Source 0 is the body. ----

Node transposed(Graph& g, Node x) {
  Dims axes;
  for (size_t i = 0; i < x->ndim; ++i) axes.push(static_cast<Word>(i));
  std::swap(axes[x->ndim - 1u], axes[x->ndim - 2u]);
  return g.permute(x, axes);
}

void flow_matmul(Flow& flow) {
  const Node a = flow.source(1), b = flow.source(2);
  if (flow.needed[1]) flow.set(1, build_matmul(flow.graph, flow.dy, transposed(flow.graph, b)));
  if (flow.needed[2]) flow.set(2, build_matmul(flow.graph, transposed(flow.graph, a), flow.dy));
}

// w [G * r, C, kh, kw] -> [G * C, r, kh, kw], taps reversed: what carries a gradient back through a
// convolution.
Node turned_weight(Graph& g, Node w, Word groups) {
  const Word r = w->dim(0) / groups, c = w->dim(1), kh = w->dim(2), kw = w->dim(3);
  const Node apart = g.reshape(w, std::array<Word, 5>{groups, r, c, kh, kw});
  const Node turned = g.permute(apart, std::array<Word, 5>{0, 2, 1, 3, 4});
  return g.flip(g.reshape(turned, std::array<Word, 4>{groups * c, r, kh, kw}),
                std::array<Word, 4>{0, 0, 1, 1});
}

// A full convolution of dy, spread by the stride, with the turned weight.
Node conv2d_input_gradient(Graph& g, const uop::Conv2d& o, Node x, Node w, Node dy) {
  uop::Conv2d full;
  full.groups = o.groups;
  Dims zero(4, 0), interior(4, 0), after(4, 0), start(4, 0), step(4, 1);
  bool cut = false;
  for (size_t i = 0; i < 2; ++i) {
    const Word span = o.dilation[i] * (w->dim(2 + i) - 1);
    const Word rest = (x->dim(2 + i) + o.pad[2 * i] + o.pad[2 * i + 1] - span - 1) % o.stride[i];
    const Word lead = span - o.pad[2 * i], trail = span - o.pad[2 * i + 1] + rest;
    full.dilation[i] = o.dilation[i];
    full.pad[2 * i] = std::max<Word>(lead, 0);
    full.pad[2 * i + 1] = std::max<Word>(trail, 0);
    interior[2 + i] = o.stride[i] - 1;
    start[2 + i] = std::max<Word>(-lead, 0);
    cut |= lead < 0 || trail < 0;
  }
  if (!cut)
    return build_conv2d(g, g.pad(dy, zero, zero, interior, 0), turned_weight(g, w, o.groups), full);
  // Padding beyond the kernel's reach: those windows saw nothing of x, so they are cut off after
  // padding the ends.
  Dims before(4, 0);
  for (size_t i = 0; i < 2; ++i) {
    before[2 + i] = full.pad[2 * i];
    after[2 + i] = full.pad[2 * i + 1];
    full.pad[2 * i] = full.pad[2 * i + 1] = 0;
  }
  const Node spread = g.pad(dy, before, after, interior, 0);
  if (spread == nullptr) return nullptr;
  Dims size(spread->shape());
  for (size_t i = 0; i < 2; ++i) size[2 + i] = x->dim(2 + i) + o.dilation[i] * (w->dim(2 + i) - 1);
  return build_conv2d(g, g.slice(spread, start, step, size), turned_weight(g, w, o.groups), full);
}

void flow_conv2d(Flow& flow) {
  const uop::Conv2d o = conv2d_of(flow.y);
  const Node x = flow.source(1), w = flow.source(2);
  if (flow.needed[1]) flow.set(1, conv2d_input_gradient(flow.graph, o, x, w, flow.dy));
  if (flow.needed[2]) {
    flow.set(2, build_conv2d_weight_grad(flow.graph, x, flow.dy, o, w->dim(2), w->dim(3)));
  }
}

void flow_softmax(Flow& flow) {
  const Expr y{&flow.graph, flow.y}, g{&flow.graph, flow.dy};
  flow.set(1, (y * (g - sum(g * y, flow.y->arg().subspan(1)))).n);
}

void flow_log_softmax(Flow& flow) {
  const Expr y{&flow.graph, flow.y}, g{&flow.graph, flow.dy};
  flow.set(1, (g - exp(y) * sum(g, flow.y->arg().subspan(1))).n);
}

void flow_logsumexp(Flow& flow) {
  const Expr x = source_expr(flow, 1), y{&flow.graph, flow.y}, g{&flow.graph, flow.dy};
  flow.set(1, (g * exp(x - y)).n);
}

// The body's own would be 0 * inf where exp(-x) overflows.
void flow_sigmoid(Flow& flow) {
  const Expr y{&flow.graph, flow.y}, g{&flow.graph, flow.dy};
  flow.set(1, (g * y * (1.0 - y)).n);
}

// As log_softmax, from a gradient that is -dy / n at the labels; a label outside gives none.
void flow_cross_entropy(Flow& flow) {
  const Node logits = flow.source(1), labels = flow.source(2);
  const Word last = logits->ndim - 1;
  Dims column(labels->shape()), ones(logits->ndim, 1);
  column.push(1);
  Expr g = -Expr{&flow.graph, flow.dy}.reshape(ones);
  if (flow.y->arg(1) == 0) g = g / static_cast<double>(labels->count());
  const Expr y{&flow.graph, flow.graph.reshape(labels, column)};
  const Expr hit = y == iota(flow.graph, labels->dtype, logits->shape(), static_cast<size_t>(last));
  const Expr at_label = where(hit, g, 0.0);
  const Expr p{&flow.graph, build_softmax(flow.graph, logits, last)};
  flow.set(1, (at_label - p * sum(at_label, std::array{last})).n);
}

void flow_contiguous_backward(Flow& flow) { flow.set(1, flow.graph.contiguous(flow.dy)); }

// What came with the kernel.
void flow_foreign(Flow& flow) {
  const uop::Foreign& kernel = uop::foreign_of(flow.y);
  const Status status =
      kernel.gradient == nullptr
          ? ASTER_FAIL(kUNSUPPORTED, "no gradient of kernel \"%s\": none was given with it",
                       kernel.name)
          : kernel.gradient(kernel, flow.graph, flow.y, flow.dy, flow.needed, flow.dx);
  flow.failed |= !status.ok();
}

// Functions of wide floats: their gradients are more of these.
struct WideRule {
  int32_t code;
  Expr (*slope)(Expr a, Expr y);
};
constexpr WideRule kWideRules[] = {
    {ASTER_ML_FLT_LOG10, [](Expr a, Expr) { return recip(a * log(a.like(10))); }},
    {ASTER_ML_FLT_TAN, [](Expr, Expr y) { return 1.0 + y * y; }},
    {ASTER_ML_FLT_ASIN, [](Expr a, Expr) { return recip(sqrt(1.0 - a * a)); }},
    {ASTER_ML_FLT_ACOS, [](Expr a, Expr) { return -recip(sqrt(1.0 - a * a)); }},
    {ASTER_ML_FLT_ATAN, [](Expr a, Expr) { return recip(1.0 + a * a); }},
    {ASTER_ML_FLT_SINH, [](Expr a, Expr) { return wide_function(ASTER_ML_FLT_COSH, a); }},
    {ASTER_ML_FLT_COSH, [](Expr a, Expr) { return wide_function(ASTER_ML_FLT_SINH, a); }},
    {ASTER_ML_FLT_ASINH, [](Expr a, Expr) { return recip(sqrt(a * a + 1.0)); }},
    {ASTER_ML_FLT_ACOSH, [](Expr a, Expr) { return recip(sqrt(a * a - 1.0)); }},
    {ASTER_ML_FLT_ATANH, [](Expr a, Expr) { return recip(1.0 - a * a); }},
};

void flow_wide(Flow& flow) {
  for (const WideRule& row : kWideRules) {
    if (row.code != flow.y->arg(1)) continue;
    const Expr g{&flow.graph, flow.dy}, y{&flow.graph, flow.y};
    return flow.set(0, (g * row.slope(source_expr(flow, 0), y)).n);
  }
  (void)ASTER_FAIL(kUNSUPPORTED, "no gradient of function %lld of aster_ml/flt.h",
                   static_cast<long long>(flow.y->arg(1)));
  flow.failed = true;
}

struct OpRule {
  Op op;
  Rule rule;
};
constexpr OpRule kOpRules[] = {
#define OP(name, sources, level, meaning)
#define ALU(name, arity, rule, traits, cost, value, gradient, meaning) {Op::k##name, flow_##name},
#include "uop/ops.def"
    {Op::kReshape, flow_reshape}, {Op::kExpand, flow_expand},
    {Op::kPermute, flow_permute}, {Op::kFlip, flow_flip},
    {Op::kSlice, flow_slice},     {Op::kPad, flow_pad},
    {Op::kWindow, flow_window},   {Op::kUnwindow, flow_unwindow},
    {Op::kCat, flow_cat},         {Op::kCast, flow_cast},
    {Op::kBitcast, nullptr},      {Op::kReduce, flow_reduce},
    {Op::kContiguous, flow_move}, {Op::kDetach, nullptr},
    {Op::kAssign, flow_second},   {Op::kAfter, flow_same},
    {Op::kCall, nullptr},         {Op::kGather, flow_gather},
    {Op::kScatter, flow_scatter}, {Op::kScan, flow_scan},
    {Op::kArgsort, nullptr},      {Op::kSort, flow_sort},
    {Op::kScanPlace, nullptr},    {Op::kLogScan, flow_log_scan},
    {Op::kForeign, flow_foreign}, {Op::kDot, nullptr},
    {Op::kWide, flow_wide},
};

void flow_chosen(Flow& flow) {
  const auto word = static_cast<uintptr_t>(flow.y->arg(1));
  const auto& chosen = *reinterpret_cast<const uop::Chosen*>(word);
  flow.failed = !chosen.flow(chosen, flow.graph, flow.y, flow.dy, flow.needed, flow.dx).ok();
}

struct CompositeRule {
  Composite composite;
  Rule rule;
};
constexpr CompositeRule kCompositeRules[] = {
    {Composite::kMatmul, flow_matmul},
    {Composite::kExactMatmul, flow_matmul},
    {Composite::kConv2d, flow_conv2d},
    {Composite::kSoftmax, flow_softmax},
    {Composite::kLogSoftmax, flow_log_softmax},
    {Composite::kLogSumExp, flow_logsumexp},
    {Composite::kCrossEntropy, flow_cross_entropy},
    {Composite::kSigmoid, flow_sigmoid},
    {Composite::kContiguousBackward, flow_contiguous_backward},
    {Composite::kChosen, flow_chosen},
};

struct RuleTable {
  Lookup row[static_cast<size_t>(Op::kCount)] = {};
};
constexpr RuleTable make_rule_table() {
  RuleTable table;
  for (const OpRule& row : kOpRules) table.row[static_cast<size_t>(row.op)] = {true, row.rule};
  return table;
}
constexpr RuleTable kRules = make_rule_table();

}  // namespace

Lookup rule_of(Node node) {
  if (node->op != Op::kCall) return kRules.row[static_cast<size_t>(node->op)];
  for (const CompositeRule& row : kCompositeRules) {
    if (row.composite == uop::composite_of(node)) return {true, row.rule};
  }
  return {true, nullptr};
}

}  // namespace aster::gradient
