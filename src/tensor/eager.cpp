// The eager family: the same operations on concrete tensors, computed at once.
#include <algorithm>
#include <array>
#include <cstdio>

#include "aster_ml/eager.h"
#include "aster_ml/functions.h"
#include "buffer/strided.h"
#include "buffer/tensor.h"
#include "device/device.h"
#include "engine/ready.h"
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

// A row-major operand in memory of the host, but for where it lies, in words of a key; false: it is
// another, or not as it should be, which takes the way that looks closer.
bool outline(engine::Key* key, const aster_ml_tensor& t) {
  if (t.ndim > engine::Ready::kMostAxes || t.storage.device != device::kCpu) return false;
  if (t.ndim != 0 && (t.shape == nullptr || t.strides == nullptr)) return false;
  if (!key->push(t.dtype | static_cast<int64_t>(t.ndim) << 32)) return false;
  size_t count = 1;
  for (size_t i = t.ndim; i-- > 0;) {
    if (t.shape[i] != 1 && t.strides[i] != static_cast<ptrdiff_t>(count)) return false;
    count *= t.shape[i];  // of a shape whose product does not fit nothing was ever computed
    if (!key->push(static_cast<int64_t>(t.shape[i]))) return false;
  }
  return true;
}

// Whether its elements, of the dtype that it says, lie in its memory.
bool is_inside(const aster_ml_tensor& t) {
  DType dtype;
  if (t.storage.data == nullptr || !dtype::from_any_storage_code(&dtype, t.dtype).ok())
    return false;
  const size_t size = dtype::size(dtype), bytes = aster_ml_tensor_count(&t) * size;
  size_t end;
  return checked_add(t.byte_offset, bytes, &end) && end <= t.storage.bytes &&
         ((reinterpret_cast<uintptr_t>(t.storage.data) + t.byte_offset) & (size - 1)) == 0;
}

char* address(const aster_ml_tensor& t) {
  return static_cast<char*>(t.storage.data) + t.byte_offset;
}

// One eager call: its operands, as nodes where they are needed, and its result as a tensor.
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

  // The result of a function, named by any address of its own, and of words: what build gives for
  // the operands' nodes. What was computed before is not built again.
  template <typename F>
  Status run(const void* function, Words words, const F& build) {
    bool done = false;
    engine::Key key;
    const bool ready = outline(&key, function, words);
    if (ready) ASTER_TRY(run_ready(&done, build_.engine().ready.find(key)));
    if (done) return kOk;
    for (size_t i = 0; i < count_; ++i)
      ASTER_TRY(tensor_node(&nodes_[i], build_, context_, operands_[i], false));
    const Node node = build();
    if (node == nullptr) return last_failure();
    if (ready && build_.engine().ready.find(key) == nullptr) {
      engine::Ready* made = nullptr;
      ASTER_TRY(build_.engine().ready.make(&made, build_.engine(), key, strong(graph(), node),
                                           {nodes_, count_}));
      ASTER_TRY(run_ready(&done, made));
    }
    return done ? Status(kOk) : compute(out_, build_, context_, node);
  }

 private:
  Status start(std::initializer_list<Operand> operands) {
    if (out_ == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
    for (Operand t : operands) {
      if (t == out_) return ASTER_FAIL(kARGUMENT, "out is an input");
    }
    *out_ = aster_ml_tensor{};
    ASTER_TRY(build_.status());
    for (Operand t : operands) operands_[count_++] = t;
    return kOk;
  }

  bool outline(engine::Key* key, const void* function, Words words) {
    bool fits = engine::takes_ready(build_.engine()) &&
                engine::begin_key(key, build_.engine(), function) && key->push(strict()) &&
                key->append(words);
    for (size_t i = 0; fits && i < count_; ++i) {
      fits = operands_[i] != nullptr && tensor::outline(key, *operands_[i]) &&
             is_inside(*operands_[i]);
      size_t same = 0;  // which operand has its address
      while (fits && address(*operands_[same]) != address(*operands_[i])) ++same;
      fits = fits && key->push(static_cast<int64_t>(same));
    }
    return fits;
  }

  Status run_ready(bool* done, const engine::Ready* ready) {
    *done = ready != nullptr && engine::may_run(build_.engine(), *ready);
    if (!*done) return kOk;
    char* operands[kMostOperands];
    size_t shape[engine::Ready::kMostAxes];
    for (size_t i = 0; i < count_; ++i) operands[i] = address(*operands_[i]);
    for (size_t i = 0; i < ready->ndim; ++i) shape[i] = static_cast<size_t>(ready->dims[i]);
    ASTER_TRY(buffer::create(out_, build_.context(), ready->dtype, device::kCpu, ready->bytes,
                             ready->ndim, shape));
    const Status status = engine::run_ready(build_.engine(), *ready, operands, out_->storage.data);
    if (!status.ok()) (void)aster_ml_tensor_free(out_);
    return status;
  }

  static constexpr size_t kMostOperands = 3;
  aster_ml_tensor* out_;
  const aster_ml_context* context_;
  aster_ml_lazy unused_{};
  Build build_;
  size_t count_ = 0;
  Operand operands_[kMostOperands] = {};
  Node nodes_[kMostOperands] = {};
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

#define UNARY(name, domain, expression)                                                  \
  int32_t aster_ml_tensor_##name(aster_ml_tensor* out, const aster_ml_context* context,  \
                                 const aster_ml_tensor* x) {                             \
    ASTER_API();                                                                         \
    Eager eager(out, context, {x});                                                      \
    ASTER_TRY(eager.status());                                                           \
    return eager.run(&ops::name, {}, [&] {                                               \
      return unary(eager.graph(), eager.operand(0), variant(ops::name, eager.strict())); \
    });                                                                                  \
  }
