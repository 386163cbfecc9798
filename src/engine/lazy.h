// The lazy cell behind aster_ml_lazy, and the engine of a context: its graph, its live cells,
// realisation.
//
// A cell is mutable: it names a node of the engine's graph; realising replaces the node by a Buffer
// that holds the result, for every cell that names it. A Buffer node's argument is (Storage*,
// device code, byte offset); the node holds one reference of its storage, given up when the graph
// reclaims the node.
#pragma once

#include <span>

#include "aster_ml/base.h"
#include "base/context.h"
#include "buffer/storage.h"
#include "uop/uop.h"

namespace aster::engine {

class Engine;
class Symbols;
struct GraphArena;
struct Lazy;

// Of a tensor whose sizes are expressions of variables: what its node, of the present sizes, is the
// first part of.
struct Sized {
  Lazy* whole;       // the tensor of the greatest sizes, a cell without a scope
  uop::Node* sizes;  // retained; one an axis, numbers among them
  size_t ndim;
};

struct Lazy : HandleObject {
  Engine* engine;
  uop::Node node;   // retained; replaced through set_node only
  uop::Node shown;  // what builders take for it: node, or another while one of them says so
  Sized* sized;     // null: all sizes are numbers
  // Handles copied from one another, and views: what is assigned to one is seen in all. Cells built
  // apart have families of their own, though equal expressions come to lie in one storage; 0: the
  // cell stands for memory that was there before it, whoever else does.
  uint64_t family;
  Lazy* beside;  // the cells of one node, from node->handles on
  Lazy** beside_link;
  ptrdiff_t* lent;  // strides that aster_ml_lazy_view lent, in the context's heap; null if none
  size_t lent_count;
  // Among those that ask for a gradient; link is null for the others.
  Lazy* wanting;
  Lazy** wanting_link;
  Lazy* gradient;  // what backward has added up: a cell without a scope, or null
  // Among those of an arena (graph_arena.h); null for those of none.
  GraphArena* arena;
  Lazy* beside_in_arena;
  Lazy** arena_link;
};

// Has a cell ask for a gradient, or no longer.
void want_gradient(Lazy& lazy, bool wanted);
// Makes a cell that is in no scope the gradient of another, in the place of the one before; null:
// there is none.
void set_gradient(Lazy& lazy, Lazy* gradient);
// The first of those that ask for one; on by `wanting`.
Lazy* first_wanting(const Engine& engine);

// The engine of a context, made at the first call.
Status engine_of(Engine** out, Context& context);
uop::Graph& graph_of(Engine& engine);
Symbols& symbols_of(Engine& engine);

// A new handle's cell naming node; registered in the innermost scope. Of the family of `from` if it
// is a view of that. Nil node: last_failure().
Status lazy_create(Lazy** out, Engine& engine, uop::Node node, const Lazy* from = nullptr);
void set_node(Lazy& lazy, uop::Node node);

// Makes lazy, a part of whole from its beginning, one of those sizes. The cell of whole is lazy's
// from now on, whatever comes of it.
Status set_sizes(Lazy& lazy, Lazy* whole, uop::Nodes sizes);
void drop_sizes(Lazy& lazy);
// Makes lazy the present part of its whole tensor again: that became another node, or the sizes are
// others.
Status show_present(Lazy& lazy);
Status change_sizes(Lazy& lazy, uop::Nodes sizes);
// The tensor that is computed for a cell.
inline Lazy* whole_of(Lazy* lazy) { return lazy->sized == nullptr ? lazy : lazy->sized->whole; }
// A value of a variable in an expression, or of a size, is used as a number: what is captured is
// for this one alone.
Status look_at(Engine& engine, uop::Node expression);
Status look_at_sizes(const Lazy& lazy);
// The same of what a tensor reads that waits since before the capture, and may be for some values
// alone.
Status look_at_earlier(const Lazy& lazy);
// What is built now is right where a <= b: what is captured is for values for which that is so.
Status assume_le(Engine& engine, uop::Node a, uop::Node b);

// The cells that name a node: the first; on by `beside`.
inline Lazy* cells_of(uop::Node node) { return static_cast<Lazy*>(node->handles); }
// Puts other nodes in the place of some, in every cell that names one anywhere.
Status replace_in_cells(Engine& engine, const Map<uop::Node, uop::Node>& map);

// A Buffer node on storage (retained by the node), row-major from byte_offset.
uop::Node buffer_node(Engine& engine, buffer::Storage* storage, int64_t byte_offset,
                      dtype::DType dtype, uop::Words shape);
// The same on memory of the library's own that counts as that of a device; 0: it goes with operands
// on any.
uop::Node buffer_node_on(Engine& engine, buffer::Storage* storage, int32_t device,
                         int64_t byte_offset, dtype::DType dtype, uop::Words shape);
// The bits of a row-major part of storage as another dtype: a Buffer on the same storage. Null in
// *out where x is none, is not aligned for that dtype, or dtype is one that not all bits are of.
Status reinterpret(uop::Node* out, Engine& engine, uop::Node x, dtype::DType dtype,
                   uop::Words shape);
// The memory of a Buffer node; and for those who do not look at its bytes, which may not be there
// yet (kept_copies.h).
buffer::Storage* storage_of(uop::Node buffer_node);
buffer::Storage* storage_at(uop::Node buffer_node);

// Where new tensors live, and what reads no memory is computed.
int32_t default_device(const Engine& engine);
// The device that a node is on, or that it will be computed on; 0 where any will do.
Status known_device(int32_t* out, Engine& engine, uop::Node node);
// A constant of a strong dtype in new storage on a device.
Status fill_buffer(uop::Node* out, Engine& engine, int32_t device, uop::Node constant);

// x without a weak dtype: the default in its place, or what was cast to the weak one. Null: null.
uop::Node strong(uop::Graph& g, uop::Node x);

// Computes what the cells name, and turns each into a Buffer; views of storage stay what they are
// once the writes that they wait for are done. Weak dtypes of the cells become strong for good. The
// one place where work happens.
Status realize(Engine& engine, std::span<Lazy* const> cells);
// The same of one cell, if it is a small expression that only this cell names, whose kernels are at
// hand, or with make are compiled now; else *done is false, and nothing has happened.
Status realize_ready(bool* done, Engine& engine, Lazy& cell, bool make);
// realize; a view that is not row-major becomes a Buffer too, on memory of its own.
Status realize_stored(Engine& engine, std::span<Lazy* const> cells);

// cell = value written into cell's storage when realised (dtype and shape equal). Every live cell
// that views that storage sees the write.
Status assign(Engine& engine, Lazy& target, uop::Node value);
// Where other families lie in the storage of target, because they computed the same: copies that
// for the family of target, which is about to be written. whole: all of it, so that nothing is
// copied.
Status have_own_storage(Engine& engine, Lazy& target, bool whole);
// Undoes assign where it is still pending: what sees `written` sees `before` again.
void take_back(Engine& engine, uop::Node written, uop::Node before);
// Realises what live cells compute from the storage of target, so that a write to it does not
// change them; except may be what is written.
Status realize_readers(Engine& engine, const Lazy& target, uop::Node except);

}  // namespace aster::engine
