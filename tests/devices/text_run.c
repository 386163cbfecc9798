#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aster_ml/device.h"
#include "text_program.h"

/* One launch. Functions do not call themselves, so each program has one frame. */
struct text_run {
  const text_module *module;
  char *const *memory;
  const size_t *bytes;
  const int64_t *sizes;
  text_frame *frames;
  int64_t result[kTextLanes]; /* of the function that ended last */
  int32_t status;
};

/* ---- Types ---- */

static const text_type kTypes[] = {{"bool", 1, 0, 0}, {"i8", 1, 0, 1},  {"u8", 1, 0, 0},
                                   {"i16", 2, 0, 1},  {"u16", 2, 0, 0}, {"i32", 4, 0, 1},
                                   {"u32", 4, 0, 0},  {"i64", 8, 0, 1}, {"u64", 8, 0, 0},
                                   {"f32", 4, 1, 1},  {"f64", 8, 1, 1}};

const text_type *text_type_named(const char *name) {
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]); ++i) {
    if (strcmp(name, kTypes[i].name) == 0) return &kTypes[i];
  }
  return NULL;
}
static int is_bool(const text_type *type) { return type == &kTypes[0]; }
static int is_u64(const text_type *type) { return type->bytes == 8 && !type->is_signed; }

static double as_real(int64_t word) {
  double out;
  memcpy(&out, &word, sizeof(out));
  return out;
}
static int64_t as_word(double value) {
  int64_t out;
  memcpy(&out, &value, sizeof(out));
  return out;
}
static int64_t real_word(double value, const text_type *type) {
  return as_word(type->bytes == 4 ? (double)(float)value : value);
}
/* A whole number as its type holds it: what is too long loses its high bits. */
static int64_t whole_word(int64_t value, const text_type *type) {
  if (is_bool(type)) return value != 0;
  if (type->bytes == 8) return value;
  const int past = 64 - 8 * (int)type->bytes;
  const uint64_t high = (uint64_t)value << past;
  return type->is_signed ? (int64_t)high >> past : (int64_t)(high >> past);
}

static int64_t load_word(const char *from, const text_type *type) {
  if (type->is_float && type->bytes == 4) {
    float value;
    memcpy(&value, from, sizeof(value));
    return as_word((double)value);
  }
  int64_t word = 0;
  memcpy(&word, from, type->bytes);
  return whole_word(word, type);
}
static void store_word(char *to, int64_t word, const text_type *type) {
  if (type->is_float && type->bytes == 4) {
    const float value = (float)as_real(word);
    memcpy(to, &value, sizeof(value));
  } else {
    memcpy(to, &word, type->bytes);
  }
}

static int64_t cast_word(int64_t word, const text_type *from, const text_type *to) {
  if (to->is_float) {
    if (from->is_float) return real_word(as_real(word), to);
    if (to->bytes == 4)
      return as_word(is_u64(from) ? (double)(float)(uint64_t)word : (double)(float)word);
    return as_word(is_u64(from) ? (double)(uint64_t)word : (double)word);
  }
  if (!from->is_float) return whole_word(word, to);
  const double value = as_real(word);
  if (is_bool(to)) return value != 0;
  return fabs(value) < 0x1p63 ? whole_word((int64_t)value, to) : 0; /* NaN too */
}

/* ---- Arithmetic ---- */

#define REAL(name, value)                                   \
  static double real_##name(double a, double b, double c) { \
    (void)a, (void)b, (void)c;                              \
    return value;                                           \
  }
#define WHOLE(name, value)                                                              \
  static int64_t whole_##name(int64_t a, int64_t b, int64_t c, const text_type *type) { \
    (void)a, (void)b, (void)c, (void)type;                                              \
    return value;                                                                       \
  }
