// Programs and their workspaces: their life, and runs.
#include "engine/program.h"

#include <algorithm>
#include <cstdio>

#include "device/device.h"

namespace aster::engine {

using buffer::Storage;

namespace {

void release_program(Program* program) {
  if (--program->holders != 0) return;
  Heap& heap = program->context->heap();
  for (Entry& entry : program->entries) entry.exe->release();
  for (Storage* storage : program->kept) buffer::storage_release(storage);
  heap.destroy(program);
}

}  // namespace

void destroy_workspace(Heap& heap, Workspace* workspace) {
  buffer::storage_release(workspace->memory);
  buffer::storage_release(workspace->staging);
  heap.destroy(workspace);
}

void free_workspace(HandleObject* object) {
  auto* workspace = static_cast<Workspace*>(object);
  Program* program = workspace->program;
  destroy_workspace(workspace->context->heap(), workspace);
  release_program(program);
}

void free_program(HandleObject* object) {
  auto* program = static_cast<Program*>(object);
  if (program->own != nullptr) destroy_workspace(program->context->heap(), program->own);
  program->own = nullptr;
  release_program(program);
}

Status fill_workspace(Workspace* workspace, Program& program) {
  ASTER_TRY(buffer::storage_create(&workspace->memory, *program.context,
                                   static_cast<size_t>(program.bytes), 0));
  char* memory = static_cast<char*>(workspace->memory->data);
  for (const Source& source : program.sources) {
    const bool inside = source.where == Where::kWorkspace || source.where == Where::kResult;
    ASTER_TRY(workspace->pointers.push(inside ? memory + source.offset : source.fixed));
  }
  ASTER_TRY(workspace->current.resize(program.patched(), nullptr));
  ASTER_TRY(workspace->given.resize(program.patched(), nullptr));
  ASTER_TRY(workspace->staged.resize(program.inputs.size(), -1));
  ASTER_TRY(workspace->late.resize(program.results.size(), 0));
  for (size_t i = 0; i < program.results.size(); ++i) {
    const Result& result = program.results[i];
    if (result.where == Where::kResult)
      workspace->current[program.inputs.size() + i] = memory + result.offset;
  }
  return kOk;
}

namespace {

void redirect(const Program& program, Workspace& workspace, size_t which, void* to) {
  if (workspace.current[which] == to) return;
  workspace.current[which] = to;
  for (uint32_t i = program.patch_start[which]; i < program.patch_start[which + 1]; ++i) {
    const Patch& patch = program.patches[i];
    workspace.pointers[patch.pointer] = static_cast<char*>(to) + patch.offset;
  }
}

// Memory of a result after a run.
void* result_data(const Program& program, const Workspace& workspace, size_t i) {
  const Result& result = program.results[i];
  if (result.where == Where::kInput) {
    const Array& input = program.inputs[result.input];
    return static_cast<char*>(workspace.current[result.input]) +
           (result.array.offset - input.offset);
  }
  if (result.where == Where::kResult) return workspace.current[program.inputs.size() + i];
  if (result.where == Where::kWorkspace) {
    // Another result on the same storage may have been redirected.
    for (size_t other = 0; other < program.results.size(); ++other) {
      if (program.results[other].where == Where::kResult &&
          program.results[other].array.storage == result.array.storage) {
        return static_cast<char*>(workspace.current[program.inputs.size() + other]) +
               result.array.offset;
      }
    }
    return static_cast<char*>(workspace.memory->data) + result.offset;
  }
  return static_cast<char*>(result.array.storage->data) + result.array.offset;
}

Status stopped_clean() { return Interrupt::stopped("a program ran; what it assigns is as before"); }
// Stopped in the middle of a step that writes state.
Status stopped_writing(const Program& program) {
  char inputs[200] = "";
  size_t length = 0;
  for (const uint32_t i : program.assigned) {
    const int more = std::snprintf(inputs + length, sizeof(inputs) - length, "input %u, ", i);
    if (static_cast<size_t>(more) >= sizeof(inputs) - length) break;
    length += static_cast<size_t>(more);
  }
  if (program.assigned.empty() && !program.writes_state) return stopped_clean();
  return ASTER_FAIL(kCANCELLED,
                    "stopped as asked in the middle of assignments: what the step assigns (%.*s%s) "
                    "is no longer valid",
                    static_cast<int>(program.writes_state || length < 2 ? length : length - 2),
                    inputs, program.writes_state ? "captured state" : "");
}

Status execute(const Program& program, Workspace& workspace) {
  Interrupt interrupt(program.context->interrupts());
  bool wrote = false;
  char* arena = static_cast<char*>(workspace.memory->data);
  const Run run{*program.trace, *program.context, interrupt, device::kCpu, true};
  for (const Drawn& drawn : program.drawn) {
    draw_keys(reinterpret_cast<uint64_t*>(arena + drawn.offset), drawn.state, drawn.words);
  }
  for (const Made& made : program.renewed)
    std::memcpy(made.storage->data, made.first->data, made.first->bytes);
  if (!run.traced() && !program.interprets && program.expected <= kStepNs) {
    if (interrupt.requested()) return stopped_clean();
    for (size_t i = 0; i < program.entries.size(); ++i) {
      launch_all(*program.entries[i].exe, workspace.pointers.data() + program.first_pointer[i],
                 arena, program.threads);
    }
    return kOk;
  }
  for (size_t i = 0; i < program.entries.size(); ++i) {
    const Entry& entry = program.entries[i];
    void* const* pointers = workspace.pointers.data() + program.first_pointer[i];
    if (entry.exe->graph != nullptr) {
      const Status status = interpret(*entry.exe, pointers, pointers + entry.params, run);
      if (status.code == ASTER_ML_CANCELLED && wrote) return stopped_writing(program);
      ASTER_TRY(status);
    } else {
      const Ran ran = launch(*entry.exe, pointers, arena, program.threads, run, wrote);
      if (ran == Ran::kPart) return stopped_clean();
      if (ran == Ran::kWriting) return stopped_writing(program);
    }
    wrote = wrote || entry.writes;
  }
  return kOk;
}

// Clears a flag at the end of a run.
class Busy {
 public:
  Busy(std::atomic<bool>& flag, bool wanted)
      : flag_(flag),
        held_(!wanted || !flag.exchange(true, std::memory_order_acquire)),
        wanted_(wanted) {}
  ~Busy() {
    if (wanted_ && held_) flag_.store(false, std::memory_order_release);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  bool held() const { return held_; }

 private:
  std::atomic<bool>& flag_;
  bool held_, wanted_;
};

Status run(Program& program, Workspace& workspace, std::span<const aster_ml_tensor> inputs,
           std::span<aster_ml_tensor> outputs) {
  Busy memory(workspace.busy, true);
  if (!memory.held()) return ASTER_FAIL(kSTATE, "the workspace is in use by another run");
  Busy state(program.busy, program.writes_state || program.interprets);
  if (!state.held()) return ASTER_FAIL(kSTATE, "another run writes the captured state");
  ASTER_TRY(plan_run(program, workspace, inputs, outputs));
  char* own = static_cast<char*>(workspace.memory->data);
  for (size_t i = 0; i < inputs.size(); ++i) {
    void* data = data_of(inputs[i]);
    if (workspace.staged[i] >= 0) {
      void* copy = static_cast<char*>(workspace.staging->data) + workspace.staged[i];
      std::memcpy(copy, data, array_bytes(program, program.inputs[i]));
      data = copy;
    }
    redirect(program, workspace, i, data);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (program.results[i].where != Where::kResult) continue;
    const bool direct = outputs[i].storage.data != nullptr && workspace.late[i] == 0;
    redirect(program, workspace, program.inputs.size() + i,
             direct ? data_of(outputs[i]) : own + program.results[i].offset);
  }
  ASTER_TRY(execute(program, workspace));
  program.replayed->add(program.work);
  if (program.interprets) program.replayed->interpreted.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Array& array = program.results[i].array;
    void* data = result_data(program, workspace, i);
    if (outputs[i].storage.data == nullptr) {
      ASTER_TRY(buffer::describe(&outputs[i], *program.context, data, array.dtype,
                                 array.storage->device, program.shape(array)));
    } else if (data != data_of(outputs[i])) {
      const size_t bytes = array_bytes(program, array);
      if (bytes != 0) std::memcpy(data_of(outputs[i]), data, bytes);
    }
  }
  return kOk;
}

}  // namespace
}  // namespace aster::engine

