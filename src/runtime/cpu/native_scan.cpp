// Scans: a few rows side by side where the axis is the last, else strips across the rows.
//
// Each element is combined with those before it one by one, whatever else runs beside.
#include <algorithm>

#include "runtime/cpu/machine.h"
#include "runtime/cpu/native_types.h"

namespace aster::runtime::cpu::native {
namespace {

constexpr int64_t kStrip = 256;  // running values at a time
constexpr int64_t kRows = 4;     // chains of additions that hide each other's latency

struct Head {
  int64_t op, dtype;
  int64_t outer, size, inner;
  int64_t reverse;
  int64_t strips;    // of a row of inner elements, or 1
  int64_t units;     // kRows rows, or a strip of rows
  int64_t per_task;  // units of a task
};

// A kind of scan is a family: Of<kLanes> are the running values of so many. first() takes the first
// element of a lane and next() the others in turn; both give the result there.

template <typename E, typename Combine>
struct Values {
  using From = typename E::Stored;
  using To = From;
  template <size_t kLanes>
  struct Of {
    typename E::Value value[kLanes];

    To first(int64_t k, From x) {
      value[k] = E::load(x);
      return E::store(value[k]);
    }
    To next(int64_t k, From x, int64_t) {
      value[k] = Combine()(value[k], E::load(x));
      return E::store(value[k]);
    }
  };
};

// Where the value changed last: what is NaN stays NaN.
template <typename E, typename Combine>
struct Positions {
  using From = typename E::Stored;
  using To = int32_t;
  template <size_t kLanes>
  struct Of {
    typename E::Value value[kLanes];
    To place[kLanes];

    To first(int64_t k, From x) {
      value[k] = E::load(x);
      place[k] = 0;
      return 0;
    }
    To next(int64_t k, From x, int64_t i) { return accept(k, combined(k, x), i); }
    // Two loops that become vectors where one would not.
    void next_strip(const From* x, To* y, int64_t width, int64_t i) {
      typename E::Value now[kLanes];
      for (int64_t k = 0; k < width; ++k) now[k] = combined(k, x[k]);
      for (int64_t k = 0; k < width; ++k) y[k] = accept(k, now[k], i);
    }

   private:
    typename E::Value combined(int64_t k, From x) const { return Combine()(value[k], E::load(x)); }
    To accept(int64_t k, typename E::Value now, int64_t i) {
      const bool same = (now == value[k]) | (value[k] != value[k]);
      value[k] = now;
      place[k] = same ? place[k] : static_cast<To>(i);
      return place[k];
    }
  };
};

// e^x of -87 <= x <= 0, NaN of NaN, in arithmetic that becomes vectors.
inline float exp_below(float x) {
  constexpr float kRound = 0x1.8p23f;  // leaves an integer in the last bits
  constexpr float kLn2High = 0x1.62ep-1f, kLn2Low = 0x1.0bfbe8p-15f;
  const float shifted = x * 0x1.715476p0f + kRound, n = shifted - kRound;
  const float f = x - n * kLn2High - n * kLn2Low;  // |f| <= ln 2 / 2: the Taylor series
  float y = (((1.f / 5040 * f + 1.f / 720) * f + 1.f / 120) * f + 1.f / 24) * f + 1.f / 6;
  y = ((y * f + 1.f / 2) * f + 1) * f + 1;
  const uint32_t power = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound);
  return y * std::bit_cast<float>((power + 127) << 23);
}
inline double exp_below(double x) { return std::exp(x); }

// ln x of finite x >= 1, likewise.
inline float log_above(float x) {
  constexpr uint32_t kRootHalf = 0x3f3504f3;
  const uint32_t above = std::bit_cast<uint32_t>(x) - kRootHalf;
  const float n = static_cast<float>(static_cast<int32_t>(above >> 23));
  const float m = std::bit_cast<float>((above & 0x7fffff) + kRootHalf);  // within root 2 of 1
  const float r = (m - 1) / (m + 1), square = r * r;                     // ln m = 2 artanh r
  const float y =
      (((1.f / 9 * square + 1.f / 7) * square + 1.f / 5) * square + 1.f / 3) * square + 1;
  return n * 0x1.62e43p-1f + (2 * r * y + n * -0x1.05c61p-29f) + (x - x);
}
inline double log_above(double x) { return std::log(x); }

// The greatest so far, and the sum of exponentials relative to it, in double: a long sum of floats
// would lose what is added. NaN goes to the sum, which keeps it.
template <typename E>
struct Logarithms {
  using From = typename E::Stored;
  using To = From;
  using Value = typename E::Value;

