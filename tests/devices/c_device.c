#define _GNU_SOURCE
#include "c_device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static c_device_state g_state;
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;

c_device_state *c_device(void) { return &g_state; }

void c_device_mend(void) {
  pthread_mutex_lock(&g_mutex);
  g_state.fail_allocate = g_state.fail_build = g_state.fail_submit = g_state.fail_copy = 0;
  g_state.fail_command = g_state.without_double = 0;
  g_state.beyond = g_state.bad_text = g_state.bad_word = g_state.said = NULL;
  pthread_mutex_unlock(&g_mutex);
}

/* A failure, with words of its own where it is told to. */
static int32_t fails(int32_t status) {
  int32_t none;
  if (g_state.said != NULL) aster_ml_device_from_name(&none, g_state.said);
  return status;
}

static void count(int64_t *counter, int64_t by) {
  __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

/* ---- Memory: block i has address kFaulting | i << kBlockShift. ---- */

enum { kBlocks = 65536, kBlockShift = 40 };
static const uint64_t kFaulting = (uint64_t)1 << 63;
static struct {
  char *real;
  size_t bytes;
} g_blocks[kBlocks];

/* The memory of bytes from an address and an offset on; null if that is not all in one block. */
static char *resolve(const void *data, size_t offset, size_t bytes) {
  const uint64_t address = (uint64_t)(uintptr_t)data;
  const size_t block = (size_t)((address & ~kFaulting) >> kBlockShift);
  if ((address & kFaulting) == 0 || block >= kBlocks) return NULL;
  if ((address & (((uint64_t)1 << kBlockShift) - 1)) != 0) return NULL;
  char *result = NULL;
  pthread_mutex_lock(&g_mutex);
  if (g_blocks[block].real != NULL && offset <= g_blocks[block].bytes &&
      bytes <= g_blocks[block].bytes - offset)
    result = g_blocks[block].real + offset;
  pthread_mutex_unlock(&g_mutex);
  return result;
}

static int32_t device_allocate(void *self, void **out, int32_t index, size_t bytes) {
  (void)self, (void)index;
  int32_t status = ASTER_ML_MEMORY;
  pthread_mutex_lock(&g_mutex);
  static size_t next = 0; /* addresses come back late */
  if (g_state.fail_allocate != 0) {
    status = fails(g_state.fail_allocate);
  } else {
    for (size_t tried = 0; tried < kBlocks && status != ASTER_ML_OK; ++tried) {
      const size_t block = next++ % kBlocks;
      if (g_blocks[block].real != NULL) continue;
      if ((g_blocks[block].real = aligned_alloc(64, (bytes + 64) / 64 * 64)) == NULL) break;
      g_blocks[block].bytes = bytes;
      ++g_state.blocks;
      *out = (void *)(uintptr_t)(kFaulting | (uint64_t)block << kBlockShift);
      status = ASTER_ML_OK;
    }
  }
  pthread_mutex_unlock(&g_mutex);
  return status;
}

static void device_release(void *self, int32_t index, void *data, size_t bytes) {
  (void)self, (void)index, (void)bytes;
  pthread_mutex_lock(&g_mutex);
  const size_t block = (size_t)(((uint64_t)(uintptr_t)data & ~kFaulting) >> kBlockShift);
  free(g_blocks[block].real);
  g_blocks[block].real = NULL;
  --g_state.blocks;
  pthread_mutex_unlock(&g_mutex);
}

static int32_t device_copy_in(void *self, int32_t index, void *data, size_t offset,
                              const void *host, size_t bytes) {
  (void)self, (void)index;
  char *to = resolve(data, offset, bytes);
  if (g_state.fail_copy != 0) return fails(g_state.fail_copy);
  if (to == NULL) return ASTER_ML_ARGUMENT;
  memcpy(to, host, bytes);
  count(&g_state.ins, 1);
  count(&g_state.in_bytes, (int64_t)bytes);
  return ASTER_ML_OK;
}

static int32_t device_copy_out(void *self, int32_t index, void *host, const void *data,
                               size_t offset, size_t bytes) {
  (void)self, (void)index;
  const char *from = resolve(data, offset, bytes);
  if (g_state.fail_copy != 0) return fails(g_state.fail_copy);
  if (from == NULL) return ASTER_ML_ARGUMENT;
  memcpy(host, from, bytes);
  count(&g_state.outs, 1);
  count(&g_state.out_bytes, (int64_t)bytes);
  return ASTER_ML_OK;
}

static int32_t device_copy(void *self, int32_t index, void *data, size_t offset, const void *source,
                           size_t source_offset, size_t bytes) {
  (void)self, (void)index;
  char *to = resolve(data, offset, bytes);
  const char *from = resolve(source, source_offset, bytes);
  if (g_state.fail_copy != 0) return fails(g_state.fail_copy);
  if (to == NULL || from == NULL) return ASTER_ML_ARGUMENT;
  memmove(to, from, bytes);
  return ASTER_ML_OK;
}

/* ---- Modules: a shared object each. ---- */

typedef void (*kernel_function)(void *const *params, const long long *sizes, void *scratch,
                                long long begin, long long end);
typedef struct function {
  kernel_function run;
  size_t scratch_bytes;
} function;
typedef struct module {
  void *library;
  function functions[];
} module;

static int32_t device_describe(void *self, int32_t index, aster_ml_device_info *out) {
  (void)self, (void)index;
  out->kind = ASTER_ML_DEVICE_KIND_CPU;
  out->forms = ASTER_ML_CODE_C;
  out->flags = g_state.without_double ? 0 : ASTER_ML_DEVICE_FP64;
  out->vector_bytes = 16;
  out->compute_units = 2;
  snprintf(out->name, sizeof(out->name), "C device %d", index);
  snprintf(out->driver, sizeof(out->driver), "cc");
  return ASTER_ML_OK;
}

static int write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (file == NULL) return 0;
  if (g_state.bad_text != NULL && (g_state.bad_word == NULL || strstr(text, g_state.bad_word)))
    fputs(g_state.bad_text, file);
  fputs(text, file);
  return fclose(file) == 0;
}

