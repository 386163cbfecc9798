// Decimal text against MPFR's reading and writing, and text that is no number.
#include "flt/text.h"

#include <algorithm>

#ifdef ASTER_TEST_MPFR
#include "oracle.h"

namespace {

using namespace flt_test;

bool without_mpfr() { return std::getenv("ASTER_ML_MPFR") != nullptr; }

Packed read(const Format& f, const std::string& text, int mode = 0) {
  Packed out;
  EXPECT_EQ(aster_ml_flt_from_text(out.w, f.dtype, mode, text.c_str()), 0) << text;
  return out;
}
std::string written(const Format& f, const Packed& p, int32_t digits = 0) {
  char text[12000];
  size_t length = 0;
  EXPECT_EQ(aster_ml_flt_to_text(text, &length, sizeof(text), f.dtype, p.w, digits), 0);
  EXPECT_EQ(std::strlen(text), length);
  return text;
}

TEST(FltText, RoundTrips) {
  for (const Format& f : kFormats) {
    Operands operands(31);
    for (int i = 0; i < cases() / 2; ++i) {
      Packed p = operands.any(f);
      const std::string text = written(f, p);
      if (is_nan(f, p)) p = Real(f, p).pack(f);
      ASSERT_EQ(read(f, text), p) << text;
      // As many digits as are enough for any number, without zeros in front.
      const std::string digits = text.substr(0, text.find('e'));
      const size_t first = std::min(digits.find_first_of("123456789"), digits.size());
      EXPECT_LE(std::count_if(digits.begin() + static_cast<ptrdiff_t>(first), digits.end(),
                              [](char c) { return c != '.'; }),
                f.words == 4 ? 73 : 149)
          << text;
      // Longer than it has to be, the same number.
      if (i % 8 == 0) {
        ASSERT_EQ(read(f, written(f, p, 400)), p);
      }
    }
  }
}

TEST(FltText, WritesMpfrsDigits) {
  for (const Format& f : kFormats) {
    Operands operands(32);
    for (int i = 0; i < cases() / 4; ++i) {
      const Packed p = operands.any(f);
      Real x(f, p);
      if (!mpfr_regular_p(static_cast<mpfr_ptr>(x))) continue;
      const int digits = 2 + static_cast<int>(operands.below(200));
      char* want = nullptr;
      mpfr_asprintf(&want, "%.*Re", digits - 1, static_cast<mpfr_ptr>(x));
      const std::string got = written(f, p, digits);
      // As numbers, by MPFR: what the same digits say.
      Real a(4000), b(4000);
      mpfr_set_str(a, got.c_str(), 10, MPFR_RNDN);
      mpfr_set_str(b, want, 10, MPFR_RNDN);
      ASSERT_TRUE(mpfr_equal_p(a, b)) << got << " " << want;
      mpfr_free_str(want);
    }
  }
}

TEST(FltText, ReadsInEveryMode) {
  for (const Format& f : kFormats) {
    std::mt19937_64 random(33);
    for (int i = 0; i < cases() / 2; ++i) {
      std::string text = random() % 2 == 0 ? "-" : "";
      for (uint64_t k = random() % 200; k > 0; --k) text += static_cast<char>('0' + random() % 10);
      text += '.';
      for (uint64_t k = 1 + random() % 200; k > 0; --k) {
        text += static_cast<char>('0' + random() % 10);
      }
      const long most = f.words == 4 ? 79100 : 1262900;
      const long exponents[] = {0, most, -most, 400};
      const long about = exponents[random() % 4];
      text += (random() % 2 == 0 ? "e" : "E") +
              std::to_string(about + static_cast<long>(random() % 500) - 250);
      const Packed want = expected(f, i % 4, [&](mpfr_ptr y, mpfr_rnd_t rnd) {
        char* end = nullptr;
        const int inexact = mpfr_strtofr(y, text.c_str(), &end, 10, rnd);
        EXPECT_EQ(*end, '\0');
        return inexact;
      });
      ASSERT_EQ(read(f, text, i % 4), want) << text;
    }
  }
}

// The exact decimal of the middle between two numbers, and a digit more or less far behind.
TEST(FltText, Ties) {
  for (const Format& f : kFormats) {
    Operands operands(34);
    for (int i = 0; i < cases() / 20; ++i) {
      const Packed p = operands.near(f, 6);
      Real low(f, p), middle(f.precision() + 1), high(f, p);
      mpfr_nextabove(high);
      mpfr_add(middle, low, high, MPFR_RNDN);
      mpfr_div_2ui(middle, middle, 1, MPFR_RNDN);
      char* text = nullptr;
      mpfr_asprintf(&text, "%.1200Rf", static_cast<mpfr_ptr>(middle));
      const Packed down = low.pack(f), up = high.pack(f);
      const bool even = (down.w[0] & 1) == 0;
      ASSERT_EQ(read(f, text), even ? down : up) << text;
      ASSERT_EQ(read(f, std::string(text) + "0001"),
                mpfr_signbit(static_cast<mpfr_ptr>(low)) ? down : up);
      ASSERT_EQ(read(f, text, ASTER_ML_FLT_UP), up);
      ASSERT_EQ(read(f, text, ASTER_ML_FLT_DOWN), down);
      mpfr_free_str(text);
    }
  }
}

TEST(FltText, AbsurdExponentsAndWords) {
  for (const Format& f : kFormats) {
    const Packed zero = read(f, "0"), infinity = read(f, "inf"), nan = read(f, "NaN");
    EXPECT_EQ(zero, Packed{});
    EXPECT_TRUE(is_nan(f, nan));
    EXPECT_EQ(read(f, "-nan"), nan);
    EXPECT_EQ(read(f, "Infinity"), infinity);
    for (const char* text :
         {"1e99999999999999999999999999", "123e2000000", "+1E+9223372036854775807"}) {
      EXPECT_EQ(read(f, text), infinity) << text;
      Real greatest(f, read(f, text, ASTER_ML_FLT_DOWN));
      EXPECT_TRUE(mpfr_number_p(static_cast<mpfr_ptr>(greatest)));
    }
    for (const char* text : {"1e-99999999999999999999999999", "123e-2000000", "0e99999999999999999",
                             "0.0", "000", ".0e-5"}) {
      EXPECT_EQ(read(f, text), zero) << text;
    }
    Packed least = {};
    least.w[0] = 1;
    EXPECT_EQ(read(f, "1e-99999999999999999999999999", ASTER_ML_FLT_UP), least);
    EXPECT_EQ(read(f, "-1e-99999999999999999", ASTER_ML_FLT_UP), read(f, "-0"));
    EXPECT_EQ(written(f, zero), "0");
    EXPECT_EQ(written(f, read(f, "-0")), "-0");
    EXPECT_EQ(written(f, infinity), "inf");
    EXPECT_EQ(written(f, nan), "nan");
  }
}

TEST(FltText, AsPeopleWriteIt) {
  if (without_mpfr()) return;
  const Format& f = kFormats[0];
  for (const char* text : {"1", "-1.25", "0.5", "100", "123456789012345678901", "1e+21", "1.5e+100",
                           "0.00001", "-1e-6", "3.25e-300", "12.5"}) {
    EXPECT_EQ(written(f, read(f, text)), text);
  }
  EXPECT_EQ(written(f, read(f, "2.71828182845"), 4), "2.718");
  EXPECT_EQ(read(f, "00012.500e0001"), read(f, "125"));
  EXPECT_EQ(read(f, ".5"), read(f, "5e-1"));
  EXPECT_EQ(read(f, "5."), read(f, "5"));
}

TEST(FltText, WhatIsNoNumber) {
  uint64_t out[4] = {1, 2, 3, 4};
  for (const char* text : {"",       "-",     "+",        ".",     "e5",    "1e",  "1e+", "1e5.0",
                           " 1",     "1 ",    "0x1p3",    "1,5",   "1_000", "--1", "in",  "infin",
                           "nan(1)", "1.2.3", "\xC3\xA9", "@NaN@", "1@5",   "%s%n"}) {
    EXPECT_EQ(aster_ml_flt_from_text(out, ASTER_ML_DTYPE_FLT256, 0, text), ASTER_ML_FORMAT) << text;
  }
  EXPECT_EQ(aster_ml_flt_from_text(out, ASTER_ML_DTYPE_FLT256, 0, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_flt_from_text(nullptr, ASTER_ML_DTYPE_FLT256, 0, "1"), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_flt_from_text(out, ASTER_ML_DTYPE_FLOAT32, 0, "1"), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_flt_from_text(out, ASTER_ML_DTYPE_FLT256, 4, "1"), ASTER_ML_ARGUMENT);
  const std::string large(5u << 20, '1');
  EXPECT_EQ(aster_ml_flt_from_text(out, ASTER_ML_DTYPE_FLT256, 0, large.c_str()), ASTER_ML_RANGE);
  EXPECT_EQ(out[0] + out[1] + out[2] + out[3], 10u);
  char text[8] = "before";
  size_t length = 9;
  const auto write = [&](int32_t dtype, const void* value, int32_t digits) {
    return aster_ml_flt_to_text(text, &length, sizeof(text), dtype, value, digits);
  };
  const uint64_t third[4] = {0, 0, 0, uint64_t{0x3fffd555} << 32};
  EXPECT_EQ(write(ASTER_ML_DTYPE_FLT256, third, 1), ASTER_ML_RANGE);
  EXPECT_EQ(write(ASTER_ML_DTYPE_FLT256, third, 10001), ASTER_ML_RANGE);
  EXPECT_EQ(write(ASTER_ML_DTYPE_FLOAT64, third, 0), ASTER_ML_DTYPE);
  EXPECT_EQ(write(ASTER_ML_DTYPE_FLT256, nullptr, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(length, 0u);
  if (without_mpfr()) {
    EXPECT_EQ(write(ASTER_ML_DTYPE_FLT256, third, 0), ASTER_ML_UNSUPPORTED);
    EXPECT_EQ(aster_ml_flt_from_text(out, ASTER_ML_DTYPE_FLT256, 0, "1"), ASTER_ML_UNSUPPORTED);
    return;
  }
  EXPECT_EQ(write(ASTER_ML_DTYPE_FLT256, third, 20), ASTER_ML_RANGE);  // does not fit
  EXPECT_STREQ(text, "");
}

}  // namespace
#endif
