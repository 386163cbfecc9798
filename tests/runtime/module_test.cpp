#include "runtime/cpu/module.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "runtime/state.h"
#include "runtime/support.h"

namespace aster::runtime::cpu {
namespace {

namespace fs = std::filesystem;
using testing::code;
using testing::last_error;
using testing::TemporaryFolder;
using testing::TestContext;

using Bytes = std::vector<uint8_t>;
using Kernel = int64_t (*)(int64_t);

std::string kernel_text(const std::string& name, int factor) {
  return "long " + name + "(long x) { return twice(x) * " + std::to_string(factor) + "; }\n";
}
const char* const kPrelude = "static inline long twice(long x) { return x + x; }\n";

// The texts and what they should compute.
struct Request {
  std::vector<std::string> names;
  std::vector<std::string> texts;
  std::vector<int> factors;
  std::vector<KernelSource> sources() const {
    std::vector<KernelSource> out;
    for (size_t i = 0; i < names.size(); ++i) out.push_back({names[i], texts[i]});
    return out;
  }
};

Request make_request(std::initializer_list<int> factors) {
  Request out;
  for (int factor : factors) {
    out.names.push_back("k_" + std::to_string(factor));
    out.texts.push_back(kernel_text(out.names.back(), factor));
    out.factors.push_back(factor);
  }
  return out;
}

struct Logged {
  std::vector<std::string> lines;
  static void log(void* self, int32_t, const char* message) {
    static_cast<Logged*>(self)->lines.push_back(message);
  }
};

class ModuleTest : public ::testing::Test {
 protected:
  aster_ml_context_options options(const char* compiler = nullptr) {
    aster_ml_context_options out = {};
    out.cache_dir = folder_.path().c_str();
    out.compiler = compiler;
    return out;
  }
  static KernelLibrary& library(TestContext& context) {
    KernelLibrary* out = nullptr;
    EXPECT_TRUE(kernel_library(*context, &out).ok());
    return *out;
  }
  // Loads, and checks what the functions compute.
  static Status load(KernelLibrary& library, const Request& request, KernelSet** set,
                     CompileStats* stats, const char* prelude = kPrelude) {
    const std::vector<KernelSource> sources = request.sources();
    std::vector<void*> functions(sources.size());
    ASTER_TRY(library.load(prelude, sources, functions, set, stats));
    for (size_t i = 0; i < functions.size(); ++i) {
      EXPECT_NE(functions[i], nullptr);
      if (functions[i] == nullptr) continue;
      EXPECT_EQ(reinterpret_cast<Kernel>(functions[i])(21), 42 * request.factors[i]);
    }
    return kOk;
  }
  // One request in a context of its own.
  CompileStats load_fresh(const Request& request, const aster_ml_context_options& with) {
    TestContext context(with);
    KernelSet* set = nullptr;
    CompileStats stats;
    EXPECT_TRUE(load(library(context), request, &set, &stats).ok()) << last_error();
    if (set != nullptr) set->release();
    EXPECT_EQ(stats.kernels, stats.reused + stats.cached + stats.compiled);
    return stats;
  }
  std::vector<std::string> cached_files() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) out.push_back(entry.path());
    }
    return out;
  }

  TemporaryFolder folder_;
};

TEST_F(ModuleTest, CompilesOnceThenReadsThenReuses) {
  for (const char* compiler : {"gcc", "clang"}) {
    const Request request = make_request({3, 5, 7, 11});
    CompileStats stats = load_fresh(request, options(compiler));
    EXPECT_EQ(stats.compiled, 4) << compiler;
    EXPECT_GE(stats.units, 1);
    EXPECT_GT(stats.compile_ms, 0);
    EXPECT_GE(stats.total_ms, stats.compile_ms);

    TestContext context(options(compiler));
    KernelSet* first = nullptr;
    ASSERT_TRUE(load(library(context), request, &first, &stats).ok());
    EXPECT_EQ(stats.cached, 4);
    EXPECT_EQ(library(context).cache().info().misses, 0u);
    KernelSet* second = nullptr;
    ASSERT_TRUE(load(library(context), request, &second, &stats).ok());
    EXPECT_EQ(stats.reused, 4);
    EXPECT_EQ(library(context).totals().kernels, 8);
    first->release();
    second->release();
  }
}

