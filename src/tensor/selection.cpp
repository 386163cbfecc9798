// Orders and selections: the public functions of indexing.h that put elements elsewhere by their
// values.
#include "engine/engine.h"
#include "tensor/indexing.h"
#include "tensor/sized.h"
#include "uop/composite.h"

namespace aster::tensor {

using uop::brief;

Status count_true(int64_t* out, Input mask) {
  aster_ml_lazy total{};
  {
    Build build(&total, {mask});
    ASTER_TRY(build.status());
    Graph& g = build.graph();
    if (build.engine().recording != nullptr) {
      return ASTER_FAIL(kSTATE, "the size of a selection by %s is read in a capture",
                        brief(node(mask)).text);
    }
    const Node ones =
        cast(g, binary(g, node(mask), g.constant_int(DType::kInt32, 0), ops::ne), DType::kInt64);
    ASTER_TRY(build.finish(sum(g, ones, {0, nullptr}, false)));
  }
  double count = 0;
  const Status status{aster_ml_lazy_to_double(&count, &total)};
  (void)aster_ml_lazy_free(&total);
  *out = static_cast<int64_t>(count);
  return status;
}

Node true_positions(Graph& g, Node mask, int64_t count) {
  const Node flat = reshape(g, mask, std::array<Word, 1>{-1});
  return flat == nullptr ? nullptr : g.argsort(flat, 0, true, count);
}

namespace {

// Selections of a size that is known: positions of the first elements, and which of them are true.
struct Selection {
  Node positions, valid;
};
Status select_true(Selection* out, Graph& g, Node mask, int64_t size) {
  const int64_t all = mask->count();
  const int64_t taken = size < all ? size : all;
  Node at = true_positions(g, mask, taken);
  const uop::Dims before(1, 0), after(1, size - taken), interior(1, 0);
  at = at == nullptr ? nullptr : g.pad(at, before, after, interior, 0);
  if (at == nullptr) return last_failure();
  const Node count = sum(g, cast(g, mask, DType::kInt32), {0, nullptr}, false);
  const Node rank = g.iota(DType::kInt32, size);
  *out = {at, binary(g, rank, count, ops::lt)};
  return out->valid != nullptr ? kOk : last_failure();
}

// What stands behind the selected elements where a size is asked for; -1 for as many as there are.
Status read_filling(Filling* out, Build& build, int64_t size, const aster_ml_scalar* fill) {
  if (size < -1) return ASTER_FAIL(kRANGE, "size %lld", static_cast<long long>(size));
  return fill == nullptr ? kOk : filling_argument(out, build, fill);
}
// The first of elements of which some are valid, then the fill.
Node filled_up(Graph& g, Node valid, Node x, const Filling& fill) {
  return x == nullptr ? nullptr : where(g, valid, x, fill.in(g, x->dtype, x->shape()));
}

// A mask of a shape of shown operands is false beyond their sizes, whatever these are: what is
// selected is of so many elements.
Status leave_out_beyond(Node* mask, Build& build) {
  Sizes sizes;
  if (*mask == nullptr) return last_failure();
  if (!build.sizes_beside(&sizes, *mask)) return kOk;
  build.take_rule(Sizes());
  const uop::Dims axes = sized::all_axes(sizes.size());
  return sized::masked(mask, build, *mask, sizes, axes, sized::Fill::kZero);
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::last_failure;
using aster::Status;

namespace {

constexpr int64_t kWhole = INT64_MIN;

int32_t sort_pair(aster_ml_lazy* values, aster_ml_lazy* indices, Input x, int64_t axis,
                  bool descending, int64_t count) {
  for (aster_ml_lazy* out : {values, indices}) {
    if (out != nullptr && out != x) out->impl = nullptr;
  }
  if (values == nullptr || indices == nullptr || values == indices) {
    return ASTER_FAIL(kARGUMENT, "out_values and out_indices need to be two handles");
  }
  if (values == x || indices == x) {
    return ASTER_FAIL(kARGUMENT, "out holds the handle of an input");
  }
  if (count < 0 && count != kWhole) {
    return ASTER_FAIL(kRANGE, "the first %lld elements", static_cast<long long>(count));
  }
  aster_ml_lazy both[2] = {}, unused{};
  Build build(&unused, {x});
  ASTER_TRY(build.status());
  Node sorted[2] = {};
  const Node first = count == kWhole ? nullptr : build.graph().index(count);
  ASTER_TRY(sized::ordered(build, x, axis, descending, first));
  ASTER_TRY(sort(&sorted[0], &sorted[1], build.graph(), node(x), axis, descending, count));
  ASTER_TRY(make_handles(both, build, sorted));
  *values = both[0];
  *indices = both[1];
  return kOk;
}

}  // namespace

int32_t aster_ml_lazy_sort(aster_ml_lazy* out_values, aster_ml_lazy* out_indices,
                           const aster_ml_lazy* x, int64_t axis, int32_t descending) {
  ASTER_API();
  return sort_pair(out_values, out_indices, x, axis, descending != 0, kWhole);
}

int32_t aster_ml_lazy_argsort(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t axis,
                              int32_t descending) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::ordered(build, x, axis, descending != 0, nullptr));
  return build.finish(argsort(build.graph(), node(x), axis, descending != 0));
}

int32_t aster_ml_lazy_topk(aster_ml_lazy* out_values, aster_ml_lazy* out_indices,
                           const aster_ml_lazy* x, int64_t k, int64_t axis, int32_t largest) {
  ASTER_API();
  return sort_pair(out_values, out_indices, x, axis, largest != 0, k);
}

int32_t aster_ml_lazy_masked_select(aster_ml_lazy* out, const aster_ml_lazy* x,
                                    const aster_ml_lazy* mask, int64_t size,
                                    const aster_ml_scalar* fill) {
  ASTER_API();
  Build build(out, {x, mask});
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  if (node(mask)->dtype != aster::dtype::DType::kBool) {
    return ASTER_FAIL(kDTYPE, "masked_select of %s by %s: a mask is bool",
                      aster::uop::brief(node(x)).text, aster::uop::brief(node(mask)).text);
  }
  Filling filling;
  ASTER_TRY(read_filling(&filling, build, size, fill));
  const bool counted = size == -1;
  const auto broadcast = [&] { return expand(g, node(mask), node(x)->shape()); };
  if (counted) {
    aster_ml_lazy whole{};
    {
      Build other(&whole, {x, mask});
      ASTER_TRY(other.status());
      ASTER_TRY(other.finish(broadcast()));
    }
    const Status status = count_true(&size, &whole);
    (void)aster_ml_lazy_free(&whole);
    ASTER_TRY(status);
  }
  if (!counted) ASTER_TRY(sized::elementwise(build, {x, mask}));
  Selection selection{};
  Node whole = broadcast();
  ASTER_TRY(leave_out_beyond(&whole, build));
  ASTER_TRY(select_true(&selection, g, whole, size));
  const Node flat = reshape(g, node(x), std::array<Word, 1>{-1});
  const Node taken = gather(g, flat, 0, selection.positions);
  if (taken == nullptr) return last_failure();
  if (counted) return build.finish(taken);
  return build.finish(filled_up(g, selection.valid, taken, filling));
}

int32_t aster_ml_lazy_nonzero(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t size,
                              const aster_ml_scalar* fill) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  Filling filling;
  ASTER_TRY(read_filling(&filling, build, size, fill));
  const bool counted = size == -1;
  if (counted) ASTER_TRY(count_true(&size, x));
  if (!counted) ASTER_TRY(sized::elementwise(build, {x}));
  Node mask = binary(g, node(x), g.constant_int(DType::kInt32, 0), ops::ne);
  ASTER_TRY(leave_out_beyond(&mask, build));
  Selection selection{};
  ASTER_TRY(select_true(&selection, g, mask, size));
  const size_t axes = node(x)->ndim;
  aster::Vec<Node> columns(build.context().heap());
  ASTER_TRY(columns.resize(axes, nullptr));
  take_apart(Expr{&g, selection.positions}, node(x)->shape(),
             [&](size_t i, Expr coordinate) { columns[i] = coordinate.n; });
  const aster::uop::Dims shape(std::array<Word, 2>{size, static_cast<Word>(axes)});
  if (axes == 0) return build.finish(g.constant_int(aster::dtype::DType::kInt32, 0, shape));
  const Node table = stack(g, {columns.data(), columns.size()}, 1);
  if (table == nullptr || counted) return build.finish(table);
  const Node valid = expand(g, reshape(g, selection.valid, std::array<Word, 2>{size, 1}), shape);
  return build.finish(filled_up(g, valid, table, filling));
}
