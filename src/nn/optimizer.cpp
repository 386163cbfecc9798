#include "nn/optimizer.h"

#include "engine/engine.h"
#include "gradient/gradient.h"
#include "nn/layer.h"
#include "nn/state.h"

namespace aster::nn {

Status Optimizer::each(Take take, void* self) const {
  for (const Scalar& scalar : scalars) ASTER_TRY(take(self, scalar.name, scalar.value));
  for (int i = 0; i < 2 && rule->moments[i] != nullptr; ++i) {
    for (const Trained& t : trained) {
      if (t.moments[i].empty()) continue;
      Text name(context->heap());
      name << rule->moments[i] << "." << t.name.view();
      ASTER_TRY(name.status());
      ASTER_TRY(take(self, name.view(), t.moments[i]));
    }
  }
  return kOk;
}

namespace {

constexpr double kRate = 0.001, kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;

// Narrow parameters are updated in float32, then rounded once.
DType working_dtype(Node w) { return dtype::least_upper(w->dtype, DType::kFloat32); }

Expr expr(Graph& g, const Shared& x) { return {&g, x.node()}; }
Expr rate(Optimizer& o, Graph& g, DType dtype) { return expr(g, o.scalars[0].value).cast(dtype); }

// Assigns the new value of a tensor, and gives that value.
Status write(Assignments& writes, const Shared& target, Expr value) {
  return writes.add(target.cell(), value.cast(target.node()->dtype).n);
}

// A scalar spread over a shape, so that it meets tensors of any rank, 0-d ones too.
Expr spread(Expr scalar, Words shape) {
  if (scalar.n == nullptr) return scalar;
  return scalar.reshape(uop::Dims(shape.size(), 1)).expand(shape);
}

// ---- SGD ----

Status begin_sgd(Optimizer&, Graph&, Assignments&) { return kOk; }

Status update_sgd(Optimizer& o, Graph& g, Optimizer::Trained& t, Node gradient,
                  Assignments& writes) {
  const DType dtype = working_dtype(t.w.node());
  const Expr w = expr(g, t.w).cast(dtype);
  Expr step = Expr{&g, gradient}.cast(dtype);
  if (o.sgd.weight_decay != 0) step = step + w * o.sgd.weight_decay;
  if (!t.moments[0].empty()) {
    const Expr moment = expr(g, t.moments[0]) * o.sgd.momentum + step;
    ASTER_TRY(write(writes, t.moments[0], moment));
    const Expr written = expr(g, t.moments[0]);
    step = o.sgd.nesterov != 0 ? step + written * o.sgd.momentum : written;
  }
  return write(writes, t.w, w - step * spread(rate(o, g, dtype), w.shape()));
}

// ---- Adam ----

constexpr size_t kPower1 = 1, kPower2 = 2;  // of the scalars

Status begin_adam(Optimizer& o, Graph& g, Assignments& writes) {
  const Shared &power1 = o.scalars[kPower1].value, &power2 = o.scalars[kPower2].value;
  ASTER_TRY(write(writes, power1, expr(g, power1) * o.adam.beta1));
  return write(writes, power2, expr(g, power2) * o.adam.beta2);
}

Status update_adam(Optimizer& o, Graph& g, Optimizer::Trained& t, Node gradient,
                   Assignments& writes) {
  const DType dtype = working_dtype(t.w.node());
  const Expr w = expr(g, t.w).cast(dtype), d = Expr{&g, gradient}.cast(dtype);
  const auto decay = [&](const Shared& moment, double beta, Expr to) {
    return write(writes, moment, expr(g, moment) * beta + to * (1 - beta));
  };
  ASTER_TRY(decay(t.moments[0], o.adam.beta1, d));
  ASTER_TRY(decay(t.moments[1], o.adam.beta2, d * d));
  const auto unbiased = [&](const Shared& moment, size_t power) {
    const Expr rest = 1.0 - expr(g, o.scalars[power].value).cast(dtype);
    return expr(g, moment) / spread(rest, w.shape());
  };
  const Expr mean = unbiased(t.moments[0], kPower1), square = unbiased(t.moments[1], kPower2);
  Expr step = mean / (sqrt(square) + o.adam.eps);
  if (o.adam.weight_decay != 0) step = step + w * o.adam.weight_decay;
  return write(writes, t.w, w - step * spread(rate(o, g, dtype), w.shape()));
}

constexpr Optimizer::Rule kSgd = {{"momentum", nullptr}, begin_sgd, update_sgd};
constexpr Optimizer::Rule kPlainSgd = {{nullptr, nullptr}, begin_sgd, update_sgd};
constexpr Optimizer::Rule kAdam = {{"m", "v"}, begin_adam, update_adam};

// ---- Making ----

void destroy_optimizer(HandleObject* object) {
  Optimizer* optimizer = static_cast<Optimizer*>(object);
  optimizer->context->heap().destroy(optimizer);
}

Status add_parameter(Optimizer& o, engine::Engine& engine, const State::Entry& entry) {
  const Node node = entry.parameter.node();
  if (!entry.parameter.trained()) return o.others.push(entry.parameter);
  if (engine::storage_of(node)->read_only) {
    return ASTER_FAIL(kARGUMENT, "'%s' is in read-only memory", entry.name.view().data());
  }
  Optimizer::Trained t{Text(o.context->heap()), entry.parameter, {}};
  t.name << entry.name.view();
  ASTER_TRY(t.name.status());
  for (int i = 0; i < 2 && o.rule->moments[i] != nullptr; ++i) {
    ASTER_TRY(filled(&t.moments[i], engine, working_dtype(node), node->shape(), 0, false));
  }
  return o.trained.push(std::move(t));
}

struct ScalarRow {
  const char* name;
  double value;
};

Status fill(Optimizer& o, const State& state, std::span<const ScalarRow> scalars) {
  engine::Engine* engine;
  ASTER_TRY(engine::engine_of(&engine, *o.context));
  ASTER_TRY(realize_state(state));
  for (const ScalarRow& row : scalars) {
    Optimizer::Scalar scalar{row.name, {}};
    ASTER_TRY(
        filled(&scalar.value, *engine, DType::kFloat32, std::array<Word, 1>{1}, row.value, false));
    ASTER_TRY(o.scalars.push(std::move(scalar)));
  }
  for (const State::Entry& entry : state.entries) ASTER_TRY(add_parameter(o, *engine, entry));
  if (o.trained.empty()) return ASTER_FAIL(kARGUMENT, "the state has nothing to train");
  return kOk;
}

// The optimiser with its options, checked, is filled and handed out, or freed.
Status finish(aster_ml_optimizer* out, Optimizer* o, const State& state,
              std::span<const ScalarRow> scalars) {
  const Status status = fill(*o, state, scalars);
  if (status.ok()) {
    out->impl = o;
  } else {
    free_handle(o);
  }
  return status;
}

Status create(Optimizer** out, Context& context, const Optimizer::Rule& rule) {
  *out = context.heap().create<Optimizer>(context.heap());
  if (*out == nullptr) return out_of_memory(sizeof(Optimizer));
  handle_init(*out, context, destroy_optimizer);
  scope_remove(*out);
  (*out)->rule = &rule;
  return kOk;
}

Status check_rate(double value) {
  if (value >= 0 && value <= 3e38) return kOk;
  return ASTER_FAIL(kRANGE, "a learning rate of %g", value);
}
Status check_decay(const char* what, double value) {
  if (value >= 0 && value < 1) return kOk;
  return ASTER_FAIL(kRANGE, "%s %g is not from 0 to 1", what, value);
}
Status check_positive(const char* what, double value) {
  if (value >= 0) return kOk;
  return ASTER_FAIL(kRANGE, "%s %g is negative", what, value);
}

// ---- Steps ----

Status step(Optimizer& o, engine::Engine& engine, Nodes gradients, engine::Lazy* loss) {
  Graph& g = engine::graph_of(engine);
  Assignments writes(engine);
  ASTER_TRY(o.rule->begin(o, g, writes));
  for (size_t i = 0; i < o.trained.size(); ++i) {
    ASTER_TRY(o.rule->update(o, g, o.trained[i], gradients[i], writes));
  }
  Vec<engine::Lazy*> cells(o.context->heap());
  ASTER_TRY(cells.push(loss));
  for (const Optimizer::Trained& t : o.trained) {
    ASTER_TRY(cells.push(&t.w.cell()));
    for (const Shared& moment : t.moments) {
      if (!moment.empty()) ASTER_TRY(cells.push(&moment.cell()));
    }
  }
  for (const Shared& other : o.others) ASTER_TRY(cells.push(&other.cell()));
  for (size_t i = 1; i < o.scalars.size(); ++i) ASTER_TRY(cells.push(&o.scalars[i].value.cell()));
  ASTER_TRY(realize(o.context->heap(), {cells.data(), cells.size()}));
  writes.keep();
  return kOk;
}

Status step_by_loss(Optimizer& o, engine::Engine& engine, engine::Lazy& loss) {
  const Node y = loss.node;
  if (y->ndim != 0)
    return ASTER_FAIL(kSHAPE, "a step on %s: a 0-d loss is needed", uop::brief(y).text);
  Heap& heap = o.context->heap();
  Vec<Node> targets(heap), gradients(heap);
  for (const Optimizer::Trained& t : o.trained) ASTER_TRY(targets.push(t.w.node()));
  ASTER_TRY(gradients.resize(targets.size(), nullptr));
  ASTER_TRY(gradient::gradient(engine::graph_of(engine), y, nullptr,
                               {targets.data(), targets.size()},
                               {gradients.data(), gradients.size()}));
  return step(o, engine, {gradients.data(), gradients.size()}, &loss);
}

Status check_gradient(const Optimizer::Trained& t, const aster_ml_lazy* given, Context& context,
                      Node* out) {
  ASTER_TRY(tensor::check_handle(given));
  if (tensor::cell(given)->context != &context) {
    return ASTER_FAIL(kARGUMENT, "an optimiser and a gradient of two contexts");
  }
  *out = tensor::node(given);
  const Node w = t.w.node();
  if (!std::equal(w->shape().begin(), w->shape().end(), (*out)->shape().begin(),
                  (*out)->shape().end())) {
    return ASTER_FAIL(kSHAPE, "%s as gradient of '%.*s', %s", uop::brief(*out).text,
                      static_cast<int>(t.name.view().size()), t.name.view().data(),
                      uop::brief(w).text);
  }
  if (!dtype::is_float((*out)->dtype)) {
    return ASTER_FAIL(kDTYPE, "%s as a gradient", uop::brief(*out).text);
  }
  return kOk;
}

}  // namespace
}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

