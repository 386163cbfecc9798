// Models whose attributes and constants are numbers that nothing can be made of: each is refused,
// soon and in little memory, and nothing overflows on the way, of which the sanitizers tell.
#include <limits>

#include "nn/onnx_world.h"

namespace nn_test {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(),
                  kLeast = std::numeric_limits<int64_t>::min(), kFar = int64_t{1} << 40;
const float kNan = std::nanf(""), kInfinity = std::numeric_limits<float>::infinity();

std::string whole(const std::string& name, int64_t value) {
  return weight(tensor_message(name, 7, {}, raw<int64_t>({value})));
}
std::string real(const std::string& name, float value) {
  return weight(floats_message(name, {}, {value}));
}
std::string filled(const std::string& name, const std::vector<int64_t>& shape) {
  return node("ConstantOfShape", {name + "_shape"}, {name}) + integers(name + "_shape", shape);
}

class Numbers : public Models {
 protected:
  // Of a graph that reads x and gives y.
  int32_t status_of(const std::string& graph, int64_t opset = 20,
                    const std::vector<int64_t>& shape = {2}, const std::string& more = "") {
    size_t count = 1;
    for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
    aster_ml_onnx_value results{};
    const int32_t status =
        run(&results, model_of(graph + input("x", shape) + output("y", {}), opset, more),
            {floats_message("", shape, std::vector<float>(count, 1))});
    EXPECT_NE(status, ASTER_ML_INTERNAL) << error();
    if (status == ASTER_ML_OK) last_ = count != 0 ? first_of(results) : 0;
    aster_ml_onnx_value_free(&results);
    return status;
  }
  float first_of(const aster_ml_onnx_value& results) {
    const std::vector<float> all = floats(results, 0);
    return all.empty() ? 0 : all[0];
  }
  void refused(const std::string& graph, int64_t opset = 20,
               const std::vector<int64_t>& shape = {2}, const std::string& more = "") {
    const int32_t status = status_of(graph, opset, shape, more);
    EXPECT_TRUE(status == ASTER_ML_SHAPE || status == ASTER_ML_RANGE || status == ASTER_ML_FORMAT ||
                status == ASTER_ML_UNSUPPORTED || status == ASTER_ML_ARGUMENT)
        << status << error();
  }

