#include "uop/verify.h"

#include <algorithm>
#include <bit>

#include "base/text.h"
#include "uop/foreign.h"
#include "uop/wide.h"

namespace aster::uop {
namespace {

constexpr int kAny = -1;

bool same_shape(Node a, Node b) { return std::ranges::equal(a->shape(), b->shape()); }
bool same(Node node, size_t i) {
  return node->dtype == node->src(i)->dtype && same_shape(node, node->src(i));
}
bool same_dtype(Node node) { return node->dtype == node->src(0)->dtype; }
bool scalar_index(Node node) { return node->dtype == DType::kWeakInt && node->ndim == 0; }
bool axis_of(Node node, Word axis) { return axis >= 0 && axis < node->ndim; }
bool ascending_axes(Node source, Words axes) {
  Word last = -1;
  return std::ranges::all_of(axes, [&](Word axis) {
    const bool fits = axis > last && axis_of(source, axis);
    last = axis;
    return fits;
  });
}
bool reduces(Word op) {
  return op >= 0 && op < static_cast<Word>(Op::kCount) &&
         (info(static_cast<Op>(op)).traits & REDUCE) != 0;
}
// Shapes but for one axis.
bool same_beside(Node a, Node b, size_t axis) {
  if (a->ndim != b->ndim) return false;
  for (size_t i = 0; i < a->ndim; ++i) {
    if (i != axis && a->dim(i) != b->dim(i)) return false;
  }
  return true;
}

bool grows_units(Node n) {
  const Node x = n->src(0);
  if (x->ndim != n->ndim) return false;
  for (size_t i = 0; i < n->ndim; ++i) {
    if (x->dim(i) != n->dim(i) && x->dim(i) != 1) return false;
  }
  return true;
}
bool permutes(Node n) {
  const Node x = n->src(0);
  if (x->ndim != n->ndim || n->narg != n->ndim) return false;
  uint64_t seen[4] = {};
  for (size_t i = 0; i < n->ndim; ++i) {
    const Word axis = n->arg(i);
    if (!axis_of(x, axis) || x->dim(static_cast<size_t>(axis)) != n->dim(i)) return false;
    uint64_t& bits = seen[static_cast<size_t>(axis) / 64];
    const uint64_t bit = uint64_t{1} << (axis % 64);
    if ((bits & bit) != 0) return false;
    bits |= bit;
  }
  return true;
}
bool slices(Node n) {
  const Node x = n->src(0);
  if (x->ndim != n->ndim || n->narg != 2u * n->ndim) return false;
  for (size_t i = 0; i < n->ndim; ++i) {
    const Word start = n->arg(2 * i), step = n->arg(2 * i + 1), size = n->dim(i);
    if (start < 0 || step < 1 || start > x->dim(i)) return false;
    if (size > 0 && (size - 1 > (x->dim(i) - 1 - start) / step || start >= x->dim(i))) return false;
  }
  return true;
}
bool pads(Node n) {
  const Node x = n->src(0);
  if (x->ndim != n->ndim || n->narg != 3u * n->ndim + 1) return false;
  for (size_t i = 0; i < n->ndim; ++i) {
    const Word before = n->arg(3 * i), after = n->arg(3 * i + 1), between = n->arg(3 * i + 2);
    if (before < 0 || after < 0 || between < 0) return false;
    const Word gaps = std::max<Word>(x->dim(i) - 1, 0) * between;
    if (x->dim(i) + gaps + before + after != n->dim(i)) return false;
  }
  return true;
}
// Axis arg 0 of the source has become two, its windows and their elements.
bool windows_of_source(Node n) {
  const Node x = n->src(0);
  if (n->narg != 3 || n->ndim != x->ndim + 1 || !axis_of(x, n->arg(0))) return false;
  if (n->arg(1) < 1 || n->arg(2) < 1) return false;
  const size_t axis = static_cast<size_t>(n->arg(0));
  for (size_t i = 0; i < x->ndim; ++i) {
    if (i != axis && x->dim(i) != n->dim(i < axis ? i : i + 1)) return false;
  }
  if (n->count() == 0) return true;
  const Word last = (n->dim(axis) - 1) * n->arg(1) + (n->dim(axis + 1) - 1) * n->arg(2);
  return last < x->dim(axis);
}
bool unwindows(Node n) {
  const Node x = n->src(0);  // keeps the axis of taps: only the first of the two changes
  if (n->narg != 3 || n->ndim != x->ndim || !axis_of(n, n->arg(0)) || !axis_of(n, n->arg(0) + 1)) {
    return false;
  }
  const size_t axis = static_cast<size_t>(n->arg(0));
  if (n->arg(1) < 1 || n->arg(2) < 1 || !same_beside(n, x, axis)) return false;
  if (x->count() == 0) return true;
  return (x->dim(axis) - 1) * n->arg(1) + (x->dim(axis + 1) - 1) * n->arg(2) < n->dim(axis);
}
bool concatenates(Node n) {
  if (n->nsrc < 1 || n->narg != 1 || !axis_of(n, n->arg(0))) return false;
  const size_t axis = static_cast<size_t>(n->arg(0));
  Word total = 0;
  for (Node x : n->src()) {
    if (x->dtype != n->dtype || !same_beside(n, x, axis)) return false;
    total += x->dim(axis);
  }
  return total == n->dim(axis);
}
bool reduces_axes(Node n) {
  const Node x = n->src(0);
  if (n->narg < 2 || !reduces(n->arg(0)) || !ascending_axes(x, n->arg().subspan(1))) return false;
  if (x->ndim != n->ndim) return false;
  for (size_t i = 0; i < n->ndim; ++i) {
    const bool reduced = std::ranges::count(n->arg().subspan(1), static_cast<Word>(i)) != 0;
    if (n->dim(i) != (reduced ? 1 : x->dim(i))) return false;
  }
  return true;
}
bool sums_products(Node n) {
  const Node x = n->src(0);
  const bool wide = dtype::is_wide(n->dtype) && same_dtype(n);
  if (!(wide || (dtype::is_sticky(n->dtype) && dtype::is_sticky(x->dtype))) || x->ndim != n->ndim ||
      x->dtype != n->src(1)->dtype || !same_shape(x, n->src(1)) || !ascending_axes(x, n->arg())) {
    return false;
  }
  for (size_t i = 0; i < n->ndim; ++i) {
    const bool summed = std::ranges::count(n->arg(), static_cast<Word>(i)) != 0;
    if (n->dim(i) != (summed ? 1 : x->dim(i))) return false;
  }
  return true;
}
bool indices_at(Node n, size_t first, Words shape) {
  return std::ranges::all_of(n->src().subspan(first), [&](Node s) {
    return dtype::is_int(s->dtype) && std::ranges::equal(s->shape(), shape);
  });
}
bool gathers(Node n) {
  return n->nsrc >= 1 && same_dtype(n) && indices_at(n, 1, n->shape()) &&
         coordinates_fit(n->src(0)->shape(), n->shape(), n->nsrc - 1u, n->arg());
}
bool scatters(Node n) {
  if (n->nsrc < 2 || n->narg < 1 || !same(n, 0) || n->src(1)->dtype != n->dtype) return false;
  const Words at = n->src(1)->shape();
  return (n->arg(0) == -1 || reduces(n->arg(0))) && indices_at(n, 2, at) &&
         coordinates_fit(n->shape(), at, n->nsrc - 2u, n->arg().subspan(1));
}
bool is_flag(Word word) { return word == 0 || word == 1; }
bool scans(Node n) {
  return same(n, 0) && n->narg == 3 && reduces(n->arg(0)) && axis_of(n, n->arg(1)) &&
         is_flag(n->arg(2));
}
bool finds_changes(Node n) {
  return n->dtype == DType::kInt32 && same_shape(n, n->src(0)) && n->narg == 2 &&
         reduces(n->arg(0)) && (info(static_cast<Op>(n->arg(0))).traits & IDEM) != 0 &&
         axis_of(n, n->arg(1));
}
bool scans_logarithms(Node n) {
  return same(n, 0) && dtype::is_float(n->dtype) && n->narg == 2 && axis_of(n, n->arg(0)) &&
         is_flag(n->arg(1));
}
bool sorts(Node n) {
  const Node x = n->src(0);
  if (n->narg != 2 || !axis_of(n, n->arg(0)) || n->dtype != DType::kInt32) return false;
  const size_t axis = static_cast<size_t>(n->arg(0));
  return same_beside(n, x, axis) && n->dim(axis) <= x->dim(axis);
}
bool sorts_values(Node n) {
  return same(n, 0) && n->narg == 2 && axis_of(n, n->arg(0)) && !dtype::is_fp8(n->dtype);
}
bool accesses(Node n, size_t most) {
  return n->nsrc >= 2 && n->nsrc <= most && n->src(0)->op == Op::kParam && scalar_index(n->src(1));
}
bool loops_from(Node n, size_t first) {
  const auto src = n->src().subspan(std::min<size_t>(first, n->nsrc));
  return std::ranges::all_of(src, [](Node s) { return s->op == Op::kRange; });
}

// Elementwise: what alu() derives.
bool fits_rule(Node n) {
  const Node last = n->src().back(), first = n->src(n->op == Op::kWhere ? 1 : 0);
  const bool floats = dtype::is_float(last->dtype);
  bool fits = first->dtype == last->dtype && last->dtype != DType::kNone;
  if (n->nsrc == 3) fits &= n->src(1)->dtype == last->dtype;
  DType result = last->dtype;
  const DTypeRule rule = info(n->op).rule;
  if (rule == DTypeRule::kFloating) fits &= floats;
  if (rule == DTypeRule::kIntegral) fits &= !floats;
  if (dtype::is_sticky(result)) fits &= (info(n->op).traits & STICKY) != 0;
  if (rule == DTypeRule::kBits64) fits &= result == DType::kUInt64;
  if (rule == DTypeRule::kInt32) fits &= result == DType::kInt32;
  if (rule == DTypeRule::kWhere) fits &= n->src(0)->dtype == DType::kBool;
  if (rule == DTypeRule::kCompare) result = DType::kBool;
  return fits && n->dtype == result;
}
bool fits_shapes(Node n) {
  return std::ranges::all_of(n->src(), [&](Node s) { return same_shape(n, s); });
}

bool canonical(Node n) {
  return n->narg == 1 && n->dtype != DType::kNone &&
         convert_word(n->arg(0), n->dtype, n->dtype) == n->arg(0);
}
bool stored(Node n) { return dtype::bits(n->dtype) != 0; }
bool numbered(Node n) { return n->dtype != DType::kNone && n->narg == 1 && n->arg(0) >= 0; }
bool counts_up(Node n) { return n->ndim == 1 && n->dtype != DType::kNone; }
bool loops(Node n) { return scalar_index(n) && n->narg == 2 && n->arg(1) >= 0; }
bool same_count(Node n) { return n->count() == n->src(0)->count(); }
bool same_as_first(Node n) { return n->nsrc >= 1 && same(n, 0); }
bool same_as_both(Node n) { return same(n, 0) && same(n, 1); }
bool flips(Node n) { return same(n, 0) && n->narg == n->ndim; }
bool casts(Node n) {
  return n->dtype != DType::kNone && n->src(0)->dtype != DType::kNone && same_shape(n, n->src(0));
}
bool same_bits(Node n) {
  return stored(n) && dtype::bits(n->dtype) == dtype::bits(n->src(0)->dtype) &&
         same_shape(n, n->src(0));
}
bool calls(Node n) { return same_as_first(n) && n->narg >= 1; }
bool runs_foreign(Node n) {
  if (n->narg != 3 || n->nsrc > Foreign::kMostOperands) return false;
  return foreign_of(n).form == ForeignForm::kArrays || std::ranges::all_of(n->src(), [&](Node x) {
           return std::ranges::equal(x->shape(), n->shape());
         });
}
bool computes_wide(Node n) {
  return n->nsrc >= 1 && n->narg >= 2 && n->arg(0) >= 0 &&
         n->arg(0) <= static_cast<Word>(WideKind::kBytes);
}
bool loads(Node n) { return accesses(n, 3) && n->ndim == 0; }
bool gates(Node n) {
  return n->nsrc < 3 || (n->src(2)->dtype == DType::kBool && n->src(2)->ndim == 0);
}
bool stores(Node n) { return n->nsrc >= 3 && accesses(n, n->nsrc); }
bool stores_value(Node n) { return n->src(2)->dtype == n->src(0)->dtype && n->src(2)->ndim == 0; }
bool stores_in_loops(Node n) { return loops_from(n, 3); }
bool folds(Node n) {
  return n->nsrc >= 2 && n->narg == 1 && reduces(n->arg(0)) && loops_from(n, 1);
}
// What is carried has a register of its dtype.
bool carries(Node n) {
  const bool linear = n->narg == 2 && n->arg(0) == static_cast<Word>(Op::kMulAcc);
  if (n->narg != 2 || !(linear || reduces(n->arg(0))) || (n->arg(1) & ~Word{1}) != 0) return false;
  const uint32_t values = linear ? 2 : 1;
  return n->nsrc == values + 1 && loops_from(n, values) && n->ndim == 0 &&
         !dtype::is_narrow_float(n->dtype) && !dtype::is_weak(n->dtype);
}
bool carries_value(Node n) {
  return same_dtype(n) && (n->nsrc == 2 || n->src(1)->dtype == n->dtype);
}
bool folds_value(Node n) { return same_dtype(n) && n->ndim == 0; }

struct Check {
  Op op;
  const char* holds;  // what the node must have
  bool (*test)(Node);
};
// clang-format off
constexpr Check kChecks[] = {
    {Op::kConst,      "one canonical word",                 canonical},
    {Op::kBuffer,     "a dtype with storage",               stored},
    {Op::kParam,      "a dtype and a slot",                 numbered},
    {Op::kIota,       "one axis and a number's dtype",      counts_up},
    {Op::kRange,      "an id and a size",                   loops},
    {Op::kReshape,    "its source's dtype",                 same_dtype},
    {Op::kReshape,    "as many elements as its source",     same_count},
    {Op::kExpand,     "its source's dtype",                 same_dtype},
    {Op::kExpand,     "its source's axes or repeated ones", grows_units},
    {Op::kPermute,    "its source's dtype",                 same_dtype},
    {Op::kPermute,    "each axis of its source once",       permutes},
    {Op::kFlip,       "its source's shape and dtype",       flips},
    {Op::kSlice,      "its source's dtype",                 same_dtype},
    {Op::kSlice,      "elements inside its source",         slices},
    {Op::kPad,        "its source's dtype",                 same_dtype},
    {Op::kPad,        "its source's shape and the padding", pads},
    {Op::kWindow,     "its source's dtype",                 same_dtype},
    {Op::kWindow,     "windows inside its source",          windows_of_source},
    {Op::kUnwindow,   "its source's dtype",                 same_dtype},
    {Op::kUnwindow,   "room for the windows of its source", unwindows},
    {Op::kCat,        "its sources one after another",      concatenates},
    {Op::kCast,       "its source's shape and a dtype",     casts},
    {Op::kBitcast,    "a dtype of its source's size",       same_bits},
    {Op::kReduce,     "its source's dtype",                 same_dtype},
    {Op::kReduce,     "size 1 along its axes",              reduces_axes},
    {Op::kDot,        "exact operands of one shape",        sums_products},
    {Op::kWide,       "a computation of wide floats",       computes_wide},
    {Op::kGather,     "coordinates inside its source",      gathers},
    {Op::kScatter,    "coordinates inside its target",      scatters},
    {Op::kScan,       "a reduction along an axis",          scans},
    {Op::kScanPlace,  "a choice along an axis, int32",      finds_changes},
    {Op::kLogScan,    "floats along an axis",               scans_logarithms},
    {Op::kArgsort,    "positions along an axis",            sorts},
    {Op::kSort,       "elements along an axis",             sorts_values},
    {Op::kContiguous, "its source's shape and dtype",       same_as_first},
    {Op::kDetach,     "its source's shape and dtype",       same_as_first},
    {Op::kAssign,     "equal shapes and dtypes",            same_as_both},
    {Op::kAfter,      "its first source's shape and dtype", same_as_first},
    {Op::kCall,       "its body's shape and dtype",         calls},
    {Op::kForeign,    "the shape of its elements",          runs_foreign},
    {Op::kLoad,       "a param, an index and a gate",       loads},
    {Op::kLoad,       "its param's dtype",                  same_dtype},
    {Op::kLoad,       "a bool gate",                        gates},
    {Op::kStore,      "a param and an index",               stores},
    {Op::kStore,      "a value of its param's dtype",       stores_value},
    {Op::kStore,      "ranges as its loops",                stores_in_loops},
    {Op::kFold,       "a reduction over ranges",            folds},
    {Op::kFold,       "its value's dtype",                  folds_value},
    {Op::kCarry,      "values along a range",               carries},
    {Op::kCarry,      "its values' dtype",                  carries_value},
};
// clang-format on

// Loops of a kernel: which ranges each node leaves free, as bits.
class Loops {
 public:
  explicit Loops(Memory& memory) : bits_(memory), free_(memory) {}
  // Sources come before users. fault: what the node lacks.
  Status visit(Node node, const char** fault) {
    uint64_t free = 0, bound = 0;
    const size_t first_loop = node->op == Op::kStore ? 3 : node->op == Op::kFold ? 1 : node->nsrc;
    if (node->op == Op::kRange) ASTER_TRY(bit_of(node, &free));
    for (size_t i = 0; i < node->nsrc; ++i) {
      (i < first_loop ? free : bound) |= free_.get(node->src(i), 0);
    }
    if (node->op == Op::kStore && (free & ~bound) != 0) *fault = "loops for the ranges it uses";
    return free_.set(node, free & ~bound);
  }

