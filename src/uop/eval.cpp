// Elementwise operations on canonical words: constant folding, and the meaning that runtimes are
// tested against.
#include <bit>
#include <cmath>
#include <limits>

#include "dtype/sticky.h"
#include "uop/ops.h"
#include "uop/uop.h"

namespace aster::uop {
namespace {

// Whether T is a type that operations of this rule compute on.
template <typename T>
constexpr bool takes(DTypeRule rule) {
  if (rule == DTypeRule::kFloating) return ops::kReal<T>;
  if (rule == DTypeRule::kIntegral || rule == DTypeRule::kBits64 || rule == DTypeRule::kInt32)
    return !ops::kReal<T>;
  return true;
}

template <typename T>
T compute(Op op, T a, T b, T c) {
  switch (op) {
#define ALU(name, arity, rule, traits, cost, value, gradient, meaning) \
  case Op::k##name:                                                    \
    if constexpr (takes<T>(DTypeRule::rule)) {                         \
      return static_cast<T>(value);                                    \
    } else {                                                           \
      return T(0);                                                     \
    }
#define PART(name, arity, rule, value, meaning) \
  case Op::k##name:                             \
    if constexpr (takes<T>(DTypeRule::rule)) {  \
      return static_cast<T>(value);             \
    } else {                                    \
      return T(0);                              \
    }
#include "uop/ops.def"
    default:
      return T(0);
  }
}

double as_double(Word word) { return std::bit_cast<double>(word); }
// What is added to the exponents of Scale, so that the low bits of the sum are the integer's.
double scale_offset(DType d) { return d == DType::kFloat32 ? 0x1.8p23 : 0x1.8p52; }

}  // namespace

bool is_const_value(Node node, double value) {
  return is_const(node) && const_double(node) == value;
}

double const_double(Node node) {
  const Word word = node->arg(0);
  if (dtype::is_float(node->dtype)) return as_double(word);
  return node->dtype == DType::kUInt64 ? static_cast<double>(static_cast<uint64_t>(word))
                                       : static_cast<double>(word);
}

int64_t const_int(Node node) { return convert_word(node->arg(0), node->dtype, DType::kInt64); }

Word convert_word(Word word, DType from, DType to) {
  if (dtype::is_sticky(from)) {
    if (dtype::is_sticky(to)) return dtype::sticky_resized(to, from, word);
    if (dtype::is_float(to) && word == dtype::sticky_error(from))
      return std::bit_cast<Word>(std::numeric_limits<double>::quiet_NaN());
  } else if (dtype::is_sticky(to)) {
    if (dtype::is_float(from)) return dtype::sticky_from_double(to, as_double(word));
    return dtype::sticky_checked(to, from == DType::kUInt64
                                         ? dtype::Exact{static_cast<uint64_t>(word)}
                                         : dtype::Exact{word});
  }
  if (dtype::is_float(to)) {
    double value = as_double(word);
    if (!dtype::is_float(from)) {
      if (to == DType::kFloat32) {  // rounded once
        const float once = from == DType::kUInt64 ? static_cast<float>(static_cast<uint64_t>(word))
                                                  : static_cast<float>(word);
        value = static_cast<double>(once);
      } else {
        value = from == DType::kUInt64 ? static_cast<double>(static_cast<uint64_t>(word))
                                       : static_cast<double>(word);
      }
    }
    return std::bit_cast<Word>(dtype::truncate_float(to, value));
  }
  if (to == DType::kBool) return dtype::is_float(from) ? as_double(word) != 0 : word != 0;
  return dtype::truncate_int(to,
                             dtype::is_float(from) ? dtype::float_to_int(as_double(word)) : word);
}

Word evaluate(Op op, DType operand, DType result, const Word* operands) {
  Word words[3] = {};
  for (int i = 0; i < info(op).sources; ++i) words[i] = operands[i];
  if (op == Op::kCast || op == Op::kToInt) return convert_word(words[0], operand, result);
  if (op == Op::kWhere) return words[0] != 0 ? words[1] : words[2];
  if (op == Op::kNot && operand == DType::kBool) return words[0] == 0;
  if (dtype::is_sticky(operand)) return evaluate_sticky(op, operand, words);
  if (dtype::is_float(operand)) {
    // Narrow formats in double and rounded once: exact for + - * / and sqrt. Not so for a fused
    // multiply-add, which runtimes do in float.
    const double a = as_double(words[0]), c = as_double(words[2]);
    double b = as_double(words[1]), y;
    if (op == Op::kScale) b -= scale_offset(operand);
    if (op == Op::kMulAcc && operand != DType::kFloat64 && operand != DType::kWeakFloat) {
      y = static_cast<double>(
          std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
    } else {
      y = compute<double>(op, a, b, c);
    }
    if (result == DType::kBool) return y != 0;
    return std::bit_cast<Word>(dtype::truncate_float(result, y));
  }
  int64_t y;
  if (operand == DType::kUInt64) {
    y = static_cast<int64_t>(compute<uint64_t>(op, static_cast<uint64_t>(words[0]),
                                               static_cast<uint64_t>(words[1]),
                                               static_cast<uint64_t>(words[2])));
  } else if (op == Op::kShl || op == Op::kShr || op == Op::kLeft || op == Op::kRight) {
    const int bits = static_cast<int>(dtype::bits(operand));
    y = ops::shift(op == Op::kShl || op == Op::kLeft, words[0], words[1],
                   bits > 0 && bits < 64 ? bits : 64);
  } else {
    y = compute<int64_t>(op, words[0], words[1], words[2]);
  }
  if (result == DType::kBool) return y != 0;
  return dtype::truncate_int(result, y);
}

bool is_defined(Op op, DType operand, DType result, const Word* words) {
  const Word a = words[0];
  if (op == Op::kToInt) {
    const double value = std::trunc(as_double(a));
    const double past = static_cast<double>(dtype::max_int(result)) + 1;
    return value >= static_cast<double>(dtype::min_int(result)) && value < past;
  }
  if (op == Op::kQuo || op == Op::kRem) {
    return words[1] != 0 &&
           !(dtype::is_signed(operand) && words[1] == -1 && a == dtype::min_int(operand));
  }
  if (op == Op::kScale) {
    const double n = as_double(words[1]) - scale_offset(operand);
    const double most = operand == DType::kFloat32 ? 151 : 1100;
    return std::isnan(as_double(a)) || (std::fabs(n) <= most && n == std::trunc(n));
  }
  if (op == Op::kLeft || op == Op::kRight) {
    return words[1] >= 0 && words[1] < static_cast<Word>(dtype::bits(operand));
  }
  return true;
}

}  // namespace aster::uop
