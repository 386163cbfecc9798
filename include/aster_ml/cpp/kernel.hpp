/* Kernels of others as operations; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_KERNEL_HPP
#define ASTER_ML_CPP_KERNEL_HPP

#include "aster_ml/cpp/tensor.hpp"
#include "aster_ml/kernel.h"

namespace aster_ml {

/* A function of tensors from C, from a kernel program, or from another library.
 *
 *   Kernel twice = Kernel::from_source(
 *       "void twice(float *y, const float *x, long long begin, long long end) {"
 *       "  for (long long i = begin; i < end; i++) y[i] = 2 * x[i]; }",
 *       "twice", "float32[...] -> float32[...]");
 *   Tensor y = twice({x});
 *
 * Contracts stand above the functions of aster_ml/kernel.h. */
class Kernel {
 public:
  Kernel() = default;
  static Kernel from_source(const std::string& source, const std::string& name,
                            const std::string& signature,
                            const aster_ml_kernel_options* options = nullptr) {
    return make(aster_ml_kernel_from_source, source.c_str(), name.c_str(), signature.c_str(),
                options);
  }
  static Kernel from_program(const std::string& program, const std::string& signature,
                             const aster_ml_kernel_options* options = nullptr) {
    return make(aster_ml_kernel_from_program, program.c_str(), signature.c_str(), options);
  }
  /* Takes the instance over where it succeeds. */
  static Kernel from_blaze(aster_ml_dynamic_kernel_instance* instance, int32_t form,
                           const std::string& name, const std::string& signature,
                           const aster_ml_kernel_options* options = nullptr) {
    return make(aster_ml_kernel_from_blaze, instance, form, name.c_str(), signature.c_str(),
                options);
  }

  bool ok() const { return !kernel_.empty(); }
  aster_ml_kernel* get() const { return kernel_.get(); }
  size_t operands() const { return aster_ml_kernel_count_operands(get()); }
  size_t results() const { return aster_ml_kernel_count_results(get()); }
  /* For another device than the first source is for. */
  bool add_source(const std::string& source,
                  const aster_ml_kernel_options* options = nullptr) const {
    return detail::good(aster_ml_kernel_add_source(get(), source.c_str(), options));
  }
  bool set_gradient(const Kernel& gradient) {
    return detail::good(aster_ml_kernel_set_gradient(get(), gradient.get()));
  }
  /* One of its results; an empty tensor where that fails. */
  Tensor operator()(const std::vector<Tensor>& tensors, int64_t result = 0) const {
    if (!detail::there(*this, "Kernel")) return {};
    std::vector<const aster_ml_lazy*> given;
    for (const Tensor& tensor : tensors) {
      if (!detail::there(tensor, "Kernel")) return {};
      given.push_back(tensor.get());
    }
    aster_ml_lazy out{};
    if (!detail::good(aster_ml_kernel_apply(&out, get(), given.data(), given.size(), result))) {
      return {};
    }
    return Tensor(std::move(out), root_);
  }

 private:
  template <class Function, class... Arguments>
  static Kernel make(Function function, Arguments... arguments) {
    Kernel kernel;
    kernel.root_ = Context::current().root();
    aster_ml_kernel made{};
    if (detail::good(function(&made, kernel.root_.get(), arguments...)))
      kernel.kernel_ = {std::move(made), kernel.root_};
    return kernel;
  }
  detail::Root root_;
  detail::Shared<aster_ml_kernel, detail::Root> kernel_;
};

}  // namespace aster_ml

#endif
