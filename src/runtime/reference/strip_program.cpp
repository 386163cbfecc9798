// Going through the steps of a strip program; strip_make.cpp writes them.
#include "runtime/reference/strip_program.h"

#include <algorithm>
#include <cstring>

namespace aster::runtime::reference {

using uop::Op;

namespace {

// Elements [0, n) are one.
template <typename T>
void fill(char* to, const char* from, int64_t n) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * int64_t{sizeof(T)}, &value, sizeof(T));
}
void fill(char* to, const char* from, int64_t n, size_t bytes) {
  if (bytes == 1) return fill<uint8_t>(to, from, n);
  if (bytes == 2) return fill<uint16_t>(to, from, n);
  if (bytes == 4) return fill<uint32_t>(to, from, n);
  fill<uint64_t>(to, from, n);
}

int64_t read_index(const char* at, uint8_t bytes) {
  if (bytes == 4) {
    int32_t value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  int64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

}  // namespace

struct StripProgram::Running {
  char* at;  // memory of the part
  void* const* params;
  const int64_t* sizes;
  int64_t begin, end;  // tasks
  int64_t task = 0;    // the next one
  int64_t turns = 1;   // that go together

  char* of(const Value& value) const { return at + value.at; }
  int64_t count(const Value& value) const {
    return value.strip ? turns * value.lanes : value.lanes;
  }
  int64_t index(const Value& value, int64_t turn, uint32_t lane) const {
    const int64_t i = (value.strip ? turn * value.lanes : 0) + lane;
    const char* const element = of(value) + i * value.bytes;
    return value.bytes == 1 ? *element : read_index(element, value.bytes);
  }
};

void StripProgram::compute(const StripProgram&, Running& r, const Step& s) {
  s.loop(r.of(s.y), r.of(s.a), r.of(s.b), r.of(s.c), r.count(s.y));
}
void StripProgram::combine(const StripProgram&, Running& r, const Step& s) {
  const auto step = [](const Value& v) { return v.strip ? int64_t{v.lanes} : int64_t{0}; };
  s.fold(r.of(s.y), r.of(s.a), r.of(s.b), s.y.lanes, r.turns, step(s.a), step(s.b));
}
void StripProgram::constant(const StripProgram&, Running& r, const Step& s) {
  fill(r.of(s.y), reinterpret_cast<const char*>(&s.word), r.count(s.y), s.y.bytes);
}
void StripProgram::number(const StripProgram&, Running& r, const Step& s) {
  std::memcpy(r.of(s.y), &r.sizes[s.word], s.y.bytes);  // little-endian
}
void StripProgram::copy(const StripProgram&, Running& r, const Step& s) {
  std::memcpy(r.of(s.y), r.of(s.a), static_cast<size_t>(r.count(s.y)) * s.y.bytes);
}
void StripProgram::count(const StripProgram&, Running& r, const Step& s) {
  char* y = r.of(s.y);
  const int64_t n = r.count(s.y);
  for (int64_t i = 0; i < n; ++i, y += s.y.bytes) {
    const uint64_t lane = static_cast<uint64_t>(i) % s.y.lanes;
    std::memcpy(y, &lane, s.y.bytes);
  }
}
void StripProgram::spread(const StripProgram&, Running& r, const Step& s) {
  if (!s.a.strip) return fill(r.of(s.y), r.of(s.a), r.count(s.y), s.y.bytes);
  const size_t lanes = s.y.lanes * size_t{s.y.bytes};
  char* y = r.of(s.y);
  const char* a = r.of(s.a);
  for (int64_t turn = 0; turn < r.turns; ++turn, y += lanes, a += s.y.bytes)
    fill(y, a, s.y.lanes, s.y.bytes);
}
void StripProgram::take_lane(const StripProgram&, Running& r, const Step& s) {
  const int64_t turns = s.y.strip ? r.turns : 1;
  const char* a = r.of(s.a) + s.word * s.a.bytes;
  char* y = r.of(s.y);
  for (int64_t turn = 0; turn < turns; ++turn, y += s.y.bytes, a += s.a.lanes * size_t{s.a.bytes})
    std::memcpy(y, a, s.y.bytes);
}

namespace {

template <typename T>
void take_lanes(char* y, const char* a, const char* b, const uint32_t* lanes, uint32_t n,
                uint32_t own) {
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t lane = lanes[i];
    const char* const from = lane < own ? a + lane * sizeof(T) : b + (lane - own) * sizeof(T);
    std::memcpy(y + i * sizeof(T), from, sizeof(T));
  }
}

}  // namespace

void StripProgram::shuffle(const StripProgram& p, Running& r, const Step& s) {
  const int64_t turns = s.y.strip ? r.turns : 1;
  const uint32_t* const lanes = p.lanes_.data() + s.list;
  const auto take = s.y.bytes == 1   ? take_lanes<uint8_t>
                    : s.y.bytes == 2 ? take_lanes<uint16_t>
                    : s.y.bytes == 4 ? take_lanes<uint32_t>
                                     : take_lanes<uint64_t>;
  const char *a = r.of(s.a), *b = r.of(s.b);
  char* y = r.of(s.y);
  for (int64_t turn = 0; turn < turns; ++turn) {
    take(y, a, b, lanes, s.y.lanes, s.a.lanes);
    a += s.a.lanes * size_t{s.a.bytes};
    b += s.b.lanes * size_t{s.b.bytes};
    y += s.y.lanes * size_t{s.y.bytes};
  }
}

