// Rules of callers: patterns as text, read once and applied as those of rewrite.h are.
//
//   pattern   = operation | variable | number
//   operation = Name [":" Name] ["[" label "]"] "(" [pattern {"," pattern}] ")"
//   variable  = name [":" kind]    kind: a dtype's name, "float", "int", "bool" or "const"
//
// Names of operations begin with a capital and are those of full_name ("Add", "Reduce:Add",
// "Call:Softmax"); Cast and Bitcast may have a dtype behind the colon. Variables begin with a small
// letter; c0, c1, .. match constants alone. A label names what an operation has besides its
// sources: its arguments, shape and dtype; on the right the operation of that label has the same.
#pragma once

#include "uop/print.h"
#include "uop/rewrite.h"

namespace aster::uop {

enum class Kind : uint8_t { kAny, kConst, kFloat, kInt, kDType };

struct PatternPart {
  enum Form : uint8_t { kVariable, kNumber, kOperation };
  Form form = kVariable;
  Kind kind = Kind::kAny;      // of a variable
  DType dtype = DType::kNone;  // of a variable of kind kDType; of a Cast or Bitcast: to which
  uint8_t variable = 0;
  uint8_t label = 0;  // from 1; 0: none
  FullName name{};    // of an operation
  double number = 0;
  uint32_t first_source = 0, sources = 0;  // into the pattern's list
};

// Parts in post-order, the root last.
struct TextPattern {
  explicit TextPattern(Memory& memory) : parts(memory), sources(memory) {}
  Vec<PatternPart> parts;
  Vec<uint32_t> sources;
  uint32_t commutative = 0;  // operations whose two operands may be turned round
};

struct TextRule {
  static constexpr size_t kMostParts = 64, kMostNames = 16, kMostCommutative = 8;
  explicit TextRule(Memory& memory) : from(memory), to(memory), names(memory), labels(memory) {}
  std::string_view name;  // for messages
  TextPattern from, to;   // to: empty where a function builds
  Vec<std::string_view> names, labels;
};

struct TextMatch {
  Node variable[TextRule::kMostNames];
  Node label[TextRule::kMostNames + 1];
};

// Reads both sides; to may be null. Errors: FORMAT (with the place), NOT_FOUND (no such operation),
// ARGUMENT (a variable of `to` that `from` does not bind, wrong numbers of operands, too much).
Status read_rule(TextRule* out, std::string_view from, const char* to);
bool match_rule(TextMatch* out, const TextRule& rule, Node root);
// The right side; null: the failure in the error record.
Node build_rule(Graph& g, const TextRule& rule, const TextMatch& match, Node root);

}  // namespace aster::uop
