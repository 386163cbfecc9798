// Plans are what building gives, and change nothing; whatever is asked for, the answer is a status.
#include "aster_ml/plan.h"

#include <cstring>
#include <random>

#include "aster_ml/engine.h"
#include "aster_ml/functions.h"
#include "aster_ml/indexing.h"
#include "aster_ml/linalg.h"
#include "aster_ml/spatial.h"
#include "aster_ml/uop.h"
#include "tensor/world.h"

namespace aster::tensor::test {
namespace {

using List = std::vector<int64_t>;

struct Attribute : aster_ml_op_attribute {
  Attribute(const char* of, int64_t value) : aster_ml_op_attribute{} {
    name = of, kind = ASTER_ML_ATTRIBUTE_INTEGER, integer = value;
  }
  Attribute(const char* of, int value) : Attribute(of, int64_t{value}) {}
  Attribute(const char* of, double value) : aster_ml_op_attribute{} {
    name = of, kind = ASTER_ML_ATTRIBUTE_REAL, real = value;
  }
  Attribute(const char* of, const char* value) : aster_ml_op_attribute{} {
    name = of, kind = ASTER_ML_ATTRIBUTE_TEXT, text = value;
  }
  Attribute(const char* of, const List& value) : aster_ml_op_attribute{} {
    name = of, kind = ASTER_ML_ATTRIBUTE_LIST, list = value.data(), count = value.size();
  }
};

class Plans : public testing::Test {
 protected:
  int32_t plan(const char* name, const std::vector<std::pair<int32_t, Shape>>& operands,
               const std::vector<Attribute>& attributes = {}) {
    std::vector<aster_ml_op_operand> described;
    for (const auto& [dtype, shape] : operands)
      described.push_back({dtype, shape.size(), shape.data()});
    std::vector<aster_ml_op_attribute> given(attributes.begin(), attributes.end());
    costs = {};
    costs.struct_size = sizeof(costs);
    return aster_ml_op_plan(&costs, world, name, described.data(), described.size(), given.data(),
                            given.size());
  }
  Shape shape(size_t i = 0) const {
    return {costs.results[i].shape, costs.results[i].shape + costs.results[i].ndim};
  }
  void is(const T& built, size_t i = 0) {
    EXPECT_EQ(shape(i), built.shape());
    EXPECT_EQ(costs.results[i].dtype, built.dtype());
  }
  T zeros(const Shape& of, int32_t dtype = ASTER_ML_DTYPE_FLOAT32) {
    T out;
    EXPECT_EQ(aster_ml_lazy_empty(out, world, dtype, of.size(), of.data()), 0) << message();
    return out;
  }

