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
    const size_t mask = table_.size() - 1;
    for (size_t i = H()(key) & mask;; i = (i + 1) & mask) {
      if (table_[i] == 0) return nullptr;
      Entry& entry = entries_[table_[i] - 1];
      if (entry.key == key) return &entry.value;
    }
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
    if (V* found = find(key)) {
      *found = value;
      return kOk;
    }
    if ((entries_.size() + 1) * 4 > table_.size() * 3) ASTER_TRY(grow());
    ASTER_TRY(entries_.push(Entry{key, value}));
    place(static_cast<uint32_t>(entries_.size()), key);
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
    const size_t size = table_.empty() ? 16 : table_.size() * 2;
    Vec<uint32_t> table(table_.memory());
    ASTER_TRY(table.resize(size, 0));
    table_ = std::move(table);
    for (size_t i = 0; i < entries_.size(); ++i)
      place(static_cast<uint32_t>(i + 1), entries_[i].key);
    return kOk;
  }
  void place(uint32_t index, const K& key) {
    const size_t mask = table_.size() - 1;
    size_t i = H()(key) & mask;
    while (table_[i] != 0) i = (i + 1) & mask;
    table_[i] = index;
  }
  Vec<Entry> entries_;
  Vec<uint32_t> table_;  // 1 + index into entries_; 0 is free
};

}  // namespace aster