TEST_F(ModuleTest, AnotherScheduleFindsSingleKernels) {
  load_fresh(make_request({3, 5, 7}), options());
  CompileStats stats = load_fresh(make_request({7, 13, 3}), options());
  EXPECT_EQ(stats.cached, 2);
  EXPECT_EQ(stats.compiled, 1);
  stats = load_fresh(make_request({7, 13, 3}), options());
  EXPECT_EQ(stats.cached, 3) << "and is then a bundle of two packs itself";
  stats = load_fresh(make_request({13, 5}), options());
  EXPECT_EQ(stats.cached, 2);

  TestContext context(options());
  KernelSet* set = nullptr;
  ASSERT_TRUE(load(library(context), make_request({5, 17}), &set, &stats).ok());
  EXPECT_EQ(stats.cached, 1);
  EXPECT_EQ(stats.compiled, 1);
  KernelSet* more = nullptr;
  ASSERT_TRUE(load(library(context), make_request({3, 19, 5}), &more, &stats).ok());
  EXPECT_EQ(stats.reused, 1);
  EXPECT_EQ(stats.cached, 1) << "from a pack that is loaded already";
  EXPECT_EQ(stats.compiled, 1);
  set->release();
  more->release();
}

TEST_F(ModuleTest, WhatChangesTheCodeChangesTheKey) {
  const Request request = make_request({3});
  EXPECT_EQ(load_fresh(request, options("gcc")).compiled, 1);
  EXPECT_EQ(load_fresh(request, options("gcc")).compiled, 0);
  EXPECT_EQ(load_fresh(request, options("clang")).compiled, 1) << "the compiler";
  aster_ml_context_options narrow = options("gcc");
  narrow.vector_bytes = 16;
  const bool is_narrow = detect_features().vector_bytes == 16;
  EXPECT_EQ(load_fresh(request, narrow).compiled, is_narrow ? 0 : 1) << "the CPU's features";
  Request other = request;
  other.texts[0] += "/* another text */";
  EXPECT_EQ(load_fresh(other, options("gcc")).compiled, 1) << "the text";
  TestContext context(options("gcc"));
  KernelSet* set = nullptr;
  CompileStats stats;
  const std::string prelude = std::string(kPrelude) + "static long more(long x) { return x; }\n";
  ASSERT_TRUE(load(library(context), request, &set, &stats, prelude.c_str()).ok());
  EXPECT_EQ(stats.compiled, 1) << "the prelude";
  set->release();
}

TEST_F(ModuleTest, NeedsStandForThePrelude) {
  Request request = make_request({3});
  std::vector<KernelSource> sources = request.sources();
  sources[0].needs = kPrelude;
  for (const char* rest : {"", "static long unused(long x) { return x; }\n"}) {
    TestContext context(options());
    void* function = nullptr;
    KernelSet* set = nullptr;
    CompileStats stats;
    const std::string prelude = std::string(kPrelude) + rest;
    ASSERT_TRUE(library(context).load(prelude, sources, {&function, 1}, &set, &stats).ok());
    EXPECT_EQ(stats.compiled, rest[0] == '\0' ? 1 : 0);
    EXPECT_EQ(reinterpret_cast<Kernel>(function)(1), 6);
    set->release();
  }
}

TEST_F(ModuleTest, WithoutADiskCache) {
  aster_ml_context_options with = options();
  with.no_disk_cache = 1;
  EXPECT_EQ(load_fresh(make_request({3}), with).compiled, 1);
  EXPECT_EQ(load_fresh(make_request({3}), with).compiled, 1);
  EXPECT_TRUE(cached_files().empty());
}

