// Kernels built by hand, run as emitted code by each compiler at each width, and compared with a
// plain evaluation of their graph.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "codegen/aarch64.h"
#include "codegen/codegen.h"
#include "codegen/compilers.h"
#include "codegen/lowering.h"
#include "codegen/machine_code.h"
#include "codegen/opencl_support.h"
#include "codegen/sizes.h"
#include "dtype/convert.h"
#include "uop/composite.h"
#include "uop/symbolic.h"
#include "uop/uop.h"

namespace aster::codegen::tests {

using dtype::DType;
using uop::Graph;
using uop::Node;
using uop::Op;
using uop::Word;

inline std::string last_message() {
  aster_ml_error error{};
  aster_ml_error_last(&error);
  return error.message;
}

// Text compiled to a shared object by each compiler that is there.
class Library {
 public:
  // Starts the compiler; find waits for it. ASTER_TEST_KEEP=1 leaves the source behind.
  Library(const std::string& compiler, const std::string& text, int vector_bytes)
      : name_(compiler + " " + std::to_string(vector_bytes)) {
    char path[] = "/tmp/aster_codegen_XXXXXX";
    const int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    path_ = path;
    std::ofstream(path_ + ".c") << text;
    const std::string command = compiler + flags_of(compiler, vector_bytes) + kShared;
    kept_ = kept_path(command, text);
    if (!kept_.empty()) handle_ = dlopen(kept_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr)
      pipe_ = popen((command + path_ + ".c -o " + path_ + ".so 2>&1").c_str(), "r");
  }
  void wait() {
    if (pipe_ == nullptr) return clean();
    std::string said;
    for (int c; (c = std::fgetc(pipe_)) != EOF;) said += static_cast<char>(c);
    const int rc = pclose(pipe_);
    pipe_ = nullptr;
    EXPECT_EQ(rc, 0) << name_ << ": " << said.substr(0, 3000);
    if (rc == 0) handle_ = dlopen((path_ + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_TRUE(rc != 0 || handle_ != nullptr) << dlerror();
    if (handle_ != nullptr && !kept_.empty()) keep_file(path_ + ".so", kept_);
    clean();
  }
  ~Library() {
    wait();
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  using Function = void (*)(void* const* params, const long long* sizes, void* scratch,
                            long long begin, long long end);
  Function find(const char* name) {
    wait();
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle_, name));
  }

 private:
  void clean() {
    if (path_.empty()) return;
    unlink((path_ + ".so").c_str());
    unlink(path_.c_str());
    if (std::getenv("ASTER_TEST_KEEP") == nullptr) {
      unlink((path_ + ".c").c_str());
    } else {
      std::printf("%s: %s.c\n", name_.c_str(), path_.c_str());
    }
    path_.clear();
  }
  std::string name_, path_, kept_;
  FILE* pipe_ = nullptr;
  void* handle_ = nullptr;
};

struct Param {
  DType dtype = DType::kNone;
  int64_t count = 0;
  std::vector<uint8_t> bytes;
  Word get(int64_t i) const {
    const uint8_t* at = bytes.data() + static_cast<size_t>(i) * dtype::size(dtype);
    if (dtype::is_float(dtype)) return std::bit_cast<Word>(dtype::load_double(dtype, at));
    return dtype == DType::kBool ? *at != 0 : dtype::load_int(dtype, at);
  }
  void set(int64_t i, Word word) {
    uint8_t* at = bytes.data() + static_cast<size_t>(i) * dtype::size(dtype);
    if (dtype::is_float(dtype)) return dtype::store_double(dtype, at, std::bit_cast<double>(word));
    dtype::store_int(dtype, at, word);
  }
};

// The kernel's meaning, one element at a time.
class Evaluator {
 public:
  Evaluator(Node kernel, std::vector<Param>& params);

 private:
  void run(Node store, size_t at);
  void set(Node range, int64_t i);
  Word value(Node node);
  Word compute(Node node);
  // Floats are added in double: the kernel's order is its own.
  Word fold(Node node);

  // All iterations up to the present one, from those on that were done with the other ranges as
  // they are. Floats are kept in double.
  Word carry(Node node);
  Word value_of(Node node, size_t source, DType wide);

  std::vector<Param>& params_;
  std::vector<std::pair<uint64_t, Word>> memo_;  // by the node's number, with the epoch
  std::map<std::pair<Node, std::map<Word, int64_t>>, std::vector<Word>> carried_;
  std::map<Word, int64_t> ranges_;
  std::vector<std::tuple<Word, int64_t, Word>> results_;
  uint64_t epoch_ = 1;
};

// Of a device of very many items.
inline Target target_of_items() {
  Target out;
  out.language = Language::kOpencl;
  out.vector_bytes = out.max_lanes = 16;
  out.f16c = out.streaming = false;
  out.group = 4;
  out.machine = machine_of_items();
  return out;
}

struct Case {
  std::string name;
  Node kernel = nullptr;
  std::vector<Param> params;
  double tolerance = 0;  // relative to 1 + |expected|
};

// Cases that share a compilation.
class Suite {
 public:
  Suite() : graph(process_heap(), false) {}
  Graph graph;

