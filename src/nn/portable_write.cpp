// Graphs as programs of the portable form.
#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "engine/indexing.h"
#include "engine/rangeify.h"
#include "engine/regions.h"
#include "nn/portable.h"
#include "tensor/api.h"
#include "uop/composite.h"
#include "uop/print.h"
#include "uop/raw.h"

namespace aster::nn::portable {

using engine::need;
using uop::Op;

uint64_t checksum(std::span<const uint8_t> bytes, uint64_t from) {
  uint64_t sum = from ^ bytes.size();
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 32;
  }
  return sum;
}

namespace {

// Operations of a composite that its name and attributes say in full; of others the body is
// written.
Status is_by_name(bool* out, uop::Graph& g, Node call) {
  Node again = nullptr;
  const SavedError before;
  *out = uop::build_raw_call(&again, g, uop::composite_of(call), call->src().subspan(1),
                             call->arg().subspan(1))
             .ok() &&
         again == call;
  before.restore();
  return kOk;
}

class Writer {
 public:
  Writer(Text& text, Vec<uint8_t>* data, engine::Engine& engine, const Boundary& boundary)
      : text_(text),
        data_(data),
        e_(engine),
        b_(boundary),
        nodes_(engine.context.heap()),
        roots_(engine.context.heap()),
        stack_(engine.context.heap()),
        numbers_(engine.context.heap()),
        cells_(engine.context.heap()),
        written_(engine.context.heap()) {}

