// Portable programs on a device that executes them whole, and on others where the library does.
#include "program_device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "../programs/aster.h"
#include "text_device.h"

namespace programs {
namespace {

using aster_ml::Array;
using aster_ml::Program;
using aster_ml::ProgramForm;
using aster_ml::ProgramList;
namespace dtypes = aster_ml::dtypes;

int32_t device() {
  static const int32_t code = [] {
    int32_t out = 0;
    EXPECT_OK(program_device_register(&out, "WHOLE"));
    return out;
  }();
  return code;
}

class ProgramDevice : public testing::Test {
 protected:
  void SetUp() override {
    device();
    program_device()->fault = PROGRAM_DEVICE_FINE;
    before_ = *program_device();
  }
  void TearDown() override {
    program_device()->fault = PROGRAM_DEVICE_FINE;
    EXPECT_EQ(program_device()->blocks, before_.blocks);
    EXPECT_EQ(program_device()->programs, before_.programs);
  }
  int64_t executed() const { return program_device()->executed - before_.executed; }
  int64_t taken() const { return program_device()->taken - before_.taken; }
  int64_t refused() const { return program_device()->refused - before_.refused; }

  program_device_state before_ = {};
};

Array on(int32_t where, const Floats& values, const std::vector<size_t>& shape) {
  Array out(dtypes::float32, shape, where);
  EXPECT_OK(aster_ml_tensor_copy_in(out.get(), values.data(), values.size()));
  return out;
}
Floats read(const Array& x) {
  Floats out(x.count());
  EXPECT_OK(aster_ml_tensor_copy_out(out.data(), x.get(), out.size()));
  return out;
}
// One run in memory of a device: one input of 4 rows and 3 columns, one output of a shape.
int32_t run(const Program& program, const Array& in, const Array& out) {
  return aster_ml_program_run(program.get(), nullptr, in.get(), 1, out.get(), 1);
}

// Rows of 3: the greater of x w + b and b, less their mean.
std::string network() {
  Session s;
  const Tensor w = data({3, 3}, 1), b = data({1, 3}, 2), x = data({4, 3}, 3);
  const Program program({x}, [&] {
    const Tensor y = (x.matmul(w) + b).maximum(b);
    return y - y.sum({1}, true) * (1.0 / 3);
  });
  EXPECT_OK(program);
  return program.to_bytes();
}

void expect_near(const Floats& got, const Floats& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
}

Floats on_host(const std::string& bytes, const Floats& values) {
  const Program program = Program::from_bytes(bytes);
  EXPECT_OK(program);
  const Array in(values, {4, 3}), out(dtypes::float32, {4, 3});
  EXPECT_OK(run(program, in, out));
  return read(out);
}

TEST_F(ProgramDevice, ExecutesAPortableProgramWhole) {
  const std::string bytes = network();
  Session s;
  const Program program = Program::from_bytes(bytes, device());
  OK(program);
  EXPECT_EQ(taken(), 1);
  EXPECT_EQ(program.kernels(), 1u);
  for (uint32_t seed = 1; seed < 4; ++seed) {
    const Floats values = noise(12, seed);
    const Array in = on(device(), values, {4, 3}), out(dtypes::float32, {4, 3}, device());
    OK(run(program, in, out));
    expect_near(read(out), on_host(bytes, values));
  }
  EXPECT_EQ(executed(), 3);
  const auto inputs = program.arrays(ProgramList::inputs);
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].device, device());
  EXPECT_EQ(inputs[0].name, "input0");
}

