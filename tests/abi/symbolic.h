/* What the tests of symbolic dimensions share: tensors with sizes of a variable n, and what
 * programs give for its values. */
#ifndef TESTS_ABI_SYMBOLIC_H
#define TESTS_ABI_SYMBOLIC_H

#include <aster_ml/aster_ml.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

#define OK(call)                                                                     \
  do {                                                                               \
    const int32_t status_ = (call);                                                  \
    if (status_ != 0) {                                                              \
      aster_ml_error error_;                                                         \
      aster_ml_error_last(&error_);                                                  \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, error_.message); \
      expect_failures++;                                                             \
    }                                                                                \
  } while (0)

/* That a call fails so, and says what. */
static inline void fails(int line, int32_t status, int32_t wanted, const char *part) {
  aster_ml_error error;
  aster_ml_error_last(&error);
  if (status == wanted && strstr(error.message, part) != NULL) return;
  fprintf(stderr, "line %d: status %d, \"%s\"; wanted %d, \"%s\"\n", line, status, error.message,
          wanted, part);
  expect_failures++;
}
#define FAILS(call, wanted, part) fails(__LINE__, (call), (wanted), (part))

enum { MOST = 7, WIDTH = 6 };
static aster_ml_context context;
static const aster_ml_uop *n;
static aster_ml_lazy base, other; /* MOST x WIDTH, WIDTH x MOST */

static aster_ml_dim number(int64_t value) {
  const aster_ml_dim dim = {value, NULL};
  return dim;
}
static aster_ml_dim bound(int64_t value) {
  aster_ml_dim dim = {0, NULL};
  OK(aster_ml_symbolic_bind(&dim.expression, &context, n, "n", value));
  return dim;
}
/* The first rows and columns. */
static void part(aster_ml_lazy *out, const aster_ml_lazy *x, aster_ml_dim rows,
                 aster_ml_dim width) {
  const aster_ml_dim begin[2] = {{0, NULL}, {0, NULL}}, end[2] = {rows, width};
  OK(aster_ml_lazy_shrink_dims(out, x, 2, begin, end));
}

/* ---- Positions ---- */

static inline aster_ml_dim_index item_of(int32_t kind, aster_ml_dim start, aster_ml_dim stop,
                                         int64_t step) {
  const aster_ml_dim_index item = {kind, start, stop, step, NULL};
  return item;
}
static inline aster_ml_dim_index slice_of(aster_ml_dim start, aster_ml_dim stop, int64_t step) {
  return item_of(ASTER_ML_INDEX_SLICE, start, stop, step);
}
static inline aster_ml_dim_index tensor_item(const aster_ml_lazy *tensor) {
  aster_ml_dim_index item = slice_of(number(0), number(0), 1);
  item.kind = ASTER_ML_INDEX_TENSOR;
  item.tensor = tensor;
  return item;
}
#define ALL slice_of(number(INT64_MIN), number(INT64_MAX), 1)
/* a op b of sizes; the scope's end leaves it to its caller. */
static inline aster_ml_dim combined(const char *op, aster_ml_dim a, int64_t b) {
  const aster_ml_dim right = number(b);
  aster_ml_dim out = {0, NULL};
  OK(aster_ml_symbolic_combine(&out.expression, &context, op, &a, &right));
  return out;
}
static inline void let_go(aster_ml_dim dim) { OK(aster_ml_uop_release(&context, dim.expression)); }

/* ---- Values ---- */

static void fill(aster_ml_lazy *out, int64_t rows, int64_t width, int seed) {
  const int64_t shape[] = {rows, width};
  float *data = malloc((size_t)(rows * width) * sizeof *data);
  for (int64_t i = 0; i < rows * width; i++)
    data[i] = (float)((i * 37 + seed * 11) % 29) / 13.0F - 1.0F;
  OK(aster_ml_lazy_from(out, &context, data, ASTER_ML_DTYPE_FLOAT32, 2, shape));
  free(data);
}

typedef struct array {
  size_t ndim;
  int64_t shape[4];
  double data[4096];
} array;

static double element(int32_t dtype, const void *data, size_t i) {
  if (dtype == ASTER_ML_DTYPE_FLOAT32) return (double)((const float *)data)[i];
  if (dtype == ASTER_ML_DTYPE_INT32) return (double)((const int32_t *)data)[i];
  EXPECT(dtype == ASTER_ML_DTYPE_BOOL);
  return (double)((const unsigned char *)data)[i];
}

