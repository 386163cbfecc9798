// Attention and its relatives.
#include <bit>
#include <cmath>
#include <limits>

#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

namespace ops = tensor::ops;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Word kMostTaps = 1 << 16;

DType wide_of(DType dtype) { return dtype::is_narrow_float(dtype) ? DType::kFloat32 : dtype; }

// [B, T, H * D] as [B, H, T, D].
Node split_heads(Op& op, Node x, Word heads) {
  if (x == nullptr) return nullptr;
  if (x->ndim != 3 || heads < 1 || x->dim(2) % heads != 0) {
    op.fail(
        ASTER_FAIL(kSHAPE, "%s in %lld heads", uop::brief(x).text, static_cast<long long>(heads)));
    return nullptr;
  }
  const Node apart = op.g.reshape(x, std::array{x->dim(0), x->dim(1), heads, x->dim(2) / heads});
  return op.g.permute(apart, std::array<Word, 4>{0, 2, 1, 3});
}

// And back.
Node join_heads(Op& op, Node x) {
  if (x == nullptr) return nullptr;
  const Node turned = op.g.permute(x, std::array<Word, 4>{0, 2, 1, 3});
  return op.g.reshape(turned, std::array{x->dim(0), x->dim(2), x->dim(1) * x->dim(3)});
}

// Each head for all queries of its group.
Node repeat_heads(Op& op, Node x, Word times) {
  return x == nullptr || times == 1 ? x : tensor::repeat_interleave(op.g, x, times, 1);
}

// Softmax along the last axis; a row of -infinity alone is 0.
Expr guarded_softmax(Expr x) {
  const Dims axes(1, static_cast<Word>(x.ndim()) - 1);
  const Expr most = uop::reduce(uop::Op::kMax, x, axes);
  const Expr safe = uop::where(most == -kInfinity, 0.0, most);
  const Expr e = uop::exp(x - safe);
  const Expr all = uop::reduce(uop::Op::kAdd, e, axes);
  return e / uop::where(all == 0.0, 1.0, all);
}

struct Heads {
  Node q, k, v;
  bool packed;
};

// What Attention reads beside query, key and value.
struct Masks {
  Expr bias;       // added to scores; null where there is none
  Expr forbidden;  // of rows: no key is allowed; null where that cannot be
};

class Attention {
 public:
  explicit Attention(Op& op) : op_(op), g_(op.g) {}

  void run() {
    if (!read()) return;
    const DType wide = wide_of(q_->dtype);
    const double scale =
        std::sqrt(op_.number("scale", 1 / std::sqrt(static_cast<double>(q_->dim(3)))));
    const Expr q = Expr{&g_, g_.cast(q_, wide)} * scale;
    Expr k = Expr{&g_, g_.cast(repeat_heads(op_, k_, q_->dim(1) / k_->dim(1)), wide)} * scale;
    Expr scores{&g_, tensor::matmul(g_, q.n, permute_last(op_, k.n))};
    Expr shown = scores;
    const double softcap = op_.number("softcap", 0);
    const int64_t mode = op_.integer("qk_matmul_output_mode", 0);
    if (softcap > 0) {
      scores = uop::tanh(scores / softcap) * softcap;
      // The reference shows capped scores in mode 0 as well.
      shown = scores;
    }
    const Expr bias = masks(wide);
    if (!op_.ok()) return;
    if (bias.n != nullptr) scores = scores + bias;
    if (mode == 2) shown = scores;
    finish(scores, bias, shown, mode);
  }

