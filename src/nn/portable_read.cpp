// Programs of the portable form as graphs, and as captured programs.
#include <cstring>

#include "device/device.h"
#include "nn/portable_reader.h"
#include "uop/symbolic.h"

namespace aster::nn::portable {
namespace {

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

template <typename T>
Maker maker_of(T* self) {
  Maker maker;
  maker.self = self;
  maker.leaf = [](void* it, Node* out, const Line& line) {
    return static_cast<T*>(it)->leaf(out, line);
  };
  maker.variable = [](void* it, Node* memory, Node* expression, Line& line) {
    return static_cast<T*>(it)->variable(memory, expression, line);
  };
  if constexpr (requires { &T::step; }) {
    maker.step = [](void* it, const Vec<Node>& inputs, std::span<Node> roots) {
      return static_cast<T*>(it)->step(inputs, roots);
    };
  }
  return maker;
}

// Params stand for memory; nothing is made.
class Checking {
 public:
  Checking(const Parts& parts, uop::Graph& graph) : parts_(parts), g_(graph) {}
  Status leaf(Node* out, const Line& line) {
    std::span<const uint8_t> bytes;
    if (line.form != Form::kInput) ASTER_TRY(bytes_of(&bytes, parts_, line));
    state |= line.form == Form::kState;
    *out = g_.param(slots_++, line.dtype, line.shape);
    return need(*out);
  }
  Status variable(Node* memory, Node* expression, Line& line) {
    *expression = uop::sym::add(g_, g_.range(slots_, line.most - line.least + 1), line.least);
    *memory = g_.param(slots_++, line.dtype, {});
    return need(*expression);
  }
  bool state = false;  // some was read

 private:
  const Parts& parts_;
  uop::Graph& g_;
  uop::Word slots_ = 0;
};

Status make_buffer(Node* out, engine::Engine& e, const Line& line, std::span<const uint8_t> bytes,
                   bool filled, int32_t device) {
  buffer::Storage* storage = nullptr;
  int64_t count = 0;
  size_t size = 0;
  (void)uop::count_elements(line.shape, &count);
  if (!checked_mul(static_cast<size_t>(count), dtype::size(line.dtype), &size))
    return ASTER_FAIL(kFORMAT, "an input that is too large");
  ASTER_TRY(buffer::storage_create(&storage, e.context, size, device));
  Status copied;
  if (filled && !bytes.empty() && device == device::kCpu) {
    std::memcpy(storage->data, bytes.data(), bytes.size());
  } else if (filled && !bytes.empty()) {
    auto* const data = const_cast<uint8_t*>(bytes.data());
    copied = buffer::copy({storage->data, 0, device}, {data, 0, buffer::kHost}, bytes.size());
  }
  if (filled && line.form == Form::kConstant) storage->read_only = true;
  if (copied.ok()) *out = engine::buffer_node(e, storage, 0, line.dtype, line.shape);
  buffer::storage_release(storage);
  return copied.ok() ? need(*out) : copied;
}
// Buffers on memory of a device, and of the CPU on pages of the file.
class Loading {
 public:
  Loading(const Parts& parts, engine::Engine& engine, int32_t device)
      : e_(engine),
        parts_(parts),
        device_(device),
        named_(engine.context.heap()),
        fixed_(engine.context.heap()) {}
  Status leaf(Node* out, const Line& line) {
    state |= line.form == Form::kState;
    ASTER_TRY(memory_of(out, line));
    if (line.form == Form::kInput || line.text.view().empty()) return kOk;
    Text name(e_.context.heap());
    name << line.text.view();
    ASTER_TRY(name.status());
    return named_.push(Named{*out, std::move(name)});
  }
  Status variable(Node* memory, Node* expression, Line& line) {
    const char* name = line.text.c_str();
    if (name == nullptr) return line.text.status();
    Node free = nullptr;
    ASTER_TRY(e_.symbols.variable(&free, name, line.least, line.most));
    ASTER_TRY(e_.symbols.bind(expression, free, name, line.value));
    uint32_t symbol = engine::Symbols::kNone;
    const auto note = [&](uint32_t at) { return symbol = at, kOk; };
    ASTER_TRY(e_.symbols.each(*expression, note));
    if (line.fixed && symbol != engine::Symbols::kNone) ASTER_TRY(fixed_.push(symbol));
    if (symbol != engine::Symbols::kNone) return e_.symbols.cell(memory, symbol);
    *memory = e_.graph.constant_int(line.dtype, line.value);  // one value: nothing to be given
    return need(*memory);
  }

  const Vec<uint32_t>& fixed() const { return fixed_; }
  // Calls captured memory as the file does.
  Status name_captured(engine::Program& program) {
    const size_t first = program.inputs.size() + program.results.size();
    for (size_t i = first; i < program.values.size(); ++i) {
      engine::Value& value = program.values[i];
      for (Named& each : named_) {
        if (engine::storage_of(each.buffer) != value.array.storage ||
            each.buffer->arg(2) != value.array.offset)
          continue;
        if (each.name.c_str() == nullptr) return each.name.status();
        ASTER_TRY(engine::rename(value, each.name.c_str()));
      }
    }
    return kOk;
  }
  bool state = false;  // some was read

