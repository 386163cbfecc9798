// Rules of callers: what is rewritten computes the same, and what is wrong is named.
#include <cstring>
#include <random>

#include "aster_ml/graph.h"
#include "tensor/world.h"

namespace aster::tensor::test {
namespace {

using Uop = const aster_ml_uop*;

struct RuleText {
  const char *name, *from, *to;
};

class Rewriting : public testing::Test {
 protected:
  ~Rewriting() override {
    for (Uop each : all_) aster_ml_uop_release(world, each);
  }
  Uop node(const T& x) {
    Uop out = nullptr;
    EXPECT_EQ(aster_ml_lazy_to_uop(&out, x), 0) << message();
    all_.push_back(out);
    return out;
  }
  int32_t rewrite(Uop* out, Uop root, const std::vector<RuleText>& rules,
                  std::vector<uint64_t>* fired = nullptr) {
    std::vector<aster_ml_uop_rule> given;
    for (const RuleText& rule : rules) {
      aster_ml_uop_rule one{};
      one.struct_size = sizeof(one);
      one.name = rule.name;
      one.from = rule.from;
      one.to = rule.to;
      given.push_back(one);
    }
    if (fired != nullptr) fired->assign(rules.size(), 99);
    const int32_t code = aster_ml_uop_rewrite(out, world, root, given.data(), given.size(),
                                              fired == nullptr ? nullptr : fired->data());
    if (code == 0) all_.push_back(*out);
    return code;
  }
  Uop rewritten(Uop root, const std::vector<RuleText>& rules,
                std::vector<uint64_t>* fired = nullptr) {
    Uop out = nullptr;
    EXPECT_EQ(rewrite(&out, root, rules, fired), 0) << message();
    return out;
  }
  std::string text(Uop root) {
    size_t length = 0;
    EXPECT_EQ(aster_ml_uop_print(nullptr, &length, 0, world, root), 0);
    std::string out(length + 1, 0);
    EXPECT_EQ(aster_ml_uop_print(out.data(), &length, out.size(), world, root), 0);
    out.pop_back();
    return out;
  }
  std::vector<float> floats(Uop root) {
    T out;
    EXPECT_EQ(aster_ml_lazy_from_uop(out, world, root), 0) << message();
    return out.floats();
  }
  T data(const std::vector<float>& values) {
    T out;
    const int64_t shape[] = {static_cast<int64_t>(values.size())};
    EXPECT_EQ(aster_ml_lazy_from(out, world, values.data(), ASTER_ML_DTYPE_FLOAT32, 1, shape), 0);
    return out;
  }
  void refuse(int32_t code, const std::vector<RuleText>& rules, const char* says) {
    T x = data({1, 2}), y;
    OK(aster_ml_lazy_exp(y, x));
    Uop out = nullptr;
    EXPECT_EQ(rewrite(&out, node(y), rules), code) << rules[0].from;
    EXPECT_EQ(out, nullptr);
    EXPECT_NE(message().find(says), std::string::npos) << message();
  }

  World world;

