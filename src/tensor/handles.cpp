// Handles, realising, reading and writing.
#include <array>
#include <cstdio>

#include "device/device.h"
#include "dtype/convert.h"
#include "engine/engine.h"
#include "engine/indexing.h"
#include "flt/convert.h"
#include "tensor/api.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Op;

// Where the elements of a realised cell begin.
struct Place {
  buffer::Storage* storage;
  size_t offset;
};
Place place_of(const engine::Lazy& lazy) {
  return {engine::storage_of(lazy.node), static_cast<size_t>(lazy.node->arg(2))};
}

size_t bytes_of(const Graph& g, Node n) {
  return static_cast<size_t>(n->count()) * dtype::size(g.strong(n->dtype));
}

// What a handle names, for accessors that cannot fail; null for none.
Node peek(Input x) {
  const engine::Lazy* lazy = x == nullptr ? nullptr : cell(x);
  return lazy == nullptr ? nullptr : lazy->node;
}

// The same, whose sizes are used as numbers.
Node peek_sizes(Input x) {
  const engine::Lazy* lazy = x == nullptr ? nullptr : cell(x);
  if (lazy == nullptr) return nullptr;
  if (lazy->sized != nullptr) {
    const aster::ContextLock lock(lazy->context);
    if (lock.status().ok()) (void)engine::look_at_sizes(*lazy);
  }
  return lazy->node;
}

// Realises one cell so that the host may read it.
Status realize_to_read(aster_ml_lazy* x) {
  engine::Lazy* lazy = cell(x);
  if (lazy->engine->recording != nullptr) {
    return ASTER_FAIL(kSTATE, "reading %s inside a capture", brief(lazy->node).text);
  }
  if (lazy->sized != nullptr)
    ASTER_TRY(engine::realize(*lazy->engine, std::array{lazy->sized->whole}));
  return engine::realize(*lazy->engine, std::array{lazy});
}

