// One call of a public function with chosen arguments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "programs/public_functions.h"
#include "world.h"

namespace api_fuzz {

// What came of a call, as far as both runtimes agree on it.
struct Outcome {
  int32_t status = 0;
  std::string message;
  std::vector<std::string> made;  // dtype and shape of each tensor
};

class Call {
 public:
  Call(World& world, const programs::Function& function, Chooser& choose);
  Outcome run();

 private:
  using Slot = programs::Slot;
  using Type = programs::Type;
  static constexpr size_t kMost = 64;  // elements of every array

  // Memory of the call's own, zeroed.
  template <typename T>
  T* array(size_t count);
  Slot argument(size_t i);
  Slot output(const Type& type, const std::string& name);
  Slot object(const Type& type, bool given_up);
  Slot options(const std::string& type);
  Slot numbers(const Type& type);
  const aster_ml_lazy* tensor();
  int64_t integer();
  const char* text(const std::string& name);
  void tensors_made(Outcome* outcome);
  void clean_up(const Type& type, Slot slot);

  World& world_;
  const programs::Function& function_;
  Chooser& choose_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<char[]>> memory_;
  bool careful_ = false;  // what is asked for is made at once: nothing large
  bool costly_ = false;   // a number or a tensor among the arguments is large
};

// Whether a function is called by the fuzzer at all.
bool is_called(const programs::Function& function);

}  // namespace api_fuzz
