#include "nn/onnx/compiled.h"

#include <algorithm>
#include <cstring>

#include "engine/engine.h"
#include "engine/recording.h"
#include "nn/onnx/model_object.h"

namespace aster::nn::onnx {
namespace {

bool is_numbers(const Ref& value) {
  return value->kind == Kind::kTensor && value->element != kText;
}

Status key_of(Vec<Word>* out, std::span<const Ref> inputs) {
  for (const Ref& input : inputs) {
    const Node node = input->node();
    ASTER_TRY(out->push(input->element));
    ASTER_TRY(out->push(node->ndim));
    ASTER_TRY(out->append(node->shape().data(), node->ndim));
  }
  return kOk;
}

Compiled* find(const Model& model, const Vec<Word>& key) {
  for (Compiled* each : model.compiled) {
    if (std::ranges::equal(each->key, key)) return each;
  }
  return nullptr;
}

// Where the elements of a tensor lie in host memory, computed if they are not there.
Status lend(aster_ml_tensor* out, engine::Engine& engine, Value& value) {
  const void* data = nullptr;
  ASTER_TRY(fetch(&data, engine, value));
  aster_ml_lazy handle = value.cell.handle();
  return Status{aster_ml_lazy_view(out, &handle)};
}

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

// The program of a graph that was built of inputs.
Status capture(Compiled& made, engine::Engine& engine, std::span<const Ref> inputs,
               std::span<const Ref> results) {
  Heap& heap = engine.context.heap();
  const aster_ml_context context = engine.context.inner_handle();
  Vec<aster_ml_lazy> handles(heap);
  Vec<aster_ml_lazy*> in(heap), out(heap);
  ASTER_TRY(handles.reserve(inputs.size() + results.size()));
  const auto add = [&](Vec<aster_ml_lazy*>& list, const Ref& value) -> Status {
    ASTER_TRY(handles.push(value->cell.handle()));
    return list.push(&handles.back());
  };
  for (const Ref& input : inputs) ASTER_TRY(add(in, input));
  for (size_t i = 0; i < results.size(); ++i) {
    const Ref& value = results[i];
    Compiled::Result result;
    if (value->known) result.fixed = value;
    if (!value->known) {
      result.element = value->element;
      result.dtype = value->node()->dtype;
      result.shape = Dims(value->node()->shape());
      ASTER_TRY(add(out, value));
    }
    ASTER_TRY(made.results.push(std::move(result)));
  }
  ASTER_TRY(Status{aster_ml_engine_capture_begin(&context, in.data(), in.size())});
  engine.recording->dry = true;
  return Status{aster_ml_engine_capture_end(&made.program, &context, out.data(), out.size())};
}

// Builds the graph for inputs of these sizes, and compiles it where it is the same for all values.
Status compile(Compiled& made, Vec<Ref>* results, Model& model, engine::Engine& engine,
               std::span<const Ref> inputs) {
  Heap& heap = engine.context.heap();
  Vec<Ref> copies(heap);
  for (const Ref& input : inputs) {
    Ref copy;
    ASTER_TRY(copy_input(&copy, engine, *input));
    ASTER_TRY(copies.push(std::move(copy)));
  }
  Run run(model, engine);
  const std::span<const Ref> given{copies.data(), copies.size()};
  ASTER_TRY(run.graph(results, model.proto.graph, given, nullptr, Frame{}));
  const bool tensors = std::ranges::all_of(*results, is_numbers);
  if (run.looked != nullptr || !tensors) return kOk;
  return capture(made, engine, given, {results->data(), results->size()});
}

Status run_program(Ref* out, const Compiled& of, engine::Engine& engine,
                   std::span<const Ref> inputs) {
  Heap& heap = engine.context.heap();
  Vec<aster_ml_tensor> in(heap), results(heap);
  ASTER_TRY(make_value(out, heap, Kind::kSequence));
  for (const Ref& input : inputs) {
    aster_ml_tensor tensor{};
    ASTER_TRY(lend(&tensor, engine, *input));
    ASTER_TRY(in.push(tensor));
  }
  for (const Compiled::Result& result : of.results) {
    Ref made = result.fixed;
    if (!made) {
      void* data = nullptr;
      ASTER_TRY(
          make_stored(&made, &data, engine, result.dtype, result.shape, result.element));
      made->known = false;
      aster_ml_tensor tensor{};
      ASTER_TRY(lend(&tensor, engine, *made));
      ASTER_TRY(results.push(tensor));
    }
    ASTER_TRY((*out)->items.push(std::move(made)));
  }
  return Status{aster_ml_program_run(&of.program, nullptr, in.data(), in.size(), results.data(),
                                     results.size())};
}

// Whether inputs are what programs take: numbers in memory of the host, all there.
bool fits(const Model& model, const engine::Engine& engine, std::span<const Ref> inputs) {
  if (engine.recording != nullptr || inputs.size() != model.inputs.size()) return false;
  return std::ranges::all_of(inputs, is_numbers);
}

Status collect(Ref* out, Heap& heap, Vec<Ref>& results) {
  ASTER_TRY(make_value(out, heap, Kind::kSequence));
  for (Ref& result : results) ASTER_TRY((*out)->items.push(std::move(result)));
  return kOk;
}

}  // namespace

Status compute(Ref* out, Model& model, engine::Engine& engine, const Value& inputs) {
  Heap& heap = engine.context.heap();
  const std::span<const Ref> given{inputs.items.data(), inputs.items.size()};
  Vec<Ref> results(heap);
  if (!fits(model, engine, given)) {
    Run run(model, engine);
    ASTER_TRY(run.graph(&results, model.proto.graph, given, nullptr, Frame{}));
    return collect(out, heap, results);
  }
  Vec<Word> key(heap);
  ASTER_TRY(key_of(&key, given));
  Compiled* found = find(model, key);
  if (found != nullptr && found->program.impl != nullptr)
    return run_program(out, *found, engine, given);
  if (found != nullptr) {
    Run run(model, engine);
    ASTER_TRY(run.graph(&results, model.proto.graph, given, nullptr, Frame{}));
    return collect(out, heap, results);
  }
  Compiled* made = heap.create<Compiled>(heap);
  if (made == nullptr) return out_of_memory(sizeof(Compiled));
  made->key = std::move(key);
  Status status = compile(*made, &results, model, engine, given);
  if (status.ok()) status = model.compiled.push(made);
  if (!status.ok()) {
    heap.destroy(made);
    return status;
  }
  return made->program.impl == nullptr ? collect(out, heap, results)
                                       : run_program(out, *made, engine, given);
}

}  // namespace aster::nn::onnx
