// Programs that differ in numbers alone: ends of loops, strides, offsets, constants. What they
// share is their skeleton; a program whose numbers are sizes of the launch serves all of one
// skeleton.
//
// A kernel is planned and lowered for the sizes that it has. The first program with a skeleton is
// compiled as it is. From two of them comes one in which what differs is a size, equal numbers the
// same one; it computes what each of them does, operation by operation, so with the same bits.
#pragma once

#include "base/hash_map.h"
#include "codegen/codegen.h"
#include "codegen/program.h"

namespace aster::codegen {

using program::Digest;
using program::Program;
using program::Word;

// What stands in a program in some place.
enum class NumberKind : uint8_t {
  kIndex,  // an integer
  kTasks,  // how many tasks there are, the last one, and what each covers: they follow from
  kLast,   // sizes in steps, and may be equal to others by chance
  kChunk,
  kFloat,   // a float32, by its bits
  kDouble,  // a float64
  kStep,    // of a loop from 0 on, or what is divided by: 1 at least
  kFixed,   // one that all programs of a skeleton have: what lanes are divided by
  kDerived  // what follows from others: the rounds of such a loop, the elements of a Param
};

// A program taken apart.
struct Numbers {
  explicit Numbers(Memory& memory) : kinds(memory), words(memory) {}
  Digest skeleton;  // of all but the numbers
  Vec<NumberKind> kinds;
  Vec<Word> words;  // in the order of the program
};
// Errors: MEMORY.
Status take_apart(Numbers* out, const Program& program, Memory& memory);

// Numbers of programs of one skeleton, and which of them are sizes: of group 0 are those that all
// have; others are equal to all of their group in each program.
struct Pattern {
  explicit Pattern(Memory& memory)
      : words(memory), groups(memory), first(memory), arguments(memory) {}
  Vec<Word> words;  // of one of the programs
  Vec<uint16_t> groups;
  Vec<uint32_t> first;  // by group, from 1: the number that is its first
  uint64_t call = 0;    // in which it was made
  // Of its program, once there is one: the numbers that it is called with, and its name.
  Vec<uint32_t> arguments;
  char name[program::kMaxName] = {};
};

// Whether a number may be a size.
bool may_vary(NumberKind kind, Word word);

// The program of a pattern, from one that has these numbers; the pattern learns which of them are
// its sizes, in their order. Errors: RANGE (more instructions than a program may have), MEMORY.
Status generalise(Program* out, Pattern* pattern, const Program& program, const Numbers& numbers,
                  Memory& memory);
// Appends what the program of a pattern is to be called with in the place of one that has these
// numbers.
Status append_sizes(Vec<int64_t>* out, const Numbers& numbers, const Pattern& pattern);

// Who knows whether the code of a kernel is at hand: no text is made of it then.
struct AtHand {
  bool (*has)(const void* self, const char* name) = nullptr;
  const void* self = nullptr;
};

// The kernels that a context has run, and their programs by skeleton.
class SizeClasses {
 public:
  explicit SizeClasses(Memory& memory)
      : memory_(memory), met_(memory), met_sizes_(memory), numbers_(memory), classes_(memory) {}

  // Programs that come in one call are not made one: those of one step stay as they are.
  void begin_call(const AtHand& at_hand) { ++call_, at_hand_ = at_hand; }
  bool is_at_hand(const char* name) const {
    return at_hand_.has != nullptr && at_hand_.has(at_hand_.self, name);
  }
  // A kernel that was met before and whose code is at hand: all of it but the text.
  Status recall(Rendered* out, bool* met, const Digest& kernel) const;
  Status remember(const Digest& kernel, const Rendered& one);
  // Puts a program that takes sizes in the place of the module's last one, with its name and what
  // it is called with; without a program where its code is at hand. Leaves all as it is where the
  // program is the first with its skeleton, or one that stayed. Errors: MEMORY.
  Status choose(program::Module* module, Rendered* out);

 private:
  struct Class {
    explicit Class(Memory& memory) : patterns(memory) {}
    Vec<Pattern> patterns;
  };
  // A kernel that was met: what is to be known of it beside its code.
  struct Met {
    char name[64], title[64];
    int64_t tasks;
    double task_flops, task_bytes;
    int64_t scratch_bytes;
    uint32_t first_size, size_count;
  };
  struct DigestHash {
    uint64_t operator()(const Digest& digest) const { return digest.low; }
  };
  Status class_of(Class** out, const Numbers& numbers, const program::Module& module);
  Status widen(Pattern* out, Pattern** with, Class* of, const Numbers& numbers);
  Status add(Class* of, Pattern&& pattern, Pattern* other);
  Status replace(program::Module* module, Rendered* out, const Numbers& numbers, Pattern* pattern,
                 bool* holds) const;

  Memory& memory_;
  AtHand at_hand_;
  Map<Digest, Met, DigestHash> met_;
  Vec<int64_t> met_sizes_;
  Map<Digest, uint32_t, DigestHash> numbers_;
  Vec<Class> classes_;
  uint64_t words_ = 0;  // of all patterns
  uint64_t call_ = 0;
};

}  // namespace aster::codegen
