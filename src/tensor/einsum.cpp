// Einstein's summation: the formula read, then operands contracted from left to right by matrix
// products.
#include <algorithm>
#include <array>

#include "aster_ml/linalg.h"
#include "tensor/linalg.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;
using uop::Op;

// Labels of axes: a letter's code; from kEllipsis on, the axes of "..." counted from the last.
constexpr Word kEllipsis = 128;
constexpr Word kLabels = kEllipsis + Dims::kMost;

struct Term {
  Node x;
  Dims labels;
};

bool has(const Dims& labels, Word label) {
  return std::find(labels.at, labels.at + labels.count, label) != labels.at + labels.count;
}

class Einsum {
 public:
  Einsum(Graph& g, const char* formula, Nodes operands)
      : g_(g), formula_(formula), operands_(operands), terms_(g.memory()) {}

  Status run(Node* out, Build& build, const Input* inputs, DType dtype) {
    ASTER_TRY(parse());
    ASTER_TRY(take_wholes(build, inputs));
    for (Term& term : terms_) {
      ASTER_TRY(take_diagonals(term));
      ASTER_TRY(measure(term));
    }
    for (Term& term : terms_) drop_repeated(term);
    DType common = operands_[0]->dtype;
    for (Node x : operands_) common = dtype::least_upper(common, x->dtype);
    common = g_.strong(common);
    const bool widens = dtype == DType::kNone || dtype::least_upper(common, dtype) == dtype;
    // Sums of integers are wider than they are, and a dtype that loses something rounds each
    // product: there everything is multiplied first.
    products_ = dtype::is_float(common) && widens;
    if (products_ && dtype != DType::kNone) common = dtype;
    for (Term& term : terms_) term.x = cast(g_, term.x, common);
    Term& total = terms_[0];
    for (size_t i = 1; i < terms_.size(); ++i) contract(total, terms_[i], i);
    *out = arrange(total, dtype);
    return *out == nullptr ? last_failure() : kOk;
  }

 private:
  Status bad(const char* why) const {
    return ASTER_FAIL(kARGUMENT, "einsum \"%s\": %s", formula_, why);
  }

  // Reads one list up to ',', '-' or the end; ndim tells how many axes "..." has, if it is known.
  Status parse_list(const char** at, Dims* labels, const Node* operand) {
    size_t dots = SIZE_MAX;
    const char* p = *at;
    for (; *p != '\0' && *p != ',' && *p != '-'; ++p) {
      if (*p == ' ') continue;
      if (*p == '.') {
        if (p[1] != '.' || p[2] != '.' || dots != SIZE_MAX)
          return bad("dots stand in threes, once");
        dots = labels->size();
        p += 2;
        continue;
      }
      if ((*p | 0x20) < 'a' || (*p | 0x20) > 'z') return bad("an axis is a letter");
      if (labels->size() == Dims::kMost) return bad("too many axes");
      labels->push(*p);
    }
    *at = p;
    if (operand != nullptr) {
      const size_t given = labels->size(), ndim = (*operand)->ndim;
      if (dots == SIZE_MAX ? given != ndim : given > ndim) {
        return ASTER_FAIL(kSHAPE, "einsum \"%s\" of %s: %zu letters", formula_,
                          brief(*operand).text, given);
      }
      if (dots != SIZE_MAX) dotted_ = std::max(dotted_, ndim - given);
      return insert_dots(labels, dots, ndim - given);
    }
    return insert_dots(labels, dots, dots == SIZE_MAX ? 0 : dotted_);
  }
  static Status insert_dots(Dims* labels, size_t at, size_t count) {
    if (count == 0) return kOk;
    Dims all;
    for (size_t i = 0; i < at; ++i) all.push((*labels)[i]);
    for (size_t i = count; i-- > 0;) all.push(kEllipsis + static_cast<Word>(i));
    for (size_t i = at; i < labels->size(); ++i) all.push((*labels)[i]);
    *labels = all;
    return kOk;
  }

