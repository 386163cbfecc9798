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
// weights value, of the dtype that both have in common or of this.
Node attention_sum(Graph& g, Node weights, const Attention& a, DType dtype = DType::kNone);
// softmax(scores) value, in memory at once.
Node compose_attention(Graph& g, const Attention& a, Word first_row = 0);

}  // namespace aster::tensor