static void fetch(array *out, aster_ml_lazy *x) {
  static float data[sizeof out->data / sizeof out->data[0]];
  const size_t count = (size_t)aster_ml_lazy_count(x);
  const int32_t dtype = aster_ml_lazy_dtype(x);
  out->ndim = aster_ml_lazy_ndim(x);
  OK(aster_ml_lazy_shape(out->shape, out->ndim, x));
  OK(aster_ml_lazy_copy_out(data, count * (dtype == ASTER_ML_DTYPE_BOOL ? 1 : 4), x));
  for (size_t i = 0; i < count; i++) out->data[i] = element(dtype, data, i);
}

/* Whether the first elements of every axis of got are those of want. */
static int begins_with(const array *got, const array *want) {
  int64_t count = 1;
  if (got->ndim != want->ndim) return 0;
  for (size_t k = 0; k < want->ndim; k++) {
    if (got->shape[k] < want->shape[k]) return 0;
    count *= want->shape[k];
  }
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, at = 0, step = 1;
    for (size_t k = want->ndim; k-- > 0; rest /= want->shape[k], step *= got->shape[k])
      at += rest % want->shape[k] * step;
    if (!(fabs(got->data[at] - want->data[i]) <= 1e-4 * (1 + fabs(want->data[i])))) return 0;
  }
  return 1;
}

static inline void expect_array(const char *name, int64_t rows, const array *got, const array *want,
                                int exact) {
  int same = begins_with(got, want);
  for (size_t k = 0; exact && k < want->ndim; k++) same &= got->shape[k] == want->shape[k];
  if (same) return;
  fprintf(stderr, "%s of %d rows differs\n", name, (int)rows);
  expect_failures++;
}

/* What is tried: y of x, rows x WIDTH, and t, WIDTH x rows. */
typedef void (*build)(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t,
                      aster_ml_dim rows);

/* The same of tensors cut to so many rows. */
static void concrete(array *out, build f, int64_t rows) {
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, t = {0}, y = {0};
  OK(aster_ml_scope_begin(&scope, &context));
  part(&x, &base, number(rows), number(WIDTH));
  part(&t, &other, number(WIDTH), number(rows));
  f(&y, &x, &t, number(rows));
  fetch(out, &y);
  OK(aster_ml_scope_end(&scope));
}

/* What a program gives for a value, as the greatest sizes. */
static inline void run(array *out, const aster_ml_program *program, int64_t value) {
  aster_ml_tensor made = {0};
  OK(aster_ml_program_run_bound(program, NULL, &value, 1, NULL, 0, &made, 1));
  out->ndim = made.ndim;
  size_t count = 1;
  for (size_t k = 0; k < made.ndim; k++) {
    out->shape[k] = (int64_t)made.shape[k];
    count *= made.shape[k];
  }
  static float data[sizeof out->data / sizeof out->data[0]];
  OK(aster_ml_tensor_copy_out(data, &made, count));
  for (size_t i = 0; i < count; i++) out->data[i] = element(made.dtype, data, i);
  OK(aster_ml_tensor_free(&made));
}

/* On every device: f(the share of cases that are run, one of so many). Drivers take their time to
 * compile. */
static void on_devices(void (*f)(size_t every)) {
  static const int32_t devices[] = {ASTER_ML_DEVICE_CPU, ASTER_ML_DEVICE_REFERENCE,
                                    ASTER_ML_DEVICE_OPENCL};
  for (size_t i = 0; i < 3; i++) {
    if (i == 2 && aster_ml_device_is_available(devices[i]) == 0) continue;
    OK(aster_ml_context_init(&context, NULL));
    OK(aster_ml_engine_set_device(&context, devices[i]));
    OK(aster_ml_symbolic_init(&n, &context, "n", 1, MOST));
    fill(&base, MOST, WIDTH, 4);
    fill(&other, WIDTH, MOST, 5);
    f(i == 2 ? 9 : 1);
    OK(aster_ml_lazy_free(&base));
    OK(aster_ml_lazy_free(&other));
    OK(aster_ml_uop_release(&context, n));
    OK(aster_ml_context_free(&context));
  }
}

#endif
