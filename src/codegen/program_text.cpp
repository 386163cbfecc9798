// Programs as text. One table says how each instruction is written; printer and reader go
// along the same pattern:
//
//   o  an operand           i  an operand or a number   n  an integer          c  a constant
//   w  [n] and constants    s  lanes of a shuffle       a  an axis             t  axis->axis
//   m  memory and form      v  , value                  x  what limits access  k  write
//   p  Param                r  Array                    l  Loop                b  Barrier
//   f  function, operands
#include "codegen/program_text.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace aster::codegen::program {
namespace {

struct Row {
  Op op;
  Syntax syntax;
};
// clang-format off
constexpr Row kRows[] = {
    {Op::kConst,    {"c",   true,  true,  false}},
    {Op::kTable,    {"w",   true,  true,  false}},
    {Op::kParam,    {"p",   true,  true,  false}},
    {Op::kArray,    {"r",   true,  true,  false}},
    {Op::kAxis,     {"a",   true,  true,  true}},
    {Op::kLanes,    {"",    true,  true,  false}},
    {Op::kLoop,     {"l",   true,  false, false}},
    {Op::kEach,     {"a",   false, false, false}},
    {Op::kIf,       {"o",   false, false, false}},
    {Op::kEnd,      {"",    false, false, false}},
    {Op::kBarrier,  {"b",   false, false, false}},
    {Op::kAcc,      {"i",   true,  true,  true}},
    {Op::kSet,      {"oo",  false, false, false}},
    {Op::kLoad,     {"mx",  true,  true,  true}},
    {Op::kStore,    {"mvx", false, false, true}},
    {Op::kAtomic,   {"mvx", false, false, true}},
    {Op::kPrefetch, {"mk",  false, false, true}},
    {Op::kSpread,   {"o",   true,  true,  true}},
    {Op::kLane,     {"on",  true,  true,  true}},
    {Op::kShuffle,  {"oos", true,  true,  true}},
    {Op::kTurn,     {"ot",  true,  true,  true}},
    {Op::kZip,      {"ot",  true,  true,  true}},
    {Op::kJoin,     {"oa",  true,  true,  true}},
    {Op::kAcross,   {"o",   true,  true,  true}},
    {Op::kCast,     {"o",   true,  true,  true}},
    {Op::kBitcast,  {"o",   true,  true,  true}},
    {Op::kToInt,    {"o",   true,  true,  true}},
    {Op::kCall,     {"f",   true,  true,  true}},
    {Op::kResult,   {"o",   false, false, false}},
};
struct TypeName {
  DType dtype;
  const char* name;
};
constexpr TypeName kTypes[] = {
    {DType::kBool, "bool"},           {DType::kInt8, "i8"},         {DType::kUInt8, "u8"},
    {DType::kInt16, "i16"},           {DType::kUInt16, "u16"},      {DType::kInt32, "i32"},
    {DType::kUInt32, "u32"},          {DType::kInt64, "i64"},       {DType::kUInt64, "u64"},
    {DType::kFp8E4M3, "e4m3"},        {DType::kFp8E4M3Fnuz, "e4m3z"},
    {DType::kFp8E5M2, "e5m2"},        {DType::kFp8E5M2Fnuz, "e5m2z"},
    {DType::kFloat16, "f16"},         {DType::kBFloat16, "bf16"},
    {DType::kFloat32, "f32"},         {DType::kFloat64, "f64"},
};
// clang-format on
constexpr const char* kLoopNames[] = {"serial", "task", "group", "local"};
constexpr const char* kSpaceNames[] = {"private", "scratch", "local", "global"};
constexpr const char* kOperandPatterns[] = {"", "o", "oo", "ooo"};

// ---- Printing ----

class Printer {
 public:
  Printer(Text& out, const Module& module, const Program& program)
      : out_(out), module_(module), program_(program), numbers_(out.memory()) {}

