// DLPack from C: what is exported, what is imported and what is refused; deleters run once.
#include "aster_ml/dlpack.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/counted_context.h"
#include "buffer/storage.h"
#include "device/toy_backend.h"

namespace {

namespace buf = aster::buffer;
constexpr int32_t kF32 = ASTER_ML_DTYPE_FLOAT32;

std::string message() {
  aster_ml_error record;
  aster_ml_error_last(&record);
  return record.message;
}

// A managed tensor of 64 floats that counts its deletions.
template <class M>
struct Producer {
  std::array<float, 64> memory{};
  std::vector<int64_t> shape, strides;
  M managed{};
  int deleted = 0;

  explicit Producer(std::vector<int64_t> dims, std::vector<int64_t> steps = {}, size_t offset = 0)
      : shape(std::move(dims)), strides(std::move(steps)) {
    std::iota(memory.begin(), memory.end(), 0.0f);
    if constexpr (std::is_same_v<M, aster_ml_dlpack_managed>) managed.version_major = 1;
    managed.manager = this;
    managed.deleter = [](M* self) { ++static_cast<Producer*>(self->manager)->deleted; };
    managed.tensor = {memory.data(),
                      {ASTER_ML_DLPACK_CPU, 0},
                      static_cast<int32_t>(shape.size()),
                      {2, 32, 1},
                      shape.data(),
                      strides.empty() ? nullptr : strides.data(),
                      offset};
  }
  Producer(const Producer&) = delete;
};
using Versioned = Producer<aster_ml_dlpack_managed>;
using Unversioned = Producer<aster_ml_dlpack_legacy>;

class Dlpack : public aster_test::CountedContext {
 protected:
  int32_t import(aster_ml_tensor* out, Versioned& p) {
    return aster_ml_dlpack_import(out, &context, &p.managed);
  }
  int32_t import(aster_ml_tensor* out, Unversioned& p) {
    return aster_ml_dlpack_import_legacy(out, &context, &p.managed);
  }
  // Refused with this status, and still the caller's.
  void refused(Versioned& p, int32_t status, const char* text) {
    aster_ml_tensor t;
    EXPECT_EQ(import(&t, p), status) << text;
    EXPECT_NE(message().find(text), std::string::npos) << message();
    EXPECT_EQ(t.storage.data, nullptr);
    EXPECT_EQ(p.deleted, 0);
  }
  static std::vector<float> values(const aster_ml_tensor& t) {
    std::vector<float> out(aster_ml_tensor_count(&t));
    EXPECT_EQ(aster_ml_tensor_copy_out(out.data(), &t, out.size()), ASTER_ML_OK);
    return out;
  }
  aster_ml_tensor tensor(std::vector<size_t> shape) {
    aster_ml_tensor t;
    EXPECT_EQ(aster_ml_tensor_init(&t, &context, kF32, 0, shape.size(), shape.data()), ASTER_ML_OK);
    return t;
  }

  aster_test::CountingAllocator allocator;
};

template <class P>
class DlpackOf : public Dlpack {};
using Producers = ::testing::Types<Versioned, Unversioned>;
TYPED_TEST_SUITE(DlpackOf, Producers);

TYPED_TEST(DlpackOf, ImportsInPlaceAndDeletesOnce) {
  TypeParam p({2, 3});
  aster_ml_tensor t;
  ASSERT_EQ(this->import(&t, p), ASTER_ML_OK);
  EXPECT_EQ(t.storage.data, p.memory.data());
  EXPECT_EQ(t.storage.bytes, 24u);
  EXPECT_EQ(t.dtype, kF32);
  EXPECT_TRUE(aster_ml_tensor_is_contiguous(&t));
  p.memory[4] = 40;
  EXPECT_EQ(this->values(t), (std::vector<float>{0, 1, 2, 3, 40, 5}));
  EXPECT_EQ(p.deleted, 0);
  std::thread([&] { EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK); }).join();
  EXPECT_EQ(p.deleted, 1);
}

TYPED_TEST(DlpackOf, ImportedTwiceIsSeen) {
  TypeParam p({4});
  aster_ml_tensor t, again;
  ASSERT_EQ(this->import(&t, p), ASTER_ML_OK);
  EXPECT_EQ(this->import(&again, p), ASTER_ML_STATE);
  EXPECT_NE(message().find("imported already"), std::string::npos);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  EXPECT_EQ(p.deleted, 1);
}

