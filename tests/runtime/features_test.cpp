#include "runtime/cpu/features.h"

#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "runtime/support.h"

namespace aster::runtime::cpu {
namespace {

std::set<std::string> words_of_cpuinfo() {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> out;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) out.insert(word);
    break;
  }
  return out;
}

std::string text_of(const CpuFeatures& features) {
  Text text(process_heap());
  write_features(text, features);
  return std::string(text.view());
}

std::vector<std::string> flags_of(const CpuFeatures& features) {
  std::vector<std::string> out;
  each_feature_flag(
      features,
      [](void* self, const char* flag) {
        static_cast<std::vector<std::string>*>(self)->push_back(flag);
      },
      &out);
  return out;
}

// The kernel's own reading of the CPU is the oracle.
TEST(Features, AgreeWithTheSystem) {
  const std::set<std::string> words = words_of_cpuinfo();
  if (words.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  const CpuFeatures found = detect_features();
#define FEATURE(name, flag, leaf, subleaf, reg, bit, bytes) \
  EXPECT_EQ(found.name, found.vector_bytes >= bytes && words.count(#name) == 1) << #name;
#include "runtime/cpu/features.def"
#undef FEATURE
  const bool wide = words.count("avx512f") && words.count("avx512dq") && words.count("avx512bw") &&
                    words.count("avx512vl") && words.count("avx512cd");
  const bool middle = words.count("avx2") && words.count("fma") && words.count("f16c");
  EXPECT_EQ(found.vector_bytes, wide ? 64 : middle ? 32 : 16);
}

TEST(Features, NarrowingTakesAwayWhatIsBeyondTheWidth) {
  CpuFeatures all;
#define FEATURE(name, ...) all.name = true;
#include "runtime/cpu/features.def"
#undef FEATURE
  all.vector_bytes = 64;
  EXPECT_EQ(narrowed(all, 0), all);
  EXPECT_EQ(narrowed(all, 64), all);
  const CpuFeatures middle = narrowed(all, 32);
  EXPECT_TRUE(middle.avx2 && middle.fma && middle.f16c);
  EXPECT_FALSE(middle.avx512f || middle.avx512vl || middle.avx512_fp16);
  EXPECT_EQ(middle.vector_bytes, 32);
  const CpuFeatures narrow = narrowed(all, 16);
  EXPECT_EQ(narrow, CpuFeatures());
  EXPECT_EQ(narrowed(narrow, 64), narrow) << "nothing is added";
  EXPECT_TRUE(flags_of(narrow).empty());
  EXPECT_EQ(text_of(narrow), "x86_64 v16");
  std::set<std::string> texts = {text_of(all), text_of(middle), text_of(narrow)};
  EXPECT_EQ(texts.size(), 3u);
}

TEST(Features, FlagsNameFeaturesAndNeverTheMachine) {
  for (const std::string& flag : flags_of(detect_features())) {
    EXPECT_EQ(flag.rfind("-m", 0), 0u) << flag;
    EXPECT_EQ(flag.find("native"), std::string::npos);
    EXPECT_EQ(flag.find("-march"), std::string::npos);
  }
}

TEST(Features, CacheSizesAgreeWithTheSystem) {
  const CacheSizes sizes = detect_caches();
  const long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (l1 > 0 && sizes.l1 != 0) {
    EXPECT_EQ(sizes.l1, static_cast<size_t>(l1));
  }
  if (l2 > 0 && sizes.l2 != 0) {
    EXPECT_EQ(sizes.l2, static_cast<size_t>(l2));
  }
  EXPECT_GE(sizes.last, sizes.l2);
}

}  // namespace
}  // namespace aster::runtime::cpu
