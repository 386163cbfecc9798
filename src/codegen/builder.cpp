#include "codegen/builder.h"

#include <algorithm>
#include <cstdio>

namespace aster::codegen::program {
Builder::Builder(Memory& memory)
    : memory_(memory),
      list_(memory),
      blocks_(memory),
      open_(memory),
      home_(memory),
      equal_(memory),
      ranks_(memory),
      free_axes_(memory),
      written_(memory),
      pending_(memory),
      first_edge_(memory),
      edges_(memory) {
  fail(blocks_.push(Block(memory)));
  fail(open_.push(uint32_t{0}));
}

size_t* Builder::free_axis(int64_t size, int rank) {
  if (!status().ok()) return nullptr;  // an axis that could not be added may have been released
  for (size_t& axis : free_axes_) {
    if (list_.axes()[axis].size == size && ranks_[axis] == rank) return &axis;
  }
  return nullptr;
}

size_t Builder::add_axis(int64_t size, int rank) {
  if (size_t* const found = free_axis(size, rank)) {
    const size_t axis = *found;
    *found = free_axes_.back();
    free_axes_.pop();
    return axis;
  }
  char name[8];
  std::snprintf(name, sizeof(name), "u%zu", list_.axes().size());
  fail(ranks_.push(rank));
  return list_.add_axis(name, size);
}

uint32_t Builder::home_of(std::span<const Id> operands, Terms terms) const {
  uint32_t home = 0;
  const auto take = [&](Id id) {
    const uint32_t block = list_.at(id).op == Op::kAcc ? open_.back() : home_[id];
    if (blocks_[block].depth > blocks_[home].depth) home = block;
  };
  for (Id id : operands) take(id);
  for (const Term& term : terms) {
    if (!term.axis) take(term.at);
  }
  return home;
}

Id Builder::append(uint32_t block, const Instruction& in, std::span<const Id> operands, Words words,
                   Terms terms) {
  const Id id = list_.add(in, operands, words, terms);
  fail(home_.push(block));
  push(block, {id});
  return status().ok() ? id : kNone;
}

Id Builder::pure(Instruction in, std::span<const Id> operands, Words words, Terms terms) {
  if (!status().ok()) return kNone;
  if (!sets_axes(in.op)) {
    for (Id id : operands) in.axes |= at(id).axes;
    for (const Term& term : terms) in.axes |= term.axis ? axis_bit(term.at) : at(term.at).axes;
  }
  const uint32_t home = home_of(operands, terms);
  const bool reads_register =
      std::ranges::any_of(operands, [&](Id id) { return at(id).op == Op::kAcc; });
  if (reads_register) return append(home, in, operands, words, terms);
  Mixer mix;
  mix.instruction(in, operands, words, terms);
  const Digest key = mix.get();
  const Id* const found = equal_.find(key);
  if (found != nullptr && is_open(home_[*found])) return *found;
  const Id id = append(home, in, operands, words, terms);
  if (status().ok()) fail(equal_.set(key, id));
  return id;
}

Id Builder::act(Instruction in, std::span<const Id> operands, Words words, Terms terms) {
  if (!status().ok()) return kNone;
  if (in.op != Op::kAcc) {
    for (Id id : operands) in.axes |= at(id).axes;
    for (const Term& term : terms) in.axes |= term.axis ? axis_bit(term.at) : at(term.at).axes;
  }
  return append(open_.back(), in, operands, words, terms);
}

Id Builder::open(const Instruction& in, std::span<const Id> operands, Words words) {
  if (!status().ok()) return kNone;
  const Id id = list_.add(in, operands, words);
  Block block(memory_);
  block.head = id;
  block.depth = open_.size();
  const auto number = static_cast<uint32_t>(blocks_.size());
  fail(blocks_.push(std::move(block)));
  fail(open_.push(number));
  fail(home_.push(number));
  return status().ok() ? id : kNone;
}

void Builder::close() {
  if (!status().ok()) return;
  const uint32_t block = open_.back();
  open_.pop();
  push(open_.back(), {kNone, block});
}

// ---- Writing ----

Status Builder::finish(Program* out) {
  ASTER_TRY(status());
  out_ = out;
  for (const Axis& axis : list_.axes()) out->add_axis(axis.name, axis.size);
  const size_t count = list_.code().size();
  fail(written_.resize(count, kNone));
  fail(pending_.resize(count, uint8_t{0}));
  fail(first_edge_.resize(count, UINT32_MAX));
  if (status().ok()) write_block(0);
  ASTER_TRY(status());
  return out->status();
}

void Builder::write_block(uint32_t number) {
  Vec<Id> run(memory_);
  const auto flush = [&] {
    order_effects({run.data(), run.size()});
    write_run({run.data(), run.size()}, 0);
    run.clear();
  };
  for (const Item& item : blocks_[number].items) {
    if (item.block == UINT32_MAX && at(item.id).op != Op::kBarrier) {
      fail(run.push(item.id));
      continue;
    }
    flush();
    if (item.block == UINT32_MAX) {
      (void)write_one(item.id);
      continue;
    }
    (void)write_one(blocks_[item.block].head);
    write_block(item.block);
    out_->add({.op = Op::kEnd});
  }
  flush();
}

int Builder::outermost(AxisSet set) const {
  int found = -1;
  for (size_t axis = 0; axis < ranks_.size(); ++axis) {
    if (!has(set, axis)) continue;
    if (found < 0 || ranks_[axis] < ranks_[static_cast<size_t>(found)])
      found = static_cast<int>(axis);
  }
  return found;
}

// What has not the outermost axis comes first, as far as it may, so that the copies along the axis
// find it at hand; then each of the copies from its loads to its stores.
void Builder::write_run(std::span<const Id> run, AxisSet fixed) {
  AxisSet axes = 0;
  for (Id id : run) axes |= at(id).axes;
  axes = static_cast<AxisSet>(axes & ~fixed);
  const int outer = outermost(axes);
  if (outer < 0 || run.size() == 1) {
    for (Id id : run) (void)write_one(id);
    return;
  }
  const auto axis = static_cast<size_t>(outer);
  Vec<Id> left(memory_), part(memory_);
  fail(left.append(run.data(), run.size()));
  while (!left.empty() && status().ok()) {
    for (Id id : left) pending_[id] = 1;
    pick(&part, &left, axis, false);
    write_run({part.data(), part.size()}, fixed);
    pick(&part, &left, axis, true);
    if (part.size() < 2) {
      for (Id id : part) (void)write_one(id);
      continue;
    }
    out_->add({.op = Op::kEach, .axis = static_cast<uint8_t>(axis)});
    write_run({part.data(), part.size()}, static_cast<AxisSet>(fixed | axis_bit(axis)));
    out_->add({.op = Op::kEnd});
  }
}

void Builder::pick(Vec<Id>* out, Vec<Id>* left, size_t axis, bool having) {
  out->clear();
  size_t kept = 0;
  for (Id id : *left) {
    if (has(at(id).axes, axis) == having && !waits(id)) {
      pending_[id] = 0;
      fail(out->push(id));
    } else {
      (*left)[kept++] = id;
    }
  }
  left->truncate(kept);
}

bool Builder::waits(Id id) const {
  const Instruction& in = at(id);
  for (Id operand : list_.operands(in)) {
    if (pending_[operand] != 0) return true;
  }
  for (const Term& term : list_.terms(in)) {
    if (!term.axis && pending_[term.at] != 0) return true;
  }
  for (uint32_t edge = first_edge_[id]; edge != UINT32_MAX; edge = edges_[edge].next) {
    if (pending_[edges_[edge].before] != 0) return true;
  }
  return false;
}

// The register or memory that an instruction changes, or may see others change.
bool Builder::changes(Id id, Id* what) const {
  const Instruction& in = at(id);
  *what = kNone;
  if (in.op == Op::kSet || in.op == Op::kStore || in.op == Op::kAtomic) {
    *what = list_.operands(in)[0];
    return true;
  }
  if (in.op == Op::kLoad) *what = list_.operands(in)[0];
  return false;
}

bool Builder::reads(Id id, Id what) const {
  const std::span<const Id> operands = list_.operands(at(id));
  return std::ranges::find(operands, what) != operands.end();
}

void Builder::order_effects(std::span<const Id> run) {
  const auto order = [&](Id before, Id after) {
    fail(edges_.push({before, first_edge_[after]}));
    if (status().ok()) first_edge_[after] = static_cast<uint32_t>(edges_.size() - 1);
  };
  for (size_t i = 0; i < run.size(); ++i) {
    Id what = kNone;
    if (!changes(run[i], &what)) continue;
    for (size_t j = 0; j < run.size(); ++j) {
      if (j == i || !reads(run[j], what)) continue;
      Id other = kNone;
      if (j > i && changes(run[j], &other) && other == what) continue;  // when it comes itself
      order(run[std::min(i, j)], run[std::max(i, j)]);
    }
  }
}

Id Builder::write_one(Id id) {
  if (!status().ok()) return kNone;
  const Instruction& in = at(id);
  Vec<Id> operands(memory_);
  Vec<Term> terms(memory_);
  for (Id operand : list_.operands(in)) fail(operands.push(written_[operand]));
  for (Term term : list_.terms(in)) {
    if (!term.axis) term.at = written_[term.at];
    fail(terms.push(term));
  }
  written_[id] = out_->add(in, {operands.data(), operands.size()}, list_.words(in),
                           {terms.data(), terms.size()});
  fail(out_->status());
  return written_[id];
}

}  // namespace aster::codegen::program
