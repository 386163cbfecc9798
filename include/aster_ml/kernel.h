/* Kernels: executable functions with their data, made here and called by any other code.
 *
 * The layouts are those of the Blaze kernel interface. A kernel is a block of memory that begins
 * with a function and a destructor; what follows is its own. Whoever asks for a kernel knows the
 * prototype of its function from what was asked for. ASTER_ML_BLAZE_NAMES, defined where this
 * header is included, gives the names of that interface too.
 *
 *   aster_ml_dynamic_kernel_instance k;
 *   if (aster_ml_kernel_get_assignment(&k, context, ASTER_ML_KERNEL_SINGLE, dst, src) < 0) ...
 *   ((aster_ml_unary_single)k.kernel->function)(to, from, k.kernel);
 *   k.kernel->destructor(k.kernel);
 *   k.free_func(k.kernel);
 *
 * Statuses   The functions of this header return 0 or a status negated, as that interface's do: a
 *            failure is less than 0. The error record has the code as everywhere.
 * Memory     A kernel is aligned as a pointer is, its size a multiple of that. It may be moved by
 *            memcpy at any time, its old memory then given up by free_func alone. At the end its
 *            destructor is called once, where it lies, then free_func with the address it was made
 *            at. Both are never null, and outlive the context.
 * Threads    A kernel may be called by any number of threads at once, and on any thread. It runs in
 *            the floating-point modes of its caller.
 */
#ifndef ASTER_ML_KERNEL_H
#define ASTER_ML_KERNEL_H

#include "aster_ml/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or a status code times -1. */
typedef int32_t aster_ml_negated_status;

struct aster_ml_kernel_data_prefix;
/* Ends a kernel's life where it lies; its memory stays. */
typedef void (*aster_ml_kernel_destructor)(struct aster_ml_kernel_data_prefix *kernel);

/* What a kernel begins with. This layout is frozen. */
typedef struct aster_ml_kernel_data_prefix {
  void *function;
  aster_ml_kernel_destructor destructor;
} aster_ml_kernel_data_prefix;

/* A kernel and how its memory is given up. This layout is frozen. */
typedef struct aster_ml_dynamic_kernel_instance {
  aster_ml_kernel_data_prefix *kernel;
  size_t kernel_size;
  void (*free_func)(void *kernel);
} aster_ml_dynamic_kernel_instance;

/* Forms of a kernel, and the prototypes of their functions: on one element, and on count of them
 * whose addresses are strides of bytes apart; strides may be 0 or negative. Addresses need no
 * alignment. Elements of dst do not overlap those of src, but for those that are the same. */
enum { ASTER_ML_KERNEL_SINGLE = 0, ASTER_ML_KERNEL_STRIDED = 1 };
typedef void (*aster_ml_unary_single)(char *dst, const char *src,
                                      aster_ml_kernel_data_prefix *extra);
typedef void (*aster_ml_unary_strided)(char *dst, ptrdiff_t dst_stride, const char *src,
                                       ptrdiff_t src_stride, size_t count,
                                       aster_ml_kernel_data_prefix *extra);

/* Room for any kernel of assignment. */
#define ASTER_ML_KERNEL_ASSIGNMENT_BYTES 32

/* A kernel that assigns values of src_dtype to dst_dtype, as aster_ml_dtype_copy converts them, in
 * memory of the context's allocator. Owns: the instance. Errors: ARGUMENT (an unknown form or
 * dtype), DTYPE (a weak dtype), UNSUPPORTED. */
ASTER_ML_API aster_ml_negated_status aster_ml_kernel_get_assignment(
    aster_ml_dynamic_kernel_instance *out, const aster_ml_context *context, int32_t form,
    int32_t dst_dtype, int32_t src_dtype);

/* The same in memory of the caller's, on the stack for example; free_func does nothing. Errors: as
 * above, ARGUMENT (memory not aligned), RANGE (the kernel is larger than capacity). */
ASTER_ML_API aster_ml_negated_status aster_ml_kernel_get_assignment_in(
    aster_ml_dynamic_kernel_instance *out, void *memory, size_t capacity, int32_t form,
    int32_t dst_dtype, int32_t src_dtype);

#ifdef __cplusplus
}
#endif
#endif

/* Where it was included before without them, too. */
#ifdef ASTER_ML_BLAZE_NAMES
#define kernel_data_prefix aster_ml_kernel_data_prefix
#define destructor_fn_t aster_ml_kernel_destructor
#define dynamic_kernel_instance aster_ml_dynamic_kernel_instance
#define unary_single_operation_t aster_ml_unary_single
#endif
