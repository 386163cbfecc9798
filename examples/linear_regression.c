/* Finds the weights behind noisy points by gradient descent:   linear_regression [STEPS] */
#include "check.h"

static const float true_weights[] = {2, -3, 0.5F}, true_bias = 1;
static aster_ml_context context;

/* y = x w + 1 + noise for 1000 random points x. */
static void make_points(aster_ml_lazy *x, aster_ml_lazy *y) {
  aster_ml_lazy w, one, scale, noise, scaled, sum;
  check(aster_ml_lazy_manual_seed(&context, 1));
  aster_ml_lazy_randn(x, &context, 0, 2, (int64_t[]){1000, 3});
  aster_ml_lazy_randn(&noise, &context, 0, 2, (int64_t[]){1000, 1});
  aster_ml_lazy_from(&w, &context, true_weights, ASTER_ML_DTYPE_FLOAT32, 2, (int64_t[]){3, 1});
  aster_ml_lazy_number(&one, &context, (double)true_bias);
  aster_ml_lazy_number(&scale, &context, 0.1);
  aster_ml_lazy_mul(&scaled, &noise, &scale);
  aster_ml_lazy_linear(&sum, x, &w, &one, 0);
  aster_ml_lazy_add(y, &sum, &scaled);
  check(aster_ml_lazy_realize((aster_ml_lazy *[]){x, y}, 2));
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? number(argv[1]) : 100;
  if (argc > 2 || steps < 1) return fputs("usage: linear_regression [STEPS]\n", stderr), 2;
  aster_ml_scope scope;
  aster_ml_layer line;
  aster_ml_state state;
  aster_ml_optimizer sgd;
  aster_ml_program step;
  aster_ml_lazy x, y, found, error, squares, mean, weight, bias, *outputs[] = {&mean};
  aster_ml_tensor loss = {0};
  float w[3];
  double b;
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context)); /* frees every tensor made until its end */
  make_points(&x, &y);
  check(aster_ml_linear_init(&line, &context, 3, 1, 1));
  check(aster_ml_state_init(&state, &context));
  check(aster_ml_state_set_layer(&state, NULL, &line));
  const aster_ml_sgd_options options = {.struct_size = sizeof(options), .rate = 0.1};
  check(aster_ml_sgd_init(&sgd, &state, &options));

  /* One step is built, run and recorded; replays build nothing any more. */
  check(aster_ml_engine_capture_begin(&context, NULL, 0));
  aster_ml_layer_run(&found, &line, &x, 1);
  aster_ml_lazy_sub(&error, &found, &y);
  aster_ml_lazy_square(&squares, &error);
  aster_ml_lazy_mean(&mean, &squares, 0, NULL, 0);
  check(aster_ml_optimizer_step(&sgd, &mean));
  check(aster_ml_engine_capture_end(&step, &context, outputs, 1));
  for (int i = 1; i < steps; ++i) {
    check(aster_ml_program_run(&step, NULL, NULL, 0, &loss, 1));
    if (i % 20 == 19) {
      printf("step %3d, loss %.4f\n", i + 1, (double)*(const float *)loss.storage.data);
    }
  }

  check(aster_ml_state_get(&weight, &state, "weight"));
  check(aster_ml_state_get(&bias, &state, "bias"));
  check(aster_ml_lazy_copy_out(w, sizeof(w), &weight));
  check(aster_ml_lazy_to_double(&b, &bias));
  int right = b > 0.98 && b < 1.02;
  for (int i = 0; i < 3; ++i)
    right &= w[i] - true_weights[i] < 0.02F && true_weights[i] - w[i] < 0.02F;
  printf("weights %.2f %.2f %.2f, bias %.2f\n", (double)w[0], (double)w[1], (double)w[2], b);
  if (loss.storage.data) check(aster_ml_tensor_free(&loss));
  aster_ml_program_free(&step), aster_ml_optimizer_free(&sgd);
  aster_ml_state_free(&state), aster_ml_layer_free(&line);
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context));
  return right ? 0 : 1;
}
