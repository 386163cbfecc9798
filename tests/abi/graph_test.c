/* The graph from plain C: nodes of lazy tensors, lazy tensors of nodes, constants of any shape. */
#include <aster_ml/aster_ml.h>
#include <string.h>

#include "expect.h"

typedef const aster_ml_uop *node;

static aster_ml_context context;

static void make(aster_ml_lazy *out, size_t count, const float *data) {
  const int64_t shape[] = {(int64_t)count};
  EXPECT(aster_ml_lazy_from(out, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
}

static node build(const char *op, const node *sources, size_t count, const int64_t *arguments,
                  size_t argument_count) {
  node out = NULL;
  aster_ml_uop_options options = {.struct_size = sizeof options, .op = op};
  options.sources = sources;
  options.source_count = count;
  options.arguments = arguments;
  options.argument_count = argument_count;
  EXPECT(aster_ml_uop_init(&out, &context, &options) == 0);
  return out;
}

static void drop(node x) { EXPECT(aster_ml_uop_release(&context, x) == 0); }

/* exp(x) * w, summed, by nodes; its gradient; the same in a capture. */
static void test_there_and_back(void) {
  aster_ml_lazy x = {0}, y = {0}, slope = {0};
  const float data[] = {0, 1, 2}, weights[] = {1, 10, 100}, e[] = {1, 2.7182818F, 7.3890561F};
  const int64_t shape[] = {3}, axis[] = {0};
  node from = NULL, w = NULL;
  make(&x, 3, data);
  EXPECT(aster_ml_lazy_to_uop(&from, &x) == 0);
  EXPECT(strcmp(aster_ml_uop_op(from), "Buffer") == 0);
  EXPECT(aster_ml_uop_from_data(&w, &context, weights, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  const node exp = build("Exp", &from, 1, NULL, 0);
  const node product = build("Mul", (node[]){exp, w}, 2, NULL, 0);
  const node sum = build("Reduce:Add", &product, 1, axis, 1);
  EXPECT(aster_ml_lazy_from_uop(&y, &context, sum) == 0);
  EXPECT(aster_ml_lazy_ndim(&y) == 1 && aster_ml_lazy_dim(&y, 0) == 1);

  const aster_ml_lazy *const targets[] = {&x};
  aster_ml_gradient_options options = {.struct_size = sizeof options};
  aster_ml_lazy ones = {0};
  EXPECT(aster_ml_lazy_ones(&ones, &context, ASTER_ML_DTYPE_FLOAT32, 1, (int64_t[]){1}) == 0);
  options.seed = &ones;
  EXPECT(aster_ml_gradient(&slope, &y, targets, 1, &options) == 0);
  float got[3] = {0};
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &slope) == 0);
  for (int i = 0; i < 3; i++) EXPECT(got[i] - e[i] * weights[i] < 1e-3F);
  for (int i = 0; i < 3; i++) EXPECT(e[i] * weights[i] - got[i] < 1e-3F);
  double total = 0;
  EXPECT(aster_ml_lazy_to_double(&total, &y) == 0 && total > 767.08 && total < 767.1);
  /* What y names is its result now; the node is what it was. */
  node after = NULL;
  EXPECT(aster_ml_lazy_to_uop(&after, &y) == 0);
  EXPECT(strcmp(aster_ml_uop_op(after), "Buffer") == 0);
  EXPECT(strcmp(aster_ml_uop_op(sum), "Reduce:Add") == 0);

  drop(after), drop(sum), drop(product), drop(exp), drop(w), drop(from);
  aster_ml_lazy_free(&x), aster_ml_lazy_free(&y), aster_ml_lazy_free(&slope);
  aster_ml_lazy_free(&ones);
}

/* A step of nodes is recorded as any: replays read their input. */
static void test_capture(void) {
  aster_ml_lazy x = {0}, y = {0};
  aster_ml_program program = {0};
  const float first[] = {1, 2, 3, 4}, second[] = {5, 6, 7, 8};
  make(&x, 4, first);
  aster_ml_lazy *const inputs[] = {&x}, *const outputs[] = {&y};
  EXPECT(aster_ml_engine_capture_begin(&context, inputs, 1) == 0);
  node from = NULL;
  EXPECT(aster_ml_lazy_to_uop(&from, &x) == 0);
  const node twice = build("Add", (node[]){from, from}, 2, NULL, 0);
  EXPECT(aster_ml_lazy_from_uop(&y, &context, twice) == 0);
  EXPECT(aster_ml_engine_capture_end(&program, &context, outputs, 1) == 0);
  const size_t shape[] = {4};
  float got[4] = {0};
  aster_ml_tensor in = {0}, out = {0};
  aster_ml_buffer memory = {(void *)(uintptr_t)second, sizeof second, ASTER_ML_DTYPE_FLOAT32, 0};
  aster_ml_buffer room = {got, sizeof got, ASTER_ML_DTYPE_FLOAT32, 0};
  EXPECT(aster_ml_tensor_from_buffer(&in, &context, &memory, 0, 1, shape, NULL) == 0);
  EXPECT(aster_ml_tensor_from_buffer(&out, &context, &room, 0, 1, shape, NULL) == 0);
  EXPECT(aster_ml_program_run(&program, NULL, &in, 1, &out, 1) == 0);
  for (int i = 0; i < 4; i++) EXPECT(got[i] == 2 * second[i]);
  aster_ml_tensor_free(&in), aster_ml_tensor_free(&out);
  aster_ml_program_free(&program);
  drop(twice), drop(from);
  aster_ml_lazy_free(&x), aster_ml_lazy_free(&y);
}

/* A write that is built is done by realising it, each time; a constant is not written to. */
static void test_writes(void) {
  aster_ml_lazy x = {0}, y = {0}, again = {0};
  const float data[] = {1, 2};
  const int64_t shape[] = {2};
  make(&x, 2, data);
  node from = NULL, constant = NULL;
  EXPECT(aster_ml_lazy_to_uop(&from, &x) == 0);
  const node sum = build("Add", (node[]){from, from}, 2, NULL, 0);
  const node write = build("Assign", (node[]){from, sum}, 2, NULL, 0);
  float got[2] = {0};
  EXPECT(aster_ml_lazy_from_uop(&y, &context, write) == 0);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &y) == 0 && got[0] == 2 && got[1] == 4);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &x) == 0 && got[0] == 2 && got[1] == 4);
  EXPECT(aster_ml_lazy_from_uop(&again, &context, write) == 0);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &again) == 0 && got[0] == 4 && got[1] == 8);

  EXPECT(aster_ml_uop_from_data(&constant, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  const node refused = build("Assign", (node[]){constant, from}, 2, NULL, 0);
  aster_ml_lazy bad = {0};
  EXPECT(aster_ml_lazy_from_uop(&bad, &context, refused) == 0);
  aster_ml_lazy *const all[] = {&bad};
  EXPECT(aster_ml_lazy_realize(all, 1) == ASTER_ML_ARGUMENT); /* read-only memory */
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &x) == 0 && got[0] == 4 && got[1] == 8);
  aster_ml_lazy_free(&bad);
  const node nowhere = build("Assign", (node[]){sum, from}, 2, NULL, 0);
  EXPECT(aster_ml_lazy_from_uop(&bad, &context, nowhere) == ASTER_ML_ARGUMENT);
  drop(nowhere), drop(refused), drop(constant), drop(write), drop(sum), drop(from);
  aster_ml_lazy_free(&x), aster_ml_lazy_free(&y), aster_ml_lazy_free(&again);
}

