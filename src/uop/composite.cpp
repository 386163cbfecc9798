#include "uop/composite.h"

#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <numbers>

#include "base/mutex.h"
#include "uop/expr.h"

namespace aster::uop {
namespace {

struct Names {
  const char *own, *in_registry, *meaning;
};
constexpr Names kNames[] = {
#define COMPOSITE(name, public_name, attributes, meaning) {#name, public_name, meaning},
#define EXPANDED(name, public_name, attributes, meaning) {#name, public_name, meaning},
#include "uop/composites.def"
#undef COMPOSITE
};
static_assert(std::size(kNames) == kComposites);

std::atomic<Chooser*> first_chooser{nullptr};
constinit Mutex choosers_mutex;

Expr param(Graph& g, Word slot, Node like) {
  return {&g, like == nullptr ? nullptr : g.param(slot, like->dtype, like->shape())};
}

Node call(Composite composite, Words attributes, Expr body, Nodes arguments) {
  if (body.n == nullptr) return nullptr;
  for (Node argument : arguments) {
    if (argument == nullptr) return nullptr;
  }
  const Node usual = body.g->call(static_cast<Word>(composite), attributes, body.n, arguments);
  return choose(*body.g, composite, attributes, arguments, usual);
}

// Half and smaller floats are computed in their accumulator's dtype.
Expr widen(Expr x) { return dtype::is_float(x.dtype()) ? x.cast(dtype::sum_acc(x.dtype())) : x; }

// a * b in the accumulator's dtype; integers wrap in their own dtype before they are added up.
Expr product(Expr a, Expr b) {
  if (a.n == nullptr || b.n == nullptr) return {a.g, nullptr};
  const DType acc = dtype::sum_acc(a.dtype());
  if (dtype::is_float(a.dtype())) return a.cast(acc) * b.cast(acc);
  return a.dtype() == DType::kBool ? (a & b).cast(acc) : (a * b).cast(acc);
}

// Whether sums of products are one operation: of sticky integers products alone may not fit, of
// wide floats they would be rounded.
bool sums_exactly(Expr x) { return dtype::is_sticky(x.dtype()) || dtype::is_wide(x.dtype()); }

// The sum of a * b over axes.
Expr sum_of_products(Expr a, Expr b, Words axes) {
  if (a.n == nullptr || b.n == nullptr) return {a.g, nullptr};
  if (!sums_exactly(a)) return reduce(Op::kAdd, product(a, b), axes);
  Dims shape;
  if (!broadcast_shape(&shape, a.shape(), b.shape())) return {a.g, nullptr};
  return {a.g, a.g->dot(a.expand(shape).n, b.expand(shape).n, axes, dtype::sum_acc(a.dtype()))};
}

// [.., H, W] padded and cut into windows: [.., oh, kh, ow, kw].
Expr windows(Expr x, const Word (&kernel)[2], const Word (&stride)[2], const Word (&pad)[4],
             const Word (&dilation)[2], Word fill) {
  if (x.n == nullptr) return x;
  Dims before(x.ndim(), 0), after(x.ndim(), 0), interior(x.ndim(), 0);
  const size_t h = x.ndim() - 2, w = x.ndim() - 1;
  before[h] = pad[0];
  after[h] = pad[1];
  before[w] = pad[2];
  after[w] = pad[3];
  Node n = x.g->pad(x.n, before, after, interior, fill);
  n = x.g->window(n, static_cast<Word>(h), kernel[0], stride[0], dilation[0]);
  n = x.g->window(n, static_cast<Word>(w + 1), kernel[1], stride[1], dilation[1]);
  return {x.g, n};
}

std::array<Word, 10> attributes_of(const Conv2d& o) {
  return {o.groups, o.stride[0], o.stride[1],   o.pad[0],      o.pad[1],
          o.pad[2], o.pad[3],    o.dilation[0], o.dilation[1], 0};
}

std::array<Word, 10> attributes_of(const Pool2d& o) {
  return {o.kernel[0], o.kernel[1], o.stride[0], o.stride[1],   o.pad[0],
          o.pad[1],    o.pad[2],    o.pad[3],    o.dilation[0], o.dilation[1]};
}

// Windows of x of a convolution, groups apart: [N, G, C, oh, kh, ow, kw].
Expr grouped_windows(Expr x, const Conv2d& o, Word kh, Word kw) {
  const Expr cut = windows(x, {kh, kw}, o.stride, o.pad, o.dilation, 0);
  if (cut.n == nullptr) return cut;
  const Words s = cut.shape();
  return cut.reshape(std::array<Word, 7>{s[0], o.groups, s[1] / o.groups, s[2], s[3], s[4], s[5]});
}

struct Parts {
  Expr shifted, exponentials, total;
};
// Of a softmax over axes: x - max, its exponential, and the sum of those.
Parts softmax_parts(Expr x, Words axes) {
  const Expr shifted = x - reduce(Op::kMax, x, axes).detach();
  const Expr exponentials = exp(shifted);
  return {shifted, exponentials, reduce(Op::kAdd, exponentials, axes)};
}

}  // namespace

const char* name(Composite composite) {
  const auto i = static_cast<size_t>(composite);
  return i < kComposites ? kNames[i].own : "unknown composite";
}
const char* public_name(Composite composite) {
  return kNames[static_cast<size_t>(composite)].in_registry;
}

const char* meaning_of(Composite composite) {
  return kNames[static_cast<size_t>(composite)].meaning;
}

void add_chooser(Chooser* chooser) {
  const MutexLock lock(choosers_mutex);
  chooser->next = first_chooser.load(std::memory_order_relaxed);
  first_chooser.store(chooser, std::memory_order_relaxed);
}

void remove_chooser(Chooser* chooser) {
  const MutexLock lock(choosers_mutex);
  Chooser* at = first_chooser.load(std::memory_order_relaxed);
  if (at == chooser) return first_chooser.store(chooser->next, std::memory_order_relaxed);
  for (; at != nullptr; at = at->next) {
    if (at->next == chooser) at->next = chooser->next;
  }
}

Node choose(Graph& g, Composite composite, Words attributes, Nodes arguments, Node usual) {
  if (first_chooser.load(std::memory_order_relaxed) == nullptr || usual == nullptr) return usual;
  Chooser* found = nullptr;  // that of a graph lives while somebody builds in the graph
  {
    const MutexLock lock(choosers_mutex);
    found = first_chooser.load(std::memory_order_relaxed);
    while (found != nullptr && found->graph != &g) found = found->next;
  }
  return found == nullptr ? usual : found->choose(*found, composite, attributes, arguments, usual);
}

Node build_chosen(Graph& g, const Chosen& chosen, Node body, Nodes arguments) {
  const std::array word{static_cast<Word>(reinterpret_cast<uintptr_t>(&chosen))};
  if (body == nullptr) return nullptr;
  return g.call(static_cast<Word>(Composite::kChosen), word, body, arguments);
}

Conv2d conv2d_of(Node call) {
  Conv2d o;
  o.groups = call->arg(1);
  for (size_t i = 0; i < 2; ++i) o.stride[i] = call->arg(2 + i);
  for (size_t i = 0; i < 4; ++i) o.pad[i] = call->arg(4 + i);
  for (size_t i = 0; i < 2; ++i) o.dilation[i] = call->arg(8 + i);
  return o;
}

Word windows_count(Word size, Word pad, Word kernel, Word stride, Word dilation) {
  Word span = 0, room = 0;
  if (kernel < 1 || stride < 1 || dilation < 1 || !checked_mul(kernel - 1, dilation, &span) ||
      !checked_add(size, pad, &room) || room <= span) {
    return 0;
  }
  return (room - span - 1) / stride + 1;
}

Word lowest_word(DType dtype) {
  if (dtype::is_float(dtype)) {
    double low = -std::numeric_limits<double>::infinity();
    switch (dtype) {  // the fp8 dtypes that have no infinity
      case DType::kFp8E4M3:
        low = -448;
        break;
      case DType::kFp8E4M3Fnuz:
        low = -240;
        break;
      case DType::kFp8E5M2Fnuz:
        low = -57344;
        break;
      default:
        break;
    }
    return std::bit_cast<Word>(low);
  }
  return dtype::min_int(dtype);
}

Word neutral_word(Op op, DType dtype) {
  const Word lowest = lowest_word(dtype);
  if (op == Op::kMax) return lowest;
  if (op == Op::kMin && dtype::is_float(dtype)) {
    return std::bit_cast<Word>(-std::bit_cast<double>(lowest));
  }
  if (op == Op::kMin) return static_cast<Word>(dtype::max_int(dtype));
  const Word number = op == Op::kMul ? 1 : op == Op::kAnd ? -1 : 0;
  return convert_word(number, DType::kInt64, dtype);
}

Node build_matmul(Graph& g, Node a, Node b) {
  const Expr x = param(g, 0, a), y = param(g, 1, b);
  if (x.n == nullptr || y.n == nullptr) return nullptr;
  // [B.., M, 1, K] * [B.., 1, N, K], summed over K.
  const size_t n = x.ndim();
  Dims left(x.shape()), axes, right, result(x.shape());
  const Word k = left[n - 1];
  left[n - 1] = 1;
  left.push(k);
  for (size_t i = 0; i < n; ++i) axes.push(static_cast<Word>(i));
  std::swap(axes[n - 1], axes[n - 2]);
  const Expr turned = y.permute(axes);
  if (turned.n == nullptr) return nullptr;
  for (size_t i = 0; i + 2 < n; ++i) right.push(turned.shape()[i]);
  right.push(1);
  right.push(turned.shape()[n - 2]);
  right.push(k);
  result[n - 1] = turned.shape()[n - 2];
  const bool exact = sums_exactly(x);
  const Expr sums =
      sum_of_products(x.reshape(left), turned.reshape(right), std::array{static_cast<Word>(n)})
          .reshape(result);
  return call(exact ? Composite::kExactMatmul : Composite::kMatmul, {},
              exact ? sums : sums.cast(x.dtype()), std::array{a, b});
}

Node build_conv2d(Graph& g, Node x, Node w, const Conv2d& o) {
  const Expr px = param(g, 0, x), pw = param(g, 1, w);
  if (px.n == nullptr || pw.n == nullptr) return nullptr;
  const Words ws = pw.shape();
  const Expr cut =
      grouped_windows(px, o, ws[2], ws[3]).permute(std::array<Word, 7>{0, 1, 3, 5, 2, 4, 6});
  if (cut.n == nullptr) return nullptr;
  const Words s = cut.shape();  // [N, G, oh, ow, C, kh, kw]
  const Expr wide = cut.reshape(std::array<Word, 8>{s[0], s[1], 1, s[2], s[3], s[4], s[5], s[6]});
  const Expr taps =
      pw.reshape(std::array<Word, 8>{1, o.groups, ws[0] / o.groups, 1, 1, ws[1], ws[2], ws[3]});
  Expr body = sum_of_products(wide, taps, std::array<Word, 3>{5, 6, 7})
                  .reshape(std::array<Word, 4>{s[0], ws[0], s[2], s[3]});
  if (dtype::is_narrow_float(px.dtype())) body = body.cast(px.dtype());
  return call(Composite::kConv2d, Words(attributes_of(o).data(), 9), body, std::array{x, w});
}

Node build_conv2d_weight_grad(Graph& g, Node x, Node dy, const Conv2d& o, Word kh, Word kw) {
  const Expr px = param(g, 0, x), pg = param(g, 1, dy);
  if (px.n == nullptr || pg.n == nullptr) return nullptr;
  const Expr cut = grouped_windows(px, o, kh, kw).permute(std::array<Word, 7>{1, 2, 4, 6, 0, 3, 5});
  if (cut.n == nullptr) return nullptr;
  const Words s = cut.shape(), gs = pg.shape();  // [G, C, kh, kw, N, oh, ow], [N, O, oh, ow]
  const Word per_group = gs[1] / o.groups;
  const Expr wide = cut.reshape(std::array<Word, 8>{s[0], 1, s[1], s[2], s[3], s[4], s[5], s[6]});
  const Expr grads =
      pg.reshape(std::array<Word, 5>{gs[0], o.groups, per_group, gs[2], gs[3]})
          .permute(std::array<Word, 5>{1, 2, 0, 3, 4})
          .reshape(std::array<Word, 8>{o.groups, per_group, 1, 1, 1, gs[0], gs[2], gs[3]});
  Expr body = sum_of_products(wide, grads, std::array<Word, 3>{5, 6, 7})
                  .reshape(std::array<Word, 4>{gs[1], s[1], s[2], s[3]});
  if (dtype::is_narrow_float(px.dtype())) body = body.cast(px.dtype());
  std::array<Word, 11> attributes;
  for (size_t i = 0; i < 9; ++i) attributes[i] = attributes_of(o)[i];
  attributes[9] = kh;
  attributes[10] = kw;
  return call(Composite::kConv2dWeightGrad, attributes, body, std::array{x, dy});
}

Node build_max_pool2d(Graph& g, Node x, const Pool2d& o) {
  const Expr p = param(g, 0, x);
  if (p.n == nullptr) return nullptr;
  const Word n = static_cast<Word>(p.ndim());
  const Expr cut = windows(p, o.kernel, o.stride, o.pad, o.dilation, lowest_word(p.dtype()));
  const Expr most = reduce(Op::kMax, cut, std::array{n - 1, n + 1});
  const Expr body{&g, drop_axes(g, most.n, std::array{n - 1, n + 1})};
  return call(Composite::kMaxPool2d, attributes_of(o), body, std::array{x});
}

Node build_avg_pool2d(Graph& g, Node x, const Pool2d& o, bool count_include_pad) {
  const Expr p = param(g, 0, x);
  if (p.n == nullptr) return nullptr;
  const Word n = static_cast<Word>(p.ndim());
  const std::array axes{n - 1, n + 1};
  const Expr wide = widen(p);
  const Expr total =
      reduce(Op::kAdd, windows(wide, o.kernel, o.stride, o.pad, o.dilation, 0), axes);
  Expr count = total.like(static_cast<double>(o.kernel[0] * o.kernel[1]));
  if (!count_include_pad) {
    Dims plane(p.ndim(), 1);
    for (size_t i = p.ndim() - 2; i < p.ndim(); ++i) plane[i] = p.shape()[i];
    const Expr ones{&g, g.constant(wide.dtype(), 1, plane)};
    count = reduce(Op::kAdd, windows(ones, o.kernel, o.stride, o.pad, o.dilation, 0), axes);
  }
  const Expr body{&g, drop_axes(g, (total / count).cast(p.dtype()).n, axes)};
  std::array<Word, 11> attributes;
  for (size_t i = 0; i < 10; ++i) attributes[i] = attributes_of(o)[i];
  attributes[10] = count_include_pad;
  return call(Composite::kAvgPool2d, attributes, body, std::array{x});
}

Node build_softmax(Graph& g, Node x, Word axis) {
  const Expr p = param(g, 0, x);
  const Parts parts = softmax_parts(widen(p), std::array{axis});
  return call(Composite::kSoftmax, std::array{axis},
              (parts.exponentials * recip(parts.total)).cast(p.dtype()), std::array{x});
}

Node build_log_softmax(Graph& g, Node x, Word axis) {
  const Expr p = param(g, 0, x);
  const Parts parts = softmax_parts(widen(p), std::array{axis});
  return call(Composite::kLogSoftmax, std::array{axis},
              (parts.shifted - log(parts.total)).cast(p.dtype()), std::array{x});
}

Node build_logsumexp(Graph& g, Node x, Words axes) {
  const Expr p = param(g, 0, x);
  const Expr wide = widen(p);
  const Expr most = reduce(Op::kMax, wide, axes).detach();
  const Expr body = (log(reduce(Op::kAdd, exp(wide - most), axes)) + most).cast(p.dtype());
  return call(Composite::kLogSumExp, axes, body, std::array{x});
}

Node build_layer_norm(Graph& g, Node x, Word trailing, double eps) {
  const Expr p = param(g, 0, x);
  if (p.n == nullptr) return nullptr;
  const Expr wide = widen(p);
  const Node bias = g.constant(wide.dtype(), eps);
  const Expr eps_param = param(g, 1, bias);
  Dims axes;
  for (Word i = static_cast<Word>(p.ndim()) - trailing; i < static_cast<Word>(p.ndim()); ++i)
    axes.push(i);
  const Expr y = wide - mean(wide, axes);
  const Expr body = (y * recip(sqrt(mean(y * y, axes) + eps_param))).cast(p.dtype());
  return call(Composite::kLayerNorm, std::array{trailing}, body, std::array{x, bias});
}

Node build_batch_norm(Graph& g, Node x, Node weight, Node bias, Node mean, Node invstd) {
  const Expr p = param(g, 0, x);
  if (p.n == nullptr) return nullptr;
  Dims by_channel(p.ndim(), 1);
  by_channel[1] = p.shape()[1];
  const auto channel = [&](Word slot, Node n) { return param(g, slot, n).reshape(by_channel); };
  const Expr body =
      (p - channel(3, mean)) * channel(1, weight) * channel(4, invstd) + channel(2, bias);
  return call(Composite::kBatchNorm, {}, body, std::array{x, weight, bias, mean, invstd});
}

Node build_cross_entropy(Graph& g, Node logits, Node labels, bool mean) {
  const Expr x = param(g, 0, logits), y = param(g, 1, labels);
  if (x.n == nullptr || y.n == nullptr) return nullptr;
  const size_t last = x.ndim() - 1;
  const Parts parts = softmax_parts(widen(x), std::array{static_cast<Word>(last)});
  const Expr log_probabilities = parts.shifted - log(parts.total);
  Dims column(y.shape()), axes;
  column.push(1);
  for (size_t i = 0; i < x.ndim(); ++i) axes.push(static_cast<Word>(i));
  const Expr hit = y.reshape(column) == iota(g, y.dtype(), x.shape(), last);
  Expr total = -reduce(Op::kAdd, where(hit, log_probabilities, 0.0), axes);
  if (mean) total = total / static_cast<double>(labels->count());
  const Expr body{&g, drop_axes(g, total.cast(x.dtype()).n, axes)};
  return call(Composite::kCrossEntropy, std::array<Word, 1>{mean ? 0 : 1}, body,
              std::array{logits, labels});
}

// Of weak dtypes and of constants the body itself: those convert and fold as what they are made of.
Node build_sigmoid(Graph& g, Node x, bool by_exp2) {
  if (x == nullptr) return nullptr;
  const auto body = [by_exp2](Expr e) {
    return recip(1.0 + (by_exp2 ? alu(Op::kExp2, e * (-1 / std::numbers::ln2)) : exp(-e)));
  };
  if (is_const(x) || dtype::is_weak(x->dtype)) return body({&g, x}).n;
  return call(Composite::kSigmoid, {}, body(param(g, 0, x)), std::array{x});
}

Node build_contiguous_backward(Graph& g, Node x) {
  return call(Composite::kContiguousBackward, {}, param(g, 0, x), std::array{x});
}

Node build_checkpoint(Graph& g, Node y, Nodes arguments, size_t inputs) {
  if (y == nullptr) return nullptr;
  Map<Node, Node> slots(g.memory());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Node slot = param(g, static_cast<Word>(i), arguments[i]).n;
    if (slot == nullptr || !slots.set(arguments[i], slot).ok()) return nullptr;
  }
  Node body = nullptr;
  if (!g.substitute(&body, y, slots).ok()) return nullptr;
  return call(Composite::kCheckpoint, std::array{static_cast<Word>(inputs)}, {&g, body}, arguments);
}

Status inline_call(Node* out, Graph& g, Node call) {
  Map<Node, Node> arguments(g.memory());
  for (size_t i = 1; i < call->nsrc; ++i) {
    const Node argument = call->src(i);
    const Node slot = g.param(static_cast<Word>(i - 1), argument->dtype, argument->shape());
    if (slot == nullptr) return last_failure();
    ASTER_TRY(arguments.set(slot, argument));
  }
  return g.substitute(out, call->src(0), arguments);
}

}  // namespace aster::uop
