// Strided descriptors, against positions computed element by element.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "aster_ml/buffer.h"
#include "base/counted_context.h"
#include "buffer/storage.h"
#include "buffer/tensor.h"
#include "device/toy_backend.h"

namespace {

using aster_test::CountingAllocator;

constexpr int32_t kI32 = ASTER_ML_DTYPE_INT32;

aster_test::ToyDevice g_toy;

int32_t toy_device() {
  static const int32_t device = [] {
    const aster_ml_backend table = g_toy.table(true);
    int32_t code = 0;
    EXPECT_EQ(aster_ml_device_register(&code, "TOY_OF_TENSORS", &table), ASTER_ML_OK);
    return code;
  }();
  return device;
}

class TensorTest : public aster_test::CountedContext {
 protected:
  void TearDown() override {
    CountedContext::TearDown();
    EXPECT_EQ(g_toy.live, 0);
  }
};

TEST_F(TensorTest, InitIsRowMajor) {
  const size_t shape[] = {2, 3, 4};
  aster_ml_tensor t;
  ASSERT_EQ(aster_ml_tensor_init(&t, &context, kI32, ASTER_ML_DEVICE_CPU + 1, 3, shape),
            ASTER_ML_OK);
  EXPECT_EQ(t.storage.bytes, 96u);
  EXPECT_EQ(t.ndim, 3u);
  EXPECT_NE(t.shape, shape);
  EXPECT_EQ(std::vector<size_t>(t.shape, t.shape + 3), (std::vector<size_t>{2, 3, 4}));
  EXPECT_EQ(std::vector<ptrdiff_t>(t.strides, t.strides + 3), (std::vector<ptrdiff_t>{12, 4, 1}));
  EXPECT_EQ(t.dtype, kI32);
  EXPECT_EQ(t.device, ASTER_ML_DEVICE_CPU + 1);
  EXPECT_EQ(aster_ml_tensor_count(&t), 24u);
  EXPECT_EQ(aster_ml_tensor_is_contiguous(&t), 1);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  EXPECT_EQ(t.shape, nullptr);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_free(nullptr), ASTER_ML_OK);
}

