#include "nn/parameter.h"

#include "device/device.h"
#include "engine/engine.h"
#include "tensor/api.h"

namespace aster::nn {

Shared::~Shared() {
  if (parameter_ == nullptr || --parameter_->references != 0) return;
  Heap& heap = parameter_->cell->context->heap();
  free_handle(parameter_->cell);
  heap.destroy(parameter_);
}

Status Shared::take(Shared* out, engine::Lazy* cell, bool trained) {
  scope_remove(cell);
  Parameter* parameter = cell->context->heap().create<Parameter>();
  if (parameter == nullptr) {
    free_handle(cell);
    return out_of_memory(sizeof(Parameter));
  }
  *parameter = {cell, 1, trained};
  Shared made;
  made.parameter_ = parameter;
  *out = std::move(made);
  return kOk;
}

Status Shared::make(Shared* out, engine::Engine& engine, Node node, bool trained) {
  engine::Lazy* cell;
  ASTER_TRY(engine::lazy_create(&cell, engine, node));
  return take(out, cell, trained);
}

Status filled(Shared* out, engine::Engine& engine, int32_t device, DType dtype, Words shape,
              double value, bool trained) {
  size_t count = 1;
  for (const Word dim : shape) {
    if (!checked_mul(count, static_cast<size_t>(dim), &count) ||
        count > static_cast<size_t>(PTRDIFF_MAX) / dtype::size(dtype)) {
      return ASTER_FAIL(kRANGE, "a parameter of shape %s", uop::brief_shape(shape).text);
    }
  }
  Node node;
  const Node constant = engine::graph_of(engine).constant(dtype, value, shape);
  ASTER_TRY(engine::fill_buffer(&node, engine, device, constant));
  return Shared::make(out, engine, node, trained);
}

Status realize(Heap& heap, std::span<engine::Lazy* const> cells) {
  Vec<engine::Lazy*> given(heap);
  for (engine::Lazy* cell : cells) {
    if (cell != nullptr) ASTER_TRY(given.push(cell));
  }
  return tensor::realize_stored({given.data(), given.size()});
}

Heap& Assignments::memory(engine::Engine& engine) { return engine.context.heap(); }

Assignments::~Assignments() {
  while (!done_.empty()) {
    const Done& done = done_.back();
    engine::take_back(engine_, done.cell->node, done.before);
    engine::graph_of(engine_).release(done.before);
    done_.pop();
  }
}

void Assignments::keep() {
  for (const Done& done : done_) engine::graph_of(engine_).release(done.before);
  done_.clear();
}

Status Assignments::add(engine::Lazy& cell, Node value) {
  if (value == nullptr) return last_failure();
  const Node before = cell.node;
  ASTER_TRY(done_.push(Done{&cell, before}));
  engine::graph_of(engine_).retain(before);
  return engine::assign(engine_, cell, value);
}

}  // namespace aster::nn
