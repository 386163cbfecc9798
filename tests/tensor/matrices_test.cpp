// Decompositions as operations of graphs: shapes, batches, views, statuses, gradients. What they
// compute is tested in runtime/linalg_test.cpp.
#include <functional>
#include <thread>

#include "aster_ml/engine.h"
#include "aster_ml/linalg.h"
#include "aster_ml/movement.h"
#include "linalg_world.h"
#include "runtime/cpu/lapack.h"

namespace aster::tensor::test {
namespace {

using Values = std::vector<double>;
using Results = std::vector<T>;
// Computes results of tensors; the status.
using Function = std::function<int32_t(Results&, const T&, const T&)>;

struct Case {
  const char* name;
  Shape a, b;
  Function f;
  bool symmetric = false;  // positive definite too
};

#define ONE(call) \
  [](Results& r, const T& a, [[maybe_unused]] const T& b) { return r.resize(1), call; }
#define TWO(call) \
  [](Results& r, const T& a, [[maybe_unused]] const T& b) { return r.resize(2), call; }
#define THREE(call) \
  [](Results& r, const T& a, [[maybe_unused]] const T& b) { return r.resize(3), call; }

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"lu", {3, 3}, {}, THREE(aster_ml_lazy_lu(r[0], r[1], r[2], a))},
      {"lu of a batch", {2, 2, 3, 3}, {}, THREE(aster_ml_lazy_lu(r[0], r[1], r[2], a))},
      {"qr", {3, 3}, {}, TWO(aster_ml_lazy_qr(r[0], r[1], a))},
      {"qr, tall", {4, 2}, {}, TWO(aster_ml_lazy_qr(r[0], r[1], a))},
      {"qr, wide", {2, 2, 4}, {}, TWO(aster_ml_lazy_qr(r[0], r[1], a))},
      {"qr_reduced", {2, 4, 3}, {}, TWO(aster_ml_lazy_qr_reduced(r[0], r[1], a))},
      {"svd, tall", {4, 2}, {}, THREE(aster_ml_lazy_svd(r[0], r[1], r[2], a, 0))},
      {"svd, wide", {2, 2, 3}, {}, THREE(aster_ml_lazy_svd(r[0], r[1], r[2], a, 0))},
      {"svd", {3, 3}, {}, THREE(aster_ml_lazy_svd(r[0], r[1], r[2], a, 1))},
      {"svdvals", {2, 4, 3}, {}, ONE(aster_ml_lazy_svdvals(r[0], a))},
      {"eigh", {2, 3, 3}, {}, TWO(aster_ml_lazy_eigh(r[0], r[1], a, 0))},
      {"eigh, upper", {3, 3}, {}, TWO(aster_ml_lazy_eigh(r[0], r[1], a, 1))},
      {"eigvalsh", {3, 3}, {}, ONE(aster_ml_lazy_eigvalsh(r[0], a, 0))},
      {"eigvalsh, upper", {3, 3}, {}, ONE(aster_ml_lazy_eigvalsh(r[0], a, 1))},
      {"cholesky", {2, 3, 3}, {}, ONE(aster_ml_lazy_cholesky(r[0], a, 0)), true},
      {"cholesky, upper", {3, 3}, {}, ONE(aster_ml_lazy_cholesky(r[0], a, 1)), true},
      {"solve", {3, 3}, {3, 2}, ONE(aster_ml_lazy_solve(r[0], a, b))},
      {"solve, a vector", {3, 3}, {3}, ONE(aster_ml_lazy_solve(r[0], a, b))},
      {"solve, batches", {2, 1, 3, 3}, {2, 3, 1}, ONE(aster_ml_lazy_solve(r[0], a, b))},
      {"inv", {2, 3, 3}, {}, ONE(aster_ml_lazy_inv(r[0], a))},
      {"det", {2, 3, 3}, {}, ONE(aster_ml_lazy_det(r[0], a))},
      {"slogdet", {3, 3}, {}, TWO(aster_ml_lazy_slogdet(r[0], r[1], a))},
      {"expm", {2, 3, 3}, {}, ONE(aster_ml_lazy_expm(r[0], a))},
      {"pinv", {4, 3}, {}, ONE(aster_ml_lazy_pinv(r[0], a, -1))},
      {"cond", {3, 3}, {}, ONE(aster_ml_lazy_cond(r[0], a, "2"))},
      {"cond, columns", {3, 3}, {}, ONE(aster_ml_lazy_cond(r[0], a, "1"))},
      {"lu_factor",
       {3, 3},
       {},
       [](Results& r, const T& a, const T&) {
         T rows;
         r.resize(1);
         return aster_ml_lazy_lu_factor(r[0], rows, a);
       }},
      {"lstsq",
       {4, 3},
       {4, 2},
       [](Results& r, const T& a, const T& b) {
         T rank, s;
         r.resize(1);
         return aster_ml_lazy_lstsq(r[0], rank, s, a, b, -1);
       }},
  };
  for (const bool upper : {false, true}) {
    for (const bool turned : {false, true}) {
      for (const bool unit : {false, true}) {
        all.push_back({"solve_triangular", {3, 3}, {3, 2}, [=](Results& r, const T& a, const T& b) {
                         r.resize(1);
                         return aster_ml_lazy_solve_triangular(r[0], a, b, upper, turned, unit);
                       }});
      }
    }
  }
  for (const char* order : {"fro", "nuc", "1", "-1", "2", "-2", "inf", "-inf"}) {
    all.push_back({"matrix_norm", {2, 3, 4}, {}, [order](Results& r, const T& a, const T&) {
                     r.resize(1);
                     return aster_ml_lazy_matrix_norm(r[0], a, order);
                   }});
  }
  return all;
}

