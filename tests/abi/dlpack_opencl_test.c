/* DLPack between our memory on OPENCL and somebody else's OpenCL code: what goes out and comes in
 * is a cl_mem. */
#include <aster_ml/aster_ml.h>

#include "opencl.h"
#include "status.h"

static aster_ml_context context;
static aster_ml_opencl handles = {.struct_size = sizeof handles};
enum { kCount = 24, kOpencl = ASTER_ML_DEVICE_OPENCL };

/* What is used of OpenCL, by its specification. */
static struct {
  void *(*create_buffer)(void *context, uint64_t flags, size_t bytes, void *, int32_t *error);
  int32_t (*read)(void *queue, void *memory, uint32_t wait, size_t offset, size_t bytes, void *to,
                  uint32_t, void *const *, void **);
  int32_t (*write)(void *queue, void *memory, uint32_t wait, size_t offset, size_t bytes,
                   const void *from, uint32_t, void *const *, void **);
  int32_t (*info)(void *memory, uint32_t what, size_t, void *, size_t *);
  int32_t (*release)(void *memory);
  void *(*create_context)(const intptr_t *, uint32_t, void *const *devices, void *, void *,
                          int32_t *error);
  int32_t (*release_context)(void *context);
} cl;
static const char *const kNames[] = {
    "clCreateBuffer",     "clEnqueueReadBuffer", "clEnqueueWriteBuffer", "clGetMemObjectInfo",
    "clReleaseMemObject", "clCreateContext",     "clReleaseContext"};

static uint32_t references_of(void *memory) {
  uint32_t count = 0;
  EXPECT(cl.info(memory, 0x1105, sizeof count, &count, NULL) == 0);
  return count;
}

static int deleted;
static void delete_theirs(aster_ml_dlpack_managed *self) {
  EXPECT(cl.release(self->tensor.data) == 0);
  deleted++;
}

static int64_t axes[2] = {2, 4}, steps[2] = {8, 1};
static aster_ml_dlpack_managed theirs(void *memory) {
  aster_ml_dlpack_managed managed = {.version_major = 1, .deleter = delete_theirs};
  managed.tensor.data = memory;
  managed.tensor.device.type = ASTER_ML_DLPACK_OPENCL;
  managed.tensor.ndim = 2;
  managed.tensor.dtype = (aster_ml_dlpack_dtype){2, 32, 1};
  managed.tensor.shape = axes;
  managed.tensor.strides = steps;
  managed.tensor.byte_offset = 16;
  return managed;
}

/* x + 1 at the places of a tensor, written there. */
static void add_one(aster_ml_tensor *tensor) {
  aster_ml_lazy x, one, y;
  SUCCEEDS(aster_ml_lazy_from_tensor(&x, &context, tensor));
  SUCCEEDS(aster_ml_lazy_number(&one, &context, 1));
  SUCCEEDS(aster_ml_lazy_add(&y, &x, &one));
  SUCCEEDS(aster_ml_lazy_assign(&x, &y));
  aster_ml_lazy *all[] = {&x, &one, &y};
  SUCCEEDS(aster_ml_lazy_realize(all, 1));
  for (int i = 0; i < 3; i++) SUCCEEDS(aster_ml_lazy_free(all[i]));
}

/* Their queue reads and writes what we allocated, and keep it alive when we have let go. */
static void test_export(void) {
  float values[kCount], read[kCount] = {0};
  const size_t shape[2] = {3, 8};
  for (int i = 0; i < kCount; i++) values[i] = (float)i;
  aster_ml_buffer buffer;
  aster_ml_tensor whole, row;
  SUCCEEDS(aster_ml_buffer_init(&buffer, &context, sizeof values, ASTER_ML_DTYPE_FLOAT32, kOpencl));
  SUCCEEDS(aster_ml_buffer_copy_in(&buffer, 0, values, sizeof values));
  SUCCEEDS(aster_ml_tensor_from_buffer(&whole, &context, &buffer, 0, 2, shape, NULL));
  row = whole;
  row.byte_offset = 8 * sizeof(float);
  row.shape = (size_t[]){2, 8};
  aster_ml_dlpack_managed *managed = NULL;
  SUCCEEDS(aster_ml_dlpack_export(&managed, &context, &row, 0));
  if (managed == NULL) return;
  void *memory = NULL;
  size_t offset = 0;
  SUCCEEDS(aster_ml_queue_opencl_memory(&memory, &offset, &row));
  EXPECT(managed->tensor.device.type == ASTER_ML_DLPACK_OPENCL && managed->tensor.device.id == 0);
  EXPECT(managed->tensor.data == memory && managed->tensor.byte_offset == offset);
  if (managed->tensor.data != memory) return;
  SUCCEEDS(aster_ml_tensor_free(&whole));
  SUCCEEDS(aster_ml_buffer_free(&buffer));
  EXPECT(cl.read(handles.queue, managed->tensor.data, 1, managed->tensor.byte_offset,
                 8 * sizeof(float), read, 0, NULL, NULL) == 0);
  EXPECT(memcmp(read, values + 8, 8 * sizeof(float)) == 0);

  /* It comes back as the memory that it is: what is written by one name is seen by the other. */
  aster_ml_tensor back;
  managed->tensor.strides = NULL;
  const float hundred = 100;
  SUCCEEDS(aster_ml_dlpack_import(&back, &context, managed));
  EXPECT(cl.write(handles.queue, memory, 1, offset, sizeof hundred, &hundred, 0, NULL, NULL) == 0);
  add_one(&back);
  EXPECT(cl.read(handles.queue, memory, 1, 0, sizeof read, read, 0, NULL, NULL) == 0);
  EXPECT(read[7] == 7 && read[8] == 101 && read[9] == 10 && read[23] == 24);
  SUCCEEDS(aster_ml_tensor_free(&back));
}