// The row-major elements of a cell, which is realised for it and stays on the memory that it is on.
class Reading {
 public:
  explicit Reading(aster_ml_lazy* x) : x_(x) {}
  ~Reading() {
    if (copied_ != nullptr) free_handle(copied_);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  Status begin(Place* place) {
    ASTER_TRY(realize_to_read(x_));
    engine::Lazy* lazy = cell(x_);
    if (lazy->node->op != Op::kBuffer) {
      Graph& g = engine::graph_of(*lazy->engine);
      ASTER_TRY(engine::lazy_create(&copied_, *lazy->engine, g.contiguous(lazy->node)));
      ASTER_TRY(engine::realize(*lazy->engine, std::array{copied_}));
      lazy = copied_;
    }
    *place = place_of(*lazy);
    return kOk;
  }

 private:
  aster_ml_lazy* x_;
  engine::Lazy* copied_ = nullptr;
};

// A view that is not row-major gets memory of its own.
Status leave_memory(engine::Lazy& lazy) {
  if (lazy.node->op == Op::kBuffer) return kOk;
  char why[160];
  std::snprintf(why, sizeof(why), "a row-major descriptor is asked for of the view %s",
                brief(lazy.node).text);
  ASTER_TRY(lazy.context->may_copy(bytes_of(engine::graph_of(*lazy.engine), lazy.node), why));
  return engine::realize_stored(*lazy.engine, std::array{&lazy});
}

// Lends a descriptor of a realised cell: elements from the first one of a Buffer, and steps.
Status lend(aster_ml_tensor* out, engine::Lazy& lazy, Node buffer, const Vec<int64_t>& words) {
  aster::Heap& heap = lazy.context->heap();
  const Node n = lazy.node;
  if (lazy.lent_count < n->ndim) {
    ptrdiff_t* strides = heap.array<ptrdiff_t>(n->ndim);
    if (strides == nullptr) return aster::out_of_memory(n->ndim * sizeof(ptrdiff_t));
    heap.release(lazy.lent, lazy.lent_count * sizeof(ptrdiff_t), alignof(ptrdiff_t));
    lazy.lent = strides;
    lazy.lent_count = n->ndim;
  }
  for (size_t i = 0; i < n->ndim; ++i) lazy.lent[i] = words[1 + i];
  buffer::Storage* storage = engine::storage_of(buffer);
  storage->lent.store(true, std::memory_order_relaxed);
  engine::forget_kept(*lazy.engine);
  const int32_t dtype = static_cast<int32_t>(n->dtype);
  const Word first = words[0] * static_cast<Word>(dtype::size(n->dtype));
  out->storage = {storage->data, storage->bytes, dtype, storage->device};
  out->byte_offset = static_cast<size_t>(buffer->arg(2) + first);
  out->ndim = n->ndim;
  // The node's own dimensions, which are positive words of the same size; the borrower leaves them
  // alone.
  static_assert(sizeof(size_t) == sizeof(Word));
  if (n->ndim != 0) out->shape = reinterpret_cast<size_t*>(const_cast<Word*>(n->shape().data()));
  if (n->ndim != 0) out->strides = lazy.lent;
  out->dtype = dtype;
  out->device = storage->device;
  return kOk;
}

// The same of a realised cell that gets memory of its own where it is no Buffer.
Status lend_row_major(aster_ml_tensor* out, engine::Lazy& lazy, Vec<int64_t>& words) {
  ASTER_TRY(leave_memory(lazy));
  const Node buffer = lazy.node;
  ASTER_TRY(words.resize(1 + buffer->ndim, 0));
  Word step = 1;
  for (size_t i = buffer->ndim; i-- > 0; step *= buffer->dim(i)) words[1 + i] = step;
  return lend(out, lazy, buffer, words);
}

// Realises x and lends its descriptor, row-major or as it lies.
Status view(aster_ml_tensor* out, aster_ml_lazy* x, bool strided) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  *out = aster_ml_tensor{};
  ASTER_TRY(check_handle(x));
  const aster::ContextLock lock(cell(x)->context);
  ASTER_TRY(lock.status());
  ASTER_TRY(realize_to_read(x));
  engine::Lazy& lazy = *cell(x);
  Node buffer = nullptr;
  Vec<int64_t> words(lazy.context->heap());
  if (strided && lazy.node->op != Op::kBuffer)
    ASTER_TRY(engine::as_strided(&buffer, &words, engine::graph_of(*lazy.engine), lazy.node));
  return buffer == nullptr ? lend_row_major(out, lazy, words) : lend(out, lazy, buffer, words);
}

// The same of the whole tensor, of which x stays the first part.
Status view_whole(aster_ml_tensor* out, aster_ml_lazy* x) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  *out = aster_ml_tensor{};
  ASTER_TRY(check_handle(x));
  if (cell(x)->sized == nullptr) return view(out, x, false);
  const aster::ContextLock lock(cell(x)->context);
  ASTER_TRY(lock.status());
  engine::Lazy& all = *cell(x)->sized->whole;
  if (all.engine->recording != nullptr)
    return ASTER_FAIL(kSTATE, "reading %s inside a capture", brief(all.node).text);
  ASTER_TRY(engine::realize(*all.engine, std::array{&all}));
  const Node before = all.node;
  Vec<int64_t> words(all.context->heap());
  ASTER_TRY(lend_row_major(out, all, words));
  return all.node == before ? kOk : engine::show_present(*cell(x));
}

}  // namespace

Status realize_stored(std::span<engine::Lazy* const> cells) {
  if (cells.empty()) return kOk;
  return engine::realize_stored(*cells[0]->engine, cells);
}

bool writes_through(Node target) {
  while (target->op == Op::kReshape || target->op == Op::kPermute || target->op == Op::kFlip ||
         target->op == Op::kSlice || target->op == Op::kAssign || target->op == Op::kAfter) {
    target = target->src(0);
  }
  return target->op == Op::kBuffer;
}

