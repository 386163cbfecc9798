/* Freezes a network into a shared library that needs none of this one, and runs it:   freeze
 *
 * `aster freeze` does the same from files; then `cc main.c net.o` is all that a program needs. */
#include <dlfcn.h>
#include <string.h>

#include "check.h"

enum { ROWS = 2, IN = 8, HIDDEN = 16, OUT = 3 };

/* A tensor of numbers that look random. */
static void make(aster_ml_lazy *out, const aster_ml_context *context, int rows, int columns) {
  static unsigned state = 1;
  float numbers[HIDDEN * HIDDEN];
  for (int i = 0; i < rows * columns; ++i) {
    state = state * 1664525u + 1013904223u;
    numbers[i] = (float)(state >> 16) / 65536.0f - 0.5f;
  }
  check(aster_ml_lazy_from(out, context, numbers, ASTER_ML_DTYPE_FLOAT32, 2,
                           (int64_t[]){rows, columns}));
}

/* The functions that a library has: net.h declares them for programs that are linked with it. */
typedef int32_t init_function(void *memory);
typedef int32_t run_function(void *memory, const float *x, float *y);
typedef const char *describe_function(void);

/* dlsym gives functions as data. */
#define FIND(function, library, name)          \
  do {                                         \
    void *found = dlsym(library, name);        \
    memcpy(&(function), &found, sizeof found); \
  } while (0)

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) return fputs("usage: freeze\n", stderr), 2;
  aster_ml_context context;
  aster_ml_scope scope;
  aster_ml_lazy x, v, w, hidden, active, scores, y;
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_scope_begin(&scope, &context));
  make(&x, &context, ROWS, IN);
  make(&v, &context, IN, HIDDEN);
  make(&w, &context, HIDDEN, OUT);
  aster_ml_lazy_matmul(&hidden, &x, &v);
  aster_ml_lazy_relu(&active, &hidden);
  aster_ml_lazy_matmul(&scores, &active, &w);
  check(aster_ml_lazy_softmax(&y, &scores, 1));

  const char *const names[] = {"x", "y"};
  const aster_ml_boundary boundary = {.struct_size = sizeof boundary,
                                      .inputs = (aster_ml_lazy *[]){&x},
                                      .input_count = 1,
                                      .input_names = names,
                                      .outputs = (aster_ml_lazy *[]){&y},
                                      .output_count = 1,
                                      .output_names = names + 1};
  check(aster_ml_freeze_step("./libnet.so", &context, &boundary, NULL));

  float given[ROWS * IN], want[ROWS * OUT], got[ROWS * OUT];
  check(aster_ml_lazy_copy_out(given, sizeof given, &x));
  check(aster_ml_lazy_copy_out(want, sizeof want, &y));
  check(aster_ml_scope_end(&scope));
  check(aster_ml_context_free(&context)); /* nothing of it is needed any more */

  static _Alignas(64) char memory[1 << 16]; /* NET_MEMORY_BYTES of net.h */
  init_function *init;
  run_function *run;
  describe_function *describe;
  void *library = dlopen("./libnet.so", RTLD_NOW);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  FIND(init, library, "net_init");
  FIND(run, library, "net_run");
  FIND(describe, library, "net_describe");
  fputs(describe(), stdout);
  if (init(memory) != 0 || run(memory, given, got) != 0) return 1;
  for (int i = 0; i < ROWS * OUT; ++i) printf("%.6f%c", (double)got[i], i % OUT == 2 ? '\n' : ' ');
  const int same = memcmp(got, want, sizeof got) == 0;
  puts(same ? "the same bits" : "OTHER bits");
  dlclose(library);
  return same ? 0 : 1;
}
