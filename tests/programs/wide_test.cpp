// flt256 and flt512 as tensors: every operation against MPFR, on the compiled runtime and on the
// interpreter, whose movement shares no code with it.
#ifdef ASTER_TEST_MPFR
#include <array>
#include <functional>
#include <memory>
#include <numeric>

#include "aster.h"
#include "oracle.h"

namespace programs {
namespace {

using flt_test::Format;
using flt_test::kFormats;
using flt_test::Operands;
using flt_test::Packed;
using flt_test::Real;
using Numbers = std::vector<Packed>;

Tensor tensor(const Format& f, const Numbers& x, const Shape& shape) {
  std::vector<uint64_t> words;
  for (const Packed& p : x) words.insert(words.end(), p.w, p.w + f.words);
  return make(aster_ml_lazy_from, Context::current().get(), static_cast<const void*>(words.data()),
              f.dtype, shape.size(), shape.data());
}
Numbers read(const Format& f, const Tensor& x) {
  EXPECT_EQ(static_cast<int32_t>(x.dtype()), f.dtype);
  const auto count = static_cast<size_t>(x.numel()), words = static_cast<size_t>(f.words);
  std::vector<uint64_t> data(count * words);
  EXPECT_OK(x.copy_out(data.data(), data.size() * 8));
  Numbers out(count);
  for (size_t i = 0; i < count; ++i) std::copy_n(data.data() + i * words, words, out[i].w);
  return out;
}
Packed number(const Format& f, const char* text) {
  Packed p;
  EXPECT_OK(aster_ml_flt_from_text(p.w, f.dtype, 0, text));
  return p;
}
Numbers random_numbers(const Format& f, size_t count, uint64_t seed, bool any = true) {
  Operands operands(seed);
  Numbers out;
  for (size_t i = 0; i < count; ++i) out.push_back(any ? operands.any(f) : operands.near(f, 3));
  return out;
}
// NaN is NaN here; payloads are src/flt's tests'.
void same(const Format& f, const Numbers& got, const Numbers& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (flt_test::is_nan(f, got[i]) && flt_test::is_nan(f, want[i])) continue;
    ASSERT_EQ(got[i], want[i]) << what << " at " << i;
  }
}

struct Run {
  const char* name;
  bool reference;
};
class Wide : public testing::TestWithParam<Run> {
 protected:
  Wide() {
    if (!GetParam().reference) return;
    int32_t device = 0;
    EXPECT_OK(aster_ml_device_from_name(&device, "REFERENCE"));
    EXPECT_OK(session_.set_device(device));
  }
  Session session_;
};
INSTANTIATE_TEST_SUITE_P(Runs, Wide,
                         testing::Values(Run{"compiled", false}, Run{"interpreted", true}),
                         [](const auto& run) { return run.param.name; });

// ---- Elementwise ----

using Unary = int32_t (*)(aster_ml_lazy*, const aster_ml_lazy*);
using Binary = int32_t (*)(aster_ml_lazy*, const aster_ml_lazy*, const aster_ml_lazy*);
using Exact1 = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
using Exact2 = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);
#define ONE(name, exact) \
  { #name, aster_ml_lazy_##name, exact }
#define INTEGRAL(name, exact)                                                \
  {                                                                          \
#name, aster_ml_lazy_##name,                                             \
        [](mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t) { return exact(y, x), 0; } \
  }
const struct {
  const char* name;
  Unary function;
  Exact1 exact;
} kUnaries[] = {
    ONE(neg, mpfr_neg),
    ONE(abs, mpfr_abs),
    ONE(sqrt, mpfr_sqrt),
    ONE(reciprocal,
        [](mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t mode) { return mpfr_ui_div(y, 1, x, mode); }),
    ONE(square, mpfr_sqr),
    INTEGRAL(trunc, mpfr_trunc),
    INTEGRAL(floor, mpfr_floor),
    INTEGRAL(ceil, mpfr_ceil),
    INTEGRAL(round, mpfr_roundeven),
};
// About 1, since sines of huge numbers take their time.
const struct {
  const char* name;
  Unary function;
  Exact1 exact;
} kFunctions[] = {
    ONE(exp, mpfr_exp),     ONE(exp2, mpfr_exp2),   ONE(log, mpfr_log),   ONE(log2, mpfr_log2),
    ONE(log10, mpfr_log10), ONE(sin, mpfr_sin),     ONE(cos, mpfr_cos),   ONE(tan, mpfr_tan),
    ONE(tanh, mpfr_tanh),   ONE(erf, mpfr_erf),     ONE(asin, mpfr_asin), ONE(acos, mpfr_acos),
    ONE(atan, mpfr_atan),   ONE(sinh, mpfr_sinh),   ONE(cosh, mpfr_cosh), ONE(asinh, mpfr_asinh),
    ONE(acosh, mpfr_acosh), ONE(atanh, mpfr_atanh),
};
const struct {
  const char* name;
  Binary function;
  Exact2 exact;
} kBinaries[] = {
    ONE(add, mpfr_add),     ONE(sub, mpfr_sub),     ONE(mul, mpfr_mul), ONE(div, mpfr_div),
    ONE(maximum, mpfr_max), ONE(minimum, mpfr_min), ONE(pow, mpfr_pow),
};

template <typename Rows>
void hold_unary(const Rows& rows, bool any) {
  for (const Format& f : kFormats) {
    const Numbers x = random_numbers(f, 300, 1, any);
    for (const auto& row : rows) {
      Numbers want;
      for (const Packed& p : x) {
        Real a(f, p);
        want.push_back(flt_test::expected(
            f, 0, [&](mpfr_ptr y, mpfr_rnd_t mode) { return row.exact(y, a, mode); }));
      }
      const Tensor y = make(row.function, tensor(f, x, {300}).get());
      same(f, read(f, y), want, row.name);
    }
  }
}

TEST_P(Wide, UnaryOperations) { hold_unary(kUnaries, true); }
TEST_P(Wide, Functions) { hold_unary(kFunctions, false); }

TEST_P(Wide, BinaryOperationsBroadcast) {
  for (const Format& f : kFormats) {
    for (const auto& row : kBinaries) {
      const bool any = row.exact != mpfr_pow;
      const Numbers a = random_numbers(f, 20, 2, any), b = random_numbers(f, 21, 3, any);
      Numbers want;
      for (const Packed& p : a) {
        for (size_t j = b.size(); j-- > 0;) {
          Real x(f, p), y(f, b[j]);
          Packed w = flt_test::expected(
              f, 0, [&](mpfr_ptr z, mpfr_rnd_t mode) { return row.exact(z, x, y, mode); });
          // Here NaN wins over numbers.
          const bool nan = flt_test::is_nan(f, p) || flt_test::is_nan(f, b[j]);
          const bool chooses = row.exact == mpfr_max || row.exact == mpfr_min;
          want.push_back(chooses && nan ? (flt_test::is_nan(f, p) ? p : b[j]) : w);
        }
      }
      const int64_t axis = 1;
      const Tensor turned = make(aster_ml_lazy_flip, tensor(f, b, {1, 21}).get(), size_t{1}, &axis);
      same(f, read(f, make(row.function, tensor(f, a, {20, 1}).get(), turned.get())), want,
           row.name);
    }
  }
}

TEST_P(Wide, ChainsOfOperationsAndChoices) {
  for (const Format& f : kFormats) {
    const Numbers a = random_numbers(f, 64, 4), b = random_numbers(f, 64, 5);
    const Tensor x = tensor(f, a, {8, 8}), y = tensor(f, b, {8, 8});
    const Tensor less = make(aster_ml_lazy_lt, x.get(), y.get());
    const Tensor equal = make(aster_ml_lazy_eq, x.get(), x.get());
    const Tensor chosen = make(aster_ml_lazy_where, less.get(), x.get(), y.get());
    const Numbers got = read(f, chosen);
    const std::vector<uint8_t> said = less.to_vector<uint8_t>(), self = equal.to_vector<uint8_t>();
    for (size_t i = 0; i < a.size(); ++i) {
      Real p(f, a[i]), q(f, b[i]);
      const bool is_less = mpfr_less_p(p, q) != 0;
      EXPECT_EQ(said[i], is_less) << i;
      EXPECT_EQ(self[i], !flt_test::is_nan(f, a[i])) << i;
      EXPECT_EQ(got[i], is_less ? a[i] : b[i]) << i;
    }
    // x * y + x, in two roundings, and in one.
    Numbers apart, once;
    for (size_t i = 0; i < a.size(); ++i) {
      Real p(f, a[i]), q(f, b[i]);
      Real z(f, flt_test::expected(
                    f, 0, [&](mpfr_ptr out, mpfr_rnd_t m) { return mpfr_mul(out, p, q, m); }));
      apart.push_back(flt_test::expected(
          f, 0, [&](mpfr_ptr out, mpfr_rnd_t m) { return mpfr_add(out, z, p, m); }));
      once.push_back(flt_test::expected(
          f, 0, [&](mpfr_ptr out, mpfr_rnd_t m) { return mpfr_fma(out, p, q, p, m); }));
    }
    same(f, read(f, x * y + x), apart, "x * y + x");
    same(f, read(f, make(aster_ml_lazy_fma, x.get(), y.get(), x.get())), once, "fma");
  }
}

TEST_P(Wide, ConstantsAreWhatDoublesAre) {
  for (const Format& f : kFormats) {
    const Tensor one = tensor(f, {number(f, "1")}, {1});
    const auto last = [&](const Tensor& x) { return read(f, x).back(); };
    EXPECT_EQ(last(one * 0.1f - one * 0.1f), Packed());
    // Ten, by a constant, times a tenth in the format is rounded to 1; times that of double is not.
    EXPECT_EQ(last(tensor(f, {number(f, "0.1")}, {1}) * 10.0f), number(f, "1"));
    const Tensor tenth = make(aster_ml_lazy_number, session_.get(), 0.1);
    EXPECT_EQ(last(make(aster_ml_lazy_mul, one.get(), tenth.get())),
              number(f, "0.1000000000000000055511151231257827021181583404541015625"));
    const Tensor large = make(aster_ml_lazy_integer, session_.get(), int64_t{9007199254740993});
    EXPECT_EQ(last(make(aster_ml_lazy_add, one.get(), large.get())), number(f, "9007199254740994"));
    const Tensor third = make(aster_ml_lazy_number, session_.get(), 3.0);
    EXPECT_EQ(last(one / make(aster_ml_lazy_cast, third.get(), f.dtype)),
              flt_test::expected(f, 0, [](mpfr_ptr y, mpfr_rnd_t m) {
                mpfr_set_ui(y, 1, m);
                return mpfr_div_ui(y, y, 3, m);
              }));
    aster_ml_scalar scalar = {f.dtype, 0, {}};
    const Packed fine = number(f, "0.3");
    std::copy_n(fine.w, f.words, scalar.value);
    EXPECT_EQ(last(make(aster_ml_lazy_scalar, session_.get(), &scalar)), fine);
    const int64_t shape[] = {2, 3};
    EXPECT_EQ(last(make(aster_ml_lazy_ones, session_.get(), f.dtype, size_t{2}, shape)),
              number(f, "1"));
    EXPECT_EQ(last(make(aster_ml_lazy_arange, session_.get(), int64_t{-3}, int64_t{6}, int64_t{2},
                        f.dtype)),
              number(f, "5"));
  }
}

// ---- Casts ----

TEST_P(Wide, CastsToAndFromEveryDtype) {
  for (const Format& f : kFormats) {
    const Numbers x = random_numbers(f, 200, 6);
    const Tensor given = tensor(f, x, {200});
    for (int32_t code = 1; code <= ASTER_ML_DTYPE_FLT512; ++code) {
      const size_t size = aster_ml_dtype_size(code);
      if (size == 0 || (code >= ASTER_ML_DTYPE_TBB8 && code <= ASTER_ML_DTYPE_TBB64)) continue;
      const Tensor to = make(aster_ml_lazy_cast, given.get(), code);
      std::vector<unsigned char> got(200 * size), want(200 * size), back(200 * 64), again(200 * 64);
      OK(to.copy_out(got.data(), got.size()));
      for (size_t i = 0; i < 200; ++i) {
        alignas(8) unsigned char one[64];
        OK(aster_ml_flt_copy(one, nullptr, code, x[i].w, f.dtype, 0, nullptr, 1));
        std::copy_n(one, size, want.data() + i * size);
        uint64_t w[8], aligned[8];
        std::memcpy(aligned, one, size);
        OK(aster_ml_flt_copy(w, nullptr, f.dtype, aligned, code, 0, nullptr, 1));
        std::memcpy(again.data() + i * static_cast<size_t>(f.words) * 8, w,
                    static_cast<size_t>(f.words) * 8);
      }
      if (code == f.dtype) continue;
      EXPECT_EQ(got, want) << aster_ml_dtype_name(code);
      const Tensor from = make(aster_ml_lazy_cast, to.get(), f.dtype);
      OK(from.copy_out(back.data(), 200 * static_cast<size_t>(f.words) * 8));
      EXPECT_EQ(back, again) << aster_ml_dtype_name(code);
    }
  }
}

// Sticky integers: compared with their bounds before they are cut, ERR as a NaN of its own.
TEST_P(Wide, CastsToAndFromStickyIntegers) {
  constexpr int32_t kCodes[] = {ASTER_ML_DTYPE_TBB8, ASTER_ML_DTYPE_TBB16, ASTER_ML_DTYPE_TBB32,
                                ASTER_ML_DTYPE_TBB64};
  for (const Format& f : kFormats) {
    for (const int32_t code : kCodes) {
      const size_t size = aster_ml_dtype_size(code);
      const int64_t most = INT64_MAX >> (64 - 8 * size), error = -most - 1;
      Numbers x = random_numbers(f, 150, 21);
      std::vector<int64_t> wanted;
      for (const char* const behind : {"", ".000000000000000000000000000000000001", ".5"}) {
        for (const int64_t whole : {most, most - 1, -most, 1 - most, int64_t{0}, int64_t{1}}) {
          x.push_back(number(f, (std::to_string(whole) + behind).c_str()));
        }
      }
      for (const char* const text : {"nan", "inf", "-inf", "-0", "9223372036854775807.5", "1e90",
                                     "9223372036854775808", "-9223372036854775808"}) {
        x.push_back(number(f, text));
      }
      Real bound(f.precision()), cut(f.precision());
      mpfr_set_si(bound, most, MPFR_RNDN);
      for (const Packed& p : x) {
        Real v(f, p);
        const bool fits = mpfr_nan_p(static_cast<mpfr_ptr>(v)) == 0 && mpfr_cmpabs(v, bound) <= 0;
        mpfr_trunc(cut, v);
        wanted.push_back(fits ? mpfr_get_si(cut, MPFR_RNDZ) : error);
      }
      const auto count = static_cast<int64_t>(x.size());
      const Tensor cast = make(aster_ml_lazy_cast, tensor(f, x, {count}).get(), code);
      const int32_t stored = size == 1   ? ASTER_ML_DTYPE_INT8
                             : size == 2 ? ASTER_ML_DTYPE_INT16
                             : size == 4 ? ASTER_ML_DTYPE_INT32
                                         : ASTER_ML_DTYPE_INT64;
      EXPECT_EQ(cast.bitcast(aster_ml::Dtype{stored}).to_vector<int64_t>(), wanted);
      // And back, in a chain with what comes of them.
      Numbers back, twice;
      for (const int64_t value : wanted) {
        Real v(f.precision());
        mpfr_set_si(v, value, MPFR_RNDN);
        Packed nan = number(f, "nan");
        nan.w[0] = 0x5442425F455252;
        back.push_back(value == error ? nan : v.pack(f));
        mpfr_mul_ui(v, v, 2, MPFR_RNDN);
        twice.push_back(value == error ? nan : v.pack(f));
      }
      const Tensor again = make(aster_ml_lazy_cast, cast.get(), f.dtype);
      EXPECT_EQ(read(f, again), back) << aster_ml_dtype_name(code);
      EXPECT_EQ(read(f, again + again), twice) << aster_ml_dtype_name(code);
      const Tensor turned = make(aster_ml_lazy_cast, cast.flip({0}).get(), f.dtype);
      std::reverse(back.begin(), back.end());
      EXPECT_EQ(read(f, turned), back) << aster_ml_dtype_name(code);
    }
    // Constants.
    const int64_t shape = 3;
    for (const int64_t value : {int64_t{7}, int64_t{-128}}) {
      aster_ml_scalar scalar;
      OK(aster_ml_scalar_from_int64(&scalar, ASTER_ML_DTYPE_TBB8, value));
      const Tensor all =
          make(aster_ml_lazy_full, session_.get(), &scalar, ASTER_ML_DTYPE_TBB8, size_t{1}, &shape);
      Packed want = number(f, value == 7 ? "7" : "nan");
      if (value != 7) want.w[0] = 0x5442425F455252;
      EXPECT_EQ(read(f, make(aster_ml_lazy_cast, all.get(), f.dtype)), Numbers(3, want));
    }
    const Tensor half = make(aster_ml_lazy_number, session_.get(), 127.5);
    const Tensor wide = make(aster_ml_lazy_cast, half.get(), f.dtype);
    EXPECT_TRUE(make(aster_ml_lazy_cast, wide.get(), ASTER_ML_DTYPE_TBB8).is_error().item() != 0);
    EXPECT_EQ(make(aster_ml_lazy_cast, wide.get(), ASTER_ML_DTYPE_TBB16).item(), 127);
  }
}

// ---- Movement: elements go where positions go ----

TEST_P(Wide, MovementMovesWholeElements) {
  using Move = std::function<Tensor(const Tensor&)>;
  const int64_t both[] = {1, 0}, rows[] = {0}, shape[] = {8, 3}, begin[] = {1, 1}, end[] = {4, 5},
                before[] = {1, 2}, after[] = {0, 3}, start[] = {3, 5}, stop[] = {INT64_MIN, 0},
                step[] = {-1, -2}, wide[] = {3, 4, 6};
  const std::pair<const char*, Move> moves[] = {
      {"permute",
       [&](const Tensor& x) { return make(aster_ml_lazy_permute, x.get(), size_t{2}, both); }},
      {"flip", [&](const Tensor& x) { return make(aster_ml_lazy_flip, x.get(), size_t{1}, rows); }},
      {"reshape",
       [&](const Tensor& x) { return make(aster_ml_lazy_reshape, x.get(), size_t{2}, shape); }},
      {"shrink",
       [&](const Tensor& x) { return make(aster_ml_lazy_shrink, x.get(), size_t{2}, begin, end); }},
      {"slice",
       [&](const Tensor& x) {
         return make(aster_ml_lazy_slice, x.get(), size_t{2}, start, stop, step);
       }},
      {"pad",
       [&](const Tensor& x) {
         return make(aster_ml_lazy_pad, x.get(), size_t{2}, before, after, nullptr);
       }},
      {"expand",
       [&](const Tensor& x) { return make(aster_ml_lazy_expand, x.get(), size_t{3}, wide); }},
      {"unfold",
       [&](const Tensor& x) {
         return make(aster_ml_lazy_unfold, x.get(), int64_t{1}, int64_t{3}, int64_t{2});
       }},
      {"cat",
       [&](const Tensor& x) {
         const aster_ml_lazy* parts[] = {x.get(), x.get()};
         return make(aster_ml_lazy_cat, parts, size_t{2}, int64_t{1});
       }},
      {"gather",
       [&](const Tensor& x) {
         const Tensor index(Ints{3, 0, 0, 2, 1, 3}, Shape{1, 6});
         return make(aster_ml_lazy_gather, x.get(), int64_t{0}, index.get());
       }},
  };
  for (const Format& f : kFormats) {
    Numbers x = random_numbers(f, 24, 7);
    Ints positions(24);
    std::iota(positions.begin(), positions.end(), 1);
    const Tensor given = tensor(f, x, {4, 6}), counted(positions, Shape{4, 6});
    x.insert(x.begin(), Packed());  // what is padded
    const auto expected = [&](const Tensor& y) {
      Numbers out;
      for (const int32_t i : y.to_vector<int32_t>()) out.push_back(x[static_cast<size_t>(i)]);
      return out;
    };
    for (const auto& [name, move] : moves) {
      const Tensor y = move(given);
      EXPECT_EQ(y.shape(), move(counted).shape()) << name;
      same(f, read(f, y), expected(move(counted)), name);
      if (y.shape().size() != 2) continue;
      // Read where it lies, through its strides.
      Numbers minus = expected(move(counted));
      for (Packed& p : minus) p.w[f.words - 1] ^= uint64_t{1} << 63;
      same(f, read(f, -move(given)), minus, std::string("- ") + name);
    }
  }
}

TEST_P(Wide, PadsWithNumbers) {
  for (const Format& f : kFormats) {
    const Tensor x = tensor(f, {number(f, "1"), number(f, "2")}, {2});
    aster_ml_scalar fill = {f.dtype, 0, {}};
    const Packed half = number(f, "-0.5");
    std::copy_n(half.w, f.words, fill.value);
    const int64_t before = 1, after = 2;
    same(f, read(f, make(aster_ml_lazy_pad, x.get(), size_t{1}, &before, &after, &fill)),
         {half, number(f, "1"), number(f, "2"), half, half}, "pad");
    // Of as many bits as the dtype has, which no double is.
    const Packed tenth = number(f, "0.1");
    std::copy_n(tenth.w, f.words, fill.value);
    same(f, read(f, make(aster_ml_lazy_pad, x.get(), size_t{1}, &before, &after, &fill)),
         {tenth, number(f, "1"), number(f, "2"), tenth, tenth}, "pad of a tenth");
    const int64_t cut = -1;
    same(f, read(f, make(aster_ml_lazy_pad, x.get(), size_t{1}, &cut, &after, &fill)),
         {number(f, "2"), tenth, tenth}, "pad that cuts");
    const int64_t shape[] = {2, 2};
    same(f, read(f, make(aster_ml_lazy_full, session_.get(), &fill, int32_t{0}, size_t{2}, shape)),
         Numbers(4, tenth), "full");
    same(f, read(f, make(aster_ml_lazy_full_like, x.get(), &fill, int32_t{0})), Numbers(2, tenth),
         "full_like");
    same(f, read(f, make(aster_ml_lazy_const_like, x.get(), &fill, f.dtype)), Numbers(2, tenth),
         "const_like");
    EXPECT_EQ(make(aster_ml_lazy_full, session_.get(), &fill, int32_t{ASTER_ML_DTYPE_FLOAT64},
                   size_t{0}, nullptr)
                  .item(),
              0.1);
    // What is scattered among others.
    const Tensor index(Ints{1}, Shape{1}),
        value = make(aster_ml_lazy_full_like, index.get(), &fill, f.dtype);
    same(f,
         read(f, make(aster_ml_lazy_scatter, x.get(), int64_t{0}, index.get(), value.get(),
                      int32_t{ASTER_ML_SCATTER_WRITE}, 1)),
         {number(f, "1"), tenth}, "scatter");
  }
}

// What pads to a size and fills what a selection lacks, and pads of symbolic sizes.
TEST_P(Wide, FillsHaveAllBits) {
  for (const Format& f : kFormats) {
    const Packed one = number(f, "1"), two = number(f, "2"), tenth = number(f, "0.1");
    const Tensor x = tensor(f, {one, two}, {1, 2});
    aster_ml_scalar fill = {f.dtype, 0, {}};
    std::copy_n(tenth.w, f.words, fill.value);
    const int64_t sizes[] = {2, 3};
    same(f, read(f, make(aster_ml_lazy_pad_to, x.get(), size_t{2}, sizes, &fill)),
         {one, two, tenth, tenth, tenth, tenth}, "pad_to");
    const Tensor mask = Tensor(Ints{0, 1}, Shape{1, 2}).cast(aster_ml::dtypes::bool_);
    same(f, read(f, make(aster_ml_lazy_masked_select, x.get(), mask.get(), int64_t{3}, &fill)),
         {two, tenth, tenth}, "masked_select");
    same(f, read(f, make(aster_ml_lazy_masked_select, x.get(), mask.get(), int64_t{-1}, &fill)),
         {two}, "masked_select of as many as there are");
    // Converted to the dtype of the result.
    Packed large = number(f, "12345678.9");
    std::copy_n(large.w, f.words, fill.value);
    EXPECT_EQ(make(aster_ml_lazy_nonzero, mask.get(), int64_t{2}, &fill).to_vector<int32_t>(),
              (Ints{0, 1, 12345678, 12345678}));
    const int64_t longer[] = {1, 3};
    EXPECT_EQ(
        make(aster_ml_lazy_pad_to, Tensor(Ints{4, 5}, Shape{1, 2}).get(), size_t{2}, longer, &fill)
            .to_vector<int32_t>(),
        (Ints{4, 5, 12345678}));
    // Weak numbers stay weak.
    const Tensor weak = make(aster_ml_lazy_pad_to,
                             make(aster_ml_lazy_number, session_.get(), 0.5).reshape({1, 1}).get(),
                             size_t{2}, longer, &fill);
    EXPECT_EQ(static_cast<int32_t>(weak.dtype()), ASTER_ML_DTYPE_WEAKFLOAT);
    EXPECT_EQ(weak.to_vector<float>(), (std::vector<float>{0.5f, 12345678.9f, 12345678.9f}));

    std::copy_n(tenth.w, f.words, fill.value);
    const aster_ml_uop *n = nullptr, *bound = nullptr;
    OK(aster_ml_symbolic_init(&n, session_.get(), "n", 0, 4));
    const Tensor line = tensor(f, {one, two, one, two}, {4});
    for (const int64_t now : {0, 1, 3}) {
      OK(aster_ml_symbolic_bind(&bound, session_.get(), n, "n", now));
      const aster_ml_dim zero = {0, nullptr}, size = {0, bound}, after = {2, nullptr};
      const Tensor part = make(aster_ml_lazy_shrink_dims, line.get(), size_t{1}, &zero, &size);
      Numbers want = {one, two, one, two};
      want.resize(static_cast<size_t>(now));
      want.insert(want.begin(), tenth);
      want.insert(want.end(), 2, tenth);
      const int64_t lead = 1, trail = 2;
      same(f, read(f, make(aster_ml_lazy_pad, part.get(), size_t{1}, &lead, &trail, &fill)), want,
           "pad of a symbolic size");
      const aster_ml_dim before = {1, nullptr};
      same(f, read(f, make(aster_ml_lazy_pad_dims, part.get(), size_t{1}, &before, &after, &fill)),
           want, "pad_dims");
      const Tensor full =
          make(aster_ml_lazy_full_dims, session_.get(), &fill, int32_t{0}, size_t{1}, &size);
      EXPECT_EQ(aster_ml_lazy_is_symbolic(full.get()), 1);
      same(f, read(f, full), Numbers(static_cast<size_t>(now), tenth), "full_dims");
      aster_ml_uop_release(session_.get(), bound);
    }
    // By a symbolic amount.
    OK(aster_ml_symbolic_bind(&bound, session_.get(), n, "n", 3));
    const aster_ml_dim none = {0, nullptr}, amount = {0, bound};
    same(f, read(f, make(aster_ml_lazy_pad_dims, line.get(), size_t{1}, &none, &amount, &fill)),
         {one, two, one, two, tenth, tenth, tenth}, "pad by a symbolic amount");
    aster_ml_uop_release(session_.get(), bound);
    aster_ml_uop_release(session_.get(), n);
  }
  const Tensor x = tensor(kFormats[0], Numbers(2), {2});
  const int64_t less[] = {1};
  aster_ml_lazy out{};
  EXPECT_EQ(aster_ml_lazy_pad_to(&out, x.get(), 1, less, nullptr), ASTER_ML_RANGE);
  const aster_ml_scalar unknown = {999, 0, {}};
  EXPECT_EQ(aster_ml_lazy_masked_select(&out, x.get(), x.cast(aster_ml::dtypes::bool_).get(), 1,
                                        &unknown),
            ASTER_ML_ARGUMENT);
}

TEST_P(Wide, AssignsThroughViews) {
  for (const Format& f : kFormats) {
    const Numbers x = random_numbers(f, 12, 8), y = random_numbers(f, 4, 9);
    Tensor target = tensor(f, x, {3, 4});
    OK(target.realize());
    const int64_t begin[] = {1, 0}, end[] = {2, 4};
    Tensor row = make(aster_ml_lazy_shrink, target.get(), size_t{2}, begin, end);
    const Tensor value = tensor(f, y, {1, 4});
    OK(aster_ml_lazy_assign(const_cast<aster_ml_lazy*>(row.get()), value.get()));
    Numbers want = x;
    std::copy(y.begin(), y.end(), want.begin() + 4);
    same(f, read(f, target), want, "assign");
  }
}

// ---- Reductions and products ----

Packed exact_sum(const Format& f, const Numbers& terms) {
  std::vector<std::unique_ptr<Real>> reals;
  std::vector<mpfr_ptr> at;
  for (const Packed& p : terms) {
    reals.push_back(std::make_unique<Real>(f, p));
    at.push_back(*reals.back());
  }
  return flt_test::expected(
      f, 0, [&](mpfr_ptr y, mpfr_rnd_t mode) { return mpfr_sum(y, at.data(), at.size(), mode); });
}
Packed exact_dot(const Format& f, const Numbers& a, const Numbers& b) {
  std::vector<std::unique_ptr<Real>> products;
  std::vector<mpfr_ptr> at;
  for (size_t i = 0; i < a.size(); ++i) {
    Real x(f, a[i]), y(f, b[i]);
    products.push_back(std::make_unique<Real>(2 * f.precision()));
    EXPECT_EQ(mpfr_mul(*products.back(), x, y, MPFR_RNDN), 0);
    at.push_back(*products.back());
  }
  return flt_test::expected(
      f, 0, [&](mpfr_ptr y, mpfr_rnd_t mode) { return mpfr_sum(y, at.data(), at.size(), mode); });
}

TEST_P(Wide, SumsAreExactAndRoundedOnce) {
  for (const Format& f : kFormats) {
    Numbers x = random_numbers(f, 5 * 7 * 6, 10, false);
    for (size_t i = 0; i + 7 < x.size(); i += 2) {  // cancelling
      x[i + 1] = x[i];
      x[i + 1].w[f.words - 1] ^= uint64_t{1} << 63;
      x[i + 1].w[0] ^= 1;
    }
    const Tensor given = tensor(f, x, {5, 7, 6});
    const std::vector<std::vector<int64_t>> all = {{0}, {1}, {2}, {0, 2}, {0, 1, 2}};
    for (const auto& axes : all) {
      std::vector<Numbers> groups;
      const bool drop[] = {std::count(axes.begin(), axes.end(), 0) > 0,
                           std::count(axes.begin(), axes.end(), 1) > 0,
                           std::count(axes.begin(), axes.end(), 2) > 0};
      const size_t sizes[] = {drop[0] ? 1u : 5u, drop[1] ? 1u : 7u, drop[2] ? 1u : 6u};
      groups.resize(sizes[0] * sizes[1] * sizes[2]);
      for (size_t i = 0; i < 5; ++i)
        for (size_t j = 0; j < 7; ++j)
          for (size_t k = 0; k < 6; ++k)
            groups[((drop[0] ? 0 : i) * sizes[1] + (drop[1] ? 0 : j)) * sizes[2] +
                   (drop[2] ? 0 : k)]
                .push_back(x[(i * 7 + j) * 6 + k]);
      Numbers want;
      for (const Numbers& group : groups) want.push_back(exact_sum(f, group));
      same(f, read(f, make(aster_ml_lazy_sum, given.get(), axes.size(), axes.data(), 0)), want,
           "sum");
    }
    // Prefixes, from either end.
    Numbers want(x.size());
    for (size_t i = 0; i < 5; ++i) {
      for (size_t k = 0; k < 6; ++k) {
        Numbers prefix;
        for (size_t j = 0; j < 7; ++j) {
          prefix.push_back(x[(i * 7 + j) * 6 + k]);
          want[(i * 7 + j) * 6 + k] = exact_sum(f, prefix);
        }
      }
    }
    same(f, read(f, make(aster_ml_lazy_cumsum, given.get(), int64_t{1})), want, "cumsum");
  }
}

TEST_P(Wide, OtherReductions) {
  for (const Format& f : kFormats) {
    const Numbers x = random_numbers(f, 12, 11, false);
    const Tensor given = tensor(f, x, {3, 4});
    const int64_t axis = 1;
    Numbers most, least, product, mean;
    for (size_t i = 0; i < 3; ++i) {
      const Numbers row(x.begin() + static_cast<long>(4 * i),
                        x.begin() + static_cast<long>(4 * i + 4));
      Real high(f, row[0]), low(f, row[0]), times(f, row[0]);
      for (size_t k = 1; k < 4; ++k) {
        Real p(f, row[k]);
        mpfr_max(high, high, p, MPFR_RNDN);
        mpfr_min(low, low, p, MPFR_RNDN);
        mpfr_mul(times, times, p, MPFR_RNDN);
      }
      most.push_back(high.pack(f));
      least.push_back(low.pack(f));
      product.push_back(times.pack(f));
      Real total(f, exact_sum(f, row));
      mean.push_back(flt_test::expected(
          f, 0, [&](mpfr_ptr y, mpfr_rnd_t m) { return mpfr_div_ui(y, total, 4, m); }));
    }
    same(f, read(f, make(aster_ml_lazy_max, given.get(), size_t{1}, &axis, 0)), most, "max");
    same(f, read(f, make(aster_ml_lazy_min, given.get(), size_t{1}, &axis, 0)), least, "min");
    same(f, read(f, make(aster_ml_lazy_prod, given.get(), size_t{1}, &axis, 0)), product, "prod");
    same(f, read(f, make(aster_ml_lazy_mean, given.get(), size_t{1}, &axis, 0)), mean, "mean");
    const int64_t none[] = {0, 4};
    const Tensor empty = make(aster_ml_lazy_zeros, session_.get(), f.dtype, size_t{2}, none);
    const int64_t rows = 0;
    same(f, read(f, make(aster_ml_lazy_sum, empty.get(), size_t{1}, &rows, 0)), Numbers(4),
         "sum of nothing");
    same(f, read(f, make(aster_ml_lazy_max, empty.get(), size_t{1}, &rows, 0)),
         Numbers(4, number(f, "-inf")), "maximum of nothing");
  }
}

TEST_P(Wide, ProductsAreExactAndRoundedOnce) {
  struct Case {
    size_t batch, rows, inner, columns;
    bool turned;
  };
  for (const Format& f : kFormats) {
    for (const Case c : {Case{1, 3, 5, 4, false}, Case{2, 2, 9, 3, true}, Case{1, 1, 1, 1, false},
                         Case{1, 40, 33, 21, true}}) {
      const Numbers a = random_numbers(f, c.batch * c.rows * c.inner, 12, false);
      const Numbers b = random_numbers(f, c.inner * c.columns, 13, false);
      Numbers want;
      for (size_t n = 0; n < c.batch; ++n) {
        for (size_t i = 0; i < c.rows; ++i) {
          for (size_t j = 0; j < c.columns; ++j) {
            Numbers left, right;
            for (size_t k = 0; k < c.inner; ++k) {
              left.push_back(a[(n * c.rows + i) * c.inner + k]);
              right.push_back(c.turned ? b[j * c.inner + k] : b[k * c.columns + j]);
            }
            want.push_back(exact_dot(f, left, right));
          }
        }
      }
      const auto size = [](size_t n) { return static_cast<int64_t>(n); };
      const Tensor x = tensor(f, a, {size(c.batch), size(c.rows), size(c.inner)});
      Tensor y = tensor(
          f, b,
          c.turned ? Shape{size(c.columns), size(c.inner)} : Shape{size(c.inner), size(c.columns)});
      const int64_t turn[] = {1, 0};
      if (c.turned) y = make(aster_ml_lazy_permute, y.get(), size_t{2}, turn);
      same(f, read(f, make(aster_ml_lazy_matmul, x.get(), y.get())), want, "matmul");
    }
  }
}

// ---- Gradients, by differences: of 2^-100 in 489 bits they agree to 2^-190 ----

TEST_P(Wide, GradientsAgreeWithDifferences) {
  const Format& f = kFormats[1];
  using Loss = std::function<Tensor(const Tensor&)>;
  const auto one = [](Unary function, const Tensor& x) { return make(function, x.get()); };
  const std::pair<const char*, Loss> losses[] = {
      {"products", [&](const Tensor& x) { return x * x * x / (x + 2.0f); }},
      {"exp2", [&](const Tensor& x) { return one(aster_ml_lazy_exp2, x); }},
      {"log2", [&](const Tensor& x) { return one(aster_ml_lazy_log2, x); }},
      {"log10", [&](const Tensor& x) { return one(aster_ml_lazy_log10, x); }},
      {"tanh", [&](const Tensor& x) { return one(aster_ml_lazy_tanh, x); }},
      {"tan", [&](const Tensor& x) { return one(aster_ml_lazy_tan, x); }},
      {"erf", [&](const Tensor& x) { return one(aster_ml_lazy_erf, x); }},
      {"asin", [&](const Tensor& x) { return one(aster_ml_lazy_asin, x); }},
      {"acosh", [&](const Tensor& x) { return one(aster_ml_lazy_acosh, x + 1.0f); }},
      {"atanh", [&](const Tensor& x) { return one(aster_ml_lazy_atanh, x); }},
      {"sinh",
       [&](const Tensor& x) { return one(aster_ml_lazy_sinh, x) * one(aster_ml_lazy_cosh, x); }},
      {"sigmoid", [&](const Tensor& x) { return one(aster_ml_lazy_sigmoid, x); }},
      {"matmul",
       [&](const Tensor& x) {
         const int64_t turn[] = {1, 0};
         const Tensor t = make(aster_ml_lazy_permute, x.get(), size_t{2}, turn);
         return make(aster_ml_lazy_matmul, make(aster_ml_lazy_matmul, x.get(), t.get()).get(),
                     x.get());
       }},
      {"softmax",
       [&](const Tensor& x) { return make(aster_ml_lazy_softmax, x.get(), int64_t{1}) * x; }},
      {"max",
       [&](const Tensor& x) {
         const int64_t axis = 1;
         return make(aster_ml_lazy_max, x.get(), size_t{1}, &axis, 0);
       }},
  };
  const char* const texts[] = {"0.3", "0.71", "0.123456789012345678901234567890123", "0.55"};
  Numbers at;
  for (const char* text : texts) at.push_back(number(f, text));
  const auto total = [&](const Loss& loss, const Numbers& x) {
    return read(
        f, make(aster_ml_lazy_sum, loss(tensor(f, x, {2, 2})).get(), size_t{0}, nullptr, 0))[0];
  };
  for (const auto& [name, loss] : losses) {
    const Tensor x = tensor(f, at, {2, 2});
    const Tensor y = make(aster_ml_lazy_sum, loss(x).get(), size_t{0}, nullptr, 0);
    const aster_ml_lazy* targets[] = {x.get()};
    const Tensor slope = make(aster_ml_gradient, y.get(), targets, size_t{1}, nullptr);
    const Numbers got = read(f, slope);
    for (size_t i = 0; i < at.size(); ++i) {
      Real h(f.precision()), left(f, at[i]), right(f, at[i]);
      mpfr_set_ui_2exp(h, 1, -100, MPFR_RNDN);
      mpfr_sub(left, left, h, MPFR_RNDN);
      mpfr_add(right, right, h, MPFR_RNDN);
      Numbers below = at, above = at;
      below[i] = left.pack(f);
      above[i] = right.pack(f);
      Real lower(f, total(loss, below)), upper(f, total(loss, above)), mine(f, got[i]);
      mpfr_sub(upper, upper, lower, MPFR_RNDN);
      mpfr_mul_2si(upper, upper, 99, MPFR_RNDN);
      mpfr_sub(upper, upper, mine, MPFR_RNDN);
      EXPECT_TRUE(mpfr_zero_p(static_cast<mpfr_ptr>(upper)) ||
                  mpfr_get_exp(static_cast<mpfr_ptr>(upper)) < -180)
          << name << " " << i << ": " << mpfr_get_exp(static_cast<mpfr_ptr>(upper));
    }
  }
}

// ---- Programs ----

TEST_P(Wide, CapturedProgramsReplay) {
  for (const Format& f : kFormats) {
    Tensor x = tensor(f, random_numbers(f, 6, 14, false), {2, 3});
    OK(x.realize());
    aster_ml_lazy* inputs[] = {const_cast<aster_ml_lazy*>(x.get())};
    OK(aster_ml_engine_capture_begin(session_.get(), inputs, 1));
    Tensor y = x * x + 1.0f;
    OK(y.realize());
    aster_ml_program program{};
    aster_ml_lazy* outputs[] = {const_cast<aster_ml_lazy*>(y.get())};
    OK(aster_ml_engine_capture_end(&program, session_.get(), outputs, 1));
    const Numbers given = random_numbers(f, 6, 15, false);
    Tensor z = tensor(f, given, {2, 3});
    OK(z.realize());
    Tensor target = tensor(f, Numbers(6), {2, 3});
    OK(target.realize());
    const aster_ml_tensor in = z.view();
    aster_ml_tensor out = target.view();
    OK(aster_ml_program_run(&program, nullptr, &in, 1, &out, 1));
    same(f, read(f, target), read(f, z * z + 1.0f), "replay");
    aster_ml_program_free(&program);
  }
}

// Contexts of all modes, one after the other on one cache: what is computed, captured and replayed
// is rounded as each of them says.
TEST(WideRounding, IsTheContexts) {
  for (const bool reference : {false, true}) {
    for (int mode = 0; mode < 4; ++mode) {
      aster_ml_context_options options = {};
      options.flt_rounding = mode;
      Session session(options);
      if (reference) {
        int32_t device = 0;
        OK(aster_ml_device_from_name(&device, "REFERENCE"));
        OK(session.set_device(device));
      }
      for (const Format& f : kFormats) {
        const size_t count = 36;
        const Numbers a = random_numbers(f, count, 31, false),
                      b = random_numbers(f, count, 32, false);
        const auto each = [&](auto exact) {
          Numbers out;
          for (size_t i = 0; i < count; ++i) {
            Real x(f, a[i]), y(f, b[i]);
            out.push_back(flt_test::expected(
                f, mode, [&](mpfr_ptr z, mpfr_rnd_t m) { return exact(z, x, y, m); }));
          }
          return out;
        };
        const Tensor x = tensor(f, a, {6, 6}), y = tensor(f, b, {6, 6});
        same(f, read(f, x + y), each(mpfr_add), "add");
        same(f, read(f, x * y), each(mpfr_mul), "mul");
        same(f, read(f, x / y), each(mpfr_div), "div");
        same(f, read(f, make(aster_ml_lazy_exp, x.get())),
             each([](mpfr_ptr z, mpfr_srcptr p, mpfr_srcptr, mpfr_rnd_t m) {
               return mpfr_exp(z, p, m);
             }),
             "exp");
        const std::vector<float> narrow = x.cast(aster_ml::dtypes::float32).to_vector<float>();
        for (size_t i = 0; i < count; ++i) {
          float want = 0;
          OK(aster_ml_flt_copy(&want, nullptr, ASTER_ML_DTYPE_FLOAT32, a[i].w, f.dtype, mode,
                               nullptr, 1));
          EXPECT_EQ(narrow[i], want);
        }
        const auto dot = [&](const Numbers& p, const Numbers& q) {
          std::vector<uint64_t> left, right;
          for (const Packed& one : p) left.insert(left.end(), one.w, one.w + f.words);
          for (const Packed& one : q) right.insert(right.end(), one.w, one.w + f.words);
          Packed out;
          EXPECT_OK(aster_ml_flt_dot(out.w, nullptr, f.dtype, mode, left.data(), right.data(),
                                     nullptr, p.size()));
          return out;
        };
        Numbers sums, products, matrix;
        for (size_t i = 0; i < 6; ++i) {
          const Numbers row(a.begin() + static_cast<long>(6 * i),
                            a.begin() + static_cast<long>(6 * i + 6));
          sums.push_back(dot(row, Numbers(6, number(f, "1"))));
          Packed product = row[0];
          for (size_t k = 1; k < 6; ++k) {
            Real left(f, product), right(f, row[k]);
            product = flt_test::expected(
                f, mode, [&](mpfr_ptr z, mpfr_rnd_t m) { return mpfr_mul(z, left, right, m); });
          }
          products.push_back(product);
          for (size_t j = 0; j < 6; ++j) {
            Numbers column;
            for (size_t k = 0; k < 6; ++k) column.push_back(b[6 * k + j]);
            matrix.push_back(dot(row, column));
          }
        }
        same(f, read(f, x.sum({1})), sums, "sum");
        same(f, read(f, x.prod({1})), products, "prod");
        same(f, read(f, x.matmul(y)), matrix, "matmul");
        const Tensor last = x.cumsum(1).shrink({0, 5}, {6, 6}).reshape({6});
        same(f, read(f, last), sums, "cumsum");
        // Captured; the schedule is kept on disk.
        Tensor given = tensor(f, a, {6, 6}), target = tensor(f, Numbers(count), {6, 6});
        OK(given.realize());
        OK(target.realize());
        aster_ml_lazy* inputs[] = {const_cast<aster_ml_lazy*>(given.get())};
        OK(aster_ml_engine_capture_begin(session.get(), inputs, 1));
        Tensor result = given / y;
        OK(result.realize());
        aster_ml_program program{};
        aster_ml_lazy* outputs[] = {const_cast<aster_ml_lazy*>(result.get())};
        OK(aster_ml_engine_capture_end(&program, session.get(), outputs, 1));
        const aster_ml_tensor in = given.view();
        aster_ml_tensor out = target.view();
        OK(aster_ml_program_run(&program, nullptr, &in, 1, &out, 1));
        same(f, read(f, target), each(mpfr_div), "replay");
        aster_ml_program_free(&program);
      }
    }
  }
  for (const int32_t wrong : {-1, 4}) {
    aster_ml_context_options options = {};
    options.struct_size = sizeof(options);
    options.flt_rounding = wrong;
    aster_ml_context context{};
    EXPECT_EQ(aster_ml_context_init(&context, &options), ASTER_ML_RANGE);
    EXPECT_NE(last_error().find("flt_rounding is"), std::string::npos) << last_error();
  }
}

// Within a decomposition each operation is rounded so, here the only one there is.
TEST(WideRounding, IsThatOfEachStepOfADecomposition) {
  for (int mode = 0; mode < 4; ++mode) {
    aster_ml_context_options options = {};
    options.flt_rounding = mode;
    Session session(options);
    for (const Format& f : kFormats) {
      for (const auto& [a, b] : {std::pair("3", "1"), std::pair("-7", "2")}) {
        Real p(f, number(f, a)), q(f, number(f, b));
        const Tensor one = tensor(f, {number(f, a)}, {1, 1}),
                     other = tensor(f, {number(f, b)}, {1, 1});
        const Packed quotient = flt_test::expected(
            f, mode, [&](mpfr_ptr z, mpfr_rnd_t m) { return mpfr_div(z, q, p, m); });
        same(f, read(f, make(aster_ml_lazy_solve, one.get(), other.get())), {quotient}, "solve");
      }
    }
  }
}

// Schedules and traces say which algorithm the last run of a product was by, as exponents allowed.
TEST(WideProducts, SayHowTheyWereComputed) {
  Session session;
  std::vector<std::pair<std::string, int>> told;
  OK(session.trace(
      [](void* self, const aster_ml_launch* launch) {
        static_cast<std::vector<std::pair<std::string, int>>*>(self)->emplace_back(
            launch->algorithm, launch->is_exact);
      },
      &told));
  // Of the last realize's launches that of the product; others may copy.
  const auto last = [&](const char* how) {
    const aster_ml::Schedule schedule = aster_ml::Schedule::last();
    EXPECT_GT(schedule.size(), 0u);
    size_t found = 0;
    std::string all;
    for (size_t i = 0; i < schedule.size(); ++i) {
      const aster_ml_schedule_item item = schedule[i];
      EXPECT_EQ(told[told.size() - schedule.size() + i],
                std::pair(std::string(item.algorithm), int{item.is_exact}));
      const std::string one = std::string(item.algorithm) + (item.is_exact ? ", exact" : "");
      found += one == how;
      all += one + "; ";
    }
    EXPECT_EQ(found, 1u) << how << " among " << all;
  };
  for (const Format& f : kFormats) {
    const Numbers near = random_numbers(f, 32 * 32, 41, false);
    const Tensor x = tensor(f, near, {32, 32});
    OK(x.matmul(x).realize());
    last("residues, exact");
    const Tensor small = tensor(f, Numbers(near.begin(), near.begin() + 16), {4, 4});
    OK(small.matmul(small).realize());
    last("naive, exact");
    // The same schedule on other numbers.
    Numbers far = near;
    far[5] = number(f, "1e60000");
    far[6] = number(f, "1e-60000");
    const Tensor y = tensor(f, far, {32, 32});
    OK(y.matmul(y).realize());
    last("naive, exact");
    OK(x.matmul(x).realize());
    last("residues, exact");
    // Of two matrices one.
    Numbers both = near;
    both.insert(both.end(), far.begin(), far.end());
    const Tensor two = tensor(f, both, {2, 32, 32});
    OK(two.matmul(two).realize());
    last("residues, naive, exact");
    OK((x + x).realize());
    last("each, exact");
    OK(x.sum({1}).realize());
    last("exact sum, exact");
    OK(x.prod({1}).realize());
    last("in order");
  }
  const Tensor floats = data({64, 64});
  OK(floats.matmul(floats).realize());
  last("generated");
  const std::pair<int32_t, const char*> sticky[] = {{ASTER_ML_DTYPE_TBB8, "bytes, exact"},
                                                    {ASTER_ML_DTYPE_TBB16, "digits, exact"},
                                                    {ASTER_ML_DTYPE_TBB32, "residues, exact"},
                                                    {ASTER_ML_DTYPE_TBB64, "residues, exact"}};
  for (const auto& [dtype, how] : sticky) {
    const Tensor x = (data({256, 256}) * 100).cast(aster_ml::Dtype{dtype});
    OK(x.realize());
    OK(x.matmul(x).realize());
    last(how);
  }
  const Tensor narrow = data({64});
  OK(make(aster_ml_lazy_argsort, narrow.get(), int64_t{0}, 0).realize());
  last("argsort");
}

TEST_P(Wide, RefusesWhatItHasNoMeaningFor) {
  const Format& f = kFormats[0];
  const Tensor x = tensor(f, random_numbers(f, 6, 16, false), {2, 3});
  const Tensor y(Floats(6, 1.0f), Shape{2, 3});
  aster_ml_lazy out{}, other{};
  const auto refused = [&](int32_t status, int32_t wanted, const char* text) {
    EXPECT_EQ(status, wanted) << last_error();
    EXPECT_NE(last_error().find(text), std::string::npos) << last_error();
    EXPECT_EQ(out.impl, aster_ml_lazy{}.impl);
  };
  double value = 0;
  const Tensor fine = tensor(f, {number(f, "0.1")}, {1});
  OK(aster_ml_lazy_to_double(&value, const_cast<aster_ml_lazy*>(fine.get())));
  EXPECT_EQ(value, 0.1);
  refused(aster_ml_lazy_add(&out, x.get(), y.get()), ASTER_ML_DTYPE, "flt256");
  refused(aster_ml_lazy_bitcast(&out, x.get(), ASTER_ML_DTYPE_UINT64), ASTER_ML_UNSUPPORTED,
          "flt256");
  refused(aster_ml_lazy_sort(&out, &other, x.get(), 1, 0), ASTER_ML_UNSUPPORTED, "flt256");
  refused(aster_ml_lazy_cumprod(&out, x.get(), 1), ASTER_ML_UNSUPPORTED, "flt256");
  // Numbers of a formula that are known to 53 bits only.
  refused(aster_ml_lazy_gelu(&out, x.get()), ASTER_ML_UNSUPPORTED, "flt256");
  refused(aster_ml_lazy_bitwise_and(&out, x.get(), x.get()), ASTER_ML_DTYPE, "flt256");
  const int64_t shape = 3;
  refused(aster_ml_lazy_rand(&out, session_.get(), f.dtype, 1, &shape), ASTER_ML_DTYPE, "flt256");
  refused(aster_ml_lazy_randn(&out, session_.get(), f.dtype, 1, &shape), ASTER_ML_DTYPE, "flt256");
  refused(aster_ml_lazy_linspace(&out, session_.get(), 0, 1, 5, f.dtype), ASTER_ML_UNSUPPORTED,
          "flt256");
}

}  // namespace
}  // namespace programs
#endif
