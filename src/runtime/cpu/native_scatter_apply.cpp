#include "runtime/cpu/native_scatter.h"
#include "runtime/cpu/native_types.h"

namespace aster::runtime::cpu::native {
namespace {

template <typename I, typename T, typename Put>
void put_line(const Line& told, Put put) {
  const Line line = told;  // which no store of bytes can change
  T* const y = static_cast<T*>(line.target);
  const T* const x = static_cast<const T*>(line.value);
  const I* const at = static_cast<const I*>(line.index);
  const auto coordinate = [&](const I* index) {
    const int64_t c = static_cast<int64_t>(*index);
    return c + (c >> 63 & line.back);
  };
  // Wherever it is, counted from the start: to look at the sign costs more than it saves.
  const auto ask = [&](const void* target, const void* index, int64_t i) {
    const int64_t c = static_cast<int64_t>(static_cast<const I*>(index)[i * line.in_index]);
    const uint64_t position = static_cast<uint64_t>(i * line.in_target) +
                              static_cast<uint64_t>(c) * static_cast<uint64_t>(line.stride);
    const uintptr_t place = reinterpret_cast<uintptr_t>(target) + position * sizeof(T);
    __builtin_prefetch(reinterpret_cast<const void*>(place), 1);  // NOLINT: never read
  };
  const auto one = [&](int64_t i) {
    const int64_t c = coordinate(at + i * line.in_index);
    const bool inside = static_cast<uint64_t>(c) < static_cast<uint64_t>(line.bound);
    T* const place = y + (inside ? i * line.in_target + c * line.stride : 0);
    put(inside ? *place : *static_cast<T*>(line.nowhere), x[i * line.in_value]);
  };
  int64_t i = 0;
  const int64_t rest = line.n - kAhead;
  for (; line.far && i < rest; ++i) {
    ask(y, at, i + kAhead);
    one(i);
  }
  for (; line.next_index != nullptr && i < line.n; ++i) {
    ask(line.next_target, line.next_index, i - rest);
    one(i);
  }
  for (; i < line.n; ++i) one(i);
}

template <typename T>
void write_run(void* y, const void* x, int64_t n) {
  std::memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
}
template <typename T>
void write_values(const Block& block) {
  T* const y = static_cast<T*>(block.target);
  const T* const x = static_cast<const T*>(block.value);
  block.prefetch(y);
  for (int64_t i = 0; i < block.n; ++i) *block.place(y, i) = x[i];
}
template <typename T, typename I>
void write_line(const Line& line) {
  put_line<I, T>(line, [](T& into, T x) { into = x; });
}

template <typename E, typename Combine>
void combine_run(void* into, const void* from, int64_t n) {
  constexpr Combine combine{};
  auto* const y = static_cast<typename E::Stored*>(into);
  const auto* const x = static_cast<const typename E::Stored*>(from);
  for (int64_t i = 0; i < n; ++i) y[i] = E::store(combine(E::load(y[i]), E::load(x[i])));
}
template <typename E, typename Combine>
void combine_values(const Block& block) {
  using Stored = typename E::Stored;
  constexpr Combine combine{};
  Stored* const y = static_cast<Stored*>(block.target);
  const Stored* const x = static_cast<const Stored*>(block.value);
  block.prefetch(y);
  for (int64_t i = 0; i < block.n; ++i) {
    Stored& into = *block.place(y, i);
    into = E::store(combine(E::load(into), E::load(x[i])));
  }
}

template <typename E, typename Combine, typename I>
void combine_line(const Line& line) {
  using Stored = typename E::Stored;
  put_line<I, Stored>(
      line, [](Stored& into, Stored x) { into = E::store(Combine{}(E::load(into), E::load(x))); });
}

}  // namespace

Apply apply_of(int64_t op, DType dtype, int64_t bytes) {
  Apply apply{};
  if (op == kWrite) {
    with_bytes(bytes, [&](auto word) {
      using T = decltype(word);
      apply = {write_values<T>, write_run<T>, write_line<T, int32_t>, write_line<T, int64_t>};
    });
    return apply;
  }
  with_element(dtype, [&](auto element) {
    using E = decltype(element);
    with_reduction<typename E::Value>(static_cast<Op>(op), [&](auto combine) {
      using C = decltype(combine);
      apply = {combine_values<E, C>, combine_run<E, C>, combine_line<E, C, int32_t>,
               combine_line<E, C, int64_t>};
      // What is more than one quick instruction on memory is faster in blocks, but for short ones.
      const bool quick = op == static_cast<int64_t>(Op::kAdd) ||
                         (op == static_cast<int64_t>(Op::kMul) && dtype::is_float(dtype));
      if (bytes > 2 && !quick) apply.line32 = apply.line64 = nullptr;
    });
  });
  return apply;
}

}  // namespace aster::runtime::cpu::native
