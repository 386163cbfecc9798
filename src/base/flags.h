// Environment variables, from one table.
#pragma once

namespace aster {

enum class Flag : unsigned char {
#define FLAG(name, variable, meaning) k##name,
#include "base/flags.def"
#undef FLAG
  kCount
};

struct FlagInfo {
  const char* variable;
  const char* meaning;
};
const FlagInfo& flag_info(Flag flag);

// The variable's text now; null when unset, empty, or the process runs with raised privileges.
// Borrowed from the environment: copy what is kept.
const char* flag_text(Flag flag);

}  // namespace aster