  Status run(const char* side) {
    ASTER_TRY(roots_.append(b_.roots.data(), b_.roots.size()));
    ASTER_TRY(roots_.append(b_.outputs.data(), b_.outputs.size()));
    ASTER_TRY(find_cells());
    ASTER_TRY(name_calls());
    ASTER_TRY(check_leaves());
    text_ << kFirstLine << version_of(b_) << " opset " << kOpset << "\n";
    if (side != nullptr) {
      text_ << "data ";
      quote(side);
      text_ << "\n";
    }
    ASTER_TRY(write_inputs());
    size_t done = 0;
    for (const uint32_t end : b_.step_ends) {
      ASTER_TRY(write_below({roots_.data() + done, end - done}));
      ASTER_TRY(write_step({roots_.data() + done, end - done}));
      done = end;
    }
    const std::span<const Node> outputs(roots_.data() + b_.roots.size(), b_.outputs.size());
    ASTER_TRY(write_below(outputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      text_ << "output %" << numbers_.find(outputs[i])->number << " ";
      quote(b_.output_names[i].view());
      text_ << "\n";
    }
    ASTER_TRY(write_sizes());
    text_ << "end\n";
    return text_.status();
  }

 private:
  // The memory that a captured program's variables are read from.
  Status find_cells() {
    if (b_.captured == nullptr) return kOk;
    const engine::Program& program = *b_.captured;
    for (uint32_t i = 0; i < program.variables.size(); ++i) {
      const uint32_t input = program.variables[i].input;
      if (input != engine::ProgramVariable::kNone)
        ASTER_TRY(cells_.set(program.inputs[input].storage, i));
    }
    return kOk;
  }

  // Replaces composites that are not the library's own by their bodies.
  Status name_calls() {
    for (bool again = true; again;) {
      again = false;
      nodes_.clear();
      ASTER_TRY(engine::walk(&nodes_, {roots_.data(), roots_.size()}));
      Map<Node, Node> inlined(e_.context.heap());
      for (Node node : nodes_) {
        if (node->op != Op::kCall) continue;
        bool by_name = false;
        ASTER_TRY(is_by_name(&by_name, e_.graph, node));
        if (by_name) continue;
        Node body = nullptr;
        ASTER_TRY(uop::inline_call(&body, e_.graph, node));
        ASTER_TRY(inlined.set(node, body));
        break;  // what stands above it changes
      }
      if (inlined.empty()) continue;
      again = true;
      for (Node& root : roots_) ASTER_TRY(e_.graph.substitute(&root, root, inlined));
    }
    return kOk;
  }

  // Memory that is assigned, or an input, is known under one Buffer.
  Status check_leaves() {
    Vec<Node> leaves(e_.context.heap());
    for (Node node : nodes_) {
      if (node->op == Op::kBuffer) ASTER_TRY(leaves.push(node));
      if (node->op == Op::kForeign)
        return ASTER_FAIL(kUNSUPPORTED, "a kernel that is not the library's is in the program");
      if (node->op != Op::kAssign) continue;
      Node target = node->src(0);
      while (target->nsrc != 0) target = target->src(0);
      ASTER_TRY(written_.set(target, 1));
    }
    for (Node input : b_.inputs) {
      if (std::ranges::find(leaves, input) == leaves.end()) ASTER_TRY(leaves.push(input));
    }
    for (Node leaf : leaves) {
      const bool input = is_input(leaf);
      const bool cell = cells_.contains(engine::storage_of(leaf));
      if (!cell && e_.symbols.with_cell(engine::storage_of(leaf)) != engine::Symbols::kNone) {
        return ASTER_FAIL(kUNSUPPORTED,
                          "symbolic sizes outside of a captured program: capture what is saved");
      }
      if (!input && !written_.contains(leaf)) continue;
      for (Node other : leaves) {
        if (other == leaf || !engine::region_of(leaf).overlaps(engine::region_of(other))) continue;
        return ASTER_FAIL(kUNSUPPORTED, "%s %s is read as %s as well", uop::brief(leaf).text,
                          input ? "is an input and" : "is assigned and", uop::brief(other).text);
      }
    }
    return kOk;
  }
  bool is_input(Node node) const { return std::ranges::find(b_.inputs, node) != b_.inputs.end(); }
  const Text* name_of(Node buffer) const {
    for (const Named& each : b_.named) {
      if (each.buffer == buffer) return &each.name;
    }
    return nullptr;
  }

  // What stands for a node from here on; of a node of a step, only in this.
  Status number(Node node, bool kept) {
    return numbers_.set(node, Numbered{next_++, kept ? kKept : step_});
  }
  bool is_there(Node node) const {
    const Numbered* at = numbers_.find(node);
    return at != nullptr && (at->step == kKept || at->step == step_);
  }
  void begin(Node node, const char* name) {
    text_ << "%" << uint64_t{next_} << " = " << name << " " << dtype::name(node->dtype);
    if (node->ndim == 0) return;
    for (size_t i = 0; i < node->ndim; ++i) text_ << (i == 0 ? "[" : ", ") << node->dim(i);
    text_ << "]";
  }
  void quote(std::string_view text) {
    text_ << "\"";
    for (const char c : text) {
      const bool plain = static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\' && c != 127;
      if (plain) {
        text_ << c;
      } else {
        text_.format("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      }
    }
    text_ << "\"";
  }

  // Inputs first, in their order, used or not; then the variables.
  Status write_inputs() {
    for (size_t i = 0; i < b_.inputs.size(); ++i)
      ASTER_TRY(write_input(b_.inputs[i], b_.input_names[i].view()));
    size_t states = 0;
    for (Node node : nodes_) {
      if (!b_.state_inputs || !written_.contains(node) || is_input(node)) continue;
      Text name(e_.context.heap());
      if (const Text* given = name_of(node)) {
        name << given->view();
      } else {
        name << "state" << uint64_t{states};
      }
      ++states;
      ASTER_TRY(name.status());
      for (const Text& other : b_.input_names) {
        if (other.view() == name.view())
          return ASTER_FAIL(kARGUMENT, "state and an input are both named \"%s\"", name.c_str());
      }
      ASTER_TRY(write_input(node, name.view()));
    }
    if (b_.captured == nullptr) return text_.status();
    for (const engine::ProgramVariable& v : b_.captured->variables) {
      const bool wide = v.least < INT32_MIN || v.most > INT32_MAX;
      text_ << "%" << uint64_t{next_} << " = Variable " << (wide ? "int64" : "int32") << " ";
      quote(v.name.view());
      text_ << " (" << v.least << ", " << v.most << ", " << v.value << (v.seen ? ", 1)\n" : ")\n");
      if (v.input == engine::ProgramVariable::kNone) {
        ++next_;
        continue;
      }
      for (Node node : nodes_) {
        if (node->op == Op::kBuffer &&
            engine::storage_of(node) == b_.captured->inputs[v.input].storage)
          ASTER_TRY(numbers_.set(node, Numbered{next_, kKept}));
      }
      ++next_;
    }
    return text_.status();
  }
  Status write_input(Node node, std::string_view name) {
    begin(node, "Input");
    text_ << " ";
    quote(name);
    text_ << "\n";
    return number(node, true);
  }

  // What roots are made of as far as it does not stand above, sources first.
  Status write_below(std::span<const Node> roots) {
    for (const Node root : roots) {
      ASTER_TRY(stack_.push(root));
      while (!stack_.empty()) {
        const Node node = stack_.back();
        const size_t body = node->op == Op::kCall ? 1 : 0, before = stack_.size();
        for (size_t i = node->nsrc; i-- > body && !is_there(node);) {
          if (!is_there(node->src(i))) ASTER_TRY(stack_.push(node->src(i)));
        }
        if (stack_.size() != before) continue;
        stack_.pop();
        if (is_there(node)) continue;
        ASTER_TRY(write(node));
        ASTER_TRY(number(node, node->op == Op::kBuffer));
      }
    }
    return kOk;
  }
  // A realize call of the capture: loading makes the kernels of one.
  Status write_step(std::span<const Node> roots) {
    if (version_of(b_) > 1) {
      text_ << "realize";
      for (const Node root : roots) text_ << " %" << uint64_t{numbers_.find(root)->number};
      text_ << "\n";
    }
    for (const Node root : roots) numbers_.find(root)->step = kKept;
    ++step_;
    return text_.status();
  }

  Status write(Node node) {
    if (node->op == Op::kBuffer) return write_memory(node);
    begin(node, uop::full_name(node));
    const size_t body = node->op == Op::kCall ? 1 : 0;
    for (Node source : node->src().subspan(body))
      text_ << " %" << uint64_t{numbers_.find(source)->number};
    const bool moves = node->op == Op::kContiguous;  // devices are this machine's
    const uop::Words words = moves ? uop::Words{} : uop::plain_arguments(node);
    for (size_t i = 0; i < words.size(); ++i) text_ << (i == 0 ? " (" : ", ") << words[i];
    if (!words.empty()) text_ << ")";
    text_ << "\n";
    return text_.status();
  }

  Status write_memory(Node node) {
    const buffer::Storage* storage = engine::storage_of(node);
    begin(node, written_.contains(node) ? "State" : "Constant");
    if (const Text* name = name_of(node)) {
      text_ << " ";
      quote(name->view());
    }
    const size_t bytes = static_cast<size_t>(node->count()) * dtype::size(node->dtype);
    Vec<uint8_t> own(e_.context.heap());
    Vec<uint8_t>& to = data_ == nullptr ? own : *data_;
    ASTER_TRY(to.resize((to.size() + kAlignment - 1) / kAlignment * kAlignment, uint8_t{0}));
    const size_t at = to.size();
    ASTER_TRY(to.resize(at + bytes, uint8_t{0}));
    if (bytes != 0) {
      ASTER_TRY(buffer::copy({to.data() + at, 0, buffer::kHost},
                             {storage->data, static_cast<size_t>(node->arg(2)), storage->device},
                             bytes));
    }
    if (data_ != nullptr) {
      text_ << " @" << static_cast<uint64_t>(at) << "\n";
      return text_.status();
    }
    text_ << " #";
    for (const uint8_t byte : own) {
      text_ << "0123456789abcdef"[byte >> 4] << "0123456789abcdef"[byte & 15];
    }
    text_ << "\n";
    return text_.status();
  }

  // The symbolic sizes of inputs and outputs, and what has to hold of variables.
  Status write_sizes() {
    if (b_.captured == nullptr) return kOk;
    const engine::Program& program = *b_.captured;
    const size_t inputs = program.inputs.size();
    for (size_t i = 0; i < inputs + program.results.size(); ++i) {
      const engine::Value& value = program.values[i];
      if (value.first_size == engine::Value::kNone) continue;
      const bool input = i < inputs;
      text_ << "sizes " << (input ? "input " : "output ") << uint64_t{input ? i : i - inputs}
            << " (";
      for (uint32_t axis = 0; axis < value.array.ndim; ++axis) {
        if (axis != 0) text_ << ", ";
        ASTER_TRY(write_expression(program.sizes[value.first_size + axis], 0));
      }
      text_ << ")\n";
    }
    for (const engine::Conditions::Condition& each : program.conditions.all()) {
      text_ << "require ";
      ASTER_TRY(write_expression(each.a, 0));
      text_ << " <= ";
      ASTER_TRY(write_expression(each.b, 0));
      text_ << "\n";
    }
    return text_.status();
  }
  Status write_expression(uint32_t at, int depth) {
    const engine::Program& program = *b_.captured;
    const engine::Conditions::Step& step = program.conditions.step(at);
    const auto variable = [&](const engine::Conditions::Step& range) {
      quote(program.variables[range.of[0]].name.view());
    };
    if (depth > kDeepest) return ASTER_FAIL(kUNSUPPORTED, "a size nested deeper than %d", kDeepest);
    if (step.op == Op::kConst) {
      if (step.to != dtype::DType::kWeakInt)
        return ASTER_FAIL(kUNSUPPORTED, "a size with a constant of %s", dtype::name(step.to));
      text_ << step.number;
      return text_.status();
    }
    if (step.op == Op::kRange) {  // the variable less its least value
      if (step.number != 0) text_ << "Sub(";
      variable(step);
      if (step.number != 0) text_ << ", " << step.number << ")";
      return text_.status();
    }
    const uint32_t count = engine::Conditions::operands(step);
    for (uint32_t i = 0; step.op == Op::kAdd && i < count; ++i) {
      const engine::Conditions::Step& a = program.conditions.step(step.of[i]);
      const engine::Conditions::Step& b = program.conditions.step(step.of[1 - i]);
      if (a.op != Op::kRange || b.op != Op::kConst || a.number != b.number) continue;
      variable(a);
      return text_.status();
    }
    text_ << uop::info(step.op).name << "(";
    for (uint32_t i = 0; i < count; ++i) {
      if (i != 0) text_ << ", ";
      ASTER_TRY(write_expression(step.of[i], depth + 1));
    }
    text_ << ")";
    return text_.status();
  }

  struct Numbered {
    uint32_t number, step;
  };
  static constexpr uint32_t kKept = UINT32_MAX;

  Text& text_;
  Vec<uint8_t>* data_;
  engine::Engine& e_;
  const Boundary& b_;
  Vec<Node> nodes_, roots_, stack_;  // roots: of the steps, then outputs
  Map<Node, Numbered> numbers_;
  Map<const buffer::Storage*, uint32_t> cells_;
  Map<Node, uint8_t> written_;
  uint32_t next_ = 0, step_ = 0;
};

Status take_names(Vec<Text>* out, Memory& memory, const char* const* names, size_t count,
                  const char* kind) {
  for (size_t i = 0; i < count; ++i) {
    Text name(memory);
    if (names == nullptr) {
      name << kind << static_cast<uint64_t>(i);
    } else if (names[i] == nullptr || names[i][0] == 0 || !is_utf8(names[i])) {
      return ASTER_FAIL(kARGUMENT, "%s %zu: a name is UTF-8, and not empty", kind, i);
    } else {
      name << names[i];
    }
    ASTER_TRY(name.status());
    for (const Text& other : *out) {
      if (other.view() == name.view())
        return ASTER_FAIL(kARGUMENT, "two of the %ss are named \"%s\"", kind, name.c_str());
    }
    ASTER_TRY(out->push(std::move(name)));
  }
  return kOk;
}

Status take_cells(Vec<engine::Lazy*>* out, engine::Engine& engine, aster_ml_lazy* const* given,
                  size_t count, const char* kind) {
  if (given == nullptr && count != 0)
    return ASTER_FAIL(kARGUMENT, "a null pointer for %zu %ss", count, kind);
  for (size_t i = 0; i < count; ++i) {
    ASTER_TRY(tensor::check_handle(given[i]));
    engine::Lazy* lazy = tensor::cell(given[i]);
    if (lazy->engine != &engine) return ASTER_FAIL(kARGUMENT, "%s %zu: another context", kind, i);
    if (lazy->sized != nullptr)
      return ASTER_FAIL(kUNSUPPORTED, "%s %zu has symbolic sizes", kind, i);
    ASTER_TRY(out->push(lazy));
  }
  return kOk;
}

}  // namespace

// What was built before its inputs were realised may read the memory of one in another shape.
static Status read_inputs_as_they_are(Boundary* out, engine::Engine& engine) {
  Heap& heap = engine.context.heap();
  Vec<Node> nodes(heap);
  Map<Node, Node> same(heap);
  ASTER_TRY(engine::walk(&nodes, {out->outputs.data(), out->outputs.size()}));
  for (Node node : nodes) {
    if (node->op != Op::kBuffer) continue;
    for (Node input : out->inputs) {
      if (node == input || node->dtype != input->dtype ||
          !(engine::region_of(node) == engine::region_of(input)))
        continue;
      const Node seen = engine.graph.reshape(input, node->shape());
      ASTER_TRY(need(seen));
      ASTER_TRY(same.set(node, seen));
    }
  }
  for (size_t i = 0; i < out->outputs.size() && !same.empty(); ++i)
    ASTER_TRY(engine.graph.substitute(&out->outputs[i], out->outputs[i], same));
  return kOk;
}

Status take_boundary(Boundary* out, engine::Engine& engine, const aster_ml_boundary* given) {
  if (given == nullptr) return ASTER_FAIL(kARGUMENT, "the boundary is null");
  aster_ml_boundary b;
  ASTER_TRY(tensor::options_argument(&b, given));
  if (b.output_count == 0) return ASTER_FAIL(kARGUMENT, "a program without outputs");
  if (engine.recording != nullptr) return ASTER_FAIL(kSTATE, "a capture is open");
  Heap& heap = engine.context.heap();
  Vec<engine::Lazy*> inputs(heap), outputs(heap);
  ASTER_TRY(take_cells(&inputs, engine, b.inputs, b.input_count, "input"));
  ASTER_TRY(take_cells(&outputs, engine, b.outputs, b.output_count, "output"));
  ASTER_TRY(take_names(&out->input_names, heap, b.input_names, b.input_count, "input"));
  ASTER_TRY(take_names(&out->output_names, heap, b.output_names, b.output_count, "output"));
  ASTER_TRY(tensor::realize_stored({inputs.data(), inputs.size()}));
  for (engine::Lazy* input : inputs) {
    if (std::ranges::find(out->inputs, input->node) != out->inputs.end())
      return ASTER_FAIL(kARGUMENT, "two inputs are the same memory");
    ASTER_TRY(out->inputs.push(input->node));
  }
  for (engine::Lazy* output : outputs) {
    const Node node = tensor::strong(engine.graph, output->node);
    ASTER_TRY(need(node));
    ASTER_TRY(out->outputs.push(node));
  }
  return read_inputs_as_they_are(out, engine);
}

uint32_t version_of(const Boundary& b) {
  const bool variables = b.captured != nullptr && !b.captured->variables.empty();
  if (b.step_ends.size() > 1 || !b.named.empty() || b.outputs.empty() || variables) return 2;
  // One step that is the outputs is none.
  return b.roots.empty() || std::ranges::equal(b.roots, b.outputs) ? 1 : 2;
}

Status write(Text* text, Vec<uint8_t>* data, engine::Engine& engine, const Boundary& boundary,
             const char* side) {
  return Writer(*text, data, engine, boundary).run(side);
}

}  // namespace aster::nn::portable
