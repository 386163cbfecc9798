#include "flt/product.h"
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
  reference::run_wide({plan.words.data(), plan.tasks, plan.nanoseconds, &plan.ran}, operands, begin,
                      end);
}

How how_wide(const Plan& plan) {
  const uint32_t ran = plan.ran.load(std::memory_order_relaxed);
  constexpr auto bit = [](flt::Algorithm a) { return uint32_t{1} << static_cast<int>(a); };
  constexpr uint32_t kResidues = bit(flt::Algorithm::kResidues),
                     kNaive = bit(flt::Algorithm::kNaive);
  switch (static_cast<uop::WideKind>(plan.words[0])) {
    case uop::WideKind::kMatmul:
      return {ran == kResidues ? "residues"
              : ran == kNaive  ? "naive"
              : ran == 0       ? ""
                               : "residues, naive",
              true};
    case uop::WideKind::kFold:
      return {"in order", false};
    case uop::WideKind::kApply:
    case uop::WideKind::kCast:
      return {"each", true};
    default:
      return {"exact sum", true};
  }
}

}  // namespace aster::runtime::cpu::native
