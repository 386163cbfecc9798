/* Symbolic dimensions from plain C: what they tell, what is wrong with them, for which values
 * captured programs are, and attention over a cache. */
#include "symbolic.h"

static array got, want;

static void test_dims(void) {
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, flat = {0}, value = {0}, all = {0}, copy = {0};
  aster_ml_dim dims[2], one;
  int64_t shape[2] = {0}, min = 0, max = 0;
  double number_read = 0;
  const aster_ml_dim size = bound(4);
  OK(aster_ml_scope_begin(&scope, &context));
  part(&x, &base, size, number(WIDTH));
  OK(aster_ml_lazy_shape(shape, 2, &x));
  EXPECT(shape[0] == 4 && shape[1] == WIDTH && aster_ml_lazy_count(&x) == 4 * WIDTH);
  OK(aster_ml_lazy_dims(dims, 2, &x));
  EXPECT(dims[0].value == 4 && dims[0].expression == size.expression);
  EXPECT(dims[1].value == WIDTH && dims[1].expression == NULL);
  OK(aster_ml_lazy_flatten(&flat, &x, 0, 1));
  OK(aster_ml_lazy_dims(&one, 1, &flat));
  EXPECT(one.value == 4 * WIDTH);
  OK(aster_ml_uop_get_bounds(&min, &max, one.expression));
  EXPECT(min == WIDTH && max == MOST * WIDTH);
  OK(aster_ml_lazy_from_dim(&value, &context, &one));
  EXPECT(aster_ml_lazy_dtype(&value) == ASTER_ML_DTYPE_INT32);
  OK(aster_ml_lazy_to_double(&number_read, &value));
  EXPECT(number_read == 4 * WIDTH);
  OK(aster_ml_lazy_whole(&all, &x));
  EXPECT(aster_ml_lazy_dim(&all, 0) == MOST);
  /* What it is made of, and its memory. */
  const char *name = NULL;
  int32_t is_bound = 0;
  int64_t now = 0;
  const aster_ml_uop *leaf = size.expression;
  while (aster_ml_uop_source_count(leaf) != 0) leaf = aster_ml_uop_source_at(leaf, 0);
  OK(aster_ml_symbolic_get(&name, &min, &max, &now, &is_bound, &context, leaf));
  EXPECT(strcmp(name, "n") == 0 && min == 1 && max == MOST && now == 4 && is_bound == 1);
  EXPECT(aster_ml_lazy_is_symbolic(&x) == 1 && aster_ml_lazy_is_symbolic(&all) == 0);
  aster_ml_tensor lent = {0};
  OK(aster_ml_lazy_view_whole(&lent, &x));
  EXPECT(lent.shape[0] == MOST && lent.shape[1] == WIDTH);
  aster_ml_lazy doubled = {0};
  const aster_ml_dim less = bound(2), both[2] = {less, {WIDTH, NULL}};
  OK(aster_ml_lazy_add(&doubled, &x, &x));
  OK(aster_ml_lazy_view_whole(&lent, &doubled));
  OK(aster_ml_lazy_set_dims(&doubled, 2, both));
  fetch(&got, &doubled);
  fetch(&want, &base);
  EXPECT(got.shape[0] == 2 && got.shape[1] == WIDTH);
  for (int i = 0; i < 2 * WIDTH; i++) EXPECT(got.data[i] == 2 * want.data[i]);
  FAILS(aster_ml_lazy_set_dims(&doubled, 1, both), ASTER_ML_SHAPE, "1 dimensions");
  FAILS(aster_ml_lazy_set_dims(&base, 2, both), ASTER_ML_ARGUMENT, "no size of");
  FAILS(aster_ml_symbolic_get(&name, &min, &max, &now, &is_bound, &context, NULL),
        ASTER_ML_ARGUMENT, "null");
  OK(aster_ml_uop_release(&context, less.expression));
  /* Writing to the part leaves what lies beyond it. */
  aster_ml_lazy zeros = {0}, negative = {0};
  OK(aster_ml_lazy_clone(&copy, &base));
  part(&zeros, &copy, size, number(WIDTH));
  OK(aster_ml_lazy_neg(&negative, &x));
  OK(aster_ml_lazy_assign(&zeros, &negative));
  fetch(&got, &copy);
  fetch(&want, &base);
  for (int i = 0; i < MOST * WIDTH; i++)
    EXPECT(got.data[i] == (i < 4 * WIDTH ? -want.data[i] : want.data[i]));
  OK(aster_ml_scope_end(&scope));
  OK(aster_ml_uop_release(&context, size.expression));
}

