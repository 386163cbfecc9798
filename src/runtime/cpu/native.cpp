#include "runtime/cpu/native.h"

namespace aster::runtime::cpu::native {
namespace {

constexpr Implementation kImplementations[] = {
    {uop::Op::kScatter, "scatter", prepare_scatter, run_scatter},
    {uop::Op::kScan, "scan", prepare_scan, run_scan},
    {uop::Op::kScanPlace, "scan_place", prepare_scan, run_scan_place},
    {uop::Op::kLogScan, "log_scan", prepare_scan, run_log_scan},
    {uop::Op::kArgsort, "argsort", prepare_argsort, run_argsort},
    {uop::Op::kSort, "sort", prepare_sort, run_sort},
};

}  // namespace

const Implementation* find(uop::Op op) {
  for (const Implementation& row : kImplementations) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

}  // namespace aster::runtime::cpu::native
