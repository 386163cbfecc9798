// Tar archives: POSIX ustar and pax, GNU's long names and numbers.
#include <array>
#include <charconv>
#include <cstring>

#include "base/utf8.h"
#include "engine/engine.h"
#include "nn/archive.h"

namespace aster::nn {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kBlock = 512;

Status damaged(const char* what) { return ASTER_FAIL(kFORMAT, "a damaged tar archive: %s", what); }

// A field of a header, up to the zero.
std::string_view field(const uint8_t* header, size_t at, size_t size) {
  const char* text = reinterpret_cast<const char*>(header) + at;
  return {text, strnlen(text, size)};
}

// Octal digits among spaces, or GNU's bytes behind a set bit.
bool read_number(uint64_t* out, const uint8_t* at, size_t size) {
  uint64_t value = 0;
  if ((at[0] & 0x80) != 0) {
    for (size_t i = 0; i < size; ++i) {
      if (value >> 55 != 0) return false;
      value = value << 8 | (i == 0 ? at[0] & 0x7Fu : at[i]);
    }
    *out = value;
    return true;
  }
  size_t i = 0;
  while (i < size && at[i] == ' ') ++i;
  for (; i < size && at[i] != ' ' && at[i] != 0; ++i) {
    if (at[i] < '0' || at[i] > '7' || value >> 60 != 0) return false;
    value = value * 8 + (at[i] - '0');
  }
  *out = value;
  return true;
}

bool checksum_fits(const uint8_t* header) {
  uint64_t given;
  if (!read_number(&given, header + 148, 8)) return false;
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : header[i];
  return sum == given;
}

bool is_zero(const uint8_t* header) {
  for (size_t i = 0; i < kBlock; ++i) {
    if (header[i] != 0) return false;
  }
  return true;
}

// What extended headers say of the next file.
struct Extended {
  explicit Extended(Memory& memory) : name(memory) {}
  Text name;
  uint64_t size = 0;
  bool has_name = false, has_size = false;
};

// Records "LENGTH KEY=VALUE\n".
Status read_pax(Extended* out, std::string_view text) {
  while (!text.empty()) {
    size_t length = 0;
    const char* end = text.data() + text.size();
    const auto digits = std::from_chars(text.data(), end, length);
    const size_t used = static_cast<size_t>(digits.ptr - text.data());
    if (digits.ec != std::errc() || length > text.size() || length < used + 3 ||
        *digits.ptr != ' ' || text[length - 1] != '\n') {
      return damaged("an extended header");
    }
    const std::string_view record = text_slice(text, used + 1, length - used - 2);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return damaged("an extended header");
    const std::string_view key = text_slice(record, 0, equals);
    const std::string_view value = text_slice(record, equals + 1);
    if (key == "path") {
      out->name.clear();
      out->name << value;
      out->has_name = true;
    } else if (key == "size") {
      const auto number = std::from_chars(value.data(), value.data() + value.size(), out->size);
      if (number.ec != std::errc() || number.ptr != value.data() + value.size()) {
        return damaged("the size of a file");
      }
      out->has_size = true;
    } else if (key.starts_with("GNU.sparse")) {
      return ASTER_FAIL(kUNSUPPORTED, "a sparse file in a tar archive");
    }
    text.remove_prefix(length);
  }
  return out->name.status();
}

Status read_name(Text* out, const uint8_t* header) {
  out->clear();
  if (field(header, 257, 5) == "ustar" && header[262] == 0 && header[345] != 0) {
    *out << field(header, 345, 155) << '/';
  }
  *out << field(header, 0, 100);
  return out->status();
}

}  // namespace

bool is_tar(std::span<const uint8_t> bytes) {
  return bytes.size() >= kBlock && !is_zero(bytes.data()) && checksum_fits(bytes.data());
}

Status each_tar(Memory& memory, std::span<const uint8_t> bytes, TakeFile take, void* self) {
  Extended next(memory);
  Text name(memory);
  size_t at = 0;
  bool extended = false;  // the header before says something of a file that has to follow
  if (bytes.size() < kBlock) return damaged("it is too short");
  while (bytes.size() - at >= kBlock) {
    const uint8_t* header = &bytes[at];
    if (is_zero(header)) break;
    if (!checksum_fits(header)) return damaged("the checksum of a header");
    at += kBlock;
    const char type = static_cast<char>(header[156]);
    uint64_t size;
    if (!read_number(&size, header + 124, 12)) return damaged("the size of a file");
    extended = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (!extended && next.has_size) size = next.size;
    if (type >= '1' && type <= '6') size = 0;  // links, devices, folders
    if (size > bytes.size() - at) return damaged("a file lies outside");
    const std::string_view data(reinterpret_cast<const char*>(bytes.data()) + at, size);
    if (type == 'x') {
      ASTER_TRY(read_pax(&next, data));
    } else if (type == 'L') {
      next.name.clear();
      next.name << text_slice(data, 0, data.find('\0'));
      next.has_name = true;
      ASTER_TRY(next.name.status());
    } else if (type == 'S') {
      return ASTER_FAIL(kUNSUPPORTED, "a sparse file in a tar archive");
    } else if (!extended) {
      ASTER_TRY(read_name(&name, header));
      Member member;
      member.name = next.has_name ? next.name.view() : name.view();
      member.begin = at;
      member.size = member.packed = size;
      const bool folder = type == '\0' && member.name.ends_with('/');
      if ((type == '0' || type == '\0' || type == '7') && !folder) ASTER_TRY(take(self, member));
      next.has_name = next.has_size = false;
    }
    const size_t blocks = (size + kBlock - 1) / kBlock;
    if (blocks > (bytes.size() - at) / kBlock) return damaged("it ends inside a file");
    at += blocks * kBlock;
  }
  return extended ? damaged("it ends before the file of an extended header") : kOk;
}

Status fill_tar(State& state, const Source& source) {
  struct Filling {
    State& state;
    engine::Engine* engine;
    Source archive;
  };
  Filling filling{state, nullptr, {}};
  ASTER_TRY(engine::engine_of(&filling.engine, *state.context));
  ASTER_TRY(unzip_gzip(&filling.archive, *state.context, source));
  const TakeFile take = [](void* self, const Member& member) -> Status {
    Filling& to = *static_cast<Filling*>(self);
    if (member.name.empty() || !is_utf8(member.name)) {
      return ASTER_FAIL(kFORMAT, "a name in the archive is empty, or not UTF-8");
    }
    Shared parameter;
    ASTER_TRY(place(&parameter, *to.engine, to.archive, member.begin, DType::kUInt8,
                    std::array{static_cast<Word>(member.size)}));
    return to.state.set(member.name, parameter);
  };
  return each_tar(state.context->heap(), filling.archive.bytes(), take, &filling);
}

}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions

int32_t aster_ml_state_read_tar(aster_ml_state* out, const aster_ml_context* context,
                                const char* path) {
  ASTER_API();
  return read_state(out, context, path, fill_tar);
}

int32_t aster_ml_state_from_tar(aster_ml_state* out, const aster_ml_lazy* bytes) {
  ASTER_API();
  return read_state(out, bytes, fill_tar);
}
