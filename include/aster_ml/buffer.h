/* Raw memory (aster_ml_buffer) and the dense strided descriptor (aster_ml_tensor).
 *
 * A descriptor never owns memory by itself: memory that this library allocated or was told of is in
 * a table keyed by address, which counts the descriptors made by the functions below; *_free looks
 * it up there. So a plain copy of a struct is a second name for the same memory, to be freed once.
 * Memory that the library does not know is left alone; freeing memory a second time is an ARGUMENT
 * error as long as nothing else was put at its address.
 *
 * Shapes and strides count elements, everything else bytes. 0-d: ndim 0, shape and strides null.
 * Zero-size: bytes 0, data may be null. Sizes are checked for overflow: RANGE.
 *
 * Our memory is aligned to 64 bytes, from 2 MiB on to 2 MiB, and not initialised. Freed blocks of
 * 1 MiB and more are kept by their context for its next allocations, 512 MiB at most.
 *
 * Freeing and copying is possible from any thread.
 */
#ifndef ASTER_ML_BUFFER_H
#define ASTER_ML_BUFFER_H

#include "aster_ml/base.h"
#include "aster_ml/device.h"
#include "aster_ml/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raw memory. This layout is frozen. */
typedef struct aster_ml_buffer {
  void *data;     /* in the address space of the device */
  size_t bytes;   /* size of the allocation */
  int32_t dtype;  /* of its elements */
  int32_t device; /* a device code */
} aster_ml_buffer;

/* Kinds of memory. */
enum {
  ASTER_ML_MEMORY_NORMAL = 0, /* pageable memory of the host */
  ASTER_ML_MEMORY_PINNED = 1, /* page-locked memory of the host, which devices read by themselves */
  ASTER_ML_MEMORY_UNIFIED = 2, /* addressed by host and device alike */
  ASTER_ML_MEMORY_DEVICE = 3   /* addressed by its device alone */
};

/* Memory on a device (0: CPU) for elements of dtype; bytes is a multiple of the dtype's size. It is
 * of kind NORMAL where the host addresses it, else DEVICE. Errors: ARGUMENT, DTYPE (a weak dtype),
 * RANGE, UNSUPPORTED, DEVICE. */
ASTER_ML_API int32_t aster_ml_buffer_init(aster_ml_buffer *out, const aster_ml_context *context,
                                          size_t bytes, int32_t dtype, int32_t device);

/* Memory of a kind. PINNED and UNIFIED are made by a device's backend and addressed by the host:
 * the buffer is on the CPU. NORMAL and DEVICE are what init gives, on the devices that have them.
 * Errors: as init, ARGUMENT (no kind of that device's), UNSUPPORTED (its backend does not make
 * it). */
ASTER_ML_API int32_t aster_ml_buffer_init_kind(aster_ml_buffer *out,
                                               const aster_ml_context *context, size_t bytes,
                                               int32_t dtype, int32_t device, int32_t kind);

/* Called once when memory that was wrapped is no longer used, on any thread. */
typedef void (*aster_ml_release_function)(void *self, void *data, size_t bytes);

/* Foreign memory, in place. With read_only the library never writes to it. release may be null: the
 * memory then has to outlive every use. On failure release is not called. Errors: ARGUMENT (null
 * data of some bytes; data not aligned to its elements), as init. */
ASTER_ML_API int32_t aster_ml_buffer_from_memory(aster_ml_buffer *out,
                                                 const aster_ml_context *context, void *data,
                                                 size_t bytes, int32_t dtype, int32_t device,
                                                 int32_t read_only,
                                                 aster_ml_release_function release, void *self);

/* Gives the memory up. Errors: ARGUMENT (freed already). */
ASTER_ML_API int32_t aster_ml_buffer_free(aster_ml_buffer *buffer);

/* 1 if the library was told that it must not write to the memory. */
ASTER_ML_API int32_t aster_ml_buffer_is_read_only(const aster_ml_buffer *buffer);

/* The kind of its memory; what its device has for memory that the library does not know. */
ASTER_ML_API int32_t aster_ml_buffer_memory_kind(const aster_ml_buffer *buffer);

