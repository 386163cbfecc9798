#include "base/status.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace {

aster_ml_error last() {
  aster_ml_error error;
  EXPECT_EQ(aster_ml_error_last(&error), ASTER_ML_OK);
  return error;
}

int32_t public_function(int depth) {
  ASTER_API();
  if (depth > 0) return public_function(depth - 1);
  return ASTER_FAIL(kSHAPE, "(%d) and (%d)", 2, 3);
}

int32_t another_function() {
  ASTER_API();
  return public_function(0);
}

aster::Status propagates(aster::Status status) {
  ASTER_TRY(status);
  return aster::kOk;
}

TEST(Status, TableIsPinned) {
  const char* names[] = {"OK",     "ERROR",     "ARGUMENT",    "SHAPE",     "DTYPE",   "RANGE",
                         "MEMORY", "NOT_FOUND", "UNSUPPORTED", "STATE",     "DEVICE",  "COMPILE",
                         "IO",     "FORMAT",    "NUMERIC",     "CANCELLED", "INTERNAL"};
  for (int32_t code = 0; code <= 16; ++code) {
    EXPECT_STREQ(aster_ml_status_name(code), names[code]);
    EXPECT_GT(std::string(aster_ml_status_text(code)).size(), 3u);
  }
  for (const int32_t code : {-1, 17, 1000, INT32_MIN}) {
    EXPECT_STREQ(aster_ml_status_name(code), "UNKNOWN");
    EXPECT_STREQ(aster_ml_status_text(code), "unknown status");
  }
  EXPECT_STREQ(aster_ml_version(), "0.1.0");
}

TEST(Status, RecordSaysWhatFailedAndWhere) {
  aster_ml_error_clear();
  EXPECT_EQ(last().code, 0);
  EXPECT_EQ(another_function(), ASTER_ML_SHAPE);
  const aster_ml_error error = last();
  EXPECT_EQ(error.code, ASTER_ML_SHAPE);
  EXPECT_STREQ(error.message, "(2) and (3)");
  EXPECT_STREQ(error.function, "another_function");  // the outermost
  EXPECT_STREQ(error.module, "tests");
  EXPECT_STREQ(error.file, "status_test.cpp");
  EXPECT_GT(error.line, 0);
  EXPECT_EQ(public_function(3), ASTER_ML_SHAPE);
  EXPECT_STREQ(last().function, "public_function");
  EXPECT_EQ(aster_ml_error_last(nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(last().code, ASTER_ML_ARGUMENT);
}

TEST(Status, SuccessDoesNotClear) {
  EXPECT_EQ(public_function(0), ASTER_ML_SHAPE);
  EXPECT_TRUE(propagates(aster::kOk).ok());
  EXPECT_EQ(aster::last_failure(), ASTER_ML_SHAPE);
  aster_ml_error_clear();
  EXPECT_EQ(aster::last_failure(), ASTER_ML_INTERNAL);
  EXPECT_EQ(propagates(aster::Status{5}), 5);
}

TEST(Status, LongMessagesEndInAnEllipsisBetweenCharacters) {
  for (size_t length = 480; length < 530; ++length) {
    std::string text;
    while (text.size() + 3 <= length) text += "\xE2\x88\x91";  // three bytes a character
    static_cast<void>(ASTER_FAIL(kERROR, "%s%s",
                                 length % 3 == 1   ? "a"
                                 : length % 3 == 2 ? "ab"
                                                   : "",
                                 text.c_str())
                          .ok());
    const std::string message = last().message;
    ASSERT_LT(message.size(), 512u);
    // Valid UTF-8: every lead byte is followed by its two.
    for (size_t i = 0; i < message.size();) {
      const bool wide = static_cast<unsigned char>(message[i]) >= 0x80;
      if (wide) {
        ASSERT_EQ(static_cast<unsigned char>(message[i]), 0xE2u) << length;
        ASSERT_LE(i + 3, message.size()) << length;
      }
      i += wide ? 3 : 1;
    }
    if (text.size() > 511) {
      EXPECT_EQ(message.substr(message.size() - 3), "\xE2\x80\xA6");
    }
  }
}

TEST(Status, MessageMayQuoteTheRecord) {
  static_cast<void>(ASTER_FAIL(kERROR, "first").ok());
  const aster_ml_error error = last();
  static_cast<void>(ASTER_FAIL(kERROR, "again: %s", error.message).ok());
  EXPECT_STREQ(last().message, "again: first");
}

TEST(Status, RecordsOfThreadsAreApart) {
  aster_ml_error_clear();
  std::thread([] { EXPECT_EQ(public_function(0), ASTER_ML_SHAPE); }).join();
  EXPECT_EQ(last().code, 0);
}

}  // namespace
