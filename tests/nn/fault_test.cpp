// The Nth allocation fails, for every N: MEMORY, nothing leaked, everything still freeable.
#include <unistd.h>

#include "base/counting_allocator.h"
#include "nn/world.h"

namespace nn_test {
namespace {

// One of everything; stops at the first failure.
int32_t everything(const aster_ml_context* c, const char* path) {
  Layer linear, norm, conv;
  State state, saved;
  Optimizer optimizer;
  int32_t status = aster_ml_linear_init(&linear, c, 3, 2, 1);
  if (status == 0) status = aster_ml_batch_norm_init(&norm, c, 2, nullptr);
  if (status == 0) status = aster_ml_conv2d_init(&conv, c, 1, 1, 1, 1, 1, nullptr);
  if (status == 0) status = aster_ml_state_init(&state, c);
  if (status == 0) status = aster_ml_state_set_layer(&state, "linear.", &linear);
  if (status == 0) status = aster_ml_state_set_layer(&state, "norm.", &norm);
  if (status == 0) status = aster_ml_state_set_layer(&state, "conv.", &conv);
  if (status == 0) status = aster_ml_state_set_metadata(&state, "key", "text");
  if (status == 0) status = aster_ml_adam_init(&optimizer, &state, nullptr);
  const float data[] = {1, 2, 3, 4, 5, 7};
  const int64_t shape[] = {2, 3}, image[] = {2, 1, 1, 2};
  aster_ml_lazy x{}, y{}, z{}, square{}, convolved{}, loss{};
  if (status == 0) status = aster_ml_lazy_from(&x, c, data, ASTER_ML_DTYPE_FLOAT32, 2, shape);
  if (status == 0) status = aster_ml_layer_run(&y, &linear, &x, 1);
  if (status == 0) status = aster_ml_layer_run(&z, &norm, &y, 1);
  if (status == 0) status = aster_ml_lazy_reshape(&square, &z, 4, image);
  if (status == 0) status = aster_ml_layer_run(&convolved, &conv, &square, 1);
  if (status == 0) status = aster_ml_lazy_sum(&loss, &convolved, 0, nullptr, 0);
  if (status == 0) status = aster_ml_optimizer_step(&optimizer, &loss);
  if (status == 0) status = aster_ml_state_set_optimizer(&state, "adam.", &optimizer);
  if (status == 0) status = aster_ml_state_write(&state, path);
  if (status == 0) status = aster_ml_state_read(&saved, c, path);
  if (status == 0) status = aster_ml_state_load(&state, &saved);
  for (aster_ml_lazy* handle : {&x, &y, &z, &square, &convolved, &loss}) aster_ml_lazy_free(handle);
  return status;
}

TEST(Fault, EveryAllocation) {
  TemporaryFile file;
  int64_t requests = 0;
  // Every one of the first requests, then ever fewer.
  for (int64_t n = -1; n < std::max<int64_t>(requests, 1); n += 1 + std::max<int64_t>(n, 0) / 64) {
    aster_test::CountingAllocator memory;
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    options.allocator = &memory.table;
    options.compiler = "none";
    options.arena_block_bytes = 64;  // every request of an arena is one of the allocator
    options.threads = 1;
    memory.fail_at(n);
    aster_ml_context context{};
    int32_t status = aster_ml_context_init(&context, &options);
    if (status == 0) status = everything(&context, file.path());
    if (n < 0) {
      ASSERT_EQ(status, 0) << last_error();
      requests = memory.requests();
    } else if (status != 0) {  // an allocation that may fail unseen is a cache's
      EXPECT_EQ(status, ASTER_ML_MEMORY) << "request " << n << ": " << last_error();
    }
    EXPECT_OK(aster_ml_context_free(&context));
    EXPECT_EQ(memory.live(), 0u) << "request " << n;
    EXPECT_TRUE(memory.sound()) << "request " << n;
  }
  EXPECT_GT(requests, 1000);
}

}  // namespace
}  // namespace nn_test
