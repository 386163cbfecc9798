/* Schedules as structs: what a realize ran, and a kernel that is called by hand. */
#include <aster_ml/aster_ml.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static aster_ml_context context;

static void test_items(void) {
  aster_ml_schedule schedule = {0};
  EXPECT(aster_ml_schedule_init(&schedule, &context) == ASTER_ML_NOT_FOUND);
  enum { COUNT = 1000 };
  float x_data[COUNT], y_data[COUNT], out[COUNT];
  for (int i = 0; i < COUNT; i++) x_data[i] = (float)i, y_data[i] = (float)(3 * i), out[i] = -1;
  const int64_t shape[] = {COUNT};
  aster_ml_lazy x = {0}, y = {0}, sum = {0}, root = {0};
  EXPECT(aster_ml_lazy_from(&x, &context, x_data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  EXPECT(aster_ml_lazy_from(&y, &context, y_data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  EXPECT(aster_ml_lazy_add(&sum, &x, &y) == 0);
  EXPECT(aster_ml_lazy_mul(&root, &sum, &x) == 0);
  aster_ml_lazy *const all[] = {&root};
  EXPECT(aster_ml_lazy_realize(all, 1) == 0);
  EXPECT(aster_ml_schedule_init(&schedule, &context) == 0);
  EXPECT(aster_ml_schedule_count(&schedule) == 1);
  aster_ml_schedule_item item = {.struct_size = sizeof item};
  EXPECT(aster_ml_schedule_at(&item, &schedule, 1) == ASTER_ML_RANGE);
  EXPECT(aster_ml_schedule_at(&item, &schedule, 0) == 0);
  EXPECT(item.operand_count == 3 && item.name[0] != 0 && item.tasks >= 1);
  EXPECT(item.operations >= 2 * COUNT && item.bytes == 3 * sizeof x_data);
  EXPECT(item.device == ASTER_ML_DEVICE_CPU && item.in_place == 0);
  EXPECT(item.kind != ASTER_ML_ITEM_KERNEL || item.function != NULL);
  EXPECT((item.sizes != NULL) == (item.size_count != 0) && strcmp(item.cut, "a result") == 0);
  EXPECT(item.groups[0] == 0 && item.locals[0] == 0); /* of devices */
  /* The tensors and all that the context has cached may go: the schedule keeps its code. */
  aster_ml_lazy_free(&x), aster_ml_lazy_free(&y), aster_ml_lazy_free(&sum);
  aster_ml_lazy_free(&root);
  EXPECT(aster_ml_engine_collect(&context) == 0);
  if (item.kind == ASTER_ML_ITEM_KERNEL) {
    void *operands[3] = {0};
    for (size_t i = 0; i < item.operand_count; i++) {
      const aster_ml_schedule_operand *operand = &item.operands[i];
      EXPECT(operand->count == COUNT && operand->dtype == ASTER_ML_DTYPE_FLOAT32);
      char *memory = operand->slot == ASTER_ML_SLOT_OUTPUT ? (char *)out
                     : operand->index == 0                 ? (char *)x_data
                                                           : (char *)y_data;
      operands[i] = memory + operand->shift;
    }
    void *scratch = item.scratch_bytes == 0 ? NULL : malloc(item.scratch_bytes);
    item.function(operands, item.sizes, scratch, 0, item.tasks);
    free(scratch);
    for (int i = 0; i < COUNT; i++) {
      /* (x + y) * x, or with x and y in each other's place. */
      EXPECT(out[i] == 4 * x_data[i] * x_data[i] || out[i] == 4 * x_data[i] * y_data[i]);
    }
  }
  EXPECT(aster_ml_schedule_free(&schedule) == 0);
  EXPECT(aster_ml_schedule_count(&schedule) == 0);
  EXPECT(aster_ml_schedule_at(&item, &schedule, 0) == ASTER_ML_ARGUMENT);
}

int main(void) {
  aster_ml_context_options options = {.struct_size = sizeof options, .threads = 1};
  EXPECT(aster_ml_context_init(&context, &options) == 0);
  test_items();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
