// Descriptors and whole-file reads and writes that leave no trace in the host.
#pragma once

#include <span>

#include "base/memory.h"
#include "base/text.h"

struct stat;

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

// What is written to a path, as tools write. Links are followed to the file that they name, there
// or not. A regular file is replaced when all is written, and keeps its permissions; one that must
// not be written is refused. What is no regular file (a device, a pipe) is written through.
class Replacement {
 public:
  explicit Replacement(Memory& memory) : target_(memory), temporary_(memory) {}
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  // False with errno where the path cannot be written.
  bool open(const char* path);
  // False with errno where the file could not take all the bytes; a pipe that nobody reads any more
  // is EPIPE.
  bool write(std::span<const uint8_t> bytes);
  // Puts what was written in the place of the file; without it the file stays as it was.
  bool finish();

 private:
  bool follow(const char* path);
  bool open_beside(const struct stat* old);
  Text target_;     // behind the links
  Text temporary_;  // empty where the file itself is written
  Descriptor file_;
};

// Reads the file from offset to its end, at most limit bytes. Errors: IO.
Status read_file(int fd, size_t offset, size_t limit, Vec<uint8_t>* out);

// What an errno means, for messages. Owns: static text.
const char* error_text(int error);

inline std::span<const uint8_t> as_bytes(const void* data, size_t size) {
  return {static_cast<const uint8_t*>(data), size};
}

}  // namespace aster::runtime::cpu
