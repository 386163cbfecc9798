// A second evaluation of cases, element by element: every node in full, coordinates by definition.
#pragma once

#include "fuzz/random_graph.h"

namespace aster::fuzz {

bool run_naive(Case& c, Answer* answer);

// The same as a runtime of our tolerances might: functions off by two values of their dtype, sums
// rounded at every step and in the other order.
bool run_loose(Case& c, Answer* answer);

}  // namespace aster::fuzz
