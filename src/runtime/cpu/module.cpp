#include "runtime/cpu/module.h"

#include <time.h>

#include <algorithm>
#include <cstdio>

#include "base/flags.h"
#include "base/pool.h"
#include "runtime/cpu/later_unit.h"
#include "runtime/cpu/llvm_provider.h"
#include "runtime/cpu/pack.h"
#include "runtime/cpu/system_provider.h"

namespace aster::runtime::cpu {

// Raised when the form of packs, bundles or keys changes.
constexpr std::string_view kKeyVersion = "aster kernels 2";
constexpr size_t kMostUnits = 16;
constexpr std::string_view kLlvmChoice = "llvm";

namespace {

double now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

Digest digest_of(std::string_view text) { return Sha256().add_text(text).finish(); }

}  // namespace

void KernelSet::release() {
  if (--references_ != 0) return;
  for (LoadedPack* code : codes_) --code->users;
  codes_.memory().destroy(this);
}

// --- One request ---

class KernelLoad {
 public:
  KernelLoad(KernelLibrary& library, std::string_view declarations,
             std::span<const KernelSource> kernels, std::span<void*> functions, CompileStats* stats,
             const UnitDeclarations* units, std::span<const LaterCode*> later)
      : library_(library),
        memory_(library.context_.heap()),
        declarations_(declarations),
        kernels_(kernels),
        functions_(functions),
        stats_(stats),
        units_(units),
        later_(later),
        keys_(memory_),
        codes_(memory_),
        missing_(memory_),
        bundle_bytes_(memory_) {}

  Status run(KernelSet* set) {
    ASTER_TRY(make_keys());
    ASTER_TRY(finish_needed());
    ASTER_TRY(find_loaded());
    stats_->reused = stats_->kernels - static_cast<int64_t>(missing_.size());
    const bool all_loaded = missing_.empty();
    if (!all_loaded) {
      ASTER_TRY(find_bundle());
      const bool from_bundle = missing_.empty();
      ASTER_TRY(find_single());
      stats_->cached = stats_->kernels - stats_->reused - static_cast<int64_t>(missing_.size());
      for (const size_t index : missing_) {
        if (kernels_[index].key != nullptr)
          return ASTER_FAIL(kNOT_FOUND, "a kernel without a text is not kept any more");
      }
      Vec<size_t> later(memory_);
      ASTER_TRY(part_missing(&later));
      if (!missing_.empty()) ASTER_TRY(compile_missing());
      if (!later.empty() && !is_ready()) {
        ASTER_TRY(missing_.append(later.data(), later.size()));
        later.clear();
        ASTER_TRY(compile_missing());
      }
      if (!later.empty()) ASTER_TRY(compile_later(&later));
      if (!from_bundle) ASTER_TRY(put_bundle());
    }
    for (LoadedPack* code : codes_) {
      if (std::find(set->codes_.begin(), set->codes_.end(), code) != set->codes_.end()) continue;
      ASTER_TRY(set->codes_.push(code));
      ++code->users;
    }
    return kOk;
  }

 private:
  Digest key_of(const KernelSource& kernel, const Digest& all_declarations) const {
    if (kernel.key != nullptr) return *kernel.key;
    if (kernel.text.empty()) return library_.names_.get(library_.name_of(kernel.name), Digest{});
    const Digest declarations = kernel.needs.empty() ? all_declarations : digest_of(kernel.needs);
    Sha256 key;
    key.add_text("kernel")
        .add(library_.side().base.data(), library_.side().base.size())
        .add(declarations.data(), declarations.size());
    key.add_text(kernel.name).add_text(kernel.text);
    return key.finish();
  }

  Status make_keys() {
    Map<std::string_view, size_t, NameHash> names(memory_);
    const Digest all_declarations = digest_of(declarations_);
    Sha256 all;
    all.add_text("bundle");
    for (size_t i = 0; i < kernels_.size(); ++i) {
      const KernelSource& kernel = kernels_[i];
      if (kernel.text.empty() && kernel.key == nullptr && !library_.has_named(kernel.name))
        return ASTER_FAIL(kINTERNAL, "a kernel without a text is not loaded");
      ASTER_TRY(keys_.push(key_of(kernel, all_declarations)));
      if (kernel.named) ASTER_TRY(library_.names_.set(library_.name_of(kernel.name), keys_[i]));
      all.add(keys_[i].data(), keys_[i].size());
      const size_t first = names.get(kernel.name, i);
      if (keys_[first] != keys_[i]) {
        return ASTER_FAIL(kARGUMENT, "two kernels are named '%.*s'",
                          static_cast<int>(kernel.name.size()), kernel.name.data());
      }
      ASTER_TRY(names.set(kernel.name, first));
    }
    bundle_ = all.finish();
    return codes_.resize(kernels_.size(), nullptr);
  }

