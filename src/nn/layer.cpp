#include "nn/making.h"

#include <cmath>
#include <cstring>

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

Node run_conv2d(Layer& layer, engine::Engine& engine, Node x, bool, Assignments&) {
  const Shared weight = layer.find("weight"), bias = layer.find("bias");
  const aster_ml_lazy w = weight.handle(), b = bias.empty() ? aster_ml_lazy{} : bias.handle();
  engine::Lazy* input;
  if (!engine::lazy_create(&input, engine, x).ok()) return nullptr;
  const aster_ml_lazy in{input};
  aster_ml_lazy out{};
  Node y = nullptr;
  if (aster_ml_lazy_conv2d(&out, &in, &w, bias.empty() ? nullptr : &b, &layer.conv2d) == 0) {
    y = tensor::node(&out);  // reclaimed by a realize at the earliest
  }
  aster_ml_lazy_free(&out);
  free_handle(input);
  return y;
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
  handle_init(layer_, *context_, destroy_layer);
  scope_remove(layer_);
}

Making::~Making() {
  if (layer_ == nullptr) return;
  free_handle(layer_);
  engine_->graph.collect();  // Buffers without a handle hold memory
}

Status Making::uniform(const char* name, Words shape, double bound) {
  const aster_ml_context context{context_};
  aster_ml_lazy drawn{};
  ASTER_TRY(Status{
      aster_ml_lazy_uniform(&drawn, &context, -bound, bound, 0, shape.size(), shape.data())});
  Shared made;
  ASTER_TRY(Shared::take(&made, tensor::cell(&drawn), true));
  return add(name, std::move(made));
}

Status Making::constant(const char* name, DType dtype, Words shape, double value, bool trained) {
  Shared made;
  ASTER_TRY(filled(&made, *engine_, dtype, shape, value, trained));
  return add(name, std::move(made));
}

Status Making::affine(Words shape, bool bias) {
  ASTER_TRY(constant("weight", DType::kFloat32, shape, 1, true));
  return bias ? constant("bias", DType::kFloat32, shape, 0, true) : kOk;
}

Status positive(const char* what, int64_t size) {
  if (size > 0) return kOk;
  return ASTER_FAIL(kRANGE, "%s is %lld", what, static_cast<long long>(size));
}

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
  ASTER_TRY(positive("inputs", inputs));
  ASTER_TRY(positive("outputs", outputs));
  ASTER_TRY(positive("rows", rows));
  ASTER_TRY(positive("columns", columns));
  Layer& layer = making.layer();
  ASTER_TRY(aster::tensor::options_argument(&layer.conv2d, options));
  layer.conv2d.struct_size = sizeof(layer.conv2d);
  const int64_t groups = layer.conv2d.groups == 0 ? 1 : layer.conv2d.groups;
  ASTER_TRY(positive("groups", groups));
  if (inputs % groups != 0 || outputs % groups != 0) {
    return ASTER_FAIL(kSHAPE, "%lld and %lld channels in %lld groups",
                      static_cast<long long>(inputs), static_cast<long long>(outputs),
                      static_cast<long long>(groups));
  }
  layer.run = run_conv2d;
  const double fan_in =
      static_cast<double>(inputs) * static_cast<double>(rows) * static_cast<double>(columns);
  const double bound = 1 / std::sqrt(fan_in);
  ASTER_TRY(making.uniform("weight", std::array{outputs, inputs / groups, rows, columns}, bound));
  if (bias != 0) ASTER_TRY(making.uniform("bias", std::array{outputs}, bound));
  return making.finish();
}

int32_t aster_ml_layer_run(aster_ml_lazy* out, const aster_ml_layer* layer, const aster_ml_lazy* x,
                           int32_t training) {
  ASTER_API();
  aster::tensor::Build build(out, {x});
  ASTER_TRY(build.status());
  Layer* impl = layer_of(layer);
  if (impl == nullptr) return ASTER_FAIL(kARGUMENT, "an empty layer");
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
  if (impl == nullptr || name == nullptr) return ASTER_FAIL(kARGUMENT, "an empty layer or no name");
  const aster::ContextLock lock(impl->context);
  ASTER_TRY(lock.status());
  const Shared found = impl->find(name);
  if (found.empty()) return ASTER_FAIL(kNOT_FOUND, "the layer has no '%.64s'", name);
  return copy_handle(out, found);
}

int32_t aster_ml_layer_free(aster_ml_layer* layer) {
  ASTER_API();
  if (layer == nullptr || layer->impl == nullptr) return kOk;
  aster::free_handle(layer_of(layer));
  layer->impl = nullptr;
  return kOk;
}
