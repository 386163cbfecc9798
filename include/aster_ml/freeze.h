/* Freezing: a program as C, machine code, a library, an executable or a kernel of the Blaze
 * interface, none of which needs anything of this library.
 *
 *   aster_ml_freeze_options options = {.struct_size = sizeof options};
 *   aster_ml_freeze("net.o", &context, "net.aster", &options);       net.o and net.h
 *   cc main.c net.o                                                  #include "net.h"
 *
 * What comes out computes with the kernels that the engine makes, so that results have the same
 * bits as the engine's on a CPU of that kind, in memory that is planned beforehand: the caller
 * gives it once, nothing is allocated after. What does not depend on inputs is computed while the
 * program is frozen. docs/FREEZE.md has the interface of the files.
 */
#ifndef ASTER_ML_FREEZE_H
#define ASTER_ML_FREEZE_H

#include "aster_ml/base.h"
#include "aster_ml/portable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a program becomes. */
typedef int32_t aster_ml_freeze_form;
enum {
  ASTER_ML_FREEZE_BY_PATH = 0, /* .c, .o, .a and .so say it; else an executable */
  ASTER_ML_FREEZE_C = 1,       /* NAME.c, and NAME.constants where they are more than 64 KiB */
  ASTER_ML_FREEZE_OBJECT = 2,
  ASTER_ML_FREEZE_STATIC = 3,
  ASTER_ML_FREEZE_SHARED = 4,
  ASTER_ML_FREEZE_EXECUTABLE = 5
};

enum {
  ASTER_ML_FREEZE_SIDE_FILE = 1, /* constants in NAME.constants, which is mapped */
  /* with a function NAME_kernel, which gives the program as a kernel of the Blaze interface in the
   * form ARRAYS (aster_ml/kernel.h); of no executable, and no program that assigns */
  ASTER_ML_FREEZE_KERNEL = 2
};

/* Zero means default. */
typedef struct aster_ml_freeze_options {
  uint32_t struct_size;
  aster_ml_freeze_form form;
  const char *name; /* before all names in C; null: the file's, without "lib" and ending */
  /* CPUs: "native", "x86-64", "x86-64-v3", "x86-64-v4", "aarch64". Of several x86 ones the first
   * that the machine has is taken at run time. Null: "native". */
  const char *const *targets;
  size_t target_count;
  const char *compiler; /* path or name; null: the context's, or aarch64-linux-gnu-gcc */
  int32_t threads;      /* that a run uses at most; 0: 1 */
  uint32_t flags;       /* ASTER_ML_FREEZE_SIDE_FILE, .. */
} aster_ml_freeze_options;

/* Writes the program of a file (aster_ml_program_save) as path, and its header NAME.h beside it
 * (none for an executable). options may be null. Errors: as aster_ml_program_load; ARGUMENT (a
 * name that is none in C, targets that do not go together), NOT_FOUND (a target, the folder),
 * UNSUPPORTED (no compiler, one that makes no code for a target; operations that are functions of
 * the library: decompositions, sorts, scatters, wide floats; random numbers), COMPILE, IO; nothing
 * is written then. Cost: a compiler's. */
ASTER_ML_API int32_t aster_ml_freeze(const char *path, const aster_ml_context *context,
                                     const char *program, const aster_ml_freeze_options *options);

/* The same of what lies between some tensors and others. Errors: besides, as
 * aster_ml_program_save. */
ASTER_ML_API int32_t aster_ml_freeze_step(const char *path, const aster_ml_context *context,
                                          const aster_ml_boundary *boundary,
                                          const aster_ml_freeze_options *options);

#ifdef __cplusplus
}
#endif
#endif
