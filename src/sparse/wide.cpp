// Products and sums of wide floats, each exact before it is rounded once.
#include "sparse/wide.h"

#include <algorithm>
#include <atomic>

#include "sparse/exact.h"

namespace aster::sparse {
namespace {

// Nanoseconds of a term, and of a sum beside its terms.
constexpr double kTermNs = 60, kSumNs = 60;

// Of parts that other threads may have done: there is one thing that they fail for.
Status ended(bool failed) {
  return failed ? ASTER_FAIL(kMEMORY, "could not allocate the terms of a sum") : kOk;
}

template <typename Index>
int64_t longest(const Index* offsets, int64_t lines) {
  int64_t most = 0;
  for (int64_t i = 0; i < lines; ++i)
    most = std::max(most, static_cast<int64_t>(offsets[i + 1] - offsets[i]));
  return most;
}

// body(sum, first line, behind the last) in parts, each with room for so many terms.
template <int N, typename Index, typename Body>
Status in_lines(Context& context, const Parts<Index>& parts, int64_t terms, bool products,
                const Body& body) {
  std::atomic<bool> failed{false};
  in_tasks(context, parts.count(), [&](int64_t part) {
    ExactSum<N> sum(context.heap());
    Status status = sum.reserve(terms, products);
    for (int64_t i = parts.begin(part); i < parts.begin(part + 1) && status.ok(); ++i)
      status = body(sum, i);
    if (!status.ok()) failed = true;
  });
  return ended(failed);
}

// ---- Sparse x dense ----

template <int N, typename Index>
Status rows_by_dense(flt::Value<N>* out, Context& context, const Matrix& m,
                     const flt::Value<N>* dense, int64_t stride, int64_t columns) {
  const Index* const offsets = m.first.as<Index>();
  const Index* const places = m.second.as<Index>();
  const auto* const values = m.values.as<flt::Value<N>>();
  const double each = static_cast<double>(columns);
  const Parts<Index> parts(context, offsets, m.rows, kTermNs * each, kSumNs * each);
  return in_lines<N>(context, parts, longest(offsets, m.rows), true,
                     [&](ExactSum<N>& sum, int64_t i) -> Status {
                       for (int64_t j = 0; j < columns; ++j) {
                         sum.clear();
                         for (int64_t p = offsets[i]; p < offsets[i + 1]; ++p)
                           sum.add(values[p], dense[places[p] * stride + j]);
                         ASTER_TRY(sum.store_products(&out[i * columns + j]));
                       }
                       return kOk;
                     });
}

// ---- Sparse x sparse ----

// A term of a row of the product.
struct Term {
  int64_t column, left, right;  // where its factors are stored
  bool operator<(const Term& other) const {
    return column != other.column ? column < other.column : left < other.left;
  }
};

template <int N, typename Index>
class Rows {
 public:
  Rows(Context& context, const Matrix& a, const Matrix& b) : context_(context), a_(a), b_(b) {}

  Status run(Matrix* out) {
    Array counts;
    ASTER_TRY(counts.create(context_, DType::kInt64, a_.rows + 1));
    auto* const ends = counts.as<int64_t>();
    ends[0] = 0;
    const Parts<Index> parts(context_, a_.first.as<Index>(), a_.rows, 20 * kTermNs, kSumNs);
    const Status counted = each(parts, [&](Vec<Term>& terms, ExactSum<N>&, int64_t i) {
      const Status status = find(&terms, i);
      ends[i + 1] = 0;
      for (size_t t = 0; t < terms.size(); ++t)
        ends[i + 1] += t == 0 || terms[t].column != terms[t - 1].column;
      return status;
    });
    ASTER_TRY(counted);
    for (int64_t i = 0; i < a_.rows; ++i) ends[i + 1] += ends[i];
    out->format = Format::kCsr;
    out->dtype = a_.dtype;
    out->canonical = true;
    out->rows = a_.rows;
    out->columns = b_.columns;
    out->count = ends[a_.rows];
    out->wide = a_.wide || out->count > INT32_MAX;
    ASTER_TRY(out->first.create(context_, out->index_dtype(), a_.rows + 1));
    ASTER_TRY(out->second.create(context_, out->index_dtype(), out->count));
    ASTER_TRY(out->values.create(context_, out->dtype, out->count));
    return with_index(out->wide, [&](auto zero) {
      using To = decltype(zero);
      for (int64_t i = 0; i <= a_.rows; ++i) out->first.as<To>()[i] = static_cast<To>(ends[i]);
      return each(parts, [&](Vec<Term>& terms, ExactSum<N>& sum, int64_t i) {
        return write(out->second.as<To>() + ends[i], out->values.as<flt::Value<N>>() + ends[i],
                     &terms, &sum, i);
      });
    });
  }

