// Composites: operations that stay one Call node in the tensor graph. The body on Params (slot i is
// argument i) is their meaning; the arguments of the node are {composite, attributes...} as
// composites.def lists them.
//
// Builders take checked operands: dtypes equal (labels apart), shapes fitting. Nil absorbs.
#pragma once

#include "uop/uop.h"

namespace aster::uop {

enum class Composite : Word {
#define COMPOSITE(name, public_name, attributes, meaning) k##name,
#include "uop/composites.def"
#undef COMPOSITE
  kCount,  // of calls
  kBeforeExpanded = kCount - 1,
#define COMPOSITE(name, public_name, attributes, meaning)
#define EXPANDED(name, public_name, attributes, meaning) k##name,
#include "uop/composites.def"
#undef COMPOSITE
  kAll
};
constexpr size_t kComposites = static_cast<size_t>(Composite::kAll);
const char* name(Composite composite);
// Its name in the registry; "" where nothing takes its place.
const char* public_name(Composite composite);
const char* meaning_of(Composite composite);
inline Composite composite_of(Node call) { return static_cast<Composite>(call->arg(0)); }

// Pairs are rows, columns; pad is top, bottom, left, right, none negative.
struct Conv2d {
  Word groups = 1;
  Word stride[2] = {1, 1};
  Word pad[4] = {0, 0, 0, 0};
  Word dilation[2] = {1, 1};
};
Conv2d conv2d_of(Node call);  // the attributes of a Conv2d or Conv2dWeightGrad node

struct Pool2d {
  Word kernel[2] = {2, 2};
  Word stride[2] = {2, 2};
  Word pad[4] = {0, 0, 0, 0};
  Word dilation[2] = {1, 1};
};

// Size of an axis after windows of a kernel; 0 or less where none fits.
Word windows_count(Word size, Word pad, Word kernel, Word stride, Word dilation);

Node build_matmul(Graph& g, Node a, Node b);  // [B.., M, K], [B.., K, N]; the batch axes equal
// Integer results keep the accumulator's dtype.
Node build_conv2d(Graph& g, Node x, Node w, const Conv2d& options);
Node build_conv2d_weight_grad(Graph& g, Node x, Node dy, const Conv2d& options, Word kh, Word kw);
// Over the last two axes.
Node build_max_pool2d(Graph& g, Node x, const Pool2d& options);
Node build_avg_pool2d(Graph& g, Node x, const Pool2d& options, bool count_include_pad);  // float x
Node build_softmax(Graph& g, Node x, Word axis);
Node build_log_softmax(Graph& g, Node x, Word axis);
Node build_logsumexp(Graph& g, Node x, Words axes);  // axes ascending; they stay, with size 1
Node build_layer_norm(Graph& g, Node x, Word trailing, double eps);  // over so many last axes
Node build_batch_norm(Graph& g, Node x, Node weight, Node bias, Node mean,
                      Node invstd);  // x [N, C, ..], others [C]
Node build_cross_entropy(Graph& g, Node logits, Node labels, bool mean);  // [.., C], [..] -> []
Node build_sigmoid(Graph& g, Node x, bool by_exp2);  // float x; by_exp2: in tinygrad's steps
Node build_contiguous_backward(Graph& g, Node x);
// y, as a function of arguments that lie below it, the first so many of which are its inputs.
Node build_checkpoint(Graph& g, Node y, Nodes arguments, size_t inputs);

// Who may put another node in the place of a composite that is built in a graph.
struct Chooser {
  Graph* graph;
  // usual: what is built otherwise, which the other one's dtype and shape are. Nil: the failure in
  // the error record.
  Node (*choose)(Chooser& self, Composite composite, Words attributes, Nodes arguments, Node usual);
  Chooser* next = nullptr;
};
// Threads: any; a graph has one at most.
void add_chooser(Chooser* chooser);
void remove_chooser(Chooser* chooser);
// What to build for a composite. Where no graph of the process has a chooser, usual costs one load.
Node choose(Graph& g, Composite composite, Words attributes, Nodes arguments, Node usual);

// What the attribute of a Chosen call names: alive as long as its graph takes gradients.
struct Chosen {
  // Fills dx[i], the gradient of source i of y, where needed[i]; source 0 is the body.
  Status (*flow)(const Chosen& self, Graph& g, Node y, Node dy, std::span<const bool> needed,
                 std::span<Node> dx);
};
Node build_chosen(Graph& g, const Chosen& chosen, Node body, Nodes arguments);

// A call's body on its arguments: what inlining puts in its place.
Status inline_call(Node* out, Graph& g, Node call);
// The smallest value of a dtype, as a constant's word.
Word lowest_word(DType dtype);
// What a reduction by op starts from.
Word neutral_word(Op op, DType dtype);

}  // namespace aster::uop
