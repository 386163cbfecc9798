// The engine of a context: live cells, schedule cache, execution, capture.
#pragma once

#include <atomic>

#include "aster_ml/codegen.h"
#include "aster_ml/engine.h"
#include "base/interrupt.h"
#include "codegen/codegen.h"
#include "codegen/sizes.h"
#include "engine/constants.h"
#include "engine/kept.h"
#include "engine/lazy.h"
#include "engine/leaves.h"
#include "engine/library.h"
#include "engine/schedule.h"
#include "engine/symbols.h"
#include "runtime/cpu/module.h"
#include "runtime/load.h"

namespace aster::engine {

struct Recording;
struct DeviceProgram;

enum class LaunchKind : uint8_t {
  kHost,       // function or plan, by threads of the host
  kDevice,     // kernel, by the executable's device
  kCopyIn,     // bytes from the host to the device; operands: to, from
  kCopyOut,    // and back
  kMove,       // bytes from a device to another; operands: to, from
  kInterpret,  // the whole graph, by the host; operands: its leaves, then its roots
  kProgram,    // a portable program, by the backend's own means; operands: its inputs, its outputs
};

inline bool is_of_host(LaunchKind kind) {
  return kind == LaunchKind::kHost || kind == LaunchKind::kInterpret;
}
inline bool is_copy(LaunchKind kind) {
  return kind == LaunchKind::kCopyIn || kind == LaunchKind::kCopyOut;
}

// One call of a compiled kernel or of a library, or a copy.
struct Launch {
  runtime::KernelFunction function = nullptr;
  native::Plan* plan = nullptr;    // instead of function
  const int64_t* sizes = nullptr;  // that function takes
  uint32_t first_operand = 0, operand_count = 0;
  uint32_t first_size = 0, size_count = 0;
  int64_t tasks = 1;
  double nanoseconds = 0;  // estimate of the whole
  double expected = 0;     // the same, where nanoseconds is 0 for what one thread has to do too
  double remaining = 0;    // expected of this and all that follow
  bool writes = false;     // to memory of the schedule's caller, in place
  bool scratched = false;  // needs scratch memory, each part its own
  uint32_t beside = 1;     // launches, this and those behind it, that may run side by side
  static constexpr uint32_t kMostOperands = 64;
  uint64_t written = 0;  // of its first operands, bit by bit, which it writes
  LaunchKind kind = LaunchKind::kHost;
  void* kernel = nullptr;    // of the device's modules
  int64_t bytes = 0;         // of a copy
  int32_t to = 0, from = 0;  // devices, of a copy
};

// As of its last run.
native::How how_of(const Launch& launch);

// What makes a copy of a leaf that does not change (constants.h), and how much that is.
struct CopyOf {
  // What makes it of params that are both, or a plan instead.
  runtime::KernelFunction function = nullptr;
  native::Plan* plan = nullptr;
  int64_t scratch_bytes = 0;
  uint32_t leaf = 0;
  bool padded = false;  // what is not written has to be 0
  int64_t bytes = 0;
  codegen::program::Digest way;  // of the program that makes it
};

// What launches amount to; operations and bytes are estimates.
struct Work {
  uint64_t kernels = 0, operations = 0, bytes = 0;
  void add(const Work& other) {
    kernels += other.kernels;
    operations += other.operations;
    bytes += other.bytes;
  }
};

// What a launch is to people.
struct LaunchInfo {
  char title[64] = {};  // what it computes
  Work work;
  uint32_t groups[3] = {}, locals[3] = {};  // of a device's launch that is not by tasks
  const char* cut = "";                     // why what it computes is stored; static
};

// Who is told of launches.
struct Trace {
  aster_ml_launch_function function = nullptr;
  void* self = nullptr;
};

// What a trace is told of all launches of a run.
struct Run {
  const Trace& trace;
  Context& context;
  Interrupt& interrupt;
  int32_t device;
  bool replayed;

  bool traced() const { return trace.function != nullptr; }
  // The same of what runs elsewhere.
  Run on(int32_t other) const { return {trace, context, interrupt, other, replayed}; }
  // Behind a launch that began at start, in nanoseconds.
  void tell(const LaunchInfo& info, native::How how, size_t operands, uint64_t start,
            bool by_strips = false) const;
};
uint64_t nanoseconds();

// What the runs on one workspace come to. One of them goes on at a time, which counts without
// waiting for anyone; whoever adds up may look at any time.
struct Runs {
  const Work* work = nullptr;  // of one
  std::atomic<uint64_t> count{0};
  Runs *next = nullptr, **link = nullptr;  // among those of the engine

