// Programs of the portable form as graphs. Nothing of what is read is trusted.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/utf8.h"
#include "device/device.h"
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

namespace {

enum class Form : uint8_t { kInput, kConstant, kState, kOperation };

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
};

class Reader {
 public:
  // make: the node of a leaf.
  using Leaf = Status (*)(void* self, Node* out, const Line& line);
  Reader(std::string_view text, uop::Graph& graph, void* self, Leaf leaf, bool buffers)
      : text_(text),
        g_(graph),
        self_(self),
        leaf_(leaf),
        buffers_(buffers),
        nodes(graph.memory()),
        inputs(graph.memory()),
        outputs(graph.memory()),
        input_names(graph.memory()),
        output_names(graph.memory()),
        side(graph.memory()) {}

  Status run() {
    ASTER_TRY(first_line());
    while (true) {
      if (!next_line()) return fail("the line \"end\"");
      if (line_ == "end") break;
      ASTER_TRY(statement());
    }
    if (!text_.empty()) return fail("nothing behind the end");
    if (outputs.empty()) return ASTER_FAIL(kFORMAT, "a program without outputs");
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
    uint32_t version = 0, opset = 0;
    if (!next_line() || !take(kFirstLine) || !take_number(&version) || !take(" opset ") ||
        !take_number(&opset) || !line_.empty())
      return ASTER_FAIL(kFORMAT, "no program: its first line is \"aster VERSION opset OPSET\"");
    if (version != kVersion || opset > kOpset) {
      return ASTER_FAIL(kUNSUPPORTED,
                        "a program of version %u with opset %u: this library reads %u and up to %u",
                        version, opset, kVersion, kOpset);
    }
    return version == 0 || opset == 0 ? fail("a version and an opset from 1 on") : kOk;
  }

