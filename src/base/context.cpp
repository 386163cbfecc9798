#include "base/context.h"

#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/flags.h"
#include "base/mutex.h"
#include "base/options.h"
#include "base/pool.h"

namespace aster {
namespace {

constexpr size_t kDefaultBlockBytes = 64 * 1024;

constexpr int32_t kCompileTimeoutMs = 60'000;

// The address of a thread-local byte names the thread.
uintptr_t this_thread() {
  static thread_local char t_identity;
  return reinterpret_cast<uintptr_t>(&t_identity);
}

constexpr int32_t kMostRounding = 3;  // modes of flt.h

Status check_options(const aster_ml_context_options& options) {
  if (options.threads < 0) {
    return ASTER_FAIL(kRANGE, "threads is %d: 0 or more is needed", options.threads);
  }
  if (options.log_level < 0 || options.log_level > ASTER_ML_LOG_DEBUG) {
    return ASTER_FAIL(kRANGE, "log_level is %d: 0 to %d is needed", options.log_level,
                      static_cast<int>(ASTER_ML_LOG_DEBUG));
  }
  const int32_t vector = options.vector_bytes;
  if (vector != 0 && vector != 16 && vector != 32 && vector != 64) {
    return ASTER_FAIL(kARGUMENT, "vector_bytes is %d: 0, 16, 32 or 64 is needed", vector);
  }
  if (options.compile_timeout_ms < 0) {
    return ASTER_FAIL(kRANGE, "compile_timeout_ms is %d: 0 or more is needed",
                      options.compile_timeout_ms);
  }
  if (options.flt_rounding < 0 || options.flt_rounding > kMostRounding) {
    return ASTER_FAIL(kRANGE, "flt_rounding is %d: 0 to %d is needed", options.flt_rounding,
                      kMostRounding);
  }
  if (options.arena_block_bytes > SIZE_MAX / 4) {
    return ASTER_FAIL(kRANGE, "arena_block_bytes is %zu: too large", options.arena_block_bytes);
  }
  return kOk;
}

// What the environment says, if it does.
Status read_number(int32_t* out, Flag flag, int32_t least, int32_t most) {
  const char* text = flag_text(flag);
  if (text == nullptr) return kOk;
  const char* end = text + std::strlen(text);
  int32_t value = 0;
  const std::from_chars_result read = std::from_chars(text, end, value);
  if (read.ec == std::errc() && read.ptr == end && value >= least && value <= most)
    return *out = value, kOk;
  if (most == INT32_MAX)
    return ASTER_FAIL(kRANGE, "%s is '%.32s': a number from %d is needed", flag_info(flag).variable,
                      text, least);
  return ASTER_FAIL(kRANGE, "%s is '%.32s': a number from %d to %d is needed",
                    flag_info(flag).variable, text, least, most);
}

// Those of the environment, or of the machine.
Status default_threads(int32_t* out) {
  *out = pool::hardware_threads();
  return read_number(out, Flag::kThreads, 1, INT32_MAX);
}

bool is_set(Flag flag) {
  const char* const text = flag_text(flag);
  return text != nullptr && std::strcmp(text, "0") != 0;
}

aster_ml_context_options with_defaults(aster_ml_context_options options) {
  options.struct_size = sizeof(options);
  if (is_set(Flag::kNoFallback)) options.no_fallback = 1;
  if (is_set(Flag::kNoSizes)) options.no_sizes = 1;
  if (options.log_level == 0) options.log_level = ASTER_ML_LOG_WARNING;
  if (options.compile_timeout_ms == 0) options.compile_timeout_ms = kCompileTimeoutMs;
  if (options.arena_block_bytes == 0) options.arena_block_bytes = kDefaultBlockBytes;
  return options;
}

}  // namespace

Context::Context(const aster_ml_context_options& options)
    : options_(options), heap_(options.allocator), blocks_(heap_, options.arena_block_bytes) {
  options_.allocator = nullptr;  // heap_ has its copy
  interrupts_.ask = options.should_cancel;
  interrupts_.self = options.should_cancel_self;
}

Status Context::create(Context** out, const aster_ml_context_options* given) {
  *out = nullptr;
  aster_ml_context_options options{};
  if (given != nullptr) {
    ASTER_TRY(read_struct(&options, given, "the options"));
    ASTER_TRY(check_options(options));
  }
  if (options.threads == 0) ASTER_TRY(default_threads(&options.threads));
  if (options.flt_rounding == 0)
    ASTER_TRY(read_number(&options.flt_rounding, Flag::kFltRounding, 0, kMostRounding));
  int32_t beam = 0;
  ASTER_TRY(read_number(&beam, Flag::kBeam, 0, kMostBeam));
  options = with_defaults(options);
  // Made before its own heap exists, so from another one on the same table.
  Heap below(options.allocator);
  Context* context = below.create<Context>(options);
  if (context == nullptr) return out_of_memory(sizeof(Context));
  context->set_beam(beam);
  // Both, so that neither is left pointing to the caller's text.
  const Status cache_dir = context->copy_text(&context->options_.cache_dir);
  const Status compiler = context->copy_text(&context->options_.compiler);
  Status status = cache_dir.ok() ? compiler : cache_dir;
  if (status.ok()) status = context->make_handles();
  if (status.ok()) {
    *out = context;
  } else {
    context->release();
  }
  return status;
}

Status Context::make_handles() {
  ASTER_TRY(records_.take(&inner_, this));
  return records_.take(&public_, this);
}

Status Context::copy_text(const char** text) {
  const char* source = *text;
  *text = nullptr;
  if (source == nullptr) return kOk;
  const size_t bytes = std::strlen(source) + 1;
  char* copy = heap_.array<char>(bytes);
  if (copy == nullptr) return out_of_memory(bytes);
  std::memcpy(copy, source, bytes);
  *text = copy;
  return kOk;
}

Context::~Context() {
  owner_.store(this_thread());  // what the modules' destructors call finds itself inside
  for (int i = static_cast<int>(Module::kCount); i-- > 0;) {
    if (destroys_[i] != nullptr) destroys_[i](*this, states_[i]);
  }
  for (const char* text : {options_.cache_dir, options_.compiler}) {
    if (text != nullptr) heap_.release(const_cast<char*>(text), std::strlen(text) + 1, 1);
  }
  for (void* handle : {inner_, public_}) {
    if (handle == nullptr) continue;
    records::claim(handle);
    records_.give_back(handle);
  }
}

void Context::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const aster_ml_allocator table = heap_.table();
  this->~Context();
  table.release(table.self, this, sizeof(Context), alignof(Context));
}

