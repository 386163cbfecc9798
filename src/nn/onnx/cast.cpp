// Conversions between the types of elements, those without a dtype of the engine included.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "dtype/convert.h"
#include "engine/engine.h"
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// From where on a value rounds to more than the greatest of an fp8 dtype.
double overflow_of(DType dtype) {
  return dtype == DType::kFp8E4M3 ? 464 : dtype == DType::kFp8E4M3Fnuz ? 248 : 61440;
}

Expr to_float8(Expr x, DType dtype, bool saturate) {
  const Expr wide =
      x.cast(dtype::is_narrow_float(x.dtype()) || !dtype::is_float(x.dtype()) ? DType::kFloat32
                                                                              : x.dtype());
  const bool infinite = dtype == DType::kFp8E5M2;
  const double limit = overflow_of(dtype);
  Graph& g = *x.g;
  const double most = dtype == DType::kFp8E4M3 ? 448 : dtype == DType::kFp8E4M3Fnuz ? 240 : 57344;
  const Expr kept = uop::min(uop::max(wide, -most), most).cast(dtype);
  const Expr nan{&g, g.constant(dtype, kNan, x.shape())};
  Expr y = uop::where(wide != wide, nan, kept);
  if (saturate) return y;
  // The tie at the limit goes to even, which is beyond for E5M2 and within for E4M3.
  const bool within = dtype == DType::kFp8E4M3;
  const Expr over = within ? uop::abs(wide) > limit : uop::abs(wide) >= limit;
  if (!infinite) return uop::where(over, nan, y);
  const Expr up{&g, g.constant(dtype, kInfinity, x.shape())};
  const Expr down{&g, g.constant(dtype, -kInfinity, x.shape())};
  y = uop::where(wide >= limit, up, y);
  return uop::where(wide <= -limit, down, y);
}

Expr to_float4(Expr x) {
  const Expr wide = x.cast(DType::kFloat32);
  const Expr size = uop::abs(wide);
  const Expr a = uop::where(size < 6.0, size, 6.0);
  const Expr small = alu(uop::Op::kRound, a * 2.0) * 0.5;
  const Expr large = alu(uop::Op::kRound, a * 0.5) * 2.0;
  const Expr y = uop::where(a < 2.0, small,
                            uop::where(a < 4.0, alu(uop::Op::kRound, a), uop::min(large, 6.0)));
  // It has no NaN: that becomes -0.
  const Expr signed_y = uop::where((wide < 0.0) | (uop::recip(wide) < 0.0), -y, y);
  return uop::where(wide != wide, -y.like(0), signed_y);
}

// A power of two: the exponent of the float32, rounded as said.
Expr to_float8e8m0(Expr x, bool saturate, std::string_view round) {
  Graph& g = *x.g;
  const Expr wide = x.cast(DType::kFloat32);
  const Expr bits{&g, g.bitcast(wide.n, DType::kInt32)};
  const auto word = [&](int64_t value) {
    return Expr{&g, g.constant_int(DType::kInt32, value, x.shape())};
  };
  const Expr size = bits & word(0x7fffffff), mantissa = bits & word(0x7fffff);
  Expr exponent = alu(uop::Op::kShr, size, word(23));
  const Expr more = round == "up"        ? mantissa != word(0)
                    : round == "nearest" ? mantissa >= word(0x400000)
                                         : mantissa < word(0);
  exponent = exponent + more.cast(DType::kInt32);
  const Expr none = wide != wide;
  if (saturate) exponent = uop::min(exponent, word(254));
  const Expr shifted = alu(uop::Op::kShl, exponent, word(23));
  const Expr value{
      &g, g.bitcast(uop::where(exponent <= word(0), word(0x400000), shifted).n, DType::kFloat32)};
  return uop::where(none | (exponent >= word(255)), value.like(kNan), value);
}

