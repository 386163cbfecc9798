// The wire format of protobuf: fields of a message one after another, where they lie.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace aster::nn::onnx {

using Bytes = std::span<const uint8_t>;

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// One field; what it is said to be decides which member counts.
struct Field {
  uint32_t number = 0;
  uint8_t kind = 0;    // of the wire: varint 0, fixed64 1, bytes 2, fixed32 5
  uint64_t value = 0;  // of a number
  Bytes bytes;         // of a text, a message or packed numbers

  std::string_view text() const { return as_text(bytes); }
  int64_t integer() const { return static_cast<int64_t>(value); }
  float real() const;   // of fixed32
  double wide() const;  // of fixed64
};

// Goes through a message once. Nothing is allocated, every length is checked.
class Wire {
 public:
  explicit Wire(Bytes message) : at_(message.data()), end_(message.data() + message.size()) {}
  bool done() const { return at_ == end_; }
  // FORMAT where the bytes are no field.
  Status next(Field* out);
  Status varint(uint64_t* out);
  size_t left() const { return static_cast<size_t>(end_ - at_); }

 private:
  Status fixed(uint64_t* out, size_t bytes);
  const uint8_t* at_;
  const uint8_t* end_;
};

// each(uint64_t) for every number of a repeated field of varints, packed or alone.
template <typename Each>
Status each_integer(const Field& field, Each each) {
  if (field.kind == 0) return each(field.value);
  if (field.kind != 2) return ASTER_FAIL(kFORMAT, "field %u is no integer", field.number);
  Wire wire(field.bytes);
  while (!wire.done()) {
    uint64_t value;
    ASTER_TRY(wire.varint(&value));
    ASTER_TRY(each(value));
  }
  return kOk;
}
// The same of fixed32 or fixed64: each(uint64_t bits).
template <typename Each>
Status each_fixed(const Field& field, size_t size, Each each) {
  if (field.kind == (size == 4 ? 5 : 1)) return each(field.value);
  if (field.kind != 2 || field.bytes.size() % size != 0) {
    return ASTER_FAIL(kFORMAT, "field %u is no list of %zu bytes each", field.number, size);
  }
  for (size_t i = 0; i < field.bytes.size(); i += size) {
    uint64_t bits = 0;
    __builtin_memcpy(&bits, field.bytes.data() + i, size);
    ASTER_TRY(each(bits));
  }
  return kOk;
}

}  // namespace aster::nn::onnx
