// Handles: realising, reading, assigning, scopes, random state; and bad input of every kind.
#include <array>
#include <functional>
#include <thread>

#include "aster_ml/engine.h"
#include "world.h"

namespace aster::tensor::test {
namespace {

using Floats = std::vector<float>;

class Handles : public ::testing::TestWithParam<bool> {
 protected:
  const World world{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Runtimes, Handles, ::testing::Values(true, false),
                         [](const auto& runtime) {
                           return runtime.param ? "interpreted" : "compiled";
                         });

TEST_P(Handles, ViewLendsADescriptor) {
  T x = from<float>(world, {1, 2, 3, 4, 5, 6}, {2, 3}), y;
  OK(aster_ml_lazy_transpose(y, x, 0, 1));
  aster_ml_tensor v{};
  OK(aster_ml_lazy_view(&v, y));
  ASSERT_EQ(v.ndim, 2u);
  EXPECT_EQ(v.shape[0], 3u);
  EXPECT_EQ(v.shape[1], 2u);
  EXPECT_EQ(v.strides[0], 2);
  EXPECT_EQ(v.strides[1], 1);
  EXPECT_EQ(v.dtype, ASTER_ML_DTYPE_FLOAT32);
  const float* data =
      reinterpret_cast<const float*>(static_cast<const char*>(v.storage.data) + v.byte_offset);
  EXPECT_EQ(Floats(data, data + 6), (Floats{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(aster_ml_lazy_is_realized(y), 1);
  T scalar;
  OK(aster_ml_lazy_sum(scalar, x, 0, nullptr, 0));
  EXPECT_EQ(aster_ml_lazy_is_realized(scalar), 0);
  EXPECT_EQ(aster_ml_lazy_is_stored(scalar), 0);
  EXPECT_EQ(aster_ml_lazy_is_stored(y), 1);
  T flat;
  OK(aster_ml_lazy_flatten(flat, y, 0, 1));
  EXPECT_EQ(aster_ml_lazy_is_realized(flat), 1);
  EXPECT_EQ(aster_ml_lazy_is_stored(flat), 1);
  OK(aster_ml_lazy_view(&v, scalar));
  EXPECT_EQ(v.ndim, 0u);
  EXPECT_EQ(v.shape, nullptr);
  double value = 0;
  OK(aster_ml_lazy_to_double(&value, scalar));
  EXPECT_EQ(value, 21);
}

TEST_P(Handles, MovementsOfNothingAreTheSame) {
  const int64_t kept[] = {2, 3}, whole[] = {0, 0}, order[] = {0, 1}, other[] = {3, 2};
  const T x = from<float>(world, {1, 2, 3, 4, 5, 6}, {2, 3});
  T pending;
  OK(aster_ml_lazy_exp(pending, x));
  for (const T* y : {&x, static_cast<const T*>(&pending)}) {
    T reshaped, permuted, shrunk, turned, copy;
    OK(aster_ml_lazy_reshape(reshaped, *y, 2, kept));
    EXPECT_EQ(aster_ml_lazy_is_same(reshaped, *y), 1);
    OK(aster_ml_lazy_permute(permuted, *y, 2, order));
    EXPECT_EQ(aster_ml_lazy_is_same(*y, permuted), 1);
    OK(aster_ml_lazy_shrink(shrunk, *y, 2, whole, kept));
    EXPECT_EQ(aster_ml_lazy_is_same(shrunk, *y), 1);
    OK(aster_ml_lazy_reshape(turned, *y, 2, other));
    EXPECT_EQ(aster_ml_lazy_is_same(turned, *y), 0);
    OK(aster_ml_lazy_copy(copy, *y));
    EXPECT_EQ(aster_ml_lazy_is_same(copy, *y), 1);
  }
  EXPECT_EQ(aster_ml_lazy_is_same(x, pending), 0);
  EXPECT_EQ(aster_ml_lazy_is_same(x, nullptr), 0);
  EXPECT_EQ(aster_ml_lazy_is_same(nullptr, nullptr), 0);
}

TEST_P(Handles, FromTensorSharesStorage) {
  const size_t shape[] = {4};
  const Floats data{1, 2, 3, 4};
  aster_ml_tensor t;
  OK(aster_ml_tensor_from_data(&t, world, data.data(), ASTER_ML_DTYPE_FLOAT32, 1, shape));
  T x, y;
  OK(aster_ml_lazy_from_tensor(x, world, &t));
  OK(aster_ml_lazy_mul(y, x, number(world, 2)));
  static_cast<float*>(t.storage.data)[1] = 20;
  EXPECT_EQ(y.floats(), (Floats{2, 40, 6, 8}));
  OK(aster_ml_tensor_free(&t));
  EXPECT_EQ(x.floats(), (Floats{1, 20, 3, 4}));  // the graph keeps the memory
}

TEST_P(Handles, AssignIsSeenByEveryHandle) {
  T x = from<float>(world, {1, 2, 3, 4}, {4}), plus, doubled, other;
  OK(aster_ml_lazy_copy(other, x));
  OK(aster_ml_lazy_add(plus, x, number(world, 1)));
  OK(aster_ml_lazy_mul(doubled, x, number(world, 2)));
  OK(aster_ml_lazy_assign(x, doubled));
  EXPECT_EQ(x.floats(), (Floats{2, 4, 6, 8}));
  EXPECT_EQ(other.floats(), (Floats{2, 4, 6, 8}));
  T none;
  OK(aster_ml_lazy_assign(x, number(world, 0.5)));  // broadcasts, yields
  EXPECT_EQ(x.floats(), (Floats{.5, .5, .5, .5}));
}

TEST_P(Handles, AssignThroughAView) {
  T x = from<float>(world, {1, 2, 3, 4}, {4}), tail, head;
  const int64_t one = 1, three = 3;
  OK(aster_ml_lazy_slice(tail, x, 1, &one, nullptr, nullptr));
  OK(aster_ml_lazy_slice(head, x, 1, nullptr, &three, nullptr));
  OK(aster_ml_lazy_assign(tail, head));  // x[1:] = x[:-1]
  EXPECT_EQ(x.floats(), (Floats{1, 1, 2, 3}));
}

TEST_P(Handles, CloneHasStorageOfItsOwn) {
  T x = from<float>(world, {1, 2}, {2}), y;
  OK(aster_ml_lazy_clone(y, x));
  OK(aster_ml_lazy_realize(std::array<aster_ml_lazy*, 1>{y}.data(), 1));
  OK(aster_ml_lazy_assign(x, number(world, 9)));
  EXPECT_EQ(x.floats(), (Floats{9, 9}));
  EXPECT_EQ(y.floats(), (Floats{1, 2}));
}

TEST_P(Handles, AnExpressionAssignedBecomesItsValue) {
  T zeros, x = from<float>(world, {1, 2}, {2});
  const int64_t two = 2;
  OK(aster_ml_lazy_zeros(zeros, world, 0, 1, &two));
  OK(aster_ml_lazy_assign(zeros, x));
  EXPECT_EQ(zeros.floats(), (Floats{1, 2}));
}

// A counter that is written by its own value, read by others in between, is written once.
TEST_P(Handles, AssignedOnceHoweverOftenItIsRead) {
  T x = from<float>(world, {1}, {1}), next, reader;
  OK(aster_ml_lazy_add(next, x, number(world, 1)));
  OK(aster_ml_lazy_assign(x, next));
  OK(aster_ml_lazy_mul(reader, x, number(world, 10)));
  EXPECT_EQ(reader.floats(), (Floats{20}));
  EXPECT_EQ(x.floats(), (Floats{2}));
}

TEST_P(Handles, ScopesFreeWhatIsNotKept) {
  aster_ml_scope scope;
  OK(aster_ml_scope_begin(&scope, world));
  aster_ml_lazy a{}, b{};
  OK(aster_ml_lazy_number(&a, world, 1));
  OK(aster_ml_lazy_number(&b, world, 2));
  OK(aster_ml_lazy_keep(&b));
  OK(aster_ml_scope_end(&scope));
  double value = 0;
  OK(aster_ml_lazy_to_double(&value, &b));
  EXPECT_EQ(value, 2);
  OK(aster_ml_lazy_free(&b));
  OK(aster_ml_lazy_free(&b));
}

TEST_P(Handles, RandomNumbersDoNotDependOnWhatIsRealisedFirst) {
  const int64_t three = 3;
  T a, b, c, d;
  OK(aster_ml_lazy_manual_seed(world, 7));
  OK(aster_ml_lazy_rand(a, world, 0, 1, &three));
  OK(aster_ml_lazy_rand(b, world, 0, 1, &three));
  const Floats second = b.floats(), first = a.floats();
  OK(aster_ml_lazy_manual_seed(world, 7));
  OK(aster_ml_lazy_rand(c, world, 0, 1, &three));
  EXPECT_EQ(c.floats(), first);
  OK(aster_ml_lazy_rand(d, world, 0, 1, &three));
  EXPECT_EQ(d.floats(), second);
  EXPECT_NE(first, second);
}

// A captured step draws on: replays give the numbers that building again would.
TEST_P(Handles, RandomNumbersGoOnInReplays) {
  const int64_t three = 3;
  std::vector<Floats> expected;
  OK(aster_ml_lazy_manual_seed(world, 7));
  for (int i = 0; i < 5; ++i) {
    T t, u;
    OK(aster_ml_lazy_rand(t, world, 0, 1, &three));
    OK(aster_ml_lazy_rand(u, world, 0, 1, &three));
    Floats both = t.floats();
    for (float v : u.floats()) both.push_back(v);
    expected.push_back(both);
  }
  OK(aster_ml_lazy_manual_seed(world, 7));
  {
    T t, u;  // the first two draws, outside the capture
    OK(aster_ml_lazy_rand(t, world, 0, 1, &three));
    OK(aster_ml_lazy_rand(u, world, 0, 1, &three));
  }
  aster_ml_program program{};
  {
    T t, u;
    OK(aster_ml_engine_capture_begin(world, nullptr, 0));
    OK(aster_ml_lazy_rand(t, world, 0, 1, &three));
    OK(aster_ml_lazy_rand(u, world, 0, 1, &three));
    aster_ml_lazy* const outputs[] = {t, u};
    OK(aster_ml_lazy_realize(outputs, 2));
    OK(aster_ml_engine_capture_end(&program, world, outputs, 2));
    Floats both = t.floats();
    for (float v : u.floats()) both.push_back(v);
    EXPECT_EQ(both, expected[1]);
  }
  for (int i = 2; i < 4; ++i) {
    Floats both(6);
    const size_t shape[] = {3};
    aster_ml_tensor outputs[2] = {};
    OK(aster_ml_tensor_init(&outputs[0], world, ASTER_ML_DTYPE_FLOAT32, 0, 1, shape));
    OK(aster_ml_tensor_init(&outputs[1], world, ASTER_ML_DTYPE_FLOAT32, 0, 1, shape));
    OK(aster_ml_program_run(&program, nullptr, nullptr, 0, outputs, 2));
    for (int k = 0; k < 2; ++k) std::memcpy(both.data() + 3 * k, outputs[k].storage.data, 12);
    EXPECT_EQ(both, expected[static_cast<size_t>(i)]) << i;
    OK(aster_ml_tensor_free(&outputs[0]));
    OK(aster_ml_tensor_free(&outputs[1]));
  }
  OK(aster_ml_program_free(&program));
  T t;
  OK(aster_ml_lazy_rand(t, world, 0, 1, &three));
  EXPECT_EQ(t.floats(), Floats(expected[4].begin(), expected[4].begin() + 3));
}

// ---- Bad input ----

// A call that fails with a code, leaving out empty and the inputs alone.
struct Bad {
  const char* name;
  int32_t code;
  std::function<int32_t(aster_ml_lazy*)> call;
};

void expect_bad(const std::vector<Bad>& cases) {
  for (const Bad& bad : cases) {
    aster_ml_error_clear();
    aster_ml_lazy out{};
    out.impl = &out;  // not to be looked at
    EXPECT_EQ(bad.call(&out), bad.code) << bad.name << ": " << message();
    EXPECT_EQ(out.impl, nullptr) << bad.name;
    aster_ml_error error;
    aster_ml_error_last(&error);
    EXPECT_EQ(error.code, bad.code) << bad.name;
    EXPECT_EQ(std::string(error.function).rfind("aster_ml_", 0), 0u)
        << bad.name << ": " << error.function;
    EXPECT_EQ(std::string(error.message).find('\n'), std::string::npos) << bad.name;
  }
}

class BadInput : public ::testing::Test {
 protected:
  const World world;
  const T x = from<float>(world, {1, 2, 3, 4, 5, 6}, {2, 3});
  const T y = from<float>(world, {1, 2}, {2});
  const T whole = from<int32_t>(world, {1, 2, 3}, {3});
  const Shape huge{INT64_MAX, INT64_MAX}, negative{2, -3}, twice{1, 1};
  const int64_t zero = 0, far = 9;
};

TEST_F(BadInput, ElementwiseAndMovement) {
  const Shape six{6}, five{5};
  aster_ml_scalar odd{};
  odd.dtype = 999;
  expect_bad(
      {{"null operand", ASTER_ML_ARGUMENT,
        [&](auto* o) { return aster_ml_lazy_add(o, x, nullptr); }},
       {"no broadcast", ASTER_ML_SHAPE, [&](auto* o) { return aster_ml_lazy_add(o, x, y); }},
       {"float bits", ASTER_ML_DTYPE, [&](auto* o) { return aster_ml_lazy_bitwise_and(o, x, x); }},
       {"float shift", ASTER_ML_DTYPE, [&](auto* o) { return aster_ml_lazy_shl(o, x, x); }},
       {"where on numbers", ASTER_ML_DTYPE,
        [&](auto* o) { return aster_ml_lazy_where(o, x, x, x); }},
       {"negative power of an integer", ASTER_ML_DTYPE,
        [&](auto* o) { return aster_ml_lazy_pow(o, whole, integer(world, -1)); }},
       {"clamp without bounds", ASTER_ML_ARGUMENT,
        [&](auto* o) { return aster_ml_lazy_clamp(o, x, nullptr, nullptr); }},
       {"unknown dtype", ASTER_ML_ARGUMENT, [&](auto* o) { return aster_ml_lazy_cast(o, x, 999); }},
       {"dtypes that do not convert", ASTER_ML_UNSUPPORTED,
        [&](auto* o) { return aster_ml_lazy_bitcast(o, x, ASTER_ML_DTYPE_FLT256); }},
       {"bitcast of half an element", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_bitcast(o, x, ASTER_ML_DTYPE_FLOAT64); }},
       {"reshape to another count", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_reshape(o, x, 1, five.data()); }},
       {"reshape to a negative", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_reshape(o, x, 2, negative.data()); }},
       {"reshape beyond memory", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_reshape(o, x, 2, huge.data()); }},
       {"reshape without a shape", ASTER_ML_ARGUMENT,
        [&](auto* o) { return aster_ml_lazy_reshape(o, x, 2, nullptr); }},
       {"expand to less", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_expand(o, x, 1, six.data()); }},
       {"expand to a negative", ASTER_ML_RANGE,
        [&](auto* o) {
          return aster_ml_lazy_expand(o, y, 2, Shape{-4, 2}.data());
        }},
       {"permute an axis twice", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_permute(o, x, 2, twice.data()); }},
       {"permute too few", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_permute(o, x, 1, &zero); }},
       {"transpose beyond", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_transpose(o, x, 0, 2); }},
       {"flip an axis twice", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_flip(o, x, 2, twice.data()); }},
       {"pad too few", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_pad(o, x, 1, &zero, &zero, nullptr); }},
       {"pad by too much", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_pad(o, x, 2, huge.data(), huge.data(), nullptr); }},
       {"pad that cuts more than there is", ASTER_ML_RANGE,
        [&](auto* o) {
          return aster_ml_lazy_pad(o, x, 2, Shape{-2, INT64_MIN}.data(), Shape{-2, 0}.data(),
                                   nullptr);
        }},
       {"pad with an unknown dtype", ASTER_ML_ARGUMENT,
        [&](auto* o) {
          return aster_ml_lazy_pad(o, x, 2, Shape{0, 0}.data(), Shape{0, 0}.data(), &odd);
        }},
       {"shrink beyond", ASTER_ML_RANGE,
        [&](auto* o) {
          return aster_ml_lazy_shrink(o, x, 2, Shape{0, 0}.data(), Shape{2, 4}.data());
        }},
       {"slice by 0", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_slice(o, x, 1, nullptr, nullptr, &zero); }},
       {"slice too many axes", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_slice(o, x, 3, nullptr, nullptr, nullptr); }},
       {"select beyond", ASTER_ML_RANGE, [&](auto* o) { return aster_ml_lazy_select(o, x, 0, 2); }},
       {"flatten backwards", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_flatten(o, x, 1, 0); }}});
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
}

