/* Views: descriptors of memory that say everything about it: byte strides, kind of memory, owner,
 * flags.
 *
 * A view keeps its memory alive until aster_ml_view_free. Slices, reversals and halves are new
 * views of the same memory; no element moves. A view whose memory was given up by freeing a copy of
 * its struct is an ARGUMENT error, as long as nothing else was put at its addresses; what answers
 * without a status answers 0.
 *
 * Everything here counts bytes, but shapes, axes and indices. What computes takes tensors:
 * aster_ml_view_to_tensor describes the same memory as one.
 *
 * Threads: a view may be used and freed on any thread, whatever thread has its context.
 */
#ifndef ASTER_ML_VIEW_H
#define ASTER_ML_VIEW_H

#include "aster_ml/base.h"
#include "aster_ml/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of a view. */
enum {
  ASTER_ML_VIEW_READ_ONLY = 1, /* nobody may write through it */
  ASTER_ML_VIEW_PINNED = 2,    /* its memory is page-locked */
  ASTER_ML_VIEW_SHARED = 4,    /* a view: others describe its memory too, or own it */
  ASTER_ML_VIEW_DEVICE = 8,    /* the host cannot address its memory */
  ASTER_ML_VIEW_SPARSE = 16    /* of a compressed format; none is implemented, so it is never set */
};

/* How elements are laid out. */
typedef int32_t aster_ml_layout;
enum {
  ASTER_ML_LAYOUT_STRIDED = 0,      /* by strides */
  ASTER_ML_LAYOUT_ROW_MAJOR = 1,    /* the last axis changes fastest; strides say so */
  ASTER_ML_LAYOUT_COLUMN_MAJOR = 2, /* the first axis changes fastest; strides say so */
  /* The last two axes are padded to powers of two and lie along a Z-curve: bit k of the column and
   * bit k of the row are bits 2k and 2k + 1 of the place, until one of them has no more bits; the
   * other's follow. Axes before them are row-major. strides are 0. */
  ASTER_ML_LAYOUT_MORTON = 3
};

/* A view. This layout is frozen. */
typedef struct aster_ml_buffer_view {
  aster_ml_buffer memory; /* all of the memory that it lies in */
  size_t byte_offset;     /* of the element at index 0, ..., 0 */
  size_t ndim;
  size_t *shape;      /* ndim elements, owned by the view */
  ptrdiff_t *strides; /* ndim elements, in bytes, owned by the view; may be 0 or negative */
  int32_t kind;       /* of memory: ASTER_ML_MEMORY_NORMAL, ... */
  uint32_t flags;
  aster_ml_layout layout; /* STRIDED or MORTON */
  uint32_t zero;
  const void *owner; /* who keeps the memory: equal for views of the same memory */
} aster_ml_buffer_view;

/* What memory from outside is. */
typedef struct aster_ml_view_options {
  uint32_t struct_size;
  int32_t dtype;
  int32_t device; /* 0: CPU */
  int32_t kind;   /* PINNED or UNIFIED for the host's; else what the device has */
  uint32_t flags; /* READ_ONLY or 0 */
  void *data;     /* the element at index 0, ..., 0; on a device: the memory's handle */
  size_t ndim;
  const size_t *shape;
  const ptrdiff_t *strides; /* in bytes; null: row-major */
  aster_ml_release_function
      release; /* called once when the memory is no longer used; may be null */
  void *self;  /* given to release */
} aster_ml_view_options;

/* A view of memory from outside, in place: the bytes that its elements lie in. On failure release
 * is not called. Errors: ARGUMENT (null data of some elements, elements that are not aligned,
 * another kind or flag), DTYPE, RANGE (strides that leave the address space), UNSUPPORTED (no
 * backend for the device). */
ASTER_ML_API int32_t aster_ml_view_from_memory(aster_ml_buffer_view *out,
                                               const aster_ml_context *context,
                                               const aster_ml_view_options *options);

/* A view inside a part of a buffer, bytes from byte_offset on, from the first one on; strides in
 * bytes, null: row-major. Errors: ARGUMENT (memory that the library does not know; a byte_offset or
 * strides that are no multiples of an element), RANGE (a part outside the buffer, an element
 * outside the part). */
ASTER_ML_API int32_t aster_ml_view_from_buffer(aster_ml_buffer_view *out,
                                               const aster_ml_context *context,
                                               const aster_ml_buffer *buffer, size_t byte_offset,
                                               size_t bytes, size_t ndim, const size_t *shape,
                                               const ptrdiff_t *strides);

/* A view of the memory of a tensor. Errors: ARGUMENT (memory that the library does not know), RANGE
 * (as aster_ml_tensor_from_buffer). */
