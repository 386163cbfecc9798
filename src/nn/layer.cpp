#include "nn/making.h"

#include <cmath>
#include <cstring>

#include "aster_ml/random.h"
#include "engine/engine.h"
#include "tensor/ops.h"

namespace aster::nn {

Shared Layer::find(const char* name) const {
  for (const NamedParameter& named : parameters) {
    if (std::strcmp(named.name, name) == 0) return named.parameter;
  }
  return {};
}

Status copy_handle(aster_ml_lazy* out, const Shared& parameter) {
  const aster_ml_lazy handle = parameter.handle();
  return {aster_ml_lazy_copy(out, &handle)};
}

namespace {

// ---- What layers compute ----

Node run_linear(Layer& layer, engine::Engine& engine, Node x, bool, Assignments&) {
  Graph& g = engine::graph_of(engine);
  const Node weight = layer.find("weight").node(), bias = layer.find("bias").node();
  const Node y = tensor::matmul(g, x, g.permute(weight, std::array<Word, 2>{1, 0}));
  return bias == nullptr ? y : tensor::binary(g, y, bias, tensor::ops::add);
}

// A convolution by its public function: f(out, x, weight, bias).
template <typename F>
Node convolve(Layer& layer, engine::Engine& engine, Node x, F f) {
  const Shared weight = layer.find("weight"), bias = layer.find("bias");
  const aster_ml_lazy w = weight.handle(), b = bias.empty() ? aster_ml_lazy{} : bias.handle();
  return through_handle(engine, x, [&](aster_ml_lazy* out, const aster_ml_lazy* in) {
    return f(out, in, &w, bias.empty() ? nullptr : &b);
  });
}

Node run_conv2d(Layer& layer, engine::Engine& engine, Node x, bool, Assignments&) {
  return convolve(layer, engine, x, [&](auto... operands) {
    return aster_ml_lazy_conv2d(operands..., &layer.conv2d);
  });
}

Node run_conv(Layer& layer, engine::Engine& engine, Node x, bool, Assignments&) {
  return convolve(layer, engine, x,
                  [&](auto... operands) { return aster_ml_lazy_conv(operands..., &layer.conv); });
}

Node run_conv_transpose(Layer& layer, engine::Engine& engine, Node x, bool, Assignments&) {
  return convolve(layer, engine, x, [&](auto... operands) {
    return aster_ml_lazy_conv_transpose(operands..., &layer.conv);
  });
}

void destroy_layer(HandleObject* object) {
  Layer* layer = static_cast<Layer*>(object);
  layer->context->heap().destroy(layer);
}

}  // namespace

// ---- Making layers ----

Making::Making(aster_ml_layer* out, const aster_ml_context* context)
    : out_(out), context_(tensor::context_of(context)), lock_(context_) {
  if (out_ != nullptr) out_->impl = nullptr;
  status_ = out_ == nullptr ? ASTER_FAIL(kARGUMENT, "out is a null pointer") : lock_.status();
  if (status_.ok()) status_ = engine::engine_of(&engine_, *context_);
  if (!status_.ok()) return;
  layer_ = context_->heap().create<Layer>(context_->heap());
  if (layer_ == nullptr) {
    status_ = out_of_memory(sizeof(Layer));
    return;
  }
  status_ = handle_init(layer_, *context_, destroy_layer);
  if (!status_.ok()) {
    context_->heap().destroy(std::exchange(layer_, nullptr));
    return;
  }
  scope_remove(layer_);
}

Making::~Making() {
  if (layer_ == nullptr) return;
  free_handle(layer_);
  engine_->graph.collect();  // Buffers without a handle hold memory
}

Status Making::uniform(const char* name, Words shape, double bound) {
  const aster_ml_context context = context_->inner_handle();
  aster_ml_lazy drawn{};
  ASTER_TRY(Status{
      aster_ml_lazy_uniform(&drawn, &context, -bound, bound, 0, shape.size(), shape.data())});
  Shared made;
  ASTER_TRY(Shared::take(&made, tensor::cell(&drawn), true));
  return add(name, std::move(made));
}

Status Making::constant(const char* name, DType dtype, Words shape, double value, bool trained) {
  Shared made;
  const int32_t device = engine::default_device(*engine_);
  ASTER_TRY(filled(&made, *engine_, device, dtype, shape, value, trained));
  return add(name, std::move(made));
}

Status Making::affine(Words shape, bool bias) {
  ASTER_TRY(constant("weight", default_float(), shape, 1, true));
  return bias ? constant("bias", default_float(), shape, 0, true) : kOk;
}

Status positive(const char* what, int64_t size) {
  if (size > 0) return kOk;
  return ASTER_FAIL(kRANGE, "%s is %lld", what, static_cast<long long>(size));
}

namespace {

struct ConvShape {
  int64_t inputs, outputs, groups;
  Words kernel;
  double bound = 0;  // of the initial values
};

Status check_conv(ConvShape* shape) {
  ASTER_TRY(positive("inputs", shape->inputs));
  ASTER_TRY(positive("outputs", shape->outputs));
  ASTER_TRY(positive("groups", shape->groups));
  double fan_in = static_cast<double>(shape->inputs);
  for (const Word size : shape->kernel) {
    ASTER_TRY(positive("a size of the kernel", size));
    fan_in *= static_cast<double>(size);
  }
  if (shape->inputs % shape->groups != 0 || shape->outputs % shape->groups != 0) {
    return ASTER_FAIL(kSHAPE, "%lld and %lld channels in %lld groups",
                      static_cast<long long>(shape->inputs), static_cast<long long>(shape->outputs),
                      static_cast<long long>(shape->groups));
  }
  shape->bound = 1 / std::sqrt(fan_in);
  return kOk;
}

// [a, b, kernel...]
uop::Dims weight_shape(int64_t a, int64_t b, Words kernel) {
  uop::Dims out;
  out.push(a);
  out.push(b);
  for (const Word size : kernel) out.push(size);
  return out;
}

// The options, their lists copied into the layer.
Status copy_options(Layer& layer, const aster_ml_conv_options* options, size_t rank) {
  ASTER_TRY(tensor::options_argument(&layer.conv, options));
  aster_ml_conv_options& o = layer.conv;
  o.struct_size = sizeof(o);
  const int64_t** const lists[] = {&o.stride, &o.dilation, &o.before, &o.after, &o.output_padding};
  ASTER_TRY(layer.lists.reserve(std::size(lists) * rank));  // so that they stay where they are
  for (const int64_t** list : lists) {
    if (*list == nullptr) continue;
    const size_t at = layer.lists.size();
    ASTER_TRY(layer.lists.append(*list, rank));
    *list = layer.lists.data() + at;
  }
  return kOk;
}

Status make_conv(Making& making, int64_t inputs, int64_t outputs, size_t rank,
                 const int64_t* kernel, bool bias, const aster_ml_conv_options* options,
                 bool transpose) {
  ASTER_TRY(making.status());
  Layer& layer = making.layer();
  if (rank == 0 || rank > uop::Dims::kMost - 2) return ASTER_FAIL(kRANGE, "%zu axes", rank);
  ConvShape shape{inputs, outputs, 1, {}};
  ASTER_TRY(tensor::shape_argument(&shape.kernel, rank, kernel));
  ASTER_TRY(copy_options(layer, options, rank));
  if (layer.conv.groups != 0) shape.groups = layer.conv.groups;
  ASTER_TRY(check_conv(&shape));
  layer.run = transpose ? run_conv_transpose : run_conv;
  ASTER_TRY(making.uniform("weight", weight_shape(outputs, inputs / shape.groups, shape.kernel),
                           shape.bound));
  if (bias) ASTER_TRY(making.uniform("bias", std::array{outputs}, shape.bound));
  if (transpose) {  // drawn anew, as the oracle's layer does
    ASTER_TRY(making.uniform("weight", weight_shape(inputs, outputs / shape.groups, shape.kernel),
                             shape.bound));
    layer.parameters[0] = std::move(layer.parameters.back());
    layer.parameters.pop();
  }
  return making.finish();
}

}  // namespace
}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_linear_init(aster_ml_layer* out, const aster_ml_context* context, int64_t inputs,
                             int64_t outputs, int32_t bias) {
  ASTER_API();
  Making making(out, context);
  ASTER_TRY(making.status());
  ASTER_TRY(positive("inputs", inputs));
  ASTER_TRY(positive("outputs", outputs));
  making.layer().run = run_linear;
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  ASTER_TRY(making.uniform("weight", std::array{outputs, inputs}, bound));
  if (bias != 0) ASTER_TRY(making.uniform("bias", std::array{outputs}, bound));
  return making.finish();
}

