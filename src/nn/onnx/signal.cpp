// Fourier transforms and windows.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr Word kMostLength = 1 << 16;
// Elements of what is computed here.
constexpr Word kMostTable = 1 << 26;

// Cosines and sines of turns n * k / length, [inputs, outputs], scaled row by row.
struct Waves {
  Expr cosine, sine;
};
template <typename Scale>
Waves waves(Op& op, Word inputs, Word outputs, Word length, DType dtype, Scale scale) {
  Vec<double> c(op.heap()), s(op.heap());
  if (inputs * outputs > kMostTable)
    op.fail(ASTER_FAIL(kRANGE, "%lld frequencies of %lld elements", static_cast<long long>(outputs),
                       static_cast<long long>(inputs)));
  if (!op.ok()) return {};
  op.fail(c.resize(static_cast<size_t>(inputs * outputs)));
  op.fail(s.resize(static_cast<size_t>(inputs * outputs)));
  if (!op.ok()) return {};
  for (Word n = 0; n < inputs; ++n) {
    for (Word k = 0; k < outputs; ++k) {
      const double turn = kTurn * static_cast<double>(n * k % length) / static_cast<double>(length);
      const auto at = static_cast<size_t>(n * outputs + k);
      c[at] = std::cos(turn) * scale(n);
      s[at] = std::sin(turn) * scale(n);
    }
  }
  const std::array shape{inputs, outputs};
  return {{&op.g, op.stored(std::span<const double>(c.data(), c.size()), shape, dtype)},
          {&op.g, op.stored(std::span<const double>(s.data(), s.size()), shape, dtype)}};
}

// x [..., 1 or 2] along an axis, which has length elements in its result, or half of them.
Node transformed(Op& op, Node x, size_t axis, Word length, bool inverse, bool onesided) {
  if (!op.ok() || x == nullptr) return nullptr;
  const Word parts = x->ndim == 0 ? 0 : x->dim(x->ndim - 1u);
  if (x->ndim < 2 || axis + 1 >= x->ndim || parts < 1 || parts > 2 || length < 1 ||
      length > kMostLength) {
    op.fail(ASTER_FAIL(kSHAPE, "%lld frequencies of axis %zu of %s", static_cast<long long>(length),
                       axis, uop::brief(x).text));
    return nullptr;
  }
  const DType wide = x->dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const bool back = inverse && onesided;  // half of a spectrum to real numbers
  const Word inputs = back ? length / 2 + 1 : length,
             outputs = onesided && !inverse ? length / 2 + 1 : length;
  // The axis last, as long as it is asked for.
  Dims order, result_order;
  for (size_t i = 0; i + 1 < x->ndim; ++i) {
    if (i != axis) order.push(static_cast<Word>(i));
  }
  order.push(static_cast<Word>(axis));
  order.push(static_cast<Word>(x->ndim) - 1);
  Node turned = op.g.permute(x, order);
  const size_t last = x->ndim - 2u;
  Dims none(x->ndim, 0), after(x->ndim, 0);
  after[last] = inputs - x->dim(axis);
  turned = tensor::pad(op.g, turned, none, after, 0, DType::kInt64);
  const auto part = [&](int64_t i) {
    return Expr{&op.g, tensor::select(op.g, turned, -1, i)}.cast(wide);
  };
  const double by = inverse ? 1 / static_cast<double>(length) : 1;
  const Waves w = waves(op, inputs, outputs, length, wide, [&](Word k) {
    const bool once = !back || k == 0 || 2 * k == length;
    return once ? by : 2 * by;
  });
  if (!op.ok()) return nullptr;
  const auto product = [&](Expr a, Expr b) { return Expr{&op.g, tensor::matmul(op.g, a.n, b.n)}; };
  const double sign = inverse ? -1 : 1;
  const Expr real = part(0);
  Expr re = product(real, w.cosine), im = product(real, w.sine) * -sign;
  if (parts == 2) {
    const Expr imaginary = part(1);
    re = re + product(imaginary, w.sine) * sign;
    im = im + product(imaginary, w.cosine);
  }
  if (re.n == nullptr || im.n == nullptr) return nullptr;
  const auto ends = static_cast<int64_t>(last) + 1;
  const Node both = back ? tensor::unsqueeze(op.g, re.n, ends)
                         : tensor::stack(op.g, std::array{re.n, im.n}, ends);
  for (size_t i = 0; i + 1 < x->ndim; ++i)
    result_order.push(static_cast<Word>(i < axis ? i : i == axis ? last : i - 1));
  result_order.push(static_cast<Word>(x->ndim) - 1);
  return both == nullptr ? both : op.g.cast(op.g.permute(both, result_order), x->dtype);
}

