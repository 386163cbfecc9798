// Rules for tensors of symbolic sizes: how a function works on the whole tensors.
//
// A whole tensor is at least as large as the sizes can be; what lies beyond a size is unspecified.
// Rules leave it out by masks that compare positions with the size, a 0-d tensor that is read: what
// is built so serves every value, and loops end there (codegen/ends.h). A rule gives the status of
// the result that it built, or nothing: no operand has symbolic sizes, or these do not go together
// for every value of the variables. The function then goes on with tensors of the present sizes.
#pragma once

#include "aster_ml/symbolic.h"
#include "engine/symbols.h"
#include "tensor/api.h"
#include "tensor/movement.h"
#include "uop/symbolic.h"

namespace aster::tensor::sized {

using Done = std::optional<Status>;
namespace sym = uop::sym;

// ---- Sizes ----

Status sizes_of(Sizes* out, Build& build, Input x);
Status sizes_of(Sizes* out, Graph& g, const engine::Lazy& x);
// The whole tensor of a handle.
Node whole(Input x);
// Whether a <= b for the present values. Where it is not so for all, what is captured is for values
// for which it is: a run is checked. A rule asks this of what it takes for granted.
bool holds_le(Build& build, Node a, Node b);
// The greatest that sizes can be.
uop::Dims most_of(const Sizes& sizes);
bool any_bound(const Sizes& sizes);
// Whether an axis has elements, likewise.
bool never_empty(Build& build, Input x, int64_t axis);
// Dimensions from outside. -1 is left to the caller; others are not negative now. Errors: ARGUMENT,
// STATE, RANGE.
Status dims_argument(Sizes* out, engine::Engine& engine, size_t ndim, const aster_ml_dim* dims);
// A position from outside, and its present value, which may be negative. Errors: ARGUMENT, STATE.
Status position_argument(Node* out, int64_t* now, engine::Engine& engine, const aster_ml_dim& dim);
// Present values of sizes for which there is no rule; they count as used.
Status present(uop::Dims* out, Build& build, const Sizes& sizes);
// Numbers as sizes.
Sizes constants(Graph& g, Words words);
// Sizes that are numbers as words; false where one is not.
bool numbers(uop::Dims* out, const Sizes& sizes);

// ---- Masks ----

// What takes the place of elements beyond a size.
enum class Fill : uint8_t { kZero, kOne, kLowest, kHighest, kNan };
Status value_of(Expr* out, engine::Engine& engine, Node size);
// True where the positions along axes are inside the sizes; nil where all are.
Status inside(Expr* out, engine::Engine& engine, Words shape, const Sizes& sizes, Words axes);
// whole with a fill beyond the sizes of axes.
Status masked(Node* out, Build& build, Node whole, const Sizes& sizes, Words axes, Fill fill);
// The first elements of an axis.
Node cut(Graph& g, Node x, size_t axis, Word size);
// Element positions[i] of an axis at i; 0 where there is none.
// All axes of a tensor.
uop::Dims all_axes(size_t ndim);
Node take(Graph& g, Node x, size_t axis, Node positions);
// Without an axis of which it has the element at a position that is inside.
Status take_place(Node* part, Build& build, size_t axis, Node position);
// 0, 1, .. as int32 along one of ndim axes.
Expr places(Graph& g, Word count, size_t ndim, size_t axis);

// The sizes that tensors broadcast to but for the last skip axes, and their wholes cut so that they
// do. False where an axis is a variable's for one and something else for another.
bool align(Sizes* out, Node* wholes, Graph& g, std::span<const Sizes> sizes, size_t skip);

// ---- Rules ----

// Element by element: shows the whole operands, or leaves the present ones.
Status show_wholes(Build& build, std::span<const Input> operands);
inline Status elementwise(Build& build, std::span<const Input> operands) {
  return build.sized() ? show_wholes(build, operands) : kOk;
}
inline Status elementwise(Build& build, std::initializer_list<Input> operands) {
  return build.sized() ? show_wholes(build, {operands.begin(), operands.size()}) : kOk;
}
// The axes other than these are variables', if any: the function does not look along them, and its
// result has the sizes of x where it is as large as x.
Status beside(Build& build, Input x, Axes axes);
// The same of the last count axes.
Status beside_last(Build& build, Input x, size_t count);
// The last two axes are matrices that are decomposed, and what is right of them: b, which may be
// null. The axes before them are variables', if any.
Status matrices(Build& build, Input a, Input b);

// Shows x with a fill beyond the sizes of axes, for what reduces these.
Status reduce(Build& build, Input x, Axes axes, bool keepdim, Fill fill);
// The same for what goes along one axis and keeps all sizes.
Status along(Build& build, Input x, int64_t axis, Fill fill);
// y, of the sizes of x, with 0 beyond all of them: kernels compute no more than what is meant.
Status blank(Node* y, Build& build, Input x);
// Rows of positions that come last in an order.
Status ordered(Build& build, Input x, int64_t axis, bool descending, Node count);
Done mean(Build& build, Input x, Axes axes, bool keepdim);
Done var(Build& build, Input x, Axes axes, bool keepdim, int64_t correction, bool root);
using AlongAxis = Node (*)(Graph& g, Node x, int64_t axis);
Done softmax(Build& build, Input x, int64_t axis, AlongAxis f);
// x with mean 0 and variance 1 along axes.
Done layer_norm(Build& build, Input x, Axes axes, double eps, Node weight, Node bias);

Done permute(Build& build, Input x, Words axes);
Done transpose(Build& build, Input x, int64_t axis0, int64_t axis1);
Done squeeze(Build& build, Input x, int64_t axis);
Done unsqueeze(Build& build, Input x, int64_t axis);
Done flatten(Build& build, Input x, int64_t first, int64_t last);
Done reshape(Build& build, Input x, const Sizes& wanted);
// The same of a whole tensor and its sizes, in place.
Done reshape(Build& build, Node* whole, Sizes* sizes, const Sizes& wanted);
// wanted with -1 replaced by what is left of sizes; false where that is not to be said.
bool infer(Sizes* wanted, Graph& g, const Sizes& sizes);
Done expand(Build& build, Input x, const Sizes& wanted);
Done shrink(Build& build, Input x, const Sizes& begin, const Sizes& end);
Done pad(Build& build, Input x, const Sizes& before, const Sizes& after, const Filling& fill);
// By elements of x; mode is not kConstant. An axis has to hold what goes to its ends.
Done pad_mode(Build& build, Input x, Words before, Words after, Padding mode);
Done select(Build& build, Input x, int64_t axis, Node index);
Done flip(Build& build, Input x, Words axes);
Done roll(Build& build, Input x, Words shifts, Words axes);
Done repeat(Build& build, Input x, Words times);
Done repeat_interleave(Build& build, Input x, int64_t repeats, int64_t axis);
Done unfold(Build& build, Input x, int64_t axis, int64_t size, int64_t step);
Done cat(Build& build, std::span<const Input> tensors, int64_t axis);
Done stack(Build& build, std::span<const Input> tensors, int64_t axis);
Done matmul(Build& build, Input a, Input b);
struct Attention {
  Input query, key, value, mask;
  bool causal, grouped;
};
using Attend = Node (*)(void* self, Node query, Node key, Node value, Node mask, bool causal);
Done attention(Build& build, const Attention& a, Attend attend, void* self);
// A slot of x at every place that index says along an axis.
Done gather(Build& build, Input x, int64_t axis, Input index);
Done scatter(Build& build, Input x, int64_t axis, Input index, Input src, int32_t mode,
             bool include_self);

// One item of x[...] (aster_ml_index); positions may be variables'.
struct Place {
  int32_t kind;
  Node start, stop;  // nil: the end of the axis that a slice begins or stops at
  int64_t step;
  Input tensor;
};
Done index(Build& build, Input x, std::span<const Place> items);
// The first axes from start to stop by steps; null lists are all of an axis, forward.
Done slice(Build& build, Input x, size_t count, const int64_t* start, const int64_t* stop,
           const int64_t* step);
// What is assigned to a part: written, or build has the part of target that the value is to be
// assigned to.
Done index_assign(Build& build, engine::Lazy& target, std::span<const Place> items, Input value);

// The axes of two operands of equal sizes but for the last rank, which are numbers.
Status paired(Build& build, Input a, Input b, size_t rank);
// Whether one of these axes of x, first to last, is a variable's.
bool bound_among(Build& build, Input x, size_t first, size_t last);

// assign to a tensor of symbolic sizes.
Done assign(engine::Lazy& target, Input value);

}  // namespace aster::tensor::sized
