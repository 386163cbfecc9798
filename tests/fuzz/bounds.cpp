// How large values are and how far rounding may have taken them.
#include <algorithm>
#include <bit>
#include <cmath>

#include "dtype/convert.h"
#include "fuzz/random_graph.h"
#include "uop/composite.h"

namespace aster::fuzz {
namespace {

// Bits of the significand, with the leading one.
int significand(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 53;
    case DType::kFloat32:
      return 24;
    case DType::kFloat16:
      return 11;
    case DType::kBFloat16:
      return 8;
    case DType::kFp8E4M3:
    case DType::kFp8E4M3Fnuz:
      return 4;
    default:
      return 3;
  }
}

// The least value above zero, below which errors do not shrink.
double least(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kBFloat16:
    case DType::kFloat32:
      return 1e-37;
    case DType::kFloat16:
      return 0x1p-24;
    default:
      return 0x1p-9;
  }
}

constexpr int kNoGrid = 1 << 20;

// After an operation whose exact result is x: no error if the dtype holds all such values, else
// one rounding, `slack` units wide for functions that are not rounded correctly.
Bound rounded(DType dtype, Bound x, double slack = 1) {
  const int digits = x.grid + static_cast<int>(std::ceil(std::log2(std::max(x.most, 1e-300)) + 1));
  if (x.exact() && slack == 1 && x.grid < kNoGrid && digits <= significand(dtype) && x.grid < 9) {
    return x;
  }
  x.error += slack * std::max(std::ldexp(x.most, -significand(dtype)), least(dtype));
  x.grid = kNoGrid;
  return x;
}

}  // namespace

Bound Bounds::leaf(Node node) {
  for (const Leaf& leaf : case_.leaves) {
    if (leaf.node != node) continue;
    Bound out;
    const size_t size = dtype::size(node->dtype);
    bool gridded = true;
    for (size_t i = 0; i < leaf.bytes.size(); i += size) {
      const double x = dtype::load_double(node->dtype, leaf.bytes.data() + i);
      out.most = std::max(out.most, std::fabs(x));
      while (gridded && std::ldexp(x, out.grid) != std::trunc(std::ldexp(x, out.grid))) {
        gridded = ++out.grid < 9;
      }
    }
    if (!gridded) out.grid = kNoGrid;
    return out;
  }
  return Bound{1e30, 0, kNoGrid};
}

Bound Bounds::of(Node node) {
  const auto found = known_.find(node);
  if (found != known_.end()) return found->second;
  const Bound out = derive(node);  // cases are shallow
  known_[node] = out;
  return out;
}

