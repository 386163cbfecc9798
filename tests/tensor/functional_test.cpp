// dot_general, broadcast and rms_norm against sums written out, and gradients that tensors keep.
#include <random>

#include "aster_ml/linalg.h"
#include "aster_ml/movement.h"
#include "aster_ml/uop.h"
#include "tensor/world.h"

namespace aster::tensor::test {
namespace {

using Axes = std::vector<int64_t>;

T data(const World& world, const std::vector<float>& values, const Shape& shape) {
  T out;
  EXPECT_EQ(aster_ml_lazy_from(out, world, values.data(), ASTER_ML_DTYPE_FLOAT32, shape.size(),
                               shape.data()),
            0)
      << message();
  return out;
}
size_t count_of(const Shape& shape) {
  size_t n = 1;
  for (int64_t d : shape) n *= static_cast<size_t>(d);
  return n;
}
size_t place(const Shape& shape, const Axes& index) {
  size_t at = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    at = at * static_cast<size_t>(shape[i]) + static_cast<size_t>(index[i]);
  return at;
}
bool next(const Shape& shape, Axes& index) {
  for (size_t i = shape.size(); i-- > 0;) {
    if (++index[i] < shape[i]) return true;
    index[i] = 0;
  }
  return false;
}
int32_t dot_general(aster_ml_lazy* out, const T& a, const T& b, const Axes& ca, const Axes& cb,
                    const Axes& ba, const Axes& bb, int32_t accumulate = 0, int32_t dtype = 0) {
  return aster_ml_lazy_dot_general(out, a, b, ca.size(), ca.data(), cb.data(), ba.size(), ba.data(),
                                   bb.data(), accumulate, dtype);
}

// The definition, one product at a time: sizes by letters, as einsum has them.
TEST(Functional, DotGeneralIsItsDefinition) {
  World world;
  std::mt19937 random(7);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 40; ++round) {
    const size_t batches = random() % 3, contracted = random() % 3, fa = random() % 3,
                 fb = random() % 3;
    Shape sa, sb, result;
    Axes ca, cb, ba, bb;
    // Axes of each operand in a random order: what each is, b(atch), c(ontracted) or f(ree).
    std::vector<std::pair<char, size_t>> ka, kb;
    for (size_t i = 0; i < batches; ++i) ka.push_back({'b', i}), kb.push_back({'b', i});
    for (size_t i = 0; i < contracted; ++i) ka.push_back({'c', i}), kb.push_back({'c', i});
    for (size_t i = 0; i < fa; ++i) ka.push_back({'f', i});
    for (size_t i = 0; i < fb; ++i) kb.push_back({'f', i});
    std::shuffle(ka.begin(), ka.end(), random);
    std::shuffle(kb.begin(), kb.end(), random);
    std::vector<int64_t> size_b(batches), size_c(contracted);
    for (int64_t& d : size_b) d = below(3) + 1;
    for (int64_t& d : size_c) d = below(3) + 1;
    ba.resize(batches), bb.resize(batches), ca.resize(contracted), cb.resize(contracted);
    const auto lay_out = [&](const auto& kinds, Shape& shape, Axes& batch, Axes& contract) {
      for (size_t i = 0; i < kinds.size(); ++i) {
        const auto [kind, number] = kinds[i];
        shape.push_back(kind == 'b' ? size_b[number] : kind == 'c' ? size_c[number] : below(4) + 1);
        const auto axis =
            static_cast<int64_t>(i) - (random() % 2 ? static_cast<int64_t>(kinds.size()) : 0);
        if (kind == 'b') batch[number] = axis;
        if (kind == 'c') contract[number] = axis;
      }
    };
    lay_out(ka, sa, ba, ca);
    lay_out(kb, sb, bb, cb);
    result = size_b;
    for (size_t i = 0; i < ka.size(); ++i)
      if (ka[i].first == 'f') result.push_back(sa[i]);
    for (size_t i = 0; i < kb.size(); ++i)
      if (kb[i].first == 'f') result.push_back(sb[i]);
    std::vector<float> va(count_of(sa)), vb(count_of(sb)), want(count_of(result));
    for (float& v : va) v = static_cast<float>(static_cast<int>(random() % 9) - 4);
    for (float& v : vb) v = static_cast<float>(static_cast<int>(random() % 9) - 4);
    Axes at(result.size(), 0);
    do {
      Axes sum(contracted, 0);
      do {
        Axes ia(sa.size()), ib(sb.size());
        size_t free = batches;
        for (size_t i = 0; i < ka.size(); ++i)
          ia[i] = ka[i].first == 'b'   ? at[ka[i].second]
                  : ka[i].first == 'c' ? sum[ka[i].second]
                                       : at[free++];
        for (size_t i = 0; i < kb.size(); ++i)
          ib[i] = kb[i].first == 'b'   ? at[kb[i].second]
                  : kb[i].first == 'c' ? sum[kb[i].second]
                                       : at[free++];
        want[place(result, at)] += va[place(sa, ia)] * vb[place(sb, ib)];
      } while (next(size_c, sum));
    } while (next(result, at));
    T a = data(world, va, sa), b = data(world, vb, sb), y;
    OK(dot_general(y, a, b, ca, cb, ba, bb));
    EXPECT_EQ(y.shape(), result);
    EXPECT_EQ(y.floats(), want) << round;
  }
}

TEST(Functional, DotGeneralAccumulates) {
  World world;
  T a = data(world, std::vector<float>(4096, 1.0f), {1, 4096}), half, y, wide;
  OK(aster_ml_lazy_cast(half, a, ASTER_ML_DTYPE_INT8));
  OK(dot_general(y, half, half, {1}, {1}, {}, {}, ASTER_ML_DTYPE_INT32));
  EXPECT_EQ(y.dtype(), ASTER_ML_DTYPE_INT8);  // summed exactly, then of the operands' dtype
  EXPECT_EQ(y.read<int8_t>()[0], 0);
  OK(dot_general(wide, half, half, {1}, {1}, {}, {}, ASTER_ML_DTYPE_INT32, ASTER_ML_DTYPE_INT32));
  EXPECT_EQ(wide.read<int32_t>()[0], 4096);
  // 2^24 and 1 add up to themselves in float64, to 2^24 in float32, whatever the result's dtype.
  T x = data(world, {16777216, 1}, {2}), ones = data(world, {1, 1}, {2});
  for (const auto& [accumulate, want] :
       {std::pair{ASTER_ML_DTYPE_FLOAT64, 16777217.0}, {ASTER_ML_DTYPE_FLOAT32, 16777216.0}}) {
    T sum;
    OK(dot_general(sum, x, ones, {0}, {0}, {}, {}, accumulate, ASTER_ML_DTYPE_FLOAT64));
    EXPECT_EQ(sum.read<double>()[0], want);
  }
}

TEST(Functional, DotGeneralRefuses) {
  World world;
  T a = data(world, {1, 2, 3, 4, 5, 6}, {2, 3}), y;
  EXPECT_EQ(dot_general(y, a, a, {0}, {1}, {}, {}), ASTER_ML_SHAPE);
  EXPECT_EQ(dot_general(y, a, a, {2}, {1}, {}, {}), ASTER_ML_RANGE);
  EXPECT_EQ(dot_general(y, a, a, {0}, {0}, {0}, {0}), ASTER_ML_RANGE);
  EXPECT_EQ(dot_general(y, a, a, {0, 0}, {0, 1}, {}, {}), ASTER_ML_RANGE);
  EXPECT_EQ(dot_general(y, a, a, {0}, {0}, {1}, {1}, 999), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_dot_general(y, a, a, 1, nullptr, nullptr, 0, nullptr, nullptr, 0, 0),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(y.x.impl, nullptr);
}

TEST(Functional, BroadcastPlacesAxes) {
  World world;
  T x = data(world, {1, 2, 3, 4, 5, 6}, {2, 3}), y;
  const Shape shape = {3, 2, 2};
  const Axes axes = {2, 0};
  OK(aster_ml_lazy_broadcast(y, x, 3, shape.data(), 2, axes.data()));
  const std::vector<float> got = y.floats();
  Axes at(3, 0);
  do {
    EXPECT_EQ(got[place(shape, at)], static_cast<float>(1 + at[2] * 3 + at[0]));
  } while (next(shape, at));
  T one = data(world, {7}, {1}), wide;
  const Axes last = {-1};
  OK(aster_ml_lazy_broadcast(wide, one, 3, shape.data(), 1, last.data()));
  EXPECT_EQ(wide.floats(), std::vector<float>(12, 7));
  T bad;
  const Axes twice = {0, 0}, out = {0, 3}, wrong = {0, 1};
  const Shape negative = {2, -1}, fits = {2, 3, 3};
  EXPECT_EQ(aster_ml_lazy_broadcast(bad, x, 3, fits.data(), 2, twice.data()), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_broadcast(bad, x, 3, fits.data(), 2, out.data()), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_broadcast(bad, x, 3, shape.data(), 2, wrong.data()), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_broadcast(bad, x, 3, shape.data(), 1, last.data()), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_broadcast(bad, x, 2, negative.data(), 2, wrong.data()), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_broadcast(bad, x, 3, shape.data(), 2, nullptr), ASTER_ML_ARGUMENT);
}

TEST(Functional, RmsNorm) {
  World world;
  const std::vector<float> v = {1, -2, 3, 0.5f, 4, -1};
  T x = data(world, v, {2, 3}), w = data(world, {1, 2, 3}, {3}), y, plain;
  OK(aster_ml_lazy_rms_norm(y, x, 1, w, 1e-6));
  const std::vector<float> got = y.floats();
  for (size_t i = 0; i < 6; ++i) {
    double square = 0;
    for (size_t k = 0; k < 3; ++k)
      square += static_cast<double>(v[i / 3 * 3 + k]) * v[i / 3 * 3 + k];
    const double want = v[i] / std::sqrt(square / 3 + 1e-6) * static_cast<double>(i % 3 + 1);
    EXPECT_NEAR(got[i], want, 1e-5);
  }
  OK(aster_ml_lazy_rms_norm(plain, x, 2, nullptr, 0));
  double all = 0;
  for (float each : plain.floats()) all += static_cast<double>(each) * each;
  EXPECT_NEAR(all, 6, 1e-4);  // the mean of squares is 1
  T bad;
  EXPECT_EQ(aster_ml_lazy_rms_norm(bad, x, 0, nullptr, 0), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_rms_norm(bad, x, 3, nullptr, 0), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_rms_norm(bad, x, 1, nullptr, -1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_rms_norm(bad, x, 1, nullptr, std::nan("")), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_rms_norm(bad, x, 2, w, 0), ASTER_ML_SHAPE);
}

// loss = sum(w * x * x): its gradients are 2 w x and x^2.
struct Step {
  explicit Step(const World& world)
      : x(data(world, {1, 2, 3}, {3})), w(data(world, {4, 5, 6}, {3})) {
    EXPECT_EQ(aster_ml_lazy_set_requires_grad(x, 1), 0) << message();
  }
  void run(T* loss) {
    T square, product;
    EXPECT_EQ(aster_ml_lazy_mul(square, x, x), 0);
    EXPECT_EQ(aster_ml_lazy_mul(product, square, w), 0);
    EXPECT_EQ(aster_ml_lazy_sum(*loss, product, 0, nullptr, 0), 0);
  }
  T x, w;
};

TEST(Backward, AddsUpAndGivesTheGraphUp) {
  World world;
  Step step(world);
  EXPECT_EQ(aster_ml_lazy_requires_grad(step.x), 1);
  EXPECT_EQ(aster_ml_lazy_requires_grad(step.w), 0);
  T none;
  EXPECT_EQ(aster_ml_lazy_grad(none, step.x), ASTER_ML_NOT_FOUND);
  size_t before = 0, after = 0;
  T first, handle;
  step.run(&first);
  OK(aster_ml_lazy_backward(first, nullptr));
  OK(aster_ml_lazy_grad(handle, step.x));
  EXPECT_EQ(handle.floats(), (std::vector<float>{8, 20, 36}));
  EXPECT_EQ(aster_ml_lazy_grad(none, step.w), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(first.floats()[0], 4 + 20 + 54);
  // Nothing but memory is left of the step: x, w, loss and the gradient.
  EXPECT_EQ(aster_ml_lazy_is_realized(first), 1);
  OK(aster_ml_uop_collect(world));
  OK(aster_ml_uop_count(&before, world));
  EXPECT_LE(before, 8u);
  EXPECT_EQ(aster_ml_lazy_backward(first, nullptr), ASTER_ML_STATE);  // given up
  T second;
  step.run(&second);
  OK(aster_ml_lazy_backward(second, nullptr));
  EXPECT_EQ(handle.floats(), (std::vector<float>{16, 40, 72}));  // the handle sees the sum
  OK(aster_ml_uop_collect(world));
  OK(aster_ml_uop_count(&after, world));
  EXPECT_LE(after, before + 2);
  OK(aster_ml_lazy_reset_grad(step.x));
  EXPECT_EQ(aster_ml_lazy_grad(none, step.x), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(handle.floats(), (std::vector<float>{16, 40, 72}));
}

TEST(Backward, RetainedGraphsGiveMore) {
  World world;
  Step step(world);
  OK(aster_ml_lazy_set_requires_grad(step.w, 1));
  aster_ml_backward_options options{};
  options.struct_size = sizeof(options);
  options.retain_graph = 1;
  T loss, dx, dw, seed = data(world, {10}, {});
  step.run(&loss);
  OK(aster_ml_lazy_backward(loss, &options));
  options.seed = seed;
  OK(aster_ml_lazy_backward(loss, &options));
  OK(aster_ml_lazy_grad(dx, step.x));
  OK(aster_ml_lazy_grad(dw, step.w));
  EXPECT_EQ(dx.floats(), (std::vector<float>{88, 220, 396}));
  EXPECT_EQ(dw.floats(), (std::vector<float>{11, 44, 99}));
  OK(aster_ml_lazy_set_requires_grad(step.w, 0));
  EXPECT_EQ(aster_ml_lazy_requires_grad(step.w), 0);
}

TEST(Backward, HandlesComeAndGoInAnyOrder) {
  World world;
  T late;
  {
    Step step(world);
    T other = data(world, {1}, {1}), third = data(world, {1}, {1});
    OK(aster_ml_lazy_set_requires_grad(other, 1));
    OK(aster_ml_lazy_set_requires_grad(other, 1));
    OK(aster_ml_lazy_set_requires_grad(third, 1));
    aster_ml_lazy_free(other);
    aster_ml_scope scope{};
    OK(aster_ml_scope_begin(&scope, world));
    aster_ml_lazy loss{}, a{}, b{};
    aster_ml_lazy_mul(&a, step.x, step.x);
    aster_ml_lazy_mul(&b, &a, step.w);
    aster_ml_lazy_sum(&loss, &b, 0, nullptr, 0);
    OK(aster_ml_lazy_backward(&loss, nullptr));
    OK(aster_ml_scope_end(&scope));
    OK(aster_ml_lazy_grad(late, step.x));  // the gradient is of no scope
  }
  EXPECT_EQ(late.floats(), (std::vector<float>{8, 20, 36}));
}

TEST(Backward, RefusesWhatHasNoGradient) {
  World world;
  T x = data(world, {1, 2}, {2}), ints, none, sum;
  OK(aster_ml_lazy_cast(ints, x, ASTER_ML_DTYPE_INT32));
  EXPECT_EQ(aster_ml_lazy_set_requires_grad(ints, 1), ASTER_ML_DTYPE);
  aster_ml_error_clear();
  EXPECT_EQ(aster_ml_lazy_set_requires_grad(none, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_requires_grad(none), 0);
  EXPECT_EQ(aster_ml_lazy_requires_grad(nullptr), 0);
  OK(aster_ml_lazy_sum(sum, x, 0, nullptr, 0));
  EXPECT_EQ(aster_ml_lazy_backward(sum, nullptr), ASTER_ML_STATE);
  OK(aster_ml_lazy_set_requires_grad(x, 1));
  EXPECT_EQ(aster_ml_lazy_backward(x, nullptr), ASTER_ML_SHAPE);  // no scalar, no seed
  aster_ml_error_clear();
  EXPECT_EQ(aster_ml_lazy_backward(none, nullptr), ASTER_ML_ARGUMENT);
}

}  // namespace
}  // namespace aster::tensor::test