int32_t aster_ml_conv2d_init(aster_ml_layer* out, const aster_ml_context* context, int64_t inputs,
                             int64_t outputs, int64_t rows, int64_t columns, int32_t bias,
                             const aster_ml_conv2d_options* options) {
  ASTER_API();
  Making making(out, context);
  ASTER_TRY(making.status());
  Layer& layer = making.layer();
  ASTER_TRY(aster::tensor::options_argument(&layer.conv2d, options));
  layer.conv2d.struct_size = sizeof(layer.conv2d);
  const std::array kernel{rows, columns};
  const int64_t groups = layer.conv2d.groups == 0 ? 1 : layer.conv2d.groups;
  ConvShape shape{inputs, outputs, groups, kernel};
  ASTER_TRY(check_conv(&shape));
  layer.run = run_conv2d;
  ASTER_TRY(making.uniform("weight", weight_shape(outputs, inputs / groups, kernel), shape.bound));
  if (bias != 0) ASTER_TRY(making.uniform("bias", std::array{outputs}, shape.bound));
  return making.finish();
}

int32_t aster_ml_conv_init(aster_ml_layer* out, const aster_ml_context* context, int64_t inputs,
                           int64_t outputs, size_t rank, const int64_t* kernel, int32_t bias,
                           const aster_ml_conv_options* options) {
  ASTER_API();
  Making making(out, context);
  return make_conv(making, inputs, outputs, rank, kernel, bias != 0, options, false);
}

