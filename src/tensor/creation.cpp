// Creation: from memory, constants, ranges.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "device/device.h"
#include "engine/engine.h"
#include "flt/convert.h"
#include "flt/elements.h"
#include "tensor/api.h"

namespace aster::tensor {
namespace {

using uop::Dims;

// Dimensions that are not negative and whose product is within bounds.
Status check_shape(Words shape, DType dtype) {
  int64_t bytes = dtype::size(dtype) == 0 ? 8 : static_cast<int64_t>(dtype::size(dtype));
  for (Word dim : shape) {
    if (dim < 0)
      return ASTER_FAIL(kRANGE, "a negative dimension in %s", uop::brief_shape(shape).text);
  }
  for (Word dim : shape) {
    if (!checked_mul(bytes, std::max<Word>(dim, 1), &bytes)) {
      return ASTER_FAIL(kRANGE, "%s%s is too large", dtype::name(dtype),
                        uop::brief_shape(shape).text);
    }
  }
  return kOk;
}

int32_t build_filled(aster_ml_lazy* out, const aster_ml_context* context, double value,
                     int32_t dtype, size_t ndim, const int64_t* shape) {
  Build build(out, context);
  ASTER_TRY(build.status());
  DType to;
  Words dims;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kWeakFloat));
  ASTER_TRY(shape_argument(&dims, ndim, shape));
  ASTER_TRY(check_shape(dims, to));
  Graph& g = build.graph();
  return build.finish(g.constant(g.strong(to), value, dims));
}

// A cell on new storage, which is handed over through fill before anyone sees it.
Status build_storage(Build& build, buffer::Storage** storage, Node* node, DType dtype,
                     Words shape) {
  int64_t count = 1;
  for (Word dim : shape) count *= dim;
  ASTER_TRY(buffer::storage_create(storage, build.context(),
                                   static_cast<size_t>(count) * dtype::size(dtype),
                                   engine::default_device(build.engine())));
  *node = engine::buffer_node(build.engine(), *storage, 0, dtype, shape);
  if (*node == nullptr) buffer::storage_release(*storage);
  return *node == nullptr ? last_failure() : kOk;
}

// A copy of elements.
Status copied_node(Node* out, Build& build, const void* data, DType dtype, Words shape) {
  buffer::Storage* storage;
  Node node;
  ASTER_TRY(build_storage(build, &storage, &node, dtype, shape));
  Status status = kOk;
  if (storage->bytes != 0 && data == nullptr) {
    status = ASTER_FAIL(kARGUMENT, "data is a null pointer for %s", uop::brief(node).text);
  } else if (storage->bytes != 0) {
    status = buffer::copy({storage->data, 0, storage->device},
                          {const_cast<void*>(data), 0, buffer::kHost}, storage->bytes);
    if (status.ok() && build.engine().recording != nullptr)
      status = engine::note_made(build.engine(), storage);
  }
  if (status.ok()) *out = node;
  buffer::storage_release(storage);  // the node has a reference of its own
  return status;
}
Status copied(Build& build, const void* data, DType dtype, Words shape) {
  Node node;
  ASTER_TRY(copied_node(&node, build, data, dtype, shape));
  return build.finish(node);
}

Status storage_dtype(DType* out, int32_t code) { return dtype::from_any_storage_code(out, code); }

// The number of elements from start by step to stop, or -1 if they are beyond int64.
int64_t count_steps(int64_t start, int64_t stop, int64_t step) {
  const bool forward = step > 0;
  if (forward ? start >= stop : start <= stop) return 0;
  const uint64_t way = forward ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                               : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t pace =
      forward ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = (way - 1) / pace + 1;
  return count > static_cast<uint64_t>(INT64_MAX) ? -1 : static_cast<int64_t>(count);
}

bool holds(DType dtype, int64_t value) {
  if (dtype::is_float(dtype)) return true;
  return value >= dtype::min_int(dtype) &&
         (value < 0 || static_cast<uint64_t>(value) <= dtype::max_int(dtype));
}

