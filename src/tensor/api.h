// What every public function of the module goes through: handles in, one handle out.
#pragma once

#include <initializer_list>
#include <optional>

#include "aster_ml/tensor.h"
#include "base/options.h"
#include "engine/lazy.h"
#include "tensor/ops.h"

namespace aster::tensor {

using Input = const aster_ml_lazy*;

// The cell of a handle; null for an empty one and for one that was freed.
inline engine::Lazy* cell(const aster_ml_lazy* x) { return object_of<engine::Lazy>(x->impl); }
using aster::context_of;
// The node of a checked handle, as the function that builds sees it; null for a null pointer.
inline Node node(Input x) { return x == nullptr ? nullptr : cell(x)->shown; }

// Sizes of axes: constants, or expressions of variables (engine/symbols.h), in canonical form.
struct Sizes {
  static constexpr size_t kMost = uop::Dims::kMost;
  size_t count = 0;
  Node at[kMost];  // the first count are set

  Sizes() {}  // NOLINT: at stays uninitialised
  void push(Node size) {
    if (count < kMost) at[count++] = size;
  }
  void insert(size_t axis, Node size);
  void remove(size_t axis);
  Node& operator[](size_t i) { return at[i]; }
  Node operator[](size_t i) const { return at[i]; }
  size_t size() const { return count; }
  operator Nodes() const { return {at, count}; }  // NOLINT: a list of nodes is what it is
};
// Whether a size is an expression of variables; not one that could not be made.
inline bool is_bound(Node size) { return size != nullptr && !uop::is_const(size); }

// The status of an empty handle: the code in the error record, which stays; ARGUMENT if it is
// clear.
Status empty_handle();
// Null pointers, empty handles and freed ones among what is given.
Status check_handle(Input x);

// One call of a builder: checks the handles, holds the context, makes the result's handle.
//
// A tensor of symbolic sizes is here a tensor of the present ones, which is right for every
// function, but uses the values of variables: what is captured is for these alone. A function that
// has a rule (sized.h) builds its result on the whole tensors, and says which sizes it has.
class Build {
 public:
  // optional: may be null pointers, but no empty handles.
  Build(aster_ml_lazy* out, std::initializer_list<Input> inputs,
        std::initializer_list<Input> optional = {});
  Build(aster_ml_lazy* out, const Input* inputs, size_t count);
  Build(aster_ml_lazy* out, const aster_ml_context* context);

  // Where no handle came of it, the nodes made are given back: Buffers among them hold memory.
  ~Build() {
    if (symbolic_ != nullptr) show_present();
    if (engine_ != nullptr && out_->impl == nullptr) graph().collect();
  }
  Build(const Build&) = delete;
  Build& operator=(const Build&) = delete;

  Status status() const { return status_; }
  Graph& graph() { return engine::graph_of(*engine_); }
  engine::Engine& engine() { return *engine_; }
  Context& context() { return *context_; }
  bool strict() const { return context_->options().strict_parity != 0; }
  // Writes the handle of a new cell naming node; nil: the failure in the error record.
  Status finish(Node node);
  // The same of a whole tensor of which sizes are meant.
  Status finish(Node whole, const Sizes& sizes);
  // The same of one whose axes are those of the rule where these are variables, else as large as
  // they are.
  Status finish_beside(Node whole);
  // The sizes that it gives; false where there is no rule.
  bool sizes_beside(Sizes* out, Node whole);
  // The cell of finish.
  Status make_cell(engine::Lazy** out, Node node) {
    return symbolic_ == nullptr ? engine::lazy_create(out, *engine_, node, first_)
                                : make_cell(out, node, rule_sizes());
  }
  Status make_cell(engine::Lazy** out, Node node, Nodes sizes);

  // Whether an operand has symbolic sizes.
  bool sized() const { return symbolic_ != nullptr && !symbolic_->operands.empty(); }
  // The same of this operand, and of no other.
  bool sized_alone(Input x) const {
    return sized() && symbolic_->operands.size() == 1 && symbolic_->operands[0] == cell(x);
  }
  // A rule holds from here on: values of variables are not used, finish takes whole tensors of
  // these sizes.
  void take_rule(const Sizes& sizes);
  // A failure that finish tells.
  void keep(Status status) {
    if (status_.ok()) status_ = status;
  }
  // What the function sees of an operand until it ends.
  void show(Input x, Node seen) { cell(x)->shown = seen; }
  engine::Symbols& symbols() { return engine::symbols_of(*engine_); }
  // What the result may be a view of.
  const engine::Lazy* first() const { return first_; }

