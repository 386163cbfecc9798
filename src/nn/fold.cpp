#include "nn/fold.h"

#include <algorithm>
#include <utility>

#include "base/set.h"
#include "engine/prepare_integers.h"
#include "engine/rangeify.h"
#include "engine/recording.h"
#include "engine/regions.h"
#include "uop/composite.h"

namespace aster::nn {
namespace {

using engine::Engine;
using engine::Lazy;
using uop::Node;
using uop::Op;

// A constant may become larger than what it is computed of, up to here; and by so much where sums
// are taken on the way, as transforms of weights are. Weights that are read as wider numbers stay.
constexpr size_t kMostGrown = 64 << 10, kMostGrowth = 4;

// What a product of one row reads of weights that are kept as floats, at most.
constexpr size_t kMostRow = 4 << 20;

class Folder {
 public:
  Folder(uop::Nodes inputs, Vec<Node>& outputs, Engine& engine, bool quads, bool dequantises)
      : inputs_(inputs),
        quads_(quads),
        dequantises_(dequantises),
        outputs_(outputs),
        e_(engine),
        heap_(engine.context.heap()),
        order_(heap_),
        chosen_(heap_),
        runs_(heap_) {}

  Status run() {
    ASTER_TRY(open_chosen());
    ASTER_TRY(find_dependent());
    if (e_.context.options().strict_parity == 0) ASTER_TRY(multiply_quantised());
    for (Node node : order_) {
      if (!runs_.contains(node)) continue;
      const size_t first = node->op == Op::kCall ? 1 : 0;  // behind the body, which is on Params
      for (Node source : node->src().subspan(first)) ASTER_TRY(consider(source, !is_row(node)));
    }
    for (Node output : outputs_) ASTER_TRY(consider(output, true));
    if (chosen_.empty()) return kOk;
    // It is no step of a program that is being captured.
    engine::Recording* const recording = std::exchange(e_.recording, nullptr);
    const bool before = std::exchange(e_.folds, true);
    const Status status = compute();
    e_.folds = before;
    e_.recording = recording;
    return status;
  }

 private:
  // Puts the bodies of chosen implementations in their place: what they do to constants is seen
  // there, and nobody asks for their gradients any more.
  Status open_chosen() {
    ASTER_TRY(engine::walk(&order_, {outputs_.data(), outputs_.size()}));
    Map<Node, Node> bodies(heap_);
    bool any = false;
    for (Node node : order_) {
      if (node->op != Op::kCall || uop::composite_of(node) != uop::Composite::kChosen) continue;
      Node call = nullptr, body = nullptr;
      ASTER_TRY(e_.graph.substitute(&call, node, bodies));
      ASTER_TRY(uop::inline_call(&body, e_.graph, call));
      ASTER_TRY(bodies.set(node, body));
      any = true;
    }
    for (Node& output : outputs_) {
      if (any) ASTER_TRY(e_.graph.substitute(&output, output, bodies));
    }
    if (any) order_.clear();
    return kOk;
  }

  // Before what makes the operands is computed: their bytes are seen, and words of constant ones
  // are made once.
  Status multiply_quantised() {
    Map<Node, Node> products(heap_);
    for (Node node : order_) {
      if (node->op != Op::kCall || node->nsrc != 3) continue;
      const engine::Constant constant{!runs_.contains(node->src(1)), !runs_.contains(node->src(2))};
      Node call = node;
      if (!products.empty()) ASTER_TRY(e_.graph.substitute(&call, node, products));
      if (call->op != Op::kCall) continue;
      ASTER_TRY(engine::multiply_integers(&call, e_.graph, quads_, constant));
      if (call != node) ASTER_TRY(products.set(node, call));
    }
    if (products.empty()) return kOk;
    for (Node& output : outputs_) ASTER_TRY(e_.graph.substitute(&output, output, products));
    order_.clear();
    return find_dependent();
  }

  // What reads an input, or memory that is written.
  Status find_dependent() {
    bool fresh;
    runs_.clear();
    if (order_.empty()) ASTER_TRY(engine::walk(&order_, {outputs_.data(), outputs_.size()}));
    for (Node input : inputs_) ASTER_TRY(runs_.add(&fresh, input));
    for (Node node : order_) {
      if (node->op == Op::kBuffer && changes(node)) ASTER_TRY(runs_.add(&fresh, node));
      if (node->op != Op::kAssign) continue;
      const Node target = engine::buffer_below(node->src(0));
      if (target != nullptr) ASTER_TRY(runs_.add(&fresh, target));
    }
    for (Node node : order_) {
      const bool below =
          std::ranges::any_of(node->src(), [&](Node source) { return runs_.contains(source); });
      const bool effect = node->op == Op::kAssign || node->op == Op::kAfter;
      if (below || effect) ASTER_TRY(runs_.add(&fresh, node));
    }
    return kOk;
  }