  float last_ = 0;  // the first element of the result
};

TEST_F(Numbers, SizesThatOverflow) {
  computes_ = true;
  const std::vector<int64_t> image = {1, 1, 3, 3};
  refused(node("CenterCropPad", {"x", "s"}, {"y"}) + integers("s", {kLeast}));
  refused(node("CenterCropPad", {"x", "s"}, {"y"}) + integers("s", {kMost}));
  for (const int64_t size : {kLeast, kMost}) {
    refused(node("MaxUnpool", {"x", "at", "s"}, {"y"}, integers_attribute("kernel_shape", {2, 2})) +
                weight(tensor_message("at", 7, image, raw(std::vector<int64_t>(9, 0)))) +
                integers("s", {1, 1, size, 4}),
            20, image);
  }
  const auto blocks = [](const std::vector<int64_t>& size, const std::vector<int64_t>& block,
                         const std::string& more = "") {
    return node("Col2Im", {"x", "size", "block"}, {"y"}, more) + integers("size", size) +
           integers("block", block);
  };
  refused(blocks({kFar, kFar}, {1, 1}), 20, {1, 1, 4});
  refused(blocks({kFar, kFar}, {kFar - 1, kFar - 1}), 20, {1, 1, 4});
  for (const char* automatic : {"NOTSET", "SAME_UPPER"}) {
    refused(blocks({kLeast, 4}, {1, 1}, text_attribute("auto_pad", automatic)), 20, {1, 1, 4});
    refused(
        blocks({kLeast, 4}, {1, 1},
               text_attribute("auto_pad", automatic) + integers_attribute("pads", {-5, 0, -5, 0})),
        20, {1, 1, 4});
  }
  // Of no elements, but of axes that are long.
  refused(filled("z", {1, 0, int64_t{1} << 50, 1}) +
          node("DepthToSpace", {"z"}, {"y"}, attribute("blocksize", 1 << 20)));
  refused(filled("z", {1, 0, 3, 3}) + filled("w", {0, 3, 1, 1}) + filled("o", {1, 2, 3, 3}) +
              node("DeformConv", {"z", "w", "o"}, {"y"}, attribute("group", kMost)),
          20);
  refused(filled("z", {1, 0, 3, 3}) + filled("w", {1, 0, 1, 1}) + filled("o", {1, 2, 3, 3}) +
              node("DeformConv", {"z", "w", "o"}, {"y"}, attribute("offset_group", kMost)),
          20);
}

TEST_F(Numbers, MoreAxesThanThereAre) {
  computes_ = true;
  std::vector<int64_t> ones(300, 1), axes(300);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(axes.size() - i) - 1;
  refused(node("Expand", {"x", "s"}, {"y"}) + integers("s", ones));
  refused(node("Unsqueeze", {"x", "s"}, {"y"}) + integers("s", axes));
  refused(node("Reshape", {"x", "s"}, {"y"}) + integers("s", ones));
  // These were cut off.
  refused(node("Reshape", {"x", "s"}, {"y"}) + integers("s", ones), 20, {1});
  refused(node("ConstantOfShape", {"s"}, {"y"}) + integers("s", ones));
  refused(node("RandomNormal", {}, {"y"}, integers_attribute("shape", ones)));
  std::vector<int64_t> size(302, 1);
  refused(filled("z", {1, 300, 301}) + node("AffineGrid", {"z", "s"}, {"y"}) + integers("s", size));
  // The second operand of an opset that says where it lies has more axes than the first.
  refused(node("Add", {"x", "w"}, {"y"}, attribute("broadcast", 1)) +
              weight(floats_message("w", {1, 1, 2}, {1, 2})),
          6);
}

TEST_F(Numbers, FewerAxesThanAreLookedAt) {
  computes_ = true;
  refused(node("RotaryEmbedding", {"x", "x", "x"}, {"y"}), 23, {2, 2});
  refused(node("RotaryEmbedding", {"x", "x", "x"}, {"y"}), 23, {});
  const std::vector<int64_t> heads = {1, 1, 2, 2};
  refused(node("RotaryEmbedding", {"x", "x", "x"}, {"y"}, attribute("rotary_embedding_dim", -2)),
          23, heads);
  refused(node("Attention", {"x", "x", "x", "", "p", "p"}, {"y"}) + real("p", 1), 23, heads);
  refused(node("LinearAttention", {"x", "x", "x", "", "x", "b"}, {"y"},
               attribute("q_num_heads", 1) + attribute("kv_num_heads", 1)) +
              real("b", 1),
          27, {1, 2, 2});
}

TEST_F(Numbers, OperandsThatAreMissing) {
  computes_ = true;
  const std::vector<int64_t> image = {1, 1, 3, 3};
  const std::string bytes_of = weight(tensor_message("q", 2, image, std::string(9, '\1'))) +
                               weight(tensor_message("z", 2, {}, std::string(1, '\1'))) +
                               real("s", 1);
  for (size_t missing = 0; missing < 8; ++missing) {
    std::vector<std::string> names = {"q", "s", "z", "q", "s", "s", "s", "z"};
    names[5] = "z";
    names[missing] = "";
    const std::string cast = node("Cast", {"r"}, {"y"}, attribute("to", 1));
    (void)status_of(bytes_of + node("QLinearConv", names, {"r"}) + cast);
    (void)status_of(bytes_of + node("QLinearMatMul", names, {"r"}) + cast);
  }
}

TEST_F(Numbers, NumbersThatAreNoIntegers) {
  computes_ = true;
  for (const float number : {kNan, kInfinity, -kInfinity, 1e30f, -1e30f}) {
    EXPECT_EQ(
        status_of(weight(tensor_message("w", 7, {1}, raw<int64_t>({1}))) +
                      node("Pad", {"w"}, {"p"},
                           integers_attribute("pads", {0, 1}) + text_attribute("mode", "constant") +
                               float_attribute("value", number)) +
                      node("Cast", {"p"}, {"y"}, attribute("to", 1)),
                  10),
        0)
        << error();
    const auto mel = [&](float low, float high) {
      return node("MelWeightMatrix", {"bins", "length", "rate", "low", "high"}, {"y"}) +
             whole("bins", 4) + whole("length", 16) + whole("rate", 1) + real("low", low) +
             real("high", high);
    };
    (void)status_of(mel(number, 8));
    (void)status_of(mel(0, number));
    const std::vector<int64_t> image = {1, 1, 3, 3};
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      for (const int64_t antialias : {0, 1}) {
        const std::string how = text_attribute("mode", mode) + attribute("antialias", antialias);
        (void)status_of(node("Resize", {"x", "", "s"}, {"y"}, how) +
                            weight(floats_message("s", {4}, {1, 1, number, 2})),
                        20, image);
        const std::string cut =
            how + text_attribute("coordinate_transformation_mode", "tf_crop_and_resize");
        (void)status_of(node("Resize", {"x", "r", "", "s"}, {"y"}, cut) +
                            weight(floats_message("r", {8}, {0, 0, number, 0, 1, 1, 1, 1})) +
                            integers("s", {1, 1, 2, 2}),
                        20, image);
        (void)status_of(node("Resize", {"x", "", "s"}, {"y"}, how) +
                            weight(floats_message("s", {4}, {1, 1, 1e-30f, 2})),
                        20, image);
        for (const char* policy : {"not_larger", "not_smaller"}) {
          const std::string kept = how + text_attribute("keep_aspect_ratio_policy", policy);
          (void)status_of(filled("z", {1, 1, 0, 3}) +
                          node("Resize", {"z", "", "", "s"}, {"y"}, kept) +
                          integers("s", {1, 1, 2, 2}));
          (void)status_of(node("Resize", {"x", "", "", "s"}, {"y"}, kept) +
                              integers("s", {int64_t{1} << 31, int64_t{1} << 31, 1, 1}),
                          20, image);
        }
      }
    }
    (void)status_of(node("RoiAlign", {"x", "r", "b"}, {"y"}) +
                        weight(floats_message("r", {1, 4}, {0, number, 2, 2})) + integers("b", {0}),
                    20, image);
    (void)status_of(
        node("MaxRoiPool", {"x", "r"}, {"y"}, integers_attribute("pooled_shape", {2, 2})) +
            weight(floats_message("r", {1, 5}, {0, 0, number, 2, 2})),
        20, image);
    (void)status_of(node("OneHot", {"w", "d", "v"}, {"y"}) + whole("w", 1) + real("d", number) +
                    weight(floats_message("v", {2}, {0, 1})));
  }
}

