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
#include "aster_ml/engine.h"
#include "aster_ml/tensor.h"

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

/* ---- Kernels as operations of graphs ---- */

/* A handle of a kernel that lazy tensors can be computed by; empty when zeroed. */
typedef struct aster_ml_kernel {
  void *impl;
} aster_ml_kernel;

/* More forms of kernels: on elements of two operands, and of any number; on whole row-major arrays,
 * whose addresses are aligned as elements are; and predicates, which give 0 or 1. Strided functions
 * are called with the strides of the operands as they lie. */
enum { ASTER_ML_KERNEL_ARRAYS = 2, ASTER_ML_KERNEL_PREDICATE = 3 };
typedef void (*aster_ml_binary_single)(char *dst, const char *src0, const char *src1,
                                       aster_ml_kernel_data_prefix *extra);
typedef void (*aster_ml_binary_strided)(char *dst, ptrdiff_t dst_stride, const char *src0,
                                        ptrdiff_t src0_stride, const char *src1,
                                        ptrdiff_t src1_stride, size_t count,
                                        aster_ml_kernel_data_prefix *extra);
typedef void (*aster_ml_nary_single)(char *dst, const char *const *src,
                                     aster_ml_kernel_data_prefix *extra);
typedef void (*aster_ml_nary_strided)(char *dst, ptrdiff_t dst_stride, const char *const *src,
                                      const ptrdiff_t *src_strides, size_t count,
                                      aster_ml_kernel_data_prefix *extra);
typedef int (*aster_ml_unary_predicate)(const char *src, aster_ml_kernel_data_prefix *extra);
typedef int (*aster_ml_binary_predicate)(const char *src0, const char *src1,
                                         aster_ml_kernel_data_prefix *extra);
typedef void (*aster_ml_arrays)(char *const *dst, const char *const *src,
                                aster_ml_kernel_data_prefix *extra);

/* ---- Kernels of this library's operations ----
 *
 * Their code is generated and compiled when they are asked for, or found on disk. */

/* An elementwise operation ("exp", "add", "lt": what aster_ml_lazy_<operation> computes) on
 * operands of one dtype: SINGLE, STRIDED or PREDICATE, unary or binary as the operation is. The
 * result's dtype is that of the lazy operation. Not in a capture. Owns: the instance. Errors:
 * ARGUMENT, NOT_FOUND (no such operation), DTYPE (not of this dtype; a predicate whose result is
 * not bool), STATE, COMPILE. */
ASTER_ML_API aster_ml_negated_status aster_ml_kernel_get_elementwise(
    aster_ml_dynamic_kernel_instance *out, const aster_ml_context *context, int32_t form,
    const char *operation, int32_t dtype);

/* Reductions: one result of length elements that lie step bytes apart; and a result for each of
 * count rows, whose first elements lie src_stride bytes apart and whose others follow by step. Any
 * numbers, any strides. Results do not overlap elements. */
typedef void (*aster_ml_reduce_single)(char *dst, const char *src, ptrdiff_t step, size_t length,
                                       aster_ml_kernel_data_prefix *extra);
typedef void (*aster_ml_reduce_strided)(char *dst, ptrdiff_t dst_stride, const char *src,
                                        ptrdiff_t src_stride, size_t count, ptrdiff_t step,
                                        size_t length, aster_ml_kernel_data_prefix *extra);

/* A reduction ("sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin") of elements
 * of a dtype: SINGLE or STRIDED. Dtypes: the result's is that of the lazy operation, int64 of
 * positions. Sums accumulate as those do, blocks of elements and then what came of them; of no
 * elements it is what changes no other result, NaN of a mean, -1 of a position. Not in a capture.
 * Owns: the instance. Errors: ARGUMENT, NOT_FOUND (no such reduction), DTYPE (a weak one), STATE,
 * COMPILE. */
ASTER_ML_API aster_ml_negated_status aster_ml_kernel_get_reduction(
    aster_ml_dynamic_kernel_instance *out, const aster_ml_context *context, int32_t form,
    const char *operation, int32_t dtype);

/* A captured program as one kernel, in the form ARRAYS: its inputs and outputs in order. Memory for
 * so many calls at one time exists from now on, at most 64; more calls wait. A success takes the
 * program over and clears its handle. Owns: the instance, and the program. Errors: ARGUMENT,
 * UNSUPPORTED (a program that assigns to inputs or captured memory). */
ASTER_ML_API aster_ml_negated_status aster_ml_kernel_get_program(
    aster_ml_dynamic_kernel_instance *out, aster_ml_program *program, int32_t calls);

/* Options of kernels. */
typedef struct aster_ml_kernel_options {
  uint32_t struct_size;
  int32_t device;     /* what it is made for, whatever its index; 0: the CPU */
  int64_t tasks;      /* parts that threads may take; 0: one, or one for each element of [...] */
  double nanoseconds; /* of a task, or an element, about; 0: 1. Only threads depend on it */
  /* Of OpenCL C. Work-items along each dimension; all 0: one a task, whole groups of them. */
  int64_t global_size[3];
  /* Work-items of a group along each dimension, which divide global_size; all 0: the device
   * chooses. */
  int64_t local_size[3];
  int64_t local_bytes; /* of local memory that a group is given */
} aster_ml_kernel_options;

