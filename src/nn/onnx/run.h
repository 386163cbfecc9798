// One run of a model: its nodes in turn, each built by the row of ops.def that names it.
//
// A run is for given inputs, so every shape is a number. What is the same in every run (`known`)
// and small is computed at once by the interpreter: arithmetic on shapes never reaches the graph.
#pragma once

#include "engine/engine.h"
#include "nn/onnx/value.h"
#include "tensor/ops.h"
#include "uop/expr.h"

namespace aster::nn::onnx {

struct Model;
class Op;

// One row of ops.def.
struct Row {
  std::string_view domain, name;
  int32_t since, until;  // opsets; 0: still
  void (*build)(Op& op);
  // Runs graphs, and keeps no node while it does: what they are done with is given back.
  bool controls;
  // Weights of one element are numbers in kernels, not memory that they read. Scales are not: of
  // those every layer has others, which would be kernels of their own.
  bool literals;
};
const Row* find_row(std::string_view domain, std::string_view name, int64_t version);
// The greatest opset that is understood of a domain; 0: none is.
int64_t latest_opset(std::string_view domain);

struct TextHash {
  uint64_t operator()(std::string_view text) const {
    uint64_t hash = 14695981039346656037u;
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
    return hash;
  }
};

// Names of one graph; those of the graphs around it are seen through it.
class Scope {
 public:
  Scope(Heap& heap, const Scope* outer) : index_(heap), values_(heap), outer_(outer) {}
  Status set(std::string_view name, Ref value);
  // Empty where there is none.
  Ref find(std::string_view name) const;
  const Scope* outer() const { return outer_; }

  std::span<const NodeProto> nodes;  // those of the graph

 private:
  Map<std::string_view, uint32_t, TextHash> index_;
  Vec<Ref> values_;
  const Scope* outer_;
};

// What nodes of a function see of the node that calls it.
struct Frame {
  const FunctionProto* function = nullptr;  // null: the model's graph
  const NodeProto* caller = nullptr;
  const Frame* above = nullptr;
  int depth = 0;  // of functions and graphs in graphs
};

class Run {
 public:
  Run(Model& model, engine::Engine& engine);
  // Errors: those of nodes, told with their names; CANCELLED.
  Status graph(Vec<Ref>* outputs, const GraphProto& graph, std::span<const Ref> inputs,
               const Scope* outer, const Frame& frame);

  // The file of the model, where tensors of attributes lie.
  const Source& files_source() const;

  // The node decides by what inputs are, or draws at random: the graph is for this run alone.
  void look_at(const NodeProto& proto);

  // A value again, by the nodes of the graphs around that it comes of, where some names have other
  // values: these are set in inner, which is within the scope of node, before and after each.
  // Errors: those of nodes; FORMAT (nothing before node computes it), UNSUPPORTED (too deep).
  struct Given {
    std::string_view name;
    Ref value;
  };
  Status again(Ref* out, std::string_view name, std::span<const Given> given, Scope& inner,
               const NodeProto& node, const Frame& frame);

  // Work that counts as so many nodes. Errors: RANGE (a run has its limit).
  Status spend(uint64_t steps);

  Model& model;
  engine::Engine& engine;
  Graph& g;
  Files files;
  const NodeProto* looked = nullptr;  // the first such node
  bool capturing = false;             // for a program of the model's own
  int64_t placeholders = 0;           // that builders have made

 private:
  Status nodes(std::span<const NodeProto> nodes, Scope& scope, const Frame& frame);
  Status node(const NodeProto& proto, Scope& scope, const Frame& frame);
  Status call(const NodeProto& proto, const FunctionProto& function, Scope& scope,
              const Frame& frame);
  Status build(const NodeProto& proto, const Row& row, int64_t version, Scope& scope,
               const Frame& frame);
  int64_t version_of(std::string_view domain, const Frame& frame) const;
  Status fold(Value& value);
  // What the model keeps of a node of its outermost graph.
  Status take_kept(bool* out, const NodeProto& proto, Scope& scope);
  const Scope* top_ = nullptr;
  uint64_t steps_ = 0;
  int again_ = 0;  // calls of again() that are open
};

// A node that is being built: its operands, its attributes, and its results. Sticky: after a
// failure operands are nil and results are ignored.
class Op {
 public:
  Op(Run& owner, const NodeProto& node, int64_t opset, const Scope& names, const Frame& in);

  Run& run;
  Graph& g;
  const NodeProto& proto;
  const int64_t version;
  const Scope& scope;
  const Frame& frame;

  Status status() const { return status_; }
  bool ok() const { return status_.ok(); }
  void fail(Status status) {
    if (status_.ok()) status_ = status;
  }
  engine::Engine& engine() { return run.engine; }
  Heap& heap() { return run.engine.context.heap(); }
  Arena& arena() { return arena_; }
  const char* name() { return name_; }

