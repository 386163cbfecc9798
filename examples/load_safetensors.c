/* Runs a small model from a safetensors file, and makes the file if none is given:
 * load_safetensors [FILE] */
#include <string.h>

#include "check.h"

static aster_ml_context context;

static void set(aster_ml_state *state, const char *name, const float *data, size_t ndim,
                const int64_t *shape) {
  aster_ml_lazy x;
  aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, ndim, shape);
  check(aster_ml_state_set(state, name, &x, 0));
}

/* Writes a network that computes a xor b = relu(a + b) - 2 relu(a + b - 1). */
static void make(const char *path) {
  aster_ml_state state;
  check(aster_ml_state_init(&state, &context));
  set(&state, "hidden.weight", (float[]){1, 1, 1, 1}, 2, (int64_t[]){2, 2});
  set(&state, "hidden.bias", (float[]){0, -1}, 1, (int64_t[]){2});
  set(&state, "output.weight", (float[]){1, -2}, 2, (int64_t[]){1, 2});
  set(&state, "output.bias", (float[]){0}, 1, (int64_t[]){1});
  check(aster_ml_state_set_metadata(&state, "computes", "exclusive or"));
  check(aster_ml_state_write(&state, path));
  check(aster_ml_state_free(&state));
}

/* Name, dtype and shape of every tensor. */
static void print_tensors(const aster_ml_state *state) {
  for (size_t i = 0; i < aster_ml_state_count(state); ++i) {
    const char *name = aster_ml_state_name(state, i);
    aster_ml_lazy x;
    check(aster_ml_state_get(&x, state, name));
    printf("%-14s %s (", name, aster_ml_dtype_name(aster_ml_lazy_dtype(&x)));
    for (size_t k = 0; k < aster_ml_lazy_ndim(&x); ++k) {
      printf(k ? ", %d" : "%d", (int)aster_ml_lazy_dim(&x, (int64_t)k));
    }
    puts(")");
  }
}

int main(int argc, char **argv) {
  if (argc > 2) return fputs("usage: load_safetensors [FILE]\n", stderr), 2;
  const char *path = argc > 1 ? argv[1] : "exclusive_or.safetensors";
  const float input[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}}, expected[4] = {0, 1, 1, 0};
  aster_ml_scope scope;
  aster_ml_layer hidden, output;
  aster_ml_state network, file;
  aster_ml_lazy x, h, active, y;
  float answers[4];
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context));
  if (argc < 2) make(path);

  check(aster_ml_state_read(&file, &context, path)); /* mapped: read when it is used */
  print_tensors(&file);
  check(aster_ml_linear_init(&hidden, &context, 2, 2, 1));
  check(aster_ml_linear_init(&output, &context, 2, 1, 1));
  check(aster_ml_state_init(&network, &context));
  check(aster_ml_state_set_layer(&network, "hidden.", &hidden));
  check(aster_ml_state_set_layer(&network, "output.", &output));
  check(aster_ml_state_load(&network, &file));

  aster_ml_lazy_from(&x, &context, input, ASTER_ML_DTYPE_FLOAT32, 2, (int64_t[]){4, 2});
  aster_ml_layer_run(&h, &hidden, &x, 0);
  aster_ml_lazy_relu(&active, &h);
  aster_ml_layer_run(&y, &output, &active, 0);
  check(aster_ml_lazy_copy_out(answers, sizeof(answers), &y)); /* computes */
  for (int i = 0; i < 4; ++i) {
    printf("%.0f xor %.0f = %.0f\n", (double)input[i][0], (double)input[i][1], (double)answers[i]);
  }
  aster_ml_state_free(&file), aster_ml_state_free(&network);
  aster_ml_layer_free(&hidden), aster_ml_layer_free(&output);
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context));
  return memcmp(answers, expected, sizeof(answers)) == 0 ? 0 : 1;
}
