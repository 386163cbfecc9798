// Schedules that are read from disk: the same launches and bits as made ones, and never those of
// another graph, build or a file that was changed.
#include "engine/kept_schedules.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/checked.h"
#include "base/content.h"
#include "engine/recording.h"
#include "engine/world.h"

namespace aster::engine::testing {
namespace {

namespace fs = std::filesystem;

class KeptSchedules : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("aster_schedules_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    path_ = folder_.string();
  }
  void TearDown() override {
    set_build_for_tests("");
    fs::remove_all(folder_);
  }
  aster_ml_context_options options() const {
    aster_ml_context_options out{};
    out.no_sizes = 1;  // every schedule is for its own sizes
    out.cache_dir = path_.c_str();
    return out;
  }
  // Files of schedules.
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    if (!fs::exists(folder_ / "v1" / "schedules")) return out;
    for (const auto& each : fs::recursive_directory_iterator(folder_ / "v1" / "schedules")) {
      if (each.is_regular_file()) out.push_back(each.path());
    }
    return out;
  }
  struct Outcome {
    std::vector<float> values;
    std::string summary;
    aster_ml_engine_counters counters;
  };
  // A small network in a context of its own: several kernels, temporaries, one scratch.
  Outcome run(Word rows = 12, const aster_ml_context_options* other = nullptr) const {
    World w(other != nullptr ? *other : options());
    const Node x = w.random({rows, 40}, 1), y = w.random({40, 24}, 2);
    const Node z = w.row_softmax(w.product(x, y));
    const Node out = w.product(z, w.g().permute(z, words({1, 0})));
    Outcome result;
    result.values = w.compute(out);
    result.summary = std::string(w.engine().last->summary.view());
    result.counters = w.engine().counters;
    return result;
  }

  fs::path folder_;
  std::string path_;
};

