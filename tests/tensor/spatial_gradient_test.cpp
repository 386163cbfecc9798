// Gradients of convolutions, pools and interpolation of any rank against central differences.
#include "spatial.h"

namespace aster::tensor::test {
namespace {

// d sum(y * w) / d x of a function of x, by central differences of the function itself, at some
// elements.
using Function = std::function<int32_t(aster_ml_lazy*, const aster_ml_lazy*)>;
void check_gradient(const World& world, const std::string& name, const Shape& shape, Values x,
                    const Function& f) {
  T y, product, loss, g;
  const T t = from(world, x, shape);
  OK(f(y, t));
  std::mt19937 random(3);
  Values weights(static_cast<size_t>(aster_ml_lazy_count(y)));
  for (double& v : weights) v = std::uniform_real_distribution<double>(-1, 1)(random);
  const T w = from(world, weights, y.shape());
  OK(aster_ml_lazy_mul(product, y, w));
  OK(aster_ml_lazy_sum(loss, product, 0, nullptr, 0));
  const aster_ml_lazy* const targets[] = {t};
  OK(aster_ml_gradient(g, loss, targets, 1, nullptr));
  const Values got = g.read<double>();
  const auto total = [&](const Values& at) {
    T out;
    EXPECT_EQ(f(out, from(world, at, shape)), 0) << message();
    const Values v = out.read<double>();
    double sum = 0;
    for (size_t i = 0; i < v.size(); ++i) sum += v[i] * weights[i];
    return sum;
  };
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < x.size(); i += 1 + x.size() / 14) {
    const double kept = x[i];
    x[i] = kept + kStep;
    const double above = total(x);
    x[i] = kept - kStep;
    const double below = total(x);
    x[i] = kept;
    ASSERT_NEAR(got[i], (above - below) / (2 * kStep), 2e-6) << name << ", element " << i;
  }
}

class Gradients : public Spatial {};
INSTANTIATE_TEST_SUITE_P(Runtimes, Gradients, ::testing::Values(true),
                         [](const auto&) { return "interpreted"; });

TEST_P(Gradients, OfConvolutions) {
  for (size_t rank = 1; rank <= 3; ++rank) {
    for (const bool transposed : {false, true}) {
      Windows v;
      Shape xs{1, 4}, more;
      for (size_t i = 0; i < rank; ++i) {
        v.kernel.push_back(i == 0 ? 2 : 3);
        v.stride.push_back(i == 1 ? 1 : 2);
        v.dilation.push_back(i == 2 ? 1 : 2);
        v.before.push_back(1);
        v.after.push_back(i == 0 ? 2 : 0);
        more.push_back(i == 0 ? 1 : 0);
        xs.push_back(rank == 3 ? 4 - static_cast<int64_t>(i == 0) : 5);
      }
      aster_ml_conv_options options = conv_options(v, 2);
      options.output_padding = transposed ? more.data() : nullptr;
      const auto f = transposed ? aster_ml_lazy_conv_transpose : aster_ml_lazy_conv;
      const Shape ws = join(transposed ? Shape{4, 1} : Shape{2, 2}, v.kernel);
      const Values x = noise(count_of(xs)), w = noise(count_of(ws));
      const T image = from(world, x, xs), weight = from(world, w, ws);
      const std::string name =
          std::string(transposed ? "conv_transpose" : "conv") + " of rank " + std::to_string(rank);
      check_gradient(world, name + " by x", xs, x,
                     [&](auto* o, auto* t) { return f(o, t, weight, nullptr, &options); });
      check_gradient(world, name + " by weight", ws, w,
                     [&](auto* o, auto* t) { return f(o, image, t, nullptr, &options); });
      check_gradient(world, name + " by bias", {2}, {0.5, 1},
                     [&](auto* o, auto* t) { return f(o, image, weight, t, &options); });
    }
  }
}

TEST_P(Gradients, OfPools) {
  for (size_t rank = 1; rank <= 3; ++rank) {
    for (const int32_t ceil : {0, 1}) {
      Windows v;
      Shape xs{2};
      for (size_t i = 0; i < rank; ++i) {
        v.kernel.push_back(i == 2 ? 3 : 2);
        v.stride.push_back(i == 0 ? 2 : 1);
        v.dilation.push_back(i == 1 ? 2 : 1);
        v.before.push_back(1);
        v.after.push_back(i == 0 ? 1 : 0);
        xs.push_back(4);
      }
      aster_ml_pool_options options = pool_options(v);
      options.ceil_mode = ceil;
      options.exclude_pad = ceil;
      const Values x = noise(count_of(xs));
      const auto at = [&](auto f) {
        return [&, f](auto* o, auto* t) { return f(o, t, rank, v.kernel.data(), &options); };
      };
      const std::string name = " of rank " + std::to_string(rank);
      check_gradient(world, "max_pool" + name, xs, x, at(aster_ml_lazy_max_pool));
      check_gradient(world, "avg_pool" + name, xs, x, at(aster_ml_lazy_avg_pool));
      T value, place;
      OK(aster_ml_lazy_max_pool_with_indices(value, place, from(world, x, xs), rank,
                                             v.kernel.data(), &options));
      const Shape size(xs.begin() + 1, xs.end());
      options.size = size.data();
      check_gradient(
          world, "max_unpool" + name, value.shape(), value.read<double>(), [&](auto* o, auto* t) {
            return aster_ml_lazy_max_unpool(o, t, place, rank, v.kernel.data(), &options);
          });
    }
  }
}

TEST_P(Gradients, OfInterpolations) {
  const Shape xs{2, 3, 4};
  const Values x = noise(count_of(xs));
  for (const Shape& size : {Shape{5}, Shape{6, 2}, Shape{2, 9}, Shape{3, 7, 3}}) {
    for (const int32_t mode : {ASTER_ML_INTERPOLATION_LINEAR, ASTER_ML_INTERPOLATION_NEAREST,
                               ASTER_ML_INTERPOLATION_NEAREST_EXACT}) {
      for (const int32_t corners : {0, 1}) {
        if (corners != 0 && mode != ASTER_ML_INTERPOLATION_LINEAR) continue;
        check_gradient(world, "interpolate " + std::to_string(mode), xs, x, [&](auto* o, auto* t) {
          return aster_ml_lazy_interpolate(o, t, size.size(), size.data(), mode, corners);
        });
      }
    }
  }
}

}  // namespace
}  // namespace aster::tensor::test
