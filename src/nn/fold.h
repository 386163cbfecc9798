// What does not change is computed once, while a program is frozen or a model captured.
#pragma once

#include "engine/engine.h"

namespace aster::nn {

// Computes what no input has to do with, where that is not larger than what it is made of, and puts
// the results in its place. inputs: nodes that are others at each run, beside those of an open
// capture. quads: of bytes that are multiplied words of four are made. dequantises: weights times
// scales too, which are larger, where they are read again and again.
Status fold_constants(Vec<uop::Node>* outputs, uop::Nodes inputs, engine::Engine& engine,
                      bool quads, bool dequantises = false);

}  // namespace aster::nn
