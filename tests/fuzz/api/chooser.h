// Random choices, the same for the same seed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

namespace api_fuzz {

class Chooser {
 public:
  explicit Chooser(uint64_t seed) : random_(seed) {}
  uint64_t word() { return random_(); }
  size_t below(size_t count) { return static_cast<size_t>(random_() % count); }
  bool one_in(size_t count) { return below(count) == 0; }
  template <typename T>
  T pick(std::initializer_list<T> list) {
    return list.begin()[below(list.size())];
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace api_fuzz
