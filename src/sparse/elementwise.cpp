// Sums, differences and products of elements.
#include <algorithm>

#include "sparse/matrix.h"

namespace aster::sparse {
namespace {

// Walks the places of a line of a and of b that rise; f(place, p, q), where -1 stands for an
// element that is not stored.
template <typename Index, typename F>
void walk(const Matrix& a, const Matrix& b, int64_t line, bool both, const F& f) {
  const Index* const places[] = {a.second.as<Index>(), b.second.as<Index>()};
  int64_t p = a.first.as<Index>()[line], q = b.first.as<Index>()[line];
  const int64_t p_end = a.first.as<Index>()[line + 1], q_end = b.first.as<Index>()[line + 1];
  while (p < p_end && q < q_end) {
    const Index x = places[0][p], y = places[1][q];
    if (x == y) {
      f(x, p++, q++);
    } else if (x < y) {
      if (!both) f(x, p, int64_t{-1});
      ++p;
    } else {
      if (!both) f(y, int64_t{-1}, q);
      ++q;
    }
  }
  if (both) return;
  for (; p < p_end; ++p) f(places[0][p], p, int64_t{-1});
  for (; q < q_end; ++q) f(places[1][q], int64_t{-1}, q);
}

template <typename E>
typename E::Wide apply(const E& e, Elementwise op, typename E::Wide a, typename E::Wide b) {
  return op == Elementwise::kAdd   ? e.add(a, b)
         : op == Elementwise::kSub ? e.sub(a, b)
                                   : e.mul(a, b);
}

// Elements of line i from `at` on; the place behind the last.
template <typename Index, typename To, typename E>
int64_t merge_line(const Matrix& out, const Matrix& a, const Matrix& b, Elementwise op, int64_t i,
                   int64_t at, const E& e) {
  using Stored = typename E::Stored;
  using Wide = typename E::Wide;
  const Stored* const x = a.values.as<Stored>();
  const Stored* const y = b.values.as<Stored>();
  Stored* const values = out.values.as<Stored>();
  To* const places = out.second.as<To>();
  walk<Index>(a, b, i, op == Elementwise::kMul, [&](Index place, int64_t p, int64_t q) {
    const Wide left = p < 0 ? Wide{} : e.load(x[p]), right = q < 0 ? Wide{} : e.load(y[q]);
    places[at] = static_cast<To>(place);
    e.store(values[at++], apply(e, op, left, right));
  });
  return at;
}

Status room(Matrix* made, Context& context, int64_t count) {
  made->wide = made->wide || count > INT32_MAX;
  ASTER_TRY(made->first.create(context, made->index_dtype(), made->lines() + 1));
  ASTER_TRY(made->second.create(context, made->index_dtype(), count));
  return made->values.create(context, made->dtype, count);
}

// On one thread: in one pass, with room for the most that there can be.
template <typename Index, typename E>
Status merge_alone(Matrix* made, Context& context, const Matrix& a, const Matrix& b, Elementwise op,
                   const E& e) {
  const int64_t most = op == Elementwise::kMul ? std::min(a.count, b.count) : a.count + b.count;
  ASTER_TRY(room(made, context, most));
  with_index(made->wide, [&](auto zero) {
    using To = decltype(zero);
    int64_t at = 0;
    made->first.as<To>()[0] = 0;
    for (int64_t i = 0; i < a.lines(); ++i) {
      at = merge_line<Index, To>(*made, a, b, op, i, at, e);
      made->first.as<To>()[i + 1] = static_cast<To>(at);
    }
    made->count = at;
  });
  return kOk;
}

// On several: counted first.
template <typename Index, typename E>
Status merge_parts(Matrix* made, Context& context, const Matrix& a, const Matrix& b,
                   const Parts<Index>& parts, Elementwise op, const E& e) {
  const int64_t lines = a.lines();
  Array counts;
  ASTER_TRY(counts.create(context, DType::kInt64, lines + 1));
  auto* const ends = counts.as<int64_t>();
  ends[0] = 0;
  in_tasks(context, parts.count(), [&](int64_t part) {
    for (int64_t i = parts.begin(part); i < parts.begin(part + 1); ++i) {
      int64_t count = 0;
      walk<Index>(a, b, i, op == Elementwise::kMul, [&](Index, int64_t, int64_t) { ++count; });
      ends[i + 1] = count;
    }
  });
  for (int64_t i = 0; i < lines; ++i) ends[i + 1] += ends[i];
  made->count = ends[lines];
  ASTER_TRY(room(made, context, made->count));
  with_index(made->wide, [&](auto zero) {
    using To = decltype(zero);
    for (int64_t i = 0; i <= lines; ++i) made->first.as<To>()[i] = static_cast<To>(ends[i]);
    in_tasks(context, parts.count(), [&](int64_t part) {
      for (int64_t i = parts.begin(part); i < parts.begin(part + 1); ++i) {
        merge_line<Index, To>(*made, a, b, op, i, ends[i], e);
      }
    });
  });
  return kOk;
}

template <typename Index, typename E>
Status merge(Matrix* out, Context& context, const Matrix& a, const Matrix& b, Elementwise op,
             const E& e) {
  const Parts<Index> parts(context, a.first.as<Index>(), a.lines(), 4, 4);
  Matrix made = a;
  if (parts.count() == 1) {
    ASTER_TRY((merge_alone<Index>(&made, context, a, b, op, e)));
  } else {
    ASTER_TRY((merge_parts<Index>(&made, context, a, b, parts, op, e)));
  }
  *out = std::move(made);
  return kOk;
}

}  // namespace

Status elementwise(Matrix* out, Context& context, const Matrix& a, const Matrix& b,
                   Elementwise op) {
  using Long = long long;
  if (a.rows != b.rows || a.columns != b.columns) {
    return ASTER_FAIL(kSHAPE, "[%lld, %lld] and [%lld, %lld]", static_cast<Long>(a.rows),
                      static_cast<Long>(a.columns), static_cast<Long>(b.rows),
                      static_cast<Long>(b.columns));
  }
  if (op == Elementwise::kSub && a.dtype == DType::kBool && b.dtype == DType::kBool) {
    return ASTER_FAIL(kDTYPE, "a difference of bool");
  }
  const bool by_columns = a.format == Format::kCsc && b.format == Format::kCsc;
  Matrix x, y;
  ASTER_TRY(harmonise(&x, &y, context, a, b, by_columns ? Format::kCsc : Format::kCsr));
  return with_index(x.wide, [&](auto zero) -> Status {
    using Index = decltype(zero);
    return with_element(
        x.dtype, [&](const auto& e) -> Status { return merge<Index>(out, context, x, y, op, e); });
  });
}

}  // namespace aster::sparse