Status device_of(int32_t* out, engine::Engine& engine, Node x) {
  ASTER_TRY(engine::known_device(out, engine, x));
  if (*out == 0) *out = engine::default_device(engine);
  return kOk;
}

Status assign_value(Node* out, Graph& g, const char* what, Node target, Node value, Words shape) {
  const DType to = target->dtype;
  const bool yields = dtype::is_weak(value->dtype) && dtype::least_upper(value->dtype, to) == to;
  if (value->dtype != to && !yields) {
    return ASTER_FAIL(kDTYPE, "%s of %s to %s", what, uop::brief(value).text,
                      uop::brief(target).text);
  }
  *out = expand(g, cast(g, value, to), shape);
  return *out != nullptr ? kOk : last_failure();
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
namespace engine = aster::engine;
namespace buffer = aster::buffer;
using aster::kOk;
using aster::last_failure;
using aster::Status;

int32_t aster_ml_lazy_free(aster_ml_lazy* x) {
  ASTER_API();
  if (x != nullptr) aster::give_up(&x->impl);
  return kOk;
}

int32_t aster_ml_lazy_keep(aster_ml_lazy* x) {
  ASTER_API();
  ASTER_TRY(check_handle(x));
  const aster::ContextLock lock(cell(x)->context);
  ASTER_TRY(lock.status());
  aster::scope_remove(cell(x));
  return kOk;
}

int32_t aster_ml_lazy_dtype(const aster_ml_lazy* x) {
  const Node n = peek(x);
  return n == nullptr ? 0 : static_cast<int32_t>(n->dtype);
}

size_t aster_ml_lazy_ndim(const aster_ml_lazy* x) {
  const Node n = peek(x);
  return n == nullptr ? 0 : n->ndim;
}

int64_t aster_ml_lazy_dim(const aster_ml_lazy* x, int64_t axis) {
  const Node n = peek_sizes(x);
  const int64_t ndim = n == nullptr ? 0 : n->ndim;
  if (axis < -ndim || axis >= ndim) return -1;
  return n->dim(static_cast<size_t>(axis < 0 ? axis + ndim : axis));
}

int64_t aster_ml_lazy_count(const aster_ml_lazy* x) {
  const Node n = peek_sizes(x);
  return n == nullptr ? 0 : n->count();
}

int32_t aster_ml_lazy_shape(int64_t* out, size_t ndim, const aster_ml_lazy* x) {
  ASTER_API();
  for (size_t i = 0; out != nullptr && i < ndim; ++i) out[i] = 0;
  ASTER_TRY(check_handle(x));
  const Node n = node(x);
  if (n->ndim != ndim)
    return ASTER_FAIL(kSHAPE, "%zu dimensions asked of %s", ndim, aster::uop::brief(n).text);
  if (out == nullptr && ndim != 0) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  ASTER_TRY(engine::look_at_sizes(*cell(x)));
  for (size_t i = 0; i < ndim; ++i) out[i] = n->dim(i);
  return kOk;
}

int32_t aster_ml_lazy_device(int32_t* out, const aster_ml_lazy* x) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  *out = 0;
  ASTER_TRY(check_handle(x));
  const aster::ContextLock lock(cell(x)->context);
  ASTER_TRY(lock.status());
  return device_of(out, *cell(x)->engine, node(x));
}

int32_t aster_ml_lazy_to(aster_ml_lazy* out, const aster_ml_lazy* x, int32_t device) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(aster::device::canonical(&device, device));
  ASTER_TRY(aster::device::allocatable(device));
  ASTER_TRY(sized::elementwise(build, {x}));
  Graph& g = build.graph();
  const Node value = strong(g, node(x));
  if (value == nullptr) return last_failure();
  int32_t from;
  ASTER_TRY(engine::known_device(&from, build.engine(), value));
  return build.finish(g.transfer(value, device, from));
}

