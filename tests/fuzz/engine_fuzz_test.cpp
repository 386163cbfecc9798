// The compiled engine against the interpreter, on random graphs: fusion, code generation and the
// memory plan. ASTER_ML_FUZZ_SEED and ASTER_ML_FUZZ_ENGINE_CASES choose which and how many.
#include <gtest/gtest.h>

#include "device/device.h"
#include "dtype/convert.h"
#include "engine/engine.h"
#include "fuzz/number.h"
#include "fuzz/opencl.h"
#include "fuzz/random_graph.h"

namespace aster::fuzz {
namespace {

// A realised tensor that views storage is that storage: it follows what is assigned later, where
// the interpreter gives what was read or assigned. What such roots come to is seen in the leaves'
// memory.
bool is_view_of_storage(Node node) { return viewed(node) != nullptr; }

// Runs cases in one context, one realize each, on a device.
class EngineRunner {
 public:
  explicit EngineRunner(aster_ml_context_options options, int32_t device) : device_(device) {
    options.no_fallback = 1;
    options.struct_size = sizeof(options);
    EXPECT_TRUE(Context::create(&context_, &options).ok());
    bool outer = false;
    EXPECT_TRUE(context_->enter(&outer).ok());
    EXPECT_TRUE(engine::engine_of(&engine_, *context_).ok());
    engine_->device = device;
  }
  ~EngineRunner() {
    context_->leave();
    context_->release();
  }
  EngineRunner(const EngineRunner&) = delete;
  EngineRunner& operator=(const EngineRunner&) = delete;

  bool run(Case& c, Answer* answer) {
    std::map<Node, Node> counterparts;
    std::vector<engine::Lazy*> leaves, roots;
    std::vector<buffer::Storage*> memory;
    for (Bytes& bytes : c.memory) {
      memory.push_back(nullptr);
      if (!buffer::storage_create(&memory.back(), *context_, bytes.size(), device_).ok() ||
          !buffer::copy({memory.back()->data, 0, device_}, {bytes.data(), 0, buffer::kHost},
                        bytes.size())
               .ok()) {
        return false;
      }
    }
    for (const Leaf& leaf : c.leaves) {
      // A view of the memory, or that piece of it wrapped once more.
      buffer::Storage* storage = memory[leaf.memory];
      size_t offset = leaf.offset;
      const bool wrapped =
          device_ == device::kCpu && (c.seed + leaves.size()) % 3 == 0 && bytes_of(leaf.node) != 0;
      if (wrapped) {
        if (!buffer::storage_wrap(&storage, *context_, static_cast<char*>(storage->data) + offset,
                                  bytes_of(leaf.node), device::kCpu, false, nullptr, nullptr)
                 .ok())
          return false;
        offset = 0;
      }
      Node node = engine::buffer_node(*engine_, storage, static_cast<int64_t>(offset),
                                      leaf.node->dtype, leaf.node->shape());
      if (wrapped) buffer::storage_release(storage);
      counterparts[leaf.node] = node;
      leaves.push_back(cell(node));
    }
    for (Node root : copy_into(engine_->graph, c.roots, &counterparts)) roots.push_back(cell(root));
    const Status status = engine::realize(*engine_, {roots.data(), roots.size()});
    Answer start;
    if (status.ok() && run_reference(c, &start)) {
      for (size_t i = 0; i < roots.size(); ++i) {
        if (is_view_of_storage(c.roots[i])) {
          answer->roots.push_back(start.roots[i]);
          continue;
        }
        const Node node = roots[i]->node;
        answer->roots.push_back(
            read(*engine::storage_of(node), static_cast<size_t>(node->arg(2)),
                 static_cast<size_t>(node->count()) * dtype::size(node->dtype)));
      }
      // What leaves hold afterwards is read from their memory, whatever became of their cells.
      for (size_t i = 0; i < memory.size(); ++i) {
        answer->memory.push_back(read(*memory[i], 0, c.memory[i].size()));
      }
    } else {
      aster_ml_error error{};
      aster_ml_error_last(&error);
      ADD_FAILURE() << "seed " << c.seed << ": " << error.message;
    }
    for (engine::Lazy* lazy : leaves) free_handle(lazy);
    for (engine::Lazy* lazy : roots) free_handle(lazy);
    for (buffer::Storage* storage : memory) buffer::storage_release(storage);
    return status.ok();
  }

  uint64_t interpreted() const { return engine_->counters.interpreted; }

