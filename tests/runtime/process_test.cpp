#include "runtime/cpu/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "runtime/support.h"

namespace aster::runtime::cpu {
namespace {

using testing::count_descriptors;
using testing::in_fork;
using testing::last_error;
using testing::TemporaryFolder;

constexpr int kTimeout = 20'000;
const char* const kEnvironment[] = {"PATH=/usr/bin:/bin", nullptr};

std::string text(const Vec<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

Outcome run_shell(const std::string& script, const std::string& input = "",
                  int timeout = kTimeout) {
  const char* const arguments[] = {"/bin/sh", "-c", script.c_str(), nullptr};
  const Command command = {
      arguments, kEnvironment, {reinterpret_cast<const uint8_t*>(input.data()), input.size()}};
  Outcome outcome(process_heap());
  EXPECT_TRUE(run_commands({&command, 1}, {&outcome, 1}, {timeout}).ok()) << last_error();
  return outcome;
}

// Whether a process with this number in a text does nothing any more, now or in two seconds.
bool is_gone(const std::string& number) {
  const std::string stat = "/proc/" + number.substr(0, number.find('\n')) + "/stat";
  for (int i = 0; i < 200; ++i) {
    std::string pid, name;
    char state = 'X';
    std::ifstream file(stat);
    if (!(file >> pid >> name >> state) || state == 'Z' || state == 'X') return true;
    usleep(10'000);
  }
  return false;
}

TEST(Process, InputOutputErrorAndStatus) {
  const Outcome outcome = run_shell("cat; echo trouble >&2; exit 3", "hello");
  EXPECT_TRUE(outcome.started && outcome.status_known);
  EXPECT_FALSE(outcome.timed_out || outcome.succeeded());
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(text(outcome.output), "hello");
  EXPECT_EQ(text(outcome.error), "trouble\n");
  EXPECT_TRUE(run_shell("true").succeeded());
  EXPECT_EQ(run_shell("kill -9 $$").exit_code, 128 + 9);
}

TEST(Process, LargeStreamsNeitherBlockNorRaiseSigpipe) {
  const std::string large(3'000'000, 'x');
  EXPECT_EQ(run_shell("cat", large).output.size(), large.size());
  EXPECT_TRUE(run_shell("exec <&-; true", large).succeeded()) << "input that nobody reads";
  EXPECT_EQ(run_shell("head -c 200000 /dev/zero >&2").error.size(), 64u << 10);
}

TEST(Process, AMissingProgramIsNotStarted) {
  const char* const arguments[] = {"/nonexistent/program", nullptr};
  const Command command = {arguments, kEnvironment, {}};
  Outcome outcome(process_heap());
  ASSERT_TRUE(run_commands({&command, 1}, {&outcome, 1}, {kTimeout}).ok());
  EXPECT_FALSE(outcome.started);
  EXPECT_FALSE(outcome.succeeded());
}

// Each of the two waits for the other: one after the other they would never end.
TEST(Process, CommandsRunAtTheSameTime) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "a").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder / "b").c_str(), 0600), 0);
  const std::string first = "echo 1 > " + (folder / "a") + "; cat " + (folder / "b");
  const std::string second = "cat " + (folder / "a") + "; echo 2 > " + (folder / "b");
  const char* const arguments_1[] = {"/bin/sh", "-c", first.c_str(), nullptr};
  const char* const arguments_2[] = {"/bin/sh", "-c", second.c_str(), nullptr};
  const Command commands[] = {{arguments_1, kEnvironment, {}}, {arguments_2, kEnvironment, {}}};
  Outcome outcomes[] = {Outcome(process_heap()), Outcome(process_heap())};
  ASSERT_TRUE(run_commands(commands, outcomes, {kTimeout}).ok());
  EXPECT_EQ(text(outcomes[0].output), "2\n");
  EXPECT_EQ(text(outcomes[1].output), "1\n");
}

TEST(Process, ATimeoutEndsTheWholeGroup) {
  const Outcome outcome = run_shell("sleep 1000 & echo $!; wait", "", 300);
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_FALSE(outcome.succeeded());
  ASSERT_FALSE(outcome.output.empty());
  EXPECT_TRUE(is_gone(text(outcome.output)));
}

