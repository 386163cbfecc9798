// Capture: between its begin and its end realize records what it runs; the end makes a program of
// it.
#include <algorithm>

#include "engine/kept_copies.h"
#include "engine/program.h"

namespace aster::engine {

using buffer::Storage;
using uop::Node;
using uop::Op;

namespace {

constexpr int64_t kAlignment = 64;
int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

// Turns a recording and its results into a program.
class Builder {
 public:
  Builder(Engine& engine, Recording& recording, Program& program)
      : e_(engine),
        r_(recording),
        p_(program),
        internal_(engine.context.heap()),
        results_(engine.context.heap()),
        captured_(engine.context.heap()) {}

  Status run(std::span<Lazy* const> outputs) {
    if (r_.prune) ASTER_TRY(prune());
    ASTER_TRY(place_internal());
    ASTER_TRY(take_arrays(outputs));
    for (const Entry& entry : r_.entries) ASTER_TRY(take_entry(entry));
    ASTER_TRY(collect_patches());
    (void)p_.reads.merge();
    (void)p_.writes.merge();
    ASTER_TRY(check_inputs());
    ASTER_TRY(check_constants());
    ASTER_TRY(list_values(p_, captured_));
    ASTER_TRY(take_sizes());
    p_.params = std::move(r_.params);
    p_.outputs = std::move(r_.outputs);
    for (Storage* storage : r_.kept) ASTER_TRY(keep(storage));
    p_.threads = e_.threads;
    return kOk;
  }

 private:
  // Leaves the entries that have to do with inputs, and the draws that those read.
  Status prune() {
    Heap& heap = e_.context.heap();
    Map<const Storage*, uint8_t> touched(heap);
    Vec<uint8_t> stays(heap);
    for (const Array& input : r_.inputs) ASTER_TRY(touched.set(input.storage, 1));
    for (const Recording::Ref& ref : r_.params) {
      if (e_.symbols.with_cell(ref.storage) != Symbols::kNone)
        ASTER_TRY(touched.set(ref.storage, 1));
    }
    const auto is_touched = [&](const Storage& storage) {
      return touched.contains(&storage) || std::ranges::any_of(touched, [&](const auto& other) {
               return buffer::share_memory(*other.key, storage);
             });
    };
    for (const Entry& entry : r_.entries) {
      bool any = false;
      for (uint32_t i = 0; i < entry.params; ++i)
        any |= is_touched(*r_.params[entry.first_param + i].storage);
      for (uint32_t i = 0; any && i < entry.params; ++i)
        ASTER_TRY(touched.set(r_.params[entry.first_param + i].storage, 1));
      for (uint32_t i = 0; any && i < entry.outputs; ++i)
        ASTER_TRY(touched.set(r_.outputs[entry.first_output + i], 1));
      ASTER_TRY(stays.push(any));
    }
    size_t entries = 0, draws = 0;
    for (size_t i = 0; i < stays.size(); ++i) {
      const Entry entry = r_.entries[i];
      // What the others made stays the memory that it is.
      for (uint32_t o = 0; stays[i] == 0 && o < entry.outputs; ++o)
        r_.outputs[entry.first_output + o] = nullptr;
      if (stays[i] == 0) {
        entry.exe->release();
      } else {
        r_.entries[entries++] = entry;
      }
    }
    for (const Drawn& drawn : r_.drawn) {
      if (touched.contains(drawn.keys)) r_.drawn[draws++] = drawn;
    }
    r_.entries.truncate(entries);
    r_.drawn.truncate(draws);
    return kOk;
  }

  // What a step makes itself lives in the workspace, after the arena of temporaries that the
  // entries share.
  Status place_internal() {
    for (const Entry& entry : r_.entries) {
      const Executable& exe = *entry.exe;
      p_.away |= exe.away;
      p_.bytes = std::max(p_.bytes, aligned(exe.arena_bytes));
      if (exe.device_bytes == 0) continue;
      uint32_t area = 0;
      ASTER_TRY(area_of(&area, exe.device->code));
      int64_t* bytes = bytes_of(area);
      *bytes = std::max(*bytes, aligned(exe.device_bytes));
    }
    for (Storage* storage : r_.outputs) {
      if (storage != nullptr) ASTER_TRY(give_place(storage));
    }
    ASTER_TRY(p_.drawn.append(r_.drawn.data(), r_.drawn.size()));
    for (Drawn& drawn : p_.drawn) {
      ASTER_TRY(give_place(drawn.keys));
      drawn.offset = internal_.find(drawn.keys)->offset;
      if (!is_away(drawn.keys->device)) continue;
      drawn.host_offset = p_.bytes;
      p_.bytes += aligned(static_cast<int64_t>(drawn.keys->bytes));
    }
    return kOk;
  }

