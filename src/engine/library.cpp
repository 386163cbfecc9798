#include "engine/library.h"

#include "engine/indexing.h"
#include "uop/symbolic.h"

namespace aster::engine::library {
namespace {

using uop::DType;
using uop::Graph;
using uop::Node;
using uop::Op;
namespace sym = uop::sym;

bool is_index(Node call, size_t i) { return call->op == Op::kScatter && i > 1; }

// What only changes where elements are read; backwards too by kernels that are not ours, and of
// wide floats.
bool moves_elements(Node call, Op op) {
  if (op == Op::kFlip)
    return call != nullptr && (call->op == Op::kForeign || call->op == Op::kWide);
  return op == Op::kReshape || op == Op::kPermute || op == Op::kSlice || op == Op::kExpand ||
         op == Op::kDetach;
}

// The length of the axis that index i of a Scatter names.
int64_t length_indexed(Node call, size_t i) {
  size_t axis = 0;
  while (call->arg(1 + axis) != 1 - static_cast<uop::Word>(i)) ++axis;
  return call->dim(axis);
}

// Whether elements of a node are those of its last source, counted from the end where negative.
bool counts_from_end(Node node, int64_t length) {
  if (node->op != Op::kWhere) return false;
  const Node negative = node->src(0), moved = node->src(1), x = node->src(2);
  return !dtype::is_unsigned(x->dtype) && negative->op == Op::kCmpLt && negative->src(0) == x &&
         uop::is_const_value(negative->src(1), 0) && moved->op == Op::kAdd && moved->src(0) == x &&
         uop::is_const(moved->src(1)) && uop::const_int(moved->src(1)) == length;
}

// The value of a tensor at a place, if it is Iotas and constants added and multiplied; else null.
Status known_value(Node* out, Graph& g, Node node, std::span<const Node> ranges) {
  Vec<Node> index(g.memory());
  ASTER_TRY(index.append(ranges.data(), ranges.size()));
  *out = nullptr;
  int64_t factor = 1, sum = 0;
  for (;; node = node->src(0)) {
    const bool adds = node->op == Op::kAdd, times = node->op == Op::kMul;
    if (node->op == Op::kIota || is_const(node)) {
      const Node x = is_const(node) ? g.index(uop::const_int(node)) : index[0];
      *out = sym::add(g, sym::mul(g, x, g.index(factor)), g.index(sum));
      return need(*out);
    }
    if ((adds || times) && is_const(node->src(1))) {
      const int64_t c = uop::const_int(node->src(1));
      int64_t product = 0;
      if (__builtin_mul_overflow(factor, c, &product)) return kOk;
      if (adds && __builtin_add_overflow(sum, product, &sum)) return kOk;
      if (times) factor = product;
    } else if (moves_elements(nullptr, node->op)) {
      ASTER_TRY(step_down(&index, g, node));
    } else {
      return kOk;
    }
  }
}

// An index that is linear in its places and inside everywhere, or constant.
Status linear_index_view(bool* out, Vec<int64_t>* view, Graph& g, Node call, size_t i,
                         std::span<const Node> ranges) {
  const Node argument = call->src(i);
  Node value = nullptr;
  ASTER_TRY(known_value(&value, g, argument, ranges));
  *out = value != nullptr && linear_in(view, value, ranges) &&
         (is_const(argument) || (value->vmin >= 0 && value->vmax < length_indexed(call, i) &&
                                 dtype::truncate_int(argument->dtype, value->vmax) == value->vmax));
  return kOk;
}

}  // namespace

bool computes(Node node) { return native::find(node) != nullptr; }

Status view_base(Node* base, Vec<int64_t>* words, Graph& g, Node call, size_t i) {
  const native::Implementation* row = native::find(call);
  const Node argument = call->src(i);
  Memory& memory = g.memory();
  Vec<Node> ranges(memory), index(memory);
  ASTER_TRY(ranges_of(&ranges, g, argument));
  ASTER_TRY(index.append(ranges.data(), ranges.size()));
  const std::span<const Node> places{ranges.data(), ranges.size()};
  Vec<int64_t> best(memory), strides(memory);
  using namespace native;  // how indices are read
  int64_t how = kPlain, below = kPlain;
  bool linear = false;
  if (is_index(call, i)) ASTER_TRY(linear_index_view(&linear, &best, g, call, i, places));
  if (linear || (call->op == Op::kScatter && is_const(argument))) {
    *base = nullptr;
    how = kLinear;
    ASTER_TRY(best.resize(1 + argument->ndim, 0));
  } else {
    // As far down the views as the library can follow.
    best.clear();
    *base = argument;
    for (Node node = argument;;) {
      strides.clear();
      const Node position = linear_index(g, node->shape(), {index.data(), index.size()});
      if (linear_in(&strides, position, places) &&
          row->reads(call, i, {strides.data(), strides.size()})) {
        *base = node;
        how = below;
        best.clear();
        ASTER_TRY(best.append(strides.data(), strides.size()));
      }
      if (is_index(call, i) && below == kPlain && counts_from_end(node, length_indexed(call, i))) {
        below = kFromEnd;
        node = node->src(2);
        continue;
      }
      if (!moves_elements(call, node->op)) break;
      ASTER_TRY(step_down(&index, g, node));
      node = node->src(0);
    }
  }
  if (words == nullptr) return kOk;
  ASTER_TRY(words->append(best.data(), best.size()));
  return words->push(how);
}

}  // namespace aster::engine::library
