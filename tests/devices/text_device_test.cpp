// Graphs on a device that has kernels as the text of kernel programs alone, and reads it: the same
// bits as machine code gives, on memory that the host does not address.
#include "text_device.h"

#include <cmath>
#include <functional>

#include "../base/counting_allocator.h"
#include "../programs/aster.h"

namespace programs {
namespace {

namespace dtypes = aster_ml::dtypes;

int32_t device() {
  static const int32_t code = [] {
    int32_t out = 0;
    EXPECT_OK(text_device_register(&out, "TEXT"));
    return out;
  }();
  return code;
}

Tensor on(int32_t where, const Floats& values, const Shape& shape) {
  std::vector<size_t> sizes(shape.begin(), shape.end());
  const aster_ml::Array out(dtypes::float32, sizes, where);
  EXPECT_OK(aster_ml_tensor_copy_in(out.get(), values.data(), values.size()));
  return out.lazy();
}

std::vector<char> bytes_of(const Tensor& x) {
  const Tensor stored = x.dtype() == dtypes::bool_ ? x.cast(dtypes::uint8) : x;
  std::vector<char> out(static_cast<size_t>(x.numel()) *
                        aster_ml_dtype_size(static_cast<int32_t>(stored.dtype())));
  EXPECT_OK(stored.copy_out(out.data(), out.size()));
  return out;
}

// Kernels made for the same vectors: 32 bytes, with fused multiply-adds.
aster_ml_context_options alike() {
  aster_ml_context_options options = {};
  options.vector_bytes = 32;
  options.no_library = 1;
  options.no_sizes = 1;
  return options;
}

class TextDevice : public testing::Test {
 protected:
  void SetUp() override {
    device();
    before_ = *text_device();
  }
  void TearDown() override {
    EXPECT_EQ(text_device()->blocks, before_.blocks);
    EXPECT_EQ(text_device()->modules, before_.modules);
    EXPECT_EQ(text_device()->queues, before_.queues);
  }
  int64_t launches() const { return text_device()->launches - before_.launches; }
  int64_t refused() const { return text_device()->refused - before_.refused; }

  text_device_state before_ = {};
};

struct Case {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& y)> build;  // of 24 x 37 each
};

const Case kCases[] = {
    {"chain", [](auto& x, auto& y) { return (x * y + x).relu() - y / 3.0; }},
    {"row sums", [](auto& x, auto& y) { return (x * y).sum({1}); }},
    {"column maxima", [](auto& x, auto& y) { return (x + y).max({0}); }},
    {"all of it", [](auto& x, auto& y) { return (x - y).square().mean(); }},
    {"softmax", [](auto& x, auto&) { return x.softmax(1); }},
    {"layernorm", [](auto& x, auto& y) { return (x + y).layernorm(); }},
    {"product", [](auto& x, auto& y) { return x.matmul(y.transpose()); }},
    {"turned", [](auto& x, auto& y) { return (x.transpose() + 1).contiguous() * y.transpose(); }},
    {"padded",
     [](auto& x, auto&) {
       return x.pad({1, 2}, {3, 4}, 7.0) * 2;
     }},
    {"backwards",
     [](auto& x, auto& y) {
       return x.flip({1}) + y.slice({0, 0}).flip({0});
     }},
    {"every second",
     [](auto& x, auto&) {
       return x.slice({0, 1}, {24, 37}, {2, 2}) + 1;
     }},
    {"functions", [](auto& x, auto& y) { return x.exp() + y.sin() * x.erf() + y.abs().log(); }},
    {"more of them", [](auto& x, auto& y) { return x.tanh() + y.abs().pow(x) + x.abs().sqrt(); }},
    {"large angles", [](auto& x, auto& y) { return (x * 1e8).sin() + (y * 1e30).cos(); }},
    {"roundings", [](auto& x, auto& y) { return (x * 9).round() + (y * 9).floor().trunc(); }},
    {"integers",
     [](auto& x, auto& y) {
       const Tensor i = (x * 1000).cast(dtypes::int32), j = (y * 50).cast(dtypes::int16);
       return i.floordiv(j) + i.mod(j) * j.bitwise_xor(i).shl(3) - i.truncdiv(7);
     }},
    {"long integers",
     [](auto& x, auto& y) {
       const Tensor i = (x * 1e9).cast(dtypes::int64);
       return i * i * i + i.floordiv((y * 100).cast(dtypes::int64)) - i.shr(5);
     }},
    {"bytes",
     [](auto& x, auto& y) {
       return (x.abs() * 300).cast(dtypes::uint8) + (y.abs() * 99).cast(dtypes::uint8);
     }},
    {"conditions", [](auto& x, auto& y) { return (x < y).logical_and(y.gt(0)).where(x, y * 2); }},
    {"any", [](auto& x, auto& y) { return (x > y).any({1}); }},
    {"doubles", [](auto& x, auto& y) { return (x.cast(dtypes::float64) / y).exp().sum({0}); }},
    {"rows by index",
     [](auto& x, auto& y) { return x.gather(1, (y.abs() * 36).cast(dtypes::int32)); }},
    {"bits", [](auto& x, auto&) { return x.bitcast(dtypes::uint32).shr(7); }},
    {"largest", [](auto& x, auto& y) { return (x * y).argmax(1); }},
    {"triangle", [](auto& x, auto& y) { return x.tril() + y.triu(2); }},
    {"convolution",
     [](auto& x, auto& y) {
       return x.reshape({1, 2, 12, 37}).conv2d(y.slice({0, 0}, {12, 6}).reshape({4, 2, 3, 3}));
     }},
};

// What is a case's own is compared with the host's machine code, bit by bit.
TEST_F(TextDevice, GivesTheBitsOfMachineCode) {
  const Floats left = noise(24 * 37, 1), right = noise(24 * 37, 2);
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    Session s(alike());
    const auto run = [&](int32_t where) {
      return bytes_of(one.build(on(where, left, {24, 37}), on(where, right, {24, 37})));
    };
    const std::vector<char> want = run(ASTER_ML_DEVICE_CPU), got = run(device());
    EXPECT_EQ(got, want);
    EXPECT_EQ(s.counters().host_kernels, 0u) << text_device()->why;
    EXPECT_EQ(s.counters().copies, 0u);
  }
  EXPECT_GE(launches(), static_cast<int64_t>(std::size(kCases)));
  EXPECT_EQ(refused(), 0);
}

