// The public functions of models and values.
#include <algorithm>
#include <cstdio>

#include "engine/engine.h"
#include "nn/layer.h"
#include "nn/onnx/model_object.h"
#include "nn/onnx/symbolic.h"

namespace aster::nn::onnx {

Status Model::weight(Ref* out, Run& run, const Weight& of) {
  const uint32_t* found = weight_index.find(&of);
  if (found != nullptr) {
    *out = weights[*found];
    return kOk;
  }
  ASTER_TRY(of.sparse ? read_sparse(out, run.files, source, of.message)
                      : read_tensor(out, run.files, source, of.message));
  (*out)->constant = true;
  ASTER_TRY(weight_index.set(&of, static_cast<uint32_t>(weights.size())));
  return weights.push(*out);
}

namespace {

const Model* model_of(const aster_ml_onnx* model) {
  return model == nullptr ? nullptr : object_of<Model>(model->impl);
}
Held* held_of(const aster_ml_onnx_value* value) {
  return value == nullptr ? nullptr : object_of<Held>(value->impl);
}
Value* value_of(const aster_ml_onnx_value* value) {
  const Held* held = held_of(value);
  return held == nullptr ? nullptr : &*held->value;
}

void destroy_model(HandleObject* object) {
  Model* model = static_cast<Model*>(object);
  Context& context = *model->context;
  context.heap().destroy(model);
}

void destroy_held(HandleObject* object) {
  Held* held = static_cast<Held*>(object);
  held->context->heap().destroy(held);
}

Status no_value() { return ASTER_FAIL(kARGUMENT, "an empty value, or one that was freed"); }

// A new handle, out of any scope: what it names may be held for long.
Status hand_out(aster_ml_onnx_value* out, Context& context, const Ref& value) {
  Held* held = context.heap().create<Held>();
  if (held == nullptr) return out_of_memory(sizeof(Held));
  held->value = value;
  const Status status = handle_init(held, context, destroy_held);
  if (!status.ok()) {
    context.heap().destroy(held);
    return status;
  }
  scope_remove(held);
  out->impl = held->handle;
  return kOk;
}

Status check_opsets(const ModelProto& proto) {
  for (const Opset& opset : proto.opsets) {
    const int64_t latest = latest_opset(opset.domain);
    if (latest != 0 && opset.version > latest) {
      return ASTER_FAIL(kUNSUPPORTED, "opset %lld of domain '%.*s', the latest known is %lld",
                        static_cast<long long>(opset.version),
                        static_cast<int>(std::min<size_t>(opset.domain.size(), 100)),
                        opset.domain.data(), static_cast<long long>(latest));
    }
  }
  return kOk;
}

Status keep_name(Vec<Text>& names, std::string_view name) {
  Text text(names.memory());
  text << name;
  if (text.c_str() == nullptr) return text.status();
  return names.push(std::move(text));
}

// Reads the messages of a file, or of bytes where there is no path.
Status read_messages(Model& model, const char* path) {
  const Status status = read_model(&model.proto, model.arena, model.source.bytes());
  if (status.code != ASTER_ML_FORMAT) return status;
  char why[300];
  std::snprintf(why, sizeof(why), "%s", SavedError::message());
  return path == nullptr ? ASTER_FAIL(kFORMAT, "no ONNX model: %s", why)
                         : ASTER_FAIL(kFORMAT, "'%s' is no ONNX model: %s", brief_path(path), why);
}

Status fill_model(Model& model, Source source, std::string_view directory, const char* path) {
  model.source = std::move(source);
  model.directory << directory;
  ASTER_TRY(model.directory.status());
  ASTER_TRY(read_messages(model, path));
  ASTER_TRY(check_opsets(model.proto));
  const GraphProto& graph = model.proto.graph;
  for (const Weight& weight : graph.weights) ASTER_TRY(model.top.set(weight.name, true));
  for (const ValueInfo& input : graph.inputs) {
    if (model.top.contains(input.name)) continue;
    ASTER_TRY(model.inputs.push(&input));
    ASTER_TRY(keep_name(model.names, input.name));
    for (const std::string_view name : input.type.names) {
      ASTER_TRY(keep_name(model.axis_names, name));
    }
  }
  for (const ValueInfo& output : graph.outputs) ASTER_TRY(keep_name(model.names, output.name));
  return kOk;
}

Status make_model(aster_ml_onnx* out, Context& context, Source source, std::string_view directory,
                  const char* path) {
  Model* model = context.heap().create<Model>(context);
  if (model == nullptr) return out_of_memory(sizeof(Model));
  Status status = handle_init(model, context, destroy_model);
  if (!status.ok()) {
    context.heap().destroy(model);
    return status;
  }
  scope_remove(model);
  status = fill_model(*model, std::move(source), directory, path);
  if (status.ok()) {
    out->impl = model->handle;
  } else {
    free_handle(model);
  }
  return status;
}

const ValueInfo* info_of(const Model& model, bool output, size_t index) {
  if (output) {
    return index < model.proto.graph.outputs.size() ? &model.proto.graph.outputs[index] : nullptr;
  }
  return index < model.inputs.size() ? model.inputs[index] : nullptr;
}

Status give_type(aster_ml_onnx_type* out, const aster_ml_onnx* model, bool output, size_t index) {
  const Model* impl = model_of(model);
  if (out != nullptr) write_struct(out, aster_ml_onnx_type{});
  if (impl == nullptr || out == nullptr) {
    return ASTER_FAIL(kARGUMENT, "an empty model, or no result, is given");
  }
  const ValueInfo* info = info_of(*impl, output, index);
  if (info == nullptr) {
    return ASTER_FAIL(kRANGE, "%s %zu of a model", output ? "output" : "input", index);
  }
  const Type& type = info->type;
  aster_ml_onnx_type now{};
  now.kind = static_cast<int32_t>(type.kind);
  now.inner = static_cast<int32_t>(type.inner);
  now.element = type.element;
  const ElementInfo* element = element_info(type.element);
  now.dtype = element == nullptr ? 0 : static_cast<int32_t>(element->dtype);
  now.ndim = type.shaped ? static_cast<int32_t>(type.shape.size()) : -1;
  write_struct(out, now);
  return kOk;
}

int64_t dim_of(const aster_ml_onnx* model, bool output, size_t index, size_t axis) {
  const Model* impl = model_of(model);
  const ValueInfo* info = impl == nullptr ? nullptr : info_of(*impl, output, index);
  return info == nullptr || axis >= info->type.shape.size() ? -1 : info->type.shape[axis];
}

Status run_model(Ref* out, Model& model, const Value& inputs, bool compiled) {
  Context& context = *model.context;
  engine::Engine* engine;
  ASTER_TRY(engine::engine_of(&engine, context));
  Vec<Ref> given(context.heap()), results(context.heap());
  for (const Ref& input : inputs.items) ASTER_TRY(given.push(input));
  if (compiled) {
    // Of symbolic sizes those that they have now: programs have variables of their own.
    Ref present;
    ASTER_TRY(make_value(&present, context.heap(), Kind::kSequence));
    for (Ref& input : given) {
      if (is_symbolic(*input) && input->sizes.empty()) {
        const Node node = input->node();
        ASTER_TRY(make_tensor(&input, *engine, node, input->element, false));
      }
      ASTER_TRY(present->items.push(input));
    }
    return compute(out, model, *engine, *present);
  }
  Run run(model, *engine);
  ASTER_TRY(run.graph(&results, model.proto.graph, {given.data(), given.size()}, nullptr, Frame{}));
  ASTER_TRY(make_value(out, context.heap(), Kind::kSequence));
  for (Ref& result : results) ASTER_TRY((*out)->items.push(std::move(result)));
  return kOk;
}

}  // namespace
}  // namespace aster::nn::onnx

