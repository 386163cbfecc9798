/* Kernels from plain C: those of tensors and one that is built, their plans, programs and text. */
#include <aster_ml/aster_ml.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static aster_ml_context context;

static int says(const char *part) {
  aster_ml_error error;
  aster_ml_error_last(&error);
  if (strstr(error.message, part) != NULL) return 1;
  fprintf(stderr, "message: %s\n", error.message);
  return 0;
}

static aster_ml_target made_for(int32_t form, int32_t vector_bytes, uint32_t flags) {
  const aster_ml_target target = {
      .struct_size = sizeof target, .form = form, .vector_bytes = vector_bytes, .flags = flags};
  return target;
}

/* What the functions write, in memory of malloc; null where they fail. */
static char *plan_of(const aster_ml_uop *kernel, const aster_ml_target *target) {
  size_t length = 0;
  if (aster_ml_codegen_plan(NULL, &length, 0, &context, kernel, target) != 0) return NULL;
  char *text = malloc(length + 1);
  EXPECT(aster_ml_codegen_plan(text, &length, length + 1, &context, kernel, target) == 0);
  return text;
}
static char *program_of(const aster_ml_uop *kernel, const aster_ml_target *target,
                        const char *plan) {
  size_t length = 0;
  if (aster_ml_codegen_lower(NULL, &length, 0, &context, kernel, target, plan) != 0) return NULL;
  char *text = malloc(length + 1);
  EXPECT(aster_ml_codegen_lower(text, &length, length + 1, &context, kernel, target, plan) == 0);
  return text;
}
static char *text_of(const char *program, const aster_ml_target *target) {
  size_t length = 0;
  if (aster_ml_codegen_render(NULL, &length, 0, &context, program, target) != 0) return NULL;
  char *text = malloc(length + 1);
  EXPECT(aster_ml_codegen_render(text, &length, length + 1, &context, program, target) == 0);
  return text;
}

static const aster_ml_uop *node(const char *op, int32_t dtype, const aster_ml_uop *const *sources,
                                size_t source_count, const int64_t *arguments,
                                size_t argument_count, const int64_t *shape, size_t ndim) {
  const aster_ml_uop_options options = {
      sizeof options, dtype, op, sources, source_count, arguments, argument_count, shape, ndim};
  const aster_ml_uop *out = NULL;
  EXPECT(aster_ml_uop_init(&out, &context, &options) == 0);
  return out;
}

/* p0[i] = p1[i] + p1[i] of `count` floats, i the range of a number. */
static const aster_ml_uop *doubling(int64_t count, int64_t number) {
  const int64_t zero = 0, slot = 1, loop[] = {number, count};
  const aster_ml_uop *to = node("Param", ASTER_ML_DTYPE_FLOAT32, NULL, 0, &zero, 1, &count, 1);
  const aster_ml_uop *from = node("Param", ASTER_ML_DTYPE_FLOAT32, NULL, 0, &slot, 1, &count, 1);
  const aster_ml_uop *range = node("Range", 0, NULL, 0, loop, 2, NULL, 0);
  const aster_ml_uop *const read[] = {from, range};
  const aster_ml_uop *load = node("Load", 0, read, 2, NULL, 0, NULL, 0);
  const aster_ml_uop *const terms[] = {load, load};
  const aster_ml_uop *sum = node("Add", 0, terms, 2, NULL, 0, NULL, 0);
  const aster_ml_uop *const write[] = {to, range, sum, range};
  const aster_ml_uop *store = node("Store", 0, write, 4, NULL, 0, NULL, 0);
  const aster_ml_uop *const stores[] = {store};
  return node("Sink", 0, stores, 1, NULL, 0, NULL, 0);
}

