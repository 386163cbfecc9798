// What a schedule is given memory for: the Buffers of a graph, or the pieces of them that it reads
// and writes. A graph on another piece of a Buffer has the same schedule.
#pragma once

#include "engine/regions.h"

namespace aster::engine {

class Engine;

struct Leaves {
  explicit Leaves(Memory& memory)
      : parts(memory), buffers(memory), wholes(memory), regions(memory) {}
  // A node that is a leaf, or a piece of one: its elements from `first` on.
  struct Part {
    uop::Node node;
    uint32_t leaf;
    int64_t first;
  };
  Vec<Part> parts;  // in the order of the graph
  // One a leaf.
  Vec<uop::Node> buffers;   // its memory
  Vec<uop::Node> wholes;    // the Buffer of the graph that this is, or is a piece of
  Vec<LeafRegion> regions;  // where it lies among the others
  bool foreign = false;     // the graph has kernels that are not ours
};

// The leaves of the graph below roots. nodes: the graph, sources first; what is only below leaves
// is taken out. params: Params stand for memory too; there are no bodies of calls among nodes.
Status find_leaves(Leaves* out, Vec<uop::Node>* nodes, Engine& engine, uop::Nodes roots,
                   bool params = false);

}  // namespace aster::engine
