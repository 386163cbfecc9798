// What views are made of, and their elements in other layouts.
#pragma once

#include "aster_ml/view.h"
#include "buffer/storage.h"

namespace aster::buffer {

using View = aster_ml_buffer_view;

// A reference of a storage that is given up with the scope.
class Held {
 public:
  Held() = default;
  explicit Held(Storage* storage) : storage_(storage) {}
  ~Held() { storage_release(storage_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Storage* get() const { return storage_; }
  Storage** room() { return &storage_; }
  Storage* take() { return std::exchange(storage_, nullptr); }

 private:
  Storage* storage_ = nullptr;
};

inline size_t element_of(const View& view) { return aster_ml_dtype_size(view.memory.dtype); }

// A view in storage, whose reference it takes over if this succeeds; shape and strides are filled
// in by the caller.
Status make_view(View* out, Storage* storage, int32_t dtype, size_t byte_offset, size_t ndim,
                 bool shared);
// strides in units of bytes; null: row-major.
void fill_axes(View* view, const size_t* shape, const ptrdiff_t* strides, size_t unit);
bool is_empty(const View& view);

// A descriptor of the same elements, with its axes as they are or reversed, that owns nothing;
// strides and shape, empty, are its own.
Status borrow(aster_ml_tensor* out, Vec<ptrdiff_t>* strides, const View& view, bool reversed,
              Vec<size_t>* shape);
// Memory for the elements of a strided view on a device, filled in row-major or column-major order.
Status copied(Storage** out, Context& context, const View& view, int32_t device, bool column_major);
// A view of row-major or column-major elements in memory of their own; takes the storage over.
Status dense(View* out, Held* storage, const View& like, bool column_major);
// A view of the same elements in a layout that has memory of its own.
Status to_layout(View* out, Context& context, const View& view, aster_ml_layout layout);
// Whether the elements lie row-major, or column-major.
bool is_dense(const View& view, bool column_major);

}  // namespace aster::buffer
