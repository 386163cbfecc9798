// The order in which kernels run: each after all that it has to come after, and where that leaves a
// choice, so that little memory is needed at once.
#include <algorithm>

#include "engine/fusion.h"

namespace aster::engine::fusion {
namespace {

// Bytes that a kernel has to save where it runs sooner or later than the graph says: small ones
// stay beside their like, which run at once with them.
constexpr int64_t kWorthMoving = 64 << 10;
// Kernels that touch some memory from which nobody looks when the last one does.
constexpr size_t kMostTouching = 64;

class Sequence {
 public:
  Sequence(const Fusion& fusion, const Slots& slots, Arena& memory)
      : f_(fusion),
        slots_(slots),
        memory_(memory),
        touched_(memory),
        touching_(memory),
        users_(memory) {}

  Status run(List<uint32_t>* out);

 private:
  Status sort(List<uint32_t>* out);
  Status link(std::span<const uint32_t> order);
  Status delay(List<uint32_t>* out, std::span<const uint32_t> order);
  class Release;
  Status peak(int64_t* out, std::span<const uint32_t> order);

  // Of what is planned here.
  static int64_t bytes(const Slot& slot) {
    return slot.kind == SlotKind::kTemporary ? slot.bytes() : 0;
  }
  int64_t bytes(uint32_t slot) const { return bytes(slots_.schedule.slots[slot]); }
  // Whether a kernel writes memory of the caller of the schedule.
  bool writes(uint32_t k) const {
    const auto is_param = [&](uint32_t slot) {
      return slot != kNone && slots_.schedule.slots[slot].kind == SlotKind::kParam;
    };
    const Kernel& kernel = f_.kernels[k];
    bool found = is_param(slots_.of_record[kernel.record]);
    for (const Output& output : kernel.outputs) found |= is_param(output.slot);
    return found;
  }

  const Fusion& f_;
  const Slots& slots_;
  Arena& memory_;
  List<List<uint32_t>> touched_;   // temporaries, by kernel
  List<List<uint32_t>> touching_;  // kernels, by slot
  List<List<uint32_t>> users_;     // kernels that come after one
};

// As they stand in the graph.
Status Sequence::sort(List<uint32_t>* out) {
  struct Frame {
    uint32_t kernel, next;
  };
  List<uint8_t> entered(memory_);
  List<Frame> stack(memory_);
  entered.resize(f_.kernels.size(), 0);
  ASTER_TRY(memory_.status());
  const auto enter = [&](uint32_t kernel) {
    if (entered[kernel] != 0) return;
    entered[kernel] = 1;
    stack.push(Frame{kernel, 0});
  };
  for (auto k = static_cast<uint32_t>(f_.kernels.size()); k-- > 0;) {  // from sources to users
    if (!f_.kernels[k].merged) enter(k);
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const List<uint32_t>& after = f_.kernels[frame.kernel].after;
      if (frame.next < after.size()) {
        enter(after[frame.next++]);
      } else {
        out->push(frame.kernel);
        stack.pop();
      }
    }
  }
  return memory_.status();
}

Status Sequence::link(std::span<const uint32_t> order) {
  for (size_t k = 0; k < f_.kernels.size(); ++k) {
    touched_.push(List<uint32_t>(memory_));
    users_.push(List<uint32_t>(memory_));
  }
  for (size_t s = 0; s < slots_.schedule.slots.size(); ++s) touching_.push(List<uint32_t>(memory_));
  ASTER_TRY(memory_.status());
  const auto touch = [&](uint32_t k, uint32_t slot) {
    if (slot == kNone || bytes(slot) == 0) return;
    const size_t before = touched_[k].size();
    touched_[k].push_once(slot);
    if (touched_[k].size() > before) touching_[slot].push(k);
  };
  for (uint32_t k : order) {
    const Kernel& kernel = f_.kernels[k];
    for (uint32_t earlier : kernel.after) users_[earlier].push(k);
    for (uint32_t slot : kernel.operands) touch(k, slot);
    for (const Output& output : kernel.outputs) touch(k, output.slot);
    if (kernel.library) touch(k, slots_.of_record[kernel.record]);
  }
  return memory_.status();
}

// What makes memory that is not read for a while is done right before it is: masks of a forward
// pass, say, that its gradient reads. From the end.
Status Sequence::delay(List<uint32_t>* out, std::span<const uint32_t> order) {
  const size_t count = order.size();
  List<uint32_t> place(memory_);  // in order: of a kernel, or of the one that it runs before
  List<uint32_t> first(memory_), next(memory_);  // moved ones before a place, in their order
  place.resize(f_.kernels.size(), 0);
  first.resize(count, kNone);
  next.resize(f_.kernels.size(), kNone);
  ASTER_TRY(memory_.status());
  for (uint32_t i = 0; i < count; ++i) place[order[i]] = i;
  for (auto i = static_cast<uint32_t>(count); i-- > 0;) {
    const uint32_t k = order[i];
    uint32_t to = kNone;
    for (uint32_t user : users_[k]) to = std::min(to, place[user]);
    if (to == kNone || to <= i + 1) continue;
    int64_t saved = 0;
    for (uint32_t slot : touched_[k]) {
      if (touching_[slot].size() > kMostTouching) continue;
      bool made = true, held = false;
      for (uint32_t other : touching_[slot]) {
        made &= other == k || place[other] > i;
        held |= other != k && place[other] >= to;
      }
      if (made) saved += bytes(slot);
      if (!made && !held) saved -= bytes(slot);
    }
    if (saved < kWorthMoving) continue;
    place[k] = to;
    next[k] = first[to];
    first[to] = k;
  }
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t k = first[i]; k != kNone; k = next[k]) out->push(k);
    if (place[order[i]] == i) out->push(order[i]);
  }
  return memory_.status();
}

