// Plans as values: equality, digests, text both ways.
#include "codegen/plan.h"

#include <algorithm>
#include <charconv>

#include "codegen/lexer.h"

namespace aster::codegen {
namespace {

constexpr const char* kRests[] = {"even", "overlap", "mask", "scalar", "then"};

// ---- Printing ----

class Printer {
 public:
  explicit Printer(Text& out) : out_(out) {}

  void plan(const Plan& plan) {
    out_ << (plan.general ? "plan general\n" : "plan\n");
    for (size_t i = 0; i < plan.segments.size(); ++i) {
      const SegmentPlan& s = plan.segments[i];
      begin();
      nest(s.nest);
      tasks(s);
      slots("pack", s.packed);
      slots("ready", s.ready);
      slots("fetch", s.fetched);
      slots("stream", s.streams);
      if (s.rolled != 0) field("rolled") << " " << s.rolled;
      if (s.kept) field("kept");
      if (s.items != 0) field("items") << " " << s.items;
      end(i, -1);
      for (size_t group = 0; group < s.folds.size(); ++group) {
        begin();
        nest(s.folds[group]);
        end(i, static_cast<int>(group));
      }
    }
  }

 private:
  void begin() { line_.clear(), any_ = false; }
  // What has no fields still has its line: plans say how many segments and groups they are of.
  void end(size_t segment, int group) {
    out_ << static_cast<uint64_t>(segment);
    if (group >= 0) out_ << "." << group;
    out_ << ":" << line_.view() << "\n";
    if (!line_.status().ok()) failed_ = line_.status();
  }
  Text& field(const char* name) {
    line_ << (any_ ? "; " : " ") << name;
    any_ = true;
    return line_;
  }
  void rest(Rest rest) {
    if (rest != Rest::kEven) line_ << " " << kRests[static_cast<size_t>(rest)];
  }

  void nest(const Nest& n) {
    if (n.vector >= 0) {
      field("vector") << " r" << n.vector << " " << n.lanes;
      rest(n.vector_rest);
    }
    for (int i = 0; i < n.tile_count; ++i) {
      if (i == 0) field("tile");
      line_ << (i == 0 ? " r" : ", r") << n.tiles[i].range << " " << n.tiles[i].copies;
      rest(n.tiles[i].rest);
      if (n.tiles[i].rest == Rest::kThen) line_ << " " << n.tiles[i].fewer;
    }
    for (int i = 0; i < n.loop_count; ++i) {
      if (i == 0) field("order");
      line_ << " r" << n.loops[i].range;
      if (n.loops[i].block != 0) line_ << "/" << n.loops[i].block;
    }
    if (n.written != 0) field("written");
    for (int range = 0; range < kMaxRanges; ++range) {
      if (has(n.written, range)) line_ << " r" << range;
    }
  }
  // A task of so many elements is written where it is more than one step.
  void tasks(const SegmentPlan& s) {
    for (int i = 0; i < s.tasks.loops; ++i) {
      if (i == 0) field("tasks");
      line_ << " r" << s.nest.loops[i].range;
      if (i + 1 == s.tasks.loops && s.tasks.chunk != s.nest.loop_step(i))
        line_ << "/" << s.tasks.chunk;
    }
  }
  void slots(const char* name, const Vec<int>& slots) {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (i == 0) field(name);
      line_ << " p" << slots[i];
    }
  }

 public:
  Status status() const { return failed_.ok() ? out_.status() : failed_; }

 private:
  Text& out_;
  Text line_{out_.memory()};
  Status failed_;
  bool any_ = false;
};

// ---- Reading ----

class Reader : TokenReader {
 public:
  Reader(Plan* plan, std::string_view text) : TokenReader(text), plan_(*plan) {}

  Status run() {
    move();
    while (token_.kind == TokenKind::kBreak) move();
    if (!accept("plan")) return expected("plan");
    plan_.general = accept("general");
    ASTER_TRY(end_line());
    while (token_.kind != TokenKind::kEnd) ASTER_TRY(line());
    return kOk;
  }

 private:
  Status end_line() {
    if (at(";") || (token_.kind != TokenKind::kBreak && token_.kind != TokenKind::kEnd))
      return expected("the end of the line");
    while (token_.kind == TokenKind::kBreak && !at(";")) move();
    return kOk;
  }
  template <typename Number>
  bool parsed(Number* out, std::string_view text) const {
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, *out);
    return !text.empty() && result.ec == std::errc() && result.ptr == end;
  }
  Status number(int64_t* out, int64_t most, const char* what) {
    if (token_.kind != TokenKind::kNumber || !parsed(out, token_.text) || *out < 1 || *out > most)
      return expected(what);
    move();
    return kOk;
  }
  // A letter and a number.
  bool named(int* out, char letter, int most) const {
    return token_.kind == TokenKind::kName && token_.text[0] == letter &&
           parsed(out, text_slice(token_.text, 1)) && *out >= 0 && *out < most;
  }
  Status range(int* out) {
    if (!named(out, 'r', kMaxRanges)) return expected("a range");
    move();
    return kOk;
  }

