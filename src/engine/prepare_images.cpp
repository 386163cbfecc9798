#include "engine/prepare_images.h"

#include <algorithm>

#include "engine/indexing.h"
#include "uop/composite.h"
#include "uop/expr.h"

namespace aster::engine {
namespace {

using uop::Dims;
using uop::Graph;
using uop::Node;
using uop::Op;
using uop::Word;

// Products of an element of an image, with each filter's weights, that cost less under conditions
// than a padded copy does.
constexpr int64_t kFewProducts = 9;

// Of one axis of an image with zeros between its pixels.
struct Spread {
  Word stride;          // from a pixel to the next
  Word before;          // zeros before the first one
  Word pixels, kernel;  // how many
  Word places;          // results of a phase
};
// Results r, r + stride, r + 2 stride, ..: a convolution of the pixels by every stride-th weight.
struct Phase {
  Word first, count;  // of the weights
  Word begin;         // the pixel that the first result begins at; negative: zeros before
};

Phase phase_of(const Spread& s, Word r) {
  const Word first = ((s.before - r) % s.stride + s.stride) % s.stride;
  const Word count = first < s.kernel ? (s.kernel - first + s.stride - 1) / s.stride : 0;
  return {first, count, -((s.before - r - first) / s.stride)};
}

// What all phases read: zeros around the pixels, as few as will do.
struct Border {
  Word before = 0, after = 0;
};
Border border_of(const Spread& s) {
  Border out;
  for (Word r = 0; r < s.stride; ++r) {
    const Phase p = phase_of(s, r);
    if (p.count == 0) continue;
    out.before = std::max(out.before, -p.begin);
    out.after = std::max(out.after, p.begin + s.places + p.count - 1 - s.pixels);
  }
  return out;
}

// Whether a convolution's image has zeros between its pixels, and nothing else in its way.
bool spreads(Node call) {
  const Node x = call->src(1);
  const uop::Conv2d o = uop::conv2d_of(call);
  if (x->op != Op::kPad || x->arg(x->narg - 1u) != 0 || x->count() < kPaddedFrom) return false;
  Word strides = 1;
  for (size_t i = 0; i < 4; ++i) {
    const Word interior = x->arg(3 * i + 2);
    if (i < 2 && (x->arg(3 * i) != 0 || x->arg(3 * i + 1) != 0 || interior != 0)) return false;
    if (i >= 2 && (o.stride[i - 2] != 1 || (interior > 0 && o.dilation[i - 2] != 1))) return false;
    strides *= interior + 1;
  }
  constexpr Word kMostPhases = 16;
  return strides > 1 && strides <= kMostPhases && x->src(0)->count() > 0 && call->count() > 0;
}

}  // namespace

Status store_image(Node* call, Graph& g) {
  Node x = (*call)->src(1), other = (*call)->src(2);
  const bool forward = uop::composite_of(*call) == uop::Composite::kConv2d;
  const Node filters = forward ? other : *call, out = forward ? *call : other;
  const Word kh = filters->dim(2), kw = filters->dim(3);
  uop::Conv2d o = uop::conv2d_of(*call);
  if (x->count() < kPaddedFrom || filters->dim(0) / o.groups * kh * kw <= kFewProducts) return kOk;
  const bool pads = std::ranges::any_of(o.pad, [](Word pad) { return pad > 0; });
  if (kh * kw == 1 && o.stride[0] * o.stride[1] > 1) {
    if (pads) return kOk;
    x = g.slice(x, std::array<Word, 4>{}, std::array{Word{1}, Word{1}, o.stride[0], o.stride[1]},
                std::array{x->dim(0), x->dim(1), out->dim(2), out->dim(3)});
    std::ranges::fill(o.stride, 1);
  } else if (pads) {
    x = g.pad(x, std::array<Word, 4>{0, 0, o.pad[0], o.pad[2]},
              std::array<Word, 4>{0, 0, o.pad[1], o.pad[3]}, std::array<Word, 4>{}, 0);
    std::ranges::fill(o.pad, 0);
  } else {
    return kOk;
  }
  ASTER_TRY(need(x));
  x = g.contiguous(x);
  *call = forward ? uop::build_conv2d(g, x, other, o)
                  : uop::build_conv2d_weight_grad(g, x, other, o, kh, kw);
  return need(*call);
}

Status split_phases(Node* call, Graph& g) {
  if (!spreads(*call)) return kOk;
  const Node x = (*call)->src(1), w = (*call)->src(2), pixels = x->src(0), out = *call;
  const uop::Conv2d o = uop::conv2d_of(out);
  Spread axis[2];
  Dims before(4, 0), after(4, 0);
  for (size_t i = 0; i < 2; ++i) {
    const Word stride = x->arg(3 * (i + 2) + 2) + 1;
    axis[i] = {stride, x->arg(3 * (i + 2)) + o.pad[2 * i], pixels->dim(2 + i), w->dim(2 + i),
               (out->dim(2 + i) + stride - 1) / stride};
    const Border border = border_of(axis[i]);
    before[2 + i] = border.before;
    after[2 + i] = border.after;
  }
  const Node image = g.contiguous(g.pad(pixels, before, after, Dims(4, 0), 0));
  ASTER_TRY(need(image));
  const std::array<Word, 6> apart = {out->dim(0), out->dim(1),    axis[0].places,
                                     1,           axis[1].places, 1};
  Vec<Node> rows(g.memory()), columns(g.memory());
  for (Word ry = 0; ry < axis[0].stride; ++ry) {
    columns.clear();
    for (Word rx = 0; rx < axis[1].stride; ++rx) {
      const Phase at[2] = {phase_of(axis[0], ry), phase_of(axis[1], rx)};
      Node part = g.constant_word(out->dtype, 0, apart);
      if (at[0].count > 0 && at[1].count > 0) {
        Dims start(4, 0), size(image->shape()), first(4, 0), step(4, 1), count(w->shape());
        for (size_t i = 0; i < 2; ++i) {
          start[2 + i] = before[2 + i] + at[i].begin;
          size[2 + i] = axis[i].places + at[i].count - 1;
          first[2 + i] = at[i].first;
          step[2 + i] = axis[i].stride;
          count[2 + i] = at[i].count;
        }
        uop::Conv2d dense = o;
        std::ranges::fill(dense.pad, 0);
        part = uop::build_conv2d(g, g.slice(image, start, Dims(4, 1), size),
                                 g.slice(w, first, step, count), dense);
        part = g.reshape(g.contiguous(part), apart);
      }
      ASTER_TRY(need(part));
      ASTER_TRY(columns.push(part));
    }
    ASTER_TRY(rows.push(g.cat({columns.data(), columns.size()}, 5)));
    ASTER_TRY(need(rows.back()));
  }
  const Node all = g.cat({rows.data(), rows.size()}, 3);
  Dims whole(out->shape());
  for (size_t i = 0; i < 2; ++i) whole[2 + i] = axis[i].places * axis[i].stride;
  *call = g.slice(g.reshape(all, whole), Dims(4, 0), Dims(4, 1), out->shape());
  return need(*call);
}

Status exchange_images(Node* call, Graph& g) {
  const uop::Conv2d o = uop::conv2d_of(*call);
  if (!spreads(*call) || o.groups != 1) return kOk;
  const Node x = (*call)->src(1), pixels = x->src(0);
  Node image = (*call)->src(2);
  uop::Conv2d steps;
  Dims start(4, 0), size(image->shape());
  for (size_t i = 0; i < 2; ++i) {
    const Word kernel = (*call)->dim(2 + i), last = kernel - 1;
    const Word stride = x->arg(3 * (i + 2) + 2) + 1;
    if (o.dilation[i] != 1) return kOk;
    // The windows begin here, and end there, in rows or columns of the image.
    const Word begin = x->arg(3 * (i + 2)) + o.pad[2 * i] - last;
    const Word end = begin + stride * (pixels->dim(2 + i) - 1) + kernel;
    const Word from = std::max<Word>(begin, 0), to = std::min<Word>(end, image->dim(2 + i));
    if (from >= to) return kOk;
    start[2 + i] = from;
    size[2 + i] = to - from;
    steps.stride[i] = stride;
    steps.pad[2 * i] = from - begin;
    steps.pad[2 * i + 1] = end - to;
  }
  image = g.slice(image, start, Dims(4, 1), size);
  ASTER_TRY(need(image));
  const Node turned = uop::build_conv2d_weight_grad(g, image, pixels, steps, (*call)->dim(2),
                                                    (*call)->dim(3));  // [C, O, kh, kw]
  *call =
      g.flip(g.permute(turned, std::array<Word, 4>{1, 0, 2, 3}), std::array<Word, 4>{0, 0, 1, 1});
  return need(*call);
}

}  // namespace aster::engine