TYPED_TEST(DlpackOf, NoDeleterAndNoElements) {
  TypeParam lasting({4});
  lasting.managed.deleter = nullptr;
  aster_ml_tensor t;
  ASSERT_EQ(this->import(&t, lasting), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);

  TypeParam empty({3, 0}, {1, 1});
  empty.managed.tensor.data = nullptr;
  ASSERT_EQ(this->import(&t, empty), ASTER_ML_OK);
  EXPECT_EQ(empty.deleted, 1);  // nothing to hold
  EXPECT_EQ(aster_ml_tensor_count(&t), 0u);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  EXPECT_EQ(empty.deleted, 1);
}

TEST_F(Dlpack, AnyStridesAndOffsets) {
  const struct {
    std::vector<int64_t> shape, strides;
    size_t offset;
    std::vector<float> wanted;
  } rows[] = {
      {{2, 2}, {1, 2}, 0, {0, 2, 1, 3}},       {{3}, {-1}, 8, {2, 1, 0}},
      {{2, 3}, {0, 1}, 4, {1, 2, 3, 1, 2, 3}}, {{2, 1}, {1, 77}, 0, {0, 1}},
      {{2, 2}, {-4, -1}, 36, {9, 8, 5, 4}},    {{}, {}, 12, {3}},
  };
  for (const auto& row : rows) {
    Versioned p(row.shape, row.strides, row.offset);
    aster_ml_tensor t;
    ASSERT_EQ(import(&t, p), ASTER_ML_OK) << message();
    EXPECT_EQ(values(t), row.wanted);
    for (size_t i = 0; i < row.strides.size(); ++i) EXPECT_EQ(t.strides[i], row.strides[i]);
    EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
    EXPECT_EQ(p.deleted, 1);
  }
}

TEST_F(Dlpack, ReadOnlyAndKindsOfMemory) {
  const struct {
    int32_t type, kind, back;
  } rows[] = {
      {ASTER_ML_DLPACK_CPU, ASTER_ML_MEMORY_NORMAL, ASTER_ML_DLPACK_CPU},
      {ASTER_ML_DLPACK_CUDA_HOST, ASTER_ML_MEMORY_PINNED, ASTER_ML_DLPACK_CUDA_HOST},
      {ASTER_ML_DLPACK_ROCM_HOST, ASTER_ML_MEMORY_NORMAL, ASTER_ML_DLPACK_CPU},
      {ASTER_ML_DLPACK_CUDA_MANAGED, ASTER_ML_MEMORY_UNIFIED, ASTER_ML_DLPACK_CUDA_MANAGED}};
  for (const auto& row : rows) {
    Versioned p({4});
    p.managed.flags = ASTER_ML_DLPACK_READ_ONLY;
    p.managed.tensor.device = {row.type, 0};
    aster_ml_tensor t;
    ASSERT_EQ(import(&t, p), ASTER_ML_OK) << message();
    EXPECT_EQ(t.device, ASTER_ML_DEVICE_CPU);
    EXPECT_EQ(aster_ml_buffer_memory_kind(&t.storage), row.kind);
    EXPECT_EQ(aster_ml_buffer_is_read_only(&t.storage), 1);
    const float one = 1;
    EXPECT_EQ(aster_ml_tensor_copy_in(&t, &one, 1), ASTER_ML_RANGE);
    EXPECT_EQ(aster_ml_tensor_copy_in(&t, p.memory.data(), 4), ASTER_ML_ARGUMENT);

    aster_ml_dlpack_managed* out;
    ASSERT_EQ(aster_ml_dlpack_export(&out, &context, &t, ASTER_ML_DLPACK_COPIED), ASTER_ML_OK);
    EXPECT_EQ(out->flags, uint64_t{ASTER_ML_DLPACK_READ_ONLY | ASTER_ML_DLPACK_COPIED});
    EXPECT_EQ(out->tensor.device.type, row.back);
    out->deleter(out);
    aster_ml_dlpack_legacy* legacy;
    EXPECT_EQ(aster_ml_dlpack_export_legacy(&legacy, &context, &t), ASTER_ML_STATE);
    EXPECT_EQ(legacy, nullptr);
    EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
    EXPECT_EQ(p.deleted, 1);
  }
}

