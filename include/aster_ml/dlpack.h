/* DLPack: memory shared with other libraries without a copy, in both directions.
 *
 * The structs have the layouts of version 1 of dlpack.h (aster_ml_dlpack_managed is its
 * DLManagedTensorVersioned) and of the unversioned DLManagedTensor before it; a program that has
 * dlpack.h casts the pointers.
 *
 * A managed tensor has one owner, who calls its deleter (if it has one) once when done, on any
 * thread. Export gives one to the caller; import takes one over, if it succeeds.
 *
 * Devices  Memory that the host addresses is CPU; of kind pinned CUDA_HOST, unified CUDA_MANAGED.
 *          The others are the devices of their names, where a backend is registered. data of
 *          OPENCL is a cl_mem of the cl_context that aster_ml_queue_opencl gives, not what data of
 *          a tensor is; a cl_mem that went out and comes in is the same memory.
 */
#ifndef ASTER_ML_DLPACK_H
#define ASTER_ML_DLPACK_H

#include "aster_ml/base.h"
#include "aster_ml/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version that is exported; any minor version of this major one is imported. */
#define ASTER_ML_DLPACK_MAJOR 1
#define ASTER_ML_DLPACK_MINOR 1

/* Types of devices that memory can be exchanged on. Others have numbers too, and are refused. */
enum {
  ASTER_ML_DLPACK_CPU = 1,
  ASTER_ML_DLPACK_CUDA = 2,
  ASTER_ML_DLPACK_CUDA_HOST = 3,
  ASTER_ML_DLPACK_OPENCL = 4,
  ASTER_ML_DLPACK_METAL = 8,
  ASTER_ML_DLPACK_ROCM = 10,
  ASTER_ML_DLPACK_ROCM_HOST = 11,
  ASTER_ML_DLPACK_CUDA_MANAGED = 13
};

/* Flags of a versioned managed tensor. */
enum {
  ASTER_ML_DLPACK_READ_ONLY = 1, /* nobody may write to the memory */
  ASTER_ML_DLPACK_COPIED = 2     /* the memory is a copy that was made for this exchange */
};

/* A device: its type and its number among those of the type. */
typedef struct aster_ml_dlpack_device {
  int32_t type;
  int32_t id;
} aster_ml_dlpack_device;

/* The type of an element. */
typedef struct aster_ml_dlpack_dtype {
  uint8_t code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 to 13 our four kinds of fp8 */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} aster_ml_dlpack_dtype;

/* Memory and how elements lie in it. */
typedef struct aster_ml_dlpack_tensor {
  void *data;
  aster_ml_dlpack_device device;
  int32_t ndim;
  aster_ml_dlpack_dtype dtype;
  int64_t *shape;
  int64_t *strides;     /* in elements; null: row-major */
  uint64_t byte_offset; /* from data to the element at index 0, ..., 0 */
} aster_ml_dlpack_tensor;

/* A tensor with its owner's deleter: version 1. */
typedef struct aster_ml_dlpack_managed {
  uint32_t version_major;
  uint32_t version_minor;
  void *manager;
  void (*deleter)(struct aster_ml_dlpack_managed *self); /* may be null */
  uint64_t flags;
  aster_ml_dlpack_tensor tensor;
} aster_ml_dlpack_managed;

/* The same before version 1: without version and flags. */
typedef struct aster_ml_dlpack_legacy {
  aster_ml_dlpack_tensor tensor;
  void *manager;
  void (*deleter)(struct aster_ml_dlpack_legacy *self); /* may be null */
} aster_ml_dlpack_legacy;

/* The memory of a tensor, in place, with its strides. flags: ASTER_ML_DLPACK_COPIED where tensor is
 * a copy made for this, ASTER_ML_DLPACK_READ_ONLY to forbid writing; read-only memory says so by
 * itself. Owns: the managed tensor keeps memory that the library knows until its deleter is called,
 * also when tensor is freed; other memory has to outlive it. Errors: ARGUMENT (a flag that is
 * none), RANGE (as aster_ml_tensor_from_buffer), UNSUPPORTED (a device that DLPack has no type
 * for). */
ASTER_ML_API int32_t aster_ml_dlpack_export(aster_ml_dlpack_managed **out,
                                            const aster_ml_context *context,
                                            const aster_ml_tensor *tensor, uint64_t flags);

/* The same for a user of old. Errors: as export, STATE (read-only memory, which this form cannot
 * tell). */
ASTER_ML_API int32_t aster_ml_dlpack_export_legacy(aster_ml_dlpack_legacy **out,
                                                   const aster_ml_context *context,
                                                   const aster_ml_tensor *tensor);

/* A tensor in the memory of a managed tensor, in place, with its strides. Owns: managed, whose
 * deleter is called once when nothing uses the memory any more, on any thread; where it has no
 * elements, before this returns. On failure managed is still the caller's. Errors: ARGUMENT (null
 * fields, elements that are not aligned), RANGE (negative dimensions, strides that leave the
 * address space or a cl_mem), FORMAT (no version), UNSUPPORTED (a newer major version; a type of
 * elements that has no dtype; a device without a backend; a cl_mem of another cl_context), STATE
 * (managed is imported already, as far as that can be seen: while its memory is in use). */
ASTER_ML_API int32_t aster_ml_dlpack_import(aster_ml_tensor *out, const aster_ml_context *context,
                                            aster_ml_dlpack_managed *managed);
ASTER_ML_API int32_t aster_ml_dlpack_import_legacy(aster_ml_tensor *out,
                                                   const aster_ml_context *context,
                                                   aster_ml_dlpack_legacy *managed);

#ifdef __cplusplus
}
#endif
#endif
