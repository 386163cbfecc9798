// Decompression of deflate streams (RFC 1951), and CRC-32, by zlib.
#pragma once

#include <span>

#include "base/memory.h"

namespace aster::nn {

// Fills out, which is as long as the result. used: the bytes of in that the stream takes. Errors:
// FORMAT (no such stream, of another length), MEMORY.
Status inflate(std::span<uint8_t> out, std::span<const uint8_t> in, size_t* used, Memory& memory);
// Deflate makes one byte of this many at most: a greater claim is wrong.
constexpr size_t kMostInflation = 1032;

uint32_t crc32(std::span<const uint8_t> bytes);

}  // namespace aster::nn
