// Views: what they say, slices and halves, layouts, devices, bad input.
#include "aster_ml/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/counted_context.h"
#include "device/toy_backend.h"

namespace {

using View = aster_ml_buffer_view;
constexpr int32_t kF32 = ASTER_ML_DTYPE_FLOAT32;

std::string message() {
  aster_ml_error record;
  aster_ml_error_last(&record);
  return record.message;
}

class Views : public aster_test::CountedContext {
 protected:
  void SetUp() override {
    CountedContext::SetUp();
    std::iota(memory.begin(), memory.end(), 0.0f);
  }
  aster_ml_view_options options(const std::vector<size_t>& shape,
                                const std::vector<ptrdiff_t>& strides = {}, size_t first = 0) {
    aster_ml_view_options out{};
    out.struct_size = sizeof(out);
    out.dtype = kF32;
    out.data = memory.data() + first;
    out.ndim = shape.size();
    out.shape = shape.data();
    out.strides = strides.empty() ? nullptr : strides.data();
    out.self = &released;
    out.release = [](void* self, void*, size_t) { ++*static_cast<int*>(self); };
    return out;
  }
  // Of floats 0, 1, 2, ...; strides in bytes.
  View view(const std::vector<size_t>& shape, const std::vector<ptrdiff_t>& strides = {},
            size_t first = 0) {
    View out;
    const aster_ml_view_options given = options(shape, strides, first);
    EXPECT_EQ(aster_ml_view_from_memory(&out, &context, &given), ASTER_ML_OK) << message();
    return out;
  }
  std::vector<float> values(const View& v) {
    aster_ml_tensor t;
    EXPECT_EQ(aster_ml_view_to_tensor(&t, &context, &v), ASTER_ML_OK) << message();
    std::vector<float> out(aster_ml_tensor_count(&t));
    EXPECT_EQ(aster_ml_tensor_copy_out(out.data(), &t, out.size()), ASTER_ML_OK);
    EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
    return out;
  }
  void freed(std::initializer_list<View*> views) {
    for (View* each : views) EXPECT_EQ(aster_ml_view_free(each), ASTER_ML_OK);
  }

