// Values of steps as C expressions, and the rows of the tables expanded.
#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/render_c_writer.h"
#include "dtype/convert.h"

namespace aster::codegen::program::c {

void Writer::learn_mask(const Step& s) {
  const int n = lanes(*s.in);
  if (s.in->dtype != DType::kBool || n == 1) return;
  // What is compared with nothing: as wide as a vector of so many lanes.
  const int bytes = target_.vector_bytes == 0 || s.op == Op::kCall
                        ? 4
                        : std::clamp(target_.vector_bytes / n, 1, 8);
  DType mask = bytes == 1   ? DType::kInt8
               : bytes == 2 ? DType::kInt16
               : bytes == 4 ? DType::kInt32
                            : DType::kInt64;
  if (s.op == Op::kLoad) {
    mask = DType::kInt8;
  } else if (s.op != Op::kSpread && s.op != Op::kCall && s.in->operands != 0) {
    // The instruction's own operand, whatever the parts of Join and Turn have.
    const Id last = program_.operands(*s.in).back();
    const DType d = program_.at(last).dtype;
    mask = d == DType::kBool ? held(last) : integer(stored(d), true);
  }
  masks_[s.id] = mask;
}

void Writer::constant(DType d, Word word) {
  if (dtype::is_narrow_float(d)) {
    uint16_t bits = 0;  // as it is stored
    dtype::store_double(d, &bits, std::bit_cast<double>(word));
    out_ << uint32_t{bits};
  } else if (d == DType::kUInt64) {
    out_ << static_cast<uint64_t>(word) << (opencl() ? "ul" : "ull");
  } else if (d == DType::kInt64 && word == INT64_MIN) {
    out_ << (opencl() ? "(-9223372036854775807l - 1)" : "(-9223372036854775807ll - 1)");
  } else if (!dtype::is_float(d)) {
    out_ << word << (d != DType::kInt64 ? "" : opencl() ? "l" : "ll");
  } else {
    const double value = std::bit_cast<double>(word);
    const char* const end = d == DType::kFloat32 ? "f" : "";
    if (opencl() && !std::isfinite(value)) {
      const bool single = d == DType::kFloat32;
      if (std::isnan(value)) {
        out_ << (single ? "as_float(0x7fc00000u)" : "as_double(0x7ff8000000000000ul)");
      } else {
        out_ << (value < 0 ? "-" : "") << (single ? "INFINITY" : "(double)INFINITY");
      }
    } else if (std::isnan(value)) {
      out_ << "__builtin_nan" << end << "(\"\")";
    } else if (std::isinf(value)) {
      out_ << (value < 0 ? "-" : "") << "__builtin_inf" << end << "()";
    } else {
      out_.format("%a%s", value, end);
    }
  }
}

template <typename Write>
void Writer::spread(DType d, int n, Write write) {
  if (n == 1) return write();
  if (opencl()) return open_vector(d, n), write(), void(close_vector());
  // x - 0 is x, also for -0.
  out_ << '(', type(d, 1), out_ << ")(";
  write();
  out_ << ") - (", type(d, n), out_ << "){0}";
}

Status Writer::value(const Step& s) {
  const int n = lanes(*s.in);
  const DType d = held(s.id);
  if (s.op == Op::kConst) return literal(s, n);
  if (s.op == Op::kAxis) return out_ << int32_t{s.values[s.in->axis]}, kOk;
  if (s.op == Op::kLanes) {
    open_vector(d, n);
    for (int i = 0; i < n; ++i) out_ << (i == 0 ? "" : ", ") << int32_t{i};
    close_vector();
    return kOk;
  }
  if (s.op == Op::kAcc) {
    if (!s.in->is(kImmediate)) return converted(s, 0, s.id), kOk;
    return literal(s, n);
  }
  if (s.op == Op::kSpread) {
    const bool truth = s.in->dtype == DType::kBool && n > 1;
    spread(d, n, [&] {
      out_ << (truth ? "-" : "");
      operand(s, 0);
    });
    return kOk;
  }
  if (s.op == Op::kLane) {
    lane_of(s.operands[0], static_cast<int>(s.words[0]))
        << (s.in->dtype == DType::kBool ? " != 0" : "");
    return kOk;
  }
  if (s.op == Op::kShuffle) return shuffle(s, n);
  if (s.op == Op::kBitcast) return bitcast(s, n);
  if (s.op == Op::kCast || s.op == Op::kToInt) return cast(s, n);
  if (s.op == Op::kCall) return call(s, n);
  return arithmetic(s, n);
}

Status Writer::literal(const Step& s, int n) {
  const DType d = s.in->dtype;
  const bool zero = s.in->op == Op::kTurn || (s.words[0] == 0 && n > 1);
  if (zero) return this->zero(held(s.id), n), kOk;
  const bool truth = d == DType::kBool && n > 1;
  spread(held(s.id), n, [&] { truth ? void(out_ << "-1") : constant(d, s.words[0]); });
  return kOk;
}

Status Writer::shuffle(const Step& s, int n) {
  const int from = lanes(s.operands[0]);
  const auto lane = [&](Word word) -> Text& {
    const bool second = word >= from;
    return lane_of(s.operands[second ? 1 : 0], static_cast<int>(word - (second ? from : 0)));
  };
  const bool truth = s.in->dtype == DType::kBool;
  if (n == 1) return lane(s.words[0]) << (truth && from > 1 ? " != 0" : ""), kOk;
  if (from == 1) {
    open_vector(held(s.id), n);
    for (int i = 0; i < n; ++i) {
      out_ << (i == 0 ? "" : ", ") << (truth ? "-" : "");
      lane(s.words[static_cast<size_t>(i)]);
    }
    close_vector();
    return kOk;
  }
  shuffled(held(s.id), from, s.words, [&](size_t i) { converted(s, i, s.id); });
  return kOk;
}

Status Writer::bitcast(const Step& s, int n) {
  if (n > 1 || opencl()) {
    if (opencl()) {
      out_ << "as_", type(s.in->dtype, n);
    } else {
      reinterpret(s.in->dtype, n);
    }
    out_ << '(', operand(s, 0), out_ << ')';
    return kOk;
  }
  out_ << "((union { ";
  type(dtype_of(s.operands[0]), 1);
  out_ << " a; ";
  type(s.in->dtype, 1);
  out_ << " b; }){";
  operand(s, 0);
  out_ << "}).b";
  return kOk;
}

Status Writer::narrow_cast(const Step& s, int n) {
  const DType from = dtype_of(s.operands[0]), to = s.in->dtype;
  const CastRow* row = find_cast(target_, from, to, n);
  const bool whole = row != nullptr;
  if (!whole) row = find_cast(target_, from, to, 1);
  if (row == nullptr) return cannot("this cast of narrow floats");
  if (whole) {
    out_ << '(', type(to, n), out_ << ")(";
  } else {
    open_vector(to, n);
  }
  for (int lane = 0; lane < (whole ? 1 : n); ++lane) {
    out_ << (lane == 0 ? "" : ", ");
    expand(row->text, stored(from), whole ? n : 1,
           [&](size_t) { whole ? name(s.operands[0]) : lane_of(s.operands[0], lane); });
  }
  if (whole) return out_ << ')', kOk;
  close_vector();
  return kOk;
}

void Writer::convert(Register r, DType from, DType to, int n) {
  if (opencl()) {
    out_ << "convert_", type(to, n), out_ << '(';
    name(r) << ')';
    return;
  }
  const bool steps = !dtype::is_float(from) && dtype::size(to) >= 4 * dtype::size(from);
  out_ << "__builtin_convertvector(";
  if (steps) {
    const size_t half = dtype::size(to) / 2;
    const bool is_signed = dtype::is_signed(from);
    const DType like = half == 4 ? DType::kInt32 : half == 2 ? DType::kInt16 : DType::kInt8;
    convert(r, from, integer(like, is_signed), n);
  } else {
    name(r);
  }
  out_ << ", ";
  type(to, n);
  out_ << ')';
}

Status Writer::cast(const Step& s, int n) {
  const DType from = dtype_of(s.operands[0]), to = s.in->dtype;
  if (from == to) return converted(s, 0, s.id), kOk;
  if (dtype::is_narrow_float(from) || dtype::is_narrow_float(to)) return narrow_cast(s, n);
  const bool checked =
      s.op == Op::kCast && dtype::is_float(from) && to != DType::kBool && !dtype::is_float(to);
  if (checked) return float_to_int(s, n, from);
  if (n == 1) {
    out_ << '(';
    type(to, 1);
    out_ << ")(";
    operand(s, 0);
    out_ << (to == DType::kBool ? " != 0)" : ")");
  } else if (to == DType::kBool) {
    out_ << '(';
    type(held(s.id), n);
    out_ << ")(";
    operand(s, 0);
    out_ << " != ", zero(from, n), out_ << ')';
  } else if (from == DType::kBool) {
    // A mask is all bits or none: those of 1.
    const DType mask = integer(to, true);
    reinterpret(to, n) << '(';
    as(s.operands[0], mask);
    out_ << " & ";
    reinterpret(mask, n) << '(';
    if (opencl()) {
      open_vector(to, n) << '1', close_vector();
    } else {
      zero(to, n) << " + 1";
    }
    out_ << "))";
  } else {
    convert(s.operands[0], from, to, n);
  }
  return kOk;
}

Status Writer::float_to_int(const Step& s, int n, DType from) {
  const char* const end = from == DType::kFloat32 ? "f" : "";
  if (n > 1) open_vector(s.in->dtype, n);
  for (int i = 0; i < n; ++i) {
    out_ << (i == 0 ? "" : ", ") << '(';
    type(s.in->dtype, 1);
    out_ << ")(";
    lane_of(s.operands[0], i) << " > -0x1p63" << end << " && ";
    lane_of(s.operands[0], i) << " < 0x1p63" << end << (opencl() ? " ? (long)" : " ? (long long)");
    lane_of(s.operands[0], i) << " : 0)";
  }
  if (n > 1) close_vector();
  return kOk;
}

Status Writer::call(const Step& s, int n) {
  const bool cold = program_.function && conditions_ != 0;
  const Wanted what{static_cast<size_t>(s.words[0]), static_cast<uint8_t>(n), cold};
  function_name(module_.programs[what.program], what);
  for (size_t i = 0; i < s.operands.size(); ++i) {
    out_ << (i == 0 ? "" : ", ");
    as(s.operands[i], DType::kInt32);
  }
  out_ << ')';
  return want(what);
}

// A number that the program knows, for what compilers make something else of.
bool Writer::number(Register r) {
  const Instruction* in = &program_.at(r.value);
  if (in->op == Op::kSpread) in = &program_.at(program_.operands(*in)[0]);
  if (in->op != Op::kConst) return false;
  out_ << '(';
  type(in->dtype, 1);
  out_ << ')';
  constant(in->dtype, program_.words(*in)[0]);
  return true;
}

Status Writer::arithmetic(const Step& s, int n) {
  if (s.op == Op::kWhere) return where(s, n);
  // All operands of a condition's arithmetic are as wide as the result's mask.
  const DType d = dtype_of(s.operands.back());
  const DType computed = d == DType::kBool ? d : stored(d);
  if (dtype::is_narrow_float(d)) return cannot("arithmetic of narrow floats");
  const Row* row = find_row(target_, s.op, computed, n);
  const auto write = [&](int lane) {
    return [&, lane](size_t i) {
      if (i == 1 && takes_number(s.op) && number(s.operands[1])) {
        return;
      }
      if (lane >= 0) {
        lane_of(s.operands[i], lane);
      } else {
        as(s.operands[i], d == DType::kBool ? held(s.id) : DType::kNone);
      }
    };
  };
  if (row != nullptr) {
    // OpenCL C has no casts between vectors; what is of another type there are integers.
    if (opencl() && n > 1) {
      if (!dtype::is_float(held(s.id))) reinterpret(held(s.id), n);
    } else {
      out_ << '(', type(held(s.id), n), out_ << ')';
    }
    out_ << '(';
    expand(row->text, d == DType::kBool && n > 1 ? held(s.id) : d, n, write(-1));
    out_ << ')';
    return kOk;
  }
  row = find_row(target_, s.op, computed, 1);
  if (row == nullptr || n == 1) return cannot(uop::info(s.op).name);
  open_vector(held(s.id), n);
  const bool truth = s.in->dtype == DType::kBool;
  for (int lane = 0; lane < n; ++lane) {
    out_ << (lane == 0 ? "" : ", ") << (truth ? "-(" : "(");
    expand(row->text, d, 1, write(lane));
    out_ << ')';
  }
  close_vector();
  return kOk;
}

bool Writer::is_zero(Register r) const {
  const Instruction& in = program_.at(r.value);
  if (in.op != Op::kSpread) return false;
  const Instruction& from = program_.at(program_.operands(in)[0]);
  return from.op == Op::kConst && program_.words(from)[0] == 0;
}

Status Writer::where(const Step& s, int n) {
  const DType d = held(s.id);
  if (n == 1) {
    operand(s, 0);
    out_ << " ? ";
    operand(s, 1);
    out_ << " : ";
    operand(s, 2);
    return kOk;
  }
  const DType mask = integer(stored(d), true);
  if (opencl()) {
    out_ << "select(";
    converted(s, 2, s.id);
    out_ << ", ";
    converted(s, 1, s.id);
    out_ << ", ";
    as(s.operands[0], mask);
    out_ << ')';
    return kOk;
  }
  // A choice that is zero in all lanes is a mask.
  for (const size_t zero : {1u, 2u}) {
    if (!is_zero(s.operands[zero])) continue;
    out_ << '(';
    type(d, n);
    out_ << ")(" << (zero == 1 ? "~" : "");
    as(s.operands[0], mask);
    out_ << " & (";
    type(mask, n);
    out_ << ')';
    converted(s, 3 - zero, s.id);
    out_ << ')';
    return kOk;
  }
  types_.select(out_, d, n);
  out_ << '(';
  as(s.operands[0], mask);
  out_ << ", ";
  converted(s, 1, s.id);
  out_ << ", ";
  converted(s, 2, s.id);
  out_ << ')';
  return kOk;
}

template <typename Write>
void Writer::expand(std::string_view text, DType d, int n, Write write) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out_ << text[i];
      continue;
    }
    const char what = text[++i];
    if (what >= '0' && what <= '2') write(static_cast<size_t>(what - '0'));
    if (what == 't') type(d, n);
    if (what == 'c') type(d, 1);
    if (what == 'i') type(integer(d, true), n);
    if (what == 'u') type(integer(d, false), n);
    if (what == 'T') reinterpret(d, n);
    if (what == 'I') reinterpret(integer(d, true), n);
    if (what == 'U') reinterpret(integer(d, false), n);
    if (what == 'e') out_ << static_cast<uint64_t>(dtype::bits(d));
    if (what == 'f') out_ << (d == DType::kFloat32 ? "f" : "");
    if (what == 's') {
      // $s($i, m, a, b): the mask's type is the helper's first argument.
      types_.select(out_, d, n);
      out_ << "((";
      type(integer(d, true), n);
      out_ << ")(";
      const size_t from = i + 6, comma = top_comma(text, from);  // behind "s($i, "
      expand(text_slice(text, from, comma - from), d, n, write);
      out_ << ')';
      i = comma - 1;
    }
  }
}