static void test_errors(void) {
  aster_ml_scope scope;
  const aster_ml_uop *made = NULL, *wide = NULL;
  aster_ml_lazy x = {0}, y = {0};
  const aster_ml_dim open = {0, n}, zero = number(0), size = bound(4);
  OK(aster_ml_scope_begin(&scope, &context));
  FAILS(aster_ml_symbolic_init(&made, &context, "m", 3, 2), ASTER_ML_RANGE, "m from 3 to 2");
  FAILS(aster_ml_symbolic_init(&made, &context, "", 1, 2), ASTER_ML_ARGUMENT, "name");
  FAILS(aster_ml_symbolic_init(&made, &context, NULL, 1, 2), ASTER_ML_ARGUMENT, "name");
  FAILS(aster_ml_symbolic_bind(&made, &context, n, "n", MOST + 1), ASTER_ML_RANGE, "from 1 to 7");
  FAILS(aster_ml_symbolic_bind(&made, &context, n, "n", 0), ASTER_ML_RANGE, "n = 0");
  FAILS(aster_ml_symbolic_bind(&made, &context, n, "k", 1), ASTER_ML_ARGUMENT, "named k");
  FAILS(aster_ml_symbolic_bind(&made, &context, NULL, "n", 1), ASTER_ML_ARGUMENT, "null");
  FAILS(aster_ml_symbolic_combine(&made, &context, "FloorDiv", &open, &zero), ASTER_ML_RANGE,
        "division by zero");
  FAILS(aster_ml_symbolic_combine(&made, &context, "Pow", &open, &zero), ASTER_ML_ARGUMENT, "Pow");
  int64_t value = 0;
  FAILS(aster_ml_symbolic_value(&value, &context, n), ASTER_ML_STATE, "n has no value");
  const aster_ml_dim begin[2] = {{0, NULL}, {0, NULL}}, unbound[2] = {open, {WIDTH, NULL}};
  FAILS(aster_ml_lazy_shrink_dims(&x, &base, 2, begin, unbound), ASTER_ML_STATE, "no value");
  /* A size that the tensor may not have, and does not have now. */
  OK(aster_ml_symbolic_init(&wide, &context, "w", 1, 100));
  aster_ml_dim large = {0, NULL};
  OK(aster_ml_symbolic_bind(&large.expression, &context, wide, "w", 50));
  const aster_ml_dim end[2] = {large, {WIDTH, NULL}};
  FAILS(aster_ml_lazy_shrink_dims(&x, &base, 2, begin, end), ASTER_ML_RANGE, "[50, 6]");
  /* A node that is no expression of variables. */
  aster_ml_uop_options options = {.struct_size = sizeof options, .op = "Range"};
  const int64_t arguments[] = {0, 5};
  options.arguments = arguments;
  options.argument_count = 2;
  OK(aster_ml_uop_init(&made, &context, &options));
  const aster_ml_dim range[2] = {{0, made}, {WIDTH, NULL}};
  FAILS(aster_ml_lazy_shrink_dims(&x, &base, 2, begin, range), ASTER_ML_ARGUMENT,
        "Range is no expression of variables");
  const aster_ml_dim_index items[] = {slice_of(range[0], size, 1)};
  FAILS(aster_ml_lazy_index_dims(&x, &base, 1, items), ASTER_ML_ARGUMENT,
        "Range is no expression of variables");
  OK(aster_ml_uop_release(&context, made));
  const aster_ml_dim_index unset[] = {item_of(ASTER_ML_INDEX_INTEGER, open, zero, 0)};
  FAILS(aster_ml_lazy_index_dims(&x, &base, 1, unset), ASTER_ML_STATE, "no value");
  const aster_ml_dim_index outside[] = {item_of(ASTER_ML_INDEX_INTEGER, large, zero, 0)};
  FAILS(aster_ml_lazy_index_dims(&x, &base, 1, outside), ASTER_ML_RANGE, "element 50");
  FAILS(aster_ml_lazy_index_assign_dims(&base, 1, outside, &base), ASTER_ML_RANGE, "element 50");
  const aster_ml_dim_index unknown[] = {item_of(7, zero, zero, 0)};
  FAILS(aster_ml_lazy_index_dims(&x, &base, 1, unknown), ASTER_ML_ARGUMENT, "of kind 7");
  FAILS(aster_ml_lazy_index_dims(&x, &base, 1, NULL), ASTER_ML_ARGUMENT, "null pointer");
  const char *const axis[] = {"a"};
  FAILS(aster_ml_lazy_rearrange_dims(&x, &base, "n (a b) -> a n b", 1, axis, &open), ASTER_ML_STATE,
        "no value");
  FAILS(aster_ml_lazy_rearrange_dims(&x, &base, "n (a b) -> a n b", 1, axis, &large),
        ASTER_ML_SHAPE, "does not divide");
  /* Sizes that do not go together. */
  part(&x, &base, size, number(WIDTH));
  const aster_ml_dim_index all[] = {ALL};
  FAILS(aster_ml_lazy_index_assign_dims(&x, 1, all, &base), ASTER_ML_SHAPE, "expand of");
  FAILS(aster_ml_lazy_add(&y, &x, &base), ASTER_ML_SHAPE, "do not broadcast");
  FAILS(aster_ml_lazy_matmul(&y, &x, &base), ASTER_ML_SHAPE, "matmul");
  OK(aster_ml_uop_release(&context, large.expression));
  OK(aster_ml_uop_release(&context, wide));
  OK(aster_ml_uop_release(&context, size.expression));
  OK(aster_ml_scope_end(&scope));
}