TEST_F(Dlpack, EveryDtypeBothWays) {
  const struct {
    int32_t dtype;
    uint8_t code, bits;
  } rows[] = {{ASTER_ML_DTYPE_BOOL, 6, 8},         {ASTER_ML_DTYPE_INT8, 0, 8},
              {ASTER_ML_DTYPE_UINT8, 1, 8},        {ASTER_ML_DTYPE_INT16, 0, 16},
              {ASTER_ML_DTYPE_UINT16, 1, 16},      {ASTER_ML_DTYPE_INT32, 0, 32},
              {ASTER_ML_DTYPE_UINT32, 1, 32},      {ASTER_ML_DTYPE_INT64, 0, 64},
              {ASTER_ML_DTYPE_UINT64, 1, 64},      {ASTER_ML_DTYPE_FP8E4M3, 10, 8},
              {ASTER_ML_DTYPE_FP8E4M3FNUZ, 11, 8}, {ASTER_ML_DTYPE_FP8E5M2, 12, 8},
              {ASTER_ML_DTYPE_FP8E5M2FNUZ, 13, 8}, {ASTER_ML_DTYPE_FLOAT16, 2, 16},
              {ASTER_ML_DTYPE_BFLOAT16, 4, 16},    {ASTER_ML_DTYPE_FLOAT32, 2, 32},
              {ASTER_ML_DTYPE_FLOAT64, 2, 64}};
  for (const auto& row : rows) {
    aster_ml_tensor t, back;
    const size_t shape[] = {2, 3};
    ASSERT_EQ(aster_ml_tensor_init(&t, &context, row.dtype, 0, 2, shape), ASTER_ML_OK);
    aster_ml_dlpack_managed* out;
    ASSERT_EQ(aster_ml_dlpack_export(&out, &context, &t, 0), ASTER_ML_OK);
    EXPECT_EQ(out->version_major, 1u);
    EXPECT_EQ(out->tensor.dtype.code, row.code);
    EXPECT_EQ(out->tensor.dtype.bits, row.bits);
    EXPECT_EQ(out->tensor.dtype.lanes, 1);
    ASSERT_EQ(aster_ml_dlpack_import(&back, &context, out), ASTER_ML_OK);
    EXPECT_EQ(back.dtype, row.dtype);
    EXPECT_EQ(back.storage.data, t.storage.data);
    EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
    EXPECT_EQ(aster_ml_tensor_free(&back), ASTER_ML_OK);
  }
}

