/* What methods of aster_ml::Tensor are given besides tensors: dtypes of C++'s types, items of an
 * index, windows; include aster_ml.hpp. */
#ifndef ASTER_ML_CPP_ARGUMENTS_HPP
#define ASTER_ML_CPP_ARGUMENTS_HPP

#include "aster_ml/cpp/types.hpp"

namespace aster_ml {

/* The dtype of a type of C++; none for one that has none. */
template <class Number>
constexpr Dtype dtype_of() {
  using N = std::remove_cv_t<Number>;
  constexpr bool u = std::is_unsigned_v<N>;
  if constexpr (std::is_same_v<N, bool>) return dtypes::bool_;
  if constexpr (std::is_same_v<N, float>) return dtypes::float32;
  if constexpr (std::is_same_v<N, double>) return dtypes::float64;
  if constexpr (!std::is_integral_v<N> || std::is_same_v<N, bool>) return dtypes::none;
  if constexpr (sizeof(N) == 1) return u ? dtypes::uint8 : dtypes::int8;
  if constexpr (sizeof(N) == 2) return u ? dtypes::uint16 : dtypes::int16;
  if constexpr (sizeof(N) == 4) return u ? dtypes::uint32 : dtypes::int32;
  return u ? dtypes::uint64 : dtypes::int64;
}

/* None of Python: a new axis among indices, an open end of a slice. */
struct None {};
inline constexpr None none{};
struct Ellipsis {};
inline constexpr Ellipsis ellipsis{};

/* start:stop:step. */
struct Slice {
  struct Bound {
    Bound(None) {}
    template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
    Bound(Integer at) : value(static_cast<int64_t>(at)), given(true) {}
    int64_t value = 0;
    bool given = false;
  };
  Slice(Bound begin, Bound end, int64_t by = 1) : step(by) {
    constexpr int64_t low = std::numeric_limits<int64_t>::min();
    constexpr int64_t high = std::numeric_limits<int64_t>::max();
    start = begin.given ? begin.value : by < 0 ? high : low;
    stop = end.given ? end.value : by < 0 ? low : high;
  }
  int64_t start, stop, step;
};
inline Slice all() { return {none, none}; }

/* One item of x[{...}]. */
class Index {
 public:
  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  Index(Integer at) {
    item_.start = static_cast<int64_t>(at);
  }
  Index(Slice slice) {
    item_ = {ASTER_ML_INDEX_SLICE, slice.start, slice.stop, slice.step, nullptr};
  }
  Index(None) { item_.kind = ASTER_ML_INDEX_NEW_AXIS; }
  Index(Ellipsis) { item_.kind = ASTER_ML_INDEX_ELLIPSIS; }
  inline Index(const Tensor& tensor);
  aster_ml_index get() const {
    aster_ml_index out = item_;
    if (out.kind == ASTER_ML_INDEX_TENSOR) out.tensor = tensor_.get();
    return out;
  }

 private:
  aster_ml_index item_{};
  detail::Lazy tensor_;
};

/* Settings of convolutions: a list has one number for every axis, or one number for all. Padding
 * may have two an axis as well: before and after, the last axis first. */
struct Windows {
  std::vector<int64_t> stride{}, dilation{}, padding{}, output_padding{};
  int32_t groups = 1;
  bool ceil_mode = false, count_include_pad = true;
  std::vector<int64_t> size{}; /* of max_unpool2d's result */
  Dtype dtype{};
};

/* What gradient does about targets that nothing depends on: zeros by default. */
struct Gradients {
  bool require_path = false;       /* an error */
  bool empty_without_path = false; /* an empty tensor */
};

namespace detail {

/* One number is for two axes. */
inline std::vector<int64_t> kernel_of(const Dims& kernel) {
  if (kernel.is_number()) return std::vector<int64_t>(2, *kernel.data());
  return std::vector<int64_t>(kernel.begin(), kernel.end());
}

/* The lists of Windows, spread over the axes. */
class Spread {
 public:
  Spread(const char* function, size_t rank, const Windows& windows) {
    ok_ = take(stride, windows.stride, rank) && take(dilation, windows.dilation, rank) &&
          take(added, windows.output_padding, rank);
    const std::vector<int64_t>& given = windows.padding;
    if (given.size() == 2 * rank && rank > 0) {
      for (size_t i = 0; i < rank; ++i) {
        before.push_back(given[2 * (rank - 1 - i)]);
        after.push_back(given[2 * (rank - 1 - i) + 1]);
      }
    } else {
      ok_ = ok_ && take(before, given, rank);
      after = before;
    }
    if (!ok_) fail(ASTER_ML_SHAPE, function, "a list has neither one number nor one for each axis");
  }
  bool ok() const { return ok_; }
  static const int64_t* of(const std::vector<int64_t>& list) {
    return list.empty() ? nullptr : list.data();
  }
  aster_ml_conv_options conv(const Windows& windows) const {
    aster_ml_conv_options out{};
    out.struct_size = sizeof(out);
    out.groups = windows.groups;
    out.dtype = code(windows.dtype);
    out.stride = of(stride);
    out.dilation = of(dilation);
    out.before = of(before);
    out.after = of(after);
    out.output_padding = of(added);
    return out;
  }
  aster_ml_pool_options pool(const Windows& windows) const {
    aster_ml_pool_options out{};
    out.struct_size = sizeof(out);
    out.ceil_mode = windows.ceil_mode ? 1 : 0;
    out.exclude_pad = windows.count_include_pad ? 0 : 1;
    out.stride = of(stride);
    out.dilation = of(dilation);
    out.before = of(before);
    out.after = of(after);
    out.size = of(windows.size);
    return out;
  }
  std::vector<int64_t> stride, dilation, before, after, added;

 private:
  static bool take(std::vector<int64_t>& out, const std::vector<int64_t>& given, size_t rank) {
    if (given.size() == 1)
      out.assign(rank, given[0]);
    else
      out = given;
    return out.empty() || out.size() == rank;
  }
  bool ok_ = false;
};

}  // namespace detail
}  // namespace aster_ml

#endif
