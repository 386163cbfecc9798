#include "uop/pattern.h"

#include <algorithm>
#include <bit>

#include "base/text.h"
#include "uop/raw.h"

namespace aster::uop {
namespace {

constexpr size_t kMostDepth = 32;

bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
bool is_small(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_capital(c) || is_small(c) || is_digit(c); }
bool names_constant(std::string_view name) {
  return name.size() > 1 && name[0] == 'c' && std::all_of(name.begin() + 1, name.end(), is_digit);
}
bool names_dtype(Op op) { return op == Op::kCast || op == Op::kBitcast; }
// Operations that are made of their sources alone.
bool needs_nothing(const PatternPart& part) {
  const Op op = part.name.op;
  return is_alu(op) || op == Op::kDetach || op == Op::kContiguous || op == Op::kAssign ||
         op == Op::kAfter || (names_dtype(op) && part.dtype != DType::kNone);
}

class Reader {
 public:
  Reader(TextRule& rule, TextPattern& pattern, std::string_view text, bool right)
      : rule_(rule), out_(pattern), text_(text), right_(right) {}

  Status run() {
    uint32_t root = 0;
    ASTER_TRY(pattern(&root, 0));
    skip();
    if (at_ != text_.size()) return fail("the end");
    if (!right_ && out_.parts[root].form != PatternPart::kOperation)
      return ASTER_FAIL(kARGUMENT, "rule %.*s: its left side is no operation", size(), name());
    return kOk;
  }

 private:
  int size() const { return static_cast<int>(rule_.name.size()); }
  const char* name() const { return rule_.name.data(); }
  Status fail(const char* wanted) const {
    return ASTER_FAIL(kFORMAT, "rule %.*s, %s side, column %zu: %s is expected", size(), name(),
                      right_ ? "right" : "left", at_ + 1, wanted);
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    return ++at_, true;
  }
  std::string_view word() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_slice(text_, begin, at_ - begin);
  }
  // The place of a name in a list, which it joins where it may.
  Status place(uint8_t* out, Vec<std::string_view>& names, std::string_view name_of, bool* fresh) {
    const auto found = std::ranges::find(names, name_of);
    *out = static_cast<uint8_t>(found - names.begin());
    *fresh = found == names.end();
    if (!*fresh) return kOk;
    if (right_) {
      return ASTER_FAIL(kARGUMENT, "rule %.*s: %.*s is not bound by its left side", size(), name(),
                        static_cast<int>(name_of.size()), name_of.data());
    }
    if (names.size() == TextRule::kMostNames)
      return ASTER_FAIL(kARGUMENT, "rule %.*s: more than %zu names", size(), name(),
                        TextRule::kMostNames);
    return names.push(name_of);
  }

