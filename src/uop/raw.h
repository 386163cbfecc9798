// Building nodes by name from numbers that nobody has checked.
#pragma once

#include <string_view>

#include "uop/composite.h"
#include "uop/print.h"

namespace aster::uop {

struct RawNode {
  std::string_view name;  // as full_name gives it
  DType dtype = DType::kNone;
  Nodes sources;
  Words arguments;  // without what the name says
  Words shape;
  const FullName* parsed = nullptr;  // of the name, where its caller knows that
};

// Errors: ARGUMENT (wrong numbers of sources or arguments), NOT_FOUND, UNSUPPORTED, SHAPE, DTYPE,
// RANGE.
Status build_raw(Node* out, Graph& g, const RawNode& raw);
// A composite of arguments, with the body that the library has for it. Errors: ARGUMENT, as
// build_raw.
Status build_raw_call(Node* out, Graph& g, Composite composite, Nodes arguments, Words attributes);

}  // namespace aster::uop
