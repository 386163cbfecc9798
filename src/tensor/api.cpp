#include "tensor/api.h"

#include <bit>

#include "dtype/convert.h"

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
  status_ = clear_out({{inputs.begin(), inputs.size()}, {optional.begin(), optional.size()}});
  if (status_.ok()) status_ = check({inputs.begin(), inputs.size()}, false);
  if (status_.ok()) status_ = check({optional.begin(), optional.size()}, true);
  if (status_.ok()) status_ = enter();
}

Build::Build(aster_ml_lazy* out, const Input* inputs, size_t count) : out_(out) {
  const std::span<const Input> given(inputs, inputs == nullptr ? 0 : count);
  status_ = clear_out({given});
  if (status_.ok() && given.empty()) status_ = ASTER_FAIL(kARGUMENT, "no tensors are given");
  if (status_.ok()) status_ = check(given, false);
  if (status_.ok()) status_ = enter();
}

Build::Build(aster_ml_lazy* out, const aster_ml_context* context)
    : out_(out), context_(context_of(context)) {
  status_ = clear_out({});
  if (!status_.ok()) return;
  if (context_ == nullptr) {
    status_ = ASTER_FAIL(kARGUMENT, "no context is given");
    return;
  }
  status_ = enter();
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
  }
  return kOk;
}

Status Build::enter() {
  lock_.emplace(context_);
  ASTER_TRY(lock_->status());
  return engine::engine_of(&engine_, *context_);
}

Status Build::finish(Node node) {
  if (node == nullptr) return last_failure();
  engine::Lazy* lazy;
  ASTER_TRY(engine::lazy_create(&lazy, *engine_, node, first_));
  out_->impl = lazy->handle;
  return kOk;
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
  for (size_t i = 0; i < nodes.size(); ++i) {
    engine::Lazy* lazy;
    const Status status = engine::lazy_create(&lazy, build.engine(), nodes[i], build.first());
    if (!status.ok()) {
      while (i-- > 0) aster_ml_lazy_free(&out[i]);
      return status;
    }
    out[i].impl = lazy->handle;
  }
  return kOk;
}

Status dtype_argument(DType* out, int32_t code, DType fallback) {
  *out = fallback;
  return code == 0 ? kOk : dtype::from_code(out, code);
}

Status shape_argument(Words* out, size_t ndim, const int64_t* shape) {
  if (ndim != 0 && shape == nullptr)
    return ASTER_FAIL(kARGUMENT, "a null pointer for %zu dimensions", ndim);
  if (ndim > uop::Dims::kMost)
    return ASTER_FAIL(kUNSUPPORTED, "%zu axes: at most %zu", ndim, uop::Dims::kMost);
  *out = {shape, ndim};
  return kOk;
}

Status scalar_argument(Word* out, DType* dtype, const aster_ml_scalar* scalar) {
  if (scalar == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for a scalar");
  ASTER_TRY(dtype::from_code(dtype, scalar->dtype));
  *out = dtype::is_float(*dtype) ? std::bit_cast<Word>(dtype::load_double(*dtype, scalar->value))
                                 : dtype::load_int(*dtype, scalar->value);
  return kOk;
}

}  // namespace aster::tensor