/* bytes from source + source_offset to buffer + offset, between any two devices. 1 MiB and more go
 * by way of pinned memory where a device makes that and has queues, part by part. Alias: the ranges
 * may overlap. Errors: ARGUMENT (buffer is read-only or null), RANGE (outside a buffer),
 * UNSUPPORTED, DEVICE. */
ASTER_ML_API int32_t aster_ml_buffer_copy(const aster_ml_buffer *buffer, size_t offset,
                                          const aster_ml_buffer *source, size_t source_offset,
                                          size_t bytes);

/* From host memory into a buffer, and out of it. Errors: as copy. */
ASTER_ML_API int32_t aster_ml_buffer_copy_in(const aster_ml_buffer *buffer, size_t offset,
                                             const void *host, size_t bytes);
ASTER_ML_API int32_t aster_ml_buffer_copy_out(void *host, const aster_ml_buffer *buffer,
                                              size_t offset, size_t bytes);

/* Dense strided descriptor. This layout is frozen. */
typedef struct aster_ml_tensor {
  aster_ml_buffer storage;
  size_t byte_offset; /* of the element at index 0, ..., 0 */
  size_t ndim;
  size_t *shape;      /* ndim elements, owned by the tensor */
  ptrdiff_t *strides; /* ndim elements, owned by the tensor; may be 0 or negative */
  int32_t dtype;      /* copied from the buffer */
  int32_t device;     /* copied from the buffer */
} aster_ml_tensor;

/* A row-major tensor in memory of its own. Errors: as aster_ml_buffer_init. */
ASTER_ML_API int32_t aster_ml_tensor_init(aster_ml_tensor *out, const aster_ml_context *context,
                                          int32_t dtype, int32_t device, size_t ndim,
                                          const size_t *shape);

/* The same on the CPU, filled with row-major elements. Errors: as init, ARGUMENT (null data of some
 * elements). */
ASTER_ML_API int32_t aster_ml_tensor_from_data(aster_ml_tensor *out,
                                               const aster_ml_context *context, const void *data,
                                               int32_t dtype, size_t ndim, const size_t *shape);

/* A tensor in the memory of a buffer, which it keeps alive; strides null: row-major. dtype and
 * device are the buffer's. Errors: ARGUMENT (byte_offset not a multiple of the element), RANGE (an
 * element outside the buffer). */
ASTER_ML_API int32_t aster_ml_tensor_from_buffer(aster_ml_tensor *out,
                                                 const aster_ml_context *context,
                                                 const aster_ml_buffer *buffer, size_t byte_offset,
                                                 size_t ndim, const size_t *shape,
                                                 const ptrdiff_t *strides);

/* Gives memory, shape and strides up. Errors: ARGUMENT (freed already). */
ASTER_ML_API int32_t aster_ml_tensor_free(aster_ml_tensor *tensor);

/* Elements, the product of the shape; 0 for null. */
ASTER_ML_API size_t aster_ml_tensor_count(const aster_ml_tensor *tensor);

/* 1 if the elements lie in row-major order without gaps; strides of dimensions of size 1 do not
 * count. */
ASTER_ML_API int32_t aster_ml_tensor_is_contiguous(const aster_ml_tensor *tensor);

/* A row-major copy in memory of its own, on the same device. Errors: as init, RANGE (source reaches
 * outside its buffer). */
ASTER_ML_API int32_t aster_ml_tensor_contiguous(aster_ml_tensor *out,
                                                const aster_ml_context *context,
                                                const aster_ml_tensor *source);

/* count elements, as many as the tensor has, row-major, into the tensor and out of it. Errors:
 * RANGE (another count, an element outside the buffer), as aster_ml_buffer_copy. */
ASTER_ML_API int32_t aster_ml_tensor_copy_in(const aster_ml_tensor *tensor, const void *host,
                                             size_t count);
ASTER_ML_API int32_t aster_ml_tensor_copy_out(void *host, const aster_ml_tensor *tensor,
                                              size_t count);

#ifdef __cplusplus
}
#endif
#endif
