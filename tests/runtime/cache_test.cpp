#include "runtime/cpu/cache.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "runtime/support.h"

namespace aster::runtime::cpu {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using testing::WithVariable;

using Bytes = std::vector<uint8_t>;

Memory& heap() { return process_heap(); }

Digest key_of(const std::string& text) { return Sha256().add_text(text).finish(); }

std::string hex(const Digest& digest) {
  std::string out(64, ' ');
  write_hex(digest.data(), digest.size(), out.data());
  return out;
}

Bytes body_of(const std::string& text, size_t size) {
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(text)));
  Bytes out(size);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(random());
  return out;
}

TEST(Sha256, AgreesWithThePublishedVectorsAndWithSha256sum) {
  EXPECT_EQ(hex(Sha256().finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(Sha256().add("abc", 3).finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string million(1'000'000, 'a');
  EXPECT_EQ(hex(Sha256().add(million.data(), million.size()).finish()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  TemporaryFolder folder;
  const Bytes data = body_of("sha", 300);
  for (const size_t size : {1u, 55u, 56u, 57u, 63u, 64u, 65u, 119u, 120u, 127u, 128u, 129u, 300u}) {
    std::ofstream(folder / "data", std::ios::binary)
        .write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(size));
    FILE* pipe = popen(("sha256sum " + (folder / "data")).c_str(), "r");
    char digits[65] = {};
    ASSERT_EQ(fread(digits, 1, 64, pipe), 64u);
    pclose(pipe);
    for (const size_t cut : {size_t{0}, size / 2, size}) {
      EXPECT_EQ(hex(Sha256().add(data.data(), cut).add(data.data() + cut, size - cut).finish()),
                digits)
          << size;
    }
  }
  EXPECT_NE(Sha256().add_text("ab").add_text("c").finish(),
            Sha256().add_text("a").add_text("bc").finish());
}

class CacheTest : public ::testing::Test {
 protected:
  CacheTest() : cache_(heap()), got_(heap()) {
    EXPECT_TRUE(cache_.open(folder_.path().c_str()).ok());
  }

  void put(const std::string& name, size_t size = 1000) {
    cache_.put("t", key_of(name), body_of(name, size));
  }
  bool get(const std::string& name, size_t size = 1000) {
    const bool found = cache_.get("t", key_of(name), &got_);
    if (found) {
      EXPECT_EQ(Bytes(got_.begin(), got_.end()), body_of(name, size)) << name;
    }
    if (!found) {
      EXPECT_TRUE(got_.empty());
    }
    return found;
  }
  std::string path_of(const std::string& name) const {
    const std::string digits = hex(key_of(name));
    return folder_ / ("v1/t/" + digits.substr(0, 2) + "/" + digits);
  }
  size_t count_files() const {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
      if (entry.is_regular_file()) ++count;
    return count;
  }

  TemporaryFolder folder_;
  Cache cache_;
  Vec<uint8_t> got_;
};

TEST_F(CacheTest, KeepsAndGives) {
  EXPECT_FALSE(get("a"));
  put("a");
  put("empty", 0);
  put("large", 3'000'000);
  EXPECT_TRUE(get("a"));
  EXPECT_TRUE(get("empty", 0));
  EXPECT_TRUE(get("large", 3'000'000));
  EXPECT_FALSE(cache_.get("other", key_of("a"), &got_)) << "another target";
  put("a");  // again, over it
  EXPECT_TRUE(get("a"));
  EXPECT_EQ(cache_.path(), folder_.path());
  const Cache::Info info = cache_.info();
  EXPECT_EQ(info.entries, 3u);
  EXPECT_EQ(info.bytes, 1000u + 3'000'000u + 3 * 64);
  EXPECT_EQ(info.hits, 4u);
  EXPECT_EQ(info.misses, 2u);
  struct stat file;
  ASSERT_EQ(stat(path_of("a").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  ASSERT_EQ(stat((folder_ / "v1").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0700u);
}

TEST_F(CacheTest, OddTargetsAreRefused) {
  for (const char* target : {"", "..", "a/b", "../../etc", ".", "a.b"}) {
    cache_.put(target, key_of("x"), body_of("x", 10));
    EXPECT_FALSE(cache_.get(target, key_of("x"), &got_)) << target;
  }
  EXPECT_EQ(count_files(), 0u);
}

TEST(CachePlace, OptionThenVariablesThenHome) {
  TemporaryFolder folder;
  const std::string chosen = folder / "chosen";
  const std::string named = folder / "named";
  const WithVariable directory("ASTER_ML_CACHE_DIR", named.c_str());
  const auto path_with = [](const char* choice) {
    Cache cache(heap());
    EXPECT_TRUE(cache.open(choice).ok());
    return std::string(cache.path());
  };
  EXPECT_EQ(path_with(chosen.c_str()), chosen);
  EXPECT_EQ(path_with(nullptr), named);
  const WithVariable no_directory("ASTER_ML_CACHE_DIR", nullptr);
  const WithVariable xdg("XDG_CACHE_HOME", folder.path().c_str());
  EXPECT_EQ(path_with(nullptr), folder / "aster_ml");
  for (const char* bad : {static_cast<const char*>(nullptr), "", "relative"}) {
    const WithVariable no_xdg("XDG_CACHE_HOME", bad);
    const WithVariable home("HOME", folder.path().c_str());
    EXPECT_EQ(path_with(nullptr), folder / ".cache/aster_ml");
    const WithVariable no_home("HOME", bad);
    Cache closed(heap());
    ASSERT_TRUE(closed.open(nullptr).ok());
    EXPECT_FALSE(closed.enabled());
    EXPECT_NE(closed.problem(), nullptr);
    Vec<uint8_t> got(heap());
    closed.put("t", key_of("x"), body_of("x", 10));
    EXPECT_FALSE(closed.get("t", key_of("x"), &got));
    EXPECT_TRUE(closed.clear().ok());
  }
  // Missing folders above are made, for the user alone.
  Cache deep(heap());
  ASSERT_TRUE(deep.open((folder / "x/y/z").c_str()).ok());
  deep.put("t", key_of("x"), body_of("x", 10));
  Vec<uint8_t> got(heap());
  EXPECT_TRUE(deep.get("t", key_of("x"), &got));
  struct stat info;
  ASSERT_EQ(stat((folder / "x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(CacheTest, TruncatedAndChangedFilesAreMissesAndGo) {
  put("a", 200);
  std::ifstream file(path_of("a"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  ASSERT_EQ(whole.size(), 264u);
  const auto write = [&](const std::string& bytes) {
    std::ofstream(path_of("a"), std::ios::binary | std::ios::trunc) << bytes;
    chmod(path_of("a").c_str(), 0600);
  };
  for (size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    EXPECT_FALSE(get("a", 200)) << size;
    EXPECT_FALSE(fs::exists(path_of("a")));
  }
  write(whole + "x");
  EXPECT_FALSE(get("a", 200));
  for (size_t i = 0; i < whole.size(); ++i) {
    if (i >= 12 && i < 16) continue;  // the header's spare bytes
    std::string bad = whole;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    write(bad);
    EXPECT_FALSE(get("a", 200)) << i;
  }
  // The whole file of another key, in this one's place.
  put("b", 200);
  fs::rename(path_of("b"), path_of("a"));
  EXPECT_FALSE(get("a", 200));
  write(whole);
  EXPECT_TRUE(get("a", 200));
}

TEST_F(CacheTest, HostilePermissions) {
  put("a");
  int i = 0;  // another name whose file lies in the same folder
  while (key_of("b" + std::to_string(i))[0] != key_of("a")[0]) ++i;
  const std::string neighbour = "b" + std::to_string(i);
  for (const mode_t mode : {0620u, 0602u, 0666u, 0777u}) {
    chmod(path_of("a").c_str(), mode);
    EXPECT_FALSE(get("a")) << "file " << mode;
  }
  chmod(path_of("a").c_str(), 0600);
  EXPECT_TRUE(get("a"));
  for (const std::string& place : {folder_.path(), folder_ / "v1", folder_ / "v1/t",
                                   fs::path(path_of("a")).parent_path().string()}) {
    for (const mode_t mode : {0720u, 0702u, 0777u}) {
      chmod(place.c_str(), mode);
      EXPECT_FALSE(get("a")) << place << " " << mode;
      const size_t files = count_files();
      put(neighbour);
      EXPECT_EQ(count_files(), files) << "nothing is written there";
    }
    if (place == folder_.path()) {
      EXPECT_NE(std::string(cache_.problem()).find("written by"), std::string::npos);
    }
    chmod(place.c_str(), 0700);
    EXPECT_TRUE(get("a"));
    EXPECT_EQ(cache_.problem(), nullptr);
  }
}

TEST_F(CacheTest, FilesOfOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs the right to give files away";
  put("a");
  ASSERT_EQ(chown(path_of("a").c_str(), 12345, 12345), 0);
  EXPECT_FALSE(get("a"));
  ASSERT_EQ(chown(path_of("a").c_str(), 0, 0), 0);
  EXPECT_TRUE(get("a"));
  ASSERT_EQ(chown(folder_.path().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(get("a"));
  EXPECT_NE(std::string(cache_.problem()).find("another user"), std::string::npos);
}

TEST_F(CacheTest, LinksPipesAndFoldersInTheWay) {
  put("a");
  const std::string file = path_of("a");
  const std::string folder = fs::path(file).parent_path();
  const auto check_link = [&](const std::string& place) {
    const std::string aside = folder_ / "aside";
    fs::rename(place, aside);
    fs::create_symlink(aside, place);
    EXPECT_FALSE(get("a")) << place;
    put("b");
    fs::remove(place);
    fs::rename(aside, place);
    EXPECT_TRUE(get("a")) << place;
  };
  check_link(file);
  check_link(folder);
  check_link(folder_ / "v1/t");
  check_link(folder_ / "v1");
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(get("a")) << "and does not wait for a writer";
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_FALSE(get("a"));
  put("a");  // cannot replace a folder, and leaves nothing
  EXPECT_FALSE(get("a"));
  fs::remove(file);
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    EXPECT_NE(entry.path().filename().string()[0], '.') << "a temporary file is left";
  }
}

TEST_F(CacheTest, TheDirectoryMayBeALink) {
  TemporaryFolder real;
  const std::string link = folder_ / "link";
  fs::create_symlink(real.path(), link);
  Cache linked(heap());
  ASSERT_TRUE(linked.open(link.c_str()).ok());
  linked.put("t", key_of("a"), body_of("a", 10));
  EXPECT_TRUE(linked.get("t", key_of("a"), &got_));
  EXPECT_EQ(linked.problem(), nullptr);
  EXPECT_EQ(linked.info().entries, 1u);
  EXPECT_TRUE(linked.clear().ok());
  EXPECT_TRUE(fs::is_empty(real.path()));
  // What it leads to is held to the same rules.
  fs::permissions(real.path(), fs::perms::all);
  linked.put("t", key_of("a"), body_of("a", 10));
  EXPECT_TRUE(fs::is_empty(real.path()));
  EXPECT_NE(linked.problem(), nullptr);
  fs::permissions(real.path(), fs::perms::owner_all);
  if (geteuid() == 0) {
    ASSERT_EQ(lchown(link.c_str(), 12345, 12345), 0);
    linked.put("t", key_of("a"), body_of("a", 10));
    EXPECT_TRUE(fs::is_empty(real.path()));
    EXPECT_STREQ(linked.problem(), "the directory is another user's link");
  }
  fs::remove(link);
  fs::create_symlink(folder_ / "nowhere", link);
  linked.put("t", key_of("a"), body_of("a", 10));
  EXPECT_STREQ(linked.problem(), "the directory does not exist and cannot be made");
}

TEST_F(CacheTest, SaysWhyNothingIsKept) {
  EXPECT_TRUE(testing::in_fork([&] {
    put("a");
    if (cache_.problem() != nullptr) return false;
    const rlimit small = {100, 100};
    setrlimit(RLIMIT_FSIZE, &small);
    cache_.put("t", key_of("large"), body_of("large", 1000));
    return std::string(cache_.problem()).find("no space") == 0;
  }));
  put("a");
  EXPECT_EQ(cache_.damaged(), 0u);
  fs::resize_file(path_of("a"), 70);
  EXPECT_FALSE(get("a"));
  EXPECT_EQ(cache_.damaged(), 1u);
}

TEST_F(CacheTest, PlacesThatCannotBeWritten) {
  std::ofstream(folder_ / "file") << "x";
  for (const std::string& place :
       {std::string("/proc/nothing/here"), std::string("/dev/null"), folder_ / "file",
        folder_ / "file/below", std::string("/") + std::string(5000, 'x')}) {
    Cache cache(heap());
    ASSERT_TRUE(cache.open(place.c_str()).ok());
    cache.put("t", key_of("a"), body_of("a", 10));
    EXPECT_FALSE(cache.get("t", key_of("a"), &got_)) << place;
    EXPECT_NE(cache.problem(), nullptr);
    EXPECT_TRUE(cache.clear().ok());
    EXPECT_EQ(cache.info().entries, 0u);
  }
  // A limit on file sizes would end the process with SIGXFSZ.
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small = {100, 100};
    setrlimit(RLIMIT_FSIZE, &small);
    put("limited", 5000);
    _exit(get("limited", 5000) ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(count_files(), 1u) << "only the test's own";
}

// Writers of the same keys, readers and one that clears, at the same time: what is found is always
// whole.
TEST_F(CacheTest, ConcurrentWritersAndReaders) {
  constexpr int kProcesses = 6;
  constexpr int kRounds = 300;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      std::mt19937 random(static_cast<unsigned>(p));
      for (int i = 0; i < kRounds; ++i) {
        const std::string name = "shared" + std::to_string(random() % 8);
        if (random() % 2) put(name, 5000);
        got_.clear();
        if (cache_.get("t", key_of(name), &got_) &&
            Bytes(got_.begin(), got_.end()) != body_of(name, 5000))
          _exit(1);
        if (random() % 64 == 0) static_cast<void>(cache_.clear().ok());
        if (random() % 64 == 0) static_cast<void>(cache_.evict(20'000).ok());
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

TEST_F(CacheTest, KilledWhileWriting) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0;; ++i) put("k" + std::to_string(i % 4), 200'000);
    }
    usleep(static_cast<useconds_t>(500 + random() % 5000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (int i = 0; i < 4; ++i)
      get("k" + std::to_string(i), 200'000);  // whole or a miss: get compares
  }
  for (int i = 0; i < 4; ++i) {
    put("k" + std::to_string(i), 200'000);
    EXPECT_TRUE(get("k" + std::to_string(i), 200'000));
  }
  EXPECT_TRUE(cache_.clear().ok());
  EXPECT_EQ(count_files(), 0u) << "temporary files too";
}

void set_age(const std::string& path, int64_t seconds) {
  timespec times[2] = {};
  times[0].tv_sec = times[1].tv_sec = time(nullptr) - seconds;
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST_F(CacheTest, TheOldestGoFirst) {
  for (int i = 0; i < 10; ++i) {
    const std::string name = "e" + std::to_string(i);
    put(name, 936);  // 1000 with its header
    set_age(path_of(name), 1000 * (10 - i));
  }
  const std::string folder = fs::path(path_of("e0")).parent_path();
  std::ofstream(folder + "/.tmp-old") << std::string(50, 'x');
  std::ofstream(folder + "/.tmp-new") << std::string(50, 'x');
  set_age(folder + "/.tmp-old", 7200);
  ASSERT_TRUE(cache_.evict(4100).ok());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(get("e" + std::to_string(i), 936), i >= 6) << i;
  EXPECT_FALSE(fs::exists(folder + "/.tmp-old"));
  EXPECT_TRUE(fs::exists(folder + "/.tmp-new")) << "somebody may be writing it";
  EXPECT_TRUE(cache_.evict(1'000'000).ok());
  EXPECT_EQ(cache_.info().entries, 4u);
}

TEST_F(CacheTest, UseKeepsYoungAndTheLimitHolds) {
  put("a");
  set_age(path_of("a"), 3 * 24 * 3600);
  EXPECT_TRUE(get("a"));
  struct stat info;
  ASSERT_EQ(stat(path_of("a").c_str(), &info), 0);
  EXPECT_LT(time(nullptr) - info.st_mtim.tv_sec, 60);
  // Every 256th put, told by the key, looks at the limit.
  cache_.set_limit(50'000);
  int i = 0;
  for (; i < 100 || key_of("n" + std::to_string(i))[31] != 0; ++i) {
    if (i < 100) put("n" + std::to_string(i), 936);
  }
  EXPECT_GT(cache_.info().bytes, 90'000u);
  put("n" + std::to_string(i), 936);
  EXPECT_LE(cache_.info().bytes, 50'000u);
  const WithVariable limit("ASTER_ML_CACHE_LIMIT_MB", "3");
  Cache other(heap());
  ASSERT_TRUE(other.open(folder_.path().c_str()).ok());
  EXPECT_EQ(other.info().limit, 3u << 20);
}

TEST_F(CacheTest, ClearingLeavesWhatIsNotOurs) {
  put("a");
  put("b");
  fs::create_directories(folder_ / "v1/t/zz");
  fs::create_directories(folder_ / "documents");
  for (const char* name :
       {"notes.txt", "documents/thesis.tex", "v1/readme", "v1/t/aa-file", "v1/t/zz/x"}) {
    std::ofstream(folder_ / name) << "x";
  }
  ASSERT_TRUE(cache_.clear().ok());
  EXPECT_EQ(cache_.info().entries, 0u);
  EXPECT_EQ(count_files(), 5u);
}

TEST_F(CacheTest, LeaksNoDescriptor) {
  const int before = testing::count_descriptors();
  put("a");
  get("a");
  get("b");
  cache_.info();
  EXPECT_TRUE(cache_.evict(0).ok());
  EXPECT_TRUE(cache_.clear().ok());
  EXPECT_EQ(testing::count_descriptors(), before);
}

TEST_F(CacheTest, AnAllocationThatFailsIsAMiss) {
  put("a");
  testing::FailingHeap failing(0);
  Vec<uint8_t> out(failing);
  EXPECT_FALSE(cache_.get("t", key_of("a"), &out));
  EXPECT_TRUE(get("a")) << "and does not remove the file";
}

// Entries that are mapped.
class MappedTest : public CacheTest {
 protected:
  void put_mapped(const std::string& name, size_t size) {
    cache_.put_mapped(key_of(name), body_of(name, size));
  }
  std::string mapped_path(const std::string& name) const {
    const std::string digits = hex(key_of(name));
    return folder_ / ("v1/mapped/" + digits.substr(0, 2) + "/" + digits);
  }
  // Whether it is there and whole, and then that the bytes are those put.
  bool get_mapped(const std::string& name, size_t size, void* place = nullptr) {
    const Cache::Mapped got = cache_.map(key_of(name), size, place);
    if (got.data == nullptr) return false;
    const bool whole = Cache::is_whole(got, size);
    const Bytes body = body_of(name, size);
    if (whole) {
      EXPECT_EQ(memcmp(got.data, body.data(), size), 0) << name;
    } else {
      cache_.drop(key_of(name));
    }
    if (place == nullptr) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(got.data) % (size >= 2 << 20 ? 2 << 20 : 4096), 0u);
      Cache::unmap(got.data, size);
    } else {
      EXPECT_EQ(got.data, place);
    }
    return whole;
  }
};

TEST_F(MappedTest, KeepsAndMaps) {
  for (const size_t size : {1u, 63u, 64u, 4096u, 4097u, 300000u, (2u << 20) + 5, 5u << 20}) {
    const std::string name = std::to_string(size);
    EXPECT_FALSE(get_mapped(name, size));
    put_mapped(name, size);
    EXPECT_EQ(cache_.problem(), nullptr);
    EXPECT_TRUE(get_mapped(name, size)) << size;
    EXPECT_FALSE(get_mapped(name, size + 1)) << "of another size";
    EXPECT_FALSE(fs::exists(mapped_path(name)));  // that did not fit, and went
  }
  // What is mapped in two places, and over other memory.
  put_mapped("a", 9000);
  void* place = mmap(nullptr, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  memset(place, 7, 12288);
  EXPECT_TRUE(get_mapped("a", 9000, place));
  EXPECT_FALSE(get_mapped("b", 9000, place));
  EXPECT_EQ(memcmp(place, body_of("a", 9000).data(), 9000), 0);  // a miss leaves what is there
  static_cast<uint8_t*>(place)[0] ^= 255;                        // one's own from here on
  EXPECT_TRUE(get_mapped("a", 9000));
  munmap(place, 12288);
}

TEST_F(MappedTest, ChangedFilesAreToldAndGo) {
  constexpr size_t kSize = 70000;
  const auto attempt = [&](const char* what, auto change) {
    put_mapped("x", kSize);
    ASSERT_TRUE(get_mapped("x", kSize));
    change(mapped_path("x"));
    const uint64_t damaged = cache_.damaged();
    EXPECT_FALSE(get_mapped("x", kSize)) << what;
    EXPECT_EQ(cache_.damaged(), damaged + 1) << what;
    EXPECT_FALSE(fs::exists(mapped_path("x"))) << what;
  };
  const auto flip = [](size_t at) {
    return [at](const std::string& path) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const auto byte = static_cast<char>(file.get() ^ 16);
      file.seekp(static_cast<std::streamoff>(at));
      file.put(byte);
    };
  };
  for (const size_t at : {size_t{0}, size_t{4096}, kSize - 1}) attempt("data", flip(at));
  const size_t end = (kSize + 63) / 64 * 64;
  for (const size_t at : {0u, 8u, 16u, 24u, 32u, 63u}) attempt("what it is", flip(end + at));
  for (const size_t left : {size_t{0}, size_t{63}, kSize, end, end + 63}) {
    attempt("cut", [left](const std::string& path) { fs::resize_file(path, left); });
  }
  attempt("longer", [](const std::string& path) { fs::resize_file(path, end + 128); });
  // That others may write is no entry, and no damage.
  put_mapped("x", kSize);
  ASSERT_EQ(chmod(mapped_path("x").c_str(), 0620), 0);
  EXPECT_FALSE(get_mapped("x", kSize));
}

// Their limit is their own: neither takes the other's place.
TEST_F(MappedTest, TheOldestGo) {
  cache_.set_limit(100000);  // 800,000 of these
  put("kernel");
  for (int i = 0; i < 12; ++i) {
    put_mapped(std::to_string(i), 150000);
    const timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, mapped_path(std::to_string(i)).c_str(), times, 0), 0);
  }
  EXPECT_TRUE(get("kernel"));
  EXPECT_TRUE(cache_.evict(800000, true).ok());
  int there = 0;
  for (int i = 0; i < 12; ++i) there += fs::exists(mapped_path(std::to_string(i))) ? 1 : 0;
  EXPECT_EQ(there, 5);
  EXPECT_TRUE(get_mapped("11", 150000));
  EXPECT_TRUE(cache_.evict(0).ok());
  EXPECT_FALSE(get("kernel"));
  EXPECT_TRUE(get_mapped("11", 150000));
  put_mapped("large", 800001);  // beyond the limit
  EXPECT_FALSE(fs::exists(mapped_path("large")));
  cache_.set_limit(0);
  put_mapped("none", 1);
  EXPECT_FALSE(fs::exists(mapped_path("none")));
  EXPECT_TRUE(cache_.clear().ok());
  EXPECT_FALSE(fs::exists(mapped_path("11")));
}

}  // namespace
}  // namespace aster::runtime::cpu