/* A program whose function has no rule, or that read a size as a number, is for one value. */
static void test_looking(void) {
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, y = {0};
  aster_ml_program program = {0};
  const aster_ml_dim size = bound(3);
  int64_t shape[2], value = 5;
  aster_ml_tensor made = {0};
  OK(aster_ml_scope_begin(&scope, &context));
  OK(aster_ml_engine_capture_begin(&context, NULL, 0));
  part(&x, &base, size, number(WIDTH));
  OK(aster_ml_lazy_shape(shape, 2, &x));
  OK(aster_ml_lazy_exp(&y, &x));
  aster_ml_lazy *const outputs[] = {&y};
  OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
  aster_ml_program_variable variable = {.struct_size = sizeof variable};
  OK(aster_ml_program_get_variable(&variable, &program, 0));
  EXPECT(variable.fixed == 1 && variable.value == 3);
  FAILS(aster_ml_program_run_bound(&program, NULL, &value, 1, NULL, 0, &made, 1),
        ASTER_ML_UNSUPPORTED, "for 3 alone");
  FAILS(aster_ml_program_set_variable(&program, "n", 5), ASTER_ML_UNSUPPORTED, "for 3 alone");
  FAILS(aster_ml_program_set_variable(&program, "k", 5), ASTER_ML_NOT_FOUND, "named k");
  FAILS(aster_ml_program_run_bound(&program, NULL, &value, 0, NULL, 0, &made, 1), ASTER_ML_ARGUMENT,
        "0 values given for 1");
  value = MOST + 1;
  FAILS(aster_ml_program_run_bound(&program, NULL, &value, 1, NULL, 0, &made, 1), ASTER_ML_RANGE,
        "from 1 to 7");
  FAILS(aster_ml_program_get_variable(&variable, &program, 1), ASTER_ML_RANGE, "variable 1 of 1");
  OK(aster_ml_program_run(&program, NULL, NULL, 0, &made, 1));
  OK(aster_ml_tensor_free(&made));
  OK(aster_ml_program_free(&program));
  OK(aster_ml_scope_end(&scope));
  OK(aster_ml_uop_release(&context, size.expression));
}

/* ---- What has to be inside something ---- */

#define TRIED(name, ...)                                                             \
  static void name(aster_ml_lazy *y, const aster_ml_lazy *x, const aster_ml_lazy *t, \
                   aster_ml_dim rows) {                                              \
    (void)x, (void)t, (void)rows;                                                    \
    __VA_ARGS__                                                                      \
  }
TRIED(numbers_of_rows, const aster_ml_index items[] = {{ASTER_ML_INDEX_SLICE, 1, 3, 1, NULL}};
      OK(aster_ml_lazy_index(y, x, 1, items));)
TRIED(late_rows, const aster_ml_dim next = combined("Add", rows, 2);
      const aster_ml_dim_index items[] = {slice_of(rows, next, 1)};
      OK(aster_ml_lazy_index_dims(y, &base, 1, items)); let_go(next);)
