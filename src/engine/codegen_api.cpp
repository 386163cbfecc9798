// The public functions on kernels, plans and programs.
#include "aster_ml/codegen.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/options.h"
#include "codegen/codegen.h"
#include "codegen/lowering.h"
#include "engine/dry_run.h"
#include "engine/indexing.h"
#include "runtime/device.h"
#include "runtime/state.h"
#include "uop/symbolic.h"
#include "uop/verify.h"

namespace aster::engine {
namespace {

using codegen::Language;
using codegen::Plan;
using codegen::Target;
using codegen::program::Module;
using uop::Node;

constexpr uint32_t kMostItems = 1024;               // of a group
constexpr uint64_t kMostLocal = uint64_t{1} << 20;  // bytes of its memory

constexpr struct {
  int32_t form;
  Language language;
} kForms[] = {{ASTER_ML_CODE_C, Language::kC},
              {ASTER_ML_CODE_OPENCL_C, Language::kOpencl},
              {ASTER_ML_CODE_PROGRAM, Language::kProgram}};

constexpr struct {
  uint32_t flag;
  bool Target::*feature;
} kFlags[] = {{ASTER_ML_TARGET_FMA, &Target::fma},
              {ASTER_ML_TARGET_F16C, &Target::f16c},
              {ASTER_ML_TARGET_AVX512, &Target::avx512},
              {ASTER_ML_TARGET_VNNI, &Target::vnni},
              {ASTER_ML_TARGET_STREAMING, &Target::streaming},
              {ASTER_ML_TARGET_FP64, &Target::fp64}};

aster_ml_target public_target(const Target& target) {
  aster_ml_target out{};
  out.struct_size = sizeof(out);
  out.vector_bytes = target.portable ? 0 : target.vector_bytes;
  if (target.group > 0) {
    out.group = static_cast<uint32_t>(target.group);
    out.group_limit = static_cast<uint32_t>(std::max(target.group, target.group_limit));
    out.local_bytes = static_cast<uint64_t>(target.local_bytes);
  }
  for (const auto& row : kForms) {
    if (row.language == target.language) out.form = row.form;
  }
  for (const auto& row : kFlags) {
    if (target.*row.feature) out.flags |= row.flag;
  }
  return out;
}

// Of a device of very many items.
Status read_groups(Target* out, const aster_ml_target& target) {
  if (target.group == 0 && target.group_limit == 0 && target.local_bytes == 0) return kOk;
  const uint32_t most = target.group_limit == 0 ? target.group : target.group_limit;
  if (out->language == Language::kC)
    return ASTER_FAIL(kRANGE, "groups of %u: C has no groups", target.group);
  if (!std::has_single_bit(target.group) || !std::has_single_bit(most) || most < target.group ||
      most > kMostItems) {
    return ASTER_FAIL(kRANGE, "groups of %u, at most %u: powers of two up to %u", target.group,
                      most, kMostItems);
  }
  if (target.local_bytes > kMostLocal) {
    return ASTER_FAIL(kRANGE, "%llu bytes of local memory: at most %llu",
                      static_cast<unsigned long long>(target.local_bytes),
                      static_cast<unsigned long long>(kMostLocal));
  }
  out->group = static_cast<int>(target.group);
  out->group_limit = static_cast<int>(most);
  if (target.local_bytes != 0) out->local_bytes = static_cast<int64_t>(target.local_bytes);
  out->machine = codegen::machine_of_items();
  return kOk;
}

Status read_target(Target* out, const aster_ml_target* given) {
  if (given == nullptr) return ASTER_FAIL(kARGUMENT, "target is null");
  aster_ml_target target = {};
  ASTER_TRY(read_struct(&target, given, "the target"));
  bool known = false;
  for (const auto& row : kForms) {
    if (row.form == target.form) out->language = row.language, known = true;
  }
  if (!known) return ASTER_FAIL(kRANGE, "form %d is no form of code", target.form);
  uint32_t flags = 0;
  for (const auto& row : kFlags) {
    out->*row.feature = (target.flags & row.flag) != 0;
    flags |= row.flag;
  }
  if ((target.flags & ~flags) != 0)
    return ASTER_FAIL(kRANGE, "flags %#x of a target: known are %#x", target.flags, flags);
  out->portable = target.vector_bytes == 0;
  out->vector_bytes = out->portable ? 16 : target.vector_bytes;
  if (out->vector_bytes != 16 && out->vector_bytes != 32 && out->vector_bytes != 64) {
    return ASTER_FAIL(kRANGE, "vectors of %d bytes: they have 16, 32 or 64, or 0 for any CPU",
                      target.vector_bytes);
  }
  const bool c = out->language == Language::kC;
  if (c && out->avx512 != (out->vector_bytes == 64)) {
    return ASTER_FAIL(kRANGE, "C for vectors of %d bytes %s masks of AVX-512", out->vector_bytes,
                      out->avx512 ? "cannot have" : "has to have");
  }
  if (c && out->portable && (out->fma || out->f16c || out->streaming))
    return ASTER_FAIL(kRANGE, "flags %#x: C for any CPU has no features", target.flags);
  if (out->language == Language::kOpencl) out->max_lanes = 16;
  if (c && out->avx512) out->machine = codegen::machine_of_avx512();
  return read_groups(out, target);
}

// Nodes of callers break rules that those of the engine keep.
Status as_argument(Status status) {
  if (status.code != ASTER_ML_INTERNAL) return status;
  const SavedError saved;
  return ASTER_FAIL(kARGUMENT, "no kernel: %s", saved.message());
}

// A graph of kernels and what is to be made of one, for the functions below.
class Request {
 public:
  // length: of what is asked for.
  Status begin(const aster_ml_context* context, const size_t* length) {
    if (length == nullptr) return ASTER_FAIL(kARGUMENT, "null where the length is told");
    return engine_of(&engine_, *context_of(context));
  }
  Status take(const aster_ml_target* target) { return read_target(&target_, target); }
  Status take(const aster_ml_uop* kernel) {
    kernel_ = reinterpret_cast<Node>(kernel);
    if (kernel_ == nullptr) return ASTER_FAIL(kARGUMENT, "the kernel is null");
    if (!engine_->graph.owns(kernel_)) return ASTER_FAIL(kARGUMENT, "a node of another context");
    if (kernel_->op != uop::Op::kSink || kernel_->nsrc == 0) {
      return ASTER_FAIL(kARGUMENT, "no kernel: %s is no Sink of Stores",
                        uop::info(kernel_->op).name);
    }
    ASTER_TRY(as_argument(uop::verify(engine_->graph, kernel_, uop::Level::kKernel)));
    // Index arithmetic of kernels is canonical: what is constant is a number.
    kernel_ = uop::sym::simplify(engine_->graph, kernel_);
    return need(kernel_);
  }
  Engine& engine() { return *engine_; }
  Memory& memory() { return engine_->context.heap(); }
  Node kernel() const { return kernel_; }
  const Target& target() const { return target_; }

