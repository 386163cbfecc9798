#include "runtime/load.h"

#include <algorithm>

#include "codegen/render_x86.h"
#include "runtime/cpu/elf_loader.h"
#include "runtime/cpu/machine.h"
#include "runtime/state.h"

namespace aster::runtime {
namespace {

bool has_own_code(const cpu::KernelLibrary& library) {
  return library.features().fma && library.features().vector_bytes >= 32 && cpu::can_map_code();
}

bool is_loaded(const void* library, const char* name) {
  return static_cast<const cpu::KernelLibrary*>(library)->has_named(name);
}

// What one request to the host's library is made of.
class HostSources {
 public:
  HostSources(Memory& memory, const codegen::Target& target)
      : target_(target),
        sources(memory),
        which(memory),
        declarations(memory),
        codes_(memory),
        needs_(memory) {}

  // Those whose texts are LLVM's, or those that are C. What is at hand by its name has no text, and
  // is asked for with the first.
  Status run(std::span<const Request> kernels, bool ir, bool first) {
    kernels_ = kernels;
    ASTER_TRY(needs_.reserve(kernels.size()));
    for (size_t i = 0; i < kernels.size(); ++i) {
      const codegen::Rendered& one = *kernels[i].kernel;
      if (one.at_hand ? !first : one.code.llvm != ir) continue;
      ASTER_TRY(which.push(i));
      ASTER_TRY(add(one));
      sources.back().later = kernels[i].may_wait;
    }
    declarations.clear();
    ASTER_TRY(codegen::program::write_declarations(declarations, {codes_.data(), codes_.size()},
                                                   target_));
    return declarations.status();
  }

  // What some of the sources, which have texts, use.
  static Status write_unit(void* self, std::span<const size_t> some, Text& out) {
    const HostSources& request = *static_cast<const HostSources*>(self);
    Vec<const codegen::program::RenderedC*> codes(request.which.memory());
    for (const size_t i : some)
      ASTER_TRY(codes.push(&request.kernels_[request.which[i]].kernel->code));
    return codegen::program::write_declarations(out, {codes.data(), codes.size()}, request.target_);
  }

 private:
  Status add(const codegen::Rendered& one) {
    if (one.at_hand) return sources.push(cpu::KernelSource{one.name, {}, {}, true});
    ASTER_TRY(codes_.push(&one.code));
    // The types and functions that it uses, as they are written now, are part of its key.
    declarations.clear();
    ASTER_TRY(codegen::program::write_declarations(declarations, {&codes_.back(), 1}, target_));
    ASTER_TRY(needs_.push(cpu::Sha256().add_text(declarations.view()).finish()));
    const cpu::Digest& need = needs_.back();
    return sources.push(cpu::KernelSource{one.name,
                                          one.code.text.view(),
                                          {reinterpret_cast<const char*>(need.data()), need.size()},
                                          true});
  }

  const codegen::Target& target_;
  std::span<const Request> kernels_;

 public:
  Vec<cpu::KernelSource> sources;
  Vec<size_t> which;  // of the requests, of each source
  Text declarations;

