// Composites through BLAS against the same graphs from generated code: every layout that a call can
// take its arguments in.
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <vector>

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
    ASSERT_NEAR(got[i], expected[i], 1e-3 * (1 + std::fabs(expected[i]))) << i << "\n" << with;
  }
  const char* choice = std::getenv("ASTER_ML_BLAS");
  if (choice != nullptr && std::string(choice) == "none") GTEST_SKIP() << "ASTER_ML_BLAS=none";
  ASSERT_NE(with.find(name), std::string::npos)
      << "no usable BLAS: install libopenblas0-pthread, or set ASTER_ML_BLAS=none\n"
      << with;
  for (const int32_t threads : {2, 3, 8}) EXPECT_EQ(got, run(build, true, threads, &threaded));
}

TEST(Library, ProductsOfEveryLayout) {
  check([] { return data({70, 16400}).matmul(data({16400, 150}, 2)); }, "Matmul");
  check([] { return data({16400, 70}).T().matmul(data({16400, 150}, 2)); }, "Matmul");
  check([] { return data({70, 16400}).matmul(data({150, 16400}, 2).T()); }, "Matmul");
  check(
      [] {
        return data({90, 16400})[aster_ml::Slice(11, 80)].matmul(data({16400, 150}, 2));
      },
      "Matmul");
}

TEST(Library, ProductsOfWhatHasToBeComputedFirst) {
  check([] { return data({70, 16400}).exp().matmul(data({16400, 150}, 2)); }, "Matmul");
  check([] { return data({70, 16400}).matmul(data({150, 16400}, 2).T().exp()).relu(); }, "Matmul");
}

// Tall, wide and square enough to be cut both ways, with parts that are not whole.
TEST(Library, ProductsInSeveralParts) {
  check([] { return data({300, 16400}).matmul(data({16400, 300}, 2)); }, "Matmul");
  check([] { return data({520, 16400}).matmul(data({16400, 70}, 2)); }, "Matmul");
  check([] { return data({40, 16400}).matmul(data({600, 16400}, 2).T()); }, "Matmul");
}

TEST(Library, BatchedProducts) {
  check([] { return data({3, 2, 40, 16400}).matmul(data({3, 2, 16400, 70}, 2)); }, "Matmul");
  check([] { return data({3, 40, 16400}).matmul(data({16400, 150}, 2)); }, "Matmul");
}

TEST(Library, ProductsInDouble) {
  check(
      [] {
        return data({70, 8200})
            .cast(aster_ml::dtypes::float64)
            .matmul(data({8200, 150}, 2).cast(aster_ml::dtypes::float64));
      },
      "Matmul");
}

// Few rows read the second operand as it is, and share it as it comes.
TEST(Library, ProductsOfFewRowsAreGenerated) {
  std::string schedule;
  (void)run([] { return data({16, 500}).matmul(data({500, 450}, 2)); }, true, 1, &schedule);
  EXPECT_EQ(schedule.find(":library"), std::string::npos) << schedule;
}

// Generated: panels that are packed, also from columns that lie as rows, tiles that end with the
// matrix; the same bits by programs for many sizes.
class Generated : public testing::TestWithParam<bool> {
 protected:
  static Tensor product(int64_t m, int64_t k, int64_t n) {
    return GetParam() ? data({m, k}).matmul(data({n, k}, 2).T())
                      : data({m, k}).matmul(data({k, n}, 2));
  }
};

