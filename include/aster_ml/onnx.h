/* ONNX models: read from their files and run.
 *
 * Conventions as in base.h and tensor.h.
 *
 * Values   What goes into a model and comes out of it: a tensor, a tensor of texts, a sequence of
 *          values, or nothing, which is an optional without a value. A value never changes after it
 *          is given to a model.
 * Types    Elements are numbered as in TensorProto.DataType. Tensors of the engine have the dtype
 *          of that name; int4, int2, uint4 and uint2 are int8 and uint8 there, float4e2m1 and
 *          float8e8m0 are float32.
 * Runs     A run builds the graph of the model for the sizes of its inputs, lazily: nothing is
 *          computed before a result is realised, but what decides about shapes and ways (If, Loop,
 *          NonZero, ...). Running again with equal sizes finds the kernels that are there.
 */
#ifndef ASTER_ML_ONNX_H
#define ASTER_ML_ONNX_H

#include "aster_ml/base.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A model; empty when zeroed. */
typedef struct aster_ml_onnx {
  void *impl;
} aster_ml_onnx;

/* A value; empty when zeroed. */
typedef struct aster_ml_onnx_value {
  void *impl;
} aster_ml_onnx_value;

/* Kinds of values. */
typedef int32_t aster_ml_onnx_kind;
enum {
  ASTER_ML_ONNX_NONE = 0,
  ASTER_ML_ONNX_TENSOR = 1,
  ASTER_ML_ONNX_SEQUENCE = 2,
  ASTER_ML_ONNX_OPTIONAL = 3, /* of inputs and outputs of a model; no value is of this kind */
  ASTER_ML_ONNX_MAP = 4       /* the same; not supported */
};

/* What a model says of one of its inputs or outputs. */
typedef struct aster_ml_onnx_type {
  uint32_t struct_size;
  int32_t kind;    /* aster_ml_onnx_kind */
  int32_t inner;   /* of what is in a sequence or optional */
  int32_t element; /* of its tensors; 0: not said */
  int32_t dtype;   /* that of the engine; 0 for texts */
  int32_t ndim;    /* -1: not said */
} aster_ml_onnx_type;

/* ---- Models ---- */

/* The model in a file, which is mapped and stays so: weights are used where they lie. External data
 * is looked for in the file's folder and below. Errors: NOT_FOUND, IO, FORMAT (damaged, nested more
 * than 64 deep), UNSUPPORTED (an opset from the future). */
ASTER_ML_API int32_t aster_ml_onnx_read(aster_ml_onnx *out, const aster_ml_context *context,
                                        const char *path);

/* The same of a file's bytes, a uint8 tensor; external data is not looked for. Errors: as read,
 * DTYPE. */
ASTER_ML_API int32_t aster_ml_onnx_from_bytes(aster_ml_onnx *out, const aster_ml_lazy *bytes);

/* Gives the model up. Threads: any. */
ASTER_ML_API int32_t aster_ml_onnx_free(aster_ml_onnx *model);

/* Inputs that are no weights, and outputs. 0 for an empty handle. */
ASTER_ML_API size_t aster_ml_onnx_input_count(const aster_ml_onnx *model);
ASTER_ML_API size_t aster_ml_onnx_output_count(const aster_ml_onnx *model);

/* The name of one; null for an index out of bounds. Owns: the model. */
ASTER_ML_API const char *aster_ml_onnx_input_name(const aster_ml_onnx *model, size_t index);
ASTER_ML_API const char *aster_ml_onnx_output_name(const aster_ml_onnx *model, size_t index);

/* The type of one; struct_size tells how much of it is wanted. Errors: RANGE. */
ASTER_ML_API int32_t aster_ml_onnx_input_type(aster_ml_onnx_type *info, const aster_ml_onnx *model,
                                              size_t index);
ASTER_ML_API int32_t aster_ml_onnx_output_type(aster_ml_onnx_type *info, const aster_ml_onnx *model,
                                               size_t index);

/* The size of an axis of one; -1 where it is any, or there is no such axis. */
ASTER_ML_API int64_t aster_ml_onnx_input_dim(const aster_ml_onnx *model, size_t index, size_t axis);
ASTER_ML_API int64_t aster_ml_onnx_output_dim(const aster_ml_onnx *model, size_t index,
                                              size_t axis);

/* The name that an axis of an input has where its size is any; null where it has none. Owns: the
 * model. */
ASTER_ML_API const char *aster_ml_onnx_input_axis_name(const aster_ml_onnx *model, size_t index,
                                                       size_t axis);

/* The opset of a domain ("": ai.onnx) that the model was written for; 0: it names none. */
ASTER_ML_API int64_t aster_ml_onnx_opset(const aster_ml_onnx *model, const char *domain);

/* Runs the model: inputs is a sequence with a value an input, in order, out one with a value an
 * output. Errors: UNSUPPORTED (an operator, a dtype), FORMAT (the graph: what computes a value
 * comes behind its use), ARGUMENT (inputs missing or too many), SHAPE, DTYPE, RANGE (an operator's
 * operands, told with its name; loops that do not end), as realize. */
