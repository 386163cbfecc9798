#include "nn/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "aster_ml/linalg.h"
#include "device/device.h"
#include "dtype/convert.h"
#include "engine/engine.h"
#include "gradient/gradient.h"
#include "nn/layer.h"
#include "nn/state.h"
#include "tensor/linalg.h"

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

constexpr double kRate = 0.001;
constexpr double kMuon[3] = {3.4445, -4.775, 2.0315};  // coefficients

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

// The square root of the sum of all squares, as one element of every axis.
Expr norm(Expr x) {
  uop::Dims axes;
  for (size_t i = 0; i < x.ndim(); ++i) axes.push(static_cast<Word>(i));
  return sqrt(sum(x * x, axes));
}

// ratio where both norms are positive, else 1.
Expr trust_ratio(Expr w, Expr other, Expr ratio) {
  return where(w > 0.0, where(other > 0.0, ratio, 1.0), 1.0);
}

// ---- SGD, LARS, Muon ----

// x as a matrix of its first axis against the others, orthogonalised by steps of Newton and Schulz.
Expr orthogonal(Optimizer& o, Expr x) {
  if (x.n == nullptr || x.n->count() == 0) return x;
  engine::Engine* engine;
  if (!engine::engine_of(&engine, *o.context).ok()) return {x.g, nullptr};
  const uop::Dims shape(x.shape());
  const Expr matrix = x.reshape(std::array{shape[0], x.n->count() / shape[0]});
  const Optimizer::Descent& d = o.descent;
  const Node y =
      through_handle(*engine, matrix.n, [&](aster_ml_lazy* out, const aster_ml_lazy* in) {
        return aster_ml_lazy_newton_schulz(out, in, d.steps, std::size(d.coefficients),
                                           d.coefficients, 1e-7);
      });
  return Expr{x.g, y}.reshape(shape);
}

Status begin_descent(Optimizer&, Graph&, Assignments&) { return kOk; }

Status update_descent(Optimizer& o, Graph& g, Optimizer::Trained& t, Node gradient,
                      Assignments& writes) {
  const Optimizer::Descent& d = o.descent;
  const DType dtype = working_dtype(t.w.node());
  const Expr w = expr(g, t.w).cast(dtype);
  Expr step = Expr{&g, gradient}.cast(dtype), ratio;
  if (d.trust != 0) {
    const Expr size = norm(w), slope = norm(step);
    ratio = trust_ratio(size, slope, size * d.trust / (slope + size * d.decay));
  }
  const auto scaled = [&](Expr x) {
    if (ratio.n != nullptr) x = x * ratio;
    return x * spread(rate(o, g, dtype), w.shape());
  };
  if (!d.decay_after && d.decay != 0) step = step + w * d.decay;
  if (d.classic) step = scaled(step);
  if (!t.moments[0].empty()) {
    const Expr moment = expr(g, t.moments[0]) * d.momentum + step;
    ASTER_TRY(write(writes, t.moments[0], moment));
    const Expr written = expr(g, t.moments[0]);
    step = d.nesterov ? step + written * d.momentum : written;
  }
  if (d.steps > 0) step = orthogonal(o, step);
  if (!d.classic) step = scaled(step);
  if (d.decay_after && d.decay != 0) {
    step = step + w * (spread(rate(o, g, dtype), w.shape()) * d.decay);
  }
  return write(writes, t.w, w - step);
}

// ---- Adam, LAMB ----

constexpr size_t kPower1 = 1, kPower2 = 2;  // of the scalars

Status begin_adam(Optimizer& o, Graph& g, Assignments& writes) {
  const Shared &power1 = o.scalars[kPower1].value, &power2 = o.scalars[kPower2].value;
  ASTER_TRY(write(writes, power1, expr(g, power1) * o.adaptive.beta1));
  return write(writes, power2, expr(g, power2) * o.adaptive.beta2);
}