  // The part of the workspace on a device.
  Status area_of(uint32_t* out, int32_t device) {
    *out = 0;
    if (!is_away(device)) return kOk;
    for (*out = 1; *out <= p_.areas.size(); ++*out) {
      if (p_.areas[*out - 1].device == device) return kOk;
    }
    return p_.areas.push(Area{device, 0});
  }
  int64_t* bytes_of(uint32_t area) { return area == 0 ? &p_.bytes : &p_.areas[area - 1].bytes; }
  Status give_place(Storage* storage) {
    if (internal_.contains(storage)) return kOk;
    uint32_t area = 0;
    ASTER_TRY(area_of(&area, storage->device));
    int64_t* bytes = bytes_of(area);
    ASTER_TRY(internal_.set(storage, Inside{area, *bytes}));
    *bytes += aligned(static_cast<int64_t>(storage->bytes));
    return kOk;
  }

  // Variables that were looked at, those whose cells launches read (inputs behind the caller's),
  // and those of conditions.
  Status take_variables() {
    size_t at = 0;
    for (const uint32_t seen : r_.seen) {
      ASTER_TRY(take_variable(&at, seen));
      p_.variables[at].seen = true;
    }
    for (const Recording::Ref& ref : r_.params) {
      const uint32_t symbol = e_.symbols.with_cell(ref.storage);
      if (symbol == Symbols::kNone) continue;
      ASTER_TRY(take_variable(&at, symbol));
      if (p_.variables[at].input != ProgramVariable::kNone) continue;
      p_.variables[at].input = static_cast<uint32_t>(p_.inputs.size());
      ASTER_TRY(p_.inputs.push(ref.buffer));
      ASTER_TRY(keep(ref.storage));
      ++p_.hidden;
    }
    const auto place_of = [&](uint32_t* out, uint32_t symbol) -> Status {
      size_t place = 0;
      ASTER_TRY(take_variable(&place, symbol));
      p_.variables[place].limited = true;
      *out = static_cast<uint32_t>(place);
      return kOk;
    };
    for (const Assumption& each : r_.assumed)
      ASTER_TRY(p_.conditions.add(e_.symbols, each.a, each.b, place_of));
    return kOk;
  }
  // Sizes of inputs and outputs that are expressions.
  Status take_sizes() {
    const auto place_of = [&](uint32_t* out, uint32_t symbol) -> Status {
      size_t place = 0;
      ASTER_TRY(take_variable(&place, symbol));
      *out = static_cast<uint32_t>(place);
      return kOk;
    };
    for (size_t i = 0; i < r_.first_size.size(); ++i) {
      if (r_.first_size[i] == Recording::kNone) continue;
      Value& value = p_.values[i < r_.inputs.size() ? i : i + p_.hidden];
      value.first_size = static_cast<uint32_t>(p_.sizes.size());
      for (uint32_t axis = 0; axis < value.array.ndim; ++axis) {
        uint32_t step = 0;
        const Node size = r_.sizes[r_.first_size[i] + axis];
        ASTER_TRY(p_.conditions.add(&step, e_.symbols, size, place_of));
        ASTER_TRY(p_.sizes.push(step));
      }
    }
    return kOk;
  }
  Status take_variable(size_t* at, uint32_t symbol) {
    const Symbol& given = e_.symbols[symbol];
    const Variable& variable = e_.symbols.of(given);
    for (*at = 0; *at < p_.variables.size(); ++*at) {
      ProgramVariable& other = p_.variables[*at];
      if (other.number != given.variable && other.name.view() != variable.name.view()) continue;
      if (other.number == given.variable && other.value == given.value) return kOk;
      return ASTER_FAIL(kARGUMENT, "variable %s is %lld and %lld in one capture",
                        other.name.c_str(), static_cast<long long>(other.value),
                        static_cast<long long>(given.value));
    }
    ProgramVariable made{Text(e_.context.heap()), variable.least, variable.most, given.value,
                         given.variable};
    made.name << variable.name.view();
    if (made.name.c_str() == nullptr) return made.name.status();
    return p_.variables.push(std::move(made));
  }

