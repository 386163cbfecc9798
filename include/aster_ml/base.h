/* Conventions of the whole library, status codes, the error record, allocators, logging, contexts
 * and scopes.
 *
 * Status     Every function returns an int32_t status: ASTER_ML_OK (0) or a code below. Pure
 *            accessors that cannot fail return their value. Nothing prints, aborts or exits; no
 *            exception crosses this interface.
 * Out        Out-parameters come first, are written once and only on success; on failure they are
 *            left zeroed. Giving an input's own handle as out is an ARGUMENT error.
 * Owns       *_init builds into the caller's memory, *_free releases what it owns and zeroes the
 *            struct, a second time too. A zeroed struct is a valid empty object; freeing it does
 *            nothing. No ownership passes through a returned struct.
 * Handles    A struct with the one field impl is a handle: a number, which may be copied, and names
 *            its object until the first free of any copy, or the end of its scope. After that
 *            every use of a copy is an ARGUMENT error ("freed") and every free of one does nothing,
 *            also when its context is gone; a number is never used again.
 * Errors     A failing function fills the calling thread's error record (aster_ml_error_last).
 *            Inputs are unchanged. Every function that allocates may return MEMORY, every function
 *            on a context STATE when another thread is inside; the comments do not repeat these.
 * Threads    One thread at a time uses a context and the handles made from it; *_free may come from
 *            any thread, but not while another one uses the same handle.
 * Forks      The child goes on with what it has a copy of: every lock is free there, its memory is
 *            its own. A context that a thread was inside when another forked answers STATE in the
 *            child for ever, as nobody is there to finish; make another one.
 * Structs    Option structs begin with uint32_t struct_size, set to sizeof(the struct); zero means
 *            default in every other field. Smaller and larger sizes are accepted.
 */
#ifndef ASTER_ML_BASE_H
#define ASTER_ML_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(ASTER_ML_STATIC) || !defined(__GNUC__)
#define ASTER_ML_API
#else
#define ASTER_ML_API __attribute__((visibility("default")))
#endif

#define ASTER_ML_VERSION_MAJOR 0
#define ASTER_ML_VERSION_MINOR 1
#define ASTER_ML_VERSION_PATCH 0

/* Status codes. The numbers never change meaning. */
typedef int32_t aster_ml_status;
enum {
  ASTER_ML_OK = 0,        /* success */
  ASTER_ML_ERROR = 1,     /* a function of yours failed without a status of this library */
  ASTER_ML_ARGUMENT = 2,  /* a null or empty argument, an unknown code, an input given as output */
  ASTER_ML_SHAPE = 3,     /* ranks, dimensions or strides disagree with the operation */
  ASTER_ML_DTYPE = 4,     /* an operation is not defined for this dtype */
  ASTER_ML_RANGE = 5,     /* an index, axis, size or value outside its bounds; overflow of a size */
  ASTER_ML_MEMORY = 6,    /* an allocation failed */
  ASTER_ML_NOT_FOUND = 7, /* a name, file or entry does not exist */
  ASTER_ML_UNSUPPORTED = 8, /* well-formed, but this build, device or dtype cannot do it */
  ASTER_ML_STATE = 9,       /* another thread is inside, data read in a capture, already freed */
  ASTER_ML_DEVICE = 10,     /* a backend could not allocate, copy or launch */
  ASTER_ML_COMPILE = 11,    /* a kernel could not be turned into machine code */
  ASTER_ML_IO = 12,         /* the operating system refused a file operation */
  ASTER_ML_FORMAT = 13,     /* a file or message does not follow its format */
  ASTER_ML_NUMERIC = 14,    /* singular matrix, no convergence, an overflow defined as an error */
  ASTER_ML_CANCELLED = 15,  /* aster_ml_engine_cancel or a callback asked to stop */
  ASTER_ML_INTERNAL = 16    /* a bug of ours */
};

/* The last error of a thread. Fixed size: reporting an error never allocates. */
typedef struct aster_ml_error {
  int32_t code;      /* a status code; 0 when nothing has failed yet */
  int32_t line;      /* line in file */
  char module[16];   /* "uop", "engine", ... */
  char function[64]; /* the public function that failed */
  char message[512]; /* one line of UTF-8, truncated with an ellipsis */
  char file[64];     /* source file, its last part */
} aster_ml_error;

