// Where memory comes from: an allocator table behind one virtual-free interface, and RAII
// containers on it. Nothing here aborts: a failed request is a null pointer or a MEMORY status.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "base/status.h"

namespace aster {

// Source of memory: the heap of a context, or an arena on it.
class Memory {
 public:
  using AllocateFn = void* (*)(void* self, size_t bytes, size_t alignment);
  using ReleaseFn = void (*)(void* self, void* pointer, size_t bytes, size_t alignment);

  // Null on failure; zero bytes give a non-null pointer that may be released.
  void* allocate(size_t bytes, size_t alignment) { return allocate_(self_, bytes, alignment); }
  void release(void* pointer, size_t bytes, size_t alignment) {
    if (pointer != nullptr) release_(self_, pointer, bytes, alignment);
  }

  template <typename T, typename... Args>
  T* create(Args&&... args) {
    void* p = allocate(sizeof(T), alignof(T));
    return p != nullptr ? ::new (p) T(std::forward<Args>(args)...) : nullptr;
  }
  template <typename T>
  void destroy(T* object) {
    if (object == nullptr) return;
    object->~T();
    release(object, sizeof(T), alignof(T));
  }
  // Uninitialised memory for count elements; null on failure or overflow.
  template <typename T>
  T* array(size_t count) {
    size_t bytes;
    if (!checked_mul(count, sizeof(T), &bytes)) return nullptr;
    return static_cast<T*>(allocate(bytes, alignof(T)));
  }

 protected:
  constexpr Memory(void* self, AllocateFn allocate_fn, ReleaseFn release_fn)
      : self_(self), allocate_(allocate_fn), release_(release_fn) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() = default;

  void* self_;
  AllocateFn allocate_;
  ReleaseFn release_;
};

// The allocator table of a context (or the system's), counting what is held. Thread-safe if the
// table is.
class Heap : public Memory {
 public:
  constexpr Heap()  // the system's allocator
      : Memory(this, allocate_counted, release_counted),
        table_{sizeof(aster_ml_allocator), nullptr, allocate_system, release_system} {}
  explicit Heap(const aster_ml_allocator* table);  // null, or a null function in it: the system's
  const aster_ml_allocator& table() const { return table_; }
  size_t bytes_now() const { return now_.load(std::memory_order_relaxed); }
  size_t bytes_most() const { return most_.load(std::memory_order_relaxed); }

 private:
  static void* allocate_counted(void* self, size_t bytes, size_t alignment);
  static void release_counted(void* self, void* pointer, size_t bytes, size_t alignment);
  static void* allocate_system(void* self, size_t bytes, size_t alignment);
  static void release_system(void* self, void* pointer, size_t bytes, size_t alignment);
  aster_ml_allocator table_;
  std::atomic<size_t> now_{0};
  std::atomic<size_t> most_{0};
};

// The process's own heap on the system allocator, for what belongs to no context (registries,
// worker pool).
Heap& process_heap();

inline Status out_of_memory(size_t bytes) {
  return ASTER_FAIL(kMEMORY, "could not allocate %zu bytes", bytes);
}

// Growing array. Moves elements with memcpy when trivially copyable, with moves otherwise.
template <typename T>
class Vec {
 public:
  explicit Vec(Memory& memory) : memory_(&memory) {}
  Vec(Vec&& other) noexcept
      : memory_(other.memory_), data_(other.data_), size_(other.size_), capacity_(other.capacity_) {
    other.data_ = nullptr;
    other.size_ = other.capacity_ = 0;
  }
  Vec& operator=(Vec&& other) noexcept {
    if (this != &other) {
      release();
      memory_ = other.memory_;
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
      capacity_ = std::exchange(other.capacity_, 0);
    }
    return *this;
  }
  Vec(const Vec&) = delete;
  Vec& operator=(const Vec&) = delete;
  ~Vec() { release(); }

  Status reserve(size_t capacity) {
    if (capacity <= capacity_) return kOk;
    T* grown = memory_->array<T>(capacity);
    if (grown == nullptr) return out_of_memory(capacity * sizeof(T));
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (size_ != 0) std::memcpy(static_cast<void*>(grown), data_, size_ * sizeof(T));
    } else {
      for (size_t i = 0; i < size_; ++i) {
        ::new (static_cast<void*>(grown + i)) T(std::move(data_[i]));
        data_[i].~T();
      }
    }
    if (data_ != nullptr) memory_->release(data_, capacity_ * sizeof(T), alignof(T));
    data_ = grown;
    capacity_ = capacity;
    return kOk;
  }
  template <typename U = T>
  Status push(U&& value) {
    T kept(std::forward<U>(value));  // value may live inside this array
    if (size_ == capacity_) ASTER_TRY(reserve(capacity_ == 0 ? 8 : capacity_ * 2));
    ::new (static_cast<void*>(data_ + size_)) T(std::move(kept));
    ++size_;
    return kOk;
  }
  Status append(const T* values, size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (count > capacity_ - size_) {
      size_t doubled = capacity_ * 2;
      ASTER_TRY(reserve(doubled > size_ + count ? doubled : size_ + count));
    }
    if (count != 0) std::memcpy(static_cast<void*>(data_ + size_), values, count * sizeof(T));
    size_ += count;
    return kOk;
  }
  // New elements are copies of fill.
  Status resize(size_t size, const T& fill = T()) {
    static_assert(std::is_trivially_copyable_v<T>);
    // Doubled as append does, so that growing step by step stays linear.
    if (size > capacity_) ASTER_TRY(reserve(size > capacity_ * 2 ? size : capacity_ * 2));
    for (size_t i = size_; i < size; ++i) data_[i] = fill;
    size_ = size;
    return kOk;
  }
  void pop() { data_[--size_].~T(); }
  void clear() {
    if constexpr (!std::is_trivially_destructible_v<T>) {
      for (size_t i = 0; i < size_; ++i) data_[i].~T();
    }
    size_ = 0;
  }
  void truncate(size_t size) {
    while (size_ > size) pop();
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  Memory& memory() const { return *memory_; }

 private:
  void release() {
    clear();
    if (data_ != nullptr) memory_->release(data_, capacity_ * sizeof(T), alignof(T));
    data_ = nullptr;
    capacity_ = 0;
  }
  Memory* memory_;
  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace aster
