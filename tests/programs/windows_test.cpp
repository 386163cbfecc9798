// Windows over images and their gradients against sums in double, and results that lie between each
// other, of every dtype: at every width.
#include <cmath>
#include <functional>
#include <vector>

#include "aster.h"

namespace programs {
namespace {

void each_width(const std::function<void()>& body) {
  for (const int32_t bytes : {16, 32, 64}) {
    aster_ml_context_options options{};
    options.vector_bytes = bytes;
    Session s(options);
    body();
    if (testing::Test::HasFatalFailure()) FAIL() << bytes << " bytes " << s.schedule();
  }
}

struct Pool {
  int64_t planes, height, width, kernel, stride, padding;
  bool mean;
  int64_t out(int64_t size) const { return (size + 2 * padding - kernel) / stride + 1; }
  Tensor of(const Tensor& x) const {
    const aster_ml::Dims window = {kernel, kernel};
    const aster_ml::Windows how = {.stride = {stride}, .padding = {padding}};
    return mean ? x.avg_pool2d(window, how) : x.max_pool2d(window, how);
  }
  // The results and, of their sum, each times a number, the gradient to the image. Where several
  // pixels are the largest they share it.
  void compute(const Floats& x, const Floats& g, std::vector<double>* results,
               std::vector<double>* gradient) const {
    gradient->assign(x.size(), 0);
    for (int64_t p = 0; p < planes; ++p) {
      for (int64_t at = 0; at < out(height) * out(width); ++at) {
        std::vector<size_t> window;
        for (int64_t k = 0; k < kernel * kernel; ++k) {
          const int64_t y = at / out(width) * stride - padding + k / kernel,
                        z = at % out(width) * stride - padding + k % kernel;
          if (y >= 0 && z >= 0 && y < height && z < width)
            window.push_back(static_cast<size_t>((p * height + y) * width + z));
        }
        double sum = 0, most = -HUGE_VAL;
        for (size_t pixel : window) sum += double{x[pixel]}, most = std::fmax(most, x[pixel]);
        double sharers = 0;
        for (size_t pixel : window) sharers += double{x[pixel]} == most ? 1 : 0;
        const double each = g[static_cast<size_t>(p * out(height) * out(width) + at)];
        const auto all = static_cast<double>(kernel * kernel);
        results->push_back(mean ? sum / all : most);
        for (size_t pixel : window) {
          if (mean) (*gradient)[pixel] += each / all;
          if (!mean && double{x[pixel]} == most) (*gradient)[pixel] += each / sharers;
        }
      }
    }
  }
};

TEST(Windows, PoolsAndTheirGradients) {
  const Pool pools[] = {
      {12, 56, 56, 2, 2, 0, false}, {12, 56, 56, 2, 2, 0, true},   {20, 8, 8, 2, 2, 0, false},
      {20, 4, 4, 2, 2, 0, false},   {5, 35, 37, 2, 2, 0, false},   {5, 34, 70, 2, 2, 0, true},
      {6, 33, 40, 3, 2, 1, false},  {6, 33, 40, 3, 1, 1, false},   {6, 33, 40, 3, 1, 0, true},
      {3, 7, 7, 3, 1, 1, false},    {4, 60, 60, 5, 1, 2, false},   {4, 48, 48, 4, 4, 0, true},
      {2, 60, 62, 7, 1, 0, true},   {2, 130, 128, 2, 2, 0, true},  {3, 9, 18, 3, 3, 0, false},
      {30, 11, 11, 3, 1, 1, false}, {9, 10, 13, 5, 1, 2, true},    {7, 29, 43, 3, 2, 1, false},
      {5, 12, 12, 2, 1, 0, false},  {2, 112, 112, 3, 1, 1, false}, {1, 203, 64, 5, 1, 2, true},
      {3, 131, 96, 3, 2, 1, false},
  };
  for (const Pool& pool : pools) {
    const auto count = static_cast<size_t>(pool.planes * pool.height * pool.width);
    const Shape shape = {1, pool.planes, pool.height, pool.width};
    const Shape made = {1, pool.planes, pool.out(pool.height), pool.out(pool.width)};
    Floats x = noise(count, 1);
    for (float& value : x) value = std::round(value * 8);  // many are equal
    const Floats g =
        noise(static_cast<size_t>(pool.planes * pool.out(pool.height) * pool.out(pool.width)), 2);
    std::vector<double> results, gradient;
    pool.compute(x, g, &results, &gradient);
    each_width([&] {
      const Tensor image(x, shape), weighing(g, made), out = pool.of(image);
      const Floats slope = read((out * weighing).sum().gradient(image)), got = read(out);
      ASSERT_EQ(got.size(), results.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], results[i], 1e-5) << i << " of " << (&pool - pools);
      for (size_t i = 0; i < slope.size(); ++i)
        ASSERT_NEAR(slope[i], gradient[i], 1e-5) << i << " of " << (&pool - pools);
    });
  }
}

// Rows of few images that tasks share, with filters of their own: those between the borders by code
// without conditions, the same sums, exactly.
TEST(Windows, RowsThatTasksShare) {
  struct Image {
    int64_t planes, height, width, kernel, stride, padding;
  };
  const Image images[] = {{3, 112, 112, 3, 1, 1}, {2, 97, 113, 3, 1, 1}, {1, 300, 40, 5, 1, 2},
                          {2, 160, 72, 3, 2, 1},  {4, 64, 64, 7, 1, 3},  {1, 129, 65, 3, 1, 0}};
  for (const Image& i : images) {
    Floats x = noise(static_cast<size_t>(i.planes * i.height * i.width), 1);
    Floats w = noise(static_cast<size_t>(i.planes * i.kernel * i.kernel), 2);
    for (Floats* values : {&x, &w})
      for (float& value : *values) value = std::round(value * 8);
    const int64_t high = (i.height + 2 * i.padding - i.kernel) / i.stride + 1;
    const int64_t wide = (i.width + 2 * i.padding - i.kernel) / i.stride + 1;
    Floats results;
    for (int64_t at = 0; at < i.planes * high * wide; ++at) {
      const int64_t p = at / (high * wide), y = at / wide % high, z = at % wide;
      double sum = 0;
      for (int64_t k = 0; k < i.kernel * i.kernel; ++k) {
        const int64_t row = y * i.stride - i.padding + k / i.kernel,
                      column = z * i.stride - i.padding + k % i.kernel;
        if (row >= 0 && column >= 0 && row < i.height && column < i.width)
          sum += double{x[static_cast<size_t>((p * i.height + row) * i.width + column)]} *
                 double{w[static_cast<size_t>(p * i.kernel * i.kernel + k)]};
      }
      results.push_back(static_cast<float>(std::fmax(sum, 0)));
    }
    each_width([&] {
      const Tensor image(x, {1, i.planes, i.height, i.width});
      const Tensor filters(w, {i.planes, 1, i.kernel, i.kernel});
      const Tensor out = image.conv2d(
          filters, {},
          {.stride = {i.stride}, .padding = {i.padding}, .groups = static_cast<int32_t>(i.planes)});
      ASSERT_EQ(read(out.relu()), results) << i.height << " x " << i.width;
    });
  }
}

// Images of sizes that were not there before, by programs that serve many: the same bits.
TEST(Windows, OfManySizes) {
  const int64_t sizes[][3] = {{3, 20, 24}, {4, 22, 28}, {5, 20, 36}, {3, 26, 30}, {7, 34, 22}};
  for (const int32_t bytes : {32, 64}) {
    std::vector<Floats> own;
    for (const bool alone : {true, false}) {
      aster_ml_context_options options{};
      options.vector_bytes = bytes;
      options.no_sizes = alone ? 1 : 0;
      Session s(options);
      size_t i = 0;
      for (const auto& [planes, height, width] : sizes) {
        const Tensor image = data({1, planes, height, width});
        const Tensor out = image.relu().max_pool2d() + image.avg_pool2d();
        const Floats slope = read((out * out).sum().gradient(image));
        if (alone) {
          own.push_back(slope);
        } else {
          EXPECT_EQ(slope, own[i++]) << height << " x " << width << " " << s.schedule();
        }
      }
    }
  }
}

// Masks over windows that overlap are more than what they are made of: nothing stores them.
TEST(Windows, MasksOfWindowsAreNotStored) {
  Session s;
  const Tensor image = data({2, 8, 56, 56}), weighing = data({2, 8, 28, 28}, 2);
  const Tensor out = image.max_pool2d({3, 3}, {.stride = {2}, .padding = {1}});
  OK((out * weighing).sum().gradient(image).realize());
  EXPECT_EQ(s.schedule().find("28x3x28x3"), std::string::npos) << s.schedule();
}

// Elements i / 2 and i % 2 of what is repeated or lies in pairs, from every element on, beside
// elements i: one loop over pairs, with the same results as two kernels.
TEST(Windows, IndicesThatAreHalved) {
  for (const int64_t length : {8, 37}) {
    for (const int64_t from : {0, 1, 3}) {
      for (const int64_t left : {0, 1}) {
        const int64_t rows = 6, wide = 2 * length - from - left;
        const Floats a = noise(static_cast<size_t>(rows * length), 1),
                     c = noise(static_cast<size_t>(rows * wide), 2),
                     d = noise(static_cast<size_t>(wide), 3);
        each_width([&] {
          const Tensor x(a, {rows, length}), beside(c, {rows, wide}), row(d, {wide});
          const Tensor twice =
              x.unsqueeze(-1).expand({rows, length, 2}).reshape({rows, 2 * length});
          const Tensor part = twice.shrink({0, from}, {rows, wide + from});
          const Floats sums = read(part + beside), products = read(part.flip(1) * row),
                       folds = read((part.unsqueeze(0) * beside.unsqueeze(1)).sum(0));
          ASSERT_EQ(sums.size(), c.size());
          const auto at = [&](int64_t i, int64_t j) {
            return a[static_cast<size_t>(i * length + (j + from) / 2)];
          };
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < wide; ++j) {
              const auto here = static_cast<size_t>(i * wide + j);
              ASSERT_EQ(sums[here], at(i, j) + c[here]) << length << " " << from << " " << here;
              ASSERT_EQ(products[here], at(i, wide - 1 - j) * d[static_cast<size_t>(j)]) << here;
              double sum = 0;
              for (int64_t k = 0; k < rows; ++k)
                sum += double{at(i, j)} * c[static_cast<size_t>(k * wide + j)];
              ASSERT_NEAR(folds[here], sum, 1e-5) << length << " " << from << " " << here;
            }
          }
        });
      }
    }
  }
  // A loop of pairs and its two are in the name of a kernel.
  Session s;
  const Tensor x = data({6, 40});
  const Tensor twice = x.unsqueeze(-1).expand({6, 40, 2}).reshape({6, 80});
  OK((twice + data({6, 80}, 2)).realize());
  EXPECT_NE(s.schedule().find("6x40x2"), std::string::npos) << s.schedule();
}

