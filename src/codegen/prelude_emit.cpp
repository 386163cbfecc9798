#include "codegen/prelude_emit.h"

namespace aster::codegen::prelude {
namespace {

constexpr Element kElements[] = {
    {DType::kBool, "b8", DType::kUInt8, "unsigned char"},
    {DType::kInt8, "i8", DType::kInt8, "signed char"},
    {DType::kUInt8, "u8", DType::kUInt8, "unsigned char"},
    {DType::kInt16, "i16", DType::kInt16, "short"},
    {DType::kUInt16, "u16", DType::kUInt16, "unsigned short"},
    {DType::kInt32, "i32", DType::kInt32, "int"},
    {DType::kUInt32, "u32", DType::kUInt32, "unsigned"},
    {DType::kInt64, "i64", DType::kInt64, "long long"},
    {DType::kUInt64, "u64", DType::kUInt64, "unsigned long long"},
    {DType::kFp8E4M3, "e4m3", DType::kUInt8, "unsigned char"},
    {DType::kFp8E4M3Fnuz, "e4m3z", DType::kUInt8, "unsigned char"},
    {DType::kFp8E5M2, "e5m2", DType::kUInt8, "unsigned char"},
    {DType::kFp8E5M2Fnuz, "e5m2z", DType::kUInt8, "unsigned char"},
    {DType::kFloat16, "f16", DType::kUInt16, "unsigned short"},
    {DType::kBFloat16, "bf16", DType::kUInt16, "unsigned short"},
    {DType::kFloat32, "f32", DType::kFloat32, "float"},
    {DType::kFloat64, "f64", DType::kFloat64, "double"},
};

// The integer of so many bytes.
DType integer(int bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::kInt8 : DType::kUInt8;
    case 2:
      return is_signed ? DType::kInt16 : DType::kUInt16;
    case 4:
      return is_signed ? DType::kInt32 : DType::kUInt32;
    default:
      return is_signed ? DType::kInt64 : DType::kUInt64;
  }
}

constexpr Row kRows[] = {
#define ROW(name, elements, level, width, signature, text) \
  {#name, elements, level, width, signature, text},
#include "codegen/prelude_convert.def"
#include "codegen/prelude_math.def"
#include "codegen/prelude_special.def"
#undef ROW
};

uint8_t level_of(const Target& target) {
  if (!target.fma || !target.f16c) return SSE;
  return target.avx512 ? FMA | AVX512 : FMA;
}

bool fits(Width width, DType d, int lanes) {
  const int bytes = bytes_of(d) * lanes;
  switch (width) {
    case ONE:
      return lanes == 1;
    case W16:
      return lanes > 1 && bytes == 16;
    case W32:
      return bytes == 32;
    case W64:
      return bytes == 64;
    case FULL:
      return lanes > 1 && bytes >= 16;
    case VEC:
      return lanes > 1;
    case ALLW:
      return true;
  }
  return false;
}

// Casts and their parts carry their elements in the name.
bool is_cast(std::string_view name) { return name.find("_to_") != std::string_view::npos; }

// What a letter of signatures and texts stands for, in a function of some element and lanes.
struct Type {
  DType element;
  int lanes;
  bool pointer = false;
};
enum class Of : uint8_t { kSelf, kSigned, kUnsigned, kFixed };
enum class Count : uint8_t { kSame, kHalf, kOne, kTwo };
struct Letter {
  char letter;
  Of of;
  DType fixed;
  Count count;
  bool pointer;
};
constexpr DType kNo = DType::kNone;
constexpr Letter kLetters[] = {
    {'F', Of::kSelf, kNo, Count::kSame, false},
    {'P', Of::kSelf, kNo, Count::kSame, true},
    {'E', Of::kSelf, kNo, Count::kOne, false},
    {'X', Of::kSelf, kNo, Count::kHalf, false},
    {'A', Of::kSelf, kNo, Count::kTwo, false},
    {'I', Of::kSigned, kNo, Count::kSame, false},
    {'U', Of::kUnsigned, kNo, Count::kSame, false},
    {'Q', Of::kUnsigned, kNo, Count::kSame, true},
    {'Y', Of::kUnsigned, kNo, Count::kHalf, false},
    {'s', Of::kFixed, DType::kFloat32, Count::kSame, false},
    {'z', Of::kFixed, DType::kFloat64, Count::kSame, false},
    {'i', Of::kFixed, DType::kInt32, Count::kSame, false},
    {'w', Of::kFixed, DType::kUInt32, Count::kSame, false},
    {'j', Of::kFixed, DType::kInt64, Count::kSame, false},
    {'k', Of::kFixed, DType::kUInt64, Count::kSame, false},
    {'h', Of::kFixed, DType::kUInt16, Count::kSame, false},
    {'g', Of::kFixed, DType::kInt16, Count::kSame, false},
    {'b', Of::kFixed, DType::kUInt8, Count::kSame, false},
    {'d', Of::kFixed, DType::kInt8, Count::kSame, false},
    {'D', Of::kFixed, DType::kFloat64, Count::kHalf, false},
    {'L', Of::kFixed, DType::kInt64, Count::kHalf, false},
    {'V', Of::kFixed, DType::kUInt64, Count::kHalf, false},
    {'o', Of::kFixed, DType::kFloat64, Count::kOne, false},
    {'x', Of::kFixed, DType::kInt32, Count::kOne, false},
};

bool resolve(char letter, DType d, int lanes, Type* out) {
  for (const Letter& l : kLetters) {
    if (l.letter != letter) continue;
    out->element = l.of == Of::kSelf    ? d
                   : l.of == Of::kFixed ? l.fixed
                                        : integer(bytes_of(d), l.of == Of::kSigned);
    out->lanes = l.count == Count::kSame   ? lanes
                 : l.count == Count::kHalf ? lanes / 2
                 : l.count == Count::kOne  ? 1
                                           : 2;
    out->pointer = l.pointer;
    return true;
  }
  return false;
}

bool is_identifier(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

void write_name(Text& out, std::string_view name, DType d, int lanes) {
  out << "am_" << name;
  if (!is_cast(name)) out << '_' << element_of(d)->name;
  out << 'x' << lanes;
}

// Whether a name is <from>_to_<to>.
bool is_cast_of(std::string_view name, DType from, DType to) {
  const std::string_view source = element_of(from)->name, target = element_of(to)->name;
  return is_cast(name) && name.size() == source.size() + 4 + target.size() &&
         name.starts_with(source) && name.ends_with(target);
}

// i, i + 1, .. around n, count of them
void write_indices(Text& out, int first, int count, int n) {
  for (int i = 0; i < count; ++i) {
    if (i != 0) out << ", ";
    out << (first + i) % n;
  }
}

// What is emitted once besides rows, numbered after them.
constexpr size_t kTypeKey = std::size(kRows) + 1;
constexpr size_t kCastKey = kTypeKey + 2;

// Instructions that the compilers know by different names.
constexpr std::string_view kAvx512 = R"(#ifdef __clang__
#define am_x86_minps512(a, b) __builtin_ia32_minps512(a, b, 4)
#define am_x86_minpd512(a, b) __builtin_ia32_minpd512(a, b, 4)
#define am_x86_maxps512(a, b) __builtin_ia32_maxps512(a, b, 4)
#define am_x86_maxpd512(a, b) __builtin_ia32_maxpd512(a, b, 4)
#define am_x86_sqrtps512(a) __builtin_ia32_sqrtps512(a, 4)
#define am_x86_sqrtpd512(a) __builtin_ia32_sqrtpd512(a, 4)
#else
#define am_x86_minps512(a, b) __builtin_ia32_minps512_mask(a, b, a, (unsigned short)-1, 4)
#define am_x86_minpd512(a, b) __builtin_ia32_minpd512_mask(a, b, a, (unsigned char)-1, 4)
#define am_x86_maxps512(a, b) __builtin_ia32_maxps512_mask(a, b, a, (unsigned short)-1, 4)
#define am_x86_maxpd512(a, b) __builtin_ia32_maxpd512_mask(a, b, a, (unsigned char)-1, 4)
#define am_x86_sqrtps512(a) __builtin_ia32_sqrtps512_mask(a, a, (unsigned short)-1, 4)
#define am_x86_sqrtpd512(a) __builtin_ia32_sqrtpd512_mask(a, a, (unsigned char)-1, 4)
#endif
)";

}  // namespace

const Element* element_of(DType d) {
  for (const Element& e : kElements) {
    if (e.dtype == d) return &e;
  }
  return nullptr;
}

const Element* element_named(std::string_view name) {
  for (const Element& e : kElements) {
    if (name == e.name) return &e;
  }
  return nullptr;
}

bool takes(uint16_t elements, DType d) {
  switch (d) {
    case DType::kFloat32:
      return (elements & F32) != 0;
    case DType::kFloat64:
      return (elements & F64) != 0;
    case DType::kUInt32:
      return (elements & (UINT | U32)) != 0;
    case DType::kUInt64:
      return (elements & (UINT | U64)) != 0;
    default:
      return (elements & (dtype::is_signed(d) ? SINT : UINT)) != 0;
  }
}

void write_typedef(Text& out, DType d, int lanes, bool unaligned) {
  out << "typedef " << element_of(d)->c_type << ' ';
  write_type_name(out, d, lanes);
  if (unaligned) out << 'u';
  if (lanes > 1) {
    out << " __attribute__((vector_size(" << lanes * bytes_of(d) << ")";
    if (unaligned) out << ", aligned(" << bytes_of(d) << ")";
    out << "))";
  }
  out << ";\n";
}

Emitter::Emitter(Text& out, const Target& target, Memory& memory)
    : out_(out), level_(level_of(target)), done_(memory) {
  if ((level_ & AVX512) != 0) out_ << kAvx512;
}

const Row* Emitter::find(std::string_view name, DType d, int lanes) const {
  for (const Row& row : kRows) {
    if (row.name == name && takes(row.elements, d) && (row.level & level_) != 0 &&
        fits(row.width, d, lanes)) {
      return &row;
    }
  }
  return nullptr;
}

Status Emitter::once(size_t what, DType d, DType e, int lanes, bool* first) {
  const uint64_t key = (static_cast<uint64_t>(what) << 32) | (static_cast<uint64_t>(d) << 16) |
                       (static_cast<uint64_t>(e) << 8) | static_cast<uint64_t>(lanes);
  *first = false;
  for (uint64_t k : done_) {
    if (k == key) return kOk;
  }
  *first = true;
  return done_.push(key);
}

Status Emitter::type(DType element, int lanes, bool unaligned) {
  bool first;
  const DType d = stored(element);
  ASTER_TRY(once(kTypeKey + (unaligned ? 1 : 0), d, d, lanes, &first));
  if (!first) return kOk;
  write_typedef(out_, d, lanes, unaligned);
  return out_.status();
}

// The horizontal functions are made here, everything else is a row or a row of 16 bytes.
Status Emitter::function(std::string_view name, DType d, int lanes) {
  constexpr std::string_view kHorizontal[][2] = {
      {"hsum", "add"}, {"hprod", "mul"}, {"hmax", "max"}, {"hmin", "min"}};
  for (const auto& h : kHorizontal) {
    if (name == h[0]) return horizontal(name, h[1], d, lanes);
  }
  if (const Row* found = find(name, d, lanes)) return row(*found, d, lanes);
  if (lanes * bytes_of(d) < 16) return widened(name, d, lanes);
  return ASTER_FAIL(kINTERNAL, "the prelude has no %.*s for %d lanes of %s",
                    static_cast<int>(name.size()), name.data(), lanes, dtype::name(d));
}

Status Emitter::row(const Row& row, DType d, int lanes) {
  bool first;
  ASTER_TRY(once(static_cast<size_t>(&row - kRows), d, d, lanes, &first));
  if (!first) return kOk;
  ASTER_TRY(types(row.signature, d, lanes));
  ASTER_TRY(body(row.text, d, lanes, false));
  if (row.signature.empty()) return body(row.text, d, lanes, true);
  if (row.text.front() != '{') {
    out_ << "#define ";
    write_name(out_, row.name, d, lanes);
    out_ << text_slice("(a, b, c", 0, row.signature.size() == 1 ? 1 : 3 * row.signature.size() - 4)
         << ") ";
  } else {
    head(row.name, row.signature, d, lanes, lanes);
  }
  ASTER_TRY(body(row.text, d, lanes, true));
  out_ << '\n';
  return out_.status();
}

// The text's references: emitted (write false) or written out.
Status Emitter::body(std::string_view text, DType d, int lanes, bool write) {
  size_t from = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char mark = text[i];
    if (mark != '@' && mark != '$') continue;
    if (write) out_ << text_slice(text, from, i - from);
    Type t{d, lanes};
    const char next = text[++i];
    if (mark == '$') {
      if (resolve(next, d, lanes, &t)) {
        if (write)
          write_type_name(out_, t.element, t.lanes);
        else
          ASTER_TRY(type(t.element, t.lanes));
      } else if (write) {
        if (next == 'n') out_ << lanes;
        if (next == '#') out_ << 8 * bytes_of(d);
        if (next == '<') write_indices(out_, 0, lanes / 2, lanes);
        if (next == '>') write_indices(out_, lanes / 2, lanes / 2, lanes);
        if (next == '=') write_indices(out_, 0, lanes, lanes);
      }
      from = i + 1;
      continue;
    }
    if (text[i + 1] == '.') {
      (void)resolve(next, d, lanes, &t);
      i += 2;
    }
    size_t end = i;
    while (is_identifier(text[end])) ++end;
    const std::string_view name = text_slice(text, i, end - i);
    if (!write) {
      ASTER_TRY(function(name, t.element, t.lanes));
    } else if (text[end] == '(') {
      write_name(out_, name, t.element, t.lanes);
    }
    i = end - 1;
    from = end;
  }
  if (write) out_ << text_slice(text, from);
  return out_.status();
}