/* Copies the calling thread's error record. Success of later calls does not clear it. Errors:
 * ARGUMENT. */
ASTER_ML_API int32_t aster_ml_error_last(aster_ml_error *out);

/* Clears the calling thread's error record. Never fails. */
ASTER_ML_API int32_t aster_ml_error_clear(void);

/* "SHAPE", "MEMORY", ...; "UNKNOWN" for a number outside the table. Owns: static text. */
ASTER_ML_API const char *aster_ml_status_name(int32_t status);

/* "shapes do not fit", ...; "unknown status" for a number outside the table. Owns: static text. */
ASTER_ML_API const char *aster_ml_status_text(int32_t status);

/* "0.1.0". Owns: static text. */
ASTER_ML_API const char *aster_ml_version(void);

/* Where the library's memory comes from. A null allocator, or a null function in it, means the
 * system's. Both functions may be called from any thread. allocate returns null on failure;
 * alignment is a power of two; release gets the same bytes and alignment that allocate got. */
typedef struct aster_ml_allocator {
  uint32_t struct_size;
  void *self;
  void *(*allocate)(void *self, size_t bytes, size_t alignment);
  void (*release)(void *self, void *pointer, size_t bytes, size_t alignment);
} aster_ml_allocator;

/* Log levels of the callback; nothing is logged without one. */
enum {
  ASTER_ML_LOG_ERROR = 1,
  ASTER_ML_LOG_WARNING = 2,
  ASTER_ML_LOG_INFO = 3,
  ASTER_ML_LOG_DEBUG = 4
};
typedef void (*aster_ml_log_function)(void *self, int32_t level, const char *message);

/* Asked while a call computes or compiles: anything but 0 stops the call. On the thread of the
 * call, at most every 20 ms, between the tasks of kernels; it must not call the library. */
typedef int32_t (*aster_ml_cancel_function)(void *self);

/* Everything that a context may be told. Zero means default. */
typedef struct aster_ml_context_options {
  uint32_t struct_size;
  int32_t threads; /* of a kernel; 0: $ASTER_ML_THREADS, or as many as affinity and cgroup allow */
  const aster_ml_allocator *allocator; /* copied */
  aster_ml_log_function log;           /* null: silent */
  void *log_self;
  int32_t log_level;         /* 0: WARNING */
  int32_t strict_parity;     /* 1: tinygrad's results where ours deliberately differ */
  int32_t no_schedule_cache; /* 1: schedule every realize anew */
  int32_t no_disk_cache;     /* 1: never read or write compiled kernels on disk */
  int32_t no_library;        /* 1: never call BLAS */
  int32_t vector_bytes;      /* 0: what the CPU has; 16, 32 or 64 narrows it */
  int32_t pin_threads;       /* 1: pin the pool's workers to cores */
  size_t arena_block_bytes;  /* 0: 64 KiB; a small value makes every arena request an allocation */
  /* null: $ASTER_ML_CACHE_DIR, then $XDG_CACHE_HOME/aster_ml, then ~/.cache/aster_ml */
  const char *cache_dir;
  /* null: $ASTER_ML_CC, then clang, gcc, cc on PATH; "none": the interpreter; "builtin": machine
   * code that the library makes itself, as where no compiler is found; "llvm": libLLVM in this
   * process ($ASTER_ML_LLVM, or the newest of 14 to 19), those for what it lacks or where it is
   * not. The results have the same bits. LLVM ends the process where it has no memory left. */
  const char *compiler;
  uint64_t seed; /* of the random counter */
  /* Milliseconds after which a compiler that has not ended is killed, with all that it started; 0:
   * 60,000. What it was to compile counts as failed. LLVM is not stopped. */
  int32_t compile_timeout_ms;
  /* 0: what has no machine code, because a compiler fails or takes too long, or there is none and
   * the library makes none itself, the reference runtime computes, slowly, and the log says why,
   * once a reason (where the compiler is "none" as information); 1, or $ASTER_ML_NO_FALLBACK set to
   * anything but 0: COMPILE */
  int32_t no_fallback;
  aster_ml_cancel_function should_cancel; /* null: only aster_ml_engine_cancel stops a call */
  void *should_cancel_self;
  /* 0: of kernels that differ in sizes alone the second and all further ones run as one, which
   * takes its sizes as arguments; 1, or $ASTER_ML_NO_SIZES set to anything but 0: every kernel is
   * compiled for its own. The results have the same bits. */
  int32_t no_sizes;
  /* How tensors of flt256 and flt512 are rounded: ASTER_ML_FLT_NEAREST (0), _TO_ZERO, _UP or _DOWN
   * of flt.h. 0: $ASTER_ML_FLT_ROUNDING, a number of 0 to 3, where that is set. Sparse matrices are
   * too, and each step of a decomposition (linalg.h). Fixed: schedules are of their context's. */
  int32_t flt_rounding;
} aster_ml_context_options;

