// Products, attention and decompositions against tinygrad's and NumPy's answers
// (oracle/make_linalg.py), by their laws, and by what they cost.
#include <algorithm>
#include <numeric>

#include "aster_ml/engine.h"
#include "aster_ml/linalg.h"
#include "linalg_world.h"

namespace aster::tensor::test {
namespace {

class Linalg : public ::testing::TestWithParam<bool> {
 protected:
  World world{GetParam()};

  // Gradients of sum(y * weights) by each input, as the oracle takes them.
  std::vector<T> gradients(const T& y, const std::vector<T>& inputs) {
    const T w = matrix(world, y.shape(), 9);
    T product, total;
    EXPECT_EQ(aster_ml_lazy_mul(product, y, w), 0) << message();
    EXPECT_EQ(aster_ml_lazy_sum(total, product, 0, nullptr, 0), 0) << message();
    std::vector<const aster_ml_lazy*> targets;
    for (const T& t : inputs) targets.push_back(t);
    std::vector<aster_ml_lazy> made(inputs.size());
    EXPECT_EQ(aster_ml_gradient(made.data(), total, targets.data(), targets.size(), nullptr), 0)
        << message();
    std::vector<T> result(inputs.size());
    for (size_t i = 0; i < made.size(); ++i) result[i].x = made[i];
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(Runtimes, Linalg, ::testing::Values(true, false), [](const auto& runtime) {
  return runtime.param ? "interpreted" : "compiled";
});

T einsum(const std::string& formula, const std::vector<T>& inputs, int32_t dtype = 0) {
  std::vector<const aster_ml_lazy*> list;
  for (const T& t : inputs) list.push_back(t);
  T out;
  EXPECT_EQ(aster_ml_lazy_einsum(out, formula.c_str(), list.data(), list.size(), dtype), 0)
      << formula << ": " << message();
  return out;
}

// What a row of the oracle gives; realised together, so that kernels are compiled together.
struct Case {
  std::vector<std::string> row;
  std::string what;
  T y;
  std::vector<T> gradients;
};
void realize(std::vector<Case>& cases) {
  std::vector<aster_ml_lazy*> all;
  for (Case& c : cases) {
    all.push_back(c.y);
    for (T& g : c.gradients) all.push_back(g);
  }
  ASSERT_EQ(aster_ml_lazy_realize(all.data(), all.size()), 0) << message();
}

TEST_P(Linalg, Einsum) {
  std::vector<Case> cases;
  for (const auto& row : oracle("einsum.tsv")) {
    Case c{row, row[0] + " " + row[1] + " " + row[2], {}, {}};
    std::vector<T> inputs;
    const auto shapes = split(row[3], ';');
    for (size_t i = 0; i < shapes.size(); ++i) {
      inputs.push_back(matrix(world, shape_of(shapes[i]), static_cast<int>(i) + 1, row[1]));
    }
    c.y = einsum(row[0], inputs, dtype_code(row[2]));
    ASSERT_NE(c.y.x.impl, nullptr);
    EXPECT_STREQ(aster_ml_dtype_name(c.y.dtype()), row[4].c_str()) << c.what;
    EXPECT_EQ(c.y.shape(), shape_of(row[5])) << c.what;
    if (row.size() > 7) c.gradients = gradients(c.y, inputs);
    cases.push_back(std::move(c));
  }
  realize(cases);
  for (Case& c : cases) {
    expect_near(c.y, c.row[6], c.row[1] == "float16" ? 2e-3 : 2e-6, c.what);
    for (size_t i = 0; i < c.gradients.size(); ++i)
      expect_near(c.gradients[i], c.row[7 + i], 2e-6, c.what + " gradient");
  }
}

// A second route to the letters that tinygrad mixes up: sums written out.
TEST_P(Linalg, EinsumTakesDiagonals) {
  const std::vector<float> v = matrix_values({3, 3, 4}, 1);
  std::vector<T> inputs;
  inputs.push_back(matrix(world, {3, 3, 4}, 1));
  T y = einsum("iij->ji", inputs);
  const std::vector<float> got = y.floats();
  for (size_t j = 0; j < 4; ++j) {
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(got[j * 3 + i], v[(i * 3 + i) * 4 + j]);
  }
}

TEST_P(Linalg, EinsumBroadcastsAxesOfOne) {
  std::vector<T> inputs;
  inputs.push_back(matrix(world, {2, 3, 1}, 1));
  inputs.push_back(matrix(world, {1, 4, 5}, 2));
  const std::vector<float> a = matrix_values({2, 3, 1}, 1), b = matrix_values({1, 4, 5}, 2);
  T y = einsum("bij,bjk->bik", inputs);
  ASSERT_EQ(y.shape(), (Shape{2, 3, 5}));
  const std::vector<float> got = y.floats();
  for (size_t n = 0; n < 2; ++n) {
    for (size_t i = 0; i < 3; ++i) {
      for (size_t k = 0; k < 5; ++k) {
        float sum = 0;
        for (size_t j = 0; j < 4; ++j) sum += a[n * 3 + i] * b[j * 5 + k];
        EXPECT_NEAR(got[(n * 3 + i) * 5 + k], sum, 1e-6);
      }
    }
  }
}

TEST_P(Linalg, EinsumOfNothing) {
  std::vector<T> inputs;
  inputs.push_back(matrix(world, {2, 0}, 1));
  inputs.push_back(matrix(world, {0, 3}, 2));
  EXPECT_EQ(einsum("ij,jk->ik", inputs).floats(), std::vector<float>(6, 0));
  EXPECT_EQ(einsum("ij,jk->jk", inputs).shape(), (Shape{0, 3}));
}

TEST(LinearAlgebra, EinsumRefuses) {
  const World world;
  const T a = matrix(world, {2, 3}, 1), b = matrix(world, {3, 4}, 2);
  const struct {
    const char* formula;
    int32_t status;
  } cases[] = {{"ij->ij", ASTER_ML_ARGUMENT},     {"ij,jk,kl->il", ASTER_ML_ARGUMENT},
               {"ij,jk->iz", ASTER_ML_ARGUMENT},  {"ij,jk->ii", ASTER_ML_ARGUMENT},
               {"ij,jk=ik", ASTER_ML_ARGUMENT},   {"ij,jk-ik", ASTER_ML_ARGUMENT},
               {"ij,j1->i1", ASTER_ML_ARGUMENT},  {"i..j,jk->ik", ASTER_ML_ARGUMENT},
               {"......,jk", ASTER_ML_ARGUMENT},  {"ij,jk->ik->i", ASTER_ML_ARGUMENT},
               {"ij,jk->i,k", ASTER_ML_ARGUMENT}, {"", ASTER_ML_SHAPE},
               {"i,jk->ik", ASTER_ML_SHAPE},      {"ijk,jk->ik", ASTER_ML_SHAPE},
               {"ij,ik->jk", ASTER_ML_SHAPE},     {"ii,jk->ik", ASTER_ML_SHAPE},
               {"i...,...->...", ASTER_ML_SHAPE}};
  for (const auto& c : cases) {
    const aster_ml_lazy* list[] = {a, b};
    T out;
    aster_ml_error_clear();
    EXPECT_EQ(aster_ml_lazy_einsum(out, c.formula, list, 2, 0), c.status) << c.formula;
    EXPECT_EQ(out.x.impl, nullptr) << c.formula;
    EXPECT_NE(message().find(std::string("\"") + c.formula + "\""), std::string::npos) << message();
  }
}

TEST_P(Linalg, DotAndLinear) {
  const T a = matrix(world, {3, 4}, 1, "float16"), b = matrix(world, {4, 2}, 2, "float16");
  T wide, narrow, exact;
  OK(aster_ml_lazy_dot(wide, a, b, ASTER_ML_DTYPE_FLOAT32));
  OK(aster_ml_lazy_dot(narrow, a, b, 0));
  EXPECT_EQ(wide.dtype(), ASTER_ML_DTYPE_FLOAT32);
  EXPECT_EQ(narrow.dtype(), ASTER_ML_DTYPE_FLOAT16);
  const std::vector<float> got = wide.floats();
  T af, bf;
  OK(aster_ml_lazy_cast(af, a, ASTER_ML_DTYPE_FLOAT32));
  OK(aster_ml_lazy_cast(bf, b, ASTER_ML_DTYPE_FLOAT32));
  const std::vector<float> x = af.floats(), y = bf.floats();
  for (size_t i = 0; i < 3; ++i) {
    for (size_t k = 0; k < 2; ++k) {
      double sum = 0;
      for (size_t j = 0; j < 4; ++j) sum += static_cast<double>(x[i * 4 + j]) * y[j * 2 + k];
      EXPECT_NEAR(got[i * 2 + k], sum, 1e-6);
    }
  }
  const T w = matrix(world, {4}, 3), bias = matrix(world, {4}, 4);
  T scaled, plain;
  OK(aster_ml_lazy_linear(scaled, af, w, bias, 0));
  OK(aster_ml_lazy_linear(plain, af, bf, nullptr, ASTER_ML_DTYPE_FLOAT64));
  EXPECT_EQ(plain.dtype(), ASTER_ML_DTYPE_FLOAT64);
  EXPECT_EQ(plain.shape(), (Shape{3, 2}));
  const std::vector<float> s = scaled.floats(), ws = matrix_values({4}, 3),
                           bs = matrix_values({4}, 4);
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(s[i], x[i] * ws[i % 4] + bs[i % 4], 1e-6);
}

TEST_P(Linalg, Attention) {
  std::vector<Case> cases;
  for (const auto& row : oracle("attention.tsv")) {
    const std::string what = row[0] + " " + row[1] + " mask " + row[3] + " " + row[4] +
                             (row[5] == "1" ? " causal" : "") + (row[6] == "1" ? " grouped" : "");
    std::vector<T> inputs;
    for (size_t i = 0; i < 3; ++i)
      inputs.push_back(matrix(world, shape_of(row[i]), static_cast<int>(i) + 1));
    T mask;
    if (row[3] != "none") {
      const Shape shape = shape_of(row[3]);
      std::vector<float> v = matrix_values(shape, 4);
      if (row[4] == "bool") {
        std::vector<uint8_t> seen(v.size());
        for (size_t i = 0; i < v.size(); ++i)
          seen[i] = v[i] > -0.5f || i % static_cast<size_t>(shape.back()) == 0;
        mask = from(world, seen, shape, ASTER_ML_DTYPE_BOOL);
      } else {
        mask = from(world, v, shape);
      }
    }
    T y;
    OK(aster_ml_lazy_scaled_dot_product_attention(
        y, inputs[0], inputs[1], inputs[2],
        row[3] == "none" ? nullptr : static_cast<const aster_ml_lazy*>(mask), 0, row[5] == "1",
        row[6] == "1", 1));
    EXPECT_EQ(y.shape(), shape_of(row[7])) << what;
    Case c{row, what, std::move(y), {}};
    c.gradients = gradients(c.y, inputs);
    cases.push_back(std::move(c));
  }
  realize(cases);
  for (Case& c : cases) {
    expect_near(c.y, c.row[8], 2e-6, c.what);
    for (size_t i = 0; i < 3; ++i)
      expect_near(c.gradients[i], c.row[9 + i], 3e-6, c.what + " gradient");
  }
}

TEST_P(Linalg, AttentionDropsWeights) {
  // With values of one everywhere the result is the sum of the weights kept, scaled: 0 to 2.
  const T q = matrix(world, {1, 64, 8}, 1), k = matrix(world, {1, 64, 8}, 2);
  const T ones = from(world, std::vector<float>(64, 1), {1, 64, 1});
  T kept, all;
  OK(aster_ml_lazy_scaled_dot_product_attention(kept, q, k, ones, nullptr, 0.5, 0, 0, 1));
  OK(aster_ml_lazy_scaled_dot_product_attention(all, q, k, ones, nullptr, 0.5, 0, 0, 0));
  double sum = 0;
  for (float v : kept.floats()) sum += static_cast<double>(v);
  EXPECT_NEAR(sum / 64, 1, 0.1);
  for (float v : all.floats()) EXPECT_NEAR(v, 1, 1e-6);
}

// The softmax with scale and mask is one kernel between the two products.
TEST(LinearAlgebra, AttentionIsThreeKernels) {
  const World world(false);
  const T q = matrix(world, {2, 4, 64, 32}, 1), k = matrix(world, {2, 4, 64, 32}, 2),
          v = matrix(world, {2, 4, 64, 32}, 3);
  T y;
  OK(aster_ml_lazy_scaled_dot_product_attention(y, q, k, v, nullptr, 0, 1, 0, 0));
  (void)y.floats();
  aster_ml_engine_counters counters{};
  counters.struct_size = sizeof(counters);
  OK(aster_ml_engine_count(&counters, world));
  EXPECT_LE(counters.last_kernels, 3u);
}

// ---- Decompositions ----

// Double precision products of what was read.
using Matrix = std::vector<double>;
Matrix doubles(T& t) {
  if (t.dtype() == ASTER_ML_DTYPE_FLOAT64) return t.read<double>();
  const std::vector<float> v = t.floats();
  return Matrix(v.begin(), v.end());
}
// a [m, k] b [k, n], each possibly turned.
Matrix times(const Matrix& a, bool turn_a, const Matrix& b, bool turn_b, size_t m, size_t k,
             size_t n) {
  Matrix c(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t l = 0; l < k; ++l)
        c[i * n + j] +=
            (turn_a ? a[l * m + i] : a[i * k + l]) * (turn_b ? b[j * k + l] : b[l * n + j]);
    }
  }
  return c;
}
void expect_close(const Matrix& a, const Matrix& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << what << " at " << i;
}
Matrix unit(size_t n) {
  Matrix m(n * n);
  for (size_t i = 0; i < n; ++i) m[i * n + i] = 1;
  return m;
}

TEST_P(Linalg, DecompositionsAgreeWithTinygrad) {
  for (const auto& row : oracle("decompose.tsv")) {
    // Every shape has kernels of its own: a few of them are enough for the compiler.
    if (!GetParam() && row[1] != "3,5" && row[0].starts_with("svd")) continue;
    if (!GetParam() && row[0] == "qr" && row[1] != "5,3") continue;
    const Shape shape = shape_of(row[1]);
    const std::string what = row[0] + " of " + row[1];
    const T x = matrix(world, shape, 3);
    if (row[0] == "qr") {
      T q, r;
      OK(aster_ml_lazy_qr(q, r, x));
      expect_near(q, row[2], 1e-5, what + ", q");
      expect_near(r, row[3], 1e-5, what + ", r");
    } else if (row[0].starts_with("svd")) {
      T u, s, vt;
      // The signs of vectors are tinygrad's where parity is asked for.
      OK(aster_ml_context_set_strict_parity(world, 1));
      OK(aster_ml_lazy_svd(u, s, vt, x, row[0] == "svd1"));
      OK(aster_ml_context_set_strict_parity(world, 0));
      expect_near(u, row[2], 2e-4, what + ", u");
      expect_near(s, row[3], 1e-5, what + ", s");
      expect_near(vt, row[4], 2e-4, what + ", vt");
    } else if (row[0] == "newton_schulz") {
      std::vector<double> params;
      for (const std::string& p : split(row[3], ',')) params.push_back(std::stod(p));
      T y;
      OK(aster_ml_lazy_newton_schulz(y, x, std::stoll(row[2]), params.size(), params.data(), 1e-7));
      EXPECT_EQ(y.shape(), shape);
      expect_near(y, row[4], 1e-5, what);
    } else {
      ASSERT_EQ(row[0], "qr_gradient");
      T q, r, a, b, left, right, total;
      OK(aster_ml_lazy_qr(q, r, x));
      const T wq = matrix(world, {4, 4}, 5), wr = matrix(world, {4, 3}, 6);
      OK(aster_ml_lazy_mul(a, q, wq));
      OK(aster_ml_lazy_mul(b, r, wr));
      OK(aster_ml_lazy_sum(left, a, 0, nullptr, 0));
      OK(aster_ml_lazy_sum(right, b, 0, nullptr, 0));
      OK(aster_ml_lazy_add(total, left, right));
      const aster_ml_lazy* targets[] = {x};
      T g;
      OK(aster_ml_gradient(g, total, targets, 1, nullptr));
      expect_near(g, row[2], 1e-4, what);
    }
  }
}

TEST(LinearAlgebra, QrIsRight) {
  const World interpreted, compiled(false);
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{40, 24}, {24, 40}, {1, 5}, {5, 1}}) {
    for (const char* dtype : {"float32", "float64"}) {
      const double tolerance = std::string(dtype) == "float64" ? 1e-12 : 1e-5;
      const World& world = m == 24 ? compiled : interpreted;
      const std::string what = std::to_string(m) + "x" + std::to_string(n) + " " + dtype;
      T x = matrix(world, {m, n}, 3, dtype), q, r;
      OK(aster_ml_lazy_qr(q, r, x));
      const Matrix a = doubles(x), qs = doubles(q), rs = doubles(r);
      const size_t rows = static_cast<size_t>(m), columns = static_cast<size_t>(n);
      expect_close(times(qs, false, rs, false, rows, rows, columns), a, tolerance, what);
      expect_close(times(qs, true, qs, false, rows, rows, rows), unit(rows), tolerance, what);
      for (size_t i = 1; i < rows; ++i) {
        for (size_t j = 0; j < std::min(i, columns); ++j)
          EXPECT_NEAR(rs[i * columns + j], 0, tolerance) << what;
      }
    }
  }
}

