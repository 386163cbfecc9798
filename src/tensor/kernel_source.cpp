// Kernels from C and from the text of kernel programs.
#include <array>
#include <cstdio>
#include <cstring>

#include "codegen/render_c.h"
#include "device/device.h"
#include "engine/engine.h"
#include "runtime/state.h"
#include "tensor/kernel.h"

namespace aster::tensor {
namespace {

namespace program = codegen::program;
using runtime::cpu::KernelLibrary;
using uop::Foreign;

bool is_identifier(std::string_view name) {
  if (name.empty() || name.size() >= sizeof(Foreign::name)) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && (i == 0 || c < '0' || c > '9')) return false;
  }
  return true;
}

// Results, then operands, as both kinds of kernels have them.
void run_compiled(const KernelObject& kernel, char* const* results, const char* const* operands,
                  void* scratch, int64_t begin, int64_t end) {
  void* params[2 * Foreign::kMostOperands];
  const size_t count = kernel.signature.results();
  for (size_t i = 0; i < count; ++i) params[i] = results[i];
  for (size_t i = 0; i < kernel.signature.operands; ++i)
    params[count + i] = const_cast<char*>(operands[i]);
  function_at<runtime::KernelFunction>(kernel.function)(params, nullptr, scratch, begin, end);
}

// Whose machine code is in text, under name, behind the declarations.
Status load(KernelObject* object, std::string_view declarations, const char* name,
            const Text& text) {
  ASTER_TRY(text.status());
  KernelLibrary* library = nullptr;
  ASTER_TRY(runtime::kernel_library(object->context, &library));
  const runtime::cpu::CompilerInfo* compiler = nullptr;
  ASTER_TRY(library->compiler(&compiler));
  const runtime::cpu::KernelSource source{name, text.view()};
  const Status loaded =
      library->load(declarations, {&source, 1}, {&object->function, 1}, &object->code, nullptr);
  // What it calls, and is not there.
  if (loaded.code == ASTER_ML_FORMAT) {
    return ASTER_FAIL(kCOMPILE, "kernel \"%s\": %s: kernels call no libraries", object->name,
                      SavedError::message());
  }
  ASTER_TRY(loaded);
  object->arrays = run_arrays;
  object->run = run_compiled;
  check_kernel(object);
  return kOk;
}

// "float *" or "const float *"
void write_pointer(Text& out, DType dtype, bool operand) {
  out << (operand ? "const " : "") << dtype::c_name(dtype) << " *";
}

Status compile_source(KernelObject* object, const char* source) {
  Text text(object->context.heap());
  const char* entry = "aster_ml_kernel_entry";
  ASTER_TRY(write_source(text, *object, source, entry));
  return load(object, "", entry, text);
}

}  // namespace

Status write_source(Text& out, const KernelObject& object, std::string_view source,
                    const char* entry) {
  const Signature& s = object.signature;
  out << "#line 1 \"" << object.name << "\"\n" << source << "\n#line 1 \"signature\"\nvoid ";
  out << object.name << "(";
  for (size_t i = 0; i < s.values.size(); ++i) {
    const bool operand = i >= s.results();
    write_pointer(out, operand ? s.values[i - s.results()].dtype : s.result(i).dtype, operand);
    out << ", ";
  }
  out << "long long begin, long long end);\nvoid " << entry
      << "(void *const *params, const long long *sizes, void *scratch, long long begin, "
         "long long end) {\n  "
      << object.name << "(";
  for (size_t i = 0; i < s.values.size(); ++i) out << "params[" << i << "], ";
  out << "begin, end);\n}\n";
  return out.status();
}

Status add_source(KernelObject* object, const char* source,
                  const aster_ml_kernel_options& options) {
  if (!is_identifier(object->name))
    return ASTER_FAIL(kARGUMENT, "\"%s\" is no name of a function of C", object->name);
  object->from_source = true;
  object->device_code = code_of_source;
  if (options.device != device::kCpu) return add_text(object, source, options, false);
  if (object->on_host())
    return ASTER_FAIL(kSTATE, "kernel \"%s\" has a source for the CPU", object->name);
  if (is_of_opencl(options)) {
    return ASTER_FAIL(kARGUMENT,
                      "kernel \"%s\": global_size, local_size and local_bytes are of OpenCL C",
                      object->name);
  }
  object->tasks = options.tasks != 0 ? options.tasks : object->signature.any() ? 0 : 1;
  return compile_source(object, source);
}

// ---- Programs ----

Status count_tasks(int64_t* out, const program::Program& p) {
  constexpr size_t kDeepest = 64;
  struct Block {
    int64_t tasks;  // so far around
    bool task, inner;
  };
  Block blocks[kDeepest];
  size_t depth = 0;
  int64_t around = 1, total = 0;
  bool any = false;
  for (const program::Instruction& in : p.code()) {
    if (in.op == program::Op::kEnd) {
      const Block block = blocks[--depth];
      if (block.task && !block.inner) total += around;
      around = block.tasks;
      continue;
    }
    if (!program::is_block(in.op)) continue;
    const bool task =
        in.op == program::Op::kLoop && in.kind == static_cast<uint8_t>(program::LoopKind::kTask);
    if (depth == kDeepest) return ASTER_FAIL(kUNSUPPORTED, "a program of %zu blocks", depth);
    blocks[depth++] = {around, task, false};
    if (!task) continue;
    any = true;
    for (size_t i = 0; i + 1 < depth; ++i) blocks[i].inner = true;
    if (!in.is(program::kImmediate) || !in.is(program::kImmediateHigh))
      return ASTER_FAIL(kUNSUPPORTED, "a task loop whose bounds are not numbers");
    const program::Words words = p.words(in);
    const int64_t span = std::max<int64_t>(0, words[1] - words[0]);
    if (!checked_mul(around, (span + words[2] - 1) / words[2], &around))
      return ASTER_FAIL(kRANGE, "too many tasks");
  }
  *out = any ? total : 1;
  return kOk;
}

