// Buffers: the storage table, wrapped memory, copies between devices, the cache of freed blocks.
#include "aster_ml/buffer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "base/counted_context.h"
#include "buffer/block_cache.h"
#include "buffer/storage.h"
#include "device/device.h"
#include "device/toy_backend.h"

namespace {

using aster::Context;
using aster_test::CountingAllocator;
namespace buf = aster::buffer;

constexpr int32_t kF32 = ASTER_ML_DTYPE_FLOAT32;
constexpr int32_t kU8 = ASTER_ML_DTYPE_UINT8;

aster_test::ToyDevice g_toy;

int32_t toy_device() {
  static const int32_t device = [] {
    const aster_ml_backend table = g_toy.table(false);
    int32_t code = 0;
    EXPECT_EQ(aster_ml_device_register(&code, "TOY", &table), ASTER_ML_OK);
    return code;
  }();
  return device;
}

class BufferTest : public aster_test::CountedContext {
 protected:
  void TearDown() override {
    CountedContext::TearDown();
    EXPECT_EQ(g_toy.live, 0);
  }
  Context& impl() { return *aster::context_of(&context); }
  aster_ml_buffer make(size_t bytes, int32_t device = 0, int32_t dtype = kU8) {
    aster_ml_buffer buffer;
    EXPECT_EQ(aster_ml_buffer_init(&buffer, &context, bytes, dtype, device), ASTER_ML_OK);
    return buffer;
  }
};

TEST_F(BufferTest, Init) {
  aster_ml_buffer b = make(400, 0, kF32);
  ASSERT_NE(b.data, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data) % 64, 0u);
  EXPECT_EQ(b.bytes, 400u);
  EXPECT_EQ(b.dtype, kF32);
  EXPECT_EQ(b.device, ASTER_ML_DEVICE_CPU);
  EXPECT_EQ(aster_ml_buffer_is_read_only(&b), 0);
  std::memset(b.data, 1, 400);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  EXPECT_EQ(b.data, nullptr);
  EXPECT_EQ(b.bytes, 0u);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(nullptr), ASTER_ML_OK);
}

