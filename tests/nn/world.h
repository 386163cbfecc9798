// What the tests of this module share: sessions and tensors (programs/aster.h), numbers
// made by the oracle's formula, the oracle's rows.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "aster_ml/nn.h"
#include "programs/aster.h"

namespace nn_test {

using namespace programs;  // NOLINT: its helpers are the vocabulary of these tests

// As values() of oracle/make.py.
inline std::vector<float> values(size_t count, int seed) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>((static_cast<int>(i) * 37 + seed * 11) % 41 - 20) / 16.0f;
  }
  return out;
}
inline Tensor tensor(const Shape& shape, int seed) {
  size_t count = 1;
  for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
  return Tensor(values(count, seed), shape);
}

inline std::string data_path(const std::string& name, const std::string& folder = "oracle") {
  const char* root = std::getenv("ASTER_ML_TEST_DATA");
  return std::string(root == nullptr ? "tests" : root) + "/nn/" + folder + "/" + name;
}
inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

inline std::vector<float> floats_of(const std::string& hex) {
  std::vector<float> out;
  for (size_t i = 0; i + 8 <= hex.size(); i += 8) {
    uint32_t word = 0;
    for (size_t b = 0; b < 4; ++b) {
      word |= static_cast<uint32_t>(std::stoul(hex.substr(i + 2 * b, 2), nullptr, 16)) << 8 * b;
    }
    float value;
    std::memcpy(&value, &word, sizeof(value));
    out.push_back(value);
  }
  return out;
}

// The float32 values of a row of nn.tsv.
inline std::vector<float> oracle(const std::string& name) {
  static const auto* rows = [] {
    auto* out = new std::map<std::string, std::vector<float>>;
    std::ifstream file(data_path("nn.tsv"));
    std::string key, hex;
    while (std::getline(file, key, '\t') && std::getline(file, hex)) {
      (*out)[key] = floats_of(hex);
    }
    return out;
  }();
  EXPECT_TRUE(rows->count(name)) << "no row " << name;
  return rows->count(name) ? rows->at(name) : std::vector<float>();
}

inline void expect_near(const std::vector<float>& got, const std::vector<float>& expected,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const double scale = std::max(1.0, std::fabs(static_cast<double>(expected[i])));
    EXPECT_NEAR(got[i], expected[i], tolerance * scale) << what << "[" << i << "]";
  }
}

inline std::vector<float> joined(std::initializer_list<std::vector<float>> parts) {
  std::vector<float> out;
  for (const std::vector<float>& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

// Handles of this module that free themselves.
template <typename H, int32_t (*Free)(H*)>
struct Own {
  Own() = default;
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;
  ~Own() { EXPECT_OK(Free(&h)); }
  H* operator&() { return &h; }  // NOLINT: what the functions take
  H h{};
};
using Layer = Own<aster_ml_layer, aster_ml_layer_free>;
using State = Own<aster_ml_state, aster_ml_state_free>;
using Optimizer = Own<aster_ml_optimizer, aster_ml_optimizer_free>;
using Program = Own<aster_ml_program, aster_ml_program_free>;

inline Tensor get(Layer& layer, const char* name) { return make(aster_ml_layer_get, &layer, name); }
inline Tensor get(State& state, const char* name) { return make(aster_ml_state_get, &state, name); }
inline Tensor bytes_tensor(const std::string& bytes) {
  return Tensor::from(bytes.data(), aster_ml::dtypes::uint8, bytes.size());
}
inline std::string read_bytes(const Tensor& x) {
  std::string out(
      static_cast<size_t>(x.numel()) * aster_ml_dtype_size(aster_ml_lazy_dtype(x.get())), '\0');
  EXPECT_OK(x.copy_out(out.data(), out.size()));
  return out;
}
inline Tensor cast(const Tensor& x, int32_t dtype) { return x.cast(aster_ml::Dtype{dtype}); }
inline Tensor run(Layer& layer, const Tensor& x, int training = 0) {
  return make(aster_ml_layer_run, &layer, x.get(), training);
}

// A file of this test, gone with it.
class TemporaryFile {
 public:
  TemporaryFile() {
    static int counter = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("aster_nn_" + std::to_string(getpid()) + "_" + std::to_string(counter++));
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const char* path() const { return path_.c_str(); }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string read() const { return file_bytes(path_); }

 private:
  std::filesystem::path path_;
};

}  // namespace nn_test
