// TensorProto, SparseTensorProto, SequenceProto and OptionalProto to values and back.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "engine/engine.h"
#include "nn/onnx/value.h"

namespace aster::nn::onnx {
namespace {

using uop::brief_shape;

struct External {
  std::string_view location;
  size_t offset = 0, length = kRest;
};

// What a TensorProto says before its elements are looked at.
struct Header {
  uop::Dims shape;
  int32_t element = 0;
  int64_t count = 0;
  bool external = false, has_raw = false;
  Bytes raw;
  External file;
};

Status parse_size(size_t* out, std::string_view text) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error == std::errc() && end == text.data() + text.size()) return kOk;
  return ASTER_FAIL(kFORMAT, "external data at '%.*s' is no number", static_cast<int>(text.size()),
                    text.data());
}

Status read_entry(External* out, Bytes message) {
  std::string_view key, value;
  Wire wire(message);
  while (!wire.done()) {
    Field f;
    ASTER_TRY(wire.next(&f));
    if (f.number == 1) key = f.text();
    if (f.number == 2) value = f.text();
  }
  if (key == "location") out->location = value;
  if (key == "offset") return parse_size(&out->offset, value);
  if (key == "length") return parse_size(&out->length, value);
  return kOk;
}

Status read_header(Header* out, Bytes message) {
  Wire wire(message);
  while (!wire.done()) {
    Field f;
    ASTER_TRY(wire.next(&f));
    if (f.number == 1) {
      ASTER_TRY(each_integer(f, [&](uint64_t dim) {
        if (out->shape.size() == uop::Dims::kMost) {
          return ASTER_FAIL(kFORMAT, "a tensor of more than %zu axes", uop::Dims::kMost);
        }
        out->shape.push(static_cast<Word>(dim));
        return kOk;
      }));
    }
    if (f.number == 2) out->element = static_cast<int32_t>(f.value);
    if (f.number == 9 && f.kind == 2) {
      out->has_raw = true;
      out->raw = f.bytes;
    }
    if (f.number == 13) ASTER_TRY(read_entry(&out->file, f.bytes));
    if (f.number == 14) out->external = f.value == 1;
  }
  for (const Word dim : out->shape.operator Words()) {
    if (dim < 0) return ASTER_FAIL(kFORMAT, "a tensor of shape %s", brief_shape(out->shape).text);
  }
  if (!uop::count_elements(out->shape, &out->count)) {
    return ASTER_FAIL(kFORMAT, "a tensor of shape %s", brief_shape(out->shape).text);
  }
  return kOk;
}

double float4(unsigned bits) {
  constexpr double kSizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (bits & 8) != 0 ? -kSizes[bits & 7] : kSizes[bits & 7];
}

// One packed element as the engine has it.
void unpack(void* data, size_t i, int32_t element, unsigned bits) {
  if (element == kFloat4) {
    static_cast<float*>(data)[i] = static_cast<float>(float4(bits));
  } else if (element == kFloat8E8M0) {
    static_cast<float*>(data)[i] =
        bits == 255 ? std::nanf("") : std::ldexp(1.0f, static_cast<int>(bits) - 127);
  } else if (element == kInt4) {
    static_cast<int8_t*>(data)[i] = static_cast<int8_t>(static_cast<int>(bits ^ 8) - 8);
  } else if (element == kInt2) {
    static_cast<int8_t*>(data)[i] = static_cast<int8_t>(static_cast<int>(bits ^ 2) - 2);
  } else {
    static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(bits);
  }
}

bool is_packed(int32_t element) {
  return element_info(element)->bits < 8 || element == kFloat8E8M0;
}

// Elements from bytes, of which each is of `bits`, the first in the lowest.
void unpack_all(void* data, const Header& h, const uint8_t* bytes) {
  const auto bits = static_cast<size_t>(element_info(h.element)->bits);
  const size_t each = 8 / bits;
  const unsigned mask = (1u << bits) - 1;
  for (size_t i = 0; i < static_cast<size_t>(h.count); ++i) {
    unpack(data, i, h.element, (bytes[i / each] >> (bits * (i % each))) & mask);
  }
}