 private:
  engine::Lazy* cell(Node node) {
    engine::Lazy* lazy = nullptr;
    EXPECT_TRUE(engine::lazy_create(&lazy, *engine_, node).ok());
    return lazy;
  }
  static Bytes read(const buffer::Storage& storage, size_t offset, size_t bytes) {
    Bytes out(bytes);
    EXPECT_TRUE(
        buffer::copy({out.data(), 0, buffer::kHost}, {storage.data, offset, storage.device}, bytes)
            .ok());
    return out;
  }
  const int32_t device_;
  Context* context_ = nullptr;
  engine::Engine* engine_ = nullptr;
};

Options deep(uint64_t seed) {
  Options options;
  options.operations = static_cast<int>(4 + seed % 29);
  return options;
}

void fuzz(aster_ml_context_options engine_options, uint64_t cases, Options (*options)(uint64_t),
          int32_t device = device::kCpu) {
  EngineRunner runner(engine_options, device);
  const uint64_t first = number("ASTER_ML_FUZZ_SEED", 1);
  cases = number("ASTER_ML_FUZZ_ENGINE_CASES", cases);
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    const std::string difference =
        check(seed, options(seed), run_reference,
              [&](Case& c, Answer* answer) { return runner.run(c, answer); });
    ASSERT_TRUE(difference.empty()) << difference;
    ASSERT_EQ(runner.interpreted(), 0u) << "seed " << seed << " was not compiled";
  }
}

TEST(Fuzz, EngineAgreesWithInterpreter) {
  aster_ml_context_options options{};
  options.threads = 2;
  fuzz(options, 60, deep);
}

TEST(Fuzz, NarrowerVectorsAgreeWithInterpreter) {
  aster_ml_context_options options{};
  options.threads = 1;
  options.vector_bytes = 32;
  fuzz(options, 30, deep);
}

TEST(Fuzz, EngineAgreesWithInterpreterOnOverlappingLeaves) {
  aster_ml_context_options options{};
  options.threads = 1;
  fuzz(options, 80, overlapping);
}

TEST(FuzzOpencl, EngineAgreesWithInterpreter) {
  if (!has_opencl()) GTEST_SKIP() << "no OpenCL device is installed";
  fuzz({}, 12, deep, ASTER_ML_DEVICE_OPENCL);
}

// What GPUs plan for groups that share blocks: transposes, products, columns and short rows, each
// with ends in the middle of blocks.
Case blocks_of_groups() {
  constexpr int64_t kRows = 70, kColumns = 37, kTerms = 18;
  Case c;
  c.graph = std::make_unique<Graph>(process_heap());
  Graph& g = *c.graph;
  const auto leaf = [&](int64_t rows, int64_t columns) {
    const auto slot = static_cast<int64_t>(c.leaves.size());
    const Node node =
        g.make(Op::kBuffer, DType::kFloat32, {}, std::array{slot}, std::array{rows, columns});
    Bytes bytes(bytes_of(node));
    for (int64_t i = 0; i < rows * columns; ++i) {
      unsigned char* const at = bytes.data() + static_cast<size_t>(i) * sizeof(float);
      dtype::store_double(DType::kFloat32, at, static_cast<double>((i * 7 + slot) % 19) / 4 - 2);
    }
    c.leaves.push_back({node, c.memory.size(), 0});
    c.memory.push_back(std::move(bytes));
    return node;
  };
  const Node x = leaf(kRows, kTerms), y = leaf(kTerms, kColumns), z = leaf(kRows, kColumns);
  const auto wide = [&](Node a, std::array<int64_t, 3> shape) {
    return g.expand(g.reshape(a, shape), std::array{kRows, kTerms, kColumns});
  };
  const Node terms = g.alu(Op::kMul, wide(x, {kRows, kTerms, 1}), wide(y, {1, kTerms, kColumns}));
  c.roots = {g.contiguous(g.permute(z, std::array<int64_t, 2>{1, 0})),
             g.reduce(Op::kAdd, terms, std::array<int64_t, 1>{1}),
             g.reduce(Op::kAdd, z, std::array<int64_t, 1>{0}),
             g.reduce(Op::kMax, x, std::array<int64_t, 1>{1})};
  return c;
}

TEST(FuzzOpencl, BlocksOfGroups) {
  if (!has_opencl()) GTEST_SKIP() << "no OpenCL device is installed";
  EngineRunner runner({}, ASTER_ML_DEVICE_OPENCL);
  Case c = blocks_of_groups();
  Answer want, got;
  ASSERT_TRUE(run_reference(c, &want));
  ASSERT_TRUE(runner.run(c, &got));
  EXPECT_EQ(compare(c, want, got), "");
  EXPECT_EQ(runner.interpreted(), 0u);
}

TEST(FuzzOpencl, EngineAgreesWithInterpreterOnOverlappingLeaves) {
  if (!has_opencl()) GTEST_SKIP() << "no OpenCL device is installed";
  fuzz({}, 12, overlapping, ASTER_ML_DEVICE_OPENCL);
}

}  // namespace
}  // namespace aster::fuzz
