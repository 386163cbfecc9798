// Composites through BLAS against the same graphs from generated code: every layout that a call can
// take its arguments in.
#include <cmath>
#include <functional>

#include "aster.h"

namespace programs {
namespace {

using Build = std::function<T(Session&)>;

std::vector<float> run(const Build& build, bool library, int32_t threads, std::string* schedule) {
  aster_ml_context_options options{};
  options.no_library = library ? 0 : 1;
  options.threads = threads;
  Session s(options);
  T out = build(s);
  realize({&out});
  *schedule = s.schedule();
  T single = make(aster_ml_lazy_cast, &out.h, ASTER_ML_DTYPE_FLOAT32);
  return read(single);
}

// Equal within rounding; the library is used where the machine has one; equal bits for any number
// of threads.
void check(const Build& build, const char* name) {
  std::string with, without, threaded;
  const std::vector<float> expected = run(build, false, 1, &without);
  const std::vector<float> got = run(build, true, 1, &with);
  EXPECT_EQ(without.find(":library"), std::string::npos) << without;
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 2e-4 * (1 + std::fabs(expected[i]))) << i << "\n" << with;
  }
  if (with.find(":library") == std::string::npos) GTEST_SKIP() << "no usable BLAS on this machine";
  EXPECT_NE(with.find(name), std::string::npos) << with;
  EXPECT_EQ(got, run(build, true, 2, &threaded));
}

T turned(T x) { return permute(x, {1, 0}); }
T to_double(T x) { return make(aster_ml_lazy_cast, &x.h, ASTER_ML_DTYPE_FLOAT64); }
T rows(T x, int64_t from, int64_t to, int64_t columns) {
  const int64_t begin[] = {from, 0}, end[] = {to, columns};
  return make(aster_ml_lazy_shrink, &x.h, size_t{2}, begin, end);
}

TEST(Library, ProductsOfEveryLayout) {
  check([](Session& s) { return matmul(data(s, {70, 500}), data(s, {500, 450}, 2)); }, "Matmul");
  check(
      [](Session& s) {
        return matmul(turned(data(s, {500, 70})), data(s, {500, 450}, 2));
      },
      "Matmul");
  check(
      [](Session& s) {
        return matmul(data(s, {70, 500}), turned(data(s, {450, 500}, 2)));
      },
      "Matmul");
  check(
      [](Session& s) {
        return matmul(rows(data(s, {90, 500}), 11, 80, 500), data(s, {500, 450}, 2));
      },
      "Matmul");
}

TEST(Library, ProductsOfWhatHasToBeComputedFirst) {
  check(
      [](Session& s) {
        return matmul(exp(data(s, {70, 500})), data(s, {500, 450}, 2));
      },
      "Matmul");
  check(
      [](Session& s) {
        return relu(matmul(data(s, {70, 500}), exp(turned(data(s, {450, 500}, 2)))));
      },
      "Matmul");
}

TEST(Library, BatchedProducts) {
  check(
      [](Session& s) {
        return matmul(data(s, {3, 2, 20, 500}), data(s, {3, 2, 500, 450}, 2));
      },
      "Matmul");
  check([](Session& s) { return matmul(data(s, {3, 20, 500}), data(s, {500, 450}, 2)); }, "Matmul");
}

TEST(Library, ProductsInDouble) {
  check(
      [](Session& s) {
        return matmul(to_double(data(s, {70, 500})), to_double(data(s, {500, 450}, 2)));
      },
      "Matmul");
}

T conv(Session& s, int32_t stride, int32_t padding, int32_t dilation, bool gradient) {
  T x = data(s, {3, 24, 17, 15}), w = data(s, {80, 24, 3, 3}, 2);
  aster_ml_conv2d_options options{};
  options.struct_size = sizeof(options);
  options.stride[0] = stride;
  options.stride[1] = stride;
  options.dilation[0] = options.dilation[1] = dilation;
  for (int32_t& p : options.padding) p = padding;
  T y = make(aster_ml_lazy_conv2d, &x.h, &w.h, nullptr, &options);
  if (!gradient) return y;
  T loss = sum(square(y));
  const aster_ml_lazy* target[] = {&w.h};
  T out;
  EXPECT_OK(aster_ml_gradient(&out.h, &loss.h, target, 1, nullptr));
  return out * number(s, 1e-3);
}

TEST(Library, Convolutions) {
  check([](Session& s) { return conv(s, 1, 1, 1, false); }, "Conv2d");
  check([](Session& s) { return conv(s, 2, 1, 1, false); }, "Conv2d");
  check([](Session& s) { return conv(s, 1, 2, 2, false); }, "Conv2d");
}

TEST(Library, GradientsOfConvolutions) {
  check([](Session& s) { return conv(s, 1, 1, 1, true); }, "Conv2dWeightGrad");
  check([](Session& s) { return conv(s, 2, 1, 1, true); }, "Conv2dWeightGrad");
}

}  // namespace
}  // namespace programs