 private:
  Status memory_of(Node* out, const Line& line) {
    std::span<const uint8_t> bytes;
    if (line.form == Form::kInput) return make_buffer(out, e_, line, bytes, false, device_);
    ASTER_TRY(bytes_of(&bytes, parts_, line));
    const bool mapped = line.form == Form::kConstant && !line.inlined && !bytes.empty() &&
                        device_ == device::kCpu && parts_.data->storage()->read_only;
    if (!mapped) return make_buffer(out, e_, line, bytes, true, device_);
    const size_t at = parts_.data->offset() + parts_.data_offset + line.offset;
    *out = engine::buffer_node(e_, parts_.data->storage(), static_cast<int64_t>(at), line.dtype,
                               line.shape);
    return need(*out);
  }

  engine::Engine& e_;
  const Parts& parts_;
  int32_t device_;
  Vec<Named> named_;
  Vec<uint32_t> fixed_;  // symbols
};

}  // namespace

Status Cells::make(engine::Engine& engine, std::span<const Node> nodes) {
  for (Node node : nodes) {
    engine::Lazy* lazy = nullptr;
    ASTER_TRY(handles_.push(aster_ml_lazy{}));
    ASTER_TRY(engine::lazy_create(&lazy, engine, node));
    scope_remove(lazy);
    handles_.back().impl = lazy->handle;
    ASTER_TRY(cells_.push(lazy));
  }
  for (aster_ml_lazy& each : handles_) ASTER_TRY(pointers_.push(&each));
  return kOk;
}

Status name_arrays(aster_ml_program* program, int32_t list, Vec<Text>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].c_str() == nullptr) return names[i].status();
    ASTER_TRY(Status{aster_ml_program_set_name(program, list, i, names[i].c_str())});
  }
  return kOk;
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
  if (h.version == 0) return ASTER_FAIL(kFORMAT, "a program of version 0");
  if (h.version > kVersion) {
    return ASTER_FAIL(kUNSUPPORTED, "a program of version %u: this library reads up to %u",
                      h.version, kVersion);
  }
  const bool beside = h.data_offset == 0 && h.data_bytes != 0;
  const auto inside = [&](uint64_t offset, uint64_t size) {
    return offset >= h.header_bytes && offset <= all.size() && size <= all.size() - offset;
  };
  if (h.header_bytes < sizeof(h) || !inside(h.text_offset, h.text_bytes) ||
      (!beside && h.data_bytes != 0 && !inside(h.data_offset, h.data_bytes))) {
    return ASTER_FAIL(kFORMAT, "a program of %zu bytes is truncated", all.size());
  }
  if (h.data_offset % kAlignment != 0) {
    return ASTER_FAIL(kFORMAT, "the constants of a program begin at byte %llu, no multiple of %zu",
                      static_cast<unsigned long long>(h.data_offset), kAlignment);
  }
  const std::span<const uint8_t> text = all.subspan(h.text_offset, h.text_bytes);
  out->text = {reinterpret_cast<const char*>(text.data()), text.size()};
  if (beside && side_data == nullptr) {
    uop::Graph graph(out->side.memory());
    Reader head(out->text, graph, Maker(), false);
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
  CheckedGraph checked(engine.context.heap());
  return check_graph(&checked, graph, parts);
}

Status check_graph(CheckedGraph* out, uop::Graph& graph, const Parts& parts) {
  Checking checking(parts, graph);
  Reader reader(parts.text, graph, maker_of(&checking), false);
  ASTER_TRY(reader.run());
  ASTER_TRY(out->assigned.resize(reader.inputs.size(), 0));
  for (Node node : reader.nodes) {
    if (node->op != Op::kAssign) continue;
    while (node->nsrc != 0) node = node->src(0);
    for (size_t i = 0; i < reader.inputs.size(); ++i) out->assigned[i] |= reader.inputs[i] == node;
  }
  out->variables = reader.has_variables();
  out->state = checking.state;
  out->inputs = std::move(reader.inputs);
  out->outputs = std::move(reader.outputs);
  out->input_names = std::move(reader.input_names);
  out->output_names = std::move(reader.output_names);
  return kOk;
}

Status read_graph(ReadGraph* out, engine::Engine& engine, const Parts& parts) {
  ASTER_TRY(verify(engine, parts));
  Loading loading(parts, engine, device::kCpu);
  Reader reader(parts.text, engine.graph, maker_of(&loading), true);
  ASTER_TRY(reader.run());
  out->variables = reader.has_variables();
  out->state = loading.state;
  out->inputs = std::move(reader.inputs);
  out->outputs = std::move(reader.outputs);
  out->input_names = std::move(reader.input_names);
  out->output_names = std::move(reader.output_names);
  return kOk;
}

namespace {

// Captures while it reads, realize call by realize call: the kernels are those of the program that
// was saved.
class Capturing {
 public:
  Capturing(engine::Engine& engine, const Parts& parts, int32_t device)
      : e_(engine),
        parts_(parts),
        loading_(parts, engine, device),
        inputs_(engine.context.heap()),
        state_(engine.context.heap()) {}
  ~Capturing() {
    if (open_) engine::drop_recording(e_);
  }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

