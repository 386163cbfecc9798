/* Implementations of operations: which there are, which one is taken, and the caller's own.
 *
 * Some operations can be computed in several ways: "matmul", "attention", "softmax" and the other
 * rows of src/uop/composites.def that have a name. Where one is built, a policy says which of its
 * implementations builds it; what is built already stays as it is. Gradients are built by the same
 * policies: that of a product is two products.
 *
 *   default             the usual one; on a device for which one was registered, that one
 *   fast                what is known to be faster: convolutions of 3 x 3 by winograd_4x4, which
 *                       rounds more, large products by openblas; else as default
 *   force=NAME          this one; an error where it does not take the operands
 *   benchmark           the fastest on operands of these dtypes and shapes, measured when such are
 *   benchmark(cache=N)  built the first time; the last N results are kept (64)
 *
 * The policy of an operation is that of the calling thread, else that of the context, else what
 * ASTER_ML_REGISTRY said when the context first built something, else "default". Results of
 * measurements among the library's own implementations are kept with the compiled kernels, for this
 * machine and number of threads. All of it costs nothing where every policy is "default".
 */
#ifndef ASTER_ML_REGISTRY_H
#define ASTER_ML_REGISTRY_H

#include "aster_ml/base.h"
#include "aster_ml/kernel.h"
#include "aster_ml/plan.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an implementation is asked for. Attributes are those that src/uop/composites.def lists; of
 * "attention" whether it is causal, and whether heads of the query share those of key and value.
 * Dtypes of operands are strong, batch axes of "matmul" equal. Gone after the call. */
typedef struct aster_ml_op_call {
  uint32_t struct_size; /* of the library's aster_ml_op_call */
  int32_t device;       /* where it will be computed */
  const char *operation;
  const aster_ml_op_operand *operands;
  size_t operand_count;
  const int64_t *attributes;
  size_t attribute_count;
  aster_ml_op_operand result;
} aster_ml_op_call;

/* An implementation of the caller's. Exactly one of build, kernel and compute is given. The
 * functions are called inside calls that build (compute: that realise) on any thread, and may
 * build lazy tensors and nothing else (compute: must not call the library). */
typedef struct aster_ml_implementation {
  uint32_t struct_size;
  /* 0: for any, taken where a policy says so. A device, whatever its index: for operands there
   * alone, where it is what "default" takes. */
  int32_t device;
  const char *operation;
  const char *name; /* letters, digits, _ and -: at most 31 */
  /* Null where it takes the call, else why not: text that lives until the next call. A null
   * function: it takes all. */
  const char *(*refuses)(void *self, const aster_ml_op_call *call);
  /* Nanoseconds, about; null: unknown. Benchmarks leave out what says that it takes ten times what
   * another one took. */
  double (*cost)(void *self, const aster_ml_op_call *call);
  /* A graph of other operations; out: one handle. In it, the operation itself is the usual one. */
  int32_t (*build)(void *self, aster_ml_lazy *out, const aster_ml_op_call *call,
                   const aster_ml_lazy *operands);
  /* A kernel with one result; it takes the operands that its signature names. */
  const aster_ml_kernel *kernel;
  /* A function on row-major memory, of the host; on one thread at a time for each call. */
  int32_t (*compute)(void *self, const aster_ml_op_call *call, void *result,
                     const void *const *operands);
  /* Leaves in out a handle for each operand, empty where there is no gradient. Null: that of what
   * build made, that of the kernel if it has one, else that of the usual implementation. */
  int32_t (*gradient)(void *self, aster_ml_lazy *out, const aster_ml_op_call *call,
                      const aster_ml_lazy *operands, const aster_ml_lazy *result,
                      const aster_ml_lazy *gradient);
  void *self;
  void (*release)(void *self); /* with self, once, when nothing needs it; may be null */
} aster_ml_implementation;

/* Registers an implementation in a context; it is copied. What it builds is checked: another dtype
 * or shape than the operation has is SHAPE where it is built, a status that is not 0 is ERROR there
 * (of compute: where it is realised). A success takes self over. Errors: ARGUMENT (null; a name
 * that is taken, or is none; not exactly one of build, kernel, compute; a kernel of another context
 * or with several results), NOT_FOUND (no such operation), STATE. */
ASTER_ML_API int32_t aster_ml_registry_add(const aster_ml_context *context,
                                           const aster_ml_implementation *implementation);

/* Takes an implementation of the caller's away; what was built with it stays. Errors: ARGUMENT (one
 * of the library), NOT_FOUND, STATE (a policy forces it). */
ASTER_ML_API int32_t aster_ml_registry_remove(const aster_ml_context *context,
                                              const char *operation, const char *name);

/* Sets policies of a context from JSON: {"attention": "force=tiled", "matmul":
 * "benchmark(cache=64)"}; operations that are not named keep theirs. All of it or nothing. Errors:
 * ARGUMENT, FORMAT (with the byte, and what was expected), NOT_FOUND (no such operation, or no such
 * implementation: the message has those there are). */
ASTER_ML_API int32_t aster_ml_registry_set_policies(const aster_ml_context *context,
                                                    const char *json);

/* The same for what the calling thread builds in the context, until aster_ml_registry_pop_policies
 * on the same thread. They nest. Errors: as above. */
ASTER_ML_API int32_t aster_ml_registry_push_policies(const aster_ml_context *context,
                                                     const char *json);

/* Ends the innermost push of the calling thread. Errors: STATE (there is none). */
ASTER_ML_API int32_t aster_ml_registry_pop_policies(const aster_ml_context *context);

/* Writes what there is as JSON, a line an implementation: {operation: {"meaning", "policy",
 * "implementations": [{"name", "device" (or null), "library" (true or false), "meaning"}],
 * "measured": [{"call", "fastest", "ns": {name: nanoseconds}}]}}, the last used first; policies as
 * they are for the calling thread. operation: one of them; null: all. Text as by
 * aster_ml_engine_graph. Errors: ARGUMENT, NOT_FOUND, RANGE. */
ASTER_ML_API int32_t aster_ml_registry_describe(char *out, size_t *length, size_t capacity,
                                                const aster_ml_context *context,
                                                const char *operation);

/* Forgets what was measured in the context; what is on disk is looked at no more in it. */
ASTER_ML_API int32_t aster_ml_registry_forget(const aster_ml_context *context);

#ifdef __cplusplus
}
#endif
#endif
