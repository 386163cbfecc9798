/* Freezing as C calls it: C comes out that says what the program computes; what cannot be done is
 * said and leaves no file. */
#define _DEFAULT_SOURCE
#include <aster_ml/aster_ml.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"

static char folder[] = "/tmp/aster_freeze_XXXXXX";
static char path[256];

static const char *in_folder(const char *name) {
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  return path;
}

/* Whether a file there holds a text. */
static int holds(const char *name, const char *text) {
  static char all[1 << 16];
  FILE *file = fopen(in_folder(name), "rb");
  if (file == NULL) return 0;
  const size_t size = fread(all, 1, sizeof(all) - 1, file);
  fclose(file);
  all[size] = 0;
  return strstr(all, text) != NULL;
}

int main(void) {
  aster_ml_context context;
  aster_ml_lazy x, y;
  const float numbers[] = {1, 2, 3};
  const int64_t shape[] = {3};
  EXPECT(mkdtemp(folder) != NULL);
  EXPECT(aster_ml_context_init(&context, NULL) == ASTER_ML_OK);
  EXPECT(aster_ml_lazy_from(&x, &context, numbers, ASTER_ML_DTYPE_FLOAT32, 1, shape) ==
         ASTER_ML_OK);
  EXPECT(aster_ml_lazy_add(&y, &x, &x) == ASTER_ML_OK);
  aster_ml_lazy *const inputs[] = {&x}, *const outputs[] = {&y};
  const char *const names[] = {"left", "twice"};
  const aster_ml_boundary step = {.struct_size = sizeof step,
                                  .inputs = inputs,
                                  .input_count = 1,
                                  .input_names = names,
                                  .outputs = outputs,
                                  .output_count = 1,
                                  .output_names = names + 1};
  aster_ml_freeze_options options = {.struct_size = sizeof options, .name = "net"};

  /* C needs no compiler here. */
  EXPECT(aster_ml_freeze_step(in_folder("net.c"), &context, &step, &options) == ASTER_ML_OK);
  EXPECT(holds("net.c", "int32_t net_run(void *memory, const float *a0, float *a1)"));
  EXPECT(holds("net.h", "int32_t net_run(void *memory, const float *left, float *twice);"));

  /* The same from a file. */
  char program[256];
  snprintf(program, sizeof(program), "%s", in_folder("net.aster"));
  EXPECT(aster_ml_program_save(program, &context, &step, 0) == ASTER_ML_OK);
  EXPECT(aster_ml_freeze(in_folder("again.c"), &context, program, NULL) == ASTER_ML_OK);
  EXPECT(holds("again.c", "input left: float32[3]"));

  options.threads = -1;
  EXPECT(aster_ml_freeze(in_folder("no.c"), &context, program, &options) == ASTER_ML_RANGE);
  options.threads = 0;
  options.struct_size = 0;
  EXPECT(aster_ml_freeze(in_folder("no.c"), &context, program, &options) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_freeze(NULL, &context, program, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_freeze(in_folder("no.c"), NULL, program, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_freeze(in_folder("no.c"), &context, NULL, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_freeze_step(in_folder("no.c"), &context, NULL, NULL) == ASTER_ML_ARGUMENT);
  /* These are all the files there are. */
  const char *const made[] = {"net.c", "net.h", "net.aster", "again.c", "again.h"};
  for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); ++i)
    EXPECT(unlink(in_folder(made[i])) == 0);
  EXPECT(rmdir(folder) == 0);
  aster_ml_lazy_free(&x);
  aster_ml_lazy_free(&y);
  EXPECT(aster_ml_context_free(&context) == ASTER_ML_OK);
  return expect_failures;
}
