#include <thread>

#include "aster.h"

namespace programs {
namespace {

// A concrete tensor in the library's memory.
struct Concrete {
  Concrete(Session& s, const std::vector<float>& values, const std::vector<size_t>& shape) {
    EXPECT_OK(aster_ml_tensor_from_data(&t, &s.context, values.data(), ASTER_ML_DTYPE_FLOAT32,
                                        shape.size(), shape.data()));
  }
  ~Concrete() { EXPECT_OK(aster_ml_tensor_free(&t)); }
  Concrete(const Concrete&) = delete;
  Concrete& operator=(const Concrete&) = delete;
  const float* values() const { return static_cast<const float*>(t.storage.data); }
  aster_ml_tensor t{};
};

struct Captured {
  ~Captured() { EXPECT_OK(aster_ml_program_free(&program)); }
  aster_ml_program program{};
};

TEST(Capture, ReplaysOnOtherInputs) {
  Session s;
  T x = from(s, std::vector<float>{1, 2, 3}, {3});
  aster_ml_lazy* inputs[] = {&x.h};
  OK(aster_ml_engine_capture_begin(&s.context, inputs, 1));
  T y = x * x + number(s, 1);
  realize({&y});
  T z = sum(y);
  aster_ml_lazy* outputs[] = {&y.h, &z.h};
  Captured c;
  OK(aster_ml_engine_capture_end(&c.program, &s.context, outputs, 2));
  EXPECT_EQ(aster_ml_program_count_kernels(&c.program), 2u);
  EXPECT_EQ(read(y), (std::vector<float>{2, 5, 10}));

  Concrete in(s, {4, 5, 6}, {3}), out(s, {0, 0, 0}, {3});
  aster_ml_tensor results[2] = {out.t, {}};
  OK(aster_ml_program_run(&c.program, nullptr, &in.t, 1, results, 2));
  EXPECT_EQ(out.values()[0], 17);
  EXPECT_EQ(out.values()[2], 37);
  EXPECT_EQ(*static_cast<const float*>(results[1].storage.data), 17 + 26 + 37);
  OK(aster_ml_tensor_free(&results[1]));
  // The captured run's own results are untouched.
  EXPECT_EQ(read(y), (std::vector<float>{2, 5, 10}));
}

TEST(Capture, ReplaysAreCounted) {
  Session s;
  T x = from(s, std::vector<float>{1, 2, 3}, {3});
  aster_ml_lazy* inputs[] = {&x.h};
  OK(aster_ml_engine_capture_begin(&s.context, inputs, 1));
  T y = x * x, z = sum(y);
  realize({&y});
  realize({&z});
  aster_ml_lazy* outputs[] = {&z.h};
  Captured c;
  OK(aster_ml_engine_capture_end(&c.program, &s.context, outputs, 1));
  const auto count = [&] {
    aster_ml_engine_counters counters{};
    counters.struct_size = sizeof(counters);
    EXPECT_OK(aster_ml_engine_count(&counters, &s.context));
    return counters;
  };
  Concrete in(s, {4, 5, 6}, {3}), out(s, {0}, {});
  const aster_ml_engine_counters before = count();
  for (int i = 0; i < 3; ++i) OK(aster_ml_program_run(&c.program, nullptr, &in.t, 1, &out.t, 1));
  const aster_ml_engine_counters after = count();
  EXPECT_EQ(after.kernels_launched, before.kernels_launched + 3 * 2);
  EXPECT_EQ(after.operations, before.operations + 3 * (3 + 3));  // products, additions
  EXPECT_EQ(after.moved_bytes, before.moved_bytes + 3 * (3 + 3 + 3 + 1) * sizeof(float));
}

TEST(Capture, StateIsCarriedOn) {
  Session s;
  T weight = from(s, std::vector<float>{0, 0}, {2}), x = from(s, std::vector<float>{1, 2}, {2});
  aster_ml_lazy* inputs[] = {&x.h};
  OK(aster_ml_engine_capture_begin(&s.context, inputs, 1));
  T next = weight + x;
  OK(aster_ml_lazy_assign(&weight.h, &next.h));
  realize({&weight});
  Captured c;
  OK(aster_ml_engine_capture_end(&c.program, &s.context, nullptr, 0));
  Concrete in(s, {10, 20}, {2});
  for (int i = 0; i < 3; ++i) OK(aster_ml_program_run(&c.program, nullptr, &in.t, 1, nullptr, 0));
  EXPECT_EQ(read(weight), (std::vector<float>{31, 62}));
}

TEST(Capture, WhatAStepAssignsToAnInputGoesIntoTheGivenMemory) {
  Session s;
  T x = from(s, std::vector<float>{1, 2}, {2});
  aster_ml_lazy* inputs[] = {&x.h};
  OK(aster_ml_engine_capture_begin(&s.context, inputs, 1));
  T next = x * number(s, 2);
  OK(aster_ml_lazy_assign(&x.h, &next.h));
  T y = x + number(s, 1);
  aster_ml_lazy* outputs[] = {&y.h, &x.h};
  Captured c;
  OK(aster_ml_engine_capture_end(&c.program, &s.context, outputs, 2));
  EXPECT_EQ(read(x), (std::vector<float>{2, 4}));
  Concrete in(s, {10, 20}, {2}), out(s, {0, 0}, {2}), same(s, {0, 0}, {2});
  aster_ml_tensor results[2] = {out.t, same.t};
  for (int i = 0; i < 2; ++i) OK(aster_ml_program_run(&c.program, nullptr, &in.t, 1, results, 2));
  EXPECT_EQ(in.values()[1], 80);
  EXPECT_EQ(out.values()[1], 81);
  EXPECT_EQ(same.values()[0], 40);
  EXPECT_EQ(read(x), (std::vector<float>{2, 4}));

  float memory[] = {1, 2};
  aster_ml_buffer fixed{};
  aster_ml_tensor view{};
  const size_t shape[] = {2};
  OK(aster_ml_buffer_from_memory(&fixed, &s.context, memory, sizeof memory, ASTER_ML_DTYPE_FLOAT32,
                                 0, 1, nullptr, nullptr));
  OK(aster_ml_tensor_from_buffer(&view, &s.context, &fixed, 0, 1, shape, nullptr));
  EXPECT_EQ(aster_ml_program_run(&c.program, nullptr, &view, 1, results, 2), ASTER_ML_ARGUMENT);
  OK(aster_ml_tensor_free(&view));
  OK(aster_ml_buffer_free(&fixed));
  EXPECT_EQ(memory[0], 1);
}

TEST(Capture, WorkspacesRunAtOnce) {
  Session s;
  T x = data(s, {64, 64});
  aster_ml_lazy* inputs[] = {&x.h};
  OK(aster_ml_engine_capture_begin(&s.context, inputs, 1));
  T y = softmax(matmul(x, x));
  aster_ml_lazy* outputs[] = {&y.h};
  Captured c;
  OK(aster_ml_engine_capture_end(&c.program, &s.context, outputs, 1));
  const std::vector<float> expected = read(y);
  Concrete in(s, noise(64 * 64, 1), {64, 64});
  std::vector<aster_ml_workspace> workspaces(3);
  for (auto& workspace : workspaces) OK(aster_ml_workspace_init(&workspace, &c.program));
  std::vector<int> bad(3, 0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      std::vector<float> memory(64 * 64);
      for (int round = 0; round < 50; ++round) {
        aster_ml_tensor out{};
        if (aster_ml_program_run(&c.program, &workspaces[i], &in.t, 1, &out, 1) != 0) ++bad[i];
        const float* got = static_cast<const float*>(out.storage.data);
        for (size_t k = 0; k < expected.size(); ++k) bad[i] += got[k] != expected[k];
        aster_ml_tensor_free(&out);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& workspace : workspaces) OK(aster_ml_workspace_free(&workspace));
  EXPECT_EQ(bad, std::vector<int>(3, 0));
}

TEST(Capture, RefusesWhatDoesNotFit) {
  Session s;
  T x = from(s, std::vector<float>{1, 2, 3}, {3}), same = x;
  aster_ml_lazy* inputs[] = {&x.h};
  aster_ml_lazy* twice[] = {&x.h, &same.h};
  Captured c;
  EXPECT_EQ(aster_ml_engine_capture_end(&c.program, &s.context, nullptr, 0), ASTER_ML_STATE);
  EXPECT_EQ(aster_ml_engine_capture_begin(&s.context, twice, 2), ASTER_ML_ARGUMENT);
  OK(aster_ml_engine_capture_begin(&s.context, inputs, 1));
  EXPECT_EQ(aster_ml_engine_capture_begin(&s.context, inputs, 1), ASTER_ML_STATE);
  T y = exp(x);
  float values[3];
  EXPECT_EQ(aster_ml_lazy_copy_out(values, sizeof(values), &y.h), ASTER_ML_STATE);
  aster_ml_lazy* outputs[] = {&y.h};
  OK(aster_ml_engine_capture_end(&c.program, &s.context, outputs, 1));
  Concrete wrong_shape(s, {1, 2}, {2}), right(s, {1, 2, 3}, {3});
  aster_ml_tensor out{};
  EXPECT_EQ(aster_ml_program_run(&c.program, nullptr, &wrong_shape.t, 1, &out, 1), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_program_run(&c.program, nullptr, &right.t, 1, &out, 0), ASTER_ML_ARGUMENT);
  aster_ml_tensor wrong_dtype = right.t;
  wrong_dtype.dtype = ASTER_ML_DTYPE_INT32;
  EXPECT_EQ(aster_ml_program_run(&c.program, nullptr, &wrong_dtype, 1, &out, 1), ASTER_ML_DTYPE);
  EXPECT_EQ(aster_ml_program_run(nullptr, nullptr, nullptr, 0, nullptr, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(out.storage.data, nullptr);
}

TEST(Capture, RandomNumbersMoveOn) {
  Session s;
  const int64_t shape[] = {4};
  OK(aster_ml_engine_capture_begin(&s.context, nullptr, 0));
  T r = make(aster_ml_lazy_rand, &s.context, ASTER_ML_DTYPE_FLOAT32, size_t{1}, shape);
  aster_ml_lazy* outputs[] = {&r.h};
  Captured c;
  OK(aster_ml_engine_capture_end(&c.program, &s.context, outputs, 1));
  std::vector<std::vector<float>> seen;
  for (int i = 0; i < 3; ++i) {
    aster_ml_tensor out{};
    OK(aster_ml_program_run(&c.program, nullptr, nullptr, 0, &out, 1));
    const float* values = static_cast<const float*>(out.storage.data);
    seen.emplace_back(values, values + 4);
    OK(aster_ml_tensor_free(&out));
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_NE(seen[1], seen[2]);
}

TEST(Cache, StepsOnNewBuffersHit) {
  Session s;
  for (uint32_t i = 0; i < 6; ++i) read(softmax(data(s, {4, 5}, i) * number(s, 2)));
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