  Status pattern(uint32_t* at, size_t depth) {
    skip();
    if (at_ == text_.size()) return fail("a pattern");
    if (depth == kMostDepth || out_.parts.size() == TextRule::kMostParts)
      return ASTER_FAIL(kARGUMENT, "rule %.*s: a pattern too large", size(), name());
    PatternPart part;
    Vec<uint32_t> sources(out_.sources.memory());
    const char c = text_[at_];
    if (is_capital(c)) {
      ASTER_TRY(operation(&part, sources, depth));
    } else if (is_small(c) && !begins_number()) {
      ASTER_TRY(variable(&part));
    } else {
      ASTER_TRY(number(&part));
    }
    part.first_source = static_cast<uint32_t>(out_.sources.size());
    part.sources = static_cast<uint32_t>(sources.size());
    ASTER_TRY(out_.sources.append(sources.data(), sources.size()));
    *at = static_cast<uint32_t>(out_.parts.size());
    return out_.parts.push(part);
  }
  bool begins_number() const {
    const std::string_view rest = text_slice(text_, at_);
    for (const std::string_view each : {"inf", "nan"}) {
      if (rest.starts_with(each) && (rest.size() == 3 || !is_word(rest[3]))) return true;
    }
    return false;
  }
  Status number(PatternPart* part) {
    part->form = PatternPart::kNumber;
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')' && text_[at_] != ' ') ++at_;
    if (parse_double(&part->number, text_slice(text_, begin, at_ - begin))) return kOk;
    return at_ = begin, fail("a pattern");
  }
  Status variable(PatternPart* part) {
    bool fresh = false;
    const std::string_view own = word();
    ASTER_TRY(place(&part->variable, rule_.names, own, &fresh));
    if (names_constant(own)) part->kind = Kind::kConst;
    if (!take(':')) return kOk;
    skip();
    const std::string_view kind = word();
    if (right_) return fail("no kind on the right side");
    if (kind == "float") {
      part->kind = Kind::kFloat;
    } else if (kind == "int") {
      part->kind = Kind::kInt;
    } else if (kind == "const") {
      part->kind = Kind::kConst;
    } else {
      part->kind = Kind::kDType;
      if (!dtype::from_name(&part->dtype, kind).ok()) return fail("float, int, const or a dtype");
    }
    return kOk;
  }
  Status operation(PatternPart* part, Vec<uint32_t>& sources, size_t depth) {
    part->form = PatternPart::kOperation;
    const size_t begin = at_;
    std::string_view full = word();
    if (at_ < text_.size() && text_[at_] == ':') {
      ++at_;
      const std::string_view second = word();
      const bool converts = full == "Cast" || full == "Bitcast";
      if (converts && !dtype::from_name(&part->dtype, second).ok()) return fail("a dtype");
      if (!converts) full = text_slice(text_, begin, at_ - begin);
    }
    if (!parse_full_name(&part->name, full)) {
      return ASTER_FAIL(kNOT_FOUND, "rule %.*s: no operation is named \"%.*s\"", size(), name(),
                        static_cast<int>(full.size()), full.data());
    }
    if (take('[')) {
      bool fresh = false;
      skip();
      const std::string_view label = word();
      if (label.empty() || !take(']')) return fail("a label in brackets");
      ASTER_TRY(place(&part->label, rule_.labels, label, &fresh));
      if (!right_ && !fresh) return fail("a label of its own");
      ++part->label;
    }
    if (!take('(')) return fail("(");
    if (!take(')')) {
      do {
        uint32_t at = 0;
        ASTER_TRY(pattern(&at, depth + 1));
        ASTER_TRY(sources.push(at));
      } while (take(','));
      if (!take(')')) return fail(", or )");
    }
    return check(*part, full, sources.size());
  }
  Status check(const PatternPart& part, std::string_view full, size_t count) {
    const OpInfo& row = info(part.name.op);
    if (row.sources >= 0 && count != static_cast<size_t>(row.sources)) {
      return ASTER_FAIL(kARGUMENT, "rule %.*s: %.*s of %zu operands, not %d", size(), name(),
                        static_cast<int>(full.size()), full.data(), count, row.sources);
    }
    if (right_ && part.label == 0 && !needs_nothing(part)) {
      return ASTER_FAIL(kARGUMENT, "rule %.*s: %.*s has arguments: a label says which", size(),
                        name(), static_cast<int>(full.size()), full.data());
    }
    const bool turns = count == 2 && (row.traits & COMM) != 0;
    if (!right_ && turns && ++out_.commutative > TextRule::kMostCommutative)
      return ASTER_FAIL(kARGUMENT, "rule %.*s: more than %zu commutative operations", size(),
                        name(), TextRule::kMostCommutative);
    return kOk;
  }

  TextRule& rule_;
  TextPattern& out_;
  std::string_view text_;
  bool right_;
  size_t at_ = 0;
};

bool equals_number(Node node, double number) {
  if (!is_const(node)) return false;
  const Word word = node->arg(0);
  if (dtype::is_float(node->dtype)) return word == std::bit_cast<Word>(number);
  if (node->dtype == DType::kUInt64)
    return number >= 0 && number < 18446744073709551616.0 &&
           word == static_cast<Word>(static_cast<uint64_t>(number));
  return static_cast<double>(word) == number;
}

bool fits_kind(const PatternPart& part, Node node) {
  switch (part.kind) {
    case Kind::kAny:
      return true;
    case Kind::kConst:
      return is_const(node);
    case Kind::kFloat:
      return dtype::is_float(node->dtype);
    case Kind::kInt:
      return dtype::is_int(node->dtype);
    case Kind::kDType:
      return node->dtype == part.dtype;
  }
  return false;
}

// One way to match: bit i of swaps turns round the i-th commutative operation on the path.
class Matcher {
 public:
  Matcher(const TextPattern& pattern, TextMatch& match, uint32_t swaps)
      : pattern_(pattern), match_(match), swaps_(swaps) {}