TEST_F(BadInput, ReductionsAndComposites) {
  aster_ml_conv2d_options unset{}, groups{};
  groups.struct_size = sizeof(groups);
  groups.groups = -1;
  const aster_ml_lazy* const mixed[] = {x, y};
  expect_bad(
      {{"cat of nothing", ASTER_ML_ARGUMENT,
        [&](auto* o) { return aster_ml_lazy_cat(o, nullptr, 0, 0); }},
       {"cat of other ranks", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_cat(o, mixed, 2, 0); }},
       {"stack of other shapes", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_stack(o, mixed, 2, 0); }},
       {"one_hot of floats", ASTER_ML_DTYPE,
        [&](auto* o) { return aster_ml_lazy_one_hot(o, x, 3); }},
       {"one_hot of less than none", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_one_hot(o, whole, -1); }},
       {"sum over an axis twice", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_sum(o, x, 2, twice.data(), 0); }},
       {"sum over no such axis", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_sum(o, x, 1, &far, 0); }},
       {"argmax of nothing", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_argmax(o, from<float>(world, {}, {0}), 0, 0); }},
       {"matmul inner", ASTER_ML_SHAPE, [&](auto* o) { return aster_ml_lazy_matmul(o, x, x); }},
       {"matmul 0-d", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_matmul(o, x, number(world, 1)); }},
       {"conv2d ranks", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_conv2d(o, x, x, nullptr, nullptr); }},
       {"conv2d options unset", ASTER_ML_ARGUMENT,
        [&](auto* o) { return aster_ml_lazy_conv2d(o, x, x, nullptr, &unset); }},
       {"conv2d groups", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_conv2d(o, x, x, nullptr, &groups); }},
       {"pool beyond", ASTER_ML_SHAPE,
        [&](auto* o) {
          const aster_ml_pool2d_options p{sizeof(p), {5, 5}, {0, 0}, {0, 0}, {0, 0, 0, 0}, 0};
          return aster_ml_lazy_max_pool2d(o, x, &p);
        }},
       {"pool of an axis", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_avg_pool2d(o, y, nullptr); }},
       {"softmax axis", ASTER_ML_RANGE, [&](auto* o) { return aster_ml_lazy_softmax(o, x, 2); }},
       {"layer_norm axes", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_layer_norm(o, x, 3, nullptr, nullptr, 1e-5); }},
       {"layer_norm weight", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_layer_norm(o, x, 1, y, nullptr, 1e-5); }},
       {"batch_norm channels", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_batch_norm(o, x, y, y, y, y); }},
       {"labels of floats", ASTER_ML_DTYPE,
        [&](auto* o) { return aster_ml_lazy_cross_entropy(o, x, y, nullptr); }},
       {"labels of another shape", ASTER_ML_SHAPE,
        [&](auto* o) { return aster_ml_lazy_cross_entropy(o, x, whole, nullptr); }},
       {"smoothing", ASTER_ML_RANGE, [&](auto* o) {
          const aster_ml_cross_entropy_options c{sizeof(c), 0, 2, 0, 0};
          return aster_ml_lazy_cross_entropy(o, x, from<int32_t>(world, {0, 1}, {2}), &c);
        }}});
}

