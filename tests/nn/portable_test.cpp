// Portable programs: what is loaded computes what was saved, what is malformed is refused.
#include "aster_ml/portable.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "aster_ml/freeze.h"
#include "aster_ml/functions.h"
#include "aster_ml/gradient.h"
#include "aster_ml/graph.h"
#include "aster_ml/tensor.h"
#include "aster_ml/uop.h"

namespace {

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

std::string message() {
  aster_ml_error error;
  aster_ml_error_last(&error);
  return std::string(error.function) + ": " + error.message;
}
#define OK(call) ASSERT_EQ(call, ASTER_ML_OK) << message()

class Portable : public testing::Test {
 protected:
  void SetUp() override {
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    options.threads = 1;
    OK(aster_ml_context_init(&context, &options));
    folder =
        std::filesystem::temp_directory_path() / ("aster_portable_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override {
    for (aster_ml_lazy* each : handles) {
      aster_ml_lazy_free(each);
      delete each;
    }
    EXPECT_EQ(aster_ml_context_free(&context), 0) << message();
    std::filesystem::remove_all(folder);
  }
  aster_ml_lazy* handle() {
    handles.push_back(new aster_ml_lazy{});
    return handles.back();
  }
  aster_ml_lazy* data(const Floats& values, const std::vector<int64_t>& shape) {
    aster_ml_lazy* out = handle();
    EXPECT_EQ(aster_ml_lazy_from(out, &context, values.data(), ASTER_ML_DTYPE_FLOAT32, shape.size(),
                                 shape.data()),
              0)
        << message();
    return out;
  }
  aster_ml_boundary boundary(const std::vector<aster_ml_lazy*>& inputs,
                             const std::vector<aster_ml_lazy*>& outputs) {
    kept_inputs = inputs;
    kept_outputs = outputs;
    aster_ml_boundary b{};
    b.struct_size = sizeof(b);
    b.inputs = kept_inputs.data();
    b.input_count = inputs.size();
    b.outputs = kept_outputs.data();
    b.output_count = outputs.size();
    return b;
  }
  Bytes bytes(const aster_ml_boundary& b, uint32_t flags = 0) {
    size_t length = 0;
    EXPECT_EQ(aster_ml_program_to_bytes(nullptr, &length, 0, &context, &b, flags), 0) << message();
    Bytes out(length);
    EXPECT_EQ(aster_ml_program_to_bytes(out.data(), &length, length, &context, &b, flags), 0)
        << message();
    return out;
  }
  std::string path(const char* name) const { return (folder / name).string(); }

  // Runs a program of one float32 input and output.
  Floats run(const aster_ml_program& program, const Floats& input, size_t count) {
    aster_ml_program_array in{}, result{};
    in.struct_size = result.struct_size = sizeof(in);
    EXPECT_EQ(aster_ml_program_get_array(&in, &program, ASTER_ML_PROGRAM_INPUTS, 0), 0);
    EXPECT_EQ(aster_ml_program_get_array(&result, &program, ASTER_ML_PROGRAM_OUTPUTS, 0), 0);
    Floats out(count);
    aster_ml_tensor x = described(const_cast<float*>(input.data()), in);
    aster_ml_tensor y = described(out.data(), result);
    EXPECT_EQ(aster_ml_program_run(&program, nullptr, &x, 1, &y, 1), 0) << message();
    aster_ml_tensor_free(&x);
    aster_ml_tensor_free(&y);
    return out;
  }
  aster_ml_tensor described(float* memory, const aster_ml_program_array& array) {
    aster_ml_tensor out{};
    const aster_ml_buffer buffer = {memory, array.bytes, array.dtype, 0};
    const std::vector<size_t> shape(array.shape, array.shape + array.ndim);
    EXPECT_EQ(aster_ml_tensor_from_buffer(&out, &context, &buffer, 0, shape.size(), shape.data(),
                                          nullptr),
              0)
        << message();
    return out;
  }
  // softmax(relu(x w) + b), rows of 3.
  aster_ml_lazy* network(aster_ml_lazy* x) {
    aster_ml_lazy* w = data({0.5f, -1, 2, 0.25f, 1, -0.5f, 1, 1, -2}, {3, 3});
    aster_ml_lazy *b = data({0.1f, 0.2f, -0.3f}, {3}), *y = handle(), *z = handle();
    EXPECT_EQ(aster_ml_lazy_matmul(y, x, w), 0);
    EXPECT_EQ(aster_ml_lazy_relu(z, y), 0);
    aster_ml_lazy *sum = handle(), *out = handle();
    EXPECT_EQ(aster_ml_lazy_add(sum, z, b), 0);
    EXPECT_EQ(aster_ml_lazy_softmax(out, sum, 1), 0);
    return out;
  }
  Floats read(aster_ml_lazy* x) {
    Floats out(static_cast<size_t>(aster_ml_lazy_count(x)));
    EXPECT_EQ(aster_ml_lazy_copy_out(out.data(), out.size() * 4, x), 0) << message();
    return out;
  }

  aster_ml_context context{};
  std::vector<aster_ml_lazy*> handles, kept_inputs, kept_outputs;
  std::filesystem::path folder;
};

TEST_F(Portable, FilesBytesAndTextsComputeTheSame) {
  const Floats first = {1, 2, 3, 4, 5, 6}, second = {-1, 0.5f, 2, 3, -2, 1};
  aster_ml_lazy *x = data(first, {2, 3}), *y = network(x);
  aster_ml_boundary b = boundary({x}, {y});
  const char *in = "pixels", *out = "scores \"1\"\n";
  b.input_names = &in;
  b.output_names = &out;
  const Bytes binary = bytes(b), text = bytes(b, ASTER_ML_PROGRAM_TEXT);
  OK(aster_ml_program_save(path("net.aster").c_str(), &context, &b, 0));
  OK(aster_ml_program_save(path("side.aster").c_str(), &context, &b, ASTER_ML_PROGRAM_SIDE_FILE));
  OK(aster_ml_program_save(path("net.txt").c_str(), &context, &b, ASTER_ML_PROGRAM_TEXT));
  EXPECT_EQ(aster_ml_lazy_is_realized(y), 0);  // nothing was computed
  const Floats want = read(y);
  aster_ml_lazy *x2 = data(second, {2, 3}), *y2 = network(x2);
  const Floats want2 = read(y2);

  aster_ml_program programs[5] = {};
  OK(aster_ml_program_from_bytes(&programs[0], &context, binary.data(), binary.size()));
  OK(aster_ml_program_from_bytes(&programs[1], &context, text.data(), text.size()));
  OK(aster_ml_program_load(&programs[2], &context, path("net.aster").c_str()));
  OK(aster_ml_program_load(&programs[3], &context, path("side.aster").c_str()));
  OK(aster_ml_program_load(&programs[4], &context, path("net.txt").c_str()));
  for (aster_ml_program& program : programs) {
    EXPECT_EQ(run(program, first, 6), want);  // the same kernels, so the same bits
    EXPECT_EQ(run(program, second, 6), want2);
    aster_ml_program_array array{};
    array.struct_size = sizeof(array);
    OK(aster_ml_program_get_array(&array, &program, ASTER_ML_PROGRAM_INPUTS, 0));
    EXPECT_STREQ(array.name, in);
    OK(aster_ml_program_get_array(&array, &program, ASTER_ML_PROGRAM_OUTPUTS, 0));
    EXPECT_STREQ(array.name, out);
    OK(aster_ml_program_free(&program));
  }
  OK(aster_ml_program_verify(&context, binary.data(), binary.size()));
}

TEST_F(Portable, ConstantsAreTheFilesPages) {
  Floats large(1 << 16);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i % 91);
  aster_ml_lazy *x = data({2}, {1}), *w = data(large, {1 << 16}), *y = handle();
  OK(aster_ml_lazy_mul(y, x, w));
  const aster_ml_boundary b = boundary({x}, {y});
  OK(aster_ml_program_save(path("large.aster").c_str(), &context, &b, 0));
  size_t before = 0, after = 0;
  OK(aster_ml_context_count_bytes(&before, nullptr, &context));
  aster_ml_program program{};
  OK(aster_ml_program_load(&program, &context, path("large.aster").c_str()));
  OK(aster_ml_context_count_bytes(&after, nullptr, &context));
  aster_ml_program_array array{};
  array.struct_size = sizeof(array);
  OK(aster_ml_program_get_array(&array, &program, ASTER_ML_PROGRAM_CAPTURED, 0));
  EXPECT_EQ(array.bytes, large.size() * 4);
  std::ifstream maps("/proc/self/maps");  // where the constant lies is a mapping of the file
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    const auto at = reinterpret_cast<uintptr_t>(array.data);
    found |= at >= begin && at < end && line.find("large.aster") != std::string::npos;
  }
  EXPECT_TRUE(found);
  const Floats got = run(program, {3}, large.size());
  for (size_t i = 0; i < large.size(); i += 997) EXPECT_EQ(got[i], 3 * large[i]);
  OK(aster_ml_program_free(&program));
}

