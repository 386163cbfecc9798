#include "nn/onnx/wire.h"

#include <bit>
#include <cstring>

namespace aster::nn::onnx {

float Field::real() const { return std::bit_cast<float>(static_cast<uint32_t>(value)); }
double Field::wide() const { return std::bit_cast<double>(value); }

Status Wire::varint(uint64_t* out) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 70 && at_ != end_; shift += 7) {
    const uint8_t byte = *at_++;
    if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) {
      *out = value;
      return kOk;
    }
  }
  return ASTER_FAIL(kFORMAT, "a number of the model is cut off or too long");
}

Status Wire::fixed(uint64_t* out, size_t bytes) {
  if (left() < bytes) return ASTER_FAIL(kFORMAT, "a number of the model is cut off");
  *out = 0;
  std::memcpy(out, at_, bytes);
  at_ += bytes;
  return kOk;
}

Status Wire::next(Field* out) {
  uint64_t tag, size;
  ASTER_TRY(varint(&tag));
  *out = Field{};
  out->number = static_cast<uint32_t>(tag >> 3);
  out->kind = static_cast<uint8_t>(tag & 7);
  if (out->number == 0 || tag >> 32 != 0) return ASTER_FAIL(kFORMAT, "a field without a number");
  if (out->kind == 0) return varint(&out->value);
  if (out->kind == 1) return fixed(&out->value, 8);
  if (out->kind == 5) return fixed(&out->value, 4);
  if (out->kind != 2) return ASTER_FAIL(kFORMAT, "a field of wire type %d", out->kind);
  ASTER_TRY(varint(&size));
  if (size > left()) {
    return ASTER_FAIL(kFORMAT, "field %u of %llu bytes where %zu are left", out->number,
                      static_cast<unsigned long long>(size), left());
  }
  out->bytes = {at_, static_cast<size_t>(size)};
  at_ += size;
  return kOk;
}

}  // namespace aster::nn::onnx
