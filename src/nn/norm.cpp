// Layers that normalise.
#include <algorithm>
#include <array>

#include "nn/making.h"
#include "tensor/ops.h"
#include "uop/composite.h"

namespace aster::nn {
namespace {

constexpr double kEps = 1e-5, kMomentum = 0.1;  // of batch_norm

Status check_channels(const char* what, const Layer& layer, Node x) {
  if (x->ndim >= 2 && x->dim(1) == layer.channels) return kOk;
  return ASTER_FAIL(kSHAPE, "%s of %s with %lld channels", what, uop::brief(x).text,
                    static_cast<long long>(layer.channels));
}

// x * weight + bias of a layer where it has them, as shaped by shape.
template <typename Shape>
Node scaled(Layer& layer, Graph& g, Node x, Shape shape) {
  const Node weight = layer.find("weight").node(), bias = layer.find("bias").node();
  if (weight != nullptr) x = tensor::binary(g, x, shape(weight), tensor::ops::mul);
  return bias == nullptr ? x : tensor::binary(g, x, shape(bias), tensor::ops::add);
}

// x in the float dtype that it is normalised in, and returned in.
Node as_float(Graph& g, Node x) { return tensor::cast(g, x, g.real(x->dtype)); }

// ---- batch_norm ----

// [channels] as [1, channels, 1, ...].
Expr by_channel(Expr x, size_t ndim) {
  uop::Dims shape(ndim, 1);
  if (x.n != nullptr) shape[1] = x.n->dim(0);
  return x.reshape(shape);
}

struct Statistics {
  Expr mean, var;  // [channels]
};

// Of the batch. The variance has no gradient by way of the mean: its sum over the batch is 0.
Statistics batch_statistics(Expr x) {
  uop::Dims axes, channels(1, x.n == nullptr ? 1 : x.n->dim(1));
  for (size_t i = 0; i < x.ndim(); ++i) {
    if (i != 1) axes.push(static_cast<Word>(i));
  }
  const Expr mean = uop::mean(x, axes).reshape(channels);
  const Expr centred = x - by_channel(mean.detach(), x.ndim());
  return {mean, uop::mean(centred * centred, axes).reshape(channels)};
}

Status track(Layer& layer, Assignments& writes, Graph& g, const Statistics& batch, Word count) {
  const double momentum = layer.norm.momentum;
  const Word rest = count - batch.mean.n->dim(0);
  const double unbiased = static_cast<double>(count) / static_cast<double>(rest);
  const auto move = [&](const char* name, Expr to, double scale) {
    const Shared running = layer.find(name);
    const Expr old{&g, running.node()};
    const Expr value = old * (1 - momentum) + to.detach().cast(old.dtype()) * (momentum * scale);
    return writes.add(running.cell(), value.n);
  };
  ASTER_TRY(move("running_mean", batch.mean, 1));
  ASTER_TRY(move("running_var", batch.var, unbiased));
  const Shared counter = layer.find("num_batches_tracked");
  return writes.add(counter.cell(), (Expr{&g, counter.node()} + 1.0).n);
}

Node run_batch_norm(Layer& layer, engine::Engine& engine, Node x, bool training,
                    Assignments& writes) {
  Graph& g = engine::graph_of(engine);
  const Shared running = layer.find("running_mean"), weight = layer.find("weight");
  if (!check_channels("batch_norm", layer, x).ok()) return nullptr;
  const DType dtype = dtype::least_upper(g.strong(x->dtype), DType::kFloat32);
  Expr in{&g, g.cast(x, dtype)};
  Statistics used;
  if (training || running.empty()) {
    used = batch_statistics(in);
    if (used.mean.n == nullptr || used.var.n == nullptr) return nullptr;
    if (!running.empty() && !track(layer, writes, g, used, x->count()).ok()) return nullptr;
  } else {
    used = {Expr{&g, running.node()}.cast(dtype),
            Expr{&g, layer.find("running_var").node()}.cast(dtype)};
  }
  const Expr invstd = recip(sqrt(used.var + layer.norm.eps));
  if (weight.empty()) {
    return ((in - by_channel(used.mean, x->ndim)) * by_channel(invstd, x->ndim)).n;
  }
  return uop::build_batch_norm(g, in.n, g.cast(weight.node(), dtype),
                               g.cast(layer.find("bias").node(), dtype), used.mean.n, invstd.n);
}

// ---- group_norm, instance_norm ----

Node run_group_norm(Layer& layer, engine::Engine& engine, Node x, bool, Assignments&) {
  Graph& g = engine::graph_of(engine);
  if (!check_channels("group_norm", layer, x).ok()) return nullptr;
  const Node in = as_float(g, x);
  Word rest = x->dim(1) / layer.groups;
  for (size_t i = 2; i < x->ndim; ++i) rest *= x->dim(i);
  const Node grouped = g.reshape(in, std::array<Word, 3>{x->dim(0), layer.groups, rest});
  const Node y = g.reshape(uop::build_layer_norm(g, grouped, 1, layer.eps), x->shape());
  return scaled(layer, g, y, [&](Node of) { return by_channel({&g, of}, x->ndim).n; });
}

// ---- layer_norm ----

Node normalise_last(Layer& layer, Graph& g, Node x) {
  const Words shape = layer.shape;
  const size_t axes = shape.size();
  if (x->ndim < axes || !std::ranges::equal(shape, x->shape().last(axes))) {
    (void)ASTER_FAIL(kSHAPE, "layer_norm over %s of %s", uop::brief_shape(shape).text,
                     uop::brief(x).text);
    return nullptr;
  }
  const Node y = uop::build_layer_norm(g, as_float(g, x), static_cast<Word>(axes), layer.eps);
  return scaled(layer, g, y, [](Node of) { return of; });
}

Node run_layer_norm(Layer& layer, engine::Engine& engine, Node x, bool, Assignments&) {
  return normalise_last(layer, engine::graph_of(engine), x);
}

Node run_layer_norm2d(Layer& layer, engine::Engine& engine, Node x, bool, Assignments&) {
  Graph& g = engine::graph_of(engine);
  if (x->ndim != 4 || x->dim(1) != layer.shape[0]) {
    (void)ASTER_FAIL(kSHAPE, "layer_norm2d of %s with %lld channels", uop::brief(x).text,
                     static_cast<long long>(layer.shape[0]));
    return nullptr;
  }
  const Node y = normalise_last(layer, g, g.permute(x, std::array<Word, 4>{0, 2, 3, 1}));
  return g.permute(y, std::array<Word, 4>{0, 3, 1, 2});
}

// ---- rms_norm ----

Node run_rms_norm(Layer& layer, engine::Engine& engine, Node x, bool, Assignments&) {
  Graph& g = engine::graph_of(engine);
  const Node weight = layer.find("weight").node();
  if (x->ndim == 0 || (weight != nullptr && x->dim(x->ndim - 1) != weight->dim(0))) {
    (void)ASTER_FAIL(kSHAPE, "rms_norm of %s%s%s", uop::brief(x).text,
                     weight == nullptr ? "" : " with weight ",
                     weight == nullptr ? "" : uop::brief(weight).text);
    return nullptr;
  }
  const DType dtype = dtype::is_float(x->dtype) && !dtype::is_weak(x->dtype)
                          ? dtype::least_upper(x->dtype, DType::kFloat32)
                          : DType::kFloat32;
  const Expr in{&g, tensor::cast(g, x, dtype)};
  const Expr square = mean(in * in, std::array{static_cast<Word>(x->ndim - 1)});
  const Expr y = in * recip(sqrt(square + layer.eps));
  return scaled(layer, g, tensor::cast(g, y.n, x->dtype), [](Node of) { return of; });
}

// ---- Making them ----

Status take_eps(Layer& layer, double eps) {
  layer.eps = eps;
  return eps >= 0 ? kOk : ASTER_FAIL(kRANGE, "eps is %g", eps);
}

Status make_group_norm(aster_ml_layer* out, const aster_ml_context* context, int64_t groups,
                       int64_t channels, double eps, int32_t affine) {
  Making making(out, context);
  ASTER_TRY(making.status());
  ASTER_TRY(positive("channels", channels));
  ASTER_TRY(positive("groups", groups));
  if (channels % groups != 0) {
    return ASTER_FAIL(kSHAPE, "%lld channels in %lld groups", static_cast<long long>(channels),
                      static_cast<long long>(groups));
  }
  Layer& layer = making.layer();
  ASTER_TRY(take_eps(layer, eps));
  layer.run = run_group_norm;
  layer.groups = groups;
  layer.channels = channels;
  if (affine != 0) ASTER_TRY(making.affine(std::array{channels}, true));
  return making.finish();
}

Status make_layer_norm(Making& making, Words shape, double eps, int32_t affine) {
  Layer& layer = making.layer();
  for (const Word dim : shape) {
    ASTER_TRY(positive("a dimension", dim));
    layer.shape.push(dim);
  }
  ASTER_TRY(take_eps(layer, eps));
  if (affine != 0) ASTER_TRY(making.affine(shape, true));
  return making.finish();
}

}  // namespace
}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_batch_norm_init(aster_ml_layer* out, const aster_ml_context* context,
                                 int64_t channels, const aster_ml_batch_norm_options* options) {
  ASTER_API();
  Making making(out, context);
  ASTER_TRY(making.status());
  ASTER_TRY(positive("channels", channels));
  Layer& layer = making.layer();
  aster_ml_batch_norm_options& o = layer.norm;
  ASTER_TRY(aster::tensor::options_argument(&o, options));
  if (!(o.eps >= 0) || !(o.momentum >= 0 && o.momentum <= 1)) {
    return ASTER_FAIL(kRANGE, "eps %g, momentum %g", o.eps, o.momentum);
  }
  if (o.eps == 0) o.eps = kEps;
  if (o.momentum == 0) o.momentum = kMomentum;
  layer.channels = channels;
  layer.run = run_batch_norm;
  const std::array shape{channels};
  if (o.no_affine == 0) ASTER_TRY(making.affine(shape, true));
  if (o.no_track == 0) {
    ASTER_TRY(making.constant("running_mean", making.default_float(), shape, 0, false));
    ASTER_TRY(making.constant("running_var", making.default_float(), shape, 1, false));
  }
  ASTER_TRY(making.constant("num_batches_tracked", DType::kInt64, {}, 0, false));
  return making.finish();
}

