# The backend suite of the package onnx, every 12th case of it; all of it: onnx/suite.py --aster bin/aster.
add_test(NAME onnx_suite COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/nn/onnx/suite.py
  --aster $<TARGET_FILE:aster> --cases ${CMAKE_BINARY_DIR}/onnx_cases --every 12
  --kinds node simple pytorch-converted pytorch-operator)
set_tests_properties(onnx_suite PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600
  ENVIRONMENT "ASTER_ML_CACHE_DIR=${CMAKE_BINARY_DIR}/cache")
