#include "runtime/cpu/native.h"

#include "runtime/reference/evaluate.h"
#include "runtime/reference/strip_program.h"
#include "uop/foreign.h"

namespace aster::runtime::cpu::native {
namespace {

using uop::Node;
using uop::Op;

bool row_major(Node node, size_t argument, std::span<const int64_t> view) {
  const uop::Words shape = node->src(argument)->shape();
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && view[1 + i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

bool from_start(Node node, size_t argument, std::span<const int64_t> view) {
  return view[0] == 0 && row_major(node, argument, view);
}

// Elements in the order of memory, some of them repeated; what is written to as a whole.
bool in_order(Node node, size_t argument, std::span<const int64_t> view) {
  if (argument == 0) return from_start(node, argument, view);
  const uop::Words shape = node->src(argument)->shape();
  int64_t before = INT64_MAX;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t stride = view[1 + i];
    if (shape[i] == 1 || stride == 0) continue;
    if (stride > before) return false;
    before = stride;
  }
  return true;
}

bool reads_anyhow(Node, size_t, std::span<const int64_t>) { return true; }

constexpr Implementation kImplementations[] = {
    {Op::kScatter, "scatter", nullptr, nullptr, in_order, prepare_scatter, run_scatter},
    {Op::kArgsort, "argsort", nullptr, nullptr, from_start, prepare_argsort, run_argsort},
    {Op::kSort, "sort", nullptr, cost_sort, from_start, prepare_sort, run_sort},
    {Op::kSort, "sort", accepts_wide_sort, cost_wide_sort, from_start, prepare_wide_sort, run_sort},
    {Op::kForeign, "kernel", nullptr, nullptr, reads_foreign, prepare_foreign, run_foreign},
    {Op::kWide, "wide", accepts_wide, nullptr, reads_wide, prepare_wide, run_wide, how_wide},
    {Op::kWide, "bytes", accepts_sticky_matmul, nullptr, reads_anyhow, prepare_sticky_matmul,
     run_sticky_matmul, how_sticky_matmul},
};

}  // namespace

Plan::~Plan() {
  if (foreign != nullptr) foreign->release();
  words.memory().destroy(evaluated);
  words.memory().destroy(strips);
}

const char* Plan::name() const { return foreign != nullptr ? foreign->name : implementation->name; }

How Plan::how() const {
  return implementation->how != nullptr ? implementation->how(*this) : How{name(), false};
}

const Implementation* cheapest(std::span<const Implementation> rows, Node node) {
  const Implementation *best = nullptr, *first = nullptr;
  double least = 0;
  for (const Implementation& row : rows) {
    if (row.op != node->op) continue;
    if (first == nullptr) first = &row;
    if (row.accepts != nullptr && !row.accepts(node)) continue;
    const double cost = row.cost != nullptr ? row.cost(node) : 0;
    if (best != nullptr && cost >= least) continue;
    best = &row;
    least = cost;
  }
  return best != nullptr ? best : first;
}

const Implementation* find(Node node) { return cheapest(kImplementations, node); }

Status prepare(Plan* out, Node node, std::span<const int64_t> views) {
  out->implementation = find(node);
  return out->implementation->prepare(out, node, views);
}

}  // namespace aster::runtime::cpu::native
