// aster_ml::Size: tensors of symbolic sizes, and programs that take their values, on several
// threads.
#include <thread>

#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Program;
using aster_ml::Size;
using aster_ml::Tensor;

using Numbers = std::vector<float>;

class CppSymbolic : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  aster_ml::Context context_{one_thread()};
};

TEST_F(CppSymbolic, SizesAreExpressions) {
  const Size n = Size::variable("n", 1, 6), open = n * 2 + 1;
  const Size five = open.bind("n", 2);
  EXPECT_EQ(five.value(), 5);
  EXPECT_EQ((five % 3).value(), 2);
  EXPECT_EQ((five / 2 - 1).value(), 1);
  EXPECT_EQ(max(five, 7).value(), 7);
  EXPECT_EQ(min(five, Size(3)).value(), 3);
  EXPECT_EQ(open.value(), -1);
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_STATE);
  EXPECT_EQ(five.tensor().item(), 5);
  EXPECT_FALSE(n.bind("n", 7).is_symbolic());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_RANGE);
}

TEST_F(CppSymbolic, TensorsHaveThem) {
  const Size n = Size::variable("n", 1, 3).bind("n", 2);
  const Tensor x = Tensor::arange(6).cast(aster_ml::dtypes::float32).reshape({3, 2});
  const Tensor part = shrink(x, {0, 0}, {n, 2});
  EXPECT_EQ(part.shape(), (std::vector<int64_t>{2, 2}));
  EXPECT_TRUE(sizes(part)[0].is_symbolic());
  EXPECT_FALSE(sizes(part)[1].is_symbolic());
  EXPECT_EQ(sizes(part)[0].name(), "n");
  EXPECT_TRUE(part.is_symbolic() && !x.is_symbolic());
  const Tensor twice = part + part;
  EXPECT_EQ(twice.view_whole().shape[0], 3u);
  EXPECT_TRUE(set_sizes(twice, {Size::variable("n", 1, 3).bind("n", 1), 2}));
  EXPECT_EQ(twice.to_vector<float>(), (Numbers{0, 2}));
  EXPECT_EQ(part.sum(0).to_vector<float>(), (Numbers{2, 4}));
  EXPECT_EQ(whole(part).shape(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(reshape(part, {n * 2}).to_vector<float>(), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(select(part, 0, n - 1).to_vector<float>(), (Numbers{2, 3}));
  EXPECT_EQ(pad(part, {0, 0}, {1, 0}).to_vector<float>(), (Numbers{0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(expand(part.max(0), {n, 2}).to_vector<float>(), (Numbers{2, 3, 2, 3}));
  EXPECT_EQ(aster_ml::full({n}, 7.0).to_vector<float>(), (Numbers{7, 7}));
  EXPECT_EQ(aster_ml::empty({n}).shape(), (std::vector<int64_t>{2}));
  EXPECT_EQ(aster_ml::arange(1, n + 1).sum().item(), 3);
  EXPECT_EQ(index(part, {n - 1, aster_ml::SizeIndex{0, n}}).to_vector<float>(), (Numbers{2, 3}));
  EXPECT_EQ(index(part, {aster_ml::all(), aster_ml::none, 1}).to_vector<float>(), (Numbers{1, 3}));
  const Tensor written = x + 0;
  EXPECT_TRUE(index_assign(written, {{1, n + 1}}, part));
  EXPECT_EQ(written.to_vector<float>(), (Numbers{0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(rearrange(part, "n (a b) -> (b n) a", {{"a", 2}, {"n", n}}).to_vector<float>(),
            (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(interpolate(part, {n * 2, 2}, aster_ml::Interpolation::nearest).to_vector<float>(),
            (Numbers{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_FALSE(shrink(x, {0}, {n, 2}).ok());
}

TEST_F(CppSymbolic, ProgramsTakeValuesOnSeveralThreads) {
  constexpr int64_t kMost = 40;
  const Size n = Size::variable("n", 1, kMost).bind("n", 3);
  const Tensor line = Tensor::arange(kMost).cast(aster_ml::dtypes::float32).realized();
  Program step({}, [&] { return shrink(line, {0}, {n}).sum(); });
  ASSERT_TRUE(step.ok());
  ASSERT_EQ(step.variables().size(), 1u);
  EXPECT_EQ(step.variables()[0].name, "n");
  EXPECT_FALSE(step.variables()[0].fixed);
  EXPECT_TRUE(step.is_for({kMost}));
  EXPECT_FALSE(step.is_for({kMost + 1}));
  std::vector<aster_ml::Workspace> spaces;
  for (int t = 0; t < 4; ++t) spaces.emplace_back(step);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 200; ++i) {
        const int64_t value = 1 + (i * 7 + static_cast<int64_t>(t) * 11) % kMost;
        float sum = -1;
        size_t none = 0;
        ptrdiff_t no_stride = 0;
        aster_ml_tensor out{};
        out.storage = {&sum, sizeof(sum), ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DEVICE_CPU};
        out.dtype = ASTER_ML_DTYPE_FLOAT32;
        out.device = ASTER_ML_DEVICE_CPU;
        out.shape = &none;
        out.strides = &no_stride;
        const bool ran = step.run_bound({value}, nullptr, 0, &out, 1, spaces[t].get());
        wrong[t] += !ran || sum != static_cast<float>(value * (value - 1) / 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::vector<int>{0, 0, 0, 0}));
  EXPECT_TRUE(step.set_variable("n", kMost));
  EXPECT_FALSE(step.set_variable("n", kMost + 1));
  EXPECT_EQ(step({}).item(), kMost * (kMost - 1) / 2);
}

}  // namespace
}  // namespace cpp_test
