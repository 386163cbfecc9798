// Size arithmetic that says when it overflows, and hashing of words.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aster {

template <typename T>
[[nodiscard]] constexpr bool checked_add(T a, T b, T* out) {
  return !__builtin_add_overflow(a, b, out);
}
template <typename T>
[[nodiscard]] constexpr bool checked_sub(T a, T b, T* out) {
  return !__builtin_sub_overflow(a, b, out);
}
template <typename T>
[[nodiscard]] constexpr bool checked_mul(T a, T b, T* out) {
  return !__builtin_mul_overflow(a, b, out);
}

constexpr size_t align_up(size_t value, size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// One round of a 64-bit mixer (the finaliser of splitmix64 over a running state).
constexpr uint64_t hash_mix(uint64_t state, uint64_t word) {
  uint64_t x = (state ^ word) + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace aster
