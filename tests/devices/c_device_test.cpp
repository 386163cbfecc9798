// Graphs on a device that compiles C by itself: they run there, on its memory, and nothing goes
// through the host that does not have to.
#include "c_device.h"
#include "../programs/aster.h"

namespace programs {
namespace {

int32_t device() {
  static const int32_t code = [] {
    int32_t out = 0;
    EXPECT_OK(c_device_register(&out));
    return out;
  }();
  return code;
}

Tensor on(int32_t where, const Floats& values, const Shape& shape) {
  std::vector<size_t> sizes(shape.begin(), shape.end());
  const aster_ml::Array out(aster_ml::dtypes::float32, sizes, where);
  EXPECT_OK(aster_ml_tensor_copy_in(out.get(), values.data(), values.size()));
  return out.lazy();
}
Tensor on_device(const Floats& values, const Shape& shape) { return on(device(), values, shape); }

// What it did since this was made, and that everything is given back at the end.
class CDevice : public testing::Test {
 protected:
  void SetUp() override {
    device();
    c_device_mend();
    before_ = *c_device();
  }
  void TearDown() override {
    c_device_mend();
    EXPECT_EQ(c_device()->blocks, before_.blocks);
    EXPECT_EQ(c_device()->modules, before_.modules);
    EXPECT_EQ(c_device()->queues, before_.queues);
  }
  // Calls between the host and the device from here on.
  void mark() { before_.ins = c_device()->ins, before_.outs = c_device()->outs; }
  int64_t ins() const { return c_device()->ins - before_.ins; }
  int64_t outs() const { return c_device()->outs - before_.outs; }
  int64_t launches() const { return c_device()->launches - before_.launches; }
  int64_t submits() const { return c_device()->submits - before_.submits; }

