// Kernel texts in, functions out: looks kernels up in memory and on disk, compiles what is new,
// loads it and keeps it.
#pragma once

#include <span>
#include <string_view>

#include "base/context.h"
#include "runtime/cpu/background.h"
#include "runtime/cpu/cache.h"
#include "runtime/cpu/compiler.h"
#include "runtime/cpu/elf_loader.h"
#include "runtime/cpu/features.h"

namespace aster::runtime::cpu {

// One function of C, or of LLVM IR. Equal names in one call mean equal texts.
struct KernelSource {
  std::string_view name;
  std::string_view text;
  // What of the declarations this kernel uses, for its key. With it, a kernel is found again under
  // a declarations made for other kernels beside it; empty means the whole declarations.
  std::string_view needs = {};
  // Its name stands for its text, in all calls: it is found again by it alone (has_named), without
  // a text.
  bool named = false;
  // It need not be there when load returns: where it is new, it is compiled beside the caller.
  bool later = false;
  // It is known by what it is kept under (key_of), and has no text: found, or not.
  const Digest* key = nullptr;
};

// Where the code of a kernel is once it is compiled; null before, and for ever where it fails.
using LaterCode = std::atomic<void*>;

struct CompileStats {
  int64_t kernels = 0;   // asked for
  int64_t reused = 0;    // were loaded already
  int64_t cached = 0;    // came from disk
  int64_t compiled = 0;  // were compiled, or are being
  int64_t units = 0;     // translation units they were compiled in
  double compile_ms = 0;
  double total_ms = 0;
};

// What stands before some of a request's kernels in a translation unit of their own.
struct UnitDeclarations {
  void* self;
  Status (*write)(void* self, std::span<const size_t> kernels, Text& out);
};

// What turns C text into machine code. A table, so that others (LLVM in memory) stand beside the
// system's compiler.
struct Provider {
  const char* name;
  void* self;
  // Writes all that changes the code besides the text: versions and flags, for the keys.
  Status (*identify)(void* self, const CpuFeatures& features, Text& out);
  // Relocatable objects of C sources, in parallel where it can. Errors: COMPILE and the usual.
  Status (*compile)(void* self, const CpuFeatures& features,
                    std::span<const std::string_view> sources, std::span<Vec<uint8_t>> objects,
                    Memory& memory, const Patience& patience);
  // A shared object of a relocatable one, for hosts that forbid to map code; null: cannot.
  Status (*link)(void* self, std::span<const uint8_t> object, Vec<uint8_t>* shared, Memory& memory,
                 const Patience& patience);
  // Bytes of text from which on kernels are one unit more, where units cost little: threads take
  // the next that is left, and a call that is stopped waits for no more than one. 0: one unit a
  // thread.
  size_t unit_bytes = 0;
  // The same of units that are compiled beside a caller who may want one of their kernels at once.
  size_t later_bytes = 0;
  // Whether it may be used on other threads while the process does what it will, now; null: always.
  bool (*may_wait)(void* self) = nullptr;
};

// Folder of the disk cache for what compilers and libraries are.
inline constexpr std::string_view kIdentityTarget = "compilers";

struct Llvm;
struct LoadedPack;  // what one compilation gave, loaded
struct LaterUnit;   // one that goes on beside the context's thread

// The loaded code that some kernels need; keeps it mapped. Belongs to the context's thread.
class KernelSet {
 public:
  explicit KernelSet(Memory& memory) : codes_(memory) {}
  void retain() { ++references_; }
  void release();  // the last one lets the code be unloaded

 private:
  friend class KernelLoad;
  Vec<LoadedPack*> codes_;
  uint32_t references_ = 1;
};

struct LibraryOptions {
  bool shared_objects = false;  // as on a host that forbids to map code
  uint64_t loaded_limit = uint64_t{256}
                          << 20;  // bytes of code beyond which what nobody uses is unloaded
};

// What the options or the environment say of the compiler: a path, a name, "none", "llvm", or
// nothing.
const char* compiler_choice(const Context& context);

// The kernels of a context.
class KernelLibrary {
 public:
  static Status create(KernelLibrary** out, Context& context, const LibraryOptions& options);
  static void destroy(KernelLibrary* library);

  // libLLVM, where it is chosen and here; null: the compiler does all. Looked for at the first
  // call; where it is chosen and not here, the log says so.
  const Llvm* llvm();

