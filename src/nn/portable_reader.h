// The text of a portable program, line by line. Nothing of what is read is trusted.
#pragma once

#include <algorithm>
#include <charconv>

#include "base/checked.h"
#include "base/utf8.h"
#include "engine/indexing.h"
#include "engine/recording.h"
#include "nn/portable.h"
#include "tensor/api.h"
#include "uop/print.h"
#include "uop/raw.h"
#include "uop/verify.h"

namespace aster::nn::portable {

using engine::need;
using uop::Op;

enum class Form : uint8_t { kInput, kConstant, kState, kVariable, kOperation };

// One line of a program.
struct Line {
  explicit Line(Memory& memory) : sources(memory), arguments(memory), bytes(memory), text(memory) {}
  Form form = Form::kOperation;
  std::string_view name;
  dtype::DType dtype = dtype::DType::kNone;
  uop::Dims shape;
  Vec<Node> sources;
  Vec<int64_t> arguments;
  bool inlined = false;  // its bytes stand in the line
  uint64_t offset = 0;   // else: into the data
  Vec<uint8_t> bytes;
  Text text;  // a name
  // Of a variable: from, to, what it is in runs that are given none.
  int64_t least = 0, most = 0, value = 0;
  bool fixed = false;  // the program is for this value alone

  // For the next line, in the same room.
  void reset() {
    shape = uop::Dims();
    sources.clear();
    arguments.clear();
    bytes.clear();
    text = Text(sources.memory());
    inlined = fixed = false;
  }
};

// What is made of what is read. Functions that are null make nothing.
struct Maker {
  void* self = nullptr;
  Status (*leaf)(void* self, Node* out, const Line& line) = nullptr;
  // A variable: the memory that tensors are computed from, and what sizes are made of.
  Status (*variable)(void* self, Node* memory, Node* expression, Line& line) = nullptr;
  // A realize call of a capture: roots become what it made.
  Status (*step)(void* self, const Vec<Node>& inputs, std::span<Node> roots) = nullptr;
};

class Reader {
 public:
  Reader(std::string_view text, uop::Graph& graph, const Maker& maker, bool buffers)
      : text_(text),
        g_(graph),
        maker_(maker),
        buffers_(buffers),
        variables_(graph.memory()),
        room_(graph.memory()),
        nodes(graph.memory()),
        inputs(graph.memory()),
        outputs(graph.memory()),
        input_names(graph.memory()),
        output_names(graph.memory()),
        side(graph.memory()),
        symbolic(graph.memory()),
        expressions(graph.memory()),
        conditions(graph.memory()) {}

  Status run() {
    ASTER_TRY(first_line());
    while (true) {
      if (!next_line()) return fail("the line \"end\"");
      if (line_ == "end") break;
      ASTER_TRY(statement());
    }
    if (!text_.empty()) return fail("nothing behind the end");
    if (outputs.empty() && !stepped_) return ASTER_FAIL(kFORMAT, "a program without outputs");
    return kOk;
  }
  // The lines before the first node alone.
  Status run_head() {
    ASTER_TRY(first_line());
    while (next_line() && line_.starts_with("data ")) ASTER_TRY(statement());
    return kOk;
  }

 private:
  Status fail(const char* wanted) const {
    return ASTER_FAIL(kFORMAT, "line %zu of a program: %s is expected", number_, wanted);
  }
  // A failure of what a line asks for, with its number.
  Status failed(Status status) const {
    if (status.ok() || status.code == ASTER_ML_MEMORY) return status;
    aster_ml_error error;
    aster_ml_error_last(&error);
    return ASTER_FAIL(kFORMAT, "line %zu of a program: %s", number_, error.message);
  }
  bool next_line() {
    if (text_.empty()) return false;
    const size_t end = text_.find('\n');
    if (end == std::string_view::npos) return false;
    line_ = std::string_view(text_.data(), end);
    text_.remove_prefix(end + 1);
    ++number_;
    return true;
  }
  bool take(std::string_view prefix) {
    if (!line_.starts_with(prefix)) return false;
    line_.remove_prefix(prefix.size());
    return true;
  }
  template <typename T>
  bool take_number(T* out) {
    const auto [end, error] = std::from_chars(line_.data(), line_.data() + line_.size(), *out);
    if (error != std::errc() || end == line_.data()) return false;
    line_.remove_prefix(static_cast<size_t>(end - line_.data()));
    return true;
  }
  std::string_view take_word() {
    size_t end = 0;
    while (end < line_.size() && line_[end] != ' ' && line_[end] != '[') ++end;
    const std::string_view word(line_.data(), end);
    line_.remove_prefix(end);
    return word;
  }