  Node range(int id, int64_t size) { return graph.range(id, size); }
  Node param(int slot, DType dtype, int64_t count) {
    return graph.param(slot, dtype, std::array<int64_t, 1>{count});
  }
  Node load(Node param, Node index, Node gate = nullptr) {
    if (gate == nullptr) return graph.make(Op::kLoad, param->dtype, std::array{param, index});
    return graph.make(Op::kLoad, param->dtype, std::array{param, index, gate});
  }
  Node store(Node param, Node index, Node value, std::vector<Node> ranges) {
    std::vector<Node> src{param, index, value};
    src.insert(src.end(), ranges.begin(), ranges.end());
    return graph.make(Op::kStore, DType::kNone, {src.data(), src.size()});
  }
  Node fold(Op op, Node value, std::vector<Node> ranges) {
    std::vector<Node> src{value};
    src.insert(src.end(), ranges.begin(), ranges.end());
    return graph.make(Op::kFold, value->dtype, {src.data(), src.size()},
                      std::array{static_cast<Word>(op)});
  }
  Node carry(Op op, std::vector<Node> values, Node range, bool before = false) {
    values.push_back(range);
    return graph.make(Op::kCarry, values[0]->dtype, {values.data(), values.size()},
                      std::array{static_cast<Word>(op), Word{before}});
  }
  // Sum of node * coefficient and a constant.
  Node at(std::vector<std::pair<Node, int64_t>> terms, int64_t constant = 0) {
    Node out = graph.index(constant);
    for (auto [node, k] : terms) out = uop::sym::add(graph, out, uop::sym::mul(graph, node, k));
    return out;
  }
  Node lt(Node a, int64_t b) { return uop::sym::lt(graph, a, b); }
  Node ge(Node a, int64_t b) { return uop::sym::not_(graph, uop::sym::lt(graph, a, b)); }
  Node both(Node a, Node b) { return uop::sym::and_(graph, a, b); }
  Node c(DType dtype, double value) { return graph.constant(dtype, value); }
  Node op(Op o, Node a) { return graph.alu(o, a); }
  Node op(Op o, Node a, Node b) { return graph.alu(o, a, b); }
  Node op(Op o, Node a, Node b, Node x) { return graph.alu(o, a, b, x); }

  // Params hold random values in [low, high], the same in every run.
  Case& add(const std::string& name, std::vector<Node> stores, double tolerance = 0,
            double low = -2, double high = 2);

  const Case& last() const { return cases_.back(); }

  // Renders, compiles and runs all cases, in several groupings of tasks, and compares. Every width
  // by one compiler, the widest by all; ASTER_ML_EXHAUSTIVE=1: all by all. Then as OpenCL C, if
  // the machine has a device.
  void run(int64_t cache_bytes = int64_t{32} << 20);

  bool with_devices = true;  // run on OpenCL too, by plans for a CPU and for very many items

 protected:
  // The kernels of every `each`th case, and one text of them.
  void render_all(const Target& target, std::vector<Rendered>* kernels, Text* text,
                  size_t each = 1);
  // out: what the first compiler's compute.
  void run_at(const Target& target, const std::vector<std::vector<Param>>& expected,
              std::vector<std::vector<Param>>* out);
  // As machine code of our own, with the bits of C. How many there is none of.
  static size_t run_code(const Case& one, const program::Module& module, int64_t tasks,
                         const Target& target, const std::vector<Param>& want,
                         const int64_t* sizes = nullptr);
  // A program with a size for every number that may be one; appends what it is run with.
  static void make_general(program::Module* module, Vec<int64_t>* sizes, const std::string& name);
  // By programs whose numbers are sizes, with the bits of those that have them.
  void run_general(const Target& target, const std::vector<std::vector<Param>>& expected);
  // C for any CPU on another one: the bits of vectors of 16 bytes.
  void run_on_aarch64(const std::vector<std::vector<Param>>& expected);
  // On this machine's first device, with the bits of the widest C.
  void run_opencl(int64_t cache_bytes, const std::vector<std::vector<Param>>& expected);
  // By plans for devices of very many items, in whole groups: every fourth case, since it is the
  // driver's compiler that takes the time.
  void run_items(const std::vector<std::vector<Param>>& expected);
  // Bytes between known ones.
  static std::vector<uint8_t> around(const std::vector<uint8_t>& bytes);
  // Its plan and what it is lowered to keep their rules, and read back as they were printed.
  static void verify_program(const Case& one, const Target& target);
  static constexpr size_t kGuard = 64;
  // Runs parts of the tasks on params that start on a cache line, or one element past one, with
  // known bytes around.
  static std::vector<Param> call(const Case& one, Library::Function function,
                                 const std::vector<std::pair<int64_t, int64_t>>& parts,
                                 bool aligned, const int64_t* sizes = nullptr,
                                 int64_t scratch_bytes = 0);
  static void compare(const std::string& where, const std::vector<Param>& got,
                      const std::vector<Param>& want, double tolerance);
  static void same(const std::string& where, const std::vector<Param>& got,
                   const std::vector<Param>& want);
  std::vector<Case> cases_;
};

}  // namespace aster::codegen::tests
