// How many processors this process may use: affinity mask and cgroup quota.
#pragma once

#include <pthread.h>

namespace aster::cpus {

// At least 1; asked of the system once.
int allowed();
// Whole processors that control groups grant: the least quota of the groups that the file
// `membership` names (in the format of /proc/self/cgroup) and of those above them, below the mount
// point root. INT_MAX where there is none.
int quota(const char* root, const char* membership);
// Pins a thread to the index-th processor of the process's mask, counted round; best effort.
void pin(pthread_t thread, int index);

}  // namespace aster::cpus
