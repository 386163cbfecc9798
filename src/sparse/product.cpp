// Products: sparse x dense, sparse x sparse, both by rows (Gustavson 1978).
#include <algorithm>
#include <cstring>

#include "base/memory.h"
#include "buffer/strided.h"
#include "sparse/lanes.h"
#include "sparse/matrix.h"
#include "sparse/wide.h"

namespace aster::sparse {

// ---- Sparse x dense ----

namespace {

// Exact sums of a few columns at a time.
template <typename Index, typename T>
void sticky_rows(const RowSums& call, int64_t begin, int64_t end) {
  constexpr int64_t kAtOnce = 16;
  const Sticky<T> e{call.dtype};
  const auto* const offsets = static_cast<const Index*>(call.offsets);
  const auto* const places = static_cast<const Index*>(call.places);
  const auto* const values = static_cast<const T*>(call.values);
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = 0; j < call.columns; j += kAtOnce) {
      const int64_t count = std::min(kAtOnce, call.columns - j);
      dtype::StickySum sums[kAtOnce];
      for (int64_t p = offsets[i]; p < offsets[i + 1]; ++p) {
        const auto factor = e.load(values[p]);
        const T* const row = static_cast<const T*>(call.dense) + places[p] * call.dense_stride + j;
        for (int64_t k = 0; k < count; ++k) sums[k] += e.mul(factor, e.load(row[k]));
      }
      T* const out = static_cast<T*>(call.out) + i * call.out_stride + j;
      for (int64_t k = 0; k < count; ++k) e.store(out[k], sums[k]);
    }
  }
}

// Of what sums have.
RowSumsCode sticky_rows_for(DType dtype, bool wide_indices) {
  if (dtype == DType::kTbb32)
    return wide_indices ? sticky_rows<int64_t, int32_t> : sticky_rows<int32_t, int32_t>;
  return wide_indices ? sticky_rows<int64_t, int64_t> : sticky_rows<int32_t, int64_t>;
}

}  // namespace

Status product_dense(aster_ml_tensor* out, Context& context, const Matrix& m,
                     const aster_ml_tensor& dense) {
  using Long = long long;
  if (dense.ndim != 1 && dense.ndim != 2) {
    return ASTER_FAIL(kSHAPE, "dense has %zu axes; 1 or 2 are wanted", dense.ndim);
  }
  if (dense.shape[0] != static_cast<size_t>(m.columns)) {
    return ASTER_FAIL(kSHAPE, "[%lld, %lld] by %zu rows", static_cast<Long>(m.rows),
                      static_cast<Long>(m.columns), dense.shape[0]);
  }
  DType dtype;
  ASTER_TRY(common_dtype(&dtype, m.dtype, static_cast<DType>(dense.dtype)));
  dtype = product_dtype(dtype);
  Matrix rows = m, of_dtype;
  // The sums of a CSR do not ask for an order.
  if (m.format != Format::kCsr) ASTER_TRY(compress(&rows, context, m, Format::kCsr));
  ASTER_TRY(cast(&of_dtype, context, rows, dtype));
  Array elements;
  int64_t stride;
  ASTER_TRY(dense_rows(&elements, &stride, context, dense, dtype));
  const size_t shape[] = {static_cast<size_t>(m.rows), dense.ndim > 1 ? dense.shape[1] : 1};
  ASTER_TRY(dense_create(out, context, dtype, dense.ndim, shape));
  const auto columns = static_cast<int64_t>(shape[1]);
  if (m.rows == 0 || columns == 0) return kOk;
  if (dtype::is_wide(dtype)) {
    const Status status = wide_product_dense(out->storage.data, context, of_dtype,
                                             elements.as<char>(), stride, columns);
    if (!status.ok()) aster_ml_tensor_free(out);
    return status;
  }

  float decoded[256];
  if (dtype::is_fp8(dtype)) {
    for (uint32_t i = 0; i < 256; ++i) decoded[i] = static_cast<float>(dtype::decode(dtype, i));
  }
  const RowSums call = {of_dtype.first.as<char>(),
                        of_dtype.second.as<char>(),
                        of_dtype.values.as<char>(),
                        elements.as<char>(),
                        out->storage.data,
                        stride,
                        columns,
                        columns,
                        decoded,
                        dtype};
  const RowSumsCode code = dtype::is_sticky(dtype) ? sticky_rows_for(dtype, of_dtype.wide)
                                                   : row_sums_for(dtype, of_dtype.wide, columns,
                                                                  context.options().vector_bytes);
  with_index(of_dtype.wide, [&](auto zero) {
    using Index = decltype(zero);
    const double of_element = 0.7 + 0.1 * static_cast<double>(columns);
    const Parts<Index> parts(context, of_dtype.first.as<Index>(), m.rows, of_element, 2);
    in_tasks(context, parts.count(),
             [&](int64_t part) { code(call, parts.begin(part), parts.begin(part + 1)); });
  });
  return kOk;
}

// ---- Sparse x sparse ----

namespace {

// Parts of the rows are as many as threads, each with room for the columns of b: the row that met a
// column last, and its sum so far.
template <typename Index, typename E>
class Gustavson {
 public:
  using Stored = typename E::Stored;
  using Wide = typename E::Wide;
  Gustavson(Context& context, const Matrix& a, const Matrix& b, const E& e)
      : context_(context), a_(a), b_(b), e_(e), met_(context.heap()), sums_(context.heap()) {}

