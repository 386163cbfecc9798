/* Devices: codes, names, and backends registered at run time.
 *
 * A device is an int32_t code, type * 65536 + index; 0 stands for the default device, CPU:0. Its
 * name is the type's and, unless it is 0, the index: "CPU", "CPU:1". Different indices are
 * different devices, on the CPU too: memory is copied between them. Types from 64 on are given out
 * at registration, so their codes differ between processes; names do not.
 */
#ifndef ASTER_ML_DEVICE_H
#define ASTER_ML_DEVICE_H

#include "aster_ml/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The device of index 0 of each type that has a name from the start. */
enum {
  ASTER_ML_DEVICE_CPU = 1 * 65536,
  ASTER_ML_DEVICE_OPENCL = 2 * 65536,    /* those that drivers have, or a registered backend */
  ASTER_ML_DEVICE_REFERENCE = 3 * 65536, /* host memory; graphs are interpreted */
  ASTER_ML_DEVICE_DISK = 4 * 65536,      /* mapped files, read only; nothing is allocated on it */
  ASTER_ML_DEVICE_CUDA = 5 * 65536,      /* UNSUPPORTED until a backend is registered for it */
  /* Graphs are scheduled, never computed: its memory takes no room and has no values, so reading it
   * is a DEVICE error. */
  ASTER_ML_DEVICE_NULL = 6 * 65536,
  ASTER_ML_DEVICE_ROCM = 7 * 65536, /* UNSUPPORTED until a backend is registered for it */
  ASTER_ML_DEVICE_METAL = 8 * 65536 /* UNSUPPORTED until a backend is registered for it */
};

/* Its parts; 0 for a code that is no device. */
ASTER_ML_API int32_t aster_ml_device_type(int32_t device);
ASTER_ML_API int32_t aster_ml_device_index(int32_t device);

/* The device of a name: "cpu", "CPU:1", "OpenCL:0"; case does not count. Errors: ARGUMENT (null),
 * FORMAT (not a name, or an index that is no number), RANGE (index above 65535), NOT_FOUND. */
ASTER_ML_API int32_t aster_ml_device_from_name(int32_t *out, const char *name);

/* The canonical name, zero-terminated: upper case, ":index" unless it is 0. 48 bytes always
 * suffice. Errors: ARGUMENT (unknown device), RANGE (capacity too small). */
ASTER_ML_API int32_t aster_ml_device_to_name(char *out, size_t capacity, int32_t device);

/* 1 if memory can be allocated on the device in this process, else 0. */
ASTER_ML_API int32_t aster_ml_device_is_available(int32_t device);

/* What a device is, for aster_ml_device_info. */
enum { ASTER_ML_DEVICE_KIND_CPU = 1, ASTER_ML_DEVICE_KIND_GPU = 2, ASTER_ML_DEVICE_KIND_OTHER = 3 };

/* In which form build of a backend takes kernels, as bits.
 *
 * PROGRAM is the printed text of a kernel program: functions that it calls first, the kernel last.
 *
 * C is a text for GNU C (gcc, clang) without headers, with one function
 *   void NAME(void *const *params, const long long *sizes, void *scratch, long long begin,
 *             long long end)
 * which runs the tasks from begin up to end; a backend adds the offsets to its operands, and gives
 * each running call scratch_bytes of its own, aligned to 64 bytes. To be compiled with -O1
 * -ffp-contract=off -fwrapv -fno-strict-aliasing -fno-math-errno.
 *
 * OPENCL_C is a text with one function
 *   __kernel void NAME(__global uchar *p0, ulong o0, .., long s0, ..)
 * operands in order, each with its offset in bytes, then sizes. A work-item is a task, of number
 * get_global_id(0); there are exactly as many as tasks. */
enum { ASTER_ML_CODE_PROGRAM = 1, ASTER_ML_CODE_C = 2, ASTER_ML_CODE_OPENCL_C = 4 };

/* What a device has, as bits of aster_ml_device_info. */
enum {
  ASTER_ML_DEVICE_FP64 = 1,         /* float64; without it such kernels are not given to it */
  ASTER_ML_DEVICE_FP16 = 2,         /* arithmetic in float16, not only its storage */
  ASTER_ML_DEVICE_UNIFIED = 4,      /* its memory is the host's, whoever addresses it */
  ASTER_ML_DEVICE_OUT_OF_ORDER = 8, /* queues that run commands side by side */
  ASTER_ML_DEVICE_FMA = 16          /* a fused multiply-add that is one instruction */
};

