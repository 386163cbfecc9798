/* Views as a C program sees them: strides in bytes, what the memory is, halves. */
#include <aster_ml/view.h>
#include <string.h>

#include "expect.h"

static aster_ml_context context;
static float data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static int released;

static void count_release(void *self, void *memory, size_t bytes) {
  (void)memory;
  *(int *)self += bytes == sizeof data;
}

static void look(aster_ml_buffer_view *out, size_t ndim, const size_t *shape,
                 const ptrdiff_t *strides, int32_t kind) {
  aster_ml_view_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.dtype = ASTER_ML_DTYPE_FLOAT32;
  options.kind = kind;
  options.data = data;
  options.ndim = ndim;
  options.shape = shape;
  options.strides = strides;
  options.release = count_release;
  options.self = &released;
  EXPECT(aster_ml_view_from_memory(out, &context, &options) == 0);
}

static void test_predicates(void) {
  const size_t shape[] = {3, 4};
  aster_ml_buffer_view view, turned;
  look(&view, 2, shape, NULL, ASTER_ML_MEMORY_PINNED);
  EXPECT(view.strides[0] == 16 && view.strides[1] == 4 && view.owner != NULL);
  EXPECT(aster_ml_view_is_contiguous(&view) == 1 && aster_ml_view_is_writable(&view) == 1);
  EXPECT(aster_ml_view_is_host(&view) == 1 && aster_ml_view_is_device(&view) == 0);
  EXPECT(aster_ml_view_is_pinned(&view) == 1 && aster_ml_view_is_shared(&view) == 1);
  EXPECT(aster_ml_view_count(&view) == 12);
  EXPECT(aster_ml_view_flip(&turned, &view, 1) == 0);
  EXPECT(aster_ml_view_is_contiguous(&turned) == 0 && aster_ml_view_is_pinned(&turned) == 1);
  EXPECT(aster_ml_view_free(&view) == 0 && released == 0);
  EXPECT(aster_ml_view_free(&turned) == 0 && released == 1);
  EXPECT(aster_ml_view_is_host(&turned) == 0 && aster_ml_view_is_host(NULL) == 0);
}

static void test_halves(void) {
  const size_t shape[] = {3, 4}, pairs[] = {11, 2};
  const ptrdiff_t windows[] = {4, 4};
  aster_ml_buffer_view view, low, high;
  aster_ml_tensor tensor;
  const float nines[] = {9, 9, 9, 9, 9, 9};
  released = 0;
  look(&view, 2, shape, NULL, ASTER_ML_MEMORY_NORMAL);
  EXPECT(aster_ml_view_split_at(&low, &high, &view, 1, 2) == 0);
  EXPECT(aster_ml_view_to_tensor(&tensor, &context, &high) == 0);
  EXPECT(aster_ml_tensor_copy_in(&tensor, nines, 6) == 0);
  EXPECT(data[1] == 1 && data[2] == 9 && data[5] == 5 && data[11] == 9);
  EXPECT(aster_ml_tensor_free(&tensor) == 0);
  EXPECT(aster_ml_view_free(&low) == 0 && aster_ml_view_free(&high) == 0);
  EXPECT(aster_ml_view_split_at(&low, &high, &view, 1, 5) == ASTER_ML_RANGE);
  EXPECT(low.shape == NULL && high.shape == NULL);
  EXPECT(aster_ml_view_free(&view) == 0 && released == 1);
  look(&view, 2, pairs, windows, ASTER_ML_MEMORY_NORMAL);
  EXPECT(aster_ml_view_split_at(&low, &high, &view, 0, 5) == ASTER_ML_SHAPE);
  EXPECT(aster_ml_view_free(&view) == 0 && released == 2);
}

static void test_parts(void) {
  aster_ml_buffer buffer, pinned;
  aster_ml_buffer_view view;
  const size_t shape[] = {2};
  const ptrdiff_t back[] = {-4};
  EXPECT(aster_ml_buffer_init(&buffer, &context, 48, ASTER_ML_DTYPE_FLOAT32, 0) == 0);
  EXPECT(aster_ml_view_from_buffer(&view, &context, &buffer, 8, 8, 1, shape, NULL) == 0);
  EXPECT(aster_ml_buffer_free(&buffer) == 0);
  memset((char *)view.memory.data + view.byte_offset, 0, 8);
  EXPECT(aster_ml_view_free(&view) == 0);
  EXPECT(aster_ml_buffer_init_kind(&pinned, &context, 48, ASTER_ML_DTYPE_FLOAT32, 0,
                                   ASTER_ML_MEMORY_PINNED) == ASTER_ML_UNSUPPORTED);
  EXPECT(aster_ml_buffer_init_kind(&buffer, &context, 48, ASTER_ML_DTYPE_FLOAT32, 0,
                                   ASTER_ML_MEMORY_NORMAL) == 0);
  EXPECT(aster_ml_view_from_buffer(&view, &context, &buffer, 8, 8, 1, shape, back) ==
         ASTER_ML_RANGE);
  EXPECT(aster_ml_buffer_free(&buffer) == 0);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_predicates();
  test_halves();
  test_parts();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
