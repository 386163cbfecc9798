#include "runtime/cpu/pack.h"

#include <cstring>

namespace aster::runtime::cpu {

Status append_number(Vec<uint8_t>* out, uint64_t number) {
  uint8_t bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  return out->append(bytes, sizeof(bytes));
}

bool take(std::span<const uint8_t>* bytes, uint64_t size, std::span<const uint8_t>* out) {
  if (size > bytes->size()) return false;
  *out = bytes->first(size);
  *bytes = bytes->subspan(size);
  return true;
}

bool take_number(std::span<const uint8_t>* bytes, uint64_t* out) {
  std::span<const uint8_t> part;
  if (!take(bytes, sizeof(*out), &part)) return false;
  std::memcpy(out, part.data(), sizeof(*out));
  return true;
}

bool take_digest(std::span<const uint8_t>* bytes, Digest* out) {
  std::span<const uint8_t> part;
  if (!take(bytes, out->size(), &part)) return false;
  std::memcpy(out->data(), part.data(), out->size());
  return true;
}

Status write_pack(std::span<const Vec<uint8_t>> objects, Vec<uint8_t>* out) {
  ASTER_TRY(append_number(out, objects.size()));
  for (const Vec<uint8_t>& object : objects) ASTER_TRY(append_number(out, object.size()));
  for (const Vec<uint8_t>& object : objects) ASTER_TRY(out->append(object.data(), object.size()));
  return kOk;
}

}  // namespace aster::runtime::cpu
