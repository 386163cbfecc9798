# The same with libLLVM in place of the C compiler, where it is.
# What libLLVM compiles has schedules that are not kept on disk.
add_test(NAME engine_llvm COMMAND test_engine --gtest_filter=-KeptSchedules.*)
set_tests_properties(engine_llvm PROPERTIES ENVIRONMENT
  "ASTER_ML_CC=llvm;ASTER_ML_CACHE_DIR=${ASTER_TEST_CACHE}_llvm;ASTER_ML_TEST_DATA=${PROJECT_SOURCE_DIR}/tests")
