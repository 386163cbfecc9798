// Files inside zip and tar archives.
#pragma once

#include <string_view>

#include "base/text.h"
#include "nn/source.h"

namespace aster::nn {

// One file of an archive; its bytes lie in the archive unless they are compressed.
struct Member {
  std::string_view name;  // in the archive
  size_t begin = 0;       // of its bytes
  size_t packed = 0;      // bytes in the archive
  size_t size = 0;        // bytes of the file
  uint32_t crc = 0;
  bool deflated = false;
};

// Whether a zip archive's end is there.
bool is_zip(std::span<const uint8_t> bytes);
// The members of a zip archive in the order of its directory. None of them overlap. Errors: FORMAT,
// UNSUPPORTED, RANGE (they unpack to more than the context allows).
Status list_zip(Vec<Member>* out, const Context& context, std::span<const uint8_t> bytes);
// The bytes of a member, inflated and checked if they are compressed. Errors: FORMAT, MEMORY.
Status extract(Source* out, Context& context, const Source& archive, const Member& member);

// Whether a tar archive begins here.
bool is_tar(std::span<const uint8_t> bytes);
// Calls take for every regular file of a tar archive, until it fails. The name is take's only while
// it runs. Errors: FORMAT, UNSUPPORTED.
using TakeFile = Status (*)(void* self, const Member& member);
Status each_tar(Memory& memory, std::span<const uint8_t> bytes, TakeFile take, void* self);

// What a gzip file holds, if it is one; else archive itself.
Status unzip_gzip(Source* out, Context& context, const Source& archive);

// Little-endian numbers; the bytes are there.
template <typename T>
T little(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace aster::nn
