// Convolutions of any rank, all of them through the composite on images: a missing axis is one of
// size 1, the windows of axes beyond the last two become images and channels.
#include <algorithm>
#include <array>

#include "aster_ml/spatial.h"
#include "tensor/sized.h"
#include "tensor/spatial.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::brief_shape;
using uop::Dims;

Node nil(Status) { return nullptr; }

Status list_argument(Dims* out, const char* what, const char* name, size_t rank,
                     const int64_t* given, Words fallback, Word least) {
  *out = given == nullptr ? Dims(fallback) : Dims(Words(given, rank));
  for (size_t i = 0; i < rank; ++i) {
    if ((*out)[i] < least || (*out)[i] > (int64_t{1} << 48) || (*out)[i] < -(int64_t{1} << 48)) {
      return ASTER_FAIL(kRANGE, "%s: %s %s", what, name, brief_shape(*out).text);
    }
  }
  return kOk;
}

// Windows on the axes before the last two: their positions become images, their elements channels.
// x [N, C, d.., H, W] -> [N * o.., C * k.., H, W]; positions are told in o.
Node fold_axes(Graph& g, Node x, const Windows& w, Dims* o) {
  const size_t lead = w.rank - 2;
  Dims before(x->ndim, 0), after(x->ndim, 0), interior(x->ndim, 0);
  for (size_t i = 0; i < lead; ++i) {
    before[2 + i] = w.before[i];
    after[2 + i] = w.after[i];
  }
  x = g.pad(x, before, after, interior, 0);
  for (size_t i = 0; i < lead; ++i) {
    x = g.window(x, static_cast<int64_t>(2 + 2 * i), w.kernel[i], w.stride[i], w.dilation[i]);
  }
  if (x == nullptr) return nullptr;
  Dims order(1, 0), shape;
  Word images = x->dim(0), channels = x->dim(1);
  for (size_t i = 0; i < lead; ++i) {
    order.push(static_cast<Word>(2 + 2 * i));
    o->push(x->dim(2 + 2 * i));
    images *= x->dim(2 + 2 * i);
    channels *= w.kernel[i];
  }
  order.push(1);
  for (size_t i = 0; i < lead; ++i) order.push(static_cast<Word>(3 + 2 * i));
  order.push(static_cast<Word>(x->ndim) - 2);
  order.push(static_cast<Word>(x->ndim) - 1);
  const std::array image{images, channels, x->dim(x->ndim - 2u), x->dim(x->ndim - 1u)};
  return g.reshape(g.permute(x, order), image);
}

// The inverse for a result [N * o.., C, H, W] -> [N, C, o.., H, W].
Node unfold_axes(Graph& g, Node y, Word images, const Dims& o) {
  if (y == nullptr) return nullptr;
  Dims shape(1, images), order(1, 0);
  for (size_t i = 0; i < o.size(); ++i) shape.push(o[i]);
  for (size_t i = 1; i < 4; ++i) shape.push(y->dim(i));
  order.push(static_cast<Word>(1 + o.size()));
  for (size_t i = 0; i < o.size(); ++i) order.push(static_cast<Word>(1 + i));
  order.push(static_cast<Word>(2 + o.size()));
  order.push(static_cast<Word>(3 + o.size()));
  return g.permute(g.reshape(y, shape), order);
}

// x [N, C, ...] with axes of size 1 put in after the second until it has two more.
Node as_image(Graph& g, Node x) {
  Dims shape(x->shape().first(2));
  for (size_t i = x->ndim; i < 4; ++i) shape.push(1);
  for (size_t i = 2; i < x->ndim; ++i) shape.push(x->dim(i));
  return g.reshape(x, shape);
}

Windows as_image(const Windows& w) {
  Windows image = w;
  const size_t missing = w.rank < 2 ? 2 - w.rank : 0;
  const auto lead = [&](Dims* list, Word fill) {
    Dims longer(missing, fill);
    for (size_t i = 0; i < w.rank; ++i) longer.push((*list)[i]);
    *list = longer;
  };
  image.rank = w.rank + missing;
  lead(&image.kernel, 1);
  lead(&image.stride, 1);
  lead(&image.dilation, 1);
  lead(&image.before, 0);
  lead(&image.after, 0);
  return image;
}