  Status parse() {
    const char* at = formula_;
    for (size_t i = 0; i < operands_.size(); ++i) {
      Term term{operands_[i], {}};
      ASTER_TRY(parse_list(&at, &term.labels, &operands_[i]));
      ASTER_TRY(terms_.push(term));
      const bool last = i + 1 == operands_.size();
      if (*at != ',' ? !last : last) {
        return ASTER_FAIL(kARGUMENT, "einsum \"%s\" of %zu operands", formula_, operands_.size());
      }
      if (*at == ',') ++at;
    }
    if (*at == '\0') return imply_result();
    if (at[1] != '>') return bad("an arrow is \"->\"");
    at += 2;
    ASTER_TRY(parse_list(&at, &result_, nullptr));
    if (*at != '\0') return bad("one result");
    for (size_t i = 0; i < result_.size(); ++i) {
      bool known = false, twice = false;
      for (const Term& term : terms_) known |= has(term.labels, result_[i]);
      for (size_t k = 0; k < i; ++k) twice |= result_[k] == result_[i];
      if (!known) return bad("the result has a letter that no operand has");
      if (twice) return bad("the result has a letter twice");
    }
    return kOk;
  }
  Status imply_result() {
    for (size_t i = dotted_; i-- > 0;) result_.push(kEllipsis + static_cast<Word>(i));
    for (Word letter = 'A'; letter <= 'z'; ++letter) {
      size_t count = 0;
      for (const Term& term : terms_) {
        count += static_cast<size_t>(
            std::count(term.labels.at, term.labels.at + term.labels.count, letter));
      }
      if (count == 1) result_.push(letter);
    }
    return kOk;
  }

  // Sizes that are variables' (sized.h): the whole operands, which have 0 beyond the sizes of axes
  // that are summed. Nothing where axes with one label are not of one size whatever the values.
  Status take_wholes(Build& build, const Input* inputs) {
    if (!build.sized()) return kOk;
    Node sizes[kLabels] = {};
    Word least[kLabels];
    std::fill_n(least, kLabels, INT64_MAX);
    const auto is_one = [](Node size) { return !is_bound(size) && uop::const_int(size) == 1; };
    for (size_t i = 0; i < terms_.size(); ++i) {
      const Dims& labels = terms_[i].labels;
      Sizes own;
      ASTER_TRY(sized::sizes_of(&own, build, inputs[i]));
      for (size_t k = 0; k < labels.size(); ++k) {
        const auto label = static_cast<size_t>(labels[k]);
        const Node other =
            own[static_cast<size_t>(std::find(labels.at, labels.at + k, labels[k]) - labels.at)];
        if (other != own[k]) return kOk;  // of a diagonal
        if (sizes[label] == nullptr || is_one(sizes[label])) sizes[label] = own[k];
        if (sizes[label] != own[k] && !is_one(own[k])) return kOk;
        if (is_bound(own[k]))
          least[label] = std::min(least[label], sized::whole(inputs[i])->dim(k));
      }
    }
    for (size_t i = 0; i < terms_.size(); ++i) {
      Term& term = terms_[i];
      Sizes own;
      Dims summed;
      ASTER_TRY(sized::sizes_of(&own, build, inputs[i]));
      for (size_t k = 0; k < own.size(); ++k) {
        if (!has(result_, term.labels[k])) summed.push(static_cast<Word>(k));
      }
      ASTER_TRY(
          sized::masked(&term.x, build, sized::whole(inputs[i]), own, summed, sized::Fill::kZero));
      for (size_t k = 0; k < own.size(); ++k) {
        if (is_bound(own[k]))
          term.x = sized::cut(g_, term.x, k, least[static_cast<size_t>(term.labels[k])]);
      }
      if (term.x == nullptr || (term.x = strong(g_, term.x)) == nullptr) return last_failure();
    }
    Sizes out;
    for (size_t i = 0; i < result_.size(); ++i) out.push(sizes[static_cast<size_t>(result_[i])]);
    build.take_rule(out);
    return kOk;
  }