  Status run() {
    ASTER_TRY(numbers_.resize(program_.code().size(), 0));
    out_ << (program_.function ? "function " : "program ") << program_.name << "\n";
    bool first = true;
    for (const Axis& axis : program_.axes()) {
      out_ << (first ? "axis " : ", ") << axis.name << " " << int32_t{axis.size};
      first = false;
    }
    if (!first) out_ << "\n";
    uint32_t next = 0;
    int depth = 0;
    for (size_t i = 0; i < program_.code().size(); ++i) {
      const Instruction& in = program_.code()[i];
      if (has_value(in.op)) numbers_[i] = next++;
      depth = std::max(0, depth - (in.op == Op::kEnd ? 1 : 0));
      for (int d = 0; d < depth; ++d) out_ << "  ";
      instruction(in, numbers_[i]);
      out_ << "\n";
      if (is_block(in.op)) ++depth;
    }
    return out_.status();
  }

 private:
  void instruction(const Instruction& in, uint32_t number) {
    const Syntax syntax = syntax_of(in.op);
    if (syntax.value) out_ << "%" << number << " = ";
    out_ << uop::info(in.op).name;
    if (combines(in.op)) out_ << ":" << uop::info(in.with).name;
    if (syntax.type) type(in);
    if (syntax.axes && in.axes != 0) {
      bool first = true;
      for (size_t i = 0; i < program_.axes().size(); ++i) {
        if (!has(in.axes, i)) continue;
        out_ << (first ? " {" : " ") << program_.axes()[i].name;
        first = false;
      }
      out_ << "}";
    }
    operand_ = 0;
    for (const char* letter = syntax.pattern; *letter != '\0'; ++letter) argument(in, *letter);
  }
  void type(const Instruction& in) {
    out_ << " " << type_name(in.dtype);
    if (in.lanes == kAnyLanes) out_ << "xn";
    if (in.lanes > 1) out_ << "x" << int32_t{in.lanes};
  }
  void operand(const Instruction& in) {
    out_ << " %" << numbers_[program_.operands(in)[operand_++]];
  }
  void argument(const Instruction& in, char letter) {
    const Words words = program_.words(in);
    if (letter == 'o') operand(in);
    if (letter == 'i' && in.is(kImmediate)) constant(in.dtype, words[0]);
    if (letter == 'i' && !in.is(kImmediate)) operand(in);
    if (letter == 'n') out_ << " " << words[0];
    if (letter == 'c') constant(in.dtype, words[0]);
    if (letter == 'w') out_ << " [" << words.size() << "]";
    for (Word word : letter == 'w' ? words : Words{}) constant(in.dtype, word);
    for (Word word : letter == 's' ? words : Words{}) out_ << " " << word;
    if (letter == 'a') out_ << " " << axis(in.axis);
    if (letter == 't') out_ << " " << axis(in.axis) << "->" << axis(in.to);
    if (letter == 'm') operand(in), form(in, false);
    if (letter == 'v') out_ << ",", operand(in);
    if (letter == 'x') limits(in);
    if (letter == 'k' && in.is(kWrite)) out_ << " write";
    if (letter == 'p') param(in);
    if (letter == 'r') array(in);
    if (letter == 'l') loop(in);
    if (letter == 'b') out_ << " " << kSpaceNames[in.kind];
    if (letter == 'f') {
      out_ << " " << module_.programs[static_cast<size_t>(words[0])].name;
      while (operand_ < in.operands) operand(in);
    }
  }
  const char* axis(size_t i) const { return program_.axes()[i].name; }

