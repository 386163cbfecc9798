// Safetensors files: eight bytes of header length (little-endian), a header in JSON that names
// dtype, shape and place of every tensor, then their elements without gaps.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "base/json.h"
#include "engine/engine.h"
#include "nn/source.h"
#include "runtime/cpu/file.h"

namespace aster::nn {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kPrefix = 8;                  // the length of the header
constexpr uint64_t kMostHeader = 100'000'000;  // as the format's own library has it
constexpr size_t kPiece = size_t{1} << 20;     // written at a time

struct FormatDType {
  std::string_view name;
  DType dtype;
};
constexpr FormatDType kDTypes[] = {
#define SAFETENSORS(name, dtype) {name, DType::dtype},
#include "nn/safetensors.def"
#undef SAFETENSORS
};

// ---- Reading ----

// One tensor of the header.
struct Described {
  explicit Described(Memory& memory) : name(memory), shape(memory) {}
  Text name;
  DType dtype = DType::kNone;
  Vec<Word> shape;
  uint64_t begin = 0, end = 0;
};

class Header {
 public:
  Header(std::string_view text, Heap& heap, State& state)
      : json_(text), heap_(heap), state_(state), tensors_(heap) {}

  Status read() {
    Text name(heap_), value(heap_);
    bool more, notes = false;
    ASTER_TRY(json_.open('{'));
    for (;;) {
      ASTER_TRY(json_.next(&more, '}'));
      if (!more) break;
      ASTER_TRY(json_.key(&name));
      if (name.view() == "__metadata__") {
        if (notes) return json_.fail("__metadata__ twice");
        notes = true;
        ASTER_TRY(read_metadata());
      } else {
        ASTER_TRY(read_tensor(name));
      }
    }
    return json_.end();
  }

  // Tensors without gaps and overlaps, from the first byte after the header to the last. Names are
  // told apart when the state is filled.
  Status check(uint64_t bytes) {
    Vec<const Described*> order(heap_);
    for (const Described& tensor : tensors_) ASTER_TRY(order.push(&tensor));
    std::sort(order.begin(), order.end(), [](const Described* a, const Described* b) {
      return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
    });
    uint64_t at = 0;
    for (const Described* tensor : order) {
      if (tensor->begin != at) {
        return ASTER_FAIL(kFORMAT, "tensor '%s' begins at byte %llu of the data, not %llu",
                          text(tensor->name), wide(tensor->begin), wide(at));
      }
      ASTER_TRY(check_size(*tensor));
      at = tensor->end;
    }
    if (at != bytes) {
      return ASTER_FAIL(kFORMAT, "the tensors end at byte %llu of %llu", wide(at), wide(bytes));
    }
    return kOk;
  }
  Vec<Described>& tensors() { return tensors_; }

  static const char* text(const Text& name) {
    // Not terminated yet only if memory ran out.
    const char* c_str = const_cast<Text&>(name).c_str();
    return c_str == nullptr ? "" : c_str;
  }

 private:
  static unsigned long long wide(uint64_t value) { return value; }

  Status check_size(const Described& tensor) {
    uint64_t bytes = dtype::size(tensor.dtype);
    bool fits = tensor.shape.size() <= uop::Dims::kMost, zero = false;
    for (const Word dim : tensor.shape) zero |= dim == 0;
    for (const Word dim : tensor.shape) {
      // The product counts without its zeros too: no dimension may overflow.
      fits &= checked_mul(bytes, dim == 0 ? uint64_t{1} : static_cast<uint64_t>(dim), &bytes) &&
              bytes <= static_cast<uint64_t>(PTRDIFF_MAX);
    }
    if (!fits) return ASTER_FAIL(kFORMAT, "the shape of tensor '%s' overflows", text(tensor.name));
    if (zero) bytes = 0;
    if (tensor.end < tensor.begin || tensor.end - tensor.begin != bytes) {
      return ASTER_FAIL(kFORMAT, "tensor '%s' of %llu bytes lies from byte %llu to %llu",
                        text(tensor.name), wide(bytes), wide(tensor.begin), wide(tensor.end));
    }
    return kOk;
  }

  Status read_metadata() {
    Text key(heap_), value(heap_);
    bool more;
    ASTER_TRY(json_.open('{'));
    for (;;) {
      ASTER_TRY(json_.next(&more, '}'));
      if (!more) return kOk;
      ASTER_TRY(json_.key(&key));
      ASTER_TRY(json_.string(&value));
      if (state_.note(key.view()) != nullptr) return json_.fail("a key of __metadata__ twice");
      ASTER_TRY(state_.set_note(key.view(), value.view().data(), value.view().size()));
    }
  }

  Status read_dtype(Described& tensor) {
    Text name(heap_);
    ASTER_TRY(json_.string(&name));
    for (const FormatDType& known : kDTypes) {
      if (known.name != name.view()) continue;
      tensor.dtype = known.dtype;
      if (known.dtype != DType::kNone) return kOk;
      return ASTER_FAIL(kUNSUPPORTED, "tensor '%s' of dtype %s", text(tensor.name), text(name));
    }
    return ASTER_FAIL(kFORMAT, "tensor '%s' of unknown dtype '%.40s'", text(tensor.name),
                      text(name));
  }