  // Axes with one label become one: the diagonal, elements n + 1 apart of the two axes joined.
  Status take_diagonals(Term& term) {
    for (size_t i = 0; i < term.labels.size(); ++i) {
      for (size_t k = i + 1; k < term.labels.size(); ++k) {
        if (term.labels[k] != term.labels[i]) continue;
        const Word n = term.x->dim(i);
        if (term.x->dim(k) != n) {
          return ASTER_FAIL(kSHAPE, "einsum \"%s\" of %s: axes %zu and %zu", formula_,
                            brief(term.x).text, i, k);
        }
        Dims order, labels;
        for (size_t axis = 0; axis < term.labels.size(); ++axis) {
          if (axis == i || axis == k) continue;
          order.push(static_cast<Word>(axis));
          labels.push(term.labels[axis]);
        }
        labels.push(term.labels[i]);
        order.push(static_cast<Word>(i));
        order.push(static_cast<Word>(k));
        const Node last = permute(g_, term.x, order);
        if (last == nullptr) return last_failure();
        Dims joined(last->shape().first(last->ndim - 2u)), size = joined;
        joined.push(n * n);
        size.push(n);
        Dims start(joined.size(), 0), step(joined.size(), 1);
        step[joined.size() - 1] = n + 1;
        term.x = g_.slice(strong(g_, reshape(g_, last, joined)), start, step, size);
        if (term.x == nullptr) return last_failure();
        term.labels = labels;
        i = static_cast<size_t>(-1);  // axes moved: from the start again
        break;
      }
    }
    return kOk;
  }

  Status measure(const Term& term) {
    for (size_t i = 0; i < term.labels.size(); ++i) {
      Word& size = sizes_[static_cast<size_t>(term.labels[i])];
      const Word dim = term.x->dim(i);
      if (size == 0 || size == 2) size = dim + 1;  // one more than the size; 0: not seen
      if (dim + 1 != size && dim != 1) {
        return ASTER_FAIL(kSHAPE, "einsum \"%s\" of %s: axis %zu is %lld elsewhere", formula_,
                          brief(term.x).text, i, static_cast<long long>(size - 1));
      }
    }
    return kOk;
  }
  Word size_of(Word label) const { return sizes_[static_cast<size_t>(label)] - 1; }

