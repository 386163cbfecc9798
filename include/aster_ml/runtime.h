/* What computes here: the CPU, the compiler, BLAS, and the cache of compiled kernels on disk. */
#ifndef ASTER_ML_RUNTIME_H
#define ASTER_ML_RUNTIME_H

#include "aster_ml/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a context finds on this machine. Texts are zero-terminated, cut to their room, and empty
 * where there is nothing. */
typedef struct aster_ml_runtime_info {
  uint32_t struct_size;       /* in: sizeof(aster_ml_runtime_info) */
  int32_t threads;            /* that a kernel may use */
  int32_t vector_bytes;       /* of the vectors that code is made for */
  char cpu[256];              /* features that code is made for */
  char compiler[512];         /* path of the C compiler, or of libLLVM where that is chosen */
  char compiler_version[128]; /* what it says of itself */
  char blas[256];             /* path of the BLAS library */
  char blas_config[160];      /* what it says of itself */
  char cache_dir[512];        /* where compiled kernels are kept */
  char cache_problem[128];    /* why they are not */
  uint64_t cache_entries;     /* files in it */
  uint64_t cache_bytes;       /* their size */
  uint64_t cache_limit;       /* beyond which the oldest are removed */
} aster_ml_runtime_info;

/* Looks at the machine as the context would, compiler and BLAS included; struct_size tells how much
 * of it is wanted. Errors: ARGUMENT. Cost: tens of milliseconds where the compiler or BLAS was not
 * needed yet. */
ASTER_ML_API int32_t aster_ml_runtime_get(aster_ml_runtime_info *info,
                                          const aster_ml_context *context);

/* What the host can do at most, with the threads of a context and the vectors of its code. */
typedef struct aster_ml_runtime_limits {
  uint32_t struct_size; /* in: sizeof(aster_ml_runtime_limits) */
  int32_t threads;
  double gflops; /* 10^9 operations a second: float32 products with sums, each as two */
  double gbytes; /* 10^9 bytes a second read from memory; what lies in caches is read faster */
} aster_ml_runtime_limits;

/* Measures that, or finds what was measured before: results are kept beside the compiled kernels,
 * for each kind of CPU and number of threads. struct_size tells how much of it is wanted. Errors:
 * ARGUMENT, MEMORY. Cost: some 0.2 s the first time. */
ASTER_ML_API int32_t aster_ml_runtime_measure(aster_ml_runtime_limits *limits,
                                              const aster_ml_context *context);

/* Removes every compiled kernel from the context's cache on disk; loaded ones go on. Nothing but
 * what the cache made is removed. Errors: IO. */
ASTER_ML_API int32_t aster_ml_cache_clear(const aster_ml_context *context);

#ifdef __cplusplus
}
#endif
#endif
