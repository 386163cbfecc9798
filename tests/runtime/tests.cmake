# Kernels as the suite codegen makes and runs them.
target_sources(test_runtime PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/codegen/kernel_support.cpp)

# OpenCL's functions of the table against a loader that fails when it is told to, a process each,
# and against this machine's.
add_library(opencl_stub MODULE ${CMAKE_CURRENT_SOURCE_DIR}/runtime/opencl_stub/stub.cpp)
target_include_directories(opencl_stub PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_features(opencl_stub PRIVATE cxx_std_20)
add_dependencies(test_runtime opencl_stub)
foreach(mode no_platform no_device no_fp64 no_library not_a_library faults)
  add_test(NAME opencl_${mode} COMMAND test_runtime --gtest_filter=OpenclStub.*)
  set(library $<TARGET_FILE:opencl_stub>)
  if(mode STREQUAL no_library)
    set(library ${CMAKE_BINARY_DIR}/no/such/library.so)
  elseif(mode STREQUAL not_a_library)
    set(library libz.so.1)
  endif()
  set_tests_properties(opencl_${mode} PROPERTIES ENVIRONMENT
    "ASTER_ML_OPENCL_LIBRARY=${library};OPENCL_STUB=${mode};ASTER_ML_CACHE_DIR=${ASTER_TEST_CACHE}_${mode}")
endforeach()

# Their children make threads, which TSan refuses in the child of a process that has had some: alone.
set(filter --gtest_filter=-Process.*)
add_test(NAME processes COMMAND test_runtime --gtest_filter=Process.*)
set_tests_properties(processes PROPERTIES LABELS threads)

# MPFR is the oracle of decompositions of wide floats.
find_library(ASTER_MPFR mpfr)
find_library(ASTER_GMP gmp)
find_path(ASTER_MPFR_INCLUDE mpfr.h)
if(ASTER_MPFR AND ASTER_GMP AND ASTER_MPFR_INCLUDE)
  target_link_libraries(test_runtime PRIVATE ${ASTER_MPFR} ${ASTER_GMP})
  target_include_directories(test_runtime PRIVATE ${ASTER_MPFR_INCLUDE})
  set_source_files_properties(runtime/linalg_wide_test.cpp PROPERTIES
    COMPILE_DEFINITIONS ASTER_TEST_MPFR=1)
endif()