static void test_bad_input(void) {
  aster_ml_lazy out = {0}, x = {0};
  node from = NULL, made = NULL;
  const float data[] = {1, 2};
  make(&x, 2, data);
  EXPECT(aster_ml_lazy_to_uop(NULL, &x) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_lazy_to_uop(&from, NULL) == ASTER_ML_ARGUMENT && from == NULL);
  EXPECT(aster_ml_lazy_to_uop(&from, &out) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_lazy_from_uop(&out, &context, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_lazy_to_uop(&from, &x) == 0);
  EXPECT(aster_ml_lazy_from_uop(NULL, &context, from) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_lazy_from_uop(&out, NULL, from) == ASTER_ML_ARGUMENT);
  aster_ml_context other = {0};
  EXPECT(aster_ml_context_init(&other, NULL) == 0);
  EXPECT(aster_ml_lazy_from_uop(&out, &other, from) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_context_free(&other) == 0);

  aster_ml_uop_options options = {.struct_size = sizeof options, .op = "Param"};
  options.dtype = ASTER_ML_DTYPE_FLOAT32;
  options.arguments = (int64_t[]){0};
  options.argument_count = 1;
  EXPECT(aster_ml_uop_init(&made, &context, &options) == 0);
  EXPECT(aster_ml_lazy_from_uop(&out, &context, made) == ASTER_ML_ARGUMENT);
  aster_ml_error error;
  EXPECT(aster_ml_error_last(&error) == 0 && strstr(error.message, "Param 0") != NULL);
  drop(made);
  options.op = "Range";
  options.arguments = (int64_t[]){0, 4};
  options.argument_count = 2;
  EXPECT(aster_ml_uop_init(&made, &context, &options) == 0);
  EXPECT(aster_ml_lazy_from_uop(&out, &context, made) == ASTER_ML_ARGUMENT);
  drop(made);
  made = build("Sink", &from, 1, NULL, 0);
  EXPECT(aster_ml_lazy_from_uop(&out, &context, made) == ASTER_ML_ARGUMENT);
  drop(made);
  made = build("Contiguous", &from, 1, (int64_t[]){77 << 16, 0}, 2);
  EXPECT(aster_ml_lazy_from_uop(&out, &context, made) == ASTER_ML_ARGUMENT);
  drop(made);
  options = (aster_ml_uop_options){.struct_size = sizeof options, .op = "Iota"};
  options.dtype = ASTER_ML_DTYPE_WEAKINT;
  options.shape = (int64_t[]){3};
  options.ndim = 1;
  EXPECT(aster_ml_uop_init(&made, &context, &options) == 0);
  EXPECT(aster_ml_lazy_from_uop(&out, &context, made) == ASTER_ML_DTYPE);
  drop(made);
  EXPECT(out.impl == NULL);

  const int64_t negative[] = {-1}, vast[] = {1 << 30, 1 << 30, 1 << 30};
  EXPECT(aster_ml_uop_from_data(&made, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, negative) ==
         ASTER_ML_RANGE);
  EXPECT(aster_ml_uop_from_data(&made, &context, data, ASTER_ML_DTYPE_FLOAT32, 3, vast) ==
         ASTER_ML_RANGE);
  EXPECT(aster_ml_uop_from_data(&made, &context, NULL, ASTER_ML_DTYPE_FLOAT32, 0, NULL) ==
         ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_uop_from_data(&made, &context, data, ASTER_ML_DTYPE_WEAKFLOAT, 0, NULL) ==
         ASTER_ML_DTYPE);
  EXPECT(made == NULL);
  const int64_t none[] = {0, 3};
  EXPECT(aster_ml_uop_from_data(&made, &context, NULL, ASTER_ML_DTYPE_INT8, 2, none) == 0);
  EXPECT(aster_ml_uop_dim_at(made, 1) == 3);
  drop(made), drop(from);
  aster_ml_lazy_free(&x);
}

/* Gradients that a parameter keeps: they add up, and a step leaves no graph behind. */
static void test_backward(void) {
  aster_ml_lazy x = {0}, square = {0}, loss = {0}, slope = {0}, again = {0};
  const float data[] = {1, -2, 3};
  float got[3] = {0};
  make(&x, 3, data);
  EXPECT(aster_ml_lazy_set_requires_grad(&x, 1) == 0 && aster_ml_lazy_requires_grad(&x) == 1);
  EXPECT(aster_ml_lazy_mul(&square, &x, &x) == 0);
  EXPECT(aster_ml_lazy_sum(&loss, &square, 0, NULL, 0) == 0);
  aster_ml_lazy_free(&square);
  EXPECT(aster_ml_lazy_backward(&loss, NULL) == 0);
  EXPECT(aster_ml_lazy_is_realized(&loss) == 1);
  EXPECT(aster_ml_lazy_backward(&loss, NULL) == ASTER_ML_STATE);
  EXPECT(aster_ml_lazy_grad(&slope, &x) == 0);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &slope) == 0);
  for (int i = 0; i < 3; i++) EXPECT(got[i] == 2 * data[i]);
  EXPECT(aster_ml_lazy_sum(&again, &x, 0, NULL, 0) == 0);
  EXPECT(aster_ml_lazy_backward(&again, NULL) == 0);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &slope) == 0);
  for (int i = 0; i < 3; i++) EXPECT(got[i] == 2 * data[i] + 1);
  EXPECT(aster_ml_lazy_reset_grad(&x) == 0);
  aster_ml_lazy_free(&slope);
  EXPECT(aster_ml_lazy_grad(&slope, &x) == ASTER_ML_NOT_FOUND);
  aster_ml_lazy_free(&x), aster_ml_lazy_free(&loss), aster_ml_lazy_free(&again);
}

