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

/* Realises the state and writes it as a safetensors file. A file of that name is replaced when all
 * is written, keeps its permissions, and stays as it is on a failure; links are followed to the
 * file that they name; what is no regular file (a device, a pipe) is written through. Errors: IO
 * (one that must not be written too), NOT_FOUND (the folder), UNSUPPORTED (a dtype that the format
 * lacks: fp8 fnuz), ARGUMENT (a tensor named __metadata__), STATE (in a capture). */
ASTER_ML_API int32_t aster_ml_state_write(const aster_ml_state *state, const char *path);

/* ---- States of files ----
 *
 * Files are mapped, and stay so until the last tensor is freed: nothing is read before it is used,
 * slices read only what they name, and the tensors are read-only. Only tensors whose elements do
 * not lie aligned are copied. A file may be renamed, replaced or removed meanwhile, and grow; who
 * writes into it changes the tensors, and who cuts it short ends the process. None of the tensors
 * is trained. The functions named from_x take the file as a uint8 tensor, with the same results.
 */

/* The tensors of a safetensors file, in the order of its header. Errors: NOT_FOUND, IO, FORMAT (the
 * header is no header, tensors overlap, leave gaps or reach outside the file), UNSUPPORTED (a dtype
 * of the format that this build has not). */
ASTER_ML_API int32_t aster_ml_state_read(aster_ml_state *out, const aster_ml_context *context,
                                         const char *path);
ASTER_ML_API int32_t aster_ml_state_from_safetensors(aster_ml_state *out,
                                                     const aster_ml_lazy *bytes);

/* The tensors of a file that torch.save wrote: zip archives, and the two formats before them. Names
 * are the keys on the way to a tensor, with dots between them ("value" for a tensor alone); the
 * metadata "structure" is the whole as JSON, in which {"tensor": name}, {"dict": [[key, value],
 * ...]}, {"tuple": [...]}, {"set": [...]}, {"bytes": hexadecimal}, {"int": hexadecimal} and
 * {"float": "nan"} stand for what JSON has not. Nothing of the file is executed: the pickle may
 * name tensors, their storages and plain containers, and nothing else. Tensors that do not lie
 * row-major are permuted or expanded when they are used, others copied. Errors: NOT_FOUND, IO,
 * RANGE (it unpacks to more than aster_ml_context_set_archive_limit allows), FORMAT (damaged,
 * tensors reach outside their storage), UNSUPPORTED (what is named is no part of a state; a dtype
 * that this build has not; compressed or encrypted in another way). */
ASTER_ML_API int32_t aster_ml_state_read_torch(aster_ml_state *out, const aster_ml_context *context,
                                               const char *path);
ASTER_ML_API int32_t aster_ml_state_from_torch(aster_ml_state *out, const aster_ml_lazy *bytes);

/* The same, but what is named and is no part of a state is skipped: an object of such a name is its
 * attributes, as a dict, or what it is filled with, and {"unknown": name} in the structure where it
 * has neither. The metadata "skipped" has the names as a JSON list. Errors: as above, without
 * UNSUPPORTED for names. */
ASTER_ML_API int32_t aster_ml_state_read_torch_skipping(aster_ml_state *out,
                                                        const aster_ml_context *context,
                                                        const char *path);
ASTER_ML_API int32_t aster_ml_state_from_torch_skipping(aster_ml_state *out,
                                                        const aster_ml_lazy *bytes);

/* The files of a zip archive as uint8 tensors [size], stored or deflated ones; of equal names the
 * last. Folders are empty tensors. Errors: NOT_FOUND, IO, FORMAT (damaged, names not UTF-8),
 * UNSUPPORTED (encrypted, another compression), RANGE (as read_torch). */
ASTER_ML_API int32_t aster_ml_state_read_zip(aster_ml_state *out, const aster_ml_context *context,
                                             const char *path);
ASTER_ML_API int32_t aster_ml_state_from_zip(aster_ml_state *out, const aster_ml_lazy *bytes);

/* The regular files of a tar archive (POSIX, GNU; as it is or in gzip) as uint8 tensors [size]; of
 * equal names the last. Errors: NOT_FOUND, IO, FORMAT (damaged, names not UTF-8), UNSUPPORTED
 * (sparse files, another compression), RANGE (as read_torch). */
ASTER_ML_API int32_t aster_ml_state_read_tar(aster_ml_state *out, const aster_ml_context *context,
                                             const char *path);
ASTER_ML_API int32_t aster_ml_state_from_tar(aster_ml_state *out, const aster_ml_lazy *bytes);

/* ---- Files as tensors ---- */

/* How a file is opened. */
typedef int32_t aster_ml_file_mode;
enum {
  ASTER_ML_FILE_READ = 0,   /* read-only */
  ASTER_ML_FILE_WRITE = 1,  /* the file is there; what is assigned to the tensor goes into it */
  ASTER_ML_FILE_CREATE = 2, /* the same; made or grown where it is shorter, new bytes being 0 */
};

/* The elements of a file from a byte offset on, row-major and native-endian, mapped: reading a
 * slice reads that part of the file, and assigning, when it is realised, writes it. One dimension
 * may be -1 where the file is there: what the rest of the file holds. dtype 0 is uint8. A file
 * mapped twice is two memories: the order of writes in one and reads in the other is open. When
 * others see a write is the system's affair, at the latest when the last handle is freed. Of a file
 * that others change, see above. Errors: NOT_FOUND, IO, RANGE (the file is shorter, offset is
 * negative or no multiple of the element where the file is written), SHAPE (the rest of the file is
 * no whole number of elements), DTYPE, ARGUMENT. */
ASTER_ML_API int32_t aster_ml_lazy_from_file(aster_ml_lazy *out, const aster_ml_context *context,
                                             const char *path, int32_t dtype, size_t ndim,
                                             const int64_t *shape, int64_t offset,
                                             aster_ml_file_mode mode);

#ifdef __cplusplus
}
#endif
#endif
