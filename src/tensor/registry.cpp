// Which implementations there are, and by which policies.
#include "tensor/registry.h"

#include <algorithm>
#include <charconv>

#include "base/flags.h"
#include "base/json.h"
#include "device/device.h"
#include "engine/engine.h"
#include "tensor/registry_build.h"
#include "tensor/state.h"

namespace aster::tensor::registry {
namespace {

bool find_composite(Composite* out, std::string_view name) {
  for (size_t i = 0; i < uop::kComposites; ++i) {
    *out = static_cast<Composite>(i);
    if (!name.empty() && name == uop::public_name(*out)) return true;
  }
  return false;
}

Status no_operation(Memory& memory, std::string_view name) {
  Text names(memory);
  for (size_t i = 0; i < uop::kComposites; ++i) {
    const char* each = uop::public_name(static_cast<Composite>(i));
    if (each[0] != '\0') names << (i == 0 ? "" : ", ") << each;
  }
  ASTER_TRY(names.status());
  return ASTER_FAIL(kNOT_FOUND, "no operation \"%.*s\" has implementations: those that do are %s",
                    static_cast<int>(name.size()), name.data(), names.c_str());
}

Status no_implementation(const Registry& registry, Composite composite, std::string_view name) {
  Text names(registry.context.heap());
  registry.write_names(names, composite);
  ASTER_TRY(names.status());
  return ASTER_FAIL(kNOT_FOUND, "%s has no implementation \"%.*s\": there are %s",
                    uop::public_name(composite), static_cast<int>(name.size()), name.data(),
                    names.c_str());
}

template <size_t N>
bool copy_name(char (&out)[N], std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (name.empty() || name.size() >= N || !std::ranges::all_of(name, fits)) return false;
  std::memcpy(out, name.data(), name.size());
  out[name.size()] = '\0';
  return true;
}

// "default", "fast", "force=NAME", "benchmark" or "benchmark(cache=N)".
bool parse_policy(Policy* out, std::string_view text) {
  constexpr std::string_view kForce = "force=", kCache = "benchmark(cache=";
  *out = Policy{};
  out->kind = PolicyKind::kDefault;
  if (text == "default") return true;
  if (text == "fast") {
    out->kind = PolicyKind::kFast;
    return true;
  }
  if (text.starts_with(kForce)) {
    out->kind = PolicyKind::kForce;
    return copy_name(out->name, text_slice(text, kForce.size()));
  }
  out->kind = PolicyKind::kBenchmark;
  if (text == "benchmark") return true;
  if (!text.starts_with(kCache) || !text.ends_with(')')) return false;
  const std::string_view digits = text_slice(text, kCache.size(), text.size() - kCache.size() - 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), out->cached);
  return error == std::errc() && end == digits.data() + digits.size() && out->cached > 0;
}

Status create(Registry** out, engine::Engine& engine) {
  Heap& heap = engine.context.heap();
  auto* registry = heap.create<Registry>(engine);
  if (registry == nullptr) return out_of_memory(sizeof(Registry));
  const auto add = [&](Composite composite, const Form* form) -> Status {
    auto* one = heap.create<Implementation>();
    if (one == nullptr) return out_of_memory(sizeof(Implementation));
    one->context = &engine.context;
    one->composite = composite;
    one->form = form;
    one->usual = form == nullptr;
    copy_name(one->name, form == nullptr ? usual_name(composite) : form->name);
    const Status pushed = registry->all.push(one);
    if (!pushed.ok()) one->release();
    return pushed;
  };
  Status status;
  for (size_t i = 0; i < uop::kComposites && status.ok(); ++i) {
    const auto composite = static_cast<Composite>(i);
    if (uop::public_name(composite)[0] == '\0') continue;
    status = add(composite, nullptr);
    for (const Form& form : forms()) {
      if (status.ok() && form.composite == composite) status = add(composite, &form);
    }
  }
  if (!status.ok()) {
    heap.destroy(registry);
    return status;
  }
  *out = registry;
  return kOk;
}

void destroy(Context& context, void* state) {
  context.heap().destroy(static_cast<Registry*>(state));
}

// In the place of a registry where the environment says nothing, until one is needed.
char nothing_said;

}  // namespace

