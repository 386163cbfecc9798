#include "runtime/cpu/later_unit.h"

#include "runtime/cpu/pack.h"

namespace aster::runtime::cpu {

void LaterUnit::run(Job& job, Interrupt& stop) {
  LaterUnit& unit = static_cast<LaterUnit&>(job);
  const Patience patience{unit.timeout_ms, &stop, nullptr, nullptr};
  Status status =
      unit.compile({unit.text.data(), unit.text.size()}, patience, 0, unit.names.size());
  if (status.code == ASTER_ML_COMPILE && unit.names.size() > 1)
    status = unit.compile_each(patience);
  if (status.ok()) return;
  unit.failed = true;
  unit.error = SavedError();
}

// One after another, each with what all use; the error of the first that fails.
Status LaterUnit::compile_each(const Patience& patience) {
  Status first;
  for (size_t i = 0; i < names.size(); ++i) {
    Vec<char> one(text.memory());
    for (const size_t which : {size_t{0}, i + 1})
      ASTER_TRY(one.append(part(which).data(), part(which).size()));
    const SavedError before;
    const Status status = compile({one.data(), one.size()}, patience, i, i + 1);
    if (status.ok() || !first.ok()) {
      before.restore();
      continue;
    }
    first = status;
  }
  return first;
}

// A source with the kernels [first, last).
Status LaterUnit::compile(std::string_view source, const Patience& patience, size_t first,
                          size_t last) {
  Memory& memory = text.memory();
  Vec<Vec<uint8_t>> objects(memory);
  ASTER_TRY(objects.push(Vec<uint8_t>(memory)));
  ASTER_TRY(provider.compile(provider.self, features, {&source, 1}, {objects.data(), 1}, memory,
                             patience));
  if (shared_objects) {
    Vec<uint8_t> shared(memory);
    if (provider.link == nullptr)
      return ASTER_FAIL(kUNSUPPORTED, "the system does not let memory become executable");
    ASTER_TRY(provider.link(provider.self, {objects[0].data(), objects[0].size()}, &shared, memory,
                            patience));
    objects[0] = std::move(shared);
  }
  ASTER_TRY(images.push(Image(memory)));
  const std::span<const uint8_t> object(objects[0].data(), objects[0].size());
  ASTER_TRY(shared_objects ? images.back().load_shared(object) : images.back().load(object));
  bytes += images.back().bytes();
  if (first == 0 && last == names.size()) keep({objects.data(), objects.size()});
  for (size_t i = first; i < last; ++i)
    pack->later[i].store(images.back().find(names[i].view()), std::memory_order_release);
  return kOk;
}

// In the disk cache, by an object of its own.
void LaterUnit::keep(std::span<const Vec<uint8_t>> objects) const {
  if (cache_dir == nullptr) return;
  const SavedError before;
  Vec<uint8_t> written(text.memory());
  Cache cache(text.memory());
  if (cache.open(cache_dir[0] != '\0' ? cache_dir : nullptr).ok() &&
      write_pack(objects, &written).ok()) {
    cache.put(target.view(), pack->key, {written.data(), written.size()});
    for (const Digest& key : keys)
      cache.put(target.view(), key, {pack->key.data(), pack->key.size()});
  }
  before.restore();
}

// ---- What the library does with them ----

Status KernelLibrary::collect() {
  size_t left = 0;
  Status status;
  for (LaterUnit* unit : later_) {
    if (unit->state.load(std::memory_order_acquire) != Job::State::kDone) {
      later_[left++] = unit;
      continue;
    }
    const Status one = take_unit(unit);
    if (status.ok()) status = one;
    context_.heap().destroy(unit);
  }
  later_.truncate(left);
  return status;
}

// What failed is forgotten: whoever asks for it again hears why.
Status KernelLibrary::take_unit(LaterUnit* unit) {
  if (unit->pack == nullptr) return kOk;
  LoadedPack& pack = *unit->pack;
  pack.images = std::move(unit->images);
  pack.bytes = unit->bytes;
  pack.pending = false;
  loaded_bytes_ += pack.bytes;
  if (unit->failed) {
    const SavedError before;
    unit->error.restore();
    context_.log(ASTER_ML_LOG_WARNING, "kernels that were begun without machine code go on so: %s",
                 SavedError::message());
    before.restore();
  }
  Map<Digest, Entry, DigestHash> kernels(context_.heap());
  bool gone = false;
  for (size_t i = 0; i < unit->keys.size(); ++i) {
    Entry* const entry = kernels_.find(unit->keys[i]);
    if (entry == nullptr || entry->code != &pack) continue;
    entry->function = pack.later[i].load(std::memory_order_acquire);
    gone = gone || entry->function == nullptr;
  }
  if (!gone) return code_by_key_.set(pack.key, &pack);
  for (const auto& entry : kernels_) {
    if (entry.value.function != nullptr || entry.value.code != &pack)
      ASTER_TRY(kernels.set(entry.key, entry.value));
  }
  kernels_ = std::move(kernels);
  return kOk;
}

Status KernelLibrary::finish(const LaterCode* code) {
  for (LaterUnit* unit : later_) {
    const LoadedPack& pack = *unit->pack;
    if (code < pack.later || code >= pack.later + pack.laters) continue;
    if (!background_.finish(unit, context_.interrupt()))
      return Interrupt::stopped("kernels are compiled");
    return kOk;
  }
  return kOk;
}

}  // namespace aster::runtime::cpu
