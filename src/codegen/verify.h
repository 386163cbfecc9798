// Inside the verifier: what it knows of each instruction, and the rules about memory.
#pragma once

#include "codegen/program.h"
#include "uop/interval.h"

namespace aster::codegen::program {

using uop::Interval;

struct Fact {
  Interval bounds = uop::kUnknown;  // of integers, over lanes and instances
  bool exact = false;               // both ends are met whenever the instruction is
  bool varies = false;              // between the items of a group
  bool open = true;                 // its block is
  uint64_t parallel = 0;            // parallel loops that it depends on, as bits
};

struct OpenLoop {
  Id id;
  bool parallel;
  uint64_t bit;         // of a parallel loop
  bool effect = false;  // something is written in it
  bool nests = false;   // there is a parallel loop in it
};

// What an instruction lacks by itself, its operands taken for granted; null if nothing.
const char* find_fault(const Module& module, const Program& program, const Instruction& in);

// What surrounds the instruction at hand.
struct Surroundings {
  std::span<const OpenLoop> loops;
  bool conditional = false;  // inside If, or a loop that may not run
};

// Bounds of accesses, stores of different tasks apart, reads before writes. Instructions come in
// order; a fault is what the instruction lacks, null if nothing.
class MemoryRules {
 public:
  MemoryRules(const Program& program, const Vec<Fact>& facts)
      : program_(program), facts_(facts), memories_(program.memory()), groups_(program.memory()) {}

  Status visit(Id id, const Surroundings& around, const char** fault);
  uint64_t unproved() const { return unproved_; }

 private:
  // Stores to one memory whose forms differ at most in their constant.
  struct Group {
    Id memory;
    Id store;        // the first
    Interval rest;   // constants and lanes of them all
    Interval whole;  // elements that they touch
    bool single;     // there is but the first
  };
  struct MemoryState {
    Id memory;
    Id load = kNone;  // the first
    bool loads_differ = false;
    bool stored = false;
    Id loop = kNone;  // the innermost one around the store
  };
  struct Dimension {
    uint64_t stride;
    uint64_t count;
    bool apart;  // different values must not meet
  };
  struct Dimensions {
    static constexpr size_t kMost = 64;
    Dimension at[kMost];
    size_t count = 0;
    bool known = true;
    void push(uint64_t stride, uint64_t values, bool apart);
    bool separate();
  };

  Interval bounds_of(Terms terms, int64_t constant) const;
  Interval lanes_of(const Instruction& in, const Access& access) const;
  const char* inside(const Instruction& in, const Access& access, const Surroundings& around);
  bool proved(const Instruction& in, const Access& access, const Instruction& memory) const;
  bool proved_end(Terms terms, int64_t constant, Terms elements, bool upper) const;
  uint64_t loop_values(Id loop) const;
  void add_terms(Dimensions* out, Id id, std::span<const OpenLoop> apart, bool axes_apart) const;
  const char* between_tasks(const Instruction& in, const Access& access,
                            const Surroundings& around);
  Status stores_apart(Id id, const Surroundings& around, const char** fault);
  const char* reads_before(Id id, const Surroundings& around);
  Status state_of(Id memory, MemoryState** out);
  bool names(Id id, Id loop) const;
  bool multiplies(Id id, Id loop) const;
  bool same_form(Id a, Id b, bool constants) const;

  const Program& program_;
  const Vec<Fact>& facts_;
  Vec<MemoryState> memories_;
  Vec<Group> groups_;
  uint64_t unproved_ = 0;
};

}  // namespace aster::codegen::program