TEST_F(ModuleTest, OddRequests) {
  TestContext context(options());
  KernelLibrary& kernels = library(context);
  KernelSet* set = nullptr;
  CompileStats stats;
  ASSERT_TRUE(load(kernels, make_request({}), &set, &stats).ok()) << "none at all";
  set->release();
  ASSERT_TRUE(load(kernels, make_request({3, 3, 5, 3}), &set, &stats).ok()) << "the same again";
  EXPECT_EQ(stats.compiled, 2);
  set->release();
  Request twins = make_request({3, 5});
  twins.names[1] = twins.names[0];
  EXPECT_EQ(load(kernels, twins, &set, &stats).code, code(Code::kARGUMENT));
  EXPECT_EQ(set, nullptr);
  Request misnamed = make_request({23});
  misnamed.names[0] = "not_in_the_text";
  EXPECT_EQ(load(kernels, misnamed, &set, &stats).code, code(Code::kINTERNAL));
  Request wrong = make_request({29, 31});
  wrong.texts[1] = "this is not C";
  std::vector<void*> functions(2, &wrong);
  EXPECT_EQ(kernels.load(kPrelude, wrong.sources(), functions, &set, &stats).code,
            code(Code::kCOMPILE));
  EXPECT_EQ(set, nullptr);
  EXPECT_EQ(functions[0], nullptr);
  EXPECT_EQ(functions[1], nullptr);
  ASSERT_TRUE(load(kernels, make_request({29, 31}), &set, &stats).ok()) << "nothing bad was kept";
  set->release();
}

TEST_F(ModuleTest, ADamagedCacheIsCompiledAnew) {
  const Request request = make_request({3, 5, 7});
  load_fresh(request, options());
  for (const size_t keep : {size_t{0}, size_t{70}, size_t{200}}) {
    for (const std::string& path : cached_files()) {
      if (fs::file_size(path) > keep) fs::resize_file(path, keep);
    }
    const CompileStats stats = load_fresh(request, options());
    EXPECT_GE(stats.compiled, keep == 200 ? 0 : 3);
  }
  // Entries whose frame is whole but whose contents are not.
  TestContext context(options());
  for (const std::string& path : cached_files()) {
    const std::string digits = fs::path(path).filename();
    Digest key;
    for (size_t i = 0; i < key.size(); ++i) {
      key[i] = static_cast<uint8_t>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
    }
    const std::string target = fs::path(path).parent_path().parent_path().filename();
    const Bytes rubbish(100, 0xff);
    library(context).cache().put(target, key, rubbish);
  }
  EXPECT_EQ(load_fresh(request, options()).compiled, 3);
  EXPECT_EQ(load_fresh(request, options()).cached, 3);
}

TEST_F(ModuleTest, NoCompiler) {
  Logged logged;
  aster_ml_context_options with = options("none");
  with.log = Logged::log;
  with.log_self = &logged;
  TestContext context(with);
  KernelSet* set = nullptr;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(load(library(context), make_request({3}), &set, nullptr).code,
              code(Code::kUNSUPPORTED));
    EXPECT_EQ(set, nullptr);
  }
  EXPECT_EQ(logged.lines.size(), 0u);  // the engine says what becomes of it
  const testing::WithVariable variable("ASTER_ML_CC", "none");
  TestContext other(options());
  EXPECT_EQ(load(library(other), make_request({3}), &set, nullptr).code, code(Code::kUNSUPPORTED));
}

