// aster demo digits: a convolutional network learns to read handwritten digits.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>

#include "digits.h"
#include "json.h"
#include "page.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
constexpr size_t kPixels = 64, kDigits = 1797, kTested = kDigits / 5, kBatch = 128;
constexpr size_t kTrained = kDigits - kTested;
constexpr double kRate = 0.01, kNeeded = 0.98;

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

// ---- Data ----

struct Digits {
  std::vector<float> pixels = std::vector<float>(kDigits * kPixels);  // 0 to 1
  std::vector<int32_t> labels = std::vector<int32_t>(kDigits);
};

fs::path default_data() {
  std::error_code error;
  const fs::path command = fs::read_symlink("/proc/self/exe", error);
  return command.parent_path().parent_path() / "share/aster_ml/data/digits.bin";
}

// examples/data/README.md describes the file.
Digits read_digits(const fs::path& path) {
  std::vector<unsigned char> bytes(kDigits * (kPixels + 1) + 1);
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) throw Failure{1, path.string() + ": " + std::strerror(errno)};
  const size_t size = std::fread(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  Digits out;
  bool fits = size == bytes.size() - 1;
  for (size_t i = 0; fits && i < kDigits; ++i) {
    const unsigned char* record = bytes.data() + i * (kPixels + 1);
    for (size_t p = 0; p < kPixels; ++p) {
      fits &= record[p] <= 16;
      out.pixels[i * kPixels + p] = static_cast<float>(record[p]) / 16;
    }
    out.labels[i] = record[kPixels];
    fits &= out.labels[i] < 10;
  }
  if (!fits) throw Failure{1, path.string() + " is not the digits' file"};
  return out;
}

// Digits picked by index into [count, 64] pixels and [count] labels.
void gather(float* pixels, int32_t* labels, const Digits& digits, const size_t* order,
            size_t count) {
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(pixels + i * kPixels, &digits.pixels[order[i] * kPixels], kPixels * sizeof(float));
    labels[i] = digits.labels[order[i]];
  }
}

// The same order from the same seed everywhere, which std::shuffle does not promise.
class Shuffle {
 public:
  explicit Shuffle(uint64_t seed) : state_(seed) {}
  void operator()(size_t* order, size_t count) {
    for (size_t i = count; i-- > 1;) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      std::swap(order[i], order[(state_ >> 33) % (i + 1)]);
    }
  }

 private:
  uint64_t state_;
};

// ---- Network ----

class Network {
 public:
  explicit Network(const aster_ml_context* context) : context_(context) {
    aster_ml_conv2d_options same{};
    same.struct_size = sizeof(same);
    std::fill_n(same.padding, 4, 1);
    check(aster_ml_conv2d_init(conv_[0].get(), context, 1, 16, 3, 3, 0, &same));
    check(aster_ml_batch_norm_init(norm_[0].get(), context, 16, nullptr));
    check(aster_ml_conv2d_init(conv_[1].get(), context, 16, 32, 3, 3, 0, &same));
    check(aster_ml_batch_norm_init(norm_[1].get(), context, 32, nullptr));
    check(aster_ml_linear_init(linear_.get(), context, 32 * 2 * 2, 10, 1));
    check(aster_ml_state_init(state_.get(), context));
    const auto add = [&](const char* prefix, const Layer& layer) {
      check(aster_ml_state_set_layer(state_.get(), prefix, layer.get()));
    };
    add("conv1.", conv_[0]);
    add("norm1.", norm_[0]);
    add("conv2.", conv_[1]);
    add("norm2.", norm_[1]);
    add("linear.", linear_);
  }

