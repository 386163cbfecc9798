// Kernels by libLLVM: programs against the evaluator, kernels and plans drawn at random against
// the C compiler, bit by bit at every width that the machine has; and libraries that are none.
#include "runtime/cpu/llvm_provider.h"

#include <cstring>
#include <filesystem>
#include <memory>

#include "codegen/random_kernel.h"
#include "codegen/random_plan.h"
#include "codegen/render_cases.h"
#include "codegen/render_launch.h"
#include "codegen/render_llvm.h"
#include "runtime/load.h"
#include "runtime/state.h"
#include "runtime/support.h"

namespace aster::runtime::cpu {
namespace {

using codegen::Rendered;
using codegen::Target;
using codegen::program::RenderedC;
using testing::code;
using testing::last_error;
using testing::TemporaryFolder;
using testing::TestContext;
using testing::WithVariable;

bool exhaustive() { return std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr; }

Llvm* library() {
  static Llvm llvm;
  static const bool there = open_llvm(&llvm, std::getenv("ASTER_ML_LLVM")).ok();
  return there ? &llvm : nullptr;
}

#define SKIP_WITHOUT_LLVM() \
  if (library() == nullptr) GTEST_SKIP() << "no libLLVM of 14 to 19 on this machine"

Target target_of(int width) {
  Target out = codegen::tests::target_of(width);
  out.llvm = true;
  return out;
}

// The functions of one text.
class Built {
 public:
  Built(const std::vector<const RenderedC*>& unit, int width) : image_(process_heap()) {
    Text text(process_heap());
    EXPECT_TRUE(codegen::program::write_unit(text, unit, target_of(width)).ok()) << last_error();
    if (std::getenv("ASTER_TEST_KEEP") != nullptr)
      std::printf("%.*s\n", static_cast<int>(text.view().size()), text.view().data());
    const Provider provider = llvm_provider(library());
    const CpuFeatures features = narrowed(detect_features(), width);
    const std::string_view source = text.view();
    Vec<uint8_t> object(process_heap());
    const Status status =
        provider.compile(provider.self, features, {&source, 1}, {&object, 1}, process_heap(), {});
    EXPECT_TRUE(status.ok()) << last_error();
    if (!status.ok()) return;
    EXPECT_TRUE(image_.load({object.data(), object.size()}).ok()) << last_error();
  }
  codegen::program::tests::Function find(const char* name) const {
    return reinterpret_cast<codegen::program::tests::Function>(image_.find(name));
  }

