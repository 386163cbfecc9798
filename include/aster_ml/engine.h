/* The engine: capture and replay of steps, counters, caches.
 *
 * Realising a tensor schedules what it names into kernels, compiles those that are new, plans the
 * memory and runs them. Schedules are cached by the shape of the graph, not by its buffers: the
 * same step on new data runs without scheduling. Capturing a step records the schedules that its
 * realize calls run; replaying the program runs them again on other inputs without building a graph
 * at all.
 */
#ifndef ASTER_ML_ENGINE_H
#define ASTER_ML_ENGINE_H

#include "aster_ml/base.h"
#include "aster_ml/buffer.h"
#include "aster_ml/tensor.h"
#include "aster_ml/uop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the engine of a context has done so far. Times in milliseconds, sizes in bytes. */
typedef struct aster_ml_engine_counters {
  uint32_t struct_size;       /* in: sizeof(aster_ml_engine_counters) */
  uint64_t realizes;          /* realize calls that had something to compute */
  uint64_t schedule_hits;     /* of these: schedules found in the cache */
  uint64_t schedule_misses;   /* and made anew */
  uint64_t kernels_scheduled; /* launches in the schedules made */
  uint64_t kernels_compiled;  /* distinct kernels that the compiler was run for */
  uint64_t kernels_cached;    /* distinct kernels found compiled, in memory or on disk */
  uint64_t kernels_launched;  /* launches executed, replays included */
  uint64_t last_kernels;      /* launches of the last realize */
  uint64_t planned_bytes;     /* memory planned for temporaries of the schedules made */
  double schedule_ms;         /* building, rewriting, fusing and planning */
  double compile_ms;          /* rendering, compiling and loading */
  double run_ms;              /* executing; not small expressions that are realised again */
  uint64_t interpreted;       /* realizes answered by the reference runtime */
  /* Estimates for the launches executed, replays included: scalar operations (what costs several,
   * as exp does, counts as several), and bytes of the elements read and written, each element
   * once a kernel. The reference runtime adds to neither. */
  uint64_t operations;
  uint64_t moved_bytes;
  uint64_t copies;       /* copies that nobody asked for (aster_ml_context_set_copies) */
  uint64_t copied_bytes; /* and their bytes */
  /* of kernels_scheduled: by kernels that take their sizes as arguments, so that other sizes need
   * no compiler */
  uint64_t kernels_sized;
  uint64_t host_kernels;        /* launches that the host did for a device that could not */
  uint64_t kernels_interpreted; /* of kernels_scheduled: those that the compiler refused alone */
  /* of kernels_scheduled: those that began, by machine code that the library makes at once, while
   * a compiler's was made (ASTER_ML_TIERS), and those that were to, but waited */
  uint64_t kernels_begun;
  uint64_t kernels_waited;
  /* of schedule_misses: those that were read from the disk cache, where an earlier process, or
   * another context, left them (ASTER_ML_NO_KEPT_SCHEDULES) */
  uint64_t schedules_read;
  uint64_t schedules_kept; /* and those that were left there */
} aster_ml_engine_counters;

/* Reads the counters; struct_size tells how many of them. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_engine_count(aster_ml_engine_counters *counters,
                                           const aster_ml_context *context);

/* The default device of a context: what is made from data, sizes or random numbers lives there from
 * then on, and what reads no memory is computed there. CPU:0 at first. Errors: ARGUMENT (no such
 * device), UNSUPPORTED (no memory can be allocated on it). */
ASTER_ML_API int32_t aster_ml_engine_device(int32_t *out, const aster_ml_context *context);
ASTER_ML_API int32_t aster_ml_engine_set_device(const aster_ml_context *context, int32_t device);

/* What a weak dtype (weakfloat, weakint) becomes in a context where it is stored; the first is also
 * what functions with real results make of integers, and the dtype of what is made without one.
 * float32 and int32 at first. Setting takes a dtype of the kind, and counts for what is built and
 * realised from then on. Errors: ARGUMENT (no such dtype), UNSUPPORTED, DTYPE (not a weak dtype;
 * neither a float nor an integer). */
