#include "nn/onnx/run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "dtype/convert.h"
#include "engine/engine.h"
#include "nn/onnx/model_object.h"
#include "nn/onnx/symbolic.h"

namespace aster::nn::onnx {

// Nodes that one run goes through at most: loops in a model end, or are refused.
constexpr uint64_t kMostSteps = 10'000'000;
constexpr uint64_t kCall = 16;  // nodes that a call of a function counts as
// Values that are computed again for values that are computed again.
constexpr int kMostAgain = 6;
// Elements up to which what is known is computed at once.
constexpr int64_t kMostFolded = 4096;

Status Scope::set(std::string_view name, Ref value) {
  const uint32_t* found = index_.find(name);
  if (found != nullptr) {
    values_[*found] = std::move(value);
    return kOk;
  }
  ASTER_TRY(index_.set(name, static_cast<uint32_t>(values_.size())));
  return values_.push(std::move(value));
}

Ref Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
    const uint32_t* found = scope->index_.find(name);
    if (found != nullptr) return scope->values_[*found];
  }
  return {};
}

Run::Run(Model& owner, engine::Engine& of)
    : model(owner), engine(of), g(of.graph), files{of.context, of, owner.directory.view()} {}

const Source& Run::files_source() const { return model.source; }

int64_t Run::version_of(std::string_view domain, const Frame& frame) const {
  for (const Frame* f = &frame; f != nullptr && f->function != nullptr; f = f->above) {
    for (const Opset& opset : f->function->opsets) {
      if (opset.domain == domain) return opset.version;
    }
  }
  for (const Opset& opset : model.proto.opsets) {
    if (opset.domain == domain) return opset.version;
  }
  return 1;
}

namespace {

// Whether a node is (q - z) s of bytes, behind views: what multiplies it may do so as integers, so
// it is left as it is, though it is the same in every run.
bool is_dequantised(Node node) {
  const auto is_byte = [](Node x) { return x->dtype == DType::kInt8 || x->dtype == DType::kUInt8; };
  while (node != nullptr && node->nsrc == 1 && uop::is_movement(node->op)) node = node->src(0);
  if (node == nullptr || node->op != uop::Op::kMul || node->dtype != DType::kFloat32) return false;
  for (Node whole : node->src()) {
    if (whole->op != uop::Op::kCast) continue;
    whole = whole->src(0);
    if (whole->op == uop::Op::kSub) whole = whole->src(0);
    if (is_byte(whole) || (whole->op == uop::Op::kCast && is_byte(whole->src(0)))) return true;
  }
  return false;
}

}  // namespace

Status Run::fold(Value& value) {
  const Node node = value.node();
  if (node == nullptr || (is_dequantised(node) && engine.context.options().strict_parity == 0) ||
      node->op == uop::Op::kBuffer || uop::is_const(node) || node->count() > kMostFolded) {
    return kOk;
  }
  const void* data;
  return fetch(&data, engine, value);
}

Status Run::graph(Vec<Ref>* outputs, const GraphProto& graph, std::span<const Ref> inputs,
                  const Scope* outer, const Frame& frame) {
  if (frame.depth > kMostDepth) {
    return ASTER_FAIL(kFORMAT, "graphs and functions nested more than %d deep", kMostDepth);
  }
  Heap& heap = engine.context.heap();
  Scope scope(heap, outer);
  scope.nodes = graph.nodes;
  if (outer == nullptr) top_ = &scope;
  for (const Weight& weight : graph.weights) {
    Ref value;
    ASTER_TRY(model.weight(&value, *this, weight));
    ASTER_TRY(scope.set(weight.name, value));
  }
  size_t next = 0;
  for (const ValueInfo& input : graph.inputs) {
    const bool weight = outer == nullptr && model.is_weight(graph, input.name);
    if (weight) continue;
    if (next >= inputs.size()) {
      return ASTER_FAIL(
          kARGUMENT, "graph '%.*s' has no value for its input '%.*s'",
          static_cast<int>(std::min<size_t>(graph.name.size(), 100)), graph.name.data(),
          static_cast<int>(std::min<size_t>(input.name.size(), 100)), input.name.data());
    }
    ASTER_TRY(scope.set(input.name, inputs[next++]));
  }
  if (next < inputs.size()) {
    return ASTER_FAIL(kARGUMENT, "graph '%.*s' takes %zu inputs, %zu are given",
                      static_cast<int>(std::min<size_t>(graph.name.size(), 100)), graph.name.data(),
                      next, inputs.size());
  }
  ASTER_TRY(nodes(graph.nodes, scope, frame));
  for (const ValueInfo& output : graph.outputs) {
    Ref value = scope.find(output.name);
    if (!value) {
      return ASTER_FAIL(kFORMAT, "nothing computes output '%.*s'",
                        static_cast<int>(std::min<size_t>(output.name.size(), 200)),
                        output.name.data());
    }
    ASTER_TRY(outputs->push(std::move(value)));
  }
  return kOk;
}