  Status first_line() {
    uint32_t opset = 0;
    if (!next_line() || !take(kFirstLine) || !take_number(&version_) || !take(" opset ") ||
        !take_number(&opset) || !line_.empty())
      return ASTER_FAIL(kFORMAT, "no program: its first line is \"aster VERSION opset OPSET\"");
    if (version_ > kVersion || opset > kOpset) {
      return ASTER_FAIL(kUNSUPPORTED,
                        "a program of version %u with opset %u: this library reads up to %u and %u",
                        version_, opset, kVersion, kOpset);
    }
    return version_ == 0 || opset == 0 ? fail("a version and an opset from 1 on") : kOk;
  }

  Status statement() {
    if (take("note ")) return kOk;  // what later versions may say, and nobody has to know
    if (take("data ")) {
      if (!nodes.empty() || !side.view().empty()) return fail("data before all nodes, and once");
      ASTER_TRY(quoted(&side));
      return line_.empty() ? kOk : fail("the end of the line");
    }
    if (take("output ")) return output();
    if (version_ < 2) return definition();
    if (take("realize")) return step();
    if (take("sizes ")) return sizes();
    if (take("require ")) return require();
    return definition();
  }

  Status step() {
    Vec<uint32_t> at(g_.memory());
    Vec<Node> roots(g_.memory());
    while (take(" %")) {
      uint32_t number = 0;
      if (!take_number(&number) || number >= nodes.size()) return fail("a node above");
      if (nodes[number]->dtype == dtype::DType::kNone || dtype::is_weak(nodes[number]->dtype))
        return fail("a value of a dtype that is stored");
      ASTER_TRY(at.push(number));
      ASTER_TRY(roots.push(nodes[number]));
    }
    if (roots.empty() || !line_.empty()) return fail("the nodes of a realize call");
    if (maker_.step != nullptr)
      ASTER_TRY(maker_.step(maker_.self, inputs, {roots.data(), roots.size()}));
    for (size_t i = 0; i < at.size(); ++i) nodes[at[i]] = roots[i];
    stepped_ = true;
    return kOk;
  }

