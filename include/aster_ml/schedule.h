/* Schedules as structs: the launches that a realize ran, one by one, and the functions that they
 * call.
 *
 *   aster_ml_lazy_realize(all, 1);
 *   aster_ml_schedule_init(&schedule, &context);
 *   for (size_t i = 0; i < aster_ml_schedule_count(&schedule); i++)
 *     aster_ml_schedule_at(&item, &schedule, i);   item.name, item.operands[k].bytes, ...
 *
 * aster_ml_schedule_source has the text of kernels. What realising tensors would run, before it
 * does: aster_ml_codegen_kernels, _lower and _render (codegen.h), aster_ml_engine_graph.
 */
#ifndef ASTER_ML_SCHEDULE_H
#define ASTER_ML_SCHEDULE_H

#include "aster_ml/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A schedule; it keeps the code of its kernels. Not bound to scopes. */
typedef struct aster_ml_schedule {
  void *impl;
} aster_ml_schedule;

/* The function of a compiled kernel: computes tasks begin to end - 1 of it. operands: one pointer
 * each, in the order of the item's; sizes: the item's; scratch: the item's scratch_bytes, aligned
 * to 64, of which every thread that calls at once has its own. Tasks are independent of each
 * other. Threads: any. */
typedef void (*aster_ml_launch_code)(void *const *operands, const int64_t *sizes, void *scratch,
                                     int64_t begin, int64_t end);

/* What stands behind an operand. */
enum {
  ASTER_ML_SLOT_PARAM = 0,     /* memory that the graph reads, or writes in place; index: which */
  ASTER_ML_SLOT_OUTPUT = 1,    /* a result; index: which */
  ASTER_ML_SLOT_TEMPORARY = 2, /* memory of the schedule; offset: where in it */
  ASTER_ML_SLOT_ABSENT = 3,    /* none is needed */
  ASTER_ML_SLOT_HOST = 4       /* memory of the host that the schedule has for a device */
};

/* One operand of a launch. */
typedef struct aster_ml_schedule_operand {
  int32_t slot; /* ASTER_ML_SLOT_* */
  int32_t dtype;
  uint32_t index;
  uint32_t number; /* of the slot in the schedule: the same for the same memory */
  int64_t count;   /* elements */
  int64_t offset;  /* bytes, of temporaries */
  int64_t shift;   /* bytes from where the slot begins to where the launch is pointed */
} aster_ml_schedule_operand;

/* What a launch is. */
enum {
  ASTER_ML_ITEM_KERNEL = 0,   /* code of the host: function */
  ASTER_ML_ITEM_NATIVE = 1,   /* an operation that the library has itself, or one of BLAS */
  ASTER_ML_ITEM_DEVICE = 2,   /* a kernel of a device */
  ASTER_ML_ITEM_COPY = 3,     /* bytes between memories */
  ASTER_ML_ITEM_INTERPRET = 4 /* the whole graph, by the reference runtime */
};

/* One launch. What it points to belongs to the schedule. */
typedef struct aster_ml_schedule_item {
  uint32_t struct_size; /* in: sizeof(aster_ml_schedule_item) */
  int32_t kind;         /* ASTER_ML_ITEM_* */
  const char *name;     /* what it computes: "matmul_relu_64x512_r784" */
  int32_t device;       /* that runs it */
  int32_t in_place;     /* 1: it writes to memory of the graph */
  int64_t tasks;        /* of the host's code, that threads share */
  uint32_t groups[3];   /* of a device's launch, and items of a group */
  uint32_t locals[3];
  uint64_t operations; /* estimates, as the counters' */
  uint64_t bytes;
  const aster_ml_schedule_operand *operands;
  size_t operand_count;
  const int64_t *sizes; /* that code for many sizes is told */
  size_t size_count;
  size_t scratch_bytes;          /* that a thread needs */
  aster_ml_launch_code function; /* null but for ASTER_ML_ITEM_KERNEL */
  const char *cut;               /* as aster_ml_launch has it */
  /* How it is computed: "generated" for its sizes; the name of an implementation ("openblas", a
   * decomposition, "sort"), "copy", "interpreted". Products of sticky integers by "bytes",
   * "residues" or "digits" of bytes. Of wide floats "each", "exact sum" or "in order", and products
   * of matrices by what their exponents allowed in the last run: "residues", "naive", or both, of
   * parts; "" before the first run. */
  const char *algorithm;
  /* 1: each element is the exact result of what is in the operands, rounded (wide floats) or
   * checked (sticky integers) once; 0: that is not promised. */
  int32_t is_exact;
} aster_ml_schedule_item;

/* The schedule of the last realize of a context that had something to compute. Errors: ARGUMENT,
 * NOT_FOUND (nothing was scheduled yet). */
ASTER_ML_API int32_t aster_ml_schedule_init(aster_ml_schedule *out,
                                            const aster_ml_context *context);

/* How many launches a schedule has; 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_schedule_count(const aster_ml_schedule *schedule);

/* Tells of one; struct_size tells how much. Errors: ARGUMENT, RANGE (index). */
ASTER_ML_API int32_t aster_ml_schedule_at(aster_ml_schedule_item *item,
                                          const aster_ml_schedule *schedule, size_t index);

/* The source of a launch that is a kernel, as its compiler takes it: one unit of C, of OpenCL C or
 * LLVM's text for a device of such, for the sizes of this schedule. It is written anew of the graph
 * that was scheduled. Text as by aster_ml_engine_graph. Errors: ARGUMENT, RANGE (index; capacity),
 * NOT_FOUND (a copy, an operation of the library, a graph that is interpreted), UNSUPPORTED
 * (kernels of others are in the graph; it was scheduled anew since). */
ASTER_ML_API int32_t aster_ml_schedule_source(char *out, size_t *length, size_t capacity,
                                              const aster_ml_schedule *schedule, size_t index);

/* Gives the handle up. Threads: any. */
ASTER_ML_API int32_t aster_ml_schedule_free(aster_ml_schedule *schedule);

#ifdef __cplusplus
}
#endif
#endif