// Sorted by what is no order, elements were read that are none.
TEST_F(Numbers, ScoresThatAreNone) {
  computes_ = true;
  const size_t count = 200;
  std::vector<float> boxes, scores;
  for (size_t i = 0; i < count; ++i) {
    const float at = static_cast<float>(2 * i);
    for (const float side : {at, at, at + 1, at + 1}) boxes.push_back(side);
    scores.push_back(i % 3 == 0 ? kNan : static_cast<float>(i * 7 % count));
  }
  const int64_t n = static_cast<int64_t>(count);
  ASSERT_EQ(status_of(node("NonMaxSuppression", {"b", "s", "most", "", ""}, {"all"}) +
                      node("Slice", {"all", "from", "to", "axis"}, {"places"}) +
                      node("Cast", {"places"}, {"y"}, attribute("to", 1)) +
                      weight(floats_message("b", {1, n, 4}, boxes)) +
                      weight(floats_message("s", {1, 1, n}, scores)) + whole("most", 5) +
                      integers("from", {2}) + integers("to", {3}) + integers("axis", {1})),
            0)
      << error();
  float best = -1, place = -1;
  for (size_t i = 0; i < count; ++i) {
    if (scores[i] > best) best = scores[i], place = static_cast<float>(i);
  }
  EXPECT_EQ(last_, place);
}

