// Heap, containers, arenas and text, with every allocation failing once.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/counting_allocator.h"
#include "base/hash_map.h"
#include "base/list.h"
#include "base/sanitize.h"
#include "base/set.h"
#include "base/text.h"

namespace {

using aster::Arena;
using aster::BlockPool;
using aster::Heap;
using aster::List;
using aster::Map;
using aster::Set;
using aster::Table;
using aster::Text;
using aster::Vec;
using aster_test::CountingAllocator;

TEST(Heap, CountsWhatIsHeld) {
  CountingAllocator allocator;
  Heap heap(&allocator.table);
  void* a = heap.allocate(100, 8);
  void* b = heap.allocate(28, 64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
  EXPECT_EQ(heap.bytes_now(), 128u);
  heap.release(a, 100, 8);
  EXPECT_EQ(heap.bytes_now(), 28u);
  EXPECT_EQ(heap.bytes_most(), 128u);
  heap.release(b, 28, 64);
  void* nothing = heap.allocate(0, 1);
  EXPECT_NE(nothing, nullptr);
  heap.release(nothing, 0, 1);
  heap.release(nullptr, 5, 1);
  EXPECT_EQ(heap.bytes_now(), 0u);
  EXPECT_EQ(allocator.live(), 0u);
  EXPECT_TRUE(allocator.sound());
}

TEST(Heap, AbsurdSizesAreNull) {
  Heap heap(nullptr);
  EXPECT_EQ(heap.allocate(SIZE_MAX, 8), nullptr);
  EXPECT_EQ(heap.allocate(SIZE_MAX / 2 + 1, 8), nullptr);
  EXPECT_EQ(heap.array<int64_t>(SIZE_MAX / 4), nullptr);
  EXPECT_EQ(heap.bytes_now(), 0u);
}

TEST(Heap, TablesWithHolesMeanTheSystem) {
  aster_ml_allocator table{};
  table.struct_size = sizeof(table);
  Heap null_functions(&table);
  void* p = null_functions.allocate(10, 4096);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 4096, 0u);
  null_functions.release(p, 10, 4096);
}

TEST(Vec, GrowsLikeStdVector) {
  Heap heap(nullptr);
  Vec<std::string> ours(heap);  // not trivially copyable
  std::vector<std::string> theirs;
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    if (random() % 4 == 0 && !theirs.empty()) {
      ours.pop();
      theirs.pop_back();
    } else {
      const std::string text(random() % 40, static_cast<char>('a' + i % 26));
      ASSERT_TRUE(ours.push(text).ok());
      theirs.push_back(text);
    }
  }
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < theirs.size(); ++i) EXPECT_EQ(ours[i], theirs[i]);
  Vec<std::string> moved(std::move(ours));
  EXPECT_EQ(moved.size(), theirs.size());
  ASSERT_TRUE(moved.push(moved[0]).ok());  // of itself
  EXPECT_EQ(moved.back(), theirs[0]);
}

TEST(Vec, FailuresLeaveItAsItWas) {
  for (int64_t n = 0; n < 6; ++n) {
    CountingAllocator allocator;
    allocator.fail_at(n);
    Heap heap(&allocator.table);
    {
      Vec<int> vec(heap);
      int pushed = 0;
      aster::Status status;
      while (pushed < 100 && (status = vec.push(pushed)).ok()) ++pushed;
      EXPECT_EQ(status, pushed < 100 ? ASTER_ML_MEMORY : ASTER_ML_OK);
      ASSERT_EQ(vec.size(), static_cast<size_t>(pushed));
      for (int i = 0; i < pushed; ++i) EXPECT_EQ(vec[static_cast<size_t>(i)], i);
      const int more[] = {1, 2, 3};
      EXPECT_TRUE(vec.append(more, 3).ok());
    }
    EXPECT_EQ(allocator.live(), 0u);
    EXPECT_TRUE(allocator.sound());
  }
}

