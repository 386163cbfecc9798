// Queues: a thread that does one thing after another, and events that order it against others.
#include "aster_ml/queue.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>

#include "base/context.h"
#include "base/futex.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "engine/engine.h"
#include "engine/event.h"

namespace aster::engine {
namespace {

int32_t failed_with(int32_t status, const char* what) {
  return fail_at(static_cast<Code>(status), ASTER_MODULE, __FILE__, __LINE__, "%s", what).code;
}
// What a status from outside counts as.
int32_t known(int32_t status) {
  return status >= 0 && status <= ASTER_ML_INTERNAL ? status : ASTER_ML_ERROR;
}

void free_event(HandleObject* object) {
  auto* handle = static_cast<EventHandle*>(object);
  if (handle->open) handle->event->finish(ASTER_ML_CANCELLED);
  handle->event->release();
  handle->context->heap().destroy(handle);
}
}  // namespace

Status event_handle(aster_ml_event* out, Context& context, Event* event, bool open) {
  auto* handle = context.heap().create<EventHandle>();
  if (handle == nullptr) return out_of_memory(sizeof(EventHandle));
  const Status status = handle_init(handle, context, free_event);
  if (!status.ok()) {
    context.heap().destroy(handle);
    return status;
  }
  scope_remove(handle);
  event->retain();
  handle->event = event;
  handle->open = open;
  out->impl = handle->handle;
  return kOk;
}

bool Event::finish(int32_t status) {
  uint32_t before = kPending;
  retain();  // whoever waits may free its handle as soon as the state changes
  if (!state_.compare_exchange_strong(before, kDone + static_cast<uint32_t>(status))) {
    release();
    return false;
  }
  futex_wake(&state_, INT32_MAX);
  Follower* next = nullptr;
  {
    const MutexLock lock(mutex_);
    next = std::exchange(followers_, nullptr);
  }
  while (next != nullptr) {
    Follower* const one = std::exchange(next, next->next);
    one->call(one, status);
  }
  release();
  return true;
}

void Event::follow(Follower* follower) {
  {
    const MutexLock lock(mutex_);
    if (!done()) {
      follower->next = std::exchange(followers_, follower);
      return;
    }
  }
  follower->call(follower, wait());
}

EventHandle* event_of(const aster_ml_event* event) {
  return event == nullptr ? nullptr : object_of<EventHandle>(event->impl);
}

Status no_event() { return ASTER_FAIL(kARGUMENT, "an empty event, or one that was freed"); }

namespace {

// One thing to do.
struct Item {
  explicit Item(Heap& heap) : tensors(heap), events(heap) {}
  Item* next = nullptr;
  Event* done = nullptr;
  aster_ml_queue_function function = nullptr;
  void* self = nullptr;
  aster_ml_program program{};
  aster_ml_workspace workspace{};
  Vec<aster_ml_tensor> tensors;  // inputs, then outputs
  size_t inputs = 0;
  Vec<Event*> events;

  int32_t run() {
    for (Event* event : events) {
      if (const int32_t status = event->wait(); status != 0)
        return failed_with(status, "what an event in a queue stands for did not succeed");
    }
    if (program.impl != nullptr) {
      aster_ml_tensor* const all = tensors.data();
      return aster_ml_program_run(&program, workspace.impl == nullptr ? nullptr : &workspace, all,
                                  inputs, all + inputs, tensors.size() - inputs);
    }
    if (function == nullptr) return kOk;
    aster_ml_error_clear();
    const int32_t status = known(function(self));
    if (status != 0 && *SavedError::message() == '\0')
      return failed_with(status, "a function in a queue failed");
    return status;
  }
};

// Counted: its handle holds it, and its thread.
class Queue {
 public:
  static Status create(Queue** out, Context& context) {
    auto* queue = context.heap().create<Queue>();
    if (queue == nullptr) return out_of_memory(sizeof(Queue));
    queue->context_ = &context;
    queue->process_ = getpid();
    context.retain();
    const bool made = start_thread(&queue->thread_, work, queue);
    if (!made) queue->count_ = 1;
    if (!made) queue->release();
    if (!made) return ASTER_FAIL(kMEMORY, "no thread could be made for a queue");
    *out = queue;
    return kOk;
  }
  void release() {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    Context& context = *context_;
    context.heap().destroy(this);
    context.release();
  }
  Status check() const {
    return process_ == getpid() ? kOk : ASTER_FAIL(kSTATE, "a queue of the process before a fork");
  }
  bool is_this_thread() const { return pthread_equal(thread_, pthread_self()) != 0; }