TEST_P(Generated, Products) {
  struct Sizes {
    int64_t rows, terms, columns;
  };
  // The last in blocks of rows.
  for (const auto& [m, k, n] :
       {Sizes{256, 512, 96}, {1000, 300, 65}, {67, 1100, 333}, {281, 16000, 65}}) {
    const auto build = [m = m, k = k, n = n] { return product(m, k, n); };
    std::string schedule;
    const Floats got = run(build, false, 1, &schedule);
    const Floats a = noise(static_cast<size_t>(m * k), 1), b = noise(static_cast<size_t>(k * n), 2);
    const int64_t checked = std::max<int64_t>(1, k / 1000);  // one row in so many
    for (int64_t i = m - 1; i >= 0; i -= checked) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t r = 0; r < k; ++r) {
          sum += double{a[static_cast<size_t>(i * k + r)]} *
                 b[static_cast<size_t>(GetParam() ? j * k + r : r * n + j)];
        }
        ASSERT_NEAR(got[static_cast<size_t>(i * n + j)], sum, 1e-3 + 1e-7 * static_cast<double>(k))
            << i << " " << j << schedule;
      }
    }
    for (const int32_t threads : {2, 7}) EXPECT_EQ(got, run(build, false, threads, &schedule));
  }
}

TEST_P(Generated, ProductsOfManySizes) {
  struct Sizes {
    int64_t rows, terms, columns;
  };
  std::vector<Floats> own;
  const auto each = [](const std::function<void(const Floats&)>& body) {
    for (const auto& [m, k, n] : {Sizes{64, 200, 96},
                                  {65, 200, 96},
                                  {130, 200, 96},
                                  {70, 213, 96},
                                  {71, 211, 97},
                                  {90, 210, 130},
                                  {300, 255, 300}}) {
      const Tensor out = product(m, k, n);
      EXPECT_OK(out.realize());
      body(read(out));
    }
  };
  for (const int32_t bytes : {32, 64}) {
    own.clear();
    aster_ml_context_options options{};
    options.vector_bytes = bytes;
    options.no_library = 1;
    options.no_sizes = 1;
    {
      Session alone(options);
      each([&](const Floats& got) { own.push_back(got); });
    }
    options.no_sizes = 0;
    Session s(options);
    size_t i = 0;
    each([&](const Floats& got) { EXPECT_EQ(got, own[i++]) << "product " << i << " " << bytes; });
  }
}

INSTANTIATE_TEST_SUITE_P(Library, Generated, testing::Bool(), [](const auto& one) {
  return std::string(one.param ? "Turned" : "Plain");
});

Tensor gradient_of_conv(int64_t stride) {
  Tensor x = data({3, 24, 17, 15}), w = data({80, 24, 3, 3}, 2);
  return x.conv2d(w, {}, {.stride = {stride}, .padding = {1}}).square().sum().gradient(w) * 1e-3;
}

TEST(Library, GradientsOfConvolutions) {
  check([] { return gradient_of_conv(1); }, "Conv2dWeightGrad");
  check([] { return gradient_of_conv(2); }, "Conv2dWeightGrad");
}

