#include "base/status.h"

#include <cstdio>
#include <cstring>
#include <string_view>

namespace aster {
namespace {

// Trivial types only: thread-local storage without constructors.
thread_local aster_ml_error t_error;
thread_local const char* t_function;

template <size_t N>
void copy_text(char (&to)[N], const char* from) {
  size_t length = std::strlen(from);
  if (length >= N) length = N - 1;
  std::memcpy(to, from, length);
  to[length] = '\0';
}

// Cuts a message that did not fit: whole UTF-8 characters, then an ellipsis.
template <size_t N>
void end_with_ellipsis(char (&text)[N]) {
  constexpr char kEllipsis[] = "\xE2\x80\xA6";
  size_t end = N - sizeof(kEllipsis);
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  std::memcpy(text + end, kEllipsis, sizeof(kEllipsis));
}

const char* last_part(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

struct StatusRow {
  const char* name;
  const char* text;
};
constexpr StatusRow kStatuses[] = {
#define STATUS(number, name, text, when) {#name, text},
#include "base/status.def"
#undef STATUS
};
constexpr int32_t kStatusCount = static_cast<int32_t>(sizeof(kStatuses) / sizeof(kStatuses[0]));

// The numbers of the table are those of the public enumeration, and rows stand at their number.
#define STATUS(number, upper, words, when)     \
  static_assert(ASTER_ML_##upper == (number)); \
  static_assert(std::string_view(kStatuses[number].name) == #upper);
#include "base/status.def"
#undef STATUS

}  // namespace

Status fail_at(Code code, const char* module, const char* file, int line, const char* format, ...) {
  aster_ml_error& error = t_error;
  error.code = static_cast<int32_t>(code);
  error.line = line;
  copy_text(error.module, module);
  copy_text(error.file, last_part(file));
  copy_text(error.function, t_function != nullptr ? t_function : "");
  // The arguments may point into the record itself (a message that quotes the last one).
  char message[sizeof(error.message)];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  if (length < 0) message[0] = '\0';
  if (length >= static_cast<int>(sizeof(message))) end_with_ellipsis(message);
  std::memcpy(error.message, message, sizeof(message));
  return Status{error.code};
}

Status last_failure() {
  if (t_error.code != 0) return Status{t_error.code};
  return ASTER_FAIL(kINTERNAL, "an empty node without a failure before it");
}

SavedError::SavedError() : error_(t_error) {}
void SavedError::restore() const { t_error = error_; }
const char* SavedError::message() { return t_error.message; }

ApiScope::ApiScope(const char* function) : outer_(t_function == nullptr) {
  if (outer_) t_function = function;
}

ApiScope::~ApiScope() {
  if (outer_) t_function = nullptr;
}

const char* public_function() { return t_function == nullptr ? "" : t_function; }

}  // namespace aster

extern "C" {

int32_t aster_ml_error_last(aster_ml_error* out) {
  if (out == nullptr) {
    ASTER_API();
    return ASTER_FAIL(kARGUMENT, "out is null");
  }
  *out = aster::t_error;
  return ASTER_ML_OK;
}

int32_t aster_ml_error_clear(void) {
  aster::t_error = aster_ml_error{};
  return ASTER_ML_OK;
}

const char* aster_ml_status_name(int32_t status) {
  return status >= 0 && status < aster::kStatusCount ? aster::kStatuses[status].name : "UNKNOWN";
}

const char* aster_ml_status_text(int32_t status) {
  return status >= 0 && status < aster::kStatusCount ? aster::kStatuses[status].text
                                                     : "unknown status";
}

#define ASTER_TEXT_OF(x) #x
#define ASTER_VERSION_TEXT(major, minor, patch) \
  ASTER_TEXT_OF(major) "." ASTER_TEXT_OF(minor) "." ASTER_TEXT_OF(patch)

const char* aster_ml_version(void) {
  return ASTER_VERSION_TEXT(ASTER_ML_VERSION_MAJOR, ASTER_ML_VERSION_MINOR, ASTER_ML_VERSION_PATCH);
}

}  // extern "C"