ASTER_ML_API int32_t aster_ml_onnx_run(aster_ml_onnx_value *out, const aster_ml_onnx *model,
                                       const aster_ml_onnx_value *inputs);

/* The same at once, by a program that is captured when inputs of these dtypes and sizes are met
 * first (engine.h): later runs with them build nothing. Where the file gives axes of inputs no
 * number, the first sizes have a program of their own, and the second ones one with variables
 * (symbolic.h), which serves those from a quarter of its bounds on, powers of two; what is 1 stays
 * 1. As run where the graph decides by what inputs are, draws at random, where inputs or results
 * are no tensors of numbers, or a capture is open. Errors: as run, as aster_ml_program_run. */
ASTER_ML_API int32_t aster_ml_onnx_compute(aster_ml_onnx_value *out, const aster_ml_onnx *model,
                                           const aster_ml_onnx_value *inputs);

/* Programs that compute has made of the model; symbolic: only those with variables. 0 for an empty
 * handle. */
ASTER_ML_API size_t aster_ml_onnx_program_count(const aster_ml_onnx *model, int32_t symbolic);

/* Why each size has a program of its own: the operator that has no rule for variables, as a
 * message. Null where none was met. Owns: the model. */
ASTER_ML_API const char *aster_ml_onnx_refusal(const aster_ml_onnx *model);

/* 1 if there is an operator of this name for that opset of its domain ("": ai.onnx). */
ASTER_ML_API int32_t aster_ml_onnx_has_operator(const char *domain, const char *name,
                                                int64_t opset);

/* ---- Values ---- */

/* A tensor. */
ASTER_ML_API int32_t aster_ml_onnx_value_from_lazy(aster_ml_onnx_value *out,
                                                   const aster_ml_lazy *x);

/* A tensor of count texts of a shape. Errors: SHAPE. */
ASTER_ML_API int32_t aster_ml_onnx_value_from_texts(aster_ml_onnx_value *out,
                                                    const aster_ml_context *context,
                                                    const char *const *texts, size_t count,
                                                    size_t ndim, const int64_t *shape);

/* No value (NONE), or an empty sequence (SEQUENCE). Errors: ARGUMENT (another kind). */
ASTER_ML_API int32_t aster_ml_onnx_value_init(aster_ml_onnx_value *out,
                                              const aster_ml_context *context,
                                              aster_ml_onnx_kind kind);

/* Adds an item to a sequence. Errors: ARGUMENT (no sequence, or itself). */
ASTER_ML_API int32_t aster_ml_onnx_value_push(aster_ml_onnx_value *sequence,
                                              const aster_ml_onnx_value *item);

/* Gives the value up. Threads: any. */
ASTER_ML_API int32_t aster_ml_onnx_value_free(aster_ml_onnx_value *value);

/* An aster_ml_onnx_kind; NONE for an empty handle. */
ASTER_ML_API int32_t aster_ml_onnx_value_kind(const aster_ml_onnx_value *value);

/* The type of a tensor's elements as TensorProto.DataType numbers it; 0 for other values. */
ASTER_ML_API int32_t aster_ml_onnx_value_element(const aster_ml_onnx_value *value);

/* Items of a sequence, or texts; 0 for others. */
ASTER_ML_API size_t aster_ml_onnx_value_count(const aster_ml_onnx_value *value);

/* An item of a sequence. Errors: RANGE, ARGUMENT (no sequence). */
ASTER_ML_API int32_t aster_ml_onnx_value_at(aster_ml_onnx_value *out,
                                            const aster_ml_onnx_value *value, size_t index);

/* The tensor. Errors: DTYPE (texts, no tensor). */
ASTER_ML_API int32_t aster_ml_onnx_value_get(aster_ml_lazy *out, const aster_ml_onnx_value *value);

/* A text; null for an index out of bounds. Owns: the value. */
ASTER_ML_API const char *aster_ml_onnx_value_text(const aster_ml_onnx_value *value, size_t index);

/* Axes of a tensor, 0 for other values; the size of one, -1 where there is none. */
ASTER_ML_API size_t aster_ml_onnx_value_ndim(const aster_ml_onnx_value *value);
ASTER_ML_API int64_t aster_ml_onnx_value_dim(const aster_ml_onnx_value *value, size_t axis);

/* The value that a protobuf message is: TensorProto, SequenceProto or OptionalProto, as kind says.
 * bytes are copied. Errors: FORMAT, UNSUPPORTED (complex numbers, maps), ARGUMENT (kind). */
ASTER_ML_API int32_t aster_ml_onnx_value_from_proto(aster_ml_onnx_value *out,
                                                    const aster_ml_context *context,
                                                    const void *data, size_t bytes,
                                                    aster_ml_onnx_kind kind);

/* The message of a value, realised: *length bytes into out, which has room for capacity and may be
 * null. Errors: RANGE (it does not fit), DTYPE (a value of another kind), as realize. */
ASTER_ML_API int32_t aster_ml_onnx_value_to_proto(char *out, size_t *length, size_t capacity,
                                                  const aster_ml_onnx_value *value,
                                                  aster_ml_onnx_kind kind);

#ifdef __cplusplus
}
#endif
#endif
