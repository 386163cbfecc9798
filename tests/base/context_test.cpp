// Contexts, handles, scopes and threads.
#include "base/context.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/counting_allocator.h"

namespace {

using aster::Context;
using aster::HandleObject;
using aster_test::CountingAllocator;

TEST(Context, ThreadsOfTheEnvironment) {
  ASSERT_EQ(setenv("ASTER_ML_THREADS", "3", 1), 0);
  Context* context = nullptr;
  ASSERT_EQ(Context::create(&context, nullptr), ASTER_ML_OK);
  EXPECT_EQ(context->options().threads, 3);
  context->release();
  aster_ml_context_options options = {};
  options.struct_size = sizeof(options);
  options.threads = 2;  // goes first
  ASSERT_EQ(Context::create(&context, &options), ASTER_ML_OK);
  EXPECT_EQ(context->options().threads, 2);
  context->release();
  for (const char* bad : {"0", "-1", "two", "2x", " 2", "99999999999"}) {
    ASSERT_EQ(setenv("ASTER_ML_THREADS", bad, 1), 0);
    EXPECT_EQ(Context::create(&context, nullptr), ASTER_ML_RANGE) << bad;
    EXPECT_EQ(context, nullptr);
    aster_ml_error error = {};
    EXPECT_EQ(aster_ml_error_last(&error), ASTER_ML_OK);
    EXPECT_NE(std::string(error.message).find("ASTER_ML_THREADS is '"), std::string::npos);
  }
  ASSERT_EQ(unsetenv("ASTER_ML_THREADS"), 0);
}

struct Thing : HandleObject {
  std::atomic<int>* alive;
};

Thing* make_thing(Context& context, std::atomic<int>* alive) {
  Thing* thing = context.heap().create<Thing>();
  EXPECT_NE(thing, nullptr);
  thing->alive = alive;
  ++*alive;
  const aster::Status made = aster::handle_init(thing, context, [](HandleObject* object) {
    Thing* dying = static_cast<Thing*>(object);
    EXPECT_TRUE(dying->context->inside());
    --*dying->alive;
    dying->context->heap().destroy(dying);
  });
  EXPECT_TRUE(made.ok());
  return thing;
}

class ContextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options.struct_size = sizeof(options);
    options.allocator = &allocator.table;
    ASSERT_EQ(aster_ml_context_init(&handle, &options), ASTER_ML_OK);
    context = aster::context_of(&handle);
  }
  void TearDown() override {
    aster_ml_context_free(&handle);
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(allocator.live(), 0u);
    EXPECT_TRUE(allocator.sound());
  }
  CountingAllocator allocator;
  aster_ml_context_options options{};
  aster_ml_context handle{};
  Context* context = nullptr;
  std::atomic<int> alive{0};
};

TEST_F(ContextTest, FreeIsIdempotent) {
  aster_ml_context empty{};
  EXPECT_EQ(aster_ml_context_free(&empty), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_context_free(nullptr), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_context_free(&handle), ASTER_ML_OK);
  EXPECT_EQ(handle.impl, nullptr);
  EXPECT_EQ(aster_ml_context_free(&handle), ASTER_ML_OK);
}

TEST_F(ContextTest, LivesUntilItsLastHandle) {
  Thing* thing = make_thing(*context, &alive);
  aster_ml_context_free(&handle);
  EXPECT_EQ(alive, 1);
  EXPECT_GT(allocator.live(), 0u);
  aster::free_handle(thing);
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(allocator.live(), 0u);
  aster::free_handle(nullptr);
}

