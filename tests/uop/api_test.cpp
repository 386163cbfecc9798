#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "aster_ml/dtype.h"
#include "aster_ml/uop.h"

namespace {

using Uop = const aster_ml_uop*;
using Ints = std::vector<int64_t>;

class UopApi : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(aster_ml_context_init(&context, nullptr), 0); }
  void TearDown() override { EXPECT_EQ(aster_ml_context_free(&context), 0); }

  int32_t init(Uop* out, const char* op, int32_t dtype, const std::vector<Uop>& sources,
               const Ints& arguments = {}, const Ints& shape = {}) {
    aster_ml_uop_options options{};
    options.struct_size = sizeof(options);
    options.op = op;
    options.dtype = dtype;
    options.sources = sources.data();
    options.source_count = sources.size();
    options.arguments = arguments.data();
    options.argument_count = arguments.size();
    options.shape = shape.data();
    options.ndim = shape.size();
    return aster_ml_uop_init(out, &context, &options);
  }
  Uop make(const char* op, int32_t dtype, const std::vector<Uop>& sources,
           const Ints& arguments = {}, const Ints& shape = {}) {
    Uop out = nullptr;
    EXPECT_EQ(init(&out, op, dtype, sources, arguments, shape), 0) << op;
    return out;
  }
  void expect(int32_t code, const char* op, int32_t dtype, const std::vector<Uop>& sources,
              const Ints& arguments = {}, const Ints& shape = {}) {
    Uop out = reinterpret_cast<Uop>(this);
    EXPECT_EQ(init(&out, op, dtype, sources, arguments, shape), code) << op;
    EXPECT_EQ(out, nullptr);
  }
  aster_ml_context context{};
};

TEST_F(UopApi, BuildsAndReads) {
  const Uop x = make("Param", ASTER_ML_DTYPE_FLOAT32, {}, {0}, {2, 3});
  const Uop sum = make("Reduce:Add", 0, {make("Exp", 0, {x})}, {1});
  EXPECT_STREQ(aster_ml_uop_op(sum), "Reduce:Add");
  EXPECT_EQ(aster_ml_uop_dtype(sum), ASTER_ML_DTYPE_FLOAT32);
  EXPECT_EQ(aster_ml_uop_ndim(sum), 2u);
  EXPECT_EQ(aster_ml_uop_dim_at(sum, 0), 2);
  EXPECT_EQ(aster_ml_uop_dim_at(sum, 1), 1);
  EXPECT_EQ(aster_ml_uop_dim_at(sum, 2), -1);
  EXPECT_EQ(aster_ml_uop_argument_count(sum), 1u);
  EXPECT_EQ(aster_ml_uop_argument_at(sum, 0), 1);
  EXPECT_EQ(aster_ml_uop_argument_at(sum, 1), 0);
  ASSERT_EQ(aster_ml_uop_source_count(sum), 1u);
  const Uop exp = aster_ml_uop_source_at(sum, 0);
  EXPECT_EQ(aster_ml_uop_source_at(exp, 0), x);
  EXPECT_EQ(aster_ml_uop_source_at(exp, 1), nullptr);
  EXPECT_GT(aster_ml_uop_id(sum), aster_ml_uop_id(x));
  EXPECT_EQ(make("Param", ASTER_ML_DTYPE_FLOAT32, {}, {0}, {2, 3}), x);

  size_t count = 0;
  ASSERT_EQ(aster_ml_uop_walk(nullptr, &count, 0, &context, sum), 0);
  ASSERT_EQ(count, 3u);
  Uop order[3];
  EXPECT_EQ(aster_ml_uop_walk(order, &count, 2, &context, sum), ASTER_ML_RANGE);
  EXPECT_EQ(count, 0u);
  ASSERT_EQ(aster_ml_uop_walk(order, &count, 3, &context, sum), 0);
  EXPECT_EQ(order[0], x);
  EXPECT_EQ(order[2], sum);

  size_t length = 0;
  ASSERT_EQ(aster_ml_uop_print(nullptr, &length, 0, &context, sum), 0);
  std::string text(length + 1, '?');
  EXPECT_EQ(aster_ml_uop_print(text.data(), &length, text.size() - 1, &context, sum),
            ASTER_ML_RANGE);
  ASSERT_EQ(aster_ml_uop_print(text.data(), &length, text.size(), &context, sum), 0);
  EXPECT_EQ(text.substr(0, length),
            "%0 = Param float32[2, 3] (0)\n%1 = Exp float32[2, 3] %0\n%2 = Reduce:Add float32[2, "
            "1] %1 (1)\n");
  EXPECT_EQ(text[length], 0);
}

