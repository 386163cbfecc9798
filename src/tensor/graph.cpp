// Lazy tensors as nodes, and nodes as lazy tensors.
#include "aster_ml/graph.h"

#include "device/device.h"
#include "engine/engine.h"
#include "engine/rangeify.h"
#include "tensor/api.h"
#include "uop/verify.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::info;
using uop::Op;

// A Buffer of a copy of elements, which nothing is assigned to.
Status literal(Node* out, engine::Engine& engine, const void* data, DType dtype, Words shape) {
  int64_t count = 0;
  if (!uop::count_elements(shape, &count)) {
    return ASTER_FAIL(kRANGE, "%s%s: a dimension is negative, or there are too many elements",
                      dtype::name(dtype), uop::brief_shape(shape).text);
  }
  size_t bytes = 0;
  if (!checked_mul(static_cast<size_t>(count), dtype::size(dtype), &bytes))
    return ASTER_FAIL(kRANGE, "%lld elements are too many", static_cast<long long>(count));
  if (data == nullptr && bytes != 0) {
    return ASTER_FAIL(kARGUMENT, "data is a null pointer for %s%s", dtype::name(dtype),
                      uop::brief_shape(shape).text);
  }
  buffer::Storage* storage;
  ASTER_TRY(
      buffer::storage_create(&storage, engine.context, bytes, engine::default_device(engine)));
  Status status = kOk;
  if (bytes != 0) {
    status = buffer::copy({storage->data, 0, storage->device},
                          {const_cast<void*>(data), 0, buffer::kHost}, bytes);
  }
  storage->read_only = true;
  if (status.ok()) {
    *out = engine::buffer_node(engine, storage, 0, dtype, shape);
    if (*out == nullptr) status = last_failure();
  }
  buffer::storage_release(storage);
  return status;
}

}  // namespace

Status check_outside(Node node) {
  if (const char* fault = uop::find_fault(node, uop::Level::kTensor)) {
    return ASTER_FAIL(kARGUMENT, "%s %s has not %s", info(node->op).name, brief(node).text, fault);
  }
  if (node->op == Op::kParam) {
    return ASTER_FAIL(kARGUMENT, "Param %lld %s has no memory: tensors begin at Buffers and Consts",
                      static_cast<long long>(node->arg(0)), brief(node).text);
  }
  if (node->op == Op::kSink || node->op == Op::kTuple || node->op == Op::kItem ||
      node->dtype == DType::kNone) {
    return ASTER_FAIL(kARGUMENT, "a %s is no tensor", info(node->op).name);
  }
  if (dtype::is_weak(node->dtype) && !uop::is_const(node) && node->op != Op::kCast) {
    return ASTER_FAIL(kDTYPE, "%s %s: weak dtypes are those of constants and of casts",
                      info(node->op).name, brief(node).text);
  }
  for (Node source : node->src()) {
    if (dtype::is_weak(source->dtype) && node->op != Op::kCast) {
      return ASTER_FAIL(kDTYPE, "%s of %s: an operand of a weak dtype is cast first",
                        info(node->op).name, brief(source).text);
    }
  }
  if (node->op == Op::kAssign && !writes_through(node->src(0))) {
    return ASTER_FAIL(kARGUMENT, "Assign to %s %s, which is no storage",
                      info(node->src(0)->op).name, brief(node->src(0)).text);
  }
  if (node->op == Op::kContiguous && node->narg == 2) {
    for (Word word : node->arg()) {
      int32_t device = static_cast<int32_t>(word);
      if (word == 0 && &word != node->arg().data()) continue;
      ASTER_TRY(device::canonical(&device, device));
      ASTER_TRY(device::allocatable(device));
    }
  }
  return kOk;
}

namespace {

Status check_graph(Graph& g, Node root) {
  Vec<Node> nodes(g.memory());
  ASTER_TRY(engine::walk(&nodes, {&root, 1}));
  for (Node node : nodes) ASTER_TRY(check_outside(node));
  return kOk;
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
namespace engine = aster::engine;
using aster::kOk;

int32_t aster_ml_lazy_to_uop(const aster_ml_uop** out, const aster_ml_lazy* x) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  *out = nullptr;
  ASTER_TRY(check_handle(x));
  engine::Lazy& lazy = *cell(x);
  const aster::ContextLock lock(lazy.context);
  ASTER_TRY(lock.status());
  ASTER_TRY(engine::look_at_earlier(lazy));
  ASTER_TRY(engine::look_at_sizes(lazy));
  engine::graph_of(*lazy.engine).retain(lazy.node);
  *out = reinterpret_cast<const aster_ml_uop*>(lazy.node);
  return kOk;
}

int32_t aster_ml_lazy_from_uop(aster_ml_lazy* out, const aster_ml_context* context,
                               const aster_ml_uop* uop) {
  ASTER_API();
  Build build(out, context);
  ASTER_TRY(build.status());
  const auto node = reinterpret_cast<Node>(uop);
  if (node == nullptr) return ASTER_FAIL(kARGUMENT, "the node is null");
  if (!build.graph().owns(node)) return ASTER_FAIL(kARGUMENT, "a node of another context");
  ASTER_TRY(check_graph(build.graph(), node));
  return build.finish(node);
}

int32_t aster_ml_uop_from_data(const aster_ml_uop** out, const aster_ml_context* context,
                               const void* data, int32_t dtype, size_t ndim, const int64_t* shape) {
  if (out != nullptr) *out = nullptr;
  ASTER_ENTER(aster::context_of(context));
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  DType to;
  Words dims;
  ASTER_TRY(aster::dtype::from_any_storage_code(&to, dtype));
  ASTER_TRY(shape_argument(&dims, ndim, shape));
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine::engine_of(&engine, *aster::context_of(context)));
  Node node = nullptr;
  ASTER_TRY(literal(&node, *engine, data, to, dims));
  engine->graph.retain(node);
  *out = reinterpret_cast<const aster_ml_uop*>(node);
  return kOk;
}
