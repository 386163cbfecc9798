// Arrays: strides, places, threads; and calls that are wrong.
#include "flt/elements.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "aster_ml/flt.h"
#include "base/counting_allocator.h"

namespace {

constexpr int32_t kDtypes[] = {ASTER_ML_DTYPE_FLT256, ASTER_ML_DTYPE_FLT512};

size_t words_of(int32_t dtype) { return dtype == ASTER_ML_DTYPE_FLT256 ? 4 : 8; }

std::vector<uint64_t> numbers(int32_t dtype, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(static_cast<int64_t>(random())) * 0x1p-60);
  }
  std::vector<uint64_t> out(count * words_of(dtype));
  EXPECT_EQ(aster_ml_flt_copy(out.data(), nullptr, dtype, values.data(), ASTER_ML_DTYPE_FLOAT64, 0,
                              nullptr, count),
            0);
  return out;
}

int32_t last_status() {
  aster_ml_error error;
  aster_ml_error_last(&error);
  return error.code;
}

TEST(FltElements, StridesAreElements) {
  for (const int32_t dtype : kDtypes) {
    const size_t w = words_of(dtype), n = 20;
    const std::vector<uint64_t> a = numbers(dtype, n, 1), b = numbers(dtype, 3 * n, 2);
    std::vector<uint64_t> out(2 * n * w, 5), one(w);
    const void* const at[] = {a.data() + (n - 1) * w, b.data()};
    const int64_t strides[] = {2, -1, 3};
    ASSERT_EQ(aster_ml_flt_apply(out.data(), nullptr, ASTER_ML_FLT_SUB, dtype, 0, at, strides, n),
              0);
    for (size_t i = 0; i < n; ++i) {
      const void* const single[] = {a.data() + (n - 1 - i) * w, b.data() + 3 * i * w};
      ASSERT_EQ(
          aster_ml_flt_apply(one.data(), nullptr, ASTER_ML_FLT_SUB, dtype, 0, single, nullptr, 1),
          0);
      EXPECT_EQ(std::memcmp(one.data(), out.data() + 2 * i * w, w * 8), 0);
      EXPECT_EQ(out[(2 * i + 1) * w], 5u);  // what lies between stays
    }
    // One operand for all, and in place.
    std::vector<uint64_t> same = a, twice(n * w);
    const int64_t repeat[] = {1, 1, 0};
    const void* const with_one[] = {same.data(), b.data()};
    ASSERT_EQ(
        aster_ml_flt_apply(twice.data(), nullptr, ASTER_ML_FLT_MUL, dtype, 0, with_one, repeat, n),
        0);
    ASSERT_EQ(
        aster_ml_flt_apply(same.data(), nullptr, ASTER_ML_FLT_MUL, dtype, 0, with_one, repeat, n),
        0);
    EXPECT_EQ(same, twice);
  }
}

TEST(FltElements, ThreadsChangeNothing) {
  aster_ml_context_options options = {};
  options.struct_size = sizeof(options);
  options.threads = 3;
  aster_ml_context context;
  ASSERT_EQ(aster_ml_context_init(&context, &options), 0);
  for (const int32_t dtype : kDtypes) {
    const size_t w = words_of(dtype), n = 40001;
    const std::vector<uint64_t> a = numbers(dtype, n, 3), b = numbers(dtype, n, 4);
    const void* const at[] = {a.data(), b.data(), a.data()};
    for (const int32_t operation : {ASTER_ML_FLT_ADD, ASTER_ML_FLT_DIV, ASTER_ML_FLT_FMA}) {
      std::vector<uint64_t> alone(n * w), together(n * w);
      ASSERT_EQ(aster_ml_flt_apply(alone.data(), nullptr, operation, dtype, 0, at, nullptr, n), 0);
      ASSERT_EQ(aster_ml_flt_apply(together.data(), &context, operation, dtype, 0, at, nullptr, n),
                0);
      EXPECT_EQ(alone, together);
    }
    std::vector<double> back(n), back_alone(n);
    ASSERT_EQ(aster_ml_flt_copy(back.data(), &context, ASTER_ML_DTYPE_FLOAT64, a.data(), dtype, 0,
                                nullptr, n),
              0);
    ASSERT_EQ(aster_ml_flt_copy(back_alone.data(), nullptr, ASTER_ML_DTYPE_FLOAT64, a.data(), dtype,
                                0, nullptr, n),
              0);
    EXPECT_EQ(back, back_alone);
  }
  aster_ml_context_free(&context);
}

