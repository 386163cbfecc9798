// Kernels with the same loops become one with several results where that saves reading: a producer
// and the users that read it element by element, or users of the same memory (the moments of an
// Adam step, say).
#include <algorithm>
#include <span>

#include "engine/rangeify.h"
#include "uop/symbolic.h"

namespace aster::engine {

using uop::Node;
using uop::Op;

namespace {

constexpr uint32_t kMostMergedNodes = 300;
constexpr size_t kMostOperands = 16;
// Kernels on either side that are looked at, of those that touch the same memory.
constexpr size_t kFarthest = 64;

}  // namespace

Status Rangeify::Merging::touch(uint32_t slot, uint32_t kernel) {
  Vec<uint32_t>& all = touching[slot];
  const uint32_t* at = std::lower_bound(all.begin(), all.end(), kernel);
  if (at != all.end() && *at == kernel) return kOk;
  const auto place = at - all.begin();
  ASTER_TRY(all.push(kernel));
  std::rotate(all.begin() + place, all.end() - 1, all.end());
  return kOk;
}

Status Rangeify::begin_merging(Merging* merging) {
  const size_t count = kernels_.size();
  for (size_t k = 0; k < count; ++k) ASTER_TRY(merging->users.push(Vec<uint32_t>(memory_)));
  for (size_t s = 0; s < schedule_.slots.size(); ++s) {
    ASTER_TRY(merging->touching.push(Vec<uint32_t>(memory_)));
  }
  ASTER_TRY(merging->ranks.resize(count, 0));
  ASTER_TRY(merging->seen.resize(count, 0));
  for (uint32_t k = 0; k < count; ++k) {
    for (uint32_t before : kernels_[k].after) ASTER_TRY(merging->users[before].push(k));
    for (uint32_t slot : kernels_[k].operands) ASTER_TRY(merging->touch(slot, k));
    for (const Output& output : kernels_[k].outputs) ASTER_TRY(merging->touch(output.slot, k));
  }
  // What nothing comes before is 0; users follow when all before them have their rank.
  Vec<uint32_t> left(memory_);
  ASTER_TRY(left.resize(count, 0));
  for (uint32_t k = 0; k < count; ++k) {
    left[k] = static_cast<uint32_t>(kernels_[k].after.size());
    if (left[k] == 0) ASTER_TRY(merging->stack.push(k));
  }
  size_t done = 0;
  for (; !merging->stack.empty(); ++done) {
    const uint32_t k = merging->stack.back();
    merging->stack.pop();
    for (uint32_t user : merging->users[k]) {
      merging->ranks[user] = std::max(merging->ranks[user], merging->ranks[k] + 1);
      if (--left[user] == 0) ASTER_TRY(merging->stack.push(user));
    }
  }
  merging->ordered = done == count;
  return kOk;
}

// Users of a kernel come after it again, after its rank has grown.
Status Rangeify::raise_ranks(Merging* merging, uint32_t from) {
  ASTER_TRY(merging->stack.push(from));
  while (!merging->stack.empty()) {
    const uint32_t k = merging->stack.back();
    merging->stack.pop();
    for (uint32_t user : merging->users[k]) {
      if (kernels_[user].merged || merging->ranks[user] > merging->ranks[k]) continue;
      merging->ranks[user] = merging->ranks[k] + 1;
      ASTER_TRY(merging->stack.push(user));
    }
  }
  return kOk;
}

// Whether a kernel comes after another by way of others, or at once if that counts. The lowest
// ranks are looked at first: they are the nearest.
Status Rangeify::follows(bool* out, Merging* merging, uint32_t later, uint32_t earlier,
                         bool at_once) {
  Vec<uint32_t>& stack = merging->stack;
  const Vec<uint32_t>& ranks = merging->ranks;
  *out = false;
  ++merging->search;
  stack.clear();
  ASTER_TRY(stack.push(later));
  while (!stack.empty() && !*out) {
    const uint32_t at = stack.back();
    const size_t first = stack.size() - 1;
    stack.pop();
    for (uint32_t before : kernels_[at].after) {
      *out |= before == earlier && (at_once || at != later);
      if (ranks[before] <= ranks[earlier] || merging->seen[before] == merging->search) continue;
      merging->seen[before] = merging->search;
      ASTER_TRY(stack.push(before));
    }
    std::sort(stack.begin() + first, stack.end(),
              [&](uint32_t a, uint32_t b) { return ranks[a] > ranks[b]; });
  }
  stack.clear();
  return kOk;
}

// Kernels that touch memory which this one reads, the last first; of memory that very many touch,
// those made shortly before and after. widely: not those that share single elements alone, else
// those that compute the same first.
Status Rangeify::near(Vec<uint32_t>* out, const Merging& merging, uint32_t kernel, bool widely) {
  const auto add = [&](uint32_t slot) -> Status {
    const Vec<uint32_t>& all = merging.touching[slot];
    size_t first = 0, last = all.size();
    if (all.size() > 2 * kFarthest) {
      const uint32_t* here = std::lower_bound(all.begin(), all.end(), kernel);
      const size_t at = static_cast<size_t>(here - all.begin());
      first = at - std::min(at, kFarthest);
      last = std::min(all.size(), at + kFarthest);
    }
    return out->append(all.data() + first, last - first);
  };
  for (uint32_t slot : kernels_[kernel].operands) {
    if (!widely || schedule_.slots[slot].count > 1) ASTER_TRY(add(slot));
  }
  const uint64_t unit = kernels_[kernel].unit;
  std::sort(out->begin(), out->end(), [&](uint32_t a, uint32_t b) {
    const bool alike = kernels_[a].unit == unit;
    if (!widely && alike != (kernels_[b].unit == unit)) return alike;
    return a > b;
  });
  out->truncate(static_cast<size_t>(std::unique(out->begin(), out->end()) - out->begin()));
  return kOk;
}

// Same loops, without first ones of their own, and not too much together.
bool Rangeify::same_loops(const Kernel& into, const Kernel& from) {
  if (into.merged || from.merged || into.library || from.library) return false;
  if (into.size + from.size > kMostMergedNodes ||
      into.operands.size() + from.operands.size() > kMostOperands)
    return false;
  if (!into.prefixes.empty() || !from.prefixes.empty()) return false;
  return into.ranges.size() == from.ranges.size() && !into.ranges.empty() &&
         std::equal(into.ranges.begin(), into.ranges.end(), from.ranges.begin());
}

// Same loops, and whatever both touch they touch at the same element.
bool Rangeify::fits_beside(const Kernel& into, const Kernel& from) {
  if (!same_loops(into, from)) return false;
  return loops_of(from) == from.next_range || (streams(into) && streams(from));
}

int64_t Rangeify::loops_of(const Kernel& kernel) {
  int64_t loops = 0;
  for (Node range : kernel.ranges) loops += range->op == Op::kRange;
  return loops;
}

// Whether the kernel's reductions read every element once, as row sums do: nothing is lost when
// several share their loops, where a product's tile would be.
bool Rangeify::streams(const Kernel& kernel) {
  const int64_t loops = loops_of(kernel);
  if (loops == kernel.next_range) return true;
  if (loops >= 63) return false;
  const uint64_t own = (uint64_t{1} << loops) - 1;
  Vec<Node> nodes(memory_), roots(memory_);
  for (const Output& output : kernel.outputs) {
    if (!roots.push(output.value).ok()) return false;
  }
  if (!uop::toposort(&nodes, {roots.data(), roots.size()}).ok()) return false;
  for (Node node : nodes) {
    uint64_t mask = 0;
    if (node->op != Op::kLoad) continue;
    if (!ranges_in(&mask, node->src(1)).ok()) return false;
    if ((mask & ~own) != 0 && (mask & own) != own) return false;
  }
  return true;
}

// Whether every load that `from` does of memory that `into` writes, and of memory that it writes
// itself while `into` reads it, is of the element at hand.
bool Rangeify::mergeable(uint32_t into_id, uint32_t from_id) {
  const Kernel& into = kernels_[into_id];
  const Kernel& from = kernels_[from_id];
  if (!fits_beside(into, from)) return false;
  // The order of two writes to the same memory is that of their kernels.
  const auto overlapping = [&](uint32_t a, uint32_t b) {
    const Slot &memory = schedule_.slots[a], &other = schedule_.slots[b];
    return a == b || (memory.kind == SlotKind::kParam && other.kind == SlotKind::kParam &&
                      overlap(memory.index, other.index));
  };
  for (const Output& a : into.outputs) {
    for (const Output& b : from.outputs) {
      if (overlapping(a.slot, b.slot)) return false;
    }
  }
  // Loads of a written slot: by position.
  const auto at_hand = [&](const Kernel& reader, const Kernel& writer) {
    Vec<Node> nodes(memory_), roots(memory_);
    for (const Output& output : reader.outputs) {
      if (!roots.push(output.value).ok()) return false;
    }
    if (!uop::toposort(&nodes, {roots.data(), roots.size()}).ok()) return false;
    for (Node node : nodes) {
      if (node->op != Op::kLoad) continue;
      const uint32_t slot = reader.operands[static_cast<size_t>(node->src(0)->arg(0))];
      bool written = false, here = false;
      for (const Output& output : writer.outputs) {
        written |= overlapping(slot, output.slot);
        here |= slot == output.slot && node->nsrc == 2 && node->src(1) == output.position;
      }
      if (written && !here) return false;
    }
    return true;
  };
  return at_hand(from, into) && at_hand(into, from);
}

// Gives the ranges of a kernel's reductions numbers from `first` on.
Status Rangeify::renumber_folds(Kernel* kernel, int64_t first) {
  const int64_t loops = loops_of(*kernel);
  if (loops == kernel->next_range) return kOk;
  Vec<Node> nodes(memory_), roots(memory_);
  for (const Output& output : kernel->outputs) ASTER_TRY(roots.push(output.value));
  ASTER_TRY(uop::toposort(&nodes, {roots.data(), roots.size()}));
  uop::sym::Rebuilder rebuild(g_);
  for (Node node : nodes) {
    if (node->op != Op::kRange || node->arg(0) < loops) continue;
    Node renamed = g_.range(node->arg(0) - loops + first, node->arg(1));
    ASTER_TRY(need(renamed));
    ASTER_TRY(rebuild.replace(node, renamed));
  }
  for (Output& output : kernel->outputs) {
    output.value = rebuild(output.value);
    ASTER_TRY(need(output.value));
  }
  return kOk;
}

Status Rangeify::merge_pair(Merging* merging, uint32_t into_id, uint32_t from_id) {
  Kernel& into = kernels_[into_id];
  Kernel& from = kernels_[from_id];
  Vec<Node> nodes(memory_), roots(memory_), src(memory_);
  Map<Node, Node> done(memory_);
  ASTER_TRY(renumber_folds(&from, into.next_range));
  into.next_range += from.next_range - loops_of(from);
  for (const Output& output : from.outputs) ASTER_TRY(roots.push(output.value));
  ASTER_TRY(uop::toposort(&nodes, {roots.data(), roots.size()}));
  for (Node node : nodes) {
    Node made = node;
    if (node->op == Op::kParam) {
      ASTER_TRY(param_operand(&made, into, from.operands[static_cast<size_t>(node->arg(0))]));
    } else if (node->op == Op::kLoad) {
      const uint32_t slot = from.operands[static_cast<size_t>(node->src(0)->arg(0))];
      made = nullptr;
      for (const Output& output : into.outputs) {
        // The element at hand.
        if (output.slot == slot && output.position == node->src(1)) made = output.value;
      }
    } else {
      made = nullptr;
    }
    if (made == nullptr) {
      src.clear();
      bool changed = false;
      for (Node s : node->src()) {
        ASTER_TRY(src.push(done.get(s, s)));
        changed |= src.back() != s;
      }
      made = changed ? g_.with_sources(node, {src.data(), src.size()}) : node;
    }
    ASTER_TRY(need(made));
    ASTER_TRY(done.set(node, made));
  }
  for (const Output& output : from.outputs) {
    ASTER_TRY(into.outputs.push(
        Output{output.record, output.slot, output.position, done.get(output.value, nullptr)}));
    records_[output.record].kernel = into_id;
  }
  into.size += from.size;
  if (into.unit != from.unit) into.unit = hash_mix(into.unit, from.unit);
  from.merged = true;
  return join_orders(merging, into_id, from_id);
}

// What came before and after a kernel that was merged comes before and after the other.
Status Rangeify::join_orders(Merging* merging, uint32_t into_id, uint32_t from_id) {
  Kernel& into = kernels_[into_id];
  const Kernel& from = kernels_[from_id];
  for (uint32_t k : from.after) {
    if (k == into_id || std::find(into.after.begin(), into.after.end(), k) != into.after.end())
      continue;
    ASTER_TRY(into.after.push(k));
    ASTER_TRY(merging->users[k].push(into_id));
  }
  for (uint32_t user : merging->users[from_id]) {
    if (kernels_[user].merged) continue;
    Vec<uint32_t>& after = kernels_[user].after;
    const bool known =
        user == into_id || std::find(after.begin(), after.end(), into_id) != after.end();
    for (size_t i = 0; i < after.size();) {
      if (after[i] != from_id) {
        ++i;
      } else if (known) {
        after[i] = after.back();
        after.pop();
      } else {
        after[i++] = into_id;
      }
    }
    if (!known) ASTER_TRY(merging->users[into_id].push(user));
  }
  for (uint32_t slot : from.operands) ASTER_TRY(merging->touch(slot, into_id));
  for (const Output& output : from.outputs) ASTER_TRY(merging->touch(output.slot, into_id));
  merging->ranks[into_id] = std::max(merging->ranks[into_id], merging->ranks[from_id]);
  return raise_ranks(merging, into_id);
}

// Results that no other kernel reads any more stay in registers.
Status Rangeify::drop_unread() {
  Vec<uint32_t> readers(memory_);  // kernels that read each slot
  ASTER_TRY(readers.resize(schedule_.slots.size(), 0));
  for (const Kernel& kernel : kernels_) {
    if (kernel.merged) continue;
    for (uint32_t slot : kernel.operands) ++readers[slot];
  }
  for (Kernel& kernel : kernels_) {
    if (kernel.merged || kernel.outputs.size() < 2) continue;
    size_t kept = 0;
    for (size_t i = 0; i < kernel.outputs.size(); ++i) {
      const uint32_t slot = kernel.outputs[i].slot;
      const auto own =
          static_cast<uint32_t>(std::count(kernel.operands.begin(), kernel.operands.end(), slot));
      if (schedule_.slots[slot].kind == SlotKind::kTemporary && readers[slot] == own) continue;
      kernel.outputs[kept++] = kernel.outputs[i];
    }
    kernel.outputs.truncate(kept);
  }
  return kOk;
}

// widely: where that saves reading more than single elements.
Status Rangeify::merge_all(Merging* merging, bool widely) {
  Vec<uint32_t> candidates(memory_);
  // From users to sources, as kernels were made: a user first looks at what it reads.
  for (uint32_t from = 0; from < kernels_.size(); ++from) {
    if (kernels_[from].merged || kernels_[from].library) continue;
    candidates.clear();
    ASTER_TRY(near(&candidates, *merging, from, widely));
    for (uint32_t into : candidates) {
      const Vec<uint32_t>& after = kernels_[from].after;
      if (into == from || !same_loops(kernels_[into], kernels_[from])) continue;
      if (into < from && std::find(after.begin(), after.end(), into) == after.end()) continue;
      bool apart = false;
      ASTER_TRY(follows(&apart, merging, from, into, false));
      if (!apart) ASTER_TRY(follows(&apart, merging, into, from, true));
      if (apart || !mergeable(into, from)) continue;
      ASTER_TRY(merge_pair(merging, into, from));
      break;
    }
  }
  return kOk;
}

Status Rangeify::merge() {
  Merging merging(memory_);
  ASTER_TRY(begin_merging(&merging));
  if (!merging.ordered) return kOk;  // order() finds out which wait for each other
  ASTER_TRY(merge_all(&merging, true));
  // What shares a learning rate and nothing else: equal ones with equal ones, so that the kernels
  // of many layers are few to compile.
  for (Kernel& kernel : kernels_) {
    kernel.unit = kernel.outputs.size();
    for (const Output& output : kernel.outputs) {
      kernel.unit = hash_mix(kernel.unit, reinterpret_cast<uintptr_t>(output.position));
      kernel.unit = hash_mix(kernel.unit, reinterpret_cast<uintptr_t>(output.value));
    }
  }
  ASTER_TRY(merge_all(&merging, false));
  return drop_unread();
}

}  // namespace aster::engine