TEST_F(TextDevice, OtherSizes) {
  for (const int64_t n : {1, 7, 8, 33, 200}) {
    Session s(alike());
    const Floats values = noise(static_cast<size_t>(3 * n), 5);
    const auto run = [&](int32_t where) {
      const Tensor x = on(where, values, {3, n});
      return bytes_of((x.softmax(1) * x).sum({1}) + x.max());
    };
    EXPECT_EQ(run(device()), run(ASTER_ML_DEVICE_CPU)) << n;
    EXPECT_EQ(s.counters().host_kernels, 0u);
  }
}

// Random numbers, gradients and an assigned state.
TEST_F(TextDevice, TrainsAStep) {
  const auto train = [&](int32_t where) {
    Session s(alike());
    EXPECT_OK(aster_ml_engine_set_device(s.get(), where));
    EXPECT_OK(aster_ml_lazy_manual_seed(s.get(), 3));
    Tensor w = Tensor::randn({9, 4}).realized();
    const Tensor x = on(where, noise(16 * 9, 1), {16, 9}), y = on(where, noise(16 * 4, 2), {16, 4});
    for (int i = 0; i < 3; ++i) {
      const Tensor loss = (x.matmul(w).tanh() - y).square().mean();
      w -= loss.gradient(w) * 0.5;
      EXPECT_OK(w.realize());
    }
    EXPECT_EQ(w.device(), where);
    EXPECT_EQ(s.counters().host_kernels, 0u);
    return bytes_of(w);
  };
  EXPECT_EQ(train(device()), train(ASTER_ML_DEVICE_CPU));
}

// Halves are unknown to it: these kernels are the host's, the others its own.
TEST_F(TextDevice, WhatItDoesNotKnowTheHostComputes) {
  Session s(alike());
  const Floats values = noise(100, 3);
  const auto run = [&](int32_t where) {
    const Tensor x = on(where, values, {10, 10});
    const Tensor half = (x * 3).cast(dtypes::float16).contiguous();
    return (half.cast(dtypes::float32) + 1).sum({1}).contiguous() * x.max();
  };
  const std::vector<char> want = bytes_of(run(ASTER_ML_DEVICE_CPU));
  const int64_t launched = launches();
  EXPECT_EQ(bytes_of(run(device())), want);
  EXPECT_GT(refused(), 0);
  EXPECT_NE(std::string(text_device()->why).find("the type f16"), std::string::npos)
      << text_device()->why;
  EXPECT_GT(s.counters().host_kernels, 0u);
  EXPECT_GT(launches(), launched);
}

// It is no CPU, so a product is a kernel of its own and not a call of the host's library on copies.
TEST_F(TextDevice, ProductsAreItsOwn) {
  aster_ml_context_options options = {};
  options.vector_bytes = 32;
  Session s(options);
  const Floats left = noise(64 * 64, 1), right = noise(64 * 64, 2);
  const Tensor product = on(device(), left, {64, 64}).matmul(on(device(), right, {64, 64}));
  EXPECT_EQ(product.graph(ASTER_ML_GRAPH_SCHEDULE).find("library"), std::string::npos);
  const Floats got = read(product);
  EXPECT_EQ(s.counters().host_kernels, 0u);
  EXPECT_EQ(s.counters().copies, 0u);
  const Tensor want =
      on(ASTER_ML_DEVICE_CPU, left, {64, 64}).matmul(on(ASTER_ML_DEVICE_CPU, right, {64, 64}));
  const Floats expected = read(want);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4);
}

