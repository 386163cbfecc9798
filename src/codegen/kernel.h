// What a kernel's graph says about itself: its ranges, the linear forms of its indices, and its
// loop tree.
#pragma once

#include "uop/symbolic.h"
#include "uop/uop.h"

namespace aster::codegen {

using dtype::DType;
using uop::Node;
using uop::Nodes;
using uop::Op;

// A set of ranges, by id.
using RangeSet = uint64_t;
constexpr int kMaxRanges = 64;
constexpr RangeSet range_bit(int range) { return RangeSet{1} << range; }
constexpr bool has(RangeSet set, int range) { return ((set >> range) & 1) != 0; }

// Ranges in loop order.
struct RangeList {
  uint8_t at[kMaxRanges] = {};
  int count = 0;
  void push(int range) { at[count++] = static_cast<uint8_t>(range); }
  const uint8_t* begin() const { return at; }
  const uint8_t* end() const { return at + count; }
  RangeSet set() const {
    RangeSet out = 0;
    for (int range : *this) out |= range_bit(range);
    return out;
  }
};

// constant + sum of coefficient * node, nodes being ranges or expressions that are not linear.
struct Form {
  int64_t constant = 0;
  std::span<const uop::sym::Term> terms;
};

// Element of a param that a region touches once an iteration.
struct Access {
  Node node;        // Load or Store
  RangeSet ranges;  // that the index depends on
  RangeSet opaque;  // of these, the ones inside terms that are not linear
  RangeSet gate;    // that the gate depends on
  bool store;
};

// A loop body: folds over the same ranges that share their loops, or the stores at the end of a
// segment.
struct Region {
  explicit Region(Memory& memory) : roots(memory), nodes(memory), accesses(memory) {}
  bool folds = false;
  int segment = 0;
  RangeList own;    // the folds' ranges
  Vec<Node> roots;  // Folds or Stores
  Vec<Node> nodes;  // values inside, sources before users; Folds of other regions are leaves
  Vec<Access> accesses;
  double operations = 0;  // of one iteration
  double iterations = 1;  // of all loops around
};

// The range that a Carry runs along.
inline int carried_range(Node carry) {
  return static_cast<int>(carry->src(carry->nsrc - 1)->arg(0));
}

// Appends what has to hold for a gate to be open: the operands of its Ands.
Status conjuncts(Vec<Node>* out, Node gate);

// Rough cost of one operation in vector instructions.
double weight(Node node);

// Loops that nothing separates: their order is free. After them come the folds of this depth, the
// stores that end here, and child segments, in this order.
struct Segment {
  explicit Segment(Memory& memory) : fold_nodes(memory), folds(memory), children(memory) {}
  int parent = -1;
  RangeList ranges;
  Vec<Node> fold_nodes;
  Vec<int> folds;     // regions: fold_nodes in groups
  int stores = -1;    // region
  Vec<int> children;  // segments
};

class Kernel {
 public:
  explicit Kernel(Memory& memory)
      : segments(memory),
        regions(memory),
        roots(memory),
        memory_(memory),
        order_(memory),
        ranges_of_(memory),
        forms_(memory),
        terms_(memory),
        params_(memory) {}

  // Errors: UNSUPPORTED (too many ranges), INTERNAL (no kernel), MEMORY.
  Status analyse(Node sink);

  Vec<Segment> segments;  // parents before children
  Vec<Region> regions;
  Vec<int> roots;  // segments without parent

  Nodes order() const { return {order_.data(), order_.size()}; }
  RangeSet ranges(Node node) const { return ranges_of_.get(node, 0); }
  int64_t size(int range) const { return size_[range]; }
  // Ranges that values are carried along: their loops are the innermost, in order, one by one.
  RangeSet carried() const { return carried_ & ~dropped_; }
  // Of an index expression; merged and unit ranges are left out.
  Form form(Node index) const;
  int64_t stride(Node index, int range) const;
  Nodes params() const { return {params_.data(), params_.size()}; }
  // Appends the values that a value is made of, Folds and Loads among them, of index arithmetic
  // only what is not linear.
  Status leaves(Vec<Node>* out, Node node) const;
  bool written(Node param) const;  // by a Store
  bool read(Node param) const;     // by a Load

  uint64_t constants = 0;  // slots of params, of the first 64, whose memory does not change
  bool is_constant(int slot) const { return slot < 64 && (constants >> slot & 1) != 0; }

 private:
  struct StoredForm {
    int64_t constant;
    uint32_t first, count;
  };
  Status collect_ranges(Node sink);
  Status collect_forms();
  Status add_form(Node index);
  Status merge();
  bool may_merge(int outer, int inner) const;
  Status store_ranges(RangeList* out, Node store) const;
  int fold_depth(Node fold, const RangeList& loops) const;
  Status build(Nodes stores, int position, int parent);
  Status group_folds(int segment);
  Status check(Node sink) const;
  Status check_carries() const;
  Status fill_region(Region& region);

  Memory& memory_;
  Vec<Node> order_;
  Map<Node, RangeSet> ranges_of_;
  Map<Node, StoredForm> forms_;
  Vec<uop::sym::Term> terms_;
  Vec<Node> params_;
  int64_t size_[kMaxRanges] = {};
  Segment& segment(int i) { return segments[static_cast<size_t>(i)]; }
  const Segment& segment(int i) const { return segments[static_cast<size_t>(i)]; }
  RangeSet carried_ = 0;
  RangeSet dropped_ = 0;  // of size 1, or merged into another
};

}  // namespace aster::codegen
