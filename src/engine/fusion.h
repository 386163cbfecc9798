// The passes of fusion, which `rangeify` runs in the order in which they stand here, and what they
// hand on to each other.
#pragma once

#include "base/list.h"
#include "engine/indexing.h"
#include "engine/regions.h"
#include "engine/schedule.h"

namespace aster::engine::fusion {

using uop::Graph;
using uop::Node;
using uop::Op;

constexpr uint32_t kNone = UINT32_MAX;
constexpr float kCheapInside = 128;    // operations worth repeating in the same kernel
constexpr int64_t kTinyTensor = 4096;  // computed again rather than kept by one more kernel

// Leaves that are computed wherever they are read, also where they are stored.
inline bool is_counted(Op op) { return op == Op::kConst || op == Op::kIota; }
inline bool is_leaf(Op op) { return op == Op::kParam || is_counted(op); }
inline bool passes_through(Op op) { return uop::is_movement(op) || op == Op::kDetach; }
inline bool is_scan(Op op) { return op == Op::kScan || op == Op::kScanPlace || op == Op::kLogScan; }
// The axis of a scan, and whether it begins at its end.
inline size_t scanned_axis(Node scan) {
  return static_cast<size_t>(scan->arg(scan->op == Op::kLogScan ? 0 : 1));
}
inline bool scans_back(Node scan) {
  return scan->op != Op::kScanPlace && scan->arg(scan->op == Op::kLogScan ? 1 : 2) != 0;
}
// One along more than one element.
inline bool scans_along(Node node) {
  return is_scan(node->op) && node->dim(scanned_axis(node)) > 1;
}
inline bool is_effect(Op op) { return op == Op::kAssign || op == Op::kAfter; }
// What shows storage as it is at some time, and computes nothing.
inline bool is_state(Op op) { return op == Op::kParam || op == Op::kAfter; }

// Whether a node shows fewer elements than it has again and again: reading those is less than
// reading the node, however many do.
inline bool repeats(Node node) {
  const int64_t count = node->count();
  while (node->op == Op::kReshape || node->op == Op::kPermute || node->op == Op::kExpand)
    node = node->src(0);
  return node->count() < count;
}

// ---- What is known of nodes before anything is decided ----

struct Record {
  Node node;
  uint32_t leaves[4] = {kNone, kNone, kNone, kNone};
  float weight = 0;         // operations to recompute one element
  bool reduces = false;     // a reduction or library call is inside, up to what is materialised
  bool scans = false;       // a scan is inside, likewise
  bool multiplies = false;  // a sum of products is inside, likewise
  bool follows =
      false;  // it is made of one reduction, which nothing else reads, element by element
  uint32_t users = 0, last_user = kNone;
  bool held = false;  // materialised on its own account: a root, Contiguous, an argument of a
                      // library call
  bool root = false;  // of these, a result
  const char* reason = "asked for in memory";  // where it is
  void hold(const char* why) {
    held = true;
    reason = why;
  }
  uint32_t arguments = 0;  // of a library call: its first one
};
// How an argument of a library call lies in memory.
struct Argument {
  uint32_t base;  // record of what has to lie there; kNone: the plan of the call knows it
  uint32_t first_word, word_count;
};
struct Analysis {
  Analysis(Arena& memory, std::span<const LeafRegion> regions_of_params)
      : regions(regions_of_params),
        records(memory),
        position(memory),
        in_place(memory),
        arguments(memory),
        words(memory) {}
  std::span<const LeafRegion> regions;  // of the Params
  List<Record> records;                 // of all nodes, sources first
  Table<Node, uint32_t> position;       // in records
  Table<Node, Node> in_place;  // Assigns that are one library call on their target, and that call
  List<Argument> arguments;
  List<int64_t> words;

