// Values of steps as LLVM IR, and the rows of the table expanded.
#include <algorithm>
#include <bit>
#include <charconv>

#include "codegen/render_llvm_writer.h"

namespace aster::codegen::program::llvm {
namespace {

using enum c::Elements;
using enum c::Width;
using enum c::Feature;
using c::Row;

constexpr Row kRows[] = {
#define ROW(op, elements, width, feature, text) {Op::k##op, elements, width, feature, text},
#include "codegen/target_llvm.def"
#undef ROW
};

const Row* find_row(const Target& target, Op op, DType d, int n) {
  return c::first_row(kRows, target, op, d, n);
}

bool is_real(DType d) { return d == DType::kFloat32 || d == DType::kFloat64; }

Word to_word(std::string_view text, bool real) {
  Word out = 0;
  double number = 0;
  if (real && parse_double(&number, text)) return std::bit_cast<Word>(number);
  (void)std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

// Between dtypes that are not the same, neither of them narrow.
const char* conversion(DType from, DType to) {
  const bool is_signed = dtype::is_signed(from) && from != DType::kBool;
  if (is_real(from) && is_real(to))
    return dtype::size(to) > dtype::size(from) ? "fpext " : "fptrunc ";
  if (is_real(from)) return dtype::is_unsigned(to) ? "fptoui " : "fptosi ";
  if (is_real(to)) return is_signed ? "sitofp " : "uitofp ";
  if (from == DType::kBool) return "zext ";
  if (dtype::size(from) == dtype::size(to)) return "bitcast ";
  if (dtype::size(from) > dtype::size(to)) return "trunc ";
  return is_signed ? "sext " : "zext ";
}

}  // namespace

void Writer::copy(const Step& s, const Operand& x) {
  define(s) << "bitcast ", typed(x) << " to ";
  type(s.in->dtype, lanes(*s.in)) << '\n';
}

Status Writer::step(const Step& s) {
  if (s.op == Op::kBarrier) return cannot("Barrier");
  if (s.op == Op::kParam) return param(s);
  if (s.op == Op::kArray) return array(s);
  if (s.op == Op::kTable) return table(s);
  const bool written = is_literal({s.id, 0}) && s.in->op != Op::kTurn;
  if (written && s.op == s.in->op) return kOk;  // where it is used
  operands_.clear();
  // A register that is set is not read.
  for (size_t i = 0; i < s.operands.size(); ++i) {
    const bool target = s.op == Op::kSet && i == 0;
    const bool memory = is_access(s.op) && i == 0;
    ASTER_TRY(operands_.push(target || memory ? Operand{s.operands[i], 0} : use(s.operands[i])));
  }
  if (is_access(s.op)) return access(s);
  if (s.op == Op::kResult) {
    out_ << "ret ", typed(operands_[0]) << '\n';
    return out_.status();
  }
  if (s.op == Op::kSet) {
    out_ << "store ", typed(operands_[1]) << ", ";
    const Register r = s.operands[0];
    type_of(r) << "* %a" << r.value << '_' << r.instance << '\n';
    return out_.status();
  }
  if (s.op == Op::kAcc) {
    out_ << "store ";
    const int n = lanes(*s.in);
    if (s.in->is(kImmediate)) {
      type(s.in->dtype, n) << ' ';
      literal(s.in->dtype, n, s.words[0]);
    } else {
      typed(operands_[0]);
    }
    out_ << ", ", type(s.in->dtype, n);
    out_ << "* %a" << s.result.value << '_' << s.result.instance << '\n';
    return out_.status();
  }
  ASTER_TRY(value(s));
  return out_.status();
}

Status Writer::value(const Step& s) {
  const int n = lanes(*s.in);
  const DType d = s.in->dtype;
  if (s.op == Op::kConst) {  // of a Turn
    define(s) << "bitcast ", type(d, n) << " zeroinitializer to ", type(d, n) << '\n';
    return kOk;
  }
  if (s.op == Op::kSpread) {
    if (n == 1) return copy(s, operands_[0]), kOk;
    const uint32_t one = begin();
    out_ << "insertelement ", type(d, n) << " poison, ", typed(operands_[0]) << ", i32 0\n";
    define(s) << "shufflevector ", type(d, n) << ' ', number(one) << ", ", type(d, n);
    out_ << " poison, <" << int32_t{n} << " x i32> zeroinitializer\n";
    return kOk;
  }
  if (s.op == Op::kLane) {
    if (lanes(s.operands[0]) == 1) return copy(s, operands_[0]), kOk;
    define(s) << "extractelement ", typed(operands_[0]) << ", i32 " << s.words[0] << '\n';
    return kOk;
  }
  if (s.op == Op::kShuffle) return shuffle(s);
  if (s.op == Op::kBitcast) return bitcast(s);
  if (s.op == Op::kCast || s.op == Op::kToInt) return cast(s);
  if (s.op == Op::kCall) return call(s);
  return s.op == Op::kAcross ? across(s) : arithmetic(s);
}

Status Writer::shuffle(const Step& s) {
  const int n = lanes(*s.in), from = lanes(s.operands[0]);
  const DType d = s.in->dtype;
  const auto which = [&](Word word) -> const Operand& { return operands_[word >= from ? 1 : 0]; };
  if (from == 1 || n == 1) {
    if (n == 1 && from == 1) return copy(s, which(s.words[0])), kOk;
    if (n == 1) {
      define(s) << "extractelement ", typed(which(s.words[0]))
                                          << ", i32 " << s.words[0] % from << '\n';
      return kOk;
    }
    uint32_t last = 0;
    for (int i = 0; i < n; ++i) {
      const uint32_t before = last;
      if (i + 1 < n) {
        last = begin();
      } else {
        define(s);
      }
      out_ << "insertelement ", type(d, n) << ' ';
      i == 0 ? void(out_ << "poison") : void(number(before));
      out_ << ", ", typed(which(s.words[static_cast<size_t>(i)])) << ", i32 " << int32_t{i} << '\n';
    }
    return kOk;
  }
  define(s) << "shufflevector ", typed(operands_[0]) << ", ";
  typed(operands_[operands_.size() > 1 ? 1 : 0]) << ", <" << int32_t{n} << " x i32> <";
  for (int i = 0; i < n; ++i) {
    out_ << (i == 0 ? "i32 " : ", i32 ") << s.words[static_cast<size_t>(i)];
  }
  out_ << ">\n";
  return kOk;
}

Status Writer::bitcast(const Step& s) {
  const DType from = dtype_of(s.operands[0]), to = s.in->dtype;
  const int n = lanes(*s.in);
  if (from == to) return copy(s, operands_[0]), kOk;
  if (to == DType::kBool) {  // what is not 0 is true
    define(s) << "icmp ne ", typed(operands_[0]) << ", ", literal(from, n, 0) << '\n';
    return kOk;
  }
  define(s) << (from == DType::kBool ? "zext " : "bitcast "), typed(operands_[0]) << " to ";
  type(to, n) << '\n';
  return kOk;
}

Status Writer::cast(const Step& s) {
  const DType from = dtype_of(s.operands[0]), to = s.in->dtype;
  const int n = lanes(*s.in);
  if (from == to) return copy(s, operands_[0]), kOk;
  if (dtype::is_narrow_float(from) || dtype::is_narrow_float(to)) return narrow_cast(s);
  if (to == DType::kBool) {
    define(s) << (is_real(from) ? "fcmp une " : "icmp ne "), typed(operands_[0]) << ", ";
    literal(from, n, 0) << '\n';
    return kOk;
  }
  if (s.op == Op::kCast && is_real(from) && !is_real(to)) return checked_cast(s);
  define(s) << conversion(from, to), typed(operands_[0]) << " to ";
  type(to, n) << '\n';
  return kOk;
}

// By way of i64, 0 where that cannot hold it.
Status Writer::checked_cast(const Step& s) {
  const DType from = dtype_of(s.operands[0]), to = s.in->dtype;
  const int n = lanes(*s.in);
  constexpr Word kEnd = 0x43E0000000000000;  // 2^63
  constexpr uint64_t kSign = uint64_t{1} << 63;
  const auto compare = [&](const char* how, Word end) {
    const uint32_t made = begin();
    out_ << "fcmp " << how << ' ', typed(operands_[0]) << ", ", literal(from, n, end) << '\n';
    return made;
  };
  const uint32_t above = compare("ogt", static_cast<Word>(kEnd | kSign));
  const uint32_t below = compare("olt", kEnd);
  const uint32_t held = begin();
  out_ << "and ", type(DType::kBool, n) << ' ', number(above) << ", ", number(below) << '\n';
  const uint32_t whole = begin();
  out_ << "fptosi ", typed(operands_[0]) << " to ", type(DType::kInt64, n) << '\n';
  const uint32_t chosen = begin();
  out_ << "select ", type(DType::kBool, n) << ' ', number(held) << ", ", type(DType::kInt64, n);
  out_ << ' ', number(whole) << ", ", type(DType::kInt64, n) << ' ';
  literal(DType::kInt64, n, 0) << '\n';
  define(s) << conversion(DType::kInt64, to), type(DType::kInt64, n) << ' ';
  number(chosen) << " to ", type(to, n) << '\n';
  return kOk;
}

// Halves, where instructions cast them; the rest are functions.
Status Writer::narrow_cast(const Step& s) {
  const DType from = dtype_of(s.operands[0]), to = s.in->dtype;
  const int n = lanes(*s.in);
  if (c::find_cast(target_, from, to, 1) == nullptr) return cannot("this cast of narrow floats");
  const auto half = [&]() -> Text& {
    if (n > 1) return out_ << '<' << int32_t{n} << " x half>";
    return out_ << "half";
  };
  const uint32_t made = begin();
  const bool widens = from == DType::kFloat16;
  out_ << (widens ? "bitcast " : "fptrunc "), typed(operands_[0]) << " to ", half() << '\n';
  define(s) << (widens ? "fpext " : "bitcast "), half() << ' ', number(made) << " to ";
  type(to, n) << '\n';
  return kOk;
}

Status Writer::call(const Step& s) {
  const bool cold = program_.function && conditions_ != 0;
  const int n = lanes(*s.in);
  const Wanted what{static_cast<size_t>(s.words[0]), static_cast<uint8_t>(n), cold};
  define(s) << "call ", type(s.in->dtype, n) << ' ';
  function_name(module_.programs[what.program], what);
  for (size_t i = 0; i < operands_.size(); ++i) {
    out_ << (i == 0 ? "" : ", "), typed(operands_[i]);
  }
  out_ << ")\n";
  return want(what);
}

// ---- Rows ----

Status Writer::arithmetic(const Step& s) {
  const int n = lanes(*s.in);
  if (s.op == Op::kWhere) {
    define(s) << "select ", typed(operands_[0]) << ", ", typed(operands_[1]) << ", ";
    typed(operands_[2]) << '\n';
    return kOk;
  }
  const DType d = dtype_of(s.operands.back());
  if (dtype::is_narrow_float(d)) return cannot("arithmetic of narrow floats");
  const bool native =
      c::find_row(target_, s.op, d, n) != nullptr || c::find_row(target_, s.op, d, 1) != nullptr;
  const Row* const row = native ? find_row(target_, s.op, d, n) : nullptr;
  if (row == nullptr) return cannot(uop::info(s.op).name);
  return expand(
      row->text, d, n, [&](size_t i) { put(operands_[i]); }, [&] { define(s); });
}

// `@fma $t $0, ..`: a type for each argument.
Status Writer::declare_intrinsic(std::string_view text, DType d, int n) {
  Text declared(out_.memory());
  const size_t end = text.find(' ');
  const auto write_type = [&] {
    const char* const element = d == DType::kFloat32  ? "float"
                                : dtype::is_float(d)  ? "double"
                                : dtype::size(d) == 4 ? "i32"
                                                      : "i64";
    if (n > 1) declared << '<' << int32_t{n} << " x ";
    declared << element << (n > 1 ? ">" : "");
  };
  declared << "declare ";
  write_type();
  declared << " @llvm.";
  intrinsic_name(declared, text_slice(text, 1, end - 1), d, n);
  for (size_t at = end + 1, next = 0; next != std::string_view::npos; at = next + 2) {
    declared << (at == end + 1 ? "(" : ", ");
    next = text.find(',', at);
    const std::string_view type = text_slice(text, at, text.find(' ', at) - at);
    type == "$t" ? write_type() : void(declared << type);
  }
  declared << ')';
  ASTER_TRY(declared.status());
  return declare(declared.view());
}

// Those of x86 are of one type each.
void Writer::intrinsic_name(Text& out, std::string_view name, DType d, int n) {
  out << name;
  if (name.starts_with("x86.")) return;
  out << '.';
  suffix(out, d, n);
}

template <typename Put>
void Writer::line(std::string_view text, DType d, int n, const uint32_t* made, Put put) {
  const DType whole = c::integer(c::stored(d), false);
  const bool calls = !text.empty() && text[0] == '@';
  if (calls) {
    const size_t end = text.find(' ');
    out_ << "call ", type(d, n) << " @llvm.";
    intrinsic_name(out_, text_slice(text, 1, end - 1), d, n);
    out_ << '(';
    text.remove_prefix(end + 1);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out_ << text[i];
      continue;
    }
    const char what = text[++i];
    const bool name = i + 1 == text.size() || text[i + 1] == ',' || text[i + 1] == ' ';
    if (what >= '0' && what <= '2') {
      put(static_cast<size_t>(what - '0'));
    } else if (what == '[') {
      const size_t end = text.find(']', i);
      const std::string_view number = text_slice(text, i + 1, end - i - 1);
      const bool real = number.find('.') != std::string_view::npos;
      const auto bits = static_cast<Word>(dtype::bits(d));
      const Word word = number == "e"      ? bits
                        : number == "e-1"  ? bits - 1
                        : number == "true" ? 1
                                           : to_word(number, real);
      literal(real || d == DType::kBool ? d : whole, n, word);
      i = end;
    } else if (what == 't' && name) {
      type(d, n);
    } else if (what == 'u' && name) {
      type(whole, n);
    } else if (what == 'C') {
      type(DType::kBool, n);
    } else {
      number(made[what - 'a']);
    }
  }
  out_ << (calls ? ")\n" : "\n");
}

template <typename Put, typename Result>
Status Writer::expand(std::string_view text, DType d, int n, Put put, Result result) {
  uint32_t made[26] = {};
  while (!text.empty()) {
    const size_t end = text.find(';');
    std::string_view one = text_slice(text, 0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    const bool last = text.empty();
    if (last) {
      result();
    } else {
      made[one[0] - 'a'] = begin();
      one.remove_prefix(4);  // "a = "
    }
    if (one[0] == '@') ASTER_TRY(declare_intrinsic(one, d, n));
    line(one, d, n, made, put);
  }
  return out_.status();
}

// Halves of lanes combined.
Status Writer::across(const Step& s) {
  const Register x = s.operands[0];
  if (s.in->dtype == DType::kBool && (s.in->with == Op::kAnd || s.in->with == Op::kOr) &&
      lanes(x) > 1)
    return across_conditions(s);
  const DType d = s.in->dtype;
  int n = lanes(x);
  if (n == 1) return copy(s, operands_[0]), kOk;
  if (dtype::is_narrow_float(d) || find_row(target_, s.in->with, d, 1) == nullptr ||
      c::find_row(target_, s.in->with, d, 1) == nullptr)
    return cannot(uop::info(s.in->with).name);
  uint32_t now = 0;
  const auto put_now = [&] { now == 0 ? void(put(operands_[0])) : void(number(now)); };
  for (int half = n / 2; half > 0; n = half, half /= 2) {
    uint32_t parts[2];
    for (const int part : {0, 1}) {
      parts[part] = begin();
      out_ << (half == 1 ? "extractelement " : "shufflevector "), type(d, n) << ' ', put_now();
      if (half == 1) {
        out_ << ", i32 " << int32_t{part} << '\n';
        continue;
      }
      out_ << ", ", type(d, n) << " poison, <" << int32_t{half} << " x i32> <";
      for (int i = 0; i < half; ++i)
        out_ << (i == 0 ? "i32 " : ", i32 ") << int32_t{part * half + i};
      out_ << ">\n";
    }
    ASTER_TRY(expand(
        find_row(target_, s.in->with, d, half)->text, d, half, [&](size_t i) { number(parts[i]); },
        [&] { half == 1 ? void(define(s)) : void(now = begin()); }));
  }
  return kOk;
}

Status Writer::across_conditions(const Step& s) {
  const int n = lanes(s.operands[0]);
  const uint32_t bits = begin();
  out_ << "bitcast ", typed(operands_[0]) << " to i" << int32_t{n} << '\n';
  define(s) << (s.in->with == Op::kAnd ? "icmp eq i" : "icmp ne i") << int32_t{n} << ' ';
  number(bits) << (s.in->with == Op::kAnd ? ", -1\n" : ", 0\n");
  return kOk;
}

}  // namespace aster::codegen::program::llvm
