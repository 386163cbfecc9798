// Bad input of layers, optimisers, states and files: the status, words of its message, nothing
// half-changed.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "refusal.h"

namespace programs {
namespace {

class BadInputNn : public testing::Test {
 protected:
  BadInputNn() {
    path_ = (std::filesystem::temp_directory_path() /
             ("aster_bad_nn_" + std::to_string(getpid()) + "_" + std::to_string(std::rand())))
                .string();
  }
  ~BadInputNn() override { std::filesystem::remove_all(path_); }

  void expect(int32_t status, int32_t expected, const char* function, const std::string& word) {
    expect_refusal(status, expected, function, {word});
  }
  // A file before torch 1.6 around one pickle.
  void write_pickle(const std::string& pickle) const {
    const std::string magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
    const std::string rest("\x80\x02M\xe9\x03.\x80\x02}.", 10);
    std::ofstream(path_, std::ios::binary) << magic << rest << pickle << "\x80\x02].";
  }

  Session s;
  std::string path_;
};

// Pickles that would run something where they are loaded by Python: refused by the name of what
// they ask for, and nothing of it happens.
TEST_F(BadInputNn, MaliciousPickles) {
  const std::string mark = path_ + ".ran";
  const struct {
    std::string named, pickle;
  } files[] = {
      {"posix.system",
       "\x80\x02"
       "cposix\nsystem\nVtouch\n\x85R."},
      {"os.system", "cos\nsystem\n(S'touch " + mark + "'\ntR."},
      {"builtins.exec",
       "\x80\x04\x8c\x08"
       "builtins\x8c\x04"
       "exec\x93\x8c\x04pass\x85R."},
      {"builtins.getattr", "cbuiltins\ngetattr\n(cos\npath\nS'join'\ntR."},
      {"torch.load", "ctorch\nload\n(S'" + mark + "'\ntR."},
      {"numpy.core.multiarray.scalar", "cnumpy.core.multiarray\nscalar\n)R."},
      {"__main__.Model", "c__main__\nModel\n)\x81}b."},
      {"runpy._run_code", "crunpy\n_run_code\n(Vprint(1)\n}tR."},
  };
  for (const auto& file : files) {
    write_pickle(file.pickle);
    aster_ml_state state{};
    expect(aster_ml_state_read_torch(&state, s.get(), path_.c_str()), ASTER_ML_UNSUPPORTED,
           "aster_ml_state_read_torch", "'" + file.named + "'");
    EXPECT_EQ(state.impl, nullptr);
    EXPECT_FALSE(std::filesystem::exists(mark));
  }
}

TEST_F(BadInputNn, FilesThatAreSomethingElse) {
  std::ofstream(path_) << "neither an archive nor a pickle";
  aster_ml_state state{};
  expect(aster_ml_state_read_torch(&state, s.get(), path_.c_str()), ASTER_ML_FORMAT,
         "aster_ml_state_read_torch", "no torch file");
  expect(aster_ml_state_read_zip(&state, s.get(), path_.c_str()), ASTER_ML_FORMAT,
         "aster_ml_state_read_zip", "zip archive");
  expect(aster_ml_state_read_tar(&state, s.get(), path_.c_str()), ASTER_ML_FORMAT,
         "aster_ml_state_read_tar", "tar archive");
  expect(aster_ml_state_read(&state, s.get(), path_.c_str()), ASTER_ML_FORMAT,
         "aster_ml_state_read", "");
  Tensor floats = data({4});
  expect(aster_ml_state_from_zip(&state, floats.get()), ASTER_ML_DTYPE, "aster_ml_state_from_zip",
         "float32[4]");
  EXPECT_EQ(state.impl, nullptr);
}

TEST_F(BadInputNn, FilesAsTensors) {
  std::ofstream(path_) << "12345678";
  aster_ml_lazy out{};
  const int64_t three[] = {3};
  expect(aster_ml_lazy_from_file(&out, s.get(), path_.c_str(), ASTER_ML_DTYPE_FLOAT32, 1, three, 0,
                                 ASTER_ML_FILE_WRITE),
         ASTER_ML_RANGE, "aster_ml_lazy_from_file", "8 bytes is asked for 12");
  EXPECT_EQ(std::filesystem::file_size(path_), 8u);
  const int64_t two[] = {2};
  OK(aster_ml_lazy_from_file(&out, s.get(), path_.c_str(), ASTER_ML_DTYPE_FLOAT32, 1, two, 0,
                             ASTER_ML_FILE_READ));
  Tensor other = data({2});
  expect(aster_ml_lazy_assign(&out, other.get()), ASTER_ML_ARGUMENT, "aster_ml_lazy_assign",
         "read-only");
  OK(aster_ml_lazy_free(&out));
}

// A step that fails leaves weights, moments and rate as they were.
TEST_F(BadInputNn, OptimisersKeepWhatTheyHave) {
  aster_ml_state state{};
  aster_ml_optimizer optimizer{};
  OK(aster_ml_state_init(&state, s.get()));
  Tensor w = data({3});
  OK(aster_ml_state_set(&state, "w", w.get(), 1));
  OK(aster_ml_lamb_init(&optimizer, &state, nullptr));
  const std::vector<float> before = read(w);
  Tensor wrong = data({4}), integers = Tensor(std::vector<int32_t>{1, 2, 3}, {3}), matrix = w * w;
  for (Tensor* gradient : {&wrong, &integers}) {
    const aster_ml_lazy* gradients[] = {gradient->get()};
    EXPECT_NE(aster_ml_optimizer_schedule_by(&optimizer, gradients, 1), 0);
    EXPECT_NE(aster_ml_optimizer_step_by(&optimizer, gradients, 1), 0);
  }
  expect(aster_ml_optimizer_step(&optimizer, matrix.get()), ASTER_ML_SHAPE,
         "aster_ml_optimizer_step", "0-d loss");
  EXPECT_EQ(read(w), before);
  aster_ml_adam_options options{};
  aster_ml_optimizer none{};
  expect(aster_ml_lamb_init(&none, &state, &options), ASTER_ML_ARGUMENT, "aster_ml_lamb_init",
         "struct_size");
  options.struct_size = sizeof(options);
  options.beta2 = 1;
  expect(aster_ml_lamb_init(&none, &state, &options), ASTER_ML_RANGE, "aster_ml_lamb_init",
         "beta2");
  EXPECT_EQ(none.impl, nullptr);
  OK(aster_ml_optimizer_free(&optimizer));
  OK(aster_ml_state_free(&state));
}

TEST_F(BadInputNn, Layers) {
  aster_ml_layer layer{};
  expect(aster_ml_group_norm_init(&layer, s.get(), 3, 4, 1e-5, 1), ASTER_ML_SHAPE,
         "aster_ml_group_norm_init", "4 channels in 3 groups");
  OK(aster_ml_embedding_init(&layer, s.get(), 4, 2));
  Tensor floats = data({2});
  aster_ml_lazy out{};
  expect(aster_ml_layer_run(&out, &layer, floats.get(), 0), ASTER_ML_DTYPE, "aster_ml_layer_run",
         "float32[2]");
  aster_ml_lazy h{}, c{};
  expect(aster_ml_lstm_cell_run(&h, &c, &layer, floats.get(), nullptr, nullptr), ASTER_ML_ARGUMENT,
         "aster_ml_lstm_cell_run", "LSTM");
  OK(aster_ml_layer_free(&layer));
  OK(aster_ml_lstm_cell_init(&layer, s.get(), 2, 3, 0));
  expect(aster_ml_lstm_cell_run(&h, &c, &layer, floats.get(), nullptr, nullptr), ASTER_ML_SHAPE,
         "aster_ml_lstm_cell_run", "float32[2]");
  EXPECT_EQ(h.impl, nullptr);
  EXPECT_EQ(c.impl, nullptr);
  OK(aster_ml_layer_free(&layer));
}

}  // namespace
}  // namespace programs
