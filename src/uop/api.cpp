// The public functions on nodes.
#include "aster_ml/uop.h"

#include "base/options.h"
#include "uop/context_graph.h"
#include "uop/print.h"
#include "uop/raw.h"
#include "uop/symbolic.h"

namespace aster::uop {
namespace {

Node node_of(const aster_ml_uop* uop) { return reinterpret_cast<Node>(uop); }
const aster_ml_uop* handle_of(Node node) { return reinterpret_cast<const aster_ml_uop*>(node); }

Status check_node(Graph& g, const aster_ml_uop* uop) {
  if (uop == nullptr) return ASTER_FAIL(kARGUMENT, "the node is null");
  if (!g.owns(node_of(uop))) return ASTER_FAIL(kARGUMENT, "a node of another context");
  return kOk;
}

Status give(const aster_ml_uop** out, Graph& g, Node node) {
  if (node == nullptr) return last_failure();
  g.retain(node);
  *out = handle_of(node);
  return kOk;
}

// Fields that a shorter struct of an older caller leaves out are zero.
Status read_options(aster_ml_uop_options* out, const aster_ml_uop_options* options) {
  *out = {};
  if (options == nullptr) return ASTER_FAIL(kARGUMENT, "options is null");
  ASTER_TRY(read_struct(out, options, "the options"));
  if (out->op == nullptr) return ASTER_FAIL(kARGUMENT, "op is null");
  if ((out->sources == nullptr && out->source_count != 0) ||
      (out->arguments == nullptr && out->argument_count != 0) ||
      (out->shape == nullptr && out->ndim != 0)) {
    return ASTER_FAIL(kARGUMENT, "a count without its array");
  }
  return kOk;
}

Status init(const aster_ml_uop** out, Graph& g, const aster_ml_uop_options* given) {
  aster_ml_uop_options options;
  ASTER_TRY(read_options(&options, given));
  RawNode raw;
  if (options.dtype != 0) ASTER_TRY(dtype::from_code(&raw.dtype, options.dtype));
  Vec<Node> sources(g.memory());
  for (size_t i = 0; i < options.source_count; ++i) {
    ASTER_TRY(check_node(g, options.sources[i]));
    ASTER_TRY(sources.push(node_of(options.sources[i])));
  }
  raw.name = options.op;
  raw.sources = {sources.data(), sources.size()};
  raw.arguments = {options.arguments, options.argument_count};
  raw.shape = {options.shape, options.ndim};
  Node node = nullptr;
  ASTER_TRY(build_raw(&node, g, raw));
  return give(out, g, node);
}

// The part that every function on a context's graph begins with.
#define ASTER_GRAPH(context)               \
  ASTER_ENTER(aster::context_of(context)); \
  aster::uop::Graph* graph = nullptr;      \
  ASTER_TRY(aster::uop::graph_of_context(&graph, *aster::context_of(context)))

}  // namespace
}  // namespace aster::uop

using aster::uop::handle_of;
using aster::uop::node_of;