 private:
  c_device_state before_ = {};
};

TEST_F(CDevice, ComputesOnItsOwnMemory) {
  Session s;
  const Floats values = noise(64 * 512, 3), rows = noise(512, 4);
  Tensor x = on_device(values, {64, 512}), w = on_device(rows, {1, 512});
  mark();
  Tensor y = (x * w + w).sum({1});
  OK(y.realize());
  EXPECT_EQ(y.device(), device());
  EXPECT_EQ(ins(), 0);
  EXPECT_EQ(outs(), 0);
  EXPECT_EQ(launches(), 1);
  EXPECT_EQ(submits(), 1);
  const Floats got = read(y);
  for (size_t row = 0; row < 64; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += double(values[row * 512 + i]) * rows[i] + rows[i];
    EXPECT_NEAR(got[row], sum, 1e-3) << row;
  }
  EXPECT_EQ(s.counters().copies, 0u);
  EXPECT_EQ(s.counters().host_kernels, 0u);
}

// Several kernels are one submit; temporaries stay there.
TEST_F(CDevice, AScheduleIsOneSubmit) {
  const Floats left = noise(128 * 128, 1), right = noise(128 * 128, 2);
  aster_ml_context_options options = {};
  options.no_library = 1;
  Session s(options);
  Tensor a = on_device(left, {128, 128}), b = on_device(right, {128, 128});
  mark();
  const int64_t submitted = submits();
  Tensor y = a.matmul(b).relu().matmul(b).sum();
  OK(y.realize());
  EXPECT_GT(launches(), 1);
  EXPECT_EQ(submits() - submitted, 1);
  EXPECT_EQ(ins() + outs(), 0);
  const Tensor u = on(ASTER_ML_DEVICE_CPU, left, {128, 128}), v(right, Shape{128, 128});
  EXPECT_NEAR(read(y)[0], read(u.matmul(v).relu().matmul(v).sum())[0], 0.5);
}

TEST_F(CDevice, AssignsInPlace) {
  Session s;
  Tensor x = on_device({1, 2, 3, 4}, {4});
  mark();
  OK(x += 1);
  OK(x.realize());
  EXPECT_EQ(ins() + outs(), 0);
  EXPECT_EQ(read(x), (Floats{2, 3, 4, 5}));
}

// A sort runs on the host: its operand comes over, its result goes back, nothing else does.
TEST_F(CDevice, TheHostDoesWhatItCannot) {
  Session s;
  Tensor x = on_device({3, 1, 2, 5, 4}, {5}), untouched = on_device(noise(1000, 1), {1000});
  mark();
  Tensor y = (x * 2).sort().first + untouched.sum();
  OK(y.realize());
  EXPECT_EQ(outs(), 1);  // x * 2
  EXPECT_EQ(ins(), 1);   // sorted
  EXPECT_EQ(s.counters().host_kernels, 1u);
  EXPECT_EQ(s.counters().copies, 1u);
  EXPECT_EQ(s.counters().copied_bytes, 40u);
  OK(aster_ml_context_set_copies(s.get(), ASTER_ML_COPIES_REFUSE));
  EXPECT_FALSE((x * 3).sort().first.realize());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_UNSUPPORTED);
  OK((x * 3).realize());
}

TEST_F(CDevice, KernelsBeyondItRunOnTheHost) {
  aster_ml_context_options options = {};
  std::string said;
  options.log_self = &said;
  options.log_level = ASTER_ML_LOG_WARNING;
  options.log = [](void* self, int32_t, const char* text) {
    *static_cast<std::string*>(self) += text + std::string("\n");
  };
  Session s(options);
  c_device()->beyond = "sin";
  Tensor x = on_device({0, 1, 2}, {3});
  Tensor y = (x + 1).sum() * x.sin().sum();
  const Floats got = read(y);
  c_device()->beyond = nullptr;
  EXPECT_NEAR(got[0], 6 * (std::sin(1.0) + std::sin(2.0)), 1e-5);
  EXPECT_GE(s.counters().host_kernels, 1u);
  EXPECT_NE(said.find("the host computes for CDEV"), std::string::npos) << said;
  const size_t length = said.size();
  c_device()->beyond = "sin";
  (void)read((x * 3).sin().sum());
  EXPECT_EQ(said.size(), length);  // once for each reason
}

TEST_F(CDevice, WithoutDoubleTheHostComputesIt) {
  c_device()->without_double = 1;
  Session s;
  Tensor x = on_device({1, 2, 3}, {3});
  EXPECT_EQ(read((x.cast(aster_ml::dtypes::float64) / 3.0).cast(aster_ml::dtypes::float32) * 3),
            (Floats{1, 2, 3}));
  EXPECT_GE(s.counters().host_kernels, 1u);
}

TEST_F(CDevice, ACompilerThatFailsIsSaid) {
  {
    Session s;  // refuses to fall back
    Tensor x = on_device({1, 2, 3}, {3});
    c_device()->bad_text = "int wrong = ;\n";
    EXPECT_FALSE((x * 2).realize());
    EXPECT_EQ(aster_ml::error().code, ASTER_ML_COMPILE);
    EXPECT_NE(std::string(aster_ml::error().message).find("error"), std::string::npos);
    c_device_mend();
    EXPECT_EQ(read(x * 2), (Floats{2, 4, 6}));
  }
  const Context forgiving;
  Tensor x = on_device({1, 2, 3}, {3});
  c_device()->bad_text = "int wrong = ;\n";
  EXPECT_EQ(read(x * 5), (Floats{5, 10, 15}));
}

// One that its compiler refuses is the host's, the others are its own.
TEST_F(CDevice, ACompilerThatRefusesOneKernel) {
  const Context forgiving;
  Tensor x = on_device(noise(60, 3), {6, 10});
  c_device()->bad_text = "int wrong = ;\n";
  c_device()->bad_word = "sin_f32";
  Tensor y = (x * 2).sum({0}), z = x.sin().sum({1});
  const int64_t launched = launches();
  OK(aster_ml::realize({y, z}));
  EXPECT_EQ(launches(), launched + 1);
  EXPECT_EQ(forgiving.counters().host_kernels, 1u);
  const Floats values = read(x), sums = read(z);
  for (size_t row = 0; row < 6; ++row) {
    double want = 0;
    for (size_t i = 0; i < 10; ++i) want += std::sin(static_cast<double>(values[row * 10 + i]));
    EXPECT_NEAR(sums[row], want, 1e-5);
  }
}

// A second schedule with a kernel does not build it again.
TEST_F(CDevice, KernelsAreKeptByName) {
  Session s;
  const Tensor x = on_device(noise(60, 3), {6, 10});
  OK(x.sin().sum({1}).realize());
  const aster_ml_engine_counters first = s.counters();
  EXPECT_EQ(first.kernels_compiled, 1u);
  EXPECT_EQ(first.kernels_cached, 0u);
  const int64_t builds = c_device()->builds, kernels = c_device()->kernels;
  Tensor y = x.sin().sum({1}), z = (x + 1).sum({0});
  OK(aster_ml::realize({y, z}));
  EXPECT_EQ(c_device()->builds, builds + 1);
  EXPECT_EQ(c_device()->kernels, kernels + 1);
  EXPECT_EQ(s.counters().kernels_compiled, 2u);
  EXPECT_EQ(s.counters().kernels_cached, 1u);
  OK(aster_ml::realize({(x + 1).sum({0}), on_device(noise(60, 4), {6, 10}).sin().sum({1})}));
  EXPECT_EQ(c_device()->builds, builds + 1);
  EXPECT_EQ(s.counters().schedule_misses, first.schedule_misses + 2);
  // Another device has kernels of its own, and another context.
  OK(on(device() + 1, noise(60, 3), {6, 10}).sin().sum({1}).realize());
  EXPECT_EQ(c_device()->builds, builds + 2);
  Session other;
  OK(on_device(noise(60, 3), {6, 10}).sin().sum({1}).realize());
  EXPECT_EQ(c_device()->builds, builds + 3);
}

// What it cannot do is remembered too.
// Kernels for a new size are those for another, with other arguments and the same bits.
TEST_F(CDevice, SizesAreArguments) {
  std::vector<Floats> got[2];
  for (const int own : {0, 1}) {
    aster_ml_context_options options = {};
    options.no_sizes = own;
    Session s(options);
    for (const int64_t n : {64, 65, 70, 75, 79, 80}) {
      const Floats values = noise(static_cast<size_t>(3 * n), static_cast<uint32_t>(n));
      got[own].push_back(read(on_device(values, {3, n}).softmax(-1)));
    }
    EXPECT_EQ(s.counters().host_kernels, 0u);
    EXPECT_LE(s.counters().kernels_compiled, own != 0 ? 6u : 4u);
    EXPECT_EQ(s.counters().kernels_sized != 0, own == 0);
  }
  EXPECT_EQ(got[0], got[1]);
}

TEST_F(CDevice, KernelsBeyondItAreAskedForOnce) {
  const Context s;
  c_device()->beyond = "sin";
  const Tensor x = on_device(noise(60, 3), {6, 10});
  OK(aster_ml::realize({x.sin().sum({1}), (x + 1).sum({0})}));
  const int64_t builds = c_device()->builds;
  OK(aster_ml::realize({(x + 1).sum({0}), on_device(noise(60, 4), {6, 10}).sin().sum({1})}));
  EXPECT_EQ(c_device()->builds, builds);
  EXPECT_EQ(s.counters().host_kernels, 2u);
}

// The words that a device has for a failure reach who called.
TEST_F(CDevice, FailuresSayWhatTheDeviceSaid) {
  Session s;
  Tensor x = on_device({1, 2, 3}, {3});
  const auto fails = [&](int32_t wanted) {
    c_device()->said = "DEV_OUT_OF_RESOURCES";
    EXPECT_FALSE((x * 2 + 1).realize());
    EXPECT_EQ(aster_ml::error().code, wanted) << last_error();
    EXPECT_NE(last_error().find("CDEV: "), std::string::npos) << last_error();
    EXPECT_NE(last_error().find("DEV_OUT_OF_RESOURCES"), std::string::npos) << last_error();
    c_device_mend();
  };
  c_device()->fail_submit = ASTER_ML_DEVICE;
  fails(ASTER_ML_DEVICE);
  c_device()->fail_command = 1;
  fails(ASTER_ML_DEVICE);
  c_device()->fail_allocate = ASTER_ML_MEMORY;
  fails(ASTER_ML_MEMORY);
  c_device()->fail_copy = ASTER_ML_DEVICE;
  c_device()->said = "DEV_LOST_ITS_BUS";
  float out[3];
  EXPECT_FALSE(x.copy_out(out, sizeof(out)));
  EXPECT_NE(last_error().find("DEV_LOST_ITS_BUS"), std::string::npos) << last_error();
  // An older failure is not the device's.
  c_device()->said = nullptr;
  EXPECT_FALSE(x.copy_out(out, sizeof(out)));
  EXPECT_EQ(last_error().find("DEV_LOST"), std::string::npos) << last_error();
}

TEST_F(CDevice, EagerFunctionsRunThere) {
  Session s;
  const Floats values = noise(12, 1);
  const size_t shape[] = {3, 4};
  aster_ml_tensor x{}, out{}, sum{}, product{};
  OK(aster_ml_tensor_init(&x, s.get(), ASTER_ML_DTYPE_FLOAT32, device(), 2, shape));
  OK(aster_ml_tensor_copy_in(&x, values.data(), 12));
  mark();
  OK(aster_ml_tensor_exp(&out, s.get(), &x));
  // Strides are read where they lie.
  aster_ml_tensor turned = x;
  size_t turned_shape[] = {4, 3};
  ptrdiff_t turned_strides[] = {1, 4};
  turned.shape = turned_shape;
  turned.strides = turned_strides;
  OK(aster_ml_tensor_add(&sum, s.get(), &turned, &turned));
  EXPECT_EQ(ins() + outs(), 0);
  EXPECT_EQ(launches(), 2);
  EXPECT_EQ(out.storage.device, device());
  OK(aster_ml_tensor_matmul(&product, s.get(), &x, &turned));
  EXPECT_EQ(product.storage.device, device());
  Floats got(12), twice(12), products(9);
  OK(aster_ml_tensor_copy_out(got.data(), &out, 12));
  OK(aster_ml_tensor_copy_out(twice.data(), &sum, 12));
  OK(aster_ml_tensor_copy_out(products.data(), &product, 9));
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(got[i], std::exp(values[i]), 1e-6);
    EXPECT_EQ(twice[i], 2 * values[i % 3 * 4 + i / 3]);
  }
  for (size_t i = 0; i < 9; ++i) {
    double want = 0;
    for (size_t k = 0; k < 4; ++k) want += double(values[i / 3 * 4 + k]) * values[i % 3 * 4 + k];
    EXPECT_NEAR(products[i], want, 1e-5);
  }
  for (aster_ml_tensor* tensor : {&x, &out, &sum, &product}) OK(aster_ml_tensor_free(tensor));
}