// Integers of a few bits: the lowest ones, with their sign.
Expr to_narrow(Expr x, int32_t bits, bool sign, DType dtype) {
  const Expr whole = dtype::is_float(x.dtype())
                         ? uop::trunc(x.cast(DType::kFloat64)).cast(DType::kInt64)
                         : x.cast(DType::kInt64);
  const double half = sign ? std::ldexp(1.0, bits - 1) : 0, all = std::ldexp(1.0, bits);
  return (((whole + half) & whole.like(all - 1)) - half).cast(dtype);
}

}  // namespace

DType dtype_of(Op& op, int32_t element) {
  const ElementInfo* info = element_info(element);
  if (info != nullptr) return info->dtype;
  op.fail(ASTER_FAIL(kUNSUPPORTED, "tensors of %s (%d)", element_name(element), element));
  return DType::kNone;
}

Node cast_element(Op& op, Node x, int32_t from, int32_t to, bool saturate, std::string_view round) {
  const DType dtype = dtype_of(op, to);
  if (!op.ok() || x == nullptr) return nullptr;
  if (from == to) return x;
  const Expr e{&op.g, x};
  if (dtype::is_fp8(dtype)) return to_float8(e, dtype, saturate).n;
  if (to == kFloat4) return to_float4(e).n;
  if (to == kFloat8E8M0) return to_float8e8m0(e, saturate, round).n;
  const int32_t bits = element_info(to)->bits;
  if (bits < 8) return to_narrow(e, bits, to == kInt4 || to == kInt2, dtype).n;
  if (dtype == DType::kBool) return (e != 0.0).n;
  return tensor::cast(op.g, x, dtype);
}

namespace {

// The fewest digits that read back as the same number, whatever the locale writes for a point.
std::string_view shortest(char* text, size_t room, double value, DType dtype) {
  const bool wide = dtype == DType::kFloat64;
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, room, "%.*g", digits, value);
    for (char* c = text; *c != 0; ++c) {
      const bool known = (*c >= '0' && *c <= '9') || *c == '-' || *c == '+' || *c == 'e';
      if (!known) *c = '.';
    }
    double back;
    if (!parse_double(&back, text)) continue;
    if (wide ? back == value : static_cast<float>(back) == static_cast<float>(value)) break;
  }
  return text;
}

// A number as Python's str writes it.
void put_number(Text& out, const void* data, size_t i, DType dtype) {
  char text[64];
  const void* at = static_cast<const char*>(data) + i * dtype::size(dtype);
  if (dtype == DType::kBool) {
    out << (*static_cast<const uint8_t*>(at) != 0 ? "True" : "False");
    return;
  }
  if (!dtype::is_float(dtype)) {
    if (dtype == DType::kUInt64) {
      out << *static_cast<const uint64_t*>(at);
    } else {
      out << dtype::load_int(dtype, at);
    }
    return;
  }
  const double value = dtype::load_double(dtype, at);
  if (std::isnan(value)) {
    out << "NaN";
  } else if (std::isinf(value)) {
    out << (value < 0 ? "-INF" : "INF");
  } else {
    const std::string_view written = shortest(text, sizeof(text), value, dtype);
    out << written;
    if (written.find_first_of(".e") == std::string_view::npos) out << ".0";
  }
}

void cast_to_texts(Op& op) {
  const Ref given = op.value(0);
  const Node x = op.in(0);
  const void* data = nullptr;
  if (op.ok()) op.read(&data, *given);
  if (!op.ok()) return;
  Ref made;
  op.fail(make_texts(&made, op.heap(), x->shape()));
  for (size_t i = 0; op.ok() && i < static_cast<size_t>(x->count()); ++i) {
    Text text(op.heap());
    put_number(text, data, i, x->dtype);
    op.fail(text.status());
    if (op.ok()) op.fail(made->texts.push(std::move(text)));
  }
  if (!op.ok()) return;
  made->known = op.all_known();
  op.set(made);
}

