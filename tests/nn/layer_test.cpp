#include <unistd.h>

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

// The same seed gives the parameters that tinygrad's layers begin with, but for the rounding of
// low + (high - low) * uniform.
TEST(Layer, BeginsAndRunsAsTinygrad) {
  Session s;
  OK(aster_ml_lazy_manual_seed(&s.context, 7));
  Layer linear, conv;
  const aster_ml_conv2d_options options = conv_options(2, 1);
  OK(aster_ml_linear_init(&linear, &s.context, 5, 3, 1));
  OK(aster_ml_conv2d_init(&conv, &s.context, 4, 6, 3, 2, 1, &options));
  expect_near(joined({read(get(linear, "weight")), read(get(linear, "bias"))}),
              oracle("linear.init"), 5e-8, "linear");
  expect_near(joined({read(get(conv, "weight")), read(get(conv, "bias"))}), oracle("conv2d.init"),
              5e-8, "conv2d");
  expect_near(read(run(linear, tensor(s, {2, 4, 5}, 4))), oracle("linear.run"), 1e-6, "linear");
  expect_near(read(run(conv, tensor(s, {2, 4, 5, 5}, 5))), oracle("conv2d.run"), 1e-6, "conv2d");
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
  Layer norm, nothing;
  aster_ml_batch_norm_options options{};
  options.struct_size = sizeof(options);
  options.no_affine = 1;
  OK(aster_ml_batch_norm_init(&norm, &s.context, 3, &options));
  expect_near(read(run(norm, tensor(s, {4, 3, 2, 2}, 11), 1)), oracle("batch_norm.plain"), 2e-6,
              "plain");
  options.no_track = 1;
  EXPECT_EQ(aster_ml_batch_norm_init(&nothing, &s.context, 3, &options), ASTER_ML_UNSUPPORTED);
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