/* We compute in what they allocated, and give it back once. */
static void test_import(void) {
  float values[kCount], read[kCount] = {0};
  int32_t error = 0;
  for (int i = 0; i < kCount; i++) values[i] = (float)i;
  void *memory = cl.create_buffer(handles.context, 1 | 32, sizeof values, values, &error);
  EXPECT(error == 0);
  aster_ml_dlpack_managed managed = theirs(memory);
  aster_ml_tensor tensor, again;
  deleted = 0;
  SUCCEEDS(aster_ml_dlpack_import(&tensor, &context, &managed));
  EXPECT(aster_ml_dlpack_import(&again, &context, &managed) == ASTER_ML_STATE);
  EXPECT(references_of(memory) == 2);
  add_one(&tensor);
  EXPECT(cl.read(handles.queue, memory, 1, 0, sizeof read, read, 0, NULL, NULL) == 0);
  for (int i = 0; i < kCount; i++) {
    const int inside = i >= 4 && i < 16 && (i - 4) % 8 < 4;
    EXPECT(read[i] == (float)(i + inside));
  }
  void *ours = NULL;
  size_t offset = 0;
  SUCCEEDS(aster_ml_queue_opencl_memory(&ours, &offset, &tensor));
  EXPECT(ours == memory && offset == 16);

  /* A second managed tensor of the same memory. */
  aster_ml_dlpack_managed *second = NULL;
  SUCCEEDS(aster_ml_dlpack_export(&second, &context, &tensor, 0));
  SUCCEEDS(aster_ml_dlpack_import(&again, &context, second));
  EXPECT(again.storage.data == tensor.storage.data);
  SUCCEEDS(aster_ml_tensor_free(&tensor));
  EXPECT(deleted == 0);
  float row[8];
  SUCCEEDS(aster_ml_tensor_copy_out(row, &again, 8));
  EXPECT(row[0] == 5 && row[7] == 16);
  SUCCEEDS(aster_ml_tensor_free(&again));
  EXPECT(deleted == 1);
}

/* What cannot be used is refused, and stays the caller's. */
static void test_bad_input(void) {
  int32_t error = 0;
  aster_ml_tensor tensor;
  deleted = 0;
  void *memory = cl.create_buffer(handles.context, 1, 63, NULL, &error);
  aster_ml_dlpack_managed managed = theirs(memory);
  FAILS(aster_ml_dlpack_import(&tensor, &context, &managed), ASTER_ML_RANGE,
        "64 bytes in a cl_mem of 63 bytes");
  managed.tensor.device.id = 999;
  EXPECT(aster_ml_dlpack_import(&tensor, &context, &managed) == ASTER_ML_ARGUMENT);
  managed.tensor.device.id = 0;
  managed.tensor.data = NULL;
  EXPECT(aster_ml_dlpack_import(&tensor, &context, &managed) == ASTER_ML_ARGUMENT);
  EXPECT(references_of(memory) == 1 && cl.release(memory) == 0);

  void *elsewhere = cl.create_context(NULL, 1, &handles.device, NULL, NULL, &error);
  EXPECT(error == 0);
  memory = cl.create_buffer(elsewhere, 1, 64, NULL, &error);
  EXPECT(error == 0);
  managed = theirs(memory);
  FAILS(aster_ml_dlpack_import(&tensor, &context, &managed), ASTER_ML_UNSUPPORTED,
        "another cl_context");
  EXPECT(deleted == 0 && tensor.storage.data == NULL);
  EXPECT(cl.release(memory) == 0 && cl.release_context(elsewhere) == 0);
}

int main(void) {
  if (!aster_ml_device_is_available(kOpencl)) return 77;
  if (!open_opencl(&cl, kNames, sizeof kNames / sizeof *kNames)) return 77;
  SUCCEEDS(aster_ml_context_init(&context, NULL));
  SUCCEEDS(aster_ml_queue_opencl(&handles, kOpencl));
  if (expect_failures == 0) test_export();
  if (expect_failures == 0) test_import();
  if (expect_failures == 0) test_bad_input();
  SUCCEEDS(aster_ml_context_free(&context));
  return expect_failures;
}
