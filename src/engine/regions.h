// Which leaves of a graph lie in the same memory: what fusion, order and the schedule's key ask.
#pragma once

#include "base/memory.h"
#include "buffer/region.h"
#include "uop/uop.h"

namespace aster::engine {

// Where a leaf lies: in bytes from the first one of its group, the leaves that overlap each other,
// directly or through others of the group.
struct LeafRegion {
  uint32_t group;
  int64_t begin, end;

  bool overlaps(const LeafRegion& other) const {
    return group == other.group && begin < other.end && other.begin < end;
  }
  bool contains(const LeafRegion& other) const {
    return group == other.group && begin <= other.begin && other.end <= end;
  }
};

// The memory of a Buffer.
buffer::Region region_of(uop::Node buffer_node);
// One a leaf; groups are numbered in the order of the leaves. A Param is what it is called.
Status find_regions(Vec<LeafRegion>* out, uop::Nodes leaves);

}  // namespace aster::engine