constexpr std::string_view kCold = "cold:";

Status Emitter::types(std::string_view signature, DType d, int lanes) {
  if (signature.starts_with(kCold)) signature.remove_prefix(kCold.size());
  for (char letter : signature) {
    Type t;
    if (resolve(letter, d, lanes, &t)) ASTER_TRY(type(t.element, t.lanes));
  }
  return kOk;
}

// `static .. result name(arguments) ` of a function whose signature is read for `lanes` lanes and
// whose name says `as`.
void Emitter::head(std::string_view name, std::string_view signature, DType d, int lanes, int as) {
  const bool cold = signature.starts_with(kCold);
  if (cold) signature.remove_prefix(kCold.size());
  out_ << (cold ? "static __attribute__((noinline, cold, unused)) "
                : "static inline __attribute__((always_inline, unused)) ");
  for (size_t i = 0; i < signature.size(); ++i) {
    Type t;
    (void)resolve(signature[i], d, lanes, &t);
    if (i > 1) out_ << ", ";
    write_type_name(out_, t.element, t.lanes);
    out_ << ' ';
    if (t.pointer) out_ << '*';
    if (i == 0) {
      write_name(out_, name, d, as);
      out_ << '(';
    } else {
      out_ << static_cast<char>('a' + i - 1);
    }
  }
  out_ << ") ";
}

