#include "runtime/reference/strip_loops.h"

#include <bit>
#include <cstring>

#include "runtime/cpu/features.h"
#include "uop/ops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace aster::runtime::reference {

using dtype::DType;
using uop::DTypeRule;
using uop::Op;

#if defined(__x86_64__)
namespace {

namespace ops = uop::ops;

#define STRIP_TARGET [[gnu::target("avx2,fma,f16c")]]

template <Op op>
struct Row {};

// The value columns of ops.def.
#define STRIP_ROW(name, count, rule_name, weight, expression)                             \
  template <>                                                                             \
  struct Row<Op::k##name> {                                                               \
    static constexpr int kArity = count, kCost = weight;                                  \
    static constexpr DTypeRule kRule = DTypeRule::rule_name;                              \
    template <typename T>                                                                 \
    static auto value([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) { \
      return expression;                                                                  \
    }                                                                                     \
  };
#define ALU(name, arity, rule, traits, cost, value, gradient, meaning) \
  STRIP_ROW(name, arity, rule, cost, value)
#define PART(name, arity, rule, value, meaning) STRIP_ROW(name, arity, rule, 1, value)
#include "uop/ops.def"

// What takes longer is a function of programs by then.
constexpr int kMostCost = 12;

template <typename T>
constexpr bool kReal = std::is_floating_point_v<T>;

// As target_c.def has it: two factors, so that results below the normal numbers are rounded once.
inline float scaled(float a, float b) {
  const uint32_t n = std::bit_cast<uint32_t>(b) - (0x4b400000u - 512), half = n >> 1;
  return a * std::bit_cast<float>((half - 129) << 23) *
         std::bit_cast<float>((n - half - 129) << 23);
}
inline double scaled(double a, double b) {
  const uint64_t n = std::bit_cast<uint64_t>(b) - (0x4338000000000000u - 4096), half = n >> 1;
  return a * std::bit_cast<double>((half - 1025) << 52) *
         std::bit_cast<double>((n - half - 1025) << 52);
}

// What the columns say of 64 bits is of the dtype's here.
template <typename T>
constexpr T shifted_left(T a, T b) {
  const auto amount = static_cast<uint64_t>(b) & (sizeof(T) * 8 - 1);
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) << amount);
}
template <typename T>
constexpr T shifted_right(T a, T b) {
  return static_cast<T>(a >> (static_cast<uint64_t>(b) & (sizeof(T) * 8 - 1)));
}
template <typename T>
constexpr bool is_past(T amount) {
  return static_cast<std::make_unsigned_t<T>>(amount) >= sizeof(T) * 8;
}

template <Op op, typename T>
inline auto compute(T a, T b, T c) {
  if constexpr (Row<op>::kRule == DTypeRule::kCompare) {
    return static_cast<uint8_t>(Row<op>::value(a, b, c) != T(0));
  } else if constexpr (op == Op::kScale) {
    return scaled(a, b);
  } else if constexpr (op == Op::kLeft) {
    return shifted_left(a, b);
  } else if constexpr (op == Op::kRight) {
    return shifted_right(a, b);
  } else if constexpr (op == Op::kShl) {
    return is_past(b) ? T(0) : shifted_left(a, b);
  } else if constexpr (op == Op::kShr) {
    return shifted_right(a, is_past(b) ? static_cast<T>(sizeof(T) * 8 - 1) : b) &
           (std::is_signed_v<T> || !is_past(b) ? static_cast<T>(~T(0)) : T(0));
  } else {
    return static_cast<T>(Row<op>::value(a, b, c));
  }
}

template <Op op, typename T>
using ResultOf = std::conditional_t<Row<op>::kRule == DTypeRule::kCompare, uint8_t, T>;