  Status statement() {
    if (take("note ")) return kOk;  // what later versions may say, and nobody has to know
    if (take("data ")) {
      if (!nodes.empty() || !side.view().empty()) return fail("data before all nodes, and once");
      ASTER_TRY(quoted(&side));
      return line_.empty() ? kOk : fail("the end of the line");
    }
    if (take("output ")) return output();
    return definition();
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
    Line line(g_.memory());
    line.name = take_word();
    line.form = line.name == "Input"      ? Form::kInput
                : line.name == "Constant" ? Form::kConstant
                : line.name == "State"    ? Form::kState
                                          : Form::kOperation;
    ASTER_TRY(type(&line));
    Node node = nullptr;
    if (line.form == Form::kOperation) {
      ASTER_TRY(operands(&line));
      ASTER_TRY(operation(&node, line));
    } else {
      ASTER_TRY(memory(&line));
      ASTER_TRY(failed(leaf_(self_, &node, line)));
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
    if (!dtype::from_name(&line->dtype, name).ok() || name != dtype::name(line->dtype))
      return fail("a dtype");
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
  // What stands behind the shape of a leaf: a name, or where its bytes are.
  Status memory(Line* line) {
    if (dtype::is_weak(line->dtype)) return fail("a dtype that is stored");
    if (!take(" ")) return fail("a name, an offset or bytes");
    if (line->form == Form::kInput) {
      ASTER_TRY(quoted(&line->text));
    } else if (take("@")) {
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

  Status operation(Node* out, const Line& line) {
    uop::RawNode raw;
    raw.name = line.name;
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

  std::string_view text_, line_;
  uop::Graph& g_;
  void* self_;
  Leaf leaf_;
  bool buffers_;
  size_t number_ = 0;

 public:
  Vec<Node> nodes, inputs, outputs;
  Vec<Text> input_names, output_names;
  Text side;
};

// The bytes of a constant: in the line, or in the data. FORMAT.
Status bytes_of(std::span<const uint8_t>* out, const Parts& parts, const Line& line) {
  int64_t count = 0;
  size_t bytes = 0;
  (void)uop::count_elements(line.shape, &count);
  if (!checked_mul(static_cast<size_t>(count), dtype::size(line.dtype), &bytes))
    return ASTER_FAIL(kFORMAT, "a constant that is too large");
  if (line.inlined) {
    if (line.bytes.size() != bytes)
      return ASTER_FAIL(kFORMAT, "%zu bytes for a constant of %zu", line.bytes.size(), bytes);
    *out = {line.bytes.data(), bytes};
    return kOk;
  }
  if (line.offset % kAlignment != 0 || line.offset > parts.data_bytes ||
      bytes > parts.data_bytes - line.offset) {
    return ASTER_FAIL(kFORMAT, "a constant of %zu bytes at %llu of %zu", bytes,
                      static_cast<unsigned long long>(line.offset), parts.data_bytes);
  }
  const uint8_t* data = bytes == 0 ? nullptr : parts.data->data() + parts.data_offset;
  *out = {bytes == 0 ? nullptr : data + line.offset, bytes};
  return kOk;
}

struct Checking {
  const Parts& parts;
  uop::Graph& g;
  uop::Word slots = 0;
};
Status check_leaf(void* self, Node* out, const Line& line) {
  auto& c = *static_cast<Checking*>(self);
  std::span<const uint8_t> bytes;
  if (line.form != Form::kInput) ASTER_TRY(bytes_of(&bytes, c.parts, line));
  *out = c.g.param(c.slots++, line.dtype, line.shape);
  return need(*out);
}

struct Loading {
  const Parts& parts;
  engine::Engine& e;
};
Status make_buffer(Node* out, engine::Engine& e, const Line& line, std::span<const uint8_t> bytes,
                   bool filled) {
  buffer::Storage* storage = nullptr;
  int64_t count = 0;
  size_t size = 0;
  (void)uop::count_elements(line.shape, &count);
  if (!checked_mul(static_cast<size_t>(count), dtype::size(line.dtype), &size))
    return ASTER_FAIL(kFORMAT, "an input that is too large");
  ASTER_TRY(buffer::storage_create(&storage, e.context, size, device::kCpu));
  if (filled && !bytes.empty()) std::memcpy(storage->data, bytes.data(), bytes.size());
  if (filled && line.form == Form::kConstant) storage->read_only = true;
  *out = engine::buffer_node(e, storage, 0, line.dtype, line.shape);
  buffer::storage_release(storage);
  return need(*out);
}
Status load_leaf(void* self, Node* out, const Line& line) {
  const auto& l = *static_cast<Loading*>(self);
  std::span<const uint8_t> bytes;
  if (line.form == Form::kInput) return make_buffer(out, l.e, line, bytes, false);
  ASTER_TRY(bytes_of(&bytes, l.parts, line));
  const bool mapped = line.form == Form::kConstant && !line.inlined && !bytes.empty() &&
                      l.parts.data->storage()->read_only;
  if (!mapped) return make_buffer(out, l.e, line, bytes, true);
  const size_t at = l.parts.data->offset() + l.parts.data_offset + line.offset;
  *out = engine::buffer_node(l.e, l.parts.data->storage(), static_cast<int64_t>(at), line.dtype,
                             line.shape);
  return need(*out);
}

// Handles of nodes, freed at the end.
class Cells {
 public:
  explicit Cells(Memory& memory) : handles_(memory), pointers_(memory) {}
  ~Cells() {
    for (aster_ml_lazy& each : handles_) aster_ml_lazy_free(&each);
  }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;
  Status make(engine::Engine& engine, const Vec<Node>& nodes) {
    for (Node node : nodes) {
      engine::Lazy* lazy = nullptr;
      ASTER_TRY(handles_.push(aster_ml_lazy{}));
      ASTER_TRY(engine::lazy_create(&lazy, engine, node));
      scope_remove(lazy);
      handles_.back().impl = lazy->handle;
    }
    for (aster_ml_lazy& each : handles_) ASTER_TRY(pointers_.push(&each));
    return kOk;
  }
  aster_ml_lazy* const* data() const { return pointers_.data(); }
  size_t size() const { return pointers_.size(); }

 private:
  Vec<aster_ml_lazy> handles_;
  Vec<aster_ml_lazy*> pointers_;
};

Status name_arrays(aster_ml_program* program, int32_t list, Vec<Text>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].c_str() == nullptr) return names[i].status();
    ASTER_TRY(Status{aster_ml_program_set_name(program, list, i, names[i].c_str())});
  }
  return kOk;
}

}  // namespace

Status find_side(Text* out, const Source& bytes) {
  Parts parts(out->memory());
  ASTER_TRY(split(&parts, bytes, nullptr));
  *out << parts.side.view();
  return out->status();
}

Status split(Parts* out, const Source& bytes, const Source* side_data) {
  const std::span<const uint8_t> all = bytes.bytes();
  const std::string_view as_text(reinterpret_cast<const char*>(all.data()), all.size());
  if (as_text.starts_with(kFirstLine)) {
    out->text = as_text;
    return kOk;
  }
  Header h;
  if (all.size() < sizeof(h) || std::memcmp(all.data(), kMagic.data(), kMagic.size()) != 0)
    return ASTER_FAIL(kFORMAT, "no program: %zu bytes that do not begin as one", all.size());
  std::memcpy(&h, all.data(), sizeof(h));
  if (h.header != checksum(all.first(sizeof(h) - sizeof(h.header))))
    return ASTER_FAIL(kFORMAT, "the header of a program was altered: its checksum is another");
  if (h.version != kVersion) {
    return ASTER_FAIL(kUNSUPPORTED, "a program of version %u: this library reads %u", h.version,
                      kVersion);
  }
  const bool beside = h.data_offset == 0 && h.data_bytes != 0;
  const auto inside = [&](uint64_t offset, uint64_t size) {
    return offset >= h.header_bytes && offset <= all.size() && size <= all.size() - offset;
  };
  if (h.header_bytes < sizeof(h) || !inside(h.text_offset, h.text_bytes) ||
      (!beside && h.data_bytes != 0 && !inside(h.data_offset, h.data_bytes))) {
    return ASTER_FAIL(kFORMAT, "a program of %zu bytes is truncated", all.size());
  }
  const std::span<const uint8_t> text = all.subspan(h.text_offset, h.text_bytes);
  out->text = {reinterpret_cast<const char*>(text.data()), text.size()};
  if (beside && side_data == nullptr) {
    uop::Graph graph(out->side.memory());
    Reader head(out->text, graph, nullptr, nullptr, false);
    ASTER_TRY(head.run_head());
    if (head.side.view().empty()) return ASTER_FAIL(kFORMAT, "a program without its constants");
    out->side << head.side.view();
    return out->side.status();
  }
  out->data = beside ? side_data : &bytes;
  out->data_offset = beside ? 0 : h.data_offset;
  out->data_bytes = h.data_bytes;
  if (beside && side_data->size() != h.data_bytes) {
    return ASTER_FAIL(kFORMAT, "constants of %zu bytes, not %llu", side_data->size(),
                      static_cast<unsigned long long>(h.data_bytes));
  }
  const std::span<const uint8_t> data =
      h.data_bytes == 0 ? std::span<const uint8_t>()
                        : out->data->bytes().subspan(out->data_offset, h.data_bytes);
  if (h.contents != checksum(data, checksum(text)))
    return ASTER_FAIL(kFORMAT, "a program was altered: its checksum is another");
  return kOk;
}

Status verify(engine::Engine& engine, const Parts& parts) {
  uop::Graph graph(engine.context.heap());
  graph.defaults = engine.graph.defaults;
  Checking checking{parts, graph};
  Reader reader(parts.text, graph, &checking, check_leaf, false);
  return reader.run();
}

Status read_graph(ReadGraph* out, engine::Engine& engine, const Parts& parts) {
  ASTER_TRY(verify(engine, parts));
  Loading loading{parts, engine};
  Reader reader(parts.text, engine.graph, &loading, load_leaf, true);
  ASTER_TRY(reader.run());
  out->inputs = std::move(reader.inputs);
  out->outputs = std::move(reader.outputs);
  out->input_names = std::move(reader.input_names);
  out->output_names = std::move(reader.output_names);
  return kOk;
}

Status capture_graph(aster_ml_program* out, engine::Engine& engine, ReadGraph& graph) {
  Heap& heap = engine.context.heap();
  const aster_ml_context context = engine.context.inner_handle();
  Cells inputs(heap), outputs(heap);
  ASTER_TRY(inputs.make(engine, graph.inputs));
  ASTER_TRY(outputs.make(engine, graph.outputs));
  ASTER_TRY(Status{aster_ml_engine_capture_begin(&context, inputs.data(), inputs.size())});
  engine.recording->dry = true;
  aster_ml_program made{};
  ASTER_TRY(Status{aster_ml_engine_capture_end(&made, &context, outputs.data(), outputs.size())});
  Status status = name_arrays(&made, ASTER_ML_PROGRAM_INPUTS, graph.input_names);
  if (status.ok()) status = name_arrays(&made, ASTER_ML_PROGRAM_OUTPUTS, graph.output_names);
  if (!status.ok()) {
    aster_ml_program_free(&made);
    return status;
  }
  *out = made;
  return kOk;
}

Status load(aster_ml_program* out, engine::Engine& engine, const Parts& parts) {
  if (engine.recording != nullptr) return ASTER_FAIL(kSTATE, "a capture is open");
  const uop::Graph::Hold hold(engine.graph);
  ReadGraph graph(engine.context.heap());
  ASTER_TRY(read_graph(&graph, engine, parts));
  return capture_graph(out, engine, graph);
}

}  // namespace aster::nn::portable