  Status take_arrays(std::span<Lazy* const> outputs) {
    ASTER_TRY(p_.inputs.append(r_.inputs.data(), r_.inputs.size()));
    ASTER_TRY(p_.dims.append(r_.dims.data(), r_.dims.size()));
    ASTER_TRY(take_variables());
    for (Lazy* output : outputs) {
      const Node node = output->node;
      Array array;
      ASTER_TRY(take_array(&array, &p_.dims, node));
      Result result{array, Where::kFixed, 0, 0, 0};
      if (const Inside* at = internal_.find(array.storage)) {
        result.where = Where::kResult;
        result.offset = at->offset + array.offset;
        result.area = at->area;
        const bool whole =
            array.offset == 0 &&
            static_cast<size_t>(node->count()) * dtype::size(node->dtype) == array.storage->bytes;
        // The first result that is a whole storage may be redirected to the caller's memory.
        if (whole && !results_.contains(array.storage)) {
          ASTER_TRY(results_.set(array.storage, static_cast<uint32_t>(p_.results.size())));
        } else {
          result.where = Where::kWorkspace;
        }
      }
      if (result.where == Where::kFixed) {
        find_input(&result.where, &result.input, region_of(p_, array));
      }
      if (result.where == Where::kFixed) {
        bring_late(*array.storage);
        ASTER_TRY(keep(array.storage));
      }
      ASTER_TRY(p_.results.push(result));
    }
    return kOk;
  }

  // The input that memory is a part of, if it is one of an input's. What only overlaps one stays
  // the memory that it is: check_inputs refuses where that matters.
  void find_input(Where* where, uint32_t* index, const buffer::Region& region) {
    for (uint32_t i = 0; i < p_.inputs.size() && *where == Where::kFixed; ++i) {
      const buffer::Region input = region_of(p_, p_.inputs[i]);
      if (!input.overlaps(region) || !input.contains(region)) continue;
      *where = Where::kInput;
      *index = i;
    }
  }

  Status check_inputs() {
    for (uint32_t i = 0; i < p_.inputs.size(); ++i) {
      const buffer::Region input = region_of(p_, p_.inputs[i]);
      const bool assigned = std::ranges::find(p_.assigned, i) != p_.assigned.end();
      if (p_.writes.touches(input) || (assigned && p_.reads.touches(input))) {
        return ASTER_FAIL(
            kARGUMENT, "the step writes memory of which input %u is a part, or only has a part", i);
      }
    }
    return kOk;
  }

  // What was promised not to change.
  Status check_constants() {
    for (const buffer::Region& region : r_.copied) {
      const bool given = std::ranges::any_of(
          p_.assigned, [&](uint32_t i) { return region_of(p_, p_.inputs[i]).overlaps(region); });
      if (given || p_.writes.touches(region)) {
        return ASTER_FAIL(kARGUMENT,
                          "the step writes %zu bytes of memory that were to be constant: assign to "
                          "inputs, or capture without constants",
                          static_cast<size_t>(region.end - region.begin));
      }
    }
    return kOk;
  }

  Status keep(Storage* storage) {
    ASTER_TRY(p_.kept.push(storage));
    buffer::storage_retain(storage);
    return kOk;
  }

