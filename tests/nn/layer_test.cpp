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
  OK(aster_ml_lazy_manual_seed(s.get(), 7));
  Layer linear, conv;
  const aster_ml_conv2d_options options = conv_options(2, 1);
  OK(aster_ml_linear_init(&linear, s.get(), 5, 3, 1));
  OK(aster_ml_conv2d_init(&conv, s.get(), 4, 6, 3, 2, 1, &options));
  expect_near(joined({read(get(linear, "weight")), read(get(linear, "bias"))}),
              oracle("linear.init"), 0, "linear");
  expect_near(joined({read(get(conv, "weight")), read(get(conv, "bias"))}), oracle("conv2d.init"),
              0, "conv2d");
  expect_near(read(run(linear, tensor({2, 4, 5}, 4))), oracle("linear.run"), 1e-6, "linear");
  expect_near(read(run(conv, tensor({2, 4, 5, 5}, 5))), oracle("conv2d.run"), 1e-6, "conv2d");
}

TEST(Layer, ConvolutionsOfAnyRankFollowTinygrad) {
  Session s;
  OK(aster_ml_lazy_manual_seed(s.get(), 9));
  const int64_t three[] = {3}, two[] = {2}, one[] = {1}, cube[] = {2, 3, 2}, twice[] = {2, 2, 2};
  const int64_t plane[] = {3, 2};
  aster_ml_conv_options strided{}, padded{}, back{}, dilated{};
  for (aster_ml_conv_options* o : {&strided, &padded, &back, &dilated}) o->struct_size = sizeof(*o);
  strided.groups = back.groups = 2;
  strided.stride = back.stride = two;
  strided.before = strided.after = back.before = back.after = back.output_padding = one;
  padded.dilation = dilated.dilation = twice;
  Layer conv1d, conv3d, back1d, back2d;
  OK(aster_ml_conv_init(&conv1d, s.get(), 4, 6, 1, three, 1, &strided));
  {
    // tinygrad lists padding from the last axis on. The lists need not outlive the call.
    const int64_t before[] = {0, 2, 1}, after[] = {1, 1, 0};
    padded.before = before;
    padded.after = after;
    OK(aster_ml_conv_init(&conv3d, s.get(), 2, 3, 3, cube, 0, &padded));
  }
  OK(aster_ml_conv_transpose_init(&back1d, s.get(), 4, 6, 1, three, 1, &back));
  OK(aster_ml_conv_transpose_init(&back2d, s.get(), 2, 3, 2, plane, 1, &dilated));
  const auto parameters = [](Layer& layer) {
    return joined({read(get(layer, "weight")), read(get(layer, "bias"))});
  };
  expect_near(parameters(conv1d), oracle("conv1d.init"), 0, "conv1d");
  expect_near(read(get(conv3d, "weight")), oracle("conv3d.init"), 0, "conv3d");
  expect_near(parameters(back1d), oracle("conv_transpose1d.init"), 0, "conv_transpose1d");
  expect_near(parameters(back2d), oracle("conv_transpose2d.init"), 0, "conv_transpose2d");
  expect_near(read(run(conv1d, tensor({2, 4, 9}, 40))), oracle("conv1d.run"), 1e-6, "conv1d");
  expect_near(read(run(conv3d, tensor({1, 2, 4, 5, 5}, 41))), oracle("conv3d.run"), 1e-6, "conv3d");
  expect_near(read(run(back1d, tensor({2, 4, 5}, 42))), oracle("conv_transpose1d.run"), 1e-6,
              "conv_transpose1d");
  expect_near(read(run(back2d, tensor({1, 2, 3, 4}, 43))), oracle("conv_transpose2d.run"), 1e-6,
              "conv_transpose2d");
  State state;
  OK(aster_ml_state_init(&state, s.get()));
  OK(aster_ml_state_set_layer(&state, nullptr, &back1d));
  EXPECT_STREQ(aster_ml_state_name(&state, 0), "weight");
  EXPECT_STREQ(aster_ml_state_name(&state, 1), "bias");

  Layer none;
  strided.groups = 4;
  EXPECT_EQ(aster_ml_conv_init(&none, s.get(), 4, 6, 1, three, 1, &strided), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_conv_init(&none, s.get(), 4, 6, 0, three, 1, nullptr), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_conv_init(&none, s.get(), 4, 6, 1, nullptr, 1, nullptr), ASTER_ML_ARGUMENT);
  const int64_t nothing[] = {0};
  EXPECT_EQ(aster_ml_conv_transpose_init(&none, s.get(), 4, 6, 1, nothing, 1, nullptr),
            ASTER_ML_RANGE);
  EXPECT_EQ(none.h.impl, nullptr);
}

