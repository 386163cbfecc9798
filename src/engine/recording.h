// What the realize calls of a step ran, noted while a capture is open.
#pragma once

#include "buffer/region.h"
#include "buffer/tensor.h"
#include "engine/engine.h"

namespace aster::engine {

// A row-major array in memory, as captured.
struct Array {
  buffer::Storage* storage;
  int64_t offset;
  DType dtype;
  uint32_t first_dim, ndim;  // into the dims of whoever holds it
  bool away;                 // a device's, which names memory by what it allocated and an offset
};

// Whether memory of a device is named by what its backend allocated and an offset.
bool is_away(int32_t device);

struct Entry {
  Executable* exe;
  uint32_t first_param, params;
  uint32_t first_output, outputs;
  uint32_t first_copy = 0;  // of what does not change
  bool writes = false;      // in a program: to its inputs or captured state
};

// A draw of random numbers, made anew by each replay.
struct Drawn {
  buffer::Storage* state;  // RandomState
  buffer::Storage* keys;
  uint64_t words;
  int64_t offset;       // of the keys that replays read, into the workspace
  int64_t host_offset;  // where they are drawn first, if those are a device's
};

// Storage made from data inside a capture, and that data.
struct Made {
  buffer::Storage* storage;
  buffer::Storage* first;
};

// Expressions of which the first is not the greater: what is captured is for values for which that
// is so. Retained.
struct Assumption {
  uop::Node a, b;
};

// The array of a Buffer; its sizes go behind dims.
Status take_array(Array* out, Vec<int64_t>* dims, uop::Node buffer);

// Fills the keys of a draw, one a chunk of its words, and moves the counter on. Threads: any.
void draw_keys(uint64_t* keys, buffer::Storage* state, uint64_t words);

struct Recording {
  explicit Recording(Heap& heap)
      : entries(heap),
        params(heap),
        outputs(heap),
        copies(heap),
        copied(heap),
        inputs(heap),
        dims(heap),
        drawn(heap),
        made(heap),
        seen(heap),
        assumed(heap),
        sizes(heap),
        first_size(heap),
        kept(heap),
        state(heap) {}
  struct Ref {
    buffer::Storage* storage;
    int64_t offset;
    size_t bytes;
    buffer::Region whole;  // of the Buffer that this is a piece of
    Array buffer;          // that Buffer
  };
  Vec<Entry> entries;
  Vec<Ref> params;
  Vec<buffer::Storage*> outputs;
  Vec<buffer::Storage*> copies;
  Vec<buffer::Region> copied;  // what these are of
  Vec<Array> inputs;
  Vec<int64_t> dims;
  Vec<Drawn> drawn;
  Vec<Made> made;
  Vec<uint32_t> seen;  // symbols
  Vec<Assumption> assumed;
  // Of inputs, then of outputs that have symbolic sizes: an expression an axis, retained.
  static constexpr uint32_t kNone = UINT32_MAX;
  Vec<uop::Node> sizes;
  Vec<uint32_t> first_size;  // one an array; kNone: its sizes are numbers
  Vec<buffer::Storage*>
      kept;  // a reference each, so that no address is used twice during the capture
  bool sizes_noted = false;  // those of outputs are there before its end
  bool prune = false;
  bool dry = false;       // nothing runs: what is recorded is made for later
  bool constant = false;  // memory that is no input and that no step writes does not change
  Vec<const buffer::Storage*> state;  // but for this
  bool callers = false;   // dry, and what is pending is the caller's: it would lose its values
  uint64_t families = 0;  // of cells that were there before it
};

// Notes the sizes of the next input, or behind all inputs of the next output; none: numbers.
Status note_sizes(Engine& engine, uop::Nodes sizes);

}  // namespace aster::engine
