// Reading images at positions that are computed.
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

enum class Beyond : uint8_t { kZeros, kBorder, kReflection };

Expr rounded_down(Expr x) { return uop::floor(x); }

// x reflected at the ends of [low, high] until it is inside.
Expr reflected(Expr x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return x.like(low);
  const Expr away = uop::abs(x - low);
  const Expr turn = away - uop::floor(away / (2 * range)) * (2 * range);
  return uop::where(turn <= range, turn + low, (2 * range + low) - turn);
}

// Samples of x [N, C, sizes...] at one position an axis, [N, 1, o...] each.
class Grid {
 public:
  Grid(Op& op, Node x, bool align, Beyond beyond)
      : op_(op), x_(x), align_(align), beyond_(beyond) {}

  // A coordinate of [-1, 1] as a position on spatial axis i.
  Expr position(Expr at, size_t i) const {
    const auto size = static_cast<double>(x_->dim(i + 2));
    const Expr x = align_ ? (at + 1.0) * ((size - 1) / 2) : ((at + 1.0) * size - 1.0) / 2.0;
    return inside(x, i);
  }
  Expr inside(Expr x, size_t i) const {
    const auto size = static_cast<double>(x_->dim(i + 2));
    if (beyond_ == Beyond::kBorder) return uop::min(uop::max(x, 0.0), size - 1);
    if (beyond_ != Beyond::kReflection) return x;
    return align_ ? reflected(x, 0, size - 1) : reflected(x, -0.5, size - 0.5);
  }
  // x at whole positions; what is beyond them by its rule.
  Expr read(std::span<const Expr> at) {
    const Words shape = at[0].shape();
    Dims result(shape), coordinates(Words(std::array<Word, 2>{0, 1}));
    result[1] = x_->dim(1);
    Vec<Node> indices(op_.heap());
    for (size_t i = 0; i < at.size(); ++i) {
      Expr place = inside(at[i], i);
      if (beyond_ == Beyond::kReflection) place = uop::trunc(place);
      op_.fail(indices.push(place.cast(DType::kInt64).expand(result).n));
      coordinates.push(-static_cast<Word>(i) - 1);
      if (op_.ok() && indices[i] == nullptr) op_.fail(last_failure());
    }
    if (!op_.ok()) return {&op_.g, nullptr};
    return {&op_.g, op_.g.gather(x_, {indices.data(), indices.size()}, coordinates, result)};
  }
  // Between positions: taps an axis, whose weights weight(fraction, k) gives.
  template <typename Weight>
  Expr between(std::span<const Expr> at, int first, int taps, Weight weight) {
    Expr all{&op_.g, nullptr};
    size_t count = 1;
    for (size_t i = 0; i < at.size(); ++i) count *= static_cast<size_t>(taps);
    for (size_t corner = 0; corner < count && op_.ok(); ++corner) {
      std::array<Expr, 3> places;
      Expr w{&op_.g, nullptr};
      size_t rest = corner;
      for (size_t i = 0; i < at.size(); ++i, rest /= static_cast<size_t>(taps)) {
        const int k = static_cast<int>(rest % static_cast<size_t>(taps)) + first;
        const Expr low = rounded_down(at[i]);
        const Expr one = weight(at[i] - low, k);
        places[i] = low + static_cast<double>(k);
        w = i == 0 ? one : w * one;
      }
      const Expr part = read({places.data(), at.size()}).cast(w.dtype()) * w;
      all = corner == 0 ? part : all + part;
    }
    return all;
  }

 private:
  Op& op_;
  Node x_;
  bool align_;
  Beyond beyond_;
};

Expr linear_weight(Expr fraction, int k) { return k == 0 ? 1.0 - fraction : fraction; }

Expr cubic_weight(Expr fraction, int k) {
  constexpr double a = -0.75;
  const Expr x = k <= 0 ? fraction - static_cast<double>(k) : static_cast<double>(k) - fraction;
  if (k == 0 || k == 1) return ((a + 2) * x - (a + 3)) * x * x + 1.0;
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

}  // namespace

