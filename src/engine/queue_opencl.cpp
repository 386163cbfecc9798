// Events of queues and those of OpenCL, each from the other.
#include "base/options.h"
#include "engine/event.h"
#include "runtime/opencl/native.h"

namespace aster::engine {
namespace {

namespace opencl = runtime::opencl;

// The driver's event is over.
void finish(void* self, int32_t status) {
  auto* const event = static_cast<Event*>(self);
  event->finish(status);
  event->release();
}

Status from_opencl(aster_ml_event* out, Context& context, void* cl_event) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  Event* const event = Event::create(context);
  if (event == nullptr) return out_of_memory(sizeof(Event));
  Status status = event_handle(out, context, event, false);
  if (status.ok()) {
    event->retain();
    status = opencl::when_over(cl_event, finish, event);
    if (!status.ok()) {
      const SavedError before;
      event->release();
      give_up(&out->impl);
      before.restore();
    }
  }
  event->release();
  return status;
}

// A driver's event that ends when one of ours does.
struct Ends : Event::Follower {
  void* theirs;
  Context* context;
};
void end(Event::Follower* follower, int32_t status) {
  auto* const one = static_cast<Ends*>(follower);
  opencl::end_event(one->theirs, status);
  Context& context = *one->context;
  context.heap().destroy(one);
  context.release();
}

Status to_opencl(void** out, const aster_ml_event* event, int32_t device) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  EventHandle* const handle = event_of(event);
  if (handle == nullptr) return no_event();
  Context& context = *handle->context;
  Ends* const ends = context.heap().create<Ends>();
  if (ends == nullptr) return out_of_memory(sizeof(Ends));
  const Status status = opencl::begin_event(&ends->theirs, device);
  if (!status.ok()) {
    context.heap().destroy(ends);
    return status;
  }
  ends->call = end;
  ends->context = &context;
  context.retain();
  *out = ends->theirs;
  Event* const ours = handle->event;
  ours->retain();
  ours->follow(ends);
  ours->release();
  return kOk;
}

}  // namespace
}  // namespace aster::engine

int32_t aster_ml_queue_opencl(aster_ml_opencl* out, int32_t device) {
  ASTER_API();
  if (out == nullptr || out->struct_size < sizeof(out->struct_size))
    return ASTER_FAIL(kARGUMENT, "out is null, or its struct_size is not set");
  aster_ml_opencl all{};
  ASTER_TRY(aster::runtime::opencl::native_device(&all, device));
  aster::write_struct(out, all);
  return aster::kOk;
}

int32_t aster_ml_queue_opencl_memory(void** memory, size_t* offset, const aster_ml_tensor* tensor) {
  ASTER_API();
  if (memory == nullptr || offset == nullptr || tensor == nullptr)
    return ASTER_FAIL(kARGUMENT, "memory, offset or tensor is null");
  *memory = nullptr;
  *offset = 0;
  ASTER_TRY(aster::runtime::opencl::native_memory(memory, offset, tensor->storage));
  *offset += tensor->byte_offset;
  return aster::kOk;
}

int32_t aster_ml_event_from_opencl(aster_ml_event* out, const aster_ml_context* context,
                                   void* event) {
  if (out != nullptr) *out = {};
  ASTER_ENTER(aster::context_of(context));
  return aster::engine::from_opencl(out, *aster::context_of(context), event);
}

int32_t aster_ml_event_to_opencl(void** out, const aster_ml_event* event, int32_t device) {
  ASTER_API();
  if (out != nullptr) *out = nullptr;
  return aster::engine::to_opencl(out, event, device);
}
