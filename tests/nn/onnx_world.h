// Models of ONNX in memory: a small writer of protobuf, and a context that runs them.
#pragma once

#include "aster_ml/onnx.h"
#include "nn/world.h"

namespace nn_test {

// ---- Messages ----

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out + static_cast<char>(value);
}
inline std::string bytes(int field, const std::string& content) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(content.size()) + content;
}
inline std::string integer(int field, int64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(static_cast<uint64_t>(value));
}
template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
inline std::string tensor_message(const std::string& name, int type,
                                  const std::vector<int64_t>& shape, const std::string& data) {
  std::string out;
  for (const int64_t dim : shape) out += integer(1, dim);
  return out + integer(2, type) + bytes(8, name) + bytes(9, data);
}
inline std::string floats_message(const std::string& name, const std::vector<int64_t>& shape,
                                  const std::vector<float>& values) {
  return tensor_message(name, 1, shape, raw(values));
}
inline std::string info(const std::string& name, int type, const std::vector<int64_t>& shape) {
  std::string dims;
  for (const int64_t dim : shape) {
    dims += bytes(1, dim < 0 ? bytes(2, "n" + std::to_string(-dim)) : integer(1, dim));
  }
  return bytes(1, name) + bytes(2, bytes(1, integer(1, type) + bytes(2, dims)));
}
inline std::string attribute(const std::string& name, int64_t value) {
  return bytes(5, bytes(1, name) + integer(3, value) + integer(20, 2));
}
inline std::string integers_attribute(const std::string& name, const std::vector<int64_t>& values) {
  std::string out = bytes(1, name);
  for (const int64_t value : values) out += integer(8, value);
  return bytes(5, out + integer(20, 7));
}
inline std::string float_attribute(const std::string& name, float value) {
  return bytes(5, bytes(1, name) + varint(2 << 3 | 5) + raw<float>({value}) + integer(20, 1));
}
inline std::string floats_attribute(const std::string& name, const std::vector<float>& values) {
  return bytes(5, bytes(1, name) + bytes(7, raw(values)) + integer(20, 6));
}
inline std::string text_attribute(const std::string& name, const std::string& text) {
  return bytes(5, bytes(1, name) + bytes(4, text) + integer(20, 3));
}
inline std::string texts_attribute(const std::string& name, const std::vector<std::string>& texts) {
  std::string out = bytes(1, name);
  for (const std::string& text : texts) out += bytes(9, text);
  return bytes(5, out + integer(20, 8));
}
inline std::string graph_attribute(const std::string& name, const std::string& graph) {
  return bytes(5, bytes(1, name) + bytes(6, graph) + integer(20, 5));
}
inline std::string node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& attributes = "",
                        const std::string& domain = "") {
  std::string out;
  for (const std::string& input : inputs) out += bytes(1, input);
  for (const std::string& output : outputs) out += bytes(2, output);
  return bytes(1, out + bytes(4, op) + attributes + (domain.empty() ? "" : bytes(7, domain)));
}
inline std::string input(const std::string& name, const std::vector<int64_t>& shape, int type = 1) {
  return bytes(11, info(name, type, shape));
}
inline std::string output(const std::string& name, const std::vector<int64_t>& shape,
                          int type = 1) {
  return bytes(12, info(name, type, shape));
}
inline std::string weight(const std::string& message) { return bytes(5, message); }
inline std::string model_of(const std::string& graph, int64_t opset = 20,
                            const std::string& more = "") {
  return integer(1, 8) + bytes(7, bytes(2, "g") + graph) +
         bytes(8, bytes(1, "") + integer(2, opset)) + more;
}
// A weight that is a list.
inline std::string integers(const std::string& name, const std::vector<int64_t>& values) {
  return weight(tensor_message(name, 7, {static_cast<int64_t>(values.size())}, raw(values)));
}

// ---- Running ----

class Models : public ::testing::Test {
 protected:
  Models() {
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    options.compiler = "none";  // sizes are small, and results are the same
    EXPECT_EQ(aster_ml_context_init(&context_, &options), ASTER_ML_OK);
  }
  ~Models() override { aster_ml_context_free(&context_); }

  int32_t open(aster_ml_onnx* out, const std::string& model) {
    aster_ml_tensor tensor{};
    aster_ml_lazy lazy{};
    const size_t size = model.size();
    EXPECT_EQ(
        aster_ml_tensor_from_data(&tensor, &context_, model.data(), ASTER_ML_DTYPE_UINT8, 1, &size),
        0);
    EXPECT_EQ(aster_ml_lazy_from_tensor(&lazy, &context_, &tensor), 0);
    const int32_t status = aster_ml_onnx_from_bytes(out, &lazy);
    aster_ml_lazy_free(&lazy);
    aster_ml_tensor_free(&tensor);
    return status;
  }
  aster_ml_onnx_value value(const std::string& message, int32_t kind = ASTER_ML_ONNX_TENSOR) {
    aster_ml_onnx_value out{};
    EXPECT_EQ(aster_ml_onnx_value_from_proto(&out, &context_, message.data(), message.size(), kind),
              0)
        << error();
    return out;
  }
  // Results of a model given by its bytes.
  int32_t run(aster_ml_onnx_value* out, const std::string& model,
              const std::vector<std::string>& given) {
    aster_ml_onnx opened{};
    int32_t status = open(&opened, model);
    if (status == ASTER_ML_OK) status = run(out, opened, given);
    aster_ml_onnx_free(&opened);
    return status;
  }
  int32_t run(aster_ml_onnx_value* out, const aster_ml_onnx& model,
              const std::vector<std::string>& given) {
    aster_ml_onnx_value inputs{};
    EXPECT_EQ(aster_ml_onnx_value_init(&inputs, &context_, ASTER_ML_ONNX_SEQUENCE), 0);
    for (const std::string& message : given) {
      aster_ml_onnx_value one = value(message);
      EXPECT_EQ(aster_ml_onnx_value_push(&inputs, &one), 0);
      aster_ml_onnx_value_free(&one);
    }
    const auto function = computes_ ? aster_ml_onnx_compute : aster_ml_onnx_run;
    const int32_t status = function(out, &model, &inputs);
    aster_ml_onnx_value_free(&inputs);
    return status;
  }
  std::vector<float> floats(const aster_ml_onnx_value& results, size_t index) {
    aster_ml_onnx_value one{};
    aster_ml_lazy lazy{};
    EXPECT_EQ(aster_ml_onnx_value_at(&one, &results, index), 0);
    EXPECT_EQ(aster_ml_onnx_value_get(&lazy, &one), 0);
    std::vector<float> out(static_cast<size_t>(aster_ml_lazy_count(&lazy)));
    EXPECT_EQ(aster_ml_lazy_copy_out(out.data(), out.size() * sizeof(float), &lazy), 0) << error();
    aster_ml_lazy_free(&lazy);
    aster_ml_onnx_value_free(&one);
    return out;
  }
  static std::string error() {
    aster_ml_error last{};
    aster_ml_error_last(&last);
    return last.message;
  }

  uint64_t scheduled() {
    aster_ml_engine_counters counters{};
    counters.struct_size = sizeof(counters);
    EXPECT_EQ(aster_ml_engine_count(&counters, &context_), 0);
    return counters.kernels_scheduled;
  }

  aster_ml_context context_{};
  bool computes_ = false;  // by aster_ml_onnx_compute
};

}  // namespace nn_test
