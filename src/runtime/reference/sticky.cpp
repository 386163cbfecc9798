#include "runtime/reference/sticky.h"

#include <algorithm>

#include "dtype/sticky.h"
#include "runtime/reference/places.h"

namespace aster::runtime::reference {
namespace {

using dtype::Exact;
using uop::Dims;
using uop::Node;
using uop::Op;

// All that went into one result.
struct Exactly {
  dtype::StickySum sum;
  Exact magnitude = 1;  // of a product, at most kLarge
  int64_t least = INT64_MAX, greatest = INT64_MIN;
  bool error = false, negative = false, zero = false, any = false;

  static constexpr Exact kLarge = Exact{1} << 64;

  void take(Op op, int64_t value) {
    any = true;
    if (op == Op::kAdd) sum.add(value);
    if (op == Op::kMul) {
      const Exact size = value < 0 ? -Exact{value} : Exact{value};
      zero |= value == 0;
      negative ^= value < 0;
      if (value != 0) magnitude = magnitude > kLarge / size ? kLarge : magnitude * size;
    }
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  int64_t result(Op op, DType d) const {
    if (error) return dtype::sticky_error(d);
    if (op == Op::kAdd) return sum.checked(d);
    if (op == Op::kMul)
      return zero ? 0 : dtype::sticky_checked(d, negative ? -magnitude : magnitude);
    if (!any) return op == Op::kMax ? dtype::min_int(d) : dtype::sticky_most(d);
    return op == Op::kMax ? greatest : least;
  }
};

// Where in a row-major result of a reduction each element of its source goes.
class Targets {
 public:
  Targets(Node source, Node result) : shape_(source->shape()), counters_(shape_.size(), 0) {
    int64_t stride = 1;
    strides_ = Dims(shape_.size(), 0);
    for (size_t i = shape_.size(); i-- > 0;) {
      if (result->dim(i) == shape_[i]) strides_[i] = stride;
      stride *= result->dim(i);
    }
  }
  int64_t next() {
    int64_t at = 0;
    for (size_t i = 0; i < shape_.size(); ++i) at += counters_[i] * strides_[i];
    for (size_t i = shape_.size(); i-- > 0;) {
      if (++counters_[i] < shape_[i]) break;
      counters_[i] = 0;
    }
    return at;
  }

 private:
  const uop::Words shape_;
  Dims counters_, strides_;
};

void reduce(Exactly* parts, Node node, const void* const* sources) {
  const Node x = node->src(0);
  const int64_t error = dtype::sticky_error(x->dtype);
  Targets targets(x, node);
  for (int64_t i = 0; i < x->count(); ++i) {
    Exactly& part = parts[targets.next()];
    const int64_t a = read(x->dtype, sources[0], i);
    if (node->op == Op::kDot) {
      const int64_t b = read(x->dtype, sources[1], i);
      part.error |= a == error || b == error;
      part.sum.add(Exact{a} * b);
    } else {
      part.error |= a == error;
      part.take(static_cast<Op>(node->arg(0)), a);
    }
  }
}

void scatter(Exactly* parts, Node node, const void* const* sources) {
  const Op op = static_cast<Op>(node->arg(0));
  const Node value = node->src(1);
  const auto take = [&](int64_t to, const void* data, int64_t from) {
    const int64_t x = read(node->dtype, data, from);
    parts[to].error |= x == dtype::sticky_error(node->dtype);
    parts[to].take(op, x);
  };
  for (int64_t i = 0; i < node->count(); ++i) take(i, sources[0], i);
  Places places(node->shape(), value->shape(), node->arg().subspan(1), node->src().subspan(2),
                sources + 2);
  for (; places.element() < value->count(); places.next()) {
    const int64_t to = places.position();
    if (to >= 0) take(to, sources[1], places.element());
  }
}

}  // namespace

bool computes_sticky(Node node) {
  if (!dtype::is_sticky(node->dtype)) return false;
  return node->op == Op::kReduce || node->op == Op::kDot ||
         (node->op == Op::kScatter && node->arg(0) >= 0);
}

Status compute_sticky(Memory& memory, Node node, const void* const* sources, void* result) {
  Vec<Exactly> parts(memory);
  ASTER_TRY(parts.resize(static_cast<size_t>(node->count())));
  Op op = Op::kAdd;
  if (node->op == Op::kScatter) {
    op = static_cast<Op>(node->arg(0));
    scatter(parts.data(), node, sources);
  } else {
    if (node->op == Op::kReduce) op = static_cast<Op>(node->arg(0));
    reduce(parts.data(), node, sources);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    dtype::store_int(dtype::stored_as(node->dtype),
                     static_cast<char*>(result) + i * dtype::size(node->dtype),
                     parts[i].result(op, node->dtype));
  }
  return kOk;
}

}  // namespace aster::runtime::reference
