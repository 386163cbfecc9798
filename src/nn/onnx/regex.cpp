#include "nn/onnx/regex.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/options.h"
#include "base/text.h"

namespace aster::nn::onnx {
namespace {

constexpr uint32_t kMostPoint = 0x10ffff, kNoPoint = UINT32_MAX;
constexpr size_t kMostCode = 20'000;
constexpr int kMostGroups = 200;

// Where a state is between two characters.
enum Assertion : uint32_t { kTextBegin, kTextEnd, kLineBegin, kLineEnd, kWordEdge, kNoWordEdge };

struct Named {
  std::string_view name;
  std::array<uint32_t, 8> ranges;  // pairs; {1, 0}: no more
};
constexpr uint32_t kEnd[] = {1, 0};
constexpr Named kNamed[] = {
    {"alnum", {'0', '9', 'A', 'Z', 'a', 'z', kEnd[0], kEnd[1]}},
    {"alpha", {'A', 'Z', 'a', 'z', 1, 0, 1, 0}},
    {"ascii", {0, 127, 1, 0, 1, 0, 1, 0}},
    {"blank", {'\t', '\t', ' ', ' ', 1, 0, 1, 0}},
    {"cntrl", {0, 31, 127, 127, 1, 0, 1, 0}},
    {"digit", {'0', '9', 1, 0, 1, 0, 1, 0}},
    {"graph", {'!', '~', 1, 0, 1, 0, 1, 0}},
    {"lower", {'a', 'z', 1, 0, 1, 0, 1, 0}},
    {"print", {' ', '~', 1, 0, 1, 0, 1, 0}},
    {"punct", {'!', '/', ':', '@', '[', '`', '{', '~'}},
    {"space", {'\t', '\r', ' ', ' ', 1, 0, 1, 0}},
    {"upper", {'A', 'Z', 1, 0, 1, 0, 1, 0}},
    {"word", {'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}},
    {"xdigit", {'0', '9', 'A', 'F', 'a', 'f', 1, 0}},
    // \d, \s and \w; the second leaves out what [[:space:]] has besides, a vertical tab.
    {"d", {'0', '9', 1, 0, 1, 0, 1, 0}},
    {"s", {'\t', '\n', '\f', '\r', ' ', ' ', 1, 0}},
    {"w", {'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}},
};

bool is_word(uint32_t point) {
  return (point >= '0' && point <= '9') || (point >= 'A' && point <= 'Z') || point == '_' ||
         (point >= 'a' && point <= 'z');
}

// The character at the beginning of a text that is not empty, and how many bytes it has.
uint32_t decode(std::string_view text, size_t* size) {
  const auto at = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t first = at(0);
  const size_t wanted = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  *size = 1;
  if (wanted < 2) return wanted == 1 ? first : 0xfffd;
  uint32_t point = first & (0x7fu >> wanted);
  for (size_t i = 1; i < wanted; ++i) {
    if (i >= text.size() || (at(i) & 0xc0) != 0x80) return 0xfffd;
    point = point << 6 | (at(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < kLeast[wanted] || point > kMostPoint || (point >= 0xd800 && point < 0xe000))
    return 0xfffd;
  *size = wanted;
  return point;
}

}  // namespace

// Code is written as the expression is read. What may become a choice later, before branches and
// before what can be repeated, begins with a jump to the next instruction. Repetitions read what
// they repeat again.
class RegexParser {
 public:
  RegexParser(Regex& regex, std::string_view pattern)
      : regex_(regex), code_(regex.code_), pattern_(pattern), set_(code_.memory()) {}

  Status parse() {
    ASTER_TRY(branches(0));
    if (at_ < pattern_.size()) return fail("an opening bracket before");
    return emit(Regex::Kind::kMatch, 0, 0);
  }

 private:
  using Kind = Regex::Kind;
  struct Flags {
    bool fold = false, lines = false, all = false;
    bool quoted = false;  // behind \Q
  };

  Status fail(const char* expected) const {
    return ASTER_FAIL(kFORMAT, "the regular expression has no %s at byte %zu", expected, at_);
  }
  Status emit(Kind kind, uint32_t x, uint32_t y) {
    if (code_.size() >= kMostCode)
      return ASTER_FAIL(kUNSUPPORTED, "a regular expression of more than %zu states", kMostCode);
    return code_.push({kind, x, y});
  }
  uint32_t here() const { return static_cast<uint32_t>(code_.size()); }
  Status place() { return emit(Kind::kJump, here() + 1, 0); }
  void choose(uint32_t at, uint32_t other) { code_[at] = {Kind::kSplit, at + 1, other}; }

  bool more() const { return at_ < pattern_.size(); }
  char peek() const { return pattern_[at_]; }
  bool take(std::string_view text) {
    if (!text_slice(pattern_, at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  uint32_t point() {
    size_t size = 0;
    const uint32_t out = decode(text_slice(pattern_, at_), &size);
    at_ += size;
    return out;
  }

  // a|b|c, up to a closing bracket or the end.
  Status branches(int depth) {
    if (depth > kMostGroups)
      return ASTER_FAIL(kUNSUPPORTED, "groups nested more than %d deep", kMostGroups);
    Vec<uint32_t> ends(code_.memory());
    const Flags outside = flags_;
    for (;;) {
      const uint32_t begin = here();
      ASTER_TRY(place());
      while (more() && (flags_.quoted || (peek() != '|' && peek() != ')')))
        ASTER_TRY(repeated(depth));
      if (!take("|")) break;
      ASTER_TRY(ends.push(here()));
      ASTER_TRY(emit(Kind::kJump, 0, 0));
      choose(begin, here());
    }
    for (const uint32_t end : ends) code_[end].x = here();
    flags_ = outside;
    return kOk;
  }

  // An atom and what stands behind it.
  Status repeated(int depth) {
    const size_t begin = at_;
    const Flags flags = flags_;
    const uint32_t first = here();
    ASTER_TRY(place());
    bool repeats = true;
    ASTER_TRY(atom(depth, &repeats));
    int least = 1, most = 1;
    const size_t operation = at_;
    if (flags_.quoted || !counts(&least, &most)) return kOk;
    if (!repeats) {
      at_ = operation;
      return fail("something to repeat before");
    }
    take("?");  // the shorter ones first: whether all matches is the same
    const size_t end = at_;
    if (more() && (peek() == '*' || peek() == '+' || peek() == '?'))
      return fail("end of a repetition");
    if (most == 0) {
      code_.truncate(first);
      return kOk;
    }
    uint32_t last = first;
    const auto again = [&] {
      const Flags now = std::exchange(flags_, flags);
      at_ = begin;
      last = here();
      ASTER_TRY(place());
      ASTER_TRY(atom(depth, &repeats));
      flags_ = now;
      at_ = end;
      return Status(kOk);
    };
    for (int i = 1; i < least; ++i) ASTER_TRY(again());
    if (most < 0) {
      if (least == 0) {
        ASTER_TRY(emit(Kind::kJump, first, 0));
        choose(first, here());
      } else {
        ASTER_TRY(emit(Kind::kSplit, last + 1, here() + 1));
      }
      return kOk;
    }
    Vec<uint32_t> optional(code_.memory());
    if (least == 0) ASTER_TRY(optional.push(first));
    for (int i = std::max(least, 1); i < most; ++i) {
      ASTER_TRY(again());
      ASTER_TRY(optional.push(last));
    }
    for (const uint32_t at : optional) choose(at, here());
    return kOk;
  }

  bool number(int* out) {
    const size_t begin = at_;
    *out = 0;
    while (more() && peek() >= '0' && peek() <= '9' && at_ - begin < 6)
      *out = *out * 10 + (pattern_[at_++] - '0');
    return at_ > begin;
  }
  // *, +, ?, {n}, {n,}, {n,m}: least and most (-1: any); false where there is none.
  bool counts(int* least, int* most) {
    const size_t begin = at_;
    if (take("*")) return *least = 0, *most = -1, true;
    if (take("+")) return *least = 1, *most = -1, true;
    if (take("?")) return *least = 0, *most = 1, true;
    bool read = take("{") && number(least);
    if (read) {
      *most = *least;
      if (take(",") && !number(most)) *most = -1;
      read = take("}");
    }
    if (!read) at_ = begin;  // as it stands
    return read;
  }

  Status atom(int depth, bool* repeats) {
    if (flags_.quoted || take("\\Q")) return quoted(repeats);
    if (take("(")) return group(depth, repeats);
    if (take("[")) return bracket();
    if (take("\\")) return escape(repeats);
    if (peek() == '*' || peek() == '+' || peek() == '?') return fail("something to repeat before");
    if (int least, most; counts(&least, &most)) return fail("something to repeat before");
    *repeats = peek() != '^' && peek() != '$';
    if (take("^")) return emit(Kind::kAssert, flags_.lines ? kLineBegin : kTextBegin, 0);
    if (take("$")) return emit(Kind::kAssert, flags_.lines ? kLineEnd : kTextEnd, 0);
    set_.clear();
    if (!take(".")) return one(point());
    ASTER_TRY(add(0, flags_.all ? kMostPoint : '\n' - 1));
    if (!flags_.all) ASTER_TRY(add('\n' + 1, kMostPoint));
    return write(false);
  }

  // Behind an opening round bracket: a group, of a name or with flags, or flags up to its end.
  Status group(int depth, bool* repeats) {
    const Flags outside = flags_;
    if (take("?P<") || take("?<")) {
      const size_t end = pattern_.find('>', at_);
      if (end == std::string_view::npos || end == at_) return fail("name of a group");
      at_ = end + 1;
    } else if (take("?")) {
      bool on = true, ended = false;
      while (more() && !ended) {
        const char c = pattern_[at_++];
        if (c == '-' && on) {
          on = false;
        } else if (c == 'i') {
          flags_.fold = on;
        } else if (c == 'm') {
          flags_.lines = on;
        } else if (c == 's') {
          flags_.all = on;
        } else if (c == ')') {
          *repeats = false;
          return kOk;  // for what follows
        } else if (c == ':') {
          ended = true;
        } else if (c != 'U') {
          --at_;
          return fail("flag, i, m, s or U,");
        }
      }
      if (!ended) return fail("colon behind flags");
    }
    ASTER_TRY(branches(depth + 1));
    flags_ = outside;
    return take(")") ? Status(kOk) : fail("closing bracket");
  }

  // ---- Sets ----

  Status add(uint32_t low, uint32_t high) {
    if (low > high) return kOk;
    ASTER_TRY(set_.push({low, high}));
    if (!flags_.fold) return kOk;
    for (const uint32_t from : {uint32_t{'A'}, uint32_t{'a'}}) {
      const uint32_t a = std::max(low, from), b = std::min(high, from + 25);
      if (a <= b) ASTER_TRY(set_.push({a ^ 0x20, b ^ 0x20}));
    }
    return kOk;
  }
  Status one(uint32_t c) {
    set_.clear();
    ASTER_TRY(add(c, c));
    return write(false);
  }
  void merge() {
    std::ranges::sort(set_, {}, &Regex::Range::low);
    size_t count = 0;
    for (const Regex::Range& range : set_) {
      if (count > 0 && range.low <= set_[count - 1].high + 1) {
        set_[count - 1].high = std::max(set_[count - 1].high, range.high);
      } else {
        set_[count++] = range;
      }
    }
    set_.truncate(count);
  }
  // All that set_ has, or has not.
  Status write(bool negated) {
    merge();
    const auto first = static_cast<uint32_t>(regex_.ranges_.size());
    uint32_t next = 0;
    for (const Regex::Range& range : set_) {
      if (!negated) ASTER_TRY(regex_.ranges_.push(range));
      if (negated && range.low > next) ASTER_TRY(regex_.ranges_.push({next, range.low - 1}));
      next = range.high + 1;
    }
    if (negated && next <= kMostPoint) ASTER_TRY(regex_.ranges_.push({next, kMostPoint}));
    return emit(Kind::kSet, first, static_cast<uint32_t>(regex_.ranges_.size()) - first);
  }
  // The ranges of a class by its name, or what they leave out. False where there is none.
  Status named(bool* found, std::string_view name, bool negated) {
    *found = false;
    for (const Named& one : kNamed) {
      if (one.name != name) continue;
      *found = true;
      uint32_t next = 0;
      for (size_t i = 0; i < one.ranges.size() && one.ranges[i] <= one.ranges[i + 1]; i += 2) {
        if (!negated) ASTER_TRY(add(one.ranges[i], one.ranges[i + 1]));
        if (negated && one.ranges[i] > next) ASTER_TRY(add(next, one.ranges[i] - 1));
        next = one.ranges[i + 1] + 1;
      }
      if (negated) ASTER_TRY(add(next, kMostPoint));
    }
    return kOk;
  }
  // \d and the like, behind the backslash.
  Status letter_class(bool* found) {
    *found = false;
    if (!more()) return kOk;
    const char lower[] = {static_cast<char>(peek() | 0x20)};
    if (peek() == 'p' || peek() == 'P' || peek() == 'C')
      return ASTER_FAIL(kUNSUPPORTED, "\\%c in a regular expression", peek());
    if (lower[0] != 'd' && lower[0] != 's' && lower[0] != 'w') return kOk;
    const bool negated = peek() < 'a';
    ++at_;
    return named(found, {lower, 1}, negated);
  }

  // Behind an opening square bracket.
  Status bracket() {
    set_.clear();
    const bool negated = take("^");
    for (bool first = true; first || !more() || peek() != ']'; first = false) {
      if (!more()) return fail("closing bracket of a class");
      bool found = false;
      if (take("[:")) {
        const bool other = take("^");
        const size_t end = pattern_.find(":]", at_);
        if (end != std::string_view::npos && end - at_ > 1)
          ASTER_TRY(named(&found, text_slice(pattern_, at_, end - at_), other));
        if (!found) return fail("class of that name");
        at_ = end + 2;
        continue;
      }
      uint32_t low = 0, high = 0;
      if (take("\\")) {
        ASTER_TRY(letter_class(&found));
        if (found) continue;
        ASTER_TRY(escaped(&low));
      } else {
        low = point();
      }
      high = low;
      if (more() && peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']') {
        ++at_;
        if (take("\\")) {
          ASTER_TRY(escaped(&high));
        } else {
          high = point();
        }
        if (high < low) return fail("range from less to more");
      }
      ASTER_TRY(add(low, high));
    }
    ++at_;
    return write(negated);
  }

  // ---- Escapes ----

  // A character, behind the backslash.
  Status escaped(uint32_t* out) {
    if (!more()) return fail("character behind a backslash");
    const char c = peek();
    constexpr std::pair<char, char> kLetters[] = {{'a', '\a'}, {'f', '\f'}, {'t', '\t'},
                                                  {'n', '\n'}, {'r', '\r'}, {'v', '\v'}};
    for (const auto& [name, value] : kLetters) {
      if (c == name) return ++at_, *out = static_cast<uint32_t>(value), Status(kOk);
    }
    if (take("x")) return hexadecimal(out);
    const bool letter = is_word(static_cast<uint8_t>(c)) && c != '_';
    if (!letter) return *out = point(), Status(kOk);
    // Octal: \0, or three digits.
    const auto digit = [&](size_t i) {
      return at_ + i < pattern_.size() && pattern_[at_ + i] >= '0' && pattern_[at_ + i] <= '7';
    };
    if (c != '0' && !(digit(0) && digit(1) && digit(2))) return fail("escape that is known");
    *out = 0;
    for (int i = 0; i < 3 && digit(0); ++i)
      *out = *out * 8 + static_cast<uint32_t>(pattern_[at_++] - '0');
    return kOk;
  }
  Status hexadecimal(uint32_t* out) {
    const bool braces = take("{");
    const size_t begin = at_;
    *out = 0;
    while (more() && at_ - begin < (braces ? 6u : 2u)) {
      const char c = peek(), lower = static_cast<char>(c | 0x20);
      if (!(c >= '0' && c <= '9') && !(lower >= 'a' && lower <= 'f')) break;
      *out = *out * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : lower - 'a' + 10);
      ++at_;
    }
    const bool whole = braces ? at_ > begin && take("}") : at_ - begin == 2;
    return whole && *out <= kMostPoint ? Status(kOk) : fail("hexadecimal number of a character");
  }
  Status escape(bool* repeats) {
    constexpr std::pair<char, uint32_t> kPlaces[] = {
        {'A', kTextBegin}, {'z', kTextEnd}, {'b', kWordEdge}, {'B', kNoWordEdge}};
    for (const auto& [name, place] : kPlaces) {
      if (!more() || peek() != name) continue;
      ++at_;
      *repeats = false;
      return emit(Kind::kAssert, place, 0);
    }
    set_.clear();
    bool found = false;
    ASTER_TRY(letter_class(&found));
    if (found) return write(false);
    uint32_t c = 0;
    ASTER_TRY(escaped(&c));
    return one(c);
  }
  // One character of those up to \E, or to the end; none where they have just begun, or end.
  Status quoted(bool* repeats) {
    *repeats = flags_.quoted && more() && !text_slice(pattern_, at_).starts_with("\\E");
    if (*repeats) ASTER_TRY(one(point()));
    flags_.quoted = !take("\\E");
    return kOk;
  }

  Regex& regex_;
  Vec<Regex::Instruction>& code_;
  const std::string_view pattern_;
  Vec<Regex::Range> set_;
  size_t at_ = 0;
  Flags flags_;
};

Status Regex::compile(std::string_view pattern) {
  code_.clear();
  ranges_.clear();
  return RegexParser(*this, pattern).parse();
}

// The states that are followed, each once.
class Regex::Threads {
 public:
  Threads(const Regex& regex, Memory& memory)
      : regex_(regex), now(memory), next_(memory), open_(memory), mark_(memory) {}
  Status begin() { return mark_.resize(regex_.code_.size(), 0u); }

  // Follows a state up to those that take a character, between two characters.
  Status follow(uint32_t state, uint32_t before, uint32_t after) {
    ASTER_TRY(open_.push(state));
    while (!open_.empty()) {
      const uint32_t at = open_.back();
      open_.pop();
      if (mark_[at] == turn_) continue;
      mark_[at] = turn_;
      ++steps;
      const Instruction& i = regex_.code_[at];
      if (i.kind == Kind::kSet || i.kind == Kind::kMatch) {
        ASTER_TRY(next_.push(at));
      } else if (i.kind == Kind::kAssert) {
        if (holds(i.x, before, after)) ASTER_TRY(open_.push(at + 1));
      } else {
        ASTER_TRY(open_.push(i.x));
        if (i.kind == Kind::kSplit) ASTER_TRY(open_.push(i.y));
      }
    }
    return kOk;
  }
  void turn() {
    std::swap(now, next_);
    next_.clear();
    ++turn_;
  }

  uint64_t steps = 0;

 private:
  static bool holds(uint32_t assertion, uint32_t before, uint32_t after) {
    const bool edge = is_word(before) != is_word(after);
    switch (assertion) {
      case kTextBegin:
        return before == kNoPoint;
      case kTextEnd:
        return after == kNoPoint;
      case kLineBegin:
        return before == kNoPoint || before == '\n';
      case kLineEnd:
        return after == kNoPoint || after == '\n';
      default:
        return edge == (assertion == kWordEdge);
    }
  }
  const Regex& regex_;

 public:
  Vec<uint32_t> now;

 private:
  Vec<uint32_t> next_, open_, mark_;
  uint32_t turn_ = 1;
};

Status Regex::matches(bool* out, std::string_view text, uint64_t* steps, uint64_t most) const {
  *out = false;
  Threads threads(*this, code_.memory());
  ASTER_TRY(threads.begin());
  size_t size = 0;
  uint32_t before = kNoPoint, after = text.empty() ? kNoPoint : decode(text, &size);
  ASTER_TRY(threads.follow(0, before, after));
  threads.turn();
  while (!text.empty() && !threads.now.empty() && *steps + threads.steps <= most) {
    text.remove_prefix(size);
    before = after;
    after = text.empty() ? kNoPoint : decode(text, &size);
    for (const uint32_t state : threads.now) {
      const Instruction& i = code_[state];
      if (i.kind != Kind::kSet) continue;
      const Range *const first = ranges_.begin() + i.x, *const last = first + i.y;
      const Range* const found =
          std::partition_point(first, last, [&](const Range& r) { return r.high < before; });
      if (found != last && found->low <= before)
        ASTER_TRY(threads.follow(state + 1, before, after));
    }
    threads.turn();
  }
  *steps += threads.steps;
  if (!text.empty()) return kOk;
  *out = std::ranges::any_of(threads.now,
                             [&](uint32_t state) { return code_[state].kind == Kind::kMatch; });
  return kOk;
}

}  // namespace aster::nn::onnx
