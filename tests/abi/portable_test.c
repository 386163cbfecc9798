/* A step saved as a program, from plain C: into memory, as text, and back. */
#include <aster_ml/aster_ml.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static aster_ml_context context;

static aster_ml_tensor described(float *memory, size_t count) {
  aster_ml_tensor out = {0};
  const aster_ml_buffer buffer = {memory, count * sizeof(float), ASTER_ML_DTYPE_FLOAT32, 0};
  EXPECT(aster_ml_tensor_from_buffer(&out, &context, &buffer, 0, 1, &count, NULL) == 0);
  return out;
}

static void test_saved_and_loaded(uint32_t flags) {
  aster_ml_lazy x = {0}, w = {0}, y = {0}, z = {0};
  float data[] = {1, 2, 3}, weights[] = {10, 20, 30}, got[3] = {0};
  const int64_t shape[] = {3};
  EXPECT(aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  EXPECT(aster_ml_lazy_from(&w, &context, weights, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  EXPECT(aster_ml_lazy_mul(&y, &x, &w) == 0 && aster_ml_lazy_add(&z, &y, &x) == 0);
  aster_ml_lazy *const inputs[] = {&x}, *const outputs[] = {&z};
  const char *const names[] = {"x"};
  aster_ml_boundary step = {.struct_size = sizeof step};
  step.inputs = inputs, step.input_count = 1, step.input_names = names;
  step.outputs = outputs, step.output_count = 1;
  size_t length = 0;
  EXPECT(aster_ml_program_to_bytes(NULL, &length, 0, &context, &step, flags) == 0 && length != 0);
  const size_t size = length;
  char *bytes = malloc(size);
  EXPECT(aster_ml_program_to_bytes(bytes, &length, size - 1, &context, &step, flags) ==
         ASTER_ML_RANGE);
  EXPECT(length == 0);
  EXPECT(aster_ml_program_to_bytes(bytes, &length, size, &context, &step, flags) == 0);
  EXPECT(aster_ml_program_verify(&context, bytes, length) == 0);
  EXPECT(aster_ml_program_verify(&context, bytes, length / 2) == ASTER_ML_FORMAT);
  aster_ml_program program = {0};
  EXPECT(aster_ml_program_from_bytes(&program, &context, bytes, length) == 0);
  memset(bytes, 0, length); /* they were copied */
  free(bytes);
  aster_ml_program_array array = {.struct_size = sizeof array};
  EXPECT(aster_ml_program_get_array(&array, &program, ASTER_ML_PROGRAM_INPUTS, 0) == 0);
  EXPECT(strcmp(array.name, "x") == 0);
  float other[] = {-1, 0, 2};
  aster_ml_tensor in = described(other, 3), out = described(got, 3);
  EXPECT(aster_ml_program_run(&program, NULL, &in, 1, &out, 1) == 0);
  for (int i = 0; i < 3; i++) EXPECT(got[i] == other[i] * weights[i] + other[i]);
  aster_ml_tensor_free(&in), aster_ml_tensor_free(&out);
  EXPECT(aster_ml_program_free(&program) == 0);
  aster_ml_lazy_free(&x), aster_ml_lazy_free(&w), aster_ml_lazy_free(&y), aster_ml_lazy_free(&z);
}

/* A captured step that assigns, saved without having run: with its state, and with that as input.
 */
static void test_captured(void) {
  aster_ml_lazy x = {0}, w = {0}, sum = {0};
  float data[] = {1, 2, 3}, weights[] = {10, 20, 30}, got[3] = {0}, state[] = {1, 1, 1};
  const int64_t shape[] = {3};
  EXPECT(aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  EXPECT(aster_ml_lazy_from(&w, &context, weights, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  aster_ml_lazy *const all[] = {&x, &w};
  EXPECT(aster_ml_lazy_realize(all, 2) == 0);
  aster_ml_lazy *const inputs[] = {&x}, *const written[] = {&w};
  aster_ml_program program = {0}, own = {0}, given = {0};
  EXPECT(aster_ml_engine_capture_dry(&context) == ASTER_ML_STATE);
  EXPECT(aster_ml_engine_capture_begin(&context, inputs, 1) == 0);
  EXPECT(aster_ml_engine_capture_dry(&context) == 0);
  EXPECT(aster_ml_lazy_add(&sum, &w, &x) == 0 && aster_ml_lazy_assign(&w, &sum) == 0);
  EXPECT(aster_ml_lazy_realize(written, 1) == 0);
  EXPECT(aster_ml_engine_capture_end(&program, &context, written, 1) == 0);
  size_t length = 0;
  char bytes[4096];
  EXPECT(aster_ml_program_captured_to_bytes(NULL, &length, 0, &program, 0) == 0);
  EXPECT(length != 0 && length <= sizeof bytes);
  EXPECT(aster_ml_program_captured_to_bytes(bytes, &length, length - 1, &program, 0) ==
         ASTER_ML_RANGE);
  EXPECT(aster_ml_program_captured_to_bytes(bytes, NULL, 0, &program, 0) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_program_captured_to_bytes(bytes, &length, sizeof bytes, &program, 0) == 0);
  EXPECT(aster_ml_program_from_bytes(&own, &context, bytes, length) == 0);
  EXPECT(aster_ml_program_captured_to_bytes(bytes, &length, sizeof bytes, &program,
                                            ASTER_ML_PROGRAM_STATE_INPUTS) == 0);
  EXPECT(aster_ml_program_from_bytes(&given, &context, bytes, length) == 0);
  aster_ml_tensor in[2] = {described(data, 3), described(state, 3)}, out = described(got, 3);
  EXPECT(aster_ml_program_run(&own, NULL, in, 1, &out, 1) == 0);
  for (int i = 0; i < 3; i++) EXPECT(got[i] == weights[i] + data[i]);
  EXPECT(aster_ml_program_run(&own, NULL, in, 1, &out, 1) == 0);
  for (int i = 0; i < 3; i++) EXPECT(got[i] == weights[i] + 2 * data[i]);
  EXPECT(aster_ml_program_run(&given, NULL, in, 2, &out, 1) == 0);
  for (int i = 0; i < 3; i++) EXPECT(state[i] == 1 + data[i] && got[i] == state[i]);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &w) == 0); /* nothing ran that was captured */
  for (int i = 0; i < 3; i++) EXPECT(got[i] == weights[i]);
  EXPECT(aster_ml_program_save_captured(NULL, &program, 0) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_program_save_captured("none", NULL, 0) == ASTER_ML_ARGUMENT);
  aster_ml_tensor_free(&in[0]), aster_ml_tensor_free(&in[1]), aster_ml_tensor_free(&out);
  aster_ml_program_free(&program), aster_ml_program_free(&own), aster_ml_program_free(&given);
  EXPECT(aster_ml_program_save_captured("none", &program, 0) == ASTER_ML_ARGUMENT);
  aster_ml_lazy_free(&x), aster_ml_lazy_free(&w), aster_ml_lazy_free(&sum);
}

/* What an operation would give. */
static void test_plan(void) {
  const int64_t a[] = {4, 8}, b[] = {8, 2};
  const aster_ml_op_operand operands[] = {{ASTER_ML_DTYPE_FLOAT32, 2, a},
                                          {ASTER_ML_DTYPE_FLOAT32, 2, b}};
  aster_ml_op_costs costs = {.struct_size = sizeof costs};
  EXPECT(aster_ml_op_plan(&costs, &context, "matmul", operands, 2, NULL, 0) == 0);
  EXPECT(costs.result_count == 1 && costs.results[0].ndim == 2);
  EXPECT(costs.results[0].shape[0] == 4 && costs.results[0].shape[1] == 2);
  EXPECT(costs.operations == 2 * 4 * 8 * 2 && costs.bytes == 4 * (32 + 16 + 8));
  EXPECT(aster_ml_op_plan(&costs, &context, "matmul", operands, 1, NULL, 0) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_op_plan(&costs, &context, "mat", operands, 2, NULL, 0) == ASTER_ML_NOT_FOUND);
  EXPECT(aster_ml_op_name(0) != NULL && aster_ml_op_name(100000) == NULL);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_saved_and_loaded(0);
  test_saved_and_loaded(ASTER_ML_PROGRAM_TEXT);
  test_captured();
  test_plan();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