int32_t aster_ml_lazy_is_realized(const aster_ml_lazy* x) {
  const Node n = peek(x);
  return n != nullptr && engine::memory_below(n) != nullptr;
}

int32_t aster_ml_lazy_shares_storage(int32_t* out, const aster_ml_lazy* x, const aster_ml_lazy* y) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  *out = 0;
  ASTER_TRY(check_handle(x));
  ASTER_TRY(check_handle(y));
  const aster::ContextLock lock(cell(x)->context), other(cell(y)->context);
  ASTER_TRY(lock.status());
  ASTER_TRY(other.status());
  const Node a = engine::memory_below(node(x)), b = engine::memory_below(node(y));
  if (a == nullptr || b == nullptr) return kOk;
  *out = engine::storage_of(a) == engine::storage_of(b) ||
         engine::region_of(a).overlaps(engine::region_of(b));
  return kOk;
}

int32_t aster_ml_lazy_is_same(const aster_ml_lazy* x, const aster_ml_lazy* y) {
  const Node n = peek(x);
  if (n == nullptr || n != peek(y)) return 0;
  const engine::Sized *a = cell(x)->sized, *b = cell(y)->sized;
  if (a == nullptr || b == nullptr) return a == b;
  return a->whole->node == b->whole->node &&
         std::ranges::equal(aster::uop::Nodes(a->sizes, a->ndim),
                            aster::uop::Nodes(b->sizes, b->ndim));
}

int32_t aster_ml_lazy_is_stored(const aster_ml_lazy* x) {
  const Node n = peek(x);
  return n != nullptr && writes_through(n);
}

