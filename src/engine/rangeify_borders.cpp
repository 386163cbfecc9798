// What is copied into zeros around it, as the images of convolutions are, is stored there at once.
#include <array>

#include "engine/fusion.h"
#include "uop/symbolic.h"

namespace aster::engine::fusion {
namespace {

namespace sym = uop::sym;

// Elements and columns of an image from which that is less than a copy: rows are read and written
// apart from each other then.
constexpr int64_t kFewestInside = 4096;
constexpr int64_t kFewestColumns = 7;

// Whether shapes differ in axes of one element alone.
bool same_but_for_units(Node a, Node b) {
  size_t i = 0, j = 0;
  while (true) {
    while (i < a->ndim && a->dim(i) == 1) ++i;
    while (j < b->ndim && b->dim(j) == 1) ++j;
    if (i == a->ndim || j == b->ndim) return i == a->ndim && j == b->ndim;
    if (a->dim(i++) != b->dim(j++)) return false;
  }
}

// Whether a node stores another one with zeros around its last two axes.
bool is_bordered(Node node) {
  if (node->op != Op::kContiguous || node->src(0)->op != Op::kPad) return false;
  const Node pad = node->src(0), x = pad->src(0);
  if (pad->arg(pad->narg - 1u) != 0 || pad->ndim < 2 || x->count() < kFewestInside) return false;
  if (x->dim(x->ndim - 1u) < kFewestColumns) return false;
  for (size_t i = 0; i < pad->ndim; ++i) {
    const bool outer = i + 2 < pad->ndim;
    const uop::Word before = pad->arg(3 * i), after = pad->arg(3 * i + 1);
    if (before < 0 || after < 0 || pad->arg(3 * i + 2) != 0) return false;
    if (outer && (before != 0 || after != 0)) return false;
  }
  return true;
}

// What a node is a view of that differs in axes of one element alone; null: nothing.
Node below_units(Node x) {
  const bool view = x->op == Op::kDetach || x->op == Op::kReshape;
  return view && same_but_for_units(x, x->src(0)) ? x->src(0) : nullptr;
}

// Whether a library call reads what a record materialises: rows without gaps.
bool is_given_to_calls(const Fusion& fusion, const Analysis& nodes, uint32_t record) {
  for (const Kernel& kernel : fusion.kernels) {
    if (!kernel.library) continue;
    const Node call = nodes.library_call(nodes.node(kernel.record));
    for (const Argument& argument : nodes.arguments_of(call)) {
      if (argument.base != kNone && fusion.materialised(argument.base) &&
          fusion.stored_as(argument.base) == record)
        return true;
    }
  }
  return false;
}

}  // namespace

void hold_within(Analysis* out, Node node) {
  if (!is_bordered(node)) return;
  Node x = node->src(0)->src(0);
  for (Node below = x; below != nullptr && !out->of(x).held; below = below_units(x)) x = below;
  if (uop::is_alu(x->op) || x->op == Op::kCast || x->op == Op::kReduce)
    out->records[out->at(x)].hold("stored with zeros around it");
}

Status keep_borders(Fusion* fusion, Slots* slots, const Analysis& nodes) {
  const auto in_arena = [&](uint32_t record) {
    const uint32_t slot = slots->of_record[record];
    return slot != kNone && slots->schedule.slots[slot].kind == SlotKind::kTemporary;
  };
  for (uint32_t at = 0; at < nodes.records.size(); ++at) {
    const Node node = nodes.node(at);
    if (!is_bordered(node) || !in_arena(at)) continue;
    Node x = node->src(0)->src(0);
    while (x != nullptr && !fusion->materialised(nodes.at(x))) x = below_units(x);
    if (x == nullptr) continue;
    const uint32_t inside = fusion->stored_as(nodes.at(x));
    if (!in_arena(inside) || slots->around[inside] != kNone || slots->around[at] != kNone) continue;
    const Op op = nodes.node(inside)->op;
    Kernel& copy = fusion->kernels[fusion->uses[at].kernel];
    const Kernel& writer = fusion->kernels[fusion->uses[inside].kernel];
    if (is_state(op) || op == Op::kAssign || writer.library || writer.border) continue;
    if (copy.places.size() != 1 || is_given_to_calls(*fusion, nodes, inside)) continue;
    slots->around[inside] = at;
    slots->of_record[inside] = slots->of_record[at];
    copy.border = true;
    copy.ranges.clear();
    copy.operands.clear();
  }
  for (Demand& demand : fusion->demands) {
    // Dead ones may be of a kernel that is no more.
    if (!demand.dead) demand.dead = fusion->kernels[demand.kernel].border;
  }
  return kOk;
}

Node place_within(Graph& g, Node bordered, Node inside, std::span<const Node> index) {
  const Node pad = bordered->src(0), x = pad->src(0);
  Node out = g.index(0);
  int64_t stride = 1, first = 0;
  size_t axis = inside->ndim;
  for (size_t i = pad->ndim; i-- > 0; stride *= pad->dim(i)) {
    first += pad->arg(3 * i) * stride;
    if (x->dim(i) == 1) continue;
    while (inside->dim(--axis) == 1) {
    }
    out = sym::add(g, out, sym::mul(g, index[axis], stride));
  }
  return sym::add(g, out, first);
}

Status store_border(List<Node>* out, Graph& g, Node bordered, Node param) {
  const Node pad = bordered->src(0), x = pad->src(0);
  const size_t rows = pad->ndim - 2u, columns = pad->ndim - 1u;
  const int64_t height = x->dim(rows), pitch = pad->dim(columns), plane = pad->dim(rows) * pitch;
  const int64_t left = pad->arg(3 * columns), right = pad->arg(3 * columns + 1);
  // In each plane, one behind the other: what lies before the first row, between rows, and behind
  // the last one.
  const int64_t before = pad->arg(3 * rows) * pitch + left;
  const int64_t behind = pad->arg(3 * rows + 1) * pitch + right;
  const int64_t between = left + right;
  int64_t next = 0;
  const Node zero = g.constant_word(bordered->dtype, 0);
  const Node planes = g.range(next++, pad->count() / plane);
  const auto store = [&](int64_t first, int64_t length, int64_t times) -> Status {
    if (length == 0 || times == 0) return kOk;
    List<Node> src(out->arena());
    src.append(std::array{param, zero, zero, planes});
    Node place = sym::add(g, sym::mul(g, planes, plane), first);
    if (times > 1) {
      src.push(g.range(next++, times));
      place = sym::add(g, place, sym::mul(g, src.back(), pitch));
    }
    if (length > 1) {
      src.push(g.range(next++, length));
      place = sym::add(g, place, src.back());
    }
    ASTER_TRY(src.arena().status());
    src[1] = place;
    out->push(g.make(Op::kStore, DType::kNone, src.all()));
    return need(out->back());
  };
  ASTER_TRY(store(0, before, 1));
  ASTER_TRY(store(before + pitch - between, between, height - 1));
  ASTER_TRY(store(plane - behind, behind, 1));
  return out->arena().status();
}

}  // namespace aster::engine::fusion