/* Compiles the texts in a folder, which is empty again afterwards. */
static int32_t compile(void **library, const char *folder, const aster_ml_code *codes,
                       const int *wanted, size_t count_of, char *log, size_t room) {
  const size_t length = strlen(folder) + 32;
  char *command = malloc(256 + count_of * length), *path = malloc(length);
  if (command == NULL || path == NULL) {
    free(command), free(path);
    return ASTER_ML_MEMORY;
  }
  int32_t status = ASTER_ML_OK;
  char *at = command + sprintf(command,
                               "cc -std=gnu11 -O1 -w -shared -fPIC -ffp-contract=off -fwrapv "
                               "-fno-strict-aliasing -fno-math-errno -o %s/m.so",
                               folder);
  for (size_t i = 0; i < count_of; ++i) {
    if (!wanted[i]) continue;
    sprintf(path, "%s/%zu.c", folder, i);
    if (!write_text(path, codes[i].text)) status = ASTER_ML_IO;
    at += sprintf(at, " %s", path);
  }
  strcpy(at, " -lm 2>&1");
  FILE *compiler = status == ASTER_ML_OK ? popen(command, "r") : NULL;
  if (compiler != NULL) {
    const size_t said = room != 0 ? fread(log, 1, room - 1, compiler) : 0;
    if (room != 0) log[said] = '\0';
    while (fgetc(compiler) != EOF) {
    }
    if (pclose(compiler) != 0) status = ASTER_ML_COMPILE;
  } else if (status == ASTER_ML_OK) {
    status = ASTER_ML_IO;
  }
  sprintf(path, "%s/m.so", folder);
  if (status == ASTER_ML_OK && (*library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) == NULL)
    status = ASTER_ML_COMPILE;
  unlink(path);
  for (size_t i = 0; i < count_of; ++i) {
    sprintf(path, "%s/%zu.c", folder, i);
    unlink(path);
  }
  free(command), free(path);
  return status;
}

static int32_t device_build(void *self, void **out, void **functions, int32_t index,
                            const aster_ml_code *codes, size_t count_of, char *log, size_t room) {
  (void)self, (void)index;
  char folder[] = "/tmp/c_device_XXXXXX";
  count(&g_state.builds, 1);
  if (g_state.fail_build != 0) {
    snprintf(log, room, "it was told to fail");
    return g_state.fail_build;
  }
  int any = 0, *wanted = calloc(count_of, sizeof(*wanted));
  module *made = calloc(1, sizeof(*made) + count_of * sizeof(function));
  if (made == NULL || wanted == NULL || mkdtemp(folder) == NULL) {
    free(made), free(wanted);
    return ASTER_ML_MEMORY;
  }
  int32_t status = ASTER_ML_OK;
  for (size_t i = 0; i < count_of; ++i) {
    if (codes[i].form != ASTER_ML_CODE_C || strlen(codes[i].text) != codes[i].length)
      status = ASTER_ML_ARGUMENT;
    wanted[i] = g_state.beyond == NULL || strstr(codes[i].text, g_state.beyond) == NULL;
    any |= wanted[i];
  }
  if (status == ASTER_ML_OK && !any) status = ASTER_ML_UNSUPPORTED;
  if (status == ASTER_ML_OK)
    status = compile(&made->library, folder, codes, wanted, count_of, log, room);
  rmdir(folder);
  for (size_t i = 0; status == ASTER_ML_OK && i < count_of; ++i) {
    if (!wanted[i]) continue;
    *(void **)(&made->functions[i].run) = dlsym(made->library, codes[i].name);
    made->functions[i].scratch_bytes = codes[i].scratch_bytes;
    functions[i] = &made->functions[i];
    if (made->functions[i].run == NULL) status = ASTER_ML_COMPILE;
    count(&g_state.kernels, 1);
  }
  free(wanted);
  if (status != ASTER_ML_OK) {
    if (made->library != NULL) dlclose(made->library);
    free(made);
    return status;
  }
  __atomic_fetch_add(&g_state.modules, 1, __ATOMIC_RELAXED);
  *out = made;
  return ASTER_ML_OK;
}

