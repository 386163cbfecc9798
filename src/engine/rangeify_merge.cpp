// Kernels with the same loops become one with several results where that saves reading: a producer
// and the users that read it element by element, or users of the same memory (the moments of an
// Adam step, say).
#include <algorithm>
#include <span>

#include "engine/fusion.h"
#include "uop/symbolic.h"

namespace aster::engine::fusion {
namespace {

constexpr uint32_t kMostMergedNodes = 300;
constexpr size_t kMostOperands = 16;
// Elements between two of a row that is read across.
constexpr int64_t kFarApart = 16;
// Kernels on either side that are looked at, of those that touch the same memory.
constexpr size_t kFarthest = 64;

class Merge {
 public:
  Merge(Fusion* fusion, const Schedule& schedule, Graph& graph, const Analysis& nodes)
      : f_(*fusion),
        kernels_(fusion->kernels),
        schedule_(schedule),
        g_(graph),
        nodes_(nodes),
        memory_(fusion->kernels.arena()),
        users_(memory_),
        ranks_(memory_),
        seen_(memory_),
        stack_(memory_),
        touching_(memory_) {}
  Status run();

 private:
  Status begin();
  void touch(uint32_t slot, uint32_t kernel);
  void raise_ranks(uint32_t from);
  bool follows(uint32_t later, uint32_t earlier, bool at_once);
  void near(List<uint32_t>* out, uint32_t kernel, bool widely);
  static bool same_loops(const Kernel& into, const Kernel& from);
  static int64_t loops_of(const Kernel& kernel);
  Status nodes_of(List<Node>* out, const Kernel& kernel) const;
  bool streams(const Kernel& kernel);
  bool overlapping(uint32_t slot, uint32_t other) const;
  bool reads_at_hand(const Kernel& reader, const Kernel& writer) const;
  static bool turns(const Kernel& kernel);
  bool mergeable(const Kernel& into, const Kernel& from);
  Status renumber_folds(Kernel* kernel, int64_t first);
  Status merge_pair(uint32_t into, uint32_t from);
  void join_orders(uint32_t into, uint32_t from);
  Status merge_all(bool widely);

