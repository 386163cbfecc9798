#include "text_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_program.h"

static text_device_state g_state;
text_device_state *text_device(void) { return &g_state; }

#define COUNT(counter, by) __atomic_fetch_add(&g_state.counter, by, __ATOMIC_RELAXED)

/* ---- Memory: blocks by addresses that the host has not. ---- */

typedef struct block {
  size_t bytes;
  char data[];
} block;
static const uintptr_t kElsewhere = (uintptr_t)1 << 63;

static block *block_of(const void *data) { return (block *)((uintptr_t)data ^ kElsewhere); }
/* So many bytes from an offset on, or null. */
static char *find(const void *data, size_t offset, size_t bytes) {
  block *b = block_of(data);
  return offset <= b->bytes && bytes <= b->bytes - offset ? b->data + offset : NULL;
}

static int32_t text_allocate(void *self, void **out, int32_t index, size_t bytes) {
  (void)self, (void)index;
  block *b = malloc(sizeof(*b) + bytes);
  if (b == NULL) return ASTER_ML_MEMORY;
  b->bytes = bytes;
  *out = (void *)((uintptr_t)b ^ kElsewhere);
  COUNT(blocks, 1);
  return ASTER_ML_OK;
}
static void text_release(void *self, int32_t index, void *data, size_t bytes) {
  (void)self, (void)index, (void)bytes;
  free(block_of(data));
  COUNT(blocks, -1);
}
static int32_t text_copy_in(void *self, int32_t index, void *data, size_t offset, const void *host,
                            size_t bytes) {
  (void)self, (void)index;
  char *to = find(data, offset, bytes);
  if (to == NULL) return ASTER_ML_ARGUMENT;
  memcpy(to, host, bytes);
  COUNT(ins, 1);
  return ASTER_ML_OK;
}
static int32_t text_copy_out(void *self, int32_t index, void *host, const void *data, size_t offset,
                             size_t bytes) {
  (void)self, (void)index;
  const char *from = find(data, offset, bytes);
  if (from == NULL) return ASTER_ML_ARGUMENT;
  memcpy(host, from, bytes);
  COUNT(outs, 1);
  return ASTER_ML_OK;
}

/* ---- Kernels: what was read, each a module's own. ---- */

typedef struct module {
  size_t count;
  text_module *kernels[];
} module;

static int32_t text_describe(void *self, int32_t index, aster_ml_device_info *out) {
  (void)self, (void)index;
  out->kind = ASTER_ML_DEVICE_KIND_OTHER;
  out->forms = ASTER_ML_CODE_PROGRAM;
  out->flags = ASTER_ML_DEVICE_FP64 | ASTER_ML_DEVICE_FMA;
  out->vector_bytes = 32;
  snprintf(out->name, sizeof(out->name), "reader of programs");
  return ASTER_ML_OK;
}

static void text_unbuild(void *self, int32_t index, void *data) {
  (void)self, (void)index;
  module *old = data;
  for (size_t i = 0; i < old->count; ++i) {
    if (old->kernels[i] != NULL) text_free(old->kernels[i]);
  }
  free(old);
  COUNT(modules, -1);
}

static int32_t text_build(void *self, void **out, void **functions, int32_t index,
                          const aster_ml_code *codes, size_t count, char *log, size_t room) {
  (void)self, (void)index;
  module *made = calloc(1, sizeof(*made) + count * sizeof(made->kernels[0]));
  if (made == NULL) return ASTER_ML_MEMORY;
  made->count = count;
  for (size_t i = 0; i < count; ++i) {
    char why[sizeof(g_state.why)] = "";
    made->kernels[i] = functions[i] = text_read(codes[i].text, why, sizeof(why));
    if (functions[i] != NULL) {
      COUNT(kernels, 1);
      continue;
    }
    COUNT(refused, 1);
    snprintf(g_state.why, sizeof(g_state.why), "%s", why);
    snprintf(log, room, "%s", why);
  }
  COUNT(modules, 1);
  *out = made;
  return ASTER_ML_OK;
}

/* ---- Queues: what is submitted is done at once. ---- */

typedef struct queue {
  uint64_t given;
} queue;

static int32_t text_open(void *self, void **out, int32_t index, uint32_t flags) {
  (void)self, (void)index, (void)flags;
  if ((*out = calloc(1, sizeof(queue))) == NULL) return ASTER_ML_MEMORY;
  COUNT(queues, 1);
  return ASTER_ML_OK;
}
static void text_close(void *self, int32_t index, void *data) {
  (void)self, (void)index;
  free(data);
  COUNT(queues, -1);
}

static int32_t launch(const aster_ml_command *c) {
  enum { kMost = 256 };
  char *memory[kMost];
  size_t bytes[kMost];
  if (c->operand_count > kMost) return ASTER_ML_UNSUPPORTED;
  for (uint32_t i = 0; i < c->operand_count; ++i) {
    memory[i] = find(c->operands[i], c->offsets[i], 0);
    if (memory[i] == NULL) return ASTER_ML_ARGUMENT;
    bytes[i] = block_of(c->operands[i])->bytes - c->offsets[i];
  }
  COUNT(launches, 1);
  return text_run(c->function, memory, bytes, c->sizes);
}

static int32_t text_submit(void *self, uint64_t *ticket, int32_t index, void *data,
                           const aster_ml_command *commands, size_t count) {
  queue *q = data;
  for (size_t i = 0; i < count; ++i) {
    const aster_ml_command *c = &commands[i];
    int32_t status = ASTER_ML_UNSUPPORTED;
    if (c->kind == ASTER_ML_COMMAND_LAUNCH) status = launch(c);
    if (c->kind == ASTER_ML_COMMAND_COPY_IN)
      status = text_copy_in(self, index, c->to, c->to_offset, c->from, c->bytes);
    if (c->kind == ASTER_ML_COMMAND_COPY_OUT)
      status = text_copy_out(self, index, c->to, c->from, c->from_offset, c->bytes);
    if (status != ASTER_ML_OK) return status;
  }
  *ticket = ++q->given;
  return ASTER_ML_OK;
}
static int32_t text_wait(void *self, int32_t index, void *data, uint64_t ticket) {
  (void)self, (void)index, (void)data, (void)ticket;
  return ASTER_ML_OK;
}

int32_t text_device_register(int32_t *out, const char *name) {
  const aster_ml_backend backend = {.struct_size = sizeof(backend),
                                    .allocate = text_allocate,
                                    .release = text_release,
                                    .copy_in = text_copy_in,
                                    .copy_out = text_copy_out,
                                    .describe = text_describe,
                                    .build = text_build,
                                    .unbuild = text_unbuild,
                                    .open = text_open,
                                    .close = text_close,
                                    .submit = text_submit,
                                    .wait = text_wait};
  return aster_ml_device_register(out, name, &backend);
}
