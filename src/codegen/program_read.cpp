// Text to programs: tokens, then one instruction after another along its pattern.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/hash_map.h"
#include "codegen/lexer.h"
#include "codegen/program_text.h"

namespace aster::codegen::program {
namespace {

Op op_named(std::string_view name) {
  for (size_t i = 0; i < static_cast<size_t>(Op::kCount); ++i) {
    const Op op = static_cast<Op>(i);
    if (uop::info(op).program && name == uop::info(op).name) return op;
  }
  return Op::kCount;
}

class Reader : TokenReader {
 public:
  Reader(Module* module, std::string_view text)
      : TokenReader(text),
        module_(*module),
        labels_(module->programs.memory()),
        operands_(module->programs.memory()),
        words_(module->programs.memory()),
        terms_(module->programs.memory()) {}

  Status run() {
    move();
    skip_breaks();
    if (token_.kind == TokenKind::kEnd) return expected("a program");
    while (token_.kind != TokenKind::kEnd) ASTER_TRY(program());
    return kOk;
  }

 private:
  void skip_breaks() {
    while (token_.kind == TokenKind::kBreak) move();
  }
  Status expect(std::string_view text, const char* what) {
    return accept(text) ? kOk : expected(what);
  }
  Status end_statement() {
    if (token_.kind != TokenKind::kBreak && token_.kind != TokenKind::kEnd) {
      return expected("the end of the instruction");
    }
    skip_breaks();
    return kOk;
  }

  Status program() {
    const bool function = at("function");
    if (!function && !at("program")) return expected("program or function");
    move();
    if (token_.kind != TokenKind::kName || token_.text.size() >= kMaxName)
      return expected("a name");
    if (find_program(token_.text) < module_.programs.size()) return expected("a name of its own");
    Program read(module_.programs.memory());
    read.function = function;
    std::ranges::copy(token_.text, read.name);
    program_ = &read;
    labels_.clear();
    move();
    ASTER_TRY(end_statement());
    if (accept("axis")) ASTER_TRY(axes());
    while (token_.kind != TokenKind::kEnd && !at("program") && !at("function")) {
      ASTER_TRY(statement());
    }
    return module_.programs.push(std::move(read));
  }
  size_t find_program(std::string_view name) const {
    size_t i = 0;
    while (i < module_.programs.size() && name != module_.programs[i].name) ++i;
    return i;
  }

  Status axes() {
    do {
      const Token name = token_;
      if (name.kind != TokenKind::kName || axis_named(name.text) >= 0) {
        return expected("a new axis");
      }
      move();
      const Token size = token_;
      int64_t value;
      ASTER_TRY(integer(&value));
      program_->add_axis(name.text, value);
      if (!program_->status().ok()) return wrong(size.line, program_->status());
    } while (accept(","));
    return end_statement();
  }
  // A program's own refusal, with the line; what failed for memory stays so.
  Status wrong(int line, Status status) {
    if (status.code == static_cast<int32_t>(Code::kMEMORY)) return status;
    char said[sizeof(aster_ml_error::message)];
    std::memcpy(said, SavedError::message(), sizeof(said));
    said[sizeof(said) - 1] = '\0';
    return ASTER_FAIL(kFORMAT, "line %d: %s", line, said);
  }

