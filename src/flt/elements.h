// Elements in memory: what a call was given, checked, and its parts for threads.
#pragma once

#include "base/context.h"
#include "flt/formats.h"

namespace aster::flt {

// 4 or 8 limbs of a code of the ABI; 0 of others.
int limbs_of(int32_t dtype);
// Errors: DTYPE, ARGUMENT.
Status check_dtype(int32_t* limbs, int32_t dtype);
Status check_rounding(int32_t rounding);

// Elements of an array.
struct Elements {
  const char* data;
  int64_t step;  // in bytes
  size_t size;   // of one, in bytes
  char* at(int64_t i) const { return const_cast<char*>(data) + i * step; }
};

// The array of count elements of size bytes that begins at data, aligned to `alignment`. Errors:
// ARGUMENT (null, not aligned), RANGE (it leaves the address space).
Status elements_of(Elements* out, const char* name, const void* data, int64_t stride, size_t size,
                   size_t alignment, size_t count);
// ARGUMENT unless elements of out are apart from each other.
Status check_written(const Elements& out, size_t count);
// ARGUMENT unless out is apart from an operand or the very same elements.
Status check_apart(const Elements& out, const Elements& operand, size_t count);

// Holds the context of a call, if one was given, in the default floating-point modes.
class Caller {
 public:
  explicit Caller(const aster_ml_context* context);
  // A part of a call, with its memory, on the threads that its own may share work with.
  Caller(std::nullptr_t, Memory& memory) : memory_(&memory), shares_(true) {}
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  Status status() const { return status_; }
  int threads() const;
  Memory& memory() const { return *memory_; }
  // For what a call needs and gives back: the process's heap where a context has no allocator of
  // its own.
  Memory& work() const;
  // How wide vectors may be; 0: any.
  int32_t vector_bytes() const {
    return context_ == nullptr ? 0 : context_->options().vector_bytes;
  }

 private:
  Context* context_ = nullptr;
  Memory* memory_ = &process_heap();
  FloatModes modes_;
  Status status_;
  bool outer_ = false, shares_ = false;
};

// body(begin, end) over parts of [0, count), on the caller's threads if the work, at ns an element,
// is worth it.
template <typename Body>
void in_parts(const Caller& caller, size_t count, int64_t ns, const Body& body);

namespace detail {
void run_parts(int threads, size_t count, size_t part, void (*call)(const void*, size_t, size_t),
               const void* body);
size_t part_of(int threads, size_t count, int64_t ns);
}  // namespace detail

template <typename Body>
void in_parts(const Caller& caller, size_t count, int64_t ns, const Body& body) {
  const int threads = caller.threads();
  const size_t part = detail::part_of(threads, count, ns);
  if (part >= count) return body(size_t{0}, count);
  detail::run_parts(
      threads, count, part,
      [](const void* self, size_t begin, size_t end) {
        (*static_cast<const Body*>(self))(begin, end);
      },
      &body);
}

}  // namespace aster::flt