using namespace aster::nn::onnx;  // NOLINT: this file ends with the public functions
using aster::ContextLock;
using aster::kOk;
using aster::Status;

int32_t aster_ml_onnx_read(aster_ml_onnx* out, const aster_ml_context* context, const char* path) {
  ASTER_API();
  if (out != nullptr) out->impl = nullptr;
  aster::Context* impl = aster::tensor::context_of(context);
  const ContextLock lock(impl);
  ASTER_TRY(lock.status());
  if (out == nullptr || path == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer is given");
  aster::nn::Source source;
  ASTER_TRY(
      aster::nn::map_file(&source, *impl, path, aster::nn::Mapped::kPrivate, 0, aster::nn::kRest));
  const std::string_view whole(path);
  const size_t slash = whole.rfind('/');
  const std::string_view folder = slash == 0 ? std::string_view("/")
                                  : slash == std::string_view::npos
                                      ? std::string_view(".")
                                      : aster::text_slice(whole, 0, slash);
  return make_model(out, *impl, std::move(source), folder, path);
}

int32_t aster_ml_onnx_from_bytes(aster_ml_onnx* out, const aster_ml_lazy* bytes) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  out->impl = nullptr;
  ASTER_TRY(aster::tensor::check_handle(bytes));
  aster::Context& context = *aster::tensor::cell(bytes)->context;
  const ContextLock lock(&context);
  ASTER_TRY(lock.status());
  aster::nn::Source source;
  ASTER_TRY(aster::nn::tensor_bytes(&source, bytes));
  return make_model(out, context, std::move(source), {}, nullptr);
}

