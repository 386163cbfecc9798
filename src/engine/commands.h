// Runs of what is not the host's alone: commands for queues of devices, with launches of the host
// between them.
#pragma once

#include "engine/engine.h"

namespace aster::engine {

// Fills what the launches of an executable read: memory and offset of each operand; what the host
// computes on is one address. arena: on the device; host: temporaries of the host.
void bind_away(void** pointers, size_t* offsets, const Executable& exe,
               std::span<const Given> params, std::span<const Given> outputs, void* arena,
               char* host);

// Asks the context whether the host may compute for a device on copies.
Status may_copy(Context& context, const Executable& exe);

// Made once for executables one after another and run on whatever their operands are then.
class Commands {
 public:
  explicit Commands(Heap& heap) : commands_(heap), infos_(heap), steps_(heap) {}
  // Behind those that are there. pointers and offsets: of all operands of the executable, read by
  // every run; scratch: for native calls; writes: what is interpreted as a whole does in place.
  Status add(const Executable& exe, void* const* pointers, const size_t* offsets, char* scratch,
             bool writes);
  // Runs all of it and waits for the end; allocates nothing but what backends do. *ran: how far it
  // came, *wrote: whether something may be written in place. Errors: DEVICE, MEMORY, and those of
  // the interpreter.
  Status run(Ran* ran, bool* wrote, runtime::Queues& queues, const Run& run, int threads);

 private:
  enum class Kind : uint8_t { kSubmit, kHost, kCopy, kInterpret, kProgram };
  struct Step {
    Kind kind;
    bool writes;
    const Executable* exe;
    uint32_t first, count;  // commands of a submit, else launches
    void* const* pointers;
    const size_t* offsets;
    char* scratch;
  };
  // What a queue was given and may still be at.
  struct Pending {
    const runtime::Device* device = nullptr;
    void* queue = nullptr;
    uint64_t ticket = 0;
    Status wait();
  };
  Status add_command(const Executable& exe, const Launch& launch, void* const* pointers,
                     const size_t* offsets);
  Status run_step(Ran* ran, bool* wrote, Pending* pending, const Step& step,
                  runtime::Queues& queues, const Run& run, int threads);
  Status submit(Pending* pending, const Step& step, runtime::Queues& queues, const Run& run);

  Vec<aster_ml_command> commands_;
  Vec<const LaunchInfo*> infos_;  // one a command
  Vec<Step> steps_;
};

}  // namespace aster::engine
