#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_program.h"

/* What is being read. Whatever is wrong leaves by fail(). */
typedef struct reader {
  const char *at;
  int line;
  text_module *module;
  text_program *program;
  int *values; /* the step of each numbered value */
  size_t value_count;
  int blocks[64], depth;
  jmp_buf wrong;
  char *why;
  size_t room;
} reader;

_Noreturn static void fail(reader *r, const char *format, ...) {
  const int head = snprintf(r->why, r->room, "line %d: ", r->line);
  va_list arguments;
  va_start(arguments, format);
  if (head >= 0 && (size_t)head < r->room)
    vsnprintf(r->why + head, r->room - (size_t)head, format, arguments);
  va_end(arguments);
  longjmp(r->wrong, 1);
}

/* One more element at the end of a list. */
static void *grow(reader *r, void *list, size_t count, size_t bytes) {
  if (count != 0 && (count < 8 || (count & (count - 1)) != 0)) return list;
  void *more = realloc(list, (count < 8 ? 8 : 2 * count) * bytes);
  if (more == NULL) fail(r, "no memory is left");
  return more;
}

/* ---- Letters, words and numbers ---- */

static char next(reader *r) {
  while (*r->at == ' ') ++r->at;
  return *r->at;
}
static int at_end(reader *r) {
  const char c = next(r);
  return c == '\0' || c == '\n' || c == ';' || c == '#';
}
static int takes(reader *r, char c) {
  if (next(r) != c) return 0;
  ++r->at;
  return 1;
}
static void expect(reader *r, char c) {
  if (!takes(r, c)) fail(r, "'%c' is missing", c);
}
/* Past the end of a line, and lines that say nothing. */
static void skip_breaks(reader *r) {
  while (at_end(r) && *r->at != '\0') {
    if (*r->at == '#') {
      while (*r->at != '\n' && *r->at != '\0') ++r->at;
    } else {
      r->line += *r->at++ == '\n';
    }
  }
}
static void take_word(reader *r, char *out, size_t room) {
  size_t length = 0;
  next(r);
  while (isalnum((unsigned char)*r->at) || *r->at == '_') {
    if (length + 1 == room) fail(r, "a word is too long");
    out[length++] = *r->at++;
  }
  out[length] = '\0';
  if (length == 0) fail(r, "a word is missing");
}
/* Takes a word if it is this one. */
static int takes_word(reader *r, const char *word) {
  const size_t length = strlen(word);
  next(r);
  if (strncmp(r->at, word, length) != 0 || isalnum((unsigned char)r->at[length])) return 0;
  r->at += length;
  return 1;
}
static int64_t take_number(reader *r) {
  char *end = NULL;
  next(r);
  const long long out = strtoll(r->at, &end, 10);
  if (end == r->at) fail(r, "a number is missing");
  r->at = end;
  return out;
}
static void push_word(reader *r, text_step *step, int64_t word) {
  text_program *p = r->program;
  p->words = grow(r, p->words, p->word_count, sizeof(*p->words));
  p->words[p->word_count++] = word;
  ++step->words;
}
static void take_constant(reader *r, text_step *step) {
  char *end = NULL;
  int64_t word;
  next(r);
  if (step->type->is_float) {
    const double value = strtod(r->at, &end);
    memcpy(&word, &value, sizeof(word));
  } else if (*r->at == '-') {
    word = strtoll(r->at, &end, 10);
  } else {
    word = (int64_t)strtoull(r->at, &end, 10);
  }
  if (end == r->at) fail(r, "a constant is missing");
  r->at = end;
  push_word(r, step, word);
}

/* ---- Values, axes, forms ---- */

static int take_value(reader *r) {
  expect(r, '%');
  const int64_t number = take_number(r);
  if (number < 0 || (size_t)number >= r->value_count) fail(r, "a value that is not there");
  return r->values[number];
}
static void take_operand(reader *r, text_step *step) {
  if (step->operands == kTextOperands) fail(r, "too many operands");
  step->operand[step->operands++] = take_value(r);
}
static int take_axis(reader *r) {
  char name[8];
  take_word(r, name, sizeof(name));
  for (int i = 0; i < r->program->axes; ++i) {
    if (strcmp(name, r->program->axis_names[i]) == 0) return i;
  }
  fail(r, "no axis '%s'", name);
}

static void take_term(reader *r, text_step *step, int64_t sign) {
  text_program *p = r->program;
  text_term term = {sign, 0, 0};
  if (isdigit((unsigned char)next(r))) {
    term.factor *= take_number(r);
    if (!takes(r, '*')) {
      step->constant += term.factor;
      return;
    }
  }
  term.is_axis = next(r) != '%';
  term.at = term.is_axis ? take_axis(r) : take_value(r);
  p->terms = grow(r, p->terms, p->term_count, sizeof(*p->terms));
  p->terms[p->term_count++] = term;
  ++step->terms;
}
static void take_form(reader *r, text_step *step) {
  while (next(r) == '+' || *r->at == '-') take_term(r, step, *r->at++ == '-' ? -1 : 1);
}
/* In brackets. */
static void take_extent(reader *r, text_step *step) {
  expect(r, '[');
  if (next(r) != '+' && *r->at != '-') take_term(r, step, 1);
  take_form(r, step);
  expect(r, ']');
}