TEST_F(BadInput, Creation) {
  expect_bad(
      {{"from nothing", ASTER_ML_ARGUMENT,
        [&](auto* o) { return aster_ml_lazy_from(o, world, nullptr, 16, 1, &far); }},
       {"from weak", ASTER_ML_DTYPE,
        [&](auto* o) { return aster_ml_lazy_from(o, world, &far, 32, 0, nullptr); }},
       {"from a null context", ASTER_ML_ARGUMENT,
        [&](auto* o) { return aster_ml_lazy_number(o, nullptr, 1); }},
       {"zeros of a negative", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_zeros(o, world, 0, 2, negative.data()); }},
       {"zeros beyond memory", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_zeros(o, world, 0, 2, huge.data()); }},
       {"too many axes", ASTER_ML_UNSUPPORTED,
        [&](auto* o) { return aster_ml_lazy_zeros(o, world, 0, 300, Shape(300, 1).data()); }},
       {"arange by 0", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_arange(o, world, 0, 1, 0, 0); }},
       {"arange beyond its dtype", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_arange(o, world, 0, 300, 1, 3); }},
       {"arange of NaN", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_arange_float(o, world, 0, NAN, 1, 0); }},
       {"linspace of bool", ASTER_ML_DTYPE,
        [&](auto* o) { return aster_ml_lazy_linspace(o, world, 0, 1, 2, 1); }},
       {"linspace of less than none", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_linspace(o, world, 0, 1, -2, 0); }},
       {"eye of a negative", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_eye(o, world, -1, 1, 0); }},
       {"rand of integers", ASTER_ML_DTYPE,
        [&](auto* o) { return aster_ml_lazy_rand(o, world, 6, 0, nullptr); }},
       {"rand of a negative", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_rand(o, world, 0, 2, negative.data()); }},
       {"rand beyond memory", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_rand(o, world, 0, 2, huge.data()); }},
       {"uniform backwards", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_uniform(o, world, 1, 0, 0, 0, nullptr); }},
       {"randint of floats", ASTER_ML_DTYPE,
        [&](auto* o) { return aster_ml_lazy_randint(o, world, 0, 9, 16, 0, nullptr); }},
       {"normal of a negative width", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_normal(o, world, 0, -1, 0, 0, nullptr); }},
       {"bits of less than none", ASTER_ML_RANGE,
        [&](auto* o) { return aster_ml_lazy_random_bits(o, world, -1); }},
       {"tensor of null", ASTER_ML_ARGUMENT,
        [&](auto* o) { return aster_ml_lazy_from_tensor(o, world, nullptr); }}});
}