ASTER_ML_API int32_t aster_ml_engine_default_dtype(int32_t *out, const aster_ml_context *context,
                                                   int32_t weak);
ASTER_ML_API int32_t aster_ml_engine_set_default_dtype(const aster_ml_context *context,
                                                       int32_t dtype);

/* Has the calls that compute or compile in a context right now stop as soon as they can, in a few
 * milliseconds, with CANCELLED: realize calls, eager ones, runs of its programs. Calls that begin
 * later are not affected. A stopped call leaves every storage as it was, and what it was to compute
 * can be realised again; random numbers that it drew stay drawn. Only one that was in the middle of
 * assignments, and far from their end, leaves what it assigns undefined: then its message names
 * that, and it is not assigned again. Errors: ARGUMENT. Threads: any, signal handlers too. */
ASTER_ML_API int32_t aster_ml_engine_cancel(const aster_ml_context *context);

/* Reclaims the nodes and memory that no handle reaches, and gives cached free memory back. */
ASTER_ML_API int32_t aster_ml_engine_collect(const aster_ml_context *context);

/* Writes how the last schedule looks, one line an item, as zero-terminated text cut to bytes.
 * Errors: NOT_FOUND (nothing was scheduled). */
ASTER_ML_API int32_t aster_ml_engine_print_schedule(char *text, size_t bytes,
                                                    const aster_ml_context *context);

/* One launch: of a kernel, a library call or a native operation; or all that the reference runtime
 * computes at once. Operations and bytes are estimates, as in the counters. */
typedef struct aster_ml_launch {
  uint32_t struct_size; /* of the library's aster_ml_launch */
  int32_t replayed;     /* 1: by a program */
  const char *name;     /* what it computes, as print_schedule has it; gone after the call */
  uint64_t nanoseconds; /* from its start to its end */
  uint64_t operations;
  uint64_t bytes;
  uint64_t held_bytes; /* that the context holds from its allocator */
  int32_t device;      /* that ran it */
  int32_t operands;    /* pieces of memory that it reads and writes */
  int32_t tier;        /* 0: machine code, or what is compiled into the library; 1: a kernel that
                        * begins, as a compiler is at it, or that the compiler refused */
  int32_t is_exact;    /* 1: each element is the exact result, which was rounded or checked once */
  const char *scope;   /* names of the scopes around it (trace.h): "a/b", or ""; gone as name is */
  const char *cut; /* why what it computes is stored, and not computed in the kernels that read it:
                      "result", ..; "" of what is no kernel. Lives as long as the library. */
  const char *algorithm; /* as aster_ml_schedule_item has it; gone as name is */
} aster_ml_launch;
typedef void (*aster_ml_launch_function)(void *self, const aster_ml_launch *launch);

/* Has a function told of every launch behind it, of realize and of the context's programs, those
 * captured before included; null: no longer. It is called by the thread that realises or runs the
 * program, and must not call functions on the context. Threads: no program of the context may be
 * running. */
ASTER_ML_API int32_t aster_ml_engine_trace(const aster_ml_context *context,
                                           aster_ml_launch_function function, void *self);

/* How a graph is looked at: as it was built; as fusion gets it (calls inlined, simplified); as
 * kernels, library calls and the memory between them; as the index arithmetic of every kernel; as
 * kernels with the C text that is compiled, with their plans, with their programs (codegen.h). */
enum {
  ASTER_ML_GRAPH_TENSOR = 0,
  ASTER_ML_GRAPH_PREPARED = 1,
  ASTER_ML_GRAPH_SCHEDULE = 2,
  ASTER_ML_GRAPH_KERNEL = 3,
  ASTER_ML_GRAPH_SOURCE = 4,
  ASTER_ML_GRAPH_PLAN = 5,
  ASTER_ML_GRAPH_PROGRAM = 6
};

/* How it is written. DOT: for Graphviz. JSON: {"level", "groups": [name], "nodes": [{"title",
 * "subtitle", "kind", "group" (or -1), "details": {name: text}, "code"}], "edges": [[from, to,
 * label]]}; nodes go by their place in the list, edges from what is read to what reads it. */
