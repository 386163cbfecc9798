// Who frees what: nothing leaks, whatever goes first, and failing allocations are errors.
#include <memory>
#include <thread>

#include "../base/counting_allocator.h"
#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Context;
using aster_ml::Tensor;
namespace nn = aster_ml::nn;

aster_ml_context_options counted(const aster_test::CountingAllocator& allocator) {
  aster_ml_context_options options = one_thread();
  options.allocator = &allocator.table;
  return options;
}

double train() {
  const nn::Linear model(4, 2);
  const nn::Adam optimizer({{"", model}});
  const Tensor x(noise(32, 3), {8, 4});
  const aster_ml::Program step({x}, [&] {
    const Tensor loss = model(x).square().mean();
    optimizer.step(loss);
    return loss;
  });
  Tensor copy = step({x});
  const Tensor other = copy;
  copy = copy[aster_ml::none] + 1;
  return copy.item() + other.item();
}

TEST(Lifetime, NothingIsLeft) {
  aster_test::CountingAllocator allocator;
  {
    const Context context(counted(allocator));
    EXPECT_GT(train(), 1);
    EXPECT_GT(context.bytes().first, 0u);
  }
  EXPECT_EQ(allocator.live(), 0u);
  EXPECT_TRUE(allocator.sound());
}

TEST(Lifetime, TensorsMayOutliveTheirContext) {
  aster_test::CountingAllocator allocator;
  {
    Tensor kept;
    nn::Layer layer;
    {
      const Context context(counted(allocator));
      kept = Tensor({1., 2.}) * 3;
      layer = nn::Linear(2, 2);
    }
    EXPECT_GT(allocator.live(), 0u);
    EXPECT_EQ((kept + 1).sum().item(), 11);
    EXPECT_TRUE(layer(kept).realize());
  }
  EXPECT_EQ(allocator.live(), 0u);
}

TEST(Lifetime, RepeatedStepsDoNotGrow) {
  // Machine code is there from the first step on: that it comes later is no growth.
  setenv("ASTER_ML_TIERS", "off", 1);
  const Context context(one_thread());
  Tensor x = Tensor::zeros({256}).contiguous().realized();
  size_t before = 0;
  for (int i = 0; i < 60; ++i) {
    x = (x + 1).realized();
    if (i % 20 != 19) continue;
    context.collect();
    EXPECT_TRUE(before == 0 || context.bytes().first <= before);
    before = context.bytes().first;
  }
  EXPECT_EQ(x.sum().item(), 60 * 256);
  unsetenv("ASTER_ML_TIERS");
}

TEST(Lifetime, FailingAllocationsAreErrors) {
  int64_t fails = 0;
  for (int64_t n = 0; n < 4000; n = n * 5 / 4 + 1) {
    aster_test::CountingAllocator allocator;
    {
      allocator.fail_at(n);
      aster_ml::clear_error();
      const Context context(counted(allocator));
      const Tensor x({1., 2., 3.});
      const Tensor y = (x * 2 + x[{aster_ml::Slice(1, 2)}]).sum();
      const bool good = y.realize();
      EXPECT_TRUE(good || aster_ml::error().code == ASTER_ML_MEMORY) << aster_ml::error().message;
      EXPECT_TRUE(!good || y.item() == 18);
      fails += good ? 0 : 1;
    }
    EXPECT_EQ(allocator.live(), 0u);
    EXPECT_TRUE(allocator.sound());
  }
  EXPECT_GT(fails, 5);
}

TEST(Lifetime, ContextsNestAndAreKeptByThread) {
  aster_ml_context* outer = nullptr;
  const Context first(one_thread());
  outer = Context::current().get();
  EXPECT_EQ(outer, first.get());
  {
    const Context second(one_thread());
    EXPECT_NE(Context::current().get(), outer);
    const Context again(first);
    EXPECT_EQ(Context::current().get(), outer);
  }
  EXPECT_EQ(Context::current().get(), outer);
  const Tensor x = Tensor({1., 2.}).realized();
  std::thread([&] {
    EXPECT_NE(Context::current().get(), outer);  // a context of that thread's own
    EXPECT_EQ(Tensor({1., 2.}).sum().item(), 3);
    const Context here(first);
    EXPECT_EQ((x + 1).sum().item(), 5);
  }).join();
  EXPECT_EQ(x.sum().item(), 3);
}

TEST(Lifetime, AContextMayGoOnAnotherThread) {
  const Context below(one_thread());
  auto made = std::make_unique<Context>(one_thread());
  EXPECT_EQ(Context::current().get(), made->get());
  const Tensor x = Tensor({1., 2.}).realized();
  std::thread([&made] { made.reset(); }).join();
  EXPECT_EQ(Context::current().get(), below.get());
  EXPECT_EQ((x + 1).sum().item(), 5);
  EXPECT_EQ(Tensor({3.}).sum().item(), 3);
  // From below others, and a thread that ends before the contexts it made.
  std::vector<std::unique_ptr<Context>> several;
  for (int i = 0; i < 4; ++i) several.push_back(std::make_unique<Context>(below));
  const Context above(one_thread());
  std::thread([&several] { several.clear(); }).join();
  EXPECT_EQ(Context::current().get(), above.get());
  std::thread([&] { several.push_back(std::make_unique<Context>(above)); }).join();
  several.clear();
  EXPECT_EQ(Context::current().get(), above.get());
}

TEST(Lifetime, ArgumentsMayOutliveTheirLists) {
  const Context context(one_thread());
  aster_ml::Dims shape = {2, 3}, number = 4, long_one = std::vector<int64_t>(12, 1);
  const aster_ml::Dims copy = shape, none{};
  shape = {6};
  EXPECT_EQ(std::vector<int64_t>(copy.begin(), copy.end()), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::vector<int64_t>(shape.begin(), shape.end()), std::vector<int64_t>{6});
  EXPECT_EQ(std::vector<int64_t>(number.begin(), number.end()), std::vector<int64_t>{4});
  EXPECT_EQ(std::vector<int64_t>(long_one.begin(), long_one.end()), std::vector<int64_t>(12, 1));
  EXPECT_EQ(none.data(), nullptr);
  const Tensor x(noise(6, 1), copy);
  EXPECT_EQ(x.reshape(shape).shape(), std::vector<int64_t>{6});
  const aster_ml::Tensors both = {x + 1, x + 2};
  aster_ml_lazy made{};
  ASSERT_EQ(aster_ml_lazy_cat(&made, both.data(), both.size(), 0), ASTER_ML_OK);
  EXPECT_EQ(Tensor(std::move(made), context.root()).shape(), (std::vector<int64_t>{4, 3}));
}

TEST(Lifetime, HandlesOfC) {
  const Context context(one_thread());
  aster_ml_lazy copy{};
  {
    const Tensor x = Tensor({1., 2.}) + 1;
    copy = *x.get();
  }
  aster_ml_lazy out{};
  EXPECT_EQ(aster_ml_lazy_exp(&out, &copy), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_free(&copy), ASTER_ML_OK);
  aster_ml::clear_error();
}

TEST(Lifetime, TensorsGoToC) {
  const Context context(one_thread());
  aster_ml_lazy raw{};
  {
    const Tensor x = Tensor({1., 2.}) + 1;
    raw = x.to_c();
  }
  double sum = 0;
  const Tensor back(std::move(raw), context.root());
  sum = back.sum().item();
  EXPECT_EQ(sum, 5);
}

}  // namespace
}  // namespace cpp_test
