// Convolutions, pools and interpolation of any rank against plain loops over their definitions.
#include "spatial.h"

#include <array>
#include <cmath>

namespace aster::tensor::test {
namespace {

Values naive_conv(const Values& x, const Shape& xs, const Values& w, const Shape& ws,
                  const Windows& v, int64_t groups, Shape* shape) {
  const Shape size(xs.begin() + 2, xs.end());
  const Shape o = v.windows(size);
  *shape = join({xs[0], ws[0]}, o);
  Values out;
  each(*shape, [&](const Shape& at) {
    double total = 0;
    const int64_t group = at[1] / (ws[0] / groups);
    each(Shape(ws.begin() + 1, ws.end()), [&](const Shape& tap) {
      const Shape place =
          v.place(Shape(at.begin() + 2, at.end()), Shape(tap.begin() + 1, tap.end()));
      if (!inside(size, place)) return;
      total += x[offset(xs, join({at[0], group * ws[1] + tap[0]}, place))] *
               w[offset(ws, join({at[1]}, tap))];
    });
    out.push_back(total);
  });
  return out;
}

Values naive_transpose(const Values& x, const Shape& xs, const Values& w, const Shape& ws,
                       const Windows& v, const Shape& more, int64_t groups, Shape* shape) {
  *shape = {xs[0], groups * ws[1]};
  for (size_t i = 0; i < v.rank(); ++i) {
    shape->push_back((xs[2 + i] - 1) * v.stride[i] - v.before[i] - v.after[i] + v.span(i) +
                     more[i]);
  }
  const Shape size(shape->begin() + 2, shape->end());
  Values out(static_cast<size_t>(count_of(*shape)), 0);
  each(xs, [&](const Shape& at) {
    const int64_t group = at[1] / (ws[0] / groups);
    each(Shape(ws.begin() + 1, ws.end()), [&](const Shape& tap) {
      const Shape place =
          v.place(Shape(at.begin() + 2, at.end()), Shape(tap.begin() + 1, tap.end()));
      if (!inside(size, place)) return;
      out[offset(*shape, join({at[0], group * ws[1] + tap[0]}, place))] +=
          x[offset(xs, at)] * w[offset(ws, join({at[1]}, tap))];
    });
  });
  return out;
}

struct Pooled {
  Shape shape;
  Values most, place, mean;
};
Pooled naive_pool(const Values& x, const Shape& xs, const Windows& v, bool ceil, bool exclude) {
  const size_t lead = xs.size() - v.rank();
  const Shape size(xs.begin() + static_cast<int64_t>(lead), xs.end());
  Shape padded_low, padded_high;
  Pooled out{
      join(Shape(xs.begin(), xs.begin() + static_cast<int64_t>(lead)), v.windows(size, ceil)),
      {},
      {},
      {}};
  each(out.shape, [&](const Shape& at) {
    const Shape front(at.begin(), at.begin() + static_cast<int64_t>(lead)),
        o(at.begin() + static_cast<int64_t>(lead), at.end());
    double most = -INFINITY, total = 0, n = 0, where = static_cast<double>(count_of(size));
    each(v.kernel, [&](const Shape& k) {
      const Shape place = v.place(o, k);
      bool counted = true;
      for (size_t i = 0; i < v.rank(); ++i) counted &= place[i] < size[i] + v.after[i];
      const bool real = inside(size, place);
      n += exclude ? real : counted;
      if (!real) return;
      const double value = x[offset(xs, join(front, place))];
      total += value;
      if (value > most) {
        most = value;
        where = static_cast<double>(offset(size, place));
      }
    });
    out.most.push_back(most);
    out.place.push_back(where);
    out.mean.push_back(total / n);
  });
  return out;
}

INSTANTIATE_TEST_SUITE_P(Runtimes, Spatial, ::testing::Values(true, false),
                         [](const auto& runtime) {
                           return runtime.param ? "interpreted" : "compiled";
                         });

TEST_P(Spatial, Convolutions) {
  for (int round = 0; round < rounds(80); ++round) {
    const size_t rank = static_cast<size_t>(round % 4);
    const int64_t groups = pick(1, 2), c = pick(1, 2), o = groups * pick(1, 2);
    Shape size;
    for (size_t i = 0; i < rank; ++i) size.push_back(pick(2, 6));
    const Windows v = windows(size, true);
    const Shape xs = join({pick(1, 2), groups * c}, size), ws = join({o, c}, v.kernel);
    const Values x = noise(count_of(xs)), w = noise(count_of(ws)), b = noise(o);
    Shape shape;
    Values y = naive_conv(x, xs, w, ws, v, groups, &shape);
    const bool biased = round % 3 == 0;
    size_t k = 0;
    if (biased) each(shape, [&](const Shape& at) { y[k++] += b[static_cast<size_t>(at[1])]; });
    const aster_ml_conv_options options = conv_options(v, groups);
    T t;
    const T bias = from(world, b, {o});
    OK(aster_ml_lazy_conv(t, from(world, x, xs), from(world, w, ws),
                          biased ? static_cast<const aster_ml_lazy*>(bias) : nullptr, &options));
    expect(std::move(t), shape, y, "conv " + std::to_string(round));
  }
  settle();
}

TEST_P(Spatial, TransposedConvolutions) {
  for (int round = 0; round < rounds(80); ++round) {
    const size_t rank = static_cast<size_t>(1 + round % 3);
    const int64_t groups = pick(1, 2), c = groups * pick(1, 2), o = pick(1, 2);
    Shape xs{pick(1, 2), c}, more, shape;
    Windows v;
    for (size_t i = 0; i < rank; ++i) {
      xs.push_back(pick(1, 4));
      v.kernel.push_back(pick(1, 3));
      v.stride.push_back(pick(1, 3));
      v.dilation.push_back(pick(1, 2));
      v.before.push_back(pick(-1, 2));
      v.after.push_back(pick(-1, 2));
      more.push_back(pick(0, 2));
    }
    const Shape ws = join({c, o}, v.kernel);
    const Values x = noise(count_of(xs)), w = noise(count_of(ws));
    bool fits = true;
    for (size_t i = 0; i < rank; ++i) {
      fits &= (xs[2 + i] - 1) * v.stride[i] - v.before[i] - v.after[i] + v.span(i) + more[i] > 0;
    }
    aster_ml_conv_options options = conv_options(v, groups);
    options.output_padding = more.data();
    T t;
    const int32_t status =
        aster_ml_lazy_conv_transpose(t, from(world, x, xs), from(world, w, ws), nullptr, &options);
    ASSERT_EQ(status, fits ? 0 : ASTER_ML_SHAPE) << message();
    if (!fits) continue;
    const Values y = naive_transpose(x, xs, w, ws, v, more, groups, &shape);
    expect(std::move(t), shape, y, "conv_transpose " + std::to_string(round));
  }
  settle();
}

TEST_P(Spatial, Pools) {
  for (int round = 0; round < rounds(96); ++round) {
    const size_t rank = static_cast<size_t>(1 + round % 3);
    Shape size, front;
    for (size_t i = 0; i < rank; ++i) size.push_back(pick(2, 6));
    for (int64_t i = pick(0, 2); i > 0; --i) front.push_back(2);
    const Windows v = windows(size, false);
    const Shape xs = join(front, size);
    const Values x = noise(count_of(xs));
    aster_ml_pool_options options = pool_options(v);
    options.ceil_mode = round % 2;
    options.exclude_pad = round / 2 % 2;
    const Pooled y = naive_pool(x, xs, v, options.ceil_mode != 0, options.exclude_pad != 0);
    const T t = from(world, x, xs);
    T most, mean, value, place;
    const std::string name = std::to_string(round);
    OK(aster_ml_lazy_max_pool(most, t, rank, v.kernel.data(), &options));
    OK(aster_ml_lazy_max_pool_with_indices(value, place, t, rank, v.kernel.data(), &options));
    OK(aster_ml_lazy_avg_pool(mean, t, rank, v.kernel.data(), &options));
    EXPECT_EQ(place.dtype(), ASTER_ML_DTYPE_INT32);
    expect(std::move(place), y.shape, y.place, "positions of max_pool " + name);
    expect(std::move(value), y.shape, y.most, "values of max_pool " + name);
    expect(std::move(most), y.shape, y.most, "max_pool " + name);
    Values of_padding = y.mean;
    bool defined = true;
    for (double m : y.mean) defined &= !std::isnan(m);
    if (defined) expect(std::move(mean), y.shape, y.mean, "avg_pool " + name);
  }
  settle();
}

TEST_P(Spatial, Unpools) {
  for (int round = 0; round < rounds(24); ++round) {
    const size_t rank = static_cast<size_t>(1 + round % 3);
    Shape size, front{2};
    for (size_t i = 0; i < rank; ++i) size.push_back(pick(2, 6));
    const Windows v = windows(size, false);
    const Shape xs = join(front, size);
    const Values x = noise(count_of(xs));
    aster_ml_pool_options options = pool_options(v);
    options.size = size.data();
    const Pooled y = naive_pool(x, xs, v, false, false);
    const T t = from(world, x, xs);
    T value, place, back;
    OK(aster_ml_lazy_max_pool_with_indices(value, place, t, rank, v.kernel.data(), &options));
    OK(aster_ml_lazy_max_unpool(back, value, place, rank, v.kernel.data(), &options));
    Values expected(x.size(), 0);
    size_t k = 0;
    each(y.shape, [&](const Shape& at) {
      const int64_t to = static_cast<int64_t>(y.place[k]);
      if (to < count_of(size))
        expected[static_cast<size_t>(at[0] * count_of(size) + to)] += y.most[k];
      ++k;
    });
    expect(std::move(back), xs, expected, "max_unpool " + std::to_string(round));
  }
  settle();
}

// Sizes of an unpooled axis, from the windows where none is given.
TEST_P(Spatial, UnpoolsToWhatWindowsReach) {
  const T x = from<double>(world, {1, 2, 3, 4}, {1, 1, 2, 2});
  const T at = from<int64_t>(world, {0, 3, 8, 99}, {1, 1, 2, 2});
  const Shape kernel{2, 2};
  T back;
  OK(aster_ml_lazy_max_unpool(back, x, at, 2, kernel.data(), nullptr));
  expect(std::move(back), {1, 1, 4, 4}, {1, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}, "unpool");
  settle();
}

double read_linear(const Values& x, double at) {
  at = std::clamp(at, 0.0, static_cast<double>(x.size() - 1));
  const double low = std::floor(at);
  const size_t i = static_cast<size_t>(low), j = std::min(i + 1, x.size() - 1);
  return x[i] + (x[j] - x[i]) * (at - low);
}

TEST_P(Spatial, Interpolations) {
  for (const auto& [n, size] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 4}, {4, 1}, {3, 6}, {6, 3}, {5, 7}, {7, 5}, {4, 4}, {9, 3}, {2, 98}}) {
    const Values x = noise(n);
    const T t = from(world, x, {n});
    for (const bool corners : {false, true}) {
      Values y;
      for (int64_t i = 0; i < size; ++i) {
        const double step =
            size > 1 ? static_cast<double>(n - 1) / static_cast<double>(size - 1) : 0;
        const double middle =
            (static_cast<double>(i) + 0.5) * static_cast<double>(n) / static_cast<double>(size) -
            0.5;
        y.push_back(read_linear(x, corners ? static_cast<double>(i) * step : middle));
      }
      T out;
      OK(aster_ml_lazy_interpolate(out, t, 1, &size, ASTER_ML_INTERPOLATION_LINEAR, corners));
      expect(std::move(out), {size}, y, "linear " + std::to_string(n) + " " + std::to_string(size));
    }
    for (const int32_t mode :
         {ASTER_ML_INTERPOLATION_NEAREST, ASTER_ML_INTERPOLATION_NEAREST_EXACT}) {
      Values y;
      for (int64_t i = 0; i < size; ++i) {
        const bool exact = mode == ASTER_ML_INTERPOLATION_NEAREST_EXACT;
        y.push_back(x[static_cast<size_t>(exact ? (2 * i + 1) * n / (2 * size) : i * n / size)]);
      }
      T out;
      OK(aster_ml_lazy_interpolate(out, t, 1, &size, mode, 0));
      expect(std::move(out), {size}, y,
             "nearest " + std::to_string(n) + " " + std::to_string(size));
    }
  }
  settle();
}

