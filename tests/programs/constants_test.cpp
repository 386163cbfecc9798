// Realised constants are tensors like others: each has storage of its own.
#include "aster.h"

namespace programs {
namespace {

T zeros(Session& s, const Shape& shape) {
  return make(aster_ml_lazy_zeros, &s.context, int32_t{0}, shape.size(), shape.data());
}

void add_one(Session& s, T x) {
  T next = x + number(s, 1);
  OK(aster_ml_lazy_assign(&x.h, &next.h));
  realize({&x});
}

TEST(Constants, EqualOnesAreApart) {
  Session s;
  T a = zeros(s, {3}), b = zeros(s, {3});
  realize({&a, &b});
  add_one(s, a);
  EXPECT_EQ(read(a), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(read(b), (std::vector<float>{0, 0, 0}));
}

// The 0 of relu is the node of zeros({3}): writes to one must not reach the other.
TEST(Constants, StayConstantInOtherExpressions) {
  Session s;
  T x = from(s, std::vector<float>{-1, 2, -3}, {3}), y = relu(x), a = zeros(s, {3});
  realize({&a});
  add_one(s, a);
  EXPECT_EQ(read(y), (std::vector<float>{0, 2, 0}));
}

TEST(Constants, OfEveryDtype) {
  Session s;
  for (int32_t dtype = ASTER_ML_DTYPE_BOOL; dtype <= ASTER_ML_DTYPE_FLOAT64; ++dtype) {
    const int64_t shape[] = {2, 1};
    T x = make(aster_ml_lazy_ones, &s.context, dtype, size_t{2}, shape);
    realize({&x});
    T wide = make(aster_ml_lazy_cast, &x.h, int32_t{ASTER_ML_DTYPE_FLOAT32});
    EXPECT_EQ(read(wide), (std::vector<float>{1, 1})) << aster_ml_dtype_name(dtype);
  }
  T weak = number(s, 2.5);
  EXPECT_EQ(read(weak), std::vector<float>{2.5});
  EXPECT_EQ(aster_ml_lazy_dtype(&weak.h), ASTER_ML_DTYPE_FLOAT32);
}

}  // namespace
}  // namespace programs
