// Implementations and traces of the C++ wrapper.
#include "world.h"

namespace cpp_test {
namespace {

using aster_ml::Tensor;
namespace registry = aster_ml::registry;

class RegistryTest : public testing::Test {
 protected:
  void SetUp() override { aster_ml::clear_error(); }
  aster_ml::Context context_{one_thread()};
};

TEST_F(RegistryTest, FunctionsAndPolicies) {
  const Tensor a(Floats{1, 2, 3, 4}, {2, 2});
  int calls = 0;
  OK(registry::add("matmul", "twice",
                   [&](const aster_ml_op_call& call, const std::vector<Tensor>& x) {
                     EXPECT_EQ(call.operand_count, 2u);
                     ++calls;
                     return x[0].matmul(x[1]) * 2;
                   }));
  EXPECT_EQ(floats(a.matmul(a)), (Floats{7, 10, 15, 22}));
  {
    const registry::Policies policies("{\"matmul\": \"force=twice\"}");
    EXPECT_TRUE(static_cast<bool>(policies));
    EXPECT_EQ(floats(a.matmul(a)), (Floats{14, 20, 30, 44}));
    EXPECT_NE(registry::describe("matmul").find("force=twice"), std::string::npos);
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(floats(a.matmul(a)), (Floats{7, 10, 15, 22}));
  EXPECT_OK(registry::set_policies("{\"softmax\": \"benchmark(cache=2)\"}"));
  EXPECT_OK(registry::forget());
  EXPECT_OK(registry::remove("matmul", "twice"));
  EXPECT_FALSE(registry::remove("matmul", "twice"));
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NOT_FOUND);
}

TEST_F(RegistryTest, Mistakes) {
  EXPECT_FALSE(registry::set_policies("{\"matmul\": 1}"));
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_FORMAT);
  aster_ml::clear_error();
  const registry::Policies none("{");
  EXPECT_FALSE(static_cast<bool>(none));
  aster_ml::clear_error();
  EXPECT_EQ(registry::describe("nothing"), "");
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NOT_FOUND);
}

TEST_F(RegistryTest, Traces) {
  aster_ml_trace_config config{};
  config.struct_size = sizeof(config);
  config.debug = ASTER_ML_DEBUG_NAN;
  OK(aster_ml::trace(&config));
  EXPECT_FALSE(Tensor(Floats{-1, 1}).log().realize());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NUMERIC);
  aster_ml::clear_error();
  EXPECT_OK(aster_ml::trace(nullptr));
  EXPECT_OK(Tensor(Floats{-1, 1}).log().realize());
}

}  // namespace
}  // namespace cpp_test
