// Types in front of a text, rows of the tables found, and texts of several programs put together.
#include "codegen/render_c_types.h"

#include "codegen/render_llvm.h"
#include "codegen/render_opencl.h"

namespace aster::codegen::program {
namespace c {
namespace {

void define_type(Text& out, DType d, int lanes) {
  const char* const name = type_name(d);
  if (lanes == 1) {
    out << "typedef " << c_type(d) << ' ' << name << ";\n";
    return;
  }
  const int32_t bytes = static_cast<int32_t>(dtype::size(d)) * lanes;
  for (const bool unaligned : {false, true}) {
    out << "typedef " << c_type(d) << ' ' << name << 'x' << int32_t{lanes} << (unaligned ? "u" : "")
        << " __attribute__((vector_size(" << bytes << "), aligned("
        << (unaligned ? static_cast<int32_t>(dtype::size(d)) : std::min(bytes, 64))
        << "), may_alias));\n";
  }
}

// A macro: in a function gcc would have combined the masks before it sees that a choice is 0.
void define_select(Text& out, DType d, int lanes, bool opencl) {
  const auto type = [&](DType which) -> Text& {
    return Types::write_name(out, which, lanes, opencl);
  };
  const DType mask = integer(d, true);
  out << "#define sel_";
  type(d) << "(m, a, b) ((";
  type(d);
  if (lanes == 1) {
    out << ")((m) ? (a) : (b)))\n";
    return;
  }
  if (opencl) {
    out << ")select(b, a, m))\n";
    return;
  }
  out << ")(((m) & (";
  type(mask) << ")(a)) | (~(m) & (";
  type(mask) << ")(b))))\n";
}

template <typename Write>
void each_used(const bool* used, Write write) {
  for (int d = 0; d < dtype::kDTypeLimit; ++d) {
    for (int log = 0; log < UsedTypes::kLogs; ++log) {
      if (used[d * UsedTypes::kLogs + log]) write(static_cast<DType>(d), 1 << log);
    }
  }
}

bool has_feature(const Target& target, Feature feature) {
  switch (feature) {
    case SSE:
      return target.vector_bytes >= 16;
    case FMA:
      return target.vector_bytes >= 32 && target.fma;
    case F16C:
      return target.vector_bytes >= 32 && target.f16c;
    case AVX512:
      return target.vector_bytes >= 64 && target.avx512;
    case VNNI:
      return target.vnni;
    case FUSED:
      return target.fma;
    default:
      return true;
  }
}

bool fits(Width width, int bytes, int lanes) {
  return width == ANYW || (width == ONE && lanes == 1) || (width == VEC && lanes > 1) ||
         (width == W16 && bytes == 16 && lanes > 1) || (width == W32 && bytes == 32) ||
         (width == W64 && bytes == 64);
}

// Instructions that the compilers know by different names.
constexpr std::string_view kAvx512 = R"(#ifdef __clang__
#define x86_minps512(a, b) __builtin_ia32_minps512(a, b, 4)
#define x86_minpd512(a, b) __builtin_ia32_minpd512(a, b, 4)
#define x86_maxps512(a, b) __builtin_ia32_maxps512(a, b, 4)
#define x86_maxpd512(a, b) __builtin_ia32_maxpd512(a, b, 4)
#define x86_sqrtps512(a) __builtin_ia32_sqrtps512(a, 4)
#define x86_sqrtpd512(a) __builtin_ia32_sqrtpd512(a, 4)
#define x86_pmaddwd512(a, b) __builtin_ia32_pmaddwd512(a, b)
#else
typedef int x86_words512 __attribute__((vector_size(64)));
#define x86_pmaddwd512(a, b) \
  __builtin_ia32_pmaddwd512_mask(a, b, (x86_words512){0}, (unsigned short)-1)
#define x86_minps512(a, b) __builtin_ia32_minps512_mask(a, b, a, (unsigned short)-1, 4)
#define x86_minpd512(a, b) __builtin_ia32_minpd512_mask(a, b, a, (unsigned char)-1, 4)
#define x86_maxps512(a, b) __builtin_ia32_maxps512_mask(a, b, a, (unsigned short)-1, 4)
#define x86_maxpd512(a, b) __builtin_ia32_maxpd512_mask(a, b, a, (unsigned char)-1, 4)
#define x86_sqrtps512(a) __builtin_ia32_sqrtps512_mask(a, a, (unsigned short)-1, 4)
#define x86_sqrtpd512(a) __builtin_ia32_sqrtpd512_mask(a, a, (unsigned char)-1, 4)
#endif
)";

constexpr std::string_view kVnni = R"(#ifdef __clang__
#define x86_dpbusd128(c, a, b) __builtin_ia32_vpdpbusd128(c, a, b)
#define x86_dpbusd256(c, a, b) __builtin_ia32_vpdpbusd256(c, a, b)
#define x86_dpbusd512(c, a, b) __builtin_ia32_vpdpbusd512(c, a, b)
#else
#define x86_dpbusd128(c, a, b) __builtin_ia32_vpdpbusd_v4si(c, a, b)
#define x86_dpbusd256(c, a, b) __builtin_ia32_vpdpbusd_v8si(c, a, b)
#define x86_dpbusd512(c, a, b) __builtin_ia32_vpdpbusd_v16si(c, a, b)
#endif
)";

// Stores that go past the caches: the compilers name them differently.
void define_stream(Text& out, int32_t bytes) {
  const char* const suffix = bytes == 64 ? "512" : bytes == 32 ? "256" : "";
  Text type(out.memory());
  type << "float __attribute__((vector_size(" << bytes << ")))";
  out << "#ifdef __clang__\n#define x86_stream" << bytes << "(p, v) __builtin_nontemporal_store(("
      << type.view() << ")(v), (" << type.view() << " *)(p))\n#else\n#define x86_stream" << bytes
      << "(p, v) __builtin_ia32_movntps" << suffix << "((float *)(p), (" << type.view()
      << ")(v))\n#endif\n";
}

// The same in OpenCL C, where the driver's compiler is clang; else a store like others.
void define_opencl_stream(Text& out, int32_t bytes) {
  const int32_t n = bytes / 4;
  out << "#ifdef __has_builtin\n#if __has_builtin(__builtin_nontemporal_store)\n#define stream"
      << bytes << "(p, v) __builtin_nontemporal_store(as_float" << n << "(v), (__global float" << n
      << " *)(p))\n#endif\n#endif\n#ifndef stream" << bytes << "\n#define stream" << bytes
      << "(p, v) vstore" << n << "(as_float" << n << "(v), 0, (__global float *)(p))\n#endif\n";
}

// Lanes of two vectors: clang's own says it best, from swizzles it makes twice the instructions.
void define_mixes(Text& out, const UsedTypes& used) {
  if (std::ranges::none_of(used.mixes, [](bool one) { return one; })) return;
  out << "#ifdef __has_builtin\n#if __has_builtin(__builtin_shufflevector)\n#define MIX\n"
         "#endif\n#endif\n";
  each_used(used.mixes, [&](DType d, int n) {
    const auto lanes = [&] {
      for (int i = 0; i < n; ++i) out << (i == 0 ? "i" : ", i") << int32_t{i};
    };
    for (const bool builtin : {true, false}) {
      out << (builtin ? "#ifdef MIX\n#define mix_" : "#else\n#define mix_");
      Types::write_name(out, d, n, true) << "(a, b, ";
      lanes();
      out << (builtin ? ") __builtin_shufflevector(a, b, " : ") shuffle2(a, b, (");
      if (!builtin) Types::write_name(out, integer(d, false), n, true) << ")(";
      lanes();
      out << (builtin ? ")\n" : "))\n#endif\n");
    }
  });
}

// Takes a function in unless one of its name is there already.
Status add_function(const RenderedFunction& function, Vec<const RenderedFunction*>* written) {
  for (const RenderedFunction* other : *written) {
    if (std::string_view(other->name) != function.name) continue;
    if (other->text.view() == function.text.view()) return kOk;
    return ASTER_FAIL(kARGUMENT, "two functions %s differ", function.name);
  }
  return written->push(&function);
}

}  // namespace

