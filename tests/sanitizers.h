// Which sanitizer a test is built with: gcc and clang say it differently.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define ASTER_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ASTER_TEST_TSAN 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#define ASTER_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASTER_TEST_ASAN 1
#endif
#endif
