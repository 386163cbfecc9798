/* Kernel programs by their text (docs/KERNEL_PROGRAM.md) for a device that has nothing else: a
 * reader, and an evaluator that goes through what was read, one lane at a time. Numbers are words:
 * of floats the bits of a double, of others the number itself.
 *
 * Not known: floats of less than 32 bits, groups and their items, barriers and atomics. */
#ifndef TEXT_PROGRAM_H
#define TEXT_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { kTextAxes = 16, kTextLanes = 64, kTextOperands = 6, kTextInstances = 4096 };

typedef struct text_type {
  const char *name;
  size_t bytes;
  int is_float, is_signed;
} text_type;

/* Elementwise arithmetic: on floats, and on integers of a type. */
typedef struct text_row {
  const char *name;
  int operands;
  double (*real)(double a, double b, double c);
  int64_t (*whole)(int64_t a, int64_t b, int64_t c, const text_type *type);
} text_row;

typedef struct text_term {
  int64_t factor;
  int at; /* an instruction, or an axis */
  int is_axis;
} text_term;

typedef struct text_step text_step;
typedef struct text_frame text_frame;

/* How an instruction is written, as letters, and what it does to one instance of it. */
typedef struct text_kind {
  const char *name, *pattern;
  int has_value, has_type, has_axes;
  int block; /* 1: begins one, -1: ends one; these have no run */
  void (*run)(text_frame *frame, const text_step *step);
} text_kind;

struct text_step {
  const text_kind *kind;
  const text_row *row; /* of arithmetic, and what Join and Across combine with */
  const text_type *type;
  int lanes;     /* 0: those that the function is called with */
  uint32_t axes; /* a bit each */
  int axis, to;  /* Axis, Each, Join, Turn */
  int operand[kTextOperands], operands;
  int index, gate, mask; /* of an access: operands, or -1 */
  int64_t step, first;   /* lanes that are touched; -1: all */
  int slot, is_size, callee;
  int end;                /* of a block */
  size_t terms, terms_at; /* of the form */
  int64_t constant;
  size_t words, words_at;
  size_t place; /* of its value, or its memory, in the frame */
};

typedef struct text_program {
  char name[64];
  int is_function;
  char axis_names[kTextAxes][8];
  unsigned axis_sizes[kTextAxes];
  int axes;
  text_step *steps;
  text_term *terms;
  int64_t *words;
  size_t step_count, term_count, word_count;
  size_t frame_words;
} text_program;

typedef struct text_module {
  text_program *programs; /* functions first, the kernel last */
  size_t count;
} text_module;

struct text_run;
struct text_frame {
  struct text_run *run;
  const text_program *program;
  int64_t *words;
  int lanes; /* of a function's call */
  unsigned values[kTextAxes];
  uint32_t fixed; /* axes that an Each goes along */
};

const text_type *text_type_named(const char *name);
const text_kind *text_kind_named(const char *name);
const text_row *text_row_named(const char *name);
/* Lanes that a value takes in its frame. */
static inline size_t text_stride(const text_step *step) {
  return step->lanes != 0 ? (size_t)step->lanes : kTextLanes;
}
/* How often an instruction with these axes exists. */
size_t text_instances(const text_program *program, uint32_t axes);

/* What a text says; null where it is malformed or has what is not known here, of which why tells.
 */
text_module *text_read(const char *text, char *why, size_t room);
void text_free(text_module *module);

/* All tasks of a kernel: memory and its bytes by slots, and the sizes. A status of the library:
 * DEVICE where it would leave its memory. */
int32_t text_run(const text_module *module, char *const *memory, const size_t *bytes,
                 const int64_t *sizes);

#endif
