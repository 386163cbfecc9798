#include "engine/tune.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

#include "codegen/codegen.h"
#include "codegen/lowering.h"
#include "codegen/neighbours.h"
#include "codegen/title.h"
#include "runtime/load.h"
#include "runtime/state.h"

namespace aster::engine {
namespace {

using codegen::Kernel;
using codegen::Plan;
using codegen::Rendered;
using uop::Node;

// What a search may take: rounds, plans, nanoseconds of running them, and bytes of operands.
constexpr int kMostRounds = 8;
constexpr size_t kMostPlans = 400;
constexpr double kMostTime = 10e9;
constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr size_t kBatch = 32;   // plans that are compiled together
constexpr double kGain = 0.98;  // of the time before, that is worth another plan
// Runs of one plan: so many at least, then as many as take so long, in nanoseconds.
constexpr int kFewestRuns = 3, kMostRuns = 50;
constexpr double kRunFor = 4e6;
constexpr size_t kAlignment = 64;  // of operands and scratch memory
constexpr double kHopeless = 3;    // times the best, at the first run

// Memory that a kernel may be run on, whatever it computes: it reads nothing outside of it.
class Operands {
 public:
  explicit Operands(Memory& memory) : memory_(memory), sizes_(memory), all(memory) {}
  ~Operands() {
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i] != nullptr) memory_.release(all[i], sizes_[i], kAlignment);
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  Status make(const Kernel& kernel, bool* fits) {
    int64_t bytes = 0;
    for (Node param : kernel.params()) bytes += bytes_of(param);
    *fits = bytes <= kMostBytes;
    if (!*fits) return kOk;
    for (Node param : kernel.params()) {
      const auto slot = static_cast<size_t>(param->arg(0));
      if (all.size() <= slot) {
        ASTER_TRY(all.resize(slot + 1, nullptr));
        ASTER_TRY(sizes_.resize(slot + 1, 0));
      }
      sizes_[slot] = static_cast<size_t>(bytes_of(param));
      all[slot] = memory_.allocate(sizes_[slot], kAlignment);
      if (all[slot] == nullptr) return out_of_memory(sizes_[slot]);
      fill(all[slot], sizes_[slot], param->dtype);
    }
    return kOk;
  }

 private:
  static int64_t bytes_of(Node param) {
    return std::max<int64_t>(static_cast<int64_t>(param->count()), 1) *
           static_cast<int64_t>(dtype::size(param->dtype));
  }
  // Ordinary numbers; of integers, which may be indices, zeros.
  static void fill(void* to, size_t bytes, DType dtype) {
    const auto numbers = [&]<typename T>(T* x) {
      for (size_t i = 0; i < bytes / sizeof(T); ++i)
        x[i] = static_cast<T>(static_cast<double>((i * 37) % 127) / 64 - 1);
    };
    std::memset(to, 0, bytes);
    if (dtype == DType::kFloat32) numbers(static_cast<float*>(to));
    if (dtype == DType::kFloat64) numbers(static_cast<double*>(to));
  }

  Memory& memory_;
  Vec<size_t> sizes_;

 public:
  Vec<void*> all;  // by slot
};

// What is kept of a search.
struct Found {
  int32_t width = 0;
  double model = 0, best = 0;  // nanoseconds of the planner's plan and of the best
  size_t plans = 0;
};

// One kernel's, on disk.
class Store {
 public:
  Status open(Engine& engine, const codegen::program::Digest& kernel) {
    runtime::cpu::KernelLibrary* library = nullptr;
    ASTER_TRY(runtime::kernel_library(engine.context, &library));
    Text machine(engine.context.heap());
    runtime::cpu::write_features(machine, library->features());
    machine.format(" %08x", runtime::cpu::cpu_signature());
    ASTER_TRY(machine.status());
    key_ = runtime::cpu::Sha256()
               .add_text("plan 1")
               .add_text(machine.view())
               .add(&kernel, sizeof(kernel))
               .finish();
    if (engine.context.options().no_disk_cache == 0) cache_ = &library->cache();
    return kOk;
  }
  // False where nothing is kept, or nothing that reads.
  bool get(Plan* plan, Found* found, Memory& memory) const {
    const SavedError before;
    Vec<uint8_t> bytes(memory);
    if (cache_ == nullptr || !cache_->get(kTarget, key_, &bytes)) return false;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const char* at = text.data();
    const char* const end = at + text.size();
    const auto number = [&](auto* out) {
      const std::from_chars_result read = std::from_chars(at, end, *out);
      at = read.ptr + (read.ptr != end);
      return read.ec == std::errc();
    };
    int64_t model = 0, best = 0;
    const bool known = number(&found->width) && number(&model) && number(&best) &&
                       number(&found->plans) &&
                       codegen::read(plan, {at, static_cast<size_t>(end - at)}).ok();
    found->model = static_cast<double>(model);
    found->best = static_cast<double>(best);
    before.restore();
    return known;
  }
  Status put(const Plan& plan, const Found& found, Memory& memory) const {
    if (cache_ == nullptr) return kOk;
    Text text(memory);
    text.format("%d %.0f %.0f %zu\n", found.width, found.model, found.best, found.plans);
    ASTER_TRY(codegen::print(text, plan));
    ASTER_TRY(text.status());
    cache_->put(kTarget, key_, runtime::cpu::as_bytes(text.view().data(), text.view().size()));
    return kOk;
  }