TEST_F(ProgramDevice, ResultsOfItsOwnMemoryAndOfWorkspaces) {
  const std::string bytes = network();
  Session s;
  const Program program = Program::from_bytes(bytes, device());
  OK(program);
  const Floats values = noise(12, 5);
  const Array in = on(device(), values, {4, 3});
  aster_ml_workspace other{};
  OK(aster_ml_workspace_init(&other, program.get()));
  for (aster_ml_workspace* workspace : {static_cast<aster_ml_workspace*>(nullptr), &other}) {
    aster_ml_tensor out{};
    OK(aster_ml_program_run(program.get(), workspace, in.get(), 1, &out, 1));
    EXPECT_EQ(out.device, device());
    Floats got(12);
    OK(aster_ml_tensor_copy_out(got.data(), &out, got.size()));
    expect_near(got, on_host(bytes, values));
    OK(aster_ml_tensor_free(&out));
  }
  // In the memory of the input: as if that was copied.
  OK(run(program, in, in));
  expect_near(read(in), on_host(bytes, values));
  OK(aster_ml_workspace_free(&other));
}

// However the parts of a program are stored, the device is given the same.
TEST_F(ProgramDevice, FilesAndSideFilesAreOneToIt) {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("aster_whole_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string bytes = network();
  Session s;
  const Program loaded = Program::from_bytes(bytes);
  const std::string one = folder + "/one.aster", two = folder + "/two.aster";
  OK(loaded.save(one));
  OK(aster_ml_program_save_captured(two.c_str(), loaded.get(), ASTER_ML_PROGRAM_SIDE_FILE));
  const Floats values = noise(12, 6);
  for (const std::string& path : {one, two}) {
    const Program program = Program::load(path, device());
    OK(program);
    const Array in = on(device(), values, {4, 3}), out(dtypes::float32, {4, 3}, device());
    OK(run(program, in, out));
    expect_near(read(out), on_host(bytes, values));
  }
  EXPECT_EQ(executed(), 2);
  std::filesystem::remove_all(folder);
}

// State is the program's own; inputs that it assigns to are the caller's.
TEST_F(ProgramDevice, StateAndAssignedInputs) {
  const char text[] =
      "aster 1 opset 1\n"
      "%0 = Input float32[2] \"x\"\n"
      "%1 = Input float32[2] \"sum\"\n"
      "%2 = Add float32[2] %1 %0\n"
      "%3 = Assign float32[2] %1 %2\n"
      "%4 = After float32[2] %1 %3\n"
      "output %4 \"now\"\n"
      "end\n";
  Session s;
  const Program program = Program::from_bytes(text, sizeof(text) - 1, device());
  OK(program);
  EXPECT_EQ(taken(), 1);
  EXPECT_TRUE(program.arrays(ProgramList::inputs)[1].assigned);
  const Array x = on(device(), {1, 2}, {2}), sum = on(device(), {10, 20}, {2});
  const Array out(dtypes::float32, {2}, device());
  for (const Floats& want : {Floats{11, 22}, Floats{12, 24}}) {
    aster_ml_tensor given[] = {*x.get(), *sum.get()};
    OK(aster_ml_program_run(program.get(), nullptr, given, 2, out.get(), 1));
    EXPECT_EQ(read(out), want);
    EXPECT_EQ(read(sum), want);
  }

  Program counter;
  {
    Tensor total = data({2}, 1) * 0.0f;
    OK(total.realize());
    const Tensor given = data({2}, 2);
    const Program step({given}, [&] {
      total += given;
      return total.realized() * 1.0f;
    });
    OK(step);
    counter = Program::from_bytes(step.to_bytes(), device());
  }
  OK(counter);
  EXPECT_EQ(taken(), 2);
  // It begins with what the step has left there.
  Floats want = noise(2, 2);
  for (int i = 0; i < 3; ++i) {
    OK(run(counter, x, out));
    want[0] += 1, want[1] += 2;
    EXPECT_EQ(read(out), want);
  }
}

// What a device does not take the library computes, there.
TEST_F(ProgramDevice, TheLibraryComputesWhatItRefuses) {
  const std::string bytes = network();
  const Floats values = noise(12, 7);
  std::string said;
  aster_ml_context_options options = {};
  options.log = [](void* self, int32_t, const char* line) {
    *static_cast<std::string*>(self) += std::string(line) + "\n";
  };
  options.log_self = &said;
  options.log_level = ASTER_ML_LOG_INFO;
  {
    Session s(options);
    program_device()->fault = PROGRAM_DEVICE_TAKES_NONE;
    const Program program = Program::from_bytes(bytes, device());
    OK(program);
    const Array in = on(device(), values, {4, 3}), out(dtypes::float32, {4, 3}, device());
    OK(run(program, in, out));
    expect_near(read(out), on_host(bytes, values));
    EXPECT_EQ(executed(), 0);
    EXPECT_NE(said.find("the library computes a program for WHOLE: it did not say why"),
              std::string::npos)
        << said;
    program_device()->fault = PROGRAM_DEVICE_FINE;

    // An operation that it does not know, by name.
    const Tensor x = data({4, 3}, 8);
    const Program sines({x}, [&] { return x.sin(); });
    const Program loaded = Program::from_bytes(sines.to_bytes(), device());
    OK(loaded);
    EXPECT_EQ(refused(), 1);
    EXPECT_NE(said.find("the library computes a program for WHOLE: no Sin is known"),
              std::string::npos)
        << said;
    OK(run(loaded, in, out));
    const Floats got = read(out);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], std::sin(values[i]), 1e-6);
    EXPECT_EQ(executed(), 0);
  }
}