// The same numbers as on the host, also in replays, which draw anew.
TEST_F(CDevice, RandomNumbersAreTheHosts) {
  const auto draw = [&](int32_t where) {
    Session s;
    EXPECT_OK(aster_ml_engine_set_device(s.get(), where));
    EXPECT_OK(aster_ml_lazy_manual_seed(s.get(), 11));
    std::vector<Floats> out;
    for (int i = 0; i < 2; ++i) {
      const Tensor x = Tensor::rand({100});
      out.push_back(read(x));
      EXPECT_EQ(x.device(), where);
    }
    aster_ml::Program program({}, [&] { return Tensor::rand({50}) + 1; });
    EXPECT_TRUE(program.ok()) << last_error();
    for (int i = 0; i < 2; ++i) {
      aster_ml_tensor result{};
      EXPECT_OK(aster_ml_program_run(program.get(), nullptr, nullptr, 0, &result, 1));
      Floats values(50);
      EXPECT_OK(aster_ml_tensor_copy_out(values.data(), &result, 50));
      out.push_back(values);
      EXPECT_OK(aster_ml_tensor_free(&result));
    }
    EXPECT_NE(out[2], out[3]);
    return out;
  };
  EXPECT_EQ(draw(device()), draw(ASTER_ML_DEVICE_CPU));
}

