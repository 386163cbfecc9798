// Files of torch.save: zip archives (since 1.6), sequences of pickles (since 0.1.10), and tar
// archives (before).
#include <algorithm>
#include <array>
#include <cstring>

#include "engine/engine.h"
#include "nn/archive.h"
#include "nn/torch_state.h"

namespace aster::nn {
namespace {

using Index = Pickle::Index;
using Value = Pickle::Value;

// ---- Zip archives ----

bool by_name(const Member* a, const Member* b) { return a->name < b->name; }

const Member* find_member(const Vec<const Member*>& sorted, std::string_view name) {
  Member wanted;
  wanted.name = name;
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), &wanted, by_name);
  return found != sorted.end() && (*found)->name == name ? *found : nullptr;
}

// Finds the bytes of every storage: files DATA/KEY that are stored as they are.
Status find_storages(Pickle& pickle, const Vec<const Member*>& sorted, std::string_view folder,
                     Memory& memory) {
  Text name(memory);
  for (Pickle::Storage& storage : pickle.storages()) {
    name.clear();
    name << folder << "data/" << storage.key;
    ASTER_TRY(name.status());
    const Member* member = find_member(sorted, name.view());
    if (member == nullptr) continue;
    if (member->deflated) return ASTER_FAIL(kUNSUPPORTED, "a torch file that is compressed");
    storage.found = true;
    storage.offset = member->begin;
    storage.bytes = member->size;
  }
  return kOk;
}

Status fill_from_zip(State& state, engine::Engine& engine, const Source& source) {
  constexpr std::string_view kData = "data.pkl", kOrder = "byteorder";
  Heap& heap = state.context->heap();
  Vec<Member> members(heap);
  ASTER_TRY(list_zip(&members, *state.context, source.bytes()));
  Vec<const Member*> sorted(heap);
  const Member* data = nullptr;
  for (const Member& member : members) {
    ASTER_TRY(sorted.push(&member));
    const bool own =
        member.name.ends_with(kData) && std::ranges::count(member.name, '/') <= 1 &&
        (member.name == kData || member.name[member.name.size() - kData.size() - 1] == '/');
    if (own && data == nullptr) data = &member;
  }
  std::sort(sorted.begin(), sorted.end(), by_name);
  if (data == nullptr) return damaged_torch("the archive has no data.pkl");
  const std::string_view folder = text_slice(data->name, 0, data->name.size() - kData.size());
  Text name(heap);
  name << folder << kOrder;
  ASTER_TRY(name.status());
  Source text;
  if (const Member* order = find_member(sorted, name.view())) {
    ASTER_TRY(extract(&text, *state.context, source, *order));
    if (text.size() < 6 || std::memcmp(text.data(), "little", 6) != 0) {
      return ASTER_FAIL(kUNSUPPORTED, "a torch file in another byte order");
    }
  }
  ASTER_TRY(extract(&text, *state.context, source, *data));
  Pickle pickle(heap, text.bytes(), state.skips_unknown);
  Index root;
  ASTER_TRY(pickle.load(&root));
  ASTER_TRY(find_storages(pickle, sorted, folder, heap));
  return fill_from_value(state, engine, source, pickle, root);
}

// ---- Sequences of pickles ----

constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);

// Whether a pickle of the magic number begins here.
bool is_sequence(std::span<const uint8_t> bytes) {
  // PROTO, a protocol, LONG1, its length
  return bytes.size() > 4 + kMagic.size() && bytes[0] == 0x80 && bytes[2] == 0x8a &&
         bytes[3] == kMagic.size() && std::memcmp(&bytes[4], kMagic.data(), kMagic.size()) == 0;
}

Status check_system(const Pickle& pickle, Index info) {
  if (pickle[info].kind != Pickle::kDict) return damaged_torch("its description of the system");
  const auto items = pickle.items(pickle[info]);
  for (size_t i = 0; i < items.size(); i += 2) {
    const Value &key = pickle[items[i]], &value = pickle[items[i + 1]];
    if (key.kind == Pickle::kText && key.text() == "little_endian" && value.word == 0) {
      return ASTER_FAIL(kUNSUPPORTED, "a torch file in another byte order");
    }
  }
  return kOk;
}

// Where the storage of a key lies, for every description of it.
class Keys {
 public:
  explicit Keys(Pickle& pickle, Memory& memory) : pickle_(pickle), sorted_(memory) {}
  Status sort() {
    for (Pickle::Storage& storage : pickle_.storages()) ASTER_TRY(sorted_.push(&storage));
    std::sort(sorted_.begin(), sorted_.end(), before);
    return kOk;
  }
  std::span<Pickle::Storage*> of(std::string_view key) {
    Pickle::Storage wanted{DType::kNone, key, 0, 0};
    const auto range = std::equal_range(sorted_.begin(), sorted_.end(), &wanted, before);
    return {range.first, range.second};
  }

