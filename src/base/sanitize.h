// What the address sanitizer is told about memory that our allocators hold back.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define ASTER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASTER_ASAN 1
#endif
#endif

#ifdef ASTER_ASAN
#include <sanitizer/asan_interface.h>
#endif

#if defined(ASTER_ASAN) || defined(__SANITIZE_THREAD__)
#define ASTER_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ASTER_SANITIZED 1
#endif
#endif

namespace aster {

// A sanitizer's allocator ends the process on larger requests.
#ifdef ASTER_SANITIZED
constexpr size_t kMostRequested = size_t{1} << 39;
#else
constexpr size_t kMostRequested = static_cast<size_t>(PTRDIFF_MAX);
#endif

#ifdef ASTER_ASAN
constexpr size_t kRedZone = 16;  // poisoned bytes between two requests of an arena
inline void poison(const void* at, size_t bytes) { __asan_poison_memory_region(at, bytes); }
inline void unpoison(const void* at, size_t bytes) { __asan_unpoison_memory_region(at, bytes); }
#else
constexpr size_t kRedZone = 0;
inline void poison(const void*, size_t) {}
inline void unpoison(const void*, size_t) {}
#endif

}  // namespace aster