 private:
  Image image_;
};

// ---- Programs ----

namespace programs {

using namespace codegen::program;
using tests::Case;
using tests::Evaluator;
using tests::Launch;
using tests::Param;
using tests::Read;

// Texts that LLVM does not take are counted.
void check(const std::vector<Case>& cases, const std::vector<int>& targets, size_t* refused) {
  for (const int width : targets) {
    if (width > codegen::tests::widths().back()) continue;
    std::vector<std::unique_ptr<Read>> read;
    std::vector<std::unique_ptr<RenderedC>> programs;
    std::vector<const RenderedC*> unit;
    for (size_t i = 0; i < cases.size(); ++i) {
      const std::string name = "case_" + std::to_string(i);
      read.push_back(std::make_unique<Read>(tests::rename(cases[i].text, name)));
      programs.push_back(std::make_unique<RenderedC>(process_heap()));
      ASSERT_TRUE(verify(read[i]->module, {true}).ok()) << last_error() << cases[i].text;
      const Status status = render_llvm(*programs[i], read[i]->module, target_of(width));
      *refused += status.ok() ? 0u : 1u;
      ASSERT_TRUE(status.ok() || status.code == code(Code::kUNSUPPORTED)) << last_error();
      if (status.ok()) unit.push_back(programs[i].get());
    }
    Built built(unit, width);
    for (size_t i = 0; i < cases.size() && !::testing::Test::HasFailure(); ++i) {
      if (!programs[i]->llvm) continue;
      const std::string where = std::to_string(width) + " " + cases[i].text;
      std::vector<Param> before = tests::make_params(read[i]->last(), i + 1, cases[i].sizes);
      if (cases[i].special) tests::make_special(&before);
      std::vector<Param> after = before;
      ASSERT_EQ(Evaluator::run(read[i]->module, after, cases[i].sizes), "") << where;
      const auto function = built.find(("case_" + std::to_string(i)).c_str());
      ASSERT_NE(function, nullptr) << where;
      Launch whole(before, true), parts(before, false);
      const int64_t scratch = programs[i]->scratch_bytes;
      whole.run(function, cases[i].sizes, scratch, 0, cases[i].tasks);
      tests::same(where, whole.take(where), after);
      for (int64_t t = cases[i].tasks; t-- > 0;)
        parts.run(function, cases[i].sizes, scratch, t, t + 1);
      tests::same("by single tasks: " + where, parts.take(where), after);
    }
  }
}

void check_all(const std::vector<Case>& cases, const std::vector<int>& targets = {16, 32, 64}) {
  size_t refused = 0;
  check(cases, targets, &refused);
  EXPECT_EQ(refused, 0u);
}

TEST(LlvmProvider, TheDesignsProgramsAreExact) {
  SKIP_WITHOUT_LLVM();
  check_all({{tests::kRowSum, {}, 16}, {tests::conv(false), {}, 2}});
  check_all({{tests::kRowSum, {}, 16}, {tests::conv(true), {}, 2}}, {32, 64});
}

TEST(LlvmProvider, RandomProgramsAreExact) {
  SKIP_WITHOUT_LLVM();
  for (const bool fused : {false, true}) {
    const auto cases = tests::random_cases(fused, exhaustive() ? 400 : 60);
    check_all(cases, fused ? std::vector<int>{32, 64} : std::vector<int>{16, 32, 64});
  }
}

// What C has a row for, LLVM has as well.
TEST(LlvmProvider, EveryRowIsExact) {
  SKIP_WITHOUT_LLVM();
  for (const int width : {16, 32, 64}) {
    std::vector<Case> cases;
    size_t rows = 0;
    for (const std::string type : tests::kTypes) {
      const int bytes = static_cast<int>(dtype::size(tests::dtype_of(type)));
      for (const int lanes : {1, 16 / bytes, 32 / bytes, 64 / bytes}) {
        if (lanes > 1 && lanes * bytes > width) continue;
        const auto render = [&](const codegen::program::Module& module) {
          RenderedC out(process_heap());
          return render_c(out, module, codegen::tests::target_of(width));
        };
        cases.push_back(tests::row_case(type, lanes, render, &rows));
      }
    }
    EXPECT_GT(rows, 200u);
    check_all(cases, {width});
  }
}

TEST(LlvmProvider, WhatIsDefinedInPartsAndRounded) {
  SKIP_WITHOUT_LLVM();
  check_all(tests::partial_cases());
  check_all(tests::scaling_cases());
  check_all(tests::cast_cases());
}

TEST(LlvmProvider, MemoryFunctionsAndSizes) {
  SKIP_WITHOUT_LLVM();
  check_all(tests::memory_cases());
  check_all({{tests::kFunctions, {8}, 1}});
}

TEST(LlvmProvider, WhatIrCannotSayIsUnsupported) {
  const std::pair<const char*, int> cases[] = {
      {"%0 = Const f32 1; %1 = Spread f32x4 %0; %2 = Sqrt f32x4 %1; %3 = MulAcc f32x4 %2 %2 %2",
       16},
      {"%0 = Const f32 1; %1 = Exp f32 %0", 64},
      {"%0 = Param f16 0 [4]; %1 = Load f16 %0; %2 = Add f16 %1 %1", 64},
      {"%0 = Param f16 0 [4]; %1 = Load f16 %0; %2 = Cast f32 %1", 16},
      {"%0 = Loop local 0 0 4 1; Barrier local; End", 64},
      {"%0 = Param i32 0 [4] write atomic; %1 = Const i32 1; Atomic:Max %0, %1", 64}};
  for (const auto& [text, width] : cases) {
    Read got("program p\n" + std::string(text));
    ASSERT_TRUE(verify(got.module).ok()) << last_error() << text;
    RenderedC out(process_heap());
    EXPECT_EQ(render_llvm(out, got.module, target_of(width)).code, code(Code::kUNSUPPORTED))
        << text;
  }
}

TEST(LlvmProvider, EveryAllocationOfATextMayFail) {
  Read got(tests::kConv3x3);
  for (int64_t left = 0;; ++left) {
    tests::FailingMemory memory(left);
    RenderedC out(memory);
    const Status status = render_llvm(out, got.module, target_of(64));
    if (status.ok()) break;
    ASSERT_EQ(status.code, code(Code::kMEMORY));
  }
}

}  // namespace programs

// ---- Kernels ----

using namespace codegen;
using codegen::tests::Library;
using codegen::tests::Param;
using codegen::tests::RandomKernel;
using codegen::tests::RandomPlan;

// Random kernels by the planner's plans and by random ones, by gcc and by LLVM.
class Both : public codegen::tests::Suite {
 public:
  void run_both(int width, uint64_t seed, bool own_plans, size_t* compared) {
    std::vector<Rendered> c, ir;
    std::vector<const RenderedC*> c_unit, ir_unit;
    std::map<std::string, bool> seen;
    c.reserve(cases_.size()), ir.reserve(cases_.size());
    for (size_t i = 0; i < cases_.size(); ++i) {
      c.emplace_back(process_heap()), ir.emplace_back(process_heap());
      Kernel kernel(process_heap());
      ASSERT_TRUE(kernel.analyse(cases_[i].kernel).ok());
      const Target target = codegen::tests::target_of(width);
      const Plan plan = RandomPlan(kernel, target, seed + i).make();
      const Plan* const given = own_plans ? nullptr : &plan;
      const Status status = render(c[i], graph, cases_[i].kernel, target, nullptr, given);
      if (!status.ok() && !own_plans) continue;  // longer than a program may be
      ASSERT_TRUE(status.ok()) << last_error();
      ASSERT_TRUE(render(ir[i], graph, cases_[i].kernel, target_of(width), nullptr, given).ok());
      ASSERT_STREQ(c[i].name, ir[i].name);
      if (!ir[i].code.llvm || std::exchange(seen[c[i].name], true)) continue;
      c_unit.push_back(&c[i].code), ir_unit.push_back(&ir[i].code);
    }
    Text text(process_heap());
    ASSERT_TRUE(write_unit(text, c_unit, codegen::tests::target_of(width)).ok()) << last_error();
    Library gcc("gcc", std::string(text.view()), width);
    const Built llvm(ir_unit, width);
    for (size_t i = 0; i < cases_.size() && !::testing::Test::HasFailure(); ++i) {
      if (!ir[i].code.llvm) continue;
      const auto first = gcc.find(c[i].name);
      const auto second = llvm.find(ir[i].name);
      ASSERT_TRUE(first != nullptr && second != nullptr);
      EXPECT_EQ(c[i].code.scratch_bytes, ir[i].code.scratch_bytes);
      const auto run = [&](auto function, const std::vector<std::pair<int64_t, int64_t>>& tasks) {
        return call(cases_[i], function, tasks, i % 2 == 0, nullptr, c[i].code.scratch_bytes);
      };
      const std::vector<Param> want = run(first, {{0, c[i].tasks}});
      std::vector<std::pair<int64_t, int64_t>> each;
      for (int64_t task = c[i].tasks; task-- > 0;) each.emplace_back(task, task + 1);
      same(cases_[i].name + " by LLVM", run(second, {{0, c[i].tasks}}), want);
      same(cases_[i].name + " by single tasks", run(second, each), want);
      ++*compared;
    }
  }
};

TEST(LlvmProvider, RandomKernelsAndPlansHaveTheBitsOfC) {
  SKIP_WITHOUT_LLVM();
  const char* const chosen = std::getenv("ASTER_TEST_SEED");
  const uint64_t first = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 1;
  std::printf("seed %llu\n", static_cast<unsigned long long>(first));
  size_t compared = 0, drawn = 0;
  for (uint64_t batch = 0; batch < (exhaustive() ? 20u : 1u); ++batch) {
    for (const int width : codegen::tests::widths()) {
      for (const bool own_plans : {true, false}) {
        Both s;
        const uint64_t seed = (first * 977 + batch) * 1009 + static_cast<uint64_t>(width);
        for (uint64_t i = 0; i < 30; ++i, ++drawn)
          RandomKernel(s, seed + i).add("random" + std::to_string(seed + i));
        s.run_both(width, seed, own_plans, &compared);
        if (HasFailure()) return;
      }
    }
  }
  std::printf("%zu of %zu compared\n", compared, drawn);
  EXPECT_GT(compared * 4, drawn * 3);
}

// ---- Libraries ----

TEST(LlvmProvider, WhatIsNoLibraryIsUnsupported) {
  Llvm llvm;
  for (const char* const choice : {"none", "/etc/passwd", "/nowhere/libLLVM.so", "libm.so.6"}) {
    EXPECT_EQ(open_llvm(&llvm, choice).code, code(Code::kUNSUPPORTED)) << choice;
    EXPECT_EQ(last_error().rfind("no LLVM: ", 0), 0u) << last_error();
    EXPECT_EQ(llvm.LLVMContextCreate, nullptr);
  }
}

TEST(LlvmProvider, WhatIsNoIrIsAnError) {
  SKIP_WITHOUT_LLVM();
  const Provider provider = llvm_provider(library());
  for (const std::string_view text :
       {"no IR", "define void @f() {\n",
        "define i32 @f(i32 %x) {\n%y = add i32 %x, %z\nret i32 %y\n}",
        "define i32 @f(i32 %x) {\nb:\n%y = add i32 %z, %x\n%z = add i32 %x, 1\nret i32 %y\n}"}) {
    Vec<uint8_t> object(process_heap());
    EXPECT_EQ(
        provider
            .compile(provider.self, detect_features(), {&text, 1}, {&object, 1}, process_heap(), {})
            .code,
        code(Code::kCOMPILE));
    EXPECT_EQ(last_error().rfind("LLVM: ", 0), 0u) << last_error();
    EXPECT_GT(last_error().size(), 12u);
  }
}

// The library of a context with the compiler "llvm", and what its log says.
class Chosen {
 public:
  explicit Chosen(const TemporaryFolder& folder) : context_(options(folder, &logged_)) {
    EXPECT_TRUE(kernel_library(*context_, &library).ok());
  }
  // A function that multiplies, by IR or by C under the same name.
  CompileStats load(bool ir, int64_t factor) {
    const std::string number = std::to_string(factor);
    const std::string text =
        ir ? "define i64 @times(i64 %x) {\n%y = mul i64 %x, " + number + "\nret i64 %y\n}\n"
           : "long times(long x) { return x * " + number + "; }\n";
    const KernelSource source{"times", text};
    void* function = nullptr;
    KernelSet* set = nullptr;
    CompileStats stats;
    EXPECT_TRUE(library->load("", {&source, 1}, {&function, 1}, &set, &stats, ir).ok())
        << last_error();
    if (set == nullptr) return stats;
    EXPECT_EQ(reinterpret_cast<int64_t (*)(int64_t)>(function)(7), 7 * factor);
    set->release();
    return stats;
  }
  Context& context() { return *context_; }
  const std::vector<std::string>& logged() const { return logged_; }
  KernelLibrary* library = nullptr;

