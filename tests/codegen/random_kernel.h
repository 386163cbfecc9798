// Kernels of random loops, folds, indices and gates.
#pragma once

#include "codegen/kernel_support.h"

namespace aster::codegen::tests {

class RandomKernel {
 public:
  RandomKernel(Suite& suite, uint64_t seed) : s_(suite), random_(seed) {}

  void add(const std::string& name) {
    next_range_ = next_slot_ = 0;
    folds_.clear();
    loops_.clear();
    const int depth = pick(0, 3);
    for (int i = 0; i < depth; ++i) loops_.push_back(range());
    dtype_ = one_of({DType::kFloat32, DType::kFloat32, DType::kFloat64, DType::kInt32,
                     DType::kFloat16, DType::kInt8});
    const int folds = pick(0, 3);
    for (int i = 0; i < folds; ++i) add_fold();
    std::vector<Node> stores;
    carries_ = chance(25);
    const int count = carries_ ? 1 : pick(1, 3);
    for (int i = 0; i < count; ++i) {
      const size_t length = i == 0 ? loops_.size() : static_cast<size_t>(pick(0, depth));
      std::vector<Node> loops(loops_.begin(), loops_.begin() + static_cast<std::ptrdiff_t>(length));
      stores.push_back(store(loops));
    }
    const double tolerance = dtype_ == DType::kFloat64   ? 1e-9
                             : dtype_ == DType::kFloat16 ? 0.05
                             : dtype::is_float(dtype_)   ? 1e-3
                                                         : 0;
    s_.add(name, stores, tolerance, dtype::is_float(dtype_) ? -1 : -20,
           dtype::is_float(dtype_) ? 1 : 20);
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <typename T>
  T one_of(std::initializer_list<T> from) {
    return one_of(std::vector<T>(from));
  }
  template <typename T>
  T one_of(const std::vector<T>& from) {
    return from[static_cast<size_t>(pick(0, static_cast<int>(from.size()) - 1))];
  }
  Node range() {
    return s_.range(next_range_++, one_of<int64_t>({1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33}));
  }

  // Where an element lies: a sum over some of the ranges, with quotients and remainders now and
  // then.
  Node index(const std::vector<Node>& open) {
    Node at = s_.graph.index(0);
    int64_t stride = 1;
    std::vector<Node> order = open;
    if (chance(30)) std::shuffle(order.begin(), order.end(), random_);
    for (size_t i = order.size(); i-- > 0;) {
      if (chance(25)) continue;
      const int64_t gap = chance(20) ? pick(1, 3) : 1;
      Node term = order[i];
      if (chance(8)) term = uop::sym::floordiv(s_.graph, term, pick(2, 3));
      if (chance(8)) term = uop::sym::floormod(s_.graph, term, pick(2, 5));
      at = uop::sym::add(s_.graph, at,
                         uop::sym::mul(s_.graph, term, chance(10) ? -stride * gap : stride * gap));
      stride *= gap * order[i]->arg(1);
    }
    return at;
  }

  Node load(const std::vector<Node>& open) {
    Node at = index(open);
    Node gate = nullptr;
    if (chance(25) && !open.empty()) {
      Node edge = s_.at({{one_of(open), one_of<int64_t>({1, 1, 2})}}, pick(-3, 1));
      gate = chance(50) ? s_.ge(edge, 0) : s_.both(s_.ge(edge, 0), s_.lt(edge, pick(2, 12)));
      if (chance(30)) gate = s_.both(gate, s_.lt(s_.at({{one_of(open), 1}}), pick(1, 8)));
    }
    at = uop::sym::add(s_.graph, at, -at->vmin);
    return s_.load(s_.param(next_slot_++, dtype_, at->vmax + 1), at, gate);
  }

  Node leaf(const std::vector<Node>& open, size_t prefix) {
    if (chance(35)) {
      std::vector<Node> usable;
      for (auto [fold, length] : folds_) {
        if (length <= prefix) usable.push_back(fold);
      }
      if (!usable.empty()) return one_of(usable);
    }
    if (chance(12)) return s_.c(dtype_, pick(-2, 2));
    if (chance(12) && !open.empty())
      return s_.graph.cast(s_.at({{one_of(open), pick(1, 3)}}, pick(-4, 4)), dtype_);
    return load(open);
  }

  Node value(const std::vector<Node>& open, size_t prefix, int depth) {
    if (depth == 0) return leaf(open, prefix);
    switch (pick(0, 6)) {
      case 0:
        return s_.op(Op::kAdd, value(open, prefix, depth - 1), value(open, prefix, depth - 1));
      case 1:
        return s_.op(Op::kMul, value(open, prefix, depth - 1), load(open));
      case 2:
        return s_.op(Op::kSub, value(open, prefix, depth - 1), leaf(open, prefix));
      case 3:
        return s_.op(Op::kMax, value(open, prefix, depth - 1), leaf(open, prefix));
      case 4: {
        Node a = load(open), b = load(open);
        return s_.op(Op::kWhere, s_.op(Op::kCmpLt, a, b), value(open, prefix, depth - 1),
                     leaf(open, prefix));
      }
      case 5:
        return s_.graph.cast(s_.graph.cast(load(open), DType::kInt32), dtype_);
      default:
        return leaf(open, prefix);
    }
  }

  Node product(const std::vector<Node>& open) {
    const Node a = load(open), b = load(open);
    if (dtype_ == DType::kInt32 && chance(50))
      return s_.op(Op::kQuadDot, a, b, s_.graph.constant_word(dtype_, 0));
    return s_.op(Op::kMul, a, b);
  }

  void add_fold() {
    const size_t prefix = static_cast<size_t>(pick(0, static_cast<int>(loops_.size())));
    std::vector<Node> open(loops_.begin(), loops_.begin() + static_cast<std::ptrdiff_t>(prefix)),
        own;
    for (int i = pick(1, 2); i > 0; --i) own.push_back(range());
    open.insert(open.end(), own.begin(), own.end());
    Node v = chance(40) ? product(open) : value(open, prefix, pick(1, 2));
    const Op op = one_of({Op::kAdd, Op::kAdd, Op::kMax, Op::kMin});
    if (chance(25)) v = up_to(v, op, one_of(open));
    folds_.emplace_back(s_.fold(op, v, own), prefix);
  }

  // Where a range is below a number that is read, else what changes nothing.
  Node up_to(Node v, Op op, Node range) {
    Node end = s_.load(s_.param(next_slot_++, DType::kInt32, 1), s_.graph.index(0));
    end = s_.op(Op::kAdd, end, s_.graph.constant_int(DType::kInt32, pick(0, 12)));
    Node inside = s_.op(Op::kCmpLt, s_.graph.cast(range, DType::kInt32), end);
    return s_.op(Op::kWhere, inside, v,
                 s_.graph.constant_word(dtype_, uop::neutral_word(op, dtype_)));
  }

  Node store(const std::vector<Node>& loops) {
    std::vector<Node> order = loops;
    if (chance(25)) std::shuffle(order.begin(), order.end(), random_);
    Node at = s_.graph.index(0);
    int64_t stride = 1;
    for (size_t i = order.size(); i-- > 0;) {
      at = uop::sym::add(s_.graph, at, uop::sym::mul(s_.graph, order[i], stride));
      stride *= order[i]->arg(1) + (chance(10) ? 1 : 0);
    }
    Node param = s_.param(next_slot_++, dtype_, at->vmax + 1);
    Node v = value(loops, loops.size(), pick(0, 3));
    if (carries_ && innermost()) v = carried(v, loops);
    if (!loops.empty() && chance(15)) v = up_to(v, Op::kAdd, one_of(loops));
    if (chance(15)) v = s_.op(Op::kAdd, v, s_.load(param, at));
    return s_.store(param, at, v, loops);
  }

  // Whether no fold needs the last loop, so that values may be carried along it.
  bool innermost() const {
    return !loops_.empty() &&
           std::ranges::none_of(folds_, [&](auto fold) { return fold.second == loops_.size(); });
  }
  Node carried(Node v, const std::vector<Node>& loops) {
    const DType narrow = v->dtype;
    if (dtype::is_narrow_float(narrow)) v = s_.graph.cast(v, DType::kFloat32);
    const Op op = one_of({Op::kAdd, Op::kMax, Op::kMin, Op::kMulAcc});
    std::vector<Node> values = {v};
    if (op == Op::kMulAcc) {  // factors that let nothing grow
      const Node factor = dtype::is_float(v->dtype) ? s_.c(v->dtype, 0.5) : s_.c(v->dtype, -1);
      values = {
          s_.op(Op::kWhere, s_.op(Op::kCmpLt, s_.c(v->dtype, 0), v), factor, s_.c(v->dtype, 1)), v};
    }
    Node now = s_.carry(op, values, loops.back());
    if (chance(50)) {
      const bool both = chance(50);
      const Node was = s_.carry(op, values, loops.back(), true);
      const bool finite = op == Op::kAdd || op == Op::kMulAcc;
      if (finite) now = both ? s_.op(Op::kSub, now, was) : was;
      if (!finite) now = s_.op(Op::kMul, now, s_.graph.cast(s_.op(Op::kCmpNe, now, was), v->dtype));
    }
    if (chance(30)) now = s_.carry(Op::kMax, {now}, loops.back());
    return s_.graph.cast(now, narrow);
  }

  Suite& s_;
  std::mt19937_64 random_;
  std::vector<Node> loops_;
  std::vector<std::pair<Node, size_t>> folds_;
  int next_range_ = 0, next_slot_ = 0;
  bool carries_ = false;
  DType dtype_ = DType::kFloat32;
};

}  // namespace aster::codegen::tests
