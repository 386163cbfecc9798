// Every public function with chosen arguments: null, empty, freed and foreign handles, huge and
// negative numbers, NaN, dtypes and shapes of all kinds; interpreted, and compiled beside it. Calls
// succeed or fail with an error of their own, alike in both, and nothing else happens: what goes
// wrong in memory or arithmetic is for the sanitizers (preset debug) to see.
//
// ASTER_ML_FUZZ_SEED and ASTER_ML_FUZZ_API_CASES choose which and how many; ASTER_ML_FUZZ_VERBOSE
// names every call.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "call.h"
#include "fuzz/number.h"

namespace api_fuzz {
namespace {

using aster::fuzz::number;
using programs::Function;

constexpr size_t kCallsOfACase = 40;
constexpr size_t kCompiledEvery = 8;    // cases
constexpr unsigned kMostSeconds = 120;  // for one call, sanitizers and all

class Folder {
 public:
  Folder() { EXPECT_NE(mkdtemp(name_), nullptr); }
  ~Folder() { std::filesystem::remove_all(name_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path() const { return name_; }

 private:
  char name_[32] = "/tmp/aster_ml_fuzz.XXXXXX";
};

const std::vector<const Function*>& called() {
  static const std::vector<const Function*> all = [] {
    std::vector<const Function*> out;
    for (const Function& function : programs::functions()) {
      if (is_called(function)) out.push_back(&function);
    }
    return out;
  }();
  return all;
}

// What is being called, for whoever finds the process stuck.
const char* g_current = "";
void stuck(int) {
  (void)!write(2, "still in ", 9);
  (void)!write(2, g_current, std::strlen(g_current));
  (void)!write(2, "\n", 1);
  std::abort();
}

// Accessors whose int32_t is a value.
bool is_value(const std::string& name) {
  for (const char* part : {"_is_", "_lazy_dtype", "_uop_dtype", "device_type", "device_index",
                           "onnx_has_operator", "onnx_value_kind", "onnx_value_element"}) {
    if (name.find(part) != name.npos) return true;
  }
  return false;
}

// A failure has its message; statuses are codes; a failed call gives no tensor.
void check(const Function& function, const Outcome& outcome) {
  if (!function.status() || outcome.status == 0 || is_value(function.name)) return;
  EXPECT_TRUE(outcome.status > 0 && outcome.status <= ASTER_ML_INTERNAL) << function.name;
  EXPECT_NE(outcome.message, ": ") << function.name << " failed without a message";
  EXPECT_NE(outcome.status, ASTER_ML_INTERNAL) << function.name << ": " << outcome.message;
  for (const std::string& made : outcome.made) ADD_FAILURE() << function.name << ": " << made;
}

// Computes some of what was made.
int32_t realize_some(World& world, Chooser& choose) {
  std::vector<aster_ml_lazy*> some;
  for (Held& held : world.tensors) {
    const int64_t count = aster_ml_lazy_count(&held.handle);
    const bool there = aster_ml_lazy_dtype(&held.handle) != 0;
    if (there && !held.costly && count <= 4096 && choose.one_in(2)) some.push_back(&held.handle);
  }
  return aster_ml_lazy_realize(some.data(), some.size());
}

void run_case(uint64_t seed, bool compiled, const std::string& folder) {
  const bool verbose = std::getenv("ASTER_ML_FUZZ_VERBOSE") != nullptr;
  // What the thread has open is no case's: both worlds would meet it.
  while (aster_ml_trace_scope_end() == ASTER_ML_OK || aster_ml_arena_end() == ASTER_ML_OK) {
  }
  std::array<std::unique_ptr<World>, 2> worlds;
  for (size_t w = 0; w < (compiled ? 2 : 1); ++w) {
    const std::string own = folder + "/" + std::to_string(seed) + "-" + std::to_string(w);
    std::filesystem::create_directories(own);
    worlds[w] = std::make_unique<World>(w == 1, own);
  }
  Chooser functions(seed);
  for (size_t i = 0; i < kCallsOfACase; ++i) {
    const Function& function = *called()[functions.below(called().size())];
    const uint64_t call_seed = functions.word();
    std::array<Outcome, 2> outcomes;
    for (size_t w = 0; w < 2 && worlds[w] != nullptr; ++w) {
      if (verbose) {
        std::fprintf(stderr, "%llu %zu %s\n", static_cast<unsigned long long>(seed), i,
                     function.name.c_str());
      }
      g_current = function.name.c_str();
      alarm(kMostSeconds);
      Chooser choose(call_seed);
      outcomes[w] = Call(*worlds[w], function, choose).run();
      check(function, outcomes[w]);
      worlds[w]->renew();
      if (i % 8 == 7) {
        g_current = "realize";
        const int32_t status = realize_some(*worlds[w], choose);
        outcomes[w].made.push_back("realize: " + std::to_string(status));
        EXPECT_NE(status, ASTER_ML_INTERNAL);
      }
      alarm(0);
    }
    if (worlds[1] == nullptr) continue;
    // The interpreter makes what fusion never does, and may lack the memory for it.
    const std::string too_large = "realize: " + std::to_string(ASTER_ML_MEMORY);
    if (outcomes[0].status == ASTER_ML_MEMORY ||
        std::ranges::count(outcomes[0].made, too_large) != 0)
      continue;
    EXPECT_EQ(outcomes[0].status, outcomes[1].status)
        << function.name << ": " << outcomes[0].message << " | " << outcomes[1].message;
    EXPECT_EQ(outcomes[0].made, outcomes[1].made) << function.name;
  }
}

TEST(ApiFuzz, CallsSucceedOrFailAndNothingElse) {
  const uint64_t seed = number("ASTER_ML_FUZZ_SEED", 1);
  const uint64_t cases = number("ASTER_ML_FUZZ_API_CASES", 60);
  const Folder folder;
  signal(SIGALRM, stuck);
  for (uint64_t i = 0; i < cases && !HasFailure(); ++i) {
    SCOPED_TRACE("ASTER_ML_FUZZ_SEED=" + std::to_string(seed + i) + " ASTER_ML_FUZZ_API_CASES=1");
    run_case(seed + i, (seed + i) % kCompiledEvery == 0, folder.path());
  }
  EXPECT_GT(called().size(), 300u);
}

}  // namespace
}  // namespace api_fuzz