  // Axes of size 1 that another operand makes longer are the same as none.
  void drop_repeated(Term& term) {
    Dims shape, labels;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (term.x == nullptr || term.x->dim(i) != size_of(term.labels[i])) continue;
      shape.push(term.x->dim(i));
      labels.push(term.labels[i]);
    }
    if (labels.size() != term.labels.size()) term.x = reshape(g_, term.x, shape);
    term.labels = labels;
  }

  // Whether an axis is still needed once the first operands up to this one are contracted.
  bool needed(Word label, size_t operand) const {
    bool needed = !products_ || has(result_, label);
    for (size_t i = operand + 1; i < terms_.size(); ++i) needed |= has(terms_[i].labels, label);
    return needed;
  }

  // x with its axes in the order of the lists given, those of each list joined where merged.
  Node ordered(const Term& term, const Dims& batch, const Dims& a, const Dims& b, bool merged) {
    if (term.x == nullptr) return nullptr;
    Dims order, shape;
    Word rows = 1, columns = 1;
    for (const Dims* list : {&batch, &a, &b}) {
      for (size_t i = 0; i < list->size(); ++i) {
        const Word label = (*list)[i];
        const Word* at = std::find(term.labels.at, term.labels.at + term.labels.count, label);
        order.push(at - term.labels.at);
        if (list == &batch || !merged) shape.push(size_of(label));
        if (list == &a) rows *= size_of(label);
        if (list == &b) columns *= size_of(label);
      }
    }
    const Node x = g_.permute(term.x, order);
    if (!merged) return x;
    shape.push(rows);
    shape.push(columns);
    return g_.reshape(x, shape);
  }

  void sum_unneeded(Term& term, const Dims& other, size_t operand) {
    Dims axes, kept;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      const Word label = term.labels[i];
      (has(other, label) || needed(label, operand) ? kept : axes)
          .push(has(other, label) || needed(label, operand) ? label : static_cast<Word>(i));
    }
    if (axes.size() == 0) return;
    term.x = sum(g_, term.x, {axes.size(), axes.at}, false);
    term.labels = kept;
  }

  // a = a with b.
  void contract(Term& a, Term& b, size_t operand) {
    if (products_) {
      sum_unneeded(a, b.labels, operand);
      sum_unneeded(b, a.labels, operand);
    }
    Dims batch, left, right, inner;
    for (size_t i = 0; i < a.labels.size(); ++i) {
      const Word label = a.labels[i];
      Dims& list = !has(b.labels, label) ? left : needed(label, operand) ? batch : inner;
      list.push(label);
    }
    for (size_t i = 0; i < b.labels.size(); ++i) {
      if (!has(a.labels, b.labels[i])) right.push(b.labels[i]);
    }
    Node product = nullptr;
    if (inner.size() == 0) {
      // Nothing is summed: [batch, left, 1..] * [batch, 1.., right].
      const Node x = ordered(a, batch, left, inner, false),
                 y = ordered(b, batch, inner, right, false);
      Dims wide, other;
      for (size_t i = 0; i < batch.size(); ++i) wide.push(size_of(batch[i]));
      other = wide;
      for (size_t i = 0; i < left.size(); ++i) wide.push(size_of(left[i])), other.push(1);
      for (size_t i = 0; i < right.size(); ++i) wide.push(1), other.push(size_of(right[i]));
      product = binary(g_, g_.reshape(x, wide), g_.reshape(y, other), ops::mul);
    } else {
      // The operand whose axes come first in the result goes left, so that nothing is turned
      // afterwards.
      Term *first = &a, *second = &b;
      if (goes_first(right, left)) {
        std::swap(first, second);
        std::swap(left, right);
      }
      product = matmul(g_, ordered(*first, batch, left, inner, true),
                       ordered(*second, batch, inner, right, true));
      Dims shape;
      for (const Dims* list : {&batch, &left, &right}) {
        for (size_t i = 0; i < list->size(); ++i) shape.push(size_of((*list)[i]));
      }
      product = g_.reshape(product, shape);
    }
    a.x = product;
    a.labels = batch;
    for (const Dims* list : {&left, &right}) {
      for (size_t i = 0; i < list->size(); ++i) a.labels.push((*list)[i]);
    }
  }
  bool goes_first(const Dims& a, const Dims& b) const {
    for (size_t i = 0; i < result_.size(); ++i) {
      if (has(b, result_[i])) return false;
      if (has(a, result_[i])) return true;
    }
    return false;
  }

  // What is left over summed, the axes in the result's order.
  Node arrange(const Term& total, DType dtype) {
    if (total.x == nullptr) return nullptr;
    Dims axes, kept, order;
    for (size_t i = 0; i < total.labels.size(); ++i) {
      if (has(result_, total.labels[i])) {
        kept.push(total.labels[i]);
      } else {
        axes.push(static_cast<Word>(i));
      }
    }
    Node x = dtype == DType::kNone ? total.x : cast(g_, total.x, dtype);
    if (!products_ && dtype != DType::kNone) {
      const Expr all = reduce(Op::kAdd, Expr{&g_, x}, axes);
      x = drop_axes(g_, all.n, axes);
    } else if (axes.size() != 0 || !products_) {
      x = sum(g_, x, {axes.size(), axes.at}, false);
    }
    for (size_t i = 0; i < result_.size(); ++i) {
      order.push(std::find(kept.at, kept.at + kept.count, result_[i]) - kept.at);
    }
    return x == nullptr ? nullptr : g_.permute(x, order);
  }

  Graph& g_;
  const char* formula_;
  Nodes operands_;
  Vec<Term> terms_;
  Dims result_;
  size_t dotted_ = 0;  // axes of the longest "..."
  bool products_ = false;
  Word sizes_[kLabels] = {};  // by label, one more than the size; 0 where it does not occur
};

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_lazy_einsum(aster_ml_lazy* out, const char* formula,
                             const aster_ml_lazy* const* tensors, size_t count, int32_t dtype) {
  ASTER_API();
  Build build(out, tensors, count);
  ASTER_TRY(build.status());
  if (formula == nullptr) return ASTER_FAIL(kARGUMENT, "formula is a null pointer");
  DType to;
  ASTER_TRY(dtype_argument(&to, dtype, DType::kNone));
  aster::Vec<Node> operands(build.context().heap());
  for (size_t i = 0; i < count; ++i) {
    ASTER_TRY(operands.push(strong(build.graph(), node(tensors[i]))));
  }
  for (Node operand : operands) {
    if (operand == nullptr) return aster::last_failure();
  }
  Node result = nullptr;
  Einsum sum(build.graph(), formula, {operands.data(), operands.size()});
  ASTER_TRY(sum.run(&result, build, tensors, to));
  return build.finish(result);
}
