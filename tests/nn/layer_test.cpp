#include <unistd.h>

#include <array>

#include "nn/world.h"

namespace nn_test {
namespace {

aster_ml_conv2d_options conv_options(int32_t groups, int32_t padding) {
  aster_ml_conv2d_options options{};
  options.struct_size = sizeof(options);
  options.groups = groups;
  for (int32_t& pad : options.padding) pad = padding;
  return options;
}

// The same seed gives the parameters that tinygrad's layers begin with, to the bit.
TEST(Layer, BeginsAndRunsAsTinygrad) {
  Session s;
  OK(aster_ml_lazy_manual_seed(&s.context, 7));
  Layer linear, conv;
  const aster_ml_conv2d_options options = conv_options(2, 1);
  OK(aster_ml_linear_init(&linear, &s.context, 5, 3, 1));
  OK(aster_ml_conv2d_init(&conv, &s.context, 4, 6, 3, 2, 1, &options));
  expect_near(joined({read(get(linear, "weight")), read(get(linear, "bias"))}),
              oracle("linear.init"), 0, "linear");
  expect_near(joined({read(get(conv, "weight")), read(get(conv, "bias"))}), oracle("conv2d.init"),
              0, "conv2d");
  expect_near(read(run(linear, tensor(s, {2, 4, 5}, 4))), oracle("linear.run"), 1e-6, "linear");
  expect_near(read(run(conv, tensor(s, {2, 4, 5, 5}, 5))), oracle("conv2d.run"), 1e-6, "conv2d");
}

TEST(Layer, ConvolutionsOfAnyRankFollowTinygrad) {
  Session s;
  OK(aster_ml_lazy_manual_seed(&s.context, 9));
  const int64_t three[] = {3}, two[] = {2}, one[] = {1}, cube[] = {2, 3, 2}, twice[] = {2, 2, 2};
  const int64_t plane[] = {3, 2};
  aster_ml_conv_options strided{}, padded{}, back{}, dilated{};
  for (aster_ml_conv_options* o : {&strided, &padded, &back, &dilated}) o->struct_size = sizeof(*o);
  strided.groups = back.groups = 2;
  strided.stride = back.stride = two;
  strided.before = strided.after = back.before = back.after = back.output_padding = one;
  padded.dilation = dilated.dilation = twice;
  Layer conv1d, conv3d, back1d, back2d;
  OK(aster_ml_conv_init(&conv1d, &s.context, 4, 6, 1, three, 1, &strided));
  {
    // tinygrad lists padding from the last axis on. The lists need not outlive the call.
    const int64_t before[] = {0, 2, 1}, after[] = {1, 1, 0};
    padded.before = before;
    padded.after = after;
    OK(aster_ml_conv_init(&conv3d, &s.context, 2, 3, 3, cube, 0, &padded));
  }
  OK(aster_ml_conv_transpose_init(&back1d, &s.context, 4, 6, 1, three, 1, &back));
  OK(aster_ml_conv_transpose_init(&back2d, &s.context, 2, 3, 2, plane, 1, &dilated));
  const auto parameters = [](Layer& layer) {
    return joined({read(get(layer, "weight")), read(get(layer, "bias"))});
  };
  expect_near(parameters(conv1d), oracle("conv1d.init"), 0, "conv1d");
  expect_near(read(get(conv3d, "weight")), oracle("conv3d.init"), 0, "conv3d");
  expect_near(parameters(back1d), oracle("conv_transpose1d.init"), 0, "conv_transpose1d");
  expect_near(parameters(back2d), oracle("conv_transpose2d.init"), 0, "conv_transpose2d");
  expect_near(read(run(conv1d, tensor(s, {2, 4, 9}, 40))), oracle("conv1d.run"), 1e-6, "conv1d");
  expect_near(read(run(conv3d, tensor(s, {1, 2, 4, 5, 5}, 41))), oracle("conv3d.run"), 1e-6,
              "conv3d");
  expect_near(read(run(back1d, tensor(s, {2, 4, 5}, 42))), oracle("conv_transpose1d.run"), 1e-6,
              "conv_transpose1d");
  expect_near(read(run(back2d, tensor(s, {1, 2, 3, 4}, 43))), oracle("conv_transpose2d.run"), 1e-6,
              "conv_transpose2d");
  State state;
  OK(aster_ml_state_init(&state, &s.context));
  OK(aster_ml_state_set_layer(&state, nullptr, &back1d));
  EXPECT_STREQ(aster_ml_state_name(&state, 0), "weight");
  EXPECT_STREQ(aster_ml_state_name(&state, 1), "bias");

  Layer none;
  strided.groups = 4;
  EXPECT_EQ(aster_ml_conv_init(&none, &s.context, 4, 6, 1, three, 1, &strided), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_conv_init(&none, &s.context, 4, 6, 0, three, 1, nullptr), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_conv_init(&none, &s.context, 4, 6, 1, nullptr, 1, nullptr), ASTER_ML_ARGUMENT);
  const int64_t nothing[] = {0};
  EXPECT_EQ(aster_ml_conv_transpose_init(&none, &s.context, 4, 6, 1, nothing, 1, nullptr),
            ASTER_ML_RANGE);
  EXPECT_EQ(none.h.impl, nullptr);
}

TEST(Layer, BiasMayBeLeftOut) {
  Session s;
  Layer linear;
  OK(aster_ml_linear_init(&linear, &s.context, 2, 2, 0));
  T weight = get(linear, "weight"), none;
  EXPECT_EQ(aster_ml_layer_get(&none.h, &linear, "bias"), ASTER_ML_NOT_FOUND);
  realize({&weight});
  const std::vector<float> w = read(weight),
                           y = read(run(linear, from(s, std::vector<float>{2, 3}, {1, 2})));
  EXPECT_NEAR(y[0], 2 * w[0] + 3 * w[1], 1e-6);
  EXPECT_NEAR(y[1], 2 * w[2] + 3 * w[3], 1e-6);
}

TEST(Layer, BatchNormTracksAsTinygrad) {
  Session s;
  Layer norm;
  aster_ml_batch_norm_options options{};
  options.struct_size = sizeof(options);
  options.eps = 1e-3;
  options.momentum = 0.2;
  OK(aster_ml_batch_norm_init(&norm, &s.context, 3, &options));
  State own, given;
  OK(aster_ml_state_init(&own, &s.context));
  OK(aster_ml_state_set_layer(&own, nullptr, &norm));
  // Weights by way of a state, statistics as they are.
  OK(aster_ml_state_init(&given, &s.context));
  for (const char* name :
       {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}) {
    T x = get(own, name);
    if (name == std::string("weight")) x = tensor(s, {3}, 6);
    if (name == std::string("bias")) x = tensor(s, {3}, 7);
    OK(aster_ml_state_set(&given, name, &x.h, 0));
  }
  OK(aster_ml_state_load(&own, &given));
  for (int step = 0; step < 2; ++step) {
    T y = run(norm, tensor(s, {4, 3, 2, 2}, 8 + step), 1);
    OK(aster_ml_state_realize(&own));
    const auto got =
        joined({read(y), read(get(norm, "running_mean")), read(get(norm, "running_var"))});
    expect_near(got, oracle("batch_norm." + std::to_string(step)), 2e-6, "batch_norm");
  }
  int64_t batches = 0;
  T counter = get(norm, "num_batches_tracked");
  OK(aster_ml_lazy_copy_out(&batches, sizeof(batches), &counter.h));
  EXPECT_EQ(batches, 2);
  expect_near(read(run(norm, tensor(s, {4, 3, 2, 2}, 10))), oracle("batch_norm.run"), 2e-6, "run");
}

TEST(Layer, BatchNormWithoutParameters) {
  Session s;
  Layer norm, bare;
  aster_ml_batch_norm_options options{};
  options.struct_size = sizeof(options);
  options.no_affine = 1;
  OK(aster_ml_batch_norm_init(&norm, &s.context, 3, &options));
  expect_near(read(run(norm, tensor(s, {4, 3, 2, 2}, 11), 1)), oracle("batch_norm.plain"), 2e-6,
              "plain");
  options.no_track = 1;
  OK(aster_ml_batch_norm_init(&bare, &s.context, 3, &options));
  expect_near(read(run(bare, tensor(s, {4, 3, 2, 2}, 11), 0)), oracle("batch_norm.plain"), 2e-6,
              "bare");
  T counter = get(bare, "num_batches_tracked"), wide = tensor(s, {4, 4}, 1), y;
  EXPECT_EQ(aster_ml_lazy_ndim(&counter.h), 0u);
  EXPECT_EQ(aster_ml_layer_run(&y.h, &bare, &wide.h, 0), ASTER_ML_SHAPE);
}

// Puts values under the names of a layer's parameters.
void put(Session& s, Layer& layer, const char* name, const Shape& shape, int seed) {
  State own, given;
  OK(aster_ml_state_init(&own, &s.context));
  OK(aster_ml_state_init(&given, &s.context));
  T to = get(layer, name), x = tensor(s, shape, seed);
  OK(aster_ml_lazy_realize(std::array{&to.h}.data(), 1));
  OK(aster_ml_lazy_assign(&to.h, &x.h));
  OK(aster_ml_lazy_realize(std::array{&to.h}.data(), 1));
}

TEST(Layer, NormsFollowTinygrad) {
  Session s;
  struct Case {
    const char* name;
    int32_t (*init)(aster_ml_layer*, const aster_ml_context*);
    Shape weight, x;
    bool bias;
  };
  const Case cases[] = {
      {"group_norm",
       [](auto* out, auto* c) { return aster_ml_group_norm_init(out, c, 2, 4, 1e-3, 1); },
       {4},
       {2, 4, 3, 2},
       true},
      {"instance_norm",
       [](auto* out, auto* c) { return aster_ml_instance_norm_init(out, c, 4, 1e-5, 1); },
       {4},
       {2, 4, 3},
       true},
      {"layer_norm",
       [](auto* out, auto* c) {
         const int64_t shape[] = {3, 2};
         return aster_ml_layer_norm_init(out, c, 2, shape, 1e-5, 1);
       },
       {3, 2},
       {4, 3, 2},
       true},
      {"layer_norm2d",
       [](auto* out, auto* c) { return aster_ml_layer_norm2d_init(out, c, 4, 1e-5, 1); },
       {4},
       {2, 4, 3, 2},
       true},
      {"rms_norm",
       [](auto* out, auto* c) { return aster_ml_rms_norm_init(out, c, 6, 1e-2, 1); },
       {6},
       {3, 6},
       false},
      {"group_norm.plain",
       [](auto* out, auto* c) { return aster_ml_group_norm_init(out, c, 1, 4, 1e-5, 0); },
       {},
       {2, 4},
       false},
      {"layer_norm.plain",
       [](auto* out, auto* c) {
         const int64_t shape[] = {6};
         return aster_ml_layer_norm_init(out, c, 1, shape, 1e-5, 0);
       },
       {},
       {3, 6},
       false},
      {"rms_norm.plain",
       [](auto* out, auto* c) { return aster_ml_rms_norm_init(out, c, 6, 1e-6, 0); },
       {},
       {3, 6},
       false},
  };
  for (const Case& row : cases) {
    Layer layer;
    OK(row.init(&layer.h, &s.context));
    T none;
    if (row.weight.empty()) {
      EXPECT_EQ(aster_ml_layer_get(&none.h, &layer, "weight"), ASTER_ML_NOT_FOUND) << row.name;
    } else {
      put(s, layer, "weight", row.weight, 30);
    }
    if (row.bias) put(s, layer, "bias", row.weight, 31);
    expect_near(read(run(layer, tensor(s, row.x, 32))), oracle(row.name), 2e-6, row.name);
    // In another dtype, the values the same but for their rounding.
    T half = cast(tensor(s, row.x, 32), ASTER_ML_DTYPE_BFLOAT16);
    expect_near(read(cast(run(layer, half), ASTER_ML_DTYPE_FLOAT32)), oracle(row.name), 2e-2,
                row.name);
    Shape wrong = row.x;
    for (int64_t& dim : wrong) ++dim;
    T x = tensor(s, wrong, 1);
    if (!row.weight.empty()) {
      EXPECT_EQ(aster_ml_layer_run(&none.h, &layer, &x.h, 0), ASTER_ML_SHAPE) << row.name;
    }
  }
}

TEST(Layer, EmbeddingFollowsTinygrad) {
  Session s;
  OK(aster_ml_lazy_manual_seed(&s.context, 8));
  Layer embedding, cell;
  OK(aster_ml_embedding_init(&embedding, &s.context, 6, 5));
  OK(aster_ml_lstm_cell_init(&cell, &s.context, 5, 3, 1));
  T weight = get(embedding, "weight");
  expect_near(read(weight), oracle("embedding.init"), 0, "embedding");
  expect_near(joined({read(get(cell, "weight_ih")), read(get(cell, "weight_hh")),
                      read(get(cell, "bias_ih")), read(get(cell, "bias_hh"))}),
              oracle("lstm_cell.init"), 0, "lstm_cell");
  T index = from(s, std::vector<int32_t>{0, 5, 2, 2, 7, -1}, {2, 3});
  T rows = run(embedding, index);
  ASSERT_EQ(aster_ml_lazy_ndim(&rows.h), 3u);
  expect_near(read(rows), oracle("embedding.run"), 0, "rows");
  // A row's gradient is the sum over its uses.
  T c = tensor(s, {2, 3, 5}, 9), loss = sum(run(embedding, index) * c), g;
  const aster_ml_lazy* targets[] = {&weight.h};
  OK(aster_ml_gradient(&g.h, &loss.h, targets, 1, nullptr));
  std::vector<float> expected(30);
  const std::vector<float> by = values(30, 9);
  const int used[] = {0, 5, 2, 2};
  for (size_t i = 0; i < 4; ++i) {
    for (size_t k = 0; k < 5; ++k) expected[static_cast<size_t>(used[i]) * 5 + k] += by[i * 5 + k];
  }
  expect_near(read(g), expected, 1e-6, "gradient");
  T floats = tensor(s, {2}, 1), none;
  EXPECT_EQ(aster_ml_layer_run(&none.h, &embedding, &floats.h, 0), ASTER_ML_DTYPE);
}

TEST(Layer, LstmCellFollowsTinygrad) {
  Session s, other;
  OK(aster_ml_lazy_manual_seed(&s.context, 8));
  Layer embedding, cell, linear;
  OK(aster_ml_embedding_init(&embedding, &s.context, 6, 5));
  OK(aster_ml_lstm_cell_init(&cell, &s.context, 5, 3, 1));
  OK(aster_ml_linear_init(&linear, &s.context, 5, 3, 1));
  put(s, cell, "bias_ih", {12}, 20);
  put(s, cell, "bias_hh", {12}, 21);
  T x = tensor(s, {2, 5}, 22), h = tensor(s, {2, 3}, 23), c = tensor(s, {2, 3}, 24), h1, c1;
  OK(aster_ml_lstm_cell_run(&h1.h, &c1.h, &cell, &x.h, nullptr, nullptr));
  expect_near(joined({read(h1), read(c1)}), oracle("lstm_cell.begin"), 2e-6, "begin");
  OK(aster_ml_lstm_cell_run(&h1.h, &c1.h, &cell, &x.h, &h.h, &c.h));
  expect_near(joined({read(h1), read(c1)}), oracle("lstm_cell.run"), 2e-6, "run");

  aster_ml_lazy a{}, b{};
  T wide = tensor(s, {2, 6}, 1), foreign = tensor(other, {2, 5}, 1);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &b, &cell, &wide.h, &h.h, &c.h), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &b, &cell, &x.h, &wide.h, &c.h), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &b, &cell, &x.h, &h.h, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &b, &linear, &x.h, &h.h, &c.h), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &b, &cell, &foreign.h, nullptr, nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &a, &cell, &x.h, &h.h, &c.h), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, nullptr, &cell, &x.h, &h.h, &c.h), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_layer_run(&a, &cell, &x.h, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(a.impl, nullptr);
  EXPECT_EQ(b.impl, nullptr);
}

