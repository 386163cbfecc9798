// The Nth allocation fails, for every N: MEMORY, nothing leaked, everything still freeable.
#include <array>
#include <cstdlib>

#include "aster_ml/linalg.h"
#include "world.h"

namespace aster::tensor::test {
namespace {

struct Failing {
  int64_t left = -1;  // requests until one fails; negative: none does
  int64_t made = 0, held = 0;
  bool failed = false;
};
void* allocate(void* self, size_t bytes, size_t alignment) {
  auto* f = static_cast<Failing*>(self);
  ++f->made;
  if (f->left == 0) {
    f->failed = true;
    return nullptr;
  }
  if (f->left > 0) --f->left;
  ++f->held;
  const size_t to = std::max(alignment, sizeof(void*));
  return std::aligned_alloc(to, (std::max<size_t>(bytes, 1) + to - 1) / to * to);
}
void release(void* self, void* pointer, size_t, size_t) {
  --static_cast<Failing*>(self)->held;
  std::free(pointer);
}

// One of everything: results of calls that fail stay empty and carry the failure on.
int32_t program(const aster_ml_context* c) {
  const std::array<float, 12> data{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::array<int32_t, 3> classes{2, 0, 1};
  const Shape matrix{3, 4}, image{1, 1, 3, 4}, taps{1, 1, 2, 2};
  const int64_t three = 3, minus = -1;
  T x, w, labels, scale, sum, y, z, cat, soft, image_t, taps_t, conv, pool, loss, noise, total, g,
      k, slice, values, size, both;
  aster_ml_lazy_from(x, c, data.data(), ASTER_ML_DTYPE_FLOAT32, 2, matrix.data());
  aster_ml_lazy_from(labels, c, classes.data(), ASTER_ML_DTYPE_INT32, 1, &three);
  aster_ml_lazy_number(scale, c, 0.5);
  aster_ml_lazy_mul(y, x, scale);
  aster_ml_lazy_transpose(w, x, 0, 1);
  aster_ml_lazy_matmul(z, y, w);
  aster_ml_lazy_softmax(soft, z, -1);
  aster_ml_lazy_slice(slice, soft, 1, nullptr, nullptr, &minus);
  const aster_ml_lazy* const parts[] = {soft, slice};
  aster_ml_lazy_cat(cat, parts, 2, 1);
  aster_ml_lazy_reshape(image_t, x, 4, image.data());
  aster_ml_lazy_ones(taps_t, c, 0, 4, taps.data());
  aster_ml_lazy_conv2d(conv, image_t, taps_t, nullptr, nullptr);
  aster_ml_lazy_max_pool2d(pool, conv, nullptr);
  aster_ml_lazy_cross_entropy(loss, z, labels, nullptr);
  aster_ml_lazy_rand(noise, c, 0, 1, &three);
  aster_ml_lazy_sum(sum, pool, 0, nullptr, 0);
  aster_ml_lazy_svdvals(values, y);
  aster_ml_lazy_sum(size, values, 0, nullptr, 0);
  aster_ml_lazy_add(both, loss, size);
  aster_ml_lazy_add(total, both, sum);
  const aster_ml_lazy* const targets[] = {x};
  int32_t status = aster_ml_gradient(g, total, targets, 1, nullptr);
  if (status == 0) status = aster_ml_lazy_assign(x, g);
  aster_ml_lazy* const roots[] = {x, cat, noise, total};
  if (status == 0) status = aster_ml_lazy_realize(roots, 4);
  aster_ml_tensor view{};
  if (status == 0) status = aster_ml_lazy_view(&view, cat);
  aster_ml_tensor eager{};
  if (status == 0) status = aster_ml_tensor_exp(&eager, c, &view);
  aster_ml_tensor_free(&eager);
  return status;
}

TEST(Fault, EveryAllocation) {
  int64_t requests = 0;
  for (int64_t n = -1; n < std::max<int64_t>(requests, 1); n = n < 0 ? 0 : n + 1 + n / 40) {
    Failing memory;
    const aster_ml_allocator table{sizeof(table), &memory, allocate, release};
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    options.allocator = &table;
    options.compiler = "none";
    options.threads = 1;
    options.arena_block_bytes = 64;
    aster_ml_context context{};
    ASSERT_EQ(aster_ml_context_init(&context, &options), 0) << message();
    aster_ml_error_clear();
    const int64_t before = memory.made;
    memory.left = n;
    const int32_t status = program(&context);
    if (n < 0) requests = memory.made - before;
    memory.left = -1;
    if (status == 0) {
      EXPECT_FALSE(memory.failed && n < 0) << n;  // what can do without may go on
    } else {
      EXPECT_EQ(status, ASTER_ML_MEMORY) << n << ": " << message();
    }
    EXPECT_EQ(aster_ml_context_free(&context), 0);
    EXPECT_EQ(memory.held, 0) << "allocation " << n << " of " << requests;
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(requests, 100);
}

}  // namespace
}  // namespace aster::tensor::test
