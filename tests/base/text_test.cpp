#include "base/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace aster {
namespace {

TEST(Text, NumbersAreReadWhole) {
  const std::pair<const char*, double> good[] = {
      {"0", 0},          {"-0.25", -0.25},
      {"1e-5", 1e-5},    {"0.1", 0.1},
      {"inf", HUGE_VAL}, {"-inf", -HUGE_VAL},
      {".5", 0.5},       {"1.7976931348623157e+308", 0x1.fffffffffffffp1023}};
  for (const auto& [text, value] : good) {
    double read = 7;
    EXPECT_TRUE(parse_double(&read, text)) << text;
    EXPECT_EQ(read, value) << text;
  }
  double read = 0;
  EXPECT_TRUE(parse_double(&read, "nan"));
  EXPECT_TRUE(std::isnan(read));
  EXPECT_TRUE(parse_double(&read, "-0") && std::signbit(read));
  for (const char* bad : {"", "1 ", " 1", "1,5", "0x10", "one", "1e", "--1", "1.2.3"}) {
    EXPECT_FALSE(parse_double(&read, bad)) << bad;
  }
  EXPECT_TRUE(parse_double(&read, std::string(63, '1')));
  EXPECT_FALSE(parse_double(&read, std::string(64, '1')));
}

}  // namespace
}  // namespace aster