static int less(int64_t a, int64_t b, const text_type *type) {
  return is_u64(type) ? (uint64_t)a < (uint64_t)b : a < b;
}
static int64_t left(int64_t a, int64_t by, const text_type *type) {
  return by < 0 || by >= 8 * (int64_t)type->bytes ? 0 : (int64_t)((uint64_t)a << by);
}
static int64_t right(int64_t a, int64_t by, const text_type *type) {
  if (by < 0 || by >= 8 * (int64_t)type->bytes) return type->is_signed && a < 0 ? -1 : 0;
  return is_u64(type) ? (int64_t)((uint64_t)a >> by) : a >> by;
}
static int64_t quotient(int64_t a, int64_t b, const text_type *type) {
  if (b == 0) return 0;
  if (is_u64(type)) return (int64_t)((uint64_t)a / (uint64_t)b);
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
/* Of Scale: the integer is in the low bits of b. */
static double scaled(double a, double b, double offset) {
  return isnan(a) || isnan(b) ? a + b : ldexp(a, (int)(b - offset));
}

REAL(neg, -a)
REAL(abs, fabs(a))
REAL(recip, 1 / a)
REAL(sqrt, sqrt(a))
REAL(trunc, trunc(a))
REAL(floor, floor(a))
REAL(ceil, ceil(a))
REAL(round, nearbyint(a))
REAL(add, a + b)
REAL(sub, a - b)
REAL(mul, a *b)
REAL(div, a / b)
REAL(max, isnan(a) ? a : isnan(b) || a < b ? b : a)
REAL(min, isnan(a) ? a : isnan(b) || b < a ? b : a)
REAL(least, a < b ? a : b)
REAL(most, a > b ? a : b)
REAL(lt, a < b)
REAL(le, a <= b)
REAL(eq, a == b)
REAL(ne, a != b)
REAL(fma, fma(a, b, c))
REAL(scale, scaled(a, b, 0x1.8p52))
WHOLE(neg, (int64_t)(0 - (uint64_t)a))
WHOLE(abs, type->is_signed &&a < 0 ? (int64_t)(0 - (uint64_t)a) : a)
WHOLE(not, is_bool(type) ? a == 0 : ~a)
WHOLE(same, a)
WHOLE(add, (int64_t)((uint64_t)a + (uint64_t)b))
WHOLE(sub, (int64_t)((uint64_t)a - (uint64_t)b))
WHOLE(mul, (int64_t)((uint64_t)a *(uint64_t)b))
WHOLE(fma, (int64_t)((uint64_t)a *(uint64_t)b + (uint64_t)c))
WHOLE(max, less(a, b, type) ? b : a)
WHOLE(min, less(b, a, type) ? b : a)
WHOLE(lt, less(a, b, type))
WHOLE(le, !less(b, a, type))
WHOLE(eq, a == b)
WHOLE(ne, a != b)
WHOLE(and, a &b)
WHOLE(or, a | b)
WHOLE(xor, a ^ b)
WHOLE(left, left(a, b, type))
WHOLE(right, right(a, b, type))
WHOLE(quo, quotient(a, b, type))
WHOLE(rem, b == 0 ? a : (int64_t)((uint64_t)a - (uint64_t)b * (uint64_t)quotient(a, b, type)))

static const text_row kRows[] = {{"Neg", 1, real_neg, whole_neg},
                                 {"Not", 1, NULL, whole_not},
                                 {"Abs", 1, real_abs, whole_abs},
                                 {"Recip", 1, real_recip, NULL},
                                 {"Sqrt", 1, real_sqrt, NULL},
                                 {"Trunc", 1, real_trunc, whole_same},
                                 {"Floor", 1, real_floor, whole_same},
                                 {"Ceil", 1, real_ceil, whole_same},
                                 {"Round", 1, real_round, whole_same},
                                 {"Add", 2, real_add, whole_add},
                                 {"Sub", 2, real_sub, whole_sub},
                                 {"Mul", 2, real_mul, whole_mul},
                                 {"Div", 2, real_div, NULL},
                                 {"Max", 2, real_max, whole_max},
                                 {"Min", 2, real_min, whole_min},
                                 {"And", 2, NULL, whole_and},
                                 {"Or", 2, NULL, whole_or},
                                 {"Xor", 2, NULL, whole_xor},
                                 {"Shl", 2, NULL, whole_left},
                                 {"Shr", 2, NULL, whole_right},
                                 {"CmpLt", 2, real_lt, whole_lt},
                                 {"CmpLe", 2, real_le, whole_le},
                                 {"CmpEq", 2, real_eq, whole_eq},
                                 {"CmpNe", 2, real_ne, whole_ne},
                                 {"MulAcc", 3, real_fma, whole_fma},
                                 {"Least", 2, real_least, whole_min},
                                 {"Most", 2, real_most, whole_max},
                                 {"Left", 2, NULL, whole_left},
                                 {"Right", 2, NULL, whole_right},
                                 {"Quo", 2, NULL, whole_quo},
                                 {"Rem", 2, NULL, whole_rem},
                                 {"Scale", 2, real_scale, NULL}};

const text_row *text_row_named(const char *name) {
  for (size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); ++i) {
    if (strcmp(name, kRows[i].name) == 0) return &kRows[i];
  }
  return NULL;
}

