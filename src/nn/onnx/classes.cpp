// ai.onnx.ml: classifiers and regressors by planes and by support vectors, on the host row by row.
#include "nn/onnx/classes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "nn/onnx/builders.h"

namespace aster::nn::onnx {

namespace {

double probit(double p) {
  // Winitzki's approximation of the inverse error function, which the operator is defined by.
  const double x = 2 * p - 1, sign = x < 0 ? -1 : 1;
  const double log = std::log((1 - x) * (1 + x)), v = 2 / (3.14159 * 0.147) + 0.5 * log;
  return 1.41421356 * sign * std::sqrt(std::sqrt(v * v - log / 0.147) - v);
}

}  // namespace

void transform(double* row, size_t count, std::string_view how) {
  if (how == "LOGISTIC") {
    for (size_t i = 0; i < count; ++i) row[i] = 1 / (1 + std::exp(-row[i]));
  } else if (how == "PROBIT") {
    for (size_t i = 0; i < count; ++i) row[i] = probit(row[i]);
  } else if (how == "SOFTMAX" || how == "SOFTMAX_ZERO") {
    const double most = *std::max_element(row, row + count);
    double all = 0;
    for (size_t i = 0; i < count; ++i) {
      const bool none = how == "SOFTMAX_ZERO" && std::fabs(row[i]) <= 1e-7;
      row[i] = none ? row[i] * std::exp(-most) : std::exp(row[i] - most);
      all += row[i];
    }
    for (size_t i = 0; i < count; ++i) row[i] = all == 0 ? 0.5 : row[i] / all;
  }
}

void give_scores(Op& op, size_t result, Vec<double>& scores, size_t targets, std::string_view how,
                 DType dtype) {
  const size_t rows = targets == 0 ? 0 : scores.size() / targets;
  for (size_t i = 0; i < rows; ++i) transform(scores.data() + i * targets, targets, how);
  op.set(result, op.stored(std::span<const double>(scores.data(), scores.size()),
                           std::array{static_cast<Word>(rows), static_cast<Word>(targets)}, dtype));
}

void give_labels(Op& op, Vec<Word>& best, std::span<const std::string_view> names, Words numbers) {
  const std::array shape{static_cast<Word>(best.size())};
  if (names.empty()) {
    for (Word& one : best) {
      if (!numbers.empty()) one = numbers[static_cast<size_t>(one)];
    }
    return op.set(0, op.stored({best.data(), best.size()}, shape, DType::kInt64));
  }
  Ref made;
  op.fail(make_texts(&made, op.heap(), shape));
  for (const Word one : best) {
    Text text(op.heap());
    text << names[static_cast<size_t>(one)];
    op.fail(text.status());
    if (op.ok()) op.fail(made->texts.push(std::move(text)));
  }
  if (op.ok()) op.set(0, made);
}

namespace {

// Rows of features on the host.
struct Rows {
  std::span<const double> all;
  size_t features = 0, count = 0;
  const double* row(size_t i) const { return all.data() + i * features; }
};
Rows rows_of(Op& op) {
  Rows out;
  out.all = op.reals(0);
  if (!op.ok()) return out;
  const Node node = op.in(0);
  if (node->ndim == 0 || node->ndim > 2) {
    op.fail(ASTER_FAIL(kSHAPE, "%s are no rows of features", uop::brief(node).text));
    return out;
  }
  out.features = static_cast<size_t>(node->dim(node->ndim - 1u));
  out.count = out.features == 0 ? 0 : out.all.size() / out.features;
  return out;
}

double dot(const double* a, const double* b, size_t count) {
  double out = 0;
  for (size_t i = 0; i < count; ++i) out += a[i] * b[i];
  return out;
}

size_t argmax(const double* row, size_t count) {
  return static_cast<size_t>(std::max_element(row, row + count) - row);
}

// A classifier's labels: names, or numbers.
struct Labels {
  explicit Labels(Op& op, const char* ints)
      : names(op.texts("classlabels_strings")), numbers(op.integers(ints)) {}
  size_t count() const { return names.empty() ? numbers.size() : names.size(); }
  std::span<const std::string_view> names;
  Words numbers;
};

// ---- Support vectors ----

enum class By : uint8_t { kLinear, kPoly, kRbf, kSigmoid };
constexpr std::string_view kKernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};

struct Vectors {
  By by = By::kLinear;
  double gamma = 0, coef0 = 0, degree = 0;
  std::span<const double> vectors, coefficients, rho;
  size_t count = 0;

