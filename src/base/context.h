// What a context owns in every module: its heap, blocks, lock, scopes and the state that modules
// above hang on it.
#pragma once

#include <atomic>

#include "base/arena.h"
#include "base/float_modes.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/records.h"

namespace aster {

// Modules that keep state in a context, in order of construction; destroyed in reverse.
enum class Module : uint8_t { kDevice, kBuffer, kUop, kRuntime, kEngine, kTensor, kNn, kCount };

// An object that a handle points to, counted in its context; the handle frees it from any thread.
struct HandleObject;

// Widest search for plans.
constexpr int32_t kMostBeam = 64;

class Context {
 public:
  // Validated copy of the options; strings live in the context.
  static Status create(Context** out, const aster_ml_context_options* options);

  Heap& heap() { return heap_; }
  BlockPool& blocks() { return blocks_; }
  const aster_ml_context_options& options() const { return options_; }
  // Bytes that an archive may unpack to; 0: the default.
  uint64_t archive_limit() const { return archive_limit_; }
  void set_archive_limit(uint64_t bytes) { archive_limit_ = bytes; }
  // Has to be asked before memory is copied that nobody asked to be copied: counts it, and logs it
  // or refuses, as the context was told. Errors: UNSUPPORTED.
  Status may_copy(size_t bytes, const char* reason);
  void set_copies(int32_t policy) { copy_policy_ = policy; }
  // Plans of a kernel that a search goes on from; 0: none is searched for.
  int32_t beam() const { return beam_; }
  void set_beam(int32_t width) { beam_ = width; }
  uint64_t copies() const { return copies_; }
  uint64_t copied_bytes() const { return copied_bytes_; }
  void set_strict_parity(bool on) { options_.strict_parity = on ? 1 : 0; }

  // References: one for the context's own handle, one for every live handle made from it.
  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();  // destroys the context with the last one

  void* state(Module module) const { return states_[static_cast<int>(module)]; }
  void set_state(Module module, void* state, void (*destroy)(Context&, void* state)) {
    states_[static_cast<int>(module)] = state;
    destroys_[static_cast<int>(module)] = destroy;
  }

  records::Pool& records() { return records_; }
  void* handle() const { return public_; }  // the caller's
  // A handle for calls of our own, whether or not the caller's was freed.
  aster_ml_context inner_handle() const { return {inner_}; }

  // Frees of handles by foreign threads wait here until the context's thread enters next.
  void defer_free(HandleObject* object);
  void drain();
  void try_drain();  // unless another thread is inside, which then does it when it leaves

  Status enter(bool* outer);  // STATE if another thread is inside
  void leave();
  bool inside() const;  // whether the calling thread is the one inside

  // Of the call that is inside.
  Interrupt& interrupt() { return interrupt_; }
  InterruptSource& interrupts() { return interrupts_; }

  void log(int32_t level, const char* format, ...) const __attribute__((format(printf, 3, 4)));

  // Scopes: handles register themselves in the innermost one.
  HandleObject** scope_handles = nullptr;  // the innermost scope's list; null outside scopes
  void* scope_top = nullptr;               // the innermost scope

 private:
  explicit Context(const aster_ml_context_options& options);
  ~Context();
  friend class Memory;
  Status copy_text(const char** text);
  Status make_handles();
  bool try_enter(bool* outer);

  aster_ml_context_options options_;
  Heap heap_;
  BlockPool blocks_;
  uint64_t archive_limit_ = 0;
  int32_t copy_policy_ = ASTER_ML_COPIES_ALLOW;
  uint64_t copies_ = 0, copied_bytes_ = 0;
  int32_t beam_ = 0;
  records::Pool records_;
  void* public_ = nullptr;  // the caller's handle
  void* inner_ = nullptr;
  std::atomic<uint32_t> references_{1};
  std::atomic<uintptr_t> owner_{0};  // identity of the thread inside, 0 for none
  std::atomic<HandleObject*> deferred_{nullptr};
  InterruptSource interrupts_;
  Interrupt interrupt_;
  void* states_[static_cast<int>(Module::kCount)] = {};
  void (*destroys_[static_cast<int>(Module::kCount)])(Context&, void*) = {};
};

// Head of every object behind a handle (lazy tensor, program, scope). One reference on the context.
struct HandleObject {
  Context* context;
  void (*destroy)(HandleObject* object);  // runs on the context's thread
  HandleObject* next_deferred;
  HandleObject*
      scope_previous;  // doubly linked list of the scope that made it; null links outside scopes
  HandleObject* scope_next;
  HandleObject** scope_head;  // the list's head, null when kept or made outside a scope
  void* handle;               // what public handles of it hold (records.h)
};

// Fills the head of a new object: makes its handle, takes its reference on the context, registers
// it in the innermost scope. On the context's thread. destroy releases the object's memory; the
// reference is given up after it. MEMORY leaves the object to the caller.
Status handle_init(HandleObject* object, Context& context, void (*destroy)(HandleObject* object));

// The object of a public handle; null for an empty one, and for one that was freed by whatever
// copy, or by the end of its scope. Threads: any.
template <typename T>
T* object_of(const void* handle) {
  return static_cast<T*>(records::find_as<HandleObject>(handle));
}
inline Context* context_of(const aster_ml_context* context) {
  return context == nullptr ? nullptr : records::find_as<Context>(context->impl);
}

// Frees a handle's object: at once on the context's thread or an idle context, else deferred. Only
// the first free of an object does anything.
void free_handle(HandleObject* object);
void give_up(void** handle);  // the same for a public one, which is cleared
// Adds to the innermost scope / takes it out of its scope.
void scope_add(HandleObject* object);
void scope_remove(HandleObject* object);

// Holds a context for one public call, in the default floating-point modes.
class ContextLock {
 public:
  explicit ContextLock(Context* context) : context_(context) {
    status_ = context == nullptr ? ASTER_FAIL(kARGUMENT, "an empty context, or one that was freed")
                                 : context->enter(&outer_);
  }
  ~ContextLock() {
    if (outer_) context_->leave();
  }
  ContextLock(const ContextLock&) = delete;
  ContextLock& operator=(const ContextLock&) = delete;
  Status status() const { return status_; }

 private:
  Context* context_;
  FloatModes modes_;
  Status status_;
  bool outer_ = false;
};

// Names the public function and enters the context, or returns.
#define ASTER_ENTER(context)                        \
  ASTER_API();                                      \
  ::aster::ContextLock aster_context_lock(context); \
  ASTER_TRY(aster_context_lock.status())

}  // namespace aster