size_t bytes_of(const Header& h) {
  const auto bits = static_cast<size_t>(element_info(h.element)->bits);
  const auto count = static_cast<size_t>(h.count);
  return bits >= 8 ? count * (bits / 8) : (count + 8 / bits - 1) / (8 / bits);
}

Status place_raw(Ref* out, const Files& files, const Header& h, const Source& source,
                 size_t offset) {
  const DType dtype = element_info(h.element)->dtype;
  if (is_packed(h.element)) {
    void* data;
    ASTER_TRY(make_stored(out, &data, files.engine, dtype, h.shape, h.element));
    unpack_all(data, h, source.data() + offset);
    return kOk;
  }
  Ref made;
  ASTER_TRY(make_value(&made, files.context.heap(), Kind::kTensor, h.element));
  ASTER_TRY(place(&made->cell, files.engine, source, offset, dtype, h.shape));
  made->known = true;
  *out = std::move(made);
  return kOk;
}

// No part of a name below the folder is a link, which may lead anywhere.
Status check_links(std::string_view directory, const Text& path) {
  const std::string_view whole = path.view();
  for (size_t end = directory.size(); end < whole.size();) {
    end = std::min(whole.find('/', end + 1), whole.size());
    Text part(path.memory());
    part << text_slice(whole, 0, end);
    const char* name = part.c_str();
    ASTER_TRY(part.status());
    struct stat about;
    if (lstat(name, &about) != 0) return file_failed("opening", name, errno);
    if (S_ISLNK(about.st_mode)) {
      return ASTER_FAIL(kFORMAT, "external data in '%s', which is a link", brief_path(name));
    }
  }
  return kOk;
}

// External data lies in the model's folder or below.
Status map_external(Source* out, const Files& files, const Header& h) {
  const std::string_view name = h.file.location;
  bool inside = !name.empty() && name[0] != '/' && name.find('\0') == std::string_view::npos;
  for (size_t at = 0; inside && at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    inside = text_slice(name, at, end - at) != "..";
    at = end + 1;
  }
  if (!inside || files.directory.empty()) {
    return ASTER_FAIL(kFORMAT, "external data in '%.*s', which is not in the model's folder",
                      static_cast<int>(std::min<size_t>(name.size(), 200)), name.data());
  }
  Text path(files.context.heap());
  path << files.directory << '/' << name;
  ASTER_TRY(path.status());
  ASTER_TRY(check_links(files.directory, path));
  const size_t size = h.file.length == kRest ? bytes_of(h) : h.file.length;
  return map_file(out, files.context, path.c_str(), Mapped::kPrivate, h.file.offset, size);
}

Status check_size(const Header& h, size_t given) {
  if (given == bytes_of(h)) return kOk;
  return ASTER_FAIL(kFORMAT, "%zu bytes for %s%s", given, element_name(h.element),
                    brief_shape(h.shape).text);
}

// Elements of the typed fields, one after another, into memory for all of them.
class Filler {
 public:
  Filler(void* data, const Header& h) : data_(data), h_(h), info_(*element_info(h.element)) {}
  Status field(const Field& f) {
    if (static_cast<int32_t>(f.number) != info_.field) {
      return ASTER_FAIL(kFORMAT, "elements of %s in field %u", info_.name, f.number);
    }
    const auto take = [&](uint64_t bits) { return push(bits); };
    if (info_.field == 4) return each_fixed(f, 4, take);
    if (info_.field == 10) return each_fixed(f, 8, take);
    return each_integer(f, take);
  }
  Status finish() const {
    const auto count = static_cast<size_t>(h_.count);
    if (at_ >= count) return kOk;
    return ASTER_FAIL(kFORMAT, "%zu elements for %s%s", at_, info_.name,
                      brief_shape(h_.shape).text);
  }

