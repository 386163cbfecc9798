// Frozen programs as C.
#include <algorithm>

#include "nn/freeze/freeze.h"

namespace aster::nn::freeze {
namespace {

#include "nn/freeze/driver.inc"
#include "nn/freeze/main.inc"

constexpr size_t kWordsOfLine = 6;  // of constants

// What holds an element in C, and in NumPy's files.
struct Element {
  const char *c, *numpy;
};
Element element_of(DType dtype) {
  const size_t bits = dtype::bits(dtype);
  const auto pick = [&](Element a, Element b, Element c, Element d) {
    return bits == 8 ? a : bits == 16 ? b : bits == 32 ? c : d;
  };
  if (dtype == DType::kBool) return {"uint8_t", "'|b1'"};
  if (dtype == DType::kFloat64) return {"double", "'<f8'"};
  if (dtype == DType::kFloat32) return {"float", "'<f4'"};
  if (dtype == DType::kFloat16) return {"uint16_t", "'<f2'"};
  if (dtype::is_signed(dtype) || dtype::is_sticky(dtype))
    return pick({"int8_t", "'|i1'"}, {"int16_t", "'<i2'"}, {"int32_t", "'<i4'"},
                {"int64_t", "'<i8'"});
  return pick({"uint8_t", "'|u1'"}, {"uint16_t", "'<u2'"}, {"uint32_t", "'<u4'"},
              {"uint64_t", "'<u8'"});
}

void write_shape(Text& out, const Array& array) {
  for (size_t i = 0; i < array.dims.size(); ++i) out << (i == 0 ? "" : ", ") << array.dims[i];
}

// "input pixels: float32[1, 3, 224, 224]" of names that may be anything.
void write_line(Text& out, const Array& array, const char* kind) {
  out << kind << ' ';
  for (const char c : array.name.view()) {
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '?' && c != '*';
    out << (plain ? c : '_');
  }
  out << ": " << dtype::name(array.dtype) << '[';
  write_shape(out, array);
  out << ']';
}

template <typename Write>
void each_array(const Model& model, Write write) {
  for (const Array& input : model.inputs) write(input, true);
  for (const Array& output : model.outputs) write(output, false);
}

// Names are those of the program where users read them; no name of the driver's own is hidden.
void declare_run(Text& out, const Model& model, bool named) {
  out << "int32_t " << model.name.view() << "_run(void *memory";
  uint32_t number = 0;
  each_array(model, [&](const Array& array, bool input) {
    out << ", " << (input && !array.written ? "const " : "") << element_of(array.dtype).c << " *";
    named ? out << array.identifier.view() : out << 'a' << number++;
  });
  out << ")";
}
void declare_init(Text& out, const Model& model) {
  out << "int32_t " << model.name.view() << "_init(void *memory"
      << (model.side_file ? ", const char *constants)" : ")");
}

// Whether this CPU is of a kind, by what the kernels are compiled with.
void write_test(Text& out, const Code& code) {
  out << "static int is_" << code.cpu->suffix << "(void) {\n  return 1";
  if (code.cpu->x86) {
    const runtime::cpu::CpuFeatures f = features_of(*code.cpu);
    const int registers = f.vector_bytes == 64 ? 0xe6 : 6;
    if (f.vector_bytes > 16) out.format(" && saves(0x%x)", static_cast<unsigned>(registers));
#define FEATURE(name, flag, leaf, subleaf, reg, bit, bytes) \
  if (f.name && flag[0] != '\0')                            \
    out.format(" &&\n         has(%d, %d, %d, 1u << %d)", leaf, subleaf, reg, bit);
#include "runtime/cpu/features.def"
#undef FEATURE
  }
  out << ";\n}\n";
}

// What compilers have to be told, said by them where they were not.
void write_needs(Text& out, const Code& code) {
  const runtime::cpu::CpuFeatures f = features_of(*code.cpu);
  if (f.vector_bytes == 16) return;
  const bool wide = f.vector_bytes == 64;
  out << "#if !defined(" << (wide ? "__AVX512VL__" : "__AVX2__")
      << ") || !defined(__FMA__) || !defined(__F16C__)\n#error \"compile it with";
#define FEATURE(name, flag, leaf, subleaf, reg, bit, bytes) \
  if (f.name && flag[0] != '\0') out << ' ' << flag;
#include "runtime/cpu/features.def"
#undef FEATURE
  out << "\"\n#endif\n";
}

void name_code(Text& out, const Model& model, const Code& code) {
  out << model.name.view() << "_code_" << code.cpu->suffix;
}

// In words, as every compiler reads fast.
void write_constants(Text& out, const Model& model) {
  const Vec<uint8_t>& bytes = model.constants;
  out << "static const _Alignas(64) unsigned long long constants[] = {";
  for (size_t at = 0; at < std::max<size_t>(bytes.size(), 1); at += 8) {
    uint64_t word = 0;
    if (!bytes.empty())
      std::memcpy(&word, bytes.data() + at, std::min<size_t>(8, bytes.size() - at));
    out << (at / 8 % kWordsOfLine == 0 ? "\n  " : " ");
    out.format("0x%llxu,", static_cast<unsigned long long>(word));
  }
  out << "\n};\n";
}

void include_constants(Text& out, const Model& model, const char* file) {
  const std::string_view name = model.name.view(), capital = model.capital.view();
  out << "#ifndef " << capital << "_CONSTANTS\n#define " << capital << "_CONSTANTS \"" << file
      << "\"\n#endif\n__asm__(\".pushsection .rodata\\n.balign 64\\n.hidden " << name
      << "_constants\\n.globl " << name << "_constants\\n\"\n        \"" << name
      << "_constants:\\n.incbin \\\"\" " << capital << "_CONSTANTS \"\\\"\\n.popsection\\n\");\n"
      << "extern const char " << name << "_constants[] __attribute__((visibility(\"hidden\")));\n"
      << "#define constants " << name << "_constants\n";
}

uint32_t most_operands(const Model& model) {
  uint32_t most = 1;
  for (const Code& code : model.codes) {
    for (const Launch& launch : code.launches) most = std::max(most, launch.operands);
  }
  return most;
}

void write_numbers(Text& out, const Model& model) {
  out.format("enum { HEAD_BYTES = %lld, MOST_OPERANDS = %u, FIRST_OUTPUT = %zu };\n",
             static_cast<long long>(model.head_bytes), most_operands(model),
             kFirstInput + model.inputs.size());
  out.format("#define MOST_THREADS %d\n#define CONSTANT_BYTES %zull\n", model.threads,
             model.constants.size());
  out.format("#define CONSTANT_CHECKSUM 0x%llxull\n",
             static_cast<unsigned long long>(model.checksum));
}

void write_init(Text& out, const Model& model) {
  const std::string_view capital = model.capital.view();
  out << '\n';
  declare_init(out, model);
  out << " {\n  struct head *const head = memory;\n"
         "  if (memory == 0 || (uintptr_t)memory % 64 != 0) return "
      << capital << "_MEMORY;\n  head->ready = 0;\n  head->code = ";
  for (const Code& code : model.codes) {
    out << "is_" << code.cpu->suffix << "() ? &";
    name_code(out, model, code);
    out << "\n               : ";
  }
  out << "0;\n  if (head->code == 0) return " << capital << "_CPU;\n";
  if (model.side_file) {
    out << "  head->constants = map_constants(constants);\n  if (head->constants == 0) return "
        << capital << "_CONSTANTS;\n";
  } else {
    out << "  head->constants = (const char *)constants;\n";
  }
  if (model.state_bytes != 0) {
    out.format("  memcpy((char *)memory + HEAD_BYTES, head->constants + %lld, %lld);\n",
               static_cast<long long>(model.state_from), static_cast<long long>(model.state_bytes));
  }
  if (model.threads > 1) out << "  start(&head->pool);\n";
  out << "  head->ready = READY;\n  return " << capital << "_OK;\n}\n";
}

void write_run(Text& out, const Model& model) {
  const std::string_view name = model.name.view(), capital = model.capital.view();
  out << '\n';
  declare_run(out, model, false);
  out << " {\n  struct head *const head = memory;\n  if (head == 0 || head->ready != READY) return "
      << capital
      << "_MEMORY;\n  char *const bases[] = {0, memory, (char *)(uintptr_t)head->constants";
  for (uint64_t i = 0; i < model.inputs.size() + model.outputs.size(); ++i)
    out << ", (char *)(uintptr_t)a" << i;
  out << "};\n";
  out.format("  for (unsigned i = 3; i < %zu; ++i)\n    if (bases[i] == 0) return ",
             kFirstInput + model.inputs.size() + model.outputs.size());
  out << capital << "_ARGUMENT;\n  run_code(head, bases);\n  return " << capital
      << "_OK;\n}\n\nvoid " << name << "_free(void *memory) {\n"
      << "  struct head *const head = memory;\n"
         "  if (head == 0 || head->ready != READY) return;\n  head->ready = 0;\n";
  if (model.threads > 1) out << "  stop(&head->pool);\n";
  if (model.side_file)
    out << "  munmap((char *)(uintptr_t)head->constants - 64, CONSTANT_BYTES + 64);\n";
  out << "}\n\nconst char *" << name << "_describe(void) {\n  return \"\"";
  each_array(model, [&](const Array& array, bool input) {
    out << "\n         \"";
    write_line(out, array, input ? "input" : "output");
    out << "\\n\"";
  });
  out << ";\n}\n";
}

void declare_kernel(Text& out, const Model& model) {
  const std::string_view name = model.name.view();
  out << "int32_t " << name << "_kernel(struct " << name << "_kernel_instance *out"
      << (model.side_file ? ", const char *constants)" : ")");
}

// Its types, with the layouts of aster_ml/kernel.h.
void write_kernel_types(Text& out, const Model& model) {
  const std::string_view name = model.name.view();
  out << "/* The program as a kernel of the Blaze interface: function is\n"
         " *   void (char *const *dst, const char *const *src, struct "
      << name
      << "_kernel_prefix *kernel)\n"
         " * on arrays of outputs and of inputs. Any number of threads may call it; calls run one "
         "after\n * another. At its end destructor is called, then free_func. */\nstruct "
      << name << "_kernel_prefix {\n  void *function;\n  void (*destructor)(struct " << name
      << "_kernel_prefix *kernel);\n};\nstruct " << name << "_kernel_instance {\n  struct " << name
      << "_kernel_prefix *kernel;\n  size_t kernel_size;\n  void (*free_func)(void *kernel);\n};\n"
         "/* 0, or a status above times -1: memory is allocated here. */\n#define "
      << model.capital.view() << "_KERNEL_SIGNATURE \"";
  bool first = true, inputs = true;
  each_array(model, [&](const Array& array, bool input) {
    out << (inputs != input ? " -> " : first ? "" : ", ") << dtype::name(array.dtype) << '[';
    write_shape(out, array);
    out << ']';
    first = false, inputs = input;
  });
  out << "\"\n";
  declare_kernel(out, model);
  out << ";\n\n";
}

void write_kernel(Text& out, const Model& model) {
  const std::string_view name = model.name.view(), capital = model.capital.view();
  out << "\n#define KERNEL_PREFIX struct " << name
      << "_kernel_prefix\n#define KERNEL_INSTANCE struct " << name
      << "_kernel_instance\n#define KERNEL_BYTES " << capital
      << "_MEMORY_BYTES\n#define STATUS_MEMORY " << capital << "_MEMORY\n#define STATUS_ARGUMENT "
      << capital << "_ARGUMENT\n#define BEGIN_KERNEL(memory, side) " << name
      << (model.side_file ? "_init(memory, side)" : "_init(memory)") << "\n#define FREE_KERNEL "
      << name << "_free\n#define RUN_KERNEL(memory, dst, src) " << name << "_run(memory";
  uint64_t inputs = 0, outputs = 0;
  each_array(model, [&](const Array&, bool input) {
    out << ", (void *)(uintptr_t)" << (input ? "src[" : "dst[") << (input ? inputs++ : outputs++)
        << ']';
  });
  out << ")\n" << kBlaze << '\n';
  declare_kernel(out, model);
  out << " {\n  return make_kernel(out, " << (model.side_file ? "constants" : "0") << ");\n}\n";
}

}  // namespace

Status write_header(Text& out, const Model& model) {
  const std::string_view name = model.name.view(), capital = model.capital.view();
  out << "/* " << name << ": a program frozen by libaster_ml " << aster_ml_version()
      << ". No two runs at a time on the same memory; any number\n"
         " * on others. Arrays are row-major and do not overlap. */\n#ifndef "
      << capital << "_H\n#define " << capital << "_H\n\n#include <stdint.h>\n"
      << (model.kernel ? "#include <stddef.h>\n" : "") << "\n"
      << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
      << "/* Memory that a caller gives, and how it is aligned. Nothing else is allocated. */\n";
  out << "#define " << capital << "_MEMORY_BYTES " << model.memory_bytes << "ll\n#define "
      << capital << "_MEMORY_ALIGNMENT 64\n";
  if (model.side_file)
    out << "#define " << capital << "_CONSTANTS_FILE \"" << name << ".constants\"\n";
  each_array(model, [&](const Array& array, bool) {
    const auto size = static_cast<int64_t>(dtype::size(array.dtype));
    out << "#define " << capital << "_COUNT_" << array.identifier.view() << ' '
        << array.bytes / size << "ll\n";
  });
  out << "\nenum {\n  " << capital << "_OK = 0,\n  " << capital
      << "_MEMORY = 1, /* null, not aligned, or not begun */\n  " << capital
      << "_CPU = 2, /* it lacks what the code was made for */\n  " << capital
      << "_CONSTANTS = 3, /* the file is not there, or of another program */\n  " << capital
      << "_ARGUMENT = 4 /* a null pointer */\n};\n\n";
  out << "/* Begins"
      << (model.state_bytes != 0 ? ", with the state that the program was frozen with" : "")
      << (model.threads > 1 ? "; starts threads" : "")
      << (model.side_file ? "; maps the file of constants" : "") << ". */\n";
  declare_init(out, model);
  out << ";\n\n/* One run.\n";
  each_array(model, [&](const Array& array, bool input) {
    out << " * ";
    write_line(out, array, !input ? "output" : array.written ? "input and output" : "input");
    out << '\n';
  });
  out << " */\n";
  declare_run(out, model, true);
  out << ";\n\n/* Ends" << (model.threads > 1 ? " its threads" : "")
      << "; the memory is the caller's again. */\nvoid " << name
      << "_free(void *memory);\n\n/* The arrays, a line each: \"input x: float32[2, 3]\". */\n"
      << "const char *" << name << "_describe(void);\n\n";
  if (model.kernel) write_kernel_types(out, model);
  out << "#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return out.status();
}

Status write_driver(Text& out, const Model& model, const char* constants, bool apart) {
  out << "/* Frozen by libaster_ml " << aster_ml_version()
      << ". */\n#define _GNU_SOURCE\n#include \"" << model.name.view()
      << ".h\"\n\n#include <string.h>\n";
  write_numbers(out, model);
  out << kTypes;
  for (const Code& code : model.codes) {
    if (apart) {
      out << "extern const struct code ";
      name_code(out, model, code);
      out << " __attribute__((visibility(\"hidden\")));\n";
    } else {
      ASTER_TRY(write_kernels(out, model, code, false));
    }
  }
  if (model.codes[0].cpu->x86) out << kCpu;
  for (const Code& code : model.codes) write_test(out, code);
  if (model.side_file) {
    out << kSide;
  } else if (constants != nullptr) {
    include_constants(out, model, constants);
  } else {
    write_constants(out, model);
  }
  if (model.threads > 1) out << kPool;
  out << kRun;
  write_init(out, model);
  write_run(out, model);
  if (model.kernel) write_kernel(out, model);
  return out.status();
}

Status write_kernels(Text& out, const Model& model, const Code& code, bool apart) {
  if (apart) {
    out << "/* Frozen by libaster_ml " << aster_ml_version() << ": kernels for " << code.cpu->name
        << ". */\n"
        << kTypes;
  }
  write_needs(out, code);
  for (size_t i = 0; i < code.kernels->size(); ++i)
    out << "static kernel_function " << code.kernels->name(i) << ";\n";
  ASTER_TRY(code.kernels->write(out));
  out << "static const struct operand operands[] = {";
  for (const Operand& operand : code.operands)
    out.format("\n  {%u, %lldu},", operand.base, static_cast<long long>(operand.offset));
  out << (code.operands.empty() ? "{0, 0}" : "")
      << "\n};\nstatic const struct launch launches[] = {";
  for (const Launch& l : code.launches) {
    out << "\n  {" << code.kernels->name(l.kernel);
    out.format(", %lld, %u, %u, %lld, %lldu, %lldu},", static_cast<long long>(l.tasks),
               l.first_operand, l.operands, static_cast<long long>(l.parts),
               static_cast<long long>(l.scratch), static_cast<long long>(l.stride));
  }
  out << (code.launches.empty() ? "{0}" : "") << "\n};\nstatic const struct copy copies[] = {";
  for (const Copy& c : code.copies) {
    out.format("\n  {{%u, %lldu}, %u, %lldu},", c.from.base, static_cast<long long>(c.from.offset),
               c.output, static_cast<long long>(c.bytes));
  }
  out << (code.copies.empty() ? "{{0, 0}, 0, 0}" : "") << "\n};\n";
  out << "extern const struct code ";
  name_code(out, model, code);
  out << " __attribute__((visibility(\"hidden\")));\nconst struct code ";
  name_code(out, model, code);
  out.format(" = {launches, operands, copies, %zu, %zu};\n", code.launches.size(),
             code.copies.size());
  return out.status();
}

Status write_main(Text& out, const Model& model) {
  const std::string_view name = model.name.view();
  out << "#include \"" << name
      << ".h\"\n\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
      << "struct array;\n#define CONSTANTS_NAME \"" << name << ".constants\"\n";
  out.format("enum { INPUTS = %zu, OUTPUTS = %zu };\n", model.inputs.size(), model.outputs.size());
  out << "#define MEMORY_BYTES " << (model.memory_bytes + 63) / 64 * 64
      << "ll\n#define BEGIN(memory, side) " << name
      << (model.side_file ? "_init(memory, side)" : "_init(memory)") << "\n#define FREE " << name
      << "_free\n#define USAGE \"";
  if (model.side_file) out << " [--constants FILE]";
  each_array(model, [&](const Array& array, bool) { out << ' ' << array.identifier.view(); });
  out << "\"\n#define ABOUT \"Arrays are files .npy, or their bytes.\\n\"";
  each_array(model, [&](const Array& array, bool input) {
    out << " \\\n  \"";
    write_line(out, array, input ? "input" : "output");
    out << "\\n\"";
  });
  out << "\n#define RUN " << name << "_run(memory";
  size_t number = 0;
  each_array(model, [&](const Array&, bool) {
    out << ", (void *)arrays[" << uint64_t{number++} << "].data";
  });
  out << ")\n";
  std::string_view body = kMain;
  const size_t behind = body.find("};") + 3;  // the struct of an array
  out << text_slice(body, 0, behind) << "static struct array arrays[] = {";
  each_array(model, [&](const Array& array, bool) {
    const Element element = element_of(array.dtype);
    out << "\n  {\"" << array.identifier.view() << "\", \"" << dtype::name(array.dtype) << "\", \""
        << element.numpy << "\", \"";
    write_shape(out, array);
    out << (array.dims.size() == 1 ? ",\", " : "\", ") << array.bytes << ", 0},";
  });
  out << "\n};\n" << text_slice(body, behind);
  return out.status();
}

}  // namespace aster::nn::freeze