bool parse(double* real, int64_t* whole, std::string_view text, bool floats) {
  if (!floats) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *whole);
    if (error == std::errc() && end == text.data() + text.size()) return true;
    if (!parse_double(real, text)) return false;
    *whole = dtype::float_to_int(*real);
    return true;
  }
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const bool below = !text.empty() && text[0] == '-';
  const std::string_view size = below ? text_slice(text, 1) : text;
  if (size == "INF" || size == "Inf") {
    *real = below ? -kInfinity : kInfinity;
    return true;
  }
  if (size == "NaN") {
    *real = kNan;
    return true;
  }
  return parse_double(real, text);
}

void cast_from_texts(Op& op, const Value& given, int32_t to) {
  const DType dtype = dtype_of(op, to);
  if (!op.ok()) return;
  const bool floats = dtype::is_float(dtype);
  Ref made;
  void* data;
  op.fail(
      make_stored(&made, &data, op.engine(), dtype, {given.shape.data(), given.shape.size()}, to));
  for (size_t i = 0; op.ok() && i < given.texts.size(); ++i) {
    double real = 0;
    int64_t whole = 0;
    const std::string_view text = given.texts[i].view();
    if (!parse(&real, &whole, text, floats)) {
      op.fail(ASTER_FAIL(kFORMAT, "'%.*s' is no number",
                         static_cast<int>(std::min<size_t>(text.size(), 100)), text.data()));
      return;
    }
    void* at = static_cast<char*>(data) + i * dtype::size(dtype);
    if (floats) {
      dtype::store_double(dtype, at, real);
    } else {
      dtype::store_int(dtype, at, whole);
    }
  }
  if (!op.ok()) return;
  made->known = op.all_known();
  op.set(made);
}

void cast_as(Op& op, int32_t to) {
  const Ref given = op.value(0);
  if (!op.ok()) return;
  if (given->is_texts() && to == kText) {
    op.set(given);
  } else if (given->is_texts()) {
    cast_from_texts(op, *given, to);
  } else if (to == kText) {
    cast_to_texts(op);
  } else {
    const Node x = op.in(0);
    op.set(cast_element(op, x, given->element, to, op.integer("saturate", 1) != 0,
                        op.text("round_mode", "up")),
           to);
  }
}

// The names that opset 1 has for types.
int32_t named_type(std::string_view name) {
  for (int32_t code = 1; code < 32; ++code) {
    std::string_view known = element_name(code);
    const bool equal = known.size() == name.size() &&
                       std::equal(known.begin(), known.end(), name.begin(), [](char a, char b) {
                         return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
                       });
    if (equal) return code;
  }
  return name == "FLOAT" ? kFloat : name == "DOUBLE" ? kDouble : 0;
}

}  // namespace

namespace build {

void cast(Op& op) {
  const std::string_view name = op.text("to", "");
  cast_as(op, name.empty() ? static_cast<int32_t>(op.integer("to", 0)) : named_type(name));
}

void cast_like(Op& op) {
  const Ref like = op.value(1);
  if (like) cast_as(op, like->element);
}

void bit_cast(Op& op) {
  const auto to = static_cast<int32_t>(op.integer("to", 0));
  const DType dtype = dtype_of(op, to);
  const Node x = op.in(0);
  if (!op.ok()) return;
  if (element_info(to)->bits != element_info(op.element(0))->bits) {
    op.fail(ASTER_FAIL(kDTYPE, "the bits of %s as %s", uop::brief(x).text, element_name(to)));
    return;
  }
  if (element_info(to)->bits < 8) {
    const bool sign = to == kInt4 || to == kInt2;
    op.set(to_narrow({&op.g, x}, element_info(to)->bits, sign, dtype), to);
    return;
  }
  op.set(tensor::bitcast(op.g, x, dtype), to);
}

}  // namespace build
}  // namespace aster::nn::onnx
