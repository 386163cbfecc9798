// A context with its engine, driven below the tensor module: leaves from vectors, results as
// vectors, the interpreter as the second witness.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "device/device.h"
#include "engine/engine.h"
#include "runtime/reference/interpret.h"

namespace aster::engine::testing {

using uop::Node;
using uop::Op;
using uop::Word;
using Shape = std::vector<Word>;

inline uop::Words words(const Shape& shape) { return {shape.data(), shape.size()}; }

class World {
 public:
  explicit World(aster_ml_context_options options = {}) {
    options.struct_size = sizeof(options);
    if (options.threads == 0) options.threads = 2;
    if (options.compiler == nullptr) options.no_fallback = 1;
    EXPECT_EQ(Context::create(&context_, &options).code, 0);
    bool outer = false;
    EXPECT_EQ(context_->enter(&outer).code, 0);
    EXPECT_EQ(engine_of(&engine_, *context_).code, 0);
  }
  ~World() {
    for (Lazy* cell : cells_) free_handle(cell);
    context_->leave();
    context_->release();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Engine& engine() { return *engine_; }
  uop::Graph& g() { return engine_->graph; }

  Node leaf(const std::vector<float>& values, const Shape& shape) {
    return leaf_of(DType::kFloat32, values.data(), shape);
  }
  Node leaf_of(DType dtype, const void* values, const Shape& shape) {
    size_t bytes = dtype::size(dtype);
    for (Word dim : shape) bytes *= static_cast<size_t>(dim);
    buffer::Storage* storage = nullptr;
    EXPECT_EQ(buffer::storage_create(&storage, *context_, bytes, device::kCpu).code, 0);
    if (bytes != 0) std::memcpy(storage->data, values, bytes);
    Node node = buffer_node(*engine_, storage, 0, dtype, words(shape));
    buffer::storage_release(storage);
    return cell(node)->node;
  }
  Node random(const Shape& shape, uint32_t seed = 1) {
    std::mt19937 bits(seed);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    size_t count = 1;
    for (Word dim : shape) count *= static_cast<size_t>(dim);
    std::vector<float> values(count);
    for (float& value : values) value = uniform(bits);
    return leaf(values, shape);
  }
  // Keeps node for further use after a realize.
  Node hold(Node node) {
    g().retain(node);
    return node;
  }
  // A live cell on node.
  Lazy* cell(Node node) {
    Lazy* lazy = nullptr;
    Status status = lazy_create(&lazy, *engine_, node);
    aster_ml_error error{};
    aster_ml_error_last(&error);
    EXPECT_EQ(status.code, 0) << error.message;
    cells_.push_back(lazy);
    return lazy;
  }
  void realize(const std::vector<Lazy*>& cells) {
    Status status = realize_stored(*engine_, {cells.data(), cells.size()});
    aster_ml_error error{};
    aster_ml_error_last(&error);
    ASSERT_EQ(status.code, 0) << error.message;
  }
  std::vector<float> read(Lazy* lazy) {
    EXPECT_EQ(lazy->node->op, Op::kBuffer);
    std::vector<float> out(static_cast<size_t>(lazy->node->count()));
    if (!out.empty()) {
      std::memcpy(out.data(), static_cast<char*>(storage_of(lazy->node)->data) + lazy->node->arg(2),
                  out.size() * 4);
    }
    return out;
  }
  std::vector<char> bytes(Lazy* lazy) {
    EXPECT_EQ(lazy->node->op, Op::kBuffer);
    std::vector<char> out(static_cast<size_t>(lazy->node->count()) *
                          dtype::size(lazy->node->dtype));
    const char* data = static_cast<char*>(storage_of(lazy->node)->data) + lazy->node->arg(2);
    if (!out.empty()) std::memcpy(out.data(), data, out.size());
    return out;
  }
  std::vector<float> compute(Node node) {
    Lazy* lazy = cell(node);
    realize({lazy});
    return read(lazy);
  }
  std::vector<float> interpreted(Node node) {
    Vec<Node> nodes(context_->heap());
    EXPECT_EQ(uop::toposort(&nodes, std::array{node}).code, 0);
    std::vector<runtime::reference::Binding> bindings;
    for (Node n : nodes) {
      if (n->op == Op::kBuffer)
        bindings.push_back({n, static_cast<char*>(storage_of(n)->data) + n->arg(2)});
    }
    std::vector<float> out(static_cast<size_t>(node->count()));
    runtime::reference::Output output{node, out.data()};
    Status status = runtime::reference::interpret(g(), context_->heap(), bindings, {&output, 1});
    EXPECT_EQ(status.code, 0);
    return out;
  }
  // Compiled against interpreted, and the number of launches.
  void check(Node node, uint64_t kernels, double tolerance = 1e-5) {
    const std::vector<float> expected = interpreted(node), got = compute(node);
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "at " << i;
    }
    EXPECT_EQ(engine_->counters.last_kernels, kernels) << uop::brief(node).text;
  }

  // Shorthands.
  Node num(double value, Node like) { return g().constant(like->dtype, value, like->shape()); }
  Node sum(Node x, const Shape& axes) { return g().reduce(Op::kAdd, x, words(axes)); }
  Node expand(Node x, const Shape& shape) { return g().expand(x, words(shape)); }
  Node reshape(Node x, const Shape& shape) { return g().reshape(x, words(shape)); }
  Node row_softmax(Node x) {
    const Shape shape(x->shape().begin(), x->shape().end()),
        axis{static_cast<Word>(shape.size()) - 1};
    Node e = g().alu(Op::kExp,
                     g().alu(Op::kSub, x, expand(g().reduce(Op::kMax, x, words(axis)), shape)));
    return g().alu(Op::kDiv, e, expand(sum(e, axis), shape));
  }
  Node product(Node a, Node b) {  // [m, k] by [k, n], as primitives
    const Word m = a->dim(0), k = a->dim(1), n = b->dim(1);
    Node wide_a = expand(reshape(a, {m, 1, k}), {m, n, k});
    Node wide_b = expand(reshape(g().permute(b, words({1, 0})), {1, n, k}), {m, n, k});
    return reshape(sum(g().alu(Op::kMul, wide_a, wide_b), {2}), {m, n});
  }

 private:
  Context* context_ = nullptr;
  Engine* engine_ = nullptr;
  std::vector<Lazy*> cells_;
};

// Against plain loops, and the number of launches.
inline void expect_values(World& w, Node node, const std::vector<float>& expected,
                          uint64_t kernels) {
  const std::vector<float> got = w.compute(node);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_FLOAT_EQ(got[i], expected[i]) << "at " << i;
  EXPECT_EQ(w.engine().counters.last_kernels, kernels);
}

}  // namespace aster::engine::testing