  Status push(const Recording::Ref& ref, bool written, bool flat = true) {
    Storage* const storage = ref.storage;
    const int64_t offset = ref.offset;
    Source source{Where::kFixed, 0, offset, nullptr, 0, flat};
    if (const Inside* at = internal_.find(storage)) {
      source.area = at->area;
      source.offset = at->offset + offset;
      source.where = Where::kWorkspace;
      if (const uint32_t* result = results_.find(storage)) {
        source.where = Where::kResult;
        source.index = *result;
      }
      return p_.sources.push(source);
    }
    const buffer::Region region =
        buffer::region_of(*storage, static_cast<size_t>(offset), ref.bytes);
    find_input(&source.where, &source.index, ref.whole);
    if (source.where == Where::kInput) {
      const uint32_t i = source.index;
      p_.entries.back().writes |= written;
      if (written && std::ranges::find(p_.assigned, i) == p_.assigned.end())
        ASTER_TRY(p_.assigned.push(i));
      source.offset = static_cast<int64_t>(region.begin - region_of(p_, p_.inputs[i]).begin);
      return p_.sources.push(source);
    }
    ASTER_TRY((written ? p_.writes : p_.reads).add(region));
    p_.writes_state |= written;
    p_.entries.back().writes |= written;
    const bool renewed = std::ranges::find(r_.made, storage, &Made::storage) != r_.made.end();
    ASTER_TRY(captured_.push({ref.whole, ref.buffer, written && !renewed}));
    if (written) ASTER_TRY(renew(storage));
    bring_late(*storage);
    source.fixed = storage->data;
    return p_.sources.push(source);
  }

  // Every replay begins with the data that written storage was made of.
  Status renew(Storage* storage) {
    const auto same = [&](const Made& made) { return made.storage == storage; };
    const auto found = std::ranges::find_if(r_.made, same);
    if (found == r_.made.end() || std::ranges::any_of(p_.renewed, same)) return kOk;
    return p_.renewed.push(*found);
  }

  Status take_entry(const Entry& entry) {
    Executable& exe = *entry.exe;
    exe.retain();
    Status pushed = p_.entries.push(entry);
    if (!pushed.ok()) exe.release();
    ASTER_TRY(pushed);
    ASTER_TRY(p_.first_pointer.push(static_cast<uint32_t>(p_.sources.size())));
    p_.copied_bytes += exe.copied_bytes;
    if (exe.graph != nullptr && !exe.away) {  // one pointer a leaf, one a root
      p_.interprets = true;
      ++p_.work.kernels;
      for (uint32_t i = 0; i < entry.params; ++i) {
        const Recording::Ref& ref = r_.params[entry.first_param + i];
        ASTER_TRY(push(ref, written_by_interpreter(exe, i)));
      }
      for (uint32_t i = 0; i < entry.outputs; ++i) {
        ASTER_TRY(push({r_.outputs[entry.first_output + i], 0, 0, {}, {}}, false));
      }
      return kOk;
    }
    p_.work.add(exe.work);
    if (!exe.launches.empty()) p_.expected += exe.launches[0].remaining;
    uint32_t area = 0;
    if (exe.device_bytes != 0) ASTER_TRY(area_of(&area, exe.device->code));
    for (const Launch& launch : exe.launches) {
      const bool flat = is_of_host(launch.kind);
      for (uint32_t o = 0; o < launch.operand_count; ++o) {
        const uint32_t index = exe.operands[launch.first_operand + o];
        const Slot& slot = exe.slots[index];
        if (slot.kind == SlotKind::kParam) {
          const Recording::Ref& ref = r_.params[entry.first_param + slot.index];
          ASTER_TRY(push(ref, is_target(exe, index), flat));
        } else if (slot.kind == SlotKind::kOutput) {
          ASTER_TRY(push({r_.outputs[entry.first_output + slot.index], 0, 0, {}, {}}, false, flat));
        } else if (slot.kind == SlotKind::kCopy) {
          void* const copy = r_.copies[entry.first_copy + slot.index]->data;
          ASTER_TRY(p_.sources.push(Source{Where::kFixed, 0, 0, copy, 0, flat}));
        } else {
          const Where where = slot.kind == SlotKind::kAbsent ? Where::kFixed : Where::kWorkspace;
          const bool there = slot.kind == SlotKind::kTemporary;
          ASTER_TRY(
              p_.sources.push(Source{where, 0, slot.offset, nullptr, there ? area : 0, flat}));
        }
        p_.sources.back().offset += exe.shift(launch.first_operand + o);
      }
    }
    return kOk;
  }

  // Whether a Param is what a root writes: roots that are Assigns have their target's slot.
  static bool is_target(const Executable& exe, uint32_t slot) {
    if (exe.graph != nullptr) return written_by_interpreter(exe, exe.slots[slot].index);
    return std::find(exe.roots.begin(), exe.roots.end(), slot) != exe.roots.end();
  }

