// What happens to a tensor graph between the caller and fusion.
#pragma once

#include "engine/leaves.h"
#include "engine/schedule.h"

namespace aster::engine {

// Copies the graph below roots into graph with every leaf replaced by the Param of its number. Weak
// dtypes become the defaults of g. Values of roots: out->src(i).
Status copy_with_params(uop::Node* out, uop::Graph& graph, uop::Nodes roots, const Leaves& leaves);

// Inlines the bodies of calls. cpu: what their loops read again and again lies in memory as a CPU
// reads it best.
Status inline_calls(uop::Node* sink, uop::Graph& graph, bool cpu);

// Products of quantised tensors become sums of products of integers (prepare_integers.h).
Status multiply_quantised(uop::Node* sink, uop::Graph& graph, bool quads);

// Sums of products of matrices that have few terms each, as gradients to the weights of a recurrent
// net are, become one product of all terms.
Status join_products(uop::Node* sink, uop::Graph& graph);

// Products of a few rows of leaves each by one matrix, as those of the steps of a recurrent net
// are, become one product of copies of these rows.
Status multiply_rows_together(uop::Node* sink, uop::Graph& graph);

// What is assigned to one storage and then to another is a value of its own in between: the two may
// overlap.
Status copy_written_values(uop::Node* sink, uop::Graph& graph);

// Scatters of few values to few places become reductions, which fuse with what stands around.
Status expand_scatters(uop::Node* sink, uop::Graph& graph);
// The reduction that such a Scatter is, or itself.
Status expand_scatter(uop::Node* out, uop::Graph& graph, uop::Node scatter);

// Splits reductions of very many elements into few in two, so that the first half has work for
// every thread; the parts do not depend on the number of threads.
Status split_reductions(uop::Node* sink, uop::Graph& graph);

// A concatenation of very many parts becomes one of concatenations, each in memory: no kernel's
// text grows with their number, and kernels of equal parts are one.
Status split_concatenations(uop::Node* sink, uop::Graph& graph);

// Computes the words of random numbers in words.
Status split_words(uop::Node* sink, uop::Graph& graph);

// Scans of large permuted tensors read copies of them.
Status copy_turned_scans(uop::Node* sink, uop::Graph& graph);

// Elements gathered in an order that nothing else reads are sorted without their positions.
Status sort_values(uop::Node* sink, uop::Graph& graph);

// Has overlapping windows of large padded tensors read a padded copy.
Status lay_out_padding(uop::Node* sink, uop::Graph& graph);

// The words that tell two graphs apart whatever their buffers are: equal words, equal schedules.
// order: what toposort gives of the roots, which is used up; null: it is found.
Status write_key(Vec<int64_t>* key, Leaves* leaves, Engine& engine, uop::Nodes roots,
                 Vec<uop::Node>* order = nullptr);

}  // namespace aster::engine
