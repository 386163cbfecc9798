// The graphs that several benches share.
#pragma once

#include "aster.h"

namespace bench {

// 784-512-512-10 by default, relu between the layers.
struct Perceptron {
  explicit Perceptron(const Session& s, Shape sizes = {784, 512, 512, 10}) {
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      weights.push_back(data(s, {sizes[i], sizes[i + 1]}, static_cast<uint32_t>(10 + i), 0.05f));
      biases.push_back(data(s, {sizes[i + 1]}, static_cast<uint32_t>(20 + i), 0.1f));
    }
  }
  T operator()(T x) const {
    for (size_t i = 0; i < weights.size(); ++i) {
      x = matmul(x, weights[i]) + biases[i];
      if (i + 1 < weights.size()) x = relu(x);
    }
    return x;
  }
  std::vector<T> weights, biases;
};

// A network, its Adam, and one training step on a batch. The layers and the optimiser stay until
// the trainer ends.
class Trainer {
 public:
  explicit Trainer(Session& s) : s_(s) { check(aster_ml_state_init(&state_, &s.context)); }
  ~Trainer() {
    for (aster_ml_layer& layer : layers_) check(aster_ml_layer_free(&layer));
    check(aster_ml_optimizer_free(&adam_));
    check(aster_ml_state_free(&state_));
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  void conv(int64_t inputs, int64_t outputs) {
    aster_ml_conv2d_options same{};
    same.struct_size = sizeof(same);
    for (int32_t& side : same.padding) side = 1;
    add([&](aster_ml_layer* out) {
      return aster_ml_conv2d_init(out, &s_.context, inputs, outputs, 3, 3, 1, &same);
    });
  }
  void linear(int64_t inputs, int64_t outputs) {
    add([&](aster_ml_layer* out) {
      return aster_ml_linear_init(out, &s_.context, inputs, outputs, 1);
    });
  }
  // After the last layer.
  void optimize(double rate) {
    aster_ml_adam_options options{};
    options.struct_size = sizeof(options);
    options.rate = rate;
    check(aster_ml_adam_init(&adam_, &state_, &options));
  }
  T layer(size_t i, T x) const { return make(aster_ml_layer_run, &layers_[i], &x.h, 1); }

  // Loss of the logits; the weights are updated and all is realised.
  T step(T logits, T targets) const {
    T loss = make(aster_ml_lazy_cross_entropy, &logits.h, &targets.h,
                  static_cast<const aster_ml_cross_entropy_options*>(nullptr));
    check(aster_ml_optimizer_step(&adam_, &loss.h));
    return loss;
  }

 private:
  template <typename Init>
  void add(Init init) {
    aster_ml_layer layer{};
    check(init(&layer));
    layers_.push_back(layer);
    const std::string prefix = std::to_string(layers_.size()) + ".";
    check(aster_ml_state_set_layer(&state_, prefix.c_str(), &layer));
  }

  Session& s_;
  aster_ml_state state_{};
  aster_ml_optimizer adam_{};
  std::vector<aster_ml_layer> layers_;
};

// The training step of `aster demo digits`: batches of 128 images of 8x8.
struct Digits : Trainer {
  explicit Digits(Session& s) : Trainer(s) {
    conv(1, 16);
    conv(16, 32);
    linear(128, 10);
    optimize(0.003);
  }
  T logits(T images) const {
    T x = pool(relu(layer(0, reshape(images, {-1, 1, 8, 8}))));
    x = pool(relu(layer(1, x)));
    return layer(2, reshape(x, {-1, 128}));
  }
  T run(T images, T targets) const { return step(logits(images), targets); }

 private:
  static T pool(T x) {
    return make(aster_ml_lazy_max_pool2d, &x.h,
                static_cast<const aster_ml_pool2d_options*>(nullptr));
  }
};

// A step small enough to be run a hundred thousand times.
struct SmallStep : Trainer {
  explicit SmallStep(Session& s) : Trainer(s) {
    linear(16, 32);
    linear(32, 10);
    optimize(0.001);
  }
  T run(T x, T targets) const { return step(layer(1, relu(layer(0, x))), targets); }
};

// Pre-norm transformer blocks: attention and a perceptron with gelu, weights made once.
class Transformer {
 public:
  Transformer(const Session& s, int64_t layers, int64_t width, int64_t heads)
      : s_(s), width_(width), heads_(heads) {
    for (int64_t i = 0; i < layers; ++i) {
      Block b;
      uint32_t seed = static_cast<uint32_t>(i * 20);
      for (T* t : {&b.query, &b.key, &b.value, &b.out}) *t = data(s, {width, width}, ++seed, 0.05f);
      b.up = data(s, {width, 4 * width}, ++seed, 0.05f);
      b.down = data(s, {4 * width, width}, ++seed, 0.05f);
      b.up_bias = data(s, {4 * width}, ++seed, 0.05f);
      for (T* t : {&b.gain1, &b.bias1, &b.gain2, &b.bias2, &b.down_bias}) {
        *t = data(s, {width}, ++seed, 0.05f);
      }
      blocks_.push_back(b);
    }
  }
  // x [batch, length, width]
  T operator()(T x) const {
    for (const Block& b : blocks_) {
      x = x + attention(b, norm(x, b.gain1, b.bias1));
      x = x +
          (matmul(gelu(matmul(norm(x, b.gain2, b.bias2), b.up) + b.up_bias), b.down) + b.down_bias);
    }
    return x;
  }

 private:
  struct Block {
    T query, key, value, out, up, down, up_bias, gain1, bias1, gain2, bias2, down_bias;
  };
  static T norm(T x, T gain, T bias) {
    return make(aster_ml_lazy_layer_norm, &x.h, size_t{1}, &gain.h, &bias.h, 1e-5);
  }
  T attention(const Block& b, T x) const {
    const int64_t batch = aster_ml_lazy_dim(&x.h, 0), length = aster_ml_lazy_dim(&x.h, 1);
    const int64_t each = width_ / heads_;
    const auto split = [&](T weight) {
      return permute(reshape(matmul(x, weight), {batch, length, heads_, each}), {0, 2, 1, 3});
    };
    T scores = matmul(split(b.query), permute(split(b.key), {0, 1, 3, 2}));
    scores = softmax(scores * number(s_, 1 / __builtin_sqrt(static_cast<double>(each))));
    T joined = permute(matmul(scores, split(b.value)), {0, 2, 1, 3});
    return matmul(reshape(joined, {batch, length, width_}), b.out);
  }

  const Session& s_;
  int64_t width_, heads_;
  std::vector<Block> blocks_;
};

}  // namespace bench
