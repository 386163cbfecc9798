#include "engine/kernels.h"

#include "runtime/state.h"

namespace aster::engine {
namespace {

using runtime::cpu::KernelSource;
using uop::Graph;
using uop::Node;

// What a failure to get machine code amounts to: UNSUPPORTED is what the interpreter answers. What
// the system refused now it may grant next time.
Status without_code(Executable* exe, const Context& context, Status status) {
  exe->for_now = status.code == ASTER_ML_DEVICE;
  if (!exe->for_now && status.code != ASTER_ML_UNSUPPORTED && status.code != ASTER_ML_COMPILE)
    return status;
  if (context.options().no_fallback != 0) return ASTER_FAIL(kCOMPILE, "%s", SavedError::message());
  return ASTER_FAIL(kUNSUPPORTED, "%s", SavedError::message());
}

// Renders the kernels that `others` has no code for. passed: told why a kernel is UNSUPPORTED,
// which otherwise fails; null: it does.
template <typename Passed>
Status render_kernels(Kernels* out, Engine& engine, Graph& scratch, const Schedule& schedule,
                      const codegen::Target& target, codegen::SizeClasses* classes,
                      const Kernels* others, const Passed& passed) {
  for (const Item& item : schedule.items) {
    if (item.kind != ItemKind::kKernel || out->numbers.contains(item.kernel)) continue;
    if (others != nullptr && others->function(item.kernel) != nullptr) continue;
    if (engine.context.interrupt().requested()) return Interrupt::stopped("kernels are written");
    codegen::Rendered one(scratch.memory());
    const Status status = codegen::render(one, scratch, item.kernel, target, classes);
    if (status.code == ASTER_ML_UNSUPPORTED) {
      ASTER_TRY(passed(status));
      continue;
    }
    ASTER_TRY(status);
    ASTER_TRY(out->numbers.set(item.kernel, static_cast<uint32_t>(out->rendered.size())));
    ASTER_TRY(out->operands.push(item.operand_count));
    ASTER_TRY(out->rendered.push(std::move(one)));
  }
  return out->functions.resize(out->rendered.size(), nullptr);
}

// Machine code of the host for rendered kernels.
Status load_on_host(Kernels* kernels, Executable* exe, Engine& engine,
                    runtime::cpu::KernelLibrary* provider, const codegen::Target& target,
                    const Arena& scratch_memory) {
  if (kernels->rendered.empty()) return kOk;
  Memory& memory = kernels->rendered.memory();
  Vec<const codegen::program::RenderedC*> all(memory);
  Vec<KernelSource> sources(memory);
  Vec<runtime::cpu::Digest> needs(memory);
  ASTER_TRY(needs.reserve(kernels->rendered.size()));
  Text declarations(memory);
  for (const codegen::Rendered& one : kernels->rendered) {
    if (one.at_hand) {
      ASTER_TRY(sources.push(KernelSource{one.name, {}, {}, true}));
      continue;
    }
    ASTER_TRY(all.push(&one.code));
    // The types and functions that it uses, as they are written now, are part of its key.
    declarations.clear();
    ASTER_TRY(codegen::program::write_declarations(declarations, {&all.back(), 1}, target));
    ASTER_TRY(needs.push(runtime::cpu::Sha256().add_text(declarations.view()).finish()));
    const runtime::cpu::Digest& need = needs.back();
    ASTER_TRY(sources.push(KernelSource{one.name,
                                        one.code.text.view(),
                                        {reinterpret_cast<const char*>(need.data()), need.size()},
                                        true}));
  }
  declarations.clear();
  ASTER_TRY(codegen::program::write_declarations(declarations, {all.data(), all.size()}, target));
  if (scratch_memory.failed()) return ASTER_FAIL(kMEMORY, "a kernel's text ran out of memory");
  runtime::cpu::CompileStats stats;
  const Status loaded =
      provider->load(declarations.view(), {sources.data(), sources.size()},
                     {kernels->functions.data(), kernels->functions.size()}, &exe->kernels, &stats);
  if (!loaded.ok()) return without_code(exe, engine.context, loaded);
  engine.counters.kernels_compiled += static_cast<uint64_t>(stats.compiled);
  engine.counters.kernels_cached += static_cast<uint64_t>(stats.cached + stats.reused);
  return kOk;
}

bool is_loaded(const void* library, const char* name) {
  return static_cast<const runtime::cpu::KernelLibrary*>(library)->has_named(name);
}

}  // namespace

Status compile_on_host(Kernels* kernels, Executable* exe, Engine& engine, Graph& scratch,
                       const Schedule& schedule, const Kernels* elsewhere,
                       const Arena& scratch_memory) {
  Context& context = engine.context;
  runtime::cpu::KernelLibrary* provider = nullptr;
  ASTER_TRY(runtime::kernel_library(context, &provider));
  const runtime::cpu::CompilerInfo* compiler = nullptr;
  const Status found = provider->compiler(&compiler);
  if (!found.ok()) return without_code(exe, context, found);
  const codegen::Target target = target_of(*provider);
  codegen::SizeClasses* const classes = exe->own_sizes ? nullptr : engine.size_classes();
  if (classes != nullptr) classes->begin_call({is_loaded, provider});
  ASTER_TRY(render_kernels(kernels, engine, scratch, schedule, target, classes, elsewhere,
                           [](Status status) { return status; }));
  return load_on_host(kernels, exe, engine, provider, target, scratch_memory);
}

Status compile_on_device(Kernels* kernels, Executable* exe, Engine& engine, Graph& scratch,
                         const Schedule& schedule) {
  const runtime::Device& device = *exe->device;
  const auto passed = [&](Status) { return engine.say_on_host(device.code); };
  ASTER_TRY(
      render_kernels(kernels, engine, scratch, schedule, device.target, nullptr, nullptr, passed));
  if (kernels->rendered.empty()) return kOk;
  Memory& memory = scratch.memory();
  Vec<Text> texts(memory);
  Vec<aster_ml_code> codes(memory);
  constexpr int32_t kForms[] = {ASTER_ML_CODE_C, ASTER_ML_CODE_OPENCL_C, ASTER_ML_CODE_PROGRAM};
  for (size_t i = 0; i < kernels->rendered.size(); ++i) {
    const codegen::Rendered& one = kernels->rendered[i];
    ASTER_TRY(texts.push(Text(memory)));
    ASTER_TRY(codegen::render_unit(texts.back(), one, device.target));
    aster_ml_code code = {};
    code.struct_size = sizeof(code);
    code.form = kForms[static_cast<size_t>(device.target.language)];
    code.name = one.name;
    code.text = texts.back().c_str();
    code.length = texts.back().view().size();
    code.params = kernels->operands[i];
    code.sizes = static_cast<uint32_t>(one.sizes.size());
    code.scratch_bytes = static_cast<size_t>(one.code.scratch_bytes);
    ASTER_TRY(texts.back().status());
    ASTER_TRY(codes.push(code));
  }
  const std::span<void*> functions{kernels->functions.data(), kernels->functions.size()};
  const SavedError before;
  const Status built =
      runtime::build(&exe->module, functions, device, {codes.data(), codes.size()});
  if (built.code == ASTER_ML_COMPILE && engine.context.options().no_fallback != 0) return built;
  if (built.code == ASTER_ML_COMPILE || built.code == ASTER_ML_UNSUPPORTED) {
    ASTER_TRY(engine.say_on_host(device.code));
    before.restore();
    return kOk;
  }
  ASTER_TRY(built);
  for (const void* function : functions) {
    if (function != nullptr) {
      ++engine.counters.kernels_compiled;
    } else {
      (void)ASTER_FAIL(kUNSUPPORTED, "a kernel is beyond the device");
      ASTER_TRY(engine.say_on_host(device.code));
      before.restore();
    }
  }
  return kOk;
}

}  // namespace aster::engine