  // "2" or "2.0": segments and their groups of folds stand in order.
  Status line() {
    const size_t dot = token_.text.find('.');
    size_t segment = 0, group = 0;
    if (token_.kind != TokenKind::kNumber || !parsed(&segment, text_slice(token_.text, 0, dot)))
      return expected("the number of a segment");
    Vec<SegmentPlan>& all = plan_.segments;
    fields_ = 0;
    if (dot == std::string_view::npos) {
      if (segment != all.size()) return expected("the next segment");
      ASTER_TRY(all.push(SegmentPlan(all.memory())));
    } else {
      const bool known = segment + 1 == all.size() &&
                         parsed(&group, text_slice(token_.text, dot + 1)) &&
                         group == all.back().folds.size();
      if (!known) return expected("the next group of folds");
      ASTER_TRY(all.back().folds.push(Nest{}));
    }
    move();
    if (!accept(":")) return expected(":");
    if (token_.kind == TokenKind::kName) {
      SegmentPlan& s = all.back();
      Nest& nest = dot == std::string_view::npos ? s.nest : s.folds.back();
      do {
        ASTER_TRY(field(dot == std::string_view::npos ? &s : nullptr, nest));
      } while (accept(";"));
    }
    return end_line();
  }

  // Fields in the order in which they are printed, each once.
  Status field(SegmentPlan* s, Nest& nest) {
    struct Row {
      const char* name;
      Status (Reader::*read)(SegmentPlan*, Nest&);
      bool segment;  // of segments alone
    };
    static constexpr Row kRows[] = {
        {"vector", &Reader::vector, false}, {"tile", &Reader::tiles, false},
        {"order", &Reader::order, false},   {"written", &Reader::written, false},
        {"tasks", &Reader::tasks, true},    {"pack", &Reader::packed, true},
        {"ready", &Reader::ready, true},    {"fetch", &Reader::fetched, true},
        {"stream", &Reader::streams, true}, {"rolled", &Reader::rolled, true},
        {"kept", &Reader::kept, true},      {"items", &Reader::items, true}};
    for (; fields_ < std::size(kRows); ++fields_) {
      const Row& row = kRows[fields_];
      if (row.segment && s == nullptr) break;
      if (!accept(row.name)) continue;
      ++fields_;
      return (this->*row.read)(s, nest);
    }
    return expected(
        "vector, tile, order, written, tasks, pack, ready, fetch, stream, rolled, kept or items, "
        "in this order");
  }
  void rest(Rest* out) {
    for (size_t i = 0; i < std::size(kRests); ++i) {
      if (accept(kRests[i])) *out = static_cast<Rest>(i);
    }
  }
  Status vector(SegmentPlan*, Nest& nest) {
    int64_t lanes = 1;
    ASTER_TRY(range(&nest.vector));
    ASTER_TRY(number(&lanes, program::kMaxLanes, "a number of lanes"));
    nest.lanes = static_cast<int>(lanes);
    rest(&nest.vector_rest);
    return kOk;
  }
  Status tiles(SegmentPlan*, Nest& nest) {
    do {
      if (nest.tile_count == Nest::kMaxTiles) return expected("no more tiles");
      Tile& tile = nest.tiles[nest.tile_count];
      int64_t copies = 1;
      ASTER_TRY(range(&tile.range));
      ASTER_TRY(number(&copies, program::kMaxSteps, "a number of copies"));
      tile.copies = static_cast<int>(copies);
      rest(&tile.rest);
      int64_t fewer = 0;
      if (tile.rest == Rest::kThen)
        ASTER_TRY(number(&fewer, program::kMaxSteps, "a number of copies"));
      tile.fewer = static_cast<int>(fewer);
      ++nest.tile_count;
    } while (accept(","));
    return kOk;
  }
  Status order(SegmentPlan*, Nest& nest) {
    do {
      if (nest.loop_count == Nest::kMaxLoops) return expected("no more loops");
      Loop& loop = nest.loops[nest.loop_count];
      ASTER_TRY(range(&loop.range));
      if (accept("/")) ASTER_TRY(number(&loop.block, INT64_MAX, "a number of elements"));
      ++nest.loop_count;
    } while (token_.kind == TokenKind::kName);
    return kOk;
  }
  Status written(SegmentPlan*, Nest& nest) {
    do {
      int at = 0;
      ASTER_TRY(range(&at));
      nest.written |= range_bit(at);
    } while (token_.kind == TokenKind::kName);
    return kOk;
  }
  Status tasks(SegmentPlan* s, Nest& nest) {
    do {
      int at = 0;
      const bool next = named(&at, 'r', kMaxRanges) && s->tasks.loops < nest.loop_count &&
                        s->tasks.loops < Tasks::kMostLoops &&
                        nest.loops[s->tasks.loops].range == at;
      if (!next) return expected("the next loop of the order");
      move();
      s->tasks.chunk = nest.loop_step(s->tasks.loops++);
    } while (token_.kind == TokenKind::kName);
    return accept("/") ? number(&s->tasks.chunk, INT64_MAX, "a number of elements") : kOk;
  }
  Status slots(Vec<int>* out) {
    do {
      int slot = 0;
      if (!named(&slot, 'p', INT32_MAX) || (!out->empty() && out->back() >= slot))
        return expected("the next param");
      move();
      ASTER_TRY(out->push(slot));
    } while (token_.kind == TokenKind::kName);
    return kOk;
  }
  Status packed(SegmentPlan* s, Nest&) { return slots(&s->packed); }
  Status ready(SegmentPlan* s, Nest&) { return slots(&s->ready); }
  Status fetched(SegmentPlan* s, Nest&) { return slots(&s->fetched); }
  Status streams(SegmentPlan* s, Nest&) { return slots(&s->streams); }
  Status rolled(SegmentPlan* s, Nest&) {
    int64_t beside = 0;
    ASTER_TRY(number(&beside, program::kMaxSteps, "a number of copies"));
    s->rolled = static_cast<int>(beside);
    return kOk;
  }
  Status kept(SegmentPlan* s, Nest&) {
    s->kept = true;
    return kOk;
  }
  Status items(SegmentPlan* s, Nest&) {
    int64_t items = 0;
    ASTER_TRY(number(&items, INT32_MAX, "a number of items"));
    s->items = static_cast<int>(items);
    return kOk;
  }

