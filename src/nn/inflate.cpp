#include "nn/inflate.h"

#define ZLIB_CONST  // what is read is const
#include <zlib.h>

#include <algorithm>
#include <limits>

namespace aster::nn {
namespace {

// zlib does not say how large what it gives back is: that stands in front.
constexpr size_t kInFront = alignof(std::max_align_t);
static_assert(kInFront >= sizeof(size_t));

void* allocate(void* memory, unsigned count, unsigned size) {
  const size_t bytes = kInFront + size_t{count} * size;
  void* whole = static_cast<Memory*>(memory)->allocate(bytes, kInFront);
  if (whole == nullptr) return nullptr;
  std::memcpy(whole, &bytes, sizeof(bytes));
  return static_cast<uint8_t*>(whole) + kInFront;
}
void release(void* memory, void* given) {
  void* whole = static_cast<uint8_t*>(given) - kInFront;
  size_t bytes;
  std::memcpy(&bytes, whole, sizeof(bytes));
  static_cast<Memory*>(memory)->release(whole, bytes, kInFront);
}

// zlib counts in 32 bits: as much of what is left as it takes at once.
unsigned some(size_t left) {
  return static_cast<unsigned>(std::min<size_t>(left, std::numeric_limits<unsigned>::max()));
}

}  // namespace

Status inflate(std::span<uint8_t> out, std::span<const uint8_t> in, size_t* used, Memory& memory) {
  constexpr int kRaw = -MAX_WBITS;  // no header
  uint8_t nothing = 0;              // zlib takes no null pointers
  z_stream stream{};
  stream.zalloc = allocate;
  stream.zfree = release;
  stream.opaque = &memory;
  stream.next_in = in.empty() ? &nothing : in.data();
  stream.next_out = out.empty() ? &nothing : out.data();
  size_t left_in = in.size(), left_out = out.size();
  int code = inflateInit2(&stream, kRaw);
  while (code == Z_OK) {
    const unsigned given = stream.avail_in = some(left_in);
    const unsigned room = stream.avail_out = some(left_out);
    code = ::inflate(&stream, Z_NO_FLUSH);
    left_in -= given - stream.avail_in;
    left_out -= room - stream.avail_out;
  }
  inflateEnd(&stream);
  if (code == Z_MEM_ERROR) return out_of_memory(sizeof(z_stream));
  if (code != Z_STREAM_END || left_out != 0) {
    return ASTER_FAIL(kFORMAT, "a damaged deflate stream: %zu of %zu bytes came of it",
                      out.size() - left_out, out.size());
  }
  *used = in.size() - left_in;
  return kOk;
}

uint32_t crc32(std::span<const uint8_t> bytes) {
  return static_cast<uint32_t>(crc32_z(0, bytes.data(), bytes.size()));
}

}  // namespace aster::nn