 private:
  static aster_ml_context_options options(const TemporaryFolder& folder,
                                          std::vector<std::string>* lines) {
    aster_ml_context_options out = {};
    out.cache_dir = folder.path().c_str();
    out.compiler = "llvm";
    out.log = [](void* self, int32_t, const char* line) {
      static_cast<std::vector<std::string>*>(self)->push_back(line);
    };
    out.log_self = lines;
    return out;
  }
  std::vector<std::string> logged_;
  TestContext context_;
};

// What the compiler and LLVM make of a name is kept apart, on disk as well.
TEST(LlvmProvider, ObjectsAreKeptByTheirProvider) {
  SKIP_WITHOUT_LLVM();
  const TemporaryFolder folder;
  for (const bool again : {false, true}) {
    Chosen chosen(folder);
    ASSERT_NE(chosen.library->llvm(), nullptr);
    const Device* host = nullptr;
    ASSERT_TRUE(host_device(&host, chosen.context()).ok());
    EXPECT_TRUE(host->target.llvm);
    EXPECT_EQ(chosen.load(true, 3).compiled, again ? 0 : 1);
    EXPECT_EQ(chosen.load(false, 5).compiled, again ? 0 : 1);
    EXPECT_EQ(chosen.load(true, 3).reused, 1);
    EXPECT_EQ(chosen.load(false, 5).reused, 1);
    EXPECT_TRUE(chosen.logged().empty());
  }
}

TEST(LlvmProvider, WithoutItTheCompilerDoesAll) {
  for (const char* const path : {"none", "/etc/passwd", "/nowhere/libLLVM.so"}) {
    const WithVariable with("ASTER_ML_LLVM", path);
    const TemporaryFolder folder;
    Chosen chosen(folder);
    EXPECT_EQ(chosen.library->llvm(), nullptr);
    EXPECT_EQ(chosen.library->llvm(), nullptr);
    const Device* host = nullptr;
    ASSERT_TRUE(host_device(&host, chosen.context()).ok());
    EXPECT_FALSE(host->target.llvm);
    EXPECT_EQ(chosen.load(false, 5).compiled, 1);
    ASSERT_EQ(chosen.logged().size(), 1u);
    EXPECT_EQ(chosen.logged()[0].rfind("kernels go to the C compiler: no LLVM: ", 0), 0u)
        << chosen.logged()[0];
  }
}

TEST(LlvmProvider, OthersCompilersAreNotAskedForIt) {
  TestContext context;
  KernelLibrary* library = nullptr;
  ASSERT_TRUE(kernel_library(*context, &library).ok());
  const bool chosen = std::string_view(compiler_choice(*context)) == "llvm";
  EXPECT_EQ(library->llvm() != nullptr, chosen && cpu::library() != nullptr);
}

// A second process knows which library there is, and opens it when there is something to compile;
// a file that is another one by then is no longer known.
TEST(LlvmProvider, IsRememberedAndOpenedWhenNeeded) {
  SKIP_WITHOUT_LLVM();
  const TemporaryFolder folder;
  const std::string link = folder.path() + "/libLLVM.so";
  std::filesystem::copy_file(library()->path, link);
  Cache cache(process_heap());
  ASSERT_TRUE(cache.open((folder.path() + "/cache").c_str()).ok());
  Llvm first, second, third;
  ASSERT_TRUE(find_llvm(&first, link.c_str(), cache, process_heap()).ok()) << last_error();
  EXPECT_TRUE(first.is_open);
  ASSERT_TRUE(find_llvm(&second, link.c_str(), cache, process_heap()).ok()) << last_error();
  EXPECT_FALSE(second.is_open);
  EXPECT_STREQ(second.path, first.path);
  EXPECT_EQ(second.size, first.size);
  EXPECT_EQ(second.modified_ns, first.modified_ns);
  const std::string_view source = "define void @f() {\nret void\n}\n";
  const Provider provider = llvm_provider(&second);
  const auto compile = [&] {
    Vec<uint8_t> object(process_heap());
    return provider.compile(provider.self, detect_features(), {&source, 1}, {&object, 1},
                            process_heap(), {});
  };
  EXPECT_TRUE(compile().ok()) << last_error();
  EXPECT_TRUE(second.is_open);

  ASSERT_TRUE(find_llvm(&second, link.c_str(), cache, process_heap()).ok());
  EXPECT_FALSE(second.is_open);
  std::filesystem::last_write_time(link, std::filesystem::file_time_type::clock::now());
  EXPECT_EQ(compile().code, code(Code::kUNSUPPORTED));
  ASSERT_TRUE(find_llvm(&third, link.c_str(), cache, process_heap()).ok());
  EXPECT_TRUE(third.is_open);
  std::filesystem::remove(link);
  EXPECT_EQ(find_llvm(&third, link.c_str(), cache, process_heap()).code, code(Code::kUNSUPPORTED));
}

TEST(LlvmProvider, EveryAllocationOfACompileMayFail) {
  SKIP_WITHOUT_LLVM();
  const Provider provider = llvm_provider(library());
  const std::vector<std::string_view> texts{"define void @f() {\nret void\n}\n",
                                            "define void @g() {\nret void\n}\n"};
  for (int64_t left = 0;; ++left) {
    codegen::program::tests::FailingMemory memory(left);
    std::vector<Vec<uint8_t>> objects;
    for (int i = 0; i < 2; ++i) objects.emplace_back(memory);
    const Status status =
        provider.compile(provider.self, detect_features(), texts, objects, memory, {});
    if (status.ok()) break;
    ASSERT_EQ(status.code, code(Code::kMEMORY));
  }
}

TEST(LlvmProvider, SeveralTextsAtOnce) {
  SKIP_WITHOUT_LLVM();
  const Provider provider = llvm_provider(library());
  std::vector<std::string> texts;
  std::vector<std::string_view> sources;
  for (int i = 0; i < 16; ++i) {
    const std::string n = std::to_string(i);
    texts.push_back("define i64 @f" + n + "(i64 %x) {\n%y = add i64 %x, " + n +
                    "\nret i64 %y\n}\n");
  }
  for (const std::string& text : texts) sources.push_back(text);
  const auto compile = [&](std::vector<Vec<uint8_t>>* objects) {
    for (size_t i = 0; i < sources.size(); ++i) objects->emplace_back(process_heap());
    return provider.compile(provider.self, detect_features(), sources, *objects, process_heap(),
                            {});
  };
  std::vector<Vec<uint8_t>> objects;
  ASSERT_TRUE(compile(&objects).ok()) << last_error();
  for (size_t i = 0; i < objects.size(); ++i) {
    Image image(process_heap());
    ASSERT_TRUE(image.load({objects[i].data(), objects[i].size()}).ok()) << last_error();
    void* const function = image.find("f" + std::to_string(i));
    ASSERT_NE(function, nullptr);
    EXPECT_EQ(reinterpret_cast<int64_t (*)(int64_t)>(function)(100), 100 + static_cast<int64_t>(i));
  }
  sources[9] = "nothing";  // one that is wrong fails all
  std::vector<Vec<uint8_t>> none;
  EXPECT_EQ(compile(&none).code, code(Code::kCOMPILE));
}

}  // namespace
}  // namespace aster::runtime::cpu
