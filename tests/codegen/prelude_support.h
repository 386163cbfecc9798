// The prelude compiled by every compiler and for every vector width that this machine has: C text
// with one loop over arrays a function, loaded with dlopen.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/prelude.h"

namespace aster::codegen::testing {

using dtype::DType;

inline const char* short_name(DType d) {
  static const std::map<DType, const char*> names = {
      {DType::kBool, "b8"},           {DType::kInt8, "i8"},           {DType::kUInt8, "u8"},
      {DType::kInt16, "i16"},         {DType::kUInt16, "u16"},        {DType::kInt32, "i32"},
      {DType::kUInt32, "u32"},        {DType::kInt64, "i64"},         {DType::kUInt64, "u64"},
      {DType::kFp8E4M3, "e4m3"},      {DType::kFp8E4M3Fnuz, "e4m3z"}, {DType::kFp8E5M2, "e5m2"},
      {DType::kFp8E5M2Fnuz, "e5m2z"}, {DType::kFloat16, "f16"},       {DType::kBFloat16, "bf16"},
      {DType::kFloat32, "f32"},       {DType::kFloat64, "f64"}};
  return names.at(d);
}

inline Target target_of(int bytes) {
  Target target;
  target.vector_bytes = bytes;
  target.fma = target.f16c = bytes >= 32;
  target.avx512 = bytes == 64;
  return target;
}

// Prelude and loops for some functions, written for one width.
class Program {
 public:
  explicit Program(int bytes) : bytes_(bytes), request_(process_heap()) {}
  int bytes() const { return bytes_; }

  // void NAME(const void *a, b, c, void *y, long n): y[i] = fn(a[i], b[i], c[i]), lanes at a time.
  void function(const std::string& name, MathFn fn, DType element, int arity, int lanes) {
    EXPECT_EQ(request_.add(fn, element, lanes), kOk);
    const std::string e = short_name(element), x = "x" + std::to_string(lanes);
    std::string arguments;
    for (int i = 0; i < arity; ++i) {
      arguments += (i ? ", " : "") +
                   load(i, fn == MathFn::kSelect && i == 0 ? mask(element) : element, lanes);
    }
    const bool one = fn >= MathFn::kHorizontalSum;
    loop(name, element, one ? 1 : lanes, lanes,
         "am_" + spelled(fn) + "_" + e + x + "(" + arguments + ")");
  }
  void cast(const std::string& name, DType from, DType to, int lanes) {
    EXPECT_EQ(request_.add_cast(from, to, lanes), kOk);
    loop(name, to, lanes, lanes,
         std::string("am_") + short_name(from) + "_to_" + short_name(to) + "x" +
             std::to_string(lanes) + "(" + load(0, from, lanes) + ")");
  }
  std::string text() const {
    Text out(process_heap());
    EXPECT_EQ(emit_prelude(out, request_, target_of(bytes_)), kOk);
    return std::string(out.view()) + loops_;
  }

 private:
  static DType mask(DType d) {
    return dtype::size(d) == 1   ? DType::kInt8
           : dtype::size(d) == 2 ? DType::kInt16
           : dtype::size(d) == 4 ? DType::kInt32
                                 : DType::kInt64;
  }
  static std::string spelled(MathFn fn) {
    static const char* const names[] = {
#define FN(Name, name, arity, elements) #name,
#include "codegen/prelude_functions.def"
#undef FN
    };
    return names[static_cast<int>(fn)];
  }
  std::string type(DType d, int lanes) {
    EXPECT_EQ(request_.add_type(d, lanes), kOk);
    Text out(process_heap());
    write_type_name(out, d, lanes);
    return std::string(out.view()) + "u";
  }
  std::string load(int argument, DType d, int lanes) {
    const std::string t = type(d, lanes);
    return "*(const " + t + "*)((const char*)" + std::string(1, static_cast<char>('a' + argument)) +
           " + i * " + std::to_string(dtype::size(d)) + ")";
  }
  void loop(const std::string& name, DType to, int stored, int lanes, const std::string& value) {
    loops_ += "void " + name + "(const void *a, const void *b, const void *c, void *y, long n) {\n";
    loops_ += "  for (long i = 0; i < n; i += " + std::to_string(lanes) + ")\n";
    loops_ += "    *(" + type(to, stored) + "*)((char*)y + " + "i / " +
              std::to_string(lanes / stored) + " * " + std::to_string(dtype::size(to)) +
              ") = " + value + ";\n}\n";
  }

  int bytes_;
  PreludeRequest request_;
  std::string loops_;
};

using Loop = void (*)(const void*, const void*, const void*, void*, long);

// One build of a program.
class Build {
 public:
  std::string name;  // "gcc 32"
  int bytes = 0;
  void* library = nullptr;
  Loop operator[](const std::string& loop) const {
    void* f = dlsym(library, loop.c_str());
    EXPECT_NE(f, nullptr) << loop << " in " << name;
    return reinterpret_cast<Loop>(f);
  }
};

inline std::vector<int> widths() {
  std::vector<int> w = {16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) w.push_back(32);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    w.push_back(64);
  }
  return w;
}

// Builds what `fill` puts into a program, for every width and compiler; also once with undefined
// behaviour trapped. Empty where no compiler is found.
inline std::vector<Build> build_all(const std::function<void(Program&)>& fill) {
  static const char* const flags[] = {
      "", " -mavx2 -mfma -mf16c",
      (" -mavx2 -mfma -mf16c -mavx512f -mavx512dq -mavx512bw -mavx512vl "
       "-mprefer-vector-width=512")};
  static const char* const compilers[][3] = {
      {"gcc", "gcc", "-fexpensive-optimizations -fschedule-insns2"},
      {"clang", "clang", ""},
      {"clang ubsan", "clang", "-fsanitize=undefined -fsanitize-trap=undefined"}};
  char folder[] = "/tmp/aster-prelude-XXXXXX";
  EXPECT_NE(mkdtemp(folder), nullptr);
  const std::string at = std::string(folder) + "/";
  std::vector<Build> builds;
  std::string script;
  for (int bytes : widths()) {
    Program program(bytes);
    fill(program);
    const std::string source = at + std::to_string(bytes) + ".c";
    std::ofstream(source) << program.text();
    for (const auto& c : compilers) {
      if (system((std::string("command -v ") + c[1] + " >/dev/null").c_str()) != 0) continue;
      if (std::string(c[0]) == "clang ubsan" && bytes != widths().back()) continue;
      Build b;
      b.name = c[0] + std::string(" ") + std::to_string(bytes);
      b.bytes = bytes;
      script += std::string(c[1]) + " -O1 " + c[2] + " -std=gnu11 -w -fwrapv -fno-strict-aliasing" +
                " -fno-math-errno -fno-trapping-math -fno-unroll-loops -ffp-contract=off -fPIC "
                "-shared -nostdlib" +
                flags[bytes / 32] + " " + source + " -o " + at + std::to_string(builds.size()) +
                ".so &\n";
      if (builds.size() % 2 == 1) script += "wait\n";
      builds.push_back(b);
    }
  }
  EXPECT_EQ(system((script + "wait").c_str()), 0);
  for (size_t i = 0; i < builds.size(); ++i) {
    builds[i].library = dlopen((at + std::to_string(i) + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(builds[i].library, nullptr) << builds[i].name << ": " << dlerror();
  }
  std::error_code ignored;
  if (!getenv("KEEP")) std::filesystem::remove_all(folder, ignored);
  return builds;
}

}  // namespace aster::codegen::testing