 private:
  bool read() {
    q_ = op_.in(0);
    k_ = op_.in(1);
    v_ = op_.in(2);
    if (!op_.ok()) return false;
    packed_ = q_->ndim == 3;
    if (packed_) {
      const Word kv = op_.integer("kv_num_heads", 0);
      q_ = split_heads(op_, q_, op_.integer("q_num_heads", 0));
      k_ = split_heads(op_, k_, kv);
      v_ = split_heads(op_, v_, kv);
    }
    if (op_.has(4) && op_.has(5)) {
      past_ = op_.in(4) == nullptr || op_.in(4)->ndim < 3 ? 0 : op_.in(4)->dim(2);
      k_ = tensor::cat(g_, std::array{op_.in(4), k_}, 2);
      v_ = tensor::cat(g_, std::array{op_.in(5), v_}, 2);
    }
    if (op_.ok() && (q_ == nullptr || k_ == nullptr || v_ == nullptr)) op_.fail(last_failure());
    if (!op_.ok()) return false;
    const bool fits = q_->ndim == 4 && k_->ndim == 4 && v_->ndim == 4 && k_->dim(1) > 0 &&
                      q_->dim(1) % k_->dim(1) == 0 && v_->dim(1) == k_->dim(1);
    if (!fits)
      op_.fail(ASTER_FAIL(kSHAPE, "%s, %s, %s", uop::brief(q_).text, uop::brief(k_).text,
                          uop::brief(v_).text));
    return op_.ok();
  }

  // Where allowed is false, -infinity is added.
  void allow(Expr* bias, Expr allowed, DType wide) {
    const Expr zero{&g_, g_.constant(wide, 0, allowed.shape())};
    const Expr one = uop::where(allowed, zero, -kInfinity);
    *bias = bias->n == nullptr ? one : *bias + one;
  }

  Expr masks(DType wide) {
    Expr bias{&g_, nullptr};
    const Word queries = q_->dim(2), keys = k_->dim(2);
    if (op_.has(3)) {
      Node mask = op_.in(3);
      if (mask == nullptr) return bias;
      const bool flag = mask->dtype == DType::kBool;
      const Word missing = mask->ndim == 0 ? 0 : keys - mask->dim(mask->ndim - 1u);
      if (missing > 0) {
        Dims none(mask->ndim, 0), after(mask->ndim, 0);
        after[mask->ndim - 1u] = missing;
        mask = flag ? tensor::pad(g_, mask, none, after, 0, DType::kBool)
                    : tensor::pad(g_, mask, none, after, std::bit_cast<Word>(-kInfinity),
                                  DType::kFloat64);
      }
      if (flag) {
        allow(&bias, {&g_, mask}, wide);
      } else {
        bias = Expr{&g_, mask}.cast(wide);
      }
    }
    const Dims plane(Words(std::array<Word, 4>{1, 1, queries, keys}));
    const Expr i = uop::iota(g_, DType::kInt64, plane, 2),
               j = uop::iota(g_, DType::kInt64, plane, 3);
    Expr at = i + static_cast<double>(past_);
    Expr valid{&g_, nullptr};
    if (op_.has(6)) {
      valid = Expr{&g_, along_axis(op_, op_.in(6), 0, 4)}.cast(DType::kInt64);
      if (past_ == 0) at = i + (valid - static_cast<double>(queries));
    }
    if (op_.integer("is_causal", 0) != 0) allow(&bias, j <= at, wide);
    const int64_t left = op_.integer("left_window_size", -1),
                  right = op_.integer("right_window_size", -1);
    if (left >= 0) allow(&bias, at - j <= static_cast<double>(left), wide);
    if (right >= 0) allow(&bias, j - at <= static_cast<double>(right), wide);
    if (valid.n != nullptr) allow(&bias, j < valid, wide);
    return bias;
  }

  void finish(Expr scores, Expr bias, Expr shown, int64_t mode) {
    const DType wide = scores.dtype();
    const auto precision = static_cast<int32_t>(op_.integer("softmax_precision", 0));
    const DType in = precision == 0 ? wide : dtype_of(op_, precision);
    if (!op_.ok()) return;
    Expr p = guarded_softmax(scores.cast(in)).cast(wide);
    if (bias.n != nullptr && bias.ndim() > 0) {
      const Dims last(1, static_cast<Word>(bias.ndim()) - 1);
      p = uop::where(uop::reduce(uop::Op::kMax, bias, last) == -kInfinity, 0.0, p);
    }
    if (mode == 3) shown = p;
    const Node v = g_.cast(repeat_heads(op_, v_, q_->dim(1) / v_->dim(1)), wide);
    Node y = tensor::matmul(g_, p.n, v);
    y = y == nullptr ? y : g_.cast(y, q_->dtype);
    op_.set(0, packed_ ? join_heads(op_, y) : y);
    op_.set(1, k_);
    op_.set(2, v_);
    op_.set(3, shown.cast(q_->dtype).n);
  }

