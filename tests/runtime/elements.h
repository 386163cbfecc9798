// Elements of every dtype as tests compute with them: doubles or words, one by one.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "dtype/convert.h"
#include "runtime/reference/interpret.h"
#include "support.h"

namespace aster::runtime::testing {

using uop::DType;
using uop::Graph;
using uop::Node;
using uop::Op;
using Shape = std::vector<int64_t>;
using Bytes = std::vector<char>;

constexpr DType kAll[] = {
    DType::kBool,    DType::kInt8,        DType::kUInt8,   DType::kInt16,       DType::kUInt16,
    DType::kInt32,   DType::kUInt32,      DType::kInt64,   DType::kUInt64,      DType::kFp8E4M3,
    DType::kFp8E5M2, DType::kFp8E4M3Fnuz, DType::kFloat16, DType::kFp8E5M2Fnuz, DType::kBFloat16,
    DType::kFloat32, DType::kFloat64,     DType::kWeakInt, DType::kWeakFloat};
constexpr DType kIndexTypes[] = {DType::kInt8,  DType::kUInt8,  DType::kInt16, DType::kUInt16,
                                 DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt64};
constexpr Op kReductions[] = {Op::kAdd, Op::kMul, Op::kMax, Op::kMin, Op::kAnd, Op::kOr};

inline size_t bytes_of(DType d) { return dtype::is_weak(d) ? 8 : dtype::size(d); }
inline bool reduces(Op op, DType d) {
  return !dtype::is_float(d) || (op != Op::kAnd && op != Op::kOr);
}

// An element as the oracle computes with it: a double or an int64 word.
struct Value {
  double real = 0;
  int64_t word = 0;
};
inline Value load(DType d, const Bytes& data, int64_t i) {
  const void* at = data.data() + static_cast<size_t>(i) * bytes_of(d);
  Value v;
  if (dtype::is_float(d)) {
    v.real = dtype::load_double(d, at);
  } else {
    v.word = dtype::load_int(d, at);
  }
  return v;
}
inline void store(DType d, Bytes& data, int64_t i, Value v) {
  void* at = data.data() + static_cast<size_t>(i) * bytes_of(d);
  if (dtype::is_float(d)) {
    dtype::store_double(d, at, v.real);
  } else {
    dtype::store_int(d, at, v.word);
  }
}

template <typename T>
T extremum(Op op, T a, T b) {
  return op == Op::kMax ? std::max(a, b) : std::min(a, b);
}
inline Value combine(Op op, DType d, Value a, Value b) {
  Value y;
  if (dtype::is_float(d)) {
    const bool nan = std::isnan(a.real) || std::isnan(b.real);
    y.real = op == Op::kAdd   ? a.real + b.real
             : op == Op::kMul ? a.real * b.real
             : nan            ? NAN
                              : extremum(op, a.real, b.real);
    return y;
  }
  const uint64_t x = static_cast<uint64_t>(a.word), z = static_cast<uint64_t>(b.word);
  uint64_t word = 0;
  switch (op) {
    case Op::kAdd:
      word = x + z;
      break;
    case Op::kMul:
      word = x * z;
      break;
    case Op::kAnd:
      word = x & z;
      break;
    case Op::kOr:
      word = x | z;
      break;
    default:
      word = d == DType::kUInt64 ? extremum(op, x, z)
                                 : static_cast<uint64_t>(extremum(op, a.word, b.word));
  }
  y.word = dtype::truncate_int(d, static_cast<int64_t>(word));
  return y;
}

using Random = std::mt19937;
inline int64_t draw(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// few: small values, so that equal ones and exact sums are common.
inline Bytes values(DType d, int64_t count, Random& random, bool few) {
  Bytes data(static_cast<size_t>(count) * bytes_of(d));
  for (int64_t i = 0; i < count; ++i) {
    Value v;
    const int64_t special = few ? draw(random, 0, 20) : 9;
    v.real = few ? static_cast<double>(draw(random, -3, 3)) / 2
                 : std::normal_distribution<double>(0, 3)(random);
    if (special == 0) v.real = NAN;
    if (special == 1) v.real = -0.0;
    if (special == 2) v.real = INFINITY;
    if (special == 3) v.real = -INFINITY;
    v.word = few ? draw(random, -2, 2) : draw(random, INT64_MIN, INT64_MAX);
    store(d, data, i, v);
  }
  return data;
}

inline int64_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Equal values; NaN equals NaN.
inline void expect_same(Node node, const Bytes& got, const Bytes& expected) {
  const DType d = node->dtype;
  int shown = 0;
  for (int64_t i = 0; i < node->count() && shown < 5; ++i) {
    const Value a = load(d, got, i), b = load(d, expected, i);
    const bool both_nan = std::isnan(a.real) && std::isnan(b.real);
    if (both_nan || (a.real == b.real && a.word == b.word)) continue;
    ADD_FAILURE() << uop::brief(node).text << " at " << i << ": " << a.real << " " << a.word
                  << ", expected " << b.real << " " << b.word;
    ++shown;
  }
}

// The interpreter's value of node, whose sources are Params with these operands, or Consts.
inline Bytes interpret(Graph& graph, Node node, const std::vector<void*>& operands) {
  std::vector<reference::Binding> bindings;
  for (size_t i = 0; i < node->nsrc; ++i) {
    if (node->src(i)->op == Op::kParam) bindings.push_back({node->src(i), operands[i]});
  }
  Bytes out(static_cast<size_t>(node->count()) * bytes_of(node->dtype));
  Heap heap(nullptr);
  const reference::Output output{node, out.data()};
  EXPECT_TRUE(reference::interpret(graph, heap, bindings, {&output, 1}).ok()) << last_error();
  return out;
}

// ---- Places that indices lead to ----

struct Places {
  Shape target, at;
  Shape coordinates;  // as the node's
};

// Row-major position in the target, -1 outside.
inline int64_t position(const Places& p, const std::vector<DType>& types,
                        const std::vector<Bytes>& indices, int64_t element) {
  int64_t at[8];  // no case has more axes
  int64_t rest = element;
  for (size_t i = p.at.size(); i-- > 0;) {
    at[i] = rest % p.at[i];
    rest /= p.at[i];
  }
  int64_t out = 0;
  for (size_t i = 0; i < p.target.size(); ++i) {
    int64_t c;
    if (p.coordinates[i] >= 0) {
      c = at[static_cast<size_t>(p.coordinates[i])];
    } else {
      const size_t k = static_cast<size_t>(-p.coordinates[i] - 1);
      c = load(types[k], indices[k], element).word;
      if (types[k] == DType::kUInt64 && c < 0) return -1;
    }
    if (c < 0 || c >= p.target[i]) return -1;
    out = out * p.target[i] + c;
  }
  return out;
}

inline Bytes make_indices(DType d, int64_t count, int64_t bound, Random& random) {
  Bytes data(static_cast<size_t>(count) * bytes_of(d));
  for (int64_t i = 0; i < count; ++i) {
    Value v;
    v.word = draw(random, 0, 9) == 0 ? draw(random, INT64_MIN, INT64_MAX) : draw(random, -1, bound);
    store(d, data, i, v);
  }
  return data;
}

inline const Places kPlaces[] = {
    {{7}, {40}, {-1}},
    {{5, 6}, {30, 6}, {-1, 1}},           // rows
    {{5, 6}, {4, 9}, {0, -1}},            // along the last axis
    {{4, 5, 6}, {3, 20, 6}, {0, -1, 2}},  // along a middle axis
    {{4, 5, 6}, {50}, {-1, -2, -3}},      // points
    {{4, 5, 6}, {11, 3}, {-2, 1, -1}},    // two indices around an axis
    {{9, 9}, {9}, {0, 0}},                // a diagonal, no index
    {{8, 9}, {3, 2, 5}, {1, -1}},         // axes of the value that are no coordinate
    {{3, 1, 4}, {2, 1, 7}, {0, 1, -1}},   // axes of size 1
    {{6, 4}, {4, 6}, {1, 0}},             // transposed
    {{}, {5}, {}},                        // all to one element
    {{6}, {}, {-1}},                      // one element
    {{3, 40}, {10, 37}, {-1, 1}},         // long rows
};

}  // namespace aster::runtime::testing
