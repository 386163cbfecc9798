# MPFR is the oracle of every operation; without it there is nothing to hold them against.
find_library(ASTER_MPFR mpfr)
find_library(ASTER_GMP gmp)
find_path(ASTER_MPFR_INCLUDE mpfr.h)
if(ASTER_MPFR AND ASTER_GMP AND ASTER_MPFR_INCLUDE)
  target_link_libraries(test_flt PRIVATE ${ASTER_MPFR} ${ASTER_GMP})
  target_include_directories(test_flt PRIVATE ${ASTER_MPFR_INCLUDE})
  target_compile_definitions(test_flt PRIVATE ASTER_TEST_MPFR=1)
endif()

# The same functions where MPFR is said not to be there.
add_test(NAME flt_without_mpfr COMMAND test_flt --gtest_filter=*Mpfrs:FltElements.*:FltText.What*)
set_tests_properties(flt_without_mpfr PROPERTIES ENVIRONMENT ASTER_ML_MPFR=none)
