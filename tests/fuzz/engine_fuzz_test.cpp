// The compiled engine against the interpreter, on random graphs: fusion, code generation and the
// memory plan. ASTER_ML_FUZZ_SEED and ASTER_ML_FUZZ_ENGINE_CASES choose which and how many.
#include <gtest/gtest.h>

#include <cstring>

#include "device/device.h"
#include "engine/engine.h"
#include "fuzz/number.h"
#include "fuzz/random_graph.h"

namespace aster::fuzz {
namespace {

// A realised tensor that views storage is that storage: it follows what is assigned later, where
// the interpreter gives what was read or assigned. What such roots come to is seen in the leaves'
// memory.
bool is_view_of_storage(Node node) { return viewed(node) != nullptr; }

// Runs cases in one context, one realize each.
class EngineRunner {
 public:
  explicit EngineRunner(aster_ml_context_options options) {
    options.no_fallback = 1;
    options.struct_size = sizeof(options);
    EXPECT_TRUE(Context::create(&context_, &options).ok());
    bool outer = false;
    EXPECT_TRUE(context_->enter(&outer).ok());
    EXPECT_TRUE(engine::engine_of(&engine_, *context_).ok());
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
    for (const Bytes& bytes : c.memory) {
      memory.push_back(nullptr);
      if (!buffer::storage_create(&memory.back(), *context_, bytes.size(), device::kCpu).ok())
        return false;
      if (!bytes.empty()) std::memcpy(memory.back()->data, bytes.data(), bytes.size());
    }
    for (const Leaf& leaf : c.leaves) {
      // A view of the memory, or that piece of it wrapped once more.
      buffer::Storage* storage = memory[leaf.memory];
      size_t offset = leaf.offset;
      const bool wrapped = (c.seed + leaves.size()) % 3 == 0 && bytes_of(leaf.node) != 0;
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
        engine::Lazy* root = roots[i];
        const char* data =
            static_cast<const char*>(engine::storage_of(root->node)->data) + root->node->arg(2);
        const size_t bytes =
            static_cast<size_t>(root->node->count()) * dtype::size(root->node->dtype);
        Bytes read(bytes);
        if (bytes != 0) std::memcpy(read.data(), data, bytes);
        answer->roots.push_back(read);
      }
      // What leaves hold afterwards is read from their memory, whatever became of their cells.
      for (size_t i = 0; i < memory.size(); ++i) {
        Bytes read(c.memory[i].size());
        if (!read.empty()) std::memcpy(read.data(), memory[i]->data, read.size());
        answer->memory.push_back(read);
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
  Context* context_ = nullptr;
  engine::Engine* engine_ = nullptr;
};

Options deep(uint64_t seed) {
  Options options;
  options.operations = static_cast<int>(4 + seed % 29);
  return options;
}

void fuzz(aster_ml_context_options engine_options, uint64_t cases, Options (*options)(uint64_t)) {
  EngineRunner runner(engine_options);
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

}  // namespace
}  // namespace aster::fuzz
