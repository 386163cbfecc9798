#include "engine/kernels.h"

#include <algorithm>

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

// Kernels of the host on their way to machine code.
class HostKernels {
 public:
  HostKernels(Kernels& kernels, Engine& engine, runtime::cpu::KernelLibrary& provider)
      : kernels_(kernels),
        memory_(kernels.rendered.memory()),
        engine_(engine),
        provider_(provider),
        wanted_(memory_),
        held_(memory_) {}
  ~HostKernels() {
    for (runtime::cpu::KernelSet* set : held_) set->release();
  }

  Status run(Executable* exe, const Arena& scratch_memory) {
    const bool by_kernel = engine_.context.options().no_fallback == 0;
    for (uint32_t i = 0; i < kernels_.rendered.size(); ++i) {
      if (!by_kernel || !engine_.refused.contains(key_of(i))) ASTER_TRY(wanted_.push(i));
    }
    const SavedError before;
    Status loaded = load(exe);
    if (scratch_memory.failed()) return ASTER_FAIL(kMEMORY, "a kernel's text ran out of memory");
    if (by_kernel && loaded.code == ASTER_ML_COMPILE && wanted_.size() > 1) {
      loaded = load_each();
      const uint64_t cached = engine_.counters.kernels_cached;
      if (loaded.ok()) loaded = load(exe);
      engine_.counters.kernels_cached = cached;  // they are counted already
      if (loaded.ok()) before.restore();
    }
    return loaded.ok() ? kOk : without_code(exe, engine_.context, loaded);
  }

 private:
  // What ends the search for those that the compiler takes: as often it may fail, or not end.
  static constexpr size_t kMostRefused = 16, kMostEndless = 2;

  uint64_t key_of(uint32_t i) const { return runtime::cpu::NameHash()(kernels_.rendered[i].name); }
  Status load(Executable* exe) {
    if (kernels_.rendered.empty()) return kOk;
    if (wanted_.empty()) return ASTER_FAIL(kCOMPILE, "the compiler refused these kernels before");
    return load({wanted_.data(), wanted_.size()}, &exe->kernels);
  }

  // Some of the kernels in one request.
  Status load(std::span<const uint32_t> which, runtime::cpu::KernelSet** set) {
    Vec<const codegen::program::RenderedC*> all(memory_);
    Vec<KernelSource> sources(memory_);
    Vec<runtime::cpu::Digest> needs(memory_);
    Vec<void*> functions(memory_);
    ASTER_TRY(needs.reserve(which.size()));
    ASTER_TRY(functions.resize(which.size(), nullptr));
    Text declarations(memory_);
    for (const uint32_t i : which) {
      const codegen::Rendered& one = kernels_.rendered[i];
      if (one.at_hand) {
        ASTER_TRY(sources.push(KernelSource{one.name, {}, {}, true}));
        continue;
      }
      ASTER_TRY(all.push(&one.code));
      // The types and functions that it uses, as they are written now, are part of its key.
      declarations.clear();
      ASTER_TRY(
          codegen::program::write_declarations(declarations, {&all.back(), 1}, kernels_.target));
      ASTER_TRY(needs.push(runtime::cpu::Sha256().add_text(declarations.view()).finish()));
      const runtime::cpu::Digest& need = needs.back();
      ASTER_TRY(sources.push(KernelSource{one.name,
                                          one.code.text.view(),
                                          {reinterpret_cast<const char*>(need.data()), need.size()},
                                          true}));
    }
    declarations.clear();
    ASTER_TRY(codegen::program::write_declarations(declarations, {all.data(), all.size()},
                                                   kernels_.target));
    ASTER_TRY(declarations.status());
    runtime::cpu::CompileStats stats;
    ASTER_TRY(provider_.load(declarations.view(), {sources.data(), sources.size()},
                             {functions.data(), functions.size()}, set, &stats));
    for (size_t i = 0; i < which.size(); ++i) kernels_.functions[which[i]] = functions[i];
    engine_.counters.kernels_compiled += static_cast<uint64_t>(stats.compiled);
    engine_.counters.kernels_cached += static_cast<uint64_t>(stats.cached + stats.reused);
    return kOk;
  }

