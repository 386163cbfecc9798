#include "fuzz/naive.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "dtype/convert.h"
#include "uop/composite.h"

namespace aster::fuzz {
namespace {

using uop::Word;
using Values = std::vector<Word>;  // canonical words, row-major

Word load(DType dtype, const unsigned char* at) {
  if (dtype::is_float(dtype)) return std::bit_cast<Word>(dtype::load_double(dtype, at));
  const Word word = dtype::load_int(dtype, at);
  return dtype == DType::kBool ? word != 0 : word;
}

void store(DType dtype, Word word, unsigned char* at) {
  if (dtype::is_float(dtype)) {
    dtype::store_double(dtype, at, std::bit_cast<double>(word));
  } else {
    dtype::store_int(dtype, at, word);
  }
}

Shape coordinates(int64_t position, uop::Words shape) {
  Shape out(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    out[i] = position % shape[i];
    position /= shape[i];
  }
  return out;
}

int64_t position(const Shape& at, uop::Words shape) {
  int64_t out = 0;
  for (size_t i = 0; i < shape.size(); ++i) out = out * shape[i] + at[i];
  return out;
}

// The position in the source that a movement reads for one of its own, or -1: the fill.
int64_t moved(Node node, int64_t at) {
  const Node source = node->src(0);
  const Shape y = coordinates(at, node->shape());
  if (node->op == Op::kReshape) return at;
  Shape x(source->ndim);
  const size_t axis = node->narg > 0 ? static_cast<size_t>(node->arg(0)) : 0;
  for (size_t i = 0; i < x.size(); ++i) {
    switch (node->op) {
      case Op::kExpand:
        x[i] = source->dim(i) == 1 ? 0 : y[i];
        break;
      case Op::kPermute:
        x[static_cast<size_t>(node->arg(i))] = y[i];
        break;
      case Op::kFlip:
        x[i] = node->arg(i) != 0 ? source->dim(i) - 1 - y[i] : y[i];
        break;
      case Op::kSlice:
        x[i] = node->arg(2 * i) + y[i] * node->arg(2 * i + 1);
        break;
      case Op::kPad: {
        const int64_t inside = y[i] - node->arg(3 * i), gap = node->arg(3 * i + 2) + 1;
        if (inside < 0 || inside % gap != 0 || inside / gap >= source->dim(i)) return -1;
        x[i] = inside / gap;
        break;
      }
      case Op::kWindow:
        x[i] = i < axis    ? y[i]
               : i == axis ? y[i] * node->arg(1) + y[i + 1] * node->arg(2)
                           : y[i + 1];
        break;
      case Op::kUnwindow: {
        x[i] = y[i];
        if (i != axis) break;
        const int64_t inside = y[i] - y[i + 1] * node->arg(2);
        if (inside < 0 || inside % node->arg(1) != 0) return -1;
        x[i] = inside / node->arg(1);
        if (x[i] >= source->dim(i)) return -1;
        break;
      }
      default:
        return -1;
    }
  }
  return position(x, source->shape());
}

// Operations that no runtime has to round correctly.
bool is_function(Op op) {
  switch (op) {
    case Op::kExp:
    case Op::kExp2:
    case Op::kLog:
    case Op::kLog2:
    case Op::kSin:
    case Op::kCos:
    case Op::kTanh:
    case Op::kErf:
    case Op::kPow:
      return true;
    default:
      return false;
  }
}

// Two values of the dtype up or down.
Word nudged(DType dtype, Word word, size_t i) {
  uint64_t code = 0;
  unsigned char bytes[8] = {};
  store(dtype, word, bytes);
  std::memcpy(&code, bytes, sizeof(code));
  const uint64_t sign = uint64_t{1} << (dtype::bits(dtype) - 1);
  if ((code & (sign - 1)) < 4) return word;
  code = i % 2 == 0 ? code + 2 : code - 2;
  std::memcpy(bytes, &code, sizeof(code));
  return load(dtype, bytes);
}

class Naive {
 public:
  Naive(Case& c, bool loose) : case_(c), loose_(loose) {}

