// Elements of sparse matrices: how each dtype is loaded, added, multiplied and stored. A further
// dtype is a further class, and its case in with_element.
#pragma once

#include <type_traits>

#include "dtype/convert.h"
#include "dtype/float16.h"
#include "dtype/sticky.h"
#include "flt/sum.h"
#include "flt/value.h"

namespace aster::sparse {

using dtype::DType;

// What every class has: Stored, in memory; Wide, computed with; Total, of sums over an axis.

template <typename T>
struct Integer {
  using Stored = T;
  using Wide = uint64_t;  // so that everything wraps
  using Total = uint64_t;
  static Wide load(const T& at) { return static_cast<Wide>(static_cast<int64_t>(at)); }
  static void store(T& at, Wide value) { at = static_cast<T>(value); }
  static Total total(const T& at) { return load(at); }
  static Wide add(Wide a, Wide b) { return a + b; }
  static Wide sub(Wide a, Wide b) { return a - b; }
  static Wide mul(Wide a, Wide b) { return a * b; }
  static bool less(const T& a, const T& b) { return a < b; }
  static bool is_nan(const T&) { return false; }
  static bool is_zero(const T& at) { return at == 0; }
};

struct Bool {
  using Stored = uint8_t;
  using Wide = uint8_t;
  using Total = uint64_t;
  static Wide load(uint8_t at) { return at != 0; }
  static void store(uint8_t& at, Wide value) { at = value; }
  static Total total(uint8_t at) { return load(at); }
  static Wide add(Wide a, Wide b) { return a | b; }
  static Wide sub(Wide a, Wide b) { return a ^ b; }  // never asked for
  static Wide mul(Wide a, Wide b) { return a & b; }
  static bool less(uint8_t a, uint8_t b) { return load(a) < load(b); }
  static bool is_nan(uint8_t) { return false; }
  static bool is_zero(uint8_t at) { return at == 0; }
};

// Floats of a class E that says load, store and Stored; Wide is F.
template <typename F>
struct Real {
  using Wide = F;
  using Total = double;
  static Wide add(Wide a, Wide b) { return a + b; }
  static Wide sub(Wide a, Wide b) { return a - b; }
  static Wide mul(Wide a, Wide b) { return a * b; }
};

template <typename F>
struct Float : Real<F> {
  using Stored = F;
  static F load(F at) { return at; }
  static void store(F& at, F value) { at = value; }
  static double total(F at) { return static_cast<double>(at); }
  static void store_total(F& at, double value) { at = static_cast<F>(value); }
  static bool less(F a, F b) { return a < b; }
  static bool is_nan(F at) { return at != at; }
  static bool is_zero(F at) { return at == 0; }
};

struct Narrow : Real<float> {
  using Stored = uint16_t;
};
struct Float16 : Narrow {
  static float load(uint16_t at) { return dtype::decode_float16(at); }
  static void store(uint16_t& at, float value) { at = dtype::encode_float16(value); }
  static double total(uint16_t at) { return static_cast<double>(load(at)); }
  static void store_total(uint16_t& at, double value) { at = dtype::encode_float16(value); }
  static bool less(uint16_t a, uint16_t b) { return load(a) < load(b); }
  static bool is_nan(uint16_t at) { return (at & 0x7fff) > 0x7c00; }
  static bool is_zero(uint16_t at) { return (at & 0x7fff) == 0; }
};
struct BFloat16 : Narrow {
  static float load(uint16_t at) { return dtype::decode_bfloat16(at); }
  static void store(uint16_t& at, float value) { at = dtype::encode_bfloat16(value); }
  static double total(uint16_t at) { return static_cast<double>(load(at)); }
  static void store_total(uint16_t& at, double value) {
    at = dtype::encode_bfloat16(static_cast<float>(value));
  }
  static bool less(uint16_t a, uint16_t b) { return load(a) < load(b); }
  static bool is_nan(uint16_t at) { return (at & 0x7fff) > 0x7f80; }
  static bool is_zero(uint16_t at) { return (at & 0x7fff) == 0; }
};

// The four of 8 bits.
struct Fp8 : Real<float> {
  using Stored = uint8_t;
  DType dtype;
  float load(uint8_t at) const { return static_cast<float>(dtype::decode(dtype, at)); }
  void store(uint8_t& at, float value) const { store_total(at, static_cast<double>(value)); }
  double total(uint8_t at) const { return dtype::decode(dtype, at); }
  void store_total(uint8_t& at, double value) const {
    at = static_cast<uint8_t>(dtype::encode(dtype, value));
  }
  bool less(uint8_t a, uint8_t b) const { return load(a) < load(b); }
  bool is_nan(uint8_t at) const {
    const float value = load(at);
    return value != value;
  }
  bool is_zero(uint8_t at) const { return load(at) == 0; }
};

// Sticky integers that T stores: ERR is stored as any value is, sums are exact and checked once.
template <typename T>
struct Sticky {
  using Stored = T;
  using Wide = dtype::StickySum;
  using Total = dtype::StickySum;
  DType dtype;
  Wide load(const T& at) const {
    Wide out;
    out.error = at == dtype::sticky_error(dtype);
    out.add(at);
    return out;
  }
  void store(T& at, const Wide& value) const { at = static_cast<T>(value.checked(dtype)); }
  Total total(const T& at) const { return load(at); }
  static Wide add(Wide a, const Wide& b) { return a += b; }
  static Wide sub(const Wide& a, const Wide& b) {
    return {a.low - b.low, a.high - b.high, a.error || b.error};
  }
  // Of two elements.
  static Wide mul(const Wide& a, const Wide& b) {
    Wide out;
    out.error = a.error || b.error;
    out.add(element(a) * element(b));
    return out;
  }
  static bool less(const T& a, const T& b) { return a < b; }
  bool is_nan(const T& at) const { return at == dtype::sticky_error(dtype); }
  static bool is_zero(const T& at) { return at == 0; }

