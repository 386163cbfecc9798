// Calls of composites by name: what builders take for granted is checked here.
#include "uop/composite.h"
#include "uop/expr.h"
#include "uop/raw.h"

namespace aster::uop {
namespace {

constexpr Word kMostAttribute = Word{1} << 31;

struct Arguments {
  Graph& g;
  Nodes at;
  Words attributes;
  Node x() const { return at[0]; }
  Word word(size_t i) const { return attributes[i]; }
};

Node refuse(Composite composite, const Arguments& a, const char* needed) {
  (void)ASTER_FAIL(kARGUMENT, "Call:%s of %s: it needs %s", name(composite), brief(a.x()).text,
                   needed);
  return nullptr;
}

bool same_dtype(Nodes nodes) {
  for (Node node : nodes) {
    if (node->dtype != nodes[0]->dtype) return false;
  }
  return !dtype::is_weak(nodes[0]->dtype);
}
bool is_plain_float(Node x) { return dtype::is_float(x->dtype) && !dtype::is_weak(x->dtype); }
bool is_exact(Node x) { return dtype::is_sticky(x->dtype) || dtype::is_wide(x->dtype); }
// Attributes of windows: sizes, strides and dilations from 1, padding from 0.
bool in_range(Words words, size_t first_pad) {
  for (size_t i = 0; i < words.size(); ++i) {
    const bool pad = i >= first_pad && i < first_pad + 4;
    if (words[i] < (pad ? 0 : 1) || words[i] >= kMostAttribute) return false;
  }
  return true;
}

Node matmul(Composite composite, const Arguments& a) {
  const Node x = a.at[0], y = a.at[1];
  bool fits = same_dtype(a.at) && x->ndim >= 2 && x->ndim == y->ndim &&
              x->dim(x->ndim - 1u) == y->dim(y->ndim - 2u) &&
              is_exact(x) == (composite == Composite::kExactMatmul);
  for (size_t i = 0; fits && i + 2 < x->ndim; ++i) fits = x->dim(i) == y->dim(i);
  if (!fits) return refuse(composite, a, "two factors of one dtype, [B.., M, K] and [B.., K, N]");
  return build_matmul(a.g, x, y);
}

// The sizes of the result of a convolution; false where no window fits.
bool convolved(Word (&out)[2], Node x, const Word (&kernel)[2], const Conv2d& o) {
  for (size_t i = 0; i < 2; ++i) {
    Word pad = o.pad[2 * i] + o.pad[2 * i + 1];
    out[i] = windows_count(x->dim(2 + i), pad, kernel[i], o.stride[i], o.dilation[i]);
    if (out[i] < 1) return false;
  }
  return true;
}
Conv2d conv2d_from(Words words) {
  Conv2d o;
  o.groups = words[0];
  for (size_t i = 0; i < 2; ++i) o.stride[i] = words[1 + i];
  for (size_t i = 0; i < 4; ++i) o.pad[i] = words[3 + i];
  for (size_t i = 0; i < 2; ++i) o.dilation[i] = words[7 + i];
  return o;
}
Node conv2d(Composite composite, const Arguments& a) {
  const Node x = a.at[0], w = a.at[1];
  Word sizes[2];
  if (!in_range(a.attributes, 3) || !same_dtype(a.at) || x->ndim != 4 || w->ndim != 4 ||
      x->dim(1) % a.word(0) != 0 || x->dim(1) / a.word(0) != w->dim(1) ||
      w->dim(0) % a.word(0) != 0 ||
      !convolved(sizes, x, {w->dim(2), w->dim(3)}, conv2d_from(a.attributes))) {
    return refuse(composite, a, "x [N, G*C, H, W], w [G*O, C, kh, kw] and windows that fit");
  }
  return build_conv2d(a.g, x, w, conv2d_from(a.attributes));
}
Node conv2d_weight_grad(Composite composite, const Arguments& a) {
  const Node x = a.at[0], dy = a.at[1];
  Word sizes[2];
  if (!in_range(a.attributes, 3) || !same_dtype(a.at) || x->ndim != 4 || dy->ndim != 4 ||
      x->dim(1) % a.word(0) != 0 || dy->dim(1) % a.word(0) != 0 || x->dim(0) != dy->dim(0) ||
      !convolved(sizes, x, {a.word(9), a.word(10)}, conv2d_from(a.attributes)) ||
      sizes[0] != dy->dim(2) || sizes[1] != dy->dim(3)) {
    return refuse(composite, a,
                  "x [N, G*C, H, W] and the gradient [N, G*O, oh, ow] of its windows");
  }
  return build_conv2d_weight_grad(a.g, x, dy, conv2d_from(a.attributes), a.word(9), a.word(10));
}

Node pool2d(Composite composite, const Arguments& a) {
  const Node x = a.x();
  Pool2d o;
  for (size_t i = 0; i < 2; ++i) o.kernel[i] = a.word(i);
  for (size_t i = 0; i < 2; ++i) o.stride[i] = a.word(2 + i);
  for (size_t i = 0; i < 4; ++i) o.pad[i] = a.word(4 + i);
  for (size_t i = 0; i < 2; ++i) o.dilation[i] = a.word(8 + i);
  bool fits = x->ndim >= 2 && !dtype::is_weak(x->dtype) && in_range(a.attributes.first(10), 4);
  for (size_t i = 0; fits && i < 2; ++i) {
    fits = windows_count(x->dim(x->ndim - 2u + i), o.pad[2 * i] + o.pad[2 * i + 1], o.kernel[i],
                         o.stride[i], o.dilation[i]) >= 1;
  }
  if (composite == Composite::kMaxPool2d) {
    return fits ? build_max_pool2d(a.g, x, o) : refuse(composite, a, "windows that fit");
  }
  if (!fits || !is_plain_float(x) || (a.word(10) != 0 && a.word(10) != 1))
    return refuse(composite, a, "a float operand, windows that fit, and 0 or 1");
  return build_avg_pool2d(a.g, x, o, a.word(10) != 0);
}

Node along_axis(Composite composite, const Arguments& a) {
  if (!is_plain_float(a.x()) || a.word(0) < 0 || a.word(0) >= a.x()->ndim)
    return refuse(composite, a, "a float operand and one of its axes");
  return composite == Composite::kSoftmax ? build_softmax(a.g, a.x(), a.word(0))
                                          : build_log_softmax(a.g, a.x(), a.word(0));
}
Node logsumexp(Composite composite, const Arguments& a) {
  Word last = -1;
  bool fits = is_plain_float(a.x()) && !a.attributes.empty();
  for (Word axis : a.attributes) {
    fits &= axis > last && axis < a.x()->ndim;
    last = axis;
  }
  if (!fits) return refuse(composite, a, "a float operand and ascending axes of it");
  return build_logsumexp(a.g, a.x(), a.attributes);
}
Node layer_norm(Composite composite, const Arguments& a) {
  const Node x = a.x(), eps = a.at[1];
  if (!is_plain_float(x) || a.word(0) < 1 || a.word(0) > x->ndim || !is_const(eps) ||
      eps->ndim != 0 || eps->dtype != dtype::sum_acc(x->dtype)) {
    return refuse(composite, a, "a float operand, eps as a constant, and how many last axes");
  }
  return build_layer_norm(a.g, x, a.word(0), const_double(eps));
}
Node batch_norm(Composite composite, const Arguments& a) {
  bool fits = same_dtype(a.at) && is_plain_float(a.x()) && a.x()->ndim >= 2;
  for (size_t i = 1; fits && i < a.at.size(); ++i)
    fits = a.at[i]->ndim == 1 && a.at[i]->dim(0) == a.x()->dim(1);
  if (!fits) return refuse(composite, a, "x [N, C, ..] and weight, bias, mean, invstd [C]");
  return build_batch_norm(a.g, a.x(), a.at[1], a.at[2], a.at[3], a.at[4]);
}
Node cross_entropy(Composite composite, const Arguments& a) {
  const Node x = a.x(), labels = a.at[1];
  bool fits = is_plain_float(x) && dtype::is_int(labels->dtype) && !dtype::is_weak(labels->dtype) &&
              x->ndim == labels->ndim + 1 && (a.word(0) == 0 || a.word(0) == 1);
  for (size_t i = 0; fits && i < labels->ndim; ++i) fits = x->dim(i) == labels->dim(i);
  if (!fits) return refuse(composite, a, "logits [.., C], labels [..] of integers, and 0 or 1");
  return build_cross_entropy(a.g, x, labels, a.word(0) == 0);
}
Node sigmoid(Composite composite, const Arguments& a) {
  if (!is_plain_float(a.x())) return refuse(composite, a, "a float operand");
  return build_sigmoid(a.g, a.x(), false);
}
Node contiguous_backward(Composite, const Arguments& a) {
  return build_contiguous_backward(a.g, a.x());
}
// Of nothing: what lies between is no argument.
Node checkpoint(Composite composite, const Arguments& a) {
  if (a.word(0) != 1) return refuse(composite, a, "one input");
  return build_checkpoint(a.g, a.x(), std::array{a.x()}, 1);
}

constexpr size_t kAny = SIZE_MAX;
struct Row {
  Composite composite;
  size_t arguments, attributes;
  Node (*build)(Composite composite, const Arguments& arguments);
};
// clang-format off
constexpr Row kRows[] = {
    {Composite::kMatmul,             2, 0,    matmul},
    {Composite::kExactMatmul,        2, 0,    matmul},
    {Composite::kConv2d,             2, 9,    conv2d},
    {Composite::kConv2dWeightGrad,   2, 11,   conv2d_weight_grad},
    {Composite::kMaxPool2d,          1, 10,   pool2d},
    {Composite::kAvgPool2d,          1, 11,   pool2d},
    {Composite::kSoftmax,            1, 1,    along_axis},
    {Composite::kLogSoftmax,         1, 1,    along_axis},
    {Composite::kLogSumExp,          1, kAny, logsumexp},
    {Composite::kLayerNorm,          2, 1,    layer_norm},
    {Composite::kBatchNorm,          5, 0,    batch_norm},
    {Composite::kCrossEntropy,       2, 1,    cross_entropy},
    {Composite::kSigmoid,            1, 0,    sigmoid},
    {Composite::kContiguousBackward, 1, 0,    contiguous_backward},
    {Composite::kCheckpoint,         1, 1,    checkpoint},
};
// clang-format on
// Chosen names an object of this process.
static_assert(std::size(kRows) == static_cast<size_t>(Composite::kCount) - 1);

}  // namespace

Status build_raw_call(Node* out, Graph& g, Composite composite, Nodes arguments, Words attributes) {
  for (const Row& row : kRows) {
    if (row.composite != composite) continue;
    if (arguments.size() != row.arguments ||
        (row.attributes != kAny && attributes.size() != row.attributes)) {
      return ASTER_FAIL(kARGUMENT, "Call:%s of %zu sources and %zu arguments", name(composite),
                        arguments.size(), attributes.size());
    }
    *out = row.build(composite, Arguments{g, arguments, attributes});
    return *out != nullptr ? kOk : last_failure();
  }
  return ASTER_FAIL(kNOT_FOUND, "no composite has this name");
}

}  // namespace aster::uop
