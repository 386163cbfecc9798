// The IR: hash-consed nodes (op, dtype, shape, sources, argument words), and the graph that owns
// them.
//
// Equal nodes of one graph are the same pointer. A node never changes and its address never moves
// while it lives. Nodes are reclaimed by collect() once nothing retains them. Shapes are part of
// the node (ndim 0: scalar); kernel nodes are scalars. Operands of elementwise operations have
// equal shapes: broadcasting is explicit (Expand), constants carry any shape. Builders absorb nil:
// given a null source they return null, and the thread's error record tells the first failure.
#pragma once

#include <array>
#include <span>

#include "base/hash_map.h"
#include "base/memory.h"
#include "dtype/dtype.h"
#include "uop/interval.h"

namespace aster::uop {

using dtype::DType;

enum class Op : uint8_t {
#define OP(name, sources, level, meaning) k##name,
#define ALU(name, arity, rule, traits, cost, value, gradient, meaning) k##name,
#define STEP(name, operands, meaning) k##name,
#define PART(name, arity, rule, value, meaning) k##name,
#include "uop/ops.def"
  kCount
};

enum Trait : uint8_t { COMM = 1, ASSOC = 2, IDEM = 4, REDUCE = 8, STICKY = 16 };

// How the dtype of an elementwise result follows from the operands.
enum class DTypeRule : uint8_t {
  kNone,      // not elementwise
  kSame,      // that of the one operand
  kFloating,  // operands share one float dtype
  kIntegral,  // operands share one integer dtype or bool
  kCommon,    // operands share one dtype
  kCompare,   // operands share one dtype; bool
  kBits64,    // uint64
  kInt32,     // int32
  kWhere,     // bool, then two of one dtype
};

struct OpInfo {
  const char* name;
  const char* meaning;
  int8_t sources;  // -1: any number
  bool tensor;     // allowed in tensor graphs
  bool kernel;     // allowed in kernels
  bool program;    // allowed in kernel programs
  DTypeRule rule;
  uint8_t traits;
  uint8_t cost;  // of a vector of results, in additions; 0 for what is not arithmetic
};
const OpInfo& info(Op op);
// The traits on a dtype: sums and products of sticky integers depend on where parentheses stand,
// and what has no STICKY has no traits on them.
uint8_t traits(Op op, DType dtype);
inline bool is_alu(Op op) { return info(op).rule != DTypeRule::kNone && info(op).kernel; }
// Whether sums of it are products of vectors.
inline bool multiplies(Op op) { return op == Op::kMul || op == Op::kPairDot || op == Op::kQuadDot; }
bool is_movement(Op op);
// Whether what is written to the memory of its source is seen in it.
bool is_view(Op op);

using Word = int64_t;
using Words = std::span<const Word>;

struct Foreign;
struct UOp;
// One place where a node is a source, in the list of those of that source.
struct Use {
  const UOp* user;
  Use* next;
  Use** link;
};

struct UOp {
  Op op;
  DType dtype;  // kNone where a node has no value (Store, Sink, Tuple)
  uint8_t ndim;
  mutable uint8_t flags;
  uint32_t nsrc;
  uint32_t narg;
  mutable uint32_t references;  // of other nodes and of handles
  uint64_t id;                  // unique and increasing within a graph: what caches key on
  uint64_t hash;
  int64_t vmin, vmax;  // bounds of integer and bool scalars; {INT64_MIN, INT64_MAX} if unknown
  UOp* bucket_next;
  mutable Use* views;     // its views and what writes to it: not in scratch graphs
  mutable Use* uses;      // what else reads it: likewise
  mutable void* handles;  // what handles name it: their owner's list

  std::span<const UOp* const> src() const {
    return {reinterpret_cast<const UOp* const*>(this + 1), nsrc};
  }
  const UOp* src(size_t i) const { return src()[i]; }
  Words arg() const { return {reinterpret_cast<const Word*>(src().data() + nsrc), narg}; }
  Word arg(size_t i) const { return arg()[i]; }
  Words shape() const { return {arg().data() + narg, ndim}; }
  int64_t dim(size_t axis) const { return shape()[axis]; }
  // Elements. Graphs never hold a shape whose product overflows, a 0 in it or not.
  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : shape()) n *= d;
    return n;
  }
};
using Node = const UOp*;
using Nodes = std::span<const Node>;

// The cost of a vector of this node's results: integer division by a constant is less than another.
double cost(Node node);

// Owns nodes. A context has one for tensors; scheduling uses scratch graphs, dropped whole.
class Graph {
 public:
  // collects: whether nodes are reclaimed one by one; a scratch graph on an arena is dropped whole
  // instead.
  explicit Graph(Memory& memory, bool collects = true);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // The one constructor of nodes; no checks but of the rank (at most 255) and no simplification.
  // Null on a nil source or a failed allocation.
  Node make(Op op, DType dtype, Nodes src, Words arg = {}, Words shape = {});

