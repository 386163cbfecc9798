/* Freeing: every *_free and *_end zeroes what it is given, a copy of what was freed before too. */
#include <aster_ml/aster_ml.h>
#include <string.h>

#include "expect.h"

static aster_ml_context context;

static int is_zero(const void *object, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (((const char *)object)[i] != 0) return 0;
  return 1;
}

/* Frees an object and a copy of it, then the zeroed structs, and null. */
#define FREED(type, object, free_it, second)     \
  do {                                           \
    type copy = (object);                        \
    EXPECT(!is_zero(&(object), sizeof(object))); \
    EXPECT(free_it(&(object)) == ASTER_ML_OK);   \
    EXPECT(is_zero(&(object), sizeof(object)));  \
    EXPECT(free_it(&copy) == (second));          \
    EXPECT(is_zero(&copy, sizeof(copy)));        \
    EXPECT(free_it(&copy) == ASTER_ML_OK);       \
    EXPECT(free_it(NULL) == ASTER_ML_OK);        \
  } while (0)

/* Their copies are told by the address, which is known to be free. */
static void test_memory(void) {
  const size_t shape[] = {2, 3};
  aster_ml_buffer buffer, base;
  aster_ml_buffer_view view;
  aster_ml_tensor tensor;
  EXPECT(aster_ml_buffer_init(&buffer, &context, 64, ASTER_ML_DTYPE_UINT8, 0) == 0);
  FREED(aster_ml_buffer, buffer, aster_ml_buffer_free, ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_buffer_init(&base, &context, 64, ASTER_ML_DTYPE_UINT8, 0) == 0);
  EXPECT(aster_ml_view_from_buffer(&view, &context, &base, 0, 32, 0, NULL, NULL) == 0);
  EXPECT(aster_ml_buffer_free(&base) == 0);
  FREED(aster_ml_buffer_view, view, aster_ml_view_free, ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_tensor_init(&tensor, &context, ASTER_ML_DTYPE_FLOAT32, 0, 2, shape) == 0);
  FREED(aster_ml_tensor, tensor, aster_ml_tensor_free, ASTER_ML_ARGUMENT);
}

/* Handles know that they were freed. */
static void test_handles(void) {
  const float data[] = {1, 2};
  const int64_t shape[] = {2};
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, y = {0};
  aster_ml_program program = {0};
  aster_ml_workspace workspace = {0};
  EXPECT(aster_ml_scope_begin(&scope, &context) == 0);
  EXPECT(aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  aster_ml_lazy *const inputs[] = {&x}, *const outputs[] = {&y};
  EXPECT(aster_ml_engine_capture_begin(&context, inputs, 1) == 0);
  EXPECT(aster_ml_lazy_neg(&y, &x) == 0);
  EXPECT(aster_ml_engine_capture_end(&program, &context, outputs, 1) == 0);
  EXPECT(aster_ml_workspace_init(&workspace, &program) == 0);
  FREED(aster_ml_program, program, aster_ml_program_free, ASTER_ML_OK);
  FREED(aster_ml_workspace, workspace, aster_ml_workspace_free, ASTER_ML_OK);
  FREED(aster_ml_lazy, y, aster_ml_lazy_free, ASTER_ML_OK);
  FREED(aster_ml_scope, scope, aster_ml_scope_end, ASTER_ML_OK);
}

static void test_models(void) {
  aster_ml_layer layer = {0};
  aster_ml_state state = {0};
  aster_ml_optimizer optimizer = {0};
  EXPECT(aster_ml_linear_init(&layer, &context, 2, 3, 1) == 0);
  EXPECT(aster_ml_state_init(&state, &context) == 0);
  EXPECT(aster_ml_state_set_layer(&state, "fc", &layer) == 0);
  EXPECT(aster_ml_sgd_init(&optimizer, &state, NULL) == 0);
  FREED(aster_ml_optimizer, optimizer, aster_ml_optimizer_free, ASTER_ML_OK);
  FREED(aster_ml_state, state, aster_ml_state_free, ASTER_ML_OK);
  FREED(aster_ml_layer, layer, aster_ml_layer_free, ASTER_ML_OK);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_memory();
  test_handles();
  test_models();
  FREED(aster_ml_context, context, aster_ml_context_free, ASTER_ML_OK);
  return expect_failures;
}
