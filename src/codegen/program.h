// Kernel programs: what stands between a planned kernel and any text. A program is one list of
// typed instructions with loops in it; docs/KERNEL_PROGRAM.md has each of them, the text's grammar
// and what the verifier holds them to.
//
// An instruction is an operation of ops.def (level P) with a dtype, lanes and *axes*. One that is
// marked {u v} exists once for each value of the small axes u and v, on operands of the same
// values: that is how register tiles are said. Addresses are a memory and a linear form over
// indices and axes. Nothing here checks what a program means: verify() does, for whoever wrote it.
#pragma once

#include <string_view>

#include "base/text.h"
#include "uop/uop.h"

namespace aster::codegen::program {

using dtype::DType;
using uop::Op;
using uop::Word;
using uop::Words;

constexpr size_t kMaxAxes = 16;
constexpr uint8_t kMaxLanes = 64;
constexpr uint8_t kAnyLanes = 0;      // of a function: those of the call
constexpr uint64_t kMaxSteps = 4096;  // instructions with all instances written out
constexpr size_t kMaxName = 64;       // of a program, with its zero
constexpr int64_t kTableBytes = 4096;
constexpr int64_t kPrivateBytes = 16384;

// An instruction of the same program, by its place. Most have a value.
using Id = uint32_t;
constexpr Id kNone = UINT32_MAX;

using AxisSet = uint16_t;
constexpr AxisSet axis_bit(size_t axis) { return static_cast<AxisSet>(1u << axis); }
constexpr bool has(AxisSet set, size_t axis) { return (set & axis_bit(axis)) != 0; }

struct Axis {
  char name[8] = {};
  uint16_t size = 0;
};

// factor * (the value of an instruction, or of an axis).
struct Term {
  int64_t factor = 0;
  uint32_t at = 0;
  bool axis = false;
  bool operator==(const Term&) const = default;
};
using Terms = std::span<const Term>;

enum class LoopKind : uint8_t {
  kSerial,
  kTask,
  kGroup0,
  kGroup1,
  kGroup2,
  kLocal0,
  kLocal1,
  kLocal2
};  // clang-format off
inline bool is_local(LoopKind kind) { return kind >= LoopKind::kLocal0; }
// clang-format on

// Of arrays: an item, a worker, a group. Barriers: local, or all of memory.
enum class Space : uint8_t { kPrivate, kScratch, kLocal, kGlobal };

enum Flag : uint16_t {
  kWrite = 1,             // Param: is written. Prefetch: for a write
  kAtomic = 2,            // Param: by Atomic alone
  kSize = 4,              // Param: a number of the launch
  kIndexed = 8,           // Load, Store, Atomic: has an index for each lane
  kGated = 16,            // ... a condition for all lanes
  kMasked = 32,           // ... a condition for each lane
  kKeep = 64,             // Load: the value stays in a register
  kStream = 128,          // Store: may go past the caches
  kArgument = 256,        // Param: a value that a function is called with
  kImmediate = 512,       // Acc: begins as its word. Loop: lo is its first word
  kImmediateHigh = 1024,  // Loop: hi is its second word
};

struct Instruction {
  Op op = Op::kEnd;
  Op with = Op::kCount;        // what Atomic, Join and Across do
  DType dtype = DType::kNone;  // of the value, or of the elements of the memory that it is
  uint8_t lanes = 1;
  uint8_t axis = 0, to = 0;  // Axis, Each, Join; Turn, Zip: both
  uint8_t kind = 0;          // a LoopKind or a Space
  AxisSet axes = 0;
  uint16_t flags = 0;
  uint32_t operand = 0, operands = 0;  // places in the program's lists
  uint32_t term = 0, terms = 0;
  uint32_t word = 0, words = 0;
  int64_t constant = 0;  // of the form

  bool is(Flag flag) const { return (flags & flag) != 0; }
};

// Load, Store, Atomic and Prefetch by their parts; what an access does not have is kNone.
struct Access {
  Id memory = kNone, value = kNone, index = kNone, gate = kNone, mask = kNone;
  int64_t step = 1;   // elements from lane to lane
  int64_t first = 0;  // so many lanes are touched
};

struct Digest {
  uint64_t low = 0, high = 0;
  bool operator==(const Digest&) const = default;
};

// Digests of what is mixed in, in order.
class Mixer {
 public:
  void word(uint64_t word) {
    out_.low = hash_mix(out_.low, word);
    out_.high = hash_mix(out_.high ^ 0x5bd1e995u, word);
  }
  void text(const char* text) {
    for (; *text != '\0'; ++text) word(static_cast<uint8_t>(*text));
    word(0);
  }
  // All of an instruction but where its lists lie.
  void instruction(const Instruction& in, std::span<const Id> operands, Words words, Terms terms);
  Digest get() const { return out_; }

