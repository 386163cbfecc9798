/* The frozen layouts of Buffer and Tensor, checked when this compiles. */
#include <aster_ml/buffer.h>

#define FIELD(type, field, offset, bytes)                              \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field); \
  _Static_assert(sizeof(((type *)0)->field) == (bytes), #type "." #field);

FIELD(aster_ml_buffer, data, 0, 8)
FIELD(aster_ml_buffer, bytes, 8, 8)
FIELD(aster_ml_buffer, dtype, 16, 4)
FIELD(aster_ml_buffer, device, 20, 4)
_Static_assert(sizeof(aster_ml_buffer) == 24, "aster_ml_buffer");
_Static_assert(_Alignof(aster_ml_buffer) == 8, "aster_ml_buffer");

FIELD(aster_ml_tensor, storage, 0, 24)
FIELD(aster_ml_tensor, byte_offset, 24, 8)
FIELD(aster_ml_tensor, ndim, 32, 8)
FIELD(aster_ml_tensor, shape, 40, 8)
FIELD(aster_ml_tensor, strides, 48, 8)
FIELD(aster_ml_tensor, dtype, 56, 4)
FIELD(aster_ml_tensor, device, 60, 4)
_Static_assert(sizeof(aster_ml_tensor) == 64, "aster_ml_tensor");
_Static_assert(_Alignof(aster_ml_tensor) == 8, "aster_ml_tensor");

/* The types of the fields, not their sizes alone. */
static void types(aster_ml_buffer *b, aster_ml_tensor *t) {
  void **data = &b->data;
  size_t *bytes = &b->bytes;
  int32_t *codes[] = {&b->dtype, &b->device, &t->dtype, &t->device};
  aster_ml_buffer *storage = &t->storage;
  size_t *sizes[] = {&t->byte_offset, &t->ndim};
  size_t **shape = &t->shape;
  ptrdiff_t **strides = &t->strides;
  (void)data, (void)bytes, (void)codes, (void)storage, (void)sizes, (void)shape, (void)strides;
}

int main(void) {
  aster_ml_buffer buffer = {0};
  aster_ml_tensor tensor = {0};
  types(&buffer, &tensor);
  return 0;
}
