#include "engine/symbols.h"

#include <array>
#include <limits>

#include "base/utf8.h"
#include "device/device.h"
#include "engine/engine.h"
#include "uop/ops.h"
#include "uop/symbolic.h"

namespace aster::engine {

using dtype::DType;
using uop::Node;
using uop::Op;
using uop::Word;

namespace {

// Numbers of Ranges from here on are ours: kernels count theirs from 0.
constexpr Word kFirst = Word{1} << 48;
constexpr int kDeepest = 100;  // nesting of an expression that becomes a tensor

long long wide(int64_t value) { return value; }

bool fits_int32(Node node) {
  return node->vmin >= std::numeric_limits<int32_t>::min() &&
         node->vmax <= std::numeric_limits<int32_t>::max();
}

Status not_of_variables(Node node) {
  return ASTER_FAIL(kARGUMENT,
                    "%s is no expression of variables: they are integers, made of "
                    "variables and numbers by + - * // %% min max",
                    uop::info(node->op).name);
}

}  // namespace

bool divides(Op op) {
  return op == Op::kFloorDiv || op == Op::kFloorMod || op == Op::kCDiv || op == Op::kCMod;
}

Symbols::Symbols(Engine& engine, Memory& memory)
    : engine_(engine), variables_(memory), symbols_(memory), bound_(memory), cells_(memory) {}

Symbols::~Symbols() { drop_cells(); }

void Symbols::drop_cells() {
  for (Symbol& symbol : symbols_) {
    if (Node cell = std::exchange(symbol.cell, nullptr); cell != nullptr)
      engine_.graph.release(cell);
  }
  cells_.clear();
}

uint32_t Symbols::find(Node node) const {
  if (node->op != Op::kRange || node->arg(0) < kFirst) return kNone;
  const uint64_t at = static_cast<uint64_t>(node->arg(0) - kFirst);
  return at < symbols_.size() ? static_cast<uint32_t>(at) : kNone;
}

Node Symbols::range(uint32_t at) const {
  const Variable& variable = of(symbols_[at]);
  return engine_.graph.range(kFirst + Word{at}, variable.most - variable.least + 1);
}

Status Symbols::add(uint32_t* out, Symbol symbol) {
  *out = static_cast<uint32_t>(symbols_.size());
  return symbols_.push(symbol);
}

Status Symbols::variable(Node* out, const char* name, int64_t least, int64_t most) {
  if (name == nullptr || name[0] == 0 || !is_utf8(name))
    return ASTER_FAIL(kARGUMENT, "a name is UTF-8, and not empty");
  int64_t count = 0;
  if (least > most || !checked_sub(most, least, &count) || !checked_add(count, int64_t{1}, &count))
    return ASTER_FAIL(kRANGE, "variable %s from %lld to %lld", name, wide(least), wide(most));
  uint32_t at = 0;
  while (at < symbols_.size()) {
    const Symbol& symbol = symbols_[at];
    const Variable& variable = of(symbol);
    if (!symbol.bound && variable.least == least && variable.most == most &&
        variable.name.view() == name)
      break;
    ++at;
  }
  if (at == symbols_.size()) {
    Variable variable{Text(variables_.memory()), least, most};
    variable.name << name;
    if (variable.name.c_str() == nullptr) return variable.name.status();
    ASTER_TRY(variables_.push(std::move(variable)));
    const auto number = static_cast<uint32_t>(variables_.size() - 1);
    ASTER_TRY(add(&at, {number, false, 0, nullptr, false}));
  }
  *out = uop::sym::add(engine_.graph, range(at), least);
  return *out == nullptr ? last_failure() : kOk;
}

Status Symbols::bind(Node* out, Node expression, const char* name, int64_t value) {
  if (name == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for a name");
  bool known = false;
  for (uint32_t v = 0; v < variables_.size(); ++v) known |= variables_[v].name.view() == name;
  if (!known) return ASTER_FAIL(kARGUMENT, "no variable is named %s", name);
  Map<Node, Node> map(variables_.memory());
  const auto replace = [&](uint32_t at) -> Status {
    const Symbol symbol = symbols_[at];
    const Variable& variable = of(symbol);
    if (symbol.bound || variable.name.view() != name) return kOk;
    if (value < variable.least || value > variable.most) {
      return ASTER_FAIL(kRANGE, "%s = %lld: it is from %lld to %lld", name, wide(value),
                        wide(variable.least), wide(variable.most));
    }
    const Bound key{symbol.variable, value};
    uint32_t to = bound_.get(key, kNone);
    if (to == kNone) {
      ASTER_TRY(add(&to, {symbol.variable, true, value, nullptr, false}));
      ASTER_TRY(bound_.set(key, to));
    }
    return map.set(range(at), range(to));
  };
  ASTER_TRY(each(expression, replace));
  for (const auto& [from, to] : map) {
    if (from == nullptr || to == nullptr) return last_failure();
  }
  *out = uop::sym::rebuild(engine_.graph, expression, map);
  return *out == nullptr ? last_failure() : kOk;
}

Status Symbols::evaluate(int64_t* out, Node expression, Lookup lookup, const void* self) const {
  *out = 0;
  if (expression->ndim != 0 || expression->dtype != DType::kWeakInt)
    return not_of_variables(expression);
  if (uop::is_const(expression)) return *out = uop::const_int(expression), kOk;
  Memory& memory = variables_.memory();
  Vec<Node> nodes(memory);
  Map<Node, Word> values(memory);
  ASTER_TRY(uop::toposort(&nodes, {&expression, 1}));
  for (Node node : nodes) {
    Word word = 0;
    const bool integral = node->dtype == DType::kWeakInt || node->dtype == DType::kBool;
    if (const uint32_t at = find(node); at != kNone) {
      ASTER_TRY(lookup(self, symbols_[at], &word));
      word -= of(symbols_[at]).least;
    } else if (uop::is_const(node) && integral) {
      word = node->arg(0);
    } else if (!uop::is_alu(node->op) || !integral || node->nsrc > 3) {
      return not_of_variables(node);
    } else {
      Word operands[3] = {};
      for (size_t i = 0; i < node->nsrc; ++i) operands[i] = *values.find(node->src(i));
      if (divides(node->op) && operands[1] == 0)
        return ASTER_FAIL(kRANGE, "division by zero in a size");
      word = uop::evaluate(node->op, node->src(node->nsrc - 1u)->dtype, node->dtype, operands);
    }
    ASTER_TRY(values.set(node, word));
  }
  *out = *values.find(expression);
  return kOk;
}

Status Symbols::assume(Node expression) {
  return each(expression, [&](uint32_t at) { return symbols_[at].assumed = true, kOk; });
}

Status Symbols::value_of(int64_t* out, Node expression) const {
  return value_where(out, expression, [&](const Symbol& symbol, int64_t* value) -> Status {
    *value = symbol.value;
    if (symbol.bound) return kOk;
    Variable& variable = const_cast<Variable&>(of(symbol));
    return ASTER_FAIL(kSTATE, "variable %s has no value: bind it first", variable.name.c_str());
  });
}

// The memory that a bound variable is read from.
Status Symbols::cell(Node* out, uint32_t at) {
  Symbol& symbol = symbols_[at];
  *out = symbol.cell;
  if (symbol.cell != nullptr) return kOk;
  const Variable& variable = of(symbol);
  const bool small = variable.least >= std::numeric_limits<int32_t>::min() &&
                     variable.most <= std::numeric_limits<int32_t>::max();
  buffer::Storage* storage = nullptr;
  ASTER_TRY(buffer::storage_create(&storage, engine_.context, sizeof(int64_t), device::kCpu));
  if (small) {
    *static_cast<int32_t*>(storage->data) = static_cast<int32_t>(symbol.value);
  } else {
    *static_cast<int64_t*>(storage->data) = symbol.value;
  }
  const Node made =
      buffer_node_on(engine_, storage, 0, 0, small ? DType::kInt32 : DType::kInt64, {});
  const Status noted = made == nullptr ? last_failure() : cells_.set(storage, at);
  buffer::storage_release(storage);
  ASTER_TRY(noted);
  engine_.graph.retain(made);
  *out = symbol.cell = made;
  return kOk;
}

Status Symbols::tensor_of(Node* out, Node expression) {
  int64_t now = 0;
  ASTER_TRY(value_of(&now, expression));
  bool small = true;
  Vec<Node> nodes(variables_.memory());
  ASTER_TRY(uop::toposort(&nodes, {&expression, 1}));
  for (Node node : nodes) small &= node->dtype == DType::kBool || fits_int32(node);
  return convert(out, expression, small ? DType::kInt32 : DType::kInt64, 0);
}

// Sums term by term: variables' least values go into the constant.
Status Symbols::convert(Node* out, Node expression, DType dtype, int depth) {
  if (depth > kDeepest)
    return ASTER_FAIL(kUNSUPPORTED, "an expression of variables nested deeper than %d", kDeepest);
  uop::Graph& g = engine_.graph;
  const uop::sym::Linear sum = uop::sym::linear_of(expression);
  int64_t constant = sum.constant;
  *out = nullptr;
  for (const uop::sym::Term& term : sum.terms()) {
    Node part = nullptr;
    ASTER_TRY(convert_term(&part, term.node, dtype, depth));
    if (const uint32_t at = find(term.node); at != kNone)
      constant -= of(symbols_[at]).least * term.coefficient;
    if (term.coefficient != 1)
      part = g.alu(Op::kMul, part, g.constant_int(dtype, term.coefficient));
    *out = *out == nullptr ? part : g.alu(Op::kAdd, *out, part);
    if (*out == nullptr) return last_failure();
  }
  if (*out == nullptr) {
    *out = g.constant_int(dtype, constant);
  } else if (constant != 0) {
    *out = g.alu(Op::kAdd, *out, g.constant_int(dtype, constant));
  }
  return *out == nullptr ? last_failure() : kOk;
}

Status Symbols::convert_term(Node* out, Node term, DType dtype, int depth) {
  uop::Graph& g = engine_.graph;
  if (const uint32_t at = find(term); at != kNone) {
    ASTER_TRY(cell(out, at));
    *out = g.cast(*out, dtype);
    return *out == nullptr ? last_failure() : kOk;
  }
  if (uop::is_const(term)) {
    *out = g.constant_int(term->dtype == DType::kBool ? DType::kBool : dtype, uop::const_int(term));
    return *out == nullptr ? last_failure() : kOk;
  }
  std::array<Node, 3> sources{};
  if (!uop::is_alu(term->op) || term->nsrc > sources.size()) return not_of_variables(term);
  for (size_t i = 0; i < term->nsrc; ++i) {
    const Node from = term->src(i);
    ASTER_TRY(from->dtype == DType::kBool ? convert_term(&sources[i], from, dtype, depth + 1)
                                          : convert(&sources[i], from, dtype, depth + 1));
  }
  *out = g.alu(term->op, uop::Nodes(sources.data(), term->nsrc));
  return *out == nullptr ? last_failure() : kOk;
}

}  // namespace aster::engine