 private:
  Vec<const codegen::program::RenderedC*> codes_;
  Vec<cpu::Digest> needs_;
};

}  // namespace

Loaded::~Loaded() {
  for (cpu::KernelSet* set : sets) set->release();
  for (Built* module : modules) --module->users;
  for (cpu::CodePages* one : pages) pages.memory().destroy(one);
}

codegen::Target target_of(const cpu::CpuFeatures& features, bool this_machine) {
  codegen::Target target;
  target.vector_bytes = features.vector_bytes;
  target.fma = features.fma;
  target.f16c = features.f16c;
  target.avx512 = features.vector_bytes == 64;
  target.vnni = target.avx512 ? features.avx512_vnni : features.avx_vnni;
  if (target.avx512) target.machine = codegen::machine_of_avx512();
  const auto last_level = this_machine ? static_cast<int64_t>(cpu::detect_caches().last) : 0;
  if (last_level > 0) target.cache_bytes = std::min(last_level, cpu::machine::kMostCacheShare);
  // Rows whose columns are copied once more otherwise.
  constexpr int64_t kLarge = int64_t{128} << 20;
  if (last_level >= kLarge) target.machine.rows *= 4;
  return target;
}

Status host_target(codegen::Target* out, Context& context) {
  cpu::KernelLibrary* library = nullptr;
  ASTER_TRY(kernel_library(context, &library));
  *out = target_of(library->features(), true);
  return kOk;
}

Status host_device(const Device** out, Context& context) {
  State* runtime = nullptr;
  ASTER_TRY(state(context, &runtime));
  cpu::KernelLibrary* library = nullptr;
  ASTER_TRY(kernel_library(context, &library));
  ASTER_TRY(library->collect());
  const bool llvm = library->llvm() != nullptr;
  Device& host = runtime->host;
  const cpu::CompilerInfo* compiler = nullptr;
  const bool begins = host.load != nullptr ? host.at_once : has_own_code(*library);
  if (!llvm) {
    const SavedError before;
    const Status found = library->compiler(&compiler);
    const std::string_view choice = cpu::compiler_choice(context);
    const bool without = found.code == ASTER_ML_UNSUPPORTED && begins && choice != "none";
    if (!without) ASTER_TRY(found);
    if (without && host.load == nullptr) {
      const bool named = !choice.empty() && choice != "builtin";
      context.log(named ? ASTER_ML_LOG_WARNING : ASTER_ML_LOG_INFO,
                  "kernels have machine code of our own alone: %s", SavedError::message());
    }
    if (without) before.restore();
  }
  if (host.load == nullptr) {
    ASTER_TRY(host_target(&host.target, context));
    host.target.llvm = llvm;
    host.code = device::kCpu;
    host.shared = true;
    host.at_once = begins;
    host.compiles = llvm || compiler != nullptr;
    host.load = load_on_host;
    host.at_hand = {is_loaded, library};
  }
  *out = &host;
  return kOk;
}

Status make_at_once(Loaded* held, const Device& device, Context& context,
                    std::span<Request> kernels) {
  Memory& memory = context.heap();
  Vec<uint8_t> code(memory);
  Vec<size_t> which(memory), places(memory);
  for (size_t i = 0; i < kernels.size(); ++i) {
    const codegen::program::Module& module = kernels[i].kernel->module;
    if (kernels[i].function != nullptr || module.programs.empty()) continue;
    const size_t before = code.size();
    const SavedError error;
    const Status made = codegen::program::render_x86(&code, module, device.target);
    if (made.code == ASTER_ML_UNSUPPORTED) {
      error.restore();
      code.truncate(before);
      continue;
    }
    ASTER_TRY(made);
    ASTER_TRY(which.push(i));
    ASTER_TRY(places.push(before));
  }
  if (which.empty()) return kOk;
  ASTER_TRY(held->pages.reserve(held->pages.size() + 1));
  cpu::CodePages* pages = nullptr;
  const SavedError before;
  const Status mapped =
      cpu::CodePages::map(&pages, {code.data(), code.size()}, held->pages.memory());
  if (mapped.code == ASTER_ML_UNSUPPORTED) return before.restore(), kOk;
  ASTER_TRY(mapped);
  ASTER_TRY(held->pages.push(pages));
  for (size_t i = 0; i < which.size(); ++i) kernels[which[i]].at_once = pages->at(places[i]);
  return kOk;
}

Status load_on_host(Loaded* held, LoadCounts* counts, const Device& device, Context& context,
                    std::span<Request> kernels) {
  if (!device.compiles) return kOk;
  cpu::KernelLibrary* library = nullptr;
  ASTER_TRY(kernel_library(context, &library));
  const bool llvm = device.target.llvm;
  ASTER_TRY(held->sets.reserve(held->sets.size() + 2));
  for (const bool ir : {llvm, !llvm}) {
    HostSources request(context.heap(), device.target);
    ASTER_TRY(request.run(kernels, ir, ir == llvm));
    if (request.sources.empty()) continue;
    Vec<void*> functions(context.heap());
    Vec<const cpu::LaterCode*> later(context.heap());
    ASTER_TRY(functions.resize(request.sources.size(), nullptr));
    ASTER_TRY(later.resize(request.sources.size(), nullptr));
    cpu::KernelSet* set = nullptr;
    cpu::CompileStats stats;
    const cpu::UnitDeclarations units = {&request, HostSources::write_unit};
    ASTER_TRY(library->load(request.declarations.view(),
                            {request.sources.data(), request.sources.size()},
                            {functions.data(), functions.size()}, &set, &stats, ir, &units,
                            {later.data(), later.size()}));
    ASTER_TRY(held->sets.push(set));
    for (size_t i = 0; i < functions.size(); ++i) {
      kernels[request.which[i]].function = functions[i];
      kernels[request.which[i]].later = later[i];
    }
    counts->compiled += static_cast<uint64_t>(stats.compiled);
    counts->found += static_cast<uint64_t>(stats.cached + stats.reused);
  }
  return kOk;
}

Status finish_on_host(Context& context, const cpu::LaterCode* code) {
  cpu::KernelLibrary* library = nullptr;
  ASTER_TRY(kernel_library(context, &library));
  return library->finish(code);
}

aster_ml_code code_for(const Device& device) {
  constexpr int32_t kForms[] = {ASTER_ML_CODE_C, ASTER_ML_CODE_OPENCL_C, ASTER_ML_CODE_PROGRAM};
  aster_ml_code code = {};
  code.struct_size = sizeof(code);
  code.form = kForms[static_cast<size_t>(device.target.language)];
  return code;
}

Status load_by_backend(Loaded* held, LoadCounts* counts, const Device& device, Context& context,
                       std::span<Request> kernels) {
  Vec<Text> texts(context.heap());
  Vec<aster_ml_code> codes(context.heap());
  Vec<void*> functions(context.heap());
  for (const Request& request : kernels) {
    const codegen::Rendered& one = *request.kernel;
    ASTER_TRY(texts.push(Text(context.heap())));
    ASTER_TRY(codegen::render_unit(texts.back(), one, device.target));
    aster_ml_code code = code_for(device);
    code.name = one.name;
    code.text = texts.back().c_str();
    code.length = texts.back().view().size();
    code.params = request.operands;
    code.sizes = static_cast<uint32_t>(one.sizes.size());
    code.scratch_bytes = static_cast<size_t>(one.code.scratch_bytes);
    code.group_size = static_cast<uint32_t>(one.code.locals[0]);
    ASTER_TRY(texts.back().status());
    ASTER_TRY(codes.push(code));
  }
  ASTER_TRY(functions.resize(kernels.size(), nullptr));
  State* runtime = nullptr;
  ASTER_TRY(state(context, &runtime));
  size_t found = 0;
  ASTER_TRY(runtime->modules.load(&held->modules, {functions.data(), functions.size()}, &found,
                                  device, {codes.data(), codes.size()}));
  const auto there = std::ranges::count_if(functions, [](void* f) { return f != nullptr; });
  for (size_t i = 0; i < kernels.size(); ++i) kernels[i].function = functions[i];
  counts->found += found;
  counts->compiled += static_cast<size_t>(there) - found;
  return kOk;
}

}  // namespace aster::runtime