  uint32_t at(Node node) const { return *position.find(node); }
  const Record& of(Node node) const { return records[at(node)]; }
  Node node(uint32_t record) const { return records[record].node; }
  // The call that computes a node, null for what kernels compute.
  Node library_call(Node node) const;
  std::span<const Argument> arguments_of(Node call) const;
  // Of the Param that a node is a view of.
  const LeafRegion& region(Node node) const {
    while (node->op != Op::kParam) node = node->src(0);
    return regions[static_cast<size_t>(node->arg(0))];
  }
  bool overlap(Node a, Node b) const { return region(a).overlaps(region(b)); }
};

// ---- Where nodes are read, and by which kernels ----

// One place at which a node is read by one kernel.
struct Demand {
  uint32_t record, kernel;
  uint32_t index_at;   // as many as the node has axes
  uint32_t edge_at;    // the demand on each source
  uint32_t next;       // other demands on the same node
  uint32_t next_here;  // of these, by the same kernel
  Node gate;           // null: always
  Node expr;           // the scalar, once it is built
  double domain;       // iterations of the loops and reductions around it
  Op under;            // the reduction that reads it through movement alone; kSink: none
  bool own;            // the kernel that materialises the node
  bool dead = false;   // nothing is computed from it after all
};
// Beside each record.
struct Use {
  uint32_t first_demand = kNone, demand_count = 0;
  uint32_t kernel = kNone;  // the kernel that materialises it
};
// What stands for an index that is read from memory until expressions are built: `read` in
// conditions, `inside` (known to lie in the axis) in places.
struct Indirect {
  uint32_t demand;  // on the tensor of indices
  int64_t size;     // of the axis
  Node read, inside;
};
// One result of a kernel: value stored at position of slot, for every turn of its loops.
struct Output {
  uint32_t slot;
  Node position, value;
};
struct Kernel {
  explicit Kernel(Arena& memory)
      : ranges(memory),
        places(memory),
        prefixes(memory),
        reads(memory),
        after(memory),
        operands(memory),
        outputs(memory) {}
  uint32_t record = kNone;  // what it materialises
  int64_t next_range = 0;
  uint32_t size = 0;           // nodes computed inside
  List<Node> ranges;           // its loops
  List<uint32_t> places;       // demands on what it materialises, one a result: parts of a Cat
  List<uint64_t> prefixes;     // sets of loops that must come first, each within the next
  Node carried = nullptr;      // the loop that its scans run along, which must come last
  uint64_t folded = 0;         // loops that its reductions depend on
  Node store_index = nullptr;  // where a kernel of an Assign writes; else row-major
  bool library = false;
  bool border = false;   // it stores the zeros around what another one stores
  const char* cut = "";  // why it is one
  // Order: by find_order.
  List<uint32_t> reads;  // records of the storage it reads: Params, Assigns, Afters
  List<uint32_t> after;  // kernels that must run earlier
  // What is computed: by build, then merge.
  List<uint32_t> operands;  // slots, in the order of the kernel's params
  List<Output> outputs;
  uint64_t unit = 0;    // equal ones compute the same of other operands, once or several times
  bool merged = false;  // its outputs are another kernel's now
  bool unread = false;  // a library call whose result nothing reads
};

// Which loops expressions depend on.
class RangeSets {
 public:
  explicit RangeSets(Arena& memory) : known_(memory) {}
  static uint64_t bit(Node range) {  // the last is shared by all that are too many
    return uint64_t{1} << (range->arg(0) < 63 ? range->arg(0) : 63);
  }
  Status find(uint64_t* out, Node expr);
  // Adds those of an expression.
  Status add(uint64_t* out, Node expr);
  void set(Node expr, uint64_t ranges) { known_.set(expr, ranges); }

 private:
  Table<Node, uint64_t> known_;
};

struct Fusion {
  explicit Fusion(Arena& memory)
      : uses(memory),
        demands(memory),
        edges(memory),
        owns(memory),
        index(memory),
        indirect(memory),
        kernels(memory),
        ranges(memory) {}
  List<Use> uses;
  List<Demand> demands;
  List<uint32_t> edges;
  List<Node> owns;  // beside edges: the condition that the node itself adds
  List<Node> index;
  List<Indirect> indirect;
  List<Kernel> kernels;  // from users to sources: by their records, the last first
  RangeSets ranges;

  bool materialised(uint32_t record) const { return uses[record].kernel != kNone; }
  // The record in whose memory one that is materialised lies: itself, or what stores it unchanged.
  uint32_t stored_as(uint32_t record) const { return kernels[uses[record].kernel].record; }
  // The expressions of a demand's place, as many as its node has axes.
  std::span<const Node> index_of(const Demand& demand, Node node) const {
    return {index.data() + demand.index_at, node->ndim};
  }
};
// Whether the element of a demand is read from memory and not computed.
bool is_load(const Analysis& nodes, const Fusion& fusion, const Demand& demand);
// A storage's state that is read from a copy made while it lasted.
inline bool is_copied(const Analysis& nodes, const Fusion& fusion, const Demand& demand) {
  return is_state(nodes.node(demand.record)->op) && fusion.materialised(demand.record) &&
         !demand.own;
}
// The Param and row-major position that an element of a view of storage stands at.
Status storage_place(Node* param, Node* position, Graph& graph, Node target,
                     std::span<const Node> at);

// Hands demands on from users to sources.
class Places {
 public:
  Places(Graph& graph, const Analysis& nodes, Fusion* fusion)
      : g_(graph), nodes_(nodes), f_(*fusion), newest_(fusion->demands.arena()) {}
  // To the sources of a demand's node.
  Status propagate(uint32_t demand);

