// Initialisers, dropout, permutations and sampling: random numbers put to use.
#include <array>
#include <cmath>

#include "aster_ml/random.h"
#include "tensor/random.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;
using uop::Op;

double product(Words dims) {
  double n = 1;
  for (Word dim : dims) n *= static_cast<double>(dim);
  return n;
}

// Uniform in [-bound, bound). Where an axis is empty the bound is no number, nor does it matter.
Status uniform_within(Node* out, engine::Engine& engine, double bound, const Request& r) {
  if (product(r.shape) == 0) bound = 1;
  return uniform_between(out, engine, -bound, bound, r.dtype, r.shape);
}

Status needs_axis(const char* what, const Request& r) {
  return r.shape.empty() ? ASTER_FAIL(kSHAPE, "%s of no axes", what) : kOk;
}

// The bound of a uniform distribution with variance 1 / inputs, corrected for a leaky relu.
double kaiming(double numerator, double a, const Request& r) {
  return std::sqrt(numerator / (1 + a * a) / product(r.shape.subspan(1)));
}

Status dropout_chance(double p) {
  return p >= 0 && p <= 1 ? kOk : ASTER_FAIL(kRANGE, "dropout with chance %g", p);
}

// Samples with replacement: how many steps of the cumulated weights lie at or below a uniform
// number.
Status draw_replaced(Node* out, engine::Engine& engine, Node weight, Word samples) {
  Graph& g = engine::graph_of(engine);
  const Word rows = weight->dim(0), classes = weight->dim(1);
  const Expr cumulated{&g, g.scan(Op::kAdd, g.cast(weight, dtype::sum_acc(weight->dtype)), 1)};
  const Expr steps = cumulated.cast(DType::kFloat32);
  const Expr total{&g, g.slice(steps.n, std::array<Word, 2>{0, classes - 1},
                               std::array<Word, 2>{1, 1}, std::array{rows, Word{1}})};
  Node drawn;
  int32_t device;
  ASTER_TRY(device_of(&device, engine, weight));
  ASTER_TRY(rand(&drawn, engine, g.defaults.real, std::array{samples, rows, Word{1}}));
  drawn = g.transfer(drawn, device, engine::default_device(engine));
  const Node reached = binary(g, drawn, (steps / total).n, ops::ge);
  const Expr below = Expr{&g, reached}.cast(DType::kInt32);
  *out = drop_axes(g, reduce(Op::kAdd, below, std::array<Word, 1>{2}).n, std::array<Word, 1>{2});
  *out = g.permute(*out, std::array<Word, 2>{1, 0});
  return *out == nullptr ? last_failure() : kOk;
}

// Samples without replacement, after Efraimidis and Spirakis: those with the largest log(u) /
// weight.
Status draw_apart(Node* out, engine::Engine& engine, Node weight, Word samples) {
  Graph& g = engine::graph_of(engine);
  Node drawn;
  int32_t device;
  ASTER_TRY(device_of(&device, engine, weight));
  ASTER_TRY(rand(&drawn, engine, DType::kFloat32, weight->shape(), device));
  const Node score = binary(g, log2(Expr{&g, drawn}).n, weight, ops::div);
  *out = g.argsort(score, 1, true, samples);
  return *out == nullptr ? last_failure() : kOk;
}

// Numbers of the shape, on the device, and by default of the dtype of x.
Status draw_like(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t dtype,
                 decltype(normal)* draw) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, node(x)->dtype));
  Node numbers;
  int32_t device;
  ASTER_TRY(device_of(&device, build.engine(), node(x)));
  ASTER_TRY(draw(&numbers, build.engine(), to, node(x)->shape(), device));
  return build.finish(numbers);
}

}  // namespace

