// Descriptors and whole-file reads and writes that leave no trace in the host.
#pragma once

#include <span>

#include "base/memory.h"

namespace aster::runtime::cpu {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  void reset(int fd = -1);
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

// An anonymous file in memory, closed on exec, never descriptor 0, 1 or 2 (which the host may have
// closed). Invalid when the system has none left.
Descriptor open_memory_file(const char* name);

// False when the file could not take all the bytes. A size beyond RLIMIT_FSIZE is refused
// beforehand, because reaching the limit would end the host with SIGXFSZ.
bool write_all(int fd, std::span<const uint8_t> bytes);

// Reads the file from offset to its end, at most limit bytes. Errors: IO.
Status read_file(int fd, size_t offset, size_t limit, Vec<uint8_t>* out);

inline std::span<const uint8_t> as_bytes(const void* data, size_t size) {
  return {static_cast<const uint8_t*>(data), size};
}

}  // namespace aster::runtime::cpu