 private:
  Engine* engine_ = nullptr;
  Node kernel_ = nullptr;
  Target target_;
};

// A kernel of a scratch graph among the nodes of a context.
Status keep(Node* out, uop::Graph& g, Node kernel) {
  Vec<Node> order(g.memory()), sources(g.memory());
  Map<Node, Node> kept(g.memory());
  ASTER_TRY(uop::toposort(&order, std::array{kernel}));
  for (Node node : order) {
    sources.clear();
    for (Node source : node->src()) ASTER_TRY(sources.push(*kept.find(source)));
    *out =
        g.make(node->op, node->dtype, {sources.data(), sources.size()}, node->arg(), node->shape());
    ASTER_TRY(need(*out));
    ASTER_TRY(kept.set(node, *out));
  }
  return kOk;
}

Status kernels(const aster_ml_uop** out, size_t* count, size_t capacity, Engine& engine,
               uop::Nodes tensors) {
  DryRun run(engine);
  ASTER_TRY(run.prepare(tensors));
  ASTER_TRY(run.schedule());
  if (run.memory().failed()) return ASTER_FAIL(kMEMORY, "scheduling ran out of memory");
  Vec<Node> all(engine.context.heap());
  for (const Item& item : run.made().items) {
    if (item.kind != ItemKind::kKernel || std::ranges::find(all, item.kernel) != all.end())
      continue;
    ASTER_TRY(all.push(item.kernel));
  }
  if (out != nullptr) {
    if (capacity < all.size())
      return ASTER_FAIL(kRANGE, "%zu kernels do not fit in %zu", all.size(), capacity);
    for (Node& kernel : all) ASTER_TRY(keep(&kernel, engine.graph, kernel));
    for (size_t i = 0; i < all.size(); ++i) {
      engine.graph.retain(all[i]);
      out[i] = reinterpret_cast<const aster_ml_uop*>(all[i]);
    }
  }
  *count = all.size();
  return kOk;
}

Status plan_text(Text& out, Request& request, const aster_ml_uop* kernel) {
  ASTER_TRY(request.take(kernel));
  Plan plan(request.memory());
  ASTER_TRY(as_argument(
      codegen::plan_kernel(&plan, request.kernel(), request.target(), request.memory())));
  return codegen::print(out, plan);
}

Status program_text(Text& out, Request& request, const aster_ml_uop* kernel, const char* given) {
  ASTER_TRY(request.take(kernel));
  Plan plan(request.memory());
  Module module(request.memory());
  if (given != nullptr) ASTER_TRY(codegen::read(&plan, given));
  ASTER_TRY(
      as_argument(codegen::lower_kernel(&module, nullptr, request.kernel(), request.target(),
                                        request.memory(), given != nullptr ? &plan : nullptr)));
  // By a plan from outside it is verified already.
  if (given == nullptr) ASTER_TRY(codegen::program::verify(module, {true}));
  return codegen::program::print(out, module);
}

Status rendered_text(Text& out, Request& request, const char* given) {
  if (given == nullptr) return ASTER_FAIL(kARGUMENT, "program is null");
  Module module(request.memory());
  ASTER_TRY(codegen::program::read(&module, given));
  ASTER_TRY(codegen::program::verify(module, {true}));
  if (module.programs.empty()) return ASTER_FAIL(kARGUMENT, "a text without a program");
  return codegen::render_text(out, module, request.target());
}

Status target_of_device(Target* out, Context& context, int32_t device) {
  const runtime::Device* found = nullptr;
  ASTER_TRY(runtime::device_of(&found, context, device));
  if (found == nullptr) return runtime::host_target(out, context);
  if (!found->computes())
    return ASTER_FAIL(kUNSUPPORTED, "%s only stores memory", device::name(device).text);
  *out = found->target;
  return kOk;
}

// What write makes for a target, as text for a caller.
template <typename Write>
Status answer(char* out, size_t* length, size_t capacity, const aster_ml_context* context,
              const aster_ml_target* target, Write write) {
  Request request;
  ASTER_TRY(request.begin(context, length));
  ASTER_TRY(request.take(target));
  Text text(request.memory());
  ASTER_TRY(write(text, request));
  return give_text(out, length, capacity, text.view());
}

}  // namespace
}  // namespace aster::engine

