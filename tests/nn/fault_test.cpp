// The Nth allocation fails, for every N: MEMORY, nothing leaked, everything still freeable.
#include <unistd.h>

#include "base/counting_allocator.h"
#include "nn/world.h"

namespace nn_test {
namespace {

// One of everything; stops at the first failure.
int32_t everything(const aster_ml_context* c, const char* path) {
  Layer linear, norm, conv;
  State state, saved;
  Optimizer optimizer;
  int32_t status = aster_ml_linear_init(&linear, c, 3, 2, 1);
  if (status == 0) status = aster_ml_batch_norm_init(&norm, c, 2, nullptr);
  if (status == 0) status = aster_ml_conv2d_init(&conv, c, 1, 1, 1, 1, 1, nullptr);
  if (status == 0) status = aster_ml_state_init(&state, c);
  if (status == 0) status = aster_ml_state_set_layer(&state, "linear.", &linear);
  if (status == 0) status = aster_ml_state_set_layer(&state, "norm.", &norm);
  if (status == 0) status = aster_ml_state_set_layer(&state, "conv.", &conv);
  if (status == 0) status = aster_ml_state_set_metadata(&state, "key", "text");
  if (status == 0) status = aster_ml_adam_init(&optimizer, &state, nullptr);
  const float data[] = {1, 2, 3, 4, 5, 7};
  const int64_t shape[] = {2, 3}, image[] = {2, 1, 1, 2};
  aster_ml_lazy x{}, y{}, z{}, square{}, convolved{}, loss{};
  if (status == 0) status = aster_ml_lazy_from(&x, c, data, ASTER_ML_DTYPE_FLOAT32, 2, shape);
  if (status == 0) status = aster_ml_layer_run(&y, &linear, &x, 1);
  if (status == 0) status = aster_ml_layer_run(&z, &norm, &y, 1);
  if (status == 0) status = aster_ml_lazy_reshape(&square, &z, 4, image);
  if (status == 0) status = aster_ml_layer_run(&convolved, &conv, &square, 1);
  if (status == 0) status = aster_ml_lazy_sum(&loss, &convolved, 0, nullptr, 0);
  if (status == 0) status = aster_ml_optimizer_step(&optimizer, &loss);
  if (status == 0) status = aster_ml_state_set_optimizer(&state, "adam.", &optimizer);
  if (status == 0) status = aster_ml_state_write(&state, path);
  if (status == 0) status = aster_ml_state_read(&saved, c, path);
  if (status == 0) status = aster_ml_state_load(&state, &saved);
  for (aster_ml_lazy* handle : {&x, &y, &z, &square, &convolved, &loss}) aster_ml_lazy_free(handle);
  return status;
}

// One of every file that is read.
int32_t every_file(const aster_ml_context* c, const char* path) {
  const auto shipped = [](const char* name) { return data_path(name, "data"); };
  State zip, legacy, tar, members, packed, from;
  int32_t status = aster_ml_state_read_torch(&zip, c, shipped("torch.zip.pt").c_str());
  if (status == 0) {
    status = aster_ml_state_read_torch(&legacy, c, shipped("torch.legacy.pt").c_str());
  }
  if (status == 0) status = aster_ml_state_read_torch(&tar, c, shipped("torch.tar.pt").c_str());
  if (status == 0) status = aster_ml_state_read_zip(&members, c, shipped("archive.zip").c_str());
  if (status == 0) status = aster_ml_state_read_tar(&packed, c, shipped("archive.tar.gz").c_str());
  aster_ml_lazy file{}, written{};
  const int64_t rest[] = {-1}, eight[] = {8};
  if (status == 0) {
    status = aster_ml_lazy_from_file(&file, c, shipped("tensor.pt").c_str(), 0, 1, rest, 0,
                                     ASTER_ML_FILE_READ);
  }
  if (status == 0) status = aster_ml_state_from_torch(&from, &file);
  if (status == 0) {
    status = aster_ml_lazy_from_file(&written, c, path, 0, 1, eight, 0, ASTER_ML_FILE_CREATE);
  }
  for (aster_ml_lazy* handle : {&file, &written}) aster_ml_lazy_free(handle);
  return status;
}

// The layers and optimisers that everything() lacks.
int32_t every_layer(const aster_ml_context* c, const char*) {
  Layer group, norm, rms, embedding, cell;
  State state;
  Optimizer lars, lamb, muon;
  const int64_t shape[] = {3}, by_four[] = {2, 4}, count[] = {2};
  int32_t status = aster_ml_group_norm_init(&group, c, 2, 4, 1e-5, 1);
  if (status == 0) status = aster_ml_layer_norm_init(&norm, c, 1, shape, 1e-5, 1);
  if (status == 0) status = aster_ml_rms_norm_init(&rms, c, 3, 1e-5, 1);
  if (status == 0) status = aster_ml_embedding_init(&embedding, c, 4, 3);
  if (status == 0) status = aster_ml_lstm_cell_init(&cell, c, 3, 4, 1);
  if (status == 0) status = aster_ml_state_init(&state, c);
  if (status == 0) status = aster_ml_state_set_layer(&state, "cell.", &cell);
  if (status == 0) status = aster_ml_lars_init(&lars, &state, nullptr);
  if (status == 0) status = aster_ml_lamb_init(&lamb, &state, nullptr);
  if (status == 0) status = aster_ml_muon_init(&muon, &state, nullptr);
  const float data[] = {1, 2, 3, 4, 5, 7, 8, 9};
  const int32_t rows[] = {1, 3};
  aster_ml_lazy x{}, i{}, e{}, n{}, r{}, h{}, k{}, y{}, loss{}, rate{};
  if (status == 0) status = aster_ml_lazy_from(&x, c, data, ASTER_ML_DTYPE_FLOAT32, 2, by_four);
  if (status == 0) status = aster_ml_lazy_from(&i, c, rows, ASTER_ML_DTYPE_INT32, 1, count);
  if (status == 0) status = aster_ml_layer_run(&e, &embedding, &i, 0);
  if (status == 0) status = aster_ml_layer_run(&n, &norm, &e, 0);
  if (status == 0) status = aster_ml_layer_run(&r, &rms, &n, 0);
  if (status == 0) status = aster_ml_lstm_cell_run(&h, &k, &cell, &r, &x, &x);
  if (status == 0) status = aster_ml_layer_run(&y, &group, &h, 0);
  if (status == 0) status = aster_ml_lazy_sum(&loss, &y, 0, nullptr, 0);
  const aster_ml_optimizer* optimizers[] = {&lars.h, &lamb.h, &muon.h};
  if (status == 0) status = aster_ml_optimizer_step_group(optimizers, 3, &loss);
  if (status == 0) status = aster_ml_optimizer_get_rate(&rate, &lars);
  for (aster_ml_lazy* handle : {&x, &i, &e, &n, &r, &h, &k, &y, &loss, &rate}) {
    aster_ml_lazy_free(handle);
  }
  return status;
}

using Program = int32_t (*)(const aster_ml_context* c, const char* path);
class Fault : public ::testing::TestWithParam<Program> {};
INSTANTIATE_TEST_SUITE_P(All, Fault, ::testing::Values(everything, every_file, every_layer));

TEST_P(Fault, EveryAllocation) {
  TemporaryFile file;
  int64_t requests = 0;
  // Every one of the first requests, then ever fewer.
  for (int64_t n = -1; n < std::max<int64_t>(requests, 1); n += 1 + std::max<int64_t>(n, 0) / 32) {
    aster_test::CountingAllocator memory;
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    options.allocator = &memory.table;
    options.compiler = "none";
    options.arena_block_bytes = 64;  // every request of an arena is one of the allocator
    options.threads = 1;
    memory.fail_at(n);
    aster_ml_context context{};
    int32_t status = aster_ml_context_init(&context, &options);
    if (status == 0) status = GetParam()(&context, file.path());
    if (n < 0) {
      ASSERT_EQ(status, 0) << last_error();
      requests = memory.requests();
    } else if (status != 0) {  // an allocation that may fail unseen is a cache's
      EXPECT_EQ(status, ASTER_ML_MEMORY) << "request " << n << ": " << last_error();
    }
    EXPECT_OK(aster_ml_context_free(&context));
    EXPECT_EQ(memory.live(), 0u) << "request " << n;
    EXPECT_TRUE(memory.sound()) << "request " << n;
  }
  EXPECT_GT(requests, 300);
}

}  // namespace
}  // namespace nn_test
