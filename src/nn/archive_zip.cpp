// Zip archives (PKWARE's application note), with the records of archives beyond 4 GiB; gzip (RFC
// 1952).
#include <algorithm>
#include <array>
#include <cstring>

#include "base/utf8.h"
#include "engine/engine.h"
#include "nn/archive.h"
#include "nn/inflate.h"

namespace aster::nn {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint32_t kEndMark = 0x06054b50, kFarEndMark = 0x06064b50, kLocatorMark = 0x07064b50;
constexpr uint32_t kEntryMark = 0x02014b50, kFileMark = 0x04034b50;
constexpr size_t kEndSize = 22, kFarEndSize = 56, kLocatorSize = 20, kEntrySize = 46,
                 kFileSize = 30;
constexpr size_t kMostComment = 65535;
constexpr uint16_t kFarField = 1;  // of the extra fields: sizes and offset of 64 bits
constexpr uint32_t kFar = 0xFFFFFFFF;
constexpr uint16_t kStored = 0, kDeflated = 8;

Status damaged(const char* what) { return ASTER_FAIL(kFORMAT, "a damaged zip archive: %s", what); }

// Where the end record begins; false if there is none.
bool find_end(size_t* out, Bytes bytes) {
  if (bytes.size() < kEndSize) return false;
  const size_t last = bytes.size() - kEndSize;
  for (size_t at = last;; --at) {
    if (little<uint32_t>(&bytes[at]) == kEndMark &&
        at + kEndSize + little<uint16_t>(&bytes[at + 20]) <= bytes.size()) {
      *out = at;
      return true;
    }
    if (at == 0 || last - at == kMostComment) return false;
  }
}

struct Directory {
  uint64_t count, begin, size;
  uint64_t before;  // bytes in front of the archive, that its offsets do not know of
};

Status read_end(Directory* out, Bytes bytes) {
  size_t end;
  if (!find_end(&end, bytes)) return damaged("it has no end record");
  const uint8_t* record = &bytes[end];
  *out = {little<uint16_t>(record + 10), little<uint32_t>(record + 16),
          little<uint32_t>(record + 12), 0};
  size_t behind = end;  // of the directory
  if (end >= kLocatorSize && little<uint32_t>(record - kLocatorSize) == kLocatorMark) {
    // The far record lies right before its locator.
    if (end < kLocatorSize + kFarEndSize) return damaged("its 64-bit end record");
    behind = end - kLocatorSize - kFarEndSize;
    record = &bytes[behind];
    if (little<uint32_t>(record) != kFarEndMark) return damaged("its 64-bit end record");
    *out = {little<uint64_t>(record + 32), little<uint64_t>(record + 48),
            little<uint64_t>(record + 40), 0};
  }
  uint64_t place;
  if (!checked_add(out->begin, out->size, &place) || place > behind) {
    return damaged("its directory lies outside");
  }
  out->before = behind - place;
  out->begin += out->before;
  return kOk;
}

// The 64-bit fields that stand for those with all bits set.
Status read_far(Bytes extra, uint64_t* size, uint64_t* packed, uint64_t* offset) {
  while (extra.size() >= 4) {
    const size_t length = little<uint16_t>(&extra[2]);
    if (length > extra.size() - 4) return damaged("an extra field");
    Bytes field = extra.subspan(4, length);
    if (little<uint16_t>(extra.data()) == kFarField) {
      for (uint64_t* value : {size, packed, offset}) {
        if (*value != kFar) continue;
        if (field.size() < 8) return damaged("a 64-bit field");
        *value = little<uint64_t>(field.data());
        field = field.subspan(8);
      }
      return kOk;
    }
    extra = extra.subspan(4 + length);
  }
  return kOk;
}

// The member of a directory's entry. header: where its own record begins.
Status read_entry(Member* out, uint64_t* header, Bytes entry, Bytes extra) {
  const uint16_t flags = little<uint16_t>(&entry[8]), method = little<uint16_t>(&entry[10]);
  if (!is_utf8(out->name)) return ASTER_FAIL(kFORMAT, "a name in the archive is not UTF-8");
  const int length = static_cast<int>(std::min<size_t>(out->name.size(), 200));
  if ((flags & 1) != 0) {
    return ASTER_FAIL(kUNSUPPORTED, "'%.*s' is encrypted", length, out->name.data());
  }
  if (method != kStored && method != kDeflated) {
    return ASTER_FAIL(kUNSUPPORTED, "'%.*s' is compressed by method %d", length, out->name.data(),
                      method);
  }
  uint64_t packed = little<uint32_t>(&entry[20]), size = little<uint32_t>(&entry[24]);
  *header = little<uint32_t>(&entry[42]);
  ASTER_TRY(read_far(extra, &size, &packed, header));
  out->deflated = method == kDeflated;
  out->crc = little<uint32_t>(&entry[16]);
  if (out->deflated ? size / kMostInflation > packed : size != packed) {
    return damaged("the size of a file");
  }
  out->packed = packed;
  out->size = size;
  return kOk;
}

// Finds the bytes of a member behind its own record.
Status find_bytes(Member* member, Bytes bytes, const Directory& directory, uint64_t header) {
  if (!checked_add(header, directory.before, &header) || header > directory.begin ||
      directory.begin - header < kFileSize) {
    return damaged("a file's record lies outside");
  }
  const uint8_t* record = &bytes[header];
  if (little<uint32_t>(record) != kFileMark) return damaged("a file's record");
  const uint64_t begin =
      header + kFileSize + little<uint16_t>(record + 26) + little<uint16_t>(record + 28);
  if (begin > directory.begin || member->packed > directory.begin - begin) {
    return damaged("a file lies outside");
  }
  member->begin = begin;
  return kOk;
}

Status check_overlaps(Vec<Member>& members) {
  Vec<const Member*> order(members.memory());
  for (const Member& member : members) ASTER_TRY(order.push(&member));
  std::sort(order.begin(), order.end(), [](const Member* a, const Member* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->packed < b->packed;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->begin + order[i - 1]->packed > order[i]->begin) {
      return damaged("two files overlap");
    }
  }
  return kOk;
}

// Small archives may come to much by right; a bomb is both large and out of proportion.
Status check_unpacked(const Context& context, size_t packed, uint64_t unpacked) {
  constexpr uint64_t kAlways = uint64_t{64} << 20, kRatio = 100;
  uint64_t limit = context.archive_limit();
  if (limit == 0)
    limit = std::max(kAlways, kRatio * std::min<uint64_t>(packed, UINT64_MAX / kRatio));
  if (unpacked <= limit) return kOk;
  return ASTER_FAIL(kRANGE,
                    "an archive of %zu bytes unpacks to %llu, more than the limit of %llu "
                    "(aster_ml_context_set_archive_limit)",
                    packed, static_cast<unsigned long long>(unpacked),
                    static_cast<unsigned long long>(limit));
}

}  // namespace