static void device_unbuild(void *self, int32_t index, void *data) {
  (void)self, (void)index;
  module *old = data;
  dlclose(old->library);
  free(old);
  __atomic_fetch_sub(&g_state.modules, 1, __ATOMIC_RELAXED);
}

/* ---- Queues: a thread each, which takes commands in order. ---- */

typedef struct job {
  struct job *next;
  aster_ml_command command;
  uint64_t ticket; /* of the last command of a submit, else 0 */
} job;
typedef struct queue {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  job *first, **last;
  uint64_t given, done;
  int32_t failed; /* once lost, lost */
  int ends;
} queue;

typedef struct half {
  const function *what;
  void *const *params;
  const int64_t *sizes;
  long long begin, end;
} half;

static void *run_half(void *data) {
  const half *h = data;
  void *scratch = NULL;
  if (h->what->scratch_bytes != 0)
    scratch = aligned_alloc(64, (h->what->scratch_bytes + 63) / 64 * 64);
  h->what->run(h->params, (const long long *)h->sizes, scratch, h->begin, h->end);
  free(scratch);
  return NULL;
}

/* Two threads share the tasks of what takes long. */
static int32_t run_launch(const aster_ml_command *c) {
  void *params[256];
  if (c->operand_count > 256 || c->groups[0] != 0) return ASTER_ML_UNSUPPORTED;
  for (uint32_t i = 0; i < c->operand_count; ++i) {
    params[i] = resolve(c->operands[i], c->offsets[i], 0);
    if (params[i] == NULL) return ASTER_ML_ARGUMENT;
  }
  half low = {c->function, params, c->sizes, 0, c->tasks}, high = low;
  pthread_t other;
  const int shared = c->tasks > 1 && c->nanoseconds > 50e3;
  if (shared) low.end = high.begin = c->tasks / 2;
  if (shared && pthread_create(&other, NULL, run_half, &high) != 0) return ASTER_ML_MEMORY;
  run_half(&low);
  if (shared) pthread_join(other, NULL);
  count(&g_state.launches, 1);
  return ASTER_ML_OK;
}

static int32_t run_command(const aster_ml_command *c) {
  pthread_mutex_lock(&g_mutex);
  const int fails = g_state.fail_command > 0 && --g_state.fail_command == 0;
  if (fails) g_state.fail_command = 1; /* and all that follow */
  pthread_mutex_unlock(&g_mutex);
  if (fails) return ASTER_ML_DEVICE;
  switch (c->kind) {
    case ASTER_ML_COMMAND_LAUNCH:
      return run_launch(c);
    case ASTER_ML_COMMAND_COPY_IN:
      return device_copy_in(NULL, 0, c->to, c->to_offset, c->from, c->bytes);
    case ASTER_ML_COMMAND_COPY_OUT:
      return device_copy_out(NULL, 0, c->to, c->from, c->from_offset, c->bytes);
    case ASTER_ML_COMMAND_COPY:
      return device_copy(NULL, 0, c->to, c->to_offset, c->from, c->from_offset, c->bytes);
    default:
      return ASTER_ML_UNSUPPORTED;
  }
}

static void *work(void *data) {
  queue *q = data;
  pthread_mutex_lock(&q->mutex);
  for (;;) {
    while (q->first == NULL && !q->ends) pthread_cond_wait(&q->changed, &q->mutex);
    job *next = q->first;
    if (next == NULL) break;
    const int32_t before = q->failed;
    pthread_mutex_unlock(&q->mutex);
    const int32_t status = before != ASTER_ML_OK ? before : run_command(&next->command);
    pthread_mutex_lock(&q->mutex);
    q->failed = status;
    if (next->ticket != 0) q->done = next->ticket;
    if ((q->first = next->next) == NULL) q->last = &q->first;
    free(next);
    pthread_cond_broadcast(&q->changed);
  }
  pthread_mutex_unlock(&q->mutex);
  return NULL;
}

