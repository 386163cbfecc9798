#include "dtype/dtype.h"

#include <cmath>

#include "dtype/convert.h"

namespace aster::dtype {
namespace {

constexpr int index(DType d) { return static_cast<int>(d); }
using Set = uint64_t;  // of dtypes, a bit for each code
constexpr Set bit(DType d) { return Set{1} << index(d); }

struct Edge {
  DType from, to;
};
constexpr Edge kEdges[] = {
#define EDGE(From, To) {DType::k##From, DType::k##To},
#include "dtype/dtypes.def"
};

// Everything that a dtype may become, itself included: a fixed point over the edges.
struct Ancestors {
  Set of[kDTypeLimit] = {};
};
constexpr Ancestors ancestors() {
  Ancestors result;
  for (int d = 0; d < kDTypeLimit; ++d) result.of[d] = Set{1} << d;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edge& edge : kEdges) {
      const Set grown = result.of[index(edge.from)] | result.of[index(edge.to)];
      changed |= grown != result.of[index(edge.from)];
      result.of[index(edge.from)] = grown;
    }
  }
  return result;
}
constexpr Ancestors kAncestors = ancestors();

// What a dtype other than bool and itself may be, to become another without loss.
constexpr Set kFp8s = bit(DType::kFp8E4M3) | bit(DType::kFp8E5M2) | bit(DType::kFp8E4M3Fnuz) |
                      bit(DType::kFp8E5M2Fnuz);
constexpr Set kUpTo8 = bit(DType::kInt8) | bit(DType::kUInt8);
constexpr Set kUpTo16 = kUpTo8 | bit(DType::kInt16) | bit(DType::kUInt16);
constexpr Set kUpTo32 = kUpTo16 | bit(DType::kInt32) | bit(DType::kUInt32);
constexpr Set kUpTo64 = kUpTo32 | bit(DType::kInt64) | bit(DType::kUInt64);
constexpr Set kUnsigneds = bit(DType::kUInt8) | bit(DType::kUInt16) | bit(DType::kUInt32);

constexpr Set lossless_into(DType to) {
  switch (to) {
    case DType::kWeakInt:
      return kUpTo64;
    case DType::kFloat64:
      return kFp8s | kUpTo32 | bit(DType::kFloat16) | bit(DType::kBFloat16) | bit(DType::kFloat32);
    case DType::kFloat32:
      return kFp8s | kUpTo16 | bit(DType::kFloat16) | bit(DType::kBFloat16);
    case DType::kFloat16:
      return kFp8s | kUpTo8;
    case DType::kUInt64:
      return kUnsigneds;
    case DType::kUInt32:
      return bit(DType::kUInt8) | bit(DType::kUInt16);
    case DType::kUInt16:
      return bit(DType::kUInt8);
    case DType::kInt64:
      return kUpTo32;
    case DType::kInt32:
      return kUpTo16;
    case DType::kInt16:
      return kUpTo8;
    default:
      return 0;
  }
}

struct Name {
  DType dtype;
  std::string_view name, aliases;
};
constexpr Name kNames[] = {
#define DTYPE(code, Name, NAME, name, c_name, kind, bits, rank, sum, aliases) \
  {DType::k##Name, name, aliases},
#include "dtype/dtypes.def"
};

bool among(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t space = words.find(' ');
    if (words.substr(0, space) == word) return true;
    words.remove_prefix(space == std::string_view::npos ? words.size() : space + 1);
  }
  return false;
}

}  // namespace

Status from_any_code(DType* out, int32_t code) {
  *out = DType::kNone;
  if (code > 0 && code < kDTypeLimit && kInfos.row[code].kind != Kind::kUnknown) {
    *out = static_cast<DType>(code);
    return kOk;
  }
  return ASTER_FAIL(kARGUMENT, "%d is no dtype%s", code,
                    code == 0 ? ", but what a descriptor has that is empty or was freed" : "");
}

namespace {

Status refuse_wide(DType* d) {
  if (!is_wide(*d)) return kOk;
  const DType wide = *d;
  *d = DType::kNone;
  return ASTER_FAIL(kUNSUPPORTED, "%s: lazy tensors and aster_ml/flt.h take it", name(wide));
}

}  // namespace

