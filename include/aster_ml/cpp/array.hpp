/* aster_ml::Array: concrete tensors, computed with at once; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_ARRAY_HPP
#define ASTER_ML_CPP_ARRAY_HPP

#include "aster_ml/cpp/eager.hpp"
#include "aster_ml/cpp/tensor.hpp"

namespace aster_ml {

/* ---- Arrays: concrete tensors, computed with at once ---- */

/* A reference to a dense tensor of any strides. */
class Array : public detail::EagerMethods<Array, Array> {
 public:
  Array() = default;
  Array(aster_ml_tensor&& taken, const detail::Root& root) : tensor_(std::move(taken), root) {}
  /* Memory of its own, not initialised; device is a code, 0 the usual one. */
  Array(Dtype dtype, const std::vector<size_t>& shape, int32_t device = 0) {
    const Context& context = Context::current();
    aster_ml_tensor made{};
    if (context.ok() && detail::good(aster_ml_tensor_init(&made, context.get(), detail::code(dtype),
                                                          device, shape.size(), shape.data()))) {
      tensor_ = {std::move(made), context.root()};
    }
  }
  /* A copy of row-major elements. */
  template <class Number>
  Array(const std::vector<Number>& values, const std::vector<size_t>& shape)
      : Array(dtype_of<Number>(), shape) {
    if (ok() && !detail::good(aster_ml_tensor_copy_in(get(), values.data(), values.size()))) {
      tensor_ = {};
    }
  }
  bool ok() const { return !tensor_.empty(); }
  aster_ml_tensor* get() const { return tensor_.get(); }
  detail::Root root() const { return tensor_.needed(); }
  const Array& self() const { return *this; }
  Dtype dtype() const { return Dtype{get()->dtype}; }
  size_t count() const { return aster_ml_tensor_count(get()); }
  /* A lazy tensor on the same storage. */
  Tensor lazy() const {
    aster_ml_lazy out{};
    if (!ok() || !detail::good(aster_ml_lazy_from_tensor(&out, root().get(), get()))) return {};
    return Tensor(std::move(out), root());
  }
  /* Its elements in place, by its strides; null where it has none or they are of another type. */
  template <class Number>
  Number* data() const {
    const aster_ml_tensor& x = *get();
    if (x.storage.data == nullptr || dtype() != dtype_of<Number>()) return nullptr;
    return reinterpret_cast<Number*>(static_cast<char*>(x.storage.data) + x.byte_offset);
  }
  /* Its elements, row-major; none where they are of another type. */
  template <class Number>
  std::vector<Number> to_vector() const {
    std::vector<Number> out(dtype() == dtype_of<Number>() ? count() : 0);
    if (!detail::good(aster_ml_tensor_copy_out(out.data(), get(), out.size()))) out.clear();
    return out;
  }
  /* Its memory for another library, in place (aster_ml_dlpack_export): the caller's, to delete or
   * to pass on; null on failure. */
  aster_ml_dlpack_managed* to_dlpack() const {
    aster_ml_dlpack_managed* out = nullptr;
    if (ok()) detail::good(aster_ml_dlpack_export(&out, root().get(), get(), 0));
    return out;
  }
  /* The memory of another library, in place (aster_ml_dlpack_import); taken over if it succeeds. */
  static Array from_dlpack(aster_ml_dlpack_managed* managed) {
    const Context& context = Context::current();
    aster_ml_tensor made{};
    if (!context.ok() || !detail::good(aster_ml_dlpack_import(&made, context.get(), managed)))
      return {};
    return Array(std::move(made), context.root());
  }
  template <class Function, class... Arguments>
  static Array call(const Array& x, Function function, Arguments... arguments) {
    aster_ml_tensor out{};
    if (!x.ok() || !detail::good(function(&out, x.root().get(), x.get(), arguments...))) return {};
    return Array(std::move(out), x.root());
  }

 private:
  detail::Shared<aster_ml_tensor, detail::Root> tensor_;
};

}  // namespace aster_ml

#endif
