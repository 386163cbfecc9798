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

using Tensors = std::vector<T>;

T labels(Session& s, int32_t count, int32_t classes) {
  std::vector<int32_t> values;
  for (int32_t i = 0; i < count; ++i) values.push_back(i % classes);
  return from(s, values, {count});
}
T positive(Session& s, const Shape& shape, uint32_t seed) {
  T x = square(data(s, shape, seed));
  realize({&x});
  return x;
}
T transpose(T a) {
  const int64_t n = static_cast<int64_t>(aster_ml_lazy_ndim(&a.h));
  Shape axes;
  for (int64_t i = 0; i < n; ++i) axes.push_back(i);
  std::swap(axes[static_cast<size_t>(n - 1)], axes[static_cast<size_t>(n - 2)]);
  return permute(a, axes);
}
T conv(T x, T w, const T* bias = nullptr) {
  aster_ml_conv2d_options options{};
  options.struct_size = sizeof(options);
  for (int32_t& padding : options.padding) padding = 1;
  return make(aster_ml_lazy_conv2d, &x.h, &w.h, bias != nullptr ? &bias->h : nullptr, &options);
}
T max_pool(T x) { return make(aster_ml_lazy_max_pool2d, &x.h, nullptr); }
T cross_entropy(T x, T y) { return make(aster_ml_lazy_cross_entropy, &x.h, &y.h, nullptr); }
Tensors gradients(T loss, const Tensors& targets) {
  std::vector<const aster_ml_lazy*> handles;
  for (const T& target : targets) handles.push_back(&target.h);
  std::vector<aster_ml_lazy> out(targets.size());
  EXPECT_OK(aster_ml_gradient(out.data(), &loss.h, handles.data(), handles.size(), nullptr));
  Tensors result;
  for (const aster_ml_lazy& handle : out) result.push_back(T{handle});
  return result;
}
void assign(T& target, T value) { EXPECT_OK(aster_ml_lazy_assign(&target.h, &value.h)); }

T square_data(Session& s, uint32_t seed = 1) { return data(s, {64, 64}, seed); }

struct Program {
  const char* name;
  uint64_t kernels;  // ours
  std::function<Tensors(Session&)> build;
};

Tensors adam(Session& s) {
  T p = data(s, {64, 32}), g = data(s, {64, 32}, 2), m = data(s, {64, 32}, 3),
    v = positive(s, {64, 32}, 4);
  assign(m, m * number(s, 0.9) + g * number(s, 0.1));
  assign(v, v * number(s, 0.999) + g * g * number(s, 0.001));
  assign(p, p - number(s, 0.001) * m / (sqrt(v) + number(s, 1e-8)));
  return {p, m, v};
}

Tensors training_step(Session& s) {
  T x = data(s, {16, 1, 8, 8}), w = data(s, {8, 1, 3, 3}, 2), b = data(s, {8}, 3),
    f = data(s, {128, 10}, 4);
  T y = labels(s, 16, 10);
  T h = max_pool(relu(conv(x, w, &b)));
  T loss = cross_entropy(matmul(reshape(h, {16, 128}), f), y);
  const Tensors grads = gradients(loss, {w, b, f});
  assign(w, w - grads[0] * number(s, 0.1));
  assign(b, b - grads[1] * number(s, 0.1));
  assign(f, f - grads[2] * number(s, 0.1));
  return {loss, w, b, f};
}

Tensors perceptron_gradients(Session& s) {
  T x = data(s, {32, 16}), w0 = data(s, {16, 24}, 2), w1 = data(s, {24, 10}, 3),
    y = labels(s, 32, 10);
  T loss = cross_entropy(matmul(relu(matmul(x, w0)), w1), y);
  Tensors out = gradients(loss, {w0, w1});
  out.insert(out.begin(), loss);
  return out;
}

Tensors batch_norm(Session& s) {
  T x = data(s, {16, 8, 4, 4}), w = data(s, {8}), b = data(s, {8}, 2);
  T average = mean(x, {0, 2, 3});
  T variance = mean(square(x - reshape(average, {1, 8, 1, 1})), {0, 2, 3});
  T deviation = sqrt(variance + number(s, 1e-5));
  T inverse = make(aster_ml_lazy_reciprocal, &deviation.h);
  return {make(aster_ml_lazy_batch_norm, &x.h, &w.h, &b.h, &average.h, &inverse.h)};
}

