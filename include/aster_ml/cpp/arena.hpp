/* aster_ml::Arena: tensors with a plan cache of their own; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_ARENA_HPP
#define ASTER_ML_CPP_ARENA_HPP

#include "aster_ml/arena.h"
#include "aster_ml/cpp/graph.hpp"
#include "aster_ml/cpp/tensor.hpp"

namespace aster_ml {

/* An arena of the current context (aster_ml/arena.h):
 *
 *   Arena arena(ASTER_ML_ARENA_TOGETHER);
 *   const Tensor y = arena.with([&] { return f(x); });
 *   const Tensor z = arena.with([&] { return g(y); });
 *   z.realize();                                          y and z by one schedule
 *
 * A copy is the same arena. */
class Arena {
 public:
  explicit Arena(uint32_t flags = 0) {
    const detail::Root root = Context::current().root();
    aster_ml_arena made{};
    if (detail::good(aster_ml_arena_init(&made, root.get(), flags)))
      arena_ = {std::move(made), root};
  }
  bool ok() const { return !arena_.empty(); }
  aster_ml_arena* get() const { return arena_.get(); }

  /* While it lives, what its thread makes in the arena's context belongs to the arena. They end in
   * the opposite order. */
  class Open {
   public:
    explicit Open(const Arena& arena) : open_(detail::good(aster_ml_arena_begin(arena.get()))) {}
    ~Open() {
      if (open_) (void)aster_ml_arena_end();
    }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    bool ok() const { return open_; }

   private:
    bool open_;
  };
  /* What a function gives that is called while the arena is open. */
  template <class Function>
  auto with(Function&& function) const {
    const Open open(*this);
    return std::forward<Function>(function)();
  }

  bool add(const Tensor& x) const { return detail::good(aster_ml_arena_add(get(), x.get())); }
  bool realize() const { return detail::good(aster_ml_arena_realize(get())); }
  bool reset() const { return detail::good(aster_ml_arena_reset(get())); }
  /* Its pending tensors as one node, a Sink. */
  Uop uop() const {
    const aster_ml_uop* node = nullptr;
    if (!detail::good(aster_ml_arena_to_uop(&node, get()))) return {};
    return Uop(node, arena_.needed());
  }
  aster_ml_arena_counters counters() const {
    aster_ml_arena_counters out{};
    out.struct_size = sizeof(out);
    (void)detail::good(aster_ml_arena_count(&out, get()));
    return out;
  }

 private:
  detail::Shared<aster_ml_arena, detail::Root> arena_;
};

}  // namespace aster_ml
#endif