  // Takes the kernels that are loaded; missing_ has the others.
  Status find_loaded() {
    for (size_t i = 0; i < kernels_.size(); ++i) {
      if (const KernelLibrary::Entry* entry = library_.kernels_.find(keys_[i])) {
        take_entry(*entry, i);
      } else {
        ASTER_TRY(missing_.push(i));
      }
    }
    return kOk;
  }

  void take_entry(const KernelLibrary::Entry& entry, size_t index) {
    codes_[index] = entry.code;
    functions_[index] = entry.function;
    if (entry.function != nullptr || entry.later == nullptr) return;
    functions_[index] = entry.later->load(std::memory_order_acquire);
    if (functions_[index] == nullptr) later_[index] = entry.later;
  }
  bool may_wait(size_t index) const { return !later_.empty() && kernels_[index].later; }

  // What is being compiled and has to be there.
  Status finish_needed() {
    bool waited = false;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      const KernelLibrary::Entry* const entry = library_.kernels_.find(keys_[i]);
      if (entry == nullptr || entry->is_there() || may_wait(i)) continue;
      ASTER_TRY(library_.finish(entry->later));
      waited = true;
    }
    if (waited) ASTER_TRY(library_.collect());
    return kOk;
  }

  // Takes those out of the missing ones that may be compiled later.
  Status part_missing(Vec<size_t>* later) {
    size_t left = 0;
    for (const size_t index : missing_) {
      if (may_wait(index)) {
        ASTER_TRY(later->push(index));
      } else {
        missing_[left++] = index;
      }
    }
    missing_.truncate(left);
    if (later->empty() || !missing_.empty() || is_ready()) return kOk;
    // The least of them makes the provider ready for the others.
    size_t* const least = std::ranges::min_element(
        *later, {}, [this](size_t index) { return kernels_[index].text.size(); });
    ASTER_TRY(missing_.push(*least));
    std::swap(*least, later->back());
    later->pop();
    return kOk;
  }
  // Whether the provider may be used beside this thread.
  bool is_ready() const {
    const Provider& provider = library_.side().provider;
    return provider.may_wait == nullptr || provider.may_wait(provider.self);
  }

  // Takes a kernel out of loaded code; false when it is not in there.
  Status take_from(LoadedPack* code, size_t index, bool* found) {
    void* function = code->find(kernels_[index].name);
    *found = function != nullptr;
    if (!*found) return kOk;
    ASTER_TRY(library_.kernels_.set(keys_[index], KernelLibrary::Entry{code, function}));
    functions_[index] = function;
    codes_[index] = code;
    return kOk;
  }

  // A pack, from memory or disk; null when there is none or it does not load, which
  // is then a miss.
  Status find_code(const Digest& key, LoadedPack** out) {
    *out = library_.code_by_key_.get(key, nullptr);
    if (*out != nullptr) return kOk;
    Vec<uint8_t> pack(memory_);
    if (!library_.cache_.get(library_.target_name(), key, &pack)) return kOk;
    const SavedError before;
    const Status status = library_.add_code(key, {pack.data(), pack.size()}, out);
    if (status.code == static_cast<int32_t>(aster::Code::kMEMORY)) return status;
    before.restore();
    return kOk;
  }