/* A kernel from C or OpenCL C. For the CPU, and devices that take C, source is a translation unit
 * for the compiler that the context, or the device, uses, without headers, with a function of this
 * name:
 *
 *   void NAME(float *result, const float *operand, ..., long long begin, long long end)
 *
 * which gets the results, the operands and which tasks to do. signature tells dtypes and shapes,
 * operands first: "float32[...], float32[16, 4] -> float32[...]". [...] is any shape, the same in
 * all places: operands broadcast to it, and it has a task for each of its elements. Memory is
 * row-major and does not overlap. The kernel may call the functions of C that compilers put in
 * the place of loops (memcpy, fma, sqrt, floor, ...) and no others, and nothing may depend on
 * memory but the operands. It runs on any number of threads.
 *
 * For devices that take OpenCL C (options->device) its function is
 *
 *   void NAME(__global float *result, __global const float *operand, ..., long count)
 *
 * which every work-item calls; __kernel before it makes no difference. count is the number of
 * elements of [...], or of tasks, or of work-items; where groups of a size are asked for and do not
 * divide it, more work-items run. With local_bytes it has an argument more, __local void *: memory
 * of its group, aligned to 64 bytes; it declares none itself.
 *
 * A kernel runs on the devices that it has sources for: tensors on others are UNSUPPORTED where
 * they are realised. Compiled code is kept on disk as that of the library is. Owns: out. Errors:
 * ARGUMENT, FORMAT (the signature), COMPILE (with what the compiler says, in full by the log),
 * UNSUPPORTED (no compiler; a device that takes no source; groups or local memory larger than the
 * device's; results of several dtypes). */
ASTER_ML_API int32_t aster_ml_kernel_from_source(aster_ml_kernel *out,
                                                 const aster_ml_context *context,
                                                 const char *source, const char *name,
                                                 const char *signature,
                                                 const aster_ml_kernel_options *options);

/* Another source of a kernel from source, for another device: a function of the kernel's name that
 * computes the same. Errors: those of aster_ml_kernel_from_source; STATE (it has one for that
 * device, or is not from source). */
ASTER_ML_API int32_t aster_ml_kernel_add_source(const aster_ml_kernel *kernel, const char *source,
                                                const aster_ml_kernel_options *options);

/* A kernel from the text of a kernel program (docs/KERNEL_PROGRAM.md): its last program, whose
 * Params are the results, which it writes, then the operands. Every shape of the signature is
 * known. It is verified before it is compiled; accesses that nothing proves inside their memory are
 * refused. It is compiled for options->device at once, for others when they compute it. One with
 * barriers is for devices that take OpenCL C alone. Owns: out. Errors: as
 * aster_ml_kernel_from_source; FORMAT and ARGUMENT name the line and the instruction of the
 * program. */
ASTER_ML_API int32_t aster_ml_kernel_from_program(aster_ml_kernel *out,
                                                  const aster_ml_context *context,
                                                  const char *program, const char *signature,
                                                  const aster_ml_kernel_options *options);

/* A kernel of another library, in one of the forms: unary, binary or n-ary by the number of
 * operands; those on elements have one result, and [...] everywhere. Any thread calls it, several
 * at once. A success takes the instance over and clears it: its destructor and free_func are called
 * once, when handle, graphs, schedules and programs have given it up, on the thread that does so
 * last, and must not call this library. Owns: out, and the instance. Errors: ARGUMENT (a null
 * function, destructor or free_func, memory that is not aligned as a pointer is or no multiple of
 * that, an unknown form), FORMAT, UNSUPPORTED. */
ASTER_ML_API int32_t aster_ml_kernel_from_blaze(aster_ml_kernel *out,
                                                const aster_ml_context *context,
                                                aster_ml_dynamic_kernel_instance *instance,
                                                int32_t form, const char *name,
                                                const char *signature,
                                                const aster_ml_kernel_options *options);

/* Gives the handle up; tensors and programs that were made with it stay. Threads: any. */
ASTER_ML_API int32_t aster_ml_kernel_free(aster_ml_kernel *kernel);

/* The number of operands and results; 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_kernel_count_operands(const aster_ml_kernel *kernel);
ASTER_ML_API size_t aster_ml_kernel_count_results(const aster_ml_kernel *kernel);

/* Result number `result` of a kernel on count tensors, lazily. All results of a kernel on the same
 * tensors are one launch. Dtypes: those of the signature; weak operands become that. Errors:
 * ARGUMENT (another number of tensors), DTYPE, SHAPE, RANGE (no such result). */
ASTER_ML_API int32_t aster_ml_kernel_apply(aster_ml_lazy *out, const aster_ml_kernel *kernel,
                                           const aster_ml_lazy *const *tensors, size_t count,
                                           int64_t result);

/* Another kernel as the gradient of one: its operands are those of the kernel, its results and
 * their gradients, its results the gradients of the operands of float dtype, in order. Null takes
 * a gradient away. Gradients that go through a kernel without one are UNSUPPORTED. Errors:
 * ARGUMENT, DTYPE (operands or results that do not match). */
ASTER_ML_API int32_t aster_ml_kernel_set_gradient(const aster_ml_kernel *kernel,
                                                  const aster_ml_kernel *gradient);

/* A gradient as a graph: it is given the operands, the results and the gradients of the results,
 * and leaves in out a handle for each operand, empty where there is no gradient. */
typedef int32_t (*aster_ml_kernel_gradient)(void *self, aster_ml_lazy *out,
                                            const aster_ml_lazy *operands,
                                            const aster_ml_lazy *results,
                                            const aster_ml_lazy *gradients);

/* A function as the gradient of a kernel. It is called while a gradient is taken, and may build
 * lazy tensors and nothing else; a status that is not 0 ends the gradient with ERROR. self lives as
 * long as the kernel; release, which may be null, is called with it once. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_kernel_set_gradient_function(const aster_ml_kernel *kernel,
                                                           aster_ml_kernel_gradient function,
                                                           void *self, void (*release)(void *self));

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
