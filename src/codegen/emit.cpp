#include "codegen/emit.h"

#include <algorithm>

#include "codegen/plan.h"

namespace aster::codegen {
namespace {

using uop::sym::Term;

int range_id(Node range) { return static_cast<int>(range->arg(0)); }
int slot_of(Node access) { return static_cast<int>(access->src(0)->arg(0)); }

// " + x", or "x" at the start.
void write_plus(Text& out, bool* first) {
  if (!*first) out << " + ";
  *first = false;
}

}  // namespace

DType storage_of(DType dtype) {
  if (dtype == DType::kBool || dtype::is_fp8(dtype)) return DType::kUInt8;
  if (dtype::is_narrow_float(dtype)) return DType::kUInt16;
  if (dtype == DType::kWeakInt) return DType::kInt64;
  return dtype == DType::kWeakFloat ? DType::kFloat64 : dtype;
}

DType mask_of(DType dtype) {
  switch (dtype::size(storage_of(dtype))) {
    case 1:
      return DType::kInt8;
    case 2:
      return DType::kInt16;
    case 4:
      return DType::kInt32;
    default:
      return DType::kInt64;
  }
}

Text& operator<<(Text& out, const Value& v) { return out << 't' << v.id; }

Emitter::Emitter(const Kernel& kernel, const Target& target, Memory& memory)
    : kernel_(kernel), target_(target), memory_(memory), blocks_(memory), memo_(memory) {}

Status Emitter::open_block() {
  ASTER_TRY(blocks_.push(Block(memory_)));
  blocks_.back().serial = next_serial_++;
  return kOk;
}

// Moves the innermost block into the one around it.
Status Emitter::close_block(std::string_view tail) {
  Block block = std::move(blocks_.back());
  blocks_.pop();
  ASTER_TRY(block.head.status());
  ASTER_TRY(block.text.status());
  here() << block.head.view() << block.text.view() << tail;
  return here().status();
}

uint64_t Emitter::copy_key(RangeSet set) const {
  uint64_t key = 0;
  for (int r = 0; set != 0; ++r, set >>= 1) {
    if ((set & 1) != 0 && ranges_[r].copies > 1)
      key = key * 64 + static_cast<uint64_t>(ranges_[r].copy);
  }
  return key;
}

bool Emitter::recall(const Key& key, Value* out) const {
  const Entry* entry = memo_.find(key);
  if (entry == nullptr) return false;
  const size_t depth = static_cast<size_t>(entry->value.depth);
  if (depth >= blocks_.size() || blocks_[depth].serial != entry->serial) return false;
  *out = entry->value;
  return true;
}

Status Emitter::keep(const Key& key, Value value) {
  return memo_.set(key, Entry{value, blocks_[static_cast<size_t>(value.depth)].serial});
}

bool Emitter::known(Node node, Value* out) const {
  return recall(Key{node->id, copy_key(kernel_.ranges(node)), kOwn}, out);
}

Value Emitter::value(Node node) const {
  Value out;
  (void)known(node, &out);
  return out;
}

Status Emitter::remember(Node node, Value value) {
  return keep(Key{node->id, copy_key(kernel_.ranges(node)), kOwn}, value);
}

Status Emitter::fresh(Value* out, DType dtype, bool truth, int lanes, int depth) {
  *out = Value{++next_id_, dtype, truth, static_cast<uint8_t>(lanes), static_cast<int16_t>(depth)};
  return kOk;
}

Text& Emitter::define(Value v, bool constant) {
  Text& out = at(v.depth);
  if (constant) out << "const ";
  write_type(out, v.dtype, v.lanes);
  return out << ' ' << v << " = ";
}

void Emitter::write_call(Text& out, MathFn fn, DType dtype, int lanes) {
  write_function_name(out, fn, dtype, lanes);
}

DType Emitter::register_of(Node node) const {
  if (node->dtype == DType::kWeakInt)
    return varies(node) && fits_int32(node) ? DType::kInt32 : DType::kInt64;
  if (node->dtype == DType::kWeakFloat) return DType::kFloat64;
  return dtype::is_narrow_float(node->dtype) ? DType::kFloat32 : node->dtype;
}

Status Emitter::declare_params() {
  for (Node param : kernel_.params()) {
    const DType storage = storage_of(param->dtype);
    Text& out = here();
    const bool constant = !kernel_.written(param);
    if (constant) out << "const ";
    write_type(out, storage, 1);
    out << " *restrict p" << param->arg(0) << " = params[" << param->arg(0) << "];\n";
  }
  return here().status();
}

// ---- Registers ----

Status Emitter::spread(Value* out, Value v, DType as) {
  if (as == DType::kNone) as = v.dtype;
  if (v.lanes > 1) return v.truth ? mask_as(out, v, as) : (*out = v, kOk);
  const DType dtype = v.truth ? mask_of(as) : as;
  const Key key{v.id, static_cast<uint64_t>(dtype), kSpread | static_cast<uint32_t>(lanes())};
  if (recall(key, out)) return kOk;
  ASTER_TRY(fresh(out, dtype, v.truth, lanes(), v.depth));
  Text& text = define(*out);
  if (v.truth) {
    text << '(';
    write_type(text, dtype, lanes());
    text << "){} - (";
    write_type(text, dtype, 1);
    text << ')' << v;
  } else {
    if (dtype != v.dtype) {
      text << '(';
      write_type(text, dtype, 1);
      text << ')';
    }
    text << v << " - (";
    write_type(text, dtype, lanes());
    text << "){}";
  }
  text << ";\n";
  return keep(key, *out);
}

Status Emitter::mask_as(Value* out, Value v, DType dtype) {
  if (v.lanes == 1) return spread(out, v, mask_of(dtype));
  const DType to = mask_of(dtype);
  *out = v;
  if (v.dtype == to) return kOk;
  const Key key{v.id, static_cast<uint64_t>(to), kMask};
  if (recall(key, out)) return kOk;
  ASTER_TRY(fresh(out, to, true, v.lanes, v.depth));
  Text& text = define(*out);
  write_cast_name(text, v.dtype, to, v.lanes);
  text << '(' << v << ");\n";
  return keep(key, *out);
}

// ---- Indices ----

// Scalar terms whose variables became known in blocks [from, to], the constant if asked, and the
// offset of a lane.
Status Emitter::write_form(Text& out, const Form& form, int from, int to, bool constant, int lane) {
  int64_t sum = constant ? form.constant : 0;
  bool first = true;
  for (const Term& term : form.terms) {
    const bool loop = term.node->op == Op::kRange;
    if (loop) {
      const int r = range_id(term.node);
      const RangeState& state = ranges_[r];
      if (constant) {
        const int64_t steps = state.copy * state.unit() + (r == vector_ ? std::max(lane, 0) : 0);
        sum = static_cast<int64_t>(static_cast<uint64_t>(sum) +
                                   static_cast<uint64_t>(term.coefficient) *
                                       static_cast<uint64_t>(steps));
      }
      if (state.unrolled || state.depth < from || state.depth > to) continue;
      write_plus(out, &first);
      out << 'i' << r;
    } else if (varies(term.node)) {
      if (lane < 0 || !constant) continue;
      write_plus(out, &first);
      out << "(vi64x1)" << value(term.node) << '[' << lane << ']';
    } else {
      const Value v = value(term.node);
      if (v.depth < from || v.depth > to) continue;
      write_plus(out, &first);
      out << v;
    }
    if (term.coefficient != 1) out << " * " << term.coefficient;
  }
  if (sum != 0 || first) {
    write_plus(out, &first);
    out << sum;
  }
  return out.status();
}

int Emitter::form_depth(const Form& form, RangeSet skip) const {
  int depth = 0;
  for (const Term& term : form.terms) {
    if (term.node->op == Op::kRange) {
      if (!has(skip, range_id(term.node)))
        depth = std::max(depth, ranges_[range_id(term.node)].depth);
    } else {
      depth = std::max<int>(depth, value(term.node).depth);
    }
  }
  return depth;
}

// An index as a value: a scalar, or lanes of `wide` where it varies.
Status Emitter::index_value(Value* out, Node index, DType wide) {
  const Form form = kernel_.form(index);
  const bool vector = varies(index);
  const Key key{index->id, copy_key(kernel_.ranges(index)),
                kIndex + (vector ? static_cast<uint32_t>(wide) << 16 : 0)};
  if (recall(key, out)) return kOk;
  const int depth = form_depth(form, 0);
  if (!vector) {
    ASTER_TRY(fresh(out, DType::kInt64, false, 1, depth));
    Text& text = define(*out);
    ASTER_TRY(write_form(text, form, 0, depth, true, -1));
    text << ";\n";
    return keep(key, *out);
  }
  ASTER_TRY(fresh(out, wide, false, lanes(), depth));
  // Terms that differ from lane to lane first, so that they can be converted before the statement
  // begins.
  Value parts[uop::sym::Linear::kMax];
  int64_t coefficients[uop::sym::Linear::kMax];
  int count = 0;
  int64_t stride = 0;
  for (const Term& term : form.terms) {
    if (term.node->op == Op::kRange) {
      if (range_id(term.node) == vector_) stride = term.coefficient;
    } else if (varies(term.node)) {
      Value part = value(term.node);
      if (part.dtype != wide) {
        Value converted;
        ASTER_TRY(fresh(&converted, wide, false, lanes(), part.depth));
        Text& text = define(converted);
        write_cast_name(text, part.dtype, wide, lanes());
        text << '(' << part << ");\n";
        part = converted;
      }
      parts[count] = part;
      coefficients[count++] = term.coefficient;
    }
  }
  Text& text = define(*out);
  text << '(';
  write_type(text, wide, lanes());
  text << "){";
  for (int lane = 0; lane < lanes(); ++lane) {
    if (lane != 0) text << ", ";
    const uint64_t at = static_cast<uint64_t>(lane) * static_cast<uint64_t>(stride);
    if (wide == DType::kInt32) {
      text << static_cast<int32_t>(static_cast<uint32_t>(at));
    } else {
      text << static_cast<int64_t>(at);
    }
  }
  text << "} + (";
  write_type(text, wide, 1);
  text << ")(";
  ASTER_TRY(write_form(text, form, 0, depth, true, -1));
  text << ')';
  for (int i = 0; i < count; ++i) {
    text << " + " << parts[i] << " * (";
    write_type(text, wide, 1);
    text << ")(" << coefficients[i] << ')';
  }
  text << ";\n";
  return keep(key, *out);
}

// ---- Memory ----

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
  const Key key{
      index->id, copy_key(opaque),
      kBase | static_cast<uint32_t>(*inner) << 8 | static_cast<uint32_t>(slot_of(access)) << 16};
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

// A contiguous load of the lanes that a mask allows, where the CPU has one. The mask is as wide as
// the elements.
bool Emitter::write_masked_load(Text& out, DType storage, int lanes, std::string_view address,
                                std::string_view mask) {
  const size_t element = dtype::size(storage), bytes = element * static_cast<size_t>(lanes);
  if (bytes != 16 && bytes != 32 && bytes != 64) return false;
  struct Row {
    size_t element;
    const char *name, *pointer, *bits;  // "" where AVX2 has none
    const char* avx2;
  };
  static constexpr Row kRows[] = {{1, "loaddquqi", "char", "b", ""},
                                  {2, "loaddquhi", "short", "w", ""},
                                  {4, "loaddqusi", "int", "d", "maskloadd"},
                                  {8, "loaddqudi", "long long", "q", "maskloadq"}};
  const Row& row = *std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const Row& r) { return r.element == element; });
  const DType integer = mask_of(storage);
  const auto bits = static_cast<int32_t>(bytes * 8);
  // The builtins' bytes are char, which is a type of its own.
  const auto write_lanes = [&]() {
    if (element == 1) {
      out << "char __attribute__((vector_size(" << static_cast<int32_t>(bytes) << ")))";
    } else {
      write_type(out, integer, lanes);
    }
  };
  out << '(';
  write_type(out, storage, lanes);
  out << ')';
  if (target_.avx512) {
    out << "__builtin_ia32_" << row.name << bits << "_mask((const " << row.pointer << " *)("
        << address << "), (";
    write_lanes();
    out << "){}, __builtin_ia32_cvt" << row.bits << "2mask" << bits << "((";
    write_lanes();
    out << ')' << mask << "))";
    return true;
  }
  if (target_.vector_bytes < 32 || row.avx2[0] == '\0' || bytes == 64) return false;
  out << "__builtin_ia32_" << row.avx2;
  if (bytes == 32) out << "256";
  out << "((const ";
  write_type(out, integer, lanes);
  out << " *)(" << address << "), " << mask << ')';
  return true;
}