// A window by f(turn), where turn goes from 0 to 1.
template <typename F>
void window(Op& op, F f) {
  const int64_t size = op.scalar(0, 0);
  const auto element = static_cast<int32_t>(op.integer("output_datatype", 1));
  const DType dtype = dtype_of(op, element);
  if (op.ok() && (size < 0 || size > kMostTable))
    op.fail(ASTER_FAIL(kRANGE, "a window of %lld", static_cast<long long>(size)));
  if (!op.ok()) return;
  const double whole = static_cast<double>(op.integer("periodic", 1) != 0 ? size : size - 1);
  Vec<double> all(op.heap());
  op.fail(all.resize(static_cast<size_t>(size)));
  for (size_t i = 0; op.ok() && i < all.size(); ++i)
    all[i] = f(kTurn * static_cast<double>(i) / whole);
  if (op.ok())
    op.set(op.stored(std::span<const double>(all.data(), all.size()), std::array{size}, dtype),
           element);
}

}  // namespace

namespace build {

void dft(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const bool inverse = op.integer("inverse", 0) != 0, onesided = op.integer("onesided", 0) != 0;
  const int64_t given = op.version >= 20 ? op.scalar(2, -2) : op.integer("axis", 1);
  const size_t axis = op.axis(given, x->ndim);
  if (!op.ok()) return;
  const Word length = op.has(1)             ? op.scalar(1, 0)
                      : inverse && onesided ? 2 * (x->dim(axis) - 1)
                                            : x->dim(axis);
  op.set(transformed(op, x, axis, length, inverse, onesided));
}

void stft(Op& op) {
  const Node x = op.in(0);
  const int64_t step = op.scalar(1, 1);
  if (!op.ok()) return;
  if (x->ndim != 3) return op.fail(ASTER_FAIL(kSHAPE, "a signal %s", uop::brief(x).text));
  const Node shape = op.in_or_null(2);
  const int64_t length = op.has(3)          ? op.scalar(3, 0)
                         : shape != nullptr ? shape->count()
                                            : x->dim(1);
  if (!op.ok()) return;
  if (step < 1 || length < 1 || length > x->dim(1) ||
      (shape != nullptr && shape->count() != length))
    return op.fail(ASTER_FAIL(kSHAPE, "frames of %lld by %lld of %s",
                              static_cast<long long>(length), static_cast<long long>(step),
                              uop::brief(x).text));
  Expr frames{&op.g,
              op.g.permute(op.g.window(x, 1, length, step, 1), std::array<Word, 4>{0, 1, 2, 3})};
  if (shape != nullptr)
    frames = frames * Expr{&op.g, op.g.reshape(shape, std::array{length, Word{1}})};
  op.set(transformed(op, frames.n, 2, length, false, op.integer("onesided", 1) != 0));
}

void hann_window(Op& op) {
  window(op, [](double turn) { return 0.5 - 0.5 * std::cos(turn); });
}
void hamming_window(Op& op) {
  window(op, [](double turn) { return 25.0 / 46 - 21.0 / 46 * std::cos(turn); });
}
void blackman_window(Op& op) {
  window(op, [](double turn) { return 0.42 - 0.5 * std::cos(turn) + 0.08 * std::cos(2 * turn); });
}

void mel_weight_matrix(Op& op) {
  const int64_t bins = op.scalar(0, 0), length = op.scalar(1, 0), rate = op.scalar(2, 0);
  const double low = op.real(3, 0), high = op.real(4, 0);
  const auto element = static_cast<int32_t>(op.integer("output_datatype", 1));
  const DType dtype = dtype_of(op, element);
  if (!op.ok()) return;
  if (bins < 0 || bins > 1 << 16 || length < 0 || length > 1 << 20 || rate < 1)
    return op.fail(ASTER_FAIL(kRANGE, "%lld bins of %lld", static_cast<long long>(bins),
                              static_cast<long long>(length)));
  const Word rows = length / 2 + 1;
  if (rows * bins > kMostTable)
    return op.fail(ASTER_FAIL(kRANGE, "%lld bins of %lld", static_cast<long long>(bins),
                              static_cast<long long>(length)));
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  const auto place = [&](Word i) {
    const double hertz =
        700 * (std::pow(10, (mel(low) + static_cast<double>(i) * step) / 2595) - 1);
    const double row =
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    return dtype::float_to_int(std::clamp(row, 0.0, static_cast<double>(rows - 1)));
  };
  Vec<double> all(op.heap());
  op.fail(all.resize(static_cast<size_t>(rows * bins)));
  for (Word i = 0; i < bins && op.ok(); ++i) {
    const Word left = place(i), center = place(i + 1), right = place(i + 2);
    const auto at = [&](Word row) -> double& { return all[static_cast<size_t>(row * bins + i)]; };
    if (center == left) at(center) = 1;
    for (Word j = left; j <= center && center != left; ++j)
      at(j) = static_cast<double>(j - left) / static_cast<double>(center - left);
    for (Word j = center; j < right; ++j)
      at(j) = static_cast<double>(right - j) / static_cast<double>(right - center);
  }
  if (op.ok())
    op.set(
        op.stored(std::span<const double>(all.data(), all.size()), std::array{rows, bins}, dtype),
        element);
}

}  // namespace build
}  // namespace aster::nn::onnx