namespace {

// Params against the signature: results first, which are written, and nothing else.
Status check_params(const KernelObject& object, const program::Program& p) {
  const Signature& s = object.signature;
  size_t found = 0;
  for (const program::Instruction& in : p.code()) {
    if (in.op != program::Op::kParam) continue;
    const program::Words words = p.words(in);
    const auto slot = static_cast<size_t>(words[0]);
    if (in.is(program::kSize))
      return ASTER_FAIL(kUNSUPPORTED, "program \"%s\" has sizes, which a signature does not",
                        p.name);
    if (slot >= s.values.size()) {
      return ASTER_FAIL(kARGUMENT, "program \"%s\" has Param %zu, its signature %zu values", p.name,
                        slot, s.values.size());
    }
    ++found;
    const bool result = slot < s.results();
    const KernelValue& value = result ? s.result(slot) : s.values[slot - s.results()];
    const bool writes = in.is(program::kWrite) || in.is(program::kAtomic);
    const bool sized = in.terms == 0 && in.constant == s.count(value, 0);
    if (in.dtype == value.dtype && sized && writes == result) continue;
    return ASTER_FAIL(kARGUMENT,
                      "program \"%s\": Param %zu is not %s%s of %lld elements, as the "
                      "signature has it",
                      p.name, slot, result ? "written, " : "read alone, ", dtype::name(value.dtype),
                      static_cast<long long>(s.count(value, 0)));
  }
  if (found == s.values.size()) return kOk;
  return ASTER_FAIL(kARGUMENT, "program \"%s\" has %zu Params, its signature %zu values", p.name,
                    found, s.values.size());
}

// For the CPU.
Status compile_program(KernelObject* object, const program::Module& module) {
  Heap& heap = object->context.heap();
  KernelLibrary* library = nullptr;
  ASTER_TRY(runtime::kernel_library(object->context, &library));
  program::RenderedC code(heap);
  codegen::Target target;
  ASTER_TRY(runtime::host_target(&target, object->context));
  ASTER_TRY(program::render_c(code, module, target));
  object->scratch_bytes = code.scratch_bytes;
  const program::RenderedC* const codes[] = {&code};
  Text declarations(heap);
  ASTER_TRY(program::write_declarations(declarations, codes, target));
  ASTER_TRY(declarations.status());
  return load(object, declarations.view(), object->name, code.text);
}

Status take_program(KernelObject* object, const char* text,
                    const aster_ml_kernel_options& options) {
  Heap& heap = object->context.heap();
  if (is_of_opencl(options)) {
    return ASTER_FAIL(kARGUMENT,
                      "a kernel program has its own groups: global, local and "
                      "local_bytes are of OpenCL C");
  }
  if (object->signature.any())
    return ASTER_FAIL(kARGUMENT, "the shapes of a kernel program are known: [...] is none");
  program::Module module(heap);
  ASTER_TRY(program::read(&module, text));
  if (module.programs.empty() || module.programs.back().function)
    return ASTER_FAIL(kFORMAT, "a text that ends with no program");
  program::Program& last = module.programs.back();
  std::snprintf(object->name, sizeof(object->name), "%s", last.name);
  ASTER_TRY(program::verify(module));
  ASTER_TRY(check_params(*object, last));
  ASTER_TRY(count_tasks(&object->tasks, last));
  ASTER_TRY(add_text(object, text, options, true));
  const SavedError before;
  const Status status = compile_program(object, module);
  // One with barriers, or no compiler: it is for devices alone.
  const bool optional = options.device != device::kCpu && status.code == ASTER_ML_UNSUPPORTED;
  if (optional) before.restore();
  return optional ? kOk : status;
}

Status from_text(aster_ml_kernel* out, const aster_ml_context* context, const char* text,
                 const char* name, const char* signature, const aster_ml_kernel_options* options,
                 Status (*take)(KernelObject* object, const char* text,
                                const aster_ml_kernel_options& options)) {
  if (out == nullptr || text == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer");
  out->impl = nullptr;
  aster_ml_kernel_options read;
  ASTER_TRY(read_options(&read, options));
  KernelObject* object = nullptr;
  ASTER_TRY(kernel_create(&object, *context_of(context), name, signature, read));
  object->form = uop::ForeignForm::kArrays;
  const Status status = take(object, text, read);
  if (!status.ok()) {
    object->release();
    return status;
  }
  return kernel_finish(out, object);
}

}  // namespace
}  // namespace aster::tensor

int32_t aster_ml_kernel_from_source(aster_ml_kernel* out, const aster_ml_context* context,
                                    const char* source, const char* name, const char* signature,
                                    const aster_ml_kernel_options* options) {
  if (out != nullptr) *out = {};
  ASTER_ENTER(aster::context_of(context));
  if (name == nullptr) return ASTER_FAIL(kARGUMENT, "the name is a null pointer");
  return aster::tensor::from_text(out, context, source, name, signature, options,
                                  aster::tensor::add_source);
}

int32_t aster_ml_kernel_from_program(aster_ml_kernel* out, const aster_ml_context* context,
                                     const char* program, const char* signature,
                                     const aster_ml_kernel_options* options) {
  if (out != nullptr) *out = {};
  ASTER_ENTER(aster::context_of(context));
  return aster::tensor::from_text(out, context, program, nullptr, signature, options,
                                  aster::tensor::take_program);
}
