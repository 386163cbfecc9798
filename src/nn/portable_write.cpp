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
        outputs_(engine.context.heap()),
        numbers_(engine.context.heap()),
        written_(engine.context.heap()) {}

  Status run(const char* side) {
    ASTER_TRY(outputs_.append(b_.outputs.data(), b_.outputs.size()));
    ASTER_TRY(name_calls());
    ASTER_TRY(check_leaves());
    text_ << kFirstLine << kVersion << " opset " << kOpset << "\n";
    if (side != nullptr) {
      text_ << "data ";
      quote(side);
      text_ << "\n";
    }
    // Inputs first, in their order, used or not.
    for (size_t i = 0; i < b_.inputs.size(); ++i) {
      begin(b_.inputs[i], "Input");
      text_ << " ";
      quote(b_.input_names[i].view());
      text_ << "\n";
      ASTER_TRY(numbers_.set(b_.inputs[i], static_cast<uint32_t>(numbers_.size())));
    }
    for (Node node : nodes_) {
      if (numbers_.contains(node)) continue;
      ASTER_TRY(write(node));
      ASTER_TRY(numbers_.set(node, static_cast<uint32_t>(numbers_.size())));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      text_ << "output %" << *numbers_.find(outputs_[i]) << " ";
      quote(b_.output_names[i].view());
      text_ << "\n";
    }
    text_ << "end\n";
    return text_.status();
  }

 private:
  // Replaces composites that are not the library's own by their bodies.
  Status name_calls() {
    for (bool again = true; again;) {
      again = false;
      nodes_.clear();
      ASTER_TRY(engine::walk(&nodes_, {outputs_.data(), outputs_.size()}));
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
      for (Node& output : outputs_) ASTER_TRY(e_.graph.substitute(&output, output, inlined));
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
      if (e_.symbols.with_cell(engine::storage_of(leaf)) != engine::Symbols::kNone)
        return ASTER_FAIL(kUNSUPPORTED, "a program of symbolic sizes");
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

  void begin(Node node, const char* name) {
    text_ << "%" << static_cast<uint64_t>(numbers_.size()) << " = " << name << " "
          << dtype::name(node->dtype);
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

  Status write(Node node) {
    if (node->op == Op::kBuffer) return write_memory(node);
    begin(node, uop::full_name(node));
    const size_t body = node->op == Op::kCall ? 1 : 0;
    for (Node source : node->src().subspan(body)) text_ << " %" << *numbers_.find(source);
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

  Text& text_;
  Vec<uint8_t>* data_;
  engine::Engine& e_;
  const Boundary& b_;
  Vec<Node> nodes_, outputs_;
  Map<Node, uint32_t> numbers_;
  Map<Node, uint8_t> written_;
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
  return kOk;
}

Status write(Text* text, Vec<uint8_t>* data, engine::Engine& engine, const Boundary& boundary,
             const char* side) {
  const uop::Graph::Hold hold(engine.graph);
  return Writer(*text, data, engine, boundary).run(side);
}

}  // namespace aster::nn::portable