  double kernel(const double* x, const double* vector, size_t features) const {
    if (by == By::kRbf) {
      double squares = 0;
      for (size_t i = 0; i < features; ++i) squares += (x[i] - vector[i]) * (x[i] - vector[i]);
      return std::exp(-gamma * squares);
    }
    const double product = dot(x, vector, features);
    if (by == By::kPoly) return std::pow(product * gamma + coef0, degree);
    return by == By::kSigmoid ? std::tanh(product * gamma + coef0) : product;
  }
};

// With what all of these have; false where something does not fit.
bool read_vectors(Op& op, Vectors* out, size_t count, const Rows& rows) {
  const std::string_view name = op.text("kernel_type", "LINEAR");
  const auto* const found = std::ranges::find(kKernels, name);
  if (found == std::end(kKernels)) {
    op.fail(ASTER_FAIL(kUNSUPPORTED, "kernel_type '%.*s'",
                       static_cast<int>(std::min<size_t>(name.size(), 50)), name.data()));
    return false;
  }
  const auto more = op.numbers("kernel_params");
  if (more.size() >= 3) out->gamma = more[0], out->coef0 = more[1], out->degree = more[2];
  out->count = count;
  out->by = count == 0 ? By::kLinear : static_cast<By>(found - kKernels);
  out->vectors = op.numbers("support_vectors");
  out->coefficients = op.numbers("coefficients");
  out->rho = op.numbers("rho");
  if (!op.ok()) return false;
  const bool fits =
      count == 0 || (rows.features != 0 && out->vectors.size() / count == rows.features &&
                     out->vectors.size() % count == 0);
  if (!fits || out->rho.empty() || out->coefficients.empty())
    op.fail(ASTER_FAIL(kFORMAT, "%zu support vectors of %zu numbers for %zu features", count,
                       out->vectors.size(), rows.features));
  return op.ok();
}

// That a is more probable than b, by Platt's sigmoid.
double pair_probability(double score, double a, double b) {
  const double value = score * a + b;
  return std::clamp(1 - 1 / (1 + std::exp(-value)), 1e-7, 1 - 1e-7);
}

// Probabilities of classes from those of pairs, r[i * n + j]: Wu, Lin and Weng's second method, as
// libsvm has it.
Status couple(double* p, const Vec<double>& r, size_t n, Heap& heap) {
  Vec<double> q(heap), qp(heap);
  ASTER_TRY(q.resize(n * n, 0.0));
  ASTER_TRY(qp.resize(n, 0.0));
  for (size_t t = 0; t < n; ++t) {
    p[t] = 1 / static_cast<double>(n);
    for (size_t j = 0; j < n; ++j) {
      if (j == t) continue;
      q[t * n + t] += r[j * n + t] * r[j * n + t];
      q[t * n + j] = -r[j * n + t] * r[t * n + j];
    }
  }
  const double enough = 0.005 / static_cast<double>(n);
  for (size_t turn = 0; turn < std::max<size_t>(100, n); ++turn) {
    double pqp = 0, worst = 0;
    for (size_t t = 0; t < n; ++t) qp[t] = dot(q.data() + t * n, p, n);
    for (size_t t = 0; t < n; ++t) pqp += p[t] * qp[t];
    for (size_t t = 0; t < n; ++t) worst = std::max(worst, std::fabs(qp[t] - pqp));
    if (worst < enough) break;
    for (size_t t = 0; t < n; ++t) {
      const double change = (pqp - qp[t]) / q[t * n + t];
      p[t] += change;
      pqp = (pqp + change * (change * q[t * n + t] + 2 * qp[t])) / (1 + change) / (1 + change);
      for (size_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + change * q[t * n + j]) / (1 + change);
        p[j] /= 1 + change;
      }
    }
  }
  return kOk;
}

class Machine {
 public:
  Machine(Op& op, const Labels& labels)
      : op_(op),
        labels_(labels),
        classes_(labels.count()),
        per_class_(op.integers("vectors_per_class")),
        a_(op.numbers("prob_a")),
        b_(op.numbers("prob_b")),
        how_(op.text("post_transform", "NONE")),
        kernels_(op.heap()),
        votes_(op.heap()),
        row_(op.heap()),
        pairs_(op.heap()),
        scores_(op.heap()),
        best_(op.heap()) {}