// Vectors of stride 2 or -1 as whole loads and a shuffle; no element outside the ones asked for is
// read.
Status Emitter::shuffled_load(bool* done, Node node, Value base, int inner, Value out) {
  const int n = lanes();
  const int64_t stride = kernel_.stride(node->src(1), vector_);
  *done = n >= 4 && (stride == 2 || stride == -1);
  if (!*done) return kOk;
  const auto whole = [&](Text& text, int lane, int back) {
    text << "*(const ";
    write_type(text, out.dtype, n);
    text << "u *)(";
    const Status status = write_address(text, node, base, inner, lane);
    text << " - " << back << ')';
    return status;
  };
  Text& text = define(out);
  text << "__builtin_shufflevector((";
  write_type(text, out.dtype, n);
  text << ')';
  // Stride 2: lanes 0, 2, .. of the first elements, and lanes 1, 3, .. of those that end at the
  // last one.
  ASTER_TRY(whole(text, stride == 2 ? 0 : n - 1, 0));
  text << ", (";
  write_type(text, out.dtype, n);
  text << ')';
  ASTER_TRY(whole(text, n - 1, stride == 2 ? n - 1 : 0));
  for (int lane = 0; lane < n; ++lane) {
    const int pick = stride == 2 ? (2 * lane < n ? 2 * lane : n + 1 + 2 * lane - n) : n - 1 - lane;
    text << ", " << pick;
  }
  text << ");\n";
  return kOk;
}