namespace build {

void grid_sample(Op& op) {
  const Node x = op.in(0), grid = op.in(1);
  if (!op.ok()) return;
  const size_t rank = x->ndim < 2 ? 0 : x->ndim - 2u;
  if (rank < 1 || rank > 3 || grid->ndim != x->ndim ||
      grid->dim(grid->ndim - 1u) != static_cast<Word>(rank) || grid->dim(0) != x->dim(0)) {
    return op.fail(ASTER_FAIL(kSHAPE, "%s at %s", uop::brief(x).text, uop::brief(grid).text));
  }
  const std::string_view mode = op.text("mode", "linear"),
                         padding = op.text("padding_mode", "zeros");
  const Beyond beyond = padding == "border"       ? Beyond::kBorder
                        : padding == "reflection" ? Beyond::kReflection
                                                  : Beyond::kZeros;
  const DType wide = grid->dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Grid sampler(op, x, op.integer("align_corners", 0) != 0, beyond);
  std::array<Expr, 3> at;
  for (size_t i = 0; i < rank; ++i) {  // the last coordinate is of the first axis
    const Node one = tensor::select(op.g, grid, -1, static_cast<int64_t>(rank - 1 - i));
    at[i] = sampler.position(
        Expr{&op.g, one == nullptr ? one : tensor::unsqueeze(op.g, one, 1)}.cast(wide), i);
  }
  const std::span<const Expr> all(at.data(), rank);
  if (mode == "nearest") {
    for (size_t i = 0; i < rank; ++i) at[i] = alu(uop::Op::kRound, at[i]);
    return op.set(sampler.read(all));
  }
  const bool cubic = mode == "cubic" || mode == "bicubic";
  const Expr y =
      cubic ? sampler.between(all, -1, 4, cubic_weight) : sampler.between(all, 0, 2, linear_weight);
  op.set(y.cast(x->dtype));
}

void affine_grid(Op& op) {
  const Node theta = op.in(0);
  const Words size = op.ints(1);
  if (!op.ok()) return;
  const size_t rank = size.size() < 2 ? 0 : size.size() - 2;
  if (rank < 1 || size.size() > Dims::kMost || theta->ndim != 3 ||
      theta->dim(1) != static_cast<Word>(rank) || theta->dim(2) != static_cast<Word>(rank + 1))
    return op.fail(ASTER_FAIL(kSHAPE, "%s for %zu axes", uop::brief(theta).text, rank));
  const bool align = op.integer("align_corners", 0) != 0;
  const DType wide = theta->dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Dims shape(Words(size).subspan(2));
  Vec<Node> columns(op.heap());
  Dims column(shape);
  column.push(1);
  for (size_t k = 0; k <= rank && op.ok(); ++k) {
    Expr x{&op.g, op.g.constant(wide, 1, shape)};
    if (k < rank) {
      const size_t axis = rank - 1 - k;
      const auto n = static_cast<double>(shape[axis]);
      const Expr i = uop::iota(op.g, DType::kInt64, shape, axis).cast(wide);
      x = align ? i * (shape[axis] > 1 ? 2 / (n - 1) : 0) - 1.0 : (i * 2.0 + 1.0) / n - 1.0;
      x = x.expand(shape);
    }
    op.fail(columns.push(x.reshape(column).n));
    if (op.ok() && columns[k] == nullptr) op.fail(last_failure());
  }
  if (!op.ok()) return;
  const Node base = tensor::cat(op.g, {columns.data(), columns.size()}, static_cast<int64_t>(rank));
  const Node flat = base == nullptr
                        ? base
                        : op.g.reshape(base, std::array{base->count() / static_cast<Word>(rank + 1),
                                                        static_cast<Word>(rank + 1)});
  const Node y = tensor::matmul(op.g, flat,
                                op.g.permute(op.g.cast(theta, wide), std::array<Word, 3>{0, 2, 1}));
  Dims result(1, theta->dim(0));
  for (const Word dim : words_of(shape)) result.push(dim);
  result.push(static_cast<Word>(rank));
  op.set(y == nullptr ? y : op.g.cast(op.g.reshape(y, result), theta->dtype));
}

void deform_conv(Op& op) {
  const Node x = op.in(0), weight = op.in(1), offset = op.in(2), bias = op.in_or_null(3),
             mask = op.in_or_null(4);
  if (!op.ok()) return;
  const Words strides = op.integers("strides"), dilations = op.integers("dilations"),
              pads = op.integers("pads");
  const Word groups = op.integer("group", 1), offsets = op.integer("offset_group", 1);
  const bool lists = (strides.empty() || strides.size() == 2) &&
                     (dilations.empty() || dilations.size() == 2) &&
                     (pads.empty() || pads.size() == 4);
  Word channels = 0, places = 0, all = 0;  // of what has no elements axes may be of any size
  if (!lists || x->ndim != 4 || weight->ndim != 4 || offset->ndim != 4 || groups < 1 ||
      offsets < 1 || x->dim(1) % offsets != 0 || weight->dim(0) % groups != 0 ||
      !checked_mul(weight->dim(1), groups, &channels) || x->dim(1) != channels) {
    return op.fail(ASTER_FAIL(kSHAPE, "%s by %s with offsets %s", uop::brief(x).text,
                              uop::brief(weight).text, uop::brief(offset).text));
  }
  const Word n = x->dim(0), c = x->dim(1), kh = weight->dim(2), kw = weight->dim(3),
             oh = offset->dim(2), ow = offset->dim(3), each = c / offsets;
  if (!checked_mul(kh * kw * 2, offsets, &places) || offset->dim(1) != places ||
      !checked_mul(n, offsets, &all))
    return op.fail(ASTER_FAIL(kSHAPE, "offsets %s", uop::brief(offset).text));
  const DType wide = x->dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  // Images of one offset group each, [all, each, h, w]; positions [all, 1, kh * kw
  // * oh * ow].
  const Node images = op.g.reshape(x, std::array{all, each, x->dim(2), x->dim(3)});
  const Node apart = op.g.reshape(offset, std::array{all, kh * kw, Word{2}, oh, ow});
  const Dims grid(Words(std::array{Word{1}, kh, kw, oh, ow}));
  const auto place = [&](size_t axis, Word k_axis, Word o_axis) {
    const Expr moved =
        Expr{&op.g, tensor::select(op.g, apart, 2, static_cast<int64_t>(axis))}.cast(wide).reshape(
            std::array{all, kh, kw, oh, ow});
    const double d = dilations.empty() ? 1 : static_cast<double>(dilations[axis]),
                 s = strides.empty() ? 1 : static_cast<double>(strides[axis]),
                 p = pads.empty() ? 0 : static_cast<double>(pads[axis]);
    const Expr base =
        uop::iota(op.g, DType::kInt64, grid, static_cast<size_t>(k_axis)).cast(wide) * d +
        uop::iota(op.g, DType::kInt64, grid, static_cast<size_t>(o_axis)).cast(wide) * s - p;
    return (moved + base).reshape(std::array{all, Word{1}, kh * kw, oh * ow});
  };
  const std::array at{place(0, 1, 3), place(1, 2, 4)};
  Grid sampler(op, images, true, Beyond::kZeros);
  Expr read = sampler.between(at, 0, 2, linear_weight);
  if (mask != nullptr)
    read = read * Expr{&op.g, mask}.cast(wide).reshape(std::array{all, Word{1}, kh * kw, oh * ow});
  // [n, groups, c / groups * kh * kw, oh * ow], multiplied by the filters of each group.
  const Expr columns = read.reshape(std::array{n, groups, c / groups * kh * kw, oh * ow});
  const Expr filters = Expr{&op.g, weight}.cast(wide).reshape(
      std::array{Word{1}, groups, weight->dim(0) / groups, c / groups * kh * kw});
  const Node y = tensor::matmul(op.g, filters.n, columns.n);
  Expr result = Expr{&op.g, y}.reshape(std::array{n, weight->dim(0), oh, ow});
  if (bias != nullptr) result = result + Expr{&op.g, along_axis(op, bias, 1, 4)}.cast(wide);
  op.set(result.cast(x->dtype));
}

}  // namespace build
}  // namespace aster::nn::onnx
