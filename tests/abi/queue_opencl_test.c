/* A caller's own OpenCL code beside ours on the machine's device: handles, memory, and events of
 * either side that the other waits for. */
#include <aster_ml/aster_ml.h>
#include "capture.h"
#include "opencl.h"
#include "status.h"

static aster_ml_context context;
enum { kCount = 1000, kRounds = 20, kOpencl = ASTER_ML_DEVICE_OPENCL };
static const char *const kSource =
    "__kernel void twice(__global const float *x, ulong from, __global float *y) {"
    "  y[get_global_id(0)] = 2 * x[from / 4 + get_global_id(0)];"
    "}";

/* What is used of OpenCL, by its specification. */
static struct {
  void *(*create_queue)(void *context, void *device, uint64_t properties, int32_t *error);
  void *(*create_program)(void *context, uint32_t, const char **, const size_t *, int32_t *error);
  int32_t (*build)(void *program, uint32_t, void *const *, const char *, void *, void *);
  void *(*create_kernel)(void *program, const char *, int32_t *error);
  int32_t (*set_argument)(void *kernel, uint32_t, size_t, const void *);
  int32_t (*launch)(void *queue, void *kernel, uint32_t, const size_t *, const size_t *,
                    const size_t *, uint32_t, void *const *, void **);
  int32_t (*flush)(void *queue);
  void *(*create_event)(void *context, int32_t *error);
  int32_t (*end_event)(void *event, int32_t status);
  int32_t (*event_info)(void *event, uint32_t, size_t, void *, size_t *);
  int32_t (*release_event)(void *event);
  int32_t (*release_kernel)(void *kernel);
  int32_t (*release_program)(void *program);
  int32_t (*release_queue)(void *queue);
} cl;
static const char *const kNames[] = {"clCreateCommandQueue",
                                     "clCreateProgramWithSource",
                                     "clBuildProgram",
                                     "clCreateKernel",
                                     "clSetKernelArg",
                                     "clEnqueueNDRangeKernel",
                                     "clFlush",
                                     "clCreateUserEvent",
                                     "clSetUserEventStatus",
                                     "clGetEventInfo",
                                     "clReleaseEvent",
                                     "clReleaseKernel",
                                     "clReleaseProgram",
                                     "clReleaseCommandQueue"};

static size_t shape[] = {kCount};
static ptrdiff_t strides[] = {1};
static aster_ml_tensor tensor_on(const aster_ml_buffer *buffer, size_t offset) {
  aster_ml_tensor t;
  memset(&t, 0, sizeof t);
  t.storage = *buffer;
  t.byte_offset = offset;
  t.shape = shape;
  t.strides = strides;
  t.ndim = 1;
  t.dtype = ASTER_ML_DTYPE_FLOAT32;
  t.device = buffer->device;
  return t;
}

/* b = a + 1 by a program of ours, a = 2 b by a kernel of the caller's, again and again, without a
 * wait of this thread's: the order shows. */
static void test_in_order(const aster_ml_opencl *handles) {
  const size_t before = 64, bytes = kCount * sizeof(float), size = kCount;
  static float values[kCount + 64];
  int32_t error = 0;
  const char *source = kSource;
  void *theirs = cl.create_queue(handles->context, handles->device, 0, &error);
  EXPECT(error == 0);
  void *program = cl.create_program(handles->context, 1, &source, NULL, &error);
  EXPECT(error == 0 && cl.build(program, 0, NULL, "", NULL, NULL) == 0);
  void *kernel = cl.create_kernel(program, "twice", &error);
  EXPECT(error == 0);
  aster_ml_buffer a, b;
  EXPECT(aster_ml_buffer_init(&a, &context, bytes, ASTER_ML_DTYPE_FLOAT32, kOpencl) == 0);
  EXPECT(aster_ml_buffer_init(&b, &context, bytes + before, ASTER_ML_DTYPE_FLOAT32, kOpencl) == 0);
  EXPECT(aster_ml_buffer_copy_in(&a, 0, values, bytes) == 0);
  EXPECT(aster_ml_buffer_copy_in(&b, 0, values, bytes + before) == 0);
  const aster_ml_tensor in = tensor_on(&a, 0), out = tensor_on(&b, before);
  void *from = NULL, *to = NULL;
  size_t offset = 0, none = 1;
  EXPECT(aster_ml_queue_opencl_memory(&from, &offset, &out) == 0);
  EXPECT(aster_ml_queue_opencl_memory(&to, &none, &in) == 0);
  EXPECT(offset == before && none == 0 && from != NULL && to != NULL && from != to);
  const uint64_t from_byte = offset;
  EXPECT(cl.set_argument(kernel, 0, sizeof from, &from) == 0);
  EXPECT(cl.set_argument(kernel, 1, sizeof from_byte, &from_byte) == 0);
  EXPECT(cl.set_argument(kernel, 2, sizeof to, &to) == 0);

  aster_ml_queue queue;
  aster_ml_program ours = capture(&context, kOpencl, kCount);
  EXPECT(aster_ml_queue_init(&queue, &context) == 0);
  float expected = 0;
  for (int round = 0; round < kRounds; round++) {
    aster_ml_event done, next;
    void *after = NULL, *last = NULL;
    EXPECT(aster_ml_queue_run(&queue, &ours, NULL, &in, 1, &out, 1, &done) == 0);
    EXPECT(aster_ml_event_to_opencl(&after, &done, kOpencl) == 0);
    EXPECT(cl.launch(theirs, kernel, 1, NULL, &size, NULL, 1, &after, &last) == 0);
    EXPECT(cl.flush(theirs) == 0);
    EXPECT(aster_ml_event_from_opencl(&next, &context, last) == 0);
    const aster_ml_event *events[] = {&next};
    EXPECT(aster_ml_queue_barrier(&queue, events, 1, NULL) == 0);
    EXPECT(cl.release_event(after) == 0 && cl.release_event(last) == 0);
    EXPECT(aster_ml_event_free(&done) == 0 && aster_ml_event_free(&next) == 0);
    expected = 2 * (expected + 1);
  }
  EXPECT(aster_ml_queue_wait(&queue) == 0);
  EXPECT(aster_ml_buffer_copy_out(values, &a, 0, bytes) == 0);
  int wrong = 0;
  for (int i = 0; i < kCount; i++) wrong += values[i] != expected;
  EXPECT(wrong == 0);
  EXPECT(aster_ml_queue_free(&queue) == 0);
  EXPECT(aster_ml_program_free(&ours) == 0);
  EXPECT(aster_ml_buffer_free(&a) == 0 && aster_ml_buffer_free(&b) == 0);
  EXPECT(cl.release_kernel(kernel) == 0 && cl.release_program(program) == 0);
  EXPECT(cl.release_queue(theirs) == 0);
}