  void push(Item* item) {
    {
      const MutexLock lock(mutex_);
      *last_ = item;
      last_ = &item->next;
    }
    wake();
  }
  // Nothing more is put in.
  void close() {
    {
      const MutexLock lock(mutex_);
      closed_ = true;
    }
    wake();
  }
  Status take_failure() {
    const MutexLock lock(mutex_);
    const int32_t status = std::exchange(failed_, 0);
    if (status == 0) return kOk;
    return fail_at(static_cast<Code>(status), ASTER_MODULE, __FILE__, __LINE__, "%s", text_);
  }
  Item* new_item() { return context_->heap().create<Item>(context_->heap()); }
  void drop(Item* item) {
    for (Event* event : item->events) event->release();
    if (item->done != nullptr) item->done->release();
    context_->heap().destroy(item);
  }

 private:
  friend ::aster::Memory;

  void wake() {
    rung_.fetch_add(1);
    futex_wake(&rung_, 1);
  }
  // The next thing to do; null at the end.
  Item* take() {
    for (;;) {
      const uint32_t seen = rung_.load();
      {
        const MutexLock lock(mutex_);
        if (Item* item = first_; item != nullptr) {
          first_ = item->next;
          if (first_ == nullptr) last_ = &first_;
          return item;
        }
        if (closed_) return nullptr;
      }
      futex_wait(&rung_, seen);
    }
  }
  int32_t failed() {
    const MutexLock lock(mutex_);
    return failed_;
  }
  void fail(int32_t status) {
    const MutexLock lock(mutex_);
    failed_ = status;
    std::snprintf(text_, sizeof(text_), "%s", SavedError::message());
  }
  static void* work(void* self) {
    auto* queue = static_cast<Queue*>(self);
    while (Item* item = queue->take()) {
      int32_t status = queue->failed();
      if (status == 0 && (status = item->run()) != 0) queue->fail(status);
      if (item->done != nullptr) item->done->finish(status);
      queue->drop(item);
    }
    queue->release();
    return nullptr;
  }

