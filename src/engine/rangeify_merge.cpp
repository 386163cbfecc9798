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

}  // namespace

// The users of kernel k: users[first[k]] up to users[first[k + 1]].
Status Rangeify::list_users(Around* around) {
  Vec<uint32_t>& first = around->first;
  first.clear();
  ASTER_TRY(first.resize(kernels_.size() + 2, 0));
  for (const Kernel& kernel : kernels_) {
    for (uint32_t before : kernel.after) ++first[before + 2];
  }
  for (size_t i = 2; i < first.size(); ++i) first[i] += first[i - 1];
  ASTER_TRY(around->users.resize(first.back(), 0));
  for (uint32_t k = 0; k < kernels_.size(); ++k) {
    for (uint32_t before : kernels_[k].after) around->users[first[before + 1]++] = k;
  }
  return kOk;
}

// Where every other kernel runs, seen from this one.
Status Rangeify::look_around(Around* around, uint32_t kernel) {
  Vec<uint8_t>& place = around->place;
  Vec<uint32_t>& stack = around->stack;
  place.clear();
  ASTER_TRY(place.resize(kernels_.size(), 0));
  const auto spread = [&](uint8_t near, uint8_t far, auto neighbours) -> Status {
    ASTER_TRY(stack.push(kernel));
    while (!stack.empty()) {
      const uint32_t at = stack.back();
      stack.pop();
      for (const uint32_t next : neighbours(at)) {
        const bool known = (place[next] & (near | far)) != 0;
        place[next] |= at == kernel ? near : far;
        if (!known) ASTER_TRY(stack.push(next));
      }
    }
    return kOk;
  };
  ASTER_TRY(spread(kBefore, kBeforeOthers, [&](uint32_t k) {
    return std::span<const uint32_t>(kernels_[k].after.data(), kernels_[k].after.size());
  }));
  return spread(kAfterwards, kAfterwards, [&](uint32_t k) {
    const uint32_t from = around->first[k], to = around->first[k + 1];
    return std::span<const uint32_t>(around->users.data() + from, to - from);
  });
}

// Whether they touch the same memory.
bool Rangeify::shares(const Kernel& into, const Kernel& from) {
  for (uint32_t slot : from.operands) {
    for (const Output& output : into.outputs) {
      if (slot == output.slot) return true;
    }
    for (uint32_t other : into.operands) {
      if (slot == other) return true;
    }
  }
  return false;
}

// Same loops, and whatever both touch they touch at the same element.
bool Rangeify::fits_beside(const Kernel& into, const Kernel& from) {
  if (into.merged || from.merged || into.library || from.library) return false;
  if (into.size + from.size > kMostMergedNodes ||
      into.operands.size() + from.operands.size() > kMostOperands)
    return false;
  if (into.ranges.size() != from.ranges.size() || into.ranges.empty()) return false;
  if (!std::equal(into.ranges.begin(), into.ranges.end(), from.ranges.begin())) return false;
  if (!into.prefixes.empty() || !from.prefixes.empty()) return false;
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

Status Rangeify::merge_pair(uint32_t into_id, uint32_t from_id) {
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
  for (uint32_t k : from.after) {
    bool known = k == into_id;
    for (uint32_t other : into.after) known |= other == k;
    if (!known) ASTER_TRY(into.after.push(k));
  }
  from.merged = true;
  for (Kernel& kernel : kernels_) {
    bool has_into = false;
    for (uint32_t k : kernel.after) has_into |= k == into_id;
    for (size_t i = 0; i < kernel.after.size();) {
      if (kernel.after[i] != from_id) {
        ++i;
      } else if (has_into || &kernel == &into) {
        kernel.after[i] = kernel.after.back();
        kernel.after.pop();
      } else {
        kernel.after[i++] = into_id;
        has_into = true;
      }
    }
  }
  return kOk;
}

// Results that no other kernel reads any more stay in registers.
Status Rangeify::drop_unread() {
  for (uint32_t k = 0; k < kernels_.size(); ++k) {
    Kernel& kernel = kernels_[k];
    if (kernel.merged || kernel.outputs.size() < 2) continue;
    for (size_t i = 0; i < kernel.outputs.size();) {
      const uint32_t slot = kernel.outputs[i].slot;
      bool read = schedule_.slots[slot].kind != SlotKind::kTemporary;
      for (uint32_t other = 0; other < kernels_.size() && !read; ++other) {
        if (other == k || kernels_[other].merged) continue;
        for (uint32_t operand : kernels_[other].operands) read |= operand == slot;
      }
      if (read) {
        ++i;
        continue;
      }
      for (size_t j = i + 1; j < kernel.outputs.size(); ++j)
        kernel.outputs[j - 1] = kernel.outputs[j];
      kernel.outputs.pop();
    }
  }
  return kOk;
}

Status Rangeify::merge() {
  Around around(memory_);
  ASTER_TRY(list_users(&around));
  // From users to sources, as kernels were made: a user first looks at what it reads.
  for (uint32_t from = 0; from < kernels_.size(); ++from) {
    if (kernels_[from].merged || kernels_[from].library) continue;
    ASTER_TRY(look_around(&around, from));
    for (uint32_t into = static_cast<uint32_t>(kernels_.size()); into-- > 0;) {
      const uint8_t place = around.place[into];
      const bool apart = (place & (kBeforeOthers | kAfterwards)) != 0;
      if (into == from || apart || (place != kBefore && into < from) ||
          !shares(kernels_[into], kernels_[from]) || !mergeable(into, from)) {
        continue;
      }
      ASTER_TRY(merge_pair(into, from));
      ASTER_TRY(list_users(&around));
      break;
    }
  }
  return drop_unread();
}

}  // namespace aster::engine
