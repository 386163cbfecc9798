#include "engine/recording.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>

#include "device/device.h"

namespace aster::engine {

using buffer::Storage;
using uop::Node;

void draw_keys(uint64_t* keys, Storage* state, uint64_t words) {
  RandomState& now = *static_cast<RandomState*>(state->data);
  const uint64_t key = std::atomic_ref(now.key).load();
  const uint64_t first = std::atomic_ref(now.counter).fetch_add(words);
  for (uint64_t done = 0; done < words; done += kRandomChunk) {
    const uop::Word operands[] = {std::bit_cast<uop::Word>(first + done),
                                  std::bit_cast<uop::Word>(key)};
    *keys++ = std::bit_cast<uint64_t>(
        uop::evaluate(uop::Op::kThreefry, DType::kUInt64, DType::kUInt64, operands));
  }
}

bool is_away(int32_t device) {
  const aster_ml_backend* backend = nullptr;
  const SavedError before;
  if (!device::backend(&backend, device).ok()) before.restore();
  return backend != nullptr && (backend->build != nullptr || backend->execute_program != nullptr ||
                                backend->host_visible == 0);
}

Status take_array(Array* out, Vec<int64_t>* dims, Node buffer) {
  *out = {storage_at(buffer), buffer->arg(2),
          buffer->dtype,      static_cast<uint32_t>(dims->size()),
          buffer->ndim,       is_away(storage_at(buffer)->device)};
  return dims->append(buffer->shape().data(), buffer->ndim);
}

void drop_recording(Engine& engine) {
  Recording* recording = engine.recording;
  if (recording == nullptr) return;
  engine.recording = nullptr;
  for (Entry& entry : recording->entries) entry.exe->release();
  for (Storage* storage : recording->kept) buffer::storage_release(storage);
  for (const Assumption& each : recording->assumed) {
    engine.graph.release(each.a);
    engine.graph.release(each.b);
  }
  for (Node size : recording->sizes) engine.graph.release(size);
  engine.context.heap().destroy(recording);
  forget_copies(engine);
}

Status draw_random(Node* keys, Engine& engine, Storage* state, int32_t device, uint64_t words) {
  Recording* r = engine.recording;
  const uint64_t count = (words + kRandomChunk - 1) / kRandomChunk;
  if (r != nullptr) {
    ASTER_TRY(r->kept.reserve(r->kept.size() + 2));
    ASTER_TRY(r->drawn.reserve(r->drawn.size() + 1));
  }
  const bool away = is_away(device) && !device::same_type(device, device::kNull);
  const size_t bytes = count * sizeof(uint64_t);
  Storage *storage = nullptr, *drawn = nullptr;
  ASTER_TRY(buffer::storage_create(&storage, engine.context, bytes, away ? device : state->device));
  Status filled = kOk;
  if (away) filled = buffer::storage_create(&drawn, engine.context, bytes, state->device);
  if (filled.ok()) draw_keys(static_cast<uint64_t*>((away ? drawn : storage)->data), state, words);
  if (filled.ok() && away)
    filled = buffer::copy({storage->data, 0, device}, {drawn->data, 0, state->device}, bytes);
  buffer::storage_release(drawn);
  if (!filled.ok()) {
    buffer::storage_release(storage);
    return filled;
  }
  *keys = buffer_node_on(engine, storage, device, 0, DType::kUInt64,
                         std::array<uop::Word, 1>{static_cast<uop::Word>(count)});
  if (*keys != nullptr) {
    if (r != nullptr) {
      buffer::storage_retain(state);
      buffer::storage_retain(storage);
      ASTER_TRY(r->kept.push(state));
      ASTER_TRY(r->kept.push(storage));
      ASTER_TRY(r->drawn.push(Drawn{state, storage, words, 0, 0}));
    }
  }
  buffer::storage_release(storage);
  return *keys == nullptr ? last_failure() : kOk;
}

Status note_seen(Engine& engine, uint32_t symbol) {
  Vec<uint32_t>& seen = engine.recording->seen;
  const bool there = std::ranges::find(seen, symbol) != seen.end();
  return there ? kOk : seen.push(symbol);
}

size_t count_seen(const Engine& engine) { return engine.recording->seen.size(); }

void forget_seen(Engine& engine, size_t count) { engine.recording->seen.truncate(count); }

Status assume_le(Engine& engine, Node a, Node b) {
  if (engine.recording == nullptr) {
    ASTER_TRY(engine.symbols.assume(a));
    return engine.symbols.assume(b);
  }
  Vec<Assumption>& assumed = engine.recording->assumed;
  for (const Assumption& each : assumed) {
    if (each.a == a && each.b == b) return kOk;
  }
  ASTER_TRY(assumed.push(Assumption{a, b}));
  engine.graph.retain(a);
  engine.graph.retain(b);
  return kOk;
}

Status note_sizes(Engine& engine, uop::Nodes sizes) {
  Recording& r = *engine.recording;
  if (sizes.empty()) return r.first_size.push(Recording::kNone);
  ASTER_TRY(r.sizes.reserve(r.sizes.size() + sizes.size()));
  ASTER_TRY(r.first_size.push(static_cast<uint32_t>(r.sizes.size())));
  for (Node size : sizes) {
    ASTER_TRY(r.sizes.push(size));
    engine.graph.retain(size);
  }
  return kOk;
}

Status look_at_earlier(const Lazy& lazy) {
  Engine& engine = *lazy.engine;
  const Recording* r = engine.recording;
  const bool earlier = r != nullptr && lazy.family != 0 && lazy.family <= r->families;
  if (!earlier || lazy.node->op == uop::Op::kBuffer || !engine.symbols.has_cells()) return kOk;
  Vec<Node> nodes(engine.context.heap());
  ASTER_TRY(uop::toposort(&nodes, {&lazy.node, 1}));
  for (Node node : nodes) {
    if (node->op != uop::Op::kBuffer) continue;
    const uint32_t symbol = engine.symbols.with_cell(storage_at(node));
    if (symbol != Symbols::kNone && engine.symbols[symbol].assumed)
      ASTER_TRY(note_seen(engine, symbol));
  }
  return kOk;
}

Status note_made(Engine& engine, Storage* storage) {
  Recording& r = *engine.recording;
  if (storage->bytes == 0) return kOk;
  ASTER_TRY(r.kept.reserve(r.kept.size() + 2));
  ASTER_TRY(r.made.reserve(r.made.size() + 1));
  Storage* first = nullptr;
  ASTER_TRY(buffer::storage_create(&first, engine.context, storage->bytes, storage->device));
  buffer::storage_retain(storage);
  ASTER_TRY(r.kept.push(storage));
  ASTER_TRY(r.kept.push(first));
  ASTER_TRY(buffer::copy({first->data, 0, first->device}, {storage->data, 0, storage->device},
                         storage->bytes));
  return r.made.push(Made{storage, first});
}

Status record(Recording& r, Executable& exe, const Leaves& leaves,
              std::span<Storage* const> outputs, std::span<Storage* const> copies) {
  const auto keep = [&](Storage* storage) -> Status {
    if (storage == nullptr) return kOk;
    ASTER_TRY(r.kept.push(storage));
    buffer::storage_retain(storage);
    return kOk;
  };
  const Vec<Node>& buffers = leaves.buffers;
  Entry entry{&exe,
              static_cast<uint32_t>(r.params.size()),
              static_cast<uint32_t>(buffers.size()),
              static_cast<uint32_t>(r.outputs.size()),
              static_cast<uint32_t>(outputs.size()),
              static_cast<uint32_t>(r.copies.size())};
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Node leaf = buffers[i];
    ASTER_TRY(keep(storage_at(leaf)));
    const size_t bytes = static_cast<size_t>(leaf->count()) * dtype::size(leaf->dtype);
    const Node whole = leaves.wholes[i];
    Array array;
    ASTER_TRY(take_array(&array, &r.dims, whole));
    ASTER_TRY(r.params.push(
        Recording::Ref{storage_at(leaf), leaf->arg(2), bytes, region_of(whole), array}));
  }
  for (Storage* storage : outputs) {
    ASTER_TRY(keep(storage));
    ASTER_TRY(r.outputs.push(storage));
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    const Recording::Ref& of = r.params[entry.first_param + exe.copies[i].leaf];
    ASTER_TRY(keep(copies[i]));
    ASTER_TRY(r.copies.push(copies[i]));
    ASTER_TRY(
        r.copied.push(buffer::region_of(*of.storage, static_cast<size_t>(of.offset), of.bytes)));
  }
  ASTER_TRY(r.entries.push(entry));
  exe.retain();
  return kOk;
}

}  // namespace aster::engine
