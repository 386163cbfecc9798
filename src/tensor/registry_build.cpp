// Builds what the registry chooses: forms of the library, and the caller's graphs, kernels and
// functions, with their gradients.
//
// What has another gradient than its graph is a Chosen call: its body, on Params, is what computes
// it, and a Flow what differentiates it. One Flow is made for all calls of equal dtypes, shapes and
// attributes, so that equal calls are one node.
#include "tensor/registry_build.h"

#include <algorithm>

#include "base/faults.h"
#include "device/device.h"
#include "engine/engine.h"
#include "gradient/gradient.h"

namespace aster::tensor::registry {

using uop::brief;

// A function of the caller's as a kernel.
struct Function : uop::Foreign {
  Implementation* implementation = nullptr;
  const Call* call = nullptr;  // of the flow, which outlives what realises
};

struct Flow : uop::Chosen {
  Flow(Registry& owner, Implementation& which, const Call& from)
      : registry(owner),
        implementation(which),
        call(owner.engine, from.composite, from.attributes, from.operands, from.usual),
        words(owner.context.heap()) {}
  Registry& registry;
  Implementation& implementation;
  Call call;  // its operands and its usual node are on Params
  Vec<Word> words;
  Vec<Node>* params = nullptr;
  Function* function = nullptr;
};

namespace {

aster_ml_op_operand describe(Node x) {
  return {static_cast<int32_t>(x->dtype), x->ndim, x->shape().data()};
}

// Handles of nodes, for functions of the caller's.
class Handles {
 public:
  explicit Handles(engine::Engine& engine) : engine_(engine), all_(engine.context.heap()) {}
  ~Handles() {
    for (aster_ml_lazy& each : all_) give_up(&each.impl);
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  Status add(Nodes nodes, size_t empty) {
    ASTER_TRY(all_.resize(nodes.size() + empty, aster_ml_lazy{}));
    for (size_t i = 0; i < nodes.size(); ++i) {
      engine::Lazy* lazy = nullptr;
      ASTER_TRY(engine::lazy_create(&lazy, engine_, nodes[i]));
      all_[i].impl = lazy->handle;
    }
    return kOk;
  }
  aster_ml_lazy* at(size_t i) { return all_.data() + i; }
  // The node of one that a function left; null where it is empty.
  Status node_of(Node* out, size_t i, const char* what, const Implementation& who) {
    *out = nullptr;
    if (all_[i].impl == nullptr) return kOk;
    const engine::Lazy* lazy = cell(&all_[i]);
    if (lazy == nullptr || lazy->context != &engine_.context) {
      return ASTER_FAIL(kARGUMENT, "%s of %s, \"%s\", left a handle of no tensor of its context",
                        what, uop::public_name(who.composite), who.name);
    }
    *out = lazy->node;
    return kOk;
  }

 private:
  engine::Engine& engine_;
  Vec<aster_ml_lazy> all_;
};

// made as the operation has it. Errors: SHAPE.
Status check_result(Node* made, Graph& g, const Implementation& who, Node usual) {
  if (*made == nullptr) {
    return ASTER_FAIL(kARGUMENT, "%s, \"%s\": it left an empty handle",
                      uop::public_name(who.composite), who.name);
  }
  if (dtype::is_weak((*made)->dtype)) *made = cast(g, *made, usual->dtype);
  if (*made == nullptr) return last_failure();
  if ((*made)->dtype == usual->dtype && std::ranges::equal((*made)->shape(), usual->shape()))
    return kOk;
  return ASTER_FAIL(kSHAPE, "%s, \"%s\": it gave %s, the operation is %s",
                    uop::public_name(who.composite), who.name, brief(*made).text,
                    brief(usual).text);
}

Status build_graph(Node* out, Registry& registry, const Implementation& who, const Call& call,
                   Nodes operands) {
  Handles handles(registry.engine);
  ASTER_TRY(handles.add(operands, 1));
  const size_t result = operands.size();
  const int32_t code =
      who.given.build(who.given.self, handles.at(result), &call.given, handles.at(0));
  if (code != 0) {
    return ASTER_FAIL(kERROR, "%s, \"%s\": its function failed with %d",
                      uop::public_name(who.composite), who.name, code);
  }
  ASTER_TRY(handles.node_of(out, result, "build", who));
  return check_result(out, registry.engine.graph, who, call.usual);
}

Status build_kernel(Node* out, Registry& registry, const Implementation& who, const Call& call,
                    Nodes operands) {
  Vec<Node> results(registry.context.heap());
  ASTER_TRY(kernel_results(&results, registry.engine.graph, *who.kernel, operands));
  *out = results[0];
  return check_result(out, registry.engine.graph, who, call.usual);
}

void run_function(const uop::Foreign& self, char* result, const char* const* operands, void*,
                  int64_t, int64_t, int64_t) {
  const auto& function = static_cast<const Function&>(self);
  const Implementation& who = *function.implementation;
  const void* sources[Call::kMostOperands];
  for (size_t i = 0; i < function.call->given.operand_count; ++i) sources[i] = operands[i];
  const int32_t code = who.given.compute(who.given.self, &function.call->given, result, sources);
  if (code == 0) return;
  Faults::say_failure(Code::kERROR, 0, "%s, \"%s\": its function failed with %d",
                      uop::public_name(who.composite), who.name, code);
}

Status build_function(Node* out, Registry& registry, Flow& flow, Nodes operands) {
  Heap& heap = registry.context.heap();
  if (flow.function == nullptr) {
    auto* function = heap.create<Function>();
    if (function == nullptr) return out_of_memory(sizeof(Function));
    function->implementation = &flow.implementation;
    function->call = &flow.call;
    std::snprintf(function->name, sizeof(function->name), "%s", flow.implementation.name);
    function->form = uop::ForeignForm::kArrays;
    function->alone = true;
    function->arrays = run_function;
    double ns = 1e5;
    if (flow.implementation.given.cost != nullptr)
      ns = flow.implementation.given.cost(flow.implementation.given.self, &flow.call.given);
    function->nanoseconds = ns > 0 ? ns : 1e5;
    flow.implementation.retain();
    function->destroy = [](uop::Foreign* self) {
      auto* gone = static_cast<Function*>(self);
      Context& context = *gone->implementation->context;
      gone->implementation->release();
      context.heap().destroy(gone);
    };
    flow.function = function;
  }
  const Node usual = flow.call.usual;
  *out = registry.engine.graph.foreign(*flow.function, usual->dtype, usual->shape(), 0, operands);
  return *out != nullptr ? kOk : last_failure();
}

// ---- Gradients ----

Status replaced(Node* x, Graph& g, const Flow& flow, Nodes arguments, Node seed, Node dy) {
  Map<Node, Node> map(g.memory());
  for (size_t i = 0; i < arguments.size(); ++i)
    ASTER_TRY(map.set(flow.call.operands[i], arguments[i]));
  if (seed != nullptr) ASTER_TRY(map.set(seed, dy));
  return g.substitute(x, *x, map);
}

// That of the usual implementation, on Params first: operands may be computed from each other.
Status flow_usual(const Flow& flow, Graph& g, Node y, Node dy, std::span<const bool> needed,
                  std::span<Node> dx) {
  const Nodes params = flow.call.operands, arguments = y->src().subspan(1);
  const Node seed = g.param(static_cast<Word>(params.size()), dy->dtype, dy->shape());
  if (seed == nullptr) return last_failure();
  Vec<Node> targets(g.memory()), found(g.memory());
  for (size_t i = 0; i < params.size(); ++i) {
    if (needed[i + 1]) ASTER_TRY(targets.push(params[i]));
  }
  ASTER_TRY(found.resize(targets.size(), nullptr));
  ASTER_TRY(gradient::gradient(g, flow.call.usual, seed, {targets.data(), targets.size()},
                               {found.data(), found.size()}, gradient::Unreached::kNull));
  size_t next = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    if (!needed[i + 1]) continue;
    Node one = found[next++];
    if (one == nullptr) continue;
    ASTER_TRY(replaced(&one, g, flow, arguments, seed, dy));
    dx[i + 1] = one;
  }
  return kOk;
}

Status flow_given(const Flow& flow, Graph& g, Node y, Node dy, std::span<const bool> needed,
                  std::span<Node> dx) {
  const Implementation& who = flow.implementation;
  const size_t count = y->nsrc - 1u;
  Vec<Node> inputs(g.memory());
  ASTER_TRY(inputs.append(y->src().data() + 1, count));
  ASTER_TRY(inputs.push(y));
  ASTER_TRY(inputs.push(dy));
  Handles handles(flow.registry.engine);
  ASTER_TRY(handles.add({inputs.data(), inputs.size()}, count));
  const Graph::Hold hold(g);
  const int32_t code = who.given.gradient(who.given.self, handles.at(count + 2), &flow.call.given,
                                          handles.at(0), handles.at(count), handles.at(count + 1));
  if (code != 0) {
    return ASTER_FAIL(kERROR, "%s, \"%s\": its gradient failed with %d",
                      uop::public_name(who.composite), who.name, code);
  }
  for (size_t i = 0; i < count; ++i) {
    Node one = nullptr;
    ASTER_TRY(handles.node_of(&one, count + 2 + i, "the gradient", who));
    if (one == nullptr || !needed[i + 1]) continue;
    const Node x = y->src(i + 1);
    if (dtype::is_weak(one->dtype)) one = cast(g, one, x->dtype);
    if (one == nullptr) return last_failure();
    if (one->dtype != x->dtype || !std::ranges::equal(one->shape(), x->shape())) {
      return ASTER_FAIL(kSHAPE, "%s, \"%s\": the gradient of operand %zu is %s, the operand %s",
                        uop::public_name(who.composite), who.name, i, brief(one).text,
                        brief(x).text);
    }
    dx[i + 1] = one;
  }
  return kOk;
}

Status flow_chosen(const uop::Chosen& self, Graph& g, Node y, Node dy, std::span<const bool> needed,
                   std::span<Node> dx) {
  const auto& flow = static_cast<const Flow&>(self);
  const Form* form = flow.implementation.form;
  if (form != nullptr && form->gradient != nullptr) {
    const Nodes operands = y->src().subspan(1);
    const bool masked = operands.size() > 3 && needed[4];
    if (!masked)
      return form->gradient(
          {flow.registry.engine, flow.call, operands, y, dy, needed.subspan(1), dx.subspan(1)});
  }
  return flow.implementation.given.gradient != nullptr ? flow_given(flow, g, y, dy, needed, dx)
                                                       : flow_usual(flow, g, y, dy, needed, dx);
}

// The one for calls like this.
Status flow_for(Flow** out, Registry& registry, Implementation& implementation, const Call& call) {
  Graph& g = registry.engine.graph;
  Heap& heap = registry.context.heap();
  Vec<Node> params(heap);
  Map<Node, Node> map(heap);
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const Node x = call.operands[i];
    const Node param = g.param(static_cast<Word>(i), x->dtype, x->shape());
    if (param == nullptr) return last_failure();
    ASTER_TRY(params.push(param));
    ASTER_TRY(map.set(x, param));
  }
  Node usual = nullptr;
  ASTER_TRY(g.substitute(&usual, call.usual, map));
  for (Flow* flow : registry.flows) {
    const bool same = &flow->implementation == &implementation && flow->call.usual == usual &&
                      flow->call.given.device == call.given.device &&
                      std::ranges::equal(flow->call.operands, params);
    if (same) return *out = flow, kOk;
  }
  ASTER_TRY(registry.flows.reserve(registry.flows.size() + 1));
  const Nodes operands(params.data(), params.size());
  auto* flow =
      heap.create<Flow>(registry, implementation,
                        Call(registry.engine, call.composite, call.attributes, operands, usual));
  if (flow == nullptr) return out_of_memory(sizeof(Flow));
  implementation.retain();
  g.retain(usual);
  for (Node param : params) g.retain(param);
  flow->flow = flow_chosen;
  flow->params = heap.create<Vec<Node>>(std::move(params));
  Status status = flow->params == nullptr ? out_of_memory(sizeof(Vec<Node>)) : kOk;
  if (status.ok()) status = flow->words.append(call.attributes.data(), call.attributes.size());
  if (!status.ok()) {
    for (Node param : operands) g.release(param);
    g.release(usual);
    implementation.release();
    heap.destroy(flow);
    return status;
  }
  flow->call.operands = {flow->params->data(), flow->params->size()};
  flow->call.attributes = {flow->words.data(), flow->words.size()};
  flow->call.given.operands = flow->call.described;
  flow->call.given.attributes = flow->words.data();
  flow->call.given.device = flow->call.device = call.device;
  *out = flow;
  return registry.flows.push(flow);
}

Status build_chosen(Node* out, Registry& registry, Implementation& who, const Call& call) {
  Graph& g = registry.engine.graph;
  Flow* flow = nullptr;
  ASTER_TRY(flow_for(&flow, registry, who, call));
  const Nodes params = flow->call.operands;
  Node body = nullptr;
  if (who.form != nullptr) {
    body = who.form->build(registry.engine, flow->call, params);
    if (body == nullptr) return last_failure();
    ASTER_TRY(check_result(&body, g, who, call.usual));
  } else if (who.given.build != nullptr) {
    ASTER_TRY(build_graph(&body, registry, who, flow->call, params));
  } else if (who.kernel != nullptr) {
    ASTER_TRY(build_kernel(&body, registry, who, flow->call, params));
  } else {
    ASTER_TRY(build_function(&body, registry, *flow, params));
  }
  *out = uop::build_chosen(g, *flow, body, call.operands);
  return *out != nullptr ? kOk : last_failure();
}

Status build_status(Node* out, Registry& registry, Implementation& who, const Call& call) {
  if (who.usual) return *out = call.usual, kOk;
  if (who.form != nullptr && !who.form->usual_gradient && who.form->gradient == nullptr) {
    *out = who.form->build(registry.engine, call, call.operands);
    if (*out == nullptr) return last_failure();
    return check_result(out, registry.engine.graph, who, call.usual);
  }
  const bool own_gradient =
      who.given.gradient == nullptr &&
      (who.given.build != nullptr || (who.kernel != nullptr && who.kernel->gradient != nullptr));
  if (!own_gradient) return build_chosen(out, registry, who, call);
  return who.kernel != nullptr ? build_kernel(out, registry, who, call, call.operands)
                               : build_graph(out, registry, who, call, call.operands);
}

// Why each refuses a call, for a message.
void write_refusals(Text& out, const Registry& registry, const Call& call) {
  bool first = true;
  for (const Implementation* each : registry.all) {
    if (each->composite != call.composite) continue;
    Refusal why;
    ask(&why, *each, call);
    out << (first ? "" : "; ") << each->name << ": " << (why.taken() ? "takes it" : why.text);
    first = false;
  }
}

Status refuse(const Registry& registry, const Call& call, const char* name) {
  Text all(registry.context.heap()), operands(registry.context.heap());
  write_refusals(all, registry, call);
  for (Node x : call.operands) operands << (x == call.operands[0] ? "" : ", ") << brief(x).text;
  ASTER_TRY(all.status());
  ASTER_TRY(operands.status());
  return ASTER_FAIL(kUNSUPPORTED, "%s of %s is not for \"%s\" (%s)",
                    uop::public_name(call.composite), operands.c_str(), name, all.c_str());
}

bool prefers(const Implementation& who, Words attributes, Nodes operands, Node usual) {
  return who.form != nullptr && who.form->preferred != nullptr &&
         who.form->preferred(attributes, operands, usual);
}

// The form of which "fast" says so; null: none.
Implementation* fast_form(const Registry& registry, const Call& call) {
  for (Implementation* each : registry.all) {
    if (each->composite != call.composite || each->form == nullptr) continue;
    if (each->form->fast == nullptr || !device::is_host(call.device)) continue;
    Refusal why;
    ask(&why, *each, call);
    if (why.taken() && each->form->fast(call.operands, call.usual)) return each;
  }
  return nullptr;
}

// What "default" takes on a device: what was registered for it, else the form that is preferred on
// the host.
Implementation* of_device(const Registry& registry, const Call& call) {
  Implementation* found = nullptr;
  for (Implementation* each : registry.all) {
    if (each->composite != call.composite) continue;
    const bool preferred =
        prefers(*each, call.attributes, call.operands, call.usual) && device::is_host(call.device);
    if (each->given.device == 0 && !preferred) continue;
    Refusal why;
    ask(&why, *each, call);
    if (!why.taken()) continue;
    if (!preferred) return each;
    found = each;
  }
  return found;
}

Status choose_status(Node* out, Registry& registry, const Policy& policy, const Call& call) {
  Implementation* who = nullptr;
  if (policy.kind == PolicyKind::kForce) {
    who = registry.find(call.composite, policy.name);
    Refusal why;
    if (who != nullptr) ask(&why, *who, call);
    if (who == nullptr || !why.taken()) return refuse(registry, call, policy.name);
  } else if (policy.kind == PolicyKind::kBenchmark) {
    ASTER_TRY(fastest(&who, registry, call, policy.cached));
  } else {
    if (policy.kind == PolicyKind::kFast) who = fast_form(registry, call);
    if (who == nullptr) who = of_device(registry, call);
  }
  *out = who == nullptr ? call.usual : build_with(registry, *who, call);
  return *out != nullptr ? kOk : last_failure();
}

}  // namespace

