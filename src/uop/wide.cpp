#include "uop/wide.h"

#include <algorithm>

#include "flt/apply.h"

namespace aster::uop {
namespace {

struct Row {
  Op op;
  int32_t code;
};
constexpr Row kRows[] = {
    {Op::kNeg, ASTER_ML_FLT_NEG},     {Op::kAbs, ASTER_ML_FLT_ABS},
    {Op::kRecip, ASTER_ML_FLT_RECIP}, {Op::kSqrt, ASTER_ML_FLT_SQRT},
    {Op::kExp, ASTER_ML_FLT_EXP},     {Op::kExp2, ASTER_ML_FLT_EXP2},
    {Op::kLog, ASTER_ML_FLT_LOG},     {Op::kLog2, ASTER_ML_FLT_LOG2},
    {Op::kSin, ASTER_ML_FLT_SIN},     {Op::kCos, ASTER_ML_FLT_COS},
    {Op::kTanh, ASTER_ML_FLT_TANH},   {Op::kErf, ASTER_ML_FLT_ERF},
    {Op::kTrunc, ASTER_ML_FLT_TRUNC}, {Op::kFloor, ASTER_ML_FLT_FLOOR},
    {Op::kCeil, ASTER_ML_FLT_CEIL},   {Op::kRound, ASTER_ML_FLT_ROUND},
    {Op::kAdd, ASTER_ML_FLT_ADD},     {Op::kSub, ASTER_ML_FLT_SUB},
    {Op::kMul, ASTER_ML_FLT_MUL},     {Op::kDiv, ASTER_ML_FLT_DIV},
    {Op::kMax, ASTER_ML_FLT_MAX},     {Op::kMin, ASTER_ML_FLT_MIN},
    {Op::kPow, ASTER_ML_FLT_POW},     {Op::kMulAcc, ASTER_ML_FLT_FMA},
    {Op::kCmpLt, ASTER_ML_FLT_CMPLT}, {Op::kCmpLe, ASTER_ML_FLT_CMPLE},
    {Op::kCmpEq, ASTER_ML_FLT_CMPEQ}, {Op::kCmpNe, ASTER_ML_FLT_CMPNE},
};

Node nil(Status) { return nullptr; }

}  // namespace

int32_t wide_operation(Op op) {
  const Row* const row = std::ranges::find(kRows, op, &Row::op);
  return row == std::end(kRows) ? 0 : row->code;
}

Node Graph::wide_function(int32_t code, Nodes operands) {
  const flt::Operation* const row = flt::operation_of(code);
  if (row == nullptr || row->test || static_cast<size_t>(row->arity) != operands.size()) {
    return nil(ASTER_FAIL(kARGUMENT, "function %d of %zu wide floats", code, operands.size()));
  }
  for (Node x : operands) {
    if (x == nullptr) return nullptr;
    if (!dtype::is_wide(x->dtype) || x->dtype != operands[0]->dtype)
      return nil(ASTER_FAIL(kDTYPE, "a wide function of %s", brief(x).text));
    if (!std::ranges::equal(x->shape(), operands[0]->shape()))
      return nil(
          ASTER_FAIL(kSHAPE, "a function of %s and %s", brief(operands[0]).text, brief(x).text));
  }
  return make(Op::kWide, operands[0]->dtype, operands,
              std::array<Word, 2>{static_cast<Word>(WideKind::kApply), code}, operands[0]->shape());
}

}  // namespace aster::uop
