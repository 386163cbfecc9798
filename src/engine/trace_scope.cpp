// Names of scopes around launches, a stack each thread.
#include <array>
#include <cstring>

#include "aster_ml/trace.h"
#include "base/context.h"
#include "base/status.h"
#include "base/utf8.h"
#include "engine/tracer.h"

namespace aster::engine {
namespace {

// The names one behind the other, and where each begins. What has no room is counted alone.
struct Scopes {
  std::array<char, 256> text;
  std::array<uint8_t, 32> begins;
  uint32_t depth;
};
constinit thread_local Scopes scopes{};

}  // namespace

const char* trace_scope() { return scopes.text.data(); }

}  // namespace aster::engine

int32_t aster_ml_trace_scope_begin(const char* name) {
  ASTER_API();
  if (name == nullptr || name[0] == 0 || !aster::is_utf8(name))
    return ASTER_FAIL(kARGUMENT, "the name of a scope is UTF-8, and not empty");
  auto& s = aster::engine::scopes;
  const size_t begin = std::strlen(s.text.data()), length = std::strlen(name);
  const size_t slash = begin == 0 ? 0 : 1;
  if (s.depth < s.begins.size()) {
    s.begins[s.depth] = static_cast<uint8_t>(begin);
    if (begin + slash + length < s.text.size()) {
      if (slash != 0) s.text[begin] = '/';
      std::memcpy(s.text.data() + begin + slash, name, length + 1);
    }
  }
  ++s.depth;
  return aster::kOk;
}

int32_t aster_ml_trace_scope_end(void) {
  ASTER_API();
  auto& s = aster::engine::scopes;
  if (s.depth == 0) return ASTER_FAIL(kSTATE, "no scope of a trace is open in this thread");
  if (--s.depth < s.begins.size()) s.text[s.begins[s.depth]] = 0;
  return aster::kOk;
}
