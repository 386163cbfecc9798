// Pools.
#include <algorithm>
#include <cmath>

#include "aster_ml/spatial.h"
#include "nn/onnx/windows.h"
#include "tensor/spatial.h"

namespace aster::nn::onnx {
namespace {

aster_ml_pool_options options_of(const WindowList& w) {
  aster_ml_pool_options o{};
  o.struct_size = sizeof(o);
  o.ceil_mode = w.ceil ? 1 : 0;
  o.stride = w.stride.at;
  o.dilation = w.dilation.at;
  o.before = w.before.at;
  o.after = w.after.at;
  return o;
}

bool read_pool(Op& op, WindowList* w, Node x) {
  if (!op.ok()) return false;
  if (x->ndim < 3) {
    op.fail(ASTER_FAIL(kSHAPE, "a pool of %s", uop::brief(x).text));
    return false;
  }
  return read_windows(op, w, op.integers("kernel_shape"), x->shape().subspan(2));
}

Dims spatial_axes(Node x) {
  Dims axes;
  for (size_t i = 2; i < x->ndim; ++i) axes.push(static_cast<Word>(i));
  return axes;
}

// Positions among the last axes as those in the whole tensor; column: the last axes in column-major
// order.
Node whole_positions(Op& op, Node at, Node x, bool column) {
  if (at == nullptr) return nullptr;
  Expr place = Expr{&op.g, at}.cast(DType::kInt64);
  const Words plane = x->shape().subspan(2);
  Word size = 1;
  for (const Word dim : plane) size *= dim;
  if (column) {
    Expr turned = place.like(0), rest = place;
    Word stride = size;
    for (size_t i = plane.size(); i-- > 0;) {
      stride /= std::max(plane[i], Word{1});
      const auto dim = static_cast<double>(std::max(plane[i], Word{1}));
      turned = turned + alu(uop::Op::kCMod, rest, dim) * static_cast<double>(stride);
      rest = alu(uop::Op::kCDiv, rest, dim);
    }
    place = turned;
  }
  Dims images(2, 1);
  images[0] = x->dim(0);
  images[1] = x->dim(1);
  Dims spread(images);
  while (spread.size() < x->ndim) spread.push(1);
  const Expr image{&op.g, op.g.reshape(op.g.iota(DType::kInt64, images[0] * images[1]), spread)};
  return (place + image * static_cast<double>(size)).n;
}

}  // namespace

namespace build {

void max_pool(Op& op) {
  const Node x = op.in(0);
  WindowList w;
  if (!read_pool(op, &w, x)) return;
  const aster_ml_pool_options o = options_of(w);
  if (!op.wants(1)) {
    return op.set(op.through(
        [&](aster_ml_lazy* out, const aster_ml_lazy* const* in) {
          return aster_ml_lazy_max_pool(out, in[0], w.rank, w.kernel.at, &o);
        },
        {x}));
  }
  Node results[2] = {};
  op.fail(op.through(results,
                     [&](aster_ml_lazy* out, const aster_ml_lazy* const* in) {
                       return aster_ml_lazy_max_pool_with_indices(&out[0], &out[1], in[0], w.rank,
                                                                  w.kernel.at, &o);
                     },
                     {&x, 1}));
  op.set(0, results[0]);
  op.set(1, whole_positions(op, results[1], x, op.integer("storage_order", 0) != 0));
}

void average_pool(Op& op) {
  const Node x = op.in(0);
  WindowList w;
  if (!read_pool(op, &w, x)) return;
  aster_ml_pool_options o = options_of(w);
  o.exclude_pad = op.integer("count_include_pad", 0) == 0 ? 1 : 0;
  op.set(op.through(
      [&](aster_ml_lazy* out, const aster_ml_lazy* const* in) {
        return aster_ml_lazy_avg_pool(out, in[0], w.rank, w.kernel.at, &o);
      },
      {x}));
}

void lp_pool(Op& op) {
  const Node x = op.in(0);
  WindowList list;
  if (!read_pool(op, &list, x)) return;
  const double p = op.has("p") && op.attribute("p")->type == 1
                       ? op.number("p", 2)
                       : static_cast<double>(op.integer("p", 2));
  tensor::Windows w;
  w.what = "LpPool";
  w.rank = list.rank;
  w.kernel = list.kernel;
  w.stride = list.stride;
  w.dilation = list.dilation;
  w.before = list.before;
  w.after = list.after;
  const DType wide = dtype::is_narrow_float(x->dtype) ? DType::kFloat32 : x->dtype;
  const Expr size = uop::abs(Expr{&op.g, x}.cast(wide));
  const Expr powers = p == 1 ? size : p == 2 ? size * size : uop::pow(size, p);
  if (list.ceil) tensor::round_up(&w, powers.n);
  if (powers.n == nullptr) return op.fail(last_failure());
  op.fail(tensor::check_windows(w, powers.n));
  const Node cut = op.ok() ? tensor::cut_windows(op.g, powers.n, w, 0) : nullptr;
  if (cut == nullptr) return op.fail(last_failure());
  const Dims axes = tensor::kernel_axes(cut->ndim, w.rank);
  const Expr all{&op.g, uop::drop_axes(op.g, op.g.reduce(uop::Op::kAdd, cut, axes), axes)};
  op.set((p == 1 ? all : p == 2 ? uop::sqrt(all) : uop::pow(all, 1 / p)).cast(x->dtype));
}

void global_average_pool(Op& op) {
  const Node x = op.in(0);
  if (op.ok()) op.set(mean_over({&op.g, x}, spatial_axes(x)));
}
void global_max_pool(Op& op) {
  const Node x = op.in(0);
  if (op.ok()) op.set(uop::reduce(uop::Op::kMax, {&op.g, x}, spatial_axes(x)));
}
void global_lp_pool(Op& op) {
  const Node x = op.in(0);
  const double p = op.has("p") && op.attribute("p")->type == 1
                       ? op.number("p", 2)
                       : static_cast<double>(op.integer("p", 2));
  if (!op.ok()) return;
  const Expr all = uop::sum(uop::pow(uop::abs(Expr{&op.g, x}), p), spatial_axes(x));
  op.set(uop::pow(all, 1 / p));
}

void max_unpool(Op& op) {
  const Node x = op.in(0), at = op.in(1);
  WindowList w;
  if (!read_pool(op, &w, x)) return;
  Dims shape(x->shape().first(2));
  for (size_t i = 0; i < w.rank; ++i)
    shape.push((x->dim(i + 2) - 1) * w.stride[i] - w.before[i] - w.after[i] + w.kernel[i]);
  const Words asked = op.has(2) ? op.ints(2) : Words();
  const bool fits = asked.size() == x->ndim && std::ranges::none_of(asked, [](Word dim) {
                      return dim < 0 || dim > Word{1} << 40;
                    });
  if (op.ok() && op.has(2) && !fits)
    op.fail(ASTER_FAIL(kSHAPE, "unpooled to %s", uop::brief_shape(asked).text));
  if (!op.ok()) return;
  Word count = 1;
  for (const Word dim : words_of(shape)) {
    if (dim < 0 || (dim != 0 && count > (Word{1} << 40) / dim))
      return op.fail(ASTER_FAIL(kSHAPE, "unpooled to %s", uop::brief_shape(shape).text));
    count *= dim;
  }
  const Node flat = op.g.constant(x->dtype, 0, std::array{count});
  const Node values = op.g.reshape(x, std::array{x->count()});
  const Node index = op.g.cast(op.g.reshape(at, std::array{at->count()}), DType::kInt64);
  const std::array<Word, 1> coordinates{-1};
  if (index == nullptr || values == nullptr) return op.fail(last_failure());
  const Node y = op.g.scatter(uop::Op::kSink, flat, values, {&index, 1}, coordinates);
  Node result = y == nullptr ? y : op.g.reshape(y, shape);
  if (!asked.empty() && result != nullptr) {
    Dims none(x->ndim, 0), after(x->ndim, 0);
    for (size_t i = 0; i < x->ndim; ++i) after[i] = asked[i] - shape[i];
    result = tensor::pad(op.g, result, none, after, 0, DType::kInt64);
  }
  op.set(result);
}

}  // namespace build
}  // namespace aster::nn::onnx