// Halves with each other until one is left.
void StripProgram::across(const StripProgram&, Running& r, const Step& s) {
  const int64_t turns = s.y.strip ? r.turns : 1;
  alignas(64) char own[2][codegen::program::kMaxLanes * sizeof(int64_t)];
  const size_t bytes = s.a.lanes * size_t{s.a.bytes};
  for (int64_t turn = 0; turn < turns; ++turn) {
    std::memcpy(own[0], r.of(s.a) + static_cast<size_t>(turn) * bytes, bytes);
    size_t now = 0;
    for (uint32_t half = s.a.lanes / 2; half != 0; half /= 2, now ^= 1)
      s.loop(own[now ^ 1], own[now], own[now] + half * size_t{s.a.bytes}, nullptr, half);
    std::memcpy(r.of(s.y) + static_cast<size_t>(turn) * s.y.bytes, own[now], s.y.bytes);
  }
}
// Conditions of all elements of a function's call: whether all, or any, hold.
void StripProgram::across_all(const StripProgram&, Running& r, const Step& s) {
  const char* const a = r.of(s.a);
  const int64_t n = r.count(s.a);
  const bool all = s.word != 0;
  *r.of(s.y) = (std::memchr(a, all ? 0 : 1, static_cast<size_t>(n)) == nullptr) == all;
}

void StripProgram::call(const StripProgram& p, Running& r, const Step& s) {
  const Code& code = p.codes_[s.access];
  const int64_t turns = r.turns;
  const int64_t n = r.count(s.y);
  for (uint32_t i = 0; i < s.count; ++i) {
    const Value& to = code.arguments[i];
    const Value& from = p.places_[s.list + i];
    std::memcpy(r.of(to), r.of(from), static_cast<size_t>(to.strip ? n : 1) * to.bytes);
  }
  r.turns = n;
  p.execute(r, code.first, code.last);
  r.turns = turns;
  std::memcpy(r.of(s.y), r.of(code.result), static_cast<size_t>(n) * s.y.bytes);
}

int64_t StripProgram::base(const Running& r, const Access& access) const {
  int64_t out = access.constant;
  for (uint32_t i = 0; i < access.products; ++i) {
    const Product& product = products_[access.product + i];
    if (!product.value.strip || !access.moves)  // of an index, that of the first turn
      out += product.factor * read_index(r.of(product.value), product.value.bytes);
  }
  return out;
}

// One by one.
template <typename T>
void StripProgram::copy_elements(Running& r, const Step& s, char* memory, bool loads) const {
  const Access& access = accesses_[s.access];
  const Value& value = loads ? s.y : s.a;
  const int64_t turns = value.strip ? r.turns : 1;
  const int64_t first = base(r, access);
  char* word = r.of(value);
  for (int64_t turn = 0; turn < turns; ++turn) {
    int64_t at = first + turn * access.turn;
    for (uint32_t i = 0; access.moves && i < access.products; ++i) {
      const Product& product = products_[access.product + i];
      if (product.value.strip) at += product.factor * r.index(product.value, turn, 0);
    }
    const bool open = access.gate.bytes == 0 || r.index(access.gate, turn, 0) != 0;
    for (uint32_t lane = 0; lane < value.lanes; ++lane, word += sizeof(T)) {
      const bool touched = open && lane < access.first &&
                           (access.mask.bytes == 0 || r.index(access.mask, turn, lane) != 0);
      const int64_t from = at + (access.index.bytes != 0 ? r.index(access.index, turn, lane)
                                                         : access.stride * int64_t{lane});
      if (!touched) {
        if (loads) std::memset(word, 0, sizeof(T));
      } else if (loads) {
        std::memcpy(word, memory + from * int64_t{sizeof(T)}, sizeof(T));
      } else {
        std::memcpy(memory + from * int64_t{sizeof(T)}, word, sizeof(T));
      }
    }
  }
}

namespace {

// Rows of so many bytes; a step of zero reads the same one again.
template <size_t bytes>
void copy_rows(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * to_step, from + i * from_step, bytes);
}
void copy_rows(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t rows,
               size_t bytes) {
  const auto all = static_cast<int64_t>(bytes);
  if (to_step == all && from_step == all) {
    std::memcpy(to, from, bytes * static_cast<size_t>(rows));
    return;
  }
  switch (bytes) {
    case 4:
      return copy_rows<4>(to, to_step, from, from_step, rows);
    case 8:
      return copy_rows<8>(to, to_step, from, from_step, rows);
    case 16:
      return copy_rows<16>(to, to_step, from, from_step, rows);
    case 32:
      return copy_rows<32>(to, to_step, from, from_step, rows);
    case 64:
      return copy_rows<64>(to, to_step, from, from_step, rows);
    default:
      for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * to_step, from + i * from_step, bytes);
  }
}

}  // namespace

