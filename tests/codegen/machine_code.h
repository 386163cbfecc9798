// Machine code from render_x86, called.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "codegen/render_x86.h"

namespace aster::codegen::program::tests {

// Registers that nothing was written to are not zero: those of vectors are NaN from here on, masks
// are full.
inline void spoil_registers() {
  asm volatile(
      "vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n vmovdqa %%ymm0, %%ymm1\n vmovdqa %%ymm0, %%ymm2\n"
      "vmovdqa %%ymm0, %%ymm3\n vmovdqa %%ymm0, %%ymm4\n vmovdqa %%ymm0, %%ymm5\n"
      "vmovdqa %%ymm0, %%ymm6\n vmovdqa %%ymm0, %%ymm7\n vmovdqa %%ymm0, %%ymm8\n"
      "vmovdqa %%ymm0, %%ymm9\n vmovdqa %%ymm0, %%ymm10\n vmovdqa %%ymm0, %%ymm11\n"
      "vmovdqa %%ymm0, %%ymm12\n vmovdqa %%ymm0, %%ymm13\n vmovdqa %%ymm0, %%ymm14\n"
      "vmovdqa %%ymm0, %%ymm15\n" ::
          : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
            "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  if (!__builtin_cpu_supports("avx512bw")) return;
  asm volatile(
      "vpternlogd $255, %%zmm0, %%zmm0, %%zmm0\n vmovdqa32 %%zmm0, %%zmm1\n"
      "vmovdqa32 %%zmm0, %%zmm2\n vmovdqa32 %%zmm0, %%zmm3\n vmovdqa32 %%zmm0, %%zmm16\n"
      "vmovdqa32 %%zmm0, %%zmm17\n vmovdqa32 %%zmm0, %%zmm18\n vmovdqa32 %%zmm0, %%zmm19\n"
      "kxnorq %%k1, %%k1, %%k1\n kxnorq %%k2, %%k2, %%k2\n kxnorq %%k3, %%k3, %%k3\n"
      "kxnorq %%k4, %%k4, %%k4\n kxnorq %%k5, %%k5, %%k5\n kxnorq %%k6, %%k6, %%k6\n"
      "kxnorq %%k7, %%k7, %%k7\n" ::
          : "xmm0", "xmm1", "xmm2", "xmm3");
}

class MachineCode {
 public:
  using Function = void (*)(void* const* params, const long long* sizes, void* scratch,
                            long long begin, long long end);
  MachineCode(const Module& module, const Target& target) {
    Vec<uint8_t> code(process_heap());
    status_ = render_x86(&code, module, target);
    if (!status_.ok()) return;
    size_ = code.size();
    at_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(at_, code.data(), size_);
    if (std::getenv("ASTER_TEST_KEEP") != nullptr) {
      FILE* const file = std::fopen("/tmp/aster_code.bin", "wb");
      std::fwrite(at_, 1, size_, file);
      std::fclose(file);
    }
    mprotect(at_, size_, PROT_READ | PROT_EXEC);
  }
  ~MachineCode() {
    if (at_ != nullptr) munmap(at_, size_);
  }
  MachineCode(const MachineCode&) = delete;
  MachineCode& operator=(const MachineCode&) = delete;
  Status status() const { return status_; }
  size_t size() const { return size_; }
  Function function() const { return reinterpret_cast<Function>(at_); }

 private:
  Status status_;
  void* at_ = nullptr;
  size_t size_ = 0;
};

}  // namespace aster::codegen::program::tests