static void test_kernels_of_tensors(void) {
  aster_ml_scope scope;
  aster_ml_lazy x = {0}, y = {0};
  const int64_t shape[] = {16, 1000};
  EXPECT(aster_ml_scope_begin(&scope, &context) == 0);
  EXPECT(aster_ml_lazy_rand(&x, &context, 0, 2, shape) == 0);
  aster_ml_lazy *const first[] = {&x};
  EXPECT(aster_ml_lazy_realize(first, 1) == 0);
  EXPECT(aster_ml_lazy_softmax(&y, &x, -1) == 0);
  const aster_ml_lazy *const all[] = {&y};
  size_t count = 9;
  EXPECT(aster_ml_codegen_kernels(NULL, &count, 0, &context, all, 1) == 0 && count == 1);
  const aster_ml_uop *kernel = NULL;
  EXPECT(aster_ml_codegen_kernels(&kernel, &count, 0, &context, all, 1) == ASTER_ML_RANGE);
  EXPECT(kernel == NULL && count == 0);
  EXPECT(aster_ml_codegen_kernels(&kernel, &count, 1, &context, all, 1) == 0 && count == 1);
  EXPECT(strcmp(aster_ml_uop_op(kernel), "Sink") == 0);

  aster_ml_target target = {.struct_size = sizeof target};
  EXPECT(aster_ml_codegen_target(&target, &context, 0) == 0);
  EXPECT(target.struct_size == sizeof target && target.form == ASTER_ML_CODE_C);
  char *plan = plan_of(kernel, &target), *program = program_of(kernel, &target, NULL);
  char *again = program_of(kernel, &target, plan), *code = text_of(program, &target);
  EXPECT(plan != NULL && strncmp(plan, "plan\n", 5) == 0);
  EXPECT(program != NULL && strstr(program, "program r_") != NULL);
  EXPECT(again != NULL && strcmp(program, again) == 0); /* the planner's plan is what it took */
  EXPECT(code != NULL && strstr(code, "void r_") != NULL);
  /* What is compiled when the tensor is realised is the same function. */
  size_t length = 0;
  EXPECT(aster_ml_engine_graph(NULL, &length, 0, &context, all, 1, ASTER_ML_GRAPH_PROGRAM,
                               ASTER_ML_GRAPH_JSON) == 0);
  char *page = malloc(length + 1);
  EXPECT(aster_ml_engine_graph(page, &length, length + 1, &context, all, 1, ASTER_ML_GRAPH_PROGRAM,
                               ASTER_ML_GRAPH_JSON) == 0);
  char name[64] = "";
  sscanf(strstr(code, "void r_") + 5, "%63[^(]", name);
  EXPECT(strlen(name) == 34 && strstr(page, name) != NULL && strstr(page, "Loop") != NULL);
  EXPECT(aster_ml_engine_graph(NULL, &length, 0, &context, all, 1, ASTER_ML_GRAPH_PLAN,
                               ASTER_ML_GRAPH_JSON) == 0);
  EXPECT(length > 100 && length < strlen(page));
  free(page), free(plan), free(program), free(again), free(code);
  EXPECT(aster_ml_uop_release(&context, kernel) == 0);
  EXPECT(aster_ml_uop_release(&context, kernel) == ASTER_ML_STATE);

  const aster_ml_lazy empty = {0};
  const aster_ml_lazy *const none[] = {&empty};
  EXPECT(aster_ml_codegen_kernels(NULL, &count, 0, &context, none, 1) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_codegen_kernels(NULL, NULL, 0, &context, all, 1) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_codegen_kernels(NULL, &count, 0, &context, NULL, 1) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_codegen_kernels(NULL, &count, 0, &context, NULL, 0) == 0 && count == 0);
  EXPECT(aster_ml_scope_end(&scope) == 0);
}

