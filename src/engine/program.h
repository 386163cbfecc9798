// A captured step: launches on pointers that a replay patches in place.
#pragma once

#include <atomic>

#include "base/text.h"
#include "buffer/region.h"
#include "engine/commands.h"
#include "engine/conditions.h"
#include "engine/recording.h"

namespace aster::engine {

enum class Where : uint8_t { kFixed, kWorkspace, kInput, kResult };

// Where a pointer of a launch comes from.
struct Source {
  Where where;
  uint32_t index;  // input or result
  int64_t offset;  // into it, or into the workspace
  void* fixed;
  uint32_t area = 0;  // of the workspace
  bool flat = true;   // an address; else what a backend allocated, and an offset
};

// Memory of a workspace on a device that names memory by offsets.
struct Area {
  int32_t device;
  int64_t bytes;
};

struct Result {
  Array array;
  Where where;     // kResult: an array of the workspace that a caller's memory may stand for
  uint32_t input;  // for kInput
  int64_t offset;  // for kResult: into the workspace
  uint32_t area;
};

// One of the arrays that a program's lists tell of.
struct Value {
  static constexpr uint32_t kNone = UINT32_MAX;
  Array array;
  bool assigned;  // a run leaves another value there
  Text name;
  uint32_t first_size = kNone;  // of an array of symbolic sizes: into those of the program
  bool named = false;           // by somebody
};

struct Patch {
  uint32_t pointer;
  int64_t offset;
};

// Ranges of memory that do not overlap, in order.
class Regions {
 public:
  explicit Regions(Memory& memory) : all_(memory) {}
  Status add(const buffer::Region& region) { return all_.push(region); }
  // Sorts; what overlaps becomes one. Returns whether something did.
  bool merge();
  bool touches(const buffer::Region& region) const;

 private:
  Vec<buffer::Region> all_;
};

// A variable that a program's kernels read, or that was looked at while it was captured.
struct ProgramVariable {
  static constexpr uint32_t kNone = UINT32_MAX;
  Text name;
  int64_t least, most;
  int64_t value;           // of runs that are given no other
  uint32_t number;         // among those of the context
  uint32_t input = kNone;  // that it is
  bool seen = false;       // the program is for the value that it was captured with
  bool limited = false;    // conditions have to do with it
};

struct Program;

struct Workspace : HandleObject {
  explicit Workspace(Heap& heap)
      : pointers(heap),
        offsets(heap),
        current(heap),
        given(heap),
        last(heap),
        staged(heap),
        values(heap),
        late(heap),
        areas(heap),
        apart(heap),
        wholes(heap),
        commands(heap),
        queues(heap) {}
  Program* program = nullptr;
  buffer::Storage* memory = nullptr;
  Vec<void*> pointers;  // of every launch
  Vec<size_t> offsets;  // the same, where a device takes part
  Vec<Given> current;   // what each input and result points to now
  // How the run goes that these are given to: inputs, then outputs.
  Vec<Given> given;
  bool planned = false;
  // What the last run was given, where one that is given the same is its launches and no more.
  Vec<aster_ml_tensor> last;
  // Where inputs are copied first that lie in memory which the run writes; -1 for the others.
  Vec<int64_t> staged;
  buffer::Storage* staging = nullptr;
  Vec<int64_t> values;  // of the program's variables, as inputs read them
  Vec<uint8_t> late;    // outputs in memory that the run reads: made in the workspace, then copied
  Vec<buffer::Storage*> areas;   // on devices
  Vec<buffer::Storage*> apart;   // copies of inputs on devices; null: none
  Vec<buffer::Storage*> wholes;  // of inputs, for their greatest sizes; null: not yet
  Commands commands;             // of a program that is not the host's alone
  runtime::Queues queues;
  Runs runs;
  std::atomic<bool> busy{false};
};

struct Program : HandleObject {
  explicit Program(Heap& heap)
      : entries(heap),
        first_pointer(heap),
        sources(heap),
        inputs(heap),
        variables(heap),
        conditions(heap),
        assigned(heap),
        results(heap),
        values(heap),
        dims(heap),
        sizes(heap),
        drawn(heap),
        renewed(heap),
        params(heap),
        outputs(heap),
        kept(heap),
        areas(heap),
        reads(heap),
        writes(heap),
        patches(heap),
        patch_start(heap) {}
  Vec<Entry> entries;
  Vec<uint32_t> first_pointer;  // of each entry
  Vec<Source> sources;          // of every pointer
  Vec<Array> inputs;            // the caller's, then those that are variables
  size_t hidden = 0;            // of the latter
  Vec<ProgramVariable> variables;
  Conditions conditions;   // of their values
  Vec<uint32_t> assigned;  // the inputs that a run writes
  Vec<Result> results;
  Vec<Value> values;  // inputs, results, then the memory that it was captured with
  Vec<int64_t> dims;
  Vec<uint32_t> sizes;  // steps of conditions; one an axis of an array of symbolic sizes
  Vec<Drawn> drawn;
  Vec<Made> renewed;  // of what was made from data, what the launches write
  // What entries' leaves and roots are, as recorded: with their keys, all that saving needs.
  Vec<Recording::Ref> params;
  Vec<buffer::Storage*> outputs;
  Vec<buffer::Storage*> kept;
  Vec<Area> areas;           // area i + 1; the host's is area 0, of `bytes`
  bool away = false;         // a device takes part
  int64_t copied_bytes = 0;  // between it and the host, by a run
  uint64_t on_host = 0;
  Regions reads, writes;  // captured memory that the launches read, and that they write
  Vec<Patch> patches;     // inputs' pointers, then results', in runs
  Vec<uint32_t> patch_start;
  int64_t bytes = 0;
  int threads = 1;
  Work work;
  double expected = 0;           // nanoseconds of what is compiled
  Replayed* replayed = nullptr;  // the engine's count
  const Trace* trace = nullptr;  // the engine's
  bool writes_state = false;
  bool interprets = false;
  std::atomic<bool> busy{false};
  uint32_t holders = 1;  // the handle and every workspace
  Workspace* own = nullptr;

