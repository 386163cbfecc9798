// Inside lowering: values of nodes under the loops that are open.
#pragma once

#include <algorithm>

#include "codegen/builder.h"
#include "codegen/ends.h"
#include "codegen/planner.h"

namespace aster::codegen {

class ValueLowering {
 public:
  using Id = program::Id;
  using Instruction = program::Instruction;
  static constexpr Id kNone = program::kNone;
  // An open range: its loop, and the axis of its tile, of copies that are `lanes` apart. A range
  // that is written out has an axis alone.
  struct RangeState {
    Id index = kNone;
    Id copy = kNone;  // a loop over the copies of a tile, if they are not written out
    int axis = -1;
    int lanes = 1;
  };
  // Conjuncts of a gate that are the same for all lanes, and those that are not.
  struct Gate {
    Id uniform = kNone, mask = kNone;
  };

  ValueLowering(program::Module& module, const Kernel& kernel, const Target& target, Memory& memory)
      : b(memory),
        kernel_(kernel),
        target_(target),
        memory_(memory),
        module_(module),
        values_(memory),
        raw_(memory),
        folds_(memory),
        carries_(memory),
        windows_(memory),
        params_(memory),
        assumed_(memory),
        packed_(memory),
        panels_(memory),
        ready_(memory),
        kept_values_(memory) {
    std::ranges::fill(turn_axes_, -1);
    std::ranges::fill(begins_, kNone);
    std::ranges::fill(within_, kNone);
  }

 protected:
  // ---- Instructions ----
  Id constant(DType dtype, program::Word word);
  Id integer(int64_t value) { return constant(DType::kInt64, value); }
  Id make(Op op, DType dtype, std::initializer_list<Id> operands);
  Id cast(Id value, DType dtype);
  Id spread(Id value, int lanes);
  // An operation of the graph on registers: an instruction, or a call.
  Id arithmetic(Op op, DType dtype, std::span<const Id> operands);
  Id arithmetic(Op op, DType dtype, std::initializer_list<Id> operands) {
    return arithmetic(op, dtype, std::span(operands.begin(), operands.size()));
  }
  Id native_or_call(Op op, DType dtype, std::span<const Id> operands);
  Id truth(Op op, std::span<const Id> operands);
  Id axis_value(int axis);

  // ---- Numbers and loops ----
  // A value, or a number where id is kNone.
  struct Number {
    Id id = kNone;
    int64_t word = 0;
  };
  Id id_of(Number n) { return n.id == kNone ? integer(n.word) : n.id; }
  Number plus(Number n, int64_t k);
  Number least(Number a, Number c);
  Number most(Number a, Number c);
  Number clamped(Id value, Number lo, Number hi);
  Number either(Id left, Number some, Number none);
  // Where a range ends whose room loses k with each element.
  Number end_of(Id left, int64_t k, Number lo, Number hi);
  // The first step of a loop from lo to hi that is not below a number.
  Number next_step(Number lo, Number hi, Number from, int64_t step);
  Id open_loop(Number lo, Number hi, int64_t step,
               program::LoopKind kind = program::LoopKind::kSerial);

  // ---- Nodes ----
  bool varies(Node node) const { return vector_ >= 0 && has(kernel_.ranges(node), vector_); }
  int lanes_of(Node node) const { return varies(node) ? lanes_ : 1; }
  // Of so many lanes those that stand for elements.
  int elements_in(int lanes) const { return lanes > 1 && short_ > 0 ? short_ : lanes; }
  DType register_of(Node node) const;
  void forget() { values_.clear(), raw_.clear(); }
  Id value(Node node);
  void remember(Node node, Id id) { b.fail(values_.set(node, id)); }
  void emit(Node node);
  Id emit_constant(Node node);
  Id emit_alu(Node node);
  Id emit_cast(Node node);
  Id emit_bitcast(Node node);
  Id operand(Node source, Node user);
  Id convert(Id value, DType to);
  Id round_to(Id value, DType narrow);
  Id by_known_divisor(Node node, std::span<const Id> operands);

  // What a register of folds by an operation begins as.
  static program::Word identity(Op op, DType dtype);

  // ---- Folds ----
  static Op operation(Node fold) { return static_cast<Op>(fold->arg(0)); }
  // The product that a sum takes in, everywhere or where a condition holds and else 0.
  static Node product_of(Node fold);
  // A product that only this sum reads is added with one rounding.
  static bool fuses(const Region& region, Node fold);
  // Whether the values of all folds differ along a range: what does not is no instruction of its
  // axis.
  bool all_vary(const Region& region, int range) const;
  // Whether what copies of a tile read along a range overlaps.
  bool overlaps(const Region& region, int range) const;

