/* Queues and events: the order of programs, functions and what other threads do with the same
 * memory; failures; bad input. */
#include <aster_ml/aster_ml.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"
#include "expect.h"

static aster_ml_context context;
enum { kCount = 1000, kRounds = 200 };

static aster_ml_tensor array_of(float *data, const size_t *shape, const ptrdiff_t *strides) {
  aster_ml_tensor t;
  memset(&t, 0, sizeof t);
  t.storage.data = data;
  t.storage.bytes = kCount * sizeof *data;
  t.storage.dtype = ASTER_ML_DTYPE_FLOAT32;
  t.storage.device = ASTER_ML_DEVICE_CPU;
  t.shape = (size_t *)(uintptr_t)shape;
  t.strides = (ptrdiff_t *)(uintptr_t)strides;
  t.ndim = 1;
  t.dtype = ASTER_ML_DTYPE_FLOAT32;
  t.device = ASTER_ML_DEVICE_CPU;
  return t;
}
static const size_t kShape[] = {kCount};
static const ptrdiff_t kStrides[] = {1};
static float a[kCount], b[kCount];

/* Another library's work on memory of a device: b doubled into a. */
struct pair {
  aster_ml_buffer a, b;
  int calls;
};
static int32_t doubled(void *self) {
  struct pair *p = self;
  int32_t status = aster_ml_buffer_copy_out(b, &p->b, 0, sizeof b);
  for (int i = 0; i < kCount; i++) a[i] = 2 * b[i];
  if (status == 0) status = aster_ml_buffer_copy_in(&p->a, 0, a, sizeof a);
  p->calls++;
  return status;
}

/* a -> b = a + 1 by a program, b -> a = 2 b by a function, again and again: the order shows. */
static void test_programs_and_functions_in_order(int32_t device) {
  aster_ml_queue queue;
  aster_ml_event done;
  aster_ml_program program = capture(&context, device, kCount);
  struct pair p = {.calls = 0};
  const int32_t f = ASTER_ML_DTYPE_FLOAT32;
  memset(a, 0, sizeof a);
  EXPECT(aster_ml_buffer_init(&p.a, &context, sizeof a, f, device) == 0);
  EXPECT(aster_ml_buffer_init(&p.b, &context, sizeof b, f, device) == 0);
  EXPECT(aster_ml_buffer_copy_in(&p.a, 0, a, sizeof a) == 0);
  aster_ml_tensor in = array_of(a, kShape, kStrides), out = in;
  in.storage = p.a;
  out.storage = p.b;
  in.device = out.device = device;
  EXPECT(aster_ml_queue_init(&queue, &context) == 0);
  float expected = 0;
  for (int round = 0; round < 20; round++) {
    EXPECT(aster_ml_queue_run(&queue, &program, NULL, &in, 1, &out, 1, NULL) == 0);
    EXPECT(aster_ml_queue_call(&queue, doubled, &p, round == 19 ? &done : NULL) == 0);
    expected = 2 * (expected + 1);
  }
  EXPECT(aster_ml_event_wait(&done) == 0);
  EXPECT(aster_ml_event_is_done(&done) == 1);
  EXPECT(p.calls == 20);
  int wrong = 0;
  for (int i = 0; i < kCount; i++) wrong += a[i] != expected;
  EXPECT(wrong == 0);
  EXPECT(aster_ml_queue_wait(&queue) == 0);
  EXPECT(aster_ml_event_free(&done) == 0);
  EXPECT(aster_ml_program_free(&program) == 0);
  EXPECT(aster_ml_buffer_free(&p.a) == 0);
  EXPECT(aster_ml_buffer_free(&p.b) == 0);
  EXPECT(aster_ml_queue_free(&queue) == 0);
}

