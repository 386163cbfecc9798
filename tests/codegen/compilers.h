// The compilers and vector widths of this machine, for tests and benches of kernels.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "codegen/target.h"

namespace aster::codegen::tests {

// Bytes of the vectors that this machine has.
inline std::vector<int> widths() {
  std::vector<int> out{16};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out.push_back(32);
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    out.push_back(64);
  }
  return out;
}

// 0: C for any CPU.
inline Target target_of(int vector_bytes) {
  Target t;
  t.vector_bytes = vector_bytes;
  t.fma = t.f16c = vector_bytes >= 32;
  t.avx512 = vector_bytes == 64;
  __builtin_cpu_init();
  t.vnni = t.avx512 && __builtin_cpu_supports("avx512vnni");
  return t;
}

inline std::string flags_of(const std::string& compiler, int vector_bytes) {
  std::string flags =
      " -std=gnu11 -Wall -Wno-unused -Wno-psabi -O1 -fwrapv -fno-strict-aliasing -fno-math-errno "
      "-fno-trapping-math -fno-unroll-loops -ffp-contract=off -fno-stack-protector "
      "-fno-asynchronous-unwind-tables ";
  if (compiler.ends_with("gcc")) flags += "-fexpensive-optimizations -fschedule-insns2 ";
  if (vector_bytes >= 32) flags += "-mavx2 -mfma -mf16c -mbmi -mbmi2 ";
  if (vector_bytes >= 64)
    flags += "-mavx512f -mavx512dq -mavx512cd -mavx512bw -mavx512vl -mprefer-vector-width=512 ";
  if (target_of(vector_bytes).vnni) flags += "-mavx512vnni ";
  return flags;
}
inline constexpr const char kShared[] = "-shared -nostdlib -fPIC ";

inline bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0;
}

// What a compiler says of itself.
inline const std::string& version_of(const std::string& compiler) {
  static std::map<std::string, std::string> known;
  std::string& text = known[compiler];
  if (!text.empty()) return text;
  FILE* const pipe = popen((compiler + " --version 2>&1").c_str(), "r");
  for (int c; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  if (pipe != nullptr) pclose(pipe);
  return text;
}

// Where what a command makes of a text is kept, so that compilers see it once: in the next suite,
// and under the next sanitizer. Empty where tests have no cache.
inline std::string kept_path(const std::string& command, const std::string& text) {
  const char* const folder = std::getenv("ASTER_ML_CACHE_DIR");
  if (folder == nullptr) return "";
  const std::filesystem::path kept = std::filesystem::path(folder) / "compiled_by_tests";
  std::error_code ignored;
  std::filesystem::create_directories(kept, ignored);
  const std::string all =
      version_of(command.substr(0, command.find(' '))) + '\0' + command + '\0' + text;
  uint64_t digest[] = {0xcbf29ce484222325u, 0x9e3779b97f4a7c15u};  // two lanes of FNV-1a
  for (const char c : all) {
    const uint64_t byte = static_cast<unsigned char>(c);
    digest[0] = (digest[0] ^ byte) * 0x100000001b3u;
    digest[1] = (digest[1] ^ (byte + 0x5b)) * 0x10000000233u;
  }
  char name[48];
  std::snprintf(name, sizeof(name), "%016llx%016llx", static_cast<unsigned long long>(digest[0]),
                static_cast<unsigned long long>(digest[1]));
  return kept / name;
}

// Puts a copy there, whole or not at all.
inline void keep_file(const std::string& made, const std::string& kept) {
  std::error_code failed;
  const std::string beside = kept + "." + std::to_string(getpid());
  std::filesystem::copy_file(made, beside, failed);
  if (!failed) std::filesystem::rename(beside, kept, failed);
}

inline const std::vector<std::string>& compilers() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const char* name : {"gcc", "clang"}) {
      if (has_program(name)) out.push_back(name);
    }
    return out;
  }();
  return all;
}

}  // namespace aster::codegen::tests