Call::Call(engine::Engine& engine, Composite kind, Words words, Nodes nodes, Node node)
    : composite(kind), attributes(words), operands(nodes), usual(node) {
  for (size_t i = 0; i < nodes.size() && i < kMostOperands; ++i) described[i] = describe(nodes[i]);
  // Whatever fails here fails again where it is computed.
  const SavedError before;
  if (!engine::known_device(&device, engine, usual).ok()) before.restore();
  if (device == 0) device = engine.device;
  given = {sizeof(given), device,       uop::public_name(kind), described,
           nodes.size(),  words.data(), words.size(),           describe(usual)};
}

void ask(Refusal* why, const Implementation& who, const Call& call) {
  const auto say = [&](const char* text) {
    std::snprintf(why->text, sizeof(why->text), "%s", text);
  };
  if (who.usual) return;
  if (who.form != nullptr) return who.form->refuse(why, *who.context, call);
  if (who.given.device != 0 && !device::same_type(who.given.device, call.device))
    return say("the operands are on another device");
  if (who.kernel != nullptr) {
    const Signature& s = who.kernel->signature;
    bool fits = s.operands == call.operands.size();
    for (size_t i = 0; fits && i < s.operands; ++i) {
      const KernelValue& value = s.values[i];
      const Node x = call.operands[i];
      fits = value.dtype == x->dtype &&
             std::ranges::equal(value.any ? call.usual->shape() : s.shape(value), x->shape());
    }
    if (!fits) return say("its kernel's signature is another");
  }
  const char* text =
      who.given.refuses == nullptr ? nullptr : who.given.refuses(who.given.self, &call.given);
  if (text != nullptr) say(text[0] == '\0' ? "it says no" : text);
}

