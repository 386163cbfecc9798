// Compiled kernels on disk, and data that is mapped: a directory of checked, content-named files
// that any number of processes share.
#pragma once

#include <span>
#include <string_view>

#include "base/text.h"
#include "runtime/cpu/file.h"
#include "runtime/cpu/sha256.h"

namespace aster::runtime::cpu {

// <root>/v<format>/<target>/<aa>/<64 hex digits of the key>. What is in there gets executed, so the
// directory and its files must belong to the effective user and be writable by nobody else; others
// are ignored. Files appear by rename and are never changed, so readers need no lock and a writer
// killed at any moment leaves at most a temporary file. The directory may be a link, if that too
// belongs to the user, or to root. A cache that cannot be used (no home, read-only, full, foreign)
// misses always, and problem() says why.
class Cache {
 public:
  explicit Cache(Memory& memory) : memory_(memory), root_(memory) {}

  // Names the directory: `choice`, else $ASTER_ML_CACHE_DIR, $XDG_CACHE_HOME/aster_ml,
  // ~/.cache/aster_ml. Nothing is touched on disk before the first get or put. A named relative
  // directory starts at the working directory of now. Without any of them the cache stays closed.
  // Errors: MEMORY.
  Status open(const char* choice);
  bool enabled() const { return enabled_; }
  // Why nothing was found or kept the last time that the directory was looked at; null when it was
  // fine, or only empty. Owns: static text.
  const char* problem() const { return problem_; }
  // Files that were not what they should have been, and were removed.
  uint64_t damaged() const { return damaged_; }

  // The bytes kept under a key; false if there are none, or they are not what was put (then the
  // file is removed). target is the name of a folder: up to 32 letters and digits.
  bool get(std::string_view target, const Digest& key, Vec<uint8_t>* out);
  // Keeps bytes under a key; problem() tells of a failure. Now and then removes the oldest files
  // beyond the limit.
  void put(std::string_view target, const Digest& key, std::span<const uint8_t> bytes);

  // Entries that are mapped, not read, in a folder of their own: of size bytes, which begin with a
  // page; the file's last 64 say what they are. In memory of its own, or at a place, in which case
  // what was mapped there before is gone. Null where there is none. Checked by the caller:
  // is_whole().
  struct Mapped {
    void* data = nullptr;
    uint64_t sum = 0;
  };
  Mapped map(const Digest& key, size_t size, void* place);
  // Whether the bytes mapped are those that were put.
  static bool is_whole(const Mapped& mapped, size_t size);
  void drop(const Digest& key);  // one that is not whole
  // Keeps bytes to be mapped. Their files have a limit of their own, eight times that of the
  // others, and take at most an eighth of the space that is left.
  void put_mapped(const Digest& key, std::span<const uint8_t> bytes);
  static void unmap(void* data, size_t size);

  struct Info {
    uint64_t entries = 0;
    uint64_t bytes = 0;
    uint64_t limit = 0;
    uint64_t hits = 0;  // of this object
    uint64_t misses = 0;
  };
  Info info();
  std::string_view path() const { return enabled_ ? root_.view() : std::string_view(); }

  // Removes every entry, and nothing that is not laid out like one. Errors: IO, MEMORY.
  Status clear();
  // Removes the oldest entries until at most limit bytes are left, and temporary files of an hour
  // ago; of those that are mapped, or of the others.
  Status evict(uint64_t limit, bool mapped = false);
  void set_limit(uint64_t bytes) { limit_ = bytes; }

 private:
  Descriptor open_root(bool make);
  Descriptor open_folder(std::string_view target, const Digest& key, bool make);
  bool keep(int folder, const Digest& key, std::span<const uint8_t> bytes, bool mapped);

  Memory& memory_;
  Text root_;
  bool enabled_ = false;
  const char* problem_ = nullptr;
  uint64_t limit_ = 0;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
  uint64_t damaged_ = 0;
  uint64_t unlooked_ = 0;  // bytes put to be mapped since eviction last looked
};

}  // namespace aster::runtime::cpu
