/* Schedules as structs: what a realize ran, and a kernel that is called by hand. */
#include <aster_ml/aster_ml.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static aster_ml_context context;

/* The text that the steps of codegen.h give of the first kernel of a tensor. */
static char *text_of(const aster_ml_lazy *x) {
  const aster_ml_lazy *const all[] = {x};
  const aster_ml_uop *kernel = NULL;
  size_t count = 0, length = 0;
  aster_ml_target target = {.struct_size = sizeof target};
  EXPECT(aster_ml_codegen_target(&target, &context, ASTER_ML_DEVICE_CPU) == 0);
  EXPECT(aster_ml_codegen_kernels(&kernel, &count, 1, &context, all, 1) == 0 && count == 1);
  EXPECT(aster_ml_codegen_lower(NULL, &length, 0, &context, kernel, &target, NULL) == 0);
  char *program = malloc(length + 1);
  EXPECT(aster_ml_codegen_lower(program, &length, length + 1, &context, kernel, &target, NULL) ==
         0);
  EXPECT(aster_ml_codegen_render(NULL, &length, 0, &context, program, &target) == 0);
  char *out = malloc(length + 1);
  EXPECT(aster_ml_codegen_render(out, &length, length + 1, &context, program, &target) == 0);
  free(program);
  EXPECT(aster_ml_uop_release(&context, kernel) == 0);
  return out;
}

static char *source_of(const aster_ml_schedule *schedule, size_t index) {
  size_t length = 0;
  EXPECT(aster_ml_schedule_source(NULL, &length, 0, schedule, index) == 0 && length > 100);
  char *out = malloc(length + 1);
  EXPECT(aster_ml_schedule_source(out, &length, length, schedule, index) == ASTER_ML_RANGE);
  EXPECT(out[0] == 0 && length == 0);
  EXPECT(aster_ml_schedule_source(NULL, &length, 0, schedule, index) == 0);
  EXPECT(aster_ml_schedule_source(out, &length, length + 1, schedule, index) == 0);
  EXPECT(strlen(out) == length);
  return out;
}

/* Sources are those of the steps from tensors to text; of writes in place, of views, of several
 * kernels in order; and none of what is no kernel. */
static void test_sources(void) {
  enum { N = 300 };
  float data[N];
  for (int i = 0; i < N; i++) data[i] = (float)i;
  const int64_t shape[] = {N}, axis[] = {0};
  aster_ml_schedule schedule = {0};
  aster_ml_schedule_item item = {.struct_size = sizeof item};
  aster_ml_lazy x = {0}, half = {0}, other = {0}, y = {0}, z = {0}, sum = {0}, stored = {0};
  EXPECT(aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  const int64_t begin[] = {0}, middle[] = {N / 2}, end[] = {N};
  EXPECT(aster_ml_lazy_shrink(&half, &x, 1, begin, middle) == 0);
  EXPECT(aster_ml_lazy_shrink(&other, &x, 1, middle, end) == 0);
  EXPECT(aster_ml_lazy_mul(&y, &half, &other) == 0);
  char *expected = text_of(&y);
  aster_ml_lazy *const first[] = {&y};
  EXPECT(aster_ml_lazy_realize(first, 1) == 0);
  EXPECT(aster_ml_schedule_init(&schedule, &context) == 0);
  EXPECT(aster_ml_schedule_at(&item, &schedule, 0) == 0);
  size_t length = 7;
  if (item.kind == ASTER_ML_ITEM_KERNEL) {
    aster_ml_lazy_free(&y);
    EXPECT(aster_ml_engine_collect(&context) == 0);
    char *source = source_of(&schedule, 0);
    EXPECT(strcmp(source, expected) == 0);
    free(source);
    /* Two kernels, the second of which writes in place. */
    EXPECT(aster_ml_lazy_sum(&sum, &x, 1, axis, 1) == 0);
    EXPECT(aster_ml_lazy_contiguous(&stored, &sum) == 0);
    EXPECT(aster_ml_lazy_div(&z, &x, &stored) == 0);
    EXPECT(aster_ml_lazy_assign(&x, &z) == 0);
    aster_ml_lazy *const second[] = {&x};
    EXPECT(aster_ml_lazy_realize(second, 1) == 0);
    aster_ml_schedule two = {0};
    EXPECT(aster_ml_schedule_init(&two, &context) == 0 && aster_ml_schedule_count(&two) == 2);
    char *sums = source_of(&two, 0), *writes = source_of(&two, 1);
    EXPECT(strcmp(sums, writes) != 0 && strstr(writes, " / ") != NULL);
    free(sums), free(writes);
    EXPECT(aster_ml_schedule_free(&two) == 0);
    EXPECT(aster_ml_schedule_source(NULL, &length, 0, &schedule, 1) == ASTER_ML_RANGE);
  } else {
    EXPECT(aster_ml_schedule_source(NULL, &length, 0, &schedule, 0) == ASTER_ML_NOT_FOUND);
  }
  EXPECT(aster_ml_schedule_source(NULL, &length, 0, NULL, 0) == ASTER_ML_ARGUMENT && length == 0);
  EXPECT(aster_ml_schedule_source(NULL, NULL, 0, &schedule, 0) != 0);
  EXPECT(aster_ml_schedule_free(&schedule) == 0);
  EXPECT(aster_ml_schedule_source(NULL, &length, 0, &schedule, 0) == ASTER_ML_ARGUMENT);
  aster_ml_lazy *const made[] = {&x, &half, &other, &y, &z, &sum, &stored};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) aster_ml_lazy_free(made[i]);
  free(expected);
}

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
  EXPECT(item.kind != ASTER_ML_ITEM_KERNEL || strcmp(item.algorithm, "generated") == 0);
  EXPECT(item.algorithm != NULL && item.is_exact == 0);
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
  test_sources();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
