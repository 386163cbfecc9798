#include "runtime/cpu/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace aster::runtime::cpu {

void Descriptor::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Descriptor open_memory_file(const char* name) {
  Descriptor file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid() || file.get() > STDERR_FILENO) return file;
  return Descriptor(fcntl(file.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

bool write_all(int fd, std::span<const uint8_t> bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes.size()) return false;
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

Status read_file(int fd, size_t offset, size_t limit, Vec<uint8_t>* out) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ASTER_FAIL(kIO, "cannot inspect a file (errno %d)", errno);
  const size_t end = info.st_size < 0 ? 0 : static_cast<size_t>(info.st_size);
  const size_t size = end < offset ? 0 : end - offset;
  out->clear();
  ASTER_TRY(out->resize(size < limit ? size : limit));
  size_t done = 0;
  while (done < out->size()) {
    const ssize_t n =
        pread(fd, out->data() + done, out->size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ASTER_FAIL(kIO, "cannot read a file (errno %d)", errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  out->truncate(done);
  return kOk;
}

}  // namespace aster::runtime::cpu