Status update_adam(Optimizer& o, Graph& g, Optimizer::Trained& t, Node gradient,
                   Assignments& writes) {
  const DType dtype = working_dtype(t.w.node());
  const Expr w = expr(g, t.w).cast(dtype), d = Expr{&g, gradient}.cast(dtype);
  const auto decay = [&](const Shared& moment, double beta, Expr to) {
    return write(writes, moment, expr(g, moment) * beta + to * (1 - beta));
  };
  ASTER_TRY(decay(t.moments[0], o.adaptive.beta1, d));
  ASTER_TRY(decay(t.moments[1], o.adaptive.beta2, d * d));
  const auto unbiased = [&](const Shared& moment, size_t power) {
    const Expr rest = 1.0 - expr(g, o.scalars[power].value).cast(dtype);
    return expr(g, moment) / spread(rest, w.shape());
  };
  const Expr mean = unbiased(t.moments[0], kPower1), square = unbiased(t.moments[1], kPower2);
  Expr step = mean / (sqrt(square) + o.adaptive.eps);
  if (o.adaptive.decay != 0) step = step + w * o.adaptive.decay;
  Expr factor = spread(rate(o, g, dtype), w.shape());
  if (o.adaptive.trust) {
    const Expr size = norm(w), slope = norm(step);
    factor = factor * trust_ratio(size, slope, size / slope);
  }
  return write(writes, t.w, w - step * factor);
}

constexpr Optimizer::Rule kDescent = {{"momentum", nullptr}, begin_descent, update_descent};
constexpr Optimizer::Rule kPlainDescent = {{nullptr, nullptr}, begin_descent, update_descent};
constexpr Optimizer::Rule kAdam = {{"m", "v"}, begin_adam, update_adam};

// ---- Making ----

void destroy_optimizer(HandleObject* object) {
  Optimizer* optimizer = static_cast<Optimizer*>(object);
  optimizer->context->heap().destroy(optimizer);
}