// What both convolutions take, checked.
struct Operands {
  Node x, weight, bias;
  Word groups;
  DType compute, result;  // summed in, and of the result
};

Status plan_operands(Operands* o, const Graph& graph, const char* what, bool transposed,
                     const aster_ml_conv_options& options) {
  o->groups = options.groups == 0 ? 1 : options.groups;
  const Node x = o->x, w = o->weight;
  if (o->groups < 1) return ASTER_FAIL(kRANGE, "%s in %d groups", what, options.groups);
  const Word g = o->groups;
  bool fits = w->ndim >= 2 && x->ndim == w->ndim && x->dim(1) % g == 0;
  fits = fits &&
         (transposed ? x->dim(1) == w->dim(0) : x->dim(1) / g == w->dim(1) && w->dim(0) % g == 0);
  Word filters = 0;
  if (fits && !transposed) filters = w->dim(0);
  if (fits && transposed) fits = checked_mul(g, w->dim(1), &filters);
  if (fits && o->bias != nullptr) fits = o->bias->ndim == 1 && o->bias->dim(0) == filters;
  if (!fits) {
    return ASTER_FAIL(kSHAPE, "%s of %s with weight %s, bias %s, %lld groups", what, brief(x).text,
                      brief(w).text, o->bias == nullptr ? "none" : brief(o->bias).text,
                      static_cast<long long>(g));
  }
  const DType common = graph.strong(dtype::least_upper(x->dtype, w->dtype));
  ASTER_TRY(dtype_argument(&o->result, options.dtype, DType::kNone));
  o->compute =
      o->result == DType::kNone ? common : graph.strong(dtype::least_upper(common, o->result));
  if (o->compute == DType::kNone)
    return ASTER_FAIL(kDTYPE, "%s of %s with weight %s in %s", what, brief(x).text, brief(w).text,
                      dtype::name(o->result));
  return kOk;
}

Windows windows_of(const char* what, Node weight) {
  Windows w;
  w.what = what;
  w.rank = weight->ndim - 2u;
  w.kernel = Dims(weight->shape().last(w.rank));
  return w;
}

// The convolution of checked operands: cast, cut, convolved, cast back, bias added.
Node convolve(Graph& g, const Operands& o, Node x, Node weight, Windows w) {
  x = cut_padding(g, x, &w);
  if (x == nullptr || weight == nullptr || !check_windows(w, x).ok()) return nullptr;
  Node y = conv(g, x, weight, w, o.groups);
  if (o.result != DType::kNone) y = cast(g, y, o.result);
  if (o.bias == nullptr || y == nullptr) return y;
  Dims column(w.rank + 1, 1);
  column[0] = o.bias->dim(0);
  return binary(g, y, reshape(g, o.bias, column), ops::add);
}

// weight [G * C, O, k..] of a transposed convolution -> [G * O, C, k..], elements reversed.
Node turned_weight(Graph& g, Node weight, Word groups) {
  if (weight == nullptr) return nullptr;
  const Words s = weight->shape();
  Dims apart(1, groups), order(1, 0), shape(1, groups * s[1]), mask(weight->ndim, 1);
  apart.push(s[0] / groups);
  shape.push(s[0] / groups);
  apart.push(s[1]);
  order.push(2);
  order.push(1);
  for (size_t i = 2; i < s.size(); ++i) {
    apart.push(s[i]);
    order.push(static_cast<Word>(i + 1));
    shape.push(s[i]);
  }
  mask[0] = mask[1] = 0;
  return g.flip(g.reshape(g.permute(g.reshape(weight, apart), order), shape), mask);
}

// x with stride - 1 zeros between neighbours, and the windows of the convolution that remains.
Node spread(Graph& g, Node x, Windows* w, const Dims& output_padding) {
  Dims none(x->ndim, 0), interior(x->ndim, 0);
  for (size_t i = 0; i < w->rank; ++i) {
    const Word reach = w->span(i) - 1;
    interior[2 + i] = w->stride[i] - 1;
    w->before[i] = reach - w->before[i];
    w->after[i] = reach - w->after[i] + output_padding[i];
    w->stride[i] = 1;
  }
  return g.pad(x, none, none, interior, 0);
}

}  // namespace

