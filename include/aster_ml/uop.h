/* Nodes of the graph behind lazy tensors: building, walking and printing them.
 *
 * A node (aster_ml_uop) is immutable: an operation, a dtype, a shape, source nodes and integer
 * arguments. Equal nodes of one context are the same pointer. Operations go by name, as the table
 * in src/uop/ops.def has them. Those that contain another one name it after a colon: "Reduce:Add",
 * "Fold:Max", "Call:Softmax".
 *
 * Lifetimes  A node is valid while a live lazy tensor or a retained node reaches it. Functions that
 *            build return a retained node; aster_ml_uop_release gives it up. Nodes that nothing
 *            reaches are reclaimed by aster_ml_uop_collect and by realising, and only there. The
 *            address of a node never changes.
 * Accessors  Return their value, and 0, an empty text or null for a null node.
 */
#ifndef ASTER_ML_UOP_H
#define ASTER_ML_UOP_H

#include "aster_ml/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A node; owned by its context. */
typedef struct aster_ml_uop aster_ml_uop;

/* What aster_ml_uop_init builds. Which fields an operation reads:
 *   Const                 dtype, shape; arguments: the value (floats: the bits of a double)
 *   Param                 dtype, shape; arguments: slot
 *   Iota                  dtype, shape of one axis
 *   Range                 arguments: id, size
 *   Reshape, Expand       shape
 *   Permute, Flip         arguments: axes; 0 or 1 for every axis
 *   Slice                 shape; arguments: start, step for every axis
 *   Pad                   arguments: before, after, interior for every axis, then the fill's bits
 *   Window                arguments: axis, stride, dilation, size of the window
 *   Unwindow              arguments: axis, stride, dilation, size of the axis
 *                         (both: without the size it is that of the axis in shape)
 *   Contiguous            arguments: none, or the devices it moves to and from, 0 for any
 *   Cat                   arguments: axis
 *   Cast, Bitcast         dtype
 *   Reduce:*              arguments: axes, ascending
 *   Call:*                sources: what it is called with, without the body, which is the
 *                         library's; arguments: as src/uop/composites.def lists them
 *   others                sources only
 * A Buffer is built of its elements, by aster_ml_uop_from_data (graph.h). Foreign is what kernels
 * of tensors give (kernel.h); Tuple and Item cannot be built. */
typedef struct aster_ml_uop_options {
  uint32_t struct_size;
  int32_t dtype; /* a dtype code */
  const char *op;
  const aster_ml_uop *const *sources;
  size_t source_count;
  const int64_t *arguments;
  size_t argument_count;
  const int64_t *shape;
  size_t ndim;
} aster_ml_uop_options;

/* A checked node, retained. Identities may give a node that was there: a reshape to the same shape
 * is its source. Errors: ARGUMENT (a null pointer, a node of another context, wrong numbers of
 * sources or arguments), NOT_FOUND (no such operation), UNSUPPORTED, SHAPE, DTYPE, RANGE. */
ASTER_ML_API int32_t aster_ml_uop_init(const aster_ml_uop **out, const aster_ml_context *context,
                                       const aster_ml_uop_options *options);

/* An index expression (weakint and bool arithmetic on ranges) in its canonical form, retained:
 * equal expressions become the same node. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_uop_simplify(const aster_ml_uop **out,
                                           const aster_ml_context *context,
                                           const aster_ml_uop *uop);

/* Keeps a node, and all it is made of, until the matching release. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_uop_retain(const aster_ml_context *context, const aster_ml_uop *uop);

/* Gives up one retain. Errors: ARGUMENT, STATE (nothing retains it). */
ASTER_ML_API int32_t aster_ml_uop_release(const aster_ml_context *context, const aster_ml_uop *uop);

/* Reclaims every node that nothing reaches. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_uop_collect(const aster_ml_context *context);

/* The number of nodes in a context's graph. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_uop_count(size_t *out, const aster_ml_context *context);

/* "Add", "Reduce:Max", ... Owns: static text. */
ASTER_ML_API const char *aster_ml_uop_op(const aster_ml_uop *uop);

/* The dtype code; 0 where a node has no value. */
ASTER_ML_API int32_t aster_ml_uop_dtype(const aster_ml_uop *uop);

/* Unique within a context, greater for nodes made later. */
ASTER_ML_API uint64_t aster_ml_uop_id(const aster_ml_uop *uop);

/* The number of axes, and the size of one; -1 for an axis out of bounds. */
ASTER_ML_API size_t aster_ml_uop_ndim(const aster_ml_uop *uop);
ASTER_ML_API int64_t aster_ml_uop_dim_at(const aster_ml_uop *uop, size_t axis);

/* The number of sources, and one of them; null past the end. */
ASTER_ML_API size_t aster_ml_uop_source_count(const aster_ml_uop *uop);
ASTER_ML_API const aster_ml_uop *aster_ml_uop_source_at(const aster_ml_uop *uop, size_t index);

/* The number of arguments, without what the name says, and one of them; 0 past the end. The
 * arguments of a buffer are not shown. */
ASTER_ML_API size_t aster_ml_uop_argument_count(const aster_ml_uop *uop);
ASTER_ML_API int64_t aster_ml_uop_argument_at(const aster_ml_uop *uop, size_t index);

/* Values an integer or bool lies between, both included; INT64_MIN and INT64_MAX where nothing is
 * known. Errors: ARGUMENT. */
ASTER_ML_API int32_t aster_ml_uop_get_bounds(int64_t *min, int64_t *max, const aster_ml_uop *uop);

/* The nodes that root is made of, sources before users, root last. count is their number; out holds
 * room for capacity nodes and may be null to ask for count alone. Errors: ARGUMENT, RANGE (capacity
 * is less than count). */
ASTER_ML_API int32_t aster_ml_uop_walk(const aster_ml_uop **out, size_t *count, size_t capacity,
                                       const aster_ml_context *context, const aster_ml_uop *root);

/* The graph of root as text, one node a line, ending in a zero byte. length is that without the
 * zero; out holds room for capacity bytes and may be null to ask for length alone. Errors:
 * ARGUMENT, RANGE (capacity is not greater than length). */
ASTER_ML_API int32_t aster_ml_uop_print(char *out, size_t *length, size_t capacity,
                                        const aster_ml_context *context, const aster_ml_uop *root);

#ifdef __cplusplus
}
#endif
#endif