TEST_F(UopApi, EveryKindOfNode) {
  const Uop x = make("Param", ASTER_ML_DTYPE_FLOAT32, {}, {0}, {2, 3});
  const auto shape = [](Uop u) {
    Ints out;
    for (size_t i = 0; i < aster_ml_uop_ndim(u); ++i) out.push_back(aster_ml_uop_dim_at(u, i));
    return out;
  };
  EXPECT_EQ(shape(make("Reshape", 0, {x}, {}, {6})), Ints{6});
  EXPECT_EQ(shape(make("Permute", 0, {x}, {1, 0})), (Ints{3, 2}));
  EXPECT_EQ(shape(make("Flip", 0, {x}, {1, 0})), (Ints{2, 3}));
  EXPECT_EQ(shape(make("Slice", 0, {x}, {1, 1, 0, 2}, {1, 2})), (Ints{1, 2}));
  EXPECT_EQ(shape(make("Pad", 0, {x}, {1, 1, 0, 0, 0, 0, 0})), (Ints{4, 3}));
  const Uop windows = make("Window", 0, {x}, {1, 1, 1, 2});
  EXPECT_EQ(shape(windows), (Ints{2, 2, 2}));
  EXPECT_EQ(shape(make("Unwindow", 0, {windows}, {1, 1, 1, 3})), (Ints{2, 3, 2}));
  EXPECT_EQ(shape(make("Cat", 0, {x, x}, {0})), (Ints{4, 3}));
  EXPECT_EQ(shape(make("Expand", 0, {make("Reduce:Max", 0, {x}, {0})}, {}, {7, 3})), (Ints{7, 3}));
  EXPECT_EQ(aster_ml_uop_dtype(make("Cast", ASTER_ML_DTYPE_INT8, {x})), ASTER_ML_DTYPE_INT8);
  EXPECT_EQ(aster_ml_uop_dtype(make("Bitcast", ASTER_ML_DTYPE_INT32, {x})), ASTER_ML_DTYPE_INT32);
  EXPECT_EQ(shape(make("Iota", ASTER_ML_DTYPE_INT32, {}, {}, {9})), Ints{9});
  EXPECT_STREQ(
      aster_ml_uop_op(make("Sink", 0, {make("Detach", 0, {x}), make("Contiguous", 0, {x})})),
      "Sink");
  EXPECT_STREQ(aster_ml_uop_op(make("After", 0, {x, make("Assign", 0, {x, x})})), "After");
  // A kernel, as code generation takes it.
  const Uop in = make("Param", ASTER_ML_DTYPE_FLOAT32, {}, {0}, {8}),
            out = make("Param", ASTER_ML_DTYPE_FLOAT32, {}, {1}, {8});
  const Uop r = make("Range", 0, {}, {0, 8}), k = make("Range", 0, {}, {1, 8});
  const Uop fold = make("Fold:Add", 0, {make("Load", 0, {in, k}), k});
  EXPECT_STREQ(aster_ml_uop_op(make("Store", 0, {out, r, fold, r})), "Store");
}