 private:
  static bool before(const Pickle::Storage* a, const Pickle::Storage* b) { return a->key < b->key; }
  Pickle& pickle_;
  Vec<Pickle::Storage*> sorted_;
};

// An element count and the elements, for every key in turn.
Status find_in_sequence(Pickle& pickle, Index keys, std::span<const uint8_t> bytes,
                        Memory& memory) {
  if (pickle[keys].kind != Pickle::kList) return damaged_torch("its list of storages");
  Keys index(pickle, memory);
  ASTER_TRY(index.sort());
  size_t at = pickle.at();
  for (const Index item : pickle.items(pickle[keys])) {
    const Value& key = pickle[item];
    if (key.kind != Pickle::kText) return damaged_torch("its list of storages");
    const auto storages = index.of(key.text());
    if (storages.empty() || storages[0]->dtype == DType::kNone || bytes.size() - at < 8) {
      return damaged_torch("a storage");
    }
    const uint64_t count = little<uint64_t>(&bytes[at]);
    const size_t size = dtype::size(storages[0]->dtype);
    at += 8;
    if (count > (bytes.size() - at) / size) return damaged_torch("a storage is cut short");
    for (Pickle::Storage* storage : storages) {
      storage->found = storage->dtype == storages[0]->dtype;
      storage->offset = at;
      storage->bytes = static_cast<size_t>(count) * size;
    }
    at += static_cast<size_t>(count) * size;
  }
  return kOk;
}

Status fill_from_sequence(State& state, engine::Engine& engine, const Source& source) {
  Heap& heap = state.context->heap();
  Pickle pickle(heap, source.bytes(), state.skips_unknown);
  Index magic, protocol, system, root, keys;
  for (Index* value : {&magic, &protocol, &system, &root, &keys}) ASTER_TRY(pickle.load(value));
  int64_t version;
  ASTER_TRY(pickle.to_integer(&version, protocol));
  if (version != 1001) return ASTER_FAIL(kUNSUPPORTED, "a torch file of another version");
  ASTER_TRY(check_system(pickle, system));
  ASTER_TRY(find_in_sequence(pickle, keys, source.bytes(), heap));
  return fill_from_value(state, engine, source, pickle, root);
}

// ---- Tar archives ----

// Three files: storages, tensors over them, and a pickle that names tensors.
class TarFilling {
 public:
  TarFilling(State& state, engine::Engine& engine, const Source& source)
      : state_(state), engine_(engine), source_(source) {}

  Status fill() {
    Heap& heap = state_.context->heap();
    ASTER_TRY(each_tar(heap, source_.bytes(), take, this));
    for (const Member& part : parts_) {
      if (part.packed == 0) return damaged_torch("the archive lacks a file");
    }
    // One machine reads all three, each no further than it goes.
    Pickle pickle(heap, source_.bytes().first(parts_[0].begin + parts_[0].size),
                  state_.skips_unknown);
    Map<int64_t, Index> storages(heap);
    ASTER_TRY(read_storages(pickle, storages));
    pickle.limit(source_.bytes().first(parts_[1].begin + parts_[1].size));
    ASTER_TRY(read_tensors(pickle, storages));
    pickle.limit(source_.bytes().first(parts_[2].begin + parts_[2].size));
    pickle.seek(parts_[2].begin);
    Index root;
    ASTER_TRY(pickle.load(&root));
    return fill_from_value(state_, engine_, source_, pickle, root);
  }

 private:
  static Status take(void* self, const Member& member) {
    constexpr std::string_view kParts[] = {"storages", "tensors", "pickle"};
    for (size_t i = 0; i < 3; ++i) {
      if (member.name == kParts[i]) static_cast<TarFilling*>(self)->parts_[i] = member;
    }
    return kOk;
  }

  Status read_count(Pickle& pickle, size_t part, int64_t* count) {
    pickle.seek(parts_[part].begin);
    Index value;
    ASTER_TRY(pickle.load(&value));
    return pickle.to_integer(count, value);
  }

  // A tuple of three; its first part, a number.
  static Status read_key(Pickle& pickle, std::array<Value, 3>* parts, int64_t* key) {
    Index value;
    ASTER_TRY(pickle.load(&value));
    if (pickle[value].kind != Pickle::kTuple || pickle.items(pickle[value]).size() != 3) {
      return damaged_torch("a description");
    }
    const auto items = pickle.items(pickle[value]);
    for (size_t i = 0; i < 3; ++i) (*parts)[i] = pickle[items[i]];
    return pickle.to_integer(key, items[0]);
  }

