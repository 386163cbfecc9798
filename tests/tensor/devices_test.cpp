// What reads tables or draws of the library's own, or has no elements, with operands on the
// reference device.
#include <pthread.h>

#include "aster_ml/buffer.h"
#include "aster_ml/device.h"
#include "aster_ml/engine.h"
#include "aster_ml/gradient.h"
#include "aster_ml/linalg.h"
#include "aster_ml/random.h"
#include "world.h"

namespace aster::tensor::test {
namespace {

// The values in memory of the reference device.
template <typename V>
T away(const World& world, const std::vector<V>& values, const Shape& shape) {
  T x;
  aster_ml_tensor tensor;
  const std::vector<size_t> dims(shape.begin(), shape.end());
  EXPECT_EQ(aster_ml_tensor_init(&tensor, world, kDTypeOf<V>, ASTER_ML_DEVICE_REFERENCE,
                                 dims.size(), dims.data()),
            0)
      << message();
  if (!values.empty()) std::memcpy(tensor.storage.data, values.data(), values.size() * sizeof(V));
  EXPECT_EQ(aster_ml_lazy_from_tensor(x, world, &tensor), 0) << message();
  aster_ml_tensor_free(&tensor);
  return x;
}

int32_t device_of(const aster_ml_lazy* x) {
  int32_t device = 0;
  EXPECT_EQ(aster_ml_lazy_device(&device, x), 0) << message();
  return device;
}

// Computed there, and equal to what the CPU computes of the same elements.
void expect_there(T& got, T& wanted) {
  const std::vector<float> want = wanted.floats(), have = got.floats();
  ASSERT_EQ(have.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-5) << i;
  EXPECT_EQ(device_of(got), ASTER_ML_DEVICE_REFERENCE);
}

TEST(Devices, Dropout) {
  const World world, twin;
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};
  T here, there;
  OK(aster_ml_lazy_dropout(here, from(world, values, {8}), 0.5, 1));
  OK(aster_ml_lazy_dropout(there, away(twin, values, {8}), 0.5, 1));
  expect_there(there, here);
}

TEST(Devices, Multinomial) {
  const World world, twin;
  const std::vector<float> values{1, 2, 3, 4};
  T here, there, here_float, there_float;
  OK(aster_ml_lazy_multinomial(here, from(world, values, {4}), 16, 1));
  OK(aster_ml_lazy_multinomial(there, away(twin, values, {4}), 16, 1));
  OK(aster_ml_lazy_cast(here_float, here, ASTER_ML_DTYPE_FLOAT32));
  OK(aster_ml_lazy_cast(there_float, there, ASTER_ML_DTYPE_FLOAT32));
  expect_there(there_float, here_float);
}

TEST(Devices, Decompositions) {
  const World world;
  const std::vector<float> values{4, 1, 2, 3, -1, 5};
  for (const bool singular : {false, true}) {
    T here[3], there[3];
    const T x = from(world, values, {3, 2}), y = away(world, values, {3, 2});
    if (singular) {
      OK(aster_ml_lazy_svd(here[0], here[1], here[2], x, 1));
      OK(aster_ml_lazy_svd(there[0], there[1], there[2], y, 1));
    } else {
      OK(aster_ml_lazy_qr(here[0], here[1], x));
      OK(aster_ml_lazy_qr(there[0], there[1], y));
    }
    for (size_t i = 0; i < (singular ? 3u : 2u); ++i) expect_there(there[i], here[i]);
  }
}

TEST(Devices, Keccak) {
  const World world;
  const std::vector<uint8_t> bytes{1, 2, 3, 4, 5};
  T here, there;
  OK(aster_ml_lazy_keccak(here, from(world, bytes, {5}), "sha3_256"));
  OK(aster_ml_lazy_keccak(there, away(world, bytes, {5}), "sha3_256"));
  EXPECT_EQ(there.read<uint8_t>(), here.read<uint8_t>());
  EXPECT_EQ(device_of(there), ASTER_ML_DEVICE_REFERENCE);
}

// Nothing is read of what has no elements, wherever it is.
TEST(Devices, EmptyOperandsGoAnywhere) {
  const World world;
  for (const bool first : {false, true}) {
    const T none = from(world, std::vector<float>{}, {0, 2});
    const T some = away(world, std::vector<float>{1, 2, 3, 4}, {2, 2});
    const aster_ml_lazy* const parts[] = {first ? none : some, first ? some : none};
    T joined, sum, both;
    OK(aster_ml_lazy_cat(joined, parts, 2, 0));
    EXPECT_EQ(joined.floats(), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(device_of(joined), ASTER_ML_DEVICE_REFERENCE);
    OK(aster_ml_lazy_sum(sum, none, 0, nullptr, 0));
    OK(aster_ml_lazy_add(both, first ? sum : some, first ? some : sum));
    EXPECT_EQ(both.floats(), (std::vector<float>{1, 2, 3, 4}));
  }
}

// ---- Operands on two devices

uint64_t copied_bytes(const World& world) {
  aster_ml_engine_counters counters{};
  counters.struct_size = sizeof(counters);
  EXPECT_EQ(aster_ml_engine_count(&counters, world), 0) << message();
  return counters.copied_bytes;
}

TEST(Devices, TheFirstOperandSaysWhere) {
  const World world;
  const std::vector<float> ones{1, 2, 3}, tens{10, 20, 30};
  for (const bool swapped : {false, true}) {
    T sum, tripled, third;
    const T here = from(world, ones, {3}), there = away(world, tens, {3});
    const aster_ml_lazy *a = swapped ? there : here, *b = swapped ? here : there;
    OK(aster_ml_lazy_add(sum, a, b));
    OK(aster_ml_lazy_add(third, sum, sum));
    OK(aster_ml_lazy_add(tripled, third, sum));
    EXPECT_EQ(copied_bytes(world), swapped ? 12u : 0u);
    EXPECT_EQ(tripled.floats(), (std::vector<float>{33, 66, 99}));
    EXPECT_EQ(device_of(tripled), swapped ? ASTER_ML_DEVICE_REFERENCE : ASTER_ML_DEVICE_CPU);
    EXPECT_EQ(copied_bytes(world), swapped ? 24u : 12u);
  }
}

// Of a large operand only the piece that is read is copied.
TEST(Devices, PiecesAreCopiedAlone) {
  const World world;
  std::vector<float> many(1000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i);
  const T x = away(world, many, {100, 10}), y = from(world, std::vector<float>{1, 2}, {2, 1});
  const int64_t begin[] = {7, 0}, end[] = {9, 10}, axes[] = {1, 0};
  T rows, sum, turned, wide, nothing;
  OK(aster_ml_lazy_shrink(rows, x, 2, begin, end));
  OK(aster_ml_lazy_mul(wide, y, rows));
  EXPECT_EQ(wide.floats()[19], 2 * 89);
  EXPECT_EQ(copied_bytes(world), 80u);
  OK(aster_ml_lazy_permute(turned, rows, 2, axes));
  OK(aster_ml_lazy_matmul(sum, y, from(world, std::vector<float>{1}, {1, 1})));
  OK(aster_ml_lazy_matmul(nothing, turned, sum));
  EXPECT_EQ(nothing.floats()[0], 70 + 2 * 80);
}

TEST(Devices, AssignmentsGoWhereTheTargetIs) {
  const World world;
  T x = from(world, std::vector<float>{1, 2, 3}, {3});
  T y = away(world, std::vector<float>{10, 20, 30}, {3});
  T mine, theirs, both;
  OK(aster_ml_lazy_assign(x, y));
  OK(aster_ml_lazy_add(mine, x, number(world, 1)));
  // A write on either device that waits, read on one.
  OK(aster_ml_lazy_assign(y, mine));
  OK(aster_ml_lazy_add(both, x, y));
  EXPECT_EQ(both.floats(), (std::vector<float>{21, 41, 61}));
  EXPECT_EQ(device_of(both), ASTER_ML_DEVICE_CPU);
  T left, right;
  OK(aster_ml_lazy_add(left, x, number(world, 0)));
  OK(aster_ml_lazy_add(right, y, number(world, 0)));
  EXPECT_EQ(left.floats(), (std::vector<float>{10, 20, 30}));
  EXPECT_EQ(right.floats(), (std::vector<float>{11, 21, 31}));
  EXPECT_EQ(device_of(right), ASTER_ML_DEVICE_REFERENCE);
}

TEST(Devices, PolicyRefusesOperandsOnTwo) {
  const World world;
  T sum;
  T x = from(world, std::vector<float>{1, 2, 3}, {3});
  const T y = away(world, std::vector<float>{1, 2, 3}, {3});
  OK(aster_ml_lazy_add(sum, x, y));
  OK(aster_ml_context_set_copies(world, ASTER_ML_COPIES_REFUSE));
  float values[3] = {};
  EXPECT_EQ(aster_ml_lazy_copy_out(values, sizeof(values), sum), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(message(),
            "aster_ml_lazy_copy_out: it would copy 12 bytes, which the context refuses: an operand "
            "lies on REFERENCE, the first one on CPU");
  OK(aster_ml_lazy_assign(x, y));
  EXPECT_EQ(aster_ml_lazy_copy_out(values, sizeof(values), x), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(copied_bytes(world), 0u);
  OK(aster_ml_context_set_copies(world, ASTER_ML_COPIES_ALLOW));
  EXPECT_EQ(sum.floats(), (std::vector<float>{2, 4, 6}));
}

// Replays would not copy again, so a capture says what to do.
TEST(Devices, CapturesWantOneDevice) {
  const World world;
  T sum, moved, again;
  T x = from(world, std::vector<float>{1}, {1}), y = away(world, std::vector<float>{2}, {1});
  aster_ml_lazy* const inputs[] = {x};
  OK(aster_ml_engine_capture_begin(world, inputs, 1));
  OK(aster_ml_lazy_add(sum, x, y));
  aster_ml_lazy* const wanted[] = {sum};
  EXPECT_EQ(aster_ml_lazy_realize(wanted, 1), ASTER_ML_DEVICE);
  EXPECT_NE(message().find("aster_ml_lazy_to"), std::string::npos) << message();
  OK(aster_ml_lazy_to(moved, y, ASTER_ML_DEVICE_CPU));
  OK(aster_ml_lazy_add(again, x, moved));
  aster_ml_program program{};
  aster_ml_lazy* const outputs[] = {again};
  OK(aster_ml_engine_capture_end(&program, world, outputs, 1));
  aster_ml_program_free(&program);
}

TEST(Devices, EagerCallsTakeOperandsOnTwo) {
  const World world;
  const size_t shape[] = {2};
  const float values[] = {3, 4};
  aster_ml_tensor here{}, there{}, sum{}, twin{};
  OK(aster_ml_tensor_from_data(&here, world, values, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  OK(aster_ml_tensor_init(&there, world, ASTER_ML_DTYPE_FLOAT32, ASTER_ML_DEVICE_REFERENCE, 1,
                          shape));
  OK(aster_ml_tensor_copy_in(&there, values, 2));
  OK(aster_ml_tensor_add(&sum, world, &there, &here));
  EXPECT_EQ(sum.device, ASTER_ML_DEVICE_REFERENCE);
  EXPECT_EQ(static_cast<float*>(sum.storage.data)[1], 8);
  EXPECT_EQ(copied_bytes(world), 8u);
  OK(aster_ml_tensor_cast(&twin, world, &there, ASTER_ML_DTYPE_FLOAT32));
  EXPECT_EQ(twin.device, ASTER_ML_DEVICE_REFERENCE);
  EXPECT_EQ(copied_bytes(world), 8u);
  for (aster_ml_tensor* t : {&here, &there, &sum, &twin}) OK(aster_ml_tensor_free(t));
}

// ---- Moving, and the default device

TEST(Devices, MovesWhenRealised) {
  const World world;
  T doubled, there, more, back;
  const T x = from(world, std::vector<float>{1, 2, 3}, {3});
  OK(aster_ml_lazy_add(doubled, x, x));
  OK(aster_ml_lazy_to(there, doubled, ASTER_ML_DEVICE_REFERENCE));
  EXPECT_EQ(device_of(there), ASTER_ML_DEVICE_REFERENCE);
  EXPECT_EQ(aster_ml_lazy_is_realized(there), 0);
  OK(aster_ml_lazy_add(more, there, away(world, std::vector<float>{1, 1, 1}, {3})));
  OK(aster_ml_lazy_to(back, more, ASTER_ML_DEVICE_CPU + 1));
  EXPECT_EQ(back.floats(), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(device_of(back), ASTER_ML_DEVICE_CPU + 1);
  EXPECT_EQ(device_of(x), ASTER_ML_DEVICE_CPU);
}

// Each move is a step of a loop: the stack of this thread holds no frame for every one.
TEST(Devices, ManyMoves) {
  constexpr size_t kStack = 256 << 10;
  constexpr int kMoves = 600;
  float value = 0;
  const auto move = [](float* out) {
    const World world;
    T x = from(world, std::vector<float>{1}, {1});
    for (int i = 0; i < kMoves; ++i) {
      T moved, more;
      OK(aster_ml_lazy_to(moved, x, ASTER_ML_DEVICE_CPU + (i + 1) % 2));
      OK(aster_ml_lazy_add(more, moved, moved));
      OK(aster_ml_lazy_sub(x, more, moved));
    }
    *out = x.floats()[0];
  };
  const auto work = [](void* out) -> void* {
    decltype(move){}(static_cast<float*>(out));
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStack), 0);
  ASSERT_EQ(pthread_create(&thread, &attributes, work, &value), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(value, 1);
}

TEST(Devices, GradientComesBack) {
  const World world;
  const T x = from(world, std::vector<float>{1, 2, 3}, {3});
  T there, squares, loss, slope;
  OK(aster_ml_lazy_to(there, x, ASTER_ML_DEVICE_REFERENCE));
  OK(aster_ml_lazy_mul(squares, there, there));
  OK(aster_ml_lazy_sum(loss, squares, 0, nullptr, 0));
  const aster_ml_lazy* const targets[] = {x};
  OK(aster_ml_gradient(slope, loss, targets, 1, nullptr));
  EXPECT_EQ(device_of(slope), ASTER_ML_DEVICE_CPU);
  EXPECT_EQ(slope.floats(), (std::vector<float>{2, 4, 6}));
}

TEST(Devices, DefaultDevice) {
  const World world;
  int32_t device = 0;
  OK(aster_ml_engine_device(&device, world));
  EXPECT_EQ(device, ASTER_ML_DEVICE_CPU);
  OK(aster_ml_engine_set_device(world, ASTER_ML_DEVICE_REFERENCE));
  OK(aster_ml_engine_device(&device, world));
  EXPECT_EQ(device, ASTER_ML_DEVICE_REFERENCE);
  const int64_t shape[] = {3};
  T steps, ones, given;
  OK(aster_ml_lazy_arange(steps, world, 0, 3, 1, ASTER_ML_DTYPE_FLOAT32));
  OK(aster_ml_lazy_ones(ones, world, ASTER_ML_DTYPE_FLOAT32, 1, shape));
  given = from(world, std::vector<float>{5, 6, 7}, {3});
  EXPECT_EQ(steps.floats(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(ones.floats(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(given.floats(), (std::vector<float>{5, 6, 7}));
  for (const T* x : {&steps, &ones, &given}) EXPECT_EQ(device_of(*x), ASTER_ML_DEVICE_REFERENCE);
  const int32_t none[] = {-1, 63 * 65536, ASTER_ML_DEVICE_DISK, ASTER_ML_DEVICE_CUDA};
  for (const int32_t bad : none) {
    EXPECT_NE(aster_ml_engine_set_device(world, bad), 0) << bad;
    T moved;
    EXPECT_NE(aster_ml_lazy_to(moved, given, bad), 0) << bad;
  }
  EXPECT_EQ(aster_ml_engine_set_device(world, ASTER_ML_DEVICE_CUDA), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(message(), "aster_ml_engine_set_device: no backend named CUDA is registered");
  EXPECT_EQ(aster_ml_engine_device(nullptr, world), ASTER_ML_ARGUMENT);
  OK(aster_ml_engine_device(&device, world));
  EXPECT_EQ(device, ASTER_ML_DEVICE_REFERENCE);
}

}  // namespace
}  // namespace aster::tensor::test