Values input(const Shape& shape, int salt, bool symmetric) {
  Values x = whole_values(shape, salt, true);
  if (shape.size() < 2) return x;
  const size_t n = static_cast<size_t>(shape.back());
  for (size_t i = 0; symmetric && i < x.size(); ++i) x[i] = x[i] * 0.3;
  for (size_t i = 0; shape[shape.size() - 2] == shape.back() && i < x.size(); i += n * n) {
    for (size_t d = 0; d < n; ++d) x[i + d * n + d] += 1.5 + 0.4 * static_cast<double>(d);
  }
  return x;
}

// sum of weights times all results, and its gradients on request. turned: of a matrix that lies in
// memory as its transpose does.
double weighted(const World& world, const Case& c, bool turned, const Values& a, const Values& b,
                Values* slope_a, Values* slope_b) {
  const T ta = from(world, a, c.a), tb = from(world, b, c.b);
  T turn, lying, view;
  EXPECT_EQ(aster_ml_lazy_transpose(turn, ta, -1, -2), 0) << message();
  EXPECT_EQ(aster_ml_lazy_contiguous(lying, turn), 0) << message();
  EXPECT_EQ(aster_ml_lazy_transpose(view, lying, -1, -2), 0) << message();
  Results results;
  EXPECT_EQ(c.f(results, turned ? view : ta, tb), 0) << c.name << ": " << message();
  T total = number(world, 0);
  int salt = 20;
  for (T& result : results) {
    T product, sum, next;
    const T w = matrix(world, result.shape(), salt++, "float64");
    EXPECT_EQ(aster_ml_lazy_mul(product, result, w), 0) << message();
    EXPECT_EQ(aster_ml_lazy_sum(sum, product, 0, nullptr, 0), 0) << message();
    EXPECT_EQ(aster_ml_lazy_add(next, total, sum), 0) << message();
    total = std::move(next);
  }
  if (slope_a != nullptr) {
    const aster_ml_lazy* const targets[] = {ta, tb};
    aster_ml_lazy slopes[2] = {};
    const size_t count = c.b.empty() ? 1 : 2;
    EXPECT_EQ(aster_ml_gradient(slopes, total, targets, count, nullptr), 0)
        << c.name << ": " << message();
    T first, second;
    first.x = slopes[0];
    second.x = slopes[1];
    *slope_a = first.read<double>();
    if (count > 1) *slope_b = second.read<double>();
  }
  return total.read<double>()[0];
}

