// Captured programs against the interpreter, on random graphs of integers: run again and again on
// their own results, on inputs that overlap each other, into memory that is read. The rule: as if
// every input was copied first. ASTER_ML_FUZZ_SEED and ASTER_ML_FUZZ_PROGRAM_CASES choose which and
// how many.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/device.h"
#include "dtype/convert.h"
#include "engine/engine.h"
#include "fuzz/number.h"
#include "fuzz/opencl.h"
#include "fuzz/random_graph.h"

namespace aster::fuzz {
namespace {

std::string last_message() {
  aster_ml_error error{};
  aster_ml_error_last(&error);
  return error.message;
}

// A place in memory of the device.
struct Spot {
  void* data = nullptr;
  size_t offset = 0;
};

bool is_host(int32_t device) { return device != ASTER_ML_DEVICE_OPENCL; }

// A descriptor of memory, and the axes it points to.
struct Given {
  std::vector<size_t> shape;
  std::vector<ptrdiff_t> strides;
  aster_ml_tensor tensor{};
};
void describe(Given* out, Node node, Spot spot, int32_t device) {
  out->shape.assign(node->shape().begin(), node->shape().end());
  out->strides.resize(node->ndim);
  ptrdiff_t step = 1;
  for (size_t i = node->ndim; i-- > 0; step *= static_cast<ptrdiff_t>(out->shape[i]))
    out->strides[i] = step;
  const auto dtype = static_cast<int32_t>(node->dtype);
  if (is_host(device)) spot = {static_cast<char*>(spot.data) + spot.offset, 0};
  out->tensor = {{spot.data, spot.offset + bytes_of(node), dtype, device},
                 spot.offset,
                 node->ndim,
                 out->shape.data(),
                 out->strides.data(),
                 dtype,
                 device};
}

// One case's program, run several times.
class Replays {
 public:
  Replays(Case& c, aster_ml_context* context, engine::Engine& engine)
      : case_(c), context_(context), engine_(engine), device_(engine.device), random_(c.seed) {}
  ~Replays() {
    for (engine::Lazy* lazy : leaves_) free_handle(lazy);
    for (engine::Lazy* lazy : roots_) free_handle(lazy);
    if (program_.impl != nullptr) (void)aster_ml_program_free(&program_);
    for (const auto& [dtype, storage] : shared_there_) buffer::storage_release(storage);
  }

  // Empty, or what went wrong.
  std::string run() {
    if (!capture()) return "capture: " + last_message();
    for (int i = 0; i < 5; ++i) {
      std::string text = replay();
      if (!text.empty()) return "run " + std::to_string(i) + ": " + text;
    }
    return {};
  }

 private:
  size_t pick(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }

  bool capture() {
    std::map<Node, Node> counterparts;
    for (const Leaf& leaf : case_.leaves) {
      buffer::Storage* storage = nullptr;
      const Bytes bytes = contents(case_.memory, leaf);
      if (!buffer::storage_create(&storage, engine_.context, bytes.size(), device_).ok() ||
          !fill(*storage, bytes)) {
        return false;
      }
      Node node = engine::buffer_node(engine_, storage, 0, leaf.node->dtype, leaf.node->shape());
      buffer::storage_release(storage);
      counterparts[leaf.node] = node;
      own_.push_back({storage->data, 0});
      leaves_.push_back(cell(node));
    }
    std::vector<aster_ml_lazy> handles(leaves_.size());
    std::vector<aster_ml_lazy*> inputs, outputs;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      handles[i].impl = leaves_[i]->handle;
      inputs.push_back(&handles[i]);
    }
    if (aster_ml_engine_capture_begin(context_, inputs.data(), inputs.size()) != 0) return false;
    for (Node root : copy_into(engine_.graph, case_.roots, &counterparts))
      roots_.push_back(cell(root));
    std::vector<aster_ml_lazy> results(roots_.size());
    for (size_t i = 0; i < roots_.size(); ++i) {
      results[i].impl = roots_[i]->handle;
      // What views storage follows it: its leaf tells.
      if (viewed(case_.roots[i]) == nullptr) {
        outputs.push_back(&results[i]);
        made_.push_back(i);
      }
    }
    if (!engine::realize(engine_, {roots_.data(), roots_.size()}).ok()) return false;
    return aster_ml_engine_capture_end(&program_, context_, outputs.data(), outputs.size()) == 0;
  }