// What lets go of more memory than it needs is done as soon as it can be, with all that it still
// waits for: gradients to weights, which are the last to read an activation, and what is updated by
// them.
class Sequence::Release {
 public:
  Release(const Sequence& all, List<uint32_t>* out)
      : all_(all),
        out_(*out),
        left_(all.memory_),
        found_(all.memory_),
        early_(all.memory_),
        group_(all.memory_),
        slots_(all.memory_),
        done_(all.memory_),
        made_(all.memory_) {}

  Status run(std::span<const uint32_t> order) {
    done_.resize(all_.f_.kernels.size(), 0);
    made_.resize(all_.touching_.size(), 0);
    left_.resize(all_.touching_.size(), 0);
    ASTER_TRY(done_.arena().status());
    for (size_t s = 0; s < left_.size(); ++s)
      left_[s] = static_cast<uint32_t>(all_.touching_[s].size());
    for (uint32_t k : order) {
      if (done_[k] != 0) continue;
      add(k);
      if (!writes_ && all_.writes(k)) {
        writes_ = true;
        found_.append(early_.all());
      }
      take_found();
    }
    return out_.arena().status();
  }

 private:
  static constexpr size_t kMostTogether = 8;
  static constexpr size_t kMostUsers = 4;

  void take_found() {
    while (!found_.empty()) {
      const uint32_t k = found_.back();
      found_.pop();
      if (!gather(k) || released() < kWorthMoving) continue;
      // A call that is stopped has changed nothing up to the first write in place.
      const auto writes = [&](uint32_t one) { return all_.writes(one); };
      if (!writes_ && std::ranges::any_of(group_, writes)) {
        early_.push(k);
        continue;
      }
      for (uint32_t one : group_) add(one);
    }
  }

