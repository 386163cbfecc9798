#include "uop/print.h"

#include <bit>
#include <cmath>

#include "dtype/sticky.h"
#include "uop/composite.h"
#include "uop/foreign.h"

namespace aster::uop {
namespace {

// Names of operations whose first argument is an operation or a composite.
struct Names {
  const char* plain;
  const char* reduce = nullptr;
  const char* fold = nullptr;
  const char* carry = nullptr;
  const char* scan = nullptr;
  const char* scan_place = nullptr;
  const char* scatter = nullptr;
};
constexpr Names kNames[] = {
#define OP(name, sources, level, meaning) {.plain = #name},
#define ALU(name, arity, rule, traits, cost, value, gradient, meaning) \
  {#name,         "Reduce:" #name,    "Fold:" #name,   "Carry:" #name, \
   "Scan:" #name, "ScanPlace:" #name, "Scatter:" #name},
#define STEP(name, operands, meaning) {.plain = #name},
#define PART(name, arity, rule, value, meaning) {.plain = #name},
#include "uop/ops.def"
};
constexpr const char* kCalls[] = {
#define COMPOSITE(name, public_name, attributes, meaning) "Call:" #name,
#include "uop/composites.def"
#undef COMPOSITE
};

// The column of such an operation, null for others.
const char* const Names::*column_of(Op op) {
  switch (op) {
    case Op::kReduce:
      return &Names::reduce;
    case Op::kFold:
      return &Names::fold;
    case Op::kCarry:
      return &Names::carry;
    case Op::kScan:
      return &Names::scan;
    case Op::kScanPlace:
      return &Names::scan_place;
    case Op::kScatter:
      return &Names::scatter;
    default:
      return nullptr;
  }
}
constexpr Op kNamed[] = {Op::kReduce, Op::kFold,      Op::kCarry,
                         Op::kScan,   Op::kScanPlace, Op::kScatter};

const char* first_word_name(Op op, Word word) {
  if (word < 0) return nullptr;
  const size_t at = static_cast<size_t>(word);
  if (op == Op::kCall) return at < std::size(kCalls) ? kCalls[at] : nullptr;
  const auto column = column_of(op);
  return column == nullptr || at >= std::size(kNames) ? nullptr : kNames[at].*column;
}

void print_constant(Text& out, Node node) {
  if (!dtype::is_float(node->dtype)) {
    if (dtype::is_sticky(node->dtype) && node->arg(0) == dtype::sticky_error(node->dtype)) {
      out << " ERR";
    } else if (node->dtype == DType::kUInt64) {
      out << " " << static_cast<uint64_t>(node->arg(0));
    } else {
      out << " " << node->arg(0);
    }
    return;
  }
  const double value = const_double(node);
  if (std::isfinite(value)) {
    out.format(" %.17g", value);
  } else {
    out << (std::isnan(value) ? " nan" : value > 0 ? " inf" : " -inf");
  }
}

void print_node(Text& out, Node node, uint32_t number, uint32_t buffer,
                const Map<Node, uint32_t>& numbers) {
  out << "%" << number << " = " << full_name(node);
  if (node->dtype != DType::kNone) out << " " << dtype::name(node->dtype);
  if (node->ndim != 0) {
    for (size_t i = 0; i < node->ndim; ++i) out << (i == 0 ? "[" : ", ") << node->dim(i);
    out << "]";
  }
  for (Node source : node->src()) out << " %" << numbers.get(source, 0);
  if (is_const(node)) {
    print_constant(out, node);
  } else if (node->op == Op::kBuffer) {
    out << " #" << buffer;
  } else if (node->op == Op::kForeign) {
    out << " (" << foreign_of(node).name << ")";
  } else {
    const Words words = plain_arguments(node);
    for (size_t i = 0; i < words.size(); ++i) out << (i == 0 ? " (" : ", ") << words[i];
    if (!words.empty()) out << ")";
  }
  out << "\n";
}

}  // namespace

const char* full_name(Node node) {
  const char* name = node->narg > 0 ? first_word_name(node->op, node->arg(0)) : nullptr;
  return name != nullptr ? name : info(node->op).name;
}

const char* full_name(const FullName& name) {
  const char* both = name.has_word ? first_word_name(name.op, name.word) : nullptr;
  return both != nullptr ? both : info(name.op).name;
}

bool parse_full_name(FullName* out, std::string_view name) {
  for (size_t op = 0; op < std::size(kNames); ++op) {
    const OpInfo& row = info(static_cast<Op>(op));
    if (!row.tensor && !row.kernel) continue;  // no node of a graph
    const bool names_word = static_cast<Op>(op) == Op::kCall ||
                            (column_of(static_cast<Op>(op)) != nullptr &&
                             static_cast<Op>(op) != Op::kScatter);  // that may also write
    if (!names_word && name == kNames[op].plain)
      return *out = {static_cast<Op>(op), false, 0}, true;
    const bool reduces = (row.traits & REDUCE) != 0, linear = static_cast<Op>(op) == Op::kMulAcc;
    if (kNames[op].reduce == nullptr || !(reduces || linear)) continue;
    const Word word = static_cast<Word>(op);
    for (Op named : kNamed) {
      if (linear && named != Op::kCarry) continue;
      if (name == kNames[op].*column_of(named)) return *out = {named, true, word}, true;
    }
  }
  for (size_t i = 0; i < std::size(kCalls); ++i) {
    if (name == kCalls[i]) return *out = {Op::kCall, true, static_cast<Word>(i)}, true;
  }
  return false;
}

Words plain_arguments(Node node) {
  if (node->op == Op::kBuffer || node->op == Op::kForeign) return {};
  const bool named = node->narg > 0 && first_word_name(node->op, node->arg(0)) != nullptr;
  return node->arg().subspan(named ? 1 : 0);
}

Status print(Text& out, Nodes roots) {
  Memory& memory = out.memory();
  Vec<Node> order(memory);
  Map<Node, uint32_t> numbers(memory);
  ASTER_TRY(toposort(&order, roots));
  uint32_t buffers = 0;
  for (Node node : order) {
    const uint32_t number = static_cast<uint32_t>(numbers.size());
    ASTER_TRY(numbers.set(node, number));
    print_node(out, node, number, buffers, numbers);
    if (node->op == Op::kBuffer) ++buffers;
  }
  return out.status();
}

}  // namespace aster::uop