TEST(Map, AgreesWithStdMap) {
  Heap heap(nullptr);
  Map<uint64_t, int> ours(heap);
  std::map<uint64_t, int> theirs;
  std::mt19937_64 random(11);
  for (int i = 0; i < 5000; ++i) {
    const uint64_t key = random() % 3000;
    ASSERT_TRUE(ours.set(key, i).ok());
    theirs[key] = i;
  }
  EXPECT_EQ(ours.size(), theirs.size());
  for (uint64_t key = 0; key < 3000; ++key) {
    const auto found = theirs.find(key);
    ASSERT_EQ(ours.contains(key), found != theirs.end());
    EXPECT_EQ(ours.get(key, -1), found != theirs.end() ? found->second : -1);
  }
  ours.clear();
  EXPECT_EQ(ours.find(1), nullptr);
}

TEST(Set, TellsWhatIsNew) {
  Heap heap(nullptr);
  Set<const int*> set(heap);
  std::vector<int> all(1000);
  EXPECT_FALSE(set.contains(all.data()));
  for (const bool first : {true, false}) {
    for (const int& i : all) {
      bool fresh = !first;
      ASSERT_TRUE(set.add(&fresh, &i).ok());
      EXPECT_EQ(fresh, first);
    }
  }
  EXPECT_EQ(set.size(), all.size());
  EXPECT_TRUE(set.contains(&all[999]));
  EXPECT_FALSE(set.contains(all.data() + all.size()));
  set.clear();
  EXPECT_EQ(set.size(), 0u);
  EXPECT_FALSE(set.contains(&all[999]));
  bool fresh = false;
  ASSERT_TRUE(set.add(&fresh, &all[999]).ok());
  EXPECT_TRUE(fresh);
}

TEST(Map, IteratesInOrderOfInsertion) {
  Heap heap(nullptr);
  Map<int, int> map(heap);
  for (const int key : {30, 10, 20, 10}) ASSERT_TRUE(map.set(key, key).ok());
  std::vector<int> keys;
  for (const auto& entry : map) keys.push_back(entry.key);
  EXPECT_EQ(keys, (std::vector<int>{30, 10, 20}));
}

TEST(Map, FailuresLeaveItWhole) {
  for (int64_t n = 0; n < 8; ++n) {
    CountingAllocator allocator;
    allocator.fail_at(n);
    Heap heap(&allocator.table);
    {
      Map<int, int> map(heap);
      int done = 0;
      while (done < 200 && map.set(done, done).ok()) ++done;
      EXPECT_EQ(map.size(), static_cast<size_t>(done));
      for (int i = 0; i < done; ++i) EXPECT_EQ(map.get(i, -1), i);
      EXPECT_TRUE(map.set(1000, 1).ok());
    }
    EXPECT_EQ(allocator.live(), 0u);
  }
}

TEST(Arena, RequestsDoNotOverlapAndAreAligned) {
  for (const size_t block : {size_t{1}, size_t{256}, size_t{65536}}) {
    CountingAllocator allocator;
    Heap heap(&allocator.table);
    {
      BlockPool blocks(heap, block);
      Arena arena(blocks);
      std::mt19937 random(3);
      for (int round = 0; round < 3; ++round) {
        std::vector<std::pair<unsigned char*, size_t>> made;
        for (int i = 0; i < 500; ++i) {
          const size_t bytes = random() % 20 == 0 ? random() % 100000 : random() % 200;
          const size_t alignment = size_t{1} << random() % 8;
          auto* p = static_cast<unsigned char*>(arena.allocate(bytes, alignment));
          ASSERT_NE(p, nullptr);
          ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u);
          std::memset(p, i & 255, bytes);
          made.emplace_back(p, bytes);
        }
        for (size_t i = 0; i < made.size(); ++i) {
          for (size_t k = 0; k < made[i].second; ++k) ASSERT_EQ(made[i].first[k], i & 255);
        }
        EXPECT_GT(arena.bytes(), 0u);
        arena.reset();
        EXPECT_EQ(arena.bytes(), 0u);
      }
    }
    EXPECT_EQ(allocator.live(), 0u);
    EXPECT_TRUE(allocator.sound());
  }
}

TEST(Arena, ResetGivesBlocksToTheNext) {
  CountingAllocator allocator;
  Heap heap(&allocator.table);
  BlockPool blocks(heap, 4096);
  for (int round = 0; round < 10; ++round) {
    Arena arena(blocks);
    for (int i = 0; i < 100; ++i) ASSERT_NE(arena.allocate(100, 8), nullptr);
  }
  EXPECT_LE(allocator.requests(), 4);
  blocks.trim();
  EXPECT_EQ(allocator.live(), 0u);
}