static int32_t state_of(void *event) {
  int32_t state = 99;
  EXPECT(cl.event_info(event, 0x11D3, sizeof state, &state, NULL) == 0);
  return state;
}

/* Events of either kind end with the other, before they are asked for and after; what nobody can
 * signal any more ends in an error. (PoCL tells nobody of an event that ends in one.) */
static void test_ends(const aster_ml_opencl *handles) {
  int32_t error = 0;
  aster_ml_event ours, done;
  void *early = NULL, *theirs = cl.create_event(handles->context, &error);
  EXPECT(error == 0);
  EXPECT(aster_ml_event_from_opencl(&ours, &context, theirs) == 0);
  EXPECT(aster_ml_event_is_done(&ours) == 0);
  EXPECT(aster_ml_event_signal(&ours, 0) == ASTER_ML_STATE);
  EXPECT(cl.end_event(theirs, 0) == 0);
  EXPECT(aster_ml_event_wait(&ours) == 0);
  EXPECT(aster_ml_event_free(&ours) == 0 && cl.release_event(theirs) == 0);
  EXPECT(aster_ml_event_init(&done, &context) == 0);
  EXPECT(aster_ml_event_to_opencl(&early, &done, kOpencl) == 0);
  EXPECT(state_of(early) > 0);
  EXPECT(aster_ml_event_signal(&done, 0) == 0);
  EXPECT(state_of(early) == 0);
  EXPECT(aster_ml_event_to_opencl(&theirs, &done, kOpencl) == 0);
  EXPECT(state_of(theirs) == 0); /* it was done */
  EXPECT(cl.release_event(early) == 0 && cl.release_event(theirs) == 0);
  EXPECT(aster_ml_event_free(&done) == 0);
  EXPECT(aster_ml_event_init(&done, &context) == 0);
  EXPECT(aster_ml_event_to_opencl(&theirs, &done, kOpencl) == 0);
  EXPECT(aster_ml_event_free(&done) == 0); /* which nobody can signal now */
  EXPECT(state_of(theirs) < 0);
  EXPECT(cl.release_event(theirs) == 0);
}

static void test_bad_input(void) {
  aster_ml_opencl handles = {.struct_size = sizeof handles};
  aster_ml_event event, none = {0};
  void *out = &handles;
  size_t offset = 0;
  float here[4] = {0};
  aster_ml_buffer host = {here, sizeof here, ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DEVICE_CPU};
  const aster_ml_tensor on_host = tensor_on(&host, 0);
  EXPECT(aster_ml_queue_opencl(NULL, kOpencl) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_queue_opencl(&handles, kOpencl + 999) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_queue_opencl(&handles, ASTER_ML_DEVICE_CPU) == ASTER_ML_UNSUPPORTED);
  EXPECT(strstr(message(), "CPU has no handles of OpenCL") != NULL);
  EXPECT(aster_ml_queue_opencl_memory(&out, &offset, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_queue_opencl_memory(&out, &offset, &on_host) == ASTER_ML_UNSUPPORTED);
  EXPECT(out == NULL);
  EXPECT(aster_ml_event_from_opencl(&event, &context, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(event.impl == NULL);
  EXPECT(aster_ml_event_from_opencl(NULL, &context, here) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_event_to_opencl(&out, &none, kOpencl) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_event_init(&event, &context) == 0);
  EXPECT(aster_ml_event_to_opencl(NULL, &event, kOpencl) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_event_to_opencl(&out, &event, ASTER_ML_DEVICE_CPU) == ASTER_ML_UNSUPPORTED);
  EXPECT(aster_ml_event_free(&event) == 0);
}

int main(void) {
  aster_ml_opencl handles = {.struct_size = sizeof handles};
  if (!aster_ml_device_is_available(kOpencl)) return 0;
  if (!open_opencl(&cl, kNames, sizeof kNames / sizeof *kNames)) return 0;
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  EXPECT(aster_ml_queue_opencl(&handles, kOpencl) == 0);
  EXPECT(handles.platform && handles.device && handles.context && handles.queue);
  if (expect_failures == 0) test_in_order(&handles);
  if (expect_failures == 0) test_ends(&handles);
  test_bad_input();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
