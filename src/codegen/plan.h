// How a kernel is made to run: the range along which it is vectorised, register tiles, the order of
// loops, and tasks.
#pragma once

#include "codegen/codegen.h"
#include "codegen/kernel.h"

namespace aster::codegen {

// Copies of a loop body, side by side in registers: instance c of a tiled range stands for its
// index plus c (times the lanes where it is the vectorised one).
struct Tile {
  int range;
  int copies;
};

// One loop of a nest. A block loop binds no index: it narrows the interval of a later loop over the
// same range.
struct Loop {
  int range;
  int64_t step;
  bool block;
};

// Loops of a segment, or of a region of folds.
struct Nest {
  static constexpr int kMaxTiles = 4;
  Loop loops[kMaxRanges + 2] = {};
  int loop_count = 0;
  Tile tiles[kMaxTiles] = {};
  int tile_count = 0;
  int vector = -1;  // range vectorised by this nest, if any
  int lanes = 1;
  // A tile that would pass the end of its range is moved back and computes some elements twice;
  // false where that would read what the kernel has written.
  bool overlap = true;
  RangeSet unrolled = 0;  // ranges without a loop: their whole length is written out

  int copies(int range) const {
    for (int i = 0; i < tile_count; ++i) {
      if (tiles[i].range == range) return tiles[i].copies;
    }
    return 1;
  }
  int64_t step(int range) const {
    return int64_t{1} * copies(range) * (range == vector ? lanes : 1);
  }
};

// Tasks of a root segment: its first loops, collapsed. Task t of the last one covers `chunk` of its
// range, the last task the rest besides.
struct Tasks {
  int loops = 0;
  int64_t chunk = 1;       // of the last collapsed loop, in elements of its range
  int64_t counts[8] = {};  // tasks along each collapsed loop
  int64_t total = 1;
  double flops = 0, bytes = 0;  // of all tasks together
};

struct Plan {
  explicit Plan(Memory& memory) : segments(memory), folds(memory), tasks(memory) {}
  Vec<Nest> segments;  // by segment
  Vec<Nest> folds;     // by region; unused for regions of stores
  Vec<Tasks> tasks;    // by root
  // The loops are those of other sizes too: every tile may pass the end of its range, every fold
  // may have a rest. What is computed has the same bits.
  bool general = false;
};

// A plan whose `general` is set is one for many sizes.
Status make_plan(Plan* out, const Kernel& kernel, const Target& target, Memory& memory);
// Whether two plans of a kernel combine the terms of its folds in the same order.
bool folds_alike(const Plan& a, const Plan& b);

// Whether index arithmetic of node (its own value and what it takes) fits in 32 bits.
bool fits_int32(Node node);

}  // namespace aster::codegen