  size_t patched() const { return inputs.size() + results.size(); }
  uop::Words shape(const Array& a) const { return {dims.data() + a.first_dim, a.ndim}; }
};

// A Buffer that a launch of a capture reads or writes and that is no input and made by no launch.
struct Captured {
  buffer::Region region;
  Array buffer;
  bool assigned;
  uint32_t first = 0;  // which one it is in the order of the launches
};
// Fills the lists of a program whose inputs and results are there; sorts what was captured.
Status list_values(Program& program, Vec<Captured>& captured);

// An array of a list. Errors: ARGUMENT, RANGE.
Status find_value(const Value** out, Program& program, int32_t list, size_t index);
// Calls an array by another name. Errors: ARGUMENT.
Status rename(Value& value, const char* name);

// Handles' ways to give up what they hold.
void free_program(HandleObject* object);
void free_workspace(HandleObject* object);
void destroy_workspace(Program& program, Workspace* workspace);

// An array's bytes and memory.
size_t array_bytes(const Program& program, const Array& array);
buffer::Region region_of(const Program& program, const Array& array);
inline Given given_of(const Array& array, const aster_ml_tensor& tensor) {
  char* data = static_cast<char*>(tensor.storage.data);
  if (array.away) return {data, tensor.byte_offset};
  return {data + tensor.byte_offset, 0};
}
inline Given given_of(const Array& array) {
  return Given{array.storage->data, static_cast<size_t>(array.offset)};
}
inline void* data_of(const aster_ml_tensor& tensor) {
  return static_cast<char*>(tensor.storage.data) + tensor.byte_offset;
}
// Checks what a run is given against what was captured, and plans for memory that is written while
// it is still to be read: what can be, works as if every input was a copy. Nothing has run when it
// fails. Errors: DTYPE, SHAPE, RANGE, DEVICE, ARGUMENT, MEMORY.
Status plan_run(const Program& program, Workspace& workspace,
                std::span<const aster_ml_tensor> inputs, std::span<const aster_ml_tensor> outputs);

// Notes what a run was given that went well, and whether that is there again; such a run.
Status note_run(const Program& program, Workspace& workspace,
                std::span<const aster_ml_tensor> inputs, std::span<const aster_ml_tensor> outputs);
bool is_given_again(const Program& program, const Workspace& workspace,
                    std::span<const aster_ml_tensor> inputs,
                    std::span<const aster_ml_tensor> outputs);
Status run_again(const Program& program, Workspace& workspace);
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

// What a run is called with. Errors: ARGUMENT.
struct RunOf {
  Program* program;
  Workspace* workspace = nullptr;
};
Status check_run(RunOf* out, aster_ml_workspace* workspace, const aster_ml_tensor* inputs,
                 size_t input_count, const aster_ml_tensor* outputs, size_t output_count);
// Whether a run may have these values. Errors: RANGE, UNSUPPORTED.
Status check_values(const Program& program, std::span<const int64_t> values);
// A run in a workspace that the caller holds. values: of the variables in their order; null: the
// program's own.
Status run_held(Program& program, Workspace& workspace, std::span<const aster_ml_tensor> inputs,
                std::span<aster_ml_tensor> outputs, const int64_t* values);
// Whether a tensor of as many axes has that shape and lies row by row. An empty one may lie anyhow.
bool is_row_major(uop::Words shape, const aster_ml_tensor& given);

// Where in the workspace a result is unless a caller gives memory for it.
Given home_of(const Workspace& workspace, const Result& result);
// Memory and pointers of a new workspace.
Status fill_workspace(Workspace* workspace, Program& program);

// Of a code from outside, for messages.
inline const char* dtype_text(int32_t code) {
  const char* const name = aster_ml_dtype_name(code);
  return name != nullptr ? name : "of no code";
}

}  // namespace aster::engine
