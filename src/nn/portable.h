// Portable programs: docs/PORTABLE.md has the format.
#pragma once

#include <array>

#include "aster_ml/portable.h"
#include "base/text.h"
#include "engine/program.h"
#include "nn/source.h"

namespace aster::nn::portable {

using uop::Node;
using uop::Nodes;

constexpr std::array<char, 8> kMagic = {'A', 'S', 'T', 'E', 'R', 'M', 'L', '\n'};
constexpr uint32_t kVersion = 2;   // of the file, the latest; a program is written as the first
                                   // that can say it
constexpr uint32_t kOpset = 1;     // of the operations and their meaning
constexpr size_t kAlignment = 64;  // of constants
constexpr size_t kMostNodes = 1 << 22;
constexpr int kDeepest = 64;                       // of expressions of variables
constexpr std::string_view kFirstLine = "aster ";  // of the text

// All numbers are little-endian; data_offset is 0 where the constants are in a side file.
struct Header {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t header_bytes;  // later versions may have more
  uint64_t text_offset, text_bytes;
  uint64_t data_offset, data_bytes;
  uint64_t contents;  // checksum of the text, then of the data
  uint64_t header;    // checksum of what stands before
};
static_assert(sizeof(Header) == 64);

uint64_t checksum(std::span<const uint8_t> bytes, uint64_t from = 0xcbf29ce484222325u);

// Memory that a program has for itself, and what somebody called it.
struct Named {
  Node buffer;
  Text name;
};
// What a boundary names: the Buffers of inputs, and the outputs' nodes.
struct Boundary {
  explicit Boundary(Memory& memory)
      : inputs(memory),
        outputs(memory),
        roots(memory),
        step_ends(memory),
        named(memory),
        input_names(memory),
        output_names(memory) {}
  Vec<Node> inputs, outputs;
  // Of a captured program: what its realize calls computed, one call after the other.
  Vec<Node> roots;
  Vec<uint32_t> step_ends;
  Vec<Named> named;
  const engine::Program* captured = nullptr;  // whose variables and sizes are written
  bool state_inputs = false;                  // what is assigned to is an input
  Vec<Text> input_names, output_names;
};
Status take_boundary(Boundary* out, engine::Engine& engine, const aster_ml_boundary* given);
// The graph of a captured program, from the keys of its schedules.
Status take_captured(Boundary* out, engine::Engine& engine, const engine::Program& program);

// The version of the file that says a boundary.
uint32_t version_of(const Boundary& boundary);
// The text of a program; constants go behind data, or into the text where data is null.
// side: the name of the file that they are in; null: the program's own.
Status write(Text* text, Vec<uint8_t>* data, engine::Engine& engine, const Boundary& boundary,
             const char* side);

// The parts of a program in memory.
struct Parts {
  std::string_view text;
  const Source* data = nullptr;  // where constants are: from data_offset on
  size_t data_offset = 0, data_bytes = 0;
  Text side;  // the name of another file with them
  explicit Parts(Memory& memory) : side(memory) {}
};
// Splits bytes of either form, and checks sums. side_data: null, or the bytes of the side file; of
// a program that has one only its name is there without.
Status split(Parts* out, const Source& bytes, const Source* side_data);

// Reads a program into a graph: Params for inputs and constants (verify), or Buffers.
Status verify(engine::Engine& engine, const Parts& parts);
// device: where inputs, results and all between are; 0: the CPU.
Status load(aster_ml_program* out, engine::Engine& engine, const Parts& parts, int32_t device);

// A program that was checked, as nodes on Params.
struct CheckedGraph {
  explicit CheckedGraph(Memory& memory)
      : inputs(memory),
        outputs(memory),
        assigned(memory),
        input_names(memory),
        output_names(memory) {}
  Vec<Node> inputs, outputs;
  Vec<uint8_t> assigned;  // inputs to which a run writes
  Vec<Text> input_names, output_names;
  bool variables = false, state = false;  // it has some
};
Status check_graph(CheckedGraph* out, uop::Graph& graph, const Parts& parts);
// As load, where the backend of the device executes programs and takes this one; else *taken is
// false, and the library has to.
Status load_whole(aster_ml_program* out, bool* taken, engine::Engine& engine, const Parts& parts,
                  int32_t device);

// Handles of nodes, freed at the end.
class Cells {
 public:
  explicit Cells(Memory& memory) : handles_(memory), pointers_(memory), cells_(memory) {}
  ~Cells() {
    for (aster_ml_lazy& each : handles_) aster_ml_lazy_free(&each);
  }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;
  Status make(engine::Engine& engine, std::span<const Node> nodes);
  aster_ml_lazy* const* data() const { return pointers_.data(); }
  size_t size() const { return pointers_.size(); }
  std::span<engine::Lazy* const> cells() const { return {cells_.data(), cells_.size()}; }

 private:
  Vec<aster_ml_lazy> handles_;
  Vec<aster_ml_lazy*> pointers_;
  Vec<engine::Lazy*> cells_;
};
Status name_arrays(aster_ml_program* program, int32_t list, Vec<Text>& names);

// The two steps of loading. What is read lives while a Hold of the graph does; each program made of
// it is for the kernels that the engine makes then.
struct ReadGraph {
  explicit ReadGraph(Memory& memory)
      : inputs(memory), outputs(memory), input_names(memory), output_names(memory) {}
  Vec<Node> inputs, outputs;
  Vec<Text> input_names, output_names;
  bool variables = false, state = false;  // it has some
};
Status read_graph(ReadGraph* out, engine::Engine& engine, const Parts& parts);
// constant: what is captured does not change.
Status capture_graph(aster_ml_program* out, engine::Engine& engine, ReadGraph& graph,
                     bool constant);

// A program's file and that of its constants, mapped, and the parts that they are.
struct OpenedFile {
  explicit OpenedFile(Memory& memory) : parts(memory) {}
  Source file, beside;
  Parts parts;
};
Status open_file(OpenedFile* out, engine::Engine& engine, const char* path);

}  // namespace aster::nn::portable
