#include "runtime/cpu/elf_loader.h"

#include <elf.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "runtime/cpu/compiler.h"
#include "runtime/support.h"

namespace aster::runtime::cpu {
namespace {

using testing::code;
using testing::last_error;

using Bytes = std::vector<uint8_t>;

constexpr int kFormat = static_cast<int32_t>(Code::kFORMAT);
constexpr int kUnsupported = static_cast<int32_t>(Code::kUNSUPPORTED);

// Constants, writable data, zeroed data, calls inside and outside, addresses in data, wide
// alignment.
constexpr const char* kSource = R"(
typedef float v __attribute__((vector_size(64)));
static const v table = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const int squares[5] = {0, 1, 4, 9, 16};
int counter = 100;
static char zeroed[5000];
static int twice(int x) { return x * 2; }
int plus_one(int x) { return x + 1; }
static int (*const calls[2])(int) = {twice, plus_one};
void *memcpy(void *, const void *, unsigned long);
int square(int i) { return squares[i]; }
int count(void) { return ++counter; }
int indirect(int which, int x) { return calls[which & 1](x); }
int zero_sum(void) {
  int s = 0;
  for (int i = 0; i < 5000; ++i) s += zeroed[i];
  zeroed[0] = 1;
  return s;
}
void copy(char *to, const char *from, unsigned long n) { memcpy(to, from, n); }
float lane(int i) { return table[i & 15]; }
double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
)";

Bytes compiled(const char* compiler_name, std::string_view source) {
  CompilerInfo compiler;
  Vec<uint8_t> object(process_heap());
  if (!find_compiler(&compiler, compiler_name, {}, process_heap()).ok()) return {};
  EXPECT_TRUE(compile(compiler, {}, {&source, 1}, {&object, 1}, process_heap()).ok())
      << last_error();
  return Bytes(object.begin(), object.end());
}

template <typename Function>
Function* get(const Image& image, const char* name) {
  return reinterpret_cast<Function*>(image.find(name));
}

void check_functions(const Image& image) {
  ASSERT_NE(image.find("square"), nullptr);
  EXPECT_EQ(get<int(int)>(image, "square")(3), 9);
  EXPECT_EQ(get<int()>(image, "count")(), 101);
  EXPECT_EQ(get<int()>(image, "count")(), 102);
  EXPECT_EQ(get<int(int, int)>(image, "indirect")(0, 21), 42);
  EXPECT_EQ(get<int(int, int)>(image, "indirect")(1, 21), 22);
  EXPECT_EQ(get<int()>(image, "zero_sum")(), 0);
  EXPECT_EQ(get<int()>(image, "zero_sum")(), 1);
  EXPECT_EQ(get<float(int)>(image, "lane")(5), 6.0f);
  EXPECT_EQ(get<double(double, double, double)>(image, "fused")(2, 3, 4), 10.0);
  std::string from(300, 'q');
  std::string to(300, ' ');
  get<void(char*, const char*, unsigned long)>(image, "copy")(to.data(), from.data(), 300);
  EXPECT_EQ(to, from);
  EXPECT_EQ(image.find("twice"), nullptr) << "static";
  EXPECT_EQ(image.find("nothing"), nullptr);
  EXPECT_EQ(image.find(""), nullptr);
}

int count_mappings(const char* kind) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find(kind) != std::string::npos ? 1 : 0;
  return count;
}

class ElfLoaderTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    object_ = compiled(GetParam(), kSource);
    if (object_.empty()) GTEST_SKIP() << "no " << GetParam();
  }
  Bytes object_;
};

TEST_P(ElfLoaderTest, LoadsRunsAndUnloads) {
  const int mappings = count_mappings("r-xp");
  {
    Image image(process_heap());
    ASSERT_TRUE(image.load(object_).ok()) << last_error();
    EXPECT_GT(image.bytes(), 0u);
    EXPECT_EQ(image.find("counter"), nullptr) << "not a function";
    check_functions(image);
    EXPECT_EQ(count_mappings("rwx"), 0) << "never writable and executable";
    Image moved(std::move(image));
    EXPECT_EQ(get<int()>(moved, "count")(), 103);
    EXPECT_EQ(image.find("count"), nullptr);
    Image second(process_heap());  // has data of its own
    ASSERT_TRUE(second.load(object_).ok());
    check_functions(second);
    ASSERT_TRUE(second.load(object_).ok()) << "anew";
    check_functions(second);
  }
  EXPECT_EQ(count_mappings("r-xp"), mappings);
}

// Whatever is wrong with the bytes, loading ends with a status; the sanitizers watch.
TEST_P(ElfLoaderTest, TruncatedAnywhere) {
  for (size_t size = 0; size < object_.size(); ++size) {
    Bytes part(object_.begin(), object_.begin() + static_cast<ptrdiff_t>(size));
    part.shrink_to_fit();
    Image image(process_heap());
    const Status status = image.load(part);
    // Behind the section headers nothing is missed; before their end all is.
    if (!status.ok()) {
      EXPECT_EQ(status.code, kFormat) << size;
    }
    if (size < sizeof(Elf64_Ehdr)) {
      EXPECT_FALSE(status.ok());
    }
  }
}