// DLPack has a type for METAL: its memory goes out and comes in where it lies, and is computed on.
TEST_F(TextDevice, SharesItsMemoryByDlpack) {
  int32_t metal = 0;
  OK(text_device_register(&metal, "METAL"));
  EXPECT_EQ(metal, ASTER_ML_DEVICE_METAL);
  Session s(alike());
  const size_t shape[] = {6};
  const Floats values{1, 2, 3, 4, 5, 6};
  aster_ml_tensor from{}, in{};
  OK(aster_ml_tensor_init(&from, s.get(), ASTER_ML_DTYPE_FLOAT32, metal, 1, shape));
  OK(aster_ml_tensor_copy_in(&from, values.data(), 6));
  aster_ml_dlpack_managed* managed = nullptr;
  OK(aster_ml_dlpack_export(&managed, s.get(), &from, 0));
  EXPECT_EQ(managed->tensor.device.type, ASTER_ML_DLPACK_METAL);
  EXPECT_EQ(managed->tensor.data, from.storage.data);
  OK(aster_ml_dlpack_import(&in, s.get(), managed));
  EXPECT_EQ(in.storage.device, metal);
  const int64_t launched = launches(), ins = text_device()->ins, outs = text_device()->outs;
  aster_ml_tensor squares{};
  OK(aster_ml_tensor_square(&squares, s.get(), &in));
  EXPECT_EQ(squares.storage.device, metal);
  EXPECT_EQ(launches(), launched + 1);
  EXPECT_EQ(text_device()->ins, ins);
  EXPECT_EQ(text_device()->outs, outs);
  Floats got(6);
  OK(aster_ml_tensor_copy_out(got.data(), &squares, 6));
  EXPECT_EQ(got, (Floats{1, 4, 9, 16, 25, 36}));
  for (aster_ml_tensor* tensor : {&squares, &in, &from}) OK(aster_ml_tensor_free(tensor));
}

// Kernels that are built, found again and beyond the device, while requests for memory fail one by
// one: MEMORY, nothing lost, and the same values afterwards.
TEST_F(TextDevice, EveryRequestForMemoryMayFail) {
  const Floats values = noise(60, 3);
  for (int64_t request = 0, failed = 1; failed != 0; ++request) {
    ASSERT_LT(request, 20000);
    aster_test::CountingAllocator memory;
    aster_ml_context_options options = alike();
    options.allocator = &memory.table;
    options.compiler = "none";
    {
      Session s(options);
      Tensor x = on(device(), values, {6, 10});
      const Tensor halves = (x * 3).cast(dtypes::float16);
      memory.fail_at(request);
      const int64_t before = memory.requests();
      const Tensor sums = (x + 1).sum({1}).sin(), again = (x + 1).sum({1});
      for (const Tensor& tensor : {sums, again, halves}) {
        const bool done = !tensor.ok() || tensor.realize();
        EXPECT_TRUE(done || aster_ml::error().code == ASTER_ML_MEMORY) << last_error();
      }
      failed = memory.requests() - before > request ? 1 : 0;
      memory.fail_at(-1);
      const Floats got = read((x + 1).sum({1}));
      ASSERT_EQ(got.size(), 6u);
      for (size_t row = 0; row < 6; ++row) {
        double want = 10;
        for (size_t i = 0; i < 10; ++i) want += values[row * 10 + i];
        EXPECT_NEAR(got[row], want, 1e-5) << "request " << request;
      }
    }
    EXPECT_TRUE(memory.sound());
    EXPECT_EQ(memory.live(), 0u) << "request " << request;
    if (HasFailure()) return;
  }
}

