#include "runtime/modules.h"

#include <algorithm>
#include <cstdio>

#include "runtime/cpu/elf_loader.h"

namespace aster::runtime {

uint64_t Modules::NameHash::operator()(const Name& name) const {
  return cpu::NameHash()({name.data(), name.size()});
}

Modules::Name Modules::name_of(const Device& device, const aster_ml_code& code) {
  Name out = {};
  std::snprintf(out.data(), out.size(), "%x %s", static_cast<unsigned>(device.code), code.name);
  return out;
}

void Modules::drop(Built* module) {
  const Device& device = *module->device;
  device.backend->unbuild(device.backend->self, device.index(), module->handle);
  all_.memory().destroy(module);
}

void Modules::clear() {
  for (Built* module : all_) drop(module);
  all_.clear();
  kernels_.clear();
}

Status Modules::build(std::span<void*> functions, const Device& device,
                      std::span<const aster_ml_code> codes) {
  Memory& memory = all_.memory();
  ASTER_TRY(all_.reserve(all_.size() + 1));
  Built* module = memory.create<Built>();
  if (module == nullptr) return out_of_memory(sizeof(Built));
  module->device = &device;
  const Status status = runtime::build(&module->handle, functions, device, codes);
  if (!status.ok()) {
    memory.destroy(module);
    return status;
  }
  ASTER_TRY(all_.push(module));
  for (size_t i = 0; i < codes.size(); ++i)
    ASTER_TRY(kernels_.set(name_of(device, codes[i]), Kernel{module, functions[i]}));
  return kOk;
}

Status Modules::load(Vec<Built*>* held, std::span<void*> functions, size_t* found,
                     const Device& device, std::span<const aster_ml_code> codes) {
  Vec<aster_ml_code> missing(all_.memory());
  Vec<void*> made(all_.memory());
  for (const aster_ml_code& code : codes) {
    if (!kernels_.contains(name_of(device, code))) ASTER_TRY(missing.push(code));
  }
  ASTER_TRY(made.resize(missing.size(), nullptr));
  ASTER_TRY(trim());
  if (!missing.empty())
    ASTER_TRY(build({made.data(), made.size()}, device, {missing.data(), missing.size()}));
  *found = 0;
  ASTER_TRY(held->reserve(held->size() + codes.size()));
  for (size_t i = 0; i < codes.size(); ++i) {
    const Kernel* kernel = kernels_.find(name_of(device, codes[i]));
    functions[i] = kernel->function;
    if (kernel->function == nullptr) continue;
    ++*found;
    if (std::find(held->begin(), held->end(), kernel->module) != held->end()) continue;
    ++kernel->module->users;
    ASTER_TRY(held->push(kernel->module));
  }
  *found -= static_cast<size_t>(
      std::count_if(made.begin(), made.end(), [](void* function) { return function != nullptr; }));
  return kOk;
}

Status Modules::trim() {
  const auto unused = [](const Built* module) { return module->users == 0; };
  size_t surplus = static_cast<size_t>(std::count_if(all_.begin(), all_.end(), unused));
  if (surplus <= kMostUnused) return kOk;
  surplus -= kMostUnused / 2;
  Map<Name, Kernel, NameHash> left(all_.memory());
  Vec<Built*> kept(all_.memory());
  Vec<Built*> dropped(all_.memory());
  for (Built* module : all_) {
    const bool goes = unused(module) && dropped.size() < surplus;
    ASTER_TRY((goes ? dropped : kept).push(module));
  }
  for (const auto& entry : kernels_) {
    if (std::find(dropped.begin(), dropped.end(), entry.value.module) == dropped.end())
      ASTER_TRY(left.set(entry.key, entry.value));
  }
  for (Built* module : dropped) drop(module);
  all_ = std::move(kept);
  kernels_ = std::move(left);
  return kOk;
}

}  // namespace aster::runtime