/* What a device tells of itself. 0 and empty texts stand for what is not known. */
typedef struct aster_ml_device_info {
  uint32_t struct_size;      /* in: sizeof(aster_ml_device_info) */
  int32_t kind;              /* ASTER_ML_DEVICE_KIND_CPU, ... */
  uint32_t forms;            /* of code: ASTER_ML_CODE_PROGRAM, ...; 0: it computes nothing */
  uint32_t flags;            /* ASTER_ML_DEVICE_FP64, ... */
  int32_t vector_bytes;      /* of vectors that code is best made for: 16, 32 or 64 */
  int32_t compute_units;     /* that work at one time */
  uint64_t local_bytes;      /* memory of a group of work-items */
  uint64_t memory_bytes;     /* of the whole device */
  uint64_t allocation_bytes; /* the largest one */
  uint32_t group_limit;      /* work-items in a group */
  uint32_t group_multiple;   /* that run as one: groups are best multiples of it */
  char name[96];             /* zero-terminated */
  char driver[96];           /* and its version: another text means other machine code */
} aster_ml_device_info;

/* A kernel in one of the forms that its device names. Texts stay as long as build runs. */
typedef struct aster_ml_code {
  uint32_t struct_size;
  int32_t form;     /* ASTER_ML_CODE_PROGRAM, ... */
  const char *name; /* of its function: letters, digits and underscores; equal names, equal texts */
  const char *text; /* zero-terminated */
  size_t length;
  uint32_t params;    /* operands of a launch */
  uint32_t sizes;     /* numbers of a launch */
  size_t local_bytes; /* of local memory that a group is given by it */
  size_t scratch_bytes;
  uint32_t group_size; /* work-items in a group of its launches; 0: the device chooses */
  uint32_t zero;
} aster_ml_code;

/* What a command does. */
enum {
  ASTER_ML_COMMAND_LAUNCH = 1,
  ASTER_ML_COMMAND_COPY_IN = 2,  /* bytes at from, in memory of the host, to to and its offset */
  ASTER_ML_COMMAND_COPY_OUT = 3, /* bytes at from and its offset to to, in memory of the host */
  ASTER_ML_COMMAND_COPY = 4,     /* within a device; places do not overlap */
  ASTER_ML_COMMAND_WAIT = 5      /* what follows begins after this ticket of another queue of the
                                  * backend; without a queue: after all that stands before */
};

/* A step of a queue. Memory of a device is named by what allocate gave and an offset in bytes.
 * Commands and the arrays that they point to stay until submit returns, memory of the host and
 * operands until the ticket is waited for. */
typedef struct aster_ml_command {
  uint32_t struct_size;
  int32_t kind; /* ASTER_ML_COMMAND_LAUNCH, ... */
  /* LAUNCH: a function of build on operands. What it writes no other operand overlaps, but for the
   * operand that is the same memory. */
  void *function;
  void *const *operands; /* operand_count, as is offsets */
  const size_t *offsets; /* in bytes */
  uint32_t operand_count;
  uint32_t size_count;
  const int64_t *sizes;
  int64_t tasks;      /* where groups are 0: tasks 0 to tasks - 1 in any order, side by side */
  uint32_t groups[3]; /* else so many groups of so many work-items; where locals are 0: so many */
  uint32_t locals[3]; /* work-items, in groups that the device chooses */
  double nanoseconds; /* that one core of the host would take, about */
  /* Copies. */
  void *to;
  const void *from;
  size_t to_offset;
  size_t from_offset;
  size_t bytes;
  /* WAIT. */
  void *queue;
  uint64_t ticket;
} aster_ml_command;

/* How a queue is opened, as bits: commands may overtake each other between waits; a queue that is
 * timed. */
enum { ASTER_ML_QUEUE_OUT_OF_ORDER = 1, ASTER_ML_QUEUE_PROFILED = 2 };

/* A portable program, as docs/PORTABLE.md has it: checked, wherever its parts were stored. All of
 * it stays until drop_program. */
typedef struct aster_ml_device_program {
  uint32_t struct_size;
  uint32_t zero;
  const char *text;      /* zero-terminated */
  size_t text_bytes;     /* without the zero */
  const void *constants; /* what @N in the text counts from; aligned to 64 bytes */
  size_t constant_bytes;
  size_t input_count;
  size_t output_count;
} aster_ml_device_program;

/* Memory of an input or output of a program, row-major: data is what allocate gave, an address
 * where host_visible is 1. */
typedef struct aster_ml_device_array {
  uint32_t struct_size;
  int32_t dtype; /* of an output execute_program says what it has written: dtype, ndim and shape */
  uint32_t ndim;
  uint32_t zero;
  int64_t *shape; /* of an output room for 255 sizes */
  void *data;
  size_t offset; /* in bytes */
  size_t bytes;  /* that it has from there on */
} aster_ml_device_array;

/* What a device of another kind has to offer: memory, and from build on computing. Graphs on a
 * device that only stores are computed by the host on copies, or in place where host_visible is 1.
 *
 * The functions return a status of this library and may be called from any thread, by several at
 * once; those that copy return when the copy is done. data is what allocate gave; offsets and sizes
 * count bytes and stay inside it. MEMORY of allocate is passed on, any other status becomes DEVICE;
 * what says none (another number, OK without memory) ERROR. */