 private:
  static constexpr std::string_view kTarget = "plans";
  runtime::cpu::Cache* cache_ = nullptr;
  runtime::cpu::Digest key_ = {};
};

class Search {
 public:
  Search(Engine& engine, const runtime::Device& host, uop::Graph& scratch, Node node,
         const Kernel& kernel, Arena& memory)
      : engine_(engine),
        host_(host),
        scratch_(scratch),
        node_(node),
        kernel_(kernel),
        memory_(memory),
        operands_(engine.context.heap()),
        room_(engine.context.heap()),
        tried_(memory) {}

  Status prepare(bool* fits) { return operands_.make(kernel_, fits); }

  // From some plans on; *best: of all that were run.
  Status run(Plan* best, Found* found, int32_t width, Vec<Plan> first) {
    for (Plan& plan : first) ASTER_TRY(tried_.push(Tried{std::move(plan)}));
    ASTER_TRY(measure(0));
    for (int round = 0; round < kMostRounds && spent_ < kMostTime; ++round) {
      const double before = least();
      const size_t from = tried_.size();
      for (int32_t i = 0; i < width; ++i) {
        const size_t next = best_unexpanded();
        if (next == tried_.size()) break;
        tried_[next].expanded = true;
        ASTER_TRY(expand(next));
      }
      ASTER_TRY(measure(from));
      if (tried_.size() == from || least() > kGain * before || tried_.size() >= kMostPlans) break;
    }
    return decide(best, found);
  }

 private:
  struct Tried {
    explicit Tried(Plan&& of) : plan(std::move(of)) {}
    Plan plan;
    double time = HUGE_VAL;
    bool expanded = false;
  };

  double least() const {
    double out = HUGE_VAL;
    for (const Tried& one : tried_) out = std::min(out, one.time);
    return out;
  }
  size_t best_unexpanded() const {
    size_t out = tried_.size();
    for (size_t i = 0; i < tried_.size(); ++i) {
      const Tried& one = tried_[i];
      if (!one.expanded && one.time != HUGE_VAL &&
          (out == tried_.size() || one.time < tried_[out].time))
        out = i;
    }
    return out;
  }

  Status expand(size_t index) {
    Vec<Plan> beside(memory_);
    ASTER_TRY(codegen::neighbours(&beside, tried_[index].plan, kernel_, host_.target, memory_));
    for (Plan& plan : beside) {
      if (tried_.size() >= kMostPlans) break;
      const bool known =
          std::ranges::any_of(tried_, [&](const Tried& one) { return one.plan == plan; });
      if (!known) ASTER_TRY(tried_.push(Tried{std::move(plan)}));
    }
    return kOk;
  }

  // Compiles and runs all from one on.
  Status measure(size_t from) {
    for (; from < tried_.size(); from += kBatch) {
      const size_t to = std::min(from + kBatch, tried_.size());
      ASTER_TRY(each_compiled(from, to, [&](size_t i, const Rendered& code, void* function) {
        tried_[i].time = time_of(code, function, least());
      }));
    }
    return kOk;
  }

  // Calls visit(index, code, function) for those of [from, to) that the compiler takes.
  template <typename Visit>
  Status each_compiled(size_t from, size_t to, Visit visit) {
    Memory& heap = engine_.context.heap();
    Vec<Rendered> codes(heap);
    Vec<size_t> which(heap);
    const SavedError before;
    for (size_t i = from; i < to; ++i) {
      if (engine_.context.interrupt().requested()) return Interrupt::stopped("plans are tried");
      Rendered one(heap);
      const Status status =
          codegen::render(one, scratch_, node_, host_.target, nullptr, &tried_[i].plan);
      if (status.code == ASTER_ML_MEMORY) return status;
      if (!status.ok()) continue;  // longer than a program may be, say
      ASTER_TRY(codes.push(std::move(one)));
      ASTER_TRY(which.push(i));
    }
    Vec<runtime::Request> requests(heap);
    for (const Rendered& one : codes)
      ASTER_TRY(requests.push(runtime::Request{&one, static_cast<uint32_t>(operands_.all.size())}));
    if (requests.empty()) return before.restore(), kOk;
    runtime::Loaded held(heap);
    runtime::LoadCounts counts;
    const Status loaded =
        host_.load(&held, &counts, host_, engine_.context, {requests.data(), requests.size()});
    if (!loaded.ok() && loaded.code != ASTER_ML_COMPILE && loaded.code != ASTER_ML_UNSUPPORTED)
      return loaded;
    before.restore();
    for (size_t i = 0; loaded.ok() && i < codes.size(); ++i) {
      if (requests[i].function == nullptr) continue;
      const size_t bytes = static_cast<size_t>(codes[i].code.scratch_bytes) + kAlignment;
      if (bytes > room_.size()) ASTER_TRY(room_.resize(bytes, 0));
      visit(which[i], codes[i], requests[i].function);
    }
    return kOk;
  }