// The gradient of sum(y * c) by x, against central differences of the same run.
TEST(Layer, BatchNormGradient) {
  Session s;
  Layer norm;
  OK(aster_ml_batch_norm_init(&norm, &s.context, 2, nullptr));
  std::vector<float> x0 = values(12, 1);
  T c = tensor(s, {3, 2, 2}, 3);
  const auto loss = [&](T x) { return sum(run(norm, x, 1) * c); };
  T x = from(s, x0, {3, 2, 2}), y = loss(x), g;
  const aster_ml_lazy* targets[] = {&x.h};
  OK(aster_ml_gradient(&g.h, &y.h, targets, 1, nullptr));
  const std::vector<float> got = read(g);
  for (size_t i = 0; i < x0.size(); ++i) {
    constexpr float kStep = 1e-2f;
    std::vector<float> up = x0, down = x0;
    up[i] += kStep;
    down[i] -= kStep;
    const float difference =
        read(loss(from(s, up, {3, 2, 2})))[0] - read(loss(from(s, down, {3, 2, 2})))[0];
    EXPECT_NEAR(got[i], difference / (2 * kStep), 2e-3) << i;
  }
}

TEST(Layer, RefusesWhatDoesNotFit) {
  Session s, other;
  Layer layer, fine;
  OK(aster_ml_linear_init(&fine, &s.context, 3, 2, 1));
  EXPECT_EQ(aster_ml_linear_init(nullptr, &s.context, 1, 1, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_linear_init(&layer, nullptr, 1, 1, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_linear_init(&layer, &s.context, 0, 1, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_linear_init(&layer, &s.context, 1, -1, 1), ASTER_ML_RANGE);
  EXPECT_NE(aster_ml_linear_init(&layer, &s.context, INT64_MAX, INT64_MAX, 1), ASTER_ML_OK);
  const aster_ml_conv2d_options three = conv_options(3, 0);
  EXPECT_EQ(aster_ml_conv2d_init(&layer, &s.context, 4, 6, 3, 3, 1, &three), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_conv2d_init(&layer, &s.context, 4, 6, 0, 3, 1, nullptr), ASTER_ML_RANGE);
  aster_ml_batch_norm_options bad{};
  bad.struct_size = sizeof(bad);
  bad.eps = -1;
  EXPECT_EQ(aster_ml_batch_norm_init(&layer, &s.context, 2, &bad), ASTER_ML_RANGE);
  bad.eps = std::nan("");
  EXPECT_EQ(aster_ml_batch_norm_init(&layer, &s.context, 2, &bad), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_group_norm_init(&layer, &s.context, 3, 4, 1e-5, 1), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_group_norm_init(&layer, &s.context, 0, 4, 1e-5, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_instance_norm_init(&layer, &s.context, 4, -1, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_layer_norm_init(&layer, &s.context, 0, nullptr, 1e-5, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_layer_norm_init(&layer, &s.context, 1, nullptr, 1e-5, 1), ASTER_ML_ARGUMENT);
  const int64_t negative[] = {2, -1}, huge[] = {INT64_MAX, INT64_MAX};
  EXPECT_EQ(aster_ml_layer_norm_init(&layer, &s.context, 2, negative, 1e-5, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_layer_norm_init(&layer, &s.context, 2, huge, 1e-5, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_layer_norm2d_init(&layer, &s.context, 0, 1e-5, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_rms_norm_init(&layer, &s.context, 4, std::nan(""), 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_embedding_init(&layer, &s.context, 0, 4), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lstm_cell_init(&layer, &s.context, 4, INT64_MAX, 1), ASTER_ML_RANGE);
  EXPECT_EQ(layer.h.impl, nullptr);

  T y, wide = tensor(s, {2, 4}, 1), foreign = tensor(other, {2, 3}, 1);
  EXPECT_EQ(aster_ml_layer_run(&y.h, &fine, &wide.h, 0), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_layer_run(&y.h, &fine, &foreign.h, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_layer_run(&y.h, &layer, &wide.h, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_layer_run(&wide.h, &fine, &wide.h, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(y.h.impl, nullptr);
  Layer norm;
  OK(aster_ml_batch_norm_init(&norm, &s.context, 3, nullptr));
  EXPECT_EQ(aster_ml_layer_run(&y.h, &norm, &wide.h, 1), ASTER_ML_SHAPE);
}

// An empty handle passes through layers, and the first failure stays the one that is told.
TEST(Layer, EmptyHandlesPassOn) {
  Session s;
  Layer linear;
  OK(aster_ml_linear_init(&linear, &s.context, 3, 2, 1));
  T x = tensor(s, {2, 4}, 1), y, z;
  EXPECT_EQ(aster_ml_layer_run(&y.h, &linear, &x.h, 0), ASTER_ML_SHAPE);
  aster_ml_error first{}, second{};
  aster_ml_error_last(&first);
  EXPECT_EQ(aster_ml_layer_run(&z.h, &linear, &y.h, 0), ASTER_ML_SHAPE);
  aster_ml_error_last(&second);
  EXPECT_STREQ(first.message, second.message);
  EXPECT_STREQ(first.function, "aster_ml_layer_run");
}

// Layers outlive scopes and the context's handle.
TEST(Layer, Lifetimes) {
  aster_ml_context context{};
  aster_ml_scope scope{};
  Layer linear;
  OK(aster_ml_context_init(&context, nullptr));
  OK(aster_ml_scope_begin(&scope, &context));
  OK(aster_ml_linear_init(&linear, &context, 2, 2, 1));
  OK(aster_ml_scope_end(&scope));
  aster_ml_lazy weight{};
  OK(aster_ml_layer_get(&weight, &linear, "weight"));
  OK(aster_ml_context_free(&context));
  OK(aster_ml_layer_free(&linear));
  float w[4];
  OK(aster_ml_lazy_copy_out(w, sizeof(w), &weight));
  EXPECT_LE(std::fabs(w[0]), 1 / std::sqrt(2.0f));
  OK(aster_ml_lazy_free(&weight));
}

}  // namespace
}  // namespace nn_test
