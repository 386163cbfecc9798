// Random kernels against the evaluation of their graphs. ASTER_TEST_SEED chooses the seed.
#include "codegen/random_kernel.h"

namespace aster::codegen::tests {
namespace {

TEST(KernelFuzz, RandomKernels) {
  const char* chosen = std::getenv("ASTER_TEST_SEED");
  const uint64_t seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 1;
  const bool exhaustive = std::getenv("ASTER_ML_EXHAUSTIVE") != nullptr;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t batch = 0; batch < (exhaustive ? 20u : 1u); ++batch) {
    Suite s;
    for (uint64_t i = 0; i < 30; ++i) {
      const uint64_t number = seed * 1000003 + batch * 1009 + i;
      RandomKernel(s, number).add("random" + std::to_string(number));
    }
    s.run();
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace aster::codegen::tests
