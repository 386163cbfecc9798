#include "nn/torch_state.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/checked.h"
#include "base/json.h"
#include "base/utf8.h"
#include "buffer/strided.h"
#include "engine/engine.h"

namespace aster::nn {

Status damaged_torch(const char* what) {
  return ASTER_FAIL(kFORMAT, "a damaged torch file: %s", what);
}

namespace {

using Index = Pickle::Index;
using Value = Pickle::Value;

// 2^32 and more of JSON out of a small pickle, by lists that hold others many times.
constexpr size_t kMostVisits = size_t{1} << 22;
constexpr int kMostDepth = 100;
constexpr size_t kMostOverlap = 16;  // copies of an element in one tensor
constexpr int64_t kMostAlike = 64;   // tensors whose names read the same

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
    return damaged_torch("sizes and strides of a tensor");
  }
  const int64_t size = static_cast<int64_t>(dtype::size(tensor.dtype));
  if (tensor.offset < 0) return damaged_torch("a negative offset of a tensor");
  int64_t last = 0, first, elements = 1;
  bool fits = checked_add(storage.begin, tensor.offset, &first), none = false;
  if (storage.dtype == DType::kNone) fits = fits && storage.begin == 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t dim, stride, span;
    ASTER_TRY(pickle.to_integer(&dim, sizes[i]));
    ASTER_TRY(pickle.to_integer(&stride, strides[i]));
    if (dim < 0 || stride < 0) return damaged_torch("a negative size or stride");
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
  if (!fits) return damaged_torch("the shape of a tensor overflows");
  if (none) return kOk;
  if (!checked_mul(first, size, &begin) || !checked_add(first, last, &end) ||
      !checked_add(end, int64_t{1}, &end) || !checked_mul(end, size, &end) || end < 0 ||
      static_cast<uint64_t>(end) > storage.bytes) {
    return damaged_torch("a tensor reaches outside its storage");
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
    if (!storage.found) return damaged_torch("a storage is missing");
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
    ASTER_TRY(state_.set_note("structure", json_.view().data(), json_.view().size()));
    return state_.skips_unknown ? note_skipped() : kOk;
  }

 private:
  Status note_skipped() {
    json_.clear();
    json_ << '[';
    for (const Text& name : pickle_.skipped()) {
      if (&name != pickle_.skipped().begin()) json_ << ',';
      write_name(name.view());
    }
    json_ << ']';
    ASTER_TRY(json_.status());
    return state_.set_note("skipped", json_.view().data(), json_.view().size());
  }

  // A name of a pickle, which may be no UTF-8.
  void write_name(std::string_view name) {
    if (is_utf8(name)) return write_json_string(json_, name);
    json_ << "\"?\"";
  }

  Status visit(Index index, int depth) {
    if (depth > kMostDepth) return damaged_torch("it is nested too deep");
    if (++visits_ > kMostVisits) return damaged_torch("it is too large");
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
      return damaged_torch("a key that cannot be one");
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
      if (again > kMostAlike) return damaged_torch("too many tensors of one name");
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
        if ((point & 0xFE) != 0xC2 || i + 1 == text.size())
          return damaged_torch("bytes written as text");
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
      case Pickle::kUnknown:
        json_ << "{\"unknown\":";
        write_name(pickle_.skipped()[static_cast<size_t>(value.word)].view());
        json_ << '}';
        break;
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
        return damaged_torch("a value that is none");
    }
    return json_.status();
  }

  State& state_;
  Pickle& pickle_;
  Placing placing_;
  Text path_, json_;
  size_t visits_ = 0;
};

}  // namespace

Status fill_from_value(State& state, engine::Engine& engine, const Source& source, Pickle& pickle,
                       Pickle::Index root) {
  return Filling(state, engine, source, pickle).fill(root);
}

}  // namespace aster::nn
