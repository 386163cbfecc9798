// Fusion: decides which nodes of a tensor graph are materialised, and turns everything else into
// index arithmetic inside the kernels that materialise them.
//
// A first walk from users to sources hands every node the places at which its users read it
// (demands). A node with one place is computed inside its user's kernel; one with several is
// recomputed there if that is cheap, else it becomes a kernel of its own with fresh loop ranges. A
// second walk from sources to users builds the scalar expressions.
#pragma once

#include "engine/indexing.h"
#include "engine/regions.h"
#include "engine/schedule.h"

namespace aster::engine {

// Sources before users, bodies of calls left out.
Status walk(Vec<uop::Node>* out, uop::Nodes roots);

Status push_once(Vec<uint32_t>* out, uint32_t value);

class Rangeify {
 public:
  Rangeify(uop::Graph& graph, Schedule& schedule, std::span<const LeafRegion> regions)
      : g_(graph),
        memory_(graph.memory()),
        schedule_(schedule),
        regions_(regions),
        records_(memory_),
        position_(memory_),
        demands_(memory_),
        newest_(memory_),
        edges_(memory_),
        owns_(memory_),
        index_(memory_),
        kernels_(memory_),
        masks_(memory_),
        indirect_(memory_),
        in_place_(memory_),
        forced_(memory_),
        storages_(memory_) {}

  // Appends items for every root, in an order that respects what they read and write.
  Status run(uop::Node sink);

 private:
  struct Kernel;
  using Node = uop::Node;
  using Op = uop::Op;

  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr float kCheapInside = 128;  // operations worth repeating in the same kernel
  static constexpr int64_t kTinyTensor =
      4096;  // computed again rather than kept by one more kernel
  static bool is_leaf(Op op) { return op == Op::kParam || op == Op::kConst || op == Op::kIota; }
  static bool passes_through(Op op) { return uop::is_movement(op) || op == Op::kDetach; }

  // One place at which a node is read by one kernel.
  struct Demand {
    uint32_t record, kernel;
    uint32_t index_at;   // into index_, as many as the node has axes
    uint32_t edge_at;    // into edges_: the demand on each source
    uint32_t next;       // other demands on the same node
    uint32_t next_here;  // of these, by the same kernel
    Node gate;
    Node expr;      // the scalar, built by the second walk
    double domain;  // iterations of the loops and reductions around it
    Op under;       // the reduction that reads it through movement alone; kSink: none
    bool own;       // the kernel that materialises the node
  };
  struct Record {
    Node node;
    uint32_t first_demand = kNone, demand_count = 0;
    uint32_t kernel = kNone;  // the kernel that materialises it
    uint32_t slot = kNone;
    uint32_t leaves[4] = {kNone, kNone, kNone, kNone};
    float weight = 0;  // operations to recompute one element
    bool realized = false;
    bool reduces = false;  // a reduction or library call is inside, up to what is materialised
    bool held = false;     // materialised on its own account: a root, Contiguous, an argument of a
                           // library call
  };
  // What stands for an index that is read from memory until the second walk builds it: `read` in
  // conditions, `inside` (known to lie in the axis) in places.
  struct Indirect {
    uint32_t demand;  // on the tensor of indices
    int64_t size;     // of the axis
    Node read, inside;
  };
  // One result of a kernel: value stored at position of slot, for every turn of its loops.
  struct Output {
    uint32_t record, slot;
    Node position, value;
  };
  struct Kernel {
    explicit Kernel(Memory& memory)
        : ranges(memory),
          places(memory),
          prefixes(memory),
          operands(memory),
          reads(memory),
          after(memory),
          outputs(memory) {}
    uint32_t record = kNone;
    int64_t next_range = 0;
    uint32_t size = 0;       // nodes computed inside
    Vec<Node> ranges;        // its loops
    Vec<uint32_t> places;    // demands on what it materialises, one a result: parts of a Cat
    Vec<uint64_t> prefixes;  // sets of loops that must come first, each within the next
    Vec<uint32_t> operands;  // slots, in the order of the kernel's params
    Vec<uint32_t> reads;     // records of the storage it reads: Params, Assigns, Afters
    Vec<uint32_t> after;     // kernels that must run earlier
    Vec<Output> outputs;
    uint64_t unit = 0;  // equal ones compute the same of other operands, once or several times
    Node store_index = nullptr;  // where a kernel of an Assign writes; else row-major
    bool library = false;
    bool merged = false;  // its outputs are another kernel's now
  };