int32_t aster_ml_group_norm_init(aster_ml_layer* out, const aster_ml_context* context,
                                 int64_t groups, int64_t channels, double eps, int32_t affine) {
  ASTER_API();
  return make_group_norm(out, context, groups, channels, eps, affine);
}

int32_t aster_ml_instance_norm_init(aster_ml_layer* out, const aster_ml_context* context,
                                    int64_t channels, double eps, int32_t affine) {
  ASTER_API();
  return make_group_norm(out, context, channels, channels, eps, affine);
}

int32_t aster_ml_layer_norm_init(aster_ml_layer* out, const aster_ml_context* context, size_t ndim,
                                 const int64_t* shape, double eps, int32_t affine) {
  ASTER_API();
  Making making(out, context);
  ASTER_TRY(making.status());
  if (ndim == 0 || ndim > aster::uop::Dims::kMost) {
    return ASTER_FAIL(kRANGE, "layer_norm over %zu axes", ndim);
  }
  Words given;
  ASTER_TRY(aster::tensor::shape_argument(&given, ndim, shape));
  making.layer().run = run_layer_norm;
  return make_layer_norm(making, given, eps, affine);
}

int32_t aster_ml_layer_norm2d_init(aster_ml_layer* out, const aster_ml_context* context,
                                   int64_t channels, double eps, int32_t affine) {
  ASTER_API();
  Making making(out, context);
  ASTER_TRY(making.status());
  making.layer().run = run_layer_norm2d;
  return make_layer_norm(making, std::array{channels}, eps, affine);
}

int32_t aster_ml_rms_norm_init(aster_ml_layer* out, const aster_ml_context* context, int64_t size,
                               double eps, int32_t affine) {
  ASTER_API();
  Making making(out, context);
  ASTER_TRY(making.status());
  ASTER_TRY(positive("size", size));
  ASTER_TRY(take_eps(making.layer(), eps));
  making.layer().run = run_rms_norm;
  if (affine != 0) ASTER_TRY(making.affine(std::array{size}, false));
  return making.finish();
}
