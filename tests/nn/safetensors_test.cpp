#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "nn/world.h"

namespace nn_test {
namespace {

std::string with_header(std::string header, const std::string& data = "") {
  while (header.size() % 8 != 0) header += ' ';
  std::string out(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

int32_t code_of(Session& s, const std::string& bytes) {
  TemporaryFile file;
  State state;
  file.write(bytes);
  return aster_ml_state_read(&state, s.get(), file.path());
}

const std::string kData(8, '\1');
const std::string kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST(Safetensors, RoundTrip) {
  Session s;
  TemporaryFile file;
  State state, back;
  OK(aster_ml_state_init(&state, s.get()));
  const int32_t dtypes[] = {ASTER_ML_DTYPE_UINT8,   ASTER_ML_DTYPE_FLOAT64, ASTER_ML_DTYPE_BOOL,
                            ASTER_ML_DTYPE_FLOAT16, ASTER_ML_DTYPE_INT64,   ASTER_ML_DTYPE_BFLOAT16,
                            ASTER_ML_DTYPE_FP8E4M3, ASTER_ML_DTYPE_FP8E5M2, ASTER_ML_DTYPE_INT32};
  for (const int32_t dtype : dtypes) {
    Tensor x = cast(Tensor(std::vector<float>{0, 1, 0, 1, 1}, {5}), dtype);
    OK(aster_ml_state_set(&state, aster_ml_dtype_name(dtype), x.get(), 0));
  }
  Tensor empty = Tensor(std::vector<float>{}, {0, 3}), scalar(2.5);
  OK(aster_ml_state_set(&state, "empty", empty.get(), 0));
  OK(aster_ml_state_set(&state, "sc\"al\\ar\n", scalar.get(), 0));
  OK(aster_ml_state_set_metadata(&state, "who", "ä \"test\""));
  OK(aster_ml_state_write(&state, file.path()));
  OK(aster_ml_state_read(&back, s.get(), file.path()));
  ASSERT_EQ(aster_ml_state_count(&back), std::size(dtypes) + 2);
  for (size_t i = 0; i < std::size(dtypes); ++i) {
    EXPECT_STREQ(aster_ml_state_name(&back, i), aster_ml_dtype_name(dtypes[i]));
    Tensor x = get(back, aster_ml_dtype_name(dtypes[i]));
    EXPECT_EQ(aster_ml_lazy_dtype(x.get()), dtypes[i]);
    EXPECT_EQ(read(cast(x, ASTER_ML_DTYPE_FLOAT32)), (std::vector<float>{0, 1, 0, 1, 1}));
  }
  Tensor zero = get(back, "empty"), one = get(back, "sc\"al\\ar\n");
  EXPECT_EQ(aster_ml_lazy_dim(zero.get(), 1), 3);
  EXPECT_EQ(aster_ml_lazy_count(zero.get()), 0);
  EXPECT_EQ(aster_ml_lazy_ndim(one.get()), 0u);
  EXPECT_EQ(read(one), std::vector<float>{2.5});
  const char* text = nullptr;
  OK(aster_ml_state_get_metadata(&text, &back, "who"));
  EXPECT_STREQ(text, "ä \"test\"");
  // The format's own rules of the header.
  const std::string bytes = file.read();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes[8], '{');
}

TEST(Safetensors, ReadsWhatPythonWrote) {
  Session s;
  State state;
  OK(aster_ml_state_read(&state, s.get(), data_path("python.safetensors").c_str()));
  EXPECT_EQ(aster_ml_state_count(&state), 18u);
  for (const char* name :
       {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "fp8e4m3",
        "fp8e5m2", "float16", "bfloat16", "float32", "float64"}) {
    Tensor x = get(state, name);
    EXPECT_STREQ(aster_ml_dtype_name(aster_ml_lazy_dtype(x.get())), name);
    EXPECT_EQ(aster_ml_lazy_dim(x.get(), 0), 2);
    EXPECT_EQ(read(cast(x, ASTER_ML_DTYPE_FLOAT32)), (std::vector<float>{0, 1, 0, 1, 0, 1}))
        << name;
  }
  EXPECT_EQ(read(get(state, "a \"quoted\" \\ naïve\nname")), std::vector<float>{2.5});
  EXPECT_EQ(read(cast(get(state, "scalar"), ASTER_ML_DTYPE_FLOAT32)), std::vector<float>{7});
  const char* text = nullptr;
  OK(aster_ml_state_get_metadata(&text, &state, "text"));
  EXPECT_STREQ(text, "tab\t, quote \" and ü");
}

// Tensors are where the file is mapped, read-only, and outlive the state and the file's name.
TEST(Safetensors, IsMapped) {
  Session s;
  TemporaryFile file;
  Tensor a, b;
  {
    State state;
    file.write(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                           R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}  )",
                           kData));
    OK(aster_ml_state_read(&state, s.get(), file.path()));
    a = get(state, "a");
    b = get(state, "b");
  }
  unlink(file.path());
  aster_ml_tensor x{}, y{};
  OK(aster_ml_lazy_view(&x, a.get()));
  OK(aster_ml_lazy_view(&y, b.get()));
  EXPECT_EQ(x.storage.data, y.storage.data);
  EXPECT_EQ(y.byte_offset - x.byte_offset, 4u);
  EXPECT_EQ(aster_ml_buffer_is_read_only(&x.storage), 1);
  Tensor two = a + b;
  EXPECT_EQ(aster_ml_lazy_assign(a.get(), two.get()), ASTER_ML_ARGUMENT);
  float expected;
  std::memcpy(&expected, kData.data(), 4);
  EXPECT_EQ(read(two), std::vector<float>{2 * expected});
  State state;
  Optimizer o;
  OK(aster_ml_state_init(&state, s.get()));
  OK(aster_ml_state_set(&state, "a", a.get(), 1));
  EXPECT_EQ(aster_ml_sgd_init(&o, &state, nullptr), ASTER_ML_ARGUMENT);
}