// Of operands on two devices, each has its gradient where it lies.
TEST_F(CDevice, GradientsLieWhereTheirTargetsDo) {
  Session s;
  const Tensor x = on(ASTER_ML_DEVICE_CPU, {1, 2, 3}, {3}), y = on_device({4, 5, 6}, {3});
  const std::vector<Tensor> gradients = (x * y).sum().gradient({x, y});
  ASSERT_EQ(gradients.size(), 2u) << last_error();
  EXPECT_EQ(gradients[0].device(), ASTER_ML_DEVICE_CPU);
  EXPECT_EQ(gradients[1].device(), device());
  EXPECT_EQ(read(gradients[0]), (Floats{4, 5, 6}));
  EXPECT_EQ(read(gradients[1]), (Floats{1, 2, 3}));
  EXPECT_EQ(gradients[1].device(), device());
}

// A trace names where each launch ran, in a realize and in replays.
TEST_F(CDevice, TracesNameWhereLaunchesRan) {
  Session s;
  struct Told {
    std::string name;
    int32_t device;
  };
  std::vector<Told> told;
  OK(aster_ml_engine_trace(
      s.get(),
      [](void* self, const aster_ml_launch* launch) {
        static_cast<std::vector<Told>*>(self)->push_back({launch->name, launch->device});
      },
      &told));
  const auto check = [&] {
    ASSERT_EQ(told.size(), 5u);
    for (const Told& one : told) {
      const bool sorted = one.name.find("sort") == 0;
      EXPECT_EQ(one.device, sorted ? ASTER_ML_DEVICE_CPU : device()) << one.name;
    }
    told.clear();
  };
  const Tensor x = on_device({4, 3, 2, 1}, {4});
  OK(((x * 2).sort().first + 1).realize());
  check();
  aster_ml::Program program({x}, [&] { return (x * 2).sort().first + 1; });
  ASSERT_TRUE(program.ok()) << last_error();
  told.clear();
  const aster_ml_tensor in = x.view();
  aster_ml_tensor out{};
  OK(aster_ml_program_run(program.get(), nullptr, &in, 1, &out, 1));
  check();
  OK(aster_ml_tensor_free(&out));
  OK(aster_ml_engine_trace(s.get(), nullptr, nullptr));
}

