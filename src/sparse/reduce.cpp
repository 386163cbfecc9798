// Sums, maxima and minima of rows, of columns and of all.
#include "base/memory.h"
#include "sparse/matrix.h"
#include "sparse/wide.h"

namespace aster::sparse {
namespace {

// Pairwise, so that the error grows with the logarithm of the count.
template <typename E>
typename E::Total sum_of(const E& e, const typename E::Stored* values, int64_t count) {
  constexpr int64_t kAlone = 64;
  if (count <= kAlone) {
    typename E::Total sums[4] = {};  // which do not wait for each other
    int64_t i = 0;
    for (; count - i >= 4; i += 4) {
      for (int64_t k = 0; k < 4; ++k) sums[k] += e.total(values[i + k]);
    }
    for (; i < count; ++i) sums[i % 4] += e.total(values[i]);
    sums[0] += sums[1];
    sums[2] += sums[3];
    return sums[0] += sums[2];
  }
  const int64_t half = count / 2;
  typename E::Total sum = sum_of(e, values, half);
  return sum += sum_of(e, values + half, count - half);
}

// A total in the dtype of sums.
template <typename E>
void store_total(const E& e, DType to, void* out, int64_t at, typename E::Total sum) {
  if constexpr (std::is_same_v<typename E::Total, dtype::StickySum>) {
    dtype::store_int(dtype::stored_as(to),
                     static_cast<char*>(out) + static_cast<size_t>(at) * dtype::size(to),
                     sum.checked(to));
  } else if constexpr (std::is_floating_point_v<typename E::Total>) {
    e.store_total(static_cast<typename E::Stored*>(out)[at], sum);
  } else if (dtype::size(to) == 4) {
    static_cast<uint32_t*>(out)[at] = static_cast<uint32_t>(sum);
  } else {
    static_cast<uint64_t*>(out)[at] = sum;
  }
}

// Whether b takes the place of a.
template <typename E>
bool wins(const E& e, Reduction op, const typename E::Stored& a, const typename E::Stored& b) {
  if (e.is_nan(a)) return false;
  if (e.is_nan(b)) return true;
  return op == Reduction::kMax ? e.less(a, b) : e.less(b, a);
}

// Over the lines of m, a result a place; or over places, a result a line.
template <typename Index, typename E>
Status totals(void* out, Context& context, const Matrix& m, DType to, bool over_lines, const E& e) {
  using Stored = typename E::Stored;
  const Index* const offsets = m.first.as<Index>();
  const Index* const places = m.second.as<Index>();
  const Stored* const values = m.values.as<Stored>();
  if (!over_lines) {
    for (int64_t i = 0; i < m.lines(); ++i) {
      store_total(e, to, out, i, sum_of(e, values + offsets[i], offsets[i + 1] - offsets[i]));
    }
    return kOk;
  }
  Vec<typename E::Total> sums(context.heap());
  ASTER_TRY(sums.resize(static_cast<size_t>(m.places())));
  for (int64_t p = 0; p < m.count; ++p) sums[static_cast<size_t>(places[p])] += e.total(values[p]);
  for (int64_t j = 0; j < m.places(); ++j) {
    store_total(e, to, out, j, sums[static_cast<size_t>(j)]);
  }
  return kOk;
}

template <typename Index, typename E>
Status extremes(typename E::Stored* out, Context& context, const Matrix& m, Reduction op,
                bool over_lines, const E& e) {
  using Stored = typename E::Stored;
  const Index* const offsets = m.first.as<Index>();
  const Index* const places = m.second.as<Index>();
  const Stored* const values = m.values.as<Stored>();
  const int64_t results = over_lines ? m.places() : m.lines();
  const int64_t all = over_lines ? m.lines() : m.places();
  Vec<int64_t> stored(context.heap());
  ASTER_TRY(stored.resize(static_cast<size_t>(results)));
  for (int64_t i = 0; i < m.lines(); ++i) {
    for (int64_t p = offsets[i]; p < offsets[i + 1]; ++p) {
      const int64_t at = over_lines ? static_cast<int64_t>(places[p]) : i;
      int64_t& count = stored[static_cast<size_t>(at)];
      if (count++ == 0 || wins(e, op, out[at], values[p])) out[at] = values[p];
    }
  }
  for (int64_t i = 0; i < results; ++i) {
    const int64_t count = stored[static_cast<size_t>(i)];
    Stored zero{};
    if (count == 0 || (count < all && wins(e, op, out[i], zero))) out[i] = zero;
  }
  return kOk;
}

template <typename E>
typename E::Stored extreme_of(const Matrix& m, Reduction op, const E& e) {
  using Stored = typename E::Stored;
  const Stored* const values = m.values.as<Stored>();
  Stored best{};
  for (int64_t p = 0; p < m.count; ++p) {
    if (p == 0 || wins(e, op, best, values[p])) best = values[p];
  }
  // As many places as elements: not told apart where that overflows, where some are free.
  int64_t all;
  const Stored zero{};
  const bool free = !checked_mul(m.rows, m.columns, &all) || m.count < all;
  return free && m.count > 0 && wins(e, op, best, zero) ? zero : best;
}

}  // namespace

Status reduce(aster_ml_tensor* out, Context& context, const Matrix& given, Reduction op,
              Axis axis) {
  if (op != Reduction::kSum && (given.rows == 0 || given.columns == 0) &&
      (axis == Axis::kAll || (axis == Axis::kRows ? given.rows : given.columns) == 0)) {
    return ASTER_FAIL(kSHAPE, "of no elements, of [%lld, %lld]", static_cast<long long>(given.rows),
                      static_cast<long long>(given.columns));
  }
  Matrix m = given;
  // What stands at one place twice is one element, its sum in the dtype of x.
  if (m.format == Format::kCoo || !m.canonical) {
    ASTER_TRY(
        compress(&m, context, given, given.format == Format::kCsc ? Format::kCsc : Format::kCsr));
  }
  const DType sum = dtype::sum_acc(m.dtype);
  const DType to = op == Reduction::kSum && !dtype::is_float(m.dtype) ? sum : m.dtype;
  const auto results = static_cast<size_t>(axis == Axis::kRows ? m.columns : m.rows);
  ASTER_TRY(dense_create(out, context, to, axis == Axis::kAll ? 0 : 1, &results));
  // Axis 0 goes over rows: the lines of CSR, the places of CSC.
  const bool over_lines = (axis == Axis::kRows) == (m.format == Format::kCsr);
  void* const at = out->storage.data;
  const Status status = with_index(m.wide, [&](auto zero) -> Status {
    using Index = decltype(zero);
    return with_element(m.dtype, [&](const auto& e) -> Status {
      using E = std::remove_cvref_t<decltype(e)>;
      using Stored = typename E::Stored;
      if (op != Reduction::kSum && axis != Axis::kAll)
        return extremes<Index>(static_cast<Stored*>(at), context, m, op, over_lines, e);
      if (op != Reduction::kSum) {
        *static_cast<Stored*>(at) = extreme_of(m, op, e);
      } else if constexpr (kIsWide<E>) {
        return wide_sums(at, context, m, over_lines, axis == Axis::kAll);
      } else if (axis != Axis::kAll) {
        return totals<Index>(at, context, m, to, over_lines, e);
      } else {
        store_total(e, to, at, 0, sum_of(e, m.values.as<Stored>(), m.count));
      }
      return kOk;
    });
  });
  if (!status.ok()) aster_ml_tensor_free(out);
  return status;
}

}  // namespace aster::sparse