  // [n, 64] -> [n, 10]
  Lazy run(const Lazy& images, bool training) const {
    const int64_t square[] = {-1, 1, 8, 8};
    Lazy x, flat, logits;
    check(aster_ml_lazy_reshape(x.get(), images.get(), 4, square));
    for (size_t i = 0; i < 2; ++i) {
      Lazy convolved, normed, positive, pooled;
      check(aster_ml_layer_run(convolved.get(), conv_[i].get(), x.get(), training));
      check(aster_ml_layer_run(normed.get(), norm_[i].get(), convolved.get(), training));
      check(aster_ml_lazy_relu(positive.get(), normed.get()));
      check(aster_ml_lazy_max_pool2d(pooled.get(), positive.get(), nullptr));
      x = std::move(pooled);
    }
    check(aster_ml_lazy_flatten(flat.get(), x.get(), 1, -1));
    check(aster_ml_layer_run(logits.get(), linear_.get(), flat.get(), training));
    return logits;
  }

  std::vector<int32_t> predict(const std::vector<float>& pixels) const {
    const int64_t shape[] = {static_cast<int64_t>(pixels.size() / kPixels), kPixels};
    std::vector<int32_t> out(pixels.size() / kPixels);
    Lazy images, best;
    check(aster_ml_lazy_from(images.get(), context_, pixels.data(), ASTER_ML_DTYPE_FLOAT32, 2,
                             shape));
    const Lazy logits = run(images, false);
    check(aster_ml_lazy_argmax(best.get(), logits.get(), -1, 0));
    check(aster_ml_lazy_copy_out(out.data(), out.size() * sizeof(int32_t), best.get()));
    return out;
  }

  // [n, 10]: of each digit.
  std::vector<float> probabilities(const std::vector<float>& pixels) const {
    const int64_t shape[] = {static_cast<int64_t>(pixels.size() / kPixels), kPixels};
    std::vector<float> out(pixels.size() / kPixels * DigitsRun::kClasses);
    Lazy images, shares;
    check(aster_ml_lazy_from(images.get(), context_, pixels.data(), ASTER_ML_DTYPE_FLOAT32, 2,
                             shape));
    const Lazy logits = run(images, false);
    check(aster_ml_lazy_softmax(shares.get(), logits.get(), -1));
    check(aster_ml_lazy_copy_out(out.data(), out.size() * sizeof(float), shares.get()));
    return out;
  }

  // Every trained tensor.
  std::vector<Lazy> trained() const {
    std::vector<Lazy> out;
    for (const char* name : {"conv1.weight", "norm1.weight", "norm1.bias", "conv2.weight",
                             "norm2.weight", "norm2.bias", "linear.weight", "linear.bias"}) {
      Lazy tensor;
      check(aster_ml_state_get(tensor.get(), state_.get(), name));
      out.push_back(std::move(tensor));
    }
    return out;
  }
  int64_t parameters() const {
    int64_t count = 0;
    for (const Lazy& tensor : trained()) count += aster_ml_lazy_count(tensor.get());
    return count;
  }
  aster_ml_state* state() { return state_.get(); }

 private:
  const aster_ml_context* context_;
  std::array<Layer, 2> conv_, norm_;
  Layer linear_;
  State state_;
};

// ---- Training ----

// One line that grows on a terminal; else a line now and then; nothing for machines.
class Progress {
 public:
  Progress(bool silent, int64_t epochs)
      : silent_(silent), terminal_(isatty(STDOUT_FILENO) != 0), epochs_(epochs) {}
  void show(int64_t done, double loss) const {
    constexpr int64_t kWidth = 30;
    if (silent_) return;
    if (terminal_) {
      std::string bar;
      for (int64_t i = 0; i < kWidth; ++i) bar += i * epochs_ < done * kWidth ? "█" : "░";
      std::printf("\rtraining %s %3lld/%lld epochs, loss %.4f%s", bar.c_str(), wide(done),
                  wide(epochs_), loss, done == epochs_ ? "\n" : "");
      std::fflush(stdout);
    } else if (done % 5 == 0 || done == epochs_) {
      std::printf("epoch %lld of %lld, loss %.4f\n", wide(done), wide(epochs_), loss);
    }
  }

