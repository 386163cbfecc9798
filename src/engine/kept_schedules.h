// Schedules on disk, beside the compiled kernels: what an earlier process made of a graph is read
// instead of made again. A file is what the cache of kernels keeps under a name of the graph's key,
// of the library as it was built and of what its kernels were made for; the whole key stands in it
// and is compared.
//
// Kept are schedules for the host whose kernels are compiled for their own sizes (those of
// captures, of programs that are loaded and of what their constants make; with no_sizes all), with
// none but such kernels: no calls of the library's own functions, no kernels of others, none that
// are interpreted or begin by strips, no plans that were searched for. Of copies of what does not
// change (constants.h), what makes them is kept; they are made in each process. Nothing of a file
// is trusted: what does not fit is a miss.
#pragma once

#include "engine/kernels.h"

namespace aster::engine {

// What a schedule is asked for with.
struct ScheduleRequest {
  uint64_t hash;  // of the executable's key
  uop::Nodes roots;
  const Leaves& leaves;
};
// *found: exe is what was kept. Errors: MEMORY; CANCELLED.
Status read_schedule(bool* found, Executable* exe, Engine& engine, const ScheduleRequest& request);
// Keeps an executable that was just made, if it is one to be kept; a cache that cannot be written
// keeps nothing. planned: bytes of its temporaries.
Status keep_schedule(const Executable& exe, Engine& engine, const Kernels& kernels, int64_t planned,
                     const Leaves& leaves);

// For tests: as if the library had been built otherwise.
void set_build_for_tests(std::string_view name);

}  // namespace aster::engine
