// Where the errors of sticky tensors are.
#include "aster_ml/sticky.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "dtype/convert.h"
#include "dtype/sticky.h"
#include "tensor/api.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Op;

Expr error_mask(Graph& g, Node x) {
  const Word error = dtype::sticky_error(x->dtype);
  return Expr{&g, x} == Expr{&g, g.constant_word(x->dtype, error, x->shape())};
}

Node error_count(Graph& g, Node x) {
  return sum(g, error_mask(g, x).cast(DType::kInt64).n, {}, false);
}

// Along an axis counted from the end.
Node errors_along(Graph& g, Node x, int64_t axis) {
  return any(g, error_mask(g, x).n, {1, &axis}, false);
}
Node error_rows(Graph& g, Node x) { return errors_along(g, x, -1); }
Node error_columns(Graph& g, Node x) { return errors_along(g, x, -2); }

// The greatest of count - i over the errors is that of the first.
Node first_error(Graph& g, Node x) {
  if (x->ndim == 0) return g.constant_int(DType::kInt64, 0, std::array<Word, 1>{0});
  const Word count = x->count();
  const Expr flat = error_mask(g, x).reshape(std::array{count});
  const auto number = [&](Word value) {
    return Expr{&g, g.constant_int(DType::kInt64, value, std::array<Word, 1>{1})};
  };
  const Expr left = number(count) - Expr{&g, g.iota(DType::kInt64, count)};
  const Expr best = reduce(Op::kMax, where(flat, left, 0.0), std::array<Word, 1>{0});
  const Expr first = number(count) - max(best, 0.0);  // of no elements the maximum is the least
  const Expr none = best <= 0.0;
  Vec<Node> places(g.memory());
  Word stride = 1;
  for (size_t i = x->ndim; i-- > 0;) {
    const Word size = std::max<Word>(x->dim(i), 1);
    const Expr place = alu(Op::kFloorMod, alu(Op::kFloorDiv, first, number(stride)), number(size));
    if (!places.push(where(none, number(-1), place).n).ok()) return nullptr;
    stride *= size;
  }
  std::reverse(places.begin(), places.end());
  return g.cat({places.data(), places.size()}, 0);
}

int32_t build_errors(aster_ml_lazy* out, const aster_ml_lazy* x, size_t axes,
                     Node (*f)(Graph&, Node)) {
  Build build(out, {x});
  ASTER_TRY(build.status());
  const Node given = node(x);
  if (!dtype::is_sticky(given->dtype))
    return ASTER_FAIL(kDTYPE, "errors of %s, which is not sticky", brief(given).text);
  if (given->ndim < axes)
    return ASTER_FAIL(kSHAPE, "errors of %s: %zu axes are needed", brief(given).text, axes);
  return build.finish(f(build.graph(), given));
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;

int32_t aster_ml_lazy_is_error(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  return build_errors(out, x, 0, [](Graph& g, Node n) { return error_mask(g, n).n; });
}

int32_t aster_ml_lazy_error_count(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  return build_errors(out, x, 0, error_count);
}

int32_t aster_ml_lazy_error_rows(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  return build_errors(out, x, 1, error_rows);
}

int32_t aster_ml_lazy_error_columns(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  return build_errors(out, x, 2, error_columns);
}

int32_t aster_ml_lazy_first_error(aster_ml_lazy* out, const aster_ml_lazy* x) {
  ASTER_API();
  return build_errors(out, x, 0, first_error);
}

int32_t aster_ml_sticky_text(char* out, size_t size, const aster_ml_scalar* scalar) {
  ASTER_API();
  if (out == nullptr || scalar == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer");
  if (size != 0) *out = '\0';
  aster::dtype::DType d;
  ASTER_TRY(aster::dtype::from_code(&d, scalar->dtype));
  if (!aster::dtype::is_sticky(d))
    return ASTER_FAIL(kDTYPE, "%s is not sticky", aster::dtype::name(d));
  char text[24] = "ERR";
  const int64_t value = aster::dtype::load_int(d, scalar->value);
  if (value != aster::dtype::sticky_error(d))
    *std::to_chars(text, text + sizeof(text) - 1, value).ptr = '\0';
  const size_t length = std::strlen(text) + 1;
  if (length > size) return ASTER_FAIL(kRANGE, "room for %zu bytes, %zu are needed", size, length);
  std::memcpy(out, text, length);
  return kOk;
}
