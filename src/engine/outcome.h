// What a run comes to: its status, and what its computations said.
#pragma once

#include "base/context.h"

namespace aster::engine {

// ran, or what a computation said where it went well; said and not heard it would be another run's.
inline Status outcome(Context& context, Status ran) {
  if (ran.ok()) return context.take_fault();
  const SavedError saved;
  (void)context.take_fault();
  saved.restore();
  return ran;
}

}  // namespace aster::engine