Status add_parameter(Optimizer& o, engine::Engine& engine, const State::Entry& entry) {
  const Node node = entry.parameter.node();
  if (!entry.parameter.trained()) return o.others.push(entry.parameter);
  const buffer::Storage& storage = *engine::storage_of(node);
  if (storage.read_only) {
    return ASTER_FAIL(kARGUMENT, "'%s' is in read-only memory", entry.name.view().data());
  }
  if (o.trained.empty()) o.device = storage.device;
  if (o.device != storage.device) {
    return ASTER_FAIL(kDEVICE, "'%s' is on %s, other parameters on %s", entry.name.view().data(),
                      device::name(storage.device).text, device::name(o.device).text);
  }
  Optimizer::Trained t{Text(o.context->heap()), entry.parameter, {}};
  t.name << entry.name.view();
  ASTER_TRY(t.name.status());
  for (int i = 0; i < 2 && o.rule->moments[i] != nullptr; ++i) {
    ASTER_TRY(
        filled(&t.moments[i], engine, o.device, working_dtype(node), node->shape(), 0, false));
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
  for (const State::Entry& entry : state.entries) ASTER_TRY(add_parameter(o, *engine, entry));
  if (o.trained.empty()) return ASTER_FAIL(kARGUMENT, "the state has nothing to train");
  for (const ScalarRow& row : scalars) {
    Optimizer::Scalar scalar{row.name, {}};
    DType dtype = DType::kFloat32;
    if (o.scalars.empty()) dtype = dtype::least_upper(dtype, engine->graph.defaults.real);
    const std::array<Word, 1> shape{1};
    ASTER_TRY(filled(&scalar.value, *engine, o.device, dtype, shape, row.value, false));
    ASTER_TRY(o.scalars.push(std::move(scalar)));
  }
  return kOk;
}

// The optimiser with its options, checked, is filled and handed out, or freed.
Status finish(aster_ml_optimizer* out, Optimizer* o, const State& state,
              std::span<const ScalarRow> scalars) {
  const Status status = fill(*o, state, scalars);
  if (status.ok()) {
    out->impl = o->handle;
    return kOk;
  }
  Context& context = *state.context;
  free_handle(o);
  engine::Engine* engine;
  if (engine::engine_of(&engine, context).ok()) engine->graph.collect();  // moments hold memory
  return status;
}

Status create(Optimizer** out, Context& context, const Optimizer::Rule& rule) {
  *out = context.heap().create<Optimizer>(context.heap());
  if (*out == nullptr) return out_of_memory(sizeof(Optimizer));
  const Status status = handle_init(*out, context, destroy_optimizer);
  if (!status.ok()) {
    context.heap().destroy(std::exchange(*out, nullptr));
    return status;
  }
  scope_remove(*out);
  (*out)->rule = &rule;
  return kOk;
}

Status check_rate(double value) {
  if (value >= 0 && value <= 3e38) return kOk;
  return ASTER_FAIL(kRANGE, "a learning rate of %g", value);
}

// An option: as given, 0 where it is -0, else its default. Below limit.
Status option(double* out, const char* what, double given, double fallback,
              double limit = std::numeric_limits<double>::infinity()) {
  *out = given != 0 ? given : std::signbit(given) ? 0 : fallback;
  if (*out >= 0 && *out < limit) return kOk;
  if (limit != 1) return ASTER_FAIL(kRANGE, "%s is %g", what, given);
  return ASTER_FAIL(kRANGE, "%s %g is not from 0 to 1", what, given);
}

// The options of every descent, with their defaults.
template <typename Options>
Status descent_options(double* rate, Optimizer::Descent* d, const Options& o, double momentum,
                       double decay) {
  ASTER_TRY(option(rate, "rate", o.rate, kRate));
  ASTER_TRY(option(&d->momentum, "momentum", o.momentum, momentum, 1));
  return option(&d->decay, "weight_decay", o.weight_decay, decay);
}

Status make_descent(aster_ml_optimizer* out, const State& state, const Optimizer::Descent& d,
                    double rate) {
  ASTER_TRY(check_rate(rate));
  Optimizer* made;
  ASTER_TRY(create(&made, *state.context, d.momentum != 0 ? kDescent : kPlainDescent));
  made->descent = d;
  return finish(out, made, state, std::array{ScalarRow{"rate", rate}});
}

Status make_adaptive(aster_ml_optimizer* out, const State& state,
                     const aster_ml_adam_options* options, bool trust, double eps) {
  aster_ml_adam_options o;
  ASTER_TRY(tensor::options_argument(&o, options));
  Optimizer::Adaptive a = {};
  a.trust = trust;
  double rate;
  ASTER_TRY(option(&rate, "rate", o.rate, kRate));
  ASTER_TRY(check_rate(rate));
  ASTER_TRY(option(&a.beta1, "beta1", o.beta1, 0.9, 1));
  ASTER_TRY(option(&a.beta2, "beta2", o.beta2, 0.999, 1));
  ASTER_TRY(option(&a.eps, "eps", o.eps, eps));
  ASTER_TRY(option(&a.decay, "weight_decay", o.weight_decay, 0));
  Optimizer* made;
  ASTER_TRY(create(&made, *state.context, kAdam));
  made->adaptive = a;
  return finish(out, made, state,
                std::array{ScalarRow{"rate", rate}, ScalarRow{"beta1_power", 1},
                           ScalarRow{"beta2_power", 1}});
}

// ---- Steps ----

// Assignments of one step of one optimiser.
Status schedule(Optimizer& o, Graph& g, Nodes gradients, Assignments& writes) {
  ASTER_TRY(o.rule->begin(o, g, writes));
  for (size_t i = 0; i < o.trained.size(); ++i) {
    ASTER_TRY(o.rule->update(o, g, o.trained[i], gradients[i], writes));
  }
  return kOk;
}

using Optimizers = std::span<Optimizer* const>;

// Everything that steps assign, and what their states have besides, computed together.
Status realize_all(Optimizers optimizers, engine::Lazy* loss) {
  Heap& heap = optimizers[0]->context->heap();
  Vec<engine::Lazy*> cells(heap);
  ASTER_TRY(cells.push(loss));
  for (const Optimizer* o : optimizers) {
    for (const Optimizer::Trained& t : o->trained) {
      ASTER_TRY(cells.push(&t.w.cell()));
      for (const Shared& moment : t.moments) {
        if (!moment.empty()) ASTER_TRY(cells.push(&moment.cell()));
      }
    }
    for (const Shared& other : o->others) ASTER_TRY(cells.push(&other.cell()));
    for (const Optimizer::Scalar& scalar : o->scalars) ASTER_TRY(cells.push(&scalar.value.cell()));
  }
  return realize(heap, {cells.data(), cells.size()});
}

// gradients: of all trained tensors, one optimiser after the other.
Status step(Optimizers optimizers, engine::Engine& engine, Nodes gradients, engine::Lazy* loss) {
  Assignments writes(engine);
  for (Optimizer* o : optimizers) {
    const size_t count = o->trained.size();
    ASTER_TRY(schedule(*o, engine::graph_of(engine), gradients.first(count), writes));
    gradients = gradients.subspan(count);
  }
  ASTER_TRY(realize_all(optimizers, loss));
  writes.keep();
  return kOk;
}

Status step_by_loss(Optimizers optimizers, engine::Engine& engine, engine::Lazy& loss) {
  const Node y = loss.node;
  if (y->ndim != 0)
    return ASTER_FAIL(kSHAPE, "a step on %s: a 0-d loss is needed", uop::brief(y).text);
  Heap& heap = engine.context.heap();
  Vec<Node> targets(heap), gradients(heap);
  for (const Optimizer* o : optimizers) {
    for (const Optimizer::Trained& t : o->trained) ASTER_TRY(targets.push(t.w.node()));
  }
  ASTER_TRY(gradients.resize(targets.size(), nullptr));
  ASTER_TRY(gradient::gradient(engine::graph_of(engine), y, nullptr,
                               {targets.data(), targets.size()},
                               {gradients.data(), gradients.size()}));
  return step(optimizers, engine, {gradients.data(), gradients.size()}, &loss);
}

Status check_loss(const aster_ml_lazy* loss, const Context& context) {
  ASTER_TRY(tensor::check_handle(loss));
  if (tensor::cell(loss)->context == &context) return kOk;
  return ASTER_FAIL(kARGUMENT, "an optimiser and a loss of two contexts");
}

Status check_gradient(const Optimizer::Trained& t, const aster_ml_lazy* given, Context& context,
                      Node* out) {
  ASTER_TRY(tensor::check_handle(given));
  if (tensor::cell(given)->context != &context) {
    return ASTER_FAIL(kARGUMENT, "an optimiser and a gradient of two contexts");
  }
  ASTER_TRY(engine::look_at_sizes(*tensor::cell(given)));
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

// Gradients that the caller brings, checked.
Status given_gradients(Vec<Node>* out, Optimizer& o, const aster_ml_lazy* const* gradients,
                       size_t count) {
  if (count != o.trained.size()) {
    return ASTER_FAIL(kRANGE, "%zu gradients for %zu trained tensors", count, o.trained.size());
  }
  if (gradients == nullptr) return ASTER_FAIL(kARGUMENT, "gradients is a null pointer");
  ASTER_TRY(out->resize(count, nullptr));
  for (size_t i = 0; i < count; ++i) {
    ASTER_TRY(check_gradient(o.trained[i], gradients[i], *o.context, &(*out)[i]));
  }
  return kOk;
}

// A list of optimisers of one context, none of them empty, one at least.
Status check_group(const aster_ml_optimizer* const* optimizers, size_t count) {
  if (optimizers == nullptr || count == 0) return ASTER_FAIL(kARGUMENT, "no optimisers are given");
  for (size_t i = 0; i < count; ++i) {
    const Optimizer* o = optimizer_of(optimizers[i]);
    if (o == nullptr) return ASTER_FAIL(kARGUMENT, "optimiser %zu is empty", i);
    if (o->context != optimizer_of(optimizers[0])->context) {
      return ASTER_FAIL(kARGUMENT, "optimisers of two contexts");
    }
  }
  return kOk;
}

}  // namespace
}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