bool is_zip(std::span<const uint8_t> bytes) {
  size_t end;
  return find_end(&end, bytes);
}

Status list_zip(Vec<Member>* out, const Context& context, std::span<const uint8_t> bytes) {
  Directory directory;
  uint64_t unpacked = 0;
  ASTER_TRY(read_end(&directory, bytes));
  Bytes rest = bytes.subspan(directory.begin, directory.size);
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < kEntrySize || little<uint32_t>(rest.data()) != kEntryMark) {
      return damaged("its directory");
    }
    const size_t name = little<uint16_t>(&rest[28]), extra = little<uint16_t>(&rest[30]);
    const size_t whole = kEntrySize + name + extra + little<uint16_t>(&rest[32]);
    if (whole > rest.size()) return damaged("its directory");
    Member member;
    member.name = {reinterpret_cast<const char*>(rest.data()) + kEntrySize, name};
    uint64_t header;
    ASTER_TRY(read_entry(&member, &header, rest, rest.subspan(kEntrySize + name, extra)));
    ASTER_TRY(find_bytes(&member, bytes, directory, header));
    ASTER_TRY(out->push(member));
    // Each is at most kMostInflation times what lies in the file: no sum of them overflows.
    if (member.deflated) unpacked += member.size;
    rest = rest.subspan(whole);
  }
  ASTER_TRY(check_overlaps(*out));
  return check_unpacked(context, bytes.size(), unpacked);
}

