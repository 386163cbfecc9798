// The generator. Floats stay of moderate size, functions are called where they are
// well-conditioned, and what jumps (rounding, comparison, conversion to integers) is done to exact
// values only.
#include "fuzz/random_graph.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dtype/convert.h"
#include "fuzz/foreign.h"
#include "uop/composite.h"

namespace aster::fuzz {
namespace {

constexpr double kMost = 64;  // larger floats are scaled down

class Generator {
 public:
  Generator(uint64_t seed, const Options& options)
      : options_(options), random_(seed), bounds_(case_) {
    case_.seed = seed;
    case_.graph = std::make_unique<Graph>(process_heap());
  }

  Case make() {
    const int64_t leaves = options_.overlaps ? pick(3, 6) : pick(1, 4);
    for (int64_t i = 0; i < leaves; ++i) (void)keep(leaf(some_dtype(), some_shape()));
    for (int i = 0; i < options_.operations; ++i) step();
    choose_roots();
    return std::move(case_);
  }

 private:
  Graph& g() { return *case_.graph; }
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool chance(int percent) { return pick(0, 99) < percent; }
  template <typename T>
  const T& one_of(const std::vector<T>& values) {
    return values[static_cast<size_t>(pick(0, static_cast<int64_t>(values.size()) - 1))];
  }
  static bool real(Node x) { return dtype::is_float(x->dtype); }
  static uop::Words words(const Shape& shape) { return shape; }

  DType some_dtype() {
    // Few, so that leaves can lie in each other's memory.
    if (options_.overlaps && chance(80)) return chance(60) ? DType::kInt32 : DType::kFloat32;
    static const std::vector<DType> kInts = {DType::kInt8,   DType::kUInt8, DType::kInt16,
                                             DType::kUInt16, DType::kInt32, DType::kUInt32,
                                             DType::kInt64,  DType::kUInt64};
    static const std::vector<DType> kNarrow = {DType::kFloat16, DType::kBFloat16, DType::kFp8E4M3,
                                               DType::kFp8E5M2};
    const int64_t die = options_.floats ? pick(0, 99) : pick(65, 99);
    if (die < 45) return DType::kFloat32;
    if (die < 55) return DType::kFloat64;
    if (die < 65 && options_.narrow_floats) return one_of(kNarrow);
    if (die < 72) return DType::kBool;
    return die < 85 ? DType::kInt32 : one_of(kInts);
  }

  Shape some_shape() {
    Shape shape(static_cast<size_t>(pick(0, 4)));
    int64_t room = options_.elements;
    for (int64_t& dim : shape) {
      dim = chance(15)
                ? 1
                : pick(1, std::max<int64_t>(1, std::min<int64_t>(room, chance(10) ? 67 : 7)));
      room /= dim;
    }
    return shape;
  }

  Node leaf(DType dtype, const Shape& shape) {
    const int64_t slot = static_cast<int64_t>(case_.leaves.size());
    Node node = g().make(Op::kBuffer, dtype, {}, std::array{slot}, shape);
    const Leaf leaf = placed(node);
    case_.leaves.push_back(leaf);
    // What was written there before it was made.
    Node current = node;
    for (const auto& [written, assign] : writes_) {
      if (overlap(written, leaf)) current = g().after(current, std::array{assign});
    }
    current_.push_back(current);
    return node;
  }

  // In memory of its own, or in one that has its dtype.
  Leaf placed(Node node) {
    const int64_t size = static_cast<int64_t>(dtype::size(node->dtype)), count = node->count();
    const auto room = [&](size_t memory) {
      return static_cast<int64_t>(case_.memory[memory].size()) / size - count;
    };
    for (int tries = options_.overlaps && chance(75) ? 4 : 0; tries > 0 && !dtypes_.empty();
         --tries) {
      const size_t i = static_cast<size_t>(pick(0, static_cast<int64_t>(dtypes_.size()) - 1));
      if (dtypes_[i] != node->dtype || room(i) < 0) continue;
      return {node, i, static_cast<size_t>(pick(0, room(i)) * size)};
    }
    const int64_t more = options_.overlaps ? pick(0, options_.elements / 4) : 0;
    case_.memory.push_back(values(node->dtype, count + more));
    dtypes_.push_back(node->dtype);
    return {node, case_.memory.size() - 1, static_cast<size_t>(pick(0, more) * size)};
  }

