#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace aster {
namespace {

std::string decoded(const std::string& text) {
  Text out(process_heap());
  JsonReader reader(text);
  if (!reader.string(&out).ok() || !reader.end().ok()) return "FORMAT";
  return std::string(out.view());
}

TEST(Json, Strings) {
  EXPECT_EQ(decoded(R"("plain ü")"), "plain ü");
  EXPECT_EQ(decoded(R"( "\"\\\/\b\f\n\r\t" )"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(decoded(R"("\u0041\u00e9\u20AC\ud83d\ude00")"), "Aé€😀");
  for (const char* bad : {"", "x", "\"", "\"a", R"("\")", R"("\x")", R"("\u12")", R"("\u12g4")",
                          R"("\ud800")", R"("\ud800\u0041")", R"("\udc00")", R"("\u0000")",
                          "\"\n\"", "\"\x80\"", "\"\xC3\"", R"("a" b)", R"("a""b")"}) {
    EXPECT_EQ(decoded(bad), "FORMAT") << bad;
  }
  EXPECT_EQ(decoded(std::string("\"a\0b\"", 5)), "FORMAT");
}

TEST(Json, WritesWhatItReads) {
  const std::string text = "a\"b\\c\n\t\x01 ü€";
  Text out(process_heap());
  write_json_string(out, text);
  EXPECT_EQ(decoded(std::string(out.view())), text);
}

int64_t number(const std::string& text) {
  JsonReader reader(text);
  uint64_t out = 0;
  return reader.integer(&out).ok() && reader.end().ok() ? static_cast<int64_t>(out) : -1;
}

TEST(Json, NaturalNumbers) {
  EXPECT_EQ(number("0"), 0);
  EXPECT_EQ(number(" 42 "), 42);
  EXPECT_EQ(number("9223372036854775807"), INT64_MAX);
  uint64_t most = 0;
  EXPECT_TRUE(JsonReader("18446744073709551615").integer(&most).ok());
  EXPECT_EQ(most, UINT64_MAX);
  for (const char* bad : {"", "-1", "+1", "01", "1.0", "1e3", "1E3", "18446744073709551616",
                          "99999999999999999999999", "a", "0x1", "\"1\"", "true"}) {
    EXPECT_EQ(number(bad), -1) << bad;
  }
}

bool skips(const std::string& text) {
  JsonReader reader(text);
  return reader.skip().ok() && reader.end().ok();
}

TEST(Json, SkipsAnyValue) {
  for (const char* good :
       {"1", "-1.5e+10", "0.1", "true", "false", "null", "\"a\"", "[]", "{}", "[1,[2,{}],\"x\"]",
        R"({"a":{"b":[null,{"c":[]}]},"d":1})", " [ 1 , 2 ] "}) {
    EXPECT_TRUE(skips(good)) << good;
  }
  for (const char* bad :
       {"",      "[",        "[1",        "[1,",         "[1,]", "[,1]", "[1 2]", "{",
        "{1:2}", R"({"a"})", R"({"a":})", R"({"a":1,})", "[}",   "{]",   "tru",   "-",
        "1.",    "1e",       "01",        "nan",         "]",    "'a'"}) {
    EXPECT_FALSE(skips(bad)) << bad;
  }
  EXPECT_TRUE(skips(std::string(64, '[') + std::string(64, ']')));
  EXPECT_FALSE(skips(std::string(65, '[') + std::string(65, ']')));
  EXPECT_FALSE(skips(std::string(1'000'000, '[')));
}

}  // namespace
}  // namespace aster