TEST(Arena, SmallBlocksMakeEveryRequestAnAllocation) {
  CountingAllocator allocator;
  Heap heap(&allocator.table);
  BlockPool blocks(heap, 1);
  Arena arena(blocks);
  for (int i = 1; i <= 50; ++i) {
    ASSERT_NE(arena.allocate(8, 8), nullptr);
    EXPECT_EQ(allocator.requests(), i);
  }
  allocator.fail_at(0);
  EXPECT_EQ(arena.allocate(8, 8), nullptr);
  EXPECT_EQ(arena.allocate(SIZE_MAX - 8, 8), nullptr);
  EXPECT_NE(arena.allocate(8, 8), nullptr);
}

#ifdef ASTER_ASAN
TEST(Arena, SanitizerSeesWhatIsFree) {
  Heap heap(nullptr);
  BlockPool blocks(heap, 4096);
  Arena arena(blocks);
  char* p = static_cast<char*>(arena.allocate(24, 8));
  EXPECT_FALSE(__asan_address_is_poisoned(p + 23));
  EXPECT_TRUE(__asan_address_is_poisoned(p + 24));
  arena.release(p, 24, 8);
  EXPECT_TRUE(__asan_address_is_poisoned(p));
  char* q = static_cast<char*>(arena.allocate(24, 8));
  arena.reset();
  EXPECT_TRUE(__asan_address_is_poisoned(q));
}
#endif

// What a pass makes; whether all of it could be stored. Whatever is missing, the arena says so, and
// what is there was given.
bool fill_lists(Arena& arena) {
  List<int> numbers(arena);
  List<List<int>> rows(arena);
  Table<int, int> squares(arena);
  for (int i = 0; i < 50; ++i) {
    numbers.push(i);
    numbers.push_once(i);
    rows.push(List<int>(arena));
    if (!rows.empty()) rows.back().append(numbers.all());
    squares.set(i, i * i);
  }
  numbers.resize(60, 7);
  for (const int n : numbers) EXPECT_TRUE(n >= 0 && n < 50);
  for (const auto& entry : squares) EXPECT_EQ(entry.value, entry.key * entry.key);
  if (arena.failed()) return false;
  EXPECT_EQ(numbers.size(), 60u);
  EXPECT_EQ(rows.size(), 50u);
  EXPECT_EQ(rows.back().size(), 50u);
  EXPECT_EQ(squares.size(), 50u);
  return true;
}

TEST(List, FailuresAreRememberedByTheArena) {
  bool complete = false;
  for (int64_t fail = 0; !complete; ++fail) {
    CountingAllocator allocator;
    Heap heap(&allocator.table);
    {
      BlockPool blocks(heap, 1);
      Arena arena(blocks);
      allocator.fail_at(fail);
      complete = fill_lists(arena);
      EXPECT_EQ(arena.status().code, complete ? ASTER_ML_OK : ASTER_ML_MEMORY);
      arena.reset();
      EXPECT_TRUE(arena.status().ok());
    }
    EXPECT_EQ(allocator.live(), 0u);
  }
}

TEST(Text, Formats) {
  Heap heap(nullptr);
  Text text(heap);
  text << "x=" << int64_t{INT64_MIN} << ',' << uint64_t{UINT64_MAX} << ' ' << 7 << 8u;
  EXPECT_EQ(text.view(), "x=-9223372036854775808,18446744073709551615 78");
  text.clear();
  const std::string wide(1000, 'w');
  text.format("%d %s|", 5, wide.c_str()).format("%s", "end");
  EXPECT_EQ(text.view(), "5 " + wide + "|end");
  EXPECT_STREQ(text.c_str(), ("5 " + wide + "|end").c_str());
  text.truncate(3);
  EXPECT_STREQ(text.c_str(), "5 w");
}

TEST(Text, IsSticky) {
  CountingAllocator allocator;
  allocator.fail_at(1);
  Heap heap(&allocator.table);
  Text text(heap);
  for (int i = 0; i < 100; ++i) text << "0123456789";
  EXPECT_EQ(text.status(), ASTER_ML_MEMORY);
  const size_t size = text.view().size();
  text << "more";
  text.format("%d", 1);
  EXPECT_EQ(text.view().size(), size);
  EXPECT_EQ(text.c_str(), nullptr);
}

}  // namespace
