// The public functions on contexts and scopes.
#include "base/context.h"

namespace aster {
namespace {

struct Scope : HandleObject {
  HandleObject* handles;  // made in this scope and not kept
  Scope* outer;
  HandleObject** outer_handles;
};

void destroy_scope(HandleObject* object) {
  Scope* scope = static_cast<Scope*>(object);
  scope->context->heap().destroy(scope);
}

Status begin(aster_ml_scope* out, Context& context) {
  Scope* scope = context.heap().create<Scope>();
  if (scope == nullptr) return out_of_memory(sizeof(Scope));
  scope->outer = static_cast<Scope*>(context.scope_top);
  scope->outer_handles = context.scope_handles;
  scope->handles = nullptr;
  const Status status = handle_init(scope, context, destroy_scope);
  if (!status.ok()) {
    context.heap().destroy(scope);
    return status;
  }
  scope_remove(scope);  // an outer scope never ends before this one
  context.scope_top = scope;
  context.scope_handles = &scope->handles;
  out->impl = scope->handle;
  return kOk;
}

Status end(Scope* scope) {
  Context& context = *scope->context;
  if (context.scope_top != scope) return ASTER_FAIL(kSTATE, "a scope opened later is still open");
  context.scope_top = scope->outer;
  context.scope_handles = scope->outer_handles;
  while (HandleObject* object = scope->handles) {
    scope_remove(object);
    free_handle(object);
  }
  return kOk;
}

}  // namespace
}  // namespace aster

extern "C" {

int32_t aster_ml_context_init(aster_ml_context* out, const aster_ml_context_options* options) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  out->impl = nullptr;
  aster::Context* context;
  ASTER_TRY(aster::Context::create(&context, options));
  out->impl = context->handle();
  return ASTER_ML_OK;
}

int32_t aster_ml_context_free(aster_ml_context* context) {
  if (context == nullptr || context->impl == nullptr) return ASTER_ML_OK;
  void* impl = aster::records::claim(std::exchange(context->impl, nullptr));
  if (impl != nullptr) static_cast<aster::Context*>(impl)->release();
  return ASTER_ML_OK;
}

int32_t aster_ml_context_set_strict_parity(const aster_ml_context* context, int32_t strict_parity) {
  ASTER_ENTER(aster::context_of(context));
  aster::context_of(context)->set_strict_parity(strict_parity != 0);
  return ASTER_ML_OK;
}

int32_t aster_ml_context_set_archive_limit(const aster_ml_context* context, uint64_t bytes) {
  ASTER_ENTER(aster::context_of(context));
  aster::context_of(context)->set_archive_limit(bytes);
  return ASTER_ML_OK;
}

int32_t aster_ml_context_set_copies(const aster_ml_context* context, int32_t policy) {
  ASTER_ENTER(aster::context_of(context));
  if (policy < ASTER_ML_COPIES_ALLOW || policy > ASTER_ML_COPIES_REFUSE)
    return ASTER_FAIL(kARGUMENT, "%d is no policy of copies", policy);
  aster::context_of(context)->set_copies(policy);
  return ASTER_ML_OK;
}

int32_t aster_ml_context_set_beam(const aster_ml_context* context, int32_t width) {
  ASTER_ENTER(aster::context_of(context));
  if (width < 0 || width > aster::kMostBeam)
    return ASTER_FAIL(kRANGE, "width is %d: 0 to %d is needed", width, aster::kMostBeam);
  aster::context_of(context)->set_beam(width);
  return ASTER_ML_OK;
}

int32_t aster_ml_context_count_bytes(size_t* now, size_t* most, const aster_ml_context* context) {
  ASTER_API();
  if (now != nullptr) *now = 0;
  if (most != nullptr) *most = 0;
  aster::Context* impl = aster::context_of(context);
  if (impl == nullptr) return ASTER_FAIL(kARGUMENT, "an empty context, or one that was freed");
  const aster::Heap& heap = impl->heap();
  if (now != nullptr) *now = heap.bytes_now();
  if (most != nullptr) *most = heap.bytes_most();
  return ASTER_ML_OK;
}

int32_t aster_ml_scope_begin(aster_ml_scope* out, const aster_ml_context* context) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  out->impl = nullptr;
  aster::Context* impl = aster::context_of(context);
  aster::ContextLock lock(impl);
  ASTER_TRY(lock.status());
  return aster::begin(out, *impl);
}

int32_t aster_ml_scope_end(aster_ml_scope* scope) {
  ASTER_API();
  if (scope == nullptr || scope->impl == nullptr) return ASTER_ML_OK;
  auto* impl = aster::object_of<aster::Scope>(scope->impl);
  scope->impl = impl == nullptr ? nullptr : scope->impl;
  if (impl == nullptr) return ASTER_ML_OK;  // a copy of it was ended
  aster::Context* context = impl->context;
  {
    aster::ContextLock lock(context);
    ASTER_TRY(lock.status());
    ASTER_TRY(aster::end(impl));
  }
  scope->impl = nullptr;
  aster::free_handle(impl);  // may take the context with it, so after the lock
  return ASTER_ML_OK;
}

}  // extern "C"
