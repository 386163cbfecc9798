// Capture: what the realize calls of a step ran, flattened into launches on pointers that a replay
// patches in place.
#include <algorithm>
#include <atomic>
#include <bit>

#include "buffer/tensor.h"
#include "engine/engine.h"

namespace aster::engine {

using buffer::Storage;
using uop::Node;
using uop::Op;

namespace {

constexpr int64_t kAlignment = 64;
int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

// A row-major array in memory, as captured.
struct Array {
  Storage* storage;
  int64_t offset;
  DType dtype;
  uint32_t first_dim, ndim;  // into the dims of whoever holds it
};

struct Entry {
  Executable* exe;
  uint32_t first_param, params;
  uint32_t first_output, outputs;
};

// A draw of random numbers, made anew by each replay.
struct Drawn {
  Storage* state;  // RandomState
  Storage* keys;
  uint64_t words;
  int64_t offset;  // of the keys that replays read, into the workspace
};

// Storage made from data inside a capture, and that data.
struct Made {
  Storage* storage;
  Storage* first;
};

// Fills the keys of a draw, one a chunk of its words, and moves the counter on. Threads: any.
void draw_keys(uint64_t* keys, Storage* state, uint64_t words) {
  RandomState& now = *static_cast<RandomState*>(state->data);
  const uint64_t key = std::atomic_ref(now.key).load();
  const uint64_t first = std::atomic_ref(now.counter).fetch_add(words);
  for (uint64_t done = 0; done < words; done += kRandomChunk) {
    const uop::Word operands[] = {std::bit_cast<uop::Word>(first + done),
                                  std::bit_cast<uop::Word>(key)};
    *keys++ = std::bit_cast<uint64_t>(
        uop::evaluate(Op::kThreefry, DType::kUInt64, DType::kUInt64, operands));
  }
}

}  // namespace

struct Recording {
  explicit Recording(Heap& heap)
      : entries(heap),
        params(heap),
        outputs(heap),
        inputs(heap),
        dims(heap),
        drawn(heap),
        made(heap),
        kept(heap) {}
  struct Ref {
    Storage* storage;
    int64_t offset;
  };
  Vec<Entry> entries;
  Vec<Ref> params;
  Vec<Storage*> outputs;
  Vec<Array> inputs;
  Vec<int64_t> dims;
  Vec<Drawn> drawn;
  Vec<Made> made;
  Vec<Storage*> kept;  // a reference each, so that no address is used twice during the capture
  bool prune = false;
};

namespace {

enum class Where : uint8_t { kFixed, kWorkspace, kInput, kResult };

// Where a pointer of a launch comes from.
struct Source {
  Where where;
  uint32_t index;  // input or result
  int64_t offset;  // into it, or into the workspace
  void* fixed;
};

struct Result {
  Array array;
  Where where;     // kResult: an array of the workspace that a caller's memory may stand for
  uint32_t input;  // for kInput
  int64_t offset;  // for kResult: into the workspace
};

struct Patch {
  uint32_t pointer;
  int64_t offset;
};

struct Program;

struct Workspace : HandleObject {
  explicit Workspace(Heap& heap) : pointers(heap), current(heap) {}
  Program* program = nullptr;
  Storage* memory = nullptr;
  Vec<void*> pointers;  // of every launch
  Vec<void*> current;   // what each input and result points to now
  std::atomic<bool> busy{false};
};

struct Program : HandleObject {
  explicit Program(Heap& heap)
      : entries(heap),
        first_pointer(heap),
        sources(heap),
        inputs(heap),
        assigned(heap),
        results(heap),
        dims(heap),
        drawn(heap),
        renewed(heap),
        kept(heap),
        patches(heap),
        patch_start(heap) {}
  Vec<Entry> entries;
  Vec<uint32_t> first_pointer;  // of each entry
  Vec<Source> sources;          // of every pointer
  Vec<Array> inputs;
  Vec<uint32_t> assigned;  // the inputs that a run writes
  Vec<Result> results;
  Vec<int64_t> dims;
  Vec<Drawn> drawn;
  Vec<Made> renewed;  // of what was made from data, what the launches write
  Vec<Storage*> kept;
  Vec<Patch> patches;  // inputs' pointers, then results', in runs
  Vec<uint32_t> patch_start;
  int64_t bytes = 0;
  int threads = 1;
  Work work;
  SharedWork* replayed = nullptr;  // the engine's count
  bool writes_state = false;
  bool interprets = false;
  std::atomic<bool> busy{false};
  uint32_t holders = 1;  // the handle and every workspace
  Workspace* own = nullptr;

