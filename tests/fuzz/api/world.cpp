#include "world.h"

#include <gtest/gtest.h>

#include <cmath>

namespace api_fuzz {
namespace {

void expect(int32_t status) {
  aster_ml_error error{};
  if (status != ASTER_ML_OK) aster_ml_error_last(&error);
  EXPECT_EQ(status, ASTER_ML_OK) << error.function << ": " << error.message;
}

constexpr int64_t kHuge = INT64_C(1) << 40;

}  // namespace

World::World(bool compiled, std::string given) : folder(std::move(given)) {
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.threads = 1;
  options.seed = 3;
  if (!compiled) options.compiler = "none";
  expect(aster_ml_context_init(&context, &options));
  expect(aster_ml_context_init(&other, &options));
  expect(aster_ml_lazy_number(&foreign, &other, 2));
  expect(aster_ml_lazy_number(&stale, &context, 2));
  aster_ml_lazy copy = stale;
  expect(aster_ml_lazy_free(&copy));
  make_tensors();
  const float values[] = {1, 2, 3, 4, 5, 6};
  const size_t sizes[] = {2, 3};
  expect(aster_ml_tensor_from_data(&tensor, &context, values, ASTER_ML_DTYPE_FLOAT32, 2, sizes));
  expect(aster_ml_buffer_init(&buffer, &context, 4096, ASTER_ML_DTYPE_FLOAT32, 0));
  aster_ml_uop_options node{};
  node.struct_size = sizeof(node);
  node.op = "Range";
  const int64_t arguments[] = {0, 8};
  node.arguments = arguments;
  node.argument_count = 2;
  expect(aster_ml_uop_init(&uop, &context, &node));
  const aster_ml_uop* variable = nullptr;
  expect(aster_ml_symbolic_init(&variable, &context, "n", 1, 4));
  expect(aster_ml_symbolic_bind(&bound, &context, variable, "n", 2));
  expect(aster_ml_uop_release(&context, variable));
  renew();
}

World::~World() {
  aster_ml_engine_capture_cancel(&context);
  for (Held& held : tensors) aster_ml_lazy_free(&held.handle);
  aster_ml_lazy_free(&foreign);
  aster_ml_uop_release(&context, uop);
  aster_ml_uop_release(&context, bound);
  aster_ml_workspace_free(&workspace);
  aster_ml_program_free(&program);
  aster_ml_sparse_free(&sparse);
  aster_ml_onnx_value_free(&value);
  aster_ml_optimizer_free(&optimizer);
  aster_ml_state_free(&state);
  aster_ml_layer_free(&layer);
  aster_ml_tensor_free(&tensor);
  aster_ml_buffer_free(&buffer);
  aster_ml_context_free(&other);
  aster_ml_context_free(&context);
}

void World::add(const double* values, size_t count, int32_t dtype,
                std::initializer_list<int64_t> shape) {
  aster_ml_lazy made{}, cast{};
  const int64_t size = static_cast<int64_t>(count);
  expect(aster_ml_lazy_from(&made, &context, values, ASTER_ML_DTYPE_FLOAT64, 1, &size));
  expect(aster_ml_lazy_cast(&cast, &made, dtype));
  expect(aster_ml_lazy_free(&made));
  expect(aster_ml_lazy_reshape(&made, &cast, shape.size(), shape.begin()));
  expect(aster_ml_lazy_free(&cast));
  tensors.push_back({made, false});
}

void World::make_tensors() {
  const double values[16] = {1, 0, 3, 2, 0, 1, -1, 2.5, 7, 0, 1, 1, 3, 2, 1, 0};
  const double odd[4] = {NAN, INFINITY, -INFINITY, -0.0};
  add(values, 6, ASTER_ML_DTYPE_FLOAT32, {2, 3});
  add(values, 1, ASTER_ML_DTYPE_FLOAT32, {});
  add(values, 9, ASTER_ML_DTYPE_FLOAT64, {3, 3});
  add(values, 16, ASTER_ML_DTYPE_FLOAT16, {1, 1, 4, 4});
  add(values, 4, ASTER_ML_DTYPE_INT32, {4});
  add(values, 6, ASTER_ML_DTYPE_BOOL, {2, 3});
  add(values, 6, ASTER_ML_DTYPE_UINT8, {2, 1, 3});
  add(values, 3, ASTER_ML_DTYPE_INT64, {3});
  add(values, 2, ASTER_ML_DTYPE_FP8E4M3, {2});
  add(odd, 4, ASTER_ML_DTYPE_FLOAT32, {2, 2});
  add(values, 0, ASTER_ML_DTYPE_FLOAT32, {0, 3});
  add(values, 0, ASTER_ML_DTYPE_INT32, {0});
  add(values, 0, ASTER_ML_DTYPE_FLOAT32, {kHuge, 0});  // no elements, and an axis beyond all memory
  add(values, 0, ASTER_ML_DTYPE_INT64, {0, kHuge, 1024});
  add(values, 0, ASTER_ML_DTYPE_UINT8, {2, 0, INT64_MAX / 256});
  aster_ml_lazy made{};
  expect(aster_ml_lazy_number(&made, &context, 0.5));
  tensors.push_back({made, false});
  expect(aster_ml_lazy_integer(&made, &context, 2));
  tensors.push_back({made, false});
  const int64_t huge[] = {kHuge, 3};
  expect(aster_ml_lazy_expand(&made, &tensors[1].handle, 2, huge));
  tensors.push_back({made, true});
}

void World::make_program() {
  aster_ml_lazy input{}, result{};
  const float values[] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  expect(aster_ml_lazy_from(&input, &context, values, ASTER_ML_DTYPE_FLOAT32, 2, shape));
  aster_ml_lazy* inputs[] = {&input};
  expect(aster_ml_engine_capture_begin(&context, inputs, 1));
  expect(aster_ml_lazy_neg(&result, &input));
  aster_ml_lazy* outputs[] = {&result};
  expect(aster_ml_engine_capture_end(&program, &context, outputs, 1));
  expect(aster_ml_lazy_free(&input));
  expect(aster_ml_lazy_free(&result));
}

void World::renew() {
  expect(aster_ml_engine_capture_cancel(&context));
  if (aster_ml_state_count(&state) == 0) {
    aster_ml_state_free(&state);
    aster_ml_layer_free(&layer);
    aster_ml_optimizer_free(&optimizer);
    expect(aster_ml_linear_init(&layer, &context, 3, 2, 1));
    expect(aster_ml_state_init(&state, &context));
    expect(aster_ml_state_set_layer(&state, "l.", &layer));
    expect(aster_ml_sgd_init(&optimizer, &state, nullptr));
  }
  if (aster_ml_onnx_value_kind(&value) == ASTER_ML_ONNX_NONE) {
    expect(aster_ml_onnx_value_init(&value, &context, ASTER_ML_ONNX_SEQUENCE));
  }
  aster_ml_sparse_info info{};
  info.struct_size = sizeof(info);
  if (aster_ml_sparse_get(&info, &sparse) != 0) {
    aster_ml_sparse_free(&sparse);
    expect(aster_ml_sparse_from_dense(&sparse, &context, &tensor, ASTER_ML_SPARSE_CSR));
  }
  if (aster_ml_program_count_kernels(&program) == 0) {
    aster_ml_program_free(&program);
    aster_ml_workspace_free(&workspace);
    make_program();
    expect(aster_ml_workspace_init(&workspace, &program));
  }
  aster_ml_error_clear();
}

void World::put(size_t place, aster_ml_lazy made, bool costly) {
  Held& held = tensors[place % tensors.size()];
  aster_ml_lazy_free(&held.handle);
  held = {made, costly};
}

}  // namespace api_fuzz