// The constants of a loaded program lie in the order in which its kernels read, after its first
// run.
TEST_F(Portable, ConstantsAreCopiedOnce) {
  Floats in(300), weights(300 * 100);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 13) - 6;
  aster_ml_lazy *x = data(in, {1, 300}), *w = data(weights, {300, 100}), *y = handle();
  OK(aster_ml_lazy_matmul(y, x, w));
  const aster_ml_boundary b = boundary({x}, {y});
  OK(aster_ml_program_save(path("product.aster").c_str(), &context, &b, 0));
  aster_ml_program program{};
  OK(aster_ml_program_load(&program, &context, path("product.aster").c_str()));
  const Floats got = run(program, in, 100);
  for (size_t j = 0; j < 100; ++j) {
    float sum = 0;  // exact
    for (size_t i = 0; i < 300; ++i) sum += in[i] * weights[i * 100 + j];
    ASSERT_EQ(got[j], sum) << j;
  }
  size_t with = 0, without = 0;
  OK(aster_ml_context_count_bytes(&with, nullptr, &context));
  OK(aster_ml_program_free(&program));
  OK(aster_ml_context_count_bytes(&without, nullptr, &context));
  EXPECT_GE(with, without + weights.size() * sizeof(float));
}

// A step that assigns: the loaded program has state of its own, which loading does not change.
TEST_F(Portable, TrainingStepsHaveState) {
  aster_ml_lazy *x = data({1, 2}, {2}), *w = data({3, 4}, {2});
  aster_ml_lazy *product = handle(), *loss = handle(), *rate = handle(), *step = handle();
  aster_ml_lazy* next = handle();
  OK(aster_ml_lazy_mul(product, x, w));
  OK(aster_ml_lazy_sum(loss, product, 0, nullptr, 0));
  const aster_ml_lazy* targets[] = {w};
  aster_ml_lazy* slope = handle();
  OK(aster_ml_gradient(slope, loss, targets, 1, nullptr));
  OK(aster_ml_lazy_number(rate, &context, 0.5));
  OK(aster_ml_lazy_mul(step, slope, rate));
  OK(aster_ml_lazy_sub(next, w, step));
  OK(aster_ml_lazy_assign(w, next));
  const aster_ml_boundary b = boundary({x}, {w});
  const Bytes program_bytes = bytes(b);
  aster_ml_program program{};
  OK(aster_ml_program_from_bytes(&program, &context, program_bytes.data(), program_bytes.size()));
  EXPECT_EQ(run(program, {1, 2}, 2), (Floats{2.5f, 3}));
  EXPECT_EQ(run(program, {1, 2}, 2), (Floats{2, 2}));
  EXPECT_EQ(run(program, {4, 0}, 2), (Floats{0, 2}));
  EXPECT_EQ(read(w), (Floats{2.5f, 3}));  // the one that was saved has its own
  OK(aster_ml_program_free(&program));
}