void StripProgram::access(const StripProgram& p, Running& r, const Step& s) {
  const Access& access = p.accesses_[s.access];
  const bool loads = s.y.bytes != 0;
  const Value& value = loads ? s.y : s.a;
  char* const memory = access.what == Op::kParam ? static_cast<char*>(r.params[access.memory])
                       : access.what == Op::kArray
                           ? r.at + access.memory
                           : const_cast<char*>(p.tables_.data()) + access.memory;
  const bool rows = access.index.bytes == 0 && access.gate.bytes == 0 && access.mask.bytes == 0 &&
                    !access.moves && access.stride == 1 && access.first == value.lanes;
  if (rows) {
    const auto bytes = static_cast<size_t>(value.bytes) * value.lanes;
    char* const at = memory + p.base(r, access) * value.bytes;
    const int64_t step = access.turn * value.bytes, own = static_cast<int64_t>(bytes);
    const int64_t turns = value.strip ? r.turns : 1;
    if (loads) return copy_rows(r.of(value), own, at, step, turns, bytes);
    return copy_rows(at, step, r.of(value), own, turns, bytes);
  }
  if (value.bytes == 1) return p.copy_elements<uint8_t>(r, s, memory, loads);
  if (value.bytes == 2) return p.copy_elements<uint16_t>(r, s, memory, loads);
  if (value.bytes == 4) return p.copy_elements<uint32_t>(r, s, memory, loads);
  p.copy_elements<uint64_t>(r, s, memory, loads);
}

int64_t StripProgram::bound(const Running& r, const Step& loop, bool high) const {
  if (high ? loop.has_high : loop.has_low) return high ? loop.high : loop.low;
  const Value& value = high ? loop.b : loop.a;
  return read_index(r.of(value), value.bytes);
}

// An innermost loop: so many turns go together, as often as needed.
void StripProgram::run_batch(Running& r, const Step& loop) const {
  int64_t low = bound(r, loop, false);
  const int64_t high = bound(r, loop, true);
  int64_t turns = low < high ? (high - low + loop.step - 1) / loop.step : 0;
  if (loop.task) {
    const int64_t first = std::clamp(r.begin - r.task, int64_t{0}, turns);
    const int64_t last = std::clamp(r.end - r.task, first, turns);
    r.task += turns;
    low += first * loop.step;
    turns = last - first;
  }
  if (turns == 0) return;
  const int64_t most = std::min(turns, loop.word);
  for (uint32_t i = 0; i < loop.count; i += 2) {
    const Value &from = places_[loop.list + i], &to = places_[loop.list + i + 1];
    const size_t bytes = size_t{to.lanes} * to.bytes;
    if (from.lanes == 1) {
      fill(r.of(to), r.of(from), most * to.lanes, to.bytes);
    } else {
      for (int64_t turn = 0; turn < most; ++turn)
        std::memcpy(r.of(to) + static_cast<size_t>(turn) * bytes, r.of(from), bytes);
    }
  }
  const int64_t outer = r.turns;
  while (turns > 0) {
    r.turns = std::min(turns, most);
    for (int64_t turn = 0; turn < r.turns; ++turn, low += loop.step)
      std::memcpy(r.of(loop.y) + turn * int64_t{sizeof(low)}, &low, sizeof(low));
    for (const Step* step = &loop + 1; step->kind != Kind::kClose; ++step)
      step->act(*this, r, *step);
    turns -= r.turns;
  }
  r.turns = outer;
}

void StripProgram::execute(Running& r, uint32_t first, uint32_t last) const {
  // A loop goes on from its body until its index is past the end, or a task is to be run.
  const auto enters = [&](const Step& loop, int64_t index) {
    const int64_t end = bound(r, loop, true);
    for (; index < end; index += loop.step) {
      if (loop.kind == Kind::kTaskLoop) {
        const int64_t task = r.task++;
        if (task < r.begin || task >= r.end) continue;
      }
      std::memcpy(r.of(loop.y), &index, sizeof(index));
      return true;
    }
    return false;
  };
  for (uint32_t at = first; at < last; ++at) {
    const Step& step = steps_[at];
    switch (step.kind) {
      case Kind::kStep:
        step.act(*this, r, step);
        break;
      case Kind::kIf:
        if (*r.of(step.a) == 0) at = step.match;
        break;
      case Kind::kBatch:
        run_batch(r, step);
        at = step.match;
        break;
      case Kind::kClose: {
        const Step& open = steps_[step.match];
        if (open.kind == Kind::kIf) break;
        if (enters(open, read_index(r.of(open.y), sizeof(int64_t)) + open.step)) at = step.match;
        break;
      }
      default:
        if (!enters(step, bound(r, step, false))) at = step.match;
    }
  }
}

void StripProgram::run(void* const* params, const int64_t* sizes, void* scratch, int64_t begin,
                       int64_t end) const {
  Running r;
  r.at = static_cast<char*>(scratch);
  r.params = params;
  r.sizes = sizes;
  r.begin = begin;
  r.end = end;
  execute(r, codes_[0].first, codes_[0].last);
}

}  // namespace aster::runtime::reference