#define ASTER_ENTER_OPTIMIZER(optimizer)                                                \
  ASTER_API();                                                                          \
  Optimizer* const impl = optimizer_of(optimizer);                                      \
  if (impl == nullptr)                                                                  \
    return ASTER_FAIL(kARGUMENT, "an empty optimiser is given, or one that was freed"); \
  const aster::ContextLock lock(impl->context);                                         \
  ASTER_TRY(lock.status());                                                             \
  aster::engine::Engine* engine;                                                        \
  ASTER_TRY(aster::engine::engine_of(&engine, *impl->context))

#define ASTER_ENTER_GROUP(optimizers, count)                         \
  ASTER_API();                                                       \
  ASTER_TRY(check_group(optimizers, count));                         \
  aster::Context& context = *optimizer_of((optimizers)[0])->context; \
  const aster::ContextLock lock(&context);                           \
  ASTER_TRY(lock.status());                                          \
  aster::engine::Engine* engine;                                     \
  ASTER_TRY(aster::engine::engine_of(&engine, context));             \
  aster::Vec<Optimizer*> group(context.heap());                      \
  for (size_t i = 0; i < (count); ++i) ASTER_TRY(group.push(optimizer_of((optimizers)[i])))

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
  Optimizer::Descent d = {};
  d.nesterov = o.nesterov != 0;
  d.classic = o.classic != 0;
  double rate;
  ASTER_TRY(descent_options(&rate, &d, o, 0, 0));
  return make_descent(out, *from, d, rate);
}

