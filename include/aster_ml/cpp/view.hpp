/* aster_ml::View: memory with byte strides, kind, owner and flags; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_VIEW_HPP
#define ASTER_ML_CPP_VIEW_HPP

#include "aster_ml/cpp/array.hpp"

namespace aster_ml {

/* ---- Views: descriptors of memory that say everything about it ---- */

/* A reference to a view. What gives a view gives an empty one on failure. */
class View {
 public:
  View() = default;
  View(aster_ml_buffer_view&& taken, const detail::Root& root) : view_(std::move(taken), root) {}
  /* The memory of an array. */
  explicit View(const Array& array) {
    if (detail::there(array, "View"))
      *this = made(array.root(), aster_ml_view_from_tensor, array.root().get(), array.get());
  }
  /* Memory from outside, in place (aster_ml_view_from_memory); struct_size is filled in. */
  explicit View(aster_ml_view_options options) {
    options.struct_size = sizeof(options);
    const Context& context = Context::current();
    if (context.ok())
      *this = made(context.root(), aster_ml_view_from_memory, context.get(), &options);
  }
  /* A part of a buffer (aster_ml_view_from_buffer); strides in bytes, none: row-major. */
  View(const aster_ml_buffer& buffer, size_t byte_offset, size_t bytes,
       const std::vector<size_t>& shape, const std::vector<ptrdiff_t>& strides = {}) {
    const Context& context = Context::current();
    if (!context.ok() || !fits(shape, strides)) return;
    *this = made(context.root(), aster_ml_view_from_buffer, context.get(), &buffer, byte_offset,
                 bytes, shape.size(), shape.data(), strides.empty() ? nullptr : strides.data());
  }
  /* Elements of the caller's, which have to outlive every use; strides in bytes. */
  template <class Number>
  static View of(Number* data, const std::vector<size_t>& shape,
                 const std::vector<ptrdiff_t>& strides = {}) {
    if (!fits(shape, strides)) return {};
    aster_ml_view_options options{};
    options.dtype = detail::code(dtype_of<std::remove_const_t<Number>>());
    options.flags = std::is_const_v<Number> ? ASTER_ML_VIEW_READ_ONLY : 0;
    options.data = const_cast<std::remove_const_t<Number>*>(data);
    options.ndim = shape.size();
    options.shape = shape.data();
    options.strides = strides.empty() ? nullptr : strides.data();
    return View(options);
  }

  bool ok() const { return !view_.empty(); }
  const aster_ml_buffer_view* get() const { return view_.get(); }
  Dtype dtype() const { return Dtype{get()->memory.dtype}; }
  int32_t device() const { return get()->memory.device; }
  int32_t kind() const { return get()->kind; }
  uint32_t flags() const { return get()->flags; }
  aster_ml_layout layout() const { return get()->layout; }
  const void* owner() const { return get()->owner; }
  size_t count() const { return aster_ml_view_count(get()); }
  std::vector<size_t> shape() const { return {get()->shape, get()->shape + get()->ndim}; }
  std::vector<ptrdiff_t> strides() const { return {get()->strides, get()->strides + get()->ndim}; }
  bool is_contiguous() const { return aster_ml_view_is_contiguous(get()) != 0; }
  bool is_layout(aster_ml_layout wanted) const { return aster_ml_view_is_layout(get(), wanted); }
  bool is_writable() const { return aster_ml_view_is_writable(get()) != 0; }
  bool is_host() const { return aster_ml_view_is_host(get()) != 0; }
  bool is_device() const { return aster_ml_view_is_device(get()) != 0; }
  bool is_pinned() const { return aster_ml_view_is_pinned(get()) != 0; }
  bool is_shared() const { return aster_ml_view_is_shared(get()) != 0; }

  /* An array in the same memory. */
  Array array() const {
    aster_ml_tensor out{};
    if (!detail::there(*this, "View::array") ||
        !detail::good(aster_ml_view_to_tensor(&out, root().get(), get())))
      return {};
    return Array(std::move(out), root());
  }
  /* A view of the same elements with shape and strides of its own. */
  View copy() const {
    if (!detail::there(*this, "View::copy")) return {};
    return made(root(), aster_ml_view_copy, get());
  }
  View ensure_contiguous() const {
    if (!detail::there(*this, "View::ensure_contiguous")) return {};
    return made(root(), aster_ml_view_ensure_contiguous, root().get(), get());
  }
  View to_device(int32_t device) const {
    if (!detail::there(*this, "View::to_device")) return {};
    return made(root(), aster_ml_view_to_device, root().get(), get(), device);
  }
  View to_layout(aster_ml_layout layout) const {
    if (!detail::there(*this, "View::to_layout")) return {};
    return made(root(), aster_ml_view_to_layout, root().get(), get(), layout);
  }
  View slice(size_t axis, int64_t start, int64_t stop, int64_t step = 1) const {
    if (!detail::there(*this, "View::slice")) return {};
    return made(root(), aster_ml_view_slice, get(), axis, start, stop, step);
  }
  View flip(size_t axis) const {
    if (!detail::there(*this, "View::flip")) return {};
    return made(root(), aster_ml_view_flip, get(), axis);
  }
  /* Two views without a byte in common; both empty on failure. */
  std::pair<View, View> split_at(size_t axis, size_t index) const {
    aster_ml_buffer_view low{}, high{};
    if (!detail::there(*this, "View::split_at") ||
        !detail::good(aster_ml_view_split_at(&low, &high, get(), axis, index)))
      return {};
    return {View(std::move(low), root()), View(std::move(high), root())};
  }

 private:
  detail::Root root() const { return view_.needed(); }
  static bool fits(const std::vector<size_t>& shape, const std::vector<ptrdiff_t>& strides) {
    if (strides.empty() || strides.size() == shape.size()) return true;
    detail::fail(ASTER_ML_SHAPE, "View", "not as many strides as axes");
    return false;
  }
  template <class Function, class... Arguments>
  static View made(const detail::Root& root, Function function, Arguments... arguments) {
    aster_ml_buffer_view out{};
    if (!detail::good(function(&out, arguments...))) return {};
    return View(std::move(out), root);
  }
  detail::Shared<aster_ml_buffer_view, detail::Root> view_;
};

}  // namespace aster_ml

#endif