 private:
  std::vector<Uop> all_;
};

TEST_F(Rewriting, AlgebraAsText) {
  T x = data({1, 2, 3}), two, three, a, b, sum;
  OK(aster_ml_lazy_number(two, world, 2));
  OK(aster_ml_lazy_number(three, world, 3));
  OK(aster_ml_lazy_mul(a, two, x));  // the constant first
  OK(aster_ml_lazy_mul(b, x, three));
  OK(aster_ml_lazy_add(sum, a, b));
  const Uop before = node(sum);
  std::vector<uint64_t> fired;
  const std::vector<RuleText> rules = {
      {"never", "Exp(x)", "x"}, {"together", "Add(Mul(x, c0), Mul(x, c1))", "Mul(x, Add(c0, c1))"}};
  const Uop after = rewritten(before, rules, &fired);
  EXPECT_EQ(fired, (std::vector<uint64_t>{0, 1}));
  EXPECT_STREQ(aster_ml_uop_op(after), "Mul");
  EXPECT_NE(text(after).find("Const float32[3] 5"), std::string::npos) << text(after);
  EXPECT_EQ(floats(after), sum.floats());
  EXPECT_EQ(rewritten(after, rules), after);
}

TEST_F(Rewriting, LabelsCarryArguments) {
  T x = data({1, -2, 3, 5}), y, grid, total;
  const int64_t shape[] = {2, 2}, axes[] = {1};
  OK(aster_ml_lazy_reshape(grid, x, 2, shape));
  OK(aster_ml_lazy_neg(y, grid));
  OK(aster_ml_lazy_sum(total, y, 1, axes, 1));
  const Uop after =
      rewritten(node(total), {{"out", "Reduce:Add[r](Neg(x:float))", "Neg(Reduce:Add[r](x))"},
                              {"down", "Neg(Reduce:Add[r](x))", "Mul(Reduce:Add[r](x), -1)"}});
  EXPECT_STREQ(aster_ml_uop_op(after), "Mul") << text(after);
  EXPECT_EQ(floats(after), (std::vector<float>{1, -8}));
  T wide, back;
  OK(aster_ml_lazy_cast(wide, x, ASTER_ML_DTYPE_FLOAT64));
  OK(aster_ml_lazy_cast(back, wide, ASTER_ML_DTYPE_FLOAT32));
  const std::vector<RuleText> casts = {{nullptr, "Cast:float32(Cast:float64(x:float32))", "x"}};
  EXPECT_EQ(rewritten(node(back), casts), node(x));
  T soft;
  OK(aster_ml_lazy_softmax(soft, grid, 1));
  EXPECT_STREQ(aster_ml_uop_op(rewritten(
                   node(soft), {{"s", "Call:Softmax[s](x)", "Exp(Call:LogSoftmax[s](x))"}})),
               "Exp");
}

TEST_F(Rewriting, NumbersTakeTheirNeighbours) {
  T x = data({1, -2, 3}), zero, positive, relu;
  OK(aster_ml_lazy_number(zero, world, 0));
  OK(aster_ml_lazy_gt(positive, x, zero));
  OK(aster_ml_lazy_where(relu, positive, x, zero));
  EXPECT_EQ(floats(rewritten(node(relu), {{"max", "Where(CmpLt(0, x), x, 0)", "Max(x, 0)"}})),
            (std::vector<float>{1, 0, 3}));
  EXPECT_EQ(floats(rewritten(node(relu), {{"mask", "Where(p, x, 0)", "Where(p, 7, x)"}})),
            (std::vector<float>{7, -2, 7}));
}

TEST_F(Rewriting, FunctionsBuild) {
  T x = data({1, 2}), y;
  OK(aster_ml_lazy_exp(y, x));
  aster_ml_uop_rule rule{};
  rule.struct_size = sizeof(rule);
  rule.from = "Exp(x)";
  int calls = 0;
  rule.self = &calls;
  rule.build = [](void* self, Uop* out, const aster_ml_context* context, Uop, const Uop* variables,
                  size_t count) -> int32_t {
    ++*static_cast<int*>(self);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(aster_ml_uop_collect(context), 0);  // what rewriting has made so far stays
    aster_ml_uop_options o{};
    o.struct_size = sizeof(o);
    o.op = "Neg";
    o.sources = variables;
    o.source_count = 1;
    return aster_ml_uop_init(out, context, &o);
  };
  Uop out = nullptr;
  OK(aster_ml_uop_rewrite(&out, world, node(y), &rule, 1, nullptr));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(floats(out), (std::vector<float>{-1, -2}));
  OK(aster_ml_uop_release(world, out));
  rule.build = [](void*, Uop* out_, const aster_ml_context*, Uop, const Uop*, size_t) -> int32_t {
    return *out_ = nullptr, 0;
  };
  OK(aster_ml_uop_rewrite(&out, world, node(y), &rule, 1, nullptr));
  EXPECT_EQ(out, node(y));
  OK(aster_ml_uop_release(world, out));
  rule.build = [](void*, Uop*, const aster_ml_context*, Uop, const Uop*, size_t) -> int32_t {
    return ASTER_ML_NUMERIC;
  };
  EXPECT_EQ(aster_ml_uop_rewrite(&out, world, node(y), &rule, 1, nullptr), ASTER_ML_NUMERIC);
  EXPECT_NE(message().find("rule 0"), std::string::npos);
}

TEST_F(Rewriting, EndlessRulesAreStopped) {
  refuse(ASTER_ML_RANGE, {{"grow", "Exp(x)", "Exp(Neg(x))"}}, "rule grow");
  refuse(ASTER_ML_RANGE, {{"there", "Exp(x)", "Exp2(x)"}, {"back", "Exp2(x)", "Exp(x)"}}, "rule ");
  refuse(ASTER_ML_RANGE, {{"double", "Exp(x)", "Add(Exp(Neg(x)), Exp(Abs(x)))"}}, "rule double");
}

TEST_F(Rewriting, ErrorsNameTheRule) {
  refuse(ASTER_ML_FORMAT, {{"a", "Exp(x", "x"}}, "rule a, left side, column 6");
  refuse(ASTER_ML_FORMAT, {{"a", "Exp(x)", "x y"}}, "rule a, right side, column 3");
  refuse(ASTER_ML_FORMAT, {{"a", "Exp(x:flat)", "x"}}, "rule a");
  refuse(ASTER_ML_FORMAT, {{"a", "", "x"}}, "rule a");
  refuse(ASTER_ML_ARGUMENT, {{"a", "x", "x"}}, "rule a");
  refuse(ASTER_ML_ARGUMENT, {{"a", "Exp(x)", "y"}}, "rule a: y is not bound");
  refuse(ASTER_ML_ARGUMENT, {{"a", "Exp(x, y)", "y"}}, "rule a: Exp of 2 operands");
  refuse(ASTER_ML_ARGUMENT, {{"a", "Exp(x)", "Reduce:Add(x)"}}, "a label says which");
  refuse(ASTER_ML_NOT_FOUND, {{"a", "Expo(x)", "x"}}, "rule a: no operation is named \"Expo\"");
  refuse(ASTER_ML_DTYPE, {{"a", "Exp(x)", "CmpLt(x, 0)"}}, "rule a: it gives bool[2]");
  refuse(ASTER_ML_DTYPE, {{"a", "Exp(x)", "And(x, x)"}}, "rule a: And of float32[2]");
  Uop out = nullptr;
  T x = data({1});
  EXPECT_EQ(aster_ml_uop_rewrite(&out, world, node(x), nullptr, 1, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_uop_rewrite(&out, world, nullptr, nullptr, 0, nullptr), ASTER_ML_ARGUMENT);
  aster_ml_uop_rule none{};
  EXPECT_EQ(aster_ml_uop_rewrite(&out, world, node(x), &none, 1, nullptr), ASTER_ML_ARGUMENT);
  OK(aster_ml_uop_rewrite(&out, world, node(x), nullptr, 0, nullptr));
  OK(aster_ml_uop_release(world, out));
}

// Texts put together at random, and graphs: statuses, and where both go through the same shape.
TEST_F(Rewriting, RandomTextsGiveStatuses) {
  constexpr const char* kTokens[] = {
      "Add", "Mul",  "Exp", "Neg", "Reduce:Add", "Cast:int8", "Where", "Call:Softmax", "(", ")",
      ")",   ",",    "[",   "]",   "r",          "x",         "y",     "c0",           ":", "float",
      "1",   "-2.5", "inf", " ",   "Reshape",    "("};
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  T x = data({1, 2}), y, z;
  OK(aster_ml_lazy_exp(y, x));
  OK(aster_ml_lazy_add(z, y, x));
  const Uop root = node(z);
  const auto made = [&] {
    std::string out;
    if (random() % 2 == 0) out = random() % 2 == 0 ? "Add(x, y)" : "Exp(x)";
    for (size_t n = random() % 9; n > 0 && (out.empty() || random() % 4 == 0); --n) {
      for (size_t k = 1 + random() % 6; k > 0; --k) out += kTokens[random() % std::size(kTokens)];
    }
    return out;
  };
  size_t read = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string from = made(), to = made();
    Uop out = nullptr;
    const int32_t code = rewrite(&out, root, {{"r", from.c_str(), to.c_str()}});
    ASSERT_NE(code, ASTER_ML_INTERNAL) << from << " -> " << to << ": " << message();
    if (code != 0) continue;
    ++read;
    EXPECT_EQ(aster_ml_uop_dtype(out), ASTER_ML_DTYPE_FLOAT32);
    EXPECT_EQ(aster_ml_uop_dim_at(out, 0), 2);
  }
  EXPECT_GT(read, 100u);
}

}  // namespace
}  // namespace aster::tensor::test
