// Memory of the kinds that a backend makes, and large copies by way of pinned memory: a device
// whose queues do nothing before they are waited for.
#include "buffer/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "aster_ml/dlpack.h"
#include "aster_ml/view.h"
#include "base/counted_context.h"
#include "device/toy_backend.h"

namespace aster::buffer {
namespace {

constexpr int32_t kU8 = ASTER_ML_DTYPE_UINT8;
constexpr int32_t kF32 = ASTER_ML_DTYPE_FLOAT32;

std::string message() {
  aster_ml_error error;
  aster_ml_error_last(&error);
  return std::string(error.function) + ": " + error.message;
}

// One more queue of it.
struct Queue {
  std::vector<aster_ml_command> waiting;
  uint64_t begun = 0, done = 0;
};

struct QueuedDevice : aster_test::ToyDevice {
  std::mutex mutex;  // of what follows
  std::set<void*> pinned;
  size_t pinned_made = 0, staged_in = 0, staged_out = 0, directly = 0, most_at_once = 0;
  int32_t fail_submit = 0, fail_wait = 0;
  bool makes_pinned = true, aligned = true;

  int32_t run(Queue* queue, uint64_t ticket) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (; queue->done < ticket; ++queue->done) {
      const aster_ml_command& c = queue->waiting.front();
      const bool in = c.kind == ASTER_ML_COMMAND_COPY_IN;
      std::memcpy(in ? real(c.to) + c.to_offset : static_cast<char*>(c.to),
                  in ? static_cast<const char*>(c.from) : real(c.from) + c.from_offset, c.bytes);
      (in ? staged_in : staged_out) += c.bytes;
      queue->waiting.erase(queue->waiting.begin());
    }
    return fail_wait;
  }

