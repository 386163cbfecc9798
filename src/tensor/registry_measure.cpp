// Measures implementations on operands of the dtypes and shapes of a call, and remembers.
#include <algorithm>
#include <cmath>
#include <ctime>

#include "device/device.h"
#include "engine/engine.h"
#include "runtime/state.h"
#include "tensor/registry_build.h"

namespace aster::tensor::registry {
namespace {

using runtime::cpu::Cache;
using runtime::cpu::Sha256;
using uop::brief;

// Rounds go on until each implementation has run so long, within these numbers of them.
constexpr double kEnoughNs = 2e7;
constexpr int kFewestRounds = 5, kMostRounds = 60;
// What takes so many times the fastest is not run again, or not at all where it says so. A few runs
// that others' work held up look like it too: it counts after the fewest rounds, at once only of
// what takes longer than that can be.
constexpr double kHopeless = 3, kHopelessCost = 10, kHeldUpNs = 1e8;
constexpr int kMostWaits = 400;  // of 5 ms, for a compiler
constexpr const char* kFolder = "registry";

// A registry's context, for measuring: launches are told to us and wait for machine code, an open
// capture sees nothing, and no operation is chosen by measuring while another one is measured.
class Quiet {
 public:
  explicit Quiet(engine::Engine& engine)
      : engine_(engine), trace_(engine.trace), recording_(engine.recording) {
    engine.recording = nullptr;
    arenas_ = std::exchange(engine.living_arenas, 0);
    engine.trace = {add, this};
    engine.measures = true;
  }
  ~Quiet() {
    engine_.measures = false;
    engine_.trace = trace_;
    engine_.recording = recording_;
    engine_.living_arenas = arenas_;
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  double nanoseconds = 0;
  bool by_strips = false;  // some launch: a kernel whose compiler is at it since before

 private:
  static void add(void* self, const aster_ml_launch* launch) {
    static_cast<Quiet*>(self)->nanoseconds += static_cast<double>(launch->nanoseconds);
    static_cast<Quiet*>(self)->by_strips |= launch->tier != 0;
  }
  engine::Engine& engine_;
  engine::Trace trace_;
  engine::Recording* recording_;
  size_t arenas_;
};

// Cells of nodes, in memory.
class Cells {
 public:
  explicit Cells(engine::Engine& engine) : engine_(engine), all_(engine.context.heap()) {}
  ~Cells() {
    for (engine::Lazy* each : all_) free_handle(each);
  }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;
  Status add(Node node) {
    engine::Lazy* lazy = nullptr;
    ASTER_TRY(engine::lazy_create(&lazy, engine_, node));
    return all_.push(lazy);
  }
  Status realize() { return engine::realize_stored(engine_, {all_.data(), all_.size()}); }
  Node node(size_t i) const { return all_[i]->node; }

 private:
  engine::Engine& engine_;
  Vec<engine::Lazy*> all_;
};

// Numbers around 0 that no two neighbours share; indices are 0, which every table has.
Node filled(engine::Engine& engine, Node like, int32_t device) {
  Graph& g = engine.graph;
  if (uop::is_const(like)) return like;
  const DType dtype = like->dtype;
  if (!dtype::is_float(dtype) && dtype != DType::kBool) {
    Node zeros = nullptr;
    const Node zero = g.constant(dtype, 0, like->shape());
    return engine::fill_buffer(&zeros, engine, device, zero).ok() ? zeros : nullptr;
  }
  Node seed = nullptr;
  if (!engine::fill_buffer(&seed, engine, device, g.constant(DType::kInt32, 61)).ok())
    return nullptr;
  Expr turns{&g, seed};
  for (size_t i = 0; i < like->ndim; ++i)
    turns = turns * 31.0 + uop::iota(g, DType::kInt32, like->shape(), i);
  turns = (turns & turns.like(127)).expand(like->shape());
  if (dtype == DType::kBool) return (turns < 96.0).n;
  return ((turns.cast(DType::kFloat32) - 63.5) * (1.0 / 64)).cast(dtype).n;
}

// One call with operands in memory, as often as it takes.
class Bench {
 public:
  Bench(Registry& registry, const Call& call)
      : registry_(registry),
        call_(call),
        operands_(registry.engine),
        nodes_(registry.context.heap()),
        usual_(nullptr) {}

  Status begin() {
    Graph& g = registry_.engine.graph;
    Map<Node, Node> map(registry_.context.heap());
    for (Node x : call_.operands) {
      const Node made = filled(registry_.engine, x, call_.device);
      if (made == nullptr) return last_failure();
      ASTER_TRY(operands_.add(made));
    }
    ASTER_TRY(operands_.realize());
    for (size_t i = 0; i < call_.operands.size(); ++i) {
      const bool constant = uop::is_const(call_.operands[i]);
      // Of memory that others may write nothing is kept for the next run (engine/kept.h).
      if (const Node memory = engine::memory_below(operands_.node(i)); memory != nullptr)
        engine::storage_of(memory)->lent.store(true, std::memory_order_relaxed);
      ASTER_TRY(nodes_.push(constant ? call_.operands[i] : operands_.node(i)));
      ASTER_TRY(map.set(call_.operands[i], nodes_[i]));
    }
    return g.substitute(&usual_, call_.usual, map);
  }

