#include "nn/onnx/compiled.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "aster_ml/symbolic.h"
#include "engine/engine.h"
#include "engine/kept_copies.h"
#include "engine/recording.h"
#include "nn/fold.h"
#include "nn/onnx/model_object.h"
#include "nn/onnx/symbolic.h"

namespace aster::nn::onnx {

using tensor::is_bound;

Compiled::~Compiled() {
  for (const Result& result : results) {
    for (size_t i = 0; i < result.sizes.size(); ++i) engine.graph.release(result.sizes[i]);
  }
  aster_ml_program_free(&program);
}

namespace {

// Sizes from which on no program is made for all of them: they are bounds of memory.
constexpr Word kMostSize = Word{1} << 24;
// A run of a program with variables may cost what its bounds cost: programs are made for bounds
// that are powers of two, and serve sizes down to this part of them.
constexpr Word kSlack = 4;

bool is_numbers(const Ref& value) {
  return value->kind == Kind::kTensor && value->element != kText;
}

using Inputs = std::span<const Ref>;

Status key_of(Vec<Word>* out, Inputs inputs) {
  for (const Ref& input : inputs) {
    const Node node = input->node();
    ASTER_TRY(out->push(input->element));
    ASTER_TRY(out->push(node->ndim));
    ASTER_TRY(out->append(node->shape().data(), node->ndim));
  }
  return kOk;
}

// ---- Runs ----

// Where the elements of a tensor lie in host memory, computed if they are not there.
Status lend(aster_ml_tensor* out, engine::Engine& engine, Value& value) {
  const void* data = nullptr;
  ASTER_TRY(fetch(&data, engine, value));
  aster_ml_lazy handle = value.cell.handle();
  return Status{aster_ml_lazy_view(out, &handle)};
}

// The first elements of each axis, between memory of two shapes.
void copy_part(char* to, Words to_shape, const char* from, Words from_shape, Words part,
               size_t size) {
  size_t axis = part.size();
  // Inner axes of equal sizes are one piece.
  while (axis > 0 && part[axis - 1] == to_shape[axis - 1] && part[axis - 1] == from_shape[axis - 1])
    size *= static_cast<size_t>(part[--axis]);
  if (axis == 0) {
    if (size != 0) std::memcpy(to, from, size);
    return;
  }
  const auto inner = [&](Words shape) {
    size_t bytes = size;
    for (size_t i = axis; i < part.size(); ++i)
      bytes =
          bytes / static_cast<size_t>(std::max<Word>(part[i], 1)) * static_cast<size_t>(shape[i]);
    return bytes;
  };
  const size_t axes = axis - 1;
  const size_t bytes = inner(part);
  const size_t piece = bytes * static_cast<size_t>(part[axes]);
  Dims at(axes, 0);
  for (;;) {
    size_t target = 0, source = 0;
    for (size_t i = 0; i < axes; ++i) {
      target = (target + static_cast<size_t>(at[i])) * static_cast<size_t>(to_shape[i + 1]);
      source = (source + static_cast<size_t>(at[i])) * static_cast<size_t>(from_shape[i + 1]);
    }
    if (piece != 0) std::memcpy(to + target * bytes, from + source * bytes, piece);
    size_t i = axes;
    while (i > 0 && ++at[i - 1] == part[i - 1]) at[--i] = 0;
    if (i == 0) return;
  }
}

Status values_of(Vec<Word>* out, const Compiled& of, Inputs inputs) {
  for (const Compiled::Variable& each : of.variables)
    ASTER_TRY(out->push(inputs[each.input]->node()->dim(each.axis)));
  return kOk;
}

Status in_order(Vec<Word>* out, const Compiled& of, const Vec<Word>& values) {
  for (const uint32_t each : of.order) ASTER_TRY(out->push(values[each]));
  return kOk;
}

// An input as the program takes it: a part of memory of the greatest sizes where it has variables.
Status give_input(aster_ml_tensor* out, const Compiled& of, size_t i, Value& input) {
  if (!of.symbolic() || !of.staging[i]) return lend(out, of.engine, input);
  const void* from = nullptr;
  void* to = nullptr;
  Value& stage = *of.staging[i];
  ASTER_TRY(fetch(&from, of.engine, input));
  ASTER_TRY(lend(out, of.engine, stage));
  to = static_cast<char*>(out->storage.data) + out->byte_offset;
  const Node node = input.node();
  if (node->count() != 0) {
    copy_part(static_cast<char*>(to), stage.node()->shape(), static_cast<const char*>(from),
              node->shape(), node->shape(), dtype::size(node->dtype));
  }
  return kOk;
}

// The sizes of a result where the variables have values.
Status present(Dims* out, const Compiled& of, const Compiled::Result& result,
               const Vec<Word>& values) {
  *out = result.shape;
  for (size_t i = 0; i < result.sizes.size(); ++i) {
    if (!is_bound(result.sizes[i])) continue;
    const auto value = [&](const engine::Symbol& symbol, int64_t* now) -> Status {
      for (size_t k = 0; k < of.variables.size(); ++k) {
        if (of.variables[k].number == symbol.variable) *now = values[k];
      }
      return kOk;
    };
    ASTER_TRY(of.engine.symbols.value_where(&(*out)[i], result.sizes[i], value));
  }
  return kOk;
}

Status run_program(Ref* out, const Compiled& of, Inputs inputs) {
  engine::Engine& engine = of.engine;
  Heap& heap = engine.context.heap();
  Vec<aster_ml_tensor> in(heap), results(heap);
  Vec<Word> values(heap), ordered(heap);
  ASTER_TRY(make_value(out, heap, Kind::kSequence));
  ASTER_TRY(values_of(&values, of, inputs));
  ASTER_TRY(in_order(&ordered, of, values));
  for (size_t i = 0; i < inputs.size(); ++i) {
    aster_ml_tensor tensor{};
    ASTER_TRY(give_input(&tensor, of, i, *inputs[i]));
    ASTER_TRY(in.push(tensor));
  }
  for (const Compiled::Result& result : of.results) {
    Ref made = result.fixed;
    aster_ml_tensor tensor{};
    if (!made) {
      Dims shape;
      void* data = nullptr;
      ASTER_TRY(present(&shape, of, result, values));
      ASTER_TRY(make_stored(&made, &data, engine, result.dtype, shape, result.element));
      made->known = false;
      // What has variables comes in the program's own memory.
      if (result.sizes.size() == 0) ASTER_TRY(lend(&tensor, engine, *made));
      ASTER_TRY(results.push(tensor));
    }
    ASTER_TRY((*out)->items.push(std::move(made)));
  }
  ASTER_TRY(
      Status{aster_ml_program_run_bound(&of.program, nullptr, ordered.data(), ordered.size(),
                                        in.data(), in.size(), results.data(), results.size())});
  size_t next = 0;
  Status status = kOk;
  for (size_t i = 0; i < of.results.size(); ++i) {
    const Compiled::Result& result = of.results[i];
    if (result.fixed) continue;
    aster_ml_tensor& whole = results[next++];
    if (result.sizes.size() == 0) continue;
    Value& made = *(*out)->items[i];
    const void* to = nullptr;
    if (status.ok()) status = fetch(&to, engine, made);
    const Words shape = made.node()->shape();
    if (status.ok() && made.node()->count() != 0) {
      copy_part(static_cast<char*>(const_cast<void*>(to)), shape,
                static_cast<const char*>(whole.storage.data) + whole.byte_offset, result.shape,
                shape, dtype::size(result.dtype));
    }
    aster_ml_tensor_free(&whole);
  }
  return status;
}

// ---- Compilation ----

// Memory like an input, filled from it: what the program reads is nobody else's.
Status copy_input(Ref* out, engine::Engine& engine, Value& input) {
  const void* from = nullptr;
  ASTER_TRY(fetch(&from, engine, input));
  const Node node = input.node();
  void* to = nullptr;
  ASTER_TRY(make_stored(out, &to, engine, node->dtype, node->shape(), input.element));
  (*out)->known = false;
  const size_t bytes = static_cast<size_t>(node->count()) * dtype::size(node->dtype);
  if (bytes != 0) std::memcpy(to, from, bytes);
  return kOk;
}

// Memory like inputs, which is filled when somebody looks at it: programs do not look at what they
// are captured with.
class Lent {
 public:
  explicit Lent(engine::Engine& engine)
      : engine_(engine), values_(engine.context.heap()), storages_(engine.context.heap()) {}
  ~Lent() {
    for (buffer::Storage* storage : storages_) {
      storage->late.store(nullptr);
      buffer::storage_release(storage);
    }
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  Status add(Value& input) {
    const void* from = nullptr;
    void* to = nullptr;
    ASTER_TRY(fetch(&from, engine_, input));
    const Node node = input.node();
    Ref made;
    ASTER_TRY(make_stored(&made, &to, engine_, node->dtype, node->shape(), input.element));
    made->known = false;
    buffer::Storage* const storage = engine::storage_at(made->node());
    ASTER_TRY(storages_.push(storage));
    buffer::storage_retain(storage);
    storage->late.store(static_cast<const uint8_t*>(from));
    return values_.push(std::move(made));
  }
  Inputs values() const { return {values_.data(), values_.size()}; }
  // For what outlives this.
  void fill() {
    for (buffer::Storage* storage : storages_) engine::bring_late(*storage);
  }

 private:
  engine::Engine& engine_;
  Vec<Ref> values_;
  Vec<buffer::Storage*> storages_;
};

// An input whose sizes are variables where the model gives them no number.
Status variable_input(Ref* out, Compiled& made, const Model& model, Value& input, size_t index,
                      const Vec<Word>& bounds) {
  engine::Engine& engine = made.engine;
  const Node node = input.node();
  tensor::Sizes sizes;
  size_t place = 0;
  for (size_t i = 0; i < index; ++i) place += static_cast<size_t>(made.key[place + 1]) + 2;
  for (size_t axis = 0; axis < node->ndim; ++axis) {
    const Word key = made.key[place + 2 + axis];
    if (key >= 0) {
      sizes.push(engine.graph.index(key));
      continue;
    }
    const auto which = static_cast<size_t>(-1 - key);
    char name[40];
    std::snprintf(name, sizeof(name), "onnx.%p.%zu", static_cast<const void*>(&model), which);
    Node variable = nullptr, bound = nullptr;
    ASTER_TRY(engine.symbols.variable(&variable, name, 1, bounds[which]));
    ASTER_TRY(engine.symbols.bind(&bound, variable, name, node->dim(axis)));
    if (which == made.variables.size()) {
      const uint32_t symbol = engine.symbols.find(uop::sym::linear_of(bound).terms()[0].node);
      ASTER_TRY(made.variables.push({bounds[which], engine.symbols[symbol].variable, index, axis}));
    }
    sizes.push(bound);
  }
  if (!tensor::sized::any_bound(sizes)) {
    ASTER_TRY(made.staging.push(Ref()));
    return copy_input(out, engine, input);
  }
  ASTER_TRY(make_symbolic(out, engine, node->dtype, input.element, sizes));
  Ref stage;
  void* data = nullptr;
  ASTER_TRY(make_stored(&stage, &data, engine, node->dtype, tensor::sized::most_of(sizes),
                        input.element));
  // What lies beyond the sizes is computed with, but never shown: indices stay within bounds.
  const size_t bytes = static_cast<size_t>(stage->node()->count()) * dtype::size(node->dtype);
  std::memset(data, 0, bytes);
  return made.staging.push(std::move(stage));
}

Status note_results(Compiled& made, Inputs results) {
  for (const Ref& value : results) {
    Compiled::Result result;
    if (value->known) {
      result.fixed = value;
    } else {
      engine::Lazy& cell = value->cell.cell();
      const Node whole = engine::whole_of(&cell)->node;
      result.element = value->element;
      result.dtype = whole->dtype;
      result.shape = Dims(whole->shape());
      if (cell.sized != nullptr) {
        ASTER_TRY(tensor::sized::sizes_of(&result.sizes, made.engine.graph, cell));
        for (size_t i = 0; i < result.sizes.size(); ++i) made.engine.graph.retain(result.sizes[i]);
      }
    }
    ASTER_TRY(made.results.push(std::move(result)));
  }
  return kOk;
}

// Handles of values.
Status handles_of(Vec<aster_ml_lazy>* handles, Vec<aster_ml_lazy*>* out, Inputs values,
                  bool known) {
  ASTER_TRY(handles->reserve(values.size()));
  for (const Ref& value : values) {
    if (value->known && !known) continue;
    ASTER_TRY(handles->push(value->cell.handle()));
    ASTER_TRY(out->push(&handles->back()));
  }
  return kOk;
}

// Puts what the model's weights alone make in place of how they make it.
Status fold(Compiled& made, Inputs results) {
  const uop::Graph::Hold hold(made.engine.graph);  // cells leave nodes for what they gave
  Vec<Node> outputs(made.engine.context.heap());
  for (const Ref& value : results) {
    if (!value->known) ASTER_TRY(outputs.push(engine::whole_of(&value->cell.cell())->node));
  }
  ASTER_TRY(fold_constants(&outputs, {}, made.engine, made.engine.dots_bytes(nullptr), true));
  size_t at = 0;
  for (const Ref& value : results) {
    if (value->known) continue;
    engine::Lazy& cell = *engine::whole_of(&value->cell.cell());
    if (cell.node != outputs[at]) engine::set_node(cell, outputs[at]);
    ++at;
  }
  return kOk;
}

// Ends the capture that is open: a program of results.
Status end_capture(Compiled& made, Inputs results) {
  Heap& heap = made.engine.context.heap();
  const aster_ml_context context = made.engine.context.inner_handle();
  Vec<aster_ml_lazy> handles(heap);
  Vec<aster_ml_lazy*> out(heap);
  Status status = fold(made, results);
  if (status.ok()) status = handles_of(&handles, &out, results, false);
  if (status.ok()) status = note_results(made, results);
  if (!status.ok()) {
    aster_ml_engine_capture_cancel(&context);
    return status;
  }
  return Status{aster_ml_engine_capture_end(&made.program, &context, out.data(), out.size())};
}

Status begin_capture(engine::Engine& engine, Inputs inputs) {
  Heap& heap = engine.context.heap();
  const aster_ml_context context = engine.context.inner_handle();
  Vec<aster_ml_lazy> handles(heap);
  Vec<aster_ml_lazy*> in(heap);
  ASTER_TRY(handles_of(&handles, &in, inputs, true));
  ASTER_TRY(Status{aster_ml_engine_capture_begin(&context, in.data(), in.size())});
  engine.recording->dry = true;
  engine.recording->constant = true;  // what a model has is its own
  return kOk;
}

Status compile_lent(Compiled& made, Vec<Ref>* results, Model& model, Inputs given) {
  engine::Engine& engine = made.engine;
  Run run(model, engine);
  ASTER_TRY(run.graph(results, model.proto.graph, given, nullptr, Frame{}));
  const Inputs all{results->data(), results->size()};
  if (run.looked != nullptr || !std::ranges::all_of(all, is_numbers)) return kOk;
  ASTER_TRY(begin_capture(engine, given));
  return end_capture(made, all);
}

// Builds the graph for inputs of these sizes, and compiles it where it is the same for all values.
Status compile(Compiled& made, Vec<Ref>* results, Model& model, Inputs inputs) {
  Lent lent(made.engine);
  for (const Ref& input : inputs) ASTER_TRY(lent.add(*input));
  ASTER_TRY(compile_lent(made, results, model, lent.values()));
  if (made.program.impl == nullptr) lent.fill();  // results are computed of them later
  return kOk;
}

// Which of our variables a program's are.
Status order_variables(Compiled& made) {
  const size_t count = aster_ml_program_count_variables(&made.program);
  for (size_t i = 0; i < count; ++i) {
    aster_ml_program_variable variable{};
    variable.struct_size = sizeof(variable);
    ASTER_TRY(Status{aster_ml_program_get_variable(&variable, &made.program, i)});
    if (variable.fixed != 0)
      return ASTER_FAIL(kUNSUPPORTED, "a value of a size is used where no rule is for it");
    const std::string_view name(variable.name);
    uint32_t which = 0;
    for (const char c : text_slice(name, name.rfind('.') + 1, name.size()))
      which = which * 10 + static_cast<uint32_t>(c - '0');
    ASTER_TRY(made.order.push(which));
  }
  return kOk;
}

Status build_variable(Compiled& made, Model& model, Inputs given) {
  engine::Engine& engine = made.engine;
  const aster_ml_context context = engine.context.inner_handle();
  Vec<Ref> results(engine.context.heap());
  ASTER_TRY(begin_capture(engine, given));
  Run run(model, engine);
  run.capturing = true;
  Status status = run.graph(&results, model.proto.graph, given, nullptr, Frame{});
  const Inputs all{results.data(), results.size()};
  const bool decides = status.code == ASTER_ML_STATE;  // elements of an input, or sizes, were read
  if (decides || (status.ok() && (run.looked != nullptr || !std::ranges::all_of(all, is_numbers))))
    status = ASTER_FAIL(kUNSUPPORTED, "the graph decides by what inputs are");
  if (!status.ok()) {
    aster_ml_engine_capture_cancel(&context);
    return status;
  }
  ASTER_TRY(end_capture(made, all));
  return order_variables(made);
}

// A program with variables where the model gives no number. UNSUPPORTED: there is none.
Status compile_variable(Compiled& made, Model& model, Inputs inputs, const Vec<Word>& bounds) {
  Vec<Ref> given(made.engine.context.heap());
  const Graph::Hold hold(made.engine.graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Ref one;
    ASTER_TRY(variable_input(&one, made, model, *inputs[i], i, bounds));
    ASTER_TRY(given.push(std::move(one)));
  }
  return build_variable(made, model, {given.data(), given.size()});
}

// ---- Which program ----

Compiled* find(const Model& model, const Vec<Word>& key) {
  for (Compiled* each : model.compiled) {
    if (!each->symbolic() && std::ranges::equal(each->key, key)) return each;
  }
  return nullptr;
}

// The key with variables, and the bounds that they need; false where there are none, or a size is
// none that programs are made for.
Status variable_key(bool* out, Vec<Word>* key, Vec<Word>* bounds, const Model& model,
                    Inputs inputs) {
  Vec<std::string_view> names(key->memory());
  Vec<Word> values(key->memory());
  *out = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = model.inputs[i]->type;
    const Node node = inputs[i]->node();
    ASTER_TRY(key->push(inputs[i]->element));
    ASTER_TRY(key->push(node->ndim));
    for (size_t axis = 0; axis < node->ndim; ++axis) {
      const Word size = node->dim(axis);
      // What is 1 is often broadcast, and costs a multiple as a variable.
      const bool open =
          type.shaped && type.shape.size() == node->ndim && type.shape[axis] < 0 && size != 1;
      if (!open) {
        ASTER_TRY(key->push(size));
        continue;
      }
      if (size < 1 || size > kMostSize) return kOk;
      const std::string_view name = type.names[axis];
      size_t which = 0;
      while (which < names.size() && (name.empty() || names[which] != name)) ++which;
      if (which == names.size()) {
        ASTER_TRY(names.push(name));
        ASTER_TRY(values.push(size));
        const auto most = static_cast<Word>(std::bit_ceil(static_cast<uint64_t>(size)));
        ASTER_TRY(bounds->push(std::max(most, kSlack)));
      }
      if (values[which] != size) return kOk;
      ASTER_TRY(key->push(-1 - static_cast<Word>(which)));
    }
  }
  *out = !names.empty();
  return kOk;
}

// A program with variables that is for these inputs.
Status find_variable(Compiled** out, const Model& model, const Vec<Word>& key, Inputs inputs) {
  *out = nullptr;
  for (Compiled* each : model.compiled) {
    if (!each->symbolic() || !std::ranges::equal(each->key, key)) continue;
    Vec<Word> values(key.memory()), ordered(key.memory());
    ASTER_TRY(values_of(&values, *each, inputs));
    ASTER_TRY(in_order(&ordered, *each, values));
    bool fits = aster_ml_program_is_for(&each->program, ordered.data(), ordered.size()) != 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const Word most = each->variables[i].most;
      fits = fits && values[i] <= most && most <= kSlack * values[i];
    }
    if (fits) *out = each;
  }
  return kOk;
}

Compiled* create(engine::Engine& engine, Vec<Word>& key) {
  Heap& heap = engine.context.heap();
  Compiled* made = heap.create<Compiled>(engine, heap);
  if (made != nullptr) made->key = std::move(key);
  return made;
}

Status keep(Model& model, Compiled* made, Status status) {
  if (status.ok()) status = model.compiled.push(made);
  if (!status.ok()) made->engine.context.heap().destroy(made);
  return status;
}

// Whether the model met other sizes before.
bool met_others(const Model& model) {
  return std::ranges::any_of(model.compiled,
                             [](const Compiled* each) { return each->program.impl != nullptr; });
}

Status with_variables(Compiled** out, Model& model, engine::Engine& engine, Inputs inputs) {
  Heap& heap = engine.context.heap();
  Vec<Word> key(heap), bounds(heap);
  bool open = false;
  *out = nullptr;
  ASTER_TRY(variable_key(&open, &key, &bounds, model, inputs));
  if (!open) return kOk;
  ASTER_TRY(find_variable(out, model, key, inputs));
  if (*out != nullptr || !met_others(model) || !model.refused.view().empty()) return kOk;
  Compiled* made = create(engine, key);
  if (made == nullptr) return out_of_memory(sizeof(Compiled));
  const Status status = compile_variable(*made, model, inputs, bounds);
  if (status.code == ASTER_ML_UNSUPPORTED || status.code == ASTER_ML_RANGE) {
    // Said by a query; each size has a program of its own then.
    model.refused << std::string_view(SavedError::message());
    (void)model.refused.c_str();
    heap.destroy(made);
    return kOk;
  }
  ASTER_TRY(keep(model, made, status));
  *out = made;
  return kOk;
}

// Whether inputs are what programs take: numbers in memory of the host, all there.
bool fits(const Model& model, const engine::Engine& engine, Inputs inputs) {
  if (engine.recording != nullptr || inputs.size() != model.inputs.size()) return false;
  return std::ranges::all_of(inputs, is_numbers);
}

Status collect(Ref* out, Heap& heap, Vec<Ref>& results) {
  ASTER_TRY(make_value(out, heap, Kind::kSequence));
  for (Ref& result : results) ASTER_TRY((*out)->items.push(std::move(result)));
  return kOk;
}

Status build_once(Ref* out, Model& model, engine::Engine& engine, Inputs inputs) {
  Heap& heap = engine.context.heap();
  Vec<Ref> results(heap);
  Run run(model, engine);
  ASTER_TRY(run.graph(&results, model.proto.graph, inputs, nullptr, Frame{}));
  return collect(out, heap, results);
}

}  // namespace

Status compute(Ref* out, Model& model, engine::Engine& engine, const Value& inputs) {
  Heap& heap = engine.context.heap();
  const Inputs given{inputs.items.data(), inputs.items.size()};
  if (!fits(model, engine, given)) return build_once(out, model, engine, given);
  Vec<Word> key(heap);
  ASTER_TRY(key_of(&key, given));
  Compiled* found = find(model, key);
  if (found != nullptr && found->program.impl == nullptr)
    return build_once(out, model, engine, given);
  if (found == nullptr) ASTER_TRY(with_variables(&found, model, engine, given));
  if (found != nullptr) return run_program(out, *found, given);
  Compiled* made = create(engine, key);
  if (made == nullptr) return out_of_memory(sizeof(Compiled));
  Vec<Ref> results(heap);
  const Status status = compile(*made, &results, model, given);
  ASTER_TRY(keep(model, made, status));
  return made->program.impl == nullptr ? collect(out, heap, results)
                                       : run_program(out, *made, given);
}

}  // namespace aster::nn::onnx
