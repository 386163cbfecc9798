// Kernels that are compiled beside the context's thread, and what one compilation gives.
#pragma once

#include "runtime/cpu/module.h"

namespace aster::runtime::cpu {

struct LoadedPack {
  LoadedPack(Memory& memory, const Digest& given) : key(given), images(memory) {}
  ~LoadedPack() { images.memory().release(later, laters * sizeof(LaterCode), alignof(LaterCode)); }
  LoadedPack(const LoadedPack&) = delete;
  LoadedPack& operator=(const LoadedPack&) = delete;
  Digest key;
  Vec<Image> images;
  // Of what is, or was, compiled beside the context's thread: where its kernels are once they are.
  LaterCode* later = nullptr;
  size_t laters = 0;
  bool pending = false;
  size_t bytes = 0;
  uint32_t users = 0;
  bool unloading = false;

  void* find(std::string_view name) const {
    for (const Image& image : images) {
      if (void* function = image.find(name)) return function;
    }
    return nullptr;
  }
};

// Some kernels on their way to code. Where they are is written last of all.
struct LaterUnit : Job {
  explicit LaterUnit(Memory& memory)
      : text(memory), ends(memory), names(memory), keys(memory), target(memory), images(memory) {}
  static void run(Job& job, Interrupt& stop);  // its body

  Provider provider = {};
  CpuFeatures features;
  int32_t timeout_ms = 0;
  bool shared_objects = false;
  Vec<char> text;    // what they use, then each
  Vec<size_t> ends;  // of these parts
  Vec<Text> names;
  Vec<Digest> keys;
  const char* cache_dir = nullptr;  // null: nothing is kept on disk; empty: where no option says
  Text target;                      // folder there
  // What it comes to.
  LoadedPack* pack = nullptr;
  Vec<Image> images;
  size_t bytes = 0;
  bool failed = false;
  SavedError error;  // of the first that failed

 private:
  std::string_view part(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends[i - 1];
    return {text.data() + begin, ends[i] - begin};
  }
  Status compile_each(const Patience& patience);
  Status compile(std::string_view source, const Patience& patience, size_t first, size_t last);
  void keep(std::span<const Vec<uint8_t>> objects) const;
};

}  // namespace aster::runtime::cpu