TEST_F(CDevice, FailuresLoseNothing) {
  Session s;
  Tensor x = on_device({1, 2, 3}, {3});
  Tensor y = x * 2 + 1;
  const auto fails = [&](int32_t wanted) {
    EXPECT_FALSE(y.realize());
    EXPECT_EQ(aster_ml::error().code, wanted) << last_error();
    c_device_mend();
  };
  c_device()->fail_build = ASTER_ML_DEVICE;
  fails(ASTER_ML_DEVICE);
  c_device()->fail_allocate = ASTER_ML_MEMORY;
  fails(ASTER_ML_MEMORY);
  c_device()->fail_submit = ASTER_ML_DEVICE;
  fails(ASTER_ML_DEVICE);
  c_device()->fail_command = 1;
  fails(ASTER_ML_DEVICE);
  EXPECT_EQ(read(y), (Floats{3, 5, 7}));
  // In the middle of an assignment: it does not happen twice.
  OK(x += 1);
  c_device()->fail_command = 1;
  EXPECT_FALSE(x.realize());
  EXPECT_NE(std::string(aster_ml::error().message).find("no longer valid"), std::string::npos);
  c_device_mend();
  EXPECT_EQ(read(x).size(), 3u);
}

TEST_F(CDevice, MovesBetweenDevices) {
  Session s;
  Tensor x = data({100}, 5);
  Tensor y = x.to(device()) * 2;
  Tensor z = y.to(device() + 1) + 1;
  EXPECT_EQ(z.device(), device() + 1);
  const Floats want = read(x), got = read(z.to(ASTER_ML_DEVICE_CPU));
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(got[i], want[i] * 2 + 1);
  EXPECT_EQ(s.counters().copies, 0u);
}