  // Leaves. A constant's word is canonical: the bits of a double for float dtypes, an int64_t for
  // the others (uint64 by its bits, bool 0 or 1), truncated to the dtype.
  Node constant_word(DType dtype, Word word, Words shape = {});
  Node constant(DType dtype, double value, Words shape = {});  // converted and truncated to dtype
  Node constant_int(DType dtype, int64_t value, Words shape = {});  // likewise
  Node index(int64_t value) { return constant_int(DType::kWeakInt, value); }
  Node param(Word slot, DType dtype, Words shape);
  Node iota(DType dtype, int64_t count);
  Node range(Word id, int64_t size);

  // Elementwise: dtype and shape derived and checked (DTYPE, SHAPE); folds constants.
  Node alu(Op op, Nodes src);
  Node alu(Op op, Node a) { return alu(op, std::array{a}); }
  Node alu(Op op, Node a, Node b) { return alu(op, std::array{a, b}); }
  Node alu(Op op, Node a, Node b, Node c) { return alu(op, std::array{a, b, c}); }
  Node cast(Node x, DType dtype);  // x itself if it is of this dtype
  Node bitcast(Node x, DType dtype);

  // Movement: arguments checked (SHAPE, RANGE); identities give x, constants move for free.
  Node reshape(Node x, Words shape);
  Node expand(Node x, Words shape);  // same rank, axes of size 1 grow
  Node permute(Node x, Words axes);
  Node flip(Node x, Words axes_mask);  // one 0 or 1 an axis
  Node slice(Node x, Words start, Words step, Words size);
  Node pad(Node x, Words before, Words after, Words interior, Word fill_bits);
  Node window(Node x, int64_t axis, int64_t kernel, int64_t stride, int64_t dilation);
  Node unwindow(Node x, int64_t axis, int64_t size, int64_t stride,
                int64_t dilation);  // axis and axis+1 are o, k
  Node cat(Nodes xs, int64_t axis);

  // Indices are of the shape `at` (Gather: the result's, Scatter: value's); coordinates as in
  // ops.def, each index used once. Checked (DTYPE, SHAPE, ARGUMENT); operations of Scatter are
  // reductions, kSink writes.
  Node gather(Node x, Nodes indices, Words coordinates, Words shape);
  Node scatter(Op op, Node target, Node value, Nodes indices, Words coordinates);
  // Inclusive, from the first element of the axis or from its last.
  Node scan(Op op, Node x, int64_t axis, bool reverse = false);
  Node scan_place(Op op, Node x, int64_t axis);  // of Max, Min, And, Or
  Node log_scan(Node x, int64_t axis, bool reverse = false);
  Node argsort(Node x, int64_t axis, bool descending, int64_t count);  // the first count
  Node sort(Node x, int64_t axis, bool descending);                    // not of fp8

  Node reduce(Op op, Node x, Words axes);  // axes stay, with size 1; no axes: x
  // The sum over axes of a * b, of equal shapes and one sticky dtype: exact, checked once against
  // the result's dtype, which is dtype; or of one wide dtype, rounded once.
  Node dot(Node a, Node b, Words axes, DType dtype);
  // A function of aster_ml/flt.h that is no elementwise operation here, on operands of one wide
  // dtype and shape.
  Node wide_function(int32_t code, Nodes operands);
  Node contiguous(Node x);
  Node transfer(Node x, Word to, Word from);  // x on a device, as Contiguous; from: 0 is any
  Node detach(Node x);
  Node assign(Node target, Node value);
  // x as it is after effects: Assigns, or other Afters; what is neither is no effect.
  Node after(Node x, Nodes effects);
  // What a kernel computes of operands, which are of its shape if it is one of elements (SHAPE).
  // A graph that collects holds a reference of the kernel. count: what kernels of arrays are told.
  Node foreign(const Foreign& kernel, DType dtype, Words shape, Word count, Nodes operands);
  Node call(Word composite, Words attributes, Node body, Nodes arguments);
  Node sink(Nodes roots);

  // Rebuilds node with other sources through the checking builders where they apply.
  Node with_sources(Node node, Nodes src);
  // root with every key of map replaced by its value, bodies of calls left alone.
  Status substitute(Node* out, Node root, const Map<Node, Node>& map);