/* Another library with a thread of its own: it writes a, signals, waits for ours, and reads b. */
struct other {
  aster_ml_event theirs[kRounds], ours[kRounds];
  int wrong;
};
static void *other_library(void *self) {
  struct other *o = self;
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < kCount; i++) a[i] = (float)(round + i);
    o->wrong += aster_ml_event_signal(&o->theirs[round], ASTER_ML_OK) != 0;
    o->wrong += aster_ml_event_wait(&o->ours[round]) != 0;
    for (int i = 0; i < kCount; i++) o->wrong += b[i] != (float)(round + i + 1);
  }
  return NULL;
}
static void test_another_library_s_thread(void) {
  static struct other o;
  aster_ml_queue queue;
  aster_ml_program program = capture(&context, ASTER_ML_DEVICE_CPU, kCount);
  const aster_ml_tensor in = array_of(a, kShape, kStrides), out = array_of(b, kShape, kStrides);
  EXPECT(aster_ml_queue_init(&queue, &context) == 0);
  for (int round = 0; round < kRounds; round++) {
    EXPECT(aster_ml_event_init(&o.theirs[round], &context) == 0);
    const aster_ml_event *const before[] = {&o.theirs[round]};
    EXPECT(aster_ml_queue_barrier(&queue, before, 1, NULL) == 0);
    EXPECT(aster_ml_queue_run(&queue, &program, NULL, &in, 1, &out, 1, &o.ours[round]) == 0);
  }
  EXPECT(aster_ml_event_is_done(&o.ours[0]) == 0);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, other_library, &o) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  EXPECT(o.wrong == 0);
  EXPECT(aster_ml_queue_wait(&queue) == 0);
  for (int round = 0; round < kRounds; round++) {
    EXPECT(aster_ml_event_free(&o.theirs[round]) == 0);
    EXPECT(aster_ml_event_free(&o.ours[round]) == 0);
  }
  EXPECT(aster_ml_program_free(&program) == 0);
  EXPECT(aster_ml_queue_free(&queue) == 0);
}

/* Two queues that hand one number to each other. */
struct turn {
  atomic_int *number;
  int expected, wrong;
};
static int32_t take_turn(void *self) {
  struct turn *t = self;
  t->wrong = atomic_fetch_add(t->number, 1) != t->expected;
  return 0;
}
static void test_two_queues(void) {
  static struct turn turns[kRounds];
  atomic_int number = 0;
  aster_ml_queue queues[2];
  aster_ml_event last = {0};
  for (int q = 0; q < 2; q++) EXPECT(aster_ml_queue_init(&queues[q], &context) == 0);
  for (int i = 0; i < kRounds; i++) {
    turns[i] = (struct turn){&number, i, 0};
    const aster_ml_event *const before[] = {&last};
    if (i > 0) EXPECT(aster_ml_queue_barrier(&queues[i % 2], before, 1, NULL) == 0);
    aster_ml_event_free(&last); /* the queue holds it */
    EXPECT(aster_ml_queue_call(&queues[i % 2], take_turn, &turns[i], &last) == 0);
  }
  EXPECT(aster_ml_event_wait(&last) == 0);
  for (int i = 0; i < kRounds; i++) EXPECT(turns[i].wrong == 0);
  EXPECT(atomic_load(&number) == kRounds);
  aster_ml_event_free(&last);
  for (int q = 0; q < 2; q++) EXPECT(aster_ml_queue_free(&queues[q]) == 0);
}

static int32_t count_calls(void *calls) { return ++*(int *)calls, 0; }
static int32_t give(void *status) { return *(const int32_t *)status; }
static int32_t compute(void *out) { /* a function may use the context */
  const float values[] = {1, 2, 3};
  const int64_t shape[] = {3};
  aster_ml_lazy x, y;
  int32_t status = aster_ml_lazy_from(&x, &context, values, ASTER_ML_DTYPE_FLOAT32, 1, shape);
  if (status == 0) status = aster_ml_lazy_square(&y, &x);
  if (status == 0) status = aster_ml_lazy_copy_out(out, sizeof values, &y);
  aster_ml_lazy_free(&x);
  aster_ml_lazy_free(&y);
  return status;
}
static int32_t wait_for_itself(void *queue) { return aster_ml_queue_wait(queue); }

static int message_has(const char *part) {
  aster_ml_error error;
  aster_ml_error_last(&error);
  return strstr(error.message, part) != NULL;
}

