// Values of more than a register: halves, and theirs, until they fit.
#include "codegen/render_x86_writer.h"

namespace aster::codegen::program::native {

Value Writer::half(const Value& v, bool upper) {
  if (v.lanes == 1) return v;
  if (v.held == Held::kHalves) {
    const size_t at = static_cast<size_t>(v.word) + (upper ? 1 : 0);
    // There is none where memory was short.
    return at < halves_.size() ? halves_[at] : of_number(v.dtype, v.lanes / 2, 0);
  }
  if (v.lanes == 2) return lane(v, upper ? 1 : 0);
  Value out = v;
  out.lanes = static_cast<uint8_t>(v.lanes / 2);
  if (v.held == Held::kLanes && upper) out.word += out.lanes;
  if (v.held == Held::kRegister && upper) {
    out.reg = upper_half(v);
    out.changes = false;
  }
  return out;
}

Value Writer::both(const Value& low, const Value& high) {
  const int n = 2 * low.lanes;
  if (!is_wide(low.dtype, n)) {
    if (low.dtype != DType::kBool || evex_) return joined(low, high);
    // As wide as a register has room for.
    const int bytes = std::min<int>(low.mask, target_.register_bytes() / n);
    return joined(masked_as(low, bytes), masked_as(high, bytes));
  }
  Value out = in_new(low.dtype, n, x86::kNoReg);
  out.held = Held::kHalves;
  out.mask = low.mask;
  out.changes = low.changes;
  out.word = static_cast<Word>(halves_.size());
  out_.fail(halves_.push(low));
  out_.fail(halves_.push(high));
  return out;
}

// A register of the program.
Value Writer::new_register(DType d, int n) {
  if (is_wide(d, n)) {
    const Value low = new_register(d, n / 2);
    return both(low, new_register(d, n / 2));
  }
  Value out = in_new(d, n, fresh(class_of(d, n)));
  out.mask = mask_bytes(n);
  out.changes = true;
  return out;
}

void Writer::set_register(const Value& to, const Value& from) {
  if (to.held == Held::kHalves) {
    for (const bool upper : {false, true}) set_register(half(to, upper), half(from, upper));
    return;
  }
  const bool mask = to.dtype == DType::kBool && to.lanes > 1 && !evex_;
  copy_value(to.reg, mask ? masked_as(from, to.mask) : from);
}

Status Writer::load_halves(const Access& a, const Mem& from, const Value& index, const Value* mask,
                           DType d, int n, int first, Value* out) {
  const auto wide = [&](const Value* v) { return v != nullptr && is_wide(v->dtype, v->lanes); };
  if (out->held != Held::kHalves && !wide(&index) && !wide(mask))
    return load(a, from, index, mask, d, n, first, out->reg);
  const int some = n / 2;
  Value parts[2];
  for (const bool upper : {false, true}) {
    Value& part = parts[upper ? 1 : 0];
    Value masks;
    if (out->held == Held::kHalves) {
      part = half(*out, upper);
    } else {
      part = in_new(d, some, fresh(class_of(d, some)));
    }
    part.mask = 1;
    if (mask != nullptr) masks = half(*mask, upper);
    Mem place = from;
    if (upper && a.index == kNone) place.offset += static_cast<int32_t>(a.step * some * element(d));
    const int touched = std::clamp(upper ? first - some : first, 0, some);
    if (touched == 0) {
      set_register(part, of_zero(part));
    } else {
      ASTER_TRY(load_halves(a, place, a.index == kNone ? index : half(index, upper),
                            mask != nullptr ? &masks : nullptr, d, some, touched, &part));
    }
  }
  if (out->held == Held::kHalves) {
    for (size_t i = 0; i < 2; ++i) {
      const size_t at = static_cast<size_t>(out->word) + i;
      if (at < halves_.size()) halves_[at] = parts[i];
    }
  } else {
    const Value all = both(parts[0], parts[1]);
    copy_value(out->reg, all);
    out->mask = all.mask;
  }
  return out_.status();
}

Status Writer::store_halves(const Access& a, const Value& value, const Mem& to, const Value& index,
                            const Value* mask, int first, bool streams) {
  const auto wide = [&](const Value& v) { return is_wide(v.dtype, v.lanes); };
  if (!wide(value) && !wide(index) && (mask == nullptr || !wide(*mask)))
    return store(a, value, to, index, mask, first, streams);
  const int some = value.lanes / 2;
  for (const bool upper : {false, true}) {
    Value masks;
    if (mask != nullptr) masks = half(*mask, upper);
    Mem place = to;
    if (upper && a.index == kNone)
      place.offset += static_cast<int32_t>(a.step * some * element(value.dtype));
    const int touched = std::clamp(upper ? first - some : first, 0, some);
    if (touched == 0) continue;
    ASTER_TRY(store_halves(a, half(value, upper), place,
                           a.index == kNone ? index : half(index, upper),
                           mask != nullptr ? &masks : nullptr, touched, streams));
  }
  return out_.status();
}

void Writer::put_halves(const Value& v, Mem to) {
  if (!is_wide(v.dtype, v.lanes))
    return store_whole(c::stored(v.dtype), v.lanes, to, in_register(v));
  put_halves(half(v, false), to);
  to.offset += v.lanes / 2 * element(v.dtype);
  put_halves(half(v, true), to);
}

Value Writer::take_halves(DType d, int n, Mem from) {
  if (is_wide(d, n)) {
    const Value low = take_halves(d, n / 2, from);
    from.offset += n / 2 * element(d);
    return both(low, take_halves(d, n / 2, from));
  }
  const Value out = in_new(d, n, fresh(RegClass::kVector));
  load_whole(c::stored(d), n, from, out.reg);
  return out;
}

// Lanes of more than a register change places in memory.
Status Writer::shuffle_halves(const Step& s, const Value* x, size_t count, int n, Value* out) {
  const DType d = s.in->dtype;
  const int size = element(d), from = x[0].lanes;
  if (d == DType::kBool || from == 1) return cannot("conditions of more than a register");
  constexpr int kRoom = 512;
  if (wide_room_ == 0) wide_room_ = out_.reserve(3 * kRoom);
  Mem rooms[3];
  for (int i = 0; i < 3; ++i) {
    rooms[i].place = Place::kFrame;
    rooms[i].offset = wide_room_ + i * kRoom;
  }
  for (size_t i = 0; i < count; ++i) put_halves(x[i], rooms[i]);
  const DType whole = whole_of(size, false);
  const Reg one = fresh(RegClass::kGeneral);
  for (int i = 0; i < n; ++i) {
    const auto word = static_cast<int>(s.words[static_cast<size_t>(i)]);
    Mem place = rooms[word >= from && count > 1 ? 1 : 0], to = rooms[2];
    place.offset += word % from * size;
    to.offset += i * size;
    load_scalar(whole, place, one);
    store_scalar(whole, to, one);
  }
  if (n == 1) {
    *out = in_new(d, 1, fresh(class_of(d, 1)));
    load_scalar(is_real(d) ? d : c::stored(d), rooms[2], out->reg);
  } else {
    *out = take_halves(d, n, rooms[2]);
  }
  return out_.status();
}

Status Writer::compute(const Step& s, const Value* x, size_t count, int n, Value* out) {
  bool wide = is_wide(s.in->dtype, n);
  for (size_t i = 0; i < count; ++i)
    wide = wide || x[i].held == Held::kHalves || is_wide(x[i].dtype, x[i].lanes);
  if (!wide) return compute_whole(s, x, count, n, out);
  if (s.op == Op::kShuffle) return shuffle_halves(s, x, count, n, out);
  Value low[8], high[8], made[2];
  for (size_t i = 0; i < count; ++i) low[i] = half(x[i], false), high[i] = half(x[i], true);
  if (s.op == Op::kLane) {
    // The half that has it, and in that its place.
    const int some = x[0].lanes / 2, which = static_cast<int>(s.words[0]);
    Value in = x[0];
    for (int at = which, size = some; in.held == Held::kHalves; size /= 2) {
      in = half(in, at >= size);
      at %= size;
    }
    *out = lane(in, which % in.lanes);
    return out_.status();
  }
  if (s.op == Op::kAcross) {
    const Value parts[2] = {low[0], high[0]};
    Step combines = s;
    combines.op = s.in->with;
    ASTER_TRY(compute(combines, parts, 2, x[0].lanes / 2, &made[0]));
    return compute(s, &made[0], 1, 1, out);
  }
  ASTER_TRY(compute(s, low, count, n / 2, &made[0]));
  ASTER_TRY(compute(s, high, count, n / 2, &made[1]));
  *out = both(made[0], made[1]);
  return out_.status();
}

}  // namespace aster::codegen::program::native