Status plan_windows(Windows* w, const WindowLists& lists, Words default_stride) {
  const Dims one(w->rank, 1), zero(w->rank, 0);
  constexpr Word kAny = INT64_MIN;
  ASTER_TRY(list_argument(&w->kernel, w->what, "kernel", w->rank, nullptr, w->kernel, 1));
  ASTER_TRY(list_argument(&w->stride, w->what, "stride", w->rank, lists.stride, default_stride, 1));
  ASTER_TRY(list_argument(&w->dilation, w->what, "dilation", w->rank, lists.dilation, one, 1));
  ASTER_TRY(
      list_argument(&w->before, w->what, "padding before", w->rank, lists.before, zero, kAny));
  ASTER_TRY(list_argument(&w->after, w->what, "padding after", w->rank, lists.after, zero, kAny));
  for (size_t i = 0; i < w->rank; ++i) {
    int64_t reach;
    if (!checked_mul(w->dilation[i], w->kernel[i], &reach) || reach > (int64_t{1} << 60)) {
      return ASTER_FAIL(kRANGE, "%s: kernel %s, dilation %s", w->what, brief_shape(w->kernel).text,
                        brief_shape(w->dilation).text);
    }
  }
  return kOk;
}

Node cut_padding(Graph& g, Node x, Windows* w) {
  if (x == nullptr) return nullptr;
  Dims begin(x->ndim, 0), end(x->shape());
  for (size_t i = 0; i < w->rank; ++i) {
    const size_t axis = x->ndim - w->rank + i;
    Word &before = w->before[i], &after = w->after[i];
    // What x is too short for is cut off the padding on the other side.
    const Word lead = std::max<Word>(-before, 0), trail = std::max<Word>(-after, 0);
    before = std::max<Word>(before, 0) - std::max<Word>(trail - end[axis], 0);
    after = std::max<Word>(after, 0) - std::max<Word>(lead - end[axis], 0);
    begin[axis] = std::min(lead, end[axis]);
    end[axis] -= std::min(trail, end[axis]);
    if (before < 0 || after < 0 || begin[axis] > end[axis]) {
      return nil(ASTER_FAIL(kSHAPE, "%s of %s: the padding cuts off more than there is", w->what,
                            brief(x).text));
    }
  }
  return shrink(g, x, begin, end);
}

void round_up(Windows* w, Node x) {
  for (size_t i = 0; i < w->rank; ++i) {
    const Word size = x->dim(x->ndim - w->rank + i), stride = w->stride[i], span = w->span(i);
    const Word room = size + w->before[i] + w->after[i] - span;
    if (room < 0) continue;
    // The last window begins in x or in the padding before it.
    const Word begin = std::max<Word>(w->before[i] + size - 1, 0);
    const Word last = std::min((room + stride - 1) / stride, begin / stride);
    w->after[i] = std::max<Word>(last * stride + span - size - w->before[i], 0);
  }
}

Status check_windows(const Windows& w, Node x) {
  for (size_t i = 0; i < w.rank; ++i) {
    const Word size = x->dim(x->ndim - w.rank + i);
    if (uop::windows_count(size, w.before[i] + w.after[i], w.kernel[i], w.stride[i],
                           w.dilation[i]) < 1) {
      return ASTER_FAIL(
          kSHAPE, "%s of %s: no window of %s, dilation %s, padding %s before, %s after", w.what,
          brief(x).text, brief_shape(w.kernel).text, brief_shape(w.dilation).text,
          brief_shape(w.before).text, brief_shape(w.after).text);
    }
  }
  return kOk;
}

Node cut_windows(Graph& g, Node x, const Windows& w, Word fill) {
  if (x == nullptr) return nullptr;
  const size_t lead = x->ndim - w.rank;
  Dims before(lead, 0), after(lead, 0), interior(x->ndim, 0);
  for (size_t i = 0; i < w.rank; ++i) {
    before.push(w.before[i]);
    after.push(w.after[i]);
  }
  x = g.pad(x, before, after, interior, fill);
  for (size_t i = 0; i < w.rank; ++i) {
    x = g.window(x, static_cast<int64_t>(lead + 2 * i), w.kernel[i], w.stride[i], w.dilation[i]);
  }
  return x;
}

Dims kernel_axes(size_t ndim, size_t rank) {
  Dims axes;
  for (size_t i = 0; i < rank; ++i) axes.push(static_cast<Word>(ndim - 2 * rank + 2 * i + 1));
  return axes;
}

