// Sticky integers as tensors: every operation against exact integers, on the compiled runtime,
// whose kernels have them lowered, and on the interpreter, which has their definition.
#include "aster_ml/sticky.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aster.h"

namespace programs {
namespace {

__extension__ typedef __int128 Exact;

// A width: its dtype, that of what is stored, bounds.
struct Width {
  int32_t code, stored;
  int bits;
  int64_t most() const { return INT64_MAX >> (64 - bits); }
  int64_t error() const { return -most() - 1; }
  int64_t checked(Exact x) const {
    return x > most() || x < -Exact{most()} ? error() : static_cast<int64_t>(x);
  }
};
constexpr Width kWidths[] = {{ASTER_ML_DTYPE_TBB8, ASTER_ML_DTYPE_INT8, 8},
                             {ASTER_ML_DTYPE_TBB16, ASTER_ML_DTYPE_INT16, 16},
                             {ASTER_ML_DTYPE_TBB32, ASTER_ML_DTYPE_INT32, 32},
                             {ASTER_ML_DTYPE_TBB64, ASTER_ML_DTYPE_INT64, 64}};
const Width& k8 = kWidths[0];
const Width& wider(const Width& w) { return w.bits == 8 ? kWidths[2] : kWidths[3]; }
using Words = std::vector<int64_t>;

// Patterns as realised tensors of a sticky dtype, and back.
Tensor tensor(const Width& w, const Words& words, const Shape& shape) {
  Tensor x = Tensor(words, shape).cast(aster_ml::Dtype{w.stored}).bitcast(aster_ml::Dtype{w.code});
  EXPECT_OK(x.realize());
  return x;
}
Words patterns(const Tensor& x) {
  for (const Width& w : kWidths) {
    if (static_cast<int32_t>(x.dtype()) == w.code)
      return x.bitcast(aster_ml::Dtype{w.stored}).to_vector<int64_t>();
  }
  return x.to_vector<int64_t>();
}

// Runs of one test: vectors of both lengths, and the interpreter.
struct Run {
  const char* name;
  bool reference;
  int32_t vector_bytes;
};
class Sticky : public testing::TestWithParam<Run> {
 protected:
  Sticky() : session_(options()) {
    if (!GetParam().reference) return;
    int32_t device = 0;
    EXPECT_OK(aster_ml_device_from_name(&device, "REFERENCE"));
    EXPECT_OK(session_.set_device(device));
  }
  static aster_ml_context_options options() {
    aster_ml_context_options o = {};
    o.vector_bytes = GetParam().vector_bytes;
    return o;
  }
  Session session_;
};
INSTANTIATE_TEST_SUITE_P(Runs, Sticky,
                         testing::Values(Run{"compiled", false, 0}, Run{"narrow", false, 16},
                                         Run{"interpreted", true, 0}),
                         [](const auto& run) { return run.param.name; });

// All pairs of tbb8; of the others corners and numbers of any size, against each other.
struct Pairs {
  Words a, b;
};
Pairs pairs(const Width& w, uint32_t seed = 1) {
  Pairs out;
  Words some;
  if (w.bits == 8) {
    for (int64_t x = -128; x < 128; ++x) some.push_back(x);
  } else {
    std::mt19937_64 random(seed);
    const int64_t half = int64_t{1} << (w.bits / 2);
    for (const int64_t x : {int64_t{0}, int64_t{1}, int64_t{2}, half - 1, half, half + 1,
                            w.most() / 2, w.most() / 2 + 1, w.most() - 1, w.most()}) {
      some.push_back(x);
      some.push_back(-x);
    }
    some.push_back(w.error());
    while (some.size() < 150) {
      const int shift = 64 - w.bits + static_cast<int>(random() % static_cast<unsigned>(w.bits));
      some.push_back(static_cast<int64_t>(random()) >> shift);
    }
  }
  for (const int64_t x : some) {
    for (const int64_t y : some) {
      out.a.push_back(x);
      out.b.push_back(y);
    }
  }
  return out;
}

using Function = int32_t (*)(aster_ml_lazy*, const aster_ml_lazy*, const aster_ml_lazy*);
struct Row {
  const char* name;
  Function function;
  // On numbers; whether it is one.
  bool (*exact)(Exact* y, Exact a, Exact b);
};
Exact floor_div(Exact a, Exact b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
const Row kRows[] = {
    {"add", aster_ml_lazy_add, [](Exact* y, Exact a, Exact b) { return *y = a + b, true; }},
    {"sub", aster_ml_lazy_sub, [](Exact* y, Exact a, Exact b) { return *y = a - b, true; }},
    {"mul", aster_ml_lazy_mul, [](Exact* y, Exact a, Exact b) { return *y = a * b, true; }},
    {"maximum", aster_ml_lazy_maximum,
     [](Exact* y, Exact a, Exact b) { return *y = a < b ? b : a, true; }},
    {"minimum", aster_ml_lazy_minimum,
     [](Exact* y, Exact a, Exact b) { return *y = a < b ? a : b, true; }},
    {"truncdiv", aster_ml_lazy_truncdiv,
     [](Exact* y, Exact a, Exact b) { return b != 0 && (*y = a / b, true); }},
    {"fmod", aster_ml_lazy_fmod,
     [](Exact* y, Exact a, Exact b) { return b != 0 && (*y = a % b, true); }},
    {"floordiv", aster_ml_lazy_floordiv,
     [](Exact* y, Exact a, Exact b) { return b != 0 && (*y = floor_div(a, b), true); }},
    {"mod", aster_ml_lazy_mod,
     [](Exact* y, Exact a, Exact b) { return b != 0 && (*y = a - b * floor_div(a, b), true); }},
    {"copysign", aster_ml_lazy_copysign,
     [](Exact* y, Exact a, Exact b) {
       const Exact size = a < 0 ? -a : a;
       return *y = b < 0 ? -size : size, true;
     }},
};

TEST_P(Sticky, EveryPairOfEveryBinaryOperation) {
  for (const Width& w : kWidths) {
    const Pairs p = pairs(w);
    const Shape shape = {static_cast<int64_t>(p.a.size())};
    const Tensor a = tensor(w, p.a, shape), b = tensor(w, p.b, shape);
    for (const Row& row : kRows) {
      const Tensor y = make(row.function, a.get(), b.get());
      ASSERT_EQ(static_cast<int32_t>(y.dtype()), w.code) << row.name;
      const Words found = patterns(y);
      ASSERT_EQ(found.size(), p.a.size());
      for (size_t i = 0; i < found.size(); ++i) {
        Exact exact = 0;
        const bool error = p.a[i] == w.error() || p.b[i] == w.error();
        const bool number = !error && row.exact(&exact, p.a[i], p.b[i]);
        ASSERT_EQ(found[i], number ? w.checked(exact) : w.error())
            << row.name << " of tbb" << w.bits << " " << p.a[i] << " and " << p.b[i];
      }
    }
  }
}

TEST_P(Sticky, ComparisonsOfOrderWithErrorsAreFalse) {
  for (const Width& w : kWidths) {
    const Pairs p = pairs(w, 2);
    const Shape shape = {static_cast<int64_t>(p.a.size())};
    const Tensor a = tensor(w, p.a, shape), b = tensor(w, p.b, shape);
    const Words lt = make(aster_ml_lazy_lt, a.get(), b.get()).to_vector<int64_t>();
    const Words le = make(aster_ml_lazy_le, a.get(), b.get()).to_vector<int64_t>();
    const Words gt = make(aster_ml_lazy_gt, a.get(), b.get()).to_vector<int64_t>();
    const Words ge = make(aster_ml_lazy_ge, a.get(), b.get()).to_vector<int64_t>();
    const Words eq = make(aster_ml_lazy_eq, a.get(), b.get()).to_vector<int64_t>();
    const Words ne = make(aster_ml_lazy_ne, a.get(), b.get()).to_vector<int64_t>();
    for (size_t i = 0; i < p.a.size(); ++i) {
      const bool numbers = p.a[i] != w.error() && p.b[i] != w.error();
      ASSERT_EQ(lt[i], numbers && p.a[i] < p.b[i]) << p.a[i] << " " << p.b[i];
      ASSERT_EQ(le[i], numbers && p.a[i] <= p.b[i]) << p.a[i] << " " << p.b[i];
      ASSERT_EQ(gt[i], numbers && p.a[i] > p.b[i]) << p.a[i] << " " << p.b[i];
      ASSERT_EQ(ge[i], numbers && p.a[i] >= p.b[i]) << p.a[i] << " " << p.b[i];
      ASSERT_EQ(eq[i], p.a[i] == p.b[i]) << p.a[i] << " " << p.b[i];
      ASSERT_EQ(ne[i], p.a[i] != p.b[i]) << p.a[i] << " " << p.b[i];
    }
  }
}

TEST_P(Sticky, OperationsOnOneOperand) {
  for (const Width& w : kWidths) {
    Words x = pairs(w, 3).b;
    x.resize(w.bits == 8 ? 256 : 150);
    const Tensor t = tensor(w, x, {static_cast<int64_t>(x.size())});
    const Words neg = patterns(t.neg()), size = patterns(t.abs()), sign = patterns(t.sign());
    const Words relu = patterns(t.relu()), square = patterns(t.square());
    const Words cube = patterns(make(aster_ml_lazy_pow, t.get(), Tensor(3).get()));
    const Words nan = t.isnan().to_vector<int64_t>(), error = t.is_error().to_vector<int64_t>();
    for (size_t i = 0; i < x.size(); ++i) {
      const bool bad = x[i] == w.error();
      const Exact e = x[i];
      ASSERT_EQ(neg[i], bad ? w.error() : -x[i]);
      ASSERT_EQ(size[i], bad ? w.error() : std::abs(x[i]));
      ASSERT_EQ(sign[i], bad ? w.error() : (x[i] > 0) - (x[i] < 0));
      ASSERT_EQ(relu[i], bad ? w.error() : std::max<int64_t>(x[i], 0));
      ASSERT_EQ(square[i], bad ? w.error() : w.checked(e * e));
      const int64_t once = w.checked(e * e);
      ASSERT_EQ(cube[i], bad || once == w.error() ? w.error() : w.checked(Exact{once} * e));
      ASSERT_EQ(nan[i], bad);
      ASSERT_EQ(error[i], bad);
    }
  }
}

TEST_P(Sticky, ConvertsToAndFromEveryDType) {
  for (const Width& w : kWidths) {
    Words x = pairs(w, 4).b;
    x.resize(w.bits == 8 ? 256 : 150);
    const Tensor t = tensor(w, x, {static_cast<int64_t>(x.size())});
    for (const Width& to : kWidths) {
      const Words found = patterns(t.cast(aster_ml::Dtype{to.code}));
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(found[i], x[i] == w.error() ? to.error() : to.checked(x[i]));
    }
    for (int32_t code = ASTER_ML_DTYPE_BOOL; code <= ASTER_ML_DTYPE_FLOAT64; ++code) {
      const aster_ml::Dtype other{code};
      const Tensor y = t.cast(other);
      if (aster_ml_dtype_is_float(code)) {
        // As the integers convert, and NaN.
        const auto found = y.to_vector<double>();
        const auto plain = t.bitcast(aster_ml::Dtype{w.stored}).cast(other).to_vector<double>();
        for (size_t i = 0; i < x.size(); ++i) {
          if (x[i] == w.error()) {
            ASSERT_TRUE(std::isnan(found[i])) << aster_ml_dtype_name(code);
          } else {
            ASSERT_EQ(found[i], plain[i]) << aster_ml_dtype_name(code) << " " << x[i];
          }
        }
      } else {
        const Words found = y.to_vector<int64_t>();
        const Words plain = t.bitcast(aster_ml::Dtype{w.stored}).cast(other).to_vector<int64_t>();
        ASSERT_EQ(found, plain) << aster_ml_dtype_name(code);
        // And back: what is beyond the dtype is ERR, before it is cut.
        const Words back = patterns(y.cast(aster_ml::Dtype{w.code}));
        for (size_t i = 0; i < x.size(); ++i) {
          const Exact value = code == ASTER_ML_DTYPE_UINT64 ? Exact{static_cast<uint64_t>(found[i])}
                                                            : Exact{found[i]};
          ASSERT_EQ(back[i], w.checked(value)) << aster_ml_dtype_name(code) << " " << found[i];
        }
      }
    }
  }
}

TEST_P(Sticky, FloatsAreComparedWithTheBoundsBeforeTheyAreTruncated) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> x = {0,
                           -0.0,
                           0.9,
                           -0.9,
                           1.5,
                           126.9,
                           127,
                           127.5,
                           -127,
                           -127.5,
                           128,
                           inf,
                           -inf,
                           inf - inf,
                           32767,
                           32767.5,
                           -32767.5,
                           2147483647.0,
                           2147483647.5,
                           0x1p31,
                           -0x1p31,
                           0x1.fffffep30,
                           0x1p63,
                           -0x1p63,
                           0x1.fffffffffffffp62,
                           0x1.fffffep62,
                           1e300};
  const Shape shape = {static_cast<int64_t>(x.size())};
  const Tensor given(x, shape);
  for (int32_t code = ASTER_ML_DTYPE_FP8E4M3; code <= ASTER_ML_DTYPE_FLOAT64; ++code) {
    const Tensor rounded = given.cast(aster_ml::Dtype{code}).contiguous();
    const auto values = rounded.to_vector<double>();
    for (const Width& w : kWidths) {
      const Words found = patterns(rounded.cast(aster_ml::Dtype{w.code}));
      for (size_t i = 0; i < x.size(); ++i) {
        const long double v = values[i];
        const bool fits =
            v <= static_cast<long double>(w.most()) && v >= -static_cast<long double>(w.most());
        ASSERT_EQ(found[i], fits ? static_cast<int64_t>(v) : w.error())
            << aster_ml_dtype_name(code) << " " << values[i] << " to tbb" << w.bits;
      }
    }
  }
}

Words noise_of(const Width& w, size_t count, uint32_t seed, int bits) {
  std::mt19937_64 random(seed);
  Words out(count);
  for (int64_t& x : out) {
    x = static_cast<int64_t>(random()) >> (64 - bits);
    if (x < -w.most()) x = w.most();
  }
  return out;
}

TEST_P(Sticky, SumsAreExactAndCheckedOnce) {
  for (const Width& w : kWidths) {
    const Width& to = wider(w);
    for (const int64_t rows : {1, 7}) {
      for (const int64_t columns : {1, 13, 1000, 70000}) {
        if (rows > 1 && columns > 1000) continue;
        Words x = noise_of(w, static_cast<size_t>(rows * columns), 5, w.bits);
        if (rows > 1) x[static_cast<size_t>(3 * columns + columns / 2)] = w.error();
        const Tensor t = tensor(w, x, {rows, columns});
        const Tensor sums = t.sum({1});
        ASSERT_EQ(static_cast<int32_t>(sums.dtype()), to.code);
        const Words found = patterns(sums), same = patterns(sums.cast(aster_ml::Dtype{w.code}));
        for (int64_t i = 0; i < rows; ++i) {
          Exact sum = 0;
          bool bad = false;
          for (int64_t k = 0; k < columns; ++k) {
            const int64_t value = x[static_cast<size_t>(i * columns + k)];
            sum += value;
            bad |= value == w.error();
          }
          const int64_t expected = bad ? to.error() : to.checked(sum);
          ASSERT_EQ(found[static_cast<size_t>(i)], expected) << w.bits << " " << columns;
          const int64_t narrow = expected == to.error() ? w.error() : w.checked(expected);
          ASSERT_EQ(same[static_cast<size_t>(i)], narrow) << w.bits << " " << columns;
        }
      }
    }
  }
  // What leaves the dtype on the way and comes back is no error.
  const int64_t most = kWidths[3].most();
  const Tensor there = tensor(kWidths[3], {most, most, 5, -most, -most}, {5});
  EXPECT_EQ(patterns(there.sum()), (Words{5}));
  EXPECT_EQ(patterns(tensor(kWidths[3], {most, 1}, {2}).sum()), (Words{INT64_MIN}));
  EXPECT_EQ(patterns(tensor(kWidths[3], {-most, -1}, {2}).sum()), (Words{INT64_MIN}));
  EXPECT_EQ(patterns(tensor(k8, {}, {0}).sum()), (Words{0}));
}

TEST_P(Sticky, ProductsOfAxes) {
  for (const Width& w : kWidths) {
    const int64_t most = w.most(), root = int64_t{1} << (w.bits / 2 - 1);
    const struct {
      Words x;
      int64_t expected;
    } rows[] = {{{}, 1},
                {{most}, most},
                {{-1, most}, -most},
                {{2, most}, w.error()},
                {{2, most, 0}, 0},
                {{w.error(), 0}, w.error()},
                {{root, root}, root * root},
                {{root, root, -2}, w.error()},
                {{root, root, 2}, w.error()},
                {{root, root, root, root, root, root, root, root, 0, most}, 0},
                {{most, most, most, most, most, most, most, most, most}, w.error()},
                {{-1, -1, -1, 1, 1}, -1},
                {{7, -3, 5}, -105}};
    for (const auto& row : rows) {
      const Tensor t = tensor(w, row.x, {static_cast<int64_t>(row.x.size())});
      ASSERT_EQ(patterns(t.prod()), (Words{row.expected})) << w.bits;
    }
    // Random factors whose product is near the bound.
    std::mt19937_64 random(6);
    for (int turn = 0; turn < 60; ++turn) {
      Words x;
      Exact exact = 1;
      while (exact < most && exact > -Exact{most}) {
        const int64_t factor = static_cast<int64_t>(random() % 40) - 20;
        if (factor == 0) continue;
        x.push_back(factor);
        exact *= factor;
      }
      if (turn % 2 == 0) exact /= x.back(), x.pop_back();
      std::ranges::shuffle(x, random);
      const Tensor t = tensor(w, x, {static_cast<int64_t>(x.size())});
      ASSERT_EQ(patterns(t.prod()), (Words{w.checked(exact)})) << w.bits << " turn " << turn;
    }
  }
}

TEST_P(Sticky, ExtremaOfAxes) {
  for (const Width& w : kWidths) {
    Words x = noise_of(w, 5 * 300, 7, w.bits);
    x[300 + 17] = x[300 + 200] = w.error();
    const Tensor t = tensor(w, x, {5, 300});
    const Words most = patterns(t.max({1})), least = patterns(t.min({1}));
    const Words at = t.argmax(1).to_vector<int64_t>();
    for (size_t i = 0; i < 5; ++i) {
      const auto row = x.begin() + static_cast<std::ptrdiff_t>(300 * i);
      const bool bad = i == 1;
      EXPECT_EQ(most[i], bad ? w.error() : *std::max_element(row, row + 300));
      EXPECT_EQ(least[i], bad ? w.error() : *std::min_element(row, row + 300));
      EXPECT_EQ(at[i], bad ? 17 : std::max_element(row, row + 300) - row);
    }
  }
}

TEST_P(Sticky, PrefixesAfterTheFirstErrorAreErrors) {
  for (const Width& w : kWidths) {
    for (const int bits : {w.bits / 2, w.bits}) {
      Words x = noise_of(w, 4 * 90, 8, bits);
      x[90 + 40] = w.error();
      const Tensor t = tensor(w, x, {4, 90});
      const Width& to = wider(w);
      const Words sums = patterns(t.cumsum(1)), products = patterns(t.cumprod(1));
      aster_ml_lazy values{}, places{};
      OK(aster_ml_lazy_cummax(&values, &places, t.get(), 1));
      const Tensor most(std::move(values), Context::current().root()),
          where(std::move(places), Context::current().root());
      const Words greatest = patterns(most), indices = where.to_vector<int64_t>();
      for (size_t i = 0; i < 4; ++i) {
        Exact sum = 0;
        int64_t product = 1, top = -w.most() - 1;
        size_t place = 0;
        bool bad = false, bad_product = false, error = false;
        for (size_t k = 0; k < 90; ++k) {
          const size_t at = 90 * i + k;
          const bool before = error;
          error |= x[at] == w.error();
          sum += x[at];
          bad |= error || to.checked(sum) == to.error();
          bad_product |= error || w.checked(Exact{product} * x[at]) == w.error();
          if (!bad_product) product *= x[at];
          if (error ? !before : x[at] > top || k == 0) place = k;
          top = std::max(top, x[at]);
          ASSERT_EQ(sums[at], bad ? to.error() : static_cast<int64_t>(sum)) << w.bits << " " << k;
          ASSERT_EQ(products[at], bad_product ? w.error() : product) << w.bits << " " << k;
          ASSERT_EQ(greatest[at], error ? w.error() : top) << w.bits << " " << k;
          ASSERT_EQ(indices[at], static_cast<int64_t>(place)) << w.bits << " " << k;
        }
      }
    }
  }
}

TEST_P(Sticky, SortsErrorsFirst) {
  for (const Width& w : kWidths) {
    Words x = noise_of(w, 200, 9, w.bits);
    x[13] = x[100] = w.error();
    const Tensor t = tensor(w, x, {200});
    aster_ml_lazy values{}, places{};
    OK(aster_ml_lazy_sort(&values, &places, t.get(), 0, 0));
    const Tensor sorted(std::move(values), Context::current().root());
    aster_ml_lazy_free(&places);
    const Words found = patterns(sorted);
    std::ranges::sort(x);
    EXPECT_EQ(found, x);
    EXPECT_EQ(found[1], w.error());
  }
}

// Where ERR is in the result, by the graph of what depends on what.
TEST_P(Sticky, ErrorsFollowBroadcasting) {
  for (const Width& w : kWidths) {
    Words x(16, 3), column = {1, 2, w.error(), 4};
    const Tensor y = tensor(w, x, {4, 4}) + tensor(w, column, {4, 1});
    const Words found = patterns(y);
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(found[i], i / 4 == 2 ? w.error() : 3 + column[i / 4]);
    EXPECT_EQ(y.is_error().sum().item(), 4);
  }
}

TEST_P(Sticky, ErrorsOfProductsSpoilRowsAndColumns) {
  const struct {
    int64_t batch, m, k, n;
  } shapes[] = {{1, 1, 1, 1},     {1, 3, 5, 7},       {2, 9, 33, 17},
                {1, 65, 130, 67}, {1, 150, 140, 190}, {1, 4, 0, 3}};
  for (const Width& w : kWidths) {
    const Width& to = wider(w);
    for (const auto& s : shapes) {
      for (const bool errors : {false, true}) {
        for (const int bits : {w.bits, w.bits - 2}) {
          const auto size = [](int64_t n) { return static_cast<size_t>(n); };
          Words a = noise_of(w, size(s.batch * s.m * s.k), 10, bits);
          Words b = noise_of(w, size(s.batch * s.k * s.n), 11, bits);
          if (errors && s.k > 1) {
            a[size((s.m - 1) * s.k + 1)] = w.error();
            b[size(s.n * (s.k - 1) + s.n / 2)] = w.error();
          }
          const Tensor y =
              tensor(w, a, {s.batch, s.m, s.k}).matmul(tensor(w, b, {s.batch, s.k, s.n}));
          ASSERT_EQ(static_cast<int32_t>(y.dtype()), to.code);
          const Words found = patterns(y);
          ASSERT_EQ(found.size(), size(s.batch * s.m * s.n));
          for (int64_t i = 0; i < s.batch * s.m; ++i) {
            for (int64_t j = 0; j < s.n; ++j) {
              Exact low = 0, high = 0;
              bool bad = false;
              for (int64_t k = 0; k < s.k; ++k) {
                const int64_t u = a[size(i * s.k + k)];
                const int64_t v = b[size((i / s.m * s.k + k) * s.n + j)];
                const Exact p = Exact{u} * v;
                low += static_cast<uint64_t>(p);
                high += p >> 64;
                bad |= u == w.error() || v == w.error();
              }
              high += low >> 64;
              const Exact below = static_cast<uint64_t>(low);
              const bool fits = high == 0 || high == -1;
              const int64_t expected =
                  bad || !fits ? to.error() : to.checked(high * (Exact{1} << 64) + below);
              ASSERT_EQ(found[size(i * s.n + j)], expected)
                  << "tbb" << w.bits << " " << s.m << "x" << s.k << "x" << s.n << " at " << i << " "
                  << j;
            }
          }
        }
      }
    }
  }
}

TEST_P(Sticky, ProductsOfConstantsAndViews) {
  for (const Width& w : kWidths) {
    const Words x = noise_of(w, 96 * 96, 14, w.bits / 2);
    const Tensor t = tensor(w, x, {96, 96}), ones = t * 0 + 1;
    const Words down = patterns(t.sum({0})), across = patterns(t.sum({1}));
    const Words first = patterns(ones.matmul(t)), second = patterns(t.matmul(ones));
    const Words third = patterns(t.transpose(0, 1).matmul(ones));
    const Tensor constant = make(aster_ml_lazy_ones_like, t.get(), int32_t{0});
    const Words fourth = patterns(constant.matmul(t));
    for (size_t i = 0; i < 96 * 96; ++i) {
      ASSERT_EQ(first[i], down[i % 96]);
      ASSERT_EQ(second[i], across[i / 96]);
      ASSERT_EQ(third[i], down[i / 96]);
      ASSERT_EQ(fourth[i], down[i % 96]);
    }
  }
}

// A product whose parts leave 128 bits and whose sum does not.
TEST_P(Sticky, ProductsOfWideNumbersCancel) {
  const int64_t most = kWidths[3].most();
  const Words a = {most, most, most, most, 3}, b = {most, most, -most, -most, 7};
  const Tensor y = tensor(kWidths[3], a, {1, 5}).matmul(tensor(kWidths[3], b, {5, 1}));
  EXPECT_EQ(patterns(y), (Words{21}));
}

TEST_P(Sticky, MovesChoosesAndGathers) {
  for (const Width& w : kWidths) {
    const Words x = {1, w.error(), 3, 4, 5, w.most()};
    const Tensor t = tensor(w, x, {2, 3});
    EXPECT_EQ(patterns(t.transpose(0, 1)), (Words{1, 4, w.error(), 5, 3, w.most()}));
    EXPECT_EQ(patterns(t.flip({1})), (Words{3, w.error(), 1, w.most(), 5, 4}));
    EXPECT_EQ(patterns((t == 3).where(t, t + 1)), (Words{2, w.error(), 3, 5, 6, w.error()}));
    const Tensor index(std::vector<int64_t>{1, 0}, {2, 1});
    EXPECT_EQ(patterns(t.gather(1, index)), (Words{w.error(), 4}));
    EXPECT_EQ(patterns(Tensor::cat({t, t + t}, 0)),
              (Words{1, w.error(), 3, 4, 5, w.most(), 2, w.error(), 6, 8, 10, w.error()}));
  }
}

// The same bits for every order of the elements.
TEST_P(Sticky, SumsDependOnNoOrder) {
  const Width& w = kWidths[3];
  Words x = noise_of(w, 40000, 12, 63);
  const Words once = patterns(tensor(w, x, {40000}).sum());
  std::mt19937_64 random(13);
  for (int turn = 0; turn < 3; ++turn) {
    std::ranges::shuffle(x, random);
    EXPECT_EQ(patterns(tensor(w, x, {40000}).sum()), once);
    EXPECT_EQ(patterns(tensor(w, x, {200, 200}).sum()), once);
  }
}

// What is computed element by element is one kernel, with the sums of rows behind it too.
TEST(StickyFusion, ChainsAreOneKernel) {
  const Session session;
  for (const Width& w : kWidths) {
    const Tensor a = tensor(w, noise_of(w, 64 * 300, 17, w.bits / 2), {64, 300});
    const Tensor b = tensor(w, noise_of(w, 300, 18, w.bits / 2), {1, 300});
    const Tensor chain = ((a + b) * a - b).maximum(b);
    for (Tensor y : {chain, chain.cast(aster_ml::dtypes::float32) + 1.0f, chain.is_error(),
                     (chain * chain).sum({1})}) {
      OK(y.realize());
      EXPECT_EQ(session.counters().last_kernels, 1u) << "tbb" << w.bits;
      EXPECT_EQ(session.counters().kernels_interpreted, 0u);
    }
  }
}

// The same bits for every number of threads: sums, prefixes, products by generated loops and by
// bytes, and values that meet in one element.
TEST(StickyThreads, ChangeNothing) {
  for (const Width& w : kWidths) {
    std::vector<Words> first;
    for (const int32_t threads : {1, 2, 5}) {
      aster_ml_context_options options = {};
      options.threads = threads;
      const Session session(options);
      const int bits = std::min(w.bits, 28);
      Words a = noise_of(w, 300 * 260, 15, bits), b = noise_of(w, 260 * 210, 16, bits);
      a[260 * 17 + 5] = b[210 * 9 + 100] = w.error();
      const Tensor x = tensor(w, a, {300, 260}), y = tensor(w, b, {260, 210});
      Words places(300 * 260);
      for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i * 7919 % 50);
      const Tensor index(places, {300 * 260}), empty = tensor(w, Words(50), {50});
      const Tensor flat = x.reshape({300 * 260});
      const std::vector<Words> found = {
          patterns(x.matmul(y)),
          patterns(x.shrink({0, 0}, {3, 260}).matmul(y)),
          patterns(x.sum({0})),
          patterns(x.sum()),
          patterns(x.cumsum(1)),
          patterns(x * x + x),
          patterns(make(aster_ml_lazy_scatter, empty.get(), int64_t{0}, index.get(), flat.get(),
                        int32_t{ASTER_ML_SCATTER_ADD}, 1))};
      if (first.empty()) first = found;
      EXPECT_EQ(found, first) << "tbb" << w.bits << " by " << threads;
    }
  }
}

TEST_P(Sticky, SaysWhereErrorsAre) {
  Words x(2 * 3 * 4, 1);
  x[12 + 4 + 2] = x[12 + 8 + 3] = -128;
  const Tensor t = tensor(k8, x, {2, 3, 4});
  EXPECT_EQ(make(aster_ml_lazy_error_count, t.get()).item(), 2);
  EXPECT_EQ(make(aster_ml_lazy_error_rows, t.get()).to_vector<int64_t>(),
            (Words{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(make(aster_ml_lazy_error_columns, t.get()).to_vector<int64_t>(),
            (Words{0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(make(aster_ml_lazy_first_error, t.get()).to_vector<int64_t>(), (Words{1, 1, 2}));
  const Tensor none = tensor(k8, {1, 2}, {2});
  EXPECT_EQ(make(aster_ml_lazy_first_error, none.get()).to_vector<int64_t>(), (Words{-1}));
  EXPECT_EQ(make(aster_ml_lazy_error_count, none.get()).item(), 0);
}

TEST_P(Sticky, AssignsInPlace) {
  Tensor t = tensor(k8, {100, 20, -128}, {3});
  OK((t += 30).realize());
  EXPECT_EQ(patterns(t), (Words{-128, 50, -128}));
}

// Values that meet in one element are combined exactly, in no order.
TEST_P(Sticky, ScattersCombineOnce) {
  struct Case {
    int32_t how;
    Words expected;
  };
  const Case cases[] = {{ASTER_ML_SCATTER_ADD, {20, -128, 0, -128}},
                        {ASTER_ML_SCATTER_MULTIPLY, {-128, -128, 0, -128}},
                        {ASTER_ML_SCATTER_MAX, {110, 100, 0, -128}},
                        {ASTER_ML_SCATTER_MIN, {-100, 1, 0, -128}}};
  const Tensor target = tensor(k8, {10, 1, 0, 3}, {4});
  const Tensor values = tensor(k8, {110, 100, -100, 100, -128}, {5});
  const Tensor index(std::vector<int64_t>{0, 1, 0, 1, 3}, {5});
  for (const Case& c : cases) {
    const Tensor y =
        make(aster_ml_lazy_scatter, target.get(), int64_t{0}, index.get(), values.get(), c.how, 1);
    EXPECT_EQ(patterns(y), c.expected) << c.how;
  }
}

// Windows are products of sums as matrices are.
TEST_P(Sticky, Convolutions) {
  Words image(36), kernel = {1, -2, 3, 0, 5, -6, 7, 8, -9};
  for (size_t i = 0; i < 36; ++i) image[i] = static_cast<int64_t>(i * 7 % 23) - 11;
  image[14] = -128;
  const Tensor x = tensor(k8, image, {1, 1, 6, 6}), w = tensor(k8, kernel, {1, 1, 3, 3});
  const Tensor y = make(aster_ml_lazy_conv2d, x.get(), w.get(), nullptr, nullptr);
  const Words found = patterns(y);
  ASSERT_EQ(found.size(), 16u);
  for (size_t i = 0; i < 16; ++i) {
    int64_t sum = 0;
    bool bad = false;
    for (size_t k = 0; k < 9; ++k) {
      const int64_t v = image[(i / 4 + k / 3) * 6 + i % 4 + k % 3];
      sum += v * kernel[k];
      bad |= v == -128;
    }
    EXPECT_EQ(found[i], bad ? kWidths[2].error() : sum) << i;
  }
}

// What is no operation on them, or would change a dtype unasked, is refused while it is built.
TEST_P(Sticky, Refuses) {
  const Tensor t = tensor(k8, {1, 2}, {2}), wide = tensor(kWidths[1], {1, 2}, {2});
  const Tensor whole(std::vector<int32_t>{1, 2}, {2}), real({1.f, 2.f}), flag = t == t;
  const Tensor one(1), fraction(1.5);
  aster_ml_lazy out{};
  for (const Function f : {aster_ml_lazy_add, aster_ml_lazy_mul, aster_ml_lazy_lt, aster_ml_lazy_eq,
                           aster_ml_lazy_maximum, aster_ml_lazy_floordiv, aster_ml_lazy_div}) {
    for (const Tensor* other : {&wide, &whole, &real, &flag, &fraction}) {
      EXPECT_EQ(f(&out, t.get(), other->get()), ASTER_ML_DTYPE);
      EXPECT_EQ(f(&out, other->get(), t.get()), ASTER_ML_DTYPE);
    }
  }
  for (const Function f :
       {aster_ml_lazy_bitwise_and, aster_ml_lazy_bitwise_or, aster_ml_lazy_bitwise_xor,
        aster_ml_lazy_shl, aster_ml_lazy_shr, aster_ml_lazy_div, aster_ml_lazy_logaddexp}) {
    EXPECT_EQ(f(&out, t.get(), t.get()), ASTER_ML_DTYPE);
    EXPECT_EQ(f(&out, t.get(), one.get()), ASTER_ML_DTYPE);
  }
  for (const auto f : {aster_ml_lazy_bitwise_not, aster_ml_lazy_sqrt, aster_ml_lazy_exp,
                       aster_ml_lazy_sigmoid, aster_ml_lazy_tanh, aster_ml_lazy_reciprocal}) {
    EXPECT_EQ(f(&out, t.get()), ASTER_ML_DTYPE);
  }
  EXPECT_EQ(aster_ml_lazy_pow(&out, t.get(), t.get()), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_fma(&out, t.get(), t.get(), t.get()), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_matmul(&out, t.get(), wide.get()), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_matmul(&out, t.get(), whole.get()), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_gather(&out, whole.get(), 0, t.get()), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_softmax(&out, t.get(), 0), ASTER_ML_DTYPE);
  for (const auto f : {aster_ml_lazy_is_error, aster_ml_lazy_error_count, aster_ml_lazy_error_rows,
                       aster_ml_lazy_error_columns, aster_ml_lazy_first_error}) {
    EXPECT_EQ(f(&out, whole.get()), ASTER_ML_DTYPE);
    EXPECT_EQ(out.impl, nullptr);
  }
  EXPECT_EQ(aster_ml_lazy_error_columns(&out, t.get()), ASTER_ML_SHAPE);
  const Tensor t0 = tensor(k8, {1}, {});
  EXPECT_EQ(aster_ml_lazy_error_rows(&out, t0.get()), ASTER_ML_SHAPE);
}

// A constant beyond the dtype is ERR where it is an operand; compared it stays a number.
TEST_P(Sticky, IntegerConstantsYield) {
  const Tensor t = tensor(k8, {1, 127, -128}, {3});
  EXPECT_EQ(patterns(t + 200), (Words{-128, -128, -128}));
  EXPECT_EQ(patterns(1 - t), (Words{0, -126, -128}));
  EXPECT_EQ((t < 200).to_vector<int64_t>(), (Words{1, 1, 0}));
  EXPECT_EQ((t == 200).to_vector<int64_t>(), (Words{0, 0, 0}));
  EXPECT_EQ((t == -128).to_vector<int64_t>(), (Words{0, 0, 0}));
}

TEST_P(Sticky, ClampsAndErrorsStay) {
  const Tensor t = tensor(k8, {1, 127, -128, -100}, {4});
  const Tensor y = make(aster_ml_lazy_clamp, t.get(), Tensor(-5).get(), Tensor(7).get());
  EXPECT_EQ(patterns(y), (Words{1, 7, -128, -5}));
}

TEST(StickyText, IsANumberOrErr) {
  aster_ml_scalar x;
  char text[24];
  for (const auto& [value, expected] :
       {std::pair<int64_t, const char*>{-127, "-127"}, {127, "127"}, {-128, "ERR"}, {900, "ERR"}}) {
    OK(aster_ml_scalar_from_int64(&x, ASTER_ML_DTYPE_TBB8, value));
    OK(aster_ml_sticky_text(text, sizeof(text), &x));
    EXPECT_STREQ(text, expected);
  }
  OK(aster_ml_scalar_min(&x, ASTER_ML_DTYPE_TBB64));
  OK(aster_ml_sticky_text(text, 21, &x));
  EXPECT_STREQ(text, "-9223372036854775807");
  EXPECT_EQ(aster_ml_sticky_text(text, 20, &x), ASTER_ML_RANGE);
  EXPECT_STREQ(text, "");
  EXPECT_EQ(aster_ml_sticky_text(nullptr, 24, &x), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_sticky_text(text, 24, nullptr), ASTER_ML_ARGUMENT);
  OK(aster_ml_scalar_from_int64(&x, ASTER_ML_DTYPE_INT8, 1));
  EXPECT_EQ(aster_ml_sticky_text(text, 24, &x), ASTER_ML_DTYPE);
}

}  // namespace
}  // namespace programs
