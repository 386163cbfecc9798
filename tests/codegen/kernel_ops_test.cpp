// Every operation on every dtype, casts between all dtypes, indices used as values.
#include "kernel_support.h"

namespace aster::codegen::tests {
namespace {

constexpr DType kAll[] = {
    DType::kBool,    DType::kInt8,        DType::kUInt8,       DType::kInt16,   DType::kUInt16,
    DType::kInt32,   DType::kUInt32,      DType::kInt64,       DType::kUInt64,  DType::kFp8E4M3,
    DType::kFp8E5M2, DType::kFp8E4M3Fnuz, DType::kFp8E5M2Fnuz, DType::kFloat16, DType::kBFloat16,
    DType::kFloat32, DType::kFloat64};
constexpr int64_t kCount = 37;  // no multiple of any lanes

struct Function {
  Op op;
  double low, high;
};
constexpr Function kFunctions[] = {{Op::kExp, -5, 5},    {Op::kExp2, -5, 5}, {Op::kLog, 0.01, 9},
                                   {Op::kLog2, 0.01, 9}, {Op::kSin, -9, 9},  {Op::kCos, -9, 9},
                                   {Op::kTanh, -3, 3},   {Op::kErf, -3, 3},  {Op::kSqrt, 0, 9},
                                   {Op::kPow, 0.1, 3}};

// Last place of a dtype, relative.
double epsilon(DType d) {
  switch (d) {
    case DType::kFloat64:
      return 0x1p-52;
    case DType::kFloat32:
      return 0x1p-23;
    case DType::kFloat16:
      return 0x1p-10;
    case DType::kBFloat16:
      return 0x1p-7;
    case DType::kFp8E4M3:
    case DType::kFp8E4M3Fnuz:
      return 0x1p-3;
    default:
      return 0x1p-2;
  }
}

Node unary_or_more(Suite& s, Op op, Node a, Node b, Node c) {
  const int arity = uop::info(op).sources;
  if (op == Op::kWhere) return s.op(op, s.op(Op::kCmpLt, a, b), b, c);
  return arity == 1 ? s.op(op, a) : arity == 2 ? s.op(op, a, b) : s.op(op, a, b, c);
}

bool takes(Op op, DType d) {
  if (!uop::info(op).kernel) return false;
  switch (uop::info(op).rule) {
    case uop::DTypeRule::kFloating:
      return dtype::is_float(d);
    case uop::DTypeRule::kIntegral:
      return !dtype::is_float(d);
    case uop::DTypeRule::kBits64:
      return d == DType::kUInt64;
    case uop::DTypeRule::kInt32:
      return d == DType::kInt32;
    case uop::DTypeRule::kNone:
      return false;
    default:
      return true;
  }
}

bool approximate(Op op) {
  for (const Function& f : kFunctions) {
    if (f.op == op) return true;
  }
  return op == Op::kMulAcc;
}

TEST(KernelOps, ExactOnesOnEveryDType) {
  Suite s;
  for (DType d : kAll) {
    Node i = s.range(0, kCount);
    Node a = s.load(s.param(0, d, kCount), i), b = s.load(s.param(1, d, kCount), i),
         c = s.load(s.param(2, d, kCount), i);
    std::vector<Node> stores;
    for (int o = 0; o < static_cast<int>(Op::kCount); ++o) {
      const Op op = static_cast<Op>(o);
      if (!takes(op, d) || (approximate(op) && dtype::is_float(d))) continue;
      Node y = unary_or_more(s, op, a, b, c);
      ASSERT_NE(y, nullptr) << uop::info(op).name << " of " << dtype::name(d);
      stores.push_back(
          s.store(s.param(static_cast<int>(stores.size()) + 3, y->dtype, kCount), i, y, {i}));
    }
    s.add(std::string("ops_") + dtype::name(d), stores, 0, -9, 9);
  }
  s.run();
}

TEST(KernelOps, FunctionsOnFloats) {
  Suite s;
  for (DType d :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kFp8E5M2}) {
    for (const Function& f : kFunctions) {
      if (d != DType::kFloat32 && d != DType::kFloat64 && f.op != Op::kExp && f.op != Op::kTanh)
        continue;
      Node i = s.range(0, kCount);
      Node a = s.load(s.param(1, d, kCount), i), b = s.load(s.param(2, d, kCount), i);
      Node y = unary_or_more(s, f.op, a, b, a);
      s.add(std::string(uop::info(f.op).name) + "_" + dtype::name(d),
            {s.store(s.param(0, d, kCount), i, y, {i})}, epsilon(d) * 4, f.low, f.high);
    }
    Node i = s.range(0, kCount);
    Node a = s.load(s.param(1, d, kCount), i), b = s.load(s.param(2, d, kCount), i);
    s.add(std::string("mulacc_") + dtype::name(d),
          {s.store(s.param(0, d, kCount), i, s.op(Op::kMulAcc, a, b, a), {i})}, epsilon(d) * 2);
  }
  s.run();
}

TEST(KernelOps, CastsBetweenAllDTypes) {
  Suite s;
  for (DType from : kAll) {
    Node i = s.range(0, kCount);
    Node a = s.load(s.param(0, from, kCount), i);
    std::vector<Node> stores;
    for (DType to : kAll) {
      stores.push_back(s.store(s.param(static_cast<int>(stores.size()) + 1, to, kCount), i,
                               s.graph.cast(a, to), {i}));
    }
    s.add(std::string("cast_") + dtype::name(from), stores, 0, -300, 300);
  }
  s.run();
}

TEST(KernelOps, BitcastsKeepBits) {
  Suite s;
  for (DType from : kAll) {
    Node i = s.range(0, kCount);
    std::vector<Node> stores;
    for (DType to : kAll) {
      if (from == to || dtype::bits(from) != dtype::bits(to) || from == DType::kBool ||
          to == DType::kBool)
        continue;
      Node y = s.graph.bitcast(s.load(s.param(0, from, kCount), i), to);
      stores.push_back(
          s.store(s.param(static_cast<int>(stores.size()) + 1, to, kCount), i, y, {i}));
    }
    if (!stores.empty()) s.add(std::string("bits_") + dtype::name(from), stores, 0, -100, 100);
  }
  s.run();
}

TEST(KernelOps, IndicesAsValues) {
  Suite s;
  for (DType d : {DType::kInt8, DType::kUInt8, DType::kInt32, DType::kInt64, DType::kFloat32,
                  DType::kFloat64, DType::kFloat16}) {
    Node i = s.range(0, 5), j = s.range(1, 37);
    Node index = s.at({{i, 37}, {j, 1}});
    Node linear = s.graph.cast(s.at({{i, -100}, {j, 3}}, 11), d);
    Node divided = s.graph.cast(uop::sym::floordiv(s.graph, s.at({{i, 1}, {j, 1}}), 3), d);
    Node rest = s.graph.cast(uop::sym::floormod(s.graph, s.at({{i, 7}, {j, 1}}, -20), 5), d);
    s.add(std::string("iota_") + dtype::name(d),
          {s.store(s.param(0, d, 185), index, linear, {i, j}),
           s.store(s.param(1, d, 185), index, divided, {i, j}),
           s.store(s.param(2, d, 185), index, rest, {i, j})});
  }
  // Beyond 32 bits.
  Node i = s.range(0, 37);
  Node big = s.at({{i, int64_t{1} << 40}}, -5);
  s.add("iota_big",
        {s.store(s.param(0, DType::kInt64, 37), i, s.graph.cast(big, DType::kInt64), {i}),
         s.store(s.param(1, DType::kFloat32, 37), i, s.graph.cast(big, DType::kFloat32), {i})});
  s.run();
}

}  // namespace
}  // namespace aster::codegen::tests