// A program of version 1, opset 1, as it was written when that was made: it is read for ever.
TEST_F(Portable, TheRecordedFileIsRead) {
  const char* root = std::getenv("ASTER_ML_TEST_DATA");
  if (root == nullptr) GTEST_SKIP() << "no test data";
  for (const char* name : {"program_v1.aster", "program_v1.txt"}) {
    const std::string file = std::string(root) + "/nn/" + name;
    aster_ml_program program{};
    OK(aster_ml_program_load(&program, &context, file.c_str()));
    const Floats got = run(program, {1, 2, 3, 4, 5, 6}, 6);
    for (size_t row = 0; row < 2; ++row) {  // softmax(relu(x w) + b), by hand
      const double w[3][3] = {{0.5, -1, 2}, {0.25, 1, -0.5}, {1, 1, -2}}, b[3] = {0.1, 0.2, -0.3};
      double e[3], total = 0;
      for (int j = 0; j < 3; ++j) {
        double sum = 0;
        for (int k = 0; k < 3; ++k)
          sum += static_cast<double>(row * 3 + static_cast<size_t>(k) + 1) * w[k][j];
        e[j] = std::exp(std::max(sum, 0.0) + b[j]);
        total += e[j];
      }
      for (int j = 0; j < 3; ++j)
        EXPECT_NEAR(got[row * 3 + static_cast<size_t>(j)], e[j] / total, 1e-6);
    }
    OK(aster_ml_program_free(&program));
  }
}

