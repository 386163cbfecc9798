#include "flt/elements.h"

#include "base/pool.h"

namespace aster::flt {
namespace {

// What threads take at once, and below what it is not worth waking them.
constexpr int64_t kPartNs = 20'000, kAloneNs = 60'000;

// First byte and one behind the last of an array that fits the address space.
struct Span {
  uintptr_t begin, end;
};
Span span_of(const Elements& e, size_t count) {
  const auto first = reinterpret_cast<uintptr_t>(e.data);
  const auto last = first + static_cast<uintptr_t>(e.step * static_cast<int64_t>(count - 1));
  return e.step < 0 ? Span{last, first + e.size} : Span{first, last + e.size};
}

uint64_t size_of_step(int64_t step) {
  return step < 0 ? 0 - static_cast<uint64_t>(step) : static_cast<uint64_t>(step);
}

}  // namespace

int limbs_of(int32_t dtype) {
#define FLT_LIMBS(N, Name) \
  if (dtype == static_cast<int32_t>(dtype::DType::k##Name)) return N;
  FLT_FORMATS(FLT_LIMBS)
#undef FLT_LIMBS
  return 0;
}

Status check_dtype(int32_t* limbs, int32_t dtype) {
  *limbs = limbs_of(dtype);
  if (*limbs != 0) return kOk;
  const char* const name = aster_ml_dtype_name(dtype);
  if (name == nullptr) return ASTER_FAIL(kARGUMENT, "%d is no dtype", dtype);
  return ASTER_FAIL(kDTYPE, "%s in the place of flt256 or flt512", name);
}

Status check_rounding(int32_t rounding) {
  if (rounding >= ASTER_ML_FLT_NEAREST && rounding <= ASTER_ML_FLT_DOWN) return kOk;
  return ASTER_FAIL(kARGUMENT, "%d is no rounding mode", rounding);
}

Status elements_of(Elements* out, const char* name, const void* data, int64_t stride, size_t size,
                   size_t alignment, size_t count) {
  *out = {static_cast<const char*>(data), static_cast<int64_t>(size), size};
  if (count == 0) return kOk;
  if (data == nullptr) return ASTER_FAIL(kARGUMENT, "%s is null", name);
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address % alignment != 0) {
    return ASTER_FAIL(kARGUMENT, "%s is not aligned to %zu bytes", name, alignment);
  }
  if (count == 1) stride = 1;
  int64_t reach;
  if (count > static_cast<size_t>(INT64_MAX) ||
      !checked_mul(stride, static_cast<int64_t>(size), &out->step) ||
      !checked_mul(out->step, static_cast<int64_t>(count - 1), &reach)) {
    return ASTER_FAIL(kRANGE, "%s: %zu elements with stride %lld", name, count,
                      static_cast<long long>(stride));
  }
  const uint64_t behind = size_of_step(reach);
  if (reach < 0 ? behind > address : behind > UINTPTR_MAX - address - size) {
    return ASTER_FAIL(kRANGE, "%s leaves the address space", name);
  }
  return kOk;
}

Status check_written(const Elements& out, size_t count) {
  if (count > 1 && size_of_step(out.step) < out.size) {
    return ASTER_FAIL(kARGUMENT, "elements of out overlap each other");
  }
  return kOk;
}

Status check_apart(const Elements& out, const Elements& operand, size_t count) {
  if (count == 0) return kOk;
  const Span written = span_of(out, count), read = span_of(operand, count);
  if (written.end <= read.begin || read.end <= written.begin) return kOk;
  const uint64_t step = size_of_step(out.step);
  if (step == size_of_step(operand.step) && step != 0) {
    if (out.data == operand.data && out.step == operand.step && out.size == operand.size) {
      return kOk;
    }
    // Elements may take turns.
    const bool above = read.begin >= written.begin;
    const uint64_t apart = (above ? read.begin - written.begin : written.begin - read.begin) % step;
    const uint64_t turn = above ? apart : (step - apart) % step;
    if (turn >= out.size && step - turn >= operand.size) return kOk;
  }
  return ASTER_FAIL(kARGUMENT, "out overlaps an operand");
}

Caller::Caller(const aster_ml_context* context) {
  if (context == nullptr) return;
  context_ = context_of(context);
  if (context_ == nullptr) {
    status_ = ASTER_FAIL(kARGUMENT, "an empty context, or one that was freed");
  } else {
    memory_ = &context_->heap();
    status_ = context_->enter(&outer_);
  }
}

Memory& Caller::work() const {
  if (context_ == nullptr) return *memory_;
  Heap& heap = context_->heap();
  const bool own = heap.table().allocate != process_heap().table().allocate;
  return own ? static_cast<Memory&>(heap) : process_heap();
}

Caller::~Caller() {
  if (outer_) context_->leave();
}

int Caller::threads() const {
  if (context_ == nullptr) return shares_ ? pool::spare_threads() : 1;
  return pool::threads_of(*context_);
}

namespace detail {

size_t part_of(int threads, size_t count, int64_t ns) {
  if (threads <= 1 || count <= static_cast<size_t>(kAloneNs / ns)) return count;
  return static_cast<size_t>(kPartNs / ns) + 1;
}

void run_parts(int threads, size_t count, size_t part, void (*call)(const void*, size_t, size_t),
               const void* body) {
  struct Run {
    void (*call)(const void*, size_t, size_t);
    const void* body;
    size_t count, part;
  } run = {call, body, count, part};
  pool::run(
      threads, static_cast<int64_t>((count + part - 1) / part),
      [](void* self, int64_t task) {
        const Run& r = *static_cast<Run*>(self);
        const size_t begin = static_cast<size_t>(task) * r.part;
        r.call(r.body, begin, r.count - begin < r.part ? r.count : begin + r.part);
      },
      &run);
}

}  // namespace detail
}  // namespace aster::flt
