/* Kernels as values: the kernels of a computation, the plans by which they are made, their
 * programs, and these as text for a compiler.
 *
 * What a context does with every new kernel, step by step and without running anything:
 *
 *   tensors -> kernels -> plan -> program -> C or OpenCL C
 *
 * A kernel is a Sink of Stores over loops and index arithmetic (aster_ml_uop, printed by
 * aster_ml_uop_print); aster_ml_uop_init builds them too. A plan says how a kernel is made to run:
 * loops, vectors, register tiles, tasks. A program is the list of typed instructions that comes of
 * both. Plans and programs are texts that can be read, changed and given back:
 * docs/KERNEL_PROGRAM.md has their grammars and rules. aster_ml_kernel_from_program (kernel.h)
 * makes a program something to call on tensors.
 *
 * Texts end in a zero byte. length is that without the zero; out holds room for capacity bytes and
 * may be null to ask for length alone; capacity must be greater than length (RANGE).
 */
#ifndef ASTER_ML_CODEGEN_H
#define ASTER_ML_CODEGEN_H

#include "aster_ml/base.h"
#include "aster_ml/device.h"
#include "aster_ml/tensor.h"
#include "aster_ml/uop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a target has, as bits: fused multiply-add on vectors; conversions of half on vectors; masks
 * and masked accesses (x86's AVX-512, with 64 bytes alone); stores past the caches; doubles; dot
 * products of four bytes (x86's VNNI, with 32 and 64 bytes). */
enum {
  ASTER_ML_TARGET_FMA = 1,
  ASTER_ML_TARGET_F16C = 2,
  ASTER_ML_TARGET_AVX512 = 4,
  ASTER_ML_TARGET_STREAMING = 8,
  ASTER_ML_TARGET_FP64 = 16,
  ASTER_ML_TARGET_VNNI = 32
};

/* What kernels are made for. */
typedef struct aster_ml_target {
  uint32_t struct_size; /* in: sizeof(aster_ml_target) */
  int32_t form;         /* ASTER_ML_CODE_C, ASTER_ML_CODE_OPENCL_C or ASTER_ML_CODE_PROGRAM */
  int32_t vector_bytes; /* 16, 32 or 64; 0: C for any CPU, planned for 16 and without features */
  uint32_t flags;       /* ASTER_ML_TARGET_* */
  /* Of devices that want very many work-items, as GPUs are, not of C: how many a group has where
   * nothing else matters, the most that it may have, and the local memory that they share. Powers
   * of two up to 1024; 0 of a group: a CPU; of the others: as the group, 32 KiB. */
  uint32_t group;
  uint32_t group_limit;
  uint64_t local_bytes; /* at most 1 MiB */
} aster_ml_target;

/* What the kernels of a context are made for on a device; struct_size tells how much of it. Errors:
 * ARGUMENT, DEVICE (no such device), UNSUPPORTED (it only stores). */
ASTER_ML_API int32_t aster_ml_codegen_target(aster_ml_target *target,
                                             const aster_ml_context *context, int32_t device);

/* What the machine behind a device is taken to do well, by which plans are chosen: a line for each
 * number with its name, the number, and what it is. Errors: as aster_ml_codegen_target; RANGE. */
ASTER_ML_API int32_t aster_ml_codegen_model(char *out, size_t *length, size_t capacity,
                                            const aster_ml_context *context, int32_t device);

/* The kernels that realising some tensors would launch, in order and each once, without computing
 * anything. What a library or the host's own code computes is none. count is their number; out
 * holds room for capacity nodes, each retained (aster_ml_uop_release), and may be null to ask for
 * count alone. Errors: ARGUMENT, RANGE (capacity is less than count), UNSUPPORTED (a dtype that no
 * kernel has: realising interprets). */
ASTER_ML_API int32_t aster_ml_codegen_kernels(const aster_ml_uop **out, size_t *count,
                                              size_t capacity, const aster_ml_context *context,
                                              const aster_ml_lazy *const *tensors,
                                              size_t tensor_count);

/* The plan that the planner chooses for a kernel on a target. Errors: ARGUMENT (no kernel),
 * RANGE (a target that is none), UNSUPPORTED (too many loops). */
ASTER_ML_API int32_t aster_ml_codegen_plan(char *out, size_t *length, size_t capacity,
                                           const aster_ml_context *context,
                                           const aster_ml_uop *kernel,
                                           const aster_ml_target *target);

/* The program of a kernel on a target by a plan, or by the planner's where plan is null. The plan
 * is held to every rule of plans, the program to every rule of programs. Errors: as
 * aster_ml_codegen_plan; FORMAT (a plan that does not read, with the line), ARGUMENT (one that is
 * none of this kernel, with the line and the field), UNSUPPORTED (an operation that the target has
 * not). */
ASTER_ML_API int32_t aster_ml_codegen_lower(char *out, size_t *length, size_t capacity,
                                            const aster_ml_context *context,
                                            const aster_ml_uop *kernel,
                                            const aster_ml_target *target, const char *plan);

/* A program as the text that the target's compiler takes: one unit, with the types and functions
 * that it uses; for ASTER_ML_CODE_PROGRAM the program itself as it is printed. The program is held
 * to every rule before; accesses that nothing proves inside their memory are let through, since
 * nothing runs here. Errors: ARGUMENT (a program that breaks a rule, with the instruction), FORMAT
 * (one that does not read, with the line), RANGE, UNSUPPORTED (what the target has not). */
ASTER_ML_API int32_t aster_ml_codegen_render(char *out, size_t *length, size_t capacity,
                                             const aster_ml_context *context, const char *program,
                                             const aster_ml_target *target);

/* What a search for the plan of a kernel came to (aster_ml_context_set_beam): nanoseconds of one
 * thread by the planner's plan and by the best, which may be the same one. */
typedef struct aster_ml_tuned {
  uint32_t struct_size; /* in: sizeof(aster_ml_tuned) */
  int32_t kept;         /* 1: it was known, from an earlier search */
  char title[64];       /* what the kernel computes */
  double planned_ns;
  double best_ns;
  uint32_t plans; /* that were run */
} aster_ml_tuned;

/* How many kernels of a context plans were searched for, or known. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_codegen_count_tuned(size_t *count, const aster_ml_context *context);

/* One of them, in the order in which they were compiled. Errors: ARGUMENT, RANGE (no such). */
ASTER_ML_API int32_t aster_ml_codegen_get_tuned(aster_ml_tuned *tuned,
                                                const aster_ml_context *context, size_t index);

#ifdef __cplusplus
}
#endif

#endif
