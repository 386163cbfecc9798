/* An operator with a gradient of its own, in training:   custom_gradient [STEPS]
 *
 * Rounding has the gradient 0 nearly everywhere, so that what is before it learns nothing. Here it
 * passes the gradient on as if it were not there, and weights learn to be whole numbers. */
#include <math.h>

#include "check.h"

static const float true_weights[] = {3, -2, 0, 1};
static aster_ml_context context;

/* round(x), with the gradient of x. The way for any f(x) with the gradient of g(x):
 * g(x) + detach(f(x) - g(x)) has the value of the one and the gradient of the other. */
static int32_t rounded(aster_ml_lazy *out, const aster_ml_lazy *x) {
  aster_ml_lazy round, difference, constant;
  aster_ml_lazy_round(&round, x);
  aster_ml_lazy_sub(&difference, &round, x);
  aster_ml_lazy_detach(&constant, &difference);
  return aster_ml_lazy_add(out, x, &constant);
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? number(argv[1]) : 100;
  if (argc > 2 || steps < 1) return fputs("usage: custom_gradient [STEPS]\n", stderr), 2;
  aster_ml_scope scope;
  aster_ml_state state;
  aster_ml_optimizer sgd;
  aster_ml_program step;
  aster_ml_lazy x, truth, y, weights, whole, found, error, squares, mean, *outputs[] = {&mean};
  aster_ml_tensor loss = {0};
  float w[4];
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context));
  check(aster_ml_lazy_manual_seed(&context, 1));
  aster_ml_lazy_randn(&x, &context, 0, 2, (int64_t[]){256, 4});
  aster_ml_lazy_from(&truth, &context, true_weights, ASTER_ML_DTYPE_FLOAT32, 1, (int64_t[]){4});
  aster_ml_lazy_matmul(&y, &x, &truth);
  check(aster_ml_lazy_realize((aster_ml_lazy *[]){&x, &y}, 2));
  aster_ml_lazy_zeros(&weights, &context, 0, 1, (int64_t[]){4});
  check(aster_ml_state_init(&state, &context));
  check(aster_ml_state_set(&state, "weights", &weights, 1));
  const aster_ml_sgd_options options = {.struct_size = sizeof(options), .rate = 0.05};
  check(aster_ml_sgd_init(&sgd, &state, &options));

  check(aster_ml_engine_capture_begin(&context, NULL, 0));
  rounded(&whole, &weights);
  aster_ml_lazy_matmul(&found, &x, &whole);
  aster_ml_lazy_sub(&error, &found, &y);
  aster_ml_lazy_square(&squares, &error);
  aster_ml_lazy_mean(&mean, &squares, 0, NULL, 0);
  check(aster_ml_optimizer_step(&sgd, &mean));
  check(aster_ml_engine_capture_end(&step, &context, outputs, 1));
  for (int i = 1; i < steps; ++i) check(aster_ml_program_run(&step, NULL, NULL, 0, &loss, 1));

  check(aster_ml_lazy_copy_out(w, sizeof(w), &weights));
  int right = 1;
  printf("weights");
  for (int i = 0; i < 4; ++i) {
    printf(" %d", (int)lrintf(w[i]));
    right &= (float)lrintf(w[i]) == true_weights[i];
  }
  puts("");
  if (loss.storage.data) check(aster_ml_tensor_free(&loss));
  aster_ml_program_free(&step), aster_ml_optimizer_free(&sgd), aster_ml_state_free(&state);
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context));
  return right ? 0 : 1;
}
