// The public functions on portable programs.
#include <cerrno>
#include <cstring>

#include "nn/portable.h"
#include "runtime/cpu/file.h"
#include "tensor/api.h"

namespace aster::nn::portable {
namespace {

constexpr const char* kSideEnding = ".data";

// A program as bytes: the header, the text and, unless they lie beside, the constants.
struct Written {
  explicit Written(Memory& memory) : text(memory), head(memory), data(memory) {}
  Text text;
  Vec<uint8_t> head;  // with the text, to where constants begin
  Vec<uint8_t> data;
};

// What is saved: a boundary, or a program that was captured.
struct Saved {
  const aster_ml_boundary* boundary;
  const engine::Program* program;
};

Status make(Written* out, engine::Engine& engine, const Saved& saved, uint32_t flags,
            const char* side) {
  constexpr uint32_t kAll =
      ASTER_ML_PROGRAM_TEXT | ASTER_ML_PROGRAM_SIDE_FILE | ASTER_ML_PROGRAM_STATE_INPUTS;
  if ((flags & ~kAll) != 0) return ASTER_FAIL(kRANGE, "flags %#x of a program", flags);
  const bool text_alone = (flags & ASTER_ML_PROGRAM_TEXT) != 0;
  if (text_alone && (flags & ASTER_ML_PROGRAM_SIDE_FILE) != 0)
    return ASTER_FAIL(kRANGE, "a text has its constants in it");
  Boundary boundary(engine.context.heap());
  const uop::Graph::Hold hold(engine.graph);
  ASTER_TRY(saved.program != nullptr ? take_captured(&boundary, engine, *saved.program)
                                     : take_boundary(&boundary, engine, saved.boundary));
  boundary.state_inputs = (flags & ASTER_ML_PROGRAM_STATE_INPUTS) != 0;
  ASTER_TRY(write(&out->text, text_alone ? nullptr : &out->data, engine, boundary, side));
  const std::string_view text = out->text.view();
  const auto* letters = reinterpret_cast<const uint8_t*>(text.data());
  if (text_alone) return out->head.append(letters, text.size());
  Header h{};
  h.magic = kMagic;
  h.version = version_of(boundary);
  h.header_bytes = sizeof(h);
  h.text_offset = sizeof(h);
  h.text_bytes = text.size();
  const size_t end = (sizeof(h) + text.size() + kAlignment - 1) / kAlignment * kAlignment;
  h.data_offset = side != nullptr && !out->data.empty() ? 0 : end;
  h.data_bytes = out->data.size();
  h.contents = checksum({out->data.data(), out->data.size()}, checksum({letters, text.size()}));
  h.header = checksum({reinterpret_cast<const uint8_t*>(&h), sizeof(h) - sizeof(h.header)});
  ASTER_TRY(out->head.append(reinterpret_cast<const uint8_t*>(&h), sizeof(h)));
  ASTER_TRY(out->head.append(letters, text.size()));
  return out->head.resize(end, uint8_t{0});
}

Status write_file(Memory& memory, const char* path, std::span<const uint8_t> first,
                  std::span<const uint8_t> second) {
  runtime::cpu::Replacement file(memory);
  if (!file.open(path) || !file.write(first) || !file.write(second) || !file.finish())
    return file_failed("writing", path, errno);
  return kOk;
}

Status save(const char* path, engine::Engine& engine, const Saved& saved, uint32_t flags) {
  if (path == nullptr || path[0] == 0) return ASTER_FAIL(kARGUMENT, "path is null or empty");
  Heap& heap = engine.context.heap();
  Written written(heap);
  Text side(heap);
  side << path << kSideEnding;
  const bool beside = (flags & ASTER_ML_PROGRAM_SIDE_FILE) != 0;
  if (side.c_str() == nullptr) return side.status();
  const char* slash = std::strrchr(side.c_str(), '/');
  ASTER_TRY(make(&written, engine, saved, flags,
                 !beside            ? nullptr
                 : slash == nullptr ? side.c_str()
                                    : slash + 1));
  const std::span<const uint8_t> data(written.data.data(), written.data.size());
  if (beside) ASTER_TRY(write_file(heap, side.c_str(), data, {}));
  return write_file(heap, path, {written.head.data(), written.head.size()},
                    beside ? std::span<const uint8_t>() : data);
}

Status to_bytes(void* out, size_t* length, size_t capacity, engine::Engine& engine,
                const Saved& saved, uint32_t flags) {
  if (length == nullptr) return ASTER_FAIL(kARGUMENT, "length is a null pointer");
  if ((flags & ASTER_ML_PROGRAM_SIDE_FILE) != 0)
    return ASTER_FAIL(kRANGE, "a program in memory has no file beside it");
  Written written(engine.context.heap());
  ASTER_TRY(make(&written, engine, saved, flags, nullptr));
  const size_t head = written.head.size(), size = head + written.data.size();
  if (out != nullptr && capacity < size)
    return ASTER_FAIL(kRANGE, "%zu bytes do not fit in %zu", size, capacity);
  if (out != nullptr) {
    std::memcpy(out, written.head.data(), head);
    if (size != head)
      std::memcpy(static_cast<char*>(out) + head, written.data.data(), written.data.size());
  }
  *length = size;
  return kOk;
}

Status load_file(aster_ml_program* out, engine::Engine& engine, const char* path, int32_t device) {
  OpenedFile opened(engine.context.heap());
  ASTER_TRY(open_file(&opened, engine, path));
  return in_file(load(out, engine, opened.parts, device), path);
}

// Bytes of a caller as a source of the context's own.
Status copy_bytes(Source* out, Context& context, const void* data, size_t bytes) {
  if (data == nullptr && bytes != 0)
    return ASTER_FAIL(kARGUMENT, "a null pointer for %zu bytes", bytes);
  ASTER_TRY(create_source(out, context, bytes));
  if (bytes != 0) std::memcpy(out->storage()->data, data, bytes);
  out->storage()->read_only = true;
  return kOk;
}

// out null: verifies alone.
Status from_bytes(aster_ml_program* out, engine::Engine& engine, const void* data, size_t bytes,
                  int32_t device = 0) {
  Source source;
  ASTER_TRY(copy_bytes(&source, engine.context, data, bytes));
  Parts parts(engine.context.heap());
  ASTER_TRY(split(&parts, source, nullptr));
  if (!parts.side.view().empty())
    return ASTER_FAIL(kFORMAT, "a program in memory whose constants are in a file");
  return out == nullptr ? verify(engine, parts) : load(out, engine, parts, device);
}

}  // namespace

Status open_file(OpenedFile* out, engine::Engine& engine, const char* path) {
  if (path == nullptr || path[0] == 0) return ASTER_FAIL(kARGUMENT, "path is null or empty");
  Heap& heap = engine.context.heap();
  ASTER_TRY(map_file(&out->file, engine.context, path, Mapped::kPrivate, 0, kRest));
  ASTER_TRY(in_file(split(&out->parts, out->file, nullptr), path));
  if (out->parts.side.view().empty()) return kOk;
  Text side(heap);
  side << out->parts.side.view();
  // In the program's folder: a name is no path.
  if (side.view().find('/') != std::string_view::npos)
    return ASTER_FAIL(kFORMAT, "the constants of a program are named by a path");
  Text other(heap);
  const char* slash = std::strrchr(path, '/');
  if (slash != nullptr) other << std::string_view(path, static_cast<size_t>(slash + 1 - path));
  other << side.view();
  if (other.c_str() == nullptr) return other.status();
  ASTER_TRY(map_file(&out->beside, engine.context, other.c_str(), Mapped::kPrivate, 0, kRest));
  return in_file(split(&out->parts, out->file, &out->beside), path);
}

}  // namespace aster::nn::portable

