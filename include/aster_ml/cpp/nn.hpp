/* Layers, states and optimisers of the C++ wrapper; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_NN_HPP
#define ASTER_ML_CPP_NN_HPP

#include "aster_ml/cpp/tensor.hpp"

namespace aster_ml {
namespace nn {

/* ---- Layers ---- */

/* A reference to a layer: copies share the parameters. */
class Layer {
 public:
  Layer() = default;
  bool ok() const { return !layer_.empty(); }
  aster_ml_layer* get() const { return layer_.get(); }
  detail::Root root() const { return layer_.needed(); }
  /* y of the layer; it trains while Tensor::training() says so. */
  Tensor operator()(const Operand& x) const {
    aster_ml_lazy out{};
    const Tensor given = x.tensor_with(x);
    if (!detail::there(*this, "Layer") || !detail::there(given, "Layer")) return {};
    const int32_t training = Tensor::training() ? 1 : 0;
    if (!detail::good(aster_ml_layer_run(&out, get(), given.get(), training))) return {};
    return Tensor(std::move(out), root());
  }
  /* A parameter by its name: "weight", "bias", "running_mean", ... */
  Tensor parameter(const char* name) const {
    aster_ml_lazy out{};
    if (!detail::good(aster_ml_layer_get(&out, get(), name))) return {};
    return Tensor(std::move(out), root());
  }
  Tensor weight() const { return parameter("weight"); }
  Tensor bias() const { return parameter("bias"); }

 protected:
  template <class Function, class... Arguments>
  explicit Layer(Function init, Arguments... arguments) {
    make(init, arguments...);
  }
  template <class Function>
  void convolution(Function init, const char* name, int64_t inputs, int64_t outputs,
                   const std::vector<int64_t>& kernel, const Windows& how, bool bias) {
    const detail::Spread spread(name, kernel.size(), how);
    if (!spread.ok()) return;
    const aster_ml_conv_options options = spread.conv(how);
    make(init, inputs, outputs, kernel.size(), kernel.data(), bias ? 1 : 0, &options);
  }

 private:
  template <class Function, class... Arguments>
  void make(Function init, Arguments... arguments) {
    const Context& context = Context::current();
    aster_ml_layer made{};
    if (context.ok() && detail::good(init(&made, context.get(), arguments...))) {
      layer_ = {std::move(made), context.root()};
    }
  }
  detail::Shared<aster_ml_layer, detail::Root> layer_;
};

/* y = x weight^T + bias. */
struct Linear : Layer {
  Linear(int64_t inputs, int64_t outputs, bool bias = true)
      : Layer(aster_ml_linear_init, inputs, outputs, bias ? 1 : 0) {}
};

/* Cross-correlation with a kernel on as many axes as it has sizes; a number is for two. */
struct Conv2d : Layer {
  Conv2d(int64_t inputs, int64_t outputs, const Dims& kernel, const Windows& how = {},
         bool bias = true) {
    convolution(aster_ml_conv_init, "Conv2d", inputs, outputs, detail::kernel_of(kernel), how,
                bias);
  }
};
struct Conv1d : Conv2d {
  Conv1d(int64_t inputs, int64_t outputs, int64_t kernel, const Windows& how = {}, bool bias = true)
      : Conv2d(inputs, outputs, {kernel}, how, bias) {}
};

/* Its transpose. */
struct ConvTranspose2d : Layer {
  ConvTranspose2d(int64_t inputs, int64_t outputs, const Dims& kernel, const Windows& how = {},
                  bool bias = true) {
    convolution(aster_ml_conv_transpose_init, "ConvTranspose2d", inputs, outputs,
                detail::kernel_of(kernel), how, bias);
  }
};
struct ConvTranspose1d : ConvTranspose2d {
  ConvTranspose1d(int64_t inputs, int64_t outputs, int64_t kernel, const Windows& how = {},
                  bool bias = true)
      : ConvTranspose2d(inputs, outputs, {kernel}, how, bias) {}
};

/* Normalised by channel over the batch, or by running statistics where it does not train. */
struct BatchNorm : Layer {
  explicit BatchNorm(int64_t channels, double eps = 1e-5, bool affine = true,
                     bool track_running_stats = true, double momentum = 0.1)
      : BatchNorm(channels, options(eps, affine, track_running_stats, momentum)) {}

