// Loops that may end before their ranges do: where a condition on counters and on values in memory
// (a counter below a size that is read, say) leaves nothing to do from some element on. Beyond it
// the terms of folds change nothing, what is folded is not asked for, or what is stored is a
// constant.
#pragma once

#include <span>

#include "codegen/kernel.h"

namespace aster::codegen {

struct End {
  Node compare;        // a CmpLt or CmpLe of integers
  bool beyond;         // what it is where nothing is left to do
  bool some;           // holds only where something is left at first
  uint32_t first = 0;  // of stores: where their constants stand
};

// How much is left: constant + sum of factor * node is greater than 0 where the condition of an End
// is not what it is beyond. Nodes are ranges, or expressions that name none of a region's own.
struct Room {
  static constexpr size_t kMax = 8;
  struct Term {
    Node node;
    int64_t factor;
  };
  int64_t constant = 0;
  Term terms[kMax] = {};
  size_t count = 0;

  // 0 where the range is in no term.
  int64_t factor(int range) const;
};

class Ends {
 public:
  explicit Ends(Memory& memory) : memory_(memory), found_(memory), words_(memory) {}

  // Errors: MEMORY.
  Status find(const Kernel& kernel);
  // Calls visit(end) for those of a region.
  template <typename Visit>
  void each(int region, Visit visit) const {
    for (const Found& one : found_) {
      if (one.region == region) visit(one.end);
    }
  }
  // What store i of a region's writes beyond its end.
  uop::Word stored(const End& end, size_t i) const { return words_[end.first + i]; }

 private:
  struct Found {
    int region;
    End end;
  };
  Status find(const Kernel& kernel, End end);

  Memory& memory_;
  Vec<Found> found_;
  Vec<uop::Word> words_;
};

// Whether a value is what the greatest of the like is taken from, and so 0, less or NaN: x - m,
// where m is the Fold:Max of x along all of some ranges. Sums of loops of their own, which may be
// rounded in another order there, are none of it.
bool is_below_its_greatest(Node node);

// Whether a fold is the greatest of numbers that fall along its only range, where the like of what
// `most` combines along one as long is what that found, or NaN, and of one that is no greater: so
// the first such place decides, and only the part that it is in.
bool is_first_place(const Kernel& kernel, Node place, Node most);

// False where the condition is not linear in its ranges.
bool room_of(Room* out, const Kernel& kernel, const End& end);

}  // namespace aster::codegen
