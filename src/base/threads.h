// Threads of the library's own.
#pragma once

#include <pthread.h>

namespace aster {

// A thread that nobody joins and that takes none of the program's signals. False where none can be
// made.
bool start_thread(pthread_t* out, void* (*body)(void*), void* self);

}  // namespace aster