enum { ASTER_ML_GRAPH_DOT = 0, ASTER_ML_GRAPH_JSON = 1 };

/* The peak of memory that realising some tensors would take beside what exists, without computing
 * anything: the bytes of the results and of the temporaries, which are planned to lie in as few as
 * they need at once. Scratch memory of threads is not counted. What a program holds says
 * aster_ml_program_count_bytes. Errors: ARGUMENT (null, empty handles, another context),
 * UNSUPPORTED (a dtype that no kernel has: realising interprets). */
ASTER_ML_API int32_t aster_ml_engine_count_peak(size_t *out, const aster_ml_context *context,
                                                const aster_ml_lazy *const *tensors, size_t count);

/* Writes the graph that realising some tensors would compute, without computing anything: text
 * ending in a zero byte. length is that without the zero; out holds room for capacity bytes and may
 * be null to ask for length alone. Operations and bytes of kernels are estimates. Errors: ARGUMENT
 * (null, empty handles, another context), RANGE (capacity is not greater than length; an unknown
 * level or format), UNSUPPORTED (a dtype that no kernel has: realising interprets). */
ASTER_ML_API int32_t aster_ml_engine_graph(char *out, size_t *length, size_t capacity,
                                           const aster_ml_context *context,
                                           const aster_ml_lazy *const *tensors, size_t count,
                                           int32_t level, int32_t format);

/* The same of a node; its Params are the memory that kernels read. Errors: as
 * aster_ml_engine_graph. */
ASTER_ML_API int32_t aster_ml_engine_graph_uop(char *out, size_t *length, size_t capacity,
                                               const aster_ml_context *context,
                                               const aster_ml_uop *root, int32_t level,
                                               int32_t format);

/* A recorded step. Not bound to scopes. */
typedef struct aster_ml_program {
  void *impl;
} aster_ml_program;

/* Memory of one running call of a program. */
typedef struct aster_ml_workspace {
  void *impl;
} aster_ml_workspace;

/* Starts recording. The inputs, realised here, are what replays may replace; everything else that
 * the step reads or assigns stays the memory that it is, but for what aster_ml_lazy_from makes
 * inside the step, which every replay finds as it was made. Until the end realize executes as usual
 * and records; reading data (view, copy_out) is STATE. Errors: STATE (a capture is open), ARGUMENT
 * (inputs that overlap in memory). */
ASTER_ML_API int32_t aster_ml_engine_capture_begin(const aster_ml_context *context,
                                                   aster_ml_lazy *const *inputs, size_t count);

/* Ends recording. The outputs are realised here if they are not yet, and become the results of the
 * program in this order. On failure the capture is over as well. Errors: STATE (no capture is
 * open). */
ASTER_ML_API int32_t aster_ml_engine_capture_end(aster_ml_program *out,
                                                 const aster_ml_context *context,
                                                 aster_ml_lazy *const *outputs, size_t count);

/* Has the open capture leave out, at its end, the realize calls that read or write nothing of its
 * inputs, nor of what calls do that stay: they have run once, and replays find what they left.
 * Errors: STATE (no capture is open). */
ASTER_ML_API int32_t aster_ml_engine_capture_prune(const aster_ml_context *context);

/* Promises of the open capture that memory which is no input and which the step does not assign
 * stays as it is while the program lives: weights. Kernels that are recorded from here on may read
 * copies of it that lie in the order in which they read, made at the first run; results have the
 * same bits. What is written there nonetheless is seen by some kernels and not by others. Errors:
 * STATE (no capture is open); the end of the capture is ARGUMENT where the step itself assigns to
 * what was copied. */
ASTER_ML_API int32_t aster_ml_engine_capture_constant(const aster_ml_context *context);

/* Has the open capture compute nothing from here on: what realize calls would run is recorded, and
 * compiled, for the program alone. Tensors that they give hold no values: state that they assign
 * stays as it is. What was built before the capture and is realised in it has to be realised
 * before, else realising is STATE. Errors: STATE (no capture is open). */