const char* usual_name(Composite composite) {
  return composite == Composite::kAttention ? "composed" : "generated";
}

void Implementation::release() {
  if (--references != 0) return;
  if (given.release != nullptr) given.release(given.self);
  if (kernel != nullptr) kernel->release();
  context->heap().destroy(this);
}

Registry::Registry(engine::Engine& owner)
    : Chooser{&owner.graph, choose_implementation},
      engine(owner),
      context(owner.context),
      all(owner.context.heap()),
      pushed(owner.context.heap()),
      measured(owner.context.heap()),
      flows(owner.context.heap()) {}

Registry::~Registry() {
  if (asked) uop::remove_chooser(this);
  for (Flow* flow : flows) destroy_flow(context, flow);
  for (const OfThread& each : pushed) context.heap().destroy(each.policies);
  for (Measured* each : measured) context.heap().destroy(each);
  for (Implementation* each : all) each->release();
}

Implementation* Registry::find(Composite composite, std::string_view name) const {
  for (Implementation* each : all) {
    if (each->composite == composite && name == each->name) return each;
  }
  return nullptr;
}

const void* this_thread() {
  static thread_local char here;
  return &here;
}

Policy Registry::policy_of(Composite composite) const {
  const auto at = static_cast<size_t>(composite);
  for (size_t i = pushed.size(); i-- > 0;) {
    const Policy& policy = pushed[i].policies->of[at];
    if (pushed[i].thread == this_thread() && policy.kind != PolicyKind::kInherit) return policy;
  }
  return policies.of[at];
}

void Registry::update() {
  const auto chooses = [](const Policies& each) {
    return std::ranges::any_of(each.of,
                               [](const Policy& p) { return p.kind > PolicyKind::kDefault; });
  };
  bool wanted = chooses(policies);
  for (const OfThread& each : pushed) wanted |= chooses(*each.policies);
  for (const Implementation* each : all) wanted |= each->given.device != 0;
  if (wanted != asked) wanted ? uop::add_chooser(this) : uop::remove_chooser(this);
  asked = wanted;
}

void Registry::write_names(Text& out, Composite composite) const {
  bool first = true;
  for (const Implementation* each : all) {
    if (each->composite != composite) continue;
    out << (first ? "" : ", ") << each->name;
    first = false;
  }
}

Status Policies::read(const Registry& registry, const char* json) {
  Memory& memory = registry.context.heap();
  const std::string_view whole(json);
  JsonReader reader(whole);
  Text key(memory), value(memory);
  ASTER_TRY(reader.open('{'));
  for (bool more = true;;) {
    ASTER_TRY(reader.next(&more, '}'));
    if (!more) break;
    ASTER_TRY(reader.key(&key));
    Composite composite;
    if (!find_composite(&composite, key.view())) return no_operation(memory, key.view());
    size_t begin = reader.at();
    while (begin < whole.size() && whole[begin] == ' ') ++begin;
    ASTER_TRY(reader.string(&value));
    Policy policy;
    if (!parse_policy(&policy, value.view())) {
      return ASTER_FAIL(
          kFORMAT,
          "JSON: at byte %zu the policy of \"%s\" is \"%s\": \"default\", "
          "\"fast\", \"force=NAME\", \"benchmark\" or \"benchmark(cache=N)\" was expected",
          begin, key.c_str(), value.c_str());
    }
    if (policy.kind == PolicyKind::kForce && registry.find(composite, policy.name) == nullptr)
      return no_implementation(registry, composite, policy.name);
    of[static_cast<size_t>(composite)] = policy;
  }
  return reader.end();
}