const std::vector<Program> kPrograms = {
    {"add", 1, [](Session& s) { return Tensors{square_data(s) + square_data(s, 2)}; }},
    {"elementwise_chain", 1,
     [](Session& s) {
       T a = square_data(s), b = square_data(s, 2);
       return Tensors{((a + b) * a - b) / (a + number(s, 2))};
     }},
    {"gelu_affine", 1,
     [](Session& s) {
       T y = square_data(s) * data(s, {64}) + data(s, {64}, 2);
       return Tensors{make(aster_ml_lazy_gelu, &y.h) * data(s, {64}, 3)};
     }},
    {"sum_all", 1, [](Session& s) { return Tensors{sum(square_data(s))}; }},
    {"sum_rows", 1, [](Session& s) { return Tensors{sum(square_data(s), {1})}; }},
    {"sum_columns", 1, [](Session& s) { return Tensors{sum(square_data(s), {0})}; }},
    {"sum_large", 2,
     [](Session& s) {
       return Tensors{sum(data(s, {512, 512}))};
     }},
    {"mean_and_variance", 1,
     [](Session& s) {
       T x = square_data(s);
       const int64_t axis = 1;
       return Tensors{mean(x, {1}), make(aster_ml_lazy_var, &x.h, size_t{1}, &axis, 0, int64_t{1})};
     }},
    {"softmax", 1, [](Session& s) { return Tensors{softmax(square_data(s), 1)}; }},
    {"log_softmax", 1,
     [](Session& s) {
       T x = square_data(s);
       return Tensors{make(aster_ml_lazy_log_softmax, &x.h, int64_t{1})};
     }},
    {"logsumexp", 1,
     [](Session& s) {
       T x = square_data(s);
       const int64_t axis = 1;
       return Tensors{make(aster_ml_lazy_logsumexp, &x.h, size_t{1}, &axis, 0)};
     }},
    {"layer_norm", 1,
     [](Session& s) {
       T x = square_data(s), w = data(s, {64}), b = data(s, {64}, 2);
       return Tensors{make(aster_ml_lazy_layer_norm, &x.h, size_t{1}, &w.h, &b.h, 1e-5)};
     }},
    {"batch_norm_training", 1, batch_norm},
    {"cross_entropy", 2,
     [](Session& s) {
       return Tensors{cross_entropy(data(s, {64, 10}), labels(s, 64, 10))};
     }},
    {"matmul", 1, [](Session& s) { return Tensors{matmul(square_data(s), square_data(s, 2))}; }},
    {"matmul_bias_relu", 1,
     [](Session& s) {
       return Tensors{relu(matmul(square_data(s), square_data(s, 2)) + data(s, {64}))};
     }},
    {"matmul_transposed", 1,
     [](Session& s) { return Tensors{matmul(square_data(s), transpose(square_data(s, 2)))}; }},
    {"batched_matmul", 1,
     [](Session& s) {
       return Tensors{matmul(data(s, {4, 16, 16}), data(s, {4, 16, 16}, 2))};
     }},
    {"perceptron", 3,
     [](Session& s) {
       T h = relu(matmul(data(s, {16, 64}), data(s, {64, 32})));
       return Tensors{matmul(relu(matmul(h, data(s, {32, 32}, 2))), data(s, {32, 10}, 3))};
     }},
    {"convolution", 1,
     [](Session& s) {
       return Tensors{conv(data(s, {4, 3, 12, 12}), data(s, {8, 3, 3, 3}))};
     }},
    {"convolution_bias_relu", 1,
     [](Session& s) {
       T bias = data(s, {8});
       return Tensors{relu(conv(data(s, {4, 3, 12, 12}), data(s, {8, 3, 3, 3}), &bias))};
     }},
    {"convolution_pool", 2,
     [](Session& s) {
       T bias = data(s, {8});
       return Tensors{max_pool(relu(conv(data(s, {4, 3, 12, 12}), data(s, {8, 3, 3, 3}), &bias)))};
     }},
    {"max_pool", 1,
     [](Session& s) {
       return Tensors{max_pool(data(s, {4, 3, 12, 12}))};
     }},
    {"average_pool", 1,
     [](Session& s) {
       T x = data(s, {4, 3, 12, 12});
       return Tensors{make(aster_ml_lazy_avg_pool2d, &x.h, nullptr)};
     }},
    {"add_transposed", 1,
     [](Session& s) { return Tensors{square_data(s) + transpose(square_data(s, 2))}; }},
    {"pad_and_slice", 1,
     [](Session& s) {
       T x = square_data(s);
       const int64_t before[] = {1, 0}, after[] = {1, 0}, begin[] = {2, 0}, end[] = {66, 64};
       T padded = make(aster_ml_lazy_pad, &x.h, size_t{2}, before, after, nullptr);
       return Tensors{make(aster_ml_lazy_shrink, &padded.h, size_t{2}, begin, end) + x};
     }},
    {"concatenate", 1,
     [](Session& s) {
       T a = square_data(s), b = square_data(s, 2);
       const aster_ml_lazy* both[] = {&a.h, &b.h};
       return Tensors{make(aster_ml_lazy_cat, both, size_t{2}, int64_t{1}) * number(s, 2)};
     }},
    {"argmax_rows", 1,
     [](Session& s) {
       T x = square_data(s);
       return Tensors{make(aster_ml_lazy_argmax, &x.h, int64_t{1}, 0)};
     }},
    {"attention", 3,
     [](Session& s) {
       T q = data(s, {4, 16, 8}), k = data(s, {4, 16, 8}, 2), v = data(s, {4, 16, 8}, 3);
       T scores = matmul(q, transpose(k)) / number(s, std::sqrt(8.0));
       return Tensors{matmul(softmax(scores, -1), v)};
     }},
    {"assign_add", 1,
     [](Session& s) {
       T x = square_data(s);
       assign(x, x + number(s, 1));
       return Tensors{x};
     }},
    {"adam_step", 1, adam},
    {"regression_gradient", 3,
     [](Session& s) {
       T x = data(s, {32, 16}), w = data(s, {16, 4}), y = data(s, {32, 4}, 2);
       T loss = mean(square(matmul(x, w) - y));
       return Tensors{loss, gradients(loss, {w})[0]};
     }},
    {"perceptron_gradients", 8, perceptron_gradients},
    {"convolution_training_step", 13, training_step},
};

std::vector<float> numbers(T x) {
  T f = make(aster_ml_lazy_cast, &x.h, ASTER_ML_DTYPE_FLOAT32);
  return read(f);
}

std::vector<std::vector<float>> run(const Program& program, Session& s, uint64_t* kernels) {
  Tensors out = program.build(s);
  std::vector<aster_ml_lazy*> handles;
  for (T& t : out) handles.push_back(&t.h);
  EXPECT_OK(aster_ml_lazy_realize(handles.data(), handles.size()));
  *kernels = s.counters().last_kernels;
  std::vector<std::vector<float>> values;
  for (T t : out) values.push_back(numbers(t));
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
