// Dtypes inside the library: the table's questions as functions, promotion, and constants truncated
// to a dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "aster_ml/dtype.h"
#include "base/status.h"

namespace aster::dtype {

// The codes of the ABI.
enum class DType : uint8_t {
#define DTYPE(code, Name, NAME, name, c_name, kind, bits, rank, sum, aliases) k##Name = code,
#include "dtype/dtypes.def"
};
constexpr int kDTypeLimit = 58;  // one more than the greatest code, for tables by code

// What bool is to an integer and an integer to a float, among others.
enum class Kind : uint8_t {
  kUnknown,
  kNone,
  kBool,
  kSigned,
  kUnsigned,
  kFp8,
  kFloat,
  kWeakInt,
  kWeakFloat,
  kSticky,  // integers whose least pattern, ERR, is an error that sticks (dtype/sticky.h)
  kWide     // floats of several words (src/flt)
};

struct Info {
  const char* name;
  const char* c_name;  // of what is stored: narrow floats are integers there
  Kind kind;
  uint16_t bits;
  uint8_t rank;
  DType sum;
};
// One row for every code below kDTypeLimit; kind kUnknown where the ABI has none.
struct InfoTable {
  Info row[kDTypeLimit] = {};
};
constexpr InfoTable make_info_table() {
  InfoTable table;
#define DTYPE(code, Name, NAME, name, c_name, kind, bits, rank, sum, aliases) \
  table.row[code] = {name, c_name, Kind::kind, bits, rank, DType::k##sum};
#include "dtype/dtypes.def"
  return table;
}
inline constexpr InfoTable kInfos = make_info_table();
constexpr const Info& info(DType d) { return kInfos.row[static_cast<int>(d)]; }

constexpr const char* name(DType d) { return info(d).name; }
constexpr const char* c_name(DType d) { return info(d).c_name; }
constexpr size_t bits(DType d) { return info(d).bits; }       // 0 for none and the weak ones
constexpr size_t size(DType d) { return info(d).bits / 8u; }  // in bytes
constexpr bool is_bool(DType d) { return d == DType::kBool; }
constexpr bool is_weak(DType d) { return d == DType::kWeakInt || d == DType::kWeakFloat; }
constexpr bool is_fp8(DType d) { return info(d).kind == Kind::kFp8; }
constexpr bool is_float(DType d) {
  const Kind kind = info(d).kind;
  return kind == Kind::kFloat || kind == Kind::kFp8 || kind == Kind::kWeakFloat ||
         kind == Kind::kWide;
}
constexpr bool is_unsigned(DType d) { return info(d).kind == Kind::kUnsigned; }
constexpr bool is_signed(DType d) {  // of the integers
  return info(d).kind == Kind::kSigned || info(d).kind == Kind::kWeakInt;
}
constexpr bool is_int(DType d) { return is_signed(d) || is_unsigned(d); }  // bool is none
// Sticky integers are no integers here: none of the rules of those holds for them.
constexpr bool is_sticky(DType d) { return info(d).kind == Kind::kSticky; }
// Floats of words, one behind the other, that src/flt computes with: no kernel and no conversion
// here knows them, and their constants are those that a double is.
constexpr bool is_wide(DType d) { return info(d).kind == Kind::kWide; }
constexpr int64_t words(DType d) { return static_cast<int64_t>(bits(d) / 64); }
// The integer dtype whose patterns a sticky one is stored as; others are stored as themselves.
constexpr DType stored_as(DType d) {
  if (!is_sticky(d)) return d;
  return bits(d) == 8    ? DType::kInt8
         : bits(d) == 16 ? DType::kInt16
         : bits(d) == 32 ? DType::kInt32
                         : DType::kInt64;
}
// Stored narrower than float32, computed in float32.
constexpr bool is_narrow_float(DType d) { return is_float(d) && bits(d) != 0 && bits(d) < 32; }

// The dtype of a code that comes from outside. Errors: ARGUMENT (unknown, none).
Status from_any_code(DType* out, int32_t code);
// One that is computed with here, or by kernels. Errors: besides, UNSUPPORTED (a wide one).
Status from_code(DType* out, int32_t code);
// The same, with storage. Errors: besides, DTYPE for the weak ones.
Status from_any_storage_code(DType* out, int32_t code);
Status from_storage_code(DType* out, int32_t code);
// By its name or an alias ("half", "long"), case counts. Errors: NOT_FOUND.
Status from_name(DType* out, std::string_view name);

// The least dtype that both may become; none where there is none: a sticky dtype meets itself and
// integer constants alone.
DType least_upper(DType a, DType b);
// What stands for the weak dtypes where something is stored.
struct Defaults {
  DType real = DType::kFloat32, whole = DType::kInt32;
};
// What a function with real results makes of d: floats stay, weakint becomes weakfloat, others
// meet the default.
DType least_upper_float(DType d, Defaults defaults);
// Accumulator of a sum over d.
constexpr DType sum_acc(DType d) { return info(d).sum; }
// The default for a weak dtype, else d.
DType strong(DType d, Defaults defaults);
// weakfloat, weakint or bool: the weak dtype of d's kind.
DType weak(DType d);
// Whether every value of from is one of to, by tinygrad's table.
bool can_lossless_cast(DType from, DType to);

// Bounds of bool and the integers (weakint: of int64; sticky ones: without ERR).
int64_t min_int(DType d);
uint64_t max_int(DType d);

// A double rounded to the values of a float dtype, by its rules for overflow; other dtypes leave it
// alone.
double truncate_float(DType d, double value);
// An integer wrapped to the width of d; uint64 as the same 64 bits. bool: 0 or 1. Sticky ones wrap
// as what they are stored as.
int64_t truncate_int(DType d, int64_t value);
// Toward zero; NaN and what int64 cannot hold (from 2^63 on in size) give 0.
int64_t float_to_int(double value);

}  // namespace aster::dtype