struct Convolution {
  int64_t images, channels, height, width, filters, kernel, stride = 1, padding = 0, dilation = 1;
  int32_t groups = 1;
  int64_t out(int64_t size) const {
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
  Tensor make() const {
    const Tensor x = data({images, channels, height, width}),
                 w = data({filters, channels / groups, kernel, kernel}, 2);
    return x.conv2d(
        w, {},
        {.stride = {stride}, .dilation = {dilation}, .padding = {padding}, .groups = groups});
  }
  // One result in so many.
  std::map<size_t, double> some(size_t every) const {
    const Floats x = noise(static_cast<size_t>(images * channels * height * width), 1),
                 w = noise(static_cast<size_t>(filters * channels / groups * kernel * kernel), 2);
    const int64_t rows = out(height), columns = out(width), per = channels / groups;
    std::map<size_t, double> made;
    const auto count = static_cast<size_t>(images * filters * rows * columns);
    for (size_t at = 0; at < count; at += every) {
      const auto i = static_cast<int64_t>(at);
      const int64_t ox = i % columns, oy = i / columns % rows, o = i / columns / rows % filters,
                    n = i / columns / rows / filters, group = o / (filters / groups);
      double sum = 0;
      for (int64_t c = 0; c < per; ++c) {
        for (int64_t k = 0; k < kernel * kernel; ++k) {
          const int64_t y = oy * stride - padding + k / kernel * dilation,
                        z = ox * stride - padding + k % kernel * dilation;
          if (y < 0 || y >= height || z < 0 || z >= width) continue;
          sum += double{x[static_cast<size_t>(
                     ((n * channels + group * per + c) * height + y) * width + z)]} *
                 w[static_cast<size_t>((o * per + c) * kernel * kernel + k)];
        }
      }
      made[at] = sum;
    }
    return made;
  }
};

// Generated: filters in the lanes or pixels in them, rows shorter than a vector, images that are
// padded or thinned out in memory, steps that end with a range; the same bits by any number
// of threads and programs for many sizes.
TEST(Convolutions, OfEveryKind) {
  const Convolution kinds[] = {
      {2, 24, 17, 15, 80, 3, 1, 1},       {2, 24, 17, 15, 80, 3, 2, 1},
      {2, 24, 17, 15, 80, 3, 1, 2, 2},    {1, 3, 70, 75, 40, 7, 2, 3},
      {2, 48, 30, 26, 37, 1, 2},          {1, 48, 26, 30, 37, 1},
      {2, 32, 20, 17, 64, 3, 1, 1, 1, 2}, {9, 64, 7, 7, 48, 3, 1, 1},
      {2, 16, 33, 31, 3, 3, 1, 1},        {1, 40, 21, 22, 17, 2},
  };
  for (const Convolution& kind : kinds) {
    const std::map<size_t, double> expected = kind.some(37);
    for (const int32_t bytes : {16, 32, 64}) {
      Floats first;
      for (const int32_t threads : {1, 2, 7}) {
        aster_ml_context_options options{};
        options.vector_bytes = bytes;
        options.threads = threads;
        Session s(options);
        const Tensor out = kind.make();
        EXPECT_OK(out.realize());
        const Floats got = read(out);
        if (first.empty()) first = got;
        ASSERT_EQ(first, got) << bytes << " bytes, " << threads << " threads " << s.schedule();
      }
      for (const auto& [at, sum] : expected)
        ASSERT_NEAR(first[at], sum, 1e-4) << at << " of " << (&kind - kinds) << ", " << bytes;
    }
  }
}

// What follows a convolution is computed in its kernel, from what is read in squares as well.
TEST(Convolutions, WhatFollowsThem) {
  const Convolution kind{2, 32, 16, 19, 48, 3, 1, 1};
  const auto build = [&] {
    const Tensor bias = data({48, 1, 1}, 3), beside = data({2, 48, 16, 19}, 4);
    return ((kind.make() + bias).relu() + beside).maximum(bias * 2);
  };
  aster_ml_context_options options{};
  options.compiler = "none";
  Floats expected;
  {
    Session s(options);
    const Tensor out = build();
    EXPECT_OK(out.realize());
    expected = read(out);
  }
  options.compiler = nullptr;
  for (const int32_t bytes : {16, 32, 64}) {
    options.vector_bytes = bytes;
    Session s(options);
    const Tensor out = build();
    EXPECT_OK(out.realize());
    const Floats got = read(out);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << i;
  }
}

TEST(Convolutions, OfManySizes) {
  aster_ml_context_options options{};
  options.no_sizes = 1;
  std::vector<Floats> own;
  for (const bool alone : {true, false}) {
    options.no_sizes = alone ? 1 : 0;
    Session s(options);
    size_t i = 0;
    for (const int64_t images : {4, 5, 7, 6, 5}) {
      for (const int64_t width : {20, 23}) {
        const Tensor out = Convolution{images, 24, 18, width, 40, 3, 1, 1}.make();
        EXPECT_OK(out.realize());
        if (alone) {
          own.push_back(read(out));
        } else {
          EXPECT_EQ(read(out), own[i++]) << images << " images of " << width;
        }
      }
    }
  }
}

}  // namespace
}  // namespace programs
