/* What the examples do about errors. */
#ifndef ASTER_EXAMPLES_CHECK_H
#define ASTER_EXAMPLES_CHECK_H

#include <aster_ml/aster_ml.h>
#include <stdio.h>
#include <stdlib.h>

/* What failed, in the library's words; the program ends. A builder that fails leaves its handle
 * empty, which the next ones pass on, so that it is enough to check what computes. */
static inline void check(int32_t status) {
  aster_ml_error error;
  if (status == ASTER_ML_OK) return;
  aster_ml_error_last(&error);
  fprintf(stderr, "%s in %s: %s\n", aster_ml_status_name(status), error.function, error.message);
  exit(2);
}

/* The number that a text is, -1 where it is none. */
static inline int number(const char *text) {
  char *end = NULL;
  const long value = strtol(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == 0 && value < 1000000 ? (int)value : -1;
}

#endif
