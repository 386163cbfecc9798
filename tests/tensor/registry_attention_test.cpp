// Forms of attention through the interpreter and compiled kernels, for vectors of 32 bytes and of
// what the CPU has, against plain loops; what they hold in memory.
#include "aster_ml/engine.h"
#include "aster_ml/linalg.h"
#include "aster_ml/registry.h"
#include "world.h"

namespace aster::tensor::test {
namespace {

using Floats = std::vector<float>;

Floats noise(int64_t count, uint32_t state) {
  Floats v(static_cast<size_t>(count));
  for (float& f : v) {
    state = state * 1664525 + 1013904223;
    f = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return v;
}

constexpr int64_t kHeads = 2, kWidth = 8;

struct Result {
  std::vector<double> y, slopes[3];
};

// softmax(q k^T / sqrt(8)) v with a causal mask, and the gradients of the sum of y dy.
Result by_loops(int64_t rows, int64_t columns, const Floats* in, const Floats& dy) {
  const auto at = [](const Floats& x, int64_t n, int64_t h, int64_t i, int64_t e) {
    return static_cast<double>(x[static_cast<size_t>((h * n + i) * kWidth + e)]);
  };
  Result out;
  out.y.resize(dy.size());
  for (size_t i = 0; i < 3; ++i) out.slopes[i].resize(in[i].size());
  const auto add = [](std::vector<double>& x, int64_t n, int64_t h, int64_t i, int64_t e,
                      double value) { x[static_cast<size_t>((h * n + i) * kWidth + e)] += value; };
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t seen = std::min(columns, i + 1);
      std::vector<double> p(static_cast<size_t>(seen)), dp(p.size());
      double total = 0, mean = 0;
      for (int64_t j = 0; j < seen; ++j) {
        double dot = 0;
        for (int64_t e = 0; e < kWidth; ++e)
          dot += at(in[0], rows, h, i, e) * at(in[1], columns, h, j, e);
        total += p[static_cast<size_t>(j)] = std::exp(dot / std::sqrt(kWidth));
      }
      for (int64_t j = 0; j < seen; ++j) {
        const auto n = static_cast<size_t>(j);
        p[n] /= total;
        for (int64_t e = 0; e < kWidth; ++e) {
          const double slope = at(dy, rows, h, i, e), value = at(in[2], columns, h, j, e);
          add(out.y, rows, h, i, e, p[n] * value);
          add(out.slopes[2], columns, h, j, e, p[n] * slope);
          dp[n] += slope * value;
        }
        mean += p[n] * dp[n];
      }
      for (int64_t j = 0; j < seen; ++j) {
        const auto n = static_cast<size_t>(j);
        const double ds = p[n] * (dp[n] - mean) / std::sqrt(kWidth);
        for (int64_t e = 0; e < kWidth; ++e) {
          add(out.slopes[0], rows, h, i, e, ds * at(in[1], columns, h, j, e));
          add(out.slopes[1], columns, h, j, e, ds * at(in[0], rows, h, i, e));
        }
      }
    }
  }
  return out;
}

// y and the gradients of q, k and v from dy.
void attend(const World& world, const char* form, const T& q, const T& k, const T& v, const T& dy,
            int causal, std::vector<T>* out) {
  const std::string policies = std::string(R"({"attention": ")") + form + "\"}";
  OK(aster_ml_registry_set_policies(world, policies.c_str()));
  out->resize(4);
  OK(aster_ml_lazy_scaled_dot_product_attention((*out)[0], q, k, v, nullptr, 0, causal, 0, 0));
  const aster_ml_lazy* const targets[] = {&q.x, &k.x, &v.x};
  aster_ml_lazy slopes[3] = {};
  aster_ml_gradient_options options{};
  options.struct_size = sizeof(options);
  options.seed = &dy.x;
  OK(aster_ml_gradient(slopes, (*out)[0], targets, 3, &options));
  for (size_t i = 0; i < 3; ++i) (*out)[i + 1].x = slopes[i];
}

struct Runtime {
  const char* name;
  bool interpreted;
  int32_t vector_bytes;
};
class Attention : public ::testing::TestWithParam<Runtime> {};
INSTANTIATE_TEST_SUITE_P(Runtimes, Attention,
                         ::testing::Values(Runtime{"interpreted", true, 0},
                                           Runtime{"compiled", false, 0},
                                           Runtime{"narrowed", false, 32}),
                         [](const auto& r) { return std::string(r.param.name); });

TEST_P(Attention, FormsAreWhatLoopsGive) {
  aster_ml_context_options options{};
  options.vector_bytes = GetParam().vector_bytes;
  const World world(GetParam().interpreted, options);
  const int64_t sizes[][2] = {{7, 1}, {129, 129}, {150, 201}, {201, 150}};
  for (const auto& [rows, columns] : sizes) {
    const Floats in[] = {noise(kHeads * rows * kWidth, 1), noise(kHeads * columns * kWidth, 2),
                         noise(kHeads * columns * kWidth, 3)};
    const Floats along = noise(kHeads * rows * kWidth, 4);
    const Result expected = by_loops(rows, columns, in, along);
    const T q = from(world, in[0], {kHeads, rows, kWidth}),
            k = from(world, in[1], {kHeads, columns, kWidth}),
            v = from(world, in[2], {kHeads, columns, kWidth}),
            dy = from(world, along, {kHeads, rows, kWidth});
    for (const char* form : {"default", "force=composed", "force=tiled", "force=streaming"}) {
      if (form[0] == 'f' && form[6] != 'c' && std::min(rows, columns) < 128) continue;
      std::vector<T> got;
      attend(world, form, q, k, v, dy, 1, &got);
      ASSERT_EQ(got.size(), 4u);
      for (size_t i = 0; i < 4; ++i) {
        const Floats values = got[i].floats();
        const std::vector<double>& wanted = i == 0 ? expected.y : expected.slopes[i - 1];
        ASSERT_EQ(values.size(), wanted.size());
        for (size_t n = 0; n < wanted.size(); ++n)
          ASSERT_NEAR(values[n], wanted[n], 2e-5)
              << form << " " << rows << " " << columns << " " << i << " " << n;
      }
    }
  }
}

// Bytes that 64 heads of so many rows and keys take.
double peak(const char* form, int64_t length, int causal, bool gradients) {
  const World world(false);
  const Shape shape{64, length, 4};
  const T q = from(world, noise(256 * length, 1), shape),
          k = from(world, noise(256 * length, 2), shape),
          v = from(world, noise(256 * length, 3), shape),
          dy = from(world, noise(256 * length, 4), shape);
  std::vector<T> out;
  attend(world, form, q, k, v, dy, causal, &out);
  const aster_ml_lazy* const asked[] = {&out[0].x, &out[1].x, &out[2].x, &out[3].x};
  size_t bytes = 0;
  EXPECT_EQ(aster_ml_engine_count_peak(&bytes, world, asked, gradients ? 4 : 1), 0) << message();
  return static_cast<double>(bytes);
}

TEST(AttentionMemory, IsLinearInTheLength) {
  for (const char* form : {"default", "force=streaming"}) {
    for (const int causal : {0, 1}) {
      for (const bool gradients : {false, true}) {
        const double half = peak(form, 2048, causal, gradients),
                     whole = peak(form, 4096, causal, gradients),
                     all = peak("force=composed", 4096, causal, gradients);
        EXPECT_LT(whole, 2.2 * half) << form << causal << gradients;
        EXPECT_LT(whole, 0.6 * all) << form << causal << gradients;
      }
    }
  }
}

}  // namespace
}  // namespace aster::tensor::test
