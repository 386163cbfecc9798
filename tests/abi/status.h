/* Statuses and what was said with them. */
#ifndef ASTER_ML_TESTS_STATUS_H
#define ASTER_ML_TESTS_STATUS_H

#include <aster_ml/aster_ml.h>
#include <string.h>

#include "expect.h"

static const char *message(void) {
  static aster_ml_error error;
  aster_ml_error_last(&error);
  return error.message;
}

#define SUCCEEDS(call)                                                          \
  do {                                                                          \
    const int32_t status_ = (call);                                             \
    if (status_ != 0) {                                                         \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, message()); \
      expect_failures++;                                                        \
    }                                                                           \
  } while (0)
#define FAILS(call, code, text)                                                       \
  do {                                                                                \
    const int32_t status_ = (call);                                                   \
    if (status_ != (code) || strstr(message(), text) == NULL) {                       \
      fprintf(stderr, "%s:%d: %d %s\n", __FILE__, __LINE__, (int)status_, message()); \
      expect_failures++;                                                              \
    }                                                                                 \
  } while (0)

#endif
