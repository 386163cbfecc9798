// Portable programs that a backend executes whole (execute_program of aster_ml/device.h): one
// launch on the memory of its inputs and outputs.
#pragma once

#include "base/text.h"
#include "engine/engine.h"

namespace aster::engine {

struct DeviceProgram {
  explicit DeviceProgram(Memory& memory) : text(memory), arrays(memory), dims(memory) {}
  ~DeviceProgram();
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  // Offers the program to the backend, whose device is set, with the text and the arrays. *taken:
  // whether that executes it; else the error record says why not. Errors: MEMORY, DEVICE.
  Status take(bool* taken);
  // Errors: DTYPE, SHAPE (the backend made something else of an output), MEMORY, DEVICE.
  Status execute(Memory& memory, void* const* pointers, const size_t* offsets) const;

  struct Array {
    DType dtype;
    uint32_t first_dim, ndim;
    size_t bytes;
  };
  uop::Words shape(const Array& array) const { return {dims.data() + array.first_dim, array.ndim}; }
  Status add(uop::Node array);  // inputs, then outputs

  const runtime::Device* device = nullptr;
  Text text;
  buffer::Storage* constants = nullptr;  // a reference; null: there are none
  size_t constants_offset = 0, constants_bytes = 0;
  Vec<Array> arrays;
  size_t inputs = 0;
  Vec<int64_t> dims;

 private:
  void* taken_ = nullptr;
  bool is_taken_ = false;
};

// The launch of a program that was taken. inputs: Buffers on its device, of which assigned says
// which ones a run writes. Notes it in the engine's recording, and gives its results.
Status record_device_program(Vec<uop::Node>* results, Engine& engine, DeviceProgram* program,
                             uop::Nodes inputs, std::span<const uint8_t> assigned);

}  // namespace aster::engine