TEST_F(UopApi, IndexExpressions) {
  const Uop r0 = make("Range", 0, {}, {0, 16}), r1 = make("Range", 0, {}, {1, 8});
  const auto number = [&](int64_t v) { return make("Const", ASTER_ML_DTYPE_WEAKINT, {}, {v}); };
  const Uop index = make("Add", 0, {make("Mul", 0, {r0, number(8)}), r1});
  Uop simple = nullptr;
  ASSERT_EQ(aster_ml_uop_simplify(&simple, &context, make("FloorDiv", 0, {index, number(8)})), 0);
  EXPECT_EQ(simple, r0);
  int64_t low = 7, high = 7;
  ASSERT_EQ(aster_ml_uop_get_bounds(&low, &high, index), 0);
  EXPECT_EQ(low, 0);
  EXPECT_EQ(high, 127);
  EXPECT_EQ(aster_ml_uop_get_bounds(&low, &high, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(high, 0);
}

TEST_F(UopApi, BadInput) {
  const Uop x = make("Param", ASTER_ML_DTYPE_FLOAT32, {}, {0}, {2, 3});
  expect(ASTER_ML_NOT_FOUND, "Nonsense", 0, {x});
  expect(ASTER_ML_NOT_FOUND, "Reduce:Sub", 0, {x}, {0});
  expect(ASTER_ML_UNSUPPORTED, "Buffer", ASTER_ML_DTYPE_FLOAT32, {}, {0, 0}, {2});
  expect(ASTER_ML_ARGUMENT, "Call:Softmax", 0, {x, x}, {0});
  expect(ASTER_ML_ARGUMENT, "Add", 0, {x});
  expect(ASTER_ML_ARGUMENT, "Add", 0, {x, nullptr});
  expect(ASTER_ML_ARGUMENT, "Add", 0, {x, x}, {1});
  expect(ASTER_ML_ARGUMENT, "Exp", 0, {});
  expect(ASTER_ML_ARGUMENT, "Cat", 0, {}, {0});
  expect(ASTER_ML_ARGUMENT, "Cat", 0, {x});
  expect(ASTER_ML_ARGUMENT, "After", 0, {});
  expect(ASTER_ML_ARGUMENT, "Slice", 0, {x}, {0, 1, 0}, {2, 3});
  expect(ASTER_ML_ARGUMENT, "Pad", 0, {x}, {0, 0});
  expect(ASTER_ML_ARGUMENT, "Cast", 0, {x});
  expect(ASTER_ML_ARGUMENT, "Cast", 999, {x});
  expect(ASTER_ML_ARGUMENT, "Const", ASTER_ML_DTYPE_FLOAT32, {}, {}, {2});
  expect(ASTER_ML_ARGUMENT, "Load", 0, {x, x});
  expect(ASTER_ML_ARGUMENT, "Load", 0, {x});
  expect(ASTER_ML_ARGUMENT, "Store", 0, {x});
  expect(ASTER_ML_ARGUMENT, "Fold:Add", 0, {x, x});
  expect(ASTER_ML_SHAPE, "Reshape", 0, {x}, {}, {7});
  expect(ASTER_ML_RANGE, "Reshape", 0, {x}, {}, {-6});
  expect(ASTER_ML_RANGE, "Param", ASTER_ML_DTYPE_FLOAT32, {}, {0}, {INT64_MAX, INT64_MAX});
  expect(ASTER_ML_RANGE, "Param", ASTER_ML_DTYPE_FLOAT32, {}, {-1}, {2});
  expect(ASTER_ML_RANGE, "Range", 0, {}, {0, -4});
  expect(ASTER_ML_RANGE, "Iota", ASTER_ML_DTYPE_INT32, {}, {}, {-4});
  expect(ASTER_ML_SHAPE, "Iota", ASTER_ML_DTYPE_INT32, {}, {}, {});
  expect(ASTER_ML_DTYPE, "And", 0, {x, x});
  expect(ASTER_ML_DTYPE, "Bitcast", ASTER_ML_DTYPE_INT8, {x});
  expect(ASTER_ML_RANGE, "Reduce:Add", 0, {x}, {5});

  Uop out = x;
  EXPECT_EQ(aster_ml_uop_init(&out, &context, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(out, nullptr);
  aster_ml_uop_options options{};
  EXPECT_EQ(aster_ml_uop_init(&out, &context, &options), ASTER_ML_ARGUMENT);
  options.struct_size = sizeof(options);
  options.op = "Add";
  options.source_count = 2;
  EXPECT_EQ(aster_ml_uop_init(&out, &context, &options), ASTER_ML_ARGUMENT);
  options.op = nullptr;
  EXPECT_EQ(aster_ml_uop_init(&out, &context, &options), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_uop_init(nullptr, &context, &options), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_uop_init(&out, nullptr, &options), ASTER_ML_ARGUMENT);
  size_t count = 1;
  EXPECT_EQ(aster_ml_uop_walk(nullptr, &count, 0, &context, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_uop_walk(nullptr, nullptr, 0, &context, x), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_uop_print(nullptr, nullptr, 0, &context, x), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_uop_count(nullptr, &context), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_uop_retain(&context, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_STREQ(aster_ml_uop_op(nullptr), "");
  EXPECT_EQ(aster_ml_uop_dtype(nullptr), 0);
  EXPECT_EQ(aster_ml_uop_ndim(nullptr), 0u);
  EXPECT_EQ(aster_ml_uop_source_at(nullptr, 0), nullptr);
  EXPECT_EQ(aster_ml_uop_argument_at(nullptr, 0), 0);
}

TEST_F(UopApi, NodesOfAnotherContext) {
  aster_ml_context other{};
  ASSERT_EQ(aster_ml_context_init(&other, nullptr), 0);
  const Uop x = make("Param", ASTER_ML_DTYPE_FLOAT32, {}, {0}, {2, 3});
  EXPECT_EQ(aster_ml_uop_retain(&other, x), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_uop_release(&other, x), ASTER_ML_ARGUMENT);
  size_t count = 0;
  EXPECT_EQ(aster_ml_uop_walk(nullptr, &count, 0, &other, x), ASTER_ML_ARGUMENT);
  std::swap(context, other);
  expect(ASTER_ML_ARGUMENT, "Exp", 0, {x});
  std::swap(context, other);
  EXPECT_EQ(aster_ml_context_free(&other), 0);
}

TEST_F(UopApi, RetainAndCollect) {
  const Uop x = make("Param", ASTER_ML_DTYPE_FLOAT32, {}, {0}, {2});
  const Uop y = make("Exp", 0, {x});
  size_t count = 0;
  ASSERT_EQ(aster_ml_uop_release(&context, x), 0);
  ASSERT_EQ(aster_ml_uop_collect(&context), 0);
  ASSERT_EQ(aster_ml_uop_count(&count, &context), 0);
  EXPECT_EQ(count, 2u);
  ASSERT_EQ(aster_ml_uop_retain(&context, y), 0);
  ASSERT_EQ(aster_ml_uop_release(&context, y), 0);
  ASSERT_EQ(aster_ml_uop_release(&context, y), 0);
  EXPECT_EQ(aster_ml_uop_release(&context, y), ASTER_ML_STATE);
  ASSERT_EQ(aster_ml_uop_collect(&context), 0);
  ASSERT_EQ(aster_ml_uop_count(&count, &context), 0);
  EXPECT_EQ(count, 0u);
}

}  // namespace