  // Takes what it can from the file of the whole request.
  Status find_bundle() {
    Vec<uint8_t> bytes(memory_);
    if (!library_.cache_.get(library_.target_name(), bundle_, &bytes)) return kOk;
    std::span<const uint8_t> rest(bytes.data(), bytes.size());
    uint64_t packs = 0;
    uint64_t kernels = 0;
    if (!take_number(&rest, &packs) || !take_number(&rest, &kernels) || kernels != kernels_.size())
      return kOk;
    if (packs > kernels) return kOk;
    Vec<LoadedPack*> codes(memory_);
    for (uint64_t i = 0; i < packs; ++i) {
      Digest key;
      LoadedPack* code = nullptr;
      if (!take_digest(&rest, &key)) return kOk;
      ASTER_TRY(find_code(key, &code));
      ASTER_TRY(codes.push(code));
    }
    const std::span<const uint8_t> indices = rest;
    return keep_missing([&](size_t index, bool* found) -> Status {
      std::span<const uint8_t> at =
          indices.subspan(std::min<size_t>(indices.size(), index * sizeof(uint64_t)));
      uint64_t pack = 0;
      *found = take_number(&at, &pack) && pack < codes.size() && codes[pack] != nullptr;
      return *found ? take_from(codes[pack], index, found) : kOk;
    });
  }

  // Takes the kernels that other requests have left on disk.
  Status find_single() {
    Vec<uint8_t> bytes(memory_);
    return keep_missing([&](size_t index, bool* found) -> Status {
      *found = false;
      Digest key;
      if (!library_.cache_.get(library_.target_name(), keys_[index], &bytes)) return kOk;
      std::span<const uint8_t> rest(bytes.data(), bytes.size());
      LoadedPack* code = nullptr;
      if (take_digest(&rest, &key)) ASTER_TRY(find_code(key, &code));
      return code != nullptr ? take_from(code, index, found) : kOk;
    });
  }

  // Leaves in missing_ those that look(index, &found) does not find.
  template <typename Look>
  Status keep_missing(Look look) {
    size_t left = 0;
    for (const size_t index : missing_) {
      bool found = false;
      // An equal kernel earlier in the request may have brought it.
      if (const KernelLibrary::Entry* entry = library_.kernels_.find(keys_[index])) {
        take_entry(*entry, index);
        found = true;
      } else {
        ASTER_TRY(look(index, &found));
      }
      if (!found) missing_[left++] = index;
    }
    missing_.truncate(left);
    return kOk;
  }

  // The translation unit of each kernel of `order`: the largest first, each to the unit with least
  // text.
  Status partition(Vec<size_t>* order, size_t units, Vec<size_t>* unit_of) {
    std::sort(order->begin(), order->end(), [this](size_t a, size_t b) {
      const size_t size_a = kernels_[a].text.size();
      const size_t size_b = kernels_[b].text.size();
      return size_a != size_b ? size_a > size_b : a < b;
    });
    Vec<size_t> sizes(memory_);
    ASTER_TRY(sizes.resize(units, 0));
    for (const size_t index : *order) {
      size_t* least = std::min_element(sizes.begin(), sizes.end());
      *least += kernels_[index].text.size();
      ASTER_TRY(unit_of->push(static_cast<size_t>(least - sizes.begin())));
    }
    return kOk;
  }

  // The missing kernels, equal ones once.
  Status distinct(Vec<size_t>* out, const Vec<size_t>& missing) {
    Map<Digest, size_t, KernelLibrary::DigestHash> seen(memory_);
    for (const size_t index : missing) {
      if (seen.contains(keys_[index])) continue;
      ASTER_TRY(seen.set(keys_[index], index));
      ASTER_TRY(out->push(index));
    }
    return kOk;
  }

  size_t count_units(const Vec<size_t>& order, size_t bytes) const {
    size_t wanted = std::min(static_cast<size_t>(pool::hardware_threads()), kMostUnits);
    if (bytes != 0) {
      size_t all = 0;
      for (const size_t index : order) all += kernels_[index].text.size();
      wanted = std::max(wanted, all / bytes);
    }
    return std::min(wanted, order.size());
  }

