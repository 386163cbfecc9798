// What is kept on disk of compiled kernels, read and written piece by piece:
//
// pack    what one compilation gave: u64 count, u64 size of each object, the objects
// kernel  key of the pack that has it
// bundle  all kernels of one request: u64 packs, u64 kernels, their keys, u64 index of each
// kernel's pack
#pragma once

#include <span>

#include "base/memory.h"
#include "runtime/cpu/sha256.h"

namespace aster::runtime::cpu {

Status append_number(Vec<uint8_t>* out, uint64_t number);
Status write_pack(std::span<const Vec<uint8_t>> objects, Vec<uint8_t>* out);

// Take from the front of bytes; false when they are too few.
bool take(std::span<const uint8_t>* bytes, uint64_t size, std::span<const uint8_t>* out);
bool take_number(std::span<const uint8_t>* bytes, uint64_t* out);
bool take_digest(std::span<const uint8_t>* bytes, Digest* out);

}  // namespace aster::runtime::cpu
