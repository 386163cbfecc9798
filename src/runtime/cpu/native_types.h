// Elements of every dtype as values to compute with, and the operations that combine them.
#pragma once

#include <bit>
#include <cmath>
#include <type_traits>

#include "dtype/convert.h"
#include "dtype/float16.h"
#include "runtime/cpu/native.h"
#include "uop/ops.h"

namespace aster::runtime::cpu::native {

using uop::DType;
using uop::Node;
using uop::Op;

// A plan's words begin with a struct of words, the implementation's header.
template <typename Head>
Status put_head(Plan* plan, const Head& head) {
  static_assert(sizeof(Head) % sizeof(int64_t) == 0);
  ASTER_TRY(plan->words.resize(sizeof(Head) / sizeof(int64_t)));
  std::memcpy(static_cast<void*>(plan->words.data()), &head, sizeof(Head));
  return kOk;
}
template <typename Head>
Head get_head(const Plan& plan) {
  Head head;
  std::memcpy(static_cast<void*>(&head), plan.words.data(), sizeof(Head));
  return head;
}

inline size_t element_bytes(DType d) { return dtype::is_weak(d) ? 8 : dtype::size(d); }

// The result's axes around one of them: [outer, size, inner].
struct Rows {
  int64_t outer = 1, size = 1, inner = 1;
};
inline Rows rows_of(uop::Words shape, size_t axis) {
  Rows rows;
  for (size_t i = 0; i < shape.size(); ++i) {
    (i < axis ? rows.outer : i == axis ? rows.size : rows.inner) *= shape[i];
  }
  return rows;
}

// Stored: in memory. Value: what is computed with; wraps and rounds when stored.
template <DType d>
struct Element {
  static constexpr DType kDType = d;
  static constexpr bool kFp8 = dtype::is_fp8(d);
  using Stored = std::conditional_t<kFp8, uint8_t, uint16_t>;
  using Value = float;
  static Value load(Stored x) {
    if constexpr (d == DType::kBFloat16) return dtype::decode_bfloat16(x);
    if constexpr (d == DType::kFloat16) return dtype::decode_float16(x);
    return static_cast<float>(dtype::decode(d, x));
  }
  static Stored store(Value x) {
    if constexpr (d == DType::kBFloat16) return dtype::encode_bfloat16(x);
    if constexpr (d == DType::kFloat16) return dtype::encode_float16(x);
    return static_cast<Stored>(dtype::encode(d, static_cast<double>(x)));
  }
};
template <DType d, typename T>
struct Plain {
  static constexpr DType kDType = d;
  using Stored = T;
  using Value = T;
  static T load(T x) { return x; }
  static T store(T x) { return x; }
};
template <>
struct Element<DType::kBool> {
  static constexpr DType kDType = DType::kBool;
  using Stored = uint8_t;
  using Value = int64_t;
  static Value load(Stored x) { return x != 0; }
  static Stored store(Value x) { return x != 0; }
};
// clang-format off
template <> struct Element<DType::kInt8> : Plain<DType::kInt8, int8_t> {};
template <> struct Element<DType::kUInt8> : Plain<DType::kUInt8, uint8_t> {};
template <> struct Element<DType::kInt16> : Plain<DType::kInt16, int16_t> {};
template <> struct Element<DType::kUInt16> : Plain<DType::kUInt16, uint16_t> {};
template <> struct Element<DType::kInt32> : Plain<DType::kInt32, int32_t> {};
template <> struct Element<DType::kUInt32> : Plain<DType::kUInt32, uint32_t> {};
template <> struct Element<DType::kInt64> : Plain<DType::kInt64, int64_t> {};
template <> struct Element<DType::kUInt64> : Plain<DType::kUInt64, uint64_t> {};
template <> struct Element<DType::kWeakInt> : Plain<DType::kWeakInt, int64_t> {};
template <> struct Element<DType::kFloat32> : Plain<DType::kFloat32, float> {};
template <> struct Element<DType::kFloat64> : Plain<DType::kFloat64, double> {};
template <> struct Element<DType::kWeakFloat> : Plain<DType::kWeakFloat, double> {};
// clang-format on

// f(Element<d>()) for a dtype known when run.
template <typename F>
void with_element(DType d, F f) {
  switch (d) {
#define DTYPE(code, Name, NAME, name, c_name, kind, bits, rank, sum, aliases)        \
  case DType::k##Name:                                                               \
    if constexpr (DType::k##Name != DType::kNone && !dtype::is_wide(DType::k##Name)) \
      f(Element<DType::k##Name>());                                                  \
    break;
#include "dtype/dtypes.def"
  }
}

// f(index of the integer type), likewise.
template <typename F>
void with_integer(DType d, F f) {
  switch (d) {
#define DTYPE(code, Name, NAME, name, c_name, kind, bits, rank, sum, aliases) \
  case DType::k##Name:                                                        \
    if constexpr (dtype::is_int(DType::k##Name)) {                            \
      f(typename Element<DType::k##Name>::Stored());                          \
    }                                                                         \
    break;
#include "dtype/dtypes.def"
  }
}

// f(combine), combine(a, b) -> T, for a reduction known when run.
template <typename T, typename F>
void with_reduction(Op op, F f) {
  using namespace uop;  // the traits
  switch (op) {
#define ALU(name, arity, rule, traits, cost, expression, gradient, meaning)                    \
  case Op::k##name:                                                                            \
    if constexpr (((traits)&REDUCE) != 0 &&                                                    \
                  !(std::is_floating_point_v<T> && DTypeRule::rule == DTypeRule::kIntegral)) { \
      f([]([[maybe_unused]] T a, [[maybe_unused]] T b) {                                       \
        [[maybe_unused]] const T c = T(0); /* no reduction has a third operand */              \
        return static_cast<T>(expression);                                                     \
      });                                                                                      \
    }                                                                                          \
    break;
#include "uop/ops.def"
    default:
      break;
  }
}

}  // namespace aster::runtime::cpu::native
