// What the engine and the runtime take a machine to be where they do not ask it: one model for all
// of them. Constants, so that how work is cut, and with it the bits of results, is the same
// everywhere. What is asked: runtime/cpu/features.h.
#pragma once

#include <cstdint>

namespace aster::runtime::cpu::machine {

// ---- One core, for the choice of threads and nothing else ----

constexpr double kFlopsPerNanosecond = 16;  // of generated code
constexpr double kBytesPerNanosecond = 10;  // from memory

// ---- Threads ----

constexpr double kWorthThreads = 8000;  // nanoseconds below which one thread does it alone
// Parts that each thread takes, so that a busy core does not hold the rest back.
constexpr int64_t kPartsPerThread = 4;
// Elements worth a task of a native operation: where each is touched once or a few times, and where
// they are sorted.
constexpr int64_t kTaskElements = 1 << 14;
constexpr int64_t kSortedTaskElements = 1 << 13;
// Elements together that a task writes: of so many, or of fewer that still do not share cache
// lines.
constexpr int64_t kTaskRun = 256, kShortestTaskRun = 32;

// ---- Caches ----

// Bytes from which on places here and there are far from each other, and from which on memory
// leaves the caches of a core.
constexpr int64_t kFarBytes = int64_t{1} << 18;
constexpr int64_t kUncachedBytes = int64_t{4} << 20;
// Results beyond this never stay in a last level that others share.
constexpr int64_t kMostCacheShare = int64_t{32} << 20;

}  // namespace aster::runtime::cpu::machine
