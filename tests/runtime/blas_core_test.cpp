#include "runtime/cpu/blas_core.h"

#include <dlfcn.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/cpu/lapack.h"
#include "runtime/support.h"

namespace aster::runtime::cpu {
namespace {

using testing::WithVariable;

TEST(BlasCore, WidthsOfCoresAndCoresOfCpus) {
  EXPECT_EQ(core_vector_bytes("Prescott"), 16);
  EXPECT_EQ(core_vector_bytes("Sandybridge"), 16);
  EXPECT_EQ(core_vector_bytes("Zen"), 32);
  EXPECT_EQ(core_vector_bytes("SkylakeX"), 64);
  EXPECT_EQ(core_vector_bytes("SomethingOf2040"), 64);

  CpuFeatures features;
  EXPECT_EQ(core_for(features), nullptr);
  features.vector_bytes = 32;
  EXPECT_STREQ(core_for(features), "Haswell");
  features.vector_bytes = 64;
  EXPECT_STREQ(core_for(features), "SkylakeX");
  features.avx512_bf16 = true;
  EXPECT_STREQ(core_for(features), "Cooperlake");
}

struct Library {
  void* handle = nullptr;
  std::string before;
  Library() {
    if (blas().available) handle = dlopen(blas().path, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr && dlsym(handle, "gotoblas_dynamic_init") == nullptr) handle = nullptr;
    if (handle != nullptr) before = core();
  }
  ~Library() {
    if (handle != nullptr) force_core(handle, before.c_str());
  }
  std::string core() const {
    return reinterpret_cast<const char* (*)()>(dlsym(handle, "openblas_get_corename"))();
  }
  double product() const {
    const std::vector<double> a(64 * 64, 2), b(64 * 64, 3);
    std::vector<double> c(64 * 64, 0);
    const int n = 64;
    const double one = 1, zero = 0;
    const BlasCall call;
    lapack<double>()->gemm("N", "N", &n, &n, &n, &one, a.data(), &n, b.data(), &n, &zero, c.data(),
                           &n, 1, 1);
    return c[64 * 63 + 63];
  }
};
// Of a library made for one CPU there is nothing to choose.
#define NEEDS_A_CHOICE(library) \
  if ((library).handle == nullptr) GTEST_SKIP() << "no OpenBLAS of several CPUs here"

TEST(BlasCore, TheLibraryChoosesAnew) {
  Library library;
  NEEDS_A_CHOICE(library);
  const CpuFeatures features = detect_features();
  ASSERT_TRUE(force_core(library.handle, "Prescott"));
  EXPECT_EQ(library.core(), "Prescott");
  EXPECT_EQ(library.product(), 384);
  EXPECT_EQ(choose_core(library.handle, features), features.vector_bytes > 16);
  EXPECT_GE(core_vector_bytes(library.core().c_str()), features.vector_bytes);
  EXPECT_EQ(library.product(), 384);
  EXPECT_FALSE(choose_core(library.handle, features)) << "it is right already";
}

// A host's thread may change the environment while the library chooses.
TEST(BlasCore, NoVariableIsLostOrSeen) {
  Library library;
  NEEDS_A_CHOICE(library);
  constexpr int kVariables = 300;
  WithVariable changed("ASTER_TEST_CHANGED", "0"), unset("OPENBLAS_CORETYPE", nullptr);
  std::atomic<bool> done = false;
  std::atomic<int> seen = 0, set = 0;
  std::thread host([&] {
    for (int i = 0; !done || i < kVariables; ++i) {
      if (i < kVariables) setenv(("ASTER_TEST_" + std::to_string(i)).c_str(), "kept", 1);
      setenv("ASTER_TEST_CHANGED", std::to_string(i).c_str(), 1);
      if (std::string_view(getenv("ASTER_TEST_CHANGED")) == std::to_string(i)) ++set;
      if (getenv("OPENBLAS_CORETYPE") != nullptr) ++seen;
    }
  });
  for (int i = 0; i < 100 || set < kVariables; ++i) {
    EXPECT_TRUE(force_core(library.handle, i % 2 == 0 ? "Prescott" : "Nehalem"));
  }
  done = true;
  host.join();
  EXPECT_EQ(seen, 0);
  EXPECT_GE(set, kVariables);
  for (int i = 0; i < kVariables; ++i) {
    const std::string name = "ASTER_TEST_" + std::to_string(i);
    const char* value = getenv(name.c_str());
    EXPECT_TRUE(value != nullptr && std::string_view(value) == "kept") << name;
    unsetenv(name.c_str());
  }
}

TEST(BlasCore, OtherLibrariesAreLeftAlone) {
  void* other = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(other, nullptr);
  EXPECT_FALSE(choose_core(other, detect_features()));
  EXPECT_FALSE(force_core(other, "Haswell"));
  dlclose(other);
}

}  // namespace
}  // namespace aster::runtime::cpu