  Status run(Matrix* out) {
    const Index* const offsets = a_.first.as<Index>();
    const Parts<Index> all(context_, offsets, a_.rows, 20, 20);
    parts_ = std::min<int64_t>(all.count(), pool::threads_of(context_));
    size_t room;
    if (!checked_mul(static_cast<size_t>(parts_), static_cast<size_t>(b_.columns), &room)) {
      return ASTER_FAIL(kRANGE, "a row of %lld columns", static_cast<long long>(b_.columns));
    }
    ASTER_TRY(met_.resize(room, -1));
    ASTER_TRY(sums_.resize(room));
    out->format = Format::kCsr;
    out->dtype = a_.dtype;
    out->canonical = true;
    out->rows = a_.rows;
    out->columns = b_.columns;
    Array counts;
    ASTER_TRY(counts.create(context_, DType::kInt64, a_.rows + 1));
    auto* const ends = counts.as<int64_t>();
    ends[0] = 0;
    in_tasks(context_, parts_, [&](int64_t part) {
      for (int64_t i = begin(part); i < begin(part + 1); ++i) ends[i + 1] = count(part, i);
    });
    for (int64_t i = 0; i < a_.rows; ++i) ends[i + 1] += ends[i];
    out->count = ends[a_.rows];
    out->wide = a_.wide || out->count > INT32_MAX;
    ASTER_TRY(out->first.create(context_, out->index_dtype(), a_.rows + 1));
    ASTER_TRY(out->second.create(context_, out->index_dtype(), out->count));
    ASTER_TRY(out->values.create(context_, out->dtype, out->count));
    std::fill(met_.begin(), met_.end(), int64_t{-1});
    with_index(out->wide, [&](auto zero) {
      using To = decltype(zero);
      for (int64_t i = 0; i <= a_.rows; ++i) out->first.as<To>()[i] = static_cast<To>(ends[i]);
      in_tasks(context_, parts_, [&](int64_t part) {
        for (int64_t i = begin(part); i < begin(part + 1); ++i) {
          fill(part, i, out->second.as<To>() + ends[i], out->values.as<Stored>() + ends[i],
               ends[i + 1] - ends[i]);
        }
      });
    });
    return kOk;
  }

 private:
  int64_t begin(int64_t part) const {
    return a_.rows / parts_ * part + std::min(part, a_.rows % parts_);
  }
  int64_t* met(int64_t part) { return met_.data() + part * b_.columns; }

  // f(column of b, its element, the element of a) of row i.
  template <typename F>
  void each(int64_t i, const F& f) const {
    const Index* const rows = a_.first.as<Index>();
    const Index* const from = b_.first.as<Index>();
    const Index* const columns = b_.second.as<Index>();
    for (int64_t p = rows[i]; p < rows[i + 1]; ++p) {
      const int64_t k = a_.second.as<Index>()[p];
      for (int64_t q = from[k]; q < from[k + 1]; ++q) f(columns[q], q, p);
    }
  }
  int64_t count(int64_t part, int64_t i) {
    int64_t* const met_here = met(part);
    int64_t stored = 0;
    each(i, [&](int64_t column, int64_t, int64_t) {
      stored += met_here[column] != i;
      met_here[column] = i;
    });
    return stored;
  }
  // The columns that row i met: sorted, or looked for where they are many.
  template <typename To>
  void in_order(const int64_t* met_here, int64_t i, To* columns, int64_t count) const {
    constexpr int64_t kMany = 16;  // bench/sparse.py
    if (count < b_.columns / kMany) return std::sort(columns, columns + count);
    int64_t made = 0;
    for (int64_t j = 0; made < count; ++j) {
      if (met_here[j] == i) columns[made++] = static_cast<To>(j);
    }
  }
  template <typename To>
  void fill(int64_t part, int64_t i, To* columns, Stored* values, int64_t count) {
    int64_t* const met_here = met(part);
    Wide* const sums = sums_.data() + part * b_.columns;
    const Stored* const x = a_.values.as<Stored>();
    const Stored* const y = b_.values.as<Stored>();
    int64_t made = 0;
    each(i, [&](int64_t column, int64_t q, int64_t p) {
      const Wide term = e_.mul(e_.load(x[p]), e_.load(y[q]));
      if (met_here[column] == i) {
        sums[column] = e_.add(sums[column], term);
      } else {
        met_here[column] = i;
        sums[column] = term;
        columns[made++] = static_cast<To>(column);
      }
    });
    in_order(met_here, i, columns, count);
    for (int64_t k = 0; k < count; ++k) e_.store(values[k], sums[columns[k]]);
  }

  Context& context_;
  const Matrix& a_;
  const Matrix& b_;
  E e_;
  Vec<int64_t> met_;
  Vec<Wide> sums_;
  int64_t parts_ = 1;
};

}  // namespace

Status product(Matrix* out, Context& context, const Matrix& a, const Matrix& b) {
  using Long = long long;
  if (a.columns != b.rows) {
    return ASTER_FAIL(kSHAPE, "[%lld, %lld] by [%lld, %lld]", static_cast<Long>(a.rows),
                      static_cast<Long>(a.columns), static_cast<Long>(b.rows),
                      static_cast<Long>(b.columns));
  }
  Matrix x, y;
  ASTER_TRY(harmonise(&x, &y, context, a, b, Format::kCsr, true));
  if (dtype::is_wide(x.dtype)) return wide_product(out, context, x, y);
  return with_index(x.wide, [&](auto zero) -> Status {
    using Index = decltype(zero);
    return with_element(x.dtype, [&](const auto& e) -> Status {
      using E = std::remove_cvref_t<decltype(e)>;
      Matrix made;
      if constexpr (!kIsWide<E>) ASTER_TRY((Gustavson<Index, E>(context, x, y, e).run(&made)));
      *out = std::move(made);
      return kOk;
    });
  });
}

}  // namespace aster::sparse