Status Emitter::load(Node node, bool raw) {
  const DType storage = storage_of(node->dtype);
  const int n = varies(node) ? lanes() : 1;
  Value gate, base, loaded;
  const bool gated = node->nsrc > 2;
  if (gated) gate = value(node->src(2));
  int inner = 0;
  ASTER_TRY(base_of(&base, node, &inner));
  int place = std::max<int>(inner, gated ? gate.depth : 0);
  bool linear = true;
  for (const Term& term : kernel_.form(node->src(1)).terms) {
    if (term.node->op == Op::kRange || !varies(term.node)) continue;
    linear = false;
    place = std::max<int>(place, value(term.node).depth);
  }
  const bool contiguous = n > 1 && linear && kernel_.stride(node->src(1), vector_) == 1;
  if (gated && gate.lanes > 1 && contiguous) ASTER_TRY(mask_as(&gate, gate, storage));
  ASTER_TRY(fresh(&loaded, storage, false, n, place));
  bool done = false;
  if (n > 1 && linear && !gated) ASTER_TRY(shuffled_load(&done, node, base, inner, loaded));
  if (!done) {
    Text address(memory_), mask(memory_), masked(memory_);
    ASTER_TRY(write_address(address, node, base, inner, 0));
    mask << gate;
    const bool whole = contiguous && gated && gate.lanes > 1 &&
                       write_masked_load(masked, storage, n, address.view(), mask.view());
    ASTER_TRY(address.status());
    Text& text = define(loaded);
    if (whole) {
      text << masked.view();
    } else if (n > 1 && (!contiguous || (gated && gate.lanes > 1))) {
      ASTER_TRY(write_gather(text, node, base, inner, storage, gated ? &gate : nullptr));
    } else {
      if (gated) text << gate << " ? ";
      if (n > 1) {
        text << '(';
        write_type(text, storage, n);
        text << ")*(const ";
        write_type(text, storage, n);
        text << "u *)(" << address.view() << ')';
      } else {
        text << "*(" << address.view() << ')';
      }
      if (gated && n > 1) {
        text << " : (";
        write_type(text, storage, n);
        text << "){}";
      } else if (gated) {
        text << " : 0";
      }
    }
    text << ";\n";
  }
  if (raw) return keep(Key{node->id, copy_key(kernel_.ranges(node)), kRaw}, loaded);
  Value out = loaded;
  if (node->dtype == DType::kBool) {
    ASTER_TRY(fresh(&out, n > 1 ? DType::kInt8 : DType::kInt32, true, n, place));
    Text& text = define(out);
    text << '(';
    write_type(text, out.dtype, n);
    text << ")(" << loaded << " != 0);\n";
  } else if (dtype::is_narrow_float(node->dtype)) {
    ASTER_TRY(fresh(&out, DType::kFloat32, false, n, place));
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
  const int n = vector_ >= 0 && has(kernel_.ranges(node->src(1)), vector_) ? lanes() : 1;
  if (n > 1 && v.lanes == 1) ASTER_TRY(spread(&v, v, v.truth ? DType::kInt8 : DType::kNone));
  if (v.truth && n > 1) ASTER_TRY(mask_as(&v, v, DType::kInt8));
  int inner = 0;
  ASTER_TRY(base_of(&base, node, &inner));
  bool contiguous = n > 1 && kernel_.stride(node->src(1), vector_) == 1;
  for (const Term& term : kernel_.form(node->src(1)).terms) {
    contiguous &= term.node->op == Op::kRange || !varies(term.node);
  }
  Text stored(memory_);
  if (v.truth) {
    stored << '(';
    write_type(stored, storage, n);
    stored << ")(" << v << " & 1)";
  } else if (dtype::is_narrow_float(dtype)) {
    write_cast_name(stored, DType::kFloat32, dtype, n);
    stored << '(' << v << ')';
  } else {
    stored << v;
  }
  ASTER_TRY(stored.status());
  Text& text = here();
  if (stream && contiguous &&
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
  for (int lane = 0; lane < n; ++lane) {
    text << "*(";
    ASTER_TRY(write_address(text, node, base, inner, lane));
    text << ") = " << whole << '[' << lane << "];\n";
  }
  return text.status();
}

}  // namespace aster::codegen
