#include "runtime/cpu/module.h"

#include "runtime/state.h"
#include "runtime/support.h"

namespace aster::runtime::cpu {
namespace {

using testing::last_error;
using testing::TemporaryFolder;
using testing::TestContext;

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

class ModuleTest : public ::testing::Test {
 protected:
  aster_ml_context_options options(const char* compiler = nullptr) {
    aster_ml_context_options out = {};
    out.cache_dir = folder_.path().c_str();
    out.compiler = compiler;
    return out;
  }
  // Loads and checks the functions' results.
  static Status load_and_run(Context& context, const Request& request, KernelSet** set,
                             CompileStats* stats) {
    KernelLibrary* library = nullptr;
    ASTER_TRY(kernel_library(context, &library));
    const std::vector<KernelSource> sources = request.sources();
    std::vector<void*> functions(sources.size());
    ASTER_TRY(library->load(kPrelude, sources, functions, set, stats));
    for (size_t i = 0; i < functions.size(); ++i) {
      EXPECT_NE(functions[i], nullptr);
      EXPECT_EQ(reinterpret_cast<Kernel>(functions[i])(21), 42 * request.factors[i]);
    }
    return kOk;
  }
  TemporaryFolder folder_;
};

TEST_F(ModuleTest, CompilesLoadsAndRuns) {
  for (const char* compiler : {"gcc", "clang"}) {
    TestContext context(options(compiler));
    KernelSet* set = nullptr;
    CompileStats stats;
    ASSERT_TRUE(load_and_run(*context, make_request({3, 5, 7}), &set, &stats).ok()) << last_error();
    EXPECT_EQ(stats.kernels, 3);
    EXPECT_EQ(stats.compiled, 3) << compiler;
    set->release();
  }
}

}  // namespace
}  // namespace aster::runtime::cpu