class Matrices : public testing::TestWithParam<bool> {
 protected:
  // By LAPACK, where there is one, or by our own algorithms.
  static aster_ml_context_options options() {
    aster_ml_context_options o{};
    o.no_library = GetParam() ? 0 : 1;
    return o;
  }
  void expect_quotients(const Case& c, bool turned) {
    constexpr double kStep = 1e-5;
    Values a = input(c.a, 3, c.symmetric), b = input(c.b, 5, false), slopes[2];
    const size_t right = c.b.empty() ? 0 : b.size();
    weighted(world, c, turned, a, b, &slopes[0], &slopes[1]);
    for (Values* x : {&a, &b}) {
      const Values& slope = slopes[x == &b];
      for (size_t i = 0; i < (x == &b ? right : x->size()); ++i) {
        ASSERT_EQ(slope.size(), x->size()) << c.name;
        const double at = (*x)[i];
        const auto beside = [&](double step) {
          (*x)[i] = at + step;
          return weighted(world, c, turned, a, b, nullptr, nullptr);
        };
        const double up = beside(kStep), down = beside(-kStep);
        (*x)[i] = at;
        const double quotient = (up - down) / (2 * kStep);
        EXPECT_NEAR(slope[i], quotient, 2e-6 * std::max(1.0, std::abs(quotient)))
            << c.name << (turned ? ", turned" : "") << ", element " << i
            << (x == &b ? " of b" : "");
      }
    }
  }
  const World world{true, options()};
};
INSTANTIATE_TEST_SUITE_P(Libraries, Matrices, testing::Bool(),
                         [](const auto& p) { return p.param ? "Lapack" : "Own"; });

TEST_P(Matrices, GradientsAreDifferenceQuotients) {
  for (const Case& c : cases()) {
    for (const bool turned : {false, true}) expect_quotients(c, turned);
  }
}