  Status statement() {
    const int line = token_.line;
    in_ = Instruction{};
    operands_.clear();
    words_.clear();
    terms_.clear();
    Token label{};
    if (token_.kind == TokenKind::kValue) {
      label = token_;
      move();
      ASTER_TRY(expect("=", "="));
    }
    ASTER_TRY(operation());
    const Syntax syntax = syntax_of(in_.op);
    if (syntax.value != (label.kind == TokenKind::kValue)) {
      return ASTER_FAIL(kFORMAT, "line %d: %s has %s value", line, uop::info(in_.op).name,
                        syntax.value ? "a" : "no");
    }
    if (syntax.type) ASTER_TRY(type());
    if (syntax.axes && accept("{")) ASTER_TRY(axis_set());
    for (const char* letter = syntax.pattern; *letter != '\0'; ++letter) {
      ASTER_TRY(argument(*letter));
    }
    ASTER_TRY(end_statement());
    const Id id = program_->add(in_, {operands_.data(), operands_.size()},
                                {words_.data(), words_.size()}, {terms_.data(), terms_.size()});
    if (!program_->status().ok()) return wrong(line, program_->status());
    return syntax.value ? define(label, id) : kOk;
  }
  Status define(const Token& label, Id id) {
    uint64_t number = 0;
    ASTER_TRY(label_number(&number, label));
    if (labels_.contains(number)) {
      return ASTER_FAIL(kFORMAT, "line %d: %%%llu is defined twice", label.line,
                        static_cast<unsigned long long>(number));
    }
    return labels_.set(number, id);
  }
  Status label_number(uint64_t* out, const Token& label) {
    const char* const end = label.text.data() + label.text.size();
    const auto result = std::from_chars(label.text.data() + 1, end, *out);
    if (result.ec == std::errc() && result.ptr == end) return kOk;
    return ASTER_FAIL(kFORMAT, "line %d: a number of a value is too large", label.line);
  }

  Status operation() {
    if (token_.kind != TokenKind::kName) return expected("an instruction");
    const size_t colon = token_.text.find(':');
    in_.op = op_named(text_slice(token_.text, 0, colon));
    if (in_.op == Op::kCount || combines(in_.op) != (colon != std::string_view::npos)) {
      return expected("an instruction");
    }
    if (combines(in_.op)) {
      in_.with = op_named(text_slice(token_.text, colon + 1));
      if (in_.with == Op::kCount) return expected("an instruction with an operation");
    }
    if (in_.op == Op::kStore || in_.op == Op::kAtomic) in_.lanes = 1;
    move();
    return kOk;
  }
  bool parse_type() {
    if (token_.kind != TokenKind::kName) return false;
    std::string_view name = token_.text;
    in_.lanes = 1;
    if (const size_t x = name.rfind('x'); x != std::string_view::npos) {
      const std::string_view lanes = text_slice(name, x + 1);
      name = text_slice(name, 0, x);
      uint8_t count = 0;
      const auto result = std::from_chars(lanes.data(), lanes.data() + lanes.size(), count);
      const bool whole = result.ec == std::errc() && result.ptr == lanes.data() + lanes.size();
      if (lanes != "n" && (!whole || count < 2)) return false;
      in_.lanes = lanes == "n" ? kAnyLanes : count;
    }
    return type_named(&in_.dtype, name);
  }
  Status type() {
    if (!parse_type()) return expected("a type");
    move();
    return kOk;
  }
  int axis_named(std::string_view name) const {
    for (size_t i = 0; i < program_->axes().size(); ++i) {
      if (name == program_->axes()[i].name) return static_cast<int>(i);
    }
    return -1;
  }
  Status axis(uint8_t* out) {
    const int found = token_.kind == TokenKind::kName ? axis_named(token_.text) : -1;
    if (found < 0) return expected("an axis");
    *out = static_cast<uint8_t>(found);
    move();
    return kOk;
  }
  Status axis_set() {
    while (!accept("}")) {
      uint8_t one = 0;
      ASTER_TRY(axis(&one));
      in_.axes |= axis_bit(one);
    }
    return kOk;
  }

