/* DLPack as a C program uses it: memory goes out, comes in and is given back once. */
#include <aster_ml/dlpack.h>
#include <string.h>

#include "expect.h"

/* The layouts of dlpack.h 1.1 for pointers of 8 bytes. */
#define FIELD(type, field, offset) \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field);
FIELD(aster_ml_dlpack_tensor, data, 0)
FIELD(aster_ml_dlpack_tensor, device, 8)
FIELD(aster_ml_dlpack_tensor, ndim, 16)
FIELD(aster_ml_dlpack_tensor, dtype, 20)
FIELD(aster_ml_dlpack_tensor, shape, 24)
FIELD(aster_ml_dlpack_tensor, strides, 32)
FIELD(aster_ml_dlpack_tensor, byte_offset, 40)
_Static_assert(sizeof(aster_ml_dlpack_tensor) == 48, "DLTensor");
FIELD(aster_ml_dlpack_dtype, bits, 1)
FIELD(aster_ml_dlpack_dtype, lanes, 2)
FIELD(aster_ml_dlpack_legacy, tensor, 0)
FIELD(aster_ml_dlpack_legacy, manager, 48)
FIELD(aster_ml_dlpack_legacy, deleter, 56)
_Static_assert(sizeof(aster_ml_dlpack_legacy) == 64, "DLManagedTensor");
FIELD(aster_ml_dlpack_managed, version_minor, 4)
FIELD(aster_ml_dlpack_managed, manager, 8)
FIELD(aster_ml_dlpack_managed, deleter, 16)
FIELD(aster_ml_dlpack_managed, flags, 24)
FIELD(aster_ml_dlpack_managed, tensor, 32)
_Static_assert(sizeof(aster_ml_dlpack_managed) == 80, "DLManagedTensorVersioned");

static aster_ml_context context;
static int deleted;

static void count(aster_ml_dlpack_managed *self) {
  (void)self;
  deleted++;
}

static void test_import(void) {
  float memory[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {3, 2}, strides[2] = {1, 3};
  aster_ml_dlpack_managed managed = {0};
  managed.version_major = 1;
  managed.deleter = count;
  managed.tensor.data = memory;
  managed.tensor.device.type = ASTER_ML_DLPACK_CPU;
  managed.tensor.ndim = 2;
  managed.tensor.dtype.code = 2;
  managed.tensor.dtype.bits = 32;
  managed.tensor.dtype.lanes = 1;
  managed.tensor.shape = shape;
  managed.tensor.strides = strides;
  aster_ml_tensor tensor;
  EXPECT(aster_ml_dlpack_import(&tensor, &context, &managed) == 0);
  float rows[6];
  const float transposed[6] = {0, 3, 1, 4, 2, 5};
  EXPECT(aster_ml_tensor_copy_out(rows, &tensor, 6) == 0);
  EXPECT(memcmp(rows, transposed, sizeof rows) == 0);
  EXPECT(deleted == 0);
  EXPECT(aster_ml_tensor_free(&tensor) == 0);
  EXPECT(deleted == 1);

  managed.tensor.device.type = 10;
  EXPECT(aster_ml_dlpack_import(&tensor, &context, &managed) == ASTER_ML_UNSUPPORTED);
  EXPECT(deleted == 1 && tensor.storage.data == NULL);
}

static void test_export(void) {
  const float data[4] = {1, 2, 3, 4};
  const size_t shape[2] = {2, 2};
  aster_ml_tensor tensor;
  aster_ml_dlpack_legacy *legacy;
  EXPECT(aster_ml_tensor_from_data(&tensor, &context, data, ASTER_ML_DTYPE_FLOAT32, 2, shape) == 0);
  EXPECT(aster_ml_dlpack_export_legacy(&legacy, &context, &tensor) == 0);
  EXPECT(aster_ml_tensor_free(&tensor) == 0);
  EXPECT(legacy->tensor.ndim == 2 && legacy->tensor.strides[0] == 2);
  EXPECT(memcmp(legacy->tensor.data, data, sizeof data) == 0); /* it is kept */
  legacy->deleter(legacy);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_import();
  test_export();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