TEST(Layer, BiasMayBeLeftOut) {
  Session s;
  Layer linear;
  OK(aster_ml_linear_init(&linear, s.get(), 2, 2, 0));
  Tensor weight = get(linear, "weight");
  aster_ml_lazy none{};
  EXPECT_EQ(aster_ml_layer_get(&none, &linear, "bias"), ASTER_ML_NOT_FOUND);
  EXPECT_OK(realize(weight));
  const std::vector<float> w = read(weight),
                           y = read(run(linear, Tensor(std::vector<float>{2, 3}, {1, 2})));
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
  OK(aster_ml_batch_norm_init(&norm, s.get(), 3, &options));
  State own, given;
  OK(aster_ml_state_init(&own, s.get()));
  OK(aster_ml_state_set_layer(&own, nullptr, &norm));
  // Weights by way of a state, statistics as they are.
  OK(aster_ml_state_init(&given, s.get()));
  for (const char* name :
       {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}) {
    Tensor x = get(own, name);
    if (name == std::string("weight")) x = tensor({3}, 6);
    if (name == std::string("bias")) x = tensor({3}, 7);
    OK(aster_ml_state_set(&given, name, x.get(), 0));
  }
  OK(aster_ml_state_load(&own, &given));
  for (int step = 0; step < 2; ++step) {
    Tensor y = run(norm, tensor({4, 3, 2, 2}, 8 + step), 1);
    OK(aster_ml_state_realize(&own));
    const auto got =
        joined({read(y), read(get(norm, "running_mean")), read(get(norm, "running_var"))});
    expect_near(got, oracle("batch_norm." + std::to_string(step)), 2e-6, "batch_norm");
  }
  int64_t batches = 0;
  Tensor counter = get(norm, "num_batches_tracked");
  OK(aster_ml_lazy_copy_out(&batches, sizeof(batches), counter.get()));
  EXPECT_EQ(batches, 2);
  expect_near(read(run(norm, tensor({4, 3, 2, 2}, 10))), oracle("batch_norm.run"), 2e-6, "run");
}

TEST(Layer, BatchNormWithoutParameters) {
  Session s;
  Layer norm, bare;
  aster_ml_batch_norm_options options{};
  options.struct_size = sizeof(options);
  options.no_affine = 1;
  OK(aster_ml_batch_norm_init(&norm, s.get(), 3, &options));
  expect_near(read(run(norm, tensor({4, 3, 2, 2}, 11), 1)), oracle("batch_norm.plain"), 2e-6,
              "plain");
  options.no_track = 1;
  OK(aster_ml_batch_norm_init(&bare, s.get(), 3, &options));
  expect_near(read(run(bare, tensor({4, 3, 2, 2}, 11), 0)), oracle("batch_norm.plain"), 2e-6,
              "bare");
  Tensor counter = get(bare, "num_batches_tracked"), wide = tensor({4, 4}, 1);
  aster_ml_lazy y{};
  EXPECT_EQ(aster_ml_lazy_ndim(counter.get()), 0u);
  EXPECT_EQ(aster_ml_layer_run(&y, &bare, wide.get(), 0), ASTER_ML_SHAPE);
}

