// What a refused call has to say.
#pragma once

#include "aster.h"

namespace programs {

// The code, also in the error record, the function named, words of the message in order. Clears the
// record.
inline void expect_refusal(int32_t status, int32_t expected, const char* function,
                           const std::vector<std::string>& words) {
  aster_ml_error error{};
  aster_ml_error_last(&error);
  EXPECT_EQ(status, expected) << function << ": " << error.message;
  EXPECT_EQ(error.code, status) << function;
  EXPECT_STREQ(error.function, function);
  const std::string message = error.message;
  size_t at = 0;
  for (const std::string& word : words) {
    at = message.find(word, at);
    EXPECT_NE(at, std::string::npos) << function << ": no '" << word << "' in " << message;
    if (at == std::string::npos) break;
  }
  aster_ml_error_clear();
}

// Calls that are refused leave their outputs empty.
class RefusalTest : public testing::Test {
 protected:
  void expect(int32_t status, int32_t expected, const char* function,
              const std::vector<std::string>& words) {
    expect_refusal(status, expected, function, words);
    for (const aster_ml_lazy* handle : {&out, &second, &third}) {
      EXPECT_EQ(handle->impl, nullptr) << function;
    }
  }

  Session s;
  aster_ml_lazy out{}, second{}, third{};
};

#define REFUSED(code, function, words, ...) \
  expect(function(&out, __VA_ARGS__), ASTER_ML_##code, #function, std::vector<std::string> words)

}  // namespace programs