// A call of the 16 byte function with the lanes repeated.
Status Emitter::widened(std::string_view name, DType d, int lanes) {
  const int full = 16 / bytes_of(d);
  const Row* wide = find(name, d, full);
  if (wide == nullptr || wide->signature.empty()) {
    return ASTER_FAIL(kINTERNAL, "the prelude has no %.*s for %s", static_cast<int>(name.size()),
                      name.data(), dtype::name(d));
  }
  bool first;
  ASTER_TRY(once(static_cast<size_t>(wide - kRows), d, d, lanes, &first));
  if (!first) return kOk;
  ASTER_TRY(row(*wide, d, full));
  ASTER_TRY(types(wide->signature, d, lanes));
  head(name, wide->signature, d, lanes, lanes);
  out_ << "{\n";
  for (size_t i = 0; i < wide->signature.size(); ++i) {
    Type t, narrow;
    (void)resolve(wide->signature[i], d, full, &t);
    (void)resolve(wide->signature[i], d, lanes, &narrow);
    const char argument = static_cast<char>('a' + i - 1);
    if (i == 0) continue;
    out_ << "  ";
    write_type_name(out_, t.element, t.lanes);
    out_ << ' ' << argument << "_ = ";
    if (t.lanes == narrow.lanes) {
      out_ << argument;
    } else if (lanes == 1) {
      out_ << argument << " - (";  // x - 0 is x, also for -0
      write_type_name(out_, t.element, t.lanes);
      out_ << "){}";
    } else {
      out_ << "__builtin_shufflevector(" << argument << ", " << argument << ", ";
      write_indices(out_, 0, full, lanes);
      out_ << ")";
    }
    out_ << ";\n";
  }
  Type result;
  (void)resolve(wide->signature[0], d, full, &result);
  out_ << "  ";
  write_type_name(out_, result.element, result.lanes);
  out_ << " y = ";
  write_name(out_, name, d, full);
  out_ << '(' << text_slice("a_, b_, c_", 0, wide->signature.size() * 4 - 6) << ");\n";
  if (lanes == 1) {
    out_ << "  return y[0];\n}\n";
  } else {
    out_ << "  return __builtin_shufflevector(y, y, ";
    write_indices(out_, 0, lanes, full);
    out_ << ");\n}\n";
  }
  return out_.status();
}

