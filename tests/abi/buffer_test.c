/* Memory as a C program sees it: own, wrapped, sliced, and on a device of its own. */
#include <aster_ml/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static aster_ml_context context;

static void test_own_memory(void) {
  aster_ml_buffer buffer;
  const int32_t in[4] = {1, 2, 3, 4};
  int32_t out[4] = {0};
  EXPECT(aster_ml_buffer_init(&buffer, &context, sizeof in, ASTER_ML_DTYPE_INT32, 0) == 0);
  EXPECT(buffer.bytes == sizeof in && buffer.dtype == ASTER_ML_DTYPE_INT32);
  EXPECT((uintptr_t)buffer.data % 64 == 0);
  EXPECT(aster_ml_buffer_copy_in(&buffer, 0, in, sizeof in) == 0);
  EXPECT(aster_ml_buffer_copy_out(out, &buffer, 4, 12) == 0);
  EXPECT(out[0] == 2 && out[1] == 3 && out[2] == 4 && out[3] == 0);
  EXPECT(aster_ml_buffer_copy_out(out, &buffer, 8, 12) == ASTER_ML_RANGE);

  aster_ml_buffer copy = buffer; /* a second name for the same memory */
  EXPECT(aster_ml_buffer_free(&buffer) == 0);
  EXPECT(buffer.data == NULL && buffer.bytes == 0);
  EXPECT(aster_ml_buffer_free(&buffer) == 0);
  EXPECT(aster_ml_buffer_free(&copy) == ASTER_ML_ARGUMENT);
}

static void count_release(void *self, void *data, size_t bytes) {
  (void)data;
  *(size_t *)self += bytes;
}

static void test_foreign_memory(void) {
  size_t released = 0;
  float data[6] = {0, 1, 2, 3, 4, 5};
  aster_ml_buffer buffer;
  EXPECT(aster_ml_buffer_from_memory(&buffer, &context, data, sizeof data, ASTER_ML_DTYPE_FLOAT32,
                                     0, 1, count_release, &released) == 0);
  EXPECT(buffer.data == data);
  EXPECT(aster_ml_buffer_is_read_only(&buffer) == 1);
  EXPECT(aster_ml_buffer_copy_in(&buffer, 0, data, 4) == ASTER_ML_ARGUMENT);

  /* The transpose of a 2x3 matrix, in place. */
  aster_ml_tensor tensor;
  const size_t shape[] = {3, 2};
  const ptrdiff_t strides[] = {1, 3};
  EXPECT(aster_ml_tensor_from_buffer(&tensor, &context, &buffer, 0, 2, shape, strides) == 0);
  EXPECT(aster_ml_tensor_count(&tensor) == 6 && !aster_ml_tensor_is_contiguous(&tensor));
  float rows[6];
  const float transposed[6] = {0, 3, 1, 4, 2, 5};
  EXPECT(aster_ml_tensor_copy_out(rows, &tensor, 6) == 0);
  EXPECT(memcmp(rows, transposed, sizeof rows) == 0);

  EXPECT(aster_ml_buffer_free(&buffer) == 0);
  EXPECT(released == 0); /* the tensor keeps it */
  EXPECT(aster_ml_tensor_free(&tensor) == 0);
  EXPECT(released == sizeof data);
}

static void test_bounds(void) {
  aster_ml_tensor tensor;
  const size_t huge[] = {SIZE_MAX / 2, 3}, small[] = {2, 2};
  memset(&tensor, 0xff, sizeof tensor);
  EXPECT(aster_ml_tensor_init(&tensor, &context, ASTER_ML_DTYPE_FLOAT32, 0, 2, huge) ==
         ASTER_ML_RANGE);
  EXPECT(tensor.storage.data == NULL && tensor.shape == NULL && tensor.ndim == 0);
  aster_ml_buffer buffer;
  EXPECT(aster_ml_buffer_init(&buffer, &context, 16, ASTER_ML_DTYPE_FLOAT32, 0) == 0);
  EXPECT(aster_ml_tensor_from_buffer(&tensor, &context, &buffer, 4, 2, small, NULL) ==
         ASTER_ML_RANGE);
  EXPECT(aster_ml_buffer_free(&buffer) == 0);
}

/* A device of this program: memory that only its functions know. */
static int32_t own_allocate(void *self, void **out, int32_t index, size_t bytes) {
  (void)self, (void)index;
  *out = malloc(bytes > 0 ? bytes : 1);
  return *out != NULL ? ASTER_ML_OK : ASTER_ML_MEMORY;
}
static void own_release(void *self, int32_t index, void *data, size_t bytes) {
  (void)self, (void)index, (void)bytes;
  free(data);
}
static int32_t own_copy_in(void *self, int32_t index, void *data, size_t offset, const void *host,
                           size_t bytes) {
  (void)self, (void)index;
  memcpy((char *)data + offset, host, bytes);
  return ASTER_ML_OK;
}
static int32_t own_copy_out(void *self, int32_t index, void *host, const void *data, size_t offset,
                            size_t bytes) {
  (void)self, (void)index;
  memcpy(host, (const char *)data + offset, bytes);
  return ASTER_ML_OK;
}

static void test_own_device(void) {
  aster_ml_backend backend = {0};
  int32_t device = 0, again = 0;
  backend.struct_size = sizeof backend;
  EXPECT(aster_ml_device_register(&device, "MINE", &backend) == ASTER_ML_ARGUMENT);
  EXPECT(device == 0);
  backend.allocate = own_allocate;
  backend.release = own_release;
  backend.copy_in = own_copy_in;
  backend.copy_out = own_copy_out;
  EXPECT(aster_ml_device_register(&device, "MINE", &backend) == 0);
  EXPECT(aster_ml_device_from_name(&again, "mine") == 0 && again == device);
  EXPECT(aster_ml_device_is_available(device) == 1);

  aster_ml_buffer there, here;
  const char text[8] = "seven..";
  EXPECT(aster_ml_buffer_init(&there, &context, 8, ASTER_ML_DTYPE_UINT8, device) == 0);
  EXPECT(aster_ml_buffer_init(&here, &context, 8, ASTER_ML_DTYPE_UINT8, 0) == 0);
  EXPECT(aster_ml_buffer_copy_in(&there, 0, text, 8) == 0);
  EXPECT(aster_ml_buffer_copy(&here, 0, &there, 0, 8) == 0);
  EXPECT(memcmp(here.data, text, 8) == 0);
  EXPECT(aster_ml_buffer_free(&there) == 0);
  EXPECT(aster_ml_buffer_free(&here) == 0);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_own_memory();
  test_foreign_memory();
  test_bounds();
  test_own_device();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