// One of version 2: rows of a variable number, several realize calls, state by name.
TEST_F(Portable, TheRecordedFileOfVersion2IsRead) {
  const char* root = std::getenv("ASTER_ML_TEST_DATA");
  if (root == nullptr) GTEST_SKIP() << "no test data";
  for (const char* name : {"program_v2.aster", "program_v2.txt"}) {
    const std::string file = std::string(root) + "/nn/" + name;
    aster_ml_program program{};
    OK(aster_ml_program_load(&program, &context, file.c_str()));
    aster_ml_program_variable n{};
    n.struct_size = sizeof(n);
    OK(aster_ml_program_get_variable(&n, &program, 0));
    EXPECT_STREQ(n.name, "n");
    EXPECT_EQ(n.min, 1);
    EXPECT_EQ(n.max, 8);
    aster_ml_program_array array{};
    array.struct_size = sizeof(array);
    bool named = false;
    for (size_t i = 0; i < aster_ml_program_count_arrays(&program, ASTER_ML_PROGRAM_CAPTURED);
         ++i) {
      OK(aster_ml_program_get_array(&array, &program, ASTER_ML_PROGRAM_CAPTURED, i));
      named |= array.assigned == 1 && std::string(array.name) == "total";
    }
    EXPECT_TRUE(named);
    const float w[3] = {2, 0.5f, -1};
    double total[3] = {};
    for (const size_t rows : {2u, 8u, 1u}) {
      Floats x(rows * 3), scaled(rows * 3), sums(3);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 2.5f;
      const auto of = [&](Floats& memory, const std::vector<size_t>& shape) {
        aster_ml_tensor out{};
        const aster_ml_buffer buffer = {memory.data(), memory.size() * 4, ASTER_ML_DTYPE_FLOAT32,
                                        0};
        EXPECT_EQ(aster_ml_tensor_from_buffer(&out, &context, &buffer, 0, shape.size(),
                                              shape.data(), nullptr),
                  0);
        return out;
      };
      aster_ml_tensor in = of(x, {rows, 3}), out[2] = {of(scaled, {rows, 3}), of(sums, {3})};
      OK(aster_ml_program_run_sized(&program, nullptr, &in, 1, out, 2));
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(scaled[i], x[i] * w[i % 3]);
        total[i % 3] += static_cast<double>(x[i]) * static_cast<double>(w[i % 3]);
      }
      for (size_t j = 0; j < 3; ++j) EXPECT_NEAR(static_cast<double>(sums[j]), total[j], 1e-5);
      for (aster_ml_tensor* each : {&in, &out[0], &out[1]}) aster_ml_tensor_free(each);
    }
    OK(aster_ml_program_free(&program));
    // Frozen code is for one size.
    EXPECT_EQ(aster_ml_freeze(path("frozen.c").c_str(), &context, file.c_str(), nullptr),
              ASTER_ML_UNSUPPORTED);
    EXPECT_NE(message().find("sizes are variables"), std::string::npos) << message();
    EXPECT_FALSE(std::filesystem::exists(path("frozen.c")));
  }
}