  void add() { count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  Work sum() const {
    const uint64_t n = count.load(std::memory_order_relaxed);
    return {n * work->kernels, n * work->operations, n * work->bytes};
  }
};
// What programs ran, on any thread. Workspaces come and go inside the context.
class Replayed {
 public:
  void enter(Runs* runs, const Work& work);
  void leave(Runs* runs);
  Work work() const;
  // Another number after any run.
  uint64_t stamp() const;

 private:
  Runs* first_ = nullptr;
  Work gone_;  // of those that left
  uint64_t gone_runs_ = 0;
};

// A schedule ready to run on any memory. Counted: the cache and programs hold it.
class Executable {
 public:
  explicit Executable(Heap& heap)
      : heap_(heap),
        key(heap),
        slots(heap),
        operands(heap),
        shifts(heap),
        launches(heap),
        infos(heap),
        sizes(heap),
        plans(heap),
        copies(heap),
        constants(heap),
        roots(heap),
        summary(heap),
        code(heap) {}
  void retain() { ++references_; }
  void release();
  int64_t shift(size_t operand) const { return operand < shifts.size() ? shifts[operand] : 0; }

  Heap& heap_;
  Vec<int64_t> key;
  Vec<Slot> slots;
  Vec<uint32_t> operands;
  Vec<int64_t> shifts;  // bytes from where operands' slots begin; those behind the last have none
  Vec<Launch> launches;
  Vec<LaunchInfo> infos;  // one a launch
  Vec<int64_t> sizes;     // of all launches
  Vec<native::Plan*> plans;
  Vec<CopyOf> copies;
  Vec<uint64_t> constants;  // bits of the leaves that do not change; none: nothing is known of them
  Vec<uint32_t> roots;
  Text summary;             // a line an item
  Work work;                // of all launches
  int64_t arena_bytes = 0;  // temporaries, then scratch of library calls
  int64_t scratch_offset = 0;
  int64_t scratch_stride = 0;  // a thread
  runtime::Loaded code;        // of the launches
  // What is not the host's alone runs by commands (commands.h), on memory of a device.
  bool away = false;
  const runtime::Device* device = nullptr;  // null: moves only
  int64_t device_bytes = 0;                 // temporaries there
  int64_t copied_bytes = 0;                 // between it and the host, by a run
  bool own_kernels = false;        // kernels of others for it: the interpreter cannot stand in
  uint64_t on_host = 0;            // launches that the host does for the device
  DeviceProgram* whole = nullptr;  // what its one launch executes
  // Where there is no compiler, or on the reference device: the graph itself, interpreted.
  uop::Graph* graph = nullptr;
  uop::Node sink = nullptr;
  Vec<uop::Node>* params = nullptr;
  // Kernels are made for these sizes alone.
  bool own_sizes = false;
  double spent = 0;      // in runs found in the cache, in nanoseconds, as was estimated
  bool for_now = false;  // not to be kept: compiling may go better next time
  uint64_t hash = 0;
  Executable* next = nullptr;  // chain of the cache

 private:
  friend ::aster::Memory;
  ~Executable();
  uint32_t references_ = 1;
};

// Counts a run of kernels that take sizes, and whether they have been run for so long that kernels
// for these sizes alone are worth the compiler's time.
bool is_worth_own_sizes(Executable& exe);

// Executables by the hashes of their keys.
class Plans {
 public:
  explicit Plans(Heap& heap) : table_(heap) {}
  ~Plans() { clear(); }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;
  Executable** find(uint64_t hash) { return table_.find(hash); }
  // Keeps a reference; where there are very many, all others go first.
  Status add(uint64_t hash, Executable* exe);
  void clear();
  size_t size() const { return count_; }

 private:
  Map<uint64_t, Executable*> table_;
  size_t count_ = 0;
};

struct Ready;
class Key;
// Small computations that were made before (ready.h): a place for each by its hash, where a later
// one takes an earlier one's.
class ReadyTable {
 public:
  explicit ReadyTable(Heap& heap) : heap_(heap) {}
  ~ReadyTable();
  ReadyTable(const ReadyTable&) = delete;
  ReadyTable& operator=(const ReadyTable&) = delete;

