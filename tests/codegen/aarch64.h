// C for any CPU, compiled for aarch64 and run by qemu in user mode.
#pragma once

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "codegen/compilers.h"

namespace aster::codegen::tests {

inline constexpr const char kNoAarch64[] =
    "no aarch64-linux-gnu-gcc or no qemu-aarch64: C for any CPU runs on this one alone";

class Aarch64 {
 public:
  static bool here() {
    static const bool all = has_program("aarch64-linux-gnu-gcc") && has_program("qemu-aarch64");
    return all;
  }
  // Starts the compiler; run waits for it.
  Aarch64(const std::string& text, const std::vector<std::string>& names) {
    char path[] = "/tmp/aster_aarch64_XXXXXX";
    const int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    path_ = path;
    std::string table;
    for (const std::string& name : names) table += "{\"" + name + "\", " + name + "},\n";
    const std::string source = text + kBefore + table + kMain;
    std::ofstream(path_ + ".c") << source;
    const std::string command =
        "aarch64-linux-gnu-gcc -static" + flags_of("aarch64-linux-gnu-gcc", 0);
    kept_ = kept_path(command, source);
    std::error_code missing;
    if (!kept_.empty()) std::filesystem::copy_file(kept_, path_ + ".elf", missing);
    if (kept_.empty() || missing)
      pipe_ = popen((command + path_ + ".c -o " + path_ + ".elf 2>&1").c_str(), "r");
  }
  ~Aarch64() {
    wait();
    EXPECT_EQ(stop(), 0);
    for (const char* end : {"", ".c", ".elf"}) unlink((path_ + end).c_str());
  }
  Aarch64(const Aarch64&) = delete;
  Aarch64& operator=(const Aarch64&) = delete;

  // Tasks [0, tasks) of a function on such params, as they are afterwards.
  using Bytes = std::vector<uint8_t>;
  std::vector<Bytes> run(const std::string& name, std::vector<Bytes> params, int64_t tasks,
                         const std::vector<int64_t>& sizes = {}, int64_t scratch = 0) {
    wait();
    if (process_ < 0) start();
    Asked asked{{},
                tasks,
                scratch,
                static_cast<int64_t>(sizes.size()),
                static_cast<int64_t>(params.size())};
    EXPECT_LT(name.size(), sizeof(asked.name));
    name.copy(asked.name, sizeof(asked.name) - 1);
    bool told = send(&asked, sizeof(asked)) && send(sizes.data(), sizes.size() * sizeof(int64_t));
    for (const Bytes& bytes : params) {
      const auto count = static_cast<int64_t>(bytes.size());
      told = told && send(&count, sizeof(count)) && send(bytes.data(), bytes.size());
    }
    for (Bytes& bytes : params) told = told && take(bytes.data(), bytes.size());
    EXPECT_TRUE(told) << name << " ended qemu-aarch64: " << stop();
    return params;
  }

 private:
  static constexpr const char kBefore[] = R"(
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef void run(void *const *, const long long *, void *, long long, long long);
static const struct { const char *name; run *function; } all[] = {
)";
  struct Asked {
    char name[128];
    int64_t tasks, scratch, sizes, params;
  };
  // One process for all runs, since its start takes longer than they do. Each: what is asked,
  // sizes, a count and bytes of every param; answered by the bytes of all.
  static constexpr const char kMain[] = R"({0, 0}};
static int take(void *to, size_t bytes) { return bytes == 0 || fread(to, bytes, 1, stdin) == 1; }
int main(void) {
  enum { kMost = 256 };
  static long long sizes[kMost], bytes[kMost];
  static void *params[kMost];
  static struct { char name[128]; long long tasks, scratch, sizes, params; } asked;
  while (take(&asked, sizeof asked)) {
    int i = 0;
    while (all[i].name != 0 && strcmp(all[i].name, asked.name) != 0) ++i;
    if (all[i].name == 0 || asked.sizes > kMost || asked.params > kMost) return 1;
    if (!take(sizes, asked.sizes * sizeof *sizes)) return 2;
    for (int p = 0; p < asked.params; ++p) {
      if (!take(bytes + p, sizeof *bytes)) return 2;
      params[p] = aligned_alloc(64, (bytes[p] + 127) / 64 * 64);
      if (!take(params[p], bytes[p])) return 2;
    }
    void *scratch = aligned_alloc(64, (asked.scratch + 127) / 64 * 64);
    all[i].function(params, sizes, scratch, 0, asked.tasks);
    for (int p = 0; p < asked.params; ++p) {
      if (bytes[p] != 0 && fwrite(params[p], bytes[p], 1, stdout) != 1) return 3;
      free(params[p]);
    }
    free(scratch);
    if (fflush(stdout) != 0) return 3;
  }
  return 0;
}
)";
  void start() {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string emulator = "qemu-aarch64", program = path_ + ".elf";
    char* const words[] = {emulator.data(), program.data(), nullptr};
    EXPECT_EQ(posix_spawnp(&process_, words[0], &actions, nullptr, words, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    socket_ = ends[0];
  }
  bool send(const void* from, size_t bytes) {
    const char* at = static_cast<const char*>(from);
    while (bytes > 0) {
      const ssize_t sent = ::send(socket_, at, bytes, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += sent;
      bytes -= static_cast<size_t>(sent);
    }
    return true;
  }
  bool take(void* to, size_t bytes) {
    return bytes == 0 || recv(socket_, to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }
  // How the process ended; the next run begins another.
  int stop() {
    if (process_ < 0) return 0;
    int status = 0;
    close(socket_);
    waitpid(process_, &status, 0);
    process_ = -1;
    return status;
  }
  void wait() {
    if (pipe_ == nullptr) return;
    std::string said;
    for (int c; (c = std::fgetc(pipe_)) != EOF;) said += static_cast<char>(c);
    const int rc = pclose(pipe_);
    EXPECT_EQ(rc, 0) << said.substr(0, 3000);
    pipe_ = nullptr;
    if (rc == 0 && !kept_.empty()) keep_file(path_ + ".elf", kept_);
  }
  std::string path_, kept_;
  FILE* pipe_ = nullptr;
  pid_t process_ = -1;
  int socket_ = -1;
};

}  // namespace aster::codegen::tests
