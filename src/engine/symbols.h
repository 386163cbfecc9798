// Variables of a context: integers that sizes and positions are made of, and that runs of a
// captured program are given anew.
//
// In expressions (uop/symbolic.h) a variable is its least value plus a Range, of a number that
// stands in the table here; one that is bound is another Range, whose number says the value as
// well. So index arithmetic knows bounds of both, and equal expressions are equal nodes. A bound
// variable that tensors are computed from is memory of one element, its cell.
#pragma once

#include "base/hash_map.h"
#include "base/text.h"
#include "buffer/storage.h"
#include "uop/uop.h"

namespace aster::engine {

class Engine;

struct Variable {
  Text name;
  int64_t least, most;
};

struct Symbol {
  uint32_t variable;
  bool bound;
  int64_t value;
  uop::Node cell;  // a Buffer, retained; null until a tensor is computed from it
  bool assumed;    // outside of captures tensors were built that are for this value alone
};

bool divides(uop::Op op);

class Symbols {
 public:
  explicit Symbols(Engine& engine, Memory& memory);
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // Gives back the memory that values are read from, which holds the context; it is made anew where
  // it is needed.
  void drop_cells();

  // The variable of that name and those bounds; the same node for the same. Errors: ARGUMENT,
  // RANGE.
  Status variable(uop::Node* out, const char* name, int64_t least, int64_t most);
  // The expression where the variables of a name have a value. Errors: ARGUMENT (no variable has
  // the name), RANGE (the value is out of bounds).
  Status bind(uop::Node* out, uop::Node expression, const char* name, int64_t value);

  // What is wrong with an expression: not an integer, not made of variables alone, one that is not
  // bound, a division by zero. Errors: ARGUMENT, STATE, RANGE.
  Status value_of(int64_t* out, uop::Node expression) const;
  // The expression as a 0-d tensor, int32 where its parts fit and int64 where not.
  Status tensor_of(uop::Node* out, uop::Node expression);
  // Calls visit(symbol) for every variable in an expression.
  template <typename Visit>
  Status each(uop::Node expression, const Visit& visit) const {
    Vec<uop::Node> nodes(variables_.memory());
    ASTER_TRY(uop::toposort(&nodes, {&expression, 1}));
    for (uop::Node node : nodes) {
      const uint32_t at = find(node);
      if (at != kNone) ASTER_TRY(visit(at));
    }
    return kOk;
  }
  // A value of an expression where variables have others: of(variable) says which.
  template <typename Of>
  Status value_where(int64_t* out, uop::Node expression, const Of& of) const {
    return evaluate(
        out, expression,
        [](const void* self, const Symbol& symbol, int64_t* value) {
          return (*static_cast<const Of*>(self))(symbol, value);
        },
        &of);
  }

  // Notes that of an expression's.
  Status assume(uop::Node expression);
  // The memory that a bound variable is read from.
  Status cell(uop::Node* out, uint32_t at);
  uint32_t find(uop::Node node) const;  // the symbol that a Range is; kNone
  // The symbol whose cell is in storage; kNone if it is no cell.
  uint32_t with_cell(const buffer::Storage* storage) const { return cells_.get(storage, kNone); }
  bool has_cells() const { return !cells_.empty(); }
  const Symbol& operator[](uint32_t at) const { return symbols_[at]; }
  const Variable& of(const Symbol& symbol) const { return variables_[symbol.variable]; }
  static constexpr uint32_t kNone = UINT32_MAX;

 private:
  struct Bound {
    uint32_t variable;
    int64_t value;
    bool operator==(const Bound&) const = default;
  };
  struct HashBound {
    uint64_t operator()(const Bound& key) const {
      return hash_mix(key.variable, static_cast<uint64_t>(key.value));
    }
  };
  using Lookup = Status (*)(const void* self, const Symbol& symbol, int64_t* value);
  Status add(uint32_t* out, Symbol symbol);
  uop::Node range(uint32_t at) const;
  Status evaluate(int64_t* out, uop::Node expression, Lookup lookup, const void* self) const;
  Status convert(uop::Node* out, uop::Node expression, dtype::DType dtype, int depth);
  Status convert_term(uop::Node* out, uop::Node term, dtype::DType dtype, int depth);

  Engine& engine_;
  Vec<Variable> variables_;
  Vec<Symbol> symbols_;
  Map<Bound, uint32_t, HashBound> bound_;
  Map<const buffer::Storage*, uint32_t> cells_;
};

}  // namespace aster::engine
