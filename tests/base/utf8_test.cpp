#include "base/utf8.h"

#include <gtest/gtest.h>

namespace aster {
namespace {

using namespace std::string_view_literals;

TEST(Utf8, TakesEveryLengthAtItsBounds) {
  for (const auto text : {""sv, "a\x7f"sv, "\xc2\x80\xdf\xbf"sv, "\xe0\xa0\x80\xed\x9f\xbf"sv,
                          "\xee\x80\x80\xef\xbf\xbf"sv, "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"sv}) {
    EXPECT_TRUE(is_utf8(text)) << testing::PrintToString(text);
  }
}

// Zero, bytes alone, what is cut, longer than it needs to be, surrogates, beyond the last.
TEST(Utf8, RefusesTheRest) {
  for (const auto text :
       {"\0"sv, "a\0b"sv, "\x80"sv, "\xbf"sv, "\xc2"sv, "\xc2 "sv, "\xe2\x82"sv, "\xf0\x9f\x98"sv,
        "\xc0\x80"sv, "\xc1\xbf"sv, "\xe0\x9f\xbf"sv, "\xf0\x8f\xbf\xbf"sv, "\xed\xa0\x80"sv,
        "\xed\xbf\xbf"sv, "\xf4\x90\x80\x80"sv, "\xf8\x88\x80\x80\x80"sv, "\xff"sv}) {
    EXPECT_FALSE(is_utf8(text)) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace aster
