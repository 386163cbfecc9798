// The functions of elements and along axes by name, as their tests call them.
#pragma once

#include <array>
#include <functional>
#include <limits>

#include "world.h"

namespace aster::tensor::test::functions {

using Inputs = std::vector<const T*>;
using Call = std::function<int32_t(aster_ml_lazy*, const World&, const Inputs&)>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename F>
inline Call of_one(F f) {
  return [f](aster_ml_lazy* out, const World&, const Inputs& x) { return f(out, *x[0]); };
}
template <typename F>
inline Call of_two(F f) {
  return [f](aster_ml_lazy* out, const World&, const Inputs& x) { return f(out, *x[0], *x[1]); };
}

// One of two results.
template <typename F>
inline Call result_of(size_t which, F f) {
  return of_one([=](aster_ml_lazy* out, const aster_ml_lazy* x) {
    T both[2];
    const int32_t status = f(both[0], both[1], x);
    return status != 0 ? status : aster_ml_lazy_copy(out, both[which]);
  });
}

constexpr int64_t kAxes[] = {0, 1};

inline void add_along_axes(std::map<std::string, Call>& p) {
  const auto var_mean = [](aster_ml_lazy* v, aster_ml_lazy* m, const aster_ml_lazy* x) {
    return aster_ml_lazy_var_mean(v, m, x, 1, kAxes, 1, 1);
  };
  const auto std_mean = [](aster_ml_lazy* s, aster_ml_lazy* m, const aster_ml_lazy* x) {
    return aster_ml_lazy_std_mean(s, m, x, 0, nullptr, 0, 0);
  };
  for (size_t k = 0; k < 2; ++k) {
    p["var_mean_" + std::to_string(k)] = result_of(k, var_mean);
    p["std_mean_" + std::to_string(k)] = result_of(k, std_mean);
  }
  using Along = int32_t (*)(aster_ml_lazy*, aster_ml_lazy*, const aster_ml_lazy*, int64_t);
  const auto extremum = [&p](const std::string& name, Along f, int64_t axis) {
    const auto both = [=](aster_ml_lazy* v, aster_ml_lazy* i, const aster_ml_lazy* x) {
      return f(v, i, x, axis);
    };
    p[name] = result_of(0, both);
    p[name + "_indices"] = result_of(1, both);
  };
  extremum("cummax", aster_ml_lazy_cummax, 1);
  extremum("cummax_0", aster_ml_lazy_cummax, 0);
  extremum("cummin", aster_ml_lazy_cummin, -1);
#define FUNCTION(name, ...) \
  p[#name] = of_one([](aster_ml_lazy* out, const aster_ml_lazy* x) { return __VA_ARGS__; });
  FUNCTION(cumsum, aster_ml_lazy_cumsum(out, x, 1))
  FUNCTION(cumsum_0, aster_ml_lazy_cumsum(out, x, 0))
  FUNCTION(cumprod, aster_ml_lazy_cumprod(out, x, -1))
  FUNCTION(logcumsumexp, aster_ml_lazy_logcumsumexp(out, x, 1))
  FUNCTION(std, aster_ml_lazy_std(out, x, 1, kAxes + 1, 0, 1))
  FUNCTION(std_all, aster_ml_lazy_std(out, x, 0, nullptr, 0, 1))
  FUNCTION(normalize, aster_ml_lazy_normalize(out, x, 2, 1, 1e-12))
  FUNCTION(normalize_p0, aster_ml_lazy_normalize(out, x, 0, 0, 1e-12))
  FUNCTION(normalize_p1, aster_ml_lazy_normalize(out, x, 1, -1, 1e-12))
  FUNCTION(normalize_p3, aster_ml_lazy_normalize(out, x, 3, 0, 1e-3))
  FUNCTION(softmin, aster_ml_lazy_softmin(out, x, -1, 0))
  FUNCTION(softmax_half, aster_ml_lazy_softmax_dtype(out, x, 0, ASTER_ML_DTYPE_FLOAT16))
  FUNCTION(softmax_double, aster_ml_lazy_softmax_dtype(out, x, -1, ASTER_ML_DTYPE_FLOAT64))
  FUNCTION(log_softmax_half, aster_ml_lazy_log_softmax_dtype(out, x, 0, ASTER_ML_DTYPE_FLOAT16))
  FUNCTION(log_softmax_double, aster_ml_lazy_log_softmax_dtype(out, x, 1, ASTER_ML_DTYPE_FLOAT64))
  FUNCTION(sum_float64, aster_ml_lazy_sum_dtype(out, x, 1, kAxes + 1, 0, ASTER_ML_DTYPE_FLOAT64))
  FUNCTION(sum_int8, aster_ml_lazy_sum_dtype(out, x, 1, kAxes, 1, ASTER_ML_DTYPE_INT8))
  FUNCTION(prod_float32, aster_ml_lazy_prod_dtype(out, x, 1, kAxes + 1, 0, ASTER_ML_DTYPE_FLOAT32))
  FUNCTION(prod_int16, aster_ml_lazy_prod_dtype(out, x, 0, nullptr, 0, ASTER_ML_DTYPE_INT16))
  FUNCTION(layernorm, aster_ml_lazy_layernorm(out, x, 0, nullptr, 1e-5))
  FUNCTION(layernorm_0, aster_ml_lazy_layernorm(out, x, 1, kAxes, 1e-3))
  FUNCTION(layernorm_01, aster_ml_lazy_layernorm(out, x, 2, kAxes, 1e-5))
}

inline int32_t full_like(aster_ml_lazy* out, const aster_ml_lazy* x) {
  aster_ml_scalar three;
  aster_ml_scalar_from_int64(&three, ASTER_ML_DTYPE_WEAKINT, 3);
  return aster_ml_lazy_full_like(out, x, &three, 0);
}

inline void add_elementwise(std::map<std::string, Call>& p) {
  for (const auto& [name, f] : unaries()) p[name] = of_one(f);
  for (const auto& [name, f] : binaries()) p[name] = of_two(f);
  FUNCTION(hardsigmoid, aster_ml_lazy_hardsigmoid(out, x, 0.25, 0.5))
  FUNCTION(hardtanh, aster_ml_lazy_hardtanh(out, x, -1, 2))
  FUNCTION(hardtanh_half, aster_ml_lazy_hardtanh(out, x, -1.5, 1.5))
  FUNCTION(elu, aster_ml_lazy_elu(out, x, 0.75))
  FUNCTION(celu, aster_ml_lazy_celu(out, x, 0.75))
  FUNCTION(selu, aster_ml_lazy_selu(out, x, 1.67326, 1.0507))
  FUNCTION(softplus_beta, aster_ml_lazy_softplus_beta(out, x, 2))
  FUNCTION(isinf_up, aster_ml_lazy_isinf_signed(out, x, 1, 0))
  FUNCTION(isinf_down, aster_ml_lazy_isinf_signed(out, x, 0, 1))
  FUNCTION(zeros_like, aster_ml_lazy_zeros_like(out, x, 0))
  FUNCTION(ones_like, aster_ml_lazy_ones_like(out, x, 0))
  FUNCTION(full_like, full_like(out, x))
  FUNCTION(contiguous_backward, aster_ml_lazy_contiguous_backward(out, x))
#undef FUNCTION
  using Chain = int32_t (*)(aster_ml_lazy*, const aster_ml_lazy* const*, size_t);
  for (const auto& [name, f] : {std::pair<const char*, Chain>{"usum", aster_ml_lazy_usum},
                                std::pair<const char*, Chain>{"uprod", aster_ml_lazy_uprod}}) {
    p[name] = of_one([f = f](aster_ml_lazy* out, const aster_ml_lazy* x) {
      const aster_ml_lazy* const list[] = {x, x, x};
      return f(out, list, 3);
    });
  }
  p["isclose"] = of_two([](aster_ml_lazy* out, const aster_ml_lazy* a, const aster_ml_lazy* b) {
    return aster_ml_lazy_isclose(out, a, b, 0.5, 0.25, 0);
  });
  p["allclose"] = of_two([](aster_ml_lazy* out, const aster_ml_lazy* a, const aster_ml_lazy* b) {
    return aster_ml_lazy_allclose(out, a, b, 10, 50, 0);
  });
  p["masked_fill"] = of_two([](aster_ml_lazy* out, const aster_ml_lazy* a, const aster_ml_lazy* b) {
    T above;
    aster_ml_lazy_gt(above, a, b);
    return aster_ml_lazy_masked_fill(out, a, above, b);
  });
  p["clip"] = of_two([](aster_ml_lazy* out, const aster_ml_lazy* a, const aster_ml_lazy* b) {
    return aster_ml_lazy_clip(out, a, nullptr, b);
  });
}

inline T sigmoid(const aster_ml_lazy* x) {
  T y;
  aster_ml_lazy_sigmoid(y, x);
  return y;
}
inline T part(const aster_ml_lazy* x, int64_t axis, int64_t index) {
  T y;
  EXPECT_EQ(aster_ml_lazy_select(y, x, axis, index), 0) << message();
  return y;
}
inline T squared(const aster_ml_lazy* x) {
  T y;
  aster_ml_lazy_mul(y, x, x);
  return y;
}

inline void add_losses_of_two(std::map<std::string, Call>& p) {
  using In = const aster_ml_lazy*;
  p["binary_crossentropy"] = of_two([](aster_ml_lazy* out, In a, In b) {
    T zero, positive, labels;
    aster_ml_lazy_zeros_like(zero, b, 0);
    aster_ml_lazy_gt(positive, b, zero);
    aster_ml_lazy_cast(labels, positive, ASTER_ML_DTYPE_INT32);
    return aster_ml_lazy_binary_crossentropy(out, sigmoid(a), labels, 0);
  });
  p["binary_crossentropy_sum"] = of_two([](aster_ml_lazy* out, In a, In b) {
    return aster_ml_lazy_binary_crossentropy(out, sigmoid(a), sigmoid(b), 1);
  });
  p["binary_crossentropy_logits"] = of_two([](aster_ml_lazy* out, In a, In b) {
    return aster_ml_lazy_binary_crossentropy_logits(out, a, sigmoid(b), nullptr, 0);
  });
  p["binary_crossentropy_logits_weight"] = of_two([](aster_ml_lazy* out, In a, In b) {
    return aster_ml_lazy_binary_crossentropy_logits(out, a, sigmoid(b), squared(b), 2);
  });
  p["categorical_probabilities"] = of_two([](aster_ml_lazy* out, In a, In b) {
    T y;
    aster_ml_lazy_softmax(y, b, 1);
    return aster_ml_lazy_categorical_crossentropy(out, a, y, 0.25, 2);
  });
  p["batchnorm"] = of_two([](aster_ml_lazy* out, In a, In b) {
    T mean;
    aster_ml_lazy_mean(mean, a, 1, kAxes, 0);
    return aster_ml_lazy_batchnorm(out, a, part(b, 0, 0), part(b, 0, 1), mean,
                                   squared(part(b, 0, 2)), 0, nullptr);
  });
  p["batchnorm_0"] = of_two([](aster_ml_lazy* out, In a, In b) {
    return aster_ml_lazy_batchnorm(out, a, nullptr, nullptr, part(b, 1, 0), part(b, 1, 1), 1,
                                   kAxes);
  });
  p["batchnorm_wide"] = of_two([](aster_ml_lazy* out, In a, In b) {
    return aster_ml_lazy_batchnorm(out, a, part(b, 0, 0), nullptr, part(b, 0, 1), squared(b), 0,
                                   nullptr);
  });
}

inline T image_of(const aster_ml_lazy* x) {
  const int64_t shape[] = {3, 2, 2};
  T y;
  EXPECT_EQ(aster_ml_lazy_reshape(y, x, 3, shape), 0) << message();
  return y;
}
inline T log_softmax_of(const aster_ml_lazy* x) {
  T y;
  EXPECT_EQ(aster_ml_lazy_log_softmax(y, x, -1), 0) << message();
  return y;
}

inline void add_losses_of_labels(std::map<std::string, Call>& p) {
  const auto labels = [](const World& w) { return from<int32_t>(w, {2, 0, 3}, {3}); };
  const auto of_image = [](const World& w) { return from<int32_t>(w, {1, 0, 1, 1, 0, 2}, {3, 2}); };
  const auto weight = [](const World& w) { return from<float>(w, {0.5, 2, 1.25, 0.75}, {4}); };
#define LOSS(name, ...)                                                                   \
  p[#name] = [=](aster_ml_lazy* out, [[maybe_unused]] const World& w, const Inputs& in) { \
    const T& x = *in[0];                                                                  \
    return __VA_ARGS__;                                                                   \
  };
  LOSS(sparse, aster_ml_lazy_sparse_categorical_crossentropy(out, x, labels(w), -1, 0, 0))
  LOSS(sparse_options, aster_ml_lazy_sparse_categorical_crossentropy(out, x, labels(w), 3, 0.25, 2))
  LOSS(categorical, aster_ml_lazy_categorical_crossentropy(out, x, labels(w), 0, 0))
  LOSS(categorical_smooth, aster_ml_lazy_categorical_crossentropy(out, x, labels(w), 0.25, 1))
  LOSS(categorical_1d,
       aster_ml_lazy_categorical_crossentropy(out, part(x, 0, 0), from<int32_t>(w, {2}, {}), 0, 0))
  LOSS(categorical_image,
       aster_ml_lazy_categorical_crossentropy(out, image_of(x), of_image(w), 0, 2))
  const auto nll = [=](aster_ml_lazy* out, const World& w, const T& x, bool weighted,
                       const int64_t* ignored, int32_t reduction) {
    const T factors = weight(w);
    return aster_ml_lazy_nll_loss(out, log_softmax_of(x), labels(w),
                                  weighted ? static_cast<const aster_ml_lazy*>(factors) : nullptr,
                                  ignored, reduction);
  };
  LOSS(nll, nll(out, w, x, false, nullptr, 0))
  LOSS(nll_weight, nll(out, w, x, true, kAxes, 0))
  LOSS(nll_none, nll(out, w, x, true, nullptr, 2))
  LOSS(nll_image, aster_ml_lazy_nll_loss(out, image_of(x), of_image(w), nullptr, kAxes + 1, 1))
#undef LOSS
}

inline const std::map<std::string, Call>& programs() {
  static const std::map<std::string, Call> table = [] {
    std::map<std::string, Call> p;
    add_elementwise(p);
    add_along_axes(p);
    add_losses_of_two(p);
    add_losses_of_labels(p);
    for (const char* name : {"cumsum", "cummax", "cummin_indices", "logcumsumexp"})
      p[name + std::string("_long")] = p[name];
    return p;
  }();
  return table;
}

inline bool is_float_name(const std::string& dtype) {
  return aster_ml_dtype_is_float(dtype_code(dtype)) != 0;
}

inline std::vector<double> as_doubles(const std::vector<uint8_t>& bytes, int32_t dtype) {
  std::vector<double> values(bytes.size() / aster_ml_dtype_size(dtype));
  EXPECT_EQ(aster_ml_dtype_copy(values.data(), ASTER_ML_DTYPE_FLOAT64, bytes.data(), dtype,
                                values.size()),
            0);
  return values;
}
inline std::vector<double> read(T& t) {
  int32_t dtype = t.dtype();
  if (dtype == ASTER_ML_DTYPE_WEAKFLOAT) dtype = ASTER_ML_DTYPE_FLOAT32;
  if (dtype == ASTER_ML_DTYPE_WEAKINT) dtype = ASTER_ML_DTYPE_INT32;
  std::vector<uint8_t> bytes(static_cast<size_t>(aster_ml_lazy_count(t)) *
                             aster_ml_dtype_size(dtype));
  EXPECT_EQ(aster_ml_lazy_copy_out(bytes.data(), bytes.size(), t), 0) << message();
  return as_doubles(bytes, dtype);
}
inline void realize(std::vector<T>& tensors) {
  std::vector<aster_ml_lazy*> all;
  for (T& t : tensors) all.push_back(t);
  ASSERT_EQ(aster_ml_lazy_realize(all.data(), all.size()), 0) << message();
}

}  // namespace aster::tensor::test::functions
