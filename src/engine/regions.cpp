#include "engine/regions.h"

#include <algorithm>
#include <functional>

#include "engine/lazy.h"

namespace aster::engine {

using buffer::Region;
using uop::Node;
using uop::Op;

Region region_of(Node node) {
  const size_t bytes = static_cast<size_t>(node->count()) * dtype::size(node->dtype);
  // What stands for memory that is given later is apart from all else.
  if (node->op == Op::kParam) return {node, 0, bytes};
  return buffer::region_of(*storage_at(node), static_cast<size_t>(node->arg(2)), bytes);
}

Status find_regions(Vec<LeafRegion>* out, uop::Nodes leaves) {
  if (leaves.size() == 1) {
    const Region all = region_of(leaves[0]);
    return out->push(LeafRegion{0, 0, static_cast<int64_t>(all.end - all.begin)});
  }
  constexpr uint32_t kNone = UINT32_MAX;
  struct Place {
    Region region;
    uint32_t leaf;
  };
  struct Group {
    uintptr_t begin;
    uint32_t number;
  };
  Vec<Place> places(out->memory());
  Vec<Group> groups(out->memory());
  for (uint32_t i = 0; i < leaves.size(); ++i)
    ASTER_TRY(places.push(Place{region_of(leaves[i]), i}));
  std::ranges::sort(places, [](const Place& a, const Place& b) {
    if (a.region.space != b.region.space)
      return std::less<const void*>()(a.region.space, b.region.space);
    return a.region.begin != b.region.begin ? a.region.begin < b.region.begin : a.leaf < b.leaf;
  });
  ASTER_TRY(out->resize(leaves.size(), LeafRegion{0, 0, 0}));
  Region reach{nullptr, 0, 0};  // of the group at hand
  for (const Place& place : places) {
    if (groups.empty() || !reach.overlaps(place.region)) {
      ASTER_TRY(groups.push(Group{place.region.begin, kNone}));
      reach = place.region;
    }
    reach.end = std::max(reach.end, place.region.end);
    const uintptr_t first = groups.back().begin;
    (*out)[place.leaf] = {static_cast<uint32_t>(groups.size() - 1),
                          static_cast<int64_t>(place.region.begin - first),
                          static_cast<int64_t>(place.region.end - first)};
  }
  uint32_t count = 0;
  for (LeafRegion& leaf : *out) {
    Group& group = groups[leaf.group];
    if (group.number == kNone) group.number = count++;
    leaf.group = group.number;
  }
  return kOk;
}

}  // namespace aster::engine
