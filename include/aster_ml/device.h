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
  ASTER_ML_DEVICE_OPENCL = 2 * 65536,    /* UNSUPPORTED until a backend is registered for it */
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

/* What a device of another kind has to offer: memory. Graphs on it are computed by the host on
 * copies, or in place where host_visible is 1. The functions return a status of this library and
 * may be called from any thread; those that copy return when the copy is done. data is what
 * allocate gave; offsets and sizes count bytes and stay inside it. MEMORY of allocate is passed on,
 * any other status becomes DEVICE; what says none (another number, OK without memory) ERROR. */
typedef struct aster_ml_backend {
  uint32_t struct_size;
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
} aster_ml_backend;

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