/* A kernel that is built, by a plan from outside, in every form, and run. */
static void test_built_kernel(void) {
  const aster_ml_uop *kernel = doubling(1000, 0);
  const aster_ml_target c = made_for(ASTER_ML_CODE_C, 16, 0);
  const aster_ml_target any = made_for(ASTER_ML_CODE_C, 0, 0);
  const aster_ml_target cl = made_for(ASTER_ML_CODE_OPENCL_C, 32, ASTER_ML_TARGET_FMA);
  const aster_ml_target program_form = made_for(ASTER_ML_CODE_PROGRAM, 16, 0);
  const char *mine = "plan\n0: vector r0 4; tile r0 2; order r0; tasks r0/8\n";
  char *program = program_of(kernel, &c, mine);
  EXPECT(program != NULL && strstr(program, "Loop task 0 1000 8") != NULL);
  char *in_c = text_of(program, &c), *portable = text_of(program, &any);
  char *in_cl = text_of(program, &cl), *same = text_of(program, &program_form);
  EXPECT(in_c != NULL && strstr(in_c, "void r_") != NULL);
  EXPECT(portable != NULL && strstr(portable, "__m128") == NULL);
  EXPECT(in_cl != NULL && strstr(in_cl, "__kernel void") != NULL);
  EXPECT(same != NULL && program != NULL && strcmp(same, program) == 0);

  aster_ml_scope scope;
  aster_ml_lazy x = {0}, y = {0};
  EXPECT(aster_ml_scope_begin(&scope, &context) == 0);
  float data[1000], got[1000] = {0};
  const int64_t shape[] = {1000};
  for (int i = 0; i < 1000; ++i) data[i] = (float)i - 500.5f;
  EXPECT(aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape) == 0);
  aster_ml_kernel run = {0};
  EXPECT(aster_ml_kernel_from_program(&run, &context, program, "float32[1000] -> float32[1000]",
                                      NULL) == 0);
  const aster_ml_lazy *const ins[] = {&x};
  EXPECT(aster_ml_kernel_apply(&y, &run, ins, 1, 0) == 0);
  EXPECT(aster_ml_lazy_copy_out(got, sizeof got, &y) == 0);
  for (int i = 0; i < 1000; ++i) EXPECT(got[i] == 2 * data[i]);
  EXPECT(aster_ml_scope_end(&scope) == 0);
  free(program), free(in_c), free(portable), free(in_cl), free(same);
}

static void test_model(void) {
  char text[8192] = "", few[8] = "before";
  size_t length = 0;
  EXPECT(aster_ml_codegen_model(text, &length, sizeof text, &context, ASTER_ML_DEVICE_CPU) == 0);
  EXPECT(length == strlen(text) && text[length - 1] == '\n');
  EXPECT(strstr(text, "\nproduct_vectors ") != NULL);
  EXPECT(aster_ml_codegen_model(few, &length, sizeof few, &context, ASTER_ML_DEVICE_CPU) ==
         ASTER_ML_RANGE);
  EXPECT(length == 0 && few[0] == 0);
  EXPECT(aster_ml_codegen_model(text, NULL, sizeof text, &context, ASTER_ML_DEVICE_CPU) ==
         ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_codegen_model(text, &length, sizeof text, &context, 77) != 0 && says("77"));
  EXPECT(aster_ml_codegen_model(text, &length, sizeof text, NULL, ASTER_ML_DEVICE_CPU) ==
         ASTER_ML_ARGUMENT);
}

