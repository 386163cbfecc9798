#include "base/flags.h"

#include <stdlib.h>

namespace aster {
namespace {

constexpr FlagInfo kFlags[] = {
#define FLAG(name, variable, meaning) {variable, meaning},
#include "base/flags.def"
#undef FLAG
};

}  // namespace

const FlagInfo& flag_info(Flag flag) { return kFlags[static_cast<unsigned char>(flag)]; }

const char* flag_text(Flag flag) {
  // secure_getenv: a set-uid program must not run a compiler, or load code, that its caller chose.
  const char* text = secure_getenv(flag_info(flag).variable);
  return text != nullptr && text[0] != '\0' ? text : nullptr;
}

}  // namespace aster