int32_t aster_ml_lars_init(aster_ml_optimizer* out, const aster_ml_state* state,
                           const aster_ml_lars_options* options) {
  ASTER_ENTER_NEW_OPTIMIZER(out, state);
  aster_ml_lars_options o;
  ASTER_TRY(aster::tensor::options_argument(&o, options));
  Optimizer::Descent d = {};
  d.nesterov = o.nesterov != 0;
  d.classic = o.not_classic == 0;
  double rate;
  ASTER_TRY(descent_options(&rate, &d, o, 0.9, 1e-4));
  ASTER_TRY(option(&d.trust, "trust", o.trust, 0.001));
  return make_descent(out, *from, d, rate);
}

int32_t aster_ml_muon_init(aster_ml_optimizer* out, const aster_ml_state* state,
                           const aster_ml_muon_options* options) {
  ASTER_ENTER_NEW_OPTIMIZER(out, state);
  aster_ml_muon_options o;
  ASTER_TRY(aster::tensor::options_argument(&o, options));
  Optimizer::Descent d = {};
  d.nesterov = o.no_nesterov == 0;
  d.decay_after = true;
  double rate;
  ASTER_TRY(descent_options(&rate, &d, o, 0.95, 0.1));
  if (o.steps < -1 || o.steps > aster::tensor::kMostSteps) {
    return ASTER_FAIL(kRANGE, "%d steps of Newton and Schulz: -1 to %d", o.steps,
                      static_cast<int>(aster::tensor::kMostSteps));
  }
  d.steps = o.steps == 0 ? 5 : std::max(o.steps, 0);
  const bool given = std::ranges::any_of(o.coefficients, [](double c) { return c != 0; });
  std::ranges::copy(given ? o.coefficients : kMuon, d.coefficients);
  for (const double c : d.coefficients) {
    if (!std::isfinite(c)) return ASTER_FAIL(kRANGE, "a coefficient of %g", c);
  }
  for (const State::Entry& entry : from->entries) {
    if (!entry.parameter.trained() || entry.parameter.node()->ndim > 0) continue;
    return ASTER_FAIL(kSHAPE, "'%s' is a scalar: no matrix", entry.name.view().data());
  }
  return make_descent(out, *from, d, rate);
}