 private:
  BatchNorm(int64_t channels, const aster_ml_batch_norm_options& options)
      : Layer(aster_ml_batch_norm_init, channels, &options) {}
  static aster_ml_batch_norm_options options(double eps, bool affine, bool track, double momentum) {
    aster_ml_batch_norm_options out{};
    out.struct_size = sizeof(out);
    out.no_affine = affine ? 0 : 1;
    out.no_track = track ? 0 : 1;
    out.eps = eps;
    out.momentum = momentum;
    return out;
  }
};

struct GroupNorm : Layer {
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5, bool affine = true)
      : Layer(aster_ml_group_norm_init, groups, channels, eps, affine ? 1 : 0) {}
};
struct InstanceNorm : Layer {
  explicit InstanceNorm(int64_t channels, double eps = 1e-5, bool affine = true)
      : Layer(aster_ml_instance_norm_init, channels, eps, affine ? 1 : 0) {}
};
struct LayerNorm : Layer {
  LayerNorm(std::initializer_list<int64_t> shape, double eps = 1e-5, bool affine = true)
      : Layer(aster_ml_layer_norm_init, shape.size(), shape.begin(), eps, affine ? 1 : 0) {}
  explicit LayerNorm(int64_t size, double eps = 1e-5, bool affine = true)
      : LayerNorm({size}, eps, affine) {}
};
struct LayerNorm2d : Layer {
  explicit LayerNorm2d(int64_t channels, double eps = 1e-5, bool affine = true)
      : Layer(aster_ml_layer_norm2d_init, channels, eps, affine ? 1 : 0) {}
};
struct RMSNorm : Layer {
  explicit RMSNorm(int64_t size, double eps = 1e-6, bool affine = true)
      : Layer(aster_ml_rms_norm_init, size, eps, affine ? 1 : 0) {}
};
struct Embedding : Layer {
  Embedding(int64_t rows, int64_t size) : Layer(aster_ml_embedding_init, rows, size) {}
};

/* One step at a time: h and c of the step before, or empty tensors, to those of this one. */
struct LSTMCell : Layer {
  LSTMCell(int64_t inputs, int64_t hidden, bool bias = true)
      : Layer(aster_ml_lstm_cell_init, inputs, hidden, bias ? 1 : 0) {}
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& h, const Tensor& c) const {
    aster_ml_lazy out_h{}, out_c{};
    if (!detail::good(aster_ml_lstm_cell_run(&out_h, &out_c, get(), x.get(), h.get(), c.get()))) {
      return {};
    }
    return {Tensor(std::move(out_h), root()), Tensor(std::move(out_c), root())};
  }
  std::pair<Tensor, Tensor> operator()(const Tensor& x) const {
    aster_ml_lazy out_h{}, out_c{};
    if (!detail::good(aster_ml_lstm_cell_run(&out_h, &out_c, get(), x.get(), nullptr, nullptr))) {
      return {};
    }
    return {Tensor(std::move(out_h), root()), Tensor(std::move(out_c), root())};
  }
};

/* ---- States ---- */

class Optimizer;

/* A reference to tensors by name. */
class State {
 public:
  /* No tensors yet. */
  State() {
    const Context& context = Context::current();
    aster_ml_state made{};
    if (context.ok() && detail::good(aster_ml_state_init(&made, context.get()))) {
      state_ = {std::move(made), context.root()};
    }
  }
  /* The parameters of layers, by a prefix each; empty where one fails. */
  State(std::initializer_list<std::pair<const char*, Layer>> layers) : State() {
    for (const auto& [prefix, layer] : layers) {
      if (set(prefix, layer)) continue;
      state_ = {};
      return;
    }
  }
  bool ok() const { return !state_.empty(); }
  aster_ml_state* get() const { return state_.get(); }
  detail::Root root() const { return state_.needed(); }

  bool set(const char* name, const Tensor& x, bool trained = false) const {
    return detail::there(x, "set") && detail::there(*this, "set") &&
           detail::good(aster_ml_state_set(get(), name, x.get(), trained ? 1 : 0));
  }
  bool set(const char* prefix, const Layer& layer) const {
    return detail::there(layer, "set") && detail::there(*this, "set") &&
           detail::good(aster_ml_state_set_layer(get(), prefix, layer.get()));
  }
  inline bool set(const char* prefix, const Optimizer& optimizer) const;

