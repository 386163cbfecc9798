#include "uop/rules_tensor.h"

#include <cmath>

namespace aster::uop {
namespace rule {
namespace {

Outcome empty_result(const Match& m);
Outcome choose(const Match& m);
Outcome where_of_constants(const Match& m);
Outcome divide_by_power(const Match& m);
Outcome cast_of_cast(const Match& m);
Outcome bitcast_of_bitcast(const Match& m);

constexpr Guard not_bool(const Pattern& p) {
  return guard([](Node node) { return node->dtype != DType::kBool; }, p);
}

constexpr Guard not_unsigned(const Pattern& p) {
  return guard([](Node node) { return !dtype::is_unsigned(node->dtype); }, p);
}

// clang-format off
constexpr Rule kRules[] = {
    {x,                         empty_result},

    // -0.0 is the float that adds nothing: 0.0 turns -0.0 into 0.0.
    {x + -0.0,                  x},
    {x - 0.0,                   x},
    {x * 1.0,                   x},
    {x / 1.0,                   x},
    {x * -1.0,                  -x},
    {x * 0.0,                   0.0,                is_integral(x)},
    {x - x,                     0.0,                is_integral(x)},
    {x / c0,                    divide_by_power},
    {-(-x),                     x},
    {x + (-y),                  x - y,              not_bool(x)},
    {x - (-y),                  x + y,              not_bool(x)},
    {(x + c0) + c1,             x + (c0 + c1),      is_integral(x)},
    {(x * c0) * c1,             x * (c0 * c1),      is_integral(x)},
    {Abs(Abs(x)),               Abs(x)},
    {Abs(-x),                   Abs(x),             not_unsigned(x)},
    {Pow(x, 0.0),               1.0},
    {Pow(x, 1.0),               x},
    {Pow(x, 2.0),               x * x},
    {Pow(x, -1.0),              Recip(x)},

    {Trunc(x),                  x,                  is_integral(x)},
    {Floor(x),                  x,                  is_integral(x)},
    {Ceil(x),                   x,                  is_integral(x)},
    {Round(x),                  x,                  is_integral(x)},
    {CDiv(x, 1.0),              x},
    {FloorDiv(x, 1.0),          x},
    {CMod(x, 1.0),              0.0},
    {FloorMod(x, 1.0),          0.0},
    {Shl(x, 0.0),               x},
    {Shr(x, 0.0),               x},

    {Max(x, x),                 x},
    {Min(x, x),                 x},
    {x & x,                     x},
    {x | x,                     x},
    {x ^ x,                     0.0},
    {x & 0.0,                   0.0},
    {x | 0.0,                   x},
    {x ^ 0.0,                   x},
    {x & 1.0,                   x,                  is_bool(x)},
    {x | 1.0,                   1.0,                is_bool(x)},
    {x ^ 1.0,                   !x,                 is_bool(x)},
    {!(!x),                     x},
    {!CmpEq(x, y),              CmpNe(x, y)},
    {!CmpNe(x, y),              CmpEq(x, y)},
    {CmpLt(x, x),               0.0},
    {CmpLe(x, x),               1.0,                is_integral(x)},
    {CmpEq(x, x),               1.0,                is_integral(x)},
    {CmpNe(x, x),               0.0,                is_integral(x)},
    {CmpNe(x, 0.0),             x,                  is_bool(x)},
    {CmpEq(x, 1.0),             x,                  is_bool(x)},
    {CmpEq(x, 0.0),             !x,                 is_bool(x)},
    {CmpNe(x, 1.0),             !x,                 is_bool(x)},

    {Where(c0, x, y),           choose},
    {Where(x, y, y),            y},
    {Where(!x, y, z),           Where(x, z, y)},
    {Where(x, c0, c1),          where_of_constants},

    {Cast(Cast(x)),             cast_of_cast},
    {Bitcast(Bitcast(x)),       bitcast_of_bitcast},

    // Slices move towards the leaves, Flip and Permute behind them, Expand towards the users.
    {Slice(Slice(x)),           slice_of_slice},
    {Slice(Pad(x)),             slice_of_pad},
    {Slice(Expand(x)),          slice_of_expand},
    {Slice(Permute(x)),         slice_of_permute},
    {Slice(Flip(x)),            slice_of_flip},
    {Slice(Cat()),              slice_of_cat},
    {Flip(Flip(x)),             flip_of_flip},
    {Flip(Expand(x)),           flip_of_expand},
    {Flip(Permute(x)),          flip_of_permute},
    {Permute(x),                permute_of_units},
    {Permute(Expand(x)),        permute_of_expand},
    {Reshape(Expand(x)),        reshape_of_expand},
    {Pad(Pad(x)),               pad_of_pad},
    {Cat(),                     cat_of_parts},
    {Pad(x) + y,                sum_of_pads},

    {Reduce(x),                 reduce_of_units},
    {Reduce(x),                 reduce_of_nothing},
    {Reduce(c0),                reduce_of_constant},
    {Reduce(Expand(x)),         reduce_of_expand},
};
constexpr Rule kDetachRules[] = {
    {Detach(x),                 x},
};
// clang-format on

// What has no elements is any constant.
Outcome empty_result(const Match& m) {
  const Node node = m.root;
  if (node->ndim == 0 || node->count() != 0 || node->dtype == DType::kNone) return Outcome::keep();
  const bool pure = is_alu(node->op) || is_movement(node->op) || node->op == Op::kCast ||
                    node->op == Op::kBitcast || node->op == Op::kReduce || node->op == Op::kIota ||
                    node->op == Op::kCall || node->op == Op::kGather || node->op == Op::kScan ||
                    node->op == Op::kScanPlace || node->op == Op::kLogScan ||
                    node->op == Op::kArgsort || node->op == Op::kSort || node->op == Op::kForeign ||
                    node->op == Op::kWide;
  return pure ? Outcome(m.g.constant_word(node->dtype, 0, node->shape())) : Outcome::keep();
}

Outcome choose(const Match& m) { return m[c0]->arg(0) != 0 ? m[x] : m[y]; }

Outcome where_of_constants(const Match& m) {
  if (m.root->dtype != DType::kBool || m[c0] == m[c1]) return Outcome::keep();
  return m[c0]->arg(0) != 0 ? m[x] : m.g.alu(Op::kNot, m[x]);
}

// Exact where the reciprocal is.
Outcome divide_by_power(const Match& m) {
  const DType d = m.root->dtype;
  const double c = const_double(m[c0]);
  int exponent = 0;
  if (std::fabs(std::frexp(c, &exponent)) != 0.5) return Outcome::keep();
  const int most = d == DType::kFloat64 ? 1000 : 100;
  if ((d != DType::kFloat32 && d != DType::kFloat64) || std::abs(exponent) > most) {
    return Outcome::keep();
  }
  return m.g.alu(Op::kMul, m[x], m.g.constant(d, 1.0 / c, m.root->shape()));
}

// By way of a dtype that holds every value of the first.
Outcome cast_of_cast(const Match& m) {
  const DType from = m[x]->dtype, by = m.root->src(0)->dtype, to = m.root->dtype;
  if (dtype::is_weak(from) || dtype::is_weak(by) || dtype::is_weak(to)) return Outcome::keep();
  if (!dtype::can_lossless_cast(from, by)) return Outcome::keep();
  return m.g.cast(m[x], to);
}

Outcome bitcast_of_bitcast(const Match& m) { return m.g.bitcast(m[x], m.root->dtype); }

constexpr auto kIndex = rule_index(kRules);
constexpr RuleSet kSet = rule_set(kRules, kIndex);
constexpr auto kDetachIndex = rule_index(kDetachRules);
constexpr RuleSet kDetachSet = rule_set(kDetachRules, kDetachIndex);

}  // namespace
}  // namespace rule

const rule::RuleSet& tensor_rules() { return rule::kSet; }

Status simplify_tensor(Node* out, Graph& g, Node root, const SimplifyOptions& options) {
  if (options.drop_detach) ASTER_TRY(rule::rewrite(&root, g, root, rule::kDetachSet));
  return rule::rewrite(out, g, root, rule::kSet, options.fired);
}

}  // namespace aster::uop
