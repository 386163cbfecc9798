// Compiled programs called on memory of their own.
#pragma once

#include "codegen/program_evaluator.h"

namespace aster::codegen::program::tests {

using Function = void (*)(void* const* params, const long long* sizes, void* scratch,
                          long long begin, long long end);

// Memory on a cache line or one element past it, between known bytes.
class Launch {
 public:
  Launch(const std::vector<Param>& params, bool aligned) : params_(params) {
    for (const Param& p : params) {
      const size_t skip = aligned ? 0 : dtype::size(p.dtype);
      memory_.emplace_back(p.bytes.size() + 256, uint8_t{0xAB});
      const size_t line = 64 - reinterpret_cast<uintptr_t>(memory_.back().data()) % 64;
      pointers_.push_back(memory_.back().data() + line + 64 + skip);
      std::memcpy(pointers_.back(), p.bytes.data(), p.bytes.size());
    }
  }
  void run(Function function, const std::vector<int64_t>& sizes, int64_t scratch, int64_t begin,
           int64_t end) {
    const std::vector<long long> numbers(sizes.begin(), sizes.end());
    std::vector<uint8_t> room(static_cast<size_t>(scratch) + 64, uint8_t{0xCD});
    uint8_t* at = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
    function(reinterpret_cast<void* const*>(pointers_.data()), numbers.data(), at, begin, end);
  }
  std::vector<Param> take(const std::string& where) {
    std::vector<Param> out = params_;
    for (size_t i = 0; i < out.size(); ++i) {
      const uint8_t* const from = pointers_[i];
      std::memcpy(out[i].bytes.data(), from, out[i].bytes.size());
      for (const uint8_t* at = memory_[i].data(); at < memory_[i].data() + memory_[i].size();
           ++at) {
        const bool inside = at >= from && at < from + out[i].bytes.size();
        if (!inside && *at != 0xAB) ADD_FAILURE() << where << " wrote around param " << i;
      }
    }
    return out;
  }

 private:
  const std::vector<Param>& params_;
  std::vector<std::vector<uint8_t>> memory_;
  std::vector<uint8_t*> pointers_;
};

}  // namespace aster::codegen::program::tests