template <Op op, typename T, unsigned scalars>
STRIP_TARGET void loop(void* to, const void* pa, const void* pb, const void* pc, int64_t n) {
  using Y = ResultOf<op, T>;
  constexpr int kArity = Row<op>::kArity;
  constexpr int64_t kGroup = kStripGroup;
  Y* __restrict const y = static_cast<Y*>(to);
  const T* __restrict const a = static_cast<const T*>(pa);
  const T* __restrict const b = static_cast<const T*>(kArity > 1 ? pb : pa);
  const T* __restrict const c = static_cast<const T*>(kArity > 2 ? pc : pa);
  const T a0 = a[0], b0 = b[0], c0 = c[0];
  if (n == 1) {
    y[0] = static_cast<Y>(compute<op, T>(a0, b0, c0));
    return;
  }
  for (int64_t i = 0; i < n; i += kGroup) {
    for (int64_t k = i; k < i + kGroup; ++k) {
      y[k] = static_cast<Y>(compute<op, T>((scalars & 1) != 0 ? a0 : a[k],
                                           (scalars & 2) != 0 ? b0 : b[k],
                                           (scalars & 4) != 0 ? c0 : c[k]));
    }
  }
}

template <Op op, typename T>
StripLoop choose_scalars(unsigned scalars) {
  if (scalars == 0) return loop<op, T, 0>;
  if constexpr (sizeof(T) >= 4 && Row<op>::kArity >= 2 && Row<op>::kCost < 4) {
    if (scalars == 1) return loop<op, T, 1>;
    if (scalars == 2) return loop<op, T, 2>;
    if constexpr (Row<op>::kArity == 3) {
      if (scalars == 4) return loop<op, T, 4>;
      if (scalars == 5) return loop<op, T, 5>;
      if (scalars == 6) return loop<op, T, 6>;
    }
  }
  return nullptr;
}

// Whether a row is computed on T; bool, which is a byte here, apart.
template <Op op, typename T>
constexpr bool takes() {
  constexpr DTypeRule kRule = Row<op>::kRule;
  if (Row<op>::kCost > kMostCost || kRule == DTypeRule::kWhere || kRule == DTypeRule::kBits64 ||
      kRule == DTypeRule::kInt32)
    return false;
  if (kRule == DTypeRule::kFloating) return kReal<T>;
  if (kRule == DTypeRule::kIntegral) return !kReal<T>;
  return true;
}

template <Op op, typename T>
StripLoop choose_type(unsigned scalars) {
  if constexpr (takes<op, T>()) return choose_scalars<op, T>(scalars);
  return nullptr;
}

STRIP_TARGET void not_bool(void* to, const void* pa, const void*, const void*, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<uint8_t*>(to)[i] = static_cast<const uint8_t*>(pa)[i] == 0;
}

template <Op op>
StripLoop choose_bool(unsigned scalars) {
  constexpr DTypeRule kRule = Row<op>::kRule;
  if constexpr (op == Op::kAnd || op == Op::kOr || op == Op::kXor || kRule == DTypeRule::kCompare)
    return choose_scalars<op, uint8_t>(scalars);
  return op == Op::kNot && scalars == 0 ? not_bool : nullptr;
}

#define STRIP_DTYPES(DTYPE) \
  DTYPE(kInt8, int8_t)      \
  DTYPE(kUInt8, uint8_t)    \
  DTYPE(kInt16, int16_t)    \
  DTYPE(kUInt16, uint16_t)  \
  DTYPE(kInt32, int32_t)    \
  DTYPE(kUInt32, uint32_t)  \
  DTYPE(kInt64, int64_t)    \
  DTYPE(kUInt64, uint64_t)  \
  DTYPE(kFloat32, float)    \
  DTYPE(kFloat64, double)

template <Op op>
StripLoop choose(DType operand, unsigned scalars) {
  switch (operand) {
#define DTYPE(name, type) \
  case DType::name:       \
    return choose_type<op, type>(scalars);
    STRIP_DTYPES(DTYPE)
#undef DTYPE
    case DType::kBool:
      return choose_bool<op>(scalars);
    default:
      return nullptr;
  }
}

// By the size of what is chosen; its bits are as they are.
template <typename T, unsigned scalars>
STRIP_TARGET void where(void* to, const void* pa, const void* pb, const void* pc, int64_t n) {
  T* __restrict const y = static_cast<T*>(to);
  const uint8_t* __restrict const a = static_cast<const uint8_t*>(pa);
  const T* __restrict const b = static_cast<const T*>(pb);
  const T* __restrict const c = static_cast<const T*>(pc);
  const T b0 = b[0], c0 = c[0];
  if (n == 1) {
    y[0] = a[0] != 0 ? b0 : c0;
    return;
  }
  for (int64_t i = 0; i < n; i += int64_t{kStripGroup}) {
    for (int64_t k = i; k < i + int64_t{kStripGroup}; ++k) {
      const T other = (scalars & 4) != 0 ? c0 : c[k], one = (scalars & 2) != 0 ? b0 : b[k];
      y[k] = a[k] != 0 ? one : other;
    }
  }
}
template <typename T>
StripLoop choose_where(unsigned scalars) {
  if (scalars == 0) return where<T, 0>;
  if (scalars == 2) return where<T, 2>;
  if (scalars == 4) return where<T, 4>;
  return scalars == 6 ? where<T, 6> : nullptr;
}