int32_t aster_ml_onnx_free(aster_ml_onnx* model) {
  if (model != nullptr) aster::give_up(&model->impl);
  return kOk;
}

size_t aster_ml_onnx_input_count(const aster_ml_onnx* model) {
  const Model* impl = model_of(model);
  return impl == nullptr ? 0 : impl->inputs.size();
}

size_t aster_ml_onnx_output_count(const aster_ml_onnx* model) {
  const Model* impl = model_of(model);
  return impl == nullptr ? 0 : impl->proto.graph.outputs.size();
}

const char* aster_ml_onnx_input_name(const aster_ml_onnx* model, size_t index) {
  const Model* impl = model_of(model);
  if (impl == nullptr || index >= impl->inputs.size()) return nullptr;
  return const_cast<Model*>(impl)->names[index].c_str();
}

const char* aster_ml_onnx_output_name(const aster_ml_onnx* model, size_t index) {
  const Model* impl = model_of(model);
  if (impl == nullptr || index >= impl->proto.graph.outputs.size()) return nullptr;
  return const_cast<Model*>(impl)->names[impl->inputs.size() + index].c_str();
}

int32_t aster_ml_onnx_input_type(aster_ml_onnx_type* info, const aster_ml_onnx* model,
                                 size_t index) {
  ASTER_API();
  return give_type(info, model, false, index);
}

int32_t aster_ml_onnx_output_type(aster_ml_onnx_type* info, const aster_ml_onnx* model,
                                  size_t index) {
  ASTER_API();
  return give_type(info, model, true, index);
}

int64_t aster_ml_onnx_input_dim(const aster_ml_onnx* model, size_t index, size_t axis) {
  return dim_of(model, false, index, axis);
}

int64_t aster_ml_onnx_output_dim(const aster_ml_onnx* model, size_t index, size_t axis) {
  return dim_of(model, true, index, axis);
}

const char* aster_ml_onnx_input_axis_name(const aster_ml_onnx* model, size_t index, size_t axis) {
  const Model* impl = model_of(model);
  if (impl == nullptr || index >= impl->inputs.size() ||
      axis >= impl->inputs[index]->type.names.size()) {
    return nullptr;
  }
  size_t at = axis;
  for (size_t i = 0; i < index; ++i) at += impl->inputs[i]->type.names.size();
  aster::Text& name = const_cast<Model*>(impl)->axis_names[at];
  return name.view().empty() ? nullptr : name.c_str();
}

int64_t aster_ml_onnx_opset(const aster_ml_onnx* model, const char* domain) {
  const Model* impl = model_of(model);
  if (impl == nullptr || domain == nullptr) return 0;
  for (const Opset& opset : impl->proto.opsets) {
    if (opset.domain == plain_domain(domain)) return opset.version;
  }
  return 0;
}

