// What the tests of windows share: indices of any rank, windows by their definition, options.
#pragma once

#include <algorithm>
#include <functional>
#include <random>

#include "aster_ml/spatial.h"
#include "world.h"

namespace aster::tensor::test {

using Values = std::vector<double>;

inline int64_t count_of(const Shape& shape) {
  int64_t n = 1;
  for (int64_t dim : shape) n *= dim;
  return n;
}
// Calls f on every index of a shape, in row-major order.
inline void each(const Shape& shape, const std::function<void(const Shape&)>& f) {
  if (count_of(shape) == 0) return;
  Shape at(shape.size(), 0);
  for (;;) {
    f(at);
    size_t axis = shape.size();
    while (axis > 0 && ++at[axis - 1] == shape[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}
inline size_t offset(const Shape& shape, const Shape& at) {
  int64_t position = 0;
  for (size_t i = 0; i < shape.size(); ++i) position = position * shape[i] + at[i];
  return static_cast<size_t>(position);
}
inline bool inside(const Shape& shape, const Shape& at) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (at[i] < 0 || at[i] >= shape[i]) return false;
  }
  return true;
}
inline Shape join(Shape a, const Shape& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The windows of one call.
struct Windows {
  Shape kernel, stride, dilation, before, after;
  size_t rank() const { return kernel.size(); }
  // Where element k of window o lies.
  Shape place(const Shape& o, const Shape& k) const {
    Shape at;
    for (size_t i = 0; i < rank(); ++i) {
      at.push_back(o[i] * stride[i] + k[i] * dilation[i] - before[i]);
    }
    return at;
  }
  int64_t span(size_t i) const { return dilation[i] * (kernel[i] - 1) + 1; }
  // Windows on axes of a size: those that fit; with ceil those that begin before the end of it.
  Shape windows(const Shape& size, bool ceil = false) const {
    Shape out;
    for (size_t i = 0; i < rank(); ++i) {
      int64_t n = 0;
      const int64_t room = size[i] + before[i] + after[i];
      for (int64_t start = 0;; start += stride[i], ++n) {
        const bool fits = start + span(i) <= room;
        const bool begun = start < before[i] + size[i];
        const bool more = start - stride[i] + span(i) < room;  // the last one did not reach the end
        if (!(ceil ? begun && (fits || more) : fits)) break;
      }
      out.push_back(n);
    }
    return out;
  }
};

class Spatial : public ::testing::TestWithParam<bool> {
 protected:
  const World world{GetParam()};
  std::mt19937 random{11};
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }
  Values noise(int64_t count) {
    std::vector<double> out(static_cast<size_t>(count));
    for (double& v : out) v = std::uniform_real_distribution<double>(-1, 1)(random);
    return out;
  }
  // Windows of which at least one fits on the axes.
  Windows windows(const Shape& size, bool negative) {
    Windows v;
    for (;;) {
      v = {};
      for (size_t i = 0; i < size.size(); ++i) {
        v.kernel.push_back(pick(1, 3));
        v.stride.push_back(pick(1, 3));
        v.dilation.push_back(pick(1, 2));
        v.before.push_back(pick(negative ? -1 : 0, 2));
        v.after.push_back(pick(negative ? -1 : 0, 2));
      }
      const Shape o = v.windows(size);
      if (std::all_of(o.begin(), o.end(), [](int64_t n) { return n > 0; })) return v;
    }
  }
  static aster_ml_conv_options conv_options(const Windows& v, int64_t groups) {
    aster_ml_conv_options o{};
    o.struct_size = sizeof(o);
    o.groups = static_cast<int32_t>(groups);
    o.stride = v.stride.data();
    o.dilation = v.dilation.data();
    o.before = v.before.data();
    o.after = v.after.data();
    return o;
  }
  static aster_ml_pool_options pool_options(const Windows& v) {
    aster_ml_pool_options o{};
    o.struct_size = sizeof(o);
    o.stride = v.stride.data();
    o.dilation = v.dilation.data();
    o.before = v.before.data();
    o.after = v.after.data();
    return o;
  }

  // Results are computed together at the end of a test.
  void expect(T t, const Shape& shape, const Values& values, const std::string& name) {
    EXPECT_EQ(t.shape(), shape) << name;
    made_.push_back(std::move(t));
    expected_.push_back(values);
    names_.push_back(name);
  }
  void settle() {
    std::vector<aster_ml_lazy*> all;
    for (T& t : made_) all.push_back(t);
    OK(aster_ml_lazy_realize(all.data(), all.size()));
    for (size_t i = 0; i < made_.size(); ++i) {
      Values got;
      if (made_[i].dtype() == ASTER_ML_DTYPE_INT32) {
        for (int32_t v : made_[i].read<int32_t>()) got.push_back(v);
      } else {
        got = made_[i].read<double>();
      }
      ASSERT_EQ(got.size(), expected_[i].size()) << names_[i];
      for (size_t k = 0; k < got.size(); ++k) {
        if (got[k] == expected_[i][k]) continue;  // infinite ones among them
        ASSERT_NEAR(got[k], expected_[i][k], 1e-10) << names_[i] << ", element " << k;
      }
    }
  }
  // Calls to check: fewer where each must be compiled.
  int rounds(int interpreted) const { return GetParam() ? interpreted : interpreted / 8; }

 private:
  std::vector<T> made_;
  std::vector<Values> expected_;
  std::vector<std::string> names_;
};

}  // namespace aster::tensor::test