TRIED(rows_back, const aster_ml_dim next = combined("Add", rows, 1);
      const aster_ml_dim_index items[] = {slice_of(next, rows, -1)};
      OK(aster_ml_lazy_index_dims(y, &base, 1, items)); let_go(next);)
TRIED(row_by_number, const aster_ml_dim_index items[] = {item_of(ASTER_ML_INDEX_INTEGER, number(-3),
                                                                 number(0), 0)};
      OK(aster_ml_lazy_index_dims(y, x, 1, items));)
TRIED(fifth, OK(aster_ml_lazy_select(y, x, 0, 4));)
TRIED(row, OK(aster_ml_lazy_select_dims(y, &base, 0, &rows));)
TRIED(cut, const aster_ml_dim next = combined("Add", rows, 2); part(y, &base, next, number(WIDTH));
      let_go(next);)
TRIED(late_cut, const aster_ml_dim begin[] = {number(4), number(0)}, end[] = {rows, number(WIDTH)};
      OK(aster_ml_lazy_shrink_dims(y, &base, 2, begin, end));)
TRIED(squeezed, aster_ml_lazy z = {0}; OK(aster_ml_lazy_squeeze(&z, x, 0));
      OK(aster_ml_lazy_neg(y, &z));)
TRIED(windows, OK(aster_ml_lazy_unfold(y, x, 0, 3, 1));)
TRIED(largest, aster_ml_lazy order = {0}; OK(aster_ml_lazy_topk(y, &order, x, 4, 0, 1));)

TRIED(line, const aster_ml_dim five = number(5);
      OK(aster_ml_lazy_arange_dims(y, &context, &rows, &five, ASTER_ML_DTYPE_FLOAT32));)
TRIED(fewer_rows, const aster_ml_dim less = combined("Sub", rows, 3);
      const aster_ml_dim dims[] = {less, number(WIDTH)}; aster_ml_lazy row_of = {0};
      OK(aster_ml_lazy_select(&row_of, &base, 0, 1));
      OK(aster_ml_lazy_expand_dims(y, &row_of, 2, dims)); let_go(less);)
static const int64_t some[] = {3, 0}, fewer[] = {-1, 0}, more[] = {1, 1};
TRIED(reflected, OK(aster_ml_lazy_pad_mode(y, x, 2, some, more, ASTER_ML_PADDING_REFLECT, NULL));)
TRIED(reflected_cut,
      OK(aster_ml_lazy_pad_mode(y, x, 2, fewer, some, ASTER_ML_PADDING_REFLECT, NULL));)
TRIED(replicated_cut,
      OK(aster_ml_lazy_pad_mode(y, x, 2, fewer, fewer, ASTER_ML_PADDING_REPLICATE, NULL));)
TRIED(circular, OK(aster_ml_lazy_pad_mode(y, x, 2, more, some, ASTER_ML_PADDING_CIRCULAR, NULL));)
TRIED(circular_cut,
      OK(aster_ml_lazy_pad_mode(y, x, 2, fewer, some, ASTER_ML_PADDING_CIRCULAR, NULL));)

static const struct {
  const char *name;
  build f;
  int64_t now, least, most; /* of n: in the capture, and that the program is for */
} conditions[] = {
    {"numbers_of_rows", numbers_of_rows, 4, 3, MOST},
    {"late_rows", late_rows, 4, 1, MOST - 2},
    {"rows_back", rows_back, 2, 1, MOST - 2},
    {"row_by_number", row_by_number, 4, 3, MOST},
    {"fifth", fifth, 5, 5, MOST},
    {"row", row, 2, 1, MOST - 1},
    {"cut", cut, 3, 1, MOST - 2},
    {"late_cut", late_cut, 6, 4, MOST},
    {"one squeezed", squeezed, 1, 1, 1},
    {"more squeezed", squeezed, 4, 2, MOST},
    {"windows", windows, 7, 3, MOST},
    {"largest", largest, 5, 4, MOST},
    {"reflected", reflected, 5, 4, MOST},
    {"reflected_cut", reflected_cut, 5, 4, MOST},
    {"replicated_cut", replicated_cut, 4, 2, MOST},
    {"circular", circular, 6, 3, MOST},
    {"circular_cut", circular_cut, 4, 4, MOST},
    {"line", line, 3, 1, 5},
    {"fewer_rows", fewer_rows, 5, 3, MOST},
};

/* A program is for the values for which what is inside now is so, and says of others that they are
 * not: rows from a size's end to beyond the memory, windows larger than the axis, ... */
