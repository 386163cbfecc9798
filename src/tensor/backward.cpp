// Gradients that tensors keep.
#include <algorithm>
#include <array>

#include "aster_ml/gradient.h"
#include "engine/engine.h"
#include "tensor/api.h"

namespace aster::tensor {
namespace {

// The sum of what was there and what came, where the first one lies.
Status add_up(engine::Lazy& target, aster_ml_lazy* found) {
  engine::Lazy* more = cell(found);
  if (target.gradient == nullptr) {
    scope_remove(more);
    engine::set_gradient(target, more);
    found->impl = nullptr;
    return kOk;
  }
  const aster_ml_lazy before{target.gradient->handle};
  aster_ml_lazy sum{}, into{target.gradient->handle};
  Status status{aster_ml_lazy_add(&sum, &before, found)};
  if (status.ok()) status = Status{aster_ml_lazy_assign(&into, &sum)};
  aster_ml_lazy_free(&sum);
  return status;
}

// What one call works on: the tensors that ask for a gradient, and the gradients that came.
struct Backward {
  explicit Backward(Memory& memory)
      : cells(memory), handles(memory), targets(memory), found(memory) {}
  ~Backward() {
    for (aster_ml_lazy& each : found) aster_ml_lazy_free(&each);
  }
  Backward(const Backward&) = delete;
  Backward& operator=(const Backward&) = delete;

  Status collect(engine::Engine& engine) {
    for (engine::Lazy* x = engine::first_wanting(engine); x != nullptr; x = x->wanting)
      ASTER_TRY(cells.push(x));
    std::ranges::reverse(cells);  // in the order in which they were set
    for (engine::Lazy* x : cells) ASTER_TRY(handles.push(aster_ml_lazy{x->handle}));
    for (const aster_ml_lazy& each : handles) ASTER_TRY(targets.push(&each));
    return found.resize(cells.size(), aster_ml_lazy{});
  }
  // Adds what came; then what there is to realise.
  Status add(Vec<aster_ml_lazy*>* all) {
    for (size_t i = 0; i < cells.size(); ++i) {
      if (found[i].impl == nullptr) continue;
      ASTER_TRY(add_up(*cells[i], &found[i]));
      handles[i].impl = cells[i]->gradient->handle;
      ASTER_TRY(all->push(&handles[i]));
    }
    return kOk;
  }

  Vec<engine::Lazy*> cells;
  Vec<aster_ml_lazy> handles;
  Vec<const aster_ml_lazy*> targets;
  Vec<aster_ml_lazy> found;
};

Status backward(aster_ml_lazy* loss, const aster_ml_backward_options& o) {
  engine::Engine& engine = *cell(loss)->engine;
  Backward work(engine.context.heap());
  ASTER_TRY(work.collect(engine));
  aster_ml_gradient_options options{};
  options.struct_size = sizeof(options);
  options.seed = o.seed;
  options.empty_without_path = 1;
  ASTER_TRY(Status{aster_ml_gradient(work.found.data(), loss, work.targets.data(),
                                     work.targets.size(), &options)});
  const bool any = std::ranges::any_of(
      work.found, [](const aster_ml_lazy& each) { return each.impl != nullptr; });
  if (!any) {
    return ASTER_FAIL(kSTATE,
                      "%s depends on none of the %zu tensors that ask for a gradient, or the graph "
                      "behind it has been given up",
                      uop::brief(node(loss)).text, work.cells.size());
  }
  Vec<aster_ml_lazy*> all(engine.context.heap());
  ASTER_TRY(work.add(&all));
  if (o.retain_graph != 0) return kOk;
  ASTER_TRY(all.push(loss));
  return Status{aster_ml_lazy_realize(all.data(), all.size())};
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
namespace engine = aster::engine;
using aster::kOk;

int32_t aster_ml_lazy_set_requires_grad(aster_ml_lazy* x, int32_t requires_grad) {
  ASTER_API();
  ASTER_TRY(check_handle(x));
  const aster::ContextLock lock(cell(x)->context);
  ASTER_TRY(lock.status());
  const Node n = node(x);
  if (requires_grad != 0 && (!aster::dtype::is_float(n->dtype) || aster::dtype::is_weak(n->dtype)))
    return ASTER_FAIL(kDTYPE, "a gradient of %s: a float dtype is needed",
                      aster::uop::brief(n).text);
  engine::want_gradient(*cell(x), requires_grad != 0);
  return kOk;
}

int32_t aster_ml_lazy_requires_grad(const aster_ml_lazy* x) {
  const engine::Lazy* lazy = x == nullptr ? nullptr : cell(x);
  return lazy != nullptr && lazy->wanting_link != nullptr;
}

int32_t aster_ml_lazy_backward(aster_ml_lazy* loss, const aster_ml_backward_options* options) {
  ASTER_API();
  ASTER_TRY(check_handle(loss));
  const aster::ContextLock lock(cell(loss)->context);
  ASTER_TRY(lock.status());
  aster_ml_backward_options o;
  ASTER_TRY(options_argument(&o, options));
  return backward(loss, o);
}

int32_t aster_ml_lazy_grad(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  engine::Lazy* gradient = cell(x)->gradient;
  if (gradient == nullptr) {
    return ASTER_FAIL(kNOT_FOUND, "%s has no gradient", aster::uop::brief(node(x)).text);
  }
  const aster_ml_lazy of{gradient->handle};
  return aster_ml_lazy_copy(out, &of);
}

int32_t aster_ml_lazy_reset_grad(aster_ml_lazy* x) {
  ASTER_API();
  ASTER_TRY(check_handle(x));
  const aster::ContextLock lock(cell(x)->context);
  ASTER_TRY(lock.status());
  engine::set_gradient(*cell(x), nullptr);
  return kOk;
}