// Halves are joined until a vector has 16 bytes, then it is turned by half of what is left.
Status Emitter::horizontal(std::string_view name, std::string_view op, DType d, int lanes) {
  bool first;
  ASTER_TRY(once(kCastKey + 1 + static_cast<size_t>(name[1]) * 256 + static_cast<size_t>(name[2]),
                 d, d, lanes, &first));
  if (!first) return kOk;
  ASTER_TRY(type(d, lanes));
  ASTER_TRY(type(d, 1));
  const bool halve = lanes * bytes_of(d) > 16 && lanes > 1;
  if (halve) {
    ASTER_TRY(function(op, d, lanes / 2));
    ASTER_TRY(horizontal(name, op, d, lanes / 2));
  } else if (lanes > 1) {
    ASTER_TRY(function(op, d, lanes));
  }
  head(name, "EF", d, lanes, lanes);
  if (lanes == 1) {
    out_ << "{ return a; }\n";
  } else if (halve) {
    out_ << "{\n  return ";
    write_name(out_, name, d, lanes / 2);
    out_ << '(';
    write_name(out_, op, d, lanes / 2);
    out_ << "(__builtin_shufflevector(a, a, ";
    write_indices(out_, 0, lanes / 2, lanes);
    out_ << "),\n      __builtin_shufflevector(a, a, ";
    write_indices(out_, lanes / 2, lanes / 2, lanes);
    out_ << ")));\n}\n";
  } else {
    out_ << "{\n";
    for (int turn = lanes / 2; turn >= 1; turn /= 2) {
      out_ << "  a = ";
      write_name(out_, op, d, lanes);
      out_ << "(a, __builtin_shufflevector(a, a, ";
      write_indices(out_, turn, lanes, lanes);
      out_ << "));\n";
    }
    out_ << "  return a[0];\n}\n";
  }
  return out_.status();
}