size_t Writer::top_comma(std::string_view text, size_t from) {
  int depth = 0;
  for (; from < text.size(); ++from) {
    depth += text[from] == '(' ? 1 : text[from] == ')' ? -1 : 0;
    if (text[from] == ',' && depth == 0) break;
  }
  return from;
}

bool Writer::across_mask(const Step& s) {
  const Register x = s.operands[0];
  if (s.in->dtype != DType::kBool || lanes(x) == 1) return false;
  if (opencl()) {
    define(s);
    out_ << (s.in->with == Op::kAnd ? "all(" : "any(");
    name(x) << ") != 0;\n";
    return true;
  }
  const DType mask = held(x.value);
  const DType real = dtype::size(mask) == 8 ? DType::kFloat64 : DType::kFloat32;
  if (dtype::size(mask) < 4) return false;
  const Row* const row = find_row(target_, Op::kAcross, real, lanes(x));
  if (row == nullptr) return false;
  define(s);
  expand(row->text, real, lanes(x), [&](size_t) { name(x); });
  if (s.in->with == Op::kAnd) {
    out_ << " == " << (uint32_t{1} << lanes(x)) - 1 << ";\n";
  } else {
    out_ << " != 0;\n";
  }
  return true;
}

Status Writer::across(const Step& s) {
  if (across_mask(s)) return out_.status();
  const Register x = s.operands[0];
  const bool truth = s.in->dtype == DType::kBool;
  const DType d = held(x.value);
  const DType operands = truth ? DType::kBool : d;
  int n = lanes(x);
  const auto variable = [&](int size) -> Text& {
    if (size == lanes(x)) return name(x);
    return name(s.result) << 'h' << int32_t{size};
  };
  for (int half = n / 2; half > 0; n = half, half /= 2) {
    const Row* const row = find_row(target_, s.in->with, operands, half);
    if (row == nullptr || dtype::is_narrow_float(s.in->dtype)) {
      return cannot(uop::info(s.in->with).name);
    }
    out_ << "const ";
    type(d, half);
    out_ << ' ';
    variable(half) << " = ";
    reinterpret(d, half) << '(';
    expand(row->text, d, half, [&](size_t i) {
      const int from = i == 0 ? 0 : half;
      if (half == 1) {
        variable(n);
        lane_suffix(from);
        return;
      }
      part(d, n, from, half, [&] { variable(n); });
    });
    out_ << ");\n";
  }
  define(s);
  variable(1) << (truth ? " != 0" : "") << ";\n";
  return out_.status();
}

}  // namespace aster::codegen::program::c
