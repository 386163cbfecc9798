/* From the start of a process to its first result. Prints when that was (CLOCK_MONOTONIC, so that
 * who started the process can subtract) and what the library spent on it, as one JSON object.
 *
 *   latency perceptron | digits      ASTER_ML_CC and ASTER_ML_CACHE_DIR choose compiler and cache
 */
#include <aster_ml/aster_ml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(int32_t status) {
  aster_ml_error error;
  if (status == ASTER_ML_OK) return;
  aster_ml_error_last(&error);
  fprintf(stderr, "%s: %s: %s\n", aster_ml_status_name(status), error.function, error.message);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Numbers in [-0.05, 0.05]. */
static void data(aster_ml_lazy *out, const aster_ml_context *context, size_t ndim,
                 const int64_t *shape) {
  static float numbers[784 * 512];
  static uint64_t state = 42;
  int64_t count = 1;
  for (size_t i = 0; i < ndim; ++i) count *= shape[i];
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    numbers[i] = (float)(state >> 40) / 167772160.0f - 0.05f;
  }
  check(aster_ml_lazy_from(out, context, numbers, ASTER_ML_DTYPE_FLOAT32, ndim, shape));
}

/* 784-512-512-10 on one input. */
static double perceptron(const aster_ml_context *context) {
  static const int64_t sizes[] = {784, 512, 512, 10};
  aster_ml_lazy x, weight, bias, product, sum;
  data(&x, context, 2, (const int64_t[]){1, 784});
  for (int i = 0; i < 3; ++i) {
    data(&weight, context, 2, (const int64_t[]){sizes[i], sizes[i + 1]});
    data(&bias, context, 1, &sizes[i + 1]);
    check(aster_ml_lazy_matmul(&product, &x, &weight));
    check(aster_ml_lazy_add(&sum, &product, &bias));
    x = sum;
    if (i < 2) check(aster_ml_lazy_relu(&x, &sum));
  }
  float out[10];
  check(aster_ml_lazy_copy_out(out, sizeof(out), &x));
  return (double)out[0];
}

/* The network of `aster demo digits`, initialised, and its first training step: the loss. */
static double digits(const aster_ml_context *context) {
  aster_ml_layer conv1, conv2, linear;
  aster_ml_state state;
  aster_ml_optimizer adam;
  aster_ml_conv2d_options same = {.struct_size = sizeof(same), .padding = {1, 1, 1, 1}};
  check(aster_ml_conv2d_init(&conv1, context, 1, 16, 3, 3, 1, &same));
  check(aster_ml_conv2d_init(&conv2, context, 16, 32, 3, 3, 1, &same));
  check(aster_ml_linear_init(&linear, context, 128, 10, 1));
  check(aster_ml_state_init(&state, context));
  check(aster_ml_state_set_layer(&state, "conv1.", &conv1));
  check(aster_ml_state_set_layer(&state, "conv2.", &conv2));
  check(aster_ml_state_set_layer(&state, "linear.", &linear));
  check(aster_ml_adam_init(&adam, &state, NULL));

  int32_t labels[128];
  for (int32_t i = 0; i < 128; ++i) labels[i] = i % 10;
  aster_ml_lazy x[9], targets, loss;
  data(&x[0], context, 4, (const int64_t[]){128, 1, 8, 8});
  check(aster_ml_lazy_from(&targets, context, labels, ASTER_ML_DTYPE_INT32, 1,
                           (const int64_t[]){128}));
  check(aster_ml_layer_run(&x[1], &conv1, &x[0], 1));
  check(aster_ml_lazy_relu(&x[2], &x[1]));
  check(aster_ml_lazy_max_pool2d(&x[3], &x[2], NULL));
  check(aster_ml_layer_run(&x[4], &conv2, &x[3], 1));
  check(aster_ml_lazy_relu(&x[5], &x[4]));
  check(aster_ml_lazy_max_pool2d(&x[6], &x[5], NULL));
  check(aster_ml_lazy_flatten(&x[7], &x[6], 1, -1));
  check(aster_ml_layer_run(&x[8], &linear, &x[7], 1));
  check(aster_ml_lazy_cross_entropy(&loss, &x[8], &targets, NULL));
  check(aster_ml_optimizer_step(&adam, &loss));
  double value;
  check(aster_ml_lazy_to_double(&value, &loss));
  return value;
}

int main(int argc, char **argv) {
  const double begin = now();
  aster_ml_context context;
  aster_ml_scope scope;
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context));
  const int train = argc > 1 && strcmp(argv[1], "digits") == 0;
  const double result = train ? digits(&context) : perceptron(&context);
  const double end = now();
  aster_ml_engine_counters c = {.struct_size = sizeof(c)};
  check(aster_ml_engine_count(&c, &context));
  printf(
      "{\"result\": %.9g, \"begin\": %.9f, \"end\": %.9f, \"schedule_ms\": %.3f, "
      "\"compile_ms\": %.3f, \"run_ms\": %.3f, \"compiled\": %llu, \"cached\": %llu, "
      "\"kernels\": %llu, \"interpreted\": %llu}\n",
      result, begin, end, c.schedule_ms, c.compile_ms, c.run_ms,
      (unsigned long long)c.kernels_compiled, (unsigned long long)c.kernels_cached,
      (unsigned long long)c.kernels_launched, (unsigned long long)c.interpreted);
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context));
  return 0;
}
