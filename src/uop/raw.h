// Building nodes by name from numbers that nobody has checked.
#pragma once

#include <string_view>

#include "uop/uop.h"

namespace aster::uop {

struct RawNode {
  std::string_view name;  // as full_name gives it
  DType dtype = DType::kNone;
  Nodes sources;
  Words arguments;  // without what the name says
  Words shape;
};

// Errors: ARGUMENT (wrong numbers of sources or arguments), NOT_FOUND, UNSUPPORTED, SHAPE, DTYPE,
// RANGE.
Status build_raw(Node* out, Graph& g, const RawNode& raw);

}  // namespace aster::uop