  Status compile_missing() {
    const double start = now_ms();
    Vec<size_t> order(memory_);
    Vec<size_t> unit_of(memory_);
    ASTER_TRY(distinct(&order, missing_));
    const size_t units = count_units(order, library_.side().provider.unit_bytes);
    ASTER_TRY(partition(&order, units, &unit_of));

    Vec<Vec<uint8_t>> objects(memory_);
    for (size_t i = 0; i < units; ++i) ASTER_TRY(objects.push(Vec<uint8_t>(memory_)));
    const std::span<Vec<uint8_t>> made(objects.data(), objects.size());
    ASTER_TRY(compile_units(order, unit_of, made));
    stats_->compile_ms = now_ms() - start;
    stats_->compiled = static_cast<int64_t>(order.size());
    stats_->units = static_cast<int64_t>(units);

    const Digest pack_key = key_of_pack({order.data(), order.size()});
    Vec<uint8_t> pack(memory_);
    ASTER_TRY(write_pack(made, &pack));
    const std::span<const uint8_t> bytes(pack.data(), pack.size());
    LoadedPack* code = nullptr;
    ASTER_TRY(library_.add_code(pack_key, bytes, &code));
    ASTER_TRY(
        keep_missing([&](size_t index, bool* found) { return take_from(code, index, found); }));
    if (!missing_.empty()) {
      const std::string_view name = kernels_[missing_[0]].name;
      return ASTER_FAIL(kINTERNAL, "the compiled module has no '%.*s'",
                        static_cast<int>(name.size()), name.data());
    }
    library_.put(pack_key, bytes);
    for (const size_t index : order) {
      library_.put(keys_[index], {pack_key.data(), pack_key.size()});
    }
    library_.context_.log(ASTER_ML_LOG_INFO, "compiled %lld kernels in %lld units, %.1f ms",
                          static_cast<long long>(stats_->compiled), static_cast<long long>(units),
                          stats_->compile_ms);
    return kOk;
  }

  Digest key_of_pack(std::span<const size_t> kernels) const {
    Sha256 key;
    key.add_text("pack");
    for (const size_t index : kernels) key.add(keys_[index].data(), keys_[index].size());
    return key.finish();
  }

  // In units that are compiled by others while the caller goes on; equal kernels once.
  Status compile_later(Vec<size_t>* later) {
    Vec<size_t> order(memory_), unit_of(memory_), kernels(memory_);
    ASTER_TRY(distinct(&order, *later));
    const size_t units = count_units(order, library_.side().provider.later_bytes);
    ASTER_TRY(partition(&order, units, &unit_of));
    for (size_t unit = 0; unit < units; ++unit) {
      kernels.clear();
      for (size_t i = 0; i < order.size(); ++i) {
        if (unit_of[i] == unit) ASTER_TRY(kernels.push(order[i]));
      }
      if (!kernels.empty()) ASTER_TRY(begin_later({kernels.data(), kernels.size()}));
    }
    stats_->compiled += static_cast<int64_t>(order.size());
    stats_->units += static_cast<int64_t>(units);
    for (const size_t index : *later) take_entry(*library_.kernels_.find(keys_[index]), index);
    return kOk;
  }
  Status begin_later(std::span<const size_t> kernels);
  Status fill_later(LaterUnit* unit, std::span<const size_t> kernels);

  Status compile_units(const Vec<size_t>& order, const Vec<size_t>& unit_of,
                       std::span<Vec<uint8_t>> objects) {
    Vec<char> text(memory_);
    Vec<size_t> ends(memory_);
    Vec<size_t> kernels(memory_);
    Text declarations(memory_);
    const auto add = [&text](std::string_view part) {
      return text.append(part.data(), part.size());
    };
    for (size_t unit = 0; unit < objects.size(); ++unit) {
      kernels.clear();
      for (size_t i = 0; i < order.size(); ++i) {
        if (unit_of[i] == unit) ASTER_TRY(kernels.push(order[i]));
      }
      declarations.clear();
      if (units_ != nullptr) {
        ASTER_TRY(units_->write(units_->self, {kernels.data(), kernels.size()}, declarations));
      } else {
        declarations << declarations_;
      }
      ASTER_TRY(declarations.status());
      ASTER_TRY(add(declarations.view()));
      for (const size_t index : kernels) {
        ASTER_TRY(add("\n"));
        ASTER_TRY(add(kernels_[index].text));
      }
      ASTER_TRY(add("\n"));
      ASTER_TRY(ends.push(text.size()));
    }
    Vec<std::string_view> sources(memory_);
    for (size_t unit = 0; unit < objects.size(); ++unit) {
      const size_t begin = unit == 0 ? 0 : ends[unit - 1];
      ASTER_TRY(sources.push(std::string_view(text.data() + begin, ends[unit] - begin)));
    }
    const Provider& provider = library_.side().provider;
    ASTER_TRY(provider.compile(provider.self, library_.features_, {sources.data(), sources.size()},
                               objects, memory_, library_.patience()));
    if (!library_.options_.shared_objects) return kOk;
    if (provider.link == nullptr)
      return ASTER_FAIL(kUNSUPPORTED, "the system does not let memory become executable");
    for (Vec<uint8_t>& object : objects) {
      Vec<uint8_t> shared(memory_);
      ASTER_TRY(provider.link(provider.self, {object.data(), object.size()}, &shared, memory_,
                              library_.patience()));
      object = std::move(shared);
    }
    return kOk;
  }