  // functions[i] becomes the address of kernels[i], valid while *out is held. declarations stands
  // before the kernels in every translation unit; its functions are static. units, which may be
  // null, writes what of it some kernels use. stats may be null. ir: the texts are LLVM's, and
  // llvm() is there. later: for each kernel that may be, where its code will be if it is not there
  // yet, and null if it is; empty where none may be.
  // Errors: UNSUPPORTED (no compiler here: the reference runtime has to do); COMPILE; DEVICE;
  // CANCELLED; ARGUMENT (one name, two texts); NOT_FOUND (what has no text is not there).
  Status load(std::string_view declarations, std::span<const KernelSource> kernels,
              std::span<void*> functions, KernelSet** out, CompileStats* stats, bool ir = false,
              const UnitDeclarations* units = nullptr, std::span<const LaterCode*> later = {});
  // Takes what was compiled beside the caller, and says what failed. Before anybody asks which
  // kernels are there.
  Status collect();
  // When the compilation of such a kernel is done, well or not. Errors: CANCELLED.
  Status finish(const LaterCode* code);
  uint64_t being_compiled() const { return later_.size(); }  // units

  // Whether a kernel that was loaded by its name is still there, until the next load; not while it
  // is being compiled.
  bool has_named(std::string_view name) const {
    const Digest* key = names_.find(name_of(name));
    const Entry* const entry = key != nullptr ? kernels_.find(*key) : nullptr;
    return entry != nullptr && entry->is_there();
  }

  // What the C compiler's kernels are kept under depends on, beside their texts: its version and
  // flags, the features, the library's version. Errors: as compiler.
  Status identity(Digest* out);
  // What a named kernel of such a load is kept under; false: it is not loaded.
  bool key_of(std::string_view name, Digest* out) const {
    const Digest* const key = names_.find(name_of(name));
    if (key != nullptr) *out = *key;
    return key != nullptr;
  }

  // The object file that a function of a kernel was loaded from, where the disk cache has it;
  // false: it has not.
  bool object_of(const void* function, Vec<uint8_t>* out);

  const CpuFeatures& features() const { return features_; }
  // The compiler, looked for at the first call. Errors: as find_compiler.
  Status compiler(const CompilerInfo** out);
  Cache& cache() { return cache_; }
  const CompileStats& totals() const { return totals_; }
  uint64_t loaded_bytes() const { return loaded_bytes_; }
  // Another provider in place of the system's compiler, before the first load.
  void set_provider(const Provider& provider) { sides_[0].provider = provider; }

 private:
  friend ::aster::Memory;
  friend class KernelLoad;
  KernelLibrary(Context& context, const LibraryOptions& options);
  ~KernelLibrary();

  struct Entry {
    LoadedPack* code;
    void* function;              // null: is being compiled
    LaterCode* later = nullptr;  // then
    bool is_there() const { return function != nullptr || later->load() != nullptr; }
  };
  struct DigestHash {
    uint64_t operator()(const Digest& digest) const;
  };
  // Of 128 bits.
  struct Name {
    uint64_t low = 1, high = 2;
    bool operator==(const Name&) const = default;
  };
  struct NameWord {
    uint64_t operator()(const Name& name) const { return name.low; }
  };
  static Name name_of(std::string_view name);

  Patience patience() const {
    return {context_.options().compile_timeout_ms, &context_.interrupt(),
            [](void* self, const char* line) {
              static_cast<const Context*>(self)->log(ASTER_ML_LOG_INFO, "%s", line);
            },
            &context_};
  }
  // A provider and what all keys of its texts begin with.
  struct Side {
    Provider provider = {};
    bool prepared = false;
    Digest base = {};      // of everything but the texts
    char target[16] = {};  // folder in the disk cache
  };
  Side& side() { return sides_[ir_ ? 1 : 0]; }
  std::string_view target_name() { return {side().target, sizeof(Side::target)}; }
  Status prepare();  // finds the provider and what all keys begin with
  Status add_code(const Digest& key, std::span<const uint8_t> pack, LoadedPack** out);
  void trim();
  Status take_unit(LaterUnit* unit);
  void put(const Digest& key, std::span<const uint8_t> bytes);

  Context& context_;
  LibraryOptions options_;
  CpuFeatures features_;
  Cache cache_;
  CompilerInfo compiler_;
  bool compiler_sought_ = false;
  char no_compiler_[sizeof(aster_ml_error::message)] = {};  // why there is none
  Side sides_[2];                                           // the compiler's and LLVM's
  bool ir_ = false;                                         // which of them the load at hand is for
  Llvm* llvm_ = nullptr;
  bool llvm_sought_ = false;
  Vec<LoadedPack*> codes_;
  Map<Digest, LoadedPack*, DigestHash> code_by_key_;
  Map<Digest, Entry, DigestHash> kernels_;
  Map<Name, Digest, NameWord> names_;
  CompileStats totals_;
  uint64_t loaded_bytes_ = 0;
  uint64_t trim_at_ = 0;
  Background background_;
  Vec<LaterUnit*> later_;               // not taken yet
  const char* said_problem_ = nullptr;  // of the cache, in the log
  uint64_t said_damaged_ = 0;
};

}  // namespace aster::runtime::cpu