 private:
  Status clear_out(std::initializer_list<std::span<const Input>> lists);
  Status check(std::span<const Input> inputs, bool optional);
  Status enter(std::initializer_list<std::span<const Input>> lists);
  // Where operands or results have symbolic sizes.
  struct Symbolic {
    explicit Symbolic(Memory& memory) : operands(memory), sizes(memory) {}
    Vec<engine::Lazy*> operands;  // that have
    Vec<Node> sizes;              // of the result, by a rule
    size_t seen_before = 0;       // symbols, by the capture that is open
  };
  Nodes rule_sizes() const { return {symbolic_->sizes.data(), symbolic_->sizes.size()}; }
  Status make_symbolic();
  Status note_sized(engine::Lazy* x);
  Status look_at_operands();
  void show_present();
  aster_ml_lazy* out_;
  Context* context_ = nullptr;
  engine::Engine* engine_ = nullptr;
  const engine::Lazy* first_ = nullptr;
  std::optional<ContextLock> lock_;
  Symbolic* symbolic_ = nullptr;
  Status status_;
};

// Whole tensors as Build::finish_beside takes one.
Status make_handles_beside(aster_ml_lazy* out, Build& build, Nodes nodes);
// Calls with several results build into a handle that stays unused, and end with make_handles.
// Clears the count handles at out; ARGUMENT if one of them is an input.
Status clear_handles(aster_ml_lazy* out, size_t count, std::span<const Input> inputs);
// A handle of each node: all of them, or none. Nil: the failure in the error record.
Status make_handles(aster_ml_lazy* out, Build& build, Nodes nodes);
// The same of whole tensors, sizes[i] of nodes[i].
Status make_handles(aster_ml_lazy* out, Build& build, Nodes nodes, std::span<const Sizes> sizes);

// Realises cells of one context, each to a Buffer: a view that is not row-major to memory of its
// own.
Status realize_stored(std::span<engine::Lazy* const> cells);

// The device that x is on or that will compute it: the default one where any will do.
Status device_of(int32_t* out, engine::Engine& engine, Node x);

// Whether a target is storage, or a view of it that has every element once: an Assign writes
// through it then.
bool writes_through(Node target);
// What of a node of tensors nobody has promised: it came from outside. Its sources are checked
// already. Errors: ARGUMENT, DTYPE.
Status check_outside(Node node);
// value as what is written into part of target, of this shape: broadcast, a weak dtype converted.
// DTYPE, SHAPE.
Status assign_value(Node* out, Graph& g, const char* what, Node target, Node value, Words shape);

// The elements of a concrete tensor as a node, where they lie; a copy, if the context allows it,
// where their strides do not nest. to_write: as strided_node.
Status tensor_node(Node* out, Build& build, const aster_ml_context* context,
                   const aster_ml_tensor* tensor, bool to_write);

// Labels as int32, or int64 where they need it: whatever is no index of a class equals none.
Node index_labels(Graph& g, Node labels);
// aster_ml_lazy_cross_entropy on nodes, checks included.
Node cross_entropy(Graph& g, Node logits, Node labels, const aster_ml_cross_entropy_options& o);

// dtype of a public argument, 0 being fallback.
Status dtype_argument(DType* out, int32_t code, DType fallback);
// ndim dimensions that come from outside, their signs unchecked.
Status shape_argument(Words* out, size_t ndim, const int64_t* shape);
// The canonical word of a scalar, and its dtype.
Status scalar_argument(Word* out, DType* dtype, const aster_ml_scalar* scalar);
// A number of a wide dtype that no double is, and so no constant of a graph, as a tensor of no
// axes; null of any other.
Status number_in_memory(Node* out, Build& build, const aster_ml_scalar* value);
// The filling of a scalar.
Status filling_argument(Filling* out, Build& build, const aster_ml_scalar* fill);

// A copy of an options struct of any size, the rest zero; null gives zeros.
template <typename T>
Status options_argument(T* out, const T* given) {
  *out = T{};
  return given == nullptr ? kOk : read_struct(out, given, "the options");
}

}  // namespace aster::tensor
