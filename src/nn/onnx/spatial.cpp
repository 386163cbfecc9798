// Convolutions.
#include <algorithm>

#include "aster_ml/spatial.h"
#include "base/checked.h"
#include "nn/onnx/windows.h"

namespace aster::nn::onnx {
namespace {

constexpr Word kMost = Word{1} << 40, kMostSpan = Word{1} << 60;

// Neither is negative, and their product is no long way from overflowing.
bool spans(Word a, Word b) {
  Word product;
  return a >= 0 && b >= 0 && checked_mul(a, b, &product) && product < kMostSpan;
}

bool list_of(Op& op, Dims* out, std::string_view key, size_t count, Word fallback, Word least) {
  const Words given = op.integers(key);
  *out = given.empty() ? Dims(count, fallback) : Dims(given);
  bool fits = out->size() == count;
  for (const Word word : words_of(*out)) fits = fits && word >= least && word < kMost;
  if (!fits)
    op.fail(ASTER_FAIL(kSHAPE, "'%.*s' is %s", static_cast<int>(key.size()), key.data(),
                       uop::brief_shape(*out).text));
  return fits;
}

}  // namespace

bool read_windows(Op& op, WindowList* out, Words kernel, Words sizes, bool padded) {
  if (!op.ok()) return false;
  const size_t rank = sizes.size();
  out->rank = rank;
  out->kernel = Dims(kernel);
  Dims pads;
  bool fits = kernel.size() == rank && rank > 0;
  for (const Word size : kernel) fits = fits && size > 0 && size < kMost;
  if (!fits) {
    op.fail(ASTER_FAIL(kSHAPE, "a kernel %s over %zu axes", uop::brief_shape(kernel).text, rank));
    return false;
  }
  if (!list_of(op, &out->stride, "strides", rank, 1, 1) ||
      !list_of(op, &out->dilation, "dilations", rank, 1, 1) ||
      !list_of(op, &pads, "pads", 2 * rank, 0, -kMost)) {
    return false;
  }
  for (size_t i = 0; i < rank; ++i)
    fits = fits && spans(kernel[i], out->dilation[i]) && spans(sizes[i], out->stride[i]);
  if (!fits) {
    op.fail(ASTER_FAIL(kSHAPE, "a kernel %s by steps %s over %s, %s apart",
                       uop::brief_shape(kernel).text, uop::brief_shape(out->dilation).text,
                       uop::brief_shape(sizes).text, uop::brief_shape(out->stride).text));
    return false;
  }
  out->ceil = op.integer("ceil_mode", 0) != 0;
  out->before = Dims(words_of(pads).first(rank));
  out->after = Dims(words_of(pads).last(rank));
  const std::string_view automatic = op.text("auto_pad", "NOTSET");
  if (!padded || automatic == "NOTSET") return true;
  for (size_t i = 0; i < rank; ++i) {
    Word total = 0;
    if (automatic != "VALID") {
      const Word windows = (sizes[i] + out->stride[i] - 1) / out->stride[i];
      total = std::max((windows - 1) * out->stride[i] + out->span(i) - sizes[i], Word{0});
    }
    out->before[i] = automatic == "SAME_LOWER" ? total - total / 2 : total / 2;
    out->after[i] = total - out->before[i];
  }
  return true;
}

Node convolve(Op& op, Node x, Node weight, Node bias, const WindowList& w, int64_t groups) {
  aster_ml_conv_options o{};
  o.struct_size = sizeof(o);
  o.groups = static_cast<int32_t>(std::clamp<int64_t>(groups, 0, INT32_MAX));
  o.stride = w.stride.at;
  o.dilation = w.dilation.at;
  o.before = w.before.at;
  o.after = w.after.at;
  return op.through(
      [&](aster_ml_lazy* out, const aster_ml_lazy* const* in) {
        return aster_ml_lazy_conv(out, in[0], in[1], in[2], &o);
      },
      {x, weight, bias});
}

namespace {

bool are_images(Op& op, Node x, Node weight) {
  if (!op.ok()) return false;
  if (x->ndim >= 3 && weight->ndim == x->ndim) return true;
  op.fail(ASTER_FAIL(kSHAPE, "%s by %s", uop::brief(x).text, uop::brief(weight).text));
  return false;
}

// x less its zero point, which is one or one a channel of an axis.
Node without_zero(Op& op, Node x, size_t zero, size_t axis, DType dtype) {
  if (x == nullptr) return nullptr;
  Expr y = Expr{&op.g, x}.cast(dtype);
  if (op.has(zero)) {
    Node z = zero_point(op, zero);
    if (z == nullptr) return nullptr;
    z = z->count() == 1 ? op.g.reshape(z, Words()) : along_axis(op, z, axis, x->ndim);
    y = y - Expr{&op.g, z}.cast(dtype);
  }
  return y.n;
}

}  // namespace

namespace build {

void conv(Op& op) {
  const Node x = op.in(0), weight = op.in(1), bias = op.in_or_null(2);
  WindowList w;
  if (!are_images(op, x, weight)) return;
  if (!read_windows(op, &w, weight->shape().subspan(2), x->shape().subspan(2))) return;
  op.set(convolve(op, x, weight, bias, w, op.integer("group", 1)));
}

void conv_transpose(Op& op) {
  const Node x = op.in(0), weight = op.in(1), bias = op.in_or_null(2);
  WindowList w;
  Dims more;
  if (!are_images(op, x, weight)) return;
  if (!read_windows(op, &w, weight->shape().subspan(2), x->shape().subspan(2), false)) return;
  if (!list_of(op, &more, "output_padding", w.rank, 0, 0)) return;
  const Words asked = op.integers("output_shape");
  for (const Word size : asked) {
    if (size >= 0 && size < kMost) continue;
    op.fail(ASTER_FAIL(kSHAPE, "'output_shape' is %s", uop::brief_shape(asked).text));
    return;
  }
  const std::string_view automatic = op.text("auto_pad", "NOTSET");
  for (size_t i = 0; i < w.rank; ++i) {
    const Word size = x->dim(i + 2), whole = w.stride[i] * (size - 1) + more[i] + w.span(i);
    const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
    if (automatic == "VALID") w.before[i] = w.after[i] = 0;
    if (asked.empty() && !same) continue;
    const Word wanted =
        asked.empty()
            ? size * w.stride[i]
            : asked[std::min(i + asked.size() - std::min(asked.size(), w.rank), asked.size() - 1)];
    const Word total = whole - wanted;
    if (total < 0) {  // what windows do not reach stays empty
      more[i] -= total;
      w.before[i] = w.after[i] = 0;
      continue;
    }
    w.before[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.after[i] = total - w.before[i];
  }
  aster_ml_conv_options o{};
  o.struct_size = sizeof(o);
  o.groups = static_cast<int32_t>(std::clamp<int64_t>(op.integer("group", 1), 0, INT32_MAX));
  o.stride = w.stride.at;
  o.dilation = w.dilation.at;
  o.before = w.before.at;
  o.after = w.after.at;
  o.output_padding = more.at;
  op.set(op.through(
      [&](aster_ml_lazy* out, const aster_ml_lazy* const* in) {
        return aster_ml_lazy_conv_transpose(out, in[0], in[1], in[2], &o);
      },
      {x, weight, bias}));
}

void conv_integer(Op& op) {
  const Node x = op.in(0), weight = op.in(1);
  WindowList w;
  if (!are_images(op, x, weight)) return;
  if (!read_windows(op, &w, weight->shape().subspan(2), x->shape().subspan(2))) return;
  const Node a = without_zero(op, x, 2, 1, DType::kInt32),
             b = without_zero(op, weight, 3, 0, DType::kInt32);
  if (op.ok()) op.set(convolve(op, a, b, nullptr, w, op.integer("group", 1)));
}

void qlinear_conv(Op& op) {
  const Node x = op.in(0), weight = op.in(3), zero = op.in(7);
  WindowList w;
  if (!are_images(op, x, weight)) return;
  if (!read_windows(op, &w, weight->shape().subspan(2), x->shape().subspan(2))) return;
  const Node a = without_zero(op, x, 2, 1, DType::kInt32),
             b = without_zero(op, weight, 5, 0, DType::kInt32);
  const Node sums = convolve(op, a, b, op.in_or_null(8), w, op.integer("group", 1)),
             scale = op.in(4);
  if (!op.ok()) return;
  const Expr by{&op.g, scale->count() == 1 ? op.g.reshape(scale, Words())
                                           : along_axis(op, scale, 1, x->ndim)};
  const auto single = [&](size_t i) { return Expr{&op.g, op.g.reshape(op.in(i), Words())}; };
  const Expr real = Expr{&op.g, sums}.cast(DType::kFloat32) * (single(1) * by / single(6));
  const Expr moved =
      alu(uop::Op::kRound, real) + Expr{&op.g, op.g.reshape(zero, Words())}.cast(DType::kFloat32);
  const auto low = static_cast<double>(dtype::min_int(zero->dtype)),
             high = static_cast<double>(dtype::max_int(zero->dtype));
  op.set(uop::min(uop::max(moved, low), high).cast(zero->dtype));
}

void col2im(Op& op) {
  const Node x = op.in(0);
  const Words image = op.ints(1), block = op.ints(2);
  WindowList w;
  if (!read_windows(op, &w, block, image)) return;
  Dims shape, order(Words(std::array<Word, 2>{0, 1}));
  Word windows = 1, taps = 1;
  Dims counts;
  for (size_t i = 0; i < w.rank; ++i) {
    const Word room = image[i] + w.before[i] + w.after[i] - w.span(i);
    counts.push(room / w.stride[i] + 1);
    if (room < 0 || !checked_mul(windows, counts[i], &windows) ||
        !checked_mul(taps, block[i], &taps))
      return op.fail(ASTER_FAIL(kSHAPE, "blocks %s in an image %s", uop::brief_shape(block).text,
                                uop::brief_shape(image).text));
  }
  if (x->ndim != 3 || x->dim(2) != windows || x->dim(1) % taps != 0)
    return op.fail(ASTER_FAIL(kSHAPE, "%s in %lld blocks of %lld", uop::brief(x).text,
                              static_cast<long long>(windows), static_cast<long long>(taps)));
  shape.push(x->dim(0));
  shape.push(x->dim(1) / taps);
  for (size_t i = 0; i < w.rank; ++i) shape.push(block[i]);
  for (size_t i = 0; i < w.rank; ++i) shape.push(counts[i]);
  for (size_t i = 0; i < w.rank; ++i) {
    order.push(static_cast<Word>(2 + w.rank + i));
    order.push(static_cast<Word>(2 + i));
  }
  Node y = op.g.permute(op.g.reshape(x, shape), order);
  for (size_t i = 0; i < w.rank && y != nullptr; ++i) {
    const size_t axis = 2 + i;
    const Word size = image[i] + w.before[i] + w.after[i];
    const Dims over(1, static_cast<Word>(axis + 1));
    y = op.g.unwindow(y, static_cast<int64_t>(axis), size, w.stride[i], w.dilation[i]);
    y = y == nullptr ? y : uop::drop_axes(op.g, op.g.reduce(uop::Op::kAdd, y, over), over);
    if (y != nullptr) y = tensor::cut_axis(op.g, y, axis, w.before[i], w.before[i] + image[i]);
  }
  op.set(y);
}

}  // namespace build
}  // namespace aster::nn::onnx
