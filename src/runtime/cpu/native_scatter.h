// What a Scatter does to blocks, lines and runs of values once their places are known.
#pragma once

#include "dtype/dtype.h"

namespace aster::runtime::cpu::native {

using dtype::DType;

constexpr int64_t kAhead = 16;  // values whose places are asked for before they are written
constexpr int64_t kOutside = INT64_MIN;  // a position nowhere; negative whatever is added to it
constexpr int64_t kWrite = -1;           // instead of a reduction: the last value stays

// What is done to the n values of a block, at positions within [low, low + size).
struct Block {
  void* target;
  const void* value;
  const int64_t* at;
  int64_t n;
  uint64_t low, size;
  bool far;       // the target leaves the caches
  void* nowhere;  // takes what falls outside
  bool inside(int64_t i) const { return static_cast<uint64_t>(at[i]) - low < size; }
  // Where value i goes; selected without a branch, which positions at random would mispredict.
  template <typename T>
  T* place(T* y, int64_t i) const {
    return inside(i) ? y + at[i] : static_cast<T*>(nowhere);
  }
  // Asks for all lines before the first is written: stores wait for one another, requests do not.
  template <typename T>
  void prefetch(T* y) const {
    if (!far) return;
    for (int64_t i = 0; i < n; ++i) __builtin_prefetch(y + (inside(i) ? at[i] : 0), 1);
  }
};

// Values whose places one index tells, all this task's own; distances from one to the next.
struct Line {
  void* target;  // the place of the first but for its index
  const void* value;
  const void* index;
  void* next_target;       // of the line that follows
  const void* next_index;  // null: none does
  int64_t n;
  int64_t in_target, in_value, in_index;
  int64_t bound, stride, back;  // as in Index
  bool far;
  void* nowhere;
};

// What a plan does: to a block, to n elements that lie together, to a line by int32 or int64.
struct Apply {
  void (*block)(const Block& block);
  void (*run)(void* y, const void* x, int64_t n);
  void (*line32)(const Line& line);
  void (*line64)(const Line& line);
};
// op: kWrite or a reduction; of elements of so many bytes.
Apply apply_of(int64_t op, DType dtype, int64_t bytes);

// f(an integer of so many bytes).
template <typename F>
void with_bytes(int64_t bytes, F f) {
  if (bytes == 1) return f(uint8_t());
  if (bytes == 2) return f(uint16_t());
  if (bytes == 4) return f(uint32_t());
  f(uint64_t());
}

}  // namespace aster::runtime::cpu::native
