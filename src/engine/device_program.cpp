#include "engine/device_program.h"

#include <algorithm>
#include <cstdio>

#include "base/heard.h"
#include "engine/indexing.h"
#include "engine/program.h"
#include "engine/recording.h"
#include "uop/expr.h"

namespace aster::engine {

using buffer::Storage;
using uop::Node;

DeviceProgram::~DeviceProgram() {
  if (is_taken_) device->backend->drop_program(device->backend->self, device->index(), taken_);
  buffer::storage_release(constants);
}

Status DeviceProgram::add(Node array) {
  ASTER_TRY(arrays.push(Array{array->dtype, static_cast<uint32_t>(dims.size()),
                              static_cast<uint32_t>(array->ndim),
                              static_cast<size_t>(array->count()) * dtype::size(array->dtype)}));
  return dims.append(array->shape().data(), array->ndim);
}

Status DeviceProgram::take(bool* taken) {
  *taken = false;
  const aster_ml_backend& backend = *device->backend;
  aster_ml_device_program program = {};
  program.struct_size = sizeof(program);
  program.text = text.c_str();
  program.text_bytes = text.view().size();
  if (program.text == nullptr) return text.status();
  if (constants != nullptr)
    program.constants = static_cast<const char*>(constants->data) + constants_offset;
  program.constant_bytes = constants_bytes;
  program.input_count = inputs;
  program.output_count = arrays.size() - inputs;
  char log[512] = "";
  const Heard heard;
  const int32_t code =
      backend.take_program(backend.self, &taken_, device->index(), &program, log, sizeof(log));
  if (code == ASTER_ML_OK) return is_taken_ = *taken = true, kOk;
  log[sizeof(log) - 1] = '\0';
  if (code == ASTER_ML_UNSUPPORTED) {
    (void)ASTER_FAIL(kUNSUPPORTED, "%s", log[0] != 0 ? log : "it did not say why");
    return kOk;
  }
  if (log[0] != 0 && code > ASTER_ML_ERROR && code <= ASTER_ML_INTERNAL) {
    return fail_at(code == ASTER_ML_MEMORY ? Code::kMEMORY : Code::kDEVICE, ASTER_MODULE, __FILE__,
                   __LINE__, "%s: take_program: %s", device::name(device->code).text, log);
  }
  return device->failed("take_program", code, heard);
}

Status DeviceProgram::execute(Memory& memory, void* const* pointers, const size_t* offsets) const {
  constexpr size_t kMostDims = uop::Dims::kMost;
  const size_t outputs = arrays.size() - inputs;
  Vec<aster_ml_device_array> given(memory);
  Vec<int64_t> sizes(memory);
  ASTER_TRY(sizes.append(dims.data(), dims.size()));
  ASTER_TRY(sizes.resize(dims.size() + outputs * kMostDims, int64_t{0}));
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Array& array = arrays[i];
    aster_ml_device_array one = {};
    one.struct_size = sizeof(one);
    one.data = pointers[i];
    one.offset = offsets[i];
    one.bytes = array.bytes;
    if (i < inputs) {
      one.dtype = static_cast<int32_t>(array.dtype);
      one.ndim = array.ndim;
      one.shape = sizes.data() + array.first_dim;
    } else {
      one.shape = sizes.data() + dims.size() + (i - inputs) * kMostDims;
    }
    ASTER_TRY(given.push(one));
  }
  const aster_ml_backend& backend = *device->backend;
  const Heard heard;
  const int32_t code = backend.execute_program(backend.self, device->index(), taken_, given.data(),
                                               inputs, given.data() + inputs, outputs);
  if (code != ASTER_ML_OK) return device->failed("execute_program", code, heard);
  const device::Name name = device::name(device->code);
  for (size_t i = 0; i < outputs; ++i) {
    const Array& wanted = arrays[inputs + i];
    const aster_ml_device_array& made = given[inputs + i];
    if (made.dtype != static_cast<int32_t>(wanted.dtype)) {
      return ASTER_FAIL(kDTYPE, "%s: execute_program made output %zu of dtype %s (code %d), not %s",
                        name.text, i, dtype_text(made.dtype), made.dtype,
                        dtype::name(wanted.dtype));
    }
    if (made.ndim > kMostDims) {
      return ASTER_FAIL(kSHAPE, "%s: execute_program made output %zu of %u axes, not %s", name.text,
                        i, made.ndim, uop::brief_shape(this->shape(wanted)).text);
    }
    const uop::Words shape(sizes.data() + dims.size() + i * kMostDims, made.ndim);
    if (made.ndim != wanted.ndim || !std::ranges::equal(shape, this->shape(wanted))) {
      return ASTER_FAIL(kSHAPE, "%s: execute_program made output %zu of shape %s, not %s",
                        name.text, i, uop::brief_shape(shape).text,
                        uop::brief_shape(this->shape(wanted)).text);
    }
  }
  return kOk;
}