  Status magnitude(uint64_t* out) {
    const char* const end = token_.text.data() + token_.text.size();
    const auto result = std::from_chars(token_.text.data(), end, *out);
    if (token_.kind != TokenKind::kNumber || result.ec != std::errc() || result.ptr != end) {
      return expected("an integer");
    }
    move();
    return kOk;
  }
  Status integer(int64_t* out) {
    const bool negative = accept("-");
    const Token number = token_;
    uint64_t size = 0;
    ASTER_TRY(magnitude(&size));
    if (size > static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0)) {
      token_ = number;
      return expected("an integer of 64 bits");
    }
    *out = static_cast<int64_t>(negative ? 0 - size : size);
    return kOk;
  }
  Status word() {
    int64_t value = 0;
    ASTER_TRY(integer(&value));
    return words_.push(value);
  }
  Status constant() {
    if (!dtype::is_float(in_.dtype)) return whole_constant();
    const bool negative = accept("-");
    double value = 0;
    const bool number = token_.kind == TokenKind::kNumber || token_.kind == TokenKind::kName;
    if (!number || !parse_double(&value, token_.text)) return expected("a number");
    move();
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
    const Word word = std::bit_cast<Word>(negative ? -value : value);
    const Word exact = uop::convert_word(word, DType::kFloat64, in_.dtype);
    return words_.push(std::isnan(value) ? kNaN : exact);
  }
  Status whole_constant() {
    const Token number = token_;
    if (in_.dtype == DType::kUInt64) {
      uint64_t value = 0;
      ASTER_TRY(magnitude(&value));
      return words_.push(static_cast<Word>(value));
    }
    ASTER_TRY(word());
    const Word value = words_.back();
    const Word exact =
        in_.dtype == DType::kBool ? (value != 0) : dtype::truncate_int(in_.dtype, value);
    if (value == exact) return kOk;
    token_ = number;
    return expected("a number that the type holds");
  }
  Status operand() {
    if (token_.kind != TokenKind::kValue) return expected("a value");
    Id id = 0;
    ASTER_TRY(known(&id));
    return operands_.push(id);
  }
  Status known(Id* out) {
    uint64_t number = 0;
    ASTER_TRY(label_number(&number, token_));
    const Id* found = labels_.find(number);
    if (found == nullptr) return expected("a value that stands before");
    *out = *found;
    move();
    return kOk;
  }
  // One product of a form: 8*v, %3, u, 12.
  Status product(bool negative) {
    Term term;
    const Token at_number = token_;
    uint64_t size = 1;
    if (token_.kind == TokenKind::kNumber) ASTER_TRY(magnitude(&size));
    if (size > static_cast<uint64_t>(INT64_MAX)) {
      token_ = at_number;
      return expected("an integer of 63 bits");
    }
    term.factor = negative ? -static_cast<int64_t>(size) : static_cast<int64_t>(size);
    if (at_number.kind == TokenKind::kNumber && !accept("*")) {
      if (!checked_add(in_.constant, term.factor, &in_.constant)) return expected("a smaller form");
      return kOk;
    }
    if (token_.kind == TokenKind::kValue) {
      ASTER_TRY(known(&term.at));
    } else {
      uint8_t one = 0;
      ASTER_TRY(axis(&one));
      term.at = one;
      term.axis = true;
    }
    return terms_.push(term);
  }
  Status sum() {
    for (;;) {
      const bool minus = at("-");
      if (!minus && !at("+")) return kOk;
      move();
      ASTER_TRY(product(minus));
    }
  }
  Status elements() {
    ASTER_TRY(expect("[", "["));
    ASTER_TRY(product(accept("-")));
    ASTER_TRY(sum());
    return expect("]", "]");
  }