 private:
  static long long wide(int64_t value) { return value; }
  bool silent_, terminal_;
  int64_t epochs_;
};

// A training step: recorded the first time, with what is in images and labels, then replayed.
class Step {
 public:
  Step(const aster_ml_context* context, const Network& network, const aster_ml_optimizer* optimizer)
      : context_(context), network_(network), optimizer_(optimizer) {
    const std::array<size_t, 2> shape = {kBatch, kPixels};
    check(aster_ml_tensor_init(images_.get(), context, ASTER_ML_DTYPE_FLOAT32, 0, 2, shape.data()));
    check(aster_ml_tensor_init(labels_.get(), context, ASTER_ML_DTYPE_INT32, 0, 1, shape.data()));
  }
  double run() {
    if (program_->impl == nullptr) return capture();
    const aster_ml_tensor in[] = {*images_.get(), *labels_.get()};
    check(aster_ml_program_run(program_.get(), nullptr, in, 2, loss_.get(), 1));
    return static_cast<double>(*static_cast<const float*>(loss_->storage.data));
  }
  float* images() { return static_cast<float*>(images_->storage.data); }
  int32_t* labels() { return static_cast<int32_t*>(labels_->storage.data); }
  size_t kernels() const { return aster_ml_program_count_kernels(program_.get()); }
  size_t bytes() const { return aster_ml_program_count_bytes(program_.get()); }

 private:
  double capture() {
    Lazy x, y, loss;
    check(aster_ml_lazy_from_tensor(x.get(), context_, images_.get()));
    check(aster_ml_lazy_from_tensor(y.get(), context_, labels_.get()));
    aster_ml_lazy *inputs[] = {x.get(), y.get()}, *outputs[] = {loss.get()};
    check(aster_ml_engine_capture_begin(context_, inputs, 2));
    const Lazy logits = network_.run(x, true);
    check(aster_ml_lazy_cross_entropy(loss.get(), logits.get(), y.get(), nullptr));
    check(aster_ml_optimizer_step(optimizer_, loss.get()));
    check(aster_ml_engine_capture_end(program_.get(), context_, outputs, 1));
    double value = 0;
    check(aster_ml_lazy_to_double(&value, loss.get()));
    return value;
  }
  const aster_ml_context* context_;
  const Network& network_;
  const aster_ml_optimizer* optimizer_;
  Tensor images_, labels_, loss_;
  Program program_;
};

struct Trained {
  double loss = 0, first_step_ms = 0, train_ms = 0;
  int64_t steps = 0;
  size_t kernels = 0;  // of one step
  size_t bytes = 0;    // of the memory it works in
};

// The share of digits whose greatest probability is that of their label.
double accuracy_of(const DigitsRun& run) {
  size_t right = 0;
  for (size_t i = 0; i < run.labels.size(); ++i) {
    const float* p = &run.probabilities[i * DigitsRun::kClasses];
    right += std::max_element(p, p + DigitsRun::kClasses) - p == run.labels[i];
  }
  return static_cast<double>(right) / static_cast<double>(run.labels.size());
}

// record, if given, is told of every step and epoch; the time that this takes is not counted.
Trained train(const aster_ml_context* context, Network& network, const Digits& digits,
              std::vector<size_t> order, int64_t epochs, Shuffle& shuffle, bool silent,
              DigitsRun* record) {
  Optimizer adam;
  check(aster_ml_adam_init(adam.get(), network.state(), nullptr));
  Step step(context, network, adam.get());
  const Progress progress(silent, epochs);
  Trained out;
  double start = now_ms();
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const double left = static_cast<double>(epochs - epoch) / static_cast<double>(epochs);
    check(aster_ml_optimizer_set_rate(adam.get(), kRate * left));
    shuffle(order.data(), kTrained);
    for (size_t i = 0; i + kBatch <= kTrained; i += kBatch) {
      gather(step.images(), step.labels(), digits, &order[i], kBatch);
      out.loss = step.run();
      if (out.steps++ == 0) out.first_step_ms = now_ms() - start;
      if (record != nullptr) record->step_loss.push_back(out.loss);
    }
    if (record != nullptr) {
      const double paused = now_ms();
      record->steps_per_epoch = out.steps / (epoch + 1);
      record->probabilities = network.probabilities(record->pixels);
      record->epoch_accuracy.push_back(accuracy_of(*record));
      start += now_ms() - paused;
    }
    progress.show(epoch + 1, out.loss);
  }
  out.train_ms = now_ms() - start;
  out.kernels = step.kernels();
  out.bytes = step.bytes();
  return out;
}