static int32_t device_open(void *self, void **out, int32_t index, uint32_t flags) {
  (void)self, (void)index, (void)flags;
  queue *q = calloc(1, sizeof(*q));
  if (q == NULL) return ASTER_ML_MEMORY;
  q->last = &q->first;
  pthread_mutex_init(&q->mutex, NULL);
  pthread_cond_init(&q->changed, NULL);
  if (pthread_create(&q->thread, NULL, work, q) != 0) {
    free(q);
    return ASTER_ML_MEMORY;
  }
  __atomic_fetch_add(&g_state.queues, 1, __ATOMIC_RELAXED);
  *out = q;
  return ASTER_ML_OK;
}

static void device_close(void *self, int32_t index, void *data) {
  (void)self, (void)index;
  queue *q = data;
  pthread_mutex_lock(&q->mutex);
  q->ends = 1;
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->mutex);
  pthread_join(q->thread, NULL);
  pthread_mutex_destroy(&q->mutex);
  pthread_cond_destroy(&q->changed);
  free(q);
  __atomic_fetch_sub(&g_state.queues, 1, __ATOMIC_RELAXED);
}

/* A command with copies of its arrays behind it. */
static job *make_job(const aster_ml_command *c) {
  const size_t n = c->kind == ASTER_ML_COMMAND_LAUNCH ? c->operand_count : 0;
  const size_t sizes = c->kind == ASTER_ML_COMMAND_LAUNCH ? c->size_count : 0;
  job *j = calloc(1, sizeof(*j) + n * (sizeof(void *) + sizeof(size_t)) + sizes * sizeof(int64_t));
  if (j == NULL) return NULL;
  j->command = *c;
  if (n + sizes == 0) return j;
  int64_t *copied_sizes = (int64_t *)(j + 1);
  void **operands = (void **)(copied_sizes + sizes);
  size_t *offsets = (size_t *)(operands + n);
  if (sizes != 0) memcpy(copied_sizes, c->sizes, sizes * sizeof(int64_t));
  memcpy(operands, c->operands, n * sizeof(void *));
  memcpy(offsets, c->offsets, n * sizeof(size_t));
  j->command.sizes = copied_sizes;
  j->command.operands = operands;
  j->command.offsets = offsets;
  return j;
}

static int32_t device_submit(void *self, uint64_t *ticket, int32_t index, void *data,
                             const aster_ml_command *commands, size_t count_of) {
  (void)self, (void)index;
  queue *q = data;
  job *first = NULL, **last = &first;
  if (g_state.fail_submit != 0) return fails(g_state.fail_submit);
  for (size_t i = 0; i < count_of; ++i) {
    if ((*last = make_job(&commands[i])) == NULL) {
      while (first != NULL) {
        job *next = first->next;
        free(first);
        first = next;
      }
      return ASTER_ML_MEMORY;
    }
    if (i + 1 < count_of) last = &(*last)->next;
  }
  count(&g_state.submits, 1);
  pthread_mutex_lock(&q->mutex);
  *ticket = (*last)->ticket = ++q->given;
  *q->last = first;
  q->last = &(*last)->next;
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->mutex);
  return ASTER_ML_OK;
}

static int32_t device_wait(void *self, int32_t index, void *data, uint64_t ticket) {
  (void)self, (void)index;
  queue *q = data;
  pthread_mutex_lock(&q->mutex);
  while (q->done < ticket) pthread_cond_wait(&q->changed, &q->mutex);
  const int32_t status = q->failed;
  q->failed = ASTER_ML_OK;
  pthread_mutex_unlock(&q->mutex);
  return status == ASTER_ML_OK ? status : fails(status);
}

int32_t c_device_register(int32_t *out) {
  const aster_ml_backend backend = {.struct_size = sizeof(backend),
                                    .count = 2,
                                    .allocate = device_allocate,
                                    .release = device_release,
                                    .copy_in = device_copy_in,
                                    .copy_out = device_copy_out,
                                    .copy = device_copy,
                                    .describe = device_describe,
                                    .build = device_build,
                                    .unbuild = device_unbuild,
                                    .open = device_open,
                                    .close = device_close,
                                    .submit = device_submit,
                                    .wait = device_wait};
  return aster_ml_device_register(out, "CDEV", &backend);
}
