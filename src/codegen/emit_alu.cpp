// Operations on registers: one statement each.
#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/emit.h"
#include "codegen/plan.h"

namespace aster::codegen {
namespace {

// Text of an operation on conditions a, b (masks, or 0 and 1): ~ is written as ! for scalars.
// Arithmetic on bool is that of integers, a result other than 0 being true.
std::string_view truth_text(Op op) {
  switch (op) {
    case Op::kAnd:
    case Op::kMul:
    case Op::kMin:
    case Op::kCDiv:
    case Op::kFloorDiv:
      return "a & b";
    case Op::kOr:
    case Op::kAdd:
    case Op::kMax:
      return "a | b";
    case Op::kXor:
    case Op::kSub:
    case Op::kCmpNe:
      return "a ^ b";
    case Op::kShl:
      return "a";
    case Op::kCMod:
    case Op::kFloorMod:
    case Op::kShr:
      return "a & ~b";
    case Op::kCmpLt:
      return "~a & b";
    case Op::kCmpLe:
      return "~a | b";
    case Op::kCmpEq:
      return "~(a ^ b)";
    case Op::kNot:
      return "~a";
    case Op::kMulAcc:
      return "(a & b) | c";
    default:
      return "a";  // identities on 0 and 1
  }
}

// C text of an operation on numbers that needs no function of the prelude.
std::string_view number_text(Op op, bool real) {
  switch (op) {
    case Op::kNeg:
      return "-a";
    case Op::kNot:
      return "~a";
    case Op::kAdd:
      return "a + b";
    case Op::kSub:
      return "a - b";
    case Op::kMul:
      return "a * b";
    case Op::kDiv:
      return "a / b";
    case Op::kRecip:
      return "1 / a";
    case Op::kAnd:
      return "a & b";
    case Op::kOr:
      return "a | b";
    case Op::kXor:
      return "a ^ b";
    case Op::kMulAcc:
      return real ? "" : "a * b + c";
    case Op::kTrunc:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
      return real ? "" : "a";
    default:
      return "";
  }
}

std::string_view compare_text(Op op) {
  switch (op) {
    case Op::kCmpLt:
      return "a < b";
    case Op::kCmpLe:
      return "a <= b";
    case Op::kCmpEq:
      return "a == b";
    case Op::kCmpNe:
      return "a != b";
    default:
      return "";
  }
}

MathFn function_of(Op op) {
  switch (op) {
    case Op::kExp:
      return MathFn::kExp;
    case Op::kExp2:
      return MathFn::kExp2;
    case Op::kLog:
      return MathFn::kLog;
    case Op::kLog2:
      return MathFn::kLog2;
    case Op::kSin:
      return MathFn::kSin;
    case Op::kCos:
      return MathFn::kCos;
    case Op::kTanh:
      return MathFn::kTanh;
    case Op::kErf:
      return MathFn::kErf;
    case Op::kSqrt:
      return MathFn::kSqrt;
    case Op::kPow:
      return MathFn::kPow;
    case Op::kMulAcc:
      return MathFn::kFma;
    case Op::kAbs:
      return MathFn::kAbs;
    case Op::kFloor:
      return MathFn::kFloor;
    case Op::kCeil:
      return MathFn::kCeil;
    case Op::kTrunc:
      return MathFn::kTrunc;
    case Op::kRound:
      return MathFn::kRound;
    case Op::kMax:
      return MathFn::kMax;
    case Op::kMin:
      return MathFn::kMin;
    case Op::kCDiv:
      return MathFn::kDiv;
    case Op::kCMod:
      return MathFn::kMod;
    case Op::kFloorDiv:
      return MathFn::kFloorDiv;
    case Op::kFloorMod:
      return MathFn::kFloorMod;
    case Op::kShl:
      return MathFn::kShl;
    case Op::kShr:
      return MathFn::kShr;
    case Op::kThreefry:
      return MathFn::kThreefry;
    default:
      return MathFn::kSelect;
  }
}

// Writes text with a, b, c replaced by values.
void write_pattern(Text& out, std::string_view text, const Value* v, bool scalar_truth) {
  for (char c : text) {
    if (c >= 'a' && c <= 'c') {
      out << v[c - 'a'];
    } else if (c == '~' && scalar_truth) {
      out << '!';
    } else {
      out << c;
    }
  }
}

// Operations whose result on values of a narrow float is one of its values without rounding.
bool stays_narrow(Op op) {
  switch (op) {
    case Op::kNeg:
    case Op::kAbs:
    case Op::kMax:
    case Op::kMin:
    case Op::kWhere:
    case Op::kTrunc:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status Emitter::constant(Node node) {
  Value v;
  Value known_value;
  if (known(node, &known_value)) return kOk;
  const bool truth = node->dtype == DType::kBool;
  ASTER_TRY(fresh(&v, truth ? DType::kInt32 : register_of(node), truth, 1, 0));
  Text& text = define(v);
  if (dtype::is_float(node->dtype)) {
    const double x = uop::const_double(node);
    const bool single = v.dtype == DType::kFloat32;
    if (std::isnan(x)) {
      text << (single ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")");
    } else if (std::isinf(x)) {
      text << (x < 0 ? "-" : "") << (single ? "__builtin_inff()" : "__builtin_inf()");
    } else {
      text.format(single ? "%af" : "%a", x);
    }
  } else {
    const int64_t x = node->arg(0);
    // The least integer has no literal.
    if (node->dtype == DType::kUInt64) {
      text << static_cast<uint64_t>(x) << "u";
    } else if (x == INT64_MIN) {
      text << "-" << INT64_MAX << " - 1";
    } else {
      text << x;
    }
  }
  text << ";\n";
  return remember(node, v);
}

Status Emitter::operand(Value* out, Node source, Node user) {
  if (source->dtype == DType::kWeakInt) {
    return index_value(out, source, fits_int32(user) ? DType::kInt32 : DType::kInt64);
  }
  *out = value(source);
  return out->id != 0 ? kOk
                      : ASTER_FAIL(kINTERNAL, "a kernel's %s has no value", info(source->op).name);
}

Status Emitter::emit(Node node) {
  Value found;
  if (known(node, &found)) return kOk;
  switch (node->op) {
    case Op::kConst:
      return constant(node);
    case Op::kLoad:
      return load(node, false);
    case Op::kCast:
      return cast(node);
    case Op::kBitcast:
      return bitcast(node);
    case Op::kFold:
      return ASTER_FAIL(kINTERNAL, "a Fold is read before it is computed");
    default:
      break;
  }
  if (!is_alu(node->op)) return ASTER_FAIL(kINTERNAL, "%s in a kernel", info(node->op).name);
  return alu(node);
}

Status Emitter::write_alu(Text& text, Node node, const Value* v, DType dtype, int n) {
  const bool real = dtype::is_float(dtype);
  std::string_view pattern = number_text(node->op, real);
  if (node->op == Op::kAbs && !real) {
    if (dtype::is_unsigned(dtype)) {
      pattern = "a";
    } else {
      const int64_t shift = static_cast<int64_t>(dtype::bits(dtype)) - 1;
      text << '(' << v[0] << " ^ (" << v[0] << " >> " << shift << ")) - (" << v[0] << " >> "
           << shift << ')';
      return kOk;
    }
  }
  const bool quotient = node->op == Op::kFloorDiv || node->op == Op::kCDiv;
  if ((quotient || node->op == Op::kFloorMod || node->op == Op::kCMod) && node->src(0)->vmin >= 0 &&
      node->src(1)->vmin > 0 && node->src(1)->vmin == node->src(1)->vmax) {
    // By a known positive divisor: what compilers make multiplications of.
    const DType plain = dtype::size(dtype) == 8   ? DType::kUInt64
                        : dtype::size(dtype) == 4 ? DType::kUInt32
                                                  : dtype;
    text << '(';
    write_type(text, plain, n);
    text << ')' << v[0] << (quotient ? " / (" : " % (");
    write_type(text, plain, 1);
    text << ')' << node->src(1)->vmin;
    return kOk;
  }
  if (!pattern.empty()) {
    write_pattern(text, pattern, v, false);
    return kOk;
  }
  const MathFn fn = function_of(node->op);
  if (fn == MathFn::kSelect && node->op != Op::kWhere) {
    return ASTER_FAIL(kINTERNAL, "no code for %s", info(node->op).name);
  }
  write_call(text, fn, dtype, n);
  text << '(';
  for (uint32_t i = 0; i < node->nsrc; ++i) {
    if (i != 0) text << ", ";
    text << v[i];
  }
  text << ')';
  return kOk;
}

Status Emitter::alu(Node node) {
  Value v[3] = {};
  const int n = varies(node) ? lanes() : 1;
  int depth = 0;
  const bool compares = node->dtype == DType::kBool && !compare_text(node->op).empty();
  for (uint32_t i = 0; i < node->nsrc; ++i) {
    ASTER_TRY(operand(&v[i], node->src(i), node));
    depth = std::max<int>(depth, v[i].depth);
  }
  const Value& last = v[node->nsrc - 1];
  const bool truths = last.truth;  // operands are conditions
  DType dtype = last.dtype;
  if (n > 1 && node->src(node->nsrc - 1)->dtype == DType::kWeakInt) {
    dtype = fits_int32(node) ? DType::kInt32 : DType::kInt64;
  }
  if (truths) {
    dtype = DType::kInt32;
    for (uint32_t i = node->nsrc; i-- > 0;) {
      if (v[i].lanes > 1) dtype = v[i].dtype;
    }
    for (uint32_t i = 0; n > 1 && i < node->nsrc; ++i) ASTER_TRY(mask_as(&v[i], v[i], dtype));
  } else {
    for (uint32_t i = 0; n > 1 && i < node->nsrc; ++i) {
      if (v[i].truth) {
        if (v[i].lanes > 1) ASTER_TRY(mask_as(&v[i], v[i], dtype));
      } else {
        ASTER_TRY(spread(&v[i], v[i], dtype));
      }
    }
  }
  Value out;
  const bool truth = truths || compares;
  ASTER_TRY(fresh(&out, compares && !truths ? (n > 1 ? mask_of(dtype) : DType::kInt32) : dtype,
                  truth, n, depth));
  Text& text = define(out);
  text << '(';
  write_type(text, out.dtype, n);
  text << ")(";
  if (truths && node->op == Op::kWhere) {
    write_pattern(text, "(a & b) | (~a & c)", v, n == 1);
  } else if (truths) {
    write_pattern(text, truth_text(node->op), v, n == 1);
  } else if (compares) {
    write_pattern(text, compare_text(node->op), v, false);
  } else if (node->op == Op::kWhere && v[0].lanes == 1) {
    write_pattern(text, "a ? b : c", v, false);
  } else {
    ASTER_TRY(write_alu(text, node, v, dtype, n));
  }
  text << ");\n";
  if (dtype::is_narrow_float(node->dtype) && !stays_narrow(node->op))
    ASTER_TRY(round_to(&out, out, node->dtype));
  return remember(node, out);
}

// ---- Conversions ----

Status Emitter::round_to(Value* out, Value v, DType dtype) {
  Value rounded;
  ASTER_TRY(fresh(&rounded, DType::kFloat32, false, v.lanes, v.depth));
  Text& text = define(rounded);
  write_cast_name(text, dtype, DType::kFloat32, v.lanes);
  text << '(';
  write_cast_name(text, v.dtype, dtype, v.lanes);
  text << '(' << v << "));\n";
  *out = rounded;
  return text.status();
}

// A register as one of another dtype; to may be a narrow float, whose values are then floats.
Status Emitter::convert(Value* out, Value v, DType to, int depth) {
  const int n = v.lanes;
  if (to == DType::kBool) {
    if (v.truth) return *out = v, kOk;
    ASTER_TRY(fresh(out, n > 1 ? mask_of(v.dtype) : DType::kInt32, true, n, depth));
    Text& text = define(*out);
    text << '(';
    write_type(text, out->dtype, n);
    text << ")(" << v << " != 0);\n";
    return kOk;
  }
  const DType reg = dtype::is_narrow_float(to) ? DType::kFloat32 : storage_of(to);
  if (v.truth) {
    if (n > 1) ASTER_TRY(mask_as(&v, v, reg));
    ASTER_TRY(fresh(out, reg, false, n, depth));
    Text& text = define(*out);
    if (n == 1) {
      text << '(';
      write_type(text, reg, 1);
      text << ')' << v << ";\n";
      return kOk;
    }
    write_call(text, MathFn::kSelect, reg, n);
    text << '(' << v << ", (";
    write_type(text, reg, n);
    text << "){} + 1, (";
    write_type(text, reg, n);
    text << "){});\n";
    return kOk;
  }
  if (dtype::is_narrow_float(to)) return round_to(out, v, to);
  if (v.dtype == reg) return *out = v, kOk;
  ASTER_TRY(fresh(out, reg, false, n, depth));
  Text& text = define(*out);
  write_cast_name(text, v.dtype, reg, n);
  text << '(' << v << ");\n";
  return kOk;
}

Status Emitter::cast(Node node) {
  const Node source = node->src(0);
  Value v, out;
  ASTER_TRY(operand(&v, source, node));
  // Every value of a narrow float is one of itself, and of wider registers.
  if (source->dtype == node->dtype) return remember(node, v);
  DType to = node->dtype;
  if (to == DType::kWeakInt) to = register_of(node);
  ASTER_TRY(convert(&out, v, to, v.depth));
  return remember(node, out);
}

Status Emitter::bitcast(Node node) {
  const Node source = node->src(0);
  const DType from = storage_of(source->dtype), to = storage_of(node->dtype);
  Value v, out;
  if (source->op == Op::kLoad && dtype::is_narrow_float(source->dtype)) {
    // The bits as they are in memory: a conversion and back would quiet a NaN.
    if (!recall(raw_key(source), &v)) ASTER_TRY(load(source, true));
    (void)recall(raw_key(source), &v);
  } else {
    ASTER_TRY(operand(&v, source, node));
    if (v.truth || dtype::is_narrow_float(source->dtype)) {
      if (v.truth && v.lanes > 1) ASTER_TRY(mask_as(&v, v, DType::kInt8));
      Value bits;
      ASTER_TRY(fresh(&bits, from, false, v.lanes, v.depth));
      Text& text = define(bits);
      if (v.truth) {
        text << '(';
        write_type(text, from, v.lanes);
        text << ")(" << v << " & 1)";
      } else {
        write_cast_name(text, DType::kFloat32, source->dtype, v.lanes);
        text << '(' << v << ')';
      }
      text << ";\n";
      v = bits;
    }
  }
  out = v;
  if (from != to) {
    ASTER_TRY(fresh(&out, to, false, v.lanes, v.depth));
    Text& text = define(out);
    if (v.lanes > 1) {
      text << '(';
      write_type(text, to, v.lanes);
      text << ')' << v << ";\n";
    } else {
      text << "((union { ";
      write_type(text, from, 1);
      text << " a; ";
      write_type(text, to, 1);
      text << " b; }){" << v << "}).b;\n";
    }
  }
  if (node->dtype == DType::kBool) {
    ASTER_TRY(convert(&out, out, DType::kBool, out.depth));
  } else if (dtype::is_narrow_float(node->dtype)) {
    Value wide;
    ASTER_TRY(fresh(&wide, DType::kFloat32, false, out.lanes, out.depth));
    Text& text = define(wide);
    write_cast_name(text, node->dtype, DType::kFloat32, out.lanes);
    text << '(' << out << ");\n";
    out = wide;
  }
  return remember(node, out);
}

// ---- Folds ----

void Emitter::write_identity(Text& out, Op op, DType dtype, bool truth, int lanes) {
  const bool all = op == Op::kAnd || (truth && (op == Op::kMul || op == Op::kMin));
  out << '(';
  write_type(out, dtype, lanes);
  out << ')';
  if (lanes > 1) out << "{} + (";
  if (lanes > 1) write_type(out, dtype, 1);
  if (lanes > 1) out << ')';
  out << '(';
  if (truth) {
    out << (all ? (lanes > 1 ? "-1" : "1") : "0");
  } else if (op == Op::kAnd) {
    out << "-1";
  } else if (op == Op::kMul) {
    out << '1';
  } else if (op != Op::kMax && op != Op::kMin) {
    out << '0';
  } else if (dtype::is_float(dtype)) {
    out << (op == Op::kMax ? "-" : "") << "__builtin_inf()";
  } else if (op == Op::kMax) {
    if (dtype::is_unsigned(dtype)) {
      out << '0';
    } else {
      out << '-' << static_cast<int64_t>(dtype::max_int(dtype)) << " - 1";
    }
  } else {
    out << dtype::max_int(dtype);
    if (dtype == DType::kUInt64) out << 'u';
  }
  out << ')';
}

Status Emitter::write_combine(Text& out, Op op, DType dtype, bool truth, int lanes,
                              std::string_view a, std::string_view b) {
  if (op == Op::kMax || op == Op::kMin) {
    if (!truth) {
      write_call(out, op == Op::kMax ? MathFn::kMax : MathFn::kMin, dtype, lanes);
      out << '(' << a << ", " << b << ')';
      return out.status();
    }
  }
  const std::string_view text = truth ? truth_text(op) : number_text(op, dtype::is_float(dtype));
  if (text.size() != 5) return ASTER_FAIL(kINTERNAL, "a Fold of %s", info(op).name);
  out << '(';
  write_type(out, dtype, lanes);
  out << ")(" << a << text_slice(text, 1, 3) << b << ')';
  return out.status();
}

}  // namespace aster::codegen
