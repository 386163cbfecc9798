// Where the elements of a strip lie, and how movement operations carry that to their sources.
#pragma once

#include "uop/uop.h"

namespace aster::runtime::reference {

// Row-major positions of the elements of a strip in some tensor: base + i * step, or listed.
// Elements that are masked out lie outside the tensor; their listed position is 0.
struct Index {
  int64_t base = 0;
  int64_t step = 0;
  const int64_t* at = nullptr;    // not null: positions one by one
  const uint8_t* mask = nullptr;  // not null: 1 where the element exists
  int64_t operator[](size_t i) const {
    return at != nullptr ? at[i] : base + static_cast<int64_t>(i) * step;
  }
};

// A movement operation (any but Reshape, which keeps row-major positions) with its arithmetic
// prepared. Rows of rank words each, kept outside: see rows.
struct Movement {
  enum class Kind : uint8_t {
    kAffine,    // rows: dims, factors; position = offset + sum of coordinate * factor
    kPad,       // rows: dims, before, gap, source dims, source strides
    kUnwindow,  // rows: dims, factors; then stride, dilation, windows, factor of the window axis
  };
  Kind kind;
  uint32_t rank;
  uint32_t axis;  // kUnwindow: of i; k is the next one
  size_t rows;    // where its words begin
  int64_t offset;
};

// Prepares node's movement to source number `source`; words are appended to rows.
Status prepare_movement(Movement* out, Vec<int64_t>* rows, uop::Node node, size_t source);

// Positions in the source of the n elements at positions `from` of the result. at and mask: room
// for n each, used where needed; they may be those of `from`. The result has elements, and so has
// the source.
Index move_index(const Movement& movement, const Vec<int64_t>& rows, Index from, size_t n,
                 int64_t* at, uint8_t* mask);

}  // namespace aster::runtime::reference