Status Run::spend(uint64_t steps) {
  steps_ += steps;
  if (steps_ <= kMostSteps) return kOk;
  return ASTER_FAIL(kRANGE, "the loops of the model run through more than %llu nodes",
                    static_cast<unsigned long long>(kMostSteps));
}

Status Run::nodes(std::span<const NodeProto> nodes, Scope& scope, const Frame& frame) {
  for (const NodeProto& proto : nodes) {
    ASTER_TRY(spend(1));
    if (engine.context.interrupt().requested()) return Interrupt::stopped("running a model");
    ASTER_TRY(node(proto, scope, frame));
  }
  return kOk;
}

Status Run::node(const NodeProto& proto, Scope& scope, const Frame& frame) {
  for (const FunctionProto& function : model.proto.functions) {
    if (function.name == proto.op && function.domain == proto.domain &&
        function.overload == proto.overload) {
      return call(proto, function, scope, frame);
    }
  }
  if (&scope == top_ && frame.function == nullptr) {
    bool kept = false;
    ASTER_TRY(take_kept(&kept, proto, scope));
    if (kept) return kOk;
  }
  const int64_t version = version_of(proto.domain, frame);
  const Row* row = find_row(proto.domain, proto.op, version);
  if (row == nullptr) {
    return ASTER_FAIL(kUNSUPPORTED, "operator %.*s%s%.*s of opset %lld",
                      static_cast<int>(std::min<size_t>(proto.domain.size(), 100)),
                      proto.domain.data(), proto.domain.empty() ? "" : ".",
                      static_cast<int>(std::min<size_t>(proto.op.size(), 100)), proto.op.data(),
                      static_cast<long long>(version));
  }
  return build(proto, *row, version, scope, frame);
}

Status Run::take_kept(bool* out, const NodeProto& proto, Scope& scope) {
  for (const std::string_view name : proto.outputs) {
    if (!name.empty() && !model.kept(name)) return kOk;
  }
  for (const std::string_view name : proto.outputs) {
    if (!name.empty()) ASTER_TRY(scope.set(name, model.kept(name)));
  }
  *out = true;
  return kOk;
}

void Run::look_at(const NodeProto& proto) {
  if (looked == nullptr) looked = &proto;
}

Status Run::call(const NodeProto& proto, const FunctionProto& function, Scope& scope,
                 const Frame& frame) {
  if (frame.depth > kMostDepth) {
    return ASTER_FAIL(kFORMAT, "functions nested more than %d deep", kMostDepth);
  }
  ASTER_TRY(spend(kCall));
  Scope inner(engine.context.heap(), nullptr);
  for (size_t i = 0; i < function.inputs.size() && i < proto.inputs.size(); ++i) {
    Ref value = scope.find(proto.inputs[i]);
    if (value) ASTER_TRY(inner.set(function.inputs[i], std::move(value)));
  }
  inner.nodes = function.nodes;
  const Frame deeper{&function, &proto, &frame, frame.depth + 1};
  ASTER_TRY(nodes(function.nodes, inner, deeper));
  for (size_t i = 0; i < function.outputs.size() && i < proto.outputs.size(); ++i) {
    if (proto.outputs[i].empty()) continue;
    Ref value = inner.find(function.outputs[i]);
    if (!value) {
      return ASTER_FAIL(kFORMAT, "function '%.*s' does not compute '%.*s'",
                        static_cast<int>(std::min<size_t>(function.name.size(), 100)),
                        function.name.data(),
                        static_cast<int>(std::min<size_t>(function.outputs[i].size(), 100)),
                        function.outputs[i].data());
    }
    ASTER_TRY(scope.set(proto.outputs[i], std::move(value)));
  }
  return kOk;
}

