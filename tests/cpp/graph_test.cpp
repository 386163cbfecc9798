// aster_ml::Uop: nodes of tensors, tensors of nodes, rewriting.
#include <cmath>

#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Tensor;
using aster_ml::Uop;

class CppGraph : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  aster_ml::Context context_{one_thread()};
};

TEST_F(CppGraph, ThereAndBack) {
  const Tensor x({1.f, 2.f, 3.f});
  const Uop node = Uop::of(x), literal = Uop::from_data<float>({10, 20, 30}, {3});
  const Uop sum = Uop::make("Add", {Uop::make("Mul", {node, literal}), node});
  EXPECT_EQ(sum.source(1), node);
  EXPECT_EQ(sum.shape(), std::vector<int64_t>{3});
  const Tensor y = sum.tensor();
  EXPECT_EQ(y.gradient(x, Tensor::ones({3})).to_vector<float>(), (std::vector<float>{11, 21, 31}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{11, 42, 93}));
}

TEST_F(CppGraph, RulesAreTexts) {
  const Tensor x({1.f, 4.f});
  const Uop before = Uop::of(x.sqrt().square());
  const Uop after = before.rewrite({{"square", "Mul(Sqrt(x), Sqrt(x))", "x"}});
  EXPECT_EQ(after, Uop::of(x));
  EXPECT_FALSE(before.rewrite({{"wrong", "Mul(x", "x"}}));
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_FORMAT);
  aster_ml::clear_error();
  EXPECT_FALSE(Uop::make("Nothing", {before}));
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NOT_FOUND);
  EXPECT_FALSE(Uop().tensor().realize());
}

TEST_F(CppGraph, BackwardAddsUp) {
  const Tensor x({1.f, 2.f}), y({3.f, 4.f});
  x.requires_grad();
  EXPECT_TRUE(x.is_requiring_grad());
  EXPECT_FALSE(y.is_requiring_grad());
  EXPECT_FALSE(x.grad().ok());
  aster_ml::clear_error();
  const Tensor loss = (x * y).sum();
  EXPECT_TRUE(loss.backward({}, true));
  EXPECT_TRUE(loss.backward());
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{6, 8}));
  EXPECT_FALSE(loss.backward());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_STATE);
  EXPECT_TRUE(x.reset_grad());
  EXPECT_FALSE(x.grad().ok());
  aster_ml::clear_error();
  EXPECT_EQ(x.dot_general(y, {0}, {0}).item(), 11);
  EXPECT_FALSE(x.dot_general(y, {0}, {}).ok());  // lists of one length
  EXPECT_EQ(x.broadcast({2, 3}, {0}).to_vector<float>(), (std::vector<float>{1, 1, 1, 2, 2, 2}));
  EXPECT_NEAR(x.rms_norm(1, {}, 0).sum().item(), 3 / std::sqrt(2.5), 1e-5);
}

}  // namespace
}  // namespace cpp_test