  Status read_shape(Described& tensor) {
    bool more;
    ASTER_TRY(json_.open('['));
    for (;;) {
      ASTER_TRY(json_.next(&more, ']'));
      if (!more) return kOk;
      uint64_t dim;
      ASTER_TRY(json_.integer(&dim));
      if (dim > static_cast<uint64_t>(INT64_MAX)) return json_.fail("a dimension beyond 63 bits");
      ASTER_TRY(tensor.shape.push(static_cast<Word>(dim)));
    }
  }

  Status read_offsets(Described& tensor) {
    bool more;
    ASTER_TRY(json_.open('['));
    for (uint64_t* offset : {&tensor.begin, &tensor.end}) {
      ASTER_TRY(json_.next(&more, ']'));
      if (!more) return json_.fail("less than two offsets");
      ASTER_TRY(json_.integer(offset));
    }
    ASTER_TRY(json_.next(&more, ']'));
    return more ? json_.fail("more than two offsets") : kOk;
  }

  Status read_tensor(const Text& name) {
    constexpr std::string_view kFields[] = {"dtype", "shape", "data_offsets"};
    using Read = Status (Header::*)(Described&);
    constexpr Read kReads[] = {&Header::read_dtype, &Header::read_shape, &Header::read_offsets};
    if (name.view().empty()) return json_.fail("a tensor without a name");
    Described tensor(heap_);
    tensor.name << name.view();
    ASTER_TRY(tensor.name.status());
    bool more, seen[3] = {};
    Text field(heap_);
    ASTER_TRY(json_.open('{'));
    for (;;) {
      ASTER_TRY(json_.next(&more, '}'));
      if (!more) break;
      ASTER_TRY(json_.key(&field));
      const size_t which = static_cast<size_t>(
          std::find(std::begin(kFields), std::end(kFields), field.view()) - std::begin(kFields));
      if (which == 3) {
        ASTER_TRY(json_.skip());  // fields of later versions
        continue;
      }
      if (seen[which]) return json_.fail("a field twice");
      seen[which] = true;
      ASTER_TRY((this->*kReads[which])(tensor));
    }
    if (!seen[0] || !seen[1] || !seen[2]) {
      return ASTER_FAIL(kFORMAT, "tensor '%s' has not all of dtype, shape and data_offsets",
                        text(tensor.name));
    }
    return tensors_.push(std::move(tensor));
  }

  JsonReader json_;
  Heap& heap_;
  State& state_;
  Vec<Described> tensors_;
};

}  // namespace

Status fill_safetensors(State& state, const Source& source) {
  Context& context = *state.context;
  engine::Engine* engine;
  ASTER_TRY(engine::engine_of(&engine, context));
  uint64_t length;
  if (source.size() < kPrefix) {
    return ASTER_FAIL(kFORMAT, "%zu bytes are no safetensors file", source.size());
  }
  std::memcpy(&length, source.data(), sizeof(length));
  if (length > kMostHeader || length > source.size() - kPrefix) {
    return ASTER_FAIL(kFORMAT, "a header of %llu bytes in a file of %zu",
                      static_cast<unsigned long long>(length), source.size());
  }
  const char* text = reinterpret_cast<const char*>(source.data()) + kPrefix;
  if (length == 0 || *text != '{') {
    return ASTER_FAIL(kFORMAT, "the header does not begin with '{'");
  }
  Header header({text, static_cast<size_t>(length)}, context.heap(), state);
  ASTER_TRY(header.read());
  const size_t data = kPrefix + static_cast<size_t>(length);
  ASTER_TRY(header.check(source.size() - data));
  for (const Described& tensor : header.tensors()) {
    if (state.find(tensor.name.view()) != nullptr) {
      return ASTER_FAIL(kFORMAT, "two tensors '%s'", Header::text(tensor.name));
    }
    Shared parameter;
    ASTER_TRY(place(&parameter, *engine, source, data + tensor.begin, tensor.dtype,
                    {tensor.shape.data(), tensor.shape.size()}));
    ASTER_TRY(state.set(tensor.name.view(), parameter));
  }
  return kOk;
}