  void add(uint32_t k) {
    out_.push(k);
    done_[k] = 1;
    for (uint32_t slot : all_.touched_[k]) {
      made_[slot] = 1;
      if (--left_[slot] != 1) continue;
      // Who is the last to touch it, and what may follow on that.
      const auto is_done = [&](uint32_t other) { return done_[other] != 0; };
      const uint32_t last = *std::ranges::find_if_not(all_.touching_[slot], is_done);
      const List<uint32_t>& users = all_.users_[last];
      for (size_t i = 0; i < std::min(users.size(), kMostUsers); ++i) found_.push(users[i]);
      found_.push(last);
    }
  }

  // A kernel and all that has to come before it. False: it is done, or that is too much.
  bool gather(uint32_t k) {
    group_.clear();
    return done_[k] == 0 && enter(k, 0);
  }
  bool enter(uint32_t k, size_t depth) {
    for (uint32_t before : all_.f_.kernels[k].after) {
      if (done_[before] != 0 || std::ranges::find(group_, before) != group_.end()) continue;
      if (depth == kMostTogether || group_.size() == kMostTogether) return false;
      if (!enter(before, depth + 1)) return false;
    }
    group_.push(k);
    return group_.size() <= kMostTogether && !group_.arena().failed();
  }

  // Bytes that are free when the group has run, less those that its results take.
  int64_t released() {
    slots_.clear();
    int64_t sum = 0;
    for (uint32_t k : group_) {
      for (uint32_t slot : all_.touched_[k]) slots_.push(slot);
    }
    std::ranges::sort(slots_);
    for (size_t i = 0, next = 0; i < slots_.size(); i = next) {
      while (next < slots_.size() && slots_[next] == slots_[i]) ++next;
      const bool last = next - i == left_[slots_[i]];
      if (made_[slots_[i]] != 0 && last) sum += all_.bytes(slots_[i]);
      if (made_[slots_[i]] == 0 && !last) sum -= all_.bytes(slots_[i]);
    }
    return sum;
  }

  const Sequence& all_;
  List<uint32_t>& out_;
  List<uint32_t> left_;   // kernels that still touch a slot
  List<uint32_t> found_;  // kernels that may let go of something
  List<uint32_t> early_;  // of these, some that write in place, as none has done yet
  List<uint32_t> group_, slots_;
  List<uint8_t> done_, made_;
  bool writes_ = false;  // something has been written in place
};

// Bytes that live at once, at most.
Status Sequence::peak(int64_t* out, std::span<const uint32_t> order) {
  List<uint32_t> left(memory_);
  left.resize(touching_.size(), 0);
  ASTER_TRY(memory_.status());
  int64_t now = 0;
  *out = 0;
  for (uint32_t k : order) {
    for (uint32_t slot : touched_[k]) now += left[slot]++ == 0 ? bytes(slot) : 0;
    *out = std::max(*out, now);
    for (uint32_t slot : touched_[k]) now -= left[slot] == touching_[slot].size() ? bytes(slot) : 0;
  }
  return kOk;
}

Status Sequence::run(List<uint32_t>* out) {
  ASTER_TRY(sort(out));
  bool large = false;
  for (const Slot& slot : slots_.schedule.slots) large |= bytes(slot) >= kWorthMoving;
  if (!large) return kOk;
  ASTER_TRY(link(out->all()));
  List<uint32_t> later(memory_), sooner(memory_);
  ASTER_TRY(delay(&later, out->all()));
  ASTER_TRY(Release(*this, &sooner).run(later.all()));
  int64_t least = 0, needed = 0;
  ASTER_TRY(peak(&least, out->all()));
  for (List<uint32_t>* other : {&later, &sooner}) {
    ASTER_TRY(peak(&needed, other->all()));
    if (needed >= least) continue;
    least = needed;
    *out = std::move(*other);
  }
  return memory_.status();
}

}  // namespace

Status find_sequence(List<uint32_t>* out, const Fusion& fusion, const Slots& slots) {
  return Sequence(fusion, slots, fusion.kernels.arena()).run(out);
}

}  // namespace aster::engine::fusion
