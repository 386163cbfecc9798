// Memory that products compute in, kept for the next ones: fresh pages cost a tenth of a product,
// and threads that ask for them wait for each other.
#pragma once

#include "base/memory.h"

namespace aster::flt {

// At least bytes, aligned to 64; null where there is none. Memory other than the system's is asked
// each time.
struct Work {
  void* data = nullptr;
  size_t capacity = 0, alignment = 0;
};
Work take_work(Memory& memory, size_t bytes);
void give_work(Memory& memory, const Work& work);
// Gives back what is kept; how many bytes that were.
size_t trim_work();

// So many elements of it, until the end.
template <typename T>
class Held {
 public:
  Held(Memory& memory, size_t count)
      : memory_(memory), bytes_(count * sizeof(T)), work_(take_work(memory, bytes_)) {}
  ~Held() { give_work(memory_, work_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  T* get() const { return static_cast<T*>(work_.data); }
  size_t bytes() const { return bytes_; }

 private:
  Memory& memory_;
  const size_t bytes_;
  const Work work_;
};

}  // namespace aster::flt
