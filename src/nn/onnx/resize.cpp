// Resampling along axes.
#include <algorithm>
#include <cmath>

#include "dtype/dtype.h"
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

// Elements of the result of one axis, and of all that each is made of.
constexpr Word kMostResult = Word{1} << 27, kMostTaps = Word{1} << 26;

// How positions of the result are those of x, and what is read there.
struct Sampling {
  std::string_view mode, coordinates, nearest;
  double cubic, outside;
  bool exclude, antialias;
};

struct Line {
  Word size, result;
  double scale, start, end;  // start and end: of tf_crop_and_resize
};

double position(const Line& line, const Sampling& s, Word i) {
  const auto x = static_cast<double>(i), in = static_cast<double>(line.size),
             out = static_cast<double>(line.result);
  if (s.coordinates == "asymmetric") return x / line.scale;
  if (s.coordinates == "align_corners") {
    // By what the scale says, though the result is whole.
    const double whole = line.scale * in;
    return line.result == 1 || whole <= 1 ? 0 : x * (in - 1) / (whole - 1);
  }
  if (s.coordinates == "pytorch_half_pixel" && line.result == 1) return 0;
  if (s.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / line.scale;
  if (s.coordinates == "tf_crop_and_resize") {
    if (line.result == 1) return 0.5 * (line.start + line.end) * (in - 1);
    return line.start * (in - 1) + x * (line.end - line.start) * (in - 1) / (out - 1);
  }
  const double half = (x + 0.5) / line.scale - 0.5;
  if (s.coordinates != "half_pixel_symmetric") return half;
  return half + in / 2 * (1 - out / (line.scale * in));
}

// A number without a part behind the point; what is far from every axis is somewhere there, and NaN
// the first element.
Word whole_place(double x) {
  constexpr double kFar = 1e15;
  return dtype::float_to_int(std::clamp(x, -kFar, kFar));
}

Word nearest_place(double x, std::string_view how) {
  const double y = how == "floor"               ? std::floor(x)
                   : how == "ceil"              ? std::ceil(x)
                   : how == "round_prefer_ceil" ? std::floor(x + 0.5)
                                                : std::ceil(x - 0.5);
  return whole_place(y);
}

double cubic_weight(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Weights and places of what one element of the result is made of.
class Taps {
 public:
  Taps(Op& op, const Line& line, const Sampling& s)
      : line_(line), s_(s), places(op.heap()), weights(op.heap()) {
    const bool nearest = s.mode == "nearest", cubic = s.mode == "cubic";
    const double reach = cubic ? 2 : 1;
    shrink_ = s.antialias ? std::min(line.scale, 1.0) : 1;
    first_ = nearest ? 0 : whole_place(std::floor(-reach / shrink_)) + 1;
    count = nearest ? 1 : 2 - 2 * first_;
    // Each tap is a part of the graph.
    op.fail(op.run.spend(static_cast<uint64_t>(count)));
    if (!nearest && count > kMostTaps / std::max(line.result, Word{1}))
      op.fail(ASTER_FAIL(kRANGE, "%lld elements of %lld each", static_cast<long long>(line.result),
                         static_cast<long long>(count)));
    if (!op.ok()) return;
    op.fail(places.resize(static_cast<size_t>(line.result * count)));
    op.fail(weights.resize(static_cast<size_t>(line.result * count)));
    for (Word i = 0; i < line.result && op.ok(); ++i) fill(i, nearest, cubic);
  }

 private:
  void fill(Word i, bool nearest, bool cubic) {
    const double x = position(line_, s_, i), last = static_cast<double>(line_.size - 1);
    const double whole = std::floor(x);
    double all = 0;
    const bool beyond = s_.coordinates == "tf_crop_and_resize" && (x < 0 || x > last);
    outside = outside || beyond;
    for (Word k = 0; k < count; ++k) {
      const Word at = nearest ? nearest_place(x, s_.nearest) : whole_place(whole) + first_ + k;
      const double far = (static_cast<double>(first_ + k) - (x - whole)) * shrink_;
      double w = nearest ? 1
                 : cubic ? cubic_weight(far, s_.cubic)
                         : std::max(1 - std::fabs(far), 0.0);
      if (s_.exclude && (at < 0 || at >= line_.size)) w = 0;
      all += w;
      const auto place = static_cast<size_t>(k * line_.result + i);
      places[place] = std::clamp<Word>(at, 0, line_.size - 1);
      weights[place] = w;
    }
    for (Word k = 0; k < count; ++k) {
      double& w = weights[static_cast<size_t>(k * line_.result + i)];
      w = beyond ? 0 : all == 0 ? w : w / all;
    }
  }
  const Line& line_;
  const Sampling& s_;
  double shrink_ = 1;
  Word first_ = 0;

 public:
  Word count = 1;
  bool outside = false;
  Vec<Word> places;  // tap by tap
  Vec<double> weights;
};

// x resampled along one axis; within, where elements beyond x are asked for: what is not.
Expr resample(Op& op, Expr x, size_t axis, const Line& line, const Sampling& s, Expr* within) {
  const Taps taps(op, line, s);
  if (!op.ok()) return {&op.g, nullptr};
  Dims column(x.ndim(), 1);
  column[axis] = line.result;
  const auto n = static_cast<size_t>(line.result);
  Expr y{&op.g, nullptr}, inside{&op.g, nullptr};
  for (Word k = 0; k < taps.count && op.ok(); ++k) {
    const size_t from = static_cast<size_t>(k) * n;
    const Node at =
        op.stored(Words(taps.places.data() + from, n), std::array{line.result}, DType::kInt64);
    const Expr read{&op.g, take(op, x.n, axis, at)};
    if (s.mode == "nearest" && !taps.outside) return read;
    const Expr w{&op.g, op.stored(std::span<const double>(taps.weights.data() + from, n), column,
                                  x.dtype())};
    y = k == 0 ? read * w : y + read * w;
    inside = k == 0 ? uop::abs(w) : inside + uop::abs(w);
  }
  if (taps.outside) {
    const Expr here = inside > 0.0;
    *within = within->n == nullptr ? here : *within & here;
  }
  return y;
}

struct Request {
  Vec<Line> lines;
  Dims axes;
};

void resized(Op& op, const Request& request, const Sampling& s) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const bool nearest = s.mode == "nearest", floats = dtype::is_float(x->dtype);
  const DType wide =
      nearest || (floats && !dtype::is_narrow_float(x->dtype)) ? x->dtype : DType::kFloat32;
  Expr y = Expr{&op.g, x}.cast(wide), within{&op.g, nullptr};
  for (size_t i = 0; i < request.axes.size() && op.ok(); ++i) {
    const Line& line = request.lines[i];
    if (line.size == line.result && line.scale == 1 && s.coordinates != "tf_crop_and_resize")
      continue;
    if (line.size == 0 || line.result < 0)
      return op.fail(ASTER_FAIL(kSHAPE, "an axis of %lld resized to %lld",
                                static_cast<long long>(line.size),
                                static_cast<long long>(line.result)));
    y = resample(op, y, static_cast<size_t>(request.axes[i]), line, s, &within);
  }
  if (within.n != nullptr) y = uop::where(within, y, y.like(s.outside));
  if (!floats && !nearest && y.n != nullptr) {
    y = alu(uop::Op::kRound, y);
    y = uop::min(uop::max(y, static_cast<double>(dtype::min_int(x->dtype))),
                 static_cast<double>(dtype::max_int(x->dtype)));
  }
  op.set(y.cast(x->dtype));
}

// Sizes by scales, or scales by sizes.
void plan(Op& op, Request* request, std::span<const double> scales, Words sizes,
          std::span<const double> roi) {
  const Node x = op.in(0);
  const Words given = op.integers("axes");
  if (!op.ok()) return;
  const size_t count = given.empty() ? x->ndim : given.size();
  if ((scales.empty() ? sizes.size() : scales.size()) != count ||
      (!roi.empty() && roi.size() != 2 * count)) {
    return op.fail(ASTER_FAIL(kSHAPE, "%zu scales and %zu sizes of %zu axes", scales.size(),
                              sizes.size(), count));
  }
  for (size_t i = 0; i < count && op.ok(); ++i) {
    const size_t axis = given.empty() ? i : op.axis(given[i], x->ndim);
    if (!op.ok()) return;
    Line line{x->dim(axis), 0, 1, roi.empty() ? 0 : roi[i], roi.empty() ? 1 : roi[count + i]};
    if (!scales.empty()) {
      line.scale = scales[i];
      line.result = whole_place(std::floor(static_cast<double>(line.size) * scales[i]));
    } else {
      line.result = sizes[i];
      line.scale = static_cast<double>(sizes[i]) / static_cast<double>(line.size);
    }
    request->axes.push(static_cast<Word>(axis));
    op.fail(request->lines.push(line));
  }
  const std::string_view policy = op.text("keep_aspect_ratio_policy", "stretch");
  if (!op.ok()) return;
  double scale = request->lines.empty() ? 1 : request->lines[0].scale;
  for (const Line& line : request->lines)
    scale = policy == "not_larger" ? std::min(scale, line.scale) : std::max(scale, line.scale);
  for (Line& line : request->lines) {
    if (!sizes.empty() && policy != "stretch") {
      line.scale = scale;
      line.result = whole_place(std::floor(scale * static_cast<double>(line.size) + 0.5));
    }
    if (!(line.scale > 0) || line.result > kMostResult)
      return op.fail(ASTER_FAIL(kRANGE, "a scale of %g", line.scale));
  }
}

Sampling sampling_of(Op& op) {
  Sampling s{op.text("mode", "nearest"),
             op.text("coordinate_transformation_mode", "half_pixel"),
             op.text("nearest_mode", "round_prefer_floor"),
             op.number("cubic_coeff_a", -0.75),
             op.number("extrapolation_value", 0),
             op.integer("exclude_outside", 0) != 0,
             op.integer("antialias", 0) != 0};
  if (op.version < 11) {
    s.coordinates = "asymmetric";
    s.nearest = "floor";
  }
  if (op.version < 7 && s.mode == "bilinear") s.mode = "linear";
  if (s.mode != "nearest" && s.mode != "linear" && s.mode != "cubic")
    op.fail(ASTER_FAIL(kUNSUPPORTED, "mode '%.*s'",
                       static_cast<int>(std::min<size_t>(s.mode.size(), 50)), s.mode.data()));
  return s;
}

}  // namespace

namespace build {

void resize(Op& op) {
  const Sampling s = sampling_of(op);
  Request request{Vec<Line>(op.heap()), {}};
  const bool old = op.version < 11;
  const size_t scales_at = old ? 1 : 2;
  std::span<const double> scales, roi;
  Words sizes;
  if (op.has(scales_at)) scales = op.reals(scales_at);
  if (!old && op.has(3) && scales.empty()) sizes = op.ints(3);
  if (!old && op.has(1) && s.coordinates == "tf_crop_and_resize") roi = op.reals(1);
  plan(op, &request, scales, sizes, roi);
  if (op.ok()) resized(op, request, s);
}

void upsample(Op& op) {
  const Sampling s = sampling_of(op);
  Request request{Vec<Line>(op.heap()), {}};
  const std::array two = {1.0, 1.0, op.number("height_scale", 0), op.number("width_scale", 0)};
  plan(op, &request,
       op.version >= 9   ? op.reals(1)
       : op.version >= 7 ? op.numbers("scales")
                         : std::span<const double>(two),
       {}, {});
  if (op.ok()) resized(op, request, s);
}

}  // namespace build
}  // namespace aster::nn::onnx
