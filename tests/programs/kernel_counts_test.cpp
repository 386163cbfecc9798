// The number of kernels of named programs: ours is pinned, and at most tinygrad's
// (kernel_counts.tsv, written by kernel_counts.py from the live oracle). The values are held
// against the reference runtime.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

#include "aster.h"

namespace programs {
namespace {

using Tensors = std::vector<Tensor>;

Tensor labels(int32_t count, int32_t classes) {
  Ints values;
  for (int32_t i = 0; i < count; ++i) values.push_back(i % classes);
  return Tensor(values);
}
Tensor positive(const Shape& shape, uint32_t seed) { return data(shape, seed).square().realized(); }
Tensor conv(const Tensor& x, const Tensor& w, const aster_ml::Operand& bias = {}) {
  return x.conv2d(w, bias, {.padding = {1}});
}
Tensor square_data(uint32_t seed = 1) { return data({64, 64}, seed); }

struct Program {
  const char* name;
  uint64_t kernels;  // ours
  std::function<Tensors()> build;
};

Tensors adam() {
  Tensor p = data({64, 32}), g = data({64, 32}, 2), m = data({64, 32}, 3),
         v = positive({64, 32}, 4);
  EXPECT_OK(m.assign(m * 0.9 + g * 0.1));
  EXPECT_OK(v.assign(v * 0.999 + g * g * 0.001));
  EXPECT_OK(p.assign(p - 0.001 * m / (v.sqrt() + 1e-8)));
  return {p, m, v};
}

Tensors training_step() {
  Tensor x = data({16, 1, 8, 8}), w = data({8, 1, 3, 3}, 2), b = data({8}, 3),
         f = data({128, 10}, 4), y = labels(16, 10);
  Tensor h = conv(x, w, b).relu().max_pool2d();
  Tensor loss = h.reshape({16, 128}).matmul(f).cross_entropy(y);
  const Tensors grads = loss.gradient({w, b, f});
  EXPECT_OK(w -= grads[0] * 0.1);
  EXPECT_OK(b -= grads[1] * 0.1);
  EXPECT_OK(f -= grads[2] * 0.1);
  return {loss, w, b, f};
}

Tensors perceptron_gradients() {
  Tensor x = data({32, 16}), w0 = data({16, 24}, 2), w1 = data({24, 10}, 3);
  Tensor loss = x.matmul(w0).relu().matmul(w1).cross_entropy(labels(32, 10));
  Tensors out = loss.gradient({w0, w1});
  out.insert(out.begin(), loss);
  return out;
}

Tensor batch_norm() {
  Tensor x = data({16, 8, 4, 4}), w = data({8}), b = data({8}, 2);
  Tensor average = x.mean({0, 2, 3});
  Tensor variance = (x - average.reshape({1, 8, 1, 1})).square().mean({0, 2, 3});
  Tensor inverse = (variance + 1e-5).sqrt().reciprocal();
  return x.batchnorm(w, b, average, inverse);
}

Tensor pad_and_slice() {
  Tensor x = square_data();
  return x.pad({1, 0}, {1, 0}).shrink({2, 0}, {66, 64}) + x;
}

Tensor attention() {
  Tensor q = data({4, 16, 8}), k = data({4, 16, 8}, 2), v = data({4, 16, 8}, 3);
  return (q.matmul(k.transpose(-1, -2)) / std::sqrt(8.0)).softmax().matmul(v);
}

Tensors regression_gradient() {
  Tensor x = data({32, 16}), w = data({16, 4}), y = data({32, 4}, 2);
  Tensor loss = (x.matmul(w) - y).square().mean();
  return {loss, loss.gradient(w)};
}

// One result.
template <typename Body>
std::function<Tensors()> one(Body body) {
  return [body] { return Tensors{body()}; };
}

const std::vector<Program> kPrograms = {
    {"add", 1, one([] { return square_data() + square_data(2); })},
    {"elementwise_chain", 1, one([] {
       Tensor a = square_data(), b = square_data(2);
       return ((a + b) * a - b) / (a + 2);
     })},
    {"gelu_affine", 1,
     one([] { return (square_data() * data({64}) + data({64}, 2)).gelu() * data({64}, 3); })},
    {"sum_all", 1, one([] { return square_data().sum(); })},
    {"sum_rows", 1, one([] { return square_data().sum(1); })},
    {"sum_columns", 1, one([] { return square_data().sum(0); })},
    {"sum_large", 2, one([] {
       return data({512, 512}).sum();
     })},
    {"mean_and_variance", 1,
     [] {
       Tensor x = square_data();
       return Tensors{x.mean(1), x.var(1)};
     }},
    {"softmax", 1, one([] { return square_data().softmax(1); })},
    {"log_softmax", 1, one([] { return square_data().log_softmax(1); })},
    {"logsumexp", 1, one([] { return square_data().logsumexp(1); })},
    {"layer_norm", 1, one([] { return square_data().layer_norm(1, data({64}), data({64}, 2)); })},
    {"batch_norm_training", 1, one(batch_norm)},
    {"cross_entropy", 2, one([] {
       return data({64, 10}).cross_entropy(labels(64, 10));
     })},
    {"matmul", 1, one([] { return square_data().matmul(square_data(2)); })},
    {"matmul_bias_relu", 1,
     one([] { return (square_data().matmul(square_data(2)) + data({64})).relu(); })},
    {"matmul_transposed", 1, one([] { return square_data().matmul(square_data(2).T()); })},
    {"batched_matmul", 1, one([] {
       return data({4, 16, 16}).matmul(data({4, 16, 16}, 2));
     })},
    {"perceptron", 3, one([] {
       Tensor h = data({16, 64}).matmul(data({64, 32})).relu();
       return h.matmul(data({32, 32}, 2)).relu().matmul(data({32, 10}, 3));
     })},
    {"convolution", 1, one([] {
       return conv(data({4, 3, 12, 12}), data({8, 3, 3, 3}));
     })},
    {"convolution_bias_relu", 1, one([] {
       return conv(data({4, 3, 12, 12}), data({8, 3, 3, 3}), data({8})).relu();
     })},
    {"convolution_pool", 2, one([] {
       return conv(data({4, 3, 12, 12}), data({8, 3, 3, 3}), data({8})).relu().max_pool2d();
     })},
    {"max_pool", 1, one([] {
       return data({4, 3, 12, 12}).max_pool2d();
     })},
    {"average_pool", 1, one([] {
       return data({4, 3, 12, 12}).avg_pool2d();
     })},
    {"add_transposed", 1, one([] { return square_data() + square_data(2).T(); })},
    {"pad_and_slice", 1, one(pad_and_slice)},
    {"concatenate", 1, one([] {
       return Tensor::cat({square_data(), square_data(2)}, 1) * 2;
     })},
    {"argmax_rows", 1, one([] { return square_data().argmax(1); })},
    {"attention", 3, one(attention)},
    {"assign_add", 1, one([] { return square_data() += 1; })},
    {"adam_step", 1, adam},
    {"regression_gradient", 3, regression_gradient},
    {"perceptron_gradients", 8, perceptron_gradients},
    {"convolution_training_step", 11, training_step},
};

std::vector<Floats> run(const Program& program, const Session& s, uint64_t* kernels) {
  const Context here(s);
  const Tensors out = program.build();
  EXPECT_OK(aster_ml::realize(out));
  *kernels = s.counters().last_kernels;
  std::vector<Floats> values;
  for (const Tensor& x : out) values.push_back(read(x));
  return values;
}

class KernelCounts : public ::testing::TestWithParam<size_t> {};

TEST_P(KernelCounts, AtMostTinygrads) {
  const Program& program = kPrograms[GetParam()];
  const char* folder = std::getenv("ASTER_ML_TEST_DATA");
  std::ifstream table(std::string(folder != nullptr ? folder : "tests") +
                      "/programs/kernel_counts.tsv");
  std::map<std::string, uint64_t> tinygrad;
  std::string name;
  for (uint64_t count; table >> name >> count;) tinygrad[name] = count;
  ASSERT_EQ(tinygrad.count(program.name), 1u) << program.name;

  // Whether a product goes to BLAS depends on the machine, so the counts are those of generated
  // code.
  aster_ml_context_options generated{}, reference{};
  generated.no_library = 1;
  reference.compiler = "none";
  Session compiled(generated), interpreted(reference);
  uint64_t kernels = 0, none = 0;
  const auto got = run(program, compiled, &kernels);
  const std::string schedule = compiled.schedule();
  const auto expected = run(program, interpreted, &none);
  EXPECT_EQ(kernels, program.kernels) << program.name << "\n" << schedule;
  EXPECT_LE(kernels, tinygrad[program.name]) << program.name << "\n" << schedule;
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), expected[i].size());
    for (size_t k = 0; k < got[i].size(); ++k) {
      ASSERT_NEAR(got[i][k], expected[i][k], 2e-5 * (1 + std::fabs(expected[i][k])))
          << program.name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, KernelCounts, ::testing::Range<size_t>(0, kPrograms.size()),
                         [](const auto& param) {
                           return std::string(kPrograms[param.param].name);
                         });

}  // namespace
}  // namespace programs