  // Whether memory is another at each run of what is being captured.
  bool changes(Node buffer) const {
    const engine::Recording* const r = e_.recording;
    const buffer::Storage* const storage = engine::storage_at(buffer);
    if (e_.symbols.with_cell(storage) != engine::Symbols::kNone) return true;
    if (r == nullptr) return false;
    const buffer::Region region = engine::region_of(buffer);
    return std::ranges::any_of(r->inputs,
                               [&](const engine::Array& input) {
                                 return region.overlaps(buffer::region_of(*input.storage));
                               }) ||
           std::ranges::find(r->drawn, storage, &engine::Drawn::keys) != r->drawn.end();
  }

  // A product of one row, which reads each weight once: bytes are read sooner.
  static bool is_row(Node node) {
    return node->op == Op::kCall && uop::composite_of(node) == uop::Composite::kMatmul &&
           node->src(1)->dim(node->ndim - 2u) == 1;
  }

  // A constant as it is read: what lies below the views of it is computed, if anything is.
  Status consider(Node node, bool again) {
    while (!runs_.contains(node) && (uop::is_movement(node->op) || node->op == Op::kDetach) &&
           node->op != Op::kPad)
      node = node->src(0);
    const bool leaf = node->nsrc == 0 || node->op == Op::kTuple;
    if (leaf || runs_.contains(node) || dtype::is_weak(node->dtype)) return kOk;
    if (std::ranges::find(chosen_, node) != chosen_.end()) return kOk;
    Vec<Node> below(heap_);
    ASTER_TRY(engine::walk(&below, {&node, 1}));
    size_t read = 0;
    bool sums = false, words = again && dequantises_ && node->op == Op::kMul;
    words |= dequantises_ && node->op == Op::kMul && bytes_of(node) <= kMostRow;
    for (Node one : below) {
      if (one->op == Op::kBuffer) read += bytes_of(one);
      words |= one->op == Op::kOr;  // of bytes (multiply_integers)
      sums |= one->op == Op::kReduce ||
              (one->op == Op::kCall && uop::composite_of(one) == uop::Composite::kMatmul);
    }
    const size_t most = std::max(kMostGrown, sums || words ? kMostGrowth * read : read);
    return bytes_of(node) <= most ? chosen_.push(node) : Status(kOk);
  }
  static size_t bytes_of(Node node) {
    return static_cast<size_t>(node->count()) * dtype::size(node->dtype);
  }

  Status compute() {
    Vec<Lazy*> cells(heap_);
    Status status;
    for (Node node : chosen_) {
      Lazy* cell = nullptr;
      // Where no cell has to see it computed, a node of its own is realised, which nothing reads:
      // the outputs below are made anew once, not also for every cell.
      const Node alone = node->handles == nullptr ? e_.graph.contiguous(node) : node;
      status = engine::lazy_create(&cell, e_, alone);
      if (!status.ok()) break;
      scope_remove(cell);
      status = cells.push(cell);
      if (!status.ok()) break;
    }
    if (status.ok()) status = engine::realize_stored(e_, {cells.data(), cells.size()});
    Map<Node, Node> computed(heap_);
    for (size_t i = 0; i < cells.size(); ++i) {
      if (status.ok()) status = computed.set(chosen_[i], cells[i]->node);
      free_handle(cells[i]);
    }
    ASTER_TRY(status);
    for (Node& output : outputs_) ASTER_TRY(e_.graph.substitute(&output, output, computed));
    return kOk;
  }

  uop::Nodes inputs_;
  bool quads_, dequantises_;
  Vec<Node>& outputs_;
  Engine& e_;
  Heap& heap_;
  Vec<Node> order_, chosen_;
  Set<Node> runs_;  // what is computed at each run
};

}  // namespace

Status fold_constants(Vec<Node>* outputs, uop::Nodes inputs, Engine& engine, bool quads,
                      bool dequantises) {
  return Folder(inputs, *outputs, engine, quads, dequantises).run();
}

}  // namespace aster::nn
