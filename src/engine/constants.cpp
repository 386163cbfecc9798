#include "engine/constants.h"

#include <algorithm>
#include <cstring>

#include "base/pool.h"
#include "device/device.h"
#include "engine/kept_copies.h"
#include "engine/kernels.h"
#include "engine/recording.h"
#include "runtime/reference/evaluate.h"
#include "runtime/tiers.h"

namespace aster::engine {

using buffer::Region;
using buffer::Storage;
using runtime::cpu::Cache;
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
    const Storage* const storage = storage_at(leaf);
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

namespace {

Status new_plan(CopyOf* copy, Executable* exe, Heap& heap) {
  ASTER_TRY(exe->plans.reserve(exe->plans.size() + 1));
  copy->plan = heap.create<native::Plan>(heap);
  if (copy->plan == nullptr) return out_of_memory(sizeof(native::Plan));
  return exe->plans.push(copy->plan);
}

// By machine code; by strips until that is there; or where a compiler refused it, by its program.
Status find_way(CopyOf* copy, Executable* exe, Engine& engine, const codegen::Rendered& code,
                const runtime::Request& request) {
  const auto& program = code.module.programs.back();
  copy->way = program.digest();
  copy->scratch_bytes = code.code.scratch_bytes;
  if (request.function != nullptr) {
    copy->function = function_at<runtime::KernelFunction>(request.function);
    return kOk;
  }
  if (request.at_once != nullptr) {
    copy->function = function_at<runtime::KernelFunction>(request.at_once);
    return kOk;
  }
  ASTER_TRY(new_plan(copy, exe, engine.context.heap()));
  const SavedError before;
  const Status begun = request.later == nullptr
                           ? ASTER_FAIL(kUNSUPPORTED, "a copy without machine code")
                           : runtime::begin(copy->plan, request);
  if (begun.code == ASTER_ML_UNSUPPORTED) {
    before.restore();
    ASTER_TRY(runtime::reference::prepare_program(copy->plan, code.module));
  } else {
    ASTER_TRY(begun);
  }
  copy->scratch_bytes = copy->plan->scratch_bytes;
  return kOk;
}

}  // namespace

Status add_copies(Executable* exe, Engine& engine, const Schedule& schedule, const Item& item,
                  const Kernels& kernels, const codegen::Constants& constants) {
  const size_t own = exe->operands.size() - item.operand_count;  // the kernel's params
  for (const codegen::ConstantCopy& copy : constants.copies) {
    const uint32_t number = kernels.number_of(copy);
    const Slot slot{SlotKind::kCopy,
                    copy.dtype,
                    static_cast<uint32_t>(exe->copies.size()),
                    copy.elements,
                    0,
                    0,
                    0};
    CopyOf made;
    const bool here = number < kernels.rendered.size();
    const codegen::Rendered& code = here ? kernels.rendered[number] : copy.code;
    ASTER_TRY(find_way(&made, exe, engine, code,
                       here ? kernels.requests[number] : runtime::Request{&code, 2}));
    made.leaf = schedule.slot(item, static_cast<size_t>(copy.source)).index;
    made.padded = copy.padded;
    made.bytes = slot.bytes();
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

// Copies that are not there yet: found on disk, or made, by several threads.
class Making {
 public:
  explicit Making(Engine& engine)
      : engine_(engine), made_(engine.context.heap()), scratch_(engine.context.heap()) {}
  ~Making() {
    for (const One& one : made_) {
      if (one.kept.copy != nullptr) {
        buffer::storage_release(one.kept.copy);
      } else if (one.disk.found.data != nullptr) {
        Cache::unmap(one.disk.found.data, one.disk.bytes);
      }
    }
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

  bool has(const KeptCopy& kept) const {
    return std::ranges::any_of(made_, [&](const One& one) { return alike(one.kept, kept); });
  }
  // source: bytes of the leaf.
  Status add(const KeptCopy& kept, const CopyOf& copy, size_t source) {
    One one{kept, &copy, 0, {}};
    one.disk.bytes = static_cast<size_t>(copy.bytes);
    one.disk.way = copy.way;
    one.disk.of = {bytes_at(*kept.source, kept.address), source};
    ASTER_TRY(cache_of_copies(&one.disk.cache, *kept.source, one.disk.bytes));
    return made_.push(one);
  }
  // The engine holds them from then on.
  Status run() {
    if (made_.empty()) return kOk;
    const auto count = static_cast<int64_t>(made_.size());
    pool::run(engine_.threads, count, find, this);
    for (One& one : made_) ASTER_TRY(give_memory(one));
    ASTER_TRY(scratch_.resize(scratch_bytes_ + 64, char{}));
    ASTER_TRY(engine_.copies.reserve(engine_.copies.size() + made_.size()));
    pool::run(engine_.threads, count, make, this);
    for (const One& one : made_) {
      if (one.disk.cache == nullptr || one.disk.found.data != nullptr) continue;
      const auto* const data = static_cast<const uint8_t*>(one.kept.copy->data);
      one.disk.cache->put_mapped(one.disk.key, {data, one.disk.bytes});
    }
    for (const One& one : made_) {
      buffer::storage_retain(one.kept.source);
      ASTER_TRY(engine_.copies.push(one.kept));
    }
    made_.clear();
    return kOk;
  }
  static bool alike(const KeptCopy& a, const KeptCopy& b) {
    return a.source == b.source && a.address == b.address && a.way == b.way;
  }

 private:
  struct One {
    KeptCopy kept;
    const CopyOf* copy;
    size_t scratch;
    KeptOnDisk disk;
  };
  static void find(void* self, int64_t task) {
    One& one = static_cast<Making*>(self)->made_[static_cast<size_t>(task)];
    if (one.disk.cache != nullptr) find_on_disk(&one.disk);
  }
  Status give_memory(One& one) {
    void* const found = one.disk.found.data;
    if (found != nullptr) {
      const auto unmap = [](void*, void* data, size_t bytes) { Cache::unmap(data, bytes); };
      return buffer::storage_wrap(&one.kept.copy, engine_.context, found, one.disk.bytes,
                                  device::kCpu, true, unmap, nullptr);
    }
    bring_late(*one.kept.source);
    one.scratch = scratch_bytes_;
    scratch_bytes_ += (static_cast<size_t>(one.copy->scratch_bytes) + 63) & ~size_t{63};
    return buffer::storage_create(&one.kept.copy, engine_.context, one.disk.bytes, device::kCpu);
  }
  static void make(void* self, int64_t task) {
    Making& making = *static_cast<Making*>(self);
    const One& one = making.made_[static_cast<size_t>(task)];
    if (one.disk.found.data != nullptr) return;
    const CopyOf& copy = *one.copy;
    void* const to = one.kept.copy->data;
    if (copy.padded) std::memset(to, 0, static_cast<size_t>(copy.bytes));
    void* const params[] = {const_cast<void*>(one.kept.address), to};
    const auto base = reinterpret_cast<uintptr_t>(making.scratch_.data());
    char* const scratch = making.scratch_.data() + (-base & 63) + one.scratch;
    if (copy.function != nullptr) return copy.function(params, nullptr, scratch, 0, 1);
    copy.plan->implementation->run(*copy.plan, params, scratch, 0, 1);
  }

  Engine& engine_;
  Vec<One> made_;
  Vec<char> scratch_;
  size_t scratch_bytes_ = 0;
};

}  // namespace

Status make_copies(Vec<Storage*>* out, Engine& engine, const Executable& exe,
                   std::span<const Given> params, const Leaves& leaves) {
  const auto wanted = [&](const CopyOf& copy) {
    return KeptCopy{storage_at(leaves.buffers[copy.leaf]), params[copy.leaf].address(), copy.way,
                    nullptr};
  };
  const auto find = [&](const KeptCopy& one) {
    return std::ranges::find_if(engine.copies,
                                [&](const KeptCopy& kept) { return Making::alike(kept, one); });
  };
  Making making(engine);
  for (const CopyOf& copy : exe.copies) {
    const KeptCopy one = wanted(copy);
    const Node leaf = leaves.buffers[copy.leaf];
    const size_t bytes = static_cast<size_t>(leaf->count()) * dtype::size(leaf->dtype);
    if (find(one) == engine.copies.end() && !making.has(one))
      ASTER_TRY(making.add(one, copy, bytes));
  }
  ASTER_TRY(making.run());
  for (const CopyOf& copy : exe.copies) ASTER_TRY(out->push(find(wanted(copy))->copy));
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
