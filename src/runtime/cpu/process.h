// Runs other programs from inside a host whose signals, descriptors and children are not ours to
// touch.
#pragma once

#include <span>
#include <string_view>

#include "base/memory.h"

namespace aster::runtime::cpu {

// One program to run. Its standard input holds `input`; standard output and error are captured. It
// gets no other descriptor, the signal handling of a fresh login, and a process group of its own.
struct Command {
  const char* const* arguments;    // [0] is the program's absolute path; ends with null
  const char* const* environment;  // ends with null
  std::span<const uint8_t> input;
};

struct Outcome {
  explicit Outcome(Memory& memory) : output(memory), error(memory) {}
  bool started = false;    // the program was executed
  bool timed_out = false;  // and killed for it, with its process group
  bool status_known = false;
  int exit_code = -1;  // 128 + n when ended by signal n; meaningful when status_known
  bool succeeded() const { return started && status_known && exit_code == 0; }
  Vec<uint8_t> output;
  Vec<uint8_t> error;  // at most 64 KiB of it
};

// Runs all commands at the same time and waits for every one. A command that cannot be started,
// fails or takes longer than timeout_ms says so in its outcome; its neighbours are not affected. A
// host that ignores SIGCHLD, or reaps every child it sees, takes the status away: status_known is
// false then, and the output has to tell. Output beyond 256 MiB makes the program fail. Leaves no
// descriptor and no zombie; the host's signal handling is not changed.
// Errors: MEMORY; DEVICE when the system has no descriptors or processes left.  Threads: any.
Status run_commands(std::span<const Command> commands, std::span<Outcome> outcomes, int timeout_ms);

}  // namespace aster::runtime::cpu