template <typename From, typename To>
STRIP_TARGET void cast(void* to, const void* from, const void*, const void*, int64_t n) {
  To* __restrict const y = static_cast<To*>(to);
  const From* __restrict const x = static_cast<const From*>(from);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(x[i]);
}
// What no int64 holds is 0.
template <typename From, typename To>
STRIP_TARGET void cast_checked(void* to, const void* from, const void*, const void*, int64_t n) {
  To* __restrict const y = static_cast<To*>(to);
  const From* __restrict const x = static_cast<const From*>(from);
  for (int64_t i = 0; i < n; ++i) {
    const bool holds = x[i] > static_cast<From>(-0x1p63) && x[i] < static_cast<From>(0x1p63);
    y[i] = holds ? static_cast<To>(static_cast<int64_t>(x[i])) : To(0);
  }
}
template <typename From>
STRIP_TARGET void cast_bool(void* to, const void* from, const void*, const void*, int64_t n) {
  uint8_t* __restrict const y = static_cast<uint8_t*>(to);
  const From* __restrict const x = static_cast<const From*>(from);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] != From(0);
}
STRIP_TARGET void from_half(void* to, const void* from, const void*, const void*, int64_t n) {
  float* const y = static_cast<float*>(to);
  const uint16_t* const x = static_cast<const uint16_t*>(from);
  if (n == 1) {
    y[0] = _cvtsh_ss(x[0]);
    return;
  }
  for (int64_t i = 0; i < n; i += 8)
    _mm256_storeu_ps(y + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
}
STRIP_TARGET void to_half(void* to, const void* from, const void*, const void*, int64_t n) {
  uint16_t* const y = static_cast<uint16_t*>(to);
  const float* const x = static_cast<const float*>(from);
  if (n == 1) {
    y[0] = static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(x[0]), 0)));
    return;
  }
  for (int64_t i = 0; i < n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
}

template <typename From>
StripLoop choose_cast([[maybe_unused]] Op op, DType to) {
  switch (to) {
#define DTYPE(name, type)                                   \
  case DType::name:                                         \
    if constexpr (kReal<From> && !kReal<type>) {            \
      if (op == Op::kCast) return cast_checked<From, type>; \
    }                                                       \
    return cast<From, type>;
    STRIP_DTYPES(DTYPE)
#undef DTYPE
    case DType::kBool:
      return cast_bool<From>;
    default:
      return nullptr;
  }
}

template <Op op, typename T, bool left, unsigned scalars>
STRIP_TARGET void fold(void* to, const void* pa, const void* pb, int64_t lanes, int64_t turns,
                       int64_t a_step, int64_t b_step) {
  constexpr bool kFused = Row<op>::kArity == 3;
  constexpr int64_t kGroup = kStripGroup;
  T* __restrict const r = static_cast<T*>(to);
  const auto next = [](T was, T a, T b) {
    if constexpr (kFused)
      return compute<op, T>(a, b, was);
    else if constexpr (left)
      return compute<op, T>(was, a, b);
    else
      return compute<op, T>(a, was, b);
  };
  const T* const a = static_cast<const T*>(pa);
  const T* const b = static_cast<const T*>(kFused ? pb : pa);
  if (lanes == 1) {
    T sum = r[0];
    for (int64_t t = 0; t < turns; ++t) sum = next(sum, a[t * a_step], b[t * b_step]);
    r[0] = sum;
    return;
  }
  for (int64_t l = 0; l < lanes; l += kGroup) {
    T sums[kGroup];
    std::memcpy(sums, r + l, sizeof(sums));
    for (int64_t t = 0; t < turns; ++t) {
      const T* __restrict const at = a + t * a_step + ((scalars & 1) != 0 ? 0 : l);
      const T* __restrict const bt = b + t * b_step + ((scalars & 2) != 0 ? 0 : l);
      for (int64_t k = 0; k < kGroup; ++k)
        sums[k] = next(sums[k], at[(scalars & 1) != 0 ? 0 : k], bt[(scalars & 2) != 0 ? 0 : k]);
    }
    std::memcpy(r + l, sums, sizeof(sums));
  }
}