// Puts values under the names of a layer's parameters.
void put(Layer& layer, const char* name, const Shape& shape, int seed) {
  Tensor to = get(layer, name), x = tensor(shape, seed);
  OK(to.realize());
  OK(to.assign(x));
  OK(to.realize());
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
    OK(row.init(&layer.h, s.get()));
    aster_ml_lazy none{};
    if (row.weight.empty()) {
      EXPECT_EQ(aster_ml_layer_get(&none, &layer, "weight"), ASTER_ML_NOT_FOUND) << row.name;
    } else {
      put(layer, "weight", row.weight, 30);
    }
    if (row.bias) put(layer, "bias", row.weight, 31);
    expect_near(read(run(layer, tensor(row.x, 32))), oracle(row.name), 2e-6, row.name);
    // In another dtype, the values the same but for their rounding.
    Tensor half = cast(tensor(row.x, 32), ASTER_ML_DTYPE_BFLOAT16);
    expect_near(read(cast(run(layer, half), ASTER_ML_DTYPE_FLOAT32)), oracle(row.name), 2e-2,
                row.name);
    Shape wrong = row.x;
    for (int64_t& dim : wrong) ++dim;
    Tensor x = tensor(wrong, 1);
    if (!row.weight.empty()) {
      EXPECT_EQ(aster_ml_layer_run(&none, &layer, x.get(), 0), ASTER_ML_SHAPE) << row.name;
    }
  }
}

TEST(Layer, EmbeddingFollowsTinygrad) {
  Session s;
  OK(aster_ml_lazy_manual_seed(s.get(), 8));
  Layer embedding, cell;
  OK(aster_ml_embedding_init(&embedding, s.get(), 6, 5));
  OK(aster_ml_lstm_cell_init(&cell, s.get(), 5, 3, 1));
  Tensor weight = get(embedding, "weight");
  expect_near(read(weight), oracle("embedding.init"), 0, "embedding");
  expect_near(joined({read(get(cell, "weight_ih")), read(get(cell, "weight_hh")),
                      read(get(cell, "bias_ih")), read(get(cell, "bias_hh"))}),
              oracle("lstm_cell.init"), 0, "lstm_cell");
  Tensor index = Tensor(std::vector<int32_t>{0, 5, 2, 2, 7, -1}, {2, 3});
  Tensor rows = run(embedding, index);
  ASSERT_EQ(aster_ml_lazy_ndim(rows.get()), 3u);
  expect_near(read(rows), oracle("embedding.run"), 0, "rows");
  // A row's gradient is the sum over its uses.
  Tensor c = tensor({2, 3, 5}, 9), loss = (run(embedding, index) * c).sum();
  const Tensor g = loss.gradient(weight);
  std::vector<float> expected(30);
  const std::vector<float> by = values(30, 9);
  const int used[] = {0, 5, 2, 2};
  for (size_t i = 0; i < 4; ++i) {
    for (size_t k = 0; k < 5; ++k) expected[static_cast<size_t>(used[i]) * 5 + k] += by[i * 5 + k];
  }
  expect_near(read(g), expected, 1e-6, "gradient");
  Tensor floats = tensor({2}, 1);
  aster_ml_lazy none{};
  EXPECT_EQ(aster_ml_layer_run(&none, &embedding, floats.get(), 0), ASTER_ML_DTYPE);
}