#define BINARY(name, domain, expression)                                                \
  int32_t aster_ml_tensor_##name(aster_ml_tensor* out, const aster_ml_context* context, \
                                 const aster_ml_tensor* a, const aster_ml_tensor* b) {  \
    ASTER_API();                                                                        \
    Eager eager(out, context, {a, b});                                                  \
    ASTER_TRY(eager.status());                                                          \
    return eager.run(&ops::name, {}, [&] {                                              \
      return binary(eager.graph(), eager.operand(0), eager.operand(1),                  \
                    variant(ops::name, eager.strict()));                                \
    });                                                                                 \
  }
#include "tensor/elementwise.def"

int32_t aster_ml_tensor_cast(aster_ml_tensor* out, const aster_ml_context* context,
                             const aster_ml_tensor* x, int32_t dtype) {
  ASTER_API();
  Eager eager(out, context, {x});
  ASTER_TRY(eager.status());
  DType to;
  ASTER_TRY(aster::dtype::from_any_storage_code(&to, dtype));
  static constexpr char kCast = 0;
  return eager.run(&kCast, std::array{Word{dtype}},
                   [&] { return cast(eager.graph(), eager.operand(0), to); });
}

int32_t aster_ml_tensor_where(aster_ml_tensor* out, const aster_ml_context* context,
                              const aster_ml_tensor* condition, const aster_ml_tensor* a,
                              const aster_ml_tensor* b) {
  ASTER_API();
  Eager eager(out, context, {condition, a, b});
  ASTER_TRY(eager.status());
  static constexpr char kWhere = 0;
  return eager.run(&kWhere, {}, [&] {
    return where(eager.graph(), eager.operand(0), eager.operand(1), eager.operand(2));
  });
}

int32_t aster_ml_tensor_sum(aster_ml_tensor* out, const aster_ml_context* context,
                            const aster_ml_tensor* x, size_t count, const int64_t* axes,
                            int32_t keepdim) {
  ASTER_API();
  Eager eager(out, context, {x});
  ASTER_TRY(eager.status());
  if (count > aster::uop::Dims::kMost) return ASTER_FAIL(kRANGE, "%zu axes", count);
  static constexpr char kSum = 0;
  aster::uop::Dims words(1, Word{keepdim != 0});
  words.push(static_cast<Word>(axes == nullptr ? 0 : count + 1));
  for (size_t i = 0; axes != nullptr && i < count; ++i) words.push(axes[i]);
  return eager.run(&kSum, words, [&] {
    return sum(eager.graph(), eager.operand(0), {count, axes}, keepdim != 0);
  });
}

int32_t aster_ml_tensor_matmul(aster_ml_tensor* out, const aster_ml_context* context,
                               const aster_ml_tensor* a, const aster_ml_tensor* b) {
  ASTER_API();
  Eager eager(out, context, {a, b});
  ASTER_TRY(eager.status());
  static constexpr char kMatmul = 0;
  return eager.run(&kMatmul, {},
                   [&] { return matmul(eager.graph(), eager.operand(0), eager.operand(1)); });
}