  size_t size() const { return aster_ml_state_count(get()); }
  /* Null for an index out of bounds. */
  const char* name(size_t index) const { return aster_ml_state_name(get(), index); }
  Tensor operator[](const char* name) const {
    aster_ml_lazy out{};
    if (!detail::good(aster_ml_state_get(&out, get(), name))) return {};
    return Tensor(std::move(out), root());
  }
  bool set_metadata(const char* key, const char* text) const {
    return detail::good(aster_ml_state_set_metadata(get(), key, text));
  }
  /* Null where there is none. */
  const char* metadata(const char* key) const {
    const char* out = nullptr;
    return detail::good(aster_ml_state_get_metadata(&out, get(), key)) ? out : nullptr;
  }
  bool realize() const { return detail::good(aster_ml_state_realize(get())); }
  /* Copies the elements of another state into these tensors, name by name. */
  bool load(const State& source) const {
    return detail::good(aster_ml_state_load(get(), source.get()));
  }
  /* As a safetensors file. */
  bool write(const char* path) const { return detail::good(aster_ml_state_write(get(), path)); }

  /* Files, mapped; empty where that fails. */
  static State read(const char* path) { return of(aster_ml_state_read, path); }
  static State read_torch(const char* path) { return of(aster_ml_state_read_torch, path); }
  static State read_torch_skipping(const char* path) {
    return of(aster_ml_state_read_torch_skipping, path);
  }
  static State read_zip(const char* path) { return of(aster_ml_state_read_zip, path); }
  static State read_tar(const char* path) { return of(aster_ml_state_read_tar, path); }
  /* The same of bytes: tensors of uint8. */
  static State from_safetensors(const Tensor& x) {
    return of_bytes(aster_ml_state_from_safetensors, x);
  }
  static State from_torch(const Tensor& x) { return of_bytes(aster_ml_state_from_torch, x); }
  static State from_torch_skipping(const Tensor& x) {
    return of_bytes(aster_ml_state_from_torch_skipping, x);
  }
  static State from_zip(const Tensor& x) { return of_bytes(aster_ml_state_from_zip, x); }
  static State from_tar(const Tensor& x) { return of_bytes(aster_ml_state_from_tar, x); }

 private:
  State(aster_ml_state&& made, const detail::Root& root, bool good) {
    if (good) state_ = {std::move(made), root};
  }
  template <class Function>
  static State of(Function function, const char* path) {
    const Context& context = Context::current();
    aster_ml_state made{};
    const bool good = context.ok() && detail::good(function(&made, context.get(), path));
    return State(std::move(made), context.root(), good);
  }
  template <class Function>
  static State of_bytes(Function function, const Tensor& bytes) {
    aster_ml_state made{};
    const bool good = detail::good(function(&made, bytes.get()));
    return State(std::move(made), bytes.root(), good);
  }
  detail::Shared<aster_ml_state, detail::Root> state_;
};

/* ---- Optimisers ---- */

/* A reference to an optimiser of the trained tensors of a state. */
class Optimizer {
 public:
  Optimizer() = default;
  bool ok() const { return !optimizer_.empty(); }
  aster_ml_optimizer* get() const { return optimizer_.get(); }
  detail::Root root() const { return optimizer_.needed(); }

  /* Updates by the gradients of loss, and computes both together. */
  bool step(const Tensor& loss) const {
    return detail::there(loss, "step") && detail::there(*this, "step") &&
           detail::good(aster_ml_optimizer_step(get(), loss.get()));
  }
  /* By gradients that the caller brings, in the order of parameters(). */
  bool step(const std::vector<Tensor>& gradients) const {
    const Tensors given(gradients);
    return detail::good(aster_ml_optimizer_step_by(get(), given.data(), given.size()));
  }
  /* The same, to be computed by realize. */
  bool schedule(const std::vector<Tensor>& gradients) const {
    const Tensors given(gradients);
    return detail::good(aster_ml_optimizer_schedule_by(get(), given.data(), given.size()));
  }
  bool realize() const {
    const aster_ml_optimizer* const self = get();
    return detail::good(aster_ml_optimizer_realize(&self, 1));
  }
  /* One step of several by one loss. */
  static bool step(const std::vector<Optimizer>& optimizers, const Tensor& loss) {
    std::vector<const aster_ml_optimizer*> handles;
    for (const Optimizer& one : optimizers) handles.push_back(one.get());
    return detail::there(loss, "step") &&
           detail::good(aster_ml_optimizer_step_group(handles.data(), handles.size(), loss.get()));
  }
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> out;
    for (size_t i = 0; i < aster_ml_optimizer_count(get()); ++i) {
      aster_ml_lazy made{};
      if (!detail::good(aster_ml_optimizer_get(&made, get(), i))) return {};
      out.push_back(Tensor(std::move(made), root()));
    }
    return out;
  }
  /* The learning rate, a tensor [1]. */
  Tensor rate() const {
    aster_ml_lazy out{};
    if (!detail::good(aster_ml_optimizer_get_rate(&out, get()))) return {};
    return Tensor(std::move(out), root());
  }
  bool set_rate(double rate) const {
    return detail::good(aster_ml_optimizer_set_rate(get(), rate));
  }

 protected:
  template <class Function, class Options>
  Optimizer(Function init, const State& state, Options options) {
    options.struct_size = sizeof(options);
    aster_ml_optimizer made{};
    if (detail::there(state, "Optimizer") && detail::good(init(&made, state.get(), &options))) {
      optimizer_ = {std::move(made), state.root()};
    }
  }
  /* As the options of C spell a number that may be 0. */
  static double exact(double value) { return value == 0 ? -0.0 : value; }
  static aster_ml_adam_options adam(double lr, double b1, double b2, double eps, double decay) {
    aster_ml_adam_options out{};
    out.rate = exact(lr);
    out.beta1 = exact(b1);
    out.beta2 = exact(b2);
    out.eps = exact(eps);
    out.weight_decay = decay;
    return out;
  }

 private:
  detail::Shared<aster_ml_optimizer, detail::Root> optimizer_;
};

