// Scan: rows one after another where the axis is the last, else strips across the rows.
#include <algorithm>

#include "runtime/cpu/native_types.h"

namespace aster::runtime::cpu::native {
namespace {

constexpr int64_t kStrip = 256;  // running values at a time
constexpr int64_t kTaskElements = 1 << 14;

struct Head {
  int64_t op, dtype;
  int64_t outer, size, inner;
  int64_t strips;    // of a row of inner elements
  int64_t per_task;  // units of a task: a row, or a strip of rows
};

// A row of n elements into y, which may be x.
template <typename E, typename Combine>
void scan_row(const void* from, void* to, int64_t n) {
  constexpr Combine combine{};
  const auto* const x = static_cast<const typename E::Stored*>(from);
  auto* const y = static_cast<typename E::Stored*>(to);
  auto sum = E::load(x[0]);
  y[0] = E::store(sum);
  for (int64_t i = 1; i < n; ++i) {
    sum = combine(sum, E::load(x[i]));
    y[i] = E::store(sum);
  }
}

// n rows of `width` elements, `stride` apart, each combined with those before.
template <typename E, typename Combine>
void scan_strip(const void* from, void* to, int64_t n, int64_t stride, int64_t width) {
  constexpr Combine combine{};
  const auto* x = static_cast<const typename E::Stored*>(from);
  auto* y = static_cast<typename E::Stored*>(to);
  typename E::Value sums[kStrip];
  for (int64_t k = 0; k < width; ++k) {
    sums[k] = E::load(x[k]);
    y[k] = E::store(sums[k]);
  }
  for (int64_t i = 1; i < n; ++i) {
    x += stride;
    y += stride;
    for (int64_t k = 0; k < width; ++k) {
      sums[k] = combine(sums[k], E::load(x[k]));
      y[k] = E::store(sums[k]);
    }
  }
}

}  // namespace

Status prepare_scan(Plan* out, Node node, std::span<const int64_t>) {
  const Rows rows = rows_of(node->shape(), static_cast<size_t>(node->arg(1)));
  Head head = {};
  head.op = node->arg(0);
  head.dtype = static_cast<int64_t>(node->dtype);
  head.outer = rows.outer;
  head.size = rows.size;
  head.inner = rows.inner;
  head.strips = (rows.inner + kStrip - 1) / kStrip;
  const int64_t unit = rows.size * std::min(rows.inner, kStrip);
  const int64_t units = rows.outer * head.strips;
  head.per_task = std::clamp<int64_t>(kTaskElements / unit, 1, units);
  out->tasks = (units + head.per_task - 1) / head.per_task;
  out->nanoseconds = static_cast<double>(node->count()) * (rows.inner == 1 ? 1.4 : 0.6);
  return put_head(out, head);
}

void run_scan(const Plan& plan, void* const* operands, void*, int64_t begin, int64_t end) {
  const Head head = get_head<Head>(plan);
  const int64_t bytes = static_cast<int64_t>(element_bytes(static_cast<DType>(head.dtype)));
  const char* const x = static_cast<const char*>(operands[0]);
  char* const y = static_cast<char*>(operands[1]);
  const int64_t last = std::min(end * head.per_task, head.outer * head.strips);
  with_element(static_cast<DType>(head.dtype), [&](auto element) {
    using E = decltype(element);
    with_reduction<typename E::Value>(static_cast<Op>(head.op), [&](auto combine) {
      using Combine = decltype(combine);
      for (int64_t unit = begin * head.per_task; unit < last; ++unit) {
        const int64_t column = unit % head.strips * kStrip;
        const int64_t at = (unit / head.strips * head.size * head.inner + column) * bytes;
        if (head.inner == 1) {
          scan_row<E, Combine>(x + at, y + at, head.size);
        } else {
          scan_strip<E, Combine>(x + at, y + at, head.size, head.inner,
                                 std::min(kStrip, head.inner - column));
        }
      }
    });
  });
}

}  // namespace aster::runtime::cpu::native
