#include "engine/engine.h"
#include "engine/graph_arena.h"
#include "engine/kept_copies.h"
#include "engine/tracer.h"

#include "base/pool.h"
#include "device/device.h"
#include "dtype/convert.h"
#include "engine/indexing.h"
#include "engine/rangeify.h"
#include "flt/convert.h"
#include "uop/context_graph.h"
#include "uop/expr.h"
#include "uop/symbolic.h"

namespace aster::engine {
namespace {

using buffer::Storage;
using uop::Graph;
using uop::Node;
using uop::Op;
using uop::Word;

// The list of the cells of a node.
void join_node(Lazy& lazy, Node node) {
  auto** first = reinterpret_cast<Lazy**>(&node->handles);
  lazy.beside = *first;
  lazy.beside_link = first;
  if (lazy.beside != nullptr) lazy.beside->beside_link = &lazy.beside;
  *first = &lazy;
}
void leave_node(Lazy& lazy) {
  *lazy.beside_link = lazy.beside;
  if (lazy.beside != nullptr) lazy.beside->beside_link = lazy.beside_link;
}

// No tensor is left.
void let_go(Engine& engine) {
  if (engine.recording == nullptr) engine.symbols.drop_cells();
  engine.graph.collect();
}

void destroy_lazy(HandleObject* object) {
  Lazy* lazy = static_cast<Lazy*>(object);
  Engine& engine = *lazy->engine;
  want_gradient(*lazy, false);
  set_gradient(*lazy, nullptr);
  if (lazy->sized != nullptr) drop_sizes(*lazy);
  leave_node(*lazy);
  leave_arena(*lazy);
  --engine.cells;
  engine.graph.release(lazy->node);
  engine.context.heap().release(lazy->lent, lazy->lent_count * sizeof(ptrdiff_t),
                                alignof(ptrdiff_t));
  // With the last handle nothing is left to collect for later: memory goes back at once.
  if (engine.cells == 0) let_go(engine);
  engine.context.heap().destroy(lazy);
}

void release_buffer(void*, Node node) { buffer::storage_release(storage_at(node)); }

}  // namespace

bool is_transfer(Node node) { return node->op == Op::kContiguous && !node->arg().empty(); }

bool one_piece(Node* buffer, int64_t* first, Node view) {
  *first = 0;
  for (; view->op != Op::kBuffer; view = view->src(0)) {
    if (view->op == Op::kReshape) continue;
    if (view->op != Op::kSlice) return false;
    const Node x = view->src(0);
    int64_t stride = 1;
    bool cut = false;  // an axis behind this one
    for (size_t i = view->ndim; i-- > 0; stride *= x->dim(i)) {
      if (view->dim(i) > 1 && (cut || view->arg(2 * i + 1) != 1)) return false;
      cut |= view->dim(i) != x->dim(i);
      *first += view->arg(2 * i) * stride;
    }
  }
  *buffer = view;
  return true;
}

Status as_storage(Node* buffer, int64_t* offset, Graph& g, Node view) {
  namespace sym = uop::sym;
  *buffer = view->op == Op::kBuffer ? view : nullptr;
  *offset = 0;
  if (*buffer != nullptr || view->count() == 0) return kOk;
  if (one_piece(buffer, offset, view)) {
    *offset *= static_cast<int64_t>(dtype::size(view->dtype));
    return kOk;
  }
  *offset = 0;
  Vec<Node> ranges(g.memory()), index(g.memory());
  ASTER_TRY(ranges_of(&ranges, g, view));
  ASTER_TRY(index.append(ranges.data(), ranges.size()));
  Node node = view;
  for (; node->op != Op::kBuffer; node = node->src(0)) {
    const bool strides =
        node->op == Op::kReshape || node->op == Op::kSlice || node->op == Op::kPermute;
    if (!strides || node->count() == 0) return kOk;
    ASTER_TRY(step_down(&index, g, node));
  }
  Node position = linear_index(g, node->shape(), {index.data(), index.size()});
  Node plain = linear_index(g, view->shape(), {ranges.data(), ranges.size()});
  sym::Linear difference;
  ASTER_TRY(need(position));
  ASTER_TRY(need(plain));
  if (!difference.add(position, 1) || !difference.add(plain, -1) || difference.size() != 0)
    return kOk;
  *buffer = node;
  *offset = difference.constant * static_cast<int64_t>(dtype::size(view->dtype));
  return kOk;
}

Status as_strided(Node* buffer, Vec<int64_t>* words, Graph& g, Node view) {
  Vec<Node> ranges(g.memory()), index(g.memory());
  words->clear();
  *buffer = memory_below(view);
  if (*buffer == nullptr) return kOk;
  if (view->count() == 0) return words->resize(1 + view->ndim, 0);
  ASTER_TRY(ranges_of(&ranges, g, view));
  ASTER_TRY(index.append(ranges.data(), ranges.size()));
  for (; view != *buffer; view = view->src(0)) ASTER_TRY(step_down(&index, g, view));
  const Node position = linear_index(g, view->shape(), {index.data(), index.size()});
  if (!linear_in(words, position, {ranges.data(), ranges.size()})) *buffer = nullptr;
  return kOk;
}

Engine::Engine(Context& owner, Graph& nodes)
    : context(owner),
      graph(nodes),
      plans(owner.heap()),
      arenas(owner.heap()),
      queues(owner.heap()),
      refused(owner.heap()),
      ready(owner.heap()),
      symbols(*this, owner.heap()),
      tuned(owner.heap()),
      kept_values(owner.heap()),
      copies(owner.heap()),
      threads(pool::threads_of(owner)),
      device(device::kCpu),
      cuts(owner.heap()),
      size_classes_(owner.heap()),
      said_reasons_(owner.heap()) {
  graph.set_buffer_hook(release_buffer, nullptr);
}

Engine::~Engine() {
  Tracer::end(*this);
  drop_recording(*this);
  if (last != nullptr) last->release();
  buffer::storage_release(arena);
  for (const auto& entry : arenas) buffer::storage_release(entry.value);
}

Status Engine::create(Engine** out, Context& context) {
  Graph* graph = nullptr;
  ASTER_TRY(uop::graph_of_context(&graph, context));
  *out = context.heap().create<Engine>(context, *graph);
  return *out != nullptr ? kOk : out_of_memory(sizeof(Engine));
}

Status Engine::arena_for(char** out, int64_t bytes) {
  if (arena == nullptr || arena->bytes < static_cast<size_t>(bytes)) {
    buffer::storage_release(arena);
    arena = nullptr;
    const size_t whole = buffer::whole_pages(static_cast<size_t>(bytes));
    ASTER_TRY(buffer::storage_create(&arena, context, whole, device::kCpu));
    buffer::storage_make_internal(arena);
  }
  *out = static_cast<char*>(arena->data);
  return kOk;
}

Status Engine::arena_on(void** out, int32_t on, int64_t bytes) {
  buffer::Storage* storage = arenas.get(on, nullptr);
  *out = nullptr;
  if (bytes == 0) return kOk;
  if (storage == nullptr || storage->bytes < static_cast<size_t>(bytes)) {
    buffer::storage_release(storage);
    ASTER_TRY(arenas.set(on, nullptr));
    ASTER_TRY(buffer::storage_create(&storage, context, static_cast<size_t>(bytes), on));
    buffer::storage_make_internal(storage);
    ASTER_TRY(arenas.set(on, storage));
  }
  *out = storage->data;
  return kOk;
}

Status engine_of(Engine** out, Context& context) {
  if (void* state = context.state(Module::kEngine)) {
    *out = static_cast<Engine*>(state);
    return kOk;
  }
  ASTER_TRY(Engine::create(out, context));
  if (const Status begun = Tracer::from_environment(**out); !begun.ok()) {
    context.heap().destroy(*out);
    return begun;
  }
  context.set_state(Module::kEngine, *out, [](Context& owner, void* state) {
    owner.heap().destroy(static_cast<Engine*>(state));
  });
  return kOk;
}

Graph& graph_of(Engine& engine) { return engine.graph; }
Symbols& symbols_of(Engine& engine) { return engine.symbols; }

Status lazy_create(Lazy** out, Engine& engine, Node node, const Lazy* from) {
  ASTER_TRY(need(node));
  Lazy* lazy = engine.context.heap().create<Lazy>();
  if (lazy == nullptr) return out_of_memory(sizeof(Lazy));
  const Status status = handle_init(lazy, engine.context, destroy_lazy);
  if (!status.ok()) {
    engine.context.heap().destroy(lazy);
    return status;
  }
  lazy->engine = &engine;
  lazy->node = lazy->shown = node;
  if (from != nullptr && below_views(from->node) == below_views(node)) {
    lazy->family = from->family;
  } else {
    lazy->family = buffer_below(node) != nullptr ? 0 : ++engine.families;
  }
  engine.graph.retain(node);
  join_node(*lazy, node);
  if (engine.living_arenas != 0) join_open_arena(*lazy);
  ++engine.cells;
  *out = lazy;
  return kOk;
}

void set_node(Lazy& lazy, Node node) {
  lazy.engine->graph.retain(node);
  leave_node(lazy);
  lazy.engine->graph.release(lazy.node);
  lazy.node = lazy.shown = node;
  join_node(lazy, node);
  if (lazy.arena != nullptr) note_change(*lazy.arena);
}

void want_gradient(Lazy& lazy, bool wanted) {
  if (wanted == (lazy.wanting_link != nullptr)) return;
  Lazy*& first = lazy.engine->wanting;
  if (wanted) {
    lazy.wanting = first;
    if (first != nullptr) first->wanting_link = &lazy.wanting;
    first = &lazy;
    lazy.wanting_link = &first;
    return;
  }
  *lazy.wanting_link = lazy.wanting;
  if (lazy.wanting != nullptr) lazy.wanting->wanting_link = lazy.wanting_link;
  lazy.wanting = nullptr;
  lazy.wanting_link = nullptr;
}

void set_gradient(Lazy& lazy, Lazy* gradient) {
  if (Lazy* before = std::exchange(lazy.gradient, gradient)) free_handle(before);
}

Lazy* first_wanting(const Engine& engine) { return engine.wanting; }

Status set_sizes(Lazy& lazy, Lazy* whole, uop::Nodes sizes) {
  scope_remove(whole);
  Heap& heap = lazy.engine->context.heap();
  Sized* sized = heap.create<Sized>();
  Node* list = sized == nullptr ? nullptr : heap.array<Node>(sizes.size());
  if (list == nullptr) {
    if (sized != nullptr) heap.destroy(sized);
    free_handle(whole);
    return out_of_memory(sizes.size() * sizeof(Node));
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    list[i] = sizes[i];
    lazy.engine->graph.retain(sizes[i]);
  }
  *sized = {whole, list, sizes.size()};
  lazy.sized = sized;
  leave_arena(lazy);  // which has the whole
  return kOk;
}

void drop_sizes(Lazy& lazy) {
  Sized* sized = std::exchange(lazy.sized, nullptr);
  if (sized == nullptr) return;
  for (size_t i = 0; i < sized->ndim; ++i) lazy.engine->graph.release(sized->sizes[i]);
  Heap& heap = lazy.engine->context.heap();
  heap.release(sized->sizes, sized->ndim * sizeof(Node), alignof(Node));
  Lazy* whole = sized->whole;
  heap.destroy(sized);
  free_handle(whole);
}

Status show_present(Lazy& lazy) {
  const size_t ndim = lazy.sized->ndim;
  uop::Dims size, begin(ndim, 0), step(ndim, 1);
  for (size_t i = 0; i < ndim; ++i) {
    int64_t now = 0;
    ASTER_TRY(lazy.engine->symbols.value_of(&now, lazy.sized->sizes[i]));
    size.push(now);
  }
  const Node present = lazy.engine->graph.slice(lazy.sized->whole->node, begin, step, size);
  if (present == nullptr) return last_failure();
  set_node(lazy, present);
  return kOk;
}

Status change_sizes(Lazy& lazy, uop::Nodes sizes) {
  for (size_t i = 0; i < lazy.sized->ndim; ++i) {
    lazy.engine->graph.retain(sizes[i]);
    lazy.engine->graph.release(std::exchange(lazy.sized->sizes[i], sizes[i]));
  }
  return show_present(lazy);
}

Status look_at(Engine& engine, Node expression) {
  if (engine.recording == nullptr) return kOk;
  return engine.symbols.each(expression, [&](uint32_t at) { return note_seen(engine, at); });
}

Status look_at_sizes(const Lazy& lazy) {
  if (lazy.sized == nullptr || lazy.engine->recording == nullptr) return kOk;
  for (size_t i = 0; i < lazy.sized->ndim; ++i)
    ASTER_TRY(look_at(*lazy.engine, lazy.sized->sizes[i]));
  return kOk;
}

Node buffer_node_on(Engine& engine, Storage* storage, int32_t device, int64_t byte_offset,
                    DType dtype, uop::Words shape) {
  const uint64_t before = engine.graph.nodes_made();
  Node node =
      engine.graph.make(Op::kBuffer, dtype, {},
                        std::array<Word, 3>{static_cast<Word>(reinterpret_cast<intptr_t>(storage)),
                                            device, byte_offset},
                        shape);
  if (node != nullptr && engine.graph.nodes_made() != before) buffer::storage_retain(storage);
  return node;
}

Node buffer_node(Engine& engine, Storage* storage, int64_t byte_offset, DType dtype,
                 uop::Words shape) {
  return buffer_node_on(engine, storage, storage->device, byte_offset, dtype, shape);
}

Status reinterpret(Node* out, Engine& engine, Node x, DType dtype, uop::Words shape) {
  Node buffer = nullptr;
  int64_t offset = 0;
  *out = nullptr;
  if (dtype == DType::kBool) return kOk;
  ASTER_TRY(as_storage(&buffer, &offset, engine.graph, x));
  if (buffer == nullptr) return kOk;
  Storage* storage = storage_at(buffer);
  offset += buffer->arg(2);
  const auto first = static_cast<uintptr_t>(offset) + reinterpret_cast<uintptr_t>(storage->data);
  if (first % dtype::size(dtype) != 0) return kOk;
  *out =
      buffer_node_on(engine, storage, static_cast<int32_t>(buffer->arg(1)), offset, dtype, shape);
  return need(*out);
}

Storage* storage_at(Node node) {
  return reinterpret_cast<Storage*>(static_cast<intptr_t>(node->arg(0)));
}

Storage* storage_of(Node node) {
  Storage* const storage = storage_at(node);
  bring_late(*storage);
  return storage;
}

int32_t default_device(const Engine& engine) { return engine.device; }

Status known_device(int32_t* out, Engine& engine, Node node) {
  Heap& heap = engine.context.heap();
  Vec<Node> open(heap);
  Map<Node, uint8_t> seen(heap);
  *out = 0;
  ASTER_TRY(open.push(node));
  while (!open.empty()) {
    const Node at = open.back();
    open.pop();
    const bool moved = is_transfer(at);
    const bool memory = at->op == Op::kBuffer;
    if (moved || (memory && at->arg(1) != 0)) {
      *out = static_cast<int32_t>(at->arg(moved ? 0 : 1));
      if (at->count() != 0) return kOk;
    }
    if (moved || seen.contains(at)) continue;
    ASTER_TRY(seen.set(at, 1));
    for (size_t i = at->nsrc; i-- > 0;) ASTER_TRY(open.push(at->src(i)));
  }
  return kOk;
}

Status fill_buffer(Node* out, Engine& engine, int32_t device, Node constant) {
  ASTER_TRY(need(constant));
  const DType dtype = constant->dtype;
  const size_t size = dtype::size(dtype), bytes = static_cast<size_t>(constant->count()) * size;
  Storage *storage = nullptr, *host = nullptr;
  ASTER_TRY(buffer::storage_create(&storage, engine.context, bytes, device));
  const bool nothing = device::same_type(device, device::kNull);
  const bool away = !nothing && !device::is_host(device);
  Status status =
      away ? buffer::storage_create(&host, engine.context, bytes, device::kCpu) : Status();
  if (status.ok() && !nothing) {
    uint64_t element[8] = {};
    if (dtype::is_wide(dtype)) {
      flt::from_number(element, dtype, uop::const_double(constant));
    } else if (dtype::is_float(dtype)) {
      dtype::store_double(dtype, element, uop::const_double(constant));
    } else {
      dtype::store_int(dtype, element, uop::const_int(constant));
    }
    char* data = static_cast<char*>(away ? host->data : storage->data);
    for (size_t i = 0; i < bytes; i += size) std::memcpy(data + i, element, size);
    if (away) status = buffer::copy({storage->data, 0, device}, {data, 0, buffer::kHost}, bytes);
  }
  *out = status.ok() ? buffer_node(engine, storage, 0, dtype, constant->shape()) : nullptr;
  buffer::storage_release(host);
  buffer::storage_release(storage);
  return status.ok() ? need(*out) : status;
}

}  // namespace aster::engine