size_t aster_ml_onnx_program_count(const aster_ml_onnx* model, int32_t symbolic) {
  const Model* impl = model_of(model);
  if (impl == nullptr) return 0;
  const auto counts = [&](const Compiled* each) {
    return each->program.impl != nullptr && (symbolic == 0 || each->symbolic());
  };
  return static_cast<size_t>(std::ranges::count_if(impl->compiled, counts));
}

const char* aster_ml_onnx_refusal(const aster_ml_onnx* model) {
  const Model* impl = model_of(model);
  if (impl == nullptr || impl->refused.view().empty()) return nullptr;
  return const_cast<Model*>(impl)->refused.c_str();
}

int32_t aster_ml_onnx_has_operator(const char* domain, const char* name, int64_t opset) {
  if (domain == nullptr || name == nullptr) return 0;
  return find_row(plain_domain(domain), name, opset) != nullptr ? 1 : 0;
}

namespace {

Status run_handle(aster_ml_onnx_value* out, const aster_ml_onnx* model,
                  const aster_ml_onnx_value* inputs, bool compiled) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  if (out == inputs) return ASTER_FAIL(kARGUMENT, "out is the value of the inputs");
  out->impl = nullptr;
  Model* impl = const_cast<Model*>(model_of(model));
  if (impl == nullptr) return ASTER_FAIL(kARGUMENT, "an empty model, or one that was freed");
  const ContextLock lock(impl->context);
  ASTER_TRY(lock.status());
  const Held* given = held_of(inputs);
  if (given == nullptr) return no_value();
  if (given->context != impl->context) {
    return ASTER_FAIL(kARGUMENT, "model and inputs are of two contexts");
  }
  if (given->value->kind != Kind::kSequence) {
    return ASTER_FAIL(kARGUMENT, "inputs are a sequence with a value for each of them");
  }
  Ref result;
  ASTER_TRY(run_model(&result, *impl, *given->value, compiled));
  return hand_out(out, *impl->context, result);
}

}  // namespace

int32_t aster_ml_onnx_run(aster_ml_onnx_value* out, const aster_ml_onnx* model,
                          const aster_ml_onnx_value* inputs) {
  ASTER_API();
  return run_handle(out, model, inputs, false);
}

int32_t aster_ml_onnx_compute(aster_ml_onnx_value* out, const aster_ml_onnx* model,
                              const aster_ml_onnx_value* inputs) {
  ASTER_API();
  return run_handle(out, model, inputs, true);
}

// ---- Values ----

int32_t aster_ml_onnx_value_from_lazy(aster_ml_onnx_value* out, const aster_ml_lazy* x) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  out->impl = nullptr;
  ASTER_TRY(aster::tensor::check_handle(x));
  aster::engine::Lazy* cell = aster::tensor::cell(x);
  const ContextLock lock(cell->context);
  ASTER_TRY(lock.status());
  Ref value;
  if (cell->sized != nullptr) {  // of symbolic sizes it stays
    aster_ml_lazy copy{};
    aster::nn::Shared kept;
    ASTER_TRY(Status{aster_ml_lazy_copy(&copy, x)});
    ASTER_TRY(aster::nn::Shared::take(&kept, aster::tensor::cell(&copy), false));
    ASTER_TRY(make_value(&value, cell->context->heap(), Kind::kTensor));
    value->cell = std::move(kept);
    value->element = element_of(cell->shown->dtype);
  } else {
    ASTER_TRY(make_tensor(&value, *cell->engine, cell->shown, 0, false));
  }
  if (value->element == 0) {
    return ASTER_FAIL(kDTYPE, "%s has no type in ONNX", aster::uop::brief(cell->shown).text);
  }
  return hand_out(out, *cell->context, value);
}

