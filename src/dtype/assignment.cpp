// Kernels of assignment: a function for every pair of native dtypes, one for all the others.
#include <cstdint>

#include "aster_ml/kernel.h"
#include "base/context.h"
#include "dtype/convert.h"
#include "dtype/elements.h"

namespace aster::dtype {
namespace {

using Prefix = aster_ml_kernel_data_prefix;

struct Assignment {
  Prefix base;
  DType to, from;
};
static_assert(sizeof(Assignment) <= ASTER_ML_KERNEL_ASSIGNMENT_BYTES);
static_assert(alignof(Assignment) == alignof(void*) && sizeof(Assignment) % alignof(void*) == 0);

template <typename To, typename From>
void assign_one(char* dst, const char* src, Prefix*) {
  store(dst, cast_native<To>(load<From>(src)));
}

template <typename To, typename From>
void assign_many(char* dst, ptrdiff_t dst_stride, const char* src, ptrdiff_t src_stride,
                 size_t count, Prefix*) {
  if (dst_stride == sizeof(To) && src_stride == sizeof(From))
    return convert_native<To, From>(dst, src, count);
  for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(count); ++i)
    store(dst + i * dst_stride, cast_native<To>(load<From>(src + i * src_stride)));
}

// bool and the narrow floats.
void convert_one(char* dst, const char* src, Prefix* extra) {
  const auto* kernel = reinterpret_cast<const Assignment*>(extra);
  convert(dst, kernel->to, src, kernel->from, 1);
}
template <typename T>
void copy_steps(char* dst, ptrdiff_t dst_stride, const char* src, ptrdiff_t src_stride,
                size_t count) {
  for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(count); ++i)
    store(dst + i * dst_stride, load<T>(src + i * src_stride));
}
void copy_elements(char* dst, ptrdiff_t dst_stride, const char* src, ptrdiff_t src_stride,
                   size_t count, size_t bytes) {
  if (bytes == 1) return copy_steps<uint8_t>(dst, dst_stride, src, src_stride, count);
  if (bytes == 2) return copy_steps<uint16_t>(dst, dst_stride, src, src_stride, count);
  if (bytes == 4) return copy_steps<uint32_t>(dst, dst_stride, src, src_stride, count);
  return copy_steps<uint64_t>(dst, dst_stride, src, src_stride, count);
}
// A block at a time, next to each other.
void convert_many(char* dst, ptrdiff_t dst_stride, const char* src, ptrdiff_t src_stride,
                  size_t count, Prefix* extra) {
  constexpr size_t kBlock = 256, kMostBytes = 8;
  const auto* kernel = reinterpret_cast<const Assignment*>(extra);
  const size_t to = size(kernel->to), from = size(kernel->from);
  const auto to_step = static_cast<ptrdiff_t>(to), from_step = static_cast<ptrdiff_t>(from);
  if (dst_stride == to_step && src_stride == from_step)
    return convert(dst, kernel->to, src, kernel->from, count);
  alignas(8) char given[kBlock * kMostBytes], made[kBlock * kMostBytes];
  while (count > 0) {
    const size_t part = count < kBlock ? count : kBlock;
    copy_elements(given, from_step, src, src_stride, part, from);
    convert(made, kernel->to, given, kernel->from, part);
    copy_elements(dst, dst_stride, made, to_step, part, to);
    dst += static_cast<ptrdiff_t>(part) * dst_stride;
    src += static_cast<ptrdiff_t>(part) * src_stride;
    count -= part;
  }
}

void* function_of(bool strided, DType to, DType from) {
  if (!is_native(to) || !is_native(from)) {
    return strided ? reinterpret_cast<void*>(convert_many) : reinterpret_cast<void*>(convert_one);
  }
  return with_type(to, [=](auto t) {
    return with_type(from, [=](auto f) {
      using To = decltype(t);
      using From = decltype(f);
      return strided ? reinterpret_cast<void*>(assign_many<To, From>)
                     : reinterpret_cast<void*>(assign_one<To, From>);
    });
  });
}

void destroy(Prefix*) {}
void free_nothing(void*) {}

// What stands before a kernel in memory of a context, which lives as long as it.
struct Front {
  Context* context;
  size_t bytes;
};
void free_of_context(void* kernel) {
  if (kernel == nullptr) return;
  Front* front = static_cast<Front*>(kernel) - 1;
  Context* context = front->context;
  context->heap().release(front, front->bytes, alignof(Front));
  context->release();
}

Status check(int32_t form, int32_t dst_dtype, int32_t src_dtype) {
  if (form != ASTER_ML_KERNEL_SINGLE && form != ASTER_ML_KERNEL_STRIDED)
    return ASTER_FAIL(kARGUMENT, "%d is no form of a kernel", form);
  DType d;
  ASTER_TRY(from_storage_code(&d, dst_dtype));
  return from_storage_code(&d, src_dtype);
}

void make(aster_ml_dynamic_kernel_instance* out, void* memory, int32_t form, int32_t dst_dtype,
          int32_t src_dtype, void (*free_func)(void*)) {
  const auto to = static_cast<DType>(dst_dtype), from = static_cast<DType>(src_dtype);
  auto* kernel = ::new (memory)
      Assignment{{function_of(form == ASTER_ML_KERNEL_STRIDED, to, from), destroy}, to, from};
  *out = {&kernel->base, sizeof(Assignment), free_func};
}

Status get(aster_ml_dynamic_kernel_instance* out, const aster_ml_context* context, int32_t form,
           int32_t dst_dtype, int32_t src_dtype) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = {};
  Context* impl = context_of(context);
  const ContextLock lock(impl);
  ASTER_TRY(lock.status());
  ASTER_TRY(check(form, dst_dtype, src_dtype));
  constexpr size_t kBytes = sizeof(Front) + sizeof(Assignment);
  auto* front = static_cast<Front*>(impl->heap().allocate(kBytes, alignof(Front)));
  if (front == nullptr) return out_of_memory(kBytes);
  ::new (front) Front{impl, kBytes};
  impl->retain();
  make(out, front + 1, form, dst_dtype, src_dtype, free_of_context);
  return kOk;
}

Status get_in(aster_ml_dynamic_kernel_instance* out, void* memory, size_t capacity, int32_t form,
              int32_t dst_dtype, int32_t src_dtype) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = {};
  if (memory == nullptr || reinterpret_cast<uintptr_t>(memory) % alignof(Assignment) != 0)
    return ASTER_FAIL(kARGUMENT, "memory at %p is null or not aligned as a pointer is", memory);
  ASTER_TRY(check(form, dst_dtype, src_dtype));
  if (capacity < sizeof(Assignment)) {
    return ASTER_FAIL(kRANGE, "the kernel takes %zu bytes, there is room for %zu",
                      sizeof(Assignment), capacity);
  }
  make(out, memory, form, dst_dtype, src_dtype, free_nothing);
  return kOk;
}

}  // namespace
}  // namespace aster::dtype

int32_t aster_ml_kernel_get_assignment(aster_ml_dynamic_kernel_instance* out,
                                       const aster_ml_context* context, int32_t form,
                                       int32_t dst_dtype, int32_t src_dtype) {
  ASTER_API();
  return -aster::dtype::get(out, context, form, dst_dtype, src_dtype).code;
}

int32_t aster_ml_kernel_get_assignment_in(aster_ml_dynamic_kernel_instance* out, void* memory,
                                          size_t capacity, int32_t form, int32_t dst_dtype,
                                          int32_t src_dtype) {
  ASTER_API();
  return -aster::dtype::get_in(out, memory, capacity, form, dst_dtype, src_dtype).code;
}