 private:
  Status push(uint64_t bits) {
    if (info_.bits < 8) {
      const auto width = static_cast<size_t>(info_.bits);
      const uint64_t mask = (1u << width) - 1;
      for (size_t k = 0; k < 8 / width && at_ < static_cast<size_t>(h_.count); ++k) {
        unpack(data_, at_++, h_.element, static_cast<unsigned>((bits >> (k * width)) & mask));
      }
      return kOk;
    }
    if (at_ == static_cast<size_t>(h_.count)) {
      return ASTER_FAIL(kFORMAT, "too many elements for %s%s", info_.name,
                        brief_shape(h_.shape).text);
    }
    if (h_.element == kFloat8E8M0) {
      unpack(data_, at_++, h_.element, static_cast<unsigned>(bits & 255));
      return kOk;
    }
    const size_t size = dtype::size(info_.dtype);
    std::memcpy(static_cast<char*>(data_) + size * at_++, &bits, size);
    return kOk;
  }
  void* data_;
  const Header& h_;
  const ElementInfo& info_;
  size_t at_ = 0;
};

// No more elements are made room for than the message can hold.
Status check_typed(const Header& h, Bytes message) {
  const auto most =
      message.size() * (h.element != kText && element_info(h.element)->bits < 8 ? 4 : 1);
  if (static_cast<size_t>(h.count) <= most) return kOk;
  return ASTER_FAIL(kFORMAT, "%s%s in a message of %zu bytes", element_name(h.element),
                    brief_shape(h.shape).text, message.size());
}

Status read_typed(Ref* out, const Files& files, const Header& h, Bytes message) {
  ASTER_TRY(check_typed(h, message));
  void* data;
  ASTER_TRY(
      make_stored(out, &data, files.engine, element_info(h.element)->dtype, h.shape, h.element));
  Filler fill(data, h);
  Wire wire(message);
  while (!wire.done()) {
    Field f;
    ASTER_TRY(wire.next(&f));
    const bool holds =
        f.number == 4 || f.number == 5 || f.number == 7 || f.number == 10 || f.number == 11;
    if (holds && !(f.kind == 2 && f.bytes.empty())) ASTER_TRY(fill.field(f));
  }
  return fill.finish();
}

Status read_texts(Ref* out, const Files& files, const Header& h, Bytes message) {
  ASTER_TRY(check_typed(h, message));
  Heap& heap = files.context.heap();
  Ref made;
  ASTER_TRY(make_texts(&made, heap, h.shape));
  Wire wire(message);
  while (!wire.done()) {
    Field f;
    ASTER_TRY(wire.next(&f));
    if (f.number != 6) continue;
    Text text(heap);
    text << f.text();
    ASTER_TRY(text.status());
    ASTER_TRY(made->texts.push(std::move(text)));
  }
  if (made->texts.size() != static_cast<size_t>(h.count)) {
    return ASTER_FAIL(kFORMAT, "%zu texts for shape %s", made->texts.size(),
                      brief_shape(h.shape).text);
  }
  made->known = true;
  *out = std::move(made);
  return kOk;
}

}  // namespace

Status read_tensor(Ref* out, const Files& files, const Source& source, Bytes message) {
  Header h;
  ASTER_TRY(read_header(&h, message));
  if (h.element == kText) return read_texts(out, files, h, message);
  if (element_info(h.element) == nullptr) {
    return ASTER_FAIL(kUNSUPPORTED, "a tensor of %s (%d)", element_name(h.element), h.element);
  }
  if (h.external) {
    Source file;
    ASTER_TRY(map_external(&file, files, h));
    ASTER_TRY(check_size(h, file.size()));
    return place_raw(out, files, h, file, 0);
  }
  if (h.has_raw) {
    ASTER_TRY(check_size(h, h.raw.size()));
    const size_t offset = h.raw.empty() ? 0 : static_cast<size_t>(h.raw.data() - source.data());
    return place_raw(out, files, h, source, offset);
  }
  return read_typed(out, files, h, message);
}