TEST_P(Spatial, DTypes) {
  const Shape xs{1, 1, 3}, ws{1, 1, 2}, kernel{2}, two{6};
  const auto line = [&](int32_t dtype) { return tensor_of(world, {100, 100, -100}, dtype, xs); };
  const auto taps = [&](int32_t dtype) { return tensor_of(world, {2, 1}, dtype, ws); };
  const auto conv = [&](int32_t x, int32_t w, int32_t dtype) {
    aster_ml_conv_options o{};
    o.struct_size = sizeof(o);
    o.dtype = dtype;
    T t;
    EXPECT_EQ(aster_ml_lazy_conv(t, line(x), taps(w), nullptr, &o), 0) << message();
    return t;
  };
  constexpr int32_t kInt8 = ASTER_ML_DTYPE_INT8, kHalf = ASTER_ML_DTYPE_FLOAT16,
                    kFloat = ASTER_ML_DTYPE_FLOAT32, kInt = ASTER_ML_DTYPE_INT32;
  // Products of int8 wrap as tinygrad's do, unless a wider dtype is asked for.
  T sums = conv(kInt8, kInt8, 0), wide = conv(kInt8, kInt8, kInt), half = conv(kHalf, kHalf, 0),
    raised = conv(kHalf, kHalf, kFloat), rounded = conv(kFloat, kFloat, kHalf),
    mixed = conv(kInt8, kHalf, 0);
  EXPECT_EQ(sums.dtype(), kInt);
  EXPECT_EQ(sums.read<int32_t>(), (std::vector<int32_t>{-56 + 100, -56 - 100}));
  EXPECT_EQ(wide.dtype(), kInt);
  EXPECT_EQ(wide.read<int32_t>(), (std::vector<int32_t>{300, 100}));
  EXPECT_EQ(half.dtype(), kHalf);
  EXPECT_EQ(mixed.dtype(), kHalf);
  EXPECT_EQ(raised.dtype(), kFloat);
  EXPECT_EQ(raised.floats(), (std::vector<float>{300, 100}));
  EXPECT_EQ(rounded.dtype(), kHalf);
  EXPECT_EQ(rounded.read<uint16_t>(), (std::vector<uint16_t>{0x5CB0, 0x5640}));
  const T truth = from<uint8_t>(world, {1, 0, 0, 1}, {4}, ASTER_ML_DTYPE_BOOL);
  T any, mean, most, mean_of_int, larger, bytes;
  OK(aster_ml_lazy_max_pool(any, truth, 1, kernel.data(), nullptr));
  EXPECT_EQ(any.dtype(), ASTER_ML_DTYPE_BOOL);
  EXPECT_EQ(any.read<uint8_t>(), (std::vector<uint8_t>{1, 1}));
  OK(aster_ml_lazy_avg_pool(mean, truth, 1, kernel.data(), nullptr));
  EXPECT_EQ(mean.floats(), (std::vector<float>{0.5f, 0.5f}));
  OK(aster_ml_lazy_max_pool(most, line(kInt8), 1, kernel.data(), nullptr));
  EXPECT_EQ(most.read<int8_t>(), (std::vector<int8_t>{100}));
  OK(aster_ml_lazy_avg_pool(mean_of_int, line(kInt), 1, kernel.data(), nullptr));
  EXPECT_EQ(mean_of_int.floats(), (std::vector<float>{100}));
  OK(aster_ml_lazy_interpolate(larger, line(kInt), 1, two.data(), ASTER_ML_INTERPOLATION_LINEAR,
                               0));
  EXPECT_EQ(larger.read<int32_t>(), (std::vector<int32_t>{100, 100, 100, 50, -50, -100}));
  const T grey = from<uint8_t>(world, {0, 255, 1}, {3});
  OK(aster_ml_lazy_interpolate(bytes, grey, 1, two.data(), ASTER_ML_INTERPOLATION_LINEAR, 0));
  EXPECT_EQ(bytes.read<uint8_t>(), (std::vector<uint8_t>{0, 64, 191, 192, 64, 1}));
}

