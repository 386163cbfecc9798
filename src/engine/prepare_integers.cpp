#include "engine/prepare_integers.h"

#include <algorithm>
#include <utility>

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

// An operand: bytes, what is subtracted from them and what that is multiplied by, and the axes
// along which these differ, a bit each.
struct Quantised {
  Expr bytes;
  Expr zero;         // int32, of the same shape; nil: 0
  Expr scale;        // float32, of the same shape; nil: 1
  int64_t most = 0;  // the greatest absolute number
  uint64_t zero_varies = 0;
  uint64_t varies = 0;  // the scale

  Expr numbers() const {
    const Expr whole = bytes.cast(DType::kInt32);
    return zero.n == nullptr ? whole : whole - zero;
  }
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
Expr stored_bytes(Graph& g, Node bytes) {
  Node base = bytes;
  while (uop::is_movement(base->op) && base->nsrc == 1) base = base->src(0);
  if (base->op != Op::kParam && base->op != Op::kConst && base->op != Op::kContiguous)
    bytes = g.contiguous(bytes);
  return {&g, bytes};
}

uint64_t varying_axes(Node x) {
  uint64_t out = 0;
  const Node before = x->op == Op::kExpand ? x->src(0) : x;
  for (size_t axis = 0; axis < x->ndim && !uop::is_const(x); ++axis)
    out |= static_cast<uint64_t>(before->dim(axis) > 1) << axis;
  return out;
}

// Of q - z, or q, as int32.
bool take_numbers(Quantised* out, Graph& g, Node x) {
  const bool subtracts = x->op == Op::kSub;
  out->bytes = stored_bytes(g, (subtracts ? x->src(0) : x)->src(0));
  if (subtracts) {
    out->zero = {&g, x->src(1)};
    out->zero_varies = varying_axes(x->src(1));
  }
  return out->bytes.n != nullptr;
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
  const auto bits_seen = [&](uint64_t* bits) {
    if (like->op == Op::kReshape) return reshape_bits(bits, like);
    if (like->op != Op::kPermute) return true;
    const uint64_t before = std::exchange(*bits, 0);
    for (size_t i = 0; i < like->ndim; ++i) *bits |= (before >> like->arg(i) & 1) << i;
    return true;
  };
  if (!bits_seen(&out->varies)) return false;
  if (!bits_seen(&out->zero_varies)) out->zero_varies = ~uint64_t{0};
  out->bytes = seen(out->bytes);
  out->zero = seen(out->zero);
  out->scale = seen(out->scale);
  return out->bytes.n != nullptr;
}

bool is_plain_view(Op op) { return op == Op::kReshape || op == Op::kExpand || op == Op::kPermute; }

bool find_quantised(Quantised* out, Graph& g, Node x, int depth = 0) {
  if (x->ndim > 60 || depth > 16) return false;
  if (is_plain_view(x->op)) return find_quantised(out, g, x->src(0), depth + 1) && view(out, g, x);
  if (x->dtype == DType::kInt32) {
    out->most = most_of(x);
    if (out->most == 0) return false;
    return take_numbers(out, g, x);
  }
  if (x->dtype != DType::kFloat32 || x->op != Op::kMul) return false;
  for (size_t i = 0; i < 2; ++i) {
    const Node numbers = x->src(i), scale = x->src(1 - i);
    if (numbers->op != Op::kCast) continue;
    Node whole = numbers->src(0);
    if (is_of_bytes(whole->dtype)) whole = g.cast(whole, DType::kInt32);
    if (whole == nullptr || (out->most = most_of(whole)) == 0) continue;
    out->scale = {&g, scale};
    out->varies = varying_axes(scale);
    return take_numbers(out, g, whole);
  }
  return false;
}

// x as it is at the first element of each axis along which it does not differ.
Expr at_first(Graph& g, Expr x, uint64_t varies) {
  if (x.n == nullptr) return x;
  Dims shape(x.shape());
  for (size_t i = 0; i < shape.size(); ++i) {
    if ((varies >> i & 1) == 0) shape[i] = 1;
  }
  const Dims start(shape.size(), 0), step(shape.size(), 1);
  return {&g, g.slice(x.n, start, step, shape)};
}

// So many numbers (2, 4) that follow each other along an axis in one word, zeros behind the last.
Expr words(Graph& g, Expr x, size_t axis, Word count) {
  if (x.n == nullptr) return x;
  Dims zeros(x.ndim(), 0), at(x.ndim(), 0), size(x.shape()), step(x.ndim(), 1);
  at[axis] = (count - size[axis] % count) % count;
  if (at[axis] != 0) x = {&g, g.pad(x.n, zeros, at, zeros, 0)};
  size[axis] = (size[axis] + count - 1) / count;
  step[axis] = count;
  const int bits = static_cast<int>(32 / count);
  Expr out;
  for (Word i = 0; i < count && x.n != nullptr; ++i) {
    at[axis] = i;
    Expr one{&g, g.slice(x.n, at, step, size)};
    if (i + 1 < count) one = one & one.like(static_cast<double>((int64_t{1} << bits) - 1));
    if (i > 0) one = alu(Op::kShl, one, static_cast<double>(i * bits));
    out = i == 0 ? one : out | one;
  }
  return out;
}
Expr pairs(Graph& g, Expr x, size_t axis) { return words(g, x, axis, 2); }
Expr quads(Graph& g, Expr x, size_t axis) { return words(g, x, axis, 4); }

Expr in_memory(Expr x) { return {x.g, x.n == nullptr ? nullptr : x.g->contiguous(x.n)}; }

// How words are multiplied: of two numbers of 16 bits, or of four bytes, of which one operand's are
// unsigned.
enum class Dot : uint8_t { kPairs, kQuads, kQuadsTurned };
Expr dot(Dot how, Expr x, Expr y) {
  if (how == Dot::kPairs) return alu(Op::kPairDot, x, y);
  const Expr& first = how == Dot::kQuads ? x : y;
  return alu(Op::kQuadDot, first, how == Dot::kQuads ? y : x, first.like(0));
}

// As build_matmul, over words in memory.
Expr matrix_sums(Graph& g, Dot how, Expr x, Expr y) {
  if (x.n == nullptr || y.n == nullptr) return {&g, nullptr};
  const size_t n = x.ndim();
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
  const Expr products = dot(how, x.reshape(left), y.permute(axes).reshape(right));
  return reduce(Op::kAdd, products, std::array{static_cast<Word>(n)}).reshape(result);
}

// An image with the padding of a convolution.
Expr padded(Graph& g, const uop::Conv2d& o, Expr x, Word fill = 0) {
  if (x.n == nullptr) return x;
  return {&g, g.pad(x.n, std::array<Word, 4>{0, 0, o.pad[0], o.pad[2]},
                    std::array<Word, 4>{0, 0, o.pad[1], o.pad[3]}, std::array<Word, 4>{}, fill)};
}

// As build_conv2d, over words of an image and of filters, of which those along rows are so far
// apart.
Expr window_sums(Graph& g, Node call, Dot how, Expr x, Expr w, Word apart) {
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
  return reduce(Op::kAdd, dot(how, wide, taps), std::array<Word, 3>{5, 6, 7}).reshape(to);
}

// Words of two channels.
Expr image_sums(Graph& g, Node call, Expr image, Expr filters) {
  const uop::Conv2d o = uop::conv2d_of(call);
  return window_sums(g, call, Dot::kPairs, in_memory(padded(g, o, pairs(g, image, 1))),
                     in_memory(pairs(g, filters, 1)), o.dilation[1]);
}

// The value that stands for 0, as it is before it is shown to all elements; null: 0 does.
Node zero_of(const Quantised& x) { return x.zero.n == nullptr ? nullptr : below_views(x.zero.n); }

// Bytes as one of QuadDot's operands takes them, as int32, and which of them stands for 0.
struct Shifted {
  Expr bytes;
  Expr zero;  // where it differs alone; nil: 0
};
Shifted shifted(Graph& g, const Quantised& x, uint64_t summed, bool to_unsigned) {
  Shifted out{x.bytes.cast(DType::kInt32), x.zero};
  const bool is_signed = x.bytes.n->dtype == DType::kInt8;
  const double by = is_signed != to_unsigned ? 0 : to_unsigned ? 128 : -128;
  if (by != 0) out.bytes = out.bytes + out.bytes.like(by);
  const Node known = zero_of(x);
  if (known == nullptr || uop::is_const(known)) {
    const double zero = (known == nullptr ? 0 : uop::const_double(known)) + by;
    out.zero = {&g, nullptr};
    if (zero != 0) out.zero = at_first(g, out.bytes.like(zero), 0);
    return out;
  }
  if (by != 0) out.zero = out.zero + out.zero.like(by);
  out.zero = at_first(g, out.zero, x.zero_varies & ~summed);
  return out;
}

// Whether the bytes that the second operand, which often is a constant, has are taken as unsigned:
// those that lie around 128 are as good as signed.
bool stays_unsigned(const Quantised& x) {
  if (x.bytes.n->dtype != DType::kUInt8) return false;
  const Node zero = zero_of(x);
  return zero == nullptr || !uop::is_const_value(zero, 128);
}

// Sums over k of (x - z) (y - t): those of x y, less what z and t, the same along k, make of the
// sums of y and x.
Expr without_zeros(Expr dots, const Shifted& x, const Shifted& y, Expr sums_x, Expr sums_y,
                   Word terms) {
  if (x.zero.n != nullptr) dots = dots - x.zero * sums_y;
  if (y.zero.n != nullptr) dots = dots - y.zero * sums_x;
  if (x.zero.n == nullptr || y.zero.n == nullptr) return dots;
  const Expr both = x.zero * y.zero;
  return dots + both * both.like(static_cast<double>(terms));
}

// Words of four terms each.
Expr matrix_quads(Graph& g, const Quantised& a, const Quantised& b) {
  const size_t n = a.bytes.ndim();
  const std::array<Word, 1> last{static_cast<Word>(n - 1)}, rows{static_cast<Word>(n - 2)};
  const bool turned = stays_unsigned(b);
  const Shifted x = shifted(g, a, uint64_t{1} << (n - 1), !turned),
                y = shifted(g, b, uint64_t{1} << (n - 2), turned);
  const Expr dots =
      matrix_sums(g, turned ? Dot::kQuadsTurned : Dot::kQuads, in_memory(quads(g, x.bytes, n - 1)),
                  in_memory(quads(g, y.bytes, n - 2)));
  return without_zeros(dots, x, y, reduce(Op::kAdd, x.bytes, last), reduce(Op::kAdd, y.bytes, rows),
                       a.bytes.shape()[n - 1]);
}

// Words of four channels; nil where pairs are needed.
Expr image_quads(Graph& g, Node call, const Quantised& image, const Quantised& filters) {
  const uop::Conv2d o = uop::conv2d_of(call);
  if (o.groups > 1 && call->src(2)->dim(1) % 4 != 0) return {&g, nullptr};
  const bool turned = stays_unsigned(filters);
  const Shifted x = shifted(g, image, ~uint64_t{1}, !turned),
                w = shifted(g, filters, ~uint64_t{1}, turned);
  // Sums of windows would be another convolution.
  if (w.zero.n != nullptr) return {&g, nullptr};
  const bool pads = o.pad[0] != 0 || o.pad[1] != 0 || o.pad[2] != 0 || o.pad[3] != 0;
  Word fill = 0;
  if (pads && x.zero.n != nullptr) {
    const Node zero = below_views(x.zero.n);
    if (!uop::is_const(zero)) return {&g, nullptr};
    fill = static_cast<int32_t>(0x01010101u * static_cast<uint8_t>(uop::const_int(zero)));
  }
  const Expr dots = window_sums(g, call, turned ? Dot::kQuadsTurned : Dot::kQuads,
                                in_memory(padded(g, o, quads(g, x.bytes, 1), fill)),
                                in_memory(quads(g, w.bytes, 1)), o.dilation[1]);
  const Expr sums = reduce(Op::kAdd, w.bytes, std::array<Word, 3>{1, 2, 3});
  return without_zeros(dots, x, w, {&g, nullptr}, sums.permute(std::array<Word, 4>{1, 0, 2, 3}), 0);
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
  const Expr both = (low & low.like(65535)) | alu(Op::kShl, high, 16.0);
  return window_sums(g, call, Dot::kPairs, in_memory(both), in_memory(pairs(g, filters, 3)),
                     2 * next);
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

Status multiply_integers(Node* node, Graph& g, bool quads, Constant constant) {
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
  Expr out;
  if (quads && !odd && ((a.zero_varies & summed_a) | (b.zero_varies & summed_b)) == 0)
    out = conv ? image_quads(g, call, a, b) : matrix_quads(g, a, b);
  const Expr x = a.numbers(), y = b.numbers();
  if (out.n == nullptr) {
    out = odd    ? row_sums(g, call, x, y)
          : conv ? image_sums(g, call, x, y)
                 : matrix_sums(g, Dot::kPairs, in_memory(pairs(g, x, n - 1)),
                               in_memory(pairs(g, y, n - 2)));
  }
  if (call->dtype == DType::kFloat32) {
    Expr by = at_first(g, b.scale, b.varies);
    if (conv && by.n != nullptr) by = by.permute(std::array<Word, 4>{1, 0, 2, 3});
    out = out.cast(DType::kFloat32) * (at_first(g, a.scale, a.varies) * by);
  }
  ASTER_TRY(need(out.n));
  *node = out.n;
  return kOk;
}

}  // namespace aster::engine
