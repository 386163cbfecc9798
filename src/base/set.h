// Open-addressing set of pointers: what a walk has met. Null is no key.
#pragma once

#include "base/memory.h"

namespace aster {

template <typename K>
class Set {
 public:
  explicit Set(Memory& memory) : table_(memory) {}

  // *fresh: whether the key was not there before.
  Status add(bool* fresh, K key) {
    if (count_ * 2 >= table_.size()) ASTER_TRY(grow());
    K& place = place_of(key);
    *fresh = place == nullptr;
    count_ += *fresh ? 1 : 0;
    place = key;
    return kOk;
  }
  bool contains(K key) { return count_ != 0 && place_of(key) != nullptr; }
  void clear() {
    for (K& place : table_) place = nullptr;
    count_ = 0;
  }
  size_t size() const { return count_; }

 private:
  // Where it is, or the free place that it would take.
  K& place_of(K key) {
    const size_t mask = table_.size() - 1;
    // The low bits of addresses are equal: those that a multiplication carries upwards are not.
    uint64_t hash = reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    size_t i = hash & mask;
    while (table_[i] != nullptr && table_[i] != key) i = (i + 1) & mask;
    return table_[i];
  }
  Status grow() {
    // Small ones grow faster: what they hold is put in place again each time.
    constexpr size_t kFirst = 64, kSmall = 4096;
    const size_t size = table_.size() * (table_.size() < kSmall ? 4 : 2);
    Vec<K> before(table_.memory());
    ASTER_TRY(before.resize(std::max(size, kFirst), nullptr));
    std::swap(before, table_);
    for (K key : before) {
      if (key != nullptr) place_of(key) = key;
    }
    return kOk;
  }

  Vec<K> table_;
  size_t count_ = 0;
};

}  // namespace aster