  // Of this thread alone: what else the machine does counts less.
  static double own_time() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
  }
  double run_once(const Rendered& code, void* function) {
    using Function = void (*)(void* const*, const int64_t*, void*, int64_t, int64_t);
    auto* const aligned =
        reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(room_.data()) + 63) & ~uintptr_t{63});
    const double start = own_time();
    reinterpret_cast<Function>(function)(operands_.all.data(), code.sizes.data(), aligned, 0,
                                         code.tasks);
    const double took = own_time() - start;
    spent_ += took;
    return took;
  }
  double time_of(const Rendered& code, void* function, double best) {
    double least = run_once(code, function), sum = least;
    if (least > kHopeless * best || engine_.context.interrupt().requested()) return least;
    for (int run = 1; run < kMostRuns && (run < kFewestRuns || sum < kRunFor); ++run) {
      const double time = run_once(code, function);
      least = std::min(least, time), sum += time;
    }
    return least;
  }

  // The planner's and the best, once more in turn; the planner's where they are alike.
  Status decide(Plan* best, Found* found) {
    constexpr int kTurns = 5;
    size_t at = 0;
    for (size_t i = 1; i < tried_.size(); ++i) {
      if (tried_[i].time < tried_[at].time) at = i;
    }
    found->plans = tried_.size();
    found->model = found->best = tried_[0].time;
    if (at != 0) {
      ASTER_TRY(tried_.push(Tried{Plan(memory_)}));
      ASTER_TRY(codegen::copy(&tried_.back().plan, tried_[0].plan));
      ASTER_TRY(tried_.push(Tried{Plan(memory_)}));
      ASTER_TRY(codegen::copy(&tried_.back().plan, tried_[at].plan));
      const Rendered* codes[2] = {};
      void* functions[2] = {};
      const size_t first = tried_.size() - 2;
      double times[2] = {HUGE_VAL, HUGE_VAL};
      ASTER_TRY(each_compiled(first, first + 2, [&](size_t i, const Rendered& code, void* f) {
        codes[i - first] = &code, functions[i - first] = f;
        for (int turn = 0; i > first && functions[0] != nullptr && turn < kTurns; ++turn) {
          for (const size_t side : {size_t{0}, size_t{1}})
            times[side] = std::min(times[side], time_of(*codes[side], functions[side], HUGE_VAL));
        }
      }));
      if (times[1] < kGain * times[0]) {
        found->best = times[1];
      } else {
        at = 0, found->best = times[0];
      }
      found->model = times[0];
    }
    return codegen::copy(best, tried_[at].plan);
  }

  Engine& engine_;
  const runtime::Device& host_;
  uop::Graph& scratch_;
  const Node node_;
  const Kernel& kernel_;
  Memory& memory_;
  Operands operands_;
  Vec<char> room_;
  Vec<Tried> tried_;  // the planner's first
  double spent_ = 0;
};

Status tell(Engine& engine, Node kernel, const Found& found, bool kept) {
  aster_ml_tuned row = {};
  row.struct_size = sizeof(row);
  ASTER_TRY(codegen::write_title(row.title, kernel, engine.context.heap()));
  row.planned_ns = found.model;
  row.best_ns = found.best;
  row.plans = static_cast<uint32_t>(found.plans);
  row.kept = kept ? 1 : 0;
  return engine.tuned.push(row);
}

}  // namespace

Status tuned_plan(Plan* out, bool* found, Engine& engine, const runtime::Device& host,
                  uop::Graph& scratch, Node node) {
  *found = false;
  const int32_t width = engine.context.beam();
  if (width == 0) return kOk;
  Arena memory(engine.context.blocks());
  codegen::program::Digest digest;
  ASTER_TRY(codegen::digest_kernel(&digest, node, host.target, memory));
  Store store;
  ASTER_TRY(store.open(engine, digest));
  Kernel kernel(memory);
  const SavedError before;
  if (!kernel.analyse(node).ok()) return before.restore(), kOk;  // rendering says why
  Found known;
  Plan kept(memory);
  const bool is_kept =
      store.get(&kept, &known, memory) && codegen::check(kept, kernel, host.target).ok();
  before.restore();
  if (is_kept && known.width >= width) {
    *found = true;
    ASTER_TRY(tell(engine, node, known, true));
    return codegen::copy(out, kept);
  }
  Search search(engine, host, scratch, node, kernel, memory);
  bool fits = false;
  ASTER_TRY(search.prepare(&fits));
  if (!fits) return kOk;
  Vec<Plan> first(memory);
  ASTER_TRY(first.push(Plan(memory)));
  ASTER_TRY(codegen::plan_kernel(&first.back(), node, host.target, memory));
  if (is_kept) ASTER_TRY(first.push(std::move(kept)));
  Found now;
  now.width = width;
  ASTER_TRY(search.run(out, &now, width, std::move(first)));
  *found = true;
  ASTER_TRY(store.put(*out, now, memory));
  return tell(engine, node, now, false);
}

}  // namespace aster::engine