int32_t aster_ml_conv_transpose_init(aster_ml_layer* out, const aster_ml_context* context,
                                     int64_t inputs, int64_t outputs, size_t rank,
                                     const int64_t* kernel, int32_t bias,
                                     const aster_ml_conv_options* options) {
  ASTER_API();
  Making making(out, context);
  return make_conv(making, inputs, outputs, rank, kernel, bias != 0, options, true);
}

int32_t aster_ml_layer_run(aster_ml_lazy* out, const aster_ml_layer* layer, const aster_ml_lazy* x,
                           int32_t training) {
  ASTER_API();
  aster::tensor::Build build(out, {x});
  ASTER_TRY(build.status());
  Layer* impl = layer_of(layer);
  if (impl == nullptr) return ASTER_FAIL(kARGUMENT, "an empty layer, or one that was freed");
  if (impl->context != &build.context()) {
    return ASTER_FAIL(kARGUMENT, "a layer and a tensor of two contexts");
  }
  Assignments writes(build.engine());
  const Node in = aster::tensor::node(x);
  ASTER_TRY(build.finish(impl->run(*impl, build.engine(), in, training != 0, writes)));
  writes.keep();
  return kOk;
}

int32_t aster_ml_layer_get(aster_ml_lazy* out, const aster_ml_layer* layer, const char* name) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  out->impl = nullptr;
  const Layer* impl = layer_of(layer);
  if (impl == nullptr || name == nullptr)
    return ASTER_FAIL(kARGUMENT, "an empty or freed layer, or no name");
  const aster::ContextLock lock(impl->context);
  ASTER_TRY(lock.status());
  const Shared found = impl->find(name);
  if (found.empty()) return ASTER_FAIL(kNOT_FOUND, "the layer has no '%.64s'", name);
  return copy_handle(out, found);
}

int32_t aster_ml_layer_free(aster_ml_layer* layer) {
  ASTER_API();
  if (layer != nullptr) aster::give_up(&layer->impl);
  return kOk;
}