  bool run(Answer* answer) {
    *answer = Answer{};
    for (Node root : case_.roots) answer->roots.push_back(bytes(root));
    answer->memory = case_.memory;
    Vec<Node> order(process_heap());
    if (!uop::toposort(&order, case_.roots).ok()) return false;
    for (Node node : order) {
      if (node->op == Op::kAssign) write(node, answer->memory);
    }
    return true;
  }

 private:
  const Values& of(Node node) {
    const auto found = values_.find(node);
    if (found != values_.end()) return found->second;
    return values_[node] = compute(node);
  }

  Bytes bytes(Node node) {
    const size_t size = dtype::size(node->dtype);
    const Values& values = of(node);
    Bytes out(values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) store(node->dtype, values[i], &out[i * size]);
    return out;
  }

  // The leaf that a view shows, and for each element of it where it lies there, -1 for nowhere.
  static std::vector<int64_t> places(Node view, Node* base) {
    std::vector<int64_t> out(static_cast<size_t>(view->count()));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(i);
    while (view->op != Op::kBuffer) {
      if (uop::is_movement(view->op)) {
        for (int64_t& at : out) at = at < 0 ? -1 : moved(view, at);
      }
      view = view->src(0);
    }
    *base = view;
    return out;
  }

  const Leaf& leaf_of(Node node) { return *std::ranges::find(case_.leaves, node, &Leaf::node); }