  Plan& plan_;
  size_t fields_ = 0;  // of the line that are behind
};

}  // namespace

bool operator==(const Plan& a, const Plan& b) {
  const auto same = [](const SegmentPlan& x, const SegmentPlan& y) {
    return x.nest == y.nest && x.tasks == y.tasks && x.rolled == y.rolled && x.kept == y.kept &&
           x.items == y.items &&
           std::equal(x.folds.begin(), x.folds.end(), y.folds.begin(), y.folds.end()) &&
           std::equal(x.packed.begin(), x.packed.end(), y.packed.begin(), y.packed.end()) &&
           std::equal(x.ready.begin(), x.ready.end(), y.ready.begin(), y.ready.end()) &&
           std::equal(x.fetched.begin(), x.fetched.end(), y.fetched.begin(), y.fetched.end()) &&
           std::equal(x.streams.begin(), x.streams.end(), y.streams.begin(), y.streams.end());
  };
  return a.general == b.general && std::equal(a.segments.begin(), a.segments.end(),
                                              b.segments.begin(), b.segments.end(), same);
}

namespace {

void mix(program::Mixer* out, const Nest& nest) {
  const auto word = [&](int64_t x) { out->word(static_cast<uint64_t>(x)); };
  word(nest.vector), word(nest.lanes), word(static_cast<int64_t>(nest.vector_rest));
  out->word(nest.written);
  word(nest.tile_count), word(nest.loop_count);
  for (int i = 0; i < nest.tile_count; ++i) {
    word(nest.tiles[i].range), word(nest.tiles[i].copies);
    word(static_cast<int64_t>(nest.tiles[i].rest));
    if (nest.tiles[i].fewer != 0) word(nest.tiles[i].fewer);
  }
  for (int i = 0; i < nest.loop_count; ++i) word(nest.loops[i].range), word(nest.loops[i].block);
}

}  // namespace