const Row* first_row(std::span<const Row> rows, const Target& target, Op op, DType d, int lanes) {
  const int bytes = static_cast<int>(dtype::size(d)) * lanes;
  for (const Row& row : rows) {
    if (row.op == op && (row.elements & elements_of(d)) != 0 && has_feature(target, row.feature) &&
        fits(row.width, bytes, lanes)) {
      return &row;
    }
  }
  return nullptr;
}

const Row* find_row(const Target& target, Op op, DType d, int lanes) {
  const bool opencl = target.language == Language::kOpencl;
  return first_row(opencl ? std::span<const Row>(kOpenclRows) : std::span<const Row>(kRows), target,
                   op, d, lanes);
}

const CastRow* find_cast(const Target& target, DType from, DType to, int lanes) {
  const int bytes = static_cast<int>(std::max(dtype::size(from), dtype::size(to))) * lanes;
  const bool opencl = target.language == Language::kOpencl;
  for (const CastRow& row :
       opencl ? std::span<const CastRow>(kOpenclCasts) : std::span<const CastRow>(kCasts)) {
    if (row.from == from && row.to == to && has_feature(target, row.feature) &&
        fits(row.width, bytes, lanes)) {
      return &row;
    }
  }
  return nullptr;
}

Text& Types::write_name(Text& out, DType d, int lanes, bool opencl) {
  if (!opencl) {
    out << type_name(d);
    return lanes > 1 ? out << 'x' << int32_t{lanes} : out;
  }
  const bool is_unsigned = dtype::is_unsigned(d);
  const char* const kWholes[] = {"char", "short", "int", "long"};
  if (dtype::is_float(d)) {
    out << (d == DType::kFloat32 ? "float" : "double");
  } else {
    out << (is_unsigned ? "u" : "") << kWholes[std::countr_zero(dtype::size(d))];
  }
  return lanes > 1 ? out << int32_t{lanes} : out;
}

