/* What an operation would give, without building it: shapes, dtypes and cost, or its error. */
#ifndef ASTER_ML_PLAN_H
#define ASTER_ML_PLAN_H

#include "aster_ml/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An operand that is only described. dtype 0: a null pointer, where the operation allows one. */
typedef struct aster_ml_op_operand {
  int32_t dtype;
  size_t ndim;
  const int64_t *shape;
} aster_ml_op_operand;

enum {
  ASTER_ML_ATTRIBUTE_INTEGER = 1, /* integer */
  ASTER_ML_ATTRIBUTE_REAL = 2,    /* real */
  ASTER_ML_ATTRIBUTE_TEXT = 3,    /* text */
  ASTER_ML_ATTRIBUTE_LIST = 4     /* list, count */
};

/* An argument that is no tensor, by the name that it has in the function's declaration or in its
 * options struct. Lists of several sizes are one attribute each; counts are none. */
typedef struct aster_ml_op_attribute {
  const char *name;
  int32_t kind; /* ASTER_ML_ATTRIBUTE_* */
  int64_t integer;
  double real;
  const char *text;
  const int64_t *list;
  size_t count;
} aster_ml_op_attribute;

enum { ASTER_ML_PLAN_RESULTS = 4, ASTER_ML_PLAN_AXES = 32 };

/* One result. */
typedef struct aster_ml_op_result {
  int32_t dtype;
  int32_t zero; /* 0 */
  size_t ndim;
  int64_t shape[ASTER_ML_PLAN_AXES];
} aster_ml_op_result;

/* What an operation gives and costs. Operations count what is computed, unfused, sums and
 * products alike (what costs several, as exp does, counts as several); bytes are those of the
 * operands and the results, each element once. */
typedef struct aster_ml_op_costs {
  uint32_t struct_size; /* in: sizeof(aster_ml_op_costs) */
  uint32_t result_count;
  aster_ml_op_result results[ASTER_ML_PLAN_RESULTS];
  uint64_t operations;
  uint64_t bytes;
} aster_ml_op_costs;

/* Plans the operation that aster_ml_lazy_NAME builds: "matmul", "softmax", "conv2d". It is the very
 * function that builds it, on operands without memory, in a graph that is dropped: the context
 * lends its defaults and is not changed. Attributes left out are 0, null or empty, as C would pass
 * them. Errors: those of the function, with its message; ARGUMENT (null; too few or too many
 * operands; an attribute that the operation has not, or of another kind), NOT_FOUND (no such
 * operation), UNSUPPORTED (it has to see values; a result of more than 32 axes). */
ASTER_ML_API int32_t aster_ml_op_plan(aster_ml_op_costs *costs, const aster_ml_context *context,
                                      const char *name, const aster_ml_op_operand *operands,
                                      size_t operand_count, const aster_ml_op_attribute *attributes,
                                      size_t attribute_count);

/* The name of the index-th operation that can be planned, in the order of the headers; null past
 * the end. Owns: static text. */
ASTER_ML_API const char *aster_ml_op_name(size_t index);

#ifdef __cplusplus
}
#endif
#endif
