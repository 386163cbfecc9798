// Arithmetic of values as arithmetic of indices, so that what it says about them is not lost.
#include <algorithm>

#include "uop/symbolic.h"

namespace aster::uop::sym {
namespace {

constexpr int kDeepest = 64;  // levels of arithmetic; what lies below is cast

// What means the same on indices, as long as nothing wraps.
constexpr Op kArithmetic[] = {Op::kNeg,   Op::kAbs,   Op::kNot,      Op::kAdd,      Op::kSub,
                              Op::kMul,   Op::kMax,   Op::kMin,      Op::kCDiv,     Op::kCMod,
                              Op::kWhere, Op::kCmpLt, Op::kFloorDiv, Op::kFloorMod, Op::kCmpLe,
                              Op::kCmpEq, Op::kCmpNe, Op::kAnd,      Op::kOr};

class Indexer {
 public:
  explicit Indexer(Graph& g) : g_(g), done_(g.memory()) {}

  Node operator()(Node x, int depth = 0) {
    if (x == nullptr || x->dtype == DType::kWeakInt || dtype::is_float(x->dtype)) return x;
    if (const Node* known = done_.find(x)) return *known;
    const Node out = convert(x, depth);
    return out != nullptr && done_.set(x, out).ok() ? out : nullptr;
  }

 private:
  // Whether the dtype of x holds all that `exact` may be.
  static bool holds(Node x, Node exact) {
    if (x->dtype == DType::kBool) return exact->dtype == DType::kBool;
    const unsigned bits = static_cast<unsigned>(dtype::bits(x->dtype));
    if (!known({exact->vmin, exact->vmax})) return false;
    if (dtype::is_unsigned(x->dtype)) {
      return exact->vmin >= 0 && (bits >= 63 || exact->vmax >> bits == 0);
    }
    return bits >= 64 || (exact->vmin >= -(int64_t{1} << (bits - 1)) &&
                          exact->vmax <= (int64_t{1} << (bits - 1)) - 1);
  }
  Node plainly(Node x) { return x->dtype == DType::kBool ? x : g_.cast(x, DType::kWeakInt); }

  Node convert(Node x, int depth) {
    if (x->ndim != 0 || depth == kDeepest) return plainly(x);
    if (is_const(x)) {
      return x->dtype == DType::kUInt64 && x->arg(0) < 0 ? plainly(x)
             : x->dtype == DType::kBool                  ? x
                                                         : g_.index(x->arg(0));
    }
    Node exact = nullptr;
    if (x->op == Op::kCast && x->dtype != DType::kBool && x->src(0)->dtype != DType::kBool) {
      exact = dtype::is_float(x->src(0)->dtype) ? nullptr : (*this)(x->src(0), depth + 1);
    } else if (std::find(std::begin(kArithmetic), std::end(kArithmetic), x->op) !=
               std::end(kArithmetic)) {
      exact = arithmetic(x, depth);
    }
    return exact != nullptr && holds(x, exact) ? exact : plainly(x);
  }

  Node arithmetic(Node x, int depth) {
    Node src[3] = {};
    for (size_t i = 0; i < x->nsrc; ++i) {
      if (dtype::is_float(x->src(i)->dtype)) return nullptr;
      src[i] = (*this)(x->src(i), depth + 1);
      if (src[i] == nullptr) return nullptr;
      if (x->src(i)->dtype == DType::kUInt64 && src[i]->vmin < 0) return nullptr;
    }
    // Bitwise on numbers.
    if ((x->op == Op::kAnd || x->op == Op::kOr || x->op == Op::kNot) && x->dtype != DType::kBool)
      return nullptr;
    Op op = x->op;
    if (op == Op::kAbs && src[0]->vmin >= 0) return src[0];
    if (op == Op::kCDiv || op == Op::kCMod) {
      if (src[0]->vmin < 0 || src[1]->vmin < 1) return nullptr;
      op = op == Op::kCDiv ? Op::kFloorDiv : Op::kFloorMod;
    }
    return apply(g_, op, {src, x->nsrc});
  }

  Graph& g_;
  Map<Node, Node> done_;
};

}  // namespace

Node to_index(Graph& g, Node value) {
  Indexer convert(g);
  return convert(value);
}

}  // namespace aster::uop::sym