bool Context::try_enter(bool* outer) {
  const uintptr_t self = this_thread();
  uintptr_t owner = owner_.load(std::memory_order_relaxed);
  if (owner == self) {
    *outer = false;
    return true;
  }
  owner = 0;
  *outer = owner_.compare_exchange_strong(owner, self);
  return *outer;
}

Status Context::enter(bool* outer) {
  if (!try_enter(outer)) return ASTER_FAIL(kSTATE, "another thread is using this context");
  if (*outer) {
    interrupt_.begin(interrupts_);
    drain();
  }
  return kOk;
}

void Context::leave() {
  // A foreign thread that found the context taken pushes, then tries to enter once more; this side
  // opens, then looks at the list. One of the two sees the other.
  for (;;) {
    owner_.store(0);
    if (deferred_.load() == nullptr) return;
    bool outer;
    if (!try_enter(&outer)) return;
    drain();
  }
}

bool Context::inside() const { return owner_.load(std::memory_order_relaxed) == this_thread(); }

void Context::defer_free(HandleObject* object) {
  HandleObject* head = deferred_.load();
  do {
    object->next_deferred = head;
  } while (!deferred_.compare_exchange_weak(head, object));
}

void Context::drain() {
  HandleObject* object = deferred_.exchange(nullptr);
  while (object != nullptr) {
    HandleObject* next = object->next_deferred;
    const void* handle = object->handle;
    scope_remove(object);
    object->destroy(object);
    records_.give_back(handle);
    // Whoever drains holds a reference of its own, so this is never the last one.
    release();
    object = next;
  }
}

void Context::try_drain() {
  bool outer;
  if (!try_enter(&outer)) return;  // the thread inside drains when it leaves
  drain();
  if (outer) leave();
}

void Context::log(int32_t level, const char* format, ...) const {
  if (options_.log == nullptr || level > options_.log_level) return;
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  options_.log(options_.log_self, level, message);
}

Status Context::may_copy(size_t bytes, const char* reason) {
  if (copy_policy_ == ASTER_ML_COPIES_REFUSE) {
    return ASTER_FAIL(kUNSUPPORTED, "it would copy %zu bytes, which the context refuses: %s", bytes,
                      reason);
  }
  ++copies_;
  copied_bytes_ += bytes;
  if (copy_policy_ == ASTER_ML_COPIES_LOG)
    log(ASTER_ML_LOG_WARNING, "%s copies %zu bytes: %s", public_function(), bytes, reason);
  return kOk;
}

Status handle_init(HandleObject* object, Context& context, void (*destroy)(HandleObject* object)) {
  ASTER_TRY(context.records().take(&object->handle, object));
  context.retain();
  object->context = &context;
  object->destroy = destroy;
  object->next_deferred = nullptr;
  object->scope_previous = object->scope_next = nullptr;
  object->scope_head = nullptr;
  scope_add(object);
  return kOk;
}

static void free_claimed(HandleObject* object) {
  if (object == nullptr) return;
  Context& context = *object->context;
  context.retain();  // outlives the object's own reference, which drain gives up
  context.defer_free(object);
  context.try_drain();
  context.release();
}

void free_handle(HandleObject* object) {
  if (object != nullptr) free_claimed(static_cast<HandleObject*>(records::claim(object->handle)));
}

void give_up(void** handle) {
  free_claimed(static_cast<HandleObject*>(records::claim(std::exchange(*handle, nullptr))));
}

void scope_add(HandleObject* object) {
  HandleObject** head = object->context->scope_handles;
  object->scope_head = head;
  object->scope_previous = nullptr;
  object->scope_next = nullptr;
  if (head == nullptr) return;
  object->scope_next = *head;
  if (*head != nullptr) (*head)->scope_previous = object;
  *head = object;
}

void scope_remove(HandleObject* object) {
  if (object->scope_head == nullptr) return;
  if (object->scope_previous != nullptr) {
    object->scope_previous->scope_next = object->scope_next;
  } else {
    *object->scope_head = object->scope_next;
  }
  if (object->scope_next != nullptr) object->scope_next->scope_previous = object->scope_previous;
  object->scope_previous = object->scope_next = nullptr;
  object->scope_head = nullptr;
}

}  // namespace aster