 private:
  template <typename Body>
  Status each(const Parts<Index>& parts, const Body& body) {
    std::atomic<bool> failed{false};
    in_tasks(context_, parts.count(), [&](int64_t part) {
      Vec<Term> terms(context_.heap());
      ExactSum<N> sum(context_.heap());
      for (int64_t i = parts.begin(part); i < parts.begin(part + 1); ++i) {
        if (!body(terms, sum, i).ok()) return failed.store(true);
      }
    });
    return ended(failed);
  }
  // The terms of row i, by columns.
  Status find(Vec<Term>* terms, int64_t i) const {
    const Index* const rows = a_.first.as<Index>();
    const Index* const from = b_.first.as<Index>();
    terms->clear();
    for (int64_t p = rows[i]; p < rows[i + 1]; ++p) {
      const int64_t k = a_.second.as<Index>()[p];
      for (int64_t q = from[k]; q < from[k + 1]; ++q)
        ASTER_TRY(terms->push(Term{static_cast<int64_t>(b_.second.as<Index>()[q]), p, q}));
    }
    std::sort(terms->begin(), terms->end());
    return kOk;
  }
  template <typename To>
  Status write(To* columns, flt::Value<N>* values, Vec<Term>* terms, ExactSum<N>* sum,
               int64_t i) const {
    ASTER_TRY(find(terms, i));
    ASTER_TRY(sum->reserve(static_cast<int64_t>(terms->size()), true));
    const auto* const x = a_.values.as<flt::Value<N>>();
    const auto* const y = b_.values.as<flt::Value<N>>();
    for (size_t t = 0; t < terms->size();) {
      const int64_t column = (*terms)[t].column;
      sum->clear();
      for (; t < terms->size() && (*terms)[t].column == column; ++t)
        sum->add(x[(*terms)[t].left], y[(*terms)[t].right]);
      *columns++ = static_cast<To>(column);
      ASTER_TRY(sum->store_products(values++));
    }
    return kOk;
  }

  Context& context_;
  const Matrix& a_;
  const Matrix& b_;
};

// ---- Sums ----

template <int N, typename Index>
Status line_sums(flt::Value<N>* out, Context& context, const Matrix& m) {
  const Index* const offsets = m.first.as<Index>();
  const auto* const values = m.values.as<flt::Value<N>>();
  const Parts<Index> parts(context, offsets, m.lines(), kTermNs, kSumNs);
  return in_lines<N>(context, parts, 0, false, [&](ExactSum<N>&, int64_t i) {
    return ExactSum<N>::sum(&out[i], context.heap(), values + offsets[i], nullptr,
                            static_cast<size_t>(offsets[i + 1] - offsets[i]));
  });
}

// f(Value<N>{}, Index{}).
template <typename F>
Status with_both(const Matrix& m, const F& f) {
  return with_index(m.wide, [&](auto zero) {
    return flt::with_limbs(m.dtype, [&](auto n) { return f(flt::Value<n>{}, zero); });
  });
}
template <int N>
constexpr int limbs_of(const flt::Value<N>&) {
  return N;
}

}  // namespace

Status wide_product_dense(void* out, Context& context, const Matrix& m, const void* dense,
                          int64_t stride, int64_t columns) {
  return with_both(m, [&](auto element, auto zero) {
    using Element = decltype(element);
    return rows_by_dense<limbs_of(Element{}), decltype(zero)>(static_cast<Element*>(out), context,
                                                              m, static_cast<const Element*>(dense),
                                                              stride, columns);
  });
}

Status wide_product(Matrix* out, Context& context, const Matrix& a, const Matrix& b) {
  return with_both(a, [&](auto element, auto zero) -> Status {
    Matrix made;
    ASTER_TRY((Rows<limbs_of(decltype(element){}), decltype(zero)>(context, a, b).run(&made)));
    *out = std::move(made);
    return kOk;
  });
}

Status wide_sums(void* out, Context& context, const Matrix& m, bool over_lines, bool all) {
  Matrix turned;
  if (!all && over_lines) {  // the elements of a sum one behind the other
    ASTER_TRY(
        compress(&turned, context, m, m.format == Format::kCsr ? Format::kCsc : Format::kCsr));
  }
  const Matrix& lines = !all && over_lines ? turned : m;
  return with_both(m, [&](auto element, auto zero) -> Status {
    using Element = decltype(element);
    constexpr int kLimbs = limbs_of(Element{});
    auto* const to = static_cast<Element*>(out);
    if (!all) return line_sums<kLimbs, decltype(zero)>(to, context, lines);
    return ExactSum<kLimbs>::sum(to, context.heap(), m.values.as<Element>(), nullptr,
                                 static_cast<size_t>(m.count));
  });
}

}  // namespace aster::sparse
