// Programs and their workspaces: their life, and runs.
#include "engine/program.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/faults.h"
#include "base/options.h"
#include "device/device.h"

namespace aster::engine {

using buffer::Storage;

namespace {

void release_program(Program* program) {
  if (--program->holders != 0) return;
  Heap& heap = program->context->heap();
  for (Entry& entry : program->entries) entry.exe->release();
  for (Storage* storage : program->kept) buffer::storage_release(storage);
  void* const engine = program->context->state(Module::kEngine);
  if (engine != nullptr) forget_copies(*static_cast<Engine*>(engine));
  heap.destroy(program);
}

}  // namespace

void destroy_workspace(Program& program, Workspace* workspace) {
  program.replayed->leave(&workspace->runs);
  buffer::storage_release(workspace->memory);
  buffer::storage_release(workspace->staging);
  for (Storage* storage : workspace->areas) buffer::storage_release(storage);
  for (Storage* storage : workspace->apart) buffer::storage_release(storage);
  for (Storage* storage : workspace->wholes) buffer::storage_release(storage);
  program.context->heap().destroy(workspace);
}

void free_workspace(HandleObject* object) {
  auto* workspace = static_cast<Workspace*>(object);
  Program* program = workspace->program;
  destroy_workspace(*program, workspace);
  release_program(program);
}

void free_program(HandleObject* object) {
  auto* program = static_cast<Program*>(object);
  if (program->own != nullptr) destroy_workspace(*program, program->own);
  program->own = nullptr;
  release_program(program);
}

namespace {

// Memory of the workspace.
Given inside_of(const Workspace& workspace, uint32_t area, int64_t offset) {
  const Storage* storage = area == 0 ? workspace.memory : workspace.areas[area - 1];
  return {storage->data, static_cast<size_t>(offset)};
}
// As inputs and results are given: addresses of the host, offsets on devices.
Given as_given(const Array& array, Given memory) {
  return array.away ? memory : Given{memory.address(), 0};
}

}  // namespace

Given home_of(const Workspace& workspace, const Result& result) {
  return as_given(result.array, inside_of(workspace, result.area, result.offset));
}

Status fill_workspace(Workspace* workspace, Program& program) {
  program.replayed->enter(&workspace->runs, program.work);
  ASTER_TRY(buffer::storage_create(&workspace->memory, *program.context,
                                   buffer::whole_pages(static_cast<size_t>(program.bytes)), 0));
  for (const Area& area : program.areas) {
    ASTER_TRY(workspace->areas.reserve(workspace->areas.size() + 1));
    Storage* storage = nullptr;
    ASTER_TRY(buffer::storage_create(&storage, *program.context, static_cast<size_t>(area.bytes),
                                     area.device));
    ASTER_TRY(workspace->areas.push(storage));
  }
  for (const Source& source : program.sources) {
    const bool inside = source.where == Where::kWorkspace || source.where == Where::kResult;
    const Given memory =
        inside
            ? inside_of(*workspace, source.area, source.offset)
            : Given{source.fixed, source.fixed == nullptr ? 0 : static_cast<size_t>(source.offset)};
    const bool flat = source.flat || !program.away;
    ASTER_TRY(workspace->pointers.push(flat ? memory.address() : memory.data));
    if (program.away) ASTER_TRY(workspace->offsets.push(flat ? size_t{0} : memory.offset));
  }
  ASTER_TRY(workspace->current.resize(program.patched(), Given{nullptr, 0}));
  ASTER_TRY(workspace->given.resize(program.patched(), Given{nullptr, 0}));
  ASTER_TRY(workspace->apart.resize(program.inputs.size(), nullptr));
  ASTER_TRY(workspace->staged.resize(program.inputs.size(), -1));
  ASTER_TRY(workspace->late.resize(program.results.size(), 0));
  ASTER_TRY(workspace->last.reserve(program.patched()));
  for (size_t i = 0; i < program.results.size(); ++i) {
    const Result& result = program.results[i];
    if (result.where == Where::kResult)
      workspace->current[program.inputs.size() + i] = home_of(*workspace, result);
  }
  if (!program.away) return kOk;
  char* scratch = static_cast<char*>(workspace->memory->data);
  for (size_t i = 0; i < program.entries.size(); ++i) {
    const Entry& entry = program.entries[i];
    const uint32_t first = program.first_pointer[i];
    ASTER_TRY(workspace->commands.add(*entry.exe, workspace->pointers.data() + first,
                                      workspace->offsets.data() + first,
                                      scratch + entry.exe->scratch_offset, entry.writes));
  }
  return kOk;
}

namespace {

void redirect(const Program& program, Workspace& workspace, size_t which, const Given& to) {
  if (workspace.current[which] == to) return;
  workspace.current[which] = to;
  for (uint32_t i = program.patch_start[which]; i < program.patch_start[which + 1]; ++i) {
    const Patch& patch = program.patches[i];
    const Given memory{to.data, to.offset + static_cast<size_t>(patch.offset)};
    if (!program.away || program.sources[patch.pointer].flat) {
      workspace.pointers[patch.pointer] = memory.address();
    } else {
      workspace.pointers[patch.pointer] = memory.data;
      workspace.offsets[patch.pointer] = memory.offset;
    }
  }
}

// Memory of a result after a run.
Given result_data(const Program& program, const Workspace& workspace, size_t i) {
  const Result& result = program.results[i];
  const auto behind = [&](Given memory, int64_t offset) {
    memory.offset += static_cast<size_t>(offset);
    return as_given(result.array, memory);
  };
  if (result.where == Where::kInput) {
    const Array& input = program.inputs[result.input];
    return behind(workspace.current[result.input], result.array.offset - input.offset);
  }
  if (result.where == Where::kResult) return workspace.current[program.inputs.size() + i];
  if (result.where == Where::kWorkspace) {
    // Another result on the same storage may have been redirected.
    for (size_t other = 0; other < program.results.size(); ++other) {
      if (program.results[other].where == Where::kResult &&
          program.results[other].array.storage == result.array.storage) {
        return behind(workspace.current[program.inputs.size() + other], result.array.offset);
      }
    }
    return home_of(workspace, result);
  }
  return as_given(result.array, given_of(result.array));
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

Status copy_keys(const Program& program, const Workspace& workspace, const Drawn& drawn,
                 const char* keys) {
  for (size_t i = 0; i < program.areas.size(); ++i) {
    if (program.areas[i].device != drawn.keys->device) continue;
    return buffer::copy(
        {workspace.areas[i]->data, static_cast<size_t>(drawn.offset), drawn.keys->device},
        {const_cast<char*>(keys), 0, buffer::kHost}, drawn.keys->bytes);
  }
  return kOk;
}

// A device takes part.
Status execute_away(const Program& program, Workspace& workspace, const Run& run) {
  Ran ran = Ran::kAll;
  bool wrote = false;
  ASTER_TRY(workspace.commands.run(&ran, &wrote, workspace.queues, run, program.threads));
  return ran == Ran::kAll ? kOk : wrote ? stopped_writing(program) : stopped_clean();
}

Status execute(const Program& program, Workspace& workspace) {
  Interrupt interrupt(program.context->interrupts());
  bool wrote = false;
  char* arena = static_cast<char*>(workspace.memory->data);
  const Run run{*program.trace, *program.context, interrupt, device::kCpu, true};
  for (const Drawn& drawn : program.drawn) {
    const bool away = is_away(drawn.keys->device);
    char* keys = arena + (away ? drawn.host_offset : drawn.offset);
    draw_keys(reinterpret_cast<uint64_t*>(keys), drawn.state, drawn.words);
    if (away) ASTER_TRY(copy_keys(program, workspace, drawn, keys));
  }
  for (const Made& made : program.renewed) {
    const int32_t device = made.storage->device;
    ASTER_TRY(buffer::copy({made.storage->data, 0, device}, {made.first->data, 0, device},
                           made.first->bytes));
  }
  if (program.away) return execute_away(program, workspace, run);
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

// Copies an input that the run writes to before it is read.
Status stage(Given* memory, const Program& program, const Workspace& workspace, size_t i) {
  const Array& array = program.inputs[i];
  const Storage* to = array.away ? workspace.apart[i] : workspace.staging;
  const Given copy = as_given(array, {to->data, static_cast<size_t>(workspace.staged[i])});
  const int32_t device = array.storage->device;
  ASTER_TRY(buffer::copy({copy.data, copy.offset, device}, {memory->data, memory->offset, device},
                         array_bytes(program, array)));
  *memory = copy;
  return kOk;
}

// The value of a variable: given, or the program's.
Status take_value(int64_t* out, const ProgramVariable& variable, const int64_t* given) {
  *out = given == nullptr ? variable.value : *given;
  if (*out < variable.least || *out > variable.most) {
    return ASTER_FAIL(kRANGE, "%.*s = %lld: it is from %lld to %lld",
                      static_cast<int>(variable.name.view().size()), variable.name.view().data(),
                      static_cast<long long>(*out), static_cast<long long>(variable.least),
                      static_cast<long long>(variable.most));
  }
  if (!variable.seen || *out == variable.value) return kOk;
  return ASTER_FAIL(kUNSUPPORTED,
                    "%.*s = %lld: what was captured looked at its value, and is for %lld alone",
                    static_cast<int>(variable.name.view().size()), variable.name.view().data(),
                    static_cast<long long>(*out), static_cast<long long>(variable.value));
}

// That no position or size of what was captured is outside for these values.
Status check_conditions(const Program& program, std::span<const int64_t> values) {
  if (program.conditions.empty()) return kOk;
  Conditions::Broken broken;
  ASTER_TRY(program.conditions.find_broken(&broken, values));
  if (!broken.found) return kOk;
  char names[200] = "";
  size_t length = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string_view name = program.variables[i].name.view();
    const int more = std::snprintf(names + length, sizeof(names) - length, "%s%.*s = %lld",
                                   i == 0 ? "" : ", ", static_cast<int>(name.size()), name.data(),
                                   static_cast<long long>(values[i]));
    if (more < 0 || static_cast<size_t>(more) >= sizeof(names) - length) break;
    length += static_cast<size_t>(more);
  }
  return ASTER_FAIL(kRANGE,
                    "%s: a position or size of what was captured is outside: %lld, where %lld is "
                    "the %s",
                    names, static_cast<long long>(broken.wrong),
                    static_cast<long long>(broken.bound), broken.least ? "least" : "most");
}

// The values of the variables in a run: given, or the program's.
Status take_values(Vec<int64_t>* out, const Program& program, const int64_t* given) {
  for (size_t i = 0; i < program.variables.size(); ++i) {
    int64_t value = 0;
    ASTER_TRY(take_value(&value, program.variables[i], given == nullptr ? nullptr : &given[i]));
    ASTER_TRY(out->push(value));
  }
  return check_conditions(program, {out->data(), out->size()});
}

// What a run is given, with the variables' values behind it, in memory of the workspace.
Status with_values(Vec<aster_ml_tensor>* out, const Program& program, Workspace& workspace,
                   std::span<const aster_ml_tensor> inputs, const int64_t* values) {
  const size_t count = program.variables.size();
  workspace.values.clear();
  ASTER_TRY(take_values(&workspace.values, program, values));
  ASTER_TRY(out->append(inputs.data(), inputs.size()));
  ASTER_TRY(out->resize(program.inputs.size(), aster_ml_tensor{}));
  for (size_t i = 0; i < count; ++i) {
    const ProgramVariable& variable = program.variables[i];
    if (variable.input == ProgramVariable::kNone) continue;
    const Array& array = program.inputs[variable.input];
    int64_t* word = &workspace.values[i];
    if (array.dtype == DType::kInt32) {
      const auto low = static_cast<int32_t>(*word);
      std::memcpy(word, &low, sizeof(low));
    }
    const auto dtype = static_cast<int32_t>(array.dtype);
    (*out)[variable.input].storage = {word, sizeof(*word), dtype, device::kCpu};
    (*out)[variable.input].dtype = dtype;
    (*out)[variable.input].device = device::kCpu;
  }
  return kOk;
}

Status run_all(Program& program, Workspace& workspace, std::span<const aster_ml_tensor> inputs,
               std::span<aster_ml_tensor> outputs);

}  // namespace

Status run_held(Program& program, Workspace& workspace, std::span<const aster_ml_tensor> inputs,
                std::span<aster_ml_tensor> outputs, const int64_t* values) {
  if (is_given_again(program, workspace, inputs, outputs)) return run_again(program, workspace);
  if (program.variables.empty()) return run_all(program, workspace, inputs, outputs);
  Vec<aster_ml_tensor> all(program.context->heap());
  ASTER_TRY(with_values(&all, program, workspace, inputs, values));
  return run_all(program, workspace, {all.data(), all.size()}, outputs);
}

namespace {

Status run_all(Program& program, Workspace& workspace, std::span<const aster_ml_tensor> inputs,
               std::span<aster_ml_tensor> outputs) {
  Busy state(program.busy, program.writes_state || program.interprets);
  if (!state.held())
    return ASTER_FAIL(kSTATE, "another run %s",
                      program.interprets ? "interprets the program" : "writes the captured state");
  workspace.last.clear();
  ASTER_TRY(plan_run(program, workspace, inputs, outputs));
  if (program.copied_bytes != 0) {
    ASTER_TRY(program.context->may_copy(static_cast<size_t>(program.copied_bytes),
                                        "the host computes for a device"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    Given from = given_of(program.inputs[i], inputs[i]);
    if (workspace.staged[i] >= 0) ASTER_TRY(stage(&from, program, workspace, i));
    redirect(program, workspace, i, from);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (program.results[i].where != Where::kResult) continue;
    const bool direct = outputs[i].storage.data != nullptr && workspace.late[i] == 0;
    redirect(program, workspace, program.inputs.size() + i,
             direct ? given_of(program.results[i].array, outputs[i])
                    : home_of(workspace, program.results[i]));
  }
  Faults faults;
  ASTER_TRY(faults.outcome(execute(program, workspace)));
  workspace.runs.add();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Array& array = program.results[i].array;
    const Given made = result_data(program, workspace, i);
    const int32_t device = array.storage->device;
    if (outputs[i].storage.data == nullptr) {
      ASTER_TRY(buffer::describe(&outputs[i], *program.context, made.data, array.dtype, device,
                                 program.shape(array), made.offset));
    } else if (const Given wanted = given_of(array, outputs[i]); !(made == wanted)) {
      const size_t bytes = array_bytes(program, array);
      if (bytes != 0)
        ASTER_TRY(buffer::copy({wanted.data, wanted.offset, device},
                               {made.data, made.offset, device}, bytes));
    }
  }
  return note_run(program, workspace, inputs, outputs);
}

// values: of the variables in their order; null: the program's own.
Status run(Program& program, Workspace& workspace, std::span<const aster_ml_tensor> inputs,
           std::span<aster_ml_tensor> outputs, const int64_t* values) {
  Busy memory(workspace.busy, true);
  if (!memory.held()) return ASTER_FAIL(kSTATE, "the workspace is in use by another run");
  return run_held(program, workspace, inputs, outputs, values);
}

}  // namespace

Status check_values(const Program& program, std::span<const int64_t> values) {
  int64_t taken = 0;
  for (size_t i = 0; i < values.size(); ++i)
    ASTER_TRY(take_value(&taken, program.variables[i], &values[i]));
  return check_conditions(program, values);
}

Status check_run(RunOf* out, aster_ml_workspace* workspace, const aster_ml_tensor* inputs,
                 size_t input_count, const aster_ml_tensor* outputs, size_t output_count) {
  Program* p = out->program;
  if (p == nullptr) return ASTER_FAIL(kARGUMENT, "an empty program, or one that was freed");
  auto* w = workspace != nullptr && workspace->impl != nullptr
                ? object_of<Workspace>(workspace->impl)
                : p->own;
  if (w == nullptr) return ASTER_FAIL(kARGUMENT, "the workspace was freed");
  if (w != p->own && w->program != p)
    return ASTER_FAIL(kARGUMENT, "the workspace is of another program");
  const size_t wanted = p->inputs.size() - p->hidden;
  if (input_count != wanted || output_count != p->results.size()) {
    return ASTER_FAIL(kARGUMENT, "%zu inputs and %zu outputs given, %zu and %zu captured",
                      input_count, output_count, wanted, p->results.size());
  }
  if ((inputs == nullptr && input_count != 0) || (outputs == nullptr && output_count != 0)) {
    return ASTER_FAIL(kARGUMENT, "null array of tensors");
  }
  out->workspace = w;
  return kOk;
}

}  // namespace aster::engine

using aster::Status;
using aster::engine::Program;
using aster::engine::Workspace;

static Program* program_of(const aster_ml_program* program) {
  return program == nullptr ? nullptr : aster::object_of<Program>(program->impl);
}

static Status run_program(const aster_ml_program* program, aster_ml_workspace* workspace,
                          const aster_ml_tensor* inputs, size_t input_count,
                          aster_ml_tensor* outputs, size_t output_count, const int64_t* values,
                          size_t value_count) {
  const aster::FloatModes modes;
  aster::engine::RunOf of{program_of(program)};
  ASTER_TRY(aster::engine::check_run(&of, workspace, inputs, input_count, outputs, output_count));
  if (values != nullptr && value_count != of.program->variables.size()) {
    return ASTER_FAIL(kARGUMENT, "%zu values given for %zu variables", value_count,
                      of.program->variables.size());
  }
  return aster::engine::run(*of.program, *of.workspace, {inputs, input_count},
                            {outputs, output_count}, values);
}

int32_t aster_ml_program_run(const aster_ml_program* program, aster_ml_workspace* workspace,
                             const aster_ml_tensor* inputs, size_t input_count,
                             aster_ml_tensor* outputs, size_t output_count) {
  ASTER_API();
  return run_program(program, workspace, inputs, input_count, outputs, output_count, nullptr, 0)
      .code;
}

int32_t aster_ml_program_run_bound(const aster_ml_program* program, aster_ml_workspace* workspace,
                                   const int64_t* values, size_t value_count,
                                   const aster_ml_tensor* inputs, size_t input_count,
                                   aster_ml_tensor* outputs, size_t output_count) {
  ASTER_API();
  if (values == nullptr && value_count != 0) return ASTER_FAIL(kARGUMENT, "null array of values");
  const int64_t none = 0;
  return run_program(program, workspace, inputs, input_count, outputs, output_count,
                     values == nullptr ? &none : values, value_count)
      .code;
}

size_t aster_ml_program_count_variables(const aster_ml_program* program) {
  const Program* p = program_of(program);
  return p == nullptr ? 0 : p->variables.size();
}

int32_t aster_ml_program_get_variable(aster_ml_program_variable* variable,
                                      const aster_ml_program* program, size_t index) {
  Program* p = program_of(program);
  ASTER_ENTER(p == nullptr ? nullptr : p->context);
  if (variable == nullptr || variable->struct_size < sizeof(variable->struct_size))
    return ASTER_FAIL(kARGUMENT, "variable is null, or its struct_size is not set");
  if (index >= p->variables.size())
    return ASTER_FAIL(kRANGE, "there is no variable %zu of %zu", index, p->variables.size());
  aster::engine::ProgramVariable& from = p->variables[index];
  aster_ml_program_variable all{};
  all.struct_size = sizeof(all);
  all.fixed = from.seen;
  all.name = from.name.c_str();
  all.min = from.least;
  all.max = from.most;
  all.value = from.value;
  all.limited = from.seen || from.limited;
  aster::write_struct(variable, all);
  return aster::kOk;
}

int32_t aster_ml_program_is_for(const aster_ml_program* program, const int64_t* values,
                                size_t value_count) {
  const Program* p = program_of(program);
  if (p == nullptr || value_count != p->variables.size() || (values == nullptr && value_count != 0))
    return 0;
  const aster::SavedError before;
  aster::Vec<int64_t> taken(p->context->heap());
  if (aster::engine::take_values(&taken, *p, values).ok()) return 1;
  return before.restore(), 0;
}

int32_t aster_ml_program_set_variable(const aster_ml_program* program, const char* name,
                                      int64_t value) {
  Program* p = program_of(program);
  ASTER_ENTER(p == nullptr ? nullptr : p->context);
  if (name == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for a name");
  for (aster::engine::ProgramVariable& variable : p->variables) {
    if (variable.name.view() != name) continue;
    ASTER_TRY(aster::engine::take_value(&value, variable, &value));
    return variable.value = value, aster::kOk;
  }
  return ASTER_FAIL(kNOT_FOUND, "no variable of the program is named %s", name);
}

size_t aster_ml_program_count_kernels(const aster_ml_program* program) {
  const Program* p = program_of(program);
  return p == nullptr ? 0 : p->work.kernels;
}

size_t aster_ml_program_count_bytes(const aster_ml_program* program) {
  const Program* p = program_of(program);
  size_t bytes = p == nullptr ? 0 : static_cast<size_t>(p->bytes);
  if (p != nullptr) {
    for (const auto& area : p->areas) bytes += static_cast<size_t>(area.bytes);
  }
  return bytes;
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
    aster::engine::destroy_workspace(*p, workspace);
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
