/* States: tensors by name, in the order they were added; their files, and files as tensors.
 *
 * Conventions as in base.h and tensor.h.
 */
#ifndef ASTER_ML_STATE_H
#define ASTER_ML_STATE_H

#include "aster_ml/base.h"
#include "aster_ml/layer.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A state; empty when zeroed. */
typedef struct aster_ml_state {
  void *impl;
} aster_ml_state;

/* A state without tensors. */
ASTER_ML_API int32_t aster_ml_state_init(aster_ml_state *out, const aster_ml_context *context);

/* Gives the state up. Threads: any. */
ASTER_ML_API int32_t aster_ml_state_free(aster_ml_state *state);

/* Adds x under a name, or puts it in the place of what has that name. x is realised; the state
 * keeps a handle of its own on the storage. trained 1: an optimiser updates it. name is UTF-8.
 * Errors: ARGUMENT (name is empty or no UTF-8), DTYPE (trained, but not float), as realize. */
ASTER_ML_API int32_t aster_ml_state_set(aster_ml_state *state, const char *name, aster_ml_lazy *x,
                                        int32_t trained);

/* Adds the parameters of a layer as prefix + "weight" and so on; running statistics are not
 * trained. prefix may be null. Errors: ARGUMENT (a name is there already). */
ASTER_ML_API int32_t aster_ml_state_set_layer(aster_ml_state *state, const char *prefix,
                                              const aster_ml_layer *layer);

/* The number of tensors; 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_state_count(const aster_ml_state *state);

/* The name of a tensor; null for an index out of bounds. Owns: the state, until it is freed. */
ASTER_ML_API const char *aster_ml_state_name(const aster_ml_state *state, size_t index);

/* A handle on the tensor of a name. Errors: NOT_FOUND. */
ASTER_ML_API int32_t aster_ml_state_get(aster_ml_lazy *out, const aster_ml_state *state,
                                        const char *name);

/* Sets a text that is written along with the tensors; a null text removes it. Errors: ARGUMENT (not
 * UTF-8). */
ASTER_ML_API int32_t aster_ml_state_set_metadata(aster_ml_state *state, const char *key,
                                                 const char *text);

/* The text of a key. Owns: the state, until it is changed. Errors: NOT_FOUND. */
ASTER_ML_API int32_t aster_ml_state_get_metadata(const char **out, const aster_ml_state *state,
                                                 const char *key);

/* Computes all tensors of the state, together. Errors: as aster_ml_lazy_realize. */
ASTER_ML_API int32_t aster_ml_state_realize(const aster_ml_state *state);

/* Copies the elements of source into the tensors of state, name by name, at once; what only source
 * has is left out. On failure nothing is copied. Errors: NOT_FOUND (source lacks a name), SHAPE,
 * DTYPE, ARGUMENT (read-only memory, two contexts), STATE (in a capture). */
ASTER_ML_API int32_t aster_ml_state_load(aster_ml_state *state, const aster_ml_state *source);

/* Realises the state and writes it as a safetensors file; a file of that name is replaced when all
 * is written, and stays as it is on a failure. Errors: IO, NOT_FOUND (the folder), UNSUPPORTED (a
 * dtype that the format lacks: fp8 fnuz), STATE (in a capture). */
ASTER_ML_API int32_t aster_ml_state_write(const aster_ml_state *state, const char *path);

/* The tensors of a safetensors file, none trained, in the order of its header. The file is mapped,
 * and stays so until the last tensor is freed: nothing is read before it is used, and the tensors
 * are read-only. (Who cuts the file short meanwhile ends the process.) Only tensors whose elements
 * do not lie aligned are copied. Errors: NOT_FOUND, IO, FORMAT (the header is no header, tensors
 * overlap, leave gaps or reach outside the file), UNSUPPORTED (a dtype of the format that this
 * build has not). */
ASTER_ML_API int32_t aster_ml_state_read(aster_ml_state *out, const aster_ml_context *context,
                                         const char *path);

#ifdef __cplusplus
}
#endif
#endif