ASTER_ML_API int32_t aster_ml_view_from_tensor(aster_ml_buffer_view *out,
                                               const aster_ml_context *context,
                                               const aster_ml_tensor *tensor);

/* A tensor in the memory of a view, which it keeps alive by itself. Errors: UNSUPPORTED (the layout
 * has no strides). */
ASTER_ML_API int32_t aster_ml_view_to_tensor(aster_ml_tensor *out, const aster_ml_context *context,
                                             const aster_ml_buffer_view *view);

/* A second view of the same elements. */
ASTER_ML_API int32_t aster_ml_view_copy(aster_ml_buffer_view *out,
                                        const aster_ml_buffer_view *view);

/* Gives memory, shape and strides up. Errors: ARGUMENT (freed already). */
ASTER_ML_API int32_t aster_ml_view_free(aster_ml_buffer_view *view);

/* 1 if the elements lie in this layout without gaps; those along an axis of size 1 do not count.
 * STRIDED: 1 for every view that has strides. */
ASTER_ML_API int32_t aster_ml_view_is_layout(const aster_ml_buffer_view *view,
                                             aster_ml_layout layout);

/* 1 if it is row-major without gaps. */
ASTER_ML_API int32_t aster_ml_view_is_contiguous(const aster_ml_buffer_view *view);

/* 1 if it may be written through. */
ASTER_ML_API int32_t aster_ml_view_is_writable(const aster_ml_buffer_view *view);

/* 1 if the host addresses its memory, of whatever kind; 1 if only its device does; 1 if its memory
 * is page-locked; 1 if others describe its memory too, or own it. 0 for an empty view. */
ASTER_ML_API int32_t aster_ml_view_is_host(const aster_ml_buffer_view *view);
ASTER_ML_API int32_t aster_ml_view_is_device(const aster_ml_buffer_view *view);
ASTER_ML_API int32_t aster_ml_view_is_pinned(const aster_ml_buffer_view *view);
ASTER_ML_API int32_t aster_ml_view_is_shared(const aster_ml_buffer_view *view);

/* Its elements, the product of the shape; 0 for an empty view. */
ASTER_ML_API size_t aster_ml_view_count(const aster_ml_buffer_view *view);

/* The view itself, a second one, where it is row-major already, else a row-major copy on its
 * device. Errors: as aster_ml_view_to_layout. */
ASTER_ML_API int32_t aster_ml_view_ensure_contiguous(aster_ml_buffer_view *out,
                                                     const aster_ml_context *context,
                                                     const aster_ml_buffer_view *view);

/* The view itself where it is on that device, else a row-major copy there. Errors: UNSUPPORTED (no
 * backend; a layout without strides), DEVICE. */
ASTER_ML_API int32_t aster_ml_view_to_device(aster_ml_buffer_view *out,
                                             const aster_ml_context *context,
                                             const aster_ml_buffer_view *view, int32_t device);

/* A copy in another layout, in memory of its own. Errors: ARGUMENT (no layout to ask for), SHAPE
 * (MORTON of less than two axes), UNSUPPORTED (MORTON where the host does not address the memory),
 * DEVICE. */
ASTER_ML_API int32_t aster_ml_view_to_layout(aster_ml_buffer_view *out,
                                             const aster_ml_context *context,
                                             const aster_ml_buffer_view *view,
                                             aster_ml_layout layout);

/* Elements start, start + step, ... before stop of an axis; where step is negative, from start down
 * to the one behind stop, and stop -1 includes the first. Cost: O(ndim). Errors: RANGE (an axis,
 * start or stop outside, step 0), UNSUPPORTED (a layout without strides). */
ASTER_ML_API int32_t aster_ml_view_slice(aster_ml_buffer_view *out,
                                         const aster_ml_buffer_view *view, size_t axis,
                                         int64_t start, int64_t stop, int64_t step);

/* The axis read from its end. Cost: O(ndim). Errors: as slice. */
ASTER_ML_API int32_t aster_ml_view_flip(aster_ml_buffer_view *out, const aster_ml_buffer_view *view,
                                        size_t axis);

/* The parts before index and from it on: two views that have no byte in common, so that two threads
 * may write to them at once. Out: low, high. Cost: O(ndim). Errors: ARGUMENT (read-only; low and
 * high are one), RANGE (an axis or index outside), SHAPE (an element of one may lie in the other,
 * as strides of 0 or windows that overlap make it), UNSUPPORTED (a layout without strides). */
ASTER_ML_API int32_t aster_ml_view_split_at(aster_ml_buffer_view *low, aster_ml_buffer_view *high,
                                            const aster_ml_buffer_view *view, size_t axis,
                                            size_t index);

#ifdef __cplusplus
}
#endif
#endif
