// Rounding, flushing of subnormals and traps of the calling thread: what is computed must not
// depend on how the host has set them.
#pragma once

#include <cfenv>

namespace aster {

// The default modes as long as it lives, then the host's again.
class FloatModes {
 public:
  FloatModes(const FloatModes&) = delete;
  FloatModes& operator=(const FloatModes&) = delete;

#if defined(__x86_64__)
  FloatModes() : host_(__builtin_ia32_stmxcsr()) {
    if ((host_ & kModes) != kDefault) __builtin_ia32_ldmxcsr(kDefault);
  }
  ~FloatModes() {
    if ((host_ & kModes) != kDefault) __builtin_ia32_ldmxcsr(host_);
  }

 private:
  static constexpr unsigned kDefault = 0x1F80;  // all traps masked, to nearest, nothing flushed
  static constexpr unsigned kModes = 0xFFC0;    // everything but the flags
  unsigned host_;
#else
  FloatModes() {
    std::fegetenv(&host_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatModes() { std::fesetenv(&host_); }

 private:
  std::fenv_t host_;
#endif
};

}  // namespace aster