namespace {

using Names = Map<std::string_view, uint32_t, TextHash>;

// What a node reads, and what the graphs in it do.
Status add_reads(Names* out, const NodeProto& node) {
  for (const std::string_view name : node.inputs) ASTER_TRY(out->set(name, 0));
  for (const Attribute& attribute : node.attributes) {
    if (attribute.graph == nullptr) continue;
    for (const NodeProto& inner : attribute.graph->nodes) ASTER_TRY(add_reads(out, inner));
  }
  return kOk;
}

bool has_any(const Names& names, std::span<const std::string_view> list) {
  return std::ranges::any_of(
      list, [&](std::string_view name) { return !name.empty() && names.find(name) != nullptr; });
}

}  // namespace

Status Run::again(Ref* out, std::string_view name, std::span<const Given> given, Scope& inner,
                  const NodeProto& node, const Frame& frame) {
  const auto writes = [](const NodeProto& proto, std::string_view what) {
    return std::ranges::find(proto.outputs, what) != proto.outputs.end();
  };
  if (again_ == kMostAgain)
    return ASTER_FAIL(kUNSUPPORTED, "gradients of gradients, more than %d deep", kMostAgain);
  std::span<const NodeProto> before;
  for (const Scope* scope = inner.outer(); scope != nullptr; scope = scope->outer()) {
    before = scope->nodes;
    for (size_t i = 0; i < before.size(); ++i) {
      if (&before[i] == &node) before = before.first(i);
    }
    if (std::ranges::any_of(before, [&](const NodeProto& n) { return writes(n, name); })) break;
    before = {};
  }
  Heap& heap = engine.context.heap();
  Names wanted(heap), others(heap);
  Vec<const NodeProto*> chosen(heap);
  ASTER_TRY(wanted.set(name, 0));
  for (const Given& each : given) ASTER_TRY(others.set(each.name, 0));
  for (size_t i = before.size(); i-- > 0;) {
    const bool needed = std::ranges::any_of(before[i].outputs, [&](std::string_view output) {
      return !output.empty() && wanted.find(output) != nullptr && others.find(output) == nullptr;
    });
    if (!needed) continue;
    ASTER_TRY(chosen.push(&before[i]));
    ASTER_TRY(add_reads(&wanted, before[i]));
  }
  if (chosen.empty()) {
    return ASTER_FAIL(kFORMAT, "nothing before it computes '%.*s'",
                      static_cast<int>(std::min<size_t>(name.size(), 200)), name.data());
  }
  for (const Given& each : given) ASTER_TRY(inner.set(each.name, each.value));
  Status status;
  ++again_;
  for (size_t i = chosen.size(); i-- > 0 && status.ok();) {
    status = nodes({chosen[i], 1}, inner, frame);
    if (!status.ok() || !has_any(others, chosen[i]->outputs)) continue;
    for (const Given& each : given) {
      if (status.ok()) status = inner.set(each.name, each.value);
    }
  }
  --again_;
  ASTER_TRY(status);
  *out = inner.find(name);
  return kOk;
}

namespace {

// The failure of a node, told with its operator and name.
Status told(const Op& op, const NodeProto& proto, Status status) {
  char message[360];
  std::snprintf(message, sizeof(message), "%s", SavedError::message());
  return fail_at(static_cast<Code>(status.code), ASTER_MODULE, "onnx", 0, "%.*s '%.*s': %s",
                 static_cast<int>(std::min<size_t>(proto.op.size(), 60)), proto.op.data(),
                 static_cast<int>(std::min<size_t>(proto.name.size(), 60)), proto.name.data(),
                 message);
  (void)op;
}

}  // namespace