  // What merging knows beside the kernels themselves.
  struct Merging {
    explicit Merging(Memory& memory)
        : users(memory), ranks(memory), seen(memory), stack(memory), touching(memory) {}
    Vec<Vec<uint32_t>> users;  // of each kernel; merged ones may be among them
    Vec<uint32_t> ranks;       // more than those of all that come before
    Vec<uint32_t> seen;        // by which search
    uint32_t search = 0;
    Vec<uint32_t> stack;
    Vec<Vec<uint32_t>> touching;  // kernels that touch each slot, in order
    bool ordered = false;         // no two kernels wait for each other
    Status touch(uint32_t slot, uint32_t kernel);
  };

  Status analyse(Node sink);
  Status find_in_place(uop::Nodes nodes);
  Status analyse_library(Node call);
  Node library_call(Node node) const;
  void summarise(Record& record);
  Status choose();
  Status choose_node(uint32_t at);
  bool recompute(const Record& record);
  double evaluations(const Demand& demand);
  bool folds_fit(const Record& record);
  bool fold_fits(const Record& record, const Demand& demand);
  bool take_prefix(Kernel& kernel, uint64_t set);
  Status realize(uint32_t at);
  Status find_parts(size_t* axis, int64_t* parts, Node node);
  Status propagate(uint32_t demand);
  Status propagate_gather(uint32_t demand, uint32_t edge_at, double domain);
  Status indirect(const Indirect** out, uint32_t demand, int64_t size);
  Status ranges_below(uint64_t* out, const Demand& demand);
  Status resolve_indirect(Node* expr);
  Status demand(uint32_t* out, Node node, uint32_t kernel, std::span<const Node> index, Node gate,
                double domain, Op under);
  Status check_hazards(const Record& record);
  Status build();
  Status load(Node* out, const Record& record, const Demand& demand);
  Node combine(const Record& record, const Demand& demand);
  Status emit();
  Status emit_kernel(Kernel& kernel);
  Status emit_library(Kernel& kernel);
  uint32_t param_below(Node node) const;
  bool overlap(uint32_t param, uint32_t other) const;
  bool overlap(Node a, Node b) const { return overlap(param_below(a), param_below(b)); }
  class Writers;
  Status link();
  Status link_reader(Writers* writers, uint32_t reader, uint32_t state);
  Status order(Vec<uint32_t>* out);
  Status copy_overwritten();
  Status merge();
  Status merge_all(Merging* merging, bool widely);
  bool mergeable(uint32_t into, uint32_t from);
  bool fits_beside(const Kernel& into, const Kernel& from);
  static int64_t loops_of(const Kernel& kernel);
  bool streams(const Kernel& kernel);
  Status renumber_folds(Kernel* kernel, int64_t first);
  Status begin_merging(Merging* merging);
  Status raise_ranks(Merging* merging, uint32_t from);
  Status follows(bool* out, Merging* merging, uint32_t later, uint32_t earlier, bool at_once);
  Status near(Vec<uint32_t>* out, const Merging& merging, uint32_t kernel, bool widely);
  static bool same_loops(const Kernel& into, const Kernel& from);
  Status join_orders(Merging* merging, uint32_t into, uint32_t from);
  Status merge_pair(Merging* merging, uint32_t into, uint32_t from);
  Status drop_unread();
  Status loop_order(Vec<Node>* out, const Kernel& kernel);

  Record& record_of(Node node) { return records_[*position_.find(node)]; }
  std::span<const Node> index_of(const Demand& d) const {
    return {index_.data() + d.index_at, records_[d.record].node->ndim};
  }
  Status ranges_in(uint64_t* out, Node expr);
  bool ranges_of(uint64_t* out, const Demand& demand);
  Status new_slot(uint32_t* out, SlotKind kind, uint32_t index, DType dtype, int64_t count);
  Status param_slot(uint32_t* out, Node param);
  Status operand(uint32_t* out, Kernel& kernel, uint32_t slot);
  Status param_operand(Node* out, Kernel& kernel, uint32_t slot);
  Status target_base(uint32_t* param, Node* position, Node target, std::span<const Node> at);

  uop::Graph& g_;
  Memory& memory_;
  Schedule& schedule_;
  std::span<const LeafRegion> regions_;
  Vec<Record> records_;
  Map<Node, uint32_t> position_;
  Vec<Demand> demands_;
  Map<uint64_t, uint32_t> newest_;  // demand of a kernel on a record, both in one number
  Vec<uint32_t> edges_;
  Vec<Node> owns_;  // beside edges_: the condition that the node itself adds
  Vec<Node> index_;
  Vec<Kernel> kernels_;
  Map<Node, uint64_t> masks_;
  Vec<Indirect> indirect_;
  Map<Node, Node> in_place_;   // Assigns that are one library call on their target, and that call
  Map<Node, uint8_t> forced_;  // values that a write into their own storage would spoil
  Map<uint32_t, uint32_t> storages_;  // slot of each Param
  bool restart_ = false;
};

}  // namespace aster::engine