  // What elements add to sums relative to `most`, or sums to one relative to elements above. What
  // is below e^-87 counts for nothing beside the 1 that every sum has. Loops that each become
  // vectors.
  static void terms(int64_t count, const Value* now, const Value* most, double* out) {
    Value x[kStrip];
    for (int64_t i = 0; i < count; ++i) {
      const Value below = -std::fabs(now[i] - most[i]);
      x[i] = below < -87 ? -87 : below;
    }
    for (int64_t i = 0; i < count; ++i) x[i] = exp_below(x[i]);
    for (int64_t i = 0; i < count; ++i) {  // infinities may be equal
      out[i] = static_cast<double>(now[i] == most[i] ? Value(1) : x[i]);
    }
  }
  static Value result(Value most, double sum) { return most + log_above(static_cast<Value>(sum)); }

  template <size_t kLanes>
  struct Of {
    Value most[kLanes];
    double sum[kLanes];

    To first(int64_t k, From x) {
      most[k] = E::load(x);
      sum[k] = 1;
      return E::store(most[k]);
    }
    void next_strip(const From* x, To* y, int64_t width, int64_t) {
      Value now[kLanes];
      double added[kLanes];
      for (int64_t k = 0; k < width; ++k) now[k] = E::load(x[k]);
      terms(width, now, most, added);
      for (int64_t k = 0; k < width; ++k) {
        const double raised = sum[k] * added[k] + 1, grown = sum[k] + added[k];
        sum[k] = now[k] > most[k] ? raised : grown;
        most[k] = now[k] > most[k] ? now[k] : most[k];
      }
      for (int64_t k = 0; k < width; ++k) y[k] = E::store(result(most[k], sum[k]));
    }
  };

  // A row by blocks: only maxima and additions wait for those before.
  static void scan_row(const From* x, To* y, int64_t n, int64_t step) {
    Value now[kStrip], most[kStrip + 1];
    double added[kStrip], sum = 0;
    most[0] = E::load(x[0]);
    for (int64_t done = 0; done < n; done += kStrip) {
      const int64_t count = std::min(kStrip, n - done);
      for (int64_t i = 0; i < count; ++i) now[i] = E::load(x[(done + i) * step]);
      for (int64_t i = 0; i < count; ++i) most[i + 1] = now[i] > most[i] ? now[i] : most[i];
      terms(count, now, most, added);
      for (int64_t i = 0; i < count; ++i) {
        if (now[i] > most[i]) {
          sum = sum * added[i] + 1;
        } else {
          sum += added[i];
        }
        added[i] = sum;
      }
      for (int64_t i = 0; i < count; ++i) now[i] = result(most[i + 1], added[i]);
      for (int64_t i = 0; i < count; ++i) y[(done + i) * step] = E::store(now[i]);
      most[0] = most[count];
    }
  }
};

// kLanes rows of n elements, `distance` apart. y may be x: an element is read before it is written.
template <typename Family, size_t kLanes>
void scan_rows(const typename Family::From* x, typename Family::To* y, int64_t n, int64_t step,
               int64_t distance) {
  constexpr int64_t lanes = kLanes;
  typename Family::template Of<kLanes> scans;
  for (int64_t k = 0; k < lanes; ++k) y[k * distance] = scans.first(k, x[k * distance]);
  for (int64_t i = 1; i < n; ++i) {
    x += step;
    y += step;
    typename Family::From now[kLanes];
    for (int64_t k = 0; k < lanes; ++k) now[k] = x[k * distance];
    for (int64_t k = 0; k < lanes; ++k) y[k * distance] = scans.next(k, now[k], i);
  }
}

// n rows of `width` elements, each combined with those before.
template <typename Family>
void scan_strip(const typename Family::From* x, typename Family::To* y, int64_t n, int64_t step,
                int64_t width) {
  typename Family::template Of<kStrip> scans;
  for (int64_t k = 0; k < width; ++k) y[k] = scans.first(k, x[k]);
  for (int64_t i = 1; i < n; ++i) {
    x += step;
    y += step;
    if constexpr (requires { scans.next_strip(x, y, width, i); }) {
      scans.next_strip(x, y, width, i);
    } else {
      for (int64_t k = 0; k < width; ++k) y[k] = scans.next(k, x[k], i);
    }
  }
}

template <typename Family>
void run_units(const Head& head, void* const* operands, int64_t begin, int64_t end) {
  const int64_t row = head.size * head.inner, first = head.reverse != 0 ? row - head.inner : 0,
                step = head.reverse != 0 ? -head.inner : head.inner,
                last = std::min(end * head.per_task, head.units);
  const auto* const x = static_cast<const typename Family::From*>(operands[0]) + first;
  auto* const y = static_cast<typename Family::To*>(operands[1]) + first;
  for (int64_t unit = begin * head.per_task; unit < last; ++unit) {
    if (head.inner > 1) {
      const int64_t column = unit % head.strips * kStrip;
      const int64_t at = unit / head.strips * row + column;
      const int64_t width = std::min(kStrip, head.inner - column);
      scan_strip<Family>(x + at, y + at, head.size, step, width);
      continue;
    }
    const int64_t from = unit * kRows, to = std::min(from + kRows, head.outer);
    if constexpr (requires { Family::scan_row(x, y, step, step); }) {
      for (int64_t i = from; i < to; ++i) {
        Family::scan_row(x + i * row, y + i * row, head.size, step);
      }
    } else if (to - from == kRows) {
      scan_rows<Family, kRows>(x + from * row, y + from * row, head.size, step, row);
    } else {
      for (int64_t i = from; i < to; ++i) {
        scan_rows<Family, 1>(x + i * row, y + i * row, head.size, step, row);
      }
    }
  }
}

// A family for the elements and the operation of a plan.
template <template <typename E, typename Combine> typename Family>
void run_combining(const Plan& plan, void* const* operands, int64_t begin, int64_t end) {
  const Head head = get_head<Head>(plan);
  with_element(static_cast<DType>(head.dtype), [&](auto element) {
    using E = decltype(element);
    with_reduction<typename E::Value>(static_cast<Op>(head.op), [&](auto combine) {
      run_units<Family<E, decltype(combine)>>(head, operands, begin, end);
    });
  });
}

}  // namespace

