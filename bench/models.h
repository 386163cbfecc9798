// The graphs that several benches share.
#pragma once

#include "aster.h"

namespace bench {

namespace nn = aster_ml::nn;

// 784-512-512-10, relu between the layers.
struct Perceptron {
  Tensor operator()(const Tensor& x) const {
    const Tensor hidden = (x.matmul(w0) + b0).relu();
    return (hidden.matmul(w1) + b1).relu().matmul(w2) + b2;
  }
  Tensor w0 = data({784, 512}, 10, 0.05f), b0 = data({512}, 20, 0.1f),
         w1 = data({512, 512}, 11, 0.05f), b1 = data({512}, 21, 0.1f),
         w2 = data({512, 10}, 12, 0.05f), b2 = data({10}, 22, 0.1f);
};

// Loss of the logits; the weights are updated and all is realised.
inline Tensor train(const nn::Optimizer& optimizer, const Tensor& logits, const Tensor& targets) {
  const Tensor loss = logits.cross_entropy(targets);
  check(optimizer.step(loss));
  return loss;
}

// The training step of `aster demo digits`: batches of 128 images of 8x8.
struct Digits {
  Tensor run(const Tensor& images, const Tensor& targets) const {
    const Tensor x = conv1(images.reshape({-1, 1, 8, 8})).relu().max_pool2d();
    const Tensor logits = linear(conv2(x).relu().max_pool2d().reshape({-1, 128}));
    return train(adam, logits, targets);
  }
  static aster_ml::Windows same() {
    aster_ml::Windows out;
    out.padding = {1};
    return out;
  }
  nn::Conv2d conv1{1, 16, 3, same()}, conv2{16, 32, 3, same()};
  nn::Linear linear{128, 10};
  nn::Adam adam{{{"1.", conv1}, {"2.", conv2}, {"3.", linear}}, 0.003};
};

// A step small enough to be run a hundred thousand times.
struct SmallStep {
  Tensor run(const Tensor& x, const Tensor& targets) const {
    return train(adam, last(first(x).relu()), targets);
  }
  nn::Linear first{16, 32}, last{32, 10};
  nn::Adam adam{{{"1.", first}, {"2.", last}}, 0.001};
};

// Pre-norm transformer blocks: attention and a perceptron with gelu, weights made once.
class Transformer {
 public:
  Transformer(int64_t layers, int64_t width, int64_t heads) : width_(width), heads_(heads) {
    for (int64_t i = 0; i < layers; ++i) {
      Block b;
      uint32_t seed = static_cast<uint32_t>(i * 20);
      for (Tensor* t : {&b.query, &b.key, &b.value, &b.out}) {
        *t = data({width, width}, ++seed, 0.05f);
      }
      b.up = data({width, 4 * width}, ++seed, 0.05f);
      b.down = data({4 * width, width}, ++seed, 0.05f);
      b.up_bias = data({4 * width}, ++seed, 0.05f);
      for (Tensor* t : {&b.gain1, &b.bias1, &b.gain2, &b.bias2, &b.down_bias}) {
        *t = data({width}, ++seed, 0.05f);
      }
      blocks_.push_back(b);
    }
  }
  // x [batch, length, width]
  Tensor operator()(Tensor x) const {
    for (const Block& b : blocks_) {
      x = x + attention(b, x.layer_norm(1, b.gain1, b.bias1));
      const Tensor inner = (x.layer_norm(1, b.gain2, b.bias2).matmul(b.up) + b.up_bias).gelu();
      x = x + (inner.matmul(b.down) + b.down_bias);
    }
    return x;
  }

 private:
  struct Block {
    Tensor query, key, value, out, up, down, up_bias, gain1, bias1, gain2, bias2, down_bias;
  };
  Tensor attention(const Block& b, const Tensor& x) const {
    const int64_t batch = x.dim(0), length = x.dim(1), each = width_ / heads_;
    const auto split = [&](const Tensor& weight) {
      return x.matmul(weight).reshape({batch, length, heads_, each}).permute({0, 2, 1, 3});
    };
    Tensor scores = split(b.query).matmul(split(b.key).transpose(2, 3));
    scores = (scores * (1 / __builtin_sqrt(static_cast<double>(each)))).softmax();
    const Tensor joined = scores.matmul(split(b.value)).permute({0, 2, 1, 3});
    return joined.reshape({batch, length, width_}).matmul(b.out);
  }

  int64_t width_, heads_;
  std::vector<Block> blocks_;
};

}  // namespace bench
