// Sums of products by generated code against sums in double: matrices in every layout, convolutions
// and the gradients to their weights.
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "aster.h"

namespace programs {
namespace {

using Build = std::function<Tensor()>;

// What is computed at every width by 1, 2 and 7 threads: of a width the same bits.
void each_width(const Build& build, const std::function<void(const Floats&)>& body) {
  for (const int32_t bytes : {16, 32, 64}) {
    Floats first;
    for (const int32_t threads : {1, 2, 7}) {
      aster_ml_context_options options{};
      options.vector_bytes = bytes;
      options.threads = threads;
      Session s(options);
      const Tensor out = build();
      EXPECT_OK(out.realize());
      const Floats got = read(out);
      if (first.empty()) first = got;
      ASSERT_EQ(first, got) << bytes << " bytes, " << threads << " threads " << s.schedule();
    }
    body(first);
  }
}

Floats run(const Build& build, int32_t threads, std::string* schedule) {
  aster_ml_context_options options{};
  options.threads = threads;
  Session s(options);
  const Tensor out = build();
  EXPECT_OK(out.realize());
  *schedule = s.schedule();
  return read(out);
}

// a b of `batch` matrices each; a or b lie turned.
struct Product {
  int64_t rows, terms, columns, batch = 1;
  bool turned_a = false, turned_b = false;
  Tensor make() const {
    const auto one = [&](int64_t m, int64_t n, bool turned, uint32_t seed) {
      Tensor x = data({batch, turned ? n : m, turned ? m : n}, seed);
      return turned ? x.transpose(1, 2) : x;
    };
    return one(rows, terms, turned_a, 1).matmul(one(terms, columns, turned_b, 2));
  }
  // One result in so many.
  void check(const Floats& got, size_t every) const {
    const Floats a = noise(static_cast<size_t>(batch * rows * terms), 1),
                 b = noise(static_cast<size_t>(batch * terms * columns), 2);
    ASSERT_EQ(got.size(), static_cast<size_t>(batch * rows * columns));
    for (size_t at = 0; at < got.size(); at += every) {
      const auto place = static_cast<int64_t>(at);
      const int64_t j = place % columns, i = place / columns % rows, n = place / columns / rows;
      double sum = 0;
      for (int64_t k = 0; k < terms; ++k) {
        sum += double{a[static_cast<size_t>(n * rows * terms +
                                            (turned_a ? k * rows + i : i * terms + k))]} *
               b[static_cast<size_t>(n * terms * columns +
                                     (turned_b ? j * terms + k : k * columns + j))];
      }
      ASSERT_NEAR(got[at], sum, 1e-4 + 1e-7 * static_cast<double>(terms)) << at;
    }
  }
};

// Sums so long that they are cut into parts: of whole steps, or with a rest that is a sum by
// itself.
TEST(Products, OfEveryLayout) {
  for (const int64_t terms : {int64_t{500}, int64_t{16400}, int64_t{16411}}) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        const Product one{70, terms, 150, 1, a, b};
        each_width([&] { return one.make(); }, [&](const Floats& got) { one.check(got, 61); });
      }
    }
  }
}

TEST(Products, OfBatches) {
  for (const Product& one : {Product{40, 16400, 70, 3}, {40, 300, 70, 6, false, true}})
    each_width([&] { return one.make(); }, [&](const Floats& got) { one.check(got, 61); });
}

TEST(Products, OfOneMatrixByItself) {
  const auto square = [](bool turned) {
    return [turned] {
      const Tensor x = data({130, 130});
      return x.matmul(turned ? x.T() : x);
    };
  };
  const Floats x = noise(130 * 130, 1);
  for (const bool turned : {false, true}) {
    each_width(square(turned), [&](const Floats& got) {
      for (size_t at = 0; at < got.size(); at += 61) {
        double sum = 0;
        for (size_t k = 0; k < 130; ++k)
          sum +=
              double{x[at / 130 * 130 + k]} * x[turned ? at % 130 * 130 + k : k * 130 + at % 130];
        ASSERT_NEAR(got[at], sum, 1e-4) << at;
      }
    });
  }
}