Status prepare_scan(Plan* out, Node node, std::span<const int64_t>) {
  const bool logarithms = node->op == Op::kLogScan;
  const size_t axis_word = logarithms ? 0 : 1;
  const Rows rows = rows_of(node->shape(), static_cast<size_t>(node->arg(axis_word)));
  Head head = {};
  head.op = node->arg(0);
  head.dtype = static_cast<int64_t>(node->src(0)->dtype);
  head.outer = rows.outer;
  head.size = rows.size;
  head.inner = rows.inner;
  head.reverse = node->narg > axis_word + 1 ? node->arg(axis_word + 1) : 0;
  const bool in_rows = rows.inner == 1;
  head.strips = in_rows ? 1 : (rows.inner + kStrip - 1) / kStrip;
  head.units = in_rows ? (rows.outer + kRows - 1) / kRows : rows.outer * head.strips;
  const int64_t unit = rows.size * (in_rows ? kRows : std::min(rows.inner, kStrip));
  head.per_task = std::clamp<int64_t>(machine::kTaskElements / unit, 1, head.units);
  out->tasks = (head.units + head.per_task - 1) / head.per_task;
  const double each = logarithms ? 8 : in_rows && rows.outer < kRows ? 1.4 : 0.6;
  out->nanoseconds = static_cast<double>(node->count()) * each;
  return put_head(out, head);
}

void run_scan(const Plan& plan, void* const* operands, void*, int64_t begin, int64_t end) {
  run_combining<Values>(plan, operands, begin, end);
}

void run_scan_place(const Plan& plan, void* const* operands, void*, int64_t begin, int64_t end) {
  run_combining<Positions>(plan, operands, begin, end);
}

void run_log_scan(const Plan& plan, void* const* operands, void*, int64_t begin, int64_t end) {
  const Head head = get_head<Head>(plan);
  with_element(static_cast<DType>(head.dtype), [&](auto element) {
    using E = decltype(element);
    if constexpr (dtype::is_float(E::kDType)) {
      run_units<Logarithms<E>>(head, operands, begin, end);
    }
  });
}

}  // namespace aster::runtime::cpu::native