/* ---- Instructions ---- */

static void take_limits(reader *r, text_step *step) {
  step->first = -1;
  while (!at_end(r)) {
    int *limit = takes_word(r, "at")     ? &step->index
                 : takes_word(r, "gate") ? &step->gate
                 : takes_word(r, "mask") ? &step->mask
                                         : NULL;
    if (limit != NULL) {
      *limit = take_value(r);
    } else if (takes_word(r, "step")) {
      step->step = take_number(r);
    } else if (takes_word(r, "first")) {
      step->first = take_number(r);
    } else if (!takes_word(r, "keep") && !takes_word(r, "stream")) {
      fail(r, "a limit that is not known");
    }
  }
}
static void take_param(reader *r, text_step *step) {
  step->slot = (int)take_number(r);
  if (takes_word(r, "from")) {
    step->is_size = 1;
    while (!at_end(r)) ++r->at; /* its bounds are the compiler's affair */
  } else if (next(r) == '[') {
    take_extent(r, step);
    takes_word(r, "write");
  }
}
static void take_array(reader *r, text_step *step) {
  take_extent(r, step);
  if (step->terms != 0 || step->constant < 0) fail(r, "an array without a size");
  if (!takes_word(r, "private") && !takes_word(r, "scratch")) fail(r, "memory of a group");
  if (takes_word(r, "slack")) step->constant += take_number(r);
}
/* Its ends are operands, or words where operand is -1; the step is the last word. */
static void take_loop(reader *r, text_step *step) {
  step->type = text_type_named("i64");
  takes_word(r, "i32");
  if (!takes_word(r, "task") && isalpha((unsigned char)next(r))) fail(r, "a loop of a group");
  for (int i = 0; i < 2; ++i) {
    const int value = next(r) == '%';
    step->operand[step->operands++] = value ? take_value(r) : -1;
    push_word(r, step, value ? 0 : take_number(r));
  }
  push_word(r, step, take_number(r));
}
static void take_call(reader *r, text_step *step) {
  char name[64];
  take_word(r, name, sizeof(name));
  step->callee = -1;
  for (size_t i = 0; i + 1 < r->module->count; ++i) {
    if (strcmp(r->module->programs[i].name, name) == 0) step->callee = (int)i;
  }
  if (step->callee < 0) fail(r, "no function '%s'", name);
  while (!at_end(r)) take_operand(r, step);
}

static void take_table(reader *r, text_step *step) {
  expect(r, '[');
  const int64_t count = take_number(r);
  expect(r, ']');
  for (int64_t i = 0; i < count; ++i) take_constant(r, step);
}

/* What a letter of a pattern stands for. */
static void take_part(reader *r, text_step *step, char letter) {
  if (letter == 'v') expect(r, ',');
  if (letter == 'i') letter = next(r) == '%' ? 'o' : 'c';
  if (letter == 'o' || letter == 'm' || letter == 'v') take_operand(r, step);
  if (letter == 'm') take_form(r, step);
  if (letter == 'n') push_word(r, step, take_number(r));
  if (letter == 'c') take_constant(r, step);
  if (letter == 'w') take_table(r, step);
  if (letter == 's') {
    while (!at_end(r)) push_word(r, step, take_number(r));
  }
  if (letter == 'a' || letter == 't') step->axis = take_axis(r);
  if (letter == 't') {
    expect(r, '-');
    expect(r, '>');
    step->to = take_axis(r);
  }
  if (letter == 'x') take_limits(r, step);
  if (letter == 'k') takes_word(r, "write");
  if (letter == 'p') take_param(r, step);
  if (letter == 'r') take_array(r, step);
  if (letter == 'l') take_loop(r, step);
  if (letter == 'f') take_call(r, step);
}

static void take_type(reader *r, text_step *step) {
  char name[16], *lanes;
  take_word(r, name, sizeof(name));
  step->lanes = 1;
  if ((lanes = strrchr(name, 'x')) != NULL) {
    *lanes = '\0';
    step->lanes = lanes[1] == 'n' ? 0 : atoi(lanes + 1);
  }
  step->type = text_type_named(name);
  if (step->type == NULL) fail(r, "the type %s", name);
  if (step->lanes < 0 || step->lanes > kTextLanes) fail(r, "lanes of %s", name);
}
static void take_axes(reader *r, text_step *step) {
  if (!takes(r, '{')) return;
  while (!takes(r, '}')) step->axes |= 1u << take_axis(r);
}

