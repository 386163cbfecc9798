/* Memory that is not as its descriptor says: an owner that is gone, strides that leave it, capsules
 * that were taken already, halves that overlap. Each is a status and a line that says what is
 * wrong; what was to be made is empty, and no byte of what exists is written. */
#include <aster_ml/aster_ml.h>
#include <string.h>

#include "status.h"

enum { kCount = 12 };
static aster_ml_context context;
static float data[kCount], before[kCount];
static int released, deleted;

static void count_release(void *self, void *memory, size_t bytes) {
  (void)self;
  released += memory == (void *)data && bytes <= sizeof data;
}
static void count_deleted(aster_ml_dlpack_managed *self) { deleted += self->manager == data; }
static void count_deleted_legacy(aster_ml_dlpack_legacy *self) { deleted += self->manager == data; }

/* From the element first on. */
static int32_t look(aster_ml_buffer_view *out, size_t first, size_t ndim, const size_t *shape,
                    const ptrdiff_t *strides) {
  const aster_ml_view_options options = {.struct_size = sizeof options,
                                         .dtype = ASTER_ML_DTYPE_FLOAT32,
                                         .data = data + first,
                                         .ndim = ndim,
                                         .shape = shape,
                                         .strides = strides,
                                         .release = count_release};
  return aster_ml_view_from_memory(out, &context, &options);
}

static int is_zero(const void *object, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (((const char *)object)[i] != 0) return 0;
  return 1;
}
/* A call that fails with an empty result where something else stood, and changes no element. */
#define REFUSED(out, call, code, text)                \
  do {                                                \
    memset(&(out), 0x5a, sizeof(out));                \
    FAILS(call, code, text);                          \
    EXPECT(is_zero(&(out), sizeof(out)));             \
    EXPECT(memcmp(data, before, sizeof before) == 0); \
  } while (0)

/* ---- An owner that is gone ---- */

static void test_views_whose_owner_is_gone(void) {
  const size_t shape[] = {3, 4};
  aster_ml_buffer_view view, out, high;
  aster_ml_tensor tensor;
  released = 0;
  SUCCEEDS(look(&view, 0, 2, shape, NULL));
  aster_ml_buffer_view copy = view;
  SUCCEEDS(aster_ml_view_free(&view));
  EXPECT(released == 1);
  const char *const said = "the view was freed, and who owned its memory is gone";
#define GONE(call) REFUSED(out, call, ASTER_ML_ARGUMENT, said)
  GONE(aster_ml_view_copy(&out, &copy));
  GONE(aster_ml_view_slice(&out, &copy, 0, 0, 1, 1));
  GONE(aster_ml_view_flip(&out, &copy, 0));
  GONE(aster_ml_view_split_at(&out, &high, &copy, 0, 1));
  GONE(aster_ml_view_ensure_contiguous(&out, &context, &copy));
  GONE(aster_ml_view_to_device(&out, &context, &copy, ASTER_ML_DEVICE_CPU));
  GONE(aster_ml_view_to_layout(&out, &context, &copy, ASTER_ML_LAYOUT_COLUMN_MAJOR));
  GONE(aster_ml_view_to_layout(&out, &context, &copy, ASTER_ML_LAYOUT_MORTON));
  REFUSED(tensor, aster_ml_view_to_tensor(&tensor, &context, &copy), ASTER_ML_ARGUMENT, said);
  EXPECT(aster_ml_view_count(&copy) == 0 && aster_ml_view_is_contiguous(&copy) == 0);
  EXPECT(aster_ml_view_is_layout(&copy, ASTER_ML_LAYOUT_STRIDED) == 0);
  EXPECT(aster_ml_view_is_writable(&copy) == 0 && aster_ml_view_is_host(&copy) == 0);
  EXPECT(aster_ml_view_is_device(&copy) == 0 && aster_ml_view_is_pinned(&copy) == 0);
  EXPECT(aster_ml_view_is_shared(&copy) == 0);
  FAILS(aster_ml_view_free(&copy), ASTER_ML_ARGUMENT, "freed already");
  REFUSED(out, aster_ml_view_copy(&out, &copy), ASTER_ML_ARGUMENT, "an empty view");
  EXPECT(released == 1);
}