  Fusion& f_;
  List<Kernel>& kernels_;
  const Schedule& schedule_;
  Graph& g_;
  const Analysis& nodes_;
  Arena& memory_;
  List<List<uint32_t>> users_;  // of each kernel; merged ones may be among them
  List<uint32_t> ranks_;        // more than those of all that come before
  List<uint32_t> seen_;         // by which search
  uint32_t search_ = 0;
  List<uint32_t> stack_;
  List<List<uint32_t>> touching_;  // kernels that touch each slot, in order
};

void Merge::touch(uint32_t slot, uint32_t kernel) {
  List<uint32_t>& all = touching_[slot];
  const uint32_t* at = std::lower_bound(all.begin(), all.end(), kernel);
  if (at != all.end() && *at == kernel) return;
  const auto place = at - all.begin();
  all.push(kernel);
  if (!memory_.failed()) std::rotate(all.begin() + place, all.end() - 1, all.end());
}

Status Merge::begin() {
  const size_t count = kernels_.size();
  for (size_t k = 0; k < count; ++k) users_.push(List<uint32_t>(memory_));
  for (size_t s = 0; s < schedule_.slots.size(); ++s) touching_.push(List<uint32_t>(memory_));
  ranks_.resize(count, 0);
  seen_.resize(count, 0);
  List<uint32_t> left(memory_);
  left.resize(count, 0);
  ASTER_TRY(memory_.status());
  for (uint32_t k = 0; k < count; ++k) {
    for (uint32_t before : kernels_[k].after) users_[before].push(k);
    for (uint32_t slot : kernels_[k].operands) touch(slot, k);
    for (const Output& output : kernels_[k].outputs) touch(output.slot, k);
  }
  // What nothing comes before is 0; users follow when all before them have their rank.
  for (uint32_t k = 0; k < count; ++k) {
    left[k] = static_cast<uint32_t>(kernels_[k].after.size());
    if (left[k] == 0) stack_.push(k);
  }
  while (!stack_.empty()) {
    const uint32_t k = stack_.back();
    stack_.pop();
    for (uint32_t user : users_[k]) {
      ranks_[user] = std::max(ranks_[user], ranks_[k] + 1);
      if (--left[user] == 0) stack_.push(user);
    }
  }
  return memory_.status();
}

// Users of a kernel come after it again, after its rank has grown.
void Merge::raise_ranks(uint32_t from) {
  stack_.push(from);
  while (!stack_.empty()) {
    const uint32_t k = stack_.back();
    stack_.pop();
    for (uint32_t user : users_[k]) {
      if (kernels_[user].merged || ranks_[user] > ranks_[k]) continue;
      ranks_[user] = ranks_[k] + 1;
      stack_.push(user);
    }
  }
}

// Whether a kernel comes after another by way of others, or at once if that counts. The lowest
// ranks are looked at first: they are the nearest.
bool Merge::follows(uint32_t later, uint32_t earlier, bool at_once) {
  bool found = false;
  ++search_;
  stack_.clear();
  stack_.push(later);
  while (!stack_.empty() && !found) {
    const uint32_t at = stack_.back();
    const size_t first = stack_.size() - 1;
    stack_.pop();
    for (uint32_t before : kernels_[at].after) {
      found |= before == earlier && (at_once || at != later);
      if (ranks_[before] <= ranks_[earlier] || seen_[before] == search_) continue;
      seen_[before] = search_;
      stack_.push(before);
    }
    std::sort(stack_.begin() + first, stack_.end(),
              [&](uint32_t a, uint32_t b) { return ranks_[a] > ranks_[b]; });
  }
  stack_.clear();
  return found;
}

// Kernels that touch memory which this one reads, the last first; of memory that very many touch,
// those made shortly before and after. widely: not those that share single elements alone, else
// those that compute the same first.
void Merge::near(List<uint32_t>* out, uint32_t kernel, bool widely) {
  out->clear();
  for (uint32_t slot : kernels_[kernel].operands) {
    if (widely && schedule_.slots[slot].count <= 1) continue;
    const std::span<const uint32_t> all = touching_[slot].all();
    size_t first = 0, last = all.size();
    if (all.size() > 2 * kFarthest) {
      const auto at = static_cast<size_t>(std::ranges::lower_bound(all, kernel) - all.begin());
      first = at - std::min(at, kFarthest);
      last = std::min(all.size(), at + kFarthest);
    }
    out->append(all.subspan(first, last - first));
  }
  const uint64_t unit = kernels_[kernel].unit;
  std::sort(out->begin(), out->end(), [&](uint32_t a, uint32_t b) {
    const bool alike = kernels_[a].unit == unit;
    if (!widely && alike != (kernels_[b].unit == unit)) return alike;
    return a > b;
  });
  out->truncate(static_cast<size_t>(std::unique(out->begin(), out->end()) - out->begin()));
}

// Same loops, without first ones of their own, and not too much together.
bool Merge::same_loops(const Kernel& into, const Kernel& from) {
  if (into.merged || from.merged || into.library || from.library) return false;
  if (into.size + from.size > kMostMergedNodes ||
      into.operands.size() + from.operands.size() > kMostOperands)
    return false;
  if (!into.prefixes.empty() || !from.prefixes.empty()) return false;
  if (into.carried != from.carried) return false;  // scans with scans along the same loop
  return !into.ranges.empty() && std::ranges::equal(into.ranges, from.ranges);
}

int64_t Merge::loops_of(const Kernel& kernel) {
  return std::ranges::count_if(kernel.ranges, [](Node range) { return range->op == Op::kRange; });
}

// What a kernel's results are made of, sources first.
Status Merge::nodes_of(List<Node>* out, const Kernel& kernel) const {
  List<Node> roots(memory_);
  for (const Output& output : kernel.outputs) roots.push(output.value);
  ASTER_TRY(memory_.status());
  return uop::toposort(out, roots.all());
}

// Whether the kernel's reductions read every element once, as row sums do: nothing is lost when
// several share their loops, where a product's tile would be.
bool Merge::streams(const Kernel& kernel) {
  const int64_t loops = loops_of(kernel);
  if (loops == kernel.next_range) return true;
  if (loops >= 63) return false;
  const uint64_t own = (uint64_t{1} << loops) - 1;
  List<Node> nodes(memory_);
  if (!nodes_of(&nodes, kernel).ok()) return false;
  for (Node node : nodes) {
    uint64_t ranges = 0;
    if (node->op != Op::kLoad) continue;
    if (!f_.ranges.add(&ranges, node->src(1)).ok()) return false;
    if ((ranges & ~own) != 0 && (ranges & own) != own) return false;
  }
  return true;
}

bool Merge::overlapping(uint32_t slot, uint32_t other) const {
  const Slot &a = schedule_.slots[slot], &b = schedule_.slots[other];
  return slot == other || (a.kind == SlotKind::kParam && b.kind == SlotKind::kParam &&
                           nodes_.regions[a.index].overlaps(nodes_.regions[b.index]));
}

// Whether all that a kernel reads of what another one writes is the element at hand.
bool Merge::reads_at_hand(const Kernel& reader, const Kernel& writer) const {
  List<Node> nodes(memory_);
  if (!nodes_of(&nodes, reader).ok()) return false;
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
}

// A copy of a tensor that is read across, asked for in memory: it is turned in registers, square by
// square, which needs a loop with little else in it.
bool Merge::turns(const Kernel& kernel) {
  if (kernel.outputs.size() != 1) return false;
  const Output& output = kernel.outputs[0];
  if (output.value->op != Op::kLoad || output.value->nsrc != 2) return false;
  const uop::sym::Linear to = uop::sym::linear_of(output.position),
                         from = uop::sym::linear_of(output.value->src(1));
  const auto along = std::ranges::find(to.terms(), 1, &uop::sym::Term::coefficient);
  if (along == to.terms().end()) return false;
  const auto same = std::ranges::find(from.terms(), along->node, &uop::sym::Term::node);
  return same != from.terms().end() && std::abs(same->coefficient) >= kFarApart;
}

// Same loops, and whatever both touch they touch at the same element.
bool Merge::mergeable(const Kernel& into, const Kernel& from) {
  if (!same_loops(into, from)) return false;
  if (turns(into) || turns(from)) return false;
  if (loops_of(from) != from.next_range && !(streams(into) && streams(from))) return false;
  // The order of two writes to the same memory is that of their kernels.
  for (const Output& a : into.outputs) {
    for (const Output& b : from.outputs) {
      if (overlapping(a.slot, b.slot)) return false;
    }
  }
  return reads_at_hand(from, into) && reads_at_hand(into, from);
}

// Gives the ranges of a kernel's reductions numbers from `first` on.
Status Merge::renumber_folds(Kernel* kernel, int64_t first) {
  const int64_t loops = loops_of(*kernel);
  if (loops == kernel->next_range) return kOk;
  List<Node> nodes(memory_);
  ASTER_TRY(nodes_of(&nodes, *kernel));
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

Status Merge::merge_pair(uint32_t into_id, uint32_t from_id) {
  Kernel& into = kernels_[into_id];
  Kernel& from = kernels_[from_id];
  List<Node> nodes(memory_), src(memory_);
  Table<Node, Node> done(memory_);
  ASTER_TRY(renumber_folds(&from, into.next_range));
  into.next_range += from.next_range - loops_of(from);
  ASTER_TRY(nodes_of(&nodes, from));
  const auto slot_of = [&](Node param) {
    return from.operands[static_cast<size_t>(param->arg(0))];
  };
  for (Node node : nodes) {
    Node made = nullptr;
    if (node->op == Op::kParam) {
      made = param_operand(g_, schedule_, into, slot_of(node));
      ASTER_TRY(need(made));
    } else if (node->op == Op::kLoad) {
      for (const Output& output : into.outputs) {
        // The element at hand.
        if (output.slot == slot_of(node->src(0)) && output.position == node->src(1))
          made = output.value;
      }
    }
    if (made == nullptr) {
      src.clear();
      for (Node s : node->src()) src.push(done.get(s, s));
      ASTER_TRY(memory_.status());
      made = std::ranges::equal(src, node->src()) ? node : g_.with_sources(node, src.all());
      ASTER_TRY(need(made));
    }
    done.set(node, made);
  }
  ASTER_TRY(memory_.status());
  for (const Output& output : from.outputs)
    into.outputs.push(Output{output.slot, output.position, done.get(output.value, nullptr)});
  into.size += from.size;
  if (into.unit != from.unit) into.unit = hash_mix(into.unit, from.unit);
  from.merged = true;
  join_orders(into_id, from_id);
  return memory_.status();
}

// What came before and after a kernel that was merged comes before and after the other.
void Merge::join_orders(uint32_t into_id, uint32_t from_id) {
  Kernel& into = kernels_[into_id];
  const Kernel& from = kernels_[from_id];
  const auto among = [](const List<uint32_t>& all, uint32_t k) {
    return std::find(all.begin(), all.end(), k) != all.end();
  };
  for (uint32_t k : from.after) {
    if (k == into_id || among(into.after, k)) continue;
    into.after.push(k);
    users_[k].push(into_id);
  }
  for (uint32_t user : users_[from_id]) {
    if (kernels_[user].merged) continue;
    List<uint32_t>& after = kernels_[user].after;
    const bool known = user == into_id || among(after, into_id);
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
    if (!known) users_[into_id].push(user);
  }
  for (uint32_t slot : from.operands) touch(slot, into_id);
  for (const Output& output : from.outputs) touch(output.slot, into_id);
  ranks_[into_id] = std::max(ranks_[into_id], ranks_[from_id]);
  raise_ranks(into_id);
}

// widely: where that saves reading more than single elements.
Status Merge::merge_all(bool widely) {
  List<uint32_t> candidates(memory_);
  // From users to sources, as kernels were made: a user first looks at what it reads.
  for (uint32_t from = 0; from < kernels_.size(); ++from) {
    if (kernels_[from].merged || kernels_[from].library) continue;
    near(&candidates, from, widely);
    for (uint32_t into : candidates) {
      const List<uint32_t>& after = kernels_[from].after;
      if (into == from || !same_loops(kernels_[into], kernels_[from])) continue;
      if (into < from && std::find(after.begin(), after.end(), into) == after.end()) continue;
      if (follows(from, into, false) || follows(into, from, true)) continue;
      if (!mergeable(kernels_[into], kernels_[from])) continue;
      ASTER_TRY(merge_pair(into, from));
      break;
    }
  }
  return memory_.status();
}

Status Merge::run() {
  ASTER_TRY(begin());
  ASTER_TRY(merge_all(true));
  // What shares a learning rate and nothing else: equal ones with equal ones, so that the kernels
  // of many layers are few to compile.
  for (Kernel& kernel : kernels_) {
    kernel.unit = kernel.outputs.size();
    for (const Output& output : kernel.outputs) {
      kernel.unit = hash_mix(kernel.unit, reinterpret_cast<uintptr_t>(output.position));
      kernel.unit = hash_mix(kernel.unit, reinterpret_cast<uintptr_t>(output.value));
    }
  }
  return merge_all(false);
}

}  // namespace

Status merge(Fusion* fusion, const Schedule& schedule, Graph& graph, const Analysis& nodes) {
  return Merge(fusion, schedule, graph, nodes).run();
}

namespace {

// What is read in the end, from results back to what they are computed from. An operand of a kernel
// may be one that nothing loads: what its loads were for has been simplified away.
class Unread {
 public:
  Unread(Fusion* fusion, const Schedule& schedule)
      : kernels_(fusion->kernels),
        schedule_(schedule),
        wanted_(kernels_.arena()),
        open_(kernels_.arena()) {}