#define ASTER_ENGINE(context)              \
  ASTER_ENTER(aster::context_of(context)); \
  aster::engine::Engine* engine = nullptr; \
  ASTER_TRY(aster::engine::engine_of(&engine, *aster::context_of(context)))

namespace portable = aster::nn::portable;

int32_t aster_ml_program_save(const char* path, const aster_ml_context* context,
                              const aster_ml_boundary* boundary, uint32_t flags) {
  ASTER_ENGINE(context);
  return portable::save(path, *engine, {boundary, nullptr}, flags);
}

int32_t aster_ml_program_to_bytes(void* out, size_t* length, size_t capacity,
                                  const aster_ml_context* context,
                                  const aster_ml_boundary* boundary, uint32_t flags) {
  if (length != nullptr) *length = 0;
  if (out != nullptr && capacity != 0) *static_cast<char*>(out) = 0;
  ASTER_ENGINE(context);
  return portable::to_bytes(out, length, capacity, *engine, {boundary, nullptr}, flags);
}

static aster::engine::Program* program_of(const aster_ml_program* program) {
  return program == nullptr ? nullptr : aster::object_of<aster::engine::Program>(program->impl);
}

#define ASTER_ENGINE_OF(program, p)                      \
  aster::engine::Program* const p = program_of(program); \
  ASTER_ENTER(p == nullptr ? nullptr : p->context);      \
  aster::engine::Engine* engine = nullptr;               \
  ASTER_TRY(aster::engine::engine_of(&engine, *p->context))

int32_t aster_ml_program_save_captured(const char* path, const aster_ml_program* program,
                                       uint32_t flags) {
  ASTER_ENGINE_OF(program, p);
  return portable::save(path, *engine, {nullptr, p}, flags);
}

int32_t aster_ml_program_captured_to_bytes(void* out, size_t* length, size_t capacity,
                                           const aster_ml_program* program, uint32_t flags) {
  if (length != nullptr) *length = 0;
  if (out != nullptr && capacity != 0) *static_cast<char*>(out) = 0;
  ASTER_ENGINE_OF(program, p);
  return portable::to_bytes(out, length, capacity, *engine, {nullptr, p}, flags);
}

int32_t aster_ml_program_load_on(aster_ml_program* out, const aster_ml_context* context,
                                 const char* path, int32_t device) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENGINE(context);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  return portable::load_file(out, *engine, path, device);
}

int32_t aster_ml_program_load(aster_ml_program* out, const aster_ml_context* context,
                              const char* path) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENGINE(context);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  return portable::load_file(out, *engine, path, 0);
}

int32_t aster_ml_program_from_bytes_on(aster_ml_program* out, const aster_ml_context* context,
                                       const void* data, size_t bytes, int32_t device) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENGINE(context);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  return portable::from_bytes(out, *engine, data, bytes, device);
}

int32_t aster_ml_program_from_bytes(aster_ml_program* out, const aster_ml_context* context,
                                    const void* data, size_t bytes) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENGINE(context);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  return portable::from_bytes(out, *engine, data, bytes);
}

int32_t aster_ml_program_verify(const aster_ml_context* context, const void* data, size_t bytes) {
  ASTER_ENGINE(context);
  return portable::from_bytes(nullptr, *engine, data, bytes);
}
