#include "program_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_device_state g_state;
program_device_state *program_device(void) { return &g_state; }

#define COUNT(counter, by) __atomic_fetch_add(&g_state.counter, by, __ATOMIC_RELAXED)

/* ---- Memory: blocks by addresses that the host has not. ---- */

typedef struct block {
  size_t bytes;
  char data[];
} block;
static const uintptr_t kElsewhere = (uintptr_t)1 << 63;

static char *find(const void *data, size_t offset, size_t bytes) {
  block *b = (block *)((uintptr_t)data ^ kElsewhere);
  return offset <= b->bytes && bytes <= b->bytes - offset ? b->data + offset : NULL;
}
static int32_t allocate(void *self, void **out, int32_t index, size_t bytes) {
  (void)self, (void)index;
  block *b = malloc(sizeof(*b) + bytes);
  if (b == NULL) return ASTER_ML_MEMORY;
  b->bytes = bytes;
  *out = (void *)((uintptr_t)b ^ kElsewhere);
  COUNT(blocks, 1);
  return ASTER_ML_OK;
}
static void release(void *self, int32_t index, void *data, size_t bytes) {
  (void)self, (void)index, (void)bytes;
  free((void *)((uintptr_t)data ^ kElsewhere));
  COUNT(blocks, -1);
}
static int32_t copy_in(void *self, int32_t index, void *data, size_t offset, const void *host,
                       size_t bytes) {
  (void)self, (void)index;
  char *to = find(data, offset, bytes);
  if (to == NULL) return ASTER_ML_ARGUMENT;
  memcpy(to, host, bytes);
  return ASTER_ML_OK;
}
static int32_t copy_out(void *self, int32_t index, void *host, const void *data, size_t offset,
                        size_t bytes) {
  (void)self, (void)index;
  const char *from = find(data, offset, bytes);
  if (from == NULL) return ASTER_ML_ARGUMENT;
  memcpy(host, from, bytes);
  return ASTER_ML_OK;
}

/* ---- Programs ---- */

enum { kAxes = 4, kSources = 4, kName = 24 };
typedef struct node {
  char name[kName];
  int ndim, sources, source[kSources], words;
  long long shape[kAxes], word[kAxes];
  size_t count;
  double number;     /* of a Const */
  float *values;     /* that it has: its own, or those of what it only shows */
  float *own;        /* to be freed */
  const void *fixed; /* of a Constant */
  int input;         /* of an Input, else -1 */
} node;
typedef struct program {
  size_t count, room, inputs, outputs;
  node *nodes;
  int *output; /* nodes */
} program;

static void free_program(program *p) {
  for (size_t i = 0; i < p->count; ++i) free(p->nodes[i].own);
  free(p->nodes);
  free(p->output);
  free(p);
  COUNT(programs, -1);
}

static const char *const kKnown[] = {
    "Input",  "Constant", "State",      "Const",      "Add",        "Mul",        "Sub",
    "Max",    "Neg",      "Sqrt",       "Reciprocal", "Reshape",    "Expand",     "After",
    "Detach", "Assign",   "Contiguous", "Reduce:Add", "Reduce:Max", "Call:Matmul"};
static int is_known(const char *name) {
  for (size_t i = 0; i < sizeof(kKnown) / sizeof(kKnown[0]); ++i) {
    if (strcmp(kKnown[i], name) == 0) return 1;
  }
  return 0;
}
static int is(const node *n, const char *name) { return strcmp(n->name, name) == 0; }

/* "%3 = Mul float32[2, 4] %0 %2 (1)"; what is wrong, or null. */
static const char *read_node(node *out, const char *line, const aster_ml_device_program *given) {
  static _Thread_local char why[80];
  char dtype[kName];
  int at = 0, number = 0;
  memset(out, 0, sizeof(*out));
  out->input = -1;
  if (sscanf(line, "%%%d = %23s %23[a-z0-9]%n", &number, out->name, dtype, &at) != 3)
    return "a line that is no node";
  snprintf(why, sizeof(why), "no %s is known", out->name);
  if (!is_known(out->name)) return why;
  if (strcmp(dtype, "float32") != 0) return "no dtype but float32 is known";
  line += at;
  out->count = 1;
  if (*line == '[') {
    do {
      char *end;
      if (out->ndim == kAxes) return "more than four axes";
      out->shape[out->ndim] = strtoll(line + 1, &end, 10);
      out->count *= (size_t)out->shape[out->ndim++];
      line = end;
    } while (*line == ',');
    ++line;
  }
  while (line[0] == ' ' && line[1] == '%') {
    char *end;
    if (out->sources == kSources) return "more than four sources";
    out->source[out->sources++] = (int)strtol(line + 2, &end, 10);
    line = end;
  }
  if (line[0] == ' ' && line[1] == '@')
    out->fixed = (const char *)given->constants + strtoull(line + 2, NULL, 10);
  if (line[0] == ' ' && line[1] == '(') {
    ++line;
    do {
      char *end;
      if (out->words == kAxes) return "more than four arguments";
      out->word[out->words++] = strtoll(line + 1, &end, 10);
      line = end;
    } while (*line == ',');
  }
  if (is(out, "Const")) memcpy(&out->number, &out->word[0], sizeof(out->number));
  if ((is(out, "Constant") || is(out, "State")) && out->fixed == NULL)
    return "no bytes in the text are known";
  return NULL;
}