/* What a view shows stays while it does, whoever is freed before it. */
static void test_views_are_owners(void) {
  const size_t shape[] = {3};
  const float ones[] = {1, 1, 1};
  aster_ml_context own;
  aster_ml_buffer buffer;
  aster_ml_tensor tensor, read;
  aster_ml_buffer_view of_buffer, of_tensor;
  SUCCEEDS(aster_ml_context_init(&own, NULL));
  SUCCEEDS(aster_ml_buffer_init(&buffer, &own, 12, ASTER_ML_DTYPE_FLOAT32, 0));
  SUCCEEDS(aster_ml_buffer_copy_in(&buffer, 0, ones, sizeof ones));
  SUCCEEDS(aster_ml_tensor_from_data(&tensor, &own, ones, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  SUCCEEDS(aster_ml_view_from_buffer(&of_buffer, &own, &buffer, 0, 12, 1, shape, NULL));
  SUCCEEDS(aster_ml_view_from_tensor(&of_tensor, &own, &tensor));
  SUCCEEDS(aster_ml_buffer_free(&buffer));
  SUCCEEDS(aster_ml_tensor_free(&tensor));
  SUCCEEDS(aster_ml_context_free(&own));
  aster_ml_buffer_view *const views[] = {&of_buffer, &of_tensor};
  for (size_t i = 0; i < 2; i++) {
    float got[3] = {0};
    SUCCEEDS(aster_ml_view_to_tensor(&read, &context, views[i]));
    SUCCEEDS(aster_ml_view_free(views[i]));
    SUCCEEDS(aster_ml_tensor_copy_out(got, &read, 3));
    EXPECT(memcmp(got, ones, sizeof ones) == 0);
    SUCCEEDS(aster_ml_tensor_free(&read));
  }
}

/* A freed descriptor is empty: nothing takes it for one of no axes. */
static void test_freed_descriptors(void) {
  const size_t shape[] = {2};
  const float ones[] = {1, 1};
  float got[1];
  aster_ml_tensor tensor, gone, out;
  aster_ml_buffer buffer, target;
  aster_ml_buffer_view view;
  aster_ml_lazy lazy;
  aster_ml_dlpack_managed *managed;
  SUCCEEDS(aster_ml_tensor_from_data(&tensor, &context, ones, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  SUCCEEDS(aster_ml_tensor_from_data(&gone, &context, ones, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  SUCCEEDS(aster_ml_tensor_free(&gone));
  REFUSED(out, aster_ml_tensor_add(&out, &context, &tensor, &gone), ASTER_ML_ARGUMENT, "freed");
  REFUSED(out, aster_ml_tensor_contiguous(&out, &context, &gone), ASTER_ML_ARGUMENT, "freed");
  REFUSED(lazy, aster_ml_lazy_from_tensor(&lazy, &context, &gone), ASTER_ML_ARGUMENT, "freed");
  REFUSED(view, aster_ml_view_from_tensor(&view, &context, &gone), ASTER_ML_ARGUMENT, "freed");
  REFUSED(managed, aster_ml_dlpack_export(&managed, &context, &gone, 0), ASTER_ML_ARGUMENT,
          "freed");
  FAILS(aster_ml_tensor_copy_in(&gone, ones, 1), ASTER_ML_ARGUMENT, "freed");
  FAILS(aster_ml_tensor_copy_out(got, &gone, 1), ASTER_ML_ARGUMENT, "freed");
  SUCCEEDS(aster_ml_buffer_init(&target, &context, 8, ASTER_ML_DTYPE_FLOAT32, 0));
  SUCCEEDS(aster_ml_buffer_init(&buffer, &context, 8, ASTER_ML_DTYPE_FLOAT32, 0));
  SUCCEEDS(aster_ml_buffer_free(&buffer));
  FAILS(aster_ml_buffer_copy(&target, 0, &buffer, 0, 8), ASTER_ML_RANGE, "source of 0 bytes");
  FAILS(aster_ml_buffer_copy_in(&buffer, 0, ones, 8), ASTER_ML_RANGE, "buffer of 0 bytes");
  FAILS(aster_ml_buffer_copy_out(got, &buffer, 0, 4), ASTER_ML_RANGE, "buffer of 0 bytes");
  REFUSED(out, aster_ml_tensor_from_buffer(&out, &context, &buffer, 0, 1, shape, NULL),
          ASTER_ML_ARGUMENT, "freed");
  REFUSED(view, aster_ml_view_from_buffer(&view, &context, &buffer, 0, 0, 1, shape, NULL),
          ASTER_ML_ARGUMENT, "freed");
  SUCCEEDS(aster_ml_buffer_free(&target));
  SUCCEEDS(aster_ml_tensor_free(&tensor));
}

/* Handles know that what they stand for was freed. */
static void test_freed_handles(void) {
  const int64_t shape[] = {2};
  aster_ml_lazy x, other, out;
  SUCCEEDS(aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  SUCCEEDS(aster_ml_lazy_from(&other, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  aster_ml_lazy copy = x;
  aster_ml_tensor lent;
  float got[2];
  SUCCEEDS(aster_ml_lazy_free(&x));
  REFUSED(out, aster_ml_lazy_add(&out, &other, &copy), ASTER_ML_ARGUMENT, "freed");
  REFUSED(lent, aster_ml_lazy_view(&lent, &copy), ASTER_ML_ARGUMENT, "freed");
  FAILS(aster_ml_lazy_copy_out(got, sizeof got, &copy), ASTER_ML_ARGUMENT, "freed");
  FAILS(aster_ml_lazy_assign(&other, &copy), ASTER_ML_ARGUMENT, "freed");
  SUCCEEDS(aster_ml_lazy_free(&other));
}

/* ---- Strides that leave the memory ---- */

static void test_strides_that_leave(void) {
  const size_t shape[] = {3, 4}, far_shape[] = {3, 5};
  const ptrdiff_t rows[] = {4, 1}, back[] = {4, -1}, wide[] = {5, 1}, huge[] = {PTRDIFF_MAX, 1};
  const ptrdiff_t huge_bytes[] = {PTRDIFF_MAX - 3, 4};
  aster_ml_buffer buffer;
  aster_ml_buffer_view view;
  aster_ml_tensor tensor, out;
  aster_ml_lazy lazy;
  aster_ml_dlpack_managed *managed;
  released = 0;
  SUCCEEDS(aster_ml_buffer_from_memory(&buffer, &context, data, sizeof data, ASTER_ML_DTYPE_FLOAT32,
                                       0, 0, count_release, NULL));
  const struct {
    const size_t *shape;
    const ptrdiff_t *strides;
    size_t byte_offset;
  } bad[] = {{shape, back, 0},     {shape, wide, 0}, {shape, huge, 0}, {far_shape, rows, 0},
             {far_shape, NULL, 0}, {shape, rows, 4}, {shape, NULL, 4}, {shape, rows, SIZE_MAX - 3},
             {shape, back, 9 * 4u}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    REFUSED(tensor,
            aster_ml_tensor_from_buffer(&tensor, &context, &buffer, bad[i].byte_offset, 2,
                                        bad[i].shape, bad[i].strides),
            ASTER_ML_RANGE, "48 bytes");
    /* A descriptor that somebody else filled in. */
    aster_ml_tensor filled = {
        .storage = buffer,
        .byte_offset = bad[i].byte_offset,
        .ndim = 2,
        .shape = (size_t *)(uintptr_t)bad[i].shape,
        .strides = (ptrdiff_t *)(uintptr_t)(bad[i].strides != NULL      ? bad[i].strides
                                            : far_shape == bad[i].shape ? wide
                                                                        : rows),
        .dtype = ASTER_ML_DTYPE_FLOAT32,
        .device = ASTER_ML_DEVICE_CPU};
    float got[15];
    const size_t count = aster_ml_tensor_count(&filled);
    REFUSED(out, aster_ml_tensor_neg(&out, &context, &filled), ASTER_ML_RANGE, "48 bytes");
    REFUSED(out, aster_ml_tensor_contiguous(&out, &context, &filled), ASTER_ML_RANGE, "48 bytes");
    REFUSED(lazy, aster_ml_lazy_from_tensor(&lazy, &context, &filled), ASTER_ML_RANGE, "48 bytes");
    REFUSED(view, aster_ml_view_from_tensor(&view, &context, &filled), ASTER_ML_RANGE, "48 bytes");
    REFUSED(managed, aster_ml_dlpack_export(&managed, &context, &filled, 0), ASTER_ML_RANGE,
            "48 bytes");
    FAILS(aster_ml_tensor_copy_in(&filled, got, count), ASTER_ML_RANGE, "48 bytes");
    FAILS(aster_ml_tensor_copy_out(got, &filled, count), ASTER_ML_RANGE, "48 bytes");
    EXPECT(memcmp(data, before, sizeof before) == 0);
  }
  const ptrdiff_t back_bytes[] = {16, -4}, odd_bytes[] = {16, 2};
  REFUSED(view, aster_ml_view_from_buffer(&view, &context, &buffer, 0, 48, 2, shape, back_bytes),
          ASTER_ML_RANGE, "48 bytes");
  REFUSED(view, aster_ml_view_from_buffer(&view, &context, &buffer, 0, 44, 2, shape, NULL),
          ASTER_ML_RANGE, "float32[3, 4] with strides [4, 1] from byte 0 on reaches outside");
  REFUSED(view, aster_ml_view_from_buffer(&view, &context, &buffer, 8, 44, 2, shape, NULL),
          ASTER_ML_RANGE, "44 bytes from 8 on are not inside a buffer of 48 bytes");
  REFUSED(view, aster_ml_view_from_buffer(&view, &context, &buffer, 0, 48, 2, shape, odd_bytes),
          ASTER_ML_ARGUMENT, "stride 2 is no multiple of a float32");
  REFUSED(view, look(&view, 0, 2, shape, huge_bytes), ASTER_ML_RANGE,
          "the strides leave the address space");
  SUCCEEDS(aster_ml_buffer_free(&buffer));
  EXPECT(released == 1); /* the buffer's; refused views took nothing over */
}

/* Inputs and outputs of a program are checked before it runs. */
static void test_programs(void) {
  const int64_t shape[] = {12};
  const size_t size[] = {12};
  const ptrdiff_t two[] = {2};
  aster_ml_lazy x, y;
  aster_ml_program program;
  SUCCEEDS(aster_ml_lazy_from(&x, &context, data, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  aster_ml_lazy *const inputs[] = {&x}, *const outputs[] = {&y};
  SUCCEEDS(aster_ml_engine_capture_begin(&context, inputs, 1));
  SUCCEEDS(aster_ml_lazy_neg(&y, &x));
  SUCCEEDS(aster_ml_engine_capture_end(&program, &context, outputs, 1));
  aster_ml_buffer memory = {data, sizeof data, ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DEVICE_CPU};
  float result[kCount] = {0};
  aster_ml_tensor in = {.storage = memory,
                        .ndim = 1,
                        .shape = (size_t *)(uintptr_t)size,
                        .strides = (ptrdiff_t *)(uintptr_t)two,
                        .dtype = ASTER_ML_DTYPE_FLOAT32,
                        .device = ASTER_ML_DEVICE_CPU};
  aster_ml_tensor out = in;
  out.storage.data = result;
  EXPECT(aster_ml_program_run(&program, NULL, &in, 1, &out, 1) != 0);
  EXPECT(is_zero(result, sizeof result) && strlen(message()) > 0);
  const ptrdiff_t one[] = {1};
  in.strides = out.strides = (ptrdiff_t *)(uintptr_t)one;
  out.storage.bytes = 44;
  FAILS(aster_ml_program_run(&program, NULL, &in, 1, &out, 1), ASTER_ML_RANGE, "44");
  in.byte_offset = 4;
  out.storage.bytes = 48;
  FAILS(aster_ml_program_run(&program, NULL, &in, 1, &out, 1), ASTER_ML_RANGE, "48");
  EXPECT(is_zero(result, sizeof result));
  SUCCEEDS(aster_ml_program_free(&program));
  SUCCEEDS(aster_ml_lazy_free(&x));
  SUCCEEDS(aster_ml_lazy_free(&y));
}

/* ---- Capsules ---- */

static void test_capsules(void) {
  int64_t shape[] = {3, 4}, strides[] = {4, 1}, far[] = {INT64_MAX, 1}, negative[] = {3, -4};
  const aster_ml_dlpack_tensor whole = {.data = data,
                                        .device = {ASTER_ML_DLPACK_CPU, 0},
                                        .ndim = 2,
                                        .dtype = {.code = 2, .bits = 32, .lanes = 1},
                                        .shape = shape,
                                        .strides = strides};
  aster_ml_dlpack_managed managed = {
      .version_major = 1, .manager = data, .deleter = count_deleted, .tensor = whole};
  aster_ml_dlpack_legacy legacy = {
      .tensor = whole, .manager = data, .deleter = count_deleted_legacy};
  aster_ml_tensor tensor, again;
  deleted = 0;
  SUCCEEDS(aster_ml_dlpack_import(&tensor, &context, &managed));
  REFUSED(again, aster_ml_dlpack_import(&again, &context, &managed), ASTER_ML_STATE,
          "imported already");
  EXPECT(deleted == 0);
  SUCCEEDS(aster_ml_tensor_free(&tensor));
  EXPECT(deleted == 1);
  SUCCEEDS(aster_ml_dlpack_import_legacy(&tensor, &context, &legacy));
  REFUSED(again, aster_ml_dlpack_import_legacy(&again, &context, &legacy), ASTER_ML_STATE,
          "imported already");
  SUCCEEDS(aster_ml_tensor_free(&tensor));
  EXPECT(deleted == 2);
  /* Refused ones are still their owner's. */
  managed.tensor.strides = far;
  REFUSED(again, aster_ml_dlpack_import(&again, &context, &managed), ASTER_ML_RANGE,
          "address space");
  managed.tensor.strides = strides;
  managed.tensor.shape = negative;
  REFUSED(again, aster_ml_dlpack_import(&again, &context, &managed), ASTER_ML_RANGE, "-4");
  managed.tensor.shape = NULL;
  REFUSED(again, aster_ml_dlpack_import(&again, &context, &managed), ASTER_ML_ARGUMENT, "null");
  managed.tensor = whole;
  managed.tensor.byte_offset = 2;
  REFUSED(again, aster_ml_dlpack_import(&again, &context, &managed), ASTER_ML_ARGUMENT, "aligned");
  managed.tensor.byte_offset = 0;
  managed.version_major = 2;
  REFUSED(again, aster_ml_dlpack_import(&again, &context, &managed), ASTER_ML_UNSUPPORTED, "2");
  EXPECT(deleted == 2);
}

/* ---- Halves ---- */

static void test_halves(void) {
  const size_t shape[] = {3, 4}, windows_shape[] = {11, 2};
  const ptrdiff_t windows[] = {4, 4}, repeated[] = {0, 4};
  aster_ml_buffer_view view, low, high;
#define HALVES(axis, index, code, text)                                                \
  do {                                                                                 \
    memset(&high, 0x5a, sizeof high);                                                  \
    REFUSED(low, aster_ml_view_split_at(&low, &high, &view, axis, index), code, text); \
    EXPECT(is_zero(&high, sizeof high));                                               \
  } while (0)
  SUCCEEDS(look(&view, 0, 2, shape, NULL));
  HALVES(2, 1, ASTER_ML_RANGE, "axis 2 of a view of 2 axes");
  HALVES(1, 5, ASTER_ML_RANGE, "index 5 of an axis of 4");
  FAILS(aster_ml_view_split_at(&low, &low, &view, 0, 1), ASTER_ML_ARGUMENT, "");
  FAILS(aster_ml_view_split_at(&low, NULL, &view, 0, 1), ASTER_ML_ARGUMENT, "null");
  SUCCEEDS(aster_ml_view_free(&view));
  SUCCEEDS(look(&view, 0, 2, windows_shape, windows)); /* element i + 1 is in both halves */
  HALVES(0, 5, ASTER_ML_SHAPE, "its strides overlap");
  SUCCEEDS(aster_ml_view_free(&view));
  SUCCEEDS(look(&view, 0, 2, shape, repeated)); /* every row is one */
  HALVES(0, 1, ASTER_ML_SHAPE, "its strides overlap");
  SUCCEEDS(aster_ml_view_split_at(&low, &high, &view, 1, 1)); /* columns are apart */
  SUCCEEDS(aster_ml_view_free(&low));
  SUCCEEDS(aster_ml_view_free(&high));
  SUCCEEDS(aster_ml_view_free(&view));
}

int main(void) {
  for (int i = 0; i < kCount; i++) before[i] = data[i] = (float)i;
  SUCCEEDS(aster_ml_context_init(&context, NULL));
  test_views_whose_owner_is_gone();
  test_views_are_owners();
  test_freed_descriptors();
  test_freed_handles();
  test_strides_that_leave();
  test_programs();
  test_capsules();
  test_halves();
  SUCCEEDS(aster_ml_context_free(&context));
  return expect_failures;
}
