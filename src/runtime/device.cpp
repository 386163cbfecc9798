#include "runtime/device.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/cpu/compiler.h"
#include "runtime/load.h"
#include "runtime/state.h"

namespace aster::runtime {
namespace {

constexpr size_t kLogBytes = 16 * 1024;

// The best form of code that a device takes and that there is a renderer for.
bool choose_language(codegen::Target* out, uint32_t forms) {
  if ((forms & ASTER_ML_CODE_OPENCL_C) != 0) {
    out->language = codegen::Language::kOpencl;
    out->max_lanes = 16;
  } else if ((forms & ASTER_ML_CODE_C) != 0) {
    out->language = codegen::Language::kC;
  } else {
    out->language = codegen::Language::kProgram;
    return (forms & ASTER_ML_CODE_PROGRAM) != 0;
  }
  return true;
}

// Kernels are planned for vectors of this size.
int vector_bytes(int32_t told) { return told >= 64 ? 64 : told >= 32 ? 32 : 16; }

// Work-items of a group, where the device wants many: at least so many, and a multiple of what it
// runs as one.
constexpr uint32_t kGroup = 64, kMostItems = 1024;

void choose_groups(codegen::Target* target, const aster_ml_device_info& info) {
  const uint32_t limit = std::bit_floor(std::clamp(info.group_limit, 1u, kMostItems));
  const uint32_t wanted = std::clamp(info.group_multiple, kGroup, kMostItems);
  target->group = static_cast<int>(std::min(std::bit_ceil(wanted), limit));
  target->group_limit = static_cast<int>(limit);
  if (info.local_bytes != 0)
    target->local_bytes = static_cast<int64_t>(std::min(info.local_bytes, uint64_t{1} << 20));
  target->machine = codegen::machine_of_items();
}

Status describe(Device* device) {
  const aster_ml_backend& backend = *device->backend;
  device->shared = backend.host_visible != 0;
  if (backend.build == nullptr) return kOk;
  aster_ml_device_info& info = device->info;
  info.struct_size = sizeof(info);
  const Heard heard;
  const int32_t code = backend.describe(backend.self, device->index(), &info);
  if (code != ASTER_ML_OK) return device->failed("describe", code, heard);
  info.struct_size = sizeof(info);
  info.name[sizeof(info.name) - 1] = info.driver[sizeof(info.driver) - 1] = '\0';
  codegen::Target& target = device->target;
  if (info.forms == 0) return kOk;
  if (!choose_language(&target, info.forms)) {
    return ASTER_FAIL(kUNSUPPORTED, "%s takes code in no form that is known (%#x)",
                      device::name(device->code).text, info.forms);
  }
  target.portable = target.language == codegen::Language::kC;
  target.vector_bytes = vector_bytes(info.vector_bytes);
  target.fma = !target.portable && (info.flags & ASTER_ML_DEVICE_FMA) != 0;
  const bool opencl = target.language == codegen::Language::kOpencl;
  target.streaming = opencl && info.kind == ASTER_ML_DEVICE_KIND_CPU;
  target.f16c = target.avx512 = target.vnni = false;
  target.fp64 = (info.flags & ASTER_ML_DEVICE_FP64) != 0;
  if (opencl && info.kind == ASTER_ML_DEVICE_KIND_GPU) {
    target.vector_bytes = 16;
    choose_groups(&target, info);
  }
  device->load = load_by_backend;
  return kOk;
}

}  // namespace

Status Device::failed(const char* what, int32_t status, const Heard& heard) const {
  const device::Name name = device::name(code);
  if (const char* said = heard.text()) {
    if (status == ASTER_ML_MEMORY) return ASTER_FAIL(kMEMORY, "%s: %s: %s", name.text, what, said);
    return ASTER_FAIL(kDEVICE, "%s: %s: %s", name.text, what, said);
  }
  if (status == ASTER_ML_MEMORY)
    return ASTER_FAIL(kMEMORY, "%s: %s: no memory is left", name.text, what);
  if (status <= ASTER_ML_ERROR || status > ASTER_ML_INTERNAL) {
    return ASTER_FAIL(kERROR, "%s: %s failed without saying how (it returned %d)", name.text, what,
                      status);
  }
  return ASTER_FAIL(kDEVICE, "%s: %s failed with status %d (%s)", name.text, what, status,
                    aster_ml_status_name(status));
}

Status device_of(const Device** out, Context& context, int32_t code) {
  *out = nullptr;
  const aster_ml_backend* backend = nullptr;
  ASTER_TRY(device::backend(&backend, code));
  if (backend == nullptr || device::same_type(code, device::kNull)) return kOk;
  if (backend->build == nullptr && backend->host_visible != 0) return kOk;
  return record_of(out, context, code, *backend);
}

Status record_of(const Device** out, Context& context, int32_t code,
                 const aster_ml_backend& backend) {
  *out = nullptr;
  State* runtime = nullptr;
  ASTER_TRY(state(context, &runtime));
  Device* device = runtime->devices.get(code, nullptr);
  if (device == nullptr) {
    Heap& heap = context.heap();
    device = heap.create<Device>();
    if (device == nullptr) return out_of_memory(sizeof(Device));
    device->context = &context;
    device->code = code;
    device->backend = &backend;
    Status status = describe(device);
    if (status.ok()) status = runtime->devices.set(code, device);
    if (!status.ok()) {
      heap.destroy(device);
      return status;
    }
  }
  *out = device;
  return kOk;
}

namespace {

void tell_lines(const Context& context, std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    context.log(ASTER_ML_LOG_INFO, "%.*s", static_cast<int>(line.size()), line.data());
    text = text_slice(text, line.size() + 1);
  }
}

}  // namespace

Status build(void** module, std::span<void*> functions, const Device& device,
             std::span<const aster_ml_code> codes) {
  const aster_ml_backend& backend = *device.backend;
  *module = nullptr;
  std::ranges::fill(functions, nullptr);
  char log[kLogBytes];
  log[0] = '\0';
  const Heard heard;
  const int32_t code = backend.build(backend.self, module, functions.data(), device.index(),
                                     codes.data(), codes.size(), log, sizeof(log));
  if (code == ASTER_ML_OK) return kOk;
  *module = nullptr;
  std::ranges::fill(functions, nullptr);
  log[sizeof(log) - 1] = '\0';
  const device::Name name = device::name(device.code);
  if (code == ASTER_ML_UNSUPPORTED)
    return ASTER_FAIL(kUNSUPPORTED, "%s cannot do these kernels: %s", name.text, log);
  if (code == ASTER_ML_COMPILE) {
    tell_lines(*device.context, log);
    const std::string_view line = cpu::error_line(log);
    return ASTER_FAIL(kCOMPILE, "%s did not compile a kernel: %.*s", name.text,
                      static_cast<int>(line.size()), line.data());
  }
  return device.failed("build", code, heard);
}

Queues::~Queues() {
  for (const Queue& queue : all_) {
    const aster_ml_backend& backend = *queue.device->backend;
    backend.close(backend.self, queue.device->index(), queue.handle);
  }
}

Status Queues::get(void** out, const Device& device) {
  for (const Queue& queue : all_) {
    if (queue.device == &device) return *out = queue.handle, kOk;
  }
  ASTER_TRY(all_.reserve(all_.size() + 1));
  const aster_ml_backend& backend = *device.backend;
  *out = nullptr;
  const Heard heard;
  const int32_t code = backend.open(backend.self, out, device.index(), 0);
  if (code != ASTER_ML_OK) return device.failed("opening a queue", code, heard);
  return all_.push(Queue{&device, *out});
}

}  // namespace aster::runtime