// A device that has kernels, and no execute_program, has the same by these.
TEST_F(ProgramDevice, DevicesWithKernelsComputeByThem) {
  static const int32_t text = [] {
    int32_t out = 0;
    EXPECT_OK(text_device_register(&out, "WHOLETEXT"));
    return out;
  }();
  const std::string bytes = network();
  Session s;
  const int64_t launches = text_device()->launches;
  const Program program = Program::from_bytes(bytes, text);
  OK(program);
  const Floats values = noise(12, 9);
  const Array in = on(text, values, {4, 3}), out(dtypes::float32, {4, 3}, text);
  OK(run(program, in, out));
  expect_near(read(out), on_host(bytes, values));
  EXPECT_GT(text_device()->launches, launches);
  // On other memory of the host.
  const Program near = Program::from_bytes(bytes, ASTER_ML_DEVICE_CPU + 1);
  OK(near);
  const Array given = on(ASTER_ML_DEVICE_CPU + 1, values, {4, 3});
  const Array made(dtypes::float32, {4, 3}, ASTER_ML_DEVICE_CPU + 1);
  OK(run(near, given, made));
  EXPECT_EQ(read(made), on_host(bytes, values));
}

// Programs of symbolic sizes are the library's.
TEST_F(ProgramDevice, VariablesAreTheLibrarys) {
  const char text[] =
      "aster 2 opset 1\n"
      "%0 = Input float32[4] \"x\"\n"
      "%1 = Variable int32 \"n\" (1, 4, 2)\n"
      "%2 = Const float32[4] (4611686018427387904)\n"  // 2.0
      "%3 = Mul float32[4] %0 %2\n"
      "output %3 \"y\"\n"
      "sizes input 0 (\"n\")\n"
      "sizes output 0 (\"n\")\n"
      "end\n";
  Session s;
  const Program program = Program::from_bytes(text, sizeof(text) - 1, device());
  OK(program);
  EXPECT_EQ(taken() + refused(), 0);
}