/* A product by its axes, axes placed, and a norm. */
static void test_functional(void) {
  aster_ml_lazy a = {0}, y = {0}, wide = {0}, norm = {0};
  const float data[] = {1, 2, 3, 4};
  const int64_t shape[] = {2, 2}, first[] = {0}, places[] = {1, 2}, three[] = {3, 2, 2};
  float got[12] = {0};
  EXPECT(aster_ml_lazy_from(&a, &context, data, ASTER_ML_DTYPE_FLOAT32, 2, shape) == 0);
  EXPECT(aster_ml_lazy_dot_general(&y, &a, &a, 1, first, first, 0, NULL, NULL, 0, 0) == 0);
  EXPECT(aster_ml_lazy_copy_out(got, 16, &y) == 0); /* a^T a */
  EXPECT(got[0] == 10 && got[1] == 14 && got[2] == 14 && got[3] == 20);
  EXPECT(aster_ml_lazy_broadcast(&wide, &a, 3, three, 2, places) == 0);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &wide) == 0);
  for (int i = 0; i < 12; i++) EXPECT(got[i] == data[i % 4]);
  EXPECT(aster_ml_lazy_rms_norm(&norm, &a, 1, NULL, 0) == 0);
  EXPECT(aster_ml_lazy_copy_out(got, 16, &norm) == 0);
  EXPECT(got[0] > 0.632F && got[0] < 0.633F);
  aster_ml_lazy_free(&a), aster_ml_lazy_free(&y), aster_ml_lazy_free(&wide);
  aster_ml_lazy_free(&norm);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_there_and_back();
  test_capture();
  test_writes();
  test_bad_input();
  test_backward();
  test_functional();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
