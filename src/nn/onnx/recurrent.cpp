// Recurrent layers, unrolled.
#include <algorithm>

#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

namespace ops = tensor::ops;

struct Activation {
  std::string_view name;
  double alpha, beta;
};

Expr activated(Op& op, const Activation& f, Expr x) {
  const auto unary = [&](const tensor::UnaryOp& which) {
    return Expr{&op.g, unary_element(op, x.n, which)};
  };
  if (f.name == "Tanh") return uop::tanh(x);
  if (f.name == "Sigmoid") return unary(ops::sigmoid);
  if (f.name == "Relu") return uop::max(x, 0.0);
  if (f.name == "Affine") return x * f.alpha + f.beta;
  if (f.name == "LeakyRelu") return uop::where(x < 0.0, x * f.alpha, x);
  if (f.name == "ThresholdedRelu") return uop::where(x < f.alpha, x.like(0), x);
  if (f.name == "ScaledTanh") return uop::tanh(x * f.beta) * f.alpha;
  if (f.name == "HardSigmoid") return uop::min(uop::max(x * f.alpha + f.beta, 0.0), 1.0);
  if (f.name == "Elu") return uop::where(x < 0.0, (uop::exp(x) - 1.0) * f.alpha, x);
  if (f.name == "Softsign") return unary(ops::softsign);
  if (f.name == "Softplus") return unary(ops::softplus);
  op.fail(ASTER_FAIL(kUNSUPPORTED, "activation '%.*s'",
                     static_cast<int>(std::min<size_t>(f.name.size(), 50)), f.name.data()));
  return {&op.g, nullptr};
}

bool takes_alpha(std::string_view name) {
  return name == "Affine" || name == "LeakyRelu" || name == "ThresholdedRelu" ||
         name == "ScaledTanh" || name == "HardSigmoid" || name == "Elu";
}

// A layer of any of the three kinds; a direction at a time.
class Recurrent {
 public:
  enum Kind { kRnn, kGru, kLstm };
  Recurrent(Op& op, Kind kind)
      : op_(op),
        g_(op.g),
        kind_(kind),
        gates_(kind == kRnn   ? 1
               : kind == kGru ? 3
                              : 4),
        per_direction_(kind == kRnn   ? 1
                       : kind == kGru ? 2
                                      : 3),
        outputs_(op.heap()),
        states_(op.heap()),
        cells_(op.heap()) {}

  void run() {
    if (!read()) return;
    const Word directions = w_->dim(0);
    for (Word d = 0; d < directions && op_.ok(); ++d) direction(d, backward_ || d == 1);
    if (!op_.ok()) return;
    // [T, D, N, H], or [N, T, D, H].
    Node y = stacked(outputs_, 1);
    const Word swap[] = {2, 0, 1, 3};
    op_.set(0, batch_first_ && y != nullptr ? g_.permute(y, swap) : y);
    const auto last = [&](const Vec<Node>& list) { return stacked(list, batch_first_ ? 1 : 0); };
    op_.set(1, last(states_));
    if (kind_ == kLstm) op_.set(2, last(cells_));
  }

 private:
  Node stacked(const Vec<Node>& list, int64_t axis) {
    return tensor::stack(g_, {list.data(), list.size()}, axis);
  }

  bool read() {
    x_ = op_.in(0);
    w_ = op_.in(1);
    r_ = op_.in(2);
    if (!op_.ok()) return false;
    batch_first_ = op_.integer("layout", 0) != 0;
    const std::string_view way = op_.text("direction", "forward");
    backward_ = way == "reverse";
    const Word directions = way == "bidirectional" ? 2 : 1;
    hidden_ = op_.integer("hidden_size", r_->ndim == 3 ? r_->dim(2) : 0);
    const bool fits = x_->ndim == 3 && w_->ndim == 3 && r_->ndim == 3 && w_->dim(0) == directions &&
                      r_->dim(0) == directions && hidden_ > 0 && hidden_ < (Word{1} << 32) &&
                      w_->dim(1) == gates_ * hidden_ && r_->dim(1) == gates_ * hidden_ &&
                      r_->dim(2) == hidden_;
    if (!fits) {
      op_.fail(ASTER_FAIL(kSHAPE, "%s with weights %s and %s", uop::brief(x_).text,
                          uop::brief(w_).text, uop::brief(r_).text));
      return false;
    }
    if (batch_first_) x_ = g_.permute(x_, std::array<Word, 3>{1, 0, 2});
    steps_ = x_->dim(0);
    batch_ = x_->dim(1);
    if (steps_ < 1 || steps_ > 1 << 16)
      op_.fail(ASTER_FAIL(kRANGE, "%lld steps", static_cast<long long>(steps_)));
    if (op_.has(4))
      lengths_ = Expr{&g_, op_.in(4)}.cast(DType::kInt64).reshape(std::array{batch_, Word{1}});
    clip_ = op_.number("clip", 0);
    linear_ = op_.integer("linear_before_reset", 0) != 0;
    coupled_ = op_.integer("input_forget", 0) != 0;
    return op_.ok();
  }

