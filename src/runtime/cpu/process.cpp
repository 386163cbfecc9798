#include "runtime/cpu/process.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cpu/file.h"

#if defined(__SANITIZE_THREAD__)
#define ASTER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ASTER_TSAN 1
#endif
#endif

#if defined(ASTER_TSAN) && defined(__GLIBC__)
// TSan's own clone takes the child for a fork and, the memory being shared, makes our thread blind
// to how it synchronises with others from then on.
extern "C" int __clone(int (*function)(void*), void* stack, int flags, void* argument, ...);
#define clone __clone  // NOLINT
#endif

namespace aster::runtime::cpu {
namespace {

constexpr size_t kErrorLimit = size_t{64} << 10;
constexpr size_t kStackBytes = size_t{64} << 10;
constexpr int kLookEveryMs = 10;  // for whether to stop

// What the child needs; it shares our memory until it executes the program.
struct Launch {
  const Command* command;
  int standard[3];
  volatile int failure;  // errno of exec, written by the child
};

// Runs in the child, on its own stack but in our memory: bare system calls only, since the wrappers
// of libc and of the sanitizers keep state that is the host's. Handlers and descriptors are copies.
__attribute__((no_sanitize("address", "thread", "undefined"))) int child_main(void* argument) {
  Launch* launch = static_cast<Launch*>(argument);
  // Handlers must not run here, and a program must not inherit what the host ignores: a compiler
  // driver whose SIGCHLD is ignored loses its own children. All zeros is SIG_DFL, no flags, an
  // empty mask.
  const uint64_t nothing[4] = {};
  for (int signal = 1; signal < NSIG; ++signal) {
    syscall(SYS_rt_sigaction, signal, nothing, nullptr, sizeof(uint64_t));
  }
  syscall(SYS_setpgid, 0, 0);
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  for (int fd = 0; fd < 3; ++fd) {
    if (syscall(SYS_dup3, launch->standard[fd], fd, 0) < 0) {
      launch->failure = errno;
      syscall(SYS_exit_group, 127);
    }
  }
#if defined(SYS_close_range)
  syscall(SYS_close_range, 3u, ~0u,
          4u /* CLOSE_RANGE_CLOEXEC */);  // the host's descriptors; old kernels: no harm
#endif
  const rlimit no_core = {0, 0};
  const rlimit file_size = {launch->command->file_limit, launch->command->file_limit};
  syscall(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, nullptr);
  syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, &file_size, nullptr);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, nothing, nullptr, sizeof(uint64_t));
  syscall(SYS_execve, launch->command->arguments[0], launch->command->arguments,
          launch->command->environment);
  launch->failure = errno;
  syscall(SYS_exit_group, 127);
  return 0;
}

// --- What ends the programs with us ---

#if defined(__x86_64__)
// Without libc's errno, which is our thread's own.
__attribute__((no_sanitize("address", "thread", "undefined"), noinline)) long bare_call(
    long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "+a"(number)
                   : "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return number;
}
#define ASTER_HAS_GUARD 1
#elif defined(__aarch64__)
__attribute__((no_sanitize("address", "thread", "undefined"), noinline)) long bare_call(
    long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
}
#define ASTER_HAS_GUARD 1
#else
#define ASTER_HAS_GUARD 0
#endif

struct Child {
  Descriptor files[3];  // input, output, error
  Descriptor watch;     // pidfd; stays closed where the kernel has none
  pid_t pid = 0;
  bool running = false;
};

#if ASTER_HAS_GUARD
struct Watched {
  const Child* children;
  size_t count;
  pid_t parent;
};

// The kernel ends what we started when we end (PR_SET_PDEATHSIG), but not what that has started: a
// driver's compiler, a script's commands. So a process in our memory waits for our end, which
// reaches it as a signal while all are blocked, and kills the groups.
__attribute__((no_sanitize("address", "thread", "undefined"))) int guard_main(void* argument) {
  const Watched& watched = *static_cast<const Watched*>(argument);
  const uint64_t end = uint64_t{1} << (SIGTERM - 1);
  bare_call(SYS_prctl, PR_SET_PDEATHSIG, SIGTERM);
  while (bare_call(SYS_getppid) == watched.parent) {
    bare_call(SYS_rt_sigtimedwait, reinterpret_cast<long>(&end), 0, 0, sizeof(end));
  }
  for (size_t i = 0; i < watched.count; ++i) {
    const Child& child = watched.children[i];
    if (child.running) bare_call(SYS_kill, -child.pid, SIGKILL);
  }
  bare_call(SYS_exit_group, 0);
  return 0;
}
#endif

// Blocks the thread's signals and its cancellation while parent and child share memory.
class Quiet {
 public:
  Quiet() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask_);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_);
  }
  ~Quiet() {
    pthread_setcancelstate(cancel_, nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  sigset_t mask_;
  int cancel_ = 0;
};

// Runs guard_main as long as it lives; where that cannot start, programs that outlive us end by
// themselves.
class Guard {
 public:
#if ASTER_HAS_GUARD
  Guard(std::span<const Child> children, uint8_t* stack)
      : watched_{children.data(), children.size(), getpid()} {
    Quiet quiet;
    pid_ = clone(guard_main, stack + kStackBytes, CLONE_VM | CLONE_FS | CLONE_FILES, &watched_);
  }
  ~Guard() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, __WALL) < 0 && errno == EINTR) {
    }
  }

 private:
  Watched watched_;
  pid_t pid_ = -1;
#else
  Guard(std::span<const Child>, uint8_t*) {}
#endif
 public:
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
};

