// Expressions of the variables that a captured program is run with: what has to hold of their
// values, and sizes.
#pragma once

#include <span>

#include "engine/symbols.h"

namespace aster::engine {

// Expressions, and comparisons of them, as arithmetic of a program's variables, apart from the
// graph's nodes: runs on any thread look at them without a lock.
class Conditions {
 public:
  explicit Conditions(Memory& memory) : steps_(memory), all_(memory) {}

  struct Condition {
    uint32_t a, b;  // steps
    bool least;     // a is a number
  };
  struct Step {
    uop::Op op;  // kConst: number; kRange: the variable `of`, less number
    dtype::DType from, to;
    uint32_t of[3];  // earlier steps
    int64_t number;
  };
  static uint32_t operands(const Step& step);

  // a <= b, where place_of(number, symbol) gives which of the program's variables a symbol is.
  template <typename PlaceOf>
  Status add(const Symbols& symbols, uop::Node a, uop::Node b, const PlaceOf& place_of) {
    Condition condition{};
    ASTER_TRY(translate(&condition.a, symbols, a, place_of));
    ASTER_TRY(translate(&condition.b, symbols, b, place_of));
    condition.least = uop::is_const(a);
    return all_.push(condition);
  }
  // An expression alone: the step that it is.
  template <typename PlaceOf>
  Status add(uint32_t* out, const Symbols& symbols, uop::Node expression, const PlaceOf& place_of) {
    return translate(out, symbols, expression, place_of);
  }
  bool empty() const { return all_.empty(); }
  const Vec<Condition>& all() const { return all_; }
  size_t count() const { return steps_.size(); }
  const Step& step(uint32_t at) const { return steps_[at]; }
  // What every step comes to. Errors: MEMORY, RANGE (division by zero).
  Status evaluate(Vec<uop::Word>* out, std::span<const int64_t> values) const;
  // The first that does not hold: wrong is what is too little (`least`: that is at least bound) or
  // too much. Errors: MEMORY, RANGE (division by zero).
  struct Broken {
    bool found = false, least = false;
    int64_t wrong = 0, bound = 0;
  };
  Status find_broken(Broken* out, std::span<const int64_t> values) const;

 private:
  template <typename PlaceOf>
  Status translate(uint32_t* out, const Symbols& symbols, uop::Node expression,
                   const PlaceOf& place_of) {
    Vec<uop::Node> nodes(steps_.memory());
    Map<uop::Node, uint32_t> made(steps_.memory());
    ASTER_TRY(uop::toposort(&nodes, {&expression, 1}));
    for (uop::Node node : nodes) {
      Step step{node->op, node->dtype, node->dtype, {}, 0};
      if (const uint32_t symbol = symbols.find(node); symbol != Symbols::kNone) {
        ASTER_TRY(place_of(&step.of[0], symbol));
        step.number = symbols.of(symbols[symbol]).least;
      } else {
        ASTER_TRY(take_operation(&step, node, made));
      }
      ASTER_TRY(made.set(node, static_cast<uint32_t>(steps_.size())));
      ASTER_TRY(steps_.push(step));
    }
    *out = *made.find(expression);
    return kOk;
  }
  static Status take_operation(Step* step, uop::Node node, const Map<uop::Node, uint32_t>& made);

  Vec<Step> steps_;
  Vec<Condition> all_;
};

}  // namespace aster::engine