/* Floats of 32 bits are computed in double and rounded, which is exact but for what is fused. */
static int64_t compute(const text_row *row, const text_type *from, const text_type *to,
                       const int64_t *w) {
  if (!from->is_float)
    return row->whole != NULL ? whole_word(row->whole(w[0], w[1], w[2], from), to) : 0;
  if (row->real == NULL) return 0;
  const double a = as_real(w[0]), b = as_real(w[1]), c = as_real(w[2]);
  double y;
  if (row->real == real_fma && from->bytes == 4) {
    y = (double)fmaf((float)a, (float)b, (float)c);
  } else if (row->real == real_scale && from->bytes == 4) {
    y = scaled(a, b, 0x1.8p23);
  } else {
    y = row->real(a, b, c);
  }
  return to->is_float ? real_word(y, to) : y != 0;
}

/* ---- Values ---- */

size_t text_instances(const text_program *program, uint32_t axes) {
  size_t out = 1;
  for (int i = 0; i < program->axes && out <= kTextInstances; ++i) {
    if ((axes >> i & 1) != 0) out *= program->axis_sizes[i];
  }
  return out;
}
static const text_step *step_of(const text_frame *f, int at) { return &f->program->steps[at]; }
/* By the first letter of its pattern. */
static int is(const text_step *step, char letter) {
  return step->kind->pattern != NULL && *step->kind->pattern == letter;
}
static int lanes_of(const text_frame *f, const text_step *step) {
  return step->lanes != 0 ? step->lanes : f->lanes;
}
/* The lanes of a value for the axes at hand. */
static int64_t *value_of(const text_frame *f, const text_step *step) {
  size_t instance = 0;
  for (int i = 0; i < f->program->axes; ++i) {
    if ((step->axes >> i & 1) != 0) instance = instance * f->program->axis_sizes[i] + f->values[i];
  }
  return f->words + step->place + instance * text_stride(step);
}
static int64_t *operand_of(const text_frame *f, const text_step *step, int i) {
  return value_of(f, step_of(f, step->operand[i]));
}
static const text_type *operand_type(const text_frame *f, const text_step *step) {
  return step_of(f, step->operand[step->operands - 1])->type;
}
static const int64_t *words_of(const text_frame *f, const text_step *step) {
  return f->program->words + step->words_at;
}
static int64_t form_of(const text_frame *f, const text_step *step) {
  int64_t out = step->constant;
  for (size_t i = 0; i < step->terms; ++i) {
    const text_term *term = &f->program->terms[step->terms_at + i];
    out += term->factor *
           (term->is_axis ? (int64_t)f->values[term->at] : *value_of(f, step_of(f, term->at)));
  }
  return out;
}

/* ---- What instructions do ---- */

