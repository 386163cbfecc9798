// Loads machine code from object bytes into memory, without a linker or a file.
#pragma once

#include <span>
#include <string_view>

#include "base/hash_map.h"
#include "runtime/cpu/file.h"

namespace aster::runtime::cpu {

struct NameHash {
  uint64_t operator()(std::string_view name) const;
};

// Code of one object, mapped until destruction. Pages are never writable and executable at once.
class Image {
 public:
  explicit Image(Memory& memory) : names_(memory), functions_(memory) {}
  ~Image() { unload(); }
  Image(Image&& other) noexcept;
  Image& operator=(Image&&) = delete;

  // Loads a relocatable x86-64 object. Every offset and size in it is checked: the bytes come from
  // disk. Undefined symbols may only be those of symbols.def. Errors: FORMAT (malformed or with
  // anything a kernel has no use for); UNSUPPORTED (another machine; the system does not let memory
  // become executable: link_shared and load_shared may still work); MEMORY. Nothing stays mapped.
  Status load(std::span<const uint8_t> object);

  // Loads a shared object through the system's loader. It must be trusted: nothing in it is
  // checked. Errors: UNSUPPORTED with the loader's message.
  Status load_shared(std::span<const uint8_t> object);

  // Address of a global function; null if there is none of this name.
  void* find(std::string_view name) const;
  bool has(const void* function) const;

  size_t bytes() const { return size_; }

 private:
  void unload();
  friend class Loader;

  void* base_ = nullptr;    // of the mapping
  size_t size_ = 0;         // of the mapping
  void* shared_ = nullptr;  // handle of load_shared
  Descriptor
      shared_file_;  // stays open: the system's loader takes an equal path for the same library
  Vec<char> names_;  // what the keys of functions_ point into
  Map<std::string_view, void*, NameHash> functions_;
};

// Whether this process may make memory executable: maps a page and tries.
bool can_map_code();

}  // namespace aster::runtime::cpu
