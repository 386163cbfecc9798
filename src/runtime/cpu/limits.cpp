#include "runtime/cpu/limits.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "base/pool.h"
#include "runtime/state.h"

namespace aster::runtime::cpu {
namespace {

constexpr int kRounds = 6;  // of which the fastest counts
constexpr int64_t kTurns = 100000;
constexpr int64_t kSums = 12;  // that go on beside each other: as many as hide an addition
constexpr size_t kPart = size_t{1} << 20;
constexpr size_t kFewestParts = 64, kMostParts = 256;
constexpr const char* kFolder = "limits";

double seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// The registers of kSums sums, and the factor.
#define ASTER_EACH_SUM(step)                                                                \
  step("0") step("1") step("2") step("3") step("4") step("5") step("6") step("7") step("8") \
      step("9") step("10") step("11")
#define ASTER_FUSED(sum) "vfmadd231ps %12, %12, %" sum "\n\t"
#define ASTER_APART(sum) "mulps %12, %" sum "\n\taddps %12, %" sum "\n\t"

template <int Bytes>
struct Lanes {
  typedef float Type __attribute__((vector_size(Bytes)));
};

// Turns of kSums products and sums of whole vectors.
#define ASTER_BURN(name, features, bytes, constraint, step)                                      \
  [[gnu::target(features)]] void name(int64_t turns) {                                           \
    using V = Lanes<bytes>::Type;                                                                \
    V a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{}, k{}, l{}, x{};                           \
    for (int64_t turn = 0; turn < turns; ++turn) {                                               \
      asm volatile(ASTER_EACH_SUM(step)                                                          \
                   : "+" constraint(a), "+" constraint(b), "+" constraint(c), "+" constraint(d), \
                     "+" constraint(e), "+" constraint(f), "+" constraint(g), "+" constraint(h), \
                     "+" constraint(i), "+" constraint(j), "+" constraint(k), "+" constraint(l)  \
                   : constraint(x));                                                             \
    }                                                                                            \
  }
ASTER_BURN(burn_16, "sse2", 16, "x", ASTER_APART)
ASTER_BURN(burn_32, "avx2,fma", 32, "x", ASTER_FUSED)
ASTER_BURN(burn_64, "avx512f", 64, "v", ASTER_FUSED)

void burn(void* self, int64_t) {
  const int bytes = *static_cast<const int*>(self);
  (bytes == 64 ? burn_64 : bytes == 32 ? burn_32 : burn_16)(kTurns);
}

double measure_operations(int vector_bytes, int threads) {
  double best = 0;
  const int64_t tasks = 2 * threads;
  for (int round = 0; round < kRounds; ++round) {
    const double start = seconds();
    pool::run(threads, tasks, burn, &vector_bytes);
    const auto done = static_cast<double>(tasks * kTurns * kSums * 2 * (vector_bytes / 4));
    best = std::max(best, done / (seconds() - start));
  }
  return best / 1e9;
}

struct Reading {
  const uint64_t* data;
  uint64_t* sums;  // one a part
};

void read_part(void* self, int64_t part) {
  const auto& reading = *static_cast<const Reading*>(self);
  const uint64_t* at = reading.data + static_cast<size_t>(part) * (kPart / sizeof(uint64_t));
  uint64_t sums[16] = {};
  for (size_t i = 0; i < kPart / sizeof(uint64_t); i += 16) {
    for (size_t lane = 0; lane < 16; ++lane) sums[lane] += at[i + lane];
  }
  uint64_t sum = 0;
  for (const uint64_t each : sums) sum += each;
  reading.sums[part] = sum;
}

Status measure_memory(double* out, Context& context, int threads) {
  const size_t parts = std::clamp(2 * detect_caches().last / kPart, kFewestParts, kMostParts);
  Heap& heap = context.heap();
  Vec<uint64_t> sums(heap);
  ASTER_TRY(sums.resize(parts, 0));
  void* const memory = heap.allocate(parts * kPart, 4096);
  if (memory == nullptr) return out_of_memory(parts * kPart);
  std::memset(memory, 1, parts * kPart);
  Reading reading{static_cast<const uint64_t*>(memory), sums.data()};
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double start = seconds();
    pool::run(threads, static_cast<int64_t>(parts), read_part, &reading);
    best = std::max(best, static_cast<double>(parts * kPart) / (seconds() - start));
  }
  heap.release(memory, parts * kPart, 4096);
  *out = best / 1e9;
  return kOk;
}

}  // namespace

Status limits_of(Limits* out, Context& context, int threads) {
  KernelLibrary* library = nullptr;
  ASTER_TRY(kernel_library(context, &library));
  Text name(context.heap());
  write_features(name, library->features());
  name.format(" %08x %d threads", cpu_signature(), threads);
  ASTER_TRY(name.status());
  const Digest key = Sha256().add_text("aster_ml limits 1").add_text(name.view()).finish();
  Vec<uint8_t> bytes(context.heap());
  Cache& cache = library->cache();
  const bool kept = cache.enabled() && context.options().no_disk_cache == 0;
  if (kept && cache.get(kFolder, key, &bytes) && bytes.size() == sizeof(*out)) {
    std::memcpy(out, bytes.data(), sizeof(*out));
    if (out->gflops > 0 && out->gbytes > 0) return kOk;
  }
  out->gflops = measure_operations(library->features().vector_bytes, threads);
  ASTER_TRY(measure_memory(&out->gbytes, context, threads));
  if (kept) cache.put(kFolder, key, as_bytes(out, sizeof(*out)));
  return kOk;
}

}  // namespace aster::runtime::cpu
