#include "runtime/cpu/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/checked.h"
#include "base/content.h"
#include "base/flags.h"

namespace aster::runtime::cpu {
namespace {

constexpr const char* kFormatFolder = "v1";
constexpr uint32_t kFormat = 2;  // an entry of another is made again
constexpr char kMagic[8] = {'a', 's', 't', 'e', 'r', 'm', 'l', 'c'};
constexpr std::string_view kTemporary = ".tmp-";
constexpr size_t kKeyDigits = 64;
constexpr size_t kTargetLimit = 32;
constexpr size_t kPathLimit = 128;  // v1/<target>/<aa>/<key or temporary>
constexpr size_t kFileLimit = size_t{256} << 20;
constexpr std::string_view kMappedFolder = "mapped";
constexpr std::string_view kMappedPath = "v1/mapped/";
constexpr size_t kMappedLimit = size_t{2} << 30;  // bytes of an entry
constexpr uint64_t kMappedTimes = 8;              // more than of kernels
constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;
constexpr uint64_t kDefaultLimit = uint64_t{512} << 20;
constexpr int64_t kDaySeconds = 24 * 60 * 60;
constexpr int64_t kHourSeconds = 60 * 60;
constexpr const char* kNoSpace = "no space is left, or files may not be as large";

struct Header {
  char magic[8];
  uint32_t format;
  uint32_t zero;
  uint64_t length;    // of the body, which follows
  uint64_t checksum;  // of key, length and body
  uint8_t key[32];
};
static_assert(sizeof(Header) == 64);

// Finds torn and rotten files; against an attacker stand the owner and mode checks.
uint64_t checksum(const Digest& key, std::span<const uint8_t> body) {
  const Content named = content_of(key), content = content_of(body);
  return hash_mix(hash_mix(named.low, named.high), hash_mix(content.low, content.high));
}

// The same of what is mapped, whose key stands beside it.
uint64_t mapped_sum(std::span<const uint8_t> body) {
  const Content content = content_of(body);
  return hash_mix(content.low, content.high);
}

int64_t now_seconds() { return static_cast<int64_t>(time(nullptr)); }

// Nobody but the effective user may have written it.
bool is_private(const struct stat& info) {
  return info.st_uid == geteuid() && (info.st_mode & 022) == 0;
}

// A folder that is private and no link; made if asked for. Invalid when it is not; errno says why
// it could not be made.
Descriptor open_private_folder(int parent, const char* name, bool make) {
  // There already, or the open below fails.
  const int error = make && mkdirat(parent, name, 0700) != 0 && errno != EEXIST ? errno : 0;
  Descriptor folder(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (folder.valid() && (fstat(folder.get(), &info) != 0 || !is_private(info))) folder.reset();
  errno = error;
  return folder;
}

// A link that somebody else could point to another place.
bool is_foreign_link(const char* path) {
  struct stat info;
  return lstat(path, &info) == 0 && S_ISLNK(info.st_mode) && info.st_uid != geteuid() &&
         info.st_uid != 0;
}

void make_parents(const char* path) {
  char part[4096];
  const size_t length = strlen(path);
  if (length >= sizeof(part)) return;
  for (size_t i = 1; i <= length; ++i) {
    if (path[i] != '/' && path[i] != '\0') continue;
    memcpy(part, path, i);
    part[i] = '\0';
    mkdir(part, 0700);
  }
}

bool is_hex(std::string_view text) {
  for (const char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return !text.empty();
}

bool is_target(std::string_view text) {
  for (const char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) return false;
  }
  return !text.empty() && text.size() <= kTargetLimit;
}

bool is_format(std::string_view text) {
  return text.size() >= 2 && text.size() <= 4 && text[0] == 'v' && text[1] >= '0' && text[1] <= '9';
}

bool is_temporary(std::string_view text) {
  return text.substr(0, kTemporary.size()) == kTemporary && text.size() <= kKeyDigits;
}

// Whether a name belongs at this depth of the layout.
bool belongs(int depth, std::string_view name) {
  switch (depth) {
    case 0:
      return is_format(name);
    case 1:
      return is_target(name);
    case 2:
      return name.size() == 2 && is_hex(name);
    default:
      return (name.size() == kKeyDigits && is_hex(name)) || is_temporary(name);
  }
}

struct Found {
  char path[kPathLimit];  // below the root
  uint64_t bytes;
  int64_t modified;  // seconds
  bool temporary;
};

// Lists the files below a folder that are laid out like ours.
class Walk {
 public:
  explicit Walk(Vec<Found>* out) : out_(out) {}

  Status run(int root) { return visit(root, 0, 0); }

 private:
  static constexpr int kFileDepth = 3;

  // The layout is four levels deep: the recursion is too.
  Status visit(int folder, int depth, size_t length) {
    alignas(dirent64) char buffer[4096];
    for (;;) {
      const long got = syscall(SYS_getdents64, folder, buffer, sizeof(buffer));
      if (got <= 0) return kOk;
      for (long at = 0; at < got;) {
        const dirent64* entry = reinterpret_cast<const dirent64*>(buffer + at);
        at += entry->d_reclen;
        if (belongs(depth, entry->d_name)) ASTER_TRY(take(folder, entry->d_name, depth, length));
      }
    }
  }

  Status take(int folder, const char* name, int depth, size_t length) {
    const size_t name_length = strlen(name);
    if (length + name_length + 2 > sizeof(path_)) return kOk;
    memcpy(path_ + length, name, name_length + 1);
    if (depth == kFileDepth) return take_file(folder, name);
    const Descriptor below(openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!below.valid()) return kOk;
    path_[length + name_length] = '/';
    return visit(below.get(), depth + 1, length + name_length + 1);
  }

  Status take_file(int folder, const char* name) {
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
      return kOk;
    Found found;
    memcpy(found.path, path_, sizeof(path_));
    found.bytes = static_cast<uint64_t>(info.st_size);
    found.modified = static_cast<int64_t>(info.st_mtim.tv_sec);
    found.temporary = is_temporary(name);
    return out_->push(found);
  }

  Vec<Found>* out_;
  char path_[kPathLimit] = {};
};

// The file's body if it is whole and belongs to key.
bool read_entry(int file, const Digest& key, Vec<uint8_t>* out, bool* rotten) {
  *rotten = true;
  Header header;
  if (pread(file, &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header))) return false;
  if (memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.format != kFormat ||
      header.length > kFileLimit || memcmp(header.key, key.data(), key.size()) != 0) {
    return false;
  }
  const SavedError before;
  if (!read_file(file, sizeof(header), kFileLimit + 1, out).ok()) {
    before.restore();
    *rotten = false;  // memory or the disk failed, not the entry
    return false;
  }
  return out->size() == header.length &&
         checksum(key, {out->data(), out->size()}) == header.checksum;
}

}  // namespace

Status Cache::open(const char* choice) {
  limit_ = kDefaultLimit;
  if (const char* megabytes = flag_text(Flag::kCacheLimit)) {
    uint64_t value = 0;
    const char* end = megabytes + strlen(megabytes);
    if (std::from_chars(megabytes, end, value).ptr == end && value < (uint64_t{1} << 40))
      limit_ = value << 20;
  }
  if (choice == nullptr || choice[0] == '\0') choice = flag_text(Flag::kCacheDir);
  const char* base = nullptr;
  if (choice != nullptr) {
    char working[4096];
    if (choice[0] != '/') {
      if (getcwd(working, sizeof(working)) == nullptr) return kOk;
      root_ << working << "/";
    }
    root_ << choice;
  } else if ((base = flag_text(Flag::kXdgCacheHome)) != nullptr && base[0] == '/') {
    root_ << base << "/aster_ml";
  } else if ((base = flag_text(Flag::kHome)) != nullptr && base[0] == '/') {
    root_ << base << "/.cache/aster_ml";
  } else {
    problem_ = "no directory: neither ASTER_ML_CACHE_DIR, XDG_CACHE_HOME nor HOME names one";
    return kOk;
  }
  root_.c_str();
  ASTER_TRY(root_.status());
  enabled_ = true;
  return kOk;
}

// Opened anew for every use: a host that closes descriptors it does not know must not redirect our
// writes.
Descriptor Cache::open_root(bool make) {
  const char* path = root_.c_str();
  if (!enabled_ || path == nullptr) return Descriptor();
  Descriptor root(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid() && errno == ENOENT && make) {
    make_parents(path);
    root.reset(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  struct stat info;
  problem_ = nullptr;
  if (!root.valid()) {
    problem_ = errno != ENOENT ? "the directory cannot be opened"
               : make          ? "the directory does not exist and cannot be made"
                               : "the directory does not exist";
  } else if (is_foreign_link(path)) {
    problem_ = "the directory is another user's link";
  } else if (fstat(root.get(), &info) != 0 || info.st_uid != geteuid()) {
    problem_ = "the directory belongs to another user";
  } else if (!is_private(info)) {
    problem_ = "the directory may be written by its group or by everybody";
  }
  if (problem_ != nullptr) root.reset();
  return root;
}

Descriptor Cache::open_folder(std::string_view target, const Digest& key, bool make) {
  char target_name[kTargetLimit + 1];
  char digits[3] = {};
  if (!is_target(target)) return Descriptor();
  memcpy(target_name, target.data(), target.size());
  target_name[target.size()] = '\0';
  write_hex(key.data(), 1, digits);
  Descriptor folder = open_root(make);
  for (const char* name :
       {kFormatFolder, static_cast<const char*>(target_name), static_cast<const char*>(digits)}) {
    if (folder.valid()) {
      folder = open_private_folder(folder.get(), name, make);
      if (make && !folder.valid()) {
        problem_ = errno == ENOSPC || errno == EDQUOT
                       ? kNoSpace
                       : "its folders cannot be made or are not ours";
      }
    }
  }
  return folder;
}

bool Cache::get(std::string_view target, const Digest& key, Vec<uint8_t>* out) {
  out->clear();
  char name[kKeyDigits + 1] = {};
  write_hex(key.data(), key.size(), name);
  const Descriptor folder = open_folder(target, key, false);
  // Not blocking: the name may be a pipe.
  const Descriptor file(
      folder.valid() ? openat(folder.get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                     : -1);
  struct stat info;
  bool found = false;
  if (file.valid() && fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && is_private(info)) {
    bool rotten = false;
    found = read_entry(file.get(), key, out, &rotten);
    if (!found && rotten) {
      unlinkat(folder.get(), name, 0);
      ++damaged_;
    }
    // The age that eviction goes by; once a day is enough.
    if (found && now_seconds() - static_cast<int64_t>(info.st_mtim.tv_sec) > kDaySeconds)
      futimens(file.get(), nullptr);
  }
  if (!found) out->clear();
  ++(found ? hits_ : misses_);
  return found;
}

bool Cache::keep(int folder, const Digest& key, std::span<const uint8_t> bytes, bool mapped) {
  char name[kKeyDigits + 1] = {};
  write_hex(key.data(), key.size(), name);
  uint8_t random[8];
  if (getrandom(random, sizeof(random), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(random)))
    return false;
  char temporary[kTemporary.size() + 2 * sizeof(random) + 1] = {};
  memcpy(temporary, kTemporary.data(), kTemporary.size());
  write_hex(random, sizeof(random), temporary + kTemporary.size());

  Header header = {};
  memcpy(header.magic, kMagic, sizeof(kMagic));
  header.format = kFormat;
  header.length = bytes.size();
  header.checksum = mapped ? mapped_sum(bytes) : checksum(key, bytes);
  memcpy(header.key, key.data(), key.size());

  Descriptor file(
      openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return false;
  // No fsync: a file torn by a power failure fails its checksum and counts as a miss.
  const std::span<const uint8_t> first = as_bytes(&header, sizeof(header));
  const uint8_t zeros[sizeof(header)] = {};
  const size_t padding = align_up(bytes.size(), sizeof(header)) - bytes.size();
  const bool written = mapped ? write_all(file.get(), bytes) &&
                                    write_all(file.get(), {zeros, padding}) &&
                                    write_all(file.get(), first)
                              : write_all(file.get(), first) && write_all(file.get(), bytes);
  file.reset();
  if (written && renameat(folder, temporary, folder, name) == 0) return true;
  const int error = errno;
  unlinkat(folder, temporary, 0);
  errno = error;
  return false;
}

void Cache::put(std::string_view target, const Digest& key, std::span<const uint8_t> bytes) {
  if (bytes.size() > kFileLimit) return;
  const Descriptor folder = open_folder(target, key, true);
  if (!folder.valid()) return;
  if (!keep(folder.get(), key, bytes, false)) {
    problem_ =
        errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? kNoSpace : "it cannot be written";
    return;
  }
  // One put in 256, by the key's last byte; its failure only leaves more on disk.
  if (key[31] != 0) return;
  const SavedError before;
  if (!evict(limit_).ok()) before.restore();
}

namespace {

// Whole pages of a file, at place or where they may become huge ones.
void* map_pages(int file, size_t size, void* place) {
  constexpr int kProtection = PROT_READ | PROT_WRITE, kKind = MAP_PRIVATE | MAP_NORESERVE;
  const size_t bytes = align_up(size, kPage);
  void* reserved = nullptr;
  if (place == nullptr && bytes >= kHugePage) {
    reserved = mmap(nullptr, bytes + kHugePage, PROT_NONE, kKind | MAP_ANONYMOUS, -1, 0);
    if (reserved == MAP_FAILED) return nullptr;
    const auto first = reinterpret_cast<uintptr_t>(reserved);
    const size_t before = align_up(first, kHugePage) - first;
    char* const begin = static_cast<char*>(reserved);
    place = begin + before;
    if (before != 0) munmap(begin, before);
    munmap(begin + before + bytes, kHugePage - before);
  }
  void* const data =
      mmap(place, bytes, kProtection, kKind | (place != nullptr ? MAP_FIXED : 0), file, 0);
  if (data != MAP_FAILED) return data;
  if (reserved != nullptr) munmap(place, bytes);
  return nullptr;
}

}  // namespace

Cache::Mapped Cache::map(const Digest& key, size_t size, void* place) {
  char name[kKeyDigits + 1] = {};
  write_hex(key.data(), key.size(), name);
  const Descriptor folder = open_folder(kMappedFolder, key, false);
  const Descriptor file(
      folder.valid() ? openat(folder.get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                     : -1);
  struct stat info;
  Header header;
  Mapped out;
  const size_t end = align_up(size, sizeof(header));
  const bool there =
      file.valid() && fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && is_private(info);
  const bool fits = there && static_cast<uint64_t>(info.st_size) == end + sizeof(header) &&
                    pread(file.get(), &header, sizeof(header), static_cast<off_t>(end)) ==
                        static_cast<ssize_t>(sizeof(header)) &&
                    memcmp(header.magic, kMagic, sizeof(kMagic)) == 0 && header.format == kFormat &&
                    header.length == size && memcmp(header.key, key.data(), key.size()) == 0;
  if (fits) out = {map_pages(file.get(), size, place), header.checksum};
  if (there && !fits) {
    unlinkat(folder.get(), name, 0);
    ++damaged_;
  }
  if (fits && now_seconds() - static_cast<int64_t>(info.st_mtim.tv_sec) > kDaySeconds)
    futimens(file.get(), nullptr);
  ++(out.data != nullptr ? hits_ : misses_);
  return out;
}

bool Cache::is_whole(const Mapped& mapped, size_t size) {
  return mapped_sum({static_cast<const uint8_t*>(mapped.data), size}) == mapped.sum;
}

void Cache::drop(const Digest& key) {
  char name[kKeyDigits + 1] = {};
  write_hex(key.data(), key.size(), name);
  const Descriptor folder = open_folder(kMappedFolder, key, false);
  if (folder.valid()) unlinkat(folder.get(), name, 0);
  ++damaged_;
}

void Cache::put_mapped(const Digest& key, std::span<const uint8_t> bytes) {
  const uint64_t limit = limit_ * kMappedTimes;
  if (bytes.size() > std::min<uint64_t>(kMappedLimit, limit)) return;
  const Descriptor folder = open_folder(kMappedFolder, key, true);
  struct statvfs disk;
  if (!folder.valid() || fstatvfs(folder.get(), &disk) != 0) return;
  if (bytes.size() > uint64_t{disk.f_bavail} * disk.f_frsize / kMappedTimes) {
    problem_ = kNoSpace;
    return;
  }
  if (!keep(folder.get(), key, bytes, true)) {
    problem_ =
        errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? kNoSpace : "it cannot be written";
    return;
  }
  unlooked_ += bytes.size();
  if (unlooked_ <= limit / kMappedTimes && key[31] != 0) return;
  unlooked_ = 0;
  const SavedError before;
  if (!evict(limit, true).ok()) before.restore();
}

void Cache::unmap(void* data, size_t size) { munmap(data, align_up(size, kPage)); }

Cache::Info Cache::info() {
  Info out;
  out.limit = limit_;
  out.hits = hits_;
  out.misses = misses_;
  const Descriptor root = open_root(false);
  Vec<Found> files(memory_);
  if (root.valid() && Walk(&files).run(root.get()).ok()) {
    for (const Found& file : files) {
      out.entries += file.temporary ? 0 : 1;
      out.bytes += file.bytes;
    }
  }
  return out;
}

Status Cache::clear() {
  const Descriptor root = open_root(false);
  if (!root.valid()) return kOk;
  Vec<Found> files(memory_);
  ASTER_TRY(Walk(&files).run(root.get()));
  size_t failed = 0;
  for (Found& file : files) {
    if (unlinkat(root.get(), file.path, 0) != 0 && errno != ENOENT) ++failed;
    // Its folders, from the innermost; those not yet empty stay.
    while (char* slash = strrchr(file.path, '/')) {
      *slash = '\0';
      if (unlinkat(root.get(), file.path, AT_REMOVEDIR) != 0) break;
    }
  }
  return failed == 0 ? kOk : ASTER_FAIL(kIO, "%zu cached kernels could not be removed", failed);
}

Status Cache::evict(uint64_t limit, bool mapped) {
  const Descriptor root = open_root(false);
  if (!root.valid()) return kOk;
  Vec<Found> all(memory_), files(memory_);
  ASTER_TRY(Walk(&all).run(root.get()));
  for (const Found& file : all) {
    if (std::string_view(file.path).starts_with(kMappedPath) == mapped) ASTER_TRY(files.push(file));
  }
  std::sort(files.begin(), files.end(),
            [](const Found& a, const Found& b) { return a.modified < b.modified; });
  uint64_t bytes = 0;
  for (const Found& file : files) bytes += file.bytes;
  const int64_t now = now_seconds();
  for (const Found& file : files) {
    const bool stale = file.temporary && now - file.modified > kHourSeconds;
    if (!stale && (bytes <= limit || file.temporary)) continue;
    if (unlinkat(root.get(), file.path, 0) == 0) bytes -= file.bytes;
  }
  return kOk;
}

}  // namespace aster::runtime::cpu