ASTER_ML_API int32_t aster_ml_engine_capture_dry(const aster_ml_context *context);

/* Gives a capture up; what it ran stays done. */
ASTER_ML_API int32_t aster_ml_engine_capture_cancel(const aster_ml_context *context);

/* Runs a program on row-major inputs of the captured shapes and dtypes; what the step assigns to
 * one goes into its memory. A result is written to outputs[i] where that has storage (row-major,
 * captured shape and dtype), else outputs[i] becomes a descriptor that borrows the workspace's own
 * memory, valid until the next run in it; free such a descriptor as any. workspace may be null: the
 * program's own, for one thread at a time. Everything given is checked before anything runs.
 * Alias: inputs may overlap each other, outputs, and results that the workspace lent, as if every
 * input was copied first; what the step assigns to an input that lies where the run writes is lost,
 * for the result stands there. Errors: SHAPE, DTYPE, RANGE (bytes outside the storage), DEVICE (no
 * memory of the host), ARGUMENT (counts; null or misaligned memory; outputs that overlap each
 * other, the workspace or what the step assigns; an input that is assigned and is read-only or
 * overlaps another input; an input in other memory that the step assigns), STATE (the workspace, or
 * captured state that the step writes, is in use), CANCELLED (see aster_ml_engine_cancel; results
 * are undefined). Threads: any number at once, each with its own workspace, if the step assigns no
 * captured state. */
ASTER_ML_API int32_t aster_ml_program_run(const aster_ml_program *program,
                                          aster_ml_workspace *workspace,
                                          const aster_ml_tensor *inputs, size_t input_count,
                                          aster_ml_tensor *outputs, size_t output_count);

/* A variable (symbolic.h) of a program: its kernels read it, or a value was used while it was
 * captured. What it points to belongs to the program. */
typedef struct aster_ml_program_variable {
  uint32_t struct_size; /* in: sizeof(aster_ml_program_variable) */
  int32_t fixed; /* 1: something looked at its value, so that the program is for this one alone */
  const char *name;
  int64_t min; /* what values it may have */
  int64_t max;
  int64_t value;   /* of runs that are given no other; at first that of the capture */
  int64_t limited; /* 1: not for all these values, be it this one alone: aster_ml_program_is_for */
} aster_ml_program_variable;

/* How many variables a program has. 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_program_count_variables(const aster_ml_program *program);

/* Tells of one; struct_size tells how much. Errors: ARGUMENT, RANGE (index). */
ASTER_ML_API int32_t aster_ml_program_get_variable(aster_ml_program_variable *variable,
                                                   const aster_ml_program *program, size_t index);

/* The value of a variable in runs that are given none. Errors: ARGUMENT, NOT_FOUND (the program has
 * no variable of that name), RANGE (out of its bounds), UNSUPPORTED (the program is for one value).
 * Threads: any, but not during a run of it. */
ASTER_ML_API int32_t aster_ml_program_set_variable(const aster_ml_program *program,
                                                   const char *name, int64_t value);

/* 1 where a run with these values of the variables, in their order, finds them within their bounds,
 * and what was captured right for them; else 0, and aster_ml_program_run_bound says why. Threads:
 * any. */
ASTER_ML_API int32_t aster_ml_program_is_for(const aster_ml_program *program, const int64_t *values,
                                             size_t value_count);

/* As aster_ml_program_run, with a value for every variable of the program, in the order of
 * aster_ml_program_get_variable. What depends on sizes is of the greatest ones: of an output that
 * has smaller sizes only the first elements of each axis mean something. Errors: as
 * aster_ml_program_run, RANGE (a value out of its bounds; a position or size of what was captured
 * is outside with them), UNSUPPORTED (another value than the one that was looked at). Threads: any
 * number at once, each with its own workspace and values. */
ASTER_ML_API int32_t aster_ml_program_run_bound(const aster_ml_program *program,
                                                aster_ml_workspace *workspace,
                                                const int64_t *values, size_t value_count,
                                                const aster_ml_tensor *inputs, size_t input_count,
                                                aster_ml_tensor *outputs, size_t output_count);