  size_t patched() const { return inputs.size() + results.size(); }
  uop::Words shape(const Array& a) const { return {dims.data() + a.first_dim, a.ndim}; }
};

void release_program(Program* program) {
  if (--program->holders != 0) return;
  Heap& heap = program->context->heap();
  for (Entry& entry : program->entries) entry.exe->release();
  for (Storage* storage : program->kept) buffer::storage_release(storage);
  heap.destroy(program);
}

void destroy_workspace(Heap& heap, Workspace* workspace) {
  buffer::storage_release(workspace->memory);
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
  for (size_t i = 0; i < program.results.size(); ++i) {
    const Result& result = program.results[i];
    if (result.where == Where::kResult)
      workspace->current[program.inputs.size() + i] = memory + result.offset;
  }
  return kOk;
}

// Turns a recording and its results into a program.
class Builder {
 public:
  Builder(Engine& engine, Recording& recording, Program& program)
      : e_(engine),
        r_(recording),
        p_(program),
        internal_(engine.context.heap()),
        results_(engine.context.heap()) {}

  Status run(std::span<Lazy* const> outputs) {
    if (r_.prune) ASTER_TRY(prune());
    ASTER_TRY(place_internal());
    ASTER_TRY(take_arrays(outputs));
    for (const Entry& entry : r_.entries) ASTER_TRY(take_entry(entry));
    ASTER_TRY(collect_patches());
    for (Storage* storage : r_.kept) {
      buffer::storage_retain(storage);
      Status pushed = p_.kept.push(storage);
      if (!pushed.ok()) buffer::storage_release(storage);
      ASTER_TRY(pushed);
    }
    p_.threads = e_.threads;
    return kOk;
  }

