// Layers of sequences: embeddings and recurrent cells.
#include <array>
#include <cmath>

#include "nn/making.h"
#include "tensor/ops.h"

namespace aster::nn {
namespace {

namespace ops = tensor::ops;

// ---- embedding ----

Node run_embedding(Layer& layer, engine::Engine& engine, Node x, bool, Assignments&) {
  Graph& g = engine::graph_of(engine);
  const Node weight = layer.find("weight").node();
  if (!dtype::is_int(x->dtype)) {
    (void)ASTER_FAIL(kDTYPE, "an embedding of %s: integers are needed", uop::brief(x).text);
    return nullptr;
  }
  const Node rows = tensor::strong(g, x);
  if (rows == nullptr) return nullptr;
  uop::Dims shape(rows->shape());
  if (shape.size() == uop::Dims::kMost) {
    (void)ASTER_FAIL(kRANGE, "an embedding of %s", uop::brief(x).text);
    return nullptr;
  }
  const Word last = static_cast<Word>(shape.size()), size = weight->dim(1);
  shape.push(1);
  const Node column = g.reshape(rows, shape);
  shape[shape.size() - 1] = size;
  const Node index = uop::broadcast_to(g, column, shape);
  if (index == nullptr) return nullptr;
  return g.gather(weight, std::array{index}, std::array<Word, 2>{-1, last}, shape);
}

// ---- lstm_cell ----

// A layer's x weight^T + bias.
Node linear(Graph& g, Node x, Node weight, Node bias) {
  const Node y = tensor::matmul(g, x, g.permute(weight, std::array<Word, 2>{1, 0}));
  return bias == nullptr ? y : tensor::binary(g, y, bias, ops::add);
}

Node run_lstm_cell(Layer&, engine::Engine&, Node, bool, Assignments&) {
  (void)ASTER_FAIL(kARGUMENT, "an LSTM cell has two results: aster_ml_lstm_cell_run");
  return nullptr;
}

struct CellState {
  Node h, c;
};

Status check_cell(Layer& layer, Node x, const CellState& state) {
  const Word inputs = layer.find("weight_ih").node()->dim(1);
  const Word hidden = layer.find("weight_hh").node()->dim(1);
  if (x->ndim != 2 || x->dim(1) != inputs) {
    return ASTER_FAIL(kSHAPE, "an LSTM cell of %lld inputs on %s", static_cast<long long>(inputs),
                      uop::brief(x).text);
  }
  for (const Node s : {state.h, state.c}) {
    if (s == nullptr) continue;
    if (s->ndim != 2 || s->dim(0) != x->dim(0) || s->dim(1) != hidden) {
      return ASTER_FAIL(kSHAPE, "an LSTM cell of %lld hidden on %s with state %s",
                        static_cast<long long>(hidden), uop::brief(x).text, uop::brief(s).text);
    }
  }
  return kOk;
}

CellState step_cell(Layer& layer, Graph& g, Node x, CellState state) {
  const auto parameter = [&](const char* name) { return layer.find(name).node(); };
  const Word hidden = parameter("weight_hh")->dim(1);
  if (state.h == nullptr) {
    const DType dtype = g.real(x->dtype);
    state.h = state.c = g.constant(dtype, 0, std::array{x->dim(0), hidden});
  }
  const Node gates =
      tensor::binary(g, linear(g, x, parameter("weight_ih"), parameter("bias_ih")),
                     linear(g, state.h, parameter("weight_hh"), parameter("bias_hh")), ops::add);
  const auto quarter = [&](Word k) {
    return tensor::shrink(g, gates, std::array<Word, 2>{0, k * hidden},
                          std::array{x->dim(0), (k + 1) * hidden});
  };
  const auto sigmoid = [&](Node n) { return tensor::unary(g, n, ops::sigmoid); };
  const auto tanh = [&](Node n) { return tensor::unary(g, n, ops::tanh); };
  const auto mul = [&](Node a, Node b) { return tensor::binary(g, a, b, ops::mul); };
  const Node i = sigmoid(quarter(0)), f = sigmoid(quarter(1)), o = sigmoid(quarter(3));
  const Node c = tensor::binary(g, mul(f, state.c), mul(i, tanh(quarter(2))), ops::add);
  return {mul(o, tanh(c)), c};
}

}  // namespace
}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_embedding_init(aster_ml_layer* out, const aster_ml_context* context, int64_t rows,
                                int64_t size) {
  ASTER_API();
  Making making(out, context);
  ASTER_TRY(making.status());
  ASTER_TRY(positive("rows", rows));
  ASTER_TRY(positive("size", size));
  making.layer().run = run_embedding;
  const double bound = std::sqrt(6 / (static_cast<double>(rows) + static_cast<double>(size)));
  ASTER_TRY(making.uniform("weight", std::array{rows, size}, bound));
  return making.finish();
}

int32_t aster_ml_lstm_cell_init(aster_ml_layer* out, const aster_ml_context* context,
                                int64_t inputs, int64_t hidden, int32_t bias) {
  ASTER_API();
  Making making(out, context);
  ASTER_TRY(making.status());
  ASTER_TRY(positive("inputs", inputs));
  ASTER_TRY(positive("hidden", hidden));
  if (hidden > INT64_MAX / 4) {
    return ASTER_FAIL(kRANGE, "hidden is %lld", static_cast<long long>(hidden));
  }
  making.layer().run = run_lstm_cell;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  ASTER_TRY(making.uniform("weight_ih", std::array{4 * hidden, inputs}, bound));
  ASTER_TRY(making.uniform("weight_hh", std::array{4 * hidden, hidden}, bound));
  if (bias != 0) {
    for (const char* name : {"bias_ih", "bias_hh"}) {
      const std::array shape{4 * hidden};
      ASTER_TRY(making.constant(name, making.default_float(), shape, 0, true));
    }
  }
  return making.finish();
}

int32_t aster_ml_lstm_cell_run(aster_ml_lazy* out_h, aster_ml_lazy* out_c,
                               const aster_ml_layer* layer, const aster_ml_lazy* x,
                               const aster_ml_lazy* h, const aster_ml_lazy* c) {
  ASTER_API();
  if (out_c == out_h || out_c == nullptr || out_c == x || out_c == h || out_c == c) {
    if (out_h != nullptr && out_h != x && out_h != h && out_h != c) out_h->impl = nullptr;
    return ASTER_FAIL(kARGUMENT, "out_c is null, out_h or an input");
  }
  out_c->impl = nullptr;
  aster::tensor::Build build(out_h, {x}, {h, c});
  ASTER_TRY(build.status());
  Layer* impl = layer_of(layer);
  if (impl == nullptr || impl->run != run_lstm_cell || impl->context != &build.context()) {
    return ASTER_FAIL(kARGUMENT,
                      "an empty or freed layer, no LSTM cell, or one of another context");
  }
  if ((h == nullptr) != (c == nullptr)) {
    return ASTER_FAIL(kARGUMENT, "one of h and c is given");
  }
  using aster::tensor::node;
  ASTER_TRY(check_cell(*impl, node(x), {node(h), node(c)}));
  const CellState made = step_cell(*impl, build.graph(), node(x), {node(h), node(c)});
  if (made.h == nullptr || made.c == nullptr) return aster::last_failure();
  aster::engine::Lazy* cell;
  ASTER_TRY(aster::engine::lazy_create(&cell, build.engine(), made.c));
  const Status status = build.finish(made.h);
  if (status.ok()) {
    out_c->impl = cell->handle;
  } else {
    aster::free_handle(cell);
  }
  return status;
}