TEST(Process, WhatIsStartedEndsWithItsHost) {
  TemporaryFolder folder;
  const std::string pids = folder / "pids";
  const pid_t host = fork();
  if (host == 0) {
    run_shell("sleep 1000 & echo $! > " + pids + "2; echo $$ > " + pids + "1; wait");
    _exit(1);
  }
  std::string shell, below;
  for (int i = 0; i < 1000 && shell.empty(); ++i) {
    usleep(10'000);
    std::ifstream(pids + "1") >> shell;
  }
  std::ifstream(pids + "2") >> below;
  ASSERT_FALSE(shell.empty() || below.empty());
  kill(host, SIGKILL);
  waitpid(host, nullptr, 0);
  EXPECT_TRUE(is_gone(shell)) << "the program";
  EXPECT_TRUE(is_gone(below)) << "what the program started";
}

// The host may get the signal that tells its end, with its whole group, and go on.
TEST(Process, ATerminationThatTheHostSurvives) {
  EXPECT_TRUE(in_fork([] {
    setpgid(0, 0);
    signal(SIGTERM, SIG_IGN);
    std::thread other([] {
      usleep(100'000);
      kill(0, SIGTERM);
    });
    const Outcome outcome = run_shell("sleep 0.3; echo 7");
    other.join();
    return outcome.succeeded() && text(outcome.output) == "7\n";
  }));
}

TEST(Process, AnInterruptEndsThemAtOnce) {
  TemporaryFolder folder;
  InterruptSource source;
  Interrupt interrupt(source);
  const std::string pids = folder / "pid";
  const std::string script = "sleep 1000 & echo $! > " + pids + "; wait";
  const char* const arguments[] = {"/bin/sh", "-c", script.c_str(), nullptr};
  // It must not be in the middle of writing the file when it is ended.
  const char* const beside[] = {"/bin/sh", "-c", "sleep 1000 & wait", nullptr};
  const Command commands[] = {{arguments, kEnvironment, {}}, {beside, kEnvironment, {}}};
  Outcome outcomes[] = {Outcome(process_heap()), Outcome(process_heap())};
  std::thread other([&] {
    for (std::string pid; pid.empty();) {
      usleep(1000);
      std::ifstream(pids) >> pid;
    }
    source.requests.fetch_add(1);
  });
  const Status status = run_commands(commands, outcomes, {kTimeout, &interrupt});
  other.join();
  EXPECT_EQ(status.code, testing::code(Code::kCANCELLED)) << last_error();
  std::string pid;
  std::ifstream(pids) >> pid;
  EXPECT_TRUE(is_gone(pid));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a zombie";
}

TEST(Process, ALimitOnProcessesIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "limits do not hold for root";
  EXPECT_TRUE(in_fork([] {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_NPROC, &none);
    const char* const arguments[] = {"/bin/true", nullptr};
    const Command command = {arguments, kEnvironment, {}};
    Outcome outcome(process_heap());
    return run_commands({&command, 1}, {&outcome, 1}).code == testing::code(Code::kDEVICE) &&
           last_error().find("'/bin/true'") != std::string::npos &&
           last_error().find("Resource temporarily unavailable") != std::string::npos;
  }));
}

TEST(Process, AHostThatIgnoresSigchld) {
  EXPECT_TRUE(in_fork([] {
    signal(SIGCHLD, SIG_IGN);
    const Outcome outcome =
        run_shell("(exit 4) & wait $!; echo $?");  // the program has its own children
    return outcome.started && !outcome.timed_out && text(outcome.output) == "4\n" &&
           (!outcome.status_known || outcome.exit_code == 0);
  }));
}

TEST(Process, AHostThatReapsEveryChild) {
  EXPECT_TRUE(in_fork([] {
    bool fine = true;
    std::atomic<bool> stop = false;
    std::thread reaper([&stop] {
      while (!stop) waitpid(-1, nullptr, WNOHANG);
    });
    for (int i = 0; i < 20; ++i) {
      const Outcome outcome = run_shell("echo 6; exit 6");
      fine = fine && text(outcome.output) == "6\n" &&
             (!outcome.status_known || outcome.exit_code == 6);
    }
    stop = true;
    reaper.join();
    return fine && waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
  }));
}

TEST(Process, LeavesNoZombie) {
  run_shell("exit 1");
  run_shell("sleep 10", "", 50);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Process, ClosedStandardStreams) {
  for (const int from : {0, 1, 2}) {
    EXPECT_TRUE(in_fork([from] {
      for (int fd = from; fd <= 2; ++fd) close(fd);
      const Outcome outcome = run_shell("cat; echo problem >&2", "text");
      return outcome.succeeded() && text(outcome.output) == "text" &&
             text(outcome.error) == "problem\n" && fcntl(2, F_GETFD) == -1;
    })) << from;
  }
}

TEST(Process, SignalsAreThoseOfAFreshLogin) {
  EXPECT_TRUE(in_fork([] {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    const Outcome outcome = run_shell("exec cat /proc/self/status");
    const std::string status = text(outcome.output);
    struct sigaction action;
    sigaction(SIGPIPE, nullptr, &action);
    return status.find("SigBlk:\t0000000000000000") != std::string::npos &&
           status.find("SigIgn:\t0000000000000000") != std::string::npos &&
           action.sa_handler == SIG_IGN;
  }));
}

TEST(Process, NoDescriptorIsLeakedEitherWay) {
  const int inherited = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as careless hosts have
  run_shell("true");
  const int before = count_descriptors();
  const Outcome outcome = run_shell("exec ls /proc/self/fd");
  EXPECT_EQ(text(outcome.output), "0\n1\n2\n3\n") << "3 is ls reading the folder";
  run_shell("exit 1");
  run_shell("sleep 10", "", 50);
  EXPECT_EQ(count_descriptors(), before);
  close(inherited);
}

TEST(Process, OutOfMemoryAndOutOfDescriptors) {
  for (int64_t n = 0;; ++n) {
    testing::FailingHeap heap(n);
    const char* const arguments[] = {"/bin/echo", "x", nullptr};
    const Command command = {arguments, kEnvironment, {}};
    Outcome outcome(heap);
    const Status status = run_commands({&command, 1}, {&outcome, 1}, {kTimeout});
    if (!heap.failed()) {
      EXPECT_TRUE(status.ok());
      break;
    }
    EXPECT_EQ(status.code, testing::code(Code::kMEMORY));
  }
  EXPECT_TRUE(in_fork([] {
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
    }
    const char* const arguments[] = {"/bin/true", nullptr};
    const Command command = {arguments, kEnvironment, {}};
    Outcome outcome(process_heap());
    return run_commands({&command, 1}, {&outcome, 1}, {kTimeout}).code ==
           testing::code(Code::kDEVICE);
  }));
}

}  // namespace
}  // namespace aster::runtime::cpu