Status Run::build(const NodeProto& proto, const Row& row, int64_t version, Scope& scope,
                  const Frame& frame) {
  Op op(*this, proto, version, scope, frame);
  op.literals_ = row.literals;
  op.fail(op.gather());
  if (op.ok()) {
    std::optional<Graph::Hold> hold;
    if (!row.controls) hold.emplace(g);
    if (op.any_symbolic()) {
      build_symbolic(op, row);
    } else {
      row.build(op);
    }
  }
  if (op.random_) look_at(proto);
  const bool constant = op.ok() && !row.controls && !op.random_ && op.all_constant();
  const bool outermost = &scope == top_ && frame.function == nullptr;
  for (size_t i = 0; i < op.outputs_.size() && op.ok(); ++i) {
    if (!op.wants(i)) continue;
    if (!op.outputs_[i]) {
      op.fail(ASTER_FAIL(kUNSUPPORTED, "result %zu is not computed", i));
      break;
    }
    Value& value = *op.outputs_[i];
    if (constant) value.constant = true;
    if (value.known && value.kind == Kind::kTensor) op.fail(fold(value));
    if (op.ok()) op.fail(scope.set(proto.outputs[i], op.outputs_[i]));
    if (op.ok() && constant && outermost) op.fail(model.keep(proto.outputs[i], op.outputs_[i]));
  }
  return op.ok() ? kOk : told(op, proto, op.status());
}

// ---- Operands ----

Op::Op(Run& owner, const NodeProto& node, int64_t opset, const Scope& names, const Frame& in)
    : run(owner),
      g(owner.g),
      proto(node),
      version(opset),
      scope(names),
      frame(in),
      inputs_(heap()),
      outputs_(heap()),
      shown_(heap()),
      sized_(heap()),
      arena_(owner.engine.context.blocks()) {
  const size_t size = std::min(node.op.size(), sizeof(name_) - 1);
  std::copy_n(node.op.data(), size, name_);
  name_[size] = '\0';
}

Status Op::gather() {
  for (const std::string_view input : proto.inputs) {
    Ref value = input.empty() ? Ref() : scope.find(input);
    if (!input.empty() && !value && frame.function == nullptr) {
      return ASTER_FAIL(kFORMAT, "nothing before it computes '%.*s'",
                        static_cast<int>(std::min<size_t>(input.size(), 200)), input.data());
    }
    ASTER_TRY(inputs_.push(std::move(value)));
  }
  // What weights alone make is computed once for all runs.
  const bool strict = run.engine.context.options().strict_parity != 0;
  if (!all_known() && (run.engine.recording == nullptr || run.capturing)) {
    for (const Ref& input : inputs_) {
      if (input && input->known && input->kind == Kind::kTensor && !is_stored(*input) &&
          !(is_dequantised(input->node()) && !strict)) {
        const void* data;
        ASTER_TRY(fetch(&data, engine(), *input));
      }
    }
  }
  for (size_t i = 0; i < proto.outputs.size(); ++i) ASTER_TRY(outputs_.push(Ref()));
  return kOk;
}

void Op::read(const void** out, Value& given) {
  if (!given.known || !given.sizes.empty()) run.look_at(proto);
  fail(fetch(out, engine(), given));
}

Ref Op::value(size_t i) {
  if (!has(i)) fail(ASTER_FAIL(kARGUMENT, "operand %zu is missing", i));
  return has(i) ? inputs_[i] : Ref();
}

Node Op::literal(Value& given) {
  const Node node = given.node();
  const void* data = nullptr;
  fail(fetch(&data, engine(), given));
  if (!ok()) return nullptr;
  Word word = 0;
  dtype::convert(&word, dtype::is_float(node->dtype) ? DType::kFloat64 : DType::kInt64, data,
                 node->dtype, 1);
  return g.constant_word(node->dtype, word, node->shape());
}