  bool run(size_t at, Node node) {
    const PatternPart& part = pattern_.parts[at];
    if (part.form == PatternPart::kNumber) return equals_number(node, part.number);
    if (part.form == PatternPart::kVariable) {
      Node& bound = match_.variable[part.variable];
      if (bound != nullptr) return bound == node && fits_kind(part, node);
      if (!fits_kind(part, node)) return false;
      bound = node;
      return true;
    }
    if (node->op != part.name.op || (part.dtype != DType::kNone && node->dtype != part.dtype))
      return false;
    if (part.name.has_word && (node->narg == 0 || node->arg(0) != part.name.word)) return false;
    const size_t body = node->op == Op::kCall ? 1 : 0;
    if (node->nsrc - body != part.sources) return false;
    if (part.label != 0) match_.label[part.label] = node;
    bool turned = false;
    if (part.sources == 2 && (info(part.name.op).traits & COMM) != 0)
      turned = (swaps_ >> met_++ & 1) != 0;
    for (size_t i = 0; i < part.sources; ++i) {
      const size_t source = pattern_.sources[part.first_source + i];
      if (!run(source, node->src(body + (turned ? 1 - i : i)))) return false;
    }
    return true;
  }

 private:
  const TextPattern& pattern_;
  TextMatch& match_;
  uint32_t swaps_, met_ = 0;
};

class Maker {
 public:
  Maker(Graph& g, const TextPattern& pattern, const TextMatch& match, Node root)
      : g_(g), pattern_(pattern), match_(match), root_(root), built_(g.memory()) {}

  Node run() {
    if (!built_.resize(pattern_.parts.size(), nullptr).ok()) return nullptr;
    for (size_t i = 0; i < pattern_.parts.size(); ++i) {
      const PatternPart& part = pattern_.parts[i];
      if (part.form == PatternPart::kNumber) continue;  // by what stands beside it
      built_[i] = part.form == PatternPart::kVariable ? match_.variable[part.variable] : make(part);
      if (built_[i] == nullptr) return nullptr;
    }
    const PatternPart& last = pattern_.parts.back();
    if (last.form == PatternPart::kNumber)
      return g_.constant(root_->dtype, last.number, root_->shape());
    return built_.back();
  }

 private:
  Node source(const PatternPart& part, size_t i) const {
    return built_[pattern_.sources[part.first_source + i]];
  }
  // What a number beside operands is like: one that it shares a dtype with, else the root.
  Node neighbour(const PatternPart& part, size_t i) const {
    const bool chooses = part.name.op == Op::kWhere;
    for (size_t other = chooses && i > 0 ? 1 : 0; other < part.sources; ++other) {
      if (other != i && source(part, other) != nullptr) return source(part, other);
    }
    return root_;
  }
  Node make(const PatternPart& part) {
    Vec<Node> sources(g_.memory());
    for (size_t i = 0; i < part.sources; ++i) {
      Node node = source(part, i);
      if (node == nullptr) {
        const Node like = neighbour(part, i);
        const size_t at = pattern_.sources[part.first_source + i];
        node = g_.constant(like->dtype, pattern_.parts[at].number, like->shape());
      }
      if (node == nullptr || !sources.push(node).ok()) return nullptr;
    }
    const Node like = part.label == 0 ? nullptr : match_.label[part.label];
    RawNode raw;
    raw.name = full_name(part.name);
    raw.sources = {sources.data(), sources.size()};
    raw.dtype = part.dtype;
    if (like != nullptr) {
      raw.arguments = plain_arguments(like);
      raw.shape = like->shape();
      if (raw.dtype == DType::kNone) raw.dtype = like->dtype;
    }
    Node out = nullptr;
    return build_raw(&out, g_, raw).ok() ? out : nullptr;
  }

  Graph& g_;
  const TextPattern& pattern_;
  const TextMatch& match_;
  Node root_;
  Vec<Node> built_;
};

}  // namespace

Status read_rule(TextRule* out, std::string_view from, const char* to) {
  ASTER_TRY(Reader(*out, out->from, from, false).run());
  return to == nullptr ? kOk : Reader(*out, out->to, to, true).run();
}

bool match_rule(TextMatch* out, const TextRule& rule, Node root) {
  const size_t last = rule.from.parts.size() - 1;
  if (root->op != rule.from.parts[last].name.op) return false;
  for (uint32_t swaps = 0; swaps < uint32_t{1} << rule.from.commutative; ++swaps) {
    *out = TextMatch{};
    if (Matcher(rule.from, *out, swaps).run(last, root)) return true;
  }
  return false;
}

Node build_rule(Graph& g, const TextRule& rule, const TextMatch& match, Node root) {
  return Maker(g, rule.to, match, root).run();
}

}  // namespace aster::uop