// A captured step on memory of the device: replays copy nothing and allocate nothing.
TEST_F(CDevice, ReplaysOnItsMemory) {
  Session s;
  Tensor x = on_device(noise(1000, 1), {1000}), w = on_device(noise(1000, 2), {1000});
  aster_ml_lazy* const inputs[] = {x.get()};
  OK(aster_ml_engine_capture_begin(s.get(), inputs, 1));
  Tensor y = (x * w).relu() + x.sum();
  aster_ml_lazy* const outputs[] = {y.get()};
  aster_ml_program program{};
  OK(aster_ml_engine_capture_end(&program, s.get(), outputs, 1));
  const size_t shape[] = {1000};
  const Floats weights = read(w);
  for (uint32_t seed = 10; seed < 14; ++seed) {
    const Floats values = noise(1000, seed);
    aster_ml_tensor in{}, out{};
    OK(aster_ml_tensor_init(&in, s.get(), ASTER_ML_DTYPE_FLOAT32, device(), 1, shape));
    OK(aster_ml_tensor_init(&out, s.get(), ASTER_ML_DTYPE_FLOAT32, device(), 1, shape));
    OK(aster_ml_tensor_copy_in(&in, values.data(), 1000));
    mark();
    const int32_t blocks = c_device()->blocks;
    const int64_t submitted = submits();
    // Into memory of the caller, then on the workspace's own.
    OK(aster_ml_program_run(&program, nullptr, &in, 1, &out, 1));
    EXPECT_EQ(submits() - submitted, 1);
    aster_ml_tensor own{};
    OK(aster_ml_program_run(&program, nullptr, &in, 1, &own, 1));
    EXPECT_EQ(own.storage.device, device());
    EXPECT_EQ(c_device()->blocks, blocks);
    EXPECT_EQ(ins() + outs(), 0);
    Floats first(1000), second(1000);
    OK(aster_ml_tensor_copy_out(first.data(), &out, 1000));
    OK(aster_ml_tensor_copy_out(second.data(), &own, 1000));
    EXPECT_EQ(first, second);
    double sum = 0;
    for (const float value : values) sum += value;
    for (size_t i = 0; i < 1000; ++i)
      EXPECT_NEAR(first[i], std::max(values[i] * weights[i], 0.0f) + sum, 1e-3);
    // Its own result as its input.
    OK(aster_ml_program_run(&program, nullptr, &own, 1, &out, 1));
    // Memory of the host is none of the device's.
    aster_ml_tensor host{};
    OK(aster_ml_tensor_init(&host, s.get(), ASTER_ML_DTYPE_FLOAT32, 0, 1, shape));
    EXPECT_EQ(aster_ml_program_run(&program, nullptr, &host, 1, &out, 1), ASTER_ML_DEVICE);
    c_device()->fail_command = 1;
    EXPECT_EQ(aster_ml_program_run(&program, nullptr, &in, 1, &out, 1), ASTER_ML_DEVICE);
    c_device_mend();
    for (aster_ml_tensor* t : {&in, &out, &own, &host}) OK(aster_ml_tensor_free(t));
  }
  OK(aster_ml_program_free(&program));
}