TEST_F(ProgramDevice, FailuresAreNamed) {
  const std::string bytes = network();
  Session s;
  program_device()->fault = PROGRAM_DEVICE_LOST;
  EXPECT_FALSE(Program::from_bytes(bytes, device()).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_DEVICE);
  EXPECT_STREQ(aster_ml::error().message, "WHOLE: take_program: the plug is out");

  program_device()->fault = PROGRAM_DEVICE_FINE;
  const Program program = Program::from_bytes(bytes, device());
  OK(program);
  const Floats values = noise(12, 10);
  const Array in = on(device(), values, {4, 3}), out(dtypes::float32, {4, 3}, device());
  struct Case {
    int32_t fault, code;
    const char* message;
  };
  const Case cases[] = {
      {PROGRAM_DEVICE_FAILS, ASTER_ML_DEVICE,
       "WHOLE: execute_program failed with status 10 (DEVICE)"},
      {PROGRAM_DEVICE_WRONG_DTYPE, ASTER_ML_DTYPE,
       "WHOLE: execute_program made output 0 of dtype int32 (code 6), not float32"},
      {PROGRAM_DEVICE_WRONG_SHAPE, ASTER_ML_SHAPE,
       "WHOLE: execute_program made output 0 of shape [5, 3], not [4, 3]"},
      {PROGRAM_DEVICE_WRONG_RANK, ASTER_ML_SHAPE,
       "WHOLE: execute_program made output 0 of 4000000000 axes, not [4, 3]"},
      {PROGRAM_DEVICE_SAYS_NOTHING, ASTER_ML_DTYPE,
       "WHOLE: execute_program made output 0 of dtype none (code 0), not float32"},
  };
  for (const Case& one : cases) {
    program_device()->fault = one.fault;
    EXPECT_EQ(run(program, in, out), one.code);
    EXPECT_STREQ(aster_ml::error().message, one.message);
  }
  program_device()->fault = PROGRAM_DEVICE_FINE;
  OK(run(program, in, out));  // as if nothing had been
  expect_near(read(out), on_host(bytes, values));
}

TEST_F(ProgramDevice, BadInput) {
  const std::string bytes = network();
  Session s;
  const Program program = Program::from_bytes(bytes, device());
  OK(program);
  // Memory of the host, another shape, one input too few.
  const Array host(noise(12, 1), {4, 3}), out(dtypes::float32, {4, 3}, device());
  EXPECT_EQ(run(program, host, out), ASTER_ML_DEVICE);
  const Array wide(dtypes::float32, {3, 4}, device());
  EXPECT_EQ(run(program, wide, out), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_program_run(program.get(), nullptr, nullptr, 0, out.get(), 1),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(executed(), 0);
  // It is not the library's to write.
  EXPECT_TRUE(program.to_bytes().empty());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_UNSUPPORTED);
  // Altered, on no device, on ones that have no memory.
  std::string altered = bytes;
  altered[altered.size() / 2] = static_cast<char>(altered[altered.size() / 2] ^ 1);
  const int64_t before = taken() + refused();
  EXPECT_FALSE(Program::from_bytes(altered, device()).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_FORMAT);
  EXPECT_EQ(taken() + refused(), before);
  EXPECT_FALSE(Program::from_bytes(bytes, 12345678).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  EXPECT_FALSE(Program::from_bytes(bytes, ASTER_ML_DEVICE_DISK).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_UNSUPPORTED);
  EXPECT_FALSE(Program::from_bytes(bytes, ASTER_ML_DEVICE_NULL).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_UNSUPPORTED);

  // A table with some of the three.
  aster_ml_backend some{};
  some.struct_size = sizeof(some);
  some.allocate = [](void*, void**, int32_t, size_t) -> int32_t { return ASTER_ML_MEMORY; };
  some.release = [](void*, int32_t, void*, size_t) {};
  some.copy_in = [](void*, int32_t, void*, size_t, const void*, size_t) -> int32_t { return 0; };
  some.copy_out = [](void*, int32_t, void*, const void*, size_t, size_t) -> int32_t { return 0; };
  some.drop_program = [](void*, int32_t, void*) {};
  int32_t code = 0;
  EXPECT_EQ(aster_ml_device_register(&code, "HALF", &some), ASTER_ML_ARGUMENT);
  // One of a program that knows nothing of them: the fields behind its end count as 0.
  some.take_program = [](void*, void**, int32_t, const aster_ml_device_program*, char*,
                         size_t) -> int32_t { return ASTER_ML_INTERNAL; };
  some.struct_size = offsetof(aster_ml_backend, take_program);
  EXPECT_OK(aster_ml_device_register(&code, "OLDER", &some));
}

}  // namespace
}  // namespace programs
