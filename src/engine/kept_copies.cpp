#include "engine/kept_copies.h"

#include <cstring>

#include "base/content.h"
#include "base/flags.h"
#include "base/mutex.h"
#include "runtime/cpu/module.h"
#include "runtime/state.h"

namespace aster::engine {
namespace {

using runtime::cpu::Cache;
using runtime::cpu::KernelLibrary;
using runtime::cpu::Sha256;

constexpr std::string_view kFormat = "aster copy 1";  // raised when ways give other bytes
constexpr codegen::program::Digest kAsItIs = {0, 0};
constexpr size_t kLeastBytes = 256
                               << 10;  // below, looking for a file takes as long (bench_portable)

constinit Mutex g_mutex;  // what a cache counts

}  // namespace

Status cache_of_copies(Cache** out, const buffer::Storage& storage, size_t bytes) {
  *out = nullptr;
  if (!storage.mapped || bytes < kLeastBytes) return kOk;
  Context& context = *storage.context;
  const char* const no = flag_text(Flag::kNoKeptSchedules);
  if (context.options().no_disk_cache != 0 || (no != nullptr && std::string_view(no) == "1"))
    return kOk;
  KernelLibrary* library = nullptr;
  ASTER_TRY(runtime::kernel_library(context, &library));
  if (library->cache().enabled()) *out = &library->cache();
  return kOk;
}

void find_on_disk(KeptOnDisk* one, void* place) {
  const Content content = content_of(one->of);
  const uint64_t numbers[] = {one->way.low, one->way.high, one->of.size(),
                              content.low,  content.high,  one->bytes};
  one->key = Sha256().add_text(kFormat).add(numbers, sizeof(numbers)).finish();
  {
    const MutexLock lock(g_mutex);
    one->found = one->cache->map(one->key, one->bytes, place);
  }
  if (one->found.data == nullptr || Cache::is_whole(one->found, one->bytes)) return;
  const MutexLock lock(g_mutex);
  if (place == nullptr) Cache::unmap(one->found.data, one->bytes);
  one->cache->drop(one->key);
  one->found = {};
}

void bring_now(buffer::Storage& storage) {
  KeptOnDisk one;
  const SavedError before;
  if (!cache_of_copies(&one.cache, storage, storage.bytes).ok()) before.restore();
  const uint8_t* const from = storage.late.load(std::memory_order_relaxed);
  one.way = kAsItIs;
  one.of = {from, storage.bytes};
  one.bytes = storage.bytes;
  if (one.cache != nullptr) find_on_disk(&one, storage.data);
  if (one.found.data == nullptr) {
    std::memcpy(storage.data, from, storage.bytes);
    if (one.cache != nullptr) one.cache->put_mapped(one.key, one.of);
  }
  storage.late.store(nullptr, std::memory_order_release);
}

}  // namespace aster::engine
