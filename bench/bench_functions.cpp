// Functions as programs: 4,096 elements in cache, by each compiler at each vector width, the least
// of several runs. Prints nanoseconds per element.
//
//   bench_functions [part of a name] [compiler] [vector bytes]
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codegen/functions.h"
#include "codegen/render_c.h"
#include "dtype/convert.h"
#include "kernels.h"

namespace {

using namespace aster;
namespace kp = codegen::program;
using dtype::DType;
using uop::Op;

constexpr long kCount = 4096;

struct Case {
  kp::FunctionKey key;
  int arity;
  double from, to;  // arguments

  std::string name() const {
    std::string out = uop::info(key.op).name;
    out.append("_").append(kp::type_name(key.operand));
    if (from >= 1e6) out.append("_large");
    return key.op == Op::kCast ? out.append("_").append(kp::type_name(key.result)) : out;
  }
  int lanes(int bytes) const {
    size_t size = std::max(dtype::size(key.operand), dtype::size(key.result));
    if (dtype::is_narrow_float(key.operand) || dtype::is_narrow_float(key.result)) {
      size = std::max<size_t>(size, 4);
    }
    return bytes / static_cast<int>(size);
  }
};

std::vector<Case> all_cases() {
  constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64, kF16 = DType::kFloat16;
  constexpr DType kI32 = DType::kInt32, kI64 = DType::kInt64, kU8 = DType::kUInt8;
  std::vector<Case> out;
  for (DType d : {kF32, kF64}) {
    const auto add = [&](Op op, int arity, double from, double to) {
      out.push_back({{op, d, d}, arity, from, to});
    };
    add(Op::kExp, 1, -10, 10);
    add(Op::kExp2, 1, -10, 10);
    add(Op::kLog, 1, 0.01, 100);
    add(Op::kLog2, 1, 0.01, 100);
    add(Op::kSin, 1, -10, 10);
    add(Op::kCos, 1, -10, 10);
    add(Op::kSin, 1, 1e8, 1e12);
    add(Op::kTanh, 1, -3, 3);
    add(Op::kErf, 1, -3, 3);
    add(Op::kPow, 2, 0.1, 10);
    add(Op::kSqrt, 1, 0.1, 10);
    add(Op::kTrunc, 1, -10, 10);
    add(Op::kFloor, 1, -10, 10);
    add(Op::kCeil, 1, -10, 10);
    add(Op::kRound, 1, -10, 10);
    add(Op::kMulAcc, 3, -10, 10);
    add(Op::kMax, 2, -10, 10);
    add(Op::kMin, 2, -10, 10);
  }
  for (DType d : {DType::kInt8, kU8, DType::kInt16, kI32, DType::kUInt32, kI64}) {
    const double low = dtype::is_signed(d) ? -100 : 0;
    out.push_back({{Op::kCDiv, d, d}, 2, low, 100});
    out.push_back({{Op::kCMod, d, d}, 2, low, 100});
    out.push_back({{Op::kFloorDiv, d, d}, 2, low, 100});
    out.push_back({{Op::kFloorMod, d, d}, 2, low, 100});
    out.push_back({{Op::kShl, d, d}, 2, 0, 9});
    out.push_back({{Op::kShr, d, d}, 2, 0, 9});
    out.push_back({{Op::kMax, d, d}, 2, low, 100});
  }
  out.push_back({{Op::kThreefry, DType::kUInt64, DType::kUInt64}, 2, 0, 1e9});
  const auto cast = [&](DType from, DType to) {
    const bool plus = dtype::is_unsigned(from) || dtype::is_unsigned(to);
    out.push_back({{Op::kCast, to, from}, 1, plus ? 0.0 : -100.0, 100});
  };
  for (DType d : {kF16, DType::kBFloat16, DType::kFp8E4M3, DType::kFp8E4M3Fnuz, DType::kFp8E5M2,
                  DType::kFp8E5M2Fnuz}) {
    cast(d, kF32), cast(kF32, d), cast(kF64, d);
  }
  for (DType d : {kI32, DType::kUInt32, kI64, DType::kUInt64, DType::kInt8, kU8, DType::kInt16}) {
    cast(kF32, d), cast(kF64, d), cast(d, kF32), cast(kF16, d);
  }
  cast(DType::kBool, kF32), cast(kU8, kF64), cast(DType::kInt16, kI64), cast(kU8, kI32);
  return out;
}

bool add_program(kp::RenderedC* out, const Case& c, int lanes, const codegen::Target& target) {
  kp::Module module(process_heap());
  std::string x;
  if (lanes != 1) x.append("x").append(std::to_string(lanes));
  const std::string from = kp::type_name(c.key.operand), to = kp::type_name(c.key.result);
  std::string what = uop::info(c.key.op).name;
  what.append(" ").append(to + x);
  if (!kp::is_native(target, c.key.op, c.key.result, c.key.operand, lanes)) {
    size_t place = 0;
    if (!kp::add_function(&place, &module, c.key, target.fma).ok()) return false;
    what.assign("Call ").append(to + x + " ").append(module.programs[place].name);
  }
  std::string text("program "), loads;
  text += c.name() + "\n";
  for (int i = 0; i < c.arity; ++i) {
    const std::string n = std::to_string(i);
    text.append("%1").append(n + " = Param ").append(from + " ").append(n + " [4096]\n");
    loads.append("%2").append(n + " = Load ").append(from + x).append(" %1").append(n + " + %1\n");
    what.append(" %2").append(n);
  }
  text.append("%30 = Param ").append(to + " ").append(std::to_string(c.arity));
  text.append(" [4096] write\n%1 = Loop 0 4096 ").append(std::to_string(lanes) + "\n");
  text.append(loads).append("%2 = ").append(what).append("\nStore %30 + %1, %2\nEnd\n");
  return kp::read(&module, text).ok() && kp::verify(module).ok() &&
         kp::render_c(*out, module, target).ok();
}

template <typename Run>
double nanoseconds(Run run) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 8; ++i) run();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count() / (8.0 * kCount);
}