static int32_t read_program(program *p, const aster_ml_device_program *given, const char **why) {
  for (const char *line = given->text; line != NULL && *line != 0;) {
    const char *end = strchr(line, '\n');
    if (*line == '%') {
      if (p->count == p->room) {
        p->room = 2 * p->room + 16;
        node *more = realloc(p->nodes, p->room * sizeof(node));
        if (more == NULL) return ASTER_ML_MEMORY;
        p->nodes = more;
      }
      node *n = &p->nodes[p->count];
      *why = read_node(n, line, given);
      if (*why != NULL) return ASTER_ML_UNSUPPORTED;
      ++p->count;
      if (is(n, "Input")) n->input = (int)p->inputs++;
      const int shows = is(n, "Reshape") || is(n, "After") || is(n, "Detach") || is(n, "Assign") ||
                        is(n, "Contiguous") || n->input >= 0;
      if (!shows && n->count != 0) {
        n->values = n->own = malloc(n->count * sizeof(float));
        if (n->own == NULL) return ASTER_ML_MEMORY;
        if (n->fixed != NULL) memcpy(n->own, n->fixed, n->count * sizeof(float));
      }
    } else if (strncmp(line, "output %", 8) == 0) {
      int *more = realloc(p->output, (p->outputs + 1) * sizeof(int));
      if (more == NULL) return ASTER_ML_MEMORY;
      p->output = more;
      p->output[p->outputs++] = atoi(line + 8);
    } else if (strncmp(line, "aster ", 6) != 0 && strncmp(line, "note ", 5) != 0 &&
               strncmp(line, "realize ", 8) != 0 && strncmp(line, "end", 3) != 0) {
      *why = "a line that is not known";
      return ASTER_ML_UNSUPPORTED;
    }
    line = end == NULL ? NULL : end + 1;
  }
  return ASTER_ML_OK;
}

static int32_t take_program(void *self, void **taken, int32_t index,
                            const aster_ml_device_program *given, char *log, size_t room) {
  (void)self, (void)index;
  const char *why = NULL;
  if (g_state.fault == PROGRAM_DEVICE_TAKES_NONE) return ASTER_ML_UNSUPPORTED;
  if (g_state.fault == PROGRAM_DEVICE_LOST) {
    snprintf(log, room, "the plug is out");
    return ASTER_ML_DEVICE;
  }
  program *p = calloc(1, sizeof(*p));
  if (p == NULL) return ASTER_ML_MEMORY;
  COUNT(programs, 1);
  int32_t status = read_program(p, given, &why);
  if (status == ASTER_ML_OK &&
      (p->inputs != given->input_count || p->outputs != given->output_count ||
       given->text[given->text_bytes] != 0)) {
    status = ASTER_ML_INTERNAL;
  }
  if (status != ASTER_ML_OK) {
    snprintf(log, room, "%s", why != NULL ? why : "it does not read");
    COUNT(refused, 1);
    free_program(p);
    return status;
  }
  COUNT(taken, 1);
  *taken = p;
  return ASTER_ML_OK;
}

/* Where an element of a result is in a source of as many axes, in which some are one long. */
static size_t place(const node *to, const node *from, size_t i) {
  size_t at = 0, step = 1;
  for (int axis = to->ndim; axis-- > 0; i /= (size_t)to->shape[axis]) {
    const size_t size = (size_t)from->shape[axis];
    at += (size == 1 ? 0 : i % (size_t)to->shape[axis]) * step;
    step *= size;
  }
  return at;
}

static void multiply(node *to, const node *a, const node *b) {
  const size_t n = (size_t)to->shape[to->ndim - 1], k = (size_t)a->shape[a->ndim - 1];
  const size_t m = (size_t)to->shape[to->ndim - 2];
  for (size_t i = 0; i < to->count; ++i) {
    const size_t row = i / n % m, batch = i / n / m;
    const float *const x = a->values + (a->count == m * k ? 0 : batch * m * k) + row * k;
    const float *const y = b->values + (b->count == k * n ? 0 : batch * k * n) + i % n;
    float sum = 0;
    for (size_t j = 0; j < k; ++j) sum = fmaf(x[j], y[j * n], sum);
    to->values[i] = sum;
  }
}