// Frees come from any thread, so one may be in the table or the cache of blocks when another forks.
TEST(Buffer, ForksWhileAnotherThreadFrees) {
  aster_ml_context context;
  ASSERT_EQ(aster_ml_context_init(&context, nullptr), ASTER_ML_OK);
  const auto make = [&](size_t bytes) {
    aster_ml_buffer out;
    EXPECT_EQ(aster_ml_buffer_init(&out, &context, bytes, kU8, 0), ASTER_ML_OK);
    return out;
  };
  std::atomic<bool> over{false};
  std::atomic<aster_ml_buffer*> handed{nullptr};
  std::thread other([&] {
    while (!over) {
      handed.wait(nullptr);
      if (aster_ml_buffer* buffer = handed.exchange(nullptr)) {
        handed.notify_one();
        aster_ml_buffer_free(buffer);
        delete buffer;
      }
    }
  });
  const auto wait_for_room = [&] {
    for (aster_ml_buffer* held; (held = handed.load()) != nullptr;) handed.wait(held);
  };
  for (int i = 0; i < 2000; ++i) {
    auto* buffer = new aster_ml_buffer(make(i % 3 == 0 ? 64 : 100'000));
    wait_for_room();
    handed = buffer;
    handed.notify_one();
    if (i % 20 != 0) continue;
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (const size_t bytes : {size_t{64}, size_t{100'000}}) {
        aster_ml_buffer own = make(bytes);
        aster_ml_buffer_free(&own);
      }
      _exit(42);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << i << ": " << status;
    if (HasFailure()) break;
  }
  wait_for_room();
  over = true;
  handed = new aster_ml_buffer{};
  handed.notify_one();
  other.join();
  delete handed.load();
  aster_ml_context_free(&context);
}

TEST_F(BufferTest, LargeMemoryIsAlignedToHugePages) {
  aster_ml_buffer b = make((2 << 20) + 64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data) % (2 << 20), 0u);
  std::memset(b.data, 7, b.bytes);
  aster_ml_buffer_free(&b);
}

TEST_F(BufferTest, ZeroSize) {
  aster_ml_buffer b = make(0, 0, kF32);
  EXPECT_EQ(b.bytes, 0u);
  EXPECT_EQ(aster_ml_buffer_copy_in(&b, 0, nullptr, 0), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  aster_ml_buffer on_toy = make(0, toy_device());
  EXPECT_EQ(aster_ml_buffer_free(&on_toy), ASTER_ML_OK);
}

TEST_F(BufferTest, ASecondFreeOfACopyIsAnError) {
  aster_ml_buffer b = make(100), copy = b;
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&copy), ASTER_ML_ARGUMENT);
  const aster_ml_buffer zero{};
  EXPECT_EQ(std::memcmp(&copy, &zero, sizeof(copy)), 0);
  EXPECT_EQ(aster_ml_buffer_free(&copy), ASTER_ML_OK);
}

TEST_F(BufferTest, UnknownMemoryIsLeftAlone) {
  char foreign[16];
  aster_ml_buffer b{foreign, sizeof(foreign), kU8, ASTER_ML_DEVICE_CPU};
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  EXPECT_EQ(b.data, nullptr);
  b = {foreign, sizeof(foreign), kU8, ASTER_ML_DEVICE_CPU};
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
}

TEST_F(BufferTest, OutlivesItsContextsHandle) {
  aster_ml_buffer b = make(64);
  aster_ml_context_free(&context);
  std::memset(b.data, 3, 64);
  EXPECT_GT(allocator.live(), 0u);
  std::thread([&b] { EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK); }).join();
  EXPECT_EQ(allocator.live(), 0u);
}

TEST_F(BufferTest, InitErrors) {
  aster_ml_buffer b{&b, 1, 1, 1};
  EXPECT_EQ(aster_ml_buffer_init(&b, &context, 6, kF32, 0), ASTER_ML_RANGE);
  EXPECT_EQ(b.data, nullptr);
  EXPECT_EQ(b.bytes, 0u);
  EXPECT_EQ(aster_ml_buffer_init(nullptr, &context, 4, kF32, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_buffer_init(&b, nullptr, 4, kF32, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_buffer_init(&b, &context, 4, 99, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_buffer_init(&b, &context, 4, ASTER_ML_DTYPE_WEAKINT, 0), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_buffer_init(&b, &context, 4, ASTER_ML_DTYPE_FLT256, 0), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_buffer_init(&b, &context, 4, kF32, 77), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_buffer_init(&b, &context, 4, kF32, ASTER_ML_DEVICE_CUDA),
            ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(aster_ml_buffer_init(&b, &context, 4, kF32, ASTER_ML_DEVICE_DISK),
            ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(aster_ml_buffer_init(&b, &context, SIZE_MAX, kU8, 0), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_buffer_init(&b, &context, SIZE_MAX / 4, kU8, 0), ASTER_ML_MEMORY);
  EXPECT_EQ(b.data, nullptr);
}

TEST_F(BufferTest, EveryAllocationMayFail) {
  for (const size_t bytes : {size_t{64}, size_t{3} << 20}) {
    int32_t status = ASTER_ML_MEMORY;
    for (int64_t n = 0; status == ASTER_ML_MEMORY; ++n) {
      allocator.fail_at(n);
      aster_ml_buffer b;
      status = aster_ml_buffer_init(&b, &context, bytes, kU8, 0);
      if (status != ASTER_ML_OK) {
        EXPECT_EQ(b.data, nullptr);
      }
      EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
      ASSERT_LT(n, 10);
    }
    allocator.fail_at(-1);
  }
}

struct Released {
  int calls = 0;
  void* data = nullptr;
  size_t bytes = 0;
  static void call(void* self, void* data, size_t bytes) {
    Released* at = static_cast<Released*>(self);
    ++at->calls;
    at->data = data;
    at->bytes = bytes;
  }
};

TEST_F(BufferTest, WrappedMemoryIsReleasedOnceAndLast) {
  alignas(16) float foreign[8] = {1, 2, 3};
  Released released;
  aster_ml_buffer b;
  ASSERT_EQ(aster_ml_buffer_from_memory(&b, &context, foreign, sizeof(foreign), kF32, 0, 0,
                                        Released::call, &released),
            ASTER_ML_OK);
  EXPECT_EQ(b.data, foreign);
  buf::Storage* storage = buf::storage_find(foreign);
  ASSERT_NE(storage, nullptr);
  EXPECT_TRUE(storage->wrapped);
  EXPECT_EQ(storage->bytes, sizeof(foreign));
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  EXPECT_EQ(released.calls, 0);  // still referred to
  b = {foreign, sizeof(foreign), kF32, ASTER_ML_DEVICE_CPU};
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_ARGUMENT);  // the reference is not this descriptor's
  buf::storage_release(storage);
  EXPECT_EQ(released.calls, 1);
  EXPECT_EQ(released.data, foreign);
  EXPECT_EQ(released.bytes, sizeof(foreign));
  EXPECT_EQ(buf::storage_find(foreign), nullptr);
}

TEST_F(BufferTest, NoStorageHasNoReferences) {
  buf::storage_retain(nullptr);
  buf::storage_release(nullptr);
}

TEST_F(BufferTest, MemoryMayBeWrappedTwice) {
  alignas(16) float foreign[8] = {};
  Released first, second;
  aster_ml_buffer a, b;
  ASSERT_EQ(
      aster_ml_buffer_from_memory(&a, &context, foreign, 32, kF32, 0, 0, Released::call, &first),
      ASTER_ML_OK);
  ASSERT_EQ(
      aster_ml_buffer_from_memory(&b, &context, foreign, 32, kF32, 0, 0, Released::call, &second),
      ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&a), ASTER_ML_OK);
  EXPECT_EQ(first.calls + second.calls, 1);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  EXPECT_EQ(first.calls, 1);
  EXPECT_EQ(second.calls, 1);
}

TEST_F(BufferTest, WrapErrorsDoNotRelease) {
  alignas(16) char foreign[32];
  Released released;
  aster_ml_buffer b;
  const auto wrap = [&](void* data, size_t bytes, int32_t dtype, int32_t device) {
    return aster_ml_buffer_from_memory(&b, &context, data, bytes, dtype, device, 0, Released::call,
                                       &released);
  };
  EXPECT_EQ(wrap(nullptr, 8, kF32, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(wrap(foreign + 1, 8, kF32, 0), ASTER_ML_ARGUMENT);  // not aligned
  EXPECT_EQ(wrap(foreign, 7, kF32, 0), ASTER_ML_RANGE);
  EXPECT_EQ(wrap(foreign, 8, kF32, -3), ASTER_ML_ARGUMENT);
  EXPECT_EQ(wrap(foreign, 8, 0, 0), ASTER_ML_ARGUMENT);
  allocator.fail_at(0);
  EXPECT_EQ(wrap(foreign, 8, kF32, 0), ASTER_ML_MEMORY);
  EXPECT_EQ(released.calls, 0);
  EXPECT_EQ(wrap(nullptr, 0, kF32, 0), ASTER_ML_OK);
  EXPECT_EQ(released.calls, 1);  // nothing to keep
}

TEST_F(BufferTest, ReadOnlyMemoryIsNotWritten) {
  alignas(16) char foreign[16] = "constant";
  aster_ml_buffer b;
  ASSERT_EQ(aster_ml_buffer_from_memory(&b, &context, foreign, 16, kU8, 0, 1, nullptr, nullptr),
            ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_is_read_only(&b), 1);
  EXPECT_EQ(aster_ml_buffer_copy_in(&b, 0, "x", 1), ASTER_ML_ARGUMENT);
  aster_ml_buffer other = make(16);
  EXPECT_EQ(aster_ml_buffer_copy(&b, 0, &other, 0, 4), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_buffer_copy(&other, 0, &b, 0, 16), ASTER_ML_OK);
  EXPECT_STREQ(static_cast<char*>(other.data), "constant");
  EXPECT_STREQ(foreign, "constant");
  aster_ml_buffer_free(&b);
  aster_ml_buffer_free(&other);
  ASSERT_EQ(aster_ml_buffer_from_memory(&b, &context, foreign, 16, kU8, ASTER_ML_DEVICE_DISK, 0,
                                        nullptr, nullptr),
            ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_is_read_only(&b), 1);
  aster_ml_buffer_free(&b);
}

TEST_F(BufferTest, CopiesBetweenEveryPairOfDevices) {
  const size_t n = 50000;  // more than one piece of the copy by way of the host
  const int32_t devices[] = {ASTER_ML_DEVICE_CPU, ASTER_ML_DEVICE_CPU + 1,
                             ASTER_ML_DEVICE_REFERENCE, toy_device(), toy_device() + 1};
  std::vector<unsigned char> source(n), result(n);
  for (size_t i = 0; i < n; ++i) source[i] = static_cast<unsigned char>(i * 7 + i / 256);
  for (const int32_t from : devices) {
    for (const int32_t to : devices) {
      aster_ml_buffer a = make(n, from), b = make(n, to);
      EXPECT_EQ(a.device, from);
      ASSERT_EQ(aster_ml_buffer_copy_in(&a, 0, source.data(), n), ASTER_ML_OK);
      ASSERT_EQ(aster_ml_buffer_copy(&b, 5, &a, 3, n - 10), ASTER_ML_OK);
      ASSERT_EQ(aster_ml_buffer_copy_out(result.data(), &b, 5, n - 10), ASTER_ML_OK);
      EXPECT_EQ(std::memcmp(result.data(), source.data() + 3, n - 10), 0) << from << " to " << to;
      aster_ml_buffer_free(&a);
      aster_ml_buffer_free(&b);
    }
  }
}

TEST_F(BufferTest, OverlappingCopies) {
  const size_t n = 60000;
  for (const int32_t device : {ASTER_ML_DEVICE_CPU + 0, toy_device()}) {
    for (const auto& [to, from] :
         {std::pair<size_t, size_t>{10, 0}, {0, 10}, {20000, 0}, {0, 20000}}) {
      std::vector<unsigned char> expected(n), got(n);
      for (size_t i = 0; i < n; ++i) expected[i] = static_cast<unsigned char>(i * 13 + i / 256);
      aster_ml_buffer b = make(n, device);
      ASSERT_EQ(aster_ml_buffer_copy_in(&b, 0, expected.data(), n), ASTER_ML_OK);
      ASSERT_EQ(aster_ml_buffer_copy(&b, to, &b, from, 30000), ASTER_ML_OK);
      std::memmove(expected.data() + to, expected.data() + from, 30000);
      ASSERT_EQ(aster_ml_buffer_copy_out(got.data(), &b, 0, n), ASTER_ML_OK);
      EXPECT_EQ(got, expected);
      aster_ml_buffer_free(&b);
    }
  }
}

TEST_F(BufferTest, DeviceFailuresAreReported) {
  aster_ml_buffer b = make(16, toy_device());
  char host[16];
  g_toy.fail_with = ASTER_ML_IO;
  EXPECT_EQ(aster_ml_buffer_copy_out(host, &b, 0, 16), ASTER_ML_DEVICE);
  aster_ml_error error;
  ASSERT_EQ(aster_ml_error_last(&error), ASTER_ML_OK);
  EXPECT_NE(std::string(error.message).find("TOY"), std::string::npos) << error.message;
  aster_ml_buffer other;
  EXPECT_EQ(aster_ml_buffer_init(&other, &context, 16, kU8, toy_device()), ASTER_ML_DEVICE);
  g_toy.fail_with = ASTER_ML_MEMORY;
  EXPECT_EQ(aster_ml_buffer_init(&other, &context, 16, kU8, toy_device()), ASTER_ML_MEMORY);
  g_toy.fail_with = 0;
  EXPECT_EQ(aster_ml_buffer_init(&other, &context, 16, kU8, toy_device() + 2), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
}

// A backend's own numbers, the generic status, and success that brings no memory.
TEST_F(BufferTest, DevicesThatDoNotSayHowTheyFailed) {
  aster_ml_buffer b = make(16, toy_device()), other;
  char host[16];
  aster_ml_error error;
  for (const int32_t code : {ASTER_ML_ERROR + 0, -5, ASTER_ML_INTERNAL + 1, INT32_MIN, INT32_MAX}) {
    g_toy.fail_with = code;
    EXPECT_EQ(aster_ml_buffer_copy_out(host, &b, 0, 16), ASTER_ML_ERROR) << code;
    EXPECT_EQ(aster_ml_buffer_copy_in(&b, 0, host, 16), ASTER_ML_ERROR) << code;
    EXPECT_EQ(aster_ml_buffer_init(&other, &context, 16, kU8, toy_device()), ASTER_ML_ERROR);
    ASSERT_EQ(aster_ml_error_last(&error), ASTER_ML_OK);
    EXPECT_EQ(error.code, ASTER_ML_ERROR);
    const std::string said = "TOY: allocation of 16 bytes failed without saying how (it returned ";
    EXPECT_EQ(error.message, said + std::to_string(code) + ")");
  }
  g_toy.fail_with = 0;
  g_toy.gives_nothing = true;
  EXPECT_EQ(aster_ml_buffer_init(&other, &context, 16, kU8, toy_device()), ASTER_ML_ERROR);
  g_toy.gives_nothing = false;
  ASSERT_EQ(aster_ml_error_last(&error), ASTER_ML_OK);
  EXPECT_NE(std::string(error.message).find("no memory"), std::string::npos) << error.message;
  EXPECT_EQ(other.data, nullptr);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
}

TEST_F(BufferTest, CopyErrors) {
  aster_ml_buffer a = make(16), b = make(16);
  char host[16] = {};
  EXPECT_EQ(aster_ml_buffer_copy(&a, 0, &b, 0, 17), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_buffer_copy(&a, 17, &b, 0, 0), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_buffer_copy(&a, 8, &b, SIZE_MAX, 8), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_buffer_copy(&a, SIZE_MAX, &b, 0, 8), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_buffer_copy(nullptr, 0, &b, 0, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_buffer_copy(&a, 0, nullptr, 0, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_buffer_copy_in(&a, 0, nullptr, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_buffer_copy_out(nullptr, &a, 0, 8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_buffer_copy_out(host, &a, 12, 8), ASTER_ML_RANGE);
  const aster_ml_buffer hollow{nullptr, 16, kU8, ASTER_ML_DEVICE_CPU};
  EXPECT_EQ(aster_ml_buffer_copy_out(host, &hollow, 0, 8), ASTER_ML_ARGUMENT);
  aster_ml_buffer_free(&a);
  aster_ml_buffer_free(&b);
}

TEST_F(BufferTest, PartsKeepTheMemory) {
  aster_ml_buffer b = make(64, 0, kF32);
  std::memset(b.data, 9, 64);
  aster_ml_tensor part;
  const size_t shape[] = {8};
  ASSERT_EQ(aster_ml_tensor_from_buffer(&part, &context, &b, 16, 1, shape, nullptr), ASTER_ML_OK);
  EXPECT_EQ(part.byte_offset, 16u);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  EXPECT_EQ(static_cast<char*>(part.storage.data)[20], 9);
  aster_ml_tensor copy = part;
  EXPECT_EQ(aster_ml_tensor_free(&part), ASTER_ML_OK);
  EXPECT_EQ(part.storage.data, nullptr);
  EXPECT_EQ(aster_ml_tensor_free(&copy), ASTER_ML_ARGUMENT);
}

TEST_F(BufferTest, LargeBlocksAreUsedAgain) {
  const size_t mib = 1 << 20;
  aster_ml_buffer b = make(4 * mib);
  void* const first = b.data;
  aster_ml_buffer_free(&b);
  const int64_t requests = allocator.requests();
  aster_ml_buffer again = make(4 * mib - 4096);
  EXPECT_EQ(again.data, first);
  EXPECT_EQ(allocator.requests(), requests + 1);  // the storage's own record
  aster_ml_buffer much_smaller = make(mib);       // would waste the block
  EXPECT_NE(much_smaller.data, first);
  aster_ml_buffer_free(&again);
  aster_ml_buffer_free(&much_smaller);
  size_t held = 0, rest = 0;
  aster_ml_context_count_bytes(&held, nullptr, &context);
  buf::trim(impl());
  aster_ml_context_count_bytes(&rest, nullptr, &context);
  EXPECT_GE(held - rest, 5 * mib);
}

TEST_F(BufferTest, LargeBlocksAreOfWholeHugePagesWhereThatTakesLittleMore) {
  const size_t mib = 1 << 20;
  EXPECT_EQ(buf::whole_pages(0), 0u);
  EXPECT_EQ(buf::whole_pages(mib / 2 - 1), mib / 2 - 1);
  EXPECT_EQ(buf::whole_pages(mib / 2), 2 * mib);
  EXPECT_EQ(buf::whole_pages(2 * mib), 2 * mib);
  EXPECT_EQ(buf::whole_pages(2 * mib + 1), 4 * mib);
  aster_ml_buffer b = make(7 * mib / 2);
  void* const first = b.data;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % (2 * mib), 0u);
  aster_ml_buffer_free(&b);
  b = make(4 * mib);
  EXPECT_EQ(b.data, first) << "the rest of its last page";
  aster_ml_buffer_free(&b);
  aster_ml_buffer more = make(5 * mib / 2);  // two pages would be much more than it asks for
  EXPECT_NE(more.data, first);
  aster_ml_buffer_free(&more);
  EXPECT_EQ(buf::BlockCache::of(impl())->bytes(), 4 * mib + 5 * mib / 2);
}

TEST_F(BufferTest, TheCacheIsBounded) {
  buf::BlockCache* cache = buf::BlockCache::of(impl());
  ASSERT_NE(cache, nullptr);
  std::vector<aster_ml_buffer> buffers;
  for (int i = 0; i < 50; ++i) buffers.push_back(make((1 << 20) + static_cast<size_t>(i) * 300000));
  for (aster_ml_buffer& b : buffers) aster_ml_buffer_free(&b);
  EXPECT_LE(cache->bytes(), size_t{512} << 20);
  EXPECT_GT(cache->bytes(), 0u);
  aster_ml_buffer huge = make(size_t{513} << 20);
  const size_t before = cache->bytes();
  aster_ml_buffer_free(&huge);
  EXPECT_EQ(cache->bytes(), before);
}

TEST_F(BufferTest, AFailedAllocationEmptiesTheCacheFirst) {
  aster_ml_buffer b = make(3 << 20);
  aster_ml_buffer_free(&b);
  allocator.fail_at(1);  // the block; its record comes first
  b = make(8 << 20);
  EXPECT_NE(b.data, nullptr);
  EXPECT_EQ(buf::BlockCache::of(impl())->bytes(), 0u);
  aster_ml_buffer_free(&b);
}

TEST_F(BufferTest, ManyBuffersAreFound) {
  std::vector<aster_ml_buffer> buffers;
  for (int i = 0; i < 6000; ++i) buffers.push_back(make(8));  // the table grows
  for (const aster_ml_buffer& b : buffers) {
    buf::Storage* storage = buf::storage_find(b.data);
    ASSERT_NE(storage, nullptr);
    EXPECT_EQ(storage->data, b.data);
    buf::storage_release(storage);
  }
  for (aster_ml_buffer& b : buffers) ASSERT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
}

TEST_F(BufferTest, ThreadsWithContextsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      aster_ml_context own;
      ASSERT_EQ(aster_ml_context_init(&own, nullptr), ASTER_ML_OK);
      for (int i = 0; i < 500; ++i) {
        aster_ml_buffer b;
        const size_t bytes = i % 10 == 0 ? 2 << 20 : 64;
        ASSERT_EQ(aster_ml_buffer_init(&b, &own, bytes, kU8, 0), ASTER_ML_OK);
        buf::Storage* storage = buf::storage_find(b.data);
        ASSERT_NE(storage, nullptr);
        ASSERT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
        buf::storage_release(storage);
      }
      aster_ml_context_free(&own);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