// start + step * i in float64, cast; of a wide dtype in that.
Node float_range(Graph& g, double start, double step, int64_t count, DType dtype) {
  if (dtype::is_wide(dtype)) {
    const auto number = [&](double x) {
      return Expr{&g, g.constant(DType::kFloat64, x)}.cast(dtype);
    };
    const Expr i = Expr{&g, g.iota(DType::kInt64, count)}.cast(dtype);
    return (number(start) + i * number(step)).n;
  }
  const Expr i = Expr{&g, g.iota(DType::kInt64, count)}.cast(DType::kFloat64);
  return (start + i * step).cast(dtype).n;
}

}  // namespace

Status number_in_memory(Node* out, Build& build, const aster_ml_scalar* value) {
  *out = nullptr;
  if (value == nullptr || flt::limbs_of(value->dtype) == 0) return kOk;
  DType dtype;
  ASTER_TRY(storage_dtype(&dtype, value->dtype));
  double number;
  if (flt::is_double(&number, dtype, value->value)) return kOk;
  return copied_node(out, build, value->value, dtype, {});
}

Status filling_argument(Filling* out, Build& build, const aster_ml_scalar* fill) {
  ASTER_TRY(number_in_memory(&out->number, build, fill));
  if (out->number == nullptr) return scalar_argument(&out->word, &out->dtype, fill);
  out->dtype = out->number->dtype;
  return kOk;
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
namespace engine = aster::engine;
namespace buffer = aster::buffer;
using aster::kOk;
using aster::Status;

int32_t aster_ml_lazy_from(aster_ml_lazy* out, const aster_ml_context* context, const void* data,
                           int32_t dtype, size_t ndim, const int64_t* shape) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  DType to;
  Words dims;
  ASTER_TRY(storage_dtype(&to, dtype));
  ASTER_TRY(shape_argument(&dims, ndim, shape));
  ASTER_TRY(check_shape(dims, to));
  return copied(build, data, to, dims);
}

int32_t aster_ml_lazy_from_tensor(aster_ml_lazy* out, const aster_ml_context* context,
                                  const aster_ml_tensor* tensor) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  Node node;
  ASTER_TRY(tensor_node(&node, build, context, tensor, true));
  return build.finish(node);
}

int32_t aster_ml_lazy_scalar(aster_ml_lazy* out, const aster_ml_context* context,
                             const aster_ml_scalar* value) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  Word word;
  DType dtype;
  Node number;
  ASTER_TRY(number_in_memory(&number, build, value));
  if (number != nullptr) return build.finish(number);
  ASTER_TRY(scalar_argument(&word, &dtype, value));
  return build.finish(build.graph().constant_word(dtype, word));
}

int32_t aster_ml_lazy_number(aster_ml_lazy* out, const aster_ml_context* context, double value) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  return build.finish(build.graph().constant(DType::kWeakFloat, value));
}

int32_t aster_ml_lazy_integer(aster_ml_lazy* out, const aster_ml_context* context, int64_t value) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  return build.finish(build.graph().constant_int(DType::kWeakInt, value));
}

int32_t aster_ml_lazy_full(aster_ml_lazy* out, const aster_ml_context* context,
                           const aster_ml_scalar* value, int32_t dtype, size_t ndim,
                           const int64_t* shape) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  DType to;
  Words dims;
  Filling filling;
  ASTER_TRY(filling_argument(&filling, build, value));
  ASTER_TRY(dtype_argument(&to, dtype, filling.dtype));
  Graph& g = build.graph();
  to = g.strong(to);
  ASTER_TRY(shape_argument(&dims, ndim, shape));
  ASTER_TRY(check_shape(dims, to));
  return build.finish(filling.in(g, to, dims));
}

int32_t aster_ml_lazy_zeros(aster_ml_lazy* out, const aster_ml_context* context, int32_t dtype,
                            size_t ndim, const int64_t* shape) {
  ASTER_API();
  return build_filled(out, context, 0, dtype, ndim, shape);
}

int32_t aster_ml_lazy_ones(aster_ml_lazy* out, const aster_ml_context* context, int32_t dtype,
                           size_t ndim, const int64_t* shape) {
  ASTER_API();
  return build_filled(out, context, 1, dtype, ndim, shape);
}