Node Op::in(size_t i) {
  if (!ok()) return nullptr;
  const Ref given = value(i);
  if (!given) return nullptr;
  if (given->kind == Kind::kTensor && given->element != kText) {
    if (i < shown_.size() && shown_[i] != nullptr) return shown_[i];
    const bool one = given->constant && given->node() != nullptr && given->node()->count() == 1;
    return one && literals_ ? literal(*given) : given->node();
  }
  fail(ASTER_FAIL(kDTYPE, "operand %zu is no tensor of numbers", i));
  return nullptr;
}

int32_t Op::element(size_t i) { return has(i) ? inputs_[i]->element : 0; }

template <typename T>
std::span<const T> Op::elements(size_t i, bool floats) {
  if (in(i) == nullptr) return {};
  const void* data = nullptr;
  read(&data, *inputs_[i]);
  if (!ok()) return {};
  const Node node = inputs_[i]->node();
  if (!floats && dtype::is_float(node->dtype)) {
    fail(ASTER_FAIL(kDTYPE, "operand %zu is %s, integers are needed", i, uop::brief(node).text));
    return {};
  }
  const auto count = static_cast<size_t>(node->count());
  T* out = arena_.array<T>(count);
  if (out == nullptr) {
    fail(out_of_memory(count * sizeof(T)));
    return {};
  }
  const DType wide = floats ? DType::kFloat64 : DType::kInt64;
  dtype::convert(out, wide, data, node->dtype, count);
  return {out, count};
}

Words Op::ints(size_t i) { return elements<Word>(i, false); }
std::span<const double> Op::reals(size_t i) { return elements<double>(i, true); }

int64_t Op::scalar(size_t i, int64_t fallback) {
  if (!has(i)) return fallback;
  const Words all = ints(i);
  if (ok() && all.size() != 1)
    fail(ASTER_FAIL(kSHAPE, "operand %zu has %zu elements, one is needed", i, all.size()));
  return ok() ? all[0] : fallback;
}

double Op::real(size_t i, double fallback) {
  if (!has(i)) return fallback;
  const std::span<const double> all = reals(i);
  if (ok() && all.size() != 1)
    fail(ASTER_FAIL(kSHAPE, "operand %zu has %zu elements, one is needed", i, all.size()));
  return ok() ? all[0] : fallback;
}

// ---- Attributes ----

namespace {

const Attribute* in_list(std::span<const Attribute> list, std::string_view key) {
  for (const Attribute& one : list) {
    if (one.name == key) return &one;
  }
  return nullptr;
}

// What a reference to an attribute of the function around stands for.
const Attribute* follow(const Attribute* found, const Frame* frame) {
  while (found != nullptr && !found->refers.empty()) {
    if (frame == nullptr || frame->caller == nullptr) return nullptr;
    const std::string_view key = found->refers;
    found = in_list(frame->caller->attributes, key);
    if (found == nullptr) return in_list(frame->function->defaults, key);
    frame = frame->above;
  }
  return found;
}

}  // namespace

const Attribute* Op::attribute(std::string_view key) const {
  return follow(in_list(proto.attributes, key), &frame);
}
int64_t Op::integer(std::string_view key, int64_t fallback) const {
  const Attribute* found = attribute(key);
  return found == nullptr ? fallback : found->i;
}
double Op::number(std::string_view key, double fallback) const {
  const Attribute* found = attribute(key);
  return found == nullptr ? fallback : found->f;
}
std::string_view Op::text(std::string_view key, std::string_view fallback) const {
  const Attribute* found = attribute(key);
  return found == nullptr ? fallback : found->s;
}
Words Op::integers(std::string_view key) const {
  const Attribute* found = attribute(key);
  return found == nullptr ? Words() : found->ints;
}
std::span<const double> Op::numbers(std::string_view key) const {
  const Attribute* found = attribute(key);
  return found == nullptr ? std::span<const double>() : found->floats;
}
std::span<const std::string_view> Op::texts(std::string_view key) const {
  const Attribute* found = attribute(key);
  return found == nullptr ? std::span<const std::string_view>() : found->strings;
}

Ref Op::tensor(std::string_view key) {
  const Attribute* found = attribute(key);
  Ref out;
  if (found == nullptr || found->tensor.data() == nullptr) return out;
  fail(read_tensor(&out, run.files, run.files_source(), found->tensor));
  return out;
}