Status read_sparse(Ref* out, const Files& files, const Source& source, Bytes message) {
  uop::Dims shape;
  Ref values, indices;
  Wire wire(message);
  while (!wire.done()) {
    Field f;
    ASTER_TRY(wire.next(&f));
    if (f.number == 1) ASTER_TRY(read_tensor(&values, files, source, f.bytes));
    if (f.number == 2) ASTER_TRY(read_tensor(&indices, files, source, f.bytes));
    if (f.number != 3) continue;
    ASTER_TRY(each_integer(f, [&](uint64_t dim) {
      shape.push(static_cast<Word>(dim));
      return kOk;
    }));
  }
  int64_t count;
  constexpr int64_t kMost = int64_t{1} << 30;
  for (const Word dim : shape.operator Words()) {
    if (dim < 0 || dim > kMost) return ASTER_FAIL(kFORMAT, "a sparse tensor's shape");
  }
  if (!uop::count_elements(shape, &count) || count > kMost || !values || !indices ||
      values->element == kText || indices->element != kInt64 || values->node()->ndim != 1) {
    return ASTER_FAIL(kFORMAT, "a sparse tensor without values, indices or a shape that fits");
  }
  const void *from, *places;
  ASTER_TRY(fetch(&from, files.engine, *values));
  ASTER_TRY(fetch(&places, files.engine, *indices));
  const size_t n = static_cast<size_t>(values->node()->count());
  const bool flat = indices->node()->ndim == 1;
  const size_t width = flat ? 1 : shape.size(), size = dtype::size(values->node()->dtype);
  if (static_cast<size_t>(indices->node()->count()) != n * width) {
    return ASTER_FAIL(kFORMAT, "a sparse tensor of %zu values with indices %s", n,
                      uop::brief(indices->node()).text);
  }
  void* data;
  ASTER_TRY(make_stored(out, &data, files.engine, values->node()->dtype, shape, values->element));
  if (count != 0) std::memset(data, 0, static_cast<size_t>(count) * size);
  const auto* at = static_cast<const int64_t*>(places);
  for (size_t i = 0; i < n; ++i) {
    int64_t place = 0;
    for (size_t k = 0; k < width; ++k) {
      const int64_t one = at[i * width + k], limit = flat ? count : shape[k];
      if (one < 0 || one >= limit) return ASTER_FAIL(kFORMAT, "a sparse index outside its tensor");
      place = flat ? one : place * limit + one;
    }
    std::memcpy(static_cast<char*>(data) + static_cast<size_t>(place) * size,
                static_cast<const char*>(from) + i * size, size);
  }
  return kOk;
}

namespace {

// The element types of SequenceProto and OptionalProto.
Status read_item(Ref* out, const Files& files, const Source& source, const Field& f, int depth) {
  if (f.number == 3) return read_tensor(out, files, source, f.bytes);
  if (f.number == 4) return read_sparse(out, files, source, f.bytes);
  if (f.number == 5) return read_sequence(out, files, source, f.bytes, depth + 1);
  if (f.number == 7) return read_optional(out, files, source, f.bytes, depth + 1);
  return ASTER_FAIL(kUNSUPPORTED, "a value of field %u: maps are no values here", f.number);
}

}  // namespace

Status read_sequence(Ref* out, const Files& files, const Source& source, Bytes message, int depth) {
  if (depth > kMostDepth)
    return ASTER_FAIL(kFORMAT, "sequences nested more than %d deep", kMostDepth);
  Ref made;
  ASTER_TRY(make_value(&made, files.context.heap(), Kind::kSequence));
  Wire wire(message);
  while (!wire.done()) {
    Field f;
    ASTER_TRY(wire.next(&f));
    if (f.number < 3 || f.number > 7) continue;
    Ref item;
    ASTER_TRY(read_item(&item, files, source, f, depth));
    if (made->items.empty()) made->element = item->element;
    ASTER_TRY(made->items.push(item));
  }
  *out = std::move(made);
  return kOk;
}

