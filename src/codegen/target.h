// What code is made for: a language, the features of a CPU or device, and what of its memory
// decides how kernels are made.
#pragma once

#include <cstdint>

namespace aster::codegen {

// What kernels are rendered as.
enum class Language : uint8_t { kC, kOpencl, kProgram };

// What a machine is taken to do well, in vector instructions: what plans are chosen by. Found with
// bench_codegen.
struct Machine {
  double uniform = 0.5;     // an access that is the same for all lanes
  double masked = 2.5;      // a contiguous access under a mask
  double shuffle = 3;       // strides -1 and 2
  double gather = 1.2;      // an access lane by lane, for each lane
  double opaque = 2;        // the same where the index is not linear
  double scatter = 3;       // a store lane by lane, for each lane
  double horizontal = 10;   // adding up the lanes of an accumulator
  double latency = 4;       // what waits for the one before
  double task = 30000;      // least work of a task
  int64_t tasks = 128;      // more loops are not cut
  double heavy = 12;        // a body of so many operations needs no copies to keep the CPU busy
  double tile = 0.5;        // what copies of rows share, in copies: loads of columns, the loop
  double square = 4;        // most operations on elements of a square of registers
  int64_t block = 64;       // rows of a block that is read across
  int64_t written = 8;      // longest range of a fold without a loop
  double text = 300;        // operations in the body of such a fold
  int64_t window_rows = 8;  // of windows that overlap, side by side
  double panel = 1 << 20;   // bytes that stay in a cache while a loop goes through them
  double rows = 8 << 20;    // bytes of rows that stay in a cache while columns go by
  // Of products: operations and loads a cycle, most vectors side by side, and tiles from which on
  // what the last ones compute again does not count.
  double product_rate = 2, product_loads = 1.9;
  int64_t product_vectors = 3;
  int64_t product_tiles = 64;
  // Copies that the last rows of a product have at least where they are fewer than in its other
  // tiles, and what they have to save.
  int64_t product_last = 3;
  double product_twice = 1.02;
  int64_t ways = 8, way = 4096;  // of the first-level cache, and bytes of one
  // Copies of panels: tiles that share one at least, and those that do where this leaves tasks
  // enough, the bytes over which what is copied lies at
  // least, and tasks that are enough to have each make its own.
  int64_t pack_tiles = 8, pack_share = 64;
  // Of correlations with filters in the lanes: fewest terms, where rows of pixels fill so much of
  // the lanes instead; pixels in tiles that share a copy, at least and where that is enough.
  double filter_terms = 30, filled = 0.8;
  int64_t pack_filters = 4, pack_inside = 12;
  double pack_bytes = 64 << 10;
  // An operand of more bytes than `far` comes from memory, in the order in which it lies there if
  // what is read beside it has fewer than `beside`: rows of dot products that lie apart take up to
  // 2.6 times as long (bench/attention.py, decode).
  double far = 4 << 20, beside = 32 << 10;
  int64_t pack_rows = 48;  // that are enough to share one which turns columns
  int64_t pack_tasks = 8;
  // Operations behind the folds of a tile, in all copies together, from which on a loop stands for
  // them; the least length of a fold beside which that costs nothing; and the copies that it has
  // side by side, so that none waits for another.
  double rolled_text = 96, rolled_fold = 64;
  int rolled = 4;
  double kept = 8;  // operations of a value that is worth an array, and not computed again
  // Of devices of very many items: so many keep one busy.
  int64_t items = 1 << 15;
};

// A device that hides what takes long by having very many items at hand.
constexpr Machine machine_of_items() {
  Machine out;
  out.task = 0;
  out.tasks = INT64_MAX;
  return out;
}

// What the code is made for. The same kernel and target give the same text.
struct Target {
  int vector_bytes = 32;  // 16, 32 or 64; 0: any CPU's vectors of 16, and none of these features
  bool fma = true;        // fused multiply-add on vectors
  bool f16c = true;       // half <-> float on vectors
  bool avx512 = false;    // F, DQ, BW, VL: masks and masked accesses
  bool streaming = true;  // non-temporal stores pay for results larger than the last-level cache
  int64_t cache_bytes = int64_t{32} << 20;  // last-level cache
  Language language = Language::kC;
  bool portable = false;  // C for any CPU, planned for vectors of vector_bytes
  bool llvm = false;      // as C, in LLVM IR where that says it
  int max_lanes = 64;     // of a vector; a power of two
  bool fp64 = true;       // doubles
  // Work-items of a group on devices that want very many: a task is an item, which does one step,
  // and items next to each other touch memory next to each other. 0: CPUs, and what is like them.
  int group = 0;
  int group_limit = 0;             // the largest group, where that is more
  int64_t local_bytes = 32 << 10;  // memory of a group
  Machine machine;

  constexpr int register_bytes() const { return vector_bytes > 16 ? vector_bytes : 16; }
};

}  // namespace aster::codegen