TEST(Products, OfWhatHasToBeComputedFirst) {
  const auto values = [](bool turned) {
    return [turned] {
      const Tensor a = data({70, 600}), b = data({150, 600}, 2).T();
      return turned ? a.matmul(b.exp()).relu() : a.exp().matmul(b);
    };
  };
  const Floats a = noise(70 * 600, 1), b = noise(150 * 600, 2);
  for (const bool turned : {false, true}) {
    each_width(values(turned), [&](const Floats& got) {
      for (size_t at = 0; at < got.size(); at += 61) {
        double sum = 0;
        for (size_t k = 0; k < 600; ++k) {
          const double x = a[at / 150 * 600 + k], y = b[at % 150 * 600 + k];
          sum += turned ? x * std::exp(y) : std::exp(x) * y;
        }
        ASSERT_NEAR(got[at], turned ? std::max(sum, 0.0) : sum, 1e-3) << at;
      }
    });
  }
}

// Of two products that meet, what comes of the smaller one is stored: each has tiles of its own.
TEST(Products, ThatMeet) {
  const Product first{96, 300, 128, 1, false, true}, second{96, 500, 128};
  Floats parts[2];
  std::string schedule;
  for (const bool swapped : {false, true}) {
    const Build build = [&] {
      const Tensor a = first.make().relu(), b = second.make() * 2.0;
      return (swapped ? b + a : a + b).relu();
    };
    parts[0] = run([&] { return first.make(); }, 2, &schedule);
    parts[1] = run([&] { return second.make(); }, 2, &schedule);
    first.check(parts[0], 7);
    second.check(parts[1], 7);
    each_width(build, [&](const Floats& got) {
      for (size_t i = 0; i < got.size(); ++i) {
        const float sum = std::fmax(parts[0][i], 0.0f) + 2 * parts[1][i];
        ASSERT_NEAR(got[i], std::fmax(sum, 0.0f), 1e-3) << i;
      }
    });
    run(build, 2, &schedule);
    EXPECT_NE(schedule.find("_96x128_r300"), std::string::npos) << schedule;
    EXPECT_NE(schedule.find("_96x128_r500"), std::string::npos) << schedule;
  }
}

// What follows a product is stored with it, where what reads it reads elements more than once, and
// where an activation reads its argument twice.
TEST(Products, AreStoredWithWhatFollows) {
  const Product product{96, 300, 128};
  struct Case {
    const char* name;
    std::function<Tensor(const Tensor&)> follow;
    const char* kernel;
  };
  const Case kCases[] = {
      {"clip", [](const Tensor& x) { return (x + 1.0).clip(0.0, 6.0); },
       "matmul_add_cmplt_where_96x128_r300"},
      {"relu", [](const Tensor& x) { return (x + 1.0).relu(); }, "matmul_add_relu_96x128_r300"},
      {"silu", [](const Tensor& x) { return (x + 1.0).silu(); }, "matmul_"},
  };
  for (const Case& one : kCases) {
    std::string schedule;
    // Windows of three rows, each element in several.
    const Build build = [&] {
      const Tensor y = one.follow(product.make()).reshape({1, 1, 96, 128});
      return y.max_pool2d({3, 3}, {.stride = {1}});
    };
    (void)run(build, 2, &schedule);
    EXPECT_NE(schedule.find(one.kernel), std::string::npos) << one.name << "\n" << schedule;
    // The kernel of the pool reads what is stored and computes nothing of its own before.
    const size_t pool = schedule.rfind("max");
    ASSERT_NE(pool, std::string::npos) << schedule;
    const size_t line = schedule.rfind('\n', pool);
    const std::string last = schedule.substr(line == std::string::npos ? 0 : line);
    EXPECT_EQ(last.find("relu"), std::string::npos) << schedule;
    EXPECT_EQ(last.find("where"), std::string::npos) << schedule;
    EXPECT_EQ(last.find("exp"), std::string::npos) << schedule;
  }
}

// Heads whose results lie beside each other in rows: a loop over heads and one within.
TEST(Products, OfHeadsInRows) {
  constexpr int64_t kHeads = 6, kRows = 40, kTerms = 70, kWide = 24;
  const Product each{kRows, kTerms, kWide, kHeads};
  std::string schedule;
  const Floats apart = run([&] { return each.make(); }, 2, &schedule);
  each.check(apart, 3);
  const Build build = [&] {
    return each.make().transpose(0, 1).reshape({kRows, kHeads * kWide}) * 3.0;
  };
  each_width(build, [&](const Floats& got) {
    ASSERT_EQ(got.size(), apart.size());
    for (int64_t at = 0; at < kRows * kHeads * kWide; ++at) {
      const int64_t row = at / (kHeads * kWide), head = at / kWide % kHeads, column = at % kWide;
      ASSERT_NEAR(got[static_cast<size_t>(at)],
                  3 * apart[static_cast<size_t>((head * kRows + row) * kWide + column)], 1e-3);
    }
  });
  run(build, 2, &schedule);
  EXPECT_NE(schedule.find("40x6x24_r70"), std::string::npos) << schedule;
}

