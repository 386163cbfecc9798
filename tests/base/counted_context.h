// A context whose memory is counted: when a test ends, none of it may be out.
#pragma once

#include <gtest/gtest.h>

#include "base/counting_allocator.h"

namespace aster_test {

class CountedContext : public ::testing::Test {
 protected:
  void SetUp() override {
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    options.allocator = &allocator.table;
    ASSERT_EQ(aster_ml_context_init(&context, &options), ASTER_ML_OK);
  }
  void TearDown() override {
    aster_ml_context_free(&context);
    EXPECT_EQ(allocator.live(), 0u);
    EXPECT_TRUE(allocator.sound());
  }
  CountingAllocator allocator;
  aster_ml_context context{};
};

}  // namespace aster_test
