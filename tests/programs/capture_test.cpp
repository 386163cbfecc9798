#include <thread>

#include "aster.h"

namespace programs {
namespace {

using aster_ml::Array;
using aster_ml::Program;

TEST(Capture, ReplaysOnOtherInputs) {
  Session s;
  Tensor x({1.f, 2.f, 3.f}), y;
  Program program({x}, [&] {
    y = (x * x + 1).realized();
    return std::vector{y, y.sum()};
  });
  OK(program);
  EXPECT_EQ(program.kernels(), 2u);
  EXPECT_EQ(read(y), (Floats{2, 5, 10}));

  // Into memory that is given, and into memory that the run makes.
  Array in(Floats{4, 5, 6}, {3}), out(Floats{0, 0, 0}, {3});
  aster_ml_tensor results[2] = {*out.get(), {}};
  OK(program.run(in.get(), 1, results, 2));
  EXPECT_EQ(out.to_vector<float>(), (Floats{17, 26, 37}));
  EXPECT_EQ(*static_cast<const float*>(results[1].storage.data), 17 + 26 + 37);
  OK(aster_ml_tensor_free(&results[1]));
  // The captured run's own results are untouched.
  EXPECT_EQ(read(y), (Floats{2, 5, 10}));
}

TEST(Capture, ReplaysAreCounted) {
  Session s;
  Tensor x({1.f, 2.f, 3.f});
  Program program({x}, [&] { return (x * x).realized().sum().realized(); });
  const aster_ml_engine_counters before = s.counters();
  Tensor other({4.f, 5.f, 6.f});
  for (int i = 0; i < 3; ++i) OK(program({other}));
  const aster_ml_engine_counters after = s.counters();
  EXPECT_EQ(after.kernels_launched, before.kernels_launched + 3 * 2);
  EXPECT_EQ(after.operations, before.operations + 3 * (3 + 3));  // products, additions
  EXPECT_EQ(after.moved_bytes, before.moved_bytes + 3 * (3 + 3 + 3 + 1) * sizeof(float));
}

// A run that is given what the last one was is its launches and no more; what has changed behind
// the same pointers is seen.
TEST(Capture, TheSameGivenAgain) {
  Session s;
  Tensor x({1.f, 2.f, 3.f, 4.f, 5.f, 6.f});
  x = x.reshape({2, 3}).realized();
  Program program({x}, [&] { return x + x; });
  OK(program);
  float from[6] = {1, 2, 3, 4, 5, 6}, to[6] = {}, elsewhere[6] = {};
  size_t shape[2] = {2, 3};
  ptrdiff_t strides[2] = {3, 1};
  const aster_ml_buffer memory = {from, sizeof(from), ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DEVICE_CPU};
  aster_ml_tensor in = {memory, 0, 2, shape, strides, ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DEVICE_CPU};
  aster_ml_tensor out = in;
  out.storage.data = to;
  const auto run = [&] { return aster_ml_program_run(program.get(), nullptr, &in, 1, &out, 1); };
  const uint64_t before = s.counters().kernels_launched;
  for (int i = 0; i < 3; ++i) {
    from[5] = static_cast<float>(i);
    EXPECT_EQ(run(), 0);
    EXPECT_EQ(to[5], 2 * from[5]);
  }
  EXPECT_EQ(s.counters().kernels_launched, before + 3 * program.kernels());
  std::swap(shape[0], shape[1]);
  EXPECT_EQ(run(), ASTER_ML_SHAPE);
  std::swap(shape[0], shape[1]);
  strides[0] = 1;
  EXPECT_EQ(run(), ASTER_ML_SHAPE);
  strides[0] = 3;
  EXPECT_EQ(run(), 0);
  out.storage.data = elsewhere;
  for (int i = 0; i < 2; ++i) {
    from[0] = 50.f + static_cast<float>(i);
    EXPECT_EQ(run(), 0);
    EXPECT_EQ(elsewhere[0], 2 * from[0]);
  }
  EXPECT_EQ(to[0], 2.f);
  // In place, which needs a copy first: not what was planned before.
  out.storage.data = from;
  for (int i = 0; i < 2; ++i) {
    const float first = from[0];
    EXPECT_EQ(run(), 0);
    EXPECT_EQ(from[0], 2 * first);
  }
  int told = 0;
  EXPECT_OK(s.trace([](void* self, const aster_ml_launch*) { ++*static_cast<int*>(self); }, &told));
  out.storage.data = to;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(), 0);
  EXPECT_EQ(told, 3 * static_cast<int>(program.kernels()));
  EXPECT_OK(s.trace(nullptr));
}

TEST(Capture, StateIsCarriedOn) {
  Session s;
  Tensor weight({0.f, 0.f}), x({1.f, 2.f});
  Program program({x}, [&] { EXPECT_OK((weight += x).realize()); });
  Tensor other({10.f, 20.f});
  for (int i = 0; i < 3; ++i) OK(program.run({other}));
  EXPECT_EQ(read(weight), (Floats{31, 62}));
}

TEST(Capture, WhatAStepMakesFromDataIsMadeAnew) {
  Session s;
  Tensor x({1.f, 2.f}), sum, part;
  Program program({x}, [&] {
    sum = Tensor({100.f, 200.f});
    part = Tensor({1.f, 2.f, 3.f});
    EXPECT_OK((sum += x).realize());
    EXPECT_OK((sum += x).realize());
    EXPECT_OK(part.shrink({1}, {3}).assign(x));
    const Tensor constant({5.f, 6.f});
    return std::vector{sum * 1, part * 1, constant + x};
  });
  for (float i = 1; i < 4; ++i) {
    OK(program({Tensor({i, -i})}));
    EXPECT_EQ(read(program.outputs()[0]), (Floats{100 + 2 * i, 200 - 2 * i}));
    EXPECT_EQ(read(program.outputs()[1]), (Floats{1, i, -i}));
    EXPECT_EQ(read(program.outputs()[2]), (Floats{5 + i, 6 - i}));
  }
}

TEST(Capture, WhatAStepAssignsToAnInputGoesIntoTheGivenMemory) {
  Session s;
  Tensor x({1.f, 2.f});
  Program program({x}, [&] {
    EXPECT_OK(x *= 2);
    return std::vector{x + 1, x};
  });
  EXPECT_EQ(read(x), (Floats{2, 4}));
  Tensor in({10.f, 20.f});
  for (int i = 0; i < 2; ++i) OK(program.run({in}));
  EXPECT_EQ(read(in), (Floats{40, 80}));
  EXPECT_EQ(read(program.outputs()[0]), (Floats{41, 81}));
  EXPECT_EQ(read(program.outputs()[1]), (Floats{40, 80}));
  EXPECT_EQ(read(x), (Floats{2, 4}));

  float memory[] = {1, 2};
  aster_ml_buffer fixed{};
  aster_ml_tensor view{};
  const size_t shape[] = {2};
  OK(aster_ml_buffer_from_memory(&fixed, s.get(), memory, sizeof memory, ASTER_ML_DTYPE_FLOAT32, 0,
                                 1, nullptr, nullptr));
  OK(aster_ml_tensor_from_buffer(&view, s.get(), &fixed, 0, 1, shape, nullptr));
  aster_ml_tensor results[2] = {};
  EXPECT_FALSE(program.run(&view, 1, results, 2));
  EXPECT_EQ(aster_ml::error().code, ASTER_ML_ARGUMENT);
  OK(aster_ml_tensor_free(&view));
  OK(aster_ml_buffer_free(&fixed));
  EXPECT_EQ(memory[0], 1);
}

TEST(Capture, WorkspacesRunAtOnce) {
  Session s;
  Tensor x = data({64, 64});
  Program program({x}, [&] { return x.matmul(x).softmax(); });
  const Floats expected = read(x.matmul(x).softmax());
  Array in(noise(64 * 64, 1), {64, 64});
  const aster_ml::Workspace workspaces[] = {
      aster_ml::Workspace(program), aster_ml::Workspace(program), aster_ml::Workspace(program)};
  std::vector<int> bad(3, 0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        aster_ml_tensor out{};
        if (!program.run(in.get(), 1, &out, 1, workspaces[i].get())) ++bad[i];
        const float* got = static_cast<const float*>(out.storage.data);
        for (size_t k = 0; k < expected.size(); ++k) bad[i] += got[k] != expected[k];
        aster_ml_tensor_free(&out);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, std::vector<int>(3, 0));
}

TEST(Capture, RefusesWhatDoesNotFit) {
  Session s;
  Tensor x({1.f, 2.f, 3.f});
  aster_ml_lazy same = x.to_c();
  aster_ml_lazy* inputs[] = {x.get()};
  aster_ml_lazy* twice[] = {x.get(), &same};
  aster_ml_program program{};
  EXPECT_EQ(aster_ml_engine_capture_end(&program, s.get(), nullptr, 0), ASTER_ML_STATE);
  EXPECT_EQ(aster_ml_engine_capture_begin(s.get(), twice, 2), ASTER_ML_ARGUMENT);
  OK(aster_ml_engine_capture_begin(s.get(), inputs, 1));
  EXPECT_EQ(aster_ml_engine_capture_begin(s.get(), inputs, 1), ASTER_ML_STATE);
  Tensor y = x.exp();
  float values[3];
  EXPECT_EQ(aster_ml_lazy_copy_out(values, sizeof(values), y.get()), ASTER_ML_STATE);
  aster_ml_lazy* outputs[] = {y.get()};
  OK(aster_ml_engine_capture_end(&program, s.get(), outputs, 1));
  Array wrong_shape(Floats{1, 2}, {2}), right(Floats{1, 2, 3}, {3}), ints(Ints{1, 2, 3}, {3});
  aster_ml_tensor out{};
  const auto run = [&](const Array& in, size_t count) {
    return aster_ml_program_run(&program, nullptr, in.get(), 1, &out, count);
  };
  EXPECT_EQ(run(wrong_shape, 1), ASTER_ML_SHAPE);
  EXPECT_EQ(run(right, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(ints, 1), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_program_run(nullptr, nullptr, nullptr, 0, nullptr, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(out.storage.data, nullptr);
  OK(aster_ml_program_free(&program));
  OK(aster_ml_lazy_free(&same));
}

TEST(Capture, PruneLeavesOutWhatNoInputReaches) {
  Session s;
  EXPECT_EQ(aster_ml_engine_capture_prune(s.get()), ASTER_ML_STATE);
  for (const bool prune : {false, true}) {
    Tensor weights({1.f, 2.f, 3.f}), x({1.f, 1.f, 1.f}), count({0.f});
    Program program({x}, [&] {
      EXPECT_TRUE(!prune || Program::prune());
      const Tensor doubled = (weights + weights).realized();
      const Tensor noise = Tensor::rand(3).realized();
      EXPECT_OK((count += 1).realize());
      return std::vector{(x * doubled).realized(), noise, doubled};
    });
    std::vector<Floats> noise;
    for (int i = 0; i < 3; ++i) {
      OK(program.run({Tensor({1.f + static_cast<float>(i), 1.f, 0.f})}));
      EXPECT_EQ(read(program.outputs()[0]), (Floats{2.f + 2 * static_cast<float>(i), 4, 0}));
      EXPECT_EQ(read(program.outputs()[2]), (Floats{2, 4, 6}));
      noise.push_back(read(program.outputs()[1]));
    }
    EXPECT_EQ(read(count)[0], prune ? 1 : 4);
    EXPECT_EQ(noise[0] == noise[1] && noise[1] == noise[2], prune);
    EXPECT_EQ(program.kernels(), prune ? 1u : 4u);
  }
}

// What does not change is copied by the first run, and gives the same bits; what the step assigns
// is no such thing.
TEST(Capture, ConstantsMayBeCopied) {
  Session s;
  EXPECT_EQ(aster_ml_engine_capture_constant(s.get()), ASTER_ML_STATE);
  const Tensor x = data({1, 300}, 1).realized(), other = data({1, 300}, 4).realized();
  const Tensor weights = data({300, 100}, 2).realized();
  Tensor bias = data({1, 100}, 3).realized();
  Floats results[2];
  for (const bool constant : {false, true}) {
    Program program({x}, [&] {
      EXPECT_TRUE(!constant || Program::constant());
      return (x.matmul(weights) + bias).relu();
    });
    OK(program.run({other}));
    results[constant] = read(program.outputs()[0]);
    size_t with = 0, without = 0;
    OK(aster_ml_context_count_bytes(&with, nullptr, s.get()));
    program = Program();
    OK(aster_ml_context_count_bytes(&without, nullptr, s.get()));
    EXPECT_EQ(with - without >= 300 * 100 * sizeof(float), constant);
  }
  EXPECT_EQ(results[0], results[1]);
  aster_ml_lazy* input = x.get();
  OK(aster_ml_engine_capture_begin(s.get(), &input, 1));
  OK(aster_ml_engine_capture_constant(s.get()));
  Tensor changed = weights + 0;
  changed.realize();
  const Tensor y = x.matmul(weights).realized();
  Tensor w = weights;
  EXPECT_OK((w += 1).realize());
  aster_ml_program program{};
  aster_ml_lazy* output = y.get();
  EXPECT_EQ(aster_ml_engine_capture_end(&program, s.get(), &output, 1), ASTER_ML_ARGUMENT);
}

TEST(Capture, RandomNumbersMoveOn) {
  Session s;
  Program program({}, [] { return Tensor::rand(4); });
  std::vector<Floats> seen;
  for (int i = 0; i < 3; ++i) seen.push_back(read(program({})));
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_NE(seen[1], seen[2]);
}

TEST(Cache, StepsOnNewBuffersHit) {
  Session s;
  for (uint32_t i = 0; i < 6; ++i) read((data({4, 5}, i) * 2).softmax());
  EXPECT_EQ(s.counters().schedule_misses, 1u);
  EXPECT_EQ(s.counters().schedule_hits, 5u);
}

TEST(Lifetime, HandlesOutliveTheContextHandle) {
  aster_ml_context context{};
  OK(aster_ml_context_init(&context, nullptr));
  const float values[] = {1, 2};
  const int64_t shape[] = {2};
  aster_ml_lazy x{}, y{};
  OK(aster_ml_lazy_from(&x, &context, values, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  OK(aster_ml_context_free(&context));
  OK(aster_ml_lazy_neg(&y, &x));
  float out[2];
  OK(aster_ml_lazy_copy_out(out, sizeof(out), &y));
  EXPECT_EQ(out[1], -2);
  OK(aster_ml_lazy_free(&x));
  OK(aster_ml_lazy_free(&y));
}

}  // namespace
}  // namespace programs
