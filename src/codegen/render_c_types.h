// Inside the C renderer: the rows of its tables, and the types that texts name.
#pragma once

#include <algorithm>
#include <bit>

#include "codegen/render_c.h"

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
enum Feature : uint8_t { ANY, SSE, FMA, F16C, AVX512, VNNI, FUSED };
struct Row {
  Op op;
  uint8_t elements;
  Width width;
  Feature feature;
  std::string_view text;
};
inline constexpr Row kRows[] = {
#define ROW(op, elements, width, feature, text) {Op::k##op, elements, width, feature, text},
#define CAST(from, to, width, feature, text)
#include "codegen/target_x86.def"
// clang-format off
#include "codegen/target_c.def"
// clang-format on
#undef ROW
#undef CAST
};
inline constexpr Row kOpenclRows[] = {
#define ROW(op, elements, width, feature, text) {Op::k##op, elements, width, feature, text},
#define CAST(from, to, width, feature, text)
#include "codegen/target_opencl.def"
// clang-format off
#include "codegen/target_c.def"
// clang-format on
#undef ROW
#undef CAST
};
// Of narrow floats; the others are C's.
struct CastRow {
  DType from, to;
  Width width;  // of the wider type
  Feature feature;
  std::string_view text;
};
inline constexpr CastRow kCasts[] = {
#define ROW(op, elements, width, feature, text)
#define CAST(from, to, width, feature, text) {DType::k##from, DType::k##to, width, feature, text},
#include "codegen/target_x86.def"
#undef ROW
#undef CAST
};
inline constexpr CastRow kOpenclCasts[] = {
#define ROW(op, elements, width, feature, text)
#define CAST(from, to, width, feature, text) {DType::k##from, DType::k##to, width, feature, text},
#include "codegen/target_opencl.def"
#undef ROW
#undef CAST
};
// The first of some rows that fits.
const Row* first_row(std::span<const Row> rows, const Target& target, Op op, DType d, int lanes);
// The first row that fits, null if there is none. Across (of conditions, by Or): of the real type
// as wide as the mask.
const Row* find_row(const Target& target, Op op, DType d, int lanes);
const CastRow* find_cast(const Target& target, DType from, DType to, int lanes);

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

// Names types, and writes those that were named.
class Types {
 public:
  Types(UsedTypes& used, Language language) : used_(used), opencl_(language == Language::kOpencl) {}
  void name(Text& out, DType d, int lanes) {
    const DType type = stored(d);
    used_.types[index(type, lanes)] = true;
    write_name(out, type, lanes, opencl_);
  }
  void unaligned(Text& out, DType d, int lanes) {
    name(out, d, lanes);
    if (lanes > 1) out << 'u';
  }
  void select(Text& out, DType d, int lanes) {
    used_.selects[index(stored(d), lanes)] = true;
    used_.types[index(integer(stored(d), true), lanes)] = true;
    out << "sel_";
    name(out, d, lanes);
  }
  // Lanes of two vectors, in OpenCL C.
  void mix(Text& out, DType d, int lanes) {
    used_.mixes[index(stored(d), lanes)] = true;
    out << "mix_";
    name(out, d, lanes);
  }
  // `f32x8`; in OpenCL C `float8`.
  static Text& write_name(Text& out, DType d, int lanes, bool opencl);
  static void write(Text& out, const UsedTypes& used, bool opencl);

 private:
  static size_t index(DType d, int lanes) {
    return static_cast<size_t>(static_cast<int>(d) * UsedTypes::kLogs +
                               std::countr_zero(static_cast<unsigned>(lanes)));
  }
  UsedTypes& used_;
  bool opencl_;
};

}  // namespace aster::codegen::program::c