void write_policy(Text& out, const Policy& policy) {
  switch (policy.kind) {
    case PolicyKind::kFast:
      out << "fast";
      break;
    case PolicyKind::kForce:
      out << "force=" << policy.name;
      break;
    case PolicyKind::kBenchmark:
      out << "benchmark(cache=" << policy.cached << ')';
      break;
    default:
      out << "default";
  }
}

Status registry_of(Registry** out, engine::Engine& engine) {
  void* state = part_of(engine.context, Part::kRegistry);
  if (state != nullptr && state != &nothing_said) {
    *out = static_cast<Registry*>(state);
    return kOk;
  }
  Registry* registry = nullptr;
  ASTER_TRY(create(&registry, engine));
  const char* said = flag_text(Flag::kRegistry);
  Status status = said == nullptr ? kOk : registry->policies.read(*registry, said);
  if (!status.ok()) {
    const SavedError cause;
    status = fail_at(static_cast<Code>(status.code), ASTER_MODULE, __FILE__, __LINE__, "%s: %s",
                     flag_info(Flag::kRegistry).variable, SavedError::message());
  }
  if (status.ok()) status = set_part(engine.context, Part::kRegistry, registry, destroy);
  if (!status.ok()) {
    engine.context.heap().destroy(registry);
    return status;
  }
  registry->update();
  *out = registry;
  return kOk;
}

Status look_at_environment(engine::Engine& engine) {
  if (part_of(engine.context, Part::kRegistry) != nullptr) return kOk;
  if (flag_text(Flag::kRegistry) == nullptr)
    return set_part(engine.context, Part::kRegistry, &nothing_said, [](Context&, void*) {});
  Registry* registry = nullptr;
  return registry_of(&registry, engine);
}

}  // namespace aster::tensor::registry

using namespace aster::tensor;            // NOLINT: this file ends with the public functions
using namespace aster::tensor::registry;  // NOLINT
using aster::kOk;
using aster::Status;
using aster::Text;
using aster::uop::Composite;

static Status enter(Registry** out, const aster_ml_context* context) {
  aster::engine::Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *aster::context_of(context)));
  return registry_of(out, *engine);
}

// Fills what is the caller's. Errors: as aster_ml_registry_add.
static Status take(Implementation* out, const Registry& registry,
                   const aster_ml_implementation* from) {
  aster_ml_implementation& given = out->given;
  ASTER_TRY(aster::read_struct(&given, from, "the implementation"));
  const int ways =
      (given.build != nullptr) + (given.kernel != nullptr) + (given.compute != nullptr);
  if (given.operation == nullptr || given.name == nullptr)
    return ASTER_FAIL(kARGUMENT, "an implementation without an operation or a name");
  if (!find_composite(&out->composite, given.operation))
    return no_operation(registry.context.heap(), given.operation);
  if (!copy_name(out->name, given.name))
    return ASTER_FAIL(kARGUMENT, "\"%s\" is no name of letters, digits, _ and -, or too long",
                      given.name);
  if (registry.find(out->composite, out->name) != nullptr)
    return ASTER_FAIL(kARGUMENT, "%s has an implementation \"%s\"", given.operation, given.name);
  if (ways != 1)
    return ASTER_FAIL(kARGUMENT, "%s, \"%s\": one of build, kernel and compute is needed, not %d",
                      given.operation, given.name, ways);
  if (given.device != 0) ASTER_TRY(aster::device::canonical(&given.device, given.device));
  if (given.kernel == nullptr) return kOk;
  auto* handle = aster::object_of<KernelHandle>(given.kernel->impl);
  if (handle == nullptr || handle->context != &registry.context) {
    return ASTER_FAIL(kARGUMENT, "%s, \"%s\": the kernel is empty, freed or of another context",
                      given.operation, given.name);
  }
  if (handle->object->signature.results() != 1)
    return ASTER_FAIL(kARGUMENT, "%s, \"%s\": the kernel has %zu results, not one", given.operation,
                      given.name, handle->object->signature.results());
  out->kernel = handle->object;
  out->kernel->retain();
  return kOk;
}