program::Digest digest(const Plan& plan) {
  program::Mixer out;
  out.word(plan.general ? 1 : 0);
  for (const SegmentPlan& s : plan.segments) {
    mix(&out, s.nest);
    out.word(s.folds.size());
    for (const Nest& nest : s.folds) mix(&out, nest);
    out.word(static_cast<uint64_t>(s.tasks.loops));
    out.word(static_cast<uint64_t>(s.tasks.chunk));
    out.word(static_cast<uint64_t>(s.rolled));
    out.word(static_cast<uint64_t>(s.items));
    if (s.kept) out.word(UINT64_MAX);
    out.word(s.streams.size());
    for (int slot : s.streams) out.word(static_cast<uint64_t>(slot));
    for (int slot : s.packed) out.word(~static_cast<uint64_t>(slot));
    if (!s.ready.empty()) out.word(~s.ready.size() << 32);
    for (int slot : s.ready) out.word(~static_cast<uint64_t>(slot));
    if (!s.fetched.empty()) out.word(~s.fetched.size() << 33);
    for (int slot : s.fetched) out.word(~static_cast<uint64_t>(slot));
  }
  return out.get();
}

Status copy(Plan* out, const Plan& plan) {
  out->segments.clear();
  out->general = plan.general;
  for (const SegmentPlan& from : plan.segments) {
    SegmentPlan to(out->segments.memory());
    to.nest = from.nest;
    to.tasks = from.tasks;
    to.rolled = from.rolled;
    to.items = from.items;
    to.kept = from.kept;
    ASTER_TRY(to.folds.append(from.folds.data(), from.folds.size()));
    ASTER_TRY(to.packed.append(from.packed.data(), from.packed.size()));
    ASTER_TRY(to.ready.append(from.ready.data(), from.ready.size()));
    ASTER_TRY(to.fetched.append(from.fetched.data(), from.fetched.size()));
    ASTER_TRY(to.streams.append(from.streams.data(), from.streams.size()));
    ASTER_TRY(out->segments.push(std::move(to)));
  }
  return kOk;
}

bool has_items(const Plan& plan) {
  return std::ranges::any_of(plan.segments, [](const SegmentPlan& s) { return s.items != 0; });
}

bool folds_alike(const Plan& a, const Plan& b) {
  const auto alike = [](const Nest& x, const Nest& y) {
    bool same = x.loop_count == y.loop_count && x.vector == y.vector && x.lanes == y.lanes &&
                x.written == y.written;
    for (int i = 0; same && i < x.loop_count; ++i)
      same = x.loops[i].range == y.loops[i].range && x.loop_step(i) == y.loop_step(i);
    return same;
  };
  return std::equal(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(),
                    [&](const SegmentPlan& x, const SegmentPlan& y) {
                      return x.nest.vector == y.nest.vector && x.nest.lanes == y.nest.lanes &&
                             std::equal(x.folds.begin(), x.folds.end(), y.folds.begin(),
                                        y.folds.end(), alike);
                    });
}

Status print(Text& out, const Plan& plan) {
  Printer printer(out);
  printer.plan(plan);
  return printer.status();
}

Status read(Plan* out, std::string_view text) {
  out->segments.clear();
  out->general = false;
  const Status status = Reader(out, text).run();
  if (!status.ok()) out->segments.clear();
  return status;
}

int64_t first_steps(int64_t size, int64_t step, int64_t last) {
  for (int64_t first = (size - 1) / step * step; first > 0; first -= step) {
    if ((size - first) % last == 0) return first;
    if (size - first > step * last) break;
  }
  return 0;
}

int64_t task_count(const Kernel& kernel, const SegmentPlan& plan, int i) {
  const int64_t chunk = i + 1 == plan.tasks.loops ? plan.tasks.chunk : plan.nest.loop_step(i);
  const int64_t size = kernel.size(plan.nest.loops[i].range);
  // The last task takes the rest besides; blocks of groups may pass the end.
  return std::max<int64_t>((plan.items != 0 ? size + chunk - 1 : size) / chunk, 1);
}

int64_t task_count(const Kernel& kernel, const SegmentPlan& plan) {
  int64_t count = 1;
  for (int i = 0; i < plan.tasks.loops; ++i) count *= task_count(kernel, plan, i);
  return count;
}

int64_t block_length(const Kernel& kernel, const SegmentPlan& plan, int range) {
  for (int i = 0; i < plan.tasks.loops; ++i) {
    const Loop& loop = plan.nest.loops[i];
    if (loop.range == range) return loop.block != 0 ? loop.block : 1;
  }
  const int64_t step = plan.nest.step(range);
  return (kernel.size(range) + step - 1) / step * step;
}

int64_t block_steps(const Kernel& kernel, const SegmentPlan& plan) {
  int64_t steps = 1;
  for (int i = plan.tasks.loops; i < plan.nest.loop_count; ++i) {
    const int range = plan.nest.loops[i].range;
    steps = std::min(steps, INT64_MAX >> 32) *
            std::min(block_length(kernel, plan, range) / plan.nest.step(range), INT64_MAX >> 32);
  }
  return steps;
}

}  // namespace aster::codegen