  Status put_bundle() {
    if (!library_.cache_.enabled()) return kOk;
    Vec<LoadedPack*> packs(memory_);
    Vec<uint8_t> indices(memory_);
    for (LoadedPack* code : codes_) {
      size_t at = static_cast<size_t>(std::find(packs.begin(), packs.end(), code) - packs.begin());
      if (at == packs.size()) ASTER_TRY(packs.push(code));
      ASTER_TRY(append_number(&indices, at));
    }
    ASTER_TRY(append_number(&bundle_bytes_, packs.size()));
    ASTER_TRY(append_number(&bundle_bytes_, codes_.size()));
    for (const LoadedPack* code : packs)
      ASTER_TRY(bundle_bytes_.append(code->key.data(), code->key.size()));
    ASTER_TRY(bundle_bytes_.append(indices.data(), indices.size()));
    library_.put(bundle_, {bundle_bytes_.data(), bundle_bytes_.size()});
    return kOk;
  }

  KernelLibrary& library_;
  Memory& memory_;
  std::string_view declarations_;
  std::span<const KernelSource> kernels_;
  std::span<void*> functions_;
  CompileStats* stats_;
  const UnitDeclarations* units_;
  std::span<const LaterCode*> later_;
  Vec<Digest> keys_;
  Digest bundle_ = {};
  Vec<LoadedPack*> codes_;  // of each kernel
  Vec<size_t> missing_;     // kernels without a function so far
  Vec<uint8_t> bundle_bytes_;
};

// --- Beside the context's thread ---

Status KernelLoad::begin_later(std::span<const size_t> kernels) {
  ASTER_TRY(library_.later_.reserve(library_.later_.size() + 1));
  LaterUnit* const unit = memory_.create<LaterUnit>(memory_);
  if (unit == nullptr) return out_of_memory(sizeof(LaterUnit));
  ASTER_TRY(library_.later_.push(unit));
  const Status status = fill_later(unit, kernels);
  // One core goes on with what was asked for.
  const int workers = std::clamp(pool::hardware_threads() - 1, 1, static_cast<int>(kMostUnits));
  if (!status.ok()) {  // never begun: what it has of kernels is forgotten
    unit->state = Job::State::kDone;
    return status;
  }
  if (library_.background_.add(unit, workers)) return kOk;
  Interrupt never;
  unit->body(*unit, never);
  unit->state = Job::State::kDone;
  return kOk;
}

Status KernelLoad::fill_later(LaterUnit* unit, std::span<const size_t> kernels) {
  Text declarations(memory_);
  if (units_ != nullptr) {
    ASTER_TRY(units_->write(units_->self, kernels, declarations));
  } else {
    declarations << declarations_;
  }
  ASTER_TRY(declarations.status());
  ASTER_TRY(library_.codes_.reserve(library_.codes_.size() + 1));
  LoadedPack* const pack = memory_.create<LoadedPack>(memory_, key_of_pack(kernels));
  if (pack == nullptr) return out_of_memory(sizeof(LoadedPack));
  ASTER_TRY(library_.codes_.push(pack));
  pack->later = memory_.array<LaterCode>(kernels.size());
  if (pack->later == nullptr) return out_of_memory(kernels.size() * sizeof(LaterCode));
  pack->laters = kernels.size();
  for (size_t i = 0; i < kernels.size(); ++i) new (pack->later + i) LaterCode(nullptr);
  unit->pack = pack;
  unit->body = LaterUnit::run;
  unit->provider = library_.side().provider;
  unit->features = library_.features_;
  unit->timeout_ms = library_.context_.options().compile_timeout_ms;
  unit->shared_objects = library_.options_.shared_objects;
  const char* const folder = library_.context_.options().cache_dir;
  if (library_.cache_.enabled()) unit->cache_dir = folder != nullptr ? folder : "";
  unit->target << library_.target_name();
  ASTER_TRY(unit->target.status());
  const auto add = [&](std::string_view part) -> Status {
    ASTER_TRY(unit->text.append(part.data(), part.size()));
    ASTER_TRY(unit->text.append("\n", 1));
    return unit->ends.push(unit->text.size());
  };
  ASTER_TRY(add(declarations.view()));
  for (const size_t index : kernels) {
    ASTER_TRY(add(kernels_[index].text));
    ASTER_TRY(unit->keys.push(keys_[index]));
    ASTER_TRY(unit->names.push(Text(memory_)));
    unit->names.back() << kernels_[index].name;
    ASTER_TRY(unit->names.back().status());
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    ASTER_TRY(library_.kernels_.set(keys_[kernels[i]],
                                    KernelLibrary::Entry{pack, nullptr, pack->later + i}));
  }
  pack->pending = true;
  return kOk;
}

