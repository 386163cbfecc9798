// How large values are and how far rounding may have taken them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

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

Bound either(const Bound& p, const Bound& q) {
  return Bound{std::max(p.most, q.most), std::max(p.error, q.error), std::max(p.grid, q.grid)};
}

Bound constant(double value) {
  int grid = 0;
  while (grid < 9 && std::ldexp(value, grid) != std::trunc(std::ldexp(value, grid))) ++grid;
  return Bound{std::fabs(value), 0, grid < 9 ? grid : kNoGrid};
}

// Integers are exact; what counts is how large they may be as floats.
Bound integer(Node node, const Bound& all) {
  const Op op = node->op;
  if (node->dtype == DType::kBool) return Bound{1, 0, 0};
  if (op == Op::kAnd && uop::is_const(node->src(1)) && uop::const_int(node->src(1)) >= 0) {
    return Bound{uop::const_double(node->src(1)), 0, 0};
  }
  if (op == Op::kConst) return Bound{std::fabs(uop::const_double(node)), 0, 0};
  if (op == Op::kIota) return Bound{static_cast<double>(node->count()), 0, 0};
  if (op == Op::kArgsort || op == Op::kScanPlace)
    return Bound{static_cast<double>(node->src(0)->count()), 0, 0};
  if (op == Op::kPad) return Bound{std::max(all.most, 128.0), 0, 0};
  return uop::is_movement(op) || op == Op::kSort ? all : Bound{0x1p64, 0, 0};
}

// max(min(x, c), d), and min(|x| + c, d): what the generator limits arguments with.
Bound clamp(Node node, Bound all) {
  const Node inner = node->src(0);
  if (!uop::is_const(node->src(1))) return all;
  const double limit = std::fabs(uop::const_double(node->src(1)));
  if (node->op == Op::kMax && inner->op == Op::kMin && uop::is_const(inner->src(1))) {
    all.most = std::min(all.most, std::max(limit, std::fabs(uop::const_double(inner->src(1)))));
  }
  const bool positive = inner->op == Op::kAdd && inner->src(0)->op == Op::kAbs &&
                        uop::is_const(inner->src(1)) && uop::const_double(inner->src(1)) >= 0;
  if (node->op == Op::kMin && positive) all.most = std::min(all.most, limit);
  return all;
}

Bound reduction(Node node, const Bound& all) {
  const double n = static_cast<double>(node->src(0)->count()) /
                   std::max(1.0, static_cast<double>(node->count()));
  const Op op = static_cast<Op>(node->arg(0));
  if (op == Op::kAdd) {
    const Bound sum{n * all.most, n * all.error, all.grid};
    return rounded(node->dtype, sum, rounded(node->dtype, sum).exact() ? 1 : 1 + n);
  }
  if (op == Op::kMul) {
    const double most = std::pow(std::max(all.most, 1.0), n);
    return rounded(node->dtype, Bound{most, n * most * all.error, kNoGrid}, n);
  }
  return n > 0 ? all : Bound{INFINITY, 0, kNoGrid};
}

// n values combined by a reduction or, with -1, written.
Bound combined(Node node, uop::Word operation, Bound all, double n) {
  const DType dtype = node->dtype;
  if (operation == static_cast<uop::Word>(Op::kAdd)) {
    const Bound sum{n * all.most, n * all.error, all.grid};
    return rounded(dtype, sum, rounded(dtype, sum).exact() ? 1 : 1 + n);
  }
  if (operation == static_cast<uop::Word>(Op::kMul)) {
    const double most = std::pow(std::max(all.most, 1.0), n);
    return rounded(dtype, Bound{most, n * most * all.error, kNoGrid}, 1 + n);
  }
  return all;
}