Node conv(Graph& g, Node x, Node weight, const Windows& given, Word groups) {
  if (x == nullptr || weight == nullptr) return nullptr;
  const Windows w = as_image(given);
  const size_t lead = w.rank - 2;
  const Word images = x->dim(0), filters = weight->dim(0);
  x = as_image(g, x);
  weight = as_image(g, weight);
  if (x == nullptr || weight == nullptr) return nullptr;
  Dims positions;
  if (lead > 0) {
    Word channels = weight->dim(1);
    for (size_t i = 0; i < lead; ++i) channels *= w.kernel[i];
    x = fold_axes(g, x, w, &positions);
    weight = g.reshape(weight, std::array{filters, channels, w.kernel[lead], w.kernel[lead + 1]});
  }
  uop::Conv2d image;
  image.groups = groups;
  for (size_t i = 0; i < 2; ++i) {
    image.stride[i] = w.stride[lead + i];
    image.dilation[i] = w.dilation[lead + i];
    image.pad[2 * i] = w.before[lead + i];
    image.pad[2 * i + 1] = w.after[lead + i];
  }
  Node y = build_conv2d(g, x, weight, image);
  if (lead > 0) return unfold_axes(g, y, images, positions);
  if (y == nullptr || given.rank == w.rank) return y;
  Dims shape(y->shape().first(2));
  for (size_t i = 0; i < given.rank; ++i) shape.push(y->dim(4 - given.rank + i));
  return g.reshape(y, shape);
}

}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::Status;

int32_t aster_ml_lazy_conv(aster_ml_lazy* out, const aster_ml_lazy* x, const aster_ml_lazy* weight,
                           const aster_ml_lazy* bias, const aster_ml_conv_options* options) {
  ASTER_API();
  Build build(out, {x, weight}, {bias});
  ASTER_TRY(build.status());
  aster_ml_conv_options o;
  ASTER_TRY(options_argument(&o, options));
  Operands operands{node(x), node(weight), node(bias), 1, DType::kNone, DType::kNone};
  ASTER_TRY(plan_operands(&operands, build.graph(), "conv", false, o));
  Windows w = windows_of("conv", operands.weight);
  const aster::uop::Dims one(w.rank, 1);
  ASTER_TRY(plan_windows(&w, {o.stride, o.dilation, o.before, o.after}, one));
  if (!sized::bound_among(build, x, 1, 1))
    ASTER_TRY(sized::windows(build, x, w, sized::Fill::kZero, false));
  Graph& g = build.graph();
  return build.finish_beside(convolve(g, operands, cast(g, node(x), operands.compute),
                                      cast(g, operands.weight, operands.compute), w));
}

int32_t aster_ml_lazy_conv_transpose(aster_ml_lazy* out, const aster_ml_lazy* x,
                                     const aster_ml_lazy* weight, const aster_ml_lazy* bias,
                                     const aster_ml_conv_options* options) {
  ASTER_API();
  Build build(out, {x, weight}, {bias});
  ASTER_TRY(build.status());
  aster_ml_conv_options o;
  ASTER_TRY(options_argument(&o, options));
  Operands operands{node(x), node(weight), node(bias), 1, DType::kNone, DType::kNone};
  ASTER_TRY(plan_operands(&operands, build.graph(), "conv_transpose", true, o));
  Windows w = windows_of("conv_transpose", operands.weight);
  const aster::uop::Dims one(w.rank, 1), zero(w.rank, 0);
  aster::uop::Dims more;
  ASTER_TRY(plan_windows(&w, {o.stride, o.dilation, o.before, o.after}, one));
  ASTER_TRY(list_argument(&more, w.what, "output_padding", w.rank, o.output_padding, zero, 0));
  Graph& g = build.graph();
  const Node weights = cast(g, operands.weight, operands.compute);
  if (!sized::bound_among(build, x, 1, 1)) ASTER_TRY(sized::windows_back(build, x, w, more));
  Node apart = cast(g, node(x), operands.compute);
  if (apart != nullptr) apart = spread(g, apart, &w, more);
  return build.finish_beside(
      convolve(g, operands, apart, turned_weight(g, weights, operands.groups), w));
}