  Ready* find(const Key& key) const;  // null where there is none
  // Of a computation whose root is compiled here, if it never was. operands: the Buffers that it
  // was built on, in the order in which runs give their addresses.
  Status make(Ready** out, Engine& engine, const Key& key, uop::Node root, uop::Nodes operands);
  void forget(const Ready& ready);

 private:
  static constexpr size_t kPlaces = 256;
  void drop(Ready* ready);
  Heap& heap_;
  Ready** places_ = nullptr;
};

class Engine {
 public:
  static Status create(Engine** out, Context& context);

  Context& context;
  uop::Graph& graph;
  size_t cells = 0;         // that live
  Lazy* wanting = nullptr;  // those that ask for a gradient
  aster_ml_engine_counters counters = {};
  Replayed replayed;
  Trace trace;
  Recording* recording = nullptr;
  Plans plans;
  Plans* plans_now = &plans;  // or those of the arena that is realised
  size_t living_arenas = 0;
  bool measures = false;  // kernels wait for their machine code, whose time is asked for
  bool folds = false;     // what a model's constants make: for its sizes alone, and kept on disk
  Executable* last = nullptr;
  buffer::Storage* arena = nullptr;       // reused by every realize
  Map<int32_t, buffer::Storage*> arenas;  // the same on other devices
  runtime::Queues queues;
  // Kernels that the compiler refused while it took others, by hashes of their names.
  Map<uint64_t, bool> refused;
  ReadyTable ready;
  Symbols symbols;
  Vec<aster_ml_tuned> tuned;  // kernels whose plans were searched for
  uint64_t families = 0;      // given to cells
  Vec<Kept> kept_values;      // sources before users
  int64_t kept_bytes = 0;
  uint64_t kept_since = 0;  // the stamp of replayed
  Vec<KeptCopy> copies;     // of what does not change, that programs hold (constants.h)
  int threads;
  int32_t device;  // the default one
  // What kernels of the host are made for instead, where they are not to run here; null: the host.
  const runtime::Device* made_for = nullptr;
  Vec<Text> cuts;  // of launches whose schedules were read from disk

  // The executable of a graph: cached, or made. leaves: what it is to be given memory for. order:
  // as for write_key.
  Status executable(Executable** out, uop::Nodes roots, Leaves* leaves, int32_t device,
                    Vec<uop::Node>* order = nullptr);
  // Where kernels that differ in sizes become one; null: nowhere.
  codegen::SizeClasses* size_classes() {
    return context.options().no_sizes != 0 ? nullptr : &size_classes_;
  }
  // Says once for each reason, which the error record has, that the host has to compute; that the
  // interpreter has to.
  Status say_on_host(int32_t device_of_kernel);
  Status say_interpreted();
  Status arena_for(char** out, int64_t bytes);
  // The same on another device: what its backend allocated.
  Status arena_on(void** out, int32_t device, int64_t bytes);
  // Whether kernels for a device (null: those that the host runs, or made_for) have an instruction
  // for QuadDot.
  bool dots_bytes(const runtime::Device* on) const;
  // Everything that happens to a graph before fusion: *sink, in scratch, with leaf i as Param i.
  // on: the device of its kernels; null: the host.
  Status prepare_graph(uop::Node* sink, uop::Graph& scratch, uop::Nodes roots, const Leaves& leaves,
                       const runtime::Device* on = nullptr) const;