int32_t aster_ml_adam_init(aster_ml_optimizer* out, const aster_ml_state* state,
                           const aster_ml_adam_options* options) {
  ASTER_ENTER_NEW_OPTIMIZER(out, state);
  return make_adaptive(out, *from, options, false, 1e-8);
}

int32_t aster_ml_lamb_init(aster_ml_optimizer* out, const aster_ml_state* state,
                           const aster_ml_adam_options* options) {
  ASTER_ENTER_NEW_OPTIMIZER(out, state);
  return make_adaptive(out, *from, options, true, 1e-6);
}

int32_t aster_ml_optimizer_step(const aster_ml_optimizer* optimizer, aster_ml_lazy* loss) {
  ASTER_ENTER_GROUP(&optimizer, 1);
  ASTER_TRY(check_loss(loss, context));
  return step_by_loss({group.data(), 1}, *engine, *aster::tensor::cell(loss));
}

int32_t aster_ml_optimizer_step_group(const aster_ml_optimizer* const* optimizers, size_t count,
                                      aster_ml_lazy* loss) {
  ASTER_ENTER_GROUP(optimizers, count);
  ASTER_TRY(check_loss(loss, context));
  return step_by_loss({group.data(), count}, *engine, *aster::tensor::cell(loss));
}

int32_t aster_ml_optimizer_step_by(const aster_ml_optimizer* optimizer,
                                   const aster_ml_lazy* const* gradients, size_t count) {
  ASTER_ENTER_OPTIMIZER(optimizer);
  aster::Vec<Node> nodes(impl->context->heap());
  ASTER_TRY(given_gradients(&nodes, *impl, gradients, count));
  return step({&impl, 1}, *engine, {nodes.data(), count}, nullptr);
}

int32_t aster_ml_optimizer_schedule_by(const aster_ml_optimizer* optimizer,
                                       const aster_ml_lazy* const* gradients, size_t count) {
  ASTER_ENTER_OPTIMIZER(optimizer);
  if (gradients == nullptr) return ASTER_FAIL(kARGUMENT, "gradients is a null pointer");
  aster::Vec<Node> nodes(impl->context->heap());
  ASTER_TRY(given_gradients(&nodes, *impl, gradients, count));
  Assignments writes(*engine);
  ASTER_TRY(schedule(*impl, aster::engine::graph_of(*engine), {nodes.data(), count}, writes));
  writes.keep();
  return kOk;
}

int32_t aster_ml_optimizer_realize(const aster_ml_optimizer* const* optimizers, size_t count) {
  ASTER_ENTER_GROUP(optimizers, count);
  return realize_all({group.data(), count}, nullptr);
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

int32_t aster_ml_optimizer_get_rate(aster_ml_lazy* out, const aster_ml_optimizer* optimizer) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENTER_OPTIMIZER(optimizer);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  return copy_handle(out, impl->scalars[0].value);
}

int32_t aster_ml_optimizer_set_rate(const aster_ml_optimizer* optimizer, double rate) {
  ASTER_ENTER_OPTIMIZER(optimizer);
  ASTER_TRY(check_rate(rate));
  if (engine->recording != nullptr) return ASTER_FAIL(kSTATE, "a new rate inside a capture");
  // What was assigned to it and not computed yet would come after.
  ASTER_TRY(realize(impl->context->heap(), std::array{&impl->scalars[0].value.cell()}));
  aster::engine::forget_kept(*engine);
  const Node node = impl->scalars[0].value.node();
  aster::buffer::Storage* storage = aster::engine::storage_of(node);
  double value;  // room for any float
  aster::dtype::convert(&value, node->dtype, &rate, DType::kFloat64, 1);
  return aster::buffer::copy({storage->data, static_cast<size_t>(node->arg(2)), storage->device},
                             {&value, 0, aster::buffer::kHost}, aster::dtype::size(node->dtype));
}

int32_t aster_ml_optimizer_free(aster_ml_optimizer* optimizer) {
  ASTER_API();
  if (optimizer != nullptr) aster::give_up(&optimizer->impl);
  return kOk;
}
