// Programs by their text, for the tests of what reads, checks, evaluates and renders them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "codegen/program.h"
#include "codegen/program_texts.h"

namespace aster::codegen::program::tests {

inline std::string last_error() {
  aster_ml_error error{};
  aster_ml_error_last(&error);
  return error.message;
}

// A memory whose Nth request and all later ones fail.
class FailingMemory : public Memory {
 public:
  explicit FailingMemory(int64_t left) : Memory(this, get, put), left_(left) {}
  ~FailingMemory() { EXPECT_EQ(held_, 0); }
  bool failed() const { return left_ < 0; }

 private:
  static void* get(void* self, size_t bytes, size_t alignment) {
    auto* memory = static_cast<FailingMemory*>(self);
    if (memory->left_ < 0 || --memory->left_ < 0) return nullptr;
    ++memory->held_;
    return process_heap().allocate(bytes, alignment);
  }
  static void put(void* self, void* pointer, size_t bytes, size_t alignment) {
    --static_cast<FailingMemory*>(self)->held_;
    process_heap().release(pointer, bytes, alignment);
  }
  friend Memory;
  int64_t left_, held_ = 0;
};

// A text as a module, and whether it could be read.
struct Read {
  explicit Read(std::string_view text, Memory& memory = process_heap()) : module(memory) {
    status = read(&module, text);
    if (!status.ok()) error = last_error();
  }
  Program& last() { return module.programs.back(); }
  Module module;
  Status status;
  std::string error;
};

inline std::string print(const Module& module) {
  Text out(process_heap());
  EXPECT_TRUE(program::print(out, module).ok());
  return std::string(out.view());
}

}  // namespace aster::codegen::program::tests