void measure(const Case& c, void* handle, const std::string& build) {
  const bench::Function function = bench::find(handle, c.name().c_str());
  if (function == nullptr) return;
  alignas(64) static char memory[4][kCount * 8];
  std::mt19937 random(1);
  std::uniform_real_distribution<double> some(c.from, c.to);
  for (int i = 0; i < c.arity; ++i) {
    for (long k = 0; k < kCount; ++k) {
      char* at = memory[i] + k * static_cast<long>(dtype::size(c.key.operand));
      if (dtype::is_float(c.key.operand)) {
        dtype::store_double(c.key.operand, at, some(random));
      } else {
        dtype::store_int(
            c.key.operand, at,
            c.key.operand == DType::kBool ? k & 1 : static_cast<int64_t>(some(random)));
      }
    }
  }
  void* params[4];
  for (int i = 0; i < c.arity; ++i) params[i] = memory[i];
  params[c.arity] = memory[3];
  double best = 1e30;
  for (int i = 0; i < 60; ++i) {
    best = std::min(best, nanoseconds([&] { function(params, nullptr, nullptr, 0, 1); }));
  }
  std::printf("%-22s %-9s %8.4f\n", c.name().c_str(), build.c_str(), best);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  std::printf("%-22s %-9s %8s\n", "function", "build", "ns");
  for (const std::string compiler : {"gcc", "clang"}) {
    if (argc > 2 && compiler != argv[2]) continue;
    for (const int bytes : {16, 32, 64}) {
      if (bytes > codegen::tests::widths().back() || (argc > 3 && std::atoi(argv[3]) != bytes))
        continue;
      const codegen::Target target = codegen::tests::target_of(bytes);
      std::vector<Case> cases;
      std::vector<kp::RenderedC> programs;
      std::vector<const kp::RenderedC*> all;
      for (const Case& c : all_cases()) {
        if (c.name().find(part) == std::string::npos) continue;
        programs.emplace_back(process_heap());
        if (!add_program(&programs.back(), c, c.lanes(bytes), target)) {
          std::printf("%s does not render\n", c.name().c_str());
          return 1;
        }
        cases.push_back(c);
      }
      for (const kp::RenderedC& one : programs) all.push_back(&one);
      Text unit(process_heap());
      if (!kp::write_unit(unit, all, target).ok()) return 1;
      void* handle = bench::compile(std::string(unit.view()), compiler, bytes);
      if (handle == nullptr) return 1;
      for (const Case& c : cases) {
        measure(c, handle, compiler + " " + std::to_string(bytes));
      }
    }
  }
}
