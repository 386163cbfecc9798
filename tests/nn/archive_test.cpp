#include <unistd.h>
#include <zlib.h>

#include "nn/world.h"

namespace nn_test {
namespace {

std::string shipped(const std::string& name) { return data_path(name, "data"); }

// As content() of data/make.py.
std::string content(const std::string& name) {
  std::string out;
  for (int i = 0; i < 40; ++i) out += name + "\n";
  return out;
}
std::string noise() {
  std::string out;
  for (unsigned i = 0; i < 3000; ++i) out += static_cast<char>((i * i * 31 + (i >> 3) * 7) & 0xFF);
  return out;
}

using Read = int32_t (*)(aster_ml_state*, const aster_ml_lazy*);
int32_t code_of(Read read, const std::string& bytes) {
  State state;
  Tensor file = bytes_tensor(bytes);
  const int32_t code = read(&state, file.get());
  EXPECT_EQ(state.h.impl == nullptr, code != 0);
  return code;
}

TEST(Archive, ReadsZip) {
  Session s;
  State state, again;
  OK(aster_ml_state_read_zip(&state, s.get(), shipped("archive.zip").c_str()));
  EXPECT_EQ(aster_ml_state_count(&state), 8u);
  for (const char* name : {"stored.txt", "deflated.txt", "ä.bin"}) {
    EXPECT_EQ(read_bytes(get(state, name)), content(name)) << name;
  }
  EXPECT_EQ(read_bytes(get(state, "folder/")), "");
  EXPECT_EQ(read_bytes(get(state, "level 1")), noise() + noise());
  std::string repeated;
  for (int i = 0; i < 2000; ++i) repeated += "abc";
  EXPECT_EQ(read_bytes(get(state, "level 9")), repeated);
  EXPECT_EQ(read_bytes(get(state, "level 6")), "x");
  EXPECT_EQ(read_bytes(get(state, "level 0")), noise());
  // Something in front of the archive, and a comment behind it.
  std::string moved = "#!/bin/sh\n" + file_bytes(shipped("archive.zip")) + "comment";
  moved[moved.size() - 7 - 2] = 7;
  Tensor bytes = bytes_tensor(moved);
  OK(aster_ml_state_from_zip(&again, bytes.get()));
  EXPECT_EQ(read_bytes(get(again, "stored.txt")), content("stored.txt"));
}

TEST(Archive, ReadsTar) {
  Session s;
  const std::string longest = "folder/" + std::string(150, 'l') + ".txt";
  for (const char* file : {"archive.tar", "archive.tar.gz"}) {
    State state;
    OK(aster_ml_state_read_tar(&state, s.get(), shipped(file).c_str()));
    EXPECT_EQ(aster_ml_state_count(&state), 3u) << file;  // no folders, no links; one twice
    for (const std::string& name : {std::string("first.txt"), longest, std::string("ä.bin")}) {
      EXPECT_EQ(read_bytes(get(state, name.c_str())), content(name)) << file;
    }
  }
}

// Little-endian numbers into a copy of an archive.
std::string patched(std::string bytes, size_t at, uint64_t value, size_t size) {
  std::memcpy(bytes.data() + at, &value, size);
  return bytes;
}

TEST(Archive, RefusesBadZip) {
  Session s;
  const std::string good = file_bytes(shipped("archive.zip"));
  const size_t end = good.size() - 22;
  uint32_t directory = 0;
  std::memcpy(&directory, good.data() + end + 16, 4);
  ASSERT_EQ(good.substr(directory, 4), "PK\1\2");
  const auto code = [&](const std::string& bytes) {
    return code_of(aster_ml_state_from_zip, bytes);
  };
  EXPECT_EQ(code(good), 0);
  EXPECT_EQ(code(""), ASTER_ML_FORMAT);
  EXPECT_EQ(code("PK\5\6"), ASTER_ML_FORMAT);
  EXPECT_EQ(code(good.substr(0, end)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(patched(good, end + 10, 9, 2)), ASTER_ML_FORMAT);              // entries
  EXPECT_EQ(code(patched(good, end + 12, 0xFFFFFFFF, 4)), ASTER_ML_FORMAT);     // directory's size
  EXPECT_EQ(code(patched(good, end + 16, 0xFFFFFFF0, 4)), ASTER_ML_FORMAT);     // its place
  EXPECT_EQ(code(patched(good, directory + 8, 1, 2)), ASTER_ML_UNSUPPORTED);    // encrypted
  EXPECT_EQ(code(patched(good, directory + 10, 12, 2)), ASTER_ML_UNSUPPORTED);  // bzip2
  EXPECT_EQ(code(patched(good, directory + 20, 1 << 30, 4)), ASTER_ML_FORMAT);  // sizes
  EXPECT_EQ(code(patched(good, directory + 24, 1 << 30, 4)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(patched(good, directory + 28, 0xFFFF, 2)), ASTER_ML_FORMAT);     // name's length
  EXPECT_EQ(code(patched(good, directory + 42, directory, 4)), ASTER_ML_FORMAT);  // place
  EXPECT_EQ(code(patched(good, directory + 42, 60, 4)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(patched(good, directory + 46, 0xFF, 1)), ASTER_ML_FORMAT);  // name is not UTF-8
  // The second entry at the place of the first: files that overlap.
  const size_t second = directory + 46 + std::strlen("stored.txt");
  ASSERT_EQ(good.substr(second, 4), "PK\1\2");
  EXPECT_NE(code(patched(good, second + 42, 0, 4)), 0);
  // A deflated file: its checksum, its size, its data.
  EXPECT_EQ(code(patched(good, second + 16, 1, 4)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(patched(good, second + 24, 100, 4)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(patched(good, second + 24, 1 << 30, 4)), ASTER_ML_FORMAT);
  uint32_t place = 0;
  std::memcpy(&place, good.data() + second + 42, 4);
  EXPECT_EQ(code(patched(good, place + 30 + std::strlen("deflated.txt"), 7, 1)), ASTER_ML_FORMAT);
}

TEST(Archive, RefusesBadTar) {
  Session s;
  const std::string good = file_bytes(shipped("archive.tar"));
  const std::string packed = file_bytes(shipped("archive.tar.gz"));
  const auto code = [&](const std::string& bytes) {
    return code_of(aster_ml_state_from_tar, bytes);
  };
  // A header with another type or size, its checksum made right.
  const auto header = [&](size_t at, const std::string& value) {
    std::string bytes = good;
    bytes.replace(at, value.size(), value);
    bytes.replace(148, 8, 8, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(bytes[i]);
    char text[9];
    std::snprintf(text, sizeof(text), "%06o", sum);
    bytes.replace(148, 7, std::string(text, 7));
    return bytes;
  };
  EXPECT_EQ(code(good), 0);
  EXPECT_EQ(code(header(0, "f")), 0);
  EXPECT_EQ(code(""), ASTER_ML_FORMAT);
  EXPECT_EQ(code(std::string(100, '\0')), ASTER_ML_FORMAT);
  EXPECT_EQ(code(std::string(1024, '\0')), 0);  // an empty archive
  EXPECT_EQ(code(std::string(1024, 'x')), ASTER_ML_FORMAT);
  EXPECT_EQ(code(patched(good, 0, 'X', 1)), ASTER_ML_FORMAT);  // checksum
  EXPECT_EQ(code(header(124, "77777777777")), ASTER_ML_FORMAT);
  EXPECT_EQ(code(header(124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")), ASTER_ML_FORMAT);
  EXPECT_EQ(code(header(124, "9")), ASTER_ML_FORMAT);
  EXPECT_EQ(code(header(156, "S")), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(code(header(0, "\xff")), ASTER_ML_FORMAT);
  EXPECT_EQ(code(header(156, "x")), ASTER_ML_FORMAT);  // its data are no records
  // It ends early: inside a header, a file, the zeros behind one, behind an extended header. The
  // two blocks of zeros at the end may lack.
  EXPECT_EQ(code(good.substr(0, 512)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(good.substr(0, 1023)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(good.substr(0, 1024)), 0);
  EXPECT_EQ(code(good.substr(0, 1100)), 0);
  EXPECT_EQ(code(header(156, "L").substr(0, 1024)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(packed), 0);
  EXPECT_EQ(code(packed.substr(0, packed.size() - 1)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(patched(packed, 20, 0, 1)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(patched(packed, packed.size() - 8, 0, 4)), ASTER_ML_FORMAT);
  EXPECT_EQ(code(patched(packed, packed.size() - 4, 0xFFFFFFFF, 4)), ASTER_ML_FORMAT);
  EXPECT_EQ(code("BZh91AY&SY" + std::string(600, 'x')), ASTER_ML_FORMAT);
}

// As gzip has it.
std::string zipped(size_t zeros) {
  std::string out(zeros / 500 + 1000, 0);
  std::vector<uint8_t> piece(1 << 20);
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_out = reinterpret_cast<uint8_t*>(out.data());
  stream.avail_out = static_cast<unsigned>(out.size());
  for (size_t done = 0; done < zeros; done += piece.size()) {
    stream.next_in = piece.data();
    stream.avail_in = static_cast<unsigned>(std::min(piece.size(), zeros - done));
    EXPECT_EQ(deflate(&stream, Z_NO_FLUSH), Z_OK);
  }
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

TEST(Archive, WhatItUnpacksToIsBounded) {
  Session s;
  const auto zip = [&] {
    return code_of(aster_ml_state_from_zip, file_bytes(shipped("archive.zip")));
  };
  const auto tar = [&](const std::string& bytes) {
    return code_of(aster_ml_state_from_tar, bytes);
  };
  const size_t megabyte = 1 << 20;
  EXPECT_EQ(tar(zipped(64 * megabyte)), 0) << last_error();
  EXPECT_EQ(tar(zipped(65 * megabyte)), ASTER_ML_RANGE);
  EXPECT_NE(last_error().find("68157440"), std::string::npos) << last_error();
  EXPECT_EQ(zip(), 0) << last_error();
  OK(aster_ml_context_set_archive_limit(s.get(), 6001));  // one file of it is larger than the rest
  EXPECT_EQ(zip(), ASTER_ML_RANGE);
  EXPECT_EQ(tar(zipped(6001)), 0) << last_error();  // zeros end an archive
  EXPECT_EQ(tar(zipped(6002)), ASTER_ML_RANGE);
  OK(aster_ml_context_set_archive_limit(s.get(), UINT64_MAX));
  EXPECT_EQ(zip(), 0) << last_error();
  EXPECT_EQ(tar(zipped(65 * megabyte)), 0) << last_error();
  OK(aster_ml_context_set_archive_limit(s.get(), 0));
  EXPECT_EQ(tar(zipped(65 * megabyte)), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_context_set_archive_limit(nullptr, 0), ASTER_ML_ARGUMENT);
}

TEST(Archive, RefusesWhatIsNoFile) {
  Session s;
  State state;
  Tensor floats = Tensor(std::vector<float>{1, 2}, {2}), nothing;
  using ReadPath = int32_t (*)(aster_ml_state*, const aster_ml_context*, const char*);
  for (const ReadPath read : {aster_ml_state_read_zip, aster_ml_state_read_tar,
                              aster_ml_state_read_torch, aster_ml_state_read}) {
    EXPECT_EQ(read(&state, s.get(), "/nowhere/at/all"), ASTER_ML_NOT_FOUND);
    EXPECT_EQ(read(&state, s.get(), "/dev/null"), ASTER_ML_IO);
    EXPECT_EQ(read(&state, s.get(), nullptr), ASTER_ML_ARGUMENT);
    EXPECT_EQ(read(nullptr, s.get(), "x"), ASTER_ML_ARGUMENT);
    EXPECT_EQ(read(&state, nullptr, "x"), ASTER_ML_ARGUMENT);
  }
  for (const Read read : {aster_ml_state_from_zip, aster_ml_state_from_tar,
                          aster_ml_state_from_torch, aster_ml_state_from_safetensors}) {
    EXPECT_EQ(read(&state, floats.get()), ASTER_ML_DTYPE);
    EXPECT_NE(read(&state, nothing.get()), 0);
    EXPECT_EQ(read(&state, nullptr), ASTER_ML_ARGUMENT);
    EXPECT_EQ(read(nullptr, floats.get()), ASTER_ML_ARGUMENT);
  }
  EXPECT_EQ(state.h.impl, nullptr);
}

}  // namespace
}  // namespace nn_test