TEST(LinearAlgebra, SvdIsRight) {
  const World interpreted, compiled(false);
  for (const auto& [m, n] :
       {std::pair<int64_t, int64_t>{1, 1}, {1, 4}, {3, 1}, {20, 20}, {24, 9}, {9, 24}, {17, 17}}) {
    for (const char* dtype : {"float32", "float64"}) {
      const double tolerance = std::string(dtype) == "float64" ? 1e-12 : 1e-5;
      const World& world = m == 24 ? compiled : interpreted;
      const std::string what = std::to_string(m) + "x" + std::to_string(n) + " " + dtype;
      const size_t rows = static_cast<size_t>(m), columns = static_cast<size_t>(n),
                   k = std::min(rows, columns);
      T x = matrix(world, {m, n}, 3, dtype), u, s, vt;
      OK(aster_ml_lazy_svd(u, s, vt, x, 0));
      EXPECT_EQ(u.shape(), (Shape{m, static_cast<int64_t>(k)}));
      EXPECT_EQ(vt.shape(), (Shape{static_cast<int64_t>(k), n}));
      const Matrix a = doubles(x), us = doubles(u), ss = doubles(s), vs = doubles(vt);
      Matrix scaled = us;
      for (size_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < k; ++j) scaled[i * k + j] *= ss[j];
      }
      expect_close(times(scaled, false, vs, false, rows, k, columns), a, tolerance, what);
      expect_close(times(us, true, us, false, k, rows, k), unit(k), tolerance, what);
      expect_close(times(vs, false, vs, true, k, columns, k), unit(k), tolerance, what);
      for (size_t i = 1; i < k; ++i) EXPECT_GE(ss[i - 1], ss[i]) << what;
      EXPECT_GE(ss[k - 1], 0) << what;
    }
  }
}

