// Containers of passes. Growth that fails is remembered by the arena, which a pass asks once what
// became of all of it, so that code between reads as the algorithm.
//
// What could not be stored is missing: a pass asks before it uses a position that it was given for
// something new, and before it hands on what it made.
#pragma once

#include <span>

#include "base/arena.h"
#include "base/hash_map.h"

namespace aster {

// A Vec whose growth fails silently.
template <typename T>
class List : public Vec<T> {
 public:
  explicit List(Arena& arena) : Vec<T>(arena) {}
  template <typename U = T>
  void push(U&& value) {
    note(Vec<T>::push(std::forward<U>(value)));
  }
  void append(std::span<const T> values) { note(Vec<T>::append(values.data(), values.size())); }
  void resize(size_t size, const T& fill = T()) { note(Vec<T>::resize(size, fill)); }
  void push_once(const T& value) {
    for (const T& other : *this) {
      if (other == value) return;
    }
    push(value);
  }
  std::span<const T> all() const { return {this->data(), this->size()}; }
  Arena& arena() const { return static_cast<Arena&>(this->memory()); }

 private:
  void note(Status status) {
    if (!status.ok()) arena().fail();
  }
};

// A Map whose growth fails silently.
template <typename K, typename V, typename H = Hash<K>>
class Table : public Map<K, V, H> {
 public:
  explicit Table(Arena& arena) : Map<K, V, H>(arena), arena_(arena) {}
  Arena& arena() const { return arena_; }
  void set(const K& key, const V& value) {
    if (!Map<K, V, H>::set(key, value).ok()) arena_.fail();
  }

 private:
  Arena& arena_;
};

}  // namespace aster
