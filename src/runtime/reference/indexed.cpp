#include "runtime/reference/indexed.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/reference/places.h"
#include "runtime/reference/sticky.h"
#include "runtime/reference/strip.h"
#include "runtime/reference/wide.h"
#include "uop/foreign.h"

namespace aster::runtime::reference {
namespace {

using uop::Node;
using uop::Op;
using uop::Word;
using uop::Words;

void copy(DType dtype, void* y, int64_t to, const void* x, int64_t from) {
  const int64_t bytes = static_cast<int64_t>(element_bytes(dtype));
  std::memcpy(static_cast<char*>(y) + to * bytes, static_cast<const char*>(x) + from * bytes,
              static_cast<size_t>(bytes));
}

void gather(Node node, const void* const* sources, void* result) {
  Places places(node->src(0)->shape(), node->shape(), node->arg(), node->src().subspan(1),
                sources + 1);
  for (; places.element() < node->count(); places.next()) {
    const int64_t from = places.position();
    if (from < 0) {
      write(node->dtype, result, places.element(), 0);
    } else {
      copy(node->dtype, result, places.element(), sources[0], from);
    }
  }
}

void scatter(Node node, const void* const* sources, void* result) {
  const DType dtype = node->dtype;
  const Node value = node->src(1);
  std::memcpy(result, sources[0], static_cast<size_t>(node->count()) * element_bytes(dtype));
  Places places(node->shape(), value->shape(), node->arg().subspan(1), node->src().subspan(2),
                sources + 2);
  for (; places.element() < value->count(); places.next()) {
    const int64_t to = places.position();
    if (to < 0) continue;
    if (node->arg(0) < 0) {
      copy(dtype, result, to, sources[1], places.element());
      continue;
    }
    const Word words[] = {read(dtype, result, to), read(dtype, sources[1], places.element())};
    write(dtype, result, to, uop::evaluate(static_cast<Op>(node->arg(0)), dtype, dtype, words));
  }
}

bool is_nan(DType dtype, Word word) {
  return dtype::is_float(dtype) && std::isnan(std::bit_cast<double>(word));
}

// Scan, and ScanPlace.
Status scan(Node node, const void* x, void* result) {
  const Op op = static_cast<Op>(node->arg(0));
  const DType dtype = node->src(0)->dtype;
  const DType sums = dtype::is_narrow_float(dtype) ? DType::kFloat32 : dtype;
  const bool places = node->op == Op::kScanPlace;
  const bool reverse = !places && node->arg(2) != 0;
  Word words[2] = {}, place = 0;
  const auto step = [&](int64_t at, int64_t i) {
    const Word before = words[0];
    words[1] = read(dtype, x, at);
    words[0] = i == 0 ? words[1] : uop::evaluate(op, sums, sums, words);
    if (!places) return write(dtype, result, at, words[0]);
    const Word compared[2] = {before, words[0]};
    const bool same = (is_nan(dtype, before) && is_nan(dtype, words[0])) ||
                      uop::evaluate(Op::kCmpEq, dtype, DType::kBool, compared) != 0;
    if (i == 0 || !same) place = i;
    write(DType::kInt32, result, at, place);
  };
  return for_steps(node->shape(), static_cast<size_t>(node->arg(1)), reverse, step);
}

// With the greatest so far, and the sum of exponentials relative to it.
Status scan_logarithms(Node node, const void* x, void* result) {
  double most = 0, sum = 0;
  const auto step = [&](int64_t at, int64_t i) {
    const double value = std::bit_cast<double>(read(node->dtype, x, at));
    if (i == 0) {
      most = value, sum = 1;
    } else if (value == most) {
      sum += 1;
    } else if (value < most) {
      sum += std::exp(value - most);
    } else {  // NaN too, which the sum keeps
      sum = sum * std::exp(most - value) + 1;
      most = value;
    }
    write(node->dtype, result, at, std::bit_cast<Word>(most + std::log(sum)));
  };
  return for_steps(node->shape(), static_cast<size_t>(node->arg(0)), node->arg(1) != 0, step);
}

// Whether an element is less than another: NaN is largest.
bool less(DType dtype, Word a, Word b) {
  if (dtype::is_float(dtype)) {
    const double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b);
    return std::isnan(y) ? !std::isnan(x) : x < y;
  }
  if (dtype == DType::kUInt64) return static_cast<uint64_t>(a) < static_cast<uint64_t>(b);
  return a < b;
}

// Argsort, and Sort, which reads the elements at the positions.
Status sort(Memory& memory, Node node, const void* x, void* result) {
  const Node source = node->src(0);
  const size_t axis = static_cast<size_t>(node->arg(0));
  const bool descending = node->arg(1) != 0;
  const int64_t size = source->dim(axis), count = node->dim(axis);
  Vec<Word> row(memory);
  Vec<int32_t> order(memory);
  ASTER_TRY(row.resize(static_cast<size_t>(size)));
  ASTER_TRY(order.resize(static_cast<size_t>(size)));
  return for_rows(source->shape(), axis, [&](int64_t first, int64_t distance) {
    for (int64_t i = 0; i < size; ++i) {
      row[static_cast<size_t>(i)] = read(source->dtype, x, first + i * distance);
      order[static_cast<size_t>(i)] = static_cast<int32_t>(i);
    }
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      const Word u = row[static_cast<size_t>(a)], v = row[static_cast<size_t>(b)];
      if (less(source->dtype, u, v)) return !descending;
      if (less(source->dtype, v, u)) return descending;
      return a < b;
    });
    const int64_t row_index = first / (size * distance), column = first % distance;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t to = (row_index * count + i) * distance + column;
      const int64_t from = order[static_cast<size_t>(i)];
      if (node->op == Op::kSort) {
        copy(node->dtype, result, to, x, first + from * distance);
      } else {
        write(node->dtype, result, to, from);
      }
    }
    return kOk;
  });
}