/* A context owns graphs, caches and device state. It lives until its own handle and every handle
 * made from it are freed, in any order. */
typedef struct aster_ml_context {
  void *impl;
} aster_ml_context;

/* Makes a context. options may be null. Errors: ARGUMENT, RANGE. */
ASTER_ML_API int32_t aster_ml_context_init(aster_ml_context *out,
                                           const aster_ml_context_options *options);

/* Gives the handle up. Threads: any. */
ASTER_ML_API int32_t aster_ml_context_free(aster_ml_context *context);

/* Whether tensors built from now on give tinygrad's results where ours deliberately differ (option
 * strict_parity; docs/DIFFERENCES.md lists them); what is built already stays as it is. Errors:
 * ARGUMENT; STATE (another thread is inside). */
ASTER_ML_API int32_t aster_ml_context_set_strict_parity(const aster_ml_context *context,
                                                        int32_t strict_parity);

/* What happens where a call has to copy memory that it was given, as nobody asked it to: strided
 * elements that cannot be computed with where they lie, operands on another device than the first
 * one, memory of a device that the host computes on. Counted in any case
 * (aster_ml_engine_counters). */
enum {
  ASTER_ML_COPIES_ALLOW = 0, /* it is copied */
  ASTER_ML_COPIES_LOG = 1,   /* and the log has a warning: the function, how many bytes, and why */
  ASTER_ML_COPIES_REFUSE = 2 /* UNSUPPORTED, with bytes and reason; nothing is copied */
};

/* Chooses among them for the calls from now on. Errors: ARGUMENT (no such policy); STATE (another
 * thread is inside). */
ASTER_ML_API int32_t aster_ml_context_set_copies(const aster_ml_context *context, int32_t policy);

/* Whether the plans of kernels (codegen.h) that are compiled for the CPU from now on are searched
 * for: every kernel that is not known is compiled and run by plans beside the planner's, on memory
 * of its own, and the fastest is taken and kept on disk for later processes on such a CPU. width:
 * plans that each round goes on from, up to 64; 0, the default ($ASTER_ML_BEAM): the planner's are
 * taken. A search takes seconds a kernel. Plans found may add up in another order, so that results
 * differ in their last bits from those of the planner's. aster_ml_codegen_count_tuned has what was
 * found. Errors: RANGE; STATE (another thread is inside). */
ASTER_ML_API int32_t aster_ml_context_set_beam(const aster_ml_context *context, int32_t width);

/* How many bytes the compressed files of one archive (zip, torch file, gzip) may come to where
 * aster_ml_state_read_* reads it from now on; more is a RANGE error before anything is unpacked. 0,
 * the default: 64 MiB, or 100 times the archive's own size where that is more; UINT64_MAX: no
 * limit. What lies in an archive uncompressed does not count. Errors: ARGUMENT; STATE (another
 * thread is inside). */
ASTER_ML_API int32_t aster_ml_context_set_archive_limit(const aster_ml_context *context,
                                                        uint64_t bytes);

/* Bytes that the context holds from its allocator now, and the most it held. Either out may be
 * null. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_context_count_bytes(size_t *now, size_t *most,
                                                  const aster_ml_context *context);

/* Every lazy tensor made between begin and end is freed at the end, but those kept; programs,
 * workspaces and modules of nn.h are not bound to scopes. Scopes nest. */
typedef struct aster_ml_scope {
  void *impl;
} aster_ml_scope;

/* Opens a scope. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_scope_begin(aster_ml_scope *out, const aster_ml_context *context);

/* Closes the innermost scope of its context and frees its handles. Errors: STATE (an inner scope is
 * open). */
ASTER_ML_API int32_t aster_ml_scope_end(aster_ml_scope *scope);

#ifdef __cplusplus
}
#endif
#endif
