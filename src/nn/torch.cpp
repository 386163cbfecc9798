// Files of torch.save: zip archives (since 1.6), sequences of pickles (since 0.1.10), and tar
// archives (before).
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "buffer/strided.h"
#include "engine/engine.h"
#include "nn/archive.h"
#include "nn/json.h"
#include "nn/pickle.h"
#include "nn/source.h"

namespace aster::nn {
namespace {

using Index = Pickle::Index;
using Value = Pickle::Value;

// 2^32 and more of JSON out of a small pickle, by lists that hold others many times.
constexpr size_t kMostVisits = size_t{1} << 22;
constexpr int kMostDepth = 100;
constexpr size_t kMostOverlap = 16;  // copies of an element in one tensor
constexpr int64_t kMostAlike = 64;   // tensors whose names read the same

Status damaged(const char* what) { return ASTER_FAIL(kFORMAT, "a damaged torch file: %s", what); }

// ---- Tensors ----

// A tensor's place in its storage, bounds checked.
struct Layout {
  uop::Dims shape;
  uop::Dims kept, strides;  // axes of more than one element that move; their strides
  size_t offset = 0;        // bytes in the source
  size_t count = 1;         // elements of the kept axes
};

Status read_layout(Layout* out, const Pickle& pickle, const Pickle::Tensor& tensor,
                   const Pickle::Storage& storage) {
  const auto sizes = pickle.items(pickle[tensor.sizes]);
  const auto strides = pickle.items(pickle[tensor.strides]);
  if (sizes.size() != strides.size() || sizes.size() >= uop::Dims::kMost) {
    return damaged("sizes and strides of a tensor");
  }
  const int64_t size = static_cast<int64_t>(dtype::size(tensor.dtype));
  int64_t last = 0, first, elements = 1;
  bool fits = checked_add(storage.begin, tensor.offset, &first) && tensor.offset >= 0, none = false;
  if (storage.dtype == DType::kNone) fits = fits && storage.begin == 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t dim, stride, span;
    ASTER_TRY(pickle.to_integer(&dim, sizes[i]));
    ASTER_TRY(pickle.to_integer(&stride, strides[i]));
    if (dim < 0 || stride < 0) return damaged("a negative size or stride");
    out->shape.push(dim);
    none |= dim == 0;
    fits = fits && checked_mul(elements, std::max<int64_t>(dim, 1), &elements);
    if (dim <= 1) continue;
    fits = fits && checked_mul(dim - 1, stride, &span) && checked_add(last, span, &last);
    if (stride == 0) continue;
    out->kept.push(static_cast<Word>(i));
    out->strides.push(stride);
    if (fits) out->count *= static_cast<size_t>(dim);
  }
  int64_t bytes, end, begin;
  fits = fits && checked_mul(elements, size, &bytes);
  if (!fits) return damaged("the shape of a tensor overflows");
  if (none) return kOk;
  if (!checked_mul(first, size, &begin) || !checked_add(first, last, &end) ||
      !checked_add(end, int64_t{1}, &end) || !checked_mul(end, size, &end) || end < 0 ||
      static_cast<uint64_t>(end) > storage.bytes) {
    return damaged("a tensor reaches outside its storage");
  }
  out->offset = storage.offset + static_cast<size_t>(begin);
  return kOk;
}

class Placing {
 public:
  Placing(engine::Engine& engine, const Source& source)
      : engine_(engine), g_(engine::graph_of(engine)), source_(source) {}

  // Row-major where it lies, permuted or expanded; anything else is copied.
  Status place(Shared* out, const Pickle& pickle, const Pickle::Tensor& tensor,
               const Pickle::Storage& storage) {
    if (!storage.found) return damaged("a storage is missing");
    Layout layout;
    ASTER_TRY(read_layout(&layout, pickle, tensor, storage));
    const Words shape = layout.shape;
    if (std::ranges::find(shape, 0) != shape.end()) {
      return nn::place(out, engine_, source_, 0, tensor.dtype, shape);
    }
    uop::Dims order, sizes;  // kept axes, the widest stride first
    sort_axes(layout, &order, &sizes);
    int64_t expected = 1;
    bool packed = true;
    for (size_t i = order.size(); i-- > 0;) {
      packed = packed && layout.strides[static_cast<size_t>(order[i])] == expected;
      expected *= sizes[i];
    }
    Shared base;
    if (packed) {
      ASTER_TRY(nn::place(&base, engine_, source_, layout.offset, tensor.dtype, sizes));
    } else {
      ASTER_TRY(copy(&base, layout, tensor.dtype, storage.bytes));
    }
    if (std::ranges::equal(base.node()->shape(), shape)) {
      *out = std::move(base);
      return kOk;
    }
    return Shared::make(out, engine_, arranged(base.node(), layout, order, packed), false);
  }

