// Elements of memory as words, and the places that indices and axes lead to.
#pragma once

#include <bit>

#include "dtype/convert.h"
#include "runtime/reference/strip.h"
#include "uop/expr.h"

namespace aster::runtime::reference {

// Canonical words of elements in memory.
inline uop::Word read(DType dtype, const void* data, int64_t position) {
  const char* const at =
      static_cast<const char*>(data) + position * static_cast<int64_t>(element_bytes(dtype));
  if (!dtype::is_float(dtype)) return dtype::load_int(dtype, at);
  return std::bit_cast<uop::Word>(dtype::load_double(dtype, at));
}
inline void write(DType dtype, void* data, int64_t position, uop::Word word) {
  char* const at = static_cast<char*>(data) + position * static_cast<int64_t>(element_bytes(dtype));
  if (dtype::is_float(dtype)) {
    dtype::store_double(dtype, at, std::bit_cast<double>(word));
  } else {
    dtype::store_int(dtype, at, word);
  }
}

// Walks the positions of the shape `at` in row-major order and says where each leads.
class Places {
 public:
  // indices: the nodes and memory of index 1, 2, ...
  Places(uop::Words into, uop::Words at, uop::Words coordinates, uop::Nodes indices,
         const void* const* memory)
      : into_(into),
        at_(at),
        coordinates_(coordinates),
        indices_(indices),
        memory_(memory),
        counters_(at.size(), 0) {}

  // Row-major position in `into` of the current element, or -1 outside.
  int64_t position() const {
    int64_t position = 0;
    for (size_t i = 0; i < into_.size(); ++i) {
      const uop::Word from = coordinates_[i];
      uop::Word c = from >= 0 ? counters_[static_cast<size_t>(from)] : 0;
      if (from < 0) {
        const size_t k = static_cast<size_t>(-from - 1);
        c = read(indices_[k]->dtype, memory_[k], element_);  // uint64 beyond int64 is negative
      }
      if (c < 0 || c >= into_[i]) return -1;
      position = position * into_[i] + c;
    }
    return position;
  }
  int64_t element() const { return element_; }
  void next() {
    ++element_;
    for (size_t i = at_.size(); i-- > 0;) {
      if (++counters_[i] < at_[i]) return;
      counters_[i] = 0;
    }
  }

 private:
  const uop::Words into_, at_, coordinates_;
  const uop::Nodes indices_;
  const void* const* const memory_;
  uop::Dims counters_;
  int64_t element_ = 0;
};

// The elements of one axis, for every place on the others: body(first position, distance).
template <typename Body>
Status for_rows(uop::Words shape, size_t axis, Body body) {
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != axis) (i < axis ? outer : inner) *= shape[i];
  }
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) ASTER_TRY(body(o * shape[axis] * inner + i, inner));
  }
  return kOk;
}

// Their elements in turn, from the last if so: body(position, how many came before).
template <typename Body>
Status for_steps(uop::Words shape, size_t axis, bool reverse, Body body) {
  return for_rows(shape, axis, [&](int64_t first, int64_t distance) {
    for (int64_t i = 0; i < shape[axis]; ++i) {
      body(first + (reverse ? shape[axis] - 1 - i : i) * distance, i);
    }
    return kOk;
  });
}

}  // namespace aster::runtime::reference
