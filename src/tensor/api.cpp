#include "tensor/api.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "dtype/convert.h"
#include "engine/engine.h"
#include "flt/convert.h"
#include "tensor/registry.h"

namespace aster::tensor {

Status empty_handle() {
  aster_ml_error error;
  aster_ml_error_last(&error);
  return error.code != 0 ? Status{error.code} : ASTER_FAIL(kARGUMENT, "an empty handle");
}

Status check_handle(Input x) {
  if (x == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for a tensor");
  if (x->impl == nullptr) return empty_handle();
  if (cell(x) != nullptr) return kOk;
  return ASTER_FAIL(kARGUMENT, "the handle of a tensor that was freed, or whose scope has ended");
}

Build::Build(aster_ml_lazy* out, std::initializer_list<Input> inputs,
             std::initializer_list<Input> optional)
    : out_(out) {
  const std::span<const Input> needed(inputs.begin(), inputs.size());
  const std::span<const Input> others(optional.begin(), optional.size());
  status_ = clear_out({needed, others});
  if (status_.ok()) status_ = check(needed, false);
  if (status_.ok()) status_ = check(others, true);
  if (status_.ok()) status_ = enter({needed, others});
}

Build::Build(aster_ml_lazy* out, const Input* inputs, size_t count) : out_(out) {
  const std::span<const Input> given(inputs, inputs == nullptr ? 0 : count);
  status_ = clear_out({given});
  if (status_.ok() && given.empty()) status_ = ASTER_FAIL(kARGUMENT, "no tensors are given");
  if (status_.ok()) status_ = check(given, false);
  if (status_.ok()) status_ = enter({given});
}

Build::Build(aster_ml_lazy* out, const aster_ml_context* context)
    : out_(out), context_(context_of(context)) {
  status_ = clear_out({});
  if (!status_.ok()) return;
  if (context_ == nullptr) {
    status_ = ASTER_FAIL(kARGUMENT, "no context is given");
    return;
  }
  status_ = enter({});
}

// out is zeroed from here on, unless that would change an input.
Status Build::clear_out(std::initializer_list<std::span<const Input>> lists) {
  if (out_ == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  for (std::span<const Input> list : lists) {
    for (Input x : list) {
      if (x == out_) return ASTER_FAIL(kARGUMENT, "out is the handle of an input");
    }
  }
  out_->impl = nullptr;
  return kOk;
}

Status Build::check(std::span<const Input> inputs, bool optional) {
  for (Input x : inputs) {
    if (optional && x == nullptr) continue;
    ASTER_TRY(check_handle(x));
    if (first_ == nullptr) first_ = cell(x);
    Context* context = cell(x)->context;
    if (context_ != nullptr && context != context_) {
      return ASTER_FAIL(kARGUMENT, "tensors of two contexts in one operation");
    }
    context_ = context;
    if (cell(x)->sized != nullptr) ASTER_TRY(note_sized(cell(x)));
  }
  return kOk;
}

Status Build::enter(std::initializer_list<std::span<const Input>> lists) {
  lock_.emplace(context_);
  ASTER_TRY(lock_->status());
  ASTER_TRY(engine::engine_of(&engine_, *context_));
  ASTER_TRY(registry::look_at_environment(*engine_));
  if (engine_->recording == nullptr) return kOk;
  for (std::span<const Input> list : lists) {
    for (Input x : list) {
      if (x != nullptr) ASTER_TRY(engine::look_at_earlier(*cell(x)));
    }
  }
  return symbolic_ != nullptr ? look_at_operands() : kOk;
}

Status Build::finish(Node node) {
  if (node == nullptr) return last_failure();
  ASTER_TRY(status_);
  engine::Lazy* lazy;
  ASTER_TRY(make_cell(&lazy, node));
  out_->impl = lazy->handle;
  return kOk;
}

Status Build::finish(Node whole, const Sizes& sizes) {
  take_rule(sizes);
  return finish(whole);
}

Status Build::finish_beside(Node whole) {
  if (whole == nullptr) return last_failure();
  Sizes sizes;
  return sizes_beside(&sizes, whole) ? finish(whole, sizes) : finish(whole);
}

bool Build::sizes_beside(Sizes* out, Node whole) {
  if (symbolic_ == nullptr || symbolic_->sizes.empty()) return false;
  *out = Sizes();
  for (size_t i = 0; i < whole->ndim; ++i) {
    const bool variable = i < symbolic_->sizes.size() && is_bound(symbolic_->sizes[i]);
    out->push(variable ? symbolic_->sizes[i] : graph().index(whole->dim(i)));
  }
  return true;
}

Status Build::make_cell(engine::Lazy** out, Node node, Nodes sizes) {
  if (std::ranges::find(sizes, nullptr) != sizes.end()) return last_failure();
  if (node == nullptr || !std::ranges::any_of(sizes, is_bound))
    return engine::lazy_create(out, *engine_, node, first_);
  uop::Dims begin(node->ndim, 0), step(node->ndim, 1), size;
  for (Node each : sizes) {
    int64_t now = 0;
    ASTER_TRY(symbols().value_of(&now, each));
    size.push(now);
  }
  const Node present = keeping_weak(
      graph(), node, [&](Node whole) { return graph().slice(whole, begin, step, size); });
  engine::Lazy* whole = nullptr;
  const engine::Lazy* from =
      first_ == nullptr || first_->sized == nullptr ? first_ : first_->sized->whole;
  ASTER_TRY(engine::lazy_create(&whole, *engine_, node, from));
  Status status = engine::lazy_create(out, *engine_, present, whole);
  if (!status.ok()) {
    free_handle(whole);
    return status;
  }
  status = engine::set_sizes(**out, whole, sizes);
  if (!status.ok()) free_handle(*out);
  return status;
}

void Sizes::insert(size_t axis, Node size) {
  push(size);
  for (size_t i = count - 1; i > axis; --i) at[i] = at[i - 1];
  at[axis] = size;
}

void Sizes::remove(size_t axis) {
  for (size_t i = axis + 1; i < count; ++i) at[i - 1] = at[i];
  --count;
}

Status Build::make_symbolic() {
  if (symbolic_ != nullptr) return kOk;
  Heap& heap = context_->heap();
  symbolic_ = heap.create<Symbolic>(heap);
  return symbolic_ != nullptr ? kOk : out_of_memory(sizeof(Symbolic));
}

Status Build::note_sized(engine::Lazy* x) {
  ASTER_TRY(make_symbolic());
  return symbolic_->operands.push(x);
}

// Until a rule is taken, values are used.
Status Build::look_at_operands() {
  symbolic_->seen_before = engine::count_seen(*engine_);
  for (const engine::Lazy* x : symbolic_->operands) ASTER_TRY(engine::look_at_sizes(*x));
  return kOk;
}

void Build::take_rule(const Sizes& sizes) {
  const bool looked = sized() && engine_->recording != nullptr;
  keep(make_symbolic());
  if (!status_.ok()) return;
  if (looked) engine::forget_seen(*engine_, symbolic_->seen_before);
  symbolic_->sizes.clear();
  keep(symbolic_->sizes.append(sizes.at, sizes.count));
}

// On the way out.
void Build::show_present() {
  for (engine::Lazy* x : symbolic_->operands) {
    if (engine_ != nullptr) x->shown = x->node;
  }
  context_->heap().destroy(symbolic_);
}

Status clear_handles(aster_ml_lazy* out, size_t count, std::span<const Input> inputs) {
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for %zu tensors", count);
  for (Input x : inputs) {
    if (x >= out && x < out + count) {
      return ASTER_FAIL(kARGUMENT, "out holds the handle of an input");
    }
  }
  for (size_t i = 0; i < count; ++i) out[i].impl = nullptr;
  return kOk;
}

Status make_handles(aster_ml_lazy* out, Build& build, Nodes nodes) {
  return make_handles(out, build, nodes, {});
}

Status make_handles(aster_ml_lazy* out, Build& build, Nodes nodes, std::span<const Sizes> sizes) {
  ASTER_TRY(build.status());
  for (size_t i = 0; i < nodes.size(); ++i) {
    engine::Lazy* lazy;
    const Status status = sizes.empty() ? build.make_cell(&lazy, nodes[i])
                                        : build.make_cell(&lazy, nodes[i], sizes[i]);
    if (!status.ok()) {
      while (i-- > 0) aster_ml_lazy_free(&out[i]);
      return status;
    }
    out[i].impl = lazy->handle;
  }
  return kOk;
}

Status make_handles_beside(aster_ml_lazy* out, Build& build, Nodes nodes) {
  constexpr size_t kMostResults = 4;
  Sizes sizes[kMostResults];
  assert(nodes.size() <= kMostResults);
  bool rule = true;
  for (size_t i = 0; i < nodes.size() && rule; ++i) {
    if (nodes[i] == nullptr) return last_failure();
    rule = build.sizes_beside(&sizes[i], nodes[i]);
  }
  if (!rule) return make_handles(out, build, nodes);
  return make_handles(out, build, nodes, {sizes, nodes.size()});
}

Status dtype_argument(DType* out, int32_t code, DType fallback) {
  *out = fallback;
  return code == 0 ? kOk : dtype::from_any_code(out, code);
}

Status shape_argument(Words* out, size_t ndim, const int64_t* shape) {
  if (ndim != 0 && shape == nullptr)
    return ASTER_FAIL(kARGUMENT, "a null pointer for %zu dimensions", ndim);
  if (ndim > uop::Dims::kMost)
    return ASTER_FAIL(kUNSUPPORTED, "%zu axes: at most %zu", ndim, uop::Dims::kMost);
  *out = {shape, ndim};
  return kOk;
}

namespace {

// Constants of wide dtypes are numbers that a double is.
Status wide_argument(Word* out, DType dtype, const uint64_t* value) {
  double number = 0;
  if (!flt::is_double(&number, dtype, value)) {
    return ASTER_FAIL(kUNSUPPORTED, "a constant of %s that no double is: a tensor holds it",
                      dtype::name(dtype));
  }
  *out = std::bit_cast<Word>(number);
  return kOk;
}

}  // namespace

Status scalar_argument(Word* out, DType* dtype, const aster_ml_scalar* scalar) {
  if (scalar == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for a scalar");
  ASTER_TRY(dtype::from_any_code(dtype, scalar->dtype));
  if (dtype::is_wide(*dtype)) return wide_argument(out, *dtype, scalar->value);
  *out = dtype::is_float(*dtype) ? std::bit_cast<Word>(dtype::load_double(*dtype, scalar->value))
                                 : dtype::load_int(*dtype, scalar->value);
  return kOk;
}

}  // namespace aster::tensor
