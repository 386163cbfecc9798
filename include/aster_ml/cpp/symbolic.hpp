/* aster_ml::Size: symbolic sizes of tensors; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_SYMBOLIC_HPP
#define ASTER_ML_CPP_SYMBOLIC_HPP

#include "aster_ml/cpp/tensor.hpp"
#include "aster_ml/symbolic.h"

namespace aster_ml {

/* A size or a position: a number, or an expression of variables.
 *
 *   const Size n = Size::variable("n", 1, 2048).bind("n", 5);
 *   Tensor keys = shrink(cache, {0, 0}, {n, 64});
 *
 * Contracts stand above the functions of aster_ml/symbolic.h. */
class Size {
 public:
  Size() : Size(0) {}
  Size(int64_t value) : dim_{value, nullptr} {}  // NOLINT: numbers are sizes
  /* Keeps the expression of a dimension that the library told. */
  Size(const aster_ml_dim& dim, detail::Root root) : dim_(dim), root_(std::move(root)) { keep(); }
  Size(const Size& other) : dim_(other.dim_), root_(other.root_) { keep(); }
  Size& operator=(const Size& other) {
    Size copy(other);
    std::swap(dim_, copy.dim_);
    std::swap(root_, copy.root_);
    return *this;
  }
  ~Size() {
    if (dim_.expression != nullptr) aster_ml_uop_release(root_.get(), dim_.expression);
  }

  static Size variable(const std::string& name, int64_t min, int64_t max) {
    return make(Context::current().root(), aster_ml_symbolic_init, name.c_str(), min, max);
  }
  Size bind(const std::string& name, int64_t value) const {
    return make(root_, aster_ml_symbolic_bind, dim_.expression, name.c_str(), value);
  }
  /* What it comes to now; -1 where that fails. */
  int64_t value() const {
    int64_t out = dim_.value;
    if (dim_.expression != nullptr &&
        !detail::good(aster_ml_symbolic_value(&out, root_.get(), dim_.expression)))
      return -1;
    return out;
  }
  bool is_symbolic() const { return dim_.expression != nullptr; }
  const aster_ml_dim& get() const { return dim_; }
  /* As a 0-d tensor. */
  Tensor tensor() const {
    const detail::Root root = is_symbolic() ? root_ : Context::current().root();
    aster_ml_lazy out{};
    if (!detail::good(aster_ml_lazy_from_dim(&out, root.get(), &dim_))) return {};
    return Tensor(std::move(out), root);
  }

  /* The name of the variable that it is, or that its first term is made of; empty for a number. */
  std::string name() const {
    const aster_ml_uop* node = dim_.expression;
    while (node != nullptr && aster_ml_uop_source_count(node) != 0)
      node = aster_ml_uop_source_at(node, 0);
    const char* name = nullptr;
    int64_t min = 0, max = 0, value = 0;
    int32_t bound = 0;
    if (node == nullptr ||
        !detail::good(aster_ml_symbolic_get(&name, &min, &max, &value, &bound, root_.get(), node)))
      return {};
    return name;
  }

  friend Size operator+(const Size& a, const Size& b) { return combine("Add", a, b); }
  friend Size operator-(const Size& a, const Size& b) { return combine("Sub", a, b); }
  friend Size operator*(const Size& a, const Size& b) { return combine("Mul", a, b); }
  friend Size operator/(const Size& a, const Size& b) { return combine("FloorDiv", a, b); }
  friend Size operator%(const Size& a, const Size& b) { return combine("FloorMod", a, b); }
  friend Size min(const Size& a, const Size& b) { return combine("Min", a, b); }
  friend Size max(const Size& a, const Size& b) { return combine("Max", a, b); }

