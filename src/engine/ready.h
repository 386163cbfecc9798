// Small expressions that were realised before: from what they are straight to their kernels. No
// graph is walked but their own, nothing is allocated but the result.
#pragma once

#include <bit>

#include "engine/engine.h"

namespace aster::engine {

// What a small computation is but for where its operands lie.
class Key {
 public:
  bool push(int64_t word) {
    if (count_ == kMost) return false;
    words_[count_++] = word;
    // Few cycles a word, of which each waits for the one before; hash() mixes what came of them.
    hash_ = (std::rotl(hash_, 23) ^ static_cast<uint64_t>(word)) * 0x9E3779B97F4A7C15u;
    return true;
  }
  bool append(uop::Words words) {
    bool fits = true;
    for (int64_t word : words) fits = push(word) && fits;
    return fits;
  }
  uint64_t hash() const { return hash_mix(0, hash_); }
  uop::Words words() const { return {words_, count_}; }

 private:
  static constexpr size_t kMost = 112;
  size_t count_ = 0;
  uint64_t hash_ = 0;
  int64_t words_[kMost];  // the first count_ are set
};

// How a computation runs; with its key behind it.
struct Ready {
  static constexpr size_t kMostLeaves = 8, kMostAxes = 8, kMostOperands = 24;
  struct Leaf {
    uint32_t operand;
    int64_t offset;  // bytes from where that begins
  };
  uint64_t hash;
  size_t words;
  Executable* exe;  // null: it is not for this way
  size_t leaves, ndim, bytes;
  dtype::DType dtype;
  Leaf leaf[kMostLeaves];
  int64_t dims[kMostAxes];

  uop::Words key() const { return {reinterpret_cast<const int64_t*>(this + 1), words}; }
  uop::Words shape() const { return {dims, ndim}; }
};

// Whether runs may go by such a table now: nobody captures, traces or keeps.
bool takes_ready(const Engine& engine);
// Begins the key of something that is built by a function, or is an expression (0).
bool begin_key(Key* key, const Engine& engine, const void* function);
// Whether ready may run now; no: what it is should be computed as everything else is.
bool may_run(Engine& engine, const Ready& ready);
// Into result, on operands that lie at these addresses.
Status run_ready(Engine& engine, const Ready& ready, char* const* operands, void* result);

}  // namespace aster::engine