  Op& op_;
  Graph& g_;
  Node q_ = nullptr, k_ = nullptr, v_ = nullptr;
  Word past_ = 0;
  bool packed_ = false;
};

// x[:, i] of axis 2, which disappears.
Expr at_time(Op& op, Node x, Word i) { return {&op.g, tensor::select(op.g, x, 2, i)}; }

// [..., 1] behind, or before, the last axis.
Expr column(Expr x) { return {x.g, tensor::unsqueeze(*x.g, x.n, -1)}; }
Expr row(Expr x) {
  return {x.g, x.n == nullptr ? nullptr
                              : tensor::unsqueeze(*x.g, x.n, static_cast<int64_t>(x.ndim()) - 1)};
}

// The sum over the axis before the last, which disappears.
Expr contracted(Op& op, Expr x) {
  if (x.n == nullptr) return x;
  const Dims axes(1, static_cast<Word>(x.ndim()) - 2);
  return {&op.g, uop::drop_axes(op.g, uop::reduce(uop::Op::kAdd, x, axes).n, axes)};
}

}  // namespace

namespace build {

void attention(Op& op) { Attention(op).run(); }

void linear_attention(Op& op) {
  const Word heads = op.integer("q_num_heads", 0), kv = op.integer("kv_num_heads", 0);
  const std::string_view rule = op.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  if (heads < 1 || kv < 1 || heads % kv != 0)
    op.fail(ASTER_FAIL(kSHAPE, "%lld and %lld heads", static_cast<long long>(heads),
                       static_cast<long long>(kv)));
  const DType wide = DType::kFloat32;
  const auto heads_of = [&](size_t i, Word count) {
    const Node x = op.in(i);
    return x == nullptr ? nullptr : op.g.cast(split_heads(op, x, count), wide);
  };
  const Node q = heads_of(0, heads), k = heads_of(1, kv), v = heads_of(2, kv);
  const Node decay = gated ? heads_of(4, kv) : nullptr;
  const Node given = delta ? op.in(5) : nullptr;
  if (!op.ok() || q == nullptr || k == nullptr || v == nullptr) return op.fail(last_failure());
  if (given != nullptr && given->ndim != 3)
    return op.fail(ASTER_FAIL(kSHAPE, "%s beside heads", uop::brief(given).text));
  const Node beta = given == nullptr
                        ? nullptr
                        : op.g.cast(split_heads(op, given, given->dim(given->ndim - 1u)), wide);
  const Word b = q->dim(0), t = q->dim(2), dk = q->dim(3), dv = v->dim(3);
  if (t > 1 << 16) return op.fail(ASTER_FAIL(kRANGE, "%lld steps", static_cast<long long>(t)));
  Expr state = op.has(3) ? op.x(3).cast(wide)
                         : Expr{&op.g, op.g.constant(wide, 0, std::array{b, kv, dk, dv})};
  const double given_scale = op.number("scale", 0);
  const double scale = given_scale == 0 ? 1 / std::sqrt(static_cast<double>(dk)) : given_scale;
  Vec<Node> all(op.heap());
  for (Word i = 0; i < t && op.ok(); ++i) {
    if (gated) state = state * column(uop::exp(at_time(op, decay, i)));
    const Expr key = column(at_time(op, k, i));
    Expr value = at_time(op, v, i);
    if (delta) value = at_time(op, beta, i) * (value - contracted(op, state * key));
    state = state + key * row(value);
    const Expr seen{&op.g, repeat_heads(op, state.n, heads / kv)};
    const Expr o = contracted(op, seen * column(at_time(op, q, i))) * scale;
    if (o.n == nullptr) return op.fail(last_failure());
    op.fail(all.push(o.n));
  }
  if (!op.ok()) return;
  const Node y = tensor::stack(op.g, {all.data(), all.size()}, 2);
  if (y == nullptr) return op.fail(last_failure());
  op.set(0, op.g.cast(join_heads(op, y), op.in(0)->dtype));
  op.set(1, state.cast(op.has(3) ? op.in(3)->dtype : op.in(0)->dtype).n);
}

void causal_conv_with_state(Op& op) {
  const Node x = op.in(0), w = op.in(1);
  if (!op.ok()) return;
  if (x->ndim != 3 || w->ndim != 3 || w->dim(2) < 1)
    return op.fail(ASTER_FAIL(kSHAPE, "%s by %s", uop::brief(x).text, uop::brief(w).text));
  const Word k = w->dim(2), n = x->dim(2);
  const Node before =
      op.has(3) ? op.in(3) : op.g.constant(x->dtype, 0, std::array{x->dim(0), x->dim(1), k - 1});
  const Node padded = tensor::cat(op.g, std::array{before, x}, 2);
  if (padded == nullptr) return op.fail(last_failure());
  if (k > kMostTaps) return op.fail(ASTER_FAIL(kRANGE, "%lld taps", static_cast<long long>(k)));
  const DType wide = wide_of(x->dtype);
  Expr y{&op.g, nullptr};
  for (Word i = 0; i < k && op.ok(); ++i) {
    const Expr tap = Expr{&op.g, tensor::select(op.g, w, 2, i)}.cast(wide);
    const Expr part = Expr{&op.g, tensor::cut_axis(op.g, padded, 2, i, i + n)}.cast(wide) *
                      tap.reshape(std::array<Word, 3>{1, w->dim(0), 1});
    y = i == 0 ? part : y + part;
  }
  if (op.has(2)) y = y + Expr{&op.g, along_axis(op, op.in(2), 1, 3)}.cast(wide);
  const std::string_view activation = op.text("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = y.cast(x->dtype).cast(wide);
    y = {&op.g, unary_element(op, y.n, ops::silu)};
  }
  op.set(0, y.cast(x->dtype).n);
  op.set(1, tensor::cut_axis(op.g, padded, 2, n, n + k - 1));
}

void swiglu(Op& op) {
  const Node a = op.in(0), b = op.in(1);
  const double alpha = op.number("alpha", 1);
  if (!op.ok()) return;
  const DType wide = wide_of(a->dtype);
  const Expr x = Expr{&op.g, a}.cast(wide);
  const Expr gate = x * Expr{&op.g, unary_element(op, (x * alpha).n, ops::sigmoid)};
  op.set((gate * Expr{&op.g, b}.cast(wide)).cast(a->dtype));
}

void rotary_embedding(Op& op) {
  const Node given = op.in(0);
  Node cosines = op.in(1), sines = op.in(2);
  if (!op.ok()) return;
  const bool packed = given->ndim == 3;
  const Node x = packed ? split_heads(op, given, op.integer("num_heads", 0)) : given;
  if (!op.ok() || x == nullptr) return op.fail(last_failure());
  const Word whole = x->ndim == 4 ? x->dim(3) : 0, asked = op.integer("rotary_embedding_dim", 0);
  const Word size = asked == 0 ? whole : asked, half = size / 2;
  if (x->ndim != 4 || size < 0 || size > whole || size % 2 != 0)
    return op.fail(ASTER_FAIL(kSHAPE, "%s turned by %lld", uop::brief(given).text,
                              static_cast<long long>(size)));
  if (op.has(3)) {
    cosines = take(op, cosines, 0, op.in(3));
    sines = take(op, sines, 0, op.in(3));
  }
  if (cosines == nullptr || sines == nullptr) return op.fail(last_failure());
  const DType wide = wide_of(x->dtype);
  const Expr c = Expr{&op.g, tensor::unsqueeze(op.g, cosines, 1)}.cast(wide),
             s = Expr{&op.g, tensor::unsqueeze(op.g, sines, 1)}.cast(wide);
  const Node turned = tensor::cut_axis(op.g, x, 3, 0, size);
  if (turned == nullptr) return op.fail(last_failure());
  Expr a{&op.g, nullptr}, b{&op.g, nullptr};
  const bool interleaved = op.integer("interleaved", 0) != 0;
  const std::array pairs{x->dim(0), x->dim(1), x->dim(2), half, Word{2}};
  if (interleaved) {
    a = {&op.g, tensor::select(op.g, op.g.reshape(turned, pairs), 4, 0)};
    b = {&op.g, tensor::select(op.g, op.g.reshape(turned, pairs), 4, 1)};
  } else {
    a = {&op.g, tensor::cut_axis(op.g, turned, 3, 0, half)};
    b = {&op.g, tensor::cut_axis(op.g, turned, 3, half, size)};
  }
  a = a.cast(wide);
  b = b.cast(wide);
  const Expr real = c * a - s * b, imaginary = s * a + c * b;
  if (real.n == nullptr || imaginary.n == nullptr) return op.fail(last_failure());
  Node y = interleaved ? tensor::stack(op.g, std::array{real.n, imaginary.n}, 4)
                       : tensor::cat(op.g, std::array{real.n, imaginary.n}, 3);
  if (y == nullptr) return op.fail(last_failure());
  y = op.g.cast(op.g.reshape(y, std::array{x->dim(0), x->dim(1), x->dim(2), size}), x->dtype);
  if (size < whole)
    y = tensor::cat(op.g, std::array{y, tensor::cut_axis(op.g, x, 3, size, whole)}, 3);
  op.set(packed ? join_heads(op, y) : y);
}

void flex_attention(Op& op) {
  const Ref q = op.value(0), k = op.value(1), v = op.value(2);
  const Node query = op.in(0), key = op.in(1), value = op.in(2);
  if (!op.ok()) return;
  if (query->ndim != 4 || key->ndim != 4 || value->ndim != 4 || key->dim(1) < 1 ||
      query->dim(1) % key->dim(1) != 0) {
    return op.fail(ASTER_FAIL(kSHAPE, "%s, %s, %s", uop::brief(query).text, uop::brief(key).text,
                              uop::brief(value).text));
  }
  const auto precision = static_cast<int32_t>(op.integer("softmax_precision", 0));
  const DType wide = precision != 0                    ? dtype_of(op, precision)
                     : query->dtype == DType::kFloat64 ? DType::kFloat64
                                                       : DType::kFloat32;
  const double scale = op.number("scale", 1 / std::sqrt(static_cast<double>(query->dim(3))));
  const Word times = query->dim(1) / key->dim(1);
  const DType computed = wide_of(wide);
  const auto modified = [&](std::string_view name, const Ref& given) {
    if (!op.has(name) || !op.ok()) return given;
    const Vec<Ref> out = op.body(name, {&given, 1});
    if (op.ok() && out.size() != 1)
      op.fail(ASTER_FAIL(kFORMAT, "a modifier of %zu results", out.size()));
    return op.ok() ? out[0] : given;
  };
  Ref scores, probabilities;
  {
    Graph::Hold hold(op.g);
    const Expr a = Expr{&op.g, query}.cast(computed);
    const Node b = op.g.cast(repeat_heads(op, key, times), computed);
    const Expr s = Expr{&op.g, tensor::matmul(op.g, a.n, permute_last(op, b))} * scale;
    op.fail(make_tensor(&scores, op.engine(), s.cast(wide).n, precision, op.all_known()));
  }
  if (!op.ok()) return;
  scores = modified("score_mod", scores);
  if (!op.ok()) return;
  {
    Graph::Hold hold(op.g);
    const Expr p = guarded_softmax(Expr{&op.g, scores->node()}.cast(computed)).cast(wide);
    op.fail(make_tensor(&probabilities, op.engine(), p.n, precision, op.all_known()));
  }
  if (!op.ok()) return;
  probabilities = modified("prob_mod", probabilities);
  if (!op.ok()) return;
  Graph::Hold hold(op.g);
  const Node p = op.g.cast(probabilities->node(), computed);
  const Node w = op.g.cast(repeat_heads(op, v->node(), times), computed);
  const Node y = tensor::matmul(op.g, p, w);
  op.set(y == nullptr ? y : op.g.cast(y, q->node()->dtype));
}

}  // namespace build
}  // namespace aster::nn::onnx