 private:
  void keep() {
    if (dim_.expression != nullptr) aster_ml_uop_retain(root_.get(), dim_.expression);
  }
  /* An expression that function gives; 0 where that fails. */
  template <class Function, class... Arguments>
  static Size make(const detail::Root& root, Function function, Arguments... arguments) {
    Size out;
    const aster_ml_uop* made = nullptr;
    if (!detail::good(function(&made, root.get(), arguments...))) return out;
    out.root_ = root;
    out.dim_.expression = made;
    return out;
  }
  static Size combine(const char* op, const Size& a, const Size& b) {
    const detail::Root root = a.is_symbolic()   ? a.root_
                              : b.is_symbolic() ? b.root_
                                                : Context::current().root();
    return make(root, aster_ml_symbolic_combine, op, &a.dim_, &b.dim_);
  }
  aster_ml_dim dim_;
  detail::Root root_;
};
using Sizes = std::vector<Size>;

namespace detail {
inline std::vector<aster_ml_dim> dims_of(const Sizes& sizes) {
  std::vector<aster_ml_dim> out;
  for (const Size& size : sizes) out.push_back(size.get());
  return out;
}
template <class Function, class... Arguments>
Tensor sized(const Root& root, Function function, Arguments... arguments) {
  aster_ml_lazy out{};
  if (!good(function(&out, arguments...))) return {};
  return Tensor(std::move(out), root);
}
/* Lists of one length. */
inline bool paired(const Sizes& a, const Sizes& b, const char* name) {
  if (a.size() == b.size()) return true;
  fail(ASTER_ML_ARGUMENT, name, "lists of different lengths");
  return false;
}
}  // namespace detail

/* The sizes of a tensor; empty where it is. */
inline Sizes sizes(const Tensor& x) {
  Sizes out;
  if (!detail::there(x, "sizes")) return out;
  std::vector<aster_ml_dim> dims(aster_ml_lazy_ndim(x.get()));
  if (!detail::good(aster_ml_lazy_dims(dims.data(), dims.size(), x.get()))) return out;
  for (const aster_ml_dim& dim : dims) out.emplace_back(dim, x.root());
  return out;
}
/* Makes x, which has symbolic sizes, the first part of those sizes of its whole tensor; false where
 * it fails. */
inline bool set_sizes(const Tensor& x, const Sizes& sizes) {
  const std::vector<aster_ml_dim> dims = detail::dims_of(sizes);
  return detail::there(x, "set_sizes") &&
         detail::good(aster_ml_lazy_set_dims(x.get(), dims.size(), dims.data()));
}
inline Tensor whole(const Tensor& x) {
  if (!detail::there(x, "whole")) return {};
  return detail::sized(x.root(), aster_ml_lazy_whole, x.get());
}
inline Tensor reshape(const Tensor& x, const Sizes& shape) {
  const std::vector<aster_ml_dim> dims = detail::dims_of(shape);
  if (!detail::there(x, "reshape")) return {};
  return detail::sized(x.root(), aster_ml_lazy_reshape_dims, x.get(), dims.size(), dims.data());
}
inline Tensor expand(const Tensor& x, const Sizes& shape) {
  const std::vector<aster_ml_dim> dims = detail::dims_of(shape);
  if (!detail::there(x, "expand")) return {};
  return detail::sized(x.root(), aster_ml_lazy_expand_dims, x.get(), dims.size(), dims.data());
}
inline Tensor shrink(const Tensor& x, const Sizes& begin, const Sizes& end) {
  const std::vector<aster_ml_dim> from = detail::dims_of(begin), to = detail::dims_of(end);
  if (!detail::there(x, "shrink") || !detail::paired(begin, end, "shrink")) return {};
  return detail::sized(x.root(), aster_ml_lazy_shrink_dims, x.get(), from.size(), from.data(),
                       to.data());
}
inline Tensor pad(const Tensor& x, const Sizes& before, const Sizes& after) {
  const std::vector<aster_ml_dim> from = detail::dims_of(before), to = detail::dims_of(after);
  if (!detail::there(x, "pad") || !detail::paired(before, after, "pad")) return {};
  return detail::sized(x.root(), aster_ml_lazy_pad_dims, x.get(), from.size(), from.data(),
                       to.data(), nullptr);
}
inline Tensor select(const Tensor& x, int64_t axis, const Size& index) {
  if (!detail::there(x, "select")) return {};
  return detail::sized(x.root(), aster_ml_lazy_select_dims, x.get(), axis, &index.get());
}
/* One item of x[...] whose positions may be expressions; or any Index. */
class SizeIndex {
 public:
  SizeIndex(const Size& at) : start_(at) {}
  SizeIndex(const Size& start, const Size& stop, int64_t step = 1)
      : kind_(ASTER_ML_INDEX_SLICE), start_(start), stop_(stop), step_(step) {}
  template <class Item, class = std::enable_if_t<std::is_constructible_v<Index, const Item&>>>
  SizeIndex(const Item& item) : plain_{Index(item)} {
    const aster_ml_index raw = plain_[0].get();
    kind_ = raw.kind;
    start_ = raw.start;
    stop_ = raw.stop;
    step_ = raw.step;
  }
  aster_ml_dim_index get() const {
    const aster_ml_lazy* const tensor = plain_.empty() ? nullptr : plain_[0].get().tensor;
    return {kind_, start_.get(), stop_.get(), step_, tensor};
  }

