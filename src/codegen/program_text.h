// What printing and reading of programs share.
#pragma once

#include "codegen/program.h"

namespace aster::codegen::program {

// How an instruction is written: the letters of its pattern, as program_text.cpp explains them.
struct Syntax {
  const char* pattern = "";
  bool value = false;  // "%3 = "
  bool type = false;   // "f32x8"
  bool axes = false;   // "{u v}"
};
Syntax syntax_of(Op op);
bool combines(Op op);  // whether an operation stands behind its colon

// False, or null past the last, for what is none.
bool type_named(DType* out, std::string_view name);
const char* loop_name(size_t i);   // serial, task, group, local
const char* space_name(size_t i);  // of Space, in order

}  // namespace aster::codegen::program