  Activation activation(Word d, size_t i) {
    const auto names = op_.texts("activations");
    const auto alphas = op_.numbers("activation_alpha"), betas = op_.numbers("activation_beta");
    const size_t at = static_cast<size_t>(d) * per_direction_ + i;
    Activation f{i == 0 && kind_ != kRnn ? "Sigmoid" : "Tanh", 0, 0};
    if (at < names.size()) f.name = names[at];
    // Those that take numbers take them in order.
    size_t taken = 0, taken_beta = 0;
    for (size_t k = 0; k < at && k < names.size(); ++k) {
      taken += takes_alpha(names[k]);
      taken_beta += names[k] == "Affine" || names[k] == "ScaledTanh" || names[k] == "HardSigmoid";
    }
    const double fallback = f.name == "LeakyRelu" ? 0.01 : f.name == "HardSigmoid" ? 0.2 : 1;
    f.alpha = taken < alphas.size() ? alphas[taken] : fallback;
    f.beta = taken_beta < betas.size() ? betas[taken_beta]
             : f.name == "HardSigmoid" ? 0.5
             : f.name == "ScaledTanh"  ? 1
                                       : 0;
    return f;
  }

  // The state at the beginning, [N, H].
  Expr initial(size_t i, Word d) {
    if (!op_.has(i)) return {&g_, g_.constant(x_->dtype, 0, std::array{batch_, hidden_})};
    return {&g_, tensor::select(g_, op_.in(i), batch_first_ ? 1 : 0, d)};
  }
  Expr part(Expr x, Word i) {
    return {&g_, x.n == nullptr
                     ? nullptr
                     : tensor::cut_axis(g_, x.n, x.ndim() - 1, i * hidden_, (i + 1) * hidden_)};
  }
  Expr clipped(Expr x) const { return clip_ > 0 ? uop::min(uop::max(x, -clip_), clip_) : x; }
  Expr act(Word d, size_t i, Expr x) { return activated(op_, activation(d, i), clipped(x)); }

  void direction(Word d, bool backward) {
    const Node w = permute_last(op_, tensor::select(g_, w_, 0, d)),
               r = permute_last(op_, tensor::select(g_, r_, 0, d));
    Expr bias{&g_, nullptr}, recurrent_bias{&g_, nullptr};
    if (op_.has(3)) {
      const Node both = tensor::select(g_, op_.in(3), 0, d);
      const Word half = gates_ * hidden_;
      bias = {&g_, both == nullptr ? both : tensor::cut_axis(g_, both, 0, 0, half)};
      recurrent_bias = {&g_,
                        both == nullptr ? both : tensor::cut_axis(g_, both, 0, half, 2 * half)};
    }
    // One product for all steps.
    Expr all{&g_, tensor::matmul(g_, x_, w)};
    if (bias.n != nullptr) all = all + bias;
    Expr h = initial(5, d), c = kind_ == kLstm ? initial(6, d) : Expr{};
    state_is_zero_ = !op_.has(5);
    Vec<Node> steps(op_.heap());
    op_.fail(steps.resize(static_cast<size_t>(steps_), nullptr));
    for (Word i = 0; i < steps_ && op_.ok(); ++i) {
      const Word t = backward ? steps_ - 1 - i : i;
      const Expr gates{&g_, tensor::select(g_, all.n, 0, t)};
      Expr next = h, next_cell = c;
      step(d, gates, r, recurrent_bias, h, c, &next, &next_cell);
      Expr shown = next;
      if (lengths_.n != nullptr) {
        const Expr on = static_cast<double>(t) < lengths_;
        shown = uop::where(on, next, next.like(0));
        next = uop::where(on, next, h);
        if (kind_ == kLstm) next_cell = uop::where(on, next_cell, c);
      }
      h = next;
      c = next_cell;
      state_is_zero_ = false;
      if (shown.n == nullptr) return op_.fail(last_failure());
      steps[static_cast<size_t>(t)] = shown.n;
    }
    if (!op_.ok()) return;
    op_.fail(outputs_.push(stacked(steps, 0)));
    op_.fail(states_.push(h.n));
    if (kind_ == kLstm) op_.fail(cells_.push(c.n));
  }

