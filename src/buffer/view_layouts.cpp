// Views in layouts with memory of their own: row-major, column-major, and along the Z-curve.
#include <bit>
#include <cstring>

#include "buffer/strided.h"
#include "buffer/view.h"
#include "device/device.h"
#include "dtype/dtype.h"

namespace aster::buffer {

Status borrow(aster_ml_tensor* out, Vec<ptrdiff_t>* strides, const View& view, bool reversed,
              Vec<size_t>* shape) {
  const auto size = static_cast<ptrdiff_t>(element_of(view));
  for (size_t i = 0; i < view.ndim; ++i) {
    const size_t axis = reversed ? view.ndim - 1 - i : i;
    ASTER_TRY(strides->push(view.strides[axis] / size));
    ASTER_TRY(shape->push(view.shape[axis]));
  }
  *out = {view.memory,     view.byte_offset,  view.ndim,         shape->data(),
          strides->data(), view.memory.dtype, view.memory.device};
  return kOk;
}

Status copied(Storage** out, Context& context, const View& view, int32_t device,
              bool column_major) {
  Vec<ptrdiff_t> strides(context.heap());
  Vec<size_t> shape(context.heap());
  aster_ml_tensor tensor;
  ASTER_TRY(borrow(&tensor, &strides, view, column_major, &shape));
  const size_t bytes = aster_ml_tensor_count(&tensor) * element_of(view);
  Storage* storage;
  ASTER_TRY(storage_create(&storage, context, bytes, device));
  const Status status = gather(storage->data, storage->device, tensor);
  if (!status.ok()) {
    storage_release(storage);
    return status;
  }
  *out = storage;
  return kOk;
}

Status dense(View* out, Held* storage, const View& like, bool column_major) {
  ASTER_TRY(make_view(out, storage->get(), like.memory.dtype, 0, like.ndim, false));
  storage->take();
  fill_axes(out, like.shape, nullptr, 1);
  if (!column_major) return kOk;
  auto step = static_cast<ptrdiff_t>(element_of(like));
  for (size_t i = 0; i < like.ndim; ++i) {
    out->strides[i] = step;
    step *= like.shape[i] != 0 ? static_cast<ptrdiff_t>(like.shape[i]) : 1;
  }
  return kOk;
}

namespace {

// The Z-curve of the last two axes.
struct Curve {
  size_t outer = 1, rows, columns;
  int row_bits, column_bits;

