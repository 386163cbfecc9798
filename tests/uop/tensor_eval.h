// Values of small tensor graphs, element by element from the meanings of the operations: what rules
// are held against.
#pragma once

#include <bit>
#include <cmath>
#include <map>
#include <vector>

#include "uop/uop.h"

namespace aster::uop::test {

using Words64 = std::vector<Word>;
using Values = std::map<Node, Words64>;  // of leaves and of what is computed already

// Row-major strides.
inline Words64 strides_of(Words shape) {
  Words64 out(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) out[i - 1] = out[i] * shape[i];
  return out;
}

// The element of a movement node at `at`, read from its sources.
inline Word moved(Node n, const Words64& at, Values& values);

inline const Words64& values_of(Node n, Values& values) {
  if (auto found = values.find(n); found != values.end()) return found->second;
  for (size_t i = n->op == Op::kCall ? 1 : 0; i < n->nsrc; ++i) values_of(n->src(i), values);
  Words64 out;
  const size_t count = static_cast<size_t>(n->count());
  const Words64 strides = strides_of(n->shape());
  for (size_t flat = 0; flat < count; ++flat) {
    Words64 at(n->ndim);
    for (size_t i = 0; i < n->ndim; ++i) at[i] = static_cast<Word>(flat) / strides[i] % n->dim(i);
    if (is_const(n)) {
      out.push_back(n->arg(0));
    } else if (n->op == Op::kIota) {
      out.push_back(convert_word(static_cast<Word>(flat), DType::kInt64, n->dtype));
    } else if (n->op == Op::kCast || is_alu(n->op)) {
      Word words[3] = {};
      for (size_t i = 0; i < n->nsrc; ++i) words[i] = values.at(n->src(i))[flat];
      out.push_back(evaluate(n->op, n->src(n->nsrc - 1)->dtype, n->dtype, words));
    } else if (n->op == Op::kDetach || n->op == Op::kContiguous || n->op == Op::kReshape) {
      out.push_back(values.at(n->src(0))[flat]);
    } else {
      out.push_back(moved(n, at, values));
    }
  }
  return values[n] = out;
}

inline Word element(Node x, const Words64& at, Values& values) {
  const Words64 strides = strides_of(x->shape());
  Word flat = 0;
  for (size_t i = 0; i < at.size(); ++i) flat += at[i] * strides[i];
  return values.at(x).at(static_cast<size_t>(flat));
}

// What a reduction over nothing gives.
inline Word neutral(Op op, DType d) {
  const std::string name = info(op).name;
  if (name == "Mul") return convert_word(1, DType::kInt64, d);
  if (name == "And") return convert_word(-1, DType::kInt64, d);
  if (name != "Max" && name != "Min") return 0;
  const bool least = name == "Max";
  if (dtype::is_float(d)) return std::bit_cast<Word>(least ? -INFINITY * 1.0 : INFINITY * 1.0);
  return least ? dtype::min_int(d) : static_cast<Word>(dtype::max_int(d));
}

inline Word moved(Node n, const Words64& at, Values& values) {
  const Node x = n->src(0);
  Words64 from(x->ndim);
  const std::string name = info(n->op).name;
  if (name == "Expand") {
    for (size_t i = 0; i < from.size(); ++i) from[i] = x->dim(i) == 1 ? 0 : at[i];
  } else if (name == "Permute") {
    for (size_t i = 0; i < from.size(); ++i) from[static_cast<size_t>(n->arg(i))] = at[i];
  } else if (name == "Flip") {
    for (size_t i = 0; i < from.size(); ++i)
      from[i] = n->arg(i) != 0 ? x->dim(i) - 1 - at[i] : at[i];
  } else if (name == "Slice") {
    for (size_t i = 0; i < from.size(); ++i) from[i] = n->arg(2 * i) + at[i] * n->arg(2 * i + 1);
  } else if (name == "Pad") {
    for (size_t i = 0; i < from.size(); ++i) {
      const Word pitch = n->arg(3 * i + 2) + 1, inside = at[i] - n->arg(3 * i);
      from[i] = inside / pitch;
      if (inside < 0 || inside % pitch != 0 || from[i] >= x->dim(i)) return n->arg().back();
    }
  } else if (name == "Cat") {
    const size_t axis = static_cast<size_t>(n->arg(0));
    from = at;
    for (Node part : n->src()) {
      if (from[axis] < part->dim(axis)) return element(part, from, values);
      from[axis] -= part->dim(axis);
    }
  } else if (name == "Reduce") {
    // Every element of x that falls on `at`, in order.
    const Op op = static_cast<Op>(n->arg(0));
    const Words64 strides = strides_of(x->shape());
    bool first = true;
    Word total = 0;
    for (Word flat = 0; flat < x->count(); ++flat) {
      bool here = true;
      for (size_t i = 0; i < x->ndim; ++i) {
        const Word index = flat / strides[i] % x->dim(i);
        here &= index == at[i] || (n->dim(i) == 1 && x->dim(i) != 1);
      }
      if (!here) continue;
      const Word words[2] = {total, values.at(x)[static_cast<size_t>(flat)]};
      total = first ? words[1] : evaluate(op, n->dtype, n->dtype, words);
      first = false;
    }
    return first ? neutral(op, n->dtype) : total;
  } else {
    std::fprintf(stderr, "moved: %s\n", name.c_str());
    std::abort();
  }
  return element(x, from, values);
}

}  // namespace aster::uop::test
