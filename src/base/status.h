// Status values, the thread's error record and the macro that propagates them.
#pragma once

#include <cstdarg>
#include <cstdint>

#include "aster_ml/base.h"

#ifndef ASTER_MODULE
#define ASTER_MODULE "tests"  // src/CMakeLists.txt names the module of every source
#endif

namespace aster {

enum class Code : int32_t {
#define STATUS(number, name, text, when) k##name = number,
#include "base/status.def"
#undef STATUS
};

// A status that the caller has to look at. Converts to the ABI's int32_t.
struct [[nodiscard]] Status {
  int32_t code = 0;
  constexpr bool ok() const { return code == 0; }
  constexpr operator int32_t() const { return code; }  // NOLINT: what a public function returns
};
constexpr Status kOk{};

// Fills the thread's error record and returns the code as a status. Never allocates.
[[gnu::format(printf, 5, 6)]] Status fail_at(Code code, const char* module, const char* file,
                                             int line, const char* format, ...);
// The status of the thread's error record (INTERNAL if it is clear): what a nil node stands for.
Status last_failure();

// The thread's error record as it is now, to be there again after failures that are dealt with: a
// success leaves none behind.
class SavedError {
 public:
  SavedError();
  void restore() const;
  // Text of the record of now.
  static const char* message();

 private:
  aster_ml_error error_;
};

// ASTER_FAIL(kSHAPE, "(%lld) and (%lld) do not broadcast", a, b)
#define ASTER_FAIL(code, ...) \
  ::aster::fail_at(::aster::Code::code, ASTER_MODULE, __FILE__, __LINE__, __VA_ARGS__)

#define ASTER_TRY(call)                                                  \
  do {                                                                   \
    if (::aster::Status aster_s = (call); !aster_s.ok()) return aster_s; \
  } while (0)

// Names the public function for errors below it; the outermost one of a thread wins.
class ApiScope {
 public:
  explicit ApiScope(const char* function);
  ~ApiScope();
  ApiScope(const ApiScope&) = delete;
  ApiScope& operator=(const ApiScope&) = delete;

 private:
  bool outer_;
};
#define ASTER_API() ::aster::ApiScope aster_api_scope(__func__)

// The public function that the thread is in; "" in none.
const char* public_function();

}  // namespace aster