// What does not lie aligned is copied; the values are the same.
TEST(Safetensors, UnalignedElements) {
  Session s;
  TemporaryFile file;
  State state;
  const float value = 1.5f;
  std::string data = "\5";
  data.append(reinterpret_cast<const char*>(&value), 4);
  file.write(with_header(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                         R"("f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                         data));
  OK(aster_ml_state_read(&state, s.get(), file.path()));
  EXPECT_EQ(read(get(state, "f")), std::vector<float>{1.5});
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  Session s;
  EXPECT_EQ(code_of(s, with_header("{}")), ASTER_ML_OK);
  EXPECT_EQ(code_of(s, with_header("{}      ")), ASTER_ML_OK);
  EXPECT_EQ(code_of(s, with_header(kGood, kData)), ASTER_ML_OK);
  EXPECT_EQ(
      code_of(
          s, with_header(
                 R"({"a":{"data_offsets":[0,8],"new":{"x":[1,null]},"shape":[1,2],"dtype":"F32"}})",
                 kData)),
      ASTER_ML_OK);
  EXPECT_EQ(code_of(s, with_header(R"({"e":{"dtype":"F32","shape":[3,0],"data_offsets":[8,8]},)" +
                                       kGood.substr(1),
                                   kData)),
            ASTER_ML_OK);
}

struct Bad {
  const char* why;
  std::string bytes;
};