  Context* context_ = nullptr;
  pid_t process_ = 0;
  pthread_t thread_ = {};
  std::atomic<uint32_t> count_{2};
  std::atomic<uint32_t> rung_{0};
  OwnedMutex mutex_;
  Item* first_ = nullptr;
  Item** last_ = &first_;
  bool closed_ = false;
  int32_t failed_ = 0;
  char text_[256] = "";
};

struct QueueHandle : HandleObject {
  Queue* queue;
};
void free_queue(HandleObject* object) {
  auto* handle = static_cast<QueueHandle*>(object);
  handle->queue->close();
  handle->queue->release();
  handle->context->heap().destroy(handle);
}

// A call that puts something in: its item, and the event that is given out for it.
class Entry {
 public:
  Entry(const aster_ml_queue* queue, aster_ml_event* done) : out_(done) {
    if (done != nullptr) *done = {};
    handle_ = queue == nullptr ? nullptr : object_of<QueueHandle>(queue->impl);
    status_ = begin();
  }
  ~Entry() {
    if (item_ != nullptr) handle_->queue->drop(item_);
    if (!finished_ && out_ != nullptr) give_up(&out_->impl);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  Status status() const { return status_; }
  Item& item() { return *item_; }
  Status finish() {
    handle_->queue->push(std::exchange(item_, nullptr));
    finished_ = true;
    return kOk;
  }

 private:
  Status begin() {
    if (handle_ == nullptr) return ASTER_FAIL(kARGUMENT, "an empty queue, or one that was freed");
    ASTER_TRY(handle_->queue->check());
    item_ = handle_->queue->new_item();
    if (item_ == nullptr) return out_of_memory(sizeof(Item));
    if (out_ == nullptr) return kOk;
    Context& context = *handle_->context;
    item_->done = Event::create(context);
    if (item_->done == nullptr) return out_of_memory(sizeof(Event));
    const ContextLock lock(&context);
    ASTER_TRY(lock.status());
    return event_handle(out_, context, item_->done, false);
  }

  QueueHandle* handle_;
  aster_ml_event* out_;
  Item* item_ = nullptr;
  bool finished_ = false;
  Status status_;
};

Status event_init(aster_ml_event* out, const aster_ml_context* context) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  Context* owner = context_of(context);
  const ContextLock lock(owner);
  ASTER_TRY(lock.status());
  Event* event = Event::create(*owner);
  if (event == nullptr) return out_of_memory(sizeof(Event));
  const Status status = event_handle(out, *owner, event, true);
  event->release();
  return status;
}

Status queue_init(aster_ml_queue* out, const aster_ml_context* context) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  Context* owner = context_of(context);
  const ContextLock lock(owner);
  ASTER_TRY(lock.status());
  auto* handle = owner->heap().create<QueueHandle>();
  if (handle == nullptr) return out_of_memory(sizeof(QueueHandle));
  Queue* queue = nullptr;
  Status status = Queue::create(&queue, *owner);
  if (status.ok()) {
    status = handle_init(handle, *owner, free_queue);
    if (!status.ok()) {
      queue->close();
      queue->release();
    }
  }
  if (!status.ok()) {
    owner->heap().destroy(handle);
    return status;
  }
  scope_remove(handle);
  handle->queue = queue;
  out->impl = handle->handle;
  return kOk;
}

Status queue_run(const aster_ml_queue* queue, const aster_ml_program* program,
                 const aster_ml_workspace* workspace, std::span<const aster_ml_tensor> inputs,
                 std::span<const aster_ml_tensor> outputs, aster_ml_event* done) {
  Entry entry(queue, done);
  ASTER_TRY(entry.status());
  if (program == nullptr || program->impl == nullptr)
    return ASTER_FAIL(kARGUMENT, "an empty program");
  if ((inputs.data() == nullptr && !inputs.empty()) ||
      (outputs.data() == nullptr && !outputs.empty()))
    return ASTER_FAIL(kARGUMENT, "null array of tensors");
  for (const aster_ml_tensor& output : outputs) {
    if (output.storage.data == nullptr)
      return ASTER_FAIL(kARGUMENT, "an output of a program in a queue has no storage");
  }
  Item& item = entry.item();
  item.program = *program;
  if (workspace != nullptr) item.workspace = *workspace;
  item.inputs = inputs.size();
  ASTER_TRY(item.tensors.append(inputs.data(), inputs.size()));
  ASTER_TRY(item.tensors.append(outputs.data(), outputs.size()));
  return entry.finish();
}

Status queue_barrier(const aster_ml_queue* queue, std::span<const aster_ml_event* const> events,
                     aster_ml_event* done) {
  Entry entry(queue, done);
  ASTER_TRY(entry.status());
  if (events.data() == nullptr && !events.empty())
    return ASTER_FAIL(kARGUMENT, "null array of events");
  for (const aster_ml_event* given : events) {
    EventHandle* handle = event_of(given);
    if (handle == nullptr) return no_event();
    ASTER_TRY(entry.item().events.push(handle->event));
    handle->event->retain();
  }
  return entry.finish();
}

// All that is in a queue by now.
Status queue_wait(const aster_ml_queue* queue) {
  auto* handle = queue == nullptr ? nullptr : object_of<QueueHandle>(queue->impl);
  if (handle == nullptr) return ASTER_FAIL(kARGUMENT, "an empty queue, or one that was freed");
  Queue& q = *handle->queue;
  ASTER_TRY(q.check());
  if (q.is_this_thread()) return ASTER_FAIL(kSTATE, "a queue waits for itself");
  Item* item = q.new_item();
  Event* end = item == nullptr ? nullptr : Event::create(*handle->context);
  if (end == nullptr) {
    if (item != nullptr) q.drop(item);
    return out_of_memory(sizeof(Item));
  }
  item->done = end;
  end->retain();
  q.push(item);
  end->wait();
  end->release();
  return q.take_failure();
}

}  // namespace
}  // namespace aster::engine