TEST_F(ModuleTest, SharedObjectsWhereCodeMayNotBeMapped) {
  for (const bool warm : {false, true}) {
    TestContext context(options());
    KernelLibrary* kernels = nullptr;
    LibraryOptions shared;
    shared.shared_objects = true;
    ASSERT_TRUE(KernelLibrary::create(&kernels, *context, shared).ok());
    KernelSet* set = nullptr;
    CompileStats stats;
    ASSERT_TRUE(load(*kernels, make_request({3, 5}), &set, &stats).ok()) << last_error();
    EXPECT_EQ(stats.cached, warm ? 2 : 0);
    set->release();
    KernelLibrary::destroy(kernels);
  }
  EXPECT_EQ(load_fresh(make_request({3, 5}), options()).compiled, 2) << "another kind of code";
  // The same on a host that really forbids it.
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kSetMdwe = 65;  // PR_SET_MDWE with PR_MDWE_REFUSE_EXEC_GAIN, since Linux 6.3
    if (prctl(kSetMdwe, 1, 0, 0, 0) != 0) _exit(0);
    TestContext context(options());
    KernelSet* set = nullptr;
    CompileStats stats;
    const bool fine =
        load(library(context), make_request({3, 5}), &set, &stats).ok() && stats.cached == 2;
    _exit(fine && !can_map_code() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(ModuleTest, CodeLivesAsLongAsItsSet) {
  TestContext context(options());
  KernelLibrary* kernels = nullptr;
  LibraryOptions small;
  small.loaded_limit = 1;
  ASSERT_TRUE(KernelLibrary::create(&kernels, *context, small).ok());
  KernelSet* held = nullptr;
  void* function = nullptr;
  const Request request = make_request({3});
  ASSERT_TRUE(kernels->load(kPrelude, request.sources(), {&function, 1}, &held, nullptr).ok());
  held->retain();
  held->release();
  for (int i = 0; i < 40; ++i) {
    KernelSet* set = nullptr;
    ASSERT_TRUE(load(*kernels, make_request({100 + i % 4}), &set, nullptr).ok());
    set->release();
    EXPECT_EQ(reinterpret_cast<Kernel>(function)(1), 6);
  }
  EXPECT_LT(kernels->loaded_bytes(), 8 * 4096u * 4) << "what nobody holds was unloaded";
  held->release();
  KernelLibrary::destroy(kernels);
}

// Another provider: answers with objects made beforehand, as one in memory would.
struct Canned {
  CompilerInfo compiler;
  int compiled = 0;
  std::map<std::string, Bytes> objects_of;  // by source
  static Status identify(void*, const CpuFeatures&, Text& out) {
    out << "canned 1";
    return out.status();
  }
  static Status compile(void* self, const CpuFeatures& features,
                        std::span<const std::string_view> sources, std::span<Vec<uint8_t>> objects,
                        Memory& memory, const Patience&) {
    Canned& canned = *static_cast<Canned*>(self);
    ++canned.compiled;
    for (size_t i = 0; i < sources.size(); ++i) {
      Bytes& object = canned.objects_of[std::string(sources[i])];
      if (object.empty()) {
        Vec<uint8_t> made(process_heap());
        ASTER_TRY(cpu::compile(canned.compiler, features, {&sources[i], 1}, {&made, 1}, memory));
        object.assign(made.begin(), made.end());
      }
      ASTER_TRY(objects[i].append(object.data(), object.size()));
    }
    return kOk;
  }
};

TEST_F(ModuleTest, NamesStandForTexts) {
  TestContext context(options());
  KernelLibrary& all = library(context);
  const Request request = make_request({3, 5});
  std::vector<KernelSource> sources = request.sources();
  sources[0].named = true;
  std::vector<void*> functions(2), again(1);
  KernelSet *set = nullptr, *other = nullptr;
  ASSERT_TRUE(all.load(kPrelude, sources, functions, &set, nullptr).ok()) << last_error();
  EXPECT_TRUE(all.has_named("k_3"));
  EXPECT_FALSE(all.has_named("k_5"));
  const KernelSource three{"k_3", {}, {}, true}, five{"k_5", {}, {}, true};
  CompileStats stats;
  ASSERT_TRUE(all.load({}, {&three, 1}, again, &other, &stats).ok()) << last_error();
  EXPECT_EQ(again[0], functions[0]);
  EXPECT_EQ(stats.reused, 1);
  set->release();
  EXPECT_EQ(reinterpret_cast<Kernel>(again[0])(21), 42 * 3);
  other->release();
  EXPECT_EQ(all.load({}, {&five, 1}, again, &other, nullptr).code, ASTER_ML_INTERNAL);
}

TEST_F(ModuleTest, AnotherProvider) {
  Canned canned;
  ASSERT_TRUE(find_compiler(&canned.compiler, nullptr, {}, process_heap()).ok());
  TestContext context(options("none"));
  library(context).set_provider({"canned", &canned, Canned::identify, Canned::compile, nullptr});
  KernelSet* set = nullptr;
  CompileStats stats;
  ASSERT_TRUE(load(library(context), make_request({3, 5}), &set, &stats).ok()) << last_error();
  EXPECT_EQ(stats.compiled, 2);
  EXPECT_EQ(canned.compiled, 1) << "all units in one call";
  set->release();
}

// Where units are cheap there are as many as the texts fill, each kernel in one of them, behind
// what its own unit needs.
TEST_F(ModuleTest, UnitsOfSoManyBytes) {
  Canned canned;
  ASSERT_TRUE(find_compiler(&canned.compiler, nullptr, {}, process_heap()).ok());
  TestContext context(options("none"));
  const Request request = make_request({3, 5, 7, 9, 11, 13, 15, 17});
  const std::vector<KernelSource> sources = request.sources();
  const size_t bytes = 2 * sources[0].text.size();
  library(context).set_provider(
      {"canned", &canned, Canned::identify, Canned::compile, nullptr, bytes});
  std::vector<std::vector<size_t>> written;
  const UnitDeclarations units = {
      &written, [](void* self, std::span<const size_t> kernels, Text& out) {
        static_cast<std::vector<std::vector<size_t>>*>(self)->emplace_back(kernels.begin(),
                                                                           kernels.end());
        out << kPrelude;
        return out.status();
      }};
  std::vector<void*> functions(sources.size());
  KernelSet* set = nullptr;
  CompileStats stats;
  ASSERT_TRUE(library(context).load({}, sources, functions, &set, &stats, false, &units).ok())
      << last_error();
  EXPECT_GE(stats.units, 3);
  EXPECT_EQ(static_cast<size_t>(stats.units), written.size());
  std::vector<size_t> all;
  for (const auto& unit : written) {
    EXPECT_FALSE(unit.empty());
    all.insert(all.end(), unit.begin(), unit.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  for (size_t i = 0; i < functions.size(); ++i)
    EXPECT_EQ(reinterpret_cast<Kernel>(functions[i])(21), 42 * (3 + 2 * static_cast<int>(i)));
  set->release();
}

TEST_F(ModuleTest, ManyProcessesAtOnce) {
  const Request request = make_request({3, 5, 7});
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      load_fresh(request, options());
      _exit(HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(load_fresh(request, options()).cached, 3);
}

TEST_F(ModuleTest, LeaksNoDescriptor) {
  load_fresh(make_request({3}), options());
  const int before = testing::count_descriptors();
  load_fresh(make_request({3, 5, 7}), options());
  load_fresh(make_request({3, 5, 7}), options());
  EXPECT_EQ(testing::count_descriptors(), before);
}

// Every allocation fails once, cold and warm; whatever happened before, the next try works.
TEST_F(ModuleTest, EveryAllocationMayFail) {
  const Request request = make_request({3, 5});
  Canned canned;  // so that each round need not run a compiler
  ASSERT_TRUE(find_compiler(&canned.compiler, nullptr, {}, process_heap()).ok());
  for (const bool warm : {false, true}) {
    for (int64_t n = 0;; ++n) {
      testing::FailingHeap failing(n);
      aster_ml_context_options with = options();
      with.struct_size = sizeof(with);
      with.allocator = &failing.table();
      Context* context = nullptr;
      if (!Context::create(&context, &with).ok()) continue;
      if (!warm) {
        std::error_code ignored;
        fs::remove_all(folder_ / "v1", ignored);
      }
      KernelLibrary* kernels = nullptr;
      KernelSet* set = nullptr;
      Status status = kernel_library(*context, &kernels);
      if (status.ok()) {
        kernels->set_provider({"canned", &canned, Canned::identify, Canned::compile, nullptr});
      }
      if (status.ok()) status = load(*kernels, request, &set, nullptr);
      if (status.ok()) set->release();
      if (!status.ok()) {
        EXPECT_EQ(status.code, code(Code::kMEMORY)) << n << ": " << last_error();
      }
      context->release();
      if (!failing.failed()) {
        EXPECT_TRUE(status.ok()) << last_error();
        break;
      }
    }
  }
}

}  // namespace
}  // namespace aster::runtime::cpu
