// Kernels that are compiled beside the threads that run them.
#include "runtime/cpu/later_unit.h"

#include <thread>

#include "runtime/state.h"
#include "runtime/support.h"

namespace aster::runtime::cpu {
namespace {

using testing::code;
using testing::last_error;
using testing::TemporaryFolder;
using testing::TestContext;
using Kernel = int64_t (*)(int64_t);

class LaterUnitTest : public ::testing::Test {
 protected:
  aster_ml_context_options options() {
    aster_ml_context_options out = {};
    out.cache_dir = folder_.path().c_str();
    out.log = [](void* self, int32_t, const char* line) {
      static_cast<std::string*>(self)->append(line).append("\n");
    };
    out.log_self = &said_;
    out.log_level = ASTER_ML_LOG_WARNING;
    return out;
  }
  static KernelLibrary& library(TestContext& context) {
    KernelLibrary* out = nullptr;
    EXPECT_TRUE(kernel_library(*context, &out).ok());
    return *out;
  }
  // Kernels k0 .. that give x times their number and one; bad: that one is no C.
  struct Asked {
    std::vector<std::string> names, texts;
    std::vector<void*> functions;
    std::vector<const LaterCode*> later;
    KernelSet* set = nullptr;
    CompileStats stats;
  };
  static Status ask(KernelLibrary& library, Asked* out, size_t count, bool may_wait,
                    size_t bad = SIZE_MAX) {
    std::vector<KernelSource> sources;
    for (size_t i = 0; i < count; ++i) {
      const std::string number = std::to_string(i);
      out->names.push_back("k" + number);
      out->texts.push_back("long k" + number + "(long x) { return x * " + number + " + 1; }\n");
      if (i == bad) out->texts.back() = "long k" + number + "(long x) { return y; }\n";
    }
    for (size_t i = 0; i < count; ++i) {
      sources.push_back({out->names[i], out->texts[i]});
      sources.back().later = may_wait;
    }
    out->functions.assign(count, nullptr);
    out->later.assign(count, nullptr);
    return library.load("", sources, out->functions, &out->set, &out->stats, false, nullptr,
                        out->later);
  }
  TemporaryFolder folder_;
  std::string said_;
};

TEST_F(LaterUnitTest, ThreadsSeeKernelsAsSoonAsTheyAreThere) {
  TestContext context(options());
  KernelLibrary& kernels = library(context);
  Asked asked;
  ASSERT_TRUE(ask(kernels, &asked, 9, true).ok()) << last_error();
  EXPECT_EQ(asked.stats.compiled, 9);
  EXPECT_GT(kernels.being_compiled(), 0u);
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < 9; ++i) {
        ASSERT_NE(asked.later[i], nullptr);
        void* function = nullptr;
        while ((function = asked.later[i]->load(std::memory_order_acquire)) == nullptr) {
        }
        bad += reinterpret_cast<Kernel>(function)(5) != static_cast<int64_t>(5 * i + 1);
      }
    });
  }
  // Meanwhile who must have them waits, and gets the same.
  Asked now;
  ASSERT_TRUE(ask(kernels, &now, 9, false).ok()) << last_error();
  EXPECT_EQ(now.stats.reused, 9);
  EXPECT_EQ(kernels.being_compiled(), 0u);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  for (size_t i = 0; i < 9; ++i)
    EXPECT_EQ(now.functions[i], asked.later[i]->load(std::memory_order_acquire));
  asked.set->release();
  now.set->release();
  // On disk they are for the next context.
  TestContext next(options());
  Asked found;
  ASSERT_TRUE(ask(library(next), &found, 9, true).ok()) << last_error();
  EXPECT_EQ(found.stats.cached, 9);
  EXPECT_EQ(std::count(found.later.begin(), found.later.end(), nullptr), 9);
  found.set->release();
}

TEST_F(LaterUnitTest, OneThatFailsLeavesTheOthers) {
  TestContext context(options());
  KernelLibrary& kernels = library(context);
  Asked asked;
  ASSERT_TRUE(ask(kernels, &asked, 6, true, 2).ok()) << last_error();
  for (const LaterCode* one : asked.later) ASSERT_TRUE(kernels.finish(one).ok());
  ASSERT_TRUE(kernels.collect().ok());
  EXPECT_NE(said_.find("go on so"), std::string::npos) << said_;
  for (size_t i = 0; i < 6; ++i) {
    void* const function = asked.later[i]->load();
    EXPECT_EQ(function == nullptr, i == 2) << i;
    if (function == nullptr) continue;
    EXPECT_EQ(reinterpret_cast<Kernel>(function)(7), static_cast<int64_t>(7 * i + 1));
  }
  // Whoever must have it hears why not.
  Asked now;
  EXPECT_EQ(ask(kernels, &now, 6, false, 2).code, code(Code::kCOMPILE));
  EXPECT_NE(last_error().find("y"), std::string::npos) << last_error();
  asked.set->release();
}

TEST_F(LaterUnitTest, EndsWithItsContextAtAnyMoment) {
  for (int i = 0; i < 6; ++i) {
    aster_ml_context_options with = options();
    with.no_disk_cache = 1;
    TestContext context(with);
    Asked asked;
    ASSERT_TRUE(ask(library(context), &asked, 4, true).ok()) << last_error();
    std::this_thread::sleep_for(std::chrono::milliseconds(12 * i));
    asked.set->release();
  }
}

}  // namespace
}  // namespace aster::runtime::cpu