#define ASTER_ENTER_OPTIMIZER(optimizer)                                            \
  ASTER_API();                                                                      \
  Optimizer* const impl = optimizer_of(optimizer);                                  \
  if (impl == nullptr) return ASTER_FAIL(kARGUMENT, "an empty optimiser is given"); \
  const aster::ContextLock lock(impl->context);                                     \
  ASTER_TRY(lock.status());                                                         \
  aster::engine::Engine* engine;                                                    \
  ASTER_TRY(aster::engine::engine_of(&engine, *impl->context))

#define ASTER_ENTER_NEW_OPTIMIZER(out, state)                                    \
  ASTER_API();                                                                   \
  if ((out) != nullptr) (out)->impl = nullptr;                                   \
  State* const from = state_of(state);                                           \
  if ((out) == nullptr || from == nullptr) {                                     \
    return ASTER_FAIL(kARGUMENT, "a null pointer, or an empty state, is given"); \
  }                                                                              \
  const aster::ContextLock lock(from->context);                                  \
  ASTER_TRY(lock.status())

int32_t aster_ml_sgd_init(aster_ml_optimizer* out, const aster_ml_state* state,
                          const aster_ml_sgd_options* options) {
  ASTER_ENTER_NEW_OPTIMIZER(out, state);
  aster_ml_sgd_options o;
  ASTER_TRY(aster::tensor::options_argument(&o, options));
  if (o.rate == 0) o.rate = kRate;
  ASTER_TRY(check_rate(o.rate));
  ASTER_TRY(check_decay("momentum", o.momentum));
  ASTER_TRY(check_positive("weight_decay", o.weight_decay));
  Optimizer* made;
  ASTER_TRY(create(&made, *from->context, o.momentum != 0 ? kSgd : kPlainSgd));
  made->sgd = o;
  return finish(out, made, *from, std::array{ScalarRow{"rate", o.rate}});
}