  explicit Curve(const View& view)
      : rows(view.shape[view.ndim - 2]), columns(view.shape[view.ndim - 1]) {
    for (size_t i = 0; i + 2 < view.ndim; ++i) outer *= view.shape[i];
    row_bits = bits_of(rows);
    column_bits = bits_of(columns);
  }
  static int bits_of(size_t count) {
    return count > 1 ? static_cast<int>(std::bit_width(count - 1)) : 0;
  }
  size_t places() const { return size_t{1} << (row_bits + column_bits); }  // of one matrix
  size_t place(size_t row, size_t column) const {
    size_t out = 0;
    int at = 0;
    for (int bit = 0; bit < row_bits || bit < column_bits; ++bit) {
      if (bit < column_bits) out |= (column >> bit & 1) << at++;
      if (bit < row_bits) out |= (row >> bit & 1) << at++;
    }
    return out;
  }
};

// Between row-major elements and the same along the curve.
void wind(const Curve& curve, char* along, char* straight, size_t size, bool out_of_curve) {
  for (size_t matrix = 0; matrix < curve.outer; ++matrix) {
    for (size_t row = 0; row < curve.rows; ++row) {
      for (size_t column = 0; column < curve.columns; ++column, straight += size) {
        char* at = along + (matrix * curve.places() + curve.place(row, column)) * size;
        std::memcpy(out_of_curve ? straight : at, out_of_curve ? at : straight, size);
      }
    }
  }
}

Status on_host(const View& view) {
  if (device::is_host(view.memory.device)) return kOk;
  return ASTER_FAIL(kUNSUPPORTED, "Morton order on %s, whose memory the host does not address",
                    device::name(view.memory.device).text);
}

// Row-major, whatever the layout.
Status straighten(View* out, Context& context, const View& view) {
  Held storage;
  if (view.layout == ASTER_ML_LAYOUT_STRIDED) {
    ASTER_TRY(copied(storage.room(), context, view, view.memory.device, false));
    return dense(out, &storage, view, false);
  }
  const Curve curve(view);
  const size_t size = element_of(view);
  ASTER_TRY(storage_create(storage.room(), context, curve.outer * curve.rows * curve.columns * size,
                           view.memory.device));
  wind(curve, static_cast<char*>(view.memory.data) + view.byte_offset,
       static_cast<char*>(storage.get()->data), size, true);
  return dense(out, &storage, view, false);
}

Status to_morton(View* out, Context& context, const View& view) {
  ASTER_TRY(on_host(view));
  if (view.ndim < 2) return ASTER_FAIL(kSHAPE, "Morton order of %zu axes: it takes two", view.ndim);
  const Curve curve(view);
  const size_t size = element_of(view);
  size_t bytes;
  if (curve.row_bits + curve.column_bits >= 62 ||
      !checked_mul(curve.outer, curve.places(), &bytes) || !checked_mul(bytes, size, &bytes)) {
    return ASTER_FAIL(kRANGE, "%zu by %zu elements, padded to powers of two, overflow", curve.rows,
                      curve.columns);
  }
  Held straight, along;
  ASTER_TRY(copied(straight.room(), context, view, view.memory.device, false));
  ASTER_TRY(storage_create(along.room(), context, bytes, view.memory.device));
  if (bytes != 0) std::memset(along.get()->data, 0, bytes);
  wind(curve, static_cast<char*>(along.get()->data), static_cast<char*>(straight.get()->data), size,
       false);
  ASTER_TRY(make_view(out, along.get(), view.memory.dtype, 0, view.ndim, false));
  along.take();
  std::memcpy(out->shape, view.shape, view.ndim * sizeof(size_t));
  std::memset(out->strides, 0, view.ndim * sizeof(ptrdiff_t));
  out->layout = ASTER_ML_LAYOUT_MORTON;
  return kOk;
}

}  // namespace

Status to_layout(View* out, Context& context, const View& view, aster_ml_layout layout) {
  if (layout == ASTER_ML_LAYOUT_ROW_MAJOR) return straighten(out, context, view);
  if (layout != ASTER_ML_LAYOUT_COLUMN_MAJOR && layout != ASTER_ML_LAYOUT_MORTON)
    return ASTER_FAIL(kARGUMENT, "%d is no layout that one can ask for", layout);
  if (view.layout == ASTER_ML_LAYOUT_MORTON) {
    View straight;
    ASTER_TRY(straighten(&straight, context, view));
    const Status status = to_layout(out, context, straight, layout);
    ASTER_TRY((Status{aster_ml_view_free(&straight)}));
    return status;
  }
  if (layout == ASTER_ML_LAYOUT_MORTON) return to_morton(out, context, view);
  Held storage;
  ASTER_TRY(copied(storage.room(), context, view, view.memory.device, true));
  return dense(out, &storage, view, true);
}

bool is_dense(const View& view, bool column_major) {
  if (view.layout != ASTER_ML_LAYOUT_STRIDED) return false;
  if (is_empty(view)) return true;
  auto step = static_cast<ptrdiff_t>(element_of(view));
  for (size_t i = 0; i < view.ndim; ++i) {
    const size_t axis = column_major ? i : view.ndim - 1 - i;
    if (view.shape[axis] != 1 && view.strides[axis] != step) return false;
    step *= static_cast<ptrdiff_t>(view.shape[axis]);
  }
  return true;
}

}  // namespace aster::buffer