 private:
  static void sort_axes(const Layout& layout, uop::Dims* order, uop::Dims* sizes) {
    for (size_t i = 0; i < layout.kept.size(); ++i) order->push(static_cast<Word>(i));
    for (size_t i = 1; i < order->size(); ++i) {
      for (size_t j = i; j > 0; --j) {
        Word &a = (*order)[j - 1], &b = (*order)[j];
        if (layout.strides[static_cast<size_t>(a)] >= layout.strides[static_cast<size_t>(b)]) break;
        std::swap(a, b);
      }
    }
    for (const Word axis : Words(*order)) {
      sizes->push(layout.shape[static_cast<size_t>(layout.kept[static_cast<size_t>(axis)])]);
    }
  }

  // The kept axes copied in their own order.
  Status copy(Shared* out, const Layout& layout, DType dtype, size_t storage_bytes) {
    const size_t size = dtype::size(dtype), bytes = layout.count * size;
    if (bytes / kMostOverlap > storage_bytes) {
      return ASTER_FAIL(kUNSUPPORTED, "a tensor that reads the elements of its storage many times");
    }
    size_t shape[uop::Dims::kMost];
    ptrdiff_t strides[uop::Dims::kMost];
    uop::Dims kept;
    for (size_t i = 0; i < layout.kept.size(); ++i) {
      const Word dim = layout.shape[static_cast<size_t>(layout.kept[i])];
      kept.push(dim);
      shape[i] = static_cast<size_t>(dim);
      strides[i] = layout.strides[i];
    }
    aster_ml_tensor from{};
    from.storage = {source_.storage()->data, source_.storage()->bytes, static_cast<int32_t>(dtype),
                    source_.storage()->device};
    from.byte_offset = source_.offset() + layout.offset;
    from.ndim = kept.size();
    from.shape = shape;
    from.strides = strides;
    from.dtype = static_cast<int32_t>(dtype);
    from.device = source_.storage()->device;
    Source made;
    ASTER_TRY(create_source(&made, engine_.context, bytes));
    ASTER_TRY(buffer::gather(made.storage()->data, buffer::kHost, from));
    return nn::place(out, engine_, made, 0, dtype, kept);
  }

  // The kept axes brought into their order, the others put between them.
  Node arranged(Node base, const Layout& layout, const uop::Dims& order, bool permute) {
    if (permute) {
      uop::Dims axes(order.size(), 0);
      for (size_t i = 0; i < order.size(); ++i) {
        axes[static_cast<size_t>(order[i])] = static_cast<Word>(i);
      }
      base = g_.permute(base, axes);
    }
    uop::Dims ones(layout.shape.size(), 1);
    for (const Word axis : Words(layout.kept)) {
      ones[static_cast<size_t>(axis)] = layout.shape[static_cast<size_t>(axis)];
    }
    return uop::broadcast_to(g_, g_.reshape(base, ones), layout.shape);
  }

  engine::Engine& engine_;
  Graph& g_;
  const Source& source_;
};

// ---- From the value of a pickle to a state ----

class Filling {
 public:
  Filling(State& state, engine::Engine& engine, const Source& source, Pickle& pickle)
      : state_(state),
        pickle_(pickle),
        placing_(engine, source),
        path_(state.context->heap()),
        json_(state.context->heap()) {}

  Status fill(Index root) {
    ASTER_TRY(visit(root, 0));
    ASTER_TRY(json_.status());
    return state_.set_note("structure", json_.view().data(), json_.view().size());
  }