  Status run(aster_ml_program* out) {
    Reader reader(parts_.text, e_.graph, maker_of(this), true);
    ASTER_TRY(reader.run());
    ASTER_TRY(begin(reader.inputs));
    ASTER_TRY(note(reader));
    const aster_ml_context context = e_.context.inner_handle();
    Cells outputs(e_.context.heap());
    ASTER_TRY(outputs.make(e_, {reader.outputs.data(), reader.outputs.size()}));
    open_ = false;
    aster_ml_program made{};
    ASTER_TRY(Status{aster_ml_engine_capture_end(&made, &context, outputs.data(), outputs.size())});
    Status status = name_arrays(&made, ASTER_ML_PROGRAM_INPUTS, reader.input_names);
    if (status.ok()) status = name_arrays(&made, ASTER_ML_PROGRAM_OUTPUTS, reader.output_names);
    if (status.ok()) status = loading_.name_captured(*object_of<engine::Program>(made.impl));
    if (!status.ok()) {
      aster_ml_program_free(&made);
      return status;
    }
    *out = made;
    return kOk;
  }

  Status leaf(Node* out, const Line& line) {
    ASTER_TRY(loading_.leaf(out, line));
    if (line.form != Form::kState) return kOk;
    return (open_ ? e_.recording->state : state_).push(engine::storage_of(*out));
  }
  Status variable(Node* memory, Node* expression, Line& line) {
    return loading_.variable(memory, expression, line);
  }
  Status step(const Vec<Node>& inputs, std::span<Node> roots) {
    ASTER_TRY(begin(inputs));
    Cells made(e_.context.heap());
    ASTER_TRY(made.make(e_, roots));
    ASTER_TRY(engine::realize(e_, made.cells()));
    for (size_t i = 0; i < roots.size(); ++i) roots[i] = made.cells()[i]->node;
    return kOk;
  }

 private:
  Status begin(const Vec<Node>& inputs) {
    if (open_) return kOk;
    const aster_ml_context context = e_.context.inner_handle();
    ASTER_TRY(inputs_.make(e_, {inputs.data(), inputs.size()}));
    ASTER_TRY(Status{aster_ml_engine_capture_begin(&context, inputs_.data(), inputs_.size())});
    open_ = true;
    e_.recording->dry = e_.recording->constant = true;
    return e_.recording->state.append(state_.data(), state_.size());
  }
  // What the file says of variables.
  Status note(const Reader& reader) {
    engine::Recording& r = *e_.recording;
    r.first_size.clear();
    for (size_t i = 0; i < reader.inputs.size() + reader.outputs.size(); ++i) {
      const bool input = i < reader.inputs.size();
      const size_t index = input ? i : i - reader.inputs.size();
      Nodes sizes;
      for (const Reader::Sizes& each : reader.symbolic) {
        if (each.input == input && each.index == index)
          sizes = {reader.expressions.data() + each.first, reader.nodes_of(input)[index]->ndim};
      }
      ASTER_TRY(engine::note_sizes(e_, sizes));
    }
    r.sizes_noted = true;
    for (const engine::Assumption& each : reader.conditions)
      ASTER_TRY(engine::assume_le(e_, each.a, each.b));
    for (const uint32_t symbol : loading_.fixed()) ASTER_TRY(engine::note_seen(e_, symbol));
    return kOk;
  }

  engine::Engine& e_;
  const Parts& parts_;
  Loading loading_;
  Cells inputs_;
  Vec<const buffer::Storage*> state_;  // that was read before
  bool open_ = false;
};

}  // namespace
Status capture_graph(aster_ml_program* out, engine::Engine& engine, ReadGraph& graph,
                     bool constant) {
  Heap& heap = engine.context.heap();
  const aster_ml_context context = engine.context.inner_handle();
  Cells inputs(heap), outputs(heap);
  ASTER_TRY(inputs.make(engine, {graph.inputs.data(), graph.inputs.size()}));
  ASTER_TRY(Status{aster_ml_engine_capture_begin(&context, inputs.data(), inputs.size())});
  engine.recording->dry = true;
  engine.recording->constant = constant;
  const Status built = outputs.make(engine, {graph.outputs.data(), graph.outputs.size()});
  if (!built.ok()) engine::drop_recording(engine);
  ASTER_TRY(built);
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

Status load(aster_ml_program* out, engine::Engine& engine, const Parts& parts, int32_t device) {
  if (engine.recording != nullptr) return ASTER_FAIL(kSTATE, "a capture is open");
  ASTER_TRY(device::canonical(&device, device));
  ASTER_TRY(device::allocatable(device));
  if (device::same_type(device, device::kNull))
    return ASTER_FAIL(kUNSUPPORTED, "a program on %s", device::name(device).text);
  const uop::Graph::Hold hold(engine.graph);
  bool taken = false;
  ASTER_TRY(load_whole(out, &taken, engine, parts, device));
  return taken ? kOk : Capturing(engine, parts, device).run(out);
}

}  // namespace aster::nn::portable
