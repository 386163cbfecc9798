# Values come from the reference runtime, which stands to the right of this module; but for what goes
# through kernel programs, which need codegen.
file(GLOB reference_sources ${PROJECT_SOURCE_DIR}/src/runtime/reference/*.cpp)
list(FILTER reference_sources EXCLUDE REGEX "/(evaluate|strip_.*)\\.cpp$")
target_sources(test_gradient PRIVATE ${reference_sources})
