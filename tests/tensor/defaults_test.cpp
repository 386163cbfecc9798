// Default dtypes other than float32 and int32: against operations on tensors of these dtypes.
#include "aster_ml/engine.h"
#include "world.h"

namespace aster::tensor::test {
namespace {

constexpr int32_t kFloats[] = {ASTER_ML_DTYPE_FLOAT16, ASTER_ML_DTYPE_BFLOAT16,
                               ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DTYPE_FLOAT64};
constexpr int32_t kWeakFloat = ASTER_ML_DTYPE_WEAKFLOAT, kWeakInt = ASTER_ML_DTYPE_WEAKINT;

// The elements of a float tensor, exactly.
std::vector<double> doubles(T& x) {
  T wide;
  EXPECT_EQ(aster_ml_lazy_cast(wide, x, ASTER_ML_DTYPE_FLOAT64), 0) << message();
  return wide.read<double>();
}

class Defaults : public ::testing::TestWithParam<bool> {
 protected:
  World world{GetParam()};
  void set(int32_t dtype) { OK(aster_ml_engine_set_default_dtype(world, dtype)); }
  int32_t get(int32_t weak) {
    int32_t dtype = -1;
    EXPECT_EQ(aster_ml_engine_default_dtype(&dtype, world, weak), 0) << message();
    return dtype;
  }
};
INSTANTIATE_TEST_SUITE_P(Runtimes, Defaults, ::testing::Values(true, false),
                         [](const auto& runtime) {
                           return runtime.param ? "interpreted" : "compiled";
                         });

TEST_P(Defaults, AreSetByKind) {
  EXPECT_EQ(get(kWeakFloat), ASTER_ML_DTYPE_FLOAT32);
  EXPECT_EQ(get(kWeakInt), ASTER_ML_DTYPE_INT32);
  set(ASTER_ML_DTYPE_FLOAT64);
  set(ASTER_ML_DTYPE_INT64);
  EXPECT_EQ(get(kWeakFloat), ASTER_ML_DTYPE_FLOAT64);
  EXPECT_EQ(get(kWeakInt), ASTER_ML_DTYPE_INT64);
  const World other;
  int32_t dtype = 0;
  OK(aster_ml_engine_default_dtype(&dtype, other, kWeakFloat));
  EXPECT_EQ(dtype, ASTER_ML_DTYPE_FLOAT32);
}

TEST_P(Defaults, RefuseWhatIsNone) {
  for (const int32_t bad : {kWeakFloat, kWeakInt, int32_t{ASTER_ML_DTYPE_BOOL}}) {
    EXPECT_EQ(aster_ml_engine_set_default_dtype(world, bad), ASTER_ML_DTYPE) << bad;
  }
  for (const int32_t bad : {0, -1, 99}) {
    EXPECT_EQ(aster_ml_engine_set_default_dtype(world, bad), ASTER_ML_ARGUMENT) << bad;
  }
  int32_t dtype = 0;
  EXPECT_EQ(aster_ml_engine_default_dtype(&dtype, world, ASTER_ML_DTYPE_FLOAT32), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_engine_default_dtype(&dtype, world, 99), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_engine_default_dtype(nullptr, world, kWeakInt), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_engine_default_dtype(&dtype, nullptr, kWeakInt), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_engine_set_default_dtype(nullptr, ASTER_ML_DTYPE_INT8), ASTER_ML_ARGUMENT);
  EXPECT_EQ(get(kWeakFloat), ASTER_ML_DTYPE_FLOAT32);
  EXPECT_EQ(get(kWeakInt), ASTER_ML_DTYPE_INT32);
}

// A function of integers is that of the integers in the default float; those of two of them, and
// constants, likewise.
TEST_P(Defaults, FunctionsOfIntegers) {
  const T x = from<int32_t>(world, {1, 2, 3}, {3});
  for (const int32_t dtype : kFloats) {
    set(dtype);
    T same, seven, inner;
    OK(aster_ml_lazy_cast(same, x, dtype));
    for (const Unary f : {aster_ml_lazy_exp, aster_ml_lazy_sqrt, aster_ml_lazy_sin}) {
      T got, wanted;
      OK(f(got, x));
      OK(f(wanted, same));
      EXPECT_EQ(got.dtype(), dtype);
      EXPECT_EQ(doubles(got), doubles(wanted));
    }
    T got, wanted;
    OK(aster_ml_lazy_div(got, x, integer(world, 7)));
    OK(aster_ml_lazy_div(wanted, same, integer(world, 7)));
    EXPECT_EQ(got.dtype(), dtype);
    EXPECT_EQ(doubles(got), doubles(wanted));
    T weak;
    OK(aster_ml_lazy_mul(weak, x, number(world, 0.1)));
    OK(aster_ml_lazy_mul(inner, same, number(world, 0.1)));
    EXPECT_EQ(weak.dtype(), kWeakFloat);
    aster_ml_lazy* const handles[] = {weak};
    OK(aster_ml_lazy_realize(handles, 1));
    EXPECT_EQ(weak.dtype(), dtype);
    EXPECT_EQ(doubles(weak), doubles(inner));
  }
}

// What is made without a dtype is what is made with this one, draws of the same seed included.
TEST_P(Defaults, Creation) {
  const int64_t shape[] = {3, 4};
  using Make =
      int32_t (*)(aster_ml_lazy*, const aster_ml_context*, int32_t, size_t, const int64_t*);
  for (const int32_t dtype : kFloats) {
    set(dtype);
    for (const Make make : {aster_ml_lazy_zeros, aster_ml_lazy_ones, aster_ml_lazy_rand,
                            aster_ml_lazy_randn, aster_ml_lazy_scaled_uniform}) {
      T got, wanted;
      OK(aster_ml_lazy_manual_seed(world, 5));
      OK(make(got, world, 0, 2, shape));
      OK(aster_ml_lazy_manual_seed(world, 5));
      OK(make(wanted, world, dtype, 2, shape));
      EXPECT_EQ(got.dtype(), dtype);
      EXPECT_EQ(doubles(got), doubles(wanted));
    }
    T whole, drawn;
    OK(aster_ml_lazy_manual_seed(world, 5));
    OK(aster_ml_lazy_rand(drawn, world, 0, 2, shape));
    OK(aster_ml_lazy_manual_seed(world, 5));
    OK(aster_ml_lazy_randint(whole, world, 0, 8, 0, 2, shape));
    const std::vector<double> unit = doubles(drawn);
    for (size_t i = 0; i < unit.size(); ++i) {  // 8 is a power of two: nothing is rounded
      EXPECT_EQ(whole.read<int32_t>()[i], static_cast<int32_t>(unit[i] * 8));
    }
  }
  set(ASTER_ML_DTYPE_INT16);
  T range;
  OK(aster_ml_lazy_arange(range, world, 0, 4, 1, 0));
  EXPECT_EQ(range.read<int16_t>(), (std::vector<int16_t>{0, 1, 2, 3}));
}

// What was left pending under another default is stored as the one at realising says.
TEST_P(Defaults, PendingAcrossAChange) {
  const T x = from<int32_t>(world, {1, 2, 3}, {3});
  set(ASTER_ML_DTYPE_FLOAT64);
  T weak;
  OK(aster_ml_lazy_mul(weak, x, number(world, 0.5)));
  set(ASTER_ML_DTYPE_FLOAT16);
  aster_ml_lazy* const handles[] = {weak};
  OK(aster_ml_lazy_realize(handles, 1));
  EXPECT_EQ(weak.dtype(), ASTER_ML_DTYPE_FLOAT16);
  EXPECT_EQ(doubles(weak), (std::vector<double>{0.5, 1, 1.5}));
}

}  // namespace
}  // namespace aster::tensor::test
