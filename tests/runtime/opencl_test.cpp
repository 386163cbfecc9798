// OpenCL's table on this machine's first device: memory, copies, kernels, queues.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "aster_ml/view.h"
#include "base/sanitize.h"
#include "runtime/opencl/backend.h"

namespace aster::runtime::opencl {
namespace {

const char* const kText = R"(__kernel void scale(__global uchar *p0, ulong o0, __global uchar *p1,
                                                 ulong o1, long s0) {
  const long i = get_global_id(0);
  ((__global float *)(p1 + o1))[i] = ((__global const float *)(p0 + o0))[i] * (float)s0;
})";

class Opencl : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef ASTER_SANITIZED
    GTEST_SKIP() << "sanitizers tell of the driver's own";
#endif
    if (std::getenv("OPENCL_STUB") != nullptr) GTEST_SKIP();
    table_ = find_backend();
    if (table_ == nullptr) GTEST_SKIP() << "no device";
  }
  int32_t build(void** module, void** function, const std::string& text, std::string* said) {
    aster_ml_code code{};
    code.struct_size = sizeof(code);
    code.form = ASTER_ML_CODE_OPENCL_C;
    code.name = "scale";
    code.text = text.c_str();
    code.length = text.size();
    code.params = 2;
    code.sizes = 1;
    char log[4096] = {};
    const int32_t status = table_->build(nullptr, module, function, 0, &code, 1, log, sizeof(log));
    if (said != nullptr) *said = log;
    return status;
  }
  // 16 floats times a number, read 4 floats behind the beginning.
  void run(void* function, int64_t factor) {
    void *memory[2] = {}, *queue = nullptr;
    std::vector<float> in(20), out(16);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
    ASSERT_EQ(table_->allocate(nullptr, &memory[0], 0, 80), ASTER_ML_OK);
    ASSERT_EQ(table_->allocate_kind(nullptr, &memory[1], 0, 64, ASTER_ML_MEMORY_DEVICE),
              ASTER_ML_OK);
    ASSERT_EQ(table_->open(nullptr, &queue, 0, 0), ASTER_ML_OK);
    const size_t offsets[] = {16, 0};
    aster_ml_command commands[3] = {};
    for (aster_ml_command& one : commands) one.struct_size = sizeof(one);
    commands[0].kind = ASTER_ML_COMMAND_COPY_IN;
    commands[0].to = memory[0];
    commands[0].from = in.data();
    commands[0].bytes = 80;
    commands[1].kind = ASTER_ML_COMMAND_LAUNCH;
    commands[1].function = function;
    commands[1].operands = memory;
    commands[1].offsets = offsets;
    commands[1].operand_count = 2;
    commands[1].size_count = 1;
    commands[1].sizes = &factor;
    commands[1].tasks = 16;
    commands[2].kind = ASTER_ML_COMMAND_COPY_OUT;
    commands[2].to = out.data();
    commands[2].from = memory[1];
    commands[2].bytes = 64;
    uint64_t ticket = 0;
    for (int again = 0; again < 20; ++again) {
      ASSERT_EQ(table_->submit(nullptr, &ticket, 0, queue, commands, 3), ASTER_ML_OK);
      ASSERT_EQ(table_->wait(nullptr, 0, queue, ticket), ASTER_ML_OK);
      for (size_t i = 0; i < 16; ++i) {
        ASSERT_EQ(out[i], static_cast<float>(static_cast<int64_t>(i + 4) * factor));
      }
    }
    table_->close(nullptr, 0, queue);
    for (void* data : memory) table_->release(nullptr, 0, data, 64);
  }
  const aster_ml_backend* table_ = nullptr;
};

TEST_F(Opencl, KernelsRunInQueuesOfSeveralThreads) {
  void *module = nullptr, *function = nullptr;
  ASSERT_EQ(build(&module, &function, kText, nullptr), ASTER_ML_OK);
  run(function, -1);  // no number stands for one that is not set yet
  std::vector<std::thread> threads;
  for (int64_t t = 2; t < 5; ++t) threads.emplace_back([&, t] { run(function, t); });
  for (std::thread& one : threads) one.join();
  table_->unbuild(nullptr, 0, module);
}

TEST_F(Opencl, AMistakeIsTheCompilersText) {
  void *module = nullptr, *function = nullptr;
  std::string said;
  EXPECT_EQ(build(&module, &function, "__kernel void scale(int x) { y = x; }", &said),
            ASTER_ML_COMPILE);
  EXPECT_NE(said.find("undeclared identifier 'y'"), std::string::npos) << said;
}