Status dropout(Node* out, engine::Engine& engine, Node x, double p, bool training) {
  ASTER_TRY(dropout_chance(p));
  *out = x;
  if (!training || p == 0) return kOk;
  Graph& g = engine::graph_of(engine);
  if (p == 1) {
    *out = g.constant_int(x->dtype, 0, x->shape());
    return *out == nullptr ? last_failure() : kOk;
  }
  Node drawn;
  int32_t device;
  ASTER_TRY(device_of(&device, engine, x));
  ASTER_TRY(uniform(&drawn, engine, g.defaults.real, x->shape(), device));
  const Node kept = (Expr{&g, drawn} >= p).n, zero = g.constant_int(DType::kWeakInt, 0);
  *out = binary(g, where(g, kept, x, zero), g.constant(DType::kWeakFloat, 1 - p), ops::div);
  return *out == nullptr ? last_failure() : kOk;
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_lazy_rand_like(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t dtype) {
  ASTER_API();
  return draw_like(out, x, dtype, rand);
}

int32_t aster_ml_lazy_randn_like(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t dtype) {
  ASTER_API();
  return draw_like(out, x, dtype, normal);
}

int32_t aster_ml_lazy_scaled_uniform(aster_ml_lazy* out, const aster_ml_context* context,
                                     int32_t dtype, size_t ndim, const int64_t* shape) {
  ASTER_API();
  return draw(out, context, dtype, DType::kWeakFloat, ndim, shape,
              [&](Node* numbers, Build& build, const Request& r) -> Status {
                ASTER_TRY(uniform_within(numbers, build.engine(), 1, r));
                const double count = product(r.shape);
                const Expr drawn{&build.graph(), *numbers};
                *numbers = (drawn * (count == 0 ? 1 : std::pow(count, -0.5))).n;
                return kOk;
              });
}

int32_t aster_ml_lazy_glorot_uniform(aster_ml_lazy* out, const aster_ml_context* context,
                                     int32_t dtype, size_t ndim, const int64_t* shape) {
  ASTER_API();
  return draw(out, context, dtype, DType::kWeakFloat, ndim, shape,
              [&](Node* numbers, Build& build, const Request& r) -> Status {
                ASTER_TRY(needs_axis("glorot_uniform", r));
                const double ends = static_cast<double>(r.shape[0]) + product(r.shape.subspan(1));
                return uniform_within(numbers, build.engine(), std::sqrt(6 / ends), r);
              });
}

int32_t aster_ml_lazy_kaiming_uniform(aster_ml_lazy* out, const aster_ml_context* context, double a,
                                      int32_t dtype, size_t ndim, const int64_t* shape) {
  ASTER_API();
  return draw(out, context, dtype, DType::kWeakFloat, ndim, shape,
              [&](Node* numbers, Build& build, const Request& r) -> Status {
                ASTER_TRY(needs_axis("kaiming_uniform", r));
                return uniform_within(numbers, build.engine(), kaiming(6, a, r), r);
              });
}

int32_t aster_ml_lazy_kaiming_normal(aster_ml_lazy* out, const aster_ml_context* context, double a,
                                     int32_t dtype, size_t ndim, const int64_t* shape) {
  ASTER_API();
  return draw(out, context, dtype, DType::kWeakFloat, ndim, shape,
              [&](Node* numbers, Build& build, const Request& r) -> Status {
                ASTER_TRY(needs_axis("kaiming_normal", r));
                const double std = product(r.shape) == 0 ? 1 : kaiming(2, a, r);
                return normal_around(numbers, build.engine(), 0, std, r.dtype, r.shape);
              });
}

int32_t aster_ml_lazy_randperm(aster_ml_lazy* out, const aster_ml_context* context, int64_t n,
                               int32_t dtype) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kInt32));
  if (n < 0 || n > INT32_MAX) {
    return ASTER_FAIL(kRANGE, "a permutation of %lld", static_cast<long long>(n));
  }
  Graph& g = build.graph();
  Node numbers;
  ASTER_TRY(rand(&numbers, build.engine(), g.defaults.real, std::array<Word, 1>{n}));
  return build.finish(cast(g, g.argsort(numbers, 0, false, n), to));
}

int32_t aster_ml_lazy_multinomial(aster_ml_lazy* out, const aster_ml_lazy* x, int64_t samples,
                                  int32_t replacement) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Graph& g = build.graph();
  const Node given = node(x);
  if (given->ndim != 1 && given->ndim != 2) {
    return ASTER_FAIL(kSHAPE, "multinomial of %s: one or two axes are needed", brief(given).text);
  }
  const Word classes = given->dim(given->ndim - 1u);
  const bool replaced = replacement != 0 || samples == 1;
  if (samples < 1 || classes < 1 || (!replaced && samples > classes)) {
    return ASTER_FAIL(kRANGE, "%lld samples %s replacement of %s", static_cast<long long>(samples),
                      replacement != 0 ? "with" : "without", brief(given).text);
  }
  const Word rows = given->ndim == 1 ? 1 : given->dim(0);
  const Node weight = reshape(g, strong(g, given), std::array{rows, classes});
  if (weight == nullptr) return aster::last_failure();
  Node picked;
  ASTER_TRY(replaced ? draw_replaced(&picked, build.engine(), weight, samples)
                     : draw_apart(&picked, build.engine(), weight, samples));
  if (given->ndim == 1) picked = reshape(g, picked, std::array<Word, 1>{samples});
  return build.finish(picked);
}

int32_t aster_ml_lazy_dropout(aster_ml_lazy* out, const aster_ml_lazy* x, double p,
                              int32_t training) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  Node kept;
  ASTER_TRY(dropout(&kept, build.engine(), node(x), p, training != 0));
  return build.finish(kept);
}
