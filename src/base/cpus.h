// How many processors this process may use: affinity mask and cgroup quota.
#pragma once

#include <pthread.h>

namespace aster::cpus {

// At least 1; asked of the system once.
int allowed();
// Pins a thread to the index-th processor of the process's mask, counted round; best effort.
void pin(pthread_t thread, int index);

}  // namespace aster::cpus
