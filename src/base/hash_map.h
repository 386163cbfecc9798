// Open-addressing map with insertion-ordered entries: iteration is deterministic.
#pragma once

#include "base/memory.h"

namespace aster {

template <typename K>
struct Hash {
  uint64_t operator()(const K& key) const {
    if constexpr (std::is_pointer_v<K>) {
      return hash_mix(0, reinterpret_cast<uintptr_t>(key));
    } else {
      return hash_mix(0, static_cast<uint64_t>(key));
    }
  }
};

// K and V are trivially copyable; entries are never erased one by one.
template <typename K, typename V, typename H = Hash<K>>
class Map {
 public:
  struct Entry {
    K key;
    V value;
  };
  explicit Map(Memory& memory) : entries_(memory), table_(memory) {}

  V* find(const K& key) {
    if (table_.empty()) return nullptr;
    const uint32_t index = *place(key);
    return index == 0 ? nullptr : &entries_[index - 1].value;
  }
  const V* find(const K& key) const { return const_cast<Map*>(this)->find(key); }
  bool contains(const K& key) const { return find(key) != nullptr; }
  // The value or fallback.
  V get(const K& key, V fallback) const {
    const V* found = find(key);
    return found != nullptr ? *found : fallback;
  }
  // Inserts or overwrites.
  Status set(const K& key, const V& value) {
    uint32_t* at = table_.empty() ? nullptr : place(key);
    if (at != nullptr && *at != 0) {
      entries_[*at - 1].value = value;
      return kOk;
    }
    if ((entries_.size() + 1) * 4 > table_.size() * 3) {
      ASTER_TRY(grow());
      at = place(key);
    }
    ASTER_TRY(entries_.push(Entry{key, value}));
    *at = static_cast<uint32_t>(entries_.size());
    return kOk;
  }
  void clear() {
    entries_.clear();
    for (uint32_t& slot : table_) slot = 0;
  }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  Entry* begin() { return entries_.begin(); }
  Entry* end() { return entries_.end(); }
  const Entry* begin() const { return entries_.begin(); }
  const Entry* end() const { return entries_.end(); }

 private:
  Status grow() {
    // Small ones grow faster: what they hold is put in place again each time.
    constexpr size_t kFirst = 16, kSmall = 4096;
    const size_t size = std::max(kFirst, table_.size() * (table_.size() < kSmall ? 4 : 2));
    Vec<uint32_t> table(table_.memory());
    ASTER_TRY(table.resize(size, 0));
    table_ = std::move(table);
    for (size_t i = 0; i < entries_.size(); ++i)
      *place(entries_[i].key) = static_cast<uint32_t>(i + 1);
    return kOk;
  }
  // Where a key stands in a table that is not empty, or the free place that it would get.
  uint32_t* place(const K& key) {
    const size_t mask = table_.size() - 1;
    for (size_t i = H()(key) & mask;; i = (i + 1) & mask) {
      if (table_[i] == 0 || entries_[table_[i] - 1].key == key) return &table_[i];
    }
  }
  Vec<Entry> entries_;
  Vec<uint32_t> table_;  // 1 + index into entries_; 0 is free
};

}  // namespace aster