static void test_failures(void) {
  aster_ml_queue queue;
  aster_ml_event first, second, third;
  int32_t shape = ASTER_ML_SHAPE, odd = -77;
  int calls = 0;
  float squares[3] = {0};
  EXPECT(aster_ml_queue_init(&queue, &context) == 0);
  EXPECT(aster_ml_queue_call(&queue, give, &shape, &first) == 0);
  EXPECT(aster_ml_queue_call(&queue, count_calls, &calls, &second) == 0);
  EXPECT(aster_ml_event_wait(&first) == ASTER_ML_SHAPE);
  EXPECT(aster_ml_event_wait(&second) == ASTER_ML_SHAPE);
  EXPECT(aster_ml_queue_wait(&queue) == ASTER_ML_SHAPE);
  EXPECT(message_has("a function in a queue failed"));
  EXPECT(calls == 0);
  aster_ml_event_free(&first);
  aster_ml_event_free(&second);
  /* It goes on after that. */
  EXPECT(aster_ml_queue_call(&queue, compute, squares, NULL) == 0);
  EXPECT(aster_ml_queue_wait(&queue) == 0);
  EXPECT(squares[0] == 1 && squares[1] == 4 && squares[2] == 9);
  EXPECT(aster_ml_queue_call(&queue, give, &odd, NULL) == 0);
  EXPECT(aster_ml_queue_wait(&queue) == ASTER_ML_ERROR);
  EXPECT(aster_ml_queue_call(&queue, wait_for_itself, &queue, NULL) == 0);
  EXPECT(aster_ml_queue_wait(&queue) == ASTER_ML_STATE);
  EXPECT(message_has("waits for itself"));
  /* An event that fails, or that is given up, fails what waits for it. */
  EXPECT(aster_ml_event_init(&first, &context) == 0);
  EXPECT(aster_ml_event_init(&second, &context) == 0);
  const aster_ml_event *const both[] = {&first, &second};
  EXPECT(aster_ml_queue_barrier(&queue, both, 2, &third) == 0);
  EXPECT(aster_ml_event_is_done(&third) == 0);
  EXPECT(aster_ml_event_signal(&first, ASTER_ML_OK) == 0);
  EXPECT(aster_ml_event_signal(&first, ASTER_ML_OK) == ASTER_ML_STATE);
  EXPECT(aster_ml_event_free(&second) == 0);
  EXPECT(aster_ml_event_wait(&third) == ASTER_ML_CANCELLED);
  EXPECT(aster_ml_event_signal(&third, ASTER_ML_OK) == ASTER_ML_STATE);
  EXPECT(aster_ml_queue_wait(&queue) == ASTER_ML_CANCELLED);
  aster_ml_event_free(&first);
  aster_ml_event_free(&third);
  /* What a program says comes with the event: too few inputs. */
  aster_ml_program program = capture(&context, ASTER_ML_DEVICE_CPU, kCount);
  const aster_ml_tensor out = array_of(b, kShape, kStrides);
  EXPECT(aster_ml_queue_run(&queue, &program, NULL, NULL, 0, &out, 1, &first) == 0);
  EXPECT(aster_ml_event_wait(&first) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_queue_wait(&queue) == ASTER_ML_ARGUMENT);
  EXPECT(message_has("0 inputs and 1 outputs"));
  aster_ml_event_free(&first);
  EXPECT(aster_ml_program_free(&program) == 0);
  EXPECT(aster_ml_queue_free(&queue) == 0);
}