void expect_same(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

TEST_F(KeptSchedules, AnotherContextReadsWhatOneMade) {
  const Outcome first = run(), second = run();
  EXPECT_EQ(first.counters.schedules_read, 0u);
  EXPECT_EQ(first.counters.schedules_kept, 1u);
  EXPECT_EQ(second.counters.schedules_read, 1u);
  EXPECT_EQ(second.counters.schedules_kept, 0u);
  EXPECT_EQ(files().size(), 1u);
  // What is counted is what was made.
  EXPECT_EQ(second.counters.schedule_misses, first.counters.schedule_misses);
  EXPECT_EQ(second.counters.kernels_scheduled, first.counters.kernels_scheduled);
  EXPECT_EQ(second.counters.planned_bytes, first.counters.planned_bytes);
  EXPECT_EQ(second.counters.operations, first.counters.operations);
  EXPECT_EQ(second.counters.moved_bytes, first.counters.moved_bytes);
  EXPECT_EQ(second.counters.last_kernels, first.counters.last_kernels);
  EXPECT_EQ(second.counters.kernels_compiled, 0u);
  EXPECT_EQ(second.counters.kernels_cached, first.counters.kernels_compiled);
  EXPECT_EQ(second.summary, first.summary);
  expect_same(second.values, first.values);
}

TEST_F(KeptSchedules, OtherGraphsAndOptionsHaveOthers) {
  (void)run();
  EXPECT_EQ(run(13).counters.schedules_read, 0u);
  EXPECT_EQ(run(13).counters.schedules_read, 1u);
  aster_ml_context_options narrow = options();
  narrow.vector_bytes = 16;
  EXPECT_EQ(run(12, &narrow).counters.schedules_read, 0u);
  aster_ml_context_options generated = options();
  generated.no_library = 1;
  EXPECT_EQ(run(12, &generated).counters.schedules_read, 0u);
  EXPECT_EQ(run().counters.schedules_read, 1u);
}

// More threads have more scratch memory each, of the same schedule.
TEST_F(KeptSchedules, AnyNumberOfThreads) {
  const Outcome two = run();
  aster_ml_context_options one = options();
  one.threads = 1;
  const Outcome alone = run(12, &one);
  EXPECT_EQ(alone.counters.schedules_read, 1u);
  expect_same(alone.values, two.values);
}

TEST_F(KeptSchedules, AnotherBuildMakesItsOwn) {
  (void)run();
  set_build_for_tests("another");
  EXPECT_EQ(run().counters.schedules_read, 0u);
  EXPECT_EQ(run().counters.schedules_read, 1u);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(KeptSchedules, AreNotKeptWhereNotWanted) {
  setenv("ASTER_ML_NO_KEPT_SCHEDULES", "1", 1);
  EXPECT_EQ(run().counters.schedules_kept, 0u);
  EXPECT_EQ(run().counters.schedules_read, 0u);
  unsetenv("ASTER_ML_NO_KEPT_SCHEDULES");
  aster_ml_context_options closed = options();
  closed.no_disk_cache = 1;
  EXPECT_EQ(run(12, &closed).counters.schedules_kept, 0u);
  // What may take sizes of others depends on what came before it.
  aster_ml_context_options sized = options();
  sized.no_sizes = 0;
  EXPECT_EQ(run(12, &sized).counters.schedules_kept, 0u);
  EXPECT_EQ(files().size(), 0u);
}

// Calls of the library's own functions are prepared in each process.
TEST_F(KeptSchedules, NativeCallsAreNotKept) {
  for (int i = 0; i < 2; ++i) {
    World w(options());
    const Node x = w.random({8, 300}, 3);
    (void)w.compute(w.g().cast(w.g().argsort(x, 1, false, 300), DType::kFloat32));
    EXPECT_EQ(w.engine().counters.schedules_kept, 0u);
    EXPECT_EQ(w.engine().counters.schedules_read, 0u);
  }
}

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_all(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  chmod(path.c_str(), 0600);
}

// A truncated file, one of which a byte is another, an empty one, and a folder: made anew.
TEST_F(KeptSchedules, DamagedFilesAreMisses) {
  const Outcome first = run();
  ASSERT_EQ(files().size(), 1u);
  const fs::path file = files()[0];
  const std::string whole = read_all(file);
  std::vector<std::string> damaged = {"", whole.substr(0, 40), whole.substr(0, whole.size() / 2),
                                      whole.substr(0, whole.size() - 1), whole + "x"};
  for (size_t at : {size_t{0}, size_t{9}, size_t{17}, size_t{40}, size_t{70}, whole.size() / 2,
                    whole.size() - 1}) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    damaged.push_back(flipped);
  }
  for (const std::string& bytes : damaged) {
    write_all(file, bytes);
    const Outcome again = run();
    EXPECT_EQ(again.counters.schedules_read, 0u);
    EXPECT_EQ(again.counters.schedules_kept, 1u);
    expect_same(again.values, first.values);
    EXPECT_EQ(read_all(file), whole);
  }
  fs::remove(file);
  fs::create_directory(file);
  const Outcome again = run();
  EXPECT_EQ(again.counters.schedules_read, 0u);
  expect_same(again.values, first.values);
}

// Bytes of a file as Cache writes them.
constexpr size_t kHeader = 64;
std::string sealed(std::string bytes) {
  constexpr size_t kLength = 16, kSum = 24, kKey = 32;
  const uint64_t length = bytes.size() - kHeader;
  std::memcpy(&bytes[kLength], &length, sizeof(length));
  const auto part = [&](size_t at, size_t size) {
    return content_of({reinterpret_cast<const uint8_t*>(&bytes[at]), size});
  };
  const Content key = part(kKey, 32), body = part(kHeader, length);
  const uint64_t state = hash_mix(hash_mix(key.low, key.high), hash_mix(body.low, body.high));
  std::memcpy(&bytes[kSum], &state, sizeof(state));
  return bytes;
}

// What the checksum is right for, and says what cannot be: every number of the body in turn.
TEST_F(KeptSchedules, WhatDoesNotFitIsAMiss) {
  const Outcome first = run();
  const fs::path file = files()[0];
  const std::string whole = read_all(file);
  ASSERT_EQ(sealed(whole), whole);
  uint64_t key_bytes = 0;
  std::memcpy(&key_bytes, &whole[kHeader], sizeof(key_bytes));
  size_t misses = 0, tried = 0;
  const auto attempt = [&](const std::string& bytes) {
    write_all(file, sealed(bytes));
    World w(options());
    const Node x = w.random({12, 40}, 1), y = w.random({40, 24}, 2);
    const Node z = w.row_softmax(w.product(x, y));
    Lazy* const cell = w.cell(w.product(z, w.g().permute(z, words({1, 0}))));
    Executable* exe = nullptr;
    Leaves leaves(w.engine().context.heap());
    // Scheduled and not run: a number that says less than what is so may still fit.
    const Node root = cell->node->src(0);  // below the reshape
    const Status status = w.engine().executable(&exe, std::array{root}, &leaves, device::kCpu);
    ASSERT_TRUE(status.ok());
    exe->release();
    ++tried;
    misses += w.engine().counters.schedules_read == 0;
  };
  // Behind the key: kernels, slots, operands, launches, roots.
  for (size_t at = kHeader + 8 + key_bytes; at + 8 <= whole.size(); at += 8 * 7) {
    for (const uint64_t value : {~uint64_t{0}, uint64_t{1} << 40}) {
      std::string bytes = whole;
      std::memcpy(&bytes[at], &value, sizeof(value));
      attempt(bytes);
    }
  }
  for (size_t cut = kHeader; cut < whole.size(); cut += whole.size() / 37)
    attempt(whole.substr(0, cut));
  EXPECT_GT(misses, tried / 2);
  write_all(file, whole);
  const Outcome again = run();
  EXPECT_EQ(again.counters.schedules_read, 1u);
  expect_same(again.values, first.values);
}

// Kernels that were removed meanwhile: everything is made again.
TEST_F(KeptSchedules, WithoutItsKernelsItIsAMiss) {
  const Outcome first = run();
  for (const auto& each : fs::directory_iterator(folder_ / "v1")) {
    if (each.path().filename() != "schedules") fs::remove_all(each.path());
  }
  const Outcome again = run();
  EXPECT_EQ(again.counters.schedules_read, 0u);
  EXPECT_GT(again.counters.kernels_compiled, 0u);
  expect_same(again.values, first.values);
  EXPECT_EQ(run().counters.schedules_read, 1u);
}

// A capture of x times the rows of weights, which are constant.
struct Captured {
  std::vector<float> values;
  aster_ml_engine_counters counters;
  size_t copies = 0;
};
void capture(Captured* out, const aster_ml_context_options& options, Word outs = 96,
             bool constant = true, DType dtype = DType::kFloat32) {
  World w(options);
  Lazy* const x = w.cell(w.random({64, 300}, 1));
  Lazy* weights = w.cell(w.random({outs, 300}, 2));
  if (dtype != DType::kFloat32) {
    Lazy* const cast = w.cell(w.g().cast(weights->node, dtype));
    w.realize({cast});
    weights = cast;
  }
  const Node wide = w.g().cast(weights->node, DType::kFloat32);
  const Node y = w.hold(w.product(x->node, w.g().permute(wide, words({1, 0}))));
  const std::vector<float> expected = w.interpreted(y);
  aster_ml_context context = w.engine().context.inner_handle();
  aster_ml_lazy input{x->handle};
  aster_ml_lazy* const inputs[] = {&input};
  ASSERT_EQ(aster_ml_engine_capture_begin(&context, inputs, 1), 0);
  w.engine().recording->constant = constant;
  Lazy* const result = w.cell(y);
  w.realize({result});
  out->values = w.read(result);
  ASSERT_EQ(out->values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(out->values[i], expected[i], 1e-4) << i;
  aster_ml_lazy output{result->handle};
  aster_ml_lazy* const outputs[] = {&output};
  aster_ml_program program{};
  ASSERT_EQ(aster_ml_engine_capture_end(&program, &context, outputs, 1), 0);
  out->copies = w.engine().copies.size();
  out->counters = w.engine().counters;
  aster_ml_program_free(&program);
}

// What makes the copies of constants is compiled and kept with the schedule.
TEST_F(KeptSchedules, OfConstantsMakeTheirCopies) {
  const aster_ml_context_options now = options();
  Captured first, second;
  ASSERT_NO_FATAL_FAILURE(capture(&first, now));
  ASSERT_NO_FATAL_FAILURE(capture(&second, now));
  EXPECT_EQ(first.counters.schedules_kept, 1u);
  EXPECT_EQ(first.counters.kernels_compiled, 2u);  // the product, and the copy
  EXPECT_EQ(first.copies, 1u);
  EXPECT_EQ(second.counters.schedules_read, 1u);
  EXPECT_EQ(second.counters.kernels_compiled, 0u);
  EXPECT_EQ(second.counters.kernels_cached, 2u);
  EXPECT_EQ(second.copies, 1u);
  expect_same(second.values, first.values);
}

// Weights of other sizes, of another dtype, and those that may change.
TEST_F(KeptSchedules, OtherConstantsHaveOthers) {
  const aster_ml_context_options now = options();
  Captured got;
  ASSERT_NO_FATAL_FAILURE(capture(&got, now));
  for (int i = 0; i < 2; ++i) {
    const uint64_t read = i == 0 ? 0u : 1u;
    ASSERT_NO_FATAL_FAILURE(capture(&got, now, 80));
    EXPECT_EQ(got.counters.schedules_read, read);
    ASSERT_NO_FATAL_FAILURE(capture(&got, now, 96, false));
    EXPECT_EQ(got.counters.schedules_read, read);
    EXPECT_EQ(got.copies, 0u);
    ASSERT_NO_FATAL_FAILURE(capture(&got, now, 96, true, DType::kFloat64));
    EXPECT_EQ(got.counters.schedules_read, 2 * read);  // that of the weights too
  }
  // Elements that nothing is written to are 0.
  ASSERT_NO_FATAL_FAILURE(capture(&got, now, 93));
  ASSERT_NO_FATAL_FAILURE(capture(&got, now, 93));
  EXPECT_EQ(got.counters.schedules_read, 1u);
}

// Numbers of a file that say what cannot be are misses, and what is made then is right.
TEST_F(KeptSchedules, CopiesThatDoNotFitAreMisses) {
  const aster_ml_context_options now = options();
  Captured first;
  ASSERT_NO_FATAL_FAILURE(capture(&first, now));
  ASSERT_EQ(files().size(), 1u);
  const fs::path file = files()[0];
  const std::string whole = read_all(file);
  ASSERT_EQ(sealed(whole), whole);
  // The copy's entry: its kernel, leaf, scratch, bytes and the digest of its program, before the
  // roots, the summary and six more numbers.
  const uint64_t bytes = 96 * 300 * 4;
  size_t at = 0, found = 0;
  for (size_t i = kHeader; i + 8 <= whole.size(); ++i) {
    uint64_t number = 0;
    std::memcpy(&number, &whole[i], sizeof(number));
    if (number == bytes) at = i, ++found;
  }
  ASSERT_EQ(found, 1u);
  const auto attempt = [&](int64_t entry, uint64_t value) {
    std::string changed = whole;
    std::memcpy(&changed[static_cast<size_t>(static_cast<int64_t>(at) + 8 * entry)], &value,
                sizeof(value));
    write_all(file, sealed(changed));
    Captured got;
    ASSERT_NO_FATAL_FAILURE(capture(&got, now));
    EXPECT_EQ(got.counters.schedules_read, 0u) << entry << ": " << value;
    EXPECT_EQ(got.copies, 1u);
    expect_same(got.values, first.values);
    EXPECT_EQ(read_all(file), whole);
  };
  for (const uint64_t count : {uint64_t{0}, uint64_t{2}, ~uint64_t{0}}) attempt(-4, count);
  for (const uint64_t kernel : {uint64_t{2}, ~uint64_t{0}}) attempt(-3, kernel);
  for (const uint64_t leaf : {uint64_t{0}, uint64_t{2} << 1, ~uint64_t{0}}) attempt(-2, leaf);
  attempt(-1, ~uint64_t{0});
  for (const uint64_t size : {bytes - 4, bytes + 4, ~uint64_t{0}}) attempt(0, size);
  for (size_t cut = kHeader; cut < whole.size(); cut += whole.size() / 29) {
    write_all(file, sealed(whole.substr(0, cut)));
    Captured got;
    ASSERT_NO_FATAL_FAILURE(capture(&got, now));
    EXPECT_EQ(got.counters.schedules_read, 0u);
    expect_same(got.values, first.values);
  }
}

}  // namespace
}  // namespace aster::engine::testing