static void test_conditions(void) {
  for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++) {
    aster_ml_scope scope;
    aster_ml_lazy x = {0}, t = {0}, y = {0}, result = {0};
    aster_ml_program program = {0};
    aster_ml_program_variable variable = {.struct_size = sizeof variable};
    const aster_ml_dim size = bound(conditions[i].now);
    OK(aster_ml_scope_begin(&scope, &context));
    OK(aster_ml_engine_capture_begin(&context, NULL, 0));
    part(&x, &base, size, number(WIDTH));
    part(&t, &other, number(WIDTH), size);
    conditions[i].f(&y, &x, &t, size);
    OK(aster_ml_lazy_contiguous(&result, &y));
    aster_ml_lazy *const outputs[] = {&result};
    OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
    OK(aster_ml_program_get_variable(&variable, &program, 0));
    EXPECT(variable.fixed == 0 && variable.limited == 1);
    for (int64_t rows = 1; rows <= MOST; rows++) {
      const int is_for = conditions[i].least <= rows && rows <= conditions[i].most;
      if (aster_ml_program_is_for(&program, &rows, 1) != is_for) {
        fprintf(stderr, "%s: a program for n = %d\n", conditions[i].name, (int)rows);
        expect_failures++;
      }
      if (is_for) {
        run(&got, &program, rows);
        concrete(&want, conditions[i].f, rows);
        expect_array(conditions[i].name, rows, &got, &want, 0);
      } else {
        aster_ml_tensor made = {0};
        FAILS(aster_ml_program_run_bound(&program, NULL, &rows, 1, NULL, 0, &made, 1),
              ASTER_ML_RANGE, "outside");
        EXPECT(made.storage.data == NULL);
      }
    }
    EXPECT(aster_ml_program_is_for(&program, NULL, 1) == 0);
    OK(aster_ml_program_free(&program));
    OK(aster_ml_scope_end(&scope));
    OK(aster_ml_uop_release(&context, size.expression));
  }
}

/* Writing to rows n and n + 1 of a cache: where these are outside, nothing is written. */
static void test_writing_inside(void) {
  aster_ml_scope scope;
  aster_ml_lazy cache = {0}, value = {0}, stored = {0};
  aster_ml_program program = {0};
  const aster_ml_dim size = bound(2), next = combined("Add", size, 2);
  const aster_ml_dim_index items[] = {slice_of(size, next, 1)};
  OK(aster_ml_scope_begin(&scope, &context));
  OK(aster_ml_lazy_clone(&cache, &base));
  aster_ml_lazy *const state[] = {&cache};
  OK(aster_ml_lazy_realize(state, 1));
  OK(aster_ml_engine_capture_begin(&context, NULL, 0));
  OK(aster_ml_lazy_number(&value, &context, 8));
  OK(aster_ml_lazy_cast(&stored, &value, ASTER_ML_DTYPE_FLOAT32));
  OK(aster_ml_lazy_index_assign_dims(&cache, 1, items, &stored));
  aster_ml_lazy *const outputs[] = {&cache};
  OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
  fetch(&want, &base);
  for (int64_t rows = MOST; rows >= 1; rows--) {
    aster_ml_tensor made = {0};
    const int32_t status = aster_ml_program_run_bound(&program, NULL, &rows, 1, NULL, 0, &made, 1);
    fetch(&got, &cache);
    if (rows > MOST - 2) {
      fails(__LINE__, status, ASTER_ML_RANGE, "where 7 is the most");
      for (int k = 0; k < MOST * WIDTH; k++)
        EXPECT(got.data[k] == (k / WIDTH == 2 || k / WIDTH == 3 ? 8 : want.data[k]));
    } else {
      OK(status);
      OK(aster_ml_tensor_free(&made));
      for (int k = 0; k < 2 * WIDTH; k++) EXPECT(got.data[rows * WIDTH + k] == 8);
    }
  }
  OK(aster_ml_program_free(&program));
  OK(aster_ml_scope_end(&scope));
  let_go(next);
  let_go(size);
}