TEST_F(ContextTest, ScopesFreeWhatIsNotKept) {
  aster_ml_scope outer{}, inner{};
  Thing* before = make_thing(*context, &alive);
  ASSERT_EQ(aster_ml_scope_begin(&outer, &handle), ASTER_ML_OK);
  make_thing(*context, &alive);
  Thing* kept = make_thing(*context, &alive);
  ASSERT_EQ(aster_ml_scope_begin(&inner, &handle), ASTER_ML_OK);
  make_thing(*context, &alive);
  Thing* freed = make_thing(*context, &alive);
  make_thing(*context, &alive);
  aster::free_handle(freed);  // from the middle of the list
  EXPECT_EQ(alive, 5);
  EXPECT_EQ(aster_ml_scope_end(&outer), ASTER_ML_STATE);
  EXPECT_NE(outer.impl, nullptr);
  EXPECT_EQ(aster_ml_scope_end(&inner), ASTER_ML_OK);
  EXPECT_EQ(alive, 3);
  aster::scope_remove(kept);
  EXPECT_EQ(aster_ml_scope_end(&outer), ASTER_ML_OK);
  EXPECT_EQ(alive, 2);
  EXPECT_EQ(aster_ml_scope_end(&outer), ASTER_ML_OK);  // empty now
  aster::free_handle(before);
  aster::free_handle(kept);
}

TEST_F(ContextTest, ScopeKeepsItsContext) {
  aster_ml_scope scope{};
  ASSERT_EQ(aster_ml_scope_begin(&scope, &handle), ASTER_ML_OK);
  make_thing(*context, &alive);
  aster_ml_context_free(&handle);
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(aster_ml_scope_end(&scope), ASTER_ML_OK);
  EXPECT_EQ(allocator.live(), 0u);
}