 private:
  Status visit(Index index, int depth) {
    if (depth > kMostDepth) return damaged("it is nested too deep");
    if (++visits_ > kMostVisits) return damaged("it is too large");
    const Value& value = pickle_[index];
    switch (value.kind) {
      case Pickle::kTuple:
        return visit_items(value, "{\"tuple\":[", "]}", depth);
      case Pickle::kList:
        return visit_items(value, "[", "]", depth);
      case Pickle::kSet:
        return visit_items(value, "{\"set\":[", "]}", depth);
      case Pickle::kDict:
        return visit_dict(value, depth);
      case Pickle::kTensor:
        return visit_tensor(pickle_.tensors()[static_cast<size_t>(value.word)]);
      default:
        return write_plain(value);
    }
  }

  Status visit_items(const Value& value, std::string_view open, std::string_view close, int depth) {
    json_ << open;
    int64_t position = 0;
    for (const Index item : pickle_.items(value)) {
      if (position != 0) json_ << ',';
      const size_t before = path_.view().size();
      enter();
      path_ << position++;
      ASTER_TRY(visit(item, depth + 1));
      path_.truncate(before);
    }
    json_ << close;
    return kOk;
  }

  Status visit_dict(const Value& value, int depth) {
    const auto items = pickle_.items(value);
    json_ << "{\"dict\":[";
    for (size_t i = 0; i < items.size(); i += 2) {
      const size_t before = path_.view().size();
      json_ << (i == 0 ? "[" : ",[");
      ASTER_TRY(visit_key(items[i], static_cast<int64_t>(i / 2)));
      json_ << ',';
      ASTER_TRY(visit(items[i + 1], depth + 1));
      json_ << ']';
      path_.truncate(before);
    }
    json_ << "]}";
    return kOk;
  }

  // A key joins the path as it reads; one that is no text or number by its position.
  Status visit_key(Index index, int64_t position) {
    const Value& key = pickle_[index];
    enter();
    if (key.kind == Pickle::kText && is_utf8(key.text())) {
      path_ << key.text();
    } else if (key.kind == Pickle::kInt) {
      path_ << key.word;
    } else {
      path_ << position;
    }
    if (key.kind == Pickle::kTensor || key.kind == Pickle::kDict || key.kind == Pickle::kList ||
        key.kind == Pickle::kSet) {
      return damaged("a key that cannot be one");
    }
    return visit(index, kMostDepth - 2);  // tuples of plain values
  }

  void enter() {
    if (!path_.view().empty()) path_ << '.';
  }

  Status visit_tensor(const Pickle::Tensor& tensor) {
    Text name(state_.context->heap());
    name << (path_.view().empty() ? std::string_view("value") : path_.view());
    const size_t plain = name.view().size();
    // Keys with dots in them may meet.
    for (int64_t again = 2; state_.find(name.view()) != nullptr; ++again) {
      name.truncate(plain);
      if (again > kMostAlike) return damaged("too many tensors of one name");
      name << '#' << again;
      ASTER_TRY(name.status());
    }
    ASTER_TRY(name.status());
    Shared parameter;
    ASTER_TRY(placing_.place(&parameter, pickle_, tensor, pickle_.storages()[tensor.storage]));
    ASTER_TRY(state_.set(name.view(), parameter));
    json_ << "{\"tensor\":";
    write_json_string(json_, name.view());
    json_ << '}';
    return kOk;
  }