// Its text altered at random: statuses, and what is taken loads or says why it does not.
TEST_F(Portable, MutationsOfVersion2GiveStatuses) {
  const char* root = std::getenv("ASTER_ML_TEST_DATA");
  if (root == nullptr) GTEST_SKIP() << "no test data";
  std::ifstream file(std::string(root) + "/nn/program_v2.txt");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  constexpr std::string_view kLetters = "%=[](), \n\"@#0123456789AddSubint32-realizesizesrequire<";
  size_t refused = 0, loads = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string altered = text;
    for (size_t n = 1 + random() % 2; n > 0; --n) {
      const size_t at = random() % altered.size(), length = 1 + random() % 6;
      if (random() % 3 == 0) {
        altered.erase(at, length);
      } else if (random() % 2 == 0) {
        altered[at] = kLetters[random() % kLetters.size()];
      } else {
        altered.insert(at, altered.substr(random() % altered.size(), length));
      }
    }
    const int32_t code = aster_ml_program_verify(&context, altered.data(), altered.size());
    ASSERT_NE(code, ASTER_ML_INTERNAL) << message();
    refused += code != 0 ? 1 : 0;
    if (code != 0 || ++loads > 40) continue;
    aster_ml_program program{};
    const int32_t loaded =
        aster_ml_program_from_bytes(&program, &context, altered.data(), altered.size());
    ASSERT_NE(loaded, ASTER_ML_INTERNAL) << message() << altered;
    EXPECT_EQ(loaded == 0, program.impl != nullptr);
    OK(aster_ml_program_free(&program));
  }
  EXPECT_GT(refused, 1000u);
}