// A kernel from C is given to a device that takes C, and runs on its memory.
TEST_F(CDevice, TakesKernelsFromSource) {
  Session s;
  aster_ml_kernel_options options{};
  options.struct_size = sizeof(options);
  options.device = device();
  const char* const source =
      "void both(float *sums, float *rests, const float *x, const float *y, long long begin,\n"
      "          long long end) {\n"
      "  for (long long i = begin; i < end; i++) sums[i] = x[i] + y[i], rests[i] = x[i] - y[i];\n"
      "}\n";
  const char* const signature = "float32[...], float32[...] -> float32[...], float32[...]";
  const aster_ml::Kernel both = aster_ml::Kernel::from_source(source, "both", signature, &options);
  ASSERT_TRUE(both.ok()) << last_error();
  Tensor x = on_device({1, 2, 3}, {3}), y = on_device({10, 20, 30}, {3});
  mark();
  Tensor z = both({x + 1, y}, 0) * both({x + 1, y}, 1);
  OK(z.realize());
  EXPECT_EQ(ins() + outs(), 0);
  EXPECT_EQ(s.counters().host_kernels, 0u);
  EXPECT_EQ(read(z), (Floats{4 - 100, 9 - 400, 16 - 900}));
  // What its compiler says; what only OpenCL C has; and on the CPU's tensors.
  EXPECT_FALSE(
      aster_ml::Kernel::from_source("void f(float *y) { y = z; }\n", "f", "-> float32", &options)
          .ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_COMPILE) << last_error();
  options.local_size[0] = 4;
  EXPECT_FALSE(aster_ml::Kernel::from_source(source, "both", signature, &options).ok());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT) << last_error();
  const Tensor here = on(ASTER_ML_DEVICE_CPU, {1, 2, 3}, {3});
  EXPECT_FALSE(both({here, here}, 0).realize());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_UNSUPPORTED) << last_error();
  EXPECT_TRUE(both.add_source(source)) << last_error();
  EXPECT_EQ(read(both({here, here}, 0)), (Floats{2, 4, 6}));
}

// Assigned state, random numbers, and a sort that the host does, in one captured step.
TEST_F(CDevice, ReplaysWithTheHostBetween) {
  Session s;
  Tensor state = on_device({0, 0, 0, 0}, {4}), x = on_device({4, 3, 2, 1}, {4});
  OK(state.realize());
  aster_ml_lazy* const inputs[] = {x.get()};
  OK(aster_ml_engine_capture_begin(s.get(), inputs, 1));
  OK(state += (x * 2).sort().first);
  OK(state.realize());
  Tensor y = state + 1;
  aster_ml_lazy* const outputs[] = {y.get()};
  aster_ml_program program{};
  OK(aster_ml_engine_capture_end(&program, s.get(), outputs, 1));
  const Floats before = read(state);
  const size_t shape[] = {4};
  aster_ml_tensor in{}, out{};
  const Floats values{8, 6, 7, 5};
  OK(aster_ml_tensor_init(&in, s.get(), ASTER_ML_DTYPE_FLOAT32, device(), 1, shape));
  OK(aster_ml_tensor_copy_in(&in, values.data(), 4));
  OK(aster_ml_program_run(&program, nullptr, &in, 1, &out, 1));
  Floats got(4);
  OK(aster_ml_tensor_copy_out(got.data(), &out, 4));
  const Floats sorted{10, 12, 14, 16};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got[i], before[i] + sorted[i] + 1);
  EXPECT_EQ(read(state)[3], before[3] + 16);
  OK(aster_ml_program_free(&program));
  OK(aster_ml_tensor_free(&in));
  OK(aster_ml_tensor_free(&out));
}

}  // namespace
}  // namespace programs
