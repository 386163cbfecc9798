// What outputs that are realised one by one share, with everything around that may write below it.
#include "aster.h"

namespace programs {
namespace {

// Of a product, a sum of which is looked at before another.
struct Shared {
  Tensor weight = data({64, 64}, 1), x = data({64, 64}, 2);
  Tensor trunk = x.matmul(weight);
  Tensor first = trunk.relu().sum(), second = (trunk * trunk).sum();
};

double computed_anew(const Shared& s) {
  const Floats a = read(s.x), b = read(s.weight);
  double sum = 0;
  for (size_t i = 0; i < 64; ++i) {
    for (size_t j = 0; j < 64; ++j) {
      double dot = 0;
      for (size_t k = 0; k < 64; ++k) dot += static_cast<double>(a[i * 64 + k] * b[k * 64 + j]);
      sum += dot * dot;
    }
  }
  return sum;
}

class KeptPrograms : public testing::TestWithParam<bool> {
 protected:
  aster_ml_context_options options() const {
    aster_ml_context_options out{};
    out.struct_size = sizeof(out);
    if (GetParam()) out.compiler = "none";
    return out;
  }
  static void expect_near(double got, double expected) {
    EXPECT_NEAR(got, expected, 1e-4 * expected);
  }
};

TEST_P(KeptPrograms, GradientsAfterALossThatWasLookedAt) {
  Session s(options());
  const uint64_t start = s.counters().operations;
  Tensor x = data({64, 64}, 1), w = data({64, 64}, 2), v = data({64, 64}, 3);
  Tensor loss = x.matmul(w).relu().matmul(v).square().mean();
  const Floats value = read(loss);
  const uint64_t forward = s.counters().operations - start;
  // A second time, with the gradients pending.
  Tensor again = (x.matmul(w).relu().matmul(v) * 1.5f).square().mean();
  std::vector<Tensor> gradients = again.gradient({w, v});
  ASSERT_EQ(gradients.size(), 2u);
  OK(again.realize());
  const uint64_t between = s.counters().operations;
  const Floats first = read(gradients[0]), second = read(gradients[1]);
  const uint64_t backward = s.counters().operations - between;
  if (!GetParam()) {
    EXPECT_LT(backward, 2 * forward);  // 3 products, none of those before
  }
  // The same of expressions that nothing was kept of.
  Tensor other_w(read(w), {64, 64}), other_v(read(v), {64, 64});
  Tensor whole = (x.matmul(other_w).relu().matmul(other_v) * 1.5f).square().mean();
  std::vector<Tensor> expected = whole.gradient({other_w, other_v});
  const Floats a = read(expected[0]), b = read(expected[1]);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(first[i], a[i], 1e-4) << i;
    ASSERT_NEAR(second[i], b[i], 1e-4) << i;
  }
}

TEST_P(KeptPrograms, AReplayWritesBelow) {
  Session s(options());
  Shared shared;
  Tensor more = data({64, 64}, 3);
  aster_ml::Program program({more}, [&] { EXPECT_OK((shared.weight += more).realize()); });
  OK(program);
  OK(shared.first.realize());
  OK(program.run({more}));
  expect_near(shared.second.item(), computed_anew(shared));
}

TEST_P(KeptPrograms, ACaptureComputesAllOfIt) {
  Session s(options());
  Shared shared;
  Tensor x = data({1}, 9);
  OK(shared.first.realize());
  Tensor out;
  aster_ml::Program program({x}, [&] {
    out = (shared.second + x.sum() * 0).realized();
    return std::vector{out};
  });
  OK(program);
  expect_near(out.item(), computed_anew(shared));
  OK(shared.weight.assign(data({64, 64}, 7) * 2));
  OK(shared.weight.realize());
  const double now = computed_anew(shared);
  expect_near(program({x}).item(), now);
}

TEST_P(KeptPrograms, MemoryThatWasLent) {
  Session s(options());
  Shared shared;
  OK(shared.first.realize());
  aster_ml_tensor view{};
  ASSERT_EQ(aster_ml_lazy_view(&view, shared.weight.get()), 0);
  static_cast<float*>(view.storage.data)[5] += 20;
  expect_near(shared.second.item(), computed_anew(shared));
  Shared later{shared.weight, shared.x};
  OK(later.first.realize());
  static_cast<float*>(view.storage.data)[6] += 30;
  expect_near(later.second.item(), computed_anew(later));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, KeptPrograms, testing::Values(false, true),
                         [](const auto& runtime) {
                           return runtime.param ? "interpreted" : "compiled";
                         });

}  // namespace
}  // namespace programs
