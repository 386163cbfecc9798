/* The smallest test harness in C: EXPECT counts failures, the program returns their number. */
#ifndef TESTS_ABI_EXPECT_H
#define TESTS_ABI_EXPECT_H

#include <stdio.h>

static int expect_failures;

#define EXPECT(condition)                                                       \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      expect_failures++;                                                        \
    }                                                                           \
  } while (0)

#endif