 private:
  static dtype::Exact element(const Wide& x) { return x.low + x.high * (dtype::Exact{1} << 64); }
};

// Wide floats: an operation on two elements is rounded once; sums of more are gathered (exact.h).
template <int N>
struct WideFloat {
  using Stored = flt::Value<N>;
  using Wide = flt::Value<N>;
  using Total = flt::Value<N>;
  static const Wide& load(const Stored& at) { return at; }
  static void store(Stored& at, const Wide& value) { at = value; }
  static Wide add(const Wide& a, const Wide& b) { return a + b; }
  static Wide sub(const Wide& a, const Wide& b) { return a - b; }
  static Wide mul(const Wide& a, const Wide& b) { return a * b; }
  static bool less(const Stored& a, const Stored& b) { return a < b; }
  static bool is_nan(const Stored& at) { return !(at == at); }
  static bool is_zero(const Stored& at) { return at.is_zero(); }
};
template <typename E>
constexpr bool kIsWide = false;
template <int N>
constexpr bool kIsWide<WideFloat<N>> = true;

// f(E{}) of a stored dtype's class.
template <typename F>
auto with_element(DType d, F&& f) {
  switch (d) {
    case DType::kBool:
      return f(Bool{});
    case DType::kInt8:
      return f(Integer<int8_t>{});
    case DType::kUInt8:
      return f(Integer<uint8_t>{});
    case DType::kInt16:
      return f(Integer<int16_t>{});
    case DType::kUInt16:
      return f(Integer<uint16_t>{});
    case DType::kInt32:
      return f(Integer<int32_t>{});
    case DType::kUInt32:
      return f(Integer<uint32_t>{});
    case DType::kInt64:
      return f(Integer<int64_t>{});
    case DType::kUInt64:
      return f(Integer<uint64_t>{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kFloat32:
      return f(Float<float>{});
    case DType::kFloat64:
      return f(Float<double>{});
    case DType::kTbb8:
      return f(Sticky<int8_t>{d});
    case DType::kTbb16:
      return f(Sticky<int16_t>{d});
    case DType::kTbb32:
      return f(Sticky<int32_t>{d});
    case DType::kTbb64:
      return f(Sticky<int64_t>{d});
#define FLT_CASE(N, Name) \
  case DType::k##Name:    \
    return f(WideFloat<N>{});
      FLT_FORMATS(FLT_CASE)
#undef FLT_CASE
    default: {
      Fp8 e;
      e.dtype = d;
      return f(e);
    }
  }
}

}  // namespace aster::sparse