  Status collect_patches() {
    for (size_t which = 0; which < p_.patched(); ++which) {
      const bool input = which < p_.inputs.size();
      ASTER_TRY(p_.patch_start.push(static_cast<uint32_t>(p_.patches.size())));
      for (uint32_t i = 0; i < p_.sources.size(); ++i) {
        const Source& source = p_.sources[i];
        const bool match =
            input ? source.where == Where::kInput && source.index == which
                  : source.where == Where::kResult && source.index == which - p_.inputs.size();
        if (!match) continue;
        const int64_t offset =
            input ? source.offset : source.offset - p_.results[source.index].offset;
        ASTER_TRY(p_.patches.push(Patch{i, offset}));
      }
    }
    return p_.patch_start.push(static_cast<uint32_t>(p_.patches.size()));
  }

  Engine& e_;
  Recording& r_;
  Program& p_;
  // Where in the workspace what a step makes is.
  struct Inside {
    uint32_t area;
    int64_t offset;
  };
  Map<Storage*, Inside> internal_;
  Map<Storage*, uint32_t> results_;
  Vec<Captured> captured_;
};

}  // namespace

Status capture_begin(Engine& engine, std::span<Lazy* const> inputs) {
  if (engine.recording != nullptr) return ASTER_FAIL(kSTATE, "a capture is open");
  ASTER_TRY(realize_stored(engine, inputs));
  // What the step assigns to an input goes into its memory, and is the input's alone.
  for (Lazy* input : inputs) ASTER_TRY(have_own_storage(engine, *input, false));
  ASTER_TRY(realize(engine, inputs));
  forget_copies(engine);
  forget_kept(engine);  // replays compute all that the step does
  Heap& heap = engine.context.heap();
  Recording* r = heap.create<Recording>(heap);
  if (r == nullptr) return out_of_memory(sizeof(Recording));
  r->families = engine.families;
  engine.recording = r;
  const auto fill = [&]() -> Status {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Node node = inputs[i]->node;
      for (size_t j = 0; j < i; ++j) {
        if (region_of(inputs[j]->node).overlaps(region_of(node)))
          return ASTER_FAIL(kARGUMENT, "inputs %zu and %zu of a capture overlap in memory", j, i);
      }
      Array array;
      ASTER_TRY(take_array(&array, &r->dims, node));
      ASTER_TRY(r->inputs.push(array));
      ASTER_TRY(r->kept.push(storage_at(node)));
      buffer::storage_retain(storage_at(node));
    }
    return kOk;
  };
  Status status = fill();
  if (!status.ok()) drop_recording(engine);
  return status;
}

static Status build_program(Program** out, Engine& engine, std::span<Lazy* const> outputs) {
  Heap& heap = engine.context.heap();
  if (engine.recording == nullptr) return ASTER_FAIL(kSTATE, "no capture is open");
  Status status = realize_stored(engine, outputs);
  Program* program = nullptr;
  if (status.ok()) {
    program = heap.create<Program>(heap);
    status = program != nullptr ? handle_init(program, engine.context, free_program)
                                : out_of_memory(sizeof(Program));
    if (!status.ok()) heap.destroy(std::exchange(program, nullptr));
  }
  if (program != nullptr) {
    program->replayed = &engine.replayed;
    program->trace = &engine.trace;
    scope_remove(program);  // a program outlives the scope of the step that it was captured from
    status = Builder(engine, *engine.recording, *program).run(outputs);
    if (status.ok()) {
      program->own = heap.create<Workspace>(heap);
      status = program->own != nullptr ? fill_workspace(program->own, *program)
                                       : out_of_memory(sizeof(Workspace));
    }
    if (!status.ok()) free_handle(program);
  }
  drop_recording(engine);
  if (status.ok()) *out = program;
  return status;
}

}  // namespace aster::engine

using aster::Status;
using aster::engine::context_of;
using aster::engine::Engine;
using aster::engine::Lazy;
using aster::engine::Program;
using aster::engine::Recording;

