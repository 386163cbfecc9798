#include "engine/prepare_integers.h"

#include <algorithm>

#include "engine/indexing.h"
#include "uop/composite.h"
#include "uop/expr.h"

namespace aster::engine {
namespace {

using dtype::DType;
using uop::Dims;
using uop::Expr;
using uop::Graph;
using uop::Node;
using uop::Op;
using uop::Word;
using uop::Words;

// Words are made of an operand before it is multiplied, which pays where each is read by so many
// results, and over so many terms.
constexpr int64_t kFewestResults = 8;
constexpr int64_t kFewestTerms = 8;

// An operand: whole numbers of 16 bits in int32, what they are multiplied by, and the axes along
// which that differs.
struct Quantised {
  Expr numbers;
  Expr scale;           // of the same shape; nil: 1
  int64_t most = 0;     // the greatest absolute number
  uint64_t varies = 0;  // a bit an axis
};

bool is_of_bytes(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUInt8; }

Node below_views(Node x) {
  while (x->op == Op::kExpand || x->op == Op::kReshape) x = x->src(0);
  return x;
}

// q - z, or q, as int32; 0 for anything else.
int64_t most_of(Node x) {
  const auto most_byte = [](Node byte) -> int64_t {
    if (byte->op != Op::kCast || !is_of_bytes(byte->src(0)->dtype)) return 0;
    return byte->src(0)->dtype == DType::kInt8 ? 128 : 255;
  };
  if (x->dtype != DType::kInt32) return 0;
  if (x->op != Op::kSub) return most_byte(x);
  const Node q = x->src(0), z = below_views(x->src(1));
  if (most_byte(q) == 0) return 0;
  const bool is_signed = q->src(0)->dtype == DType::kInt8;
  const Word low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  if (uop::is_const(z)) {
    const Word value = z->arg(0);
    return value < low || value > high ? 0 : std::max(high - value, value - low);
  }
  return most_byte(z) != 0 && z->src(0)->dtype == q->src(0)->dtype ? 255 : 0;
}

// Bytes that have to be computed lie in memory as such.
Expr stored_bytes(Graph& g, Node x) {
  const bool subtracts = x->op == Op::kSub;
  const Node cast = subtracts ? x->src(0) : x;
  Node bytes = cast->src(0), base = bytes;
  while (uop::is_movement(base->op) && base->nsrc == 1) base = base->src(0);
  if (base->op != Op::kParam && base->op != Op::kConst && base->op != Op::kContiguous)
    bytes = g.contiguous(bytes);
  const Expr numbers = Expr{&g, bytes}.cast(DType::kInt32);
  return subtracts ? numbers - Expr{&g, x->src(1)} : numbers;
}

// Axes of the source that an axis with a bit of the reshaped one is; false where parts of one would
// be.
bool reshape_bits(uint64_t* out, Node to) {
  const Node from = to->src(0);
  if (*out == 0) return true;
  size_t i = 0, k = 0;
  uint64_t bits = 0;
  for (;; ++i, ++k) {
    while (i < from->ndim && from->dim(i) == 1) ++i;
    while (k < to->ndim && to->dim(k) == 1) ++k;
    if (i >= from->ndim || k >= to->ndim) break;
    if (from->dim(i) != to->dim(k)) return false;
    if ((*out >> i & 1) != 0) bits |= uint64_t{1} << k;
  }
  *out = bits;
  return i >= from->ndim && k >= to->ndim;
}

// The same view of both.
bool view(Quantised* out, Graph& g, Node like) {
  const auto seen = [&](Expr x) {
    if (x.n == nullptr) return x;
    Node y = nullptr;
    if (like->op == Op::kReshape) y = g.reshape(x.n, like->shape());
    if (like->op == Op::kExpand) y = g.expand(x.n, like->shape());
    if (like->op == Op::kPermute) y = g.permute(x.n, like->arg());
    return Expr{&g, y};
  };
  uint64_t bits = out->varies;
  if (like->op == Op::kReshape && !reshape_bits(&bits, like)) return false;
  if (like->op == Op::kPermute) {
    bits = 0;
    for (size_t i = 0; i < like->ndim; ++i) bits |= (out->varies >> like->arg(i) & 1) << i;
  }
  out->varies = bits;
  out->numbers = seen(out->numbers);
  out->scale = seen(out->scale);
  return out->numbers.n != nullptr;
}

bool is_plain_view(Op op) { return op == Op::kReshape || op == Op::kExpand || op == Op::kPermute; }

bool find_quantised(Quantised* out, Graph& g, Node x, int depth = 0) {
  if (x->ndim > 60 || depth > 16) return false;
  if (is_plain_view(x->op)) return find_quantised(out, g, x->src(0), depth + 1) && view(out, g, x);
  if (x->dtype == DType::kInt32) {
    out->most = most_of(x);
    if (out->most == 0) return false;
    out->numbers = stored_bytes(g, x);
    return out->numbers.n != nullptr;
  }
  if (x->dtype != DType::kFloat32 || x->op != Op::kMul) return false;
  for (size_t i = 0; i < 2; ++i) {
    const Node numbers = x->src(i), scale = x->src(1 - i);
    if (numbers->op != Op::kCast) continue;
    Node whole = numbers->src(0);
    if (is_of_bytes(whole->dtype)) whole = g.cast(whole, DType::kInt32);
    if (whole == nullptr || (out->most = most_of(whole)) == 0) continue;
    out->numbers = stored_bytes(g, whole);
    out->scale = {&g, scale};
    const Node before = scale->op == Op::kExpand ? scale->src(0) : scale;
    for (size_t axis = 0; axis < x->ndim && !uop::is_const(scale); ++axis)
      out->varies |= static_cast<uint64_t>(before->dim(axis) > 1) << axis;
    return out->numbers.n != nullptr;
  }
  return false;
}

// The scale as it is at the first element of each axis along which it does not differ.
Expr scale_of(Graph& g, const Quantised& x) {
  if (x.scale.n == nullptr) return x.scale;
  Dims shape(x.scale.shape());
  for (size_t i = 0; i < shape.size(); ++i) {
    if ((x.varies >> i & 1) == 0) shape[i] = 1;
  }
  const Dims start(shape.size(), 0), step(shape.size(), 1);
  return {&g, g.slice(x.scale.n, start, step, shape)};
}

// Two numbers that follow each other along an axis in one word, zero behind an odd one.
Expr pairs(Graph& g, Expr x, size_t axis) {
  if (x.n == nullptr) return x;
  Dims zeros(x.ndim(), 0), odd(x.ndim(), 0), size(x.shape()), step(x.ndim(), 1);
  odd[axis] = size[axis] % 2;
  if (odd[axis] != 0) x = {&g, g.pad(x.n, zeros, odd, zeros, 0)};
  size[axis] = (size[axis] + 1) / 2;
  step[axis] = 2;
  odd[axis] = 1;
  const Expr low{&g, g.slice(x.n, zeros, step, size)}, high{&g, g.slice(x.n, odd, step, size)};
  return (low & low.like(65535)) | alu(Op::kShl, high, 16.0);
}

Expr in_memory(Expr x) { return {x.g, x.n == nullptr ? nullptr : x.g->contiguous(x.n)}; }

// As build_matmul, over pairs.
Expr matrix_sums(Graph& g, Expr a, Expr b) {
  const size_t n = a.ndim();
  const Expr x = in_memory(pairs(g, a, n - 1)), y = in_memory(pairs(g, b, n - 2));
  if (x.n == nullptr || y.n == nullptr) return {&g, nullptr};
  Dims left(x.shape()), right(y.shape()), axes, result(x.shape());
  const Word terms = left[n - 1], columns = right[n - 1];
  left[n - 1] = 1;
  left.push(terms);
  for (size_t i = 0; i < n; ++i) axes.push(static_cast<Word>(i));
  std::swap(axes[n - 1], axes[n - 2]);
  right[n - 2] = 1;
  right[n - 1] = columns;
  right.push(terms);
  result[n - 1] = columns;
  const Expr products = alu(Op::kPairDot, x.reshape(left), y.permute(axes).reshape(right));
  return reduce(Op::kAdd, products, std::array{static_cast<Word>(n)}).reshape(result);
}

// An image with the padding of a convolution.
Expr padded(Graph& g, const uop::Conv2d& o, Expr x) {
  if (x.n == nullptr) return x;
  return {&g, g.pad(x.n, std::array<Word, 4>{0, 0, o.pad[0], o.pad[2]},
                    std::array<Word, 4>{0, 0, o.pad[1], o.pad[3]}, std::array<Word, 4>{}, 0)};
}

// As build_conv2d, over words of an image and of filters, of which those along rows are so far
// apart.
Expr window_sums(Graph& g, Node call, Expr x, Expr w, Word apart) {
  if (x.n == nullptr || w.n == nullptr) return {&g, nullptr};
  const uop::Conv2d o = uop::conv2d_of(call);
  const Words ws = w.shape(), to = call->shape();
  Node cut = g.window(x.n, 2, ws[2], o.stride[0], o.dilation[0]);
  cut = g.window(cut, 4, ws[3], o.stride[1], apart);
  const Word groups = o.groups, channels = ws[1];
  const Expr wide =
      Expr{&g, cut}
          .reshape(std::array<Word, 7>{to[0], groups, channels, to[2], ws[2], to[3], ws[3]})
          .permute(std::array<Word, 7>{0, 1, 3, 5, 2, 4, 6})
          .reshape(std::array<Word, 8>{to[0], groups, 1, to[2], to[3], channels, ws[2], ws[3]});
  const Expr taps =
      w.reshape(std::array<Word, 8>{1, groups, ws[0] / groups, 1, 1, channels, ws[2], ws[3]});
  return reduce(Op::kAdd, alu(Op::kPairDot, wide, taps), std::array<Word, 3>{5, 6, 7}).reshape(to);
}

// Words of two channels.
Expr image_sums(Graph& g, Node call, Expr image, Expr filters) {
  const uop::Conv2d o = uop::conv2d_of(call);
  return window_sums(g, call, in_memory(padded(g, o, pairs(g, image, 1))),
                     in_memory(pairs(g, filters, 1)), o.dilation[1]);
}

// Whether groups have an odd number of channels, as where each channel is one.
bool is_odd(Node call) { return uop::conv2d_of(call).groups > 1 && call->src(2)->dim(1) % 2 != 0; }

// Words of two taps of a row there: of each place and the one that the next tap is at.
Expr row_sums(Graph& g, Node call, Expr image, Expr filters) {
  const uop::Conv2d o = uop::conv2d_of(call);
  Expr x = padded(g, o, image);
  if (x.n == nullptr) return x;
  const Word next = o.dilation[1], taps = filters.shape()[3];
  Dims none(4, 0), begin(4, 0), size(x.shape()), step(4, 1), behind(4, 0);
  begin[3] = next;
  size[3] -= next;
  Expr low = x, high{&g, g.slice(x.n, begin, step, size)};
  if (taps % 2 == 0) {
    low = {&g, g.slice(x.n, none, step, size)};
  } else {  // what the last tap's other half meets is 0 there
    behind[3] = next;
    high = {&g, high.n == nullptr ? nullptr : g.pad(high.n, none, behind, none, 0)};
  }
  if (low.n == nullptr || high.n == nullptr) return {&g, nullptr};
  const Expr words = (low & low.like(65535)) | alu(Op::kShl, high, 16.0);
  return window_sums(g, call, in_memory(words), in_memory(pairs(g, filters, 3)), 2 * next);
}

// Results that read an element of the first operand, and of the second, and terms of one.
struct Sizes {
  int64_t first, second, terms;
};
Sizes sizes_of(Node call) {
  const Node a = call->src(1), b = call->src(2);
  if (uop::composite_of(call) == uop::Composite::kMatmul)
    return {b->dim(b->ndim - 1u), a->dim(a->ndim - 2u), a->dim(a->ndim - 1u)};
  const int64_t taps = b->dim(1) * b->dim(2) * b->dim(3), places = call->dim(2) * call->dim(3);
  // A word of two taps is read for each pair of them.
  const int64_t read = is_odd(call) ? taps * places / (a->dim(2) * a->dim(3)) : 1;
  return {b->dim(0) / uop::conv2d_of(call).groups * read, call->dim(0) * places, taps};
}

}  // namespace

Status multiply_integers(Node* node, Graph& g, Constant constant) {
  const Node call = *node;
  const uop::Composite kind = uop::composite_of(call);
  const bool conv = kind == uop::Composite::kConv2d;
  if (!conv && kind != uop::Composite::kMatmul) return kOk;
  if (call->dtype != DType::kFloat32 && call->dtype != DType::kInt32) return kOk;
  if (call->src(1)->dtype != call->dtype || call->src(2)->dtype != call->dtype) return kOk;
  const Sizes sizes = sizes_of(call);
  if ((!constant.first && sizes.first < kFewestResults) ||
      (!constant.second && sizes.second < kFewestResults) || sizes.terms < kFewestTerms)
    return kOk;
  const bool odd = conv && is_odd(call);
  if (odd && call->src(2)->dim(3) < 2) return kOk;
  Quantised a, b;
  if (!find_quantised(&a, g, call->src(1)) || !find_quantised(&b, g, call->src(2))) return kOk;
  Word greatest = 0;
  if (!checked_mul(a.most * b.most, sizes.terms, &greatest) || greatest > INT32_MAX) return kOk;
  // Scales are the same for all terms of a sum.
  const size_t n = call->ndim;
  const uint64_t summed_a = conv ? ~uint64_t{1} : uint64_t{1} << (n - 1);
  const uint64_t summed_b = conv ? ~uint64_t{1} : uint64_t{1} << (n - 2);
  if ((a.varies & summed_a) != 0 || (b.varies & summed_b) != 0) return kOk;
  Expr out = odd    ? row_sums(g, call, a.numbers, b.numbers)
             : conv ? image_sums(g, call, a.numbers, b.numbers)
                    : matrix_sums(g, a.numbers, b.numbers);
  if (call->dtype == DType::kFloat32) {
    Expr by = scale_of(g, b);
    if (conv && by.n != nullptr) by = by.permute(std::array<Word, 4>{1, 0, 2, 3});
    out = out.cast(DType::kFloat32) * (scale_of(g, a) * by);
  }
  ASTER_TRY(need(out.n));
  *node = out.n;
  return kOk;
}

}  // namespace aster::engine
