// Regular expressions as RE2 writes them, against whole texts: a machine of states that are all
// followed at once, so that a match takes time in proportion to the text and the expression.
#pragma once

#include <string_view>

#include "base/memory.h"
#include "base/status.h"

namespace aster::nn::onnx {

class Regex {
 public:
  explicit Regex(Memory& memory) : code_(memory), ranges_(memory) {}

  // Errors: FORMAT (with the byte, and what was expected), UNSUPPORTED (classes of Unicode by their
  // names, single bytes, an expression that is too large), MEMORY. Letters of ASCII alone are the
  // same in both cases under (?i).
  Status compile(std::string_view pattern);

  // Whether all of a text, in UTF-8, matches; what is none of it is U+FFFD. steps: counts what was
  // done, in states; it ends early, with no answer, where there would be more than `most`.
  Status matches(bool* out, std::string_view text, uint64_t* steps, uint64_t most) const;

 private:
  friend class RegexParser;
  enum class Kind : uint8_t { kJump, kSplit, kSet, kAssert, kMatch };
  struct Instruction {
    Kind kind;
    uint32_t x, y;  // where to go on; of kSet: its first range, and how many
  };
  struct Range {
    uint32_t low, high;
  };
  class Threads;
  Vec<Instruction> code_;
  Vec<Range> ranges_;
};

}  // namespace aster::nn::onnx