  World world;
  aster_ml_op_costs costs{};
};
constexpr int32_t kF32 = ASTER_ML_DTYPE_FLOAT32, kF16 = ASTER_ML_DTYPE_FLOAT16,
                  kI32 = ASTER_ML_DTYPE_INT32, kI8 = ASTER_ML_DTYPE_INT8;

TEST_F(Plans, AreWhatBuildingGives) {
  T y, z;
  OK(plan("matmul", {{kF16, {4, 2, 3}}, {kF32, {3, 5}}}));
  T a = zeros({4, 2, 3}, kF16), b = zeros({3, 5});
  OK(aster_ml_lazy_matmul(y, a, b));
  is(y);
  EXPECT_EQ(costs.bytes, 24u * 2 + 15 * 4 + 40 * 4);
  EXPECT_EQ(costs.result_count, 1u);

  OK(plan("matmul", {{kF32, {8, 16}}, {kF32, {16, 4}}}));
  EXPECT_EQ(costs.operations, 2u * 8 * 16 * 4);

  OK(plan("sum", {{kI8, {2, 3, 4}}}, {{"axes", List{-1, 0}}, {"keepdim", 1}}));
  T c = zeros({2, 3, 4}, kI8), sum;
  const int64_t axes[] = {-1, 0};
  OK(aster_ml_lazy_sum(sum, c, 2, axes, 1));
  is(sum);
  EXPECT_EQ(costs.operations, 24u);

  OK(plan("conv2d", {{kF32, {1, 4, 9, 9}}, {kF32, {6, 2, 3, 3}}, {0, {}}},
          {{"groups", 2}, {"stride", List{2, 1}}, {"padding", List{1, 1, 0, 0}}}));
  EXPECT_EQ(shape(), (Shape{1, 6, 5, 7}));

  OK(plan("topk", {{kF32, {3, 9}}}, {{"k", 4}, {"axis", 1}, {"largest", 1}}));
  EXPECT_EQ(costs.result_count, 2u);
  T x = zeros({3, 9}), values, indices;
  OK(aster_ml_lazy_topk(values, indices, x, 4, 1, 1));
  is(values, 0);
  is(indices, 1);

  OK(plan("cat", {{kF32, {2, 3}}, {kI32, {1, 3}}, {kF16, {4, 3}}}, {{"axis", 0}}));
  EXPECT_EQ(shape(), (Shape{7, 3}));
  OK(plan("einsum", {{kF32, {2, 3}}, {kF32, {3, 4}}}, {{"formula", "ij,jk->ki"}}));
  EXPECT_EQ(shape(), (Shape{4, 2}));
  OK(plan("pad", {{kF32, {2, 3}}},
          {{"before", List{1, 0}}, {"after", List{0, -1}}, {"fill", 2.5}}));
  EXPECT_EQ(shape(), (Shape{3, 2}));
  OK(plan("zeros", {}, {{"shape", List{2, 7}}, {"dtype", kI8}}));
  EXPECT_EQ(shape(), (Shape{2, 7}));
  OK(plan("cross_entropy", {{kF32, {8, 10}}, {kI32, {8}}}, {{"reduction", 2}}));
  EXPECT_EQ(shape(), (Shape{8}));
  OK(plan("dot_general", {{kF32, {2, 3, 4}}, {kF32, {4, 2, 5}}},
          {{"a_contract", List{2}},
           {"b_contract", List{0}},
           {"a_batch", List{0}},
           {"b_batch", List{1}}}));
  EXPECT_EQ(shape(), (Shape{2, 3, 5}));
  OK(plan("add", {{kF32, {1 << 20, 1 << 20}}, {kF32, {1}}}));  // larger than any memory
  EXPECT_EQ(costs.operations, uint64_t{1} << 40);
}

TEST_F(Plans, HaveTheErrorsOfBuilding) {
  T a = zeros({2, 3}), y;
  ASSERT_EQ(aster_ml_lazy_matmul(y, a, a), ASTER_ML_SHAPE);
  aster_ml_error built{}, planned{};
  aster_ml_error_last(&built);
  aster_ml_error_clear();
  EXPECT_EQ(plan("matmul", {{kF32, {2, 3}}, {kF32, {2, 3}}}), ASTER_ML_SHAPE);
  aster_ml_error_last(&planned);
  EXPECT_STREQ(built.message, planned.message);
  EXPECT_STREQ(planned.function, "aster_ml_op_plan");
  EXPECT_EQ(costs.result_count, 0u);
  EXPECT_EQ(plan("nothing", {}), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(plan("exp", {}), ASTER_ML_ARGUMENT);
  EXPECT_EQ(plan("exp", {{kF32, {2}}, {kF32, {2}}}), ASTER_ML_ARGUMENT);
  EXPECT_EQ(plan("exp", {{kF32, {-2}}}), ASTER_ML_RANGE);
  EXPECT_EQ(plan("exp", {{999, {2}}}), ASTER_ML_ARGUMENT);
  EXPECT_EQ(plan("sum", {{kF32, {2}}}, {{"axis", List{0}}}), ASTER_ML_ARGUMENT);
  EXPECT_NE(message().find("no attribute \"axis\""), std::string::npos);
  EXPECT_EQ(plan("sum", {{kF32, {2}}}, {{"keepdim", 0.5}}), ASTER_ML_ARGUMENT);
  EXPECT_EQ(plan("sum", {{kF32, {2}}}, {{"keepdim", int64_t{1} << 40}}), ASTER_ML_RANGE);
  EXPECT_EQ(plan("nonzero", {{kF32, {2}}}, {{"size", -1}}), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(aster_ml_op_plan(nullptr, world, "exp", nullptr, 0, nullptr, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_op_plan(&costs, world, "exp", nullptr, 1, nullptr, 0), ASTER_ML_ARGUMENT);
}

TEST_F(Plans, ChangeNothing) {
  T x = zeros({4});
  size_t before = 0, after = 0;
  OK(aster_ml_uop_count(&before, world));
  OK(plan("softmax", {{kF32, {8, 8}}}, {{"axis", 1}}));
  EXPECT_EQ(plan("softmax", {{kF32, {8, 8}}}, {{"axis", 7}}), ASTER_ML_RANGE);
  OK(aster_ml_uop_count(&after, world));
  EXPECT_EQ(before, after);
}

// Every operation that there is, with operands and attributes at random.
TEST_F(Plans, EveryOperationAnswers) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  constexpr const char* kNames[] = {"axis",  "axes",    "keepdim", "shape",  "k",      "dtype",
                                    "size",  "count",   "dim",     "stride", "kernel", "offset",
                                    "p",     "eps",     "shifts",  "step",   "low",    "high",
                                    "value", "formula", "classes", "begin",  "end"};
  size_t planned = 0, operations = 0, before = 0, after = 0;
  aster_ml_engine_counters counters{}, still{};
  counters.struct_size = still.struct_size = sizeof(counters);
  OK(aster_ml_engine_count(&counters, world));
  OK(aster_ml_uop_count(&before, world));
  for (size_t i = 0; aster_ml_op_name(i) != nullptr; ++i, ++operations) {
    for (int round = 0; round < 24; ++round) {
      std::vector<std::pair<int32_t, Shape>> operands(static_cast<size_t>(1 + below(3)));
      const Shape common = {1 + below(4), 4, 4};
      for (auto& [dtype, of] : operands) {
        dtype = below(2) != 0 ? kF32 : static_cast<int32_t>(below(20));
        of = below(3) != 0 ? common : Shape(static_cast<size_t>(below(5)), below(4));
      }
      std::vector<Attribute> attributes;
      const List list = {below(3), below(4) - 1, 1};
      for (int64_t n = below(3); n > 0; --n) {
        const char* name = kNames[below(std::size(kNames))];
        if (below(2) == 0) {
          attributes.emplace_back(name, below(4) - 1);
        } else {
          attributes.emplace_back(name, list);
        }
      }
      const int32_t code = plan(aster_ml_op_name(i), operands, attributes);
      ASSERT_NE(code, ASTER_ML_INTERNAL) << aster_ml_op_name(i) << ": " << message();
      planned += code == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(operations, 200u);
  // None left a node, computed or compiled anything.
  OK(aster_ml_uop_count(&after, world));
  OK(aster_ml_engine_count(&still, world));
  EXPECT_EQ(before, after);
  EXPECT_EQ(std::memcmp(&counters, &still, sizeof(counters)), 0);
  EXPECT_GT(planned, 300u);
}

}  // namespace
}  // namespace aster::tensor::test
