// Runs other programs from inside a host whose signals, descriptors and children are not ours to
// touch.
#pragma once

#include <span>
#include <string_view>

#include "base/interrupt.h"
#include "base/memory.h"

namespace aster::runtime::cpu {

// How long to wait for programs.
struct Patience {
  int32_t timeout_ms = 60'000;
  Interrupt* interrupt = nullptr;  // ends them when it is requested; null: nothing does
  // Told all that a compiler says, a line a call, when it fails; null: nobody is.
  void (*told)(void* self, const char* line) = nullptr;
  void* self = nullptr;
};

// One program to run. Its standard input holds `input`; standard output and error are captured. It
// gets no other descriptor, the signal handling of a fresh login, and a process group of its own.
struct Command {
  const char* const* arguments;    // [0] is the program's absolute path; ends with null
  const char* const* environment;  // ends with null
  std::span<const uint8_t> input;
  uint64_t file_limit = uint64_t{256} << 20;  // bytes of a file that it writes, its output too
};

struct Outcome {
  explicit Outcome(Memory& memory) : output(memory), error(memory) {}
  bool started = false;    // the program was executed
  int start_error = 0;     // else: errno of the system's refusal
  bool timed_out = false;  // and killed for it, with its process group
  bool status_known = false;
  int exit_code = -1;  // 128 + n when ended by signal n; meaningful when status_known
  bool succeeded() const { return started && status_known && exit_code == 0; }
  Vec<uint8_t> output;
  Vec<uint8_t> error;  // at most 64 KiB of it
};

// Runs all commands at the same time and waits for every one. A command that cannot be executed,
// fails or takes longer than the timeout says so in its outcome; its neighbours are not affected.
// One that is given up is killed with its process group; so are all when this process ends. A host
// that ignores SIGCHLD, or reaps every child it sees, takes the status away: status_known is
// false then, and the output has to tell. Output beyond the limit makes the program fail. Leaves no
// descriptor and no zombie; the host's signal handling is not changed.
// Errors: MEMORY; DEVICE when the system has no descriptors or processes left; CANCELLED when the
// interrupt is requested. Nothing runs on after an error.  Threads: any.
Status run_commands(std::span<const Command> commands, std::span<Outcome> outcomes,
                    const Patience& patience = {});

}  // namespace aster::runtime::cpu