TEST(Layer, LstmCellFollowsTinygrad) {
  Session other;
  const Tensor foreign = tensor({2, 5}, 1);
  Session s;
  OK(aster_ml_lazy_manual_seed(s.get(), 8));
  Layer embedding, cell, linear;
  OK(aster_ml_embedding_init(&embedding, s.get(), 6, 5));
  OK(aster_ml_lstm_cell_init(&cell, s.get(), 5, 3, 1));
  OK(aster_ml_linear_init(&linear, s.get(), 5, 3, 1));
  put(cell, "bias_ih", {12}, 20);
  put(cell, "bias_hh", {12}, 21);
  Tensor x = tensor({2, 5}, 22), h = tensor({2, 3}, 23), c = tensor({2, 3}, 24);
  const auto step = [&](const aster_ml_lazy* from_h, const aster_ml_lazy* from_c) {
    aster_ml_lazy h1{}, c1{};
    EXPECT_OK(aster_ml_lstm_cell_run(&h1, &c1, &cell, x.get(), from_h, from_c));
    return joined({read(Tensor(std::move(h1), s.root())), read(Tensor(std::move(c1), s.root()))});
  };
  expect_near(step(nullptr, nullptr), oracle("lstm_cell.begin"), 2e-6, "begin");
  expect_near(step(h.get(), c.get()), oracle("lstm_cell.run"), 2e-6, "run");

  aster_ml_lazy a{}, b{};
  Tensor wide = tensor({2, 6}, 1);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &b, &cell, wide.get(), h.get(), c.get()), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &b, &cell, x.get(), wide.get(), c.get()), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &b, &cell, x.get(), h.get(), nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &b, &linear, x.get(), h.get(), c.get()), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &b, &cell, foreign.get(), nullptr, nullptr),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, &a, &cell, x.get(), h.get(), c.get()), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_lstm_cell_run(&a, nullptr, &cell, x.get(), h.get(), c.get()),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_layer_run(&a, &cell, x.get(), 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(a.impl, nullptr);
  EXPECT_EQ(b.impl, nullptr);
}

// The gradient of (y * c).sum() by x, against central differences of the same run.
TEST(Layer, BatchNormGradient) {
  Session s;
  Layer norm;
  OK(aster_ml_batch_norm_init(&norm, s.get(), 2, nullptr));
  std::vector<float> x0 = values(12, 1);
  Tensor c = tensor({3, 2, 2}, 3);
  const auto loss = [&](const Tensor& x) { return (run(norm, x, 1) * c).sum(); };
  Tensor x = Tensor(x0, {3, 2, 2}), y = loss(x);
  const std::vector<float> got = read(y.gradient(x));
  for (size_t i = 0; i < x0.size(); ++i) {
    constexpr float kStep = 1e-2f;
    std::vector<float> up = x0, down = x0;
    up[i] += kStep;
    down[i] -= kStep;
    const float difference =
        read(loss(Tensor(up, {3, 2, 2})))[0] - read(loss(Tensor(down, {3, 2, 2})))[0];
    EXPECT_NEAR(got[i], difference / (2 * kStep), 2e-3) << i;
  }
}