TEST_F(Dlpack, WhatIsRefusedStaysTheCallers) {
  const auto changed = [](auto change) {
    auto p = std::make_unique<Versioned>(std::vector<int64_t>{2}, std::vector<int64_t>{1});
    change(*p);
    return p;
  };
  const auto with = [&](auto change, int32_t status, const char* text) {
    refused(*changed(change), status, text);
  };
  using P = Versioned&;
  with([](P p) { p.managed.version_major = 2; }, ASTER_ML_UNSUPPORTED, "newer");
  with([](P p) { p.managed.version_major = 0; }, ASTER_ML_FORMAT, "no version");
  with([](P p) { p.managed.tensor.device.type = 10; }, ASTER_ML_UNSUPPORTED, "ROCM");
  with([](P p) { p.managed.tensor.device.type = 8; }, ASTER_ML_UNSUPPORTED, "METAL");
  with([](P p) { p.managed.tensor.device.type = 99; }, ASTER_ML_UNSUPPORTED, "99");
  with([](P p) { p.managed.tensor.device = {ASTER_ML_DLPACK_CUDA, -1}; }, ASTER_ML_RANGE, "CUDA");
  with([](P p) { p.managed.tensor.dtype.code = 5; }, ASTER_ML_UNSUPPORTED, "code 5");
  with([](P p) { p.managed.tensor.dtype.lanes = 4; }, ASTER_ML_UNSUPPORTED, "4 lanes");
  with([](P p) { p.managed.tensor.byte_offset = 2; }, ASTER_ML_ARGUMENT, "aligned");
  with([](P p) { p.managed.tensor.byte_offset = UINT64_MAX - 3; }, ASTER_ML_RANGE, "address space");
  with([](P p) { p.managed.tensor.data = nullptr; }, ASTER_ML_ARGUMENT, "data is null");
  with([](P p) { p.managed.tensor.shape = nullptr; }, ASTER_ML_ARGUMENT, "shape is null");
  with([](P p) { p.managed.tensor.ndim = -1; }, ASTER_ML_RANGE, "-1 axes");
  with([](P p) { p.shape[0] = -3; }, ASTER_ML_RANGE, "axis 0");
  with([](P p) { p.strides[0] = INT64_MAX; }, ASTER_ML_RANGE, "address space");
  with([](P p) { p.strides[0] = INT64_MIN / 4; }, ASTER_ML_RANGE, "address space");
  with([](P p) { p.shape[0] = INT64_MAX / 2; }, ASTER_ML_RANGE, "");
  aster_ml_tensor t;
  EXPECT_EQ(aster_ml_dlpack_import(&t, &context, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dlpack_import_legacy(&t, &context, nullptr), ASTER_ML_ARGUMENT);
  Versioned p({2});
  EXPECT_EQ(aster_ml_dlpack_import(nullptr, &context, &p.managed), ASTER_ML_ARGUMENT);
}

TEST_F(Dlpack, ExportKeepsMemoryAndStrides) {
  aster_ml_tensor whole = tensor({4, 6});
  std::iota(static_cast<float*>(whole.storage.data), static_cast<float*>(whole.storage.data) + 24,
            0.0f);
  aster_ml_tensor part;
  const size_t shape[] = {2, 3};
  const ptrdiff_t strides[] = {-12, 2};
  ASSERT_EQ(aster_ml_tensor_from_buffer(&part, &context, &whole.storage, 12 * 4, 2, shape, strides),
            ASTER_ML_OK);
  aster_ml_dlpack_managed* out;
  ASSERT_EQ(aster_ml_dlpack_export(&out, &context, &part, 0), ASTER_ML_OK);
  const auto* first = static_cast<float*>(whole.storage.data) + 12;
  EXPECT_EQ(aster_ml_tensor_free(&part), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_free(&whole), ASTER_ML_OK);
  const aster_ml_dlpack_tensor& seen = out->tensor;
  EXPECT_EQ(seen.data, first);
  EXPECT_EQ(seen.byte_offset, 0u);  // part of the address
  EXPECT_EQ(seen.ndim, 2);
  EXPECT_EQ(seen.shape[0], 2);
  EXPECT_EQ(seen.shape[1], 3);
  EXPECT_EQ(seen.strides[0], -12);
  EXPECT_EQ(seen.strides[1], 2);
  EXPECT_EQ(first[-12 + 4], 4.0f);  // it lives
  // The last one to need the context may be a thread that knows nothing of it.
  aster_ml_context_free(&context);
  std::thread([&] { out->deleter(out); }).join();
  EXPECT_EQ(allocator.live(), 0u);
}

TEST_F(Dlpack, ExportsWhatTheTensorHoldsOfMemoryWrappedTwice) {
  alignas(64) float memory[4] = {1, 2, 3, 4};
  int released[2] = {};
  const auto count = [](void* self, void*, size_t) { ++*static_cast<int*>(self); };
  aster_ml_buffer first, second;
  aster_ml_tensor t;
  const size_t shape[] = {4};
  ASSERT_EQ(aster_ml_buffer_from_memory(&first, &context, memory, 16, kF32, 0, 0, count, released),
            ASTER_ML_OK);
  ASSERT_EQ(aster_ml_tensor_from_buffer(&t, &context, &first, 0, 1, shape, nullptr), ASTER_ML_OK);
  ASSERT_EQ(
      aster_ml_buffer_from_memory(&second, &context, memory, 16, kF32, 0, 0, count, released + 1),
      ASTER_ML_OK);
  aster_ml_dlpack_legacy* out;
  ASSERT_EQ(aster_ml_dlpack_export_legacy(&out, &context, &t), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&second), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&first), ASTER_ML_OK);
  EXPECT_EQ(released[0], 0);
  EXPECT_EQ(released[1], 1);
  out->deleter(out);
  EXPECT_EQ(released[0], 1);
}