int32_t aster_ml_lazy_empty(aster_ml_lazy* out, const aster_ml_context* context, int32_t dtype,
                            size_t ndim, const int64_t* shape) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  DType to;
  Words dims;
  ASTER_TRY(dtype_argument(&to, dtype, build.graph().defaults.real));
  ASTER_TRY(storage_dtype(&to, static_cast<int32_t>(to)));
  ASTER_TRY(shape_argument(&dims, ndim, shape));
  ASTER_TRY(check_shape(dims, to));
  buffer::Storage* storage;
  Node node;
  ASTER_TRY(build_storage(build, &storage, &node, to, dims));
  const Status status = build.finish(node);
  buffer::storage_release(storage);
  return status;
}

int32_t aster_ml_lazy_arange(aster_ml_lazy* out, const aster_ml_context* context, int64_t start,
                             int64_t stop, int64_t step, int32_t dtype) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  if (step == 0) return ASTER_FAIL(kRANGE, "arange by step 0");
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kWeakInt));
  Graph& g = build.graph();
  to = g.strong(to);
  const int64_t count = count_steps(start, stop, step);
  if (count < 0) return ASTER_FAIL(kRANGE, "arange of too many elements");
  const int64_t last = count == 0 ? start : start + (count - 1) * step;
  if (dtype == 0 && !(holds(to, start) && holds(to, last))) to = DType::kInt64;
  if (count == 0) return build.finish(g.constant_int(to, 0, Dims(1, 0)));
  if (!holds(to, start) || !holds(to, last)) {
    return ASTER_FAIL(kRANGE, "arange from %lld to %lld in %s", static_cast<long long>(start),
                      static_cast<long long>(last), aster::dtype::name(to));
  }
  ASTER_TRY(check_shape(Dims(1, count), to));
  // Wrapping arithmetic in an integer dtype is exact; a float one goes through int64.
  const DType in = aster::dtype::is_int(to) ? to : DType::kInt64;
  const Node i = g.iota(in, count);
  const Node first = g.constant_int(in, start, Dims(1, count)),
             by = g.constant_int(in, step, Dims(1, count));
  const Node scaled = step == 1 ? i : g.alu(aster::uop::Op::kMul, i, by);
  return build.finish(g.cast(start == 0 ? scaled : g.alu(aster::uop::Op::kAdd, scaled, first), to));
}

int32_t aster_ml_lazy_arange_float(aster_ml_lazy* out, const aster_ml_context* context,
                                   double start, double stop, double step, int32_t dtype) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kWeakFloat));
  if (!std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step) || step == 0) {
    return ASTER_FAIL(kRANGE, "arange from %g to %g by %g", start, stop, step);
  }
  const double count = std::max(std::ceil((stop - start) / step), 0.0);
  if (!(count < 0x1p60)) return ASTER_FAIL(kRANGE, "arange from %g to %g by %g", start, stop, step);
  Graph& g = build.graph();
  return build.finish(float_range(g, start, step, static_cast<int64_t>(count), g.strong(to)));
}

int32_t aster_ml_lazy_linspace(aster_ml_lazy* out, const aster_ml_context* context, double start,
                               double stop, int64_t count, int32_t dtype) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kWeakFloat));
  if (to == DType::kBool) return ASTER_FAIL(kDTYPE, "linspace of bool");
  if (aster::dtype::is_wide(to))
    return ASTER_FAIL(kUNSUPPORTED, "linspace of %s", aster::dtype::name(to));
  if (count < 0)
    return ASTER_FAIL(kRANGE, "linspace of %lld elements", static_cast<long long>(count));
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  Graph& g = build.graph();
  return build.finish(float_range(g, start, step, count, g.strong(to)));
}

int32_t aster_ml_lazy_eye(aster_ml_lazy* out, const aster_ml_context* context, int64_t rows,
                          int64_t columns, int32_t dtype) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kWeakFloat));
  const std::array shape{rows, columns};
  ASTER_TRY(check_shape(shape, to));
  Graph& g = build.graph();
  const Expr row = iota(g, DType::kInt64, shape, 0), column = iota(g, DType::kInt64, shape, 1);
  return build.finish((row == column).cast(g.strong(to)).n);
}