 private:
  Status demand(uint32_t* out, Node node, uint32_t kernel, std::span<const Node> index, Node gate,
                double domain, Op under);
  Status propagate_gather(uint32_t demand, uint32_t edge_at, double domain);
  Status indirect(const Indirect** out, uint32_t demand, int64_t size);
  Status ranges_below(uint64_t* out, const Demand& demand);

  Graph& g_;
  const Analysis& nodes_;
  Fusion& f_;
  Table<uint64_t, uint32_t> newest_;  // demand of a kernel on a record, both in one number
};
// Equal parts of a node that one kernel computes side by side.
Status find_parts(size_t* axis, int64_t* parts, Arena& memory, const Analysis& nodes, Node node);
// Adds the kernel that materialises a record: its loops, and its own demands, one a part.
Status add_kernel(uint32_t* out, Graph& graph, const Analysis& nodes, Fusion* fusion, uint32_t at,
                  size_t axis, int64_t parts);
// Puts kernels into the order of their records again.
Status renumber(Fusion* fusion);

// ---- What is stored where ----

struct Slots {
  Slots(Schedule& all, Arena& memory)
      : schedule(all), of_record(memory), around(memory), of_param(memory) {}
  Status add(uint32_t* out, SlotKind kind, uint32_t index, DType dtype, int64_t count);
  Status param(uint32_t* out, Node param);  // that of a Param's memory
  Schedule& schedule;
  List<uint32_t> of_record;            // where what is materialised lies
  List<uint32_t> around;               // the record that it lies within, with zeros around it
  Table<uint32_t, uint32_t> of_param;  // by the Param's number
};
// The number of a slot among a kernel's operands.
uint32_t operand(Kernel& kernel, uint32_t slot);
// The Param of a kernel's program for a slot; null: a failure.
Node param_operand(Graph& graph, const Schedule& schedule, Kernel& kernel, uint32_t slot);

// ---- Images that lie in zeros ----

// What a node stores with zeros around its last two axes is materialised if it is computed.
void hold_within(Analysis* out, Node node);
// Finds what is materialised and then copied with zeros around its last two axes: it is stored
// where the copy would be, and only the zeros are stored by the kernel of the copy.
Status keep_borders(Fusion* fusion, Slots* slots, const Analysis& nodes);
// Where an element of what lies within is.
Node place_within(Graph& graph, Node bordered, Node inside, std::span<const Node> index);
// The Stores of the zeros to the Param of the whole.
Status store_border(List<Node>* out, Graph& graph, Node bordered, Node param);

// ---- The passes ----

// What each node would cost to recompute, which are materialised whatever their users are, and how
// the arguments of library calls lie. here: the host computes.
Status analyse(Analysis* out, Graph& graph, Node sink, bool here);
// What is materialised, and where everything else is computed.
Status choose(Fusion* out, Graph& graph, const Analysis& nodes);
// A kernel that would read storage elsewhere than it writes it becomes two.
Status separate_writes(Fusion* fusion, Graph& graph, const Analysis& nodes);
// Which kernels wait for which. What is read in two states is copied while it is in the first.
Status find_order(Fusion* fusion, Graph& graph, const Analysis& nodes);
// Memory, and the expressions that kernels compute. here: the host computes.
Status build(Fusion* fusion, Slots* slots, Graph& graph, const Analysis& nodes, bool here);
// Kernels with the same loops become one where that saves reading.
Status merge(Fusion* fusion, const Schedule& schedule, Graph& graph, const Analysis& nodes);
// Results that nothing reads in the end are not computed, or stay in registers.
Status drop_unread(Fusion* fusion, const Slots& slots);
// The order in which kernels that are not merged run: each after all that it has to come after,
// where there is a choice so that little memory is needed at once.
Status find_sequence(List<uint32_t>* out, const Fusion& fusion, const Slots& slots);
// Items, in that order.
Status emit(Slots* slots, Fusion* fusion, Graph& graph, const Analysis& nodes);

}  // namespace aster::engine::fusion
