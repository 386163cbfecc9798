// The source of a schedule's kernels. Nothing keeps it: a schedule has its key, which says its
// graph but for where memory lies, and its kernels are written once more from that, on memory that
// has addresses and nothing else.
#include <sys/mman.h>

#include <algorithm>

#include "aster_ml/schedule.h"
#include "base/options.h"
#include "base/text.h"
#include "codegen/codegen.h"
#include "device/device.h"
#include "engine/constants.h"
#include "engine/dry_run.h"
#include "engine/prepare.h"
#include "engine/schedule_object.h"
#include "runtime/load.h"

namespace aster::engine {
namespace {

using buffer::Storage;
using dtype::DType;
using uop::Node;
using uop::Op;
using uop::Words;

constexpr size_t kMostReserved = size_t{1} << 46;

void unmap(void*, void* data, size_t bytes) { munmap(data, bytes); }

class Decoder {
 public:
  Decoder(Engine& engine, const Executable& exe)
      : engine_(engine),
        exe_(exe),
        words_(exe.key.data() + 1, exe.key.size() - 1),
        ends_(engine.context.heap()),
        memory_(engine.context.heap()) {}
  ~Decoder() {
    for (Storage* storage : memory_) buffer::storage_release(storage);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // The roots of the graph; a graph that is another after all is UNSUPPORTED.
  Status decode(Vec<Node>* roots) {
    const size_t end = words_.size() - exe_.roots.size();
    for (size_t at = 0; at < end;) ASTER_TRY(measure(&at));
    ASTER_TRY(reserve());
    Vec<Node> nodes(engine_.context.heap());
    for (size_t at = 0; at < end;) {
      Node node = nullptr;
      ASTER_TRY(make(&node, nodes, &at));
      ASTER_TRY(nodes.push(node));
    }
    for (size_t i = end; i < words_.size(); ++i)
      ASTER_TRY(roots->push(nodes[static_cast<size_t>(words_[i])]));
    Vec<int64_t> key(engine_.context.heap());
    Leaves leaves(engine_.context.heap());
    ASTER_TRY(write_key(&key, &leaves, engine_, {roots->data(), roots->size()}));
    if (!std::ranges::equal(key, words_))
      return ASTER_FAIL(kUNSUPPORTED, "its graph is not what its key says");
    return kOk;
  }

 private:
  // One node in the words of a key, as write_key writes them.
  struct Head {
    Op op;
    DType dtype;
    Words leaf;  // of memory: number, first element, group, place in it, device
    Words arguments, shape, sources;
    int64_t bytes() const {
      int64_t count = static_cast<int64_t>(dtype::size(dtype));
      for (const int64_t dim : shape) count *= dim;
      return count;
    }
    int64_t first() const { return leaf[1] * static_cast<int64_t>(dtype::size(dtype)); }
  };
  Head take(size_t* at) const {
    const auto head = static_cast<uint64_t>(words_[(*at)++]);
    const auto next = [&](size_t count) {
      const Words out = words_.subspan(*at, count);
      *at += count;
      return out;
    };
    Head h{};
    h.op = static_cast<Op>(head & 255);
    h.dtype = static_cast<DType>(head >> 8 & 255);
    if (h.op == Op::kBuffer) {
      h.leaf = next(5);
    } else {
      const auto count = static_cast<size_t>(words_[(*at)++]);
      h.arguments = next(count);
    }
    h.shape = next(head >> 16 & 65535);
    h.sources = next(head >> 32);
    return h;
  }

  // How far the memory of each group goes.
  Status measure(size_t* at) {
    const Head h = take(at);
    if (h.op == Op::kForeign)
      return ASTER_FAIL(kUNSUPPORTED, "kernels that are not the library's are among its nodes");
    if (h.op != Op::kBuffer) return kOk;
    const auto group = static_cast<size_t>(h.leaf[2]);
    if (group >= ends_.size()) ASTER_TRY(ends_.resize(group + 1, 0));
    ends_[group] = std::max(ends_[group], h.leaf[3] + h.first() + h.bytes());
    return kOk;
  }
  Status reserve() {
    for (const int64_t end : ends_) {
      const auto bytes = static_cast<size_t>(std::max<int64_t>(end, 1));
      Storage* storage = nullptr;
      void* const data =
          bytes > kMostReserved
              ? MAP_FAILED
              : mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (data == MAP_FAILED) return out_of_memory(bytes);
      const Status wrapped = buffer::storage_wrap(&storage, engine_.context, data, bytes,
                                                  device::kCpu, false, unmap, nullptr);
      if (!wrapped.ok()) {
        munmap(data, bytes);
        return wrapped;
      }
      ASTER_TRY(memory_.push(storage));
    }
    return kOk;
  }
  Status make(Node* out, const Vec<Node>& nodes, size_t* at) {
    const Head h = take(at);
    Vec<Node> sources(engine_.context.heap());
    for (const int64_t source : h.sources)
      ASTER_TRY(sources.push(nodes[static_cast<size_t>(source)]));
    if (h.op == Op::kBuffer) {
      *out =
          buffer_node_on(engine_, memory_[static_cast<size_t>(h.leaf[2])],
                         static_cast<int32_t>(h.leaf[4]), h.leaf[3] + h.first(), h.dtype, h.shape);
    } else {
      *out =
          engine_.graph.make(h.op, h.dtype, {sources.data(), sources.size()}, h.arguments, h.shape);
    }
    return *out != nullptr ? kOk : last_failure();
  }

  Engine& engine_;
  const Executable& exe_;
  const Words words_;
  Vec<int64_t> ends_;     // of groups
  Vec<Storage*> memory_;  // of each
};

bool is_kernel(const Launch& launch) {
  return launch.plan == nullptr &&
         (launch.kind == LaunchKind::kHost || launch.kind == LaunchKind::kDevice);
}

Status write_source(Text& out, Engine& engine, const Executable& exe, size_t index) {
  if (index >= exe.launches.size() || !is_kernel(exe.launches[index]) || exe.whole != nullptr)
    return ASTER_FAIL(kNOT_FOUND, "launch %zu is no kernel: it has no source", index);
  if (exe.key.size() < 1 + exe.roots.size())
    return ASTER_FAIL(kUNSUPPORTED, "the schedule was made anew meanwhile, for its own sizes");
  const uop::Graph::Hold hold(engine.graph);
  Decoder decoder(engine, exe);
  Vec<Node> roots(engine.context.heap());
  ASTER_TRY(decoder.decode(&roots));
  DryRun run(engine);
  ASTER_TRY(run.prepare({roots.data(), roots.size()}));
  ASTER_TRY(run.schedule());
  // Launches besides kernels are other things in the schedule, or none.
  size_t before = 0;
  for (size_t i = 0; i < index; ++i) before += size_t{is_kernel(exe.launches[i])};
  const Item* found = nullptr;
  for (const Item& item : run.made().items) {
    if (item.kind != ItemKind::kKernel) continue;
    if (before-- == 0) found = &item;
  }
  codegen::Target target;
  if (exe.launches[index].kind == LaunchKind::kDevice) {
    target = exe.device->target;
  } else {
    ASTER_TRY(runtime::host_target(&target, engine.context));
  }
  Memory& memory = run.memory();
  codegen::Rendered made(memory);
  codegen::Constants constants(memory);
  if (found != nullptr) {
    if (!exe.away) constants.slots = constant_slots(exe, run.made(), found->kernel);
    ASTER_TRY(codegen::render(made, run.graph(), found->kernel, target, nullptr, nullptr,
                              constants.slots != 0 ? &constants : nullptr));
  }
  if (std::string_view(made.title) != exe.infos[index].title) {
    return ASTER_FAIL(kUNSUPPORTED, "%s is not what its graph gives now: %s",
                      exe.infos[index].title, made.title);
  }
  return codegen::render_unit(out, made, target);
}

}  // namespace
}  // namespace aster::engine

int32_t aster_ml_schedule_source(char* out, size_t* length, size_t capacity,
                                 const aster_ml_schedule* schedule, size_t index) {
  ASTER_API();
  aster::clear_text(out, length, capacity);
  const auto* s = schedule == nullptr
                      ? nullptr
                      : aster::object_of<aster::engine::ScheduleObject>(schedule->impl);
  if (s == nullptr) return ASTER_FAIL(kARGUMENT, "an empty schedule, or one that was freed");
  const size_t count = aster_ml_schedule_count(schedule);
  if (index >= count) return ASTER_FAIL(kRANGE, "there is no launch %zu of %zu", index, count);
  const aster::ContextLock lock(s->context);
  ASTER_TRY(lock.status());
  aster::engine::Engine* engine = nullptr;
  ASTER_TRY(aster::engine::engine_of(&engine, *s->context));
  aster::Text text(s->context->heap());
  ASTER_TRY(aster::engine::write_source(text, *engine, *s->exe, index));
  ASTER_TRY(text.status());
  return aster::give_text(out, length, capacity, text.view());
}
