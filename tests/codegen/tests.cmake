target_sources(test_codegen PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/codegen/kernel_support.cpp)

# MPFR is the oracle of the emitted functions; the tests that need it are left out where it is not.
find_library(ASTER_MPFR mpfr)
find_library(ASTER_GMP gmp)
find_path(ASTER_MPFR_INCLUDE mpfr.h)
if(ASTER_MPFR AND ASTER_GMP AND ASTER_MPFR_INCLUDE)
  target_link_libraries(test_codegen PRIVATE ${ASTER_MPFR} ${ASTER_GMP})
  target_include_directories(test_codegen PRIVATE ${ASTER_MPFR_INCLUDE})
  target_compile_definitions(test_codegen PRIVATE ASTER_TEST_MPFR=1)
endif()

# The kernels' evaluator takes minutes where a sanitizer watches it unoptimised.
if(ASTER_SANITIZE)
  target_compile_options(test_codegen PRIVATE -O1)
  set(own_options ON)
endif()