  void run() {
    const Rows rows = rows_of(op_);
    size_t count = 0;
    for (const Word one : per_class_) {
      if (one < 0 || one > Word{1} << 32) return bad();
      count += static_cast<size_t>(one);
    }
    if (!op_.ok() || !read_vectors(op_, &v_, count, rows)) return;
    const size_t pairs = classes_ * (classes_ - 1) / 2;
    const bool probable = count != 0 && !a_.empty();
    const bool fits = count == 0 ? v_.coefficients.size() == classes_ * rows.features
                                 : per_class_.size() == classes_ && v_.rho.size() >= pairs &&
                                       v_.coefficients.size() == (classes_ - 1) * count &&
                                       (!probable || (a_.size() >= pairs && b_.size() >= pairs));
    if (classes_ < 2 || classes_ > 4096 || !fits) return bad();
    const size_t wide = count == 0 || probable ? classes_ : pairs;
    op_.fail(kernels_.resize(count, 0.0));
    op_.fail(votes_.resize(classes_, 0.0));
    op_.fail(row_.resize(std::max(wide, std::max(pairs, classes_)), 0.0));
    op_.fail(pairs_.resize(classes_ * classes_, 0.0));
    const bool positive = std::ranges::all_of(v_.coefficients, [](double c) { return c >= 0; });
    for (size_t i = 0; op_.ok() && i < rows.count; ++i) {
      if (count == 0) {
        for (size_t c = 0; c < classes_; ++c)
          row_[c] = v_.rho[0] +
                    dot(rows.row(i), v_.coefficients.data() + c * rows.features, rows.features);
      } else {
        decide(rows.row(i), rows.features);
        if (probable) op_.fail(probabilities());
      }
      finish(count != 0 ? votes_.data() : row_.data(), wide, probable, positive);
    }
    if (!op_.ok()) return;
    // Of more than two classes with one rho, others tell whether any score is above 0: 1 or 0.
    const bool any = v_.rho.size() == 1 && classes_ != 2 && labels_.names.empty();
    give_labels(op_, best_, labels_.names, any ? Words() : labels_.numbers);
    give_scores(op_, 1, scores_, wide == 1 ? 2 : wide, "NONE", DType::kFloat32);
  }

 private:
  void bad() {
    op_.fail(ASTER_FAIL(kFORMAT,
                        "numbers of vectors, coefficients and rho that are not those of "
                        "%zu classes",
                        classes_));
  }
  // Each pair of classes votes.
  void decide(const double* x, size_t features) {
    for (size_t k = 0; k < v_.count; ++k)
      kernels_[k] = v_.kernel(x, v_.vectors.data() + k * features, features);
    std::fill_n(votes_.data(), classes_, 0.0);
    size_t pair = 0, from_i = 0;
    for (size_t i = 0; i < classes_; from_i += static_cast<size_t>(per_class_[i++])) {
      size_t from_j = from_i + static_cast<size_t>(per_class_[i]);
      for (size_t j = i + 1; j < classes_; from_j += static_cast<size_t>(per_class_[j++])) {
        const double* const c = v_.coefficients.data();
        const double score = v_.rho[pair] +
                             dot(c + (j - 1) * v_.count + from_i, kernels_.data() + from_i,
                                 static_cast<size_t>(per_class_[i])) +
                             dot(c + i * v_.count + from_j, kernels_.data() + from_j,
                                 static_cast<size_t>(per_class_[j]));
        row_[pair++] = score;
        votes_[score > 0 ? i : j] += 1;
      }
    }
  }
  Status probabilities() {
    size_t pair = 0;
    for (size_t i = 0; i < classes_; ++i) {
      for (size_t j = i + 1; j < classes_; ++j, ++pair) {
        const double p = pair_probability(row_[pair], a_[pair], b_[pair]);
        pairs_[i * classes_ + j] = p;
        pairs_[j * classes_ + i] = 1 - p;
      }
    }
    return couple(row_.data(), pairs_, classes_, op_.heap());
  }
  // The label by what was voted for, or the scores; and the scores of a row.
  void finish(const double* by, size_t wide, bool probable, bool positive) {
    size_t best = argmax(by, classes_);
    if (v_.rho.size() == 1 && classes_ == 2 && !probable && positive && by[best] >= 0.5) best = 1;
    const bool any = v_.rho.size() == 1 && classes_ != 2 && labels_.names.empty();
    op_.fail(best_.push(any ? Word{by[best] > 0 ? 1 : 0} : static_cast<Word>(best)));
    if (wide == 1) {
      const double s = row_[0];
      double both[2] = {-s, s};
      if (how_ == "PROBIT") {
        op_.fail(ASTER_FAIL(kUNSUPPORTED, "PROBIT of two classes without probabilities"));
      } else {
        transform(both, 2, how_);
      }
      op_.fail(scores_.append(both, 2));
    } else {
      transform(row_.data(), wide, how_);
      op_.fail(scores_.append(row_.data(), wide));
    }
  }