static void run_arithmetic(text_frame *f, const text_step *s) {
  int64_t *out = value_of(f, s);
  const text_type *from = operand_type(f, s);
  const int64_t *in[3] = {0};
  for (int k = 0; k < s->operands; ++k) in[k] = operand_of(f, s, k);
  for (int lane = 0; lane < lanes_of(f, s); ++lane) {
    int64_t words[3] = {0};
    for (int k = 0; k < s->operands; ++k) words[k] = in[k][lane];
    out[lane] = compute(s->row, from, s->type, words);
  }
}
static void run_where(text_frame *f, const text_step *s) {
  for (int lane = 0; lane < lanes_of(f, s); ++lane) {
    const int64_t chosen = operand_of(f, s, 0)[lane];
    value_of(f, s)[lane] = operand_of(f, s, chosen != 0 ? 1 : 2)[lane];
  }
}
static void run_cast(text_frame *f, const text_step *s) {
  for (int lane = 0; lane < lanes_of(f, s); ++lane)
    value_of(f, s)[lane] = cast_word(operand_of(f, s, 0)[lane], operand_type(f, s), s->type);
}
static void run_bitcast(text_frame *f, const text_step *s) {
  for (int lane = 0; lane < lanes_of(f, s); ++lane) {
    char bits[8];
    store_word(bits, operand_of(f, s, 0)[lane], operand_type(f, s));
    value_of(f, s)[lane] = load_word(bits, s->type);
  }
}
static void run_const(text_frame *f, const text_step *s) { *value_of(f, s) = *words_of(f, s); }
static void run_axis(text_frame *f, const text_step *s) { *value_of(f, s) = f->values[s->axis]; }
static void run_lanes(text_frame *f, const text_step *s) {
  for (int lane = 0; lane < lanes_of(f, s); ++lane) value_of(f, s)[lane] = lane;
}
static void run_acc(text_frame *f, const text_step *s) {
  for (int lane = 0; lane < lanes_of(f, s); ++lane)
    value_of(f, s)[lane] = s->operands == 0 ? *words_of(f, s) : operand_of(f, s, 0)[lane];
}
static void run_set(text_frame *f, const text_step *s) {
  const int lanes = lanes_of(f, step_of(f, s->operand[0]));
  memcpy(operand_of(f, s, 0), operand_of(f, s, 1), (size_t)lanes * sizeof(int64_t));
}
static void run_spread(text_frame *f, const text_step *s) {
  for (int lane = 0; lane < lanes_of(f, s); ++lane) value_of(f, s)[lane] = *operand_of(f, s, 0);
}
static void run_lane(text_frame *f, const text_step *s) {
  *value_of(f, s) = operand_of(f, s, 0)[*words_of(f, s)];
}
static void run_shuffle(text_frame *f, const text_step *s) {
  const int n = lanes_of(f, step_of(f, s->operand[0]));
  for (int lane = 0; lane < lanes_of(f, s); ++lane) {
    const int64_t from = words_of(f, s)[lane];
    value_of(f, s)[lane] = operand_of(f, s, from < n ? 0 : 1)[from < n ? from : from - n];
  }
}
static void run_turn(text_frame *f, const text_step *s) {
  int64_t *out = value_of(f, s);
  const unsigned kept = f->values[s->axis];
  for (int lane = 0; lane < lanes_of(f, s); ++lane) {
    const int is_there = (unsigned)lane < f->program->axis_sizes[s->axis];
    f->values[s->axis] = (unsigned)lane;
    out[lane] = is_there ? operand_of(f, s, 0)[f->values[s->to]] : 0;
  }
  f->values[s->axis] = kept;
}

static void run_zip(text_frame *f, const text_step *s) {
  int64_t *out = value_of(f, s);
  const unsigned kept = f->values[s->to], from = f->values[s->axis];
  const int n = lanes_of(f, s);
  for (int lane = 0; lane < n; ++lane) {
    const int at = (int)kept * n + lane;
    f->values[s->axis] = (unsigned)at % 2;
    out[lane] = operand_of(f, s, 0)[at / 2];
  }
  f->values[s->axis] = from;
  f->values[s->to] = kept;
}

/* Halves combined until one is left. */
static int64_t combine(const text_step *s, int64_t *words, size_t count) {
  for (size_t half = count / 2; half != 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      const int64_t both[3] = {words[i], words[i + half], 0};
      words[i] = compute(s->row, s->type, s->type, both);
    }
  }
  return words[0];
}
static void run_join(text_frame *f, const text_step *s) {
  int64_t words[kTextInstances];
  const unsigned kept = f->values[s->axis], size = f->program->axis_sizes[s->axis];
  int64_t *out = value_of(f, s);
  for (int lane = 0; lane < lanes_of(f, s); ++lane) {
    for (unsigned v = 0; v < size; ++v) {
      f->values[s->axis] = v;
      words[v] = operand_of(f, s, 0)[lane];
    }
    out[lane] = combine(s, words, size);
  }
  f->values[s->axis] = kept;
}
static void run_across(text_frame *f, const text_step *s) {
  int64_t words[kTextLanes];
  const int n = lanes_of(f, step_of(f, s->operand[0]));
  memcpy(words, operand_of(f, s, 0), (size_t)n * sizeof(int64_t));
  *value_of(f, s) = combine(s, words, (size_t)n);
}