Status open_files(const Command& command, Child* child) {
  constexpr const char* kNames[3] = {"aster-input", "aster-output", "aster-error"};
  for (int i = 0; i < 3; ++i) {
    child->files[i] = open_memory_file(kNames[i]);
    if (!child->files[i].valid()) {
      return ASTER_FAIL(kDEVICE, "cannot open a file in memory (%s)", error_text(errno));
    }
  }
  const int input = child->files[0].get();
  if (!write_all(input, command.input) || lseek(input, 0, SEEK_SET) != 0) {
    return ASTER_FAIL(kDEVICE, "cannot write %zu bytes of input in memory", command.input.size());
  }
  return kOk;
}

Status start(const Command& command, uint8_t* stack, Child* child, Outcome* outcome) {
  ASTER_TRY(open_files(command, child));
  Launch launch = {
      &command, {child->files[0].get(), child->files[1].get(), child->files[2].get()}, 0};
  int watch = -1;
  {
    Quiet quiet;
    // CLONE_VFORK: we go on when the child has executed the program, so that a host of many
    // gigabytes copies no page tables.
    child->pid = clone(child_main, stack + kStackBytes,
                       CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &launch, &watch);
  }
  if (child->pid < 0) {
    return ASTER_FAIL(kDEVICE, "the system does not let '%s' start (%s)", command.arguments[0],
                      error_text(errno));
  }
  if (watch >= 0) child->watch.reset(watch);
  child->running = true;
  outcome->started = launch.failure == 0;
  outcome->start_error = launch.failure;
  return kOk;
}

// Takes the child's status if it has ended.
void reap(Child* child, Outcome* outcome, int options) {
  int status = 0;
  pid_t got;
  do {
    got = waitpid(child->pid, &status, __WALL | options);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return;
  child->running = false;
  if (got < 0) return;  // the host took it, or ignores SIGCHLD
  outcome->status_known = true;
  outcome->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void kill_group(Child* child, Outcome* outcome) {
  if (kill(-child->pid, SIGKILL) != 0) kill(child->pid, SIGKILL);
  reap(child, outcome, 0);
  child->running = false;
}

int64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
}

// Sleeps until a running child may have ended, at most wait_ms.
Status sleep_on(std::span<Child> children, int wait_ms, Vec<pollfd>* scratch) {
  scratch->clear();
  bool all_watched = true;
  for (const Child& child : children) {
    if (!child.running) continue;
    all_watched = all_watched && child.watch.get() >= 0;
    ASTER_TRY(scratch->push(pollfd{child.watch.get(), POLLIN, 0}));
  }
  // Without pidfd the sleep is short and the caller looks again.
  poll(scratch->data(), scratch->size(), all_watched || wait_ms < 1 ? wait_ms : 1);
  return kOk;
}

Status wait_for_all(std::span<Child> children, std::span<Outcome> outcomes,
                    const Patience& patience) {
  Vec<pollfd> scratch(outcomes[0].output.memory());
  const int64_t end = now_ms() + patience.timeout_ms;
  for (;;) {
    bool running = false;
    for (size_t i = 0; i < children.size(); ++i) {
      if (children[i].running) reap(&children[i], &outcomes[i], WNOHANG);
      running = running || children[i].running;
    }
    if (!running) return kOk;
    const int64_t left = end - now_ms();
    if (left <= 0) break;
    if (patience.interrupt != nullptr && patience.interrupt->requested())
      return Interrupt::stopped("a program runs");
    const int64_t most = patience.interrupt != nullptr ? kLookEveryMs : INT_MAX;
    ASTER_TRY(sleep_on(children, static_cast<int>(left < most ? left : most), &scratch));
  }
  for (size_t i = 0; i < children.size(); ++i) {
    if (!children[i].running) continue;
    outcomes[i].timed_out = true;
    kill_group(&children[i], &outcomes[i]);
  }
  return kOk;
}

Status run_children(std::span<const Command> commands, std::span<Outcome> outcomes,
                    std::span<Child> children, uint8_t* stack, const Patience& patience) {
  for (size_t i = 0; i < commands.size(); ++i) {
    ASTER_TRY(start(commands[i], stack, &children[i], &outcomes[i]));
  }
  ASTER_TRY(wait_for_all(children, outcomes, patience));
  for (size_t i = 0; i < commands.size(); ++i) {
    ASTER_TRY(
        read_file(children[i].files[1].get(), 0, commands[i].file_limit, &outcomes[i].output));
    ASTER_TRY(read_file(children[i].files[2].get(), 0, kErrorLimit, &outcomes[i].error));
  }
  return kOk;
}

}  // namespace

Status run_commands(std::span<const Command> commands, std::span<Outcome> outcomes,
                    const Patience& patience) {
  if (commands.size() != outcomes.size()) return ASTER_FAIL(kINTERNAL, "one outcome a command");
  if (commands.empty()) return kOk;
  Memory& memory = outcomes[0].output.memory();
  Vec<Child> children(memory);
  ASTER_TRY(children.reserve(commands.size()));
  for (size_t i = 0; i < commands.size(); ++i) ASTER_TRY(children.push(Child()));
  // One for the programs, which start one after the other, and one for their guard.
  uint8_t* stack = static_cast<uint8_t*>(memory.allocate(2 * kStackBytes, 64));
  if (stack == nullptr) return out_of_memory(2 * kStackBytes);
  Status status;
  {
    const Guard guard({children.data(), children.size()}, stack + kStackBytes);
    status = run_children(commands, outcomes, {children.data(), children.size()}, stack, patience);
    // After a failure in the middle nothing may be left running.
    for (size_t i = 0; i < children.size(); ++i) {
      if (children[i].running) kill_group(&children[i], &outcomes[i]);
    }
  }
  memory.release(stack, 2 * kStackBytes, 64);
  return status;
}

}  // namespace aster::runtime::cpu