TEST_F(ContextTest, EnteredByAnotherThreadAtAForkItAnswersStateInTheChild) {
  std::atomic<int> step{0};
  std::thread inside([&] {
    const aster::ContextLock lock(context);
    step = 1;
    while (step != 2) std::this_thread::yield();
  });
  while (step != 1) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    aster_ml_scope scope{};
    const bool busy = aster_ml_scope_begin(&scope, &handle) == ASTER_ML_STATE;
    aster_ml_context other{};
    const bool free = aster_ml_context_init(&other, nullptr) == ASTER_ML_OK &&
                      aster_ml_scope_begin(&scope, &other) == ASTER_ML_OK;
    _exit(busy && free ? 42 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
  step = 2;
  inside.join();
  aster_ml_scope scope{};
  EXPECT_EQ(aster_ml_scope_begin(&scope, &handle), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_scope_end(&scope), ASTER_ML_OK);
}

TEST_F(ContextTest, ASecondThreadGetsState) {
  aster::ContextLock here(context);
  ASSERT_TRUE(here.status().ok());
  aster::ContextLock again(context);  // nests
  EXPECT_TRUE(again.status().ok());
  std::thread([this] {
    aster_ml_scope scope{};
    EXPECT_EQ(aster_ml_scope_begin(&scope, &handle), ASTER_ML_STATE);
    EXPECT_EQ(scope.impl, nullptr);
  }).join();
  EXPECT_TRUE(context->inside());
}

TEST_F(ContextTest, ForeignFreesWait) {
  Thing* thing = make_thing(*context, &alive);
  {
    aster::ContextLock here(context);
    std::thread([thing] { aster::free_handle(thing); }).join();
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);  // leaving drained
  thing = make_thing(*context, &alive);
  std::thread([thing] { aster::free_handle(thing); }).join();
  EXPECT_EQ(alive, 0);  // nobody was inside
}

TEST_F(ContextTest, ForeignFreeOfAScopedHandleIsNotFreedTwice) {
  aster_ml_scope scope{};
  ASSERT_EQ(aster_ml_scope_begin(&scope, &handle), ASTER_ML_OK);
  Thing* thing = make_thing(*context, &alive);
  {
    aster::ContextLock here(context);
    std::thread([thing] { aster::free_handle(thing); }).join();
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(aster_ml_scope_end(&scope), ASTER_ML_OK);
  }
  EXPECT_EQ(alive, 0);
}

TEST_F(ContextTest, FreesFromManyThreadsWhileWorking) {
  constexpr int kThreads = 4, kEach = 300;
  std::vector<std::vector<Thing*>> things(kThreads);
  for (auto& list : things) {
    for (int i = 0; i < kEach; ++i) list.push_back(make_thing(*context, &alive));
  }
  std::vector<std::thread> threads;
  for (auto& list : things) {
    threads.emplace_back([&list] {
      for (Thing* thing : list) aster::free_handle(thing);
    });
  }
  for (int i = 0; i < 2000; ++i) {
    aster::ContextLock lock(context);
    if (lock.status().ok()) aster::free_handle(make_thing(*context, &alive));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alive, 0);  // nothing is left waiting
}

TEST_F(ContextTest, LastHandleFromAForeignThread) {
  Thing* thing = make_thing(*context, &alive);
  aster_ml_context_free(&handle);
  std::thread([thing] { aster::free_handle(thing); }).join();
  EXPECT_EQ(allocator.live(), 0u);
}

TEST_F(ContextTest, StatesEndInReverse) {
  static std::vector<int> order;
  order.clear();
  context->set_state(aster::Module::kUop, context, [](Context& owner, void* state) {
    EXPECT_EQ(state, &owner);
    EXPECT_TRUE(owner.inside());
    order.push_back(1);
  });
  context->set_state(aster::Module::kBuffer, context, [](Context&, void*) { order.push_back(0); });
  EXPECT_EQ(context->state(aster::Module::kUop), context);
  EXPECT_EQ(context->state(aster::Module::kNn), nullptr);
  aster_ml_context_free(&handle);
  EXPECT_EQ(order, (std::vector<int>{1, 0}));
}

TEST_F(ContextTest, CountsBytes) {
  size_t now = 1, most = 1;
  ASSERT_EQ(aster_ml_context_count_bytes(&now, &most, &handle), ASTER_ML_OK);
  void* p = context->heap().allocate(1000, 8);
  size_t later = 0;
  ASSERT_EQ(aster_ml_context_count_bytes(&later, nullptr, &handle), ASTER_ML_OK);
  EXPECT_EQ(later, now + 1000);
  context->heap().release(p, 1000, 8);
  ASSERT_EQ(aster_ml_context_count_bytes(&now, &most, &handle), ASTER_ML_OK);
  EXPECT_EQ(most, later);
  aster_ml_context empty{};
  EXPECT_EQ(aster_ml_context_count_bytes(&now, &most, &empty), ASTER_ML_ARGUMENT);
  EXPECT_EQ(now, 0u);
}

TEST_F(ContextTest, BadInput) {
  EXPECT_EQ(aster_ml_context_init(nullptr, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_scope_begin(nullptr, &handle), ASTER_ML_ARGUMENT);
  aster_ml_scope scope{};
  aster_ml_context empty{};
  EXPECT_EQ(aster_ml_scope_begin(&scope, &empty), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_scope_begin(&scope, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_scope_end(nullptr), ASTER_ML_OK);
}

int32_t init_with(void (*change)(aster_ml_context_options*)) {
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  change(&options);
  aster_ml_context context{&options};
  const int32_t status = aster_ml_context_init(&context, &options);
  EXPECT_EQ(context.impl != nullptr, status == ASTER_ML_OK);
  aster_ml_context_free(&context);
  return status;
}

TEST(ContextOptions, AreChecked) {
  using Options = aster_ml_context_options;
  EXPECT_EQ(init_with([](Options*) {}), ASTER_ML_OK);
  EXPECT_EQ(init_with([](Options* o) { o->threads = -1; }), ASTER_ML_RANGE);
  EXPECT_EQ(init_with([](Options* o) { o->vector_bytes = 24; }), ASTER_ML_ARGUMENT);
  EXPECT_EQ(init_with([](Options* o) { o->vector_bytes = -16; }), ASTER_ML_ARGUMENT);
  EXPECT_EQ(init_with([](Options* o) { o->vector_bytes = 32; }), ASTER_ML_OK);
  EXPECT_EQ(init_with([](Options* o) { o->log_level = 9; }), ASTER_ML_RANGE);
  EXPECT_EQ(init_with([](Options* o) { o->arena_block_bytes = SIZE_MAX; }), ASTER_ML_RANGE);
  EXPECT_EQ(init_with([](Options* o) { o->struct_size = 0; }), ASTER_ML_ARGUMENT);
  EXPECT_EQ(init_with([](Options* o) { o->struct_size = 8; }), ASTER_ML_OK);  // older
  EXPECT_EQ(init_with([](Options* o) { o->struct_size = 9; }),
            ASTER_ML_ARGUMENT);  // within a field
  EXPECT_EQ(init_with([](Options* o) {
              o->struct_size = offsetof(Options, threads);
              o->threads = -1;
            }),
            ASTER_ML_OK);
}

TEST(ContextOptions, LargerStructsOfALaterVersionAreRead) {
  struct Later {
    aster_ml_context_options options;
    uint64_t more[4];
  } later{};
  later.options.struct_size = sizeof(later);
  later.options.threads = 3;
  aster_ml_context handle;
  ASSERT_EQ(aster_ml_context_init(&handle, &later.options), ASTER_ML_OK);
  const Context* context = aster::context_of(&handle);
  EXPECT_EQ(context->options().threads, 3);
  EXPECT_EQ(context->options().struct_size, sizeof(aster_ml_context_options));
  aster_ml_context_free(&handle);
}

TEST(ContextOptions, TextsAreCopied) {
  std::string dir = "/tmp/one", cc = "gcc";
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.cache_dir = dir.c_str();
  options.compiler = cc.c_str();
  aster_ml_context handle;
  ASSERT_EQ(aster_ml_context_init(&handle, &options), ASTER_ML_OK);
  dir = "/tmp/two";
  cc = "xxx";
  const Context* context = aster::context_of(&handle);
  EXPECT_STREQ(context->options().cache_dir, "/tmp/one");
  EXPECT_STREQ(context->options().compiler, "gcc");
  EXPECT_GE(context->options().threads, 1);
  EXPECT_EQ(context->options().log_level, ASTER_ML_LOG_WARNING);
  aster_ml_context_free(&handle);
}

TEST(ContextOptions, EveryAllocationMayFail) {
  int64_t n = 0;
  for (int32_t status = ASTER_ML_MEMORY; status == ASTER_ML_MEMORY; ++n) {
    CountingAllocator allocator;
    allocator.fail_at(n);
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    options.allocator = &allocator.table;
    options.cache_dir = "/tmp/x";
    options.compiler = "none";
    aster_ml_context handle;
    aster_ml_scope scope{};
    status = aster_ml_context_init(&handle, &options);
    if (status == ASTER_ML_OK) status = aster_ml_scope_begin(&scope, &handle);
    EXPECT_EQ(aster_ml_scope_end(&scope), ASTER_ML_OK);
    aster_ml_context_free(&handle);
    EXPECT_EQ(allocator.live(), 0u);
    EXPECT_TRUE(allocator.sound());
    ASSERT_LT(n, 20);
  }
  EXPECT_GE(n, 4);  // context, two texts, scope
}

TEST(ContextLog, GoesToTheCallbackUpToItsLevel) {
  std::vector<std::string> lines;
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.log_self = &lines;
  options.log_level = ASTER_ML_LOG_INFO;
  options.log = [](void* self, int32_t level, const char* message) {
    static_cast<std::vector<std::string>*>(self)->push_back(std::to_string(level) + message);
  };
  aster_ml_context handle;
  ASSERT_EQ(aster_ml_context_init(&handle, &options), ASTER_ML_OK);
  const Context* context = aster::context_of(&handle);
  context->log(ASTER_ML_LOG_ERROR, "a%d", 1);
  context->log(ASTER_ML_LOG_INFO, "b");
  context->log(ASTER_ML_LOG_DEBUG, "c");
  EXPECT_EQ(lines, (std::vector<std::string>{"1a1", "3b"}));
  aster_ml_context_free(&handle);
}

}  // namespace
