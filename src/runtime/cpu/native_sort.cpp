// Sort: rows of elements without their positions, by AVX-512 where there is, else by radix. What
// compares equal and is not the same, zeros and NaN, is put in the order of the source afterwards.
#include "runtime/cpu/native_sort.h"

#include <algorithm>

#include "runtime/cpu/machine.h"
#include "runtime/cpu/native_keys.h"

namespace aster::runtime::cpu::native {
namespace {

constexpr int64_t kSmall = 48;        // sorted by comparisons: all of them,
constexpr int64_t kRankedLong = 24;   // of words of 8 bytes up to here
constexpr int64_t kMostColumns = 16;  // rows across memory that are laid out together
constexpr int64_t kTileElements = 1 << 15;
constexpr int64_t kMostParted = 3;  // long rows, so few that threads would idle

struct Head {
  int64_t dtype, descending, wide;
  int64_t outer, size, inner;
  int64_t columns;   // rows of a unit
  int64_t per_task;  // units
  int64_t parted;    // two tasks a row
  int64_t units_of_inner() const { return (inner + columns - 1) / columns; }
};

template <typename K>
using Word = std::conditional_t<
    sizeof(typename K::Stored) == 1, uint8_t,
    std::conditional_t<sizeof(typename K::Stored) == 2, uint16_t, typename K::Bits>>;

// Every key goes where the number of those before it says: no branches, and vectors compare.
template <typename T>
void sort_by_rank(T* keys, int64_t n) {
  using Signed = std::make_signed_t<T>;  // which vectors have comparisons of
  constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  Signed from[kSmall];
  for (int64_t i = 0; i < n; ++i) from[i] = static_cast<Signed>(keys[i] ^ kSign);
  for (int64_t i = 0; i < n; ++i) {
    const Signed key = from[i];
    T place = 0;
    for (int64_t k = 0; k < i; ++k) place = static_cast<T>(place + (from[k] <= key));
    for (int64_t k = i + 1; k < n; ++k) place = static_cast<T>(place + (from[k] < key));
    keys[place] = static_cast<T>(static_cast<T>(key) ^ kSign);
  }
}

// Least significant digits first, between keys and room. Returns where they are then.
template <typename T>
T* sort_by_radix(T* keys, T* room, int64_t n) {
  if (n <= kSmall) {
    if (sizeof(T) < 8 || n <= kRankedLong) {
      sort_by_rank(keys, n);
    } else {
      std::sort(keys, keys + n);
    }
    return keys;
  }
  uint32_t bins[sizeof(T)][256] = {};
  const auto digit = [](T key, size_t d) { return static_cast<uint8_t>(key >> (8 * d)); };
  for (int64_t i = 0; i < n; ++i) {
    for (size_t d = 0; d < sizeof(T); ++d) ++bins[d][digit(keys[i], d)];
  }
  for (size_t d = 0; d < sizeof(T); ++d) {
    uint32_t* const at = bins[d];
    if (at[digit(keys[0], d)] == static_cast<uint32_t>(n)) continue;  // all are equal in it
    uint32_t sum = 0;
    for (size_t i = 0; i < 256; ++i) sum += std::exchange(at[i], sum);
    for (int64_t i = 0; i < n; ++i) room[at[digit(keys[i], d)]++] = keys[i];
    std::swap(keys, room);
  }
  return keys;
}

// Returns whether there are elements that are not what their keys tell.
template <typename K>
bool sort_narrow(const typename K::Stored* x, void* y, void* room, int64_t n, bool descending) {
  using Stored = typename K::Stored;
  using T = Word<K>;
  const T flip = descending ? static_cast<T>(~T{0}) : T{0};
  T* const keys = static_cast<T*>(y);
  bool special = false;
  for (int64_t i = 0; i < n; ++i) {
    const T key = static_cast<T>(K::of(x[i]));
    if constexpr (dtype::is_float(K::kDType)) {
      const Stored back = K::element(key);
      special |= std::memcmp(&back, &x[i], sizeof(Stored)) != 0;
    }
    keys[i] = key ^ flip;
  }
  const T* const sorted = sort_by_radix(keys, static_cast<T*>(room), n);
  for (int64_t i = 0; i < n; ++i) {
    const Stored element = K::element(static_cast<T>(sorted[i] ^ flip));
    std::memcpy(keys + i, &element, sizeof(Stored));
  }
  return special;
}

// Zeros and NaN of the sorted row y as they follow one another in x.
template <typename K>
void settle(const typename K::Stored* x, typename K::Stored* y, int64_t n, bool descending) {
  using Bits = typename K::Bits;
  const Bits flip = descending ? static_cast<Bits>(~Bits{0}) : Bits{0};
  const Bits zero = K::of({}) ^ flip, nan = static_cast<Word<K>>(~Word<K>{0}) ^ flip;
  auto* zeros = std::partition_point(y, y + n, [&](auto e) { return (K::of(e) ^ flip) < zero; });
  auto* nans = y;
  for (int64_t i = 0; i < n && !descending; ++i) nans += (K::of(x[i]) ^ flip) != nan;
  for (int64_t i = 0; i < n; ++i) {
    const Bits key = K::of(x[i]) ^ flip;
    if (key == zero) *zeros++ = x[i];
    if (key == nan) *nans++ = x[i];
  }
}

// Rows of elements that lie together.
template <typename K>
void sort_rows(const typename K::Stored* x, typename K::Stored* y, void* room, int64_t rows,
               const Head& head, Part part = Part::kWhole) {
  constexpr bool kFloat = dtype::is_float(K::kDType);
  const bool descending = head.descending != 0;
  if (head.wide != 0) {
    return sort_wide(x, y, rows, head.size,
                     {sizeof(*x), kFloat, !dtype::is_unsigned(K::kDType), descending,
                      K::kDType == DType::kFloat16 ? uint16_t{0x7c00} : uint16_t{0x7f80}},
                     part);
  }
  for (int64_t row = 0; row < rows; ++row, x += head.size, y += head.size) {
    const bool special = sort_narrow<K>(x, y, room, head.size, descending);
    if constexpr (kFloat) {
      if (special) settle<K>(x, y, head.size, descending);
    }
  }
}

// A row is two tasks, or one piece of work where one thread does both.
template <typename K>
void sort_parts(const Head& head, const typename K::Stored* x, typename K::Stored* y, int64_t begin,
                int64_t end) {
  for (int64_t task = begin; task < end;) {
    const bool lower = task % 2 == 0, whole = lower && task + 1 < end;
    const int64_t at = task / 2 * head.size;
    sort_rows<K>(x + at, y + at, nullptr, 1, head,
                 whole   ? Part::kWhole
                 : lower ? Part::kLower
                         : Part::kUpper);
    task += whole ? 2 : 1;
  }
}

// `columns` rows across memory, from column `first` on: laid out, sorted, and back.
template <typename T>
void turn(T* to, int64_t to_row, int64_t to_column, const T* from, int64_t from_row,
          int64_t from_column, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      to[i * to_row + k * to_column] = from[i * from_row + k * from_column];
    }
  }
}

