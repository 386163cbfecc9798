// Small computations done again by the table of those done before: expected values are loops by
// hand on data that is new each time.
#include "aster_ml/engine.h"
#include "world.h"

namespace aster::tensor::test {
namespace {

using Floats = std::vector<float>;

Floats ramp(size_t count, float first) {
  Floats v(count);
  for (size_t i = 0; i < count; ++i) v[i] = first + static_cast<float>(i);
  return v;
}

struct Owned {
  aster_ml_tensor t{};
  ~Owned() { aster_ml_tensor_free(&t); }
  Owned(const World& world, const Floats& data, std::vector<size_t> shape) {
    EXPECT_EQ(aster_ml_tensor_from_data(&t, world, data.data(), ASTER_ML_DTYPE_FLOAT32,
                                        shape.size(), shape.data()),
              0)
        << message();
  }
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Floats floats() const {
    Floats v(aster_ml_tensor_count(&t));
    EXPECT_EQ(aster_ml_tensor_copy_out(v.data(), &t, v.size()), 0) << message();
    return v;
  }
};

aster_ml_engine_counters counted(const World& world) {
  aster_ml_engine_counters c{};
  c.struct_size = sizeof(c);
  EXPECT_EQ(aster_ml_engine_count(&c, world), 0) << message();
  return c;
}

int32_t realize(T& x) {
  aster_ml_lazy* const all[] = {&x.x};
  return aster_ml_lazy_realize(all, 1);
}

TEST(Ready, EagerCallsAgainReadWhatTheyAreGiven) {
  const World world(false);
  for (int round = 0; round < 4; ++round) {
    const auto first = static_cast<float>(10 * round);
    // The same operation on other shapes, with one operand twice, and turned round.
    for (const size_t rows : {size_t{2}, size_t{3}}) {
      const Floats a = ramp(rows * 4, first), b = ramp(4, 100 + first);
      const Owned x(world, a, {rows, 4}), y(world, b, {4});
      Owned difference, back, none, total;
      OK(aster_ml_tensor_sub(&difference.t, world, &x.t, &y.t));
      OK(aster_ml_tensor_sub(&back.t, world, &y.t, &x.t));
      OK(aster_ml_tensor_sub(&none.t, world, &x.t, &x.t));
      const int64_t axis = round % 2;
      OK(aster_ml_tensor_sum(&total.t, world, &x.t, 1, &axis, 0));
      ASSERT_EQ(difference.t.ndim, 2u);
      EXPECT_EQ(difference.t.shape[0], rows);
      EXPECT_EQ(difference.t.strides[0], 4);
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(difference.floats()[i], a[i] - b[i % 4]);
        EXPECT_EQ(back.floats()[i], b[i % 4] - a[i]);
        EXPECT_EQ(none.floats()[i], 0);
      }
      Floats sums(axis == 0 ? 4 : rows, 0);
      for (size_t i = 0; i < a.size(); ++i) sums[axis == 0 ? i % 4 : i / 4] += a[i];
      EXPECT_EQ(total.floats(), sums);
    }
  }
  const aster_ml_engine_counters c = counted(world);
  EXPECT_EQ(c.realizes, 4u * 2 * 4);
  EXPECT_EQ(c.kernels_launched, c.realizes);
}

TEST(Ready, OtherLayoutsAndWrongOnesTakeTheOtherWay) {
  const World world(false);
  const Floats a = ramp(6, 1);
  const Owned x(world, a, {2, 3});
  for (int round = 0; round < 3; ++round) {
    Owned plain, turned;
    OK(aster_ml_tensor_neg(&plain.t, world, &x.t));
    EXPECT_EQ(plain.floats(), (Floats{-1, -2, -3, -4, -5, -6}));
    size_t shape[] = {3, 2};
    ptrdiff_t strides[] = {1, 3};
    aster_ml_tensor view = x.t;
    view.shape = shape;
    view.strides = strides;
    OK(aster_ml_tensor_neg(&turned.t, world, &view));
    EXPECT_EQ(turned.floats(), (Floats{-1, -4, -2, -5, -3, -6}));
    aster_ml_tensor outside = x.t, wrong = x.t, out{};
    outside.byte_offset = 8;
    EXPECT_EQ(aster_ml_tensor_neg(&out, world, &outside), ASTER_ML_RANGE);
    wrong.dtype = 99;
    EXPECT_EQ(aster_ml_tensor_neg(&out, world, &wrong), ASTER_ML_ARGUMENT);
    EXPECT_EQ(aster_ml_tensor_neg(&out, world, nullptr), ASTER_ML_ARGUMENT);
    aster_ml_tensor same = x.t;
    EXPECT_EQ(aster_ml_tensor_neg(&same, world, &same), ASTER_ML_ARGUMENT);
  }
}

TEST(Ready, StrictParityIsAnotherOperation) {
  const World world(false);
  const Floats a = ramp(5, -2);
  const Owned x(world, a, {5});
  Floats free[2], strict[2];
  for (int round = 0; round < 2; ++round) {
    Owned y, z;
    OK(aster_ml_context_set_strict_parity(world, 0));
    OK(aster_ml_tensor_erf(&y.t, world, &x.t));
    OK(aster_ml_context_set_strict_parity(world, 1));
    OK(aster_ml_tensor_erf(&z.t, world, &x.t));
    free[round] = y.floats();
    strict[round] = z.floats();
  }
  EXPECT_EQ(free[0], free[1]);
  EXPECT_EQ(strict[0], strict[1]);
  EXPECT_NE(free[0], strict[0]);
}

TEST(Ready, LazyExpressionsSeeWhatTheirOperandsAre) {
  const World world(false);
  for (int round = 0; round < 4; ++round) {
    const Floats a = ramp(8, static_cast<float>(round)), b = ramp(8, 3);
    T x = from(world, a, {2, 4}), y = from(world, b, {2, 4});
    T sum, same, scaled, total;
    OK(aster_ml_lazy_add(sum, x, y));
    OK(aster_ml_lazy_mul(scaled, sum, y));
    const int64_t axis = 1;
    OK(aster_ml_lazy_sum(total, scaled, 1, &axis, 0));
    // What others name, or are computed of, is seen by them.
    OK(aster_ml_lazy_add(same, x, y));
    OK(realize(total));
    OK(realize(sum));
    EXPECT_EQ(aster_ml_lazy_is_realized(same), 1);
    OK(realize(scaled));
    Floats sums(2, 0);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(same.floats()[i], a[i] + b[i]);
      EXPECT_EQ(scaled.floats()[i], (a[i] + b[i]) * b[i]);
      sums[i / 4] += (a[i] + b[i]) * b[i];
    }
    EXPECT_EQ(total.floats(), sums);
    EXPECT_EQ(total.shape(), Shape{2});
    // An assignment comes between two equal expressions.
    T before, after;
    OK(aster_ml_lazy_sub(before, x, y));
    OK(realize(before));
    OK(aster_ml_lazy_assign(x, y));
    OK(aster_ml_lazy_sub(after, x, y));
    OK(realize(after));
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(before.floats()[i], a[i] - b[i]);
    EXPECT_EQ(after.floats(), Floats(8, 0));
  }
}

