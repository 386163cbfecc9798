// Handles told from what they were, by whoever holds a copy.
#include "base/records.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>
#include <vector>

#include "aster_ml/base.h"

namespace {

namespace records = aster::records;

TEST(Records, AHandleLivesUntilItIsClaimed) {
  records::Pool pool;
  int one = 1, two = 2;
  void *a = nullptr, *b = nullptr;
  ASSERT_TRUE(pool.take(&a, &one).ok());
  ASSERT_TRUE(pool.take(&b, &two).ok());
  EXPECT_NE(a, nullptr);
  EXPECT_EQ(records::find(a), &one);
  EXPECT_EQ(records::find(b), &two);
  EXPECT_EQ(records::claim(a), &one);
  EXPECT_EQ(records::find(a), nullptr);
  EXPECT_EQ(records::claim(a), nullptr);
  pool.give_back(a);
  EXPECT_EQ(records::find(a), nullptr);
  EXPECT_EQ(records::claim(b), &two);
  pool.give_back(b);
}

TEST(Records, ReusedRecordsDoNotAnswerToOldHandles) {
  records::Pool pool;
  std::vector<int> things(5000);
  std::vector<void*> old;
  std::set<void*> all;
  for (int& thing : things) {
    void* handle = nullptr;
    ASSERT_TRUE(pool.take(&handle, &thing).ok());
    for (void* before : old) ASSERT_EQ(records::find(before), nullptr);
    EXPECT_EQ(records::find(handle), &thing);
    EXPECT_EQ(records::claim(handle), &thing);
    pool.give_back(handle);
    EXPECT_TRUE(all.insert(handle).second) << "a handle twice";
    if (old.size() < 100) old.push_back(handle);
  }
}

TEST(Records, RubbishIsNoHandle) {
  records::Pool pool;
  int thing = 0;
  void* handle = nullptr;
  ASSERT_TRUE(pool.take(&handle, &thing).ok());
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t word = random() >> (random() % 64);
    void* rubbish = reinterpret_cast<void*>(static_cast<uintptr_t>(word));
    if (rubbish == handle) continue;
    // Whatever else lives in this process was made by this test: nothing.
    const void* found = records::find(rubbish);
    EXPECT_EQ(found, nullptr) << word;
  }
  EXPECT_EQ(records::find(nullptr), nullptr);
  EXPECT_EQ(records::find(&thing), nullptr);
  EXPECT_EQ(records::claim(&thing), nullptr);
  EXPECT_EQ(records::claim(handle), &thing);
  pool.give_back(handle);
}

TEST(Records, ManyLiveOnesAndWhatAPoolLeaves) {
  constexpr size_t kMany = 200000;
  std::vector<void*> first(kMany), second(kMany);
  int thing = 0;
  const auto fill = [&](std::vector<void*>& handles) {
    records::Pool pool;
    for (void*& handle : handles) ASSERT_TRUE(pool.take(&handle, &thing).ok());
    EXPECT_EQ(std::set<void*>(handles.begin(), handles.end()).size(), kMany);
    for (void* handle : handles) EXPECT_EQ(records::claim(handle), &thing);
    for (void* handle : handles) pool.give_back(handle);
  };
  fill(first);
  fill(second);
  // The records of the first pool serve the second.
  uint32_t most_first = 0, most_second = 0;
  for (void* h : first) most_first = std::max(most_first, records::name_of(h).number);
  for (void* h : second) most_second = std::max(most_second, records::name_of(h).number);
  EXPECT_LE(most_second, most_first + 64);
  for (void* handle : first) EXPECT_EQ(records::find(handle), nullptr);
}

TEST(Records, PoolsOfManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int round = 0; round < 50; ++round) {
        records::Pool pool;
        std::vector<std::pair<void*, int*>> live;
        int things[300];
        for (int& thing : things) {
          void* handle = nullptr;
          if (!pool.take(&handle, &thing).ok()) ++wrong;
          live.emplace_back(handle, &thing);
          if (random() % 3 == 0) {
            const size_t i = random() % live.size();
            wrong += records::claim(live[i].first) != live[i].second;
            pool.give_back(live[i].first);
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
          }
        }
        for (auto [handle, object] : live) {
          wrong += records::find(handle) != object;
          wrong += records::claim(handle) != object;
          pool.give_back(handle);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Records, OneOfManyFreesWins) {
  records::Pool pool;
  int thing = 0;
  for (int round = 0; round < 200; ++round) {
    void* handle = nullptr;
    ASSERT_TRUE(pool.take(&handle, &thing).ok());
    std::atomic<int> won{0};
    std::thread other([&] { won += records::claim(handle) != nullptr; });
    won += records::claim(handle) != nullptr;
    other.join();
    EXPECT_EQ(won, 1);
    pool.give_back(handle);
  }
}

TEST(Records, ContextsAndScopesThatAreGone) {
  aster_ml_context context{};
  ASSERT_EQ(aster_ml_context_init(&context, nullptr), ASTER_ML_OK);
  aster_ml_context copy = context;
  aster_ml_scope scope{};
  ASSERT_EQ(aster_ml_scope_begin(&scope, &context), ASTER_ML_OK);
  aster_ml_scope ended = scope;
  EXPECT_EQ(aster_ml_scope_end(&scope), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_scope_end(&ended), ASTER_ML_OK);  // nothing to do
  EXPECT_EQ(ended.impl, nullptr);
  EXPECT_EQ(aster_ml_context_free(&context), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_scope_begin(&scope, &copy), ASTER_ML_ARGUMENT);
  size_t now = 1;
  EXPECT_EQ(aster_ml_context_count_bytes(&now, nullptr, &copy), ASTER_ML_ARGUMENT);
  EXPECT_EQ(now, 0u);
  EXPECT_EQ(aster_ml_context_free(&copy), ASTER_ML_OK);
  EXPECT_EQ(copy.impl, nullptr);
}

}  // namespace