  aster_ml_backend queued() {
    static const auto direct = table(false);
    aster_ml_backend backend = direct;
    backend.self = this;
    backend.copy_in = [](void* self, int32_t index, void* data, size_t offset, const void* host,
                         size_t bytes) -> int32_t {
      static_cast<QueuedDevice*>(self)->directly += bytes;
      return direct.copy_in(self, index, data, offset, host, bytes);
    };
    backend.copy_out = [](void* self, int32_t index, void* host, const void* data, size_t offset,
                          size_t bytes) -> int32_t {
      static_cast<QueuedDevice*>(self)->directly += bytes;
      return direct.copy_out(self, index, host, data, offset, bytes);
    };
    backend.release = [](void* self, int32_t index, void* data, size_t bytes) {
      QueuedDevice* d = static_cast<QueuedDevice*>(self);
      {
        const std::lock_guard<std::mutex> lock(d->mutex);
        if (d->pinned.erase(data) != 0) return std::free(data);
      }
      direct.release(self, index, data, bytes);
    };
    backend.allocate_kind = [](void* self, void** out, int32_t, size_t bytes,
                               int32_t kind) -> int32_t {
      QueuedDevice* d = static_cast<QueuedDevice*>(self);
      const std::lock_guard<std::mutex> lock(d->mutex);
      if (kind != ASTER_ML_MEMORY_PINNED || !d->makes_pinned) return ASTER_ML_UNSUPPORTED;
      *out = d->aligned ? std::aligned_alloc(64, (bytes + 63) / 64 * 64) : std::malloc(bytes);
      if (!d->aligned && reinterpret_cast<uintptr_t>(*out) % 64 == 0) {
        std::free(*out);
        return ASTER_ML_MEMORY;
      }
      d->pinned.insert(*out);
      d->pinned_made += bytes;
      return ASTER_ML_OK;
    };
    backend.describe = [](void*, int32_t, aster_ml_device_info*) -> int32_t {
      return ASTER_ML_UNSUPPORTED;
    };
    backend.build = [](void*, void**, void**, int32_t, const aster_ml_code*, size_t, char*,
                       size_t) -> int32_t { return ASTER_ML_UNSUPPORTED; };
    backend.unbuild = [](void*, int32_t, void*) {};
    backend.open = [](void*, void** queue, int32_t, uint32_t) -> int32_t {
      *queue = new Queue;
      return ASTER_ML_OK;
    };
    backend.close = [](void*, int32_t, void* queue) { delete static_cast<Queue*>(queue); };
    backend.submit = [](void* self, uint64_t* ticket, int32_t, void* queue,
                        const aster_ml_command* commands, size_t count) -> int32_t {
      QueuedDevice* d = static_cast<QueuedDevice*>(self);
      if (d->fail_submit != 0) return d->fail_submit;
      Queue* q = static_cast<Queue*>(queue);
      q->waiting.insert(q->waiting.end(), commands, commands + count);
      *ticket = q->begun += count;
      const std::lock_guard<std::mutex> lock(d->mutex);
      d->most_at_once = std::max(d->most_at_once, q->waiting.size());
      return ASTER_ML_OK;
    };
    backend.wait = [](void* self, int32_t, void* queue, uint64_t ticket) -> int32_t {
      return static_cast<QueuedDevice*>(self)->run(static_cast<Queue*>(queue), ticket);
    };
    return backend;
  }
};

class Staging : public aster_test::CountedContext {
 protected:
  // A device of its own.
  int32_t added(QueuedDevice* device, const char* name) {
    const aster_ml_backend table = device->queued();
    int32_t code = 0;
    EXPECT_EQ(aster_ml_device_register(&code, name, &table), ASTER_ML_OK) << message();
    return code;
  }
  // Bytes to a device and back by one copy each.
  void there_and_back(int32_t device, size_t bytes) {
    std::vector<uint8_t> data(bytes), seen(bytes);
    for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(i * 7 + i / 1000);
    aster_ml_buffer b;
    ASSERT_EQ(aster_ml_buffer_init(&b, &context, bytes + 3, kU8, device), ASTER_ML_OK);
    ASSERT_EQ(aster_ml_buffer_copy_in(&b, 3, data.data(), bytes), ASTER_ML_OK) << message();
    ASSERT_EQ(aster_ml_buffer_copy_out(seen.data(), &b, 3, bytes), ASTER_ML_OK) << message();
    EXPECT_EQ(seen, data);
    EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  }
};

TEST_F(Staging, LargeCopiesGoByWayOfPinnedMemory) {
  static QueuedDevice toy;
  const int32_t device = added(&toy, "STAGED");
  there_and_back(device, kStagedFrom - 1);
  EXPECT_EQ(toy.staged_in + toy.staged_out + toy.pinned_made, 0u);
  EXPECT_EQ(toy.directly, 2 * (kStagedFrom - 1));
  for (const size_t bytes : {kStagedFrom, 3 * kStagedPart, 5 * kStagedPart + 17}) {
    toy.staged_in = toy.staged_out = toy.directly = toy.most_at_once = 0;
    there_and_back(device, bytes);
    EXPECT_EQ(toy.staged_in, bytes);
    EXPECT_EQ(toy.staged_out, bytes);
    EXPECT_EQ(toy.directly, 0u);
    EXPECT_EQ(toy.most_at_once, bytes > kStagedPart ? 2u : 1u);  // one part beside another
  }
  EXPECT_EQ(toy.pinned_made, 2 * kStagedPart);  // kept from copy to copy
  EXPECT_EQ(toy.live, 0);
}

TEST_F(Staging, ThreadsHavePartsOfTheirOwn) {
  static QueuedDevice toy;
  const int32_t device = added(&toy, "STAGEDBYMANY");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([device] {
      aster_ml_context own{};
      ASSERT_EQ(aster_ml_context_init(&own, nullptr), ASTER_ML_OK);
      std::vector<float> data(3 * kStagedPart / 4 + 5), seen(data.size());
      std::iota(data.begin(), data.end(), 1.0f);
      const size_t bytes = data.size() * sizeof(float);
      aster_ml_buffer b;
      ASSERT_EQ(aster_ml_buffer_init(&b, &own, bytes, kF32, device), ASTER_ML_OK);
      for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(aster_ml_buffer_copy_in(&b, 0, data.data(), bytes), ASTER_ML_OK);
        EXPECT_EQ(aster_ml_buffer_copy_out(seen.data(), &b, 0, bytes), ASTER_ML_OK);
      }
      EXPECT_EQ(seen, data);
      EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
      EXPECT_EQ(aster_ml_context_free(&own), ASTER_ML_OK);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(toy.pinned_made, 4 * 2 * kStagedPart);
}

TEST_F(Staging, FailuresSayWhereAndLeaveNothingUnderWay) {
  static QueuedDevice toy;
  const int32_t device = added(&toy, "STAGEDBADLY");
  std::vector<uint8_t> data(3 * kStagedPart, 1);
  aster_ml_buffer b;
  ASSERT_EQ(aster_ml_buffer_init(&b, &context, data.size(), kU8, device), ASTER_ML_OK);
  for (int32_t* fault : {&toy.fail_submit, &toy.fail_wait}) {
    *fault = ASTER_ML_DEVICE;
    EXPECT_EQ(aster_ml_buffer_copy_in(&b, 0, data.data(), data.size()), ASTER_ML_DEVICE);
    EXPECT_NE(message().find("STAGEDBADLY: copy of 3145728 bytes failed"), std::string::npos)
        << message();
    EXPECT_EQ(aster_ml_buffer_copy_out(data.data(), &b, 0, data.size()), ASTER_ML_DEVICE);
    *fault = 0;
    EXPECT_TRUE(toy.pinned.empty());  // given back: the queue's state is not known
  }
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  there_and_back(device, 2 * kStagedPart);
}

// Without pinned memory, or from memory that is pinned already, there is nothing to gain.
TEST_F(Staging, OnlyWhereADeviceGains) {
  static QueuedDevice poor, rich;
  poor.makes_pinned = false;
  there_and_back(added(&poor, "UNSTAGED"), 2 * kStagedFrom);
  EXPECT_EQ(poor.directly, 4 * kStagedFrom);
  EXPECT_EQ(poor.staged_in + poor.staged_out, 0u);
  const int32_t device = added(&rich, "PINNING");
  aster_ml_buffer there, pinned;
  ASSERT_EQ(aster_ml_buffer_init(&there, &context, 2 * kStagedFrom, kU8, device), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_buffer_init_kind(&pinned, &context, 2 * kStagedFrom, kU8, device,
                                      ASTER_ML_MEMORY_PINNED),
            ASTER_ML_OK)
      << message();
  EXPECT_EQ(aster_ml_buffer_copy(&there, 0, &pinned, 0, 2 * kStagedFrom), ASTER_ML_OK);
  EXPECT_EQ(rich.directly, 2 * kStagedFrom);
  EXPECT_EQ(rich.staged_in, 0u);
  EXPECT_EQ(aster_ml_buffer_free(&there), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&pinned), ASTER_ML_OK);
  EXPECT_TRUE(rich.pinned.empty());
}

TEST_F(Staging, MemoryOfAKind) {
  static QueuedDevice toy;
  const int32_t device = added(&toy, "KINDS");
  aster_ml_buffer b;
  const auto make = [&](size_t bytes, int32_t on, int32_t kind) {
    return aster_ml_buffer_init_kind(&b, &context, bytes, kF32, on, kind);
  };
  ASSERT_EQ(make(64, device, ASTER_ML_MEMORY_PINNED), ASTER_ML_OK) << message();
  EXPECT_EQ(b.device, ASTER_ML_DEVICE_CPU);
  EXPECT_EQ(aster_ml_buffer_memory_kind(&b), ASTER_ML_MEMORY_PINNED);
  std::memset(b.data, 1, 64);
  aster_ml_buffer_view v;
  const size_t shape[] = {4, 4};
  ASSERT_EQ(aster_ml_view_from_buffer(&v, &context, &b, 0, 64, 2, shape, nullptr), ASTER_ML_OK);
  EXPECT_TRUE(aster_ml_view_is_pinned(&v) && aster_ml_view_is_host(&v));
  // DLPack's pinned memory is CUDA's.
  aster_ml_tensor t;
  aster_ml_dlpack_managed* managed = nullptr;
  ASSERT_EQ(aster_ml_view_to_tensor(&t, &context, &v), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_dlpack_export(&managed, &context, &t, 0), ASTER_ML_OK);
  EXPECT_EQ(managed->tensor.device.type, ASTER_ML_DLPACK_CPU);
  managed->deleter(managed);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  EXPECT_EQ(toy.pinned.size(), 1u);
  EXPECT_EQ(aster_ml_view_free(&v), ASTER_ML_OK);
  EXPECT_TRUE(toy.pinned.empty());

  ASSERT_EQ(make(0, device, ASTER_ML_MEMORY_PINNED), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  ASSERT_EQ(make(64, device, ASTER_ML_MEMORY_DEVICE), ASTER_ML_OK);
  EXPECT_EQ(b.device, device);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  ASSERT_EQ(make(64, 0, ASTER_ML_MEMORY_NORMAL), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);

  EXPECT_EQ(make(64, device, ASTER_ML_MEMORY_UNIFIED), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(message(), "aster_ml_buffer_init_kind: KINDS makes no unified memory");
  EXPECT_EQ(make(64, 0, ASTER_ML_MEMORY_PINNED), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(message(), "aster_ml_buffer_init_kind: CPU makes no pinned memory");
  EXPECT_EQ(make(64, ASTER_ML_DEVICE_CUDA, ASTER_ML_MEMORY_PINNED), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(make(64, device, ASTER_ML_MEMORY_NORMAL), ASTER_ML_ARGUMENT);
  EXPECT_EQ(make(64, 0, ASTER_ML_MEMORY_DEVICE), ASTER_ML_ARGUMENT);
  for (const int32_t none : {-1, 4}) EXPECT_EQ(make(64, device, none), ASTER_ML_ARGUMENT);
  EXPECT_EQ(make(62, device, ASTER_ML_MEMORY_PINNED), ASTER_ML_RANGE);
  EXPECT_EQ(make(SIZE_MAX - 3, device, ASTER_ML_MEMORY_PINNED), ASTER_ML_RANGE);
  EXPECT_EQ(make(64, -7, ASTER_ML_MEMORY_PINNED), ASTER_ML_ARGUMENT);
  EXPECT_EQ(b.data, nullptr);
}

}  // namespace
}  // namespace aster::buffer