TEST_P(Spatial, NaNAndInfinity) {
  const Values line{1, NAN, 2, -INFINITY, -INFINITY, 3};
  const T x = from(world, line, {6});
  const Shape kernel{2};
  T most, value, place;
  OK(aster_ml_lazy_max_pool(most, x, 1, kernel.data(), nullptr));
  OK(aster_ml_lazy_max_pool_with_indices(value, place, x, 1, kernel.data(), nullptr));
  const Values got = most.read<double>();
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], 2);
  EXPECT_EQ(got[2], 3);
  EXPECT_EQ(place.read<int32_t>(), (std::vector<int32_t>{1, 2, 5}));
}

TEST_P(Spatial, EmptyTensors) {
  const T none = from<double>(world, {}, {0, 2, 5}),
          w = from<double>(world, {1, 2, 3, 4}, {1, 2, 2});
  const T thin = from<double>(world, {}, {2, 0, 5}), thin_w = from<double>(world, {}, {3, 0, 2});
  const Shape kernel{2}, size{7}, zero{0};
  T y, sums, pooled, value, place, back, larger, gone, turned;
  OK(aster_ml_lazy_conv(y, none, w, nullptr, nullptr));
  expect(std::move(y), {0, 1, 4}, {}, "no images");
  OK(aster_ml_lazy_conv(sums, thin, thin_w, nullptr, nullptr));
  expect(std::move(sums), {2, 3, 4}, Values(24, 0), "no channels");
  OK(aster_ml_lazy_conv_transpose(turned, thin, from<double>(world, {}, {0, 3, 2}), nullptr,
                                  nullptr));
  expect(std::move(turned), {2, 3, 6}, Values(36, 0), "no channels, transposed");
  OK(aster_ml_lazy_avg_pool(pooled, none, 1, kernel.data(), nullptr));
  expect(std::move(pooled), {0, 2, 2}, {}, "avg_pool");
  OK(aster_ml_lazy_max_pool_with_indices(value, place, none, 1, kernel.data(), nullptr));
  OK(aster_ml_lazy_max_unpool(back, value, place, 1, kernel.data(), nullptr));
  expect(std::move(back), {0, 2, 4}, {}, "max_unpool");
  OK(aster_ml_lazy_interpolate(larger, none, 1, size.data(), ASTER_ML_INTERPOLATION_LINEAR, 0));
  expect(std::move(larger), {0, 2, 7}, {}, "interpolate");
  OK(aster_ml_lazy_interpolate(gone, w, 1, zero.data(), ASTER_ML_INTERPOLATION_NEAREST, 0));
  expect(std::move(gone), {1, 2, 0}, {}, "interpolate to nothing");
  settle();
}

}  // namespace
}  // namespace aster::tensor::test
