// Runs that are given what the one before was: what was checked, planned and redirected for that
// one still holds, and the launches are all that is left to do.
#include <cstring>

#include "base/faults.h"
#include "engine/program.h"

namespace aster::engine {
namespace {

bool is_only_launches(const Program& p) {
  return !p.away && !p.interprets && !p.writes_state && p.assigned.empty() && p.drawn.empty() &&
         p.renewed.empty() && p.variables.empty() && p.expected <= kStepNs &&
         p.context->interrupts().ask == nullptr;
}

// The same descriptor, and what it points to is as it has to be.
bool is_again(const Program& program, const Array& array, const aster_ml_tensor& given,
              const aster_ml_tensor& last) {
  return std::memcmp(&given, &last, sizeof(given)) == 0 &&
         is_row_major(program.shape(array), given);
}

}  // namespace

bool is_row_major(uop::Words shape, const aster_ml_tensor& given) {
  bool is = true;
  size_t count = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const size_t dim = given.shape[axis];
    is &= dim == static_cast<size_t>(shape[axis]) &&
          (dim == 1 || given.strides[axis] == static_cast<ptrdiff_t>(count));
    count *= dim;
  }
  return is;
}

Status note_run(const Program& program, Workspace& workspace,
                std::span<const aster_ml_tensor> inputs, std::span<const aster_ml_tensor> outputs) {
  workspace.last.clear();
  if (!is_only_launches(program)) return kOk;
  for (const int64_t staged : workspace.staged) {
    if (staged >= 0) return kOk;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Result& result = program.results[i];
    if (result.where != Where::kResult || outputs[i].storage.data == nullptr ||
        !(workspace.current[program.inputs.size() + i] == given_of(result.array, outputs[i])))
      return kOk;
  }
  ASTER_TRY(workspace.last.append(inputs.data(), inputs.size()));
  return workspace.last.append(outputs.data(), outputs.size());
}

bool is_given_again(const Program& program, const Workspace& workspace,
                    std::span<const aster_ml_tensor> inputs,
                    std::span<const aster_ml_tensor> outputs) {
  const aster_ml_tensor* last = workspace.last.data();
  if (workspace.last.empty() || program.trace->function != nullptr) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_again(program, program.inputs[i], inputs[i], *last++)) return false;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_again(program, program.results[i].array, outputs[i], *last++)) return false;
  }
  return true;
}

Status run_again(const Program& program, Workspace& workspace) {
  char* arena = static_cast<char*>(workspace.memory->data);
  Faults faults;
  for (size_t i = 0; i < program.entries.size(); ++i) {
    launch_all(*program.entries[i].exe, workspace.pointers.data() + program.first_pointer[i], arena,
               program.threads);
  }
  ASTER_TRY(faults.outcome(kOk));
  workspace.runs.add();
  return kOk;
}

}  // namespace aster::engine