// ---- The command ----

// Where the network is saved: the file the user names, else one that goes with the command.
class SaveFile {
 public:
  explicit SaveFile(const Arguments& arguments) : keep_(arguments.has("save")) {
    const std::string name = "aster-digits-" + std::to_string(getpid()) + ".safetensors";
    std::error_code error;
    path_ = keep_ ? fs::path(arguments.get("save", "")) : fs::temp_directory_path(error) / name;
  }
  ~SaveFile() {
    std::error_code ignored;
    if (!keep_) fs::remove(path_, ignored);
  }
  SaveFile(const SaveFile&) = delete;
  SaveFile& operator=(const SaveFile&) = delete;
  const fs::path& path() const { return path_; }
  uint64_t size() const {
    std::error_code error;
    const uint64_t bytes = fs::file_size(path_, error);
    return error ? 0 : bytes;
  }
  bool kept() const { return keep_; }

 private:
  bool keep_;
  fs::path path_;
};

// The predictions of a network made anew from the file.
std::vector<int32_t> predict_reloaded(const aster_ml_context* context, const fs::path& path,
                                      const std::vector<float>& pixels) {
  Network network(context);
  State saved;
  check(aster_ml_state_read(saved.get(), context, path.c_str()));
  check(aster_ml_state_load(network.state(), saved.get()));
  return network.predict(pixels);
}

struct Result {
  Trained trained;
  int64_t epochs = 0, parameters = 0;
  size_t right = 0;
  bool reload_identical = false;
  uint64_t file_bytes = 0;
  std::string saved;  // the file, if it is kept
  aster_ml_engine_counters counters{};

  double accuracy() const { return static_cast<double>(right) / kTested; }
  double step_ms() const {
    const double rest = trained.train_ms - trained.first_step_ms;
    return trained.steps > 1 ? rest / static_cast<double>(trained.steps - 1) : 0;
  }
};

void print_json(const Result& r) {
  const aster_ml_engine_counters& c = r.counters;
  Json out;
  out.set("test_accuracy", r.accuracy()).set("test_right", r.right).set("test_count", kTested);
  out.set("reload_identical", r.reload_identical).set("epochs", r.epochs);
  out.set("steps", r.trained.steps).set("parameters", r.parameters).set("loss", r.trained.loss);
  out.set("train_ms", r.trained.train_ms).set("first_step_ms", r.trained.first_step_ms);
  out.set("step_ms", r.step_ms()).set("step_kernels", r.trained.kernels);
  out.set("kernels", c.kernels_scheduled).set("kernels_compiled", c.kernels_compiled);
  out.set("cache_hits", c.kernels_cached).set("kernels_launched", c.kernels_launched);
  out.set("schedule_hits", c.schedule_hits).set("schedule_misses", c.schedule_misses);
  out.set("schedule_ms", c.schedule_ms).set("compile_ms", c.compile_ms);
  out.set("planned_bytes", c.planned_bytes).set("step_bytes", r.trained.bytes);
  out.set("interpreted", c.interpreted).set("file_bytes", r.file_bytes).set("file", r.saved);
  std::printf("%s\n", out.text().c_str());
}