// Rows of fewer elements than a vector has lanes, in every dtype: forwards, backwards, every second
// element, turned, repeated, under a condition, and of what is written in place.
TEST(Windows, RowsOfLessThanAVector) {
  for (const int64_t length : {5, 9, 15, 31}) {
    constexpr int64_t kRows = 6;
    const auto count = static_cast<size_t>(kRows * length);
    Floats a = noise(count, 1), wide = noise(2 * count, 2);
    for (Floats* each : {&a, &wide}) {
      for (float& value : *each) value = std::round(value * 8);
    }
    for (const aster_ml::Dtype dtype :
         {aster_ml::dtypes::float32, aster_ml::dtypes::float64, aster_ml::dtypes::int32,
          aster_ml::dtypes::int64, aster_ml::dtypes::int8, aster_ml::dtypes::float16}) {
      each_width([&] {
        const Tensor x = Tensor(a, {kRows, length}).cast(dtype).contiguous();
        const Tensor y = Tensor(wide, {kRows, 2 * length}).cast(dtype).contiguous();
        const auto floats = [](const Tensor& t) { return read(t.cast(aster_ml::dtypes::float32)); };
        const Floats back = floats((x.flip(1) + x).contiguous());
        const Floats halves = floats((y.reshape({kRows, length, 2})
                                          .shrink({0, 0, 0}, {kRows, length, 1})
                                          .reshape({kRows, length}) +
                                      x)
                                         .contiguous());
        const Floats turned = floats((x.T() + x.T()).contiguous());
        const Floats padded = floats((x.pad({1, 2}, {0, 3}) * 2).contiguous());
        OK(x.assign(x + x));
        const Floats twice = floats(x);
        for (int64_t i = 0; i < kRows; ++i) {
          for (int64_t j = 0; j < length; ++j) {
            const auto at = static_cast<size_t>(i * length + j);
            const auto there = static_cast<size_t>(i * length + length - 1 - j);
            ASSERT_EQ(back[at], a[at] + a[there]) << length << " " << at;
            ASSERT_EQ(halves[at], a[at] + wide[2 * at]) << length << " " << at;
            ASSERT_EQ(turned[static_cast<size_t>(j * kRows + i)], 2 * a[at]) << at;
            ASSERT_EQ(padded[static_cast<size_t>((i + 1) * (length + 5) + j + 2)], 2 * a[at]) << at;
            ASSERT_EQ(twice[at], 2 * a[at]) << length << " " << at;
          }
        }
      });
    }
  }
}

