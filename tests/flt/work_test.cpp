#include "flt/work.h"

#include <gtest/gtest.h>

namespace {

using aster::flt::give_work;
using aster::flt::take_work;
using aster::flt::trim_work;
using aster::flt::Work;

constexpr size_t kBytes = size_t{5} << 20;

// What one product gave back the next one has, until it is trimmed; not one of another size.
TEST(FltWork, IsKeptForTheNextOne) {
  aster::Memory& memory = aster::process_heap();
  trim_work();
  const Work first = take_work(memory, kBytes);
  ASSERT_NE(first.data, nullptr);
  EXPECT_GE(first.capacity, kBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data) % 64, 0u);
  give_work(memory, first);
  const Work small = take_work(memory, kBytes / 4), again = take_work(memory, kBytes);
  EXPECT_NE(small.data, first.data);
  EXPECT_EQ(again.data, first.data);
  give_work(memory, small);
  give_work(memory, again);
  EXPECT_EQ(trim_work(), small.capacity + again.capacity);
  EXPECT_EQ(trim_work(), 0u);
}

// Little of it, what exceeds the bound, and that of an allocator of one's own go back at once.
TEST(FltWork, KeepsNothingElse) {
  trim_work();
  aster::Heap own;
  for (const size_t bytes : {size_t{1000}, size_t{385} << 20}) {
    give_work(aster::process_heap(), take_work(aster::process_heap(), bytes));
    EXPECT_EQ(trim_work(), 0u) << bytes;
  }
  const Work work = take_work(own, kBytes);
  EXPECT_GE(own.bytes_now(), kBytes);
  give_work(own, work);
  EXPECT_EQ(own.bytes_now(), 0u);
  EXPECT_EQ(trim_work(), 0u);
}

// Many of them push the oldest out.
TEST(FltWork, IsBounded) {
  aster::Memory& memory = aster::process_heap();
  trim_work();
  Work works[5];
  for (Work& work : works) work = take_work(memory, size_t{100} << 20);
  for (const Work& work : works) give_work(memory, work);
  EXPECT_EQ(trim_work(), size_t{300} << 20);
}

}  // namespace