  // ---- Running values ----
  // Registers for what a region carries along a range whose loop is about to be opened.
  void declare_carries(const Region& region, int range);
  // Registers of one lane behind those of vectors along the same loop.
  void continue_carries();
  Id emit_carry(Node node);
  Id combined_carry(Op op, Id was, Id value, Id addend);
  struct Carried;
  void window(const Carried& one, Id* values);
  Id moved_up(Id value, Id before, int by);

  // ---- Indices ----
  // The terms of a form that are the same for all lanes.
  Status scalar_terms(Vec<program::Term>* out, const Form& form, int without_axis = -1);
  Id scalar_index(const Form& form, int without_axis = -1);
  Id index_value(Node index, DType wide);
  Id vector_part(const Form& form, DType wide);
  bool is_linear(const Form& form) const;

  // ---- Ends ----
  // How much a condition leaves of a range, all that is open at the least of its copies and all
  // that is not at 0; -1: of none. kNone where copies or lanes have ends of their own.
  Id room_left(const Room& room, int range);
  Id steady(Node node, int depth = 0);
  // What a condition is where the assumed ends are not reached; -1 if they do not tell.
  int assumed(Node condition) const;
  // The elements [lo, hi) of a range where what loads of a region are gated by, as far as it names
  // that range and those of the region's folds alone, always holds: it is put behind `met`.
  void narrow(int64_t* lo, int64_t* hi, Vec<End>* met, const Region& region, int range);
  // The same of all regions of a segment, in whole steps; whether there are enough of them.
  bool find_within(int64_t* lo, int64_t* hi, Vec<End>* met, int segment, int range, int64_t step);
  // The values of a region that are asked for there.
  Status find_needed(Map<Node, uint8_t>* out, const Region& r);

  // ---- Memory ----
  void declare_params();
  Id memory_of(Node access);
  Gate split_gate(Node gate);
  Id both(Id a, Id b);
  Id load(Node node);      // the value in a register
  Id load_raw(Node node);  // as it lies in memory
  Id load_at(Node access, const Form& form, int64_t offset, int lanes, int64_t step, Gate gate,
             int count_of_lanes = 0);
  Id shuffled(Node node, const Form& form, int64_t stride, Gate gate);
  Id half_mask(Id mask, bool second);
  Id same_for_lanes(Node node, const Form& form, Gate gate);
  Id indexed(Node node, Gate gate);
  // Copies what a load reads in the loops of `own` under the tiles that are open.
  void pack(Node load, const RangeList& own);
  // The same where the copies of all passes are, or are made, in one of the params.
  void pack_ready(const ReadyCopy& copy, const SegmentPlan& plan);
  void forget_panels(bool ready);
  Id from_panel(Node load);
  int turned_along(const Form& form, int fewest) const;
  int turned_load(Node node) const;
  uint8_t turn_axis(int n);
  Id turn(Op op, Id value, uint8_t from, uint8_t to);
  void store_turned(Node node, Id value, int across);
  int zipped_along(const Form& form) const;
  void store_zipped(Node node, Id value, int between);
  Id turned(Node node, int across);
  Id reversed(Id value);
  void store(Node node, bool stream);

  // ---- Values that are kept ----
  // Where the array of a kept value has its element at hand.
  void keep_value(Node node);
  Id from_kept(Node node);
  Vec<program::Term> place_of_kept(int range);

  // ---- Registers of folds in arrays ----
  // Where a loop over the copies of a tile finds them.
  struct Kept {
    Node fold;
    Id value, array;
    int64_t stride;  // elements from copy to copy of the tile
  };
  // The place of a fold's register of so many lanes in its array but for its copy of one range,
  // which other tiles go faster than; *stride: elements from one of these copies to the next.
  Vec<program::Term> place_of(Node fold, int lanes, RangeSet without, int64_t* stride);
  void keep_folds(Vec<Kept>* out, const Region& r, int rolled);
  // The sums of a fold, of all elements of the ranges of sums_.
  void declare_sums(Node fold);
  Vec<program::Term> place_of_sum(int lanes, int64_t* offset);
  void store_sum(Id value);
  Id load_sum(const Instruction& of);

  // ---- Groups ----
  struct Packed {
    Node load;
    const Region* region;
    Id array;
    PackedBlock block;
  };
  void barrier();
  Id local_array(DType dtype, int64_t elements);
  Id inside_ranges(Node index);
  void declare_packed(const Kernel& kernel, const Plan& plan, int root);
  void bring(const Packed& one);
  void bring_all(const Region& region);
  Id from_packed(Node load);

