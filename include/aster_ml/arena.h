/* Arenas of a graph: tensors that belong together, with a plan cache and counters of their own.
 *
 * All tensors of a context may be operands of each other. Those that a thread makes while an arena
 * is open in it are the arena's:
 *
 *   aster_ml_arena_init(&arena, &context, ASTER_ML_ARENA_TOGETHER);
 *   aster_ml_arena_begin(&arena);
 *   aster_ml_lazy_add(&y, &x, &x);
 *   aster_ml_lazy_sum(&z, &y, 0, NULL, 0);
 *   aster_ml_arena_end();
 *   aster_ml_arena_realize(&arena);           y and z by one schedule
 *
 * Realising a tensor looks for its schedule among those that its arena has made, and only there. A
 * schedule is found by the whole graph that it computes, as it is then: one of a graph that has
 * changed since is never found, and so none can be stale.
 */
#ifndef ASTER_ML_ARENA_H
#define ASTER_ML_ARENA_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"
#include "aster_ml/uop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An arena. Not bound to scopes. */
typedef struct aster_ml_arena {
  void *impl;
} aster_ml_arena;

enum {
  ASTER_ML_ARENA_TOGETHER = 1, /* realising one of its tensors realises all that are pending, by one
                                  schedule */
  ASTER_ML_ARENA_APART = 2     /* what its tensors read of pending tensors that are not its own is
                                  realised before, by itself: nothing of both is in one kernel */
};

/* What an arena has, and has done. Times in milliseconds. */
typedef struct aster_ml_arena_counters {
  uint32_t struct_size;   /* in: sizeof(aster_ml_arena_counters) */
  uint32_t flags;         /* ASTER_ML_ARENA_* */
  uint64_t version;       /* counts up when a tensor comes, goes, is assigned to or realised */
  uint64_t tensors;       /* that live */
  uint64_t pending;       /* of these: not realised, and no constants */
  uint64_t nodes;         /* that those are made of, each counted once, memory included */
  uint64_t parameters;    /* of these: memory that is read */
  uint64_t realizes;      /* calls that looked for a schedule */
  uint64_t plan_hits;     /* of these: found */
  uint64_t plan_misses;   /* and made anew */
  uint64_t plans;         /* schedules that are kept */
  uint64_t kernels;       /* launches in the schedules made */
  uint64_t planned_bytes; /* memory planned for their temporaries */
  double schedule_ms;     /* looking for schedules and making them */
  double compile_ms;      /* making their kernels */
} aster_ml_arena_counters;

/* An empty arena; flags: ASTER_ML_ARENA_*. Errors: ARGUMENT (an unknown flag). */
ASTER_ML_API int32_t aster_ml_arena_init(aster_ml_arena *out, const aster_ml_context *context,
                                         uint32_t flags);

/* Has what this thread makes in the arena's context belong to it up to the end. Arenas nest, those
 * of other contexts among them; of a context the one that began last counts. One that is freed
 * meanwhile counts no longer. Errors: ARGUMENT, STATE (64 arenas are open). Threads: any. */
ASTER_ML_API int32_t aster_ml_arena_begin(const aster_ml_arena *arena);

/* Ends the arena that began last in this thread. Errors: STATE (none is open). Threads: any. */
ASTER_ML_API int32_t aster_ml_arena_end(void);

/* Has a tensor belong to an arena from now on, in the place of the one that it belonged to.
 * Errors: ARGUMENT (of another context). */
ASTER_ML_API int32_t aster_ml_arena_add(const aster_ml_arena *arena, const aster_ml_lazy *x);

/* Realises all pending tensors of an arena, by one schedule. Errors: as aster_ml_lazy_realize. */
ASTER_ML_API int32_t aster_ml_arena_realize(const aster_ml_arena *arena);

/* The pending tensors of an arena as the sources of one node, a Sink, retained: to be walked, or
 * rewritten. Errors: ARGUMENT, NOT_FOUND (nothing is pending). */
ASTER_ML_API int32_t aster_ml_arena_to_uop(const aster_ml_uop **out, const aster_ml_arena *arena);

/* Reads the counters; struct_size tells how many of them. Errors: ARGUMENT. Cost: O(pending nodes).
 */
ASTER_ML_API int32_t aster_ml_arena_count(aster_ml_arena_counters *counters,
                                          const aster_ml_arena *arena);

/* Forgets the schedules of an arena, whose kernels stay cached; its tensors and counters stay. */
ASTER_ML_API int32_t aster_ml_arena_reset(const aster_ml_arena *arena);

/* Gives an arena up, and its schedules; its tensors live on and belong to none. Threads: any. */
ASTER_ML_API int32_t aster_ml_arena_free(aster_ml_arena *arena);

#ifdef __cplusplus
}
#endif
#endif