static void test_bad_input(void) {
  aster_ml_queue queue, empty = {0};
  aster_ml_event event, none = {0}, done;
  EXPECT(aster_ml_queue_init(NULL, &context) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_queue_init(&queue, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_event_init(NULL, &context) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_event_init(&event, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(event.impl == NULL);
  EXPECT(aster_ml_queue_init(&queue, &context) == 0);
  EXPECT(aster_ml_event_init(&event, &context) == 0);
  EXPECT(aster_ml_queue_call(&queue, NULL, NULL, &done) == ASTER_ML_ARGUMENT);
  EXPECT(done.impl == NULL);
  EXPECT(aster_ml_queue_call(&empty, give, NULL, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_queue_call(NULL, give, NULL, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_queue_run(&queue, NULL, NULL, NULL, 0, NULL, 0, &done) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_queue_barrier(&queue, NULL, 2, NULL) == ASTER_ML_ARGUMENT);
  const aster_ml_event *const events[] = {&event, &none, NULL};
  EXPECT(aster_ml_queue_barrier(&queue, events, 2, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_queue_barrier(&queue, events + 2, 1, &done) == ASTER_ML_ARGUMENT);
  EXPECT(done.impl == NULL);
  aster_ml_program program = capture(&context, ASTER_ML_DEVICE_CPU, kCount);
  const aster_ml_tensor in = array_of(a, kShape, kStrides), lent = array_of(NULL, kShape, kStrides);
  EXPECT(aster_ml_queue_run(&queue, &program, NULL, &in, 1, &lent, 1, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_queue_run(&queue, &program, NULL, NULL, 1, NULL, 0, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_program_free(&program) == 0);
  EXPECT(aster_ml_event_wait(&none) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_event_signal(&none, 0) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_event_is_done(&none) == 0);
  EXPECT(aster_ml_event_is_done(NULL) == 0);
  EXPECT(aster_ml_queue_wait(&queue) == 0); /* nothing was put in */
  EXPECT(aster_ml_event_free(&event) == 0);
  EXPECT(aster_ml_event_free(&event) == 0);
  EXPECT(aster_ml_event_free(NULL) == 0);
  aster_ml_queue copy = queue;
  EXPECT(aster_ml_queue_free(&queue) == 0);
  EXPECT(aster_ml_queue_free(&queue) == 0);
  EXPECT(aster_ml_queue_wait(&copy) == ASTER_ML_ARGUMENT);
}

/* Handles are given up before the work is done, and the context too. */
static int32_t sleep_then_signal(void *event) {
  usleep(20000);
  return aster_ml_event_signal(event, ASTER_ML_OK);
}
static void test_outlives_its_handles(void) {
  aster_ml_context own;
  aster_ml_queue queue;
  aster_ml_event event;
  EXPECT(aster_ml_context_init(&own, NULL) == 0);
  EXPECT(aster_ml_event_init(&event, &context) == 0);
  EXPECT(aster_ml_queue_init(&queue, &own) == 0);
  EXPECT(aster_ml_queue_call(&queue, sleep_then_signal, &event, NULL) == 0);
  EXPECT(aster_ml_queue_free(&queue) == 0);
  EXPECT(aster_ml_context_free(&own) == 0);
  EXPECT(aster_ml_event_wait(&event) == 0);
  EXPECT(aster_ml_event_free(&event) == 0);
}

/* An event is freed as soon as a wait for it returns, while its signal may not have. */
static int32_t signal_event(void *event) {
  const aster_ml_event copy = *(aster_ml_event *)event;
  return aster_ml_event_signal(&copy, ASTER_ML_OK);
}
static void test_freed_while_signalled(void) {
  aster_ml_queue queue;
  EXPECT(aster_ml_queue_init(&queue, &context) == 0);
  for (int i = 0; i < 3000; ++i) {
    aster_ml_event event;
    EXPECT(aster_ml_event_init(&event, &context) == 0);
    EXPECT(aster_ml_queue_call(&queue, signal_event, &event, NULL) == 0);
    EXPECT(aster_ml_event_wait(&event) == 0);
    EXPECT(aster_ml_event_free(&event) == 0);
  }
  EXPECT(aster_ml_queue_wait(&queue) == 0);
  EXPECT(aster_ml_queue_free(&queue) == 0);
}

static void test_forks(void) {
  aster_ml_queue queue;
  EXPECT(aster_ml_queue_init(&queue, &context) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const int right = aster_ml_queue_call(&queue, give, NULL, NULL) == ASTER_ML_STATE &&
                      aster_ml_queue_wait(&queue) == ASTER_ML_STATE;
    _exit(right ? 0 : 1);
  }
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT(aster_ml_queue_free(&queue) == 0);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_programs_and_functions_in_order(ASTER_ML_DEVICE_CPU);
  if (aster_ml_device_is_available(ASTER_ML_DEVICE_OPENCL))
    test_programs_and_functions_in_order(ASTER_ML_DEVICE_OPENCL);
  test_another_library_s_thread();
  test_two_queues();
  test_failures();
  test_bad_input();
  test_outlives_its_handles();
  test_freed_while_signalled();
  test_forks();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