int32_t aster_ml_registry_add(const aster_ml_context* context,
                              const aster_ml_implementation* implementation) {
  ASTER_ENTER(aster::context_of(context));
  if (implementation == nullptr) return ASTER_FAIL(kARGUMENT, "the implementation is null");
  Registry* registry = nullptr;
  ASTER_TRY(enter(&registry, context));
  auto* made = registry->context.heap().create<Implementation>();
  if (made == nullptr) return aster::out_of_memory(sizeof(Implementation));
  made->context = &registry->context;
  Status status = take(made, *registry, implementation);
  // What the pointers point to is the caller's.
  made->given.operation = aster::uop::public_name(made->composite);
  made->given.name = made->name;
  made->given.kernel = nullptr;
  if (status.ok()) status = registry->all.push(made);
  if (!status.ok()) {
    made->given.release = nullptr;
    made->release();
    return status;
  }
  registry->update();
  return kOk;
}

int32_t aster_ml_registry_remove(const aster_ml_context* context, const char* operation,
                                 const char* name) {
  ASTER_ENTER(aster::context_of(context));
  if (operation == nullptr || name == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer");
  Registry* registry = nullptr;
  ASTER_TRY(enter(&registry, context));
  Composite composite;
  if (!find_composite(&composite, operation))
    return no_operation(registry->context.heap(), operation);
  Implementation* found = registry->find(composite, name);
  if (found == nullptr) return no_implementation(*registry, composite, name);
  if (found->usual || found->form != nullptr)
    return ASTER_FAIL(kARGUMENT, "%s, \"%s\": an implementation of the library", operation, name);
  const auto forces = [&](const Policies& each) {
    const Policy& policy = each.of[static_cast<size_t>(composite)];
    return policy.kind == PolicyKind::kForce && found->name == std::string_view(policy.name);
  };
  bool forced = forces(registry->policies);
  for (const Registry::OfThread& each : registry->pushed) forced |= forces(*each.policies);
  if (forced) return ASTER_FAIL(kSTATE, "%s, \"%s\": a policy forces it", operation, name);
  auto* end = std::remove(registry->all.begin(), registry->all.end(), found);
  registry->all.truncate(static_cast<size_t>(end - registry->all.begin()));
  found->release();
  registry->update();
  return kOk;
}

int32_t aster_ml_registry_set_policies(const aster_ml_context* context, const char* json) {
  ASTER_ENTER(aster::context_of(context));
  if (json == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for policies");
  Registry* registry = nullptr;
  ASTER_TRY(enter(&registry, context));
  Policies read = registry->policies;
  ASTER_TRY(read.read(*registry, json));
  registry->policies = read;
  registry->update();
  return kOk;
}

int32_t aster_ml_registry_push_policies(const aster_ml_context* context, const char* json) {
  ASTER_ENTER(aster::context_of(context));
  if (json == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for policies");
  Registry* registry = nullptr;
  ASTER_TRY(enter(&registry, context));
  auto* read = registry->context.heap().create<Policies>();
  if (read == nullptr) return aster::out_of_memory(sizeof(Policies));
  Status status = read->read(*registry, json);
  if (status.ok()) status = registry->pushed.push(Registry::OfThread{this_thread(), read});
  if (!status.ok()) {
    registry->context.heap().destroy(read);
    return status;
  }
  registry->update();
  return kOk;
}

int32_t aster_ml_registry_pop_policies(const aster_ml_context* context) {
  ASTER_ENTER(aster::context_of(context));
  Registry* registry = nullptr;
  ASTER_TRY(enter(&registry, context));
  auto& pushed = registry->pushed;
  for (size_t i = pushed.size(); i-- > 0;) {
    if (pushed[i].thread != this_thread()) continue;
    registry->context.heap().destroy(pushed[i].policies);
    for (; i + 1 < pushed.size(); ++i) pushed[i] = pushed[i + 1];
    pushed.pop();
    registry->update();
    return kOk;
  }
  return ASTER_FAIL(kSTATE, "no policies were pushed by this thread");
}

static void describe_measured(Text& out, const Registry& registry, Composite composite) {
  aster::Vec<const Measured*> found(registry.context.heap());
  for (const Measured* each : registry.measured) {
    if (each->composite == composite && !found.push(each).ok()) return;
  }
  std::ranges::sort(found, [](const Measured* a, const Measured* b) { return a->used > b->used; });
  for (const Measured* each : found) {
    out << (each == found[0] ? "\n    " : ",\n    ") << "{\"call\": ";
    aster::write_json_string(out, each->key.view());
    out << ", \"fastest\": \"" << each->fastest << "\", \"ns\": {";
    for (size_t i = 0; i < each->names.size(); ++i) {
      out << (i == 0 ? "\"" : ", \"") << each->names[i].text << "\": ";
      out.format("%.0f", each->nanoseconds[i]);
    }
    out << "}}";
  }
}

static void describe(Text& out, const Registry& registry, Composite composite) {
  aster::write_json_string(out, aster::uop::public_name(composite));
  out << ": {\"meaning\": ";
  aster::write_json_string(out, meaning_of(composite));
  out << ", \"policy\": \"";
  write_policy(out, registry.policy_of(composite));
  out << "\", \"implementations\": [";
  bool first = true;
  for (const Implementation* each : registry.all) {
    if (each->composite != composite) continue;
    out << (first ? "\n    " : ",\n    ") << "{\"name\": \"" << each->name << "\", \"device\": ";
    if (each->given.device == 0) {
      out << "null";
    } else {
      out << '"' << aster::device::name(each->given.device).text << '"';
    }
    const bool own = each->usual || each->form != nullptr;
    out << ", \"library\": " << (own ? "true" : "false") << ", \"meaning\": ";
    aster::write_json_string(out, each->form != nullptr ? each->form->meaning
                                  : each->usual         ? "what the engine makes of its definition"
                                                        : "");
    out << '}';
    first = false;
  }
  out << "],\n  \"measured\": [";
  describe_measured(out, registry, composite);
  out << "]}";
}

int32_t aster_ml_registry_describe(char* out, size_t* length, size_t capacity,
                                   const aster_ml_context* context, const char* operation) {
  aster::clear_text(out, length, capacity);
  ASTER_ENTER(aster::context_of(context));
  if (length == nullptr) return ASTER_FAIL(kARGUMENT, "length is null");
  Registry* registry = nullptr;
  ASTER_TRY(enter(&registry, context));
  Composite only = Composite::kCount;
  if (operation != nullptr && !find_composite(&only, operation))
    return no_operation(registry->context.heap(), operation);
  Text text(registry->context.heap());
  text << '{';
  bool first = true;
  for (size_t i = 0; i < aster::uop::kComposites; ++i) {
    const auto composite = static_cast<Composite>(i);
    if (aster::uop::public_name(composite)[0] == '\0') continue;
    if (operation != nullptr && composite != only) continue;
    text << (first ? "" : ",\n ");
    describe(text, *registry, composite);
    first = false;
  }
  text << "}\n";
  ASTER_TRY(text.status());
  return aster::give_text(out, length, capacity, text.view());
}

int32_t aster_ml_registry_forget(const aster_ml_context* context) {
  ASTER_ENTER(aster::context_of(context));
  Registry* registry = nullptr;
  ASTER_TRY(enter(&registry, context));
  for (Measured* each : registry->measured) registry->context.heap().destroy(each);
  registry->measured.clear();
  registry->forgets_disk = true;
  return kOk;
}
