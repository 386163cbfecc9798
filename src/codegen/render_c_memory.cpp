// Memory of programs as C: params, arrays, loads and stores, those under masks and of scattered
// lanes.
#include <algorithm>
#include <bit>

#include "codegen/render_c_writer.h"

namespace aster::codegen::program::c {

Status Writer::param(const Step& s) {
  const Instruction& in = *s.in;
  out_ << (opencl() || in.is(kSize) || in.is(kArgument) || in.is(kWrite) ? "" : "const ");
  if (in.is(kArgument)) {
    masks_[s.id] = DType::kInt32;
    define(s);
    out_ << 'a' << s.words[0] << ";\n";
  } else if (in.is(kSize)) {
    define(s);
    out_ << '(';
    type(in.dtype, 1);
    out_ << (opencl() ? ")s" : ")sizes[") << s.words[0] << (opencl() ? ";\n" : "];\n");
  } else if (opencl()) {
    memory_type(s.id);
    out_ << "*const m" << s.id << " = (";
    memory_type(s.id);
    out_ << "*)(p" << s.words[0] << " + o" << s.words[0] << ");\n";
  } else {
    type(in.dtype, 1);
    out_ << " *const __restrict m" << s.id << " = params[" << s.words[0] << "];\n";
  }
  return out_.status();
}

Status Writer::array(const Step& s) {
  const Instruction& in = *s.in;
  if (s.op == Op::kTable) {
    out_ << (opencl() ? "const " : "static const ");
    type(in.dtype, 1);
    out_ << " m" << s.id << "[] = {";
    for (size_t i = 0; i < s.words.size(); ++i) {
      out_ << (i == 0 ? "" : ", ");
      constant(in.dtype, s.words[i]);
    }
    out_ << "};\n";
    return out_.status();
  }
  const int64_t elements = in.constant + s.words[0];
  if (opencl()) return item_array(s, elements);
  type(in.dtype, 1);
  if (static_cast<Space>(in.kind) == Space::kPrivate) {
    out_ << " m" << s.id << '[' << elements << "] __attribute__((aligned(64)));\n";
    return out_.status();
  }
  out_ << " *const m" << s.id << " = (void *)((char *)scratch + " << scratch_ << ");\n";
  scratch_ += array_bytes(program_, in);
  return out_.status();
}

void Writer::element(const Step& s, const Access& a, int lane) {
  out_ << 'm' << a.memory << '[';
  address(s, a, lane);
  out_ << ']';
}

void Writer::form(const Step& s, int64_t constant) {
  for (const Product& p : s.products) {
    if (dtype_of(p.at) != DType::kInt64) out_ << '(', type(DType::kInt64, 1), out_ << ')';
    name(p.at);
    if (p.factor != 1) out_ << " * " << p.factor;
    out_ << " + ";
  }
  out_ << constant;
}

void Writer::address(const Step& s, const Access& a, int lane) {
  if (a.index != kNone) {
    out_ << '(', type(DType::kInt64, 1), out_ << ')';
    lane_of(s.operands[index_operand(s)], lane) << " + ";
  }
  form(s, s.constant + (a.index != kNone ? 0 : a.step * lane));
}

size_t Writer::index_operand(const Step& s) {
  return s.op == Op::kStore || s.op == Op::kAtomic ? 2 : 1;
}

Status Writer::access(const Step& s) {
  const Access a = program_.access(*s.in);
  const size_t gate = index_operand(s) + (a.index != kNone ? 1 : 0);
  const size_t mask = gate + (a.gate != kNone ? 1 : 0);
  if (s.op == Op::kPrefetch) {
    if (opencl()) return kOk;
    out_ << "__builtin_prefetch(&";
    element(s, a, 0);
    out_ << ", " << (s.in->is(kWrite) ? "1" : "0") << ");\n";
    return out_.status();
  }
  const Register* const masked = a.mask != kNone ? &s.operands[mask] : nullptr;
  if (s.op == Op::kLoad) {
    learn_mask(s);
    if (by_lanes(s, a, masked)) pointer(s, a);
    define(s);
  }
  if (a.gate != kNone) {
    out_ << (s.op == Op::kLoad ? "" : "if (");
    name(s.operands[gate]) << (s.op == Op::kLoad ? " ? " : ") {\n");
  }
  if (s.op == Op::kLoad) {
    load(s, a, masked);
    if (a.gate != kNone) out_ << " : ", zero(held(s.id), lanes(*s.in));
    out_ << ";\n";
    return out_.status();
  }
  ASTER_TRY(s.op == Op::kStore ? store(s, a, masked) : atomic(s, a, masked));
  if (a.gate != kNone) out_ << "}\n";
  return out_.status();
}

int Writer::first_lanes(const Step& s, const Access& a) const {
  return s.in->lanes == kAnyLanes ? call_lanes_ : static_cast<int>(a.first);
}

// The stem and the letter of the instructions for masked vectors, by size of element.
struct MaskedRow {
  const char *load, *store, *bits, *pointer;
  const char* avx2;  // "" where there is none
};
constexpr MaskedRow kMasked[] = {{"loaddquqi", "storedquqi", "b", "char", ""},
                                 {"loaddquhi", "storedquhi", "w", "short", ""},
                                 {"loaddqusi", "storedqusi", "d", "int", "maskloadd"},
                                 {"loaddqudi", "storedqudi", "q", "long long", "maskloadq"}};
const MaskedRow& masked_row(DType d) { return kMasked[std::countr_zero(dtype::size(d))]; }

bool Writer::masks_memory(DType d, int n) const {
  return n > 1 && target_.avx512 && loads_under_mask(target_, d, n);
}

// The builtins' bytes are char, which is a type of its own.
void Writer::builtin_type(DType d, int n) {
  if (dtype::size(d) == 1) {
    out_ << "char __attribute__((vector_size(" << int32_t{n} << ")))";
  } else {
    type(integer(d, true), n);
  }
}

void Writer::write_bits(DType d, int n, int first, const Register* mask) {
  const uint64_t some = first == 64 ? ~uint64_t{0} : (uint64_t{1} << first) - 1;
  if (mask == nullptr) {
    out_ << some << "ull";
    return;
  }
  const int32_t bits = static_cast<int32_t>(dtype::bits(d)) * n;
  out_ << "(__builtin_ia32_cvt" << masked_row(d).bits << "2mask" << bits << "((";
  builtin_type(d, n);
  out_ << ')';
  as(*mask, integer(d, true));
  out_ << ')';
  if (first < n) out_ << " & " << some << "ull";
  out_ << ')';
}

void Writer::write_masked(const Step& s, const Access& a, DType d, int n, int first,
                          const Register* mask) {
  const bool loads = s.op == Op::kLoad;
  const int32_t bits = static_cast<int32_t>(dtype::bits(d)) * n;
  // Where no lane at all is asked for, the address may be in no page of the process, which costs
  // the CPU hundreds of cycles to find out. Behind a gate it is hardly ever that far away.
  const bool asks = loads && mask != nullptr && a.gate == kNone;
  if (asks) {
    out_ << "({ const unsigned long long k = ";
    write_bits(d, n, first, mask);
    out_ << "; k ? ";
  }
  if (loads) {
    out_ << '(';
    type(d, n);
    out_ << ')';
  }
  const MaskedRow& row = masked_row(d);
  out_ << "__builtin_ia32_" << (loads ? row.load : row.store) << bits << "_mask(("
       << (loads ? "const " : "") << row.pointer << " *)&";
  element(s, a, 0);
  out_ << ", (";
  builtin_type(d, n);
  out_ << ')';
  if (loads) {
    out_ << "{0}";
  } else {
    name(s.operands[1]);
  }
  out_ << ", ";
  if (asks) {
    out_ << "k) : (";
    type(d, n);
    out_ << "){0}; })";
    return;
  }
  write_bits(d, n, first, mask);
  out_ << ')';
}

// The same on AVX2, whose masks are vectors.
void Writer::load_by_vector(const Step& s, const Access& a, int first, const Register* mask) {
  const int n = lanes(*s.in);
  const DType d = s.in->dtype, whole = integer(d, true);
  const int32_t bits = static_cast<int32_t>(dtype::bits(d)) * n;
  out_ << '(';
  type(d, n);
  out_ << ")__builtin_ia32_" << masked_row(d).avx2 << (bits == 256 ? "256" : "") << "((const ";
  type(whole, n);
  out_ << " *)&";
  element(s, a, 0);
  out_ << ", ";
  if (mask != nullptr) as(*mask, whole);
  if (first < n) {
    out_ << (mask != nullptr ? " & (" : "(");
    type(whole, n);
    out_ << "){";
    for (int i = 0; i < first; ++i) out_ << (i == 0 ? "-1" : ", -1");
    out_ << '}';
  }
  out_ << ')';
}

void Writer::load_contiguous(const Step& s, const Access& a) {
  const int n = lanes(*s.in);
  const DType d = s.in->dtype;
  const bool truth = d == DType::kBool;  // what is not 0 is true
  if (opencl()) {
    out_ << (truth ? "(vload" : "vload") << int32_t{n} << "(0, &";
    element(s, a, 0);
    out_ << ')';
    if (truth) out_ << " != ", zero(DType::kUInt8, n), out_ << ')';
    return;
  }
  out_ << '(';
  type(truth ? DType::kInt8 : d, n);
  out_ << (truth ? ")(*(const " : ")*(const ");
  types_.unaligned(out_, d, n);
  out_ << " *)&";
  element(s, a, 0);
  out_ << (truth ? " != 0)" : "");
}

// Instructions that load lanes at indices of 32 bits.
struct GatherRow {
  size_t bytes;  // of an element
  int lanes;
  const char* name;
};
constexpr GatherRow kGathers[] = {{4, 4, "gather3siv4si"},
                                  {4, 8, "gather3siv8si"},
                                  {4, 16, "gathersiv16si"},
                                  {8, 4, "gather3siv4di"},
                                  {8, 8, "gathersiv8di"}};

const GatherRow* Writer::gather_row(const Step& s, const Access& a) const {
  const auto* const row = std::ranges::find_if(kGathers, [&](const GatherRow& one) {
    return one.bytes == dtype::size(s.in->dtype) && one.lanes == lanes(*s.in);
  });
  const bool fits = target_.avx512 && row != std::end(kGathers) && a.index != kNone &&
                    program_.at(a.index).dtype == DType::kInt32 && target_.vector_bytes >= 64;
  return fits ? row : nullptr;
}

void Writer::gather(const Step& s, const GatherRow& row) {
  const DType d = s.in->dtype;
  const int n = lanes(*s.in);
  const DType whole = integer(d, true);
  out_ << '(';
  type(d, n);
  out_ << ")__builtin_ia32_" << row.name << "((";
  type(whole, n);
  out_ << "){0}, (const void *)(m" << program_.access(*s.in).memory << " + ";
  form(s, s.constant);
  out_ << "), ";
  name(s.operands[index_operand(s)]);
  out_ << ", " << (uint64_t{1} << n) - 1 << ", " << static_cast<uint64_t>(row.bytes) << ')';
}

bool Writer::by_vector(const Step& s, const Access& a, const Register* mask) const {
  const int n = lanes(*s.in);
  if (n == 1 || !contiguous(a)) return false;
  if (first_lanes(s, a) == n && mask == nullptr) return true;
  return s.in->dtype != DType::kBool && loads_under_mask(target_, s.in->dtype, n);
}

bool Writer::by_lanes(const Step& s, const Access& a, const Register* mask) const {
  const bool some = first_lanes(s, a) < lanes(*s.in) || mask != nullptr;
  return lanes(*s.in) > 1 && !by_vector(s, a, mask) && (some || gather_row(s, a) == nullptr);
}

void Writer::load(const Step& s, const Access& a, const Register* mask) {
  const int n = lanes(*s.in), first = first_lanes(s, a);
  const DType d = s.in->dtype;
  const bool truth = d == DType::kBool;
  if (by_vector(s, a, mask)) {
    if (first == n && mask == nullptr) return load_contiguous(s, a);
    if (target_.avx512) return write_masked(s, a, d, n, first, mask);
    return load_by_vector(s, a, first, mask);
  }
  if (n > 1 && !by_lanes(s, a, mask)) return gather(s, *gather_row(s, a));
  if (n > 1) open_vector(held(s.id), n);
  for (int lane = 0; lane < (opencl() ? n : first); ++lane) {
    out_ << (lane == 0 ? "" : ", ");
    if (lane >= first) {
      out_ << '0';
      continue;
    }
    if (mask != nullptr) lane_of(*mask, lane) << " ? ";
    if (truth) out_ << (n > 1 ? "-(" : "(");
    piece_of(s, a, lane);
    out_ << (truth ? " != 0)" : "") << (mask != nullptr ? " : 0" : "");
  }
  if (n > 1) close_vector();
}

// What lanes are reached from one by one: compilers take long for an address a lane.
void Writer::pointer(const Step& s, const Access& a) {
  if (opencl()) {
    memory_type(a.memory);
    out_ << "*const ";
  } else {
    out_ << (s.op == Op::kLoad ? "const " : "");
    type(program_.at(a.memory).dtype, 1);
    out_ << " *const ";
  }
  pointer_name(s) << " = &m" << a.memory << '[';
  form(s, s.constant);
  out_ << (s.op == Op::kLoad ? "];\n" : "]; ");
}

// A load's is its own; stores are blocks.
Text& Writer::pointer_name(const Step& s) {
  out_ << 'q';
  if (s.op == Op::kLoad) out_ << s.result.value << '_' << s.result.instance;
  return out_;
}

void Writer::piece_of(const Step& s, const Access& a, int lane) {
  if (s.op == Op::kLoad && lanes(*s.in) == 1) return element(s, a, 0);
  pointer_name(s) << '[';
  if (a.index != kNone) {
    lane_of(s.operands[index_operand(s)], lane);
  } else {
    out_ << a.step * lane;
  }
  out_ << ']';
}

Text& Writer::lane_of(Register r, int lane) {
  name(r);
  return lanes(r) > 1 ? lane_suffix(lane) : out_;
}

Status Writer::store(const Step& s, const Access& a, const Register* mask) {
  const Register value = s.operands[1];
  const int n = lanes(value), first = first_lanes(s, a);
  const DType d = dtype_of(value);
  const bool truth = d == DType::kBool && n > 1;
  if (!truth && contiguous(a) && (first < n || mask != nullptr) && masks_memory(d, n)) {
    write_masked(s, a, d, n, first, mask);
    out_ << ";\n";
  } else if (truth && contiguous(a) && mask == nullptr && first == n) {
    if (opencl()) {
      out_ << "vstore" << int32_t{n} << '(';
      reinterpret(DType::kUInt8, n) << '(';
      as(value, DType::kInt8);
      out_ << ") & (uchar)1, 0, &";
      element(s, a, 0);
      out_ << ");\n";
      return out_.status();
    }
    out_ << "*(";
    types_.unaligned(out_, d, n);
    out_ << " *)&";
    element(s, a, 0);
    out_ << " = (";
    type(d, n);
    out_ << ")(";
    as(value, DType::kInt8);
    out_ << " & 1);\n";
  } else if (n > 1 && contiguous(a) && mask == nullptr && !truth) {
    stream(s, a, value, first);
    // Vectors of 2, 4, 8, .. lanes, as many as there are.
    for (int at = 0; at < first;) {
      const int size = static_cast<int>(std::bit_floor(static_cast<unsigned>(first - at)));
      piece(s, a, value, at, size);
      at += size;
    }
  } else if (n == 1) {
    if (mask != nullptr) out_ << "if (", lane_of(*mask, 0) << ") ";
    element(s, a, 0);
    out_ << " = ";
    name(value) << ";\n";
  } else {
    out_ << "{ ";
    pointer(s, a);
    // Compilers make of a loop what they take long for written out.
    if (mask == nullptr && a.index == kNone && first == n && !opencl()) {
      out_ << "for (int l = 0; l < " << int32_t{n} << "; ++l) q[l * " << a.step << "ll] = ";
      name(value) << (truth ? "[l] & 1;\n}\n" : "[l];\n}\n");
      return out_.status();
    }
    for (int lane = 0; lane < first; ++lane) {
      if (mask != nullptr) {
        out_ << "if (";
        lane_of(*mask, lane) << ") ";
      }
      piece_of(s, a, lane);
      out_ << " = ";
      lane_of(value, lane) << (truth ? " & 1" : "") << ";\n";
    }
    out_ << "}\n";
  }
  return out_.status();
}

// A whole vector that goes past the caches where its address allows it; what follows is the other
// case.
void Writer::stream(const Step& s, const Access& a, Register value, int first) {
  const int n = lanes(value);
  const size_t bytes = dtype::size(dtype_of(value)) * static_cast<size_t>(n);
  const bool streams = s.in->is(kStream) && first == n && target_.vector_bytes >= 16 &&
                       bytes == static_cast<size_t>(target_.vector_bytes);
  if (!streams) return;
  streams_ = true;
  out_ << (opencl() ? "if (((ulong)&" : "if (((unsigned long long)&");
  element(s, a, 0);
  out_ << " & " << target_.vector_bytes - 1 << ") == 0) " << (opencl() ? "" : "x86_") << "stream"
       << target_.vector_bytes << "(&";
  element(s, a, 0);
  out_ << ", ";
  name(value) << "); else ";
}

void Writer::piece(const Step& s, const Access& a, Register value, int at, int size) {
  if (size == 1) {
    element(s, a, at);
    out_ << " = ";
    lane_of(value, at) << ";\n";
    return;
  }
  const auto write = [&] {
    if (size == lanes(value)) {
      name(value);
    } else {
      part(dtype_of(value), lanes(value), at, size, [&] { name(value); });
    }
  };
  if (opencl()) {
    out_ << "vstore" << int32_t{size} << '(', write(), out_ << ", 0, &";
    element(s, a, at);
    out_ << ");\n";
    return;
  }
  out_ << "*(";
  types_.unaligned(out_, dtype_of(value), size);
  out_ << " *)&";
  element(s, a, at);
  out_ << " = ", write(), out_ << ";\n";
}

Status Writer::atomic(const Step& s, const Access& a, const Register* mask) {
  const char* call = s.in->with == Op::kAdd   ? "add"
                     : s.in->with == Op::kAnd ? "and"
                     : s.in->with == Op::kOr  ? "or"
                     : s.in->with == Op::kXor ? "xor"
                                              : nullptr;
  if (call == nullptr) return cannot(uop::info(s.in->with).name);
  const bool word = dtype::size(dtype_of(s.operands[1])) == 4;
  if (opencl() && !word) return cannot("atomics but of 32 bits");
  for (int lane = 0; lane < first_lanes(s, a); ++lane) {
    if (mask != nullptr) {
      out_ << "if (";
      lane_of(*mask, lane) << ") ";
    }
    out_ << (opencl() ? "atomic_" : "__atomic_fetch_") << call << "(&";
    element(s, a, lane);
    out_ << ", ";
    lane_of(s.operands[1], lane) << (opencl() ? ");\n" : ", __ATOMIC_RELAXED);\n");
  }
  return out_.status();
}

}  // namespace aster::codegen::program::c
