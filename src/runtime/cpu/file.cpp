#include "runtime/cpu/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

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

const char* error_text(int error) {
  const char* text = strerrordesc_np(error);
  return text != nullptr ? text : "unknown error";
}

bool write_all(int fd, std::span<const uint8_t> bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes.size()) {
    errno = EFBIG;
    return false;
  }
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

namespace {

constexpr int kMostLinks = 40;  // as the system's limit

bool fail_with(int error) {
  errno = error;
  return false;
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Keeps SIGPIPE from the host while a pipe is written that nobody reads.
class PipeGuard {
 public:
  PipeGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    had_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeGuard() {
    const int error = errno;
    const timespec none{};
    if (!had_ && error == EPIPE) sigtimedwait(&pipe_, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  PipeGuard(const PipeGuard&) = delete;
  PipeGuard& operator=(const PipeGuard&) = delete;

 private:
  sigset_t pipe_, before_;
  bool had_;
};

}  // namespace

Replacement::~Replacement() {
  if (!temporary_.view().empty()) unlink(temporary_.c_str());
}

// target_ becomes the path behind all links of its last part.
bool Replacement::follow(const char* path) {
  target_ << path;
  for (int i = 0; i < kMostLinks; ++i) {
    if (target_.c_str() == nullptr) return fail_with(ENOMEM);
    char link[PATH_MAX];
    const ssize_t length = readlink(target_.c_str(), link, sizeof(link));
    if (length < 0) return errno == EINVAL || errno == ENOENT;  // no link, or nothing there yet
    if (static_cast<size_t>(length) == sizeof(link)) return fail_with(ENAMETOOLONG);
    const size_t slash = target_.view().rfind('/');
    const bool whole = link[0] == '/' || slash == std::string_view::npos;
    target_.truncate(whole ? 0 : slash + 1);
    target_ << std::string_view(link, static_cast<size_t>(length));
  }
  return fail_with(ELOOP);
}

// A new file in the folder of the target, with the permissions of the old one, if there is one.
bool Replacement::open_beside(const struct stat* old) {
  static std::atomic<uint32_t> counter{0};
  temporary_.format("%s.%d-%u.part", target_.c_str(), static_cast<int>(getpid()),
                    static_cast<unsigned>(counter.fetch_add(1)));
  if (temporary_.c_str() == nullptr) return fail_with(ENOMEM);
  const mode_t mode = old == nullptr ? 0666 : 0600;
  file_ = Descriptor(
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, mode));
  if (!file_.valid()) {
    const int error = errno;
    temporary_.clear();
    return fail_with(error);
  }
  if (old == nullptr) return true;
  // Its owner, where we may give that; then its mode, less what only that owner may set.
  const bool owned = fchown(file_.get(), old->st_uid, old->st_gid) == 0;
  const mode_t special = owned ? S_ISUID | S_ISGID : 0;
  return fchmod(file_.get(), old->st_mode & (0777 | special)) == 0;
}

bool Replacement::open(const char* path) {
  struct stat old, behind;
  if (stat(path, &old) != 0) {
    return errno == ENOENT && *path != '\0' && follow(path) && open_beside(nullptr);
  }
  const bool regular = S_ISREG(old.st_mode);
  // A link that the system follows to another place than its text says is no name to replace.
  if (regular && follow(path) && stat(target_.c_str(), &behind) == 0 && same_file(old, behind)) {
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) return false;
    return open_beside(&old);
  }
  const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | (regular ? O_TRUNC : 0);
  file_ = Descriptor(::open(path, flags));
  return file_.valid();
}

bool Replacement::write(std::span<const uint8_t> bytes) {
  const PipeGuard guard;
  return write_all(file_.get(), bytes);
}

bool Replacement::finish() {
  // What is no file may have nothing to flush.
  if (fsync(file_.get()) != 0 && errno != EINVAL && errno != ENOTSUP) return false;
  if (temporary_.view().empty()) return true;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return false;
  temporary_.clear();
  return true;
}

Status read_file(int fd, size_t offset, size_t limit, Vec<uint8_t>* out) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ASTER_FAIL(kIO, "cannot inspect a file: %s", error_text(errno));
  const size_t end = info.st_size < 0 ? 0 : static_cast<size_t>(info.st_size);
  const size_t size = end < offset ? 0 : end - offset;
  out->clear();
  ASTER_TRY(out->resize(size < limit ? size : limit));
  size_t done = 0;
  while (done < out->size()) {
    const ssize_t n =
        pread(fd, out->data() + done, out->size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ASTER_FAIL(kIO, "cannot read a file: %s", error_text(errno));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  out->truncate(done);
  return kOk;
}

}  // namespace aster::runtime::cpu
