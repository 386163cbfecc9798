/* Traces from C: what is written where, and what is told of values. */
#include <aster_ml/aster_ml.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"

static aster_ml_context context;
static int told;
static char scope[300]; /* of the last launch */
static char cut[2000];  /* why each stored what it computed, one behind the other */

static void tell(void *self, const aster_ml_launch *launch) {
  (void)self;
  snprintf(scope, sizeof scope, "%s", launch->scope);
  strncat(cut, launch->cut, sizeof cut - strlen(cut) - 2);
  strcat(cut, "|");
  ++told;
}

static int says(const char *text) {
  aster_ml_error error;
  aster_ml_error_last(&error);
  if (strstr(error.message, text) != NULL) return 1;
  fprintf(stderr, "the message is: %s\n", error.message);
  return 0;
}

/* sqrt(x) + 1, of four numbers. */
static int32_t compute(const float *data) {
  const int64_t shape[] = {4};
  aster_ml_lazy x = {0}, root = {0}, one = {0}, y = {0};
  EXPECT(aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  EXPECT(aster_ml_lazy_sqrt(&root, &x) == 0);
  EXPECT(aster_ml_lazy_number(&one, &context, 1) == 0);
  EXPECT(aster_ml_lazy_add(&y, &root, &one) == 0);
  aster_ml_lazy *const all[] = {&y};
  const int32_t status = aster_ml_lazy_realize(all, 1);
  aster_ml_lazy_free(&x), aster_ml_lazy_free(&root), aster_ml_lazy_free(&one);
  aster_ml_lazy_free(&y);
  return status;
}

static long size_of(const char *folder, const char *name) {
  char path[512];
  struct stat found;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return stat(path, &found) == 0 ? (long)found.st_size : -1;
}

static void test_scopes(const float *data) {
  EXPECT(aster_ml_engine_trace(&context, tell, NULL) == 0);
  EXPECT(compute(data) == 0 && strcmp(scope, "") == 0);
  EXPECT(aster_ml_trace_scope_end() == ASTER_ML_STATE && says("no scope"));
  EXPECT(aster_ml_trace_scope_begin("encoder") == 0);
  EXPECT(aster_ml_trace_scope_begin("layer 1") == 0);
  EXPECT(compute(data) == 0 && strcmp(scope, "encoder/layer 1") == 0);
  EXPECT(aster_ml_trace_scope_end() == 0);
  EXPECT(compute(data) == 0 && strcmp(scope, "encoder") == 0);
  EXPECT(aster_ml_trace_scope_begin("") == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_trace_scope_begin(NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_trace_scope_begin("\xff") == ASTER_ML_ARGUMENT);
  char name[200]; /* what has no room is left out, and ends like the others */
  memset(name, 'n', sizeof name - 1), name[sizeof name - 1] = 0;
  for (int i = 0; i < 100; i++) EXPECT(aster_ml_trace_scope_begin(name) == 0);
  EXPECT(compute(data) == 0 && strlen(scope) == strlen("encoder/") + strlen(name));
  for (int i = 0; i < 100; i++) EXPECT(aster_ml_trace_scope_end() == 0);
  EXPECT(compute(data) == 0 && strcmp(scope, "encoder") == 0);
  EXPECT(aster_ml_trace_scope_end() == 0);
  EXPECT(aster_ml_engine_trace(&context, NULL, NULL) == 0);
}

/* Why kernels end where they do: x contiguous, sums of rows that a product reads again and again.
 */
static void test_cuts(void) {
  enum { N = 256 };
  static float data[N * N];
  const int64_t shape[] = {N, N};
  aster_ml_lazy x = {0}, root = {0}, stored = {0}, more = {0}, y = {0};
  EXPECT(aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, 2, shape) == 0);
  EXPECT(aster_ml_lazy_exp(&root, &x) == 0);
  EXPECT(aster_ml_lazy_contiguous(&stored, &root) == 0);
  EXPECT(aster_ml_lazy_sin(&more, &stored) == 0);
  EXPECT(aster_ml_lazy_matmul(&y, &more, &stored) == 0);
  aster_ml_lazy *const all[] = {&y};
  cut[0] = 0;
  EXPECT(aster_ml_engine_trace(&context, tell, NULL) == 0);
  EXPECT(aster_ml_lazy_realize(all, 1) == 0);
  EXPECT(aster_ml_engine_trace(&context, NULL, NULL) == 0);
  EXPECT(strstr(cut, "asked for in memory|") != NULL && strstr(cut, "a result|") != NULL);
  char text[4096];
  EXPECT(aster_ml_engine_print_schedule(text, sizeof text, &context) == 0);
  EXPECT(strstr(text, "stored: asked for in memory\n") != NULL);
  EXPECT(strstr(text, "stored: a result\n") != NULL);
  aster_ml_lazy *const made[] = {&x, &root, &stored, &more, &y};
  for (size_t i = 0; i < 5; i++) EXPECT(aster_ml_lazy_free(made[i]) == 0);
}

/* A folder that goes while it is traced, and a device that is full: statuses, and nothing is left
 * that is half of something; what was to be computed can be computed afterwards. */
static void test_full(aster_ml_trace_config *config, const char *folder) {
  const float data[] = {1, 4, 9, 16};
  char gone[300], file[300];
  snprintf(gone, sizeof gone, "%s/gone", folder);
  snprintf(file, sizeof file, "%s/full.txt", folder);
  const aster_ml_trace_config before = *config;
  aster_ml_context own = {0}, usual = context;
  EXPECT(aster_ml_context_init(&own, NULL) == 0);
  context = own;
  config->debug = ASTER_ML_DEBUG_NONE;
  config->dump_programs = gone;
  config->profile = file;
  EXPECT(aster_ml_trace_configure(&context, config) == 0 && rmdir(gone) == 0);
  EXPECT(compute(data) == ASTER_ML_IO && says("gone"));
  config->dump_programs = NULL;
  EXPECT(aster_ml_trace_configure(&context, config) == 0);
  EXPECT(compute(data) == 0);
  struct rlimit old, small = {16, 0};
  EXPECT(getrlimit(RLIMIT_FSIZE, &old) == 0);
  small.rlim_max = old.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  EXPECT(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const int32_t status = aster_ml_trace_configure(&context, NULL);
  EXPECT(setrlimit(RLIMIT_FSIZE, &old) == 0);
  EXPECT(status == ASTER_ML_IO && says("full.txt"));
  EXPECT(size_of(folder, "full.txt") == -1 && compute(data) == 0);
  EXPECT(aster_ml_context_free(&own) == 0);
  context = usual;
  *config = before;
}

/* What the machine can do is measured once, and kept. */
static void test_limits(const char *cache_dir) {
  aster_ml_context_options options = {.struct_size = sizeof options, .cache_dir = cache_dir};
  aster_ml_context own = {0};
  EXPECT(aster_ml_context_init(&own, &options) == 0);
  aster_ml_runtime_limits limits = {.struct_size = sizeof limits}, again = limits;
  EXPECT(aster_ml_runtime_measure(&limits, &own) == 0);
  EXPECT(limits.gflops > 1 && limits.gbytes > 0.1 && limits.threads >= 1);
  aster_ml_runtime_info info = {.struct_size = sizeof info};
  EXPECT(aster_ml_runtime_get(&info, &own) == 0);
  EXPECT(aster_ml_runtime_measure(&again, &own) == 0);
  if (info.cache_problem[0] == 0 && info.cache_dir[0] != 0) EXPECT(again.gflops == limits.gflops);
  EXPECT(aster_ml_runtime_measure(NULL, &own) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_cache_clear(&own) == 0 && aster_ml_context_free(&own) == 0);
}

int main(void) {
  const float good[] = {1, 4, 9, 16}, bad[] = {1, -4, 9, 16};
  char folder[] = "/tmp/aster_trace_XXXXXX", file[64];
  EXPECT(mkdtemp(folder) != NULL);
  snprintf(file, sizeof file, "%s/profile.json", folder);
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  EXPECT(aster_ml_engine_trace(&context, tell, NULL) == 0);

  test_scopes(good);
  test_cuts();
  test_limits(folder);
  told = 0;
  EXPECT(aster_ml_engine_trace(&context, tell, NULL) == 0);
  aster_ml_trace_config config = {.struct_size = sizeof config, .debug = ASTER_ML_DEBUG_NAN};
  EXPECT(aster_ml_trace_configure(&context, &config) == 0);
  EXPECT(compute(good) == 0);
  EXPECT(told == 1); /* who was told before is told still */
  EXPECT(compute(bad) == ASTER_ML_NUMERIC && says("wrote NaN: element 1 of float32[4]"));
  config.debug = ASTER_ML_DEBUG_COMPARE;
  EXPECT(aster_ml_trace_configure(&context, &config) == 0);
  EXPECT(compute(good) == 0 && compute(bad) == 0);
  config.debug = 4;
  EXPECT(aster_ml_trace_configure(&context, &config) == ASTER_ML_ARGUMENT);
  config.debug = ASTER_ML_DEBUG_TENSORS;
  config.dump_programs = folder;
  config.profile = file;
  EXPECT(aster_ml_trace_configure(&context, &config) == 0);
  EXPECT(aster_ml_engine_trace(&context, NULL, NULL) == 0);
  const int before = told;
  EXPECT(compute(good) == 0);
  EXPECT(told == before);
  EXPECT(size_of(folder, "values.txt") > 0 && size_of(folder, "profile.json") == -1);
  EXPECT(aster_ml_trace_configure(&context, NULL) == 0);
  EXPECT(size_of(folder, "profile.json") > 0);
  EXPECT(aster_ml_trace_configure(&context, NULL) == 0); /* there is none */

  test_full(&config, folder);

  config.dump_programs = file; /* no directory */
  EXPECT(aster_ml_trace_configure(&context, &config) == ASTER_ML_IO && says("profile.json"));
  config.dump_programs = "/no/such/folder";
  EXPECT(aster_ml_trace_configure(&context, &config) == ASTER_ML_IO && says("/no/such/folder"));
  config.dump_programs = NULL;
  config.profile = "/no/such/folder/profile";
  EXPECT(aster_ml_trace_configure(&context, &config) == 0);
  EXPECT(compute(good) == 0);
  EXPECT(aster_ml_trace_configure(&context, NULL) == ASTER_ML_IO);
  config.struct_size = 0;
  EXPECT(aster_ml_trace_configure(&context, &config) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_trace_configure(NULL, NULL) == ASTER_ML_ARGUMENT);

  snprintf(file, sizeof file, "%s/values.txt", folder);
  unlink(file);
  snprintf(file, sizeof file, "%s/profile.json", folder);
  unlink(file);
  rmdir(folder);
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