  program::Builder b;
  const Kernel& kernel_;
  const Target& target_;
  Memory& memory_;
  program::Module& module_;
  RangeState ranges_[kMaxRanges];
  int copies_[kMaxRanges] = {};  // of the tiles that are open, 0 for none
  int vector_ = -1;
  int lanes_ = 1;
  int short_ = 0;  // the elements that vectors have, where these are fewer than lanes; else 0
  Map<Node, Id> values_, raw_;  // of the region that is lowered
  Map<Node, Id> folds_;
  // A register, and the Carries that it is for: what is now, what was before, or both.
  struct Carried {
    Node now, was;
    Id acc;
    size_t window;  // the first of its registers among those of windows
    Node any() const { return now != nullptr ? now : was; }
  };
  Vec<Carried> carries_;  // of the loop that is open
  Vec<Id> windows_;
  Vec<Id> params_;    // by slot
  Vec<End> assumed_;  // ends that the open loops do not reach
  // Of groups: how many items share what is lowered, and which this is.
  int items_ = 0;
  Id item_ = kNone;
  // Of blocks: where they begin by range, where in them the value at hand is, ranges whose values
  // may lie past the end, and what is read in local memory.
  Id begins_[kMaxRanges], within_[kMaxRanges];
  RangeSet checked_ = 0;
  Vec<Packed> packed_;
  const Region* region_ = nullptr;  // that is lowered
  // A load, the array that has its values, and how far these are apart by range.
  struct Panel {
    Node load;
    Id array;
    RangeSet own;  // of the fold
    int64_t stride[kMaxRanges];
    bool ready = false;  // whether it was made before
    Id first = kNone;    // where the copy begins in it; kNone: at 0
    // What is read next, if it is fetched meanwhile: how many elements each step of the fold
    // fetches (0: none), how many all have with a step of a range; elements of the copies, of what
    // goes by before the next is read (a pass's, or those of a block of terms along a range).
    int64_t fetched = 0, got[kMaxRanges] = {}, all = 0, piece = 0;
    int blocked = -1;
  };
  Vec<Panel> panels_;
  Vec<ReadyCopy> ready_;  // and the params behind the kernel's that have them
  int making_ = -1;       // which of these the program makes, and nothing else
  // What folds put into an array for the segments below: segment by segment.
  struct KeptArray {
    KeptValue value;
    Id array;
  };
  Vec<KeptArray> kept_values_;
  // Of sums that go block by block, what a pass of the segment's inner loops does: all there is,
  // clear them, add the terms of a block, or add the last ones and go on with the result.
  enum class Pass : uint8_t { kWhole, kClear, kAdd, kLast };
  struct Sums {
    Pass pass = Pass::kWhole;
    Number lo, hi;  // terms
    Node fold = nullptr;
    Id array = kNone;
    RangeSet ranges = 0;  // of these loops
    // By range: elements that the array has, where they begin, and the loop's step, which overlaps
    // no other's place.
    int64_t elements[kMaxRanges] = {};
    Number first[kMaxRanges];
    Id step[kMaxRanges] = {};
  };
  Sums sums_;
  bool general_ = false;      // whether the program is to serve many sizes
  bool from_panels_ = false;  // whether loads come from there
  // Ranges of a fold along which what is copied lies without gaps, in the order of the copy: their
  // elements, and the range that goes fastest.
  struct Run {
    RangeSet ranges = 0;
    int last = -1;
    int64_t size = 1;
  };
  Run own_run(const Panel& panel, const RangeList& own) const;
  // A copy under the tiles that are open; *elements: what it has.
  Panel new_panel(Node load, const RangeList& own, int64_t* elements) const;
  Id first_ready(const ReadyCopy& copy, const Nest& nest);
  void plan_fetches(Panel* panel, const ReadyCopy& copy, const SegmentPlan& plan,
                    int64_t elements) const;
  void fetch(const Panel& panel);
  void fill(const Panel& panel, const RangeList& own);
  size_t ready_slot(size_t copy) const { return params_.size() - ready_.size() + copy; }
  Vec<program::Term> place_in(const Panel& panel);
  // Axes of rows that are turned, by their number.
  static constexpr int kTurnRank = 0, kSquareRank = 2;
  // Copies from which on a square is turned, and its widest vectors.
  static constexpr int kFewestTurned = 4, kWidestTurned = 16;
  int turn_axes_[program::kMaxLanes + 1];
};

}  // namespace aster::codegen
