/* Arenas: tensors with a plan cache of their own, default ones for each thread, work that is shared
 * or kept apart. */
#include <aster_ml/aster_ml.h>
#include <pthread.h>
#include <string.h>

#include "expect.h"

enum { COUNT = 1000 };
static aster_ml_context context;

static aster_ml_lazy vector(float value) {
  float data[COUNT];
  for (int i = 0; i < COUNT; i++) data[i] = value + (float)(i % 7);
  const int64_t shape[] = {COUNT};
  aster_ml_lazy out = {0};
  EXPECT(aster_ml_lazy_from(&out, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  return out;
}
static aster_ml_arena arena_of(uint32_t flags) {
  aster_ml_arena out = {0};
  EXPECT(aster_ml_arena_init(&out, &context, flags) == 0);
  return out;
}
static aster_ml_arena_counters count(const aster_ml_arena *arena) {
  aster_ml_arena_counters out = {.struct_size = sizeof out};
  EXPECT(aster_ml_arena_count(&out, arena) == 0);
  return out;
}
static uint64_t kernels(void) {
  aster_ml_engine_counters out = {.struct_size = sizeof out};
  EXPECT(aster_ml_engine_count(&out, &context) == 0);
  return out.kernels_launched;
}
/* out = a * b + k, in two operations; the product is given up. */
static aster_ml_lazy step(const aster_ml_lazy *a, const aster_ml_lazy *b) {
  aster_ml_lazy product = {0}, out = {0};
  EXPECT(aster_ml_lazy_mul(&product, a, b) == 0);
  EXPECT(aster_ml_lazy_add(&out, &product, a) == 0);
  EXPECT(aster_ml_lazy_free(&product) == 0);
  return out;
}
static void realize(aster_ml_lazy *x) {
  aster_ml_lazy *const all[] = {x};
  EXPECT(aster_ml_lazy_realize(all, 1) == 0);
}
static float at(aster_ml_lazy *x, int index) {
  float data[COUNT];
  EXPECT(aster_ml_lazy_copy_out(data, sizeof data, x) == 0);
  return data[index];
}

/* Plans are an arena's own, and are found for other memory of the same computation alone. */
static void test_plans(void) {
  aster_ml_arena arena = arena_of(0), other = arena_of(0);
  aster_ml_lazy a = vector(1), b = vector(2);
  for (int turn = 0; turn < 3; turn++) {
    EXPECT(aster_ml_arena_begin(&arena) == 0);
    aster_ml_lazy y = step(&a, &b);
    EXPECT(aster_ml_arena_end() == 0);
    aster_ml_arena_counters now = count(&arena);
    EXPECT(now.tensors == 1 && now.pending == 1 && now.parameters == 2 && now.nodes == 4);
    const aster_ml_uop *sink = NULL;
    size_t nodes = 0;
    EXPECT(aster_ml_arena_to_uop(&sink, &arena) == 0);
    EXPECT(strcmp(aster_ml_uop_op(sink), "Sink") == 0 && aster_ml_uop_source_count(sink) == 1);
    EXPECT(aster_ml_uop_walk(NULL, &nodes, 0, &context, sink) == 0 && nodes == 5);
    EXPECT(aster_ml_uop_release(&context, sink) == 0);
    const uint64_t version = now.version;
    realize(&y);
    now = count(&arena);
    EXPECT(now.pending == 0 && now.nodes == 0 && now.version > version);
    EXPECT(now.plan_misses == 1 && now.plan_hits == (uint64_t)turn && now.plans == 1);
    EXPECT(aster_ml_arena_to_uop(&sink, &arena) == ASTER_ML_NOT_FOUND && sink == NULL);
    EXPECT(at(&y, 3) == 4 * 5 + 4);
    EXPECT(aster_ml_lazy_free(&y) == 0);
    EXPECT(count(&arena).tensors == 0);
  }
  /* Another arena has made no plan yet. */
  EXPECT(aster_ml_arena_begin(&other) == 0);
  aster_ml_lazy y = step(&a, &b);
  EXPECT(aster_ml_arena_end() == 0);
  EXPECT(aster_ml_arena_realize(&other) == 0);
  EXPECT(count(&other).plan_misses == 1 && count(&other).plan_hits == 0);
  EXPECT(count(&arena).plan_misses == 1);
  EXPECT(aster_ml_arena_reset(&other) == 0 && count(&other).plans == 0);
  EXPECT(aster_ml_lazy_free(&y) == 0);
  /* What is realised outside of arenas finds none of theirs. */
  y = step(&a, &b);
  realize(&y);
  EXPECT(count(&arena).realizes == 3);
  aster_ml_lazy *all[] = {&a, &b, &y};
  for (size_t i = 0; i < 3; i++) EXPECT(aster_ml_lazy_free(all[i]) == 0);
  EXPECT(aster_ml_arena_free(&arena) == 0 && aster_ml_arena_free(&other) == 0);
}

/* A plan is of the graph as it is when it is realised: what changed since is another plan. */
static void test_no_stale_plans(void) {
  aster_ml_arena arena = arena_of(ASTER_ML_ARENA_TOGETHER);
  aster_ml_lazy a = vector(1), b = vector(2);
  EXPECT(aster_ml_arena_begin(&arena) == 0);
  aster_ml_lazy y = step(&a, &b);
  realize(&y);
  EXPECT(at(&y, 0) == 3);
  /* The same step beside a new node, then on memory that was assigned to. */
  aster_ml_lazy again = step(&a, &b), more = {0};
  EXPECT(aster_ml_lazy_mul(&more, &again, &again) == 0);
  realize(&again);
  EXPECT(count(&arena).plan_misses == 2 && count(&arena).pending == 0);
  EXPECT(aster_ml_lazy_is_realized(&more) == 1 && at(&more, 0) == 9);
  EXPECT(aster_ml_lazy_assign(&a, &more) == 0);
  aster_ml_lazy third = step(&a, &b);
  realize(&third);
  EXPECT(at(&third, 0) == 9 * 2 + 9 && at(&y, 0) == 3);
  EXPECT(aster_ml_arena_end() == 0);
  aster_ml_lazy *all[] = {&a, &b, &y, &again, &more, &third};
  for (size_t i = 0; i < 6; i++) EXPECT(aster_ml_lazy_free(all[i]) == 0);
  EXPECT(aster_ml_arena_free(&arena) == 0);
}

/* What is pending in an arena is realised together, by one kernel here; what others have stays. */
static void test_together(void) {
  aster_ml_arena arena = arena_of(ASTER_ML_ARENA_TOGETHER);
  aster_ml_lazy a = vector(1), b = vector(2), outside = step(&b, &a);
  EXPECT(aster_ml_arena_begin(&arena) == 0);
  aster_ml_lazy y = step(&a, &b), z = step(&a, &a);
  EXPECT(aster_ml_arena_end() == 0);
  const uint64_t before = kernels();
  realize(&y);
  EXPECT(kernels() == before + 1);
  EXPECT(aster_ml_lazy_is_realized(&z) == 1 && aster_ml_lazy_is_realized(&outside) == 0);
  EXPECT(at(&z, 1) == 6 && at(&y, 1) == 8);
  /* A tensor is taken in. */
  EXPECT(aster_ml_arena_add(&arena, &outside) == 0 && count(&arena).pending == 1);
  EXPECT(aster_ml_arena_realize(&arena) == 0 && aster_ml_lazy_is_realized(&outside) == 1);
  EXPECT(at(&outside, 1) == 9);
  aster_ml_lazy *all[] = {&a, &b, &y, &z, &outside};
  for (size_t i = 0; i < 5; i++) EXPECT(aster_ml_lazy_free(all[i]) == 0);
  EXPECT(aster_ml_arena_free(&arena) == 0);
}

/* y of one arena, read by z of another: in one kernel, or realised before. */
static void test_apart(void) {
  for (uint32_t flags = 0; flags <= ASTER_ML_ARENA_APART; flags += ASTER_ML_ARENA_APART) {
    aster_ml_arena first = arena_of(0), second = arena_of(flags);
    aster_ml_lazy a = vector(1), b = vector(2);
    EXPECT(aster_ml_arena_begin(&first) == 0);
    aster_ml_lazy y = step(&a, &b);
    EXPECT(aster_ml_arena_begin(&second) == 0);
    aster_ml_lazy z = step(&y, &b);
    EXPECT(aster_ml_arena_end() == 0);
    aster_ml_lazy w = step(&z, &y); /* in the first again, which is not kept apart */
    EXPECT(aster_ml_arena_end() == 0);
    EXPECT(aster_ml_arena_end() == ASTER_ML_STATE);
    const uint64_t before = kernels();
    realize(&z);
    EXPECT(kernels() == before + (flags != 0 ? 2 : 1));
    EXPECT(aster_ml_lazy_is_realized(&y) == (flags != 0));
    EXPECT(count(&first).realizes == (flags != 0 ? 1 : 0) && count(&second).realizes == 1);
    EXPECT(at(&z, 0) == 9 && at(&y, 0) == 3 && at(&w, 0) == 36);
    aster_ml_lazy *all[] = {&a, &b, &y, &z, &w};
    for (size_t i = 0; i < 5; i++) EXPECT(aster_ml_lazy_free(all[i]) == 0);
    EXPECT(aster_ml_arena_free(&first) == 0 && aster_ml_arena_free(&second) == 0);
  }
}

static void *in_thread(void *self) {
  (void)self;
  /* Arenas that other threads opened are not this one's. */
  return aster_ml_arena_end() == ASTER_ML_STATE ? self : NULL;
}

static void test_stack(void) {
  aster_ml_arena arena = arena_of(0), gone = arena_of(0);
  aster_ml_lazy a = vector(1);
  EXPECT(aster_ml_arena_begin(&arena) == 0 && aster_ml_arena_begin(&gone) == 0);
  pthread_t thread;
  void *result = NULL;
  int self = 0;
  EXPECT(pthread_create(&thread, NULL, in_thread, &self) == 0);
  EXPECT(pthread_join(thread, &result) == 0 && result == &self);
  /* One that was freed counts no longer: the one below does. */
  EXPECT(aster_ml_arena_free(&gone) == 0);
  aster_ml_lazy y = step(&a, &a);
  EXPECT(count(&arena).tensors == 1);
  EXPECT(aster_ml_arena_end() == 0 && aster_ml_arena_end() == 0);
  /* Tensors live longer than their arena, and a context than both. */
  EXPECT(aster_ml_arena_free(&arena) == 0);
  EXPECT(at(&y, 0) == 2);
  EXPECT(aster_ml_lazy_free(&a) == 0 && aster_ml_lazy_free(&y) == 0);
}

static void test_mistakes(void) {
  aster_ml_arena arena = {0}, gone = {0};
  EXPECT(aster_ml_arena_init(&arena, &context, 8) == ASTER_ML_ARGUMENT && arena.impl == NULL);
  EXPECT(aster_ml_arena_init(NULL, &context, 0) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_arena_begin(&arena) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_arena_realize(&arena) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_arena_end() == ASTER_ML_STATE);
  gone = arena = arena_of(0);
  EXPECT(aster_ml_arena_count(NULL, &arena) == ASTER_ML_ARGUMENT);
  for (int i = 0; i < 64; i++) EXPECT(aster_ml_arena_begin(&arena) == 0);
  EXPECT(aster_ml_arena_begin(&arena) == ASTER_ML_STATE);
  for (int i = 0; i < 64; i++) EXPECT(aster_ml_arena_end() == 0);
  aster_ml_context other = {0};
  aster_ml_lazy x = {0};
  EXPECT(aster_ml_context_init(&other, NULL) == 0);
  const int64_t shape[] = {1};
  const float one = 1;
  EXPECT(aster_ml_lazy_from(&x, &other, &one, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  EXPECT(aster_ml_arena_add(&arena, &x) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_lazy_free(&x) == 0 && aster_ml_context_free(&other) == 0);
  EXPECT(aster_ml_arena_free(&arena) == 0);
  EXPECT(aster_ml_arena_realize(&gone) == ASTER_ML_ARGUMENT);
}

int main(void) {
  aster_ml_context_options options = {.struct_size = sizeof options, .threads = 1};
  EXPECT(aster_ml_context_init(&context, &options) == 0);
  test_plans();
  test_no_stale_plans();
  test_together();
  test_apart();
  test_stack();
  test_mistakes();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
