/* Traces: what is compiled written to a directory, launches kept with their times, values looked at
 * as they come.
 *
 * ASTER_ML_TRACE says the same for every context of a process: "dump=DIR,profile=FILE,debug=MODE",
 * each part where it is wanted; MODE is tensors, nan or compare. Where nothing is asked for,
 * nothing is looked at.
 */
#ifndef ASTER_ML_TRACE_H
#define ASTER_ML_TRACE_H

#include "aster_ml/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is looked at behind every launch of kernels of the CPU: shapes, dtypes, least, greatest and
 * mean of what it wrote, told to the log as information and added to values.txt of the directory;
 * whether it wrote NaN; whether the reference runtime computes the same bits of the same operands
 * (kernels that the engine made; realize alone, not replays). The last two end the call that ran it
 * with NUMERIC, of several kernels the first, when all is done. */
enum {
  ASTER_ML_DEBUG_NONE = 0,
  ASTER_ML_DEBUG_TENSORS = 1,
  ASTER_ML_DEBUG_NAN = 2,
  ASTER_ML_DEBUG_COMPARE = 3
};

typedef struct aster_ml_trace_config {
  uint32_t struct_size;
  int32_t debug; /* ASTER_ML_DEBUG_* */
  /* A directory, made if it is not there. Every schedule that is made gets a folder in it,
   * NUMBER_NAME by its largest kernel: tensor.dot, prepared.dot, schedule.dot and schedule.txt, and
   * for each kernel NUMBER_NAME.c (C), .program, .plan, and .o, the object file that its code is
   * in, where compiled kernels are kept on disk. Null: none. */
  const char *dump_programs;
  /* Where launches are written to when the trace ends: by the name's end a trace for Perfetto and
   * chrome://tracing (.json), or a table; where nothing ran, nothing is. Null: they are not kept.
   */
  const char *profile;
} aster_ml_trace_config;

/* Begins a trace of what a context realises and replays from now on, in the place of one that is
 * there, which ends; null ends it. A function of aster_ml_engine_trace is told of launches as well.
 * A context that ends, ends its trace. Errors: ARGUMENT (an unknown mode), IO (the directory cannot
 * be written, or the profile of the trace that ends), STATE. */
ASTER_ML_API int32_t aster_ml_trace_configure(const aster_ml_context *context,
                                              const aster_ml_trace_config *config);

/* Names what this thread realises and replays up to the end of the scope: launches say it
 * (aster_ml_launch), and profiles. Scopes nest; where there is no room for a name, at more than 32
 * scopes or 255 bytes of them all, it is left out. Errors: ARGUMENT (name is not UTF-8, or empty).
 * Threads: any; each has scopes of its own. */
ASTER_ML_API int32_t aster_ml_trace_scope_begin(const char *name);

/* Ends the scope that began last. Errors: STATE (no scope is open in this thread). Threads: any. */
ASTER_ML_API int32_t aster_ml_trace_scope_end(void);

#ifdef __cplusplus
}
#endif
#endif