// --- The library ---

uint64_t KernelLibrary::DigestHash::operator()(const Digest& digest) const {
  uint64_t word;
  std::memcpy(&word, digest.data(), sizeof(word));
  return word;
}

KernelLibrary::Name KernelLibrary::name_of(std::string_view name) {
  Name out;
  for (const char c : name) {
    out.low = hash_mix(out.low, static_cast<uint8_t>(c));
    out.high = hash_mix(out.high ^ 0x5bd1e995u, static_cast<uint8_t>(c));
  }
  return out;
}

KernelLibrary::KernelLibrary(Context& context, const LibraryOptions& options)
    : context_(context),
      options_(options),
      features_(narrowed(detect_features(), context.options().vector_bytes)),
      cache_(context.heap()),
      codes_(context.heap()),
      code_by_key_(context.heap()),
      kernels_(context.heap()),
      names_(context.heap()),
      trim_at_(options.loaded_limit),
      later_(context.heap()) {}

KernelLibrary::~KernelLibrary() {
  background_.stop();
  for (LaterUnit* unit : later_) context_.heap().destroy(unit);
  for (LoadedPack* code : codes_) context_.heap().destroy(code);
  if (llvm_ != nullptr) context_.heap().destroy(llvm_);
}

Status KernelLibrary::create(KernelLibrary** out, Context& context, const LibraryOptions& options) {
  KernelLibrary* library = context.heap().create<KernelLibrary>(context, options);
  if (library == nullptr) return out_of_memory(sizeof(KernelLibrary));
  if (!can_map_code()) library->options_.shared_objects = true;
  if (context.options().no_disk_cache == 0) {
    const Status status = library->cache_.open(context.options().cache_dir);
    if (!status.ok()) {
      destroy(library);
      return status;
    }
  }
  *out = library;
  return kOk;
}

void KernelLibrary::destroy(KernelLibrary* library) {
  if (library != nullptr) library->context_.heap().destroy(library);
}

const char* compiler_choice(const Context& context) {
  const char* choice = context.options().compiler;
  if (choice == nullptr || choice[0] == '\0') choice = flag_text(Flag::kCompiler);
  return choice != nullptr ? choice : "";
}

Status KernelLibrary::compiler(const CompilerInfo** out) {
  if (!compiler_sought_) {
    const char* choice = compiler_choice(context_);
    if (std::string_view(choice) == kLlvmChoice) choice = "";  // for what LLVM does not do
    IdentityCache identities = {&cache_, &context_.heap()};
    const Status status =
        find_compiler(&compiler_, choice, {&identities, IdentityCache::recall, IdentityCache::keep},
                      context_.heap(), patience());
    if (!status.ok() && status.code != static_cast<int32_t>(aster::Code::kUNSUPPORTED))
      return status;
    compiler_sought_ = true;
    if (!status.ok())
      std::snprintf(no_compiler_, sizeof(no_compiler_), "%s", SavedError::message());
  }
  if (compiler_.kind == CompilerKind::kNone) return ASTER_FAIL(kUNSUPPORTED, "%s", no_compiler_);
  *out = &compiler_;
  return kOk;
}

const Llvm* KernelLibrary::llvm() {
  if (llvm_sought_) return llvm_;
  llvm_sought_ = true;
  // Its objects are not linked: where code may not be mapped, the compiler has to do.
  if (compiler_choice(context_) != kLlvmChoice || options_.shared_objects) return nullptr;
  const SavedError before;
  Llvm* const found = context_.heap().create<Llvm>();
  Status status = found != nullptr
                      ? find_llvm(found, flag_text(Flag::kLlvm), cache_, context_.heap())
                      : out_of_memory(sizeof(Llvm));
  if (!status.ok()) {
    context_.log(ASTER_ML_LOG_WARNING, "kernels go to the C compiler: %s", SavedError::message());
    if (found != nullptr) context_.heap().destroy(found);
    before.restore();
    return nullptr;
  }
  return llvm_ = found;
}

