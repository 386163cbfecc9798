// Runs plans strip by strip, and the loops around them.
#pragma once

#include "base/interrupt.h"
#include "runtime/reference/plan.h"

namespace aster::runtime::reference {

class Machine {
 public:
  explicit Machine(Memory& memory) : memory_(&memory), positions_(memory) {}
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // From when the interrupt is requested strips compute nothing; null: all do.
  void watch(Interrupt* interrupt) { interrupt_ = interrupt; }
  bool stopped() const { return stopped_; }

  // Room to run plan over a domain of so many elements. Plans prepared for before still fit.
  Status prepare(const Plan& plan, int64_t elements);

  // The plan's value over all of node's elements, row-major into data.
  void map(const Plan& plan, uop::Node node, void* data);
  // The reduction node of the plan's value over node's source. Only the axes are kept apart from
  // the source if that has no elements.
  void reduce(const Plan& plan, uop::Node node, void* data);
  // value, row-major of node's shape and dtype, to the plan's target positions in data.
  void write(const Plan& plan, uop::Node node, const void* value, void* data);

 private:
  struct Axis;
  struct Axes;
  struct Walk;
  void lay_out(const Plan& plan, int64_t elements);
  void* strip(size_t slot) const { return block_ + slot * strip_ * sizeof(uop::Word); }
  void* value_of(const Plan& plan, uint32_t step) const { return strip(plan.steps[step].slot); }
  int64_t* at(size_t slot) const { return static_cast<int64_t*>(strip(first_index_ + slot)); }
  uint8_t* mask(size_t slot) const { return masks_ + slot * strip_; }
  void* scratch() const { return strip(first_extra_); }  // two strips
  void* accumulator() const { return strip(first_extra_ + 2); }

  void run(const Plan& plan, const Index& root, size_t n);
  void run_positions(const Plan& plan, const Step& step, const Index& root, size_t n);
  void run_value(const Plan& plan, const Step& step, size_t n);
  double cost(const Plan& plan, const Axis& axis);
  void reduce_each(const Plan& plan, uop::Node node, const Axes& axes, void* data);
  void reduce_along(const Plan& plan, uop::Node node, const Axes& axes, void* data);
  template <typename Body>
  void for_strips(const Plan& plan, uop::Node node, Body body);

  Memory* memory_;
  char* block_ = nullptr;
  size_t bytes_ = 0;
  Vec<Index> positions_;  // by slot
  // Of the plan at hand: strips of values, extra strips, strips of positions, then masks.
  size_t strip_ = 0;  // elements
  size_t first_extra_ = 0;
  size_t first_index_ = 0;
  uint8_t* masks_ = nullptr;
  Interrupt* interrupt_ = nullptr;
  bool stopped_ = false;
};

}  // namespace aster::runtime::reference