Node build_with(Registry& registry, Implementation& implementation, const Call& call) {
  uint32_t& busy = registry.busy[static_cast<size_t>(call.composite)];
  ++busy;
  implementation.retain();
  Node made = nullptr;
  const Status status = build_status(&made, registry, implementation, call);
  implementation.release();
  --busy;
  return status.ok() ? made : nullptr;
}

Node choose_implementation(uop::Chooser& self, Composite composite, Words attributes,
                           Nodes arguments, Node usual) {
  auto& registry = static_cast<Registry&>(self);
  const bool named = uop::public_name(composite)[0] != '\0';
  if (!named || registry.busy[static_cast<size_t>(composite)] != 0) return usual;
  const Policy policy = registry.policy_of(composite);
  if (policy.kind <= PolicyKind::kDefault) {
    const bool any = std::ranges::any_of(registry.all, [&](const Implementation* each) {
      return each->composite == composite &&
             (each->given.device != 0 || prefers(*each, attributes, arguments, usual));
    });
    if (!any) return usual;
  }
  const Graph::Hold hold(registry.engine.graph);
  const Call call(registry.engine, composite, attributes, arguments, usual);
  Node out = nullptr;
  return choose_status(&out, registry, policy, call).ok() ? out : nullptr;
}

Node choose_preferred(engine::Engine& engine, Composite composite, Words attributes,
                      Nodes arguments, Node usual) {
  Registry* registry = nullptr;
  if (!registry_of(&registry, engine).ok()) return nullptr;
  return choose_implementation(*registry, composite, attributes, arguments, usual);
}

void destroy_flow(Context& context, Flow* flow) {
  Graph& g = flow->registry.engine.graph;
  if (flow->function != nullptr) flow->function->release();
  g.release(flow->call.usual);
  for (Node param : *flow->params) g.release(param);
  flow->implementation.release();
  context.heap().destroy(flow->params);
  context.heap().destroy(flow);
}

}  // namespace aster::tensor::registry
