// Registers of folds in arrays: for a loop over the copies of a tile, and between the blocks of
// long sums.
#include <array>

#include "codegen/lower_values.h"

namespace aster::codegen {

using program::Term;
using program::Word;

Vec<Term> ValueLowering::place_of(Node fold, int lanes, RangeSet without, int64_t* stride) {
  Vec<Term> terms(memory_);
  int64_t step = lanes;
  for (int r = 0; r < kMaxRanges; ++r) {
    if (copies_[r] == 0 || has(without, r) || !has(kernel_.ranges(fold), r)) continue;
    b.fail(terms.push({step, static_cast<uint32_t>(ranges_[r].axis), true}));
    step *= copies_[r];
  }
  *stride = step;
  return terms;
}

void ValueLowering::keep_folds(Vec<Kept>* out, const Region& r, int rolled) {
  for (Node node : r.nodes) {
    if (node->op != Op::kFold || !has(kernel_.ranges(node), rolled)) continue;
    Kept kept{node, value(node), kNone, 0};
    const Instruction in = b.at(kept.value);
    Vec<Term> terms = place_of(node, in.lanes, range_bit(rolled), &kept.stride);
    Instruction array{.op = Op::kArray, .dtype = in.dtype};
    array.constant = kept.stride * copies_[rolled];
    kept.array = b.declare(array, std::array{Word{0}});
    b.fail(terms.push({kept.stride, static_cast<uint32_t>(ranges_[rolled].axis), true}));
    (void)b.act({.op = Op::kStore}, std::array{kept.array, kept.value},
                std::array{Word{1}, Word{in.lanes}}, {terms.data(), terms.size()});
    b.fail(out->push(kept));
  }
}

void ValueLowering::declare_sums(Node fold) {
  int64_t size = 0;
  (void)place_of(fold, varies(fold) ? lanes_ : 1, sums_.ranges, &size);
  for (int range = 0; range < kMaxRanges; ++range)
    size *= has(sums_.ranges, range) ? sums_.elements[range] : 1;
  Instruction array{.op = Op::kArray, .dtype = register_type(fold)};
  array.kind = static_cast<uint8_t>(program::Space::kScratch);
  array.constant = size;
  sums_.fold = fold;
  sums_.array = b.declare(array, std::array{Word{0}});
}

// The place of a sum, from the first one of the elements that the array has.
Vec<Term> ValueLowering::place_of_sum(int lanes, int64_t* offset) {
  int64_t stride = 0;
  Vec<Term> terms = place_of(sums_.fold, lanes, sums_.ranges, &stride);
  *offset = 0;
  for (int range = 0; range < kMaxRanges; ++range) {
    if (!has(sums_.ranges, range)) continue;
    const Number& first = sums_.first[range];
    b.fail(terms.push({stride, sums_.step[range], false}));
    if (first.id != kNone) b.fail(terms.push({-stride, first.id, false}));
    *offset -= stride * first.word;
    if (const int axis = ranges_[range].axis; axis >= 0)
      b.fail(terms.push({stride, static_cast<uint32_t>(axis), true}));
    stride *= sums_.elements[range];
  }
  return terms;
}

void ValueLowering::store_sum(Id value) {
  const Instruction of = b.at(value);
  Instruction in{.op = Op::kStore};
  const Vec<Term> terms = place_of_sum(of.lanes, &in.constant);
  (void)b.act(in, std::array{sums_.array, value}, std::array{Word{1}, Word{of.lanes}},
              {terms.data(), terms.size()});
}

ValueLowering::Id ValueLowering::load_sum(const Instruction& of) {
  Instruction in{.op = Op::kLoad, .dtype = of.dtype, .lanes = of.lanes};
  const Vec<Term> terms = place_of_sum(of.lanes, &in.constant);
  return b.act(in, std::array{sums_.array}, std::array{Word{1}, Word{of.lanes}},
               {terms.data(), terms.size()});
}

}  // namespace aster::codegen
