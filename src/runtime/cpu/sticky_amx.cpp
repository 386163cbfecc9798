#include "runtime/cpu/sticky_amx.h"

#include "flt/tile.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#endif

namespace aster::runtime::cpu::sticky {

#if defined(__x86_64__) && defined(__linux__)
namespace {

constexpr size_t kTileRows = 16, kDeep = 16;  // of a tile: rows, and groups of four bytes of a row
constexpr size_t kLine = flt::kTileLanes * sizeof(int32_t);

// What ldtilecfg reads.
struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Of registers: sums of 16 rows and 16 lanes each (0 and 1, 2 and 3 below them), rows of a (4, 5),
// lanes of b (6, 7).
void configure(size_t rows) {
  Configuration c;
  const size_t high = std::min(rows, kTileRows), low = rows - high;
  const size_t sizes[] = {high, high, low, low, high, low, kTileRows, kTileRows};
  for (size_t i = 0; i < std::size(sizes); ++i) {
    c.rows[i] = static_cast<uint8_t>(sizes[i]);
    c.row_bytes[i] = sizes[i] == 0 ? 0 : 64;
  }
  __asm__ volatile("ldtilecfg %0" : : "m"(c));
}

// tileloadd and tilestored read and write `step` bytes from one row to the next.
#define AMX_LOAD(tile, at, step) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" tile : : "r"(at), "r"(step) : "memory")
#define AMX_STORE(tile, at, step) \
  __asm__ volatile("tilestored %%tmm" tile ", (%0,%1,1)" : : "r"(at), "r"(step) : "memory")
// Of signed a and unsigned b.
#define AMX_ADD(sums, a, b) \
  __asm__ volatile("tdpbsud %%tmm" b ", %%tmm" a ", %%tmm" sums : : : "memory")

void add_tiles(const int32_t* a, size_t step, const int32_t* b, bool both) {
  AMX_LOAD("6", b, kLine);
  AMX_LOAD("4", a, step);
  AMX_ADD("0", "4", "6");
  AMX_LOAD("7", b + kTileRows, kLine);
  AMX_ADD("1", "4", "7");
  if (!both) return;
  AMX_LOAD("5", a + kTileRows * step / sizeof(int32_t), step);
  AMX_ADD("2", "5", "6");
  AMX_ADD("3", "5", "7");
}

void tile(int32_t* sums, const int32_t* a, size_t step, const int32_t* b, size_t pairs,
          size_t rows) {
  const bool both = rows > kTileRows;
  const size_t bytes = step * sizeof(int32_t);
  int32_t* const below = sums + kTileRows * flt::kTileLanes;
  configure(rows);
  AMX_LOAD("0", sums, kLine);
  AMX_LOAD("1", sums + kTileRows, kLine);
  if (both) {
    AMX_LOAD("2", below, kLine);
    AMX_LOAD("3", below + kTileRows, kLine);
  }
  size_t k = 0;
  for (; k + kDeep <= pairs; k += kDeep) add_tiles(a + k, bytes, b + k * flt::kTileLanes, both);
  if (k < pairs) {
    alignas(64) int32_t last[kDeep * flt::kTileLanes] = {};
    std::copy(b + k * flt::kTileLanes, b + pairs * flt::kTileLanes, last);
    add_tiles(a + k, bytes, last, both);
  }
  AMX_STORE("0", sums, kLine);
  AMX_STORE("1", sums + kTileRows, kLine);
  if (both) {
    AMX_STORE("2", below, kLine);
    AMX_STORE("3", below + kTileRows, kLine);
  }
  __asm__ volatile("tilerelease" : : : "memory");
}
#undef AMX_LOAD
#undef AMX_STORE
#undef AMX_ADD

bool has_tiles() {
  constexpr unsigned kOsxsave = 1u << 27, kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr unsigned kState = 3u << 17;  // XCR0: the tiles and what configures them
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsxsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTile) == 0 || (edx & kInt8) == 0) return false;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kState) == kState;
}

constinit AmxTile found = nullptr;
pthread_once_t look_once = PTHREAD_ONCE_INIT;

void look() {
  // Linux keeps the tiles of processes that asked for it.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  if (has_tiles() && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) found = tile;
}

}  // namespace

AmxTile amx_tile() {
  pthread_once(&look_once, look);
  return found;
}
#else
AmxTile amx_tile() { return nullptr; }
#endif

}  // namespace aster::runtime::cpu::sticky