// Functions in the forms that the generator writes, their arguments kept where they are
// well-conditioned.
std::optional<Bound> function(Node node, const Bound& a, const Bound& b) {
  const auto inexact = [&](double most, double error, double slack) {
    return rounded(node->dtype, Bound{most, error, kNoGrid}, slack);
  };
  const double power = std::exp(std::min(a.most, 30.0));
  switch (node->op) {
    case Op::kRecip:  // |a| >= 1
      return inexact(1, a.error, 1);
    case Op::kDiv:  // |b| >= 1
      return inexact(a.most, a.error + a.most * b.error, 2);
    case Op::kSqrt:  // a >= 1, as in Log and Log2
      return inexact(std::sqrt(a.most), a.error / 2, 1);
    case Op::kLog:
      return inexact(std::log(a.most + 1), a.error, 4);
    case Op::kLog2:
      return inexact(1.5 * std::log(a.most + 1), 1.5 * a.error, 4);
    case Op::kExp:
    case Op::kExp2:
      return inexact(power, power * a.error, 4);
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
    default:
      return std::nullopt;
  }
}

Bound arithmetic(Node node, const Bound& a, const Bound& b, const Bound& c) {
  const DType dtype = node->dtype;
  switch (node->op) {
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
      const double error = a.error * b.most + b.error * a.most + a.error * b.error;
      Bound y{a.most * b.most, error, std::min(a.grid + b.grid, kNoGrid)};
      if (node->op == Op::kMul) return rounded(dtype, y);
      y = Bound{y.most + c.most, y.error + c.error, std::max(y.grid, c.grid)};
      return rounded(dtype, y, y.exact() ? 1 : 2);
    }
    default:
      return a;  // Neg, Abs
  }
}

}  // namespace

Bound Bounds::leaf(Node node) {
  for (const Leaf& leaf : case_.leaves) {
    if (leaf.node != node) continue;
    Bound out;
    const size_t size = dtype::size(node->dtype);
    bool gridded = true;
    const Bytes bytes = contents(case_.memory, leaf);
    for (size_t i = 0; i < bytes.size(); i += size) {
      const double x = dtype::load_double(node->dtype, bytes.data() + i);
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
  if (node->op == Op::kCall) {
    Node body = nullptr;
    if (!uop::inline_call(&body, *case_.graph, node).ok()) return Bound{1e30, 1e30, kNoGrid};
    return of(body);
  }
  if (node->op == Op::kBuffer && dtype::is_float(node->dtype)) return leaf(node);
  Bound all;  // of whatever it reads
  std::vector<Bound> sources;
  for (Node source : node->src()) {
    sources.push_back(of(source));
    all = sources.size() == 1 ? sources[0] : either(all, sources.back());
  }
  sources.resize(std::max<size_t>(sources.size(), 3));
  if (!dtype::is_float(node->dtype)) return integer(node, all);
  if (node->op == Op::kMax || node->op == Op::kMin) return clamp(node, all);
  if (node->op == Op::kReduce) return reduction(node, all);
  if (node->op == Op::kScan) {
    return combined(node, node->arg(0), all,
                    static_cast<double>(node->dim(static_cast<size_t>(node->arg(1)))));
  }
  if (node->op == Op::kLogScan) {  // sums of exponentials none of which is above 1
    const double n = static_cast<double>(node->dim(static_cast<size_t>(node->arg(0))));
    return rounded(node->dtype, Bound{all.most + std::log(n), all.error, kNoGrid}, 8 + n);
  }
  if (node->op == Op::kScatter) {  // all values may land in one place
    const double n = 1 + static_cast<double>(node->src(1)->count());
    return combined(node, node->arg(0), either(sources[0], sources[1]), n);
  }
  if (node->op == Op::kGather) return either(sources[0], constant(0));
  if (node->op == Op::kAssign) return sources[1];
  if (node->op == Op::kWhere) return either(sources[1], sources[2]);
  if (uop::is_alu(node->op)) {
    const std::optional<Bound> known = function(node, sources[0], sources[1]);
    return known ? *known : arithmetic(node, sources[0], sources[1], sources[2]);
  }
  switch (node->op) {
    case Op::kConst:
      return constant(uop::const_double(node));
    case Op::kPad:
      return either(all, constant(std::bit_cast<double>(node->arg(node->narg - 1))));
    case Op::kUnwindow:
      return either(all, constant(0));
    case Op::kIota:
      return rounded(node->dtype, Bound{static_cast<double>(node->count()), 0, 0});
    case Op::kCast:
      return rounded(node->dtype, all);
    case Op::kBitcast:
      return Bound{1e30, 0, kNoGrid};
    default:
      return all;  // other movement, Contiguous, Detach, After
  }
}

}  // namespace aster::fuzz
