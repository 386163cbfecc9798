# The same with libLLVM in place of the C compiler, where it is.
# What libLLVM compiles has schedules that are not kept on disk.
add_test(NAME engine_llvm COMMAND test_engine --gtest_filter=-KeptSchedules.*)
set_tests_properties(engine_llvm PROPERTIES ENVIRONMENT
  "ASTER_ML_CC=llvm;ASTER_ML_CACHE_DIR=${ASTER_TEST_CACHE}_llvm;ASTER_ML_TEST_DATA=${PROJECT_SOURCE_DIR}/tests")

# The same without a compiler: kernels have the machine code that the library makes itself. Sizes
# are about what a compiler is asked for, and schedules are kept for its code.
add_test(NAME engine_builtin COMMAND test_engine --gtest_filter=-KeptSchedules.*:Sizes.*)
set_tests_properties(engine_builtin PROPERTIES ENVIRONMENT
  "ASTER_ML_CC=builtin;ASTER_ML_CACHE_DIR=${ASTER_TEST_CACHE}_builtin;ASTER_ML_TEST_DATA=${PROJECT_SOURCE_DIR}/tests")