TEST(BadCalls, MessagesNameShapesAndDTypes) {
  const World world;
  const T x = from<float>(world, {1, 2, 3, 4, 5, 6}, {2, 3}), y = from<int32_t>(world, {1, 2}, {2});
  T out;
  EXPECT_EQ(aster_ml_lazy_add(out, x, y), ASTER_ML_SHAPE);
  EXPECT_EQ(message(), "aster_ml_lazy_add: float32[2, 3] and int32[2] do not broadcast");
  EXPECT_EQ(aster_ml_lazy_matmul(out, x, y), ASTER_ML_SHAPE);
  EXPECT_EQ(message(),
            "aster_ml_lazy_matmul: matmul of float32[2, 3] and int32[2]: "
            "rows of 3 meet columns of 2");
  const int64_t four[] = {4};
  EXPECT_EQ(aster_ml_lazy_reshape(out, x, 1, four), ASTER_ML_SHAPE);
  EXPECT_EQ(message(), "aster_ml_lazy_reshape: reshape of float32[2, 3] to [4]: 6 elements, not 4");
}

TEST(BadCalls, OutIsAnInput) {
  const World world;
  T x = from<float>(world, {1, 2}, {2}), y = from<float>(world, {1, 2}, {2});
  EXPECT_EQ(aster_ml_lazy_add(x, x, y), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_add(y, x, y), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_clamp(y, x, nullptr, y), ASTER_ML_ARGUMENT);
  const aster_ml_lazy* const list[] = {x, y};
  EXPECT_EQ(aster_ml_lazy_cat(y, list, 2, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_add(nullptr, x, y), ASTER_ML_ARGUMENT);
  EXPECT_EQ(y.floats(), (Floats{1, 2}));
  EXPECT_EQ(aster_ml_gradient(x, x, list, 1, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(x.floats(), (Floats{1, 2}));
}

TEST(BadCalls, EmptyHandlesCarryTheFirstFailure) {
  const World world;
  const T x = from<float>(world, {1, 2}, {2}), y = from<float>(world, {1, 2, 3}, {3});
  T wrong, next, last;
  const T nothing;
  aster_ml_error_clear();
  EXPECT_EQ(aster_ml_lazy_exp(next, nothing), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_add(wrong, x, y), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_exp(next, wrong), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_sum(last, next, 0, nullptr, 0), ASTER_ML_SHAPE);
  aster_ml_lazy* const roots[] = {last};
  EXPECT_EQ(aster_ml_lazy_realize(roots, 1), ASTER_ML_SHAPE);
  EXPECT_EQ(message(), "aster_ml_lazy_add: float32[2] and float32[3] do not broadcast");
  EXPECT_EQ(aster_ml_lazy_dtype(nothing), 0);
  EXPECT_EQ(aster_ml_lazy_ndim(nullptr), 0u);
  EXPECT_EQ(aster_ml_lazy_dim(nothing, 0), -1);
  EXPECT_EQ(aster_ml_lazy_dim(x, -1), 2);
  EXPECT_EQ(aster_ml_lazy_dim(x, 1), -1);
}

TEST(BadCalls, TwoContexts) {
  const World one, two;
  T x = from<float>(one, {1, 2}, {2}), y = from<float>(two, {1, 2}, {2}), out;
  EXPECT_EQ(aster_ml_lazy_add(out, x, y), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_assign(x, y), ASTER_ML_ARGUMENT);
  aster_ml_lazy* const both[] = {x, y};
  EXPECT_EQ(aster_ml_lazy_realize(both, 2), ASTER_ML_ARGUMENT);
}

TEST(BadCalls, ReadingAndAssigning) {
  const World world;
  T x = from<float>(world, {1, 2}, {2}), whole = from<int32_t>(world, {1, 2}, {2}), wide, weak;
  float one = 0;
  EXPECT_EQ(aster_ml_lazy_copy_out(&one, sizeof(one), x), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lazy_copy_out(nullptr, 8, x), ASTER_ML_ARGUMENT);
  double value;
  EXPECT_EQ(aster_ml_lazy_to_double(&value, x), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_to_double(nullptr, x), ASTER_ML_ARGUMENT);
  int64_t dims[3];
  EXPECT_EQ(aster_ml_lazy_shape(dims, 3, x), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lazy_view(nullptr, x), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_assign(x, whole), ASTER_ML_DTYPE);
  OK(aster_ml_lazy_expand(wide, x, 2, Shape{3, 2}.data()));
  EXPECT_EQ(aster_ml_lazy_assign(x, wide), ASTER_ML_SHAPE);
  EXPECT_EQ(x.floats(), (Floats{1, 2}));
  EXPECT_EQ(aster_ml_lazy_realize(nullptr, 2), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lazy_realize(nullptr, 0), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_lazy_manual_seed(nullptr, 1), ASTER_ML_ARGUMENT);
}

TEST(BadCalls, ReadingInsideACapture) {
  const World world;
  T x = from<float>(world, {1, 2}, {2}), y;
  OK(aster_ml_engine_capture_begin(world, nullptr, 0));
  OK(aster_ml_lazy_exp(y, x));
  aster_ml_tensor view{};
  EXPECT_EQ(aster_ml_lazy_view(&view, y), ASTER_ML_STATE);
  OK(aster_ml_engine_capture_cancel(world));
}

TEST(BadCalls, Gradients) {
  const World world;
  const T x = from<float>(world, {1, 2}, {2}), whole = from<int32_t>(world, {1, 2}, {2});
  T loss, wide;
  OK(aster_ml_lazy_sum(loss, x, 0, nullptr, 0));
  const aster_ml_lazy* const targets[] = {x};
  const aster_ml_lazy* const integers[] = {whole};
  const aster_ml_lazy* const none[] = {nullptr};
  expect_bad({
      {"vector loss", ASTER_ML_SHAPE,
       [&](auto* o) { return aster_ml_gradient(o, x, targets, 1, nullptr); }},
      {"integer target", ASTER_ML_DTYPE,
       [&](auto* o) { return aster_ml_gradient(o, loss, integers, 1, nullptr); }},
      {"integer loss", ASTER_ML_DTYPE,
       [&](auto* o) { return aster_ml_gradient(o, whole, targets, 1, nullptr); }},
      {"null target", ASTER_ML_ARGUMENT,
       [&](auto* o) { return aster_ml_gradient(o, loss, none, 1, nullptr); }},
      {"null loss", ASTER_ML_ARGUMENT,
       [&](auto* o) { return aster_ml_gradient(o, nullptr, targets, 1, nullptr); }},
      {"seed of another shape", ASTER_ML_SHAPE,
       [&](auto* o) {
         const aster_ml_gradient_options options{sizeof(options), 0, x, 0};
         return aster_ml_gradient(o, loss, targets, 1, &options);
       }},
      {"no path", ASTER_ML_ARGUMENT,
       [&](auto* o) {
         const T other = from<float>(world, {1}, {1});
         const aster_ml_lazy* const list[] = {other};
         const aster_ml_gradient_options options{sizeof(options), 1, nullptr, 0};
         return aster_ml_gradient(o, loss, list, 1, &options);
       }},
  });
}

// d sum(x z) by x, y and z: what the loss does not depend on gets no handle, the others theirs.
TEST(Gradients, EmptyWithoutPath) {
  const World world;
  const T x = from<float>(world, {1, 2}, {2}), y = from<float>(world, {3, 4}, {2});
  const T z = from<float>(world, {5, 6}, {2});
  T product, loss;
  OK(aster_ml_lazy_mul(product, x, z));
  OK(aster_ml_lazy_sum(loss, product, 0, nullptr, 0));
  const aster_ml_lazy* const targets[] = {x, y, z, y};
  const aster_ml_gradient_options options{sizeof(options), 0, nullptr, 1};
  aster_ml_lazy out[4];
  OK(aster_ml_gradient(out, loss, targets, 4, &options));
  EXPECT_EQ(out[1].impl, nullptr);
  EXPECT_EQ(out[3].impl, nullptr);
  float values[2];
  OK(aster_ml_lazy_copy_out(values, sizeof values, &out[0]));
  EXPECT_EQ(values[0], 5);
  OK(aster_ml_lazy_copy_out(values, sizeof values, &out[2]));
  EXPECT_EQ(values[1], 2);
  for (aster_ml_lazy& gradient : out) OK(aster_ml_lazy_free(&gradient));
}

TEST(BadCalls, ASecondThread) {
  const World world;
  const T x = from<float>(world, {1, 2}, {2});
  // Another thread may use the context while nobody is inside.
  int32_t status = -1;
  std::thread([&] {
    T y;
    status = aster_ml_lazy_exp(y, x);
  }).join();
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace aster::tensor::test