Bound Bounds::derive(Node node) {
  const Op op = node->op;
  const DType dtype = node->dtype;
  if (op == Op::kCall) {
    Node body = nullptr;
    if (!uop::inline_call(&body, *case_.graph, node).ok()) return Bound{1e30, 1e30, kNoGrid};
    return of(body);
  }
  if (!dtype::is_float(dtype)) {
    if (dtype == DType::kBool) return Bound{1, 0, 0};
    if (op == Op::kAnd && uop::is_const(node->src(1)) && uop::const_int(node->src(1)) >= 0) {
      return Bound{uop::const_double(node->src(1)), 0, 0};
    }
    if (op == Op::kConst) return Bound{std::fabs(uop::const_double(node)), 0, 0};
    if (op == Op::kIota) return Bound{static_cast<double>(node->count()), 0, 0};
    if (uop::is_movement(op) && op != Op::kCat) {
      const Bound source = of(node->src(0));
      return op == Op::kPad ? Bound{std::max(source.most, 128.0), 0, 0} : source;
    }
    return Bound{0x1p64, 0, 0};
  }
  Bound x[3];
  for (size_t i = 0; i < std::min<size_t>(node->nsrc, 3); ++i) x[i] = of(node->src(i));
  const Bound &a = x[0], &b = x[1], &c = x[2];
  const auto either = [](const Bound& p, const Bound& q) {
    return Bound{std::max(p.most, q.most), std::max(p.error, q.error), std::max(p.grid, q.grid)};
  };
  const auto inexact = [&](double most, double error, double slack) {
    return rounded(dtype, Bound{most, error, kNoGrid}, slack);
  };
  // Of the forms that the generator writes: arguments kept where the function is well-conditioned.
  const double exp_a = std::exp(std::min(a.most, 30.0));
  switch (op) {
    case Op::kConst: {
      const double value = uop::const_double(node);
      int grid = 0;
      while (grid < 9 && std::ldexp(value, grid) != std::trunc(std::ldexp(value, grid))) ++grid;
      return Bound{std::fabs(value), 0, grid < 9 ? grid : kNoGrid};
    }
    case Op::kBuffer:
      return leaf(node);
    case Op::kIota:
      return rounded(dtype, Bound{static_cast<double>(node->count()), 0, 0});
    case Op::kCast:
      return rounded(dtype, a);
    case Op::kBitcast:
      return Bound{1e30, 0, kNoGrid};
    case Op::kNeg:
    case Op::kAbs:
      return a;
    case Op::kTrunc:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
      return rounded(dtype, Bound{a.most + 1, a.exact() ? 0.0 : 1.0, 0});
    case Op::kAdd:
    case Op::kSub:
      return rounded(dtype, Bound{a.most + b.most, a.error + b.error, std::max(a.grid, b.grid)});
    case Op::kMul:
    case Op::kMulAcc: {
      Bound y{a.most * b.most, a.error * b.most + b.error * a.most + a.error * b.error,
              std::min(a.grid + b.grid, kNoGrid)};
      if (op == Op::kMul) return rounded(dtype, y);
      y = Bound{y.most + c.most, y.error + c.error, std::max(y.grid, c.grid)};
      return rounded(dtype, y, y.exact() ? 1 : 2);
    }
    case Op::kMax:
    case Op::kMin:
      return either(a, b);
    case Op::kWhere:
      return either(b, c);
    case Op::kRecip:
      return inexact(1, a.error, 1);  // |a| >= 1
    case Op::kDiv:
      return inexact(a.most, a.error + a.most * b.error, 2);  // |b| >= 1
    case Op::kSqrt:
      return inexact(std::sqrt(a.most), a.error / 2, 1);  // a >= 1
    case Op::kLog:
      return inexact(std::log(a.most + 1), a.error, 4);  // a >= 1
    case Op::kLog2:
      return inexact(1.5 * std::log(a.most + 1), 1.5 * a.error, 4);
    case Op::kExp:
      return inexact(exp_a, exp_a * a.error, 4);
    case Op::kExp2:
      return inexact(exp_a, exp_a * a.error, 4);
    case Op::kSin:
    case Op::kCos:
    case Op::kTanh:
      return inexact(1, a.error, 4);
    case Op::kErf:
      return inexact(1, 1.2 * a.error, 4);
    case Op::kPow: {  // 1 <= a, |b| <= 2
      const double most = a.most * a.most;
      return inexact(most, 2 * a.most * a.error + most * std::log(a.most + 1) * b.error, 8);
    }
    case Op::kReduce: {
      const double n = static_cast<double>(node->src(0)->count()) /
                       std::max(1.0, static_cast<double>(node->count()));
      const Op reduction = static_cast<Op>(node->arg(0));
      if (reduction == Op::kAdd) {
        const Bound sum{n * a.most, n * a.error, a.grid};
        return rounded(dtype, sum, rounded(dtype, sum).exact() ? 1 : 1 + n);
      }
      if (reduction == Op::kMul) {
        const double most = std::pow(std::max(a.most, 1.0), n);
        return inexact(most, n * most * a.error, n);
      }
      return n > 0 ? a : Bound{INFINITY, 0, kNoGrid};
    }
    case Op::kPad: {
      const double fill = std::bit_cast<double>(node->arg(node->narg - 1));
      return either(a, Bound{std::fabs(fill), 0, 9 > std::fabs(fill) ? 3 : kNoGrid});
    }
    case Op::kAssign:
      return b;
    case Op::kAfter:
    case Op::kCat: {
      Bound y = a;
      for (Node source : node->src()) y = either(y, of(source));
      return y;
    }
    default:
      return a;  // movement, Contiguous, Detach
  }
}

}  // namespace aster::fuzz