TEST_F(Numbers, WorkThatHasNoEnd) {
  computes_ = true;
  const std::vector<int64_t> image = {1, 1, 3, 3};
  const auto boxes = [](const std::vector<int64_t>& size) {
    return node("RoiAlign", {"x", "r", "b"}, {"y"},
                attribute("output_height", size[0]) + attribute("output_width", size[1]) +
                    attribute("sampling_ratio", size[2])) +
           weight(floats_message("r", {1, 4}, {0, 0, 2, 2})) + integers("b", {0});
  };
  refused(boxes({4096, 4096, 0}), 20, image);
  refused(boxes({4096, 4096, 4096}), 20, image);
  refused(boxes({5, 5, 4096}), 20, image);
  // A box of less than nothing has no samples.
  EXPECT_EQ(status_of(node("RoiAlign", {"x", "r", "b"}, {"y"}) +
                          weight(floats_message("r", {1, 4}, {2, 2, 0, 0})) + integers("b", {0}),
                      20, image),
            0)
      << error();
  EXPECT_EQ(last_, 0);
  refused(filled("z", {kFar}) + node("SplitToSequence", {"z"}, {"all"}) +
          node("SequenceLength", {"all"}, {"y"}));
  const std::string body = input("s", {2}) + input("e", {}) + output("s", {2}) + output("e", {});
  const std::string each = graph_attribute("body", body) + attribute("num_scan_inputs", 1);
  refused(filled("z", {kFar}) + node("Scan", {"x", "z"}, {"y", "all"}, each));
  refused(filled("z", {kFar, 0, 1}) + filled("w", {kFar, 2}) +
              node("Scan", {"", "w", "z"}, {"y", "all"}, each),
          8);
  std::string sequences = node("SplitToSequence", {"z"}, {"v0"}) + filled("z", {1 << 17});
  const std::string same = graph_attribute("body", input("e", {}) + output("e", {}));
  for (int i = 0; i < 100; ++i) {
    sequences +=
        node("SequenceMap", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)}, same);
  }
  refused(sequences + node("SequenceLength", {"v100"}, {"y"}));
  refused(filled("w", {1, 1, kFar}) + node("CausalConvWithState", {"x", "w"}, {"y"}), 27,
          {1, 1, 3});
  refused(node("MelWeightMatrix", {"bins", "length", "rate", "low", "high"}, {"y"}) +
          whole("bins", 1 << 16) + whole("length", 1 << 20) + whole("rate", 8000) + real("low", 0) +
          real("high", 4000));
  refused(filled("z", {1, 1 << 16, 1}) + node("DFT", {"z", "", "axis"}, {"y"}) + whole("axis", 1));
  refused(filled("z", {1 << 24}) +
          node("Resize", {"z", "", "", "s"}, {"y"},
               text_attribute("mode", "linear") + attribute("antialias", 1)) +
          integers("s", {1}));
}

TEST_F(Numbers, TextsThatAreTooMany) {
  computes_ = true;
  const auto texts = [](const std::string& name, const std::vector<int64_t>& shape, size_t count) {
    std::string out = integer(2, 8) + bytes(8, name);
    for (const int64_t dim : shape) out += integer(1, dim);
    for (size_t i = 0; i < count; ++i) out += bytes(6, "a");
    return weight(out);
  };
  const int64_t most = int64_t{1} << 55;
  refused(texts("a", {most, 1, 0}, 0) + texts("b", {1, 512, 1}, 512) +
          node("StringConcat", {"a", "b"}, {"z"}) + node("Size", {"z"}, {"y"}));
  refused(texts("a", {4096, 1}, 4096) + texts("b", {1, 4096}, 4096) +
          texts("c", {4096, 1, 1}, 4096) + node("StringConcat", {"a", "b"}, {"d"}) +
          node("StringConcat", {"c", "d"}, {"z"}) + node("Size", {"z"}, {"y"}));
  const auto grams = [](const std::string& from, int64_t skips, int64_t index) {
    return node("TfIdfVectorizer", {from}, {"y"},
                integers_attribute("ngram_counts", {0, 0}) +
                    integers_attribute("ngram_indexes", {index, 0}) +
                    integers_attribute("pool_int64s", {1, 1, 1, 1}) +
                    attribute("min_gram_length", 2) + attribute("max_gram_length", 2) +
                    attribute("max_skip_count", skips) + text_attribute("mode", "TF"));
  };
  refused(weight(tensor_message("z", 7, {most, 0}, "")) + grams("z", 0, 4095));
  refused(integers("z", {1, 2, 1}) + grams("z", 0, kMost));
  // No more tokens are skipped than there are.
  EXPECT_EQ(status_of(integers("z", {1, 2, 1}) + grams("z", (1 << 20) - 1, 0)), 0) << error();
  EXPECT_EQ(last_, 2);
}

