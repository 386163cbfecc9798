#include "engine/bring.h"

#include <cstdio>

#include "device/device.h"
#include "engine/indexing.h"

namespace aster::engine {
namespace {

using buffer::Storage;
using uop::Node;
using uop::Op;

Status bring_piece(Node* out, Engine& e, Node piece, Node buffer, int64_t offset, int32_t device) {
  Storage* from = storage_of(buffer);
  char why[160];
  std::snprintf(why, sizeof(why), "an operand lies on %s, the first one on %s",
                device::name(from->device).text, device::name(device).text);
  if (e.recording != nullptr)
    return ASTER_FAIL(kDEVICE, "in a capture %s: move it with aster_ml_lazy_to", why);
  const size_t bytes = static_cast<size_t>(piece->count()) * dtype::size(piece->dtype);
  ASTER_TRY(e.context.may_copy(bytes, why));
  Storage* storage;
  ASTER_TRY(buffer::storage_create(&storage, e.context, bytes, device));
  const auto first = static_cast<size_t>(buffer->arg(2) + offset);
  Status status =
      buffer::copy({storage->data, 0, storage->device}, {from->data, first, from->device}, bytes);
  if (status.ok()) {
    *out = buffer_node(e, storage, 0, piece->dtype, piece->shape());
    status = need(*out);
  }
  buffer::storage_release(storage);
  return status;
}

}  // namespace

Status bring(Map<Node, Node>* map, Engine& engine, uop::Nodes roots, int32_t device) {
  Heap& heap = engine.context.heap();
  Vec<Node> open(heap);
  Map<Node, uint8_t> seen(heap);
  for (Node root : roots) ASTER_TRY(open.push(root));
  while (!open.empty()) {
    const Node at = open.back();
    open.pop();
    if (at->count() == 0 || seen.contains(at)) continue;
    ASTER_TRY(seen.set(at, 1));
    const Node below = buffer_below(at);
    Node buffer = nullptr;
    int64_t offset = 0;
    if (below != nullptr && below->arg(1) != 0 && below->arg(1) != device)
      ASTER_TRY(as_storage(&buffer, &offset, engine.graph, at));
    if (buffer != nullptr) {
      Node there = nullptr;
      ASTER_TRY(bring_piece(&there, engine, at, buffer, offset, device));
      ASTER_TRY(map->set(at, there));
      continue;
    }
    for (Node source : at->src()) ASTER_TRY(open.push(source));
  }
  return kOk;
}

}  // namespace aster::engine
