// Loads and stores: addresses, gates, vectors, lanes one by one.
#include <algorithm>

#include "codegen/emit.h"
#include "codegen/plan.h"

namespace aster::codegen {
namespace {

using uop::sym::Term;

int range_id(Node range) { return static_cast<int>(range->arg(0)); }
int slot_of(Node access) { return static_cast<int>(access->src(0)->arg(0)); }

}  // namespace

// Pointer to the param advanced by the terms known outside block *inner, the innermost one that the
// address needs.
Status Emitter::base_of(Value* out, Node access, int* inner) {
  const Node index = access->src(1);
  const Form form = kernel_.form(index);
  *inner = 0;
  int depth = 0;
  RangeSet opaque = 0;
  const auto each = [&](auto body) {
    for (const Term& term : form.terms) {
      const bool loop = term.node->op == Op::kRange;
      if (loop ? ranges_[range_id(term.node)].unrolled : varies(term.node)) continue;
      if (!loop) opaque |= kernel_.ranges(term.node);
      body(loop ? ranges_[range_id(term.node)].depth : value(term.node).depth);
    }
  };
  each([&](int d) { *inner = std::max(*inner, d); });
  each([&](int d) {
    if (d < *inner) depth = std::max(depth, d + 1);
  });
  if (depth == 0) return *out = Value{}, kOk;
  --depth;
  const Key key{index->id, copy_key(opaque), Kind::kBase,
                static_cast<uint32_t>(*inner) << 16 | static_cast<uint32_t>(slot_of(access))};
  if (recall(key, out)) return kOk;
  const DType storage = storage_of(access->src(0)->dtype);
  ASTER_TRY(fresh(out, storage, false, 1, depth));
  Text& text = at(depth);
  if (!kernel_.written(access->src(0))) text << "const ";
  write_type(text, storage, 1);
  text << " *" << *out << " = p" << slot_of(access) << " + (";
  ASTER_TRY(write_form(text, form, 0, depth, false, -1));
  text << ");\n";
  return keep(key, *out);
}

Status Emitter::write_address(Text& out, Node access, Value base, int inner, int lane) {
  if (base.id != 0) {
    out << base;
  } else {
    out << 'p' << slot_of(access);
  }
  out << " + (";
  ASTER_TRY(
      write_form(out, kernel_.form(access->src(1)), base.id != 0 ? inner : 0, inner, true, lane));
  out << ')';
  return out.status();
}

Status Emitter::write_gather(Text& out, Node node, Value base, int inner, DType storage,
                             const Value* gate) {
  out << '(';
  write_type(out, storage, lanes());
  out << "){";
  for (int lane = 0; lane < lanes(); ++lane) {
    if (lane != 0) out << ", ";
    if (gate != nullptr) {
      out << *gate;
      if (gate->lanes > 1) out << '[' << lane << ']';
      out << " ? ";
    }
    out << "*(";
    ASTER_TRY(write_address(out, node, base, inner, lane));
    out << ')';
    if (gate != nullptr) out << " : 0";
  }
  out << '}';
  return out.status();
}

namespace {

// Builtins of both compilers for contiguous loads under a mask, by size of element.
struct MaskedLoad {
  const char *load, *pointer, *bits;
  const char* avx2;  // "" where there is none
};
constexpr MaskedLoad kMaskedLoads[] = {{"loaddquqi", "char", "b", ""},
                                       {"loaddquhi", "short", "w", ""},
                                       {"loaddqusi", "int", "d", "maskloadd"},
                                       {"loaddqudi", "long long", "q", "maskloadq"}};

const MaskedLoad& masked_load_of(DType storage) {
  switch (dtype::size(storage)) {
    case 1:
      return kMaskedLoads[0];
    case 2:
      return kMaskedLoads[1];
    case 4:
      return kMaskedLoads[2];
    default:
      return kMaskedLoads[3];
  }
}

// Builtins of both compilers that load lanes at 32-bit indices.
struct GatherRow {
  size_t bytes;  // of an element
  int lanes;
  const char* name;
};
constexpr GatherRow kGathers[] = {{4, 4, "gather3siv4si"},
                                  {4, 8, "gather3siv8si"},
                                  {4, 16, "gathersiv16si"},
                                  {8, 4, "gather3siv4di"},
                                  {8, 8, "gathersiv8di"}};

const GatherRow* gather_of(DType storage, int lanes) {
  for (const GatherRow& row : kGathers) {
    if (row.bytes == dtype::size(storage) && row.lanes == lanes) return &row;
  }
  return nullptr;
}

}  // namespace

// Whether the CPU loads so many elements under a mask.
bool Emitter::loads_masked(DType storage, int n) const {
  const size_t bytes = dtype::size(storage) * static_cast<size_t>(n);
  if (bytes != 16 && bytes != 32 && bytes != 64) return false;
  return target_.avx512 ||
         (target_.vector_bytes >= 32 && bytes <= 32 && masked_load_of(storage).avx2[0] != '\0');
}

// The builtins' bytes are char, which is a type of its own.
void Emitter::write_builtin_type(Text& out, DType storage, int n) {
  if (dtype::size(storage) == 1) {
    out << "char __attribute__((vector_size(" << n << ")))";
  } else {
    write_type(out, mask_of(storage), n);
  }
}

// A mask as a bit a lane, where the CPU has such: made next to the mask, outside the loops below.
Status Emitter::mask_bits(Value* out, Value mask) {
  const Key key{mask.id, 0, Kind::kBits};
  if (recall(key, out)) return kOk;
  const DType bits = mask.lanes <= 8    ? DType::kUInt8
                     : mask.lanes <= 16 ? DType::kUInt16
                     : mask.lanes <= 32 ? DType::kUInt32
                                        : DType::kUInt64;
  ASTER_TRY(fresh(out, bits, false, 1, mask.depth));
  Text& text = define(*out);
  const auto width = static_cast<int32_t>(dtype::bits(mask.dtype)) * mask.lanes;
  text << "__builtin_ia32_cvt" << masked_load_of(mask.dtype).bits << "2mask" << width << "((";
  write_builtin_type(text, mask.dtype, mask.lanes);
  text << ')' << mask << ");\n";
  return keep(key, *out);
}

// Of a mask of lanes at every second element: that of the elements which the first whole vector of
// these holds, or the second one, which ends at the last lane.
Status Emitter::half_mask(Value* out, Value mask, bool second) {
  const Key key{mask.id, 0, second ? Kind::kSecondHalf : Kind::kFirstHalf};
  if (recall(key, out)) return kOk;
  const int n = mask.lanes;
  ASTER_TRY(fresh(out, mask.dtype, true, n, mask.depth));
  Text& text = define(*out);
  text << "__builtin_shufflevector(" << mask << ", (";
  write_type(text, mask.dtype, n);
  text << "){}";
  for (int lane = 0; lane < n; ++lane) {
    const bool asked = (lane & 1) == (second ? 1 : 0);
    text << ", " << (asked ? (lane + (second ? n : 0)) / 2 : n);
  }
  text << ");\n";
  return keep(key, *out);
}

// A contiguous load of the lanes that a mask as wide as the elements allows (its bits on AVX-512).
void Emitter::write_masked_load(Text& out, DType storage, int n, std::string_view address,
                                Value mask) {
  const MaskedLoad& row = masked_load_of(storage);
  const auto bits = static_cast<int32_t>(dtype::bits(storage)) * n;
  out << '(';
  write_type(out, storage, n);
  out << ')';
  if (target_.avx512) {
    out << "__builtin_ia32_" << row.load << bits << "_mask((const " << row.pointer << " *)("
        << address << "), (";
    write_builtin_type(out, storage, n);
    out << "){}, " << mask << ')';
    return;
  }
  out << "__builtin_ia32_" << row.avx2 << (bits == 256 ? "256" : "") << "((const ";
  write_type(out, mask_of(storage), n);
  out << " *)(" << address << "), " << mask << ')';
}

// The same where no lane at all may be allowed. The address may then be in no page of the process,
// which costs the CPU hundreds of cycles to find out.
void Emitter::write_allowed_load(Text& out, DType storage, int n, std::string_view address,
                                 Value mask) {
  if (target_.avx512) out << '(' << mask << " ? ";
  write_masked_load(out, storage, n, address, mask);
  if (!target_.avx512) return;
  out << " : (";
  write_type(out, storage, n);
  out << "){})";
}

void Emitter::write_whole(Text& out, DType storage, int n, std::string_view address) {
  out << '(';
  write_type(out, storage, n);
  out << ")*(const ";
  write_type(out, storage, n);
  out << "u *)(" << address << ')';
}

// Vectors of stride 2 or -1 as whole loads and a shuffle; no element outside the ones asked for is
// read. halves: masks of what the two loads may read, stride 2 only, or null.
Status Emitter::write_shuffled(Text& out, Node node, Value base, int inner, Value loaded,
                               const Value* halves) {
  const int n = loaded.lanes;
  const int64_t stride = kernel_.stride(node->src(1), vector_);
  Text first(memory_), last(memory_);
  ASTER_TRY(write_address(first, node, base, inner, 0));
  ASTER_TRY(write_address(last, node, base, inner, n - 1));
  // Stride 2: lanes 0, 2, .. from the first element on, then lanes 1, 3, .. of those that end at
  // the last one.
  if (stride == 2) last << " - " << n - 1;
  ASTER_TRY(last.status());
  const auto write = [&](std::string_view address, int half) {
    if (halves == nullptr) return write_whole(out, loaded.dtype, n, address);
    write_allowed_load(out, loaded.dtype, n, address, halves[half]);
  };
  out << "__builtin_shufflevector(";
  write(stride == 2 ? first.view() : last.view(), 0);
  out << ", ";
  write(last.view(), 1);
  for (int lane = 0; lane < n; ++lane) {
    out << ", " << (stride == 2 ? 2 * lane + (2 * lane < n ? 0 : 1) : n - 1 - lane);
  }
  out << ')';
  return out.status();
}

// Conjuncts of a gate that are the same for all lanes, and those that are not.
Status Emitter::split_gate(Gate* out, Node gate) {
  const uint64_t copies = copy_key(kernel_.ranges(gate));
  if (recall(Key{gate->id, copies, Kind::kGateUniform}, &out->uniform) &&
      recall(Key{gate->id, copies, Kind::kGateMask}, &out->mask)) {
    return kOk;
  }
  *out = Gate{};
  Vec<Node> parts(memory_);
  ASTER_TRY(conjuncts(&parts, gate));
  for (Node node : parts) {
    if (is_const(node) && node->arg(0) != 0) continue;
    Value part = value(node);
    Value& whole = part.lanes > 1 ? out->mask : out->uniform;
    if (whole.id == 0) {
      whole = part;
      continue;
    }
    if (part.lanes > 1) ASTER_TRY(mask_as(&part, part, whole.dtype));
    Value both;
    ASTER_TRY(fresh(&both, whole.dtype, true, whole.lanes, std::max(whole.depth, part.depth)));
    Text& text = define(both);
    text << whole << " & " << part << ";\n";
    whole = both;
  }
  ASTER_TRY(keep(Key{gate->id, copies, Kind::kGateUniform}, out->uniform));
  return keep(Key{gate->id, copies, Kind::kGateMask}, out->mask);
}

// The tiled range along which a load is contiguous while it strides along the vectorised one, if
// its copies are as many as the lanes: a square that is transposed in registers. -1 if there is
// none.
int Emitter::transposes(Node node) const {
  if (!varies(node) || node->nsrc > 2) return -1;
  const Form form = kernel_.form(node->src(1));
  int across = -1;
  for (const Term& term : form.terms) {
    if (term.node->op != Op::kRange) {
      if (varies(term.node)) return -1;
      continue;
    }
    const RangeState& state = ranges_[range_id(term.node)];
    if (range_id(term.node) == vector_) {
      if (term.coefficient >= -4 && term.coefficient <= 4) return -1;
    } else if (term.coefficient == 1 && state.copies == lanes()) {
      across = range_id(term.node);
    }
  }
  return across;
}

// All copies of such a load: the rows as they lie in memory, then exchanges of ever larger blocks.
Status Emitter::transposed_load(Node node, int across) {
  const DType storage = storage_of(node->dtype);
  const int n = lanes();
  Value base, rows[64];
  int inner = 0;
  RangeState& state = ranges_[across];
  const int copy = state.copy;
  state.copy = 0;
  ASTER_TRY(base_of(&base, node, &inner));
  for (int lane = 0; lane < n; ++lane) {
    Text address(memory_);
    ASTER_TRY(write_address(address, node, base, inner, lane));
    ASTER_TRY(address.status());
    ASTER_TRY(fresh(&rows[lane], storage, false, n, inner));
    Text& text = define(rows[lane]);
    write_whole(text, storage, n, address.view());
    text << ";\n";
  }
  for (int half = 1; half < n; half *= 2) {
    for (int i = 0; i < n; ++i) {
      if ((i & half) != 0) continue;
      const Value a = rows[i], b = rows[i + half];
      for (int high = 0; high < 2; ++high) {
        Value& out = rows[i + high * half];
        ASTER_TRY(fresh(&out, storage, false, n, inner));
        Text& text = define(out);
        text << "__builtin_shufflevector(" << a << ", " << b;
        for (int lane = 0; lane < n; ++lane) {
          const bool second = (lane & half) != 0;
          text << ", "
               << (second ? n + lane - (high != 0 ? 0 : half) : lane + (high != 0 ? half : 0));
        }
        text << ");\n";
      }
    }
  }
  for (state.copy = 0; state.copy < n; ++state.copy) {
    ASTER_TRY(
        keep(Key{node->id, copy_key(kernel_.ranges(node)), Kind::kTransposed}, rows[state.copy]));
  }
  state.copy = copy;
  return kOk;
}

// The elements of a param at the lanes of an index.
void Emitter::write_indexed(Text& out, DType storage, int n, int slot, Value index) {
  out << '(';
  write_type(out, storage, n);
  out << ')';
  const GatherRow* row = gather_of(storage, n);
  if (target_.avx512 && row != nullptr && index.dtype == DType::kInt32) {
    out << "__builtin_ia32_" << row->name << "((";
    write_type(out, mask_of(storage), n);
    out << "){}, (const void *)p" << slot << ", " << index << ", " << (1 << n) - 1 << ", "
        << row->bytes << ')';
    return;
  }
  for (int lane = 0; lane < n; ++lane) {
    out << (lane == 0 ? "{p" : ", p") << slot << '[' << index << '[' << lane << "]]";
  }
  out << '}';
}

// Lanes at places that are no arithmetic of the loops: indices from memory, say. Where the gate is
// false the first element is read and dropped, so that there is no branch a lane.
Status Emitter::indexed_load(Value* out, Node node, const Gate& gate, DType storage) {
  const int n = lanes();
  const DType wide =
      node->src(0)->count() <= INT32_MAX ? DType::kInt32 : DType::kInt64;  // wraps only outside
  Value index, mask;
  ASTER_TRY(index_value(&index, node->src(1), wide));
  const int depth = std::max<int>({index.depth, gate.uniform.depth, gate.mask.depth});
  if (gate.mask.id != 0) {
    ASTER_TRY(mask_as(&mask, gate.mask, wide));
    Value inside;
    ASTER_TRY(fresh(&inside, wide, false, n, depth));
    define(inside) << index << " & " << mask << ";\n";
    index = inside;
    ASTER_TRY(mask_as(&mask, gate.mask, storage));
  }
  Value raw;
  ASTER_TRY(fresh(&raw, storage, false, n, depth));
  Text& text = define(raw);
  if (gate.uniform.id != 0) text << gate.uniform << " ? ";
  write_indexed(text, storage, n, slot_of(node), index);
  if (gate.uniform.id != 0) {
    text << " : (";
    write_type(text, storage, n);
    text << "){}";
  }
  text << ";\n";
  *out = raw;
  if (gate.mask.id == 0) return text.status();
  ASTER_TRY(fresh(out, storage, false, n, depth));
  Text& kept = define(*out);
  kept << '(';
  write_type(kept, storage, n);
  kept << ")((";
  write_type(kept, mask_of(storage), n);
  kept << ')' << raw << " & " << mask << ");\n";
  return kept.status();
}

// An element, or a vector of them, as it is stored.
Status Emitter::load_stored(Value* out, Node node) {
  const DType storage = storage_of(node->dtype);
  const int n = varies(node) ? lanes() : 1;
  if (const int across = transposes(node); across >= 0) {
    const Key key{node->id, copy_key(kernel_.ranges(node)), Kind::kTransposed};
    if (!recall(key, out)) ASTER_TRY(transposed_load(node, across));
    (void)recall(key, out);
    return kOk;
  }
  Gate gate;
  Value base;
  if (node->nsrc > 2) ASTER_TRY(split_gate(&gate, node->src(2)));
  int inner = 0;
  ASTER_TRY(base_of(&base, node, &inner));
  int depth = std::max<int>({inner, gate.uniform.depth, gate.mask.depth});
  bool linear = true;
  for (const Term& term : kernel_.form(node->src(1)).terms) {
    if (term.node->op == Op::kRange || !varies(term.node)) continue;
    linear = false;
    depth = std::max<int>(depth, value(term.node).depth);
  }
  if (n > 1 && !linear) return indexed_load(out, node, gate, storage);
  const int64_t stride = n > 1 ? kernel_.stride(node->src(1), vector_) : 0;
  const bool masked = gate.mask.id != 0;
  const bool under_mask = masked && stride == 1 && loads_masked(storage, n);
  const bool by_halves = masked && stride == 2 && n >= 4 && loads_masked(storage, n);
  Value halves[2];
  if (under_mask || by_halves) ASTER_TRY(mask_as(&gate.mask, gate.mask, storage));
  for (int half = 0; by_halves && half < 2; ++half) {
    ASTER_TRY(half_mask(&halves[half], gate.mask, half == 1));
    if (target_.avx512) ASTER_TRY(mask_bits(&halves[half], halves[half]));
  }
  if (under_mask && target_.avx512) ASTER_TRY(mask_bits(&gate.mask, gate.mask));
  Text address(memory_);
  ASTER_TRY(write_address(address, node, base, inner, 0));
  ASTER_TRY(address.status());
  ASTER_TRY(fresh(out, storage, false, n, depth));
  Text& text = define(*out);
  if (gate.uniform.id != 0) text << gate.uniform << " ? ";
  if (n == 1) {
    text << "*(" << address.view() << ')';
  } else if (under_mask) {
    write_allowed_load(text, storage, n, address.view(), gate.mask);
  } else if (!masked && stride == 1) {
    write_whole(text, storage, n, address.view());
  } else if (by_halves) {
    ASTER_TRY(write_shuffled(text, node, base, inner, *out, halves));
  } else if (!masked && n >= 4 && (stride == 2 || stride == -1)) {
    ASTER_TRY(write_shuffled(text, node, base, inner, *out, nullptr));
  } else {
    ASTER_TRY(write_gather(text, node, base, inner, storage, masked ? &gate.mask : nullptr));
  }
  if (gate.uniform.id != 0) {
    text << " : (";
    write_type(text, storage, n);
    text << (n > 1 ? "){}" : ")0");
  }
  text << ";\n";
  return text.status();
}

Status Emitter::load(Node node, bool raw) {
  Value loaded, out;
  ASTER_TRY(load_stored(&loaded, node));
  if (raw || dtype::is_narrow_float(node->dtype)) ASTER_TRY(keep(raw_key(node), loaded));
  if (raw) return kOk;
  out = loaded;
  const int n = loaded.lanes;
  if (node->dtype == DType::kBool) {
    ASTER_TRY(fresh(&out, n > 1 ? DType::kInt8 : DType::kInt32, true, n, loaded.depth));
    Text& text = define(out);
    text << '(';
    write_type(text, out.dtype, n);
    text << ")(" << loaded << " != 0);\n";
  } else if (dtype::is_narrow_float(node->dtype)) {
    ASTER_TRY(fresh(&out, DType::kFloat32, false, n, loaded.depth));
    Text& text = define(out);
    write_cast_name(text, node->dtype, DType::kFloat32, n);
    text << '(' << loaded << ");\n";
  }
  return remember(node, out);
}

Status Emitter::store(Node node, bool stream) {
  const Node source = node->src(2);
  Value v, base;
  if (source->dtype == DType::kWeakInt) {
    ASTER_TRY(index_value(&v, source, DType::kInt64));
  } else {
    v = value(source);
  }
  const DType dtype = node->src(0)->dtype, storage = storage_of(dtype);
  // What is only moved keeps its bits, and is not converted to and fro.
  const bool narrow = dtype::is_narrow_float(dtype);
  const bool moved =
      narrow && source->op == Op::kLoad && source->dtype == dtype && recall(raw_key(source), &v);
  const int n = vector_ >= 0 && has(kernel_.ranges(node->src(1)), vector_) ? lanes() : 1;
  if (n > 1 && v.lanes == 1) ASTER_TRY(spread(&v, v, v.truth ? DType::kInt8 : DType::kNone));
  if (v.truth && n > 1) ASTER_TRY(mask_as(&v, v, DType::kInt8));
  int inner = 0;
  ASTER_TRY(base_of(&base, node, &inner));
  // aligned: whole vectors all begin at multiples of their size, if the first one does.
  const Form form = kernel_.form(node->src(1));
  bool linear = true, aligned = form.constant % n == 0;
  for (const Term& term : form.terms) {
    const bool loop = term.node->op == Op::kRange;
    linear &= loop || !varies(term.node);
    aligned &= loop && (range_id(term.node) == vector_ || term.coefficient % n == 0);
  }
  const int64_t stride = n > 1 && linear ? kernel_.stride(node->src(1), vector_) : 0;
  const bool contiguous = stride == 1;
  Text stored(memory_);
  if (v.truth) {
    stored << '(';
    write_type(stored, storage, n);
    stored << ")(" << v << " & 1)";
  } else if (narrow && !moved) {
    write_cast_name(stored, DType::kFloat32, dtype, n);
    stored << '(' << v << ')';
  } else {
    stored << v;
  }
  ASTER_TRY(stored.status());
  Text& text = here();
  if (stream && contiguous && aligned &&
      dtype::size(storage) * static_cast<size_t>(n) == static_cast<size_t>(target_.vector_bytes)) {
    streams_ = true;
    Text address(memory_);
    ASTER_TRY(write_address(address, node, base, inner, 0));
    text << "if (((vu64x1)(" << address.view() << ") & " << target_.vector_bytes - 1
         << ") == 0) stream_" << target_.vector_bytes << "((" << address.view() << "), "
         << stored.view() << "); else ";
  }
  if (n == 1 || contiguous) {
    text << '*';
    if (n > 1) {
      text << '(';
      write_type(text, storage, n);
      text << "u *)";
    }
    text << '(';
    ASTER_TRY(write_address(text, node, base, inner, 0));
    text << ") = " << stored.view() << ";\n";
    return text.status();
  }
  Value whole;
  ASTER_TRY(fresh(&whole, storage, false, n, depth()));
  define(whole) << stored.view() << ";\n";
  if (linear) {
    text << "for (vi64x1 l = 0; l < " << n << "; ++l) (";
    ASTER_TRY(write_address(text, node, base, inner, 0));
    text << ")[l * " << stride << "] = " << whole << "[l];\n";
    return text.status();
  }
  for (int lane = 0; lane < n; ++lane) {
    text << "*(";
    ASTER_TRY(write_address(text, node, base, inner, lane));
    text << ") = " << whole << '[' << lane << "];\n";
  }
  return text.status();
}

}  // namespace aster::codegen
