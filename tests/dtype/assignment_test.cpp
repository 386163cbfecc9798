#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "aster_ml/dtype.h"
#include "aster_ml/kernel.h"
#include "base/counting_allocator.h"

namespace aster {
namespace {

using Instance = aster_ml_dynamic_kernel_instance;

aster_ml_unary_strided strided(const Instance& k) {
  return reinterpret_cast<aster_ml_unary_strided>(k.kernel->function);
}
void give_up(const Instance& k) {
  k.kernel->destructor(k.kernel);
  k.free_func(k.kernel);
}

// One kernel, called by eight threads at once, beside threads that get and give up their own.
TEST(Assignment, RunsOnManyThreadsAtOnce) {
  aster_ml_context context{};
  ASSERT_EQ(aster_ml_context_init(&context, nullptr), ASTER_ML_OK);
  for (const int32_t from : {ASTER_ML_DTYPE_INT32, ASTER_ML_DTYPE_FLOAT16}) {
    Instance shared;
    ASSERT_EQ(aster_ml_kernel_get_assignment(&shared, &context, ASTER_ML_KERNEL_STRIDED,
                                             ASTER_ML_DTYPE_FLOAT64, from),
              ASTER_ML_OK);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&shared, from, t] {
        std::vector<int32_t> whole(1000);
        std::vector<char> given(4000);
        std::vector<double> got(1000);
        const auto bytes = static_cast<ptrdiff_t>(aster_ml_dtype_size(from));
        for (int round = 0; round < 20; ++round) {
          for (int i = 0; i < 1000; ++i) whole[static_cast<size_t>(i)] = t * 100 + i % 50;
          EXPECT_EQ(aster_ml_dtype_copy(given.data(), from, whole.data(), ASTER_ML_DTYPE_INT32,
                                        whole.size()),
                    ASTER_ML_OK);
          strided(shared)(reinterpret_cast<char*>(got.data() + 999), -8, given.data(), bytes, 1000,
                          shared.kernel);
          for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(got[999 - i], whole[i]);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::thread([&shared] { give_up(shared); }).join();
  }
  EXPECT_EQ(aster_ml_context_free(&context), ASTER_ML_OK);
}

// All memory is the context's allocator's, all of it comes back, and a failure is MEMORY.
TEST(Assignment, TakesItsMemoryFromTheContext) {
  aster_test::CountingAllocator allocator;
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.allocator = &allocator.table;
  aster_ml_context context{};
  ASSERT_EQ(aster_ml_context_init(&context, &options), ASTER_ML_OK);
  const size_t before = allocator.live();
  Instance k;
  const auto get = [&] {
    return aster_ml_kernel_get_assignment(&k, &context, ASTER_ML_KERNEL_SINGLE,
                                          ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DTYPE_INT8);
  };
  ASSERT_EQ(get(), ASTER_ML_OK);
  EXPECT_GT(allocator.live(), before);
  k.free_func(nullptr);
  give_up(k);
  EXPECT_EQ(allocator.live(), before);
  allocator.fail_at(0);
  EXPECT_EQ(get(), -ASTER_ML_MEMORY);
  EXPECT_EQ(k.kernel, nullptr);
  allocator.fail_at(-1);
  EXPECT_EQ(aster_ml_context_free(&context), ASTER_ML_OK);
  EXPECT_EQ(allocator.live(), 0u);
  EXPECT_TRUE(allocator.sound());
}

}  // namespace
}  // namespace aster