Status KernelLibrary::prepare() {
  Side& mine = side();
  if (mine.prepared) return kOk;
  if (ir_) {
    if (llvm() == nullptr) return ASTER_FAIL(kINTERNAL, "texts for LLVM, which is not here");
    mine.provider = llvm_provider(llvm_);
  } else if (mine.provider.compile == nullptr) {
    const CompilerInfo* found = nullptr;
    ASTER_TRY(compiler(&found));
    mine.provider = system_provider(&compiler_);
  }
  Text identity(context_.heap());
  identity << kKeyVersion << "\n" << aster_ml_version() << "\n" << mine.provider.name << "\n";
  ASTER_TRY(mine.provider.identify(mine.provider.self, features_, identity));
  identity << "\n" << (options_.shared_objects ? "shared" : "relocatable") << "\n";
  write_features(identity, features_);
  ASTER_TRY(identity.status());
  mine.base = digest_of(identity.view());
  write_hex(mine.base.data(), sizeof(mine.target) / 2, mine.target);
  mine.prepared = true;
  return kOk;
}

Status KernelLibrary::identity(Digest* out) {
  ir_ = false;
  ASTER_TRY(prepare());
  *out = side().base;
  return kOk;
}

namespace {

// The object files of a pack, one after another: how many there are, their sizes, they themselves.
class Pack {
 public:
  explicit Pack(std::span<const uint8_t> bytes) : rest_(bytes) {
    uint64_t count = 0;
    if (take_number(&rest_, &count) && count <= rest_.size() / sizeof(uint64_t) &&
        take(&rest_, count * sizeof(uint64_t), &sizes_))
      left_ = count;
  }
  bool whole() const { return left_ != kTorn; }
  uint64_t left() const { return left_; }
  // The next one, where there is one.
  bool next(std::span<const uint8_t>* object) {
    uint64_t size = 0;
    if (!whole() || left_ == 0 || !take_number(&sizes_, &size) || !take(&rest_, size, object))
      return false;
    --left_;
    return true;
  }

 private:
  static constexpr uint64_t kTorn = UINT64_MAX;
  std::span<const uint8_t> rest_, sizes_;
  uint64_t left_ = kTorn;
};

}  // namespace

Status KernelLibrary::add_code(const Digest& key, std::span<const uint8_t> pack, LoadedPack** out) {
  *out = nullptr;
  Pack objects(pack);
  if (!objects.whole()) return ASTER_FAIL(kFORMAT, "a torn pack");
  Memory& memory = context_.heap();
  LoadedPack* code = memory.create<LoadedPack>(memory, key);
  if (code == nullptr) return out_of_memory(sizeof(LoadedPack));
  const auto fill = [&]() -> Status {
    while (objects.left() != 0) {
      std::span<const uint8_t> object;
      if (!objects.next(&object)) return ASTER_FAIL(kFORMAT, "a torn pack");
      ASTER_TRY(code->images.push(Image(memory)));
      Image& image = code->images.back();
      ASTER_TRY(options_.shared_objects ? image.load_shared(object) : image.load(object));
      code->bytes += image.bytes();
    }
    ASTER_TRY(codes_.push(code));
    return code_by_key_.set(key, code);
  };
  const Status status = fill();
  if (!status.ok()) {
    if (!codes_.empty() && codes_.back() == code) codes_.pop();
    memory.destroy(code);
    return status;
  }
  loaded_bytes_ += code->bytes;
  *out = code;
  return kOk;
}

