// What a kernel computes side by side.
#include "engine/fusion.h"

namespace aster::engine::fusion {
namespace {

constexpr uint32_t kMostVisits = 32;  // nodes looked at below one
constexpr size_t kMostParts = 4;
constexpr int64_t kWidePart = 64;  // elements in a row of a part

}  // namespace

// Equal parts of a node that are computed side by side in one kernel, because what it is made of
// lies one behind the other along an axis: no element then has to choose. Of operations on several
// operands only where choosing would compute something expensive twice.
Status find_parts(size_t* axis, int64_t* parts, Arena& memory, const Analysis& nodes, Node node) {
  if (node->count() < 2 || node->op == Op::kAssign) return kOk;
  struct Below {
    Node node;
    bool flat, alone;  // below a Reshape; below nothing but unary operations
  };
  List<Below> stack(memory);
  stack.push(Below{node, false, true});
  for (uint32_t visits = 0; !stack.empty() && visits < kMostVisits; ++visits) {
    Below at = stack.back();
    stack.pop();
    const Record& record = nodes.of(at.node);
    const Op op = at.node->op;
    if (is_leaf(op)) continue;
    if (at.node != node && record.held) {
      if (op != Op::kContiguous) continue;
      at.alone = true;  // in parts itself
    }
    if (op == Op::kCat) {
      const auto along = static_cast<size_t>(at.node->arg(0));
      const Node first = at.node->src(0);
      bool fits = at.node->nsrc <= kMostParts;
      int64_t before = 1, own = 1;  // elements of a part: around the axis, in a row
      for (size_t i = 0; i < at.node->ndim; ++i) (i < along ? before : own) *= first->dim(i);
      bool heavy = at.alone && node->count() >= kTinyTensor && own >= kWidePart;
      for (Node source : at.node->src()) {
        const Record& part = nodes.of(source);
        fits &= source->dim(along) == first->dim(along) &&
                (!part.multiplies || part.weight > kCheapInside);
        heavy |= part.weight > kCheapInside;
      }
      size_t outermost = 0;
      while (outermost + 1 < node->ndim && node->dim(outermost) == 1) ++outermost;
      const size_t where = at.flat ? outermost : along;
      fits &= heavy && (!at.flat || before == 1) && where < node->ndim &&
              node->dim(where) % at.node->nsrc == 0;
      if (!fits) continue;
      *axis = where;
      *parts = at.node->nsrc;
      return kOk;
    }
    const bool same = uop::is_alu(op) || op == Op::kCast || op == Op::kBitcast ||
                      op == Op::kContiguous || op == Op::kDetach;
    if (!same && op != Op::kReshape) continue;
    uint32_t computed = 0;
    for (Node source : at.node->src()) computed += !uop::is_const(source);
    at.alone &= computed == 1;
    at.flat |= op == Op::kReshape;
    for (Node source : at.node->src()) {
      at.node = source;
      stack.push(at);
    }
  }
  return memory.status();
}

}  // namespace aster::engine::fusion
