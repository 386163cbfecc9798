// Formats of a matrix: compressed, transposed, sliced; from dense ones and to them.
#include <algorithm>
#include <cstring>

#include "base/memory.h"
#include "buffer/strided.h"
#include "flt/convert.h"
#include "sparse/exact.h"
#include "sparse/matrix.h"

namespace aster::sparse {
namespace {

using Long = long long;

// The stored elements of a matrix in the order of lines (rows, or columns): element p of line i is
// at order[p], p in [offsets[i], offsets[i + 1]), its place in the line places[order[p]].
template <typename Index>
struct Order {
  int64_t lines;
  Array offsets, order;
  const Index* places;
};

// Counts, then places in order: stable.
template <typename Index, typename LineOf>
Status sort_by_line(Order<Index>* out, Context& context, DType index_dtype, int64_t count,
                    const LineOf& each) {
  ASTER_TRY(out->offsets.create(context, index_dtype, out->lines + 1));
  ASTER_TRY(out->order.create(context, index_dtype, count));
  Index* const offsets = out->offsets.template as<Index>();
  Index* const order = out->order.template as<Index>();
  std::memset(offsets, 0, static_cast<size_t>(out->lines + 1) * sizeof(Index));
  each([&](int64_t line, int64_t) { ++offsets[line + 1]; });
  for (int64_t i = 0; i < out->lines; ++i) offsets[i + 1] += offsets[i];
  each([&](int64_t line, int64_t at) { order[offsets[line]++] = static_cast<Index>(at); });
  for (int64_t i = out->lines; i > 0; --i) offsets[i] = offsets[i - 1];
  offsets[0] = 0;
  return kOk;
}

// Of COO, or of lines by themselves.
template <typename Index>
Status order_of(Order<Index>* out, Context& context, const Matrix& m, bool by_rows) {
  out->lines = by_rows ? m.rows : m.columns;
  const Index* const first = m.first.as<Index>();
  const Index* const second = m.second.as<Index>();
  if (m.format == Format::kCoo) {
    const Index* const line = by_rows ? first : second;
    out->places = by_rows ? second : first;
    return sort_by_line(out, context, m.index_dtype(), m.count, [&](const auto& give) {
      for (int64_t p = 0; p < m.count; ++p) give(static_cast<int64_t>(line[p]), p);
    });
  }
  out->places = second;
  return sort_by_line(out, context, m.index_dtype(), m.count, [&](const auto& give) {
    for (int64_t i = 0; i < m.lines(); ++i) {
      for (int64_t p = first[i]; p < first[i + 1]; ++p) give(i, p);
    }
  });
}

// Of one line: places and where their elements are.
template <typename Index>
struct Entry {
  Index place, at;
  bool operator<(const Entry& other) const {
    return place != other.place ? place < other.place : at < other.at;
  }
};

// The sum of elements of one place, in their order.
template <typename Index, typename E>
Status sum_place(typename E::Stored* out, const E& e, Memory&, const typename E::Stored* values,
                 const Entry<Index>* line, int64_t count) {
  auto sum = e.load(values[line[0].at]);
  for (int64_t k = 1; k < count; ++k) sum = e.add(sum, e.load(values[line[k].at]));
  e.store(*out, sum);
  return kOk;
}
template <typename Index, int N>
Status sum_place(flt::Value<N>* out, const WideFloat<N>&, Memory& memory,
                 const flt::Value<N>* values, const Entry<Index>* line, int64_t count) {
  ExactSum<N> sum(memory);
  ASTER_TRY(sum.reserve(count, false));
  for (int64_t k = 0; k < count; ++k) sum.add(values[line[k].at]);
  return sum.store(out);
}

template <typename Index, typename E>
Status merge_lines(Matrix* out, const Order<Index>& order, const Matrix& m, Entry<Index>* line,
                   Memory& memory, const E& e) {
  using Stored = typename E::Stored;
  const Index* const begins = order.offsets.template as<Index>();
  const Index* const at = order.order.template as<Index>();
  const Stored* const values = m.values.as<Stored>();
  Index* const offsets = out->first.as<Index>();
  Index* const places = out->second.as<Index>();
  Stored* const sums = out->values.as<Stored>();
  Index made = 0;
  offsets[0] = 0;
  for (int64_t i = 0; i < order.lines; ++i) {
    const int64_t count = begins[i + 1] - begins[i];
    bool rises = true;
    for (int64_t k = 0; k < count; ++k) {
      const Index from = at[begins[i] + k];
      line[k] = {order.places[from], from};
      if (k > 0) rises &= line[k - 1].place < line[k].place;
    }
    if (!rises) std::sort(line, line + count);
    for (int64_t k = 0; k < count;) {
      const int64_t begin = k++;
      if (k == count || line[k].place != line[begin].place) {
        sums[made] = values[line[begin].at];
      } else {
        while (k < count && line[k].place == line[begin].place) ++k;
        ASTER_TRY(sum_place(&sums[made], e, memory, values, line + begin, k - begin));
      }
      places[made++] = line[begin].place;
    }
    offsets[i + 1] = made;
  }
  return kOk;
}

template <typename Index>
int64_t longest_line(const Index* offsets, int64_t lines) {
  int64_t most = 0;
  for (int64_t i = 0; i < lines; ++i) {
    most = std::max(most, static_cast<int64_t>(offsets[i + 1] - offsets[i]));
  }
  return most;
}

template <typename Index>
Status compress_lines(Matrix* out, Context& context, const Matrix& m, bool by_rows) {
  Order<Index> order{};
  Array lines_of;  // of CSC for rows and the other way round: the line of each element
  if (m.format != Format::kCoo && by_rows != (m.format == Format::kCsr)) {
    // As COO whose places are the lines it has.
    Matrix flat = m;
    ASTER_TRY(lines_of.create(context, m.index_dtype(), m.count));
    const Index* const offsets = m.first.as<Index>();
    for (int64_t i = 0; i < m.lines(); ++i) {
      for (int64_t p = offsets[i]; p < offsets[i + 1]; ++p) {
        lines_of.as<Index>()[p] = static_cast<Index>(i);
      }
    }
    flat.format = Format::kCoo;
    flat.first = by_rows ? m.second : lines_of;
    flat.second = by_rows ? lines_of : m.second;
    ASTER_TRY(order_of<Index>(&order, context, flat, by_rows));
  } else {
    ASTER_TRY(order_of<Index>(&order, context, m, by_rows));
  }
  out->format = by_rows ? Format::kCsr : Format::kCsc;
  out->dtype = m.dtype;
  out->wide = m.wide;
  out->rows = m.rows;
  out->columns = m.columns;
  out->canonical = true;
  ASTER_TRY(out->first.create(context, m.index_dtype(), order.lines + 1));
  ASTER_TRY(out->second.create(context, m.index_dtype(), m.count));
  ASTER_TRY(out->values.create(context, m.dtype, m.count));
  const int64_t longest = longest_line(order.offsets.template as<Index>(), order.lines);
  Vec<Entry<Index>> line(context.heap());
  ASTER_TRY(line.resize(static_cast<size_t>(longest)));
  ASTER_TRY(with_element(m.dtype, [&](const auto& e) {
    return merge_lines(out, order, m, line.data(), context.heap(), e);
  }));
  out->count = out->first.template as<Index>()[order.lines];
  return kOk;
}

// The other lines of a matrix whose lines are canonical: each element goes to its place.
template <typename Index>
Status turn(Matrix* out, Context& context, const Matrix& m) {
  Matrix made = m;
  made.format = m.format == Format::kCsr ? Format::kCsc : Format::kCsr;
  ASTER_TRY(made.first.create(context, m.index_dtype(), made.lines() + 1));
  ASTER_TRY(made.second.create(context, m.index_dtype(), m.count));
  ASTER_TRY(made.values.create(context, m.dtype, m.count));
  const Index* const offsets = m.first.as<Index>();
  const Index* const places = m.second.as<Index>();
  Index* const ends = made.first.template as<Index>();
  Index* const lines = made.second.template as<Index>();
  std::fill_n(ends, made.lines() + 1, Index{0});
  for (int64_t p = 0; p < m.count; ++p) ++ends[places[p] + 1];
  for (int64_t i = 0; i < made.lines(); ++i) ends[i + 1] += ends[i];
  const auto move = [&](auto element) {
    using Element = decltype(element);
    const Element* const from = m.values.as<Element>();
    Element* const to = made.values.template as<Element>();
    for (int64_t i = 0; i < m.lines(); ++i) {
      for (int64_t p = offsets[i]; p < offsets[i + 1]; ++p) {
        const Index at = ends[places[p]]++;
        lines[at] = static_cast<Index>(i);
        to[at] = from[p];
      }
    }
  };
  switch (dtype::size(m.dtype)) {
    case 1:
      move(uint8_t{});
      break;
    case 2:
      move(uint16_t{});
      break;
    case 4:
      move(uint32_t{});
      break;
    case 8:
      move(uint64_t{});
      break;
    default:
      flt::with_limbs(m.dtype, [&](auto n) { move(flt::Value<n>{}); });
  }
  for (int64_t i = made.lines(); i > 0; --i) ends[i] = ends[i - 1];
  ends[0] = 0;
  *out = std::move(made);
  return kOk;
}

// The rows of a canonical COO, whose other arrays stay.
template <typename Index>
Status count_rows(Matrix* out, Context& context, const Matrix& m) {
  Matrix made = m;
  made.format = Format::kCsr;
  ASTER_TRY(made.first.create(context, m.index_dtype(), m.rows + 1));
  Index* const offsets = made.first.template as<Index>();
  const Index* const rows = m.first.as<Index>();
  int64_t row = 0;
  for (int64_t p = 0; p < m.count; ++p) {
    for (; row <= rows[p]; ++row) offsets[row] = static_cast<Index>(p);
  }
  for (; row <= m.rows; ++row) offsets[row] = static_cast<Index>(m.count);
  *out = std::move(made);
  return kOk;
}

// A canonical CSR with a row for every element.
template <typename Index>
Status expand_rows(Matrix* out, Context& context, const Matrix& m) {
  Array rows;
  ASTER_TRY(rows.create(context, m.index_dtype(), m.count));
  const Index* const offsets = m.first.as<Index>();
  for (int64_t i = 0; i < m.rows; ++i) {
    std::fill(rows.as<Index>() + offsets[i], rows.as<Index>() + offsets[i + 1],
              static_cast<Index>(i));
  }
  *out = m;
  out->format = Format::kCoo;
  out->first = std::move(rows);
  return kOk;
}

}  // namespace

Status compress(Matrix* out, Context& context, const Matrix& m, Format format) {
  if (m.format == format && m.canonical) {
    *out = m;
    return kOk;
  }
  if (!m.wide && std::max({m.rows, m.columns, m.count}) > INT32_MAX) {
    Matrix wider;
    ASTER_TRY(widen(&wider, context, m));
    return compress(out, context, wider, format);
  }
  return with_index(m.wide, [&](auto zero) -> Status {
    using Index = decltype(zero);
    if (m.canonical && m.format == Format::kCoo && format == Format::kCsr) {
      return count_rows<Index>(out, context, m);
    }
    if (format != Format::kCoo && m.canonical && m.format != Format::kCoo) {
      return turn<Index>(out, context, m);
    }
    if (format != Format::kCoo) {
      return compress_lines<Index>(out, context, m, format == Format::kCsr);
    }
    Matrix rows;
    ASTER_TRY(compress(&rows, context, m, Format::kCsr));
    return expand_rows<Index>(out, context, rows);
  });
}

Matrix transpose(const Matrix& m) {
  Matrix out = m;
  std::swap(out.rows, out.columns);
  if (m.format == Format::kCoo) {
    std::swap(out.first, out.second);
    out.canonical = m.canonical && m.count <= 1;
  } else {
    out.format = m.format == Format::kCsr ? Format::kCsc : Format::kCsr;
  }
  return out;
}

Status convert(void* to, DType dst, const void* from, DType src, int64_t count) {
  if (!dtype::is_wide(dst) && !dtype::is_wide(src)) {
    dtype::convert(to, dst, from, src, static_cast<size_t>(count));
    return kOk;
  }
  const auto size = static_cast<int64_t>(dtype::size(src)),
             to_size = static_cast<int64_t>(dtype::size(dst));
  for (int64_t i = 0; i < count; ++i) {
    flt::convert_element(static_cast<char*>(to) + i * to_size, dst,
                         static_cast<const char*>(from) + i * size, src, flt::current_rounding());
  }
  return kOk;
}

Status cast(Matrix* out, Context& context, const Matrix& m, DType dtype) {
  Matrix made = m;
  if (dtype != m.dtype) {
    ASTER_TRY(made.values.create(context, dtype, m.count));
    ASTER_TRY(convert(made.values.as<char>(), dtype, m.values.as<char>(), m.dtype, m.count));
    made.dtype = dtype;
  }
  *out = std::move(made);
  return kOk;
}

Status widen(Matrix* out, Context& context, const Matrix& m) {
  Matrix made = m;
  made.wide = true;
  const int64_t counts[] = {m.format == Format::kCoo ? m.count : m.lines() + 1, m.count};
  const Array* const from[] = {&m.first, &m.second};
  Array* const to[] = {&made.first, &made.second};
  for (int i = 0; i < 2; ++i) {
    ASTER_TRY(to[i]->create(context, DType::kInt64, counts[i]));
    std::copy_n(from[i]->as<int32_t>(), counts[i], to[i]->as<int64_t>());
  }
  *out = std::move(made);
  return kOk;
}

Status slice(Matrix* out, Context& context, const Matrix& m, int64_t begin, int64_t end) {
  const int64_t from = begin < 0 ? begin + m.rows : begin, to = end < 0 ? end + m.rows : end;
  if (from < 0 || to > m.rows || from > to) {
    return ASTER_FAIL(kRANGE, "rows [%lld, %lld) of %lld", static_cast<Long>(begin),
                      static_cast<Long>(end), static_cast<Long>(m.rows));
  }
  Matrix rows = m;
  if (m.format != Format::kCsr) ASTER_TRY(compress(&rows, context, m, Format::kCsr));
  return with_index(m.wide, [&](auto zero) -> Status {
    using Index = decltype(zero);
    Matrix made = rows;
    made.rows = to - from;
    ASTER_TRY(made.first.create(context, m.index_dtype(), made.rows + 1));
    const Index* const offsets = rows.first.as<Index>() + from;
    Index* const own = made.first.as<Index>();
    for (int64_t i = 0; i <= made.rows; ++i) own[i] = static_cast<Index>(offsets[i] - offsets[0]);
    made.count = own[made.rows];
    made.second = rows.second.from(offsets[0]);
    made.values = rows.values.from(offsets[0]);
    *out = std::move(made);
    return kOk;
  });
}

namespace {

template <typename E>
Status store_rows(Matrix* m, Context& context, const typename E::Stored* at, int64_t stride,
                  const E& e) {
  using Stored = typename E::Stored;
  for (int64_t i = 0; i < m->rows; ++i) {
    for (int64_t j = 0; j < m->columns; ++j) m->count += !e.is_zero(at[i * stride + j]);
  }
  m->wide = std::max({m->rows, m->columns, m->count}) > INT32_MAX;
  ASTER_TRY(m->first.create(context, m->index_dtype(), m->rows + 1));
  ASTER_TRY(m->second.create(context, m->index_dtype(), m->count));
  ASTER_TRY(m->values.create(context, m->dtype, m->count));
  with_index(m->wide, [&](auto zero) {
    using Index = decltype(zero);
    int64_t made = 0;
    m->first.as<Index>()[0] = 0;
    for (int64_t i = 0; i < m->rows; ++i) {
      for (int64_t j = 0; j < m->columns; ++j) {
        const Stored value = at[i * stride + j];
        if (e.is_zero(value)) continue;
        m->second.as<Index>()[made] = static_cast<Index>(j);
        m->values.as<Stored>()[made++] = value;
      }
      m->first.as<Index>()[i + 1] = static_cast<Index>(made);
    }
  });
  return kOk;
}

}  // namespace

Status from_dense(Matrix* out, Context& context, const aster_ml_tensor& dense, Format format) {
  Matrix m;
  m.dtype = static_cast<DType>(dense.dtype);
  m.rows = static_cast<int64_t>(dense.shape[0]);
  m.columns = static_cast<int64_t>(dense.shape[1]);
  m.canonical = true;
  Array elements;
  int64_t stride;
  ASTER_TRY(dense_rows(&elements, &stride, context, dense, m.dtype));
  ASTER_TRY(with_element(m.dtype, [&](const auto& e) -> Status {
    using Stored = typename std::remove_cvref_t<decltype(e)>::Stored;
    return store_rows(&m, context, elements.as<Stored>(), stride, e);
  }));
  return compress(out, context, m, format);
}

Status to_dense(aster_ml_tensor* out, Context& context, const Matrix& m) {
  Matrix rows;
  ASTER_TRY(compress(&rows, context, m, m.format == Format::kCoo ? Format::kCsr : m.format));
  const size_t shape[] = {static_cast<size_t>(m.rows), static_cast<size_t>(m.columns)};
  ASTER_TRY(dense_create(out, context, m.dtype, 2, shape));
  if (out->storage.bytes != 0) std::memset(out->storage.data, 0, out->storage.bytes);
  const bool by_rows = rows.format == Format::kCsr;
  const int64_t line = by_rows ? m.columns : 1, place = by_rows ? 1 : m.columns;
  with_index(m.wide, [&](auto zero) {
    using Index = decltype(zero);
    with_element(m.dtype, [&](const auto& e) {
      using Stored = typename std::remove_cvref_t<decltype(e)>::Stored;
      auto* const at = static_cast<Stored*>(out->storage.data);
      const Index* const offsets = rows.first.as<Index>();
      const Index* const places = rows.second.as<Index>();
      const Stored* const values = rows.values.as<Stored>();
      for (int64_t i = 0; i < rows.lines(); ++i) {
        for (int64_t p = offsets[i]; p < offsets[i + 1]; ++p) {
          at[i * line + places[p] * place] = values[p];
        }
      }
    });
  });
  return kOk;
}

}  // namespace aster::sparse