  Status drop(const List<uint32_t>& of_record) {
    wanted_.resize(schedule_.slots.size(), 0);
    ASTER_TRY(wanted_.arena().status());
    // From users to sources, so that one round finds nearly all.
    for (bool more = true; more;) {
      more = false;
      for (Kernel& kernel : kernels_) {
        if (kernel.merged) continue;
        if (kernel.library) {
          more |= call(kernel, of_record[kernel.record]);
        } else {
          more |= results(kernel);
        }
        ASTER_TRY(open_.arena().status());
      }
    }
    for (Kernel& kernel : kernels_) {
      size_t kept = 0;
      for (const Output& output : kernel.outputs) {
        if (is_wanted(output.slot)) kernel.outputs[kept++] = output;
      }
      kernel.outputs.truncate(kept);
      if (kernel.library) kernel.unread = !is_wanted(of_record[kernel.record]);
    }
    return kOk;
  }

 private:
  bool is_wanted(uint32_t slot) const {
    return slot == kNone || wanted_[slot] != 0 ||
           schedule_.slots[slot].kind != SlotKind::kTemporary;
  }
  bool want(uint32_t slot) {
    if (is_wanted(slot)) return false;
    wanted_[slot] = 1;
    return true;
  }
  bool call(const Kernel& kernel, uint32_t slot) {
    bool more = false;
    if (!is_wanted(slot)) return false;
    for (uint32_t operand : kernel.operands) more |= want(operand);
    return more;
  }
  bool results(const Kernel& kernel) {
    bool more = false;
    Table<Node, uint8_t> seen(open_.arena());
    for (const Output& output : kernel.outputs) {
      if (!is_wanted(output.slot)) continue;
      open_.push(output.value);
      open_.push(output.position);
    }
    // What cannot be noted as seen would be met again by every way to it.
    while (!open_.empty() && !open_.arena().failed()) {
      const Node node = open_.back();
      open_.pop();
      if (seen.find(node) != nullptr) continue;
      seen.set(node, 1);
      if (node->op == Op::kParam) more |= want(kernel.operands[static_cast<size_t>(node->arg(0))]);
      for (Node source : node->src()) open_.push(source);
    }
    return more;
  }

  List<Kernel>& kernels_;
  const Schedule& schedule_;
  List<uint8_t> wanted_;  // temporaries, by slot
  List<Node> open_;
};

}  // namespace

Status drop_unread(Fusion* fusion, const Slots& slots) {
  return Unread(fusion, slots.schedule).drop(slots.of_record);
}

}  // namespace aster::engine::fusion