  aster_test::CountingAllocator allocator;
  std::array<float, 64> memory{};
  int released = 0;
};
using Floats = std::vector<float>;

TEST_F(Views, SayWhatTheMemoryIs) {
  const std::vector<size_t> shape{2, 3};
  aster_ml_view_options given = options(shape);
  View v;
  ASSERT_EQ(aster_ml_view_from_memory(&v, &context, &given), ASTER_ML_OK);
  EXPECT_EQ(v.memory.data, memory.data());
  EXPECT_EQ(v.memory.bytes, 24u);
  EXPECT_EQ(v.memory.dtype, kF32);
  EXPECT_EQ(v.memory.device, ASTER_ML_DEVICE_CPU);
  EXPECT_EQ(v.strides[0], 12);  // bytes
  EXPECT_EQ(v.strides[1], 4);
  EXPECT_EQ(v.kind, ASTER_ML_MEMORY_NORMAL);
  EXPECT_EQ(v.flags, uint32_t{ASTER_ML_VIEW_SHARED});
  EXPECT_NE(v.owner, nullptr);
  EXPECT_TRUE(aster_ml_view_is_writable(&v));
  EXPECT_TRUE(aster_ml_view_is_contiguous(&v));
  EXPECT_TRUE(aster_ml_view_is_host(&v) && aster_ml_view_is_shared(&v));
  EXPECT_FALSE(aster_ml_view_is_device(&v) || aster_ml_view_is_pinned(&v));
  EXPECT_EQ(aster_ml_view_count(&v), 6u);
  EXPECT_FALSE(aster_ml_view_is_layout(&v, ASTER_ML_LAYOUT_COLUMN_MAJOR));
  freed({&v});
  EXPECT_EQ(released, 1);

  given.kind = ASTER_ML_MEMORY_PINNED;
  given.flags = ASTER_ML_VIEW_READ_ONLY;
  ASSERT_EQ(aster_ml_view_from_memory(&v, &context, &given), ASTER_ML_OK);
  EXPECT_EQ(v.kind, ASTER_ML_MEMORY_PINNED);
  EXPECT_EQ(v.flags,
            uint32_t{ASTER_ML_VIEW_SHARED | ASTER_ML_VIEW_PINNED | ASTER_ML_VIEW_READ_ONLY});
  EXPECT_FALSE(aster_ml_view_is_writable(&v));
  EXPECT_TRUE(aster_ml_view_is_host(&v) && aster_ml_view_is_pinned(&v));
  View low, high;
  EXPECT_EQ(aster_ml_view_split_at(&low, &high, &v, 0, 1), ASTER_ML_ARGUMENT);
  EXPECT_NE(message().find("read-only"), std::string::npos);
  aster_ml_tensor t;
  ASSERT_EQ(aster_ml_view_to_tensor(&t, &context, &v), ASTER_ML_OK);
  freed({&v});
  EXPECT_EQ(aster_ml_tensor_copy_in(&t, memory.data(), 6), ASTER_ML_ARGUMENT);
  EXPECT_EQ(released, 1);  // the tensor keeps it
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
  EXPECT_EQ(released, 2);
}

TEST_F(Views, PredicatesOfNoView) {
  const View none{};
  for (const View* v : {&none, static_cast<const View*>(nullptr)}) {
    for (const auto is :
         {aster_ml_view_is_contiguous, aster_ml_view_is_writable, aster_ml_view_is_host,
          aster_ml_view_is_device, aster_ml_view_is_pinned, aster_ml_view_is_shared})
      EXPECT_EQ(is(v), 0);
    EXPECT_EQ(aster_ml_view_count(v), 0u);
  }
}

TEST_F(Views, SlicesAndReversalsMoveNothing) {
  View v = view({4, 6}), rows, columns, back, none;
  ASSERT_EQ(aster_ml_view_slice(&rows, &v, 0, 1, 4, 2), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_view_slice(&columns, &rows, 1, 5, -1, -2), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_view_flip(&back, &columns, 0), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_view_slice(&none, &v, 1, 6, 6, 1), ASTER_ML_OK);
  EXPECT_EQ(values(rows), (Floats{6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(values(columns), (Floats{11, 9, 7, 23, 21, 19}));
  EXPECT_EQ(values(back), (Floats{23, 21, 19, 11, 9, 7}));
  EXPECT_EQ(back.strides[0], -48);
  EXPECT_EQ(back.strides[1], -8);
  EXPECT_EQ(back.owner, v.owner);
  EXPECT_EQ(back.memory.data, memory.data());
  EXPECT_EQ(none.shape[1], 0u);
  freed({&v, &rows, &columns, &none});
  EXPECT_EQ(released, 0);
  EXPECT_EQ(values(back)[0], 23);  // it keeps the memory
  freed({&back});
  EXPECT_EQ(released, 1);
}

TEST_F(Views, EnsureContiguousIsTheViewItselfWhereItCan) {
  View v = view({3, 4}), same, turned, copy;
  ASSERT_EQ(aster_ml_view_ensure_contiguous(&same, &context, &v), ASTER_ML_OK);
  EXPECT_EQ(same.memory.data, memory.data());
  EXPECT_EQ(same.owner, v.owner);
  ASSERT_EQ(aster_ml_view_flip(&turned, &v, 1), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_view_ensure_contiguous(&copy, &context, &turned), ASTER_ML_OK);
  EXPECT_NE(copy.owner, v.owner);
  EXPECT_EQ(copy.flags, 0u);
  EXPECT_TRUE(aster_ml_view_is_contiguous(&copy));
  EXPECT_EQ(values(copy), values(turned));
  freed({&v, &same, &turned, &copy});
}

TEST_F(Views, LayoutsThereAndBack) {
  // 3 by 5: rows have 2 bits, columns 3, so a place is column 2, row 1, column 1, row 0, column 0.
  View v = view({2, 3, 5}), column, morton, back, straight;
  ASSERT_EQ(aster_ml_view_to_layout(&column, &context, &v, ASTER_ML_LAYOUT_COLUMN_MAJOR), 0);
  EXPECT_TRUE(aster_ml_view_is_layout(&column, ASTER_ML_LAYOUT_COLUMN_MAJOR));
  EXPECT_FALSE(aster_ml_view_is_contiguous(&column));
  EXPECT_EQ(column.strides[0], 4);
  EXPECT_EQ(column.strides[1], 8);
  EXPECT_EQ(column.strides[2], 24);
  EXPECT_EQ(values(column), values(v));
  ASSERT_EQ(aster_ml_view_to_layout(&morton, &context, &column, ASTER_ML_LAYOUT_MORTON), 0);
  EXPECT_EQ(morton.layout, ASTER_ML_LAYOUT_MORTON);
  EXPECT_EQ(morton.memory.bytes, 2 * 4 * 8 * sizeof(float));
  const auto* along = static_cast<const float*>(morton.memory.data);
  for (size_t matrix = 0; matrix < 2; ++matrix) {
    for (size_t row = 0; row < 3; ++row) {
      for (size_t at = 0; at < 5; ++at) {
        const size_t place =
            (at & 1) | (row & 1) << 1 | (at & 2) << 1 | (row & 2) << 2 | (at & 4) << 2;
        EXPECT_EQ(along[matrix * 32 + place], memory[matrix * 15 + row * 5 + at]);
      }
    }
  }
  for (const aster_ml_layout to : {ASTER_ML_LAYOUT_ROW_MAJOR, ASTER_ML_LAYOUT_COLUMN_MAJOR}) {
    ASSERT_EQ(aster_ml_view_to_layout(&back, &context, &morton, to), ASTER_ML_OK);
    EXPECT_TRUE(aster_ml_view_is_layout(&back, to));
    EXPECT_EQ(values(back), values(v));
    freed({&back});
  }
  ASSERT_EQ(aster_ml_view_ensure_contiguous(&straight, &context, &morton), ASTER_ML_OK);
  EXPECT_EQ(values(straight), values(v));
  // What has no strides is not sliced.
  EXPECT_EQ(aster_ml_view_slice(&back, &morton, 0, 0, 1, 1), ASTER_ML_UNSUPPORTED);
  View low, high;
  EXPECT_EQ(aster_ml_view_split_at(&low, &high, &morton, 0, 1), ASTER_ML_UNSUPPORTED);
  aster_ml_tensor t;
  EXPECT_EQ(aster_ml_view_to_tensor(&t, &context, &morton), ASTER_ML_UNSUPPORTED);
  View flat = view({4});
  EXPECT_EQ(aster_ml_view_to_layout(&back, &context, &flat, ASTER_ML_LAYOUT_MORTON),
            ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_view_to_layout(&back, &context, &flat, ASTER_ML_LAYOUT_STRIDED),
            ASTER_ML_ARGUMENT);
  freed({&v, &column, &morton, &straight, &flat});
}

TEST_F(Views, HalvesAreApart) {
  const struct {
    std::vector<size_t> shape;
    std::vector<ptrdiff_t> strides;
    size_t first, axis, index;
    Floats low, high;
  } fit[] = {
      {{2, 3}, {}, 0, 1, 1, {0, 3}, {1, 2, 4, 5}},
      {{3, 2}, {4, 12}, 0, 0, 2, {0, 3, 1, 4}, {2, 5}},                   // column-major
      {{4}, {-8}, 6, 0, 3, {6, 4, 2}, {0}},                               // from the end
      {{4, 3}, {4, 0}, 0, 0, 2, {0, 0, 0, 1, 1, 1}, {2, 2, 2, 3, 3, 3}},  // rows repeat
      {{4}, {}, 0, 0, 0, {}, {0, 1, 2, 3}},
      {{4}, {}, 0, 0, 4, {0, 1, 2, 3}, {}},
      {{2, 2}, {4, 4}, 0, 0, 0, {}, {0, 1, 1, 2}},
  };
  for (const auto& row : fit) {
    View v = view(row.shape, row.strides, row.first), low, high;
    ASSERT_EQ(aster_ml_view_split_at(&low, &high, &v, row.axis, row.index), 0) << message();
    EXPECT_EQ(values(low), row.low);
    EXPECT_EQ(values(high), row.high);
    EXPECT_EQ(low.owner, high.owner);
    freed({&v, &low, &high});
  }
  const struct {
    std::vector<size_t> shape;
    std::vector<ptrdiff_t> strides;
    size_t axis, index;
    int32_t status;
  } bad[] = {
      {{4}, {}, 0, 5, ASTER_ML_RANGE},        {{4}, {}, 1, 0, ASTER_ML_RANGE},
      {{4}, {0}, 0, 2, ASTER_ML_SHAPE},        // one element four times
      {{2, 4}, {0, 4}, 0, 1, ASTER_ML_SHAPE},  // a row twice
      {{3, 3}, {4, 4}, 0, 1, ASTER_ML_SHAPE},  // windows
      {{3, 3}, {4, 8}, 1, 1, ASTER_ML_SHAPE},
  };
  for (const auto& row : bad) {
    View v = view(row.shape, row.strides), low, high;
    EXPECT_EQ(aster_ml_view_split_at(&low, &high, &v, row.axis, row.index), row.status);
    EXPECT_EQ(low.shape, nullptr);
    EXPECT_EQ(high.shape, nullptr);
    freed({&v});
  }
  View v = view({4}), low;
  EXPECT_EQ(aster_ml_view_split_at(&low, &low, &v, 0, 2), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_view_split_at(&low, &v, &v, 0, 2), ASTER_ML_ARGUMENT);
  freed({&v});
}

// Two threads write the halves at once, each through a context of its own.
TEST_F(Views, HalvesAreWrittenByTwoThreads) {
  constexpr size_t kRows = 64, kColumns = 96, kHalf = kColumns / 2;
  aster_ml_tensor whole;
  const size_t shape[] = {kRows, kColumns};
  ASSERT_EQ(aster_ml_tensor_init(&whole, &context, kF32, 0, 2, shape), ASTER_ML_OK);
  View v, halves[2];
  ASSERT_EQ(aster_ml_view_from_tensor(&v, &context, &whole), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_view_split_at(&halves[0], &halves[1], &v, 1, kHalf), ASTER_ML_OK);
  const auto write = [&](View* half, float first) {
    aster_ml_context own{};
    ASSERT_EQ(aster_ml_context_init(&own, nullptr), ASTER_ML_OK);
    std::vector<float> data(kRows * kHalf);
    aster_ml_tensor t, copy;
    for (int round = 0; round < 20; ++round) {
      std::iota(data.begin(), data.end(), first + static_cast<float>(round));
      View part;
      ASSERT_EQ(aster_ml_view_slice(&part, half, 0, 0, kRows, 1), ASTER_ML_OK);
      ASSERT_EQ(aster_ml_view_to_tensor(&t, &own, &part), ASTER_ML_OK);
      EXPECT_EQ(aster_ml_tensor_copy_in(&t, data.data(), data.size()), ASTER_ML_OK);
      ASSERT_EQ(aster_ml_tensor_contiguous(&copy, &own, &t), ASTER_ML_OK);
      EXPECT_EQ(std::memcmp(copy.storage.data, data.data(), data.size() * sizeof(float)), 0);
      EXPECT_EQ(aster_ml_tensor_free(&copy), ASTER_ML_OK);
      EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
      EXPECT_EQ(aster_ml_view_free(&part), ASTER_ML_OK);
    }
    EXPECT_EQ(aster_ml_view_free(half), ASTER_ML_OK);
    EXPECT_EQ(aster_ml_context_free(&own), ASTER_ML_OK);
  };
  std::thread low(write, &halves[0], 0.0f), high(write, &halves[1], 100000.0f);
  low.join();
  high.join();
  const auto* seen = static_cast<const float*>(whole.storage.data);
  for (size_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(seen[row * kColumns], static_cast<float>(19 + row * kHalf));
    EXPECT_EQ(seen[row * kColumns + kHalf], static_cast<float>(100019 + row * kHalf));
  }
  freed({&v});
  EXPECT_EQ(aster_ml_tensor_free(&whole), ASTER_ML_OK);
}

TEST_F(Views, PartsOfBuffersAndTensors) {
  aster_ml_buffer b;
  ASSERT_EQ(aster_ml_buffer_init(&b, &context, 64 * 4, kF32, 0), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_buffer_copy_in(&b, 0, memory.data(), 64 * 4), ASTER_ML_OK);
  View v;
  const size_t shape[] = {2, 3}, large[] = {3, 3};
  const ptrdiff_t strides[] = {16, 4}, before[] = {-4, 4}, odd[] = {16, 3};
  const auto part = [&](const aster_ml_buffer& of, size_t at, size_t bytes, const size_t* axes,
                        const ptrdiff_t* steps) {
    return aster_ml_view_from_buffer(&v, &context, &of, at, bytes, 2, axes, steps);
  };
  ASSERT_EQ(part(b, 16, 32, shape, strides), ASTER_ML_OK);
  EXPECT_EQ(values(v), (Floats{4, 5, 6, 8, 9, 10}));
  EXPECT_EQ(v.byte_offset, 16u);
  EXPECT_EQ(v.memory.bytes, 256u);
  freed({&v});
  EXPECT_EQ(part(b, 16, 32, large, nullptr), ASTER_ML_RANGE);
  EXPECT_EQ(part(b, 16, 32, shape, before), ASTER_ML_RANGE);
  EXPECT_EQ(part(b, 16, 32, shape, odd), ASTER_ML_ARGUMENT);
  EXPECT_EQ(part(b, 18, 32, shape, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(part(b, 240, 32, shape, nullptr), ASTER_ML_RANGE);
  EXPECT_EQ(message(), "32 bytes from 240 on are not inside a buffer of 256 bytes");
  EXPECT_EQ(part(b, SIZE_MAX, 32, shape, nullptr), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_view_from_buffer(&v, &context, nullptr, 0, 4, 0, nullptr, nullptr),
            ASTER_ML_ARGUMENT);
  aster_ml_buffer lie = b;
  lie.bytes = 1024;
  EXPECT_EQ(part(lie, 16, 1000, shape, nullptr), ASTER_ML_RANGE);
  lie.data = memory.data();
  EXPECT_EQ(part(lie, 16, 1000, shape, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_NE(message().find("does not know"), std::string::npos);
  ASSERT_EQ(aster_ml_view_from_buffer(&v, &context, &b, 16, 32, 0, nullptr, nullptr), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_buffer_free(&b), ASTER_ML_OK);
  EXPECT_EQ(values(v), (Floats{4}));  // 0-d, and it keeps the memory
  freed({&v});

  aster_ml_tensor t;
  const size_t nothing[] = {2, 0};
  ASSERT_EQ(aster_ml_tensor_init(&t, &context, kF32, 0, 2, nothing), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_view_from_tensor(&v, &context, &t), ASTER_ML_OK);
  EXPECT_EQ(values(v), Floats{});
  EXPECT_TRUE(aster_ml_view_is_contiguous(&v));
  freed({&v});
  EXPECT_EQ(aster_ml_tensor_free(&t), ASTER_ML_OK);
}

TEST_F(Views, OtherDevices) {
  static aster_test::ToyDevice toy;
  const aster_ml_backend table = toy.table(true);
  int32_t device = 0;
  ASSERT_EQ(aster_ml_device_register(&device, "VIEWED", &table), ASTER_ML_OK);
  View v = view({2, 3}), turned, there, part, back, same;
  ASSERT_EQ(aster_ml_view_flip(&turned, &v, 0), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_view_to_device(&there, &context, &turned, device), ASTER_ML_OK);
  EXPECT_EQ(there.kind, ASTER_ML_MEMORY_DEVICE);
  EXPECT_EQ(there.flags, uint32_t{ASTER_ML_VIEW_DEVICE});
  EXPECT_TRUE(aster_ml_view_is_device(&there));
  EXPECT_FALSE(aster_ml_view_is_host(&there) || aster_ml_view_is_shared(&there));
  ASSERT_EQ(aster_ml_view_to_device(&same, &context, &there, device), ASTER_ML_OK);
  EXPECT_EQ(same.owner, there.owner);
  ASSERT_EQ(aster_ml_view_slice(&part, &there, 1, 2, -1, -2), ASTER_ML_OK);
  ASSERT_EQ(aster_ml_view_to_device(&back, &context, &part, 0), ASTER_ML_OK);
  EXPECT_EQ(values(back), (Floats{5, 3, 2, 0}));
  View morton;
  EXPECT_EQ(aster_ml_view_to_layout(&morton, &context, &there, ASTER_ML_LAYOUT_MORTON),
            ASTER_ML_UNSUPPORTED);
  int32_t rocm = 0;
  ASSERT_EQ(aster_ml_device_from_name(&rocm, "rocm:1"), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_view_to_device(&morton, &context, &v, rocm), ASTER_ML_UNSUPPORTED);
  EXPECT_NE(message().find("ROCM"), std::string::npos) << message();
  freed({&v, &turned, &there, &part, &back, &same});
  EXPECT_EQ(toy.live, 0);
}

TEST_F(Views, WhoseOwnerIsGone) {
  View v = view({4}), copy = v, out;
  freed({&v});
  EXPECT_EQ(released, 1);
  EXPECT_EQ(aster_ml_view_copy(&out, &copy), ASTER_ML_ARGUMENT);
  EXPECT_NE(message().find("freed"), std::string::npos);
  EXPECT_EQ(aster_ml_view_flip(&out, &copy, 0), ASTER_ML_ARGUMENT);
  aster_ml_tensor t;
  EXPECT_EQ(aster_ml_view_to_tensor(&t, &context, &copy), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_view_free(&copy), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_view_free(&v), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_view_free(nullptr), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_view_copy(&out, &v), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_view_is_contiguous(&v), 0);
}

TEST_F(Views, BadMemoryIsRefusedAndNotReleased) {
  const auto refused = [&](auto change, int32_t status) {
    const std::vector<size_t> shape{2};
    aster_ml_view_options given = options(shape);
    change(given);
    View v;
    EXPECT_EQ(aster_ml_view_from_memory(&v, &context, &given), status) << message();
    EXPECT_EQ(v.shape, nullptr);
    EXPECT_EQ(released, 0);
  };
  using Options = aster_ml_view_options&;
  static const ptrdiff_t far[] = {PTRDIFF_MAX}, odd[] = {2};
  refused([](Options o) { o.dtype = 0; }, ASTER_ML_ARGUMENT);
  refused([](Options o) { o.dtype = ASTER_ML_DTYPE_WEAKINT; }, ASTER_ML_DTYPE);
  refused([](Options o) { o.data = nullptr; }, ASTER_ML_ARGUMENT);
  refused([](Options o) { o.data = static_cast<char*>(o.data) + 1; }, ASTER_ML_ARGUMENT);
  refused([](Options o) { o.strides = odd; }, ASTER_ML_ARGUMENT);
  refused([](Options o) { o.strides = far; }, ASTER_ML_RANGE);
  refused([](Options o) { o.shape = nullptr; }, ASTER_ML_ARGUMENT);
  refused([](Options o) { o.kind = ASTER_ML_MEMORY_DEVICE; }, ASTER_ML_ARGUMENT);
  refused([](Options o) { o.kind = 9; }, ASTER_ML_ARGUMENT);
  refused([](Options o) { o.flags = ASTER_ML_VIEW_SPARSE; }, ASTER_ML_ARGUMENT);
  refused([](Options o) { o.device = 99 * 65536; }, ASTER_ML_ARGUMENT);
  refused([](Options o) { o.struct_size = 0; }, ASTER_ML_ARGUMENT);
  int32_t metal = 0;
  ASSERT_EQ(aster_ml_device_from_name(&metal, "metal"), ASTER_ML_OK);
  refused([&](Options o) { o.device = metal; }, ASTER_ML_UNSUPPORTED);
  EXPECT_NE(message().find("METAL"), std::string::npos);
}

TEST_F(Views, EveryAllocationMayFail) {
  View v = view({4, 4});
  for (int nth = 0, failed = 1; failed != 0; ++nth) {
    View flipped{}, copy{}, morton{}, low{}, high{};
    allocator.fail_at(nth);
    failed = aster_ml_view_flip(&flipped, &v, 0);
    if (failed == 0) failed = aster_ml_view_ensure_contiguous(&copy, &context, &flipped);
    if (failed == 0)
      failed = aster_ml_view_to_layout(&morton, &context, &flipped, ASTER_ML_LAYOUT_MORTON);
    if (failed == 0) failed = aster_ml_view_split_at(&low, &high, &flipped, 0, 2);
    allocator.fail_at(-1);
    EXPECT_TRUE(failed == 0 || failed == ASTER_ML_MEMORY) << failed;
    freed({&flipped, &copy, &morton, &low, &high});
  }
  freed({&v});
}

}  // namespace