TEST(Products, InDouble) {
  const Product one{70, 8200, 150};
  each_width(
      [] {
        return data({70, 8200})
            .cast(aster_ml::dtypes::float64)
            .matmul(data({8200, 150}, 2).cast(aster_ml::dtypes::float64))
            .cast(aster_ml::dtypes::float32);
      },
      [&](const Floats& got) { one.check(got, 61); });
}

// A chain of so many additions would be wrong by 5e-4.
TEST(Products, LongSumsRoundLittle) {
  constexpr int64_t kTerms = 400000;
  std::string schedule;
  const Floats got = run(
      [] {
        return Tensor::full({10, kTerms}, 0.1F)
            .contiguous()
            .matmul(Tensor::full({kTerms, 10}, 1.0F).contiguous());
      },
      2, &schedule);
  for (const float x : got) EXPECT_NEAR(x, 0.1F * double{kTerms}, 0.1 * kTerms * 1e-4) << schedule;
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
    const Floats got = run(build, 1, &schedule);
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
    for (const int32_t threads : {2, 7}) EXPECT_EQ(got, run(build, threads, &schedule));
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

INSTANTIATE_TEST_SUITE_P(Products, Generated, testing::Bool(), [](const auto& one) {
  return std::string(one.param ? "Turned" : "Plain");
});

struct Convolution {
  int64_t images, channels, height, width, filters, kernel, stride = 1, padding = 0, dilation = 1;
  int32_t groups = 1;
  int64_t out(int64_t size) const {
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
  Tensor image() const { return data({images, channels, height, width}); }
  Tensor weights() const { return data({filters, channels / groups, kernel, kernel}, 2); }
  Tensor weighing() const { return data({images, filters, out(height), out(width)}, 3); }
  Tensor of(const Tensor& x, const Tensor& w) const {
    return x.conv2d(
        w, {},
        {.stride = {stride}, .dilation = {dilation}, .padding = {padding}, .groups = groups});
  }
  Tensor make() const { return of(image(), weights()); }
  // Gradient to the weights of the sum of the results, each times a number.
  Tensor weight_gradient() const {
    const Tensor w = Tensor::zeros({filters, channels / groups, kernel, kernel});
    return (of(image(), w) * weighing()).sum().gradient(w);
  }
  std::map<size_t, double> some_gradients(size_t every) const {
    const int64_t rows = out(height), columns = out(width), per = channels / groups;
    const Floats x = noise(static_cast<size_t>(images * channels * height * width), 1),
                 g = noise(static_cast<size_t>(images * filters * rows * columns), 3);
    std::map<size_t, double> made;
    for (size_t at = 0; at < static_cast<size_t>(filters * per * kernel * kernel); at += every) {
      const auto i = static_cast<int64_t>(at);
      const int64_t kx = i % kernel, ky = i / kernel % kernel, c = i / kernel / kernel % per,
                    o = i / kernel / kernel / per, channel = o / (filters / groups) * per + c;
      double sum = 0;
      for (int64_t n = 0; n < images; ++n) {
        for (int64_t oy = 0; oy < rows; ++oy) {
          const int64_t y = oy * stride - padding + ky * dilation;
          for (int64_t ox = 0; ox < columns && y >= 0 && y < height; ++ox) {
            const int64_t z = ox * stride - padding + kx * dilation;
            if (z < 0 || z >= width) continue;
            sum +=
                double{
                    x[static_cast<size_t>(((n * channels + channel) * height + y) * width + z)]} *
                g[static_cast<size_t>(((n * filters + o) * rows + oy) * columns + ox)];
          }
        }
      }
      made[at] = sum;
    }
    return made;
  }
  // Of the transposed convolution, where image and gradients change their roles: the same numbers.
  bool fits_transposed() const {
    return (height + 2 * padding - kernel) % stride == 0 && dilation == 1;
  }
  Tensor transposed_weight_gradient() const {
    const Tensor w = weights();
    const Tensor made = weighing().conv_transpose2d(
        w, {}, {.stride = {stride}, .padding = {padding}, .groups = groups});
    return (made * image()).sum().gradient(w);
  }
  // The same to the image.
  Tensor image_gradient() const {
    const Tensor x = Tensor::zeros({images, channels, height, width});
    return (of(x, weights()) * weighing()).sum().gradient(x);
  }
  std::map<size_t, double> some_of_images(size_t every) const {
    const int64_t rows = out(height), columns = out(width), per = channels / groups,
                  filters_each = filters / groups;
    const Floats w = noise(static_cast<size_t>(filters * per * kernel * kernel), 2),
                 g = noise(static_cast<size_t>(images * filters * rows * columns), 3);
    std::map<size_t, double> made;
    for (size_t at = 0; at < static_cast<size_t>(images * channels * height * width); at += every) {
      const auto i = static_cast<int64_t>(at);
      const int64_t x = i % width, y = i / width % height, c = i / width / height % channels,
                    n = i / width / height / channels;
      double sum = 0;
      for (int64_t k = 0; k < kernel * kernel; ++k) {
        const int64_t down = y + padding - k / kernel * dilation,
                      across = x + padding - k % kernel * dilation;
        if (down < 0 || across < 0 || down % stride != 0 || across % stride != 0) continue;
        const int64_t oy = down / stride, ox = across / stride;
        if (oy >= rows || ox >= columns) continue;
        for (int64_t o = c / per * filters_each; o < (c / per + 1) * filters_each; ++o) {
          sum += double{w[static_cast<size_t>((o * per + c % per) * kernel * kernel + k)]} *
                 g[static_cast<size_t>(((n * filters + o) * rows + oy) * columns + ox)];
        }
      }
      made[at] = sum;
    }
    return made;
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
      {2, 24, 17, 15, 80, 3, 1, 1},
      {2, 24, 17, 15, 80, 3, 2, 1},
      {2, 24, 17, 15, 80, 3, 1, 2, 2},
      {1, 3, 70, 75, 40, 7, 2, 3},
      {2, 48, 30, 26, 37, 1, 2},
      {1, 48, 26, 30, 37, 1},
      {2, 32, 20, 17, 64, 3, 1, 1, 1, 2},
      {9, 64, 7, 7, 48, 3, 1, 1},
      {2, 16, 33, 31, 3, 3, 1, 1},
      {1, 40, 21, 22, 17, 2},
      // An image a filter, a few filters an image, and groups.
      {2, 24, 33, 31, 24, 3, 1, 1, 1, 24},
      {1, 24, 30, 29, 24, 5, 1, 2, 1, 24},
      {1, 8, 60, 41, 8, 7, 1, 3, 1, 8},
      {2, 24, 33, 31, 48, 3, 2, 1, 1, 24},
      {2, 32, 28, 27, 32, 3, 1, 1, 1, 4},
      {1, 24, 40, 33, 24, 3, 1, 2, 2, 24},
      {3, 40, 7, 7, 40, 3, 1, 1, 1, 40},
      {2, 32, 28, 27, 32, 3, 2, 1, 1, 2},
      // Fewer filters or pixels in a row than a vector has lanes.
      {3, 60, 9, 9, 12, 7, 1, 3},
      {2, 68, 10, 11, 5, 3, 2, 1},
      {3, 17, 7, 6, 50, 3, 1, 1},
      {1, 30, 13, 13, 7, 1},
      {2, 20, 11, 11, 20, 3, 2, 1, 1, 20},
  };
  for (const Convolution& kind : kinds) {
    const std::map<size_t, double> expected = kind.some(37);
    each_width([&] { return kind.make(); },
               [&](const Floats& got) {
                 for (const auto& [at, sum] : expected)
                   ASSERT_NEAR(got[at], sum, 1e-4) << at << " of " << (&kind - kinds);
               });
  }
}

// Filters in the lanes as well, from a copy that turns the gradients of a panel; images in parts.
TEST(Convolutions, GradientsToWeights) {
  const Convolution kinds[] = {
      {3, 24, 17, 15, 80, 3, 1, 1},        {3, 24, 17, 15, 80, 3, 2, 1},
      {2, 24, 17, 15, 80, 3, 1, 2, 2},     {2, 32, 20, 17, 64, 3, 1, 1, 1, 2},
      {1, 3, 150, 191, 40, 7, 2, 3},       {5, 20, 57, 56, 48, 3, 1, 1},
      {2, 48, 30, 26, 37, 1, 2},           {2, 64, 26, 30, 48, 1},
      {1, 64, 7, 7, 48, 3, 1, 1},          {1, 2, 190, 181, 16, 5, 1, 2},
      {4, 16, 12, 12, 16, 3, 1, 1, 1, 16}, {2, 24, 28, 28, 40, 4, 2, 1},
      {2, 32, 28, 26, 32, 5, 1, 2, 1, 32}, {2, 32, 28, 26, 32, 3, 1, 1, 1, 4},
      {2, 16, 33, 33, 20, 5, 4, 0},        {3, 16, 28, 31, 20, 1, 3, 0},
  };
  for (const Convolution& kind : kinds) {
    const std::map<size_t, double> expected = kind.some_gradients(37);
    const double tolerance =
        1e-4 + 2e-8 * static_cast<double>(kind.images * kind.height * kind.width);
    const auto check = [&](const Floats& got) {
      for (const auto& [at, sum] : expected)
        ASSERT_NEAR(got[at], sum, tolerance) << at << " of " << (&kind - kinds);
    };
    each_width([&] { return kind.weight_gradient(); }, check);
    if (kind.fits_transposed())
      each_width([&] { return kind.transposed_weight_gradient(); }, check);
  }
}

// Weights that a step adds to where they lie: vectors that fit and others, which may not overlap.
TEST(Convolutions, WeightsChangedInPlace) {
  const Convolution kinds[] = {
      {2, 24, 17, 15, 80, 3, 1, 1}, {2, 24, 17, 15, 37, 3, 1, 1},
      {1, 3, 70, 75, 40, 7, 2, 3},  {2, 32, 20, 17, 64, 3, 1, 1, 1, 2},
      {2, 13, 20, 17, 16, 3, 1, 1}, {4, 16, 12, 12, 16, 3, 1, 1, 1, 16},
  };
  for (const Convolution& kind : kinds) {
    const std::map<size_t, double> expected = kind.some_gradients(11);
    const Floats before = noise(
        static_cast<size_t>(kind.filters * kind.channels / kind.groups * kind.kernel * kind.kernel),
        2);
    for (const int32_t bytes : {16, 32, 64}) {
      aster_ml_context_options options{};
      options.vector_bytes = bytes;
      Session s(options);
      Tensor w = kind.weights();
      EXPECT_OK(w.realize());
      const Tensor loss = (kind.of(kind.image(), w) * kind.weighing()).sum();
      EXPECT_OK(w.assign(w - loss.gradient(w) * 0.5));
      EXPECT_OK(w.realize());
      const Floats got = read(w);
      for (const auto& [at, sum] : expected) {
        ASSERT_NEAR(got[at], before[at] - sum / 2, 2e-4)
            << at << " of " << (&kind - kinds) << s.schedule();
      }
    }
  }
}

// With a stride a convolution for each place between two pixels: kernels shorter than the stride,
// of every padding, images that end between two windows, and what has a dilation and stays whole.
TEST(Convolutions, GradientsToImages) {
  const Convolution kinds[] = {
      {2, 24, 17, 25, 40, 3, 1, 1},    {2, 24, 27, 25, 40, 3, 2, 1},
      {2, 24, 28, 28, 40, 4, 2, 1},    {2, 16, 28, 31, 32, 2, 3},
      {3, 16, 30, 29, 24, 1, 2},       {1, 3, 64, 70, 24, 7, 2, 3},
      {2, 16, 32, 33, 20, 5, 3, 4},    {2, 16, 28, 28, 32, 3, 2, 0},
      {2, 16, 28, 28, 32, 3, 2, 2, 2}, {2, 32, 28, 26, 48, 3, 2, 1, 1, 2},
  };
  for (const Convolution& kind : kinds) {
    const std::map<size_t, double> expected = kind.some_of_images(37);
    each_width([&] { return kind.image_gradient(); },
               [&](const Floats& got) {
                 for (const auto& [at, sum] : expected)
                   ASSERT_NEAR(got[at], sum, 1e-4) << at << " of " << (&kind - kinds);
               });
  }
  // No pixel is multiplied by a zero between two others.
  std::string schedule;
  (void)run([&] { return kinds[2].image_gradient(); }, 1, &schedule);
  EXPECT_EQ(schedule.find("r24x4x4"), std::string::npos) << schedule;
  EXPECT_NE(schedule.find("r40x2x2"), std::string::npos) << schedule;
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
