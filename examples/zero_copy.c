/* Computes in memory of its own, which the library never copies:   zero_copy */
#include "check.h"

/* Called when the library is done with the memory. */
static void released(void *self, void *data, size_t bytes) {
  (void)data;
  *(size_t *)self += bytes;
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) return fputs("usage: zero_copy\n", stderr), 2;
  float numbers[4] = {1, 2, 3, 4};
  size_t freed = 0;
  aster_ml_context context;
  aster_ml_buffer memory;
  aster_ml_tensor tensor, view;
  aster_ml_lazy x, two, doubled;
  check(aster_ml_context_init(&context, NULL));
  check(aster_ml_buffer_from_memory(&memory, &context, numbers, sizeof(numbers),
                                    ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DEVICE_CPU, 0, released,
                                    &freed));
  check(aster_ml_tensor_from_buffer(&tensor, &context, &memory, 0, 1, (size_t[]){4}, NULL));
  check(aster_ml_lazy_from_tensor(&x, &context, &tensor));

  numbers[3] = 40; /* seen by the tensor */
  check(aster_ml_lazy_number(&two, &context, 2));
  check(aster_ml_lazy_mul(&doubled, &x, &two));
  check(aster_ml_lazy_assign(&x, &doubled));
  check(aster_ml_lazy_realize((aster_ml_lazy *[]){&x}, 1)); /* seen in the memory */
  for (int i = 0; i < 4; ++i) printf(i < 3 ? "%.0f " : "%.0f\n", (double)numbers[i]);

  check(aster_ml_lazy_view(&view, &x)); /* the other way: where the elements of a tensor lie */
  const int same = view.storage.data == (void *)numbers;
  check(aster_ml_lazy_free(&x));
  check(aster_ml_lazy_free(&two));
  check(aster_ml_lazy_free(&doubled));
  check(aster_ml_tensor_free(&tensor));
  check(aster_ml_buffer_free(&memory));
  check(aster_ml_context_free(&context));
  printf("%s memory, released: %zu bytes\n", same ? "the same" : "OTHER", freed);
  return same && numbers[0] == 2 && numbers[3] == 80 && freed == sizeof(numbers) ? 0 : 1;
}
