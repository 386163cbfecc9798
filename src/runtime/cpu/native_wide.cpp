#include "runtime/cpu/native.h"
#include "runtime/reference/wide.h"

namespace aster::runtime::cpu::native {

bool accepts_wide(uop::Node node) { return uop::wide_kind(node) != uop::WideKind::kBytes; }

bool reads_wide(uop::Node node, size_t argument, std::span<const int64_t> view) {
  return reference::reads_wide(node, argument, view);
}

Status prepare_wide(Plan* out, uop::Node node, std::span<const int64_t> views) {
  reference::WidePlan plan;
  ASTER_TRY(reference::plan_wide(&plan, &out->words, node, views));
  out->tasks = plan.tasks;
  out->nanoseconds = plan.nanoseconds;
  return kOk;
}

void run_wide(const Plan& plan, void* const* operands, void*, int64_t begin, int64_t end) {
  reference::run_wide({plan.words.data(), plan.tasks, plan.nanoseconds}, operands, begin, end);
}

}  // namespace aster::runtime::cpu::native
