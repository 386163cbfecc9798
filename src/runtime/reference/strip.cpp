#include "runtime/reference/strip.h"

#include <bit>
#include <cmath>
#include <limits>

#include "dtype/convert.h"
#include "uop/ops.h"

namespace aster::runtime::reference {
namespace {

using uop::DTypeRule;
using uop::Op;
using uop::Word;
namespace ops = uop::ops;

double* reals(void* p) { return static_cast<double*>(p); }
const double* reals(const void* p) { return static_cast<const double*>(p); }
int64_t* words(void* p) { return static_cast<int64_t*>(p); }
const int64_t* words(const void* p) { return static_cast<const int64_t*>(p); }

bool is_double(DType dtype) { return dtype == DType::kFloat64 || dtype == DType::kWeakFloat; }

// Whether operations of this rule are computed on T.
template <typename T>
constexpr bool takes(DTypeRule rule) {
  if (rule == DTypeRule::kFloating) return ops::kReal<T>;
  if (rule == DTypeRule::kIntegral || rule == DTypeRule::kBits64 || rule == DTypeRule::kInt32)
    return !ops::kReal<T>;
  return true;
}

template <int arity, typename T, typename Finish, typename Value>
void apply(size_t n, T* y, const T* a, const T* b, const T* c, Finish finish, Value value) {
  for (size_t i = 0; i < n; ++i) {
    if constexpr (arity == 1) y[i] = finish(value(a[i], T(0), T(0)));
    if constexpr (arity == 2) y[i] = finish(value(a[i], b[i], T(0)));
    if constexpr (arity == 3) y[i] = finish(value(a[i], b[i], c[i]));
  }
}

// The value column of ops.def over strips.
template <typename T, typename Finish>
void compute(Op op, size_t n, T* y, const T* pa, const T* pb, const T* pc, Finish finish) {
  switch (op) {
#define ALU(name, arity, rule, traits, cost, expression, gradient, meaning)               \
  case Op::k##name:                                                                       \
    if constexpr (takes<T>(DTypeRule::rule)) {                                            \
      apply<arity>(n, y, pa, pb, pc, finish,                                              \
                   []([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) { \
                     return static_cast<T>(expression);                                   \
                   });                                                                    \
    }                                                                                     \
    break;
#include "uop/ops.def"
    default:
      break;
  }
}

// The reductions among them, in order into one value.
template <typename T>
void compute_along(Op op, size_t n, T* accumulator, const T* x) {
  using namespace uop;  // the traits
  T a = *accumulator;
  [[maybe_unused]] const T c = T(0);  // no reduction has a third operand
  switch (op) {
#define ALU(name, arity, rule, traits, cost, expression, gradient, meaning) \
  case Op::k##name:                                                         \
    if constexpr (((traits)&REDUCE) != 0 && takes<T>(DTypeRule::rule)) {    \
      for (size_t i = 0; i < n; ++i) {                                      \
        const T b = x[i];                                                   \
        a = static_cast<T>(expression);                                     \
      }                                                                     \
    }                                                                       \
    break;
#include "uop/ops.def"
    default:
      break;
  }
  *accumulator = a;
}

double to_float32(double x) { return static_cast<double>(static_cast<float>(x)); }

bool is_compare(Op op) { return uop::info(op).rule == DTypeRule::kCompare; }

void alu_float(Op op, DType operand, size_t n, double* y, const double* a, const double* b,
               const double* c) {
  if (op == Op::kMulAcc && !is_double(operand)) {  // narrow formats: fused in float
    for (size_t i = 0; i < n; ++i) {
      y[i] = static_cast<double>(
          std::fma(static_cast<float>(a[i]), static_cast<float>(b[i]), static_cast<float>(c[i])));
    }
  } else if (operand == DType::kFloat32) {
    compute<double>(op, n, y, a, b, c, to_float32);
  } else {
    compute<double>(op, n, y, a, b, c, [](double x) { return x; });
  }
}

void alu_integer(Op op, DType operand, size_t n, void* y, const void* a, const void* b,
                 const void* c) {
  if (operand == DType::kUInt64) {
    compute<uint64_t>(op, n, static_cast<uint64_t*>(y), static_cast<const uint64_t*>(a),
                      static_cast<const uint64_t*>(b), static_cast<const uint64_t*>(c),
                      [](uint64_t x) { return x; });
  } else if (op == Op::kShl || op == Op::kShr) {
    const int bits = static_cast<int>(element_bytes(operand)) * 8;
    for (size_t i = 0; i < n; ++i) {
      words(y)[i] = ops::shift(op == Op::kShl, words(a)[i], words(b)[i], bits);
    }
  } else {
    compute<int64_t>(op, n, words(y), words(a), words(b), words(c), [](int64_t x) { return x; });
  }
}

// One element after the other, as constants are folded.
void alu_sticky(Op op, DType operand, size_t n, int64_t* y, const int64_t* a, const int64_t* b) {
  for (size_t i = 0; i < n; ++i) {
    const Word given[2] = {a[i], b != nullptr ? b[i] : 0};
    y[i] = uop::evaluate_sticky(op, operand, given);
  }
}
void cast_sticky(DType from, DType to, size_t n, void* y, const void* x) {
  for (size_t i = 0; i < n; ++i) words(y)[i] = uop::convert_word(words(x)[i], from, to);
}

template <typename T>
void select(size_t n, T* y, const int64_t* condition, const T* b, const T* c) {
  for (size_t i = 0; i < n; ++i) y[i] = condition[i] != 0 ? b[i] : c[i];
}

template <typename T>
void blend(size_t n, T* y, const T* x, const T* otherwise, const uint8_t* mask) {
  for (size_t i = 0; i < n; ++i) y[i] = mask == nullptr || mask[i] != 0 ? x[i] : otherwise[i];
}

// What lies beyond int64 has no integer value.
int64_t integer_of(double x) { return x >= -0x1p63 && x < 0x1p63 ? static_cast<int64_t>(x) : 0; }

// Dtypes whose elements the compiler knows: DTYPE(name, type of the element, type in a strip).
#define ASTER_NATIVE_DTYPES(DTYPE)  \
  DTYPE(kInt8, int8_t, int64_t)     \
  DTYPE(kUInt8, uint8_t, int64_t)   \
  DTYPE(kInt16, int16_t, int64_t)   \
  DTYPE(kUInt16, uint16_t, int64_t) \
  DTYPE(kInt32, int32_t, int64_t)   \
  DTYPE(kUInt32, uint32_t, int64_t) \
  DTYPE(kInt64, int64_t, int64_t)   \
  DTYPE(kUInt64, uint64_t, int64_t) \
  DTYPE(kTbb8, int8_t, int64_t)     \
  DTYPE(kTbb16, int16_t, int64_t)   \
  DTYPE(kTbb32, int32_t, int64_t)   \
  DTYPE(kTbb64, int64_t, int64_t)   \
  DTYPE(kWeakInt, int64_t, int64_t) \
  DTYPE(kFloat32, float, double)    \
  DTYPE(kFloat64, double, double)   \
  DTYPE(kWeakFloat, double, double)

// Elements as bytes: memory of one dtype may be read as another.
template <typename S>
S read(const char* data, int64_t position) {
  S value;
  std::memcpy(&value, data + position * static_cast<int64_t>(sizeof(S)), sizeof(S));
  return value;
}

template <typename S, typename T>
void gather(const void* data, const Index& index, size_t n, T* y) {
  const char* x = static_cast<const char*>(data);
  if (index.at != nullptr) {
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<T>(read<S>(x, index.at[i]));
  } else if (index.step == 0) {
    const T value = static_cast<T>(read<S>(x, index.base));
    for (size_t i = 0; i < n; ++i) y[i] = value;
  } else if (index.step == 1) {
    x += index.base * static_cast<int64_t>(sizeof(S));
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<T>(read<S>(x, static_cast<int64_t>(i)));
  } else {
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<T>(read<S>(x, index[i]));
  }
}

template <typename S, typename T>
void scatter(void* data, const Index& index, size_t n, const T* x) {
  char* y = static_cast<char*>(data);
  for (size_t i = 0; i < n; ++i) {
    if (index.mask != nullptr && index.mask[i] == 0) continue;
    const S value = static_cast<S>(x[i]);
    std::memcpy(y + index[i] * static_cast<int64_t>(sizeof(S)), &value, sizeof(S));
  }
}

}  // namespace

size_t element_bytes(DType dtype) {
  return dtype::is_weak(dtype) ? sizeof(Word) : static_cast<size_t>(dtype::size(dtype));
}

void strip_alu(Op op, DType operand, DType result, size_t n, void* y, const void* a, const void* b,
               const void* c) {
  if (op == Op::kWhere) {
    if (is_float(operand)) return select(n, reals(y), words(a), reals(b), reals(c));
    return select(n, words(y), words(a), words(b), words(c));
  }
  if (op == Op::kNot && operand == DType::kBool) {
    for (size_t i = 0; i < n; ++i) words(y)[i] = words(a)[i] == 0;
    return;
  }
  if (dtype::is_sticky(operand)) return alu_sticky(op, operand, n, words(y), words(a), words(b));
  if (!is_float(operand)) {
    alu_integer(op, operand, n, y, a, b, c);
  } else {
    alu_float(op, operand, n, reals(y), reals(a), reals(b), reals(c));
    if (is_compare(op)) {
      for (size_t i = 0; i < n; ++i) {
        const double truth = reals(y)[i];
        words(y)[i] = truth != 0;
      }
      return;
    }
  }
  if (!is_compare(op) && result != DType::kFloat32) strip_round(result, n, y);
}

void strip_fill(DType dtype, Word word, size_t n, void* y) {
  if (is_float(dtype)) {
    const double value = std::bit_cast<double>(word);
    for (size_t i = 0; i < n; ++i) reals(y)[i] = value;
  } else {
    for (size_t i = 0; i < n; ++i) words(y)[i] = word;
  }
}

void strip_cast(DType from, DType to, size_t n, void* y, const void* x) {
  if (dtype::is_sticky(from) || dtype::is_sticky(to)) return cast_sticky(from, to, n, y, x);
  if (is_float(from)) {
    if (is_float(to)) {
      for (size_t i = 0; i < n; ++i) reals(y)[i] = reals(x)[i];
    } else if (to == DType::kBool) {
      for (size_t i = 0; i < n; ++i) {
        const double value = reals(x)[i];
        words(y)[i] = value != 0;
      }
    } else {
      for (size_t i = 0; i < n; ++i) {
        const double value = reals(x)[i];
        words(y)[i] = integer_of(value);
      }
    }
  } else if (is_float(to)) {
    for (size_t i = 0; i < n; ++i) {
      const int64_t word = words(x)[i];
      const bool large = from == DType::kUInt64 && word < 0;
      if (to == DType::kFloat32) {  // rounded once
        reals(y)[i] = static_cast<double>(large ? static_cast<float>(static_cast<uint64_t>(word))
                                                : static_cast<float>(word));
      } else {
        reals(y)[i] =
            large ? static_cast<double>(static_cast<uint64_t>(word)) : static_cast<double>(word);
      }
    }
  } else {
    for (size_t i = 0; i < n; ++i) words(y)[i] = words(x)[i];
  }
  strip_round(to, n, y);
}

void strip_blend(DType dtype, size_t n, void* y, const void* x, const void* otherwise,
                 const uint8_t* mask) {
  if (is_float(dtype)) return blend(n, reals(y), reals(x), reals(otherwise), mask);
  blend(n, words(y), words(x), words(otherwise), mask);
}

void strip_round(DType dtype, size_t n, void* y) {
  if (is_double(dtype)) return;
  if (dtype == DType::kFloat32) {
    for (size_t i = 0; i < n; ++i) reals(y)[i] = to_float32(reals(y)[i]);
    return;
  }
  if (is_float(dtype)) {
    for (size_t i = 0; i < n; ++i) reals(y)[i] = dtype::truncate_float(dtype, reals(y)[i]);
    return;
  }
  if (dtype == DType::kBool) {
    for (size_t i = 0; i < n; ++i) words(y)[i] = words(y)[i] != 0;
    return;
  }
  const size_t bits = element_bytes(dtype) * 8;
  if (bits == 64) return;
  const size_t unused = 64 - bits;
  const bool is_unsigned = dtype::is_unsigned(dtype);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t high = static_cast<uint64_t>(words(y)[i]) << unused;
    words(y)[i] =
        is_unsigned ? static_cast<int64_t>(high >> unused) : static_cast<int64_t>(high) >> unused;
  }
}

void strip_load(DType dtype, const void* data, const Index& index, size_t n, void* y,
                void* scratch) {
  switch (dtype) {
#define DTYPE(name, element, value) \
  case DType::name:                 \
    return gather<element>(data, index, n, static_cast<value*>(y));
    ASTER_NATIVE_DTYPES(DTYPE)
#undef DTYPE
    default:
      break;
  }
  if (dtype == DType::kBool) {
    gather<uint8_t>(data, index, n, words(y));
    return strip_round(dtype, n, y);  // any byte but 0 is true
  }
  if (element_bytes(dtype) == 1) {
    gather<uint8_t>(data, index, n, static_cast<uint8_t*>(scratch));
  } else {
    gather<uint16_t>(data, index, n, static_cast<uint16_t*>(scratch));
  }
  dtype::convert(y, DType::kFloat64, scratch, dtype, n);
}

void strip_store(DType dtype, void* data, const Index& index, size_t n, const void* x,
                 void* scratch) {
  switch (dtype) {
#define DTYPE(name, element, value) \
  case DType::name:                 \
    return scatter<element>(data, index, n, static_cast<const value*>(x));
    ASTER_NATIVE_DTYPES(DTYPE)
#undef DTYPE
    default:
      break;
  }
  if (dtype == DType::kBool) return scatter<uint8_t>(data, index, n, words(x));
  dtype::convert(scratch, dtype, x, DType::kFloat64, n);
  if (element_bytes(dtype) == 1) {
    scatter<uint8_t>(data, index, n, static_cast<const uint8_t*>(scratch));
  } else {
    scatter<uint16_t>(data, index, n, static_cast<const uint16_t*>(scratch));
  }
}

void strip_iota(DType dtype, const Index& index, size_t n, void* y) {
  for (size_t i = 0; i < n; ++i) words(y)[i] = index[i];
  strip_cast(DType::kInt64, dtype, n, y, y);
}

void strip_bitcast(DType from, DType to, size_t n, void* y, const void* x, void* scratch) {
  // Through memory; the second half of scratch is what loads and stores need.
  Index all;
  all.step = 1;
  void* rest = static_cast<char*>(scratch) + n * sizeof(Word);
  strip_store(from, scratch, all, n, x, rest);
  strip_load(to, scratch, all, n, y, rest);
}

Word fold_identity(Op op, DType dtype) {
  const bool real = is_float(dtype);
  if (op == Op::kMul) return real ? std::bit_cast<Word>(1.0) : 1;
  if (op == Op::kMax || op == Op::kMin) {
    const bool max = op == Op::kMax;
    const double infinity = std::numeric_limits<double>::infinity();
    if (real) return std::bit_cast<Word>(max ? -infinity : infinity);
    if (dtype == DType::kBool) return max ? 0 : 1;
    if (dtype::is_unsigned(dtype)) {
      return max ? 0 : static_cast<Word>(~uint64_t{0} >> (64 - element_bytes(dtype) * 8));
    }
    const Word least = INT64_MIN >> (64 - element_bytes(dtype) * 8);
    return max ? least : ~least;
  }
  if (op == Op::kAnd) {
    Word ones = -1;
    strip_round(dtype, 1, &ones);
    return ones;
  }
  return 0;
}

void fold_each(Op op, DType dtype, size_t n, void* accumulator, const void* x) {
  if (is_float(dtype)) {
    return compute<double>(op, n, reals(accumulator), reals(accumulator), reals(x), nullptr,
                           [](double y) { return y; });
  }
  alu_integer(op, dtype, n, accumulator, accumulator, x, nullptr);
}

void fold_along(Op op, DType dtype, size_t n, void* accumulator, const void* x) {
  if (is_float(dtype)) return compute_along(op, n, reals(accumulator), reals(x));
  if (dtype != DType::kUInt64) return compute_along(op, n, words(accumulator), words(x));
  compute_along(op, n, static_cast<uint64_t*>(accumulator), static_cast<const uint64_t*>(x));
}

}  // namespace aster::runtime::reference
