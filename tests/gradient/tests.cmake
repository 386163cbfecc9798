# Values come from the reference runtime, which stands to the right of this module.
file(GLOB reference_sources ${PROJECT_SOURCE_DIR}/src/runtime/reference/*.cpp)
target_sources(test_gradient PRIVATE ${reference_sources})