 private:
  Digest out_{0x6b65726e656c, 0x70726f6772616d};
};

// One program or function. Sticky: add() after a failure adds nothing, and status() tells.
class Program {
 public:
  explicit Program(Memory& memory)
      : axes_(memory), code_(memory), operands_(memory), terms_(memory), words_(memory) {}

  char name[kMaxName] = {};
  // Called by other programs: its Params are values, it ends with Result.
  bool function = false;

  // The number of a new axis.
  size_t add_axis(std::string_view axis_name, int64_t size);
  // Appends an instruction; its lists are copied, the terms of its form put in order: values as
  // they stand in the program, then axes, each once. Set gets the axes of its operands, an access
  // without words touches all lanes, one element after another.
  Id add(Instruction instruction, std::span<const Id> operands = {}, Words words = {},
         Terms terms = {});

  std::span<const Axis> axes() const { return {axes_.data(), axes_.size()}; }
  std::span<const Instruction> code() const { return {code_.data(), code_.size()}; }
  const Instruction& at(Id id) const { return code_[id]; }
  std::span<const Id> operands(const Instruction& in) const {
    return {operands_.data() + in.operand, in.operands};
  }
  Terms terms(const Instruction& in) const { return {terms_.data() + in.term, in.terms}; }
  Words words(const Instruction& in) const { return {words_.data() + in.word, in.words}; }
  Access access(const Instruction& in) const;
  // Axes that the operands and the form of an instruction have.
  AxisSet operand_axes(const Instruction& in) const;
  size_t instances(AxisSet set) const;

  // Of all that is printed but the name; functions that it calls by their places among others.
  Digest digest() const;
  Status status() const { return status_; }
  void fail(Status status) {
    if (status_.ok()) status_ = status;
  }
  Memory& memory() const { return code_.memory(); }

 private:
  bool knows(std::span<const Id> operands, Terms terms) const;
  Status append(Instruction instruction, std::span<const Id> operands, Words words, Terms terms);
  Status append_terms(Instruction* in, Terms terms);
  Vec<Axis> axes_;
  Vec<Instruction> code_;
  Vec<Id> operands_;
  Vec<Term> terms_;
  Vec<Word> words_;
  Status status_;
};

// Programs in one text; a Call names the place of a function before its own.
struct Module {
  explicit Module(Memory& memory) : programs(memory) {}
  Vec<Program> programs;
};

bool has_value(Op op);
inline bool is_arithmetic(Op op) { return uop::info(op).rule != uop::DTypeRule::kNone; }
bool is_block(Op op);                             // ended by End
bool sets_axes(Op op);                            // of its value, which are not its operands'
Id inner_tasks(const Program& program, Id loop);  // the loop of tasks within one; kNone: none is
bool is_memory(const Instruction& in);            // Param of memory, Array or Table
// Of an Array in scratch memory, in whole cache lines; and of all those of a program.
int64_t array_bytes(const Program& program, const Instruction& in);
int64_t scratch_bytes(const Program& program);
bool is_access(Op op);  // Load, Store, Atomic, Prefetch

// "f32", "i64", "bf16", "e4m3", "bool"; null for dtypes that programs do not have.
const char* type_name(DType dtype);

// Errors: MEMORY.
Status print(Text& out, const Module& module);
// Appends the programs of a text. Errors: FORMAT, with the line; MEMORY.
Status read(Module* out, std::string_view text);

struct VerifyOptions {
  bool vouched = false;  // accesses that nothing proves inside their memory are let through
};
struct Verified {
  uint64_t steps = 0;     // instructions with all instances written out
  uint64_t unproved = 0;  // accesses and stores about which nothing is proved
};
// Holds programs to the rules. out may be null; it is of all programs together. Errors: ARGUMENT,
// naming the program, the instruction and what it lacks; MEMORY.
Status verify(const Module& module, const VerifyOptions& options = {}, Verified* out = nullptr);

}  // namespace aster::codegen::program
