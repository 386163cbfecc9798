// Rules of operations whose places depend on data.
#include <cstdint>
#include <limits>

#include "gradient/rules.h"
#include "uop/expr.h"

namespace aster::gradient {
namespace {

using dtype::DType;
using uop::Dims;
using uop::Expr;
using uop::Node;
using uop::Nodes;
using uop::Op;
using uop::Word;
using uop::Words;

// Where a Scatter or a Gather writes or reads: its indices and coordinates, and both shapes.
struct Places {
  Graph& graph;
  Nodes indices;
  Words coordinates;
  Words into;  // of what is indexed
  Words at;    // of what is written or read

  Expr read(Expr x) const { return {&graph, graph.gather(x.n, indices, coordinates, at)}; }
  Expr write(Op op, Expr target, Expr value) const {
    return {&graph, graph.scatter(op, target.n, value.n, indices, coordinates)};
  }
  Expr constant(DType dtype, double value, Words shape) const {
    return {&graph, graph.constant(dtype, value, shape)};
  }
  // Sums of value where it lands, 0 elsewhere; narrow floats are added up in float32.
  Expr add_up(Expr value) const {
    const DType dtype = value.dtype(), sums = dtype::sum_acc(dtype);
    return write(Op::kAdd, constant(sums, 0, into), value.cast(sums)).cast(dtype);
  }
  // How many of the values that a mask marks land where.
  Expr count(Expr mask) const {
    return write(Op::kAdd, constant(DType::kInt32, 0, into), mask.cast(DType::kInt32));
  }
};

Places places_of(const Flow& flow) {
  return {flow.graph, flow.y->src().subspan(2), flow.y->arg().subspan(1), flow.y->shape(),
          flow.source(1)->shape()};
}

// ---- Scatter ----

// A value counts only if it was written last: the places tell by the positions written likewise.
void flow_write(Flow& flow, const Places& places, Expr g) {
  if (flow.needed[0]) {
    flow.set(0, places.write(Op::kSink, g, places.constant(g.dtype(), 0, places.at)).n);
  }
  if (!flow.needed[1]) return;
  const int64_t values = flow.source(1)->count();
  const DType dtype = values > INT32_MAX ? DType::kInt64 : DType::kInt32;
  const Expr position = Expr{&flow.graph, flow.graph.iota(dtype, values)}.reshape(places.at);
  const Expr last = places.write(Op::kSink, places.constant(dtype, 0, places.into), position);
  flow.set(1, where(places.read(last) == position, places.read(g), 0.0).n);
}

void flow_add(Flow& flow, const Places& places, Expr g) {
  flow.set(0, g.n);
  if (flow.needed[1]) flow.set(1, places.read(g).n);
}

// The product of the other factors at each place: exact where factors are 0.
void flow_multiply(Flow& flow, const Places& places, Expr g) {
  const Expr target{&flow.graph, flow.source(0)}, value{&flow.graph, flow.source(1)};
  if (flow.needed[0]) {
    flow.set(0, (g * places.write(Op::kMul, target.like(1), value)).n);
  }
  if (!flow.needed[1]) return;
  const Expr zero = value == 0.0;
  const Expr safe = where(zero, 1.0, value);
  const Expr product = places.write(Op::kMul, target, safe);
  const Expr no_other_zero = places.read(places.count(zero)) == zero.cast(DType::kInt32);
  flow.set(1, where(no_other_zero, places.read(g * product) / safe, 0.0).n);
}

// Whoever has the extremum shares its gradient evenly.
void flow_extremum(Flow& flow, const Places& places, Expr g) {
  const Expr y{&flow.graph, flow.y};
  const Expr target{&flow.graph, flow.source(0)}, value{&flow.graph, flow.source(1)};
  const Expr target_wins = target == y, value_wins = value == places.read(y);
  const Expr winners = target_wins.cast(DType::kInt32) + places.count(value_wins);
  const Expr share = g / winners.cast(g.dtype());
  if (flow.needed[0]) flow.set(0, where(target_wins, share, 0.0).n);
  if (flow.needed[1]) flow.set(1, where(value_wins, places.read(share), 0.0).n);
}

// ---- Scan ----

// The axis of a scan and its direction.
struct Along {
  Word axis;
  bool reverse;
  Expr scan(Op op, Expr x) const { return {x.g, x.g->scan(op, x.n, axis, reverse)}; }
  Expr log_scan(Expr x) const { return {x.g, x.g->log_scan(x.n, axis, reverse)}; }
  Along back() const { return {axis, !reverse}; }
};

// An element is part of its own sum and of those after it.
void flow_running_sum(Flow& flow, Along along, Expr g) {
  flow.set(0, along.back().scan(Op::kAdd, g).n);
}

// Up to the first 0 of a row, a term of the result is divided by the factor; that 0 itself gets the
// products without it, up to the second; what comes later gets nothing.
void flow_running_product(Flow& flow, Along along, Expr g) {
  const Expr x{&flow.graph, flow.source(0)};
  const Expr zero = x == 0.0;
  const Expr zeros = along.scan(Op::kAdd, zero.cast(DType::kInt32));
  const Expr before = zeros == 0.0, first_zero = zero & (zeros == 1.0);
  const Expr safe = where(first_zero, 1.0, x);
  const Expr terms = g * along.scan(Op::kMul, safe);
  const Expr up_to = along.back().scan(Op::kAdd, where(before, terms, 0.0));
  const Expr from = along.back().scan(Op::kAdd, where(before, 0.0, terms));
  flow.set(0, where(before, up_to / where(before, x, 1.0), where(first_zero, from, 0.0)).n);
}

// What an index along an axis of x was read for.
void add_up_along(Flow& flow, Word axis, Node index, Expr g) {
  const Words shape = flow.source(0)->shape();
  Dims coordinates(shape.size(), 0);
  for (size_t i = 0; i < shape.size(); ++i) {
    coordinates[i] = static_cast<Word>(i) == axis ? -1 : static_cast<Word>(i);
  }
  const Places places{flow.graph, {&index, 1}, coordinates, shape, shape};
  flow.set(0, places.add_up(g).n);
}

// To the latest element that equals the extremum so far.
void flow_running_extremum(Flow& flow, Along along, Expr g) {
  const Expr x{&flow.graph, flow.source(0)}, y{&flow.graph, flow.y};
  const size_t at = static_cast<size_t>(along.axis);
  const Word size = x.shape()[at];
  const DType dtype = size > INT32_MAX ? DType::kInt64 : DType::kInt32;
  const Expr wins = (x == y) | (x != x);
  const Expr position = iota(flow.graph, dtype, x.shape(), at).expand(x.shape());
  // The first element met wins.
  const Expr winner =
      along.scan(along.reverse ? Op::kMin : Op::kMax,
                 where(wins, position, along.reverse ? static_cast<double>(size - 1) : 0));
  add_up_along(flow, along.axis, winner.n, g);
}

struct ScatterRule {
  Word op;
  void (*rule)(Flow& flow, const Places& places, Expr g);
};
constexpr ScatterRule kScatterRules[] = {
    {-1, flow_write},
    {static_cast<Word>(Op::kAdd), flow_add},
    {static_cast<Word>(Op::kMul), flow_multiply},
    {static_cast<Word>(Op::kMax), flow_extremum},
    {static_cast<Word>(Op::kMin), flow_extremum},
};
struct ScanRule {
  Op op;
  void (*rule)(Flow& flow, Along along, Expr g);
};
constexpr ScanRule kScanRules[] = {
    {Op::kAdd, flow_running_sum},
    {Op::kMul, flow_running_product},
    {Op::kMax, flow_running_extremum},
    {Op::kMin, flow_running_extremum},
};

}  // namespace

void flow_gather(Flow& flow) {
  const Places places{flow.graph, flow.y->src().subspan(1), flow.y->arg(), flow.source(0)->shape(),
                      flow.y->shape()};
  flow.set(0, places.add_up(Expr{&flow.graph, flow.dy}).n);
}

void flow_scatter(Flow& flow) {
  for (const ScatterRule& row : kScatterRules) {
    if (row.op == flow.y->arg(0)) row.rule(flow, places_of(flow), Expr{&flow.graph, flow.dy});
  }
}

void flow_scan(Flow& flow) {
  for (const ScanRule& row : kScanRules) {
    if (static_cast<Word>(row.op) == flow.y->arg(0)) {
      row.rule(flow, {flow.y->arg(1), flow.y->arg(2) != 0}, Expr{&flow.graph, flow.dy});
    }
  }
}

// dx = exp(x) * sum of g / exp(y) over what x is part of: as sums of exponentials, since y grows
// with x beyond what exp may reach; those of positive and of negative terms apart. Where y is -inf,
// nothing was added yet, and nothing flows.
void flow_log_scan(Flow& flow) {
  const Expr x{&flow.graph, flow.source(0)}, y{&flow.graph, flow.y}, g{&flow.graph, flow.dy};
  const Along back = Along{flow.y->arg(0), flow.y->arg(1) != 0}.back();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto part = [&](Expr terms) {
    const Expr none = (terms < 0.0) | (y == -infinity);
    return exp(back.log_scan(where(none, -infinity, log(terms) - y)) + x);
  };
  flow.set(0, (part(g) - part(-g)).n);
}

void flow_sort(Flow& flow) {
  const Node x = flow.source(0);
  const Word axis = flow.y->arg(0);
  const Node order =
      flow.graph.argsort(x, axis, flow.y->arg(1) != 0, x->dim(static_cast<size_t>(axis)));
  if (order == nullptr) return flow.set(0, nullptr);
  add_up_along(flow, axis, order, Expr{&flow.graph, flow.dy});
}

}  // namespace aster::gradient