  void write_hex(std::string_view key, std::string_view data, bool reversed) {
    json_ << "{\"" << key << "\":\"";
    for (size_t i = 0; i < data.size(); ++i) {
      const char c = data[reversed ? data.size() - 1 - i : i];
      json_.format("%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
    json_ << "\"}";
  }

  // UTF-8 of points below 256, a byte each.
  Status write_latin(std::string_view text) {
    Text bytes(state_.context->heap());
    for (size_t i = 0; i < text.size(); ++i) {
      unsigned point = static_cast<unsigned char>(text[i]);
      if (point >= 0x80) {
        if ((point & 0xFE) != 0xC2 || i + 1 == text.size()) return damaged("bytes written as text");
        point = (point & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3Fu);
      }
      bytes << static_cast<char>(point);
    }
    ASTER_TRY(bytes.status());
    write_hex("bytes", bytes.view(), false);
    return json_.status();
  }

  Status write_plain(const Value& value) {
    switch (value.kind) {
      case Pickle::kNone:
        json_ << "null";
        break;
      case Pickle::kBool:
        json_ << (value.word != 0 ? "true" : "false");
        break;
      case Pickle::kInt:
        json_ << value.word;
        break;
      case Pickle::kBig:
        write_hex("int", value.text(), true);
        break;
      case Pickle::kFloat: {
        const double number = std::bit_cast<double>(value.word);
        if (std::isfinite(number)) {
          json_.format("%.17g", number);
          if (json_.view().find_last_of(".en") == std::string_view::npos) json_ << ".0";
        } else {
          json_ << "{\"float\":\""
                << (number != number ? "nan"
                    : number > 0     ? "inf"
                                     : "-inf")
                << "\"}";
        }
        break;
      }
      case Pickle::kLatin:
        return write_latin(value.text());
      case Pickle::kText:
        if (is_utf8(value.text())) {
          write_json_string(json_, value.text());
          break;
        }
        [[fallthrough]];
      case Pickle::kBytes:
        write_hex("bytes", value.text(), false);
        break;
      default:
        return damaged("a value that is none");
    }
    return json_.status();
  }

  State& state_;
  Pickle& pickle_;
  Placing placing_;
  Text path_, json_;
  size_t visits_ = 0;
};

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
  ASTER_TRY(list_zip(&members, source.bytes()));
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
  if (data == nullptr) return damaged("the archive has no data.pkl");
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
  Pickle pickle(heap, text.bytes());
  Index root;
  ASTER_TRY(pickle.load(&root));
  ASTER_TRY(find_storages(pickle, sorted, folder, heap));
  return Filling(state, engine, source, pickle).fill(root);
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
  if (pickle[info].kind != Pickle::kDict) return damaged("its description of the system");
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
  if (pickle[keys].kind != Pickle::kList) return damaged("its list of storages");
  Keys index(pickle, memory);
  ASTER_TRY(index.sort());
  size_t at = pickle.at();
  for (const Index item : pickle.items(pickle[keys])) {
    const Value& key = pickle[item];
    if (key.kind != Pickle::kText) return damaged("its list of storages");
    const auto storages = index.of(key.text());
    if (storages.empty() || storages[0]->dtype == DType::kNone || bytes.size() - at < 8) {
      return damaged("a storage");
    }
    const uint64_t count = little<uint64_t>(&bytes[at]);
    const size_t size = dtype::size(storages[0]->dtype);
    at += 8;
    if (count > (bytes.size() - at) / size) return damaged("a storage is cut short");
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
  Pickle pickle(heap, source.bytes());
  Index magic, protocol, system, root, keys;
  for (Index* value : {&magic, &protocol, &system, &root, &keys}) ASTER_TRY(pickle.load(value));
  int64_t version;
  ASTER_TRY(pickle.to_integer(&version, protocol));
  if (version != 1001) return ASTER_FAIL(kUNSUPPORTED, "a torch file of another version");
  ASTER_TRY(check_system(pickle, system));
  ASTER_TRY(find_in_sequence(pickle, keys, source.bytes(), heap));
  return Filling(state, engine, source, pickle).fill(root);
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
      if (part.packed == 0) return damaged("the archive lacks a file");
    }
    // One machine reads all three, each no further than it goes.
    Pickle pickle(heap, source_.bytes().first(parts_[0].begin + parts_[0].size));
    Map<int64_t, Index> storages(heap);
    ASTER_TRY(read_storages(pickle, storages));
    pickle.limit(source_.bytes().first(parts_[1].begin + parts_[1].size));
    ASTER_TRY(read_tensors(pickle, storages));
    pickle.limit(source_.bytes().first(parts_[2].begin + parts_[2].size));
    pickle.seek(parts_[2].begin);
    Index root;
    ASTER_TRY(pickle.load(&root));
    return Filling(state_, engine_, source_, pickle).fill(root);
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
      return damaged("a description");
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
        return damaged("a storage");
      }
      const uint64_t elements = little<uint64_t>(&source_.bytes()[pickle.at()]);
      const size_t at = pickle.at() + 8, size = dtype::size(parts[2].extra);
      if (elements > (end - at) / size) return damaged("a storage is cut short");
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
        return damaged("a tensor");
      }
      const uint32_t ndim = little<uint32_t>(&source_.bytes()[at]);
      at += 8;  // four bytes are padding
      if (ndim >= uop::Dims::kMost || end - at < (2 * size_t{ndim} + 1) * 8) {
        return damaged("a tensor");
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