TEST(Layer, RefusesWhatDoesNotFit) {
  Session other;
  const Tensor foreign = tensor({2, 3}, 1);
  Session s;
  Layer layer, fine;
  OK(aster_ml_linear_init(&fine, s.get(), 3, 2, 1));
  EXPECT_EQ(aster_ml_linear_init(nullptr, s.get(), 1, 1, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_linear_init(&layer, nullptr, 1, 1, 1), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_linear_init(&layer, s.get(), 0, 1, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_linear_init(&layer, s.get(), 1, -1, 1), ASTER_ML_RANGE);
  EXPECT_NE(aster_ml_linear_init(&layer, s.get(), INT64_MAX, INT64_MAX, 1), ASTER_ML_OK);
  const aster_ml_conv2d_options three = conv_options(3, 0);
  EXPECT_EQ(aster_ml_conv2d_init(&layer, s.get(), 4, 6, 3, 3, 1, &three), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_conv2d_init(&layer, s.get(), 4, 6, 0, 3, 1, nullptr), ASTER_ML_RANGE);
  aster_ml_batch_norm_options bad{};
  bad.struct_size = sizeof(bad);
  bad.eps = -1;
  EXPECT_EQ(aster_ml_batch_norm_init(&layer, s.get(), 2, &bad), ASTER_ML_RANGE);
  bad.eps = std::nan("");
  EXPECT_EQ(aster_ml_batch_norm_init(&layer, s.get(), 2, &bad), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_group_norm_init(&layer, s.get(), 3, 4, 1e-5, 1), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_group_norm_init(&layer, s.get(), 0, 4, 1e-5, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_instance_norm_init(&layer, s.get(), 4, -1, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_layer_norm_init(&layer, s.get(), 0, nullptr, 1e-5, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_layer_norm_init(&layer, s.get(), 1, nullptr, 1e-5, 1), ASTER_ML_ARGUMENT);
  const int64_t negative[] = {2, -1}, huge[] = {INT64_MAX, INT64_MAX};
  EXPECT_EQ(aster_ml_layer_norm_init(&layer, s.get(), 2, negative, 1e-5, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_layer_norm_init(&layer, s.get(), 2, huge, 1e-5, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_layer_norm2d_init(&layer, s.get(), 0, 1e-5, 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_rms_norm_init(&layer, s.get(), 4, std::nan(""), 1), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_embedding_init(&layer, s.get(), 0, 4), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_lstm_cell_init(&layer, s.get(), 4, INT64_MAX, 1), ASTER_ML_RANGE);
  EXPECT_EQ(layer.h.impl, nullptr);

  Tensor wide = tensor({2, 4}, 1);
  aster_ml_lazy y{};
  EXPECT_EQ(aster_ml_layer_run(&y, &fine, wide.get(), 0), ASTER_ML_SHAPE);
  EXPECT_EQ(aster_ml_layer_run(&y, &fine, foreign.get(), 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_layer_run(&y, &layer, wide.get(), 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_layer_run(wide.get(), &fine, wide.get(), 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(y.impl, nullptr);
  Layer norm;
  OK(aster_ml_batch_norm_init(&norm, s.get(), 3, nullptr));
  EXPECT_EQ(aster_ml_layer_run(&y, &norm, wide.get(), 1), ASTER_ML_SHAPE);
}

// An empty handle passes through layers, and the first failure stays the one that is told.
TEST(Layer, EmptyHandlesPassOn) {
  Session s;
  Layer linear;
  OK(aster_ml_linear_init(&linear, s.get(), 3, 2, 1));
  Tensor x = tensor({2, 4}, 1);
  aster_ml_lazy y{}, z{};
  EXPECT_EQ(aster_ml_layer_run(&y, &linear, x.get(), 0), ASTER_ML_SHAPE);
  aster_ml_error first{}, second{};
  aster_ml_error_last(&first);
  EXPECT_EQ(aster_ml_layer_run(&z, &linear, &y, 0), ASTER_ML_SHAPE);
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

TEST(Layer, ParametersAreOfTheDefaultFloat) {
  Session s;
  for (const int32_t dtype : {ASTER_ML_DTYPE_FLOAT16, ASTER_ML_DTYPE_FLOAT64}) {
    OK(aster_ml_engine_set_default_dtype(s.get(), dtype));
    Layer linear, norm, cell;
    OK(aster_ml_linear_init(&linear, s.get(), 2, 3, 1));
    OK(aster_ml_batch_norm_init(&norm, s.get(), 3, nullptr));
    OK(aster_ml_lstm_cell_init(&cell, s.get(), 2, 3, 1));
    for (const auto& [layer, name] : {std::pair(&linear, "weight"), std::pair(&linear, "bias"),
                                      std::pair(&norm, "weight"), std::pair(&norm, "running_var"),
                                      std::pair(&cell, "weight_hh"), std::pair(&cell, "bias_ih")}) {
      Tensor t = make(aster_ml_layer_get, layer, name);
      EXPECT_EQ(aster_ml_lazy_dtype(t.get()), dtype) << name;
    }
  }
}

}  // namespace
}  // namespace nn_test