  Bytes values(DType dtype, int64_t count) {
    const size_t size = dtype::size(dtype);
    Bytes bytes(static_cast<size_t>(count) * size);
    // Multiples of 1/8, or of what the dtype still tells apart up to 4.
    const double unit = dtype == DType::kFp8E4M3 ? 0.5 : dtype == DType::kFp8E5M2 ? 1 : 0.125;
    const bool wild = chance(30);
    for (size_t i = 0; i < bytes.size(); i += size) {
      if (dtype::is_float(dtype)) {
        const int64_t most = static_cast<int64_t>(4 / unit);
        dtype::store_double(dtype, &bytes[i], unit * static_cast<double>(pick(-most, most)));
      } else if (dtype == DType::kBool) {
        bytes[i] = static_cast<unsigned char>(pick(0, 1));
      } else {
        dtype::store_int(dtype, &bytes[i], wild ? static_cast<int64_t>(random_()) : pick(-9, 20));
      }
    }
    return bytes;
  }

  // Adds to what later steps choose from, scaled if it has grown. Returns what was added.
  Node keep(Node x) {
    if (x == nullptr) return nullptr;
    if (real(x)) {
      const Bound bound = bounds_.of(x);
      if (!(bound.most <= 1e12) || bound.error > 0.01 * std::max(1.0, bound.most)) return nullptr;
      if (bound.most > kMost) {
        const double scale = std::exp2(-std::ceil(std::log2(bound.most / 4)));
        if (scale < 1e-2 && dtype::bits(x->dtype) < 32) return nullptr;
        x = g().alu(Op::kMul, x, g().constant(x->dtype, scale, x->shape()));
      }
    }
    pool_.push_back(x);
    return x;
  }

  Node any() {
    // Later values more often, so that graphs are deep.
    const int64_t last = static_cast<int64_t>(pool_.size()) - 1;
    return pool_[static_cast<size_t>(chance(60) ? pick(std::max<int64_t>(0, last - 4), last)
                                                : pick(0, last))];
  }
  Node any_real() {
    if (!options_.floats) return any_integer();
    for (int i = 0; i < 8; ++i) {
      if (Node x = any(); real(x)) return x;
    }
    return keep(leaf(DType::kFloat32, some_shape()));
  }
  Node any_integer() {
    for (int i = 0; i < 8; ++i) {
      if (Node x = any(); !real(x)) return x;
    }
    return keep(leaf(DType::kInt32, some_shape()));
  }

  // x, or values made from it, in another dtype; nil where rounding could turn the answer.
  Node as(Node x, DType dtype) {
    if (x->dtype == dtype) return x;
    if (!real(x) && dtype::is_float(dtype) && x->dtype != DType::kBool) {
      x = g().alu(Op::kAnd, x, g().constant_int(x->dtype, 15, x->shape()));
    }
    if (real(x) && !dtype::is_float(dtype) && !bounds_.of(x).exact()) return nullptr;
    return g().cast(x, dtype);
  }

  Node flat(Node x) { return g().reshape(x, Shape{x->count()}); }

