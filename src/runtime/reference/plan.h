// What is done to compute a strip of one kept value: a straight line of steps over strips.
#pragma once

#include "runtime/reference/strip.h"
#include "runtime/reference/values.h"

namespace aster::runtime::reference {

struct Step {
  enum class Kind : uint8_t {
    kRoot,   // the positions that the strip is asked for
    kIndex,  // positions in a source, by a movement
    kConst,  // word
    kLoad,   // elements of data
    kIota,   // the positions
    kAlu,    // op on sources
    kCast,   // from dtype `from`
    kBitcast,
    kBlend,  // source 0 where the positions exist, elsewhere source 1
  };
  Kind kind;
  uop::Op op = uop::Op::kConst;
  uop::DType dtype = uop::DType::kNone;
  uop::DType from = uop::DType::kNone;                   // of the last source
  uint32_t sources[3] = {kNowhere, kNowhere, kNowhere};  // steps that make values
  uint32_t index = kNowhere;                             // step that makes positions
  uint32_t slot = 0;    // of the strips of values, or of the positions, that are live at once
  uint32_t last = 0;    // the last step that reads this one
  size_t movement = 0;  // of kIndex
  uop::Word word = 0;
  const void* data = nullptr;
};

struct Plan {
  explicit Plan(Memory& memory) : steps(memory), movements(memory), rows(memory) {}
  Vec<Step> steps;
  Vec<Movement> movements;
  Vec<int64_t> rows;  // words of the movements
  uint32_t value_slots = 0;
  uint32_t index_slots = 0;
  uint32_t result = kNowhere;  // step of the value
  uint32_t target = kNowhere;  // step of the positions in the storage, of plan_storage
};

// Steps for the value at position root of the order, in its own shape or, for a Reduce, in its
// source's: reading leaves and kept values, and through everything else.
Status plan_value(Plan* out, const Values& values, uint32_t root);

// Steps for the positions in its base of the storage that view views (target), and, if memory is
// not null, for the value it has when the base's memory is there.
Status plan_storage(Plan* out, const Values& values, uint32_t view, const void* memory);

}  // namespace aster::runtime::reference