 private:
  int32_t kind_ = ASTER_ML_INDEX_INTEGER;
  Size start_, stop_;
  int64_t step_ = 1;
  std::vector<Index> plain_; /* keeps a tensor */
};
namespace detail {
inline std::vector<aster_ml_dim_index> items_of(const std::vector<SizeIndex>& items) {
  std::vector<aster_ml_dim_index> out;
  for (const SizeIndex& item : items) out.push_back(item.get());
  return out;
}
}  // namespace detail
inline Tensor index(const Tensor& x, const std::vector<SizeIndex>& items) {
  const std::vector<aster_ml_dim_index> list = detail::items_of(items);
  if (!detail::there(x, "index")) return {};
  return detail::sized(x.root(), aster_ml_lazy_index_dims, x.get(), list.size(), list.data());
}
/* False where it fails. */
inline bool index_assign(const Tensor& target, const std::vector<SizeIndex>& items,
                         const Tensor& value) {
  const std::vector<aster_ml_dim_index> list = detail::items_of(items);
  return detail::there(target, "index_assign") && detail::there(value, "index_assign") &&
         detail::good(
             aster_ml_lazy_index_assign_dims(target.get(), list.size(), list.data(), value.get()));
}
inline Tensor rearrange(const Tensor& x, const char* formula,
                        const std::vector<std::pair<const char*, Size>>& sizes) {
  std::vector<const char*> names;
  std::vector<aster_ml_dim> dims;
  for (const auto& [name, size] : sizes) {
    names.push_back(name);
    dims.push_back(size.get());
  }
  if (!detail::there(x, "rearrange")) return {};
  return detail::sized(x.root(), aster_ml_lazy_rearrange_dims, x.get(), formula, names.size(),
                       names.data(), dims.data());
}
inline Tensor interpolate(const Tensor& x, const Sizes& size,
                          Interpolation mode = Interpolation::linear, bool align_corners = false) {
  const std::vector<aster_ml_dim> dims = detail::dims_of(size);
  if (!detail::there(x, "interpolate")) return {};
  return detail::sized(x.root(), aster_ml_lazy_interpolate_dims, x.get(), dims.size(), dims.data(),
                       static_cast<aster_ml_interpolation>(mode), align_corners ? 1 : 0);
}
inline Tensor full(const Sizes& shape, const Scalar& value, Dtype dtype = {}) {
  const std::vector<aster_ml_dim> dims = detail::dims_of(shape);
  const detail::Root root = Context::current().root();
  return detail::sized(root, aster_ml_lazy_full_dims, root.get(), value.get(), detail::code(dtype),
                       dims.size(), dims.data());
}
inline Tensor empty(const Sizes& shape, Dtype dtype = {}) {
  const std::vector<aster_ml_dim> dims = detail::dims_of(shape);
  const detail::Root root = Context::current().root();
  return detail::sized(root, aster_ml_lazy_empty_dims, root.get(), detail::code(dtype), dims.size(),
                       dims.data());
}
inline Tensor arange(const Size& start, const Size& stop, Dtype dtype = {}) {
  const detail::Root root = Context::current().root();
  return detail::sized(root, aster_ml_lazy_arange_dims, root.get(), &start.get(), &stop.get(),
                       detail::code(dtype));
}

}  // namespace aster_ml

#endif
