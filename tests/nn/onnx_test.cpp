// Models of ONNX: written by a small writer of protobuf, run by the library, results compared with
// loops. The suite of the package onnx is run by onnx/suite.py.
#include "aster_ml/onnx.h"

#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <random>

#include "nn/onnx_world.h"

namespace nn_test {
namespace {

// relu(x w + b)
std::string layer_model() {
  return model_of(
      node("MatMul", {"x", "w"}, {"p"}) + node("Add", {"p", "b"}, {"s"}) +
      node("Relu", {"s"}, {"y"}) + weight(floats_message("w", {3, 2}, {1, -2, 3, 4, -5, 6})) +
      weight(floats_message("b", {2}, {0.5f, -1})) + input("x", {-1, 3}) + output("y", {-1, 2}));
}
// Adds 1 as often as n says.
std::string loop_model() {
  const std::string body = node("Identity", {"c"}, {"d"}) + node("Add", {"v", "one"}, {"w"}) +
                           node("Identity", {"w"}, {"z"}) + weight(floats_message("one", {}, {1})) +
                           input("i", {}, 7) + input("c", {}, 9) + input("v", {}) +
                           output("d", {}, 9) + output("w", {}) + output("z", {});
  return model_of(node("Loop", {"n", "", "x"}, {"y", "all"}, graph_attribute("body", body)) +
                  input("n", {}, 7) + input("x", {}) + output("y", {}) + output("all", {-1}));
}
// Reads a shape, computes another from it: y is x as [rows, the rest].
std::string shape_model(const std::vector<int64_t>& sizes = {-1, -2, -3}) {
  return model_of(node("Shape", {"x"}, {"s"}) + node("Gather", {"s", "first"}, {"r"}) +
                  node("Concat", {"r", "rest"}, {"t"}, attribute("axis", 0)) +
                  node("Reshape", {"x", "t"}, {"y"}) +
                  weight(tensor_message("first", 7, {1}, raw<int64_t>({0}))) +
                  weight(tensor_message("rest", 7, {1}, raw<int64_t>({-1}))) + input("x", sizes) +
                  output("y", {-1, -4}));
}

// The slope of x x at x.
std::string gradient_model() {
  const auto texts = [](const std::string& name, const std::string& text, bool list) {
    return bytes(5, bytes(1, name) + bytes(list ? 9 : 4, text) + integer(20, list ? 8 : 3));
  };
  const std::string domain = "ai.onnx.preview.training";
  return model_of(
      node("Mul", {"x", "x"}, {"y"}) +
          node("Gradient", {"x"}, {"d"}, texts("xs", "x", true) + texts("y", "y", false), domain) +
          input("x", {-1}) + output("d", {-1}),
      20, bytes(8, bytes(1, domain) + integer(2, 1)));
}

TEST_F(Models, ALayerRunsForEveryBatch) {
  const std::vector<float> w = {1, -2, 3, 4, -5, 6}, b = {0.5f, -1};
  aster_ml_onnx model{};
  ASSERT_EQ(open(&model, layer_model()), 0) << error();
  EXPECT_STREQ(aster_ml_onnx_input_name(&model, 0), "x");
  EXPECT_STREQ(aster_ml_onnx_output_name(&model, 0), "y");
  EXPECT_STREQ(aster_ml_onnx_input_axis_name(&model, 0, 0), "n1");
  EXPECT_EQ(aster_ml_onnx_input_axis_name(&model, 0, 1), nullptr);
  EXPECT_EQ(aster_ml_onnx_input_count(&model), 1u);
  EXPECT_EQ(aster_ml_onnx_opset(&model, "ai.onnx"), 20);
  aster_ml_onnx_type type{};
  type.struct_size = sizeof(type);
  ASSERT_EQ(aster_ml_onnx_input_type(&type, &model, 0), 0);
  EXPECT_EQ(type.kind, ASTER_ML_ONNX_TENSOR);
  EXPECT_EQ(type.ndim, 2);
  EXPECT_EQ(aster_ml_onnx_input_dim(&model, 0, 0), -1);
  EXPECT_EQ(aster_ml_onnx_input_dim(&model, 0, 1), 3);
  EXPECT_EQ(aster_ml_onnx_output_dim(&model, 0, 1), 2);
  EXPECT_EQ(aster_ml_onnx_output_dim(&model, 1, 0), -1);
  EXPECT_EQ(type.dtype, ASTER_ML_DTYPE_FLOAT32);
  for (const int64_t batch : {1, 4}) {
    const std::vector<float> x = values(static_cast<size_t>(batch * 3), 3);
    aster_ml_onnx_value results{};
    ASSERT_EQ(run(&results, model, {floats_message("", {batch, 3}, x)}), 0) << error();
    const std::vector<float> y = floats(results, 0);
    ASSERT_EQ(y.size(), static_cast<size_t>(batch) * 2);
    for (size_t i = 0; i < y.size(); ++i) {
      float expected = b[i % 2];
      for (size_t k = 0; k < 3; ++k) expected += x[i / 2 * 3 + k] * w[k * 2 + i % 2];
      EXPECT_NEAR(y[i], expected > 0 ? expected : 0, 1e-5);
    }
    aster_ml_onnx_value_free(&results);
  }
  aster_ml_onnx_free(&model);
}

// Every size is that of other rows; what is computed is compared with loops.
TEST_F(Models, OneProgramServesManySizes) {
  const std::vector<float> w = {1, -2, 3, 4, -5, 6}, b = {0.5f, -1};
  aster_ml_onnx model{};
  computes_ = true;
  ASSERT_EQ(open(&model, layer_model()), 0) << error();
  uint64_t before = 0;
  for (const int64_t batch : {1, 8, 5, 3, 7, 2, 8, 1}) {
    const std::vector<float> x = values(static_cast<size_t>(batch * 3), static_cast<int>(batch));
    aster_ml_onnx_value results{};
    ASSERT_EQ(run(&results, model, {floats_message("", {batch, 3}, x)}), 0) << error();
    const std::vector<float> y = floats(results, 0);
    ASSERT_EQ(y.size(), static_cast<size_t>(batch) * 2);
    for (size_t i = 0; i < y.size(); ++i) {
      float expected = b[i % 2];
      for (size_t k = 0; k < 3; ++k) expected += x[i / 2 * 3 + k] * w[k * 2 + i % 2];
      EXPECT_NEAR(y[i], expected > 0 ? expected : 0, 1e-5) << batch;
    }
    aster_ml_onnx_value_free(&results);
    // The first two sizes are compiled for, and no other.
    if (batch == 5) before = scheduled();
  }
  EXPECT_EQ(scheduled(), before);
  EXPECT_EQ(aster_ml_onnx_program_count(&model, 0), 2u);
  EXPECT_EQ(aster_ml_onnx_program_count(&model, 1), 1u);
  EXPECT_EQ(aster_ml_onnx_refusal(&model), nullptr);
  aster_ml_onnx_free(&model);
}

TEST_F(Models, ShapesThatAreComputedStaySymbolic) {
  aster_ml_onnx model{};
  computes_ = true;
  ASSERT_EQ(open(&model, shape_model({-1, 2, 3})), 0) << error();
  for (const int64_t rows : {2, 4, 3}) {
    const std::vector<float> x = values(static_cast<size_t>(rows * 6), static_cast<int>(rows));
    aster_ml_onnx_value results{}, y{};
    ASSERT_EQ(run(&results, model, {floats_message("", {rows, 2, 3}, x)}), 0) << error();
    ASSERT_EQ(aster_ml_onnx_value_at(&y, &results, 0), 0);
    EXPECT_EQ(aster_ml_onnx_value_dim(&y, 0), rows);
    EXPECT_EQ(aster_ml_onnx_value_dim(&y, 1), 6);
    EXPECT_EQ(floats(results, 0), x);
    aster_ml_onnx_value_free(&y);
    aster_ml_onnx_value_free(&results);
  }
  EXPECT_EQ(aster_ml_onnx_program_count(&model, 1), 1u);
  EXPECT_EQ(aster_ml_onnx_refusal(&model), nullptr);
  aster_ml_onnx_free(&model);
}

TEST_F(Models, WhatHasNoRuleIsBuiltForEachSize) {
  aster_ml_onnx model{};
  computes_ = true;
  ASSERT_EQ(open(&model, model_of(node("Tile", {"x", "times"}, {"y"}) +
                                  weight(tensor_message("times", 7, {1}, raw<int64_t>({2}))) +
                                  input("x", {-1}) + output("y", {-2}))),
            0);
  for (const int64_t count : {2, 3, 4}) {
    std::vector<float> x = values(static_cast<size_t>(count), static_cast<int>(count));
    aster_ml_onnx_value results{};
    ASSERT_EQ(run(&results, model, {floats_message("", {count}, x)}), 0) << error();
    x.insert(x.end(), x.begin(), x.begin() + count);
    EXPECT_EQ(floats(results, 0), x);
    aster_ml_onnx_value_free(&results);
  }
  EXPECT_EQ(aster_ml_onnx_program_count(&model, 0), 3u);
  EXPECT_EQ(aster_ml_onnx_program_count(&model, 1), 0u);
  ASSERT_NE(aster_ml_onnx_refusal(&model), nullptr);
  EXPECT_NE(std::string(aster_ml_onnx_refusal(&model)).find("Tile"), std::string::npos);
  aster_ml_onnx_free(&model);
  // What decides by what inputs are has no program.
  ASSERT_EQ(open(&model, loop_model()), 0);
  for (const int64_t turns : {5, 3}) {
    aster_ml_onnx_value results{};
    ASSERT_EQ(run(&results, model,
                  {tensor_message("", 7, {}, raw<int64_t>({turns})), floats_message("", {}, {2})}),
              0)
        << error();
    EXPECT_EQ(floats(results, 0), std::vector<float>{2 + static_cast<float>(turns)});
    aster_ml_onnx_value_free(&results);
  }
  EXPECT_EQ(aster_ml_onnx_program_count(&model, 0), 0u);
  aster_ml_onnx_free(&model);
  EXPECT_EQ(aster_ml_onnx_program_count(&model, 0), 0u);
  EXPECT_EQ(aster_ml_onnx_refusal(nullptr), nullptr);
}

TEST_F(Models, LoopsAndShapesAreFollowed) {
  aster_ml_onnx_value results{};
  ASSERT_EQ(run(&results, loop_model(),
                {tensor_message("", 7, {}, raw<int64_t>({5})), floats_message("", {}, {2})}),
            0)
      << error();
  EXPECT_EQ(floats(results, 0), std::vector<float>{7});
  EXPECT_EQ(floats(results, 1), (std::vector<float>{3, 4, 5, 6, 7}));
  aster_ml_onnx_value_free(&results);
  ASSERT_EQ(run(&results, shape_model(), {floats_message("", {2, 2, 3}, values(12, 1))}), 0)
      << error();
  aster_ml_onnx_value y{};
  ASSERT_EQ(aster_ml_onnx_value_at(&y, &results, 0), 0);
  EXPECT_EQ(aster_ml_onnx_value_ndim(&y), 2u);
  EXPECT_EQ(aster_ml_onnx_value_dim(&y, 1), 6);
  EXPECT_EQ(aster_ml_onnx_value_element(&y), 1);
  aster_ml_onnx_value_free(&y);
  aster_ml_onnx_value_free(&results);
}

TEST_F(Models, ValuesAreReadAndWritten) {
  // Every element of packed types comes back as it went in.
  for (const int type : {21, 22, 23, 24, 25, 26}) {
    const std::string data = std::string("\x21\x4f\x07\xd3", 4);
    const int64_t count = type >= 25 ? 16 : type == 24 ? 4 : 8;
    aster_ml_onnx_value one = value(tensor_message("", type, {count}, data));
    EXPECT_EQ(aster_ml_onnx_value_element(&one), type);
    size_t size = 0;
    ASSERT_EQ(aster_ml_onnx_value_to_proto(nullptr, &size, 0, &one, ASTER_ML_ONNX_TENSOR), 0);
    std::string message(size + 1, '\0');
    ASSERT_EQ(aster_ml_onnx_value_to_proto(message.data(), &size, message.size(), &one,
                                           ASTER_ML_ONNX_TENSOR),
              0);
    EXPECT_NE(message.find(bytes(9, data)), std::string::npos) << type;
    EXPECT_EQ(aster_ml_onnx_value_to_proto(message.data(), &size, 3, &one, ASTER_ML_ONNX_TENSOR),
              ASTER_ML_RANGE);
    EXPECT_EQ(aster_ml_onnx_value_to_proto(nullptr, &size, 0, &one, ASTER_ML_ONNX_SEQUENCE),
              ASTER_ML_DTYPE);
    aster_ml_onnx_value_free(&one);
  }
  const char* texts[] = {"a", "", "long text"};
  const int64_t shape[] = {3, 1};
  aster_ml_onnx_value words{}, list{}, none{}, item{};
  ASSERT_EQ(aster_ml_onnx_value_from_texts(&words, &context_, texts, 3, 2, shape), 0);
  EXPECT_EQ(aster_ml_onnx_value_count(&words), 3u);
  EXPECT_STREQ(aster_ml_onnx_value_text(&words, 2), "long text");
  EXPECT_EQ(aster_ml_onnx_value_text(&words, 3), nullptr);
  EXPECT_EQ(aster_ml_onnx_value_ndim(&words), 2u);
  aster_ml_lazy lazy{};
  EXPECT_EQ(aster_ml_onnx_value_get(&lazy, &words), ASTER_ML_DTYPE);
  ASSERT_EQ(aster_ml_onnx_value_init(&list, &context_, ASTER_ML_ONNX_SEQUENCE), 0);
  ASSERT_EQ(aster_ml_onnx_value_init(&none, &context_, ASTER_ML_ONNX_NONE), 0);
  EXPECT_EQ(aster_ml_onnx_value_init(&item, &context_, ASTER_ML_ONNX_OPTIONAL), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_onnx_value_push(&list, &words), 0);
  EXPECT_EQ(aster_ml_onnx_value_push(&list, &list), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_onnx_value_push(&none, &words), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_onnx_value_kind(&none), ASTER_ML_ONNX_NONE);
  EXPECT_EQ(aster_ml_onnx_value_kind(&list), ASTER_ML_ONNX_SEQUENCE);
  EXPECT_EQ(aster_ml_onnx_value_at(&item, &list, 1), ASTER_ML_RANGE);
  ASSERT_EQ(aster_ml_onnx_value_at(&item, &list, 0), 0);
  EXPECT_STREQ(aster_ml_onnx_value_text(&item, 0), "a");
  for (aster_ml_onnx_value* one : {&words, &list, &none, &item}) aster_ml_onnx_value_free(one);
}

TEST_F(Models, ATensorGoesInAndComesOut) {
  aster_ml_lazy x{}, y{};
  const double numbers[] = {1, 2, 3};
  aster_ml_tensor held{};
  const size_t three = 3;
  ASSERT_EQ(aster_ml_tensor_from_data(&held, &context_, numbers, ASTER_ML_DTYPE_FLOAT64, 1, &three),
            0);
  ASSERT_EQ(aster_ml_lazy_from_tensor(&x, &context_, &held), 0);
  aster_ml_onnx_value value{};
  ASSERT_EQ(aster_ml_onnx_value_from_lazy(&value, &x), 0);
  EXPECT_EQ(aster_ml_onnx_value_element(&value), 11);
  ASSERT_EQ(aster_ml_onnx_value_get(&y, &value), 0);
  EXPECT_EQ(aster_ml_lazy_dtype(&y), ASTER_ML_DTYPE_FLOAT64);
  aster_ml_onnx_value_free(&value);
  aster_ml_lazy_free(&x);
  aster_ml_lazy_free(&y);
  aster_ml_tensor_free(&held);
  EXPECT_EQ(aster_ml_onnx_has_operator("", "Conv", 11), 1);
  EXPECT_EQ(aster_ml_onnx_has_operator("ai.onnx", "Attention", 22), 0);
}

// ---- Bad input ----

TEST_F(Models, WhatIsNoModelIsRefused) {
  const std::string relu = node("Relu", {"x"}, {"y"}) + input("x", {2}) + output("y", {2});
  const std::string x = floats_message("", {2}, {1, -1});
  struct Bad {
    std::string model;
    int32_t status;
    std::string says;
  };
  std::string deep = relu;
  for (int i = 0; i < 100; ++i)
    deep = node("If", {"c"}, {"y"}, graph_attribute("then_branch", deep)) + output("y", {2});
  const std::vector<Bad> all = {
      {"", ASTER_ML_FORMAT, "no graph"},
      {model_of(relu, 99), ASTER_ML_UNSUPPORTED, "opset 99"},
      {model_of(node("Nothing", {"x"}, {"y"}) + input("x", {2}) + output("y", {2})),
       ASTER_ML_UNSUPPORTED, "Nothing"},
      {model_of(node("Relu", {"z"}, {"y"}) + node("Relu", {"y"}, {"z"}) + input("x", {2}) +
                output("y", {2})),
       ASTER_ML_FORMAT, "'z'"},
      {model_of(node("Relu", {"x"}, {"q"}) + input("x", {2}) + output("y", {2})), ASTER_ML_FORMAT,
       "'y'"},
      {model_of(node("Relu", {}, {"y"}) + input("x", {2}) + output("y", {2})), ASTER_ML_ARGUMENT,
       "operand 0"},
      {model_of(deep), ASTER_ML_FORMAT, "nested"},
      {model_of(node("Add", {"x", "w"}, {"y"}) + weight(floats_message("w", {3}, {1, 2, 3})) +
                input("x", {2}) + output("y", {2})),
       ASTER_ML_SHAPE, "broadcast"},
      {model_of(node("Add", {"x", "w"}, {"y"}) + weight(floats_message("w", {3}, {1, 2})) +
                input("x", {2}) + output("y", {2})),
       ASTER_ML_FORMAT, "8 bytes"},
      {model_of(node("Add", {"x", "w"}, {"y"}) +
                weight(tensor_message("w", 1, {int64_t{1} << 40, int64_t{1} << 40}, "")) +
                input("x", {2}) + output("y", {2})),
       ASTER_ML_FORMAT, "shape"},
      {model_of(node("Add", {"x", "w"}, {"y"}) +
                weight(integer(1, 1000000) + integer(2, 1) + bytes(8, "w")) + input("x", {2}) +
                output("y", {2})),
       ASTER_ML_FORMAT, "message"},
      {model_of(node("Add", {"x", "w"}, {"y"}) +
                weight(tensor_message("w", 14, {1}, std::string(8, ' '))) + input("x", {2}) +
                output("y", {2})),
       ASTER_ML_UNSUPPORTED, "complex64"},
      {model_of(node("Softmax", {"x"}, {"z"}, attribute("axis", 7)) + input("x", {2}) +
                output("z", {2})),
       ASTER_ML_RANGE, ""},
      {model_of(node("SplitToSequence", {"x", "x"}, {"y"}) + input("x", {2}) + output("y", {2})),
       ASTER_ML_DTYPE, "integers are needed"},
  };
  for (const Bad& bad : all) {
    aster_ml_onnx_value results{};
    EXPECT_EQ(run(&results, bad.model, {x}), bad.status) << error();
    EXPECT_NE(error().find(bad.says), std::string::npos) << error();
    EXPECT_EQ(results.impl, nullptr);
  }
  aster_ml_onnx_value results{};
  EXPECT_EQ(run(&results, model_of(relu), {}), ASTER_ML_ARGUMENT);
  EXPECT_EQ(run(&results, model_of(relu), {x, x}), ASTER_ML_ARGUMENT);
}

TEST_F(Models, ALoopOfManyTurnsEnds) {
  const std::string body = node("Identity", {"c"}, {"d"}) + node("Identity", {"v"}, {"w"}) +
                           input("i", {}, 7) + input("c", {}, 9) + input("v", {}) +
                           output("d", {}, 9) + output("w", {});
  const std::string model =
      model_of(node("Loop", {"n", "", "x"}, {"y"}, graph_attribute("body", body)) +
               input("n", {}, 7) + input("x", {}) + output("y", {}));
  aster_ml_onnx_value results{};
  EXPECT_EQ(run(&results, model,
                {tensor_message("", 7, {}, raw<int64_t>({1000})), floats_message("", {}, {2})}),
            0)
      << error();
  EXPECT_EQ(floats(results, 0), std::vector<float>{2});
  aster_ml_onnx_value_free(&results);
}

// ---- Bombs: small files that ask for much. Each ends with a status, soon, in little memory. ----

TEST_F(Models, WhatWouldBeTooLargeIsRefused) {
  const std::string ends = input("x", {2}) + output("y", {-1});
  std::string doubled, name = "x";
  for (int i = 0; i < 70; ++i) {
    const std::string next = i == 69 ? "y" : "v" + std::to_string(i);
    doubled += node("Concat", {name, name}, {next}, attribute("axis", 0));
    name = next;
  }
  const auto filled = [&](const std::vector<int64_t>& shape) {
    return node("ConstantOfShape", {"s"}, {"c"}) + node("Add", {"c", "x"}, {"y"}) +
           integers("s", shape);
  };
  const std::vector<std::string> all = {
      doubled,
      filled({int64_t{1} << 35, int64_t{1} << 35, 2}),
      filled({int64_t{1} << 50, 2}),
      node("Expand", {"x", "s"}, {"y"}) + integers("s", {int64_t{1} << 50, 2}),
      node("Tile", {"x", "s"}, {"y"}) + integers("s", {int64_t{1} << 50}),
      node("Pad", {"x", "s"}, {"y"}) + integers("s", {int64_t{1} << 50, int64_t{1} << 50}),
      node("ConstantOfShape", {"s"}, {"c"}) + node("NonZero", {"c"}, {"y"}) +
          integers("s", {int64_t{1} << 50}),
  };
  computes_ = true;  // at once
  for (const std::string& graph : all) {
    aster_ml_onnx_value results{};
    const int32_t status = run(&results, model_of(graph + ends), {floats_message("", {2}, {1, 2})});
    EXPECT_TRUE(status == ASTER_ML_RANGE || status == ASTER_ML_MEMORY) << status << error();
    EXPECT_EQ(results.impl, nullptr);
  }
}

TEST_F(Models, WindowsOfAbsurdSizesAreRefused) {
  const int64_t most = std::numeric_limits<int64_t>::max(), far = (int64_t{1} << 40) - 1;
  const std::vector<std::string> attributes = {
      integers_attribute("output_shape", {most, most}),
      integers_attribute("output_shape", {2, std::numeric_limits<int64_t>::min()}),
      integers_attribute("output_padding", {0, most}),
      integers_attribute("pads", {0, most, 0, 0}),
      integers_attribute("strides", {1, most}),
      integers_attribute("strides", {1, far}) + integers_attribute("dilations", {1, most}),
  };
  const std::string ends = weight(floats_message("w", {1, 1, 2, 2}, {1, 2, 3, 4})) +
                           input("x", {1, 1, 3, 3}) + output("y", {-1, -1, -1, -1});
  for (const char* op : {"Conv", "ConvTranspose"}) {
    for (const std::string& given : attributes) {
      const bool transposed = std::string(op) == "ConvTranspose";
      if (!transposed && given.find("output_") != std::string::npos) continue;
      aster_ml_onnx_value results{};
      const int32_t status = run(&results, model_of(node(op, {"x", "w"}, {"y"}, given) + ends),
                                 {floats_message("", {1, 1, 3, 3}, std::vector<float>(9, 1))});
      EXPECT_NE(status, ASTER_ML_OK) << op;
      EXPECT_EQ(results.impl, nullptr);
    }
    // What is 2^40 apart may reach nothing, and is no overflow.
    aster_ml_onnx_value results{};
    (void)run(&results,
              model_of(node(op, {"x", "w"}, {"y"},
                            integers_attribute("strides", {far, far}) +
                                integers_attribute("dilations", {far, far})) +
                       ends),
              {floats_message("", {1, 1, 3, 3}, std::vector<float>(9, 1))});
    aster_ml_onnx_value_free(&results);
  }
}

TEST_F(Models, WhatWouldNotEndIsRefused) {
  const auto loop = [](const std::string& inside, const std::string& type) {
    return node("Loop", {"n", "", "x"}, {"y"},
                graph_attribute("body", node("Identity", {"c"}, {"d"}) + inside +
                                            input("i", {}, 7) + input("c", {}, 9) + type +
                                            output("d", {}, 9) + output("y", {})));
  };
  const std::string trips = weight(tensor_message("n", 7, {}, raw<int64_t>({int64_t{1} << 40})));
  const std::string ends = input("x", {2}) + output("y", {2});
  std::string nested = node("Identity", {"x"}, {"y"});
  for (int i = 0; i < 13; ++i) nested = loop(nested, input("x", {2}));
  // A sequence that grows by an item a turn, each time a new one.
  const std::string grown = node("SequenceInsert", {"x", "one"}, {"y"});
  const std::string list = node("SequenceEmpty", {}, {"x"}) + loop(grown, input("x", {2})) +
                           node("SequenceLength", {"y"}, {"z"}) + output("z", {}, 7) +
                           input("one", {2});
  // Functions, each of which is the one before it twice.
  const auto function = [](int i, const std::string& nodes) {
    return bytes(25, bytes(1, "f" + std::to_string(i)) + bytes(4, "x") + bytes(5, "y") + nodes +
                         bytes(9, integer(2, 20)) + bytes(9, bytes(1, "f") + integer(2, 1)) +
                         bytes(10, "f"));
  };
  const auto call = [](int i, const std::string& from, const std::string& to) {
    const std::string made = node("f" + std::to_string(i), {from}, {to}, "", "f");
    return bytes(7, made.substr(made.size() > 129 ? 3 : 2));  // NodeProto in a FunctionProto
  };
  std::string functions =
      function(0, bytes(7, bytes(1, "x") + bytes(2, "y") + bytes(4, "Identity")));
  for (int i = 1; i < 40; ++i)
    functions += function(i, call(i - 1, "x", "a") + call(i - 1, "a", "y"));
  functions += bytes(8, bytes(1, "f") + integer(2, 1));
  const std::vector<std::string> all = {
      model_of(nested + trips + ends), model_of(list + trips),
      model_of(node("f39", {"x"}, {"y"}, "", "f") + ends, 20, functions)};
  for (const std::string& model : all) {
    aster_ml_onnx_value results{};
    EXPECT_EQ(run(&results, model, {floats_message("", {2}, {1, 2})}), ASTER_ML_RANGE) << error();
    EXPECT_NE(error().find("more than 10000000 nodes"), std::string::npos) << error();
  }
}

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/aster_onnx_XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST_F(Models, ExternalDataStaysInTheFolder) {
  const Folder folder;
  std::filesystem::create_directory(folder.path + "/model");
  const std::vector<float> w = {10, 20};
  for (const char* name : {"/model/w.bin", "/outside.bin"}) {
    std::ofstream(folder.path + name, std::ios::binary) << std::string(4, '\0') << raw(w);
  }
  std::filesystem::create_symlink(folder.path + "/outside.bin", folder.path + "/model/link.bin");
  const auto model = [&](const std::string& location, int64_t offset) {
    const auto entry = [](const std::string& key, const std::string& text) {
      return bytes(13, bytes(1, key) + bytes(2, text));
    };
    const std::string message =
        integer(1, 2) + integer(2, 1) + bytes(8, "w") + entry("location", location) +
        entry("offset", std::to_string(offset)) + entry("length", "8") + integer(14, 1);
    return model_of(node("Add", {"x", "w"}, {"y"}) + weight(message) + input("x", {2}) +
                    output("y", {2}));
  };
  const auto run_file = [&](const std::string& location, int64_t offset, std::vector<float>* y) {
    const std::string path = folder.path + "/model/m.onnx";
    std::ofstream(path, std::ios::binary) << model(location, offset);
    aster_ml_onnx opened{};
    EXPECT_EQ(aster_ml_onnx_read(&opened, &context_, path.c_str()), 0) << error();
    aster_ml_onnx_value results{};
    const int32_t status = run(&results, opened, {floats_message("", {2}, {1, 2})});
    if (status == ASTER_ML_OK) *y = floats(results, 0);
    aster_ml_onnx_value_free(&results);
    aster_ml_onnx_free(&opened);
    return status;
  };
  std::vector<float> y;
  EXPECT_EQ(run_file("w.bin", 4, &y), 0) << error();
  EXPECT_EQ(y, (std::vector<float>{11, 22}));
  EXPECT_EQ(run_file("../outside.bin", 4, &y), ASTER_ML_FORMAT);
  EXPECT_EQ(run_file(folder.path + "/outside.bin", 4, &y), ASTER_ML_FORMAT);
  EXPECT_EQ(run_file("link.bin", 4, &y), ASTER_ML_FORMAT) << error();
  EXPECT_EQ(run_file("none.bin", 4, &y), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(run_file("w.bin", 100, &y), ASTER_ML_RANGE);
  aster_ml_onnx opened{};
  EXPECT_EQ(aster_ml_onnx_read(&opened, &context_, "/nowhere/m.onnx"), ASTER_ML_NOT_FOUND);
  aster_ml_onnx_value results{};
  EXPECT_EQ(run(&results, model("w.bin", 4), {floats_message("", {2}, {1, 2})}), ASTER_ML_FORMAT);
}

// Weights of a file and of one beside it are its pages: what is read is not copied to memory.
TEST_F(Models, WeightsAreTheFilesPages) {
  constexpr int64_t kCount = 1 << 20;
  std::vector<float> w(kCount);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 97);
  const Folder folder;
  std::ofstream(folder.path + "/w.bin", std::ios::binary) << raw(w);
  const auto entry = [](const std::string& key, const std::string& text) {
    return bytes(13, bytes(1, key) + bytes(2, text));
  };
  const std::string beside = integer(1, kCount) + integer(2, 1) + bytes(8, "w") +
                             entry("location", "w.bin") + integer(14, 1);
  const std::string ends = input("at", {3}, 7) + output("y", {3});
  const auto gather = [&](const std::string& message) {
    return model_of(node("Gather", {"w", "at"}, {"y"}) + weight(message) + ends);
  };
  // A name of any length: the elements lie aligned for one of four.
  size_t least = SIZE_MAX;
  for (size_t length = 0; length < 5; ++length) {
    const std::string inside = integer(2, 1) + bytes(12, std::string(length, 'd')) +
                               integer(1, kCount) + bytes(8, "w") + bytes(9, raw(w));
    std::ofstream(folder.path + "/m.onnx", std::ios::binary)
        << gather(length == 4 ? beside : inside);
    size_t before = 0, after = 0;
    ASSERT_EQ(aster_ml_context_count_bytes(&before, nullptr, &context_), 0);
    aster_ml_onnx opened{};
    ASSERT_EQ(aster_ml_onnx_read(&opened, &context_, (folder.path + "/m.onnx").c_str()), 0)
        << error();
    aster_ml_onnx_value results{};
    ASSERT_EQ(
        run(&results, opened, {tensor_message("", 7, {3}, raw<int64_t>({5, 96, kCount - 1}))}), 0)
        << error();
    EXPECT_EQ(floats(results, 0), (std::vector<float>{5, 96, w.back()}));
    ASSERT_EQ(aster_ml_context_count_bytes(&after, nullptr, &context_), 0);
    if (length < 4) least = std::min(least, after - before);
    EXPECT_TRUE(length < 4 || after - before < kCount);
    aster_ml_onnx_value_free(&results);
    aster_ml_onnx_free(&opened);
  }
  EXPECT_LT(least, size_t{kCount});
}

// Bytes changed, cut out and put in at random: whatever comes of it is a status, within what a test
// may take.
TEST_F(Models, AlteredModelsGiveStatuses) {
  const char* asked = std::getenv("ASTER_ML_FUZZ_ONNX_CASES");
  const int cases = asked == nullptr ? 1500 : std::atoi(asked);
  const std::vector<std::string> models = {layer_model(), loop_model(), shape_model(),
                                           gradient_model()};
  const std::vector<std::vector<std::string>> given = {
      {floats_message("", {2, 3}, values(6, 1))},
      {tensor_message("", 7, {}, raw<int64_t>({3})), floats_message("", {}, {2})},
      {floats_message("", {2, 2, 3}, values(12, 1))},
      {floats_message("", {3}, values(3, 1))}};
  // Other sizes, with which a program comes to have variables.
  const std::vector<std::vector<std::string>> others = {
      {floats_message("", {3, 3}, values(9, 1))},
      {tensor_message("", 7, {}, raw<int64_t>({2})), floats_message("", {}, {1})},
      {floats_message("", {3, 2, 3}, values(18, 1))},
      {floats_message("", {4}, values(4, 1))}};
  size_t ran = 0;
  for (int i = 0; i < cases; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    const size_t which = random() % models.size();
    std::string model = models[which];
    for (auto changes = 1 + random() % 3; changes-- > 0;) {
      const size_t at = random() % model.size();
      switch (random() % 4) {
        case 0:
          model[at] = static_cast<char>(random());
          break;
        case 1:
          model[at] = static_cast<char>(model[at] ^ (1 << random() % 8));
          break;
        case 2:
          model.erase(at, 1 + random() % 4);
          break;
        default:
          model.insert(at, model.substr(random() % model.size(), 1 + random() % 16));
      }
      if (model.empty()) model = " ";
    }
    computes_ = random() % 2 == 0;
    aster_ml_onnx opened{};
    aster_ml_onnx_value results{};
    int32_t status = open(&opened, model);
    if (status == ASTER_ML_OK && computes_) {
      status = run(&results, opened, others[which]);
      EXPECT_NE(status, ASTER_ML_INTERNAL) << "case " << i << ": " << error();
      aster_ml_onnx_value_free(&results);
    }
    if (opened.impl != nullptr) status = run(&results, opened, given[which]);
    aster_ml_onnx_free(&opened);
    EXPECT_NE(status, ASTER_ML_INTERNAL) << "case " << i << ": " << error();
    if (status == ASTER_ML_OK) {
      ++ran;
      for (size_t k = 0; k < aster_ml_onnx_value_count(&results); ++k) {
        aster_ml_onnx_value one{};
        size_t size = 0;
        ASSERT_EQ(aster_ml_onnx_value_at(&one, &results, k), 0);
        (void)aster_ml_onnx_value_to_proto(nullptr, &size, 0, &one, aster_ml_onnx_value_kind(&one));
        aster_ml_onnx_value_free(&one);
      }
    }
    aster_ml_onnx_value_free(&results);
  }
  EXPECT_GT(ran, 0u);
}

TEST_F(Models, EveryTruncationGivesAStatus) {
  const std::string model = layer_model();
  for (size_t size = 0; size < model.size(); ++size) {
    aster_ml_onnx_value results{};
    (void)run(&results, model.substr(0, size), {floats_message("", {2, 3}, values(6, 1))});
    aster_ml_onnx_value_free(&results);
  }
}

}  // namespace
}  // namespace nn_test