 private:
  // Leaves the entries that have to do with inputs, and the draws that those read.
  Status prune() {
    Heap& heap = e_.context.heap();
    Map<Storage*, uint8_t> touched(heap);
    Vec<uint8_t> stays(heap);
    for (const Array& input : r_.inputs) ASTER_TRY(touched.set(input.storage, 1));
    for (const Entry& entry : r_.entries) {
      bool any = false;
      for (uint32_t i = 0; i < entry.params; ++i)
        any |= touched.contains(r_.params[entry.first_param + i].storage);
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
    for (const Entry& entry : r_.entries)
      p_.bytes = std::max(p_.bytes, aligned(entry.exe->arena_bytes));
    for (Storage* storage : r_.outputs) {
      if (storage == nullptr) continue;
      ASTER_TRY(internal_.set(storage, p_.bytes));
      p_.bytes += aligned(static_cast<int64_t>(storage->bytes));
    }
    ASTER_TRY(p_.drawn.append(r_.drawn.data(), r_.drawn.size()));
    for (Drawn& drawn : p_.drawn) {
      drawn.offset = p_.bytes;
      ASTER_TRY(internal_.set(drawn.keys, p_.bytes));
      p_.bytes += aligned(static_cast<int64_t>(drawn.keys->bytes));
    }
    return kOk;
  }

  Status take_arrays(std::span<Lazy* const> outputs) {
    ASTER_TRY(p_.inputs.append(r_.inputs.data(), r_.inputs.size()));
    ASTER_TRY(p_.dims.append(r_.dims.data(), r_.dims.size()));
    for (Lazy* output : outputs) {
      const Node node = output->node;
      Array array{storage_of(node), node->arg(2), node->dtype,
                  static_cast<uint32_t>(p_.dims.size()), node->ndim};
      ASTER_TRY(p_.dims.append(node->shape().data(), node->ndim));
      Result result{array, Where::kFixed, 0, 0};
      if (const int64_t* at = internal_.find(array.storage)) {
        result.where = Where::kResult;
        result.offset = *at + array.offset;
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
      for (uint32_t i = 0; i < p_.inputs.size() && result.where == Where::kFixed; ++i) {
        if (p_.inputs[i].storage == array.storage) result.where = Where::kInput, result.input = i;
      }
      ASTER_TRY(p_.results.push(result));
    }
    return kOk;
  }

  Status push(Storage* storage, int64_t offset, bool written) {
    Source source{Where::kFixed, 0, offset, nullptr};
    if (const int64_t* at = internal_.find(storage)) {
      source.offset = *at + offset;
      source.where = Where::kWorkspace;
      if (const uint32_t* result = results_.find(storage)) {
        source.where = Where::kResult;
        source.index = *result;
      }
      return p_.sources.push(source);
    }
    for (uint32_t i = 0; i < p_.inputs.size(); ++i) {
      if (p_.inputs[i].storage != storage) continue;
      if (written && std::ranges::find(p_.assigned, i) == p_.assigned.end())
        ASTER_TRY(p_.assigned.push(i));
      source.where = Where::kInput;
      source.index = i;
      source.offset = offset - p_.inputs[i].offset;
      return p_.sources.push(source);
    }
    p_.writes_state |= written;
    if (written) ASTER_TRY(renew(storage));
    source.fixed = storage->data == nullptr ? nullptr : static_cast<char*>(storage->data) + offset;
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
    if (exe.graph != nullptr) {  // one pointer a leaf, one a root
      p_.interprets = true;
      ++p_.work.kernels;
      for (uint32_t i = 0; i < entry.params; ++i) {
        const Recording::Ref& ref = r_.params[entry.first_param + i];
        ASTER_TRY(push(ref.storage, ref.offset, written_by_interpreter(exe, i)));
      }
      for (uint32_t i = 0; i < entry.outputs; ++i) {
        ASTER_TRY(push(r_.outputs[entry.first_output + i], 0, false));
      }
      return kOk;
    }
    p_.work.add(exe.work);
    for (const Launch& launch : exe.launches) {
      for (uint32_t o = 0; o < launch.operand_count; ++o) {
        const Slot& slot = exe.slots[exe.operands[launch.first_operand + o]];
        if (slot.kind == SlotKind::kParam) {
          const Recording::Ref& ref = r_.params[entry.first_param + slot.index];
          ASTER_TRY(push(ref.storage, ref.offset,
                         is_target(exe, exe.operands[launch.first_operand + o])));
        } else if (slot.kind == SlotKind::kOutput) {
          ASTER_TRY(push(r_.outputs[entry.first_output + slot.index], 0, false));
        } else {
          const Where where = slot.kind == SlotKind::kAbsent ? Where::kFixed : Where::kWorkspace;
          ASTER_TRY(p_.sources.push(Source{where, 0, slot.offset, nullptr}));
        }
      }
    }
    return kOk;
  }

  // Whether a Param is what a root writes: roots that are Assigns have their target's slot.
  static bool is_target(const Executable& exe, uint32_t slot) {
    return std::find(exe.roots.begin(), exe.roots.end(), slot) != exe.roots.end();
  }
  static bool written_by_interpreter(const Executable& exe, uint32_t param) {
    for (Node root : exe.sink->src()) {
      if (root->op != Op::kAssign) continue;
      while (root->nsrc != 0) root = root->src(0);
      if (root == (*exe.params)[param]) return true;
    }
    return false;
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
  Map<Storage*, int64_t> internal_;
  Map<Storage*, uint32_t> results_;
};

void redirect(const Program& program, Workspace& workspace, size_t which, void* to) {
  if (workspace.current[which] == to) return;
  workspace.current[which] = to;
  for (uint32_t i = program.patch_start[which]; i < program.patch_start[which + 1]; ++i) {
    const Patch& patch = program.patches[i];
    workspace.pointers[patch.pointer] = static_cast<char*>(to) + patch.offset;
  }
}

Status check_tensor(const Program& program, const Array& expected, const aster_ml_tensor& given,
                    const char* what, size_t i) {
  const uop::Words shape = program.shape(expected);
  if (given.dtype != static_cast<int32_t>(expected.dtype)) {
    return ASTER_FAIL(kDTYPE, "%s %zu has dtype code %d, captured with %s", what, i, given.dtype,
                      dtype::name(expected.dtype));
  }
  bool fits = given.ndim == shape.size();
  for (size_t axis = 0; fits && axis < shape.size(); ++axis) {
    fits = given.shape[axis] == static_cast<size_t>(shape[axis]);
  }
  if (!fits || aster_ml_tensor_is_contiguous(&given) == 0) {
    return ASTER_FAIL(kSHAPE, "%s %zu is not a row-major tensor of the captured shape %s", what, i,
                      uop::brief_shape(shape).text);
  }
  return kOk;
}

void* data_of(const aster_ml_tensor& tensor) {
  return static_cast<char*>(tensor.storage.data) + tensor.byte_offset;
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

Status execute(const Program& program, Workspace& workspace) {
  char* arena = static_cast<char*>(workspace.memory->data);
  for (const Drawn& drawn : program.drawn) {
    draw_keys(reinterpret_cast<uint64_t*>(arena + drawn.offset), drawn.state, drawn.words);
  }
  for (const Made& made : program.renewed)
    std::memcpy(made.storage->data, made.first->data, made.first->bytes);
  for (size_t i = 0; i < program.entries.size(); ++i) {
    const Entry& entry = program.entries[i];
    void* const* pointers = workspace.pointers.data() + program.first_pointer[i];
    if (entry.exe->graph != nullptr) {
      ASTER_TRY(interpret(*entry.exe, pointers, pointers + entry.params));
    } else {
      launch(*entry.exe, pointers, arena, program.threads);
    }
  }
  return kOk;
}

// Clears a flag at the end of a run.
class Busy {
 public:
  Busy(std::atomic<bool>& flag, bool wanted)
      : flag_(flag), held_(!wanted || !flag.exchange(true)), wanted_(wanted) {}
  ~Busy() {
    if (wanted_ && held_) flag_.store(false);
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
  for (size_t i = 0; i < inputs.size(); ++i)
    ASTER_TRY(check_tensor(program, program.inputs[i], inputs[i], "input", i));
  for (uint32_t i : program.assigned) {
    if (aster_ml_buffer_is_read_only(&inputs[i].storage) != 0) {
      return ASTER_FAIL(kARGUMENT, "the step assigns its input %u, which is read-only", i);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].storage.data != nullptr) {
      ASTER_TRY(check_tensor(program, program.results[i].array, outputs[i], "output", i));
    }
  }
  char* own = static_cast<char*>(workspace.memory->data);
  for (size_t i = 0; i < inputs.size(); ++i) redirect(program, workspace, i, data_of(inputs[i]));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (program.results[i].where != Where::kResult) continue;
    redirect(
        program, workspace, program.inputs.size() + i,
        outputs[i].storage.data != nullptr ? data_of(outputs[i]) : own + program.results[i].offset);
  }
  ASTER_TRY(execute(program, workspace));
  program.replayed->add(program.work);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Array& array = program.results[i].array;
    void* data = result_data(program, workspace, i);
    if (outputs[i].storage.data == nullptr) {
      ASTER_TRY(buffer::describe(&outputs[i], *program.context, data, array.dtype,
                                 array.storage->device, program.shape(array)));
    } else if (data != data_of(outputs[i])) {
      size_t bytes = dtype::size(array.dtype);
      for (int64_t dim : program.shape(array)) bytes *= static_cast<size_t>(dim);
      if (bytes != 0) std::memcpy(data_of(outputs[i]), data, bytes);
    }
  }
  return kOk;
}

}  // namespace

void drop_recording(Engine& engine) {
  Recording* recording = engine.recording;
  if (recording == nullptr) return;
  engine.recording = nullptr;
  for (Entry& entry : recording->entries) entry.exe->release();
  for (Storage* storage : recording->kept) buffer::storage_release(storage);
  engine.context.heap().destroy(recording);
}

Status draw_random(Node* keys, Engine& engine, Storage* state, int32_t device, uint64_t words) {
  Recording* r = engine.recording;
  const uint64_t count = (words + kRandomChunk - 1) / kRandomChunk;
  if (r != nullptr) {
    ASTER_TRY(r->kept.reserve(r->kept.size() + 2));
    ASTER_TRY(r->drawn.reserve(r->drawn.size() + 1));
  }
  Storage* storage = nullptr;
  ASTER_TRY(
      buffer::storage_create(&storage, engine.context, count * sizeof(uint64_t), state->device));
  *keys = buffer_node_on(engine, storage, device, 0, DType::kUInt64,
                         std::array<uop::Word, 1>{static_cast<uop::Word>(count)});
  if (*keys != nullptr) {
    draw_keys(static_cast<uint64_t*>(storage->data), state, words);
    if (r != nullptr) {
      buffer::storage_retain(state);
      buffer::storage_retain(storage);
      ASTER_TRY(r->kept.push(state));
      ASTER_TRY(r->kept.push(storage));
      ASTER_TRY(r->drawn.push(Drawn{state, storage, words, 0}));
    }
  }
  buffer::storage_release(storage);
  return *keys == nullptr ? last_failure() : kOk;
}

Status note_made(Engine& engine, Storage* storage) {
  Recording& r = *engine.recording;
  if (storage->bytes == 0) return kOk;
  ASTER_TRY(r.kept.reserve(r.kept.size() + 2));
  ASTER_TRY(r.made.reserve(r.made.size() + 1));
  Storage* first = nullptr;
  ASTER_TRY(buffer::storage_create(&first, engine.context, storage->bytes, storage->device));
  buffer::storage_retain(storage);
  ASTER_TRY(r.kept.push(storage));
  ASTER_TRY(r.kept.push(first));
  ASTER_TRY(buffer::copy({first->data, 0, first->device}, {storage->data, 0, storage->device},
                         storage->bytes));
  return r.made.push(Made{storage, first});
}

Status record(Recording& r, Executable& exe, std::span<const Node> leaves,
              std::span<Storage* const> outputs) {
  const auto keep = [&](Storage* storage) -> Status {
    if (storage == nullptr) return kOk;
    ASTER_TRY(r.kept.push(storage));
    buffer::storage_retain(storage);
    return kOk;
  };
  Entry entry{&exe, static_cast<uint32_t>(r.params.size()), static_cast<uint32_t>(leaves.size()),
              static_cast<uint32_t>(r.outputs.size()), static_cast<uint32_t>(outputs.size())};
  for (Node leaf : leaves) {
    ASTER_TRY(keep(storage_of(leaf)));
    ASTER_TRY(r.params.push(Recording::Ref{storage_of(leaf), leaf->arg(2)}));
  }
  for (Storage* storage : outputs) {
    ASTER_TRY(keep(storage));
    ASTER_TRY(r.outputs.push(storage));
  }
  ASTER_TRY(r.entries.push(entry));
  exe.retain();
  return kOk;
}

Status capture_begin(Engine& engine, std::span<Lazy* const> inputs) {
  if (engine.recording != nullptr) return ASTER_FAIL(kSTATE, "a capture is open");
  ASTER_TRY(realize(engine, inputs));
  Heap& heap = engine.context.heap();
  Recording* r = heap.create<Recording>(heap);
  if (r == nullptr) return out_of_memory(sizeof(Recording));
  engine.recording = r;
  const auto fill = [&]() -> Status {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Node node = inputs[i]->node;
      for (const Array& other : r->inputs) {
        if (other.storage == storage_of(node)) {
          return ASTER_FAIL(kARGUMENT,
                            "two inputs of a capture on one storage (the second is input %zu)", i);
        }
      }
      ASTER_TRY(r->inputs.push(Array{storage_of(node), node->arg(2), node->dtype,
                                     static_cast<uint32_t>(r->dims.size()), node->ndim}));
      ASTER_TRY(r->dims.append(node->shape().data(), node->ndim));
      ASTER_TRY(r->kept.push(storage_of(node)));
      buffer::storage_retain(storage_of(node));
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
  Status status = realize(engine, outputs);
  Program* program = nullptr;
  if (status.ok()) {
    program = heap.create<Program>(heap);
    status = program != nullptr ? kOk : out_of_memory(sizeof(Program));
  }
  if (program != nullptr) {
    handle_init(program, engine.context, free_program);
    program->replayed = &engine.replayed;
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
using aster::engine::Workspace;

namespace {

Status cells_of(aster::Vec<Lazy*>* out, const Engine& engine, aster_ml_lazy* const* handles,
                size_t count) {
  if (handles == nullptr && count != 0) return ASTER_FAIL(kARGUMENT, "null array of tensors");
  for (size_t i = 0; i < count; ++i) {
    if (handles[i] == nullptr || handles[i]->impl == nullptr)
      return ASTER_FAIL(kARGUMENT, "tensor %zu is empty", i);
    auto* lazy = static_cast<Lazy*>(handles[i]->impl);
    if (lazy->engine != &engine)
      return ASTER_FAIL(kARGUMENT, "tensor %zu belongs to another context", i);
    ASTER_TRY(out->push(lazy));
  }
  return aster::kOk;
}

}  // namespace

int32_t aster_ml_engine_capture_begin(const aster_ml_context* context, aster_ml_lazy* const* inputs,
                                      size_t count) {
  ASTER_ENTER(context_of(context));
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  aster::Vec<Lazy*> cells(engine->context.heap());
  ASTER_TRY(cells_of(&cells, *engine, inputs, count));
  return aster::engine::capture_begin(*engine, {cells.data(), cells.size()});
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
  if (!status.ok()) aster::engine::drop_recording(*engine);
  ASTER_TRY(status);
  Program* program = nullptr;
  ASTER_TRY(aster::engine::build_program(&program, *engine, {cells.data(), cells.size()}));
  out->impl = program;
  return aster::kOk;
}

int32_t aster_ml_engine_capture_prune(const aster_ml_context* context) {
  ASTER_ENTER(context_of(context));
  Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *context_of(context)));
  if (engine->recording == nullptr) return ASTER_FAIL(kSTATE, "no capture is open");
  engine->recording->prune = true;
  return aster::kOk;
}

int32_t aster_ml_engine_capture_cancel(const aster_ml_context* context) {
  ASTER_ENTER(context_of(context));
  // Without an engine there is no capture; giving up allocates nothing.
  void* engine = context_of(context)->state(aster::Module::kEngine);
  if (engine != nullptr) aster::engine::drop_recording(*static_cast<Engine*>(engine));
  return aster::kOk;
}

int32_t aster_ml_program_run(const aster_ml_program* program, aster_ml_workspace* workspace,
                             const aster_ml_tensor* inputs, size_t input_count,
                             aster_ml_tensor* outputs, size_t output_count) {
  ASTER_API();
  if (program == nullptr || program->impl == nullptr) return ASTER_FAIL(kARGUMENT, "empty program");
  auto* p = static_cast<Program*>(program->impl);
  auto* w = workspace != nullptr && workspace->impl != nullptr
                ? static_cast<Workspace*>(workspace->impl)
                : p->own;
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
  return program == nullptr || program->impl == nullptr
             ? 0
             : static_cast<Program*>(program->impl)->work.kernels;
}

size_t aster_ml_program_count_bytes(const aster_ml_program* program) {
  return program == nullptr || program->impl == nullptr
             ? 0
             : static_cast<size_t>(static_cast<Program*>(program->impl)->bytes);
}

int32_t aster_ml_program_free(aster_ml_program* program) {
  ASTER_API();
  if (program == nullptr || program->impl == nullptr) return aster::kOk;
  aster::free_handle(static_cast<Program*>(program->impl));
  program->impl = nullptr;
  return aster::kOk;
}

int32_t aster_ml_workspace_init(aster_ml_workspace* out, const aster_ml_program* program) {
  auto* p = program == nullptr ? nullptr : static_cast<Program*>(program->impl);
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENTER(p == nullptr ? nullptr : p->context);
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "null out");
  aster::Heap& heap = p->context->heap();
  auto* workspace = heap.create<Workspace>(heap);
  if (workspace == nullptr) return aster::out_of_memory(sizeof(Workspace));
  Status status = aster::engine::fill_workspace(workspace, *p);
  if (!status.ok()) {
    aster::engine::destroy_workspace(heap, workspace);
    return status;
  }
  workspace->program = p;
  ++p->holders;
  aster::handle_init(workspace, *p->context, aster::engine::free_workspace);
  aster::scope_remove(workspace);
  out->impl = workspace;
  return aster::kOk;
}

int32_t aster_ml_workspace_free(aster_ml_workspace* workspace) {
  ASTER_API();
  if (workspace == nullptr || workspace->impl == nullptr) return aster::kOk;
  aster::free_handle(static_cast<Workspace*>(workspace->impl));
  workspace->impl = nullptr;
  return aster::kOk;
}
