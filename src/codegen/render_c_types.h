// Inside the C renderer: the rows of its tables, and the types that a text names.
#pragma once

#include <algorithm>
#include <bit>

#include "codegen/program.h"

namespace aster::codegen::program::c {

enum Elements : uint8_t {
  F32 = 1,
  F64 = 2,
  FLT = 3,
  SINT = 4,
  UINT = 8,
  INT = 12,
  ALL = 15,
  BOOL = 16
};
enum Width : uint8_t { ONE, VEC, ANYW, W16, W32, W64 };
enum Feature : uint8_t { ANY, SSE, FMA, AVX512 };
struct Row {
  Op op;
  uint8_t elements;
  Width width;
  Feature feature;
  std::string_view text;
};
inline constexpr Row kRows[] = {
#define ROW(op, elements, width, feature, text) {Op::k##op, elements, width, feature, text},
#include "codegen/target_c.def"
#include "codegen/target_x86.def"
#undef ROW
};

inline Elements elements_of(DType d) {
  if (d == DType::kBool) return BOOL;
  if (d == DType::kFloat32) return F32;
  if (d == DType::kFloat64) return F64;
  return dtype::is_unsigned(d) ? UINT : SINT;
}
// Narrow floats are the integers that they are stored in.
inline DType stored(DType d) {
  if (d == DType::kBool || dtype::is_fp8(d)) return DType::kUInt8;
  return dtype::is_narrow_float(d) ? DType::kUInt16 : d;
}
inline DType integer(DType d, bool is_signed) {
  switch (dtype::size(d)) {
    case 1:
      return is_signed ? DType::kInt8 : DType::kUInt8;
    case 2:
      return is_signed ? DType::kInt16 : DType::kUInt16;
    case 4:
      return is_signed ? DType::kInt32 : DType::kUInt32;
    default:
      return is_signed ? DType::kInt64 : DType::kUInt64;
  }
}
inline const char* c_type(DType d) { return dtype::c_name(stored(d)); }

// Types and selections that a text uses, each written once in front of it.
class Types {
 public:
  void name(Text& out, DType d, int lanes) {
    const DType type = stored(d);
    used_[index(type, lanes)] = true;
    out << type_name(type);
    if (lanes > 1) out << 'x' << int32_t{lanes};
  }
  void unaligned(Text& out, DType d, int lanes) {
    name(out, d, lanes);
    if (lanes > 1) out << 'u';
  }
  void select(Text& out, DType d, int lanes) {
    selects_[index(stored(d), lanes)] = true;
    used_[index(integer(stored(d), true), lanes)] = true;
    out << "sel_";
    name(out, d, lanes);
  }
  void write(Text& out) const {
    for (int d = 0; d < dtype::kDTypeLimit; ++d) {
      for (int log = 0; log < kLogs; ++log) {
        const size_t at = static_cast<size_t>(d * kLogs + log);
        const DType type = static_cast<DType>(d);
        if (used_[at]) define(out, type, 1 << log);
      }
    }
    for (int d = 0; d < dtype::kDTypeLimit; ++d) {
      for (int log = 0; log < kLogs; ++log) {
        const size_t at = static_cast<size_t>(d * kLogs + log);
        if (selects_[at]) define_select(out, static_cast<DType>(d), 1 << log);
      }
    }
  }

 private:
  static constexpr int kLogs = 7;  // 1, 2, .. 64 lanes
  static size_t index(DType d, int lanes) {
    return static_cast<size_t>(static_cast<int>(d) * kLogs +
                               std::countr_zero(static_cast<unsigned>(lanes)));
  }
  static void define(Text& out, DType d, int lanes) {
    const char* const name = type_name(d);
    if (lanes == 1) {
      out << "typedef " << c_type(d) << ' ' << name << ";\n";
      return;
    }
    const int32_t bytes = static_cast<int32_t>(dtype::size(d)) * lanes;
    for (const bool unaligned : {false, true}) {
      out << "typedef " << c_type(d) << ' ' << name << 'x' << int32_t{lanes}
          << (unaligned ? "u" : "") << " __attribute__((vector_size(" << bytes << "), aligned("
          << (unaligned ? static_cast<int32_t>(dtype::size(d)) : std::min(bytes, 64))
          << "), may_alias));\n";
    }
  }
  static void define_select(Text& out, DType d, int lanes) {
    const auto type = [&](DType which) -> Text& {
      out << type_name(which);
      return lanes > 1 ? out << 'x' << int32_t{lanes} : out;
    };
    const DType mask = integer(d, true);
    out << "static inline ";
    type(d) << " sel_";
    type(d) << '(';
    type(mask) << " m, ";
    type(d) << " a, ";
    type(d) << " b) { return ";
    if (lanes == 1) {
      out << "m ? a : b; }\n";
      return;
    }
    out << '(';
    type(d) << ")((m & (";
    type(mask) << ")a) | (~m & (";
    type(mask) << ")b)); }\n";
  }
  bool used_[dtype::kDTypeLimit * kLogs] = {};
  bool selects_[dtype::kDTypeLimit * kLogs] = {};
};

}  // namespace aster::codegen::program::c
