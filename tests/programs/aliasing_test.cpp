// Memory seen through more than one tensor: views written together, programs fed their own
// results, wrapped memory within wrapped memory, equal expressions.
#include <cstring>

#include "aster.h"

namespace programs {
namespace {

using aster_ml::Array;
using aster_ml::Program;

Tensor wrapped(float* memory, int64_t count) {
  const size_t shape[] = {static_cast<size_t>(count)};
  aster_ml_buffer buffer{};
  aster_ml_tensor view{};
  const aster_ml_context* context = Context::current().get();
  EXPECT_OK(aster_ml_buffer_from_memory(&buffer, context, memory,
                                        static_cast<size_t>(count) * sizeof(float),
                                        ASTER_ML_DTYPE_FLOAT32, 0, 0, nullptr, nullptr));
  EXPECT_OK(aster_ml_tensor_from_buffer(&view, context, &buffer, 0, 1, shape, nullptr));
  Tensor out = make(aster_ml_lazy_from_tensor, context, &view);
  EXPECT_OK(aster_ml_tensor_free(&view));
  EXPECT_OK(aster_ml_buffer_free(&buffer));
  return out;
}

// Both runtimes.
class Aliasing : public testing::TestWithParam<int32_t> {
 protected:
  aster_ml_context_options options() const {
    aster_ml_context_options out{};
    out.struct_size = sizeof(out);
    return out;
  }
  void SetUp() override { OK(aster_ml_engine_set_device(session_.get(), GetParam())); }
  Session session_{options()};
};
INSTANTIATE_TEST_SUITE_P(Runtimes, Aliasing,
                         testing::Values(ASTER_ML_DEVICE_CPU, ASTER_ML_DEVICE_REFERENCE));

TEST_P(Aliasing, OverlappingViewsAssignedTogether) {
  Tensor t = Tensor::zeros({128}).contiguous().realized();
  Tensor a = t.shrink({0}, {64}).realized(), b = t.shrink({32}, {96}).realized();
  const Tensor two = Tensor::full({64}, 2.f).contiguous().realized();
  OK(a.assign(two * 2));
  OK(b.assign(two + 1));
  OK(aster_ml::realize(a, b));
  Floats expected(128, 0);
  for (size_t i = 0; i < 96; ++i) expected[i] = i < 32 ? 4 : 3;
  EXPECT_EQ(read(t), expected);
  EXPECT_EQ(read(a), Floats(expected.begin(), expected.begin() + 64));
}

TEST_P(Aliasing, ViewsKeepTheirStorageAfterWrites) {
  Tensor a = Tensor::ones({6, 1}).contiguous().realized();
  Tensor v = a.shrink({1, 0}, {4, 1}).realized();
  OK(v.shrink({1, 0}, {2, 1}).assign((v + 1).shrink({1, 0}, {2, 1})));
  OK(v.realize());
  Tensor w = a.shrink({1, 0}, {3, 1}).realized();
  OK(v.assign(v.flip(0) * 10));
  EXPECT_EQ(read(w), (Floats{10, 20}));
  EXPECT_EQ(read(a), (Floats{1, 10, 20, 10, 1, 1}));

  Tensor flat = v.reshape({3}).realized();
  OK(v.shrink({0, 0}, {1, 1}).assign((v.flip(0) - 3).shrink({0, 0}, {1, 1})));
  Tensor u = flat.shrink({1}, {2}).realized();
  OK(u.assign(u - 3));
  EXPECT_EQ(read(a), (Floats{1, 7, 17, 10, 1, 1}));
}

TEST_P(Aliasing, PartsOfReshapedStorageAreParts) {
  Floats values(12);
  for (size_t i = 0; i < 12; ++i) values[i] = static_cast<float>(i);
  Tensor all(values, {2, 3, 2});
  const Tensor rows = all.reshape({4, 3});
  Tensor part = rows.shrink({1, 0}, {3, 3}).realized();
  EXPECT_TRUE(part.shares_storage(all));
  OK(rows.shrink({1, 0}, {4, 3}).assign((rows + 1).flip(0).shrink({1, 0}, {4, 3})));
  EXPECT_EQ(read(part), (Floats{7, 8, 9, 4, 5, 6}));
}

TEST_P(Aliasing, WhatWasAssignedIsAssignedOn) {
  float memory[10];
  for (int i = 0; i < 10; ++i) memory[i] = static_cast<float>(i);
  Tensor a = wrapped(memory + 1, 4), b = wrapped(memory, 4);
  OK(a.assign(a.flip(0) - a));
  OK(b.assign(a.flip(0).flip(0)));
  OK(aster_ml::realize(a, b));
  EXPECT_EQ(Floats(memory, memory + 5), (Floats{3, 1, -1, -3, -3}));
}

TEST_P(Aliasing, WrappedMemoryWithinWrappedMemory) {
  float memory[12], expected[12];
  for (int i = 0; i < 12; ++i) memory[i] = expected[i] = static_cast<float>(i);
  Tensor all = wrapped(memory, 10), part = wrapped(memory + 3, 9);
  const Tensor seen = all.shrink({2}, {6});
  OK(part.assign(all.shrink({0}, {9}).flip(0)));
  for (int i = 0; i < 9; ++i) expected[3 + i] = static_cast<float>(8 - i);
  OK(part.realize());
  EXPECT_EQ(0, std::memcmp(memory, expected, sizeof(memory)));
  EXPECT_EQ(read(all), Floats(expected, expected + 10));
  EXPECT_EQ(read(seen), Floats(expected + 2, expected + 6));
}

TEST_P(Aliasing, EqualExpressionsStayApart) {
  const Tensor x({1.f, 2.f});
  Tensor p = x * 3, q = x * 3;
  const Tensor view = p.flip(0), copy = p;
  OK(p.realize());
  OK(q.realize());
  int32_t shared = 0;
  OK(aster_ml_lazy_shares_storage(&shared, p.get(), q.get()));
  EXPECT_EQ(shared, 1);
  OK(p.shrink({0}, {1}).assign(Tensor({50.f})));
  EXPECT_EQ(read(q), (Floats{3, 6}));
  EXPECT_EQ(read(p), (Floats{50, 6}));
  EXPECT_EQ(read(copy), (Floats{50, 6}));
  EXPECT_EQ(read(view), (Floats{6, 50}));
  OK(aster_ml_lazy_shares_storage(&shared, p.get(), q.get()));
  EXPECT_EQ(shared, 0);
  OK(q.assign(q * 2));
  EXPECT_EQ(read(q), (Floats{6, 12}));
  EXPECT_EQ(read(p), (Floats{50, 6}));
}

// What is assigned is of the storage that is left as it was then, whatever is written there later.
TEST_P(Aliasing, WhatLeavesEqualExpressionsKeepsItsValues) {
  for (const bool whole : {true, false}) {
    const Tensor x({1.f, 2.f});
    Tensor p = x * 3, q = x * 3;
    OK(aster_ml::realize(p, q));
    if (whole) {
      OK(p.assign(p - 2));
    } else {
      OK(p.shrink({0}, {1}).assign(p.shrink({0}, {1}) - 2));
    }
    OK(q.assign(q * 0));
    OK(q.realize());
    EXPECT_EQ(read(p), (whole ? Floats{1, 4} : Floats{1, 6}));
    EXPECT_EQ(read(q), (Floats{0, 0}));
  }
}

// State that leaves its storage in a capture is what it was, once; what the step makes, every time.
TEST_P(Aliasing, EqualExpressionsPartInCaptures) {
  const Tensor three({3.f, 4.f});
  Tensor p = three * 3, q = three * 3, x({1.f, 1.f});
  OK(aster_ml::realize(p, q, x));
  Program program({x}, [&] {
    EXPECT_OK(p.assign(p + x));
    Tensor r = x * 2, s = x * 2;
    EXPECT_OK(aster_ml::realize(r, s));
    EXPECT_OK(r.assign(r + p));
    return std::vector{p.realized(), r.realized(), s.realized()};
  });
  EXPECT_EQ(read(p), (Floats{10, 13}));
  for (int i = 1; i <= 3; ++i) {
    const float step = static_cast<float>(i);
    OK(program.run({Tensor({step, step})}));
    const float sum = 1 + step * (step + 1) / 2;
    EXPECT_EQ(read(program.outputs()[1]), (Floats{2 * step + 9 + sum, 2 * step + 12 + sum}));
    EXPECT_EQ(read(program.outputs()[2]), (Floats{2 * step, 2 * step}));
    EXPECT_EQ(read(p), (Floats{9 + sum, 12 + sum}));
    EXPECT_EQ(read(q), (Floats{9, 12}));
  }
}

TEST(AliasingParity, StrictParityKeepsEqualExpressionsTogether) {
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.strict_parity = 1;
  Session s(options);
  const Tensor x({1.f, 2.f});
  Tensor p = x * 3, q = x * 3;
  OK(aster_ml::realize(p, q));
  OK(p.assign(Tensor({0.f, 0.f})));
  OK(p.realize());
  EXPECT_EQ(read(q), (Floats{0, 0}));
}

TEST(AliasingParity, SharesStorageRefuses) {
  Session s;
  const Tensor x({1.f});
  int32_t shared = 7;
  aster_ml_lazy empty{};
  EXPECT_EQ(aster_ml_lazy_shares_storage(nullptr, x.get(), x.get()), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_shares_storage(&shared, x.get(), nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(shared, 0);
  EXPECT_NE(aster_ml_lazy_shares_storage(&shared, &empty, x.get()), ASTER_ML_OK);
}

// ---- Programs ----

constexpr int64_t kMany = 4096;

Floats step_of(const Floats& x) {
  Floats out(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    out[i] = x[x.size() - 1 - i] * 0.5f - x[(i + x.size() - 1) % x.size()];
  return out;
}

TEST(AliasingPrograms, FedTheirOwnResults) {
  Session s;
  const Floats first = noise(kMany, 3);
  Tensor x(first, {kMany});
  Program program({x}, [&] { return (x.flip(0) * 0.5f - x.roll({1}, {0})).realized(); });
  OK(program);

  // What the workspace lends is the next input.
  Floats expected = first;
  Array in(first, {kMany});
  aster_ml_tensor state = *in.get();
  for (int i = 0; i < 5; ++i) {
    aster_ml_tensor out{};
    OK(program.run(&state, 1, &out, 1));
    expected = step_of(expected);
    if (i > 0) {
      OK(aster_ml_tensor_free(&state));
    }
    state = out;
    EXPECT_EQ(0, std::memcmp(state.storage.data, expected.data(), kMany * sizeof(float))) << i;
  }
  OK(aster_ml_tensor_free(&state));

  // The result goes where the input lies, wholly and in part.
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{64}}) {
    Floats memory(first);
    memory.resize(kMany + 64);
    Array all(memory, {kMany + 64});
    aster_ml_tensor from = *in.get(), to = *in.get();
    from.storage = to.storage = all.get()->storage;
    to.byte_offset = offset * sizeof(float);
    OK(program.run(&from, 1, &to, 1));
    const auto* made = static_cast<const float*>(all.get()->storage.data) + offset;
    expected = step_of(first);
    EXPECT_EQ(0, std::memcmp(made, expected.data(), kMany * sizeof(float))) << offset;
  }

  // C++'s own way.
  Tensor next(first, {kMany});
  expected = first;
  for (int i = 0; i < 5; ++i) {
    OK(program.run({next}));
    next = program.outputs()[0];
    expected = step_of(expected);
    EXPECT_EQ(read(next), expected);
  }
}

TEST(AliasingPrograms, AssignedInputsAndState) {
  Session s;
  Tensor x({1.f, 2.f, 3.f, 4.f}), y({1.f, 1.f, 1.f, 1.f}), state({0.f, 0.f, 0.f, 0.f});
  Program program({x, y}, [&] {
    EXPECT_OK((x += y).realize());
    EXPECT_OK((state += x).realize());
    return (x * 2).realized();
  });
  OK(program);
  Array memory(Floats{1, 2, 3, 4, 5, 6, 7, 8}, {8});
  const auto at = [&](size_t first) {
    static const size_t shape[] = {4};
    static const ptrdiff_t strides[] = {1};
    aster_ml_tensor out = *memory.get();
    out.shape = const_cast<size_t*>(shape);
    out.strides = const_cast<ptrdiff_t*>(strides);
    out.byte_offset = first * sizeof(float);
    return out;
  };
  const auto run = [&](size_t a, size_t b, aster_ml_tensor out) {
    const aster_ml_tensor in[] = {at(a), at(b)};
    return aster_ml_program_run(program.get(), nullptr, in, 2, &out, 1);
  };
  EXPECT_EQ(run(0, 2, {}), ASTER_ML_ARGUMENT);  // what is assigned overlaps what is read
  EXPECT_EQ(memory.to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6, 7, 8}));
  OK(run(0, 4, at(4)));  // the other input's memory takes the result
  EXPECT_EQ(memory.to_vector<float>(), (Floats{6, 8, 10, 12, 12, 16, 20, 24}));
  aster_ml_tensor held{};
  OK(aster_ml_lazy_view(&held, state.get()));
  const aster_ml_tensor in[] = {held, at(0)};
  aster_ml_tensor out{};
  EXPECT_EQ(aster_ml_program_run(program.get(), nullptr, in, 2, &out, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(0, 4, held), ASTER_ML_ARGUMENT);
}

TEST(AliasingPrograms, DescriptorsAreChecked) {
  Session s;
  Tensor x({1.f, 2.f, 3.f, 4.f, 5.f, 6.f, 7.f, 8.f});
  Program program({x}, [&] { return std::vector{(x * 2).realized(), (x + 1).realized()}; });
  OK(program);
  const Array in(Floats(8, 1), {8}), first(Floats(20, 0), {20}), second(Floats(8, 0), {8});
  const auto run = [&](auto change_input, auto change_output) {
    aster_ml_tensor given = *in.get(), out[2] = {*in.get(), *second.get()};
    out[0].storage = first.get()->storage;
    change_input(given);
    change_output(out[0]);
    const int32_t status = aster_ml_program_run(program.get(), nullptr, &given, 1, out, 2);
    if (status != ASTER_ML_OK) {
      EXPECT_EQ(first.to_vector<float>(), Floats(20, 0));
      EXPECT_EQ(second.to_vector<float>(), Floats(8, 0));
    }
    return status;
  };
  const auto same = [](aster_ml_tensor&) {};
  const struct {
    int32_t status;
    void (*change)(aster_ml_tensor&);
  } wrong[] = {
      {ASTER_ML_RANGE, [](aster_ml_tensor& t) { t.storage.bytes = 4; }},
      {ASTER_ML_RANGE, [](aster_ml_tensor& t) { t.byte_offset = 1 << 20; }},
      {ASTER_ML_RANGE, [](aster_ml_tensor& t) { t.byte_offset = SIZE_MAX - 3; }},
      {ASTER_ML_ARGUMENT, [](aster_ml_tensor& t) { t.shape = nullptr; }},
      {ASTER_ML_ARGUMENT, [](aster_ml_tensor& t) { t.strides = nullptr; }},
      {ASTER_ML_SHAPE, [](aster_ml_tensor& t) { t.ndim = 0; }},
      {ASTER_ML_DTYPE, [](aster_ml_tensor& t) { t.dtype = ASTER_ML_DTYPE_INT32; }},
      {ASTER_ML_DEVICE, [](aster_ml_tensor& t) { t.storage.device = 0x7fff0000; }},
      {ASTER_ML_DEVICE, [](aster_ml_tensor& t) { t.storage.device = -5; }},
      {ASTER_ML_ARGUMENT,
       [](aster_ml_tensor& t) {
         t.storage.data = static_cast<char*>(t.storage.data) + 2;
         t.storage.bytes -= 2;
         t.storage.bytes += 2;
       }},
  };
  for (const auto& row : wrong) {
    EXPECT_EQ(run(row.change, same), row.status) << &row - wrong;
    EXPECT_EQ(run(same, row.change), row.status) << &row - wrong;
  }
  EXPECT_EQ(run([](aster_ml_tensor& t) { t.storage.data = nullptr; }, same), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(same, [](aster_ml_tensor& t) { t.byte_offset = 48; }), ASTER_ML_OK);

  aster_ml_tensor both[2] = {*second.get(), *second.get()};
  EXPECT_EQ(aster_ml_program_run(program.get(), nullptr, in.get(), 1, both, 2), ASTER_ML_ARGUMENT);
}

// A result that was realised before the capture, and whose handle is gone.
TEST(AliasingPrograms, StorageThatOnlyAProgramNames) {
  Session s;
  Tensor x({1.f, 2.f});
  Program program;
  {
    const Tensor before = (Tensor(noise(5000, 1), {5000}) * 2).realized();
    program = Program({x}, [&] { return std::vector{(x * 2).realized(), before}; });
    OK(program);
  }
  OK(aster_ml_engine_collect(s.get()));
  const Tensor other = (Tensor(noise(5000, 2), {5000}) * 7).realized();
  Array in(Floats{5, 6}, {2});
  aster_ml_tensor results[2] = {};
  OK(program.run(in.get(), 1, results, 2));
  const auto* kept = static_cast<const float*>(results[1].storage.data);
  const Floats values = noise(5000, 1);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(kept[i], values[i] * 2);
  for (aster_ml_tensor& result : results) OK(aster_ml_tensor_free(&result));
}

// Inputs that are read and written piece by piece; of what is no input, whatever lies where.
TEST(AliasingPrograms, PiecesOfInputsAndOfWhatIsNone) {
  Session s;
  const Floats values = noise(12, 4);
  const Tensor all(values, {12});
  Tensor x = all.shrink({0}, {6}).realized(), y(Floats(6, 0), {6});
  Program program({x, y}, [&] {
    EXPECT_OK(y.shrink({2}, {4}).assign(x.shrink({1}, {3}) * 2));
    EXPECT_OK(y.realize());
    // The same memory as x has, through a tensor of its own.
    return (x.shrink({0}, {3}) - all.shrink({0}, {3})).realized();
  });
  OK(program);
  const Tensor other({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}), target(Floats(6, 9), {6});
  const Floats result = read(program({other, target}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(result[i], static_cast<float>(i + 1) - values[i]);
  EXPECT_EQ(read(target), (Floats{9, 9, 4, 6, 9, 9}));
  EXPECT_EQ(read(y), (Floats{0, 0, values[1] * 2, values[2] * 2, 0, 0}));
}

TEST(AliasingPrograms, StepsOnOtherPiecesHit) {
  Session s;
  const Tensor x = data({32, 5}, 1), weights = data({5, 3}, 2);
  Tensor kept = Tensor::zeros({32, 3}).contiguous().realized();
  for (int64_t i = 0; i < 32; i += 4) {
    const Tensor y = x.shrink({i, 0}, {i + 4, 5}).matmul(weights).relu();
    OK(kept.shrink({i, 0}, {i + 4, 3}).assign(y));
    OK(kept.realize());
  }
  EXPECT_EQ(s.counters().schedule_misses, 2u);  // zeros are the other
  EXPECT_EQ(read(kept), read(x.matmul(weights).relu()));
}

}  // namespace
}  // namespace programs
