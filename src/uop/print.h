// Graphs as text, one node a line:
//
//   %0 = Param float32[2, 3] (0)
//   %1 = Const float32[2, 3] 2.5
//   %2 = Mul float32[2, 3] %0 %1
//   %3 = Reduce:Add float32[2, 1] %2 (1)
//
// Numbers follow the walk, buffers count from #0, so equal graphs print the same in every process.
#pragma once

#include "base/text.h"
#include "uop/uop.h"

namespace aster::uop {

// What roots are made of, sources first. Errors: MEMORY.
Status print(Text& out, Nodes roots);

// "Add", "Reduce:Add", "Fold:Max", "Call:Softmax". Static text.
const char* full_name(Node node);
// The operation of a full name, and the first argument that the part after the colon stands for;
// INTERNAL numbers of either are no one else's business. False if there is none.
struct FullName {
  Op op;
  bool has_word;
  Word word;
};
bool parse_full_name(FullName* out, std::string_view name);
const char* full_name(const FullName& name);
// Arguments without what full_name says; none for buffers.
Words plain_arguments(Node node);

}  // namespace aster::uop