Status extract(Source* out, Context& context, const Source& archive, const Member& member) {
  if (!member.deflated) {
    *out = archive.slice(member.begin, member.size);
    return kOk;
  }
  Source made;
  ASTER_TRY(create_source(&made, context, member.size));
  uint8_t* data = static_cast<uint8_t*>(made.storage()->data);
  size_t used;
  ASTER_TRY(inflate({data, member.size}, archive.bytes().subspan(member.begin, member.packed),
                    &used, context.heap()));
  if (crc32(made.bytes()) != member.crc) return damaged("the checksum of a file");
  *out = std::move(made);
  return kOk;
}

Status unzip_gzip(Source* out, Context& context, const Source& archive) {
  constexpr uint8_t kCrc = 2, kExtra = 4, kName = 8, kComment = 16;
  const Bytes bytes = archive.bytes();
  if (bytes.size() < 18 || bytes[0] != 0x1F || bytes[1] != 0x8B) {
    *out = archive.slice(0, archive.size());
    return kOk;
  }
  const auto broken = [] { return ASTER_FAIL(kFORMAT, "a damaged gzip file"); };
  const uint8_t flags = bytes[3];
  if (bytes[2] != kDeflated || (flags & 0xE0) != 0) return broken();
  size_t at = 10;
  if ((flags & kExtra) != 0) at += 2u + little<uint16_t>(&bytes[at]);
  for (const uint8_t text : {kName, kComment}) {
    if ((flags & text) == 0) continue;
    while (at < bytes.size() && bytes[at] != 0) ++at;
    ++at;
  }
  if ((flags & kCrc) != 0) at += 2;
  if (at > bytes.size() - 8) return broken();
  const uint8_t* end = &bytes[bytes.size() - 8];
  const Bytes packed = bytes.subspan(at, bytes.size() - 8 - at);
  const size_t size = little<uint32_t>(end + 4);
  if (size / kMostInflation > packed.size()) return broken();
  ASTER_TRY(check_unpacked(context, bytes.size(), size));
  Source made;
  ASTER_TRY(create_source(&made, context, size));
  size_t used;
  ASTER_TRY(
      inflate({static_cast<uint8_t*>(made.storage()->data), size}, packed, &used, context.heap()));
  if (used != packed.size() || crc32(made.bytes()) != little<uint32_t>(end)) return broken();
  *out = std::move(made);
  return kOk;
}

Status fill_zip(State& state, const Source& source) {
  engine::Engine* engine;
  ASTER_TRY(engine::engine_of(&engine, *state.context));
  Vec<Member> members(state.context->heap());
  ASTER_TRY(list_zip(&members, *state.context, source.bytes()));
  for (const Member& member : members) {
    if (member.name.empty()) return damaged("a file without a name");
    Source file;
    ASTER_TRY(extract(&file, *state.context, source, member));
    Shared parameter;
    ASTER_TRY(place(&parameter, *engine, file, 0, DType::kUInt8,
                    std::array{static_cast<Word>(member.size)}));
    ASTER_TRY(state.set(member.name, parameter));
  }
  return kOk;
}

}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions

int32_t aster_ml_state_read_zip(aster_ml_state* out, const aster_ml_context* context,
                                const char* path) {
  ASTER_API();
  return read_state(out, context, path, fill_zip);
}

int32_t aster_ml_state_from_zip(aster_ml_state* out, const aster_ml_lazy* bytes) {
  ASTER_API();
  return read_state(out, bytes, fill_zip);
}