Status read_optional(Ref* out, const Files& files, const Source& source, Bytes message, int depth) {
  if (depth > kMostDepth)
    return ASTER_FAIL(kFORMAT, "optionals nested more than %d deep", kMostDepth);
  Ref made;
  ASTER_TRY(make_value(&made, files.context.heap(), Kind::kNone));
  Wire wire(message);
  while (!wire.done()) {
    Field f;
    ASTER_TRY(wire.next(&f));
    if (f.number >= 3 && f.number <= 7) ASTER_TRY(read_item(&made, files, source, f, depth));
  }
  *out = std::move(made);
  return kOk;
}

namespace {

void put_varint(Text& out, uint64_t value) {
  while (value >= 0x80) {
    out << static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out << static_cast<char>(value);
}

void put_bytes(Text& out, unsigned field, std::string_view bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out << bytes;
}

void put_integer(Text& out, unsigned field, int64_t value) {
  put_varint(out, field << 3);
  put_varint(out, static_cast<uint64_t>(value));
}

unsigned float4_bits(float value) {
  for (unsigned bits = 0; bits < 8; ++bits) {
    if (static_cast<double>(std::fabs(value)) == float4(bits))
      return bits | (std::signbit(value) ? 8u : 0u);
  }
  return 7;
}

unsigned packed_bits(const void* data, size_t i, int32_t element) {
  if (element == kFloat4) return float4_bits(static_cast<const float*>(data)[i]);
  if (element != kFloat8E8M0) return static_cast<const uint8_t*>(data)[i];
  const float value = static_cast<const float*>(data)[i];
  return std::isnan(value) ? 255u : static_cast<unsigned>(std::ilogb(value) + 127);
}

Status write_tensor(Text& out, engine::Engine& engine, Value& value) {
  const Words shape =
      value.is_texts() ? Words(value.shape.data(), value.shape.size()) : value.node()->shape();
  for (const Word dim : shape) put_integer(out, 1, dim);
  put_integer(out, 2, value.element);
  if (value.is_texts()) {
    for (const Text& text : value.texts) put_bytes(out, 6, text.view());
    return out.status();
  }
  const void* data;
  ASTER_TRY(fetch(&data, engine, value));
  const auto count = static_cast<size_t>(value.node()->count());
  if (!is_packed(value.element)) {
    const size_t bytes = count * dtype::size(value.node()->dtype);
    put_bytes(out, 9, {static_cast<const char*>(data), bytes});
    return out.status();
  }
  Text packed(value.heap);
  const auto bits = static_cast<size_t>(element_info(value.element)->bits);
  unsigned byte = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t shift = bits * i % 8;
    byte |= (packed_bits(data, i, value.element) & ((1u << bits) - 1)) << shift;
    if (shift + bits == 8 || i + 1 == count) {
      packed << static_cast<char>(byte);
      byte = 0;
    }
  }
  ASTER_TRY(packed.status());
  put_bytes(out, 9, packed.view());
  return out.status();
}

Status write_item(Text& out, engine::Engine& engine, Value& item) {
  const bool sequence = item.kind == Kind::kSequence;
  Text inner(item.heap);
  ASTER_TRY(write_value(inner, engine, item, sequence ? Kind::kSequence : Kind::kTensor));
  put_bytes(out, sequence ? 5 : 3, inner.view());
  return out.status();
}

}  // namespace

Status write_value(Text& out, engine::Engine& engine, Value& value, Kind as) {
  if (as == Kind::kOptional) {
    const bool none = value.kind == Kind::kNone;
    put_integer(out, 2, none ? 0 : value.kind == Kind::kSequence ? 3 : 1);
    return none ? out.status() : write_item(out, engine, value);
  }
  if (as == Kind::kSequence && value.kind == Kind::kSequence) {
    const bool nested = !value.items.empty() && value.items[0]->kind == Kind::kSequence;
    put_integer(out, 2, nested ? 3 : 1);
    for (const Ref& item : value.items) ASTER_TRY(write_item(out, engine, *item));
    return out.status();
  }
  if (as == Kind::kTensor && value.kind == Kind::kTensor) return write_tensor(out, engine, value);
  return ASTER_FAIL(kDTYPE, "a value of kind %d as kind %d", static_cast<int>(value.kind),
                    static_cast<int>(as));
}

}  // namespace aster::nn::onnx