/* Where the value of a step lies, and which End belongs to which block. */
static void place(reader *r, text_step *step, int number) {
  text_program *p = r->program;
  const text_kind *kind = step->kind;
  if (kind->block < 0) {
    if (r->depth == 0) fail(r, "an End of nothing");
    p->steps[r->blocks[--r->depth]].end = number;
  } else if (kind->block > 0) {
    if (r->depth == 64) fail(r, "too many blocks");
    r->blocks[r->depth++] = number;
  }
  if (!kind->has_value) {
    /* Set, which has the axes of both. */
    for (int i = 0; i < step->operands && !kind->has_axes && kind->block == 0; ++i)
      step->axes |= p->steps[step->operand[i]].axes;
    return;
  }
  const size_t instances = text_instances(p, step->axes);
  if (instances > kTextInstances) fail(r, "too many instances");
  step->place = p->frame_words;
  p->frame_words += kind->pattern != NULL && *kind->pattern == 'r' ? (size_t)step->constant
                                                                   : instances * text_stride(step);
}

static void take_step(reader *r) {
  text_program *p = r->program;
  text_step step = {.lanes = 1, .index = -1, .gate = -1, .mask = -1, .step = 1};
  step.terms_at = p->term_count;
  step.words_at = p->word_count;
  int64_t number = -1;
  char name[32];
  if (takes(r, '%')) {
    number = take_number(r);
    expect(r, '=');
  }
  take_word(r, name, sizeof(name));
  step.kind = text_kind_named(name);
  step.row = text_row_named(name);
  if (step.kind == NULL) fail(r, "the operation %s", name);
  if (takes(r, ':')) {
    take_word(r, name, sizeof(name));
    if ((step.row = text_row_named(name)) == NULL) fail(r, "the operation %s", name);
  }
  if (step.kind->has_type) take_type(r, &step);
  take_axes(r, &step);
  for (int i = 0; step.row != NULL && step.kind->pattern == NULL && i < step.row->operands; ++i)
    take_operand(r, &step);
  for (const char *letter = step.kind->pattern; letter != NULL && *letter != '\0'; ++letter)
    take_part(r, &step, *letter);
  if (!at_end(r)) fail(r, "too much behind %s", name);
  if (step.kind->has_value != (number == (int64_t)r->value_count))
    fail(r, "values are not numbered in order");
  const int at = (int)p->step_count;
  place(r, &step, at);
  p->steps = grow(r, p->steps, p->step_count, sizeof(*p->steps));
  p->steps[p->step_count++] = step;
  if (!step.kind->has_value) return;
  r->values = grow(r, r->values, r->value_count, sizeof(*r->values));
  r->values[r->value_count++] = at;
}

static void take_program(reader *r) {
  text_module *m = r->module;
  m->programs = grow(r, m->programs, m->count, sizeof(*m->programs));
  text_program *p = r->program = &m->programs[m->count++];
  memset(p, 0, sizeof(*p));
  p->is_function = takes_word(r, "function");
  if (!p->is_function && !takes_word(r, "program")) fail(r, "no program");
  take_word(r, p->name, sizeof(p->name));
  skip_breaks(r);
  r->value_count = 0;
  while (takes_word(r, "axis") || takes(r, ',')) {
    if (p->axes == kTextAxes) fail(r, "too many axes");
    take_word(r, p->axis_names[p->axes], sizeof(p->axis_names[0]));
    const int64_t size = take_number(r);
    if (size < 1 || size > kTextInstances) fail(r, "the size of an axis");
    p->axis_sizes[p->axes++] = (unsigned)size;
  }
  for (skip_breaks(r); *r->at != '\0' && *r->at != 'p' && *r->at != 'f'; skip_breaks(r))
    take_step(r);
  if (r->depth != 0) fail(r, "an End is missing");
}

static int read_all(reader *r) {
  if (setjmp(r->wrong) != 0) return 0;
  for (skip_breaks(r); *r->at != '\0'; skip_breaks(r)) take_program(r);
  if (r->module->count == 0 || r->program->is_function) fail(r, "no kernel");
  return 1;
}

text_module *text_read(const char *text, char *why, size_t room) {
  reader r = {.at = text, .line = 1, .why = why, .room = room};
  r.module = calloc(1, sizeof(*r.module));
  if (r.module == NULL) return NULL;
  const int good = read_all(&r);
  free(r.values);
  if (good) return r.module;
  text_free(r.module);
  return NULL;
}

void text_free(text_module *module) {
  for (size_t i = 0; i < module->count; ++i) {
    free(module->programs[i].steps);
    free(module->programs[i].terms);
    free(module->programs[i].words);
  }
  free(module->programs);
  free(module);
}
