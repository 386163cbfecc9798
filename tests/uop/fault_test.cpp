// Every allocation of a program that builds, simplifies, rewrites, prints and collects may fail.
#include <gtest/gtest.h>

#include "uop/helpers.h"
#include "uop/print.h"
#include "uop/raw.h"
#include "uop/rules_tensor.h"
#include "uop/symbolic.h"
#include "uop/verify.h"

namespace aster::uop {
namespace {

using Shape = std::vector<Word>;

#define NEED(node)                                \
  do {                                            \
    if ((node) == nullptr) return last_failure(); \
  } while (0)

Status tensor_part(Graph& g) {
  Node x = g.param(0, DType::kFloat32, Shape{4, 6});
  NEED(x);
  g.retain(x);
  Shape deep(70, 1);  // longer than what builders keep on the stack
  deep[3] = 24;
  Node y = g.reshape(g.flip(g.reshape(x, deep), Shape(70, 1)), Shape{4, 6});
  for (int64_t i = 0; i < 150; ++i) {  // grows the table
    y = g.alu(Op::kAdd,
              g.alu(Op::kMul, y, g.constant(DType::kFloat32, static_cast<double>(i), Shape{4, 6})),
              x);
  }
  const Node windows = g.unwindow(g.window(y, 1, 2, 1, 1), 1, 6, 1, 1);
  const Node parts[] = {y, g.pad(x, Shape{1, 0}, Shape{0, 1}, Shape{0, 0}, 0)};
  const Node padded = g.slice(parts[1], Shape{1, 0}, Shape{1, 1}, Shape{4, 6});
  const Node both = g.cat(std::array{parts[0], padded}, 0);
  const Node call = g.call(1, Shape{1, 2}, g.param(0, DType::kFloat32, Shape{4, 6}), std::array{y});
  const Node root =
      g.sink(std::array{g.after(g.reduce(Op::kAdd, g.reduce(Op::kAdd, both, Shape{0}), Shape{1}),
                                std::array{windows}),
                        call});
  if (root == nullptr) {
    g.release(x);
    return last_failure();
  }
  g.retain(root);
  Node simple = nullptr;
  SimplifyOptions options;
  options.drop_detach = true;
  Status status = simplify_tensor(&simple, g, root, options);
  if (status.ok()) status = verify(g, simple, Level::kTensor);
  if (status.ok()) {
    Text text(g.memory());
    status = print(text, std::array{simple});
  }
  if (status.ok()) {
    Map<Node, Node> map(g.memory());
    status = map.set(x, g.constant(DType::kFloat32, 1, Shape{4, 6}));
    if (status.ok()) status = g.substitute(&simple, root, map);
  }
  g.release(root);
  g.release(x);
  return status;
}

Status symbolic_part(Graph& g) {
  const Node a = g.range(0, 16), b = g.range(1, 8);
  NEED(a);
  NEED(b);
  const Node index = sym::add(g, sym::mul(g, a, 8), b);
  const Node quotient = sym::floordiv(g, sym::add(g, index, 3), 16),
             rest = sym::floormod(g, sym::add(g, index, 3), 16);
  const Node joined = sym::add(g, sym::mul(g, quotient, 16), rest);
  const Node gate = sym::and_(g, sym::lt(g, index, 100), sym::not_(g, sym::lt(g, joined, 5)));
  const Node chosen = sym::where(g, gate, joined, sym::max(g, index, quotient));
  NEED(chosen);
  sym::Rebuilder rebuilder(g);
  const Node outer = g.range(2, 4);
  NEED(outer);
  ASTER_TRY(rebuilder.replace(a, sym::add(g, sym::mul(g, outer, 4), g.range(3, 4))));
  NEED(rebuilder(chosen));
  NEED(sym::simplify(g, chosen));
  Node raw = nullptr;
  return build_raw(&raw, g,
                   RawNode{"Reduce:Max",
                           DType::kNone,
                           std::array{g.param(0, DType::kInt8, Shape{3, 4})},
                           Shape{0, 1},
                           {}});
}

TEST(Fault, EveryAllocationMayFail) {
  size_t total = 0;
  for (size_t fail_at = 0; fail_at == 0 || fail_at <= total; ++fail_at) {
    test::FailingAllocator allocator;
    allocator.fail_at = fail_at;
    {
      Heap heap(&allocator.table);
      Graph g(heap);
      aster_ml_error_clear();
      Status status = tensor_part(g);
      if (status.ok()) {
        g.collect();
        EXPECT_EQ(g.node_count(), 0u);
        status = symbolic_part(g);
      }
      if (fail_at == 0) {
        ASSERT_TRUE(status.ok());
        total = allocator.requests;
      } else {
        ASSERT_EQ(status.code, static_cast<int32_t>(Code::kMEMORY))
            << "request " << fail_at << " of " << total;
      }
      // What is there still works.
      allocator.fail_at = 0;
      const Node x = g.param(9, DType::kFloat32, Shape{2});
      EXPECT_NE(g.alu(Op::kExp, x), nullptr);
      g.collect();
      EXPECT_EQ(g.node_count(), 0u);
    }
    ASSERT_EQ(allocator.held, 0u) << "request " << fail_at;
  }
  EXPECT_GT(total, 300u);
}

}  // namespace
}  // namespace aster::uop