/* Memory of a launch, an array or a table. Whether the element is there. */
static int touch(text_frame *f, const text_step *memory, int64_t at, int64_t *word, int writes) {
  const struct text_run *run = f->run;
  const size_t element = (size_t)at;
  if (is(memory, 'p')) {
    const size_t bytes = memory->type->bytes;
    if (at < 0 || element >= run->bytes[memory->slot] / bytes) return 0;
    char *place = run->memory[memory->slot] + element * bytes;
    if (writes) {
      store_word(place, *word, memory->type);
    } else {
      *word = load_word(place, memory->type);
    }
    return 1;
  }
  const int is_table = is(memory, 'w');
  if (at < 0 || element >= (is_table ? memory->words : (size_t)memory->constant)) return 0;
  if (writes) {
    f->words[memory->place + element] = *word;
  } else {
    *word = is_table ? words_of(f, memory)[element] : f->words[memory->place + element];
  }
  return 1;
}
static int open_at(const text_frame *f, const text_step *s, int lane) {
  return (s->first < 0 || lane < s->first) &&
         (s->gate < 0 || *value_of(f, step_of(f, s->gate)) != 0) &&
         (s->mask < 0 || value_of(f, step_of(f, s->mask))[lane] != 0);
}
static void run_access(text_frame *f, const text_step *s, int writes) {
  const text_step *memory = step_of(f, s->operand[0]);
  const int64_t base = form_of(f, s);
  int64_t *value = writes ? operand_of(f, s, 1) : value_of(f, s);
  const int lanes = lanes_of(f, writes ? step_of(f, s->operand[1]) : s);
  for (int lane = 0; lane < lanes; ++lane) {
    const int64_t at =
        base + (s->index >= 0 ? value_of(f, step_of(f, s->index))[lane] : s->step * (int64_t)lane);
    if (open_at(f, s, lane)) {
      if (!touch(f, memory, at, &value[lane], writes)) f->run->status = ASTER_ML_DEVICE;
    } else if (!writes) {
      value[lane] = 0;
    }
  }
}
static void run_load(text_frame *f, const text_step *s) { run_access(f, s, 0); }
static void run_store(text_frame *f, const text_step *s) { run_access(f, s, 1); }
static void run_nothing(text_frame *f, const text_step *s) { (void)f, (void)s; }
static void run_param(text_frame *f, const text_step *s) {
  if (s->is_size) *value_of(f, s) = f->run->sizes[s->slot];
}

/* ---- Blocks and calls ---- */

static void run_steps(text_frame *f, int from, int to);

static void run_call(text_frame *f, const text_step *s) {
  text_frame *callee = &f->run->frames[s->callee];
  callee->lanes = lanes_of(f, s);
  const text_program *p = callee->program;
  for (size_t i = 0; i < p->step_count; ++i) {
    const text_step *param = &p->steps[i];
    if (!is(param, 'p')) continue;
    memcpy(value_of(callee, param), operand_of(f, s, param->slot),
           (size_t)lanes_of(callee, param) * sizeof(int64_t));
  }
  run_steps(callee, 0, (int)p->step_count);
  memcpy(value_of(f, s), f->run->result, (size_t)lanes_of(f, s) * sizeof(int64_t));
}
static void run_result(text_frame *f, const text_step *s) {
  memcpy(f->run->result, operand_of(f, s, 0), (size_t)f->lanes * sizeof(int64_t));
}

static int64_t loop_end(const text_frame *f, const text_step *s, int i) {
  return s->operand[i] >= 0 ? *operand_of(f, s, i) : words_of(f, s)[i];
}
static void run_block(text_frame *f, const text_step *s, int at) {
  if (is(s, 'o')) {
    if (*operand_of(f, s, 0) != 0) run_steps(f, at + 1, s->end);
  } else if (is(s, 'a')) {
    const uint32_t outside = f->fixed;
    f->fixed |= 1u << s->axis;
    for (unsigned v = 0; v < f->program->axis_sizes[s->axis]; ++v) {
      f->values[s->axis] = v;
      run_steps(f, at + 1, s->end);
    }
    f->fixed = outside;
  } else {
    const int64_t hi = loop_end(f, s, 1), by = words_of(f, s)[2];
    for (int64_t i = loop_end(f, s, 0); i < hi && f->run->status == ASTER_ML_OK; i += by) {
      *value_of(f, s) = i;
      run_steps(f, at + 1, s->end);
    }
  }
}
/* Each instance, the last axis fastest. */
static void run_instances(text_frame *f, const text_step *s, uint32_t axes, int axis) {
  while (axis < f->program->axes && (axes >> axis & 1) == 0) ++axis;
  if (axis >= f->program->axes) {
    s->kind->run(f, s);
    return;
  }
  for (unsigned v = 0; v < f->program->axis_sizes[axis]; ++v) {
    f->values[axis] = v;
    run_instances(f, s, axes, axis + 1);
  }
}
static void run_steps(text_frame *f, int from, int to) {
  for (int at = from; at < to && f->run->status == ASTER_ML_OK; ++at) {
    const text_step *s = step_of(f, at);
    if (s->kind->block > 0) {
      run_block(f, s, at);
      at = s->end;
    } else if (s->kind->block == 0) {
      run_instances(f, s, s->axes & ~f->fixed, 0);
    }
  }
}