TEST_F(TensorTest, ScalarsAndEmptyOnes) {
  aster_ml_tensor t;
  const int32_t seven = 7;
  ASSERT_EQ(aster_ml_tensor_from_data(&t, &context, &seven, kI32, 0, nullptr), ASTER_ML_OK);
  EXPECT_EQ(t.ndim, 0u);
  EXPECT_EQ(t.shape, nullptr);
  EXPECT_EQ(aster_ml_tensor_count(&t), 1u);
  EXPECT_EQ(aster_ml_tensor_is_contiguous(&t), 1);
  int32_t out = 0;
  EXPECT_EQ(aster_ml_tensor_copy_out(&out, &t, 1), ASTER_ML_OK);
  EXPECT_EQ(out, 7);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  const size_t empty[] = {3, 0, 5};
  ASSERT_EQ(aster_ml_tensor_from_data(&t, &context, nullptr, kI32, 3, empty), ASTER_ML_OK);
  EXPECT_EQ(t.storage.bytes, 0u);
  EXPECT_EQ(aster_ml_tensor_count(&t), 0u);
  EXPECT_EQ(aster_ml_tensor_is_contiguous(&t), 1);
  EXPECT_EQ(aster_ml_tensor_copy_out(nullptr, &t, 0), ASTER_ML_OK);
  aster_ml_tensor copy;
  EXPECT_EQ(aster_ml_tensor_contiguous(&copy, &context, &t), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_free(&copy), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
}

// Random strided views, gathered and scattered, on host and device memory.
TEST_F(TensorTest, StridedCopiesEqualElementByElement) {
  const unsigned seed = 20;
  std::mt19937 random(seed);
  for (int trial = 0; trial < 300; ++trial) {
    const size_t ndim = random() % 5;
    std::vector<size_t> shape(ndim);
    std::vector<ptrdiff_t> strides(ndim);
    int64_t low = 0, high = 0;
    for (size_t i = 0; i < ndim; ++i) {
      shape[i] = 1 + random() % 4;
      strides[i] = static_cast<ptrdiff_t>(random() % 21) - 10;
      const int64_t span = static_cast<int64_t>(shape[i] - 1) * strides[i];
      (span < 0 ? low : high) += span;
    }
    const size_t elements = static_cast<size_t>(high - low + 1);
    std::vector<int32_t> source(elements);
    std::iota(source.begin(), source.end(), 1000);
    const int32_t device = trial % 3 == 0 ? toy_device() : ASTER_ML_DEVICE_CPU;
    aster_ml_buffer buffer;
    ASSERT_EQ(aster_ml_buffer_init(&buffer, &context, elements * 4, kI32, device), ASTER_ML_OK);
    ASSERT_EQ(aster_ml_buffer_copy_in(&buffer, 0, source.data(), elements * 4), ASTER_ML_OK);
    aster_ml_tensor view;
    ASSERT_EQ(aster_ml_tensor_from_buffer(&view, &context, &buffer, static_cast<size_t>(-low) * 4,
                                          ndim, ndim != 0 ? shape.data() : nullptr,
                                          ndim != 0 ? strides.data() : nullptr),
              ASTER_ML_OK);
    EXPECT_EQ(aster_ml_buffer_free(&buffer), ASTER_ML_OK);  // the view keeps the memory
    const size_t count = aster_ml_tensor_count(&view);
    std::vector<int32_t> expected(count), got(count), copied(count);
    std::vector<size_t> places(count);
    for (size_t i = 0; i < count; ++i) {
      int64_t at = -low;
      size_t rest = i;
      for (size_t axis = ndim; axis-- > 0;) {
        at += static_cast<int64_t>(rest % shape[axis]) * strides[axis];
        rest /= shape[axis];
      }
      places[i] = static_cast<size_t>(at);
      expected[i] = source[places[i]];
    }
    ASSERT_EQ(aster_ml_tensor_copy_out(got.data(), &view, count), ASTER_ML_OK);
    EXPECT_EQ(got, expected) << "seed " << seed << " trial " << trial;
    aster_ml_tensor dense;
    ASSERT_EQ(aster_ml_tensor_contiguous(&dense, &context, &view), ASTER_ML_OK);
    EXPECT_EQ(aster_ml_tensor_is_contiguous(&dense), 1);
    EXPECT_EQ(dense.device, device);
    ASSERT_EQ(aster_ml_buffer_copy_out(copied.data(), &dense.storage, 0, count * 4), ASTER_ML_OK);
    EXPECT_EQ(copied, expected) << "seed " << seed << " trial " << trial;
    // Written back in order: where places coincide, the last one stays.
    std::vector<int32_t> fresh(count);
    std::iota(fresh.begin(), fresh.end(), -500);
    ASSERT_EQ(aster_ml_tensor_copy_in(&view, fresh.data(), count), ASTER_ML_OK);
    for (size_t i = 0; i < count; ++i) source[places[i]] = fresh[i];
    std::vector<int32_t> whole(elements);
    ASSERT_EQ(aster_ml_buffer_copy_out(whole.data(), &view.storage, 0, elements * 4), ASTER_ML_OK);
    EXPECT_EQ(whole, source) << "seed " << seed << " trial " << trial;
    EXPECT_EQ(aster_ml_tensor_free(&dense), ASTER_ML_OK);
    EXPECT_EQ(aster_ml_tensor_free(&view), ASTER_ML_OK);
  }
}

TEST_F(TensorTest, ElementsOfEverySize) {
  for (const int32_t dtype :
       {ASTER_ML_DTYPE_INT8 + 0, ASTER_ML_DTYPE_FLOAT16 + 0, kI32, ASTER_ML_DTYPE_FLOAT64 + 0,
        ASTER_ML_DTYPE_TBB16 + 0, ASTER_ML_DTYPE_FLT256 + 0, ASTER_ML_DTYPE_FLT512 + 0}) {
    const size_t size = aster_ml_dtype_size(dtype), shape[] = {5, 3};
    std::vector<unsigned char> data(15 * size), got(15 * size);
    std::iota(data.begin(), data.end(), static_cast<unsigned char>(1));
    aster_ml_tensor t, transposed;
    ASSERT_EQ(aster_ml_tensor_from_data(&t, &context, data.data(), dtype, 2, shape), ASTER_ML_OK);
    const size_t turned[] = {3, 5};
    const ptrdiff_t strides[] = {1, 3};
    ASSERT_EQ(aster_ml_tensor_from_buffer(&transposed, &context, &t.storage, 0, 2, turned, strides),
              ASTER_ML_OK);
    EXPECT_EQ(aster_ml_tensor_is_contiguous(&transposed), 0);
    ASSERT_EQ(aster_ml_tensor_copy_out(got.data(), &transposed, 15), ASTER_ML_OK);
    for (size_t i = 0; i < 3; ++i) {
      for (size_t k = 0; k < 5; ++k) {
        EXPECT_EQ(std::memcmp(&got[(i * 5 + k) * size], &data[(k * 3 + i) * size], size), 0);
      }
    }
    // Backwards, and every second one; and back where they came from.
    for (const ptrdiff_t step : {ptrdiff_t{-1}, ptrdiff_t{2}}) {
      const size_t count = step < 0 ? 15 : 8;
      aster_ml_tensor line;
      ASSERT_EQ(aster_ml_tensor_from_buffer(&line, &context, &t.storage, step < 0 ? 14 * size : 0,
                                            1, &count, &step),
                ASTER_ML_OK);
      ASSERT_EQ(aster_ml_tensor_copy_out(got.data(), &line, count), ASTER_ML_OK);
      for (size_t i = 0; i < count; ++i) {
        const size_t at = step < 0 ? 14 - i : 2 * i;
        EXPECT_EQ(std::memcmp(&got[i * size], &data[at * size], size), 0) << size << " " << i;
      }
      ASSERT_EQ(aster_ml_tensor_copy_in(&line, got.data(), count), ASTER_ML_OK);
      ASSERT_EQ(aster_ml_tensor_copy_out(got.data(), &t, 15), ASTER_ML_OK);
      EXPECT_EQ(got, data) << size << " " << step;
      EXPECT_EQ(aster_ml_tensor_free(&line), ASTER_ML_OK);
    }
    aster_ml_tensor_free(&t);
    aster_ml_tensor_free(&transposed);
  }
}

TEST_F(TensorTest, ContiguityIgnoresAxesOfSizeOne) {
  int32_t data[12] = {};
  size_t shape[] = {3, 1, 4};
  ptrdiff_t strides[] = {4, 99, 1};
  const aster_ml_tensor t{
      {data, 48, kI32, ASTER_ML_DEVICE_CPU}, 0, 3, shape, strides, kI32, ASTER_ML_DEVICE_CPU};
  EXPECT_EQ(aster_ml_tensor_is_contiguous(&t), 1);
  strides[0] = 5;
  EXPECT_EQ(aster_ml_tensor_is_contiguous(&t), 0);
  EXPECT_EQ(aster_ml_tensor_is_contiguous(nullptr), 0);
}

TEST_F(TensorTest, DescriptorsOfForeignArraysMayBeFreed) {
  int32_t data[4] = {};
  size_t shape[] = {4};
  ptrdiff_t strides[] = {1};
  // As often as one likes, and after a buffer of the same memory.
  for (int i = 0; i < 2; ++i) {
    aster_ml_tensor t{
        {data, 16, kI32, ASTER_ML_DEVICE_CPU}, 0, 1, shape, strides, kI32, ASTER_ML_DEVICE_CPU};
    EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
    EXPECT_EQ(t.shape, nullptr);
    aster_ml_buffer b;
    ASSERT_EQ(aster_ml_buffer_from_memory(&b, &context, data, 16, kI32, 0, 0, nullptr, nullptr),
              ASTER_ML_OK);
    EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  }
}

TEST_F(TensorTest, ASecondFreeOfACopyIsAnError) {
  const size_t shape[] = {4};
  aster_ml_tensor a, b;
  ASSERT_EQ(aster_ml_tensor_init(&a, &context, kI32, 0, 1, shape), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_tensor_from_buffer(&b, &context, &a.storage, 0, 1, shape, nullptr),
            ASTER_ML_OK);
  aster_ml_tensor copy = a;
  EXPECT_EQ(aster_ml_tensor_free(&a), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_free(&copy), ASTER_ML_ARGUMENT);
  const aster_ml_tensor zero{};
  EXPECT_EQ(std::memcmp(&copy, &zero, sizeof(copy)), 0);
  std::memset(b.storage.data, 1, 16);  // still there
  EXPECT_EQ(aster_ml_tensor_free(&b), ASTER_ML_OK);
}

// What a program or a lazy tensor lends: its own memory, with axes that the caller frees.
TEST_F(TensorTest, LentMemoryStaysWithItsOwner) {
  aster::Context& impl = *aster::context_of(&context);
  aster::buffer::Storage* storage;
  ASSERT_TRUE(aster::buffer::storage_create(&storage, impl, 64, 0).ok());
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 4}, std::vector<int64_t>{}}) {
    aster_ml_tensor lent;
    ASSERT_TRUE(aster::buffer::describe(&lent, impl, storage->data, aster::dtype::DType::kInt32,
                                        ASTER_ML_DEVICE_CPU, shape)
                    .ok());
    EXPECT_EQ(lent.ndim, shape.size());
    EXPECT_EQ(lent.storage.bytes, shape.empty() ? 4u : 64u);
    EXPECT_EQ(aster_ml_tensor_free(&lent), ASTER_ML_OK);
    EXPECT_EQ(lent.storage.data, nullptr);
  }
  std::memset(storage->data, 1, 64);
  aster::buffer::storage_release(storage);
}