std::vector<Bad> malformed() {
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return with_header("{\"a\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
                           ",\"data_offsets\":" + offsets + "}}",
                       kData);
  };
  const auto two = [](const std::string& first, const std::string& second) {
    return with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + first +
                           "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + second +
                           "}}",
                       kData);
  };
  std::string huge(8, '\xFF');
  const std::string inner = kGood.substr(1, kGood.size() - 2);
  return {
      {"empty file", ""},
      {"less than a length", "\1\0\0"},
      {"length beyond the file", with_header(kGood, kData).substr(0, 20)},
      {"absurd length", huge + kGood + kData},
      {"no header", std::string(8, '\0')},
      {"header is no object", with_header("[]")},
      {"space before the object", with_header(" {}")},
      {"unfinished object", with_header("{\"a\":")},
      {"something after the object", with_header("{} x")},
      {"zero bytes as padding", with_header(std::string("{}\0\0", 4))},
      {"name twice", with_header("{" + inner + "," + inner + "}", kData)},
      {"empty name",
       with_header(R"({"":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", kData)},
      {"name not UTF-8",
       with_header("{\"\xFF\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", kData)},
      {"unknown dtype", tensor("\"F99\"", "[2]", "[0,8]")},
      {"dtype is a number", tensor("32", "[2]", "[0,8]")},
      {"shape is a number", tensor("\"F32\"", "2", "[0,8]")},
      {"negative dimension", tensor("\"F32\"", "[-2]", "[0,8]")},
      {"dimension with a point", tensor("\"F32\"", "[2.0]", "[0,8]")},
      {"dimension beyond 63 bits", tensor("\"F32\"", "[9223372036854775808]", "[0,8]")},
      {"shape overflows", tensor("\"F32\"", "[4294967296,4294967296]", "[0,8]")},
      {"shape overflows beside a zero", tensor("\"F32\"", "[4294967296,4294967296,0]", "[0,0]")},
      {"size is not the shape's", tensor("\"F32\"", "[3]", "[0,8]")},
      {"size is not the dtype's", tensor("\"F64\"", "[2]", "[0,8]")},
      {"offsets beyond the data", tensor("\"F32\"", "[3]", "[0,12]")},
      {"huge offsets", tensor("\"F32\"", "[2]", "[18446744073709551608,18446744073709551615]")},
      {"end before begin", tensor("\"F32\"", "[2]", "[8,0]")},
      {"one offset", tensor("\"F32\"", "[2]", "[8]")},
      {"three offsets", tensor("\"F32\"", "[2]", "[0,8,8]")},
      {"offset as text", tensor("\"F32\"", "[2]", "[\"0\",8]")},
      {"data left over", tensor("\"F32\"", "[1]", "[0,4]")},
      {"tensors overlap", two("[0,4]", "[2,6]")},
      {"tensors share data", two("[0,4]", "[0,4]")},
      {"gap between tensors", two("[0,4]", "[5,9]")},
      {"field twice",
       with_header(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                   kData)},
      {"no dtype", with_header(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", kData)},
      {"no shape", with_header(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", kData)},
      {"no offsets", with_header(R"({"a":{"dtype":"F32","shape":[2]}})", kData)},
      {"tensor is no object", with_header(R"({"a":[]})")},
      {"metadata is no object", with_header(R"({"__metadata__":[]})")},
      {"metadata is no text", with_header(R"({"__metadata__":{"a":1}})")},
      {"metadata twice", with_header(R"({"__metadata__":{},"__metadata__":{}})")},
      {"metadata key twice", with_header(R"({"__metadata__":{"a":"1","a":"2"}})")},
      {"deep nesting", with_header("{\"a\":{\"x\":" + std::string(100000, '[') + "}}")},
      {"truncated data", with_header(kGood, kData.substr(1))},
  };
}

TEST(Safetensors, RefusesMalformedFiles) {
  Session s;
  for (const Bad& bad : malformed()) {
    EXPECT_EQ(code_of(s, bad.bytes), ASTER_ML_FORMAT) << bad.why << ": " << last_error();
  }
  EXPECT_EQ(
      code_of(s, with_header(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "\1")),
      ASTER_ML_UNSUPPORTED);
}

// Any byte of a good file changed, and every length of it: a status, never a crash.
TEST(Safetensors, SurvivesDamage) {
  Session s;
  std::ifstream python(data_path("python.safetensors"), std::ios::binary);
  std::ostringstream bytes;
  bytes << python.rdbuf();
  const std::string good = bytes.str();
  ASSERT_GT(good.size(), 1000u);
  TemporaryFile file;
  std::mt19937 random(5);
  for (int i = 0; i < 600; ++i) {
    std::string damaged = good;
    for (auto k = random() % 3; k < 3; ++k) damaged[random() % 1100] = static_cast<char>(random());
    if (i % 3 == 0) damaged.resize(random() % damaged.size());
    file.write(damaged);
    State state;
    const int32_t status = aster_ml_state_read(&state, s.get(), file.path());
    EXPECT_TRUE(status == 0 || status == ASTER_ML_FORMAT || status == ASTER_ML_UNSUPPORTED)
        << last_error();
    for (size_t t = 0; t < aster_ml_state_count(&state); ++t) {
      Tensor x = get(state, aster_ml_state_name(&state, t));
      std::string out(static_cast<size_t>(aster_ml_lazy_count(x.get())) *
                          aster_ml_dtype_size(aster_ml_lazy_dtype(x.get())),
                      0);
      EXPECT_OK(aster_ml_lazy_copy_out(out.data(), out.size(), x.get()));
      OK(aster_ml_lazy_free(x.get()));
    }
  }
}

TEST(Safetensors, FilesThatCannotBeRead) {
  Session s;
  TemporaryFile folder;
  State state;
  EXPECT_EQ(aster_ml_state_read(&state, s.get(), folder.path()), ASTER_ML_NOT_FOUND);
  std::filesystem::create_directory(folder.path());
  EXPECT_EQ(aster_ml_state_read(&state, s.get(), folder.path()), ASTER_ML_IO);
  const std::string pipe = std::string(folder.path()) + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(aster_ml_state_read(&state, s.get(), pipe.c_str()), ASTER_ML_IO);
  EXPECT_EQ(aster_ml_state_read(&state, s.get(), "/dev/null"), ASTER_ML_IO);
  EXPECT_EQ(aster_ml_state_read(&state, s.get(), nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_state_read(nullptr, s.get(), "x"), ASTER_ML_ARGUMENT);
  EXPECT_EQ(state.h.impl, nullptr);
}

// A failed write leaves the old file, and nothing beside it.
TEST(Safetensors, WritesWholeOrNotAtAll) {
  Session s;
  TemporaryFile folder;
  std::filesystem::create_directory(folder.path());
  const std::string path = std::string(folder.path()) + "/model.safetensors";
  State good, bad, back;
  OK(aster_ml_state_init(&good, s.get()));
  OK(aster_ml_state_init(&bad, s.get()));
  Tensor x = Tensor(std::vector<float>{1, 2}, {2});
  Tensor odd = cast(x, ASTER_ML_DTYPE_FP8E4M3FNUZ);
  OK(aster_ml_state_set(&good, "x", x.get(), 0));
  OK(aster_ml_state_set(&bad, "x", x.get(), 0));
  OK(aster_ml_state_set(&bad, "odd", odd.get(), 0));
  OK(aster_ml_state_write(&good, path.c_str()));
  EXPECT_EQ(aster_ml_state_write(&bad, path.c_str()), ASTER_ML_UNSUPPORTED);
  OK(aster_ml_state_read(&back, s.get(), path.c_str()));
  EXPECT_EQ(read(get(back, "x")), (std::vector<float>{1, 2}));
  // Replaced while it is mapped: the mapped tensors stay what they were.
  Tensor other = Tensor(std::vector<float>{3}, {1});
  OK(aster_ml_state_set(&good, "x", other.get(), 0));
  OK(aster_ml_state_write(&good, path.c_str()));
  EXPECT_EQ(read(get(back, "x")), (std::vector<float>{1, 2}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(aster_ml_state_write(&good, (path + "/x").c_str()), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(aster_ml_state_write(&good, folder.path()), ASTER_ML_IO);
  EXPECT_EQ(aster_ml_state_write(&good, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Safetensors, NotInsideACapture) {
  Session s;
  TemporaryFile file;
  State state;
  OK(aster_ml_state_init(&state, s.get()));
  Tensor x = Tensor(std::vector<float>{1, 2}, {2});
  OK(aster_ml_state_set(&state, "x", x.get(), 0));
  OK(aster_ml_engine_capture_begin(s.get(), nullptr, 0));
  EXPECT_EQ(aster_ml_state_write(&state, file.path()), ASTER_ML_STATE);
  EXPECT_EQ(aster_ml_state_load(&state, &state), ASTER_ML_STATE);
  OK(aster_ml_engine_capture_cancel(s.get()));
}

// ---- What stands where a file is to be written ----

// A folder that goes with what is in it.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/aster_ml_write.XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  size_t count() const {
    const std::filesystem::directory_iterator all(path_);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

 private:
  std::filesystem::path path_;
};

class Writing : public ::testing::Test {
 protected:
  void SetUp() override {
    Tensor x(std::vector<float>{1, 2}, {2});
    OK(aster_ml_state_init(&state, s.get()));
    OK(aster_ml_state_set(&state, "x", x.get(), 0));
    OK(aster_ml_state_write(&state, (folder / "whole").c_str()));
    whole = file_bytes(folder / "whole");
    ASSERT_GT(whole.size(), 16u);
    std::filesystem::remove(folder / "whole");
  }
  int32_t write(const std::string& name) {
    return aster_ml_state_write(&state, (folder / name).c_str());
  }
  void put(const std::string& name, mode_t mode) {
    std::ofstream(folder / name) << "before";
    ASSERT_EQ(chmod((folder / name).c_str(), mode), 0);
  }
  mode_t mode_of(const std::string& name) {
    struct stat info {};
    EXPECT_EQ(lstat((folder / name).c_str(), &info), 0);
    return info.st_mode;
  }
  Session s;
  State state;
  Folder folder;
  std::string whole;
};

TEST_F(Writing, PermissionsStay) {
  const mode_t mask = umask(022);
  for (const mode_t mode : {mode_t{0600}, mode_t{0664}, mode_t{0755}}) {
    put("file", mode);
    OK(write("file"));
    EXPECT_EQ(mode_of("file") & 07777, mode);
    EXPECT_EQ(file_bytes(folder / "file"), whole);
  }
  OK(write("new"));
  EXPECT_EQ(mode_of("new") & 07777, mode_t{0644});
  umask(mask);
  EXPECT_EQ(folder.count(), 2u);
}

TEST_F(Writing, FilesThatMustNotBeWrittenAreNot) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write all files";
  put("file", 0444);
  EXPECT_EQ(write("file"), ASTER_ML_IO);
  EXPECT_EQ(file_bytes(folder / "file"), "before");
  EXPECT_EQ(folder.count(), 1u);
}

TEST_F(Writing, LinksAreFollowed) {
  namespace fs = std::filesystem;
  fs::create_directory(folder / "far");
  put("far/file", 0640);
  fs::create_symlink("far/file", folder / "link");
  fs::create_symlink(folder / "link", folder / "second");
  OK(write("second"));
  EXPECT_TRUE(S_ISLNK(mode_of("second")) && S_ISLNK(mode_of("link")));
  EXPECT_EQ(mode_of("far/file") & 07777, mode_t{0640});
  EXPECT_EQ(file_bytes(folder / "far/file"), whole);
  // A link to what is not there yet makes it; a circle is an error.
  fs::create_symlink("far/new", folder / "dangling");
  OK(write("dangling"));
  EXPECT_TRUE(S_ISLNK(mode_of("dangling")));
  EXPECT_EQ(file_bytes(folder / "far/new"), whole);
  fs::create_symlink("round", folder / "round");
  EXPECT_EQ(write("round"), ASTER_ML_IO);
  EXPECT_TRUE(S_ISLNK(mode_of("round")));
  EXPECT_EQ(write("no/such/file"), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(aster_ml_state_write(&state, ""), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(folder.count(), 5u);
}

TEST_F(Writing, DevicesAndPipesAreWrittenThrough) {
  struct stat before {
  }, after{};
  ASSERT_EQ(stat("/dev/null", &before), 0);
  OK(aster_ml_state_write(&state, "/dev/null"));
  ASSERT_EQ(stat("/dev/null", &after), 0);
  EXPECT_TRUE(S_ISCHR(after.st_mode));
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(aster_ml_state_write(&state, "/dev/full"), ASTER_ML_IO);

  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int pipe = open((folder / "pipe").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(pipe, 0);
  OK(write("pipe"));
  std::string read(whole.size() + 1, 0);
  const ssize_t count = ::read(pipe, read.data(), read.size());
  ASSERT_EQ(count, static_cast<ssize_t>(whole.size()));
  EXPECT_EQ(read.substr(0, whole.size()), whole);
  close(pipe);
  EXPECT_TRUE(S_ISFIFO(mode_of("pipe")));
  EXPECT_EQ(write("."), ASTER_ML_IO);
}

// Whoever reads may go: an error then, no signal.
TEST_F(Writing, APipeThatNobodyReads) {
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  Tensor large(std::vector<float>(1 << 20, 1.0f), {1 << 20});
  OK(aster_ml_state_set(&state, "large", large.get(), 0));
  const int reader = open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  std::thread leaves([reader] {
    char first = 0;
    while (read(reader, &first, 1) != 1) std::this_thread::yield();
    close(reader);
  });
  EXPECT_EQ(write("pipe"), ASTER_ML_IO);
  leaves.join();
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST_F(Writing, ATensorCannotHaveTheNameOfTheNotes) {
  Tensor x(1.0);
  OK(aster_ml_state_set(&state, "__metadata__", x.get(), 0));
  put("file", 0644);
  EXPECT_EQ(write("file"), ASTER_ML_ARGUMENT);
  EXPECT_NE(last_error().find("__metadata__"), std::string::npos) << last_error();
  EXPECT_EQ(file_bytes(folder / "file"), "before");
}

}  // namespace
}  // namespace nn_test