void print_text(const Result& r) {
  const aster_ml_engine_counters& c = r.counters;
  const auto wide = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("accuracy   %.2f %%: %zu of %zu test digits\n", r.accuracy() * 100, r.right, kTested);
  std::printf("saved      %.1f kB as safetensors%s%s, read back: %s predictions\n",
              static_cast<double>(r.file_bytes) / 1e3, r.saved.empty() ? "" : " in ",
              r.saved.c_str(), r.reload_identical ? "the same" : "OTHER");
  std::printf("trained    %.0f ms: the first of %lld steps %.0f ms, the others %.2f ms each\n",
              r.trained.train_ms, static_cast<long long>(r.trained.steps), r.trained.first_step_ms,
              r.step_ms());
  std::printf("scheduled  %llu kernels, %zu a step, in %.0f ms; %llu schedules, %llu found again\n",
              wide(c.kernels_scheduled), r.trained.kernels, c.schedule_ms, wide(c.schedule_misses),
              wide(c.schedule_hits));
  std::printf("compiled   %llu kernels, %llu from the cache, in %.0f ms\n",
              wide(c.kernels_compiled), wide(c.kernels_cached), c.compile_ms);
  std::printf("planned    %s for temporaries, %s a step\n", megabytes(c.planned_bytes).c_str(),
              megabytes(r.trained.bytes).c_str());
}

std::vector<DigitsRun::Figure> figures(const Result& r) {
  const aster_ml_engine_counters& c = r.counters;
  const auto text = [](const char* format, double value) {
    char out[80];
    std::snprintf(out, sizeof(out), format, value);
    return std::string(out);
  };
  const auto count = [](uint64_t value) { return std::to_string(value); };
  return {
      {"Accuracy", text("%.2f %%", r.accuracy() * 100),
       count(r.right) + " of " + count(kTested) + " test digits"},
      {"Training", text("%.2f s", r.trained.train_ms / 1e3),
       count(static_cast<uint64_t>(r.epochs)) + " epochs, " +
           count(static_cast<uint64_t>(r.trained.steps)) + " steps of " + count(kBatch)},
      {"A step", text("%.2f ms", r.step_ms()),
       text("the first %.0f ms, with scheduling and compiling", r.trained.first_step_ms)},
      {"Kernels", count(r.trained.kernels), "a training step: forward, backward, Adam"},
      {"Compiled", text("%.0f ms", c.compile_ms),
       count(c.kernels_compiled) + " kernels compiled, " + count(c.kernels_cached) +
           " from the cache"},
      {"Scheduled", text("%.0f ms", c.schedule_ms),
       count(c.schedule_misses) + " schedules, " + count(c.schedule_hits) + " found again"},
      {"Memory", megabytes(r.trained.bytes), "that a step works in"},
      {"Network", count(static_cast<uint64_t>(r.parameters)),
       "parameters, " + text("%.1f kB saved", static_cast<double>(r.file_bytes) / 1e3)},
  };
}