static void test_mistakes(void) {
  const aster_ml_uop *kernel = doubling(64, 0), *many = doubling(64, 99);
  const aster_ml_target c = made_for(ASTER_ML_CODE_C, 16, 0);
  size_t length = 7;
  char room[8] = "before";
  EXPECT(aster_ml_codegen_plan(room, &length, sizeof room, &context, kernel, &c) == ASTER_ML_RANGE);
  EXPECT(length == 0 && room[0] == 0 && says("do not fit in 8"));
  EXPECT(aster_ml_codegen_plan(NULL, NULL, 0, &context, kernel, &c) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_codegen_plan(NULL, &length, 0, &context, NULL, &c) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_codegen_plan(NULL, &length, 0, &context, kernel, NULL) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_codegen_plan(NULL, &length, 0, NULL, kernel, &c) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_codegen_plan(NULL, &length, 0, &context, aster_ml_uop_source_at(kernel, 0), &c) ==
         ASTER_ML_ARGUMENT);
  EXPECT(says("Store is no Sink"));
  EXPECT(aster_ml_codegen_lower(NULL, &length, 0, &context, many, &c, NULL) ==
         ASTER_ML_UNSUPPORTED);
  EXPECT(says("ranges"));

  const struct {
    aster_ml_target target;
    const char *message;
  } targets[] = {{{.struct_size = 0}, "struct_size"},
                 {{sizeof c, 77, 16, 0, 0, 0, 0}, "form 77"},
                 {{sizeof c, ASTER_ML_CODE_C, 24, 0, 0, 0, 0}, "24 bytes"},
                 {{sizeof c, ASTER_ML_CODE_C, -1, 0, 0, 0, 0}, "-1 bytes"},
                 {{sizeof c, ASTER_ML_CODE_C, 64, 0, 0, 0, 0}, "AVX-512"},
                 {{sizeof c, ASTER_ML_CODE_C, 32, ASTER_ML_TARGET_AVX512, 0, 0, 0}, "AVX-512"},
                 {{sizeof c, ASTER_ML_CODE_C, 0, ASTER_ML_TARGET_FMA, 0, 0, 0}, "any CPU"},
                 {{sizeof c, ASTER_ML_CODE_C, 16, 4096, 0, 0, 0}, "0x1000"},
                 {{sizeof c, ASTER_ML_CODE_C, 16, 0, 64, 0, 0}, "C has no groups"},
                 {{sizeof c, ASTER_ML_CODE_OPENCL_C, 16, 0, 48, 0, 0}, "groups of 48"},
                 {{sizeof c, ASTER_ML_CODE_OPENCL_C, 16, 0, 64, 32, 0}, "at most 32"},
                 {{sizeof c, ASTER_ML_CODE_OPENCL_C, 16, 0, 0, 64, 0}, "groups of 0"},
                 {{sizeof c, ASTER_ML_CODE_OPENCL_C, 16, 0, 64, 2048, 0}, "2048"},
                 {{sizeof c, ASTER_ML_CODE_OPENCL_C, 16, 0, 64, 64, 1 << 21}, "2097152 bytes"}};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; ++i) {
    const int32_t code =
        aster_ml_codegen_plan(NULL, &length, 0, &context, kernel, &targets[i].target);
    EXPECT((code == ASTER_ML_RANGE || (i == 0 && code == ASTER_ML_ARGUMENT)) &&
           says(targets[i].message));
  }

  const struct {
    const char *plan;
    int32_t code;
    const char *message;
  } plans[] = {{"", ASTER_ML_FORMAT, "line"},
               {"plan\n0: vectors r0 4\n", ASTER_ML_FORMAT, "line 2"},
               {"plan\n0: vector r0 3; order r0\n", ASTER_ML_ARGUMENT, "plan 0: vector"},
               {"plan\n0: vector r9 4; order r0\n", ASTER_ML_ARGUMENT, "r9"},
               {"plan\n0: order r0\n1: order r1\n", ASTER_ML_ARGUMENT, "segment"}};
  for (size_t i = 0; i < sizeof plans / sizeof *plans; ++i) {
    EXPECT(aster_ml_codegen_lower(NULL, &length, 0, &context, kernel, &c, plans[i].plan) ==
           plans[i].code);
    EXPECT(says(plans[i].message));
  }

  const struct {
    const char *program;
    int32_t code;
    const char *message;
  } programs[] = {{NULL, ASTER_ML_ARGUMENT, "null"},
                  {"", ASTER_ML_FORMAT, ""},
                  {"program p\n%0 = Nothing f32\n", ASTER_ML_FORMAT, "line 2"},
                  {"program p\n%0 = Param f32 0 [8] write\n%1 = Const f32 1\n"
                   "Store %0 + 8, %1\n",
                   ASTER_ML_ARGUMENT, "inside the memory"}};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; ++i) {
    EXPECT(aster_ml_codegen_render(NULL, &length, 0, &context, programs[i].program, &c) ==
           programs[i].code);
    EXPECT(says(programs[i].message));
  }

  aster_ml_target target = {0};
  EXPECT(aster_ml_codegen_target(NULL, &context, 0) == ASTER_ML_ARGUMENT);
  EXPECT(aster_ml_codegen_target(&target, &context, 0x7fff0000) != 0);
}

int main(void) {
  EXPECT(aster_ml_context_init(&context, NULL) == 0);
  test_kernels_of_tensors();
  test_built_kernel();
  test_model();
  test_mistakes();
  EXPECT(aster_ml_context_free(&context) == 0);
  return expect_failures;
}
