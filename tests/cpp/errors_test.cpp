// Failures of the C++ wrapper: the first one stays, empty objects absorb.
#include <string>

#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Tensor;
namespace nn = aster_ml::nn;

class ErrorsTest : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  aster_ml::Context context_{one_thread()};
};

TEST_F(ErrorsTest, TheFirstStays) {
  const Tensor a = Tensor::ones({2, 3}), b = Tensor::ones({4, 5});
  const Tensor loss = (a.matmul(b).relu() + 1).sum({0, 1});
  EXPECT_FALSE(loss.ok());
  EXPECT_FALSE(loss.realize());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_SHAPE);
  EXPECT_STREQ(aster_ml::error().function, "aster_ml_lazy_matmul");
  EXPECT_EQ(loss.item(), 0);
  EXPECT_TRUE(loss.to_vector<float>().empty());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_SHAPE);
  aster_ml::clear_error();
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_OK);
  EXPECT_EQ(a.sum().item(), 6);  // all else goes on
}

TEST_F(ErrorsTest, EmptyAndMovedFromTensorsAbsorb) {
  Tensor full({1., 2.});
  const Tensor moved = std::move(full);
  for (const Tensor& x : {Tensor(), full}) {
    EXPECT_FALSE(x.ok());
    EXPECT_FALSE((x + 1).ok());
    EXPECT_FALSE((1 - x).ok());
    EXPECT_FALSE((moved * x).ok());
    EXPECT_FALSE((x[{0, aster_ml::all()}].ok()));
    EXPECT_FALSE(x.sort().first.ok());
    EXPECT_TRUE(x.split(1).empty());
    EXPECT_TRUE(x.chunk(2).empty());
    EXPECT_TRUE(x.gradient({moved, moved}).empty());
    EXPECT_FALSE(moved.gradient(x).ok());
    EXPECT_FALSE(Tensor::cat({moved, x}).ok());
    EXPECT_FALSE(x.conv2d(moved).ok());
    EXPECT_FALSE(x.realize());
    EXPECT_FALSE(x.realized().ok());
    EXPECT_FALSE(x.assign(1));
    EXPECT_FALSE(x.data<float>());
    EXPECT_EQ(x.ndim(), 0u);
    EXPECT_EQ(x.numel(), 0);
    EXPECT_EQ(x.device(), 0);
    EXPECT_TRUE(x.shape().empty());
    EXPECT_FALSE(x.is_realized());
    EXPECT_FALSE(x.rearrange("a -> a").ok());
    EXPECT_FALSE(x.max_pool2d().ok());
  }
  full = moved;  // may be filled again
  EXPECT_EQ(full.sum().item(), 3);
  const Tensor& self = full;
  full = self;
  EXPECT_EQ(full.sum().item(), 3);
}

TEST_F(ErrorsTest, EmptyObjectsOfEveryKindAbsorb) {
  const nn::Linear refused(-1, 2);
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_RANGE);
  EXPECT_FALSE(refused(Tensor::ones({1})).ok());
  EXPECT_FALSE(nn::Conv2d(1, 1, 3)(Tensor()).ok());
  const nn::State state({{"x.", refused}});
  EXPECT_FALSE(state.ok());
  EXPECT_EQ(state.size(), 0u);
  const nn::SGD optimizer(state);
  EXPECT_FALSE(optimizer.ok());
  EXPECT_FALSE(optimizer.step(Tensor::ones({})));
  EXPECT_TRUE(optimizer.parameters().empty());
  EXPECT_FALSE(optimizer.set_rate(1));
}

TEST_F(ErrorsTest, ChecksOfTheWrapperItself) {
  const Tensor ragged({{1, 2}, {3}});
  const nn::Linear layer(2, 2);
  const nn::SGD optimizer({{"", layer}});
  EXPECT_FALSE((ragged + 1).sum().realize());
  EXPECT_FALSE(optimizer.step(layer(ragged).sum()));
  EXPECT_FALSE(nn::State().set("x", ragged));
  EXPECT_EQ((ragged * ragged).item(), 0);
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_SHAPE);
  EXPECT_STREQ(aster_ml::error().message, "the rows of a nested list differ in length");
  aster_ml::clear_error();
  EXPECT_FALSE(Tensor().realize());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  aster_ml::clear_error();
  EXPECT_FALSE(Tensor(std::vector<float>{1, 2, 3}, {2, 2}).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_SHAPE);
  EXPECT_FALSE(Tensor(std::vector<float>{1}, {-1}).ok());
  aster_ml::clear_error();
  EXPECT_FALSE(Tensor::ones({2, 2}).pad({1, 1}, {1}).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_SHAPE);
  aster_ml::Windows wrong;
  wrong.stride = {1, 2, 3};
  aster_ml::clear_error();
  EXPECT_FALSE(Tensor::ones({1, 1, 4, 4}).max_pool2d(2, wrong).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_SHAPE);
  EXPECT_FALSE(nn::Conv2d(1, 1, 3, wrong).ok());
}

TEST_F(ErrorsTest, WritesThatFailAreSeen) {
  Tensor x = Tensor({1, 2, 3}).realized();
  EXPECT_FALSE((x[5] = 1).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_RANGE);
  EXPECT_EQ(ints(x), (Ints{1, 2, 3}));
  aster_ml::clear_error();
  const Tensor kept = x;
  x += 0.5;  // int32 cannot hold it
  EXPECT_FALSE(x.ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_DTYPE);
  EXPECT_EQ(ints(kept), (Ints{1, 2, 3}));
}

TEST_F(ErrorsTest, ContextsDoNotMix) {
  const Tensor here({1., 2.});
  const aster_ml::Context other(one_thread());
  const Tensor there({1., 2.});
  EXPECT_FALSE((here + there).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  EXPECT_EQ((here + 1).sum().item(), 5);  // numbers follow the tensor
  EXPECT_EQ((1 + there).sum().item(), 5);
}

TEST_F(ErrorsTest, RefusedContexts) {
  aster_ml_context_options options{};
  options.threads = -1;
  const aster_ml::Context refused(options);
  EXPECT_FALSE(refused.ok());
  EXPECT_FALSE(Tensor::ones({2}).ok());
}

}  // namespace
}  // namespace cpp_test