TEST_F(Portable, BadInputIsNamed) {
  aster_ml_lazy *x = data({1, 2}, {2}), *y = handle();
  OK(aster_ml_lazy_exp(y, x));
  aster_ml_program program{};
  const auto refuse = [&](int32_t code, const std::string& text, const char* says) {
    EXPECT_EQ(aster_ml_program_verify(&context, text.data(), text.size()), code) << text;
    EXPECT_NE(message().find(says), std::string::npos) << message();
    EXPECT_EQ(aster_ml_program_from_bytes(&program, &context, text.data(), text.size()), code);
    EXPECT_EQ(program.impl, nullptr);
  };
  const std::string head = "aster 1 opset 1\n", in = "%0 = Input float32[2] \"x\"\n",
                    end = "output %1 \"y\"\nend\n";
  const std::string good = head + in + "%1 = Exp float32[2] %0\n" + end;
  OK(aster_ml_program_verify(&context, good.data(), good.size()));
  refuse(ASTER_ML_FORMAT, "", "no program");
  refuse(ASTER_ML_FORMAT, "hello", "no program");
  refuse(ASTER_ML_UNSUPPORTED, "aster 3 opset 1\n" + in, "version 3");
  refuse(ASTER_ML_UNSUPPORTED, "aster 1 opset 9\n" + in, "opset 9");
  refuse(ASTER_ML_FORMAT, head + in + "%1 = Exp float32[3] %0\n" + end, "line 3");
  refuse(ASTER_ML_FORMAT, head + in + "%1 = Exp float64[2] %0\n" + end, "line 3");
  refuse(ASTER_ML_FORMAT, head + in + "%1 = Expo float32[2] %0\n" + end, "Expo");
  refuse(ASTER_ML_FORMAT, head + in + "%1 = Exp float32[2] %1\n" + end, "a node above");
  refuse(ASTER_ML_FORMAT, head + in + "%2 = Exp float32[2] %0\n" + end, "next number");
  refuse(ASTER_ML_FORMAT, head + in + "%1 = Exp float32[2] %0\n", "\"end\"");
  refuse(ASTER_ML_FORMAT, good + "x\n", "nothing behind the end");
  refuse(ASTER_ML_FORMAT, head + in + "%1 = Param float32[2] (0)\n" + end, "line 3");
  refuse(ASTER_ML_FORMAT, head + in + "%1 = Constant float32[2] @0\n" + end, "constant of 8 bytes");
  refuse(ASTER_ML_FORMAT, head + in + "%1 = Constant float32[2] #00\n" + end, "1 bytes");
  refuse(ASTER_ML_FORMAT, head + in + "%1 = Input float32[2] \"x\"\n" + end, "a name of its own");
  refuse(ASTER_ML_FORMAT,
         head + in +
             "%1 = Assign float32[2] %0 %0\n%2 = Exp float32[2] %1\n"
             "%3 = Assign float32[2] %2 %0\n" +
             end,
         "line 5");
  refuse(ASTER_ML_FORMAT, head + in + "%1 = Constant float32[4611686018427387904] @0\n" + end,
         "line 3");

  EXPECT_EQ(aster_ml_program_load(&program, &context, path("none").c_str()), ASTER_ML_NOT_FOUND);
  const aster_ml_boundary none = boundary({x}, {}), twice = boundary({x, x}, {y});
  size_t length = 0;
  EXPECT_EQ(aster_ml_program_to_bytes(nullptr, &length, 0, &context, &none, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_program_to_bytes(nullptr, &length, 0, &context, &twice, 0), ASTER_ML_ARGUMENT);
  const aster_ml_boundary b = boundary({x}, {y});
  EXPECT_EQ(aster_ml_program_save((folder / "no" / "such").c_str(), &context, &b, 0),
            ASTER_ML_NOT_FOUND);
  EXPECT_EQ(aster_ml_program_to_bytes(nullptr, &length, 0, &context, &b, 8), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_program_to_bytes(nullptr, &length, 0, &context, nullptr, 0),
            ASTER_ML_ARGUMENT);
  // The side file has to be there, and the one that was written.
  aster_ml_lazy *w = data({1, 2}, {2}), *z = handle();
  OK(aster_ml_lazy_mul(z, x, w));
  const aster_ml_boundary with = boundary({x}, {z});
  OK(aster_ml_program_save(path("s.aster").c_str(), &context, &with, ASTER_ML_PROGRAM_SIDE_FILE));
  std::filesystem::resize_file(path("s.aster.data"), 4);
  EXPECT_EQ(aster_ml_program_load(&program, &context, path("s.aster").c_str()), ASTER_ML_FORMAT);
  std::filesystem::remove(path("s.aster.data"));
  EXPECT_EQ(aster_ml_program_load(&program, &context, path("s.aster").c_str()), ASTER_ML_NOT_FOUND);
}

// A device that is full while a program is written: a status, and what was there before is there.
TEST_F(Portable, WhatCannotBeWrittenWholeIsNotWritten) {
  aster_ml_lazy *x = data(Floats(4096, 1), {4096}), *y = handle();
  aster_ml_lazy* w = data(Floats(4096, 2), {4096});
  OK(aster_ml_lazy_mul(y, x, w));
  const aster_ml_boundary b = boundary({x}, {y});
  OK(aster_ml_program_save(path("p.aster").c_str(), &context, &b, 0));
  const auto written = [&] {
    std::ifstream file(path("p.aster"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string before = written();
  EXPECT_GT(before.size(), 16384u);
  const auto files = [&] {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) count += entry.exists();
    return count;
  };
  const size_t there = files();
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small{1024, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const int32_t over = aster_ml_program_save(path("p.aster").c_str(), &context, &b, 0);
  const int32_t anew = aster_ml_program_save(path("q.aster").c_str(), &context, &b, 0);
  const int32_t side =
      aster_ml_program_save(path("r.aster").c_str(), &context, &b, ASTER_ML_PROGRAM_SIDE_FILE);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(over, ASTER_ML_IO);
  EXPECT_EQ(anew, ASTER_ML_IO);
  EXPECT_EQ(side, ASTER_ML_IO);
  EXPECT_TRUE(written() == before);
  EXPECT_EQ(files(), there);
}

// The format's checksum, written anew from docs/PORTABLE.md.
uint64_t sum_of(const uint8_t* bytes, size_t size, uint64_t from = 0xcbf29ce484222325u) {
  uint64_t sum = from ^ size;
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min<size_t>(8, size - i));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 32;
  }
  return sum;
}
// Makes the checksums of altered bytes right, so that what is behind them is reached.
void mend(Bytes& file) {
  if (file.size() < 64) return;
  uint64_t field[6];
  std::memcpy(field, file.data() + 8, 48);
  const auto inside = [&](uint64_t at, uint64_t size) {
    return at <= file.size() && size <= file.size() - at;
  };
  if (inside(field[1], field[2]) && inside(field[3], field[4])) {
    const uint64_t contents =
        sum_of(file.data() + field[3], field[4], sum_of(file.data() + field[1], field[2]));
    std::memcpy(file.data() + 48, &contents, 8);
  }
  const uint64_t header = sum_of(file.data(), 56);
  std::memcpy(file.data() + 56, &header, 8);
}

TEST_F(Portable, MutationsGiveStatuses) {
  aster_ml_lazy *x = data({1, 2, 3, 4, 5, 6}, {2, 3}), *y = network(x), *w = data({1, 2, 3}, {3});
  aster_ml_lazy* more = handle();
  OK(aster_ml_lazy_add(more, x, w));
  OK(aster_ml_lazy_assign(w, data({4, 5, 6}, {3})));
  const aster_ml_boundary b = boundary({x}, {y, more, w});
  const Bytes binary = bytes(b), text = bytes(b, ASTER_ML_PROGRAM_TEXT);
  OK(aster_ml_program_verify(&context, binary.data(), binary.size()));
  OK(aster_ml_program_verify(&context, text.data(), text.size()));
  for (size_t i = 0; i < binary.size(); ++i) {  // every byte is under a checksum, or is padding
    Bytes altered = binary;
    altered[i] ^= 0x41;
    const int32_t code = aster_ml_program_verify(&context, altered.data(), altered.size());
    EXPECT_TRUE(code != 0 || binary[i] == 0) << i;
  }
  for (size_t size = 0; size < binary.size(); ++size)
    EXPECT_NE(aster_ml_program_verify(&context, binary.data(), size), 0) << size;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  size_t refused = 0;
  constexpr std::string_view kLetters = "%=[](), \n\"@#0123456789ExpAddfloat32-";
  for (int round = 0; round < 6000; ++round) {
    const bool mended = round % 2 == 0;
    Bytes altered = mended ? binary : text;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % altered.size();
      switch (random() % 4) {
        case 0:
          altered[at] = static_cast<uint8_t>(random());
          break;
        case 1:
          altered[at] = static_cast<uint8_t>(kLetters[random() % kLetters.size()]);
          break;
        case 2:
          altered.erase(altered.begin() + static_cast<ptrdiff_t>(at),
                        altered.begin() + static_cast<ptrdiff_t>(
                                              std::min(altered.size(), at + 1 + random() % 9)));
          break;
        default:
          altered.insert(altered.begin() + static_cast<ptrdiff_t>(at),
                         altered.begin() + static_cast<ptrdiff_t>(random() % (at + 1)),
                         altered.begin() + static_cast<ptrdiff_t>(at));
          break;
      }
      if (altered.empty()) altered.push_back(0);
    }
    if (mended) mend(altered);
    const int32_t code = aster_ml_program_verify(&context, altered.data(), altered.size());
    ASSERT_NE(code, ASTER_ML_INTERNAL) << message();
    refused += code != 0 ? 1 : 0;
  }
  EXPECT_GT(refused, 1000u);
}

}  // namespace
