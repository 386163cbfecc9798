// The steps of scaled dot-product attention on nodes, which its implementations share.
#pragma once

#include "tensor/ops.h"

namespace aster::tensor {

struct Attention {
  Node query, key, value, mask;  // mask: null for none
  bool causal, grouped;          // grouped: each head of key and value serves a run of the query's
};

// The dtype that scores are computed in.
DType score_dtype(Graph& g, const Attention& a);
// query key^T / sqrt(E), masked. Of a part of all rows and columns, where that begins.
Node attention_scores(Graph& g, const Attention& a, Word first_row = 0, Word first_column = 0);
// x, of scores' shape, with `hidden` where the causal mask or a mask of bool hides scores.
Node attention_shown(Graph& g, Node x, const Attention& a, double hidden, Word first_row,
                     Word first_column);
// x y summed in dtype, where each head of y serves a run of those of x.
Node attention_product(Graph& g, Node x, Node y, DType dtype, bool grouped);
// weights value, of the dtype that both have in common or of this.
Node attention_sum(Graph& g, Node weights, const Attention& a, DType dtype = DType::kNone);

}  // namespace aster::tensor
