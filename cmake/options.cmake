# Compiler settings shared by every target of the tree.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(ASTER_CCACHE ccache)
if(ASTER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ASTER_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${ASTER_CCACHE})
endif()

# Warnings of our own code; aster_warnings is linked privately, never exported.
add_library(aster_warnings INTERFACE)
target_compile_options(aster_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wvla
  $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast -Wextra-semi>
  # gcc's guess at what an out-parameter may hold after an early return is wrong too often.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<BOOL:${ASTER_WERROR}>:-Werror>)

if(ASTER_SANITIZE)
  # -g1: names and lines, which is what the sanitizers print; a third of the compiling is the rest.
  add_compile_options(-fsanitize=${ASTER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${ASTER_SANITIZE})
  # Types of functions are told by C++'s runtime alone, which programs in C are not linked with.
  add_compile_options($<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
endif()