  bool written(size_t leaf) const {
    const auto writes = [&](Node node) {
      return node->op == Op::kAssign && viewed(node->src(0)) == case_.leaves[leaf].node;
    };
    Vec<Node> order(process_heap());
    return uop::toposort(&order, case_.roots).ok() &&
           std::any_of(order.begin(), order.end(), writes);
  }

  bool fill(const buffer::Storage& storage, Bytes bytes) const {
    return buffer::copy({storage.data, 0, device_}, {bytes.data(), 0, buffer::kHost}, bytes.size())
        .ok();
  }
  Bytes read(Spot from, size_t size) const {
    Bytes out(size);
    const buffer::Place place{from.data, from.offset, device_};
    EXPECT_TRUE(buffer::copy({out.data(), 0, buffer::kHost}, place, size).ok());
    return out;
  }

  // A place for a value in a memory of its dtype that everything shares.
  Spot shared_place(Node node) {
    const size_t size = dtype::size(node->dtype), count = static_cast<size_t>(node->count());
    Bytes& bytes = shared_[node->dtype];
    buffer::Storage*& storage = shared_there_[node->dtype];
    if (bytes.empty()) {
      bytes.resize(1024 * size);
      for (size_t i = 0; i < bytes.size(); i += size)
        dtype::store_int(node->dtype, &bytes[i],
                         node->dtype == DType::kBool ? static_cast<int64_t>(pick(2))
                                                     : static_cast<int64_t>(pick(100)) - 50);
      if (!is_host(device_)) {
        EXPECT_TRUE(buffer::storage_create(&storage, engine_.context, bytes.size(), device_).ok() &&
                    fill(*storage, bytes));
      }
    }
    void* const data = storage != nullptr ? storage->data : bytes.data();
    // Few places, so that values often overlap.
    return {data, std::min(pick(4) * (count + 1) / 2, 1024 - count) * size};
  }

  // What an input that nothing writes may be: its own memory, a result of the run before, or a
  // place that others share.
  Spot given_input(Node node) {
    for (size_t i : made_) {
      const auto found = before_.find(i);
      Node root = case_.roots[i];
      if (found != before_.end() && root->dtype == node->dtype &&
          bytes_of(root) == bytes_of(node) && pick(3) != 0)
        return found->second;
    }
    return node->count() <= 1024 && pick(2) == 0 ? shared_place(node) : Spot{};
  }

  std::string replay() {
    std::vector<Given> inputs(leaves_.size()), outputs(made_.size());
    Case now = copy_of(case_);
    for (size_t i = 0; i < leaves_.size(); ++i) {
      Node node = case_.leaves[i].node;
      const Spot given = written(i) ? Spot{} : given_input(node);
      const Spot spot = given.data == nullptr ? own_[i] : given;
      describe(&inputs[i], node, spot, device_);
      now.leaves[i].memory = now.memory.size();
      now.leaves[i].offset = 0;
      now.memory.push_back(read(spot, bytes_of(node)));
    }
    std::vector<std::pair<Spot, size_t>> taken;
    for (size_t i = 0; i < made_.size(); ++i) {
      Node node = case_.roots[made_[i]];
      if (node->count() > 1024 || node->count() == 0 || pick(3) == 0) continue;
      const Spot spot = shared_place(node);
      const size_t end = spot.offset + bytes_of(node);
      // Outputs don't overlap each other.
      const auto meets = [&](const std::pair<Spot, size_t>& other) {
        return other.first.data == spot.data && other.first.offset < end &&
               spot.offset < other.second;
      };
      if (std::ranges::any_of(taken, meets)) continue;
      describe(&outputs[i], node, spot, device_);
      taken.push_back({spot, end});
    }
    std::vector<aster_ml_tensor> in, out;
    for (const Given& given : inputs) in.push_back(given.tensor);
    for (const Given& given : outputs) out.push_back(given.tensor);
    Answer want;
    if (!run_reference(now, &want)) return "the reference: " + last_message();
    if (aster_ml_program_run(&program_, nullptr, in.data(), in.size(), out.data(), out.size()) != 0)
      return last_message();
    return compared(now, want, in, out);
  }

