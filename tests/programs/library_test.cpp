// Composites through BLAS against the same graphs from generated code: every layout that a call can
// take its arguments in.
#include <cmath>
#include <cstdlib>
#include <functional>

#include "aster.h"

namespace programs {
namespace {

using Build = std::function<Tensor()>;

Floats run(const Build& build, bool library, int32_t threads, std::string* schedule) {
  aster_ml_context_options options{};
  options.no_library = library ? 0 : 1;
  options.threads = threads;
  Session s(options);
  const Tensor out = build();
  EXPECT_OK(out.realize());
  *schedule = s.schedule();
  return read(out);
}

// Equal within rounding; the library is used where the machine has one; equal bits for any number
// of threads.
void check(const Build& build, const char* name) {
  std::string with, without, threaded;
  const Floats expected = run(build, false, 1, &without);
  const Floats got = run(build, true, 1, &with);
  EXPECT_EQ(without.find(":library"), std::string::npos) << without;
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 2e-4 * (1 + std::fabs(expected[i]))) << i << "\n" << with;
  }
  const char* choice = std::getenv("ASTER_ML_BLAS");
  if (choice != nullptr && std::string(choice) == "none") GTEST_SKIP() << "ASTER_ML_BLAS=none";
  ASSERT_NE(with.find(name), std::string::npos)
      << "no usable BLAS: install libopenblas0-pthread, or set ASTER_ML_BLAS=none\n"
      << with;
  for (const int32_t threads : {2, 3, 8}) EXPECT_EQ(got, run(build, true, threads, &threaded));
}

TEST(Library, ProductsOfEveryLayout) {
  check([] { return data({70, 500}).matmul(data({500, 450}, 2)); }, "Matmul");
  check([] { return data({500, 70}).T().matmul(data({500, 450}, 2)); }, "Matmul");
  check([] { return data({70, 500}).matmul(data({450, 500}, 2).T()); }, "Matmul");
  check(
      [] {
        return data({90, 500})[aster_ml::Slice(11, 80)].matmul(data({500, 450}, 2));
      },
      "Matmul");
}

TEST(Library, ProductsOfWhatHasToBeComputedFirst) {
  check([] { return data({70, 500}).exp().matmul(data({500, 450}, 2)); }, "Matmul");
  check([] { return data({70, 500}).matmul(data({450, 500}, 2).T().exp()).relu(); }, "Matmul");
}

// Tall, wide and square enough to be cut both ways, with parts that are not whole.
TEST(Library, ProductsInSeveralParts) {
  check([] { return data({700, 300}).matmul(data({300, 700}, 2)); }, "Matmul");
  check([] { return data({2100, 140}).matmul(data({140, 1500}, 2)); }, "Matmul");
  check([] { return data({40, 900}).matmul(data({1100, 900}, 2).T()); }, "Matmul");
}

TEST(Library, BatchedProducts) {
  check([] { return data({3, 2, 20, 500}).matmul(data({3, 2, 500, 450}, 2)); }, "Matmul");
  check([] { return data({3, 20, 500}).matmul(data({500, 450}, 2)); }, "Matmul");
}

TEST(Library, ProductsInDouble) {
  check(
      [] {
        return data({70, 500})
            .cast(aster_ml::dtypes::float64)
            .matmul(data({500, 450}, 2).cast(aster_ml::dtypes::float64));
      },
      "Matmul");
}

Tensor conv(int64_t stride, int64_t padding, int64_t dilation, bool gradient) {
  Tensor x = data({3, 24, 17, 15}), w = data({80, 24, 3, 3}, 2);
  Tensor y = x.conv2d(w, {}, {.stride = {stride}, .dilation = {dilation}, .padding = {padding}});
  return gradient ? y.square().sum().gradient(w) * 1e-3 : y;
}

TEST(Library, Convolutions) {
  check([] { return conv(1, 1, 1, false); }, "Conv2d");
  check([] { return conv(2, 1, 1, false); }, "Conv2d");
  check([] { return conv(1, 2, 2, false); }, "Conv2d");
}

TEST(Library, GradientsOfConvolutions) {
  check([] { return conv(1, 1, 1, true); }, "Conv2dWeightGrad");
  check([] { return conv(2, 1, 1, true); }, "Conv2dWeightGrad");
}

}  // namespace
}  // namespace programs