template <Op op, typename T>
StripFold choose_fold_of(bool left, unsigned scalars) {
  if constexpr (takes<op, T>()) {
    if constexpr (Row<op>::kArity == 3) {
      if (scalars == 0) return fold<op, T, false, 0>;
      if (scalars == 1) return fold<op, T, false, 1>;
      if (scalars == 2) return fold<op, T, false, 2>;
    } else if (scalars == 0) {
      return left ? fold<op, T, true, 0> : fold<op, T, false, 0>;
    }
  }
  return nullptr;
}
template <Op op>
StripFold choose_fold(DType dtype, bool left, unsigned scalars) {
  switch (dtype) {
#define DTYPE(name, type) \
  case DType::name:       \
    return choose_fold_of<op, type>(left, scalars);
    STRIP_DTYPES(DTYPE)
#undef DTYPE
    case DType::kBool:
      if constexpr (Row<op>::kRule == DTypeRule::kIntegral)
        return choose_fold_of<op, uint8_t>(left, scalars);
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

bool runs_strip_loops() { return cpu::detect_features().vector_bytes >= 32; }

namespace {

constexpr struct {
  Op op;
  StripLoop (*choose)(DType operand, unsigned scalars);
} kRows[] = {
#define ALU(name, arity, rule, traits, cost, value, gradient, meaning) \
  {Op::k##name, choose<Op::k##name>},
#define PART(name, arity, rule, value, meaning) {Op::k##name, choose<Op::k##name>},
#include "uop/ops.def"
};

}  // namespace

StripLoop strip_loop(Op op, DType operand, unsigned scalars) {
  if (op == Op::kWhere) {
    const size_t size = dtype::size(operand);
    return size == 1   ? choose_where<uint8_t>(scalars)
           : size == 2 ? choose_where<uint16_t>(scalars)
           : size == 4 ? choose_where<uint32_t>(scalars)
                       : choose_where<uint64_t>(scalars);
  }
  for (const auto& row : kRows) {
    if (row.op == op) return row.choose(operand, scalars);
  }
  return nullptr;
}

StripLoop strip_cast_loop(Op op, DType from, DType to) {
  if (from == DType::kFloat16 && to == DType::kFloat32) return from_half;
  if (from == DType::kFloat32 && to == DType::kFloat16) return to_half;
  switch (from) {
#define DTYPE(name, type) \
  case DType::name:       \
    return choose_cast<type>(op, to);
    STRIP_DTYPES(DTYPE)
#undef DTYPE
    case DType::kBool:
      return choose_cast<uint8_t>(op, to);
    default:
      return nullptr;
  }
}

StripFold strip_fold(Op op, DType dtype, bool left, unsigned scalars) {
  constexpr struct {
    Op op;
    StripFold (*choose)(DType dtype, bool left, unsigned scalars);
  } kFolds[] = {{Op::kAdd, choose_fold<Op::kAdd>},      {Op::kMul, choose_fold<Op::kMul>},
                {Op::kMax, choose_fold<Op::kMax>},      {Op::kMin, choose_fold<Op::kMin>},
                {Op::kAnd, choose_fold<Op::kAnd>},      {Op::kOr, choose_fold<Op::kOr>},
                {Op::kMulAcc, choose_fold<Op::kMulAcc>}};
  for (const auto& row : kFolds) {
    if (row.op == op) return row.choose(dtype, left, scalars);
  }
  return nullptr;
}

#else

bool runs_strip_loops() { return false; }
StripLoop strip_loop(Op, DType, unsigned) { return nullptr; }
StripLoop strip_cast_loop(Op, DType, DType) { return nullptr; }
StripFold strip_fold(Op, DType, bool, unsigned) { return nullptr; }

#endif

}  // namespace aster::runtime::reference
