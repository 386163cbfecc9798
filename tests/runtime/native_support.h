// Native implementations run on operands, whatever the tasks' order and grouping.
#pragma once

#include "base/sanitize.h"
#include "runtime/cpu/native.h"

#include "elements.h"

namespace aster::runtime::cpu::native {

using namespace runtime::testing;  // NOLINT: elements and places

// Sanitizers take so many times as long, about: of long tables of cases a part does there.
#ifdef ASTER_SANITIZED
constexpr int64_t kSlower = 10;
#else
constexpr int64_t kSlower = 1;
#endif

// Runs node's implementation on operands, its tasks in random order and groups.
inline void run(const Plan& plan, Node node, std::vector<void*> operands, Random& random) {
  Heap heap(nullptr);
  ASSERT_GE(plan.tasks, 1);
  EXPECT_GT(plan.nanoseconds, 0);
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (int64_t at = 0; at < plan.tasks;) {
    const int64_t end = draw(random, at + 1, plan.tasks);
    parts.push_back({at, end});
    at = end;
  }
  std::shuffle(parts.begin(), parts.end(), random);
  for (const auto& [begin, end] : parts) {
    const size_t bytes = static_cast<size_t>(plan.scratch_bytes);
    void* const scratch = heap.allocate(bytes, 64);  // of its own, for the sanitizer
    find(node)->run(plan, operands.data(), scratch, begin, end);
    heap.release(scratch, bytes, 64);
  }
}
inline void run(Node node, std::vector<void*> operands, Random& random, int64_t* tasks = nullptr,
                const std::vector<int64_t>& views = {}) {
  Heap heap(nullptr);
  ASSERT_NE(find(node), nullptr);
  Plan plan(heap);
  ASSERT_TRUE(prepare(&plan, node, views).ok());
  run(plan, node, operands, random);
  if (tasks != nullptr) *tasks = plan.tasks;
}

}  // namespace aster::runtime::cpu::native