// Kernel programs of others are text that it takes as they are; C is not.
TEST_F(TextDevice, TakesKernelPrograms) {
  Session s(alike());
  const char* const program =
      "program twice\n%0 = Param f32 0 [64] write\n%1 = Param f32 1 [64]\n"
      "%2 = Loop task 0 8 1\n  %3 = Load f32x8 %1 + 8*%2\n  %4 = Add f32x8 %3 %3\n"
      "  Store %0 + 8*%2, %4\nEnd\n";
  const aster_ml::Kernel twice =
      aster_ml::Kernel::from_program(program, "float32[64] -> float32[64]");
  ASSERT_TRUE(twice.ok()) << last_error();
  const Floats values = noise(64, 1);
  const int64_t launched = launches();
  const Tensor y = twice({on(device(), values, {64})});
  OK(y.realize());
  EXPECT_EQ(launches(), launched + 1);
  EXPECT_EQ(s.counters().host_kernels, 0u);
  const Floats got = read(y);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(got[i], 2 * values[i]);
  // One with groups it does not take; nor source.
  const char* const grouped =
      "program grouped\n%0 = Param f32 0 [64] write\n%1 = Param f32 1 [64]\n"
      "%2 = Loop group 0 0 8 1\n  %3 = Loop local 0 0 8 1\n    %4 = Load f32 %1 + 8*%2 + %3\n"
      "    Store %0 + 8*%2 + %3, %4\n  End\nEnd\n";
  const aster_ml::Kernel groups =
      aster_ml::Kernel::from_program(grouped, "float32[64] -> float32[64]");
  ASSERT_TRUE(groups.ok()) << last_error();
  EXPECT_EQ(read(groups({Tensor(values, {64})})), values);
  EXPECT_FALSE(groups({on(device(), values, {64})}).realize());
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_UNSUPPORTED);
  EXPECT_NE(last_error().find("has groups, which TEXT does not take"), std::string::npos);
  aster_ml_kernel_options options{};
  options.struct_size = sizeof(options);
  options.device = device();
  EXPECT_FALSE(aster_ml::Kernel::from_source("void f(float *y, long long b, long long e) {}\n", "f",
                                             "-> float32", &options)
                   .ok());
  EXPECT_NE(last_error().find("TEXT takes kernel programs, not source"), std::string::npos);
}

TEST_F(TextDevice, Replays) {
  Session s(alike());
  const Tensor w = on(device(), noise(64, 2), {64});
  const Tensor x = on(device(), noise(64, 1), {64});
  aster_ml_lazy* const inputs[] = {x.get()};
  OK(aster_ml_engine_capture_begin(s.get(), inputs, 1));
  Tensor y = (x * w).relu() + x.sum();
  aster_ml_lazy* const outputs[] = {y.get()};
  aster_ml_program program{};
  OK(aster_ml_engine_capture_end(&program, s.get(), outputs, 1));
  const size_t shape[] = {64};
  const Floats weights = read(w);
  aster_ml_tensor in{}, out{};
  OK(aster_ml_tensor_init(&in, s.get(), ASTER_ML_DTYPE_FLOAT32, device(), 1, shape));
  for (uint32_t seed = 10; seed < 13; ++seed) {
    const Floats values = noise(64, seed);
    OK(aster_ml_tensor_copy_in(&in, values.data(), 64));
    const int64_t launched = launches();
    OK(aster_ml_program_run(&program, nullptr, &in, 1, &out, 1));
    EXPECT_GT(launches(), launched);
    Floats got(64);
    OK(aster_ml_tensor_copy_out(got.data(), &out, 64));
    double sum = 0;
    for (const float value : values) sum += value;
    for (size_t i = 0; i < 64; ++i)
      EXPECT_NEAR(got[i], std::max(values[i] * weights[i], 0.0f) + sum, 1e-4);
  }
  OK(aster_ml_tensor_free(&in));
  OK(aster_ml_tensor_free(&out));
  OK(aster_ml_program_free(&program));
}

// What a schedule's launches are there: the device's, with the text that it was given.
TEST_F(TextDevice, SchedulesSayWhatItRuns) {
  Session s(alike());
  const Tensor x = on(device(), noise(24 * 37, 1), {24, 37});
  const Tensor y = (x * 3.0 + x).sum({1});
  OK(y.realize());
  const aster_ml::Schedule schedule = aster_ml::Schedule::last();
  OK(schedule.ok());
  ASSERT_EQ(schedule.size(), 1u);
  const aster_ml_schedule_item item = schedule[0];
  EXPECT_EQ(item.kind, ASTER_ML_ITEM_DEVICE);
  EXPECT_EQ(item.device, device());
  EXPECT_EQ(item.function, nullptr);
  EXPECT_EQ(item.operand_count, 2u);
  EXPECT_GE(item.tasks, 1);
  const std::string source = schedule.source(0);
  EXPECT_EQ(source.rfind("program ", 0), 0u) << source;
  EXPECT_NE(source.find("Store"), std::string::npos) << source;
  // A copy between memories has none.
  const Tensor home = y.to(ASTER_ML_DEVICE_CPU);
  OK(home.realize());
  const aster_ml::Schedule moved = aster_ml::Schedule::last();
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].kind, ASTER_ML_ITEM_COPY);
  EXPECT_EQ(moved.source(0), "");
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_NOT_FOUND);
}

}  // namespace
}  // namespace programs