  // Expressions: a number, the name of a variable, or an operation on others.
  Status sizes() {
    const bool input = take("input ");
    size_t index = 0;
    if ((!input && !take("output ")) || !take_number(&index) || !take(" ("))
      return fail("\"input N (\" or \"output N (\"");
    const Vec<Node>& arrays = nodes_of(input);
    if (index >= arrays.size()) return fail("an array above");
    for (const Sizes& other : symbolic) {
      if (other.input == input && other.index == index) return fail("the sizes of an array once");
    }
    ASTER_TRY(symbolic.push(Sizes{input, index, expressions.size()}));
    do {
      Node size = nullptr;
      ASTER_TRY(expression(&size, 0));
      ASTER_TRY(expressions.push(size));
    } while (take(", "));
    const bool all = expressions.size() - symbolic.back().first == arrays[index]->ndim;
    return take(")") && line_.empty() && all ? kOk : fail("an expression an axis");
  }
  Status require() {
    Node a = nullptr, b = nullptr;
    ASTER_TRY(expression(&a, 0));
    if (!take(" <= ")) return fail("\" <= \"");
    ASTER_TRY(expression(&b, 0));
    if (!line_.empty()) return fail("the end of the line");
    return conditions.push(engine::Assumption{a, b});
  }
  Status expression(Node* out, int depth) {
    int64_t number = 0;
    if (depth > kDeepest) return fail("an expression that is not so deep");
    if (take_number(&number)) {
      *out = g_.index(number);
      return need(*out);
    }
    if (line_.starts_with("\"")) {
      Text name(g_.memory());
      ASTER_TRY(quoted(&name));
      for (const Variable& each : variables_) {
        if (each.name.view() == name.view()) return *out = each.expression, kOk;
      }
      return fail("a variable above");
    }
    size_t end = 0;
    while (end < line_.size() && line_[end] != '(') ++end;
    uop::FullName name;
    if (!uop::parse_full_name(&name, line_.substr(0, end)) || !uop::is_alu(name.op))
      return fail("an expression of variables");
    line_.remove_prefix(end);
    std::array<Node, 3> sources{};
    const auto count = static_cast<size_t>(uop::info(name.op).sources);
    if (count > sources.size()) return fail("an expression of variables");
    for (size_t i = 0; i < count; ++i) {
      if (!take(i == 0 ? "(" : ", ")) return fail("an operand");
      ASTER_TRY(expression(&sources[i], depth + 1));
    }
    if (!take(")")) return fail(")");
    *out = g_.alu(name.op, Nodes(sources.data(), count));
    return failed(need(*out));
  }

  Status quoted(Text* out) {
    if (!take("\"")) return fail("a name in quotes");
    while (!line_.empty() && line_[0] != '"') {
      char c = line_[0];
      if (c == '\\') {
        unsigned value = 0;
        if (line_.size() < 4 || line_[1] != 'x') return fail("\\xNN");
        const auto [end, error] = std::from_chars(line_.data() + 2, line_.data() + 4, value, 16);
        if (error != std::errc() || end != line_.data() + 4) return fail("\\xNN");
        c = static_cast<char>(value);
        line_.remove_prefix(3);
      }
      *out << c;
      line_.remove_prefix(1);
    }
    ASTER_TRY(out->status());
    if (!take("\"")) return fail("a quote");
    if (out->view().empty() || !is_utf8(out->view())) return fail("a name of UTF-8");
    return kOk;
  }
  Status add_name(Vec<Text>* names, Text&& name) {
    for (const Text& other : *names) {
      if (other.view() == name.view()) return fail("a name of its own");
    }
    return names->push(std::move(name));
  }

  Status output() {
    Node node = nullptr;
    ASTER_TRY(source(&node));
    if (!take(" ")) return fail("a name");
    if (node->dtype == dtype::DType::kNone || dtype::is_weak(node->dtype))
      return fail("a value of a dtype that is stored");
    Text name(g_.memory());
    ASTER_TRY(quoted(&name));
    if (!line_.empty()) return fail("the end of the line");
    ASTER_TRY(add_name(&output_names, std::move(name)));
    return outputs.push(node);
  }
  Status source(Node* out) {
    uint32_t at = 0;
    if (!take("%") || !take_number(&at) || at >= nodes.size()) return fail("a node above");
    *out = nodes[at];
    return kOk;
  }