using aster::Status;
using aster::engine::Program;
using aster::engine::Workspace;

static Program* program_of(const aster_ml_program* program) {
  return program == nullptr ? nullptr : aster::object_of<Program>(program->impl);
}

int32_t aster_ml_program_run(const aster_ml_program* program, aster_ml_workspace* workspace,
                             const aster_ml_tensor* inputs, size_t input_count,
                             aster_ml_tensor* outputs, size_t output_count) {
  ASTER_API();
  const aster::FloatModes modes;
  Program* p = program_of(program);
  if (p == nullptr) return ASTER_FAIL(kARGUMENT, "an empty program, or one that was freed");
  auto* w = workspace != nullptr && workspace->impl != nullptr
                ? aster::object_of<Workspace>(workspace->impl)
                : p->own;
  if (w == nullptr) return ASTER_FAIL(kARGUMENT, "the workspace was freed");
  if (w != p->own && w->program != p)
    return ASTER_FAIL(kARGUMENT, "the workspace is of another program");
  if (input_count != p->inputs.size() || output_count != p->results.size()) {
    return ASTER_FAIL(kARGUMENT, "%zu inputs and %zu outputs given, %zu and %zu captured",
                      input_count, output_count, p->inputs.size(), p->results.size());
  }
  if ((inputs == nullptr && input_count != 0) || (outputs == nullptr && output_count != 0)) {
    return ASTER_FAIL(kARGUMENT, "null array of tensors");
  }
  return aster::engine::run(*p, *w, {inputs, input_count}, {outputs, output_count});
}