// The same of elements that lie otherwise: turned, backwards, every other one.
TEST_P(Matrices, ViewsAndBatches) {
  for (const Case& c : cases()) {
    const Values a = input(c.a, 3, c.symmetric), b = input(c.b, 5, false);
    const T tb = from(world, b, c.b);
    Results plain, viewed;
    const T whole = from(world, a, c.a);
    OK(c.f(plain, whole, tb));
    // Its transpose in memory, turned again; and all of it backwards, flipped again.
    T turned, flipped, copy;
    std::vector<int64_t> all(c.a.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    OK(aster_ml_lazy_transpose(turned, whole, -1, -2));
    OK(aster_ml_lazy_contiguous(copy, turned));
    OK(aster_ml_lazy_realize(std::vector<aster_ml_lazy*>{copy}.data(), 1));
    T again, back;
    OK(aster_ml_lazy_transpose(again, copy, -1, -2));
    OK(aster_ml_lazy_flip(flipped, whole, all.size(), all.data()));
    T kept;
    OK(aster_ml_lazy_contiguous(kept, flipped));
    OK(aster_ml_lazy_realize(std::vector<aster_ml_lazy*>{kept}.data(), 1));
    OK(aster_ml_lazy_flip(back, kept, all.size(), all.data()));
    for (const T* view : {&again, &back}) {
      OK(c.f(viewed, *view, tb));
      for (size_t i = 0; i < plain.size(); ++i) {
        const Values mine = viewed[i].read<double>(), theirs = plain[i].read<double>();
        ASSERT_EQ(viewed[i].shape(), plain[i].shape()) << c.name;
        for (size_t e = 0; e < mine.size(); ++e)
          EXPECT_NEAR(mine[e], theirs[e], 1e-12 * std::max(1.0, std::abs(theirs[e]))) << c.name;
      }
    }
    // Each matrix of a batch by itself.
    if (c.a.size() != 3 || !c.b.empty()) continue;
    const size_t size = a.size() / static_cast<size_t>(c.a[0]);
    for (size_t m = 0; m < static_cast<size_t>(c.a[0]); ++m) {
      const auto at = a.begin() + static_cast<ptrdiff_t>(m * size);
      const T one = from(world, Values(at, at + static_cast<ptrdiff_t>(size)), {c.a[1], c.a[2]});
      Results alone;
      OK(c.f(alone, one, tb));
      for (size_t i = 0; i < alone.size(); ++i) {
        const Values mine = alone[i].read<double>(), theirs = plain[i].read<double>();
        for (size_t e = 0; e < mine.size(); ++e)
          EXPECT_EQ(mine[e], theirs[m * mine.size() + e]) << c.name;
      }
    }
  }
}

TEST_P(Matrices, FailuresNameTheFirstMatrix) {
  Values x = input({4, 3, 3}, 3, true);
  for (const size_t m : {size_t{1}, size_t{3}}) {  // rows that are equal, and a negative diagonal
    for (size_t j = 0; j < 3; ++j) x[m * 9 + 3 + j] = x[m * 9 + j];
    x[m * 9 + 8] = -1;
  }
  const T a = from(world, x, {4, 3, 3}), b = from(world, Values{1, 2, 3}, {3, 1});
  const auto failure = [&](T& t) {
    std::vector<double> out(static_cast<size_t>(aster_ml_lazy_count(t)));
    EXPECT_EQ(aster_ml_lazy_copy_out(out.data(), out.size() * sizeof(double), t), ASTER_ML_NUMERIC);
    return message();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  T solved, inverse, root;
  OK(aster_ml_lazy_solve(solved, a, b));
  const std::string of_solve = failure(solved);
  EXPECT_TRUE(has(of_solve, "solve of matrix number 1: it is singular: pivot ")) << of_solve;
  OK(aster_ml_lazy_inv(inverse, a));
  const std::string of_inverse = failure(inverse);
  EXPECT_TRUE(has(of_inverse, "inv of matrix number 1: it is singular")) << of_inverse;
  OK(aster_ml_lazy_cholesky(root, a, 0));
  const std::string of_root = failure(root);
  EXPECT_TRUE(has(of_root,
                  "cholesky of matrix number 1: it is not positive definite: its leading "
                  "minor of order "))
      << of_root;
  // The context goes on, and what does not fail is there.
  T value;
  OK(aster_ml_lazy_det(value, a));
  EXPECT_NE(value.read<double>()[0], 0);
  const T bad = from(world, Values{1, NAN, 2, 3}, {2, 2});
  T values;
  OK(aster_ml_lazy_svdvals(values, bad));
  const std::string of_values = failure(values);
  EXPECT_TRUE(has(of_values, "svdvals of matrix: its element 1 is not finite")) << of_values;
}

TEST_P(Matrices, CapturedAndReplayed) {
  T a = from(world, Values{2, 0, 0, 4}, {2, 2}), b = from(world, Values{2, 4}, {2}), x;
  aster_ml_lazy* const inputs[] = {a, b};
  OK(aster_ml_engine_capture_begin(world, inputs, 2));
  OK(aster_ml_lazy_solve(x, a, b));
  aster_ml_lazy* const outputs[] = {x};
  aster_ml_program program{};
  OK(aster_ml_engine_capture_end(&program, world, outputs, 1));
  EXPECT_EQ(x.read<double>(), (Values{1, 1}));
  aster_ml_workspace workspace{};
  OK(aster_ml_workspace_init(&workspace, &program));
  const auto replay = [&](const Values& m, Values* result) {
    const size_t shape[] = {2, 2};
    const Values right = {2, 4};
    aster_ml_tensor given[2] = {}, out{};
    EXPECT_EQ(
        aster_ml_tensor_from_data(&given[0], world, m.data(), ASTER_ML_DTYPE_FLOAT64, 2, shape), 0);
    EXPECT_EQ(
        aster_ml_tensor_from_data(&given[1], world, right.data(), ASTER_ML_DTYPE_FLOAT64, 1, shape),
        0);
    EXPECT_EQ(aster_ml_tensor_init(&out, world, ASTER_ML_DTYPE_FLOAT64, 0, 1, shape), 0);
    const int32_t status = aster_ml_program_run(&program, &workspace, given, 2, &out, 1);
    result->resize(2);
    EXPECT_EQ(aster_ml_tensor_copy_out(result->data(), &out, 2), 0);
    for (aster_ml_tensor* t : {&given[0], &given[1], &out}) aster_ml_tensor_free(t);
    return status;
  };
  Values found;
  EXPECT_EQ(replay({1, 0, 0, 2}, &found), 0) << message();
  EXPECT_EQ(found, (Values{2, 2}));
  EXPECT_EQ(replay({1, 1, 1, 1}, &found), ASTER_ML_NUMERIC);
  EXPECT_NE(message().find("singular: pivot 1"), std::string::npos) << message();
  EXPECT_EQ(replay({2, 0, 0, 1}, &found), 0) << message();
  EXPECT_EQ(found, (Values{1, 4}));
  aster_ml_workspace_free(&workspace);
  aster_ml_program_free(&program);
}

// Runs of one program on several threads: each tells what failed in it, and nothing of the others.
TEST_P(Matrices, RunsSideBySideTellTheirOwnFailures) {
  constexpr int kRounds = 2000;
  const World compiled{false, options()};  // what is interpreted runs once at one time
  T a = from(compiled, Values{2, 0, 0, 4}, {2, 2}), x;
  aster_ml_lazy* const inputs[] = {a};
  OK(aster_ml_engine_capture_begin(compiled, inputs, 1));
  OK(aster_ml_lazy_inv(x, a));
  aster_ml_lazy* const outputs[] = {x};
  aster_ml_program program{};
  OK(aster_ml_engine_capture_end(&program, compiled, outputs, 1));
  const size_t shape[] = {2, 2};
  const Values matrices[] = {{1, 0, 0, 2}, {1, 1, 1, 1}, {0, 0, 0, 0}};
  const char* const told[] = {nullptr, "singular: pivot 1", "singular: pivot 0"};
  struct One {
    aster_ml_workspace workspace{};
    aster_ml_tensor given{}, out{};
    int wrong = 0;
  } ones[3];
  for (size_t i = 0; i < 3; ++i) {
    One& one = ones[i];
    OK(aster_ml_workspace_init(&one.workspace, &program));
    OK(aster_ml_tensor_from_data(&one.given, compiled, matrices[i].data(), ASTER_ML_DTYPE_FLOAT64,
                                 2, shape));
    OK(aster_ml_tensor_init(&one.out, compiled, ASTER_ML_DTYPE_FLOAT64, 0, 2, shape));
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      One& one = ones[i];
      for (int round = 0; round < kRounds; ++round) {
        const int32_t status =
            aster_ml_program_run(&program, &one.workspace, &one.given, 1, &one.out, 1);
        const bool right = told[i] == nullptr ? status == 0
                                              : status == ASTER_ML_NUMERIC &&
                                                    message().find(told[i]) != std::string::npos;
        one.wrong += !right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (One& one : ones) {
    EXPECT_EQ(one.wrong, 0) << "run " << &one - ones;
    aster_ml_workspace_free(&one.workspace);
    aster_ml_tensor_free(&one.given);
    aster_ml_tensor_free(&one.out);
  }
  aster_ml_program_free(&program);
}

TEST_P(Matrices, ResultsBeyondAllMemoryAreRangeErrors) {
  T x, q, r;
  const int64_t shape[] = {int64_t{1} << 40, 3};
  OK(aster_ml_lazy_zeros(x, world, ASTER_ML_DTYPE_FLOAT64, 2, shape));
  EXPECT_EQ(aster_ml_lazy_qr(q, r, x), ASTER_ML_RANGE);
  EXPECT_NE(message().find("overflows"), std::string::npos) << message();
}

TEST_P(Matrices, NothingAndOne) {
  const auto shapes = [&](const Function& f, const Shape& a, const Shape& b,
                          const std::vector<Shape>& expected, double sum) {
    Results results;
    ASSERT_EQ(f(results, from(world, Values(count_of(a)), a), from(world, Values(count_of(b)), b)),
              0)
        << message();
    double total = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].shape(), expected[i]);
      for (double v : results[i].read<double>()) total += v;
    }
    EXPECT_EQ(total, sum);
  };
  const Function qr = TWO(aster_ml_lazy_qr(r[0], r[1], a)),
                 svd = THREE(aster_ml_lazy_svd(r[0], r[1], r[2], a, 1)),
                 lu = THREE(aster_ml_lazy_lu(r[0], r[1], r[2], a)),
                 det = ONE(aster_ml_lazy_det(r[0], a)), inv = ONE(aster_ml_lazy_inv(r[0], a)),
                 solve = ONE(aster_ml_lazy_solve(r[0], a, b)),
                 eigh = TWO(aster_ml_lazy_eigh(r[0], r[1], a, 0)),
                 pinv = ONE(aster_ml_lazy_pinv(r[0], a, -1));
  shapes(qr, {3, 0}, {}, {{3, 3}, {3, 0}}, 3);
  shapes(qr, {0, 3}, {}, {{0, 0}, {0, 3}}, 0);
  shapes(qr, {0, 2, 2}, {}, {{0, 2, 2}, {0, 2, 2}}, 0);
  shapes(svd, {2, 3, 0}, {}, {{2, 3, 3}, {2, 0}, {2, 0, 0}}, 6);
  shapes(lu, {0, 0}, {}, {{0, 0}, {0, 0}, {0, 0}}, 0);
  shapes(det, {2, 0, 0}, {}, {{2}}, 2);
  shapes(inv, {0, 0}, {}, {{0, 0}}, 0);
  shapes(solve, {2, 2}, {2, 0}, {{2, 0}}, 0);
  shapes(eigh, {0, 0}, {}, {{0}, {0, 0}}, 0);
  shapes(pinv, {0, 2}, {}, {{2, 0}}, 0);
  shapes(det, {1, 1}, {}, {{}}, 0);
}

TEST(MatricesRefuse, ShapesDtypesAndPlaces) {
  const World world;
  const T vector = matrix(world, {3}, 1), wide = matrix(world, {2, 3}, 1),
          whole = matrix(world, {3, 3}, 1, "int32"), square = matrix(world, {3, 3}, 1),
          batch = matrix(world, {2, 3, 3}, 1), other = matrix(world, {3, 3, 1}, 1);
  T a, b, c;
  for (const auto f : {aster_ml_lazy_inv, aster_ml_lazy_det, aster_ml_lazy_expm}) {
    EXPECT_EQ(f(a, vector), ASTER_ML_SHAPE);
    EXPECT_EQ(f(a, wide), ASTER_ML_SHAPE);
    EXPECT_EQ(f(a, whole), ASTER_ML_DTYPE);
    EXPECT_EQ(f(nullptr, square), ASTER_ML_ARGUMENT);
  }
  T self = matrix(world, {3, 3}, 1);
  EXPECT_EQ(aster_ml_lazy_inv(self, self), ASTER_ML_ARGUMENT);
  EXPECT_NE(self.x.impl, nullptr);
  EXPECT_EQ(aster_ml_lazy_lu(a, b, a, square), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_lu(a, b, nullptr, square), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_eig(a, b, c, wide), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_cholesky(a, wide, 0), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_solve(a, square, wide), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_solve(a, square, whole), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_lazy_solve(a, batch, other), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_lstsq(a, b, c, wide, square, -1), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_matrix_norm(a, square, "3"), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(aster_ml_lazy_matrix_norm(a, square, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_matrix_norm(a, matrix(world, {0, 3}, 1), "2"), ASTER_ML_SHAPE);
  T re, im, v, total, gradient;
  OK(aster_ml_lazy_eig(re, im, v, square));
  OK(aster_ml_lazy_sum(total, re, 0, nullptr, 0));
  const aster_ml_lazy* const targets[] = {square};
  EXPECT_EQ(aster_ml_gradient(gradient, total, targets, 1, nullptr), ASTER_ML_UNSUPPORTED);
  for (const T* t : {&a, &b, &c}) EXPECT_EQ(t->x.impl, nullptr);
}

// What fails in a call that is stopped is not told by the next one.
TEST(MatricesStopped, FailuresAreForgotten) {
  int asked = 0;
  aster_ml_context_options options{};
  options.no_library = 1;
  options.should_cancel_self = &asked;
  options.should_cancel = [](void* self) { return ++*static_cast<int*>(self) > 3 ? 1 : 0; };
  const World world(false, options);
  const Shape shape{1500, 64, 64};
  Values values(count_of(shape));
  for (size_t i = 64 * 64; i < values.size(); ++i)
    values[i] = i % (64 * 64) % 65 == 0 ? 8 : static_cast<double>(i % 7) / 8;
  T x = from(world, values, shape), inverse, determinant;
  OK(aster_ml_lazy_inv(inverse, x));
  aster_ml_lazy* const root[] = {inverse};
  const int32_t status = aster_ml_lazy_realize(root, 1);  // the first matrix has failed by then
  EXPECT_TRUE(status == ASTER_ML_CANCELLED || status == ASTER_ML_NUMERIC) << message();
  asked = INT32_MIN;
  OK(aster_ml_lazy_det(determinant, x));
  EXPECT_EQ(determinant.read<double>()[0], 0);
  EXPECT_EQ(aster_ml_lazy_realize(root, 1), ASTER_ML_NUMERIC);
}

// Compiled code around them, on threads; equal calls are one schedule.
// LAPACK's functions as they are where values do not converge: all but that is theirs.
namespace stuck {
runtime::cpu::Lapack<double> real;
void gesdd(const char* job, const int* m, const int* n, double* a, const int* lda, double* s,
           double* u, const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork,
           int* iwork, int* info, size_t length) {
  real.gesdd(job, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork, iwork, info, length);
  if (*lwork != -1) *info = 2;
}
void syevd(const char* job, const char* uplo, const int* n, double* a, const int* lda, double* w,
           double* work, const int* lwork, int* iwork, const int* liwork, int* info, size_t x,
           size_t y) {
  real.syevd(job, uplo, n, a, lda, w, work, lwork, iwork, liwork, info, x, y);
  if (*lwork != -1) *info = 1;
}
void geev(const char* left, const char* right, const int* n, double* a, const int* lda, double* wr,
          double* wi, double* vl, const int* ldvl, double* vr, const int* ldvr, double* work,
          const int* lwork, int* info, size_t x, size_t y) {
  real.geev(left, right, n, a, lda, wr, wi, vl, ldvl, vr, ldvr, work, lwork, info, x, y);
  if (*lwork != -1) *info = 3;
}
// What they make where nothing comes of it: no numbers, and no word.
void gesdd_nan(const char* job, const int* m, const int* n, double* a, const int* lda, double* s,
               double* u, const int* ldu, double* vt, const int* ldvt, double* work,
               const int* lwork, int* iwork, int* info, size_t length) {
  real.gesdd(job, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork, iwork, info, length);
  if (*lwork != -1) std::fill_n(vt, *n * *ldvt, NAN);
}
void syevd_nan(const char* job, const char* uplo, const int* n, double* a, const int* lda,
               double* w, double* work, const int* lwork, int* iwork, const int* liwork, int* info,
               size_t x, size_t y) {
  real.syevd(job, uplo, n, a, lda, w, work, lwork, iwork, liwork, info, x, y);
  if (*lwork != -1) std::fill_n(a, *n * *lda, NAN);
}
}  // namespace stuck
TEST(MatricesStuck, ValuesThatDoNotConvergeAreCounted) {
  auto* const functions = const_cast<runtime::cpu::Lapack<double>*>(runtime::cpu::lapack<double>());
  if (functions == nullptr) GTEST_SKIP() << "no LAPACK";
  const World world(false);
  constexpr size_t kSize = 200;  // small ones do not go there
  Values elements(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i) {
    elements[i * kSize + i] = static_cast<double>(i + 2);
    if (i > 0) elements[i * kSize + i - 1] = elements[(i - 1) * kSize + i] = 1;
  }
  const T a = from(world, elements, {kSize, kSize});
  const auto message_of = [&](T& t, int32_t wanted) {
    Values out(static_cast<size_t>(aster_ml_lazy_count(t)));
    EXPECT_EQ(aster_ml_lazy_copy_out(out.data(), out.size() * sizeof(double), t), wanted);
    return wanted == 0 ? std::string() : message();
  };
  for (const int32_t wanted : {int32_t{ASTER_ML_NUMERIC}, int32_t{0}}) {
    stuck::real = *functions;
    if (wanted != 0) {
      functions->gesdd = stuck::gesdd;
      functions->syevd = stuck::syevd;
      functions->geev = stuck::geev;
    }
    T u, s, vt, values, w, v, re, im, vectors;
    OK(aster_ml_lazy_svd(u, s, vt, a, 0));
    OK(aster_ml_lazy_svdvals(values, a));
    OK(aster_ml_lazy_eigh(w, v, a, 0));
    OK(aster_ml_lazy_eig(re, im, vectors, a));
    const struct {
      T& result;
      const char* part;
    } rows[] = {{s, "svd of matrix: 2 of its values did not converge"},
                {values, "svdvals of matrix: 2 of its values did not converge"},
                {w, "eigh of matrix: 1 of its values did not converge"},
                {re, "eig of matrix: 3 of its values did not converge"}};
    for (const auto& row : rows) {
      const std::string said = message_of(row.result, wanted);
      if (wanted != 0) {
        EXPECT_NE(said.find(row.part), std::string::npos) << said;
      }
    }
    *functions = stuck::real;
  }
}

// Wide floats go on from float64's vectors, so many steps and no more.
TEST(MatricesStuck, StepsOfWideFloatsEnd) {
  auto* const functions = const_cast<runtime::cpu::Lapack<double>*>(runtime::cpu::lapack<double>());
  if (functions == nullptr) GTEST_SKIP() << "no LAPACK";
  const World world(false);
  const T given = from(world, Values{2, 1, 0, 1, 3, 1, 0, 1, 4}, {3, 3});
  for (const int32_t dtype : {ASTER_ML_DTYPE_FLT256, ASTER_ML_DTYPE_FLT512}) {
    T a;
    OK(aster_ml_lazy_cast(a, given, dtype));
    for (const int32_t wanted : {int32_t{ASTER_ML_NUMERIC}, int32_t{0}}) {
      stuck::real = *functions;
      if (wanted != 0) {
        functions->gesdd = stuck::gesdd_nan;
        functions->syevd = stuck::syevd_nan;
      }
      T u, s, vt, w, v;
      OK(aster_ml_lazy_svd(u, s, vt, a, 0));
      OK(aster_ml_lazy_eigh(w, v, a, 0));
      const std::pair<T*, const char*> rows[] = {
          {&s, "svd of matrix: 3 of its values did not converge"},
          {&w, "eigh of matrix: 3 of its values did not converge"}};
      for (const auto& [result, part] : rows) {
        aster_ml_lazy* const root[] = {*result};
        EXPECT_EQ(aster_ml_lazy_realize(root, 1), wanted) << message();
        if (wanted != 0) {
          EXPECT_NE(message().find(part), std::string::npos) << message();
        }
      }
      *functions = stuck::real;
    }
  }
}

TEST(MatricesCompiled, BatchesOnThreads) {
  aster_ml_context_options options{};
  options.threads = 3;
  const World world(false, options);
  const Shape shape{16, 24, 24};
  const T x = from(world, input(shape, 3, false), shape);
  T inverse, product, shifted;
  const T one = number(world, 1);
  OK(aster_ml_lazy_inv(inverse, x));
  OK(aster_ml_lazy_matmul(product, x, inverse));
  OK(aster_ml_lazy_add(shifted, product, one));
  const Values y = shifted.read<double>();
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t row = i / 24 % 24, column = i % 24;
    ASSERT_NEAR(y[i], row == column ? 2 : 1, 1e-9);
  }
  aster_ml_engine_counters before{}, after{};
  before.struct_size = after.struct_size = sizeof(before);
  OK(aster_ml_engine_count(&before, world));
  T again;
  OK(aster_ml_lazy_inv(again, from(world, input(shape, 4, false), shape)));
  again.read<double>();
  T third;
  OK(aster_ml_lazy_inv(third, from(world, input(shape, 5, false), shape)));
  third.read<double>();
  OK(aster_ml_engine_count(&after, world));
  EXPECT_LE(after.kernels_compiled, before.kernels_compiled);
}

}  // namespace
}  // namespace aster::tensor::test