// ---- Casts ----

// Vectors of integers that a cast makes at least four times as wide are widened in steps: gcc takes
// them apart otherwise.
bool widens_twice(DType from, DType to) {
  return !dtype::is_float(from) && !dtype::is_narrow_float(to) &&
         bytes_of(to) >= 4 * bytes_of(from);
}

// A row, a conversion that C has, or two casts one after the other.
Status Emitter::cast(DType from, DType to, int lanes) {
  const DType worked_in = from == DType::kFloat64 ? from : DType::kFloat32;
  for (const Row& row : kRows) {
    if (is_cast_of(row.name, from, to)) return function(row.name, worked_in, lanes);
  }
  bool first;
  ASTER_TRY(once(kCastKey, from, to, lanes, &first));
  if (!first) return kOk;
  ASTER_TRY(type(from, lanes));
  ASTER_TRY(type(to, lanes));
  const bool quadruples = widens_twice(from, to) && lanes > 1;
  const bool narrow = dtype::is_narrow_float(from) || dtype::is_narrow_float(to);
  const bool truncates = is_real(from) && dtype::is_int(to);
  return narrow || truncates || quadruples ? through(from, to, lanes) : direct(from, to, lanes);
}

Status Emitter::direct(DType from, DType to, int lanes) {
  out_ << "#define ";
  write_cast_name(out_, from, to, lanes);
  out_ << "(a) ";
  if (lanes == 1) {
    out_ << "((";
    write_type_name(out_, to, 1);
    out_ << (to == DType::kBool ? ")((a) != 0))\n" : ")(a))\n");
    return out_.status();
  }
  out_ << "(__builtin_convertvector((a)";
  if (to == DType::kBool) {
    out_ << " != (";
    write_type_name(out_, from, lanes);
    out_ << "){}";
  }
  out_ << ", ";
  write_type_name(out_, to, lanes);
  out_ << (to == DType::kBool ? ") & 1)\n" : "))\n");
  return out_.status();
}

Status Emitter::through(DType from, DType to, int lanes) {
  DType middle = DType::kFloat32;
  std::string_view special;
  if (widens_twice(from, to)) {
    middle = integer(2 * bytes_of(from), dtype::is_signed(from));
  } else if (is_real(from) && dtype::is_int(to)) {
    middle = bytes_of(to) == 8 ? DType::kInt64 : DType::kInt32;
  } else if (from == DType::kFloat64 && to != DType::kBFloat16) {
    special = "f64_to_odd";  // one rounding in all; bfloat16 is defined by way of float32
  }
  if (special.empty()) {
    ASTER_TRY(cast(from, middle, lanes));
  } else {
    ASTER_TRY(function(special, from, lanes));
  }
  ASTER_TRY(cast(middle, to, lanes));
  out_ << "#define ";
  write_cast_name(out_, from, to, lanes);
  out_ << "(a) ";
  write_cast_name(out_, middle, to, lanes);
  out_ << '(';
  if (special.empty()) {
    write_cast_name(out_, from, middle, lanes);
  } else {
    write_name(out_, special, from, lanes);
  }
  out_ << "(a))\n";
  return out_.status();
}

}  // namespace aster::codegen::prelude