/* Letters of a pattern are in text_read.c. Null: operands alone, as many as the row has. */
static const text_kind kKinds[] = {{"Const", "c", 1, 1, 0, 0, run_const},
                                   {"Table", "w", 1, 1, 0, 0, run_nothing},
                                   {"Param", "p", 1, 1, 0, 0, run_param},
                                   {"Array", "r", 1, 1, 0, 0, run_nothing},
                                   {"Axis", "a", 1, 1, 1, 0, run_axis},
                                   {"Lanes", "", 1, 1, 0, 0, run_lanes},
                                   {"Loop", "l", 1, 0, 0, 1, NULL},
                                   {"Each", "a", 0, 0, 0, 1, NULL},
                                   {"If", "o", 0, 0, 0, 1, NULL},
                                   {"End", "", 0, 0, 0, -1, NULL},
                                   {"Acc", "i", 1, 1, 1, 0, run_acc},
                                   {"Set", "oo", 0, 0, 0, 0, run_set},
                                   {"Load", "mx", 1, 1, 1, 0, run_load},
                                   {"Store", "mvx", 0, 0, 1, 0, run_store},
                                   {"Prefetch", "mk", 0, 0, 1, 0, run_nothing},
                                   {"Spread", "o", 1, 1, 1, 0, run_spread},
                                   {"Lane", "on", 1, 1, 1, 0, run_lane},
                                   {"Shuffle", "oos", 1, 1, 1, 0, run_shuffle},
                                   {"Turn", "ot", 1, 1, 1, 0, run_turn},
                                   {"Zip", "ot", 1, 1, 1, 0, run_zip},
                                   {"Join", "oa", 1, 1, 1, 0, run_join},
                                   {"Across", "o", 1, 1, 1, 0, run_across},
                                   {"Cast", "o", 1, 1, 1, 0, run_cast},
                                   {"ToInt", "o", 1, 1, 1, 0, run_cast},
                                   {"Bitcast", "o", 1, 1, 1, 0, run_bitcast},
                                   {"Where", "ooo", 1, 1, 1, 0, run_where},
                                   {"Call", "f", 1, 1, 1, 0, run_call},
                                   {"Result", "o", 0, 0, 0, 0, run_result}};
static const text_kind kArithmetic = {"", NULL, 1, 1, 1, 0, run_arithmetic};

const text_kind *text_kind_named(const char *name) {
  for (size_t i = 0; i < sizeof(kKinds) / sizeof(kKinds[0]); ++i) {
    if (strcmp(name, kKinds[i].name) == 0) return &kKinds[i];
  }
  return text_row_named(name) != NULL ? &kArithmetic : NULL;
}

int32_t text_run(const text_module *module, char *const *memory, const size_t *bytes,
                 const int64_t *sizes) {
  struct text_run run = {.module = module, .memory = memory, .bytes = bytes, .sizes = sizes};
  size_t words = 1;
  for (size_t i = 0; i < module->count; ++i) words += module->programs[i].frame_words;
  int64_t *all = calloc(words, sizeof(*all));
  run.frames = calloc(module->count, sizeof(*run.frames));
  run.status = all != NULL && run.frames != NULL ? ASTER_ML_OK : ASTER_ML_MEMORY;
  int64_t *next = all;
  for (size_t i = 0; i < module->count && run.status == ASTER_ML_OK; ++i) {
    const text_program *p = &module->programs[i];
    run.frames[i] = (text_frame){.run = &run, .program = p, .words = next, .lanes = 1};
    next += p->frame_words;
  }
  if (run.status == ASTER_ML_OK) {
    text_frame *last = &run.frames[module->count - 1];
    run_steps(last, 0, (int)last->program->step_count);
  }
  free(run.frames);
  free(all);
  return run.status;
}