  Status definition() {
    uint32_t at = 0;
    if (!take("%") || !take_number(&at) || at != nodes.size() || !take(" = "))
      return fail("\"%N = \" with the next number");
    if (nodes.size() == kMostNodes) return fail("fewer nodes");
    Line& line = room_;
    line.reset();
    line.name = take_word();
    line.form = line.name == "Input"      ? Form::kInput
                : line.name == "Constant" ? Form::kConstant
                : line.name == "State"    ? Form::kState
                                          : Form::kOperation;
    if (version_ > 1 && line.name == "Variable") line.form = Form::kVariable;
    ASTER_TRY(type(&line));
    Node node = nullptr;
    if (line.form == Form::kVariable) {
      ASTER_TRY(variable(&node, &line));
    } else if (line.form == Form::kOperation) {
      ASTER_TRY(operands(&line));
      ASTER_TRY(operation(&node, line));
    } else {
      if (stepped_ && line.form == Form::kInput) return fail("inputs before what is realised");
      ASTER_TRY(memory(&line));
      ASTER_TRY(failed(maker_.leaf(maker_.self, &node, line)));
      if (line.form == Form::kInput) {
        ASTER_TRY(add_name(&input_names, std::move(line.text)));
        ASTER_TRY(inputs.push(node));
      }
    }
    return nodes.push(node);
  }
  Status type(Line* line) {
    if (!take(" ")) return fail("a dtype");
    const std::string_view name = take_word();
    if (name != dtype_name_) {
      if (!dtype::from_name(&dtype_, name).ok() || name != dtype::name(dtype_))
        return dtype_name_ = {}, fail("a dtype");
      dtype_name_ = name;
    }
    line->dtype = dtype_;
    if (take("[")) {
      do {
        int64_t dim = 0;
        if (!take_number(&dim) || dim < 0 || line->shape.size() == uop::Dims::kMost)
          return fail("a size");
        line->shape.push(dim);
      } while (take(", "));
      if (!take("]")) return fail("]");
    }
    int64_t count = 0;
    return uop::count_elements(line->shape, &count) ? kOk : fail("a shape that is not too large");
  }
  Status operands(Line* line) {
    while (take(" %")) {
      uint32_t at = 0;
      if (!take_number(&at) || at >= nodes.size()) return fail("a node above");
      ASTER_TRY(line->sources.push(nodes[at]));
    }
    if (take(" (")) {
      do {
        int64_t word = 0;
        if (!take_number(&word)) return fail("an argument");
        ASTER_TRY(line->arguments.push(word));
      } while (take(", "));
      if (!take(")")) return fail(")");
    }
    return line_.empty() ? kOk : fail("the end of the line");
  }
  Status variable(Node* out, Line* line) {
    if (line->shape.size() != 0 ||
        (line->dtype != dtype::DType::kInt32 && line->dtype != dtype::DType::kInt64))
      return fail("a scalar of int32 or int64");
    if (!take(" ")) return fail("a name");
    ASTER_TRY(quoted(&line->text));
    for (const Variable& each : variables_) {
      if (each.name.view() == line->text.view()) return fail("a name of its own");
    }
    if (!take(" (") || !take_number(&line->least) || !take(", ") || !take_number(&line->most) ||
        !take(", ") || !take_number(&line->value))
      return fail("bounds and a value");
    line->fixed = take(", 1");
    if (!take(")") || !line_.empty()) return fail("the end of the line");
    const bool wide = line->least < INT32_MIN || line->most > INT32_MAX;
    const auto dtype = wide ? dtype::DType::kInt64 : dtype::DType::kInt32;
    int64_t count = 0;
    if (line->least > line->value || line->value > line->most || dtype != line->dtype ||
        !checked_sub(line->most, line->least, &count) || !checked_add(count, int64_t{1}, &count))
      return fail("a value within bounds that the dtype holds");
    Node expression = nullptr;
    ASTER_TRY(failed(maker_.variable(maker_.self, out, &expression, *line)));
    ASTER_TRY(need(*out));
    return variables_.push(Variable{std::move(line->text), expression});
  }
  // What stands behind the shape of a leaf: a name, or where its bytes are.
  Status memory(Line* line) {
    if (dtype::is_weak(line->dtype)) return fail("a dtype that is stored");
    if (!take(" ")) return fail("a name, an offset or bytes");
    if (line->form == Form::kInput) {
      ASTER_TRY(quoted(&line->text));
      return line_.empty() ? kOk : fail("the end of the line");
    }
    if (version_ > 1 && line_.starts_with("\"")) {
      ASTER_TRY(quoted(&line->text));
      if (!take(" ")) return fail("an offset or bytes");
    }
    if (take("@")) {
      if (!take_number(&line->offset)) return fail("an offset");
    } else if (take("#")) {
      line->inlined = true;
      ASTER_TRY(digits(line));
    } else {
      return fail("an offset or bytes");
    }
    return line_.empty() ? kOk : fail("the end of the line");
  }
  Status digits(Line* line) {
    ASTER_TRY(line->bytes.reserve(line_.size() / 2));
    const auto value = [](char c) {
      return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    while (line_.size() >= 2 && value(line_[0]) >= 0 && value(line_[1]) >= 0) {
      ASTER_TRY(line->bytes.push(static_cast<uint8_t>(value(line_[0]) * 16 + value(line_[1]))));
      line_.remove_prefix(2);
    }
    return kOk;
  }

  // A program has few operations, again and again. Null: there is none of the name.
  const uop::FullName* known_name(std::string_view name) {
    size_t hash = name.size();
    for (const char c : name) hash = hash * 31 + static_cast<unsigned char>(c);
    Known& known = known_[hash % known_.size()];
    if (known.text == name && !name.empty()) return &known.name;
    if (!uop::parse_full_name(&known.name, name)) return known.text = {}, nullptr;
    known.text = name;
    return &known.name;
  }

  Status operation(Node* out, const Line& line) {
    uop::RawNode raw;
    raw.name = line.name;
    raw.parsed = known_name(line.name);
    raw.dtype = line.dtype;
    raw.sources = {line.sources.data(), line.sources.size()};
    raw.arguments = {line.arguments.data(), line.arguments.size()};
    raw.shape = line.shape;
    ASTER_TRY(failed(uop::build_raw(out, g_, raw)));
    if ((*out)->op == Op::kParam && line.name == "Param") return fail("an operation of tensors");
    const bool same = (*out)->dtype == line.dtype && std::ranges::equal((*out)->shape(), raw.shape);
    if (!same) return fail(uop::brief(*out).text);
    // Params stand for memory where nothing is made of it.
    if (!buffers_ && ((*out)->op == Op::kParam || (*out)->op == Op::kAssign)) {
      const char* fault = uop::find_fault(*out, uop::Level::kTensor);
      if (fault != nullptr) return fail(fault);
      return (*out)->op == Op::kAssign ? assigns(*out) : kOk;
    }
    return failed(tensor::check_outside(*out));
  }
  // A write goes to an input or to state, in the form of a view of it.
  Status assigns(Node node) const {
    Node target = node->src(0);
    while (target->op == Op::kReshape || target->op == Op::kPermute || target->op == Op::kFlip ||
           target->op == Op::kSlice || target->op == Op::kAssign || target->op == Op::kAfter) {
      target = target->src(0);
    }
    return target->op == Op::kParam ? kOk : fail("memory to assign to");
  }

  struct Variable {
    Text name;
    Node expression;
  };
  struct Known {
    std::string_view text;
    uop::FullName name;
  };

  std::string_view text_, line_;
  uop::Graph& g_;
  Maker maker_;
  bool buffers_, stepped_ = false;
  size_t number_ = 0;
  uint32_t version_ = 0;
  Vec<Variable> variables_;
  Line room_;
  std::array<Known, 64> known_ = {};
  std::string_view dtype_name_;
  dtype::DType dtype_ = dtype::DType::kNone;

 public:
  // The symbolic sizes of an input or output: expressions from first on, one an axis.
  struct Sizes {
    bool input;
    size_t index, first;
  };
  bool has_variables() const { return !variables_.empty(); }
  const Vec<Node>& nodes_of(bool input) const { return input ? inputs : outputs; }
  Vec<Node> nodes, inputs, outputs;
  Vec<Text> input_names, output_names;
  Text side;
  Vec<Sizes> symbolic;
  Vec<Node> expressions;
  Vec<engine::Assumption> conditions;
};

}  // namespace aster::nn::portable