// What is kept on disk serves the next build, and is made anew where it was damaged.
TEST_F(Opencl, DamagedFilesAreMadeAnew) {
  const char* const cache = std::getenv("ASTER_ML_CACHE_DIR");
  if (cache == nullptr) GTEST_SKIP() << "no cache of its own";
  const std::string text = std::string(kText) + "// " + std::to_string(getpid());
  std::vector<std::filesystem::path> mine;
  for (const bool damage : {false, true}) {
    void *module = nullptr, *function = nullptr;
    const auto before = std::filesystem::file_time_type::clock::now();
    ASSERT_EQ(build(&module, &function, text, nullptr), ASTER_ML_OK);
    run(function, 3);
    table_->unbuild(nullptr, 0, module);
    if (damage) break;
    for (const auto& file : std::filesystem::recursive_directory_iterator(cache)) {
      const bool opencl = file.path().string().find("/opencl/") != std::string::npos;
      if (opencl && file.is_regular_file() &&
          file.last_write_time() >= before - std::chrono::seconds(1)) {
        mine.push_back(file.path());
      }
    }
    ASSERT_FALSE(mine.empty());
    for (const auto& path : mine) {
      std::filesystem::permissions(path, std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
      std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(200) << "damaged";
    }
  }
}

TEST_F(Opencl, QueuesWaitForEachOther) {
  void *data[2] = {}, *queues[2] = {};
  constexpr size_t kBytes = size_t{1} << 22;
  std::vector<char> in(kBytes, 'x'), out(kBytes);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(table_->allocate(nullptr, &data[i], 0, kBytes), ASTER_ML_OK);
    ASSERT_EQ(
        table_->open(nullptr, &queues[i], 0, i == 0 ? uint32_t{ASTER_ML_QUEUE_OUT_OF_ORDER} : 0u),
        ASTER_ML_OK);
  }
  aster_ml_command first[3] = {}, second[2] = {};
  first[0].kind = ASTER_ML_COMMAND_COPY_IN;
  first[0].to = data[0];
  first[0].from = in.data();
  first[1].kind = ASTER_ML_COMMAND_WAIT;
  first[2].kind = ASTER_ML_COMMAND_COPY;
  first[2].to = data[1];
  first[2].from = data[0];
  second[0].kind = ASTER_ML_COMMAND_WAIT;
  second[0].queue = queues[0];
  second[1].kind = ASTER_ML_COMMAND_COPY_OUT;
  second[1].to = out.data();
  second[1].from = data[1];
  for (aster_ml_command* one : {&first[0], &first[2], &second[1]}) one->bytes = kBytes;
  uint64_t ticket = 0;
  ASSERT_EQ(table_->submit(nullptr, &ticket, 0, queues[0], first, 3), ASTER_ML_OK);
  second[0].ticket = ticket;
  ASSERT_EQ(table_->submit(nullptr, &ticket, 0, queues[1], second, 2), ASTER_ML_OK);
  ASSERT_EQ(table_->wait(nullptr, 0, queues[1], ticket), ASTER_ML_OK);
  EXPECT_EQ(in, out);
  for (int i = 0; i < 2; ++i) {
    table_->close(nullptr, 0, queues[i]);
    table_->release(nullptr, 0, data[i], kBytes);
  }
}

// What was released serves the next allocation of its size, and no other.
TEST_F(Opencl, ReleasedMemoryIsTakenAgain) {
  constexpr size_t kBytes = size_t{5} << 20;
  std::vector<char> in(kBytes, 'y'), out(kBytes);
  void *first = nullptr, *other = nullptr, *again = nullptr;
  ASSERT_EQ(table_->allocate(nullptr, &first, 0, kBytes), ASTER_ML_OK);
  ASSERT_EQ(table_->copy_in(nullptr, 0, first, 0, in.data(), kBytes), ASTER_ML_OK);
  table_->release(nullptr, 0, first, kBytes);
  ASSERT_EQ(table_->allocate(nullptr, &other, 0, kBytes + 64), ASTER_ML_OK);
  EXPECT_NE(other, first);
  ASSERT_EQ(table_->allocate(nullptr, &again, 0, kBytes), ASTER_ML_OK);
  EXPECT_EQ(again, first);
  ASSERT_EQ(table_->copy_in(nullptr, 0, other, 64, in.data(), kBytes), ASTER_ML_OK);
  ASSERT_EQ(table_->copy(nullptr, 0, again, 0, other, 64, kBytes), ASTER_ML_OK);
  ASSERT_EQ(table_->copy_out(nullptr, 0, out.data(), again, 0, kBytes), ASTER_ML_OK);
  EXPECT_EQ(in, out);
  table_->release(nullptr, 0, other, kBytes + 64);
  table_->release(nullptr, 0, again, kBytes);
}

// Of the two kinds that the host addresses a device has one: unified where its memory is the
// host's.
TEST_F(Opencl, PinnedOrUnifiedMemory) {
  constexpr size_t kBytes = 4096;
  aster_ml_device_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(table_->describe(nullptr, 0, &info), ASTER_ML_OK);
  const bool unified = (info.flags & ASTER_ML_DEVICE_UNIFIED) != 0;
  const int32_t kind = unified ? ASTER_ML_MEMORY_UNIFIED : ASTER_ML_MEMORY_PINNED;
  const int32_t other = unified ? ASTER_ML_MEMORY_PINNED : ASTER_ML_MEMORY_UNIFIED;
  void *at = nullptr, *data = nullptr;
  EXPECT_EQ(table_->allocate_kind(nullptr, &at, 0, kBytes, other), ASTER_ML_UNSUPPORTED);
  ASSERT_EQ(table_->allocate_kind(nullptr, &at, 0, kBytes, kind), ASTER_ML_OK);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 64, 0u);
  ASSERT_EQ(table_->allocate(nullptr, &data, 0, kBytes), ASTER_ML_OK);
  const std::vector<char> in(kBytes, 'z');
  std::copy(in.begin(), in.end(), static_cast<char*>(at));
  ASSERT_EQ(table_->copy_in(nullptr, 0, data, 0, at, kBytes), ASTER_ML_OK);
  std::fill_n(static_cast<char*>(at), kBytes, 'a');
  ASSERT_EQ(table_->copy_out(nullptr, 0, at, data, 0, kBytes), ASTER_ML_OK);
  EXPECT_TRUE(std::equal(in.begin(), in.end(), static_cast<char*>(at)));
  table_->release(nullptr, 0, at, kBytes);
  table_->release(nullptr, 0, data, kBytes);
}

}  // namespace
}  // namespace aster::runtime::opencl