template <typename K>
void sort_columns(const Head& head, const typename K::Stored* x, typename K::Stored* y,
                  typename K::Stored* laid, int64_t unit) {
  const int64_t n = head.size, across = head.units_of_inner();
  const int64_t column = unit % across * head.columns;
  const int64_t columns = std::min(head.columns, head.inner - column);
  const int64_t at = unit / across * n * head.inner + column;
  auto* const sorted = laid + n * head.columns;
  turn(laid, 1, n, x + at, head.inner, 1, n, columns);
  sort_rows<K>(laid, sorted, sorted + n * head.columns, columns, head);
  turn(y + at, head.inner, 1, sorted, 1, n, n, columns);
}

}  // namespace

namespace {

// Nanoseconds an element, about.
constexpr double kSlowSort = 8, kWideSort = 3;

bool is_wide(const CpuFeatures& features, Node node) {
  const Rows rows = rows_of(node->shape(), static_cast<size_t>(node->arg(0)));
  return sorts_wide(features, static_cast<int64_t>(element_bytes(node->dtype)), rows.size);
}

Status prepare(Plan* out, Node node, bool wide) {
  const Rows rows = rows_of(node->shape(), static_cast<size_t>(node->arg(0)));
  const int64_t bytes = static_cast<int64_t>(element_bytes(node->dtype));
  Head head = {};
  head.dtype = static_cast<int64_t>(node->dtype);
  head.descending = node->arg(1);
  head.wide = wide;
  head.outer = rows.outer;
  head.size = rows.size;
  head.inner = rows.inner;
  head.columns =
      rows.inner == 1 ? 1 : std::clamp<int64_t>(kTileElements / rows.size, 1, kMostColumns);
  const int64_t units = rows.outer * head.units_of_inner();
  head.per_task =
      std::clamp<int64_t>(machine::kSortedTaskElements / (rows.size * head.columns), 1, units);
  head.parted =
      head.wide != 0 && rows.inner == 1 && units <= kMostParted && rows.size >= kLeastParted;
  out->tasks = head.parted != 0 ? 2 * units : (units + head.per_task - 1) / head.per_task;
  out->nanoseconds = static_cast<double>(node->count()) * (wide ? kWideSort : kSlowSort);
  const int64_t room = head.wide != 0 ? 0 : 1;  // rows
  out->scratch_bytes = (rows.inner == 1 ? room : 2 * head.columns + room) * rows.size * bytes;
  return put_head(out, head);
}

}  // namespace

bool accepts_wide_sort(Node node) { return is_wide(detect_features(), node); }
double cost_sort(Node node) { return kSlowSort * static_cast<double>(node->count()); }
double cost_wide_sort(Node node) { return kWideSort * static_cast<double>(node->count()); }
Status prepare_sort(Plan* out, Node node, std::span<const int64_t>) {
  return prepare(out, node, false);
}
Status prepare_wide_sort(Plan* out, Node node, std::span<const int64_t>) {
  return prepare(out, node, true);
}
Status prepare_sort(Plan* out, Node node, const CpuFeatures& features) {
  return prepare(out, node, is_wide(features, node));
}

void run_sort(const Plan& plan, void* const* operands, void* scratch, int64_t begin, int64_t end) {
  const Head head = get_head<Head>(plan);
  const int64_t units = head.outer * head.units_of_inner();
  const int64_t first = begin * head.per_task, last = std::min(end * head.per_task, units);
  with_element(static_cast<DType>(head.dtype), [&](auto element) {
    using E = decltype(element);
    using Stored = typename E::Stored;
    if constexpr (!dtype::is_fp8(E::kDType)) {
      const Stored* const x = static_cast<const Stored*>(operands[0]);
      Stored* const y = static_cast<Stored*>(operands[1]);
      if (head.parted != 0) return sort_parts<Key<E::kDType>>(head, x, y, begin, end);
      if (head.inner == 1) {
        const int64_t at = first * head.size;
        return sort_rows<Key<E::kDType>>(x + at, y + at, scratch, last - first, head);
      }
      for (int64_t unit = first; unit < last; ++unit) {
        sort_columns<Key<E::kDType>>(head, x, y, static_cast<Stored*>(scratch), unit);
      }
    }
  });
}

}  // namespace aster::runtime::cpu::native