int32_t aster_ml_onnx_value_from_texts(aster_ml_onnx_value* out, const aster_ml_context* context,
                                       const char* const* texts, size_t count, size_t ndim,
                                       const int64_t* shape) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  out->impl = nullptr;
  aster::Context* impl = aster::tensor::context_of(context);
  const ContextLock lock(impl);
  ASTER_TRY(lock.status());
  aster::uop::Words sizes;
  ASTER_TRY(aster::tensor::shape_argument(&sizes, ndim, shape));
  int64_t elements;
  if (!aster::uop::count_elements(sizes, &elements) || static_cast<size_t>(elements) != count) {
    return ASTER_FAIL(kSHAPE, "%zu texts as %s", count, aster::uop::brief_shape(sizes).text);
  }
  if (texts == nullptr && count != 0) return ASTER_FAIL(kARGUMENT, "texts is a null pointer");
  Ref value;
  ASTER_TRY(make_texts(&value, impl->heap(), sizes));
  for (size_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) return ASTER_FAIL(kARGUMENT, "text %zu is a null pointer", i);
    aster::Text text(impl->heap());
    text << std::string_view(texts[i]);
    ASTER_TRY(text.status());
    ASTER_TRY(value->texts.push(std::move(text)));
  }
  return hand_out(out, *impl, value);
}

int32_t aster_ml_onnx_value_init(aster_ml_onnx_value* out, const aster_ml_context* context,
                                 aster_ml_onnx_kind kind) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  out->impl = nullptr;
  aster::Context* impl = aster::tensor::context_of(context);
  const ContextLock lock(impl);
  ASTER_TRY(lock.status());
  if (kind != ASTER_ML_ONNX_NONE && kind != ASTER_ML_ONNX_SEQUENCE) {
    return ASTER_FAIL(kARGUMENT, "a value of kind %d is not made empty", kind);
  }
  Ref value;
  ASTER_TRY(make_value(&value, impl->heap(), static_cast<Kind>(kind)));
  return hand_out(out, *impl, value);
}

int32_t aster_ml_onnx_value_push(aster_ml_onnx_value* sequence, const aster_ml_onnx_value* item) {
  ASTER_API();
  Held* into = held_of(sequence);
  const Held* given = held_of(item);
  if (into == nullptr || given == nullptr) return no_value();
  const ContextLock lock(into->context);
  ASTER_TRY(lock.status());
  if (into->context != given->context || into->value->kind != Kind::kSequence || into == given) {
    return ASTER_FAIL(kARGUMENT, "an item is added to a sequence of its context, not to itself");
  }
  // Others may hold the sequence as it is, and no sequence comes to hold itself.
  Ref longer;
  ASTER_TRY(make_value(&longer, into->value->heap, Kind::kSequence, into->value->element));
  for (const Ref& one : into->value->items) ASTER_TRY(longer->items.push(one));
  ASTER_TRY(longer->items.push(given->value));
  into->value = std::move(longer);
  return kOk;
}

int32_t aster_ml_onnx_value_free(aster_ml_onnx_value* value) {
  if (value != nullptr) aster::give_up(&value->impl);
  return kOk;
}

int32_t aster_ml_onnx_value_kind(const aster_ml_onnx_value* value) {
  const Value* impl = value_of(value);
  return impl == nullptr ? ASTER_ML_ONNX_NONE : static_cast<int32_t>(impl->kind);
}

int32_t aster_ml_onnx_value_element(const aster_ml_onnx_value* value) {
  const Value* impl = value_of(value);
  return impl == nullptr || impl->kind != Kind::kTensor ? 0 : impl->element;
}

size_t aster_ml_onnx_value_count(const aster_ml_onnx_value* value) {
  const Value* impl = value_of(value);
  if (impl == nullptr) return 0;
  return impl->kind == Kind::kSequence ? impl->items.size() : impl->texts.size();
}

int32_t aster_ml_onnx_value_at(aster_ml_onnx_value* out, const aster_ml_onnx_value* value,
                               size_t index) {
  ASTER_API();
  if (out == nullptr || out == value) return ASTER_FAIL(kARGUMENT, "out is null, or an input");
  out->impl = nullptr;
  const Held* held = held_of(value);
  if (held == nullptr) return no_value();
  const ContextLock lock(held->context);
  ASTER_TRY(lock.status());
  const Value& sequence = *held->value;
  if (sequence.kind != Kind::kSequence) return ASTER_FAIL(kARGUMENT, "the value is no sequence");
  if (index >= sequence.items.size()) {
    return ASTER_FAIL(kRANGE, "item %zu of a sequence of %zu", index, sequence.items.size());
  }
  return hand_out(out, *held->context, sequence.items[index]);
}

