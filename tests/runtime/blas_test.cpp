#include "runtime/cpu/blas.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "runtime/support.h"

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
void check_gemm(BlasGemm<T> gemm, T scale, std::atomic<int>* wrong) {
  constexpr int kM = 37;
  constexpr int kN = 29;
  constexpr int kK = 41;
  std::vector<T> a(kM * kK), b(kK * kN), c(kM * kN, 1);
  for (size_t i = 0; i < a.size(); ++i) a[i] = scale * static_cast<T>(static_cast<int>(i % 7) - 3);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(static_cast<int>(i % 5) - 2);
  gemm(kRowMajor, kNoTranspose, kNoTranspose, kM, kN, kK, T(2), a.data(), kK, b.data(), kN, T(3),
       c.data(), kN);
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      T want = 0;
      for (int k = 0; k < kK; ++k)
        want += a[static_cast<size_t>(i * kK + k)] * b[static_cast<size_t>(k * kN + j)];
      if (c[static_cast<size_t>(i * kN + j)] != 2 * want + 3) ++*wrong;
    }
  }
}

template <typename T>
void check_gemv(BlasGemv<T> gemv) {
  const T a[6] = {1, 2, 3, 4, 5, 6};  // 2 x 3
  const T x[2] = {10, 100};
  T y[3] = {1, 1, 1};
  gemv(kRowMajor, kTranspose, 2, 3, T(1), a, 3, x, 1, T(1), y, 1);
  EXPECT_EQ(y[0], 411);
  EXPECT_EQ(y[1], 521);
  EXPECT_EQ(y[2], 631);
}

class BlasTest : public ::testing::TestWithParam<bool> {};

TEST_P(BlasTest, ComputesAndMakesNoThreads) {
  [[maybe_unused]] const int tasks = count_tasks();
  const Blas& found = blas(GetParam());
  EXPECT_EQ(&found, &blas(GetParam()));
  if (!found.available) GTEST_SKIP() << "no OpenBLAS here";
  EXPECT_NE(found.path[0], '\0');
  std::atomic<int> wrong = 0;
  check_gemm<float>(found.sgemm, 1, &wrong);
  check_gemm<double>(found.dgemm, 1, &wrong);
  EXPECT_EQ(wrong, 0);
  check_gemv<float>(found.sgemv);
  check_gemv<double>(found.dgemv);
#if !defined(__SANITIZE_THREAD__)  // which makes a thread of its own
  EXPECT_EQ(count_tasks(), tasks);
#endif
  const bool threaded_build =
      access("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0", R_OK) == 0;
  if (GetParam() && threaded_build) {
    EXPECT_TRUE(found.parallel_calls) << found.path << found.config;
  }
}

TEST_P(BlasTest, CallsFromManyThreadsDoNotDisturbEachOther) {
  const Blas& found = blas(GetParam());
  if (!found.available) GTEST_SKIP() << "no OpenBLAS here";
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&found, &wrong, t] {
      for (int i = 0; i < 500; ++i)
        check_gemm<float>(found.sgemm, static_cast<float>(t + 1), &wrong);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(SerialAndThreaded, BlasTest, ::testing::Bool());

// Loading happens once a process, so each choice is tried in a child.
int available_in_child(const char* choice) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("ASTER_ML_BLAS", choice, 1);
    _exit(blas(false).available ? 1 : 0);
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
  EXPECT_EQ(available_in_child("libm.so.6"), 0) << "a library without CBLAS";
}

}  // namespace aster::runtime::cpu
