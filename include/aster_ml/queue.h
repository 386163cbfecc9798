/* Queues and events: the order of what this library and others do with the same memory.
 *
 * Calls of the engine return when their work is done, on every device. So what stands in front of a
 * call is done before it, and what stands behind it comes after it, on one thread. A queue gives
 * the same order without waiting: it has a thread of its own that does one thing after another,
 * calls of functions and runs of programs. Events order it against other queues, other threads and
 * the queues of other libraries, which may signal an event from any thread and wait for one.
 *
 *   aster_ml_queue_barrier(&queue, theirs, 1, NULL);      after their work
 *   aster_ml_queue_run(&queue, &program, NULL, in, 1, out, 1, &ours);
 *   ...
 *   aster_ml_event_wait(&ours);                           before theirs goes on
 *
 * A caller's own OpenCL code shares contexts, memory and order with a device of OPENCL: an event of
 * either kind becomes one of the other, and no thread waits but the queue's own.
 *
 *   aster_ml_queue_run(&queue, &program, NULL, in, 1, out, 1, &done);
 *   aster_ml_event_to_opencl(&after, &done, ASTER_ML_DEVICE_OPENCL);
 *   clEnqueueNDRangeKernel(theirs, kernel, 1, NULL, size, NULL, 1, &after, &next);
 *   clFlush(theirs);
 *   aster_ml_event_from_opencl(&before, &context, next);
 *   aster_ml_queue_barrier(&queue, (const aster_ml_event *[]){&before}, 1, NULL);
 *
 * Failures   After something in a queue fails nothing that was put in is done, and its events have
 *            that status, until aster_ml_queue_wait tells it; then the queue goes on.
 * Threads    Every function may be called from any thread. In the child of a fork a queue of the
 *            parent is STATE.
 */
#ifndef ASTER_ML_QUEUE_H
#define ASTER_ML_QUEUE_H

#include "aster_ml/base.h"
#include "aster_ml/engine.h"
#include "aster_ml/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Something that is not done, or done with a status. Empty when zeroed. Not bound to scopes. */
typedef struct aster_ml_event {
  void *impl;
} aster_ml_event;

/* Does one thing after another. Empty when zeroed. Not bound to scopes. */
typedef struct aster_ml_queue {
  void *impl;
} aster_ml_queue;

/* An event that aster_ml_event_signal is for. */
ASTER_ML_API int32_t aster_ml_event_init(aster_ml_event *out, const aster_ml_context *context);

/* The event is done, with this status: OK, or what failed. Whoever waits for it goes on. Errors:
 * STATE (it is done already, or one of a queue's). */
ASTER_ML_API int32_t aster_ml_event_signal(const aster_ml_event *event, int32_t status);

/* 1 if it is done, else 0; 0 for an empty handle. */
ASTER_ML_API int32_t aster_ml_event_is_done(const aster_ml_event *event);

/* Returns when it is done. Errors: the status that it is done with. */
ASTER_ML_API int32_t aster_ml_event_wait(const aster_ml_event *event);

/* Gives the handle up. An event that was to be signalled and was not is done then, CANCELLED. */
ASTER_ML_API int32_t aster_ml_event_free(aster_ml_event *event);

/* A queue, with its thread. Owns: out. Errors: MEMORY (no thread could be made). */
ASTER_ML_API int32_t aster_ml_queue_init(aster_ml_queue *out, const aster_ml_context *context);

/* A function that a queue calls; another number than 0 is a failure. It may call this library, but
 * not wait for its own queue. */
typedef int32_t (*aster_ml_queue_function)(void *self);

/* Has function(self) called after all that was put in before. done, which may be null, becomes an
 * event of it. Errors: ARGUMENT, STATE (a fork's child), MEMORY. */
ASTER_ML_API int32_t aster_ml_queue_call(const aster_ml_queue *queue,
                                         aster_ml_queue_function function, void *self,
                                         aster_ml_event *done);

/* Has a program run as aster_ml_program_run runs it; every output has storage. The program, the
 * workspace, shapes, strides and memory stay as they are until it is done; the descriptors are
 * copied. Errors: as queue_call; those of program_run come with the event. */
ASTER_ML_API int32_t aster_ml_queue_run(const aster_ml_queue *queue,
                                        const aster_ml_program *program,
                                        aster_ml_workspace *workspace,
                                        const aster_ml_tensor *inputs, size_t input_count,
                                        const aster_ml_tensor *outputs, size_t output_count,
                                        aster_ml_event *done);

/* What is put in from now on begins when all that was put in before and all these events are done;
 * one that is done with a failure fails the queue. done becomes an event of that. Errors: as
 * queue_call. */
ASTER_ML_API int32_t aster_ml_queue_barrier(const aster_ml_queue *queue,
                                            const aster_ml_event *const *events, size_t count,
                                            aster_ml_event *done);

/* Returns when all that was put in is done. Errors: the first failure since the last wait; STATE
 * (on the queue's own thread). */
ASTER_ML_API int32_t aster_ml_queue_wait(const aster_ml_queue *queue);

/* Gives the handle up. What was put in is done all the same; nobody waits for it. */
ASTER_ML_API int32_t aster_ml_queue_free(aster_ml_queue *queue);

/* Handles of OpenCL, as pointers, so that its headers are not needed. */
typedef struct aster_ml_opencl {
  uint32_t struct_size; /* in: sizeof(aster_ml_opencl) */
  uint32_t zero;
  void *platform; /* cl_platform_id */
  void *device;   /* cl_device_id */
  void *context;  /* cl_context: of this device alone */
  void *queue;    /* cl_command_queue, in order: this library copies through it */
} aster_ml_opencl;

/* What stands behind a device of OPENCL. The handles stay until the process ends; they are the
 * library's: whoever releases one retains it before. Errors: ARGUMENT (no such device,
 * struct_size), UNSUPPORTED (no device of OPENCL, no driver), DEVICE (it was lost; the child of a
 * fork). */
ASTER_ML_API int32_t aster_ml_queue_opencl(aster_ml_opencl *out, int32_t device);

/* The cl_mem of a tensor on a device of OPENCL, and where in it, in bytes, the tensor begins. It is
 * the buffer's and stays as long. Errors: as aster_ml_queue_opencl. */
ASTER_ML_API int32_t aster_ml_queue_opencl_memory(void **memory, size_t *offset,
                                                  const aster_ml_tensor *tensor);

/* An event that is done when a cl_event is: OK, or DEVICE where that ended in an error. Its queue
 * is to be flushed by whoever has it (clFlush); the cl_event may be released at once. Errors:
 * ARGUMENT, UNSUPPORTED (no driver), DEVICE (it is no event), MEMORY. */
ASTER_ML_API int32_t aster_ml_event_from_opencl(aster_ml_event *out,
                                                const aster_ml_context *context, void *event);

/* A cl_event of a device's context that ends when an event does, in an error where that is done
 * with one. Owns: the caller releases it (clReleaseEvent). Errors: ARGUMENT, UNSUPPORTED, DEVICE,
 * MEMORY. */
ASTER_ML_API int32_t aster_ml_event_to_opencl(void **out, const aster_ml_event *event,
                                              int32_t device);

#ifdef __cplusplus
}
#endif
#endif