 private:
  Status bit_of(Node range, uint64_t* out) {
    if (!bits_.contains(range)) ASTER_TRY(bits_.set(range, static_cast<uint32_t>(bits_.size())));
    const uint32_t bit = bits_.get(range, 0);
    *out = bit < 64 ? uint64_t{1} << bit : 0;  // loops past the 64th go unchecked
    return kOk;
  }
  Map<Node, uint32_t> bits_;
  Map<Node, uint64_t> free_;
};

}  // namespace

const char* find_fault(Node node, Level level) {
  const OpInfo& row = info(node->op);
  if (!(level == Level::kTensor ? row.tensor : row.kernel)) return "an operation of this level";
  if (row.sources != kAny && node->nsrc != static_cast<uint32_t>(row.sources)) {
    return "its number of sources";
  }
  if (level == Level::kKernel && (dtype::is_sticky(node->dtype) || dtype::is_wide(node->dtype)))
    return "a dtype of kernels";
  if (level == Level::kKernel && node->ndim != 0 && node->op != Op::kParam) return "a scalar";
  if (is_alu(node->op)) {
    if (!fits_rule(node)) return "dtypes that go together";
    return fits_shapes(node) ? nullptr : "equal shapes";
  }
  for (const Check& check : kChecks) {
    if (check.op == node->op && !check.test(node)) return check.holds;
  }
  return nullptr;
}

Status verify(Graph& g, Node root, Level level) {
  Vec<Node> order(g.memory());
  ASTER_TRY(toposort(&order, std::array{root}));
  Loops loops(g.memory());
  for (size_t i = 0; i < order.size(); ++i) {
    const Node node = order[i];
    const char* fault = g.owns(node) ? find_fault(node, level) : "a place in this graph";
    if (fault == nullptr && level == Level::kKernel) ASTER_TRY(loops.visit(node, &fault));
    if (fault != nullptr) {
      return ASTER_FAIL(kINTERNAL, "%%%zu %s %s has not %s", i, info(node->op).name,
                        brief(node).text, fault);
    }
  }
  return kOk;
}

}  // namespace aster::uop