  Status read_storages(Pickle& pickle, Map<int64_t, Index>& storages) {
    const size_t end = parts_[0].begin + parts_[0].size;
    int64_t count, key;
    ASTER_TRY(read_count(pickle, 0, &count));
    for (int64_t i = 0; i < count; ++i) {
      std::array<Value, 3> parts;  // key, location, type
      ASTER_TRY(read_key(pickle, &parts, &key));
      if (parts[2].kind != Pickle::kGlobal || parts[2].word != Pickle::kStorageType ||
          end - pickle.at() < 8) {
        return damaged_torch("a storage");
      }
      const uint64_t elements = little<uint64_t>(&source_.bytes()[pickle.at()]);
      const size_t at = pickle.at() + 8, size = dtype::size(parts[2].extra);
      if (elements > (end - at) / size) return damaged_torch("a storage is cut short");
      Pickle::Storage storage{parts[2].extra, {}, static_cast<int64_t>(elements), 0};
      storage.found = true;
      storage.offset = at;
      storage.bytes = static_cast<size_t>(elements) * size;
      ASTER_TRY(storages.set(key, static_cast<Index>(pickle.storages().size())));
      ASTER_TRY(pickle.storages().push(storage));
      pickle.seek(at + storage.bytes);
    }
    return kOk;
  }

  Status read_tensors(Pickle& pickle, const Map<int64_t, Index>& storages) {
    const size_t end = parts_[1].begin + parts_[1].size;
    int64_t count, key;
    ASTER_TRY(read_count(pickle, 1, &count));
    for (int64_t i = 0; i < count; ++i) {
      std::array<Value, 3> parts;  // key, storage, type
      ASTER_TRY(read_key(pickle, &parts, &key));
      const Index* storage = storages.find(parts[1].word);
      size_t at = pickle.at();
      if (storage == nullptr || parts[1].kind != Pickle::kInt || end - at < 8) {
        return damaged_torch("a tensor");
      }
      const uint32_t ndim = little<uint32_t>(&source_.bytes()[at]);
      at += 8;  // four bytes are padding
      if (ndim >= uop::Dims::kMost || end - at < (2 * size_t{ndim} + 1) * 8) {
        return damaged_torch("a tensor");
      }
      const uint8_t* words = &source_.bytes()[at];
      Pickle::Tensor tensor;
      tensor.storage = *storage;
      tensor.dtype = pickle.storages()[*storage].dtype;
      ASTER_TRY(pickle.add_integers(&tensor.sizes, words, ndim));
      ASTER_TRY(pickle.add_integers(&tensor.strides, words + size_t{ndim} * 8, ndim));
      tensor.offset = little<int64_t>(words + size_t{ndim} * 16);
      ASTER_TRY(pickle.add_tensor(key, tensor));
      pickle.seek(at + (2 * size_t{ndim} + 1) * 8);
    }
    return kOk;
  }

  State& state_;
  engine::Engine& engine_;
  const Source& source_;
  std::array<Member, 3> parts_{};
};

}  // namespace

Status fill_torch(State& state, const Source& source) {
  engine::Engine* engine;
  ASTER_TRY(engine::engine_of(&engine, *state.context));
  // A pickle may end in what looks like the end of an archive; its beginning is sure.
  if (is_sequence(source.bytes())) return fill_from_sequence(state, *engine, source);
  if (is_zip(source.bytes())) return fill_from_zip(state, *engine, source);
  if (is_tar(source.bytes())) return TarFilling(state, *engine, source).fill();
  return ASTER_FAIL(kFORMAT, "%zu bytes are no torch file", source.size());
}

static Status fill_torch_skipping(State& state, const Source& source) {
  state.skips_unknown = true;
  return fill_torch(state, source);
}

}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions

int32_t aster_ml_state_read_torch(aster_ml_state* out, const aster_ml_context* context,
                                  const char* path) {
  ASTER_API();
  return read_state(out, context, path, fill_torch);
}

int32_t aster_ml_state_from_torch(aster_ml_state* out, const aster_ml_lazy* bytes) {
  ASTER_API();
  return read_state(out, bytes, fill_torch);
}

int32_t aster_ml_state_read_torch_skipping(aster_ml_state* out, const aster_ml_context* context,
                                           const char* path) {
  ASTER_API();
  return read_state(out, context, path, fill_torch_skipping);
}

int32_t aster_ml_state_from_torch_skipping(aster_ml_state* out, const aster_ml_lazy* bytes) {
  ASTER_API();
  return read_state(out, bytes, fill_torch_skipping);
}