TEST(FltElements, WrongCalls) {
  constexpr int32_t kDtype = ASTER_ML_DTYPE_FLT256;
  std::vector<uint64_t> a = numbers(kDtype, 8, 5), kept = a, out(40, 9);
  const std::vector<uint64_t> untouched = out;
  const void* const at[] = {a.data(), a.data(), a.data()};
  const auto apply = [&](void* to, int32_t operation, int32_t dtype, int32_t mode,
                         const void* const* operands, const int64_t* strides, size_t count) {
    return aster_ml_flt_apply(to, nullptr, operation, dtype, mode, operands, strides, count);
  };
  const auto add = ASTER_ML_FLT_ADD;
  EXPECT_EQ(apply(out.data(), 0, kDtype, 0, at, nullptr, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(apply(out.data(), 999, kDtype, 0, at, nullptr, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(apply(out.data(), -1, kDtype, 0, at, nullptr, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(apply(out.data(), add, ASTER_ML_DTYPE_FLOAT64, 0, at, nullptr, 8), ASTER_ML_DTYPE);
  EXPECT_EQ(apply(out.data(), add, 12345, 0, at, nullptr, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(apply(out.data(), add, kDtype, 4, at, nullptr, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(apply(out.data(), add, kDtype, -1, at, nullptr, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(apply(nullptr, add, kDtype, 0, at, nullptr, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(apply(out.data(), add, kDtype, 0, nullptr, nullptr, 8), ASTER_ML_ARGUMENT);
  const void* const missing[] = {a.data(), nullptr};
  EXPECT_EQ(apply(out.data(), add, kDtype, 0, missing, nullptr, 8), ASTER_ML_ARGUMENT);
  const void* const odd[] = {a.data(), reinterpret_cast<const char*>(a.data()) + 4};
  EXPECT_EQ(apply(out.data(), add, kDtype, 0, odd, nullptr, 7), ASTER_ML_ARGUMENT);
  EXPECT_EQ(apply(reinterpret_cast<char*>(out.data()) + 1, add, kDtype, 0, at, nullptr, 7),
            ASTER_ML_ARGUMENT);
  const int64_t large[] = {INT64_MAX / 2, 1, 1}, far[] = {1, INT64_MAX / 64, 1};
  EXPECT_EQ(apply(out.data(), add, kDtype, 0, at, large, 8), ASTER_ML_RANGE);
  EXPECT_EQ(apply(out.data(), add, kDtype, 0, at, far, 4), ASTER_ML_RANGE);
  EXPECT_EQ(apply(out.data(), add, kDtype, 0, at, nullptr, SIZE_MAX), ASTER_ML_RANGE);
  const int64_t still[] = {0, 1, 1};
  EXPECT_EQ(apply(out.data(), add, kDtype, 0, at, still, 8), ASTER_ML_ARGUMENT);
  aster_ml_context empty = {};
  EXPECT_EQ(aster_ml_flt_apply(out.data(), &empty, add, kDtype, 0, at, nullptr, 8),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(last_status(), ASTER_ML_ARGUMENT);
  EXPECT_EQ(out, untouched);
  // Nothing to do is done, with whatever addresses.
  EXPECT_EQ(apply(nullptr, add, kDtype, 0, nullptr, nullptr, 0), 0);
  EXPECT_EQ(aster_ml_flt_count_operands(ASTER_ML_FLT_FMA), 3);
  EXPECT_EQ(aster_ml_flt_count_operands(1000), 0);
}

TEST(FltElements, Overlaps) {
  constexpr int32_t kDtype = ASTER_ML_DTYPE_FLT256;
  std::vector<uint64_t> a = numbers(kDtype, 16, 6);
  const std::vector<uint64_t> kept = a;
  const auto add = [&](size_t to, size_t from, int64_t step, int64_t other, size_t count) {
    const void* const at[] = {a.data() + from * 4, a.data() + from * 4};
    const int64_t strides[] = {step, other, other};
    const int32_t status = aster_ml_flt_apply(a.data() + to * 4, nullptr, ASTER_ML_FLT_ADD, kDtype,
                                              0, at, strides, count);
    EXPECT_TRUE(status == 0 || a == kept);
    a = kept;
    return status;
  };
  EXPECT_EQ(add(0, 0, 1, 1, 16), 0);                 // in place
  EXPECT_EQ(add(0, 1, 1, 1, 8), ASTER_ML_ARGUMENT);  // one further
  EXPECT_EQ(add(1, 0, 1, 1, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(add(0, 7, 1, -1, 8), ASTER_ML_ARGUMENT);  // reversed in place
  EXPECT_EQ(add(0, 8, 1, 1, 8), 0);                   // side by side
  EXPECT_EQ(add(8, 7, 1, -1, 8), 0);
  EXPECT_EQ(add(0, 1, 2, 2, 8), 0);  // by turns
  EXPECT_EQ(add(1, 0, 2, 2, 8), 0);
  EXPECT_EQ(add(1, 14, 2, -2, 7), 0);
  EXPECT_EQ(add(0, 2, 2, 2, 7), ASTER_ML_ARGUMENT);
  EXPECT_EQ(add(0, 1, 2, 1, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(add(0, 0, 1, 0, 8), ASTER_ML_ARGUMENT);  // written while it is read again
}

TEST(FltElements, WrongCopies) {
  constexpr int32_t kDtype = ASTER_ML_DTYPE_FLT512;
  uint64_t wide[16] = {};
  double narrow[4] = {1, 2, 3, 4};
  const auto copy = [&](void* dst, int32_t dst_dtype, const void* src, int32_t src_dtype,
                        int32_t mode) {
    return aster_ml_flt_copy(dst, nullptr, dst_dtype, src, src_dtype, mode, nullptr, 2);
  };
  constexpr int32_t kDouble = ASTER_ML_DTYPE_FLOAT64;
  EXPECT_EQ(copy(narrow, kDouble, narrow + 2, kDouble, 0), ASTER_ML_DTYPE);
  EXPECT_EQ(copy(wide, kDtype, narrow, ASTER_ML_DTYPE_WEAKINT, 0), ASTER_ML_DTYPE);
  EXPECT_EQ(copy(wide, kDtype, narrow, 777, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(copy(wide, kDtype, narrow, kDouble, 9), ASTER_ML_ARGUMENT);
  EXPECT_EQ(copy(nullptr, kDtype, narrow, kDouble, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(copy(wide, kDtype, nullptr, kDouble, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(copy(reinterpret_cast<char*>(wide) + 4, kDtype, narrow, kDouble, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(copy(wide, kDouble, wide, kDtype, 0), ASTER_ML_ARGUMENT);  // of another size in place
  for (const uint64_t word : wide) EXPECT_EQ(word, 0u);
}

// Memory is asked of the context as often for many elements as for few; nothing else is asked of
// (tools/check_symbols.py).
TEST(FltElements, NothingIsAllocatedForAnElement) {
  aster_test::CountingAllocator allocator;
  aster_ml_context_options options = {};
  options.struct_size = sizeof(options);
  options.threads = 2;
  options.allocator = &allocator.table;
  aster_ml_context context;
  ASSERT_EQ(aster_ml_context_init(&context, &options), 0);
  for (const int32_t dtype : kDtypes) {
    const size_t w = words_of(dtype), n = 20000;
    const std::vector<uint64_t> a = numbers(dtype, n, 8), b = numbers(dtype, n, 9);
    std::vector<uint64_t> out(n * w);
    std::vector<double> narrow(n);
    const void* const at[] = {a.data(), b.data(), a.data()};
    const auto requests = [&](size_t count) {
      const int64_t before = allocator.requests();
      for (const int32_t operation :
           {ASTER_ML_FLT_NEG, ASTER_ML_FLT_ADD, ASTER_ML_FLT_MUL, ASTER_ML_FLT_DIV,
            ASTER_ML_FLT_SQRT, ASTER_ML_FLT_FMA, ASTER_ML_FLT_ROUND, ASTER_ML_FLT_MAX}) {
        EXPECT_EQ(aster_ml_flt_apply(out.data(), &context, operation, dtype, 0, at, nullptr, count),
                  0);
      }
      EXPECT_EQ(aster_ml_flt_copy(narrow.data(), &context, ASTER_ML_DTYPE_FLOAT64, a.data(), dtype,
                                  0, nullptr, count),
                0);
      EXPECT_EQ(aster_ml_flt_sum(out.data(), &context, dtype, 0, a.data(), nullptr, count), 0);
      return allocator.requests() - before;
    };
    requests(n);  // threads begin
    EXPECT_LE(requests(n), requests(10) + 4);
  }
  EXPECT_EQ(aster_ml_context_free(&context), 0);
}

// Each request for memory fails in turn: MEMORY, and everything is given back.
TEST(FltElements, FailingAllocations) {
  for (const int threads : {1, 2}) {
    aster_test::CountingAllocator allocator;
    aster_ml_context_options options = {};
    options.struct_size = sizeof(options);
    options.threads = threads;
    options.allocator = &allocator.table;
    aster_ml_context context;
    ASSERT_EQ(aster_ml_context_init(&context, &options), 0);
    constexpr int32_t kDtype = ASTER_ML_DTYPE_FLT256;
    constexpr size_t kSize = 40;
    const std::vector<uint64_t> a = numbers(kDtype, kSize * kSize, 7);
    std::vector<uint64_t> out(kSize * kSize * 4), wide = a;
    wide[3] = uint64_t{0x7fffe} << 44;  // a sum of many limbs
    wide[7] = uint64_t{1} << 44;
    const size_t live = allocator.live();
    bool failed = true;
    for (int64_t request = 0; failed; ++request) {
      ASSERT_LT(request, 100);
      allocator.fail_at(request);
      const int32_t product = aster_ml_flt_matmul(out.data(), &context, kDtype, 0, a.data(),
                                                  a.data(), kSize, kSize, kSize, nullptr);
      allocator.fail_at(request);
      const int32_t sum =
          aster_ml_flt_sum(out.data(), &context, kDtype, 0, wide.data(), nullptr, kSize);
      allocator.fail_at(-1);
      failed = product != 0 || sum != 0;
      EXPECT_TRUE(product == 0 || product == ASTER_ML_MEMORY) << product;
      EXPECT_TRUE(sum == 0 || sum == ASTER_ML_MEMORY) << sum;
      EXPECT_TRUE(request > 0 || (product != 0 && sum != 0));
      EXPECT_EQ(allocator.live(), live);
    }
    EXPECT_EQ(aster_ml_context_free(&context), 0);
    EXPECT_TRUE(allocator.sound());
    EXPECT_EQ(allocator.live(), 0u);
  }
}

}  // namespace