  // Remembers where results are.
  std::string compared(const Case& now, const Answer& want, const std::vector<aster_ml_tensor>& in,
                       std::vector<aster_ml_tensor>& out) {
    std::string text;
    before_.clear();
    for (size_t i = 0; i < made_.size(); ++i) {
      const Bytes& bytes = want.roots[made_[i]];
      const Spot spot{out[i].storage.data, out[i].byte_offset};
      if (read(spot, bytes.size()) != bytes) text = "result " + std::to_string(i) + " differs";
      before_[made_[i]] = spot;
    }
    for (size_t i = 0; i < in.size(); ++i) {
      if (!written(i)) continue;
      const Bytes bytes = contents(want.memory, now.leaves[i]);
      if (read({in[i].storage.data, in[i].byte_offset}, bytes.size()) != bytes)
        text = "input " + std::to_string(i) + " afterwards differs";
    }
    return text;
  }

  static Case copy_of(const Case& c) {
    Case out;
    out.seed = c.seed;
    out.graph = std::make_unique<Graph>(process_heap());
    std::map<Node, Node> map;
    for (const Leaf& leaf : c.leaves) {
      Node node =
          out.graph->make(Op::kBuffer, leaf.node->dtype, {}, leaf.node->arg(), leaf.node->shape());
      map[leaf.node] = node;
      out.leaves.push_back({node, 0, 0});
    }
    out.roots = copy_into(*out.graph, c.roots, &map);
    return out;
  }

  engine::Lazy* cell(Node node) {
    engine::Lazy* lazy = nullptr;
    EXPECT_TRUE(engine::lazy_create(&lazy, engine_, node).ok());
    return lazy;
  }

  Case& case_;
  aster_ml_context* context_;
  engine::Engine& engine_;
  int32_t device_;
  std::mt19937_64 random_;
  aster_ml_program program_{};
  std::vector<engine::Lazy*> leaves_, roots_;
  std::vector<Spot> own_;          // each leaf's memory
  std::vector<size_t> made_;       // the roots that are results
  std::map<size_t, Spot> before_;  // results of the run before
  std::map<DType, Bytes> shared_;
  std::map<DType, buffer::Storage*> shared_there_;  // the same on a device
};

void fuzz(int32_t device, uint64_t cases) {
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.threads = 1;
  options.no_fallback = 1;
  aster_ml_context context{};
  ASSERT_EQ(aster_ml_context_init(&context, &options), 0);
  ASSERT_EQ(aster_ml_engine_set_device(&context, device), 0);
  Context* inside = context_of(&context);
  bool outer = false;
  ASSERT_TRUE(inside->enter(&outer).ok());
  engine::Engine* engine = nullptr;
  ASSERT_TRUE(engine::engine_of(&engine, *inside).ok());
  const uint64_t first = number("ASTER_ML_FUZZ_SEED", 1);
  cases = number("ASTER_ML_FUZZ_PROGRAM_CASES", cases);
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    Options shape;
    shape.operations = static_cast<int>(3 + seed % 15);
    shape.elements = 60;
    shape.floats = false;
    Case c = make_case(seed, shape);
    const std::string text = Replays(c, &context, *engine).run();
    EXPECT_TRUE(text.empty()) << "seed " << seed << ", " << text << "\n" << print(c);
    if (!text.empty()) break;
  }
  inside->leave();
  EXPECT_EQ(aster_ml_context_free(&context), 0);
}

TEST(Fuzz, ProgramsRunOnTheirResults) { fuzz(ASTER_ML_DEVICE_CPU, 60); }
TEST(Fuzz, InterpretedProgramsRunOnTheirResults) { fuzz(ASTER_ML_DEVICE_REFERENCE, 300); }
TEST(FuzzOpencl, ProgramsRunOnTheirResults) {
  if (!has_opencl()) GTEST_SKIP() << "no OpenCL device is installed";
  fuzz(ASTER_ML_DEVICE_OPENCL, 12);
}

}  // namespace
}  // namespace aster::fuzz
