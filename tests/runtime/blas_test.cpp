#include "runtime/cpu/blas.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string_view>
#include <thread>

#include "runtime/cpu/blas_core.h"
#include "runtime/cpu/lapack.h"
#include "runtime/support.h"
#include "sanitizers.h"

namespace aster::runtime::cpu {
namespace {

int count_tasks() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

// Small whole numbers: every order of summation gives the same exact result.
template <typename T>
void check_gemm(T scale, std::atomic<int>* wrong) {
  constexpr int kM = 37;
  constexpr int kN = 29;
  constexpr int kK = 41;
  const T two = 2, three = 3;
  std::vector<T> a(kM * kK), b(kK * kN), c(kM * kN, 1);  // column by column
  for (size_t i = 0; i < a.size(); ++i) a[i] = scale * static_cast<T>(static_cast<int>(i % 7) - 3);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(static_cast<int>(i % 5) - 2);
  {
    const BlasCall call;
    lapack<T>()->gemm("N", "N", &kM, &kN, &kK, &two, a.data(), &kM, b.data(), &kK, &three, c.data(),
                      &kM, 1, 1);
  }
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      T want = 0;
      for (int k = 0; k < kK; ++k)
        want += a[static_cast<size_t>(k * kM + i)] * b[static_cast<size_t>(j * kK + k)];
      if (c[static_cast<size_t>(j * kM + i)] != 2 * want + 3) ++*wrong;
    }
  }
}

// A machine without a library says so: ASTER_ML_BLAS=none.
bool none_wanted() {
  const char* choice = getenv("ASTER_ML_BLAS");
  return choice != nullptr && std::string_view(choice) == "none";
}
constexpr char kMissing[] =
    "no OpenBLAS here: install libopenblas0-pthread, or set ASTER_ML_BLAS=none";

TEST(BlasTest, ComputesAndMakesNoThreads) {
  if (none_wanted()) GTEST_SKIP() << "ASTER_ML_BLAS=none";
  [[maybe_unused]] const int tasks = count_tasks();
  const Blas& found = blas();
  EXPECT_EQ(&found, &blas());
  ASSERT_TRUE(found.available) << kMissing;
  EXPECT_NE(found.path[0], '\0');
  std::atomic<int> wrong = 0;
  check_gemm<float>(1, &wrong);
  check_gemm<double>(1, &wrong);
  EXPECT_EQ(wrong, 0);
#if !defined(ASTER_TEST_TSAN)  // which makes a thread of its own
  EXPECT_EQ(count_tasks(), tasks);
#endif
}

TEST(BlasTest, CallsFromManyThreadsDoNotDisturbEachOther) {
  if (none_wanted()) GTEST_SKIP() << "ASTER_ML_BLAS=none";
  ASSERT_TRUE(blas().available) << kMissing;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 500; ++i) check_gemm<float>(static_cast<float>(t + 1), &wrong);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// The loaded library itself tells which build it is; only the serial one has to be waited for.
TEST(BlasTest, OnlyTheSerialBuildIsLocked) {
  if (none_wanted()) GTEST_SKIP() << "ASTER_ML_BLAS=none";
  const Blas& found = blas();
  ASSERT_TRUE(found.available) << kMissing;
  const bool serial = std::string_view(found.config).find("SINGLE_THREADED") != std::string::npos;
  EXPECT_EQ(found.parallel_calls, !serial) << found.path << ": " << found.config;
}

TEST(BlasTest, KernelsAreForWhatTheCpuCanDo) {
  if (none_wanted()) GTEST_SKIP() << "ASTER_ML_BLAS=none";
  const Blas& found = blas();
  ASSERT_TRUE(found.available) << kMissing;
  if (getenv("OPENBLAS_CORETYPE") != nullptr) GTEST_SKIP() << "OPENBLAS_CORETYPE is set";
  EXPECT_GE(core_vector_bytes(found.core), detect_features().vector_bytes) << found.core;
}

// Loading happens once a process, so each choice is tried in a child.
int available_in_child(const char* choice) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("ASTER_ML_BLAS", choice, 1);
    _exit(blas().available ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

// Runs before the others load anything (test suites run in order of definition; this one is a
// death-test by name).
TEST(BlasChoiceDeathTest, NoneAndMissingFilesAndOtherLibraries) {
  EXPECT_EQ(available_in_child("none"), 0);
  EXPECT_EQ(available_in_child("/nonexistent/libblas.so"), 0);
  EXPECT_EQ(available_in_child("libm.so.6"), 0) << "a library without LAPACK";
}

}  // namespace aster::runtime::cpu