// The singular values of a matrix are the square roots of the eigenvalues of x^T x: their sums of
// powers are traces.
TEST(LinearAlgebra, SingularValuesHaveTheRightMoments) {
  const World world(false);
  T x = matrix(world, {12, 7}, 5, "float64"), u, s, vt;
  OK(aster_ml_lazy_svd(u, s, vt, x, 1));
  EXPECT_EQ(u.shape(), (Shape{12, 12}));
  EXPECT_EQ(vt.shape(), (Shape{7, 7}));
  const Matrix a = doubles(x), us = doubles(u), ss = doubles(s);
  expect_close(times(us, true, us, false, 12, 12, 12), unit(12), 1e-12, "u");
  const Matrix square = times(a, true, a, false, 7, 12, 7),
               fourth = times(square, false, square, false, 7, 7, 7);
  double second = 0, fourth_power = 0;
  for (double v : ss) second += v * v, fourth_power += v * v * v * v;
  double trace = 0, trace4 = 0;
  for (size_t i = 0; i < 7; ++i) trace += square[i * 8], trace4 += fourth[i * 8];
  EXPECT_NEAR(second, trace, 1e-10);
  EXPECT_NEAR(fourth_power, trace4, 1e-9);
}

TEST(LinearAlgebra, DecompositionsRefuse) {
  const World world;
  const T vector = matrix(world, {3}, 1), whole = matrix(world, {3, 3}, 1, "int32"),
          square = matrix(world, {3, 3}, 1);
  T a, b, c;
  EXPECT_EQ(aster_ml_lazy_qr(a, b, vector), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_qr(a, b, whole), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_qr(a, a, square), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_qr(a, nullptr, square), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_svd(a, b, c, vector, 1), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_svd(a, b, c, whole, 1), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_svd(a, b, b, square, 1), ASTER_ML_ARGUMENT);
  const double one[] = {1};
  EXPECT_EQ(aster_ml_lazy_newton_schulz(a, vector, 1, 1, one, 1e-7), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_newton_schulz(a, square, -1, 1, one, 1e-7), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_newton_schulz(a, square, 1, 0, one, 1e-7), ASTER_ML_ARGUMENT);
  for (const T* t : {&a, &b, &c}) EXPECT_EQ(t->x.impl, nullptr);
}

// Steps are the same kernels over and over.
TEST(LinearAlgebra, StepsShareTheirKernels) {
  aster_ml_context_options options{};
  options.no_disk_cache = 1;  // what lies there is not compiled
  const World world(false, options);
  const auto compiled = [&](int64_t n) {
    aster_ml_engine_counters counters{};
    counters.struct_size = sizeof(counters);
    EXPECT_EQ(aster_ml_engine_count(&counters, world), 0);
    const uint64_t before = counters.kernels_compiled;
    T x = matrix(world, {n, n}, 3), u, s, vt;
    EXPECT_EQ(aster_ml_context_set_strict_parity(world, 1), 0) << message();
    EXPECT_EQ(aster_ml_lazy_svd(u, s, vt, x, 1), 0) << message();
    aster_ml_lazy* const all[] = {u, s, vt};
    EXPECT_EQ(aster_ml_lazy_realize(all, 3), 0) << message();
    EXPECT_EQ(aster_ml_engine_count(&counters, world), 0);
    return counters.kernels_compiled - before;
  };
  const uint64_t four = compiled(4);
  EXPECT_LE(compiled(6), four + 2);
}

}  // namespace
}  // namespace aster::tensor::test