/* The ndim sizes of an array of INPUTS or OUTPUTS in runs with these values of the variables; null:
 * those that runs are given none have. Of an array of no symbolic sizes: its shape. Errors:
 * ARGUMENT, RANGE (index; as run_bound), SHAPE (ndim is another), UNSUPPORTED (as run_bound). */
ASTER_ML_API int32_t aster_ml_program_get_sizes(int64_t *sizes, size_t ndim,
                                                const aster_ml_program *program, int32_t list,
                                                size_t index, const int64_t *values,
                                                size_t value_count);

/* As aster_ml_program_run, of present sizes: the shapes of inputs say what the variables are, those
 * that no input says keep the program's values. Inputs may have any strides where their sizes are
 * symbolic: they are copied into memory of the workspace that is for the greatest sizes. Outputs
 * have the present sizes: where they have storage it is row-major, and the result is copied; where
 * not, they borrow the workspace's, with strides. Errors: as aster_ml_program_run_bound, SHAPE
 * (sizes that contradict each other), UNSUPPORTED (an input of symbolic sizes that the step
 * assigns). */
ASTER_ML_API int32_t aster_ml_program_run_sized(const aster_ml_program *program,
                                                aster_ml_workspace *workspace,
                                                const aster_ml_tensor *inputs, size_t input_count,
                                                aster_ml_tensor *outputs, size_t output_count);

/* Launches of one run. 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_program_count_kernels(const aster_ml_program *program);

/* Bytes that a workspace of this program takes. 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_program_count_bytes(const aster_ml_program *program);

/* The lists of a program: the arrays that a run is given, those that it gives, and the memory that
 * its kernels read or write beside them: parameters, state, data. */
enum { ASTER_ML_PROGRAM_INPUTS = 0, ASTER_ML_PROGRAM_OUTPUTS = 1, ASTER_ML_PROGRAM_CAPTURED = 2 };

/* One array of a list, row-major. What it points to belongs to the program; the name does until
 * another is set. */
typedef struct aster_ml_program_array {
  uint32_t struct_size; /* in: sizeof(aster_ml_program_array) */
  int32_t dtype;
  int32_t device;       /* where it was captured; runs are given inputs in memory of the host */
  int32_t assigned;     /* 1: runs leave another value there: state, inputs that the step assigns */
  const char *name;     /* as set, or "input0", "output1", "captured2" */
  const int64_t *shape; /* ndim sizes */
  size_t ndim;
  size_t bytes;
  void *data; /* of captured memory, in the device's address space; null for the others */
} aster_ml_program_array;

/* How many arrays a list has; captured ones come in the order in which kernels come to them, each
 * once. 0 for an empty handle and for what is no list. */
ASTER_ML_API size_t aster_ml_program_count_arrays(const aster_ml_program *program, int32_t list);

/* Tells of one; struct_size tells how much. Errors: ARGUMENT, RANGE (index). */
ASTER_ML_API int32_t aster_ml_program_get_array(aster_ml_program_array *array,
                                                const aster_ml_program *program, int32_t list,
                                                size_t index);

/* Names one. name is UTF-8 and not empty; it is copied. Errors: ARGUMENT, RANGE (index). */
ASTER_ML_API int32_t aster_ml_program_set_name(const aster_ml_program *program, int32_t list,
                                               size_t index, const char *name);

/* Gives the handle up; the code lives until its workspaces are freed. Threads: any, but not during
 * a run of it. */
ASTER_ML_API int32_t aster_ml_program_free(aster_ml_program *program);

/* Memory for runs beside others. */
ASTER_ML_API int32_t aster_ml_workspace_init(aster_ml_workspace *out,
                                             const aster_ml_program *program);

/* Threads: any, but not during a run in it. */
ASTER_ML_API int32_t aster_ml_workspace_free(aster_ml_workspace *workspace);

#ifdef __cplusplus
}
#endif
#endif