namespace {

// ---- Writing ----

Status format_name(std::string_view* out, const State::Entry& entry) {
  const DType dtype = entry.parameter.node()->dtype;
  for (const FormatDType& known : kDTypes) {
    *out = known.name;
    if (known.dtype == dtype) return kOk;
  }
  return ASTER_FAIL(kUNSUPPORTED, "safetensors has no %s ('%s')", dtype::name(dtype),
                    entry.name.view().data());
}

size_t bytes_of(const State::Entry* entry) {
  const Node node = entry->parameter.node();
  return static_cast<size_t>(node->count()) * dtype::size(node->dtype);
}

// The header lists the tensors in the state's order; their elements lie by size, the widest first,
// so that all are aligned.
Status write_header(Text& out, const State& state, const Vec<const State::Entry*>& order) {
  Vec<size_t> offsets(out.memory());
  ASTER_TRY(offsets.resize(state.entries.size(), 0));
  size_t at = 0;
  for (const State::Entry* entry : order) {
    offsets[static_cast<size_t>(entry - state.entries.begin())] = at;
    at += bytes_of(entry);
  }
  out << '{';
  if (!state.metadata.empty()) {
    out << "\"__metadata__\":{";
    for (const State::Note& note : state.metadata) {
      if (&note != state.metadata.begin()) out << ',';
      write_json_string(out, note.key.view());
      out << ':';
      write_json_string(out, note.text.view());
    }
    out << '}';
  }
  for (size_t i = 0; i < state.entries.size(); ++i) {
    const State::Entry& entry = state.entries[i];
    std::string_view dtype;
    ASTER_TRY(format_name(&dtype, entry));
    if (out.view().size() != 1) out << ',';
    write_json_string(out, entry.name.view());
    out << ":{\"dtype\":\"" << dtype << "\",\"shape\":[";
    const Words shape = entry.parameter.node()->shape();
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (axis != 0) out << ',';
      out << shape[axis];
    }
    const uint64_t begin = offsets[i], end = begin + bytes_of(&entry);
    out << "],\"data_offsets\":[" << begin << ',' << end << "]}";
  }
  out << '}';
  while (out.status().ok() && out.view().size() % kPrefix != 0) out << ' ';
  return out.status();
}

Status write_bytes(runtime::cpu::Replacement& file, std::span<const uint8_t> bytes,
                   const char* path) {
  return file.write(bytes) ? kOk : file_failed("writing", path, errno);
}

Status write_elements(runtime::cpu::Replacement& file, const State::Entry& entry,
                      Vec<uint8_t>& piece, const char* path) {
  const Node node = entry.parameter.node();
  buffer::Storage* storage = engine::storage_of(node);
  const size_t begin = static_cast<size_t>(node->arg(2)), bytes = bytes_of(&entry);
  for (size_t done = 0; done < bytes;) {
    const size_t count = std::min(bytes - done, kPiece);
    ASTER_TRY(buffer::copy({piece.data(), 0, buffer::kHost},
                           {storage->data, begin + done, storage->device}, count));
    ASTER_TRY(write_bytes(file, {piece.data(), count}, path));
    done += count;
  }
  return kOk;
}

Status write_contents(runtime::cpu::Replacement& file, const State& state, const char* path) {
  Heap& heap = state.context->heap();
  Vec<const State::Entry*> order(heap);
  for (const State::Entry& entry : state.entries) ASTER_TRY(order.push(&entry));
  // By address among equals: the state's order.
  std::sort(order.begin(), order.end(), [](const State::Entry* a, const State::Entry* b) {
    const size_t x = dtype::size(a->parameter.node()->dtype);
    const size_t y = dtype::size(b->parameter.node()->dtype);
    return x != y ? x > y : a < b;
  });
  Text header(heap);
  ASTER_TRY(write_header(header, state, order));
  const uint64_t length = header.view().size();
  if (length > kMostHeader) {
    return ASTER_FAIL(kUNSUPPORTED, "a header of %zu bytes", header.view().size());
  }
  ASTER_TRY(write_bytes(file, runtime::cpu::as_bytes(&length, sizeof(length)), path));
  ASTER_TRY(write_bytes(file, runtime::cpu::as_bytes(header.view().data(), length), path));
  Vec<uint8_t> piece(heap);
  ASTER_TRY(piece.resize(kPiece));
  for (const State::Entry* entry : order) ASTER_TRY(write_elements(file, *entry, piece, path));
  return file.finish() ? kOk : file_failed("writing", path, errno);
}

// What the format has another meaning for.
Status check_names(const State& state) {
  if (state.find("__metadata__") == nullptr) return kOk;
  return ASTER_FAIL(kARGUMENT, "a tensor named '__metadata__': safetensors keeps its notes there");
}

Status write_file(const State& state, const char* path) {
  runtime::cpu::Replacement file(state.context->heap());
  ASTER_TRY(check_names(state));
  if (!file.open(path)) return file_failed("opening", path, errno);
  return write_contents(file, state, path);
}

}  // namespace
}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_state_write(const aster_ml_state* state, const char* path) {
  ASTER_API();
  const State* impl = state_of(state);
  if (impl == nullptr || path == nullptr) {
    return ASTER_FAIL(kARGUMENT, "an empty state, or no path, is given");
  }
  const aster::ContextLock lock(impl->context);
  ASTER_TRY(lock.status());
  aster::engine::Engine* engine;
  ASTER_TRY(aster::engine::engine_of(&engine, *impl->context));
  if (engine->recording != nullptr) return ASTER_FAIL(kSTATE, "writing a state inside a capture");
  ASTER_TRY(realize_state(*impl));
  return write_file(*impl, path);
}

int32_t aster_ml_state_read(aster_ml_state* out, const aster_ml_context* context,
                            const char* path) {
  ASTER_API();
  return read_state(out, context, path, fill_safetensors);
}

int32_t aster_ml_state_from_safetensors(aster_ml_state* out, const aster_ml_lazy* bytes) {
  ASTER_API();
  return read_state(out, bytes, fill_safetensors);
}