static float apply(const node *n, float a, float b) {
  if (is(n, "Add")) return a + b;
  if (is(n, "Sub")) return a - b;
  if (is(n, "Mul")) return a * b;
  if (is(n, "Max")) return a > b ? a : b;
  if (is(n, "Neg")) return -a;
  if (is(n, "Sqrt")) return sqrtf(a);
  return 1 / a; /* Reciprocal */
}

static void compute(program *p, node *n) {
  const node *a = n->sources > 0 ? &p->nodes[n->source[0]] : NULL;
  const node *b = n->sources > 1 ? &p->nodes[n->source[1]] : a;
  if (n->input >= 0 || n->fixed != NULL) return;
  if (is(n, "Assign")) memmove(a->values, b->values, n->count * sizeof(float));
  if (n->own == NULL) {
    n->values = a->values;
    return;
  }
  if (is(n, "Call:Matmul")) {
    /* Its body stands before its operands where it has one. */
    multiply(n, &p->nodes[n->source[n->sources - 2]], &p->nodes[n->source[n->sources - 1]]);
    return;
  }
  if (strncmp(n->name, "Reduce:", 7) == 0) {
    const int add = is(n, "Reduce:Add");
    for (size_t i = 0; i < n->count; ++i) n->values[i] = add ? 0 : -INFINITY;
    for (size_t i = 0; i < a->count; ++i) {
      float *to = &n->values[place(a, n, i)];
      *to = add ? *to + a->values[i] : *to > a->values[i] ? *to : a->values[i];
    }
    return;
  }
  for (size_t i = 0; i < n->count; ++i) {
    if (is(n, "Const")) {
      n->values[i] = (float)n->number;
    } else if (is(n, "Expand")) {
      n->values[i] = a->values[place(n, a, i)];
    } else {
      n->values[i] = apply(n, a->values[i], b->values[i]);
    }
  }
}

static int32_t execute_program(void *self, int32_t index, void *taken,
                               const aster_ml_device_array *inputs, size_t input_count,
                               aster_ml_device_array *outputs, size_t output_count) {
  (void)self, (void)index;
  program *p = taken;
  COUNT(executed, 1);
  if (g_state.fault == PROGRAM_DEVICE_FAILS) return ASTER_ML_DEVICE;
  if (input_count != p->inputs || output_count != p->outputs) return ASTER_ML_INTERNAL;
  for (size_t i = 0; i < p->count; ++i) {
    node *n = &p->nodes[i];
    if (n->input >= 0) {
      const aster_ml_device_array *in = &inputs[n->input];
      if (in->dtype != ASTER_ML_DTYPE_FLOAT32 || (int)in->ndim != n->ndim ||
          memcmp(in->shape, n->shape, in->ndim * sizeof(int64_t)) != 0)
        return ASTER_ML_INTERNAL;
      n->values = (float *)find(in->data, in->offset, in->bytes);
      if (n->values == NULL) return ASTER_ML_RANGE;
    }
    compute(p, n);
  }
  for (size_t i = 0; i < output_count; ++i) {
    const node *n = &p->nodes[p->output[i]];
    char *to = find(outputs[i].data, outputs[i].offset, outputs[i].bytes);
    if (to == NULL || outputs[i].bytes != n->count * sizeof(float)) return ASTER_ML_RANGE;
    memcpy(to, n->values, outputs[i].bytes);
    if (g_state.fault == PROGRAM_DEVICE_SAYS_NOTHING) continue;
    outputs[i].dtype = ASTER_ML_DTYPE_FLOAT32;
    outputs[i].ndim = (uint32_t)n->ndim;
    for (int axis = 0; axis < n->ndim; ++axis) outputs[i].shape[axis] = n->shape[axis];
    if (g_state.fault == PROGRAM_DEVICE_WRONG_DTYPE) outputs[i].dtype = ASTER_ML_DTYPE_INT32;
    if (g_state.fault == PROGRAM_DEVICE_WRONG_SHAPE) ++outputs[i].shape[0];
    if (g_state.fault == PROGRAM_DEVICE_WRONG_RANK) outputs[i].ndim = 4000000000u;
  }
  return ASTER_ML_OK;
}

static void drop_program(void *self, int32_t index, void *taken) {
  (void)self, (void)index;
  free_program(taken);
}

int32_t program_device_register(int32_t *out, const char *name) {
  const aster_ml_backend backend = {.struct_size = sizeof(backend),
                                    .allocate = allocate,
                                    .release = release,
                                    .copy_in = copy_in,
                                    .copy_out = copy_out,
                                    .take_program = take_program,
                                    .execute_program = execute_program,
                                    .drop_program = drop_program};
  return aster_ml_device_register(out, name, &backend);
}