// Unloads the oldest code that nobody holds. Needs memory to make the smaller maps; without it all
// stays as it is.
void KernelLibrary::trim() {
  if (loaded_bytes_ <= trim_at_) return;
  uint64_t left = loaded_bytes_;
  for (LoadedPack* code : codes_) {
    code->unloading = code->users == 0 && !code->pending && left > options_.loaded_limit / 2;
    if (code->unloading) left -= code->bytes;
  }
  Map<Digest, LoadedPack*, DigestHash> by_key(context_.heap());
  Map<Digest, Entry, DigestHash> kernels(context_.heap());
  Map<Name, Digest, NameWord> names(context_.heap());
  for (const auto& entry : code_by_key_) {
    if (!entry.value->unloading && !by_key.set(entry.key, entry.value).ok()) return;
  }
  for (const auto& entry : kernels_) {
    if (!entry.value.code->unloading && !kernels.set(entry.key, entry.value).ok()) return;
  }
  for (const auto& entry : names_) {
    if (kernels.contains(entry.value) && !names.set(entry.key, entry.value).ok()) return;
  }
  code_by_key_ = std::move(by_key);
  kernels_ = std::move(kernels);
  names_ = std::move(names);
  size_t kept = 0;
  for (LoadedPack* code : codes_) {
    if (code->unloading) {
      context_.heap().destroy(code);
    } else {
      codes_[kept++] = code;
    }
  }
  codes_.truncate(kept);
  loaded_bytes_ = left;
  trim_at_ = std::max(options_.loaded_limit, 2 * left);
}

bool KernelLibrary::object_of(const void* function, Vec<uint8_t>* out) {
  const LoadedPack* pack = nullptr;
  size_t number = 0;
  for (const LoadedPack* code : codes_) {
    for (size_t i = 0; i < code->images.size() && pack == nullptr; ++i) {
      if (code->images[i].has(function)) pack = code, number = i;
    }
  }
  if (pack == nullptr) return false;
  for (const Side& side : sides_) {
    Vec<uint8_t> bytes(context_.heap());
    if (!side.prepared || !cache_.get({side.target, sizeof(Side::target)}, pack->key, &bytes))
      continue;
    Pack objects({bytes.data(), bytes.size()});
    std::span<const uint8_t> object;
    for (size_t i = 0; i <= number; ++i) {
      if (!objects.next(&object)) return false;
    }
    return out->append(object.data(), object.size()).ok();
  }
  return false;
}

// What is wrong with the cache is said once.
void KernelLibrary::put(const Digest& key, std::span<const uint8_t> bytes) {
  cache_.put(target_name(), key, bytes);
  const char* problem = cache_.problem();
  const std::string_view path = cache_.path();
  if (problem != nullptr && problem != said_problem_) {
    context_.log(ASTER_ML_LOG_WARNING, "compiled kernels are not kept in '%.*s': %s",
                 static_cast<int>(path.size()), path.data(), problem);
    said_problem_ = problem;
  }
  if (cache_.damaged() != said_damaged_) {
    context_.log(ASTER_ML_LOG_WARNING, "%llu damaged files were removed from '%.*s'",
                 static_cast<unsigned long long>(cache_.damaged() - said_damaged_),
                 static_cast<int>(path.size()), path.data());
    said_damaged_ = cache_.damaged();
  }
}

Status KernelLibrary::load(std::string_view declarations, std::span<const KernelSource> kernels,
                           std::span<void*> functions, KernelSet** out, CompileStats* stats,
                           bool ir, const UnitDeclarations* units,
                           std::span<const LaterCode*> later) {
  *out = nullptr;
  ir_ = ir;
  if (kernels.size() != functions.size() || (!later.empty() && later.size() != kernels.size()))
    return ASTER_FAIL(kINTERNAL, "one function a kernel");
  ASTER_TRY(collect());
  const double start = now_ms();
  CompileStats own;
  own.kernels = static_cast<int64_t>(kernels.size());
  ASTER_TRY(prepare());
  Memory& memory = context_.heap();
  KernelSet* set = memory.create<KernelSet>(memory);
  if (set == nullptr) return out_of_memory(sizeof(KernelSet));
  const Status status =
      KernelLoad(*this, declarations, kernels, functions, &own, units, later).run(set);
  if (!status.ok()) {
    set->release();
    for (void*& function : functions) function = nullptr;
    return status;
  }
  own.total_ms = now_ms() - start;
  totals_.kernels += own.kernels;
  totals_.reused += own.reused;
  totals_.cached += own.cached;
  totals_.compiled += own.compiled;
  totals_.units += own.units;
  totals_.compile_ms += own.compile_ms;
  totals_.total_ms += own.total_ms;
  if (stats != nullptr) *stats = own;
  *out = set;
  trim();
  return kOk;
}

}  // namespace aster::runtime::cpu