// a0 b0 a1 b1 ..: of both halves and of one that is repeated, stored in every dtype.
TEST(Windows, ResultsBetweenEachOther) {
  for (const int64_t length : {5, 31, 64}) {
    const auto rows = int64_t{9};
    const auto count = static_cast<size_t>(rows * length);
    Floats a = noise(count, 1), b = noise(count, 2);
    for (Floats* each : {&a, &b}) {
      for (float& value : *each) value = std::round(std::fabs(value) * 50);
    }
    for (const aster_ml::Dtype dtype :
         {aster_ml::dtypes::bool_, aster_ml::dtypes::int8, aster_ml::dtypes::uint16,
          aster_ml::dtypes::int32, aster_ml::dtypes::int64, aster_ml::dtypes::float16,
          aster_ml::dtypes::bfloat16, aster_ml::dtypes::float32, aster_ml::dtypes::float64}) {
      each_width([&] {
        const Tensor x(a, {rows, length}), y(b, {rows, length});
        const Tensor one = x.cast(dtype), other = y.cast(dtype);
        const Tensor
            both = Tensor::stack({one, other}, -1).contiguous().cast(aster_ml::dtypes::float32),
            twice = one.unsqueeze(-1)
                        .expand({rows, length, 2})
                        .contiguous()
                        .cast(aster_ml::dtypes::float32);
        const Floats pairs = read(both), same = read(twice);
        ASSERT_EQ(pairs.size(), 2 * count);
        const auto held = [&](float value) {
          return dtype == aster_ml::dtypes::bool_ ? (value != 0 ? 1.0f : 0.0f) : value;
        };
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(pairs[2 * i], held(a[i]))
              << static_cast<int32_t>(dtype) << " " << length << " " << i;
          ASSERT_EQ(pairs[2 * i + 1], held(b[i]))
              << static_cast<int32_t>(dtype) << " " << length << " " << i;
          ASSERT_EQ(same[2 * i], held(a[i]))
              << static_cast<int32_t>(dtype) << " " << length << " " << i;
          ASSERT_EQ(same[2 * i + 1], held(a[i]))
              << static_cast<int32_t>(dtype) << " " << length << " " << i;
        }
      });
    }
  }
}

}  // namespace
}  // namespace programs