using aster::engine::Request;

int32_t aster_ml_codegen_target(aster_ml_target* target, const aster_ml_context* context,
                                int32_t device) {
  using namespace aster;
  ASTER_ENTER(engine::context_of(context));
  if (target == nullptr) return ASTER_FAIL(kARGUMENT, "target is null");
  if (target->struct_size < sizeof(target->struct_size))
    return ASTER_FAIL(kARGUMENT, "struct_size of the target is not set");
  codegen::Target found;
  ASTER_TRY(engine::target_of_device(&found, *engine::context_of(context), device));
  write_struct(target, engine::public_target(found));
  return kOk;
}

int32_t aster_ml_codegen_model(char* out, size_t* length, size_t capacity,
                               const aster_ml_context* context, int32_t device) {
  using namespace aster;
  clear_text(out, length, capacity);
  ASTER_ENTER(engine::context_of(context));
  Request request;
  ASTER_TRY(request.begin(context, length));
  codegen::Target target;
  ASTER_TRY(engine::target_of_device(&target, *engine::context_of(context), device));
  Text text(request.memory());
#define MACHINE(type, name, number, meaning) \
  text.format("%-16s %-9.9g %s\n", #name, static_cast<double>(target.machine.name), meaning);
#include "codegen/machine.def"
#undef MACHINE
  return give_text(out, length, capacity, text.view());
}

int32_t aster_ml_codegen_kernels(const aster_ml_uop** out, size_t* count, size_t capacity,
                                 const aster_ml_context* context,
                                 const aster_ml_lazy* const* tensors, size_t tensor_count) {
  using namespace aster;
  if (count != nullptr) *count = 0;
  ASTER_ENTER(engine::context_of(context));
  Request request;
  ASTER_TRY(request.begin(context, count));
  Vec<uop::Node> nodes(request.memory());
  ASTER_TRY(engine::nodes_of(&nodes, request.engine(), tensors, tensor_count));
  return engine::kernels(out, count, capacity, request.engine(), {nodes.data(), nodes.size()});
}

int32_t aster_ml_codegen_plan(char* out, size_t* length, size_t capacity,
                              const aster_ml_context* context, const aster_ml_uop* kernel,
                              const aster_ml_target* target) {
  using namespace aster;
  clear_text(out, length, capacity);
  ASTER_ENTER(engine::context_of(context));
  return engine::answer(out, length, capacity, context, target, [&](Text& text, Request& request) {
    return engine::plan_text(text, request, kernel);
  });
}

int32_t aster_ml_codegen_lower(char* out, size_t* length, size_t capacity,
                               const aster_ml_context* context, const aster_ml_uop* kernel,
                               const aster_ml_target* target, const char* plan) {
  using namespace aster;
  clear_text(out, length, capacity);
  ASTER_ENTER(engine::context_of(context));
  return engine::answer(out, length, capacity, context, target, [&](Text& text, Request& request) {
    return engine::program_text(text, request, kernel, plan);
  });
}

int32_t aster_ml_codegen_render(char* out, size_t* length, size_t capacity,
                                const aster_ml_context* context, const char* program,
                                const aster_ml_target* target) {
  using namespace aster;
  clear_text(out, length, capacity);
  ASTER_ENTER(engine::context_of(context));
  return engine::answer(out, length, capacity, context, target, [&](Text& text, Request& request) {
    return engine::rendered_text(text, request, program);
  });
}

int32_t aster_ml_codegen_count_tuned(size_t* count, const aster_ml_context* context) {
  using namespace aster;
  if (count != nullptr) *count = 0;
  ASTER_ENTER(engine::context_of(context));
  if (count == nullptr) return ASTER_FAIL(kARGUMENT, "count is null");
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine_of(&engine, *engine::context_of(context)));
  *count = engine->tuned.size();
  return kOk;
}

int32_t aster_ml_codegen_get_tuned(aster_ml_tuned* tuned, const aster_ml_context* context,
                                   size_t index) {
  using namespace aster;
  ASTER_ENTER(engine::context_of(context));
  if (tuned == nullptr) return ASTER_FAIL(kARGUMENT, "tuned is null");
  if (tuned->struct_size < sizeof(tuned->struct_size))
    return ASTER_FAIL(kARGUMENT, "struct_size of tuned is not set");
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine_of(&engine, *engine::context_of(context)));
  if (index >= engine->tuned.size())
    return ASTER_FAIL(kRANGE, "kernel %zu of %zu", index, engine->tuned.size());
  write_struct(tuned, engine->tuned[index]);
  return kOk;
}