 private:
  friend ::aster::Memory;
  Engine(Context& owner, uop::Graph& nodes);
  ~Engine();
  Status compile(Executable* exe, uop::Nodes roots, const Leaves& leaves, bool interpret);
  Status schedule_and_compile(Executable* exe, uop::Nodes roots, const Leaves& leaves,
                              Arena& memory);
  Status compile_kernels(Executable* exe, uop::Graph& scratch, Schedule& schedule,
                         const Leaves& leaves, const Arena& scratch_memory);
  codegen::SizeClasses size_classes_;
  // Puts kernels of its own in the place of ones that take sizes where a schedule comes back often.
  Status specialise(Executable** at, uop::Nodes roots, const Leaves& leaves);
  Map<uint64_t, bool> said_reasons_;  // for interpreting, in the log
  Status keep_graph(Executable* exe, uop::Nodes roots, const Leaves& leaves);
  Status keep_graph_away(Executable* exe, uop::Nodes roots, const Leaves& leaves);
};

// What kernels are made for here.

// A Contiguous that moves to another device.
bool is_transfer(uop::Node node);
// The Buffer that a chain of views comes down to and where its first element is, in bytes from
// there; null if the view is not row-major in it.
Status as_storage(uop::Node* buffer, int64_t* offset, uop::Graph& g, uop::Node view);
// The Buffer that a chain of views comes down to, and how they lie in it, in elements: words of its
// first one, then of the step of every axis. Null where no steps say it.
Status as_strided(uop::Node* buffer, Vec<int64_t>* words, uop::Graph& g, uop::Node view);
// Whether reshapes and slices leave one piece of the Buffer below; where it begins, in elements.
bool one_piece(uop::Node* buffer, int64_t* first, uop::Node view);
// A node without the views on it: what they are of.
uop::Node below_views(uop::Node node);
// The Buffer that a node views, whatever was written there; null for what is computed.
uop::Node buffer_below(uop::Node node);

// The Buffer in which the elements of a node lie, windows that overlap included; null where there
// is something to compute.
uop::Node memory_below(uop::Node node);

// Whether an interpreted graph writes a leaf in place.
bool written_by_interpreter(const Executable& exe, size_t param);

// Monotonic time, for counters.
double milliseconds();

using aster::context_of;

// Memory of a leaf or a result: what a backend, or the host, allocated, and bytes into it.
struct Given {
  void* data;
  size_t offset;
  bool operator==(const Given&) const = default;
  void* address() const { return data == nullptr ? data : static_cast<char*>(data) + offset; }
};
// Fills the pointers that the launches of an executable of the host read: one an operand. copies:
// of what does not change.
void bind(void** pointers, const Executable& exe, const Given* params, const Given* outputs,
          char* arena, buffer::Storage* const* copies = nullptr);
// How far a run came. Once it writes in place it goes on to its end, unless that is far.
enum class Ran : uint8_t {
  kAll,
  kPart,    // stopped as asked; what is not temporary or a result is as before
  kWriting  // stopped; what is written in place is neither as before nor as it should be
};
// What takes longer is looked at in steps of this, whether to stop.
constexpr double kStepNs = 2e6;
// Sets what each launch has to know of the others, once all are there.
void finish_launches(Executable* exe);
// Runs a launch on the host. Whether it was not stopped; interrupt: null where it must not be.
bool launch_one(const Executable& exe, const Launch& item, void* const* params, char* scratch,
                int threads, Interrupt* interrupt);
// Runs every launch of what is soon done and untraced.
void launch_all(const Executable& exe, void* const* pointers, char* arena, int threads);
// Runs every launch and tells the trace of it. wrote: something was written in place before.
Ran launch(const Executable& exe, void* const* pointers, char* arena, int threads, const Run& run,
           bool wrote);
// The same through the reference interpreter, one launch; what is stopped has written nothing.
Status interpret(const Executable& exe, void* const* params, void* const* outputs, const Run& run);

// What random numbers are drawn from; in storage of two words, which the tensor module owns.
struct RandomState {
  uint64_t counter;  // words drawn so far
  uint64_t key;
};
// Draws so many words: the state's counter moves on at once. keys, uint64, has a key for each
// kRandomChunk of them, under which they are numbered from 0; it is storage of the draw's own, so
// that what is realised first does not matter. Replays of an open capture draw anew.
constexpr uint64_t kRandomChunk = 0xFFFFFFFF;
// They count as memory of device.
Status draw_random(uop::Node* keys, Engine& engine, buffer::Storage* state, int32_t device,
                   uint64_t words);

// Called by realize while a capture is open.
Status record(Recording& recording, Executable& exe, const Leaves& leaves,
              std::span<buffer::Storage* const> outputs,
              std::span<buffer::Storage* const> copies = {});
// Storage that was made from data while a capture is open: replays that write it begin with that.
Status note_made(Engine& engine, buffer::Storage* storage);
// A symbol whose value what is captured is for.
Status note_seen(Engine& engine, uint32_t symbol);
size_t count_seen(const Engine& engine);
// Leaves the first count of them.
void forget_seen(Engine& engine, size_t count);
void drop_recording(Engine& engine);

// Whether kernels of a device (null: the host) are those of a CPU.
bool is_near(const runtime::Device* on);

}  // namespace aster::engine