TEST_F(TensorTest, CallersOwnAxesOverOurMemory) {
  aster_ml_buffer buffer;
  ASSERT_EQ(aster_ml_buffer_init(&buffer, &context, 16, kI32, 0), ASTER_ML_OK);
  size_t shape[] = {4};
  ptrdiff_t strides[] = {1};
  aster_ml_tensor t{buffer, 0, 1, shape, strides, kI32, ASTER_ML_DEVICE_CPU};
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&buffer), ASTER_ML_ARGUMENT);  // it was freed with the tensor
}

// Memory that was wrapped and given back is its owner's, who may put axes there.
TEST_F(TensorTest, AxesWhereWrappedMemoryWas) {
  size_t shape[] = {4};
  ptrdiff_t strides[] = {1};
  aster_ml_buffer wrapped, buffer;
  for (const bool open : {false, true}) {
    ASSERT_EQ(aster_ml_buffer_from_memory(&wrapped, &context, shape, sizeof(shape), kI32, 0, 0,
                                          nullptr, nullptr),
              ASTER_ML_OK);
    if (!open) aster_ml_buffer_free(&wrapped);
    ASSERT_EQ(aster_ml_buffer_init(&buffer, &context, 16, kI32, 0), ASTER_ML_OK);
    aster_ml_tensor t{buffer, 0, 1, shape, strides, kI32, ASTER_ML_DEVICE_CPU};
    EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
    EXPECT_EQ(aster_ml_buffer_free(&buffer), ASTER_ML_ARGUMENT);
    if (open) aster_ml_buffer_free(&wrapped);
  }
}