Result run(const Arguments& arguments, DigitsRun* record) {
  const Digits digits = read_digits(arguments.get("data", default_data().string()));
  const int64_t seed = arguments.number("seed", 42, 0, INT32_MAX);
  Result out;
  out.epochs = arguments.number("epochs", 20, 1, 10000);
  aster_ml_context_options options{};
  options.struct_size = sizeof(options);
  options.threads = static_cast<int32_t>(arguments.number("threads", 0, 0, 1024));
  options.seed = static_cast<uint64_t>(seed);
  if (!arguments.json) {
    options.log = [](void*, int32_t, const char* message) {
      std::fprintf(stderr, "aster: %s\n", message);
    };
  }
  Context context;
  check(aster_ml_context_init(context.get(), &options));

  Shuffle shuffle(static_cast<uint64_t>(seed));
  std::vector<size_t> order(kDigits);
  std::iota(order.begin(), order.end(), size_t{0});
  shuffle(order.data(), kDigits);
  std::vector<float> pixels(kTested * kPixels);
  std::vector<int32_t> labels(kTested);
  gather(pixels.data(), labels.data(), digits, &order[kTrained], kTested);

  Network network(context.get());
  out.parameters = network.parameters();
  if (!arguments.json) {
    std::printf("digits     %zu to learn from, %zu held out\n", kTrained, kTested);
    std::printf(
        "network    two of (conv 3x3, batch norm, relu, max pool), linear: %lld parameters\n",
        static_cast<long long>(out.parameters));
  }
  if (record != nullptr) {
    record->pixels = pixels;
    record->labels = labels;
  }
  out.trained =
      train(context.get(), network, digits, order, out.epochs, shuffle, arguments.json, record);
  const std::vector<int32_t> read = network.predict(pixels);
  for (size_t i = 0; i < kTested; ++i) out.right += read[i] == labels[i];

  const SaveFile file(arguments);
  check(aster_ml_state_write(network.state(), file.path().c_str()));
  out.file_bytes = file.size();
  if (file.kept()) out.saved = file.path().string();
  out.reload_identical = predict_reloaded(context.get(), file.path(), pixels) == read;
  out.counters.struct_size = sizeof(out.counters);
  check(aster_ml_engine_count(&out.counters, context.get()));
  return out;
}

}  // namespace

std::vector<Lazy> digits_step(const aster_ml_context* context) {
  const int64_t shape[] = {kBatch, kPixels};
  Network network(context);
  Optimizer adam;
  Lazy images, labels;
  std::vector<Lazy> out(1);
  check(aster_ml_adam_init(adam.get(), network.state(), nullptr));
  check(aster_ml_lazy_empty(images.get(), context, ASTER_ML_DTYPE_FLOAT32, 2, shape));
  check(aster_ml_lazy_empty(labels.get(), context, ASTER_ML_DTYPE_INT32, 1, shape));
  const Lazy logits = network.run(images, true);
  check(aster_ml_lazy_cross_entropy(out[0].get(), logits.get(), labels.get(), nullptr));
  std::vector<Lazy> trained = network.trained(), gradients(trained.size());
  std::vector<const aster_ml_lazy*> targets, by;
  for (const Lazy& tensor : trained) targets.push_back(tensor.get());
  std::vector<aster_ml_lazy> made(trained.size());
  check(aster_ml_gradient(made.data(), out[0].get(), targets.data(), made.size(), nullptr));
  for (size_t i = 0; i < made.size(); ++i) {
    *gradients[i].get() = made[i];
    by.push_back(gradients[i].get());
  }
  check(aster_ml_optimizer_schedule_by(adam.get(), by.data(), by.size()));
  for (Lazy& tensor : network.trained()) out.push_back(std::move(tensor));
  return out;
}

int demo_digits(const Arguments& arguments) {
  // Before the work: a file that cannot be written is known at once.
  std::unique_ptr<NewFile> file;
  if (arguments.has("html")) file = std::make_unique<NewFile>(arguments.get("html", ""));
  DigitsRun record;
  const Result result = run(arguments, file ? &record : nullptr);
  if (file) {
    record.figures = figures(result);
    record.network =
        "A network of two convolutions with batch norm, relu and max pooling, and a "
        "linear layer learnt from " +
        std::to_string(kTrained) + " images of 8 by 8 pixels and was tested on " +
        std::to_string(kTested) + " that it had not seen.";
    file->write(digits_page(record));
  }
  arguments.json ? print_json(result) : print_text(result);
  if (!result.reload_identical) throw Failure{1, "the network read back predicts otherwise"};
  if (result.accuracy() < kNeeded && !arguments.has("epochs") && !arguments.has("seed")) {
    throw Failure{1, "the network learnt too little"};
  }
  return 0;
}

}  // namespace cli
