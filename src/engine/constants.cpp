#include "engine/constants.h"

#include <algorithm>
#include <cstring>

#include "engine/recording.h"
#include "runtime/reference/evaluate.h"

namespace aster::engine {

using buffer::Region;
using buffer::Storage;
using uop::Node;

Status find_constants(Vec<uint64_t>* out, const Engine& engine, const Leaves& leaves) {
  const Recording* const r = engine.recording;
  if (r == nullptr || !r->constant) return kOk;
  const auto is_made = [&](const Storage* storage) {
    return std::ranges::find(r->outputs, storage) != r->outputs.end() ||
           std::ranges::find(r->made, storage, &Made::storage) != r->made.end() ||
           std::ranges::find(r->drawn, storage, &Drawn::keys) != r->drawn.end() ||
           std::ranges::find(r->state, storage) != r->state.end() ||
           engine.symbols.with_cell(storage) != Symbols::kNone;
  };
  for (size_t i = 0; i < leaves.buffers.size(); ++i) {
    const Node leaf = leaves.buffers[i];
    const Storage* const storage = storage_of(leaf);
    if (i % 64 == 0) ASTER_TRY(out->push(uint64_t{0}));
    const Region region = region_of(leaves.wholes[i]);
    const bool input = std::ranges::any_of(r->inputs, [&](const Array& given) {
      return region.overlaps(buffer::region_of(*given.storage));
    });
    if (!input && !storage->internal && !is_made(storage)) out->back() |= uint64_t{1} << i % 64;
  }
  return kOk;
}

uint64_t constant_slots(const Executable& exe, const Schedule& schedule, Node kernel) {
  uint64_t out = exe.constants.empty() ? 0 : UINT64_MAX;
  for (const Item& item : schedule.items) {
    if (out == 0 || item.kernel != kernel) continue;
    for (uint32_t o = 0; o < 64; ++o) {
      const bool leaf = o < item.operand_count && schedule.slot(item, o).kind == SlotKind::kParam;
      const uint32_t index = leaf ? schedule.slot(item, o).index : 0;
      if (!leaf || (exe.constants[index / 64] >> index % 64 & 1) == 0) out &= ~(uint64_t{1} << o);
    }
  }
  return out;
}

Status add_copies(Executable* exe, Heap& heap, const Schedule& schedule, const Item& item,
                  const codegen::Constants& constants) {
  const size_t own = exe->operands.size() - item.operand_count;  // the kernel's params
  for (const codegen::ConstantCopy& copy : constants.copies) {
    ASTER_TRY(exe->plans.reserve(exe->plans.size() + 1));
    native::Plan* const plan = heap.create<native::Plan>(heap);
    if (plan == nullptr) return out_of_memory(sizeof(native::Plan));
    ASTER_TRY(exe->plans.push(plan));
    ASTER_TRY(runtime::reference::prepare_program(plan, copy.program));
    const Slot slot{SlotKind::kCopy,
                    copy.dtype,
                    static_cast<uint32_t>(exe->copies.size()),
                    copy.elements,
                    0,
                    0,
                    0};
    CopyOf made{plan, schedule.slot(item, static_cast<size_t>(copy.source)).index, slot.bytes(),
                copy.program.programs.back().digest()};
    if (copy.alone) {
      exe->operands[own + static_cast<size_t>(copy.source)] =
          static_cast<uint32_t>(exe->slots.size());
      ASTER_TRY(exe->slots.push(Slot{SlotKind::kAbsent, copy.dtype, 0, 0, 0, 0, 0}));
    }
    ASTER_TRY(exe->operands.push(static_cast<uint32_t>(exe->slots.size())));
    ASTER_TRY(exe->slots.push(slot));
    ASTER_TRY(exe->copies.push(made));
  }
  return kOk;
}

namespace {

Status make_copy(Storage** out, Engine& engine, const CopyOf& copy, void* address) {
  Heap& heap = engine.context.heap();
  Vec<char> scratch(heap);
  ASTER_TRY(scratch.resize(static_cast<size_t>(copy.plan->scratch_bytes), char{}));
  const auto bytes = static_cast<size_t>(copy.bytes);
  ASTER_TRY(buffer::storage_create(out, engine.context, bytes, device::kCpu));
  std::memset((*out)->data, 0, bytes);  // what lies beyond the last elements
  void* const operands[] = {address, (*out)->data};
  copy.plan->implementation->run(*copy.plan, operands, scratch.data(), 0, 1);
  return kOk;
}

}  // namespace

Status make_copies(Vec<Storage*>* out, Engine& engine, const Executable& exe,
                   std::span<const Given> params, const Leaves& leaves) {
  for (const CopyOf& copy : exe.copies) {
    void* const address = params[copy.leaf].address();
    Storage* const source = storage_of(leaves.buffers[copy.leaf]);
    const auto same = [&](const KeptCopy& kept) {
      return kept.source == source && kept.address == address && kept.way == copy.way;
    };
    const KeptCopy* found = std::ranges::find_if(engine.copies, same);
    if (found == engine.copies.end()) {
      ASTER_TRY(engine.copies.reserve(engine.copies.size() + 1));
      KeptCopy kept{source, address, copy.way, nullptr};
      ASTER_TRY(make_copy(&kept.copy, engine, copy, address));
      buffer::storage_retain(source);
      ASTER_TRY(engine.copies.push(kept));
      found = &engine.copies.back();
    }
    ASTER_TRY(out->push(found->copy));
  }
  return kOk;
}

void forget_copies(Engine& engine) {
  size_t kept = 0;
  for (const KeptCopy& one : engine.copies) {
    if (one.copy->references.load(std::memory_order_acquire) > 1) {
      engine.copies[kept++] = one;
    } else {
      buffer::storage_release(one.copy);
      buffer::storage_release(one.source);
    }
  }
  engine.copies.truncate(kept);
}

}  // namespace aster::engine