  // x + h r, where h is the state, or made of it: its beginning makes no product of zeros, which
  // would be computed of the weights whenever the model is loaded.
  Expr plus_recurrent(Expr x, Node h, Node r) {
    return state_is_zero_ ? x : x + Expr{&g_, tensor::matmul(g_, h, r)};
  }

  void step(Word d, Expr gates, Node r, Expr bias, Expr h, Expr c, Expr* next, Expr* cell) {
    if (kind_ == kGru) {
      *next = gru(d, gates, r, bias, h);
      return;
    }
    Expr all = plus_recurrent(gates, h.n, r);
    if (bias.n != nullptr) all = all + bias;
    if (kind_ == kRnn) {
      *next = act(d, 0, all);
      return;
    }
    Expr pi{&g_, nullptr}, po = pi, pf = pi;
    if (op_.has(7)) {
      const Expr p{&g_, tensor::select(g_, op_.in(7), 0, d)};
      pi = part(p, 0);
      po = part(p, 1);
      pf = part(p, 2);
    }
    const auto peep = [&](Expr gate, Expr weight, Expr at) {
      return weight.n == nullptr ? gate : gate + weight * at;
    };
    const Expr i = act(d, 0, peep(part(all, 0), pi, c));
    const Expr f = coupled_ ? 1.0 - i : act(d, 0, peep(part(all, 2), pf, c));
    *cell = f * c + i * act(d, 1, part(all, 3));
    const Expr o = act(d, 0, peep(part(all, 1), po, *cell));
    *next = o * activated(op_, activation(d, 2), *cell);
  }

  Expr gru(Word d, Expr gates, Node r, Expr bias, Expr h) {
    const Word both = 2 * hidden_, whole = 3 * hidden_;
    const auto columns = [&](Word from, Word to) {
      return r == nullptr ? nullptr : tensor::cut_axis(g_, r, 1, from, to);
    };
    Expr zr =
        plus_recurrent({&g_, tensor::cut_axis(g_, gates.n, 1, 0, both)}, h.n, columns(0, both));
    if (bias.n != nullptr) zr = zr + Expr{&g_, tensor::cut_axis(g_, bias.n, 0, 0, both)};
    const Expr z = act(d, 0, part(zr, 0)), reset = act(d, 0, part(zr, 1));
    const Expr last = bias.n == nullptr ? bias : part(bias, 2);
    Expr inner = part(gates, 2);
    if (linear_) {
      Expr turned = last;
      if (!state_is_zero_) {
        turned = {&g_, tensor::matmul(g_, h.n, columns(both, whole))};
        if (last.n != nullptr) turned = turned + last;
      }
      if (turned.n != nullptr) inner = inner + reset * turned;
    } else {
      inner = plus_recurrent(inner, (reset * h).n, columns(both, whole));
      if (last.n != nullptr) inner = inner + last;
    }
    const Expr candidate = act(d, 1, inner);
    return (1.0 - z) * candidate + z * h;
  }

  Op& op_;
  Graph& g_;
  Kind kind_;
  Word gates_;
  size_t per_direction_;
  Vec<Node> outputs_, states_, cells_;
  Node x_ = nullptr, w_ = nullptr, r_ = nullptr;
  Expr lengths_{};
  Word hidden_ = 0, steps_ = 0, batch_ = 0;
  double clip_ = 0;
  bool batch_first_ = false, backward_ = false, linear_ = false, coupled_ = false;
  bool state_is_zero_ = false;  // before the first step, where none is given
};

}  // namespace

namespace build {
void rnn(Op& op) { Recurrent(op, Recurrent::kRnn).run(); }
void gru(Op& op) { Recurrent(op, Recurrent::kGru).run(); }
void lstm(Op& op) { Recurrent(op, Recurrent::kLstm).run(); }
}  // namespace build
}  // namespace aster::nn::onnx