  void retain(Node node);
  void release(Node node);
  // Reclaims nodes that nothing retains. hook is told of every Buffer that goes.
  void collect();
  // While one lives, nothing is reclaimed: for calls of functions that are not ours among nodes
  // that nothing retains yet.
  class Hold {
   public:
    explicit Hold(Graph& graph) : graph_(graph) { ++graph_.holds_; }
    ~Hold() { --graph_.holds_; }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Graph& graph_;
  };
  void set_buffer_hook(void (*hook)(void* self, Node buffer), void* self);

  // Not of scratch graphs. The nodes above some, those included, sources before users; with what
  // nothing reaches any more, up to the next collect. views: only on to views of a node, and to
  // writes to it; else to all but the call that has it as its body.
  Status climb(Vec<Node>* out, Nodes from, bool views);
  // The Buffers whose first argument is so.
  template <typename Visit>
  void each_buffer(Word storage, const Visit& visit) const {
    if (buffers_.empty()) return;
    for (const Use* use = *buffer_list(storage); use != nullptr; use = use->next) {
      if (use->user->arg(0) == storage) visit(use->user);
    }
  }
  template <typename Visit>
  void each_buffer(const Visit& visit) const {
    for (const Use* use : buffers_) {
      for (; use != nullptr; use = use->next) visit(use->user);
    }
  }

  // Dtypes where something is stored, and of functions with real results.
  DType strong(DType d) const { return dtype::strong(d, defaults); }
  DType real(DType d) const { return strong(dtype::least_upper_float(d, defaults)); }
  dtype::Defaults defaults;
  int32_t rounding = 0;  // of wide floats, a mode of flt.h

  // Whether this graph owns node, a live node of some graph.
  bool owns(Node node) const;
  size_t node_count() const { return node_count_; }
  uint64_t nodes_made() const { return next_id_; }
  Memory& memory() { return *memory_; }

 private:
  // Whether movement of movement becomes one. Not where handles name nodes: a gradient by the
  // inner one needs the path through it.
  bool joins_movement() const { return !collects_; }
  static constexpr uint8_t kListed = 1;   // in the list of candidates for the next collect
  static constexpr uint8_t kEntered = 2;  // met by a climb

  Use** buffer_list(Word storage) const {
    return const_cast<Use**>(
        &buffers_[hash_mix(0, static_cast<uint64_t>(storage)) & (buffers_.size() - 1)]);
  }
  Status grow_buffers();
  void list_uses(UOp* node);
  UOp* find(uint64_t hash, Op op, DType dtype, Nodes src, Words arg, Words shape) const;
  Status grow_table();
  void destroy(UOp* node);
  Memory* memory_;
  bool collects_;
  UOp** table_ = nullptr;
  size_t table_size_ = 0;
  size_t node_count_ = 0;
  uint64_t next_id_ = 1;
  uint32_t holds_ = 0;
  Vec<UOp*> unreferenced_;  // candidates of the next collect
  Vec<Use*> buffers_;       // of graphs that collect, by a hash of their first argument
  size_t buffer_count_ = 0;
  void (*buffer_hook_)(void*, Node) = nullptr;
  void* buffer_hook_self_ = nullptr;
};

// Whether coordinates (see Gather in ops.def) lead from positions of the shape `at` into `into`.
bool coordinates_fit(Words into, Words at, size_t indices, Words coordinates);

// The number of elements, or false: more than 255 axes, a negative one, or bytes that overflow
// int64.
bool count_elements(Words shape, int64_t* out);

// Sources before users, each node once, in the order a depth-first walk from the first root meets
// them; bodies of calls among them. Iterative. Nil root: last_failure().
Status toposort(Vec<Node>* out, Nodes roots);

// The value of a Const, in either form.
inline bool is_const(Node node) { return node->op == Op::kConst; }
bool is_const_value(Node node, double value);  // a constant equal to value
double const_double(Node node);
int64_t const_int(Node node);

// Bounds of an integer or bool scalar from those of its sources; sound whatever overflows.
void derive_bounds(UOp& node);
// The same of an elementwise operation or Cast: operand is the dtype of the first source.
Interval derive_bounds(Op op, DType operand, DType result, std::span<const Interval> sources);

// One elementwise operation (Cast included) on canonical words: operand is the dtype of the last
// source.
Word evaluate(Op op, DType operand, DType result, const Word* words);
// Whether a partial operation of programs (PART, ToInt) is defined on these words.
bool is_defined(Op op, DType operand, DType result, const Word* words);
// The same of operations on a sticky dtype, by its definition: exact, then checked.
Word evaluate_sticky(Op op, DType operand, const Word* words);
// The word of a value converted from one dtype to another.
Word convert_word(Word word, DType from, DType to);

// "float32[2, 3]", into a caller's buffer; for messages.
struct Brief {
  char text[96];
};
Brief brief(Node node);
Brief brief_shape(Words shape);

}  // namespace aster::uop