  // One after another, each with what it needs and no more; keeps those wanted that the compiler
  // takes. Errors: COMPILE (it takes none).
  Status load_each() {
    Vec<uint32_t> taken(memory_), refused(memory_);
    Vec<SavedError> reasons(memory_);
    size_t endless = 0;
    Status last;
    for (const uint32_t i : wanted_) {
      if (reasons.size() == kMostRefused || endless == kMostEndless) {
        ASTER_TRY(refused.push(i));
        continue;
      }
      const double start = milliseconds();
      runtime::cpu::KernelSet* set = nullptr;
      ASTER_TRY(held_.reserve(held_.size() + 1));
      const Status one = load({&i, 1}, &set);
      if (set != nullptr) ASTER_TRY(held_.push(set));
      ASTER_TRY(one.ok() ? taken.push(i) : refused.push(i));
      if (one.ok()) continue;
      if (one.code != ASTER_ML_COMPILE) return one;
      if (milliseconds() - start >= engine_.context.options().compile_timeout_ms) ++endless;
      last = ASTER_FAIL(kCOMPILE, "%s: %s", kernels_.rendered[i].title, SavedError::message());
      ASTER_TRY(reasons.push(SavedError()));
    }
    if (taken.empty()) return last;
    for (const uint32_t i : refused) ASTER_TRY(engine_.refused.set(key_of(i), true));
    for (const SavedError& reason : reasons) {
      reason.restore();
      ASTER_TRY(engine_.say_interpreted());
    }
    wanted_ = std::move(taken);
    return kOk;
  }

  Kernels& kernels_;
  Memory& memory_;
  Engine& engine_;
  runtime::cpu::KernelLibrary& provider_;
  Vec<uint32_t> wanted_;
  Vec<runtime::cpu::KernelSet*> held_;
};

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
  kernels->target = target_of(*provider);
  codegen::SizeClasses* const classes = exe->own_sizes ? nullptr : engine.size_classes();
  if (classes != nullptr) classes->begin_call({is_loaded, provider});
  ASTER_TRY(render_kernels(kernels, engine, scratch, schedule, kernels->target, classes, elsewhere,
                           [](Status status) { return status; }));
  return HostKernels(*kernels, engine, *provider).run(exe, scratch_memory);
}

Status compile_on_device(Kernels* kernels, Executable* exe, Engine& engine, Graph& scratch,
                         const Schedule& schedule) {
  const runtime::Device& device = *exe->device;
  const auto passed = [&](Status) { return engine.say_on_host(device.code); };
  codegen::SizeClasses* const classes = exe->own_sizes ? nullptr : engine.size_classes();
  if (classes != nullptr) classes->begin_call({});
  ASTER_TRY(
      render_kernels(kernels, engine, scratch, schedule, device.target, classes, nullptr, passed));
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
  runtime::State* runtime = nullptr;
  ASTER_TRY(runtime::state(engine.context, &runtime));
  const auto load = [&](size_t first, size_t count) -> Status {
    size_t found = 0;
    const std::span<void*> functions{kernels->functions.data() + first, count};
    ASTER_TRY(runtime->modules.load(&exe->modules, functions, &found, device,
                                    {codes.data() + first, count}));
    engine.counters.kernels_cached += found;
    const auto there = count - static_cast<size_t>(std::ranges::count(functions, nullptr));
    engine.counters.kernels_compiled += there - found;
    return kOk;
  };
  const SavedError before;
  Status built = load(0, codes.size());
  if (built.code == ASTER_ML_COMPILE && engine.context.options().no_fallback != 0) return built;
  // Each by itself, so that the host computes no more than what the compiler refuses.
  for (size_t i = 0; built.code == ASTER_ML_COMPILE && codes.size() > 1 && i < codes.size(); ++i) {
    const Status one = load(i, 1);
    if (one.code == ASTER_ML_COMPILE || one.code == ASTER_ML_UNSUPPORTED) {
      ASTER_TRY(engine.say_on_host(device.code));
    } else {
      ASTER_TRY(one);
    }
  }
  if (built.code == ASTER_ML_UNSUPPORTED || built.code == ASTER_ML_COMPILE) {
    if (codes.size() == 1 || built.code == ASTER_ML_UNSUPPORTED)
      ASTER_TRY(engine.say_on_host(device.code));
    before.restore();
    return kOk;
  }
  ASTER_TRY(built);
  for (const void* function : kernels->functions) {
    if (function != nullptr) continue;
    (void)ASTER_FAIL(kUNSUPPORTED, "a kernel is beyond the device");
    ASTER_TRY(engine.say_on_host(device.code));
    before.restore();
  }
  return kOk;
}

}  // namespace aster::engine