int32_t aster_ml_adam_init(aster_ml_optimizer* out, const aster_ml_state* state,
                           const aster_ml_adam_options* options) {
  ASTER_ENTER_NEW_OPTIMIZER(out, state);
  aster_ml_adam_options o;
  ASTER_TRY(aster::tensor::options_argument(&o, options));
  if (o.rate == 0) o.rate = kRate;
  if (o.beta1 == 0) o.beta1 = kBeta1;
  if (o.beta2 == 0) o.beta2 = kBeta2;
  if (o.eps == 0) o.eps = kEps;
  ASTER_TRY(check_rate(o.rate));
  ASTER_TRY(check_decay("beta1", o.beta1));
  ASTER_TRY(check_decay("beta2", o.beta2));
  ASTER_TRY(check_positive("eps", o.eps));
  ASTER_TRY(check_positive("weight_decay", o.weight_decay));
  Optimizer* made;
  ASTER_TRY(create(&made, *from->context, kAdam));
  made->adam = o;
  return finish(out, made, *from,
                std::array{ScalarRow{"rate", o.rate}, ScalarRow{"beta1_power", 1},
                           ScalarRow{"beta2_power", 1}});
}

int32_t aster_ml_optimizer_step(const aster_ml_optimizer* optimizer, aster_ml_lazy* loss) {
  ASTER_ENTER_OPTIMIZER(optimizer);
  ASTER_TRY(aster::tensor::check_handle(loss));
  if (aster::tensor::cell(loss)->context != impl->context) {
    return ASTER_FAIL(kARGUMENT, "an optimiser and a loss of two contexts");
  }
  return step_by_loss(*impl, *engine, *aster::tensor::cell(loss));
}