struct SGD : Optimizer {
  explicit SGD(const State& state, double lr = 0.001, double momentum = 0, double weight_decay = 0,
               bool nesterov = false, bool classic = false)
      : Optimizer(aster_ml_sgd_init, state,
                  options(lr, momentum, weight_decay, nesterov, classic)) {}

 private:
  static aster_ml_sgd_options options(double lr, double momentum, double weight_decay,
                                      bool nesterov, bool classic) {
    aster_ml_sgd_options out{};
    out.rate = exact(lr);
    out.momentum = momentum;
    out.weight_decay = weight_decay;
    out.nesterov = nesterov ? 1 : 0;
    out.classic = classic ? 1 : 0;
    return out;
  }
};

struct LARS : Optimizer {
  explicit LARS(const State& state, double lr = 0.001, double momentum = 0.9,
                double weight_decay = 1e-4, bool nesterov = false, bool classic = true,
                double tcoef = 0.001)
      : Optimizer(aster_ml_lars_init, state,
                  options(lr, momentum, weight_decay, nesterov, classic, tcoef)) {}

 private:
  static aster_ml_lars_options options(double lr, double momentum, double weight_decay,
                                       bool nesterov, bool classic, double tcoef) {
    aster_ml_lars_options out{};
    out.rate = exact(lr);
    out.momentum = exact(momentum);
    out.weight_decay = exact(weight_decay);
    out.trust = exact(tcoef);
    out.nesterov = nesterov ? 1 : 0;
    out.not_classic = classic ? 0 : 1;
    return out;
  }
};

struct Muon : Optimizer {
  explicit Muon(const State& state, double lr = 0.001, double momentum = 0.95,
                double weight_decay = 0.1, int32_t ns_steps = 5, bool nesterov = true)
      : Optimizer(aster_ml_muon_init, state,
                  options(lr, momentum, weight_decay, ns_steps, nesterov)) {}

 private:
  static aster_ml_muon_options options(double lr, double momentum, double weight_decay,
                                       int32_t ns_steps, bool nesterov) {
    aster_ml_muon_options out{};
    out.rate = exact(lr);
    out.momentum = exact(momentum);
    out.weight_decay = exact(weight_decay);
    out.steps = ns_steps == 0 ? -1 : ns_steps;
    out.no_nesterov = nesterov ? 0 : 1;
    return out;
  }
};

struct Adam : Optimizer {
  explicit Adam(const State& state, double lr = 0.001, double b1 = 0.9, double b2 = 0.999,
                double eps = 1e-8)
      : Optimizer(aster_ml_adam_init, state, adam(lr, b1, b2, eps, 0)) {}
};
struct AdamW : Optimizer {
  explicit AdamW(const State& state, double lr = 0.001, double b1 = 0.9, double b2 = 0.999,
                 double eps = 1e-8, double weight_decay = 0.01)
      : Optimizer(aster_ml_adam_init, state, adam(lr, b1, b2, eps, weight_decay)) {}
};
struct LAMB : Optimizer {
  explicit LAMB(const State& state, double lr = 0.001, double b1 = 0.9, double b2 = 0.999,
                double eps = 1e-6, double weight_decay = 0)
      : Optimizer(aster_ml_lamb_init, state, adam(lr, b1, b2, eps, weight_decay)) {}
};

inline bool State::set(const char* prefix, const Optimizer& optimizer) const {
  return detail::good(aster_ml_state_set_optimizer(get(), prefix, optimizer.get()));
}

}  // namespace nn
}  // namespace aster_ml

#endif
