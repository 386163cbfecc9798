#include "codegen/emit.h"

#include <algorithm>

#include "codegen/plan.h"

namespace aster::codegen {
namespace {

using uop::sym::Term;

int range_id(Node range) { return static_cast<int>(range->arg(0)); }

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
    if ((set & 1) == 0) continue;
    const RangeState& state = ranges_[r];
    if (state.rolled || state.copies > 1)
      key = key * 64 + static_cast<uint64_t>(state.rolled ? kRolled - state.copy : state.copy);
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
  return recall(Key{node->id, copy_key(kernel_.ranges(node)), Kind::kOwn}, out);
}

Value Emitter::value(Node node) const {
  Value out;
  (void)known(node, &out);
  return out;
}

Status Emitter::remember(Node node, Value value) {
  return keep(Key{node->id, copy_key(kernel_.ranges(node)), Kind::kOwn}, value);
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
  const Key key{v.id, static_cast<uint64_t>(dtype), Kind::kSpread, static_cast<uint32_t>(lanes())};
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
  const Key key{v.id, static_cast<uint64_t>(to), Kind::kMask};
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
  const Key key{index->id, copy_key(kernel_.ranges(index)), Kind::kIndex,
                vector ? static_cast<uint32_t>(wide) : 0};
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

}  // namespace aster::codegen
