// Random tensor graphs for holding two executions against each other: a seeded generator, bounds of
// values and rounding errors that say what may differ, and a shrinker.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "uop/uop.h"

namespace aster::fuzz {

using uop::DType;
using uop::Graph;
using uop::Node;
using uop::Op;
using Bytes = std::vector<unsigned char>;
using Shape = std::vector<int64_t>;

struct Options {
  int operations = 16;     // steps of the generator; a step may add several nodes
  int64_t elements = 240;  // of a value, about
  bool assigns = true;     // Assign and After
  bool calls = true;       // matmul and softmax as Call nodes
  bool floats = true;
  bool narrow_floats = true;  // float16, bfloat16, fp8 beside float32 and float64
  bool overlaps = false;      // leaves that lie in each other's memory, and more assigns
};

// Of graphs whose leaves lie in each other's memory, and that write much.
Options overlapping(uint64_t seed);

// A Buffer node and where it lies: so many bytes behind the beginning of one of a case's memories.
struct Leaf {
  Node node;
  size_t memory;
  size_t offset;
};

// A graph with its inputs and what is asked of it. Movable.
struct Case {
  uint64_t seed = 0;
  std::unique_ptr<Graph> graph;
  std::vector<Bytes> memory;  // what each holds at first: elements of one dtype
  std::vector<Leaf> leaves;
  std::vector<Node> roots;
};

// The same seed and options give the same case.
Case make_case(uint64_t seed, const Options& options);

size_t bytes_of(Node node);
// Whether bytes of one leaf are bytes of the other.
bool overlap(const Leaf& a, const Leaf& b);
// A leaf's bytes in memories such as a case's.
Bytes contents(const std::vector<Bytes>& memory, const Leaf& leaf);
// The Buffer that a node views, whatever was written there; null for what is computed.
Node viewed(Node node);

// One line a node, sources before users; then roots.
std::string print(const Case& c);

// What an execution answered: bytes of each root, and each memory afterwards.
struct Answer {
  std::vector<Bytes> roots;
  std::vector<Bytes> memory;
};
// Runs a case; false if it failed. Must not change the case but for nodes added to its graph.
using Runner = std::function<bool(Case&, Answer*)>;

// The interpreter.
bool run_reference(Case& c, Answer* answer);

// Empty if got is within what rounding allows of want; else what differs. Both are taken to round
// each operation to its dtype, in any order of a reduction; integers are equal.
std::string compare(Case& c, const Answer& want, const Answer& got);

// A smaller case for which fails still says yes.
Case shrink(Case c, const std::function<bool(Case&)>& fails);

// Runs both on the case of a seed; on a difference, the seed and a shrunk case in words, else
// nothing.
std::string check(uint64_t seed, const Options& options, const Runner& reference,
                  const Runner& tested);

// Copies what roots reach into another graph, leaves replaced by their counterparts there.
std::vector<Node> copy_into(Graph& to, const std::vector<Node>& roots,
                            std::map<Node, Node>* counterparts);

// What is known of a value: |x| <= most, computed with an absolute error of at most error; without
// error, every x is a multiple of 2^-grid.
struct Bound {
  double most = 0;
  double error = 0;
  int grid = 0;
  bool exact() const { return error == 0; }
};

// Bounds of a case's nodes, on demand. Integers are exact, whatever they are.
class Bounds {
 public:
  explicit Bounds(Case& c) : case_(c) {}
  Bound of(Node node);

 private:
  Bound derive(Node node);
  Bound leaf(Node node);
  Case& case_;
  std::map<Node, Bound> known_;
};

}  // namespace aster::fuzz