using namespace aster::engine;  // NOLINT: this file ends with the public functions
using aster::kOk;

int32_t aster_ml_event_init(aster_ml_event* out, const aster_ml_context* context) {
  ASTER_API();
  if (out != nullptr) *out = {};
  return event_init(out, context);
}

int32_t aster_ml_event_signal(const aster_ml_event* event, int32_t status) {
  ASTER_API();
  EventHandle* handle = event_of(event);
  if (handle == nullptr) return no_event();
  if (!handle->open) return ASTER_FAIL(kSTATE, "an event of a queue is signalled by that");
  return handle->event->finish(known(status)) ? kOk
                                              : ASTER_FAIL(kSTATE, "the event is done already");
}

int32_t aster_ml_event_is_done(const aster_ml_event* event) {
  EventHandle* handle = event_of(event);
  return handle != nullptr && handle->event->done();
}

int32_t aster_ml_event_wait(const aster_ml_event* event) {
  ASTER_API();
  EventHandle* handle = event_of(event);
  if (handle == nullptr) return no_event();
  Event* waited = handle->event;
  waited->retain();  // whoever frees the handle meanwhile ends the wait
  const int32_t status = waited->wait();
  waited->release();
  return status == kOk ? kOk : failed_with(status, "what the event stands for did not succeed");
}

int32_t aster_ml_event_free(aster_ml_event* event) {
  ASTER_API();
  if (event != nullptr) aster::give_up(&event->impl);
  return kOk;
}

int32_t aster_ml_queue_init(aster_ml_queue* out, const aster_ml_context* context) {
  ASTER_API();
  if (out != nullptr) *out = {};
  return queue_init(out, context);
}

int32_t aster_ml_queue_call(const aster_ml_queue* queue, aster_ml_queue_function function,
                            void* self, aster_ml_event* done) {
  ASTER_API();
  Entry entry(queue, done);
  ASTER_TRY(entry.status());
  if (function == nullptr) return ASTER_FAIL(kARGUMENT, "function is null");
  entry.item().function = function;
  entry.item().self = self;
  return entry.finish();
}

int32_t aster_ml_queue_run(const aster_ml_queue* queue, const aster_ml_program* program,
                           aster_ml_workspace* workspace, const aster_ml_tensor* inputs,
                           size_t input_count, const aster_ml_tensor* outputs, size_t output_count,
                           aster_ml_event* done) {
  ASTER_API();
  return queue_run(queue, program, workspace, {inputs, input_count}, {outputs, output_count}, done);
}

int32_t aster_ml_queue_barrier(const aster_ml_queue* queue, const aster_ml_event* const* events,
                               size_t count, aster_ml_event* done) {
  ASTER_API();
  return queue_barrier(queue, {events, count}, done);
}

int32_t aster_ml_queue_wait(const aster_ml_queue* queue) {
  ASTER_API();
  return queue_wait(queue);
}

int32_t aster_ml_queue_free(aster_ml_queue* queue) {
  ASTER_API();
  if (queue != nullptr) aster::give_up(&queue->impl);
  return kOk;
}
