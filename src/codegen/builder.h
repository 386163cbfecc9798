// Kernel programs put together in blocks: a pure instruction goes to the outermost block in which
// its operands stand, or is the equal one that is there already; what is repeated together along an
// axis is marked when all is known.
#pragma once

#include "codegen/program.h"

namespace aster::codegen::program {

// Sticky, as Program is: after a failure nothing is added, and finish() tells.
class Builder {
 public:
  explicit Builder(Memory& memory);

  // Axes of a higher rank go inside those of lower ones.
  size_t add_axis(int64_t size, int rank);
  // No value that is of it is used any more: an axis of this size and rank that is asked for later
  // is the same one, since programs have few.
  void release_axis(size_t axis) { fail(free_axes_.push(axis)); }
  // Whether another axis leaves so many that a program may have.
  bool has_axes(int64_t size, int rank, size_t left) {
    return free_axis(size, rank) != nullptr || list_.axes().size() + left < kMaxAxes;
  }
  // The value of an instruction that has no effect. Its axes are those of its operands, but for
  // Axis, Join, Turn and Zip, whose callers set them.
  Id pure(Instruction in, std::span<const Id> operands = {}, Words words = {}, Terms terms = {});
  // An instruction in its place: after all that stands in the innermost block.
  Id act(Instruction in, std::span<const Id> operands = {}, Words words = {}, Terms terms = {});
  // One that stands outside of all loops: an Array.
  Id declare(const Instruction& in, Words words) {
    return status().ok() ? append(0, in, {}, words, {}) : kNone;
  }
  // A Loop or an If, and its end.
  Id open(const Instruction& in, std::span<const Id> operands = {}, Words words = {});
  void close();

  // Valid until something is added.
  const Instruction& at(Id id) const { return id < list_.code().size() ? list_.at(id) : none_; }
  Words words(Id id) const { return list_.words(at(id)); }
  Status status() const { return list_.status(); }
  void fail(Status status) { list_.fail(status); }
  // Writes all of it behind what `out` has. Errors: of anything since the beginning.
  Status finish(Program* out);

 private:
  // What stands in a block: an instruction, or the block that one opens.
  struct Item {
    Id id = kNone;
    uint32_t block = UINT32_MAX;
  };
  struct Block {
    explicit Block(Memory& memory) : items(memory) {}
    Vec<Item> items;
    Id head = kNone;  // the Loop or If
    size_t depth = 0;
  };
  struct DigestHash {
    uint64_t operator()(const Digest& digest) const { return digest.low; }
  };
  bool is_open(uint32_t block) const {
    return blocks_[block].depth < open_.size() && open_[blocks_[block].depth] == block;
  }
  size_t* free_axis(int64_t size, int rank);
  // The innermost block of the operands; the present one where a register is read.
  uint32_t home_of(std::span<const Id> operands, Terms terms) const;
  Id append(uint32_t block, const Instruction& in, std::span<const Id> operands, Words words,
            Terms terms);
  void push(uint32_t block, Item item) { fail(blocks_[block].items.push(item)); }

  // ---- Writing ----
  // An order that no operand tells: of the same register or memory, one of them changes it.
  struct Edge {
    Id before = kNone;
    uint32_t next = UINT32_MAX;
  };
  void write_block(uint32_t block);
  // Instructions of one block with no other block between them.
  void write_run(std::span<const Id> run, AxisSet fixed);
  // Takes out of `left` what may come next of those that have the axis, or have it not.
  void pick(Vec<Id>* out, Vec<Id>* left, size_t axis, bool having);
  Id write_one(Id id);
  int outermost(AxisSet set) const;
  bool waits(Id id) const;
  void order_effects(std::span<const Id> run);
  bool changes(Id id, Id* what) const;
  bool reads(Id id, Id what) const;

  Memory& memory_;
  Instruction none_;  // what a failure leaves
  Program list_;      // in the order of creation
  Vec<Block> blocks_;
  Vec<uint32_t> open_;  // blocks, innermost last
  Vec<uint32_t> home_;  // by instruction
  Map<Digest, Id, DigestHash> equal_;
  Vec<int> ranks_;
  Vec<size_t> free_axes_;
  Program* out_ = nullptr;
  Vec<Id> written_;           // by instruction: its place in *out_
  Vec<uint8_t> pending_;      // by instruction: still to be written in its run
  Vec<uint32_t> first_edge_;  // by instruction
  Vec<Edge> edges_;
};

}  // namespace aster::codegen::program