int32_t aster_ml_lazy_realize(aster_ml_lazy* const* tensors, size_t count) {
  ASTER_API();
  if (count == 0) return kOk;
  if (tensors == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for %zu tensors", count);
  for (size_t i = 0; i < count; ++i) {
    ASTER_TRY(check_handle(tensors[i]));
    if (cell(tensors[i])->context != cell(tensors[0])->context) {
      return ASTER_FAIL(kARGUMENT, "tensors of two contexts in one realize");
    }
  }
  const aster::ContextLock lock(cell(tensors[0])->context);
  ASTER_TRY(lock.status());
  if (count == 1)
    return engine::realize(*cell(tensors[0])->engine,
                           std::array{engine::whole_of(cell(tensors[0]))});
  aster::Vec<engine::Lazy*> cells(cell(tensors[0])->context->heap());
  for (size_t i = 0; i < count; ++i) ASTER_TRY(cells.push(engine::whole_of(cell(tensors[i]))));
  return engine::realize(*cell(tensors[0])->engine, {cells.data(), cells.size()});
}

int32_t aster_ml_lazy_realize_ready(int32_t* done, aster_ml_lazy* x) {
  ASTER_API();
  if (done == nullptr) return ASTER_FAIL(kARGUMENT, "done is a null pointer");
  *done = 0;
  ASTER_TRY(check_handle(x));
  engine::Lazy* lazy = cell(x);
  const aster::ContextLock lock(lazy->context);
  ASTER_TRY(lock.status());
  bool ready = false;
  if (lazy->sized == nullptr) ASTER_TRY(engine::realize_ready(&ready, *lazy->engine, *lazy, false));
  *done = ready;
  return kOk;
}

int32_t aster_ml_lazy_view(aster_ml_tensor* out, aster_ml_lazy* x) {
  ASTER_API();
  return view(out, x, false).code;
}

int32_t aster_ml_lazy_view_strided(aster_ml_tensor* out, aster_ml_lazy* x) {
  ASTER_API();
  return view(out, x, true).code;
}

int32_t aster_ml_lazy_view_whole(aster_ml_tensor* out, aster_ml_lazy* x) {
  ASTER_API();
  return view_whole(out, x).code;
}

int32_t aster_ml_lazy_copy_out(void* data, size_t bytes, aster_ml_lazy* x) {
  ASTER_API();
  ASTER_TRY(check_handle(x));
  const aster::ContextLock lock(cell(x)->context);
  ASTER_TRY(lock.status());
  const size_t whole = bytes_of(engine::graph_of(*cell(x)->engine), node(x));
  if (bytes != whole) {
    return ASTER_FAIL(kRANGE, "%zu bytes for %s of %zu", bytes, aster::uop::brief(node(x)).text,
                      whole);
  }
  if (data == nullptr && bytes != 0) return ASTER_FAIL(kARGUMENT, "data is a null pointer");
  Reading reading(x);
  Place place;
  ASTER_TRY(reading.begin(&place));
  return buffer::copy({data, 0, buffer::kHost},
                      {place.storage->data, place.offset, place.storage->device}, bytes);
}

int32_t aster_ml_lazy_to_double(double* out, aster_ml_lazy* x) {
  ASTER_API();
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  *out = 0;
  ASTER_TRY(check_handle(x));
  const aster::ContextLock lock(cell(x)->context);
  ASTER_TRY(lock.status());
  if (node(x)->count() != 1)
    return ASTER_FAIL(kSHAPE, "one element asked of %s", aster::uop::brief(node(x)).text);
  Reading reading(x);
  Place place;
  ASTER_TRY(reading.begin(&place));
  const DType dtype = node(x)->dtype;
  uint64_t element[8] = {};
  ASTER_TRY(buffer::copy({element, 0, buffer::kHost},
                         {place.storage->data, place.offset, place.storage->device},
                         aster::dtype::size(dtype)));
  if (aster::dtype::is_wide(dtype)) {
    aster::flt::convert_element(out, DType::kFloat64, element, dtype,
                                aster::flt::Rounding::kNearest);
  } else {
    *out = aster::dtype::load_double(dtype, element);
  }
  return kOk;
}

int32_t aster_ml_lazy_assign(aster_ml_lazy* target, const aster_ml_lazy* value) {
  ASTER_API();
  ASTER_TRY(check_handle(target));
  ASTER_TRY(check_handle(value));
  engine::Lazy& lazy = *cell(target);
  if (lazy.context != cell(value)->context) {
    return ASTER_FAIL(kARGUMENT, "tensors of two contexts in one operation");
  }
  const aster::ContextLock lock(lazy.context);
  ASTER_TRY(lock.status());
  if (node(value) == lazy.node) return kOk;
  ASTER_TRY(engine::look_at_earlier(*cell(value)));
  if (const auto done = sized::assign(lazy, value)) return done->code;
  ASTER_TRY(engine::look_at_sizes(lazy));
  ASTER_TRY(engine::look_at_sizes(*cell(value)));
  Graph& g = engine::graph_of(*lazy.engine);
  Node from = nullptr;
  ASTER_TRY(assign_value(&from, g, "assign", lazy.node, node(value), lazy.node->shape()));
  if (from->count() == 0) return kOk;
  if (writes_through(lazy.node)) return engine::assign(*lazy.engine, lazy, from);
  engine::drop_sizes(lazy);
  engine::set_node(lazy, from);
  return kOk;
}

int32_t aster_ml_lazy_clone(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  ASTER_TRY(sized::elementwise(build, {x}));
  Graph& g = build.graph();
  const Node value = strong(g, node(x));
  if (value == nullptr) return last_failure();
  int32_t device;
  ASTER_TRY(device_of(&device, build.engine(), value));
  buffer::Storage* storage;
  ASTER_TRY(buffer::storage_create(&storage, build.context(), bytes_of(g, value), device));
  const Node target = engine::buffer_node(build.engine(), storage, 0, value->dtype, value->shape());
  buffer::storage_release(storage);
  return build.finish(g.assign(target, value));
}