  void write(Node assign, std::vector<Bytes>& memory) {
    Node base;
    const std::vector<int64_t> at = places(assign->src(0), &base);
    const Values& value = of(assign->src(1));
    const Leaf& leaf = leaf_of(base);
    const size_t size = dtype::size(base->dtype);
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] < 0) continue;
      store(base->dtype, value[i],
            &memory[leaf.memory][leaf.offset + static_cast<size_t>(at[i]) * size]);
    }
  }

  Values loaded(Node leaf, const std::vector<Bytes>& memory) {
    const Bytes bytes = contents(memory, leaf_of(leaf));
    const size_t size = dtype::size(leaf->dtype);
    Values out(bytes.size() / size);
    for (size_t i = 0; i < out.size(); ++i) out[i] = load(leaf->dtype, &bytes[i * size]);
    return out;
  }

  Values after(Node node) {
    Node base;
    const std::vector<int64_t> at = places(node, &base);
    std::vector<Bytes> memory = case_.memory;
    Vec<Node> order(process_heap());
    if (!uop::toposort(&order, std::array{node}).ok()) return {};
    for (Node below : order) {
      if (below->op == Op::kAssign) write(below, memory);
    }
    const Values now = loaded(base, memory);
    Values out;
    for (int64_t place : at) out.push_back(now[static_cast<size_t>(place)]);
    return out;
  }

  Values compute(Node node) {
    const size_t count = static_cast<size_t>(node->count());
    Values out(count);
    const Op op = node->op;
    if (op == Op::kCall) {
      Node body = nullptr;
      return uop::inline_call(&body, *case_.graph, node).ok() ? of(body) : out;
    }
    if (op == Op::kConst) return Values(count, node->arg(0));
    if (op == Op::kBuffer) return loaded(node, case_.memory);
    if (op == Op::kIota) {
      for (size_t i = 0; i < count; ++i) {
        out[i] = uop::convert_word(static_cast<Word>(i), DType::kInt64, node->dtype);
      }
      return out;
    }
    if (op == Op::kAfter) return after(node);
    if (op == Op::kAssign) return of(node->src(1));
    if (op == Op::kContiguous || op == Op::kDetach) return of(node->src(0));
    if (op == Op::kForeign) return foreign(node);
    if (op == Op::kReduce) return reduce(node);
    if (op == Op::kCat) return cat(node);
    if (op == Op::kGather) return gather(node);
    if (op == Op::kScatter) return scatter(node);
    if (op == Op::kScan || op == Op::kScanPlace || op == Op::kLogScan) return scan(node);
    if (op == Op::kArgsort || op == Op::kSort) return sort(node);
    if (uop::is_movement(op)) {
      const Values& x = of(node->src(0));
      const Word fill = op == Op::kPad ? node->arg(node->narg - 1) : 0;
      for (size_t i = 0; i < count; ++i) {
        const int64_t at = moved(node, static_cast<int64_t>(i));
        out[i] = at < 0 ? fill : x[static_cast<size_t>(at)];
      }
      return out;
    }
    const DType operand = node->src(node->nsrc - 1)->dtype;
    std::vector<Values> x;
    for (Node source : node->src()) x.push_back(of(source));
    for (size_t i = 0; i < count; ++i) {
      if (op == Op::kBitcast) {
        unsigned char bits[8];
        store(operand, x[0][i], bits);
        out[i] = load(node->dtype, bits);
        continue;
      }
      Word words[3] = {};
      for (size_t k = 0; k < x.size(); ++k) words[k] = x[k][i];
      out[i] = uop::evaluate(op, operand, node->dtype, words);
      if (loose_ && is_function(op)) out[i] = nudged(node->dtype, out[i], i);
    }
    return out;
  }

  Values foreign(Node node) {
    const Values x = of(node->src(0));
    if (node->nsrc == 1) return Values(x.rbegin(), x.rend());
    const Values y = of(node->src(1));
    Values out(x.size());
    for (size_t i = 0; i < out.size(); ++i) {
      const Word words[3] = {x[i], y[i], 0};
      out[i] = uop::evaluate(Op::kMax, node->dtype, node->dtype, words);
    }
    return out;
  }

  Values cat(Node node) {
    const size_t axis = static_cast<size_t>(node->arg(0));
    Values out(static_cast<size_t>(node->count()));
    int64_t start = 0;
    for (Node source : node->src()) {
      const Values& x = of(source);
      for (size_t i = 0; i < x.size(); ++i) {
        Shape at = coordinates(static_cast<int64_t>(i), source->shape());
        at[axis] += start;
        out[static_cast<size_t>(position(at, node->shape()))] = x[i];
      }
      start += source->dim(axis);
    }
    return out;
  }

  // Where element `at` of the shape `from` leads, or -1: indices from source `first` on.
  int64_t led(Node node, size_t first, uop::Words coordinate, uop::Words into, uop::Words from,
              size_t at) {
    const Shape y = coordinates(static_cast<int64_t>(at), from);
    Shape x(into.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const Word c = coordinate[i];
      x[i] = c >= 0 ? y[static_cast<size_t>(c)]
                    : of(node->src(first + static_cast<size_t>(-c) - 1))[at];
      if (x[i] < 0 || x[i] >= into[i]) return -1;
    }
    return position(x, into);
  }

  Values gather(Node node) {
    const Node source = node->src(0);
    Values out(static_cast<size_t>(node->count()));
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t at = led(node, 1, node->arg(), source->shape(), node->shape(), i);
      if (at >= 0) out[i] = of(source)[static_cast<size_t>(at)];
    }
    return out;
  }

  Values scatter(Node node) {
    const Node value = node->src(1);
    Values out = of(node->src(0));
    for (size_t i = 0; i < of(value).size(); ++i) {
      const int64_t at = led(node, 2, node->arg().subspan(1), node->shape(), value->shape(), i);
      if (at < 0) continue;
      Word& to = out[static_cast<size_t>(at)];
      const Word words[3] = {to, of(value)[i], 0};
      to = node->arg(0) < 0
               ? words[1]
               : uop::evaluate(static_cast<Op>(node->arg(0)), node->dtype, node->dtype, words);
    }
    return out;
  }

  // Each element from all that its scan has met.
  Values scan(Node node) {
    const bool logarithms = node->op == Op::kLogScan, places = node->op == Op::kScanPlace;
    const size_t first = logarithms ? 0 : 1;
    const size_t axis = static_cast<size_t>(node->arg(first));
    const bool reverse = !places && node->arg(first + 1) != 0;
    const DType dtype = node->src(0)->dtype;
    const bool wide = (loose_ || logarithms) && dtype::is_float(dtype);
    const DType sums = wide                            ? DType::kFloat64
                       : dtype::is_narrow_float(dtype) ? DType::kFloat32
                                                       : dtype;
    const Values& x = of(node->src(0));
    Values out(x.size());
    for (size_t i = 0; i < out.size(); ++i) {
      Shape at = coordinates(static_cast<int64_t>(i), node->shape());
      Values met;
      const int64_t last = at[axis], end = node->dim(axis) - 1;
      for (int64_t k = reverse ? end - last : last; k >= 0; --k) {  // the nearest last
        at[axis] = reverse ? last + k : last - k;
        met.push_back(x[static_cast<size_t>(position(at, node->shape()))]);
      }
      if (logarithms) {
        double sum = 0, most = -INFINITY;
        for (Word word : met) most = std::max(most, std::bit_cast<double>(word));
        for (Word word : met) sum += std::exp(std::bit_cast<double>(word) - most);
        out[i] = uop::convert_word(std::bit_cast<Word>(most + std::log(sum)), sums, dtype);
        continue;
      }
      Word words[3] = {met[0], 0, 0}, place = 0;
      for (size_t k = 1; k < met.size(); ++k) {
        words[1] = met[k];
        const Word y = uop::evaluate(static_cast<Op>(node->arg(0)), sums, sums, words);
        if (y != words[0]) place = static_cast<Word>(k);
        words[0] = y;
      }
      out[i] = places ? place : uop::convert_word(words[0], sums, dtype);
    }
    return out;
  }

  // Each element's place: how many of its axis come before it. Argsort has its position there.
  Values sort(Node node) {
    const Node source = node->src(0);
    const size_t axis = static_cast<size_t>(node->arg(0));
    const Values& x = of(source);
    const auto less = [&](Word a, Word b) {
      const Word words[3] = {a, b, 0};
      return uop::evaluate(Op::kCmpLt, source->dtype, DType::kBool, words) != 0;  // no NaN here
    };
    Values out(static_cast<size_t>(node->count()));
    for (size_t i = 0; i < x.size(); ++i) {
      Shape at = coordinates(static_cast<int64_t>(i), source->shape());
      const int64_t self = at[axis];
      int64_t place = 0;
      for (at[axis] = 0; at[axis] < source->dim(axis); ++at[axis]) {
        const Word other = x[static_cast<size_t>(position(at, source->shape()))];
        const bool before = node->arg(1) != 0 ? less(x[i], other) : less(other, x[i]);
        const bool after = node->arg(1) != 0 ? less(other, x[i]) : less(x[i], other);
        place += before || (!after && at[axis] < self);
      }
      at[axis] = place;
      if (place < node->dim(axis)) {
        out[static_cast<size_t>(position(at, node->shape()))] = node->op == Op::kSort ? x[i] : self;
      }
    }
    return out;
  }

  // In float64 or int64, rounded once.
  Values reduce(Node node) {
    const Op op = static_cast<Op>(node->arg(0));
    const Node source = node->src(0);
    const Values& x = of(source);
    const bool real = dtype::is_float(node->dtype);
    const DType wide = real ? (loose_ ? node->dtype : DType::kFloat64)
                       : node->dtype == DType::kUInt64 || node->dtype == DType::kBool
                           ? node->dtype
                           : DType::kInt64;
    Values out(static_cast<size_t>(node->count()));
    std::vector<bool> begun(out.size());
    for (size_t n = 0; n < x.size(); ++n) {
      const size_t i = loose_ ? x.size() - 1 - n : n;
      Shape at = coordinates(static_cast<int64_t>(i), source->shape());
      for (size_t k = 1; k < node->narg; ++k) at[static_cast<size_t>(node->arg(k))] = 0;
      const size_t to = static_cast<size_t>(position(at, node->shape()));
      const Word words[3] = {out[to], x[i], 0};
      out[to] = begun[to] ? uop::evaluate(op, wide, wide, words) : x[i];
      begun[to] = true;
    }
    for (Word& word : out) word = uop::convert_word(word, wide, node->dtype);
    return out;
  }

  Case& case_;
  bool loose_;
  std::map<Node, Values> values_;
};

}  // namespace

bool run_naive(Case& c, Answer* answer) { return Naive(c, false).run(answer); }
bool run_loose(Case& c, Answer* answer) { return Naive(c, true).run(answer); }

}  // namespace aster::fuzz