  // Launches of one run.
  Status run(double* ns, Implementation& who) {
    const Call call(registry_.engine, call_.composite, call_.attributes,
                    {nodes_.data(), nodes_.size()}, usual_);
    for (int waited = 0;; ++waited) {
      const Node made = build_with(registry_, who, call);
      if (made == nullptr) return last_failure();
      Cells result(registry_.engine);
      ASTER_TRY(result.add(made));
      Quiet quiet(registry_.engine);
      ASTER_TRY(result.realize());
      *ns = quiet.nanoseconds;
      if (!quiet.by_strips || waited == kMostWaits) return kOk;
      const timespec moment{0, 5'000'000};
      nanosleep(&moment, nullptr);
    }
  }

 private:
  Registry& registry_;
  const Call& call_;
  Cells operands_;
  Vec<Node> nodes_;
  Node usual_;
};

struct Candidate {
  Implementation* who;
  double best = INFINITY, spent = 0;
  bool out = false;  // failed, or hopeless
};

Status measure_rounds(Vec<Candidate>& candidates, Bench& bench, Context& context) {
  // Compiled first, and thrown out where that fails: the others may do.
  const SavedError before;
  for (Candidate& each : candidates) {
    double ns = 0;
    const Status ran = bench.run(&ns, *each.who);
    if (ran.ok()) continue;
    if (ran.code == ASTER_ML_CANCELLED || ran.code == ASTER_ML_MEMORY) return ran;
    context.log(ASTER_ML_LOG_INFO, "%s, \"%s\" was not measured: %s",
                uop::public_name(each.who->composite), each.who->name, SavedError::message());
    each.out = true;
    before.restore();
  }
  for (int round = 0; round < kMostRounds; ++round) {
    double least = INFINITY;
    bool enough = round >= kFewestRounds;
    for (Candidate& each : candidates) {
      if (each.out) continue;
      double ns = 0;
      ASTER_TRY(bench.run(&ns, *each.who));
      each.best = std::min(each.best, ns);
      each.spent += ns;
      least = std::min(least, each.best);
      enough = enough && each.spent >= kEnoughNs;
    }
    for (Candidate& each : candidates) {
      const bool sure = round + 1 >= kFewestRounds || each.best > kHeldUpNs;
      each.out |= sure && each.best > kHopeless * least;
    }
    if (enough) break;
  }
  return kOk;
}

// Those that take the call, less those that say that they take far longer than another.
Status candidates_of(Vec<Candidate>* out, bool* own, Registry& registry, const Call& call) {
  double least = INFINITY;
  *own = true;
  const auto cost_of = [&](const Implementation& who) {
    return who.given.cost == nullptr ? 0 : who.given.cost(who.given.self, &call.given);
  };
  for (Implementation* each : registry.all) {
    if (each->composite != call.composite) continue;
    Refusal why;
    ask(&why, *each, call);
    if (!why.taken()) continue;
    if (const double cost = cost_of(*each); cost > 0) least = std::min(least, cost);
    ASTER_TRY(out->push(Candidate{each}));
    *own &= each->usual || each->form != nullptr;
  }
  auto* end = std::remove_if(out->begin(), out->end(), [&](const Candidate& each) {
    return cost_of(*each.who) > kHopelessCost * least;
  });
  out->truncate(static_cast<size_t>(end - out->begin()));
  return kOk;
}

// "float32[8, 64], float32[64, 8] (attributes) on CPU, 2 threads: generated, strassen"
Status write_key(Text& out, const Registry& registry, const Call& call,
                 const Vec<Candidate>& candidates) {
  const char* between = "";
  for (Node x : call.operands) {
    out << between << brief(x).text;
    between = ", ";
  }
  if (!call.attributes.empty()) {
    between = " (";
    for (Word word : call.attributes) out << std::exchange(between, ", ") << word;
    out << ')';
  }
  out << " on " << device::name(call.device).text << ", " << registry.engine.threads << " threads";
  between = ": ";
  for (const Candidate& each : candidates) out << std::exchange(between, ", ") << each.who->name;
  return out.status();
}

// ---- On disk: lines "NAME NANOSECONDS", the fastest first ----

Status disk_key(runtime::cpu::Digest* out, runtime::cpu::KernelLibrary& library, Context& context,
                const Call& call, std::string_view key) {
  Text features(context.heap());
  runtime::cpu::write_features(features, library.features());
  ASTER_TRY(features.status());
  *out = Sha256()
             .add_text("aster_ml registry 1")
             .add_text(aster_ml_version())
             .add_text(features.view())
             .add_text(uop::public_name(call.composite))
             .add_text(key)
             .finish();
  return kOk;
}

bool read_line(std::string_view* rest, Measured::Name* name, double* ns) {
  const size_t space = rest->find(' '), end = rest->find('\n');
  if (space >= sizeof(name->text) || end == std::string_view::npos || end < space) return false;
  std::memcpy(name->text, rest->data(), space);
  name->text[space] = '\0';
  const bool number = parse_double(ns, text_slice(*rest, space + 1, end - space - 1));
  rest->remove_prefix(end + 1);
  return number;
}

bool read_measured(Measured* out, const Registry& registry, std::string_view text) {
  while (!text.empty()) {
    Measured::Name name;
    double ns = 0;
    if (!read_line(&text, &name, &ns) || registry.find(out->composite, name.text) == nullptr ||
        !out->names.push(name).ok() || !out->nanoseconds.push(ns).ok()) {
      return false;
    }
  }
  if (out->names.empty()) return false;
  std::memcpy(out->fastest, out->names[0].text, sizeof(out->fastest));
  return true;
}

Status keep_on_disk(Cache& cache, const runtime::cpu::Digest& key, const Measured& measured) {
  Text text(measured.key.memory());
  for (size_t i = 0; i < measured.names.size(); ++i)
    text.format("%s %.0f\n", measured.names[i].text, measured.nanoseconds[i]);
  ASTER_TRY(text.status());
  cache.put(kFolder, key, runtime::cpu::as_bytes(text.view().data(), text.view().size()));
  return kOk;
}

Status measure(Measured* out, Registry& registry, const Call& call, Vec<Candidate>& candidates) {
  Bench bench(registry, call);
  ASTER_TRY(bench.begin());
  ASTER_TRY(measure_rounds(candidates, bench, registry.context));
  std::ranges::sort(candidates,
                    [](const Candidate& a, const Candidate& b) { return a.best < b.best; });
  for (const Candidate& each : candidates) {
    if (std::isinf(each.best)) continue;
    Measured::Name name;
    std::memcpy(name.text, each.who->name, sizeof(name.text));
    ASTER_TRY(out->names.push(name));
    ASTER_TRY(out->nanoseconds.push(each.best));
  }
  if (out->names.empty()) {
    return ASTER_FAIL(kUNSUPPORTED, "no implementation of %s could be measured",
                      uop::public_name(call.composite));
  }
  std::memcpy(out->fastest, out->names[0].text, sizeof(out->fastest));
  return kOk;
}

Status look_or_measure(Measured* out, Registry& registry, const Call& call,
                       Vec<Candidate>& candidates, bool own) {
  runtime::cpu::KernelLibrary* library = nullptr;
  ASTER_TRY(runtime::kernel_library(registry.context, &library));
  const bool disk = own && !registry.forgets_disk && library->cache().enabled();
  runtime::cpu::Digest key{};
  if (disk) {
    ASTER_TRY(disk_key(&key, *library, registry.context, call, out->key.view()));
    Vec<uint8_t> bytes(registry.context.heap());
    if (library->cache().get(kFolder, key, &bytes)) {
      const auto* text = reinterpret_cast<const char*>(bytes.data());
      if (read_measured(out, registry, {text, bytes.size()})) return kOk;
      out->names.clear();
      out->nanoseconds.clear();
    }
  }
  ASTER_TRY(measure(out, registry, call, candidates));
  return disk ? keep_on_disk(library->cache(), key, *out) : kOk;
}

// Room for one more of an operation that keeps so many.
void forget_least(Registry& registry, Composite composite, uint32_t cached) {
  auto& all = registry.measured;
  for (;;) {
    size_t count = 0, oldest = all.size();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i]->composite != composite) continue;
      ++count;
      if (oldest == all.size() || all[i]->used < all[oldest]->used) oldest = i;
    }
    if (count < cached) return;
    registry.context.heap().destroy(all[oldest]);
    all[oldest] = all.back();
    all.pop();
  }
}

}  // namespace

Status fastest(Implementation** out, Registry& registry, const Call& call, uint32_t cached) {
  Heap& heap = registry.context.heap();
  Vec<Candidate> candidates(heap);
  bool own = true;
  ASTER_TRY(candidates_of(&candidates, &own, registry, call));
  if (candidates.size() == 1) return *out = candidates[0].who, kOk;
  Text key(heap);
  ASTER_TRY(write_key(key, registry, call, candidates));
  for (Measured* each : registry.measured) {
    if (each->composite != call.composite || each->key.view() != key.view()) continue;
    each->used = ++registry.clock;
    *out = registry.find(call.composite, each->fastest);
    return kOk;
  }
  auto* made = heap.create<Measured>(heap);
  if (made == nullptr) return out_of_memory(sizeof(Measured));
  made->key << key.view();
  made->composite = call.composite;
  Status status = made->key.status();
  if (status.ok()) status = look_or_measure(made, registry, call, candidates, own);
  forget_least(registry, call.composite, cached);
  made->used = ++registry.clock;
  if (status.ok()) status = registry.measured.push(made);
  if (!status.ok()) {
    heap.destroy(made);
    return status;
  }
  *out = registry.find(call.composite, made->fastest);
  return kOk;
}

}  // namespace aster::tensor::registry
