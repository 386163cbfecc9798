// Values of expressions that others go on to read, kept when one of them was realised.
#pragma once

#include "base/memory.h"
#include "uop/uop.h"

namespace aster::engine {

class Engine;

struct Kept {
  uop::Node expression, value;  // retained; value is a Buffer
};

// Of the nodes below roots, all that is computed now: what pending expressions read as well, where
// computing it again costs much and nothing but the engine writes the memory it is computed from.
Status choose_kept(Vec<uop::Node>* out, Engine& engine, uop::Nodes nodes, uop::Nodes roots);
// Whether anything below a root, or the root, takes so many operations that it might be kept.
Status is_worth_keeping(bool* out, Heap& heap, uop::Node root);
Status keep(Engine& engine, uop::Node expression, uop::Node value);

// All; where programs have run since; where views of storage are about to be written that an
// expression reads; what no other node reads any more.
void forget_kept(Engine& engine);
void forget_outdated(Engine& engine);
Status forget_written(Engine& engine, uop::Nodes written);
void forget_unread(Engine& engine);

}  // namespace aster::engine
