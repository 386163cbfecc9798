// The eager family: the same operations on concrete tensors, computed at once.
#include <algorithm>
#include <cstdio>

#include "aster_ml/eager.h"
#include "aster_ml/functions.h"
#include "buffer/strided.h"
#include "device/device.h"
#include "tensor/api.h"
#include "tensor/strided.h"

namespace aster::tensor {
namespace {

using Operand = const aster_ml_tensor*;

Status check_descriptor(Operand t, Words* shape, Vec<Word>* dims) {
  if (t == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for a tensor");
  if (t->ndim > uop::Dims::kMost) return ASTER_FAIL(kUNSUPPORTED, "%zu axes", t->ndim);
  if (t->ndim != 0 && (t->shape == nullptr || t->strides == nullptr)) {
    return ASTER_FAIL(kARGUMENT, "a tensor of %zu axes without shape or strides", t->ndim);
  }
  for (size_t i = 0; i < t->ndim; ++i) {
    if (t->shape[i] > static_cast<size_t>(INT64_MAX))
      return ASTER_FAIL(kRANGE, "a dimension of %zu", t->shape[i]);
    ASTER_TRY(dims->push(static_cast<Word>(t->shape[i])));
  }
  *shape = {dims->data(), dims->size()};
  return kOk;
}

// Storage that memory from outside lies in, with a reference, and where: known, or wrapped for as
// long as the graph needs it.
Status storage_for(buffer::Storage** out, size_t* offset, Context& context,
                   const aster_ml_buffer& memory) {
  const bool host = memory.device == 0 || device::is_host(memory.device);
  *offset = 0;
  *out =
      host ? buffer::storage_around(memory.data, memory.bytes) : buffer::storage_find(memory.data);
  if (*out != nullptr && (*out)->bytes >= memory.bytes) {
    *offset =
        static_cast<size_t>(static_cast<char*>(memory.data) - static_cast<char*>((*out)->data));
    return kOk;
  }
  buffer::storage_release(*out);
  if (memory.data == nullptr) return buffer::storage_create(out, context, 0, device::kCpu);
  return buffer::storage_wrap(out, context, memory.data, memory.bytes, memory.device, false,
                              nullptr, nullptr);
}

// The elements of a row-major tensor.
Status row_major_node(Node* out, Build& build, const aster_ml_tensor& tensor, DType dtype,
                      Words shape) {
  buffer::Storage* storage = nullptr;
  size_t offset = 0, bytes = 0, end = 0;
  ASTER_TRY(storage_for(&storage, &offset, build.context(), tensor.storage));
  const bool fits = checked_mul(aster_ml_tensor_count(&tensor), dtype::size(dtype), &bytes) &&
                    checked_add(offset, tensor.byte_offset, &offset) &&
                    checked_add(bytes, offset, &end) && end <= storage->bytes;
  Status status;
  if (fits) {
    *out = engine::buffer_node(build.engine(), storage, static_cast<int64_t>(offset), dtype, shape);
    if (*out == nullptr) status = last_failure();
  } else {
    status = ASTER_FAIL(kRANGE, "%s%s reaches outside its %zu bytes", dtype::name(dtype),
                        uop::brief_shape(shape).text, storage->bytes);
  }
  buffer::storage_release(storage);
  return status;
}

// Strided elements are about to be copied.
Status may_copy(Context& context, const aster_ml_tensor& tensor, DType dtype, Words shape) {
  size_t bytes;
  if (!checked_mul(aster_ml_tensor_count(&tensor), dtype::size(dtype), &bytes))
    return ASTER_FAIL(kRANGE, "%zu axes overflow", tensor.ndim);
  char why[160];
  std::snprintf(why, sizeof(why), "the strides of a %s%s do not nest", dtype::name(dtype),
                uop::brief_shape(shape).text);
  return context.may_copy(bytes, why);
}

// node itself, or a copy of it if it is no more than memory that exists.
Node computed(Build& build, Node node) {
  Graph& g = build.graph();
  const Node plain = strong(g, node);
  Node below = plain;
  while (below != nullptr && below->op == uop::Op::kReshape) below = below->src(0);
  if (below == nullptr || below->op != uop::Op::kBuffer) return plain;
  buffer::Storage* storage;
  const size_t bytes = static_cast<size_t>(plain->count()) * dtype::size(plain->dtype);
  const auto device = static_cast<int32_t>(below->arg(1));
  if (!buffer::storage_create(&storage, build.context(), bytes, device).ok()) return nullptr;
  const Node target = engine::buffer_node(build.engine(), storage, 0, plain->dtype, plain->shape());
  buffer::storage_release(storage);
  return g.assign(target, plain);
}

// Computes node into a tensor of its own.
Status compute(aster_ml_tensor* out, Build& build, const aster_ml_context* context, Node node) {
  const Node plain = computed(build, node);
  if (plain == nullptr) return last_failure();
  aster_ml_lazy handle{};
  Build result(&handle, context);
  ASTER_TRY(result.status());
  ASTER_TRY(result.finish(plain));
  engine::Lazy* lazy = cell(&handle);
  Status status = engine::realize_stored(build.engine(), {&lazy, 1});
  if (status.ok()) {
    const Node made = lazy->node;
    buffer::Storage* storage = engine::storage_of(made);
    const aster_ml_buffer memory{storage->data, storage->bytes, static_cast<int32_t>(made->dtype),
                                 storage->device};
    Vec<size_t> shape(build.context().heap());
    for (size_t i = 0; status.ok() && i < made->ndim; ++i)
      status = shape.push(static_cast<size_t>(made->dim(i)));
    const size_t offset = static_cast<size_t>(made->arg(2));
    if (status.ok()) {
      status = Status{aster_ml_tensor_from_buffer(out, context, &memory, offset, made->ndim,
                                                  shape.data(), nullptr)};
    }
  }
  aster_ml_lazy_free(&handle);
  return status;
}

// One eager call: its operands as nodes, its result as a tensor.
class Eager {
 public:
  Eager(aster_ml_tensor* out, const aster_ml_context* context,
        std::initializer_list<Operand> operands)
      : out_(out), context_(context), build_(&unused_, context) {
    status_ = start(operands);
  }
  Status status() const { return status_; }
  Graph& graph() { return build_.graph(); }
  bool strict() const { return build_.strict(); }
  Node operand(size_t i) const { return nodes_[i]; }
  Status finish(Node node) {
    return node == nullptr ? last_failure() : compute(out_, build_, context_, node);
  }

 private:
  Status start(std::initializer_list<Operand> operands) {
    if (out_ == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
    for (Operand t : operands) {
      if (t == out_) return ASTER_FAIL(kARGUMENT, "out is an input");
    }
    *out_ = aster_ml_tensor{};
    ASTER_TRY(build_.status());
    size_t i = 0;
    for (Operand t : operands) ASTER_TRY(tensor_node(&nodes_[i++], build_, context_, t, false));
    return kOk;
  }
  aster_ml_tensor* out_;
  const aster_ml_context* context_;
  aster_ml_lazy unused_{};
  Build build_;
  Node nodes_[3] = {};
  Status status_;
};

}  // namespace

Status tensor_node(Node* out, Build& build, const aster_ml_context* context,
                   const aster_ml_tensor* tensor, bool to_write) {
  Vec<Word> dims(build.context().heap());
  Words shape;
  ASTER_TRY(check_descriptor(tensor, &shape, &dims));
  DType dtype;
  ASTER_TRY(dtype::from_any_storage_code(&dtype, tensor->dtype));
  if (aster_ml_tensor_is_contiguous(tensor))
    return row_major_node(out, build, *tensor, dtype, shape);
  ASTER_TRY(buffer::check_tensor(tensor));
  buffer::Storage* storage = nullptr;
  size_t offset = 0;
  ASTER_TRY(storage_for(&storage, &offset, build.context(), tensor->storage));
  Status status =
      strided_node(out, build, storage, offset + tensor->byte_offset, *tensor, dtype, to_write);
  buffer::storage_release(storage);
  if (!status.ok() || *out != nullptr) return status;
  aster_ml_tensor copy{};
  ASTER_TRY(may_copy(build.context(), *tensor, dtype, shape));
  ASTER_TRY((Status{aster_ml_tensor_contiguous(&copy, context, tensor)}));
  status = row_major_node(out, build, copy, dtype, shape);
  aster_ml_tensor_free(&copy);
  return status;
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::Status;

#define UNARY(name, domain, expression)                                                 \
  int32_t aster_ml_tensor_##name(aster_ml_tensor* out, const aster_ml_context* context, \
                                 const aster_ml_tensor* x) {                            \
    ASTER_API();                                                                        \
    Eager eager(out, context, {x});                                                     \
    ASTER_TRY(eager.status());                                                          \
    return eager.finish(                                                                \
        unary(eager.graph(), eager.operand(0), variant(ops::name, eager.strict())));    \
  }
#define BINARY(name, domain, expression)                                                \
  int32_t aster_ml_tensor_##name(aster_ml_tensor* out, const aster_ml_context* context, \
                                 const aster_ml_tensor* a, const aster_ml_tensor* b) {  \
    ASTER_API();                                                                        \
    Eager eager(out, context, {a, b});                                                  \
    ASTER_TRY(eager.status());                                                          \
    return eager.finish(binary(eager.graph(), eager.operand(0), eager.operand(1),       \
                               variant(ops::name, eager.strict())));                    \
  }
#include "tensor/elementwise.def"

int32_t aster_ml_tensor_cast(aster_ml_tensor* out, const aster_ml_context* context,
                             const aster_ml_tensor* x, int32_t dtype) {
  ASTER_API();
  Eager eager(out, context, {x});
  ASTER_TRY(eager.status());
  DType to;
  ASTER_TRY(aster::dtype::from_any_storage_code(&to, dtype));
  return eager.finish(cast(eager.graph(), eager.operand(0), to));
}

int32_t aster_ml_tensor_where(aster_ml_tensor* out, const aster_ml_context* context,
                              const aster_ml_tensor* condition, const aster_ml_tensor* a,
                              const aster_ml_tensor* b) {
  ASTER_API();
  Eager eager(out, context, {condition, a, b});
  ASTER_TRY(eager.status());
  return eager.finish(where(eager.graph(), eager.operand(0), eager.operand(1), eager.operand(2)));
}

int32_t aster_ml_tensor_sum(aster_ml_tensor* out, const aster_ml_context* context,
                            const aster_ml_tensor* x, size_t count, const int64_t* axes,
                            int32_t keepdim) {
  ASTER_API();
  Eager eager(out, context, {x});
  ASTER_TRY(eager.status());
  if (count > aster::uop::Dims::kMost) return ASTER_FAIL(kRANGE, "%zu axes", count);
  return eager.finish(sum(eager.graph(), eager.operand(0), {count, axes}, keepdim != 0));
}

int32_t aster_ml_tensor_matmul(aster_ml_tensor* out, const aster_ml_context* context,
                               const aster_ml_tensor* a, const aster_ml_tensor* b) {
  ASTER_API();
  Eager eager(out, context, {a, b});
  ASTER_TRY(eager.status());
  return eager.finish(matmul(eager.graph(), eager.operand(0), eager.operand(1)));
}