extern "C" {

int32_t aster_ml_uop_init(const aster_ml_uop** out, const aster_ml_context* context,
                          const aster_ml_uop_options* options) {
  if (out != nullptr) *out = nullptr;
  ASTER_GRAPH(context);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  return aster::uop::init(out, *graph, options);
}

int32_t aster_ml_uop_simplify(const aster_ml_uop** out, const aster_ml_context* context,
                              const aster_ml_uop* uop) {
  if (out != nullptr) *out = nullptr;
  ASTER_GRAPH(context);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  ASTER_TRY(aster::uop::check_node(*graph, uop));
  return aster::uop::give(out, *graph, aster::uop::sym::simplify(*graph, node_of(uop)));
}

int32_t aster_ml_uop_retain(const aster_ml_context* context, const aster_ml_uop* uop) {
  ASTER_GRAPH(context);
  ASTER_TRY(aster::uop::check_node(*graph, uop));
  graph->retain(node_of(uop));
  return ASTER_ML_OK;
}

int32_t aster_ml_uop_release(const aster_ml_context* context, const aster_ml_uop* uop) {
  ASTER_GRAPH(context);
  ASTER_TRY(aster::uop::check_node(*graph, uop));
  if (node_of(uop)->references == 0) return ASTER_FAIL(kSTATE, "nothing retains this node");
  graph->release(node_of(uop));
  return ASTER_ML_OK;
}

int32_t aster_ml_uop_collect(const aster_ml_context* context) {
  ASTER_GRAPH(context);
  graph->collect();
  return ASTER_ML_OK;
}

int32_t aster_ml_uop_count(size_t* out, const aster_ml_context* context) {
  if (out != nullptr) *out = 0;
  ASTER_GRAPH(context);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is null");
  *out = graph->node_count();
  return ASTER_ML_OK;
}

const char* aster_ml_uop_op(const aster_ml_uop* uop) {
  return uop != nullptr ? aster::uop::full_name(node_of(uop)) : "";
}

int32_t aster_ml_uop_dtype(const aster_ml_uop* uop) {
  return uop != nullptr ? static_cast<int32_t>(node_of(uop)->dtype) : 0;
}

uint64_t aster_ml_uop_id(const aster_ml_uop* uop) { return uop != nullptr ? node_of(uop)->id : 0; }

size_t aster_ml_uop_ndim(const aster_ml_uop* uop) {
  return uop != nullptr ? node_of(uop)->ndim : 0;
}

int64_t aster_ml_uop_dim_at(const aster_ml_uop* uop, size_t axis) {
  if (uop == nullptr) return 0;
  return axis < node_of(uop)->ndim ? node_of(uop)->dim(axis) : -1;
}

size_t aster_ml_uop_source_count(const aster_ml_uop* uop) {
  return uop != nullptr ? node_of(uop)->nsrc : 0;
}

const aster_ml_uop* aster_ml_uop_source_at(const aster_ml_uop* uop, size_t index) {
  if (uop == nullptr || index >= node_of(uop)->nsrc) return nullptr;
  return handle_of(node_of(uop)->src(index));
}

size_t aster_ml_uop_argument_count(const aster_ml_uop* uop) {
  return uop != nullptr ? aster::uop::plain_arguments(node_of(uop)).size() : 0;
}

int64_t aster_ml_uop_argument_at(const aster_ml_uop* uop, size_t index) {
  if (uop == nullptr) return 0;
  const aster::uop::Words words = aster::uop::plain_arguments(node_of(uop));
  return index < words.size() ? words[index] : 0;
}

int32_t aster_ml_uop_get_bounds(int64_t* min, int64_t* max, const aster_ml_uop* uop) {
  ASTER_API();
  if (min != nullptr) *min = 0;
  if (max != nullptr) *max = 0;
  if (min == nullptr || max == nullptr || uop == nullptr) {
    return ASTER_FAIL(kARGUMENT, "a null pointer");
  }
  *min = node_of(uop)->vmin;
  *max = node_of(uop)->vmax;
  return ASTER_ML_OK;
}

int32_t aster_ml_uop_walk(const aster_ml_uop** out, size_t* count, size_t capacity,
                          const aster_ml_context* context, const aster_ml_uop* root) {
  if (count != nullptr) *count = 0;
  ASTER_GRAPH(context);
  if (count == nullptr) return ASTER_FAIL(kARGUMENT, "count is null");
  ASTER_TRY(aster::uop::check_node(*graph, root));
  aster::Vec<aster::uop::Node> order(graph->memory());
  ASTER_TRY(aster::uop::toposort(&order, std::array{node_of(root)}));
  if (out != nullptr) {
    if (capacity < order.size()) {
      return ASTER_FAIL(kRANGE, "%zu nodes do not fit in %zu", order.size(), capacity);
    }
    for (size_t i = 0; i < order.size(); ++i) out[i] = handle_of(order[i]);
  }
  *count = order.size();
  return ASTER_ML_OK;
}

int32_t aster_ml_uop_print(char* out, size_t* length, size_t capacity,
                           const aster_ml_context* context, const aster_ml_uop* root) {
  aster::clear_text(out, length, capacity);
  ASTER_GRAPH(context);
  if (length == nullptr) return ASTER_FAIL(kARGUMENT, "length is null");
  ASTER_TRY(aster::uop::check_node(*graph, root));
  aster::Text text(graph->memory());
  ASTER_TRY(aster::uop::print(text, std::array{node_of(root)}));
  return aster::give_text(out, length, capacity, text.view()).code;
}

}  // extern "C"
