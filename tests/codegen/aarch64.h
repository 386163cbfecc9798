// C for any CPU, compiled for aarch64 and run by qemu in user mode.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
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
    for (const char* end : {"", ".c", ".elf", ".in", ".out"}) unlink((path_ + end).c_str());
  }
  Aarch64(const Aarch64&) = delete;
  Aarch64& operator=(const Aarch64&) = delete;

  // Tasks [0, tasks) of a function on such params, as they are afterwards.
  using Bytes = std::vector<uint8_t>;
  std::vector<Bytes> run(const std::string& name, std::vector<Bytes> params, int64_t tasks,
                         const std::vector<int64_t>& sizes = {}, int64_t scratch = 0) {
    wait();
    std::string command = "qemu-aarch64 " + path_ + ".elf " + name + " " + std::to_string(tasks) +
                          " " + std::to_string(scratch) + " " + std::to_string(sizes.size());
    for (int64_t size : sizes) command += " " + std::to_string(size);
    std::ofstream in(path_ + ".in", std::ios::binary);
    for (const Bytes& bytes : params) {
      command += " " + std::to_string(bytes.size());
      in.write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
    }
    in.close();
    const int rc = std::system((command + " < " + path_ + ".in > " + path_ + ".out").c_str());
    EXPECT_EQ(rc, 0) << command;
    std::ifstream out(path_ + ".out", std::ios::binary);
    for (Bytes& bytes : params) {
      out.read(reinterpret_cast<char*>(bytes.data()), static_cast<long>(bytes.size()));
      EXPECT_TRUE(out.good()) << command;
    }
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
  // NAME TASKS SCRATCH SIZES size.. bytes.., params in and out.
  static constexpr const char kMain[] = R"({0, 0}};
int main(int argc, char **argv) {
  enum { kMost = 256 };
  static long long sizes[kMost], bytes[kMost];
  static void *params[kMost];
  int i = 0, at = 5;
  while (all[i].name != 0 && strcmp(all[i].name, argv[1]) != 0) ++i;
  for (int s = 0; s < atoi(argv[4]); ++s) sizes[s] = atoll(argv[at++]);
  const int count = argc - at;
  if (all[i].name == 0 || count > kMost) return 1;
  for (int p = 0; p < count; ++p) {
    bytes[p] = atoll(argv[at + p]);
    params[p] = aligned_alloc(64, (bytes[p] + 127) / 64 * 64);
    if (fread(params[p], 1, bytes[p], stdin) != (size_t)bytes[p]) return 2;
  }
  void *scratch = aligned_alloc(64, (atoll(argv[3]) + 127) / 64 * 64);
  all[i].function(params, sizes, scratch, 0, atoll(argv[2]));
  for (int p = 0; p < count; ++p) {
    if (fwrite(params[p], 1, bytes[p], stdout) != (size_t)bytes[p]) return 3;
  }
  return 0;
}
)";
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
};

}  // namespace aster::codegen::tests
