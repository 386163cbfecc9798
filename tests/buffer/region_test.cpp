// Storages found by the bytes they lie on.
#include "buffer/region.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace aster::buffer {
namespace {

class RegionTest : public testing::Test {
 protected:
  void SetUp() override {
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    ASSERT_TRUE(Context::create(&context_, &options).ok());
  }
  void TearDown() override { context_->release(); }
  Storage* wrap(void* data, size_t bytes) {
    Storage* out = nullptr;
    EXPECT_TRUE(
        storage_wrap(&out, *context_, data, bytes, device::kCpu, false, nullptr, nullptr).ok());
    return out;
  }
  Context* context_ = nullptr;
};

TEST_F(RegionTest, RangesOverlap) {
  char memory[16];
  const Region a = host_region(memory, 8), b = host_region(memory + 4, 8);
  EXPECT_TRUE(a.overlaps(b) && b.overlaps(a));
  EXPECT_FALSE(a.overlaps(host_region(memory + 8, 8)));
  EXPECT_FALSE(a.overlaps(host_region(memory + 4, 0)));
  EXPECT_TRUE(a.contains(host_region(memory + 4, 4)));
  EXPECT_FALSE(a.contains(b));
  EXPECT_FALSE(a.overlaps(Region{&a, a.begin, a.end}));  // another address space
}

TEST_F(RegionTest, SharedMemoryIsKnownFromBothSides) {
  alignas(16) char memory[64];
  Storage* outer = wrap(memory, 64);
  Storage* apart = wrap(memory + 64, 1);
  EXPECT_FALSE(outer->shared);
  Storage* inner = wrap(memory + 16, 8);
  EXPECT_TRUE(share_memory(*outer, *inner));
  EXPECT_FALSE(share_memory(*outer, *apart));
  Storage* around = storage_around(memory + 18, 4);
  EXPECT_EQ(around, inner);  // the one made last
  storage_release(around);
  around = storage_around(memory + 18, 12);
  EXPECT_EQ(around, outer);
  storage_release(around);
  EXPECT_EQ(storage_around(memory + 60, 8), nullptr);
  for (Storage* storage : {outer, apart, inner}) storage_release(storage);
}

// Many storages at random places, found as a list of them finds them.
TEST_F(RegionTest, TheTableAgreesWithAList) {
  constexpr size_t kBytes = 4096;
  std::vector<char> memory(kBytes);
  std::multimap<size_t, Storage*> all;
  std::mt19937 bits(7);
  for (int step = 0; step < 4000; ++step) {
    if (all.size() > 60 || (!all.empty() && bits() % 3 == 0)) {
      auto at = all.begin();
      std::advance(at, bits() % all.size());
      storage_release(at->second);
      all.erase(at);
    } else {
      const size_t begin = bits() % (kBytes - 300), bytes = bits() % 4 == 0 ? 0 : bits() % 300;
      all.emplace(begin, wrap(memory.data() + begin, bytes));
    }
    const size_t at = bits() % kBytes;
    const Storage* last = nullptr;
    for (const auto& [begin, storage] : all) {
      const bool holds = begin <= at && at < begin + std::max<size_t>(storage->bytes, 1);
      if (holds && (last == nullptr || storage->sequence > last->sequence)) last = storage;
    }
    Storage* found = storage_around(memory.data() + at, 1);
    EXPECT_EQ(found, last);
    storage_release(found);
    const auto [first, behind] = all.equal_range(at);
    Storage* exact = storage_find(memory.data() + at);
    EXPECT_EQ(exact != nullptr, first != behind);
    storage_release(exact);
  }
  for (const auto& [begin, storage] : all) storage_release(storage);
}

}  // namespace
}  // namespace aster::buffer