namespace {

Status fill(Executable* exe, const DeviceProgram& program, std::span<const uint8_t> assigned) {
  const size_t count = program.arrays.size();
  Launch launch;
  LaunchInfo info;
  for (uint32_t i = 0; i < count; ++i) {
    const bool input = i < program.inputs;
    const auto index = static_cast<uint32_t>(input ? i : i - program.inputs);
    const DeviceProgram::Array& array = program.arrays[i];
    const auto elements = static_cast<int64_t>(array.bytes / dtype::size(array.dtype));
    ASTER_TRY(exe->operands.push(i));
    ASTER_TRY(exe->slots.push(
        Slot{input ? SlotKind::kParam : SlotKind::kOutput, array.dtype, index, elements, 0, 0, 0}));
    // Roots are what a launch leaves behind: results, and what it assigns to.
    if (!input || assigned[i] != 0) ASTER_TRY(exe->roots.push(i));
    if (input) launch.writes |= assigned[i] != 0;
    info.work.bytes += array.bytes;
  }
  exe->away = true;
  exe->device = program.device;
  launch.kind = LaunchKind::kProgram;
  launch.operand_count = static_cast<uint32_t>(count);
  info.work.kernels = 1;
  std::snprintf(info.title, sizeof(info.title), "execute_program");
  exe->work = info.work;
  ASTER_TRY(exe->launches.push(launch));
  return exe->infos.push(info);
}

}  // namespace

Status record_device_program(Vec<Node>* results, Engine& engine, DeviceProgram* program,
                             uop::Nodes inputs, std::span<const uint8_t> assigned) {
  Heap& heap = engine.context.heap();
  Executable* exe = heap.create<Executable>(heap);
  if (exe == nullptr) return heap.destroy(program), out_of_memory(sizeof(Executable));
  exe->whole = program;
  Leaves leaves(heap);
  Vec<Storage*> made(heap);
  const auto run = [&]() -> Status {
    ASTER_TRY(fill(exe, *program, assigned));
    ASTER_TRY(leaves.buffers.append(inputs.data(), inputs.size()));
    ASTER_TRY(leaves.wholes.append(inputs.data(), inputs.size()));
    for (size_t i = program->inputs; i < program->arrays.size(); ++i) {
      const DeviceProgram::Array& array = program->arrays[i];
      Storage* storage = nullptr;
      ASTER_TRY(made.reserve(made.size() + 1));
      ASTER_TRY(
          buffer::storage_create(&storage, engine.context, array.bytes, program->device->code));
      ASTER_TRY(made.push(storage));
      const Node buffer = buffer_node(engine, storage, 0, array.dtype, program->shape(array));
      ASTER_TRY(need(buffer));
      ASTER_TRY(results->push(buffer));
    }
    return record(*engine.recording, *exe, leaves, {made.data(), made.size()});
  };
  const Status status = run();
  for (Storage* storage : made) buffer::storage_release(storage);
  exe->release();
  return status;
}

}  // namespace aster::engine