  Status argument(char letter) {
    switch (letter) {
      case 'o':
        return operand();
      case 'i':
        if (token_.kind == TokenKind::kValue) return operand();
        in_.flags |= kImmediate;
        return constant();
      case 'n':
        return word();
      case 'c':
        return constant();
      case 'w':
        return table();
      case 's':
        while (token_.kind == TokenKind::kNumber) ASTER_TRY(word());
        return kOk;
      case 'a':
        return axis(&in_.axis);
      case 't':
        ASTER_TRY(axis(&in_.axis));
        ASTER_TRY(expect("->", "->"));
        return axis(&in_.to);
      case 'm':
        ASTER_TRY(operand());
        return sum();
      case 'v':
        ASTER_TRY(expect(",", ","));
        return operand();
      case 'x':
        return limits();
      case 'k':
        if (accept("write")) in_.flags |= kWrite;
        return kOk;
      default:
        return special(letter);
    }
  }
  Status special(char letter) {
    switch (letter) {
      case 'p':
        return param();
      case 'r':
        return array();
      case 'l':
        return loop();
      case 'b':
        return space();
      default:
        return call();
    }
  }
  Status table() {
    int64_t count = 0;
    ASTER_TRY(expect("[", "["));
    ASTER_TRY(integer(&count));
    ASTER_TRY(expect("]", "]"));
    if (count < 0 || count > kTableBytes) return expected("a smaller table");
    for (int64_t i = 0; i < count; ++i) ASTER_TRY(constant());
    return kOk;
  }
  Status limits() {
    const struct {
      const char* name;
      Flag flag;
    } kOperands[] = {{"at", kIndexed}, {"gate", kGated}, {"mask", kMasked}};
    for (const auto& [name, flag] : kOperands) {
      if (!accept(name)) continue;
      ASTER_TRY(operand());
      in_.flags |= flag;
    }
    uint8_t lanes = in_.lanes;
    if (in_.op != Op::kLoad && operands_.size() > 1) lanes = program_->at(operands_[1]).lanes;
    int64_t step = 1, first = lanes;
    if (accept("step")) ASTER_TRY(integer(&step));
    if (accept("first")) ASTER_TRY(integer(&first));
    if (accept("keep")) in_.flags |= kKeep;
    if (accept("stream")) in_.flags |= kStream;
    ASTER_TRY(words_.push(step));
    return words_.push(first);
  }
  Status param() {
    ASTER_TRY(word());
    if (accept("from")) {
      in_.flags |= kSize;
      ASTER_TRY(word());
      ASTER_TRY(expect("to", "to"));
      ASTER_TRY(word());
      if (accept("by")) return word();
      return words_.push(1);
    }
    if (!at("[")) {
      in_.flags |= kArgument;
      return kOk;
    }
    ASTER_TRY(elements());
    if (accept("write")) in_.flags |= kWrite;
    if (accept("atomic")) in_.flags |= kAtomic;
    return kOk;
  }
  Status space() {
    for (size_t i = 0; space_name(i) != nullptr; ++i) {
      if (accept(space_name(i))) return in_.kind = static_cast<uint8_t>(i), kOk;
    }
    return expected("private, scratch, local or global");
  }
  Status array() {
    ASTER_TRY(elements());
    ASTER_TRY(space());
    if (accept("slack")) return word();
    return words_.push(0);
  }
  Status loop_kind() {
    for (size_t i = 0; loop_name(i) != nullptr; ++i) {
      if (!accept(loop_name(i))) continue;
      in_.kind = static_cast<uint8_t>(i);
      if (i < 2) return kOk;
      const LoopKind zero = i == 2 ? LoopKind::kGroup0 : LoopKind::kLocal0;
      const Token number = token_;
      int64_t dimension = 0;
      ASTER_TRY(integer(&dimension));
      in_.kind = static_cast<uint8_t>(static_cast<int64_t>(zero) + dimension);
      if (dimension >= 0 && dimension <= 2) return kOk;
      token_ = number;
      return expected("0, 1 or 2");
    }
    return kOk;
  }
  Status loop() {
    in_.dtype = DType::kInt64;
    if (accept("i32")) in_.dtype = DType::kInt32;
    ASTER_TRY(loop_kind());
    for (const Flag flag : {kImmediate, kImmediateHigh}) {
      if (token_.kind == TokenKind::kValue) {
        ASTER_TRY(operand());
        ASTER_TRY(words_.push(0));
      } else {
        in_.flags |= flag;
        ASTER_TRY(word());
      }
    }
    return word();
  }
  Status call() {
    const size_t found = find_program(token_.text);
    if (token_.kind != TokenKind::kName || found == module_.programs.size() ||
        !module_.programs[found].function) {
      return expected("a function that stands before");
    }
    ASTER_TRY(words_.push(static_cast<Word>(found)));
    move();
    while (token_.kind == TokenKind::kValue) ASTER_TRY(operand());
    return kOk;
  }

  static constexpr Word kNaN = 0x7ff8000000000000;
  Module& module_;
  Program* program_ = nullptr;
  Map<uint64_t, Id> labels_;
  Instruction in_;
  Vec<Id> operands_;
  Vec<Word> words_;
  Vec<Term> terms_;
};

}  // namespace

Status read(Module* out, std::string_view text) {
  const size_t had = out->programs.size();
  const Status status = Reader(out, text).run();
  if (!status.ok()) out->programs.truncate(had);
  return status;
}

}  // namespace aster::codegen::program