int32_t aster_ml_onnx_value_get(aster_ml_lazy* out, const aster_ml_onnx_value* value) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  out->impl = nullptr;
  const Held* held = held_of(value);
  if (held == nullptr) return no_value();
  const ContextLock lock(held->context);
  ASTER_TRY(lock.status());
  const Value& tensor = *held->value;
  if (tensor.kind != Kind::kTensor || tensor.is_texts()) {
    return ASTER_FAIL(kDTYPE, "the value is no tensor of numbers");
  }
  return aster::nn::copy_handle(out, tensor.cell);
}

const char* aster_ml_onnx_value_text(const aster_ml_onnx_value* value, size_t index) {
  Value* impl = value_of(value);
  if (impl == nullptr || index >= impl->texts.size()) return nullptr;
  return impl->texts[index].c_str();
}

size_t aster_ml_onnx_value_ndim(const aster_ml_onnx_value* value) {
  const Value* impl = value_of(value);
  if (impl == nullptr || impl->kind != Kind::kTensor) return 0;
  return impl->is_texts() ? impl->shape.size() : impl->node()->ndim;
}

int64_t aster_ml_onnx_value_dim(const aster_ml_onnx_value* value, size_t axis) {
  const Value* impl = value_of(value);
  if (axis >= aster_ml_onnx_value_ndim(value)) return -1;
  return impl->is_texts() ? impl->shape[axis] : impl->node()->dim(axis);
}

int32_t aster_ml_onnx_value_from_proto(aster_ml_onnx_value* out, const aster_ml_context* context,
                                       const void* data, size_t bytes, aster_ml_onnx_kind kind) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  out->impl = nullptr;
  aster::Context* impl = aster::tensor::context_of(context);
  const ContextLock lock(impl);
  ASTER_TRY(lock.status());
  if (data == nullptr && bytes != 0) return ASTER_FAIL(kARGUMENT, "data is a null pointer");
  if (kind < ASTER_ML_ONNX_TENSOR || kind > ASTER_ML_ONNX_OPTIONAL) {
    return ASTER_FAIL(kARGUMENT, "a message of a value of kind %d", kind);
  }
  aster::engine::Engine* engine;
  ASTER_TRY(aster::engine::engine_of(&engine, *impl));
  aster::nn::Source source;
  ASTER_TRY(aster::nn::create_source(&source, *impl, bytes));
  if (bytes != 0) std::memcpy(source.storage()->data, data, bytes);
  const Files files{*impl, *engine, {}};
  Ref value;
  if (kind == ASTER_ML_ONNX_TENSOR) {
    ASTER_TRY(read_tensor(&value, files, source, source.bytes()));
  } else if (kind == ASTER_ML_ONNX_SEQUENCE) {
    ASTER_TRY(read_sequence(&value, files, source, source.bytes(), 0));
  } else {
    ASTER_TRY(read_optional(&value, files, source, source.bytes(), 0));
  }
  value->known = false;
  return hand_out(out, *impl, value);
}

int32_t aster_ml_onnx_value_to_proto(char* out, size_t* length, size_t capacity,
                                     const aster_ml_onnx_value* value, aster_ml_onnx_kind kind) {
  ASTER_API();
  aster::clear_text(out, length, capacity);
  const Held* held = held_of(value);
  if (held == nullptr) return no_value();
  const ContextLock lock(held->context);
  ASTER_TRY(lock.status());
  aster::engine::Engine* engine;
  ASTER_TRY(aster::engine::engine_of(&engine, *held->context));
  aster::Text text(held->context->heap());
  ASTER_TRY(write_value(text, *engine, *held->value, static_cast<Kind>(kind)));
  return aster::give_text(out, length, capacity, text.view());
}
