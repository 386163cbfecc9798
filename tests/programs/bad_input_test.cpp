// What each operation refuses and what its message says.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "refusal.h"

namespace programs {
namespace {

constexpr int32_t kFloat = ASTER_ML_DTYPE_FLOAT32;

class Refusals : public RefusalTest {
 protected:
  Tensor shaped(const Shape& shape) { return data(shape); }
  Tensor ints(const Shape& shape) {
    int64_t count = 1;
    for (int64_t dim : shape) count *= dim;
    return Tensor(std::vector<int32_t>(static_cast<size_t>(count), 1), shape);
  }
};

TEST_F(Refusals, ShapesThatDoNotFit) {
  Tensor a = shaped({2, 3}), b = shaped({4, 5}), v = shaped({3}), image = shaped({1, 2, 4, 4});
  const int64_t six[] = {7}, negative[] = {-2, 3}, two_unknown[] = {-1, -1}, wide[] = {2, 4};
  const int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40};
  REFUSED(SHAPE, aster_ml_lazy_add, ({"float32[2, 3]", "float32[4, 5]"}), a.get(), b.get());
  REFUSED(SHAPE, aster_ml_lazy_matmul, ({"float32[2, 3]", "float32[4, 5]"}), a.get(), b.get());
  REFUSED(SHAPE, aster_ml_lazy_reshape, ({"float32[2, 3]", "[7]"}), a.get(), size_t{1}, six);
  REFUSED(RANGE, aster_ml_lazy_reshape, ({"float32[2, 3]", "-2"}), a.get(), size_t{2}, negative);
  REFUSED(RANGE, aster_ml_lazy_reshape, ({"float32[2, 3]"}), a.get(), size_t{2}, two_unknown);
  REFUSED(RANGE, aster_ml_lazy_reshape, ({"float32[2, 3]"}), a.get(), size_t{2}, huge);
  REFUSED(SHAPE, aster_ml_lazy_expand, ({"float32[2, 3]", "[2, 4]"}), a.get(), size_t{2}, wide);
  const int64_t axes[] = {0, 0}, far_axis[] = {5}, one[] = {1};
  REFUSED(SHAPE, aster_ml_lazy_permute, ({"float32[2, 3]"}), a.get(), size_t{1}, one);
  REFUSED(RANGE, aster_ml_lazy_permute, ({""}), a.get(), size_t{2}, axes);
  REFUSED(RANGE, aster_ml_lazy_sum, ({"5"}), a.get(), size_t{1}, far_axis, 0);
  REFUSED(RANGE, aster_ml_lazy_sum, ({"twice"}), a.get(), size_t{2}, axes, 0);
  REFUSED(RANGE, aster_ml_lazy_softmax, ({"2"}), a.get(), int64_t{2});
  const int64_t zero[] = {0}, back[] = {-1, 0}, ahead[] = {2, 9};
  REFUSED(RANGE, aster_ml_lazy_slice, ({"float32[2, 3]", "step 0"}), a.get(), size_t{1}, nullptr,
          nullptr, zero);
  REFUSED(RANGE, aster_ml_lazy_shrink, ({"float32[2, 3]"}), a.get(), size_t{2}, back, ahead);
  REFUSED(SHAPE, aster_ml_lazy_pad, ({"float32[2, 3]"}), a.get(), size_t{1}, one, one, nullptr);
  const int64_t too_far[] = {std::numeric_limits<int64_t>::max(), 0};
  REFUSED(RANGE, aster_ml_lazy_pad, ({"float32[2, 3]"}), a.get(), size_t{2}, too_far, too_far,
          nullptr);
  REFUSED(RANGE, aster_ml_lazy_select, ({"9", "float32[2, 3]"}), a.get(), int64_t{0}, int64_t{9});
  REFUSED(RANGE, aster_ml_lazy_flatten, ({"float32[2, 3]"}), a.get(), int64_t{1}, int64_t{0});
  const aster_ml_lazy* mixed[] = {a.get(), b.get()};
  REFUSED(SHAPE, aster_ml_lazy_cat, ({"float32[2, 3]", "float32[4, 5]"}), mixed, size_t{2},
          int64_t{0});
  REFUSED(SHAPE, aster_ml_lazy_stack, ({"float32[2, 3]", "float32[4, 5]"}), mixed, size_t{2},
          int64_t{0});
  REFUSED(ARGUMENT, aster_ml_lazy_cat, ({""}), mixed, size_t{0}, int64_t{0});
  Tensor filter = shaped({2, 3, 3, 3}), large = shaped({2, 2, 9, 9});
  REFUSED(SHAPE, aster_ml_lazy_conv2d, ({"float32[1, 2, 4, 4]", "float32[2, 3, 3, 3]"}),
          image.get(), filter.get(), nullptr, nullptr);
  REFUSED(SHAPE, aster_ml_lazy_conv2d, ({"float32[1, 2, 4, 4]"}), image.get(), large.get(), nullptr,
          nullptr);
  REFUSED(SHAPE, aster_ml_lazy_max_pool2d, ({"float32[3]"}), v.get(), nullptr);
  REFUSED(SHAPE, aster_ml_lazy_layer_norm, ({"float32[2, 3]"}), a.get(), size_t{2}, v.get(),
          v.get(), 1e-5);
  REFUSED(SHAPE, aster_ml_lazy_batch_norm, ({"float32[2, 3]"}), a.get(), b.get(), v.get(), v.get(),
          v.get());
  Tensor empty = shaped({0, 3});
  REFUSED(RANGE, aster_ml_lazy_argmax, ({"float32[0, 3]"}), empty.get(), int64_t{0}, 0);
}

TEST_F(Refusals, DtypesThatDoNotFit) {
  Tensor a = shaped({2, 3}), n = ints({2}), two = ints({2, 3});
  REFUSED(DTYPE, aster_ml_lazy_bitwise_and, ({"float32[2, 3]"}), a.get(), a.get());
  REFUSED(DTYPE, aster_ml_lazy_bitwise_not, ({"float32[2, 3]"}), a.get());
  REFUSED(DTYPE, aster_ml_lazy_shl, ({"float32[2, 3]"}), a.get(), a.get());
  REFUSED(DTYPE, aster_ml_lazy_where, ({"int32[2, 3]"}), two.get(), a.get(), a.get());
  REFUSED(DTYPE, aster_ml_lazy_one_hot, ({"float32[2, 3]"}), a.get(), int64_t{4});
  REFUSED(SHAPE, aster_ml_lazy_bitcast, ({"float32[2, 3]"}), a.get(), ASTER_ML_DTYPE_FLOAT64);
  REFUSED(DTYPE, aster_ml_lazy_cross_entropy, ({"float32[2, 3]"}), a.get(), a.get(), nullptr);
  REFUSED(SHAPE, aster_ml_lazy_cross_entropy, ({"float32[2, 3]", "int32[2, 3]"}), a.get(),
          two.get(), nullptr);
  for (const int32_t unknown : {-1, 18, 64, 96, 1000}) {
    REFUSED(ARGUMENT, aster_ml_lazy_cast, ({std::to_string(unknown)}), a.get(), unknown);
  }
  REFUSED(UNSUPPORTED, aster_ml_lazy_bitcast, ({"flt256"}), a.get(), ASTER_ML_DTYPE_FLT256);
  const aster_ml_lazy* targets[] = {n.get()};
  expect(aster_ml_gradient(&out, a.get(), targets, 1, nullptr), ASTER_ML_DTYPE, "aster_ml_gradient",
         {"int32[2]"});
  expect(aster_ml_lazy_assign(a.get(), two.get()), ASTER_ML_DTYPE, "aster_ml_lazy_assign",
         {"int32[2, 3]", "float32[2, 3]"});
  Tensor wide = shaped({4, 2, 3});
  expect(aster_ml_lazy_assign(a.get(), wide.get()), ASTER_ML_SHAPE, "aster_ml_lazy_assign",
         {"float32[4, 2, 3]"});
  EXPECT_EQ(read(a), noise(6, 1)) << "a refused assign changed its target";
}

TEST_F(Refusals, Creation) {
  const float values[] = {1, 2};
  const int64_t negative[] = {-1}, huge[] = {INT64_C(1) << 40, INT64_C(1) << 40}, two[] = {2};
  aster_ml_scalar one{};
  OK(aster_ml_scalar_from_double(&one, kFloat, 1));
  REFUSED(RANGE, aster_ml_lazy_from, ({"-1"}), s.get(), values, kFloat, size_t{1}, negative);
  REFUSED(RANGE, aster_ml_lazy_from, ({""}), s.get(), values, kFloat, size_t{2}, huge);
  REFUSED(DTYPE, aster_ml_lazy_from, ({"weak"}), s.get(), values, ASTER_ML_DTYPE_WEAKFLOAT,
          size_t{1}, two);
  REFUSED(ARGUMENT, aster_ml_lazy_from, ({"1000"}), s.get(), values, 1000, size_t{1}, two);
  REFUSED(RANGE, aster_ml_lazy_full, ({"-1"}), s.get(), &one, 0, size_t{1}, negative);
  REFUSED(RANGE, aster_ml_lazy_zeros, ({""}), s.get(), 0, size_t{2}, huge);
  // No elements, and strides that overflow.
  const int64_t none[] = {huge[0], 0, huge[1]}, large[] = {0, huge[0]};
  REFUSED(RANGE, aster_ml_lazy_zeros, ({"1099511627776"}), s.get(), 0, size_t{3}, none);
  REFUSED(RANGE, aster_ml_lazy_from, ({"1099511627776"}), s.get(), values, kFloat, size_t{3}, none);
  REFUSED(RANGE, aster_ml_lazy_rand, ({"1099511627776"}), s.get(), 0, size_t{3}, none);
  aster_ml_lazy empty{};
  OK(aster_ml_lazy_empty(&empty, s.get(), 0, size_t{2}, large));
  REFUSED(RANGE, aster_ml_lazy_reshape, ({"1099511627776"}), &empty, size_t{3}, none);
  OK(aster_ml_lazy_free(&empty));
  REFUSED(RANGE, aster_ml_lazy_empty, ({"-1"}), s.get(), 0, size_t{1}, negative);
  REFUSED(RANGE, aster_ml_lazy_rand, ({"-1"}), s.get(), 0, size_t{1}, negative);
  REFUSED(DTYPE, aster_ml_lazy_rand, ({"int32"}), s.get(), ASTER_ML_DTYPE_INT32, size_t{1}, two);
  REFUSED(DTYPE, aster_ml_lazy_randint, ({"float32"}), s.get(), int64_t{0}, int64_t{9}, kFloat,
          size_t{1}, two);
  REFUSED(RANGE, aster_ml_lazy_uniform, ({""}), s.get(), 1.0, 0.0, 0, size_t{1}, two);
  REFUSED(RANGE, aster_ml_lazy_normal, ({""}), s.get(), 0.0, -1.0, 0, size_t{1}, two);
  REFUSED(RANGE, aster_ml_lazy_arange, ({""}), s.get(), int64_t{0}, int64_t{9}, int64_t{0}, 0);
  REFUSED(RANGE, aster_ml_lazy_arange, ({""}), s.get(), int64_t{0}, int64_t{300}, int64_t{1},
          ASTER_ML_DTYPE_INT8);
  REFUSED(RANGE, aster_ml_lazy_linspace, ({"-1"}), s.get(), 0.0, 1.0, int64_t{-1}, 0);
  REFUSED(RANGE, aster_ml_lazy_eye, ({"-1"}), s.get(), int64_t{-1}, int64_t{2}, 0);
  REFUSED(RANGE, aster_ml_lazy_random_bits, ({"-5"}), s.get(), int64_t{-5});
  const double infinity = std::numeric_limits<double>::infinity();
  REFUSED(RANGE, aster_ml_lazy_arange_float, ({""}), s.get(), 0.0, infinity, 1.0, 0);
}

TEST_F(Refusals, Reading) {
  Tensor a = shaped({2, 3});
  float values[6];
  double number = 1;
  expect(aster_ml_lazy_copy_out(values, 20, a.get()), ASTER_ML_RANGE, "aster_ml_lazy_copy_out",
         {"20", "float32[2, 3]", "24"});
  expect(aster_ml_lazy_to_double(&number, a.get()), ASTER_ML_SHAPE, "aster_ml_lazy_to_double",
         {"float32[2, 3]"});
  EXPECT_EQ(number, 0);
  int64_t shape[3];
  expect(aster_ml_lazy_shape(shape, 3, a.get()), ASTER_ML_SHAPE, "aster_ml_lazy_shape",
         {"3", "float32[2, 3]"});
  EXPECT_EQ(aster_ml_lazy_dim(a.get(), 2), -1);
  EXPECT_EQ(aster_ml_lazy_dim(a.get(), -3), -1);
}

TEST_F(Refusals, MemoryOfOthers) {
  alignas(64) float memory[4] = {1, 2, 3, 4};
  int released = 0;
  const auto release = [](void* self, void*, size_t) { ++*static_cast<int*>(self); };
  aster_ml_buffer buffer{};
  OK(aster_ml_buffer_from_memory(&buffer, s.get(), memory, sizeof(memory), kFloat, 0, 1, release,
                                 &released));
  EXPECT_EQ(aster_ml_buffer_is_read_only(&buffer), 1);
  expect(aster_ml_buffer_copy_in(&buffer, 0, memory, 4), ASTER_ML_ARGUMENT,
         "aster_ml_buffer_copy_in", {""});
  aster_ml_buffer copy = buffer;
  OK(aster_ml_buffer_free(&buffer));
  EXPECT_EQ(released, 1);
  expect(aster_ml_buffer_free(&copy), ASTER_ML_ARGUMENT, "aster_ml_buffer_free", {""});
  EXPECT_EQ(released, 1);
  EXPECT_EQ(memory[3], 4);
  aster_ml_buffer odd{};
  expect(aster_ml_buffer_from_memory(&odd, s.get(), reinterpret_cast<char*>(memory) + 1, 4, kFloat,
                                     0, 0, nullptr, nullptr),
         ASTER_ML_ARGUMENT, "aster_ml_buffer_from_memory", {""});
  // Read-only memory behind a lazy tensor is no target.
  aster_ml_buffer locked{};
  OK(aster_ml_buffer_from_memory(&locked, s.get(), memory, sizeof(memory), kFloat, 0, 1, nullptr,
                                 nullptr));
  aster_ml_tensor t{};
  const size_t four[] = {4}, five[] = {5};
  OK(aster_ml_tensor_from_buffer(&t, s.get(), &locked, 0, 1, four, nullptr));
  Tensor x = make(aster_ml_lazy_from_tensor, s.get(), &t), y(0.0);
  int32_t status = aster_ml_lazy_assign(x.get(), y.get());
  expect(status, ASTER_ML_ARGUMENT, "aster_ml_lazy_assign", {"read-only"});
  EXPECT_EQ(memory[0], 1);
  aster_ml_tensor beyond{};
  expect(aster_ml_tensor_from_buffer(&beyond, s.get(), &locked, 0, 1, five, nullptr),
         ASTER_ML_RANGE, "aster_ml_tensor_from_buffer", {""});
  expect(aster_ml_tensor_from_buffer(&beyond, s.get(), &locked, 2, 1, four, nullptr),
         ASTER_ML_ARGUMENT, "aster_ml_tensor_from_buffer", {""});
  EXPECT_EQ(beyond.storage.data, nullptr);
  OK(aster_ml_tensor_free(&t));
  OK(aster_ml_buffer_free(&locked));
}

TEST_F(Refusals, Codes) {
  int32_t code = 7;
  expect(aster_ml_device_from_name(&code, "warp drive"), ASTER_ML_FORMAT,
         "aster_ml_device_from_name", {"warp drive"});
  EXPECT_EQ(code, 0);
  expect(aster_ml_device_from_name(&code, "warp"), ASTER_ML_NOT_FOUND, "aster_ml_device_from_name",
         {"warp"});
  expect(aster_ml_device_from_name(&code, "CPU:70000"), ASTER_ML_RANGE, "aster_ml_device_from_name",
         {""});
  char text[2];
  expect(aster_ml_device_to_name(text, sizeof(text), ASTER_ML_DEVICE_CPU), ASTER_ML_RANGE,
         "aster_ml_device_to_name", {""});
  expect(aster_ml_dtype_from_name(&code, "int33"), ASTER_ML_NOT_FOUND, "aster_ml_dtype_from_name",
         {"int33"});
  expect(aster_ml_dtype_promote(&code, 1000, kFloat), ASTER_ML_ARGUMENT, "aster_ml_dtype_promote",
         {"1000"});
  expect(aster_ml_dtype_promote(&code, ASTER_ML_DTYPE_FLT256, kFloat), ASTER_ML_DTYPE,
         "aster_ml_dtype_promote", {"flt256"});
  aster_ml_buffer buffer{};
  expect(aster_ml_buffer_init(&buffer, s.get(), 64, kFloat, ASTER_ML_DEVICE_CUDA),
         ASTER_ML_UNSUPPORTED, "aster_ml_buffer_init", {"CUDA"});
  expect(aster_ml_buffer_init(&buffer, s.get(), 63, kFloat, 0), ASTER_ML_RANGE,
         "aster_ml_buffer_init", {"63"});
  EXPECT_EQ(aster_ml_dtype_size(-5), 0u);
  EXPECT_EQ(aster_ml_dtype_name(1000), nullptr);
  EXPECT_STREQ(aster_ml_status_name(1000), "UNKNOWN");
  aster_ml_context_options options{};
  aster_ml_context context{};
  expect(aster_ml_context_init(&context, &options), ASTER_ML_ARGUMENT, "aster_ml_context_init",
         {"struct_size"});
  options.struct_size = sizeof(options);
  options.threads = -1;
  expect(aster_ml_context_init(&context, &options), ASTER_ML_RANGE, "aster_ml_context_init",
         {"-1"});
  options.threads = 0;
  options.vector_bytes = 7;
  expect(aster_ml_context_init(&context, &options), ASTER_ML_ARGUMENT, "aster_ml_context_init",
         {"7"});
  EXPECT_EQ(context.impl, nullptr);
}

TEST_F(Refusals, ScopesOutOfOrder) {
  aster_ml_scope outer{}, inner{};
  OK(aster_ml_scope_begin(&outer, s.get()));
  OK(aster_ml_scope_begin(&inner, s.get()));
  expect(aster_ml_scope_end(&outer), ASTER_ML_STATE, "aster_ml_scope_end", {""});
  OK(aster_ml_scope_end(&inner));
  OK(aster_ml_scope_end(&outer));
  OK(aster_ml_scope_end(&outer));  // ended already
}

TEST_F(Refusals, FilesThatCannotBeRead) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("aster_bad_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string missing = (folder / "missing").string(), broken = (folder / "broken").string();
  std::ofstream(broken) << "this is no header at all";
  aster_ml_state state{};
  expect(aster_ml_state_read(&state, s.get(), missing.c_str()), ASTER_ML_NOT_FOUND,
         "aster_ml_state_read", {"missing"});
  expect(aster_ml_state_read(&state, s.get(), folder.c_str()), ASTER_ML_IO, "aster_ml_state_read",
         {""});
  expect(aster_ml_state_read(&state, s.get(), broken.c_str()), ASTER_ML_FORMAT,
         "aster_ml_state_read", {""});
  EXPECT_EQ(state.impl, nullptr);
  OK(aster_ml_state_init(&state, s.get()));
  Tensor x = shaped({2});
  OK(aster_ml_state_set(&state, "x", x.get(), 0));
  expect(aster_ml_state_write(&state, (folder / "no" / "file").c_str()), ASTER_ML_NOT_FOUND,
         "aster_ml_state_write", {""});
  expect(aster_ml_state_set(&state, "", x.get(), 0), ASTER_ML_ARGUMENT, "aster_ml_state_set", {""});
  expect(aster_ml_state_set(&state, "\xff\xfe", x.get(), 0), ASTER_ML_ARGUMENT,
         "aster_ml_state_set", {""});
  expect(aster_ml_state_get(&out, &state, "y"), ASTER_ML_NOT_FOUND, "aster_ml_state_get", {"y"});
  aster_ml_optimizer optimizer{};
  expect(aster_ml_sgd_init(&optimizer, &state, nullptr), ASTER_ML_ARGUMENT, "aster_ml_sgd_init",
         {""});
  EXPECT_EQ(optimizer.impl, nullptr);
  OK(aster_ml_state_free(&state));
  std::filesystem::remove_all(folder);
}

TEST_F(Refusals, FreedHandlesAreEmpty) {
  Tensor x = shaped({2});
  OK(aster_ml_lazy_free(x.get()));
  EXPECT_EQ(x.get()->impl, nullptr);
  OK(aster_ml_lazy_free(x.get()));
  aster_ml_error_clear();
  REFUSED(ARGUMENT, aster_ml_lazy_neg, ({""}), x.get());
  EXPECT_EQ(aster_ml_lazy_dtype(x.get()), 0);
}

}  // namespace
}  // namespace programs