  // Operands. A missing optional one has no value.
  size_t count() const { return proto.inputs.size(); }
  bool has(size_t i) const { return i < inputs_.size() && static_cast<bool>(inputs_[i]); }
  Ref value(size_t i);  // fails where there is none
  Node in(size_t i);    // of a tensor of numbers
  Node in_or_null(size_t i) { return has(i) ? in(i) : nullptr; }
  Expr x(size_t i) { return {&g, in(i)}; }
  int32_t element(size_t i);
  // Elements of a tensor of integers or bools; of floats. Read at once.
  Words ints(size_t i);
  std::span<const double> reals(size_t i);
  int64_t scalar(size_t i, int64_t fallback);
  double real(size_t i, double fallback);

  // Attributes.
  const Attribute* attribute(std::string_view key) const;
  bool has(std::string_view key) const { return attribute(key) != nullptr; }
  int64_t integer(std::string_view key, int64_t fallback) const;
  double number(std::string_view key, double fallback) const;
  std::string_view text(std::string_view key, std::string_view fallback) const;
  Words integers(std::string_view key) const;
  std::span<const double> numbers(std::string_view key) const;
  std::span<const std::string_view> texts(std::string_view key) const;
  Ref tensor(std::string_view key);  // empty where there is none
  // The axes in input i from opset `since` on, before in the attribute "axes".
  Words axes(size_t i, int64_t since);

  // Results.
  size_t results() const { return proto.outputs.size(); }
  bool wants(size_t i) const { return i < proto.outputs.size() && !proto.outputs[i].empty(); }
  void set(Node node, int32_t element = 0) { set(size_t{0}, node, element); }
  void set(size_t i, Node node, int32_t element = 0);
  void set(Expr x, int32_t element = 0) { set(size_t{0}, x.n, element); }
  void set(size_t i, const Ref& value);
  void set(const Ref& value) { set(size_t{0}, value); }
  bool all_known() const;
  // Another value in the place of an operand.
  void replace(size_t i, const Ref& value) { inputs_[i] = value; }
  bool all_constant() const;
  bool any_symbolic() const;
  // What builders see of some operands; none: those again that are.
  void show(std::span<const Node> nodes, std::span<const size_t> places);
  Ref result(size_t i) const { return i < outputs_.size() ? outputs_[i] : Ref(); }
  // The elements of a value, as fetch: what is built depends on them.
  void read(const void** out, Value& given);

  // The results are others in every run.
  void set_random() { random_ = true; }

  // Helpers of builders.
  Expr constant(DType dtype, double value) { return {&g, g.constant(dtype, value)}; }
  Node stored(Words values, Words shape, DType dtype);  // integers
  Node stored(std::span<const double> values, Words shape, DType dtype);
  size_t axis(int64_t given, size_t ndim);  // counted from the front; fails outside
  Dims resolved(Words axes, size_t ndim);   // ascending, none twice
  // The bodies of If, Loop and Scan.
  Vec<Ref> body(std::string_view key, std::span<const Ref> inputs);
  // A public function of lazies: f(out..., in...), as through_handle.
  template <typename F>
  Node through(F f, std::initializer_list<Node> in);
  template <typename F>
  Status through(std::span<Node> results, F f, std::span<const Node> in);

 private:
  friend class Run;
  template <typename T>
  std::span<const T> elements(size_t i, bool floats);
  Status gather();
  Node literal(Value& given);
  // The handle of an operand of symbolic sizes whose present part node is.
  bool sized_operand(aster_ml_lazy* out, Node node) const;
  // Keeps a result of symbolic sizes, whose present part set() may be given.
  Status keep_sized(aster_ml_lazy* made);
  Vec<Ref> inputs_, outputs_;
  Vec<Node> shown_;
  Vec<Shared> sized_;
  Arena arena_;
  Status status_;
  bool random_ = false;
  bool literals_ = true;
  char name_[80];
};

// f(out handles, in handles): the nodes of what a public function makes of nodes; null stays null.
template <typename F>
Status Op::through(std::span<Node> results, F f, std::span<const Node> in) {
  constexpr size_t kMost = 8;
  Graph::Hold hold(g);
  aster_ml_lazy inputs[kMost] = {}, outs[kMost] = {};
  const aster_ml_lazy* given[kMost] = {};
  bool borrowed[kMost] = {};
  Status done = ok() ? kOk : status_;
  for (size_t i = 0; i < in.size() && done.ok(); ++i) {
    if (in[i] == nullptr) continue;
    given[i] = &inputs[i];
    borrowed[i] = sized_operand(&inputs[i], in[i]);
    if (borrowed[i]) continue;
    engine::Lazy* cell;
    done = engine::lazy_create(&cell, engine(), in[i]);
    if (done.ok()) inputs[i].impl = cell->handle;
  }
  if (done.ok()) done = Status{f(outs, given)};
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = done.ok() ? tensor::node(&outs[i]) : nullptr;
    if (done.ok()) done = keep_sized(&outs[i]);
    aster_ml_lazy_free(&outs[i]);
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (given[i] != nullptr && !borrowed[i]) aster_ml_lazy_free(&inputs[i]);
  }
  return done;
}

template <typename F>
Node Op::through(F f, std::initializer_list<Node> in) {
  Node result = nullptr;
  const Status done = through({&result, 1}, f, {in.begin(), in.size()});
  fail(done);
  return result;
}

}  // namespace aster::nn::onnx