TEST_F(TensorTest, ShapeErrors) {
  aster_ml_tensor t;
  const size_t huge[] = {SIZE_MAX / 2, 4};
  EXPECT_EQ(aster_ml_tensor_init(&t, &context, kI32, 0, 2, huge), ASTER_ML_RANGE);
  EXPECT_EQ(t.shape, nullptr);
  const size_t huge_but_empty[] = {SIZE_MAX / 2, 0, SIZE_MAX / 2};
  EXPECT_EQ(aster_ml_tensor_init(&t, &context, kI32, 0, 3, huge_but_empty), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_tensor_init(&t, &context, kI32, 0, 2, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_tensor_init(&t, &context, kI32, 0, SIZE_MAX, huge), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_tensor_init(&t, &context, 0, 0, 1, huge), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_tensor_init(nullptr, &context, kI32, 0, 1, huge), ASTER_ML_ARGUMENT);
  const size_t shape[] = {4};
  EXPECT_EQ(aster_ml_tensor_init(&t, nullptr, kI32, 0, 1, shape), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_tensor_from_data(&t, &context, nullptr, kI32, 1, shape), ASTER_ML_ARGUMENT);
  EXPECT_EQ(t.storage.data, nullptr);
}

TEST_F(TensorTest, ViewsOutsideTheirBufferAreRefused) {
  int32_t data[12] = {};
  const aster_ml_buffer buffer{data, sizeof(data), kI32, ASTER_ML_DEVICE_CPU};
  aster_ml_tensor t;
  const auto view = [&](size_t offset, std::vector<size_t> shape, std::vector<ptrdiff_t> strides) {
    const int32_t status =
        aster_ml_tensor_from_buffer(&t, &context, &buffer, offset, shape.size(), shape.data(),
                                    strides.empty() ? nullptr : strides.data());
    if (status == ASTER_ML_OK) {
      EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
    } else {
      EXPECT_EQ(t.shape, nullptr);
    }
    return status;
  };
  EXPECT_EQ(view(0, {3, 4}, {}), ASTER_ML_OK);
  EXPECT_EQ(view(44, {3, 4}, {-4, -1}), ASTER_ML_OK);
  EXPECT_EQ(view(0, {1000000, 4}, {0, 1}), ASTER_ML_OK);
  EXPECT_EQ(view(0, {3, 5}, {}), ASTER_ML_RANGE);
  EXPECT_EQ(view(4, {3, 4}, {}), ASTER_ML_RANGE);
  EXPECT_EQ(view(40, {3, 4}, {-4, -1}), ASTER_ML_RANGE);
  EXPECT_EQ(view(2, {1}, {}), ASTER_ML_ARGUMENT);
  EXPECT_EQ(view(0, {2}, {PTRDIFF_MAX}), ASTER_ML_RANGE);
  EXPECT_EQ(view(0, {3}, {PTRDIFF_MIN}), ASTER_ML_RANGE);
  EXPECT_EQ(view(SIZE_MAX - 3, {1}, {}), ASTER_ML_RANGE);
  EXPECT_EQ(view(48, {0, 4}, {}), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_from_buffer(&t, &context, nullptr, 0, 0, nullptr, nullptr),
            ASTER_ML_ARGUMENT);
}

TEST_F(TensorTest, CopyErrors) {
  const size_t shape[] = {4};
  int32_t host[8] = {};
  aster_ml_tensor t;
  ASSERT_EQ(aster_ml_tensor_init(&t, &context, kI32, 0, 1, shape), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_copy_in(&t, host, 5), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_tensor_copy_out(host, &t, 3), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_tensor_copy_in(&t, nullptr, 4), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_tensor_copy_in(nullptr, host, 4), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_tensor_contiguous(&t, &context, &t), ASTER_ML_ARGUMENT);
  EXPECT_NE(t.shape, nullptr);
  aster_ml_tensor broken = t, out;
  broken.strides = nullptr;
  EXPECT_EQ(aster_ml_tensor_contiguous(&out, &context, &broken), ASTER_ML_ARGUMENT);
  broken = t;
  broken.byte_offset = 8;
  EXPECT_EQ(aster_ml_tensor_contiguous(&out, &context, &broken), ASTER_ML_RANGE);
  broken = t;
  broken.dtype = 90;
  EXPECT_EQ(aster_ml_tensor_copy_out(host, &broken, 4), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  aster_ml_buffer constant;
  ASSERT_EQ(
      aster_ml_buffer_from_memory(&constant, &context, host, 16, kI32, 0, 1, nullptr, nullptr),
      ASTER_ML_OK);
  ASSERT_EQ(aster_ml_tensor_from_buffer(&t, &context, &constant, 0, 1, shape, nullptr),
            ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_copy_in(&t, host + 4, 4), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&constant), ASTER_ML_OK);
}

TEST_F(TensorTest, EveryAllocationMayFail) {
  const size_t shape[] = {2, 3};
  const int32_t data[6] = {1, 2, 3, 4, 5, 6};
  int64_t n = 0;
  for (int32_t status = ASTER_ML_MEMORY; status == ASTER_ML_MEMORY; ++n) {
    ASSERT_LT(n, 20);
    allocator.fail_at(n);
    aster_ml_tensor t{}, view{}, dense{};
    status = aster_ml_tensor_from_data(&t, &context, data, kI32, 2, shape);
    if (status == ASTER_ML_OK) {
      status = aster_ml_tensor_from_buffer(&view, &context, &t.storage, 0, 2, shape, nullptr);
    }
    if (status == ASTER_ML_OK) status = aster_ml_tensor_contiguous(&dense, &context, &view);
    for (aster_ml_tensor* x : {&t, &view, &dense}) EXPECT_EQ(aster_ml_tensor_free(x), ASTER_ML_OK);
  }
  EXPECT_GT(n, 3);  // one for each tensor: its axes stand behind its memory, the view has no other
}

// Axes stand in the record of the memory: whichever ends first, the other one stays whole.
TEST_F(TensorTest, MemoryOutlivesTheAxesThatWereMadeWithIt) {
  for (const size_t columns : {size_t{3}, size_t{1} << 20}) {  // within the record, and beside it
    const size_t shape[] = {2, columns};
    aster_ml_tensor t{}, view{};
    ASSERT_EQ(aster_ml_tensor_init(&t, &context, kI32, 0, 2, shape), ASTER_ML_OK);
    static_cast<int32_t*>(t.storage.data)[5] = 42;
    ASSERT_EQ(aster_ml_tensor_from_buffer(&view, &context, &t.storage, 0, 2, shape, nullptr),
              ASTER_ML_OK);
    aster_ml_tensor again = t;
    EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
    EXPECT_EQ(aster_ml_tensor_free(&again), ASTER_ML_ARGUMENT);  // freed already
    EXPECT_EQ(static_cast<const int32_t*>(view.storage.data)[5], 42);
    EXPECT_EQ(view.shape[1], columns);
    EXPECT_EQ(aster_ml_tensor_free(&view), ASTER_ML_OK);
  }
}

}  // namespace