Words Op::axes(size_t i, int64_t since) {
  return version >= since ? (has(i) ? ints(i) : Words()) : integers("axes");
}

// ---- Results ----

bool Op::all_known() const {
  if (random_) return false;
  for (const Ref& input : inputs_) {
    if (input && !input->known) return false;
  }
  return true;
}

bool Op::any_symbolic() const {
  return std::ranges::any_of(inputs_,
                             [](const Ref& input) { return input && is_symbolic(*input); });
}

void Op::show(std::span<const Node> nodes, std::span<const size_t> places) {
  shown_.clear();
  if (nodes.empty()) return;
  fail(shown_.resize(inputs_.size(), nullptr));
  for (size_t i = 0; i < nodes.size() && ok(); ++i) shown_[places[i]] = nodes[i];
}

bool Op::sized_operand(aster_ml_lazy* out, Node node) const {
  for (const Ref& input : inputs_) {
    const bool found =
        input && is_symbolic(*input) && input->sizes.empty() && input->node() == node;
    if (!found) continue;
    *out = input->cell.handle();
    return true;
  }
  return false;
}

Status Op::keep_sized(aster_ml_lazy* made) {
  engine::Lazy* cell = tensor::cell(made);
  if (cell == nullptr || cell->sized == nullptr) return kOk;
  Shared kept;
  made->impl = nullptr;
  ASTER_TRY(Shared::take(&kept, cell, false));
  return sized_.push(std::move(kept));
}

bool Op::all_constant() const {
  for (const Ref& input : inputs_) {
    if (input && !input->constant) return false;
  }
  return true;
}

void Op::set(size_t i, Node node, int32_t element) {
  if (!ok() || !wants(i)) return;
  Ref made;
  for (const Shared& cell : sized_) {
    if (cell.node() != node || node == nullptr) continue;
    fail(
        make_value(&made, heap(), Kind::kTensor, element != 0 ? element : element_of(node->dtype)));
    if (!ok()) return;
    made->cell = cell;
    outputs_[i] = std::move(made);
    return;
  }
  fail(make_tensor(&made, engine(), node, element, all_known()));
  if (ok()) outputs_[i] = std::move(made);
}

void Op::set(size_t i, const Ref& value) {
  if (!ok() || !wants(i)) return;
  if (!value) {
    fail(last_failure());
    return;
  }
  outputs_[i] = value;
}

Node Op::stored(Words values, Words shape, DType dtype) {
  Ref made;
  fail(make_integers(&made, engine(), values, shape, dtype));
  return ok() ? made->node() : nullptr;
}

Node Op::stored(std::span<const double> values, Words shape, DType dtype) {
  Ref made;
  void* data;
  fail(make_stored(&made, &data, engine(), dtype, shape));
  if (!ok()) return nullptr;
  dtype::convert(data, dtype, values.data(), DType::kFloat64, values.size());
  return made->node();
}

size_t Op::axis(int64_t given, size_t ndim) {
  size_t out = 0;
  if (ok()) fail(tensor::resolve_axis(&out, given, ndim));
  return ok() ? out : 0;
}

Dims Op::resolved(Words axes, size_t ndim) {
  Dims out;
  if (ok()) fail(tensor::resolve_axes(&out, {axes.size(), axes.data()}, ndim));
  if (!ok()) out.count = 0;
  return out;
}

Vec<Ref> Op::body(std::string_view key, std::span<const Ref> inputs) {
  Vec<Ref> outputs(heap());
  const Attribute* found = attribute(key);
  if (ok() && (found == nullptr || found->graph == nullptr)) {
    fail(ASTER_FAIL(kFORMAT, "attribute '%.*s' is no graph", static_cast<int>(key.size()),
                    key.data()));
  }
  if (!ok()) return outputs;
  Frame deeper = frame;
  deeper.depth += 1;
  fail(run.graph(&outputs, *found->graph, inputs, &scope, deeper));
  return outputs;
}

}  // namespace aster::nn::onnx
