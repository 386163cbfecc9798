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

# From nothing, half of the compiling is reading gtest and the standard headers. ccache knows no objects that were
# compiled so: for machines that keep none (.ci/run), where its looking up would be lost time too.
option(ASTER_PRECOMPILE "Precompile what most sources include, without ccache" $ENV{ASTER_PRECOMPILE})

# aster_precompile(TARGET HEADER...): for C++ alone. REUSE_FROM OTHER: those of a target with the same options.
function(aster_precompile target)
  if(ASTER_PRECOMPILE AND "${ARGV1}" STREQUAL REUSE_FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  elseif(ASTER_PRECOMPILE)
    list(TRANSFORM ARGN REPLACE "(.+)>" "$<$<COMPILE_LANGUAGE:CXX>:\\1$<ANGLE-R>>")
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
  # gcc takes what was precompiled for our own code, and sees mistakes in optimised std::string and std::vector.
  if(ASTER_PRECOMPILE AND target MATCHES "^test_")
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-restrict
      -Wno-stringop-overflow -Wno-stringop-overread -Wno-free-nonheap-object>)
  endif()
endfunction()

find_program(ASTER_CCACHE ccache)
if(ASTER_CCACHE AND NOT ASTER_PRECOMPILE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
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