  // Values of x in another shape.
  Node shaped(Node x, const Shape& shape) {
    int64_t count = 1;
    for (int64_t dim : shape) count *= dim;
    if (x->count() == count) return g().reshape(x, shape);
    if (x->count() == 1) return g().expand(g().reshape(x, Shape(shape.size(), 1)), shape);
    // One axis of the shape, repeated along the others.
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] != x->count()) continue;
      Shape ones(shape.size(), 1);
      ones[i] = shape[i];
      return g().expand(g().reshape(x, ones), shape);
    }
    if (x->count() > count) {
      const int64_t start = pick(0, x->count() - count);
      return g().reshape(g().slice(flat(x), Shape{start}, Shape{1}, Shape{count}), shape);
    }
    const int64_t before = pick(0, count - x->count());
    Node padded =
        g().pad(flat(x), Shape{before}, Shape{count - x->count() - before}, Shape{0}, fill_of(x));
    return g().reshape(padded, shape);
  }

  uop::Word fill_of(Node x) {
    const int64_t value =
        x->dtype == DType::kBool || dtype::is_unsigned(x->dtype) ? pick(0, 1) : pick(-2, 2);
    return real(x) ? std::bit_cast<uop::Word>(static_cast<double>(value)) : value;
  }

  // A second operand for x.
  Node beside(Node x) {
    const Shape shape(x->shape().begin(), x->shape().end());
    if (chance(15)) {
      const int64_t value = x->dtype == DType::kBool ? pick(0, 1) : pick(1, 3);
      return g().constant_int(x->dtype, value, shape);
    }
    Node y = as(any(), x->dtype);
    if (y == nullptr) y = leaf(x->dtype, shape);
    return shaped(y, shape);
  }

  void step() {
    if (options_.overlaps && options_.assigns && chance(25)) return assign();
    const int64_t die = pick(0, 99);
    if (die < 22 && options_.floats) return (void)keep(real_step(any_real()));
    if (die < 40) return (void)keep(integer_step(any_integer()));
    if (die < 46) return (void)keep(select(any()));
    if (die < 52) return (void)keep(as(any(), some_dtype()));
    if (die < 72) return (void)keep(movement(any()));
    if (die < 80) return (void)keep(indexed(any()));
    if (die < 88) return (void)keep(reduction(any()));
    if (die < 90) return (void)keep(chance(50) ? g().contiguous(any()) : g().detach(any()));
    if (die < 92) return (void)keep(foreign(any()));
    if (die < 94 && options_.calls && options_.floats) return (void)keep(call());
    if (die < 98 && options_.assigns) return assign();
    if (chance(50)) return (void)keep(leaf(some_dtype(), some_shape()));
    const bool integers = !options_.floats || some_dtype() == DType::kInt32;
    (void)keep(g().iota(integers ? DType::kInt32 : DType::kFloat32, pick(1, 30)));
  }

  // By a kernel that is not the library's.
  Node foreign(Node x) {
    x = as(x, real(x) ? DType::kFloat32 : DType::kInt32);
    if (x == nullptr) return nullptr;
    if (chance(50))
      return g().foreign(larger_of(x->dtype), x->dtype, x->shape(), 0, std::array{x, beside(x)});
    return g().foreign(turned_around(), x->dtype, x->shape(), x->count(), std::array{x});
  }

  Node number(Node x, double value) { return g().constant(x->dtype, value, x->shape()); }
  // |x| + 1
  Node above_one(Node x) { return g().alu(Op::kAdd, g().alu(Op::kAbs, x), number(x, 1)); }
  // x within [-2, 2]
  Node clamped(Node x) {
    return g().alu(Op::kMax, g().alu(Op::kMin, x, number(x, 2)), number(x, -2));
  }

  Node real_step(Node x) {
    static const std::vector<Op> kSimple = {Op::kNeg, Op::kAbs,  Op::kSin,
                                            Op::kCos, Op::kTanh, Op::kErf};
    static const std::vector<Op> kAboveOne = {Op::kSqrt, Op::kLog, Op::kLog2, Op::kRecip};
    static const std::vector<Op> kExponential = {Op::kExp, Op::kExp2};
    static const std::vector<Op> kJumps = {Op::kTrunc, Op::kFloor, Op::kCeil, Op::kRound};
    static const std::vector<Op> kTwo = {Op::kAdd, Op::kSub, Op::kMul, Op::kMax, Op::kMin};
    switch (pick(0, 9)) {
      case 0:
        return g().alu(one_of(kSimple), x);
      case 1:
        return g().alu(one_of(kAboveOne), above_one(x));
      case 2:
        return g().alu(one_of(kExponential), clamped(x));
      case 3:
        if (bounds_.of(x).exact()) return g().alu(one_of(kJumps), x);
        return g().alu(Op::kAbs, x);
      case 4:
        return g().alu(Op::kDiv, x, above_one(beside(x)));
      case 5: {
        Node base = g().alu(Op::kMin, above_one(x), number(x, 5));
        return g().alu(Op::kPow, base, clamped(beside(x)));
      }
      case 6:
        return g().alu(Op::kMulAcc, x, beside(x), beside(x));
      default:
        return g().alu(one_of(kTwo), x, beside(x));
    }
  }

  Node integer_step(Node x) {
    static const std::vector<Op> kBits = {Op::kAnd, Op::kOr, Op::kXor};
    static const std::vector<Op> kTwo = {
        Op::kAdd, Op::kSub,      Op::kMul,      Op::kMax, Op::kMin, Op::kCDiv, Op::kCMod,
        Op::kAnd, Op::kFloorDiv, Op::kFloorMod, Op::kOr,  Op::kXor, Op::kShl,  Op::kShr};
    static const std::vector<Op> kOne = {Op::kNeg, Op::kNot, Op::kAbs};
    if (x->dtype == DType::kBool) {
      return chance(20) ? g().alu(Op::kNot, x) : g().alu(one_of(kBits), x, beside(x));
    }
    if (chance(20)) return g().alu(one_of(kOne), x);
    if (chance(8)) return g().alu(Op::kMulAcc, x, beside(x), beside(x));
    if (chance(6)) return bits(x);
    if (x->dtype == DType::kInt32 && chance(20)) return g().alu(Op::kPairDot, x, beside(x));
    if (x->dtype == DType::kInt32 && chance(20))
      return g().alu(Op::kQuadDot, x, beside(x), beside(x));
    if (x->dtype == DType::kUInt64 && chance(50)) return g().alu(Op::kThreefry, x, beside(x));
    return g().alu(one_of(kTwo), x, beside(x));
  }

  Node bits(Node x) {
    const size_t width = dtype::bits(x->dtype);
    const DType other = width == 8    ? DType::kInt8
                        : width == 16 ? DType::kInt16
                        : width == 32 ? DType::kUInt32
                                      : DType::kInt64;
    return g().bitcast(x, other);
  }

  Node select(Node x) {
    static const std::vector<Op> kCompare = {Op::kCmpLt, Op::kCmpLe, Op::kCmpEq, Op::kCmpNe};
    Node other = beside(x);
    const bool exact = !real(x) || (bounds_.of(x).exact() && bounds_.of(other).exact());
    if (exact && chance(50)) return g().alu(one_of(kCompare), x, other);
    Node condition = as(any_integer(), DType::kBool);
    return g().alu(Op::kWhere, shaped(condition, Shape(x->shape().begin(), x->shape().end())), x,
                   other);
  }

  Node movement(Node x) {
    const size_t n = x->ndim;
    const bool room = x->count() * 3 <= options_.elements * 2;
    Shape a(n), b(n), c(n), shape(x->shape().begin(), x->shape().end());
    const int64_t axis = n > 0 ? pick(0, static_cast<int64_t>(n) - 1) : 0;
    const int64_t dim = n > 0 ? shape[static_cast<size_t>(axis)] : 1;
    switch (n == 0 ? 0 : pick(0, 8)) {
      case 0:
        return reshaped(x);
      case 1: {  // repeat a new axis
        if (!room) return reshaped(x);
        shape.insert(shape.begin() + pick(0, static_cast<int64_t>(n)), 1);
        Node y = g().reshape(x, shape);
        for (int64_t& d : shape) d = d == 1 && chance(60) ? pick(1, 3) : d;
        return g().expand(y, shape);
      }
      case 2:
        for (size_t i = 0; i < n; ++i) a[i] = static_cast<int64_t>(i);
        std::shuffle(a.begin(), a.end(), random_);
        return g().permute(x, a);
      case 3:
        for (int64_t& flip : a) flip = pick(0, 1);
        return g().flip(x, a);
      case 4:
        return sliced(x);
      case 5:
        for (size_t i = 0; i < n; ++i) {
          a[i] = room ? pick(0, 2) : 0;
          b[i] = pick(0, 1);
          c[i] = room && chance(30) ? pick(0, 2) : 0;
        }
        return g().pad(x, a, b, c, fill_of(x));
      case 6: {
        const int64_t dilation = pick(1, 2),
                      kernel = std::min(pick(1, 3), (dim - 1) / dilation + 1);
        return room ? g().window(x, axis, kernel, pick(1, 3), dilation) : x;
      }
      case 7: {
        if (!room || axis + 1 >= static_cast<int64_t>(n)) return sliced(x);
        const int64_t stride = pick(1, 2), dilation = pick(1, 2);
        const int64_t kernel = shape[static_cast<size_t>(axis) + 1];
        return g().unwindow(x, axis, (dim - 1) * stride + (kernel - 1) * dilation + 1 + pick(0, 2),
                            stride, dilation);
      }
      default: {
        if (!room) return sliced(x);
        std::vector<Node> parts = {x, beside(x)};
        if (chance(30)) parts.push_back(sliced_along(x, axis));
        return g().cat(parts, axis);
      }
    }
  }

  Node reshaped(Node x) {
    Shape shape(static_cast<size_t>(pick(1, 4)), 1);
    int64_t rest = x->count();
    for (int64_t p = 2; rest > 1; ++p) {
      for (; rest % p == 0; rest /= p)
        shape[static_cast<size_t>(pick(0, static_cast<int64_t>(shape.size()) - 1))] *= p;
    }
    return g().reshape(x, shape);
  }

  Node sliced(Node x) {
    Shape start(x->ndim), step(x->ndim), size(x->ndim);
    for (size_t i = 0; i < x->ndim; ++i) {
      start[i] = chance(50) ? 0 : pick(0, x->dim(i) - 1);
      step[i] = chance(70) ? 1 : pick(1, 3);
      size[i] = (x->dim(i) - start[i] - 1) / step[i] + 1;
      if (chance(30)) size[i] = pick(1, size[i]);
    }
    return g().slice(x, start, step, size);
  }
  Node sliced_along(Node x, int64_t axis) {
    Shape start(x->ndim, 0), step(x->ndim, 1), size(x->shape().begin(), x->shape().end());
    size[static_cast<size_t>(axis)] = pick(1, size[static_cast<size_t>(axis)]);
    return g().slice(x, start, step, size);
  }

  Node reduction(Node x) {
    if (x->ndim == 0) x = reshaped(x);
    Shape axes;
    for (int64_t i = 0; i < x->ndim; ++i) {
      if (chance(50)) axes.push_back(i);
    }
    if (axes.empty()) axes.push_back(x->ndim - 1);
    if (x->dtype == DType::kBool) {
      static const std::vector<Op> kBool = {Op::kMax, Op::kMin, Op::kAnd, Op::kOr};
      return g().reduce(one_of(kBool), x, axes);
    }
    static const std::vector<Op> kReal = {Op::kAdd, Op::kAdd, Op::kAdd, Op::kMax, Op::kMin};
    static const std::vector<Op> kInteger = {Op::kAdd, Op::kMul, Op::kMax,
                                             Op::kMin, Op::kAnd, Op::kOr};
    if (!real(x)) return g().reduce(one_of(kInteger), x, axes);
    if (chance(12)) {  // a product of values near 1
      Node near = g().alu(Op::kDiv, x, number(x, std::max(1.0, 8 * bounds_.of(x).most)));
      return g().reduce(Op::kMul, g().alu(Op::kAdd, near, number(x, 1)), axes);
    }
    return g().reduce(one_of(kReal), x, axes);
  }

  // Indices of which some are counted from the end.
  Node from_end(Node index, int64_t dim) {
    if (dtype::is_unsigned(index->dtype)) return index;
    const auto like = [&](int64_t c) { return g().constant_int(index->dtype, c, index->shape()); };
    index = g().alu(Op::kSub, index, like(dim / 2));
    return g().alu(Op::kWhere, g().alu(Op::kCmpLt, index, like(0)),
                   g().alu(Op::kAdd, index, like(dim)), index);
  }
  // The indices of a slice along one axis, or of one place; may go beyond the end.
  Node slice_of(const Shape& at, int64_t dim) {
    const auto like = [&](int64_t c) { return g().constant_int(DType::kInt32, c, at); };
    const Node start = like(pick(0, std::max<int64_t>(dim, 1) - 1));
    if (at.empty() || chance(30)) return start;
    const size_t axis = static_cast<size_t>(pick(0, static_cast<int64_t>(at.size()) - 1));
    Shape along(at.size(), 1);
    along[axis] = at[axis];
    const Node steps = g().expand(g().reshape(g().iota(DType::kInt32, at[axis]), along), at);
    return g().alu(Op::kAdd, g().alu(Op::kMul, steps, like(pick(1, 2))), start);
  }

  // How positions of the shape `at` lead into `into`, most of them inside.
  struct Places {
    std::vector<Node> indices;
    Shape coordinates;
  };
  Places places(uop::Words into, const Shape& at) {
    Places out;
    for (const int64_t dim : into) {
      int64_t axis = at.empty() ? -1 : pick(0, static_cast<int64_t>(at.size()) - 1);
      if (axis >= 0 && (at[static_cast<size_t>(axis)] > dim || chance(50))) axis = -1;
      out.coordinates.push_back(axis);
      if (axis >= 0) continue;
      Node index = any_integer();
      if (index->dtype == DType::kBool) index = g().cast(index, DType::kInt32);
      index = g().alu(Op::kFloorMod, shaped(index, at), g().constant_int(index->dtype, dim, at));
      if (chance(20)) index = g().alu(Op::kSub, index, g().constant_int(index->dtype, 1, at));
      if (chance(25)) index = from_end(index, dim);
      if (chance(20)) index = slice_of(at, dim);
      out.indices.push_back(index);
      out.coordinates.back() = -static_cast<int64_t>(out.indices.size());
    }
    return out;
  }

  Op some_reduction(Node x) {
    static const std::vector<Op> kReal = {Op::kAdd, Op::kAdd, Op::kMax, Op::kMin, Op::kMul};
    static const std::vector<Op> kInteger = {Op::kAdd, Op::kMul, Op::kMax,
                                             Op::kMin, Op::kAnd, Op::kOr};
    return one_of(real(x) ? kReal : kInteger);
  }
  Node scatter(Node target, Node value) {
    if (value == nullptr) return nullptr;
    const Shape at = some_shape();
    const Places to = places(target->shape(), at);
    const Op op = chance(40) ? Op::kSink : some_reduction(target);
    return g().scatter(op, target, shaped(value, at), to.indices, to.coordinates);
  }

  Node scan(Node x, int64_t axis) {
    const Op op = some_reduction(x);
    const bool chooses = (uop::info(op).traits & uop::IDEM) != 0;
    if (chooses && chance(40) && bounds_.of(x).exact()) return g().scan_place(op, x, axis);
    if (real(x) && chance(20)) return g().log_scan(clamped(x), axis, chance(50));
    return g().scan(op, x, axis, chance(40));
  }

  Node indexed(Node x) {
    const int64_t axis = pick(0, std::max<int64_t>(x->ndim, 1) - 1);
    const int64_t die = x->ndim == 0 ? pick(0, 1) : pick(0, 4);
    if (die == 0) return scatter(x, as(any(), x->dtype));
    if (die == 1 || (die == 4 && real(x) && !bounds_.of(x).exact())) {
      const Shape at = some_shape();
      const Places from = places(x->shape(), at);
      return g().gather(x, from.indices, from.coordinates, at);
    }
    if (die < 4) return scan(x, axis);
    if (chance(40)) return g().sort(x, axis, chance(50));
    const int64_t size = x->dim(static_cast<size_t>(axis));
    return g().argsort(x, axis, chance(50), chance(50) ? size : pick(1, size));
  }

  Node call() {
    Node x = as(any(), DType::kFloat32);
    if (x == nullptr) return nullptr;
    const int64_t m = pick(1, 6), k = pick(1, 9), n = pick(1, 6);
    if (chance(60)) {
      Node y = as(any_real(), DType::kFloat32);
      return uop::build_matmul(g(), shaped(x, Shape{m, k}), shaped(y, Shape{k, n}));
    }
    return uop::build_softmax(g(), clamped(shaped(x, Shape{m, k})), pick(0, 1));
  }

  // Writes into a view of a leaf as it stands, through movements that repeat nothing.
  void assign() {
    const size_t leaf = static_cast<size_t>(pick(0, static_cast<int64_t>(current_.size()) - 1));
    Node current = current_[leaf];
    Node view = current;
    for (int64_t i = pick(0, 3); i > 0 && view->ndim > 0; --i) {
      Shape axes(view->ndim);
      switch (pick(0, 3)) {
        case 0:
          view = sliced(view);
          break;
        case 1:
          for (int64_t& flip : axes) flip = pick(0, 1);
          view = g().flip(view, axes);
          break;
        case 2:
          view = reshaped(view);
          break;
        default:
          for (size_t k = 0; k < axes.size(); ++k) axes[k] = static_cast<int64_t>(k);
          std::shuffle(axes.begin(), axes.end(), random_);
          view = g().permute(view, axes);
          break;
      }
    }
    Node value = as(any(), view->dtype);
    if (value == nullptr) return;
    value = shaped(value, Shape(view->shape().begin(), view->shape().end()));
    if (view == current && chance(60)) value = scatter(current, value);  // may happen in place
    if (value == nullptr || (real(value) && bounds_.of(value).most > kMost)) return;
    const Node written = g().assign(view, value);
    const Leaf target = case_.leaves[leaf];
    writes_.emplace_back(target, written);
    for (size_t i = 0; i < current_.size(); ++i) {
      if (i != leaf && !overlap(case_.leaves[i], target)) continue;
      current_[i] = g().after(current_[i], std::array{written});
      (void)keep(current_[i]);
    }
    assigned_.push_back(current_[leaf]);
  }
  void choose_roots() {
    case_.roots.push_back(pool_.back());
    for (int64_t i = pick(0, 3); i > 0; --i) case_.roots.push_back(any());
    for (Node after : assigned_) case_.roots.push_back(after);
    std::sort(case_.roots.begin(), case_.roots.end(), [](Node a, Node b) { return a->id < b->id; });
    case_.roots.erase(std::unique(case_.roots.begin(), case_.roots.end()), case_.roots.end());
  }

  Options options_;
  std::mt19937_64 random_;
  Case case_;
  Bounds bounds_;
  std::vector<Node> pool_;
  std::vector<Node> current_;  // state of each leaf
  std::vector<DType> dtypes_;  // of each memory
  std::vector<std::pair<Leaf, Node>> writes_;
  std::vector<Node> assigned_;
};

}  // namespace

Options overlapping(uint64_t seed) {
  Options options;
  options.operations = static_cast<int>(4 + seed % 19);
  options.elements = 24;
  options.overlaps = true;
  return options;
}

Case make_case(uint64_t seed, const Options& options) { return Generator(seed, options).make(); }

}  // namespace aster::fuzz