namespace {

Status cells_of(aster::Vec<Lazy*>* out, const Engine& engine, aster_ml_lazy* const* handles,
                size_t count) {
  if (handles == nullptr && count != 0) return ASTER_FAIL(kARGUMENT, "null array of tensors");
  for (size_t i = 0; i < count; ++i) {
    auto* lazy = handles[i] == nullptr ? nullptr : aster::object_of<Lazy>(handles[i]->impl);
    if (lazy == nullptr) return ASTER_FAIL(kARGUMENT, "tensor %zu is empty or freed", i);
    if (lazy->engine != &engine)
      return ASTER_FAIL(kARGUMENT, "tensor %zu belongs to another context", i);
    ASTER_TRY(out->push(aster::engine::whole_of(lazy)));
  }
  return aster::kOk;
}

aster::uop::Nodes sizes_of(const Lazy& lazy) {
  if (lazy.sized == nullptr) return {};
  return {lazy.sized->sizes, lazy.sized->ndim};
}

Status open_recording(Recording** out, const aster_ml_context* context) {
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  *out = engine->recording;
  return *out == nullptr ? ASTER_FAIL(kSTATE, "no capture is open") : Status(aster::kOk);
}

}  // namespace

int32_t aster_ml_engine_capture_begin(const aster_ml_context* context, aster_ml_lazy* const* inputs,
                                      size_t count) {
  ASTER_ENTER(context_of(context));
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  aster::Vec<Lazy*> cells(engine->context.heap());
  ASTER_TRY(cells_of(&cells, *engine, inputs, count));
  ASTER_TRY(aster::engine::capture_begin(*engine, {cells.data(), cells.size()}));
  // A whole tensor that got memory of its own is what the present sizes are of.
  for (size_t i = 0; i < count; ++i) {
    auto* lazy = aster::object_of<Lazy>(inputs[i]->impl);
    Status shown = lazy->sized == nullptr ? aster::kOk : aster::engine::show_present(*lazy);
    if (shown.ok()) shown = aster::engine::note_sizes(*engine, sizes_of(*lazy));
    if (!shown.ok()) aster::engine::drop_recording(*engine);
    ASTER_TRY(shown);
  }
  return aster::kOk;
}

int32_t aster_ml_engine_capture_end(aster_ml_program* out, const aster_ml_context* context,
                                    aster_ml_lazy* const* outputs, size_t count) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENTER(context_of(context));
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "null out");
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  aster::Vec<Lazy*> cells(engine->context.heap());
  Status status = cells_of(&cells, *engine, outputs, count);
  const bool note = engine->recording != nullptr && !engine->recording->sizes_noted;
  for (size_t i = 0; i < count && status.ok() && note; ++i) {
    const auto* lazy = aster::object_of<Lazy>(outputs[i]->impl);
    status = aster::engine::note_sizes(*engine, sizes_of(*lazy));
  }
  if (!status.ok()) aster::engine::drop_recording(*engine);
  ASTER_TRY(status);
  Program* program = nullptr;
  ASTER_TRY(aster::engine::build_program(&program, *engine, {cells.data(), cells.size()}));
  out->impl = program->handle;
  return aster::kOk;
}

int32_t aster_ml_engine_capture_prune(const aster_ml_context* context) {
  ASTER_ENTER(context_of(context));
  Recording* recording = nullptr;
  ASTER_TRY(open_recording(&recording, context));
  recording->prune = true;
  return aster::kOk;
}

int32_t aster_ml_engine_capture_constant(const aster_ml_context* context) {
  ASTER_ENTER(context_of(context));
  Recording* recording = nullptr;
  ASTER_TRY(open_recording(&recording, context));
  recording->constant = true;
  return aster::kOk;
}

int32_t aster_ml_engine_capture_dry(const aster_ml_context* context) {
  ASTER_ENTER(context_of(context));
  Recording* recording = nullptr;
  ASTER_TRY(open_recording(&recording, context));
  recording->dry = recording->callers = true;
  return aster::kOk;
}

int32_t aster_ml_engine_capture_cancel(const aster_ml_context* context) {
  ASTER_ENTER(context_of(context));
  // Without an engine there is no capture; giving up allocates nothing.
  void* engine = context_of(context)->state(aster::Module::kEngine);
  if (engine != nullptr) aster::engine::drop_recording(*static_cast<Engine*>(engine));
  return aster::kOk;
}