int32_t aster_ml_optimizer_step_by(const aster_ml_optimizer* optimizer,
                                   const aster_ml_lazy* const* gradients, size_t count) {
  ASTER_ENTER_OPTIMIZER(optimizer);
  if (count != impl->trained.size()) {
    return ASTER_FAIL(kRANGE, "%zu gradients for %zu trained tensors", count, impl->trained.size());
  }
  if (gradients == nullptr) return ASTER_FAIL(kARGUMENT, "gradients is a null pointer");
  aster::Vec<Node> nodes(impl->context->heap());
  ASTER_TRY(nodes.resize(count, nullptr));
  for (size_t i = 0; i < count; ++i) {
    ASTER_TRY(check_gradient(impl->trained[i], gradients[i], *impl->context, &nodes[i]));
  }
  return step(*impl, *engine, {nodes.data(), count}, nullptr);
}

size_t aster_ml_optimizer_count(const aster_ml_optimizer* optimizer) {
  const Optimizer* impl = optimizer_of(optimizer);
  return impl == nullptr ? 0 : impl->trained.size();
}

int32_t aster_ml_optimizer_get(aster_ml_lazy* out, const aster_ml_optimizer* optimizer,
                               size_t index) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENTER_OPTIMIZER(optimizer);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  if (index >= impl->trained.size()) {
    return ASTER_FAIL(kRANGE, "trained tensor %zu of %zu", index, impl->trained.size());
  }
  return copy_handle(out, impl->trained[index].w);
}

int32_t aster_ml_optimizer_set_rate(const aster_ml_optimizer* optimizer, double rate) {
  ASTER_ENTER_OPTIMIZER(optimizer);
  ASTER_TRY(check_rate(rate));
  if (engine->recording != nullptr) return ASTER_FAIL(kSTATE, "a new rate inside a capture");
  const Node node = impl->scalars[0].value.node();
  aster::buffer::Storage* storage = aster::engine::storage_of(node);
  const float value = static_cast<float>(rate);
  return aster::buffer::copy({storage->data, static_cast<size_t>(node->arg(2)), storage->device},
                             {const_cast<float*>(&value), 0, aster::buffer::kHost}, sizeof(value));
}

int32_t aster_ml_optimizer_free(aster_ml_optimizer* optimizer) {
  ASTER_API();
  if (optimizer == nullptr || optimizer->impl == nullptr) return kOk;
  aster::free_handle(optimizer_of(optimizer));
  optimizer->impl = nullptr;
  return kOk;
}