typedef struct aster_ml_backend {
  uint32_t struct_size; /* tells which fields there are; those that are not count as 0 */
  int32_t count;        /* devices, indices 0 to count - 1; 0 means 1 */
  int32_t host_visible; /* 1: data is an address that the host may read and write */
  void *self;           /* given to every function; lives as long as the process */
  int32_t (*allocate)(void *self, void **out, int32_t index, size_t bytes);
  void (*release)(void *self, int32_t index, void *data, size_t bytes);
  int32_t (*copy_in)(void *self, int32_t index, void *data, size_t offset, const void *host,
                     size_t bytes);
  int32_t (*copy_out)(void *self, int32_t index, void *host, const void *data, size_t offset,
                      size_t bytes);
  /* Within one device; null: by way of the host. */
  int32_t (*copy)(void *self, int32_t index, void *data, size_t offset, const void *source,
                  size_t source_offset, size_t bytes);

  /* Computing. With one of build, unbuild, open, close, submit and wait there have to be all of
   * them and describe. */

  /* Fills out, whose struct_size tells how much of it is asked for. */
  int32_t (*describe)(void *self, int32_t index, aster_ml_device_info *out);
  /* Memory of a kind (ASTER_ML_MEMORY_DEVICE, _PINNED or _UNIFIED), which release takes back; may
   * be null. Of PINNED and UNIFIED *out is an address of the host, a multiple of 64. Errors:
   * UNSUPPORTED (not of this kind), MEMORY. */
  int32_t (*allocate_kind)(void *self, void **out, int32_t index, size_t bytes, int32_t kind);
  /* Makes count kernels ready to be launched: functions[i] of codes[i]. *module holds them until
   * unbuild. functions[i] stays null where a kernel is beyond the device: the host computes it.
   * log, of so many bytes of room, takes what a compiler said, zero-terminated. Errors: UNSUPPORTED
   * (all are beyond it), COMPILE (the host computes, unless the context refuses that), MEMORY,
   * DEVICE (a lost device); nothing is left then. */
  int32_t (*build)(void *self, void **module, void **functions, int32_t index,
                   const aster_ml_code *codes, size_t count, char *log, size_t room);
  void (*unbuild)(void *self, int32_t index, void *module);
  /* A queue, whose commands run one after another. One thread at a time uses it. flags:
   * ASTER_ML_QUEUE_OUT_OF_ORDER, ... where the device has that. */
  int32_t (*open)(void *self, void **queue, int32_t index, uint32_t flags);
  void (*close)(void *self, int32_t index, void *queue);
  /* Begins commands, and gives a number that grows along the queue. After a failure none of them
   * runs any more, and what those that ran have written is undefined. */
  int32_t (*submit)(void *self, uint64_t *ticket, int32_t index, void *queue,
                    const aster_ml_command *commands, size_t count);
  /* Returns when everything up to a ticket is done. Errors: DEVICE (a command failed). */
  int32_t (*wait)(void *self, int32_t index, void *queue, uint64_t ticket);

  /* Whole programs, by whatever computes them: all three, or none. A program that was loaded on the
   * device (aster_ml_program_load_on) is one call then, and no kernel of the library's. */

  /* Makes a program ready to be executed; *taken holds what that is until drop_program. log, of so
   * many bytes of room, takes why not, zero-terminated. Errors: UNSUPPORTED (the library computes
   * it, by kernels where the device has those), MEMORY, DEVICE; nothing is left then. */
  int32_t (*take_program)(void *self, void **taken, int32_t index,
                          const aster_ml_device_program *program, char *log, size_t room);
  /* Computes the outputs, in memory of the device that no input overlaps, and assigns to inputs and
   * State what the program assigns. Done when it returns. Where a program has State, one call at a
   * time; others side by side. What an output says that it has become is checked. */
  int32_t (*execute_program)(void *self, int32_t index, void *taken,
                             const aster_ml_device_array *inputs, size_t input_count,
                             aster_ml_device_array *outputs, size_t output_count);
  void (*drop_program)(void *self, int32_t index, void *taken);
} aster_ml_backend;

/* What a device tells of itself; of the host, and of a backend that tells nothing, its kind and its
 * name. Errors: ARGUMENT (no such device, struct_size), UNSUPPORTED (no backend), DEVICE (describe
 * failed). */
ASTER_ML_API int32_t aster_ml_device_describe(aster_ml_device_info *out, int32_t device);

/* Registers a backend under a name of at most 31 letters, digits and underscores that begins with a
 * letter, and gives the code of its device 0. OPENCL, CUDA, ROCM and METAL may be named too. A
 * backend stays for the life of the process. Errors: ARGUMENT (a function is missing), FORMAT
 * (name), STATE (the name has a backend), RANGE (count; no type left). */
ASTER_ML_API int32_t aster_ml_device_register(int32_t *out, const char *name,
                                              const aster_ml_backend *backend);

#ifdef __cplusplus
}
#endif
#endif