size_t aster_ml_program_count_kernels(const aster_ml_program* program) {
  const Program* p = program_of(program);
  return p == nullptr ? 0 : p->work.kernels;
}

size_t aster_ml_program_count_bytes(const aster_ml_program* program) {
  const Program* p = program_of(program);
  return p == nullptr ? 0 : static_cast<size_t>(p->bytes);
}

int32_t aster_ml_program_free(aster_ml_program* program) {
  ASTER_API();
  if (program != nullptr) aster::give_up(&program->impl);
  return aster::kOk;
}

int32_t aster_ml_workspace_init(aster_ml_workspace* out, const aster_ml_program* program) {
  Program* p = program_of(program);
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENTER(p == nullptr ? nullptr : p->context);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "null out");
  aster::Heap& heap = p->context->heap();
  auto* workspace = heap.create<Workspace>(heap);
  if (workspace == nullptr) return aster::out_of_memory(sizeof(Workspace));
  Status status = aster::engine::fill_workspace(workspace, *p);
  if (status.ok()) {
    status = aster::handle_init(workspace, *p->context, aster::engine::free_workspace);
  }
  if (!status.ok()) {
    aster::engine::destroy_workspace(heap, workspace);
    return status;
  }
  workspace->program = p;
  ++p->holders;
  aster::scope_remove(workspace);
  out->impl = workspace->handle;
  return aster::kOk;
}

int32_t aster_ml_workspace_free(aster_ml_workspace* workspace) {
  ASTER_API();
  if (workspace != nullptr) aster::give_up(&workspace->impl);
  return aster::kOk;
}
