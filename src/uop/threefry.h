// Threefry by words of 32 bits: half as wide as its counter, so that a vector holds twice as many.
#pragma once

#include "uop/uop.h"

namespace aster::uop {

// A word of the result of a Threefry node, uint32: the low or the high one. Words of one node share
// all but the last step. Nil absorbs.
Node threefry_word(Graph& g, Node call, bool high);

}  // namespace aster::uop