TEST_P(ElfLoaderTest, FlippedBytes) {
  for (size_t i = 0; i < object_.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      Bytes bad = object_;
      bad[i] = static_cast<uint8_t>(bad[i] ^ flip);
      Image image(process_heap());
      const Status status = image.load(bad);
      if (!status.ok()) {
        EXPECT_TRUE(status.code == kFormat || status.code == kUnsupported) << last_error();
      }
    }
  }
}

TEST_P(ElfLoaderTest, RandomFieldsOfExtremeValues) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const uint64_t extremes[] = {
      0, 1, ~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 32, 0xffffffff, 0x7fffffff, 0x1000};
  for (int round = 0; round < 4000; ++round) {
    Bytes bad = object_;
    for (uint64_t n = 1 + random() % 3; n != 0; --n) {
      // Half of the hits go to the section headers at the end, half anywhere; fields are of 8 or 4
      // bytes.
      const size_t width = random() % 2 ? 8 : 4;
      const size_t from = random() % 2 ? bad.size() - std::min<size_t>(bad.size(), 64 * 24) : 0;
      const size_t at = (from + random() % (bad.size() - from - width)) / width * width;
      const uint64_t value =
          random() % 4 ? extremes[random() % std::size(extremes)] : random() % (2 * bad.size());
      memcpy(bad.data() + at, &value, width);
    }
    Image image(process_heap());
    const Status status = image.load(bad);
    if (!status.ok()) {
      EXPECT_TRUE(status.code == kFormat || status.code == kUnsupported) << last_error();
    }
  }
}

TEST_P(ElfLoaderTest, RefusesWhatAKernelHasNoUseFor) {
  const struct {
    const char* source;
    const char* reason;
  } cases[] = {
      {"int system(const char *); int f(void) { return system(\"true\"); }", "refers to 'system'"},
      {"extern int errors; int f(void) { return errors; }", "refers to 'errors'"},
      {"static __thread int x; int *f(void) { return &x; }", "object file"},
      {"volatile int x; __attribute__((constructor)) static void f(void) { x = 1; }", "kind"},
      {"static int a(void) { return 1; } static void *r(void) { return a; } int f(void) "
       "__attribute__((ifunc(\"r\")));",
       "object file"},
  };
  for (const auto& example : cases) {
    const Bytes object = compiled(GetParam(), example.source);
    Image image(process_heap());
    EXPECT_EQ(image.load(object).code, kFormat) << example.source;
    EXPECT_NE(last_error().find(example.reason), std::string::npos) << last_error();
    EXPECT_EQ(image.find("f"), nullptr);
  }
}

TEST_P(ElfLoaderTest, OtherMachinesAreUnsupported) {
  Bytes other = object_;
  const uint16_t arm = EM_AARCH64;
  memcpy(other.data() + offsetof(Elf64_Ehdr, e_machine), &arm, sizeof(arm));
  Image image(process_heap());
  EXPECT_EQ(image.load(other).code, kUnsupported);
}

TEST_P(ElfLoaderTest, EveryAllocationMayFail) {
  for (int64_t n = 0;; ++n) {
    testing::FailingHeap failing(n);
    Image image(failing);
    const Status status = image.load(object_);
    if (!failing.failed()) {
      EXPECT_TRUE(status.ok());
      break;
    }
    EXPECT_EQ(status.code, code(Code::kMEMORY)) << n;
  }
}

// Hosts that forbid to make memory executable load shared objects through the system's loader.
TEST_P(ElfLoaderTest, SharedObjects) {
  CompilerInfo compiler;
  ASSERT_TRUE(find_compiler(&compiler, GetParam(), {}, process_heap()).ok());
  Vec<uint8_t> shared(process_heap());
  ASSERT_TRUE(link_shared(compiler, object_, &shared, process_heap()).ok()) << last_error();
  const int before = testing::count_descriptors();
  {
    // Equal names and equal descriptors' paths must not be taken for one library.
    Image first(process_heap());
    Image second(process_heap());
    ASSERT_TRUE(first.load_shared({shared.data(), shared.size()}).ok()) << last_error();
    ASSERT_TRUE(second.load_shared({shared.data(), shared.size()}).ok()) << last_error();
    EXPECT_EQ(get<int()>(first, "count")(), 101);
    check_functions(second);
    EXPECT_EQ(get<int()>(first, "count")(), 102);
  }
  EXPECT_EQ(testing::count_descriptors(), before);
  Image broken(process_heap());
  EXPECT_EQ(broken.load_shared({shared.data(), 100}).code, kUnsupported);
  EXPECT_EQ(broken.load_shared({}).code, kUnsupported);
}

INSTANTIATE_TEST_SUITE_P(Compilers, ElfLoaderTest, ::testing::Values("gcc", "clang"),
                         [](const auto& name) { return std::string(name.param); });

TEST(ElfLoader, ThisMachineMapsCode) { EXPECT_TRUE(can_map_code()); }

// A process that has given up the right to make memory executable, as hardened hosts demand.
TEST(ElfLoader, AHostThatForbidsIt) {
  const Bytes object = compiled("gcc", kSource);
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kSetMdwe = 65;  // PR_SET_MDWE with PR_MDWE_REFUSE_EXEC_GAIN, since Linux 6.3
    if (prctl(kSetMdwe, 1, 0, 0, 0) != 0) _exit(2);
    Image image(process_heap());
    const bool fine = !can_map_code() && image.load(object).code == kUnsupported &&
                      image.find("square") == nullptr;
    _exit(fine ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1);
}

}  // namespace
}  // namespace aster::runtime::cpu
