// Simplification of tensor graphs: identities, casts, movement of movement, reductions. Results
// keep their bits, but for sums over constants and repeated elements, which come out as if rounded
// once.
#pragma once

#include "uop/rewrite.h"

namespace aster::uop {

struct SimplifyOptions {
  bool drop_detach = false;   // gradients have been taken
  uint32_t* fired = nullptr;  // counts per rule of tensor_rules()
};

// *out = root (a sink, say) after tensor_rules(). Errors: INTERNAL.
Status simplify_tensor(Node* out, Graph& g, Node root, const SimplifyOptions& options = {});

const rule::RuleSet& tensor_rules();

// Helpers of the table on movement and reductions (rules_movement.cpp).
namespace rule {
Outcome slice_of_slice(const Match& m);
Outcome slice_of_pad(const Match& m);
Outcome slice_of_expand(const Match& m);
Outcome slice_of_permute(const Match& m);
Outcome slice_of_flip(const Match& m);
Outcome slice_of_cat(const Match& m);
Outcome flip_of_flip(const Match& m);
Outcome flip_of_expand(const Match& m);
Outcome flip_of_permute(const Match& m);
Outcome permute_of_units(const Match& m);
Outcome permute_of_expand(const Match& m);
Outcome reshape_of_expand(const Match& m);
Outcome pad_of_pad(const Match& m);
Outcome cat_of_parts(const Match& m);
Outcome sum_of_pads(const Match& m);
Outcome reduce_of_units(const Match& m);
Outcome reduce_of_nothing(const Match& m);
Outcome reduce_of_constant(const Match& m);
Outcome reduce_of_expand(const Match& m);
}  // namespace rule

}  // namespace aster::uop
