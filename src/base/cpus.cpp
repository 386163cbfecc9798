#include "base/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace aster::cpus {
namespace {

// Room for 8192 processors, more than a kernel build knows today.
constexpr int kMaxCpus = 8192;
union Mask {
  cpu_set_t set;
  unsigned char bytes[kMaxCpus / 8];
};

bool read_mask(Mask* mask) {
  std::memset(mask, 0, sizeof(*mask));
  return sched_getaffinity(0, sizeof(*mask), &mask->set) == 0;
}

// The file's first bytes as text; false if it cannot be read.
bool read_text(const char* path, char* text, size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t got = read(file, text, size - 1);
  close(file);
  if (got < 0) return false;
  text[got] = '\0';
  return true;
}

int whole_cpus(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return INT_MAX;
  const long long count = (quota + period - 1) / period;
  return count < INT_MAX ? static_cast<int>(count) : INT_MAX;
}

int quota_in(const char* directory) {
  char path[PATH_MAX];
  char text[128];
  long long quota = 0, period = 0;
  std::snprintf(path, sizeof(path), "%s/cpu.max", directory);
  if (read_text(path, text, sizeof(text))) {  // "max 100000" or "150000 100000"
    char* end = text;
    quota = std::strtoll(text, &end, 10);
    return end == text ? INT_MAX : whole_cpus(quota, std::strtoll(end, nullptr, 10));
  }
  std::snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", directory);
  if (!read_text(path, text, sizeof(text))) return INT_MAX;
  quota = std::strtoll(text, nullptr, 10);  // -1: none
  std::snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", directory);
  if (!read_text(path, text, sizeof(text))) return INT_MAX;
  period = std::strtoll(text, nullptr, 10);
  return whole_cpus(quota, period);
}

// The smallest quota of a group and the groups above it, below mount.
int quota_along(const char* mount, const char* group) {
  char directory[PATH_MAX];
  const size_t root = std::strlen(mount);
  if (std::snprintf(directory, sizeof(directory), "%s%s", mount, group) >=
      static_cast<int>(sizeof(directory))) {
    return INT_MAX;
  }
  int least = INT_MAX;
  for (;;) {
    const int here = quota_in(directory);
    if (here < least) least = here;
    char* slash = std::strrchr(directory, '/');
    if (slash == nullptr || slash < directory + root) return least;
    *slash = '\0';
  }
}

int count_allowed() {
  Mask mask;
  int count = read_mask(&mask) ? CPU_COUNT_S(sizeof(mask), &mask.set) : 1;
  const int granted = quota("/sys/fs/cgroup", "/proc/self/cgroup");
  if (granted < count) count = granted;
  return count > 0 ? count : 1;
}

}  // namespace

// Lines of membership are "id:controllers:/group"; version 2 has id 0 and no controllers.
int quota(const char* root, const char* membership) {
  char text[4096];
  char mount[PATH_MAX];
  int least = quota_in(root);  // inside a container the group's own files stand here
  if (!read_text(membership, text, sizeof(text))) return least;
  char* next = nullptr;
  for (char* line = strtok_r(text, "\n", &next); line != nullptr;
       line = strtok_r(nullptr, "\n", &next)) {
    char* controllers = std::strchr(line, ':');
    char* group = controllers != nullptr ? std::strchr(controllers + 1, ':') : nullptr;
    if (group == nullptr) continue;
    *group++ = '\0';
    ++controllers;
    const bool version2 = *controllers == '\0';
    if (!version2 && std::strstr(controllers, "cpu") == nullptr) continue;
    std::snprintf(mount, sizeof(mount), "%s%s", root, version2 ? "" : "/cpu");
    const int here = quota_along(mount, group);
    if (here < least) least = here;
  }
  return least;
}

int allowed() {
  static constinit std::atomic<int> count{0};
  int known = count.load(std::memory_order_relaxed);
  if (known == 0) {
    known = count_allowed();
    count.store(known, std::memory_order_relaxed);
  }
  return known;
}

void pin(pthread_t thread, int index) {
  Mask mask;
  if (!read_mask(&mask)) return;
  const int count = CPU_COUNT_S(sizeof(mask), &mask.set);
  if (count == 0) return;
  index %= count;
  for (size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (!CPU_ISSET_S(cpu, sizeof(mask), &mask.set) || index-- > 0) continue;
    Mask one;
    std::memset(&one, 0, sizeof(one));
    CPU_SET_S(cpu, sizeof(one), &one.set);
    pthread_setaffinity_np(thread, sizeof(one), &one.set);
    return;
  }
}

}  // namespace aster::cpus
