// Counters and caches of aster_ml/engine.h.
#include <algorithm>

#include "base/options.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/tracer.h"

namespace {

using aster::Status;
using aster::engine::context_of;
using aster::engine::Engine;

}  // namespace

int32_t aster_ml_engine_count(aster_ml_engine_counters* counters, const aster_ml_context* context) {
  ASTER_ENTER(context_of(context));
  if (counters == nullptr || counters->struct_size < sizeof(uint32_t)) {
    return ASTER_FAIL(kARGUMENT, "null counters, or struct_size not set");
  }
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  aster_ml_engine_counters now = engine->counters;
  const aster::engine::Work replayed = engine->replayed.work();
  now.kernels_launched += replayed.kernels;
  now.operations += replayed.operations;
  now.moved_bytes += replayed.bytes;
  now.copies = context_of(context)->copies();
  now.copied_bytes = context_of(context)->copied_bytes();
  aster::write_struct(counters, now);
  return aster::kOk;
}

int32_t aster_ml_engine_device(int32_t* out, const aster_ml_context* context) {
  if (out != nullptr) *out = 0;
  ASTER_ENTER(context_of(context));
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  *out = engine->device;
  return aster::kOk;
}

int32_t aster_ml_engine_default_dtype(int32_t* out, const aster_ml_context* context, int32_t weak) {
  if (out != nullptr) *out = 0;
  ASTER_ENTER(context_of(context));
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  aster::dtype::DType dtype;
  ASTER_TRY(aster::dtype::from_code(&dtype, weak));
  if (!aster::dtype::is_weak(dtype)) {
    return ASTER_FAIL(kDTYPE, "%s is not weak", aster::dtype::name(dtype));
  }
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  *out = static_cast<int32_t>(engine->graph.strong(dtype));
  return aster::kOk;
}

int32_t aster_ml_engine_set_default_dtype(const aster_ml_context* context, int32_t dtype) {
  ASTER_ENTER(context_of(context));
  aster::dtype::DType to;
  ASTER_TRY(aster::dtype::from_storage_code(&to, dtype));
  if (to == aster::dtype::DType::kBool) return ASTER_FAIL(kDTYPE, "bool as a default");
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  aster::dtype::Defaults& defaults = engine->graph.defaults;
  (aster::dtype::is_float(to) ? defaults.real : defaults.whole) = to;
  return aster::kOk;
}

int32_t aster_ml_engine_set_device(const aster_ml_context* context, int32_t device) {
  ASTER_ENTER(context_of(context));
  ASTER_TRY(aster::device::canonical(&device, device));
  ASTER_TRY(aster::device::allocatable(device));
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  engine->device = device;
  return aster::kOk;
}

int32_t aster_ml_engine_trace(const aster_ml_context* context, aster_ml_launch_function function,
                              void* self) {
  ASTER_ENTER(context_of(context));
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  aster::engine::Tracer* const tracer = aster::engine::Tracer::of(engine->trace);
  (tracer == nullptr ? engine->trace : tracer->next) = {function, self};
  return aster::kOk;
}

int32_t aster_ml_engine_cancel(const aster_ml_context* context) {
  aster::Context* const c = context_of(context);
  if (c == nullptr) {
    ASTER_API();
    return ASTER_FAIL(kARGUMENT, "empty context");
  }
  c->interrupts().requests.fetch_add(1, std::memory_order_relaxed);
  return aster::kOk;
}

int32_t aster_ml_engine_collect(const aster_ml_context* context) {
  ASTER_ENTER(context_of(context));
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  engine->graph.collect();
  aster::buffer::storage_release(engine->arena);
  engine->arena = nullptr;
  aster::buffer::trim(engine->context);
  engine->context.blocks().trim();
  return aster::kOk;
}

int32_t aster_ml_engine_print_schedule(char* text, size_t bytes, const aster_ml_context* context) {
  ASTER_ENTER(context_of(context));
  if (text == nullptr || bytes == 0) return ASTER_FAIL(kARGUMENT, "no memory for text");
  text[0] = 0;
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  if (engine->last == nullptr) return ASTER_FAIL(kNOT_FOUND, "nothing was scheduled yet");
  const std::string_view summary = engine->last->summary.view();
  const size_t length = std::min(bytes - 1, summary.size());
  if (length != 0) std::memcpy(text, summary.data(), length);
  text[length] = 0;
  return aster::kOk;
}
