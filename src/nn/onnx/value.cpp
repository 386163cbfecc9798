#include "nn/onnx/value.h"

#include <cstring>

#include "device/device.h"
#include "engine/engine.h"
#include "engine/recording.h"
#include "runtime/reference/interpret.h"

namespace aster::nn::onnx {

Ref::Ref(const Ref& other) : value_(other.value_) {
  if (value_ != nullptr) ++value_->references;
}

// Sequences hold only what is there before them: no cycles, and depth is that of the types.
Ref::~Ref() {
  if (value_ == nullptr || --value_->references != 0) return;
  Heap& heap = value_->heap;
  heap.destroy(value_);
}

Status make_value(Ref* out, Heap& heap, Kind kind, int32_t element) {
  Value* made = heap.create<Value>(heap);
  if (made == nullptr) return out_of_memory(sizeof(Value));
  made->kind = kind;
  made->element = element;
  *out = Ref(made);
  return kOk;
}

Status make_tensor(Ref* out, engine::Engine& engine, Node node, int32_t element, bool known) {
  if (node == nullptr) return last_failure();
  node = tensor::strong(engine.graph, node);
  Ref made;
  ASTER_TRY(make_value(&made, engine.context.heap(), Kind::kTensor, element));
  ASTER_TRY(Shared::make(&made->cell, engine, node, false));
  if (element == 0) made->element = element_of(made->node()->dtype);
  made->known = known;
  *out = std::move(made);
  return kOk;
}

Status make_stored(Ref* out, void** data, engine::Engine& engine, DType dtype, Words shape,
                   int32_t element) {
  int64_t count;
  size_t bytes;
  if (!uop::count_elements(shape, &count) ||
      !checked_mul(static_cast<size_t>(count), dtype::size(dtype), &bytes)) {
    return ASTER_FAIL(kRANGE, "a tensor of shape %s", uop::brief_shape(shape).text);
  }
  Source source;
  ASTER_TRY(create_source(&source, engine.context, bytes));
  *data = bytes == 0 ? nullptr : source.storage()->data;
  const Node node = engine::buffer_node(engine, source.storage(), 0, dtype, shape);
  return make_tensor(out, engine, node, element, true);
}

namespace {

void store_integer(void* data, size_t i, DType dtype, Word value) {
  switch (dtype::size(dtype)) {
    case 1:
      static_cast<int8_t*>(data)[i] = static_cast<int8_t>(value);
      break;
    case 2:
      static_cast<int16_t*>(data)[i] = static_cast<int16_t>(value);
      break;
    case 4:
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
      break;
    default:
      static_cast<int64_t*>(data)[i] = value;
  }
}

}  // namespace

Status make_integers(Ref* out, engine::Engine& engine, Words values, Words shape, DType dtype) {
  void* data;
  ASTER_TRY(make_stored(out, &data, engine, dtype, shape));
  for (size_t i = 0; i < values.size(); ++i) store_integer(data, i, dtype, values[i]);
  return kOk;
}

Status make_texts(Ref* out, Heap& heap, Words shape) {
  Ref made;
  ASTER_TRY(make_value(&made, heap, Kind::kTensor, kText));
  ASTER_TRY(made->shape.append(shape.data(), shape.size()));
  *out = std::move(made);
  return kOk;
}

namespace {

bool is_host_buffer(Node node) {
  return node->op == uop::Op::kBuffer && device::is_host(engine::storage_at(node)->device);
}

const void* data_of(Node node) {
  const buffer::Storage* storage = engine::storage_of(node);
  return storage->data == nullptr ? nullptr
                                  : static_cast<const char*>(storage->data) + node->arg(2);
}

// Whether the interpreter is done with all below node sooner than a compiler.
Status is_small(bool* out, Node node, Vec<Node>* leaves) {
  constexpr int64_t kMostElements = 1 << 16;
  Vec<Node> all(leaves->memory());
  ASTER_TRY(uop::toposort(&all, {&node, 1}));
  int64_t elements = 0;
  *out = true;
  for (const Node one : all) {
    const bool plain =
        one->op != uop::Op::kAssign && one->op != uop::Op::kAfter && one->op != uop::Op::kForeign;
    elements += one->op == uop::Op::kBuffer ? 0 : one->count();
    if (one->op == uop::Op::kBuffer) ASTER_TRY(leaves->push(one));
    if (!plain || elements > kMostElements ||
        (one->op == uop::Op::kBuffer && !is_host_buffer(one))) {
      *out = false;
      return kOk;
    }
  }
  return kOk;
}

Status interpret_small(engine::Engine& engine, Value& value, const Vec<Node>& leaves) {
  Heap& heap = engine.context.heap();
  Vec<runtime::reference::Binding> bindings(heap);
  for (const Node leaf : leaves) {
    ASTER_TRY(bindings.push({leaf, const_cast<void*>(data_of(leaf))}));
  }
  const Node node = value.node();
  Ref made;
  void* data;
  ASTER_TRY(make_stored(&made, &data, engine, node->dtype, node->shape()));
  const runtime::reference::Output output{node, data};
  if (node->count() != 0) {
    ASTER_TRY(runtime::reference::interpret(engine.graph, heap, {bindings.data(), bindings.size()},
                                            {&output, 1}, &engine.context.interrupt()));
  }
  value.cell = made->cell;
  return kOk;
}

}  // namespace

bool is_stored(const Value& value) {
  if (value.element == kText) return true;
  Node node = value.node();
  while (node != nullptr && uop::is_movement(node->op)) node = node->src(0);
  return node == nullptr || node->op == uop::Op::kBuffer || uop::is_const(node);
}

Status fetch(const void** out, engine::Engine& engine, Value& value) {
  if (value.kind != Kind::kTensor || value.element == kText) {
    return ASTER_FAIL(kDTYPE, "a tensor of numbers is needed, %s is given",
                      value.kind == Kind::kTensor ? "texts" : "another kind of value");
  }
  if (!value.known && engine.recording != nullptr)
    return ASTER_FAIL(kSTATE, "a model that decides by the values of its inputs, inside a capture");
  if (!is_host_buffer(value.node())) {
    Vec<Node> leaves(engine.context.heap());
    bool small;
    ASTER_TRY(is_small(&small, value.node(), &leaves));
    if (small) {
      ASTER_TRY(interpret_small(engine, value, leaves));
    } else {
      // What weights make is no step of a program that is captured only to be compiled.
      const bool dry = engine.recording != nullptr && engine.recording->dry;
      engine::Recording* recording = dry ? std::exchange(engine.recording, nullptr) : nullptr;
      engine::Lazy* cell = &value.cell.cell();
      const Status status = tensor::realize_stored({&cell, 1});
      if (dry) engine.recording = recording;
      ASTER_TRY(status);
      if (!is_host_buffer(value.node())) {
        return ASTER_FAIL(kUNSUPPORTED, "sizes and conditions of a model on another device");
      }
    }
  }
  *out = data_of(value.node());
  return kOk;
}

}  // namespace aster::nn::onnx
