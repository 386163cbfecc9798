#include "engine/conditions.h"

#include "uop/ops.h"

namespace aster::engine {

using uop::Node;
using uop::Op;
using uop::Word;

Status Conditions::take_operation(Step* step, Node node, const Map<Node, uint32_t>& made) {
  if (uop::is_const(node)) {
    step->number = node->arg(0);
    return kOk;
  }
  if (!uop::is_alu(node->op) || node->nsrc == 0 || node->nsrc > 3)
    return ASTER_FAIL(kINTERNAL, "a condition with %s", uop::info(node->op).name);
  step->from = node->src(node->nsrc - 1u)->dtype;
  for (size_t i = 0; i < node->nsrc; ++i) step->of[i] = *made.find(node->src(i));
  return kOk;
}

uint32_t Conditions::operands(const Step& step) {
  if (step.op == Op::kConst || step.op == Op::kRange) return 0;
  return static_cast<uint32_t>(uop::info(step.op).sources);
}

Status Conditions::evaluate(Vec<Word>* out, std::span<const int64_t> values) const {
  Vec<Word>& words = *out;
  ASTER_TRY(words.resize(steps_.size(), 0));
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.op == Op::kConst) {
      words[i] = step.number;
    } else if (step.op == Op::kRange) {
      words[i] = values[step.of[0]] - step.number;
    } else if (divides(step.op) && words[step.of[1]] == 0) {
      return ASTER_FAIL(kRANGE, "division by zero in a size");
    } else {
      const Word operands[] = {words[step.of[0]], words[step.of[1]], words[step.of[2]]};
      words[i] = uop::evaluate(step.op, step.from, step.to, operands);
    }
  }
  return kOk;
}

Status Conditions::find_broken(Broken* out, std::span<const int64_t> values) const {
  Vec<Word> words(steps_.memory());
  ASTER_TRY(evaluate(&words, values));
  for (const Condition& condition : all_) {
    const int64_t a = words[condition.a], b = words[condition.b];
    if (a <= b) continue;
    *out = {true, condition.least, condition.least ? b : a, condition.least ? a : b};
    return kOk;
  }
  *out = {};
  return kOk;
}

}  // namespace aster::engine
