// What indexing, gathering, scattering, sorting and selecting refuse: the code, and a message that
// names the function, the shapes and the dtypes.
#include <limits>

#include "refusal.h"

namespace programs {
namespace {

class IndexingRefusals : public RefusalTest {
 protected:
  // x[items] and x[items] = 0 are refused alike, and x stays.
  void refuse(int32_t code, std::vector<aster_ml_index> items,
              const std::vector<std::string>& words) {
    const aster_ml_index* const first = items.data();
    expect(aster_ml_lazy_index(&out, square.get(), items.size(), first), code,
           "aster_ml_lazy_index", words);
    expect(aster_ml_lazy_index_assign(square.get(), items.size(), first, zero.get()), code,
           "aster_ml_lazy_index_assign", words);
    EXPECT_EQ(read(square), noise(9, 1));
  }
  static aster_ml_index item(int32_t kind, int64_t start = 0) {
    return {kind, start, 0, 1, nullptr};
  }
  static aster_ml_index by(const Tensor& tensor) {
    return {ASTER_ML_INDEX_TENSOR, 0, 0, 1, tensor.get()};
  }

  Tensor square = data({3, 3}), line = data({4}), zero = Tensor(0.0);
  Tensor pair = Tensor(std::vector<int32_t>{0, 1}, {2}),
         three = Tensor(std::vector<int32_t>{0, 1, 2}, {3});
  Tensor mask = make(aster_ml_lazy_cast, pair.get(), ASTER_ML_DTYPE_BOOL);
};

TEST_F(IndexingRefusals, Items) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  refuse(ASTER_ML_RANGE, {item(ASTER_ML_INDEX_INTEGER, 3)}, {"3", "axis 0", "float32[3, 3]"});
  refuse(ASTER_ML_RANGE, {item(ASTER_ML_INDEX_INTEGER, kFar)}, {"axis 0", "float32[3, 3]"});
  refuse(ASTER_ML_RANGE, {item(0), item(ASTER_ML_INDEX_INTEGER, -4)}, {"-4", "axis 1"});
  refuse(ASTER_ML_RANGE, {item(0), item(0), item(0)}, {"float32[3, 3]", "3"});
  refuse(ASTER_ML_RANGE, {by(pair), by(pair), by(pair)}, {"float32[3, 3]", "3"});
  refuse(ASTER_ML_ARGUMENT, {item(ASTER_ML_INDEX_ELLIPSIS), item(ASTER_ML_INDEX_ELLIPSIS)},
         {"ellipses"});
  refuse(ASTER_ML_ARGUMENT, {item(5)}, {"item 0", "5"});
  refuse(ASTER_ML_ARGUMENT, {item(0), item(-1)}, {"item 1", "-1"});
  refuse(ASTER_ML_ARGUMENT, {item(ASTER_ML_INDEX_TENSOR)}, {});
  refuse(ASTER_ML_DTYPE, {by(line)}, {"float32[3, 3]", "float32[4]"});
  refuse(ASTER_ML_SHAPE, {by(three), by(pair)}, {"float32[3, 3]", "int32[2]", "[3]"});
  refuse(ASTER_ML_SHAPE, {by(mask)}, {"float32[3, 3]", "bool[2]", "axis 0"});
  refuse(ASTER_ML_SHAPE, {item(0), by(mask)}, {"float32[3, 3]", "bool[2]", "axis 1"});
  const std::vector<aster_ml_index> many(300, item(ASTER_ML_INDEX_NEW_AXIS));
  refuse(ASTER_ML_RANGE, many, {"300"});
  REFUSED(ARGUMENT, aster_ml_lazy_index, ({"items"}), square.get(), 1, nullptr);
}

TEST_F(IndexingRefusals, Values) {
  const aster_ml_index row = item(ASTER_ML_INDEX_INTEGER, 1), rows = by(pair);
  const auto assign = [&](const aster_ml_index& to, const Tensor& value, int32_t code,
                          const std::vector<std::string>& words) {
    expect(aster_ml_lazy_index_assign(square.get(), 1, &to, value.get()), code,
           "aster_ml_lazy_index_assign", words);
  };
  for (const aster_ml_index& to : {row, rows}) {
    assign(to, line, ASTER_ML_SHAPE, {"float32[", "4]", "3]"});
    assign(to, three, ASTER_ML_DTYPE, {"int32[3]", "float32[3, 3]"});
  }
  const aster_ml_index masked = by(mask);
  expect(aster_ml_lazy_index_assign(line.get(), 1, &masked, zero.get()), ASTER_ML_SHAPE,
         "aster_ml_lazy_index_assign", {"float32[4]", "bool[2]"});
  EXPECT_EQ(read(square), noise(9, 1));
}

TEST_F(IndexingRefusals, AlongAnAxis) {
  Tensor column = Tensor(std::vector<int32_t>{0, 1, 2}, {3, 1}),
         wide = Tensor(std::vector<int32_t>(8, 0), {4, 2});
  REFUSED(RANGE, aster_ml_lazy_gather, ({"2", "2"}), square.get(), 2, column.get());
  REFUSED(SHAPE, aster_ml_lazy_gather, ({"gather of float32[3, 3]", "axis 0", "int32[3]"}),
          square.get(), 0, three.get());
  REFUSED(SHAPE, aster_ml_lazy_gather, ({"float32[3, 3]", "int32[4, 2]"}), square.get(), 1,
          wide.get());
  REFUSED(DTYPE, aster_ml_lazy_gather, ({"float32[3, 3]", "float32[3, 3]"}), square.get(), 0,
          square.get());
  REFUSED(ARGUMENT, aster_ml_lazy_scatter, ({"mode 6"}), square.get(), 0, column.get(),
          square.get(), 6, 1);
  REFUSED(ARGUMENT, aster_ml_lazy_scatter, ({"mode -1"}), square.get(), 0, column.get(),
          square.get(), -1, 1);
  REFUSED(SHAPE, aster_ml_lazy_scatter, ({"float32[4]", "float32[3, 3]", "int32[3, 1]"}),
          square.get(), 0, column.get(), line.get(), ASTER_ML_SCATTER_ADD, 1);
  REFUSED(DTYPE, aster_ml_lazy_scatter, ({"int32[3, 1]", "float32[3, 3]"}), square.get(), 0,
          column.get(), column.get(), ASTER_ML_SCATTER_WRITE, 1);
  REFUSED(RANGE, aster_ml_lazy_scatter, ({"-3", "2"}), square.get(), -3, column.get(), square.get(),
          0, 1);
}

TEST_F(IndexingRefusals, SortingAndSelecting) {
  REFUSED(RANGE, aster_ml_lazy_argsort, ({"2"}), square.get(), 2, 0);
  REFUSED(RANGE, aster_ml_lazy_sort, ({"-3"}), &second, square.get(), -3, 0);
  REFUSED(RANGE, aster_ml_lazy_topk, ({"4", "axis 1", "float32[3, 3]"}), &second, square.get(), 4,
          1, 1);
  REFUSED(RANGE, aster_ml_lazy_topk, ({"-1"}), &second, square.get(), -1, 1, 1);
  expect(aster_ml_lazy_sort(&out, &out, square.get(), 0, 0), ASTER_ML_ARGUMENT,
         "aster_ml_lazy_sort", {"two handles"});
  REFUSED(DTYPE, aster_ml_lazy_masked_select, ({"float32[4]", "int32[2]"}), line.get(), pair.get(),
          -1, nullptr);
  REFUSED(SHAPE, aster_ml_lazy_masked_select, ({"bool[2]", "4"}), line.get(), mask.get(), 3,
          nullptr);
  REFUSED(RANGE, aster_ml_lazy_masked_select, ({"-2"}), pair.get(), mask.get(), -2, nullptr);
  REFUSED(RANGE, aster_ml_lazy_nonzero, ({"-2"}), pair.get(), -2, nullptr);
}

TEST_F(IndexingRefusals, SizesThatDependOnDataInACapture) {
  EXPECT_OK(realize(line, mask, pair));
  aster_ml_lazy* inputs[] = {line.get()};
  EXPECT_OK(aster_ml_engine_capture_begin(s.get(), inputs, 1));
  Tensor positive = make(aster_ml_lazy_cast, line.get(), ASTER_ML_DTYPE_BOOL);
  const aster_ml_index masked = by(positive);
  REFUSED(STATE, aster_ml_lazy_index, ({"bool[4]", "capture"}), line.get(), 1, &masked);
  REFUSED(STATE, aster_ml_lazy_masked_select, ({"capture"}), line.get(), positive.get(), -1,
          nullptr);
  REFUSED(STATE, aster_ml_lazy_nonzero, ({"capture"}), line.get(), -1, nullptr);
  EXPECT_OK(aster_ml_engine_capture_cancel(s.get()));
}

}  // namespace
}  // namespace programs