Status from_code(DType* out, int32_t code) {
  ASTER_TRY(from_any_code(out, code));
  return refuse_wide(out);
}

Status from_any_storage_code(DType* out, int32_t code) {
  ASTER_TRY(from_any_code(out, code));
  if (!is_weak(*out)) return kOk;
  const DType weak_one = *out;
  *out = DType::kNone;
  return ASTER_FAIL(kDTYPE, "%s has no storage", name(weak_one));
}

Status from_storage_code(DType* out, int32_t code) {
  ASTER_TRY(from_any_storage_code(out, code));
  return refuse_wide(out);
}

Status from_name(DType* out, std::string_view text) {
  *out = DType::kNone;
  for (const Name& row : kNames) {
    if (row.dtype == DType::kNone) continue;
    if (row.name == text || among(row.aliases, text)) {
      *out = row.dtype;
      return kOk;
    }
  }
  return ASTER_FAIL(kNOT_FOUND, "no dtype is named %.*s",
                    static_cast<int>(text.size() < 64 ? text.size() : 64), text.data());
}

DType least_upper(DType a, DType b) {
  if (a == b) return a;
  if (is_sticky(a) || is_sticky(b)) {
    if (b == DType::kWeakInt) return a;
    return a == DType::kWeakInt ? b : DType::kNone;
  }
  if (is_wide(a) != is_wide(b) && !is_weak(a) && !is_weak(b)) return DType::kNone;
  Set common = kAncestors.of[index(a)] & kAncestors.of[index(b)];
  DType least = DType::kNone;
  for (; common != 0; common &= common - 1) {
    const DType d = static_cast<DType>(__builtin_ctzll(common));
    if (info(d).rank < info(least).rank) least = d;
  }
  return least;
}

DType least_upper_float(DType d, Defaults defaults) {
  if (d == DType::kWeakInt) return DType::kWeakFloat;
  return is_float(d) ? d : least_upper(d, defaults.real);
}

DType strong(DType d, Defaults defaults) {
  if (d == DType::kWeakInt) return defaults.whole;
  return d == DType::kWeakFloat ? defaults.real : d;
}

DType weak(DType d) {
  if (is_float(d)) return DType::kWeakFloat;
  return is_int(d) ? DType::kWeakInt : d;
}

bool can_lossless_cast(DType from, DType to) {
  if (from == to || from == DType::kBool) return true;
  return (lossless_into(to) & bit(from)) != 0;
}

int64_t min_int(DType d) {
  if (is_sticky(d)) return -static_cast<int64_t>(max_int(d));
  if (!is_signed(d)) return 0;
  return d == DType::kWeakInt ? INT64_MIN : INT64_MIN >> (64 - bits(d));
}

uint64_t max_int(DType d) {
  if (d == DType::kBool) return 1;
  if (d == DType::kWeakInt) return INT64_MAX;
  if (!is_int(d) && !is_sticky(d)) return 0;
  return UINT64_MAX >> (64 - bits(d) + (is_unsigned(d) ? 0 : 1));
}

double truncate_float(DType d, double value) {
  if (d == DType::kFloat32) return static_cast<double>(static_cast<float>(value));
  return is_narrow_float(d) ? decode(d, encode(d, value)) : value;
}

int64_t truncate_int(DType d, int64_t value) {
  switch (stored_as(d)) {
    case DType::kBool:
      return value != 0;
    case DType::kInt8:
      return static_cast<int8_t>(value);
    case DType::kUInt8:
      return static_cast<uint8_t>(value);
    case DType::kInt16:
      return static_cast<int16_t>(value);
    case DType::kUInt16:
      return static_cast<uint16_t>(value);
    case DType::kInt32:
      return static_cast<int32_t>(value);
    case DType::kUInt32:
      return static_cast<uint32_t>(value);
    default:
      return value;
  }
}

int64_t float_to_int(double value) {
  return std::fabs(value) < 0x1p63 ? static_cast<int64_t>(value) : 0;
}

}  // namespace aster::dtype
