// Kinds of CPUs, and the kernels that a program has for one.
#include <cstdint>
#include <cstring>

#include "nn/freeze/freeze.h"
#include "runtime/load.h"

namespace aster::nn::freeze {

using runtime::cpu::CpuFeatures;

namespace {

constexpr Cpu kCpus[] = {
    {"native", "native", 0, true, nullptr},
    {"x86-64", "x86_64", 16, true, nullptr},
    {"x86-64-v3", "x86_64_v3", 32, true, nullptr},
    {"x86-64-v4", "x86_64_v4", 64, true, nullptr},
    {"aarch64", "aarch64", 16, false, "aarch64-linux-gnu-gcc"},
};

}  // namespace

Status find_cpu(const Cpu** out, const char* name) {
  for (const Cpu& cpu : kCpus) {
    if (name != nullptr && std::strcmp(cpu.name, name) == 0) return *out = &cpu, kOk;
  }
  return ASTER_FAIL(kNOT_FOUND,
                    "target '%.64s': there are native, x86-64, x86-64-v3, x86-64-v4 and aarch64",
                    name == nullptr ? "" : name);
}

CpuFeatures features_of(const Cpu& cpu) {
  if (cpu.vector_bytes == 0) return runtime::cpu::detect_features();
  CpuFeatures out;
  out.vector_bytes = cpu.vector_bytes;
  if (!cpu.x86) return out;
#define OPTION(...)
#define FEATURE(name, flag, leaf, subleaf, reg, bit, bytes) \
  out.name = flag[0] != '\0' && bytes <= cpu.vector_bytes;
#include "runtime/cpu/features.def"
#undef FEATURE
  return out;
}

codegen::Target target_of(const Cpu& cpu) {
  codegen::Target target = runtime::target_of(features_of(cpu), cpu.vector_bytes == 0);
  target.portable = !cpu.x86;
  target.streaming = cpu.x86;
  return target;
}

Collector::Collector(Context& owner, const Cpu& cpu) : heap_(owner.heap()), kernels_(owner.heap()) {
  context = &owner;
  code = device::kCpu;
  shared = true;
  target = target_of(cpu);
  load = take;
}

Collector::~Collector() {
  for (Kernel* kernel : kernels_) heap_.destroy(kernel);
}

Status Collector::take(runtime::Loaded*, runtime::LoadCounts* counts, const runtime::Device& device,
                       Context&, std::span<runtime::Request> kernels) {
  // The engine was given it as a device that it does not change.
  auto& self = const_cast<Collector&>(static_cast<const Collector&>(device));
  for (runtime::Request& request : kernels) ASTER_TRY(self.add(&request.function, *request.kernel));
  counts->compiled += kernels.size();
  return kOk;
}

Status Collector::add(void** function, const codegen::Rendered& given) {
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (std::strcmp(kernels_[i]->name, given.name) != 0) continue;
    *function = reinterpret_cast<void*>(i + 1);
    return kOk;
  }
  ASTER_TRY(kernels_.reserve(kernels_.size() + 1));
  Kernel* const kernel = heap_.create<Kernel>(heap_);
  if (kernel == nullptr) return out_of_memory(sizeof(Kernel));
  ASTER_TRY(kernels_.push(kernel));
  std::memcpy(kernel->name, given.name, sizeof(kernel->name));
  kernel->code.text << given.code.text.view();
  kernel->code.types = given.code.types;
  kernel->code.streams = given.code.streams;
  for (const codegen::program::RenderedFunction& one : given.code.functions) {
    codegen::program::RenderedFunction copy(heap_);
    std::memcpy(copy.name, one.name, sizeof(copy.name));
    copy.text << one.text.view();
    ASTER_TRY(copy.text.status());
    ASTER_TRY(kernel->code.functions.push(std::move(copy)));
  }
  *function = reinterpret_cast<void*>(kernels_.size());
  return kernel->code.text.status();
}

Status Collector::write(Text& out) const {
  Vec<const codegen::program::RenderedC*> codes(heap_);
  for (const Kernel* kernel : kernels_) ASTER_TRY(codes.push(&kernel->code));
  return codegen::render_unit(out, {codes.data(), codes.size()}, target);
}

}  // namespace aster::nn::freeze