TEST_F(Numbers, TreesWhoseNodesAreOther) {
  computes_ = true;
  const std::string domain = "ai.onnx.ml";
  const auto tree = [&](const std::string& mode) {
    return node("TreeEnsembleRegressor", {"x"}, {"y"},
                integers_attribute("nodes_treeids", {0, 0, 0}) +
                    integers_attribute("nodes_nodeids", {0, 1, 2}) +
                    integers_attribute("nodes_featureids", {0, 0, 0}) +
                    integers_attribute("nodes_truenodeids", {1, 0, 0}) +
                    integers_attribute("nodes_falsenodeids", {2, 0, 0}) +
                    floats_attribute("nodes_values", {0, 0, 0}) +
                    texts_attribute("nodes_modes", {mode, "LEAF", "LEAF"}) +
                    integers_attribute("target_treeids", {0, 0, 0}) +
                    integers_attribute("target_nodeids", {1, 0, 2}) +
                    integers_attribute("target_ids", {0, 0, 0}) +
                    floats_attribute("target_weights", {1, 2, 3}),
                domain);
  };
  const std::string ml = bytes(8, bytes(1, domain) + integer(2, 3));
  EXPECT_EQ(status_of(tree("BRANCH_LEQ"), 20, {1, 1}, ml), 0) << error();
  EXPECT_EQ(last_, 3);
  refused(tree("BRANCH_MEMBER"), 20, {1, 1}, ml);
}

// The second sizes that a model meets are variables.
TEST_F(Numbers, PartsOfSizesThatAreVariables) {
  computes_ = true;
  const auto statuses = [&](const std::string& graph) {
    aster_ml_onnx opened{};
    EXPECT_EQ(open(&opened, model_of(graph + input("x", {-1, 3}) + output("y", {}))), 0);
    for (const int64_t rows : {3, 5, 6}) {
      aster_ml_onnx_value results{};
      const int32_t status = run(
          &results, opened,
          {floats_message("", {rows, 3}, std::vector<float>(static_cast<size_t>(3 * rows), 1))});
      EXPECT_NE(status, ASTER_ML_INTERNAL) << error();
      aster_ml_onnx_value_free(&results);
    }
    aster_ml_onnx_free(&opened);
  };
  const std::string same = node("Identity", {"x"}, {"y"});
  statuses(same + node("Split", {"x"}, {}, attribute("axis", 1)));
  for (const std::vector<int64_t>& parts :
       {std::vector<int64_t>{1, kMost}, {kMost, kMost}, {kLeast, 1}, {1, kLeast}}) {
    statuses(node("Split", {"x", "s"}, {"y", "z"}, attribute("axis", 1)) + integers("s", parts));
  }
  statuses(same + node("Gather", {"x", "s"}, {""}, attribute("axis", 1)) + integers("s", {0, 1}));
  statuses(same + node("Shape", {"x"}, {"n"}) + node("Gather", {"n", "first"}, {"rows"}) +
           node("Add", {"rows", "rows"}, {"twice"}) +
           node("Range", {"rows", "twice", "one"}, {""}) + whole("first", 0) + whole("one", 1));
  for (const char* name : {"Add", "Sub", "Mul", "Div", "Max"}) {
    for (const int64_t number : {kMost, kLeast, int64_t{0}, int64_t{-1}}) {
      statuses(same + node("Shape", {"x"}, {"n"}) + integers("s", {number}) +
               node(name, {"n", "s"}, {"m"}) + node(name, {"m", "m"}, {"o"}) +
               node(name, {"s", "o"}, {"p"}));
    }
  }
}

}  // namespace
}  // namespace nn_test
