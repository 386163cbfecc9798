// Foreign kernels of the Blaze interface as operations.
#include <cstring>

#include "base/code.h"
#include "device/device.h"
#include "tensor/kernel.h"

namespace aster::tensor {
namespace {

using Prefix = aster_ml_kernel_data_prefix;
using uop::Foreign;

template <typename Function>
Function function_of(const KernelObject& kernel) {
  return function_at<Function>(kernel.function);
}

void unary_single(const Foreign& self, char* dst, ptrdiff_t dst_stride, const char* const* src,
                  const ptrdiff_t* strides, size_t count) {
  const KernelObject& kernel = object_of_foreign(self);
  const auto function = function_of<aster_ml_unary_single>(kernel);
  Prefix* const extra = kernel.instance.kernel;
  const char* x = src[0];
  for (size_t i = 0; i < count; ++i, dst += dst_stride, x += strides[0]) function(dst, x, extra);
}

void unary_strided(const Foreign& self, char* dst, ptrdiff_t dst_stride, const char* const* src,
                   const ptrdiff_t* strides, size_t count) {
  const KernelObject& kernel = object_of_foreign(self);
  function_of<aster_ml_unary_strided>(kernel)(dst, dst_stride, src[0], strides[0], count,
                                              kernel.instance.kernel);
}

void binary_single(const Foreign& self, char* dst, ptrdiff_t dst_stride, const char* const* src,
                   const ptrdiff_t* strides, size_t count) {
  const KernelObject& kernel = object_of_foreign(self);
  const auto function = function_of<aster_ml_binary_single>(kernel);
  Prefix* const extra = kernel.instance.kernel;
  const char *x = src[0], *y = src[1];
  for (size_t i = 0; i < count; ++i, dst += dst_stride, x += strides[0], y += strides[1])
    function(dst, x, y, extra);
}

void binary_strided(const Foreign& self, char* dst, ptrdiff_t dst_stride, const char* const* src,
                    const ptrdiff_t* strides, size_t count) {
  const KernelObject& kernel = object_of_foreign(self);
  function_of<aster_ml_binary_strided>(kernel)(dst, dst_stride, src[0], strides[0], src[1],
                                               strides[1], count, kernel.instance.kernel);
}

void nary_single(const Foreign& self, char* dst, ptrdiff_t dst_stride, const char* const* src,
                 const ptrdiff_t* strides, size_t count) {
  const KernelObject& kernel = object_of_foreign(self);
  const auto function = function_of<aster_ml_nary_single>(kernel);
  const char* at[Foreign::kMostOperands];
  const size_t operands = kernel.signature.operands;
  for (size_t k = 0; k < operands; ++k) at[k] = src[k];
  for (size_t i = 0; i < count; ++i, dst += dst_stride) {
    function(dst, at, kernel.instance.kernel);
    for (size_t k = 0; k < operands; ++k) at[k] += strides[k];
  }
}

void nary_strided(const Foreign& self, char* dst, ptrdiff_t dst_stride, const char* const* src,
                  const ptrdiff_t* strides, size_t count) {
  const KernelObject& kernel = object_of_foreign(self);
  function_of<aster_ml_nary_strided>(kernel)(dst, dst_stride, src, strides, count,
                                             kernel.instance.kernel);
}

void run_blaze(const KernelObject& kernel, char* const* results, const char* const* operands, void*,
               int64_t, int64_t) {
  function_of<aster_ml_arrays>(kernel)(results, operands, kernel.instance.kernel);
}

// What is wrong with an instance that is not ours; null if nothing.
Status check_instance(const aster_ml_dynamic_kernel_instance& instance) {
  constexpr size_t kAlign = alignof(void*);
  if (instance.kernel == nullptr) return ASTER_FAIL(kARGUMENT, "the kernel is a null pointer");
  if (reinterpret_cast<uintptr_t>(instance.kernel) % kAlign != 0) {
    return ASTER_FAIL(kARGUMENT, "the kernel at %p is not aligned as a pointer is",
                      static_cast<void*>(instance.kernel));
  }
  if (instance.kernel_size < sizeof(Prefix) || instance.kernel_size % kAlign != 0) {
    return ASTER_FAIL(kARGUMENT,
                      "the kernel's size, %zu bytes, is no multiple of %zu, or less than %zu",
                      instance.kernel_size, kAlign, sizeof(Prefix));
  }
  const char* missing = instance.kernel->function == nullptr     ? "function"
                        : instance.kernel->destructor == nullptr ? "destructor"
                        : instance.free_func == nullptr          ? "free_func"
                                                                 : nullptr;
  return missing == nullptr ? kOk : ASTER_FAIL(kARGUMENT, "the kernel's %s is null", missing);
}

Status take_form(KernelObject* object, int32_t form) {
  const Signature& s = object->signature;
  if (form == ASTER_ML_KERNEL_ARRAYS) {
    object->form = uop::ForeignForm::kArrays;
    object->arrays = run_arrays;
    object->run = run_blaze;
    object->tasks = 1;
    return kOk;
  }
  const bool strided = form == ASTER_ML_KERNEL_STRIDED;
  if (!strided && form != ASTER_ML_KERNEL_SINGLE)
    return ASTER_FAIL(kARGUMENT, "%d is no form of a kernel", form);
  if (!s.all_any() || s.results() != 1 || s.operands == 0) {
    return ASTER_FAIL(kARGUMENT,
                      "a kernel on elements has operands and one result, all of shape [...]");
  }
  object->form = uop::ForeignForm::kElements;
  object->elements = s.operands == 1   ? (strided ? unary_strided : unary_single)
                     : s.operands == 2 ? (strided ? binary_strided : binary_single)
                                       : (strided ? nary_strided : nary_single);
  return kOk;
}

Status from_blaze(aster_ml_kernel* out, Context& context,
                  aster_ml_dynamic_kernel_instance* instance, int32_t form, const char* name,
                  const char* signature, const aster_ml_kernel_options* options) {
  ASTER_TRY(check_instance(*instance));
  aster_ml_kernel_options read;
  ASTER_TRY(read_options(&read, options));
  if (read.device != device::kCpu) {
    return ASTER_FAIL(kUNSUPPORTED, "a kernel for %s: the CPU calls kernels of other libraries",
                      device::name(read.device).text);
  }
  KernelObject* object = nullptr;
  ASTER_TRY(kernel_create(&object, context, name, signature, read));
  object->function = instance->kernel->function;
  Status status = take_form(object, form);
  if (!status.ok()) {
    object->release();
    return status;
  }
  check_kernel(object);
  object->retain();
  status = kernel_finish(out, object);
  if (status.ok()) object->instance = *instance;
  object->release();
  return status;
}

}  // namespace
}  // namespace aster::tensor

int32_t aster_ml_kernel_from_blaze(aster_ml_kernel* out, const aster_ml_context* context,
                                   aster_ml_dynamic_kernel_instance* instance, int32_t form,
                                   const char* name, const char* signature,
                                   const aster_ml_kernel_options* options) {
  if (out != nullptr) *out = {};
  ASTER_ENTER(aster::context_of(context));
  if (out == nullptr || instance == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer");
  ASTER_TRY(aster::tensor::from_blaze(out, *aster::context_of(context), instance, form, name,
                                      signature, options));
  *instance = {};
  return aster::kOk;
}
