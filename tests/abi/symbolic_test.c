/* Symbolic dimensions from plain C: every function on tensors of n rows against the same on tensors
 * cut to them, at once and by one captured program for all n. */
#include "symbolic_functions.h"

static array got, want;

static size_t every; /* of the functions: 1 is all */

static void test_every_value(void) {
  for (size_t i = 0; i < FUNCTIONS; i += every) {
    for (int64_t rows = 1; rows <= MOST; rows++) {
      aster_ml_scope scope;
      aster_ml_lazy x = {0}, t = {0}, y = {0};
      const aster_ml_dim size = bound(rows);
      OK(aster_ml_scope_begin(&scope, &context));
      part(&x, &base, size, number(WIDTH));
      part(&t, &other, number(WIDTH), size);
      functions[i].f(&y, &x, &t, size);
      fetch(&got, &y);
      concrete(&want, functions[i].f, rows);
      expect_array(functions[i].name, rows, &got, &want, 1);
      OK(aster_ml_scope_end(&scope));
      OK(aster_ml_uop_release(&context, size.expression));
    }
  }
}

static void test_programs(void) {
  for (size_t i = 0; i < FUNCTIONS; i += every) {
    aster_ml_scope scope;
    aster_ml_lazy x = {0}, t = {0}, y = {0};
    aster_ml_program program = {0};
    const aster_ml_dim size = bound(3);
    OK(aster_ml_scope_begin(&scope, &context));
    OK(aster_ml_engine_capture_begin(&context, NULL, 0));
    part(&x, &base, size, number(WIDTH));
    part(&t, &other, number(WIDTH), size);
    functions[i].f(&y, &x, &t, size);
    aster_ml_lazy *const outputs[] = {&y};
    OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
    aster_ml_program_variable variable = {.struct_size = sizeof variable};
    EXPECT(aster_ml_program_count_variables(&program) <= 1);
    if (aster_ml_program_count_variables(&program) == 1) {
      OK(aster_ml_program_get_variable(&variable, &program, 0));
      EXPECT(strcmp(variable.name, "n") == 0 && variable.min == 1 && variable.max == MOST);
      EXPECT(variable.value == 3 && variable.limited == 0);
      if (variable.fixed != 0) {
        fprintf(stderr, "%s looked at its size\n", functions[i].name);
        expect_failures++;
      }
      for (int64_t rows = 1; rows <= MOST && variable.fixed == 0; rows++) {
        run(&got, &program, rows);
        concrete(&want, functions[i].f, rows);
        expect_array(functions[i].name, rows, &got, &want, 0);
      }
    } else { /* nothing reads the size: what lies beyond it is computed too */
      aster_ml_tensor made = {0};
      OK(aster_ml_program_run(&program, NULL, NULL, 0, &made, 1));
      OK(aster_ml_tensor_free(&made));
    }
    OK(aster_ml_program_free(&program));
    OK(aster_ml_scope_end(&scope));
    OK(aster_ml_uop_release(&context, size.expression));
  }
}

static void test(size_t share) {
  every = share;
  test_every_value();
  test_programs();
}

int main(void) {
  on_devices(test);
  return expect_failures;
}