// The kernel itself on row-major operands, all at once.
Status run_foreign(Memory& memory, Node node, const void* const* sources, void* result) {
  const uop::Foreign& kernel = uop::foreign_of(node);
  const char* operands[uop::Foreign::kMostOperands];
  ptrdiff_t strides[uop::Foreign::kMostOperands];
  for (size_t i = 0; i < node->nsrc; ++i) {
    operands[i] = static_cast<const char*>(sources[i]);
    strides[i] = static_cast<ptrdiff_t>(element_bytes(node->src(i)->dtype));
  }
  char* const out = static_cast<char*>(result);
  if (kernel.form == uop::ForeignForm::kElements) {
    kernel.elements(kernel, out, static_cast<ptrdiff_t>(element_bytes(node->dtype)), operands,
                    strides, static_cast<size_t>(node->count()));
    return kOk;
  }
  const auto bytes = static_cast<size_t>(kernel.scratch_bytes);
  void* const scratch = memory.allocate(bytes, 64);
  if (scratch == nullptr) return out_of_memory(bytes);
  kernel.arrays(kernel, out, operands, scratch, node->arg(2), 0, kernel.tasks_of(node->arg(2)));
  memory.release(scratch, bytes, 64);
  return kOk;
}

// By src/flt, whose oracle is another library.
Status compute_wide(Memory& memory, Node node, const void* const* sources, void* result) {
  Vec<int64_t> words(memory);
  WidePlan plan;
  ASTER_TRY(plan_wide(&plan, &words, node, {}));
  void* operands[4] = {};
  for (size_t i = 0; i < node->nsrc; ++i) operands[i] = const_cast<void*>(sources[i]);
  operands[node->nsrc] = result;
  run_wide(plan, operands, 0, plan.tasks);
  return kOk;
}

}  // namespace

bool is_indexed(Node node) {
  const Op op = node->op;
  if (op == Op::kDot || (op == Op::kReduce && dtype::is_sticky(node->dtype))) return true;
  return op == Op::kGather || op == Op::kScatter || op == Op::kScan || op == Op::kScanPlace ||
         op == Op::kLogScan || op == Op::kArgsort || op == Op::kSort || op == Op::kForeign ||
         op == Op::kWide;
}

Status compute_indexed(Memory& memory, Node node, const void* const* sources, void* result) {
  if (computes_sticky(node)) return compute_sticky(memory, node, sources, result);
  switch (node->op) {
    case Op::kGather:
      return gather(node, sources, result), kOk;
    case Op::kScatter:
      return scatter(node, sources, result), kOk;
    case Op::kScan:
    case Op::kScanPlace:
      return scan(node, sources[0], result);
    case Op::kLogScan:
      return scan_logarithms(node, sources[0], result);
    case Op::kWide:
      return compute_wide(memory, node, sources, result);
    case Op::kForeign:
      return run_foreign(memory, node, sources, result);
    default:
      return sort(memory, node, sources[0], result);
  }
}

}  // namespace aster::runtime::reference
