#include "engine/prepare.h"

#include <algorithm>

#include "engine/fusion.h"
#include "engine/indexing.h"
#include "engine/library.h"
#include "engine/prepare_images.h"
#include "engine/prepare_integers.h"
#include "engine/rangeify.h"
#include "uop/composite.h"
#include "uop/expr.h"
#include "uop/threefry.h"

namespace aster::engine {
namespace {

using uop::Dims;
using uop::Expr;
using uop::Graph;
using uop::Node;
using uop::Nodes;
using uop::Op;
using uop::Word;
using uop::Words;

// Reductions of at least so many elements to one are split, into at most and at least so many
// parts.
constexpr int64_t kSplitFrom = 32768;
constexpr int64_t kMostParts = 256;
constexpr int64_t kFewestParts = 8;
constexpr int64_t kEnoughRows = 64;
// Rows from memory that are combined into one: from so many of so many bytes, and so many in all,
// on a few at a time.
constexpr int64_t kFewestRows = 64;
constexpr int64_t kRowBytes = 4096;
constexpr int64_t kFarBytes = 6 << 20;
constexpr int64_t kRowsAtOnce = 8;
// Parts that one kernel lays one behind the other: an element chooses among all of them.
constexpr size_t kMostBehind = 16;
// Terms of a sum of products that are added up one by one: so many elements of a vector of columns
// stay in the second-level cache, and what rounding does stays small.
constexpr int64_t kMostTerms = 8192;
// Elements of the second operand of a product from which on the operands that have to be computed
// are in memory first: the columns of results read the first one again and again.
constexpr int64_t kLargeOperand = 192 * 1024;
// Elements of a result that read one of an operand, from which on this lies in memory where it
// would be computed, or looked for, again each time.
constexpr int64_t kFewestReads = 8;
// Elements of a first operand whose rows lie as columns from which on it is turned in memory first,
// for so many columns of the second: what a tile reads of it would leave the caches.
constexpr int64_t kLargeTurned = 768 * 1024;
constexpr int64_t kManyColumns = 512;
// Shorter rows do not fill the vectors that windows of stride 2 are read with.
constexpr int64_t kHalvesFrom = 32;

// The fill of a Pad is a word of its dtype.
Node strong_pad(Graph& g, Node node, DType dtype, Nodes src) {
  Vec<uop::Word> arg(g.memory());
  if (!arg.append(node->arg().data(), node->narg).ok()) return nullptr;
  arg.back() = uop::convert_word(arg.back(), node->dtype, dtype);
  return g.make(Op::kPad, dtype, src, {arg.data(), arg.size()}, node->shape());
}

Node copy_node(Graph& g, Node node, Nodes src) {
  const DType dtype = g.strong(node->dtype);
  if (node->op == Op::kConst) {
    return g.constant_word(dtype, uop::convert_word(node->arg(0), node->dtype, dtype),
                           node->shape());
  }
  if (node->op == Op::kCast) return g.cast(src[0], dtype);
  if (uop::is_alu(node->op)) return g.alu(node->op, src);
  if (uop::is_movement(node->op) && dtype == node->dtype) return g.with_sources(node, src);
  if (node->op == Op::kPad && dtype != node->dtype) return strong_pad(g, node, dtype, src);
  return g.make(node->op, dtype, src, node->arg(), node->shape());
}

// Rebuilds the graph below *sink, whose nodes are given, sources first; visit(node, sources) gives
// the new node.
template <typename Visit>
Status rebuild(Node* sink, Graph& g, const Vec<Node>& nodes, Visit visit) {
  Vec<Node> src(g.memory());
  Map<Node, Node> done(g.memory());
  for (Node node : nodes) {
    src.clear();
    for (size_t i = 0; i < node->nsrc; ++i) {
      ASTER_TRY(src.push(i == 0 && node->op == Op::kCall ? node->src(0)
                                                         : done.get(node->src(i), nullptr)));
    }
    Node made = nullptr;
    ASTER_TRY(visit(&made, node, Nodes{src.data(), src.size()}));
    ASTER_TRY(need(made));
    ASTER_TRY(done.set(node, made));
  }
  *sink = done.get(*sink, nullptr);
  return kOk;
}

Node same_with(Graph& g, Node node, Nodes src) {
  for (size_t i = 0; i < src.size(); ++i) {
    if (src[i] != node->src(i)) return g.with_sources(node, src);
  }
  return node;
}

// The graph with change(&node) done to every node of an op, sources first; what change leaves alone
// stays.
template <typename Change>
Status change_each(Node* sink, Graph& g, Op op, Change change) {
  Vec<Node> nodes(g.memory());
  ASTER_TRY(walk(&nodes, std::array{*sink}));
  if (std::ranges::none_of(nodes, [&](Node node) { return node->op == op; })) return kOk;
  return rebuild(sink, g, nodes, [&](Node* made, Node node, Nodes src) -> Status {
    *made = same_with(g, node, src);
    ASTER_TRY(need(*made));
    return (*made)->op == op ? change(made) : kOk;
  });
}

// Parts that a reduced axis of so many elements is cut into, 0 for none.
int64_t parts_of(int64_t dim) {
  for (int64_t parts = kMostParts; parts >= kFewestParts; --parts) {
    if (dim % parts == 0) return parts;
  }
  return 0;
}

// Whether a reduction sums products of values that are read again and again.
bool contracts(Node node) {
  const auto uncast = [](Node x) {
    while (x->op == Op::kCast) x = x->src(0);
    return x;
  };
  const Node x = uncast(node->src(0));
  return node->arg(0) == static_cast<Word>(Op::kAdd) && uop::multiplies(x->op) &&
         fusion::repeats(uncast(x->src(0))) && fusion::repeats(uncast(x->src(1)));
}

// `count` elements of an axis, from `first` on.
Node some_of(Graph& g, Node x, size_t axis, Word first, Word count) {
  Dims begin(x->ndim, 0), shape(x->shape());
  begin[axis] = first;
  shape[axis] = count;
  return g.slice(x, begin, Dims(x->ndim, 1), shape);
}

// Steps of an axis of so many that a part has: some that divide it, or nearly as many a part.
int64_t steps_of(int64_t size, int64_t most) {
  for (int64_t steps = most; 2 * steps > most; --steps) {
    if (size % steps == 0) return steps;
  }
  const int64_t parts = (size + most - 1) / most;
  return (size + parts - 1) / parts;
}

// A sum over axes, each part of at most so many terms by itself.
Status sum_parts(Node* out, Graph& g, Node x, Words axes) {
  const auto axis = static_cast<size_t>(axes[0]);
  const int64_t size = x->dim(axis);
  int64_t below = 1;
  for (Word later : axes.subspan(1)) below *= x->dim(static_cast<size_t>(later));
  if (below >= kMostTerms) {
    Node part = nullptr;
    ASTER_TRY(sum_parts(&part, g, x, axes.subspan(1)));
    *out = size == 1 ? part : g.reduce(Op::kAdd, g.contiguous(part), axes.first(1));
    return need(*out);
  }
  *out = g.reduce(Op::kAdd, x, axes);
  ASTER_TRY(need(*out));
  if (size * below <= kMostTerms) return kOk;
  const int64_t steps = steps_of(size, kMostTerms / below), parts = size / steps;
  Dims shape, inner;
  for (size_t i = 0; i < x->ndim; ++i) {
    if (i == axis) shape.push(parts);
    shape.push(i == axis ? steps : x->dim(i));
  }
  for (Word each : axes) inner.push(each + 1);
  const Node cut = g.reshape(some_of(g, x, axis, 0, parts * steps), shape);
  Node whole = g.reduce(Op::kAdd, g.contiguous(g.reduce(Op::kAdd, cut, inner)), axes.first(1));
  whole = g.reshape(whole, (*out)->shape());
  if (const int64_t rest = size - parts * steps; rest != 0) {
    const Node last = g.reduce(Op::kAdd, some_of(g, x, axis, parts * steps, rest), axes);
    whole = g.alu(Op::kAdd, std::array{whole, g.contiguous(last)});
  }
  *out = whole;
  return need(*out);
}

// Whether an expression reads memory in the order of its own elements, but for what it repeats.
bool reads_in_order(Node x, int* budget) {
  if (--*budget < 0) return false;
  if (x->op == Op::kBuffer || x->op == Op::kParam || x->op == Op::kContiguous ||
      x->op == Op::kConst)
    return true;
  if (x->op == Op::kReshape || x->op == Op::kDetach) return reads_in_order(x->src(0), budget);
  if (x->op == Op::kExpand) return x->src(0)->count() * kRowsAtOnce <= x->count();
  if (x->op == Op::kSlice) return x->src(0)->ndim == 1;
  return (uop::is_alu(x->op) || x->op == Op::kCast) &&
         std::ranges::all_of(x->src(), [&](Node s) { return reads_in_order(s, budget); });
}

// Whether rows from memory are combined into one, and columns do not: neighbours are not combined.
bool combines_rows(Node node) {
  const Node x = node->src(0);
  const Op op = static_cast<Op>(node->arg(0));
  const Node value = x->op == Op::kCast ? x->src(0) : x;
  int64_t columns = 1;
  const auto last = static_cast<size_t>(node->arg(node->narg - 1));
  for (size_t i = last + 1; i < x->ndim; ++i) columns *= x->dim(i);
  for (size_t i = 2; i < node->narg; ++i) {
    if (node->arg(i) != node->arg(i - 1) + 1) return false;
  }
  const auto bytes = static_cast<int64_t>(dtype::size(x->dtype));
  // Products by a vector may have copies of what does not change, in an order of their own.
  const bool product = op == Op::kAdd && uop::multiplies(value->op) &&
                       (fusion::repeats(value->src(0)) || fusion::repeats(value->src(1)));
  int budget = 32;
  return (op == Op::kAdd || op == Op::kMax || op == Op::kMin) && !product &&
         !dtype::is_narrow_float(x->dtype) && columns * bytes >= kRowBytes &&
         x->count() * bytes >= kFarBytes && reads_in_order(x, &budget);
}

// The rows of matrices combined, a few at a time: whole rows go by, where some columns of all rows
// would be short pieces far from each other.
Status combine_rows(Node* out, Graph& g, Op op, Node x) {
  const std::array<Word, 1> axis{1};
  const int64_t rows = x->dim(1), bytes = static_cast<int64_t>(dtype::size(x->dtype));
  if (rows < kFewestRows || x->count() * bytes < kFarBytes) {
    *out = g.reduce(op, x, axis);
    return need(*out);
  }
  const int64_t steps = steps_of(rows, kRowsAtOnce), parts = rows / steps;
  const Word all = x->dim(0), columns = x->dim(2);
  const Node cut =
      g.reshape(some_of(g, x, 1, 0, parts * steps), std::array{all, parts, steps, columns});
  const Node part =
      g.reshape(g.reduce(op, cut, std::array<Word, 1>{2}), std::array{all, parts, columns});
  ASTER_TRY(combine_rows(out, g, op, g.contiguous(part)));
  if (const int64_t rest = rows - parts * steps; rest != 0) {
    const Node last = g.reduce(op, some_of(g, x, 1, parts * steps, rest), axis);
    *out = g.alu(op, std::array{*out, g.contiguous(last)});
  }
  return need(*out);
}

Status split(Node* out, Graph& g, Node node) {
  const Node x = node->src(0);
  const int64_t results = node->count();
  if (results != 0 && combines_rows(node)) {
    const auto first = static_cast<size_t>(node->arg(1)), count = size_t{node->narg} - 1;
    Word batch = 1, rows = 1, columns = 1;
    for (size_t i = 0; i < x->ndim; ++i)
      (i < first ? batch : i < first + count ? rows : columns) *= x->dim(i);
    ASTER_TRY(combine_rows(out, g, static_cast<Op>(node->arg(0)),
                           g.reshape(x, std::array{batch, rows, columns})));
    // In memory, since what reads it goes by the rows again.
    *out = g.contiguous(g.reshape(*out, node->shape()));
    return need(*out);
  }
  if (results >= kEnoughRows && x->count() / results > kMostTerms && contracts(node))
    return sum_parts(out, g, x, node->arg().subspan(1));
  if (results == 0 || results >= kEnoughRows || x->count() / results < kSplitFrom) return kOk;
  size_t axis = 0;
  int64_t parts = 0;
  for (size_t i = 1; i < node->narg && parts == 0; ++i) {
    axis = static_cast<size_t>(node->arg(i));
    parts = parts_of(x->dim(axis));
  }
  if (parts == 0) return kOk;
  Vec<Word> shape(g.memory()), inner(g.memory());
  for (size_t i = 0; i < x->ndim; ++i) {
    if (i == axis) ASTER_TRY(shape.push(parts));
    ASTER_TRY(shape.push(i == axis ? x->dim(i) / parts : x->dim(i)));
  }
  for (size_t i = 1; i < node->narg; ++i) {
    const Word reduced = node->arg(i);
    ASTER_TRY(inner.push(static_cast<size_t>(reduced) >= axis ? reduced + 1 : reduced));
  }
  const Op op = static_cast<Op>(node->arg(0));
  Node part =
      g.reduce(op, g.reshape(x, {shape.data(), shape.size()}), {inner.data(), inner.size()});
  Node whole = g.reduce(op, g.contiguous(part), std::array{static_cast<Word>(axis)});
  *out = g.reshape(whole, node->shape());
  return need(*out);
}

// Whether a node gathers a tensor in its own order.
bool sorts(Node node) {
  if (node->op != Op::kGather || node->nsrc != 2) return false;
  const Node x = node->src(0), order = node->src(1);
  if (order->op != Op::kArgsort || order->src(0) != x || dtype::is_fp8(x->dtype)) return false;
  const Word axis = order->arg(0);
  bool fits = node->count() == x->count();
  for (size_t i = 0; i < node->narg; ++i) {
    fits &= node->arg(i) == (static_cast<Word>(i) == axis ? -1 : static_cast<Word>(i));
  }
  return fits;
}

bool is_computed(Node node) {
  while (fusion::passes_through(node->op)) node = node->src(0);
  return node->op != Op::kBuffer && node->op != Op::kContiguous && node->op != Op::kParam &&
         node->op != Op::kConst;
}

// Whether the rows of a matrix lie as columns.
bool is_turned(Node x) {
  while (x->op == Op::kReshape || x->op == Op::kExpand || x->op == Op::kDetach) x = x->src(0);
  return x->op == Op::kPermute && x->arg(x->ndim - 1u) != static_cast<Word>(x->ndim - 1u);
}

// Whether each element is looked for in one of several tensors: a row of them, or a sum of what
// stands beside each other, which will be one (sum_of_pads).
bool is_row_of_parts(Node x) {
  while (x->op == Op::kReshape || x->op == Op::kPermute || x->op == Op::kDetach) x = x->src(0);
  const auto is_part = [](Node node) { return node->op == Op::kPad || node->op == Op::kCat; };
  return x->op == Op::kCat || (x->op == Op::kAdd && std::ranges::any_of(x->src(), is_part));
}

Status store_operands(Node* call, Graph& g) {
  Node a = (*call)->src(1), b = (*call)->src(2);
  const bool parts_a = is_row_of_parts(a) && b->dim(b->ndim - 1u) >= kFewestReads;
  const bool parts_b = is_row_of_parts(b) && a->dim(a->ndim - 2u) >= kFewestReads;
  if (parts_a || parts_b) {
    if (parts_a) a = g.contiguous(a);
    if (parts_b) b = g.contiguous(b);
    *call = same_with(g, *call, std::array{(*call)->src(0), a, b});
    ASTER_TRY(need(*call));
  }
  const int64_t rows = a->dim(a->ndim - 2u), terms = a->dim(a->ndim - 1u);
  if (is_turned(a) && rows * terms >= kLargeTurned && b->dim(b->ndim - 1u) >= kManyColumns) {
    *call = same_with(g, *call, std::array{(*call)->src(0), g.contiguous(a), b});
    ASTER_TRY(need(*call));
    a = (*call)->src(1);
  }
  if (a->dim(a->ndim - 2u) < 2 || b->dim(b->ndim - 1u) * b->dim(b->ndim - 2u) < kLargeOperand)
    return kOk;
  if (is_computed(a)) a = g.contiguous(a);
  if (is_computed(b)) b = g.contiguous(b);
  *call = same_with(g, *call, std::array{(*call)->src(0), a, b});
  return need(*call);
}

// What a gradient to weights reads for each element of a filter is computed before.
Status store_gradient(Node* call, Graph& g) {
  const Node body = (*call)->src(0), x = (*call)->src(1), dy = (*call)->src(2);
  const Word filter = (*call)->dim(1) * (*call)->dim(2) * (*call)->dim(3);
  if (filter < kFewestReads || !is_computed(dy)) return kOk;
  *call = same_with(g, *call, std::array{body, x, g.contiguous(dy)});
  return need(*call);
}

// Whether a gradient to weights is better stored with its filters innermost, which lie in the lanes
// while it is computed: elsewhere the lanes of a tile are so far from each other that they displace
// each other from the cache, with all that an update reads and writes beside them.
bool has_far_filters(Node gradient) {
  const Word filter = gradient->dim(1) * gradient->dim(2) * gradient->dim(3);
  return gradient->dim(0) >= 32 && gradient->dim(1) >= 16 && filter > gradient->dim(1);
}

// Fewest products of a sum that are one, and what each of them has to have: its operands are
// copied, which has to be less than storing its result.
constexpr size_t kFewestProducts = 4;
bool is_short_product(Node node) {
  if (node->op != Op::kCall || uop::composite_of(node) != uop::Composite::kMatmul) return false;
  if (node->ndim != 2 || (node->dtype != DType::kFloat32 && node->dtype != DType::kFloat64))
    return false;
  const int64_t rows = node->dim(0), columns = node->dim(1), terms = node->src(1)->dim(1);
  return terms * (rows + columns) <= rows * columns;
}

// The product of the operands of several, one behind the other along their terms.
Node joined_products(Graph& g, Nodes calls) {
  constexpr std::array<Word, 2> kTurned{1, 0};
  Vec<Node> left(g.memory()), right(g.memory());
  const bool turned = std::ranges::all_of(calls, [&](Node call) {
    return call->src(1)->op == Op::kPermute && std::ranges::equal(call->src(1)->arg(), kTurned);
  });
  const auto stored = [&](Node x) { return is_computed(x) ? g.contiguous(x) : x; };
  for (Node call : calls) {
    if (!left.push(stored(turned ? call->src(1)->src(0) : call->src(1))).ok()) return nullptr;
    if (!right.push(stored(call->src(2))).ok()) return nullptr;
  }
  Node a = g.cat({left.data(), left.size()}, turned ? 0 : 1);
  if (turned) a = g.permute(a, kTurned);
  const Node b = g.cat({right.data(), right.size()}, 0);
  return a == nullptr || b == nullptr ? nullptr : uop::build_matmul(g, a, b);
}

// A product of a few rows of a leaf, which it is worth to copy, by a matrix.
bool is_product_of_rows(Node node) {
  constexpr int64_t kFewRows = 64, kFewestColumns = 64;
  if (node->op != Op::kCall || uop::composite_of(node) != uop::Composite::kMatmul) return false;
  if (node->ndim != 2 || node->dim(0) > kFewRows || node->dim(1) < kFewestColumns) return false;
  Node rows = node->src(1);
  while (rows->op == Op::kReshape || rows->op == Op::kSlice) rows = rows->src(0);
  return rows->op == Op::kParam && node->count() != 0 && node->src(1)->count() != 0;
}

// A leaf, or the piece of it that a node of the graph is.
Node part_of_param(Graph& g, const Leaves& leaves, const Leaves::Part& part) {
  const Node memory = leaves.buffers[part.leaf];
  const int64_t count = part.node->count();
  Node param = g.param(static_cast<Word>(part.leaf), memory->dtype, memory->shape());
  if (param != nullptr && count != param->count())
    param = g.slice(param, std::array{part.first}, std::array{Word{1}}, std::array{count});
  return g.reshape(param, part.node->shape());
}

}  // namespace

Status copy_with_params(Node* out, Graph& g, Nodes roots, const Leaves& leaves) {
  Memory& memory = g.memory();
  Vec<Node> nodes(memory), src(memory);
  Map<Node, Node> done(memory);
  for (const Leaves::Part& part : leaves.parts) {
    const Node param = part_of_param(g, leaves, part);
    ASTER_TRY(need(param));
    ASTER_TRY(done.set(part.node, param));
  }
  ASTER_TRY(uop::toposort(&nodes, roots));
  for (Node node : nodes) {
    if (done.contains(node)) continue;
    src.clear();
    bool below = node->op == Op::kBuffer;  // a leaf, and nothing else reads it
    for (Node source : node->src()) {
      const Node* copied = done.find(source);
      below |= copied == nullptr;
      if (!below) ASTER_TRY(src.push(*copied));
    }
    if (below) continue;
    Node made = copy_node(g, node, {src.data(), src.size()});
    ASTER_TRY(need(made));
    ASTER_TRY(done.set(node, made));
  }
  src.clear();
  for (Node root : roots) ASTER_TRY(src.push(done.get(root, nullptr)));
  *out = g.sink({src.data(), src.size()});
  return need(*out);
}

Status inline_calls(Node* sink, Graph& g, bool cpu) {
  for (bool found = true; found;) {
    found = false;
    const auto visit = [&](Node* made, Node node, Nodes src) -> Status {
      if (node->op != Op::kCall) return *made = same_with(g, node, src), kOk;
      *made = g.make(Op::kCall, node->dtype, src, node->arg(), node->shape());
      ASTER_TRY(need(*made));
      found = true;
      const uop::Composite kind = uop::composite_of(*made);
      if (cpu && kind == uop::Composite::kMatmul) ASTER_TRY(store_operands(made, g));
      const bool weights = kind == uop::Composite::kConv2dWeightGrad;
      if (cpu && (weights || kind == uop::Composite::kConv2d)) {
        ASTER_TRY(weights ? exchange_images(made, g) : split_phases(made, g));
        if ((*made)->op != Op::kCall) return kOk;
        ASTER_TRY(store_image(made, g));
        if (weights) ASTER_TRY(store_gradient(made, g));
      }
      const bool turned = cpu && weights && has_far_filters(*made);
      ASTER_TRY(uop::inline_call(made, g, *made));
      if (!turned) return kOk;
      const Node last = g.contiguous(g.permute(*made, std::array<Word, 4>{1, 2, 3, 0}));
      *made = g.contiguous(g.permute(last, std::array<Word, 4>{3, 0, 1, 2}));
      return need(*made);
    };
    Vec<Node> nodes(g.memory());
    ASTER_TRY(walk(&nodes, std::array{*sink}));
    ASTER_TRY(rebuild(sink, g, nodes, visit));
  }
  return kOk;
}

Status multiply_quantised(Node* sink, Graph& g, bool quads) {
  return change_each(sink, g, Op::kCall,
                     [&](Node* call) { return multiply_integers(call, g, quads); });
}

Status join_products(Node* sink, Graph& g) {
  Vec<Node> nodes(g.memory());
  ASTER_TRY(walk(&nodes, std::array{*sink}));
  if (std::ranges::count_if(nodes, is_short_product) < static_cast<int64_t>(kFewestProducts))
    return kOk;
  Map<Node, Node> users(g.memory());  // the only one, or the node itself where there are several
  for (Node node : nodes) {
    for (Node source : node->src()) {
      const Node* known = users.find(source);
      ASTER_TRY(users.set(source, known == nullptr ? node : source));
    }
  }
  // Rebuilt sums and products that another sum alone reads.
  Map<Node, bool> inner(g.memory());
  Vec<Node> pending(g.memory()), rest(g.memory()), products(g.memory());
  return rebuild(sink, g, nodes, [&](Node* made, Node node, Nodes src) -> Status {
    *made = same_with(g, node, src);
    ASTER_TRY(need(*made));
    const Node user = users.get(node, node);
    const bool within = user->op == Op::kAdd && user != node;
    if (within && (node->op == Op::kAdd || is_short_product(node))) return inner.set(*made, true);
    if (node->op != Op::kAdd) return kOk;
    pending.clear();
    rest.clear();
    products.clear();
    ASTER_TRY(pending.append((*made)->src().data(), 2));
    for (size_t i = 0; i < pending.size(); ++i) {
      const Node one = pending[i];
      const bool opens = inner.contains(one);
      if (opens && one->op == Op::kAdd) {
        ASTER_TRY(pending.append(one->src().data(), 2));
      } else {
        ASTER_TRY((opens ? products : rest).push(one));
      }
    }
    if (products.size() < kFewestProducts) return kOk;
    Node sum = joined_products(g, {products.data(), products.size()});
    for (Node one : rest) sum = sum == nullptr ? nullptr : g.alu(Op::kAdd, sum, one);
    return *made = sum, need(sum);
  });
}

Status multiply_rows_together(Node* sink, Graph& g) {
  constexpr int64_t kMostTogether = int64_t{1} << 24;  // elements that are in memory at one time
  Vec<Node> nodes(g.memory());
  ASTER_TRY(walk(&nodes, std::array{*sink}));
  struct Group {
    size_t count = 0;
    int64_t elements = 0;
    Node product = nullptr;
    Word rows = 0;  // of it that were handed out
  };
  Map<Node, Group> groups(g.memory());  // by the matrix
  const auto is_joined = [](const Group& group) {
    return group.count >= kFewestProducts && group.elements <= kMostTogether;
  };
  for (Node node : nodes) {
    if (!is_product_of_rows(node)) continue;
    Group group = groups.get(node->src(2), {});
    ++group.count;
    group.elements += node->count();
    ASTER_TRY(groups.set(node->src(2), group));
  }
  if (std::ranges::none_of(groups, [&](const auto& one) { return is_joined(one.value); }))
    return kOk;
  return rebuild(sink, g, nodes, [&](Node* made, Node node, Nodes src) -> Status {
    Group* const group = is_product_of_rows(node) ? groups.find(node->src(2)) : nullptr;
    if (group == nullptr || !is_joined(*group)) return *made = same_with(g, node, src), need(*made);
    if (group->product == nullptr) {
      Vec<Node> rows(g.memory());
      for (Node other : nodes) {
        if (is_product_of_rows(other) && other->src(2) == node->src(2))
          ASTER_TRY(rows.push(other->src(1)));
      }
      const Node all = g.contiguous(g.cat({rows.data(), rows.size()}, 0));
      ASTER_TRY(need(all));
      group->product = g.contiguous(uop::build_matmul(g, all, src[2]));
      ASTER_TRY(need(group->product));
    }
    *made = g.slice(group->product, std::array{group->rows, Word{0}}, std::array{Word{1}, Word{1}},
                    node->shape());
    group->rows += node->dim(0);
    return need(*made);
  });
}

Status copy_written_values(Node* sink, Graph& g) {
  return change_each(sink, g, Op::kAssign, [&](Node* node) -> Status {
    if ((*node)->src(1)->op != Op::kAssign) return kOk;
    *node = g.assign((*node)->src(0), g.contiguous((*node)->src(1)));
    return need(*node);
  });
}

Status expand_scatters(Node* sink, Graph& g) {
  return change_each(sink, g, Op::kScatter,
                     [&](Node* node) { return expand_scatter(node, g, *node); });
}

Status split_reductions(Node* sink, Graph& g) {
  return change_each(sink, g, Op::kReduce, [&](Node* node) { return split(node, g, *node); });
}

Status split_concatenations(Node* sink, Graph& g) {
  return change_each(sink, g, Op::kCat, [&](Node* node) -> Status {
    if ((*node)->nsrc <= kMostBehind) return kOk;
    const Word axis = (*node)->arg(0);
    Vec<Node> parts(g.memory()), wider(g.memory());
    ASTER_TRY(parts.append((*node)->src().data(), (*node)->nsrc));
    while (parts.size() > kMostBehind) {
      wider.clear();
      for (size_t first = 0; first < parts.size(); first += kMostBehind) {
        const Nodes some{parts.data() + first, std::min(kMostBehind, parts.size() - first)};
        ASTER_TRY(wider.push(some.size() == 1 ? some[0] : g.contiguous(g.cat(some, axis))));
      }
      std::swap(parts, wider);
    }
    *node = g.cat({parts.data(), parts.size()}, axis);
    return need(*node);
  });
}

Status split_words(Node* sink, Graph& g) {
  return change_each(sink, g, Op::kCast, [&](Node* node) -> Status {
    if ((*node)->dtype != DType::kUInt32) return kOk;
    Node call = (*node)->src(0);
    const bool high = call->op == Op::kShr && uop::is_const_value(call->src(1), 32);
    if (high) call = call->src(0);
    if (call->op == Op::kThreefry) *node = uop::threefry_word(g, call, high);
    return need(*node);
  });
}

// Rows are turned in squares of registers, which no loop of a scan has.
Status copy_turned_scans(Node* sink, Graph& g) {
  const auto turned = [](Node x) {
    constexpr int64_t kFewest = 16;
    const size_t last = x->ndim - 1;
    return x->op == Op::kPermute && x->arg(last) != static_cast<Word>(last) &&
           x->dim(last) >= kFewest && x->src(0)->dim(last) >= kFewest;
  };
  for (const Op op : {Op::kScan, Op::kScanPlace, Op::kLogScan}) {
    ASTER_TRY(change_each(sink, g, op, [&](Node* node) -> Status {
      if (!turned((*node)->src(0))) return kOk;
      *node = g.with_sources(*node, std::array{g.contiguous((*node)->src(0))});
      return need(*node);
    }));
  }
  return kOk;
}

Status sort_values(Node* sink, Graph& g) {
  Vec<Node> nodes(g.memory());
  Map<Node, uint8_t> kept(g.memory());  // orders that are read themselves
  ASTER_TRY(walk(&nodes, std::array{*sink}));
  bool any = false;
  for (Node node : nodes) {
    any |= sorts(node);
    for (Node source : node->src()) {
      if (source->op == Op::kArgsort && !sorts(node)) ASTER_TRY(kept.set(source, 1));
    }
  }
  if (!any) return kOk;
  return rebuild(sink, g, nodes, [&](Node* made, Node node, Nodes src) -> Status {
    const bool values = sorts(node) && !kept.contains(node->src(1));
    *made = values ? g.sort(src[0], node->src(1)->arg(0), node->src(1)->arg(1) != 0)
                   : same_with(g, node, src);
    return need(*made);
  });
}

// Whether windows like these along the last axis reach beyond both of its ends: a condition for
// each takes longer than a copy.
bool reaches_both_ends(Node window) {
  const Node pad = window->src(0);
  const size_t last = pad->ndim - 1u, axis = static_cast<size_t>(window->arg(0));
  const int64_t size = pad->dim(last), stride = window->arg(1);
  const int64_t before = pad->arg(3 * last), after = pad->arg(3 * last + 1);
  const int64_t span = (window->dim(axis + 1) - 1) * window->arg(2) + 1;
  const int64_t end = span <= size ? (size - span) / stride * stride + span : size;
  return before > 0 && end > size - after;
}

Status lay_out_padding(Node* sink, Graph& g) {
  return change_each(sink, g, Op::kWindow, [&](Node* window) -> Status {
    const Node x = (*window)->src(0);
    const bool overlaps = (*window)->count() > x->count();
    if (x->op != Op::kPad || !overlaps || x->count() < kPaddedFrom) return kOk;
    // Two masked loads and a shuffle give vectors of stride 2; not those of larger ones, nor what
    // has gaps between elements.
    const bool halves = dtype::size(x->dtype) >= 4 && x->dim(x->ndim - 1) >= kHalvesFrom &&
                        !reaches_both_ends(*window);
    bool conditions = (*window)->arg(1) > (halves ? 2 : 1);
    for (size_t i = 0; i < x->ndim; ++i) conditions |= x->arg(3 * i + 2) > 0;
    if (!conditions) return kOk;
    *window = g.with_sources(*window, std::array{g.contiguous(x)});
    return need(*window);
  });
}

Status write_key(Vec<int64_t>* key, Leaves* leaves, Engine& engine, Nodes roots, Vec<Node>* order) {
  Memory& memory = key->memory();
  Vec<Node> found(memory);
  Vec<Node>& nodes = order != nullptr ? *order : found;
  Map<Node, uint32_t> position(memory);
  if (order == nullptr) ASTER_TRY(uop::toposort(&nodes, roots));
  ASTER_TRY(find_leaves(leaves, &nodes, engine, roots));
  const Leaves::Part* part = leaves->parts.begin();
  for (Node node : nodes) {
    ASTER_TRY(position.set(node, static_cast<uint32_t>(position.size())));
    const bool leaf = part != leaves->parts.end() && part->node == node;
    const Op op = leaf ? Op::kBuffer : node->op;
    const Nodes sources = leaf ? Nodes() : node->src();
    const auto head = static_cast<int64_t>(op) | static_cast<int64_t>(node->dtype) << 8 |
                      static_cast<int64_t>(node->ndim) << 16 |
                      static_cast<int64_t>(sources.size()) << 32;
    ASTER_TRY(key->push(head));
    if (leaf) {
      // Where it lies among those that it overlaps; where all of them lie makes no difference.
      const LeafRegion& region = leaves->regions[part->leaf];
      ASTER_TRY(key->push(part->leaf));
      ASTER_TRY(key->push(part->first));
      ASTER_TRY(key->push(region.group));
      ASTER_TRY(key->push(region.begin));
      ASTER_TRY(key->push(leaves->buffers[part->leaf]->arg(1)));
      ++part;
    } else {
      leaves->foreign |= op == Op::kForeign;
      ASTER_TRY(key->push(node->narg));
      ASTER_TRY(key->append(node->arg().data(), node->narg));
    }
    ASTER_TRY(key->append(node->shape().data(), node->ndim));
    for (Node source : sources) ASTER_TRY(key->push(position.get(source, 0)));
  }
  for (Node root : roots) ASTER_TRY(key->push(position.get(root, 0)));
  return kOk;
}

}  // namespace aster::engine