  Op& op_;
  const Labels& labels_;
  size_t classes_;
  Words per_class_;
  std::span<const double> a_, b_;
  std::string_view how_;
  Vectors v_;
  Vec<double> kernels_, votes_, row_, pairs_, scores_;
  Vec<Word> best_;
};

}  // namespace

namespace build {

void linear_classifier(Op& op) {
  const Rows rows = rows_of(op);
  const Labels labels(op, "classlabels_ints");
  const auto weights = op.numbers("coefficients"), bias = op.numbers("intercepts");
  if (!op.ok()) return;
  const size_t planes = rows.features == 0 ? 0 : weights.size() / rows.features;
  const bool both = planes == 1 && labels.count() == 2;  // of two classes, one has the plane
  const size_t classes = both ? 2 : planes;
  if (planes == 0 || weights.size() % rows.features != 0 || (labels.count() != classes) ||
      (!bias.empty() && bias.size() != planes))
    return op.fail(ASTER_FAIL(kFORMAT,
                              "%zu coefficients and %zu intercepts for %zu classes of %zu "
                              "features",
                              weights.size(), bias.size(), labels.count(), rows.features));
  Vec<double> scores(op.heap());
  Vec<Word> best(op.heap());
  for (size_t i = 0; op.ok() && i < rows.count; ++i) {
    if (both) op.fail(scores.push(0.0));
    for (size_t c = 0; c < planes; ++c)
      op.fail(scores.push(dot(rows.row(i), weights.data() + c * rows.features, rows.features) +
                          (bias.empty() ? 0 : bias[c])));
    if (!op.ok()) return;
    double* const row = scores.data() + i * classes;
    if (both) row[0] = -row[1];
    const bool less = classes == 1 && row[0] < 0;
    if (less) return op.fail(ASTER_FAIL(kUNSUPPORTED, "one class that a row is not of"));
    op.fail(best.push(static_cast<Word>(argmax(row, classes))));
  }
  if (!op.ok()) return;
  give_labels(op, best, labels.names, labels.numbers);
  give_scores(op, 1, scores, classes, op.text("post_transform", "NONE"), DType::kFloat32);
}

void svm_regressor(Op& op) {
  const Rows rows = rows_of(op);
  const int64_t supports = op.integer("n_supports", 0);
  const std::string_view after = op.text("post_transform", "NONE");
  const bool one_class = op.integer("one_class", 0) != 0;
  if (!op.ok()) return;
  if (supports < 0 || supports > int64_t{1} << 32)
    return op.fail(ASTER_FAIL(kFORMAT, "%lld support vectors", static_cast<long long>(supports)));
  if (after != "NONE")
    return op.fail(ASTER_FAIL(kUNSUPPORTED, "post_transform '%.*s'",
                              static_cast<int>(std::min<size_t>(after.size(), 50)), after.data()));
  Vectors v;
  if (!read_vectors(op, &v, static_cast<size_t>(supports), rows)) return;
  if (v.coefficients.size() != (v.count == 0 ? rows.features : v.count))
    return op.fail(
        ASTER_FAIL(kFORMAT, "%zu coefficients of %zu vectors", v.coefficients.size(), v.count));
  Vec<double> scores(op.heap());
  for (size_t i = 0; op.ok() && i < rows.count; ++i) {
    double sum = v.rho[0];
    if (v.count == 0) sum += dot(rows.row(i), v.coefficients.data(), rows.features);
    for (size_t k = 0; k < v.count; ++k)
      sum += v.coefficients[k] *
             v.kernel(rows.row(i), v.vectors.data() + k * rows.features, rows.features);
    op.fail(scores.push(one_class ? (sum > 0 ? 1.0 : -1.0) : sum));
  }
  if (op.ok()) give_scores(op, 0, scores, 1, "NONE", DType::kFloat32);
}

void svm_classifier(Op& op) {
  const Labels labels(op, "classlabels_ints");
  if (op.ok()) Machine(op, labels).run();
}

}  // namespace build
}  // namespace aster::nn::onnx
