/* Queues and events; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_QUEUE_HPP
#define ASTER_ML_CPP_QUEUE_HPP

#include "aster_ml/cpp/program.hpp"
#include "aster_ml/queue.h"

namespace aster_ml {

/* Something that is done, or will be. Contracts stand above the functions of aster_ml/queue.h. */
class Event {
 public:
  /* Of nothing; Event::open() is one that signal() is for. */
  Event() = default;
  static Event open() {
    const detail::Root root = Context::current().root();
    aster_ml_event made{};
    if (!detail::good(aster_ml_event_init(&made, root.get()))) return {};
    return Event(std::move(made), root);
  }
  /* Done when a cl_event is. */
  static Event from_opencl(void* event) {
    const detail::Root root = Context::current().root();
    aster_ml_event made{};
    if (!detail::good(aster_ml_event_from_opencl(&made, root.get(), event))) return {};
    return Event(std::move(made), root);
  }
  /* A cl_event that ends when this one does, to be released; null where that fails. */
  void* to_opencl(int32_t device = ASTER_ML_DEVICE_OPENCL) const {
    void* made = nullptr;
    return detail::good(aster_ml_event_to_opencl(&made, get(), device)) ? made : nullptr;
  }
  bool ok() const { return !event_.empty(); }
  aster_ml_event* get() const { return event_.get(); }
  bool is_done() const { return aster_ml_event_is_done(get()) == 1; }
  bool signal(int32_t status = ASTER_ML_OK) const {
    return detail::good(aster_ml_event_signal(get(), status));
  }
  /* Whether it succeeded. */
  bool wait() const { return detail::good(aster_ml_event_wait(get())); }

 private:
  friend class Queue;
  Event(aster_ml_event&& event, const detail::Root& root) : event_(std::move(event), root) {}
  detail::Shared<aster_ml_event, detail::Root> event_;
};

/* Handles of OpenCL behind a device; all null where that fails. */
inline aster_ml_opencl opencl_handles(int32_t device = ASTER_ML_DEVICE_OPENCL) {
  aster_ml_opencl out{};
  out.struct_size = sizeof(out);
  return detail::good(aster_ml_queue_opencl(&out, device)) ? out : aster_ml_opencl{};
}
/* The cl_mem of a descriptor, and where in it that begins; null where that fails. */
inline void* opencl_memory(const aster_ml_tensor& tensor, size_t* offset) {
  void* memory = nullptr;
  return detail::good(aster_ml_queue_opencl_memory(&memory, offset, &tensor)) ? memory : nullptr;
}

/* Does one thing after another, on a thread of its own. */
class Queue {
 public:
  Queue() : root_(Context::current().root()) {
    aster_ml_queue made{};
    if (detail::good(aster_ml_queue_init(&made, root_.get()))) queue_ = {std::move(made), root_};
  }
  bool ok() const { return !queue_.empty(); }
  aster_ml_queue* get() const { return queue_.get(); }
  /* function(self) after all that was put in; its event, empty where that fails. */
  Event call(aster_ml_queue_function function, void* self) const {
    aster_ml_event done{};
    return made(aster_ml_queue_call(get(), function, self, &done), std::move(done));
  }
  /* A run of a program on descriptors that stay as they are until it is done. */
  Event run(const Program& program, const std::vector<aster_ml_tensor>& inputs,
            const std::vector<aster_ml_tensor>& outputs) const {
    aster_ml_event done{};
    return made(aster_ml_queue_run(get(), program.get(), nullptr, inputs.data(), inputs.size(),
                                   outputs.data(), outputs.size(), &done),
                std::move(done));
  }
  /* What is put in from now on begins after these too. */
  Event barrier(const std::vector<Event>& events = {}) const {
    std::vector<const aster_ml_event*> given;
    for (const Event& event : events) given.push_back(event.get());
    aster_ml_event done{};
    return made(aster_ml_queue_barrier(get(), given.data(), given.size(), &done), std::move(done));
  }
  bool wait() const { return detail::good(aster_ml_queue_wait(get())); }

 private:
  Event made(int32_t status, aster_ml_event&& done) const {
    return detail::good(status) ? Event(std::move(done), root_) : Event();
  }
  detail::Root root_;
  detail::Shared<aster_ml_queue, detail::Root> queue_;
};

}  // namespace aster_ml

#endif
