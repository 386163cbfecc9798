// What the runtime's tests share.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "aster_ml/base.h"
#include "base/context.h"

namespace aster::runtime::testing {

// A fresh directory of mode 0700, removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/aster-test-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Sets a variable of the environment for a while; null unsets it.
class WithVariable {
 public:
  WithVariable(const char* name, const char* value) : name_(name) {
    const char* before = getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    set(value);
  }
  ~WithVariable() { set(had_ ? before_.c_str() : nullptr); }

 private:
  void set(const char* value) {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  bool had_;
  std::string before_;
};

inline int count_descriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

inline std::string last_error() {
  aster_ml_error error;
  aster_ml_error_last(&error);
  return error.message;
}

inline int32_t code(Code value) { return static_cast<int32_t>(value); }

// A heap whose Nth request and all later ones fail; counts what is not given back.
class FailingHeap {
 public:
  explicit FailingHeap(int64_t requests_left) : left_(requests_left), heap_(&table_) {}
  ~FailingHeap() { EXPECT_EQ(held_, 0) << "memory was not released"; }
  operator Memory&() { return heap_; }
  const aster_ml_allocator& table() const { return table_; }
  bool failed() const { return left_ < 0; }

 private:
  static void* allocate(void* self, size_t bytes, size_t alignment) {
    FailingHeap* heap = static_cast<FailingHeap*>(self);
    if (--heap->left_ < 0) return nullptr;
    ++heap->held_;
    if (alignment < 16) alignment = 16;
    return aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  }
  static void release(void* self, void* pointer, size_t, size_t) {
    --static_cast<FailingHeap*>(self)->held_;
    free(pointer);
  }
  std::atomic<int64_t> left_;
  std::atomic<int64_t> held_ = 0;
  aster_ml_allocator table_ = {sizeof(aster_ml_allocator), this, allocate, release};
  Heap heap_;
};

// A context for one test.
class TestContext {
 public:
  explicit TestContext(aster_ml_context_options options = {}) {
    options.struct_size = sizeof(options);
    if (!Context::create(&context_, &options).ok()) abort();
  }
  ~TestContext() { context_->release(); }
  Context& operator*() { return *context_; }
  Context* operator->() { return context_; }

 private:
  Context* context_ = nullptr;
};

// Runs check in a fork, where it may damage the process; it returns whether all was well.
template <typename Check>
bool in_fork(Check check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 42 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

}  // namespace aster::runtime::testing