void Types::write(Text& out, const UsedTypes& used, bool opencl) {
  if (!opencl) each_used(used.types, [&](DType d, int n) { define_type(out, d, n); });
  each_used(used.selects, [&](DType d, int n) { define_select(out, d, n, opencl); });
  if (opencl) define_mixes(out, used);
}

}  // namespace c

namespace {

// Heads of functions and constants may stand anywhere.
Status write_llvm_declarations(Text& out, std::span<const RenderedC* const> programs) {
  write_llvm_head(out);
  Vec<const RenderedFunction*> written(out.memory());
  for (const RenderedC* program : programs) {
    for (const RenderedFunction& function : program->functions) {
      ASTER_TRY(c::add_function(function, &written));
    }
  }
  for (const RenderedFunction* function : written) out << function->text.view();
  return out.status();
}

}  // namespace

Status write_declarations(Text& out, std::span<const RenderedC* const> programs,
                          const Target& target) {
  if (!programs.empty() && programs[0]->llvm) return write_llvm_declarations(out, programs);
  UsedTypes used;
  for (const RenderedC* program : programs) {
    for (size_t i = 0; i < std::size(used.types); ++i) {
      used.types[i] |= program->types.types[i];
      used.selects[i] |= program->types.selects[i];
      used.mixes[i] |= program->types.mixes[i];
    }
  }
  const bool opencl = target.language == Language::kOpencl;
  if (opencl) write_opencl_options(out, used);
  if (!opencl && c::has_feature(target, c::AVX512)) out << c::kAvx512;
  if (!opencl && c::has_feature(target, c::VNNI)) out << c::kVnni;
  bool streams = false;
  for (const RenderedC* program : programs) streams |= program->streams;
  if (streams) (opencl ? c::define_opencl_stream : c::define_stream)(out, target.vector_bytes);
  c::Types::write(out, used, opencl);
  Vec<const RenderedFunction*> written(out.memory());
  for (const RenderedC* program : programs) {
    for (const RenderedFunction& function : program->functions) {
      ASTER_TRY(c::add_function(function, &written));
    }
  }
  // Those of few lanes call those of more, and those of many lanes ones of fewer.
  for (const RenderedFunction* function : written) {
    const std::string_view text = function->text.view();
    out << text_slice(text, 0, text.find(" {")) << ";\n";
  }
  for (const RenderedFunction* function : written) out << function->text.view();
  return out.status();
}

Status write_unit(Text& out, std::span<const RenderedC* const> programs, const Target& target) {
  ASTER_TRY(write_declarations(out, programs, target));
  for (const RenderedC* program : programs) out << program->text.view();
  return out.status();
}

bool loads_under_mask(const Target& target, DType storage, int lanes) {
  if (target.language != Language::kC) return false;
  const size_t size = dtype::size(storage), bytes = size * static_cast<size_t>(lanes);
  if (bytes != 16 && bytes != 32 && bytes != 64) return false;
  return target.avx512 || (target.vector_bytes >= 32 && bytes <= 32 && size >= 4);
}

bool is_native(const Target& target, Op op, DType result, DType operand, int lanes) {
  if (op == Op::kWhere || op == Op::kBitcast) return true;
  const bool narrow = dtype::is_narrow_float(operand) || dtype::is_narrow_float(result);
  if (op == Op::kCast) {
    if (operand == result) return true;
    if (narrow) return c::find_cast(target, operand, result, lanes) != nullptr;
    // Those that are checked are done lane by lane.
    return lanes == 1 || !dtype::is_float(operand) || !dtype::is_int(result);
  }
  return !narrow && c::find_row(target, op, operand, lanes) != nullptr;
}

}  // namespace aster::codegen::program