  void constant(DType dtype, Word word) {
    if (dtype == DType::kUInt64) {
      out_ << " " << static_cast<uint64_t>(word);
    } else if (!dtype::is_float(dtype)) {
      out_ << " " << word;
    } else if (const double value = std::bit_cast<double>(word); std::isfinite(value)) {
      out_.format(" %.17g", value);
    } else {
      out_ << (std::isnan(value) ? " nan" : value > 0 ? " inf" : " -inf");
    }
  }
  // Behind something, or alone.
  void form(const Instruction& in, bool first) {
    const auto sign = [&](int64_t value) {
      if (first) {
        if (value < 0) out_ << "-";
      } else {
        out_ << (value < 0 ? " - " : " + ");
      }
      first = false;
      return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    };
    for (const Term& term : program_.terms(in)) {
      if (const uint64_t size = sign(term.factor); size != 1) out_ << size << "*";
      if (term.axis) {
        out_ << axis(term.at);
      } else {
        out_ << "%" << numbers_[term.at];
      }
    }
    if (in.constant != 0 || first) out_ << sign(in.constant);
  }
  void limits(const Instruction& in) {
    const Access access = program_.access(in);
    if (access.index != kNone) out_ << " at", operand(in);
    if (access.gate != kNone) out_ << " gate", operand(in);
    if (access.mask != kNone) out_ << " mask", operand(in);
    if (access.step != 1) out_ << " step " << access.step;
    if (access.first != in.lanes) out_ << " first " << access.first;
    if (in.is(kKeep)) out_ << " keep";
    if (in.is(kStream)) out_ << " stream";
  }
  void param(const Instruction& in) {
    const Words words = program_.words(in);
    out_ << " " << words[0];
    if (in.is(kSize)) {
      out_ << " from " << words[1] << " to " << words[2];
      if (words[3] != 1) out_ << " by " << words[3];
    } else if (!in.is(kArgument)) {
      out_ << " [";
      form(in, true);
      out_ << "]" << (in.is(kWrite) ? " write" : "") << (in.is(kAtomic) ? " atomic" : "");
    }
  }
  void array(const Instruction& in) {
    out_ << " [";
    form(in, true);
    out_ << "] " << kSpaceNames[in.kind];
    if (program_.words(in)[0] != 0) out_ << " slack " << program_.words(in)[0];
  }
  void loop(const Instruction& in) {
    if (in.dtype == DType::kInt32) out_ << " i32";
    const LoopKind kind = static_cast<LoopKind>(in.kind);
    const auto number = [&](LoopKind zero) {
      return static_cast<int32_t>(in.kind) - static_cast<int32_t>(zero);
    };
    if (kind == LoopKind::kTask) out_ << " task";
    if (is_local(kind)) {
      out_ << " local " << number(LoopKind::kLocal0);
    } else if (kind >= LoopKind::kGroup0) {
      out_ << " group " << number(LoopKind::kGroup0);
    }
    const Words words = program_.words(in);
    for (size_t i = 0; i < 2; ++i) {
      if (in.is(i == 0 ? kImmediate : kImmediateHigh)) {
        out_ << " " << words[i];
      } else {
        operand(in);
      }
    }
    out_ << " " << words[2];
  }

  Text& out_;
  const Module& module_;
  const Program& program_;
  Vec<uint32_t> numbers_;
  size_t operand_ = 0;
};

}  // namespace

bool combines(Op op) { return op == Op::kAtomic || op == Op::kJoin || op == Op::kAcross; }

Syntax syntax_of(Op op) {
  for (const Row& row : kRows) {
    if (row.op == op) return row.syntax;
  }
  return {kOperandPatterns[std::clamp<int>(uop::info(op).sources, 0, 3)], true, true, true};
}

bool has_value(Op op) { return syntax_of(op).value; }

bool type_named(DType* out, std::string_view name) {
  for (const TypeName& row : kTypes) {
    if (name == row.name) return *out = row.dtype, true;
  }
  return false;
}

const char* loop_name(size_t i) { return i < std::size(kLoopNames) ? kLoopNames[i] : nullptr; }
const char* space_name(size_t i) { return i < std::size(kSpaceNames) ? kSpaceNames[i] : nullptr; }

const char* type_name(DType dtype) {
  for (const TypeName& row : kTypes) {
    if (row.dtype == dtype) return row.name;
  }
  return nullptr;
}

Status print(Text& out, const Module& module) {
  bool first = true;
  for (const Program& program : module.programs) {
    if (!first) out << "\n";
    first = false;
    ASTER_TRY(Printer(out, module, program).run());
  }
  return out.status();
}

}  // namespace aster::codegen::program