/* What was built before a capture and waits has no condition there: it is for its value alone. */
static void test_built_before(void) {
  aster_ml_scope scope;
  aster_ml_lazy rows = {0}, twice = {0};
  aster_ml_program program = {0};
  aster_ml_program_variable variable = {.struct_size = sizeof variable};
  const aster_ml_dim size = bound(6), next = combined("Add", size, 1);
  const aster_ml_dim_index items[] = {slice_of(size, next, 1)};
  OK(aster_ml_scope_begin(&scope, &context));
  OK(aster_ml_lazy_index_dims(&rows, &base, 1, items));
  OK(aster_ml_engine_capture_begin(&context, NULL, 0));
  OK(aster_ml_lazy_add(&twice, &rows, &rows));
  aster_ml_lazy *const outputs[] = {&twice};
  OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
  OK(aster_ml_program_get_variable(&variable, &program, 0));
  EXPECT(variable.fixed == 1 && variable.value == 6);
  OK(aster_ml_program_free(&program));
  OK(aster_ml_scope_end(&scope));
  let_go(next);
  let_go(size);
}

/* A step of attention over the first n of 2048 positions of a cache: one captured program. */
enum { POSITIONS = 2048, HEAD = 16 };
static void attend(aster_ml_lazy *out, const aster_ml_lazy *query, const aster_ml_lazy *keys,
                   const aster_ml_lazy *values) {
  aster_ml_lazy turned = {0}, scores = {0}, scale = {0}, scaled = {0}, weights = {0};
  OK(aster_ml_lazy_transpose(&turned, keys, 0, 1));
  OK(aster_ml_lazy_matmul(&scores, query, &turned));
  OK(aster_ml_lazy_number(&scale, &context, 0.25));
  OK(aster_ml_lazy_mul(&scaled, &scores, &scale));
  OK(aster_ml_lazy_softmax(&weights, &scaled, -1));
  OK(aster_ml_lazy_matmul(out, &weights, values));
}

static void test_attention(void) {
  static const int64_t sizes[] = {1, 2, 16, 17, 128, 1000, 1024, 2047, 2048};
  aster_ml_scope scope;
  const aster_ml_uop *p = NULL, *now = NULL;
  aster_ml_lazy query = {0}, cache_k = {0}, cache_v = {0}, keys = {0}, values = {0}, y = {0};
  aster_ml_program program = {0};
  OK(aster_ml_scope_begin(&scope, &context));
  fill(&query, 1, HEAD, 1);
  fill(&cache_k, POSITIONS, HEAD, 2);
  fill(&cache_v, POSITIONS, HEAD, 3);
  OK(aster_ml_symbolic_init(&p, &context, "positions", 1, POSITIONS));
  OK(aster_ml_symbolic_bind(&now, &context, p, "positions", 5));
  const aster_ml_dim size = {0, now};
  aster_ml_lazy *const inputs[] = {&query}, *const outputs[] = {&y};
  OK(aster_ml_engine_capture_begin(&context, inputs, 1));
  part(&keys, &cache_k, size, number(HEAD));
  part(&values, &cache_v, size, number(HEAD));
  attend(&y, &query, &keys, &values);
  OK(aster_ml_engine_capture_end(&program, &context, outputs, 1));
  EXPECT(aster_ml_program_count_variables(&program) == 1);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    aster_ml_lazy k = {0}, v = {0}, wanted = {0};
    aster_ml_tensor given = {0}, made = {0};
    part(&k, &cache_k, number(sizes[i]), number(HEAD));
    part(&v, &cache_v, number(sizes[i]), number(HEAD));
    attend(&wanted, &query, &k, &v);
    fetch(&want, &wanted);
    OK(aster_ml_lazy_view(&given, &query));
    if (i % 2 == 0) {
      OK(aster_ml_program_run_bound(&program, NULL, &sizes[i], 1, &given, 1, &made, 1));
    } else {
      OK(aster_ml_program_set_variable(&program, "positions", sizes[i]));
      OK(aster_ml_program_run(&program, NULL, &given, 1, &made, 1));
    }
    float data[HEAD];
    OK(aster_ml_tensor_copy_out(data, &made, HEAD));
    for (int j = 0; j < HEAD; j++) EXPECT(fabs((double)data[j] - want.data[j]) < 1e-4);
    OK(aster_ml_tensor_free(&made));
  }
  OK(aster_ml_program_free(&program));
  OK(aster_ml_uop_release(&context, now));
  OK(aster_ml_uop_release(&context, p));
  OK(aster_ml_scope_end(&scope));
}

static void test(size_t share) {
  (void)share;
  test_dims();
  test_errors();
  test_looking();
  test_conditions();
  test_writing_inside();
  test_built_before();
  test_attention();
}

int main(void) {
  on_devices(test);
  return expect_failures;
}
