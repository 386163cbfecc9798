// The order of kernels: what touches the same storage runs as the graph's states of it say.
#include <algorithm>
#include <array>
#include <utility>

#include "engine/rangeify.h"

namespace aster::engine {

using uop::Node;
using uop::Op;

// The kernels that write storage, by group of overlapping leaves, and which state sees which write.
class Rangeify::Writers {
 public:
  explicit Writers(Rangeify& rangeify)
      : r_(rangeify),
        params_(rangeify.memory_),
        sorted_(rangeify.memory_),
        stamps_(rangeify.memory_),
        below_(rangeify.memory_) {}

  Status find() {
    ASTER_TRY(params_.resize(r_.records_.size(), kNone));
    ASTER_TRY(stamps_.resize(r_.records_.size(), kNone));
    for (uint32_t at = 0; at < params_.size(); ++at) {
      const Node node = r_.records_[at].node;
      if (node->op == Op::kParam) params_[at] = static_cast<uint32_t>(node->arg(0));
      if (node->nsrc == 0) continue;
      const uint32_t* source = r_.position_.find(node->src(0));  // none: the body of a call
      if (source != nullptr) params_[at] = params_[*source];
    }
    for (uint32_t k = 0; k < r_.kernels_.size(); ++k) {
      if (r_.records_[r_.kernels_[k].record].node->op == Op::kAssign) ASTER_TRY(sorted_.push(k));
    }
    std::sort(sorted_.begin(), sorted_.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(group(a), record(a)) < std::pair(group(b), record(b));
    });
    return kOk;
  }

  // As they stand in the graph: those of a state's storage, whether they touch what it shows or
  // not.
  std::span<const uint32_t> of(uint32_t state) const {
    const uint32_t wanted = region(state).group;
    const auto less = [&](uint32_t k, uint32_t g) { return group(k) < g; };
    const auto more = [&](uint32_t g, uint32_t k) { return g < group(k); };
    const uint32_t* begin = std::lower_bound(sorted_.begin(), sorted_.end(), wanted, less);
    return {begin, std::upper_bound(begin, sorted_.end(), wanted, more)};
  }
  uint32_t record(uint32_t kernel) const { return r_.kernels_[kernel].record; }
  // Of what a Param, After, Assign or a view of them shows.
  const LeafRegion& region(uint32_t at) const { return r_.regions_[params_[at]]; }

  // Whether an Assign is done in the state of storage that a record shows: it is below it.
  Status sees(bool* out, uint32_t state, uint32_t assign) {
    const Node node = r_.records_[state].node, write = r_.records_[assign].node;
    *out = state == assign;
    if (*out || assign > state || node->op == Op::kParam) return kOk;
    *out = node->op == Op::kAfter && std::ranges::count(node->src().subspan(1), write) != 0;
    if (*out) return kOk;
    if (looked_below_ != state) {
      below_.clear();
      ASTER_TRY(walk(&below_, std::array{node}));
      for (Node other : below_) stamps_[*r_.position_.find(other)] = state;
      looked_below_ = state;
    }
    *out = stamps_[assign] == state;
    return kOk;
  }

 private:
  uint32_t group(uint32_t kernel) const { return region(record(kernel)).group; }

  Rangeify& r_;
  Vec<uint32_t> params_;  // below each record
  Vec<uint32_t> sorted_;  // kernels: by group, then as they stand in the graph
  Vec<uint32_t> stamps_;  // of each record: the state that was looked below last and has it there
  Vec<Node> below_;
  uint32_t looked_below_ = kNone;
};

// A reader comes after the writes below the node that it reads through and before all others;
// writers come as they stand in the graph. What another one's order implies is left out: where a
// write covers a region, whatever overlaps that is ordered by it.
Status Rangeify::link() {
  Writers writers(*this);
  ASTER_TRY(writers.find());
  for (uint32_t r = 0; r < kernels_.size(); ++r) {
    for (uint32_t state : kernels_[r].reads) ASTER_TRY(link_reader(&writers, r, state));
    const uint32_t own = kernels_[r].record;
    if (records_[own].node->op != Op::kAssign) continue;
    const std::span<const uint32_t> all = writers.of(own);
    for (size_t i = all.size(); i-- > 0;) {
      const uint32_t earlier = writers.record(all[i]);
      const LeafRegion& other = writers.region(earlier);
      if (earlier >= own || !other.overlaps(writers.region(own))) continue;
      ASTER_TRY(push_once(&kernels_[r].after, all[i]));
      if (other.contains(writers.region(own))) break;
    }
  }
  return kOk;
}

Status Rangeify::link_reader(Writers* writers, uint32_t reader, uint32_t state) {
  const LeafRegion& region = writers->region(state);
  const std::span<const uint32_t> all = writers->of(state);
  bool covered = false;  // by a write that the state sees
  for (size_t i = all.size(); i-- > 0;) {
    const uint32_t w = all[i], write = writers->record(w);
    if (write > state || !writers->region(write).overlaps(region)) continue;
    bool seen = false;
    ASTER_TRY(writers->sees(&seen, state, write));
    if (w != reader && !seen) ASTER_TRY(push_once(&kernels_[w].after, reader));
    if (w != reader && seen && !covered) ASTER_TRY(push_once(&kernels_[reader].after, w));
    covered |= seen && writers->region(write).contains(region);
  }
  for (const uint32_t w : all) {
    const uint32_t write = writers->record(w);
    if (write <= state || !writers->region(write).overlaps(region)) continue;
    if (w != reader) ASTER_TRY(push_once(&kernels_[w].after, reader));
    if (writers->region(write).contains(region)) break;
  }
  return kOk;
}

// Something reads one storage in two states: those that are overwritten are copied first, at the
// next attempt.
Status Rangeify::copy_overwritten() {
  restart_ = true;
  Writers writers(*this);
  ASTER_TRY(writers.find());
  for (uint32_t at = 0; at < records_.size(); ++at) {
    const Node node = records_[at].node;
    if (node->op != Op::kParam && node->op != Op::kAfter) continue;
    for (const uint32_t w : writers.of(at)) {
      const uint32_t write = writers.record(w);
      if (!writers.region(write).overlaps(writers.region(at))) continue;
      bool seen = false;
      ASTER_TRY(writers.sees(&seen, at, write));
      if (!seen) ASTER_TRY(forced_.set(node, 1));
    }
  }
  return kOk;
}

// Kernels in the order of the graph, each after all that it has to come after.
Status Rangeify::order(Vec<uint32_t>* out) {
  struct Frame {
    uint32_t kernel, next;
  };
  Vec<uint8_t> state(memory_);  // 0 new, 1 on the stack, 2 done
  Vec<Frame> stack(memory_);
  ASTER_TRY(state.resize(kernels_.size(), 0));
  for (uint32_t k = static_cast<uint32_t>(kernels_.size());
       k-- > 0;) {  // made from users to sources
    if (state[k] != 0 || kernels_[k].merged) continue;
    state[k] = 1;
    ASTER_TRY(stack.push(Frame{k, 0}));
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const Vec<uint32_t>& after = kernels_[frame.kernel].after;
      if (frame.next == after.size()) {
        state[frame.kernel] = 2;
        ASTER_TRY(out->push(frame.kernel));
        stack.pop();
        continue;
      }
      const uint32_t next = after[frame.next++];
      if (state[next] == 1) return copy_overwritten();
      if (state[next] == 2) continue;
      state[next] = 1;
      ASTER_TRY(stack.push(Frame{next, 0}));
    }
  }
  return kOk;
}

}  // namespace aster::engine