TEST(Ready, PartsOfStorageAreFoundWhereTheyLie) {
  const World world(false);
  for (int round = 0; round < 3; ++round) {
    const Floats a = ramp(12, static_cast<float>(round));
    T x = from(world, a, {12});
    OK(realize(x));
    for (const int64_t begin : {0, 4, 8}) {
      T part, twice;
      const int64_t start[] = {begin}, stop[] = {begin + 4}, step[] = {1};
      OK(aster_ml_lazy_slice(part, x, 1, start, stop, step));
      OK(aster_ml_lazy_add(twice, part, part));
      OK(realize(twice));
      for (size_t i = 0; i < 4; ++i)
        EXPECT_EQ(twice.floats()[i], 2 * a[static_cast<size_t>(begin) + i]);
    }
  }
}

TEST(Ready, RealizeReadySaysWhetherItDid) {
  const World world(false);
  const Floats a = ramp(6, 1);
  T x = from(world, a, {6});
  OK(realize(x));
  int32_t done = 7;
  T first, second;
  OK(aster_ml_lazy_neg(first, x));
  OK(aster_ml_lazy_realize_ready(&done, first));
  EXPECT_EQ(done, 0);
  EXPECT_EQ(aster_ml_lazy_is_realized(first), 0);
  OK(realize(first));
  OK(aster_ml_lazy_realize_ready(&done, first));
  EXPECT_EQ(done, 1);
  T other = from(world, ramp(6, 20), {6});
  OK(realize(other));
  OK(aster_ml_lazy_neg(second, other));
  OK(aster_ml_lazy_realize_ready(&done, second));
  EXPECT_EQ(done, 1);
  EXPECT_EQ(aster_ml_lazy_is_realized(second), 1);
  EXPECT_EQ(second.floats(), (Floats{-20, -21, -22, -23, -24, -25}));
  EXPECT_EQ(aster_ml_lazy_realize_ready(nullptr, first), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_realize_ready(&done, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(done, 0);
}

}  // namespace
}  // namespace aster::tensor::test