TEST_F(Dlpack, ExportsZeroSizeScalarsAndForeignMemory) {
  aster_ml_dlpack_managed* out;
  aster_ml_tensor empty = tensor({3, 0});
  ASSERT_EQ(aster_ml_dlpack_export(&out, &context, &empty, 0), ASTER_ML_OK);
  EXPECT_EQ(out->tensor.data, nullptr);
  EXPECT_EQ(out->tensor.shape[1], 0);
  out->deleter(out);
  EXPECT_EQ(aster_ml_tensor_free(&empty), ASTER_ML_OK);

  aster_ml_tensor scalar = tensor({});
  ASSERT_EQ(aster_ml_dlpack_export(&out, &context, &scalar, 0), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_tensor_free(&scalar), ASTER_ML_OK);
  EXPECT_EQ(out->tensor.ndim, 0);
  *static_cast<float*>(out->tensor.data) = 3;
  out->deleter(out);

  float memory[2] = {1, 2};
  size_t shape[] = {2};
  ptrdiff_t strides[] = {1};
  const aster_ml_tensor own = {{memory, 8, kF32, 0}, 0, 1, shape, strides, kF32, 0};
  ASSERT_EQ(aster_ml_dlpack_export(&out, &context, &own, 0), ASTER_ML_OK);
  EXPECT_EQ(out->tensor.data, memory);
  out->deleter(out);

  EXPECT_EQ(aster_ml_dlpack_export(&out, &context, &own, 4), ASTER_ML_ARGUMENT);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(aster_ml_dlpack_export(&out, &context, nullptr, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_dlpack_export(nullptr, &context, &own, 0), ASTER_ML_ARGUMENT);
  shape[0] = 3;
  EXPECT_EQ(aster_ml_dlpack_export(&out, &context, &own, 0), ASTER_ML_RANGE);
}

// A device that DLPack has no number for, and one whose memory is known by handles.
TEST_F(Dlpack, OtherDevices) {
  static aster_test::ToyDevice nameless, other;
  const aster_ml_backend tables[] = {nameless.table(false), other.table(false)};
  int32_t toy = 0, cuda = 0;
  Versioned early({2});
  early.managed.tensor.device = {ASTER_ML_DLPACK_CUDA, 0};
  refused(early, ASTER_ML_UNSUPPORTED, "CUDA");
  ASSERT_EQ(aster_ml_device_register(&toy, "NAMELESS", &tables[0]), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_device_register(&cuda, "CUDA", &tables[1]), ASTER_ML_OK);
  const size_t shape[] = {4};
  aster_ml_tensor t;
  aster_ml_dlpack_managed* out;
  ASSERT_EQ(aster_ml_tensor_init(&t, &context, kF32, toy, 1, shape), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_dlpack_export(&out, &context, &t, 0), ASTER_ML_UNSUPPORTED);
  EXPECT_NE(message().find("NAMELESS"), std::string::npos);
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);

  const float data[] = {1, 2, 3, 4};
  ASSERT_EQ(aster_ml_tensor_init(&t, &context, kF32, cuda, 1, shape), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_tensor_copy_in(&t, data, 4), ASTER_ML_OK);
  aster_ml_tensor tail;
  const size_t two[] = {2};
  ASSERT_EQ(aster_ml_tensor_from_buffer(&tail, &context, &t.storage, 8, 1, two, nullptr),
            ASTER_ML_OK);
  ASSERT_EQ(aster_ml_dlpack_export(&out, &context, &tail, 0), ASTER_ML_OK);
  EXPECT_EQ(out->tensor.device.type, ASTER_ML_DLPACK_CUDA);
  EXPECT_EQ(out->tensor.data, t.storage.data);
  EXPECT_EQ(out->tensor.byte_offset, 8u);
  aster_ml_tensor back;
  ASSERT_EQ(aster_ml_dlpack_import(&back, &context, out), ASTER_ML_OK);
  EXPECT_EQ(back.device, cuda);
  EXPECT_EQ(back.byte_offset, 8u);
  EXPECT_EQ(aster_ml_buffer_memory_kind(&back.storage), ASTER_ML_MEMORY_DEVICE);
  EXPECT_EQ(values(back), (std::vector<float>{3, 4}));
  for (aster_ml_tensor* each : {&t, &tail, &back}) EXPECT_EQ(aster_ml_tensor_free(each), 0);
  EXPECT_EQ(other.live, 0);
}

TEST_F(Dlpack, EveryAllocationMayFail) {
  aster_ml_tensor t = tensor({4});
  for (int nth = 0, failed = 1; failed != 0; ++nth) {
    Versioned p({2, 2});
    aster_ml_tensor in{};
    aster_ml_dlpack_managed* out = nullptr;
    allocator.fail_at(nth);
    const int32_t imported = import(&in, p);
    const int32_t exported = aster_ml_dlpack_export(&out, &context, &t, 0);
    allocator.fail_at(-1);
    failed = (imported != 0 ? 1 : 0) + (exported != 0 ? 1 : 0);
    EXPECT_LE(failed, 1);
    EXPECT_EQ(p.deleted, 0);
    if (out != nullptr) out->deleter(out);
    EXPECT_EQ(aster_ml_tensor_free(&in), ASTER_ML_OK);
    EXPECT_EQ(p.deleted, imported == 0 ? 1 : 0);
  }
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
}

}  // namespace
