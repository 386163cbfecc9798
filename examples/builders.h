/* The program's context, and builders that return their result: what they name is computed when it
 * is read. */
#ifndef ASTER_EXAMPLES_BUILDERS_H
#define ASTER_EXAMPLES_BUILDERS_H

#include <aster_ml/aster_ml.h>

typedef aster_ml_lazy tensor;
static aster_ml_context context;

/* static tensor t_NAME(tensor x), and of two. */
#define UNARY(name)                  \
  static tensor t_##name(tensor x) { \
    tensor y;                        \
    aster_ml_lazy_##name(&y, &x);    \
    return y;                        \
  }
#define BINARY(name)                           \
  static tensor t_##name(tensor a, tensor b) { \
    tensor y;                                  \
    aster_ml_lazy_##name(&y, &a, &b);          \
    return y;                                  \
  }

static inline tensor real(double value) {
  tensor y;
  aster_ml_lazy_number(&y, &context, value);
  return y;
}

static inline tensor cast(tensor x, int32_t dtype) {
  tensor y;
  aster_ml_lazy_cast(&y, &x, dtype);
  return y;
}

static inline tensor reshape(tensor x, size_t ndim, const int64_t *shape) {
  tensor y;
  aster_ml_lazy_reshape(&y, &x, ndim, shape);
  return y;
}

static inline tensor at(tensor x, int64_t axis, int64_t index) {
  tensor y;
  aster_ml_lazy_select(&y, &x, axis, index);
  return y;
}

#endif
